//! `thought context`: what the models of runs saw.

use clap::{Args, Subcommand};

use super::asking;
use crate::ask::Ask;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::context::{ContextDiff, ContextReport};
use crate::render;
use crate::session::Session;

/// Is what can be done with contexts.
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// Show what the model of a run saw, and everything that was left out of it or changed
    Show(ShowArgs),
    /// Show how what the models of two runs saw differs
    Diff(DiffArgs),
}

/// Names a run.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// `run_…` or `exe_…`
    pub id: String,
    /// Show the texts also where no person looks; a terminal always shows them
    #[arg(long)]
    pub content: bool,
}

/// Names two runs.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// `run_…` or `exe_…`
    pub one: String,
    /// The other one
    pub other: String,
    /// Show the texts also where no person looks; a terminal always shows them
    #[arg(long)]
    pub content: bool,
}

/// Runs a context command.
///
/// # Errors
/// [`Failure`] as the answer says.
pub fn run(command: ContextCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let is_seen = out.is_terminal();
    match command {
        ContextCommand::Show(ShowArgs { id, content }) => {
            let ask = Ask::Context { id, content: content || is_seen };
            asking::one(session, ask, out, |report: ContextReport| render::context::report(&report))
        }
        ContextCommand::Diff(DiffArgs { one, other, content }) => {
            let ask = Ask::ContextDiff { one, other, content: content || is_seen };
            asking::one(session, ask, out, |diff: ContextDiff| render::context::diff(&diff))
        }
    }
}
