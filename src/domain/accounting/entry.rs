//! What an account has spent: its rows, their sums, and what an admission asks of them.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Amounts, Charge, Dimension, Released, Settled, Sums};
use crate::id::{ConsumerId, ConsumerKey, RunId};
use crate::lifecycle::AttemptKey;
use crate::time::Timestamp;

/// Is what one attempt may spend, written down before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reservation {
    /// The consumer version; the account is that of its id.
    pub consumer: ConsumerKey,
    /// The position of the execution's first trigger.
    pub position: u64,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The attempt's id.
    pub run: RunId,
    /// When it was made, which is the window it counts in.
    pub at: Timestamp,
    /// Until when the attempt may still settle it.
    pub lease_until: Timestamp,
    /// What it reserves.
    pub estimate: Amounts,
}

impl Reservation {
    /// Returns the account.
    #[must_use]
    pub const fn account(&self) -> &ConsumerId {
        &self.consumer.id
    }

    /// Returns where its attempt is found.
    #[must_use]
    pub fn attempt_key(&self) -> AttemptKey {
        AttemptKey { consumer: self.consumer.clone(), position: self.position, attempt: self.attempt }
    }

    /// Says why it cannot be the reservation of any attempt; `None` if it can.
    #[must_use]
    pub fn is_impossible(&self) -> Option<String> {
        for dimension in Dimension::ALL {
            let amount = self.estimate.get(dimension);
            if amount.is_some_and(|amount| amount == 0 || amount > dimension.most_at_once()) {
                return Some(format!("{} {dimension} cannot be reserved", amount.unwrap_or(0)));
            }
        }
        (self.lease_until <= self.at).then(|| "the lease ends before it begins".to_owned())
    }
}

/// Is one row of an account: a reservation and, once its attempt has ended, what took its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// What was reserved.
    pub reservation: Reservation,
    /// How it was settled; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Settlement>,
}

/// Is how a reservation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Told", into = "Told")]
pub struct Settlement {
    /// When.
    pub at: Timestamp,
    /// How: what it was charged, or that it was given back.
    pub settled: Settled,
}

/// Is a settlement as a line of an export tells it, in the members that terminal events have too.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Told {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    charge: Option<Charge>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released: Option<Released>,
}

impl From<Settlement> for Told {
    fn from(Settlement { at, settled }: Settlement) -> Self {
        Self { at, released: settled.released(), charge: settled.charge().cloned() }
    }
}

impl TryFrom<Told> for Settlement {
    type Error = &'static str;

    fn try_from(Told { at, charge, released }: Told) -> Result<Self, Self::Error> {
        let settled = match (charge, released) {
            (Some(charge), None) => Settled::Charged(charge),
            (None, Some(released)) => Settled::Released(released),
            (None, None) | (Some(_), Some(_)) => return Err("it was either charged or given back"),
        };
        Ok(Self { at, settled })
    }
}

impl Entry {
    /// Says why no account can have this entry; `None` if one can.
    #[must_use]
    pub fn is_impossible(&self) -> Option<String> {
        self.reservation
            .is_impossible()
            .or_else(|| self.settlement.as_ref()?.settled.contradicts(&self.reservation))
    }

    /// Returns the entry as an admission sees it, if it is open.
    #[must_use]
    pub const fn open(&self) -> Option<Open> {
        let Reservation { at, lease_until, estimate, .. } = self.reservation;
        if self.settlement.is_some() { None } else { Some(Open { at, lease_until, estimate }) }
    }

    /// Returns what the entry adds to the sums of its account.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let Some(settlement) = &self.settlement else {
            return Tally { reserved: self.reservation.estimate.into(), ..Tally::default() };
        };
        let Some(charge) = settlement.settled.charge() else {
            return Tally { unsent: 1, ..Tally::default() };
        };
        let mut tally = Tally::default();
        for dimension in Dimension::ALL {
            let amount = charge.amounts.get(dimension).unwrap_or(0);
            let estimated = charge.estimated.contains(&dimension);
            let sums = if estimated { &mut tally.estimated } else { &mut tally.reported };
            *sums.get_mut(dimension) = amount;
        }
        tally
    }
}

/// Is a sum over entries, kept apart by how well the amounts are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// What open reservations hold.
    pub reserved: Sums,
    /// What was charged as measured. Calls are counted here, by this program.
    pub reported: Sums,
    /// What was charged as estimated, because nothing was measured.
    pub estimated: Sums,
    /// How many reservations were given back, because nothing was sent.
    pub unsent: u64,
}

impl Tally {
    /// Returns everything that counts against a limit.
    #[must_use]
    pub fn used(&self) -> Sums {
        self.reserved.plus(self.charged())
    }

    /// Returns what was charged, measured or not.
    #[must_use]
    pub fn charged(&self) -> Sums {
        self.reported.plus(self.estimated)
    }

    /// Returns both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            reserved: self.reserved.plus(other.reserved),
            reported: self.reported.plus(other.reported),
            estimated: self.estimated.plus(other.estimated),
            unsent: self.unsent.saturating_add(other.unsent),
        }
    }

    /// Returns this without `other`, which is part of it.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            reserved: self.reserved.minus(other.reserved),
            reported: self.reported.minus(other.reported),
            estimated: self.estimated.minus(other.estimated),
            unsent: self.unsent.saturating_sub(other.unsent),
        }
    }
}

/// Is an open reservation, as an admission sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// When it was made.
    pub at: Timestamp,
    /// Until when it may be settled.
    pub lease_until: Timestamp,
    /// What it holds.
    pub estimate: Amounts,
}

/// Answers what one account has spent.
pub trait Books {
    /// Says why it could not answer.
    type Error;

    /// Returns the sum of all entries reserved at or after a moment, however they ended. Entries in the future count:
    /// a clock that was set back frees no budget.
    ///
    /// # Errors
    /// Whatever keeps it from reading.
    fn since(&mut self, from: Timestamp) -> Result<Tally, Self::Error>;

    /// Returns every reservation that is not settled.
    ///
    /// # Errors
    /// Whatever keeps it from reading.
    fn open(&mut self) -> Result<Vec<Open>, Self::Error>;
}

/// Is an account as it was at one moment, in memory, with room for reservations that nobody has made.
#[derive(Debug, Clone, Default)]
pub struct Imagined {
    /// When each entry was reserved, rising, and the sum from it on.
    since: Vec<(Timestamp, Tally)>,
    open: Vec<Open>,
    /// When each imagined reservation is made, rising.
    made: Vec<Timestamp>,
    estimate: Sums,
}

impl Imagined {
    /// Starts with what there is: entries by the time they were reserved, and what is open.
    #[must_use]
    pub fn over(mut entries: Vec<(Timestamp, Tally)>, open: Vec<Open>, estimate: Amounts) -> Self {
        entries.sort_unstable_by_key(|(at, _)| *at);
        let mut sum = Tally::default();
        for (_, tally) in entries.iter_mut().rev() {
            sum = sum.plus(*tally);
            *tally = sum;
        }
        Self { since: entries, open, made: Vec::new(), estimate: estimate.into() }
    }

    /// Adds a reservation, not before one that was added. Its answer is imagined to come at once, so that its lease
    /// holds nothing.
    pub(super) fn reserve(&mut self, at: Timestamp) {
        self.made.push(at);
    }
}

impl Books for Imagined {
    type Error = Infallible;

    fn since(&mut self, from: Timestamp) -> Result<Tally, Infallible> {
        let first = self.since.partition_point(|(at, _)| *at < from);
        let mut tally = self.since.get(first).map_or_else(Tally::default, |(_, sum)| *sum);
        let made = self.made.len() - self.made.partition_point(|at| *at < from);
        tally.reserved = tally.reserved.plus(self.estimate.times(made as u64));
        Ok(tally)
    }

    fn open(&mut self) -> Result<Vec<Open>, Infallible> {
        Ok(self.open.clone())
    }
}
