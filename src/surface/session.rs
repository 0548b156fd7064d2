//! What every command starts from.

use std::time::{SystemTime, UNIX_EPOCH};

use thoughtstream_domain::time::Timestamp;

use crate::address::Address;
use crate::places::Places;

/// Is where a command works and how it answers.
#[derive(Debug, Clone)]
pub struct Session {
    /// Where things are.
    pub places: Places,
    /// What the caller named of them, for the commands that are printed.
    pub address: Address,
    /// Whether a program reads the answer.
    pub json: bool,
}

impl Session {
    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        now()
    }
}

/// Returns the present time by this machine's clock.
#[must_use]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
