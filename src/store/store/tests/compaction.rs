//! Compaction: what is left of a log, what is not, and what a power cut in the middle of it leaves.

use thoughtstream_domain::commit::Row;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::system::{Operator, Redacted};

use super::crash::{Answered, check_image, check_sound, points, reopen, run_recorded, seed};
use super::*;
use crate::Compacted;
use crate::sim::{Dice, Fault, Loss};
use crate::store::LOG_ANEW;

#[test]
fn a_compacted_log_is_no_larger_than_what_is_in_it() {
    const TEXT: usize = 1000;
    let (disk, mut store) = fresh();
    for group in 0..40 {
        let notes = (0..100).map(|n| note(&format!("{group:03}/{n:03}"), &"x".repeat(TEXT)));
        committed(&mut store, &append(notes.collect()));
    }
    store.writer.compact_and_close().unwrap();
    drop(store);
    let (held, content) = (disk.bytes("log.redb").unwrap().len(), 40 * 100 * TEXT);
    assert!(held < 2 * content, "{held} bytes hold {content}");
}

#[test]
fn compacting_gives_space_back_and_stays_quick_to_open() {
    let (disk, mut store) = fresh();
    for number in 0..80 {
        let text = "x".repeat(20_000);
        committed(&mut store, &append(vec![note(&format!("{number:03}"), &text)]));
    }
    let reader = store.reader.clone();
    store.writer.checkpoint().unwrap();
    let before = disk.bytes("log.redb").unwrap().len();
    store.writer.compact_and_close().unwrap();
    let after = disk.bytes("log.redb").unwrap().len();
    assert!(after < before, "{before} {after}");
    store.writer.reopen().unwrap();
    committed(&mut store, &append(vec![note("more", "y")]));
    assert_eq!(reader.last_position().unwrap(), 81);
    let again = open(&disk.image(Loss::All)).unwrap();
    assert_eq!(again.reader.last_position().unwrap(), 81);
}

/// What is erased; nothing else in a log says it.
const SECRET: &str = "the-words-nobody-may-read-again";

fn redaction(event: EventId, key: &str) -> Commit {
    let operator = Operator { uid: 1, pid: 1, tty: None };
    let payload = Redacted { event, reason: "asked to".to_owned(), operator };
    Commit {
        rows: vec![Row::Redact(event)],
        ..append(vec![payload.candidate(envelope("system:decisions", key))])
    }
}

/// Says in which files of a disk a text can be read.
fn files_with(disk: &SimDisk, text: &str) -> Vec<String> {
    let mut names = disk.names().unwrap();
    names.retain(|name| disk.bytes(name).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes()));
    names
}

/// Says and erases secrets of many lengths, among what stays: at once in one group, later, and behind a checkpoint.
fn say_and_erase(store: &mut Store) {
    let mut said = Vec::new();
    for number in 0..24_usize {
        let text = format!("{}{SECRET}{number}", "-".repeat(number * number * 8));
        let secret = note(&format!("secret/{number:03}"), &text);
        let id = secret.id();
        let kept = append(vec![note(&format!("kept/{number:03}"), &"kept ".repeat(number))]);
        if number % 7 == 0 {
            let group = [append(vec![secret]), redaction(id, &format!("at-once/{number}")), kept];
            let verdicts = store.writer.apply(&group, at(1000)).unwrap();
            assert!(verdicts.iter().all(|verdict| verdict.placed().is_some()), "{verdicts:?}");
            continue;
        }
        committed(store, &append(vec![secret]));
        committed(store, &kept);
        said.push(id);
        if number % 5 == 0 {
            store.writer.checkpoint().unwrap();
        }
    }
    for (number, id) in said.into_iter().enumerate() {
        committed(store, &redaction(id, &format!("later/{number}")));
    }
}

#[test]
fn of_what_was_redacted_no_byte_is_left_in_any_file_of_a_compacted_log() {
    let (disk, mut store) = fresh();
    say_and_erase(&mut store);
    store.writer.checkpoint().unwrap();
    let found = files_with(&disk, SECRET);
    assert!(found.contains(&"log.redb".to_owned()) && found.iter().any(|name| name.starts_with("journal")));
    let before = store.reader.page_after(0, 1000).unwrap();
    assert_eq!(store.writer.compact_and_close().unwrap(), Compacted::Anew);
    assert_eq!(files_with(&disk, SECRET), Vec::<String>::new());
    store.writer.reopen().unwrap();
    assert_eq!(store.reader.page_after(0, 1000).unwrap(), before);
    check_sound(&store, "compacted");
    // Twice is as good as once, and so is opening it elsewhere and going on.
    store.writer.compact_and_close().unwrap();
    let image = disk.image(Loss::All);
    assert_eq!(files_with(&image, SECRET), Vec::<String>::new());
    let mut again = open(&image).unwrap();
    committed(&mut again, &append(vec![note("after", "x")]));
    assert_eq!(again.reader.last_position().unwrap(), before.len() as u64 + 1);
}

#[test]
fn no_power_cut_in_a_compaction_loses_anything_and_the_next_one_leaves_no_secret() {
    let (disk, mut history) = run_recorded(seed() + 3000, 20);
    let mut store = open(&disk).unwrap();
    say_and_erase(&mut store);
    let told = append(vec![note("told", "before it was compacted")]);
    let verdicts = vec![one(&mut store, &told)];
    history.push(Answered { operations: disk.operations(), group: vec![told], verdicts });
    disk.record();
    store.writer.compact_and_close().unwrap();
    drop(store);
    let mut recording = disk.recorded().unwrap();
    let step = (recording.len() as u64 / (points() / 2).max(1)).max(1);
    let mut dice = Dice::new(seed());
    let mut checked = 0;
    loop {
        // Around the exchange every operation counts, and it is one of the last before the journal is cleared.
        let losses = [Loss::All, Loss::None, Loss::Seeded(dice.roll())];
        let near = recording.is_near_a_rename();
        if near || recording.number().is_multiple_of(step) {
            let drawn = usize::try_from(dice.below(3)).unwrap();
            for loss in if near { &losses[..] } else { &losses[drawn..=drawn] } {
                let loss = *loss;
                let context = format!("after operation {}, {loss:?}", recording.number());
                let image = recording.image(loss);
                check_image(&image, &history, recording.number(), &context);
                assert!(!image.names().unwrap().contains(&LOG_ANEW.to_owned()), "{context}: remains");
                checked += 1;
                if near || checked % 8 == 0 {
                    let mut again = open(&image).unwrap();
                    assert_eq!(again.writer.compact_and_close().unwrap(), Compacted::Anew, "{context}");
                    assert_eq!(files_with(&image, SECRET), Vec::<String>::new(), "{context}");
                }
            }
        }
        if !recording.advance() {
            break;
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn any_operation_of_a_compaction_may_fail_once() {
    let (disk, mut store) = fresh();
    say_and_erase(&mut store);
    let before = store.reader.page_after(0, 1000).unwrap();
    drop(store);
    let prepared = || {
        let disk = disk.image(Loss::None);
        let store = open(&disk).unwrap();
        (disk, store)
    };
    let (whole, mut store) = prepared();
    let first = whole.operations();
    store.writer.compact_and_close().unwrap();
    let all = whole.operations() - first;
    let mut dice = Dice::new(seed());
    let step = usize::try_from((all / (points() / 2).max(1)).max(1)).unwrap();
    for number in (first..first + all).step_by(step) {
        let fault = [Fault::Fail, Fault::NoSpace, Fault::Short(100)][usize::try_from(dice.below(3)).unwrap()];
        let context = format!("{fault:?} at operation {number}");
        let (disk, mut store) = prepared();
        disk.plan(number, fault);
        let compacted = store.writer.compact_and_close();
        reopen(&mut store, &context);
        check_sound(&store, &context);
        assert_eq!(store.reader.page_after(0, 1000).unwrap(), before, "{context}");
        assert!(!disk.names().unwrap().contains(&LOG_ANEW.to_owned()), "{context}: remains");
        if compacted.is_err() {
            store.writer.compact_and_close().unwrap_or_else(|error| panic!("{context}: {error:?}"));
        }
        assert_eq!(files_with(&disk, SECRET), Vec::<String>::new(), "{context}");
    }
}

#[test]
fn without_room_for_a_second_log_it_is_moved_together_and_that_is_said() {
    const STEP: usize = 384 << 10;
    let (disk, mut store) = fresh();
    for number in 0..80 {
        let text = "x".repeat(20_000);
        committed(&mut store, &append(vec![note(&format!("{number:03}"), &text)]));
    }
    say_and_erase(&mut store);
    let before = store.reader.last_position().unwrap();
    store.writer.close().unwrap();
    let used: usize = disk.names().unwrap().iter().map(|name| disk.bytes(name).unwrap().len()).sum();
    let mut in_place = 0;
    for room in (0..).map(|step| step * STEP) {
        let image = disk.image(Loss::None);
        let mut store = open(&image).unwrap();
        let log = image.bytes("log.redb").unwrap().len();
        image.set_capacity(Some(used + room));
        let compacted = store.writer.compact_and_close();
        assert!(!image.names().unwrap().contains(&LOG_ANEW.to_owned()), "{room}");
        if let Ok(Compacted::InPlace { free, needed }) = compacted {
            assert!(free < needed && image.bytes("log.redb").unwrap().len() < log, "{room}: {free} {needed}");
            in_place += 1;
        }
        image.set_capacity(None);
        store.writer.reopen().unwrap();
        check_sound(&store, "with too little room");
        assert_eq!(store.reader.last_position().unwrap(), before);
        match compacted {
            // The simulated disk counts the length of files, and redb doubles it before it writes.
            Err(error) => assert!(room < 16 * STEP, "{room}: {error:?}"),
            Ok(Compacted::InPlace { .. }) => {}
            Ok(Compacted::Anew) => {
                assert_eq!(files_with(&image, SECRET), Vec::<String>::new(), "{room}");
                break;
            }
        }
    }
    assert!(in_place > 0);
}

#[test]
fn a_table_of_a_later_version_is_kept() {
    const LATER: redb::TableDefinition<'static, &[u8], &[u8]> =
        redb::TableDefinition::new("of-a-later-version");
    let (_, mut store) = fresh();
    committed(&mut store, &append(vec![note("a", "1")]));
    let put = |database: &mut redb::Database| {
        let tx = database.begin_write().unwrap();
        tx.open_table(LATER).unwrap().insert(&b"key"[..], &b"value"[..]).unwrap();
        tx.commit().unwrap();
    };
    store.reader.shared.alone(put).unwrap();
    store.writer.compact_and_close().unwrap();
    store.writer.reopen().unwrap();
    let kept = |database: &mut redb::Database| {
        let tx = redb::ReadableDatabase::begin_read(database).unwrap();
        tx.open_table(LATER).unwrap().get(&b"key"[..]).unwrap().map(|value| value.value().to_vec())
    };
    assert_eq!(store.reader.shared.alone(kept).unwrap().unwrap(), b"value");
}

#[test]
fn what_a_compaction_left_is_removed_by_who_has_the_log_alone() {
    let disk = disk();
    disk.set_bytes(LOG_ANEW, b"half a log".to_vec());
    Store::open_to_read_on(&disk, options()).unwrap();
    assert!(disk.names().unwrap().contains(&LOG_ANEW.to_owned()), "who only looks changes nothing");
    open(&disk).unwrap();
    assert!(!disk.names().unwrap().contains(&LOG_ANEW.to_owned()));
    assert!(!disk.image(Loss::All).names().unwrap().contains(&LOG_ANEW.to_owned()));
}

#[test]
fn a_lock_on_a_log_that_another_one_has_replaced_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let real = crate::disk::RealDisk::open_or_create(&directory.path().join("store")).unwrap();
    for name in ["old", "new"] {
        real.create(name).unwrap();
    }
    let old = real.open("old").unwrap();
    assert!(old.try_lock().unwrap());
    old.unlock().unwrap();
    real.rename("new", "old").unwrap();
    assert!(!old.try_lock().unwrap() && !old.try_lock_shared().unwrap());
    assert!(real.open("old").unwrap().try_lock().unwrap());
}
