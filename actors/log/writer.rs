//! The log writer: an actor that owns the writer thread, and the thread's loop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::id::{SourceId, TypeRef};
use thoughtstream_domain::registry::Hashes;
use thoughtstream_domain::time::Timestamp;
use tokio::sync::oneshot;

use super::queue::{Outcome, Pending, Queue, Taken};
use super::{LogError, LogHandle, LogState};
use crate::hub::Moved;
use crate::killpoint::{KillPoint, KillPoints, KillSite};
use crate::supervisor::{Fault, StatusCell};

/// How often an unwritable log is tried again.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// Is what the writer thread needs of the store; a test puts a faulty one in its place.
pub trait Ledger: Send + 'static {
    /// Applies a group in one durable step; each commit gets its own verdict. `inside` is called when the group
    /// is written and not durable yet, `answer` as soon as it is, with the verdicts and the last durable position.
    /// Whoever looks from then on finds it.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing is known about the group, and `answer` was not called; [`Ledger::reopen`] comes next.
    fn apply(
        &mut self,
        group: &[Arc<Commit>],
        inside: &mut dyn FnMut() -> Result<(), Fault>,
        answer: &mut dyn FnMut(Vec<Verdict>, u64),
    ) -> Result<(), LedgerError>;

    /// Does upkeep that is due (a checkpoint), and says after how long the next may be due.
    ///
    /// # Errors
    /// [`LedgerError`] as for [`Ledger::apply`].
    fn upkeep(&mut self) -> Result<Duration, LedgerError>;

    /// Opens the store anew after an error, so that what is durable is known again.
    ///
    /// # Errors
    /// [`LedgerError`] if it still cannot be written.
    fn reopen(&mut self) -> Result<(), LedgerError>;

    /// Returns the last durable position.
    fn head(&self) -> u64;

    /// Sets the registered types and the hashes of their definitions.
    ///
    /// # Errors
    /// In words, if a definition changed under an unchanged version.
    fn set_types(&mut self, types: Types) -> Result<(), String>;
}

/// Is every registered type with the hashes of its definitions.
pub type Types = BTreeMap<TypeRef, Hashes>;

/// Says why the store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be written at the moment: disk full, read-only, an I/O error.
    #[error("{code}")]
    Unwritable {
        /// Why, as a code with a few words.
        code: String,
        /// It was refused before anything was written: who waits need not wonder.
        nothing_written: bool,
    },
    /// It is damaged.
    #[error("damaged: {what}")]
    Damaged {
        /// What is damaged.
        what: String,
    },
}

/// Is what a log writer is started with.
#[derive(Clone)]
pub struct WriterArgs {
    /// The handle that it serves.
    pub log: LogHandle,
    /// The store; owned by the service, so that it outlives the writer.
    pub ledger: Arc<Mutex<dyn Ledger>>,
    /// Where it can be made to fail.
    pub points: Arc<KillPoints>,
    /// Its path in the tree.
    pub path: Arc<str>,
    /// Where it says that it finished a group: deaths far apart are no storm.
    pub status: Arc<StatusCell>,
    /// The clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Is the actor that owns the writer thread.
#[derive(Debug)]
pub struct LogWriter;

/// Is what the writer thread tells its actor.
#[derive(Debug)]
pub enum LogWriterMessage {
    /// The thread ended.
    ThreadEnded(ThreadEnd),
}

/// Says how the writer thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadEnd {
    /// The queue is closed and empty.
    Finished,
    /// Another writer took over.
    Dismissed,
    /// It panicked, or the store is damaged.
    Failed,
}

/// Dismisses the thread when the actor goes.
pub struct Term {
    queue: Arc<Queue>,
    term: u64,
}

impl Drop for Term {
    fn drop(&mut self) {
        self.queue.end_term(self.term);
    }
}

impl Actor for LogWriter {
    type Msg = LogWriterMessage;
    type State = (WriterArgs, Option<Term>);
    type Arguments = WriterArgs;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        args: WriterArgs,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok((args, None))
    }

    async fn post_start(
        &self,
        me: ActorRef<Self::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let args = state.0.clone();
        let queue = Arc::clone(&args.log.queue);
        let term = queue.begin_term();
        state.1 = Some(Term { queue, term });
        let site = args.points.site(Arc::clone(&args.path), Some(me.get_cell()));
        let thread = std::thread::Builder::new().name("log-writer".to_owned());
        thread.spawn(move || {
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Loop { args, term, site }.run()));
            // The actor may be gone already; then nobody needs to know.
            drop(me.send_message(LogWriterMessage::ThreadEnded(outcome.unwrap_or(ThreadEnd::Failed))));
        })?;
        Ok(())
    }

    async fn handle(
        &self,
        me: ActorRef<Self::Msg>,
        message: Self::Msg,
        _: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let LogWriterMessage::ThreadEnded(end) = message;
        match end {
            ThreadEnd::Finished => me.stop(None),
            ThreadEnd::Dismissed => {}
            ThreadEnd::Failed => return Err("the writer thread failed".into()),
        }
        Ok(())
    }
}

struct Loop {
    args: WriterArgs,
    term: u64,
    site: KillSite,
}

/// Says why a group was not finished.
enum Broken {
    /// The store failed.
    Ledger(LedgerError),
    /// A kill point said so.
    Fault,
}

impl From<LedgerError> for Broken {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl From<Fault> for Broken {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

impl Loop {
    fn run(self) -> ThreadEnd {
        // A poisoned lock means that a writer died inside the store: what it had open is not to be trusted.
        let (mut ledger, mut broken) = match self.args.ledger.lock() {
            Ok(ledger) => (ledger, None),
            Err(poisoned) => {
                self.args.ledger.clear_poison();
                let code = "the writer died while it wrote".to_owned();
                (
                    PoisonError::into_inner(poisoned),
                    Some(LedgerError::Unwritable { code, nothing_written: false }),
                )
            }
        };
        // The writer before may have died between a group's durable point and its wake-ups.
        self.args.log.head.send_replace(ledger.head());
        self.args.log.hub.announce_missed();
        let mut patience = Duration::ZERO;
        loop {
            if let Some(error) = broken.take() {
                match self.recover(&mut *ledger, error) {
                    Ok(()) => {}
                    Err(end) => return end,
                }
            }
            match self.args.log.queue.take(self.term, patience) {
                Taken::Dismissed => return ThreadEnd::Dismissed,
                Taken::Finished => return ThreadEnd::Finished,
                Taken::Nothing => {}
                Taken::Errand(errand) => errand(&mut *ledger),
                Taken::Group(group) => match self.group(&mut *ledger, group) {
                    Ok(()) => {}
                    Err(Broken::Ledger(error)) => broken = Some(error),
                    Err(Broken::Fault) => return ThreadEnd::Failed,
                },
            }
            match ledger.upkeep() {
                Ok(next) => patience = next,
                Err(error) => broken = broken.or(Some(error)),
            }
        }
    }

    fn group(&self, ledger: &mut dyn Ledger, group: Vec<Pending>) -> Result<(), Broken> {
        self.site.pass_blocking(KillPoint::CommitBefore)?;
        let (commits, mut replies): (Vec<_>, Vec<_>) = group.into_iter().map(|p| (p.commit, p.reply)).unzip();
        let mut inside = || self.site.pass_blocking(KillPoint::CommitInside);
        let mut told = Ok(());
        let mut answer = |verdicts: Vec<Verdict>, head| {
            told = self.tell(&commits, std::mem::take(&mut replies), &verdicts, head);
        };
        match ledger.apply(&commits, &mut inside, &mut answer) {
            Ok(()) => told?,
            Err(error) => {
                if let LedgerError::Unwritable { code, nothing_written: true } = &error {
                    for reply in replies {
                        drop(reply.send(Err(LogError::Unwritable { code: code.clone() })));
                    }
                }
                // Any other error drops the replies: unknown to those who wait.
                return Err(error.into());
            }
        }
        self.args.status.settled();
        self.site.pass_blocking(KillPoint::CommitAfter)?;
        Ok(())
    }

    /// Answers and wakes: the group is durable. Whoever looks now waits until the store shows it.
    fn tell(
        &self,
        commits: &[Arc<Commit>],
        replies: Vec<oneshot::Sender<Outcome>>,
        verdicts: &[Verdict],
        head: u64,
    ) -> Result<(), Fault> {
        self.site.pass_blocking(KillPoint::CommitAfterSync)?;
        self.args.log.head.send_replace(head);
        for (reply, verdict) in replies.into_iter().zip(verdicts) {
            // Whoever asked may be gone; the commit stands all the same.
            drop(reply.send(Ok(verdict.clone())));
        }
        self.args.log.hub.announce(moved(commits, verdicts));
        Ok(())
    }

    /// Opens the store anew until it can be written, unless it is damaged or another writer takes over.
    fn recover(&self, ledger: &mut dyn Ledger, mut error: LedgerError) -> Result<(), ThreadEnd> {
        let since = (self.args.now)();
        loop {
            match error {
                LedgerError::Damaged { what } => {
                    tracing::error!("the store is damaged");
                    self.args.log.state.send_replace(LogState::Damaged { what });
                    return Err(ThreadEnd::Failed);
                }
                LedgerError::Unwritable { code, .. } => {
                    // Trying again may find out more than the first failure said.
                    let told = LogState::Unwritable { code: code.clone(), since };
                    let mut news = false;
                    self.args.log.state.send_if_modified(|state| {
                        news = *state == LogState::Writable;
                        let changes = *state != told;
                        if changes {
                            *state = told;
                        }
                        changes
                    });
                    if news {
                        tracing::warn!(code, "the log cannot be written; reading goes on");
                    }
                }
            }
            match ledger.reopen() {
                Ok(()) => {
                    if self.args.log.state.send_replace(LogState::Writable) != LogState::Writable {
                        tracing::info!("the log is written again");
                    }
                    self.args.log.head.send_replace(ledger.head());
                    // What was made durable before the error was told to nobody.
                    self.args.log.hub.announce_missed();
                    return Ok(());
                }
                Err(again) => error = again,
            }
            std::thread::sleep(PROBE_EVERY);
            if let Some(end) = self.args.log.queue.ended(self.term) {
                return Err(end);
            }
        }
    }
}

/// Returns what a group moved, event by event.
fn moved<'a>(commits: &'a [Arc<Commit>], verdicts: &'a [Verdict]) -> Vec<Moved<'a>> {
    // The places a group gave out in a source have no gap: nobody else gives any.
    let mut given: BTreeMap<&SourceId, (u64, u64)> = BTreeMap::new();
    let mut all = Vec::new();
    for (commit, verdict) in commits.iter().zip(verdicts) {
        let is_new = matches!(verdict, Verdict::Committed(_));
        for (candidate, placed) in commit.appends.iter().zip(verdict.placed().unwrap_or_default()) {
            let source = &candidate.envelope().source;
            if is_new {
                let (_, last) = given.entry(source).or_insert((placed.sequence - 1, placed.sequence));
                *last = placed.sequence;
            }
            all.push((source, candidate, placed, is_new));
        }
    }
    let moved = all.into_iter().map(|(source, candidate, placed, is_new)| {
        let sequence = placed.sequence;
        let (before, through) = given.get(source).copied().unwrap_or((sequence, sequence));
        // Whoever handed a commit in again had lost the answer, and the wake-up may be lost as well.
        let event = is_new.then_some((candidate, placed));
        Moved { source, kind: &candidate.kind().name, sequence, before, through, event }
    });
    moved.collect()
}
