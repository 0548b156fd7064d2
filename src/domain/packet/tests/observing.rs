//! Observers: events whole, documents whole or named, and a refusal where nothing is left to observe.

use crate::commit::Placed;
use crate::content::Content;
use crate::event::{Actor, ActorKind, Candidate, Envelope, Event, Payload};
use crate::hash::{ChainHash, Sha256Hash};
use crate::id::{DocumentId, IdempotencyKey, SourceId};
use crate::packet::manifest::{Part, Rule};
use crate::packet::observe::{Instructions, ObserveError, Observed, ObservedDocument, observation};
use crate::packet::{Capabilities, Composed, DocumentReference};
use crate::payload::TypedPayload;
use crate::payload::file::FileAdded;
use crate::privacy::Privacy;
use crate::provider::{Part as Piece, Role};
use crate::text::characters;
use crate::time::Timestamp;

fn observed(n: u64, text: &[u8]) -> Observed {
    let source = SourceId::parse("filesystem:notes").unwrap();
    let path = format!("note-{n}.md");
    let sha256 = Sha256Hash::of(text);
    let id = DocumentId::at_first_sight(&source, &path, 0);
    let added = FileAdded {
        document_id: id.clone(),
        revision: 1,
        path: path.clone(),
        bytes: text.len() as u64,
        sha256,
        content_type: "text/markdown".to_owned(),
    };
    let key = IdempotencyKey::parse(&format!("k{n}")).unwrap();
    let actor = Actor::ours(ActorKind::Producer, "filesystem:notes");
    let candidate: Candidate = added.candidate(Envelope::new(source.clone(), key, Privacy::Private, actor));
    let placed = Placed {
        id: candidate.id(),
        position: n,
        sequence: n,
        recorded_at: Timestamp::from_millis(0),
        root: candidate.id(),
        depth: 0,
        chain: ChainHash::START,
    };
    let reference = DocumentReference {
        source,
        id,
        revision: 1,
        path,
        content_type: "text/markdown".to_owned(),
        bytes: text.len() as u64,
        sha256,
    };
    let document = Some(ObservedDocument { reference, bytes: Content::new(text.to_vec()) });
    Observed { event: Event::recorded(&candidate, &placed), document }
}

fn observe(observed: &[Observed], max_events: usize, max_chars: usize) -> Result<Composed, ObserveError> {
    beside(observed, &[], max_events, max_chars)
}

fn beside(
    observed: &[Observed],
    neighbors: &[Event],
    max_events: usize,
    max_chars: usize,
) -> Result<Composed, ObserveError> {
    let capabilities =
        Capabilities { privacy: Privacy::PublicSource, tools: Vec::new(), external_actions: false };
    let told =
        Instructions { prompt: "Look.", capabilities: &capabilities, answer: "JSON.", max_events, max_chars };
    observation(observed, neighbors, &told)
}

fn texts(composed: &Composed) -> Vec<String> {
    let text = |message: &crate::provider::Message| match &message.parts[..] {
        [Piece::Text { text }] => text.reveal().clone(),
        other => panic!("{other:?}"),
    };
    composed.messages().iter().map(text).collect()
}

#[test]
fn events_and_the_versions_they_name_are_one_message_of_data() {
    let composed =
        observe(&[observed(1, b"# One\n"), observed(2, "Zwei \"\u{1}\"".as_bytes())], 8, 24_000).unwrap();
    let roles: Vec<Role> = composed.messages().iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User]);
    insta::assert_snapshot!(texts(&composed).join("\n----\n"));
    assert!(composed.manifest().is_untouched());
    assert_eq!(composed.privacy(), Privacy::Private);
}

#[test]
fn the_characters_taken_down_are_those_shown() {
    let composed = observe(&[observed(1, "é😀\n\"".as_bytes())], 8, 24_000).unwrap();
    let shown: usize = texts(&composed).iter().map(|text| characters(text)).sum();
    assert_eq!(composed.manifest().chars, shown as u64);
}

#[test]
fn a_document_without_room_is_left_out_whole_and_named_to_both() {
    let (small, large) = (observed(1, b"small"), observed(2, "x".repeat(5_000).as_bytes()));
    let composed = observe(&[large.clone(), small], 8, 3_000).unwrap();
    let shown = texts(&composed).remove(1);
    assert!(shown.contains("small") && !shown.contains("xxx"));
    assert!(shown.contains("\"contentOmitted\":\"char-bound\""));
    let omitted = &composed.manifest().omitted;
    assert_eq!((omitted.len(), omitted[0].part, omitted[0].rule), (1, Part::Document, Rule::CharBound));
    assert!(composed.manifest().chars <= 3_000);
    // Alone, there would be nothing to observe.
    assert_eq!(observe(&[large], 8, 3_000).unwrap_err().code(), "context-exceeds-max-chars");
}

#[test]
fn what_is_no_text_is_named_and_not_shown() {
    let composed = observe(&[observed(1, b"\xff\xfe")], 8, 24_000).unwrap();
    assert_eq!(composed.manifest().omitted[0].rule, Rule::NotText);
    assert!(texts(&composed)[1].contains("\"contentOmitted\":\"not-text\""));
}

#[test]
fn more_triggers_than_the_bound_are_refused() {
    let two = [observed(1, b"a"), observed(2, b"b")];
    let refused = observe(&two, 1, 24_000).unwrap_err();
    assert_eq!(
        (refused.code(), refused),
        ("context-exceeds-max-events", ObserveError::TooMany { events: 2, events_max: 1 })
    );
}

#[test]
fn events_that_do_not_fit_whole_are_refused() {
    assert_eq!(observe(&[observed(1, b"a")], 8, 100).unwrap_err().code(), "context-exceeds-max-chars");
}

#[test]
fn a_redacted_trigger_is_refused() {
    let mut gone = observed(1, b"a");
    gone.event.payload = Payload::Redacted;
    assert_eq!(observe(&[gone], 8, 24_000).unwrap_err(), ObserveError::Unreadable);
}

proptest::proptest! {
    #[test]
    fn every_document_is_shown_or_named_and_the_bound_holds(
        lengths in proptest::collection::vec(0_usize..3_000, 1..6),
        max_chars in 0_usize..9_000,
    ) {
        let all: Vec<Observed> =
            lengths.iter().zip(1..).map(|(length, n)| observed(n, "\"é".repeat(*length).as_bytes())).collect();
        let Ok(composed) = observe(&all, 8, max_chars) else { return Ok(()) };
        let shown: usize = texts(&composed).iter().map(|text| characters(text)).sum();
        proptest::prop_assert!(shown <= max_chars);
        let included = composed.manifest().included.iter().filter(|included| included.part == Part::Document);
        proptest::prop_assert_eq!(included.count() + composed.manifest().omitted.len(), all.len());
    }
}

#[test]
fn neighbors_stand_beside_the_triggers_as_far_as_there_is_room_and_the_rest_is_named() {
    let before: Vec<Event> = (1..=3).rev().map(|n| observed(n, b"x").event).collect();
    let trigger = [observed(4, b"now")];
    let composed = beside(&trigger, &before, 8, 24_000).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&texts(&composed)[1]).unwrap();
    let sequences = |member: &str| -> Vec<u64> {
        shown[member].as_array().unwrap().iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
    };
    assert_eq!((sequences("events"), sequences("neighbors")), (vec![4], vec![1, 2, 3]));
    assert!(shown["neighbors"][0].get("content").is_none() && shown["events"][0]["content"] == "now");
    assert!(composed.manifest().is_untouched());
    let all: usize = texts(&composed).iter().map(|text| characters(text)).sum();
    assert_eq!(composed.manifest().chars, all as u64);
    // One character less, and the oldest is named instead; the same by the number of events.
    let named = |composed: &Composed| -> Vec<_> {
        let omitted = composed.manifest().omitted.iter();
        omitted.map(|omitted| (omitted.part, omitted.id.clone(), omitted.rule)).collect()
    };
    let oldest = before[2].id.to_string();
    let fits = beside(&trigger, &before, 8, all).unwrap();
    assert_eq!(named(&fits), []);
    let tight = beside(&trigger, &before, 8, all - 1).unwrap();
    assert_eq!(named(&tight), [(Part::Neighbor, oldest.clone(), Rule::CharBound)]);
    let few = beside(&trigger, &before, 3, 24_000).unwrap();
    assert_eq!(named(&few), [(Part::Neighbor, oldest, Rule::EventBound)]);
    // What was erased is named, and what is more sensitive than the triggers makes the whole so.
    let mut erased = before;
    (erased[0].payload, erased[1].privacy) = (Payload::Redacted, Privacy::Sensitive);
    let composed = beside(&trigger, &erased, 8, 24_000).unwrap();
    assert_eq!(named(&composed), [(Part::Neighbor, erased[0].id.to_string(), Rule::Redacted)]);
    assert_eq!(composed.privacy(), Privacy::Sensitive);
}
