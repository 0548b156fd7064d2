//! What must hold when the power goes, a write fails or bytes rot.

#![expect(clippy::cast_possible_truncation, reason = "offsets in these tests are a few thousand")]

use super::*;
use crate::sim::{Dice, Fault, Loss, SimDisk};

const MARK: [u8; 16] = [7; 16];
const SMALL_FILE: u64 = 4096;

fn fresh() -> SimDisk {
    let disk = SimDisk::new(3);
    Journal::create(&disk, SMALL_FILE).unwrap();
    disk.sync_names().unwrap();
    disk
}

fn open(disk: &SimDisk, applied: Mark) -> Result<(Journal, Vec<Vec<u8>>), JournalError> {
    Journal::scan(disk, Access::Write, &MARK, applied, None)?.open()
}

fn append(journal: &mut Journal, body: &[u8]) -> io::Result<Mark> {
    let mut frame = Frame::new();
    frame.push(body);
    let mark = journal.seal(&mut frame);
    journal.append(&frame, mark, &mut || Ok(()))?;
    Ok(mark)
}

/// Three frames, the marks of their ends, and the disk.
fn three() -> (SimDisk, Vec<Mark>) {
    let disk = fresh();
    let (mut journal, _) = open(&disk, Mark::default()).unwrap();
    let bodies: [&[u8]; 3] = [b"first", &[2; 700], b"the third and last"];
    let marks = bodies.iter().map(|body| append(&mut journal, body).unwrap()).collect();
    (disk, marks)
}

#[test]
fn frames_after_the_applied_one_come_back_in_order() {
    let (disk, marks) = three();
    let (journal, bodies) = open(&disk, Mark::default()).unwrap();
    assert_eq!(bodies, [b"first".to_vec(), vec![2; 700], b"the third and last".to_vec()]);
    assert_eq!(journal.end(), marks[2]);
    assert_eq!(open(&disk, marks[1]).unwrap().1, [b"the third and last".to_vec()]);
    assert!(open(&disk, marks[2]).unwrap().1.is_empty());
}

#[test]
fn a_tail_torn_at_any_byte_loses_only_the_last_frame() {
    let (disk, marks) = three();
    let whole = disk.bytes("journal.0").unwrap();
    let (start, end) = (marks[1].offset as usize, marks[2].offset as usize);
    let content = end - (8 - "the third and last".len() % 8) % 8;
    for cut in start..content {
        let mut torn = whole.clone();
        torn[cut..end].fill(0);
        if torn == whole {
            continue;
        }
        disk.set_bytes("journal.0", torn);
        let (mut journal, bodies) = open(&disk, Mark::default()).unwrap();
        assert_eq!(bodies.len(), 2, "cut at {cut}");
        assert_eq!(journal.end(), marks[1]);
        append(&mut journal, b"goes on").unwrap();
        assert_eq!(open(&disk, Mark::default()).unwrap().1[2], b"goes on");
    }
}

#[test]
fn a_flipped_bit_before_the_last_frame_is_damage_and_changes_nothing() {
    let (disk, marks) = three();
    let whole = disk.bytes("journal.0").unwrap();
    let padding = marks[0].offset as usize - 3..marks[0].offset as usize;
    for byte in (0..marks[1].offset as usize).filter(|byte| !padding.contains(byte)).step_by(3) {
        let mut bad = whole.clone();
        bad[byte] ^= 0x10;
        disk.set_bytes("journal.0", bad.clone());
        let error = open(&disk, Mark::default());
        // Padding after a body is not covered by the checksum and carries nothing.
        let second_padding = marks[1].offset as usize - 4;
        if byte >= second_padding {
            continue;
        }
        assert!(matches!(error, Err(JournalError::Gap { .. })), "byte {byte}");
        assert_eq!(disk.bytes("journal.0").unwrap(), bad);
    }
}

#[test]
fn a_log_carried_further_than_the_journal_reaches_is_damage() {
    let (disk, marks) = three();
    let mut bytes = disk.bytes("journal.0").unwrap();
    bytes[marks[1].offset as usize..].fill(0);
    disk.set_bytes("journal.0", bytes);
    assert!(matches!(open(&disk, marks[2]), Err(JournalError::Behind { .. })));
}

#[test]
fn files_of_another_store_are_not_taken_for_ours() {
    let (disk, marks) = three();
    let other = Mark { crc: marks[1].crc ^ 1, ..marks[1] };
    assert!(matches!(open(&disk, other), Err(JournalError::Foreign { .. })));
    let other = Mark { crc: marks[2].crc ^ 1, ..marks[2] };
    assert!(matches!(open(&disk, other), Err(JournalError::Foreign { .. })));
    let salted = Journal::scan(&disk, Access::Write, &[8; 16], marks[1], None);
    assert!(matches!(salted, Err(JournalError::Behind { .. })));
}

#[test]
fn a_missing_file_is_an_error() {
    let (disk, _) = three();
    disk.remove("journal.1").unwrap();
    assert!(matches!(open(&disk, Mark::default()), Err(JournalError::Open(DiskError::Missing { .. }))));
}

#[test]
fn a_payload_that_looks_like_a_frame_is_not_one() {
    let (disk, marks) = three();
    // A stranger who knows offset and checksum of the last frame, but not the mark of the store.
    let mut forged = Frame::new();
    forged.push(b"forged");
    forged.seal(&Salt::new(&[0; 16]), Mark { offset: marks[2].offset + 800, ..marks[2] });
    let mut body = vec![0; 16];
    body.extend_from_slice(forged.bytes());
    let (mut journal, _) = open(&disk, Mark::default()).unwrap();
    append(&mut journal, &body).unwrap();
    let mut bytes = disk.bytes("journal.0").unwrap();
    bytes[marks[2].offset as usize] ^= 1;
    disk.set_bytes("journal.0", bytes);
    assert_eq!(open(&disk, Mark::default()).unwrap().1.len(), 3);
}

#[test]
fn a_file_is_reused_only_behind_a_checkpoint() {
    let disk = fresh();
    let (mut journal, _) = open(&disk, Mark::default()).unwrap();
    let mut written = 0;
    while journal.has_room(1000) {
        append(&mut journal, &[9; 1000]).unwrap();
        written += 1;
    }
    assert_eq!(written, 8, "two files of four KiB hold four frames each");
    assert_eq!(open(&disk, Mark::default()).unwrap().1.len(), 8);
    append(&mut journal, &[9; 1000]).unwrap_err();
    journal.checkpointed(journal.end().offset);
    assert_eq!(journal.waiting_bytes(), 0);
    let before = journal.end();
    append(&mut journal, &[8; 1000]).unwrap();
    assert_eq!(open(&disk, before).unwrap().1, [vec![8; 1000]]);
}

#[test]
fn after_a_failed_write_or_sync_the_journal_takes_nothing_more() {
    for step in 0..2 {
        let (disk, marks) = three();
        let (mut journal, _) = open(&disk, marks[2]).unwrap();
        disk.plan(disk.operations() + step, Fault::Fail);
        append(&mut journal, b"in doubt").unwrap_err();
        append(&mut journal, b"never").unwrap_err();
        let (_, bodies) = open(&disk, marks[2]).unwrap();
        assert_eq!(
            bodies.len() as u64,
            step,
            "a failed sync left the frame readable, a failed write did not"
        );
    }
}

#[test]
fn a_frame_that_survived_a_failed_sync_is_made_durable_by_the_next_open() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        Journal::create(&disk, SMALL_FILE).unwrap();
        disk.sync_names().unwrap();
        let (mut journal, _) = open(&disk, Mark::default()).unwrap();
        append(&mut journal, b"acknowledged").unwrap();
        disk.plan(disk.operations() + 1, Fault::Fail);
        append(&mut journal, &[1; 1500]).unwrap_err();
        let (mut journal, bodies) = open(&disk, Mark::default()).unwrap();
        assert_eq!(bodies.len(), 2);
        append(&mut journal, b"after it").unwrap();
        assert_eq!(open(&disk.image(Loss::All), Mark::default()).unwrap().1.len(), 3);
    }
}

#[test]
fn no_power_cut_loses_an_acknowledged_frame() {
    for round in 0..6 {
        let disk = fresh();
        let (mut journal, _) = open(&disk, Mark::default()).unwrap();
        let mut dice = Dice::new(round);
        disk.record();
        // (operations done when acknowledged, what redb durably held before it, its own end, body)
        let mut history: Vec<(u64, Mark, Mark, Vec<u8>)> = Vec::new();
        let mut applied = Mark::default();
        for number in 0..60_u8 {
            let body = vec![number; 1 + usize::try_from(dice.below(1200)).unwrap()];
            if !journal.has_room(body.len()) || dice.chance(20) {
                applied = journal.end();
                journal.checkpointed(applied.offset);
            }
            let end = append(&mut journal, &body).unwrap();
            history.push((disk.operations(), applied, end, body));
        }
        let mut recording = disk.recorded().unwrap();
        loop {
            let acknowledged = history.iter().take_while(|(at, ..)| *at <= recording.number()).count();
            let applied = history[acknowledged.min(history.len() - 1)].1;
            let image = recording.image(Loss::Seeded(round * 1000 + recording.number()));
            let (_, bodies) = open(&image, applied).unwrap();
            let passed = history.iter().take_while(|(_, _, end, _)| *end <= applied).count();
            let wanted = &history[passed..acknowledged];
            assert!(bodies.len() >= wanted.len(), "an acknowledged frame is missing");
            assert!(bodies.len() <= wanted.len() + 1, "more than the one frame in flight");
            assert!(bodies.iter().zip(wanted).all(|(found, wanted)| *found == wanted.3));
            if !recording.advance() {
                break;
            }
        }
    }
}

/// Golden bytes: a journal written by an older program must still be replayed.
#[test]
fn the_form_of_a_frame_never_changes_silently() {
    let mut frame = Frame::new();
    frame.push(b"body of a frame");
    frame.push_number(300);
    let end = frame.seal(&Salt::new(&MARK), Mark { offset: 4096, crc: 0x0102_0304 });
    let golden = "74736a6600000011040cdc26010203040000000000001000\
                  626f6479206f662061206672616d65ac0200000000000000";
    assert_eq!(data_encoding::HEXLOWER.encode(frame.bytes()), golden);
    assert_eq!(end.offset, 4096 + frame.bytes().len() as u64);
}

#[test]
fn a_journal_is_cleared_up_to_a_frame_that_says_nothing_and_goes_on_behind_it() {
    let disk = fresh();
    let (mut journal, _) = open(&disk, Mark::default()).unwrap();
    for number in 0..9 {
        let end = append(&mut journal, &[b'a' + number; 700]).unwrap();
        journal.checkpointed(end.offset);
    }
    journal.clear().unwrap_err();
    let end = append(&mut journal, b"").unwrap();
    journal.clear().unwrap_err();
    journal.checkpointed(end.offset);
    journal.clear().unwrap();
    for file in file_names() {
        let bytes = disk.bytes(&file).unwrap();
        assert!(!bytes.windows(4).any(|four| four[0].is_ascii_lowercase() && four == [four[0]; 4]), "{file}");
    }
    let (mut journal, bodies) = open(&disk, end).unwrap();
    assert!(bodies.is_empty() && journal.end() == end);
    append(&mut journal, b"goes on").unwrap();
    journal.clear().unwrap_err();
    assert_eq!(open(&disk, end).unwrap().1, [b"goes on"]);
}
