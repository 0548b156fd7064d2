//! The supervisor actor: its messages, its state, its loop.
//!
//! Nothing in here awaits anything. Starting a child and tidying up after one run in tasks that report back,
//! so a child that hangs while it starts delays nobody. What happens on an exit is in `exits.rs`, on a start
//! in `starts.rs`, on a stop in `stops.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use super::exit::classify;
use super::roster::{Phase, Roster, Slot, Wanted};
use super::tree::ChildState;
use super::{
    ChildSpec, CommandError, Env, Exit, Fault, Notice, NoticeKind, ReasonCode, Recovery, Started, StopOrder,
    StopReason,
};

/// Two supervisors were given one set of children.
const ROSTER_IN_USE: ReasonCode = ReasonCode::new("roster-in-use");

pub(crate) type Reply = oneshot::Sender<Result<(), CommandError>>;

pub(crate) enum SupervisorMessage {
    StartEnded { order: u64, incarnation: u64, result: Result<Started, ReasonCode> },
    Recovered { order: u64, turn: u64, outcome: Result<Recovery, ReasonCode> },
    Due { order: u64, turn: u64 },
    StopOverdue { order: u64, incarnation: u64 },
    KillOverdue { order: u64, incarnation: u64 },
    Add(Box<ChildSpec>, Reply),
    Command { name: String, command: Command, reply: Reply },
    Shutdown(StopReason),
    CloseOverdue,
    Ping(oneshot::Sender<()>),
}

/// What can be asked of one child.
pub(crate) enum Command {
    Stop,
    Restart(StopReason),
    Resume,
    Remove,
}

pub(crate) struct Supervisor;

pub(crate) struct SupervisorArguments {
    pub(crate) roster: Arc<Roster>,
    pub(crate) env: Env,
    pub(crate) path: Arc<str>,
}

/// What is known of an actor whose start has not been reported yet: supervision events overtake messages.
#[derive(Default)]
pub(super) struct Early {
    pub(super) running: bool,
    pub(super) exit: Option<Exit>,
}

/// Children still to be stopped, the next one last.
pub(super) struct StopPlan {
    pub(super) stack: Vec<Arc<Slot>>,
    pub(super) in_flight: BTreeSet<u64>,
    pub(super) wanted: Wanted,
}

pub(super) struct Closing {
    pub(super) reason: StopReason,
    pub(super) fatal: Option<(Arc<str>, Exit)>,
    pub(super) hard: bool,
}

pub(crate) struct SupervisorState {
    pub(super) roster: Arc<Roster>,
    pub(super) env: Env,
    pub(super) path: Arc<str>,
    pub(super) me: ActorRef<SupervisorMessage>,
    pub(super) by_actor: BTreeMap<ActorId, u64>,
    pub(super) early: BTreeMap<ActorId, Early>,
    pub(super) starts_in_flight: usize,
    pub(super) waiters: BTreeMap<u64, Vec<Reply>>,
    pub(super) plan: Option<StopPlan>,
    pub(super) closing: Option<Closing>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = SupervisorArguments;

    async fn pre_start(
        &self,
        me: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let SupervisorArguments { roster, env, path } = arguments;
        let taken = roster.own(|own| {
            let taken =
                own.actor.as_ref().is_some_and(|other| other.get_status() < ractor::ActorStatus::Stopping);
            if !taken {
                own.actor = Some(me.clone());
                own.state = Some((ChildState::Starting, env.clock.now()));
                own.verdict = None;
            }
            taken
        });
        if taken {
            return Err(Fault(ROSTER_IN_USE).into());
        }
        Ok(SupervisorState {
            roster,
            env,
            path,
            me,
            by_actor: BTreeMap::new(),
            early: BTreeMap::new(),
            starts_in_flight: 0,
            waiters: BTreeMap::new(),
            plan: None,
            closing: None,
        })
    }

    async fn post_start(
        &self,
        _: ActorRef<Self::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        state.begin();
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::StartEnded { order, incarnation, result } => {
                state.start_ended(order, incarnation, result);
            }
            SupervisorMessage::Recovered { order, turn, outcome } => state.recovered(order, turn, outcome),
            SupervisorMessage::Due { order, turn } => state.due(order, turn),
            SupervisorMessage::StopOverdue { order, incarnation } => state.stop_overdue(order, incarnation),
            SupervisorMessage::KillOverdue { order, incarnation } => state.kill_overdue(order, incarnation),
            SupervisorMessage::Add(spec, reply) => answer(reply, state.start_child(*spec)),
            SupervisorMessage::Command { name, command, reply } => state.command(&name, command, reply),
            SupervisorMessage::Shutdown(reason) => state.shutdown(reason),
            SupervisorMessage::CloseOverdue => state.finish_closing(),
            SupervisorMessage::Ping(reply) => {
                reply.send(()).ok();
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some((actor, exit)) = classify(&event) {
            state.actor_ended(actor, exit);
        } else if let SupervisionEvent::ActorStarted(cell) = event {
            state.actor_running(cell.get_id());
        }
        Ok(())
    }

    /// Runs when somebody stopped this actor directly instead of asking it to close: its children get their
    /// own stop all the same, in order; what they leave open is found by the next start.
    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if state.closing.is_none() {
            state.stop_all_in_place().await;
        }
        state.roster.own(|own| own.state = Some((ChildState::Stopped, state.env.clock.now())));
        state.roster.changed();
        Ok(())
    }
}

impl SupervisorState {
    /// Takes over the children, whatever state the supervisor before left them in, and starts them.
    fn begin(&mut self) {
        self.roster.own(|own| own.state = Some((ChildState::Running, self.env.clock.now())));
        for slot in self.roster.slots() {
            self.adopt(&slot);
        }
        self.roster.changed();
        self.advance();
    }

    pub(super) fn child_path(&self, slot: &Slot) -> Arc<str> {
        format!("{}/{}", self.path, slot.spec.name).into()
    }

    /// Moves a child to `phase`, and lets everybody know.
    pub(super) fn enter(&self, slot: &Slot, phase: Phase) {
        let now = self.env.clock.now();
        slot.with(|record| {
            record.phase = phase;
            record.since = now;
            if phase != Phase::BackingOff {
                record.next_start_at = None;
                record.waits_for = None;
            }
        });
        self.roster.changed();
    }

    pub(super) fn notify(&self, slot: &Slot, what: NoticeKind) {
        let path = self.child_path(slot);
        let incarnation = slot.with(|record| record.incarnation);
        tracing::info!(path = &*path, incarnation, notice = what.name(), "supervision");
        let at = self.env.clock.now();
        self.env.notices.take(Notice { path, kind: slot.spec.kind, incarnation, at, what });
    }

    /// Sends `message` to this supervisor itself after `delay`.
    pub(super) fn later(&self, delay: Duration, message: SupervisorMessage) {
        let me = self.me.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // A supervisor that has gone needs no reminder.
            me.send_message(message).ok();
        });
    }

    fn command(&mut self, name: &str, command: Command, reply: Reply) {
        let slot = match self.roster.by_name(name) {
            _ if self.closing.is_some() => return answer(reply, Err(CommandError::Closing)),
            None => return answer(reply, Err(CommandError::Unknown)),
            Some(slot) => slot,
        };
        match command {
            Command::Stop => self.stop_child(&slot, Wanted::Down(StopReason::Operator), reply),
            Command::Remove => self.stop_child(&slot, Wanted::Gone, reply),
            Command::Restart(reason) => answer(reply, self.restart_child(&slot, reason)),
            Command::Resume => answer(reply, self.resume_child(&slot)),
        }
    }

    pub(super) fn stops_together(&self) -> bool {
        self.roster.stop_order == StopOrder::Together
    }
}

/// Answers a command; whoever asked may have gone, which is their business.
pub(super) fn answer(reply: Reply, result: Result<(), CommandError>) {
    reply.send(result).ok();
}
