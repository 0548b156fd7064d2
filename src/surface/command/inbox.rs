//! `thought inbox`: what waits for a person, what agents propose among it, and "not now".

use std::path::PathBuf;

use clap::{Args, Subcommand};
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_domain::yaml::duration_ms;

use super::asking::{self, Gather, read};
use super::operating;
use super::proposal::{self, DecisionArgs, What};
use crate::ask::{Ask, Operate, ProposalFilter};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::inbox::Waiting;
use crate::query::proposals::Proposal;
use crate::render;
use crate::render::foreign::Room;
use crate::session::Session;

/// So many proposals are shown with what they say below the list; more are asked for by name.
const SHOWN_MAX: u32 = 20;

/// When a thing is hidden for good.
const FOR_GOOD: &str = "9999-12-30T00:00:00Z";

/// Says how the list is shown, or what is done with one thing in it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct InboxArgs {
    /// Show also what you hid until a time
    #[arg(long)]
    pub all: bool,
    /// What is done.
    #[command(subcommand)]
    pub command: Option<InboxCommand>,
}

/// Is what can be done with a thing that waits.
#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    /// Show a proposal: what it says, what it would change, and what it cites
    Show(ShowArgs),
    /// Accept a proposal: what is proposed is used
    Accept(DecideArgs),
    /// Edit a proposal: the text of a file is used in place of what is proposed
    Edit(EditArgs),
    /// Reject a proposal: nothing is used
    Reject(DecideArgs),
    /// Not now: hide a thing in this list until a time; nothing is decided
    Later(LaterArgs),
}

/// Names a proposal to show.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The proposal
    pub id: EventId,
    /// Show every line
    #[arg(long)]
    pub full: bool,
    /// Show what it says also where no person looks; a terminal always shows it
    #[arg(long)]
    pub content: bool,
}

/// Names a proposal, and whether it is decided.
#[derive(Debug, Args)]
pub struct DecideArgs {
    /// The proposal
    pub id: EventId,
    /// Only show what would come of it: everything is checked, and nothing is decided
    #[arg(long)]
    pub dry_run: bool,
    /// Show what it says also where no person looks; a terminal always shows it
    #[arg(long, requires = "dry_run")]
    pub content: bool,
}

/// Names a proposal and a text.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// The proposal, and whether it is decided.
    #[command(flatten)]
    pub decides: DecideArgs,
    /// The file with the text
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
}

/// Names a thing and a time.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["until", "for_", "for_good"]))]
pub struct LaterArgs {
    /// The thing, as the list names it
    pub id: String,
    /// Until this time (2026-12-01T08:00:00Z); one that is past shows it again
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<Timestamp>,
    /// For so long (30m, 4h, 1d)
    #[arg(long = "for", id = "for_", value_name = "LENGTH", value_parser = length)]
    pub for_: Option<u64>,
    /// Until it comes to wait anew
    #[arg(long)]
    pub for_good: bool,
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|_| "expected a time such as 2026-12-01T08:00:00Z".to_owned())
}

fn length(text: &str) -> Result<u64, String> {
    match duration_ms(text) {
        None => Err("expected a length of time such as 30m, 4h or 1d".to_owned()),
        Some(0) => {
            Err("hides nothing; what is hidden is shown again by --until with a time that is past".to_owned())
        }
        Some(ms) => Ok(ms),
    }
}

/// Shows what waits, or does something with one thing of it.
///
/// # Errors
/// [`Failure`] as each says.
pub fn run(args: InboxArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let decide = |decides, decision, file, out: &mut Out| {
        let DecideArgs { id, dry_run, content } = decides;
        let args = DecisionArgs { proposal: id, decision, file, dry_run, content, submission: None };
        proposal::decide(args, session, out)
    };
    match args.command {
        None => list(args.all, session, out),
        Some(InboxCommand::Show(args)) => show(&args, session, out),
        Some(InboxCommand::Accept(decides)) => decide(decides, What::Accept, None, out),
        Some(InboxCommand::Edit(EditArgs { decides, file })) => decide(decides, What::Edit, Some(file), out),
        Some(InboxCommand::Reject(decides)) => decide(decides, What::Reject, None, out),
        Some(InboxCommand::Later(args)) => later(args, session, out),
    }
}

fn list(all: bool, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let ask = if all { Ask::InboxAll } else { Ask::Inbox };
    if session.json {
        return asking::list(session, ask, out, |_: &[Waiting]| String::new());
    }
    let mut gather = Gather::default();
    let exit = asking::ask(session, ask, &mut gather)?;
    let waiting: Vec<Waiting> = gather.0.into_iter().map(read).collect::<Result<_, _>>()?;
    out.text(&render::inbox::inbox(&waiting, render::terminal_width(), session.now()))?;
    if out.is_terminal() {
        for proposal in proposals(&waiting, session)? {
            out.text(&format!("\n{}", render::proposals::one(&proposal, Room::Glance, session.now())))?;
        }
    }
    Ok(exit)
}

/// Asks for the proposals among what waits, with what they say.
fn proposals(waiting: &[Waiting], session: &Session) -> Result<Vec<Proposal>, Failure> {
    use crate::query::inbox::Kind;
    let named = waiting.iter().filter(|one| one.kind == Kind::Proposal && one.hidden_until.is_none());
    let ids: Vec<EventId> = named.filter_map(|one| EventId::parse(&one.id).ok()).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let filter = ProposalFilter { ids, content: true, limit: SHOWN_MAX, ..ProposalFilter::default() };
    let mut gather = Gather::default();
    asking::ask(session, Ask::Proposals(filter), &mut gather)?;
    gather.0.into_iter().map(read).collect()
}

fn show(args: &ShowArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let content = args.content || (out.is_terminal() && !session.json);
    let filter = ProposalFilter { ids: vec![args.id], content, limit: 1, ..ProposalFilter::default() };
    if args.full && !content {
        out.remark("what it says is shown at a terminal, and elsewhere with --content");
    }
    let room = if args.full { Room::Whole } else { Room::Glance };
    asking::list(session, Ask::Proposals(filter), out, |proposals: &[Proposal]| {
        let shown = proposals.iter().map(|proposal| render::proposals::one(proposal, room, session.now()));
        shown.collect()
    })
}

fn later(args: LaterArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let last = Timestamp::parse(FOR_GOOD).ok();
    let until = match (args.until, args.for_) {
        (Some(until), _) => Some(until),
        (None, Some(ms)) => i64::try_from(ms).ok().map(|ms| session.now().plus_millis(ms)),
        (None, None) => last,
    };
    // What lies beyond has no form in which it could be written down.
    let until = until.filter(|until| Some(*until) <= last).ok_or_else(|| {
        Failure::new(Exit::Usage, "inbox.until", format!("this time is out of range: the last is {FOR_GOOD}"))
            .with_hint("--for-good hides it until it comes to wait anew")
    })?;
    operating::operate(session, Operate::Postpone { id: args.id, until }, out)
}
