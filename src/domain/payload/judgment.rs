//! What a person thinks of an output: a judgment, its retraction, and the older form that stays readable.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::system::Operator;
use crate::contract::Observation;
use crate::hash::Sha256Hash;
use crate::id::{EventId, RunId, TypeRef};
use crate::privacy::Privacy;
use crate::registry::Writer;

/// The name that both versions have.
pub const TRAINING_EXAMPLE: &str = "stream.thought.judgment.training-example";

/// Says what is thought of an output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Opinion {
    /// It is right as it is.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Accept,
    /// It is not right.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Reject,
    /// This would have been right.
    Correct {
        /// The value that should stand in its place; it fits the output's contract.
        replacement: Observation,
    },
    /// It is better than another run's output.
    Prefer {
        /// The other run.
        over: RunId,
        /// The other run's output.
        over_output: EventId,
    },
}

impl Opinion {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Correct { .. } => "correct",
            Self::Prefer { .. } => "prefer",
        }
    }
}

/// Is an explicit judgment. A completed run alone is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrainingExample {
    /// The attempt whose output is judged.
    pub run: RunId,
    /// The output.
    pub output: EventId,
    /// The contract of the output.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// What is thought of it.
    pub opinion: Opinion,
    /// The criterion it was judged by, where the version alone does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub criterion: Option<String>,
    /// The version of the criterion it was judged by.
    #[schemars(length(min = 1, max = 64))]
    pub criterion_version: String,
    /// Whether it may inform private evaluation and adaptation. That is no leave to publish.
    pub quality_eligible: bool,
    /// Whether it may leave this log in a data set.
    pub external_export_eligible: bool,
    /// The class up to which the person said, when judging, that it may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_authorization: Option<Privacy>,
    /// The event in which a person said so, if it was not said by command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<EventId>,
    /// The receipt of the delivery that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<EventId>,
    /// The judgment that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<EventId>,
    /// Who judged, by command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Operator>,
}

impl TypedPayload for TrainingExample {
    const NAME: &'static str = TRAINING_EXAMPLE;
    const VERSION: u32 = 2;
    const WRITER: Writer = Writer::Decision;
    const PROMOTED: &'static [&'static str] = &["criterionVersion", "qualityEligible"];
}

/// Is the older form of a judgment: one field for both eligibilities. Nothing writes it any more; logs that
/// have it stay readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrainingExampleV1 {
    /// The attempt whose output is judged.
    pub run: RunId,
    /// The output.
    pub output: EventId,
    /// The contract of the output.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// What is thought of it.
    pub opinion: Opinion,
    /// Whether it may leave this log in a data set.
    pub export_eligible: bool,
}

impl TypedPayload for TrainingExampleV1 {
    const NAME: &'static str = TRAINING_EXAMPLE;
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Decision;
    const PROMOTED: &'static [&'static str] = &[];
}

/// Takes a judgment back: whatever is derived from judgments is as if it had never been made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JudgmentRetracted {
    /// The judgment.
    pub judgment: EventId,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub reason: Option<String>,
    /// The event in which a person said so, if it was not said by command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<EventId>,
    /// Who took it back, by command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Operator>,
}

impl TypedPayload for JudgmentRetracted {
    const NAME: &'static str = "stream.thought.judgment.training-example.retracted";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Decision;
    const PROMOTED: &'static [&'static str] = &[];
}
