//! Whether what is stored of an event is what was recorded.
//!
//! The payload is held against its hash, the id against what it is derived from, and the whole header against the link
//! of its source's chain. That link needs the one of the event before it: a look that walks a source has just read it,
//! any other reads one row more, which mostly stands next door.

use std::cell::RefCell;
use std::collections::BTreeMap;

use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::{EventId, SourceId, TypeName};
use thoughtstream_domain::lane::DamagedEvent;

use super::{ReadTable, Reader, View};
use crate::codec::be64;
use crate::names::NameKind;
use crate::record::{self, Stored};
use crate::rows::{At, RowError};
use crate::tables::{Table, key, position_key};

/// Says what becomes of an event that is not what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It is an error with its place: nobody acts on it, or passes it.
    Refused,
    /// The event is answered without its payload, and says that it is damaged.
    Shown,
}

/// Keeps the last link of each source that one look has seen.
#[derive(Default)]
pub(crate) struct Links(RefCell<BTreeMap<u32, (u64, ChainHash)>>);

impl Links {
    fn see(&self, stored: &Stored) {
        self.0.borrow_mut().insert(stored.source, (stored.event.sequence, stored.event.chain));
    }

    /// Returns the link of an event before, if it was the last of its source to be seen.
    fn before(&self, stored: &Stored) -> Option<ChainHash> {
        let seen = self.0.borrow().get(&stored.source).copied();
        seen.filter(|(sequence, _)| sequence.checked_add(1) == Some(stored.event.sequence))
            .map(|(_, link)| link)
    }
}

/// Is where an event is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) position: u64,
    /// The source's number and the sequence that an index names; nothing where only the position is known.
    pub(crate) named: Option<(u32, u64)>,
}

impl Place {
    /// A position that no index of sources has led to.
    pub(crate) const fn at(position: u64) -> Self {
        Self { position, named: None }
    }
}

/// What is known of the link before an event.
enum Before {
    /// This is it, and where it stands; position 0 is before a source's first event.
    Link(ChainHash, u64),
    /// The event does not stand where the index has its sequence.
    Displaced,
    /// The event before cannot be read.
    Unreadable,
}

impl Reader {
    /// Names the first event of these types behind a sequence of a source, if it is damaged: where
    /// [`Reader::backlog`] from there answers [`RowError::Damaged`]. What is stored of the event is not looked at more
    /// closely than that, and need not be readable.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read, or what is damaged is the index that leads to the event.
    pub fn damaged_behind(
        &self,
        types: &[TypeName],
        source: &SourceId,
        after: u64,
    ) -> Result<Option<DamagedEvent>, RowError> {
        let names = &self.shared.names;
        let Some(number) = names.number(NameKind::Source, source.as_str()) else { return Ok(None) };
        let kinds = types.iter().filter_map(|kind| names.number(NameKind::Type, kind.as_str()));
        self.view(|view| {
            let Some((sequence, position)) = view.typed(kinds, number, after, 1)?.into_iter().next() else {
                return Ok(None);
            };
            match view.led_to(Place { position, named: Some((number, sequence)) }) {
                Ok(event) if event.payload != Payload::Damaged => Ok(None),
                Ok(_) | Err(RowError::Damaged { .. }) => {
                    Ok(Some(DamagedEvent { source: source.clone(), sequence, position }))
                }
                Err(error) => Err(error),
            }
        })
    }
}

impl View<'_> {
    /// Returns the event at a position, held against what was recorded.
    pub(crate) fn stored(&self, events: &ReadTable, position: u64) -> Result<Option<Stored>, RowError> {
        self.stored_at(events, Place::at(position))
    }

    /// Returns the event at a place, held against what was recorded.
    pub(crate) fn stored_at(&self, events: &ReadTable, place: Place) -> Result<Option<Stored>, RowError> {
        let stored = match self.as_stored(events, place.position) {
            Err(RowError::Damaged { .. }) => return Err(self.damaged(place)),
            read => read?,
        };
        stored.map(|stored| self.held(events, stored, place)).transpose()
    }

    /// Returns the event at a place that something leads to: one that is missing there is damage.
    pub(super) fn event_at(&self, events: &ReadTable, place: Place) -> Result<Event, RowError> {
        self.stored_at(events, place)?.map(|stored| stored.event).ok_or_else(|| self.damaged(place))
    }

    /// Returns the event at a position as it stands there, whatever it is worth: for `verify`.
    pub(crate) fn as_stored(&self, events: &ReadTable, position: u64) -> Result<Option<Stored>, RowError> {
        let found = events.get(&position_key(position)[..]).map_err(RowError::storage)?;
        let read = found.map(|value| record::read(position, value.value(), &self.shared.names));
        read.transpose().at(Table::Events, position)
    }

    /// Gives an event on to those who may have it: all if it is what was recorded, else those who only show it.
    pub(crate) fn held(
        &self,
        events: &ReadTable,
        mut stored: Stored,
        place: Place,
    ) -> Result<Stored, RowError> {
        let is_named = place.named.is_none_or(|named| named == (stored.source, stored.event.sequence));
        let is_sound = is_named && self.is_as_recorded(events, &stored)?;
        self.links.see(&stored);
        if is_sound {
            return Ok(stored);
        }
        // Of a place, the index is believed: what the header says of it may be what is damaged.
        let (source, sequence) = place.named.unwrap_or((stored.source, stored.event.sequence));
        match self.damage {
            Damage::Refused => Err(self.damaged(Place { named: Some((source, sequence)), ..place })),
            Damage::Shown => {
                stored.event.sequence = sequence;
                stored.event.payload = Payload::Damaged;
                Ok(stored)
            }
        }
    }

    /// Names the event at a place as damaged.
    fn damaged(&self, place: Place) -> RowError {
        let named =
            place.named.and_then(|(source, sequence)| Some((self.shared.names.source(source)?, sequence)));
        match named {
            Some((source, sequence)) => {
                RowError::damaged(Table::Events, format_args!("{} ({source} {sequence})", place.position))
            }
            None => RowError::damaged(Table::Events, place.position),
        }
    }

    /// Says whether payload, id and header are those that were recorded. An event whose predecessor cannot be read
    /// is taken at its own word: its payload, its id and its place.
    fn is_as_recorded(&self, events: &ReadTable, stored: &Stored) -> Result<bool, RowError> {
        let event = &stored.event;
        if !stored.has_recorded_payload()
            || EventId::derive(&event.source, &event.kind.name, &event.key) != event.id
        {
            return Ok(false);
        }
        let (digest, assigned) = (event.digest(), event.assigned());
        let follows = |link: ChainHash| link.link(&digest, &assigned) == event.chain;
        if self.links.before(stored).is_some_and(follows) {
            return Ok(true);
        }
        match self.before(events, stored)? {
            Before::Link(link, _) if follows(link) => Ok(true),
            Before::Link(_, position) => Ok(self.mended(events, position)?.is_some_and(follows)),
            Before::Displaced => Ok(false),
            Before::Unreadable => Ok(true),
        }
    }

    /// Finds the link before an event.
    fn before(&self, events: &ReadTable, stored: &Stored) -> Result<Before, RowError> {
        let Some(sequence) = stored.event.sequence.checked_sub(1) else { return Ok(Before::Displaced) };
        if sequence == 0 {
            return Ok(Before::Link(ChainHash::START, 0));
        }
        let place = |position| Place { position, named: Some((stored.source, sequence)) };
        let next_door = stored.event.position.saturating_sub(1);
        if let Some(link) = link_at(events, place(next_door))? {
            return Ok(Before::Link(link, next_door));
        }
        let sequences = self.table(Table::Sequences)?;
        let position = |sequence: u64| -> Result<Option<u64>, RowError> {
            let row = sequences.get(&key!(stored.source, sequence)[..]).map_err(RowError::storage)?;
            Ok(row.and_then(|row| be64(row.value()).ok()))
        };
        if position(stored.event.sequence)? != Some(stored.event.position) {
            return Ok(Before::Displaced);
        }
        let Some(position) = position(sequence)? else { return Ok(Before::Unreadable) };
        let link = link_at(events, place(position))?;
        Ok(link.map_or(Before::Unreadable, |link| Before::Link(link, position)))
    }

    /// Returns the link that the event at a position should have, if it has another: then it is that one which is
    /// damaged, and the event behind it may be sound.
    fn mended(&self, events: &ReadTable, position: u64) -> Result<Option<ChainHash>, RowError> {
        let stored = match self.as_stored(events, position) {
            Ok(Some(stored)) => stored,
            Ok(None) | Err(RowError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Before::Link(link, _) = self.before(events, &stored)? else { return Ok(None) };
        let should = link.link(&stored.event.digest(), &stored.event.assigned());
        Ok((should != stored.event.chain).then_some(should))
    }
}

#[cfg(test)]
thread_local! {
    /// How many rows this thread has read for their links alone.
    pub(crate) static LINKS_READ: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns the link of the event at a place, if that is the event which is named; it reads no payload.
fn link_at(events: &ReadTable, place: Place) -> Result<Option<ChainHash>, RowError> {
    #[cfg(test)]
    LINKS_READ.set(LINKS_READ.get() + 1);
    let record = events.get(&position_key(place.position)[..]).map_err(RowError::storage)?;
    let link = record.and_then(|record| record::read_link(record.value()).ok());
    Ok(link.filter(|(source, sequence, _)| place.named == Some((*source, *sequence))).map(|(.., link)| link))
}
