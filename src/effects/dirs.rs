//! The private directory in which the service keeps what it knows, and directories through which others may come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fchmod, fstat, mkdirat};
use nix::unistd::{AccessFlags, Gid, Uid, access, fchown, fsync, geteuid};
use thiserror::Error;

/// Only the owner may look inside.
const PRIVATE: Mode = Mode::S_IRWXU;

/// A private directory could not be opened or made.
#[derive(Debug, Error)]
pub enum DirError {
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
    /// The directory belongs to another user.
    #[error("`{path}` belongs to user {owner}, and this process runs as user {us}", path = path.display())]
    Owner {
        /// The path.
        path: PathBuf,
        /// The user it belongs to.
        owner: u32,
        /// The user of this process.
        us: u32,
    },
    /// Others may look inside or write.
    #[error("`{path}` has mode {mode:04o} and must be closed to others; run `chmod go-rwx` on it", path = path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The path is longer than the system accepts.
    #[error("the path is {bytes} bytes long, more than the system accepts")]
    TooLong {
        /// Its length.
        bytes: usize,
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

/// A directory that was checked and is held open: owned by this user, closed to others, not a link.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    fd: OwnedFd,
}

impl PrivateDir {
    /// Opens the directory at `path` and checks it; creates nothing.
    ///
    /// # Errors
    ///
    /// Returns an error that tells a missing directory from one that may not be read, and from one that is
    /// not private.
    pub fn open(path: &Path) -> Result<Self, DirError> {
        let path = clean(path)?;
        let fd =
            open(&path, directory_flags(), Mode::empty()).map_err(|errno| refusal(&path, "open", errno))?;
        Self::check(path, fd)
    }

    /// Opens the directory at `path` and checks it; creates it, and what is missing above it, with mode 0700.
    ///
    /// A directory that exists is not changed: whoever opened it to others may have had a reason, and is told.
    ///
    /// # Errors
    ///
    /// As [`PrivateDir::open`], and if a directory cannot be made.
    pub fn create(path: &Path) -> Result<Self, DirError> {
        let path = clean(path)?;
        match Self::open(&path) {
            Err(DirError::Missing { .. }) => {}
            found => return found,
        }
        make_with_parents(&path)?;
        Self::open(&path)
    }

    /// Returns the path, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn check(path: PathBuf, fd: OwnedFd) -> Result<Self, DirError> {
        let stat = fstat(&fd).map_err(|errno| refusal(&path, "look at", errno))?;
        let us = geteuid().as_raw();
        if stat.st_uid != us {
            return Err(DirError::Owner { path, owner: stat.st_uid, us });
        }
        let mode = stat.st_mode & 0o7777;
        if mode & 0o077 != 0 {
            return Err(DirError::Open { path, mode });
        }
        Ok(Self { path, fd })
    }
}

/// Looks whether this process may make files in a directory: whether its mode says so, and its file system can be
/// written.
///
/// A file system that met an error may refuse every write while it still counts as mounted for writing; only a try
/// shows that. The file that is tried has no name and is gone at once.
///
/// # Errors
///
/// Returns why it may not.
pub fn writable(path: &Path) -> io::Result<()> {
    access(path, AccessFlags::W_OK | AccessFlags::X_OK)?;
    let nameless = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match open(path, nameless, Mode::S_IRUSR | Mode::S_IWUSR) {
        Err(errno @ (Errno::EROFS | Errno::EIO)) => Err(errno.into()),
        // One that has no files without names, or no room, says nothing about that.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Says who but its owner may come into a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admits {
    /// Nobody.
    Nobody,
    /// The members of one group; they may enter, and neither list nor change it.
    Group(u32),
    /// Everybody may pass through, and neither list nor change it: what lies below is closed by itself.
    Anybody,
}

/// Makes a directory that admits others, or sets what one that is there admits; what is missing above it is private.
///
/// # Errors
///
/// As [`PrivateDir::create`], and if this user may not give it to the group: only root and the group's members may.
pub fn passage(path: &Path, admits: Admits) -> Result<(), DirError> {
    let path = clean(path)?;
    let opened = open(&path, directory_flags(), Mode::empty());
    let fd = match opened {
        Err(Errno::ENOENT) => {
            make_with_parents(&path)?;
            open(&path, directory_flags(), Mode::empty())
        }
        opened => opened,
    };
    let fd = fd.map_err(|errno| refusal(&path, "open", errno))?;
    let stat = fstat(&fd).map_err(|errno| refusal(&path, "look at", errno))?;
    let us = geteuid();
    if stat.st_uid != us.as_raw() {
        return Err(DirError::Owner { path, owner: stat.st_uid, us: us.as_raw() });
    }
    let mode = match admits {
        Admits::Nobody => PRIVATE,
        Admits::Group(group) => {
            let given = fchown(&fd, None::<Uid>, Some(Gid::from_raw(group)));
            given.map_err(|errno| refusal(&path, "give to the group", errno))?;
            PRIVATE | Mode::S_IXGRP
        }
        Admits::Anybody => PRIVATE | Mode::S_IXGRP | Mode::S_IXOTH,
    };
    fchmod(&fd, mode).map_err(|errno| refusal(&path, "set the permissions of", errno))
}

impl AsFd for PrivateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// Makes a path absolute and drops slashes at its end: `link/` would be followed where `link` is not.
fn clean(path: &Path) -> Result<PathBuf, DirError> {
    let absolute = std::path::absolute(path).map_err(|source| DirError::Io {
        step: "make absolute",
        path: path.to_owned(),
        source,
    })?;
    Ok(absolute.components().collect())
}

fn refusal(path: &Path, step: &'static str, errno: Errno) -> DirError {
    let path = path.to_owned();
    if errno == Errno::ENOENT {
        return DirError::Missing { path };
    }
    // With O_DIRECTORY a link at the end answers ENOTDIR as a file does.
    if matches!(errno, Errno::ELOOP | Errno::ENOTDIR) && path.is_symlink() {
        return DirError::Link { path };
    }
    if errno == Errno::ENOTDIR {
        return DirError::NotADirectory { path };
    }
    if errno == Errno::ENAMETOOLONG {
        return DirError::TooLong { bytes: path.as_os_str().len() };
    }
    DirError::Io { step, path, source: errno.into() }
}

/// Walks down from the root and makes each directory that is missing.
///
/// Links above the last component are followed, as everywhere; the last one is checked by the caller.
fn make_with_parents(path: &Path) -> Result<(), DirError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut here = PathBuf::new();
    let mut parent: Option<OwnedFd> = None;
    for component in path.components() {
        here.push(component);
        let name = match component {
            Component::Normal(name) => Path::new(name),
            Component::RootDir => Path::new("/"),
            Component::ParentDir => Path::new(".."),
            Component::CurDir | Component::Prefix(_) => continue,
        };
        let opened = match &parent {
            None => open(name, flags, Mode::empty()),
            Some(fd) => openat(fd, name, flags, Mode::empty()),
        };
        let fd = match (opened, &parent) {
            (Ok(fd), _) => fd,
            (Err(Errno::ENOENT), Some(parent)) => make_one(parent, name, &here)?,
            (Err(errno), _) => return Err(refusal(&here, "open", errno)),
        };
        parent = Some(fd);
    }
    Ok(())
}

/// Makes one directory, sets its mode whatever the process's mask is, and makes its name durable.
fn make_one(parent: &OwnedFd, name: &Path, here: &Path) -> Result<OwnedFd, DirError> {
    match mkdirat(parent, name, PRIVATE) {
        // Another process was faster; it is checked like any other that exists.
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(refusal(here, "create", errno)),
    }
    let fd = openat(parent, name, directory_flags(), Mode::empty())
        .map_err(|errno| refusal(here, "open", errno))?;
    if fstat(&fd).is_ok_and(|stat| stat.st_mode & 0o700 != 0o700) {
        fchmod(&fd, PRIVATE).map_err(|errno| refusal(here, "set the mode of", errno))?;
    }
    fsync(parent).map_err(|errno| refusal(here, "sync the parent of", errno))?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};

    use super::*;
    use crate::testing::as_nobody;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_missing_directory_is_made_private_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/data");
        assert!(matches!(PrivateDir::open(&path), Err(DirError::Missing { .. })));
        assert!(!dir.path().join("a").exists());
        assert_eq!(PrivateDir::create(&path).unwrap().path(), path);
        assert_eq!((mode(&path), mode(&dir.path().join("a"))), (0o700, 0o700));
        PrivateDir::create(&path).unwrap();
        PrivateDir::open(&path).unwrap();
    }

    #[test]
    fn a_directory_open_to_others_is_refused_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        for open in [0o755, 0o750, 0o701, 0o777] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(open)).unwrap();
            let error = PrivateDir::create(dir.path()).unwrap_err();
            assert!(matches!(error, DirError::Open { mode, .. } if mode == open), "{error}");
            assert_eq!(mode(dir.path()), open);
        }
    }

    #[test]
    fn a_link_is_refused_also_with_a_slash_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        PrivateDir::create(&real).unwrap();
        let link = dir.path().join("link");
        symlink(&real, &link).unwrap();
        for path in [link, dir.path().join("link/"), dir.path().join("link/.")] {
            assert!(matches!(PrivateDir::create(&path), Err(DirError::Link { .. })), "{}", path.display());
        }
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        assert!(matches!(PrivateDir::create(&dir.path().join("dangling")), Err(DirError::Link { .. })));
        assert!(!dir.path().join("nowhere").exists());
    }

    #[test]
    fn a_passage_lets_others_through_and_shows_them_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let path = dir.path().join("through/inside");
        passage(&path, Admits::Nobody).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
        passage(path.parent().unwrap(), Admits::Anybody).unwrap();
        let group = path.metadata().unwrap().gid();
        passage(&path, Admits::Group(group)).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o710, 0o711));
        if geteuid().is_root() {
            passage(&path, Admits::Group(65_534)).unwrap();
            fs::write(path.join("socket"), "").unwrap();
            as_nobody(|| {
                assert!(path.join("socket").exists(), "a member of the group comes in");
                assert!(fs::read_dir(&path).is_err() && fs::read_dir(path.parent().unwrap()).is_err());
                assert!(fs::write(path.join("mine"), "").is_err());
            });
            chown(&path, Some(65_534), None).unwrap();
            assert!(matches!(passage(&path, Admits::Nobody), Err(DirError::Owner { owner: 65_534, .. })));
        }
        symlink(&path, dir.path().join("link")).unwrap();
        assert!(matches!(passage(&dir.path().join("link"), Admits::Nobody), Err(DirError::Link { .. })));
    }

    #[test]
    fn what_is_not_a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(PrivateDir::create(&file), Err(DirError::NotADirectory { .. })));
        assert!(matches!(PrivateDir::create(&file.join("below")), Err(DirError::NotADirectory { .. })));
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("theirs");
        PrivateDir::create(&path).unwrap();
        if geteuid().is_root() {
            chown(&path, Some(65_534), None).unwrap();
            assert!(matches!(PrivateDir::open(&path), Err(DirError::Owner { owner: 65_534, .. })));
        } else {
            assert!(matches!(PrivateDir::open(Path::new("/")), Err(DirError::Owner { owner: 0, .. })));
        }
    }

    #[test]
    fn a_place_that_may_not_be_read_is_not_called_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locked");
        PrivateDir::create(&path).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o0)).unwrap();
        for error in
            as_nobody(|| [PrivateDir::open(&path).unwrap_err(), PrivateDir::create(&path).unwrap_err()])
        {
            let DirError::Io { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_very_long_path_is_one_clear_error() {
        let long = Path::new("/tmp").join("x".repeat(300));
        assert!(matches!(PrivateDir::create(&long), Err(DirError::TooLong { bytes: 305 })));
        let deep: PathBuf =
            std::iter::once("/tmp".to_owned()).chain((0..500).map(|_| "deep-dir".to_owned())).collect();
        assert!(matches!(PrivateDir::create(&deep), Err(DirError::TooLong { .. })));
        assert!(!Path::new("/tmp/deep-dir").exists());
    }
}
