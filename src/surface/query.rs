//! Answers questions from the log, and from what only a running service knows.
//!
//! The service and the command call the same functions, so an answer is the same whether the service is up or
//! down, but for what lives in memory alone. Nothing here writes or waits.

pub mod accounts;
pub mod behind;
pub mod consumers;
pub mod context;
pub(crate) mod damaged;
pub mod deliveries;
pub mod events;
pub mod explain;
pub mod inbox;
pub mod judgments;
pub mod lineage;
pub(crate) mod names;
pub mod proposals;
pub mod runs;
pub mod sources;
pub mod status;
pub mod tree;
pub mod verify;
pub mod why;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use thoughtstream_channels::filesystem::scan::SkipReport;
use thoughtstream_domain::declaration::{Catalog, DeclarationSet};
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Reader, RowError, is_made_anew};

use crate::ask::Ask;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::socket::Progress;

/// Is what a running service knows beside its log, at one moment.
#[derive(Debug, Clone)]
pub struct Live {
    /// Its process.
    pub pid: u32,
    /// Since when it runs.
    pub since: Timestamp,
    /// Whether it is still coming up.
    pub starting: bool,
    /// Whether it was started with `--paused`.
    pub paused: bool,
    /// Why the log cannot be written at the moment, if so.
    pub unwritable: Option<Unwritable>,
    /// Who is alive.
    pub tree: tree::Node,
    /// What it has followed of attempts that did not complete.
    pub failures: Arc<inbox::Failures>,
    /// What the last look at each watched source skipped; nothing for one that was not looked at yet.
    pub skipped: BTreeMap<SourceId, Option<Arc<SkipReport>>>,
}

/// Says since when and why the log takes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwritable {
    /// Why, as a code with a few words.
    pub code: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
}

/// Is what a question is answered from.
#[derive(Debug)]
pub struct Look<'a> {
    /// The log.
    pub reader: &'a Reader,
    /// The running service; none when the command looks by itself.
    pub live: Option<&'a Live>,
    /// The declarations that a running service has loaded.
    pub declared: Option<&'a DeclarationSet>,
    /// The types and transforms that a registered declaration is read against.
    pub catalog: &'a Catalog,
    /// Where the memory document lies.
    pub home: &'a proposals::Home,
    /// The time.
    pub now: Timestamp,
}

/// Takes the values of an answer.
pub trait Sink {
    /// Takes one value.
    ///
    /// # Errors
    /// [`Failure`] if nobody wants the rest, or it cannot be shown; the answer is then given up.
    fn value(&mut self, value: Value) -> Result<(), Failure>;

    /// Takes notice of how far long work has come.
    fn progress(&mut self, _progress: Progress) {}
}

/// Answers one question.
///
/// # Errors
/// [`Failure`] if the log cannot be read or the thing does not exist.
pub fn answer(ask: &Ask, look: &Look<'_>, sink: &mut dyn Sink) -> Result<Exit, Failure> {
    match ask {
        Ask::Tree { .. } => put(sink, &tree::tree(look)?),
        Ask::Status { states } => put(sink, &status::status(look, states)?),
        Ask::Inbox => inbox::inbox(look)?.iter().try_for_each(|item| put(sink, item)),
        Ask::InboxAll => inbox::everything(look)?.iter().try_for_each(|item| put(sink, item)),
        Ask::Proposals(filter) => proposals::list(look, filter, sink),
        Ask::DryRun(asked) => put(sink, &proposals::dry_run(look, asked)?),
        Ask::Why { id } => put(sink, &why::why(look, id)?),
        Ask::Events(filter) | Ask::Tail(filter) => {
            names::check_events(look, filter)?;
            events::list(look.reader, filter, sink)
        }
        Ask::Event { id, content } => put(sink, &events::one(look.reader, id, *content)?),
        Ask::Lineage { id } => put(sink, &lineage::lineage(look.reader, id)?),
        Ask::Runs(filter) => {
            names::check_runs(look, filter)?;
            runs::list(look.reader, filter, sink)
        }
        Ask::Run { id } => put(sink, &runs::one(look.reader, id)?),
        Ask::Context { id, content } => put(sink, &context::show(look.reader, id, *content)?),
        Ask::ContextDiff { one, other, content } => {
            put(sink, &context::diff(look.reader, one, other, *content)?)
        }
        Ask::Consumers { states } => {
            consumers::list(look, states)?.iter().try_for_each(|consumer| put(sink, consumer))
        }
        Ask::Sources => sources::list(look.reader)?.iter().try_for_each(|row| put(sink, row)),
        Ask::Skipped { source } => sources::skipped(look, source)?.iter().try_for_each(|row| put(sink, row)),
        Ask::Accounts => accounts::list(look)?.iter().try_for_each(|account| put(sink, account)),
        Ask::Account { account } => put(sink, &accounts::show(look, account)?),
        Ask::Simulate { account, calls } => put(sink, &accounts::simulate(look, account, *calls)?),
        Ask::Deliveries { states, limit } => deliveries::list(look.reader, states, *limit, sink),
        Ask::Delivery { id } => put(sink, &deliveries::one(look.reader, id)?),
        Ask::Registered => look.reader.registered_all()?.iter().try_for_each(|row| put(sink, row)),
        Ask::Judgments(filter) => judgments::list(look.reader, filter, sink),
        Ask::Explain { consumer, version, event } => {
            put(sink, &explain::explain(look, consumer, *version, event)?)
        }
        Ask::Verify { from } => {
            let report = verify::verify(look, from.as_deref(), sink)?;
            put(sink, &report)
        }
    }
    .map(|()| Exit::Done)
}

/// Hands one value over.
///
/// # Errors
/// [`Failure`] that ends the command quietly if nobody wants the rest.
pub(crate) fn put<T: Serialize>(sink: &mut dyn Sink, value: &T) -> Result<(), Failure> {
    let value = serde_json::to_value(value).map_err(|error| {
        Failure::new(Exit::Bug, "query.encode", "an answer cannot be written").because(&error)
    })?;
    sink.value(value)
}

/// The code of a failure over a row that is not what was written.
pub(crate) const DAMAGED: &str = "log.damaged";

/// The command that names what is damaged.
pub(crate) const VERIFY: &str = "thought verify";

/// The command that makes anew what follows from other rows.
const REBUILD: &str = "thought stop && thought rebuild";

/// The command that brings back what nothing follows from.
const RESTORE: &str = "thought restore FILE --data DIR";

/// Returns the command that mends a damaged row.
pub(crate) fn cure(place: &str) -> &'static str {
    if is_made_anew(place) { REBUILD } else { RESTORE }
}

/// Returns the place of the damaged row that a failure is over.
pub(crate) fn damaged_place(failure: &Failure) -> Option<&str> {
    failure.what.strip_prefix("the log is damaged at ").filter(|_| failure.code == DAMAGED)
}

impl From<RowError> for Failure {
    fn from(error: RowError) -> Self {
        Self::from(&error)
    }
}

impl From<&RowError> for Failure {
    fn from(error: &RowError) -> Self {
        let code = match error {
            RowError::Storage(_) => "log.storage",
            RowError::Damaged { .. } => DAMAGED,
        };
        let failure = Self::of(Exit::CouldNotLook, code, error);
        match error {
            RowError::Storage(_) => failure,
            RowError::Damaged { place } => {
                let what = if is_made_anew(place) {
                    "this one is made from others anew by"
                } else {
                    "a backup that verifies brings it back:"
                };
                let cure = cure(place);
                failure.with_hint(format!("run `{VERIFY}`: it names the first bad row; {what} `{cure}`"))
            }
        }
    }
}

/// Says that an id names nothing in this log.
pub(crate) fn unknown(what: &str, id: &impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, "id.unknown", format!("there is no {what} `{id}` in this log"))
}
