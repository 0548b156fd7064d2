//! Backup, restore, export and import.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::settlement::consumer;
use super::verification::{check, rich};
use super::*;
use crate::backup::{BackupError, RestoreError, back_up, first_above_public, open_backup, restore};
use crate::disk::DiskError;
use crate::export::{ImportError, export, import};
use crate::verify::{Options as VerifyOptions, Report, verify};

struct Place {
    _root: tempfile::TempDir,
    backup: PathBuf,
    directory: PathBuf,
}

fn place() -> Place {
    let root = tempfile::tempdir().unwrap();
    Place { backup: root.path().join("backup"), directory: root.path().join("store"), _root: root }
}

fn verify_file(path: &std::path::Path) -> Result<Report, OpenError> {
    Ok(verify(&open_backup(path)?, VerifyOptions::default()).unwrap())
}

#[test]
fn a_backup_is_private_verifies_and_reading_it_changes_nothing() {
    let (_, store) = rich();
    let place = place();
    let report = back_up(&store.reader, &place.backup, &mut |_, _| ()).unwrap();
    assert_eq!(report.head, check(&store).head);
    assert_eq!(report.runs, 8);
    assert_eq!(fs::metadata(&place.backup).unwrap().permissions().mode() & 0o7777, 0o600);
    let before = fs::read(&place.backup).unwrap();
    assert!(verify_file(&place.backup).unwrap().ok);
    assert!(fs::read(&place.backup).unwrap() == before);
    let again = back_up(&store.reader, &place.backup, &mut |_, _| ());
    assert!(matches!(again, Err(BackupError::Target(DiskError::Exists { .. }))));
    assert!(fs::read(&place.backup).unwrap() == before, "a backup never overwrites");
}

#[test]
fn a_damaged_backup_is_an_error_and_never_an_empty_log() {
    let (_, store) = rich();
    let place = place();
    back_up(&store.reader, &place.backup, &mut |_, _| ()).unwrap();
    let good = fs::read(&place.backup).unwrap();
    let mut headless = good.clone();
    headless[..4096].fill(0xee);
    for bad in [headless, good[..good.len() / 3].to_vec(), Vec::new(), b"text".to_vec()] {
        fs::write(&place.backup, &bad).unwrap();
        verify_file(&place.backup).unwrap_err();
        assert!(fs::read(&place.backup).unwrap() == bad);
        let restored = restore(&place.backup, &place.directory, MARK, at(1), options());
        assert!(matches!(restored, Err(RestoreError::Backup(_))));
        assert!(!place.directory.exists());
    }
    let mut payload = good;
    let found = payload.windows(15).position(|window| window == b"{\"text\":\"text\"}").unwrap();
    payload[found + 10] ^= 1;
    fs::write(&place.backup, &payload).unwrap();
    if let Ok(report) = verify_file(&place.backup) {
        assert!(!report.ok);
        let restored = restore(&place.backup, &place.directory, MARK, at(1), options());
        assert!(matches!(restored, Err(RestoreError::NotSound(_))));
    }
}

#[test]
fn an_interrupted_backup_is_not_one() {
    let place = place();
    let file = crate::disk::create_file(&place.backup).unwrap();
    let backend = crate::disk::Backend(Box::new(crate::disk::RealFile::new(file)));
    let database = crate::store::open_backend(backend, 1 << 20).unwrap();
    let tx = database.begin_write().unwrap();
    tx.open_table(crate::tables::Table::Events.definition()).unwrap();
    tx.commit().unwrap();
    drop(database);
    assert!(matches!(verify_file(&place.backup), Err(OpenError::Damaged { .. })));
}

#[test]
fn a_restored_store_is_another_one_with_everyone_paused() {
    let (_, store) = rich();
    let place = place();
    back_up(&store.reader, &place.backup, &mut |_, _| ()).unwrap();
    let report = restore(&place.backup, &place.directory, [9; 16], at(77), options()).unwrap();
    let mut restored = Store::open(&place.directory, options()).unwrap();
    restored.writer.set_types(REGISTRY.hashes()).unwrap();
    assert_eq!(check(&restored).head, report.head);
    let control = restored.reader.control(&consumer().id).unwrap().unwrap();
    assert_eq!(control.paused_since, Some(at(77)));
    committed(&mut restored, &append(vec![note("after", "x")]));
    assert!(check(&restored).ok);
    drop(restored);
    let again = restore(&place.backup, &place.directory, MARK, at(1), options());
    assert!(matches!(again, Err(RestoreError::Create(crate::CreateError::Exists { .. }))));
}

#[test]
fn a_log_made_from_a_copy_says_up_to_where_it_is_one() {
    let (_, mut store) = rich();
    // What a dispatcher has looked at is no consumer's, and no person's to resume.
    let dispatcher = thoughtstream_domain::dispatch::dispatcher_progress(&source("telegram:garden"));
    let looked = thoughtstream_domain::commit::Row::SetProgress {
        consumer: dispatcher.clone(),
        source: source("notes:desk"),
        sequence: 1,
    };
    committed(&mut store, &Commit { rows: vec![looked], ..Commit::default() });
    let position = store.reader.last_position().unwrap();
    assert_eq!(store.reader.copied_through().unwrap(), 0);
    let place = place();
    back_up(&store.reader, &place.backup, &mut |_, _| ()).unwrap();
    restore(&place.backup, &place.directory, [9; 16], at(77), options()).unwrap();
    let mut lines = Vec::new();
    export(&store.reader, &mut lines, &mut |_, _| ()).unwrap();
    let imported = place.directory.with_extension("imported");
    import(&mut &lines[..], &imported, [8; 16], at(77), options()).unwrap();
    for directory in [&place.directory, &imported] {
        let mut made = Store::open(directory, options()).unwrap();
        made.writer.set_types(REGISTRY.hashes()).unwrap();
        committed(&mut made, &append(vec![note("after", "x")]));
        drop(made);
        let made = Store::open(directory, options()).unwrap();
        assert_eq!(made.reader.copied_through().unwrap(), position);
        assert!(made.reader.control(&consumer().id).unwrap().unwrap().is_paused());
        assert_eq!(made.reader.control(&dispatcher.id).unwrap(), None);
    }
}

#[test]
fn a_backup_taken_while_the_log_grows_is_the_log_at_one_moment() {
    let (_, mut store) = fresh();
    for number in 0..600 {
        committed(&mut store, &append(vec![note(&format!("{number:05}"), &format!("said-{number}-so"))]));
    }
    let place = place();
    let reader = store.reader.clone();
    let mut calls = 0;
    let report = back_up(&reader, &place.backup, &mut |_, _| {
        calls += 1;
        if calls < 3 {
            let target = store.reader.event_at(5).unwrap().unwrap().id;
            let operator = thoughtstream_domain::payload::system::Operator { uid: 1, pid: 1, tty: None };
            let payload = thoughtstream_domain::payload::system::Redacted {
                event: target,
                reason: "asked to".to_owned(),
                operator,
            };
            let key = format!("redact-{calls}");
            let recorded = payload.candidate(envelope("system:decisions", &key));
            let rows = vec![thoughtstream_domain::commit::Row::Redact(target)];
            committed(&mut store, &Commit { rows, ..append(vec![recorded]) });
        }
    });
    let report = report.unwrap();
    assert!(calls >= 2);
    assert_eq!(report.events, 602);
    let copied = open_backup(&place.backup).unwrap();
    let event = copied.event_at(5).unwrap().unwrap();
    assert_eq!(event.payload, thoughtstream_domain::event::Payload::Redacted, "also in a page copied before");
    let bytes = fs::read(&place.backup).unwrap();
    let says = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(says(b"said-6-so") && !says(b"said-4-so"), "not even in an unused part of the copy");
}

#[test]
fn a_backup_gives_up_where_payloads_are_erased_all_the_time() {
    let (_, mut store) = fresh();
    for number in 0..300 {
        committed(&mut store, &append(vec![note(&format!("{number:05}"), "x")]));
    }
    let (place, reader) = (place(), store.reader.clone());
    let mut calls = 0;
    let given_up = back_up(&reader, &place.backup, &mut |_, _| {
        calls += 1;
        let target = reader.event_at(calls).unwrap().unwrap();
        let operator = thoughtstream_domain::payload::system::Operator { uid: 1, pid: 1, tty: None };
        let key = IdempotencyKey::parse(&format!("redact-{calls}")).unwrap();
        let commit = thoughtstream_domain::operate::redact(&target, "asked to", operator, key);
        committed(&mut store, &commit.unwrap().unwrap());
    });
    assert!(matches!(given_up, Err(BackupError::Overtaken)), "{given_up:?}");
    assert!(!place.backup.exists());
}

#[test]
fn what_would_leave_the_machine_is_known_before() {
    let (_, mut store) = fresh();
    let mut public = envelope("notes:desk", "p");
    public.privacy = Privacy::PublicSource;
    committed(&mut store, &append(vec![note_in(public, "public")]));
    assert_eq!(first_above_public(&store.reader).unwrap(), None);
    let placed = committed(&mut store, &append(vec![note("a", "private")]))[0];
    assert_eq!(first_above_public(&store.reader).unwrap().map(|event| event.id), Some(placed.id));
}

fn exported(store: &Store) -> Vec<u8> {
    let mut lines = Vec::new();
    let exported = export(&store.reader, &mut lines, &mut |_, _| ()).unwrap();
    assert_eq!(exported.events, store.reader.last_position().unwrap());
    assert_eq!(exported.lines + 1, lines.iter().filter(|byte| **byte == b'\n').count() as u64);
    lines
}

fn import_from(lines: &[u8], place: &Place) -> Result<Report, ImportError> {
    import(&mut &*lines, &place.directory, [3; 16], at(9), options())
}

#[test]
fn what_is_imported_is_what_was_exported() {
    let (_, mut store) = rich();
    let target = store.reader.event_at(2).unwrap().unwrap().id;
    let operator = thoughtstream_domain::payload::system::Operator { uid: 1, pid: 1, tty: None };
    let reason = "asked to".to_owned();
    let payload = thoughtstream_domain::payload::system::Redacted { event: target, reason, operator };
    let recorded = payload.candidate(envelope("system:decisions", "redact"));
    let rows = vec![thoughtstream_domain::commit::Row::Redact(target)];
    committed(&mut store, &Commit { rows, ..append(vec![recorded]) });
    let lines = exported(&store);
    let place = place();
    let report = import_from(&lines, &place).unwrap();
    assert_eq!(report.head, check(&store).head);
    let imported = Store::open(&place.directory, options()).unwrap();
    assert_eq!(imported.reader.page_after(0, 1000).unwrap(), store.reader.page_after(0, 1000).unwrap());
    assert!(imported.reader.control(&consumer().id).unwrap().unwrap().paused_since.is_some());
    let without = |lines: Vec<u8>| -> Vec<String> {
        let text = String::from_utf8(lines).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.contains("\"line\":\"control\"") && !line.contains("\"line\":\"end\""));
        lines.map(str::to_owned).collect()
    };
    let again = without(exported(&imported));
    assert!(
        again.iter().all(|line| without(lines.clone()).contains(line)),
        "the same lines, perhaps in another order"
    );
}

#[test]
fn an_export_that_was_changed_or_cut_short_makes_no_store() {
    let (_, store) = rich();
    let lines = exported(&store);
    let text = String::from_utf8(lines).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let mut bad = vec![
        joined(&all[..all.len() - 1]),
        joined(&all[1..]),
        text[..text.len() - 1].to_owned(),
        String::new(),
    ];
    bad.push(text.replacen("\"text\":\"text\"", "\"text\":\"test\"", 1));
    let mut swapped = all.clone();
    swapped.swap(2, 3);
    bad.push(joined(&swapped));
    bad.push(format!("{text}{{}}\n"));
    for lines in bad {
        let place = place();
        let error = import_from(lines.as_bytes(), &place).unwrap_err();
        assert!(matches!(error, ImportError::Line { .. }), "{error:?}");
        assert!(!matches!(Store::look(&place.directory), Ok(crate::Presence::Present)));
    }
}

#[test]
fn a_forged_event_in_a_well_formed_export_does_not_verify() {
    let (_, store) = rich();
    let text = String::from_utf8(exported(&store)).unwrap();
    let forged = text.replacen("\"text\":\"text\"", "\"text\":\"test\"", 1);
    let mut lines: Vec<&str> = forged.lines().collect();
    lines.pop();
    let end = crate::export::end_line(&lines, store.reader.last_position().unwrap());
    lines.push(&end);
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let place = place();
    let Err(ImportError::NotSound(report)) = import_from(lines.as_bytes(), &place) else {
        panic!("taken in")
    };
    assert_eq!(report.findings[0].kind, crate::verify::FindingKind::Payload);
    assert_eq!(Store::look(&place.directory).unwrap(), crate::Presence::Absent);
    let good = exported(&store);
    import_from(&good, &place).unwrap();
}
