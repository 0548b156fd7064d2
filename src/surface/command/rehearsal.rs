//! `thought rehearsal`: a log on which things may be made to fail, and the making.

use clap::{Args, Subcommand};
use thoughtstream_effects::dirs::PrivateDir;

use super::init::data_failure;
use super::operating;
use crate::ask::Operate;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::rehearsal;
use crate::render::line;
use crate::session::Session;
use crate::submit::check_place;

/// Is what can be done in a rehearsal.
#[derive(Debug, Subcommand)]
pub enum RehearsalCommand {
    /// Make a log for rehearsal in the data directory; it stays one for ever
    Create,
    /// Kill an actor of the running service, as a fault would
    Kill(KillArgs),
    /// Set a trap at a named point; the service's log tells who runs into it
    Arm(ArmArgs),
}

/// Names an actor.
#[derive(Debug, Args)]
pub struct KillArgs {
    /// The actor's path, like `consumers/document-links`; with or without the root of the tree before it
    pub path: String,
}

/// Says where what happens.
#[derive(Debug, Args)]
pub struct ArmArgs {
    /// The kill point, like `attempt.settle.before`
    pub point: String,
    /// What happens there: panic, fail, kill-actor, abort-process or hold
    pub action: String,
    /// At which passage, counted from now
    #[arg(long, default_value_t = 1)]
    pub passage: u32,
    /// Count only the passages of this actor, like `consumers/document-links`; with or without the root of the tree
    #[arg(long)]
    pub actor: Option<String>,
}

/// Runs a rehearsal command.
///
/// # Errors
/// [`Failure`] if the log holds real work, or as each says.
pub fn run(command: RehearsalCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        RehearsalCommand::Create => {
            let data = &session.places.data;
            PrivateDir::create(data).map_err(|error| data_failure(&error))?;
            check_place(data)?;
            rehearsal::create(data)?;
            out.line(&format!("a log for rehearsal in {}", line(&data.display().to_string())))?;
            Ok(Exit::Done)
        }
        RehearsalCommand::Kill(KillArgs { path }) => operating::operate(session, Operate::Kill { path }, out),
        RehearsalCommand::Arm(ArmArgs { point, action, passage, actor }) => {
            operating::operate(session, Operate::Arm { point, action, passage, actor }, out)
        }
    }
}
