//! Files that are whole or not there.
//!
//! A file is written beside its place, synced, put into its place in one step, and the directory is synced
//! after it. A power cut leaves the old file or the new one. No call follows a link at the last component of
//! a path, opens anything but a regular file, or waits on a pipe.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, open, openat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, fsync, linkat, unlinkat};
use thiserror::Error;

/// Names left behind by earlier crashes are stepped over; more than this many is a directory to look at.
const TEMPORARY_NAMES_TRIED_MAX: u32 = 1000;

/// A file could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The path has no directory part or no file name.
    #[error("`{path}` does not name a file in a directory", path = path.display())]
    NotAFileName {
        /// The path as given.
        path: PathBuf,
    },
    /// There is a link, directory, pipe or device where the file should be.
    #[error("`{path}` is not a regular file; it is left as it is", path = path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// A new file was asked for, and there is one.
    #[error("`{path}` exists already; it is left as it is", path = path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The system refused a step.
    #[error("cannot {step} `{path}`", path = path.display())]
    Io {
        /// What was tried.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A file could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// There is nothing at this path.
    #[error("there is no `{path}`", path = path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// There is a link, directory, pipe or device at this path.
    #[error("`{path}` is not a regular file", path = path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than the reader accepts.
    #[error("`{path}` is larger than {bytes_max} bytes", path = path.display())]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The system refused.
    #[error("cannot read `{path}`", path = path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Puts a file with these bytes and permissions at `path`, in place of a regular file that may be there.
///
/// # Errors
///
/// Returns an error if the path holds something else than a regular file, or a step fails. The old file is
/// then still there and whole; only a failure to sync the directory leaves open which of the two survives a
/// power cut.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
    let place = Place::open(path)?;
    match place.stat() {
        Err(Errno::ENOENT) => {}
        Ok(stat) if is_regular(&stat) => {}
        Ok(_) => return Err(WriteError::NotRegular { path: path.to_owned() }),
        Err(errno) => return Err(place.failed("look at", errno)),
    }
    let temporary = place.write_temporary(bytes, mode)?;
    renameat(&place.directory, temporary.name(), &place.directory, place.name)
        .map_err(|errno| place.failed("replace", errno))?;
    temporary.keep();
    fsync(&place.directory).map_err(|errno| place.failed("sync the directory of", errno))
}

/// Puts a new file with these bytes and permissions at `path`; never in place of anything.
///
/// # Errors
///
/// Returns [`WriteError::Exists`] if there is anything at `path`, a broken link included.
pub fn create(path: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
    let place = Place::open(path)?;
    let temporary = place.write_temporary(bytes, mode)?;
    let (dir, old, new) = (&place.directory, temporary.name(), place.name);
    let moved = match renameat2(dir, old, dir, new, RenameFlags::RENAME_NOREPLACE) {
        // Some network filesystems cannot refuse to replace; a second name can be made on most of them.
        // The first name goes away with `temporary`.
        Err(Errno::EINVAL | Errno::ENOSYS) => linkat(dir, old, dir, new, AtFlags::empty()),
        Ok(()) => {
            temporary.keep();
            Ok(())
        }
        Err(errno) => Err(errno),
    };
    match moved {
        Ok(()) => {}
        Err(Errno::EEXIST) => return Err(WriteError::Exists { path: path.to_owned() }),
        Err(errno) => return Err(place.failed("create", errno)),
    }
    fsync(dir).map_err(|errno| place.failed("sync the directory of", errno))
}

/// Creates an empty new file to be written piece by piece, such as a backup.
///
/// The caller syncs the file when it is whole. Its name is durable when this returns.
///
/// # Errors
///
/// Returns [`WriteError::Exists`] if there is anything at `path`, a broken link included.
pub fn create_empty(path: &Path, mode: u32) -> Result<File, WriteError> {
    let place = Place::open(path)?;
    let fd = match openat(&place.directory, place.name, new_file_flags(), Mode::from_bits_truncate(mode)) {
        Ok(fd) => fd,
        Err(Errno::EEXIST) => return Err(WriteError::Exists { path: path.to_owned() }),
        Err(errno) => return Err(place.failed("create", errno)),
    };
    fsync(&place.directory).map_err(|errno| place.failed("sync the directory of", errno))?;
    Ok(File::from(fd))
}

/// Removes the file at `path` durably. A file that is not there counts as removed.
///
/// # Errors
///
/// Returns an error if the system refuses the removal, or to sync the directory after it.
pub fn remove(path: &Path) -> Result<(), WriteError> {
    let place = Place::open(path)?;
    match unlinkat(&place.directory, place.name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) => fsync(&place.directory).map_err(|errno| place.failed("sync the directory of", errno)),
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(place.failed("remove", errno)),
    }
}

/// Reads a regular file of at most `bytes_max` bytes.
///
/// # Errors
///
/// Returns an error that tells a missing file, something that is no regular file, a file that is too large,
/// and a refusal by the system apart.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    let failed = |source: io::Error| ReadError::Io { path: path.to_owned(), source };
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::ENOENT) => return Err(ReadError::Missing { path: path.to_owned() }),
        // A link, or a socket.
        Err(Errno::ELOOP | Errno::ENXIO) => return Err(ReadError::NotRegular { path: path.to_owned() }),
        Err(errno) => return Err(failed(errno.into())),
    };
    if !is_regular(&fstat(&file).map_err(|errno| failed(errno.into()))?) {
        return Err(ReadError::NotRegular { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        return Err(ReadError::TooLarge { path: path.to_owned(), bytes_max });
    }
    Ok(bytes)
}

fn is_regular(stat: &FileStat) -> bool {
    stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits()
}

fn new_file_flags() -> OFlag {
    OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// Where a file is to be: an open directory and a name in it, so that later steps cannot be led elsewhere.
struct Place<'a> {
    path: &'a Path,
    directory: OwnedFd,
    name: &'a OsStr,
}

impl<'a> Place<'a> {
    fn open(path: &'a Path) -> Result<Self, WriteError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(WriteError::NotAFileName { path: path.to_owned() });
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = open(parent, flags, Mode::empty()).map_err(|errno| WriteError::Io {
            step: "open the directory",
            path: parent.to_owned(),
            source: errno.into(),
        })?;
        Ok(Self { path, directory, name })
    }

    fn stat(&self) -> Result<FileStat, Errno> {
        fstatat(&self.directory, self.name, AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    fn failed(&self, step: &'static str, errno: Errno) -> WriteError {
        WriteError::Io { step, path: self.path.to_owned(), source: errno.into() }
    }

    /// Writes and syncs a file of a name nobody else uses.
    fn write_temporary(&self, bytes: &[u8], mode: u32) -> Result<Temporary<'_>, WriteError> {
        let (mut file, temporary) = self.create_temporary()?;
        // The mode given at creation is cut by the process's mask; this one is not.
        fchmod(&file, Mode::from_bits_truncate(mode))
            .map_err(|errno| self.failed("set the mode of", errno))?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|source| WriteError::Io { step: "write", path: self.path.to_owned(), source })?;
        Ok(temporary)
    }

    fn create_temporary(&self) -> Result<(File, Temporary<'_>), WriteError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..TEMPORARY_NAMES_TRIED_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{REMAINS_START}{}-{number}{REMAINS_END}", std::process::id());
            match openat(&self.directory, name.as_str(), new_file_flags(), Mode::S_IRUSR | Mode::S_IWUSR) {
                Ok(fd) => {
                    return Ok((File::from(fd), Temporary { directory: &self.directory, name: Some(name) }));
                }
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(self.failed("create", errno)),
            }
        }
        Err(self.failed("create", Errno::EEXIST))
    }
}

/// How the first name of a file begins.
const REMAINS_START: &str = ".thought-";

/// How it ends.
const REMAINS_END: &str = ".tmp";

/// Says whether a file of this name is what a process left that was killed before its file had its own name.
#[must_use]
pub fn is_remains(name: &str) -> bool {
    name.starts_with(REMAINS_START) && name.ends_with(REMAINS_END)
}

/// A file under its first name; removed again unless it was kept.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: Option<String>,
}

impl Temporary<'_> {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // Best effort: what stays behind is an ignored dotfile, and the error that led here is reported.
            unlinkat(self.directory.as_fd(), name.as_str(), UnlinkatFlags::NoRemoveDir).ok();
        }
    }
}

#[cfg(test)]
mod tests;
