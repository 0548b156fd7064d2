//! How a reservation ends: charged, or given back because nothing was sent.
//!
//! A charge is never free. Giving back is another thing than charging nothing, and a type of its own, which only the
//! proof that nothing was sent makes; only a failed attempt can carry it.

use serde::{Deserialize, Serialize};

use super::{Charge, Measured, Reservation};
use crate::lifecycle::RunState;
use crate::provider::{Certainty, NotSent, ProviderCode};

/// Is how a reservation was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It was charged: something was sent, or may have been.
    Charged(Charge),
    /// It was given back whole: no call and no token counts, because nothing was sent.
    Released(Released),
}

/// Says that a reservation was given back, and why: there is one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Released(Why);

/// The reasons for which a reservation is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Why {
    /// Nothing was sent.
    NotSent,
}

impl Released {
    /// Returns the word that events use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.0 {
            Why::NotSent => "not-sent",
        }
    }

    /// Reads back what a row says. Whether its attempt can have ended so is for
    /// [`contradicts_end`](Settled::contradicts_end).
    #[must_use]
    pub const fn restored() -> Self {
        Self(Why::NotSent)
    }
}

impl From<Charge> for Settled {
    fn from(charge: Charge) -> Self {
        Self::Charged(charge)
    }
}

impl Settled {
    /// Returns the charge; `None` if nothing was charged.
    #[must_use]
    pub const fn charge(&self) -> Option<&Charge> {
        match self {
            Self::Charged(charge) => Some(charge),
            Self::Released(_) => None,
        }
    }

    /// Returns what says that it was given back.
    #[must_use]
    pub const fn released(&self) -> Option<Released> {
        match self {
            Self::Charged(_) => None,
            Self::Released(released) => Some(*released),
        }
    }

    /// Says why this cannot settle a reservation; `None` if it can.
    #[must_use]
    pub fn contradicts(&self, reservation: &Reservation) -> Option<String> {
        self.charge()?.contradicts(reservation)
    }

    /// Says why this cannot settle the reservation of an attempt that ended so; `None` if it can. An attempt that
    /// completed, or whose end is not known, is never one of which nothing was sent, and neither is one that failed by
    /// what a provider said.
    #[must_use]
    pub fn contradicts_end(&self, end: &RunState) -> Option<&'static str> {
        self.released()?;
        let may_be_unsent = match end {
            RunState::Failed { code } => {
                ProviderCode::parse(code).is_none_or(|code| code.certainty() == Certainty::NotSent)
            }
            RunState::Received
            | RunState::Started
            | RunState::Completed { .. }
            | RunState::Blocked { .. }
            | RunState::StatusUnknown { .. }
            | RunState::Abandoned { .. } => false,
        };
        (!may_be_unsent).then_some("it was given back, and its attempt did not end as one that sent nothing")
    }
}

impl Reservation {
    /// Returns the charge that settles the reservation.
    #[must_use]
    pub fn charge(&self, measured: &Measured) -> Charge {
        Charge::measured(&self.estimate, measured)
    }

    /// Returns the charge of a lost answer: the full estimate.
    #[must_use]
    pub fn charge_in_full(&self) -> Charge {
        Charge::estimate(&self.estimate)
    }

    /// Gives the reservation of an attempt back that sent nothing. The proof of another run proves nothing about this
    /// one: it is charged in full then.
    #[must_use]
    pub fn release(&self, proof: NotSent) -> Settled {
        if proof.run() == self.run {
            Settled::Released(Released(Why::NotSent))
        } else {
            self.charge_in_full().into()
        }
    }
}
