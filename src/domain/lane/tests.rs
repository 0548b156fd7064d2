//! A lane against a log that invents outcomes: claims stay ordered and complete, bounds hold, holds stop.

use proptest::prelude::*;

use super::*;
use crate::event::{Actor, ActorKind, Payload};
use crate::hash::{ChainHash, Sha256Hash};
use crate::id::{ConsumerKey, EventId, IdempotencyKey, SourceId, TypeRef};
use crate::lifecycle::{AdapterRevision, Closure, Frame};
use crate::privacy::Privacy;

fn event(sequence: u64) -> Event {
    let source = SourceId::parse("notes:x").unwrap();
    let key = IdempotencyKey::parse(&format!("k{sequence}")).unwrap();
    let kind = TypeRef::parse("a.b@1").unwrap();
    let id = EventId::derive(&source, &kind.name, &key);
    Event {
        position: sequence * 3,
        id,
        kind,
        source,
        sequence,
        privacy: Privacy::Private,
        actor: Actor::ours(ActorKind::Person, "uid:1"),
        key,
        occurred_at: None,
        recorded_at: Timestamp::from_millis(1),
        root: id,
        parents: vec![],
        depth: 0,
        address: None,
        external: None,
        correlation: None,
        payload: Payload::Redacted,
        payload_sha256: Sha256Hash::of(b""),
        chain: ChainHash::START,
    }
}

fn fixed(events: &[Event], now: Timestamp) -> Execution {
    let frame = Frame {
        consumer: ConsumerKey::parse("links@1").unwrap(),
        fingerprint: Sha256Hash::of(b""),
        privacy_floor: Privacy::PublicSource,
        incarnation: 1,
        now,
        adapter: AdapterRevision::deterministic(),
    };
    Execution::fix(&frame, events)
}

const SERIAL: Limits = Limits { batch_max: 1, batch_wait_ms: 0, concurrency: 1 };
const T0: Timestamp = Timestamp::from_millis(1_000);

#[test]
fn a_lane_that_begins_with_an_event_ahead_looks_at_nothing_before_it() {
    let mut lane = Lane::resume(0, 0, vec![], 2);
    lane.begin_with(5);
    assert_eq!((lane.step(T0, &SERIAL), lane.behind()), (Step::Idle, 0));
    lane.moved(4);
    lane.offered(2, vec![event(3), event(4)], 4, T0, &SERIAL);
    assert_eq!(lane.step(T0, &SERIAL), Step::Idle);
    lane.moved(6);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { after: 4, .. }));
    lane.read(4, vec![event(5), event(6)], 6, T0);
    // The log has no progress yet that a claim could be behind.
    let Step::Claim { events, previous: 0 } = lane.step(T0, &SERIAL) else { panic!() };
    assert_eq!(events[0].sequence, 5);
}

#[test]
fn a_serial_lane_runs_one_event_at_a_time_in_order() {
    let mut lane = Lane::resume(0, 0, vec![], 2);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { after: 0, .. }));
    lane.read(0, vec![event(1), event(2)], 2, T0);
    let Step::Claim { events, previous: 0 } = lane.step(T0, &SERIAL) else { panic!() };
    assert_eq!(events[0].sequence, 1);
    assert_eq!(lane.step(T0, &SERIAL), Step::Idle);
    let mut done = fixed(&events, T0);
    done.state = ExecutionState::Closed { how: Closure::Completed };
    lane.ended(done);
    let Step::Claim { events, previous: 1 } = lane.step(T0, &SERIAL) else { panic!() };
    assert_eq!(events[0].sequence, 2);
}

#[test]
fn a_batch_waits_for_more_but_not_for_ever() {
    let limits = Limits { batch_max: 3, batch_wait_ms: 2_000, concurrency: 1 };
    let mut lane = Lane::resume(0, 0, vec![], 1);
    assert!(matches!(lane.step(T0, &limits), Step::Read { .. }));
    lane.read(0, vec![event(1)], 1, T0);
    assert_eq!(lane.step(T0, &limits), Step::Wait(T0.plus_millis(2_000)));
    let Step::Claim { events, .. } = lane.step(T0.plus_millis(2_000), &limits) else { panic!() };
    assert_eq!(events.len(), 1);
}

#[test]
fn a_full_batch_does_not_wait() {
    let limits = Limits { batch_max: 2, batch_wait_ms: 2_000, concurrency: 1 };
    let mut lane = Lane::resume(0, 0, vec![], 3);
    assert!(matches!(lane.step(T0, &limits), Step::Read { .. }));
    lane.read(0, vec![event(1), event(2), event(3)], 3, T0);
    let Step::Claim { events, .. } = lane.step(T0, &limits) else { panic!() };
    assert_eq!(events.len(), 2);
}

#[test]
fn a_held_execution_stops_its_lane() {
    let mut held = fixed(&[event(1)], T0);
    held.state = ExecutionState::Held { code: "store".into(), quarantined: true };
    let mut lane = Lane::resume(0, 1, vec![held.clone()], 9);
    assert_eq!(lane.step(T0, &Limits { concurrency: 4, ..SERIAL }), Step::Idle);
    assert_eq!(lane.state(), LaneState::Held);
    held.state = ExecutionState::Closed { how: Closure::Skipped };
    lane.ended(held);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { after: 1, .. }));
}

#[test]
fn a_fixed_batch_is_finished_before_another_is_formed() {
    let mut waiting = fixed(&[event(1), event(2)], T0);
    waiting.state = ExecutionState::Waiting { at: T0.plus_millis(50), code: "store".into() };
    let mut lane = Lane::resume(0, 2, vec![waiting], 5);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { after: 2, .. }));
    lane.read(2, vec![event(3)], 3, T0);
    assert_eq!(lane.state(), LaneState::Waiting(T0.plus_millis(50)));
    lane.moved(3);
    let Step::Retry(execution) = lane.step(T0.plus_millis(50), &SERIAL) else { panic!() };
    assert_eq!(execution.triggers.len(), 2);
}

#[test]
fn events_that_do_not_match_are_passed_lazily() {
    let mut lane = Lane::resume(0, 0, vec![], PASS_AFTER);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { .. }));
    lane.read(0, vec![], PASS_AFTER, T0);
    assert_eq!(lane.step(T0, &SERIAL), Step::Pass(PASS_AFTER));
    assert_eq!(lane.step(T0, &SERIAL), Step::Idle);
}

#[test]
fn a_page_for_an_earlier_state_of_the_lane_is_not_taken() {
    let mut lane = Lane::resume(0, 0, vec![], 9);
    lane.read(0, vec![event(1)], 1, T0);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { after: 0, .. }), "nobody asked yet");
    lane.read(5, vec![event(6)], 6, T0);
    assert_eq!(lane.step(T0, &SERIAL), Step::Idle, "it still waits for what it asked for");
    lane.read(0, vec![event(1)], 1, T0);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Claim { previous: 0, .. }));
}

#[test]
fn what_comes_with_a_wake_up_spares_a_read_if_it_follows_what_was_looked_at() {
    let mut lane = Lane::resume(4, 4, vec![], 4);
    lane.moved(6);
    lane.offered(4, vec![event(6)], 6, T0, &SERIAL);
    let Step::Claim { events, previous: 4 } = lane.step(T0, &SERIAL) else { panic!() };
    assert_eq!(events[0].sequence, 6);
    assert_eq!(lane.step(T0, &SERIAL), Step::Idle, "nothing is left to be read");
    lane.moved(9);
    lane.offered(7, vec![event(9)], 9, T0, &SERIAL);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { after: 6, .. }), "what lies between is not known");
    lane.offered(6, vec![event(9)], 9, T0, &SERIAL);
    lane.read(6, vec![event(7)], 7, T0);
    assert_eq!(lane.behind(), 2, "a read was under way, and what it found is what counts");
}

#[derive(Debug, Clone)]
enum Outcome {
    Complete,
    Fail,
    Hold,
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let one = prop_oneof![6 => Just(Outcome::Complete), 3 => Just(Outcome::Fail), 1 => Just(Outcome::Hold)];
    prop::collection::vec(one, 1..60)
}

proptest! {
    #[test]
    fn claims_are_ordered_complete_and_bounded(
        outcomes in outcomes(), batch in 1..4_usize, concurrency in 1..5_usize, total in 1..40_u64,
        offers in prop::collection::vec((0..40_u64, 1..4_u64), 0..40),
    ) {
        let limits = Limits { batch_max: batch, batch_wait_ms: 10, concurrency };
        let mut lane = Lane::resume(0, 0, vec![], total);
        let (mut now, mut open, mut claimed, mut held) = (T0, Vec::<Execution>::new(), 0, 0_usize);
        let mut outcomes = outcomes.into_iter();
        let mut offers = offers.into_iter();
        for _ in 0..2_000 {
            if let Some((after, count)) = offers.next() {
                let through = total.min(after + count);
                lane.offered(after, (after + 1..=through).map(event).collect(), through, now, &limits);
            }
            match lane.step(now, &limits) {
                Step::Claim { events, previous } => {
                    prop_assert_eq!(previous, claimed);
                    prop_assert!(events.len() <= batch && held == 0);
                    for event in &events {
                        prop_assert_eq!(event.sequence, claimed + 1);
                        claimed = event.sequence;
                    }
                    open.push(fixed(&events, now));
                }
                Step::Retry(execution) => open.push(*execution),
                Step::Read { after, limit } => {
                    let last = total.min(after + limit as u64);
                    lane.read(after, (after + 1..=last).map(event).collect(), last, now);
                }
                Step::Pass(_) => prop_assert!(false, "everything matches"),
                Step::Wait(at) => now = at,
                Step::Idle if open.is_empty() => break,
                Step::Idle => {}
            }
            prop_assert!(open.len() <= concurrency);
            if open.len() == concurrency || (claimed == total && !open.is_empty()) {
                let mut execution = open.remove(0);
                execution.state = match outcomes.next() {
                    Some(Outcome::Complete) | None => ExecutionState::Closed { how: Closure::Completed },
                    Some(Outcome::Fail) => ExecutionState::Waiting { at: now.plus_millis(5), code: "store".into() },
                    Some(Outcome::Hold) => {
                        held += 1;
                        ExecutionState::Held { code: "store".into(), quarantined: true }
                    }
                };
                lane.ended(execution);
            }
        }
        prop_assert!(held > 0 || claimed == total, "claimed {} of {}", claimed, total);
    }
}

#[test]
fn a_clock_that_is_set_back_draws_no_wait_out() {
    let mut waiting = fixed(&[event(1)], T0);
    waiting.attempts = 1;
    waiting.state = ExecutionState::Waiting { at: T0.plus_millis(10), code: "x".to_owned() };
    let mut lane = Lane::resume(0, 1, vec![waiting], 1);
    assert_eq!(lane.step(T0, &SERIAL), Step::Wait(T0.plus_millis(10)));
    assert!(matches!(lane.step(T0.plus_millis(-3_600_000), &SERIAL), Step::Retry(_)));

    let limits = Limits { batch_max: 4, batch_wait_ms: 50, concurrency: 1 };
    let mut lane = Lane::resume(0, 0, vec![], 1);
    assert!(matches!(lane.step(T0, &limits), Step::Read { .. }));
    lane.read(0, vec![event(1)], 1, T0);
    assert_eq!(lane.step(T0, &limits), Step::Wait(T0.plus_millis(50)));
    assert!(matches!(lane.step(T0.plus_millis(-3_600_000), &limits), Step::Claim { .. }));
}

#[test]
fn an_attempt_that_was_kept_out_is_forgotten() {
    let mut lane = Lane::resume(0, 0, vec![], 2);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Read { .. }));
    lane.read(0, vec![event(1), event(2)], 2, T0);
    assert!(matches!(lane.step(T0, &SERIAL), Step::Claim { .. }));
    assert_eq!(lane.running(), 1);
    lane.forget(event(1).position);
    assert_eq!(lane.running(), 0);
}

fn damaged(sequence: u64) -> DamagedEvent {
    DamagedEvent { source: SourceId::parse("notes:x").unwrap(), sequence, position: sequence * 3 }
}

#[test]
fn a_damaged_event_is_named_as_the_store_names_it_and_read_back() {
    assert_eq!(damaged(7).to_string(), "events 21 (notes:x 7)");
    assert_eq!(DamagedEvent::parse("events 21 (notes:x 7)"), Some(damaged(7)));
    for other in ["", "events 21", "events 21 (notes:x)", "events x (notes:x 7)", "types 21 (notes:x 7)"] {
        assert_eq!(DamagedEvent::parse(other), None, "{other}");
    }
}

#[test]
fn a_lane_finishes_what_stands_before_a_damaged_event_and_goes_no_further() {
    let mut lane = Lane::resume(0, 0, vec![], 900);
    assert_eq!(lane.step(T0, &SERIAL), Step::Read { after: 0, limit: 1 });
    assert!(lane.read(0, vec![event(1)], 1, T0));
    lane.stop_before(damaged(2));
    let Step::Claim { events, .. } = lane.step(T0, &SERIAL) else { panic!("it claims what it has") };
    let mut execution = fixed(&events, T0);
    execution.state = ExecutionState::Closed { how: Closure::Completed };
    lane.ended(execution);
    // Neither reading, nor passing, nor what comes with a wake-up takes it any further.
    lane.moved(1_000);
    lane.offered(1, vec![event(3)], 3, T0, &SERIAL);
    assert_eq!((lane.step(T0, &SERIAL), lane.state()), (Step::Idle, LaneState::Damaged));
    assert_eq!((lane.damaged(), lane.behind()), (Some(&damaged(2)), 999));
    assert!(!lane.read(1, vec![event(3)], 3, T0), "nothing was asked for");
}

#[test]
fn a_retry_whose_trigger_is_damaged_is_taken_back_and_nothing_behind_it_is_begun() {
    let wide = Limits { concurrency: 3, ..SERIAL };
    let waiting = fixed(&[event(1)], T0);
    let mut lane = Lane::resume(0, 1, vec![waiting], 9);
    let Step::Retry(execution) = lane.step(T0, &wide) else { panic!("it tries again") };
    assert!(matches!(lane.step(T0, &wide), Step::Read { after: 1, .. }));
    assert!(lane.read(1, vec![event(2), event(3)], 3, T0));
    lane.stop_at(execution.position(), damaged(1));
    assert_eq!((lane.step(T0, &wide), lane.state()), (Step::Idle, LaneState::Damaged));
    // The first of several is named.
    lane.stop_before(damaged(5));
    assert_eq!(lane.damaged(), Some(&damaged(1)));
}
