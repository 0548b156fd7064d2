use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

use thoughtstream_domain::event::{Actor, ActorKind, Envelope};
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::IdempotencyKey;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;

fn kind(name: &str) -> TypeName {
    TypeName::parse(name).unwrap()
}

fn source(name: &str) -> SourceId {
    SourceId::parse(name).unwrap()
}

/// Announces an event that nobody brings along.
fn hint(hub: &Hub, of: &str, name: &str, sequence: u64) {
    let (source, kind) = (source(of), kind(name));
    let (before, through) = (sequence - 1, sequence);
    hub.announce([Moved { source: &source, kind: &kind, sequence, before, through, event: None }]);
}

fn counted() -> (Arc<AtomicUsize>, Bell) {
    let rings = Arc::new(AtomicUsize::new(0));
    let bell_rings = Arc::clone(&rings);
    (rings, Arc::new(move || _ = bell_rings.fetch_add(1, Ordering::SeqCst)))
}

fn kinds(kinds: &[&str]) -> SourceFilter {
    SourceFilter { kinds: kinds.iter().map(|k| (*k).to_owned()).collect(), ..SourceFilter::default() }
}

fn sources(names: &[&str]) -> SourceFilter {
    SourceFilter { sources: names.iter().map(|name| source(name)).collect(), ..SourceFilter::default() }
}

#[test]
fn a_flood_rings_once_until_someone_looks() {
    let hub = Arc::new(Hub::default());
    let (rings, bell) = counted();
    let subscribed = hub.subscribe([kind("a.b")], SourceFilter::default(), bell);
    (1..=1000).for_each(|n| hint(&hub, "notes:x", "a.b", n));
    assert_eq!(rings.load(Ordering::SeqCst), 1);
    let look = subscribed.take();
    assert_eq!(look.sources.values().map(|news| news.head).collect::<Vec<_>>(), [1000]);
    hint(&hub, "notes:x", "a.b", 1001);
    assert_eq!(rings.load(Ordering::SeqCst), 2);
}

#[test]
fn only_those_who_listen_are_woken() {
    let hub = Arc::new(Hub::default());
    let (rings, bell) = counted();
    let _files = hub.subscribe([kind("a.b")], kinds(&["filesystem"]), bell);
    hint(&hub, "notes:x", "a.b", 1);
    hint(&hub, "filesystem:x", "a.c", 1);
    assert_eq!(rings.load(Ordering::SeqCst), 0);
    hint(&hub, "filesystem:x", "a.b", 2);
    assert_eq!(rings.load(Ordering::SeqCst), 1);
}

#[test]
fn one_of_very_many_is_found_by_its_source() {
    let hub = Arc::new(Hub::default());
    let subscribed: Vec<_> = (0..1000)
        .map(|n| {
            let (rings, bell) = counted();
            (rings, hub.subscribe([kind("a.b")], sources(&[&format!("notes:n{n}")]), bell))
        })
        .collect();
    hint(&hub, "notes:n7", "a.b", 1);
    hint(&hub, "notes:x", "a.b", 1);
    let rung: Vec<usize> = subscribed.iter().map(|(rings, _)| rings.load(Ordering::SeqCst)).collect();
    assert_eq!(rung.iter().sum::<usize>(), 1);
    assert_eq!(rung[7], 1);
}

#[test]
fn a_dropped_subscription_leaves_nothing_behind() {
    let hub = Arc::new(Hub::default());
    let (_, bell) = counted();
    let filter = SourceFilter { sources: [source("notes:x")].into(), ..kinds(&["a"]) };
    drop(hub.subscribe([kind("a.b")], SourceFilter::default(), Arc::clone(&bell)));
    drop(hub.subscribe([kind("a.b")], filter, bell));
    assert!(hub.0.read().unwrap().by_type.is_empty());
}

#[test]
fn a_lost_wake_up_is_told_to_everyone() {
    let hub = Arc::new(Hub::default());
    let all: Vec<_> = [SourceFilter::default(), kinds(&["notes"]), sources(&["notes:x"])]
        .into_iter()
        .map(|filter| {
            let (rings, bell) = counted();
            (rings, hub.subscribe([kind("a.b"), kind("a.c")], filter, bell))
        })
        .collect();
    hub.announce_missed();
    for (rings, subscribed) in all {
        assert_eq!(rings.load(Ordering::SeqCst), 1);
        assert!(subscribed.take().missed && !subscribed.take().missed);
    }
}

fn note(sequence: u64) -> (Candidate, Placed) {
    let key = IdempotencyKey::parse(&format!("k{sequence}")).unwrap();
    let envelope =
        Envelope::new(source("notes:x"), key, Privacy::Private, Actor::ours(ActorKind::Person, "uid:1"));
    let candidate = Note { text: "note".into(), title: None, tags: vec![] }.candidate(envelope);
    let placed = Placed {
        id: candidate.id(),
        position: sequence,
        sequence,
        recorded_at: Timestamp::default(),
        root: candidate.id(),
        depth: 0,
        chain: ChainHash::START,
    };
    (candidate, placed)
}

/// Announces one group of notes: what is between `before` and `through` and not in `sequences` is of another type.
fn group(hub: &Hub, before: u64, sequences: &[u64], through: u64) {
    let notes: Vec<_> = sequences.iter().map(|sequence| note(*sequence)).collect();
    let (source, kind) = (source("notes:x"), kind(Note::NAME));
    hub.announce(notes.iter().map(|(candidate, placed)| Moved {
        source: &source,
        kind: &kind,
        sequence: placed.sequence,
        before,
        through,
        event: Some((candidate, placed)),
    }));
}

/// Is a page as numbers: behind what it begins, what it has, how far it reaches.
type Numbers = (u64, Vec<u64>, u64);

fn page(subscribed: &Subscribed) -> (u64, Option<Numbers>) {
    let mut look = subscribed.take();
    let news = look.sources.remove(&source("notes:x")).unwrap();
    let page = news.page.map(|page| {
        (page.after, page.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), page.through)
    });
    (news.head, page)
}

#[test]
fn events_come_along_as_long_as_nothing_is_missing_between() {
    let hub = Arc::new(Hub::default());
    let (_, bell) = counted();
    // Listening to the source and to its kind, it is told twice and counts once.
    let filter = SourceFilter { sources: [source("notes:x")].into(), ..kinds(&["notes"]) };
    let subscribed = hub.subscribe([kind(Note::NAME)], filter, bell);
    group(&hub, 0, &[1, 3], 4);
    group(&hub, 4, &[5], 5);
    assert_eq!(page(&subscribed), (5, Some((0, vec![1, 3, 5], 5))));
    // The group between had nothing for it, so nobody told what it was: only reading shows it.
    group(&hub, 7, &[8], 8);
    group(&hub, 9, &[10], 10);
    assert_eq!(page(&subscribed), (10, None));
    group(&hub, 10, &[11], 11);
    hint(&hub, "notes:x", Note::NAME, 12);
    assert_eq!(page(&subscribed), (12, None));
}

#[test]
fn whoever_does_not_look_is_not_brought_more_and_more() {
    let hub = Arc::new(Hub::default());
    let (_, bell) = counted();
    let subscribed = hub.subscribe([kind(Note::NAME)], kinds(&["notes"]), bell);
    let count = NEWS_MAX as u64 + 10;
    (1..=count).for_each(|n| group(&hub, n - 1, &[n], n));
    assert_eq!(page(&subscribed), (count, None));
    group(&hub, count, &[count + 1], count + 1);
    assert_eq!(page(&subscribed), (count + 1, Some((count, vec![count + 1], count + 1))));
}

#[test]
fn whoever_looks_at_once_is_shown_whole_groups() {
    let hub = Arc::new(Hub::default());
    let eager: Arc<Mutex<Option<Subscribed>>> = Arc::default();
    let seen: Arc<Mutex<Vec<Numbers>>> = Arc::default();
    let bell: Bell = {
        let (eager, seen) = (Arc::clone(&eager), Arc::clone(&seen));
        Arc::new(move || {
            let subscribed = eager.lock().unwrap();
            let (_, page) = page(subscribed.as_ref().unwrap());
            seen.lock().unwrap().push(page.unwrap());
        })
    };
    *eager.lock().unwrap() = Some(hub.subscribe([kind(Note::NAME)], kinds(&["notes"]), bell));
    group(&hub, 0, &[1, 2, 4], 5);
    group(&hub, 5, &[6, 7], 7);
    assert_eq!(*seen.lock().unwrap(), [(0, vec![1, 2, 4], 5), (5, vec![6, 7], 7)]);
}
