//! Compaction: the log is written anew, row by row, into a file that takes its place.
//!
//! redb uses the pages of rows that were erased or replaced again some day, and clears none of them before; a page in
//! use may carry the remains of a row behind those that are there. The journal, too, keeps a frame until it is written
//! over. So what a redaction erased stays readable in the bytes of both. A file that was only ever given the rows that
//! are there, and a journal of zeros, hold nothing else.

use std::io;

use redb::{
    Database, MultimapTableHandle as _, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition, TableHandle as _,
};
use thiserror::Error;

use super::{FREE_BYTES_MIN, WriteError, Writer};
use crate::disk::Backend;
use crate::overlay::Overlay;
use crate::reader::ReadTable;
use crate::store::{LOG, LOG_ANEW, open_backend, remove_remains};

/// Says what a compaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compacted {
    /// The log was written anew: of what was erased or replaced, no byte is left in its files.
    Anew,
    /// There was no room for a second log beside it, so it was moved together where it lies: it takes less of the
    /// disk, and what was erased may still lie between its rows.
    InPlace {
        /// The free bytes there were.
        free: u64,
        /// The free bytes that a second log needs.
        needed: u64,
    },
}

/// Says why a log was not compacted. It is whole all the same, as it was before or as it was written anew.
#[derive(Debug, Error)]
pub enum CompactError {
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] WriteError),
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[source] Box<redb::Error>),
    /// The new file cannot be written, or take the place of the old one.
    #[error("cannot write the log anew")]
    Write(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What was read of a table is not all it says it has, or was not read back as it was written.
    #[error("the log is damaged, or its copy is: table `{table}` is not the same in both")]
    Differs {
        /// The table.
        table: String,
    },
    /// The log was written anew, and the journal still holds what was written before.
    #[error("cannot clear the journal")]
    Journal(#[source] io::Error),
}

fn read_error(error: impl Into<redb::Error>) -> CompactError {
    CompactError::Read(Box::new(error.into()))
}

fn write_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CompactError {
    CompactError::Write(error.into())
}

impl Writer {
    /// Writes the log anew, gives what it no longer uses back to the disk, clears the journal and closes the log; of
    /// what was redacted, no byte is left in any of its files then. Takes about a minute for a gigabyte, and as
    /// much room beside the log as it has: for maintenance, not for every day. [`Self::reopen`] goes on with it.
    ///
    /// What the disk itself keeps of the file that was replaced is beyond a program.
    ///
    /// # Errors
    /// The log is whole then all the same; it must be opened again.
    pub fn compact_and_close(&mut self) -> Result<Compacted, CompactError> {
        let compacted = self.compact();
        // Whatever stands under the log's name now, only opening it again makes sure of.
        let closed = self.close();
        let compacted = compacted?;
        closed?;
        self.journal.clear().map_err(CompactError::Journal)?;
        Ok(compacted)
    }

    fn compact(&mut self) -> Result<Compacted, CompactError> {
        self.checkpoint()?;
        self.rest()?;
        let mut room = self.room()?;
        if room.is_err() {
            let shared = self.shared.clone();
            let compacted = shared.alone(Database::compact).ok_or(WriteError::MustReopen)?;
            compacted.map_err(write_error)?;
            room = self.room()?;
        }
        if let Err(in_place) = room {
            return Ok(in_place);
        }
        // The remains of a compaction that was cut short, if there are any.
        remove_remains(self.disk.as_ref()).map_err(write_error)?;
        if let Err(error) = self.write_anew() {
            // What cannot be removed goes with the next start; the first error is the one that counts.
            drop(self.disk.remove(LOG_ANEW));
            return Err(error);
        }
        self.disk.rename(LOG_ANEW, LOG).and_then(|()| self.disk.sync_names()).map_err(write_error)?;
        Ok(Compacted::Anew)
    }

    /// Ends the journal with a frame that says nothing, so that it can be cleared up to there.
    fn rest(&mut self) -> Result<(), WriteError> {
        self.frame.clear();
        let end = self.journal.seal(&mut self.frame);
        let written = self.journal.append(&self.frame, end, &mut || Ok(()));
        written.map_err(|error| self.unknown(error.into()))?;
        self.carry_to(end)
    }

    /// Says whether a second log fits beside this one; otherwise with what it was that there is too little of.
    fn room(&self) -> Result<Result<(), Compacted>, CompactError> {
        let Some(free) = self.disk.free_bytes() else { return Ok(Ok(())) };
        let log = self.disk.open(LOG).map_err(write_error)?;
        let needed = log.len().map_err(write_error)? + FREE_BYTES_MIN;
        Ok(if free < needed { Err(Compacted::InPlace { free, needed }) } else { Ok(()) })
    }

    /// Copies every row into a new file, makes it durable and holds it against the log.
    fn write_anew(&self) -> Result<(), CompactError> {
        let database = self.shared.database().map_err(|_| WriteError::MustReopen)?;
        let from = database.begin_read().map_err(read_error)?;
        let file = self.disk.create(LOG_ANEW).map_err(write_error)?;
        let mut anew = open_backend(Backend(file), self.options.cache_bytes).map_err(write_error)?;
        copy(&from, &anew)?;
        // Rows that come in order leave pages half full and others free.
        anew.compact().map_err(write_error)?;
        drop(anew);
        // Closing wrote its last bytes without a sync of its own.
        let file = self.disk.open(LOG_ANEW).map_err(write_error)?;
        file.sync().map_err(write_error)?;
        let overlay = Overlay::to_read(file).map_err(write_error)?;
        let anew = open_backend(overlay, self.options.cache_bytes).map_err(write_error)?;
        compare(&from, &anew.begin_read().map_err(write_error)?)
    }
}

/// Returns the names of a log's tables: also of those that only a later version of this program knows.
fn tables(tx: &ReadTransaction) -> Result<Vec<String>, CompactError> {
    if let Some(other) = tx.list_multimap_tables().map_err(read_error)?.next() {
        return Err(CompactError::Differs { table: other.name().to_owned() });
    }
    Ok(tx.list_tables().map_err(read_error)?.map(|table| table.name().to_owned()).collect())
}

fn definition(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

/// Copies all rows in one durable step.
fn copy(from: &ReadTransaction, anew: &Database) -> Result<(), CompactError> {
    let mut tx = anew.begin_write().map_err(write_error)?;
    tx.set_quick_repair(true);
    for name in tables(from)? {
        let table = from.open_table(definition(&name)).map_err(read_error)?;
        let mut to = tx.open_table(definition(&name)).map_err(write_error)?;
        for row in table.iter().map_err(read_error)? {
            let (key, value) = row.map_err(read_error)?;
            to.insert(key.value(), value.value()).map_err(write_error)?;
        }
    }
    tx.commit().map_err(write_error)
}

/// Makes sure that two logs hold the same rows, and as many as they say.
fn compare(from: &ReadTransaction, anew: &ReadTransaction) -> Result<(), CompactError> {
    for name in tables(from)? {
        let here = from.open_table(definition(&name)).map_err(read_error)?;
        let there = anew.open_table(definition(&name)).map_err(write_error)?;
        if !same(&here, &there)? {
            return Err(CompactError::Differs { table: name });
        }
    }
    Ok(())
}

fn same(here: &ReadTable, there: &ReadTable) -> Result<bool, CompactError> {
    let (mut rows, mut copied) = (here.iter().map_err(read_error)?, there.iter().map_err(write_error)?);
    let mut count = 0;
    loop {
        match (rows.next().transpose().map_err(read_error)?, copied.next().transpose().map_err(write_error)?)
        {
            (None, None) => break,
            (Some((key, value)), Some((other_key, other_value)))
                if key.value() == other_key.value() && value.value() == other_value.value() => {}
            (Some(_) | None, Some(_) | None) => return Ok(false),
        }
        count += 1;
    }
    Ok(count == here.len().map_err(read_error)? && count == there.len().map_err(write_error)?)
}
