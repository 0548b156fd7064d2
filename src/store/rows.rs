//! One write transaction: every row that goes into redb also goes, as put, into the journal's frame.
//!
//! Replaying a frame therefore needs no rule of the log, only these bytes. Readers and writers of rows above
//! this module never see redb's types.

use redb::{ReadableTable, WriteTransaction};
use thiserror::Error;

use crate::account::{Go, Look, Take};
use crate::codec::{Cursor, Malformed};
use crate::journal::Frame;
use crate::projection::{Put, PutBehind};
use crate::tables::Table;

/// Says why rows could not be read or written.
#[derive(Debug, Error)]
pub enum RowError {
    /// redb or the disk under it failed.
    #[error("the storage failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stored row is not what its table promises.
    #[error("the log is damaged at {place}")]
    Damaged {
        /// The table and key, as `verify` names them.
        place: String,
    },
}

impl RowError {
    /// Wraps an error of redb.
    pub(crate) fn storage(error: impl Into<redb::Error>) -> Self {
        Self::Storage(Box::new(error.into()))
    }

    /// Names a damaged row by its table and a few words.
    pub(crate) fn damaged(table: Table, key: impl std::fmt::Display) -> Self {
        Self::Damaged { place: format!("{} {key}", table.name()) }
    }
}

/// Names the row whose bytes are malformed.
pub(crate) trait At<T> {
    /// Turns malformed bytes into damage at a place.
    fn at(self, table: Table, key: impl std::fmt::Display) -> Result<T, RowError>;
}

impl<T> At<T> for Result<T, Malformed> {
    fn at(self, table: Table, key: impl std::fmt::Display) -> Result<T, RowError> {
        self.map_err(|_| RowError::damaged(table, key))
    }
}

/// A copied row: key and value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Looks at stored bytes that may be damaged in ways redb itself does not expect: in builds with assertions it
/// panics where it would otherwise answer an error. `None` says that it did. Only for reading: a panic inside
/// a write transaction must end it.
pub(crate) fn unless_panicking<T>(look: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).ok()
}

type OpenTable<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// A write transaction with its tables opened when first touched.
pub(crate) struct Rows<'t> {
    tx: &'t WriteTransaction,
    open: [Option<OpenTable<'t>>; Table::COUNT],
    frame: &'t mut Frame,
}

/// Marks a removal in a frame, beside the table's number.
const REMOVED: u8 = 0x80;

impl<'t> Rows<'t> {
    /// Starts on a transaction; rows put are also written to `frame`.
    pub(crate) fn new(tx: &'t WriteTransaction, frame: &'t mut Frame) -> Self {
        Self { tx, open: [const { None }; Table::COUNT], frame }
    }

    fn table(&mut self, table: Table) -> Result<&mut OpenTable<'t>, RowError> {
        let slot = &mut self.open[table as usize];
        if slot.is_none() {
            *slot = Some(self.tx.open_table(table.definition()).map_err(RowError::storage)?);
        }
        Ok(slot.as_mut().expect("opened above"))
    }

    /// Returns how many bytes the frame's body has.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame.body_bytes()
    }

    /// Reads a row through a function, without copying it.
    pub(crate) fn read<T>(
        &mut self,
        table: Table,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, RowError> {
        let found = self.table(table)?.get(key).map_err(RowError::storage)?;
        Ok(found.map(|guard| read(guard.value())))
    }

    /// Returns a copy of a row.
    pub(crate) fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowError> {
        self.read(table, key, <[u8]>::to_vec)
    }

    /// Returns whether a row exists.
    pub(crate) fn has(&mut self, table: Table, key: &[u8]) -> Result<bool, RowError> {
        Ok(self.read(table, key, |_| ())?.is_some())
    }

    /// Returns the first row from `from` up to, without, `to`.
    pub(crate) fn first(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Pair>, RowError> {
        let mut range = self.table(table)?.range(from..to).map_err(RowError::storage)?;
        let Some(found) = range.next() else { return Ok(None) };
        let (key, value) = found.map_err(RowError::storage)?;
        Ok(Some((key.value().to_vec(), value.value().to_vec())))
    }

    /// Returns a copy of every row from `from` up to, without, `to`.
    pub(crate) fn all_in(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Vec<Pair>, RowError> {
        let rows = self.table(table)?.range(from..to).map_err(RowError::storage)?;
        let copied = rows.map(|row| row.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())));
        copied.collect::<Result<_, _>>().map_err(RowError::storage)
    }

    /// Returns the last row from `from` up to, without, `to`.
    pub(crate) fn last_in(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Pair>, RowError> {
        let mut range = self.table(table)?.range(from..to).map_err(RowError::storage)?;
        let Some(found) = range.next_back() else { return Ok(None) };
        let (key, value) = found.map_err(RowError::storage)?;
        Ok(Some((key.value().to_vec(), value.value().to_vec())))
    }

    /// Writes a row; answers whether it is new.
    pub(crate) fn put_new(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool, RowError> {
        let is_new = self.table(table)?.insert(key, value).map_err(RowError::storage)?.is_none();
        self.note(table as u8, key);
        self.note_bytes(value);
        Ok(is_new)
    }

    /// Writes a row.
    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        self.put_new(table, key, value).map(drop)
    }

    /// Removes a row if it exists.
    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), RowError> {
        self.table(table)?.remove(key).map_err(RowError::storage)?;
        self.note(table as u8 | REMOVED, key);
        Ok(())
    }

    /// Writes a row into redb alone: what the journal itself says, or what a replay puts.
    pub(crate) fn put_unjournaled(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        self.table(table)?.insert(key, value).map_err(RowError::storage)?;
        Ok(())
    }

    fn note(&mut self, code: u8, key: &[u8]) {
        self.frame.push(&[code]);
        self.note_bytes(key);
    }

    fn note_bytes(&mut self, bytes: &[u8]) {
        self.frame.push_number(bytes.len() as u64);
        self.frame.push(bytes);
    }

    /// Puts what a journal frame says; validates nothing again.
    pub(crate) fn replay(&mut self, body: &[u8]) -> Result<(), ReplayError> {
        let mut cursor = Cursor::new(body);
        while !cursor.is_at_end() {
            let code = cursor.byte()?;
            let table = Table::from_code(code & !REMOVED).ok_or(cursor.malformed())?;
            let key = cursor.bytes()?;
            if code & REMOVED == 0 {
                self.put_unjournaled(table, key, cursor.bytes()?)?;
            } else {
                self.table(table)?.remove(key).map_err(RowError::storage)?;
            }
        }
        Ok(())
    }
}

impl Look for Rows<'_> {
    fn each(&mut self, table: Table, from: &[u8], to: &[u8], take: Take<'_>) -> Result<(), RowError> {
        for row in self.table(table)?.range(from..to).map_err(RowError::storage)? {
            let (key, value) = row.map_err(RowError::storage)?;
            if take(key.value(), value.value())? == Go::Stop {
                break;
            }
        }
        Ok(())
    }
}

impl Put for Rows<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        Rows::put(self, table, key, value)
    }
}

impl PutBehind for Rows<'_> {
    fn last_in(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Pair>, RowError> {
        Rows::last_in(self, table, from, to)
    }
}

/// Says why a frame could not be replayed.
#[derive(Debug, Error)]
pub(crate) enum ReplayError {
    #[error("a journal frame with a good checksum has a malformed body")]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Row(#[from] RowError),
}
