//! When a failed attempt may be tried again.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Says what becomes of an execution whose attempts are used up, or whose input no attempt could process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exhausted {
    /// The consumer stops on that source and shows it as quarantined until a person decides.
    Quarantine,
    /// The event is passed and progress moves on; it is shown to a person.
    Advance,
    /// The source waits quietly until a person retries or skips.
    Hold,
}

/// Is a declared retry policy: exponential waits between `first_ms` and `max_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// How many attempts in all, the first included; at least 1.
    pub attempts: u32,
    /// The wait after the first failure, in milliseconds.
    pub first_ms: u64,
    /// The longest wait, in milliseconds.
    pub max_ms: u64,
    /// What follows after the last attempt.
    pub exhausted: Exhausted,
}

impl Default for RetryPolicy {
    /// Five attempts from one second up to five minutes, then quarantine.
    fn default() -> Self {
        Self { attempts: 5, first_ms: 1_000, max_ms: 300_000, exhausted: Exhausted::Quarantine }
    }
}

impl RetryPolicy {
    /// Returns the wait after `failures` failed attempts: the first wait, doubled for each further failure.
    #[must_use]
    pub fn wait_ms(&self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(1).min(63);
        self.first_ms.saturating_mul(1 << doublings).min(self.max_ms)
    }

    /// Decides what follows after `failures` failed attempts, the last of which ended at `now`.
    #[must_use]
    pub fn after(&self, failures: u32, now: Timestamp) -> AfterFailure {
        if failures >= self.attempts {
            return AfterFailure::Exhausted(self.exhausted);
        }
        let wait = i64::try_from(self.wait_ms(failures)).unwrap_or(i64::MAX);
        AfterFailure::Retry(now.plus_millis(wait))
    }
}

/// Is what [`RetryPolicy::after`] decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// Try again, not before this time.
    Retry(Timestamp),
    /// No attempt is left.
    Exhausted(Exhausted),
}

/// Says how an interrupted attempt is recorded and what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupted {
    /// The terminal event to write.
    pub record: InterruptedRecord,
    /// What follows.
    pub then: InterruptedThen,
}

impl Default for Interrupted {
    /// Records `status-unknown` and retries: right for work that repeats without harm.
    fn default() -> Self {
        Self { record: InterruptedRecord::StatusUnknown, then: InterruptedThen::Retry }
    }
}

/// Is the terminal event of an interrupted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptedRecord {
    /// Its end is not known.
    StatusUnknown,
    /// It is given up.
    Abandoned,
}

/// Is what follows an interrupted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptedThen {
    /// Another attempt, counted against the retry policy.
    Retry,
    /// A person decides.
    Hold,
    /// Progress moves on.
    Advance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = RetryPolicy { first_ms: 1_000, max_ms: 5_000, ..RetryPolicy::default() };
        let waits: Vec<u64> = (1..=5).map(|n| policy.wait_ms(n)).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(policy.wait_ms(u32::MAX), 5_000);
    }

    #[test]
    fn the_last_attempt_exhausts_the_policy() {
        let policy = RetryPolicy { attempts: 2, ..RetryPolicy::default() };
        let now = Timestamp::from_millis(10);
        assert_eq!(policy.after(1, now), AfterFailure::Retry(Timestamp::from_millis(1_010)));
        assert_eq!(policy.after(2, now), AfterFailure::Exhausted(Exhausted::Quarantine));
        let once = RetryPolicy { attempts: 1, ..policy };
        assert_eq!(once.after(1, now), AfterFailure::Exhausted(Exhausted::Quarantine));
    }
}
