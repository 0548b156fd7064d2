//! Attempts and executions: what one consumer does with one list of triggers, decided purely.
//!
//! An *execution* is one consumer version on one ordered list of triggers; it is fixed when its first attempt
//! is received. An *attempt* (a *run*) ends in exactly one terminal event. Every function here answers with a
//! [`Commit`] whose preconditions make the loser of a race learn that it lost.

mod adapter;
mod admission;
mod attempt;
mod settle;

use serde::{Deserialize, Serialize};

pub use adapter::{AdapterRevision, AdapterRevisionError};
pub use admission::{Admission, Ending, FailedEnding};
pub use attempt::{AttemptKey, Run, RunState};
pub use settle::Made;

use crate::accounting::Settled;
use crate::commit::{Commit, ExecutionKey, Precondition, Row};
use crate::event::{Actor, ActorKind, Candidate, Envelope, Event, Parent};
use crate::hash::Sha256Hash;
use crate::id::{ConsumerKey, EventId, ExecutionId, IdempotencyKey, RunId, SourceId};
use crate::payload::TypedPayload;
use crate::payload::run::{
    Next, RunAbandoned, RunFailed, RunReceived, RunStamp, RunStarted, RunStatusUnknown, TriggerName,
};
use crate::payload::system::{Operator, RetryRequested, Skipped};
use crate::privacy::Privacy;
use crate::retry::{AfterFailure, Exhausted, Interrupted, InterruptedRecord, InterruptedThen, RetryPolicy};
use crate::time::Timestamp;

/// Why an execution waits that was fixed and not written down yet.
const NEW: &str = "new";

/// Why an execution waits that a new version found between others that were settled.
const IN_LINE: &str = "handed-over";

/// Is one trigger of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trigger {
    /// The event.
    pub id: EventId,
    /// Its place in its source.
    pub sequence: u64,
    /// Its global position.
    pub position: u64,
}

/// Is the state of an execution, as its row keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Execution {
    /// The id.
    pub id: ExecutionId,
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The declaration's fingerprint.
    pub fingerprint: Sha256Hash,
    /// The source of all triggers.
    pub source: SourceId,
    /// The triggers, in order of their places.
    pub triggers: Vec<Trigger>,
    /// The class that everything about it carries at least.
    pub privacy: Privacy,
    /// How many attempts it has had.
    pub attempts: u32,
    /// How many of them count against the retry policy since a person last asked for a retry.
    pub failures: u32,
    /// Where it stands.
    pub state: ExecutionState,
    /// Since when.
    pub since: Timestamp,
    /// The revision of the runner of its current or latest attempt. An attempt that another build began is ended under
    /// the revision that it was begun with.
    #[serde(default, rename = "executionAdapterRevision")]
    pub adapter: AdapterRevision,
}

/// Says where an execution stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum ExecutionState {
    /// An attempt is open.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Running,
    /// The next attempt may start at `at`.
    Waiting {
        /// When.
        at: Timestamp,
        /// Why the last attempt did not complete.
        code: String,
    },
    /// A person decides: retry or skip. The source waits.
    Held {
        /// Why.
        code: String,
        /// Whether it counts as quarantined, rather than held by declaration.
        quarantined: bool,
    },
    /// Finished.
    Closed {
        /// How.
        how: Closure,
    },
}

/// Is the kind of an [`ExecutionState`], to compare without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// [`ExecutionState::Running`].
    Running,
    /// [`ExecutionState::Waiting`].
    Waiting,
    /// [`ExecutionState::Held`].
    Held,
    /// [`ExecutionState::Closed`].
    Closed,
}

impl ExecutionStatus {
    /// Returns the spelling used in rows and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Closed => "closed",
        }
    }
}

impl ExecutionState {
    /// Returns the kind.
    #[must_use]
    pub const fn status(&self) -> ExecutionStatus {
        match self {
            Self::Running => ExecutionStatus::Running,
            Self::Waiting { .. } => ExecutionStatus::Waiting,
            Self::Held { .. } => ExecutionStatus::Held,
            Self::Closed { .. } => ExecutionStatus::Closed,
        }
    }
}

/// Says how an execution finished; each of these lets progress pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Closure {
    /// With its outputs.
    Completed,
    /// Its failure was final: its output was refused.
    Failed,
    /// It was denied and the declaration says to go on.
    Blocked,
    /// It was interrupted and what is declared for interruptions says to go on.
    Abandoned,
    /// A person passed it.
    Skipped,
    /// A new version of the declaration took over.
    Superseded,
    /// The version before had settled it already, above the progress that was handed over.
    Inherited,
    /// It could not be processed and the retry policy says to go on: a person is shown it.
    Unprocessed,
}

/// Is what an attempt's commits need to know besides the log: the declaration's identity and the time.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The declaration's fingerprint.
    pub fingerprint: Sha256Hash,
    /// The weakest class the declaration lets its runs carry.
    pub privacy_floor: Privacy,
    /// The service incarnation.
    pub incarnation: u64,
    /// The time.
    pub now: Timestamp,
    /// The revision of the runner that executes what is opened.
    pub adapter: AdapterRevision,
}

/// Is what a runner produced: a checked output without its envelope.
#[derive(Debug, Clone)]
pub struct Output {
    /// The type and version.
    pub kind: crate::id::TypeRef,
    /// The payload.
    pub payload: serde_json::Value,
    /// Whom it is addressed to, for an escalation.
    pub address: Option<crate::event::Reference>,
}

impl Execution {
    /// Fixes an execution on its triggers: events of one source, rising.
    ///
    /// # Panics
    /// If `triggers` is empty; a batch has at least one event.
    #[must_use]
    pub fn fix(frame: &Frame, triggers: &[Event]) -> Self {
        let first = triggers.first().expect("a batch has at least one event");
        let ids: Vec<EventId> = triggers.iter().map(|event| event.id).collect();
        let privacy = triggers.iter().fold(frame.privacy_floor, |class, event| class.join(event.privacy));
        Self {
            id: ExecutionId::derive(&frame.consumer, &frame.fingerprint, &ids),
            consumer: frame.consumer.clone(),
            fingerprint: frame.fingerprint,
            source: first.source.clone(),
            triggers: triggers
                .iter()
                .map(|e| Trigger { id: e.id, sequence: e.sequence, position: e.position })
                .collect(),
            privacy,
            attempts: 0,
            failures: 0,
            state: ExecutionState::Waiting { at: frame.now, code: NEW.to_owned() },
            since: frame.now,
            adapter: frame.adapter.clone(),
        }
    }

    /// Makes an execution that was just fixed one that may be written down before its first attempt: it waits
    /// for it like any other.
    pub fn put_in_line(&mut self) {
        if let ExecutionState::Waiting { code, .. } = &mut self.state {
            IN_LINE.clone_into(code);
        }
    }

    /// Says whether the log has nothing of it yet.
    fn is_new(&self) -> bool {
        self.attempts == 0 && matches!(&self.state, ExecutionState::Waiting { code, .. } if code == NEW)
    }

    /// Returns the position of the first trigger, which orders executions and finds them.
    ///
    /// # Panics
    /// Never for a value of this type: an execution has at least one trigger.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.triggers.first().expect("an execution has a trigger").position
    }

    /// Returns where the execution is found.
    #[must_use]
    pub fn key(&self) -> ExecutionKey {
        ExecutionKey { consumer: self.consumer.clone(), position: self.position() }
    }

    /// Says whether it finished with its outputs.
    #[must_use]
    pub const fn has_completed(&self) -> bool {
        matches!(self.state, ExecutionState::Closed { how: Closure::Completed })
    }

    /// Returns the id of its current or latest attempt.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        RunId::derive(&self.id, self.attempts)
    }

    fn attempt_key(&self) -> AttemptKey {
        AttemptKey { consumer: self.consumer.clone(), position: self.position(), attempt: self.attempts }
    }

    /// Returns what binds an event to its current or latest attempt.
    #[must_use]
    pub fn stamp(&self) -> RunStamp {
        RunStamp {
            run: self.run_id(),
            execution: self.id,
            consumer: self.consumer.clone(),
            fingerprint: self.fingerprint,
            attempt: self.attempts,
            execution_adapter_revision: self.adapter.to_string(),
            model_adapter: None,
        }
    }

    /// Makes the envelope of an event about this execution's current attempt. Keys rise with the triggers.
    fn envelope(&self, what: &str, by: ActorKind) -> Envelope {
        let first = &self.triggers[0];
        let key = format!(
            "v{}/{}/{:012}/{}/{what}",
            self.consumer.version, self.source, first.sequence, self.attempts
        );
        let actor = match by {
            ActorKind::System => Actor::ours(by, "supervision"),
            ActorKind::Producer | ActorKind::Agent | ActorKind::Person => {
                Actor::ours(by, &self.consumer.to_string())
            }
        };
        let key = IdempotencyKey::parse(&key).expect("a source, numbers and words make a key");
        let parents = self.parents();
        Envelope::new(SourceId::agent(&self.consumer.id), key, self.privacy, actor).with_parents(parents)
    }

    /// Returns its triggers as the parents of an event.
    #[must_use]
    pub fn parents(&self) -> Vec<Parent> {
        self.triggers.iter().map(|t| Parent { id: t.id, position: Some(t.position) }).collect()
    }

    fn run(&self, frame: &Frame, state: RunState, received_at: Timestamp) -> Run {
        Run {
            id: self.run_id(),
            execution: self.id,
            consumer: self.consumer.clone(),
            position: self.position(),
            attempt: self.attempts,
            source: self.source.clone(),
            ended_at: (!state.is_open()).then_some(frame.now),
            state,
            received_at,
            incarnation: frame.incarnation,
        }
    }

    /// Returns the event that begins the next attempt, having counted it.
    fn receive(&mut self, frame: &Frame) -> Candidate {
        self.attempts += 1;
        self.adapter = frame.adapter.clone();
        self.state = ExecutionState::Running;
        self.since = frame.now;
        let triggers = self
            .triggers
            .iter()
            .map(|t| TriggerName { id: t.id, source: self.source.clone(), sequence: t.sequence })
            .collect();
        let received = RunReceived { stamp: self.stamp(), triggers };
        received.candidate(self.envelope("received", ActorKind::Agent))
    }

    /// Returns the events that open the next attempt, having counted it.
    fn open_next(&mut self, frame: &Frame) -> Vec<Candidate> {
        let received = self.receive(frame);
        let started = RunStarted { stamp: self.stamp(), reservation: None };
        vec![received, started.candidate(self.envelope("started", ActorKind::Agent))]
    }

    /// Returns what must hold before the next attempt opens: `previous` is the matching event before the
    /// first trigger (0 for none), needed for a first attempt only.
    fn may_open(&self, previous: u64) -> Vec<Precondition> {
        let not_paused = Precondition::NotPaused(self.consumer.id.clone());
        if self.is_new() {
            let (consumer, source) = (self.consumer.clone(), self.source.clone());
            let sequences = self.triggers.iter().map(|t| t.sequence).collect();
            return vec![
                not_paused,
                Precondition::ClaimedThrough {
                    consumer: consumer.clone(),
                    source: source.clone(),
                    sequence: previous,
                },
                Precondition::Unclaimed { consumer, source, sequences },
            ];
        }
        let (status, attempts) = (self.state.status(), self.attempts);
        vec![not_paused, Precondition::ExecutionIs { key: self.key(), status, attempts }]
    }

    /// Opens the next attempt durably: received and started in one commit, before the runner runs.
    #[must_use]
    pub fn open(&mut self, frame: &Frame, previous: u64) -> Commit {
        let preconditions = self.may_open(previous);
        let appends = self.open_next(frame);
        let run = self.run(frame, RunState::Started, frame.now);
        Commit { preconditions, appends, rows: vec![Row::Execution(self.clone()), Row::Run(run)] }
    }

    /// Returns the rows that end the current attempt.
    fn end(&self, frame: &Frame, state: RunState, ending: impl Into<FailedEnding>) -> Vec<Row> {
        let ending = ending.into();
        let run = self.run(frame, state, ending.received_at());
        let mut rows = vec![Row::Execution(self.clone()), Row::Run(run)];
        rows.extend(ending.row(frame.now));
        rows
    }

    /// Ends the open attempt as failed; `policy` says what follows. Only so can a reservation be given back.
    #[must_use]
    pub fn fail(
        &mut self,
        frame: &Frame,
        ending: impl Into<FailedEnding>,
        code: &str,
        policy: FailurePolicy,
    ) -> Commit {
        let ending = ending.into();
        let preconditions = vec![Precondition::AttemptOpen(self.attempt_key())];
        let (next, state) = match policy {
            FailurePolicy::Final => (Next::Advance, ExecutionState::Closed { how: Closure::Failed }),
            FailurePolicy::Unprocessable(exhausted) => {
                self.failures += 1;
                after_failure(AfterFailure::Exhausted(exhausted), code)
            }
            FailurePolicy::Retryable(retry) => {
                self.failures += 1;
                after_failure(retry.after(self.failures, frame.now), code)
            }
        };
        let charge = ending.settled().and_then(Settled::charge).cloned();
        let released = ending.settled().and_then(Settled::released);
        let failed = RunFailed { stamp: self.stamp(), code: code.to_owned(), next, charge, released };
        let appends = vec![failed.candidate(self.envelope("failed", ActorKind::Agent))];
        self.state = state;
        self.since = frame.now;
        let rows = self.end(frame, RunState::Failed { code: code.to_owned() }, ending);
        Commit { preconditions, appends, rows }
    }

    /// Ends an attempt that was found open without anyone running it.
    #[must_use]
    pub fn interrupt(
        &mut self,
        frame: &Frame,
        ending: impl Into<Ending>,
        code: &str,
        interrupted: Interrupted,
        retry: RetryPolicy,
    ) -> Commit {
        let ending = ending.into();
        let preconditions = vec![Precondition::AttemptOpen(self.attempt_key())];
        let (next, state) = match interrupted.then {
            InterruptedThen::Retry => {
                self.failures += 1;
                after_failure(retry.after(self.failures, frame.now), code)
            }
            InterruptedThen::Hold => {
                (Next::Hold, ExecutionState::Held { code: code.to_owned(), quarantined: false })
            }
            InterruptedThen::Advance => (Next::Advance, ExecutionState::Closed { how: Closure::Abandoned }),
        };
        let (stamp, code, charge) = (self.stamp(), code.to_owned(), ending.charge());
        let (candidate, run_state) = match interrupted.record {
            InterruptedRecord::StatusUnknown => {
                let payload = RunStatusUnknown { stamp, code: code.clone(), next, charge };
                let candidate = payload.candidate(self.envelope("status-unknown", ActorKind::System));
                (candidate, RunState::StatusUnknown { code })
            }
            InterruptedRecord::Abandoned => {
                let payload = RunAbandoned { stamp, code: code.clone(), next, charge };
                (
                    payload.candidate(self.envelope("abandoned", ActorKind::System)),
                    RunState::Abandoned { code },
                )
            }
        };
        self.state = state;
        self.since = frame.now;
        let rows = self.end(frame, run_state, ending);
        Commit { preconditions, appends: vec![candidate], rows }
    }

    /// Passes a waiting or held execution at a person's word, or takes one that was passed unprocessed off what is
    /// shown to people; `key` makes the act recognisable.
    #[must_use]
    pub fn skip(&mut self, now: Timestamp, reason: &str, operator: Operator, key: IdempotencyKey) -> Commit {
        let parents = self.parents();
        self.skip_of(parents, now, reason, operator, key)
    }

    /// As [`Self::skip`], for an execution of which some triggers are damaged: `parents` are those that are not, and
    /// what is recorded hangs on them alone.
    #[must_use]
    pub fn skip_of(
        &mut self,
        parents: Vec<Parent>,
        now: Timestamp,
        reason: &str,
        operator: Operator,
        key: IdempotencyKey,
    ) -> Commit {
        let preconditions = self.stands();
        let skipped = Skipped {
            consumer: self.consumer.clone(),
            execution: self.id,
            events: self.triggers.iter().map(|t| t.id).collect(),
            reason: reason.to_owned(),
            operator: operator.clone(),
        };
        let appends = vec![skipped.candidate(self.decision(&operator, key).with_parents(parents))];
        self.state = ExecutionState::Closed { how: Closure::Skipped };
        self.since = now;
        Commit { preconditions, appends, rows: vec![Row::Execution(self.clone())] }
    }

    /// Lets a waiting or held execution be tried again at once, at a person's word.
    #[must_use]
    pub fn retry_now(&mut self, now: Timestamp, operator: Operator, key: IdempotencyKey) -> Commit {
        let preconditions = self.stands();
        let requested = RetryRequested {
            consumer: self.consumer.clone(),
            execution: self.id,
            operator: operator.clone(),
        };
        let appends = vec![requested.candidate(self.decision(&operator, key))];
        self.state = ExecutionState::Waiting { at: now, code: "retry-requested".to_owned() };
        self.failures = 0;
        self.since = now;
        Commit { preconditions, appends, rows: vec![Row::Execution(self.clone())] }
    }

    fn stands(&self) -> Vec<Precondition> {
        let (status, attempts) = (self.state.status(), self.attempts);
        vec![Precondition::ExecutionIs { key: self.key(), status, attempts }]
    }

    fn decision(&self, operator: &Operator, key: IdempotencyKey) -> Envelope {
        let actor = Actor::ours(ActorKind::Person, &format!("uid:{}", operator.uid));
        let parents = self.parents();
        Envelope::new(SourceId::decisions(), key, self.privacy, actor).with_parents(parents)
    }
}

/// Says whether a failure may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Another attempt would change nothing that matters: the output was refused, or a person erased the trigger.
    /// The event is passed.
    Final,
    /// The same input would fail in the same way (a document that cannot be read, or is too large): no attempt is
    /// left, and what is declared for that follows at once.
    Unprocessable(Exhausted),
    /// Something around it failed: the declared policy decides.
    Retryable(RetryPolicy),
}

fn after_failure(after: AfterFailure, code: &str) -> (Next, ExecutionState) {
    let code = code.to_owned();
    match after {
        AfterFailure::Retry(at) => (Next::Retry { at }, ExecutionState::Waiting { at, code }),
        AfterFailure::Exhausted(Exhausted::Quarantine) => {
            (Next::Hold, ExecutionState::Held { code, quarantined: true })
        }
        AfterFailure::Exhausted(Exhausted::Hold) => {
            (Next::Hold, ExecutionState::Held { code, quarantined: false })
        }
        AfterFailure::Exhausted(Exhausted::Advance) => {
            (Next::Advance, ExecutionState::Closed { how: Closure::Unprocessed })
        }
    }
}

#[cfg(test)]
mod tests;
