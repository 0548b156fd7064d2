//! `thought run`: attempts of consumers.

use clap::{Args, Subcommand};
use thoughtstream_domain::id::{ConsumerId, SourceId};

use super::asking;
use crate::ask::{Ask, RunFilter};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::runs::{RunReport, RunRow};
use crate::render;
use crate::session::Session;

/// Is what can be done with runs.
#[derive(Debug, Subcommand)]
pub enum RunCommand {
    /// List attempts, the newest first
    List(ListArgs),
    /// Show one execution with all its attempts and their events
    Show(ShowArgs),
}

/// Says which attempts are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only attempts of this consumer
    #[arg(long)]
    pub consumer: Option<ConsumerId>,
    /// Only attempts on this source
    #[arg(long)]
    pub source: Option<SourceId>,
    /// Only attempts in this state; may be repeated; `open` stands for received and started
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
}

/// Names an attempt or an execution.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// `run_…` or `exe_…`
    pub id: String,
}

/// Runs a run command.
///
/// # Errors
/// [`Failure`] as the answer says.
pub fn run(command: RunCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        RunCommand::List(ListArgs { consumer, source, states, limit }) => {
            let filter = RunFilter { consumer, source, states, limit };
            asking::list(session, Ask::Runs(filter), out, |runs: &[RunRow]| {
                render::runs::list(runs, session.now())
            })
        }
        RunCommand::Show(ShowArgs { id }) => {
            asking::one(session, Ask::Run { id }, out, |report: RunReport| {
                render::runs::report(&report, session.now())
            })
        }
    }
}
