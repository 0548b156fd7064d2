//! Making a store so that an interruption at any point leaves either none or a whole one.

use std::sync::Arc;

use redb::{Database, WriteTransaction};

use super::error::CreateError;
use super::open::{APPLIED, encode_mark, open_backend};
use super::{FORMAT, FORMAT_FILE, LOG, LOG_UNFINISHED, Options, Presence, format_text, look_on};
use crate::disk::{Backend, Disk, DiskError, DiskFile};
use crate::journal::{self, Journal, Mark};
use crate::rows::RowError;
use crate::tables::Table;

/// Makes a store on any disk; see [`super::Store::create`].
///
/// # Errors
/// As [`super::Store::create`].
pub fn create_on(disk: &Arc<dyn Disk>, mark: [u8; 16], options: Options) -> Result<(), CreateError> {
    make(disk.as_ref(), options, |file| {
        let database = open_backend(Backend(file), options.cache_bytes)?;
        write_first_rows(&database, mark)?;
        Ok(database)
    })
}

/// Says why the content of a new store could not be written.
pub(crate) type FillError = Box<dyn std::error::Error + Send + Sync>;

/// Makes a store whose log is filled by a function; it becomes one only when everything in it is durable.
pub(crate) fn make(
    disk: &dyn Disk,
    options: Options,
    fill: impl FnOnce(Box<dyn DiskFile>) -> Result<Database, FillError>,
) -> Result<(), CreateError> {
    match look_on(disk)? {
        Presence::Present => return Err(CreateError::Exists { path: disk.path(LOG) }),
        Presence::Unfinished => remove_unfinished(disk)?,
        Presence::Absent => {}
    }
    let filled = fill_new(disk, options, fill);
    if filled.is_err() {
        // What cannot be removed still reads as unfinished; the first error is the one that counts.
        drop(remove_unfinished(disk));
    }
    filled
}

fn fill_new(
    disk: &dyn Disk,
    options: Options,
    fill: impl FnOnce(Box<dyn DiskFile>) -> Result<Database, FillError>,
) -> Result<(), CreateError> {
    // Its name marks everything that follows as unfinished until the last step.
    let log = disk.create(LOG_UNFINISHED)?;
    disk.sync_names()?;
    let fail = |name: &str, source: FillError| CreateError::Write { path: disk.path(name), source };
    Journal::create(disk, options.journal_file_bytes).map_err(|error| fail("journal", error.into()))?;
    let format = disk.create(FORMAT_FILE)?;
    let written = format.write_at(0, format_text().as_bytes()).and_then(|()| format.sync());
    written.map_err(|error| fail(FORMAT_FILE, error.into()))?;
    let database = fill(log).map_err(|error| fail(LOG, error))?;
    drop(database);
    // Closing wrote its last bytes without a sync of its own.
    let log = disk.open(LOG_UNFINISHED)?;
    log.sync().map_err(|error| fail(LOG, error.into()))?;
    disk.sync_names()?;
    disk.rename(LOG_UNFINISHED, LOG)?;
    disk.sync_names()?;
    Ok(())
}

fn remove_unfinished(disk: &dyn Disk) -> Result<(), DiskError> {
    let names = disk.names()?;
    let mut ours = journal::file_names();
    ours.push(FORMAT_FILE.to_owned());
    for name in ours.iter().filter(|name| names.contains(name)) {
        disk.remove(name)?;
    }
    // Last, so that an interruption here still reads as unfinished.
    disk.sync_names()?;
    disk.remove(LOG_UNFINISHED)
}

/// Creates all tables and the meta rows of a new log.
fn write_first_rows(database: &Database, mark: [u8; 16]) -> Result<(), FillError> {
    let mut tx = database.begin_write()?;
    tx.set_quick_repair(true);
    for table in Table::ALL {
        tx.open_table(table.definition())?;
    }
    write_meta(&tx, mark, 0)?;
    tx.commit()?;
    Ok(())
}

/// The meta row that says up to which position a log is a copy of another; absent in one that is not.
pub(crate) const COPIED: &[u8] = b"copied";

/// Writes what a log says about itself; until it is there, the file is no log.
pub(crate) fn write_meta(tx: &WriteTransaction, mark: [u8; 16], incarnation: u64) -> Result<(), RowError> {
    let mut meta = tx.open_table(Table::Meta.definition()).map_err(RowError::storage)?;
    let rows: [(&[u8], &[u8]); 4] = [
        (b"format", &u64::from(FORMAT).to_be_bytes()),
        (b"mark", &mark),
        (b"incarnation", &incarnation.to_be_bytes()),
        (APPLIED, &encode_mark(Mark::default())),
    ];
    for (key, value) in rows {
        meta.insert(key, value).map_err(RowError::storage)?;
    }
    Ok(())
}
