//! What goes out: once, in order, and with its end written down.

mod killed;

use serde_json::{Value, json};
use thoughtstream_channels::rehearsal::{Item, Manner, Message, MessageRef, Scripted};
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::contract::Contract;
use thoughtstream_domain::dispatch::{self, Standing};
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Envelope};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::IdempotencyKey;
use thoughtstream_domain::lifecycle::{AdapterRevision, Execution, Frame, Output};
use thoughtstream_domain::operate;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::{DeliveryDelivered, Reconciled};
use thoughtstream_domain::payload::judgment::{Opinion, TrainingExample};
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::payload::output::MessageObservation;
use thoughtstream_domain::payload::run::RunStamp;
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{backup, export};

use super::*;
use crate::killpoint::{KillAction, KillPoint, Trap};

const BOT: &str = "telegram:garden";
const DELIVERIES: &str = "delivery:garden";

async fn written(service: &Service, commit: Commit) {
    let verdict = service.handle().0.log.commit(commit).await.unwrap();
    assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
}

/// Completes a run of `agent` on `trigger` that says `said`, as a consumer would.
async fn complete(service: &Service, agent: &str, trigger: &Event, said: Value) {
    let now = Timestamp::from_millis(1);
    let frame = Frame {
        consumer: consumer(agent),
        fingerprint: Sha256Hash::of(b"declaration"),
        privacy_floor: Privacy::Sensitive,
        incarnation: service.handle().incarnation(),
        now,
        adapter: AdapterRevision::observer_cell(),
    };
    let mut execution = Execution::fix(&frame, std::slice::from_ref(trigger));
    let opened = execution.open(&frame, 0);
    let stamp: RunStamp = {
        let started: Value = serde_json::from_slice(opened.appends[1].payload().reveal()).unwrap();
        serde_json::from_value(started["stamp"].clone()).unwrap()
    };
    written(service, opened).await;
    let output = json!({
        "stamp": stamp, "contract": "stream.thought.output.observation@1", "contractHash": Contract::observation().hash(),
        "mode": "conversation-text", "snapshot": Sha256Hash::of(b"s"),
        "provenance": { "provider": "p", "model": "m" }, "observation": said,
    });
    let output = Output { kind: MessageObservation::kind(), payload: output, address: None };
    let settled = execution.complete(&frame, now, &service.handle().registry(), vec![output]).unwrap();
    written(service, settled).await;
}

fn reply(text: &str) -> Value {
    json!({ "summary": text, "tags": ["conversation"], "importance": "normal", "confidence": 0.5 })
}

/// Lets Ada write, and an answer be settled.
async fn answered(bench: &Bench, service: &Service, text: &str) {
    let before = events(service, BOT, "message").len();
    bench.telegram.say(ADA, ADA, "a question");
    let messages = until(service, BOT, "message", before + 1).await;
    complete(service, "talk", messages.last().unwrap(), reply(text)).await;
}

fn standing(service: &Service) -> Vec<&'static str> {
    let events = events(service, DELIVERIES, "");
    events.iter().map(|event| dispatch::read(event).unwrap().1.state().as_str()).collect()
}

fn sent(bench: &Bench) -> Vec<String> {
    let sent = bench.telegram.sent_messages();
    assert!(sent.iter().all(|message| message.chat == ADA && message.parse_mode.is_none()));
    sent.iter().map(|message| message.text.reveal().clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_arrive_once_in_order_as_they_are_and_with_a_receipt() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    let texts = ["a lone *, a ` and [x](", "second", "שלום \u{202e}🌱", &"x".repeat(4096)];
    for text in texts {
        answered(&bench, &service, text).await;
    }
    let receipts = until(&service, DELIVERIES, "delivered", texts.len()).await;
    assert_eq!(sent(&bench), texts);
    let messages = events(&service, BOT, "message");
    for (receipt, message) in receipts.iter().zip(&messages) {
        let delivered: DeliveryDelivered = receipt.payload_as().unwrap();
        assert_eq!(delivered.binding.root, message.id);
        assert_eq!(delivered.binding.sender, Some(SenderId::new(ADA)));
        let output = service.handle().reader().event(&delivered.binding.output).unwrap().unwrap();
        let said: MessageObservation = output.payload_as().unwrap();
        assert_eq!((delivered.binding.chat, delivered.binding.run), (ChatId::new(ADA), said.stamp.run));
        assert!(delivered.message.is_some() && receipt.root == message.id);
    }
    bench.stop(service).await;
    // Nothing is sent again by another start.
    let service = bench.start().await;
    answered(&bench, &service, "last").await;
    until(&service, DELIVERIES, "delivered", texts.len() + 1).await;
    assert_eq!(sent(&bench).len(), texts.len() + 1);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_configured_proposal_takes_attention() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    let mut notes = Vec::new();
    for number in 0..3 {
        let note = Note { text: "frost".to_owned(), title: None, tags: Vec::new() };
        let key = IdempotencyKey::parse(&format!("note-{number}")).unwrap();
        let actor = EventActor::ours(ActorKind::Person, "uid:1");
        let candidate = note.candidate(Envelope::new(source("notes:garden"), key, Privacy::Private, actor));
        written(&service, Commit { appends: vec![candidate], ..Commit::default() }).await;
        notes.push(events(&service, "notes:garden", "").pop().unwrap());
    }
    let asking = json!({
        "summary": "cover the seedlings", "tags": ["notify-ada"], "importance": "high", "confidence": 0.9,
        "recommendation": { "target": "ada-telegram", "reason": "frost", "proposedAction": "notify" },
    });
    let mut quiet = asking.clone();
    quiet["importance"] = "normal".into();
    complete(&service, "watch", &notes[0], quiet).await;
    // One who answers does not propose.
    complete(&service, "talk", &notes[1], asking.clone()).await;
    complete(&service, "watch", &notes[2], asking).await;
    until(&service, DELIVERIES, "delivered", 1).await;
    assert_eq!(sent(&bench), ["cover the seedlings"]);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_taken_is_tried_again_and_what_was_refused_is_not() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    bench.refuse("sendMessage", 429, Some(1), 1);
    answered(&bench, &service, "patience").await;
    answered(&bench, &service, "behind it").await;
    until(&service, DELIVERIES, "delivered", 2).await;
    assert_eq!(sent(&bench), ["patience", "behind it"], "what is behind it waits");
    assert_eq!(standing(&service)[..4], ["claimed", "waiting", "claimed", "delivered"]);
    bench.refuse("sendMessage", 400, None, 1);
    answered(&bench, &service, "cannot be parsed").await;
    let failed = until(&service, DELIVERIES, "failed", 2).await;
    assert!(matches!(dispatch::read(&failed[1]).unwrap().1, Standing::Failed { .. }));
    answered(&bench, &service, "goes on").await;
    until(&service, DELIVERIES, "delivered", 3).await;
    assert_eq!(sent(&bench), ["patience", "behind it", "goes on"]);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_was_replaced_is_used_for_the_next_message() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    answered(&bench, &service, "with the first").await;
    until(&service, DELIVERIES, "delivered", 1).await;
    bench.telegram.say(ADA, ADA, "a question");
    let messages = until(&service, BOT, "message", 2).await;
    *bench.token.lock().unwrap() = "100000001:another".to_owned();
    complete(&service, "talk", &messages[1], reply("with another")).await;
    until(&service, DELIVERIES, "failed", 1).await;
    *bench.token.lock().unwrap() = TOKEN.to_owned();
    answered(&bench, &service, "with the right one").await;
    until(&service, DELIVERIES, "delivered", 2).await;
    assert_eq!(sent(&bench), ["with the first", "with the right one"]);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_knows_waits_for_a_person() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    bench.refuse("sendMessage", 500, None, 1);
    answered(&bench, &service, "perhaps").await;
    let unconfirmed = until(&service, DELIVERIES, "unconfirmed", 1).await;
    answered(&bench, &service, "next").await;
    until(&service, DELIVERIES, "delivered", 1).await;
    assert_eq!(sent(&bench), ["next"], "it is not sent again by itself");
    let operator = Operator { uid: 1, pid: 2, tty: None };
    let decide = |key: &str| {
        let key = IdempotencyKey::parse(key).unwrap();
        let now = Timestamp::from_millis(5);
        dispatch::reconcile(&unconfirmed[0], Reconciled::Resend, operator.clone(), now, key).unwrap()
    };
    written(&service, decide("decision/1")).await;
    until(&service, DELIVERIES, "delivered", 2).await;
    assert_eq!(sent(&bench), ["next", "perhaps"]);
    // A second word on the same matter comes too late.
    let again = service.handle().0.log.commit(decide("decision/2")).await.unwrap();
    assert!(matches!(again, Verdict::Conflict(_) | Verdict::Refused(_)), "{again:?}");
    assert_eq!(sent(&bench).len(), 2);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_thinks_of_a_reply_becomes_a_judgment() {
    let bench = Bench::new().await;
    let service = bench.start().await;
    answered(&bench, &service, "four rows").await;
    let receipt = until(&service, DELIVERIES, "delivered", 1).await.remove(0);
    let thumb = |emoji: &str| {
        let (message, emoji) = (MessageRef::LastReply, Some(emoji.to_owned()));
        Item::Reaction { chat: ADA, from: ADA, message, emoji }
    };
    let judgments = |service: &Service| -> Vec<TrainingExample> {
        let found = events(service, "system:decisions", "training-example");
        found.iter().map(|event| event.payload_as().unwrap()).collect()
    };
    bench.telegram.happen(&Scripted::new(thumb("👎")));
    until(&service, "system:decisions", "training-example", 1).await;
    let text = "/correct five rows".to_owned();
    let bound = Message { reply_to: Some(MessageRef::LastReply), ..Message::text(ADA, ADA, text) };
    bench.telegram.happen(&Scripted::new(Item::Message(bound)));
    until(&service, "system:decisions", "training-example", 2).await;
    // Neither the bare command nor one about somebody's own message judges anything.
    bench.telegram.say(ADA, ADA, "/correct");
    let own = Message { reply_to: Some(MessageRef::Number(1)), ..Message::text(ADA, ADA, "/correct x") };
    bench.telegram.happen(&Scripted::new(Item::Message(own)));
    until(&service, BOT, "correction", 3).await;
    answered(&bench, &service, "another").await;
    until(&service, DELIVERIES, "delivered", 2).await;
    bench.telegram.happen(&Scripted::new(thumb("👍")));
    until(&service, "system:decisions", "training-example", 3).await;
    let message = bench.telegram.last_reply(ADA).unwrap();
    let taken_back = json!({ "update_id": 900, "message_reaction": {
        "chat": { "id": ADA }, "user": { "id": ADA }, "message_id": message, "date": 1,
        "old_reaction": [{ "type": "emoji", "emoji": "👍" }], "new_reaction": [],
    } });
    bench.telegram.happen(&Scripted::new(Item::Raw(Content::new(taken_back.to_string()))));
    until(&service, "system:decisions", "retracted", 1).await;
    let judged = judgments(&service);
    let words: Vec<&str> = judged.iter().map(|judgment| judgment.opinion.as_str()).collect();
    assert_eq!(words, ["reject", "correct", "accept"]);
    let Opinion::Correct { replacement } = &judged[1].opinion else { panic!("{:?}", judged[1]) };
    assert_eq!((replacement.summary(), replacement.tags()), ("five rows", &["conversation".to_owned()][..]));
    assert_eq!(judged[1].delivery, Some(receipt.id));
    assert!(judged[1].supersedes.is_some());
    assert!(judged.iter().all(|judgment| judgment.quality_eligible && !judgment.external_export_eligible));
    bench.stop(service).await;
}

/// Puts a log made from a copy in the place of the one that is there.
fn becomes_a_copy(bench: &Bench, through_lines: bool) {
    let place = |name: &str| bench.directory.path().join(name);
    let (data, copy, made) = (place("data"), place("copy"), place("made"));
    let (mark, now, options) = ([9; 16], Timestamp::from_millis(9), Options::default());
    let store = Store::open(&data, options).unwrap();
    if through_lines {
        let mut lines = Vec::new();
        export::export(&store.reader, &mut lines, &mut |_, _| ()).unwrap();
        export::import(&mut &lines[..], &made, mark, now, options).unwrap();
    } else {
        backup::back_up(&store.reader, &copy, &mut |_, _| ()).unwrap();
        backup::restore(&copy, &made, mark, now, options).unwrap();
        std::fs::remove_file(&copy).unwrap();
    }
    drop(store);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&made, &data).unwrap();
}

/// Lets the one who answers go on, as a person does.
async fn resumed(service: &Service) {
    let talk = consumer("talk").id;
    let control = service.handle().reader().control(&talk).unwrap();
    let operator = Operator { uid: 1, pid: 2, tty: None };
    let key = IdempotencyKey::parse("decision/resumed").unwrap();
    written(service, operate::resume(&talk, control.as_ref(), operator, key).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_due_in_the_log_that_this_one_is_a_copy_of_waits_for_a_person() {
    for through_lines in [false, true] {
        let bench = Bench::new().await;
        let service = bench.start().await;
        bench.refuse("sendMessage", 429, Some(3_600), 1);
        answered(&bench, &service, "tried").await;
        until(&service, DELIVERIES, "failed", 1).await;
        answered(&bench, &service, "behind it").await;
        bench.stop(service).await;
        becomes_a_copy(&bench, through_lines);
        let service = bench.start().await;
        let held = until(&service, DELIVERIES, "unconfirmed", 2).await;
        for event in &held {
            let Standing::Unconfirmed { code } = dispatch::read(event).unwrap().1 else { panic!() };
            assert_eq!(code, "restored");
        }
        // What comes now is sent, and what a person wants sent.
        resumed(&service).await;
        answered(&bench, &service, "now").await;
        until(&service, DELIVERIES, "delivered", 1).await;
        assert_eq!(sent(&bench), ["now"]);
        let operator = Operator { uid: 1, pid: 2, tty: None };
        let key = IdempotencyKey::parse("decision/resend").unwrap();
        let now = Timestamp::from_millis(5);
        let word = dispatch::reconcile(&held[0], Reconciled::Resend, operator, now, key).unwrap();
        written(&service, word).await;
        until(&service, DELIVERIES, "delivered", 2).await;
        assert_eq!(sent(&bench), ["now", "tried"]);
        bench.stop(service).await;
        let service = bench.start().await;
        answered(&bench, &service, "later").await;
        until(&service, DELIVERIES, "delivered", 3).await;
        assert_eq!(sent(&bench).len(), 3, "and never by itself");
        bench.stop(service).await;
    }
}

/// Ends a service at once while the bot's host holds the answer to a message back, and lets the answer go after that.
async fn ended_on_the_way() -> Bench {
    let bench = Bench::new().await;
    let service = bench.start().await;
    let hold = Manner { hold: Some("answer".to_owned()), ..Manner::default() };
    bench.telegram.add_telegram_rule(TelegramRule::bringing("held", "sendMessage", hold));
    answered(&bench, &service, "on its way").await;
    bench.telegram.until_held("answer", 1).await;
    service.stop();
    service.stop();
    service.ended().await;
    drop(service);
    bench.telegram.release("answer");
    bench
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_copied_is_nobodys_who_lives_here() {
    let bench = ended_on_the_way().await;
    // Whatever number its first start has: nobody who runs on a copy holds a claim that is in it.
    becomes_a_copy(&bench, true);
    let service = bench.start().await;
    let left = until(&service, DELIVERIES, "unconfirmed", 1).await.remove(0);
    assert_eq!(dispatch::read(&left).unwrap().0.claim, 1);
    resumed(&service).await;
    answered(&bench, &service, "next").await;
    until(&service, DELIVERIES, "delivered", 1).await;
    assert!(sent(&bench).iter().filter(|text| *text == "on its way").count() <= 1);
    bench.stop(service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_ends_while_a_message_is_on_its_way_leaves_it_to_a_person() {
    let bench = ended_on_the_way().await;
    let service = bench.start().await;
    until(&service, DELIVERIES, "unconfirmed", 1).await;
    answered(&bench, &service, "next").await;
    until(&service, DELIVERIES, "delivered", 1).await;
    let arrived = sent(&bench);
    assert!(arrived.iter().filter(|text| *text == "on its way").count() <= 1, "{arrived:?}");
    bench.stop(service).await;
}
