//! The lifecycle of an attempt (Lifecycle section): received → started → one terminal event.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::accounting::{Amounts, Charge, Denial, Released};
use crate::hash::Sha256Hash;
use crate::id::{ConsumerKey, EventId, ExecutionId, RunId, SourceId};
use crate::registry::Writer;
use crate::time::Timestamp;

/// Binds a lifecycle event to its attempt; every lifecycle event carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunStamp {
    /// The attempt.
    pub run: RunId,
    /// The execution it belongs to.
    pub execution: ExecutionId,
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The declaration's fingerprint.
    pub fingerprint: Sha256Hash,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The revision of the runner that executes it.
    #[schemars(length(max = 128))]
    pub execution_adapter_revision: String,
    /// The learned model adapter, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub model_adapter: Option<String>,
}

/// Names one trigger of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerName {
    /// The event.
    pub id: EventId,
    /// Its source.
    pub source: SourceId,
    /// Its place in the source.
    pub sequence: u64,
}

/// Says what happens to an execution after an attempt that did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Next {
    /// Another attempt follows, not before `at`.
    Retry {
        /// When it may start.
        at: Timestamp,
    },
    /// Nothing follows until a person retries or skips it; the source waits.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Hold,
    /// The event is passed; progress moves on.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Advance,
}

/// Says what a model run may spend, as it was reserved before it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reserved {
    /// The conservative estimate.
    pub estimate: Amounts,
    /// Until when it may be settled.
    pub lease_until: Timestamp,
}

macro_rules! run_payload {
    ($(#[$doc:meta])* $name:ident, $type:literal, $writer:expr, $promoted:expr, { $($(#[$m:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// The attempt it belongs to.
            pub stamp: RunStamp,
            $($(#[$m])* pub $field: $ty,)*
        }

        impl TypedPayload for $name {
            const NAME: &'static str = $type;
            const VERSION: u32 = 1;
            const WRITER: Writer = $writer;
            const PROMOTED: &'static [&'static str] = $promoted;
        }
    };
}

/// The fields of a failure that declarations may test.
const CODE: &[&str] = &["code"];

run_payload!(
    /// Fixes what an attempt is about: the ordered triggers, once and for all.
    RunReceived, "stream.thought.run.received", Writer::Settlement, &[], {
        /// The triggers in order.
        triggers: Vec<TriggerName>,
    }
);
run_payload!(
    /// Says that the runner may now run.
    RunStarted, "stream.thought.run.started", Writer::Settlement, &[], {
        /// What was reserved for it in the same commit, if it asks a model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reservation: Option<Reserved>,
    }
);
run_payload!(
    /// Says that outputs, evidence, row and progress settled together.
    RunCompleted, "stream.thought.run.completed", Writer::Settlement, &[], {
        /// The outputs, in order.
        outputs: Vec<EventId>,
        /// The proposals that settled with them, in order: no other ever counts as one of this run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(length(max = 3))]
        proposals: Vec<EventId>,
        /// What its reservation was charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        charge: Option<Charge>,
    }
);
run_payload!(
    /// Says that the attempt ended without a result, and that this is known.
    RunFailed, "stream.thought.run.failed", Writer::Settlement, CODE, {
        /// The allow-listed reason; never content.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// What follows.
        next: Next,
        /// What its reservation was charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        charge: Option<Charge>,
        /// Why its reservation was given back instead: nothing was sent, so that nothing is charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        released: Option<Released>,
    }
);
run_payload!(
    /// Says that the attempt was denied its reservation before anything was sent.
    RunBlocked, "stream.thought.run.blocked", Writer::Settlement, CODE, {
        /// The allow-listed reason.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// What follows.
        next: Next,
        /// Which limit denied it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denial: Option<Denial>,
    }
);
run_payload!(
    /// Says that the attempt's end is not known: it may or may not have done its work.
    RunStatusUnknown, "stream.thought.run.status-unknown", Writer::Supervision, CODE, {
        /// How it was found.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// What follows.
        next: Next,
        /// What its reservation was charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        charge: Option<Charge>,
    }
);
run_payload!(
    /// Says that the attempt was given up by policy after an interruption.
    RunAbandoned, "stream.thought.run.abandoned", Writer::Supervision, CODE, {
        /// How it was found.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// What follows.
        next: Next,
        /// What its reservation was charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        charge: Option<Charge>,
    }
);
