//! Looks at what is durable: cheap to clone, usable from any thread, never holding a transaction between calls.
//!
//! Every call opens a short read transaction, copies what it answers and closes it, because an open one keeps
//! redb from reusing pages. Whatever may be long is answered in pages with a bound the caller names.

mod accounts;
mod awaited;
mod conversation;
pub(crate) mod damage;
mod documents;
mod judgments;
mod materializations;
mod packet;
mod proposals;
mod runs;

pub use accounts::AccountState;
pub use conversation::Chat;
pub(crate) use damage::Place;
use damage::{Damage, Links};
pub use packet::{ObservedError, RequestFault, SnapshotError};
pub use runs::{Claim, ControlRow};

use std::sync::Arc;

use redb::{ReadTransaction, ReadableDatabase, ReadableTable};
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::hash::{ChainHash, Sha256Hash};
use thoughtstream_domain::id::{EventId, IdempotencyKey, SourceId, TypeName, TypeRef};

use crate::codec::be64;
use crate::names::NameKind;
use crate::record::{self, Facts};
use crate::rows::{At, Pair, RowError, unless_panicking};
use crate::seal;
use crate::store::{COPIED, Shared};
use crate::tables::{Table, bucket, idempotency_key, key, short_id};
use crate::writer::Head;

/// The most rows of one page, whatever the caller asks for: it bounds memory and how long pages stay pinned.
pub const PAGE_ROWS_MAX: usize = 1000;

/// The most payload bytes of one page of events.
pub const PAGE_BYTES_MAX: usize = 8 << 20;

/// A table opened for reading.
pub(crate) type ReadTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A source and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceHead {
    /// The source.
    pub source: SourceId,
    /// Its last sequence.
    pub sequence: u64,
    /// Its chain link there.
    pub chain: ChainHash,
    /// The position of its last event.
    pub position: u64,
}

/// How far everything reached at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    /// The position of the newest event.
    pub position: u64,
    /// All sources, by name.
    pub sources: Vec<SourceHead>,
}

/// What is said of a page that made redb panic: it says no more.
const PAGE: &str = "a page of log.redb that redb cannot read";

/// Reads the log; see the module's page.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) shared: Arc<Shared>,
    damage: Damage,
}

/// One short read transaction.
pub(crate) struct View<'a> {
    tx: ReadTransaction,
    shared: &'a Shared,
    damage: Damage,
    links: Links,
}

impl View<'_> {
    /// Returns what reader and writer share.
    pub(crate) fn shared(&self) -> &Shared {
        self.shared
    }

    /// Opens a table.
    pub(crate) fn table(&self, table: Table) -> Result<ReadTable, RowError> {
        self.tx.open_table(table.definition()).map_err(RowError::storage)
    }

    /// Returns a copy of a row.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowError> {
        let found = self.table(table)?.get(key).map_err(RowError::storage)?;
        found.map(|value| self.open(table, key, value.value()).map(<[u8]>::to_vec)).transpose()
    }

    /// Returns the body of a stored row, if it is the one that was written.
    pub(crate) fn open<'v>(&self, table: Table, key: &[u8], row: &'v [u8]) -> Result<&'v [u8], RowError> {
        seal::open(table, key, row).map_err(|_| self.damaged_row(table, key))
    }

    /// Names a damaged row.
    pub(crate) fn damaged_row(&self, table: Table, key: &[u8]) -> RowError {
        RowError::damaged_row(table, key, &self.shared.names)
    }

    /// Returns a copy of each row from `from` up to, without, `to`, at most `limit`.
    pub(crate) fn range(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Pair>, RowError> {
        let opened = self.table(table)?;
        let rows = opened.range(from..to).map_err(RowError::storage)?.take(limit);
        let copied = rows.map(|row| {
            let (key, value) = row.map_err(RowError::storage)?;
            let body = self.open(table, key.value(), value.value())?;
            Ok((key.value().to_vec(), body.to_vec()))
        });
        copied.collect()
    }

    /// Returns the last position; 0 for an empty log.
    pub(crate) fn last_position(&self) -> Result<u64, RowError> {
        let events = self.table(Table::Events)?;
        let last = events.last().map_err(RowError::storage)?;
        let position = last.map(|(key, _)| be64(key.value())).transpose();
        Ok(position.at(Table::Events, "last")?.unwrap_or(0))
    }

    /// Finds an event by its id, bucket by bucket, newest first.
    pub(crate) fn position_of(&self, id: &EventId) -> Result<Option<u64>, RowError> {
        let ids = self.table(Table::Ids)?;
        for bucket in (0..=bucket(self.last_position()?)).rev() {
            let found = ids.get(&key!(bucket, short_id(id.as_bytes()))[..]).map_err(RowError::storage)?;
            if let Some(position) = found {
                return be64(position.value()).map(Some).at(Table::Ids, id);
            }
        }
        Ok(None)
    }

    /// Returns where the events of these types stand behind a sequence of a source, in order, as the index has it:
    /// their places.
    fn typed(
        &self,
        kinds: impl IntoIterator<Item = u32>,
        source: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Place>, RowError> {
        let mut found = Vec::new();
        for kind in kinds {
            let (from, to) = (key!(kind, source, after.saturating_add(1)), key!(kind, source + 1));
            for (key, position) in self.range(Table::Types, &from, &to, limit)? {
                let damaged = |_| self.damaged_row(Table::Types, &key);
                let sequence = be64(key.get(8..).unwrap_or_default()).map_err(damaged)?;
                found.push((sequence, be64(&position).map_err(damaged)?, kind));
            }
        }
        found.sort_unstable();
        found.dedup();
        let place = |(sequence, position, kind)| Place::of_type(kind, source, sequence, position);
        Ok(found.into_iter().map(place).collect())
    }

    /// Returns the event that an index leads to.
    fn led_to(&self, place: Place) -> Result<Event, RowError> {
        self.event_at(&self.table(Table::Events)?, place)
    }

    /// Returns the events at these positions, all of them or an error.
    fn events_at(&self, positions: impl IntoIterator<Item = u64>) -> Result<Vec<Event>, RowError> {
        let mut found = Vec::new();
        self.gather(positions.into_iter().map(Place::at), &mut found)?;
        Ok(found)
    }

    /// Returns the events at these places as a page. What stands before damage is answered first: who reads on
    /// from there meets the damage, and has done everything before it.
    fn page_at(&self, places: impl IntoIterator<Item = Place>) -> Result<Vec<Event>, RowError> {
        let mut found = Vec::new();
        match self.gather(places, &mut found) {
            Err(RowError::Damaged { .. }) if !found.is_empty() => Ok(found),
            gathered => gathered.map(|()| found),
        }
    }

    /// Reads events up to the byte bound; one that is missing is damage.
    fn gather(
        &self,
        places: impl IntoIterator<Item = Place>,
        found: &mut Vec<Event>,
    ) -> Result<(), RowError> {
        let events = self.table(Table::Events)?;
        let mut bytes = 0;
        for place in places {
            let event = self.event_at(&events, place)?;
            bytes += payload_bytes(&event);
            found.push(event);
            if bytes > PAGE_BYTES_MAX {
                break;
            }
        }
        Ok(())
    }
}

fn payload_bytes(event: &Event) -> usize {
    match &event.payload {
        Payload::Present(content) => content.reveal().len(),
        Payload::Redacted | Payload::Damaged => 0,
    }
}

impl Reader {
    /// Looks at an open database.
    pub(crate) fn of(database: redb::Database, mark: [u8; 16]) -> Result<Self, RowError> {
        Ok(Self::new(Arc::new(Shared::new(database, mark)?)))
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, damage: Damage::Refused }
    }

    /// Returns a reader for a look that shows events and acts on none of them: one of which not everything is what was
    /// recorded is answered with [`Payload::Damaged`] and the header as it stands there, where any other reader answers
    /// [`RowError::Damaged`].
    #[must_use]
    pub fn showing_damage(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), damage: Damage::Shown }
    }

    /// Gives the database back, if nobody else reads it.
    pub(crate) fn into_database(self) -> Option<redb::Database> {
        Arc::into_inner(self.shared)?.into_database()
    }

    /// Runs a function on one short read transaction.
    pub(crate) fn view<T>(&self, look: impl FnOnce(&View<'_>) -> Result<T, RowError>) -> Result<T, RowError> {
        self.shared.wait_until_shown();
        let database = self.shared.database()?;
        let tx = database.begin_read().map_err(RowError::storage)?;
        // A page that redb cannot read is damage like any other, and not the end of whoever looks at it.
        let looked = unless_panicking(|| {
            look(&View { tx, shared: &self.shared, damage: self.damage, links: Links::default() })
        });
        looked.unwrap_or_else(|| Err(RowError::Damaged { place: PAGE.to_owned() }))
    }

    /// Returns the mark that the store was made with; it identifies the store, and never changes.
    pub fn mark(&self) -> [u8; 16] {
        self.shared.mark
    }

    /// Returns the position of the newest event, which is also how many events there are.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn last_position(&self) -> Result<u64, RowError> {
        self.view(|view| view.last_position())
    }

    /// Returns the position up to which the log is a copy of another, from a backup or an export; 0 for one that
    /// is not. What was to follow from these events may have followed elsewhere.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn copied_through(&self) -> Result<u64, RowError> {
        self.view(|view| {
            let row = view.get(Table::Meta, COPIED)?;
            Ok(row.map(|row| be64(&row)).transpose().at(Table::Meta, "copied")?.unwrap_or(0))
        })
    }

    pub(crate) fn last_facts(&self) -> Result<Option<(u64, Facts)>, RowError> {
        self.view(|view| {
            let events = view.table(Table::Events)?;
            let last = events.last().map_err(RowError::storage)?;
            let Some((key, record)) = last else { return Ok(None) };
            let position = be64(key.value()).at(Table::Events, "last")?;
            let facts = record::read_facts(record.value()).at(Table::Events, position)?;
            Ok(Some((position, facts)))
        })
    }

    /// Returns the event with this id.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn event(&self, id: &EventId) -> Result<Option<Event>, RowError> {
        self.view(|view| {
            let Some(position) = view.position_of(id)? else { return Ok(None) };
            let event = view.led_to(Place::at(position))?;
            // One that is shown as damaged may have lost its id; the index has it.
            let is_it = |event: &Event| event.id == *id || event.payload == Payload::Damaged;
            Ok(Some(event).filter(is_it))
        })
    }

    /// Returns the event of this type in this source under this key. Costs one look, however long the log is.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn event_under(
        &self,
        source: &SourceId,
        kind: &TypeName,
        key: &IdempotencyKey,
    ) -> Result<Option<Event>, RowError> {
        let names = &self.shared.names;
        let source_number = names.number(NameKind::Source, source.as_str());
        let kind_number = names.number(NameKind::Type, kind.as_str());
        let Some((source_number, kind_number)) = source_number.zip(kind_number) else { return Ok(None) };
        self.view(|view| {
            let at = idempotency_key(source_number, kind_number, key.as_str());
            let Some(found) = view.get(Table::Keys, &at)? else { return Ok(None) };
            let position = be64(&found).at(Table::Keys, source)?;
            let is_it = |event: &Event| event.source == *source && event.key == *key;
            Ok(Some(view.led_to(Place::at(position))?).filter(is_it))
        })
    }

    /// Returns the event at this position.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn event_at(&self, position: u64) -> Result<Option<Event>, RowError> {
        self.view(|view| Ok(view.stored(&view.table(Table::Events)?, position)?.map(|stored| stored.event)))
    }

    /// Returns the event at this place of a source.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn event_in(&self, source: &SourceId, sequence: u64) -> Result<Option<Event>, RowError> {
        let Some(number) = self.shared.names.number(NameKind::Source, source.as_str()) else {
            return Ok(None);
        };
        self.view(|view| {
            let Some(position) = view.get(Table::Sequences, &key!(number, sequence))? else {
                return Ok(None);
            };
            let position = be64(&position).at(Table::Sequences, format_args!("{source} {sequence}"))?;
            view.led_to(Place::in_source(number, sequence, position)).map(Some)
        })
    }

    /// Returns events after a position, oldest first: a tail.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn page_after(&self, position: u64, limit: usize) -> Result<Vec<Event>, RowError> {
        self.view(|view| {
            let last = view.last_position()?;
            let from = position.saturating_add(1);
            view.page_at((from..=last).take(limit.min(PAGE_ROWS_MAX)).map(Place::at))
        })
    }

    /// Returns events before a position, newest first; `None` starts at the newest.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn page_before(&self, position: Option<u64>, limit: usize) -> Result<Vec<Event>, RowError> {
        self.view(|view| {
            let end = position.map_or(view.last_position()?, |before| before.saturating_sub(1));
            let positions = (1..=end.min(view.last_position()?)).rev().take(limit.min(PAGE_ROWS_MAX));
            view.page_at(positions.map(Place::at))
        })
    }

    /// Returns events of one source after a sequence, oldest first.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn source_page(&self, source: &SourceId, after: u64, limit: usize) -> Result<Vec<Event>, RowError> {
        let Some(number) = self.shared.names.number(NameKind::Source, source.as_str()) else {
            return Ok(Vec::new());
        };
        self.view(|view| {
            let (from, to) = (key!(number, after.saturating_add(1)), key!(number + 1));
            let rows = view.range(Table::Sequences, &from, &to, limit.min(PAGE_ROWS_MAX))?;
            let places = rows.iter().map(|(key, position)| {
                let sequence = be64(key.get(4..).unwrap_or_default())?;
                Ok(Place::in_source(number, sequence, be64(position)?))
            });
            view.page_at(places.collect::<Result<Vec<_>, _>>().at(Table::Sequences, source)?)
        })
    }

    /// Walks all events of these types in one source, as [`Self::walk_after`] its start.
    pub fn walk<'a>(
        &'a self,
        types: &'a [TypeName],
        source: &'a SourceId,
    ) -> impl Iterator<Item = Result<Event, RowError>> + 'a {
        self.walk_after(types, source, 0)
    }

    /// Walks all events of these types in one source after a sequence, oldest first, with one page of
    /// [`Self::backlog`] in memory. It ends behind an error.
    pub fn walk_after<'a>(
        &'a self,
        types: &'a [TypeName],
        source: &'a SourceId,
        after: u64,
    ) -> impl Iterator<Item = Result<Event, RowError>> + 'a {
        let (mut page, mut after, mut ended) = (Vec::new().into_iter(), after, false);
        std::iter::from_fn(move || {
            if let Some(event) = page.next() {
                return Some(Ok(event));
            }
            if ended {
                return None;
            }
            match self.backlog(types, source, after, PAGE_ROWS_MAX) {
                Ok(next) => {
                    after = next.last()?.sequence;
                    page = next.into_iter();
                    page.next().map(Ok)
                }
                Err(error) => {
                    ended = true;
                    Some(Err(error))
                }
            }
        })
    }

    /// Returns events of these types in one source after a sequence, oldest first. Costs its matches: what
    /// lies between is not read. A short page means only that the byte bound was met, or that damage follows; an empty
    /// one is the end.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn backlog(
        &self,
        types: &[TypeName],
        source: &SourceId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, RowError> {
        let names = &self.shared.names;
        let Some(number) = names.number(NameKind::Source, source.as_str()) else { return Ok(Vec::new()) };
        let limit = limit.min(PAGE_ROWS_MAX);
        let kinds = types.iter().filter_map(|kind| names.number(NameKind::Type, kind.as_str()));
        self.view(|view| {
            let found = view.typed(kinds, number, after, limit)?;
            view.page_at(found.into_iter().take(limit))
        })
    }

    /// Returns how far the log and all its sources reached at one moment.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn heads(&self) -> Result<Heads, RowError> {
        self.view(|view| {
            let sources = self.heads_in(view, |_| true)?;
            Ok(Heads { position: view.last_position()?, sources })
        })
    }

    /// Returns all sources with their heads, by name.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn sources(&self) -> Result<Vec<SourceHead>, RowError> {
        self.sources_where(|_| true)
    }

    /// Returns the sources that are `wanted` with their heads, by name.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn sources_where(&self, wanted: impl Fn(&SourceId) -> bool) -> Result<Vec<SourceHead>, RowError> {
        self.view(|view| self.heads_in(view, wanted))
    }

    fn heads_in(
        &self,
        view: &View<'_>,
        wanted: impl Fn(&SourceId) -> bool,
    ) -> Result<Vec<SourceHead>, RowError> {
        let heads = view.table(Table::Heads)?;
        let mut found = Vec::new();
        for (number, source) in self.shared.names.sources(&wanted) {
            let key = key!(number);
            let Some(row) = heads.get(&key[..]).map_err(RowError::storage)? else { continue };
            let head = Head::read(view.open(Table::Heads, &key, row.value())?).at(Table::Heads, &source)?;
            let Head { sequence, chain, position } = head;
            found.push(SourceHead { source, sequence, chain, position });
        }
        Ok(found)
    }

    /// Returns where a source stands; `None` if it has no event.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn head(&self, source: &SourceId) -> Result<Option<SourceHead>, RowError> {
        let Some(number) = self.shared.names.number(NameKind::Source, source.as_str()) else {
            return Ok(None);
        };
        self.view(|view| {
            let Some(row) = view.get(Table::Heads, &key!(number))? else { return Ok(None) };
            let Head { sequence, chain, position } = Head::read(&row).at(Table::Heads, source)?;
            Ok(Some(SourceHead { source: source.clone(), sequence, chain, position }))
        })
    }

    /// Returns the names of all event types the log has seen.
    pub fn type_names(&self) -> Vec<TypeName> {
        let names = &self.shared.names;
        names.all(NameKind::Type).into_iter().filter_map(|(number, _)| names.kind(number)).collect()
    }

    /// Returns the hash of the definition that each type was last written with.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn definitions(&self) -> Result<Vec<(TypeRef, Sha256Hash)>, RowError> {
        self.view(|view| {
            let mut found = Vec::new();
            for row in view.table(Table::Definitions)?.iter().map_err(RowError::storage)? {
                let (name, hash) = row.map_err(RowError::storage)?;
                let kind = std::str::from_utf8(name.value()).ok().and_then(|text| TypeRef::parse(text).ok());
                let hash = hash.value().try_into().ok().map(Sha256Hash::from_bytes);
                let both = kind.zip(hash).ok_or_else(|| RowError::damaged(Table::Definitions, "row"))?;
                found.push(both);
            }
            Ok(found)
        })
    }

    /// Returns the events directly derived from an event, oldest first, after a position.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn children(&self, parent: u64, after: u64, limit: usize) -> Result<Vec<Event>, RowError> {
        self.view(|view| {
            let (from, to) = (key!(parent, after.saturating_add(1)), key!(parent.saturating_add(1)));
            let rows = view.range(Table::Children, &from, &to, limit.min(PAGE_ROWS_MAX))?;
            let positions = rows.iter().map(|(key, _)| be64(key.get(8..).unwrap_or_default()));
            view.events_at(positions.collect::<Result<Vec<_>, _>>().at(Table::Children, parent)?)
        })
    }

    /// Returns the events an event was directly derived from, in its order.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn parents(&self, position: u64) -> Result<Vec<Event>, RowError> {
        self.view(|view| {
            let Some(stored) = view.stored(&view.table(Table::Events)?, position)? else {
                return Ok(Vec::new());
            };
            let parents = view.events_at(stored.parents)?;
            // The chain covers which events they are, and not where they stand.
            if view.damage == Damage::Shown
                || parents.iter().map(|parent| &parent.id).eq(&stored.event.parents)
            {
                return Ok(parents);
            }
            Err(RowError::damaged(Table::Events, position))
        })
    }
}
