//! What sent nothing is given back, and nothing else is.

use super::*;
use crate::lifecycle::RunState;
use crate::provider::{Certainty, NotSent, ProviderCode, Sending, WireState};

fn proof(run: RunId) -> NotSent {
    Sending::of(run).give_up().unwrap()
}

fn reservation() -> Reservation {
    entry(&policy(amounts(1, 500), vec![]), 0, None).reservation
}

/// A run that reserves, may send, and ends in some order with others.
struct Attempt {
    entry: Entry,
    sending: Sending,
}

impl Attempt {
    /// Ends as the runtime does: by the proof if there is one, and else by what was measured or the estimate.
    fn end(&mut self, now: i64, said: Option<u64>) {
        let reservation = &self.entry.reservation;
        let measured = Measured { input_tokens: said, output_tokens: said, ..Measured::default() };
        let settled = match self.sending.give_up() {
            Some(proof) => reservation.release(proof),
            None => reservation.charge(&measured).into(),
        };
        self.entry.settlement = Some(Settlement { at: at(now), settled });
    }
}

proptest! {
    /// However attempts reserve, send, end and are given up: no window ever holds more sent requests than it admits,
    /// each of them is charged as a call, and what was given up before it was sent holds nothing back.
    #[test]
    fn giving_back_what_was_not_sent_never_lets_more_be_sent_than_a_limit_admits(
        limits in limits(),
        steps in proptest::collection::vec(
            (0_u8..4, 0_usize..8, 0_i64..30_000_000, proptest::option::of(0_u64..400)), 0..60
        ),
    ) {
        let policy = policy(amounts(1, 100), limits);
        let mut attempts: Vec<Attempt> = Vec::new();
        let mut now = 0;
        for (action, which, later, said) in steps {
            now += later;
            let open = |attempt: &&mut Attempt| attempt.entry.settlement.is_none();
            match action {
                0 | 1 => {
                    let entries: Vec<Entry> = attempts.iter().map(|attempt| attempt.entry.clone()).collect();
                    let given_back = |entry: &Entry| entry.tally().unsent == 1;
                    let kept: Vec<Entry> = entries.iter().filter(|one| !given_back(one)).cloned().collect();
                    let Ok(denial) = policy.deny(&mut Rows(entries), at(now));
                    prop_assert_eq!(policy.deny(&mut Rows(kept), at(now)), Ok(denial));
                    if denial.is_none() {
                        let mut entry = entry(&policy, now, None);
                        entry.reservation.run = RunId::from_bytes([attempts.len().to_le_bytes()[0]; 20]);
                        let sending = Sending::of(entry.reservation.run);
                        attempts.push(Attempt { entry, sending });
                    }
                }
                2 => drop(attempts.iter_mut().filter(open).nth(which).map(|one| one.sending.hand_over())),
                _ => drop(attempts.iter_mut().filter(open).nth(which).map(|one| one.end(now, said))),
            }
            for Attempt { entry, sending } in attempts.iter().filter(|one| one.entry.settlement.is_some()) {
                prop_assert_eq!(entry.is_impossible(), None);
                let sent = sending.state() == WireState::Sent;
                let tally = entry.tally();
                prop_assert_eq!((tally.used().calls, tally.unsent), (u64::from(sent), u64::from(!sent)));
                prop_assert!(sent == (tally.used().input_tokens > 0));
            }
            for limit in &policy.limits {
                let start = limit.window.start(at(now));
                let sent = attempts.iter().filter(|attempt| {
                    attempt.sending.state() == WireState::Sent && attempt.entry.reservation.at >= start
                });
                prop_assert!(sent.count() as u64 <= limit.most.calls.unwrap());
            }
        }
    }
}

#[test]
fn what_was_not_sent_counts_nothing_in_any_dimension() {
    let mut reservation = reservation();
    reservation.estimate.cost_microusd = Some(50_000);
    let settled = reservation.release(proof(reservation.run));
    assert_eq!((settled.charge(), settled.contradicts(&reservation)), (None, None));
    assert_eq!(serde_json::to_value(settled.released()).unwrap(), "not-sent");
    let entry = Entry { reservation, settlement: Some(Settlement { at: at(1), settled }) };
    assert_eq!(entry.tally(), Tally { unsent: 1, ..Tally::default() });
    assert_eq!(entry.open().map(|open| open.at), None);
}

#[test]
fn a_settlement_is_told_in_the_members_it_always_had_or_as_given_back() {
    let reservation = reservation();
    let charged = Settlement { at: at(1), settled: reservation.charge_in_full().into() };
    let given_back = Settlement { at: at(1), settled: reservation.release(proof(reservation.run)) };
    let told = |settlement: &Settlement| serde_json::to_value(settlement).unwrap();
    let charge = serde_json::to_value(reservation.charge_in_full()).unwrap();
    assert_eq!(told(&charged), serde_json::json!({ "at": at(1), "charge": charge }));
    assert_eq!(told(&given_back), serde_json::json!({ "at": at(1), "released": "not-sent" }));
    for settlement in [&charged, &given_back] {
        assert_eq!(serde_json::from_value::<Settlement>(told(settlement)).unwrap(), *settlement);
    }
    let both = serde_json::json!({ "at": at(1), "charge": charge, "released": "not-sent" });
    for wrong in [both, serde_json::json!({ "at": at(1) })] {
        assert!(serde_json::from_value::<Settlement>(wrong).is_err());
    }
}

#[test]
fn the_proof_of_another_run_gives_nothing_back() {
    let reservation = reservation();
    let settled = reservation.release(proof(RunId::from_bytes([9; 20])));
    assert_eq!(settled, reservation.charge_in_full().into());
}

#[test]
fn a_charge_of_nothing_is_refused_whatever_it_says() {
    let reservation = reservation();
    let tokens = || [Dimension::InputTokens, Dimension::OutputTokens].into();
    for (reported, estimated) in [
        (Default::default(), Default::default()),
        (tokens(), Default::default()),
        (Default::default(), tokens()),
    ] {
        let charge = Charge::new(amounts(0, 0), reported, estimated);
        assert!(charge.contradicts(&reservation).is_some(), "{charge:?}");
    }
}

#[test]
fn only_an_end_that_says_so_is_one_of_what_was_not_sent() {
    let reservation = reservation();
    let settled = reservation.release(proof(reservation.run));
    let charged = Settled::from(reservation.charge_in_full());
    let failed = |code: &str| RunState::Failed { code: code.to_owned() };
    for code in ProviderCode::ALL {
        let refused = settled.contradicts_end(&failed(code.as_str())).is_some();
        assert_eq!(refused, code.certainty() != Certainty::NotSent, "{code}");
        assert_eq!(charged.contradicts_end(&failed(code.as_str())), None);
    }
    assert_eq!(settled.contradicts_end(&failed("worker-exited")), None);
    let code = || "connect-failed".to_owned();
    for end in [
        RunState::Received,
        RunState::Started,
        RunState::Completed { outputs: Vec::new() },
        RunState::Blocked { code: code() },
        RunState::StatusUnknown { code: code() },
        RunState::Abandoned { code: code() },
    ] {
        assert!(settled.contradicts_end(&end).is_some(), "{}", end.as_str());
        assert_eq!(charged.contradicts_end(&end), None);
    }
}
