//! The one storage layer under redb and the journal alike.
//!
//! Both keep their bytes in files of one directory and reach them only through [`Disk`] and [`DiskFile`], so
//! that [`crate::sim`] can stand below both at once and cut the power between any two operations. This
//! module knows names, bytes and access rights; what the bytes mean is for the layers above.

use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use redb::{BackendError, StorageBackend};
use thiserror::Error;

/// The access rights of every file the store creates: the owner's alone.
pub const FILE_MODE: u32 = 0o600;

/// The access rights of a store directory: the owner's alone.
pub const DIRECTORY_MODE: u32 = 0o700;

/// Says why a file or directory cannot serve as part of a store. Nothing was written to it.
#[derive(Debug, Error)]
pub enum DiskError {
    /// Nothing has this name.
    #[error("nothing is at `{path}`")]
    Missing {
        /// What was looked for.
        path: PathBuf,
    },
    /// The name is a symbolic link, which the store does not follow.
    #[error("`{path}` is a symbolic link, and the store follows none")]
    Symlink {
        /// The link.
        path: PathBuf,
    },
    /// Something else stands where a regular file should be.
    #[error("`{path}` is a {found}, not a regular file")]
    NotAFile {
        /// What was opened.
        path: PathBuf,
        /// What kind of thing stands there.
        found: &'static str,
    },
    /// Something else stands where the directory should be.
    #[error("`{path}` is a {found}, not a directory")]
    NotADirectory {
        /// What was opened.
        path: PathBuf,
        /// What kind of thing stands there.
        found: &'static str,
    },
    /// Others than the owner may read or write it.
    #[error("`{path}` has mode {mode:04o}: others than its owner have access to it")]
    TooOpen {
        /// What was opened.
        path: PathBuf,
        /// The permission bits found.
        mode: u32,
    },
    /// This user may not open it.
    #[error("no permission to open `{path}`")]
    Permission {
        /// What was opened.
        path: PathBuf,
    },
    /// The name is taken, and creating would overwrite.
    #[error("`{path}` exists already")]
    Exists {
        /// The taken name.
        path: PathBuf,
    },
    /// The operating system refused for another reason.
    #[error("cannot open `{path}`")]
    Io {
        /// What was opened.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl DiskError {
    /// Sorts an error of the system about `path` into the kinds a person can act on.
    pub fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if source.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) {
            return Self::Symlink { path };
        }
        let kind = source.kind();
        if kind == io::ErrorKind::NotFound {
            Self::Missing { path }
        } else if kind == io::ErrorKind::PermissionDenied {
            Self::Permission { path }
        } else if kind == io::ErrorKind::AlreadyExists {
            Self::Exists { path }
        } else {
            Self::Io { path, source }
        }
    }
}

/// One directory of files.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file that exists.
    ///
    /// # Errors
    /// Says what stands there instead, or why it cannot be opened.
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Opens a file that exists, to read it and nothing else: it may be one that cannot be written any more.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open(name)
    }

    /// Opens a file that exists, for what is asked.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn open_for(&self, access: Access, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        match access {
            Access::Write => self.open(name),
            Access::Read => self.open_to_read(name),
        }
    }

    /// Creates an empty file under a name that is free.
    ///
    /// # Errors
    /// Refuses a taken name.
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Gives a file another name, replacing what had it.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a name.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Lists the names, sorted.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn names(&self) -> Result<Vec<String>, DiskError>;

    /// Makes created, renamed and removed names durable.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn sync_names(&self) -> Result<(), DiskError>;

    /// Returns the path of `name`, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Returns how many bytes may still be written, if the disk can tell.
    fn free_bytes(&self) -> Option<u64>;
}

/// One open file. Reads and writes are whole or fail.
pub trait DiskFile: Debug + Send + Sync {
    /// Fills `out` from `offset`; fails if the file ends before that.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` at `offset`, growing the file if needed. Not durable before [`Self::sync`].
    ///
    /// # Errors
    /// After an error any part of it may have been written.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file holds no byte.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends (with zeros) to `len` bytes.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes every write so far durable.
    ///
    /// # Errors
    /// An error is final: the system may have forgotten which pages were dirty, so a second call proves
    /// nothing. Close the file and read it again.
    fn sync(&self) -> io::Result<()>;

    /// Says when what is put off takes place (see `behind.rs`).
    fn overlap(&self) -> Overlap {
        Overlap::Beside
    }

    /// Takes the exclusive lock on the file, or answers `false` if another holder has it.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn try_lock(&self) -> io::Result<bool>;

    /// Takes the lock together with others who only look, or answers `false` if somebody has it exclusively.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn try_lock_shared(&self) -> io::Result<bool>;

    /// Gives the lock back.
    ///
    /// # Errors
    /// Passes on what the system says.
    fn unlock(&self) -> io::Result<()>;
}

/// Says when operations take place that may overlap with other work. Which of them comes first is left to the system,
/// so whoever writes must be content with each; a simulated disk decides, and can be asked for the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// On a thread of its own, while the other work is done.
    Beside,
    /// At once.
    Before,
    /// As late as it may be.
    Behind,
}

/// A directory of the real file system.
#[derive(Debug)]
pub struct RealDisk {
    directory: PathBuf,
    access: Access,
}

/// Says what is asked of the system when a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read and to write.
    Write,
    /// To read alone, where writing may not be possible or allowed.
    Read,
}

impl RealDisk {
    /// Opens a directory to read what is in it, and nothing else.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_read(directory: &Path) -> Result<Self, DiskError> {
        Ok(Self { access: Access::Read, ..Self::open(directory)? })
    }

    /// Refuses to change a directory that was opened to be read.
    fn check_writable(&self, name: &str) -> Result<(), DiskError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(DiskError::Permission { path: self.path(name) }),
        }
    }

    /// Opens a directory that exists, belongs to its owner alone and is no symbolic link.
    ///
    /// # Errors
    /// Says what stands there instead, or who else has access.
    pub fn open(directory: &Path) -> Result<Self, DiskError> {
        let path = directory.to_owned();
        let metadata =
            std::fs::symlink_metadata(directory).map_err(|source| DiskError::from_io(directory, source))?;
        if metadata.file_type().is_symlink() {
            return Err(DiskError::Symlink { path });
        }
        if !metadata.is_dir() {
            return Err(DiskError::NotADirectory { path, found: kind_of(&metadata) });
        }
        let mode = metadata.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(DiskError::TooOpen { path, mode });
        }
        // Without this a directory nobody may read would later look like one that holds nothing.
        std::fs::read_dir(directory).map_err(|source| DiskError::from_io(directory, source))?;
        Ok(Self { directory: path, access: Access::Write })
    }

    /// Opens `directory`, making it (and nothing above it) first if nothing is there.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_or_create(directory: &Path) -> Result<Self, DiskError> {
        match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
            Ok(()) => sync_parent(directory)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(DiskError::from_io(directory, source)),
        }
        Self::open(directory)
    }
}

fn sync_parent(path: &Path) -> Result<(), DiskError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let handle = File::open(parent).map_err(|source| DiskError::from_io(parent, source))?;
    handle.sync_all().map_err(|source| DiskError::from_io(parent, source))
}

fn kind_of(metadata: &std::fs::Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "directory"
    } else if kind.is_file() {
        "file"
    } else if kind.is_symlink() {
        "symbolic link"
    } else if kind.is_fifo() {
        "named pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

/// Opens one real file, following no link, and checks what it is and who may use it.
///
/// # Errors
/// Says what stands there instead, or who else has access.
pub fn open_file(path: &Path, access: Access) -> Result<File, DiskError> {
    let named = std::fs::symlink_metadata(path).map_err(|source| DiskError::from_io(path, source))?;
    if named.file_type().is_symlink() {
        return Err(DiskError::Symlink { path: path.to_owned() });
    }
    if !named.is_file() {
        // Looked at before opening: opening a pipe would wait, opening a device may do something.
        return Err(DiskError::NotAFile { path: path.to_owned(), found: kind_of(&named) });
    }
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::Write).custom_flags(no_follow());
    let file = options.open(path).map_err(|source| DiskError::from_io(path, source))?;
    let metadata = file.metadata().map_err(|source| DiskError::from_io(path, source))?;
    if !metadata.is_file() {
        return Err(DiskError::NotAFile { path: path.to_owned(), found: kind_of(&metadata) });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(DiskError::TooOpen { path: path.to_owned(), mode });
    }
    Ok(file)
}

/// Creates one real file with [`FILE_MODE`] under a name that is free.
///
/// # Errors
/// Refuses a taken name.
pub fn create_file(path: &Path) -> Result<File, DiskError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(FILE_MODE).custom_flags(no_follow());
    options.open(path).map_err(|source| DiskError::from_io(path, source))
}

fn no_follow() -> i32 {
    (OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits()
}

impl Disk for RealDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(Box::new(RealFile(open_file(&self.path(name), self.access)?)))
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(Box::new(RealFile(open_file(&self.path(name), Access::Read)?)))
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.check_writable(name)?;
        Ok(Box::new(RealFile(create_file(&self.path(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.check_writable(from)?;
        std::fs::rename(self.path(from), self.path(to))
            .map_err(|source| DiskError::from_io(&self.path(from), source))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.check_writable(name)?;
        std::fs::remove_file(self.path(name)).map_err(|source| DiskError::from_io(&self.path(name), source))
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        let fail = |source| DiskError::from_io(&self.directory, source);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(fail)? {
            // A name that is no text is none of ours.
            names.extend(entry.map_err(fail)?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        let fail = |source| DiskError::from_io(&self.directory, source);
        File::open(&self.directory).map_err(fail)?.sync_all().map_err(fail)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn free_bytes(&self) -> Option<u64> {
        let found = nix::sys::statvfs::statvfs(&self.directory).ok()?;
        Some(found.blocks_available().saturating_mul(found.fragment_size()))
    }
}

/// A file of the real file system.
#[derive(Debug)]
pub struct RealFile(File);

impl RealFile {
    /// Wraps a file opened by [`open_file`] or [`create_file`].
    pub fn new(file: File) -> Self {
        Self(file)
    }

    /// Says whether a directory still names it. A lock on a file that another one has replaced guards nothing.
    fn has_name(&self) -> io::Result<bool> {
        Ok(self.0.metadata()?.nlink() > 0)
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(taken(self.0.try_lock())? && self.has_name()?)
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        Ok(taken(self.0.try_lock_shared())? && self.has_name()?)
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

fn taken(lock: Result<(), TryLockError>) -> io::Result<bool> {
    match lock {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Hands a [`DiskFile`] to redb.
#[derive(Debug)]
pub(crate) struct Backend(pub(crate) Box<dyn DiskFile>);

impl Backend {
    pub(crate) fn whole(start: Bound<u64>, end: Bound<u64>) -> bool {
        matches!(start, Bound::Unbounded | Bound::Included(0)) && end == Bound::Unbounded
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.unlock()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        // redb asks for the whole file in the mode we use; a finer range is not ours to offer.
        if Self::whole(start, end) { Ok(self.0.try_lock()?) } else { Err(BackendError::Unsupported) }
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if Self::whole(start, end) { Ok(self.0.unlock()?) } else { Err(BackendError::Unsupported) }
    }
}
