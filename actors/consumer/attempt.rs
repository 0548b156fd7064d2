//! One attempt, from its opening to its one terminal event, in a task of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thoughtstream_domain::commit::{Commit, Refusal, Verdict};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::lane::DamagedEvent;
use thoughtstream_domain::lifecycle::{Execution, Output};
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Reader, RowError};

use super::resume::{TriggersError, triggers};
use super::{ConsumerSpec, Work};
use crate::clock::Clock;
use crate::killpoint::{KillPoint, KillSite};
use crate::log::{LogError, LogHandle, Submitted};
use crate::runner::{RunFailure, Runner};
use crate::supervisor::{Fault, StatusCell};

/// An output did not fit its type, or is of a type that the declaration does not emit.
const INVALID_OUTPUT: &str = "invalid-output";
/// The runner panicked: a bug in it, or an input it cannot stand.
const RUNNER_PANICKED: &str = "runner-panicked";

/// Says how an attempt ended, as far as its consumer is concerned.
#[derive(Debug)]
pub enum Ended {
    /// It is settled; this is how its execution stands.
    Stands {
        /// The execution.
        execution: Box<Execution>,
        /// Whether it completed.
        completed: bool,
    },
    /// Nothing of it is in the log: the consumer was paused, or is to end, before it could open.
    Paused,
    /// A precondition did not hold: another commit came first.
    Overtaken,
    /// The log has other content under one of its ids.
    Conflict,
    /// Nothing was opened, because a trigger is not what was recorded.
    Damaged(DamagedEvent),
    /// What the work needs could not be read: why, if it is not that the reading task is gone.
    Unreadable(Option<RowError>),
    /// A kill point said so.
    Fault(Fault),
    /// The service is stopping; whether the attempt settled is found out at the next start.
    Closed,
}

/// Is what an attempt works with.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) spec: Arc<ConsumerSpec>,
    pub(super) log: LogHandle,
    pub(super) reader: Reader,
    pub(super) registry: Arc<Registry>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) site: KillSite,
    pub(super) incarnation: u64,
    pub(super) status: Arc<StatusCell>,
    /// Turns true when the consumer is to end.
    pub(super) leaving: tokio::sync::watch::Receiver<bool>,
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<LogError> for Ended {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Damaged { place } => Self::Unreadable(Some(RowError::Damaged { place })),
            LogError::Unwritable { .. } | LogError::Unknown | LogError::Closed => Self::Closed,
        }
    }
}

impl From<RowError> for Ended {
    fn from(error: RowError) -> Self {
        Self::Unreadable(Some(error))
    }
}

impl From<TriggersError> for Ended {
    fn from(error: TriggersError) -> Self {
        match error {
            TriggersError::Damaged(damaged) => Self::Damaged(damaged),
            TriggersError::Unreadable(error) => error.into(),
        }
    }
}

/// Is what a run gave.
type Made = Result<Vec<Output>, RunFailure>;

impl Attempt {
    /// Begins: the opening commit of a new execution takes its place in the log's order before this returns. A retry
    /// opens once its triggers are read again.
    pub(super) fn begin(
        self,
        mut execution: Execution,
        events: Option<Vec<Event>>,
        previous: u64,
        at_once: bool,
    ) -> impl Future<Output = Ended> + Send + 'static {
        let received_at = self.clock.now();
        let work = self.spec.work.clone();
        let mut opening = None;
        let is_retry = events.is_none();
        if !at_once && matches!(work, Work::Transform(_)) {
            let commit = Arc::new(execution.open(&self.spec.frame(self.incarnation, received_at), previous));
            // Claims side by side on one source need their order now; a serial lane has only this one, which
            // leaves room for a kill point before it.
            let side_by_side = self.spec.limits.concurrency > 1 && !is_retry;
            opening = Some(if side_by_side { Ok(self.log.submit(commit)) } else { Err(commit) });
        }
        async move {
            let events = match events {
                Some(events) => events,
                None => match self.triggers(&execution).await {
                    Ok(events) => events,
                    Err(end) => return end,
                },
            };
            let ended = match (work, opening) {
                (Work::Model(model), _) => self.ask(model, execution, events, previous).await,
                (Work::Transform(runner), None) => {
                    self.settle_at_once(&runner, execution, events, previous).await
                }
                (Work::Transform(runner), Some(opening)) => {
                    self.two_commits(&runner, execution, events, opening, received_at).await
                }
            };
            ended.unwrap_or_else(|end| end)
        }
    }

    /// Reads the triggers of an execution again.
    async fn triggers(&self, execution: &Execution) -> Result<Vec<Event>, Ended> {
        let (reader, execution) = (self.reader.clone(), execution.clone());
        let read = tokio::task::spawn_blocking(move || triggers(&reader, &execution)).await;
        Ok(read.map_err(|_| Ended::Unreadable(None))??)
    }

    async fn two_commits(
        self,
        runner: &Arc<dyn Runner>,
        mut execution: Execution,
        events: Vec<Event>,
        opening: Result<Submitted, Arc<Commit>>,
        received_at: Timestamp,
    ) -> Result<Ended, Ended> {
        self.site.pass(KillPoint::ReceivedBefore).await?;
        self.site.pass(KillPoint::StartedBefore).await?;
        let submitted = opening.unwrap_or_else(|commit| self.log.submit(commit));
        self.site.pass(KillPoint::ReceivedInside).await?;
        self.site.pass(KillPoint::StartedInside).await?;
        is_in(submitted.settled().await?)?;
        self.site.pass(KillPoint::ReceivedAfter).await?;
        self.site.pass(KillPoint::StartedAfter).await?;
        let made = self.run(runner, events).await?;
        let commit = self.settlement(&mut execution, received_at, made);
        self.settle(commit, &execution).await?;
        let completed = execution.has_completed();
        Ok(Ended::Stands { execution: Box::new(execution), completed })
    }

    /// Runs first and records everything in one commit; a failure opens and ends the attempt in two.
    async fn settle_at_once(
        self,
        runner: &Arc<dyn Runner>,
        mut execution: Execution,
        events: Vec<Event>,
        previous: u64,
    ) -> Result<Ended, Ended> {
        let made = self.run(runner, events).await?.and_then(|outputs| self.allowed(outputs));
        let now = self.clock.now();
        let frame = self.spec.frame(self.incarnation, now);
        let code = match made {
            Ok(outputs) => match execution.settle_at_once(&frame, previous, &self.registry, outputs) {
                Ok(commit) => {
                    self.settle(commit, &execution).await?;
                    return Ok(Ended::Stands { execution: Box::new(execution), completed: true });
                }
                Err(_) => RunFailure::of_output(INVALID_OUTPUT),
            },
            Err(failure) => failure,
        };
        is_in(self.log.commit(execution.open(&frame, previous)).await?)?;
        let commit = self.settlement(&mut execution, now, Err(code));
        self.settle(commit, &execution).await?;
        Ok(Ended::Stands { execution: Box::new(execution), completed: false })
    }

    async fn run(&self, runner: &Arc<dyn Runner>, events: Vec<Event>) -> Result<Made, Ended> {
        self.site.pass(KillPoint::RunnerBefore).await?;
        // Where a kill point may hold a run, it has a thread that can be held.
        let made = if runner.is_brief(&events) && self.site.is_quiet() {
            let run = AssertUnwindSafe(|| runner.run(&self.reader, &events));
            catch_unwind(run).unwrap_or(Err(RunFailure::of_surroundings(RUNNER_PANICKED)))
        } else {
            self.run_on_a_thread(runner, events).await?
        };
        self.site.pass(KillPoint::RunnerAfter).await?;
        Ok(made)
    }

    async fn run_on_a_thread(&self, runner: &Arc<dyn Runner>, events: Vec<Event>) -> Result<Made, Ended> {
        let (attempt, runner) = (self.clone(), Arc::clone(runner));
        let ran = tokio::task::spawn_blocking(move || {
            attempt.site.pass_blocking(KillPoint::RunnerInside)?;
            Ok::<Made, Ended>(runner.run(&attempt.reader, &events))
        });
        ran.await.unwrap_or(Ok(Err(RunFailure::of_surroundings(RUNNER_PANICKED))))
    }

    /// Keeps outputs of types that the declaration does not emit out.
    fn allowed(&self, outputs: Vec<Output>) -> Made {
        let allowed = outputs.iter().all(|output| self.spec.emit.contains(&output.kind.name));
        if allowed { Ok(outputs) } else { Err(RunFailure::of_output(INVALID_OUTPUT)) }
    }

    fn settlement(&self, execution: &mut Execution, received_at: Timestamp, made: Made) -> Commit {
        let frame = self.spec.frame(self.incarnation, self.clock.now());
        let failure = match made.and_then(|outputs| self.allowed(outputs)) {
            Ok(outputs) => match execution.complete(&frame, received_at, &self.registry, outputs) {
                Ok(commit) => return commit,
                Err(_) => RunFailure::of_output(INVALID_OUTPUT),
            },
            Err(failure) => failure,
        };
        execution.fail(&frame, received_at, failure.code, failure.policy(self.spec.retry))
    }

    pub(super) async fn settle(&self, commit: Commit, execution: &Execution) -> Result<(), Ended> {
        self.site.pass(KillPoint::SettleBefore).await?;
        let submitted = self.log.submit(Arc::new(commit));
        self.site.pass(KillPoint::SettleInside).await?;
        is_in(submitted.settled().await?)?;
        if let Work::Transform(runner) = &self.spec.work {
            runner.settled(execution);
        }
        self.site.pass(KillPoint::SettleAfter).await?;
        Ok(())
    }
}

/// Lets an attempt go on only if its commit is in the log.
pub(super) fn is_in(verdict: Verdict) -> Result<(), Ended> {
    match verdict {
        Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => Ok(()),
        Verdict::Refused(Refusal::Paused { .. }) => Err(Ended::Paused),
        Verdict::Refused(Refusal::Precondition { .. }) => Err(Ended::Overtaken),
        Verdict::Conflict(_) | Verdict::Refused(_) => Err(Ended::Conflict),
    }
}
