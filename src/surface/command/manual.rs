//! `thought completions` and `thought man`: made from the command's own definition.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use crate::cli::definition;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;

/// Names the shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Names where the pages go.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one page for each command into this directory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Writes a completion script.
///
/// # Errors
/// [`Failure`] if the output cannot be written.
pub fn completions(args: &CompletionsArgs, out: &mut Out) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "thought", &mut script);
    out.bytes(&script)?;
    Ok(Exit::Done)
}

/// Writes the manual page, or all of them.
///
/// # Errors
/// [`Failure`] if the output or a file cannot be written.
pub fn man(args: &ManArgs, out: &mut Out) -> Result<Exit, Failure> {
    match &args.dir {
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(definition(), dir))
            .map_err(|error| {
                Failure::new(
                    Exit::CouldNotLook,
                    "man.write",
                    format!("cannot write pages into `{}`", dir.display()),
                )
                .because(&error)
            })?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(definition()).render(&mut page).map_err(crate::out::OutError::from)?;
            out.bytes(&page)?;
        }
    }
    Ok(Exit::Done)
}
