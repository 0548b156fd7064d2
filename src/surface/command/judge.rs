//! `thought judge` and `thought judgment`: what a person thinks of an output, taken back and listed.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use thoughtstream_domain::contract::JSON_BYTES_MAX;
use thoughtstream_domain::id::{EventId, RunId};
use thoughtstream_domain::judgment::read_replacement;

use super::{asking, operating};
use crate::ask::{Ask, JudgmentFilter, Operate};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::judge::{AskedOpinion, JudgeRequest};
use crate::out::Out;
use crate::query::judgments::JudgmentRow;
use crate::render;
use crate::session::Session;

/// Is a judgment, or the retraction of one.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("opinion").required(true)
    .args(["accept", "reject", "correct", "prefer_over", "retract"]))]
pub struct JudgeArgs {
    /// The attempt whose output is judged
    #[arg(required_unless_present = "retract")]
    pub run: Option<RunId>,
    /// The output is right as it is
    #[arg(long)]
    pub accept: bool,
    /// The output is not right
    #[arg(long)]
    pub reject: bool,
    /// This value should stand in its place: a file with one JSON object that fits the output's contract
    #[arg(long, value_name = "FILE")]
    pub correct: Option<PathBuf>,
    /// The output is better than that of this run
    #[arg(long, value_name = "RUN", visible_alias = "prefer")]
    pub prefer_over: Option<RunId>,
    /// Take this judgment back: whatever follows from judgments is as if it had never been made
    #[arg(long, value_name = "JUDGMENT", conflicts_with_all = ["run", "quality", "external", "authorize_private"])]
    pub retract: Option<EventId>,
    /// Why it is taken back; recorded
    #[arg(long, requires = "retract")]
    pub reason: Option<String>,
    /// The version of the criterion that it is judged by
    #[arg(long, value_name = "VERSION", default_value = "v1")]
    pub criterion: String,
    /// It may inform private evaluation and adaptation
    #[arg(long)]
    pub quality: bool,
    /// It may leave this log in a data set
    #[arg(long)]
    pub external: bool,
    /// With --external: what it was made from is private or sensitive, and may leave all the same
    #[arg(long, requires = "external")]
    pub authorize_private: bool,
    /// The event in which somebody said so
    #[arg(long, value_name = "EVENT")]
    pub feedback: Option<EventId>,
    /// The receipt of the delivery that is judged
    #[arg(long, value_name = "EVENT")]
    pub delivery: Option<EventId>,
    /// The judgment that this one replaces
    #[arg(long, value_name = "JUDGMENT")]
    pub supersedes: Option<EventId>,
}

/// Judges an output, or takes a judgment back.
///
/// # Errors
/// [`Failure`] if it is refused.
pub fn judge(args: JudgeArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    if let Some(judgment) = args.retract {
        let reason = args.reason;
        return operating::operate(session, Operate::Retract { judgment, reason }, out);
    }
    let run = args.run.ok_or_else(|| Failure::new(Exit::Usage, "judgment.run", "no run is named"))?;
    let opinion = match (&args.correct, args.prefer_over) {
        (Some(file), _) => AskedOpinion::Correct { replacement: replacement(file)? },
        (None, Some(over)) => AskedOpinion::Prefer { over },
        (None, None) if args.accept => AskedOpinion::Accept,
        (None, None) => AskedOpinion::Reject,
    };
    let request = JudgeRequest {
        run,
        opinion,
        criterion_version: args.criterion,
        quality_eligible: args.quality,
        external_export_eligible: args.external,
        authorizes_private: args.authorize_private,
        feedback: args.feedback,
        delivery: args.delivery,
        supersedes: args.supersedes,
    };
    operating::operate(session, Operate::Judge(Box::new(request)), out)
}

/// Reads a replacement strictly: one JSON value, no key twice.
fn replacement(path: &Path) -> Result<serde_json::Value, Failure> {
    let failed = |error: &dyn std::error::Error| {
        let what = format!("cannot read `{}`", path.display());
        Failure::new(Exit::CouldNotLook, "judgment.file", what).because(error)
    };
    let bytes =
        thoughtstream_effects::atomic::read(path, JSON_BYTES_MAX as u64).map_err(|error| failed(&error))?;
    let value = read_replacement(&bytes).map_err(|error| {
        Failure::new(Exit::Usage, "judgment.file", "the replacement is not JSON as it is read here")
            .because(&error)
    })?;
    Ok(value.into_inner().0)
}

/// Is what can be done with judgments.
#[derive(Debug, Subcommand)]
pub enum JudgmentCommand {
    /// List the judgments that hold, the newest last
    List(ListArgs),
}

/// Says which judgments are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only judgments of this run
    #[arg(long)]
    pub run: Option<RunId>,
    /// Those taken back and those replaced too
    #[arg(long)]
    pub all: bool,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
}

/// Runs a judgment command.
///
/// # Errors
/// [`Failure`] as the answer says.
pub fn run(command: JudgmentCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let JudgmentCommand::List(ListArgs { run, all, limit }) = command;
    let filter = JudgmentFilter { run, all, limit };
    asking::list(session, Ask::Judgments(filter), out, |rows: &[JudgmentRow]| {
        render::judgments::list(rows, session.now())
    })
}
