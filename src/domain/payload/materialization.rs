//! What becomes of an accepted memory change: it is begun, and then made or not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::hash::Sha256Hash;
use crate::id::{EventId, IdempotencyKey, SourceId};
use crate::proposal::capability::MemoryTarget;
use crate::proposal::reason::ReasonCode;
use crate::registry::Writer;

/// Binds an event of a materialization to what is materialized, and to which try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaterializationBinding {
    /// The proposal.
    pub proposal: EventId,
    /// The decision about it.
    pub decision: EventId,
    /// The try, from 1.
    #[schemars(range(min = 1))]
    pub attempt: u32,
}

impl MaterializationBinding {
    /// Returns the key of this try's events: each type of them is written once at most.
    ///
    /// # Panics
    /// Never: an id and a number make a key.
    #[must_use]
    pub fn key(&self) -> IdempotencyKey {
        let text = format!("{}/{}", self.proposal, self.attempt);
        IdempotencyKey::parse(&text).expect("an id and a number make a key")
    }
}

/// Returns the source of the materializations into the root of a source of documents.
///
/// # Panics
/// Never: a source's name makes a source.
#[must_use]
pub fn source(documents: &SourceId) -> SourceId {
    let text = format!("materialization:{}", documents.name());
    SourceId::parse(&text).expect("a source's name makes a source")
}

macro_rules! materialization_payload {
    ($(#[$doc:meta])* $name:ident, $type:literal, $promoted:expr, { $($(#[$m:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// What it belongs to.
            pub binding: MaterializationBinding,
            $($(#[$m])* pub $field: $ty,)*
        }

        impl TypedPayload for $name {
            const NAME: &'static str = $type;
            const VERSION: u32 = 1;
            const WRITER: Writer = Writer::Materialization;
            const PROMOTED: &'static [&'static str] = $promoted;
        }
    };
}

materialization_payload!(
    /// Says what is about to be written, before it is: a later look at the file tells finished from untouched from
    /// foreign.
    MaterializationStarted, "stream.thought.agent.memory-change.materialization.started", &[], {
        /// The version that is replaced.
        base: MemoryTarget,
        /// The hash of the bytes that will be there.
        result_sha256: Sha256Hash,
        /// How many there will be.
        result_bytes: u64,
    }
);
materialization_payload!(
    /// Is the receipt: these bytes are there, as this version.
    Materialized, "stream.thought.agent.memory-change.materialized", &[], {
        /// The version that was replaced.
        base: MemoryTarget,
        /// The version that is there.
        result: MemoryTarget,
        /// The event in which the scan of the source saw it.
        file_event: EventId,
    }
);
materialization_payload!(
    /// Says that the change was not made, and why.
    MaterializationFailed, "stream.thought.agent.memory-change.materialization.failed", &["code"], {
        /// Why.
        code: ReasonCode,
    }
);
