//! What the writer remembers between groups so that the common commit reads little.
//!
//! Everything here repeats rows. A dropped transaction takes back what it added, by forgetting all of it and
//! reading again; only the last position and time, which no row repeats, are restored.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use thoughtstream_domain::commit::Control;
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::{ConsumerId, EventId, TypeRef};
use thoughtstream_domain::time::Timestamp;

use crate::codec::be64;
use crate::names::{NameKind, Names, NewNames};
use crate::reader::Reader;
use crate::record::{self, Facts};
use crate::rows::{At, RowError, Rows};
use crate::tables::{Table, bucket, key, position_key, short_id};

/// How many of the newest events are kept at hand as possible parents: a few groups' worth.
const RECENT_EVENTS: usize = 4096;

/// How many standings are kept at hand; past it all are read again.
const STANDINGS_MAX: usize = 16_384;

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

/// Where a consumer version stands on a source.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Its progress, 0 if it has none.
    pub(super) progress: u64,
    /// Its claims by sequence: the place of the execution, and whether that is closed.
    pub(super) claims: BTreeMap<u64, (u64, bool)>,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) names: NewNames,
    heads: HashMap<u32, Head>,
    standings: HashMap<(u32, u32), Standing>,
    recent: VecDeque<Facts>,
    recent_ids: HashMap<EventId, u64>,
    types_defined: HashSet<TypeRef>,
    /// Whether a consumer is paused: every attempt asks when it opens.
    paused: HashMap<ConsumerId, bool>,
    /// Whether an account has an entry: most consumers never have one, and need not be asked about it again.
    accounts: HashMap<ConsumerId, bool>,
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

    /// Returns where a consumer version stands on a source. Whoever changes a row of it changes this as well.
    pub(super) fn standing(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: u32,
        source: u32,
    ) -> Result<&mut Standing, RowError> {
        if self.standings.len() >= STANDINGS_MAX && !self.standings.contains_key(&(consumer, source)) {
            self.standings.clear();
        }
        match self.standings.entry((consumer, source)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => Ok(unknown.insert(read_standing(rows, consumer, source)?)),
        }
    }

    /// Returns whether a consumer is paused, if that is known.
    pub(super) fn paused(&self, consumer: &ConsumerId) -> Option<bool> {
        self.paused.get(consumer).copied()
    }

    /// Takes a control row as it was read or just written.
    pub(super) fn set_control(&mut self, consumer: &ConsumerId, control: Option<&Control>) {
        let paused = control.is_some_and(Control::is_paused);
        match self.paused.get_mut(consumer) {
            Some(known) => *known = paused,
            None => drop(self.paused.insert(consumer.clone(), paused)),
        }
    }

    /// Says whether an account has an entry.
    pub(super) fn has_account(
        &mut self,
        rows: &mut Rows<'_>,
        account: &ConsumerId,
    ) -> Result<bool, RowError> {
        if let Some(known) = self.accounts.get(account) {
            return Ok(*known);
        }
        let (from, to) = (key!(account.as_str(), 0_u8), key!(account.as_str(), 1_u8));
        let found = rows.first(Table::Tallies, &from, &to)?.is_some();
        self.accounts.insert(account.clone(), found);
        Ok(found)
    }

    /// Notes that an account has an entry now.
    pub(super) fn adds_account(&mut self, account: &ConsumerId) {
        if self.accounts.get(account) != Some(&true) {
            self.accounts.insert(account.clone(), true);
        }
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

fn read_standing(rows: &mut Rows<'_>, consumer: u32, source: u32) -> Result<Standing, RowError> {
    let place = || format!("{consumer}/{source}");
    let progress = rows.read(Table::Progress, &key!(consumer, source), be64)?;
    let progress = progress.transpose().at(Table::Progress, place())?.unwrap_or(0);
    let mut claims = BTreeMap::new();
    for (key, value) in rows.all_in(Table::Claims, &key!(consumer, source), &key!(consumer, source + 1))? {
        let sequence = key.get(8..).and_then(|bytes| be64(bytes).ok());
        let claim = sequence.zip(super::read_claim(&value));
        let (sequence, claim) = claim.ok_or_else(|| RowError::damaged(Table::Claims, place()))?;
        claims.insert(sequence, claim);
    }
    Ok(Standing { progress, claims })
}
