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

impl SourceFilter {
    /// Says whether events of this source are listened to.
    #[must_use]
    pub fn includes(&self, source: &SourceId) -> bool {
        (self.sources.is_empty() && self.kinds.is_empty())
            || self.sources.contains(source)
            || self.kinds.contains(source.kind())
    }
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

/// Finds the subscribers of an event without asking those that do not listen to its type.
#[derive(Debug, Default)]
pub struct Hub {
    by_type: RwLock<BTreeMap<TypeName, Vec<Arc<Slot>>>>,
}

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
        let mut table = self.by_type.write().unwrap_or_else(PoisonError::into_inner);
        for kind in &types {
            table.entry(kind.clone()).or_default().push(Arc::clone(&slot));
        }
        drop(table);
        Subscribed { hub: Arc::clone(self), types, slot }
    }

    /// Wakes everyone who listens to what moved; costs the number of those, not of all subscribers.
    pub fn announce<'a>(&self, moved: impl IntoIterator<Item = &'a Moved>) {
        let table = self.by_type.read().unwrap_or_else(PoisonError::into_inner);
        for event in moved {
            for slot in table.get(&event.kind).into_iter().flatten() {
                if slot.filter.includes(&event.source) {
                    slot.wake(&event.source, event.sequence);
                }
            }
        }
    }
}

/// Is a subscription; dropping it ends it.
#[derive(Debug)]
pub struct Subscribed {
    hub: Arc<Hub>,
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
        let mut table = self.hub.by_type.write().unwrap_or_else(PoisonError::into_inner);
        for kind in &self.types {
            if let Some(slots) = table.get_mut(kind) {
                slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
                if slots.is_empty() {
                    table.remove(kind);
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
    fn a_dropped_subscription_leaves_nothing_behind() {
        let hub = Arc::new(Hub::default());
        let (_, bell) = counted();
        drop(hub.subscribe([TypeName::parse("a.b").unwrap()], SourceFilter::default(), bell));
        assert!(hub.by_type.read().unwrap().is_empty());
    }
}
