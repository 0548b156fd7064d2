//! Attempts that spend: opened with a reservation, denied one, or ended with a charge.

use std::sync::Arc;

use super::{Closure, Execution, ExecutionState, Frame, RunState};
use crate::accounting::{
    BUDGET_EXHAUSTED, Charge, Denial, Entry, OnExhaustion, Policy, Reservation, Settled, Settlement,
};
use crate::commit::{Commit, Precondition, Row};
use crate::event::ActorKind;
use crate::payload::TypedPayload as _;
use crate::payload::run::{Next, Reserved, RunBlocked, RunStarted};
use crate::time::Timestamp;

/// Is what joins the commit that opens a model run: the reservation, and rows that the run needs, such as the
/// snapshot of its context.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The declared policy, which the reservation must fit at the moment of the commit.
    pub policy: Arc<Policy>,
    /// Further rows of the same commit.
    pub rows: Vec<Row>,
}

/// Is how an attempt ends: when it was received and, if it reserved, what that is charged.
#[derive(Debug, Clone)]
pub struct Ending {
    received_at: Timestamp,
    settles: Option<(Reservation, Charge)>,
}

impl From<Timestamp> for Ending {
    /// Ends an attempt without a reservation.
    fn from(received_at: Timestamp) -> Self {
        Self { received_at, settles: None }
    }
}

impl From<(Reservation, Charge)> for Ending {
    /// Ends an attempt and settles its reservation.
    fn from((reservation, charge): (Reservation, Charge)) -> Self {
        Self { received_at: reservation.at, settles: Some((reservation, charge)) }
    }
}

/// Is how an attempt fails: as any attempt ends, or with its reservation given back. No other end can do that.
#[derive(Debug, Clone)]
pub struct FailedEnding {
    received_at: Timestamp,
    settles: Option<(Reservation, Settled)>,
}

impl From<Timestamp> for FailedEnding {
    /// Fails an attempt without a reservation.
    fn from(received_at: Timestamp) -> Self {
        Self { received_at, settles: None }
    }
}

impl From<(Reservation, Charge)> for FailedEnding {
    /// Fails an attempt and charges its reservation.
    fn from((reservation, charge): (Reservation, Charge)) -> Self {
        (reservation, Settled::Charged(charge)).into()
    }
}

impl From<(Reservation, Settled)> for FailedEnding {
    /// Fails an attempt and settles its reservation, one way or the other.
    fn from((reservation, settled): (Reservation, Settled)) -> Self {
        Self { received_at: reservation.at, settles: Some((reservation, settled)) }
    }
}

impl From<Ending> for FailedEnding {
    fn from(ending: Ending) -> Self {
        let Ending { received_at, settles } = ending;
        let settles = settles.map(|(reservation, charge)| (reservation, charge.into()));
        Self { received_at, settles }
    }
}

impl Reservation {
    /// Ends the attempt and charges the full estimate: its answer was lost, or never asked for as far as is known.
    #[must_use]
    pub fn ending_in_full(self) -> Ending {
        let charge = self.charge_in_full();
        (self, charge).into()
    }
}

impl Ending {
    /// Returns the charge, for the terminal event.
    pub(super) fn charge(&self) -> Option<Charge> {
        self.settles.as_ref().map(|(_, charge)| charge.clone())
    }
}

impl FailedEnding {
    /// Returns when the attempt was received.
    pub(super) const fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// Returns how its reservation was settled, for the terminal event.
    pub(super) fn settled(&self) -> Option<&Settled> {
        self.settles.as_ref().map(|(_, settled)| settled)
    }

    /// Returns the row that settles the reservation.
    pub(super) fn row(self, now: Timestamp) -> Option<Row> {
        let (reservation, settled) = self.settles?;
        Some(Row::Entry(Entry { reservation, settlement: Some(Settlement { at: now, settled }) }))
    }
}

impl Execution {
    /// Opens the next attempt of a model run durably: reservation, further rows, received and started in one commit.
    /// The log refuses it with [`Refusal::OverBudget`](crate::commit::Refusal::OverBudget) if the reservation does not
    /// fit; [`block`](Self::block) is what follows, on the execution as it was before.
    #[must_use]
    pub fn open_admitted(
        &mut self,
        frame: &Frame,
        previous: u64,
        admission: Admission,
    ) -> (Commit, Reservation) {
        let Admission { policy, rows } = admission;
        let mut commit = self.open(frame, previous);
        let reservation = Reservation {
            consumer: self.consumer.clone(),
            position: self.position(),
            attempt: self.attempts,
            run: self.run_id(),
            at: frame.now,
            lease_until: policy.lease_until(frame.now),
            estimate: policy.reserve,
        };
        let Reservation { estimate, lease_until, .. } = reservation;
        let started =
            RunStarted { stamp: self.stamp(), reservation: Some(Reserved { estimate, lease_until }) };
        commit.appends.pop();
        commit.appends.push(started.candidate(self.envelope("started", ActorKind::Agent)));
        let account = self.consumer.id.clone();
        commit.preconditions.push(Precondition::Within { account, policy, at: frame.now });
        commit.rows.push(Row::Entry(Entry { reservation: reservation.clone(), settlement: None }));
        commit.rows.extend(rows);
        (commit, reservation)
    }

    /// Ends the next attempt before it starts, because its reservation was denied: received and blocked in one commit.
    /// It is no failure, and the retry policy does not count it.
    #[must_use]
    pub fn block(&mut self, frame: &Frame, previous: u64, denial: &Denial, then: OnExhaustion) -> Commit {
        let preconditions = self.may_open(previous);
        let received = self.receive(frame);
        let at = denial.retry_at;
        let code = BUDGET_EXHAUSTED.to_owned();
        let (next, state) = match then {
            OnExhaustion::Advance => (Next::Advance, ExecutionState::Closed { how: Closure::Blocked }),
            OnExhaustion::Defer => (Next::Retry { at }, ExecutionState::Waiting { at, code: code.clone() }),
        };
        self.state = state;
        let blocked = RunBlocked { stamp: self.stamp(), code: code.clone(), next, denial: Some(*denial) };
        let blocked = blocked.candidate(self.envelope("blocked", ActorKind::Agent));
        let run = self.run(frame, RunState::Blocked { code }, frame.now);
        let rows = vec![Row::Execution(self.clone()), Row::Run(run)];
        Commit { preconditions, appends: vec![received, blocked], rows }
    }
}
