//! `thought event`: append, list, show, follow.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::Value;
use thoughtstream_domain::canonical;
use thoughtstream_domain::event::PAYLOAD_BYTES_MAX;
use thoughtstream_domain::id::{EventId, IdempotencyKey, SourceId};
use thoughtstream_domain::privacy::Privacy;

use super::asking::{self, Show};
use crate::ask::{Ask, EventFilter, Operate, Operated, Submit};
use crate::chance;
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::lineage::Lineage;
use crate::render;
use crate::session::Session;
use crate::socket::Door;
use crate::submit::{self, Appended};

/// How many events a list shows when it is not told.
const LISTED: u32 = 50;

/// A payload may be written with blanks and escapes that its canonical form does not have.
const TEXT_BYTES_MAX: u64 = 4 * PAYLOAD_BYTES_MAX as u64;

/// Is what can be done with events.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// Append an event of your own to a `notes:` source
    Append(AppendArgs),
    /// List events, the newest last
    List(ListArgs),
    /// Show one event with its payload
    Show(ShowArgs),
    /// Show where an event came from and what came of it
    Lineage(IdArgs),
    /// Show each new event as it is recorded
    Tail(FilterArgs),
    /// Erase an event's payload for good; the event, its hash and the chain stay
    ///
    /// What was derived from it, and the content of a file it names, are not erased with it. The bytes of the
    /// payload may lie in unused parts of the log's files until `thought compact` is run while no service runs.
    Redact(RedactArgs),
}

/// Names what to erase.
#[derive(Debug, Args)]
pub struct RedactArgs {
    /// The event
    pub id: EventId,
    /// Why; recorded
    #[arg(long)]
    pub reason: String,
}

/// Is an event to append.
#[derive(Debug, Args)]
pub struct AppendArgs {
    /// The source, `notes:NAME`
    #[arg(long)]
    pub source: SourceId,
    /// The type: `stream.thought.source.note`, or one of your own from schemas/; `NAME@n` for another version than the newest
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: String,
    /// What makes the event recognisable when it is sent again; made and printed if not given
    #[arg(long)]
    pub key: Option<IdempotencyKey>,
    /// Who may see it: public-source, private or sensitive
    #[arg(long, default_value = "private", value_parser = privacy)]
    pub privacy: Privacy,
    /// The file that holds the payload as JSON; `-` reads stdin
    #[arg(long, value_name = "FILE")]
    pub payload: PathBuf,
}

fn privacy(text: &str) -> Result<Privacy, String> {
    Privacy::parse(text).ok_or_else(|| "expected public-source, private or sensitive".to_owned())
}

/// Says which events are meant.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only events of this source
    #[arg(long)]
    pub source: Option<SourceId>,
    /// Only events of this type: `NAME`, `NAME@n` or `PREFIX.*`
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Only events behind this position of the log
    #[arg(long, value_name = "POSITION")]
    pub after: Option<u64>,
    /// Show what proposals say also where no person looks; a terminal always shows it
    #[arg(long)]
    pub content: bool,
}

/// Says which events are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which events
    #[command(flatten)]
    pub filter: FilterArgs,
    /// At most this many
    #[arg(long, default_value_t = LISTED)]
    pub limit: u32,
}

/// Names one event to show.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The event's id
    pub id: EventId,
    /// Show what a proposal says also where no person looks; a terminal always shows it
    #[arg(long)]
    pub content: bool,
}

/// Names one event.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// The event's id
    pub id: EventId,
}

/// Runs an event command.
///
/// # Errors
/// [`Failure`] as each says.
pub fn run(command: EventCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        EventCommand::Append(args) => append(args, session, out),
        EventCommand::List(args) => {
            let newest = args.filter.after.is_none();
            let filter = filter(args.filter, args.limit, newest, has_a_reader(session, out));
            let mut show =
                Show::new(out, session.json, |event: Value| render::events::row(&event, session.now()));
            let exit = asking::ask(session, Ask::Events(filter), &mut show)?;
            if show.shown() == 0 && !session.json {
                out.line("no events")?;
            }
            Ok(exit)
        }
        EventCommand::Show(ShowArgs { id, content }) => {
            let ask = Ask::Event { id, content: content || has_a_reader(session, out) };
            asking::one(session, ask, out, |event: Value| render::events::one(&event))
        }
        EventCommand::Lineage(IdArgs { id }) => {
            asking::one(session, Ask::Lineage { id }, out, |lineage: Lineage| {
                render::events::lineage(&lineage, session.now())
            })
        }
        EventCommand::Tail(args) => tail(args, session, out),
        EventCommand::Redact(RedactArgs { id, reason }) => {
            super::operating::operate(session, Operate::Redact { event: id, reason }, out)
        }
    }
}

/// Says whether a person looks at what is shown, who sees what proposals say without asking for it.
fn has_a_reader(session: &Session, out: &Out) -> bool {
    out.is_terminal() && !session.json
}

fn filter(args: FilterArgs, limit: u32, newest: bool, reader: bool) -> EventFilter {
    let FilterArgs { source, kind, after, content } = args;
    EventFilter { source, kind, after, limit, newest, content: content || reader }
}

fn tail(args: FilterArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    // Without a service nothing is recorded: there is nothing to wait for.
    let mut connection = client::reach_service(session, Door::Ask)?;
    let request = Operated::Ask(Ask::Tail(filter(args, u32::MAX, false, has_a_reader(session, out))));
    let session_now = session.clone();
    let mut show =
        Show::new(out, session.json, move |event: Value| render::events::row(&event, session_now.now()));
    connection.ask(&request, &mut show)
}

fn append(args: AppendArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let payload = payload(&args.payload)?;
    let (key, made) = match args.key {
        Some(key) => (key, false),
        None => (chance::key("hand")?, true),
    };
    let submit = Submit { source: args.source, kind: args.kind, key, privacy: args.privacy, payload };
    let key = submit.key.clone();
    let again = move |failure: Failure| match failure.exit() {
        Exit::Unknown => failure.with_hint(format!("run the same command again with --key {key}")),
        Exit::Done
        | Exit::Refused
        | Exit::Usage
        | Exit::Undeclared
        | Exit::CouldNotLook
        | Exit::Advice
        | Exit::Bug => failure,
    };
    let reached = client::reach(session, Door::Ask)?;
    if made && submit::is_admissible(session, &submit) {
        // Printed before anything is sent: whatever happens then, the same event can be sent again. One that will
        // be refused needs no key.
        out.remark(&format!("key {}", submit.key));
    }
    let mut show = Show::new(out, session.json, |appended: Appended| submit::render(&appended));
    match reached {
        Reached::Service(mut connection) => {
            connection.ask(&Operated::Submit(Box::new(submit)), &mut show).map_err(again)
        }
        Reached::Alone(_lock) => {
            let appended = submit::alone(session, submit).map_err(again)?;
            crate::query::put(&mut show, &appended)?;
            Ok(Exit::Done)
        }
    }
}

/// Reads a payload strictly: one JSON value, no key twice.
fn payload(path: &Path) -> Result<Value, Failure> {
    let bytes = if path == Path::new("-") {
        if std::io::stdin().is_terminal() {
            return Err(Failure::new(
                Exit::Usage,
                "event.payload",
                "the payload is to be typed at a terminal",
            )
            .with_hint("name a file, or pipe JSON into the command"));
        }
        read_bounded(std::io::stdin(), "the payload")?
    } else {
        let file = std::fs::File::open(path).map_err(|error| {
            Failure::new(Exit::CouldNotLook, "event.payload", format!("cannot open `{}`", path.display()))
                .because(&error)
        })?;
        read_bounded(file, &format!("`{}`", path.display()))?
    };
    canonical::parse(&bytes, usize::MAX).map_err(|error| {
        Failure::new(Exit::Usage, "event.payload", "the payload is not JSON as it is read here")
            .because(&error)
    })
}

fn read_bounded(read: impl std::io::Read, what: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    read.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| {
        Failure::new(Exit::CouldNotLook, "event.payload", format!("cannot read {what}")).because(&error)
    })?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let what = format!("{what} has more than {TEXT_BYTES_MAX} bytes");
        return Err(Failure::new(Exit::Refused, "event.too-large", what));
    }
    Ok(bytes)
}
