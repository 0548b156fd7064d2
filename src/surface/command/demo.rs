//! `thought demo`: the main job on a folder of yours, with a death in the middle of it.

use std::path::PathBuf;

use clap::Args;

use crate::demo;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;

/// Says what is demonstrated on.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The folder to watch; sample notes if none is named
    pub dir: Option<PathBuf>,
    /// Show a conversation instead: somebody writes to a bot, a model answers, and you decide what it remembers
    #[arg(long, conflicts_with = "dir")]
    pub conversation: bool,
    /// Leave the throw-away log in place, and say where
    #[arg(long)]
    pub keep: bool,
}

/// Runs the demonstration.
///
/// # Errors
/// [`Failure`] as it says.
pub fn run(args: &DemoArgs, json: bool, out: &mut Out) -> Result<Exit, Failure> {
    if args.conversation {
        return demo::converse(args.keep, json, out);
    }
    demo::run(args.dir.as_deref(), args.keep, json, out)
}
