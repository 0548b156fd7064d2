//! Two messages within a second: each is composed only when it is known what became of the reply before it.

use serde_json::Value;
use thoughtstream_channels::rehearsal::{
    Answer as Reply, Cut, CutAt, CutHow, Image, ImageKind, Item, Manner, Message, Outcome, Rehearsal, Rule,
    Script, Scripted, TelegramAnswer, TelegramRule, TelegramWhen,
};
use thoughtstream_domain::content::Content;
use tokio::runtime::Runtime;

use crate::cli_trouble::{PRIVACY, forge};
use crate::cli_world::World;

const BOT: &str = "telegram:garden";

/// A world with a bot whose messages the shipped conversation answers.
pub(crate) struct Chat {
    pub(crate) world: World,
    pub(crate) rehearsal: Rehearsal,
    pub(crate) runtime: Runtime,
}

impl Chat {
    pub(crate) fn new(script: Script) -> Self {
        Self::showing(script, "")
    }

    /// Makes a world whose provider's profile says this as well.
    fn showing(script: Script, more: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let rehearsal = runtime.block_on(Rehearsal::start(script)).unwrap();
        let world = World::with_config();
        std::fs::remove_dir_all(&world.data).unwrap();
        world.thought(&["rehearsal", "create"]).expect(0);
        let config = format!(
            "sources: []\nproviders:\n  - {{ name: local, endpoint: {}, models: [smollm2-135m-instruct], \
             toolModels: [smollm2-135m-instruct], enforces: [json-object, json-schema]{more} }}\n\
             telegram:\n  - bot: garden\n    api: {}\n    credential: telegram-garden\n    chats: [\"7\", \"9\"]\n    \
             senders: [\"7\"]\n    directReplies: talk\n",
            rehearsal.provider_url, rehearsal.telegram_url,
        );
        std::fs::write(world.config.join("config.yaml"), config).unwrap();
        let declarations = world.config.join("declarations");
        let shipped = std::fs::read_to_string(declarations.join("telegram-conversation.yaml")).unwrap();
        for name in std::fs::read_dir(&declarations).unwrap() {
            std::fs::remove_file(name.unwrap().path()).unwrap();
        }
        let talk = shipped
            .replace("id: telegram-conversation", "id: talk")
            .replace("telegram:bot", BOT)
            .replace("replay: now", "replay: beginning")
            .replacen("enabled: false", "enabled: true", 1);
        std::fs::write(declarations.join("talk.yaml"), talk).unwrap();
        let credentials = world.config.join("credentials");
        std::fs::create_dir_all(&credentials).unwrap();
        let file = credentials.join("telegram-garden");
        std::fs::write(&file, "100000001:rehearsal\n").unwrap();
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Self { world, rehearsal, runtime }
    }

    /// Waits until so many messages are in the log, and returns the id of the last.
    fn heard(&self, count: usize) -> String {
        let list = ["event", "list", "--source", BOT, "--json"];
        let heard = self.world.until(&list, |answer| answer.lines().len() == count);
        heard.lines()[count - 1]["id"].as_str().unwrap().to_owned()
    }

    /// Waits until so many deliveries are in a state.
    pub(crate) fn delivered(&self, state: &str, count: usize) {
        let list = ["delivery", "list", "--json"];
        let is = |one: &Value| one["state"] == state;
        self.world.until(&list, |answer| answer.lines().iter().filter(|one| is(one)).count() == count);
    }

    /// Returns what each request showed the model: the texts behind the system message, in order.
    pub(crate) fn seen(&self) -> Vec<Vec<String>> {
        let requests = self.rehearsal.provider_requests();
        let texts = requests.iter().map(|request| {
            let messages = request.json()["messages"].as_array().unwrap().clone();
            let text = |message: &Value| message["content"].as_str().unwrap().to_owned();
            messages[1..].iter().map(text).collect()
        });
        texts.collect()
    }
}

pub(crate) fn script() -> Script {
    let mut script = Script::answering(Reply::text("to none of them"));
    for said in ["one", "two", "three", "other"] {
        script = script.with_rule(Rule::when_contains(said, said, Reply::text(format!("to {said}"))));
    }
    script
}

fn sending(name: &str, manner: Manner) -> TelegramRule {
    let when =
        TelegramWhen { method: Some("sendMessage".to_owned()), nth: Some(1), ..TelegramWhen::default() };
    TelegramRule {
        name: name.to_owned(),
        when,
        answer: TelegramAnswer { manner, ..TelegramAnswer::default() },
    }
}

#[test]
fn three_quick_messages_are_answered_in_order_and_each_sees_what_was_delivered_before() {
    let chat = Chat::new(script());
    chat.rehearsal
        .add_telegram_rule(sending("held", Manner { hold: Some("gate".to_owned()), ..Manner::default() }));
    let running = chat.world.serve(&[]);
    chat.rehearsal.say(7, 7, "one");
    chat.runtime.block_on(chat.rehearsal.until_held("gate", 1));
    for (to, text) in [(7, "two"), (7, "three"), (9, "other")] {
        chat.rehearsal.say(to, 7, text);
    }
    chat.heard(4);
    let events = chat.world.thought(&["event", "list", "--source", BOT, "--json"]).expect(0).lines();
    let second = events.iter().find(|event| event["payload"]["text"] == "two").unwrap()["id"].clone();
    let why = ["why", second.as_str().unwrap(), "--json"];
    let waits = |answer: &Value| answer["consumers"][0]["state"] == "awaiting-reply";
    let why = chat.world.until(&why, |answer| waits(&answer.json())).json();
    assert!(why["consumers"][0]["next"].is_string(), "{why}");
    let list = ["consumer", "list", "--json"];
    let list = chat.world.until(&list, |answer| answer.lines()[0]["why"] == "awaiting-reply");
    assert_eq!(list.lines()[0]["state"], "behind");
    assert_eq!(chat.rehearsal.provider_requests().len(), 1, "nothing is asked while it waits");

    chat.rehearsal.release("gate");
    chat.delivered("delivered", 4);
    // Whatever a provider enforces: a reply is text, and no form is asked for.
    for request in chat.rehearsal.provider_requests() {
        assert!(request.json().get("response_format").is_none(), "{}", request.json());
    }
    assert_eq!(running.stop(), 0);
    assert_eq!(
        chat.seen(),
        [
            vec!["one"],
            vec!["one", "to one", "two"],
            vec!["one", "to one", "two", "to two", "three"],
            vec!["other"],
        ]
    );
    chat.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_reply_of_which_nobody_knows_whether_it_arrived_holds_nothing_up() {
    let chat = Chat::new(script());
    let cut = Cut { at: CutAt::Request, how: CutHow::Reset };
    chat.rehearsal.add_telegram_rule(sending("cut", Manner { cut: Some(cut), ..Manner::default() }));
    let running = chat.world.serve(&[]);
    chat.rehearsal.say(7, 7, "one");
    chat.rehearsal.say(7, 7, "two");
    chat.delivered("unconfirmed", 1);
    chat.delivered("delivered", 1);
    // Whoever asks about the message is told, and shown the commands; so is who asks about the delivery.
    let events = chat.world.thought(&["event", "list", "--source", BOT, "--json"]).expect(0).lines();
    let first = events.iter().find(|event| event["payload"]["text"] == "one").unwrap()["id"].clone();
    let why = chat.world.thought(&["why", first.as_str().unwrap(), "--json"]).expect(0).json();
    let told = &why["consumers"][0];
    assert!(told["fact"].as_str().unwrap().contains("nobody knows whether it arrived"), "{why}");
    let deliveries = chat.world.thought(&["delivery", "list", "--state", "unconfirmed", "--json"]).expect(0);
    let delivery = deliveries.lines()[0]["id"].as_str().unwrap().to_owned();
    let ways: Vec<String> = ["show", "confirm", "resend", "abandon"]
        .map(|word| format!("thought delivery {word} {delivery}"))
        .into();
    assert_eq!(told["commands"].as_array().unwrap()[..4], ways[..], "{why}");
    let why = chat.world.thought(&["why", &delivery, "--json"]).expect(0).json();
    assert_eq!((&why["kind"], &why["state"]), (&"delivery".into(), &"unconfirmed".into()));
    assert_eq!(why["commands"].as_array().unwrap()[..], ways[..]);
    assert_eq!(running.stop(), 0);
    assert_eq!(chat.seen(), [vec!["one"], vec!["one", "two"]]);
    chat.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_reply_that_a_person_says_has_arrived_is_part_of_the_conversation() {
    let chat = Chat::new(script());
    let cut = Cut { at: CutAt::Request, how: CutHow::Reset };
    let lost = sending("cut", Manner { cut: Some(cut), ..Manner::default() });
    let when = TelegramWhen { nth: None, times: Some(2), ..lost.when };
    chat.rehearsal.add_telegram_rule(TelegramRule { when, ..lost });
    let running = chat.world.serve(&[]);
    // It arrived, and its receipt was lost; the second one is given up, so that nobody is taken to have read it.
    for (word, said, unconfirmed) in [("confirm", "one", 1), ("abandon", "two", 1)] {
        chat.rehearsal.say(7, 7, said);
        chat.delivered("unconfirmed", unconfirmed);
        let list = ["delivery", "list", "--state", "unconfirmed", "--json"];
        let delivery = chat.world.thought(&list).expect(0).lines()[0]["id"].as_str().unwrap().to_owned();
        chat.world.thought(&["delivery", word, &delivery]).expect(0);
    }
    chat.rehearsal.say(7, 7, "three");
    chat.delivered("delivered", 2);
    assert_eq!(running.stop(), 0);
    let seen = chat.seen();
    assert_eq!(seen[1], ["one", "to one", "two"], "{seen:?}");
    assert_eq!(seen[2], ["one", "to one", "two", "three"], "{seen:?}");
    chat.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_message_that_waits_keeps_no_service_from_stopping_and_waits_on_after_it() {
    let chat = Chat::new(script());
    let when = TelegramWhen { method: Some("sendMessage".to_owned()), ..TelegramWhen::default() };
    let outcome = Outcome::Refused { status: 429, retry_after: Some(3600) };
    let answer = TelegramAnswer { outcome, ..TelegramAnswer::default() };
    chat.rehearsal.add_telegram_rule(TelegramRule { name: "busy".to_owned(), when, answer });
    let running = chat.world.serve(&[]);
    chat.rehearsal.say(7, 7, "one");
    chat.delivered("waiting", 1);
    chat.rehearsal.say(7, 7, "two");
    chat.heard(2);
    let list = ["consumer", "list", "--json"];
    let waits = |answer: &super::cli_world::Answer| answer.lines()[0]["why"] == "awaiting-reply";
    chat.world.until(&list, waits);
    assert_eq!(running.stop(), 0);
    assert_eq!(chat.world.thought(&list).expect(0).lines()[0]["behind"]["events"], 1);
    chat.world.thought(&["verify"]).expect(0);
    // A wait is counted from when the reply was settled: however slow this machine is, it ends.
    let running = chat.world.serve(&[]);
    chat.world.until(&list, |answer| answer.lines()[0]["state"] == "idle");
    assert_eq!(running.stop(), 0);
    assert_eq!(chat.seen(), [vec!["one"], vec!["one", "two"]]);
    chat.world.thought(&["verify"]).expect(0);
}

#[test]
fn help_is_answered_under_its_version_and_nobody_is_asked() {
    let chat = Chat::new(script());
    let running = chat.world.serve(&[]);
    chat.rehearsal.say(7, 7, "/help");
    chat.delivered("delivered", 1);
    assert_eq!(chat.rehearsal.provider_requests().len(), 0);
    let sent = chat.rehearsal.sent_messages();
    assert!(sent[0].text.reveal().contains("/help: this text"));
    let account = chat.world.thought(&["account", "show", "talk", "--json"]).expect(0).json();
    for spent in ["charged", "reserved"] {
        assert_eq!(account["ever"][spent]["calls"], 0, "{account}");
    }
    let events = ["event", "list", "--source", "agent:talk", "--json"];
    let events = chat.world.thought(&events).expect(0).lines();
    let of_type = |kind: &str| {
        let mut of_type = events.iter().filter(|event| event["type"] == kind);
        (of_type.next().unwrap()["payload"].clone(), of_type.count())
    };
    let (traced, more) = of_type("stream.thought.run.traced");
    assert_eq!((more, &traced["providerRequests"]), (0, &0.into()));
    let steps: Vec<&Value> = traced["chunks"].as_array().unwrap().iter().collect();
    assert_eq!(steps.len(), 1, "{traced}");
    assert_eq!(steps[0]["code"], "help@2");
    // It is an output like any other: completed, delivered once, and part of the history.
    assert_eq!(of_type("stream.thought.derived.message.observation").1, 0);
    assert_eq!(of_type("stream.thought.run.completed").1, 0);
    // What is not exactly the command is a text.
    let mut asked = 0;
    for text in ["/help@another_bot", "/help me"] {
        chat.rehearsal.say(7, 7, text);
        asked += 1;
        chat.delivered("delivered", 1 + asked);
        assert_eq!(chat.rehearsal.provider_requests().len(), asked);
    }
    assert!(chat.seen()[0].iter().any(|turn| turn == "/help"), "{:?}", chat.seen());
    assert_eq!(running.stop(), 0);
    chat.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_photo_is_shown_to_a_model_that_sees_and_named_to_one_that_does_not() {
    for sees in [true, false] {
        let more = if sees { ", imageModels: [smollm2-135m-instruct]" } else { "" };
        let chat = Chat::showing(script(), more);
        let running = chat.world.serve(&[]);
        let bytes = Content::new(b"\xff\xd8\xff\xe0 a picture \xff\xd9".to_vec());
        let image = Image { bytes, width: 9, height: 6, claims: None, kind: ImageKind::Photo };
        // Below a photo the command is no command: it is about what is to be seen.
        let message = Message { image: Some(image), ..Message::text(7, 7, "/help") };
        chat.rehearsal.happen(&Scripted::new(Item::Message(message)));
        chat.delivered("delivered", 1);
        let requests = chat.rehearsal.provider_requests();
        assert_eq!(requests.len(), 1);
        let messages = requests[0].json()["messages"].as_array().unwrap().clone();
        let (system, current) = (messages[0]["content"].to_string(), &messages.last().unwrap()["content"]);
        let shown = current.to_string().contains("data:image/jpeg;base64,");
        assert_eq!((shown, system.contains("comes with 1 image.")), (sees, sees), "{messages:?}");
        assert_eq!(system.contains("You see no picture"), !sees, "{system}");
        assert!(current.to_string().contains("/help"));
        assert_eq!(running.stop(), 0);
        chat.world.thought(&["verify"]).expect(0);
    }
}

#[test]
fn a_message_that_stands_behind_a_damaged_one_is_held_and_those_of_other_chats_are_answered() {
    let chat = Chat::new(script());
    let running = chat.world.serve(&[]);
    chat.rehearsal.say(7, 7, "one");
    chat.delivered("delivered", 1);
    assert_eq!(running.stop(), 0);
    chat.world.thought(&["compact"]).expect(0);
    let events = ["event", "list", "--source", BOT, "--json"];
    let one = chat.world.thought(&events).expect(0).lines().remove(0);
    forge(&chat.world, one["position"].as_u64().unwrap(), |record| record[PRIVACY] ^= 0x10);

    let running = chat.world.serve(&[]);
    chat.rehearsal.say(9, 7, "other");
    chat.delivered("delivered", 2);
    chat.rehearsal.say(7, 7, "two");
    // Whatever is declared for what cannot be processed, a person decides: nobody is asked, and nothing is sent.
    let inbox = ["inbox", "--json"];
    let held = |one: &Value| one["kind"] == "execution-quarantined";
    let waiting = chat.world.until(&inbox, |answer| answer.lines().iter().any(held)).lines();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0]["why"].as_str().unwrap().contains("log-damaged after 1 attempt"), "{waiting:?}");
    assert_eq!(chat.seen(), [vec!["one"], vec!["other"]]);
    let (row, tree) = (format!("events {}", one["position"]), chat.world.thought(&["tree"]).expect(0).stdout);
    assert!(tree.contains(&row), "the row is named: {row} in {tree}");
    // Passed, it holds nothing up.
    chat.world.thought(&["consumer", "skip", "talk", "--reason", "damaged"]).expect(0);
    chat.rehearsal.say(9, 7, "three");
    chat.delivered("delivered", 3);
    assert_eq!(running.stop(), 0);
    assert_eq!(chat.seen().last().unwrap(), &["other", "to other", "three"]);
    chat.world.thought(&["verify"]).expect(1);
}
