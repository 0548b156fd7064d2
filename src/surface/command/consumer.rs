//! `thought consumer`: look at consumers, and move them.

use clap::{Args, Subcommand};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, EventId, ExecutionId, RunId, SourceId};

use super::asking::{self, Gather};
use super::operating;
use crate::ask::{Ask, Operate, Target};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::consumers::{Consumer, State};
use crate::query::inbox::{Kind, Waiting};
use crate::render::{self, View};
use crate::session::Session;

/// Is what can be done with consumers.
#[derive(Debug, Subcommand)]
pub enum ConsumerCommand {
    /// List consumers with their states
    List(ListArgs),
    /// Stop a consumer from starting new work; what is open runs to its end
    Pause(PauseArgs),
    /// Let a paused or quarantined consumer go on
    Resume(IdArgs),
    /// Stop a consumer's actor and start it anew
    Restart(IdArgs),
    /// Try a held or waiting execution again at once
    Retry(TargetArgs),
    /// Pass a held or waiting execution or a damaged event, or dismiss what was passed unprocessed, and record why
    Skip(SkipArgs),
    /// Say clause by clause why an event does or does not match a consumer, and what came of it
    Explain(ExplainArgs),
}

/// Says which consumers are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only consumers in this state; may be repeated; `stuck` stands for all that wait
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// List versions as well that another one followed
    #[arg(long)]
    pub all: bool,
}

/// Names a consumer to pause.
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// The consumer
    pub consumer: ConsumerId,
    /// Why, for whoever finds it paused
    #[arg(long, value_parser = reason)]
    pub reason: Option<String>,
}

/// Names a consumer.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// The consumer
    pub consumer: ConsumerId,
}

/// Names an execution.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// The execution (`exe_…`), one of its runs (`run_…`), or the consumer: if one alone of its executions waits for a person, that one
    pub id: String,
    /// One of the triggers, if a consumer was named
    pub event: Option<EventId>,
}

/// Names an execution to pass.
#[derive(Debug, Args)]
pub struct SkipArgs {
    /// Which execution
    #[command(flatten)]
    pub target: TargetArgs,
    /// The source on which the consumer stands still before an event that is damaged
    #[arg(long, value_name = "SOURCE", requires = "sequence", conflicts_with = "event")]
    pub source: Option<SourceId>,
    /// The place of that event in its source
    #[arg(long, value_name = "N", requires = "source")]
    pub sequence: Option<u64>,
    /// Why it may be passed
    #[arg(long, value_parser = reason)]
    pub reason: String,
}

/// Names a consumer and an event.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The consumer, or one of its versions as `ID@n`
    #[arg(value_parser = named)]
    pub consumer: Named,
    /// The event
    pub event: EventId,
}

/// Is a consumer as a person names it: with a version as lists print it, or without.
#[derive(Debug, Clone)]
pub struct Named {
    /// The consumer.
    pub id: ConsumerId,
    /// The version, if one was named.
    pub version: Option<u32>,
}

fn named(text: &str) -> Result<Named, thoughtstream_domain::id::IdError> {
    if text.contains('@') {
        let ConsumerKey { id, version } = ConsumerKey::parse(text)?;
        return Ok(Named { id, version: Some(version) });
    }
    Ok(Named { id: ConsumerId::parse(text)?, version: None })
}

/// The longest reason, as the events that record it hold it.
const REASON_CHARACTERS_MAX: usize = 1024;

pub(super) fn reason(text: &str) -> Result<String, String> {
    let characters = text.chars().count();
    match characters {
        0 => Err("a reason says something".to_owned()),
        1..=REASON_CHARACTERS_MAX => Ok(text.to_owned()),
        _ => Err(format!("{characters} characters are more than the {REASON_CHARACTERS_MAX} recorded")),
    }
}

/// Runs a consumer command.
///
/// # Errors
/// [`Failure`] as each says.
pub fn run(command: ConsumerCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let operate = |operate: Operate, out: &mut Out| operating::operate(session, operate, out);
    match command {
        ConsumerCommand::List(ListArgs { states, all }) => {
            let view = View { all: all || !states.is_empty() };
            asking::list(session, Ask::Consumers { states }, out, |consumers: &[Consumer]| {
                render::consumers::list(consumers, view, session.now())
            })
        }
        ConsumerCommand::Explain(ExplainArgs { consumer, event }) => {
            let Named { id: consumer, version } = consumer;
            asking::one(session, Ask::Explain { consumer, version, event }, out, |explained| {
                render::explain::explain(&explained)
            })
        }
        ConsumerCommand::Pause(PauseArgs { consumer, reason }) => {
            operate(Operate::Pause { consumer, reason }, out)
        }
        ConsumerCommand::Resume(IdArgs { consumer }) => operate(Operate::Resume { consumer }, out),
        ConsumerCommand::Restart(IdArgs { consumer }) => operate(Operate::Restart { consumer }, out),
        ConsumerCommand::Retry(target_args) => {
            operate(Operate::Retry { target: target(target_args, session)? }, out)
        }
        ConsumerCommand::Skip(SkipArgs { target: args, source, sequence, reason }) => {
            let target = match source.zip(sequence) {
                Some(place) => place_target(&args.id, place)?,
                None => target(args, session)?,
            };
            operate(Operate::Skip { target, reason }, out)
        }
    }
}

/// Refuses to look for an execution of a consumer where none waits, for a person or for a time.
fn check_waits(consumer: &ConsumerId, session: &Session) -> Result<(), Failure> {
    let mut gather = Gather::default();
    asking::ask(session, Ask::Consumers { states: Vec::new() }, &mut gather)?;
    let all: Vec<Consumer> = gather.0.into_iter().map(asking::read).collect::<Result<_, _>>()?;
    let mut its = all.iter().filter(|one| one.consumer.id == *consumer).peekable();
    // One that nobody knows is told by whoever is asked about it.
    if its.peek().is_none() || its.clone().any(|one| one.held > 0 || one.next.is_some()) {
        return Ok(());
    }
    if let Some((why, command)) = its.find_map(stands_still) {
        let what = format!("nothing that {consumer} has begun waits; it stands still ({why})");
        return Err(Failure::new(Exit::Usage, "consumer.target", what)
            .with_hint(format!("`{command}` passes that event")));
    }
    let what = format!("nothing of {consumer} waits: there is nothing to retry or to skip");
    Err(Failure::new(Exit::Refused, "consumer.nothing-waits", what)
        .with_hint(format!("`thought why {consumer}` says what it does")))
}

/// Returns why a consumer stands still and what moves it, if that is no execution: an event that is damaged.
fn stands_still(consumer: &Consumer) -> Option<(&str, &str)> {
    let held = consumer.state == State::Held && consumer.held == 0;
    consumer.why.as_deref().zip(consumer.command.as_deref()).filter(|_| held)
}

/// Names an event by its place; a consumer stands still there, so a consumer is what must be named.
fn place_target(id: &str, (source, sequence): (SourceId, u64)) -> Result<Target, Failure> {
    let consumer = ConsumerId::parse(id).map_err(|error| {
        Failure::new(Exit::Usage, "consumer.target", format!("`{id}` is no consumer")).because(&error)
    })?;
    Ok(Target::Place { consumer, source, sequence })
}

/// Says whether what waits is an execution that a person retries or skips.
const fn is_execution(kind: Kind) -> bool {
    matches!(kind, Kind::ExecutionQuarantined | Kind::ExecutionHeld | Kind::StatusUnknown)
}

/// Returns the executions of a consumer that wait for a person, each with why; those that were hidden in the inbox too.
fn held(consumer: &ConsumerId, session: &Session) -> Result<Vec<(String, String)>, Failure> {
    let mut gather = Gather::default();
    asking::ask(session, Ask::InboxAll, &mut gather)?;
    let all: Vec<Waiting> = gather.0.into_iter().map(asking::read).collect::<Result<_, _>>()?;
    let whose = format!("{consumer}@");
    let its = all.into_iter().filter(|one| is_execution(one.kind) && one.why.starts_with(&whose));
    Ok(its.map(|one| (one.id, one.why)).collect())
}

fn target(args: TargetArgs, session: &Session) -> Result<Target, Failure> {
    let TargetArgs { id, event } = args;
    if RunId::parse(&id).is_ok() || ExecutionId::parse(&id).is_ok() {
        return match event {
            None => Ok(Target::Id { id }),
            Some(_) => {
                Err(Failure::new(Exit::Usage, "consumer.target", "a run already says which events it has"))
            }
        };
    }
    match (ConsumerId::parse(&id), event) {
        (Ok(consumer), Some(event)) => Ok(Target::Event { consumer, event }),
        (Ok(consumer), None) => {
            check_waits(&consumer, session)?;
            match held(&consumer, session)?.as_slice() {
                [(execution, _)] => Ok(Target::Id { id: execution.clone() }),
                [] => {
                    let what = format!("which execution of {consumer}?");
                    Err(Failure::new(Exit::Usage, "consumer.target", what).with_hint(format!(
                        "name an event as well; `thought why {consumer}` shows what waits"
                    )))
                }
                several => {
                    let what = format!("{} executions of {consumer} wait for a person", several.len());
                    let lines = several.iter().map(|(execution, why)| format!("{execution}  {why}\n"));
                    Err(Failure::new(Exit::Usage, "consumer.target", what)
                        .with_lines(&lines.collect::<String>())
                        .with_hint("name one of them"))
                }
            }
        }
        (Err(error), _) => {
            let what = format!("`{id}` is no run, execution or consumer");
            Err(Failure::new(Exit::Usage, "consumer.target", what).because(&error))
        }
    }
}
