//! The evidence of a chat, packets and subscribed documents, as the log has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use thoughtstream_domain::commit::{Document, Row};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::contract::{Contract, FinalPart, Mode, Stop, judge as verdict};
use thoughtstream_domain::conversation::evidence::{Evidence, Stretch, link};
use thoughtstream_domain::conversation::reconstruct::{Current, Found, NoTurn, Reconstruction};
use thoughtstream_domain::conversation::select::{Policy, Taken, WINDOW_MESSAGES, select};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::{ChainHash, Sha256Hash};
use thoughtstream_domain::id::{ConsumerKey, DeliveryId, DocumentId, EventId, ExecutionId, RunId};
use thoughtstream_domain::judgment::{Judged, Judging, Proposed, judge, retract};
use thoughtstream_domain::packet::documents::{ResolveError, Subscription, resolve};
use thoughtstream_domain::packet::observe::{Instructions, Observed, observation};
use thoughtstream_domain::packet::{Asking, Capabilities, ContractRevision, Packet, Runtime, Subject};
use thoughtstream_domain::payload::delivery::{DeliveryBinding, DeliveryClaimed, DeliveryDelivered, Route};
use thoughtstream_domain::payload::output::{MessageObservation, Provenance};
use thoughtstream_domain::payload::run::{RunCompleted, RunStamp};
use thoughtstream_domain::payload::telegram::{
    ChatId, ImageArtifact, MessageId, MessageText, SenderId, TelegramMessage, UpdateId, correlation,
};

use thoughtstream_domain::provider::{ResponseFormat, ThinkingLevel};

use super::*;
use crate::SnapshotError;
use crate::tables::Table;
use crate::verify::{Options as VerifyOptions, verify};

const BOT: &str = "telegram:bot";
pub(super) const CHAT: ChatId = ChatId::new(7);
const ME: SenderId = SenderId::new(8);

pub(super) fn said(store: &mut Store, n: i64, chat: ChatId, text: &str, images: Vec<ImageArtifact>) -> Event {
    let message = TelegramMessage {
        update: UpdateId::new(n),
        chat,
        sender: ME,
        message: MessageId::new(n),
        sent_at: at(n),
        text: MessageText::new(text.to_owned()),
        images,
        rejected: Vec::new(),
        reply_to: None,
        album: None,
        edited: false,
    };
    let mut envelope = envelope(BOT, &format!("update/{n}"));
    envelope.correlation = Some(correlation(chat));
    recorded(store, message.candidate(envelope))
}

pub(super) fn recorded(store: &mut Store, candidate: Candidate) -> Event {
    let placed = committed(store, &append(vec![candidate]))[0];
    store.reader.event_at(placed.position).unwrap().unwrap()
}

fn stamp(n: i64, trigger: &Event) -> RunStamp {
    let consumer = ConsumerKey::parse("talk@1").unwrap();
    let fingerprint = Sha256Hash::of(b"declaration");
    let execution = ExecutionId::derive(&consumer, &fingerprint, &[trigger.id]);
    let attempt = u32::try_from(n).unwrap();
    RunStamp {
        run: RunId::derive(&execution, attempt),
        execution,
        consumer,
        fingerprint,
        attempt,
        execution_adapter_revision: "observer-v1".to_owned(),
        model_adapter: None,
    }
}

/// A completed run with its output, and its receipt: the output's event.
pub(super) fn answered(store: &mut Store, n: i64, message: &Event, text: &str) -> Event {
    let stamp = stamp(n, message);
    let parts = [FinalPart::text(text)];
    let accepted = verdict(&Contract::observation(), Mode::ConversationText, &parts, Stop::End).unwrap();
    let provenance = Provenance { provider: "local".to_owned(), model: "small".to_owned() };
    let output = MessageObservation::of(accepted, stamp.clone(), Sha256Hash::of(b"packet"), provenance);
    let parents = vec![Parent::of(message)];
    let output =
        output.candidate(envelope("agent:talk", &format!("output/{n}")).with_parents(parents.clone()));
    let completed = RunCompleted {
        stamp: stamp.clone(),
        outputs: vec![output.id()],
        proposals: Vec::new(),
        charge: None,
    };
    let completed =
        completed.candidate(envelope("agent:talk", &format!("completed/{n}")).with_parents(parents));
    let placed = committed(store, &append(vec![output, completed]));
    let output = store.reader.event_at(placed[0].position).unwrap().unwrap();
    let binding = DeliveryBinding {
        delivery: DeliveryId::derive(&source("delivery:bot"), "direct-reply", &output.id),
        claim: 1,
        route: Route::DirectReply,
        bot: source(BOT),
        chat: CHAT,
        sender: Some(ME),
        root: message.id,
        run: stamp.run,
        output: output.id,
    };
    let claimed = DeliveryClaimed {
        binding: binding.clone(),
        text_sha256: Sha256Hash::of(b"x"),
        units: 1,
        incarnation: 1,
        holder: 1,
    };
    let parents = vec![Parent::of(&output)];
    let key = format!("claim/{n}");
    let claimed = recorded(store, claimed.candidate(envelope("delivery:bot", &key).with_parents(parents)));
    let receipt = DeliveryDelivered { binding, message: None, sent_at: None, confirmed_by: None };
    let parents = vec![Parent::of(&claimed)];
    recorded(
        store,
        receipt.candidate(envelope("delivery:bot", &format!("receipt/{n}")).with_parents(parents)),
    );
    output
}

fn current(event: &Event) -> Current {
    Current::of(event).unwrap()
}

fn read(store: &Store, now: &Event) -> Vec<Found> {
    let current = current(now);
    let evidence = store.reader.chat_before(&source(BOT), &current);
    let mut conversation = Reconstruction::before(&current, evidence);
    let mut found = Vec::new();
    while let Some(next) = conversation.older().unwrap() {
        found.push(next);
    }
    found
}

fn texts(store: &Store, now: &Event) -> Vec<String> {
    let text = |found| match found {
        Found::Turn(turn) => turn.effective().to_owned(),
        Found::Not(_, _, why) => format!("{why:?}"),
    };
    read(store, now).into_iter().map(text).collect()
}

#[test]
fn a_chat_is_read_from_the_log_newest_first_with_what_was_delivered_in_it() {
    let (_, mut store) = fresh();
    for n in 1..=70 {
        let message = said(&mut store, n, CHAT, &format!("q{n}"), Vec::new());
        said(&mut store, 1_000 + n, ChatId::new(9), "elsewhere", Vec::new());
        answered(&mut store, n, &message, &format!("a{n}"));
    }
    let now = said(&mut store, 71, CHAT, "now", Vec::new());
    said(&mut store, 72, CHAT, "later", Vec::new());
    let expected: Vec<String> = (1..=70).rev().flat_map(|n| [format!("a{n}"), format!("q{n}")]).collect();
    assert_eq!(texts(&store, &now), expected);
}

#[test]
fn a_reply_that_was_not_delivered_or_whose_run_did_not_complete_is_no_turn() {
    let (_, mut store) = fresh();
    let first = said(&mut store, 1, CHAT, "one", Vec::new());
    let stamp = stamp(1, &first);
    let accepted =
        verdict(&Contract::observation(), Mode::ConversationText, &[FinalPart::text("lost")], Stop::End);
    let provenance = Provenance { provider: "local".to_owned(), model: "small".to_owned() };
    let output = MessageObservation::of(accepted.unwrap(), stamp, Sha256Hash::of(b"packet"), provenance);
    let envelope = envelope("agent:talk", "output").with_parents(vec![Parent::of(&first)]);
    recorded(&mut store, output.candidate(envelope));
    let now = said(&mut store, 2, CHAT, "two", Vec::new());
    assert_eq!(texts(&store, &now), ["one"]);
}

#[test]
fn another_bots_chat_with_the_same_number_is_another_chat() {
    let (_, mut store) = fresh();
    said(&mut store, 1, CHAT, "one", Vec::new());
    let mut other = envelope("telegram:other", "update/1");
    other.correlation = Some(correlation(CHAT));
    let message = said(&mut store, 2, CHAT, "two", Vec::new());
    let elsewhere: TelegramMessage = message.payload_as().unwrap();
    recorded(&mut store, elsewhere.candidate(other));
    let now = said(&mut store, 3, CHAT, "now", Vec::new());
    assert_eq!(texts(&store, &now), ["two", "one"]);
}

#[test]
fn an_image_without_words_is_read_as_a_placeholder() {
    let (_, mut store) = fresh();
    let image = ImageArtifact::of(b"\x89PNG\r\n\x1a\n").unwrap();
    let photo = said(&mut store, 1, CHAT, "", vec![image]);
    answered(&mut store, 1, &photo, "A cat.");
    let now = said(&mut store, 2, CHAT, "which?", Vec::new());
    assert_eq!(texts(&store, &now), ["A cat.", "[image]"]);
}

/// Corrects an output by command.
fn correct(store: &mut Store, output: &Event, text: &str, key: &str) -> Event {
    let judging = Judging {
        opinion: Proposed::CorrectText(&Content::new(text.to_owned())),
        criterion: None,
        criterion_version: "test@1",
        quality_eligible: true,
        external_export_eligible: false,
        authorizes_private: false,
        feedback: None,
        delivery: None,
        supersedes: None,
        operator: None,
    };
    let key = IdempotencyKey::parse(key).unwrap();
    let judgment = judge(&Judged::of(output).unwrap(), &judging, key).unwrap();
    recorded(store, judgment)
}

#[test]
fn a_correction_stands_in_the_replys_place_if_it_is_older_than_the_message() {
    let (_, mut store) = fresh();
    let first = said(&mut store, 1, CHAT, "one", Vec::new());
    let output = answered(&mut store, 1, &first, "wrong");
    let early = said(&mut store, 2, CHAT, "two", Vec::new());
    let judgment = correct(&mut store, &output, "right", "c1");
    let late = said(&mut store, 3, CHAT, "three", Vec::new());
    assert_eq!(texts(&store, &early), ["wrong", "one"]);
    assert_eq!(texts(&store, &late), ["two", "right", "one"]);
    // Two corrections that contradict each other decide nothing.
    correct(&mut store, &output, "rather this", "c2");
    let later = said(&mut store, 4, CHAT, "four", Vec::new());
    assert_eq!(texts(&store, &later), ["three", "two", "wrong", "one"]);
    // Taking one back leaves the other.
    let key = IdempotencyKey::parse("r1").unwrap();
    let taken_back = retract(&judgment, None, None, None, key).unwrap();
    recorded(&mut store, taken_back);
    let last = said(&mut store, 5, CHAT, "five", Vec::new());
    assert_eq!(texts(&store, &last)[3], "rather this");
}

#[test]
fn the_rest_is_named_by_the_rows_that_count_it() {
    let (_, mut store) = fresh();
    let ids: Vec<EventId> =
        (1..=40).map(|n| said(&mut store, n, CHAT, &format!("q{n}"), Vec::new()).id).collect();
    let now = said(&mut store, 41, CHAT, "now", Vec::new());
    let current = current(&now);
    let mut chat = store.reader.chat_before(&source(BOT), &current);
    let stretch = |ids: &[EventId]| {
        let hash = ids.iter().fold(ChainHash::START, link);
        Stretch { first: ids[0], last: *ids.last().unwrap(), count: ids.len() as u64, hash }
    };
    assert_eq!(chat.rest().unwrap(), Some(stretch(&ids)));
    for left in (1..40).rev() {
        chat.message().unwrap().unwrap();
        assert_eq!(chat.rest().unwrap(), Some(stretch(&ids[..left])), "{left}");
    }
    chat.message().unwrap().unwrap();
    assert_eq!(chat.rest().unwrap(), None);
    assert_eq!(chat.message().unwrap(), None);
}

#[test]
fn a_selection_over_a_long_chat_looks_at_its_window_and_names_the_rest() {
    let (_, mut store) = fresh();
    let beyond = 30;
    let group: Vec<Commit> = (0..WINDOW_MESSAGES + beyond)
        .map(|n| {
            let number = i64::try_from(n).unwrap() + 1;
            let message = TelegramMessage {
                update: UpdateId::new(number),
                chat: CHAT,
                sender: ME,
                message: MessageId::new(number),
                sent_at: at(number),
                text: MessageText::new("hi".to_owned()),
                images: Vec::new(),
                rejected: Vec::new(),
                reply_to: None,
                album: None,
                edited: false,
            };
            let mut envelope = envelope(BOT, &format!("update/{number}"));
            envelope.correlation = Some(correlation(CHAT));
            append(vec![message.candidate(envelope)])
        })
        .collect();
    store.writer.apply(&group, at(5)).unwrap();
    let now = said(&mut store, 9_999, CHAT, "now", Vec::new());
    let current = current(&now);
    let policy =
        Policy { agents: BTreeSet::new(), max_events: 5, max_chars: 1_000, assistant_max_turns: None };
    let selection =
        select(&current, store.reader.chat_before(&source(BOT), &current), &policy, Taken::default())
            .unwrap();
    assert_eq!(selection.turns().len(), 4);
    let stretches = &selection.manifest().stretches;
    assert_eq!((stretches.len(), stretches[0].stretch.count), (1, beyond as u64));
    assert_eq!(selection.manifest().omitted.len(), WINDOW_MESSAGES - 4);
}

#[test]
fn a_message_whose_payload_was_erased_has_nothing_to_show() {
    use thoughtstream_domain::payload::system::{Operator, Redacted};
    let (_, mut store) = fresh();
    let first = said(&mut store, 1, CHAT, "secret", Vec::new());
    let operator = Operator { uid: 1000, pid: 1, tty: None };
    let redacted = Redacted { event: first.id, reason: "asked".to_owned(), operator };
    let appends =
        vec![redacted.candidate(envelope("system:decisions", "r").with_parents(vec![Parent::of(&first)]))];
    committed(&mut store, &Commit { appends, rows: vec![Row::Redact(first.id)], ..Commit::default() });
    let now = said(&mut store, 2, CHAT, "now", Vec::new());
    assert_eq!(texts(&store, &now), [format!("{:?}", NoTurn::Empty)]);
}

#[test]
fn the_rows_that_count_are_verified_rebuilt_and_copied() {
    let (_, mut store) = fresh();
    for n in 1..=5 {
        said(&mut store, n, ChatId::new(n % 2), "hi", Vec::new());
    }
    let whole = |store: &Store| verify(&store.reader, VerifyOptions::default()).unwrap().findings;
    assert!(whole(&store).is_empty(), "{:?}", whole(&store));
    let rows =
        |store: &Store| store.reader.view(|view| view.range(Table::Correlated, &[], &[255; 40], 99)).unwrap();
    let before = rows(&store);
    assert_eq!(before.len(), 5);
    store.writer.rebuild_projections().unwrap();
    assert_eq!(rows(&store), before);
}

#[test]
fn a_subscribed_document_is_read_at_its_version_with_its_folders_class() {
    let (_, mut store) = fresh();
    let folder = source("filesystem:me");
    let bytes: Arc<[u8]> = b"I am.".as_slice().into();
    let sha256 = Sha256Hash::of(&bytes);
    let document = Document {
        source: folder.clone(),
        id: DocumentId::at_first_sight(&folder, "identity.md", 0),
        revision: 1,
        path: "identity.md".to_owned(),
        sha256,
        bytes: 5,
        content_type: "text/markdown".to_owned(),
        named: None,
        removed: false,
        stat: None,
    };
    let rows = vec![Row::Blob { sha256, bytes: Content::new(bytes) }, Row::Document(document.clone())];
    let mut seen = envelope("filesystem:me", "seen");
    seen.privacy = Privacy::Sensitive;
    committed(&mut store, &Commit { appends: vec![note_in(seen, "seen")], rows, ..Commit::default() });
    let wanted = |path: &str| [Subscription::new(folder.clone(), vec![path.to_owned()], true).unwrap()];
    let found = resolve(&mut &store.reader, &wanted("identity.md"), 100).unwrap();
    assert_eq!((found.chars(), found.privacy()), (5, Privacy::Sensitive));
    assert_eq!(found.references()[0].id, document.id);
    let Err(ResolveError::Fault(fault)) = resolve(&mut &store.reader, &wanted("gone.md"), 100) else {
        panic!("it is not there")
    };
    assert_eq!(fault.code(), "document-missing");
}

/// A sealed packet on a note that stands in the log.
fn sealed(note: &Event) -> Packet {
    let capabilities = Capabilities { privacy: Privacy::Private, tools: Vec::new(), external_actions: false };
    let told = Instructions {
        prompt: "Look.",
        capabilities: &capabilities,
        answer: "",
        max_events: 1,
        max_chars: 2_000,
    };
    let composed = observation(&[Observed { event: note.clone(), document: None }], &[], &told).unwrap();
    let contract = Contract::observation();
    let subject = Subject {
        consumer: ConsumerKey::parse("talk@1").unwrap(),
        fingerprint: Sha256Hash::of(b"declaration"),
        triggers: vec![note.id],
        prompt: None,
        contract: ContractRevision { name: contract.kind().clone(), sha256: *contract.hash() },
        runtime: Runtime {
            profile: "local".to_owned(),
            model: "small".to_owned(),
            execution_adapter_revision: "observer-v1".to_owned(),
            model_adapter: None,
        },
        capabilities,
        images: Vec::new(),
    };
    let asking = Asking {
        max_output_tokens: 400,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        stream: false,
    };
    Packet::seal(subject, asking, composed).unwrap()
}

#[test]
fn a_packet_is_stored_once_and_every_retry_reads_exactly_it() {
    let (_, mut store) = fresh();
    let event = recorded(&mut store, note("a", "hello"));
    let packet = sealed(&event);
    let (consumer, execution) = (packet.consumer().clone(), packet.execution());
    assert!(store.reader.packet(&consumer, &execution).unwrap().is_none());
    let commit = |key: &str| Commit {
        preconditions: vec![packet.precondition()],
        appends: vec![note(key, key)],
        rows: packet.rows(),
    };
    committed(&mut store, &commit("b"));
    assert_eq!(store.reader.packet(&consumer, &execution).unwrap(), Some(packet.clone()));
    let verdict = one(&mut store, &commit("c"));
    assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
    let stranger = ExecutionId::from_bytes([1; 20]);
    assert!(store.reader.packet(&consumer, &stranger).unwrap().is_none());
    assert!(verify(&store.reader, VerifyOptions::default()).unwrap().findings.is_empty());
}

#[test]
fn a_packet_whose_bytes_or_version_are_gone_or_other_is_refused() {
    let (_, mut store) = fresh();
    let event = recorded(&mut store, note("a", "hello"));
    let packet = sealed(&event);
    let (consumer, execution) = (packet.consumer().clone(), packet.execution());
    committed(
        &mut store,
        &Commit { appends: vec![note("b", "b")], rows: packet.rows(), ..Commit::default() },
    );
    let sha256 = packet.sha256();
    let change = |value: Option<&[u8]>| {
        super::verification::damage(&store, |tx| {
            let mut blobs = tx.open_table(Table::Blobs.definition()).unwrap();
            match value {
                Some(value) => drop(blobs.insert(&sha256.as_bytes()[..], value).unwrap()),
                None => drop(blobs.remove(&sha256.as_bytes()[..]).unwrap()),
            }
        });
    };
    let mut bytes = packet.bytes().reveal().to_vec();
    bytes[10] ^= 1;
    change(Some(&bytes));
    assert!(matches!(store.reader.packet(&consumer, &execution), Err(SnapshotError::Packet(_))));
    change(None);
    assert!(matches!(store.reader.packet(&consumer, &execution), Err(SnapshotError::Incomplete(_))));
}

#[test]
fn a_proposal_that_a_completion_names_must_be_there() {
    let (_, mut store) = fresh();
    let message = said(&mut store, 1, CHAT, "one", Vec::new());
    let missing = EventId::from_bytes([9; 32]);
    let completed = RunCompleted {
        stamp: stamp(1, &message),
        outputs: Vec::new(),
        proposals: vec![missing],
        charge: None,
    };
    let parents = vec![Parent::of(&message)];
    recorded(&mut store, completed.candidate(envelope("agent:talk", "completed").with_parents(parents)));
    let report = verify(&store.reader, VerifyOptions::default()).unwrap();
    let about = |finding: &&crate::verify::Finding| finding.kind == crate::verify::FindingKind::Proposal;
    let found = report.findings.iter().find(about).expect("it is named and not there");
    assert!(found.message.contains(&missing.to_string()), "{}", found.message);
}
