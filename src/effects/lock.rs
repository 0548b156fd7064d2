//! Exactly one owner for a directory: the service for its data, a materializer for its root.
//!
//! Two files. `NAME.lock` is empty and carries the kernel's lock, which ends with its process however that
//! dies. `NAME.owner` says who holds it, so that a second owner can be told; it is replaced in one step, so a
//! crash cannot leave half of it. The kernel's lock decides. The record can only add a refusal:
//!
//! | lock | record | answer |
//! | --- | --- | --- |
//! | held | any | refused, naming the holder where the record is believable |
//! | free | none | taken |
//! | free | of a process that is gone, of a recycled number, of an earlier boot | taken, with a note |
//! | free | of a process that lives on | refused: somebody removed the lock under its owner |
//! | free | damaged | refused: the file is not ours any more, a person has to look |
//!
//! Age alone never decides. Whoever only looks shares the kernel's lock with others like it ([`Visit`]): it keeps
//! an owner out meanwhile, leaves no record and writes nothing, so that it may look where it may not write.

mod record;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{AccessFlags, access, geteuid};
use thiserror::Error;

use crate::atomic::{self, ReadError, WriteError};
use crate::process::{Presence, ProcessError, ProcessIdentity};

/// A record is eight short lines.
const RECORD_BYTES_MAX: u64 = 1024;

/// Whoever only looks holds a shared lock for microseconds; a lock without a living owner in its record is
/// tried again this often before it counts as held.
const UNRECORDED_TRIES: u32 = 10;

/// A killed process gives its memory back before it is gone; with a large log in its caches that takes a while.
const DYING_PATIENCE: Duration = Duration::from_secs(2);

/// The pause between these tries.
const UNRECORDED_PAUSE: Duration = Duration::from_millis(20);

/// For how long an owner means to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerKind {
    /// Until it is told to stop: whoever comes second has to go.
    Service,
    /// Until it has done one thing: whoever comes second waits.
    Command,
    /// For as long as it may write into a directory that is not ours alone: evidence of anything else there is
    /// not believed.
    Materializer,
}

impl OwnerKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Command => "command",
            Self::Materializer => "materializer",
        }
    }
}

/// Who holds a lock, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRecord {
    /// For how long it means to stay.
    pub kind: OwnerKind,
    /// The process.
    pub process: ProcessIdentity,
    /// When it took the lock, in milliseconds since 1970, by its own clock.
    pub since_ms: i64,
    /// Whether it is on its way out; a service says so before it drains.
    pub draining: Option<Box<Draining>>,
    /// What no other owner has, so that one can tell its own record from every other; absent in records from
    /// before there were tokens.
    pub token: Option<OwnerToken>,
}

/// Since when an owner is on its way out, and for how long it may still hold its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draining {
    /// When it was told to go, in milliseconds since 1970, by its own clock.
    pub since_ms: i64,
    /// After so many milliseconds it ends what is open.
    pub bound_ms: u32,
}

/// Tells one time of ownership from every other: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnerToken([u8; 16]);

impl OwnerToken {
    fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes))?;
        Ok(Self(bytes))
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        digits.then(|| u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))).flatten()
    }
}

impl std::fmt::Display for OwnerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnerToken")
    }
}

/// An earlier owner that ended without releasing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimed {
    /// What it had recorded.
    pub owner: OwnerRecord,
    /// Why it is known not to own anything any more.
    pub presence: Presence,
}

/// Whether a lock is held, as far as somebody who only looks can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holding {
    /// Nobody holds it.
    Free,
    /// Somebody holds it; who, if the record is believable.
    Held(Option<OwnerRecord>),
}

/// A lock was not taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("`{path}` is held by process {pid} since {since_ms} ms", path = path.display(), pid = owner.process.pid, since_ms = owner.since_ms)]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who holds it.
        owner: OwnerRecord,
    },
    /// Another process holds it and has not said who it is.
    #[error("`{path}` is held by a process that left no record", path = path.display())]
    HeldByUnknown {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock is free, but its recorded owner lives: the lock file was removed or replaced under it.
    #[error("`{path}` names process {pid}, which still runs but has lost its lock; stop it first", path = path.display(), pid = owner.process.pid)]
    OwnerLives {
        /// The record.
        path: PathBuf,
        /// Whom it names.
        owner: OwnerRecord,
    },
    /// The record cannot be understood, so nobody knows whether an owner lives.
    #[error("the record `{path}` is damaged ({reason}); remove it once no service uses this directory", path = path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The lock file is a link, a directory or something else that cannot be locked.
    #[error("`{path}` is not a regular file", path = path.display())]
    NotRegular {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock or its record belongs to another user, or others may write it.
    #[error("`{path}` is not this user's alone", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The lock or its record is not the one that this owner left there.
    #[error("`{path}` was replaced under its owner", path = path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The lock file is replaced by somebody again and again.
    #[error("`{path}` is being replaced by another program", path = path.display())]
    Unsteady {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file cannot be opened or locked.
    #[error("cannot lock `{path}`", path = path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The record cannot be read.
    #[error("cannot read who owns the directory")]
    Read(#[source] ReadError),
    /// The record cannot be written.
    #[error("cannot record who owns the directory")]
    Write(#[source] WriteError),
    /// The system does not say which processes live.
    #[error("cannot tell whether the recorded owner lives")]
    Process(#[source] ProcessError),
}

/// The exclusive ownership of a directory, until dropped or until the process ends.
#[derive(Debug)]
pub struct OwnerLock {
    lock_path: PathBuf,
    record_path: PathBuf,
    owner: OwnerRecord,
    reclaimed: Option<Reclaimed>,
    /// Released after the record is gone: fields are dropped after `drop` ran.
    lock: Flock<File>,
    /// The directory that both paths lead through, if they do not begin at the root of the system.
    _directory: Option<OwnedFd>,
}

impl OwnerLock {
    /// Takes the lock `name` of `directory`, or says who holds it.
    ///
    /// # Errors
    ///
    /// Returns an error if another process holds it, or if anything about it is not exactly right.
    pub fn acquire(directory: &Path, name: &str, kind: OwnerKind, since_ms: i64) -> Result<Self, LockError> {
        Self::acquire_in(directory, name, kind, since_ms, None)
    }

    /// Takes the lock `name` of an open directory. `through` leads to what `directory` holds open, and to nothing
    /// else for as long as that is open.
    ///
    /// # Errors
    ///
    /// As [`Self::acquire`], and if a file of the lock is not this user's alone.
    pub(crate) fn acquire_pinned(
        directory: OwnedFd,
        through: &Path,
        name: &str,
        kind: OwnerKind,
        since_ms: i64,
    ) -> Result<Self, LockError> {
        Self::acquire_in(through, name, kind, since_ms, Some(directory))
    }

    fn acquire_in(
        directory: &Path,
        name: &str,
        kind: OwnerKind,
        since_ms: i64,
        held: Option<OwnedFd>,
    ) -> Result<Self, LockError> {
        let record_path = directory.join(format!("{name}.owner"));
        let lock_path = directory.join(format!("{name}.lock"));
        if held.is_some() {
            // The directory may be open to others, who could have left these.
            for path in [&lock_path, &record_path] {
                is_ours_alone(path)?;
            }
        }
        let lock = lock_exclusively(&lock_path, &record_path)?;
        let process = ProcessIdentity::current().map_err(LockError::Process)?;
        let reclaimed = left_by(&record_path, kind, &process)?;
        let token = OwnerToken::random()
            .map_err(|source| LockError::Io { path: PathBuf::from("/dev/urandom"), source })?;
        let owner = OwnerRecord { kind, process, since_ms, draining: None, token: Some(token) };
        atomic::replace(&record_path, owner.to_text().as_bytes(), 0o600).map_err(LockError::Write)?;
        Ok(Self { lock_path, record_path, owner, reclaimed, lock, _directory: held })
    }

    /// Looks whether this process could take the lock `name` of an open directory now, or owns it already. Nothing is
    /// taken and nothing written.
    ///
    /// # Errors
    ///
    /// As [`Self::acquire_pinned`].
    pub(crate) fn could_acquire_pinned(through: &Path, name: &str, kind: OwnerKind) -> Result<(), LockError> {
        let record_path = through.join(format!("{name}.owner"));
        let lock_path = through.join(format!("{name}.lock"));
        for path in [&lock_path, &record_path] {
            is_ours_alone(path)?;
        }
        let process = ProcessIdentity::current().map_err(LockError::Process)?;
        match look(through, name)? {
            Holding::Held(Some(owner)) if owner.process == process => Ok(()),
            Holding::Held(Some(owner)) => Err(LockError::Held { path: lock_path, owner }),
            Holding::Held(None) => Err(LockError::HeldByUnknown { path: lock_path }),
            Holding::Free => {
                left_by(&record_path, kind, &process)?;
                access(through, AccessFlags::W_OK | AccessFlags::X_OK)
                    .map_err(|errno| LockError::Io { path: lock_path, source: errno.into() })
            }
        }
    }

    /// Looks whether lock and record are still the ones that this owner left there.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Replaced`] if somebody put others in their place, or took them away.
    pub fn check(&self) -> Result<(), LockError> {
        if !still_at(&self.lock, &self.lock_path) {
            return Err(LockError::Replaced { path: self.lock_path.clone() });
        }
        match read_record(&self.record_path) {
            Ok(Some(owner)) if owner == self.owner => Ok(()),
            Ok(_) | Err(LockError::Damaged { .. }) => {
                Err(LockError::Replaced { path: self.record_path.clone() })
            }
            Err(error) => Err(error),
        }
    }

    /// Records that this owner is on its way out; it holds its lock until it has gone.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written; the lock is held as before.
    pub fn drains(&mut self, draining: Draining) -> Result<(), LockError> {
        let owner = OwnerRecord { draining: Some(Box::new(draining)), ..self.owner.clone() };
        atomic::replace(&self.record_path, owner.to_text().as_bytes(), 0o600).map_err(LockError::Write)?;
        self.owner = owner;
        Ok(())
    }

    /// Returns what this owner recorded.
    #[must_use]
    pub fn owner(&self) -> &OwnerRecord {
        &self.owner
    }

    /// Returns the owner before this one, if it ended without releasing.
    #[must_use]
    pub fn reclaimed(&self) -> Option<&Reclaimed> {
        self.reclaimed.as_ref()
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // What somebody else left in a directory that is not ours alone is evidence. A record that stays names a
        // process that is about to end; the next owner reclaims it.
        if self.owner.kind != OwnerKind::Materializer || self.check().is_ok() {
            atomic::remove(&self.record_path).ok();
        }
    }
}

/// The right to look at a directory that nobody owns meanwhile, until dropped.
#[derive(Debug)]
pub struct Visit {
    /// Nothing where there is no lock file and none can be made: then no owner can come either.
    _lock: Option<Flock<File>>,
}

impl Visit {
    /// Shares the lock `name` of `directory`, or says who holds it.
    ///
    /// # Errors
    ///
    /// Returns an error if a process owns the directory, or if anything about the lock is not exactly right.
    pub fn begin(directory: &Path, name: &str) -> Result<Self, LockError> {
        let record_path = directory.join(format!("{name}.owner"));
        let lock = lock_shared(&directory.join(format!("{name}.lock")), &record_path)?;
        if let Some(owner) = read_record(&record_path)? {
            let ours = ProcessIdentity::current().map_err(LockError::Process)?;
            let presence = presence_after_a_moment(&owner.process, &ours)?;
            if presence == Presence::Alive && owner.process != ours {
                return Err(LockError::OwnerLives { path: record_path, owner });
            }
        }
        Ok(Self { _lock: lock })
    }
}

/// Says, for as long as it lives, that somebody waits for a lock and goes before those who come later. It has
/// a file of its own, and no record: [`look`] shows it as held.
#[derive(Debug)]
pub struct Announced {
    _lock: Flock<File>,
}

/// Announces that this process waits; nothing if another has announced the same before.
///
/// # Errors
///
/// Returns an error if the file `name`.lock cannot be opened or locked.
pub fn announce(directory: &Path, name: &str) -> Result<Option<Announced>, LockError> {
    let unrecorded = directory.join(format!("{name}.owner"));
    match lock_exclusively(&directory.join(format!("{name}.lock")), &unrecorded) {
        Ok(lock) => Ok(Some(Announced { _lock: lock })),
        Err(LockError::Held { .. } | LockError::HeldByUnknown { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whom a record names whose lock is free, if that is known not to own anything any more.
fn left_by(
    record_path: &Path,
    kind: OwnerKind,
    process: &ProcessIdentity,
) -> Result<Option<Reclaimed>, LockError> {
    let Some(owner) = read_record(record_path)? else { return Ok(None) };
    let path = record_path.to_owned();
    if (owner.kind == OwnerKind::Materializer) != (kind == OwnerKind::Materializer) {
        return Err(LockError::Damaged { path, reason: "it is of another kind of owner" });
    }
    let presence = presence_after_a_moment(&owner.process, process)?;
    // With the kernel's lock free or in hand, a record of this very process is one it left itself.
    if presence == Presence::Alive && owner.process != *process {
        return Err(LockError::OwnerLives { path, owner });
    }
    Ok((owner.process != *process).then_some(Reclaimed { owner, presence }))
}

/// Returns what is known of a recorded owner whose lock is free. The kernel lets go of a dying process's locks
/// before the process is gone, so one that seems to live is looked at again for a while.
fn presence_after_a_moment(
    recorded: &ProcessIdentity,
    ours: &ProcessIdentity,
) -> Result<Presence, LockError> {
    let begun = Instant::now();
    loop {
        let presence = recorded.presence().map_err(LockError::Process)?;
        if presence != Presence::Alive || recorded == ours || begun.elapsed() > DYING_PATIENCE {
            return Ok(presence);
        }
        std::thread::sleep(UNRECORDED_PAUSE);
    }
}

/// Looks whether somebody holds the lock `name` of `directory`, without taking it.
///
/// # Errors
///
/// Returns an error if the lock file or the record cannot be read; that is not the same as free.
pub fn look(directory: &Path, name: &str) -> Result<Holding, LockError> {
    look_at(&directory.join(format!("{name}.lock")), &directory.join(format!("{name}.owner")))
}

fn look_at(path: &Path, record_path: &Path) -> Result<Holding, LockError> {
    let file = match open(path, open_flags(OFlag::O_RDONLY), Mode::empty()) {
        Ok(fd) => regular(File::from(fd), path)?,
        Err(Errno::ENOENT) => return Ok(Holding::Free),
        Err(errno) => return Err(open_refusal(path, errno)),
    };
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(Holding::Free),
        Err((_, Errno::EWOULDBLOCK)) => Ok(Holding::Held(believable(record_path)?)),
        Err((_, errno)) => Err(LockError::Io { path: path.to_owned(), source: errno.into() }),
    }
}

fn open_flags(access: OFlag) -> OFlag {
    access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC
}

fn open_refusal(path: &Path, errno: Errno) -> LockError {
    let path = path.to_owned();
    if matches!(errno, Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) {
        return LockError::NotRegular { path };
    }
    LockError::Io { path, source: errno.into() }
}

fn regular(file: File, path: &Path) -> Result<File, LockError> {
    let stat = fstat(&file).map_err(|errno| LockError::Io { path: path.to_owned(), source: errno.into() })?;
    if stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits() {
        Ok(file)
    } else {
        Err(LockError::NotRegular { path: path.to_owned() })
    }
}

/// Takes the kernel's lock on the file that `path` names at the end of the call.
fn lock_exclusively(path: &Path, record_path: &Path) -> Result<Flock<File>, LockError> {
    let mut holder_seen = false;
    for attempt in 0..UNRECORDED_TRIES {
        if attempt > 0 {
            std::thread::sleep(UNRECORDED_PAUSE);
        }
        let flags = open_flags(OFlag::O_RDWR) | OFlag::O_CREAT;
        let fd = match open(path, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(fd) => fd,
            // What cannot be written any more may be held by somebody who came before that.
            Err(refused) => match look_at(path, record_path) {
                Ok(Holding::Held(Some(owner))) => {
                    return Err(LockError::Held { path: path.to_owned(), owner });
                }
                Ok(Holding::Held(None)) => {
                    holder_seen = true;
                    continue;
                }
                Ok(Holding::Free) | Err(_) => return Err(open_refusal(path, refused)),
            },
        };
        match Flock::lock(regular(File::from(fd), path)?, FlockArg::LockExclusiveNonblock) {
            // The file may have been removed between opening and locking; then this lock guards nothing.
            Ok(lock) if still_at(&lock, path) => return Ok(lock),
            Ok(_) => holder_seen = false,
            Err((_, Errno::EWOULDBLOCK)) => {
                holder_seen = true;
                if let Some(owner) = believable(record_path)? {
                    return Err(LockError::Held { path: path.to_owned(), owner });
                }
            }
            Err((_, errno)) => return Err(LockError::Io { path: path.to_owned(), source: errno.into() }),
        }
    }
    let path = path.to_owned();
    Err(if holder_seen { LockError::HeldByUnknown { path } } else { LockError::Unsteady { path } })
}

/// Shares the kernel's lock on the file that `path` names; nothing if there is no file and none can be made.
fn lock_shared(path: &Path, record_path: &Path) -> Result<Option<Flock<File>>, LockError> {
    for attempt in 0..UNRECORDED_TRIES {
        if attempt > 0 {
            std::thread::sleep(UNRECORDED_PAUSE);
        }
        let fd = match open(path, open_flags(OFlag::O_RDONLY), Mode::empty()) {
            Err(Errno::ENOENT) => {
                let flags = open_flags(OFlag::O_RDWR) | OFlag::O_CREAT;
                match open(path, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
                    Err(Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::ENOSPC | Errno::EDQUOT) => {
                        return Ok(None);
                    }
                    opened => opened,
                }
            }
            opened => opened,
        };
        let fd = fd.map_err(|errno| open_refusal(path, errno))?;
        match Flock::lock(regular(File::from(fd), path)?, FlockArg::LockSharedNonblock) {
            // As for an owner: a file that was removed meanwhile guards nothing.
            Ok(lock) if still_at(&lock, path) => return Ok(Some(lock)),
            Ok(_) => {}
            Err((_, Errno::EWOULDBLOCK)) => {
                if let Some(owner) = believable(record_path)? {
                    return Err(LockError::Held { path: path.to_owned(), owner });
                }
            }
            Err((_, errno)) => return Err(LockError::Io { path: path.to_owned(), source: errno.into() }),
        }
    }
    Err(LockError::HeldByUnknown { path: path.to_owned() })
}

/// Refuses what is there and does not belong to this user alone.
fn is_ours_alone(path: &Path) -> Result<(), LockError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 => Ok(()),
        Ok(_) => Err(LockError::Foreign { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(LockError::Io { path: path.to_owned(), source }),
    }
}

fn still_at(lock: &Flock<File>, path: &Path) -> bool {
    let (Ok(held), Ok(named)) = (lock.metadata(), std::fs::symlink_metadata(path)) else { return false };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

/// Returns the record if it names a process that lives: a holder that has just begun has not written its own.
fn believable(record_path: &Path) -> Result<Option<OwnerRecord>, LockError> {
    let owner = match read_record(record_path) {
        Ok(owner) => owner,
        Err(LockError::Damaged { .. }) => None,
        Err(error) => return Err(error),
    };
    let Some(owner) = owner else { return Ok(None) };
    let presence = owner.process.presence().map_err(LockError::Process)?;
    Ok((presence == Presence::Alive).then_some(owner))
}

fn read_record(path: &Path) -> Result<Option<OwnerRecord>, LockError> {
    let damaged = |reason| LockError::Damaged { path: path.to_owned(), reason };
    match atomic::read(path, RECORD_BYTES_MAX) {
        Ok(bytes) => OwnerRecord::from_text(&bytes).map(Some).map_err(damaged),
        Err(ReadError::Missing { .. }) => Ok(None),
        Err(ReadError::TooLarge { .. }) => Err(damaged("it is too long")),
        Err(error) => Err(LockError::Read(error)),
    }
}

#[cfg(test)]
mod tests;
