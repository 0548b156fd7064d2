//! The one door to durable state: commits go in, verdicts come out, and whoever listens is woken.
//!
//! A thread of its own drives the store, because a commit blocks. What waits is gathered into one group, each
//! commit of which succeeds or is refused on its own. The queue lives outside of the actor: when the writer
//! dies, what waited still waits, and only the group in its hands has lost its answer. A lost answer means
//! *unknown*: the same commit is handed in again, and the log says whether it was already there.

mod queue;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use thoughtstream_domain::commit::{Commit, Refusal, Verdict};
use thoughtstream_domain::time::Timestamp;
use tokio::sync::watch;

use crate::hub::Hub;
use crate::supervisor::{Fault, ReasonCode};
use queue::{OFFERS_WAITING_MAX, Queue};

pub use writer::{Ledger, LedgerError, LogWriter, LogWriterMessage, Types, WriterArgs};

/// How long a caller waits before it hands a commit in again after its answer was lost.
const RESUBMIT_AFTER: Duration = Duration::from_millis(20);

/// Says whether the log takes commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogState {
    /// It does.
    Writable,
    /// It does not; reading goes on, and the writer probes until it does.
    Unwritable {
        /// Why, as a code with a few words.
        code: String,
        /// Since when.
        since: Timestamp,
    },
    /// The store is damaged: only a person can go on.
    Damaged {
        /// What is damaged.
        what: String,
    },
}

/// Says why a commit was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Nothing can be written at the moment.
    #[error("the log cannot be written: {code}")]
    Unwritable {
        /// Why.
        code: String,
    },
    /// The commit was handed in and its answer was lost: it may be in the log.
    #[error("the answer was lost: the commit may be in the log")]
    Unknown,
    /// A stored row that the commit stands on is not what was written: nobody can say whether it would be taken, and
    /// nothing of it was. Handing it in again finds the same, until a person restores the log.
    #[error("the log is damaged at {place}")]
    Damaged {
        /// The table and key, as `verify` names them.
        place: String,
    },
    /// The service is stopping.
    #[error("the service is stopping")]
    Closed,
}

/// The service is stopping: whoever waits for an answer gets none.
pub(crate) const CLOSED: ReasonCode = ReasonCode::new("service-stopping");
/// A stored event or row could not be read: going on would skip it.
pub const STORE_UNREADABLE: ReasonCode = ReasonCode::new("store-unreadable");

impl From<LogError> for Fault {
    fn from(error: LogError) -> Self {
        Self(match error {
            LogError::Damaged { .. } => STORE_UNREADABLE,
            LogError::Unwritable { .. } | LogError::Unknown | LogError::Closed => CLOSED,
        })
    }
}

/// Tells damage from a refusal: no rule kept the commit out, and whoever takes it for one would go on as if it had been
/// judged.
fn judged(verdict: Verdict) -> Result<Verdict, LogError> {
    match verdict {
        Verdict::Refused(Refusal::Damaged { place }) => {
            tracing::error!(place, "a row of the log is damaged: what stands on it is kept out");
            Err(LogError::Damaged { place })
        }
        Verdict::Committed(_) | Verdict::AlreadyCommitted(_) | Verdict::Conflict(_) | Verdict::Refused(_) => {
            Ok(verdict)
        }
    }
}

/// Is everyone's access to the log writer.
#[derive(Debug, Clone)]
pub struct LogHandle {
    queue: Arc<Queue>,
    hub: Arc<Hub>,
    head: watch::Sender<u64>,
    state: watch::Sender<LogState>,
}

impl Default for LogHandle {
    fn default() -> Self {
        Self::new(0)
    }
}

impl LogHandle {
    /// Makes a handle for a log whose last position is `head`; a [`LogWriter`] serves it.
    #[must_use]
    pub fn new(head: u64) -> Self {
        Self {
            queue: Arc::default(),
            hub: Arc::default(),
            head: watch::Sender::new(head),
            state: watch::Sender::new(LogState::Writable),
        }
    }

    /// Returns the table of those who are woken.
    #[must_use]
    pub const fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns the last durable position, and wakes with every change.
    #[must_use]
    pub fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Returns whether the log takes commits, and wakes with every change.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<LogState> {
        self.state.subscribe()
    }

    /// Hands a commit in; its place in the order is taken before this returns.
    #[must_use]
    pub fn submit(&self, commit: Arc<Commit>) -> Submitted {
        let answer = self.queue.push(Arc::clone(&commit));
        Submitted { log: self.clone(), commit, answer }
    }

    /// Hands a commit in and waits for its verdict, through outages of the log and deaths of its writer.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if it stands on a damaged row, [`LogError::Closed`] when the service stops first; the commit
    /// may be in the log then.
    pub async fn commit(&self, commit: Commit) -> Result<Verdict, LogError> {
        self.submit(Arc::new(commit)).settled().await
    }

    /// Hands a commit in on behalf of someone outside who wants to know at once.
    ///
    /// # Errors
    /// [`LogError::Unwritable`] if nothing can be written or too much waits (`log-busy`), [`LogError::Damaged`] if it
    /// stands on a damaged row, [`LogError::Unknown`] if the answer was lost.
    pub async fn offer(&self, commit: Commit) -> Result<Verdict, LogError> {
        // Whoever gives up waiting leaves a commit behind, and comes again: a disk that hangs must not fill the memory.
        let waiting = self.queue.len();
        if waiting >= OFFERS_WAITING_MAX {
            return Err(LogError::Unwritable { code: format!("log-busy: {waiting} commits wait") });
        }
        self.offer_once(commit).await
    }

    async fn offer_once(&self, commit: Commit) -> Result<Verdict, LogError> {
        match &*self.state.borrow() {
            LogState::Writable => {}
            LogState::Unwritable { code, .. } => return Err(LogError::Unwritable { code: code.clone() }),
            LogState::Damaged { what } => return Err(LogError::Unwritable { code: what.clone() }),
        }
        let submitted = self.submit(Arc::new(commit));
        let Some(answer) = submitted.answer else { return Err(LogError::Closed) };
        answer.await.unwrap_or(Err(LogError::Unknown)).and_then(judged)
    }

    /// Hands a commit in for the service itself, and again until its outcome is known.
    ///
    /// # Errors
    /// [`LogError::Unwritable`] if nothing can be written, [`LogError::Damaged`] if it stands on a damaged row,
    /// [`LogError::Closed`] when the service stops.
    pub async fn offer_until_known(&self, commit: Commit) -> Result<Verdict, LogError> {
        loop {
            match self.offer_once(commit.clone()).await {
                Err(LogError::Unknown) => tokio::time::sleep(RESUBMIT_AFTER).await,
                known => return known,
            }
        }
    }

    /// Sets the registered types.
    ///
    /// # Errors
    /// In words, if a definition changed under an unchanged version.
    pub async fn set_types(&self, types: Types) -> Result<Result<(), String>, LogError> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let errand = move |ledger: &mut dyn Ledger| drop(reply.send(ledger.set_types(types)));
        if !self.queue.send(Box::new(errand)) {
            return Err(LogError::Closed);
        }
        answer.await.map_err(|_| LogError::Unknown)
    }

    /// Waits until the writer has come for work: it is not stuck. One that cannot write answers at once, since all
    /// it does is to try again, and a service that is started anew could do no more.
    pub async fn answers(&self) {
        let mut state = self.state();
        tokio::select! {
            () = self.queue.call() => {}
            _ = state.wait_for(|state| *state != LogState::Writable) => {}
        }
    }

    /// Says whether commits are taken no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Takes no more commits; what waits is still served.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Takes no more commits, and serves none: nobody is left to do it. Whoever waits learns that the service
    /// has stopped.
    pub fn abandon(&self) {
        self.queue.abandon();
    }
}

/// Is a commit that was handed in.
#[derive(Debug)]
pub struct Submitted {
    log: LogHandle,
    commit: Arc<Commit>,
    answer: Option<queue::Answer>,
}

impl Submitted {
    /// Waits for the verdict; hands the commit in again whenever it was not written or its answer was lost.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if it stands on a damaged row, [`LogError::Closed`] when the service stops first.
    pub async fn settled(mut self) -> Result<Verdict, LogError> {
        loop {
            let Some(answer) = self.answer.take() else { return Err(LogError::Closed) };
            // Refused or lost: it waits in the queue until the log is written again.
            if let Ok(Ok(verdict)) = answer.await {
                return judged(verdict);
            }
            tokio::time::sleep(RESUBMIT_AFTER).await;
            self.answer = self.log.queue.push(Arc::clone(&self.commit));
        }
    }
}

#[cfg(test)]
mod tests;
