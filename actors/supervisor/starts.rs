//! Starting children: in their own tasks, within their bounds, after the siblings they depend on.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ractor::ActorId;
use thoughtstream_domain::time::Timestamp;
use tokio::time::Instant;

use super::child::StartContext;
use super::kernel::{SupervisorMessage, SupervisorState};
use super::roster::{Phase, Slot, Wanted};
use super::{
    ChildSpec, CommandError, Decision, Exit, History, NoticeKind, ReasonCode, RestartType, Started,
    StatusCell, StopReason, Strategy,
};

/// Runs `future` in a task of its own, so that neither a panic nor a hang of it reaches the caller.
pub(super) async fn bounded<T: Send + 'static>(
    within: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, ReasonCode> {
    let mut task = tokio::spawn(future);
    match tokio::time::timeout(within, &mut task).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if error.is_panic() => Err(ReasonCode::PANICKED),
        Ok(Err(_)) => Err(ReasonCode::ORPHANED),
        Err(_) => {
            task.abort();
            Err(ReasonCode::TIMED_OUT)
        }
    }
}

impl SupervisorState {
    /// Takes over one child from the supervisor before.
    pub(super) fn adopt(&mut self, slot: &Arc<Slot>) {
        let now = self.env.clock.now();
        let left_open = slot.with(|record| {
            if record.since == Timestamp::default() {
                record.since = now;
            }
            let held = record.phase == Phase::Quarantined
                || (record.phase == Phase::Stopped && record.wanted == Wanted::Down(StopReason::Operator));
            if held {
                return None;
            }
            record.history = History::default();
            record.turn += 1;
            if matches!(record.wanted, Wanted::Again(_) | Wanted::Down(StopReason::Shutdown)) {
                record.wanted = Wanted::Up;
            }
            if record.alive.is_some() {
                record.owed = record.owed.or(Some(Exit::Killed));
                record.unreported = record.unreported.or(Some(Exit::Failed(ReasonCode::ORPHANED)));
            }
            let again = Decision::Restart { after: Duration::ZERO };
            let leaves = slot.spec.policy.restart == RestartType::Temporary && record.incarnation > 0;
            record.fate = if leaves { Decision::Stopped } else { again };
            Some(record.alive.is_some() || record.owed.is_some())
        });
        match left_open {
            None => {}
            Some(true) => self.recover(slot),
            Some(false) => self.apply_fate(slot),
        }
    }

    /// Lets `slot` start as soon as it may.
    pub(super) fn ready(&mut self, slot: &Arc<Slot>) {
        self.enter(slot, Phase::Waiting);
        if self.roster.strategy == Strategy::OneForOne {
            if self.closing.is_none() {
                self.launch(slot);
            }
        } else {
            self.advance();
        }
    }

    /// Starts every waiting child whose turn has come. Under one-for-one nobody waits for anybody.
    pub(super) fn advance(&mut self) {
        if self.closing.is_some() || self.plan.is_some() || self.roster.strategy == Strategy::OneForOne {
            return;
        }
        for slot in self.roster.slots() {
            match slot.phase() {
                Phase::Waiting => {
                    self.launch(&slot);
                    return;
                }
                Phase::Running | Phase::Stopped => {}
                Phase::Starting
                | Phase::Recovering
                | Phase::BackingOff
                | Phase::Quarantined
                | Phase::Stopping => return,
            }
        }
    }

    fn launch(&mut self, slot: &Arc<Slot>) {
        let status = Arc::new(StatusCell::default());
        let incarnation = slot.with(|record| {
            record.incarnation += 1;
            record.restarts += u64::from(record.incarnation > 1);
            record.status = Arc::clone(&status);
            record.history = record.history.started(Instant::now());
            record.answering = true;
            record.wanted = Wanted::Up;
            record.incarnation
        });
        self.enter(slot, Phase::Starting);
        let spawned = Arc::new(OnceLock::new());
        let context = StartContext {
            path: self.child_path(slot),
            incarnation,
            status,
            env: self.env.clone(),
            supervisor: self.me.get_cell(),
            spawned: Arc::clone(&spawned),
        };
        self.starts_in_flight += 1;
        let (me, order) = (self.me.clone(), slot.order);
        let (start, within) = (Arc::clone(&slot.spec.start), slot.spec.start_within);
        tokio::spawn(async move {
            let started = bounded(within, async move { start(context).await }).await;
            let result = started.and_then(|result| result.map_err(|error| error.0));
            if let (Err(_), Some(cell)) = (&result, spawned.get()) {
                // The closure spawned it and failed afterwards: nobody would ever stop this one.
                cell.kill();
            }
            // A supervisor that has gone took the child with it.
            me.send_message(SupervisorMessage::StartEnded { order, incarnation, result }).ok();
        });
    }

    pub(super) fn start_ended(&mut self, order: u64, incarnation: u64, result: Result<Started, ReasonCode>) {
        self.starts_in_flight -= 1;
        let slot = self.roster.by_order(order);
        let slot = slot.filter(|slot| slot.with(|record| record.incarnation) == incarnation);
        match (slot, result) {
            (None, Ok(started)) => started.cell.kill(),
            (None, Err(_)) => {}
            (Some(slot), Err(code)) => self.child_ended(&slot, Exit::StartFailed(code)),
            (Some(slot), Ok(started)) => self.came_up(&slot, started),
        }
        if self.starts_in_flight == 0 {
            self.early.clear();
        }
    }

    fn came_up(&mut self, slot: &Arc<Slot>, started: Started) {
        let actor = started.cell.get_id();
        slot.with(|record| record.alive = Some(started));
        self.by_actor.insert(actor, slot.order);
        let early = self.early.remove(&actor).unwrap_or_default();
        if let Some(exit) = early.exit {
            self.actor_ended(actor, exit);
            return;
        }
        if slot.phase() == Phase::Stopping {
            self.signal_stop(slot);
        } else if early.running {
            self.actor_running(actor);
        }
    }

    /// Notes that a child's `post_start` is done.
    pub(super) fn actor_running(&mut self, actor: ActorId) {
        let slot = self.by_actor.get(&actor).and_then(|order| self.roster.by_order(*order));
        let Some(slot) = slot else {
            if self.starts_in_flight > 0 {
                self.early.entry(actor).or_default().running = true;
            }
            return;
        };
        if slot.phase() != Phase::Starting {
            return;
        }
        self.enter(&slot, Phase::Running);
        let (exit, restarts) = slot.with(|record| (record.unreported.take(), record.restarts));
        if let Some(exit) = exit {
            self.notify(&slot, NoticeKind::Restarted { exit, restarts });
        }
        self.advance();
    }

    pub(super) fn start_child(&mut self, spec: ChildSpec) -> Result<(), CommandError> {
        if self.closing.is_some() {
            return Err(CommandError::Closing);
        }
        let slot = self.roster.add(spec).ok_or(CommandError::NameTaken)?;
        self.adopt(&slot);
        Ok(())
    }

    /// Starts a child anew that is down or about to be, without blaming it for anything.
    pub(super) fn start_again(&mut self, slot: &Arc<Slot>) {
        let owed = slot.with(|record| {
            record.wanted = Wanted::Up;
            record.turn += 1;
            record.put_off = 0;
            record.history = History::default();
            record.fate = Decision::Restart { after: Duration::ZERO };
            record.owed.is_some()
        });
        if owed { self.recover(slot) } else { self.ready(slot) }
    }

    pub(super) fn resume_child(&mut self, slot: &Arc<Slot>) -> Result<(), CommandError> {
        if slot.phase() != Phase::Quarantined {
            return Err(CommandError::WrongState(slot.with(|record| record.state())));
        }
        self.notify(slot, NoticeKind::Resumed);
        self.start_again(slot);
        Ok(())
    }

    pub(super) fn restart_child(&mut self, slot: &Arc<Slot>, reason: StopReason) -> Result<(), CommandError> {
        match slot.phase() {
            Phase::Quarantined => return Err(CommandError::WrongState(slot.with(|record| record.state()))),
            Phase::Running | Phase::Starting => self.order_stop(slot, Wanted::Again(reason)),
            Phase::Stopping => slot.with(|record| record.wanted = Wanted::Again(reason)),
            Phase::Recovering => slot.with(|record| {
                record.wanted = Wanted::Up;
                record.history = History::default();
                record.fate = Decision::Restart { after: Duration::ZERO };
            }),
            Phase::BackingOff | Phase::Stopped => self.start_again(slot),
            Phase::Waiting => {}
        }
        Ok(())
    }
}
