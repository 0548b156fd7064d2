//! One write transaction: rows are staged in memory, written as one frame, and put into redb as the frame says.
//!
//! What a group puts is seen at once by the commits behind it in the same group, and touches redb only when all of them
//! are checked: a row that many of them change is put once, in its last form, and a group that fails leaves nothing to
//! take back. Replaying a frame needs no rule of the log, only its bytes; the everyday way and the way back after a
//! power cut are the same [`Tables::replay`]. Readers and writers of rows above this module never see redb's types.

mod staged;

use std::cmp::Ordering;

use redb::{ReadableTable, WriteTransaction};
use thiserror::Error;

use crate::account::{Go, Look, Take};
use crate::codec::{Cursor, Malformed};
use crate::journal::Frame;
use crate::names::Names;
use crate::projection::{Put, PutBehind};
use crate::tables::Table;
use crate::{place, seal};
use staged::{Staged, merge};

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
    /// Says whether what is damaged is an event, and no row that leads to one or says where to go on.
    pub fn is_of_event(&self) -> bool {
        match self {
            Self::Storage(_) => false,
            Self::Damaged { place } => {
                place.split(' ').next().is_some_and(|table| table == Table::Events.name())
            }
        }
    }

    /// Wraps an error of redb.
    pub(crate) fn storage(error: impl Into<redb::Error>) -> Self {
        Self::Storage(Box::new(error.into()))
    }

    /// Names a damaged row by its table and a few words.
    pub(crate) fn damaged(table: Table, key: impl std::fmt::Display) -> Self {
        Self::Damaged { place: format!("{} {key}", table.name()) }
    }

    /// Names a damaged row as `verify` does.
    pub(crate) fn damaged_row(table: Table, key: &[u8], names: &Names) -> Self {
        Self::Damaged { place: place::of(table, key, names) }
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

/// The tables of a write transaction, each opened when first touched.
pub(crate) struct Tables<'t> {
    tx: &'t WriteTransaction,
    open: [Option<OpenTable<'t>>; Table::COUNT],
}

/// Marks a removal in a frame, beside the table's number.
const REMOVED: u8 = 0x80;

impl<'t> Tables<'t> {
    pub(crate) fn new(tx: &'t WriteTransaction) -> Self {
        Self { tx, open: [const { None }; Table::COUNT] }
    }

    /// Returns a table, opening it the first time.
    pub(crate) fn table(&mut self, table: Table) -> Result<&mut OpenTable<'t>, RowError> {
        let slot = &mut self.open[table as usize];
        if slot.is_none() {
            *slot = Some(self.tx.open_table(table.definition()).map_err(RowError::storage)?);
        }
        Ok(slot.as_mut().expect("opened above"))
    }

    /// Says whether a row is there and is this one.
    pub(crate) fn has(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool, RowError> {
        let found = self.table(table)?.get(key).map_err(RowError::storage)?;
        Ok(found.is_some_and(|found| found.value() == value))
    }

    /// Puts what a journal frame says; validates nothing again.
    pub(crate) fn replay(&mut self, body: &[u8]) -> Result<(), ReplayError> {
        let mut cursor = Cursor::new(body);
        while !cursor.is_at_end() {
            let code = cursor.byte()?;
            let table = Table::from_code(code & !REMOVED).ok_or(cursor.malformed())?;
            let key = cursor.bytes()?;
            if code & REMOVED == 0 {
                self.put_stored(table, key, cursor.bytes()?)?;
            } else {
                self.table(table)?.remove(key).map_err(RowError::storage)?;
            }
        }
        Ok(())
    }

    /// Puts a row in its stored form, whatever that is.
    pub(crate) fn put_stored(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<(), RowError> {
        self.table(table)?.insert(key, row).map_err(RowError::storage)?;
        Ok(())
    }
}

impl Put for Tables<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        self.put_stored(table, key, &seal::close(table, key, value))
    }
}

impl PutBehind for Tables<'_> {
    fn last_in(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Pair>, RowError> {
        let mut range = self.table(table)?.range(from..to).map_err(RowError::storage)?;
        let Some(found) = range.next_back() else { return Ok(None) };
        let (key, value) = found.map_err(RowError::storage)?;
        Ok(Some((key.value().to_vec(), value.value().to_vec())))
    }
}

/// The rows as a group sees them: those of the log, and over them what the group has put so far. Whoever reads or puts
/// one has to do with its body alone: it is sealed when it is written into the frame, once, and opened when it is read.
pub(crate) struct Rows<'t> {
    below: Tables<'t>,
    above: Staged,
    names: &'t Names,
}

impl<'t> Rows<'t> {
    /// Starts on a transaction with nothing staged; `names` say what a damaged row is called.
    pub(crate) fn new(tx: &'t WriteTransaction, names: &'t Names) -> Self {
        Self { below: Tables::new(tx), above: Staged::default(), names }
    }

    /// Writes what is staged into a frame, and returns the tables that it is to be put into.
    pub(crate) fn into_frame(self, frame: &mut Frame) -> Tables<'t> {
        for (table, key, value) in self.above.rows() {
            let code = table as u8 | if value.is_none() { REMOVED } else { 0 };
            frame.push(&[code]);
            frame.push_number(key.len() as u64);
            frame.push(key);
            if let Some(value) = value {
                frame.push_number(seal::length(table, value) as u64);
                seal::parts(table, key, value, |part| frame.push(part));
            }
        }
        self.below
    }

    /// Reads a row through a function, without copying it.
    pub(crate) fn read<T>(
        &mut self,
        table: Table,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, RowError> {
        if let Some(staged) = self.above.get(table, key) {
            return Ok(staged.map(read));
        }
        let Some(found) = self.below.table(table)?.get(key).map_err(RowError::storage)? else {
            return Ok(None);
        };
        let body = seal::open(table, key, found.value());
        Ok(Some(read(body.map_err(|_| RowError::damaged_row(table, key, self.names))?)))
    }

    /// Returns a copy of a row.
    pub(crate) fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowError> {
        self.read(table, key, <[u8]>::to_vec)
    }

    /// Returns whether a row exists, whatever it is worth.
    pub(crate) fn has(&mut self, table: Table, key: &[u8]) -> Result<bool, RowError> {
        if let Some(staged) = self.above.get(table, key) {
            return Ok(staged.is_some());
        }
        Ok(self.below.table(table)?.get(key).map_err(RowError::storage)?.is_some())
    }

    /// Hands on each row from `from` up to, without, `to`, in an order, until told to stop.
    fn walk(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        order: Order,
        take: Take<'_>,
    ) -> Result<(), RowError> {
        let below = self.below.table(table)?.range(from..to).map_err(RowError::storage)?;
        let above = self.above.range(table, from, to);
        let names = self.names;
        let open: Take<'_> = &mut |key, row| {
            take(key, seal::open(table, key, row).map_err(|_| RowError::damaged_row(table, key, names))?)
        };
        match order {
            Order::Rising => merge(below, above, Ordering::Less, open),
            Order::Falling => merge(below.rev(), above.rev(), Ordering::Greater, open),
        }
    }

    fn one(&mut self, table: Table, from: &[u8], to: &[u8], order: Order) -> Result<Option<Pair>, RowError> {
        let mut found = None;
        self.walk(table, from, to, order, &mut |key, value| {
            found = Some((key.to_vec(), value.to_vec()));
            Ok(Go::Stop)
        })?;
        Ok(found)
    }

    /// Returns the first row from `from` up to, without, `to`.
    pub(crate) fn first(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Pair>, RowError> {
        self.one(table, from, to, Order::Rising)
    }

    /// Returns a copy of every row from `from` up to, without, `to`.
    pub(crate) fn all_in(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Vec<Pair>, RowError> {
        let mut all = Vec::new();
        self.walk(table, from, to, Order::Rising, &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            Ok(Go::On)
        })?;
        Ok(all)
    }

    /// Stages a row; answers whether it is new.
    pub(crate) fn put_new(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool, RowError> {
        let is_new = !self.has(table, key)?;
        self.above.put(table, key, value);
        Ok(is_new)
    }

    /// Stages a row.
    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.above.put(table, key, value);
    }

    /// Stages the removal of a row that may exist.
    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) {
        self.above.remove(table, key);
    }
}

/// Says which way a range is walked.
#[derive(Clone, Copy, Debug)]
enum Order {
    Rising,
    Falling,
}

impl Look for Rows<'_> {
    fn each(&mut self, table: Table, from: &[u8], to: &[u8], take: Take<'_>) -> Result<(), RowError> {
        self.walk(table, from, to, Order::Rising, take)
    }
}

impl Put for Rows<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        Rows::put(self, table, key, value);
        Ok(())
    }
}

impl PutBehind for Rows<'_> {
    fn last_in(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Pair>, RowError> {
        self.one(table, from, to, Order::Falling)
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

#[cfg(test)]
mod tests;
