//! What a model run did, step by step, as metadata: kinds, counts and hashes, and never a word of what was said.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::output::beside;
use super::run::RunStamp;
use crate::contract::{Counts, Stop};
use crate::event::{Candidate, Parent};
use crate::id::EventId;
use crate::privacy::Privacy;
use crate::registry::Writer;

/// What a trace is called among the events of its run.
const TRACE: &str = "trace";

/// A run that asks a model once has a handful of steps; what is past this is counted.
pub const CHUNKS_MAX: usize = 64;

/// Names a step; a closed list, so that no provider can put words into it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum Step {
    /// The sandbox was up.
    #[serde(rename = "cell.started")]
    CellStarted,
    /// One request went to the provider.
    #[serde(rename = "provider.requested")]
    Requested,
    /// The answer came in this many pieces.
    #[serde(rename = "pi.message_updates_coalesced")]
    UpdatesCoalesced,
    /// The answer was whole.
    #[serde(rename = "provider.answered")]
    Answered,
    /// The provider, or the way to it, failed.
    #[serde(rename = "provider.failed")]
    ProviderFailed,
    /// The final message fits its contract.
    #[serde(rename = "contract.accepted")]
    Accepted,
    /// The final message was refused.
    #[serde(rename = "contract.rejected")]
    Rejected,
    /// A fixed command was answered without a model.
    #[serde(rename = "command.answered")]
    CommandAnswered,
    /// The sandbox is gone.
    #[serde(rename = "cell.ended")]
    CellEnded,
}

/// Says in whose name a message stood.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The system.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Is one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceChunk {
    /// What happened.
    pub step: Step,
    /// In whose name, for a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The public base model, as the profile names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub model: Option<String>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// An allow-listed error code, or the name and version of a fixed command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub code: Option<String>,
    /// What the message consisted of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// How many there were: pieces, requests, messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl TraceChunk {
    /// Makes a step without details.
    #[must_use]
    pub const fn of(step: Step) -> Self {
        Self { step, role: None, model: None, stop: None, code: None, counts: None, count: None }
    }
}

/// Is the trace of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunTraced {
    /// The attempt.
    pub stamp: RunStamp,
    /// How many requests went to a provider.
    pub provider_requests: u32,
    /// The steps in order.
    #[schemars(length(max = 64))]
    pub chunks: Vec<TraceChunk>,
    /// How many steps were past the bound.
    pub omitted: u32,
}

impl TypedPayload for RunTraced {
    const NAME: &'static str = "stream.thought.run.traced";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] = &["providerRequests"];
}

impl RunTraced {
    /// Makes the trace of steps that were gathered elsewhere; what is past the bound is counted.
    #[must_use]
    pub fn of(stamp: RunStamp, provider_requests: u32, mut chunks: Vec<TraceChunk>) -> Self {
        let omitted = u32::try_from(chunks.len().saturating_sub(CHUNKS_MAX)).unwrap_or(u32::MAX);
        chunks.truncate(CHUNKS_MAX);
        Self { stamp, provider_requests, chunks, omitted }
    }

    /// Makes the event that goes into the commit that ends the attempt; `parents` are the execution's triggers.
    #[must_use]
    pub fn event(&self, privacy: Privacy, parents: Vec<Parent>) -> Candidate {
        self.candidate(beside(&self.stamp, TRACE, privacy, parents))
    }

    /// Returns the id of the trace of an attempt, written or not.
    ///
    /// # Panics
    /// Never: the name of a shipped type is valid.
    #[must_use]
    pub fn id_of(stamp: &RunStamp) -> EventId {
        let envelope = beside(stamp, TRACE, Privacy::Private, Vec::new());
        EventId::derive(&envelope.source, &Self::kind().name, &envelope.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::output::tests::stamp;

    #[test]
    fn a_trace_is_found_by_its_run_and_names_steps_of_ours_alone() {
        let chunks = vec![TraceChunk { count: Some(700), ..TraceChunk::of(Step::UpdatesCoalesced) }];
        let trace = RunTraced { stamp: stamp(), provider_requests: 1, chunks, omitted: 0 };
        let event = trace.event(Privacy::Sensitive, Vec::new());
        assert_eq!(event.id(), RunTraced::id_of(&stamp()));
        let text = String::from_utf8_lossy(event.payload().reveal()).into_owned();
        assert!(text.contains(r#"{"count":700,"step":"pi.message_updates_coalesced"}"#), "{text}");
        let other = text.replace("pi.message_updates_coalesced", "a word of the provider");
        assert!(serde_json::from_str::<RunTraced>(&other).is_err());
    }
}
