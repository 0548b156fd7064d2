//! Events: order, repeats, conflicts, lineage, privacy, chains, redaction.

use thoughtstream_domain::commit::{Precondition, Refusal, Row};
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::{EventId, IdempotencyKey};
use thoughtstream_domain::operate;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system::{Operator, Redacted};

use super::*;
use crate::WriteError;
use crate::sim::{Fault, Loss};

#[test]
fn sequences_start_at_one_and_have_no_gaps() {
    let (_, mut store) = fresh();
    let group = [
        append(vec![note("a", "1"), note_in(envelope("notes:bed", "a"), "2")]),
        append(vec![note("b", "3")]),
    ];
    let verdicts = store.writer.apply(&group, at(5)).unwrap();
    let places: Vec<(u64, u64)> = verdicts
        .iter()
        .flat_map(|verdict| verdict.placed().unwrap())
        .map(|p| (p.position, p.sequence))
        .collect();
    assert_eq!(places, [(1, 1), (2, 1), (3, 2)]);
    let heads: Vec<(String, u64)> = store
        .reader
        .sources()
        .unwrap()
        .into_iter()
        .map(|head| (head.source.to_string(), head.sequence))
        .collect();
    assert_eq!(heads, [("notes:bed".to_owned(), 1), ("notes:desk".to_owned(), 2)]);
}

#[test]
fn heads_are_those_of_one_moment_while_others_write() {
    let (_, mut store) = fresh();
    let reader = store.reader.clone();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for number in 0..300 {
                let events = ["notes:a", "notes:b", &format!("notes:x{}", number % 7)]
                    .map(|source| note_in(envelope(source, &format!("{source}{number}")), "x"));
                committed(&mut store, &append(events.into()));
            }
        });
        loop {
            let over = writing.is_finished();
            let heads = reader.heads().unwrap();
            let counted: u64 = heads.sources.iter().map(|head| head.sequence).sum();
            assert_eq!(counted, heads.position, "every event is in one source");
            if over {
                return assert_eq!(heads.position, 900);
            }
        }
    });
}

#[test]
fn an_event_is_read_back_as_it_was_written() {
    let (_, mut store) = fresh();
    let first = committed(&mut store, &append(vec![note("a", "hello")]))[0];
    let mut envelope = envelope("notes:desk", "b").with_parents(vec![Parent::named(first.id)]);
    envelope.occurred_at = Some(at(-7));
    envelope.address = Some(thoughtstream_domain::event::Reference::parse("to").unwrap());
    envelope.external = Some(thoughtstream_domain::event::Reference::parse("outside").unwrap());
    envelope.correlation = Some(thoughtstream_domain::event::Reference::parse("group").unwrap());
    let candidate = note_in(envelope, "child");
    let placed = committed(&mut store, &append(vec![candidate.clone()]))[0];
    let event = store.reader.event(&placed.id).unwrap().unwrap();
    assert_eq!(event.id, candidate.id());
    assert_eq!(event.digest(), *candidate.digest());
    assert_eq!((event.position, event.sequence, event.depth, event.root), (2, 2, 1, first.id));
    assert_eq!(event.parents, [first.id]);
    assert_eq!(event.occurred_at, Some(at(-7)));
    assert_eq!(event.payload, Payload::Present(candidate.payload().clone()));
    assert_eq!(store.reader.event_in(&source("notes:desk"), 2).unwrap(), Some(event.clone()));
    assert_eq!(store.reader.event_at(2).unwrap(), Some(event.clone()));
    assert_eq!(store.reader.children(1, 0, 10).unwrap(), [event]);
    assert_eq!(store.reader.parents(2).unwrap()[0].id, first.id);
}

#[test]
fn the_same_observation_twice_is_one_event() {
    let (_, mut store) = fresh();
    let commit = append(vec![note("a", "1"), note("b", "2")]);
    let placed = committed(&mut store, &commit);
    assert_eq!(one(&mut store, &commit), Verdict::AlreadyCommitted(placed));
    let group = [append(vec![note("c", "3")]), append(vec![note("c", "3")])];
    let verdicts = store.writer.apply(&group, at(9)).unwrap();
    assert!(
        matches!(verdicts[0], Verdict::Committed(_)) && matches!(verdicts[1], Verdict::AlreadyCommitted(_))
    );
    assert_eq!(store.reader.last_position().unwrap(), 3);
}

#[test]
fn what_one_key_can_become_is_written_once() {
    let (_, mut store) = fresh();
    let key = IdempotencyKey::parse("a").unwrap();
    let kind = note("a", "").kind().name.clone();
    let unused = |source: &str| Precondition::KeyUnused {
        source: super::source(source),
        types: vec![kind.clone()],
        key: key.clone(),
    };
    let after = |precondition: Precondition, name: &str| Commit {
        preconditions: vec![precondition],
        ..append(vec![note(name, name)])
    };
    let used =
        Precondition::KeyUsed { source: super::source("notes:desk"), kind: kind.clone(), key: key.clone() };
    let refused = |verdict: Verdict| {
        assert!(matches!(verdict, Verdict::Refused(Refusal::Precondition { index: 0, .. })), "{verdict:?}");
    };
    refused(one(&mut store, &after(used.clone(), "b")));
    committed(&mut store, &after(unused("notes:desk"), "a"));
    refused(one(&mut store, &after(unused("notes:desk"), "b")));
    committed(&mut store, &after(unused("notes:bed"), "c"));
    committed(&mut store, &after(used, "d"));
    let again = one(&mut store, &after(unused("notes:desk"), "a"));
    assert!(matches!(again, Verdict::AlreadyCommitted(_)), "a replay is harmless");
}

#[test]
fn other_content_under_the_same_key_is_a_conflict_naming_both() {
    let (_, mut store) = fresh();
    let (first, other) = (note("a", "1"), note("a", "changed"));
    committed(&mut store, &append(vec![first.clone()]));
    let Verdict::Conflict(conflict) = one(&mut store, &append(vec![note("b", "new"), other.clone()])) else {
        panic!("no conflict")
    };
    assert_eq!(conflict.id, first.id());
    assert_eq!((conflict.stored, conflict.offered), (*first.digest(), Some(*other.digest())));
    let Verdict::Conflict(conflict) = one(&mut store, &append(vec![note("b", "new"), first])) else {
        panic!("half a commit was taken for a repeat")
    };
    assert_eq!(conflict.offered, None);
    assert_eq!(store.reader.last_position().unwrap(), 1, "nothing of a conflicting commit is written");
}

#[test]
fn a_refused_commit_leaves_nothing_behind_and_the_rest_go_on() {
    let (_, mut store) = fresh();
    let missing = EventId::from_bytes([9; 32]);
    let group = [
        append(vec![note("a", "1")]),
        append(vec![note("b", "2"), child("c", vec![Parent::named(missing)])]),
        append(vec![note("d", "3")]),
    ];
    let verdicts = store.writer.apply(&group, at(1)).unwrap();
    assert_eq!(verdicts[1], Verdict::Refused(Refusal::UnknownParent { parent: missing }));
    let keys: Vec<String> =
        store.reader.page_after(0, 10).unwrap().iter().map(|event| event.key.to_string()).collect();
    assert_eq!(keys, ["a", "d"]);
}

#[test]
fn a_parent_may_be_a_sibling_an_earlier_commit_or_known_by_place() {
    let (_, mut store) = fresh();
    let (root, middle) = (note("a", "1"), note("b", "2").id());
    let sibling = child("b", vec![Parent::named(root.id())]);
    assert_eq!(sibling.id(), middle);
    let group = [
        append(vec![root.clone(), sibling]),
        append(vec![child("c", vec![Parent { id: middle, position: Some(2) }])]),
        append(vec![child("d", vec![Parent { id: middle, position: Some(1) }])]),
    ];
    let verdicts = store.writer.apply(&group, at(1)).unwrap();
    assert!(verdicts[1].placed().is_some());
    assert_eq!(verdicts[2], Verdict::Refused(Refusal::UnknownParent { parent: middle }));
    let last = store.reader.event_at(3).unwrap().unwrap();
    assert_eq!((last.depth, last.root), (2, root.id()));
}

#[test]
fn privacy_never_gets_weaker_along_a_lineage() {
    let (_, mut store) = fresh();
    let mut sensitive = envelope("notes:desk", "s");
    sensitive.privacy = Privacy::Sensitive;
    let parent = note_in(sensitive, "secret");
    let weaker = child("w", vec![Parent::named(parent.id())]);
    let refused = Verdict::Refused(Refusal::PrivacyLowered { event: weaker.id(), parent: parent.id() });
    assert_eq!(one(&mut store, &append(vec![parent.clone(), weaker.clone()])), refused);
    committed(&mut store, &append(vec![parent]));
    assert_eq!(one(&mut store, &append(vec![weaker])), refused);
}

#[test]
fn recorded_time_never_goes_back() {
    let (disk, mut store) = fresh();
    store.writer.apply(&[append(vec![note("a", "1")])], at(500)).unwrap();
    store.writer.apply(&[append(vec![note("b", "2")])], at(100)).unwrap();
    drop(store);
    let mut store = open(&disk).unwrap();
    store.writer.apply(&[append(vec![note("c", "3")])], at(200)).unwrap();
    let times: Vec<i64> =
        store.reader.page_after(0, 9).unwrap().iter().map(|event| event.recorded_at.as_millis()).collect();
    assert_eq!(times, [500, 500, 500]);
}

#[test]
fn each_source_has_its_own_chain_over_everything_recorded() {
    let (_, mut store) = fresh();
    let group = [append(vec![note("a", "1"), note_in(envelope("notes:bed", "x"), "2"), note("b", "3")])];
    store.writer.apply(&group, at(3)).unwrap();
    let mut link = ChainHash::START;
    for event in store.reader.source_page(&source("notes:desk"), 0, 10).unwrap() {
        link = link.link(&event.digest(), &event.assigned());
        assert_eq!(event.chain, link);
    }
    assert_eq!(store.reader.head(&source("notes:desk")).unwrap().unwrap().chain, link);
}

#[test]
fn a_recorded_redaction_erases_the_payload_and_nothing_else() {
    let (disk, mut store) = fresh();
    let placed = committed(&mut store, &append(vec![note("a", "to be forgotten")]))[0];
    let before = store.reader.event_at(1).unwrap().unwrap();
    let silent = Commit { rows: vec![Row::Redact(placed.id)], ..append(vec![note("r", "redacted a")]) };
    assert!(matches!(one(&mut store, &silent), Verdict::Refused(Refusal::Row { index: 0, .. })));
    let operator = Operator { uid: 1, pid: 1, tty: None };
    let key = IdempotencyKey::parse("r").unwrap();
    committed(&mut store, &operate::redact(&before, "asked to", operator.clone(), key).unwrap().unwrap());
    let after = store.reader.event_at(1).unwrap().unwrap();
    assert_eq!(after.payload, Payload::Redacted);
    assert_eq!(
        (after.digest(), after.chain, after.payload_sha256),
        (before.digest(), before.chain, before.payload_sha256)
    );
    drop(store);
    assert_eq!(open(&disk).unwrap().reader.event_at(1).unwrap(), Some(after));
    let nowhere = Event { id: EventId::from_bytes([1; 32]), ..before };
    let key = IdempotencyKey::parse("s").unwrap();
    let mut unknown = operate::redact(&nowhere, "asked to", operator, key).unwrap().unwrap();
    unknown.appends[0] = {
        let operator = Operator { uid: 1, pid: 1, tty: None };
        let payload = Redacted { event: nowhere.id, reason: "asked to".to_owned(), operator };
        payload.candidate(envelope("system:decisions", "s"))
    };
    assert!(matches!(
        one(&mut open(&disk).unwrap(), &unknown),
        Verdict::Refused(Refusal::Row { index: 0, .. })
    ));
}

#[test]
fn a_type_that_is_not_registered_is_refused() {
    let disk = disk();
    let mut store = Store::open_on(Arc::new(disk), options()).unwrap();
    let verdict = one(&mut store, &append(vec![note("a", "1")]));
    assert!(matches!(verdict, Verdict::Refused(Refusal::UnknownType { .. })));
}

#[test]
fn a_backlog_answers_its_matches_in_order() {
    let (_, mut store) = fresh();
    for round in 0..30 {
        let desk = note(&format!("k{round:03}"), "x");
        let bed = note_in(envelope("notes:bed", &format!("k{round:03}")), "x");
        store.writer.apply(&[append(vec![desk, bed])], at(round)).unwrap();
    }
    let types = [Note::kind().name, thoughtstream_domain::id::TypeName::parse("not.there").unwrap()];
    let page = store.reader.backlog(&types, &source("notes:desk"), 10, 5).unwrap();
    assert_eq!(page.iter().map(|event| event.sequence).collect::<Vec<_>>(), [11, 12, 13, 14, 15]);
    assert!(store.reader.backlog(&types, &source("notes:desk"), 30, 5).unwrap().is_empty());
    let newest = store.reader.page_before(None, 2).unwrap();
    assert_eq!(newest.iter().map(|event| event.position).collect::<Vec<_>>(), [60, 59]);
    assert_eq!(store.reader.page_before(Some(2), 9).unwrap().len(), 1);
}

#[test]
fn what_was_answered_survives_a_kill_and_a_power_cut() {
    let (disk, mut store) = fresh();
    for round in 0..40 {
        store
            .writer
            .apply(&[append(vec![note(&format!("{round:04}"), &"x".repeat(3000))])], at(round))
            .unwrap();
    }
    for loss in [Loss::None, Loss::All, Loss::Seeded(7)] {
        let again = open(&disk.image(loss)).unwrap();
        assert_eq!(again.reader.last_position().unwrap(), 40);
        assert_eq!(again.writer.incarnation(), 2);
    }
}

#[test]
fn a_group_larger_than_the_journal_is_one_durable_step_of_its_own() {
    let (disk, mut store) = fresh();
    let big = append(vec![note("big", &"x".repeat(200_000))]);
    store.writer.apply(&[append(vec![note("a", "1")]), big, append(vec![note("b", "2")])], at(1)).unwrap();
    store.writer.apply(&[append(vec![note("c", "3")])], at(2)).unwrap();
    assert_eq!(open(&disk.image(Loss::All)).unwrap().reader.last_position().unwrap(), 4);
}

#[test]
fn after_a_failure_nothing_is_taken_until_the_log_is_opened_again() {
    let (disk, mut store) = fresh();
    committed(&mut store, &append(vec![note("a", "1")]));
    disk.plan(disk.operations() + 1, Fault::Fail);
    let doubtful = append(vec![note("b", "2")]);
    let error = store.writer.apply(std::slice::from_ref(&doubtful), at(2)).unwrap_err();
    assert!(matches!(error, WriteError::Unknown(_)), "{error:?}");
    assert!(matches!(store.writer.apply::<Commit>(&[], at(2)), Err(WriteError::MustReopen)));
    assert_eq!(store.reader.last_position().unwrap(), 1, "reading goes on");
    store.writer.reopen().unwrap();
    let verdict = one(&mut store, &doubtful);
    assert!(verdict.placed().is_some(), "{verdict:?}");
    assert_eq!(store.reader.last_position().unwrap(), 2, "the reader sees the log opened again");
}

#[test]
fn a_full_disk_is_refused_before_anything_is_touched_and_works_again_once_freed() {
    let (disk, mut store) = fresh();
    committed(&mut store, &append(vec![note("a", "1")]));
    let used: usize = disk.names().unwrap().iter().map(|name| disk.bytes(name).unwrap().len()).sum();
    disk.set_capacity(Some(used + 1000));
    let commit = append(vec![note("b", "2")]);
    let refused = store.writer.apply(std::slice::from_ref(&commit), at(1)).unwrap_err();
    assert!(matches!(refused, WriteError::NoSpace { free: 1000, .. }));
    assert!(!store.writer.has_failed());
    disk.set_capacity(None);
    committed(&mut store, &commit);
}

#[test]
fn a_log_that_can_be_read_and_not_written_is_read_until_it_can_be_written() {
    let (disk, mut store) = fresh();
    committed(&mut store, &append(vec![note("a", "1")]));
    store.writer.checkpoint().unwrap();
    committed(&mut store, &append(vec![note_in(envelope("notes:other", "b"), "only in the journal")]));
    let first = disk.operations();
    (first..first + 1000).for_each(|operation| disk.plan(operation, Fault::NoSpace));
    store.writer.apply(&[append(vec![note("c", "3")])], at(2)).unwrap_err();
    for _ in 0..3 {
        store.writer.reopen().unwrap_err();
        assert_eq!(store.reader.last_position().unwrap(), 2);
        assert_eq!(store.reader.head(&source("notes:other")).unwrap().unwrap().sequence, 1);
        assert!(matches!(store.writer.apply::<Commit>(&[], at(2)), Err(WriteError::MustReopen)));
    }
    (first..first + 1000).for_each(|operation| disk.forget(operation));
    store.writer.reopen().unwrap();
    committed(&mut store, &append(vec![note("c", "3")]));
    assert_eq!(store.reader.last_position().unwrap(), 3);
}
