//! One directory, held by descriptor, in which one file is exchanged for another and never lost.
//!
//! The way to the directory and everything below it is resolved by the kernel without following a link; below it no
//! name leads upwards or to another filesystem. A kernel without `openat2` is refused: there is no second way to be
//! sure. Names are plain file names: what is changed lies directly in the directory.
//!
//! A file is replaced in three steps that each leave a state which can be told from every other by looking
//! ([`Found`]): [`PinnedRoot::prepare`] puts the whole new file beside the old one, [`PinnedRoot::exchange`] swaps
//! the two in one step, and only what came out is looked at before it is [removed](PinnedRoot::remove). Whatever
//! was in the place at the moment of the exchange, also something nobody expected, lies whole beside it afterwards
//! and can be exchanged back.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, RenameFlags, ResolveFlag, open, openat2, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use thiserror::Error;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::hash::Sha256Hash;

use crate::lock::{LockError, OwnerKind, OwnerLock};

/// What is written is for its owner alone.
const OWNER_ONLY: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// A file that changes under this many readings in a row is being written right now.
const READINGS_MAX: u32 = 4;

/// A directory cannot be pinned, or is not the pinned one any more.
#[derive(Debug, Error)]
pub enum PinError {
    /// There is nothing at this path.
    #[error("there is no directory `{path}`", path = path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The path, or a part of it, is a link.
    #[error("the way to `{path}` leads through a link; name the directory that it leads to", path = path.display())]
    Link {
        /// The path.
        path: PathBuf,
    },
    /// There is something else than a directory.
    #[error("`{path}` is not a directory", path = path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Another directory is at the path now.
    #[error("`{path}` is another directory than the one that was opened", path = path.display())]
    Replaced {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot open `{path}`", path = path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A file in a pinned directory was not read, written or moved. It names no file: the caller chose it.
#[derive(Debug, Error)]
pub enum FileError {
    /// There is nothing under this name.
    #[error("there is no such file")]
    Missing,
    /// There is a link under this name, or the name leads out of the directory.
    #[error("the name is a link, or leads out of the directory")]
    Link,
    /// There is a directory, pipe or device under this name.
    #[error("it is not a regular file")]
    NotRegular,
    /// The file is larger than the reader accepts.
    #[error("it is larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// The file changes while it is read.
    #[error("it changes while it is read")]
    Unsteady,
    /// Something is under a name that was to be new.
    #[error("there is something under this name already")]
    Exists,
    /// The system refused a step.
    #[error("cannot {step}")]
    Io {
        /// What was tried.
        step: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl FileError {
    fn io(step: &'static str, errno: Errno) -> Self {
        // Opening a socket, or a directory for writing.
        if matches!(errno, Errno::ENXIO | Errno::EISDIR | Errno::ENOTDIR) {
            return Self::NotRegular;
        }
        if matches!(errno, Errno::ELOOP | Errno::EXDEV) {
            return Self::Link;
        }
        if errno == Errno::ENOENT {
            return Self::Missing;
        }
        if errno == Errno::EEXIST { Self::Exists } else { Self::Io { step, source: errno.into() } }
    }
}

/// Is what lies under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A regular file with this content.
    File(Sha256Hash),
    /// Something else, or more than may be read: nothing of ours.
    Other,
}

/// Is a regular file that was read whole.
#[derive(Debug, Clone)]
pub struct WholeFile {
    /// Its content.
    pub bytes: Content<Vec<u8>>,
    /// The hash of it.
    pub sha256: Sha256Hash,
    /// Its permissions.
    pub mode: u32,
}

/// An open directory that nobody can swap for another.
#[derive(Debug)]
pub struct PinnedRoot {
    path: PathBuf,
    fd: OwnedFd,
    identity: (u64, u64),
}

impl PinnedRoot {
    /// Opens the directory at `path`, which is absolute and holds no link in any of its parts.
    ///
    /// # Errors
    ///
    /// Returns what keeps it from being one; nothing is followed and nothing made.
    pub fn open(path: &Path) -> Result<Self, PinError> {
        let fd = open_root(path)?;
        let identity = identity(&fd).map_err(|errno| refusal(path, errno))?;
        Ok(Self { path: path.to_owned(), fd, identity })
    }

    /// Returns the path it was opened at.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks whether the path still leads to this directory.
    ///
    /// # Errors
    ///
    /// Returns what is there now.
    pub fn check(&self) -> Result<(), PinError> {
        let now = open_root(&self.path)?;
        let same = identity(&now).map_err(|errno| refusal(&self.path, errno))? == self.identity;
        if same { Ok(()) } else { Err(PinError::Replaced { path: self.path.clone() }) }
    }

    /// Becomes the one owner of the directory, whatever its path leads to by now.
    ///
    /// # Errors
    ///
    /// Returns an error if another owner lives, or if the evidence of one is not exactly right.
    pub fn own(&self, name: &str, since_ms: i64) -> Result<OwnerLock, LockError> {
        let failed = |source: io::Error| LockError::Io { path: self.path.clone(), source };
        let fd = self.fd.try_clone().map_err(failed)?;
        // The kernel's own name for an open directory: no path is resolved again.
        let through = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        OwnerLock::acquire_pinned(fd, &through, name, OwnerKind::Materializer, since_ms)
    }

    /// Looks whether this process could become the owner of the directory now, or is it. Nothing is written.
    ///
    /// # Errors
    ///
    /// Returns what [`Self::own`] would.
    pub fn could_own(&self, name: &str) -> Result<(), LockError> {
        let through = PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        OwnerLock::could_acquire_pinned(&through, name, OwnerKind::Materializer)
    }

    /// Reads a regular file whole.
    ///
    /// # Errors
    ///
    /// Returns what is there instead, or that it does not come to rest.
    pub fn read(&self, name: &str, bytes_max: u64) -> Result<WholeFile, FileError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut file = File::from(self.open_below(name, flags, Mode::empty(), "open the file")?);
        for _ in 0..READINGS_MAX {
            let before = fstat(&file).map_err(|errno| FileError::io("look at the file", errno))?;
            if before.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits() {
                return Err(FileError::NotRegular);
            }
            if u64::try_from(before.st_size).map_or(true, |size| size > bytes_max) {
                return Err(FileError::TooLarge { bytes_max });
            }
            let mut bytes = Vec::new();
            io::Seek::rewind(&mut file)
                .and_then(|()| (&file).take(bytes_max.saturating_add(1)).read_to_end(&mut bytes))
                .map_err(|source| FileError::Io { step: "read the file", source })?;
            if bytes.len() as u64 > bytes_max {
                return Err(FileError::TooLarge { bytes_max });
            }
            let after = fstat(&file).map_err(|errno| FileError::io("look at the file", errno))?;
            if state(&before) == state(&after) && u64::try_from(after.st_size) == Ok(bytes.len() as u64) {
                let (sha256, mode) = (Sha256Hash::of(&bytes), after.st_mode & 0o7777);
                return Ok(WholeFile { bytes: Content::new(bytes), sha256, mode });
            }
        }
        Err(FileError::Unsteady)
    }

    /// Looks what lies under a name.
    ///
    /// # Errors
    ///
    /// Returns an error if nobody can say: the file does not come to rest, or the system refuses.
    pub fn find(&self, name: &str, bytes_max: u64) -> Result<Found, FileError> {
        match self.read(name, bytes_max) {
            Ok(file) => Ok(Found::File(file.sha256)),
            Err(FileError::Missing) => Ok(Found::Nothing),
            Err(FileError::Link | FileError::NotRegular | FileError::TooLarge { .. }) => Ok(Found::Other),
            Err(error @ (FileError::Unsteady | FileError::Exists | FileError::Io { .. })) => Err(error),
        }
    }

    /// Puts a whole, durable file for its owner alone under the name `ready`, which must be free. It is written under
    /// the name `draft`; whatever an interrupted attempt left there is a part of such a file, and goes away first.
    ///
    /// # Errors
    ///
    /// Returns an error if a step fails; then nothing is under `ready`, or a whole file, and nothing under `draft`
    /// if that can be removed.
    pub fn prepare(&self, draft: &str, ready: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.remove(draft)?;
        let written = self.write_new(draft, bytes).and_then(|()| {
            renameat2(&self.fd, draft, &self.fd, ready, RenameFlags::RENAME_NOREPLACE)
                .map_err(|errno| FileError::io("name the new file", errno))?;
            self.sync()
        });
        if written.is_err() {
            // Best effort: the error that led here is reported, and the next attempt removes it first.
            self.remove(draft).ok();
        }
        written
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let fd = self.open_below(name, flags, OWNER_ONLY, "create the new file")?;
        // The mode given at creation is cut by the process's mask; this one is not.
        fchmod(&fd, OWNER_ONLY).map_err(|errno| FileError::io("set the mode of the new file", errno))?;
        let mut file = File::from(fd);
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|source| FileError::Io { step: "write the new file", source })
    }

    /// Swaps what two names stand for, in one step and durably. Both must stand for something.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses; then nothing was swapped. What could not be made durable is swapped back.
    pub fn exchange(&self, one: &str, other: &str) -> Result<(), FileError> {
        let (one, other) = (plain(one)?, plain(other)?);
        let swap = || renameat2(&self.fd, one, &self.fd, other, RenameFlags::RENAME_EXCHANGE);
        swap().map_err(|errno| FileError::io("exchange the files", errno))?;
        self.sync().inspect_err(|_| {
            // Best effort: a disk that fails twice is told of once.
            swap().ok();
        })
    }

    /// Makes sure that a file is for its owner alone, and that it and its name are durable.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no regular file, or its mode cannot be set.
    pub fn close_to_others(&self, name: &str) -> Result<(), FileError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let fd = self.open_below(name, flags, Mode::empty(), "open the file")?;
        let found = fstat(&fd).map_err(|errno| FileError::io("look at the file", errno))?;
        if found.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits() {
            return Err(FileError::NotRegular);
        }
        fchmod(&fd, OWNER_ONLY).map_err(|errno| FileError::io("set the mode of the file", errno))?;
        fsync(&fd).map_err(|errno| FileError::io("sync the file", errno))?;
        self.sync()
    }

    /// Removes a name durably. One that stands for nothing counts as removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses.
    pub fn remove(&self, name: &str) -> Result<(), FileError> {
        match unlinkat(&self.fd, plain(name)?, UnlinkatFlags::NoRemoveDir) {
            Ok(()) => self.sync(),
            Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(FileError::io("remove a file", errno)),
        }
    }

    fn sync(&self) -> Result<(), FileError> {
        fsync(&self.fd).map_err(|errno| FileError::io("sync the directory", errno))
    }

    fn open_below(
        &self,
        name: &str,
        flags: OFlag,
        mode: Mode,
        step: &'static str,
    ) -> Result<OwnedFd, FileError> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .mode(mode)
            .resolve(without_links() | ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_XDEV);
        openat2(&self.fd, plain(name)?, how).map_err(|errno| FileError::io(step, errno))
    }
}

fn without_links() -> ResolveFlag {
    ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS
}

/// Lets names pass that cannot lead anywhere else: renaming and removing take no flags that would say so.
fn plain(name: &str) -> Result<&str, FileError> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    if plain { Ok(name) } else { Err(FileError::Link) }
}

fn open_root(path: &Path) -> Result<OwnedFd, PinError> {
    let below = path.strip_prefix("/").map_err(|_| PinError::Missing { path: path.to_owned() })?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let top = open("/", flags | OFlag::O_PATH, Mode::empty()).map_err(|errno| refusal(path, errno))?;
    let how =
        OpenHow::new().flags(flags | OFlag::O_RDONLY).resolve(without_links() | ResolveFlag::RESOLVE_BENEATH);
    openat2(&top, below, how).map_err(|errno| refusal(path, errno))
}

fn identity(fd: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Takes what tells one state of a file from another.
fn state(stat: &FileStat) -> (u64, u64, i64, i64, i64, i64, i64) {
    let FileStat { st_dev, st_ino, st_size, st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec, .. } = *stat;
    (st_dev, st_ino, st_size, st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec)
}

fn refusal(path: &Path, errno: Errno) -> PinError {
    let path = path.to_owned();
    if errno == Errno::ENOENT {
        return PinError::Missing { path };
    }
    if matches!(errno, Errno::ELOOP | Errno::EXDEV) {
        return PinError::Link { path };
    }
    if errno == Errno::ENOTDIR {
        return PinError::NotADirectory { path };
    }
    PinError::Io { path, source: errno.into() }
}

#[cfg(test)]
mod tests;
