//! Where the doors are: made by the service that holds the store, found through a note in the data directory.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use thoughtstream_effects::atomic::{self, ReadError, WriteError};
use thoughtstream_effects::dirs::{DirError, PrivateDir};

/// The note in the data directory that says where the sockets are: a command may run with another runtime
/// directory than the service, from a timer or another login.
const NOTE: &str = "doors.json";

/// The note is one short line.
const NOTE_BYTES_MAX: u64 = 4096;

/// Says why the doors could not be opened.
#[derive(Debug, Error)]
pub enum DoorsError {
    /// A directory for the sockets cannot be made or is not private.
    #[error("cannot make a private directory for the sockets")]
    Directory(#[source] DirError),
    /// Something that is not a socket is where one should be.
    #[error("`{path}` is in the way: it is not a socket", path = path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// A socket cannot be made.
    #[error("cannot make the socket `{path}`", path = path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The runtime directory's name cannot be written down.
    #[error("the name of the runtime directory is not text")]
    Name,
    /// The note cannot be written.
    #[error("cannot note where the sockets are")]
    Note(#[source] WriteError),
}

/// Holds the two sockets; dropped, it removes them.
#[derive(Debug)]
pub struct Doors {
    data: PathBuf,
    ask_path: PathBuf,
    operator_path: PathBuf,
    ask: UnixListener,
    operator: UnixListener,
}

impl Doors {
    /// Opens the doors of the service on `data` below `runtime`.
    ///
    /// Whoever calls this holds the lock of `data`: sockets that are found were left by an owner that died.
    ///
    /// # Errors
    /// [`DoorsError`] naming the place.
    pub fn open(data: &Path, runtime: &Path) -> Result<Self, DoorsError> {
        let note = Note { directory: runtime.to_str().ok_or(DoorsError::Name)?.to_owned() };
        let parents = runtime.parent().into_iter().chain([runtime]);
        for directory in parents.map(Path::to_owned).chain([runtime.join("operator")]) {
            PrivateDir::create(&directory).map_err(DoorsError::Directory)?;
        }
        let (ask_path, operator_path) = paths(runtime);
        let (ask, operator) = (bind(&ask_path)?, bind(&operator_path)?);
        let text = serde_json::to_vec(&note).map_err(|_| DoorsError::Name)?;
        atomic::replace(&data.join(NOTE), &text, 0o600).map_err(DoorsError::Note)?;
        Ok(Self { data: data.to_owned(), ask_path, operator_path, ask, operator })
    }

    /// Removes the sockets, their directories and the note: nobody is to come in any more.
    pub fn close(&self) {
        // What stays is taken for what it is, the rest of an owner that ended.
        for path in [&self.operator_path, &self.ask_path] {
            std::fs::remove_file(path).ok();
            // Only if nothing else lies in it.
            path.parent().map(std::fs::remove_dir).transpose().ok();
        }
        forget(&self.data);
    }

    /// Returns listeners that a runtime can wait on: the ask door's and the operator door's.
    ///
    /// # Errors
    /// The system's refusal to duplicate them.
    pub fn listeners(&self) -> io::Result<(UnixListener, UnixListener)> {
        let (ask, operator) = (self.ask.try_clone()?, self.operator.try_clone()?);
        ask.set_nonblocking(true)?;
        operator.set_nonblocking(true)?;
        Ok((ask, operator))
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        self.close();
    }
}

/// Removes the note of an owner that ended.
pub fn forget(data: &Path) {
    atomic::remove(&data.join(NOTE)).ok();
}

/// Returns the paths of the two sockets that the service on `data` has noted, or nothing if it has not yet.
///
/// # Errors
/// The note is there and cannot be read.
pub fn recorded(data: &Path) -> Result<Option<(PathBuf, PathBuf)>, ReadError> {
    match atomic::read(&data.join(NOTE), NOTE_BYTES_MAX) {
        Ok(bytes) => {
            let note: Option<Note> = serde_json::from_slice(&bytes).ok();
            Ok(note.map(|note| paths(Path::new(&note.directory))))
        }
        Err(ReadError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    directory: String,
}

fn paths(runtime: &Path) -> (PathBuf, PathBuf) {
    (runtime.join("ask.sock"), runtime.join("operator/operator.sock"))
}

pub(super) fn bind(path: &Path) -> Result<UnixListener, DoorsError> {
    let failed = |source| DoorsError::Socket { path: path.to_owned(), source };
    match path.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path).map_err(failed)?,
        Ok(_) => return Err(DoorsError::InTheWay { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // The directory is private already; this is the second lock on the same door.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_private_found_through_the_note_and_removed_at_the_end() {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join("data");
        PrivateDir::create(&data).unwrap();
        assert_eq!(recorded(&data).unwrap(), None);
        let runtime = base.path().join("run/abc");
        let doors = Doors::open(&data, &runtime).unwrap();
        let (ask, operator) = recorded(&data).unwrap().unwrap();
        for path in [&ask, &operator] {
            assert_eq!(path.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let parent = path.parent().unwrap().symlink_metadata().unwrap();
            assert_eq!(parent.permissions().mode() & 0o777, 0o700);
        }
        assert_ne!(ask.parent(), operator.parent());
        drop(doors);
        assert_eq!(recorded(&data).unwrap(), None);
        assert!(!runtime.exists());
    }

    #[test]
    fn sockets_of_a_dead_owner_are_replaced_and_other_files_are_not() {
        let base = tempfile::tempdir().unwrap();
        let runtime = base.path().join("run/abc");
        std::mem::forget(Doors::open(base.path(), &runtime).unwrap());
        drop(Doors::open(base.path(), &runtime).unwrap());
        PrivateDir::create(&runtime).unwrap();
        std::fs::write(runtime.join("ask.sock"), "mine").unwrap();
        let error = Doors::open(base.path(), &runtime).unwrap_err();
        assert!(matches!(error, DoorsError::InTheWay { .. }), "{error}");
        assert_eq!(std::fs::read(runtime.join("ask.sock")).unwrap(), b"mine");
    }
}
