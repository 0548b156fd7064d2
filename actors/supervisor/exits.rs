//! What follows an exit: first what the ended child left open is closed, then its fate is carried out.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorId;
use tokio::time::Instant;

use super::kernel::{SupervisorMessage, SupervisorState, answer};
use super::roster::{Phase, Slot, Wanted};
use super::starts::bounded;
use super::tree::LastExit;
use super::{
    Decision, Exit, ExitReport, History, NoticeKind, ReasonCode, Recovery, RestartType, StopReason, Strategy,
};

impl SupervisorState {
    pub(super) fn actor_ended(&mut self, actor: ActorId, exit: Exit) {
        let slot = self.by_actor.remove(&actor).and_then(|order| self.roster.by_order(order));
        match slot {
            Some(slot) => self.child_ended(&slot, exit),
            None if self.starts_in_flight > 0 => self.early.entry(actor).or_default().exit = Some(exit),
            None => {}
        }
    }

    pub(super) fn child_ended(&mut self, slot: &Arc<Slot>, exit: Exit) {
        let wanted = slot.with(|record| record.wanted);
        let fate = self.decide(slot, exit);
        slot.with(|record| {
            record.last_exit = Some(LastExit::new(exit, self.env.clock.now()));
            record.owed = Some(exit);
            record.answering = true;
            record.unreported = matches!(fate, Decision::Restart { .. }).then_some(exit);
            if matches!(wanted, Wanted::Again(_)) {
                record.wanted = Wanted::Up;
            }
        });
        let comes_back = matches!(fate, Decision::Restart { .. } | Decision::Quarantine);
        if comes_back && self.closing.is_none() && wanted != Wanted::Again(StopReason::Group) {
            self.stop_group_of(slot);
        }
        self.recover(slot);
    }

    /// Decides the fate of a child and keeps it for after the clean-up.
    fn decide(&self, slot: &Slot, exit: Exit) -> Decision {
        let (now, jitter) = (Instant::now(), self.env.jitter.next());
        let policy = &slot.spec.policy;
        let closing = self.closing.is_some();
        slot.with(|record| {
            if record.status.settled_count() > 0 {
                record.history = record.history.settled();
            }
            let (fate, history) = match record.wanted {
                Wanted::Up if !closing => policy.decide(&record.history, exit, now, jitter),
                Wanted::Again(reason) if !closing => {
                    let leaves = reason == StopReason::Group && policy.restart == RestartType::Temporary;
                    let again = Decision::Restart { after: Duration::ZERO };
                    (if leaves { Decision::Stopped } else { again }, record.history)
                }
                Wanted::Up | Wanted::Again(_) | Wanted::Down(_) | Wanted::Gone => {
                    (Decision::Stopped, record.history)
                }
            };
            record.history = history;
            record.fate = fate;
            fate
        })
    }

    /// Starts the task that closes what the last incarnation left open. The task waits for that incarnation
    /// to be really gone, which its exit event alone does not promise when this supervisor is a new one.
    pub(super) fn recover(&mut self, slot: &Arc<Slot>) {
        self.enter(slot, Phase::Recovering);
        let (turn, old, report) = slot.with(|record| {
            record.turn += 1;
            let exit = record.owed.unwrap_or(Exit::Killed);
            let report = ExitReport {
                name: slot.spec.name.clone(),
                path: self.child_path(slot),
                incarnation: record.incarnation,
                exit,
                at: record.last_exit.map_or_else(|| self.env.clock.now(), |last| last.at),
            };
            (record.turn, record.alive.as_ref().map(|started| started.cell.clone()), report)
        });
        let gone = old.as_ref().is_none_or(|cell| cell.get_status() >= ractor::ActorStatus::Stopping);
        if self.closing.as_ref().is_some_and(|closing| closing.hard) {
            return self.apply_fate(slot);
        }
        if slot.spec.on_exit.is_none() && gone {
            return self.recovered(slot.order, turn, Ok(Recovery::Done));
        }
        let (me, order, within) = (self.me.clone(), slot.order, slot.spec.recover_within);
        let hook = slot.spec.on_exit.clone();
        tokio::spawn(async move {
            let work = async move {
                if let Some(cell) = old {
                    // Without a bound of its own the wait cannot time out; the whole task has one.
                    cell.wait(None).await.ok();
                }
                match hook {
                    Some(hook) => hook(report).await,
                    None => Recovery::Done,
                }
            };
            let outcome = bounded(within, work).await;
            me.send_message(SupervisorMessage::Recovered { order, turn, outcome }).ok();
        });
    }

    pub(super) fn recovered(&mut self, order: u64, turn: u64, outcome: Result<Recovery, ReasonCode>) {
        let Some(slot) = self.roster.by_order(order) else { return };
        let (current, leaving) = slot.with(|record| {
            let current = record.phase == Phase::Recovering && record.turn == turn;
            (current, matches!(record.wanted, Wanted::Down(_) | Wanted::Gone))
        });
        if !current {
            return;
        }
        match outcome {
            Ok(Recovery::Done) => {
                slot.with(|record| {
                    record.owed = None;
                    record.put_off = 0;
                    record.alive = None;
                });
                self.apply_fate(&slot);
            }
            // A child that leaves is not held up: the scan at the next start finds what is open.
            Ok(Recovery::Later(_) | Recovery::Failed(_)) | Err(_) if leaving || self.closing.is_some() => {
                self.apply_fate(&slot);
            }
            Ok(Recovery::Later(code)) => self.put_off(&slot, code),
            Ok(Recovery::Failed(code)) | Err(code) => self.recovery_failed(&slot, code),
        }
    }

    fn put_off(&mut self, slot: &Arc<Slot>, code: ReasonCode) {
        let times = slot.with(|record| {
            record.put_off = record.put_off.saturating_add(1);
            record.put_off
        });
        if times == 1 {
            self.notify(slot, NoticeKind::Incident { code });
        }
        let delay = slot.spec.policy.backoff.delay(times, self.env.jitter.next());
        self.back_off(slot, delay);
        slot.with(|record| record.waits_for = Some(code));
    }

    fn recovery_failed(&mut self, slot: &Arc<Slot>, code: ReasonCode) {
        self.notify(slot, NoticeKind::Incident { code });
        let exit = Exit::Failed(ReasonCode::RECOVERY_FAILED);
        let now = self.env.clock.now();
        self.decide(slot, exit);
        slot.with(|record| record.last_exit = Some(LastExit::new(exit, now)));
        self.apply_fate(slot);
    }

    /// Carries out what was decided at the exit, unless something else has been asked for since.
    pub(super) fn apply_fate(&mut self, slot: &Arc<Slot>) {
        let (wanted, fate) = slot.with(|record| (record.wanted, record.fate));
        match (wanted, fate) {
            (Wanted::Gone, _) => self.leave(slot),
            (Wanted::Down(_), _) => self.rest(slot, Phase::Stopped),
            (Wanted::Up | Wanted::Again(_), _) if self.closing.is_some() => self.rest(slot, Phase::Stopped),
            (Wanted::Up | Wanted::Again(_), Decision::Restart { after }) if after.is_zero() => {
                self.rested(slot);
                self.ready(slot);
            }
            (Wanted::Up | Wanted::Again(_), Decision::Restart { after }) => {
                self.back_off(slot, after);
                self.rested(slot);
            }
            (Wanted::Up | Wanted::Again(_), Decision::Quarantine) => {
                self.rest(slot, Phase::Quarantined);
                self.notify_exhausted(slot, |exit, exits| NoticeKind::Quarantined { exit, exits });
            }
            (Wanted::Up | Wanted::Again(_), Decision::GiveUp) => {
                self.rest(slot, Phase::Stopped);
                self.notify_exhausted(slot, |exit, _| NoticeKind::GaveUp { exit });
                self.give_up(slot);
            }
            (Wanted::Up | Wanted::Again(_), Decision::Stopped)
                if slot.spec.policy.restart == RestartType::Temporary =>
            {
                self.leave(slot);
            }
            (Wanted::Up | Wanted::Again(_), Decision::Stopped) => self.rest(slot, Phase::Stopped),
        }
    }

    fn notify_exhausted(&self, slot: &Slot, notice: fn(Exit, u32) -> NoticeKind) {
        let (exit, exits) = slot.with(|record| {
            let exit = record.last_exit.map_or(Exit::Killed, |last| last.what);
            (exit, record.history.exits())
        });
        self.notify(slot, notice(exit, exits));
    }

    fn back_off(&self, slot: &Slot, delay: Duration) {
        self.enter(slot, Phase::BackingOff);
        let now = self.env.clock.now();
        let turn = slot.with(|record| {
            record.turn += 1;
            let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
            record.next_start_at = Some(now.plus_millis(millis));
            record.turn
        });
        self.later(delay, SupervisorMessage::Due { order: slot.order, turn });
    }

    /// The delay of a child is over.
    pub(super) fn due(&mut self, order: u64, turn: u64) {
        let Some(slot) = self.roster.by_order(order) else { return };
        let (current, owed) = slot
            .with(|record| (record.phase == Phase::BackingOff && record.turn == turn, record.owed.is_some()));
        if !current {
            return;
        }
        if owed {
            slot.with(|record| record.fate = Decision::Restart { after: Duration::ZERO });
            self.recover(&slot);
        } else {
            self.ready(&slot);
        }
    }

    /// Leaves a child down in `phase`.
    pub(super) fn rest(&mut self, slot: &Arc<Slot>, phase: Phase) {
        self.enter(slot, phase);
        let wanted = slot.with(|record| record.wanted);
        if let (Phase::Stopped, Wanted::Down(reason @ StopReason::Operator)) = (phase, wanted) {
            self.notify(slot, NoticeKind::Stopped { reason });
        }
        self.rested(slot);
        self.advance();
    }

    /// Takes a child out of the tree.
    pub(super) fn leave(&mut self, slot: &Arc<Slot>) {
        self.enter(slot, Phase::Stopped);
        self.roster.remove(slot);
        self.rested(slot);
        self.advance();
    }

    /// Notes that neither an actor nor a clean-up of this child is at work any more.
    fn rested(&mut self, slot: &Arc<Slot>) {
        for reply in self.waiters.remove(&slot.order).unwrap_or_default() {
            answer(reply, Ok(()));
        }
        if let Some(plan) = &mut self.plan
            && plan.in_flight.remove(&slot.order)
        {
            self.step_plan();
        }
    }

    /// Stops the siblings that cannot go on without `slot`; they wait for it and start after it.
    fn stop_group_of(&mut self, slot: &Slot) {
        if self.roster.strategy == Strategy::OneForOne {
            return;
        }
        let affected = |other: &Slot| match self.roster.strategy {
            Strategy::OneForOne => false,
            Strategy::RestForOne => other.order > slot.order,
            Strategy::OneForAll => other.order != slot.order,
        };
        let alive = |other: &Slot| matches!(other.phase(), Phase::Starting | Phase::Running);
        let group: Vec<_> =
            self.roster.slots().into_iter().filter(|other| affected(other) && alive(other)).collect();
        if !group.is_empty() {
            self.add_to_plan(group, Wanted::Again(StopReason::Group));
        }
    }

    /// Gives up: the others are stopped in order, then this supervisor ends with a reason its own sees.
    fn give_up(&mut self, slot: &Slot) {
        let below = slot.spec.nested.as_ref().and_then(|nested| nested.own(|own| own.verdict.clone()));
        let exit = slot.with(|record| record.last_exit.map_or(Exit::Killed, |last| last.what));
        let fatal = below.and_then(|verdict| verdict.fatal).unwrap_or_else(|| (self.child_path(slot), exit));
        slot.with(|record| record.history = History::default());
        self.close(StopReason::GaveUp, Some(fatal));
    }
}
