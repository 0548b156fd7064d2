//! The repair of a refused output, as events: one request, and at most one proposal that changes nothing.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::output::Provenance;
use super::run::RunStamp;
use crate::contract::{Accepted, Observation, Rejection};
use crate::hash::Sha256Hash;
use crate::id::{EventId, RunId, TypeRef};
use crate::lifecycle::Output;
use crate::registry::Writer;

/// Asks for one new generation after a refused output; see [`crate::repair`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepairRequested {
    /// The attempt whose output was refused.
    pub stamp: RunStamp,
    /// The hash of the context that its model saw; the repair run is given the same one.
    pub snapshot: Sha256Hash,
    /// The verdict.
    pub rejection: Rejection,
}

impl TypedPayload for RepairRequested {
    const NAME: &'static str = "stream.thought.repair.requested";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] = &[];
}

/// Is what a repair run proposes in place of a refused output. It is inert: it is delivered to nobody, and
/// enters no history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepairProposed {
    /// The repair attempt that made it.
    pub stamp: RunStamp,
    /// The request it answers.
    pub request: EventId,
    /// The attempt whose output was refused.
    pub failed: RunId,
    /// The contract it fits: that of the refused output.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// The hash of the context that the repair run's own model saw.
    pub snapshot: Sha256Hash,
    /// Which model said it.
    pub provenance: Provenance,
    /// What is proposed.
    pub replacement: Observation,
}

impl TypedPayload for RepairProposed {
    const NAME: &'static str = "stream.thought.repair.proposed";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] = &[];
}

impl RepairProposed {
    /// Joins an accepted message of a repair run and the request it answers; nothing if the message was held
    /// against another contract than the refused output.
    #[must_use]
    pub fn of(
        accepted: Accepted,
        stamp: RunStamp,
        snapshot: Sha256Hash,
        provenance: Provenance,
        (request, asked): (EventId, &RepairRequested),
    ) -> Option<Self> {
        let Accepted { value, contract, contract_hash, .. } = accepted;
        let same = contract == asked.rejection.contract && contract_hash == asked.rejection.contract_hash;
        same.then_some(Self {
            stamp,
            request,
            failed: asked.stamp.run,
            contract,
            contract_hash,
            snapshot,
            provenance,
            replacement: value,
        })
    }

    /// Makes the output that settlement takes.
    ///
    /// # Panics
    /// Never: the payload has text, hashes and exact numbers only.
    #[must_use]
    pub fn output(&self) -> Output {
        let payload = serde_json::to_value(self).expect("text, hashes and exact numbers");
        Output { kind: Self::kind(), payload, address: None }
    }
}
