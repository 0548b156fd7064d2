//! Inference accounting: what a consumer may spend on asking a model, decided purely.
//!
//! An *account* belongs to a declaration's id and outlives its versions. Before anything is sent, one conservative
//! estimate is *reserved* against every limit of the declared [`Policy`]; when the attempt ends the reservation is
//! *settled*, and what was measured takes the place of what was estimated ([`charge`](Reservation::charge)). A
//! reservation counts in the window it was made in, at its estimate until it is settled and at its charge from then on.
//! While it is open it counts in every later window too, until its lease ends: the answer may still come.
//! One whose attempt provably sent nothing is given back ([`release`](Reservation::release)) and counts nowhere.
//!
//! Nothing here wraps or forgets: sums saturate, so that a number too large to count reads as used up.

mod admit;
mod charge;
mod check;
pub mod codes;
mod entry;
mod settle;
mod simulate;
#[cfg(test)]
mod tests;
mod window;

use serde::{Deserialize, Serialize};

pub use admit::{BUDGET_EXHAUSTED, Denial};
pub use charge::{Charge, Measured, UsageStatus};
pub use check::{Fault, Place};
pub use entry::{Books, Entry, Imagined, Open, Reservation, Settlement, Tally};
pub use settle::{Released, Settled};
pub use simulate::{Simulation, Step};
pub use window::Window;

/// The most calls or tokens of one reservation or charge. No model takes or makes as much in one call; a number
/// beyond it is no measurement.
pub const TOKENS_MAX: u64 = 1 << 24;

/// The most cost of one reservation or charge: a thousand dollars, beyond any price of one call.
pub const COST_MICROUSD_MAX: u64 = 1_000_000_000;

/// The most that a limit may admit: what every JSON reader still counts exactly.
pub const LIMIT_MAX: u64 = 1 << 53;

/// The most limits of one policy: each is summed up before every call.
pub const LIMITS_MAX: usize = 8;

/// The longest rolling window: a year. Older rows are never read for an admission.
pub const ROLLING_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1000;

/// The longest lease: a day. No call lasts longer, and an open reservation counts as long as its lease.
pub const LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Names what is counted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Dimension {
    /// Requests to a provider.
    Calls,
    /// Tokens that went in.
    InputTokens,
    /// Tokens that came out.
    OutputTokens,
    /// Cost in millionths of a US dollar.
    CostMicrousd,
}

impl Dimension {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Calls, Self::InputTokens, Self::OutputTokens, Self::CostMicrousd];

    /// Returns the spelling used in declarations and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::InputTokens => "inputTokens",
            Self::OutputTokens => "outputTokens",
            Self::CostMicrousd => "costMicrousd",
        }
    }

    /// Returns the most that one reservation or charge may hold of it.
    #[must_use]
    pub const fn most_at_once(self) -> u64 {
        match self {
            Self::Calls | Self::InputTokens | Self::OutputTokens => TOKENS_MAX,
            Self::CostMicrousd => COST_MICROUSD_MAX,
        }
    }
}

impl std::fmt::Display for Dimension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Is an amount in every tracked dimension: an estimate or a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Amounts {
    /// Requests to a provider.
    pub calls: u64,
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar; `None` where it is not tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
}

impl Amounts {
    /// Returns the amount of a dimension; `None` if it is not tracked.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Calls => Some(self.calls),
            Dimension::InputTokens => Some(self.input_tokens),
            Dimension::OutputTokens => Some(self.output_tokens),
            Dimension::CostMicrousd => self.cost_microusd,
        }
    }
}

/// Is a sum over reservations or charges, in every dimension; it saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sums {
    /// Requests to a provider.
    pub calls: u64,
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar, over what tracks it.
    pub cost_microusd: u64,
}

impl Sums {
    /// Returns the sum of a dimension.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Calls => self.calls,
            Dimension::InputTokens => self.input_tokens,
            Dimension::OutputTokens => self.output_tokens,
            Dimension::CostMicrousd => self.cost_microusd,
        }
    }

    /// Returns the place of a dimension's sum.
    pub const fn get_mut(&mut self, dimension: Dimension) -> &mut u64 {
        match dimension {
            Dimension::Calls => &mut self.calls,
            Dimension::InputTokens => &mut self.input_tokens,
            Dimension::OutputTokens => &mut self.output_tokens,
            Dimension::CostMicrousd => &mut self.cost_microusd,
        }
    }

    /// Returns both together.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for dimension in Dimension::ALL {
            let sum = self.get_mut(dimension);
            *sum = sum.saturating_add(other.get(dimension));
        }
        self
    }

    /// Returns this without `other`, which is part of it.
    #[must_use]
    pub fn minus(mut self, other: Self) -> Self {
        for dimension in Dimension::ALL {
            let sum = self.get_mut(dimension);
            *sum = sum.saturating_sub(other.get(dimension));
        }
        self
    }
}

impl Sums {
    /// Returns it this many times.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        for dimension in Dimension::ALL {
            let sum = self.get_mut(dimension);
            *sum = sum.saturating_mul(count);
        }
        self
    }
}

impl From<Amounts> for Sums {
    fn from(amounts: Amounts) -> Self {
        Self {
            calls: amounts.calls,
            input_tokens: amounts.input_tokens,
            output_tokens: amounts.output_tokens,
            cost_microusd: amounts.cost_microusd.unwrap_or(0),
        }
    }
}

/// Is the most that one window admits, in the dimensions that it limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ceiling {
    /// The most requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// The most tokens that go in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// The most tokens that come out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The most cost, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
}

impl Ceiling {
    /// Returns the most of a dimension, if it is limited.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Calls => self.calls,
            Dimension::InputTokens => self.input_tokens,
            Dimension::OutputTokens => self.output_tokens,
            Dimension::CostMicrousd => self.cost_microusd,
        }
    }
}

/// Is one limit of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limit {
    /// Over which time it counts.
    pub window: Window,
    /// What it admits in that time.
    pub most: Ceiling,
}

/// Says what a denied reservation does to the event it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnExhaustion {
    /// The event is passed; progress moves on.
    Advance,
    /// The event waits until a reservation fits again.
    Defer,
}

impl OnExhaustion {
    /// Returns the spelling used in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Advance => "advance",
            Self::Defer => "defer",
        }
    }
}

/// Is a declared accounting policy. One that [`check`](Policy::check) finds no fault with can always admit a
/// reservation again, given time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// What one attempt reserves before it is started.
    pub reserve: Amounts,
    /// How long a reservation may stay open, in milliseconds.
    pub lease_ms: u64,
    /// The limits; all must hold.
    pub limits: Vec<Limit>,
    /// What follows a denial.
    pub on_exhaustion: OnExhaustion,
}
