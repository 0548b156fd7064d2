//! What is known about every child of one supervisor. It outlives the supervisor's own incarnations, so a
//! supervisor that is killed comes back knowing whom it had, who was quarantined and what is left open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ractor::{ActorCell, ActorRef};
use tokio::sync::watch;

use super::kernel::SupervisorMessage;
use super::tree::{ChildState, LastExit};
use super::{
    ChildName, ChildSpec, Decision, Exit, History, ReasonCode, Started, StatusCell, StopOrder, StopReason,
    Strategy, lock,
};
use thoughtstream_domain::time::Timestamp;

/// Where a child is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It may start as soon as the siblings it depends on run.
    Waiting,
    Starting,
    Running,
    /// It ended; what it left open is being closed.
    Recovering,
    /// The next start, or the next try at recovering, is due then.
    BackingOff,
    Quarantined,
    Stopping,
    Stopped,
}

impl Phase {
    /// Tells whether there is, or may be, an actor or a clean-up at work.
    pub(crate) const fn is_busy(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Recovering | Self::Stopping)
    }
}

/// What is to become of a child once what it is doing now has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Keep it alive as its policy says.
    Up,
    /// Stop it and start it anew.
    Again(StopReason),
    /// Stop it and leave it down.
    Down(StopReason),
    /// Stop it and take it out of the tree.
    Gone,
}

/// Everything about one child that changes.
pub(crate) struct Record {
    pub(crate) phase: Phase,
    pub(crate) wanted: Wanted,
    pub(crate) incarnation: u64,
    /// Grows with every timer that is set, so that an old one is recognised.
    pub(crate) turn: u64,
    pub(crate) alive: Option<Started>,
    pub(crate) status: Arc<StatusCell>,
    pub(crate) history: History,
    pub(crate) restarts: u64,
    pub(crate) since: Timestamp,
    pub(crate) last_exit: Option<LastExit>,
    pub(crate) next_start_at: Option<Timestamp>,
    /// What follows once the clean-up is done.
    pub(crate) fate: Decision,
    /// The exit after which something may still be open.
    pub(crate) owed: Option<Exit>,
    /// How often the clean-up has been put off in a row.
    pub(crate) put_off: u32,
    /// Why the supervisor itself is waiting with this child.
    pub(crate) waits_for: Option<ReasonCode>,
    /// False once it has outlived its stop and its kill.
    pub(crate) answering: bool,
    /// What the notice of the next successful start will say about the exit before it.
    pub(crate) unreported: Option<Exit>,
}

/// One child.
pub(crate) struct Slot {
    pub(crate) spec: ChildSpec,
    pub(crate) order: u64,
    record: Mutex<Record>,
}

impl Slot {
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut Record) -> R) -> R {
        look(&mut lock(&self.record))
    }

    pub(crate) fn phase(&self) -> Phase {
        self.with(|record| record.phase)
    }

    pub(crate) fn cell(&self) -> Option<ActorCell> {
        self.with(|record| record.alive.as_ref().map(|started| started.cell.clone()))
    }
}

/// Why a supervisor stopped for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) reason: StopReason,
    /// The child that could not be kept alive, by its path.
    pub(crate) fatal: Option<(Arc<str>, Exit)>,
}

#[derive(Default)]
struct Children {
    by_order: BTreeMap<u64, Arc<Slot>>,
    by_name: BTreeMap<ChildName, u64>,
    next_order: u64,
}

#[derive(Default)]
pub(crate) struct Own {
    pub(crate) actor: Option<ActorRef<SupervisorMessage>>,
    pub(crate) state: Option<(ChildState, Timestamp)>,
    pub(crate) verdict: Option<Verdict>,
}

/// One supervisor and its children, as everybody else sees them.
pub(crate) struct Roster {
    pub(crate) name: ChildName,
    pub(crate) strategy: Strategy,
    pub(crate) stop_order: StopOrder,
    children: Mutex<Children>,
    own: Mutex<Own>,
    version: watch::Sender<u64>,
}

impl Roster {
    pub(crate) fn new(name: ChildName, strategy: Strategy, stop_order: StopOrder) -> Self {
        Self {
            name,
            strategy,
            stop_order,
            children: Mutex::default(),
            own: Mutex::default(),
            version: watch::Sender::new(0),
        }
    }

    /// Adds a child at the end of the start order; `None` when the name is taken.
    pub(crate) fn add(&self, spec: ChildSpec) -> Option<Arc<Slot>> {
        let mut children = lock(&self.children);
        if children.by_name.contains_key(&spec.name) {
            return None;
        }
        let order = children.next_order;
        children.next_order += 1;
        children.by_name.insert(spec.name.clone(), order);
        let slot = Arc::new(Slot { record: Mutex::new(Record::new(&spec)), spec, order });
        children.by_order.insert(order, Arc::clone(&slot));
        drop(children);
        self.changed();
        Some(slot)
    }

    pub(crate) fn remove(&self, slot: &Slot) {
        let mut children = lock(&self.children);
        children.by_order.remove(&slot.order);
        children.by_name.remove(&slot.spec.name);
        drop(children);
        self.changed();
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Slot>> {
        let name = ChildName::parse(name).ok()?;
        let children = lock(&self.children);
        children.by_order.get(children.by_name.get(&name)?).cloned()
    }

    pub(crate) fn by_order(&self, order: u64) -> Option<Arc<Slot>> {
        lock(&self.children).by_order.get(&order).cloned()
    }

    /// Returns the children in start order.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        lock(&self.children).by_order.values().cloned().collect()
    }

    pub(crate) fn own<R>(&self, look: impl FnOnce(&mut Own) -> R) -> R {
        look(&mut lock(&self.own))
    }

    /// Wakes whoever waits for a change.
    pub(crate) fn changed(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

impl Record {
    /// Returns what an inspector is shown.
    pub(crate) fn state(&self) -> ChildState {
        match self.phase {
            Phase::Waiting | Phase::Starting => ChildState::Starting,
            Phase::Running => ChildState::Running,
            Phase::BackingOff if self.owed.is_none() => ChildState::BackingOff,
            Phase::Recovering | Phase::BackingOff => ChildState::Recovering,
            Phase::Quarantined => ChildState::Quarantined,
            Phase::Stopping => ChildState::Stopping,
            Phase::Stopped => ChildState::Stopped,
        }
    }

    fn new(spec: &ChildSpec) -> Self {
        let phase = match spec.initially {
            super::Initially::Running => Phase::Waiting,
            super::Initially::Stopped => Phase::Stopped,
            super::Initially::Quarantined => Phase::Quarantined,
        };
        let wanted = if phase == Phase::Stopped { Wanted::Down(StopReason::Operator) } else { Wanted::Up };
        Self {
            phase,
            wanted,
            incarnation: 0,
            turn: 0,
            alive: None,
            status: Arc::default(),
            history: History::default(),
            restarts: 0,
            since: Timestamp::default(),
            last_exit: None,
            next_start_at: None,
            fate: Decision::Stopped,
            owed: None,
            put_off: 0,
            waits_for: None,
            answering: true,
            unreported: None,
        }
    }
}
