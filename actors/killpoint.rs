//! Named points at which a rehearsal can make an actor, or the whole process, fail.
//!
//! They are always compiled in, so what is rehearsed is what runs; a point at which nothing is armed costs one
//! relaxed load. Only a handle made by [`KillPoints::for_rehearsal`] can be armed, and that is made only for a
//! store with the mark of a rehearsal.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ractor::ActorCell;
use tokio::sync::watch;

use crate::supervisor::{Fault, ReasonCode};

mod points;
#[cfg(test)]
mod tests;

pub use points::{KillAction, KillPoint};

/// The fault of an actor that failed at a point on demand.
pub const KILL_POINT: ReasonCode = ReasonCode::new("kill-point");

/// So many traps can be set at a time; a rehearsal sets a handful.
pub const TRAPS_MAX: usize = 256;

/// What is armed, where, and from which passage on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// Where.
    pub point: KillPoint,
    /// What happens.
    pub action: KillAction,
    /// At which passage, counted from 1 and from the moment of arming. It happens once.
    pub passage: u32,
    /// Only this actor's passages count, by its path; anybody's when `None`.
    pub actor: Option<String>,
}

impl Trap {
    /// Makes a trap for the first passage of anybody.
    pub fn new(point: KillPoint, action: KillAction) -> Self {
        Self { point, action, passage: 1, actor: None }
    }

    /// Waits for the `passage`-th one, counted from 1.
    #[must_use]
    pub fn at(self, passage: u32) -> Self {
        Self { passage: passage.max(1), ..self }
    }

    /// Counts only the passages of the actor with this path.
    #[must_use]
    pub fn of(self, actor: impl Into<String>) -> Self {
        Self { actor: Some(actor.into()), ..self }
    }
}

/// Names an armed trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrapId(u64);

/// Why a trap was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArmError {
    /// This store holds real work.
    #[error("kill points can be armed only in a store that was made for rehearsal")]
    NotARehearsal,
    /// There are too many.
    #[error("at most {TRAPS_MAX} kill points can be armed at a time")]
    TooMany,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spring {
    Set { passed: u32 },
    Sprung,
    Released,
}

struct Armed {
    id: TrapId,
    trap: Trap,
    spring: Spring,
}

#[derive(Default)]
struct Traps {
    next: u64,
    armed: Vec<Armed>,
}

/// The traps of one process.
pub struct KillPoints {
    rehearsal: bool,
    /// How many are still set: all that an unarmed passage looks at.
    set: AtomicUsize,
    traps: Mutex<Traps>,
    released: Condvar,
    changes: watch::Sender<u64>,
}

impl KillPoints {
    /// Makes the handle of a service that does real work: nothing can ever be armed.
    pub fn disabled() -> Arc<Self> {
        Self::new(false)
    }

    /// Makes a handle that can be armed. The caller has seen the store's mark of a rehearsal.
    pub fn for_rehearsal() -> Arc<Self> {
        Self::new(true)
    }

    /// Says whether anything can be armed.
    pub const fn is_rehearsal(&self) -> bool {
        self.rehearsal
    }

    fn new(rehearsal: bool) -> Arc<Self> {
        Arc::new(Self {
            rehearsal,
            set: AtomicUsize::new(0),
            traps: Mutex::default(),
            released: Condvar::new(),
            changes: watch::Sender::new(0),
        })
    }

    /// Sets a trap.
    ///
    /// # Errors
    /// When the store is no rehearsal, or too many are set.
    pub fn arm(&self, trap: Trap) -> Result<TrapId, ArmError> {
        if !self.rehearsal {
            return Err(ArmError::NotARehearsal);
        }
        let mut traps = self.traps();
        if traps.armed.len() >= TRAPS_MAX {
            return Err(ArmError::TooMany);
        }
        let id = TrapId(traps.next);
        traps.next += 1;
        traps.armed.push(Armed { id, trap, spring: Spring::Set { passed: 0 } });
        self.changed(traps);
        Ok(id)
    }

    /// Lets whoever is held by this trap go on, and takes it away.
    pub fn disarm(&self, id: TrapId) {
        let mut traps = self.traps();
        traps.armed.retain(|armed| armed.id != id);
        self.changed(traps);
    }

    /// Does the same with every trap.
    pub fn disarm_all(&self) {
        let mut traps = self.traps();
        traps.armed.clear();
        self.changed(traps);
    }

    /// Lets whoever is held by this trap go on.
    pub fn release(&self, id: TrapId) {
        let mut traps = self.traps();
        for armed in traps.armed.iter_mut().filter(|armed| armed.id == id) {
            armed.spring = Spring::Released;
        }
        self.changed(traps);
    }

    /// Waits until somebody has run into this trap; at once when it is not there any more.
    pub async fn sprung(&self, id: TrapId) {
        self.wait_while(id, |spring| matches!(spring, Spring::Set { .. })).await;
    }

    /// Makes the view of one actor, which `name` it has and what is to be killed.
    pub fn site(self: &Arc<Self>, name: Arc<str>, actor: Option<ActorCell>) -> KillSite {
        KillSite { points: Arc::clone(self), name, actor }
    }

    fn traps(&self) -> MutexGuard<'_, Traps> {
        self.traps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, traps: MutexGuard<'_, Traps>) {
        let set = traps.armed.iter().filter(|armed| matches!(armed.spring, Spring::Set { .. })).count();
        self.set.store(set, Ordering::Relaxed);
        drop(traps);
        self.released.notify_all();
        self.changes.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// Counts a passage, and springs the first trap that waited for it.
    fn step(&self, point: KillPoint, name: &str) -> Option<(TrapId, KillAction)> {
        let mut traps = self.traps();
        let mut sprung = None;
        for armed in &mut traps.armed {
            let here =
                armed.trap.point == point && armed.trap.actor.as_deref().is_none_or(|actor| actor == name);
            let Spring::Set { passed } = armed.spring else { continue };
            if !here {
                continue;
            }
            if passed + 1 < armed.trap.passage || sprung.is_some() {
                armed.spring = Spring::Set { passed: passed + 1 };
            } else {
                armed.spring = Spring::Sprung;
                sprung = Some((armed.id, armed.trap.action));
            }
        }
        if let Some((_, action)) = sprung {
            // Written before it happens: whoever is ended here says nothing more.
            tracing::warn!(
                point = point.as_str(),
                action = action.as_str(),
                actor = name,
                "a trap has sprung"
            );
        }
        if sprung.is_some() {
            self.changed(traps);
        }
        sprung
    }

    fn spring_of(traps: &Traps, id: TrapId) -> Spring {
        let armed = traps.armed.iter().find(|armed| armed.id == id);
        armed.map_or(Spring::Released, |armed| armed.spring)
    }

    async fn wait_while(&self, id: TrapId, still: impl Fn(Spring) -> bool) {
        let mut changes = self.changes.subscribe();
        while still(Self::spring_of(&self.traps(), id)) {
            changes.changed().await.expect("this handle holds the sending half");
        }
    }
}

impl fmt::Debug for KillPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KillPoints")
            .field("rehearsal", &self.rehearsal)
            .field("set", &self.set.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// The kill points as one actor passes them.
#[derive(Clone)]
pub struct KillSite {
    points: Arc<KillPoints>,
    name: Arc<str>,
    actor: Option<ActorCell>,
}

impl KillSite {
    /// Says whether no trap is set anywhere.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.points.set.load(Ordering::Relaxed) == 0
    }

    /// Passes `point` in a handler, or in a task that its actor aborts when it ends.
    ///
    /// # Errors
    /// A fault, when a trap says so.
    ///
    /// # Panics
    /// When a trap says so.
    #[inline]
    pub async fn pass(&self, point: KillPoint) -> Result<(), Fault> {
        if self.points.set.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let Some((id, action)) = self.points.step(point, &self.name) else { return Ok(()) };
        match (action, &self.actor) {
            (KillAction::Hold, _) => {
                self.points.wait_while(id, |spring| spring != Spring::Released).await;
                Ok(())
            }
            (KillAction::KillActor, Some(actor)) => {
                actor.kill();
                // The kill drops this future at its next await, which is this one.
                std::future::pending().await
            }
            (action, _) => end(action, point),
        }
    }

    /// Passes `point` on a thread of its own.
    ///
    /// # Errors
    /// A fault, when a trap says so.
    ///
    /// # Panics
    /// When a trap says so.
    #[inline]
    pub fn pass_blocking(&self, point: KillPoint) -> Result<(), Fault> {
        if self.points.set.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let Some((id, action)) = self.points.step(point, &self.name) else { return Ok(()) };
        match (action, &self.actor) {
            (KillAction::Hold, _) => {
                let held = |traps: &mut Traps| KillPoints::spring_of(traps, id) != Spring::Released;
                drop(self.points.released.wait_while(self.points.traps(), held));
                Ok(())
            }
            (KillAction::KillActor, Some(actor)) => {
                actor.kill();
                Ok(())
            }
            (action, _) => end(action, point),
        }
    }
}

impl fmt::Debug for KillSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KillSite").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cold]
fn end(action: KillAction, point: KillPoint) -> Result<(), Fault> {
    match action {
        KillAction::Panic => panic!("kill point {point}"),
        KillAction::AbortProcess => {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).ok();
            // Nothing runs after SIGKILL; should it be refused, an abort is the nearest thing.
            std::process::abort()
        }
        // Without an actor to kill, the error ends whoever passed.
        KillAction::Fail | KillAction::KillActor | KillAction::Hold => Err(Fault(KILL_POINT)),
    }
}
