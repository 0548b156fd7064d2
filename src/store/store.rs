//! A store directory: making one, opening one, and saying exactly why one cannot be opened.
//!
//! `format` names the form, `log.redb` holds everything up to the last checkpoint, `journal.N` the rest. A
//! directory is a store once `log.redb` has its name; until then nothing was ever acknowledged in it. Opening
//! never creates, never repairs by forgetting, and changes no byte of what it refuses; opening to read changes none at
//! all.

mod error;
mod make;
mod open;

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use redb::Database;

use crate::disk::{Disk, DiskError, RealDisk};
use crate::journal;
use crate::names::Names;
use crate::reader::Reader;
use crate::rows::RowError;
use crate::writer::Writer;

pub use error::{CreateError, OpenError};
pub(crate) use error::{damaged_rows, database_error};
pub use make::create_on;
pub(crate) use make::{COPIED, FillError, make, write_meta};
pub(crate) use open::{
    APPLIED, add_tables, begins_as_a_log, check_magic, encode_mark, load_names, open_backend, read_meta,
    remove_remains, reopen,
};

/// The version of the whole stored form: tables, keys, records, journal. Since 2, rows that nothing else proves have a
/// seal (`seal.rs`); those of format 1 are read as they are.
pub const FORMAT: u16 = 2;

/// The log itself.
pub(crate) const LOG: &str = "log.redb";
/// The log while its store is being made.
const LOG_UNFINISHED: &str = "log.redb.new";
/// The log while it is written anew; what lies under this name when a log is opened is the remains of that.
pub(crate) const LOG_ANEW: &str = "log.redb.anew";
/// Names the form, so that a newer one is recognised before anything is touched.
const FORMAT_FILE: &str = "format";
/// The first line of [`FORMAT_FILE`].
const FORMAT_TITLE: &str = "thoughtstream store";

/// Returns what the format file of a store says that is written today.
fn format_text() -> String {
    format!("{FORMAT_TITLE}\nformat {FORMAT}\n")
}

/// Is what a store can be tuned by; the defaults are right for a service.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The length of each journal file when a store is created.
    pub journal_file_bytes: u64,
    /// How much of the log redb may keep in memory.
    pub cache_bytes: usize,
    /// How long to wait for a lock: a killed process holds it until the system has buried it.
    pub wait_for_lock: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_file_bytes: journal::DEFAULT_FILE_BYTES,
            cache_bytes: 64 << 20,
            wait_for_lock: Duration::from_secs(1),
        }
    }
}

/// Says what a directory holds, without opening a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing of a store.
    Absent,
    /// A store whose making was interrupted; nothing was ever recorded in it.
    Unfinished,
    /// A store, sound or not.
    Present,
}

/// What reader and writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Absent only while the log is being opened anew, or when that failed.
    database: RwLock<Option<Database>>,
    /// Whether something is answered that is not shown yet.
    unshown: Mutex<bool>,
    shown: Condvar,
    pub(crate) names: Names,
    pub(crate) mark: [u8; 16],
}

impl Shared {
    /// Shares an open database.
    pub(crate) fn new(database: Database, mark: [u8; 16]) -> Result<Self, RowError> {
        let names = Names::default();
        load_names(&database, &names)?;
        Ok(Self {
            database: RwLock::new(Some(database)),
            unshown: Mutex::default(),
            shown: Condvar::new(),
            names,
            mark,
        })
    }

    /// Closes the database once nobody reads it any more.
    pub(crate) fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Gives `change` the database alone; readers wait until it is done.
    pub(crate) fn alone<T>(&self, change: impl FnOnce(&mut Database) -> T) -> Option<T> {
        self.database.write().unwrap_or_else(PoisonError::into_inner).as_mut().map(change)
    }

    fn unshown(&self) -> MutexGuard<'_, bool> {
        self.unshown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everyone who begins to look wait until what is answered is shown.
    pub(crate) fn hold_looks(&self) -> Unshown<'_> {
        *self.unshown() = true;
        Unshown(Some(self))
    }

    /// Lets everyone look at what there is.
    pub(crate) fn let_look(&self) {
        *self.unshown() = false;
        self.shown.notify_all();
    }

    /// Waits until everything that was answered is shown.
    pub(crate) fn wait_until_shown(&self) {
        let waits = self.shown.wait_while(self.unshown(), |unshown| *unshown);
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }

    /// Gives the database back.
    pub(crate) fn into_database(self) -> Option<Database> {
        self.database.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open database, or says that there is none at the moment.
    pub(crate) fn database(&self) -> Result<OpenDatabase<'_>, RowError> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            return Err(RowError::Storage(Box::new(io::Error::other("the log is not open"))));
        }
        Ok(OpenDatabase(guard))
    }
}

/// Holds whoever begins to look up, and lets them go when it ends, by a panic too: nobody knows then when somebody comes
/// to open the log again.
pub(crate) struct Unshown<'s>(Option<&'s Shared>);

impl Unshown<'_> {
    /// Goes on holding them up until the log has been opened again, which comes next.
    pub(crate) fn until_reopened(mut self) {
        self.0 = None;
    }
}

impl Drop for Unshown<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.let_look();
        }
    }
}

/// Keeps the database from being closed while it is used.
pub(crate) struct OpenDatabase<'a>(RwLockReadGuard<'a, Option<Database>>);

impl std::ops::Deref for OpenDatabase<'_> {
    type Target = Database;
    fn deref(&self) -> &Database {
        self.0.as_ref().expect("checked when the guard was made")
    }
}

/// Is an open store: its one writer, and a reader to clone.
#[derive(Debug)]
pub struct Store {
    /// The only way to change the log.
    pub writer: Writer,
    /// Looks at what is durable.
    pub reader: Reader,
}

impl Store {
    /// Says what `directory` holds.
    ///
    /// # Errors
    /// If the directory exists but cannot be looked into: unreadable is not absent.
    pub fn look(directory: &Path) -> Result<Presence, DiskError> {
        match RealDisk::open(directory) {
            Ok(disk) => look_on(&disk),
            Err(DiskError::Missing { .. }) => Ok(Presence::Absent),
            Err(error) => Err(error),
        }
    }

    /// Makes a store in `directory`, which is created if needed. `mark` is random and identifies it.
    ///
    /// # Errors
    /// Refuses a directory that holds a store; an unfinished one is begun again.
    pub fn create(directory: &Path, mark: [u8; 16], options: Options) -> Result<(), CreateError> {
        create_on(&(Arc::new(RealDisk::open_or_create(directory)?) as Arc<dyn Disk>), mark, options)
    }

    /// Opens the store in `directory` and brings the log up to its last durable commit.
    ///
    /// # Errors
    /// [`OpenError`] names what is wrong; nothing was changed.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk::open(directory).map_err(|error| absent(directory, error))?), options)
    }

    /// Opens the store in `directory` to look at it: nothing in it is written, and others may look too. What
    /// the journal holds beyond the log is seen all the same.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_read(directory: &Path, options: Options) -> Result<Reader, OpenError> {
        let disk = RealDisk::open_to_read(directory).map_err(|error| absent(directory, error))?;
        Self::open_to_read_on(&disk, options)
    }

    /// Opens the store on any disk to look at it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_read_on(disk: &dyn Disk, options: Options) -> Result<Reader, OpenError> {
        let (database, mark) = open::read_log(disk, options)?;
        Reader::of(database, mark).map_err(|error| damaged_rows(&disk.path(LOG), error))
    }

    /// Opens the store on any disk.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Self, OpenError> {
        let opened = open::open_log(disk.as_ref(), options)?;
        let damaged = |error| damaged_rows(&disk.path(LOG), error);
        let reader = Reader::of(opened.database, opened.mark).map_err(damaged)?;
        let (behind, journal) = (opened.behind, opened.journal);
        let writer = Writer::new(&reader, disk.clone(), options, behind, journal, opened.incarnation);
        Ok(Self { writer: writer.map_err(damaged)?, reader })
    }
}

fn absent(directory: &Path, error: DiskError) -> OpenError {
    if let DiskError::Missing { .. } = error {
        return OpenError::Absent { path: directory.to_owned() };
    }
    OpenError::Disk(error)
}

/// Says what a disk holds.
pub(crate) fn look_on(disk: &dyn Disk) -> Result<Presence, DiskError> {
    let names = disk.names()?;
    let has = |name: &str| names.iter().any(|found| found == name);
    if has(LOG) {
        return Ok(Presence::Present);
    }
    if has(LOG_UNFINISHED) {
        return Ok(Presence::Unfinished);
    }
    // Without its log a store is damaged, not absent: nothing may be made over its remains.
    let remains = has(FORMAT_FILE) || journal::file_names().iter().any(|name| has(name));
    Ok(if remains { Presence::Present } else { Presence::Absent })
}

#[cfg(test)]
mod tests;
