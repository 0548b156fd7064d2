//! The door through which wall-clock time and chance come in.
//!
//! Intervals are measured with [`tokio::time::Instant`], which a paused test runtime controls; what a person
//! reads ("since when") comes from a [`Clock`], so that a test can pin it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use thoughtstream_domain::time::Timestamp;

use crate::supervisor::Jitter;

/// Tells the time of day.
pub trait Clock: Send + Sync {
    /// Returns the present moment.
    fn now(&self) -> Timestamp;
}

/// Reads the machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Shows the time it was last set to: for tests and replays.
#[derive(Debug, Default)]
pub struct PinnedClock(AtomicI64);

impl PinnedClock {
    /// Starts at `millis` since the epoch.
    pub fn at(millis: i64) -> Self {
        Self(AtomicI64::new(millis))
    }

    /// Moves the clock, in either direction.
    pub fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

impl Clock for PinnedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Deals out one jitter after another from a seed, so that a run can be replayed.
#[derive(Debug)]
pub struct JitterSource(AtomicU64);

impl JitterSource {
    /// Starts the sequence that belongs to `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Returns the next value (splitmix64, its top sixteen bits).
    pub fn next(&self) -> Jitter {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [high, low, ..] = (mixed ^ (mixed >> 31)).to_be_bytes();
        Jitter(u16::from_be_bytes([high, low]))
    }
}
