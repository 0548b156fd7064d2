//! `thought source`: where events come from.

use clap::{Args, Subcommand};
use thoughtstream_domain::id::SourceId;

use super::{asking, operating};
use crate::ask::{Ask, Operate};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::sources::SourceRow;
use crate::render;
use crate::session::Session;

/// Is what can be done with sources.
#[derive(Debug, Subcommand)]
pub enum SourceCommand {
    /// List the sources of the log
    List,
    /// Look at a watched folder now, or let a bot that waits after a failure ask again now
    Look(IdArgs),
    /// Name the files that the last look at a watched folder skipped, each with the reason
    Skipped(IdArgs),
    /// Let removals pass that a watched folder holds until you say that they are meant
    AcceptRemovals(IdArgs),
}

/// Names a source.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// The source, `filesystem:NAME`
    pub source: SourceId,
}

/// Runs a source command.
///
/// # Errors
/// [`Failure`] as each says.
pub fn run(command: SourceCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        SourceCommand::List => asking::list(session, Ask::Sources, out, |rows: &[SourceRow]| {
            render::sources::list(rows, session.now())
        }),
        SourceCommand::Look(IdArgs { source }) => {
            operating::operate(session, Operate::LookAt { source }, out)
        }
        SourceCommand::Skipped(IdArgs { source }) => {
            asking::list(session, Ask::Skipped { source }, out, render::sources::skipped)
        }
        SourceCommand::AcceptRemovals(IdArgs { source }) => {
            operating::operate(session, Operate::AcceptRemovals { source }, out)
        }
    }
}
