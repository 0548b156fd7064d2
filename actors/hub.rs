//! Who is woken when a source moves.
//!
//! A wake-up says "look", and carries no work: a lost or doubled one changes nothing, because whoever is woken
//! reads the log from its own progress. The hub is a table, not an actor: the log writer calls it after a group
//! is durable, and it must never wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use thoughtstream_domain::id::{SourceId, TypeName};

/// Says that a source has new events of one type, up to `sequence`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The source.
    pub source: SourceId,
    /// The type of the event.
    pub kind: TypeName,
    /// Its place in the source.
    pub sequence: u64,
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

/// Is one subscriber's place in the hub.
pub struct Slot {
    filter: SourceFilter,
    moved: Mutex<BTreeMap<SourceId, u64>>,
    bell: Bell,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl Slot {
    fn moved(&self) -> MutexGuard<'_, BTreeMap<SourceId, u64>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a source moved; rings only if nothing was waiting to be looked at.
    fn wake(&self, source: &SourceId, sequence: u64) {
        let mut moved = self.moved();
        let silent = moved.is_empty();
        let furthest = moved.entry(source.clone()).or_insert(0);
        *furthest = (*furthest).max(sequence);
        drop(moved);
        if silent {
            (self.bell)();
        }
    }

    /// Takes what moved since the last look: source and furthest sequence.
    #[must_use]
    pub fn take(&self) -> BTreeMap<SourceId, u64> {
        std::mem::take(&mut *self.moved())
    }
}

/// The subscribers of one type in one place, by their number.
type Slots = BTreeMap<u64, Arc<Slot>>;

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
            self.everywhere.insert(number, Arc::clone(slot));
        }
        for source in sources {
            self.by_source.entry(source.clone()).or_default().insert(number, Arc::clone(slot));
        }
        for kind in kinds {
            self.by_kind.entry(kind.clone()).or_default().insert(number, Arc::clone(slot));
        }
    }

    fn remove(&mut self, number: u64, filter: &SourceFilter) {
        self.everywhere.remove(&number);
        for source in &filter.sources {
            take_out(&mut self.by_source, source, number);
        }
        for kind in &filter.kinds {
            take_out(&mut self.by_kind, kind, number);
        }
    }

    fn is_empty(&self) -> bool {
        self.everywhere.is_empty() && self.by_source.is_empty() && self.by_kind.is_empty()
    }

    /// Returns who listens to a source; one that names both a source and its kind comes twice.
    fn of<'a>(&'a self, source: &SourceId) -> impl Iterator<Item = &'a Arc<Slot>> {
        let places = [Some(&self.everywhere), self.by_source.get(source), self.by_kind.get(source.kind())];
        places.into_iter().flatten().flat_map(BTreeMap::values)
    }
}

fn take_out<K: Ord>(places: &mut BTreeMap<K, Slots>, place: &K, number: u64) {
    if let Some(slots) = places.get_mut(place) {
        slots.remove(&number);
        if slots.is_empty() {
            places.remove(place);
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    by_type: BTreeMap<TypeName, Listeners>,
    next: u64,
}

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
        let slot = Arc::new(Slot { filter, moved: Mutex::default(), bell });
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

    /// Wakes everyone who listens to what moved; costs the number of those, not of all subscribers.
    pub fn announce<'a>(&self, moved: impl IntoIterator<Item = &'a Moved>) {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for event in moved {
            let Some(listeners) = table.by_type.get(&event.kind) else { continue };
            for slot in listeners.of(&event.source) {
                slot.wake(&event.source, event.sequence);
            }
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
    pub fn take(&self) -> BTreeMap<SourceId, u64> {
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
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn moved(source: &str, kind: &str, sequence: u64) -> Moved {
        Moved { source: SourceId::parse(source).unwrap(), kind: TypeName::parse(kind).unwrap(), sequence }
    }

    fn counted() -> (Arc<AtomicUsize>, Bell) {
        let rings = Arc::new(AtomicUsize::new(0));
        let bell_rings = Arc::clone(&rings);
        (rings, Arc::new(move || _ = bell_rings.fetch_add(1, Ordering::SeqCst)))
    }

    fn kinds(kinds: &[&str]) -> SourceFilter {
        SourceFilter { kinds: kinds.iter().map(|k| (*k).to_owned()).collect(), ..SourceFilter::default() }
    }

    #[test]
    fn a_flood_rings_once_until_someone_looks() {
        let hub = Arc::new(Hub::default());
        let (rings, bell) = counted();
        let subscribed = hub.subscribe([TypeName::parse("a.b").unwrap()], SourceFilter::default(), bell);
        hub.announce(&(1..=1000).map(|n| moved("notes:x", "a.b", n)).collect::<Vec<_>>());
        assert_eq!(rings.load(Ordering::SeqCst), 1);
        assert_eq!(subscribed.take().values().copied().collect::<Vec<_>>(), [1000]);
        hub.announce(&[moved("notes:x", "a.b", 1001)]);
        assert_eq!(rings.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn only_those_who_listen_are_woken() {
        let hub = Arc::new(Hub::default());
        let (rings, bell) = counted();
        let _files = hub.subscribe([TypeName::parse("a.b").unwrap()], kinds(&["filesystem"]), bell);
        hub.announce(&[moved("notes:x", "a.b", 1), moved("filesystem:x", "a.c", 1)]);
        assert_eq!(rings.load(Ordering::SeqCst), 0);
        hub.announce(&[moved("filesystem:x", "a.b", 2)]);
        assert_eq!(rings.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn one_of_very_many_is_found_by_its_source() {
        let hub = Arc::new(Hub::default());
        let subscribed: Vec<_> = (0..1000)
            .map(|n| {
                let (rings, bell) = counted();
                let sources = [SourceId::parse(&format!("notes:n{n}")).unwrap()].into();
                let filter = SourceFilter { sources, ..SourceFilter::default() };
                (rings, hub.subscribe([TypeName::parse("a.b").unwrap()], filter, bell))
            })
            .collect();
        hub.announce(&[moved("notes:n7", "a.b", 1), moved("notes:x", "a.b", 1)]);
        let rung: Vec<usize> = subscribed.iter().map(|(rings, _)| rings.load(Ordering::SeqCst)).collect();
        assert_eq!(rung.iter().sum::<usize>(), 1);
        assert_eq!(rung[7], 1);
    }

    #[test]
    fn a_dropped_subscription_leaves_nothing_behind() {
        let hub = Arc::new(Hub::default());
        let (_, bell) = counted();
        let filter = SourceFilter { sources: [SourceId::parse("notes:x").unwrap()].into(), ..kinds(&["a"]) };
        drop(hub.subscribe([TypeName::parse("a.b").unwrap()], SourceFilter::default(), Arc::clone(&bell)));
        drop(hub.subscribe([TypeName::parse("a.b").unwrap()], filter, bell));
        assert!(hub.0.read().unwrap().by_type.is_empty());
    }
}
