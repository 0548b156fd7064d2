//! A bot and who answers it, through the real program: the provider and Telegram are played on this machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thoughtstream_channels::rehearsal::{
    Answer as Reply, Item, Message, MessageRef, Rehearsal, Script, Scripted,
};
use tokio::runtime::Runtime;

use crate::cli_world::World;

const TOKEN: &str = "100000001:rehearsal";

/// The one who writes to the bot.
pub(crate) const ADA: i64 = 7;

/// A world with a bot, `telegram:garden`, and the declaration `talk` that answers it.
pub(crate) struct Talk {
    pub(crate) world: World,
    pub(crate) telegram: Rehearsal,
    _runtime: Runtime,
}

impl Talk {
    /// Makes one whose model always answers the same.
    pub(crate) fn new(answer: &str) -> Self {
        Self::with(answer, "")
    }

    /// Makes one whose bot has more settings, each line indented by four.
    pub(crate) fn with(answer: &str, settings: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let telegram = runtime.block_on(Rehearsal::start(Script::answering(Reply::text(answer)))).unwrap();
        let world = World::with_config();
        std::fs::remove_dir_all(&world.data).unwrap();
        world.thought(&["rehearsal", "create"]).expect(0);
        let config = format!(
            "sources:\n  - filesystem: notes\n    root: {}\nproviders:\n  - name: local\n    endpoint: {}\n    \
             models: [small]\ntelegram:\n  - bot: garden\n    api: {}\n    credential: telegram-garden\n    \
             chats: [\"7\"]\n    senders: [\"7\"]\n    directReplies: talk\n{settings}",
            world.notes.display(),
            telegram.provider_url,
            telegram.telegram_url,
        );
        std::fs::write(world.config.join("config.yaml"), config).unwrap();
        for name in std::fs::read_dir(world.config.join("declarations")).unwrap() {
            std::fs::remove_file(name.unwrap().path()).unwrap();
        }
        let talk = Self { world, telegram, _runtime: runtime };
        talk.credential("telegram-garden", TOKEN, 0o600);
        let config = talk.world.config.clone();
        talk.declare(&config, 1, "prompts/talk.md", "Answer shortly.");
        talk
    }

    /// Writes a credential.
    pub(crate) fn credential(&self, name: &str, text: &str, mode: u32) {
        let credentials = self.world.config.join("credentials");
        std::fs::create_dir_all(&credentials).unwrap();
        let file = credentials.join(name);
        std::fs::write(&file, format!("{text}\n")).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Writes a version of who answers, with its prompt, below a directory laid out like a configuration.
    pub(crate) fn declare(&self, below: &Path, version: u32, prompt: &str, words: &str) {
        let text = format!(
            "id: talk\nversion: {version}\nenabled: true\ndescription: Answers one bot.\n\
             subscribe:\n  types: [stream.thought.source.telegram.message]\n  sources: [telegram:garden]\n  \
             privacy: [public-source, private, sensitive]\n  replay: now\n\
             context: {{ strategy: telegram-conversation, maxEvents: 40, maxChars: 60000 }}\n\
             runner: {{ kind: pi, provider: local, model: small, timeout: 60s }}\n\
             prompt: {prompt}\noutputMode: conversation-text\n\
             emit: [stream.thought.derived.message.observation]\n\
             accounting:\n  reserve: {{ calls: 1, inputTokens: 60000, outputTokens: 2000 }}\n  lease: 5m\n  \
             limits: [{{ window: day, calls: 1000 }}]\n  onExhaustion: defer\n"
        );
        std::fs::create_dir_all(below.join("declarations")).unwrap();
        std::fs::create_dir_all(below.join("prompts")).unwrap();
        std::fs::write(below.join("declarations/talk.yaml"), text).unwrap();
        std::fs::write(below.join(prompt), format!("{words}\n")).unwrap();
    }

    /// Lays the next version out in a directory of its own; returns its path.
    pub(crate) fn stage(&self, version: u32) -> PathBuf {
        let staged = self.world.base().join(format!("next-{version}"));
        let prompt = format!("prompts/talk-{version}.md");
        self.declare(&staged, version, &prompt, &format!("Answer as version {version}."));
        staged
    }

    /// Lets Ada write.
    pub(crate) fn say(&self, text: &str) {
        self.telegram.say(ADA, ADA, text);
    }

    /// Lets Ada reply to the bot's latest message.
    pub(crate) fn reply(&self, text: &str) {
        let mut message = Message::text(ADA, ADA, text);
        message.reply_to = Some(MessageRef::LastReply);
        self.telegram.happen(&Scripted::new(Item::Message(message))).unwrap();
    }

    /// Waits until so many replies have their receipts; returns the receipts.
    pub(crate) fn until_delivered(&self, replies: usize) -> Vec<Value> {
        let list = [
            "event",
            "list",
            "--source",
            "delivery:garden",
            "--type",
            "stream.thought.delivery.delivered",
            "--json",
        ];
        self.world.until(&list, |answer| answer.code == 0 && answer.lines().len() >= replies).lines()
    }

    /// Returns how often a method of the bot API was called.
    pub(crate) fn calls(&self, method: &str) -> u64 {
        self.telegram.counters().telegram.methods.get(method).copied().unwrap_or_default()
    }

    /// Returns the versions that completed runs, in the order of the runs.
    pub(crate) fn answered_by(&self) -> Vec<String> {
        let list =
            ["event", "list", "--source", "agent:talk", "--type", "stream.thought.run.completed", "--json"];
        let events = self.world.thought(&list).expect(0).lines();
        events
            .iter()
            .map(|event| event["payload"]["stamp"]["consumer"].as_str().unwrap().to_owned())
            .collect()
    }
}
