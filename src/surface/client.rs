//! Reaches whoever knows: the service if one holds the store, else the store itself.

mod patience;

use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use thoughtstream_domain::text::printable;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_effects::dirs::{self, PrivateDir};
use thoughtstream_effects::lock::{self, Holding, LockError, OwnerKind, OwnerLock, OwnerRecord, Visit};

use crate::address::quoted;
use crate::ask::Operated;
use crate::command::init::data_failure;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::query::Sink;
use crate::session::Session;
use crate::socket::{Door, Frame, Greeting, Hello, PROTOCOL, peer_of, recorded};
use crate::submit::check_place;

use patience::{Frames, Place};

/// The name of the lock that the owner of a data directory holds.
pub const LOCK: &str = "service";

/// The name of the lock that a service holds while it waits for [`LOCK`]: no command goes before it.
pub const COMING: &str = "coming";

/// A service that holds the lock opens its doors within this time; one that does not is not answering.
const DOOR_PATIENCE: Duration = Duration::from_secs(3);

/// Another command may hold the store for a moment; a long one is named instead of waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// How often either is tried.
const PAUSE: Duration = Duration::from_millis(25);

/// Beyond its drain a service needs this long at most to close what it holds; a loaded machine takes seconds.
const GONE_MARGIN: Duration = Duration::from_secs(15);

/// A wait that is shorter than this is nothing to tell anybody.
const QUIET: Duration = Duration::from_secs(1);

/// A greeting comes within this time or the service is stuck; the door lets whoever comes last wait for a place less long.
const GREETING_PATIENCE: Duration = Duration::from_secs(12);

/// Is who was reached.
#[derive(Debug)]
pub enum Reached<L = OwnerLock> {
    /// A running service.
    Service(Box<Connection>),
    /// Nobody: this command owns the data directory, or visits it, for as long as the lock lives.
    Alone(L),
}

/// Finds out who holds the data directory, and reaches them; owns it if nobody does.
///
/// # Errors
/// [`Failure`] with exit code 4: the directory cannot be looked at, or its holder does not answer.
pub fn reach(session: &Session, door: Door) -> Result<Reached, Failure> {
    let now = session.now().as_millis();
    reach_or(session, door, |data| OwnerLock::acquire(data, LOCK, OwnerKind::Command, now))
}

/// Finds out who holds the data directory, and reaches them; if nobody does, looks at it together with others
/// who look, and writes nothing.
///
/// # Errors
/// As [`reach`].
pub fn reach_to_read(session: &Session, door: Door) -> Result<Reached<Visit>, Failure> {
    reach_or(session, door, |data| Visit::begin(data, LOCK))
}

fn reach_or<L>(
    session: &Session,
    door: Door,
    take: impl Fn(&Path) -> Result<L, LockError>,
) -> Result<Reached<L>, Failure> {
    let data = &session.places.data;
    PrivateDir::open(data).map_err(|error| data_failure(&error))?;
    check_place(data)?;
    let begun = Instant::now();
    let patience = DOOR_PATIENCE.max(LOCK_PATIENCE);
    loop {
        // A service that is coming goes first: short commands one after the other would keep it out for good.
        let held = if begun.elapsed() <= patience && is_held(data, COMING)? {
            match lock::look(data, LOCK).map_err(|error| lock_failure(&error))? {
                Holding::Held(owner) => owner,
                Holding::Free => None,
            }
        } else {
            match take(data) {
                Ok(lock) => return Ok(Reached::Alone(lock)),
                Err(LockError::Held { owner, .. }) => Some(owner),
                Err(LockError::HeldByUnknown { .. }) if begun.elapsed() <= patience => None,
                Err(error) => return Err(not_taken(data, &error)),
            }
        };
        if let Some(owner) =
            held.filter(|owner| owner.kind == OwnerKind::Service || begun.elapsed() > patience)
        {
            if let Some(connection) = enter(data, door, &owner)? {
                return Ok(Reached::Service(Box::new(connection)));
            }
            if begun.elapsed() > patience {
                return Err(silent(&owner));
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn is_held(data: &Path, name: &str) -> Result<bool, Failure> {
    let holding = lock::look(data, name).map_err(|error| lock_failure(&error))?;
    Ok(holding != Holding::Free)
}

/// Reaches a running service and nobody else.
///
/// # Errors
/// [`Failure`] if none runs, or it does not answer.
pub fn reach_service(session: &Session, door: Door) -> Result<Connection, Failure> {
    match reach_to_read(session, door)? {
        Reached::Service(connection) => Ok(*connection),
        Reached::Alone(_) => Err(Failure::new(Exit::Refused, "service.none", "no service runs on this log")
            .with_hint("start it with `thought serve`")),
    }
}

/// Says whether a service, or another command, holds the data directory at the moment.
///
/// # Errors
/// [`Failure`] if that cannot be found out.
pub fn holder(data: &Path) -> Result<Option<OwnerRecord>, Failure> {
    match lock::look(data, LOCK) {
        Ok(Holding::Free) => Ok(None),
        Ok(Holding::Held(owner)) => Ok(owner),
        Err(error) => Err(lock_failure(&error)),
    }
}

/// Says in one sentence why the data directory could not be owned.
pub(crate) fn lock_failure(error: &LockError) -> Failure {
    match error {
        LockError::Held { owner, .. } | LockError::OwnerLives { owner, .. } => {
            let mut failure = held(owner);
            if let LockError::OwnerLives { .. } = error {
                failure.causes.push("it has lost its lock: somebody removed the lock file".to_owned());
            }
            failure
        }
        LockError::HeldByUnknown { .. } => Failure::of(Exit::CouldNotLook, "data.lock", error)
            .with_hint("another command may be looking at the log: try again once that has ended"),
        LockError::Damaged { .. }
        | LockError::NotRegular { .. }
        | LockError::Foreign { .. }
        | LockError::Replaced { .. }
        | LockError::Unsteady { .. }
        | LockError::Io { .. }
        | LockError::Read(_)
        | LockError::Write(_)
        | LockError::Process(_) => Failure::of(Exit::CouldNotLook, "data.lock", error),
    }
}

/// Says why a data directory could not be taken: where nothing can be written, no lock is to blame.
pub(crate) fn not_taken(data: &Path, error: &LockError) -> Failure {
    match error {
        LockError::Io { .. } | LockError::Write(_) => read_only(data).unwrap_or_else(|| lock_failure(error)),
        LockError::Held { .. }
        | LockError::HeldByUnknown { .. }
        | LockError::OwnerLives { .. }
        | LockError::Damaged { .. }
        | LockError::NotRegular { .. }
        | LockError::Foreign { .. }
        | LockError::Replaced { .. }
        | LockError::Unsteady { .. }
        | LockError::Read(_)
        | LockError::Process(_) => lock_failure(error),
    }
}

/// Says that nothing can be written into a data directory, and what to do about it; nothing if it can.
pub(crate) fn read_only(data: &Path) -> Option<Failure> {
    let error = dirs::writable(data).err()?;
    let what = format!("the data directory `{}` may only be read", printable(&data.display().to_string()));
    let hint = if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        "mount its file system for writing".to_owned()
    } else {
        format!("let its owner write there: chmod 700 {}", quoted(data))
    };
    Some(Failure::new(Exit::CouldNotLook, "data.read-only", what).because(&error).with_hint(hint))
}

fn held(owner: &OwnerRecord) -> Failure {
    if let Some(draining) = &owner.draining {
        let (pid, since) = (owner.process.pid, Timestamp::from_millis(draining.since_ms));
        let what = format!("the service (process {pid}) is stopping since {since}: what is open may finish");
        return Failure::new(Exit::CouldNotLook, "service.draining", what)
            .with_hint("`thought stop` waits until it has gone");
    }
    let since = Timestamp::from_millis(owner.since_ms);
    let what = format!("the log is held by process {} since {since}", owner.process.pid);
    let failure = Failure::new(Exit::CouldNotLook, "data.held", what);
    match owner.kind {
        OwnerKind::Service | OwnerKind::Materializer => failure,
        OwnerKind::Command => failure.with_hint("it is another command: try again once that has ended"),
    }
}

fn silent(owner: &OwnerRecord) -> Failure {
    let mut failure = held(owner);
    if owner.kind == OwnerKind::Command || owner.draining.is_some() {
        return failure;
    }
    failure.what.push_str(", which does not answer");
    failure.with_hint("if it is stuck, end that process: nothing that was acknowledged is lost")
}

/// Waits until a service that was told to stop has let go of the data directory, or another has taken its place.
/// `told` is how long it said that this may take at most, where it was asked; else it has recorded that beside its lock.
/// `tell` is called once with that if it takes a moment.
///
/// # Errors
/// [`Failure`] with exit code 5 if it is still there when its drain should be long over.
pub fn wait_until_gone(
    data: &Path,
    service: Option<&OwnerRecord>,
    told: Option<Duration>,
    mut tell: impl FnMut(Duration),
) -> Result<(), Failure> {
    let (begun, mut bound, mut is_told) = (Instant::now(), told, false);
    loop {
        let owner = match lock::look(data, LOCK).map_err(|error| lock_failure(&error))? {
            Holding::Free => return Ok(()),
            Holding::Held(owner) => owner,
        };
        if let Some(owner) = &owner {
            if service.is_some_and(|service| service.process != owner.process) {
                return Ok(());
            }
            let recorded = owner.draining.as_ref();
            bound = recorded.map(|draining| Duration::from_millis(draining.bound_ms.into())).or(bound);
            if let Some(bound) = bound.filter(|_| !is_told && begun.elapsed() > QUIET) {
                is_told = true;
                tell(bound);
            }
        }
        if begun.elapsed() > bound.unwrap_or_default() + GONE_MARGIN {
            let who = owner.or_else(|| service.cloned());
            let who = who.map_or_else(String::new, |owner| format!(" (process {})", owner.process.pid));
            let seconds = begun.elapsed().as_secs();
            let what = format!("the service{who} was told to stop and is still there after {seconds} s");
            return Err(Failure::new(Exit::Unknown, "service.still-there", what).with_hint(
                "`thought stop` waits on; `kill -9` ends it, and nothing that was acknowledged is lost",
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Enters a door of the owner; nothing if it has not opened any yet.
fn enter(data: &Path, door: Door, owner: &OwnerRecord) -> Result<Option<Connection>, Failure> {
    let paths = recorded(data).map_err(|error| Failure::of(Exit::CouldNotLook, "socket.note", &error))?;
    let Some((ask, operator)) = paths else { return Ok(None) };
    let path = match door {
        Door::Ask => ask,
        Door::Operator => operator,
    };
    match patience::reach(&path) {
        Ok(Some(stream)) => {
            let place = Place { data: data.to_owned(), door: path, pid: owner.process.pid };
            Connection::greet(stream, place, owner)
        }
        Ok(None) => Ok(None),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => {
            let what = format!("cannot connect to `{}`", path.display());
            Err(Failure::new(Exit::CouldNotLook, "socket.connect", what).because(&error))
        }
    }
}

/// Is a conversation with a running service.
#[derive(Debug)]
pub struct Connection {
    frames: Frames,
    write: UnixStream,
    greeting: Greeting,
}

impl Connection {
    /// Exchanges greetings; nothing if the other side hung up: it is on its way down, or not yet up.
    fn greet(stream: UnixStream, place: Place, owner: &OwnerRecord) -> Result<Option<Self>, Failure> {
        let connection = |error: io::Error| caused(silent(owner), &error);
        let peer = peer_of(&stream).map_err(|error| connection(error.into()))?;
        // Whoever answers must be able to hold our data: this user, or root.
        if !peer.may_enter(nix::unistd::geteuid().as_raw()) {
            let what = format!("the socket of the log is served by user {}", peer.uid);
            return Err(Failure::new(Exit::CouldNotLook, "socket.user", what));
        }
        stream.set_read_timeout(Some(GREETING_PATIENCE)).map_err(connection)?;
        stream.set_write_timeout(Some(GREETING_PATIENCE)).map_err(connection)?;
        let write = stream.try_clone().map_err(connection)?;
        let mut read = BufReader::new(stream);
        // A door that is full sends its refusal before it reads anything.
        send(&write, &Hello::ours()).ok();
        let first = match patience::hear(&mut read, &mut Vec::new()) {
            Ok(first) => first,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => return Err(connection(error)),
        };
        match first {
            Some(Frame::Greeting(greeting)) if greeting.protocol == PROTOCOL => {
                let frames = Frames::new(read, place).map_err(connection)?;
                Ok(Some(Self { frames, write, greeting }))
            }
            None => Ok(None),
            Some(Frame::Greeting(greeting)) => {
                let what = format!(
                    "the service is version {} and speaks protocol {}, this command protocol {PROTOCOL}",
                    greeting.version, greeting.protocol
                );
                Err(Failure::new(Exit::CouldNotLook, "socket.protocol", what)
                    .with_hint("restart the service after an update"))
            }
            Some(Frame::Failure(failure)) => Err(*failure),
            Some(Frame::Item(_) | Frame::Progress(_) | Frame::End(_)) => Err(silent(owner)),
        }
    }

    /// Returns who answers.
    #[must_use]
    pub const fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Asks one thing and hands the answer over, value by value.
    ///
    /// # Errors
    /// The service's [`Failure`]; exit code 5 if a change was asked for and its answer was lost, 4 if anything else
    /// was. A service that stands still loses an answer as well: it is given up once it greets nobody any more.
    pub fn ask(&mut self, request: &Operated, sink: &mut dyn Sink) -> Result<Exit, Failure> {
        let pid = self.greeting.pid;
        let lost = |error: &io::Error| lost(request, pid, error);
        send(&self.write, request).map_err(|error| lost(&error))?;
        loop {
            match self.frames.next().map_err(|error| lost(&error))? {
                Some(Frame::Item(value)) => sink.value(value)?,
                Some(Frame::Progress(progress)) => sink.progress(progress),
                Some(Frame::End(code)) => return Ok(Exit::from_code(code)),
                Some(Frame::Failure(failure)) => return Err(*failure),
                Some(Frame::Greeting(_)) | None => {
                    return Err(lost(&io::ErrorKind::UnexpectedEof.into()));
                }
            }
        }
    }
}

/// Says what a lost answer means: a question is asked again, a change may have happened.
fn lost(request: &Operated, pid: u32, error: &io::Error) -> Failure {
    let (what, hint) = if patience::is_pause(error) {
        let what = format!("the service (process {pid}) stands still and has not answered");
        (what, Some("if it is stuck, end that process: nothing that was acknowledged is lost"))
    } else {
        ("the service went away before it had answered".to_owned(), None)
    };
    let mut failure = match request {
        Operated::Ask(_) => Failure::new(Exit::CouldNotLook, "socket.lost", what),
        Operated::Submit(_) | Operated::Operate(_) => {
            Failure::new(Exit::Unknown, "socket.unknown", format!("{what}: it may or may not be done"))
        }
    };
    failure.hint = hint.map(str::to_owned);
    caused(failure, error)
}

/// Adds what the system said; that time is over the failure says itself.
fn caused(failure: Failure, error: &io::Error) -> Failure {
    if patience::is_pause(error) && error.raw_os_error().is_some() { failure } else { failure.because(error) }
}

fn send<T: Serialize>(mut stream: &UnixStream, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)
}
