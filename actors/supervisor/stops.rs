//! Stopping children: in reverse start order, each within its bound, then by force.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::kernel::{Closing, Reply, StopPlan, SupervisorMessage, SupervisorState, answer};
use super::roster::{Phase, Slot, Verdict, Wanted};
use super::tree::ChildState;
use super::{CommandError, Exit, NoticeKind, ReasonCode, Shutdown, StopReason};

/// A kill acts at the next await of a handler; one that does not end by then sits in blocking work, and
/// waiting longer would hold up everybody else.
const KILL_GRACE: Duration = Duration::from_secs(2);

impl SupervisorState {
    pub(super) fn stop_child(&mut self, slot: &Arc<Slot>, wanted: Wanted, reply: Reply) {
        self.order_stop(slot, wanted);
        if slot.phase().is_busy() {
            self.waiters.entry(slot.order).or_default().push(reply);
        } else {
            answer(reply, Ok(()));
        }
    }

    /// Sees to it that `slot` ends and that `wanted` follows.
    pub(super) fn order_stop(&mut self, slot: &Arc<Slot>, wanted: Wanted) {
        let phase = slot.phase();
        let shutdown = wanted == Wanted::Down(StopReason::Shutdown);
        match phase {
            Phase::Starting | Phase::Running => {
                slot.with(|record| record.wanted = wanted);
                self.enter(slot, Phase::Stopping);
                self.signal_stop(slot);
            }
            // A person's stop or removal is not taken back by the tree going down.
            Phase::Recovering | Phase::Stopping => slot.with(|record| {
                if !(shutdown && matches!(record.wanted, Wanted::Down(_) | Wanted::Gone)) {
                    record.wanted = wanted;
                }
            }),
            Phase::Quarantined | Phase::Stopped if shutdown => {}
            Phase::Waiting | Phase::BackingOff | Phase::Quarantined | Phase::Stopped => match wanted {
                Wanted::Gone => self.leave(slot),
                Wanted::Down(_) => {
                    slot.with(|record| record.wanted = wanted);
                    if phase != Phase::Stopped {
                        self.rest(slot, Phase::Stopped);
                    }
                }
                // It is down anyway, and comes back in its own time.
                Wanted::Up | Wanted::Again(_) => {}
            },
        }
    }

    /// Tells the actor to stop in the manner of its spec, and sets the bound. When it has not come up yet,
    /// this is done as soon as it has.
    pub(super) fn signal_stop(&mut self, slot: &Arc<Slot>) {
        let (alive, incarnation, wanted) =
            slot.with(|record| (record.alive.clone(), record.incarnation, record.wanted));
        let order = slot.order;
        let reason = match wanted {
            Wanted::Again(reason) | Wanted::Down(reason) => reason,
            Wanted::Gone => StopReason::Removed,
            Wanted::Up => StopReason::Shutdown,
        };
        let stop_text = || Some(reason.stop_text());
        match (alive, slot.spec.shutdown) {
            (None, _) => {}
            (Some(started), Shutdown::Kill) => started.cell.kill(),
            (Some(started), Shutdown::Stop(_)) => started.cell.stop(stop_text()),
            (Some(started), Shutdown::Drain(_)) => {
                if started.cell.drain().is_err() {
                    started.cell.stop(stop_text());
                }
            }
            (Some(started), Shutdown::Ask(_)) => match &started.ask {
                Some(ask) => ask(reason),
                None => started.cell.stop(stop_text()),
            },
        }
        let alone = slot.spec.shutdown.within();
        let within = if self.closing.is_some() { slot.spec.drain.unwrap_or(alone) } else { alone };
        self.later(within, SupervisorMessage::StopOverdue { order, incarnation });
    }

    fn overdue(&self, order: u64, incarnation: u64) -> Option<Arc<Slot>> {
        let slot = self.roster.by_order(order)?;
        let overdue =
            slot.with(|record| record.phase == Phase::Stopping && record.incarnation == incarnation);
        overdue.then_some(slot)
    }

    pub(super) fn stop_overdue(&mut self, order: u64, incarnation: u64) {
        let Some(slot) = self.overdue(order, incarnation) else { return };
        if let Some(cell) = slot.cell() {
            cell.kill();
        }
        self.later(KILL_GRACE, SupervisorMessage::KillOverdue { order, incarnation });
    }

    /// Neither stop nor kill ended it. It is shown as such, never started a second time beside itself, and
    /// nobody waits for it any longer.
    pub(super) fn kill_overdue(&mut self, order: u64, incarnation: u64) {
        let Some(slot) = self.overdue(order, incarnation) else { return };
        let first = slot.with(|record| std::mem::replace(&mut record.answering, false));
        if first {
            self.roster.changed();
            self.notify(&slot, NoticeKind::Incident { code: ReasonCode::NOT_ANSWERING });
        }
        for reply in self.waiters.remove(&order).unwrap_or_default() {
            answer(reply, Err(CommandError::NotAnswering));
        }
        if let Some(plan) = &mut self.plan
            && plan.in_flight.remove(&order)
        {
            self.step_plan();
        }
    }

    /// Stops `group` (in start order) too, together with what is being stopped already.
    pub(super) fn add_to_plan(&mut self, group: Vec<Arc<Slot>>, wanted: Wanted) {
        let plan = self.plan.get_or_insert_with(|| StopPlan {
            stack: Vec::new(),
            in_flight: BTreeSet::new(),
            wanted,
        });
        plan.wanted = wanted;
        plan.stack.extend(group);
        plan.stack.sort_by_key(|slot| slot.order);
        plan.stack.dedup_by_key(|slot| slot.order);
        self.step_plan();
    }

    /// Stops the next of the plan: one after the other, or all at once where the order does not matter.
    pub(super) fn step_plan(&mut self) {
        loop {
            let together = self.stops_together();
            let Some(plan) = &mut self.plan else { return };
            if !together && !plan.in_flight.is_empty() {
                return;
            }
            let Some(slot) = plan.stack.pop() else {
                if plan.in_flight.is_empty() {
                    self.plan = None;
                    self.plan_done();
                }
                return;
            };
            // Noted only afterwards, and only if there is something to wait for: a child that is down already
            // must not call back into this loop, or ten thousand of them would nest as deep.
            let wanted = plan.wanted;
            self.order_stop(&slot, wanted);
            let waits = slot.with(|record| record.phase.is_busy() && record.answering);
            if let (true, Some(plan)) = (waits, &mut self.plan) {
                plan.in_flight.insert(slot.order);
            }
        }
    }

    fn plan_done(&mut self) {
        if self.closing.is_some() { self.finish_closing() } else { self.advance() }
    }

    /// Closes in order; a second request while that goes on ends it by force.
    pub(super) fn shutdown(&mut self, reason: StopReason) {
        match &mut self.closing {
            None => self.close(reason, None),
            Some(closing) if closing.hard => {}
            Some(closing) => {
                closing.hard = true;
                self.close_hard();
            }
        }
    }

    pub(super) fn close(&mut self, reason: StopReason, fatal: Option<(Arc<str>, Exit)>) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(Closing { reason, fatal, hard: false });
        self.roster.own(|own| own.state = Some((ChildState::Stopping, self.env.clock.now())));
        self.roster.changed();
        self.plan = None;
        self.add_to_plan(self.roster.slots(), Wanted::Down(StopReason::Shutdown));
    }

    fn close_hard(&mut self) {
        let mut in_flight = BTreeSet::new();
        for slot in self.roster.slots() {
            if let (Phase::Starting | Phase::Running | Phase::Stopping, Some(cell)) =
                (slot.phase(), slot.cell())
            {
                slot.with(|record| record.wanted = Wanted::Down(StopReason::Shutdown));
                self.enter(&slot, Phase::Stopping);
                in_flight.insert(slot.order);
                cell.kill();
            }
        }
        let wanted = Wanted::Down(StopReason::Shutdown);
        self.plan = Some(StopPlan { stack: Vec::new(), in_flight, wanted });
        self.later(KILL_GRACE, SupervisorMessage::CloseOverdue);
        self.step_plan();
    }

    pub(super) fn finish_closing(&mut self) {
        let Some(closing) = &self.closing else { return };
        let verdict = Verdict { reason: closing.reason, fatal: closing.fatal.clone() };
        let text = verdict.reason.stop_text();
        self.roster.own(|own| own.verdict = Some(verdict));
        self.me.stop(Some(text));
    }

    /// The orderly stop of last resort, without exit hooks: see `post_stop`.
    pub(super) async fn stop_all_in_place(&self) {
        let text = StopReason::Shutdown.stop_text();
        for slot in self.roster.slots().into_iter().rev() {
            let Some(cell) = slot.cell() else { continue };
            let within = slot.spec.shutdown.within();
            if cell.stop_and_wait(Some(text.clone()), Some(within)).await.is_err()
                && cell.kill_and_wait(Some(KILL_GRACE)).await.is_err()
            {
                tracing::warn!(child = slot.spec.name.as_str(), "still there after a stop and a kill");
            }
        }
    }
}
