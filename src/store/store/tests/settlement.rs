//! Executions, attempts, claims and progress.

use thoughtstream_domain::commit::{Control, Precondition, Refusal, Row};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::ConsumerKey;
use thoughtstream_domain::lifecycle::{
    AdapterRevision, Closure, Execution, ExecutionState, FailurePolicy, Frame,
};
use thoughtstream_domain::retry::{Exhausted, Interrupted, RetryPolicy};

use super::*;

pub(super) fn consumer() -> ConsumerKey {
    ConsumerKey::parse("links@1").unwrap()
}

pub(super) fn frame() -> Frame {
    Frame {
        consumer: consumer(),
        fingerprint: Sha256Hash::of(b"declaration"),
        privacy_floor: Privacy::Private,
        incarnation: 1,
        now: at(50),
        adapter: AdapterRevision::deterministic(),
    }
}

/// A store with `count` notes, and the notes.
pub(super) fn with_notes(count: u64) -> (SimDisk, Store, Vec<Event>) {
    let (disk, mut store) = fresh();
    for number in 0..count {
        committed(&mut store, &append(vec![note(&format!("{number:04}"), "text")]));
    }
    let notes = store.reader.page_after(0, 1000).unwrap();
    (disk, store, notes)
}

pub(super) fn complete(execution: &mut Execution) -> Commit {
    execution.complete(&frame(), at(50), &REGISTRY, Vec::new()).unwrap()
}

#[test]
fn an_attempt_opens_then_settles_and_progress_follows() {
    let (_, mut store, notes) = with_notes(2);
    let mut execution = Execution::fix(&frame(), &notes[..1]);
    committed(&mut store, &execution.open(&frame(), 0));
    let reader = store.reader.clone();
    let desk = source("notes:desk");
    assert_eq!(reader.open_attempts(None).unwrap().len(), 1);
    assert_eq!(reader.unsettled(&consumer(), 0, 10).unwrap(), [execution.clone()]);
    assert_eq!(reader.progress(&consumer(), &desk).unwrap(), 0);
    assert_eq!(reader.claims(&consumer(), &desk, 10).unwrap().len(), 1);
    let settle = complete(&mut execution);
    committed(&mut store, &settle);
    assert!(reader.open_attempts(Some(&consumer())).unwrap().is_empty());
    assert!(reader.unsettled(&consumer(), 0, 10).unwrap().is_empty());
    assert!(reader.claims(&consumer(), &desk, 10).unwrap().is_empty());
    assert_eq!(reader.progress(&consumer(), &desk).unwrap(), 1);
    let run = reader.run_by_id(&execution.run_id()).unwrap().unwrap();
    assert_eq!(reader.attempts(&execution.key()).unwrap(), [run]);
    assert!(matches!(one(&mut store, &settle), Verdict::AlreadyCommitted(_)), "a replay is harmless");
}

#[test]
fn progress_waits_for_the_first_event_that_is_not_closed() {
    let (_, mut store, notes) = with_notes(4);
    let mut executions: Vec<Execution> =
        notes.iter().map(|event| Execution::fix(&frame(), std::slice::from_ref(event))).collect();
    for (index, execution) in executions.iter_mut().enumerate() {
        committed(&mut store, &execution.open(&frame(), index as u64));
    }
    let desk = source("notes:desk");
    let mut progress = Vec::new();
    for index in [1, 3, 0, 2] {
        let commit = complete(&mut executions[index]);
        committed(&mut store, &commit);
        progress.push(store.reader.progress(&consumer(), &desk).unwrap());
    }
    assert_eq!(progress, [0, 0, 2, 4]);
    assert!(store.reader.claims(&consumer(), &desk, 10).unwrap().is_empty());
}

#[test]
fn all_terminal_kinds_compete_and_exactly_one_lands() {
    let (_, mut store, notes) = with_notes(1);
    let mut execution = Execution::fix(&frame(), &notes);
    committed(&mut store, &execution.open(&frame(), 0));
    let contenders = [
        complete(&mut execution.clone()),
        execution.clone().fail(&frame(), at(50), "provider", FailurePolicy::Final),
        execution.clone().interrupt(
            &frame(),
            at(50),
            "found-open",
            Interrupted::default(),
            RetryPolicy::default(),
        ),
    ];
    let verdicts = store.writer.apply(&contenders, at(60)).unwrap();
    assert!(matches!(verdicts[0], Verdict::Committed(_)));
    for verdict in &verdicts[1..] {
        assert!(matches!(verdict, Verdict::Refused(Refusal::Precondition { index: 0, .. })), "{verdict:?}");
    }
}

#[test]
fn an_event_is_claimed_once_and_in_order() {
    let (_, mut store, notes) = with_notes(3);
    let mut second = Execution::fix(&frame(), &notes[1..2]);
    let early = one(&mut store, &second.clone().open(&frame(), 1));
    assert!(matches!(early, Verdict::Refused(Refusal::Precondition { index: 1, .. })), "{early:?}");
    let mut batch = Execution::fix(&frame(), &notes[..2]);
    committed(&mut store, &batch.open(&frame(), 0));
    let twice = one(&mut store, &second.open(&frame(), 1));
    assert!(matches!(twice, Verdict::Refused(Refusal::Precondition { index: 2, .. })), "{twice:?}");
    let mut third = Execution::fix(&frame(), &notes[2..]);
    committed(&mut store, &third.open(&frame(), 2));
}

#[test]
fn settling_at_once_needs_no_claim() {
    let (_, mut store, notes) = with_notes(1);
    let mut execution = Execution::fix(&frame(), &notes);
    let commit = execution.settle_at_once(&frame(), 0, &REGISTRY, Vec::new()).unwrap();
    committed(&mut store, &commit);
    assert_eq!(store.reader.progress(&consumer(), &source("notes:desk")).unwrap(), 1);
    assert_eq!(store.reader.execution(&execution.key()).unwrap(), Some(execution));
}

#[test]
fn a_skip_passes_a_held_event() {
    let (_, mut store, notes) = with_notes(1);
    let mut execution = Execution::fix(&frame(), &notes);
    committed(&mut store, &execution.open(&frame(), 0));
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let failed = execution.fail(&frame(), at(50), "provider", FailurePolicy::Retryable(once));
    committed(&mut store, &failed);
    assert!(matches!(execution.state, ExecutionState::Held { quarantined: true, .. }));
    assert_eq!(store.reader.progress(&consumer(), &source("notes:desk")).unwrap(), 0);
    let operator = thoughtstream_domain::payload::system::Operator { uid: 1, pid: 2, tty: None };
    let key = IdempotencyKey::parse("skip-1").unwrap();
    let mut stale = execution.clone();
    committed(&mut store, &execution.skip(at(70), "not needed", operator.clone(), key));
    assert_eq!(execution.state, ExecutionState::Closed { how: Closure::Skipped });
    assert_eq!(store.reader.progress(&consumer(), &source("notes:desk")).unwrap(), 1);
    let again = stale.retry_now(at(80), operator, IdempotencyKey::parse("retry-1").unwrap());
    assert!(matches!(one(&mut store, &again), Verdict::Refused(Refusal::Precondition { .. })));
}

#[test]
fn what_was_passed_unprocessed_may_be_dismissed_and_is_closed_for_everything_else() {
    let (_, mut store, notes) = with_notes(2);
    let operator = thoughtstream_domain::payload::system::Operator { uid: 1, pid: 2, tty: None };
    let key = |text: String| IdempotencyKey::parse(&text).unwrap();
    for (note, policy) in
        notes.chunks(1).zip([FailurePolicy::Unprocessable(Exhausted::Advance), FailurePolicy::Final])
    {
        let mut execution = Execution::fix(&frame(), note);
        let before = note[0].sequence - 1;
        committed(&mut store, &execution.open(&frame(), before));
        committed(&mut store, &execution.fail(&frame(), at(50), "document-not-utf8", policy));
        assert_eq!(store.reader.progress(&consumer(), &source("notes:desk")).unwrap(), before + 1);
        let again = execution.clone().retry_now(at(60), operator.clone(), key(format!("retry-{before}")));
        assert!(matches!(one(&mut store, &again), Verdict::Refused(Refusal::Row { .. })), "{policy:?}");
        let skip = execution.skip(at(70), "seen", operator.clone(), key(format!("skip-{before}")));
        let dismissed = one(&mut store, &skip);
        assert_eq!(
            matches!(dismissed, Verdict::Committed(_)),
            policy != FailurePolicy::Final,
            "{dismissed:?}"
        );
        assert_eq!(store.reader.progress(&consumer(), &source("notes:desk")).unwrap(), before + 1);
    }
    let report = crate::verify::verify(&store.reader, crate::verify::Options::default()).unwrap();
    assert!(report.ok, "{:?}", report.findings);
}

#[test]
fn the_execution_that_holds_an_event_is_found_however_much_lies_between() {
    let (_, mut store, notes) = with_notes(4);
    // One batch of the desk's notes, three hundred executions on another source in between, and one note more.
    let first = &notes[..3];
    let mut batch = Execution::fix(&frame(), &[first[0].clone(), first[2].clone()]);
    committed(&mut store, &batch.open(&frame(), 0));
    let reader = store.reader.clone();
    let of = |event: &Event| reader.execution_of(&consumer(), event).unwrap();
    assert_eq!((of(&first[0]), of(&first[2])), (Some(batch.clone()), Some(batch.clone())));
    // What is not claimed is held by none, whether it lies between or after.
    assert_eq!((of(&first[1]), of(&notes[3])), (None, None));
    let settle = complete(&mut batch);
    committed(&mut store, &settle);
    for number in 0..300 {
        committed(&mut store, &append(vec![note_in(envelope("notes:other", &format!("o{number}")), "x")]));
    }
    let others = store.reader.source_page(&source("notes:other"), 0, 1000).unwrap();
    for (before, other) in others.iter().enumerate() {
        let mut execution = Execution::fix(&frame(), std::slice::from_ref(other));
        let commit = execution.settle_at_once(&frame(), before as u64, &REGISTRY, Vec::new()).unwrap();
        committed(&mut store, &commit);
    }
    committed(&mut store, &append(vec![note_in(envelope("notes:desk", "late"), "late")]));
    let late = store.reader.source_page(&source("notes:desk"), 4, 1).unwrap();
    let mut execution = Execution::fix(&frame(), &[notes[3].clone(), late[0].clone()]);
    let commit = execution.settle_at_once(&frame(), 3, &REGISTRY, Vec::new()).unwrap();
    committed(&mut store, &commit);
    assert_eq!(of(&late[0]), Some(execution.clone()));
    assert_eq!((of(&notes[3]), of(&first[2])), (Some(execution), Some(batch)));
    assert_eq!(of(&first[1]), None);
    let nobody = ConsumerKey::parse("nobody@1").unwrap();
    assert_eq!(store.reader.execution_of(&nobody, &late[0]).unwrap(), None);
}

#[test]
fn passing_stops_before_an_unsettled_claim() {
    let (_, mut store, notes) = with_notes(3);
    let desk = source("notes:desk");
    let pass = |sequence| {
        let row = Row::Pass { consumer: consumer(), source: source("notes:desk"), sequence };
        Commit { rows: vec![row], ..Commit::default() }
    };
    committed(&mut store, &pass(1));
    assert_eq!(store.reader.progress(&consumer(), &desk).unwrap(), 1);
    let mut execution = Execution::fix(&frame(), &notes[1..2]);
    committed(&mut store, &execution.open(&frame(), 0));
    committed(&mut store, &pass(3));
    assert_eq!(store.reader.progress(&consumer(), &desk).unwrap(), 1);
    let settle = complete(&mut execution);
    committed(&mut store, &settle);
    committed(&mut store, &pass(3));
    committed(&mut store, &pass(2));
    assert_eq!(store.reader.progress(&consumer(), &desk).unwrap(), 3);
}

#[test]
fn rows_of_a_person_are_compared_with_what_was_read() {
    let (_, mut store) = fresh();
    let id = consumer().id;
    let paused = Control { paused_since: Some(at(5)), ..Control::default() };
    let pause = |expected| Commit {
        preconditions: vec![Precondition::ControlIs(consumer().id, expected)],
        rows: vec![Row::Control(consumer().id, paused.clone())],
        ..Commit::default()
    };
    committed(&mut store, &pause(None));
    assert!(matches!(one(&mut store, &pause(None)), Verdict::Refused(_)));
    committed(&mut store, &pause(Some(paused.clone())));
    assert_eq!(store.reader.control(&id).unwrap(), Some(paused.clone()));
    let (found, control) = store.reader.controls().unwrap().remove(0);
    assert_eq!((found, control.unwrap()), (id, paused));
}

/// Sets whether the consumer is paused.
fn set_paused(paused: bool) -> Commit {
    let control = Control { paused_since: paused.then(|| at(5)), ..Control::default() };
    Commit { rows: vec![Row::Control(consumer().id, control)], ..Commit::default() }
}

/// Makes every commit that opens an attempt: a first one, one that settles at once, and a retry of `failed`.
fn openings(notes: &[Event], failed: &Execution) -> [Commit; 3] {
    let fixed = |note: &Event| Execution::fix(&frame(), std::slice::from_ref(note));
    [
        fixed(&notes[1]).open(&frame(), 1),
        fixed(&notes[1]).settle_at_once(&frame(), 1, &REGISTRY, Vec::new()).unwrap(),
        failed.clone().open(&frame(), 0),
    ]
}

#[test]
fn who_is_paused_opens_nothing_and_ends_what_is_open() {
    let (disk, mut store, notes) = with_notes(3);
    let mut failed = Execution::fix(&frame(), &notes[..1]);
    committed(&mut store, &failed.open(&frame(), 0));
    // Paused while it runs: it ends as it would have ended.
    committed(&mut store, &set_paused(true));
    let failure = FailurePolicy::Retryable(RetryPolicy::default());
    committed(&mut store, &failed.fail(&frame(), at(50), "provider", failure));
    let refused = Verdict::Refused(Refusal::Paused { consumer: consumer().id });
    for commit in openings(&notes, &failed) {
        assert_eq!(one(&mut store, &commit), refused);
    }
    // So it stays when the log is opened anew and nothing is remembered.
    drop(store);
    let mut store = open(&disk).unwrap();
    for commit in openings(&notes, &failed) {
        assert_eq!(one(&mut store, &commit), refused);
    }
    assert!(store.reader.open_attempts(None).unwrap().is_empty());
    let [first, _, retry] = openings(&notes, &failed);
    // The order within a group is the order of the log.
    let group = [first.clone(), set_paused(false), first.clone(), set_paused(true), retry];
    let verdicts = store.writer.apply(&group, at(60)).unwrap();
    assert_eq!((&verdicts[0], &verdicts[4]), (&refused, &refused));
    assert!(matches!(verdicts[2], Verdict::Committed(_)), "{:?}", verdicts[2]);
    // One that was in before the pause is told so.
    assert!(matches!(one(&mut store, &first), Verdict::AlreadyCommitted(_)));
}

#[test]
fn who_was_resumed_opens_what_was_refused() {
    for index in 0..3 {
        let (_, mut store, notes) = with_notes(3);
        let mut failed = Execution::fix(&frame(), &notes[..1]);
        committed(&mut store, &failed.open(&frame(), 0));
        let failure = FailurePolicy::Retryable(RetryPolicy::default());
        committed(&mut store, &failed.fail(&frame(), at(50), "provider", failure));
        committed(&mut store, &set_paused(true));
        let opening = &openings(&notes, &failed)[index];
        assert!(matches!(one(&mut store, opening), Verdict::Refused(Refusal::Paused { .. })));
        committed(&mut store, &set_paused(false));
        committed(&mut store, opening);
    }
}

#[test]
fn what_a_group_that_failed_said_of_a_pause_is_forgotten() {
    let (_, mut store, notes) = with_notes(2);
    let mut fails = || Err(std::io::Error::other("as told"));
    let opening = Execution::fix(&frame(), &notes[..1]).open(&frame(), 0);
    store
        .writer
        .apply_answering(&[set_paused(true)], at(50), &mut fails, &mut |_| unreachable!())
        .unwrap_err();
    store.writer.reopen().unwrap();
    let paused = store.reader.control(&consumer().id).unwrap().is_some_and(|control| control.is_paused());
    assert_eq!(matches!(one(&mut store, &opening), Verdict::Refused(Refusal::Paused { .. })), paused);
}
