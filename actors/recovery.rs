//! Closing what an ended incarnation left open: the one rule behind every way back.
//!
//! An exit that a supervisor saw, an exit that it missed, and a power cut are found in the same place: the index
//! of open attempts. Each is ended with the precondition that it *is* open, so a settlement that was already on
//! its way may still win, and whoever comes second learns it.

use std::sync::Arc;

use thoughtstream_domain::commit::{Commit, ExecutionKey, Verdict};
use thoughtstream_domain::id::ConsumerKey;
use thoughtstream_domain::lifecycle::{Frame, Run};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::repair::AgentRole;
use thoughtstream_domain::retry::{Interrupted, InterruptedThen, RetryPolicy};
use thoughtstream_store::Reader;

use crate::clock::Clock;
use crate::killpoint::{KillPoint, KillSite};
use crate::log::{LogError, LogHandle};
use crate::supervisor::{Exit, Fault};

/// Says why recovery did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// Rows could not be read.
    #[error("the log cannot be read")]
    Unreadable,
    /// The log takes no commits at the moment.
    #[error("the log cannot be written")]
    Unwritable,
    /// A kill point said so.
    #[error("{0}")]
    Fault(Fault),
}

/// Is the declared answer to interruptions and failures.
#[derive(Debug, Clone, Copy)]
pub struct Policies {
    /// What follows an interruption.
    pub interrupted: Interrupted,
    /// What bounds retries.
    pub retry: RetryPolicy,
}

impl Policies {
    /// Applies when no declaration is loaded that could say: record it, and let a person decide. What a version was
    /// for holds beyond it: an interrupted repair is given up, or its successor would repair the same once more.
    #[must_use]
    fn undeclared(role: AgentRole) -> Self {
        let interrupted = Interrupted { then: InterruptedThen::Hold, ..Interrupted::default() };
        Self { interrupted: role.interrupted(interrupted), retry: RetryPolicy::default() }
    }
}

/// Finds the policies of a consumer version; `None` if it is not the one that is loaded.
pub type PolicyOf = Arc<dyn Fn(&ConsumerKey) -> Option<Policies> + Send + Sync>;

/// Is what recovery works with.
#[derive(Clone)]
pub struct Recoverer {
    /// Where it reads.
    pub reader: Reader,
    /// Where it writes.
    pub log: LogHandle,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What declarations say.
    pub policy_of: PolicyOf,
    /// Where it can be made to fail.
    pub site: KillSite,
    /// The number of this service's start.
    pub incarnation: u64,
}

impl Recoverer {
    /// Ends every open attempt, of one consumer version or of all; answers how many.
    ///
    /// # Errors
    /// [`RecoveryError`]; what was ended stays ended, and the call may be repeated.
    pub async fn close_open(
        &self,
        consumer: Option<&ConsumerKey>,
        code: &str,
    ) -> Result<usize, RecoveryError> {
        self.site.pass(KillPoint::RecoveryBefore).await.map_err(RecoveryError::Fault)?;
        self.overtake_nothing().await?;
        let (reader, only) = (self.reader.clone(), consumer.cloned());
        let open = blocking(move || reader.open_attempts(only.as_ref())).await?;
        let count = open.len();
        for run in open {
            self.close(run, code).await?;
        }
        self.site.pass(KillPoint::RecoveryAfter).await.map_err(RecoveryError::Fault)?;
        Ok(count)
    }

    /// Waits until everything that was handed in before now is in the log or refused: an ended incarnation may
    /// have an opening under way, which would be found open only after nobody looks for it any more.
    async fn overtake_nothing(&self) -> Result<(), RecoveryError> {
        let answered = self.log.offer_until_known(Commit::default()).await;
        answered.map(drop).map_err(|_| RecoveryError::Unwritable)
    }

    async fn close(&self, run: Run, code: &str) -> Result<(), RecoveryError> {
        let key = ExecutionKey { consumer: run.consumer.clone(), position: run.position };
        let (reader, ended) = (self.reader.clone(), run.clone());
        let found = blocking(move || {
            let registered = reader.registered(&ended.consumer)?;
            Ok((reader.execution(&key)?, reader.entry(&ended)?, registered))
        });
        let (Some(mut execution), entry, registered) = found.await? else {
            return Err(RecoveryError::Unreadable);
        };
        let frame = Frame {
            consumer: run.consumer.clone(),
            fingerprint: execution.fingerprint,
            privacy_floor: Privacy::PublicSource,
            incarnation: self.incarnation,
            now: self.clock.now(),
            adapter: execution.adapter.clone(),
        };
        let role = registered.map_or_else(AgentRole::default, |registered| registered.role());
        let declared = (self.policy_of)(&run.consumer);
        let Policies { interrupted, retry } = declared.unwrap_or_else(|| Policies::undeclared(role));
        // Whether it asked a model, and what that cost, is not known: it is charged in full.
        let ending = entry.map_or_else(|| run.received_at.into(), |entry| entry.reservation.ending_in_full());
        let commit = execution.interrupt(&frame, ending, code, interrupted, retry);
        self.site.pass(KillPoint::RecoveryInside).await.map_err(RecoveryError::Fault)?;
        match self.log.offer_until_known(commit).await {
            // A refusal says that the attempt is not open any more: somebody ended it first.
            Ok(Verdict::Committed(_) | Verdict::AlreadyCommitted(_) | Verdict::Refused(_)) => Ok(()),
            Ok(Verdict::Conflict(_)) => Err(RecoveryError::Unreadable),
            Err(LogError::Damaged { .. }) => Err(RecoveryError::Unreadable),
            Err(LogError::Unknown | LogError::Unwritable { .. } | LogError::Closed) => {
                Err(RecoveryError::Unwritable)
            }
        }
    }
}

const STOPPED: &str = "consumer-stopped";
const KILLED: &str = "consumer-killed";
const CANCELLED: &str = "consumer-cancelled";
const FAILED: &str = "consumer-failed";
const START_FAILED: &str = "consumer-start-failed";

/// Names how an incarnation ended, for the events that close what it left open.
#[must_use]
pub fn interruption(exit: Exit) -> &'static str {
    match exit {
        Exit::Planned(_) => STOPPED,
        Exit::Killed => KILLED,
        Exit::Cancelled => CANCELLED,
        Exit::Failed(_) => FAILED,
        Exit::StartFailed(_) => START_FAILED,
    }
}

/// Says whether a code is that of an attempt whose incarnation ended under it, and not at anybody's word.
pub(crate) fn is_interruption(code: &str) -> bool {
    [KILLED, CANCELLED, FAILED, START_FAILED].contains(&code)
}

/// Ends what a service before this one left open.
pub const SERVICE_ENDED: &str = "service-ended";

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, thoughtstream_store::RowError> + Send + 'static,
) -> Result<T, RecoveryError> {
    let read = tokio::task::spawn_blocking(read).await.map_err(|_| RecoveryError::Unreadable)?;
    read.map_err(|_| RecoveryError::Unreadable)
}
