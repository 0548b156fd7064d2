//! Why a store could not be made or opened, each reason apart.

use std::io;
use std::path::{Path, PathBuf};

use redb::{DatabaseError, StorageError};
use thiserror::Error;

use super::FORMAT;
use crate::disk::DiskError;
use crate::journal::JournalError;
use crate::rows::RowError;

/// Says why a store could not be made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// There is one already.
    #[error("`{path}` already holds a store")]
    Exists {
        /// The log found.
        path: PathBuf,
    },
    /// The directory or a file in it cannot be used.
    #[error("cannot make a store")]
    Disk(#[from] DiskError),
    /// Writing failed.
    #[error("cannot write the new store in `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Says why a store could not be opened. Whatever the reason, no byte of it was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Nothing of a store is there.
    #[error("there is no store in `{path}`")]
    Absent {
        /// The directory.
        path: PathBuf,
    },
    /// A store was being made and never finished.
    #[error("the store in `{path}` was never finished; nothing is recorded in it, make it again")]
    Unfinished {
        /// The unfinished log.
        path: PathBuf,
    },
    /// Files are there, but not those of a store.
    #[error("`{path}` does not belong to a store")]
    NotAStore {
        /// What was found.
        path: PathBuf,
    },
    /// A newer version of this program wrote it.
    #[error("`{path}` says format {found}, newer than {FORMAT}, the newest this program knows")]
    NewerFormat {
        /// Where it says so.
        path: PathBuf,
        /// The format found.
        found: u16,
    },
    /// A file of the store has no content at all.
    #[error("`{path}` is empty, and a store's file never is")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The store is damaged.
    #[error("`{path}` is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The journal is damaged or does not fit the log.
    #[error("the journal cannot be replayed")]
    Journal(#[from] JournalError),
    /// Another process, or another part of this one, has it open.
    #[error("`{path}` is in use")]
    Held {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be used.
    #[error("cannot open the store")]
    Disk(#[from] DiskError),
    /// Reading or writing failed.
    #[error("cannot read or write `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Sorts an error of rows met while opening.
pub(crate) fn damaged_rows(path: &Path, error: RowError) -> OpenError {
    match error {
        RowError::Storage(source) => OpenError::Io { path: path.to_owned(), source },
        RowError::Damaged { place } => OpenError::Damaged { path: path.to_owned(), what: place },
    }
}

/// Sorts what redb says about opening a file.
pub(crate) fn database_error(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    let what = match &error {
        DatabaseError::DatabaseAlreadyOpen => return OpenError::Held { path },
        DatabaseError::Storage(StorageError::Corrupted(what)) => Some(what.clone()),
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Some(error.to_string())
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Some("it is shorter than it should be".to_owned())
        }
        DatabaseError::UpgradeRequired(version) => {
            Some(format!("its file format {version} was never used for a log"))
        }
        DatabaseError::Storage(_)
        | DatabaseError::RepairAborted
        | DatabaseError::LockProtocolMismatch
        | DatabaseError::TransactionInProgress
        | &_ => None,
    };
    match what {
        Some(what) => OpenError::Damaged { path, what },
        None => OpenError::Io { path, source: Box::new(error) },
    }
}
