//! The time over which a limit counts.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// An hour in milliseconds.
const HOUR_MS: i64 = 60 * 60 * 1000;

/// A day in milliseconds. UTC has no days of another length in milliseconds since 1970.
const DAY_MS: i64 = 24 * HOUR_MS;

/// Is the time over which a limit counts. Hours and days are those of UTC.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Window {
    /// The last `ms` milliseconds.
    Rolling {
        /// How long it is.
        ms: u64,
    },
    /// The current hour.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Hour,
    /// The current day.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Day,
}

impl Window {
    /// Returns the first moment that counts at `now`. A reservation made at `t` counts in a rolling window from `t` up
    /// to, without, `t` and the window's length.
    #[must_use]
    pub fn start(self, now: Timestamp) -> Timestamp {
        let now = now.as_millis();
        Timestamp::from_millis(match self {
            Self::Rolling { ms } => {
                now.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)).saturating_add(1)
            }
            Self::Hour => now.div_euclid(HOUR_MS).saturating_mul(HOUR_MS),
            Self::Day => now.div_euclid(DAY_MS).saturating_mul(DAY_MS),
        })
    }

    /// Returns the kind's word, as declarations spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rolling { .. } => "rolling",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rolling { ms } => write!(f, "rolling {}", crate::yaml::duration_text(*ms)),
            Self::Hour | Self::Day => f.write_str(self.as_str()),
        }
    }
}
