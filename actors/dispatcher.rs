//! The dispatcher: finds outputs that are to be delivered, claims each durably, sends it once, and writes down
//! what became of it.
//!
//! Which outputs, in which order and how fast is decided by [`thoughtstream_domain::dispatch`]. The dispatcher
//! keeps nothing that it could not read again: what is open stands in the log. A claim that it finds without an
//! end was left by one that died. It may have been sent, unless its holder lived in this very process and had not
//! begun: so it becomes unconfirmed, and a person decides.

mod find;
mod round;
mod send;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_channels::telegram::access::BotApi;
use thoughtstream_domain::dispatch::{Routes, Velocity, dispatcher_progress};
use thoughtstream_domain::id::{ConsumerKey, DeliveryId};
use thoughtstream_store::Reader;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::killpoint::KillPoints;
use crate::log::LogHandle;
use crate::supervisor::{ChildName, ChildSpec, Fault, ReasonCode, Shutdown, StatusCell};

/// A task of the dispatcher panicked.
const ROUND_FAILED: ReasonCode = ReasonCode::new("round-failed");

/// What is being sent when the service stops gets this long to end: as long as one answer may take.
const DRAIN_WITHIN: Duration = Duration::from_secs(32);

/// Is what a dispatcher is configured with.
#[derive(Debug, Clone)]
pub struct DispatcherSpec {
    /// Which outputs go where.
    pub routes: Routes,
    /// How fast.
    pub velocity: Velocity,
    /// How the bot is reached.
    pub api: BotApi,
}

impl DispatcherSpec {
    /// Returns the name under which the log keeps how far this dispatcher has looked.
    fn progress_name(&self) -> ConsumerKey {
        dispatcher_progress(&self.routes.bot)
    }
}

/// Is where a dispatcher notes what it has begun to send; it outlives the actor and not the process.
///
/// Only the latest holder may begin, so a task of an earlier one that is still being ended cannot.
#[derive(Debug, Default)]
pub struct Begun(Mutex<BegunState>);

#[derive(Debug, Default)]
struct BegunState {
    holder: u32,
    sends: BTreeSet<(DeliveryId, u32)>,
}

impl Begun {
    fn state(&self) -> MutexGuard<'_, BegunState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes the one who may begin; answers its number within the process.
    fn take_over(&self) -> u32 {
        let mut state = self.state();
        state.holder += 1;
        state.holder
    }

    /// Notes that a send begins; `false` if another has taken over.
    fn begin(&self, holder: u32, delivery: DeliveryId, claim: u32) -> bool {
        let mut state = self.state();
        let ours = state.holder == holder;
        if ours {
            state.sends.insert((delivery, claim));
        }
        ours
    }

    fn has_begun(&self, delivery: DeliveryId, claim: u32) -> bool {
        self.state().sends.contains(&(delivery, claim))
    }

    fn forget(&self, delivery: DeliveryId, claim: u32) {
        self.state().sends.remove(&(delivery, claim));
    }
}

/// Is the dispatcher actor.
#[derive(Debug)]
pub struct Dispatcher;

/// Is what a dispatcher is told.
#[derive(Debug)]
pub enum DispatcherMessage {
    /// Its task ended; it never does by itself.
    Ended(Fault),
}

/// Is what a dispatcher is started with.
#[derive(Clone)]
pub struct DispatcherArgs {
    /// What it delivers.
    pub spec: Arc<DispatcherSpec>,
    /// Where commits go.
    pub log: LogHandle,
    /// Where it reads.
    pub reader: Reader,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where it can be made to fail.
    pub points: Arc<KillPoints>,
    /// The number of this service's start.
    pub incarnation: u64,
    /// Whether nothing may be sent (`serve --paused`).
    pub paused: bool,
    /// What was begun in this process.
    pub begun: Arc<Begun>,
    /// Its path in the tree.
    pub path: Arc<str>,
    /// Where it says how it is doing.
    pub status: Arc<StatusCell>,
}

/// Is what wakes the dispatcher's task.
#[derive(Debug, Default)]
pub(crate) struct Nudges {
    look: Notify,
    draining: AtomicBool,
}

impl Nudges {
    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.look.notify_one();
    }
}

/// Is the state of a dispatcher; dropping it ends its task and every send in it.
pub struct DispatcherState {
    args: DispatcherArgs,
    nudges: Arc<Nudges>,
    opened: Option<find::Opened>,
    task: Option<Delivering>,
}

impl Actor for Dispatcher {
    type Msg = DispatcherMessage;
    type State = DispatcherState;
    type Arguments = DispatcherArgs;

    async fn pre_start(
        &self,
        _: ActorRef<DispatcherMessage>,
        args: DispatcherArgs,
    ) -> Result<DispatcherState, ActorProcessingErr> {
        // Before any consumer runs: what they put out from now on is this route's to deliver.
        let opened = find::open(&args).await?;
        Ok(DispatcherState { args, nudges: Arc::default(), opened: Some(opened), task: None })
    }

    async fn post_start(
        &self,
        me: ActorRef<DispatcherMessage>,
        state: &mut DispatcherState,
    ) -> Result<(), ActorProcessingErr> {
        let Some(opened) = state.opened.take() else { return Err(Fault(ROUND_FAILED).into()) };
        let site = state.args.points.site(Arc::clone(&state.args.path), Some(me.get_cell()));
        let work = round::keep_delivering(state.args.clone(), opened, site, Arc::clone(&state.nudges));
        let (ended, waits) = tokio::sync::oneshot::channel();
        let working = AbortOnDrop(tokio::spawn(work));
        let watching = tokio::spawn(async move {
            let ending = working.ended().await;
            // Whoever drains has heard of it; anybody else takes it for a fault.
            match ending {
                Some(round::Ending::Drained) => drop(ended.send(())),
                Some(round::Ending::Fault(fault)) => drop(me.send_message(DispatcherMessage::Ended(fault))),
                None => drop(me.send_message(DispatcherMessage::Ended(Fault(ROUND_FAILED)))),
            }
        });
        state.task = Some(Delivering { _watching: AbortTask(watching), waits });
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<DispatcherMessage>,
        message: DispatcherMessage,
        _: &mut DispatcherState,
    ) -> Result<(), ActorProcessingErr> {
        let DispatcherMessage::Ended(fault) = message;
        Err(fault.into())
    }

    async fn post_stop(
        &self,
        _: ActorRef<DispatcherMessage>,
        state: &mut DispatcherState,
    ) -> Result<(), ActorProcessingErr> {
        // What is on its way gets its receipt; what has none becomes unconfirmed at the next start.
        state.nudges.drain();
        if let Some(task) = state.task.take() {
            drop(tokio::time::timeout(DRAIN_WITHIN, task.waits).await);
        }
        Ok(())
    }
}

struct Delivering {
    _watching: AbortTask,
    waits: tokio::sync::oneshot::Receiver<()>,
}

struct AbortTask(JoinHandle<()>);

impl Drop for AbortTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct AbortOnDrop(JoinHandle<round::Ending>);

impl AbortOnDrop {
    async fn ended(mut self) -> Option<round::Ending> {
        (&mut self.0).await.ok()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Declares the dispatcher of a bot.
pub(crate) fn child(service: &crate::service::ServiceHandle, spec: DispatcherSpec) -> ChildSpec {
    let name = ChildName::parse(&format!("dispatcher:{}", spec.routes.bot.name()));
    let name = name.expect("a source's name makes a child's name");
    let (service, spec, begun) = (service.clone(), Arc::new(spec), Arc::new(Begun::default()));
    ChildSpec::actor(name, "dispatcher", move |context| {
        let args = DispatcherArgs {
            spec: Arc::clone(&spec),
            log: service.0.log.clone(),
            reader: service.reader(),
            clock: Arc::clone(&service.0.clock),
            points: service.points(),
            incarnation: service.incarnation(),
            paused: service.is_paused(),
            begun: Arc::clone(&begun),
            path: Arc::clone(&context.path),
            status: Arc::clone(&context.status),
        };
        (Dispatcher, args)
    })
    .shutdown(Shutdown::Stop(DRAIN_WITHIN + Duration::from_secs(2)))
}
