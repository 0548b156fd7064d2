//! Whether what is stored of an event is what was recorded.
//!
//! The payload is held against its hash, the id against what it is derived from, and the whole header against the link
//! of its source's chain. That link needs the one of the event before it: a look that walks a source has just read it,
//! any other reads one row more, which mostly stands next door.
//!
//! Where an index led to what is not the event it names, either of the two may have rotted. What stands there and is
//! sound belongs elsewhere, or the event that is named is sound and stands elsewhere: then the index is named, and no
//! event. It is built anew without loss, and whoever passed the event instead would lose a sound one.

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
    /// What the row of an index names; nothing where only the position is known.
    pub(crate) named: Option<Named>,
}

/// Is what the key of a row says that leads to an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// The type's number, where the index is that of types, and not that of sequences.
    pub(crate) kind: Option<u32>,
    pub(crate) source: u32,
    pub(crate) sequence: u64,
}

impl Named {
    /// Says whether this is the event that is named.
    fn is(self, stored: &Stored) -> bool {
        self.is_place_of(stored) && self.kind.is_none_or(|kind| kind == stored.kind)
    }

    fn is_place_of(self, stored: &Stored) -> bool {
        (self.source, self.sequence) == (stored.source, stored.event.sequence)
    }
}

impl Place {
    /// A position that no index of sources has led to.
    pub(crate) const fn at(position: u64) -> Self {
        Self { position, named: None }
    }

    /// Where the index of sequences leads.
    pub(crate) const fn in_source(source: u32, sequence: u64, position: u64) -> Self {
        Self { position, named: Some(Named { kind: None, source, sequence }) }
    }

    /// Where the index of types leads.
    pub(crate) const fn of_type(kind: u32, source: u32, sequence: u64, position: u64) -> Self {
        Self { position, named: Some(Named { kind: Some(kind), source, sequence }) }
    }
}

/// What is known of the link before an event.
enum Before {
    /// This is it, and where it stands; position 0 is before a source's first event.
    Link(ChainHash, u64),
    /// This is it, and the event does not stand where the index has its sequence; nor does it stand there.
    Unindexed(ChainHash),
    /// The event does not stand where the index has its sequence.
    Displaced,
    /// The event before cannot be read.
    Unreadable,
}

/// What an event is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// It is what was recorded.
    Sound,
    /// It is, and the row of the index that is to lead to it leads elsewhere.
    Unindexed,
    /// It is not what was recorded.
    Damaged,
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
            let Some(place) = view.typed(kinds, number, after, 1)?.into_iter().next() else {
                return Ok(None);
            };
            match view.led_to(place) {
                Ok(event) if event.payload != Payload::Damaged => Ok(None),
                Err(error) if !error.is_of_event() => Err(error),
                Ok(_) | Err(_) => {
                    let sequence = place.named.map_or(0, |named| named.sequence);
                    Ok(Some(DamagedEvent { source: source.clone(), sequence, position: place.position }))
                }
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
        match self.as_stored(events, place.position) {
            Ok(Some(stored)) => self.held(events, stored, place).map(Some),
            Err(RowError::Damaged { .. }) => {
                self.instead(events, place)?.map(Some).ok_or_else(|| self.damaged(place))
            }
            Ok(None) => self.instead(events, place),
            Err(error) => Err(error),
        }
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
        let worth = self.worth(events, &stored)?;
        self.links.see(&stored);
        let is_it = place.named.is_none_or(|named| named.is(&stored));
        if worth == Worth::Sound && is_it {
            return Ok(stored);
        }
        let is_its_place = place.named.is_none_or(|named| named.is_place_of(&stored));
        let misled = match (worth, place.named) {
            (Worth::Unindexed, _) if is_its_place => Some(self.unindexed(&stored)),
            (Worth::Sound, Some(named)) if self.belongs(&stored)? => Some(self.misleads(named)),
            _ => None,
        };
        match (misled, self.damage) {
            (Some(error), Damage::Refused) => return Err(error),
            (Some(_), Damage::Shown) if is_its_place => return Ok(stored),
            (Some(_) | None, _) => {}
        }
        if let Some(instead) = self.instead(events, place)? {
            return Ok(instead);
        }
        // Of a place, the index is believed: what the header says of it may be what is damaged.
        let named = place.named.unwrap_or(Named {
            kind: None,
            source: stored.source,
            sequence: stored.event.sequence,
        });
        match self.damage {
            Damage::Refused => Err(self.damaged(Place { named: Some(named), ..place })),
            Damage::Shown => {
                stored.event.sequence = named.sequence;
                stored.event.payload = Payload::Damaged;
                Ok(stored)
            }
        }
    }

    /// Finds the event that the row of an index names where it does not lead to. Whoever acts is told that the row is
    /// damaged; whoever only shows gets the event.
    fn instead(&self, events: &ReadTable, place: Place) -> Result<Option<Stored>, RowError> {
        let Some(named) = place.named else { return Ok(None) };
        for position in self.elsewhere(named)? {
            if position == place.position {
                continue;
            }
            let stored = match self.as_stored(events, position) {
                Ok(Some(stored)) => stored,
                Ok(None) | Err(RowError::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            if named.is_place_of(&stored) && self.worth(events, &stored)? != Worth::Damaged {
                return if self.damage == Damage::Shown {
                    Ok(Some(stored))
                } else {
                    Err(self.misleads(named))
                };
            }
        }
        Ok(None)
    }

    /// Returns where the other index has the event that the row of an index names.
    fn elsewhere(&self, named: Named) -> Result<Vec<u64>, RowError> {
        let Named { kind, source, sequence } = named;
        if kind.is_some() {
            return Ok(self.sequenced(source, sequence)?.into_iter().collect());
        }
        let types = self.table(Table::Types)?;
        let mut found = Vec::new();
        for (kind, _) in self.shared.names.all(NameKind::Type) {
            let row = types.get(&key!(kind, source, sequence)[..]).map_err(RowError::storage)?;
            found.extend(row.and_then(|row| be64(row.value()).ok()));
        }
        Ok(found)
    }

    /// Returns where the index of sequences leads, if it does.
    fn sequenced(&self, source: u32, sequence: u64) -> Result<Option<u64>, RowError> {
        let sequences = self.table(Table::Sequences)?;
        let row = sequences.get(&key!(source, sequence)[..]).map_err(RowError::storage)?;
        Ok(row.and_then(|row| be64(row.value()).ok()))
    }

    /// Says whether a sound event stands where it belongs. The chain proves which event it is, and not where it stands.
    fn belongs(&self, stored: &Stored) -> Result<bool, RowError> {
        let at = self.sequenced(stored.source, stored.event.sequence)?;
        Ok(at == Some(stored.event.position))
    }

    /// Names the row of an index that leads to another event, or to none.
    fn misleads(&self, named: Named) -> RowError {
        let Named { kind, source, sequence } = named;
        match kind {
            Some(kind) => self.damaged_row(Table::Types, &key!(kind, source, sequence)),
            None => self.damaged_row(Table::Sequences, &key!(source, sequence)),
        }
    }

    /// Names the row of an index that does not lead to an event which is sound.
    fn unindexed(&self, stored: &Stored) -> RowError {
        self.damaged_row(Table::Sequences, &key!(stored.source, stored.event.sequence))
    }

    /// Names the event at a place as damaged.
    fn damaged(&self, place: Place) -> RowError {
        let named =
            place.named.and_then(|named| Some((self.shared.names.source(named.source)?, named.sequence)));
        match named {
            Some((source, sequence)) => {
                RowError::damaged(Table::Events, format_args!("{} ({source} {sequence})", place.position))
            }
            None => RowError::damaged(Table::Events, place.position),
        }
    }

    /// Says whether payload, id and header are those that were recorded. An event whose predecessor cannot be read
    /// is taken at its own word: its payload, its id and its place.
    fn worth(&self, events: &ReadTable, stored: &Stored) -> Result<Worth, RowError> {
        let event = &stored.event;
        if !stored.has_recorded_payload()
            || EventId::derive(&event.source, &event.kind.name, &event.key) != event.id
        {
            return Ok(Worth::Damaged);
        }
        let (digest, assigned) = (event.digest(), event.assigned());
        let follows = |link: ChainHash| link.link(&digest, &assigned) == event.chain;
        if self.links.before(stored).is_some_and(follows) {
            return Ok(Worth::Sound);
        }
        let is_sound = match self.before(events, stored)? {
            Before::Link(link, _) if follows(link) => true,
            Before::Link(_, position) => self.mended(events, position)?.is_some_and(follows),
            Before::Unindexed(link) if follows(link) => return Ok(Worth::Unindexed),
            Before::Unindexed(_) | Before::Displaced => false,
            Before::Unreadable => true,
        };
        Ok(if is_sound { Worth::Sound } else { Worth::Damaged })
    }

    /// Finds the link before an event.
    fn before(&self, events: &ReadTable, stored: &Stored) -> Result<Before, RowError> {
        let Some(sequence) = stored.event.sequence.checked_sub(1) else { return Ok(Before::Displaced) };
        if sequence == 0 {
            return Ok(Before::Link(ChainHash::START, 0));
        }
        let place = |position| Place::in_source(stored.source, sequence, position);
        let next_door = stored.event.position.saturating_sub(1);
        if let Some(link) = link_at(events, place(next_door))? {
            return Ok(Before::Link(link, next_door));
        }
        let link = match self.sequenced(stored.source, sequence)? {
            Some(position) => link_at(events, place(position))?.map(|link| (link, position)),
            None => None,
        };
        let at = self.sequenced(stored.source, stored.event.sequence)?;
        if at != Some(stored.event.position) {
            let here = |at| Place::in_source(stored.source, stored.event.sequence, at);
            let is_there = at.map(|at| link_at(events, here(at))).transpose()?.flatten().is_some();
            return Ok(match link {
                Some((link, _)) if !is_there => Before::Unindexed(link),
                _ => Before::Displaced,
            });
        }
        Ok(link.map_or(Before::Unreadable, |(link, position)| Before::Link(link, position)))
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
    let is_it = |source, sequence| {
        place.named.is_some_and(|named| (named.source, named.sequence) == (source, sequence))
    };
    Ok(link.filter(|(source, sequence, _)| is_it(*source, *sequence)).map(|(.., link)| link))
}
