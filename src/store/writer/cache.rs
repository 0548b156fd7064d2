//! What the writer remembers between groups so that the common commit reads little.
//!
//! Everything here repeats rows. A dropped transaction takes back what it added, by forgetting all of it and
//! reading again; only the last position and time, which no row repeats, are restored.

use std::collections::{HashMap, HashSet, VecDeque};

use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::{EventId, TypeRef};
use thoughtstream_domain::time::Timestamp;

use crate::codec::be64;
use crate::names::{NameKind, Names, NewNames};
use crate::reader::Reader;
use crate::record::{self, Facts};
use crate::rows::{At, RowError, Rows};
use crate::tables::{Table, bucket, key, position_key, short_id};

/// How many of the newest events are kept at hand as possible parents: a few groups' worth.
const RECENT_EVENTS: usize = 4096;

/// The last event of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) sequence: u64,
    pub(crate) chain: ChainHash,
    pub(crate) position: u64,
}

impl Head {
    /// Is the head of a source without events.
    pub(crate) const NONE: Self = Self { sequence: 0, chain: ChainHash::START, position: 0 };

    pub(crate) fn write(&self) -> [u8; 48] {
        let mut bytes = [0; 48];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..40].copy_from_slice(self.chain.as_bytes());
        bytes[40..].copy_from_slice(&self.position.to_be_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, crate::codec::Malformed> {
        let mut cursor = crate::codec::Cursor::new(bytes);
        let sequence = u64::from_be_bytes(cursor.array()?);
        let chain = ChainHash::from_bytes(cursor.array()?);
        let position = u64::from_be_bytes(cursor.array()?);
        cursor.end()?;
        Ok(Self { sequence, chain, position })
    }
}

/// The newest position and the newest time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    pub(super) position: u64,
    pub(super) recorded_at: Timestamp,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) names: NewNames,
    heads: HashMap<u32, Head>,
    recent: VecDeque<Facts>,
    recent_ids: HashMap<EventId, u64>,
    types_defined: HashSet<TypeRef>,
    pub(super) last: Last,
    committed: Last,
}

impl Cache {
    /// Starts from what the log holds.
    pub(super) fn load(reader: &Reader) -> Result<Self, RowError> {
        let mut cache = Self::default();
        if let Some((position, facts)) = reader.last_facts()? {
            cache.last = Last { position, recorded_at: facts.recorded_at };
        }
        cache.committed = cache.last;
        Ok(cache)
    }

    /// Forgets what a dropped transaction may have added.
    pub(super) fn roll_back(&mut self) {
        *self = Self { last: self.committed, committed: self.committed, ..Self::default() };
    }

    /// Takes what the transaction added as given, and tells readers its new names.
    pub(super) fn publish(&mut self, names: &Names) {
        self.committed = self.last;
        self.names.publish(names);
    }

    /// Forgets which types have their definition stored.
    pub(super) fn forget_types(&mut self) {
        self.types_defined.clear();
    }

    /// Notes that a type's definition is stored; answers `true` the first time.
    pub(super) fn defines(&mut self, kind: &TypeRef) -> bool {
        !self.types_defined.contains(kind) && self.types_defined.insert(kind.clone())
    }

    /// Returns the head of a source.
    pub(super) fn head(&mut self, rows: &mut Rows<'_>, source: u32) -> Result<Head, RowError> {
        if let Some(head) = self.heads.get(&source) {
            return Ok(*head);
        }
        let stored = rows.read(Table::Heads, &key!(source), Head::read)?;
        let head = stored.transpose().at(Table::Heads, source)?.unwrap_or(Head::NONE);
        self.heads.insert(source, head);
        Ok(head)
    }

    /// Sets the head of a source.
    pub(super) fn set_head(&mut self, source: u32, head: Head) {
        self.heads.insert(source, head);
    }

    /// Remembers an event just written.
    pub(super) fn remember(&mut self, position: u64, facts: Facts) {
        self.recent.push_back(facts);
        self.recent_ids.insert(facts.id, position);
        if self.recent.len() > RECENT_EVENTS {
            let gone = self.recent.pop_front();
            gone.map(|facts| self.recent_ids.remove(&facts.id));
        }
    }

    /// Returns what is known of the event at a position.
    pub(super) fn facts(&self, rows: &mut Rows<'_>, position: u64) -> Result<Option<Facts>, RowError> {
        let behind = self.last.position.checked_sub(position).and_then(|behind| usize::try_from(behind).ok());
        if let Some(index) = behind.and_then(|behind| self.recent.len().checked_sub(behind + 1)) {
            return Ok(Some(self.recent[index]));
        }
        let found = rows.read(Table::Events, &position_key(position), record::read_facts)?;
        found.transpose().at(Table::Events, position)
    }

    /// Finds an event by id alone: among the recent ones, then bucket by bucket, newest first.
    pub(super) fn position_of(&self, rows: &mut Rows<'_>, id: &EventId) -> Result<Option<u64>, RowError> {
        if let Some(position) = self.recent_ids.get(id) {
            return Ok(Some(*position));
        }
        for bucket in (0..=bucket(self.last.position)).rev() {
            let found = rows.read(Table::Ids, &key!(bucket, short_id(id.as_bytes())), be64)?;
            if let Some(position) = found.transpose().at(Table::Ids, id)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Returns the number of a source, a type or a consumer version, if it has one.
    pub(super) fn number(
        &mut self,
        rows: &mut Rows<'_>,
        kind: NameKind,
        text: &str,
    ) -> Result<Option<u32>, RowError> {
        self.names.find(rows, kind, text)
    }
}
