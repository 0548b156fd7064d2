//! The root of a source: one directory, opened once and recognised again.
//!
//! The directory is held by descriptor and its identity is pinned. Whoever swaps the path for a link, another
//! directory or an empty mount point makes an incident, never a removal. Below the root no link is followed
//! and no other filesystem is entered.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat};
use thiserror::Error;

/// Identifies a directory while its filesystem is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootIdentity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// A directory cannot be the root of a source.
#[derive(Debug, Error)]
pub enum RootError {
    /// There is nothing at this path.
    #[error("there is no directory `{path}`", path = path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The last component is a link.
    #[error("`{path}` is a link; name the directory it leads to", path = path.display())]
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
    /// The service's own data lies inside: each event would be a change that makes the next event.
    #[error("`{path}` contains the data directory `{data}`", path = path.display(), data = data.display())]
    ContainsData {
        /// The path.
        path: PathBuf,
        /// The data directory.
        data: PathBuf,
    },
    /// The root lies inside the service's own data.
    #[error("`{path}` lies inside the data directory `{data}`", path = path.display(), data = data.display())]
    InsideData {
        /// The path.
        path: PathBuf,
        /// The data directory.
        data: PathBuf,
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

/// The root is not there as it was; the source waits, and nothing counts as removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RootIncident {
    /// Nothing is at its path.
    #[error("the root is gone")]
    Missing,
    /// A link, another directory or another filesystem is at its path.
    #[error("the root is another directory now")]
    Replaced,
    /// A file or a link is at its path when it is opened.
    #[error("the root is no directory but a file or a link")]
    NotADirectory,
    /// It and the service's data directory lie one inside the other.
    #[error("the root and the data directory lie one inside the other")]
    OverlapsData,
    /// It may not be read.
    #[error("the root cannot be read: {0}")]
    Unreadable(Errno),
}

/// An open root.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    fd: OwnedFd,
    identity: RootIdentity,
    /// Whether the kernel is too old, or a filter too strict, for `openat2`.
    by_component: AtomicBool,
}

impl Root {
    /// Opens the directory at `path`, which must keep apart from the service's `data` directory.
    ///
    /// Of that one nothing need be readable: a producer that runs as another user looks at its place only. One that
    /// this process cannot see at all is in nobody's way.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a directory one may read, is a link, or shares a branch with `data`.
    pub fn open(path: &Path, data: &Path) -> Result<Self, RootError> {
        let path = clean(path)?;
        let fd = open(&path, directory_flags() | OFlag::O_RDONLY, Mode::empty())
            .map_err(|errno| refusal(&path, errno))?;
        let identity = identity(&fd).map_err(|errno| refusal(&path, errno))?;
        let data_fd = match open(data, directory_flags() | OFlag::O_PATH, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => {
                return Ok(Self { path, fd, identity, by_component: AtomicBool::new(false) });
            }
            Err(errno) => return Err(refusal(data, errno)),
        };
        let data_identity = self::identity(&data_fd).map_err(|errno| refusal(data, errno))?;
        if lies_below(&data_fd, data, identity).map_err(|errno| refusal(data, errno))? {
            return Err(RootError::ContainsData { path, data: data.to_owned() });
        }
        if lies_below(&fd, &path, data_identity).map_err(|errno| refusal(&path, errno))? {
            return Err(RootError::InsideData { path, data: data.to_owned() });
        }
        Ok(Self { path, fd, identity, by_component: AtomicBool::new(false) })
    }

    /// Returns the path, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns which directory this is.
    #[must_use]
    pub fn identity(&self) -> RootIdentity {
        self.identity
    }

    /// Looks whether the path still leads to the pinned directory and that may still be read.
    ///
    /// # Errors
    ///
    /// Returns what a person has to put right.
    pub fn check(&self) -> Result<(), RootIncident> {
        let incident = |errno: Errno| {
            if errno == Errno::ENOENT {
                RootIncident::Missing
            } else if matches!(errno, Errno::ELOOP | Errno::ENOTDIR) {
                RootIncident::Replaced
            } else {
                RootIncident::Unreadable(errno)
            }
        };
        let now = open(&self.path, directory_flags() | OFlag::O_RDONLY, Mode::empty()).map_err(incident)?;
        if identity(&now).map_err(incident)? == self.identity { Ok(()) } else { Err(RootIncident::Replaced) }
    }

    /// Opens a directory for listing; `None` is the root itself.
    pub(crate) fn open_directory(
        &self,
        parent: Option<BorrowedFd<'_>>,
        name: &[u8],
    ) -> Result<OwnedFd, Errno> {
        let flags = directory_flags() | OFlag::O_RDONLY;
        match parent {
            None => openat(&self.fd, ".", flags, Mode::empty()),
            Some(parent) => self.open_below(parent, name, flags),
        }
    }

    /// Opens a file for reading without waiting for whoever is at the other end of a pipe.
    pub(crate) fn open_file(&self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<File, Errno> {
        self.open_below(parent, name, file_flags()).map(File::from)
    }

    /// Opens the file at a path below the root.
    pub(crate) fn open_path(&self, path: &str) -> Result<File, Errno> {
        if !self.by_component.load(Ordering::Relaxed) {
            match openat2(&self.fd, path, how(file_flags())) {
                Err(errno) if is_unsupported(errno) => self.by_component.store(true, Ordering::Relaxed),
                opened => return opened.map(File::from),
            }
        }
        let (parents, name) =
            path.rsplit_once('/').map_or((None, path), |(parents, name)| (Some(parents), name));
        let mut directory = self.open_directory(None, b"")?;
        for parent in parents.into_iter().flat_map(|parents| parents.split('/')) {
            directory = self.open_directory(Some(directory.as_fd()), parent.as_bytes())?;
        }
        self.open_file(directory.as_fd(), name.as_bytes())
    }

    /// Looks at a directory below the root.
    pub(crate) fn stat_path(&self, path: &str) -> Result<FileStat, Errno> {
        let flags = directory_flags() | OFlag::O_PATH;
        if !self.by_component.load(Ordering::Relaxed) {
            return fstat(openat2(&self.fd, path, how(flags))?);
        }
        let mut directory = self.open_directory(None, b"")?;
        for name in path.split('/') {
            directory = self.open_below(directory.as_fd(), name.as_bytes(), flags)?;
        }
        fstat(directory)
    }

    /// Opens one name in an open directory, following no link and leaving no filesystem.
    fn open_below(&self, parent: BorrowedFd<'_>, name: &[u8], flags: OFlag) -> Result<OwnedFd, Errno> {
        if !self.by_component.load(Ordering::Relaxed) {
            match openat2(parent, name, how(flags)) {
                Err(errno) if is_unsupported(errno) => self.by_component.store(true, Ordering::Relaxed),
                opened => return opened,
            }
        }
        if name.contains(&b'/') || name == b".." || name.is_empty() {
            return Err(Errno::EXDEV);
        }
        let opened = openat(parent, name, flags | OFlag::O_NOFOLLOW, Mode::empty())?;
        if fstat(&opened)?.st_dev == self.identity.device { Ok(opened) } else { Err(Errno::EXDEV) }
    }
}

#[cfg(test)]
impl Root {
    /// Behaves as on a kernel without `openat2`.
    pub(crate) fn without_openat2(self) -> Self {
        self.by_component.store(true, Ordering::Relaxed);
        self
    }
}

fn directory_flags() -> OFlag {
    OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

fn file_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC
}

fn how(flags: OFlag) -> OpenHow {
    OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS
            | ResolveFlag::RESOLVE_NO_XDEV,
    )
}

/// Older kernels do not know the call; older container filters answer `EPERM`.
fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSYS | Errno::EPERM)
}

fn identity(fd: &OwnedFd) -> Result<RootIdentity, Errno> {
    let stat = fstat(fd)?;
    Ok(RootIdentity { device: stat.st_dev, inode: stat.st_ino })
}

/// Walks up from a directory and looks whether it is, or lies below, the one identified.
///
/// By identity, not by path: so links and second mounts of the same tree hide nothing. Only out of a directory that
/// is closed to this user its `path` leads further up.
fn lies_below(fd: &OwnedFd, path: &Path, above: RootIdentity) -> Result<bool, Errno> {
    let up = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut now = identity(fd)?;
    let mut parent = match openat(fd, "..", up, Mode::empty()) {
        Err(Errno::EACCES) => open(&parent_of(path)?, up, Mode::empty())?,
        opened => opened?,
    };
    loop {
        if now == above {
            return Ok(true);
        }
        let next = identity(&parent)?;
        if next == now {
            return Ok(false);
        }
        now = next;
        parent = openat(&parent, "..", up, Mode::empty())?;
    }
}

/// Returns the directory above one that may not be entered, wherever links on the way lead.
fn parent_of(path: &Path) -> Result<PathBuf, Errno> {
    let real = path.canonicalize().map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    Ok(real.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Makes a path absolute and drops slashes at its end: `link/` would be followed where `link` is not.
fn clean(path: &Path) -> Result<PathBuf, RootError> {
    let absolute =
        std::path::absolute(path).map_err(|source| RootError::Io { path: path.to_owned(), source })?;
    Ok(absolute.components().collect())
}

fn refusal(path: &Path, errno: Errno) -> RootError {
    let path = path.to_owned();
    if errno == Errno::ENOENT {
        return RootError::Missing { path };
    }
    // With O_DIRECTORY a link at the end answers ENOTDIR as a file does.
    if matches!(errno, Errno::ELOOP | Errno::ENOTDIR) && path.is_symlink() {
        return RootError::Link { path };
    }
    if errno == Errno::ENOTDIR {
        return RootError::NotADirectory { path };
    }
    RootError::Io { path, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::testing::as_nobody;

    struct Place {
        _dir: tempfile::TempDir,
        notes: PathBuf,
        data: PathBuf,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (notes, data) = (dir.path().join("notes"), dir.path().join("data"));
        fs::create_dir(&notes).unwrap();
        fs::create_dir(&data).unwrap();
        Place { _dir: dir, notes, data }
    }

    #[test]
    fn a_root_must_be_a_real_directory() {
        let place = place();
        let link = place.data.join("link");
        symlink(&place.notes, &link).unwrap();
        for path in [link, place.data.join("link/"), place.data.join("link/.")] {
            assert!(matches!(Root::open(&path, &place.data), Err(RootError::Link { .. })), "{path:?}");
        }
        fs::write(place.notes.join("file"), "").unwrap();
        let file = Root::open(&place.notes.join("file"), &place.data);
        assert!(matches!(file, Err(RootError::NotADirectory { .. })));
        let missing = Root::open(&place.notes.join("missing"), &place.data);
        assert!(matches!(missing, Err(RootError::Missing { .. })));
    }

    #[test]
    fn a_root_and_the_data_directory_keep_apart() {
        let place = place();
        let above = place.notes.parent().unwrap();
        assert!(matches!(Root::open(above, &place.data), Err(RootError::ContainsData { .. })));
        assert!(matches!(Root::open(&place.data, &place.data), Err(RootError::ContainsData { .. })));
        let inside = place.data.join("a/b");
        fs::create_dir_all(&inside).unwrap();
        assert!(matches!(Root::open(&inside, &place.data), Err(RootError::InsideData { .. })));
        assert!(matches!(Root::open(Path::new("/"), &place.data), Err(RootError::ContainsData { .. })));
        Root::open(&place.notes, &place.data).unwrap();
    }

    #[test]
    fn the_way_to_the_data_directory_may_lead_through_a_link() {
        let place = place();
        let hidden = place.notes.join("deep/data");
        fs::create_dir_all(&hidden).unwrap();
        symlink(place.notes.join("deep"), place.data.join("way")).unwrap();
        let roundabout = place.data.join("way/data");
        assert!(matches!(Root::open(&place.notes, &roundabout), Err(RootError::ContainsData { .. })));
    }

    #[test]
    fn a_data_directory_that_is_closed_to_this_user_is_kept_apart_from_all_the_same() {
        let place = place();
        fs::set_permissions(&place.notes, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&place.data, fs::Permissions::from_mode(0o700)).unwrap();
        let above = place.notes.parent().unwrap();
        as_nobody(|| {
            Root::open(&place.notes, &place.data).unwrap();
            assert!(matches!(Root::open(above, &place.data), Err(RootError::ContainsData { .. })));
            // What is not there, or hidden, is in nobody's way.
            Root::open(&place.notes, &above.join("elsewhere")).unwrap();
        });
    }

    #[test]
    fn a_root_that_is_swapped_moved_or_closed_is_an_incident_and_comes_back() {
        let place = place();
        let root = Root::open(&place.notes, &place.data).unwrap();
        assert_eq!(root.check(), Ok(()));
        let aside = place.data.join("aside");
        fs::rename(&place.notes, &aside).unwrap();
        assert_eq!(root.check(), Err(RootIncident::Missing));
        symlink(&aside, &place.notes).unwrap();
        assert_eq!(root.check(), Err(RootIncident::Replaced));
        fs::remove_file(&place.notes).unwrap();
        fs::write(&place.notes, "a file").unwrap();
        assert_eq!(root.check(), Err(RootIncident::Replaced));
        fs::remove_file(&place.notes).unwrap();
        fs::create_dir(&place.notes).unwrap();
        assert_eq!(root.check(), Err(RootIncident::Replaced));
        fs::remove_dir(&place.notes).unwrap();
        fs::rename(&aside, &place.notes).unwrap();
        assert_eq!(root.check(), Ok(()));
        fs::set_permissions(&place.notes, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(as_nobody(|| root.check()), Err(RootIncident::Unreadable(Errno::EACCES)));
    }

    #[test]
    fn nothing_is_opened_through_a_link_or_upwards() {
        let place = place();
        fs::write(place.data.join("secret"), "s").unwrap();
        fs::create_dir(place.notes.join("sub")).unwrap();
        fs::write(place.notes.join("sub/note"), "n").unwrap();
        symlink(&place.data, place.notes.join("out")).unwrap();
        symlink("sub", place.notes.join("in")).unwrap();
        symlink("note", place.notes.join("sub/link")).unwrap();
        let open = || Root::open(&place.notes, &place.data).unwrap();
        for root in [open(), open().without_openat2()] {
            assert!(root.open_path("sub/note").is_ok());
            for path in [
                "out/secret",
                "in/note",
                "sub/link",
                "../data/secret",
                "sub/../../data/secret",
                "/etc/passwd",
            ] {
                assert!(root.open_path(path).is_err(), "{path}");
            }
        }
    }

    #[test]
    fn another_filesystem_is_not_entered() {
        // Built by hand: as a source the whole machine is refused.
        let fd = open("/", directory_flags() | OFlag::O_RDONLY, Mode::empty()).unwrap();
        let identity = identity(&fd).unwrap();
        let root = Root { path: "/".into(), fd, identity, by_component: AtomicBool::new(false) };
        let top = root.open_directory(None, b"").unwrap();
        assert_eq!(root.open_directory(Some(top.as_fd()), b"proc").unwrap_err(), Errno::EXDEV);
        assert_eq!(root.stat_path("proc/self").unwrap_err(), Errno::EXDEV);
        let root = root.without_openat2();
        assert_eq!(root.open_directory(Some(top.as_fd()), b"proc").unwrap_err(), Errno::EXDEV);
        assert!(root.stat_path("proc/self").is_err());
    }
}
