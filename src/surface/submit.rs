//! How an event that a person appends by hand gets into the log.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thoughtstream_domain::commit::{Commit, Refusal, Verdict};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Envelope};
use thoughtstream_domain::id::{EventId, IdempotencyKey, SourceId, TypeName, TypeRef};
use thoughtstream_domain::registry::{DoorError, Draft, DraftPayload, Hashes, Registry, Writer};
use thoughtstream_domain::text::printable;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_effects::atomic;
use thoughtstream_store::{CreateError, Options, Presence, RowError, Store, TypesError, WriteError};

use crate::ask::Submit;
use crate::chance;
use crate::command::asking::open;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::schemas;
use crate::session::Session;

/// Says where an appended event stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Appended {
    /// The event.
    pub id: EventId,
    /// Its source.
    pub source: SourceId,
    /// Its place there.
    pub sequence: u64,
    /// Its place in the log.
    pub position: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// What makes it recognisable.
    pub key: IdempotencyKey,
    /// Whether it had been there before.
    pub already: bool,
}

/// Renders where an event stands.
#[must_use]
pub fn render(appended: &Appended) -> String {
    let word = if appended.already { "already there" } else { "appended" };
    format!("{word} {} {}#{}\n", appended.id, appended.source, appended.sequence)
}

/// Lets a submitted event in, or refuses it.
///
/// # Errors
/// [`Failure`] naming the rule that is broken.
pub fn admit(registry: &Registry, submit: Submit, uid: u32) -> Result<Candidate, Failure> {
    let kind = registry.resolve(&submit.kind).map_err(|error| door_failure(registry, &error))?.kind().clone();
    let actor = Actor::ours(ActorKind::Person, &format!("uid:{uid}"));
    let envelope = Envelope::new(submit.source, submit.key, submit.privacy, actor);
    let payload = Content::new(DraftPayload(submit.payload));
    registry
        .admit(Writer::Hand, Draft { kind, envelope, payload })
        .map_err(|error| door_failure(registry, &error))
}

/// Says whether an event would be let in, as far as the configuration shows; who answers it has the last word.
#[must_use]
pub fn is_admissible(session: &Session, submit: &Submit) -> bool {
    let Ok(registry) = schemas::registry(&session.places) else { return false };
    admit(&registry, submit.clone(), nix::unistd::geteuid().as_raw()).is_ok()
}

/// So many types are named to somebody who named none that can be appended; an editor lists the rest.
const NAMED_MAX: usize = 12;

/// Says which types a hand may append.
fn appendable(registry: &Registry) -> String {
    let mut names: Vec<&str> = registry.appendable().map(TypeName::as_str).collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "these can be appended: {}{more}; a type of your own is a JSON Schema file in schemas/ of your configuration",
        names.join(", ")
    )
}

fn door_failure(registry: &Registry, error: &DoorError) -> Failure {
    let code = match error {
        DoorError::UnknownType { .. } => "event.type",
        DoorError::WrongWriter { .. } => "event.writer",
        DoorError::WrongSource { .. } => "event.source",
        DoorError::Schema { .. } => "event.schema",
        DoorError::NotExact(_) => "event.number",
        DoorError::TooLarge { .. } => "event.too-large",
        DoorError::TooManyParents { .. } => "event.parents",
    };
    let failure = Failure::of(Exit::Refused, code, error);
    match error {
        DoorError::WrongSource { .. } => failure.with_hint("name it like --source notes:inbox"),
        DoorError::UnknownType { .. } | DoorError::WrongWriter { .. } => {
            failure.with_hint(appendable(registry))
        }
        DoorError::Schema { .. }
        | DoorError::NotExact(_)
        | DoorError::TooLarge { .. }
        | DoorError::TooManyParents { .. } => failure,
    }
}

/// Says what the log answered about one appended event.
///
/// # Errors
/// [`Failure`] if it was not taken.
pub fn answer(verdict: Verdict, source: SourceId, key: IdempotencyKey) -> Result<Appended, Failure> {
    let already = matches!(verdict, Verdict::AlreadyCommitted(_));
    match verdict {
        Verdict::Committed(placed) | Verdict::AlreadyCommitted(placed) => {
            let placed = placed.first().ok_or_else(|| {
                Failure::new(Exit::Bug, "event.placed", "the log does not say where the event stands")
            })?;
            let (id, sequence, position) = (placed.id, placed.sequence, placed.position);
            Ok(Appended { id, source, sequence, position, recorded_at: placed.recorded_at, key, already })
        }
        Verdict::Conflict(conflict) => Err(Failure::of(Exit::Refused, "event.conflict", &conflict)
            .with_hint("the key is taken by another event: use a new one, or send the same content")),
        Verdict::Refused(refusal) => Err(Failure::of(Exit::Refused, "event.refused", &refusal)),
    }
}

/// Appends while no service runs; the lock of the data directory is held. Makes the log if there is none.
///
/// # Errors
/// [`Failure`] if the event is refused, or the log cannot be written.
pub fn alone(session: &Session, submit: Submit) -> Result<Appended, Failure> {
    let registry = schemas::registry(&session.places)?;
    let (source, key) = (submit.source.clone(), submit.key.clone());
    let candidate = admit(&registry, submit, nix::unistd::geteuid().as_raw())?;
    ensure(session)?;
    let mut store = open(session)?;
    set_types(&mut store, registry.hashes())?;
    let commit = Commit { appends: vec![candidate], ..Commit::default() };
    let verdict = commit_alone(&mut store, commit, session.now())?;
    answer(verdict, source, key)
}

/// What may lie in a data directory whose log is not made yet: locks, what a service noted, and where a file system
/// begins.
const BESIDE: [&str; 6] =
    ["service.lock", "service.owner", "coming.lock", "doors.json", "rehearsal", "lost+found"];

/// Refuses a directory that is neither empty nor holds a store, an unfinished one included: nothing is made among what
/// somebody keeps there. Creates nothing; a directory that is not there is none.
///
/// # Errors
/// [`Failure`] naming the first thing that is not ours, or that the directory cannot be read.
pub fn check_place(data: &Path) -> Result<(), Failure> {
    let unread = |error: &dyn std::error::Error| Failure::of(Exit::CouldNotLook, "store.io", error);
    let presence = Store::look(data).map_err(|error| unread(&error))?;
    if presence != Presence::Absent {
        return Ok(());
    }
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unread(&error)),
    };
    for entry in entries {
        let name = entry.map_err(|error| unread(&error))?.file_name();
        let ours = name.to_str().is_some_and(|name| BESIDE.contains(&name) || atomic::is_remains(name));
        if !ours {
            let what = format!(
                "`{}` is no data directory: it holds `{}` and no log",
                printable(&data.display().to_string()),
                printable(&name.to_string_lossy())
            );
            return Err(Failure::new(Exit::CouldNotLook, "store.other", what)
                .with_hint("a log has a directory of its own: name another with --data DIR"));
        }
    }
    Ok(())
}

/// Makes the log of a data directory that has none.
///
/// # Errors
/// [`Failure`] if it cannot be made.
pub fn ensure(session: &Session) -> Result<(), Failure> {
    let data = &session.places.data;
    let presence = Store::look(data).map_err(|error| Failure::of(Exit::CouldNotLook, "store.io", &error))?;
    if presence == Presence::Present {
        return Ok(());
    }
    match Store::create(data, chance::bytes()?, Options::default()) {
        Ok(()) | Err(CreateError::Exists { .. }) => Ok(()),
        Err(error) => Err(Failure::of(Exit::CouldNotLook, "store.create", &error)),
    }
}

/// Tells the log which types may be written.
///
/// # Errors
/// [`Failure`] naming every type that changed under an unchanged version.
pub fn set_types(store: &mut Store, hashes: BTreeMap<TypeRef, Hashes>) -> Result<(), Failure> {
    store.writer.set_types(hashes).map_err(|error| types_failure(&error))
}

/// Says why the log did not take the set of types.
pub(crate) fn types_failure(error: &TypesError) -> Failure {
    Failure::of(Exit::Usage, "schema.changed", error)
        .with_hint("a type keeps its meaning for ever: write the new one under the next version")
}

/// Hands one commit to a store that nobody else writes.
///
/// # Errors
/// [`Failure`] if it is not known to be written, or stands on a damaged row.
pub fn commit_alone(store: &mut Store, commit: Commit, now: Timestamp) -> Result<Verdict, Failure> {
    let mut verdicts = store.writer.apply(&[commit], now).map_err(|error| write_failure(&error))?;
    // What was answered is durable in the journal already; a checkpoint only saves the next start some work.
    store.writer.checkpoint().ok();
    match verdicts.pop() {
        Some(Verdict::Refused(Refusal::Damaged { place })) => Err(RowError::Damaged { place }.into()),
        Some(verdict) => Ok(verdict),
        None => Err(Failure::new(Exit::Bug, "log.silent", "the log gave no answer")),
    }
}

/// Says why the log was not written.
pub(crate) fn write_failure(error: &WriteError) -> Failure {
    let exit = match error {
        WriteError::Unknown(_) => Exit::Unknown,
        WriteError::NoSpace { .. }
        | WriteError::Damaged { .. }
        | WriteError::Failed(_)
        | WriteError::MustReopen => Exit::CouldNotLook,
    };
    Failure::of(exit, "log.write", error)
}
