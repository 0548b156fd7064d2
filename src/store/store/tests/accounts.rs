//! Accounts: reservations that never pass a limit together, and charges that nothing can lose.

use thoughtstream_domain::accounting::{
    Amounts, Ceiling, Denial, Dimension, Entry, Limit, Measured, OnExhaustion, Policy, Released, Reservation,
    Settled, Settlement, Window,
};
use thoughtstream_domain::commit::{Refusal, Row};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::lifecycle::{
    Admission, Closure, Execution, ExecutionState, FailurePolicy, Frame, RunState,
};
use thoughtstream_domain::payload::trace::RunTraced;
use thoughtstream_domain::provider::{NotSent, Sending};
use thoughtstream_domain::retry::{Interrupted, InterruptedRecord, RetryPolicy};

use super::settlement::{consumer, frame, with_notes};
use super::verification::{change_body, check, expect, first_key, remove_row};
use super::*;
use crate::account::{read_entry, write_entry};
use crate::sim::Loss;
use crate::tables::Table;
use crate::verify::FindingKind;

/// One call of 500 tokens in and 100 out at a time, `most` of them in a window.
pub(super) fn policy(window: Window, most: u64) -> Policy {
    let reserve = Amounts { calls: 1, input_tokens: 500, output_tokens: 100, cost_microusd: None };
    let most = Ceiling { calls: Some(most), ..Ceiling::default() };
    let limits = vec![Limit { window, most }];
    Policy { reserve, lease_ms: 30_000, limits, on_exhaustion: OnExhaustion::Defer }
}

pub(super) fn denial(retry_at: Timestamp) -> Denial {
    let (window, dimension) = (Window::Hour, Dimension::Calls);
    Denial { window, dimension, used: 4, asked: 1, most: 4, retry_at }
}

fn frame_at(now: i64) -> Frame {
    Frame { now: at(now), ..frame() }
}

fn admission(policy: &Policy) -> Admission {
    Admission { policy: Arc::new(policy.clone()), rows: Vec::new() }
}

fn executions(notes: &[Event]) -> Vec<Execution> {
    notes.iter().map(|event| Execution::fix(&frame(), std::slice::from_ref(event))).collect()
}

/// Leaves one open and one settled reservation of another consumer behind.
pub(super) fn spend(store: &mut Store) {
    let asking =
        Frame { consumer: thoughtstream_domain::id::ConsumerKey::parse("asks@1").unwrap(), ..frame() };
    let notes = store.reader.page_after(0, 2).unwrap();
    let mut previous = 0;
    for event in &notes {
        let asking = Frame { now: at(50 + i64::try_from(event.sequence).unwrap()), ..asking.clone() };
        let mut execution = Execution::fix(&asking, std::slice::from_ref(event));
        let (open, reservation) =
            execution.open_admitted(&asking, previous, admission(&policy(Window::Day, 9)));
        committed(store, &open);
        previous = event.sequence;
        if event.sequence == 1 {
            let charge = reservation.charge(&Measured { input_tokens: Some(7), ..Measured::default() });
            let settled = execution.complete(&asking, (reservation, charge), &REGISTRY, Vec::new()).unwrap();
            committed(store, &settled);
        }
    }
}

fn opened(store: &mut Store, execution: &mut Execution, previous: u64, now: i64) -> Reservation {
    let admission = admission(&policy(Window::Hour, 1000));
    let (open, reservation) = execution.open_admitted(&frame_at(now), previous, admission);
    committed(store, &open);
    reservation
}

#[test]
fn a_reservation_is_settled_by_what_was_measured_and_counts_all_the_while() {
    let (_, mut store, notes) = with_notes(1);
    let mut execution = executions(&notes).remove(0);
    let reservation = opened(&mut store, &mut execution, 0, 70);
    let id = consumer().id;
    let hour = [at(0)];
    let state = store.reader.account(&id, &hour, None).unwrap();
    assert_eq!(state.since[0].used().input_tokens, 500);
    assert_eq!(state.since[0], state.ever);
    assert_eq!(state.open[0].reservation, reservation);
    let charge = reservation.charge(&Measured { input_tokens: Some(42), ..Measured::default() });
    let settle = execution.complete(&frame_at(90), (reservation, charge), &REGISTRY, Vec::new()).unwrap();
    committed(&mut store, &settle);
    assert!(matches!(one(&mut store, &settle), Verdict::AlreadyCommitted(_)), "a replay is harmless");
    let state = store.reader.account(&id, &hour, None).unwrap();
    assert_eq!((state.since[0].reported.input_tokens, state.since[0].estimated.output_tokens), (42, 100));
    assert_eq!(state.since[0].reserved, thoughtstream_domain::accounting::Sums::default());
    assert!(state.open.is_empty());
    assert_eq!(store.reader.accounts().unwrap(), [id]);
    let run = store.reader.run_by_id(&execution.run_id()).unwrap().unwrap();
    let entry = store.reader.entry(&run).unwrap().unwrap();
    assert_eq!(entry.settlement.unwrap().at, at(90));
    assert!(check(&store).ok, "{:?}", check(&store).findings);
}

#[test]
fn reservations_of_one_group_never_pass_a_limit_together() {
    let (_, mut store, notes) = with_notes(6);
    let policy = policy(Window::Rolling { ms: 60_000 }, 4);
    let mut previous = 0;
    let group: Vec<Commit> = executions(&notes)
        .iter_mut()
        .zip(&notes)
        .map(|(execution, event)| {
            let opening = execution.open_admitted(&frame_at(1_000), previous, admission(&policy));
            previous = event.sequence;
            opening.0
        })
        .collect();
    let verdicts = store.writer.apply(&group, at(1_000)).unwrap();
    assert!(verdicts[..4].iter().all(|verdict| matches!(verdict, Verdict::Committed(_))), "{verdicts:?}");
    let Verdict::Refused(Refusal::OverBudget { denial, .. }) = &verdicts[4] else { panic!("{verdicts:?}") };
    assert_eq!((denial.used, denial.asked, denial.most), (4, 1, 4));
    assert_eq!(denial.retry_at, at(61_000));
    let (_, fifth) = group.split_at(4);
    let later = store.writer.apply(&fifth[..1], at(61_001)).unwrap();
    let still = "the moment of a reservation is the one it says";
    assert!(matches!(later[0], Verdict::Refused(Refusal::OverBudget { .. })), "{still}");
    let mut execution = executions(&notes).remove(4);
    let (again, _) = execution.open_admitted(&frame_at(61_000), notes[3].sequence, admission(&policy));
    committed(&mut store, &again);
    assert!(check(&store).ok);
}

#[test]
fn no_attempt_ends_without_settling_what_it_reserved() {
    let (_, mut store, notes) = with_notes(2);
    let mut both = executions(&notes);
    let reservation = opened(&mut store, &mut both[0], 0, 70);
    let charge = reservation.charge_in_full();
    let settles = |reservation: &Reservation| (reservation.clone(), charge.clone());
    let mut less = charge.clone();
    less.amounts.input_tokens = 1;
    let other = Reservation { lease_until: at(71), ..reservation.clone() };
    let wrong = [
        both[0].clone().complete(&frame(), reservation.at, &REGISTRY, Vec::new()).unwrap(),
        both[0].clone().fail(&frame(), (reservation.clone(), less), "provider", FailurePolicy::Final),
        both[0].clone().fail(&frame(), settles(&other), "provider", FailurePolicy::Final),
    ];
    for commit in wrong {
        let verdict = one(&mut store, &commit);
        assert!(matches!(verdict, Verdict::Refused(Refusal::Row { .. })), "{verdict:?}");
    }
    // An attempt that has reserved nothing needs no charge, and gets none.
    let plain = both[1].open(&frame_at(72), notes[0].sequence);
    committed(&mut store, &plain);
    let mut invented = reservation.clone();
    (invented.run, invented.position, invented.at) = (both[1].run_id(), both[1].position(), at(72));
    let charged = both[1].clone().fail(&frame(), settles(&invented), "provider", FailurePolicy::Final);
    assert!(matches!(one(&mut store, &charged), Verdict::Refused(Refusal::Row { .. })));
    let failed = both[1].fail(&frame(), at(72), "provider", FailurePolicy::Final);
    committed(&mut store, &failed);
    let (interrupted, retry) = (Interrupted::default(), RetryPolicy::default());
    let lost = both[0].interrupt(&frame(), settles(&reservation), "found-open", interrupted, retry);
    committed(&mut store, &lost);
    let state = store.reader.account(&consumer().id, &[], None).unwrap();
    assert_eq!(state.ever.estimated.input_tokens, 500, "a lost answer is charged in full");
    assert!(check(&store).ok);
}

/// Returns the proof that a run sent nothing.
fn proof(reservation: &Reservation) -> NotSent {
    Sending::of(reservation.run).give_up().unwrap()
}

/// Fails an attempt of which nothing was sent, as its trace says too.
fn given_back(execution: &mut Execution, reservation: &Reservation, requests: u32) -> Commit {
    let settled = reservation.release(proof(reservation));
    let ending = (reservation.clone(), settled);
    let mut commit = execution.fail(&frame_at(90), ending, "connect-failed", FailurePolicy::Final);
    let traced = RunTraced::of(execution.stamp(), requests, Vec::new());
    commit.appends.push(traced.event(execution.privacy, execution.parents()));
    commit
}

#[test]
fn what_was_not_sent_is_given_back_and_its_place_in_the_window_is_free_again() {
    let (disk, mut store, notes) = with_notes(3);
    let mut executions = executions(&notes);
    let policy = policy(Window::Day, 1);
    let (open, reservation) = executions[0].open_admitted(&frame_at(70), 0, admission(&policy));
    committed(&mut store, &open);
    let (denied, _) = executions[1].clone().open_admitted(&frame_at(71), 1, admission(&policy));
    let verdict = one(&mut store, &denied);
    assert!(matches!(verdict, Verdict::Refused(Refusal::OverBudget { .. })), "{verdict:?}");
    let failed = given_back(&mut executions[0], &reservation, 0);
    committed(&mut store, &failed);
    assert!(matches!(one(&mut store, &failed), Verdict::AlreadyCommitted(_)), "a replay is harmless");
    let (open, _) = executions[1].open_admitted(&frame_at(91), 1, admission(&policy));
    committed(&mut store, &open);
    drop(store);
    let mut store = super::open(&disk.image(Loss::All)).unwrap();
    let state = store.reader.account(&consumer().id, &[at(0)], None).unwrap();
    assert_eq!((state.ever.unsent, state.ever.used().calls, state.open.len()), (1, 1, 1));
    assert_eq!(state.since[0], state.ever);
    let (denied, _) = executions[2].open_admitted(&frame_at(92), 2, admission(&policy));
    let verdict = one(&mut store, &denied);
    assert!(matches!(verdict, Verdict::Refused(Refusal::OverBudget { .. })), "{verdict:?}");
    assert!(check(&store).ok, "{:?}", check(&store).findings);
}

#[test]
fn a_reservation_is_given_back_by_no_other_end_than_a_failure_that_says_so() {
    let (_, mut store, notes) = with_notes(1);
    let mut execution = executions(&notes).remove(0);
    let reservation = opened(&mut store, &mut execution, 0, 70);
    let settlement = Settlement { at: at(90), settled: reservation.release(proof(&reservation)) };
    let entry = Entry { reservation: reservation.clone(), settlement: Some(settlement) };
    let charged = || (reservation.clone(), reservation.charge_in_full());
    let (interrupted, retry) = (Interrupted::default(), RetryPolicy::default());
    let abandoned = Interrupted { record: InterruptedRecord::Abandoned, ..interrupted };
    let ends = [
        execution.clone().complete(&frame_at(90), charged(), &REGISTRY, Vec::new()).unwrap(),
        execution.clone().interrupt(&frame_at(90), charged(), "connect-failed", interrupted, retry),
        execution.clone().interrupt(&frame_at(90), charged(), "connect-failed", abandoned, retry),
        execution.clone().fail(&frame_at(90), charged(), "provider-rate-limited", FailurePolicy::Final),
        execution.clone().fail(&frame_at(90), charged(), "connection-lost", FailurePolicy::Final),
    ];
    for mut commit in ends {
        let settles = |row: &&mut Row| matches!(row, Row::Entry(_));
        *commit.rows.iter_mut().find(settles).unwrap() = Row::Entry(entry.clone());
        let verdict = one(&mut store, &commit);
        assert!(matches!(verdict, Verdict::Refused(Refusal::Row { .. })), "{verdict:?}");
    }
    committed(&mut store, &given_back(&mut execution, &reservation, 0));
    assert!(check(&store).ok, "{:?}", check(&store).findings);
}

#[test]
fn what_was_given_back_without_events_that_say_that_nothing_was_sent_is_found() {
    // The trace counts a request, says nothing, or says it twice; the terminal event says that it was charged.
    let without = |commit: &mut Commit| drop(commit.appends.pop());
    let charged = |commit: &mut Commit, as_charged: Commit| commit.appends[0] = as_charged.appends[0].clone();
    for wrong in 0..3 {
        let (_, mut store, notes) = with_notes(1);
        let mut execution = executions(&notes).remove(0);
        let reservation = opened(&mut store, &mut execution, 0, 70);
        let in_full = (reservation.clone(), reservation.charge_in_full());
        let as_charged =
            execution.clone().fail(&frame_at(90), in_full, "connect-failed", FailurePolicy::Final);
        let mut commit = given_back(&mut execution, &reservation, u32::from(wrong == 0));
        match wrong {
            0 => {}
            1 => without(&mut commit),
            _ => charged(&mut commit, as_charged),
        }
        committed(&mut store, &commit);
        expect(&store, FindingKind::Account, "entries links");
    }
}

#[test]
fn an_entry_without_its_attempt_is_refused() {
    let (_, mut store, notes) = with_notes(1);
    let mut execution = executions(&notes).remove(0);
    let (mut open, _) = execution.open_admitted(&frame_at(9), 0, admission(&policy(Window::Day, 2)));
    open.rows.retain(|row| !matches!(row, Row::Run(_)));
    assert!(matches!(one(&mut store, &open), Verdict::Refused(Refusal::Row { .. })));
}

#[test]
fn a_blocked_attempt_passes_its_event_or_waits_without_counting_as_failed() {
    for (then, progress) in [(OnExhaustion::Advance, 1), (OnExhaustion::Defer, 0)] {
        let (_, mut store, notes) = with_notes(1);
        let mut execution = executions(&notes).remove(0);
        let blocked = execution.block(&frame_at(80), 0, &denial(at(3_600_000)), then);
        let types: Vec<&str> = blocked.appends.iter().map(|event| event.kind().name.as_str()).collect();
        assert_eq!(types, ["stream.thought.run.received", "stream.thought.run.blocked"]);
        committed(&mut store, &blocked);
        assert_eq!(store.reader.progress(&consumer(), &source("notes:desk")).unwrap(), progress);
        assert_eq!((execution.attempts, execution.failures), (1, 0));
        let run = store.reader.run_by_id(&execution.run_id()).unwrap().unwrap();
        assert!(matches!(&run.state, RunState::Blocked { code } if code == "budget-exhausted"));
        assert_eq!(store.reader.entry(&run).unwrap(), None);
        match then {
            OnExhaustion::Advance => {
                assert_eq!(execution.state, ExecutionState::Closed { how: Closure::Blocked });
            }
            OnExhaustion::Defer => {
                let waits = matches!(execution.state, ExecutionState::Waiting { at, .. } if at.as_millis() == 3_600_000);
                assert!(waits, "{:?}", execution.state);
                opened(&mut store, &mut execution, 0, 3_600_000);
                assert_eq!(execution.attempts, 2);
            }
        }
        assert!(check(&store).ok, "{:?}", check(&store).findings);
    }
}

#[test]
fn accounts_survive_a_restart_and_a_version_change() {
    let (disk, mut store, notes) = with_notes(2);
    opened(&mut store, &mut executions(&notes)[0], 0, 70);
    drop(store);
    let mut store = open(&disk.image(Loss::All)).unwrap();
    let next =
        Frame { consumer: thoughtstream_domain::id::ConsumerKey::parse("links@2").unwrap(), ..frame_at(75) };
    let mut execution = Execution::fix(&next, &notes[1..]);
    let (open, _) = execution.open_admitted(&next, 0, admission(&policy(Window::Hour, 1)));
    let verdict = one(&mut store, &open);
    assert!(matches!(verdict, Verdict::Refused(Refusal::OverBudget { .. })), "{verdict:?}");
    let (open, _) = execution_at(&next, &notes).open_admitted(&next, 0, admission(&policy(Window::Hour, 2)));
    committed(&mut store, &open);
    assert_eq!(store.reader.account(&consumer().id, &[], None).unwrap().ever.used().calls, 2);
}

fn execution_at(frame: &Frame, notes: &[Event]) -> Execution {
    Execution::fix(frame, &notes[1..])
}

#[track_caller]
fn finds(change: impl FnOnce(&Store), place: &str) {
    let (_, mut store, _) = with_notes(2);
    spend(&mut store);
    assert!(check(&store).ok);
    change(&store);
    expect(&store, FindingKind::Account, place);
}

#[test]
fn what_was_changed_in_an_account_is_found() {
    let less = |row: &mut Vec<u8>| {
        let mut entry = read_entry(row).unwrap();
        let settlement = entry.settlement.as_mut().expect("the first one is settled");
        let Settled::Charged(charge) = &mut settlement.settled else { panic!("it is charged") };
        charge.amounts.input_tokens = 1;
        *row = write_entry(&entry);
    };
    finds(
        |store| change_body(store, Table::Entries, &first_key(store, Table::Entries), less),
        "entries asks",
    );
    let given_back = |row: &mut Vec<u8>| {
        let mut entry = read_entry(row).unwrap();
        entry.settlement.as_mut().unwrap().settled = Settled::Released(Released::restored());
        *row = write_entry(&entry);
    };
    finds(
        |store| change_body(store, Table::Entries, &first_key(store, Table::Entries), given_back),
        "entries asks",
    );
    let smaller = |row: &mut Vec<u8>| row[0] = 0;
    finds(
        |store| change_body(store, Table::Tallies, &first_key(store, Table::Tallies), smaller),
        "tallies asks",
    );
    for (table, place) in
        [(Table::Entries, ""), (Table::Tallies, "tallies asks"), (Table::Leases, "leases asks")]
    {
        finds(|store| remove_row(store, table, &first_key(store, table)), place);
    }
}
