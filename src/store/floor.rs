//! Bare redb, as a measure: what the log's own tables would cost without checks, chain, indexes and journal.

use std::path::Path;

use redb::{Database, TableDefinition};

const EVENTS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("events");
const KEYS: TableDefinition<'static, (u32, u64), u64> = TableDefinition::new("keys");
const PROGRESS: TableDefinition<'static, u32, u64> = TableDefinition::new("progress");

/// Says that redb failed under a measurement.
#[derive(Debug, thiserror::Error)]
#[error("bare redb cannot be measured")]
pub struct FloorError(#[source] Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for FloorError {
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

/// A redb file with a body, an ordered key and a progress row for each event.
#[derive(Debug)]
pub struct BareRedb {
    database: Database,
    last: u64,
}

impl BareRedb {
    /// Makes the file.
    ///
    /// # Errors
    /// [`FloorError`] if it exists already or cannot be written.
    pub fn create(path: &Path) -> Result<Self, FloorError> {
        let database = redb::Builder::new().set_cache_size(64 << 20).create(path)?;
        Ok(Self { database, last: 0 })
    }

    /// Writes one event for each body in one durable transaction that asks for quick repair.
    ///
    /// # Errors
    /// [`FloorError`] if nothing was written.
    pub fn append(&mut self, bodies: &[&[u8]]) -> Result<(), FloorError> {
        let mut tx = self.database.begin_write()?;
        tx.set_quick_repair(true);
        {
            let mut events = tx.open_table(EVENTS)?;
            let mut keys = tx.open_table(KEYS)?;
            let mut progress = tx.open_table(PROGRESS)?;
            for body in bodies {
                self.last += 1;
                events.insert(self.last, *body)?;
                keys.insert((1, self.last), self.last)?;
                progress.insert(1, self.last)?;
            }
        }
        tx.commit()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::{ReadableDatabase, ReadableTableMetadata};

    #[test]
    fn every_body_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut floor = BareRedb::create(&directory.path().join("bare.redb")).unwrap();
        floor.append(&[b"one", b"two"]).unwrap();
        floor.append(&[b"three"]).unwrap();
        let tx = floor.database.begin_read().unwrap();
        assert_eq!(tx.open_table(EVENTS).unwrap().len().unwrap(), 3);
        assert_eq!(tx.open_table(PROGRESS).unwrap().get(1).unwrap().unwrap().value(), 3);
    }
}
