//! The keeper of the cells: opens the worker's program once, and lends out what starts its sandboxes.
//!
//! When the keeper ends, so do the workers it lent the means for: each is one failed run. What is missing
//! (bubblewrap, namespaces, the program) is looked for again with the next run; nothing else is ever tried.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use thoughtstream_domain::cause::causes;
use thoughtstream_domain::cell::{CellResult, Outcome, Packet, Request};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_effects::sandbox::{LaunchError, Launcher, Limits, WorkerBinary, find_bubblewrap};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::{CellFault, run_cell};
use crate::address::Address;
use crate::supervisor::{ChildName, ChildSpec, Detail, ReasonCode, StatusCell};

/// There is no keeper, or it did not answer before the run's deadline.
pub const NO_KEEPER: Unavailable = Unavailable {
    code: "sandbox-closed",
    seen: Cow::Borrowed("no worker can be started"),
    way_out: "the service is starting, stopping or overloaded; it is tried again",
};

/// How long opening the program may take for somebody who asks which it is.
const OPENED_WITHIN: Duration = Duration::from_secs(30);

/// Says where a worker's program and what it needs are.
#[derive(Debug, Clone)]
pub struct CellPlace {
    /// The worker's program.
    pub worker: PathBuf,
    /// The value of `PATH`, to look for bubblewrap.
    pub path: Option<OsString>,
    /// A private directory in which the worker's root is laid out.
    pub below: PathBuf,
}

impl CellPlace {
    /// Opens the program and starts the launcher. Blocks for some milliseconds.
    ///
    /// # Errors
    /// [`Unavailable`] with a code and a way out.
    pub fn open(&self) -> Result<Launcher, Unavailable> {
        let launch = |error: LaunchError| Unavailable::of(error.code(), &error, error.way_out());
        let bubblewrap = find_bubblewrap(self.path.as_deref()).map_err(launch)?;
        let binary = WorkerBinary::open(&self.worker, &self.below)
            .map_err(|error| Unavailable::of(error.code(), &error, error.way_out()))?;
        Launcher::start(binary, &bubblewrap).map_err(launch)
    }
}

/// Says why no worker can be started at present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no worker can be started ({code}): {way_out}")]
pub struct Unavailable {
    /// The stable code.
    pub code: &'static str,
    /// What was seen, and why.
    pub seen: Cow<'static, str>,
    /// What a person can do.
    pub way_out: &'static str,
}

impl Unavailable {
    fn of(code: &'static str, error: &dyn std::error::Error, way_out: &'static str) -> Self {
        Self { code, seen: causes(error).join(": ").into(), way_out }
    }
}

/// Is everyone's access to sandboxed workers, whichever incarnation of the keeper lives.
#[derive(Debug, Clone)]
pub struct Cells {
    place: Arc<CellPlace>,
    address: Address<KeeperMessage>,
    counts: Arc<Counts>,
}

/// Counts runs over all incarnations.
#[derive(Debug, Default)]
struct Counts {
    started: AtomicU64,
    running: AtomicU64,
}

impl Cells {
    /// Makes access to workers at a place; they can be run while [`Cells::child`] is alive.
    #[must_use]
    pub fn new(place: CellPlace) -> Self {
        Self { place: Arc::new(place), address: Address::new(), counts: Arc::default() }
    }

    /// Declares the keeper.
    #[must_use]
    pub fn child(&self) -> ChildSpec {
        let (place, counts) = (Arc::clone(&self.place), Arc::clone(&self.counts));
        ChildSpec::actor_at(ChildName::fixed("cells"), "cell-keeper", self.address.clone(), move |context| {
            let (place, counts) = (Arc::clone(&place), Arc::clone(&counts));
            (Keeper, KeeperArgs { place, counts, status: Arc::clone(&context.status) })
        })
    }

    /// Runs one worker, as [`run_cell`] does.
    ///
    /// # Errors
    /// [`CellFault`]; the worker was killed then.
    pub async fn run<A>(
        &self,
        packet: Packet,
        limits: Limits,
        deadline: Instant,
        ask: impl FnOnce(Request) -> A + Send,
    ) -> Result<CellResult, CellFault>
    where
        A: Future<Output = Outcome> + Send,
    {
        let lent = self.lend(deadline).await?;
        let _running = Running::begin(&self.counts, &lent.status);
        let result = run_cell(&lent.launcher, packet, limits, deadline, ask).await;
        if result.is_ok() {
            lent.status.settled();
        }
        result
    }

    /// Returns the hash of the worker's program that sandboxes run, and that of the file as it lies on the disk now.
    pub async fn bundle(&self) -> (Option<Sha256Hash>, Option<Sha256Hash>) {
        let lent = self.lend(Instant::now() + OPENED_WITHIN).await;
        let loaded = lent.ok().map(|lent| lent.launcher.binary().sha256());
        let place = Arc::clone(&self.place);
        let read =
            spawn_blocking(move || std::fs::read(&place.worker).ok().map(|bytes| Sha256Hash::of(&bytes)));
        (loaded, read.await.ok().flatten())
    }

    async fn lend(&self, deadline: Instant) -> Result<Lent, Unavailable> {
        let keeper = self.address.get().ok_or(NO_KEEPER)?;
        let patience = deadline.saturating_duration_since(Instant::now());
        match keeper.call(KeeperMessage::Lend, Some(patience)).await {
            Ok(CallResult::Success(lent)) => lent,
            Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => Err(NO_KEEPER),
        }
    }
}

/// Is what a run is lent.
#[derive(Debug, Clone)]
pub struct Lent {
    launcher: Launcher,
    status: Arc<StatusCell>,
}

/// Counts a run for as long as it lasts, and shows it.
struct Running<'a> {
    counts: &'a Counts,
    status: &'a StatusCell,
}

impl<'a> Running<'a> {
    fn begin(counts: &'a Counts, status: &'a StatusCell) -> Self {
        counts.started.fetch_add(1, Ordering::Relaxed);
        counts.running.fetch_add(1, Ordering::Relaxed);
        counts.show(status);
        Self { counts, status }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.counts.running.fetch_sub(1, Ordering::Relaxed);
        self.counts.show(self.status);
    }
}

impl Counts {
    fn show(&self, status: &StatusCell) {
        status.set("started", Detail::Count(self.started.load(Ordering::Relaxed)));
        status.set("running", Detail::Count(self.running.load(Ordering::Relaxed)));
    }
}

/// Is the keeper.
#[derive(Debug)]
pub struct Keeper;

/// Is what a keeper is started with.
#[derive(Debug)]
pub struct KeeperArgs {
    place: Arc<CellPlace>,
    counts: Arc<Counts>,
    status: Arc<StatusCell>,
}

/// Is what a keeper is told.
#[derive(Debug)]
pub enum KeeperMessage {
    /// Somebody wants to run a worker.
    Lend(RpcReplyPort<Result<Lent, Unavailable>>),
    /// The program was opened, or could not be.
    Opened(Result<Launcher, Unavailable>),
}

/// Is the state of a keeper.
#[derive(Debug)]
pub struct KeeperState {
    args: KeeperArgs,
    launcher: Option<Launcher>,
    /// Somebody is opening the program at the moment.
    opening: bool,
    /// Why it could not be opened the last time.
    said: Option<Unavailable>,
    /// Those who wait for that; their own deadlines bound how many.
    waiting: Vec<RpcReplyPort<Result<Lent, Unavailable>>>,
}

impl Actor for Keeper {
    type Msg = KeeperMessage;
    type State = KeeperState;
    type Arguments = KeeperArgs;

    async fn pre_start(
        &self,
        _: ActorRef<KeeperMessage>,
        args: KeeperArgs,
    ) -> Result<KeeperState, ActorProcessingErr> {
        Ok(KeeperState { args, launcher: None, opening: false, said: None, waiting: Vec::new() })
    }

    async fn post_start(
        &self,
        me: ActorRef<KeeperMessage>,
        state: &mut KeeperState,
    ) -> Result<(), ActorProcessingErr> {
        state.args.counts.show(&state.args.status);
        state.open(&me);
        Ok(())
    }

    async fn handle(
        &self,
        me: ActorRef<KeeperMessage>,
        message: KeeperMessage,
        state: &mut KeeperState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            KeeperMessage::Lend(reply) => state.lend(&me, reply),
            KeeperMessage::Opened(opened) => state.opened(opened),
        }
        Ok(())
    }
}

impl KeeperState {
    fn lend(&mut self, me: &ActorRef<KeeperMessage>, reply: RpcReplyPort<Result<Lent, Unavailable>>) {
        if let Some(launcher) = self.launcher.clone() {
            self.answer(reply, Ok(launcher));
        } else {
            self.waiting.push(reply);
            self.open(me);
        }
    }

    /// Opens the program on a thread where that may take its time.
    fn open(&mut self, me: &ActorRef<KeeperMessage>) {
        if std::mem::replace(&mut self.opening, true) {
            return;
        }
        let (place, me) = (Arc::clone(&self.args.place), me.clone());
        tokio::spawn(async move {
            let opened = spawn_blocking(move || place.open()).await.unwrap_or(Err(NO_KEEPER));
            // A keeper that ended meanwhile needs it no more.
            me.cast(KeeperMessage::Opened(opened)).ok();
        });
    }

    fn opened(&mut self, opened: Result<Launcher, Unavailable>) {
        self.opening = false;
        match &opened {
            Ok(_) => self.said = None,
            // It is tried with every run; the same is told once.
            Err(why) if self.said.as_ref() != Some(why) => {
                tracing::warn!(code = why.code, why = %why.seen, way_out = why.way_out, "no worker can be started");
                self.said = Some(why.clone());
            }
            Err(_) => {}
        }
        self.args.status.tell(opened.as_ref().err().map(|why| ReasonCode::new(why.code)), |details| {
            details.remove("worker");
            if let Ok(launcher) = &opened {
                let binary = launcher.binary();
                details.insert("worker", Detail::Id(binary.sha256().short()));
                details.insert("path", Detail::id(&binary.path().display()));
            }
        });
        self.launcher = opened.as_ref().ok().cloned();
        for reply in std::mem::take(&mut self.waiting) {
            self.answer(reply, opened.clone());
        }
    }

    fn answer(
        &self,
        reply: RpcReplyPort<Result<Lent, Unavailable>>,
        launcher: Result<Launcher, Unavailable>,
    ) {
        let lent = launcher.map(|launcher| Lent { launcher, status: Arc::clone(&self.args.status) });
        // Who has stopped waiting is not told.
        reply.send(lent).ok();
    }
}
