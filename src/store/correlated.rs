//! The rows that count what belongs together: events of one source, type and correlation, in the order of
//! the log.
//!
//! Each row says how many there are up to it and links a hash over their ids, so that the whole past before a row
//! is named by reading that row.

use thoughtstream_domain::conversation::evidence::link;
use thoughtstream_domain::hash::{ChainHash, tagged};
use thoughtstream_domain::id::EventId;

use crate::codec::{Cursor, Malformed, put_number};
use crate::tables::{self, Key};

/// Returns the key of an event's row.
pub(crate) fn key(source: u32, kind: u32, correlation: &str, position: u64) -> Key {
    let hash = tagged("thoughtstream 2026 correlation v1", &[correlation.as_bytes()]);
    let mut key = tables::key!(source, kind, &hash[..16]);
    tables::KeyPart::push(&position, &mut key);
    key
}

/// Returns the position in a row's key; 0, where no event is, for what is no such key.
pub(crate) fn position(key: &[u8]) -> u64 {
    key.get(24..).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Is what a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) count: u64,
    pub(crate) hash: ChainHash,
}

impl Count {
    /// Stands before the first row.
    pub(crate) const NONE: Self = Self { count: 0, hash: ChainHash::START };

    /// Returns what the next row says.
    pub(crate) fn with(self, id: &EventId) -> Self {
        Self { count: self.count + 1, hash: link(self.hash, id) }
    }

    pub(crate) fn write(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        put_number(&mut out, self.count);
        out.extend_from_slice(self.hash.as_bytes());
        out
    }

    pub(crate) fn read(row: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(row);
        let read = Self { count: cursor.number()?, hash: ChainHash::from_bytes(cursor.array()?) };
        cursor.end()?;
        Ok(read)
    }
}
