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

/// Gathers the steps of one attempt. The pieces of an answer, of which there may be hundreds, become one count.
#[derive(Debug, Default)]
pub struct Tracer {
    chunks: Vec<TraceChunk>,
    updates: u64,
    requests: u32,
    omitted: u32,
}

impl Tracer {
    /// Counts one piece of an answer.
    pub const fn update(&mut self) {
        self.updates = self.updates.saturating_add(1);
    }

    /// Adds a step.
    pub fn step(&mut self, chunk: TraceChunk) {
        self.coalesce();
        if chunk.step == Step::Requested {
            self.requests = self.requests.saturating_add(1);
        }
        self.push(chunk);
    }

    /// Writes the pieces counted so far as one step.
    fn coalesce(&mut self) {
        if self.updates > 0 {
            let count = Some(std::mem::take(&mut self.updates));
            self.push(TraceChunk { count, ..TraceChunk::of(Step::UpdatesCoalesced) });
        }
    }

    fn push(&mut self, chunk: TraceChunk) {
        if self.chunks.len() < CHUNKS_MAX {
            self.chunks.push(chunk);
        } else {
            self.omitted = self.omitted.saturating_add(1);
        }
    }

    /// Ends the trace.
    #[must_use]
    pub fn finish(mut self, stamp: RunStamp) -> RunTraced {
        self.coalesce();
        RunTraced { stamp, provider_requests: self.requests, chunks: self.chunks, omitted: self.omitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::output::tests::stamp;

    #[test]
    fn hundreds_of_pieces_are_one_count_before_the_receipt() {
        let mut tracer = Tracer::default();
        tracer.step(TraceChunk::of(Step::CellStarted));
        tracer.step(TraceChunk::of(Step::Requested));
        (0..700).for_each(|_| tracer.update());
        tracer.step(TraceChunk::of(Step::Answered));
        let trace = tracer.finish(stamp());
        let steps: Vec<(Step, Option<u64>)> = trace.chunks.iter().map(|c| (c.step, c.count)).collect();
        assert_eq!(
            steps,
            [
                (Step::CellStarted, None),
                (Step::Requested, None),
                (Step::UpdatesCoalesced, Some(700)),
                (Step::Answered, None)
            ]
        );
        assert_eq!((trace.provider_requests, trace.omitted), (1, 0));
        let text = serde_json::to_string(&trace).unwrap();
        assert!(text.contains("\"pi.message_updates_coalesced\""), "{text}");
    }

    #[test]
    fn pieces_of_an_answer_that_never_ended_are_counted_too() {
        let mut tracer = Tracer::default();
        tracer.update();
        let trace = tracer.finish(stamp());
        assert_eq!((trace.chunks[0].step, trace.chunks[0].count), (Step::UpdatesCoalesced, Some(1)));
    }

    #[test]
    fn a_trace_is_found_by_its_run() {
        let trace = Tracer::default().finish(stamp());
        assert_eq!(trace.event(Privacy::Sensitive, Vec::new()).id(), RunTraced::id_of(&stamp()));
    }

    #[test]
    fn a_trace_has_a_bound_and_counts_past_it() {
        let mut tracer = Tracer::default();
        (0..CHUNKS_MAX + 3).for_each(|_| tracer.step(TraceChunk::of(Step::Requested)));
        let trace = tracer.finish(stamp());
        assert_eq!((trace.chunks.len(), trace.omitted), (CHUNKS_MAX, 3));
        assert_eq!(trace.provider_requests as usize, CHUNKS_MAX + 3);
    }
}
