//! The resident service: the tree, brought up on one store, and everything that may be asked of it.
//!
//! | child | what it is |
//! | --- | --- |
//! | `log` | the one writer; without it the service ends (exit 70) and is started anew |
//! | `scribe` | writes down what supervisors notice |
//! | support | what the work of consumers needs, such as the keeper of the cells |
//! | `brokers` | a pool: one actor for each provider profile; absent without profiles |
//! | `consumers` | a pool: one actor for each enabled declaration |
//! | `producers` | a pool: one actor for each watched source, also for one whose producer runs apart |
//! | others | what the surface adds: the control sockets |
//!
//! Adding an actor is one file and one [`ChildSpec`] in [`Service::start`].

mod activate;
mod handover;
mod ledger;
mod operate;
mod reload;
mod start;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use thoughtstream_channels::filesystem::scan::SkipReport;
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::declaration::DeclarationSet;
use thoughtstream_domain::event::Candidate;
use thoughtstream_domain::id::{ConsumerId, SourceId};
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::yaml::Problem;
use thoughtstream_store::disk::Disk;
use thoughtstream_store::{Options, Reader};

use crate::address::Address;
use crate::broker::Brokers;
use crate::clock::Clock;
use crate::consumer::{ConsumerMessage, ConsumerSpec, Facilities};
use crate::killpoint::KillPoints;
use crate::log::{LogError, LogHandle, LogState};
use crate::materializer::ContextRoot;
use crate::producer::apart::Seat;
use crate::producer::intake::{Board, Here};
use crate::producer::{ProducerMessage, ProducerSpec, SkippedSlot};
use crate::supervisor::{ChildSpec, Outcome, Root, SupervisorHandle, TreeNode};
use crate::telegram::gate::Gate;

pub use activate::{ActivateError, Bundle, LoadedFacts, last_activation};
pub use ledger::StoreLedger;
pub use operate::OperateError;
pub use reload::{ReloadError, Reloaded};
pub use start::StartError;

/// The name of the root of the tree.
pub const ROOT: &str = "thoughtstream";

/// The kind of the actor that stands for a producer which is a process of its own.
pub const APART: &str = "producer-apart";

/// Under which name whoever closes what others left open passes kill points; it is no actor.
pub const RECOVERY: &str = "thoughtstream/recovery";

/// Is everything that is read from the person's configuration and may change with a reload.
#[derive(Clone)]
pub struct Loaded {
    /// The declarations, enabled or not.
    pub declarations: DeclarationSet,
    /// The event types.
    pub registry: Arc<Registry>,
}

/// Reads the person's configuration again: everything, or every problem.
pub type Load = Arc<dyn Fn() -> Result<Loaded, Vec<Problem>> + Send + Sync>;

/// Turns declarations into what consumers run; a test or a benchmark puts runners of its own in.
pub type Compile = Arc<dyn Fn(&DeclarationSet) -> Vec<ConsumerSpec> + Send + Sync>;

/// Makes the children that a caller adds, once there is a handle to give them.
pub type Extra = Box<dyn FnOnce(&ServiceHandle) -> Vec<ChildSpec> + Send>;

/// Is what a service is started with.
pub struct ServiceArgs {
    /// The data directory; the caller holds its owner lock.
    pub data: PathBuf,
    /// Where the store's files are, if not in the data directory: a disk that a test can make fail.
    pub disk: Option<Arc<dyn Disk>>,
    /// How to open the store.
    pub options: Options,
    /// Reads the configuration; called once now and again for each reload.
    pub load: Load,
    /// Compiles declarations; [`compile`] unless a test says otherwise.
    pub compile: Compile,
    /// The watched sources.
    pub producers: Vec<ProducerSpec>,
    /// The brokers of the provider profiles.
    pub brokers: Brokers,
    /// Whether consumers start nothing until the service is started without it.
    pub paused: bool,
    /// How long open attempts may go on when the service stops; whoever stops it may cut that short.
    pub drain: Duration,
    /// Kill points; those of a rehearsal only for a store with its mark.
    pub points: Arc<KillPoints>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The program's version, for the log.
    pub program: String,
    /// Children that the work of consumers needs: started before them, and stopped after them.
    pub support: Vec<ChildSpec>,
    /// Children that the caller adds: they are given the handle and stopped first.
    pub extra: Extra,
}

/// Compiles the enabled declarations of a set; those that ask a model do so through `facilities`.
#[must_use]
pub fn compile(set: &DeclarationSet, facilities: &Facilities) -> Vec<ConsumerSpec> {
    set.enabled_shared().map(|declaration| ConsumerSpec::of(declaration, facilities)).collect()
}

/// Is a consumer that runs.
#[derive(Clone)]
pub(crate) struct Enabled {
    pub(crate) spec: Arc<ConsumerSpec>,
    pub(crate) address: Address<ConsumerMessage>,
}

/// Is a folder that is watched.
pub(crate) struct Watched {
    pub(crate) spec: Arc<ProducerSpec>,
    pub(crate) address: Address<ProducerMessage>,
    pub(crate) skipped: Arc<SkippedSlot>,
    /// The place of its producer, where that is a process of its own.
    pub(crate) seat: Option<Arc<Seat>>,
}

/// Is what the handle's clones share.
pub(crate) struct Shared {
    pub(crate) log: LogHandle,
    pub(crate) reader: Reader,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) points: Arc<KillPoints>,
    pub(crate) incarnation: u64,
    pub(crate) cautious: bool,
    pub(crate) paused: bool,
    pub(crate) drain: Duration,
    pub(crate) load: Load,
    pub(crate) compile: Compile,
    pub(crate) consumers: SupervisorHandle,
    pub(crate) enabled: RwLock<BTreeMap<ConsumerId, Enabled>>,
    pub(crate) loaded: RwLock<Loaded>,
    /// The watched folders, by their sources' names.
    pub(crate) watched: RwLock<BTreeMap<String, Watched>>,
    /// What holds bots back while a consumer of theirs is moved to another version.
    pub(crate) gates: RwLock<BTreeMap<SourceId, Arc<Gate>>>,
    pub(crate) ledger: Arc<Mutex<StoreLedger>>,
    /// One reload or restart of consumers at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// One activation at a time.
    pub(crate) activating: tokio::sync::Mutex<()>,
    /// The folder of the memory document, if one is watched.
    pub(crate) context_root: Option<Arc<ContextRoot>>,
    pub(crate) root: std::sync::OnceLock<SupervisorHandle>,
    /// Who asked the service to stop, if a person did.
    pub(crate) stopped_by: std::sync::OnceLock<Operator>,
}

/// Is everyone's access to the running service.
#[derive(Clone)]
pub struct ServiceHandle(pub(crate) Arc<Shared>);

impl std::fmt::Debug for ServiceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceHandle").field("incarnation", &self.0.incarnation).finish_non_exhaustive()
    }
}

/// Is a running service.
#[derive(Debug)]
pub struct Service {
    handle: ServiceHandle,
    root: Root,
}

impl Service {
    /// Returns the handle.
    #[must_use]
    pub const fn handle(&self) -> &ServiceHandle {
        &self.handle
    }

    /// Asks the service to drain and stop in order; a second time, by force.
    pub fn stop(&self) {
        self.root.stop();
    }

    /// Waits for the end of the tree, then leaves the store in order.
    pub async fn ended(&self) -> Outcome {
        let outcome = self.root.wait().await;
        self.handle.0.log.abandon();
        let ledger = Arc::clone(&self.handle.0.ledger);
        let by = self.handle.0.stopped_by.get().cloned();
        let closed = tokio::task::spawn_blocking(move || {
            let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.leave((outcome == Outcome::Stopped).then_some(by))
        });
        if !matches!(closed.await, Ok(Ok(()))) {
            // What was acknowledged is durable all the same; the next start finds the rest.
            tracing::warn!("log.left_without_checkpoint");
        }
        self.root.wait().await
    }
}

impl ServiceHandle {
    /// Notes who asked the service to stop; the last event of this start will say so. The first one counts.
    pub fn note_stop(&self, operator: Operator) {
        drop(self.0.stopped_by.set(operator));
    }

    /// Returns the reader of the log.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.0.reader.clone()
    }

    /// Returns the folder of the memory document, if one is watched.
    #[must_use]
    pub fn context_root(&self) -> Option<Arc<ContextRoot>> {
        self.0.context_root.clone()
    }

    /// Returns the registered types.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.0.loaded.read().unwrap_or_else(PoisonError::into_inner).registry)
    }

    /// Returns the declarations that are loaded, enabled or not.
    #[must_use]
    pub fn declarations(&self) -> DeclarationSet {
        self.0.loaded.read().unwrap_or_else(PoisonError::into_inner).declarations.clone()
    }

    /// Returns the number of this service's start.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.0.incarnation
    }

    /// Says whether the service was started to look only.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.0.paused
    }

    /// Returns the kill points.
    #[must_use]
    pub fn points(&self) -> Arc<KillPoints> {
        Arc::clone(&self.0.points)
    }

    /// Returns the last durable position, and wakes with every change.
    #[must_use]
    pub fn head(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.log.head()
    }

    /// Returns whether the log takes commits, and wakes with every change.
    #[must_use]
    pub fn log_state(&self) -> tokio::sync::watch::Receiver<LogState> {
        self.0.log.state()
    }

    /// Returns the tree, having asked those that can be asked whether they answer.
    pub async fn tree(&self) -> Option<TreeNode> {
        match self.0.root.get() {
            Some(root) => Some(root.tree().await),
            None => None,
        }
    }

    /// Returns what the last look at each watched source skipped; `None` for one that was not looked at yet.
    #[must_use]
    pub fn skipped(&self) -> BTreeMap<SourceId, Option<Arc<SkipReport>>> {
        let watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner);
        watched.values().map(|one| (one.spec.source.clone(), one.skipped.last())).collect()
    }

    /// Returns the folder that a source was started with; `None` if this service does not watch it.
    #[must_use]
    pub fn watched_root(&self, source: &SourceId) -> Option<PathBuf> {
        let watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner);
        watched.get(source.as_str()).map(|one| one.spec.root.clone())
    }

    /// Returns the place of a source's producer that is a process of its own, and its way into the log; `None` if
    /// this service has none such.
    #[must_use]
    pub fn seat(&self, source: &SourceId) -> Option<(Arc<Seat>, Here)> {
        let watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner);
        let one = watched.get(source.as_str())?;
        let seat = Arc::clone(one.seat.as_ref()?);
        let here = Here {
            declared: Here::declared(&one.spec),
            log: self.0.log.clone(),
            reader: self.0.reader.clone(),
            clock: Arc::clone(&self.0.clock),
            site: self.0.points.site(format!("{ROOT}/producers/{source}").into(), None),
            incarnation: self.0.incarnation,
            board: Board::Seat(Arc::clone(&seat)),
            skipped: Arc::clone(&one.skipped),
            told: Arc::default(),
            live: Arc::default(),
        };
        Some((seat, here))
    }

    /// Appends an event that the registry let in.
    ///
    /// # Errors
    /// [`LogError::Unwritable`] if nothing can be written; [`LogError::Unknown`] if the answer was lost: the
    /// same event, appended again, says which.
    pub async fn append(&self, candidate: Candidate) -> Result<Verdict, LogError> {
        self.0.log.offer(Commit { appends: vec![candidate], ..Commit::default() }).await
    }

    /// Kills the actor at `path` (names below the root, joined by `/`), as a fault would; in a rehearsal only.
    ///
    /// # Errors
    /// [`OperateError`] if the store is not for rehearsal or nobody of that path is alive.
    pub fn kill(&self, path: &str) -> Result<(), OperateError> {
        if !self.0.points.is_rehearsal() {
            return Err(OperateError::NotARehearsal);
        }
        let root = self.0.root.get().ok_or(OperateError::Stopping)?;
        root.kill(path).map_err(OperateError::Actor)
    }
}

#[cfg(test)]
mod tests;
