//! `thought proposal-list`, `proposal-decision` and `proposal-project`: what agents propose, and what becomes of it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use thoughtstream_domain::event::Reference;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::proposal::Disposition;
use thoughtstream_domain::proposal::text::ProposedText;
use thoughtstream_effects::atomic::ReadError;

use super::asking::{self, Gather, read};
use super::operating;
use crate::ask::{Ask, DryRun, Operate, ProposalFilter};
use crate::chance;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::proposals::{DecideRequest, edited};
use crate::query::proposals::{Proposal, State, Verdict};
use crate::render;
use crate::render::foreign::Room;
use crate::session::Session;

/// The largest file that is read as the text of an edit: every character of the longest text has at most 3 bytes of
/// UTF-8 for each UTF-16 unit.
const EDIT_BYTES_MAX: u64 = ProposedText::CHARACTERS_MAX as u64 * 3;

/// Says which proposals are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only these proposals
    #[arg(value_name = "PROPOSAL")]
    pub ids: Vec<EventId>,
    /// Only proposals in this state; may be repeated
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    pub states: Vec<State>,
    /// Only those that you can do something about
    #[arg(long)]
    pub waiting: bool,
    /// Show what they say also where no person looks; a terminal always shows it
    #[arg(long)]
    pub content: bool,
    /// At most this many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
}

fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    let known = || State::ALL.map(State::as_str).join(", ");
    found.ok_or_else(|| format!("there is {}", known()))
}

/// Is what can be decided about a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Use what is proposed
    Accept,
    /// Use the text of a file in its place
    Edit,
    /// Use nothing
    Reject,
}

/// Is a decision about a proposal.
#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// The proposal
    pub proposal: EventId,
    /// What is decided
    pub decision: What,
    /// The file with the text of an edit
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Only show what would come of it: everything is checked, and nothing is decided
    #[arg(long, conflicts_with = "submission")]
    pub dry_run: bool,
    /// Show what it says also where no person looks; a terminal always shows it
    #[arg(long, requires = "dry_run")]
    pub content: bool,
    /// What you call this submission; recorded, and it makes no decision another one
    #[arg(long, value_name = "ID", value_parser = Reference::parse)]
    pub submission: Option<Reference>,
}

/// Says what is projected.
#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// Only what was decided about this proposal
    pub proposal: Option<EventId>,
}

/// Lists proposals.
///
/// # Errors
/// [`Failure`] as the answer says.
pub fn list(args: ListArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let ListArgs { ids, states, waiting, content, limit } = args;
    let content = content || (out.is_terminal() && !session.json);
    let filter = ProposalFilter { ids, states, waiting, content, limit };
    asking::list(session, Ask::Proposals(filter), out, |proposals: &[Proposal]| {
        render::proposals::list(proposals, session.now())
    })
}

/// Decides about a proposal.
///
/// # Errors
/// [`Failure`] if it is refused, or another decision stands.
pub fn decide(args: DecisionArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let DecisionArgs { proposal, decision, file, dry_run, content, submission } = args;
    let disposition = match (decision, file) {
        (What::Accept, None) => Disposition::Accept,
        (What::Reject, None) => Disposition::Reject,
        (What::Edit, Some(file)) => Disposition::Edit { replacement: text_of(&file)? },
        (What::Edit, None) => {
            return Err(Failure::new(Exit::Usage, "proposal.file", "an edit is the text of a file")
                .with_hint("say which one: --file FILE"));
        }
        (What::Accept | What::Reject, Some(_)) => {
            return Err(Failure::new(Exit::Usage, "proposal.file", "only an edit takes a file"));
        }
    };
    if dry_run {
        return foresee(DryRun { proposal, disposition, content }, session, out);
    }
    let submission = match submission {
        Some(submission) => submission,
        None => unnamed()?,
    };
    let request = DecideRequest { proposal, disposition, submission };
    operating::operate(session, Operate::DecideProposal(Box::new(request)), out)
}

/// Shows what would come of a decision.
fn foresee(asked: DryRun, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let content = asked.content || (out.is_terminal() && !session.json);
    let word = asked.disposition.as_str();
    let mut gather = Gather::default();
    let exit = asking::ask(session, Ask::DryRun(Box::new(DryRun { content, ..asked })), &mut gather)?;
    let mut fails = false;
    for value in gather.0 {
        let proposal: Proposal = read(value.clone())?;
        fails |= proposal.outlook.as_ref().is_some_and(|outlook| outlook.verdict == Verdict::Fails);
        if session.json {
            out.json(&value)?;
        } else {
            out.line(&format!("{word}: a dry run, and nothing was decided"))?;
            out.text(&render::proposals::one(&proposal, Room::Glance, session.now()))?;
        }
    }
    Ok(if fails { Exit::Refused } else { exit })
}

/// Lets follow what was cut off after a decision.
///
/// # Errors
/// [`Failure`] if what is named cannot be projected.
pub fn project(args: &ProjectArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let exit = operating::operate(session, Operate::ProjectProposals { proposal: args.proposal }, out)?;
    if out.is_silent() && !session.json {
        out.line("nothing is left to project")?;
    }
    Ok(exit)
}

/// Names a submission that has no name.
fn unnamed() -> Result<Reference, Failure> {
    let key = chance::key("submission")?;
    Reference::parse(key.as_str()).map_err(|error| Failure::of(Exit::Bug, "chance.name", &error))
}

/// Reads the text of an edit: it comes from a file and is on no command line.
fn text_of(path: &Path) -> Result<ProposedText, Failure> {
    let bytes = thoughtstream_effects::atomic::read(path, EDIT_BYTES_MAX).map_err(|error| {
        let what = format!("cannot read `{}`", path.display());
        let failure = |exit| Failure::new(exit, "proposal.file", what).because(&error);
        match &error {
            ReadError::NotRegular { .. } => failure(Exit::Usage).with_hint(
                "an edit is the text of a plain file, so that it is the one you looked at: name the file that a link leads to",
            ),
            ReadError::Missing { .. } | ReadError::TooLarge { .. } | ReadError::Io { .. } => failure(Exit::CouldNotLook),
        }
    })?;
    edited(&bytes)
}
