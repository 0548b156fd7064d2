//! Declares a supervisor and those below it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::child::{ChildSpec, Started};
use super::kernel::{Supervisor, SupervisorArguments, SupervisorMessage};
use super::roster::Roster;
use super::tree::SUPERVISOR_KIND;
use super::{ChildName, RestartPolicy, Shutdown, SupervisorHandle};

/// Who else is restarted when one child ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Nobody. Children start without waiting for each other.
    OneForOne,
    /// Those after it, which depend on it. A child starts when all before it run or are down as planned.
    RestForOne,
    /// All of them, started one after the other.
    OneForAll,
}

/// In which order the children of a supervisor that closes are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOrder {
    /// Against the start order, each ended before the next is told.
    Reversed,
    /// All at once: they are independent, and there may be thousands.
    Together,
}

/// Declares a supervisor with its children.
#[derive(Clone)]
pub struct SupervisorSpec {
    pub(crate) roster: Arc<Roster>,
    policy: RestartPolicy,
    within: Duration,
}

impl SupervisorSpec {
    /// The whole subtree is given this long to close before it is killed: longer than a few children that
    /// each use up their own bound, shorter than the patience of a service manager.
    pub const CLOSE_WITHIN: Duration = Duration::from_secs(30);

    /// Declares a supervisor whose children are stopped against their start order.
    pub fn new(name: ChildName, strategy: Strategy) -> Self {
        Self::with(name, strategy, StopOrder::Reversed)
    }

    /// Declares a supervisor of many independent children: one-for-one, stopped all at once.
    pub fn pool(name: ChildName) -> Self {
        Self::with(name, Strategy::OneForOne, StopOrder::Together)
    }

    fn with(name: ChildName, strategy: Strategy, stop_order: StopOrder) -> Self {
        Self {
            roster: Arc::new(Roster::new(name, strategy, stop_order)),
            policy: RestartPolicy::escalate(),
            within: Self::CLOSE_WITHIN,
        }
    }

    /// Adds a child at the end of the start order.
    ///
    /// # Panics
    /// When it has the name of an earlier one: two children of one name are a mistake in the declaration.
    #[must_use]
    pub fn child(self, spec: ChildSpec) -> Self {
        let name = spec.name.clone();
        assert!(self.roster.add(spec).is_some(), "two children are called {name}");
        self
    }

    /// Adds a supervisor as a child.
    ///
    /// # Panics
    /// When it has the name of an earlier child.
    #[must_use]
    pub fn nested(self, spec: Self) -> Self {
        self.child(spec.into_child())
    }

    /// Sets how this supervisor itself is restarted by the one above.
    #[must_use]
    pub fn policy(self, policy: RestartPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Sets how long the one above waits for this one to close.
    #[must_use]
    pub fn close_within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Returns the handle to this supervisor; it is valid before the start and across restarts.
    pub fn handle(&self) -> SupervisorHandle {
        SupervisorHandle::new(Arc::clone(&self.roster))
    }

    /// Turns it into a child of another supervisor.
    pub fn into_child(self) -> ChildSpec {
        let Self { roster, policy, within } = self;
        let shared = Arc::clone(&roster);
        let mut spec = ChildSpec::new(roster.name.clone(), SUPERVISOR_KIND, move |context| {
            let roster = Arc::clone(&shared);
            async move {
                let (path, env) = (Arc::clone(&context.path), context.env.clone());
                let arguments = SupervisorArguments { roster, env, path };
                let actor = context.spawn(Supervisor, arguments).await?;
                let (asked, probed) = (actor.clone(), actor.clone());
                let started = Started::new(actor.get_cell());
                let started = started.asked_by(move |reason| {
                    asked.cast(SupervisorMessage::Shutdown(reason)).ok();
                });
                Ok(started.probed_by(move || {
                    let probed = probed.clone();
                    Box::pin(super::handle::ping(probed))
                }))
            }
        });
        spec.nested = Some(roster);
        spec.policy(policy).shutdown(Shutdown::Ask(within))
    }
}

impl fmt::Debug for SupervisorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorSpec")
            .field("name", &self.roster.name)
            .field("strategy", &self.roster.strategy)
            .finish_non_exhaustive()
    }
}
