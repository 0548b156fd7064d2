//! The root of the memory document, owned: what is done in it, one step at a time, on threads that may block.
//!
//! Each step looks first whether the root is still the owner's. A step that is under way when its actor is killed goes
//! on to its end and keeps the lock so long; whoever comes next waits for it.

use std::path::Path;

use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::materialization::{MaterializationBinding, MaterializationStarted};
use thoughtstream_domain::proposal::capability::MEMORY_PATH;
use thoughtstream_domain::proposal::materialize::{Lies, OnDisk, Planned, Recorded};
use thoughtstream_domain::proposal::reason::ReasonCode;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_effects::lock::{LockError, OwnerLock, OwnerRecord, Reclaimed};
use thoughtstream_effects::pinned::{FileError, Found, PinError, PinnedRoot};
use thoughtstream_effects::process::{Presence, ProcessIdentity};

use super::plan::{Wanted, plan};
use crate::supervisor::ReasonCode as Note;

/// The name of the lock in the root; a dot keeps it from being a document.
pub(super) const LOCK: &str = ".thought-materializer";

/// Another process owns the root.
const ROOT_HELD: Note = Note::new("root-held");
/// A killed predecessor in this process has not let go yet.
const ROOT_RELEASING: Note = Note::new("root-releasing");
/// The evidence of an owner cannot be believed; a person has to look.
const ROOT_EVIDENCE: Note = Note::new("root-lock-damaged");
/// The lock was taken or replaced under its owner.
const ROOT_ROBBED: Note = Note::new("root-lock-replaced");
/// The lock cannot be made.
const ROOT_UNLOCKABLE: Note = Note::new("root-lock-failed");

/// Says why nothing is done in a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It may pass, or a person removes it: nothing was tried.
    Wait(Note),
    /// The change is not made.
    Fail(ReasonCode),
}

/// Says why the root was not taken, and which process holds it, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotTaken {
    pub(super) obstacle: Obstacle,
    pub(super) holder: Option<u32>,
}

impl NotTaken {
    /// Says why a lock could not be had.
    pub(super) fn of(error: &LockError) -> Self {
        let note = not_owned(error);
        let holder = match error {
            LockError::Held { owner, .. } | LockError::OwnerLives { owner, .. } if note == ROOT_HELD => {
                Some(owner.process.pid)
            }
            LockError::Held { .. }
            | LockError::OwnerLives { .. }
            | LockError::HeldByUnknown { .. }
            | LockError::Damaged { .. }
            | LockError::NotRegular { .. }
            | LockError::Foreign { .. }
            | LockError::Replaced { .. }
            | LockError::Unsteady { .. }
            | LockError::Io { .. }
            | LockError::Read(_)
            | LockError::Write(_)
            | LockError::Process(_) => None,
        };
        Self { obstacle: Obstacle::Wait(note), holder }
    }
}

/// Is the root, pinned and owned.
#[derive(Debug)]
pub(super) struct Owned {
    root: PinnedRoot,
    lock: OwnerLock,
}

/// Are the names that one attempt uses in the root beside the document's own.
#[derive(Debug, Clone)]
pub(super) struct Names {
    draft: String,
    beside: String,
}

impl Names {
    pub(super) fn of(binding: &MaterializationBinding) -> Self {
        let MaterializationBinding { proposal, attempt, .. } = binding;
        let stem = format!(".thought-{}-{attempt}", short(proposal));
        Self { draft: format!("{stem}.draft"), beside: format!("{stem}.new") }
    }
}

/// Takes enough of an id to tell it from others in one directory.
fn short(id: &EventId) -> String {
    let text = id.to_string();
    text.chars().rev().take(32).collect::<Vec<_>>().into_iter().rev().collect()
}

impl Owned {
    /// Pins the root and becomes its owner. An owner that ended without letting go is named in the service's log.
    pub(super) fn take(path: &Path, since_ms: i64) -> Result<Self, NotTaken> {
        let root =
            PinnedRoot::open(path).map_err(|error| NotTaken { obstacle: unfit(&error), holder: None })?;
        let lock = root.own(LOCK, since_ms).map_err(|error| NotTaken::of(&error))?;
        if let Some(Reclaimed { owner, presence }) = lock.reclaimed() {
            let (pid, since) = (owner.process.pid, Timestamp::from_millis(owner.since_ms));
            let why = match presence {
                Presence::Alive => "alive",
                Presence::Gone => "gone",
                Presence::Recycled => "recycled",
                Presence::EarlierBoot => "earlier-boot",
            };
            tracing::warn!(pid, %since, why, "took over the memory folder of an owner that did not let it go");
        }
        Ok(Self { root, lock })
    }

    /// Looks whether the root is still where it was, and still this owner's.
    pub(super) fn check(&self) -> Result<(), Obstacle> {
        self.root.check().map_err(|error| unfit(&error))?;
        self.lock.check().map_err(|_| Obstacle::Wait(ROOT_ROBBED))
    }

    /// Works out what a change makes of the document, as the log and the file are now.
    pub(super) fn plan(
        &self,
        wanted: &Wanted,
        recorded: &Recorded,
        bytes_max: u64,
    ) -> Result<Planned, Obstacle> {
        self.check()?;
        plan(wanted, recorded, &self.root, bytes_max).map_err(|unfit| Obstacle::Fail(unfit.code))
    }

    /// Looks what lies in the document's place, and beside it.
    pub(super) fn find(&self, names: &Names, started: &MaterializationStarted) -> Result<OnDisk, Obstacle> {
        self.check()?;
        // Anything larger than both is neither.
        let bytes_max = started.base.bytes.max(started.result_bytes);
        let find = |name: &str| lies(self.root.find(name, bytes_max));
        Ok(OnDisk { place: find(MEMORY_PATH), beside: find(&names.beside) })
    }

    /// Puts the new file beside the document, in place of what an earlier try of the same attempt left there.
    pub(super) fn prepare(&self, names: &Names, bytes: &[u8], sha256: Sha256Hash) -> Result<(), Obstacle> {
        self.check()?;
        let fail = |error: FileError| Obstacle::Fail(unwritten(&error));
        match self.root.find(&names.beside, bytes.len() as u64).map_err(fail)? {
            Found::File(there) if there == sha256 => return Ok(()),
            Found::Nothing => {}
            // Not ours to remove; the next look says what it is.
            Found::File(_) | Found::Other => return Err(Obstacle::Fail(ReasonCode::Swapped)),
        }
        self.root.prepare(&names.draft, &names.beside, bytes).map_err(fail)
    }

    /// Exchanges the document and what lies beside it.
    pub(super) fn exchange(&self, names: &Names) -> Result<(), Obstacle> {
        self.check()?;
        let exchanged = self.root.exchange(MEMORY_PATH, &names.beside);
        exchanged.map_err(|error| Obstacle::Fail(unwritten(&error)))
    }

    /// Removes what this attempt left beside the document before the two were exchanged, and nothing else.
    pub(super) fn discard(&self, names: &Names, started: &MaterializationStarted) -> Result<(), Obstacle> {
        self.check()?;
        let ours = Lies::File(started.result_sha256);
        let fail = |error: FileError| Obstacle::Fail(unwritten(&error));
        self.root.remove(&names.draft).map_err(fail)?;
        if lies(self.root.find(&names.beside, started.result_bytes)) == ours {
            self.root.remove(&names.beside).map_err(fail)?;
        }
        Ok(())
    }

    /// Removes what lies beside the document.
    pub(super) fn clear(&self, names: &Names) -> Result<(), Obstacle> {
        self.check()?;
        let cleared = self.root.remove(&names.draft).and_then(|()| self.root.remove(&names.beside));
        cleared.map_err(|error| Obstacle::Fail(unwritten(&error)))
    }

    /// Leaves the written document to its owner alone.
    pub(super) fn close(&self) -> Result<(), Obstacle> {
        self.root.close_to_others(MEMORY_PATH).map_err(|error| Obstacle::Fail(unwritten(&error)))
    }
}

fn lies(found: Result<Found, FileError>) -> Lies {
    match found {
        Ok(Found::Nothing) => Lies::Nothing,
        Ok(Found::File(sha256)) => Lies::File(sha256),
        // What never comes to rest is being written right now, and not by us.
        Ok(Found::Other) | Err(FileError::Unsteady) => Lies::Other,
        Err(
            FileError::Missing
            | FileError::Link
            | FileError::NotRegular
            | FileError::TooLarge { .. }
            | FileError::Exists
            | FileError::Io { .. },
        ) => Lies::Unread,
    }
}

pub(super) fn unfit(error: &PinError) -> Obstacle {
    match error {
        PinError::Missing { .. }
        | PinError::Link { .. }
        | PinError::NotADirectory { .. }
        | PinError::Replaced { .. }
        | PinError::Io { .. } => Obstacle::Fail(ReasonCode::RootUnfit),
    }
}

/// Says whether this process is an owner.
pub(super) fn is_ours(owner: &OwnerRecord) -> bool {
    ProcessIdentity::current().is_ok_and(|process| process == owner.process)
}

fn not_owned(error: &LockError) -> Note {
    match error {
        LockError::Held { owner, .. } => {
            if is_ours(owner) {
                ROOT_RELEASING
            } else {
                ROOT_HELD
            }
        }
        LockError::HeldByUnknown { .. } | LockError::OwnerLives { .. } => ROOT_HELD,
        LockError::Damaged { .. }
        | LockError::NotRegular { .. }
        | LockError::Foreign { .. }
        | LockError::Replaced { .. } => ROOT_EVIDENCE,
        LockError::Unsteady { .. }
        | LockError::Io { .. }
        | LockError::Read(_)
        | LockError::Write(_)
        | LockError::Process(_) => ROOT_UNLOCKABLE,
    }
}

pub(super) fn unread(error: &FileError) -> ReasonCode {
    match error {
        FileError::Missing => ReasonCode::FileMissing,
        FileError::Link => ReasonCode::FileLinked,
        FileError::NotRegular | FileError::Exists | FileError::Io { .. } => ReasonCode::FileUnfit,
        // It is not the size of the base, or is being written right now.
        FileError::TooLarge { .. } | FileError::Unsteady => ReasonCode::FileChanged,
    }
}

fn unwritten(error: &FileError) -> ReasonCode {
    match error {
        FileError::Missing => ReasonCode::FileMissing,
        FileError::Link => ReasonCode::FileLinked,
        FileError::NotRegular => ReasonCode::FileUnfit,
        FileError::TooLarge { .. } | FileError::Unsteady => ReasonCode::FileChanged,
        FileError::Io { source, .. }
            if matches!(
                source.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
            ) =>
        {
            ReasonCode::NoSpace
        }
        FileError::Exists | FileError::Io { .. } => ReasonCode::WriteFailed,
    }
}
