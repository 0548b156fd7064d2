//! Proposals of an agent and a person's decision about one, as events.
//!
//! What a proposal must never be (approved, eligible, in force) is a type with the one value that denies it, so that
//! no such event can be made, and none that says otherwise is read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::output::beside;
use super::run::RunStamp;
use crate::contract::Observation;
use crate::event::{Candidate, Event, Parent, PayloadError, Reference};
use crate::hash::Sha256Hash;
use crate::id::{ConsumerKey, EventId, IdempotencyKey, RunId, TypeName, TypeRef};
use crate::privacy::Privacy;
use crate::proposal::Kind;
use crate::proposal::call::Operation;
use crate::proposal::capability::{CorrectionTarget, MemoryTarget};
use crate::proposal::focus::FocusDeclaration;
use crate::proposal::text::{ProposedText, Reason};
use crate::registry::Writer;

/// Is `false`, and cannot be anything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct False;

impl Serialize for False {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

impl<'de> Deserialize<'de> for False {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            return Err(serde::de::Error::custom("expected false"));
        }
        Ok(Self)
    }
}

impl JsonSchema for False {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "False".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "boolean", "const": false })
    }
}

/// Says what a proposal is: proposed by an agent, and nothing more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProposalState {
    /// An agent proposed it.
    #[default]
    AgentProposed,
}

/// Says who proposed something: the run, what it had just said, and by whose words it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proposer {
    /// The run.
    pub run: RunId,
    /// Its output.
    pub output: EventId,
    /// The message that it answers.
    pub trigger: EventId,
    /// The consumer version.
    pub agent: ConsumerKey,
    /// The declaration's fingerprint.
    pub fingerprint: Sha256Hash,
    /// The provider's profile.
    #[schemars(length(min = 1, max = 64))]
    pub provider: String,
    /// The model, as the profile allows it.
    #[schemars(length(min = 1, max = 128))]
    pub model: String,
    /// The hash of the context that the model saw.
    pub snapshot: Sha256Hash,
}

/// Proposes a change of the memory document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryChangeProposed {
    /// What it is.
    pub proposal_state: ProposalState,
    /// Who proposed it.
    pub proposer: Proposer,
    /// The version it is based on.
    pub target: MemoryTarget,
    /// How it is to be changed.
    pub operation: Operation,
    /// What it would be given.
    pub proposed_text: ProposedText,
    /// How long that is, in UTF-16 code units.
    pub text_length: u64,
    /// The hash of that.
    pub text_sha256: Sha256Hash,
    /// Why.
    pub reason: Reason,
    /// What it is based on.
    #[schemars(length(max = 16))]
    pub evidence: Vec<EventId>,
    /// Whether it may be published.
    pub publication_eligible: False,
}

/// Proposes another wording of a delivered reply. It is no judgment, and changes no effective output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorrectionProposed {
    /// What it is.
    pub proposal_state: ProposalState,
    /// Who proposed it.
    pub proposer: Proposer,
    /// The reply.
    pub target: CorrectionTarget,
    /// The whole value that would stand in place of the output; it fits the output's contract.
    pub replacement: Observation,
    /// Why.
    pub reason: Reason,
    /// What it is based on.
    #[schemars(length(max = 16))]
    pub evidence: Vec<EventId>,
    /// Whether it may inform evaluation and adaptation.
    pub quality_eligible: False,
    /// Whether it may leave this log in a data set.
    pub external_export_eligible: False,
    /// Whether it may be published.
    pub publication_eligible: False,
}

/// Says that something was not looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unchecked {
    /// Nobody looked whether it exists or would be given.
    #[default]
    Unchecked,
}

/// Says what of a focus was looked up: nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FocusResolution {
    /// Its event types.
    pub events: Unchecked,
    /// Its sources.
    pub sources: Unchecked,
    /// Its permissions and budgets.
    pub capabilities: Unchecked,
    /// The version before it.
    pub lineage: Unchecked,
}

/// Says what a focus may do: nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FocusAuthority {
    /// Whether it is in force.
    pub activation: False,
    /// Whether it may read more than was read before.
    pub data_expansion: False,
    /// Whether it may act outside of the log.
    pub external_actions: False,
    /// Whether its outputs may be used for training.
    pub training: False,
    /// Whether an adapter may be promoted for it.
    pub adapter_promotion: False,
}

/// Proposes a focus. Nothing of it is looked up, granted or in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FocusProposed {
    /// What it is.
    pub proposal_state: ProposalState,
    /// Who proposed it.
    pub proposer: Proposer,
    /// The focus.
    pub declaration: FocusDeclaration,
    /// What it is known by; this program computes it.
    pub declaration_fingerprint: Sha256Hash,
    /// What of it was looked up.
    pub resolution: FocusResolution,
    /// What it may do.
    pub authority: FocusAuthority,
}

macro_rules! typed {
    ($name:ident, $type:literal, $writer:expr, $promoted:expr) => {
        impl TypedPayload for $name {
            const NAME: &'static str = $type;
            const VERSION: u32 = 1;
            const WRITER: Writer = $writer;
            const PROMOTED: &'static [&'static str] = $promoted;
        }
    };
}

typed!(MemoryChangeProposed, "stream.thought.agent.memory-change.proposed", Writer::Settlement, &[]);
typed!(CorrectionProposed, "stream.thought.agent.correction.proposed", Writer::Settlement, &[]);
typed!(FocusProposed, "stream.thought.focus.declaration.proposed", Writer::Settlement, &[]);
typed!(ProposalDecision, "stream.thought.agent.proposal.decision", Writer::Decision, &["kind"]);

/// Returns where in a payload of this type the words of a proposal or of a person's edit stand, as JSON pointers. They
/// are shown to those who ask for them; everything else in there is ids, numbers, hashes and words of ours.
#[must_use]
pub fn words(kind: &TypeName) -> &'static [&'static str] {
    match kind.as_str() {
        MemoryChangeProposed::NAME => &["/proposedText", "/reason"],
        CorrectionProposed::NAME => &["/replacement", "/reason"],
        FocusProposed::NAME => &["/declaration"],
        ProposalDecision::NAME => &["/disposition/replacement"],
        _ => &[],
    }
}

/// Is one proposal of a run, whichever it proposes.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposed {
    /// A change of the memory document.
    Memory(MemoryChangeProposed),
    /// Another wording of a reply.
    Correction(CorrectionProposed),
    /// A focus.
    Focus(FocusProposed),
}

impl Proposed {
    /// Returns what kind it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Memory(_) => Kind::MemoryChange,
            Self::Correction(_) => Kind::SelfCorrection,
            Self::Focus(_) => Kind::FocusDeclaration,
        }
    }

    /// Returns who proposed it.
    #[must_use]
    pub const fn proposer(&self) -> &Proposer {
        match self {
            Self::Memory(proposed) => &proposed.proposer,
            Self::Correction(proposed) => &proposed.proposer,
            Self::Focus(proposed) => &proposed.proposer,
        }
    }

    /// Returns the event that is its one parent: the proposer's own output, or the output to be corrected. Its root
    /// is that event's root.
    #[must_use]
    pub const fn parent(&self) -> EventId {
        match self {
            Self::Memory(MemoryChangeProposed { proposer, .. })
            | Self::Focus(FocusProposed { proposer, .. }) => proposer.output,
            Self::Correction(proposed) => proposed.target.output,
        }
    }

    /// Makes its event: one for each kind and run, sensitive.
    #[must_use]
    pub fn event(&self, stamp: &RunStamp) -> Candidate {
        let envelope = beside(stamp, "proposal", Privacy::Sensitive, vec![Parent::named(self.parent())]);
        match self {
            Self::Memory(proposed) => proposed.candidate(envelope),
            Self::Correction(proposed) => proposed.candidate(envelope),
            Self::Focus(proposed) => proposed.candidate(envelope),
        }
    }

    /// Reads the event of a proposal, whichever it proposes.
    ///
    /// # Errors
    /// [`PayloadError`] if it is of another type, redacted or damaged.
    pub fn read(event: &Event) -> Result<Self, PayloadError> {
        match Self::kind_of(&event.kind) {
            Some(Kind::MemoryChange) => event.payload_as().map(Self::Memory),
            Some(Kind::SelfCorrection) => event.payload_as().map(Self::Correction),
            Some(Kind::FocusDeclaration) => event.payload_as().map(Self::Focus),
            None => Err(PayloadError::OtherType { found: event.kind.clone() }),
        }
    }

    /// Returns what an event of this type proposes, if it is a proposal.
    #[must_use]
    pub fn kind_of(found: &TypeRef) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| Self::type_of(*kind) == *found)
    }

    /// Returns the event type of a kind.
    #[must_use]
    pub fn type_of(kind: Kind) -> TypeRef {
        match kind {
            Kind::MemoryChange => MemoryChangeProposed::kind(),
            Kind::SelfCorrection => CorrectionProposed::kind(),
            Kind::FocusDeclaration => FocusProposed::kind(),
        }
    }
}

/// Names what a person decides about. A focus is not among them: it has a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decidable {
    /// A change of the memory document.
    MemoryChange,
    /// Another wording of a reply.
    SelfCorrection,
}

impl Decidable {
    /// Returns what is decided about, if a person decides about this kind.
    #[must_use]
    pub const fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::MemoryChange => Some(Self::MemoryChange),
            Kind::SelfCorrection => Some(Self::SelfCorrection),
            Kind::FocusDeclaration => None,
        }
    }
}

/// Says what a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Disposition {
    /// The proposed text or correction is used.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Accept,
    /// This is used in its place.
    Edit {
        /// The exact text.
        replacement: ProposedText,
    },
    /// Nothing is used.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Reject,
}

impl Disposition {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Edit { .. } => "edit",
            Self::Reject => "reject",
        }
    }
}

/// Says by whose authority something was decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// A person's.
    #[default]
    Human,
}

/// Is a person's decision about one proposal. There is one for each proposal, whoever asks for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalDecision {
    /// The proposal.
    pub proposal: EventId,
    /// What it proposes.
    pub kind: Decidable,
    /// What was decided.
    pub disposition: Disposition,
    /// What the person's client called this submission. It is provenance and makes no decision another one.
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub submission: Reference,
    /// Who decided.
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub actor: Reference,
    /// By whose authority.
    pub authority: Authority,
}

impl ProposalDecision {
    /// Returns the key of the one decision about a proposal.
    ///
    /// # Panics
    /// Never: an id makes a key.
    #[must_use]
    pub fn key(proposal: &EventId) -> IdempotencyKey {
        IdempotencyKey::parse(&format!("proposal/{proposal}")).expect("an id makes a key")
    }
}
