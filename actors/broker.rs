//! The broker of a provider profile: it alone holds the credential, and sends each frozen request once.
//!
//! Whoever runs a model is given a [`Capability`] for one frozen request. To spend it is to hand over what the
//! worker asks for; the broker compares that with what is frozen, sends what is frozen, and gives the answer
//! back. What is on its way lives in tasks of the actor: when it ends, they end, and whoever waits is told
//! whether anything can have been sent. Nothing here is durable: reservation and settlement are rows of the log.

mod asking;
mod capability;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_channels::credential::Credentials;
use thoughtstream_channels::provider::{Client, Wire};
use thoughtstream_domain::id::RunId;
use thoughtstream_domain::provider::{AskError, ModelRequest, Profile, ProfileName, ProviderCode};
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::address::Address;
use crate::killpoint::{KillPoints, KillSite};
use crate::supervisor::{ChildName, ChildSpec, Detail, Fault, StatusCell, SupervisorSpec};

pub use capability::Capability;
pub use thoughtstream_channels::provider::Reply;

/// So many runs are remembered as having had their request: far more than a service has open at a time. A run
/// older than these cannot come back, since each attempt makes its capability once.
const RUNS_REMEMBERED: usize = 65_536;

/// Is the broker actor.
#[derive(Debug)]
pub struct Broker;

/// Is what a broker is told.
#[derive(Debug)]
pub enum BrokerMessage {
    /// Send this.
    Spend(Box<Spend>),
    /// A task on its way failed in a manner that is ours.
    Faulted(Fault),
}

/// Is one request that is to be sent, already compared with what the worker asked for.
#[derive(Debug)]
pub struct Spend {
    frozen: Arc<ModelRequest>,
    incarnation: u64,
    deadline: Instant,
    wire: Arc<Wire>,
    reply: oneshot::Sender<Result<Reply, AskError>>,
}

/// Is what a broker is started with.
#[derive(Clone)]
pub struct BrokerArgs {
    handle: BrokerHandle,
    credentials: Credentials,
    points: Arc<KillPoints>,
    path: Arc<str>,
    status: Arc<StatusCell>,
}

/// Is the state of a broker; dropping it ends what is on its way.
pub struct BrokerState {
    incarnation: u64,
    desk: Arc<Desk>,
    asking: JoinSet<()>,
}

/// Is what the tasks of one incarnation share.
struct Desk {
    handle: BrokerHandle,
    credentials: Credentials,
    client: OnceCell<Client>,
    places: Arc<Semaphore>,
    site: KillSite,
    status: Arc<StatusCell>,
    counts: Counts,
}

/// Is what the tree shows of a broker.
#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicU64,
    in_flight: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

impl Desk {
    /// Writes down how it is doing.
    fn tell(&self) {
        let count = |count: &AtomicU64| Detail::Count(count.load(Ordering::Relaxed));
        self.status.tell(None, |details| {
            for (name, number) in [
                ("waiting", &self.counts.waiting),
                ("inFlight", &self.counts.in_flight),
                ("sent", &self.counts.sent),
                ("refused", &self.counts.refused),
                ("lost", &self.counts.lost),
            ] {
                details.insert(name, count(number));
            }
        });
    }
}

impl Actor for Broker {
    type Msg = BrokerMessage;
    type State = BrokerState;
    type Arguments = BrokerArgs;

    async fn pre_start(
        &self,
        me: ActorRef<BrokerMessage>,
        args: BrokerArgs,
    ) -> Result<BrokerState, ActorProcessingErr> {
        // From here on, capabilities of the incarnation before are worth nothing.
        let incarnation = args.handle.0.incarnation.fetch_add(1, Ordering::SeqCst) + 1;
        let places = args.handle.profile().in_flight_max;
        let desk = Arc::new(Desk {
            site: args.points.site(args.path, Some(me.get_cell())),
            handle: args.handle,
            credentials: args.credentials,
            client: OnceCell::new(),
            places: Arc::new(Semaphore::new(places)),
            status: args.status,
            counts: Counts::default(),
        });
        desk.tell();
        Ok(BrokerState { incarnation, desk, asking: JoinSet::new() })
    }

    async fn handle(
        &self,
        me: ActorRef<BrokerMessage>,
        message: BrokerMessage,
        state: &mut BrokerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            BrokerMessage::Spend(spend) => state.spend(me, *spend),
            BrokerMessage::Faulted(fault) => return Err(fault.into()),
        }
        Ok(())
    }
}

impl BrokerState {
    fn spend(&mut self, me: ActorRef<BrokerMessage>, spend: Spend) {
        while self.asking.try_join_next().is_some() {}
        if spend.incarnation != self.incarnation {
            // Nobody waiting is nobody to tell.
            drop(spend.reply.send(Err(ProviderCode::CapabilityExpired.into())));
            return;
        }
        let desk = Arc::clone(&self.desk);
        self.asking.spawn(async move {
            if let Err(fault) = asking::watched(desk, spend).await {
                // An actor that is gone has taken this task along, or is about to.
                drop(me.send_message(BrokerMessage::Faulted(fault)));
            }
        });
    }
}

/// Is everyone's access to the broker of one profile, whichever incarnation plays the part.
#[derive(Clone)]
pub struct BrokerHandle(Arc<Shared>);

struct Shared {
    profile: Arc<Profile>,
    address: Address<BrokerMessage>,
    incarnation: AtomicU64,
    spent: Mutex<SpentRuns>,
}

/// Remembers which runs have had their request.
#[derive(Debug, Default)]
struct SpentRuns {
    known: BTreeSet<RunId>,
    order: VecDeque<RunId>,
}

impl SpentRuns {
    /// Takes a run's one request; false if it was taken before.
    fn claim(&mut self, run: RunId) -> bool {
        if !self.known.insert(run) {
            return false;
        }
        self.order.push_back(run);
        if self.order.len() > RUNS_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl std::fmt::Debug for BrokerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BrokerHandle").field(&self.0.profile.name).finish()
    }
}

impl BrokerHandle {
    fn new(profile: Profile) -> Self {
        Self(Arc::new(Shared {
            profile: Arc::new(profile),
            address: Address::new(),
            incarnation: AtomicU64::new(0),
            spent: Mutex::default(),
        }))
    }

    /// Returns the profile.
    #[must_use]
    pub fn profile(&self) -> &Arc<Profile> {
        &self.0.profile
    }

    /// Makes the right to send `frozen` once, over the wire of an attempt, until `deadline`. It is worth nothing any
    /// more when the present incarnation of the broker ends. Whoever keeps the wire learns from it, whatever ends
    /// first, whether anything was sent.
    #[must_use]
    pub fn capability(&self, wire: Arc<Wire>, frozen: Arc<ModelRequest>, deadline: Instant) -> Capability {
        let incarnation = self.0.incarnation.load(Ordering::SeqCst);
        Capability::new(self.clone(), wire, frozen, deadline, incarnation)
    }

    fn claim(&self, run: RunId) -> bool {
        self.0.spent.lock().unwrap_or_else(PoisonError::into_inner).claim(run)
    }

    fn send(&self, spend: Spend) -> Result<(), ProviderCode> {
        let sent = self.0.address.send(BrokerMessage::Spend(Box::new(spend)));
        sent.map_err(|_| ProviderCode::BrokerDown)
    }
}

/// Is the brokers of all profiles, made before the tree that runs them.
#[derive(Debug, Clone, Default)]
pub struct Brokers {
    handles: Arc<BTreeMap<ProfileName, BrokerHandle>>,
    credentials: Option<Credentials>,
}

impl Brokers {
    /// Makes the brokers of these profiles; `credentials` knows where credentials lie.
    #[must_use]
    pub fn new(profiles: impl IntoIterator<Item = Profile>, credentials: Credentials) -> Self {
        let handle = |profile: Profile| (profile.name.clone(), BrokerHandle::new(profile));
        let handles = Arc::new(profiles.into_iter().map(handle).collect());
        Self { handles, credentials: Some(credentials) }
    }

    /// Returns the broker of a profile.
    #[must_use]
    pub fn get(&self, name: &ProfileName) -> Option<&BrokerHandle> {
        self.handles.get(name)
    }

    /// Declares the pool of brokers; none if there are no profiles.
    #[must_use]
    pub fn pool(&self, points: &Arc<KillPoints>) -> Option<SupervisorSpec> {
        let credentials = self.credentials.as_ref().filter(|_| !self.handles.is_empty())?;
        let mut pool = SupervisorSpec::pool(ChildName::fixed("brokers"));
        for handle in self.handles.values() {
            pool = pool.child(broker(handle.clone(), credentials.clone(), Arc::clone(points)));
        }
        Some(pool)
    }
}

/// Declares the broker of one profile.
fn broker(handle: BrokerHandle, credentials: Credentials, points: Arc<KillPoints>) -> ChildSpec {
    let name = ChildName::parse(handle.profile().name.as_str()).expect("a profile's name is a child's name");
    let address = handle.0.address.clone();
    ChildSpec::actor_at(name, "broker", address, move |context| {
        let args = BrokerArgs {
            handle: handle.clone(),
            credentials: credentials.clone(),
            points: Arc::clone(&points),
            path: Arc::clone(&context.path),
            status: Arc::clone(&context.status),
        };
        (Broker, args)
    })
}
