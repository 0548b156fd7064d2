//! What an accounting policy must be before a declaration may carry it.

use std::collections::BTreeSet;

use super::codes::{
    ADMITS_NONE, BAD_WINDOW, EMPTY_LIMIT, LEASE_TOO_LONG, LEASE_TOO_SHORT, LIMIT_TOO_LARGE, NO_LIMIT,
    NOT_RESERVED, RESERVES_NOTHING, RESERVES_TOO_MUCH, SAME_WINDOW, TOO_MANY_LIMITS,
};
use super::{Amounts, Dimension, LEASE_MS_MAX, LIMIT_MAX, LIMITS_MAX, Policy, ROLLING_MS_MAX, Window};
use crate::yaml::{Code, duration_text};

/// Says which part of a policy a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What is reserved of a dimension.
    Reserve(Dimension),
    /// The lease.
    Lease,
    /// The list of limits.
    Limits,
    /// A limit's window, by the limit's index.
    Window(usize),
    /// A limit as a whole, by its index.
    Limit(usize),
    /// What a limit admits of a dimension.
    Most(usize, Dimension),
}

/// Is one fault of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The stable kind.
    pub code: Code,
    /// Where it is.
    pub place: Place,
    /// What is wrong, in one sentence.
    pub message: String,
}

impl Fault {
    /// Says what to do about it.
    #[must_use]
    pub fn way_out(&self) -> String {
        match self.place {
            Place::Limits => format!("declare 1 to {LIMITS_MAX} limits"),
            Place::Reserve(dimension) => format!("write a number from 1 to {}", dimension.most_at_once()),
            Place::Lease => {
                format!("write a length above the runner's, and of at most {}", duration_text(LEASE_MS_MAX))
            }
            Place::Window(_) => "give each limit a window of its own".to_owned(),
            Place::Limit(_) => "add what it limits, such as `calls: 10`".to_owned(),
            Place::Most(_, dimension) => {
                format!("reserve {dimension} too, and let the limit admit at least one reservation")
            }
        }
    }
}

impl Policy {
    /// Returns every fault of the policy, for a runner that may take `timeout_ms`.
    #[must_use]
    pub fn check(&self, timeout_ms: u64) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.check_reserve(&mut faults);
        self.check_lease(timeout_ms, &mut faults);
        let limits = self.limits.len();
        if limits == 0 {
            faults.push(fault(NO_LIMIT, Place::Limits, "without a limit nothing is ever denied"));
        }
        if limits > LIMITS_MAX {
            let message = format!("{limits} limits are more than the {LIMITS_MAX} that may be declared");
            faults.push(fault(TOO_MANY_LIMITS, Place::Limits, message));
        }
        let mut windows = BTreeSet::new();
        for (index, limit) in self.limits.iter().enumerate() {
            check_window(index, limit.window, &mut faults);
            if !windows.insert(limit.window) {
                let message = format!("another limit has the window {} already", limit.window);
                faults.push(fault(SAME_WINDOW, Place::Window(index), message));
            }
            self.check_limit(index, &mut faults);
        }
        faults
    }

    fn check_reserve(&self, faults: &mut Vec<Fault>) {
        for dimension in Dimension::ALL {
            let Some(reserved) = self.reserve.get(dimension) else { continue };
            let most = dimension.most_at_once();
            if reserved == 0 {
                let message = format!("{dimension} must reserve something, since no call is free");
                faults.push(fault(RESERVES_NOTHING, Place::Reserve(dimension), message));
            } else if reserved > most {
                let message = format!("{reserved} {dimension} are more than one call may reserve, {most}");
                faults.push(fault(RESERVES_TOO_MUCH, Place::Reserve(dimension), message));
            }
        }
    }

    fn check_lease(&self, timeout_ms: u64, faults: &mut Vec<Fault>) {
        let lease = duration_text(self.lease_ms);
        if self.lease_ms <= timeout_ms {
            let timeout = duration_text(timeout_ms);
            let message = format!("a lease of {lease} may end before the runner, which may take {timeout}");
            faults.push(fault(LEASE_TOO_SHORT, Place::Lease, message));
        }
        if self.lease_ms > LEASE_MS_MAX {
            let most = duration_text(LEASE_MS_MAX);
            let message = format!("a lease of {lease} is longer than the longest, {most}");
            faults.push(fault(LEASE_TOO_LONG, Place::Lease, message));
        }
    }

    fn check_limit(&self, index: usize, faults: &mut Vec<Fault>) {
        let most = &self.limits[index].most;
        if Dimension::ALL.into_iter().all(|dimension| most.get(dimension).is_none()) {
            faults.push(fault(EMPTY_LIMIT, Place::Limit(index), "the limit names no dimension to limit"));
        }
        for dimension in Dimension::ALL {
            let Some(most) = most.get(dimension) else { continue };
            let found = limit_fault(&self.reserve, dimension, most);
            faults.extend(found.map(|(code, message)| fault(code, Place::Most(index, dimension), message)));
        }
    }
}

fn limit_fault(reserve: &Amounts, dimension: Dimension, most: u64) -> Option<(Code, String)> {
    let Some(reserved) = reserve.get(dimension) else {
        let message = format!("{dimension} is limited and not reserved, so that it could not be enforced");
        return Some((NOT_RESERVED, message));
    };
    if most < reserved {
        let message = format!("{most} {dimension} do not admit one reservation of {reserved}");
        return Some((ADMITS_NONE, message));
    }
    let message = || format!("{most} {dimension} are more than can be counted exactly, {LIMIT_MAX}");
    (most > LIMIT_MAX).then(|| (LIMIT_TOO_LARGE, message()))
}

fn check_window(index: usize, window: Window, faults: &mut Vec<Fault>) {
    let Window::Rolling { ms } = window else { return };
    if ms == 0 || ms > ROLLING_MS_MAX {
        let (length, most) = (duration_text(ms), duration_text(ROLLING_MS_MAX));
        let message = format!("a rolling window of {length} is not between 1ms and {most}");
        faults.push(fault(BAD_WINDOW, Place::Window(index), message));
    }
}

fn fault(code: Code, place: Place, message: impl Into<String>) -> Fault {
    Fault { code, place, message: message.into() }
}
