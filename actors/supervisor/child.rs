//! What a supervisor must know to start one child, stop it and tidy up after it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef};

use super::exit::classify_spawn;
use super::roster::Roster;
use super::{Env, Exit, ReasonCode, RestartPolicy, StatusCell, StopReason};
use crate::address::Address;
use thoughtstream_domain::time::Timestamp;

/// A future that a spec's closures return.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The name of a child among its siblings: part of a path, an actor's name, and what a person types.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildName(Arc<str>);

/// The text cannot name a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a child's name has 1 to {max} letters, digits or any of `-_.:@+~`", max = ChildName::BYTES_MAX)]
pub struct BadChildName;

impl ChildName {
    /// Room for a consumer id or a source id with its kind.
    pub const BYTES_MAX: usize = 200;

    /// Checks `text`: neither `/`, which joins a path, nor anything that a terminal could act on.
    ///
    /// # Errors
    /// When the text is empty, too long or holds another character.
    pub fn parse(text: &str) -> Result<Self, BadChildName> {
        let fits = (1..=Self::BYTES_MAX).contains(&text.len());
        let plain = text.chars().all(|c| c.is_alphanumeric() || "-_.:@+~".contains(c));
        if fits && plain { Ok(Self(text.into())) } else { Err(BadChildName) }
    }

    /// Takes a name that is written in the source code.
    ///
    /// # Panics
    /// When it is none.
    pub fn fixed(text: &'static str) -> Self {
        Self::parse(text).expect("a name in the source code is a valid one")
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChildName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ChildName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a child is stopped. Whoever is still there after the bound is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Let it empty its mailbox first.
    Drain(Duration),
    /// Let it finish the message it is handling, and clean up.
    Stop(Duration),
    /// Tell it in a message of its own (see [`Started::asked_by`]), and leave the rest to it.
    Ask(Duration),
    /// Do not wait.
    Kill,
}

impl Shutdown {
    /// A handler does short steps and hands long work to tasks, so this is plenty.
    pub const STOP_WITHIN: Duration = Duration::from_secs(5);

    pub(crate) const fn within(self) -> Duration {
        match self {
            Self::Drain(within) | Self::Stop(within) | Self::Ask(within) => within,
            Self::Kill => Duration::ZERO,
        }
    }
}

/// What a child does when its supervisor starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initially {
    /// It starts.
    Running,
    /// It stays down: the log says that a person stopped it.
    Stopped,
    /// It stays down: the log says that it was quarantined and nobody resumed it.
    Quarantined,
}

/// Why a child did not come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the actor did not start: {0}")]
pub struct StartError(pub ReasonCode);

/// What a start closure is given.
#[derive(Clone)]
pub struct StartContext {
    /// The names from the root down to this child, joined by `/`.
    pub path: Arc<str>,
    /// Which incarnation is being started, counted from 1.
    pub incarnation: u64,
    /// Where this incarnation writes down how it is doing.
    pub status: Arc<StatusCell>,
    /// Time, chance and notices.
    pub env: Env,
    pub(crate) supervisor: ActorCell,
    /// Whom the closure spawned, in case it does not get to say so.
    pub(crate) spawned: Arc<OnceLock<ActorCell>>,
}

impl StartContext {
    /// Spawns the child under its path as its name, linked to its supervisor.
    ///
    /// # Errors
    /// When `pre_start` fails or panics, or the name is taken.
    pub async fn spawn<A: Actor>(
        &self,
        behaviour: A,
        arguments: A::Arguments,
    ) -> Result<ActorRef<A::Msg>, StartError> {
        let name = Some(self.path.to_string());
        let spawned = A::spawn_linked(name, behaviour, arguments, self.supervisor.clone()).await;
        let (actor, _) = spawned.map_err(|error| StartError(classify_spawn(&error)))?;
        self.spawned.get_or_init(|| actor.get_cell());
        Ok(actor)
    }
}

type AskStop = Arc<dyn Fn(StopReason) + Send + Sync>;
type Probe = Arc<dyn Fn() -> Pending<()> + Send + Sync>;

/// A child that came up.
#[derive(Clone)]
pub struct Started {
    pub(crate) cell: ActorCell,
    pub(crate) ask: Option<AskStop>,
    pub(crate) probe: Option<Probe>,
}

impl Started {
    /// Takes the actor that was spawned.
    pub fn new(cell: ActorCell) -> Self {
        Self { cell, ask: None, probe: None }
    }

    /// Says how [`Shutdown::Ask`] asks; the child then stops itself with [`StopReason::stop_text`].
    #[must_use]
    pub fn asked_by(self, ask: impl Fn(StopReason) + Send + Sync + 'static) -> Self {
        Self { ask: Some(Arc::new(ask)), ..self }
    }

    /// Says how an inspector finds out that the child still handles messages. The future ends when it does.
    #[must_use]
    pub fn probed_by(self, probe: impl Fn() -> Pending<()> + Send + Sync + 'static) -> Self {
        Self { probe: Some(Arc::new(probe)), ..self }
    }
}

/// What an exit hook is told.
#[derive(Debug, Clone)]
pub struct ExitReport {
    /// The child's name among its siblings.
    pub name: ChildName,
    /// The names from the root down to this child, joined by `/`.
    pub path: Arc<str>,
    /// The incarnation that ended.
    pub incarnation: u64,
    /// How it ended.
    pub exit: Exit,
    /// When its supervisor learnt of it.
    pub at: Timestamp,
}

/// What became of the clean-up after an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing is left open: the successor may start.
    Done,
    /// It cannot be done now through no fault of the child, say because the log takes no writes. It is tried
    /// again, and the child is not blamed.
    Later(ReasonCode),
    /// It went wrong. This counts like an exit of the child.
    Failed(ReasonCode),
}

type StartFn = Arc<dyn Fn(StartContext) -> Pending<Result<Started, StartError>> + Send + Sync>;
type ExitHook = Arc<dyn Fn(ExitReport) -> Pending<Recovery> + Send + Sync>;

/// Declares one child.
#[derive(Clone)]
pub struct ChildSpec {
    pub(crate) name: ChildName,
    pub(crate) kind: &'static str,
    pub(crate) policy: RestartPolicy,
    pub(crate) shutdown: Shutdown,
    pub(crate) drain: Option<Duration>,
    pub(crate) initially: Initially,
    pub(crate) start_within: Duration,
    pub(crate) recover_within: Duration,
    pub(crate) start: StartFn,
    pub(crate) on_exit: Option<ExitHook>,
    pub(crate) nested: Option<Arc<Roster>>,
}

impl ChildSpec {
    /// `pre_start` only builds a state in memory; what takes longer belongs into `post_start`, which has no bound.
    pub const START_WITHIN: Duration = Duration::from_secs(10);
    /// A few commits, even when the disk is busy.
    pub const RECOVER_WITHIN: Duration = Duration::from_secs(30);

    /// Declares a child that `start` brings up, restarted for ever and quarantined when that does not help.
    pub fn new<F>(
        name: ChildName,
        kind: &'static str,
        start: impl Fn(StartContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Started, StartError>> + Send + 'static,
    {
        Self {
            name,
            kind,
            policy: RestartPolicy::quarantine(),
            shutdown: Shutdown::Stop(Shutdown::STOP_WITHIN),
            drain: None,
            initially: Initially::Running,
            start_within: Self::START_WITHIN,
            recover_within: Self::RECOVER_WITHIN,
            start: Arc::new(move |context| Box::pin(start(context))),
            on_exit: None,
            nested: None,
        }
    }

    /// Declares an actor by the closure that makes its behaviour and its arguments for each incarnation.
    pub fn actor<A: Actor>(
        name: ChildName,
        kind: &'static str,
        make: impl Fn(&StartContext) -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        Self::actor_at(name, kind, Address::new(), make)
    }

    /// The same, and publishes each incarnation at `address`.
    pub fn actor_at<A: Actor>(
        name: ChildName,
        kind: &'static str,
        address: Address<A::Msg>,
        make: impl Fn(&StartContext) -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, kind, move |context| {
            let (behaviour, arguments) = make(&context);
            let address = address.clone();
            async move {
                let actor = context.spawn(behaviour, arguments).await?;
                address.publish(actor.clone());
                Ok(Started::new(actor.get_cell()))
            }
        })
    }

    /// Sets how it is restarted.
    #[must_use]
    pub fn policy(self, policy: RestartPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Sets how it is stopped.
    #[must_use]
    pub fn shutdown(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }

    /// Gives it another time to end in when its supervisor closes, for work that may then be finished; whoever stops or
    /// restarts it alone does not wait for that.
    #[must_use]
    pub fn draining(self, within: Duration) -> Self {
        Self { drain: Some(within), ..self }
    }

    /// Sets what it does when its supervisor starts.
    #[must_use]
    pub fn initially(self, initially: Initially) -> Self {
        Self { initially, ..self }
    }

    /// Bounds the start closure; `post_start` is not part of it.
    #[must_use]
    pub fn start_within(self, start_within: Duration) -> Self {
        Self { start_within, ..self }
    }

    /// Bounds the exit hook.
    #[must_use]
    pub fn recover_within(self, recover_within: Duration) -> Self {
        Self { recover_within, ..self }
    }

    /// Sets what runs after every exit, before the successor starts. It is run in a task of its own, and
    /// again when its supervisor itself was replaced meanwhile, so it must be harmless to repeat.
    #[must_use]
    pub fn on_exit<F>(self, hook: impl Fn(ExitReport) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Recovery> + Send + 'static,
    {
        Self { on_exit: Some(Arc::new(move |report| Box::pin(hook(report)))), ..self }
    }

    /// Returns its name.
    pub fn name(&self) -> &ChildName {
        &self.name
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("policy", &self.policy)
            .field("shutdown", &self.shutdown)
            .finish_non_exhaustive()
    }
}
