//! Charging a reservation: what was measured takes the place of what was estimated, one dimension at a time.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Amounts, Dimension, Reservation};

/// Is what a provider said about one attempt, before it is believed. `None` is what was not said, or was no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    /// Tokens that went in.
    pub input_tokens: Option<u64>,
    /// Tokens that came out.
    pub output_tokens: Option<u64>,
    /// Cost in millionths of a US dollar.
    pub cost_microusd: Option<u64>,
    /// Whether text came back: then some tokens came out, whatever is said.
    pub returned_text: bool,
}

/// Is what an attempt was charged, and how well that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Charge {
    /// The amounts, in the dimensions that were reserved.
    pub amounts: Amounts,
    /// How much of it was measured.
    pub status: UsageStatus,
    /// The dimensions whose amount the provider reported.
    pub reported: BTreeSet<Dimension>,
    /// The dimensions whose amount is the estimate. Calls stand in neither: this program counts them itself.
    pub estimated: BTreeSet<Dimension>,
}

/// Says how much of a charge was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UsageStatus {
    /// Every tracked dimension was reported.
    Reported,
    /// Some were, and the estimate stands for the others.
    Partial,
    /// None was: the whole estimate stands.
    Estimated,
}

impl UsageStatus {
    /// Returns the spelling used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Partial => "partial",
            Self::Estimated => "estimated",
        }
    }
}

impl Charge {
    /// Puts together what was kept apart; [`contradicts`](Self::contradicts) says whether it can be.
    #[must_use]
    pub fn new(amounts: Amounts, reported: BTreeSet<Dimension>, estimated: BTreeSet<Dimension>) -> Self {
        let status = match (reported.is_empty(), estimated.is_empty()) {
            (_, true) => UsageStatus::Reported,
            (true, false) => UsageStatus::Estimated,
            (false, false) => UsageStatus::Partial,
        };
        Self { amounts, status, reported, estimated }
    }

    /// Charges the full estimate: nothing was measured, or the answer was lost.
    #[must_use]
    pub fn estimate(estimate: &Amounts) -> Self {
        Self::measured(estimate, &Measured::default())
    }

    /// Charges what was measured, and the estimate where nothing was.
    ///
    /// A measure is believed if it is possible: input and cost above zero, output above zero where text came back,
    /// and none larger than any call can be. A number larger than that says that the measure is broken, not how much
    /// was used: it is charged as an estimate, at the largest amount a call can have, and so never as too little.
    #[must_use]
    pub fn measured(estimate: &Amounts, measured: &Measured) -> Self {
        let (mut reported, mut estimated) = (BTreeSet::new(), BTreeSet::new());
        let mut amounts = *estimate;
        let mut judge = |dimension: Dimension, amount: &mut u64, said: Option<u64>, may_be_zero: bool| {
            let most = dimension.most_at_once();
            let said = said.filter(|said| *said > 0 || may_be_zero);
            if let Some(said) = said.filter(|said| *said <= most) {
                *amount = said;
                reported.insert(dimension);
            } else {
                *amount = said.map_or(*amount, |_| most.max(*amount));
                estimated.insert(dimension);
            }
        };
        judge(Dimension::InputTokens, &mut amounts.input_tokens, measured.input_tokens, false);
        let may_be_zero = !measured.returned_text;
        judge(Dimension::OutputTokens, &mut amounts.output_tokens, measured.output_tokens, may_be_zero);
        if let Some(cost) = &mut amounts.cost_microusd {
            judge(Dimension::CostMicrousd, cost, measured.cost_microusd, false);
        }
        Self::new(amounts, reported, estimated)
    }

    /// Says why this cannot be the charge of a reservation; `None` if it can.
    #[must_use]
    pub fn contradicts(&self, reservation: &Reservation) -> Option<String> {
        let estimate = &reservation.estimate;
        for dimension in Dimension::ALL {
            let (charged, reserved) = (self.amounts.get(dimension), estimate.get(dimension));
            let is_reported = self.reported.contains(&dimension);
            let is_estimated = self.estimated.contains(&dimension);
            let counted = dimension == Dimension::Calls;
            let (Some(charged), Some(reserved)) = (charged, reserved) else {
                if charged.is_some() || reserved.is_some() || is_reported || is_estimated {
                    return Some(format!("{dimension} is charged or reserved, not both"));
                }
                continue;
            };
            if (is_reported && is_estimated) || (is_reported || is_estimated) == counted {
                return Some(format!("{dimension} is not either reported or estimated"));
            }
            if !is_reported && charged < reserved {
                return Some(format!("{dimension} was reserved at {reserved} and is charged at {charged}"));
            }
            if charged > dimension.most_at_once().max(reserved) {
                return Some(format!("{charged} {dimension} are more than one call can have"));
            }
        }
        let status = Self::new(self.amounts, self.reported.clone(), self.estimated.clone()).status;
        (self.status != status).then(|| format!("the status follows as {}", status.as_str()))
    }
}
