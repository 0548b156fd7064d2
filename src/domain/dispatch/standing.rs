//! Where a delivery stands, by the events that were recorded of it; and what a person makes of one whose end is
//! not known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Precondition};
use crate::event::{Actor, ActorKind, Envelope, Event, Parent};
use crate::id::{DeliveryId, IdempotencyKey, SourceId};
use crate::payload::TypedPayload;
use crate::payload::delivery::{
    AfterFailed, DeliveryBinding, DeliveryClaimed, DeliveryDecided, DeliveryDelivered, DeliveryFailed,
    DeliveryUnconfirmed, Reconciled,
};
use crate::payload::system::Operator;
use crate::time::Timestamp;

/// Says where a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is claimed by one start of the service and one start of its dispatcher, and has no end yet.
    Claimed {
        /// The service's start.
        incarnation: u64,
        /// The dispatcher's start within it.
        holder: u32,
    },
    /// It was not sent and is to be claimed again.
    Waiting {
        /// Not before.
        at: Timestamp,
        /// Why it was not sent.
        code: String,
    },
    /// It arrived.
    Delivered,
    /// It did not and will not.
    Failed {
        /// Why.
        code: String,
    },
    /// Nobody knows; a person decides.
    Unconfirmed {
        /// How that was found.
        code: String,
    },
}

/// Says in a word where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is being sent.
    Claimed,
    /// It was not sent and is tried again.
    Waiting,
    /// It arrived.
    Delivered,
    /// It did not and will not.
    Failed,
    /// Nobody knows.
    Unconfirmed,
}

impl State {
    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

impl Standing {
    /// Returns the word for it.
    #[must_use]
    pub const fn state(&self) -> State {
        match self {
            Self::Claimed { .. } => State::Claimed,
            Self::Waiting { .. } => State::Waiting,
            Self::Delivered => State::Delivered,
            Self::Failed { .. } => State::Failed,
            Self::Unconfirmed { .. } => State::Unconfirmed,
        }
    }

    /// Says whether the dispatcher still has something to do.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Claimed { .. } | Self::Waiting { .. })
    }
}

/// Reads one event of a delivery: what it is about and where it puts it. `None` for any other event.
#[must_use]
pub fn read(event: &Event) -> Option<(DeliveryBinding, Standing)> {
    let name = event.kind.name.as_str();
    Some(match name {
        DeliveryClaimed::NAME => {
            let claimed: DeliveryClaimed = event.payload_as().ok()?;
            let (incarnation, holder) = (claimed.incarnation, claimed.holder);
            (claimed.binding, Standing::Claimed { incarnation, holder })
        }
        DeliveryDelivered::NAME => {
            (event.payload_as::<DeliveryDelivered>().ok()?.binding, Standing::Delivered)
        }
        DeliveryFailed::NAME => {
            let DeliveryFailed { binding, code, next } = event.payload_as().ok()?;
            let standing = match next {
                AfterFailed::Retry { at } => Standing::Waiting { at, code },
                AfterFailed::Final => Standing::Failed { code },
            };
            (binding, standing)
        }
        DeliveryUnconfirmed::NAME => {
            let DeliveryUnconfirmed { binding, code } = event.payload_as().ok()?;
            (binding, Standing::Unconfirmed { code })
        }
        _ => return None,
    })
}

/// Is a delivery that still has something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// What its latest claim binds.
    pub binding: DeliveryBinding,
    /// Where it stands.
    pub standing: Standing,
    /// The event that opened it: behind it the source need not be read for its sake.
    pub since: u64,
    /// The latest event of it.
    pub latest: Event,
}

/// Folds the events of a source of deliveries, in order, into those that are open.
#[derive(Debug, Clone, Default)]
pub struct Deliveries {
    open: BTreeMap<DeliveryId, Open>,
    through: u64,
}

impl Deliveries {
    /// Starts behind a sequence at and below which nothing is open.
    #[must_use]
    pub fn behind(sequence: u64) -> Self {
        Self { open: BTreeMap::new(), through: sequence }
    }

    /// Takes the next event.
    pub fn apply(&mut self, event: &Event) {
        if event.sequence <= self.through {
            return;
        }
        self.through = event.sequence;
        let Some((binding, standing)) = read(event) else { return };
        let since = self.open.get(&binding.delivery).map_or(event.sequence, |open| open.since);
        if standing.is_open() {
            let open = Open { since, standing, latest: event.clone(), binding };
            self.open.insert(open.binding.delivery, open);
        } else {
            self.open.remove(&binding.delivery);
        }
    }

    /// Returns the last sequence that was taken.
    #[must_use]
    pub const fn through(&self) -> u64 {
        self.through
    }

    /// Returns the sequence at and below which nothing is open.
    #[must_use]
    pub fn settled_through(&self) -> u64 {
        self.open.values().map(|open| open.since.saturating_sub(1)).min().unwrap_or(self.through)
    }

    /// Returns a delivery that is open.
    #[must_use]
    pub fn get(&self, delivery: &DeliveryId) -> Option<&Open> {
        self.open.get(delivery)
    }

    /// Returns those that are open, the longest first.
    #[must_use]
    pub fn open(&self) -> Vec<&Open> {
        let mut open: Vec<&Open> = self.open.values().collect();
        open.sort_by_key(|open| open.since);
        open
    }
}

/// Says why a person's decision changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReconcileError {
    /// Only what nobody knows the end of is decided.
    #[error(
        "the delivery is {found}; only one that is unconfirmed, or failed and to be sent again, is decided"
    )]
    Standing {
        /// Where it stands.
        found: &'static str,
    },
}

/// Records a person's decision about a delivery whose latest event is `latest`, and what follows from it.
///
/// One that failed for good may be sent again too: that is as much a person's word. Nothing else is decided,
/// and the recorded events stay as they are.
///
/// # Errors
/// [`ReconcileError`] if there is nothing to decide.
pub fn reconcile(
    latest: &Event,
    decision: Reconciled,
    operator: Operator,
    now: Timestamp,
    key: IdempotencyKey,
) -> Result<Commit, ReconcileError> {
    let Some((mut binding, standing)) = read(latest) else {
        return Err(ReconcileError::Standing { found: "unreadable" });
    };
    let decided = match (&standing, decision) {
        (Standing::Unconfirmed { .. }, _) => true,
        (Standing::Failed { .. }, Reconciled::Resend) => true,
        (Standing::Failed { .. }, Reconciled::Confirmed | Reconciled::Abandoned)
        | (Standing::Claimed { .. } | Standing::Waiting { .. } | Standing::Delivered, _) => false,
    };
    if !decided {
        return Err(ReconcileError::Standing { found: standing.state().as_str() });
    }
    let actor = Actor::ours(ActorKind::Person, &format!("uid:{}", operator.uid));
    let parents = vec![Parent::of(latest)];
    let envelope = |source: SourceId, key: IdempotencyKey| {
        Envelope::new(source, key, latest.privacy, actor.clone()).with_parents(parents.clone())
    };
    let word = DeliveryDecided { binding: binding.clone(), decision, operator: operator.clone() };
    let word = word.candidate(envelope(SourceId::decisions(), key));
    let mut unused = vec![DeliveryDelivered::kind().name, DeliveryFailed::kind().name];
    if matches!(standing, Standing::Failed { .. }) {
        // Its own claim has ended; the word opens the next one, which nobody has claimed.
        binding.claim += 1;
        unused = vec![DeliveryClaimed::kind().name, DeliveryFailed::kind().name];
    }
    let (source, key) = (binding.source(), binding.key());
    let unused = Precondition::KeyUnused { source: source.clone(), types: unused, key: key.clone() };
    let envelope = envelope(source, key);
    let follows = match decision {
        Reconciled::Confirmed => {
            let confirmed_by = Some(operator);
            DeliveryDelivered { binding, message: None, sent_at: None, confirmed_by }.candidate(envelope)
        }
        Reconciled::Resend => {
            let next = AfterFailed::Retry { at: now };
            DeliveryFailed { binding, code: "resend".to_owned(), next }.candidate(envelope)
        }
        Reconciled::Abandoned => {
            let next = AfterFailed::Final;
            DeliveryFailed { binding, code: "abandoned".to_owned(), next }.candidate(envelope)
        }
    };
    Ok(Commit { preconditions: vec![unused], appends: vec![word, follows], rows: Vec::new() })
}
