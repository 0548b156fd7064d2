//! Every kind of damage is found, named by its first bad row, and nothing sound is called damaged.

use redb::{Database, ReadableTable, WriteTransaction};
use thoughtstream_domain::commit::{Document, Refusal, Row};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::DocumentId;
use thoughtstream_domain::payload::system::{Operator, Redacted};

use super::settlement::{complete, consumer, frame, with_notes};
use super::*;
use crate::seal;
use crate::sim::Loss;
use crate::tables::{Key, Table, key, position_key};
use crate::verify::{FindingKind, Head, Options as VerifyOptions, Report, verify};
use thoughtstream_domain::lifecycle::{Execution, FailurePolicy};
use thoughtstream_domain::retry::RetryPolicy;

pub(super) fn check(store: &Store) -> Report {
    verify(&store.reader, VerifyOptions::default()).unwrap()
}

/// A log with something of everything: derived events, closed, held and open executions, documents.
pub(super) fn rich() -> (SimDisk, Store) {
    let (disk, mut store, notes) = with_notes(6);
    let mut executions: Vec<Execution> =
        notes.iter().map(|event| Execution::fix(&frame(), std::slice::from_ref(event))).collect();
    for (index, execution) in executions.iter_mut().enumerate() {
        committed(&mut store, &execution.open(&frame(), index as u64));
    }
    for index in [0, 1, 4] {
        let commit = complete(&mut executions[index]);
        committed(&mut store, &commit);
    }
    let held = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let failed = executions[2].fail(&frame(), at(50), "provider", FailurePolicy::Retryable(held));
    committed(&mut store, &failed);
    let retry =
        executions[3].fail(&frame(), at(50), "provider", FailurePolicy::Retryable(RetryPolicy::default()));
    committed(&mut store, &retry);
    super::accounts::spend(&mut store);
    for (number, removed) in [(1, false), (2, true)] {
        committed(&mut store, &document(number, removed));
    }
    committed(&mut store, &append(vec![child("derived", vec![Parent::named(notes[0].id)])]));
    (disk, store)
}

fn document(number: u8, removed: bool) -> Commit {
    let bytes: Arc<[u8]> = vec![number; 100].into();
    let document = Document {
        source: source("filesystem:notes"),
        id: DocumentId::parse(&format!("doc_{number}")).unwrap(),
        revision: 1,
        path: format!("{number}.md"),
        sha256: Sha256Hash::of(&bytes),
        bytes: 100,
        content_type: "text/markdown".to_owned(),
        named: None,
        removed,
        stat: None,
    };
    let blob = Row::Blob { sha256: document.sha256, bytes: Content::new(bytes) };
    Commit { rows: vec![blob, Row::Document(document)], ..Commit::default() }
}

/// Changes rows behind the log's back.
pub(super) fn damage(store: &Store, change: impl FnOnce(&WriteTransaction)) {
    let database = store.reader.shared.database().unwrap();
    let database: &Database = &database;
    let tx = database.begin_write().unwrap();
    change(&tx);
    tx.commit().unwrap();
}

pub(super) fn change_row(store: &Store, table: Table, key: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
    damage(store, |tx| {
        let mut table = tx.open_table(table.definition()).unwrap();
        let mut row = table.get(key).unwrap().expect("the row to damage").value().to_vec();
        change(&mut row);
        table.insert(key, &row[..]).unwrap();
    });
}

/// Writes a row anew that says something else and has its seal.
pub(super) fn change_body(store: &Store, table: Table, key: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
    change_row(store, table, key, |row| {
        let mut body = seal::open(table, key, row).unwrap().to_vec();
        change(&mut body);
        *row = seal::close(table, key, &body);
    });
}

pub(super) fn remove_row(store: &Store, table: Table, key: &[u8]) {
    damage(store, |tx| {
        let removed = tx.open_table(table.definition()).unwrap().remove(key).unwrap().is_some();
        assert!(removed, "the row to remove");
    });
}

pub(super) fn first_key(store: &Store, table: Table) -> Vec<u8> {
    store.reader.view(|view| Ok(view.range(table, &[0], &[0xff; 64], 1)?.remove(0).0)).unwrap()
}

#[track_caller]
pub(super) fn expect(store: &Store, kind: FindingKind, place: &str) {
    let report = check(store);
    assert!(!report.ok);
    let first = &report.findings[0];
    assert!(
        first.kind == kind && first.place.contains(place),
        "{kind:?} at {place}, found {:?}",
        report.findings
    );
}

#[test]
fn a_sound_log_has_no_finding_and_a_head_that_survives_a_restart() {
    let (disk, store) = rich();
    let report = check(&store);
    assert!(report.ok, "{:?}", report.findings);
    assert_eq!((report.events, report.runs), (store.reader.last_position().unwrap(), 8));
    assert_eq!(Head::parse(&report.head.to_string()), Some(report.head));
    drop(store);
    let again = open(&disk.image(Loss::All)).unwrap();
    assert_eq!(check(&again).head, report.head);
    let (_, empty) = fresh();
    assert!(check(&empty).ok);
}

#[test]
fn a_log_extends_the_one_whose_head_was_kept() {
    let (_, mut store) = rich();
    let kept = check(&store).head;
    committed(&mut store, &append(vec![note("later", "x")]));
    let since =
        |since| verify(&store.reader, VerifyOptions { since: Some(since), ..Default::default() }).unwrap();
    assert!(since(kept).ok);
    let other = Head { position: kept.position - 1, ..kept };
    assert_eq!(since(other).findings[0].kind, FindingKind::NotAnExtension);
    let future = Head { position: kept.position + 100, ..kept };
    assert_eq!(since(future).findings[0].kind, FindingKind::NotAnExtension);
}

#[test]
fn a_payload_that_is_not_the_recorded_one_is_given_to_nobody_who_acts() {
    let (_, store) = rich();
    let reader = &store.reader;
    let sound = reader.event_at(3).unwrap().unwrap();
    change_row(&store, Table::Events, &position_key(3), |row| *row.last_mut().unwrap() ^= 0x1);
    let place = format!("events 3 ({} {})", sound.source, sound.sequence);
    let refused = |read: Result<Vec<Event>, crate::RowError>| match read {
        Err(crate::RowError::Damaged { place: found }) => assert_eq!(found, place),
        other => panic!("{other:?}"),
    };
    let one =
        |read: Result<Option<Event>, crate::RowError>| refused(read.map(|found| found.into_iter().collect()));
    one(reader.event_at(3));
    one(reader.event(&sound.id));
    one(reader.event_in(&sound.source, sound.sequence));
    one(reader.event_under(&sound.source, &sound.kind.name, &sound.key));
    // A page ends before it, and the next one says why.
    let positions = |page: Vec<Event>| page.iter().map(|event| event.position).collect::<Vec<_>>();
    assert_eq!(positions(reader.page_after(0, 10).unwrap()), [1, 2]);
    refused(reader.page_after(2, 10));
    refused(reader.backlog(std::slice::from_ref(&sound.kind.name), &sound.source, sound.sequence - 1, 10));
    refused(reader.source_page(&sound.source, sound.sequence - 1, 10));
    // Who shows it says that it is damaged, and shows nothing of it.
    let shown = reader.showing_damage().event_at(3).unwrap().unwrap();
    assert_eq!((&shown.payload, shown.payload_value()), (&Payload::Damaged, None));
    assert!(shown.payload_as::<Note>().is_err() && shown.to_json()["damaged"] == true);
    assert!(shown.to_json().get("redacted").is_none());
    assert!(
        reader.showing_damage().page_after(2, 1).unwrap() == [Event { payload: Payload::Damaged, ..sound }]
    );
}

#[test]
fn damage_to_an_event_is_named_by_kind_and_place() {
    // The record begins: version, flags, id (32), source, sequence, codes, time, depth.
    let flips: [(usize, FindingKind); 3] =
        [(0, FindingKind::Malformed), (5, FindingKind::Id), (35, FindingKind::Gap)];
    for (byte, kind) in flips {
        let (_, store) = rich();
        change_row(&store, Table::Events, &position_key(3), |row| row[byte] ^= 0x1);
        expect(&store, kind, "events 3");
    }
    let (_, store) = rich();
    change_row(&store, Table::Events, &position_key(3), |row| *row.last_mut().unwrap() ^= 0x1);
    expect(&store, FindingKind::Payload, "events 3");
    let (_, store) = rich();
    change_row(&store, Table::Events, &position_key(3), |row| {
        let chain = row.len() - "{\"text\":\"text\"}".len() - 1;
        row[chain] ^= 0x1;
    });
    expect(&store, FindingKind::Chain, "events 3");
    let (_, store) = rich();
    remove_row(&store, Table::Events, &position_key(3));
    expect(&store, FindingKind::Gap, "events 3");
}

#[test]
fn every_single_bit_of_a_record_is_covered() {
    let (_, store) = rich();
    let last = store.reader.last_position().unwrap();
    for position in [1, last] {
        let length =
            store.reader.view(|view| Ok(view.get(Table::Events, &position_key(position))?.unwrap().len()));
        for byte in 0..length.unwrap() {
            let bit = 1 << (byte % 8);
            change_row(&store, Table::Events, &position_key(position), |row| row[byte] ^= bit);
            assert!(!check(&store).ok, "byte {byte} of {position}");
            change_row(&store, Table::Events, &position_key(position), |row| row[byte] ^= bit);
        }
    }
    assert!(check(&store).ok);
}

#[test]
fn a_missing_row_in_any_index_is_found() {
    let tables = [
        Table::Sequences,
        Table::Keys,
        Table::Ids,
        Table::Types,
        Table::Children,
        Table::Heads,
        Table::Names,
        Table::Unsettled,
        Table::Open,
        Table::RunIds,
        Table::Claims,
        Table::Progress,
        Table::Executions,
        Table::Runs,
        Table::Definitions,
        Table::Paths,
        Table::Versions,
        Table::Blobs,
    ];
    for table in tables {
        let (_, store) = rich();
        remove_row(&store, table, &first_key(&store, table));
        assert!(!check(&store).ok, "{}", table.name());
    }
}

#[test]
fn a_surplus_row_in_any_index_is_found() {
    for table in
        [Table::Sequences, Table::Keys, Table::Ids, Table::Types, Table::Children, Table::Open, Table::Paths]
    {
        let (_, store) = rich();
        let key = key!(9_u32, 9_u64, 9_u32);
        damage(&store, |tx| {
            tx.open_table(table.definition()).unwrap().insert(&key[..], &[0; 8][..]).unwrap();
        });
        assert!(!check(&store).ok, "{}", table.name());
    }
}

#[test]
fn progress_must_be_exactly_where_the_closed_events_say() {
    let (_, store) = rich();
    let desk = source("notes:desk");
    assert_eq!(store.reader.progress(&consumer(), &desk).unwrap(), 2);
    for wrong in [0_u64, 1, 3, 400] {
        let (_, store) = rich();
        let key = first_key(&store, Table::Progress);
        change_body(&store, Table::Progress, &key, |body| *body = wrong.to_be_bytes().to_vec());
        let report = check(&store);
        let kinds: Vec<FindingKind> = report.findings.iter().map(|finding| finding.kind).collect();
        assert!(kinds.contains(&FindingKind::Progress), "{wrong}: {kinds:?}");
    }
}

#[test]
fn an_event_that_matches_and_was_passed_over_is_found() {
    let (_, mut store) = rich();
    let all = |_: &thoughtstream_domain::id::ConsumerKey, event: &thoughtstream_domain::event::Event| {
        event.key.as_str().starts_with('0')
    };
    let with = |store: &Store| {
        verify(&store.reader, VerifyOptions { matches: Some(&all), ..Default::default() }).unwrap()
    };
    let report = with(&store);
    assert!(report.ok && report.matched, "{:?}", report.findings);
    let other = thoughtstream_domain::id::ConsumerKey::parse("other@1").unwrap();
    let pass = Row::Pass { consumer: other, source: source("notes:desk"), sequence: 1 };
    committed(&mut store, &Commit { rows: vec![pass], ..Commit::default() });
    let report = with(&store);
    assert_eq!(report.findings[0].kind, FindingKind::Progress);
    assert!(report.findings[0].place.contains("other@1 notes:desk"));
}

#[test]
fn an_erased_payload_needs_a_recorded_redaction() {
    let (_, mut store) = rich();
    let event = store.reader.event_at(1).unwrap().unwrap();
    let operator = Operator { uid: 1, pid: 1, tty: None };
    let payload = Redacted { event: event.id, reason: "asked to".to_owned(), operator };
    let recorded = payload.candidate(envelope("system:decisions", "redact-1"));
    let commit = Commit { rows: vec![Row::Redact(event.id)], ..append(vec![recorded]) };
    committed(&mut store, &commit);
    assert!(check(&store).ok);
    let silent = store.reader.event_at(2).unwrap().unwrap().id;
    let names = &store.reader.shared.names;
    change_row(&store, Table::Events, &position_key(2), |row| {
        *row = crate::record::redact(row, names).unwrap();
    });
    let report = check(&store);
    assert_eq!(report.findings[0].kind, FindingKind::Redaction);
    assert_eq!(report.findings[0].place, silent.to_string());
}

#[test]
fn findings_are_bounded_and_the_rest_is_counted() {
    let (_, mut store) = fresh();
    for number in 0..150 {
        committed(&mut store, &append(vec![note(&format!("{number:04}"), "x")]));
    }
    for position in 1..=150 {
        change_row(&store, Table::Events, &position_key(position), |row| *row.last_mut().unwrap() ^= 1);
    }
    let report = check(&store);
    assert_eq!((report.findings.len(), report.unlisted), (100, 50));
    assert_eq!(report.findings[0].place, "events 1");
}

#[test]
fn content_that_rotted_is_found() {
    let (_, store) = rich();
    let key = first_key(&store, Table::Blobs);
    change_row(&store, Table::Blobs, &key, |row| row[7] ^= 0x40);
    expect(&store, FindingKind::Blob, "blobs");
}

#[test]
fn a_damaged_row_stops_what_needs_it_and_nothing_else() {
    let (_, mut store) = fresh();
    let placed = committed(&mut store, &append(vec![note("a", "1")]))[0];
    for number in 2..10 {
        committed(&mut store, &append(vec![note(&number.to_string(), "x")]));
    }
    store.writer.reopen().unwrap();
    change_row(&store, Table::Events, &position_key(1), |row| row.truncate(20));
    let child = child("c", vec![Parent { id: placed.id, position: Some(1) }]);
    let group = [append(vec![note("good", "2")]), append(vec![child]), append(vec![note("better", "3")])];
    let verdicts = store.writer.apply(&group, at(1)).unwrap();
    let refused = Refusal::Damaged { place: "events 1".to_owned() };
    assert_eq!(verdicts[1], Verdict::Refused(refused));
    assert_eq!(verdicts[2].placed().unwrap()[0].position, 11);
    // So does a damaged row that was only to be changed.
    let head = store.reader.shared.names.number(crate::names::NameKind::Source, "notes:desk").unwrap();
    store.writer.reopen().unwrap();
    change_row(&store, Table::Heads, &key!(head), |row| row.truncate(3));
    let other = append(vec![note_in(envelope("notes:bed", "first"), "5")]);
    let verdicts = store.writer.apply(&[append(vec![note("last", "4")]), other], at(1)).unwrap();
    let refused = Refusal::Damaged { place: "heads notes:desk".to_owned() };
    assert_eq!(verdicts[0], Verdict::Refused(refused));
    assert_eq!(verdicts[1].placed().unwrap()[0].position, 12);
    assert!(!store.writer.has_failed());
}

#[test]
fn projections_built_again_are_the_ones_that_were_dropped() {
    let (_, mut store) = rich();
    for (number, removed) in [(3, false), (4, false)] {
        committed(&mut store, &document(number, removed));
    }
    let gone = thoughtstream_domain::payload::file::FileRemoved {
        document_id: DocumentId::parse("doc_4").unwrap(),
        revision: 2,
        path: "4.md".to_owned(),
        previous_sha256: Sha256Hash::of(&[4; 100]),
    };
    let mut removal = document(4, true);
    for row in &mut removal.rows {
        if let Row::Document(document) = row {
            document.revision = 2;
        }
    }
    removal.appends = vec![gone.candidate(envelope("filesystem:notes", "doc_4@2"))];
    committed(&mut store, &removal);
    let all = |store: &Store| -> Vec<(Table, Vec<crate::rows::Pair>)> {
        let rows = |table| store.reader.view(|view| view.range(table, &[], &[0xff; 64], usize::MAX)).unwrap();
        Table::ALL
            .into_iter()
            .filter(|table| *table != Table::Meta)
            .map(|table| (table, rows(table)))
            .collect()
    };
    // The second document was removed from the start, without event or version: nothing to derive it from.
    let key = key!(
        store.reader.shared.names.number(crate::names::NameKind::Source, "filesystem:notes").unwrap(),
        "doc_2"
    );
    remove_row(&store, Table::Documents, &key);
    let before = all(&store);
    store.writer.rebuild_projections().unwrap();
    for ((table, before), (_, after)) in before.iter().zip(&all(&store)) {
        assert_eq!(before, after, "{}", table.name());
    }
    for table in [Table::Ids, Table::Paths, Table::Open, Table::Heads, Table::Tallies, Table::Leases] {
        remove_row(&store, table, &first_key(&store, table));
    }
    store.writer.rebuild_projections().unwrap();
    assert!(all(&store) == before);
    assert!(check(&store).ok);
}

#[test]
fn rotten_pages_are_an_error_or_a_finding_and_never_a_smaller_log() {
    let (disk, mut store) = rich();
    for number in 0..60 {
        committed(&mut store, &append(vec![note(&format!("more-{number}"), &"y".repeat(900))]));
    }
    let head = check(&store).head;
    drop(store);
    let good = disk.bytes("log.redb").unwrap();
    let mut dice = crate::sim::Dice::new(17);
    let (mut errors, mut findings, mut untouched) = (0, 0, 0);
    for round in 0..60 {
        let mut bad = good.clone();
        let page = usize::try_from(dice.below(good.len() as u64 / 4096)).unwrap() * 4096;
        match round % 3 {
            0 => bad[page..page + 4096].fill(0),
            1 => bad[page..page + 4096].iter_mut().for_each(|byte| *byte = dice.roll().to_le_bytes()[0]),
            _ => bad[page + usize::try_from(dice.below(4096)).unwrap()] ^= 0x20,
        }
        let image = disk.image(Loss::None);
        image.set_bytes("log.redb", bad);
        match open(&image) {
            Err(_) => errors += 1,
            Ok(store) => {
                let report = verify(&store.reader, VerifyOptions::default());
                match report {
                    Err(_) => errors += 1,
                    Ok(report) if !report.ok => findings += 1,
                    Ok(report) => {
                        assert_eq!(report.head, head, "round {round}, page {page}");
                        untouched += 1;
                    }
                }
            }
        }
    }
    assert!(findings > 0 && untouched > 0, "{errors} {findings} {untouched}");
}

#[test]
fn a_log_whose_names_and_numbers_are_not_each_others_inverse_is_looked_at_and_never_written() {
    // A number that names another source, a name with another number, and one that is only there on one side.
    let source = || key!(0_u8, 1_u32);
    let name = || key!(0_u8, "notes:desk");
    type Change = fn(&mut Vec<u8>);
    let cases: [(Table, Key, Change); 2] = [
        (Table::Numbers, source(), |text| *text.last_mut().unwrap() ^= 1),
        (Table::Names, name(), |number| *number.last_mut().unwrap() ^= 2),
    ];
    for (table, key, change) in cases {
        let (disk, mut store) = fresh();
        committed(&mut store, &append(vec![note("a", "one"), note_in(envelope("notes:bed", "b"), "two")]));
        store.writer.checkpoint().unwrap();
        change_row(&store, table, &key, change);
        store.writer.close().unwrap();
        drop(store);
        let before: Vec<_> = disk.names().unwrap().iter().map(|name| disk.bytes(name)).collect();
        let Err(OpenError::Damaged { what, .. }) = open(&disk) else { panic!("{table:?}: it was opened") };
        assert!(what.starts_with("numbers ") && what.contains("does not lead back"), "{what}");
        let after: Vec<_> = disk.names().unwrap().iter().map(|name| disk.bytes(name)).collect();
        assert!(before == after, "what is refused stays as it was found");
        let reader = Store::open_to_read_on(&disk, options()).unwrap();
        let report = verify(&reader, VerifyOptions::default()).unwrap();
        assert!(report.findings.iter().any(|finding| finding.place.starts_with("numbers ")), "{report:?}");
    }
}
