//! `thought declaration`: what the declarations say, and what is wrong with them.

use clap::Subcommand;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::session::Session;

/// Is what can be done with declarations.
#[derive(Debug, Subcommand)]
pub enum DeclarationCommand {
    /// Read configuration, declarations, prompts and schemas, and report everything that is wrong
    Check,
    /// List the declarations
    List,
}

/// Runs a declaration command.
///
/// # Errors
/// [`Failure`] if the files cannot be read or are not right.
pub fn run(_command: DeclarationCommand, _session: &Session, _out: &mut Out) -> Result<Exit, Failure> {
    Ok(Exit::Done)
}
