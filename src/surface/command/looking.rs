//! The commands that look at the whole: `tree`, `status`, `why`.

use clap::Args;

use super::asking::{self, Show};
use crate::ask::{Ask, Operated};
use crate::client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::status::Status;
use crate::query::tree::Node;
use crate::query::why::Why;
use crate::render::{self, View};
use crate::session::Session;
use crate::socket::Door;

/// Says how the tree is shown.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// Show it again with every change, until interrupted
    #[arg(long)]
    pub watch: bool,
}

/// Says which consumers are shown.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only consumers in this state; may be repeated; `stuck` stands for all that wait
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// List versions as well that another one followed
    #[arg(long)]
    pub all: bool,
}

/// Names a thing.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// An event, run, execution, document, source or consumer
    pub id: String,
}

/// Shows who is alive.
///
/// # Errors
/// [`Failure`] as the answer says.
pub fn tree(args: &TreeArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    if args.watch {
        return watch(session, out);
    }
    asking::one(session, Ask::Tree { watch: false }, out, |node: Node| {
        render::tree::tree(&node, session.now())
    })
}

fn watch(session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let mut connection = client::reach_service(session, Door::Ask)?;
    // A terminal is cleared between two pictures; a pipe gets them one below the other.
    let clear = if out.is_terminal() { "\u{1b}[H\u{1b}[2J" } else { "" };
    let clock = session.clone();
    let mut show = Show::new(out, session.json, move |node: Node| {
        format!("{clear}{}", render::tree::tree(&node, clock.now()))
    });
    connection.ask(&Operated::Ask(Ask::Tree { watch: true }), &mut show)
}

/// Shows everything at a glance.
///
/// # Errors
/// [`Failure`] as the answer says.
pub fn status(args: StatusArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let view = View { all: args.all || !args.states.is_empty() };
    asking::one(session, Ask::Status { states: args.states }, out, |status: Status| {
        render::status::status(&status, view, session.now())
    })
}

/// Shows what blocks a thing.
///
/// # Errors
/// [`Failure`] as the answer says.
pub fn why(args: WhyArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    asking::one(session, Ask::Why { id: args.id }, out, |why: Why| render::why::why(&why, session.now()))
}
