use serde_json::{Value, json};

use super::*;
use crate::commit::Placed;
use crate::event::Candidate as Written;
use crate::hash::ChainHash;
use crate::id::{EventId, IdempotencyKey, TypeRef};
use crate::payload::delivery::Reconciled;
use crate::payload::run::RunStamp;
use crate::payload::system::Operator;
use crate::payload::telegram::{MessageText, UpdateId};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn source(text: &str) -> SourceId {
    SourceId::parse(text).unwrap()
}

fn routes() -> Routes {
    Routes {
        bot: source("telegram:garden"),
        chats: [ChatId::new(7)].into(),
        senders: [SenderId::new(7)].into(),
        direct: Some(ConsumerId::parse("talk").unwrap()),
        notification: Some(NotificationRoute {
            from: [Origin { agent: ConsumerId::parse("watch").unwrap(), source: source("filesystem:notes") }]
                .into(),
            chat: ChatId::new(9),
            tag: "notify-me".to_owned(),
            target: "my-telegram".to_owned(),
        }),
    }
}

/// Places a candidate behind its first parent.
fn placed(candidate: &Written, position: u64, root: Option<EventId>) -> Event {
    let placed = Placed {
        id: candidate.id(),
        position,
        sequence: position,
        recorded_at: at(i64::try_from(position).unwrap()),
        root: root.unwrap_or(candidate.id()),
        depth: u32::from(root.is_some()),
        chain: ChainHash::from_bytes([0; 32]),
    };
    Event::recorded(candidate, &placed)
}

fn envelope_in(source: &str, key: &str, parent: Option<&Event>) -> Envelope {
    let key = IdempotencyKey::parse(key).unwrap();
    let actor = Actor::ours(ActorKind::System, "test");
    let source = SourceId::parse(source).unwrap();
    Envelope::new(source, key, Privacy::Sensitive, actor)
        .with_parents(parent.map(Parent::of).into_iter().collect())
}

fn message(chat: i64, sender: i64) -> Event {
    let message = TelegramMessage {
        update: UpdateId::new(1),
        chat: ChatId::new(chat),
        sender: SenderId::new(sender),
        message: MessageId::new(3),
        sent_at: at(0),
        text: MessageText::new("hello".to_owned()),
        images: Vec::new(),
        rejected: Vec::new(),
        reply_to: None,
        album: None,
        edited: false,
    };
    placed(&message.candidate(envelope_in("telegram:garden", "update/1", None)), 1, None)
}

fn file() -> Event {
    // Any event will do: a route looks at its source.
    let note = crate::payload::note::Note { text: "x".to_owned(), title: None, tags: Vec::new() };
    placed(&note.candidate(envelope_in("filesystem:notes", "k", None)), 1, None)
}

struct Run {
    completed: Event,
    output: Event,
    trigger: Event,
}

impl Run {
    fn candidate(&self) -> Result<Candidate, Ineligible> {
        let Self { completed, output, trigger } = self;
        candidate(&routes(), Evidence { completed, output, trigger })
    }
}

fn stamp(agent: &str, attempt: u32) -> RunStamp {
    serde_json::from_value(json!({
        "run": crate::id::RunId::from_bytes([u8::try_from(attempt).unwrap(); 20]),
        "execution": crate::id::ExecutionId::from_bytes([1; 20]),
        "consumer": format!("{agent}@1"), "fingerprint": Sha256Hash::of(b""), "attempt": attempt,
        "executionAdapterRevision": "r",
    }))
    .unwrap()
}

fn observed(members: &Value) -> Value {
    let mut said =
        json!({ "summary": "hi", "tags": ["conversation"], "importance": "normal", "confidence": 0.5 });
    said.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    said
}

fn run_of(agent: &str, trigger: Event, said: &Value) -> Run {
    let stamp = stamp(agent, 1);
    let contract = TypeRef::parse("stream.thought.output.observation@1").unwrap();
    let output: MessageObservation = serde_json::from_value(json!({
        "stamp": stamp, "contract": contract, "contractHash": Sha256Hash::of(b"c"),
        "mode": "conversation-text", "snapshot": Sha256Hash::of(b"s"),
        "provenance": { "provider": "p", "model": "m" }, "observation": said,
    }))
    .unwrap();
    let place = format!("agent:{agent}");
    let output = output.candidate(envelope_in(&place, "output/0", Some(&trigger)));
    let output = placed(&output, 2, Some(trigger.root));
    let completed = RunCompleted { stamp, outputs: vec![output.id], proposals: Vec::new(), charge: None };
    let completed = completed.candidate(envelope_in(&place, "completed", Some(&trigger)));
    let completed = placed(&completed, 3, Some(trigger.root));
    Run { completed, output, trigger }
}

fn asking() -> Value {
    observed(&json!({
        "tags": ["notify-me"], "importance": "high",
        "recommendation": { "target": "my-telegram", "reason": "frost", "proposedAction": "notify" },
    }))
}

#[test]
fn the_answer_to_an_allowed_message_goes_into_its_chat() {
    let found = run_of("talk", message(7, 7), &observed(&json!({}))).candidate().unwrap();
    let DeliveryBinding { route, chat, sender, claim, .. } = &found.binding;
    assert_eq!(
        (*route, *chat, *sender, *claim),
        (Route::DirectReply, ChatId::new(7), Some(SenderId::new(7)), 1)
    );
    let again = run_of("talk", message(7, 7), &observed(&json!({}))).candidate().unwrap();
    assert_eq!(found.binding.key(), again.binding.key(), "one output over one route has one key");
}

#[test]
fn nobody_else_is_answered() {
    let ordinary = observed(&json!({}));
    assert_eq!(run_of("talk", message(8, 7), &ordinary).candidate(), Err(Ineligible::Recipient));
    assert_eq!(run_of("talk", message(7, 8), &ordinary).candidate(), Err(Ineligible::Recipient));
    assert_eq!(run_of("other", message(7, 7), &ordinary).candidate(), Err(Ineligible::Route));
    // One who may notify does not answer, and a reply that asks for attention is still a reply.
    assert_eq!(run_of("watch", message(7, 7), &asking()).candidate(), Err(Ineligible::Route));
    let reply = run_of("talk", message(7, 7), &asking()).candidate().unwrap();
    assert_eq!(reply.binding.route, Route::DirectReply);
}

#[test]
fn an_output_that_does_not_belong_to_the_completed_run_is_not_delivered() {
    let whole = || run_of("talk", message(7, 7), &observed(&json!({})));
    let foreign = run_of("other", message(7, 7), &observed(&json!({})));
    let mut run = whole();
    run.output = foreign.output.clone();
    assert_eq!(run.candidate(), Err(Ineligible::Lineage));
    let mut run = whole();
    run.completed = foreign.completed;
    assert_eq!(run.candidate(), Err(Ineligible::Lineage));
    let mut run = whole();
    run.trigger = file();
    assert_eq!(run.candidate(), Err(Ineligible::Lineage));
    let mut run = whole();
    run.output.root = EventId::from_bytes([9; 32]);
    assert_eq!(run.candidate(), Err(Ineligible::Lineage));
    let mut run = whole();
    run.output = run.trigger.clone();
    assert_eq!(run.candidate(), Err(Ineligible::Kind));
    let mut run = whole();
    run.output.payload = crate::event::Payload::Redacted;
    assert_eq!(run.candidate(), Err(Ineligible::Lineage));
}

#[test]
fn attention_is_asked_for_in_every_part_or_not_at_all() {
    let found = run_of("watch", file(), &asking()).candidate().unwrap();
    assert_eq!((found.binding.route, found.binding.chat), (Route::Notification, ChatId::new(9)));
    assert_eq!(found.binding.sender, None);
    let recommended = |target: &str, action: &str| json!({ "recommendation": { "target": target, "reason": "r", "proposedAction": action } });
    let parts = [
        json!({ "importance": "normal" }),
        json!({ "tags": ["notify-you"] }),
        json!({ "tags": [] }),
        recommended("other-telegram", "notify"),
        recommended("my-telegram", "Notify"),
        recommended("my-telegram", "notify now"),
    ];
    for part in parts {
        let mut said = asking();
        said.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        assert_eq!(run_of("watch", file(), &said).candidate(), Err(Ineligible::Attention), "{part}");
    }
    let mut said = asking();
    said.as_object_mut().unwrap().remove("recommendation");
    assert_eq!(run_of("watch", file(), &said).candidate(), Err(Ineligible::Attention));
    assert_eq!(run_of("talk", file(), &asking()).candidate(), Err(Ineligible::Route));
}

#[test]
fn a_text_is_sent_whole_or_not_at_all() {
    let says = |summary: &str| {
        text(&run_of("talk", message(7, 7), &observed(&json!({ "summary": summary }))).output)
    };
    for whole in ["*lone `[x](", &"x".repeat(4096), "שלום \u{202e}", &"🌱".repeat(2048)] {
        assert_eq!(says(whole).as_deref(), Ok(whole));
    }
}

fn first() -> (Run, DeliveryBinding) {
    let run = run_of("talk", message(7, 7), &observed(&json!({})));
    let binding = run.candidate().unwrap().binding;
    (run, binding)
}

/// Places the only event of a commit.
fn recorded(commit: &Commit, position: u64) -> Event {
    placed(commit.appends.last().unwrap(), position, None)
}

fn claimed(run: &Run, binding: &DeliveryBinding, position: u64) -> Event {
    recorded(&claim(binding, &run.output, "hi", (1, 1)), position)
}

#[test]
fn a_claim_names_who_holds_it_and_follows_only_what_was_not_sent() {
    let (run, binding) = first();
    let one = claim(&binding, &run.output, "hi", (1, 1));
    assert!(one.preconditions.is_empty());
    assert_ne!(one.appends[0].digest(), claim(&binding, &run.output, "hi", (1, 2)).appends[0].digest());
    let second = DeliveryBinding { claim: 2, ..binding.clone() };
    let second = claim(&second, &run.output, "hi", (1, 1));
    let Precondition::KeyUsed { key, kind, .. } = &second.preconditions[0] else { panic!() };
    assert_eq!((key, kind.as_str()), (&binding.key(), DeliveryFailed::NAME));
}

#[test]
fn what_was_learnt_decides_what_follows() {
    let (run, binding) = first();
    let claimed = claimed(&run, &binding, 10);
    let standing = |sent: Sent| {
        let commit = end(&binding, &claimed, sent, at(1_000));
        assert!(
            matches!(&commit.preconditions[0], Precondition::KeyUnused { types, .. } if types.len() == 3)
        );
        read(&recorded(&commit, 11)).unwrap().1
    };
    let message = MessageId::new(5);
    assert_eq!(standing(Sent::Delivered { message, at: None }), Standing::Delivered);
    let waits = |retry_after| {
        let waiting = standing(Sent::NotSent { code: "c", retry_after });
        let Standing::Waiting { at, .. } = waiting else { panic!("{waiting:?}") };
        at.as_millis()
    };
    assert_eq!((waits(None), waits(Some(0)), waits(Some(30))), (2_000, 2_000, 31_000));
    assert_eq!((waits(Some(90_000)), waits(Some(u64::MAX))), (1_000 + ASKED_MAX_MS, 1_000 + ASKED_MAX_MS));
    assert!(matches!(standing(Sent::Refused { code: "c" }), Standing::Failed { .. }));
    assert!(matches!(standing(Sent::Unknown { code: "c" }), Standing::Unconfirmed { .. }));
    let last = DeliveryBinding { claim: NOT_SENT.attempts, ..binding };
    let exhausted = end(&last, &claimed, Sent::NotSent { code: "c", retry_after: Some(1) }, at(0));
    assert!(matches!(read(&recorded(&exhausted, 11)).unwrap().1, Standing::Failed { .. }));
}

#[test]
fn what_is_open_is_found_from_the_events_alone() {
    let (run, binding) = first();
    let mut deliveries = Deliveries::behind(9);
    let opened = claimed(&run, &binding, 10);
    deliveries.apply(&opened);
    assert_eq!((deliveries.open().len(), deliveries.settled_through()), (1, 9));
    let failed = end(&binding, &opened, Sent::NotSent { code: "c", retry_after: None }, at(0));
    deliveries.apply(&recorded(&failed, 11));
    assert!(matches!(deliveries.get(&binding.delivery).unwrap().standing, Standing::Waiting { .. }));
    assert_eq!(deliveries.settled_through(), 9, "it is open since its first claim");
    let second = DeliveryBinding { claim: 2, ..binding };
    let opened = claimed(&run, &second, 12);
    deliveries.apply(&opened);
    deliveries.apply(&opened);
    let message = MessageId::new(5);
    deliveries.apply(&recorded(&end(&second, &opened, Sent::Delivered { message, at: None }, at(0)), 13));
    assert_eq!((deliveries.open().len(), deliveries.settled_through(), deliveries.through()), (0, 13, 13));
}

#[test]
fn only_a_person_goes_on_from_what_nobody_knows() {
    let (run, binding) = first();
    let opened = claimed(&run, &binding, 10);
    let operator = || Operator { uid: 1, pid: 2, tty: None };
    let key = || IdempotencyKey::parse("decision/1").unwrap();
    let decide = |latest: &Event, decision| reconcile(latest, decision, operator(), at(50), key());
    let unknown = recorded(&end(&binding, &opened, Sent::Unknown { code: "timeout" }, at(0)), 11);
    let mut deliveries = Deliveries::behind(9);
    deliveries.apply(&opened);
    deliveries.apply(&unknown);
    assert!(deliveries.open().is_empty(), "nothing is sent again by itself");
    let after = |decision| read(&recorded(&decide(&unknown, decision).unwrap(), 12)).unwrap();
    assert_eq!(after(Reconciled::Confirmed).1, Standing::Delivered);
    assert!(matches!(after(Reconciled::Abandoned).1, Standing::Failed { .. }));
    let (bound, standing) = after(Reconciled::Resend);
    assert_eq!((bound.claim, standing), (1, Standing::Waiting { at: at(50), code: "resend".to_owned() }));
    deliveries.apply(&recorded(&decide(&unknown, Reconciled::Resend).unwrap(), 12));
    assert_eq!(deliveries.open().len(), 1);
    // What is known is not decided, but for one thing: what failed for good may be sent again.
    assert!(decide(&opened, Reconciled::Resend).is_err());
    let failed = recorded(&end(&binding, &opened, Sent::Refused { code: "c" }, at(0)), 11);
    assert!(decide(&failed, Reconciled::Confirmed).is_err());
    let resent = decide(&failed, Reconciled::Resend).unwrap();
    assert_eq!(read(&recorded(&resent, 12)).unwrap().0.claim, 2);
}
