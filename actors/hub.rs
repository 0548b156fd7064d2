//! Who is woken when a source moves.
//!
//! A wake-up says "look". It may bring along what there is to see, so that whoever keeps up needs not read; all
//! the same it carries no work: a lost or doubled one changes nothing, because whoever is woken goes on from its
//! own progress and reads what did not come. The hub is a table, not an actor: the log writer calls it after a
//! group is durable, and it must never wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use thoughtstream_domain::commit::Placed;
use thoughtstream_domain::event::{Candidate, Event};
use thoughtstream_domain::id::{SourceId, TypeName};

/// The most events that wait in one slot; whoever is further behind reads them in the log.
const NEWS_MAX: usize = 1024;

/// Says that a source has a new event.
#[derive(Debug, Clone, Copy)]
pub struct Moved<'a> {
    /// The source.
    pub source: &'a SourceId,
    /// The type of the event.
    pub kind: &'a TypeName,
    /// Its place in the source.
    pub sequence: u64,
    /// The last sequence of the source before the group of commits that the event belongs to.
    pub before: u64,
    /// The last sequence of the source in that group.
    pub through: u64,
    /// The event itself, if it was written just now.
    pub event: Option<(&'a Candidate, &'a Placed)>,
}

/// Says which sources a subscriber listens to; empty lists together mean every source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceFilter {
    /// Exact sources.
    pub sources: BTreeSet<SourceId>,
    /// Kinds of sources.
    pub kinds: BTreeSet<String>,
}

/// Rings once for any number of wake-ups until its owner has looked.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Is what moved in one source since the last look.
#[derive(Debug, Default)]
pub struct News {
    /// The furthest sequence known to exist.
    pub head: u64,
    /// Everything of the subscriber's types between two sequences, unless some of it did not come along.
    pub page: Option<NewsPage>,
}

/// Is a gapless piece of a source: of the subscriber's types there is nothing else between its two ends.
#[derive(Debug)]
pub struct NewsPage {
    /// Behind which sequence it begins.
    pub after: u64,
    /// Up to which sequence it reaches.
    pub through: u64,
    /// The events, in order.
    pub events: Vec<Arc<Event>>,
}

/// Is everything that moved since the last look.
#[derive(Debug, Default)]
pub struct Look {
    /// By source.
    pub sources: BTreeMap<SourceId, News>,
    /// Whether a wake-up may have been lost: every source may have moved.
    pub missed: bool,
    events: usize,
}

impl Look {
    fn is_empty(&self) -> bool {
        self.sources.is_empty() && !self.missed
    }

    fn note(&mut self, moved: &Moved<'_>, event: Option<&Arc<Event>>) {
        let Moved { source, sequence, before, through, .. } = *moved;
        let event = event.filter(|_| self.events < NEWS_MAX);
        let Some(news) = self.sources.get_mut(source) else {
            self.events += usize::from(event.is_some());
            let page =
                event.map(|event| NewsPage { after: before, through, events: vec![Arc::clone(event)] });
            self.sources.insert(source.clone(), News { head: sequence, page });
            return;
        };
        news.head = news.head.max(sequence);
        match (&mut news.page, event) {
            // The same event again, for one that listens to a source and to its kind.
            (Some(page), Some(event)) if page.events.last().is_some_and(|last| last.id == event.id) => {}
            (Some(page), Some(event)) if page.through == through || page.through == before => {
                page.through = through;
                page.events.push(Arc::clone(event));
                self.events += 1;
            }
            (page, _) => *page = None,
        }
    }
}

/// Is one subscriber's place in the hub.
pub struct Slot {
    filter: SourceFilter,
    look: Mutex<Look>,
    bell: Bell,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl Slot {
    fn look(&self) -> MutexGuard<'_, Look> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something; rings only if nothing was waiting to be looked at.
    fn wake(&self, note: impl FnOnce(&mut Look)) {
        let mut look = self.look();
        let silent = look.is_empty();
        note(&mut look);
        drop(look);
        if silent {
            (self.bell)();
        }
    }

    /// Takes what moved since the last look.
    #[must_use]
    pub fn take(&self) -> Look {
        std::mem::take(&mut *self.look())
    }
}

/// The subscribers of one type in one place, in order of their numbers. Most have one: thousands of consumers may
/// each listen to a source of its own.
#[derive(Debug, Default)]
struct Slots(Vec<(u64, Arc<Slot>)>);

impl Slots {
    fn add(&mut self, number: u64, slot: &Arc<Slot>) {
        // Numbers grow, so the order is kept.
        self.0.push((number, Arc::clone(slot)));
    }

    fn remove(&mut self, number: u64) {
        if let Ok(place) = self.0.binary_search_by_key(&number, |(other, _)| *other) {
            self.0.remove(place);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.0.iter().map(|(_, slot)| slot)
    }
}

/// The subscribers of one type, by where they listen: an event finds its own and passes all others by.
#[derive(Debug, Default)]
struct Listeners {
    everywhere: Slots,
    by_source: BTreeMap<SourceId, Slots>,
    by_kind: BTreeMap<String, Slots>,
}

impl Listeners {
    fn add(&mut self, number: u64, slot: &Arc<Slot>) {
        let SourceFilter { sources, kinds } = &slot.filter;
        if sources.is_empty() && kinds.is_empty() {
            self.everywhere.add(number, slot);
        }
        for source in sources {
            self.by_source.entry(source.clone()).or_default().add(number, slot);
        }
        for kind in kinds {
            self.by_kind.entry(kind.clone()).or_default().add(number, slot);
        }
    }

    fn remove(&mut self, number: u64, filter: &SourceFilter) {
        self.everywhere.remove(number);
        for source in &filter.sources {
            take_out(&mut self.by_source, source, number);
        }
        for kind in &filter.kinds {
            take_out(&mut self.by_kind, kind, number);
        }
    }

    fn is_empty(&self) -> bool {
        self.everywhere.0.is_empty() && self.by_source.is_empty() && self.by_kind.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Slot>> {
        let places =
            [&self.everywhere].into_iter().chain(self.by_source.values()).chain(self.by_kind.values());
        places.flat_map(Slots::iter)
    }

    /// Returns who listens to a source; one that names both a source and its kind comes twice.
    fn of<'a>(&'a self, source: &SourceId) -> impl Iterator<Item = &'a Arc<Slot>> {
        let places = [Some(&self.everywhere), self.by_source.get(source), self.by_kind.get(source.kind())];
        places.into_iter().flatten().flat_map(Slots::iter)
    }
}

fn take_out<K: Ord>(places: &mut BTreeMap<K, Slots>, place: &K, number: u64) {
    if let Some(slots) = places.get_mut(place) {
        slots.remove(number);
        if slots.0.is_empty() {
            places.remove(place);
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    by_type: BTreeMap<TypeName, Listeners>,
    next: u64,
}

/// Is what one subscriber is to be told of one event.
type Note<'t, 'a> = (&'t Arc<Slot>, Moved<'a>, Option<Arc<Event>>);

/// Finds the subscribers of an event without asking those that do not listen to its type or its source.
#[derive(Debug, Default)]
pub struct Hub(RwLock<Table>);

impl Hub {
    /// Subscribes to `types` on the sources that `filter` includes, until the subscription is dropped.
    #[must_use]
    pub fn subscribe(
        self: &Arc<Self>,
        types: impl IntoIterator<Item = TypeName>,
        filter: SourceFilter,
        bell: Bell,
    ) -> Subscribed {
        let slot = Arc::new(Slot { filter, look: Mutex::default(), bell });
        let types: Vec<TypeName> = types.into_iter().collect();
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let number = table.next;
        table.next += 1;
        for kind in &types {
            table.by_type.entry(kind.clone()).or_default().add(number, &slot);
        }
        drop(table);
        Subscribed { hub: Arc::clone(self), number, types, slot }
    }

    /// Wakes everyone who listens to what moved in one group; costs the number of those, not of all subscribers.
    ///
    /// Each is told of the whole group at once: a page reaches to the group's end, so whoever looks in between
    /// would take half a group for all of it.
    pub fn announce<'a>(&self, moved: impl IntoIterator<Item = Moved<'a>>) {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut notes: Vec<Note<'_, 'a>> = Vec::new();
        for moved in moved {
            let Some(listeners) = table.by_type.get(moved.kind) else { continue };
            let mut event: Option<Arc<Event>> = None;
            for slot in listeners.of(moved.source) {
                if event.is_none() {
                    event =
                        moved.event.map(|(candidate, placed)| Arc::new(Event::recorded(candidate, placed)));
                }
                notes.push((slot, moved, event.clone()));
            }
        }
        // Stable: what one is told stays in the order of the log.
        notes.sort_by_key(|(slot, ..)| Arc::as_ptr(slot));
        for told in notes.chunk_by(|(one, ..), (other, ..)| Arc::ptr_eq(one, other)) {
            let Some((slot, ..)) = told.first() else { continue };
            slot.wake(|look| told.iter().for_each(|(_, moved, event)| look.note(moved, event.as_ref())));
        }
    }

    /// Tells everyone that a wake-up may have been lost.
    pub fn announce_missed(&self) {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for slot in table.by_type.values().flat_map(Listeners::all) {
            slot.wake(|look| look.missed = true);
        }
    }
}

/// Is a subscription; dropping it ends it.
#[derive(Debug)]
pub struct Subscribed {
    hub: Arc<Hub>,
    number: u64,
    types: Vec<TypeName>,
    slot: Arc<Slot>,
}

impl Subscribed {
    /// Takes what moved since the last look.
    #[must_use]
    pub fn take(&self) -> Look {
        self.slot.take()
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut table = self.hub.0.write().unwrap_or_else(PoisonError::into_inner);
        for kind in &self.types {
            if let Some(listeners) = table.by_type.get_mut(kind) {
                listeners.remove(self.number, &self.slot.filter);
                if listeners.is_empty() {
                    table.by_type.remove(kind);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
