//! Rows that nothing else proves: a rotten one is given to nobody who acts, and those of format 1 are read and raised.

use redb::{ReadableDatabase as _, ReadableTable as _};
use thoughtstream_domain::accounting::Measured;
use thoughtstream_domain::commit::{Control, ExecutionKey, Refusal, Registered, Row};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, DocumentId};
use thoughtstream_domain::lifecycle::{Execution, Frame};

use super::crash::{Answered, check_image, points, seed};
use super::settlement::{consumer, frame};
use super::verification::{change_row, check, damage, rich};
use super::*;
use crate::backup::{back_up, open_backup, restore};
use crate::export::export;
use crate::seal::UNSEALED;
use crate::sim::{Dice, Loss};
use crate::store::{FORMAT, FORMAT_FILE};
use crate::tables::Table;
use crate::verify::FindingKind;
use crate::{Reader, RowError, place};

/// Every table whose rows are sealed.
const SEALED: [Table; 11] = [
    Table::Heads,
    Table::Progress,
    Table::Claims,
    Table::Executions,
    Table::Runs,
    Table::Controls,
    Table::Declarations,
    Table::Documents,
    Table::Versions,
    Table::Entries,
    Table::Tallies,
];

/// A log with a row in every table.
fn full() -> (SimDisk, Store) {
    let (disk, mut store) = rich();
    let control =
        Control { paused_since: Some(at(9)), pause_reason: Some("a rest".to_owned()), ..Control::default() };
    let registered = Registered {
        consumer: consumer(),
        fingerprint: Sha256Hash::of(b"declaration"),
        canonical: "{}".to_owned(),
        position: 0,
        at: at(1),
    };
    let rows = vec![Row::Control(consumer().id, control), Row::Declaration(registered)];
    committed(&mut store, &Commit { rows, ..Commit::default() });
    (disk, store)
}

/// All rows of a table as they are stored.
fn stored(reader: &Reader, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = reader.view(|view| {
        let opened = view.table(table)?;
        let rows = opened.iter().map_err(RowError::storage)?;
        Ok(rows
            .map(|row| row.map(|(key, row)| (key.value().to_vec(), row.value().to_vec())).unwrap())
            .collect())
    });
    rows.unwrap()
}

fn is_sealed(row: &[u8]) -> bool {
    row.starts_with(&[0x80, 0])
}

/// Returns a row that a few looks lead to: the first of its table, and of the sums the one over all times.
fn sample(store: &Store, table: Table) -> (Vec<u8>, Vec<u8>) {
    let mut rows = stored(&store.reader, table);
    if table == Table::Tallies { rows.pop().unwrap() } else { rows.remove(0) }
}

/// Looks in every way that leads to the sample of a table.
fn looks(reader: &Reader, table: Table) -> Vec<(&'static str, Result<(), RowError>)> {
    let (desk, folder, links) = (source("notes:desk"), source("filesystem:notes"), consumer());
    let asks = ConsumerId::parse("asks").unwrap();
    let first = DocumentId::parse("doc_1").unwrap();
    let event = || reader.event_in(&desk, 3).unwrap().unwrap();
    let execution = ExecutionKey { consumer: links.clone(), position: 1 };
    let run =
        || reader.attempts(&ExecutionKey { consumer: ConsumerKey::parse("asks@1").unwrap(), position: 1 });
    macro_rules! look {
        ($($look:expr),+ $(,)?) => { vec![$((stringify!($look), $look.map(drop))),+] };
    }
    match table {
        Table::Heads => look![reader.heads(), reader.sources()],
        Table::Progress => {
            look![
                reader.progress(&links, &desk),
                reader.progress_row(&links, &desk),
                reader.progress_all(&links)
            ]
        }
        Table::Claims => look![reader.claims(&links, &desk, 10), reader.execution_of(&links, &event())],
        Table::Executions => look![reader.execution(&execution), reader.executions_before(&links, None, 10)],
        Table::Runs => look![reader.attempts(&execution), reader.runs_before(&links, None, 10)],
        Table::Controls => {
            look![reader.control(&links.id), reader.controls().and_then(|mut all| all.remove(0).1)]
        }
        Table::Declarations => look![reader.registered(&links), reader.registered_all()],
        Table::Documents => look![
            reader.document(&folder, &first),
            reader.documents(&folder, None, 10),
            reader.document_at(&folder, "1.md"),
        ],
        Table::Versions => look![reader.version(&folder, &first, 1)],
        Table::Entries => look![reader.entry(&run().unwrap()[0]), reader.account(&asks, &[at(1)], None)],
        Table::Tallies => look![reader.account(&asks, &[at(0)], None)],
        Table::Meta
        | Table::Events
        | Table::Sequences
        | Table::Keys
        | Table::Ids
        | Table::Types
        | Table::Children
        | Table::Names
        | Table::Numbers
        | Table::Unsettled
        | Table::Open
        | Table::RunIds
        | Table::Definitions
        | Table::Paths
        | Table::Blobs
        | Table::Leases
        | Table::Correlated => panic!("{} has no seals", table.name()),
    }
}

#[test]
fn a_row_of_which_any_byte_is_another_is_damage_to_everyone_who_needs_it() {
    let (_, store) = full();
    assert!(check(&store).ok, "{:?}", check(&store).findings);
    for table in SEALED {
        let (key, row) = sample(&store, table);
        assert!(is_sealed(&row), "{}", table.name());
        let place = place::of(table, &key, &store.reader.shared.names);
        let asked = |byte: usize, to: u8| {
            change_row(&store, table, &key, |row| row[byte] = to);
            for (look, found) in looks(&store.reader, table) {
                match found {
                    Err(RowError::Damaged { place: found }) => {
                        // What rot leaves of a mark is named by whoever reads the form.
                        assert!(byte < 2 || found == place, "{look}: {found}, not {place}");
                    }
                    other => panic!("{look}: byte {byte} of {place} is {to}: {other:?}"),
                }
            }
        };
        for (look, found) in looks(&store.reader, table) {
            found.unwrap_or_else(|error| panic!("{look}: {error:?}"));
        }
        for byte in 0..row.len() {
            let all: Vec<u8> = match byte {
                0 | 1 => (0..=u8::MAX).collect(),
                _ => vec![row[byte] ^ (1 << (byte % 8)), row[byte].wrapping_add(0x35), !row[byte]],
            };
            all.into_iter().filter(|to| *to != row[byte]).for_each(|to| asked(byte, to));
            change_row(&store, table, &key, |stored| stored.clone_from(&row));
        }
    }
    assert!(check(&store).ok);
}

#[test]
fn verify_names_a_rotten_row_once_and_nothing_that_follows_from_it() {
    for table in SEALED {
        let (_, store) = full();
        let (key, _) = sample(&store, table);
        change_row(&store, table, &key, |row| {
            let middle = row.len() / 2;
            row[middle] ^= 4;
        });
        let report = check(&store);
        let place = place::of(table, &key, &store.reader.shared.names);
        let found: Vec<_> =
            report.findings.iter().map(|finding| (finding.kind, finding.place.clone())).collect();
        assert_eq!(found, [(FindingKind::Seal, place)], "{:?}", report.findings);
        // A row that stands under another's key is as rotten.
        let (_, store) = full();
        let others = stored(&store.reader, table).into_iter().find(|(other, _)| *other != key);
        if let Some((_, other)) = others {
            change_row(&store, table, &key, |row| *row = other);
            assert_eq!(check(&store).findings[0].kind, FindingKind::Seal, "{}", table.name());
        }
    }
}

#[test]
fn a_rotten_row_that_is_made_from_others_is_made_again() {
    for table in [Table::Heads, Table::Documents, Table::Tallies] {
        let (_, mut store) = full();
        let (key, sound) = sample(&store, table);
        change_row(&store, table, &key, |row| row[5] ^= 1);
        store.writer.rebuild_projections().unwrap();
        assert!(stored(&store.reader, table).contains(&(key, sound)), "{}", table.name());
        assert!(check(&store).ok, "{:?}", check(&store).findings);
    }
}

#[test]
fn a_rotten_row_keeps_out_what_needs_it_and_the_rest_of_a_group_goes_on() {
    let pass = |sequence| {
        let row = Row::Pass { consumer: consumer(), source: source("notes:desk"), sequence };
        Commit { rows: vec![row], ..Commit::default() }
    };
    let removal = || {
        let (_, store) = full();
        let document =
            store.reader.document(&source("filesystem:notes"), &DocumentId::parse("doc_1").unwrap());
        let mut document = document.unwrap().unwrap();
        (document.revision, document.removed) = (2, true);
        Commit { rows: vec![Row::Document(document)], ..Commit::default() }
    };
    let desk = source("notes:desk");
    let held = |store: &Store| store.reader.unsettled(&consumer(), 0, 10).unwrap().remove(0);
    let rows = |rows| Commit { rows, ..Commit::default() };
    // What an attempt is charged changes the sums, which no precondition asks for then.
    let charged = |store: &Store| {
        let asking = Frame { consumer: ConsumerKey::parse("asks@1").unwrap(), now: at(90), ..frame() };
        let mut execution = store.reader.unsettled(&asking.consumer, 0, 10).unwrap().remove(0);
        let run = store.reader.attempts(&execution.key()).unwrap().remove(0);
        let reservation = store.reader.entry(&run).unwrap().unwrap().reservation;
        let charge = reservation.charge(&Measured::default());
        execution.complete(&asking, (reservation, charge), &REGISTRY, Vec::new()).unwrap()
    };
    type Needs<'a> = Box<dyn Fn(&Store) -> Commit + 'a>;
    let cases: [(Table, Needs<'_>); 8] = [
        (Table::Heads, Box::new(|_| append(vec![note("needs", "x")]))),
        (Table::Progress, Box::new(|_| pass(9))),
        (Table::Claims, Box::new(|_| pass(9))),
        (Table::Documents, Box::new(|_| removal())),
        (Table::Executions, Box::new(|store| rows(vec![Row::Execution(held(store))]))),
        (
            Table::Runs,
            Box::new(|store| {
                let run = store.reader.attempts(&held(store).key()).unwrap().remove(0);
                rows(vec![Row::Run(run)])
            }),
        ),
        (
            Table::Controls,
            Box::new(|store| {
                let event = store.reader.event_in(&desk, 7).unwrap().unwrap();
                Execution::fix(&frame(), &[event]).open(&frame(), 6)
            }),
        ),
        (Table::Tallies, Box::new(charged)),
    ];
    for (table, needs) in cases {
        let (_, mut store) = full();
        let needs = needs(&store);
        store.writer.reopen().unwrap();
        let mut places = Vec::new();
        let mut rows = stored(&store.reader, table);
        if table == Table::Tallies {
            // Whether there is an account is asked of the first.
            drop(rows.drain(..rows.len() - 1));
        }
        for (key, _) in rows {
            change_row(&store, table, &key, |row| *row.last_mut().unwrap() ^= 1);
            places.push(place::of(table, &key, &store.reader.shared.names));
        }
        let other = append(vec![note_in(envelope("notes:bed", "first"), "5")]);
        let verdicts = store.writer.apply(&[needs, other], at(1)).unwrap();
        let Verdict::Refused(Refusal::Damaged { place }) = &verdicts[0] else {
            panic!("{table:?}: {verdicts:?}")
        };
        assert!(places.contains(place), "{place}, not {places:?}");
        assert!(matches!(verdicts[1], Verdict::Committed(_)), "{table:?}: {verdicts:?}");
        assert!(!store.writer.has_failed());
    }
}

/// Does something as a program of format 1 did it.
fn as_before<T>(act: impl FnOnce() -> T) -> T {
    UNSEALED.set(true);
    let done = act();
    UNSEALED.set(false);
    done
}

/// Lets a log and its format file say that they are of format 1.
fn mark_as_before(disk: &SimDisk, store: &Store) {
    damage(store, |tx| {
        tx.open_table(Table::Meta.definition())
            .unwrap()
            .insert(&b"format"[..], &1_u64.to_be_bytes()[..])
            .unwrap();
    });
    disk.set_bytes(FORMAT_FILE, b"thoughtstream store\nformat 1\n".to_vec());
}

/// A store of format 1, with groups that only its journal holds.
fn old() -> SimDisk {
    as_before(|| {
        let (disk, mut store) = full();
        mark_as_before(&disk, &store);
        store.writer.checkpoint().unwrap();
        let mut pause = Control { paused_since: Some(at(10)), ..Control::default() };
        committed(
            &mut store,
            &Commit {
                rows: vec![Row::Control(ConsumerId::parse("asks").unwrap(), pause.clone())],
                ..append(vec![note("only-in-the-journal", "x")])
            },
        );
        pause.paused_since = None;
        committed(
            &mut store,
            &Commit {
                rows: vec![Row::Control(consumer().id, pause)],
                ..append(vec![note("and-another", "x")])
            },
        );
        disk.image(Loss::None)
    })
}

fn format_of(disk: &SimDisk) -> String {
    String::from_utf8(disk.bytes(FORMAT_FILE).unwrap()).unwrap()
}

fn files(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    disk.names().unwrap().into_iter().map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

/// Says how many rows of a log have a seal, and how many have none.
fn counted(reader: &Reader) -> (usize, usize) {
    let rows: Vec<_> = SEALED.into_iter().flat_map(|table| stored(reader, table)).collect();
    let sealed = rows.iter().filter(|(_, row)| is_sealed(row)).count();
    (sealed, rows.len() - sealed)
}

#[test]
fn a_store_of_format_1_is_read_as_it_is_and_raised_when_it_is_opened_to_be_written() {
    let disk = old();
    let before = files(&disk);
    let reader = Store::open_to_read_on(&disk, options()).unwrap();
    assert_eq!(counted(&reader).0, 0);
    assert!(!reader.control(&consumer().id).unwrap().unwrap().is_paused());
    assert!(reader.control(&ConsumerId::parse("asks").unwrap()).unwrap().unwrap().is_paused());
    for table in SEALED {
        for (look, found) in looks(&reader, table) {
            found.unwrap_or_else(|error| panic!("{look}: {error:?}"));
        }
    }
    drop(reader);
    assert!(files(&disk) == before, "reading changes nothing");
    let mut store = open(&disk).unwrap();
    assert_eq!(format_of(&disk), "thoughtstream store\nformat 2\n");
    let format = store.reader.view(|view| view.get(Table::Meta, b"format")).unwrap();
    assert_eq!(format, Some(u64::from(FORMAT).to_be_bytes().to_vec()));
    assert_eq!(counted(&store.reader).0, 0, "what the journal held is replayed as it is");
    assert!(check(&store).ok, "{:?}", check(&store).findings);
    committed(&mut store, &append(vec![note("of-today", "x")]));
    let (sealed, unsealed) = counted(&store.reader);
    assert!(sealed == 1 && unsealed > 20, "{sealed} {unsealed}");
    assert!(check(&store).ok);
    // What is derived is sealed when it is built again.
    store.writer.rebuild_projections().unwrap();
    assert!(stored(&store.reader, Table::Documents).iter().all(|(_, row)| is_sealed(row)));
    assert!(check(&store).ok);
}

#[test]
fn no_power_cut_while_a_store_is_raised_lets_an_earlier_program_meet_a_sealed_row() {
    let disk = old();
    disk.record();
    let mut history = Vec::new();
    let mut store = open(&disk).unwrap();
    for number in 0..6 {
        let pass = Row::Pass { consumer: consumer(), source: source("notes:bed"), sequence: number };
        let note = note_in(envelope("notes:bed", &format!("{number}")), "x");
        let group = vec![Commit { rows: vec![pass], ..append(vec![note]) }];
        let verdicts = store.writer.apply(&group, at(100)).unwrap();
        history.push(Answered { operations: disk.operations(), group, verdicts });
        if number % 2 == 1 {
            store.writer.checkpoint().unwrap();
        }
    }
    let mut recording = disk.recorded().unwrap();
    let mut dice = Dice::new(seed());
    let (mut before, mut behind) = (0, 0);
    // Everything up to the first sealed rows, and samples of what comes behind them.
    let step = (recording.len() as u64 / points().max(1)).max(1);
    loop {
        let sample = recording.number() <= history[0].operations || recording.number().is_multiple_of(step);
        let losses = [Loss::All, Loss::None, Loss::Seeded(dice.roll())];
        for loss in losses.into_iter().filter(|_| sample) {
            let image = recording.image(loss);
            let context = format!("after operation {}, {loss:?}", recording.number());
            let reader = Store::open_to_read_on(&image, options())
                .unwrap_or_else(|error| panic!("{context}: {error:?}"));
            let sealed = counted(&reader).0;
            drop(reader);
            match format_of(&image).as_str() {
                "thoughtstream store\nformat 1\n" => {
                    assert_eq!(sealed, 0, "{context}");
                    before += 1;
                }
                "thoughtstream store\nformat 2\n" => behind += 1,
                other => panic!("{context}: {other}"),
            }
            check_image(&image, &history, recording.number(), &context);
        }
        if !recording.advance() {
            break;
        }
    }
    assert!(before > 0 && behind > 0, "{before} {behind}");
}

#[test]
fn a_backup_of_format_1_is_restored_and_a_newer_one_says_that_it_is_newer() {
    let root = tempfile::tempdir().unwrap();
    let (backup, directory) = (root.path().join("backup"), root.path().join("store"));
    let (_, store) = as_before(full);
    as_before(|| back_up(&store.reader, &backup, &mut |_, _| ())).unwrap();
    let says = |format: u64| {
        let database = redb::Database::open(&backup).unwrap();
        let tx = database.begin_write().unwrap();
        tx.open_table(Table::Meta.definition())
            .unwrap()
            .insert(&b"format"[..], &format.to_be_bytes()[..])
            .unwrap();
        tx.commit().unwrap();
    };
    says(1);
    assert_eq!(counted(&open_backup(&backup).unwrap()).0, 0);
    restore(&backup, &directory, [9; 16], at(77), options()).unwrap();
    assert_eq!(
        std::fs::read_to_string(directory.join(FORMAT_FILE)).unwrap(),
        "thoughtstream store\nformat 2\n"
    );
    let restored = Store::open(&directory, options()).unwrap();
    assert!(restored.reader.control(&consumer().id).unwrap().unwrap().is_paused());
    assert!(check(&restored).ok);
    drop(restored);
    std::fs::remove_file(&backup).unwrap();
    // A backup of today has sealed rows and says so.
    back_up(&store.reader, &backup, &mut |_, _| ()).unwrap();
    let database = redb::Database::open(&backup).unwrap();
    let meta = database.begin_read().unwrap().open_table(Table::Meta.definition()).unwrap();
    assert_eq!(meta.get(&b"format"[..]).unwrap().unwrap().value(), u64::from(FORMAT).to_be_bytes());
    drop((meta, database));
    says(u64::from(FORMAT) + 1);
    assert!(matches!(open_backup(&backup), Err(OpenError::NewerFormat { found: 3, .. })));
}

#[test]
fn an_export_says_the_same_of_both_formats() {
    let lines = |store: &Store| {
        let mut lines = Vec::new();
        export(&store.reader, &mut lines, &mut |_, _| ()).unwrap();
        String::from_utf8(lines).unwrap()
    };
    let (before, now) = (lines(&as_before(full).1), lines(&full().1));
    assert!(before == now);
    // An earlier program refuses a header that names a format which it does not know.
    assert!(
        now.starts_with(r#"{"line":"header","version":1,"format":1}"#),
        "{}",
        now.lines().next().unwrap()
    );
}
