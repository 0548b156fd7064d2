//! What is stored of an event is held against its source's chain by every look, and what it costs.

use thoughtstream_domain::commit::{Refusal, Row};
use thoughtstream_domain::event::{ActorKind, Event, Payload, Reference};
use thoughtstream_domain::hash::{ChainHash, Sha256Hash};
use thoughtstream_domain::id::{ConsumerKey, EventId, TypeName};
use thoughtstream_domain::operate::{redact, skip_damaged};
use thoughtstream_domain::payload::run::RunReceived;
use thoughtstream_domain::payload::system::Operator;

use super::verification::{change_row, check, damage, remove_row, rich};
use super::*;
use crate::names::NameKind;
use crate::reader::damage::LINKS_READ;
use crate::record::{self, Stored};
use crate::tables::{Table, key, position_key};
use crate::verify::{FindingKind, Options as VerifyOptions, verify};
use crate::{Reader, RowError};

/// A log in which two sources take turns, and one event of the first that has every member. Answers that event.
fn turns() -> (Store, Event) {
    let (_, mut store) = rich();
    let parent = store.reader.event_at(2).unwrap().unwrap();
    for number in 0..3 {
        committed(
            &mut store,
            &append(vec![note_in(envelope("notes:other", &format!("a{number}")), "other")]),
        );
        let mut full = envelope("notes:turns", &format!("b{number}")).with_parents(vec![Parent::of(&parent)]);
        full.occurred_at = Some(at(7));
        full.address = Some(Reference::parse("links").unwrap());
        full.external = Some(Reference::parse("outside").unwrap());
        full.correlation = Some(Reference::parse("group").unwrap());
        committed(&mut store, &append(vec![note_in(full, "text")]));
    }
    let event = store.reader.event_in(&source("notes:turns"), 2).unwrap().unwrap();
    (store, event)
}

/// Writes a stored event anew, with something else in it.
fn tamper(store: &Store, position: u64, change: &dyn Fn(&mut Stored, &Reader)) {
    let reader = &store.reader;
    let read = reader.view(|view| view.as_stored(&view.table(Table::Events)?, position));
    let mut stored = read.unwrap().unwrap();
    change(&mut stored, reader);
    change_row(store, Table::Events, &position_key(position), |row| *row = record::write_stored(&stored));
}

fn is_damaged<T: std::fmt::Debug>(read: Result<T, RowError>, place: &str) {
    match read {
        Err(RowError::Damaged { place: found }) => assert!(found.starts_with(place), "{found}, not {place}"),
        other => panic!("{other:?}"),
    }
}

type Change = Box<dyn Fn(&mut Stored, &Reader)>;

/// Another value in each member of a record's header, by name.
fn changes() -> Vec<(&'static str, Change)> {
    fn change(change: impl Fn(&mut Stored, &Reader) + 'static) -> Change {
        Box::new(change)
    }
    let word = || Some(Reference::parse("word").unwrap());
    vec![
        ("id", change(|s, _| s.event.id = EventId::from_bytes([9; 32]))),
        (
            "type",
            change(|s, reader| {
                s.kind = reader.shared.names.number(NameKind::Type, RunReceived::NAME).unwrap();
            }),
        ),
        ("type's version", change(|s, _| s.event.kind.version += 1)),
        (
            "source",
            change(|s, reader| {
                s.source = reader.shared.names.number(NameKind::Source, "notes:other").unwrap();
            }),
        ),
        ("sequence before", change(|s, _| s.event.sequence -= 1)),
        ("sequence behind", change(|s, _| s.event.sequence += 1)),
        ("sequence beyond", change(|s, _| s.event.sequence = 900)),
        ("no sequence", change(|s, _| s.event.sequence = 0)),
        ("privacy", change(|s, _| s.event.privacy = Privacy::Sensitive)),
        ("actor's kind", change(|s, _| s.event.actor.kind = ActorKind::System)),
        ("actor", change(|s, _| s.event.actor = Actor::ours(ActorKind::Person, "uid:0"))),
        ("key", change(|s, _| s.event.key = IdempotencyKey::parse("other").unwrap())),
        ("time outside", change(|s, _| s.event.occurred_at = Some(at(8)))),
        ("no time outside", change(|s, _| s.event.occurred_at = None)),
        ("time", change(|s, _| s.event.recorded_at = at(999))),
        ("root", change(|s, _| s.event.root = EventId::from_bytes([9; 32]))),
        ("depth", change(|s, _| s.event.depth += 1)),
        ("parent", change(|s, _| s.event.parents[0] = EventId::from_bytes([9; 32]))),
        (
            "no parent",
            change(|s, _| {
                s.event.parents.clear();
                s.parents.clear();
            }),
        ),
        ("address", change(move |s, _| s.event.address = word())),
        ("no address", change(|s, _| s.event.address = None)),
        ("external", change(move |s, _| s.event.external = word())),
        ("correlation", change(move |s, _| s.event.correlation = word())),
        ("payload's hash", change(|s, _| s.event.payload_sha256 = Sha256Hash::of(b"other"))),
        ("link", change(|s, _| s.event.chain = ChainHash::from_bytes([9; 32]))),
    ]
}

#[test]
fn a_header_that_is_not_the_recorded_one_is_given_to_nobody_who_acts() {
    for (name, change) in changes() {
        let (store, sound) = turns();
        let (reader, types) = (&store.reader, [sound.kind.name.clone()]);
        let (before, behind) = (reader.event_in(&sound.source, 1), reader.event_in(&sound.source, 3));
        tamper(&store, sound.position, &change);
        let place = format!("events {}", sound.position);
        let named = format!("{place} ({} {})", sound.source, sound.sequence);
        is_damaged(reader.event_at(sound.position), &place);
        is_damaged(reader.event(&sound.id), &place);
        is_damaged(reader.event_under(&sound.source, &sound.kind.name, &sound.key), &place);
        is_damaged(reader.event_in(&sound.source, sound.sequence), &named);
        is_damaged(reader.backlog(&types, &sound.source, 1, 10), &named);
        is_damaged(reader.source_page(&sound.source, 1, 10), &named);
        is_damaged(reader.page_after(sound.position - 1, 10), &place);
        is_damaged(reader.children(2, sound.position - 1, 10), &place);
        is_damaged(reader.parents(sound.position), &place);
        // What stands before it and behind it is what it was, also where it is read on the way.
        let sequences = |page: Vec<Event>| page.iter().map(|event| event.sequence).collect::<Vec<_>>();
        assert_eq!(sequences(reader.backlog(&types, &sound.source, 0, 10).unwrap()), [1], "{name}");
        assert_eq!(sequences(reader.backlog(&types, &sound.source, 2, 10).unwrap()), [3], "{name}");
        assert_eq!(reader.event_in(&sound.source, 1).unwrap(), before.unwrap(), "{name}");
        assert_eq!(reader.event_in(&sound.source, 3).unwrap(), behind.unwrap(), "{name}");
        // Who shows it finds it where it is looked for, and goes on behind it.
        let shown = reader.showing_damage();
        let page = shown.backlog(&types, &sound.source, 0, 10).unwrap();
        let damaged: Vec<bool> = page.iter().map(|event| event.payload == Payload::Damaged).collect();
        assert_eq!((sequences(page), damaged), (vec![1, 2, 3], vec![false, true, false]), "{name}");
        assert_eq!(shown.event(&sound.id).unwrap().unwrap().payload, Payload::Damaged, "{name}");
        let report = check(&store);
        assert!(report.findings.iter().any(|finding| finding.place.contains(&place)), "{name}: {report:?}");
    }
}

#[test]
fn a_parent_that_stands_elsewhere_is_damage_to_whoever_looks_for_parents() {
    let (store, sound) = turns();
    tamper(&store, sound.position, &|stored, _| stored.parents[0] = 1);
    is_damaged(store.reader.parents(sound.position), &format!("events {}", sound.position));
    assert!(!check(&store).ok);
}

#[test]
fn a_sound_row_in_the_place_of_another_is_damage_where_an_index_leads_to_it() {
    let (store, sound) = turns();
    let row = |position| store.reader.view(|view| view.get(Table::Events, &position_key(position)));
    let other = row(2).unwrap().unwrap();
    change_row(&store, Table::Events, &position_key(sound.position), |row| *row = other);
    let place = format!("events {} (notes:turns 2)", sound.position);
    is_damaged(store.reader.event_in(&sound.source, 2), &place);
    is_damaged(store.reader.source_page(&sound.source, 1, 10), &place);
    is_damaged(store.reader.backlog(&[sound.kind.name], &sound.source, 1, 10), &place);
}

/// The event that an index leads to, and the one that it should have led to, are both sound: to pass it would lose it.
#[test]
fn an_index_that_leads_elsewhere_is_what_is_damaged_and_no_event() {
    let last = |store: &Store| store.reader.last_position().unwrap();
    for leads_to in ["another", "none", "nowhere"] {
        let (store, sound) = turns();
        let (reader, types) = (&store.reader, [sound.kind.name.clone()]);
        let [kind, number] = numbers(&store, &sound);
        let to = match leads_to {
            "another" => 2,
            "none" => last(&store) + 7,
            _ => 0,
        };
        let lead = |table, key: &[u8]| change_row(&store, table, key, |row| *row = position_key(to).to_vec());
        lead(Table::Types, &key!(kind, number, 2_u64));
        let place = format!("types {} notes:turns 2", sound.kind.name);
        is_damaged(reader.backlog(&types, &sound.source, 1, 10), &place);
        is_damaged(reader.damaged_behind(&types, &sound.source, 1), &place);
        assert_eq!(
            reader.backlog(&types, &sound.source, 0, 10).unwrap().len(),
            1,
            "what stands before goes on"
        );
        assert_eq!(reader.event_in(&sound.source, 2).unwrap().as_ref(), Some(&sound), "{leads_to}");
        let shown = reader.showing_damage().backlog(&types, &sound.source, 0, 10).unwrap();
        assert!(shown.len() == 3 && shown[1] == sound, "{leads_to}: {shown:?}");
        // The index of sequences is held against that of types.
        let (store, sound) = turns();
        let reader = &store.reader;
        change_row(&store, Table::Sequences, &key!(number, 2_u64), |row| *row = position_key(to).to_vec());
        let place = "sequences notes:turns 2";
        is_damaged(reader.event_in(&sound.source, 2), place);
        is_damaged(reader.source_page(&sound.source, 1, 10), place);
        is_damaged(reader.event_at(sound.position), place);
        is_damaged(reader.backlog(&types, &sound.source, 1, 10), place);
        is_damaged(reader.damaged_behind(&types, &sound.source, 1), place);
        let shown = reader.showing_damage();
        assert_eq!(shown.event_in(&sound.source, 2).unwrap().as_ref(), Some(&sound), "{leads_to}");
        assert_eq!(shown.event_at(sound.position).unwrap().as_ref(), Some(&sound), "{leads_to}");
    }
}

#[test]
fn a_key_of_an_index_that_names_another_event_than_it_leads_to_is_damage_to_the_index() {
    let (store, sound) = turns();
    let [kind, number] = numbers(&store, &sound);
    let other = store.reader.shared.names.number(NameKind::Type, RunReceived::NAME).unwrap();
    for (other_kind, sequence) in [(other, 2_u64), (kind, 2000), (other, 2000)] {
        let (store, sound) = turns();
        let reader = &store.reader;
        let key = key!(kind, number, 2_u64);
        remove_row(&store, Table::Types, &key);
        damage(&store, |tx| {
            let mut types = tx.open_table(Table::Types.definition()).unwrap();
            let at = position_key(sound.position);
            types.insert(&key!(other_kind, number, sequence)[..], &at[..]).unwrap();
        });
        let kinds = [sound.kind.name.clone(), TypeName::parse(RunReceived::NAME).unwrap()];
        let kinds = if other_kind == kind { &kinds[..1] } else { &kinds[1..] };
        let place = format!("types {} notes:turns {sequence}", kinds[0]);
        let after = if sequence == 2 { 1 } else { 3 };
        is_damaged(reader.backlog(kinds, &sound.source, after, 10), &place);
        is_damaged(reader.damaged_behind(kinds, &sound.source, after), &place);
        assert_eq!(reader.event_at(sound.position).unwrap(), Some(sound));
    }
}

/// Where both have rotted, the event is what nobody may act on.
#[test]
fn an_event_that_rotted_is_not_taken_for_an_index_that_did() {
    let (store, sound) = turns();
    let types = [sound.kind.name.clone()];
    remove_row(&store, Table::Events, &position_key(sound.position));
    let place = format!("events {} (notes:turns 2)", sound.position);
    is_damaged(store.reader.event_in(&sound.source, 2), &place);
    is_damaged(store.reader.backlog(&types, &sound.source, 1, 10), &place);
    let damaged = store.reader.damaged_behind(&types, &sound.source, 1).unwrap().unwrap();
    assert_eq!(damaged.to_string(), place);
    // The index leads to an event that is damaged, and the right one is damaged as well.
    let [kind, number] = numbers(&store, &sound);
    change_row(&store, Table::Types, &key!(kind, number, 2_u64), |row| *row = position_key(1).to_vec());
    change_row(&store, Table::Events, &position_key(1), |row| *row.last_mut().unwrap() ^= 1);
    is_damaged(store.reader.backlog(&types, &sound.source, 1, 10), "events 1 (notes:turns 2)");
}

/// Returns the numbers of an event's type and source.
fn numbers(store: &Store, event: &Event) -> [u32; 2] {
    let names = &store.reader.shared.names;
    let kind = names.number(NameKind::Type, event.kind.name.as_str()).unwrap();
    [kind, names.number(NameKind::Source, event.source.as_str()).unwrap()]
}

#[test]
fn an_event_behind_one_that_cannot_be_read_is_taken_at_its_own_word() {
    let (store, sound) = turns();
    let behind = store.reader.event_in(&sound.source, 3).unwrap().unwrap();
    change_row(&store, Table::Events, &position_key(sound.position), |row| row.truncate(5));
    assert_eq!(store.reader.event_in(&sound.source, 3).unwrap(), Some(behind.clone()));
    // It has its payload, its id and its place to show for it.
    tamper(&store, behind.position, &|stored, _| stored.event.sequence = 2);
    is_damaged(store.reader.event_at(behind.position), "events");
    remove_row(&store, Table::Events, &position_key(sound.position));
    is_damaged(store.reader.event_in(&sound.source, 2), "events");
}

#[test]
fn every_single_bit_of_a_record_is_held_against_what_was_recorded() {
    let (store, sound) = turns();
    let (reader, key) = (&store.reader, position_key(sound.position));
    let record = reader.view(|view| view.get(Table::Events, &key)).unwrap().unwrap();
    for byte in 0..record.len() {
        let bit = 1 << (byte % 8);
        change_row(&store, Table::Events, &key, |row| row[byte] ^= bit);
        let read = reader.event_at(sound.position).and_then(|_| reader.parents(sound.position));
        assert!(matches!(read, Err(RowError::Damaged { .. })), "byte {byte}: {read:?}");
        change_row(&store, Table::Events, &key, |row| row[byte] ^= bit);
    }
    assert_eq!(reader.event_at(sound.position).unwrap(), Some(sound));
}

#[test]
fn to_walk_a_source_costs_one_link_and_a_single_event_two_at_most() {
    let (_, mut store) = fresh();
    for number in 0..40 {
        let [one, other] = ["notes:desk", "notes:other"].map(|source| envelope(source, &number.to_string()));
        committed(&mut store, &append(vec![note_in(one, "text"), note_in(other, "text")]));
    }
    let (reader, desk) = (&store.reader, source("notes:desk"));
    let types = [TypeName::parse(Note::NAME).unwrap()];
    let read = |look: &dyn Fn() -> usize| {
        LINKS_READ.set(0);
        (look(), LINKS_READ.get())
    };
    assert_eq!(read(&|| reader.backlog(&types, &desk, 0, 1000).unwrap().len()), (40, 0));
    // The one before stands behind an event of another source: that row is looked at in vain.
    assert_eq!(read(&|| reader.backlog(&types, &desk, 20, 1000).unwrap().len()), (20, 2));
    assert_eq!(read(&|| reader.source_page(&desk, 20, 1000).unwrap().len()), (20, 2));
    assert_eq!(read(&|| usize::from(reader.event_in(&desk, 20).unwrap().is_some())), (1, 2));
    // All sources are walked side by side.
    assert_eq!(read(&|| reader.page_after(0, 1000).unwrap().len()), (80, 0));
}

#[test]
fn what_a_person_passed_as_damaged_was_not_passed_over_whatever_becomes_of_it() {
    let (_, mut store) = rich();
    let sound = store.reader.event_in(&source("notes:desk"), 1).unwrap().unwrap();
    let types = [sound.kind.name.clone()];
    change_row(&store, Table::Events, &position_key(1), |row| *row.last_mut().unwrap() ^= 1);
    let damaged = store.reader.damaged_behind(&types, &sound.source, 0).unwrap().unwrap();
    assert_eq!(damaged.to_string(), "events 1 (notes:desk 1)");
    assert_eq!(store.reader.damaged_behind(&types, &sound.source, 1).unwrap(), None);
    let (operator, other) = (Operator { uid: 1, pid: 1, tty: None }, ConsumerKey::parse("other@1").unwrap());
    let key = |text: &str| IdempotencyKey::parse(text).unwrap();
    let skip = |progress| skip_damaged(&other, progress, &damaged, "lost", operator.clone(), key("pass"));
    // Whoever looked at another moment is refused.
    let verdict = one(&mut store, &skip(3));
    assert!(matches!(verdict, Verdict::Refused(Refusal::Precondition { .. })), "{verdict:?}");
    committed(&mut store, &skip(0));
    assert_eq!(store.reader.progress(&other, &sound.source).unwrap(), 1);
    let shown = store.reader.showing_damage().event_at(1).unwrap().unwrap();
    let erased = redact(&shown, "lost", operator.clone(), key("erase")).unwrap().unwrap();
    committed(&mut store, &erased);
    assert_eq!(store.reader.damaged_behind(&types, &sound.source, 0).unwrap(), None);
    let its = |consumer: &ConsumerKey, event: &Event| *consumer == other && event.id == sound.id;
    let report = verify(&store.reader, VerifyOptions { matches: Some(&its), ..VerifyOptions::default() });
    assert!(report.as_ref().unwrap().ok, "{report:?}");
    let passed = Commit {
        rows: vec![Row::Pass {
            consumer: ConsumerKey::parse("third@1").unwrap(),
            source: sound.source,
            sequence: 1,
        }],
        ..Commit::default()
    };
    committed(&mut store, &passed);
    let third = |consumer: &ConsumerKey, _: &Event| consumer.id.as_str() == "third";
    let report = verify(&store.reader, VerifyOptions { matches: Some(&third), ..VerifyOptions::default() });
    assert_eq!(
        report.unwrap().findings[0].kind,
        FindingKind::Progress,
        "without a record it was passed over"
    );
}

#[test]
fn a_page_that_makes_redb_panic_is_damage_to_whoever_looks() {
    let (_disk, store) = fresh();
    let looked = store.reader.view(|_| -> Result<(), RowError> { panic!("a page is not what it says") });
    assert!(matches!(looked, Err(RowError::Damaged { .. })), "{looked:?}");
    assert_eq!(store.reader.last_position().unwrap(), 0, "the next look is like any other");
}
