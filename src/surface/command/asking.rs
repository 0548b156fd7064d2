//! How a reading command gets its answer: from the service, or by looking itself.

use serde::de::DeserializeOwned;
use serde_json::Value;
use thoughtstream_domain::declaration::Catalog;
use thoughtstream_domain::registry::Registry;
use thoughtstream_store::disk::DiskError;
use thoughtstream_store::{OpenError, Options, Reader, Store};

use crate::address::{Address, quoted};
use crate::ask::{Ask, Operated};
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::query::proposals::Home;
use crate::query::{self, Look, Sink};
use crate::schemas;
use crate::session::Session;
use crate::socket::{Door, Progress};

/// Asks whoever knows, and hands the answer over value by value.
///
/// # Errors
/// [`Failure`] if nobody can be asked, or as the answer says.
pub(crate) fn ask(session: &Session, ask: Ask, sink: &mut dyn Sink) -> Result<Exit, Failure> {
    let sink = &mut Addressed { address: &session.address, names: names_commands(&ask), sink };
    match client::reach_to_read(session, Door::Ask)? {
        Reached::Service(mut connection) => connection.ask(&Operated::Ask(ask), sink),
        Reached::Alone(_visit) => {
            let reader = open_to_read(session)?;
            let catalog = catalog(session);
            let (home, now) = (Home::configured(&session.places), session.now());
            let look =
                Look { reader: &reader, live: None, declared: None, catalog: &catalog, home: &home, now };
            query::answer(&ask, &look, sink)
        }
    }
}

/// Says whether an answer names commands of ours; the others are what somebody recorded.
const fn names_commands(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::Inbox
            | Ask::InboxAll
            | Ask::Proposals(_)
            | Ask::DryRun(_)
            | Ask::Why { .. }
            | Ask::Consumers { .. }
            | Ask::Status { .. }
    )
}

/// Hands an answer on with the directories that the caller named in its commands.
struct Addressed<'a> {
    address: &'a Address,
    names: bool,
    sink: &'a mut dyn Sink,
}

impl Sink for Addressed<'_> {
    fn value(&mut self, mut value: Value) -> Result<(), Failure> {
        if self.names {
            self.address.answer(&mut value);
        }
        self.sink.value(value)
    }

    fn progress(&mut self, progress: Progress) {
        self.sink.progress(progress);
    }
}

/// Returns what registered declarations are read against: a person's own types too, as far as they can be read.
fn catalog(session: &Session) -> Catalog {
    let registry = schemas::registry(&session.places).unwrap_or_else(|_| Registry::shipped());
    Catalog::of(&registry)
}

/// The code of a failure that means: no log has been made yet.
pub(crate) const ABSENT: &str = "store.absent";

/// Opens the store of a session whose lock this process holds.
///
/// # Errors
/// [`Failure`] with exit code 4 saying what is there instead.
pub(crate) fn open(session: &Session) -> Result<Store, Failure> {
    Store::open(&session.places.data, Options::default()).map_err(|error| open_failure(&error))
}

/// Opens the store of a session that this process visits, to look at it.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_to_read(session: &Session) -> Result<Reader, Failure> {
    Store::open_to_read(&session.places.data, Options::default()).map_err(|error| open_failure(&error))
}

/// Says why a store cannot be opened.
pub(crate) fn open_failure(error: &OpenError) -> Failure {
    let code = match error {
        OpenError::Absent { .. } | OpenError::Unfinished { .. } => ABSENT,
        OpenError::NotAStore { .. } | OpenError::Empty { .. } => "store.other",
        OpenError::NewerFormat { .. } => "store.newer",
        OpenError::Damaged { .. } | OpenError::Journal(_) => "store.damaged",
        OpenError::Held { .. } => "store.held",
        OpenError::Disk(_) | OpenError::Io { .. } => "store.io",
    };
    let failure = Failure::of(Exit::CouldNotLook, code, error);
    match error {
        OpenError::Absent { .. } => failure.with_hint(
            "nothing was recorded here yet: `thought serve` or `thought event append` makes a log",
        ),
        OpenError::NewerFormat { .. } => failure.with_hint("use the newer version of this program"),
        OpenError::Damaged { .. } | OpenError::Journal(_) => {
            failure.with_hint("nothing was changed; restore a backup into a new directory: `thought restore`")
        }
        OpenError::Disk(DiskError::TooOpen { path, .. }) => {
            // A directory needs to be entered by its owner as well; nothing else does.
            let bits = if path.is_dir() { "700" } else { "600" };
            failure.with_hint(format!("close it to others: chmod {bits} {}", quoted(path)))
        }
        OpenError::Unfinished { .. }
        | OpenError::NotAStore { .. }
        | OpenError::Empty { .. }
        | OpenError::Held { .. }
        | OpenError::Disk(_)
        | OpenError::Io { .. } => failure,
    }
}

/// Shows values as they come: each as JSON, or through a function that renders it.
pub(crate) struct Show<'a, T, F> {
    out: &'a mut Out,
    json: bool,
    render: F,
    shown: usize,
    of: std::marker::PhantomData<T>,
}

impl<'a, T: DeserializeOwned, F: FnMut(T) -> String> Show<'a, T, F> {
    /// Shows on `out`.
    pub(crate) fn new(out: &'a mut Out, json: bool, render: F) -> Self {
        Self { out, json, render, shown: 0, of: std::marker::PhantomData }
    }

    /// Returns how many values were shown.
    pub(crate) const fn shown(&self) -> usize {
        self.shown
    }
}

impl<T: DeserializeOwned, F: FnMut(T) -> String> Sink for Show<'_, T, F> {
    fn value(&mut self, value: Value) -> Result<(), Failure> {
        self.shown += 1;
        if self.json {
            self.out.json(&value)?;
        } else {
            let text = (self.render)(read(value)?);
            self.out.text(&text)?;
        }
        // A person, or a program that follows, sees each value when it comes.
        Ok(self.out.flush()?)
    }
}

/// Gathers values, to be shown together.
#[derive(Debug, Default)]
pub(crate) struct Gather(pub(crate) Vec<Value>);

impl Sink for Gather {
    fn value(&mut self, value: Value) -> Result<(), Failure> {
        self.0.push(value);
        Ok(())
    }
}

/// Asks for a list and shows it: one JSON object a line, or one table.
///
/// # Errors
/// [`Failure`] as the answer says.
pub(crate) fn list<T: DeserializeOwned>(
    session: &Session,
    request: Ask,
    out: &mut Out,
    render: impl FnOnce(&[T]) -> String,
) -> Result<Exit, Failure> {
    if session.json {
        return ask(session, request, &mut Show::new(out, true, |_: Value| String::new()));
    }
    let mut gather = Gather::default();
    let exit = ask(session, request, &mut gather)?;
    let rows: Vec<T> = gather.0.into_iter().map(read).collect::<Result<_, _>>()?;
    out.text(&render(&rows))?;
    Ok(exit)
}

/// Asks for one value and shows it.
///
/// # Errors
/// [`Failure`] as the answer says.
pub(crate) fn one<T: DeserializeOwned>(
    session: &Session,
    request: Ask,
    out: &mut Out,
    render: impl FnMut(T) -> String,
) -> Result<Exit, Failure> {
    ask(session, request, &mut Show::new(out, session.json, render))
}

/// Reads a value of an answer.
///
/// # Errors
/// [`Failure`] if a service of another version says something this command does not know.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::new(Exit::Bug, "answer.form", "the answer has a form this command does not know")
            .because(&error)
    })
}
