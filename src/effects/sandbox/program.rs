//! The worker's program: opened once, known by its hash, and laid out with its libraries as a root of its own.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statvfs::{FsFlags, statvfs};
use thiserror::Error;
use thoughtstream_domain::hash::Sha256Hash;

use super::elf::{Loader, listed, loader};

/// A program or library that is larger is not what we built, nor what a C library consists of.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// The name of every layout; the number of the process that made it follows.
const LAYOUT: &str = "cell-";

/// What the worker is called inside.
pub(super) const INSIDE: &str = "/thought-worker";

/// The worker cannot be used.
#[derive(Debug, Error)]
pub enum BinaryError {
    /// There is none at this path.
    #[error("there is no worker at `{path}`", path = path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// It is no program of this machine, or everybody may write to it.
    #[error("`{path}` cannot be the worker: {why}", path = path.display())]
    Unfit {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The libraries that it maps cannot be found out.
    #[error("the libraries of `{path}` cannot be found out", path = path.display())]
    Libraries {
        /// The path.
        path: PathBuf,
    },
    /// Programs cannot be run from where it is to be laid out.
    #[error("`{place}` is mounted so that no program can be run from it", place = place.display())]
    NoExec {
        /// The directory.
        place: PathBuf,
    },
    /// There is no room for its copy.
    #[error("there is no room in `{place}` for the worker and its libraries, {needed} bytes", place = place.display())]
    NoRoom {
        /// The directory.
        place: PathBuf,
        /// How much room they need.
        needed: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its copy cannot be laid out.
    #[error("cannot {step} `{path}`, where the worker is to be laid out", path = path.display())]
    Place {
        /// What was tried.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be read.
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

impl BinaryError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "worker-missing",
            Self::Unfit { .. } => "worker-unfit",
            Self::Libraries { .. } => "worker-libraries",
            Self::NoExec { .. } => "worker-noexec",
            Self::NoRoom { .. } => "worker-no-room",
            Self::Place { .. } => "worker-no-place",
            Self::Io { .. } => "worker-unreadable",
        }
    }

    /// Says what a person can do.
    #[must_use]
    pub const fn way_out(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "install thought-worker beside thought, or say where it is in THOUGHTSTREAM_WORKER"
            }
            Self::Unfit { .. } => "install thought-worker again, owned by you or root",
            Self::Libraries { .. } => "run ldd on the worker: a library it needs is missing",
            Self::NoExec { .. } => "use a data directory on a filesystem that is not mounted noexec",
            Self::NoRoom { .. } => "free some space on the file system of the data directory",
            Self::Place { .. } => "see that the data directory can be written",
            Self::Io { .. } => "see that the worker can be read by the service's user",
        }
    }
}

/// Is a library as it was when the worker was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Where it was found; inside it lies at the same path.
    pub path: PathBuf,
    /// What it consisted of.
    pub sha256: Sha256Hash,
}

/// Is a worker that was opened: its bytes and those of its libraries, copied to where nobody else writes. What
/// happens to the files they came from changes nothing. The copies are removed when this is dropped.
#[derive(Debug)]
pub struct WorkerBinary {
    path: PathBuf,
    sha256: Sha256Hash,
    libraries: Vec<Library>,
    root: Layout,
}

impl WorkerBinary {
    /// Opens the program at `path` and lays it out in a directory below `place`, which must be private.
    ///
    /// # Errors
    /// [`BinaryError`] with a code and a way out.
    pub fn open(path: &Path, place: &Path) -> Result<Self, BinaryError> {
        let bytes = program(path)?;
        let wanted = match loader(&bytes) {
            None => return Err(unfit(path, "it is no 64-bit program of this machine")),
            Some(Loader::Static) => Vec::new(),
            Some(Loader::At(loader)) => libraries(path, loader)?,
        };
        let mut all = vec![(PathBuf::from(INSIDE), bytes)];
        for library in wanted {
            let bytes = read(&library)?;
            all.push((library, bytes));
        }
        let needed = all.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let laid_out = |error| no_room(error, place, needed);
        let root = Layout::make(place).map_err(laid_out)?;
        for (inside, bytes) in &all {
            root.add(inside, bytes).map_err(laid_out)?;
        }
        let (_, bytes) = all.remove(0);
        let library = |(path, bytes): (PathBuf, Vec<u8>)| Library { path, sha256: Sha256Hash::of(&bytes) };
        let found = all.into_iter().map(library).collect();
        Ok(Self { path: path.to_owned(), sha256: Sha256Hash::of(&bytes), libraries: found, root })
    }

    /// Returns where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the hash of the program.
    #[must_use]
    pub const fn sha256(&self) -> Sha256Hash {
        self.sha256
    }

    /// Returns the libraries, the loader among them.
    #[must_use]
    pub fn libraries(&self) -> &[Library] {
        &self.libraries
    }

    /// Returns the directory that a worker sees as its root.
    pub(super) fn root(&self) -> &Path {
        &self.root.0
    }
}

fn unfit(path: &Path, why: &'static str) -> BinaryError {
    BinaryError::Unfit { path: path.to_owned(), why }
}

fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BinaryError {
    move |source| BinaryError::Io { step, path: path.to_owned(), source }
}

fn place_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BinaryError {
    move |source| BinaryError::Place { step, path: path.to_owned(), source }
}

/// Says of a layout that found no room how much it needs.
fn no_room(error: BinaryError, place: &Path, needed: u64) -> BinaryError {
    if let BinaryError::Place { step, path, source } = error {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return BinaryError::NoRoom { place: place.to_owned(), needed, source };
        }
        return BinaryError::Place { step, path, source };
    }
    error
}

/// Reads a program through one descriptor, so that what is checked is what is copied.
fn program(path: &Path) -> Result<Vec<u8>, BinaryError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(BinaryError::Missing { path: path.to_owned() });
        }
        opened => opened.map_err(io_error("open", path))?,
    };
    let about = file.metadata().map_err(io_error("look at", path))?;
    if !about.is_file() || about.mode() & 0o111 == 0 {
        return Err(unfit(path, "it is not an executable file"));
    }
    if about.mode() & 0o002 != 0 {
        return Err(unfit(path, "everybody may write to it"));
    }
    whole(file, about.len(), path)
}

fn read(path: &Path) -> Result<Vec<u8>, BinaryError> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let about = file.metadata().map_err(io_error("look at", path))?;
    whole(file, about.len(), path)
}

fn whole(file: File, length: u64, path: &Path) -> Result<Vec<u8>, BinaryError> {
    if length > FILE_BYTES_MAX {
        return Err(unfit(path, "it is too large"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    Ok(bytes)
}

/// Asks the loader which libraries it would map for the program, and adds itself.
fn libraries(path: &Path, loader: &Path) -> Result<Vec<PathBuf>, BinaryError> {
    let unknown = || BinaryError::Libraries { path: path.to_owned() };
    let absolute = std::path::absolute(path).map_err(|_| unknown())?;
    let mut command = Command::new(loader);
    command.arg("--list").arg(&absolute).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|_| unknown())?;
    let text = String::from_utf8(output.stdout).map_err(|_| unknown())?;
    if !output.status.success() {
        return Err(unknown());
    }
    let mut paths: Vec<PathBuf> =
        listed(&text).ok_or_else(unknown)?.into_iter().map(Path::to_owned).collect();
    paths.push(loader.to_owned());
    paths.sort();
    paths.dedup();
    let is_plain = |path: &PathBuf| {
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
            && path != Path::new(INSIDE)
    };
    if paths.iter().all(is_plain) { Ok(paths) } else { Err(unknown()) }
}

/// Is a directory of files that are only read and run; removed when dropped.
#[derive(Debug)]
struct Layout(PathBuf);

impl Layout {
    fn make(place: &Path) -> Result<Self, BinaryError> {
        let about = statvfs(place).map_err(|errno| io_error("look at", place)(io::Error::from(errno)))?;
        if about.flags().contains(FsFlags::ST_NOEXEC) {
            return Err(BinaryError::NoExec { place: place.to_owned() });
        }
        remove_left_behind(place);
        // One process may lay out more than once: a second one in the middle of the first, or after it.
        let own = format!("{LAYOUT}{}-", std::process::id());
        let mut number = 0_u32;
        loop {
            let path = place.join(format!("{own}{number}"));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let layout = Self(path);
                    layout.close(&layout.0, 0o700)?;
                    return Ok(layout);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {
                    number += 1
                }
                Err(error) => return Err(place_error("make", &path)(error)),
            }
        }
    }

    /// Writes a file so that it can be read and run inside, and be changed by nobody.
    fn add(&self, inside: &Path, bytes: &[u8]) -> Result<(), BinaryError> {
        let below: PathBuf =
            inside.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let path = self.0.join(below);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(place_error("make", directory))?;
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path)
            .map_err(place_error("make", &path))?;
        file.write_all(bytes).map_err(place_error("write", &path))?;
        self.close(&path, 0o555)
    }

    fn close(&self, path: &Path, mode: u32) -> Result<(), BinaryError> {
        debug_assert!(path.starts_with(&self.0), "only what is ours is changed");
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(place_error("close", path))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // What stays is removed by the next one that is made.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Removes layouts of processes that are no more.
fn remove_left_behind(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(LAYOUT)?.split('-').next());
        let process = process.and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|number| !Path::new(&format!("/proc/{number}")).exists()) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
