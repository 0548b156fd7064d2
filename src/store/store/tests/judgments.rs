//! What is said of an output at once, and what the log makes of it.

use thoughtstream_domain::event::Event;
use thoughtstream_domain::judgment::{Judged, Judging, Proposed, Said, active, judge, retract};

use super::conversation::{CHAT, answered, recorded, said};
use super::*;
use crate::verify::{FindingKind, Options as VerifyOptions, verify};

/// A log with one delivered reply.
fn replied() -> (Store, Event) {
    let (_, mut store) = fresh();
    let message = said(&mut store, 1, CHAT, "q", Vec::new());
    let output = answered(&mut store, 1, &message, "a");
    (store, output)
}

fn opinion<'a>(opinion: Proposed<'a>, supersedes: Option<&'a Event>) -> Judging<'a> {
    Judging {
        opinion,
        criterion: None,
        criterion_version: "v1",
        quality_eligible: true,
        external_export_eligible: false,
        authorizes_private: false,
        feedback: None,
        delivery: None,
        supersedes,
        operator: None,
    }
}

fn judgment(output: &Event, judging: &Judging<'_>, key: &str) -> Candidate {
    judge(&Judged::of(output).unwrap(), judging, IdempotencyKey::parse(key).unwrap()).unwrap()
}

fn looked(store: &Store, output: &Event) -> Said {
    store.reader.said_of(output).unwrap()
}

fn findings(store: &Store) -> Vec<String> {
    let report = verify(&store.reader, VerifyOptions::default()).unwrap();
    let about = |finding: &&crate::verify::Finding| finding.kind == FindingKind::Judgment;
    report.findings.iter().filter(about).map(|finding| finding.message.clone()).collect()
}

#[test]
fn of_two_who_looked_at_once_one_stands() {
    let (mut store, output) = replied();
    let looked_at = looked(&store, &output);
    assert_eq!((looked_at.through, looked_at.given.len()), (0, 0));
    let accept = looked_at.commit(vec![judgment(&output, &opinion(Proposed::Accept, None), "one")]);
    let reject = looked_at.commit(vec![judgment(&output, &opinion(Proposed::Reject, None), "other")]);
    // In one group, as the log's writer gets what came at once.
    let verdicts = store.writer.apply(&[accept.clone(), reject.clone()], at(1000)).unwrap();
    let Verdict::Committed(placed) = &verdicts[0] else { panic!("{verdicts:?}") };
    let Verdict::Refused(refusal) = &verdicts[1] else { panic!("{verdicts:?}") };
    let position = placed[0].position;
    assert!(refusal.to_string().contains(&format!("reaches position {position}, not 0")), "{refusal}");
    assert!(matches!(one(&mut store, &reject), Verdict::Refused(_)), "and in a group of its own");
    assert!(matches!(one(&mut store, &accept), Verdict::AlreadyCommitted(_)), "handed in again it is there");
    assert_eq!(looked(&store, &output).given.len(), 1);
    assert_eq!(findings(&store), [""; 0]);
}

#[test]
fn a_retraction_moves_what_was_said_as_a_judgment_does() {
    let (mut store, output) = replied();
    let accept = judgment(&output, &opinion(Proposed::Accept, None), "accept");
    let accept = recorded(&mut store, accept);
    let before = looked(&store, &output);
    assert_eq!(before.through, accept.position);
    let key = |text: &str| IdempotencyKey::parse(text).unwrap();
    let retraction = |name: &str| retract(&accept, None, None, None, key(name)).unwrap();
    committed(&mut store, &before.commit(vec![retraction("one")]));
    // Whoever wanted to replace it did not know that it was taken back.
    let replaced = judgment(&output, &opinion(Proposed::Reject, Some(&accept)), "late");
    assert!(matches!(one(&mut store, &before.commit(vec![replaced])), Verdict::Refused(_)));
    assert!(matches!(one(&mut store, &before.commit(vec![retraction("two")])), Verdict::Refused(_)));
    let now = looked(&store, &output);
    assert!(now.through > before.through && now.standing().is_empty());
    let fresh = judgment(&output, &opinion(Proposed::Reject, None), "fresh");
    committed(&mut store, &now.commit(vec![fresh]));
    assert_eq!(findings(&store), [""; 0]);
}

#[test]
fn what_is_said_of_another_output_moves_nothing() {
    let (mut store, output) = replied();
    let message = said(&mut store, 2, CHAT, "q2", Vec::new());
    let other = answered(&mut store, 2, &message, "a2");
    let before = looked(&store, &output);
    recorded(&mut store, judgment(&other, &opinion(Proposed::Reject, None), "other"));
    committed(&mut store, &before.commit(vec![judgment(&output, &opinion(Proposed::Accept, None), "one")]));
    // A comparison is about both.
    let (one_before, other_before) = (looked(&store, &output), looked(&store, &other));
    let compared = Judged::of(&other).unwrap();
    recorded(&mut store, judgment(&output, &opinion(Proposed::Prefer(&compared), None), "prefer"));
    assert!(looked(&store, &output).through > one_before.through);
    assert!(looked(&store, &other).through > other_before.through);
    assert_eq!(looked(&store, &other).given.len(), 1, "but it is a judgment of one");
}

#[test]
fn an_erased_reason_does_not_make_a_judgment_stand_again() {
    let (mut store, output) = replied();
    let accept = recorded(&mut store, judgment(&output, &opinion(Proposed::Accept, None), "accept"));
    let key = IdempotencyKey::parse("gone").unwrap();
    let gone = retract(&accept, Some("a slip".to_owned()), None, None, key).unwrap();
    let gone = recorded(&mut store, gone);
    let operator = thoughtstream_domain::payload::system::Operator { uid: 1, pid: 1, tty: None };
    let key = IdempotencyKey::parse("erase").unwrap();
    let erase = thoughtstream_domain::operate::redact(&gone, "private", operator, key).unwrap();
    committed(&mut store, &erase.expect("it is not erased yet"));
    assert!(store.reader.is_retracted(&accept).unwrap());
    assert!(active(&store.reader.judgments_of(&output).unwrap()).is_empty());
    assert_eq!(findings(&store), [""; 0]);
}

#[test]
fn what_a_build_that_did_not_look_has_written_is_found_until_one_is_taken_back() {
    let (mut store, output) = replied();
    let one = recorded(&mut store, judgment(&output, &opinion(Proposed::Accept, None), "one"));
    let other = recorded(&mut store, judgment(&output, &opinion(Proposed::Reject, None), "other"));
    assert_eq!(findings(&store), [format!("it contradicts {}, and both hold", one.id)]);
    let key = IdempotencyKey::parse("back").unwrap();
    recorded(&mut store, retract(&other, None, None, None, key).unwrap());
    assert_eq!(findings(&store), [""; 0]);

    let message = said(&mut store, 2, CHAT, "q2", Vec::new());
    let second = answered(&mut store, 2, &message, "a2");
    let (first, second) = (Judged::of(&output).unwrap(), Judged::of(&second).unwrap());
    let better = judgment(&first.event, &opinion(Proposed::Prefer(&second), None), "better");
    let better = recorded(&mut store, better);
    recorded(&mut store, judgment(&second.event, &opinion(Proposed::Prefer(&first), None), "worse"));
    assert_eq!(findings(&store), [format!("it contradicts {}, and both hold", better.id)]);
}

#[test]
fn a_judgment_that_hangs_on_something_else_is_found() {
    let (mut store, output) = replied();
    let honest = judgment(&output, &opinion(Proposed::Accept, None), "one");
    let message = store.reader.parents(output.position).unwrap().remove(0);
    let payload: thoughtstream_domain::payload::judgment::TrainingExample =
        serde_json::from_slice(honest.payload().reveal()).unwrap();
    let elsewhere = envelope("system:decisions", "forged").with_parents(vec![Parent::of(&message)]);
    recorded(&mut store, payload.candidate(elsewhere));
    assert_eq!(findings(&store), ["the judgment is not about its first parent"]);
}
