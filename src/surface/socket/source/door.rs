//! Where the doors of sources are: each in a directory of its own, open to one user and to nobody else.

use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use thiserror::Error;
use thoughtstream_domain::id::SourceId;
use thoughtstream_effects::dirs::{Admits, DirError, passage};

use super::Producing;
use crate::config::{Folder, Producer};
use crate::places::{Lookup, source_directory};
use crate::socket::DoorsError;
use crate::socket::door::bind;

/// The name of a source's socket in its directory.
pub const SOCKET: &str = "producer.sock";

/// Is the user that a producer runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its own group, which may enter the directory of the socket.
    pub gid: u32,
}

/// Says why the doors of sources could not be opened.
#[derive(Debug, Error)]
pub enum SourceDoorsError {
    /// There is no such user.
    #[error("there is no user `{user}`, who is to run the producer of {source_id}")]
    NoUser {
        /// The source.
        source_id: SourceId,
        /// The user as it is configured.
        user: String,
    },
    /// A directory cannot be made, or not be opened to the user's group.
    #[error("cannot make the directory for the producer of {source_id}")]
    Directory {
        /// The source.
        source_id: SourceId,
        /// Why.
        #[source]
        error: DirError,
    },
    /// The socket cannot be made.
    #[error("cannot make the socket for the producer of {source_id}")]
    Socket {
        /// The source.
        source_id: SourceId,
        /// Why.
        #[source]
        error: DoorsError,
    },
}

/// Finds the user that a folder's producer runs as, if that is another than the service's.
///
/// # Errors
/// [`SourceDoorsError::NoUser`].
pub fn user(folder: &Folder) -> Result<Option<User>, SourceDoorsError> {
    let Producer::Apart { user: Some(user) } = &folder.producer else { return Ok(None) };
    let found = match user.parse() {
        Ok(uid) => nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)),
        Err(_) => nix::unistd::User::from_name(user),
    };
    match found {
        Ok(Some(found)) => Ok(Some(User { uid: found.uid.as_raw(), gid: found.gid.as_raw() })),
        Ok(None) | Err(_) => {
            Err(SourceDoorsError::NoUser { source_id: folder.source.clone(), user: user.clone() })
        }
    }
}

/// Holds the door of one source; dropped, it removes it.
#[derive(Debug)]
pub(super) struct SourceDoor {
    pub(super) expected: Producing,
    /// The user that may come in beside root.
    pub(super) uid: u32,
    path: PathBuf,
    listener: UnixListener,
}

impl SourceDoor {
    fn open(folder: &Folder, directory: &Path, our_uid: u32) -> Result<Self, SourceDoorsError> {
        let source = || folder.source.clone();
        let other = user(folder)?.filter(|user| user.uid != our_uid);
        let admit = |admits| {
            passage(directory, admits)
                .map_err(|error| SourceDoorsError::Directory { source_id: source(), error })
        };
        // Closed until the socket in it is: nobody comes in between.
        admit(Admits::Nobody)?;
        let path = directory.join(SOCKET);
        let listener = bind(&path)
            .and_then(|listener| open_to(&path, other).map(|()| listener))
            .map_err(|error| SourceDoorsError::Socket { source_id: source(), error })?;
        let uid = match other {
            Some(User { uid, gid }) => {
                admit(Admits::Group(gid))?;
                uid
            }
            None => our_uid,
        };
        Ok(Self { expected: Producing::of(folder), uid, path, listener })
    }

    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    fn close(&self) {
        // What stays is taken for what it is, the rest of an owner that ended.
        std::fs::remove_file(&self.path).ok();
        self.path.parent().map(std::fs::remove_dir).transpose().ok();
    }
}

/// Lets another user's group write to the socket, which is to connect.
fn open_to(path: &Path, other: Option<User>) -> Result<(), DoorsError> {
    let Some(User { gid, .. }) = other else { return Ok(()) };
    chown(path, None, Some(gid))
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)))
        .map_err(|source| DoorsError::Socket { path: path.to_owned(), source })
}

/// Holds the doors of all sources whose producers run apart; dropped, it removes them.
#[derive(Debug)]
pub struct SourceDoors {
    pub(super) doors: Vec<SourceDoor>,
}

impl SourceDoors {
    /// Opens the doors of those among `folders` whose producers run apart.
    ///
    /// Whoever calls this holds the lock of `data`: sockets that are found were left by an owner that died.
    ///
    /// # Errors
    /// [`SourceDoorsError`] naming the source.
    pub fn open(
        folders: &[Folder],
        data: &Path,
        our_uid: u32,
        lookup: Lookup<'_>,
    ) -> Result<Self, SourceDoorsError> {
        let mut doors = Vec::new();
        for folder in folders.iter().filter(|folder| folder.is_apart()) {
            let directory = source_directory(data, &folder.source, our_uid, lookup);
            let above = directory.parent().unwrap_or(&directory);
            let others =
                folders.iter().any(|folder| matches!(&folder.producer, Producer::Apart { user: Some(_) }));
            let admits = if others { Admits::Anybody } else { Admits::Nobody };
            passage(above, admits)
                .map_err(|error| SourceDoorsError::Directory { source_id: folder.source.clone(), error })?;
            doors.push(SourceDoor::open(folder, &directory, our_uid)?);
        }
        Ok(Self { doors })
    }

    /// Says whether no source has one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.doors.is_empty()
    }

    /// Removes the sockets: nobody is to come in any more.
    pub fn close(&self) {
        for door in &self.doors {
            door.close();
            // Only if no other log has one there.
            door.path.parent().and_then(Path::parent).map(std::fs::remove_dir).transpose().ok();
        }
    }
}

impl Drop for SourceDoors {
    fn drop(&mut self) {
        self.close();
    }
}
