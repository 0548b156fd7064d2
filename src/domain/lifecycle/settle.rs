//! How an attempt settles that has what it was for: outputs, what it proposes, `completed`, rows and progress, all in
//! one commit and in this order.
//!
//! `completed` names outputs and proposals, and it is what they count by: an event that no `completed` names is
//! nothing, and `verify` says so.

use super::{Closure, Ending, Execution, ExecutionState, Frame, Output, RunState};
use crate::commit::{Commit, Precondition, Row};
use crate::content::Content;
use crate::event::{ActorKind, Candidate};
use crate::id::{EventId, IdempotencyKey, SourceId, TypeRef};
use crate::payload::TypedPayload as _;
use crate::payload::run::RunCompleted;
use crate::registry::{DoorError, Draft, DraftPayload, Registry, Writer};

/// Is what a run made: its outputs, and what it proposes beside them.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// The outputs.
    pub outputs: Vec<Output>,
    /// The proposals: events of this run that are nothing unless `completed` names them.
    pub proposals: Vec<Candidate>,
}

impl From<Vec<Output>> for Made {
    /// Takes outputs beside which nothing is proposed.
    fn from(outputs: Vec<Output>) -> Self {
        Self { outputs, proposals: Vec::new() }
    }
}

impl Execution {
    /// Returns the key of output number `index`: without the attempt, so that an execution whose output is in the log
    /// can never put a second one beside it.
    fn output_key(&self, index: usize) -> IdempotencyKey {
        let first = self.triggers[0].sequence;
        let key = format!("v{}/{}/{first:012}/output/{index}", self.consumer.version, self.source);
        IdempotencyKey::parse(&key).expect("a source and numbers make a key")
    }

    /// Returns the id that output number `index` has, if it is of this type.
    #[must_use]
    pub fn output_id(&self, kind: &TypeRef, index: usize) -> EventId {
        EventId::derive(&SourceId::agent(&self.consumer.id), &kind.name, &self.output_key(index))
    }

    /// Makes the candidates of outputs, checked against their types.
    ///
    /// # Errors
    /// The registry's refusal of the first output that does not fit.
    fn outputs(&self, registry: &Registry, outputs: Vec<Output>) -> Result<Vec<Candidate>, DoorError> {
        let admit = |(index, output): (usize, Output)| {
            let mut envelope = self.envelope("output", ActorKind::Agent);
            envelope.key = self.output_key(index);
            envelope.address = output.address;
            let payload = Content::new(DraftPayload(output.payload));
            registry.admit(Writer::Settlement, Draft { kind: output.kind, envelope, payload })
        };
        outputs.into_iter().enumerate().map(admit).collect()
    }

    /// Settles the open attempt: outputs, proposals, terminal event, rows and progress in one commit.
    ///
    /// # Errors
    /// The registry's refusal if an output does not fit its type; the attempt is then to be failed.
    pub fn complete(
        &mut self,
        frame: &Frame,
        ending: impl Into<Ending>,
        registry: &Registry,
        made: impl Into<Made>,
    ) -> Result<Commit, DoorError> {
        let Made { outputs, proposals } = made.into();
        let outputs = self.outputs(registry, outputs)?;
        let preconditions = vec![Precondition::AttemptOpen(self.attempt_key())];
        let (appends, rows) = self.close_completed(frame, ending.into(), outputs, proposals);
        Ok(Commit { preconditions, appends, rows })
    }

    /// Opens and settles the next attempt in one commit, for a declaration with `lifecycle: settled`.
    ///
    /// # Errors
    /// The registry's refusal if an output does not fit its type.
    pub fn settle_at_once(
        &mut self,
        frame: &Frame,
        previous: u64,
        registry: &Registry,
        outputs: Vec<Output>,
    ) -> Result<Commit, DoorError> {
        let mut next = self.clone();
        let preconditions = next.may_open(previous);
        let mut appends = next.open_next(frame);
        let outputs = next.outputs(registry, outputs)?;
        let (settled, rows) = next.close_completed(frame, frame.now.into(), outputs, Vec::new());
        appends.extend(settled);
        *self = next;
        Ok(Commit { preconditions, appends, rows })
    }

    fn close_completed(
        &mut self,
        frame: &Frame,
        ending: Ending,
        outputs: Vec<Candidate>,
        proposals: Vec<Candidate>,
    ) -> (Vec<Candidate>, Vec<Row>) {
        let ids = |made: &[Candidate]| made.iter().map(Candidate::id).collect::<Vec<EventId>>();
        let (made, proposed, charge) = (ids(&outputs), ids(&proposals), ending.charge());
        let completed =
            RunCompleted { stamp: self.stamp(), outputs: made.clone(), proposals: proposed, charge };
        let completed = completed.candidate(self.envelope("completed", ActorKind::Agent));
        let appends = outputs.into_iter().chain(proposals).chain([completed]).collect();
        self.state = ExecutionState::Closed { how: Closure::Completed };
        self.since = frame.now;
        (appends, self.end(frame, RunState::Completed { outputs: made }, ending))
    }
}
