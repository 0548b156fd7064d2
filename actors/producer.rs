//! A watched source: an actor that looks, hands changes to the log in order, and looks again.
//!
//! What of a scan may be said, and what waits, is decided by
//! [`FilesystemProducer`](thoughtstream_channels::filesystem::producer::FilesystemProducer); this actor only
//! carries it. It starts from the documents of the log, so edits made while the service was down are found by
//! the first look.
//!
//! The looking itself (`round`) knows its [`Intake`] and neither an actor nor the log, so a process of its own runs
//! the very same one ([`keep_looking`]); [`apart`] is what stands in this service for such a process.

pub mod apart;
pub mod intake;
mod round;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_channels::filesystem::producer::RemovalRule;
use thoughtstream_channels::filesystem::rules::ScanRules;
use thoughtstream_channels::filesystem::scan::SkipReport;
use thoughtstream_channels::filesystem::watch::WatchSettings;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::killpoint::KillPoints;
use crate::log::LogHandle;
use crate::supervisor::{Fault, ReasonCode, StatusCell};
use intake::{Board, Here};

pub use intake::Intake;
pub use round::keep_looking;

/// The looking task panicked.
const ROUND_FAILED: ReasonCode = ReasonCode::new("round-failed");

/// Is what a watched source is configured with.
#[derive(Debug, Clone)]
pub struct ProducerSpec {
    /// The source.
    pub source: SourceId,
    /// The directory.
    pub root: PathBuf,
    /// The service's data directory, which must lie apart.
    pub data: PathBuf,
    /// Which files are documents.
    pub rules: ScanRules,
    /// When removals are held.
    pub removals: RemovalRule,
    /// How it is watched.
    pub watch: WatchSettings,
    /// The class of its events.
    pub privacy: Privacy,
    /// Who looks.
    pub runs: Runs,
}

/// Says which process a producer runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runs {
    /// The service's own.
    #[default]
    Here,
    /// One of its own, which the service lets in and never starts.
    Apart,
}

/// Is where a producer leaves the names of what its last look skipped, for those who ask.
///
/// It outlives the actor, and is no part of the log: an incident there counts the files and does not name them.
#[derive(Debug, Default)]
pub struct SkippedSlot(Mutex<Option<Arc<SkipReport>>>);

impl SkippedSlot {
    /// Returns what the last look skipped; `None` before the first.
    #[must_use]
    pub fn last(&self) -> Option<Arc<SkipReport>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn put(&self, report: SkipReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(report));
    }
}

/// Is the producer actor.
#[derive(Debug)]
pub struct Producer;

/// Is what a producer is told.
#[derive(Debug)]
pub enum ProducerMessage {
    /// Look now.
    Look,
    /// Look now, and say when a look that began after this is through: whether everything that it saw is in the log.
    LookFor(oneshot::Sender<bool>),
    /// A person says that the removals that wait are meant.
    AcknowledgeRemovals,
    /// The looking task ended; it never does by itself.
    Ended(Fault),
}

/// Is what a producer is started with.
#[derive(Clone)]
pub struct ProducerArgs {
    /// What it watches.
    pub spec: Arc<ProducerSpec>,
    /// Where commits go.
    pub log: LogHandle,
    /// Where known documents are read.
    pub reader: Reader,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where it can be made to fail.
    pub points: Arc<KillPoints>,
    /// The number of this service's start.
    pub incarnation: u64,
    /// Its path in the tree.
    pub path: Arc<str>,
    /// Where it says how it is doing.
    pub status: Arc<StatusCell>,
    /// Where it names what it skipped.
    pub skipped: Arc<SkippedSlot>,
}

/// Is what the looking task hears from outside.
#[derive(Debug, Default)]
pub struct Nudges {
    pub(crate) look: Notify,
    acknowledged: AtomicBool,
    asked: Mutex<Vec<oneshot::Sender<bool>>>,
}

impl Nudges {
    /// Lets it look now.
    pub fn look(&self) {
        self.look.notify_one();
    }

    /// Lets it look now, and say when a look that began after this is through.
    pub fn look_for(&self, asker: oneshot::Sender<bool>) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asker);
        self.look();
    }

    /// Says that the removals that wait are meant.
    pub fn acknowledge_removals(&self) {
        self.acknowledged.store(true, Ordering::SeqCst);
        self.look();
    }

    /// Takes a person's word that the removals that wait are meant.
    pub(crate) fn take_acknowledgement(&self) -> bool {
        self.acknowledged.swap(false, Ordering::SeqCst)
    }

    /// Takes those who wait for a look that begins now.
    pub(crate) fn take_asked(&self) -> Vec<oneshot::Sender<bool>> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells the looking task the time.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Is the state of a producer actor; dropping it ends the looking task.
pub struct ProducerState {
    args: ProducerArgs,
    nudges: Arc<Nudges>,
    looking: JoinSet<()>,
}

impl Actor for Producer {
    type Msg = ProducerMessage;
    type State = ProducerState;
    type Arguments = ProducerArgs;

    async fn pre_start(
        &self,
        _: ActorRef<ProducerMessage>,
        args: ProducerArgs,
    ) -> Result<ProducerState, ActorProcessingErr> {
        Ok(ProducerState { args, nudges: Arc::default(), looking: JoinSet::new() })
    }

    async fn post_start(
        &self,
        me: ActorRef<ProducerMessage>,
        state: &mut ProducerState,
    ) -> Result<(), ActorProcessingErr> {
        let ProducerArgs { spec, log, reader, clock, points, incarnation, path, status, skipped } =
            state.args.clone();
        let site = points.site(path, Some(me.get_cell()));
        let now: Now = {
            let clock = Arc::clone(&clock);
            Arc::new(move || clock.now())
        };
        let here = Here {
            declared: Here::declared(&spec),
            log,
            reader,
            clock,
            site: site.clone(),
            incarnation,
            board: Board::Own(status),
            skipped,
            told: Arc::default(),
            live: Arc::default(),
        };
        let looking = tokio::spawn(keep_looking(here, spec, now, site, Arc::clone(&state.nudges)));
        state.looking.spawn(async move {
            // Dropped with the state, which must take the task inside along.
            let guard = AbortOnDrop(looking);
            let fault = guard.ended().await.unwrap_or(Fault(ROUND_FAILED));
            drop(me.send_message(ProducerMessage::Ended(fault)));
        });
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<ProducerMessage>,
        message: ProducerMessage,
        state: &mut ProducerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ProducerMessage::Look => state.nudges.look(),
            ProducerMessage::LookFor(asker) => state.nudges.look_for(asker),
            ProducerMessage::AcknowledgeRemovals => state.nudges.acknowledge_removals(),
            ProducerMessage::Ended(fault) => return Err(fault.into()),
        }
        Ok(())
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<Fault>);

impl AbortOnDrop {
    async fn ended(mut self) -> Option<Fault> {
        (&mut self.0).await.ok()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
