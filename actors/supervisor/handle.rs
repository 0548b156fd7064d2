//! What others may ask of a supervisor.

use std::fmt;
use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::kernel::{Command, Reply, SupervisorMessage};
use super::roster::{Phase, Roster, Slot};
use super::tree::{self, ChildState, TreeNode};
use super::{ChildSpec, StopReason};

/// Why a supervisor did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It has no child of that name.
    #[error("there is no such actor")]
    Unknown,
    /// It has a child of that name already.
    #[error("an actor of that name is already there")]
    NameTaken,
    /// That cannot be done to a child in this state.
    #[error("the actor is {}", .0.as_str())]
    WrongState(ChildState),
    /// The child did not end within its bounds; it is left to itself.
    #[error("the actor answers neither a stop nor a kill")]
    NotAnswering,
    /// The supervisor is going down.
    #[error("the service is stopping")]
    Closing,
    /// The supervisor is not running, or ended before it answered; the outcome is unknown.
    #[error("the supervisor is not running at the moment")]
    NoSupervisor,
}

/// For what a child is started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartCause {
    /// A person asked for it.
    Requested,
    /// Its declaration or configuration changed.
    Reloaded,
}

/// Reaches one supervisor, whichever incarnation of it runs.
#[derive(Clone)]
pub struct SupervisorHandle(Arc<Roster>);

impl SupervisorHandle {
    pub(crate) fn new(roster: Arc<Roster>) -> Self {
        Self(roster)
    }

    /// Adds a child and starts it. It stays declared when the supervisor itself is restarted.
    ///
    /// # Errors
    /// When the name is taken or the supervisor does not run.
    pub async fn start_child(&self, spec: ChildSpec) -> Result<(), CommandError> {
        self.ask(|reply| SupervisorMessage::Add(Box::new(spec), reply)).await
    }

    /// Stops a child and answers when it is down; it stays in the tree.
    ///
    /// # Errors
    /// When there is no such child or it does not end.
    pub async fn stop_child(&self, name: &str) -> Result<(), CommandError> {
        self.command(name, Command::Stop).await
    }

    /// Starts a child anew and answers as soon as that is under way; a child that is down is started.
    ///
    /// # Errors
    /// When there is no such child, or it is quarantined and waits to be resumed.
    pub async fn restart_child(&self, name: &str, cause: RestartCause) -> Result<(), CommandError> {
        let reason = match cause {
            RestartCause::Requested => StopReason::Restart,
            RestartCause::Reloaded => StopReason::Reload,
        };
        self.command(name, Command::Restart(reason)).await
    }

    /// Releases a quarantined child, its count of exits forgotten.
    ///
    /// # Errors
    /// When there is no such child or it is not quarantined.
    pub async fn resume(&self, name: &str) -> Result<(), CommandError> {
        self.command(name, Command::Resume).await
    }

    /// Stops a child and takes it out of the tree; answers when that is done.
    ///
    /// # Errors
    /// When there is no such child or it does not end.
    pub async fn remove(&self, name: &str) -> Result<(), CommandError> {
        self.command(name, Command::Remove).await
    }

    /// Kills the actor at `path` (names below this supervisor, joined by `/`), as a fault would. For chaos
    /// tests and rehearsals; what follows is what its supervisor decides.
    ///
    /// # Errors
    /// When nobody of that path is alive.
    pub fn kill(&self, path: &str) -> Result<(), CommandError> {
        let slot = find(&self.0, path).ok_or(CommandError::Unknown)?;
        let cell = slot.cell().ok_or_else(|| CommandError::WrongState(slot.with(|record| record.state())))?;
        cell.kill();
        Ok(())
    }

    /// Asks the supervisor to close in order; a second time, by force.
    pub fn shut_down(&self) {
        if let Some(actor) = self.actor() {
            // One that has ended needs no telling.
            actor.send_message(SupervisorMessage::Shutdown(StopReason::Shutdown)).ok();
        }
    }

    /// Returns the tree below this supervisor, without asking anybody.
    pub fn snapshot(&self) -> TreeNode {
        tree::read(&self.0)
    }

    /// Returns the tree, having asked those that can be asked whether they still handle messages. It takes as
    /// long as one silent actor's bound at most, and whoever stops waiting for it disturbs nothing.
    pub async fn tree(&self) -> TreeNode {
        let actor = self.actor();
        let own = async {
            match actor {
                Some(actor) => tree::answers(ping(actor)).await,
                None => true,
            }
        };
        let (answering, mut root) = tokio::join!(own, tree::probe(&self.0));
        root.answering = answering;
        root
    }

    /// Waits until the child `name` satisfies `wanted`, and returns how it looked then. A child that is not
    /// there is waited for too.
    pub async fn wait_until(&self, name: &str, wanted: impl Fn(&TreeNode) -> bool) -> TreeNode {
        let mut changes = self.0.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(node) = self.0.by_name(name).map(|slot| tree::read_slot(&slot)).filter(&wanted) {
                return node;
            }
            changes.changed().await.expect("this handle holds the sending half");
        }
    }

    /// Waits until every child of this supervisor and of those below it has come up, or is known not to.
    pub async fn wait_started(&self) {
        let mut rosters = vec![Arc::clone(&self.0)];
        while let Some(roster) = rosters.pop() {
            let mut changes = roster.subscribe();
            loop {
                changes.mark_unchanged();
                let slots = roster.slots();
                let begun =
                    roster.own(|own| own.state.is_some_and(|(state, _)| state != ChildState::Starting));
                if begun && have_come_up(&slots) {
                    let running = slots.iter().filter(|slot| slot.phase() == Phase::Running);
                    rosters.extend(running.filter_map(|slot| slot.spec.nested.clone()));
                    break;
                }
                changes.changed().await.expect("this handle holds the sending half");
            }
        }
    }

    #[cfg(test)]
    pub(super) fn roster(&self) -> &Roster {
        &self.0
    }

    fn actor(&self) -> Option<ActorRef<SupervisorMessage>> {
        self.0.own(|own| own.actor.clone())
    }

    async fn command(&self, name: &str, command: Command) -> Result<(), CommandError> {
        let name = name.to_owned();
        self.ask(|reply| SupervisorMessage::Command { name, command, reply }).await
    }

    async fn ask(&self, message: impl FnOnce(Reply) -> SupervisorMessage) -> Result<(), CommandError> {
        let actor = self.actor().ok_or(CommandError::NoSupervisor)?;
        let (reply, answer) = oneshot::channel();
        let sent = actor.send_message(message(reply));
        sent.map_err(|_| CommandError::NoSupervisor)?;
        answer.await.unwrap_or(Err(CommandError::NoSupervisor))
    }
}

impl fmt::Debug for SupervisorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SupervisorHandle").field(&self.0.name).finish()
    }
}

/// Tells whether every child has come up or is known not to: one that waits behind a quarantined sibling
/// waits for a person.
fn have_come_up(slots: &[Arc<Slot>]) -> bool {
    let mut blocked = false;
    slots.iter().all(|slot| match slot.phase() {
        Phase::Starting | Phase::Recovering => false,
        Phase::Waiting => blocked,
        Phase::Quarantined => {
            blocked = true;
            true
        }
        Phase::Running | Phase::BackingOff | Phase::Stopping | Phase::Stopped => true,
    })
}

fn find(roster: &Roster, path: &str) -> Option<Arc<Slot>> {
    let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let slot = roster.by_name(name)?;
    match rest {
        None => Some(slot),
        Some(rest) => find(slot.spec.nested.as_deref()?, rest),
    }
}

/// Ends when `supervisor` has handled a message, or has ended.
pub(super) async fn ping(supervisor: ActorRef<SupervisorMessage>) {
    let (reply, answer) = oneshot::channel();
    if supervisor.send_message(SupervisorMessage::Ping(reply)).is_ok() {
        // An error means that it ended meanwhile, which its state shows.
        answer.await.ok();
    }
}
