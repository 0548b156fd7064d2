//! The fake Telegram: a bot, its chats, the updates that wait for it and the messages it sent.
//!
//! It keeps the promises of the Bot API that a client may lean on (an update waits until a higher offset is asked for,
//! a second poller ends the first, a webhook is told in order until it says yes) and breaks those that a script names.

mod feed;
mod method;
mod update;

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::Value as Json;
use thoughtstream_domain::content::Content;

pub(super) use feed::{deliver, feed};
pub(super) use method::{Asked, Called, Poll, Ready};
pub use update::{After, Image, ImageKind, Item, Message, MessageRef, Scripted};

use super::wire::Manner;

/// The latest messages of the bot are kept; a test or a person looks at a few.
const SENT_MAX: usize = 4096;

/// Is the part of a script that plays Telegram.
#[derive(Debug, Clone)]
pub struct TelegramScript {
    /// The bot's token.
    pub token: Content<String>,
    /// The bot.
    pub bot: Bot,
    /// The only chats the bot may write to; every chat if empty.
    pub chats: Vec<i64>,
    /// The number of the first update.
    pub first_update: i64,
    /// What happens in the chats, in this order.
    pub updates: Vec<Scripted>,
    /// What answers otherwise than Telegram would, the first that matches.
    pub rules: Vec<TelegramRule>,
}

impl Default for TelegramScript {
    fn default() -> Self {
        Self {
            token: Content::new("100000001:rehearsal".to_owned()),
            bot: Bot::default(),
            chats: Vec::new(),
            first_update: 1,
            updates: Vec::new(),
            rules: Vec::new(),
        }
    }
}

/// Is the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bot {
    /// Its id.
    pub id: i64,
    /// Its name for mentions, without the at sign.
    pub username: String,
    /// Its name for people.
    pub name: String,
}

impl Default for Bot {
    fn default() -> Self {
        Self { id: 100_000_001, username: "rehearsal_bot".to_owned(), name: "Rehearsal".to_owned() }
    }
}

/// Is one rule: which calls it answers, and how.
#[derive(Debug, Clone, Default)]
pub struct TelegramRule {
    /// Its name in the counters.
    pub name: String,
    /// Which calls it answers.
    pub when: TelegramWhen,
    /// What it answers.
    pub answer: TelegramAnswer,
}

/// Says which calls a rule answers: those for which all that is said holds.
#[derive(Debug, Clone, Default)]
pub struct TelegramWhen {
    /// The method, such as `sendMessage`; `download` is the fetching of a file.
    pub method: Option<String>,
    /// The call of its method with this number, the first being 1.
    pub nth: Option<u64>,
    /// A text that the call's text contains.
    pub contains: Option<Content<String>>,
    /// The chat it is about.
    pub chat: Option<i64>,
    /// How often the rule answers at most.
    pub times: Option<u64>,
}

/// Is what a rule answers, and how.
#[derive(Debug, Clone, Default)]
pub struct TelegramAnswer {
    /// What is answered.
    pub outcome: Outcome,
    /// Whether the call does what it asks for; if absent, it does when it is answered well.
    pub done: Option<bool>,
    /// How the answer is brought.
    pub manner: Manner,
}

/// Is what a call is answered.
#[derive(Debug, Clone, Default)]
pub enum Outcome {
    /// What Telegram would answer.
    #[default]
    Good,
    /// A refusal in the words of the API.
    Refused {
        /// Its status.
        status: u16,
        /// After how many seconds to come again.
        retry_after: Option<u64>,
    },
    /// A body of the script's own.
    Body {
        /// The status it comes with.
        status: u16,
        /// The bytes.
        bytes: Content<Vec<u8>>,
    },
}

impl TelegramRule {
    /// Makes a rule that refuses a method so many times.
    #[must_use]
    pub fn refusing(name: &str, method: &str, status: u16, times: u64) -> Self {
        let when =
            TelegramWhen { method: Some(method.to_owned()), times: Some(times), ..TelegramWhen::default() };
        let outcome = Outcome::Refused { status, retry_after: None };
        Self { name: name.to_owned(), when, answer: TelegramAnswer { outcome, ..TelegramAnswer::default() } }
    }

    /// Makes a rule that lets a method happen and brings its answer in some manner.
    #[must_use]
    pub fn bringing(name: &str, method: &str, manner: Manner) -> Self {
        let when = TelegramWhen { method: Some(method.to_owned()), ..TelegramWhen::default() };
        Self { name: name.to_owned(), when, answer: TelegramAnswer { manner, ..TelegramAnswer::default() } }
    }
}

/// Is a message of the bot that arrived in a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SentMessage {
    /// The chat.
    pub chat: i64,
    /// The message's number in it.
    pub message: i64,
    /// What it says.
    #[serde(serialize_with = "revealed")]
    pub text: Content<String>,
    /// The message it replies to.
    pub reply_to: Option<i64>,
    /// How the text is to be read, if not as it is.
    pub parse_mode: Option<String>,
}

/// Shows what the bot said: whoever rehearses asks for it.
fn revealed<S: serde::Serializer>(text: &Content<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text.reveal())
}

/// Counts what was asked of Telegram.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TelegramCounters {
    /// Calls by method.
    pub methods: BTreeMap<String, u64>,
    /// Calls by the rule that answered them.
    pub rules: BTreeMap<String, u64>,
    /// Calls with a token that is not the bot's.
    pub unauthorized: u64,
    /// Pollers that were ended by another.
    pub conflicts: u64,
    /// Updates that were made.
    pub updates: u64,
    /// Updates that still wait for the bot.
    pub waiting: u64,
    /// Updates that the bot did not ask for and so never saw.
    pub withheld: u64,
    /// Scripted updates that have not happened yet.
    pub to_come: u64,
    /// Messages that arrived in a chat.
    pub sent: u64,
    /// What the webhook answered, by status; 0 stands for no answer.
    pub webhook: BTreeMap<u16, u64>,
    /// What the webhook answered to forged updates, by status.
    pub forged: BTreeMap<u16, u64>,
}

/// Is a fake Telegram at work.
#[derive(Debug)]
pub(super) struct Telegram {
    pub(super) script: TelegramScript,
    pub(super) counters: TelegramCounters,
    pub(super) sent: VecDeque<SentMessage>,
    next_update: i64,
    queue: VecDeque<Queued>,
    /// Rises with every poller; only the latest is answered.
    poller: u64,
    /// The kinds of update the bot asked for; the usual ones if it never did.
    allowed: Option<Vec<String>>,
    webhook: Option<Webhook>,
    chats: BTreeMap<i64, Chat>,
    files: BTreeMap<String, File>,
    commands: Json,
}

/// Is an update that waits for the bot.
#[derive(Debug, Clone)]
struct Queued {
    id: i64,
    update: Content<String>,
    /// The member it is made of, such as `message`.
    kind: String,
    /// How often it is handed out at once.
    copies: u32,
    /// How often it comes once more after it was confirmed.
    again: u32,
    /// Set when it was confirmed and comes once more.
    is_replay: bool,
}

/// Is where updates are posted.
#[derive(Debug, Clone)]
struct Webhook {
    url: String,
    secret: Option<Content<String>>,
}

#[derive(Debug, Default)]
struct Chat {
    latest: i64,
    /// Every message as the API shows it, by its number.
    messages: BTreeMap<i64, Content<String>>,
    /// What everybody's reaction is, by the message's number and who reacted.
    reactions: BTreeMap<(i64, i64), String>,
    replies: u64,
    last_reply: Option<i64>,
    last_said: Option<i64>,
}

#[derive(Debug)]
struct File {
    path: String,
    bytes: Content<Vec<u8>>,
    claims: u64,
}

/// The kinds of update that a bot must ask for by name.
const ONLY_IF_ASKED: [&str; 3] = ["chat_member", "message_reaction", "message_reaction_count"];

impl Telegram {
    pub(super) fn new(script: TelegramScript) -> Self {
        let counters =
            TelegramCounters { to_come: script.updates.len() as u64, ..TelegramCounters::default() };
        Self {
            next_update: script.first_update,
            script,
            counters,
            sent: VecDeque::new(),
            queue: VecDeque::new(),
            poller: 0,
            allowed: None,
            webhook: None,
            chats: BTreeMap::new(),
            files: BTreeMap::new(),
            commands: Json::Array(Vec::new()),
        }
    }

    /// Returns how many messages of the bot arrived in a chat.
    pub(super) fn replies(&self, chat: i64) -> u64 {
        self.chats.get(&chat).map_or(0, |chat| chat.replies)
    }

    /// Returns the number of the bot's latest message in a chat.
    pub(super) fn last_reply(&self, chat: i64) -> Option<i64> {
        self.chats.get(&chat).and_then(|chat| chat.last_reply)
    }

    /// Returns the updates that wait, as the counters say it.
    pub(super) fn counters(&self) -> TelegramCounters {
        TelegramCounters { waiting: self.queue.len() as u64, ..self.counters.clone() }
    }

    fn keep(&mut self, message: SentMessage) {
        self.counters.sent += 1;
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(message);
    }

    fn is_allowed(&self, kind: &str) -> bool {
        match &self.allowed {
            Some(kinds) if !kinds.is_empty() => kinds.iter().any(|known| known == kind),
            _ => !ONLY_IF_ASKED.contains(&kind),
        }
    }

    /// Drops what the bot did not ask for, before anything is handed out.
    fn withhold(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        let before = queue.len();
        queue.retain(|queued| self.is_allowed(&queued.kind));
        self.counters.withheld += (before - queue.len()) as u64;
        self.queue = queue;
    }
}
