//! Brings a tree up and waits for its end.

use std::sync::Arc;

use ractor::Actor;
use tokio::sync::watch;

use super::exit::classify_spawn;
use super::kernel::{Supervisor, SupervisorArguments};
use super::{Env, Exit, ReasonCode, StartError, StopReason, SupervisorHandle, SupervisorSpec};

/// How a whole tree ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was asked to.
    Stopped,
    /// It could not keep an actor alive that it cannot do without.
    Fatal {
        /// The actor, by its path.
        path: Arc<str>,
        /// How it ended the last time.
        exit: Exit,
    },
}

impl Outcome {
    /// Returns the process exit code: 0, or 70 so that the service manager starts it anew.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::Fatal { .. } => 70,
        }
    }
}

/// A tree that has been brought up.
#[derive(Debug)]
pub struct Root {
    handle: SupervisorHandle,
    outcome: watch::Receiver<Option<Outcome>>,
}

/// Starts the tree that `spec` declares. Its children come up by and by: see [`SupervisorHandle::wait_started`].
///
/// # Errors
/// When the root's name is taken or the spec is in use by another tree.
pub async fn launch(spec: SupervisorSpec, env: Env) -> Result<Root, StartError> {
    let handle = spec.handle();
    let roster = spec.roster;
    let path: Arc<str> = roster.name.as_str().into();
    let arguments = SupervisorArguments { roster: Arc::clone(&roster), env, path: Arc::clone(&path) };
    let spawned = Supervisor::spawn(Some(path.to_string()), Supervisor, arguments).await;
    let (_, joined) = spawned.map_err(|error| StartError(classify_spawn(&error)))?;
    let (sender, outcome) = watch::channel(None);
    tokio::spawn(async move {
        let ended = joined.await;
        let verdict = roster.own(|own| own.verdict.clone());
        let outcome = match verdict.map(|verdict| (verdict.reason, verdict.fatal)) {
            Some((StopReason::GaveUp, Some((path, exit)))) => Outcome::Fatal { path, exit },
            Some(_) => Outcome::Stopped,
            None if ended.is_ok() => Outcome::Fatal { path, exit: Exit::Killed },
            None => Outcome::Fatal { path, exit: Exit::Failed(ReasonCode::PANICKED) },
        };
        sender.send_replace(Some(outcome));
    });
    Ok(Root { handle, outcome })
}

impl Root {
    /// Returns the handle to the root supervisor.
    pub fn handle(&self) -> &SupervisorHandle {
        &self.handle
    }

    /// Waits for the tree to end. It may be called again.
    pub async fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.clone();
        let ended = outcome.wait_for(Option::is_some).await;
        let ended = ended.map(|outcome| outcome.clone());
        // The task that knows the outcome can only vanish with the runtime.
        ended.ok().flatten().unwrap_or(Outcome::Stopped)
    }

    /// Asks the tree to close in order; a second time, by force.
    pub fn stop(&self) {
        self.handle.shut_down();
    }
}
