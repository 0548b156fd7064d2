//! How much room a filesystem has left.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use thiserror::Error;

/// The room on one filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes an unprivileged process may still write.
    pub bytes_free: u64,
    /// Bytes the filesystem has in all.
    pub bytes_total: u64,
    /// Files an unprivileged process may still create; `None` where the filesystem has no such number.
    pub files_free: Option<u64>,
    /// The filesystem is mounted for reading only.
    pub read_only: bool,
}

/// The filesystem below a path cannot be asked.
#[derive(Debug, Error)]
#[error("cannot ask the filesystem of `{path}` for its free space", path = path.display())]
pub struct RoomError {
    /// The path.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: nix::Error,
}

/// Returns the room on the filesystem that holds `path`.
///
/// # Errors
///
/// Returns an error if the path does not exist or may not be reached.
pub fn room(path: &Path) -> Result<Room, RoomError> {
    let stat = statvfs(path).map_err(|source| RoomError { path: path.to_owned(), source })?;
    let fragment = stat.fragment_size();
    Ok(Room {
        bytes_free: stat.blocks_available().saturating_mul(fragment),
        bytes_total: stat.blocks().saturating_mul(fragment),
        files_free: (stat.files() > 0).then(|| stat.files_available()),
        read_only: stat.flags().contains(nix::sys::statvfs::FsFlags::ST_RDONLY),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_a_missing_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let room_here = room(dir.path()).unwrap();
        assert!(room_here.bytes_free > 0 && room_here.bytes_free <= room_here.bytes_total);
        let error = room(&dir.path().join("missing")).unwrap_err();
        assert_eq!(error.source, nix::Error::ENOENT);
    }
}
