//! Whether one more reservation fits, and when it will.

use serde::{Deserialize, Serialize};

use super::{Books, Dimension, Limit, Open, Policy, Sums, Window};
use crate::time::Timestamp;

/// The code of an attempt that was blocked because its reservation did not fit.
pub const BUDGET_EXHAUSTED: &str = "budget-exhausted";

/// How far ahead a free moment is looked for: past the longest window and lease, and past a clock that was a month
/// ahead. What is still full then is looked at again then.
const AHEAD_MS_MAX: i64 = 400 * 24 * 60 * 60 * 1000;

/// Says why a reservation does not fit, and when one will: the earliest moment at which it fits all limits if nothing
/// else is reserved until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denial {
    /// The limit that frees up last.
    pub window: Window,
    /// The dimension in which it is full.
    pub dimension: Dimension,
    /// What counts in the window.
    pub used: u64,
    /// What was to be reserved.
    pub asked: u64,
    /// What the window admits.
    pub most: u64,
    /// When one reservation fits.
    pub retry_at: Timestamp,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { window, dimension, used, asked, most, retry_at } = self;
        write!(
            f,
            "{used} of {most} {dimension} in {window} are used and {asked} are needed; that fits at {retry_at}"
        )
    }
}

impl Policy {
    /// Returns until when a reservation made at a moment may be settled.
    #[must_use]
    pub fn lease_until(&self, at: Timestamp) -> Timestamp {
        at.plus_millis(i64::try_from(self.lease_ms).unwrap_or(i64::MAX))
    }

    /// Says whether one reservation fits now; `Some` says why not and when it will.
    ///
    /// # Errors
    /// What keeps the account from being read.
    pub fn deny<L: Books>(&self, books: &mut L, now: Timestamp) -> Result<Option<Denial>, L::Error> {
        let open = books.open()?;
        let mut denial: Option<Denial> = None;
        for limit in &self.limits {
            let used = used(books, &open, limit.window, now)?;
            let Some(dimension) = self.over(limit, &used) else { continue };
            let retry_at = self.fits_at(books, &open, limit, now)?;
            if denial.is_none_or(|denial| denial.retry_at < retry_at) {
                let asked = self.reserve.get(dimension).unwrap_or(0);
                let most = limit.most.get(dimension).unwrap_or(0);
                let used = used.get(dimension);
                denial = Some(Denial { window: limit.window, dimension, used, asked, most, retry_at });
            }
        }
        Ok(denial)
    }

    /// Returns the first dimension in which one more reservation passes the limit.
    fn over(&self, limit: &Limit, used: &Sums) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dimension| {
            let asked = self.reserve.get(*dimension).unwrap_or(0);
            limit.most.get(*dimension).is_some_and(|most| used.get(*dimension).saturating_add(asked) > most)
        })
    }

    /// Returns the first moment after `now` at which one more reservation passes the limit no longer. What is used
    /// only falls as time goes on and nothing is added, so that halving finds it.
    fn fits_at<L: Books>(
        &self,
        books: &mut L,
        open: &[Open],
        limit: &Limit,
        now: Timestamp,
    ) -> Result<Timestamp, L::Error> {
        let mut fits = |ahead: i64| {
            let used = used(books, open, limit.window, now.plus_millis(ahead))?;
            Ok::<bool, L::Error>(self.over(limit, &used).is_none())
        };
        let (mut full, mut free) = (0, 1);
        while free < AHEAD_MS_MAX && !fits(free)? {
            (full, free) = (free, free * 2);
        }
        free = free.min(AHEAD_MS_MAX);
        while free - full > 1 {
            let middle = full + (free - full) / 2;
            if fits(middle)? { free = middle } else { full = middle }
        }
        Ok(now.plus_millis(free))
    }
}

/// Returns what counts in a window at a moment: everything reserved since it began, and what was reserved before and
/// may still be answered.
fn used<L: Books>(books: &mut L, open: &[Open], window: Window, at: Timestamp) -> Result<Sums, L::Error> {
    let start = window.start(at);
    let carried = open.iter().filter(|open| open.at < start && at < open.lease_until);
    let carried = carried.fold(Sums::default(), |sums, open| sums.plus(open.estimate.into()));
    Ok(books.since(start)?.used().plus(carried))
}
