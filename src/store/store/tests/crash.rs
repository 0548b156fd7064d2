//! Power cuts after every operation of a workload, during recovery, and failures of every operation.
//!
//! A bounded sample runs each time; `THOUGHT_CHAOS_POINTS` asks for more. `THOUGHT_CHAOS_SEED` replays a run.

mod workload;

use super::*;
use crate::disk::Overlap;
use crate::sim::{Dice, Fault, Loss};
use crate::verify::{Options as VerifyOptions, verify};
use crate::{WriteError, Writer};
use workload::Workload;

/// Points of a bounded run.
const POINTS: u64 = 80;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

pub(super) fn points() -> u64 {
    setting("THOUGHT_CHAOS_POINTS", POINTS)
}

pub(super) fn seed() -> u64 {
    setting("THOUGHT_CHAOS_SEED", 1)
}

/// What was handed in and answered, and how many disk operations had been done by then.
pub(super) struct Answered {
    pub(super) operations: u64,
    pub(super) group: Vec<Commit>,
    pub(super) verdicts: Vec<Verdict>,
}

/// Opens what a power cut left, and checks everything the log promised.
pub(super) fn check_image(image: &SimDisk, history: &[Answered], done: u64, context: &str) {
    let mut store = open(image).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    check_sound(&store, context);
    let acknowledged = history.iter().take_while(|answered| answered.operations <= done).count();
    for answered in &history[..acknowledged] {
        for placed in answered.verdicts.iter().filter_map(Verdict::placed).flatten() {
            let found = store.reader.event_at(placed.position).unwrap().map(|event| event.id);
            assert_eq!(found, Some(placed.id), "{context}: an acknowledged event is missing");
        }
    }
    // The group in flight, and all that came after it: there or not, but never in part.
    for answered in &history[acknowledged..] {
        let verdicts = store.writer.apply(&answered.group, at(0)).unwrap();
        for (now, then) in verdicts.iter().zip(&answered.verdicts) {
            let same = now.placed().map(ids) == then.placed().map(ids);
            assert!(same, "{context}: a commit was there in part: {now:?} instead of {then:?}");
        }
    }
    check_sound(&store, context);
}

fn ids(placed: &[Placed]) -> Vec<thoughtstream_domain::id::EventId> {
    placed.iter().map(|placed| placed.id).collect()
}

pub(super) fn check_sound(store: &Store, context: &str) {
    let report = verify(&store.reader, VerifyOptions::default()).unwrap();
    assert!(report.ok, "{context}: {:?}", report.findings);
}

/// Runs a workload on a recorded disk.
pub(super) fn run_recorded(seed: u64, groups: usize) -> (SimDisk, Vec<Answered>) {
    let (disk, store) = fresh();
    disk.record();
    run_on(&disk, store, seed, groups, Workload::carry)
}

fn run_on(
    disk: &SimDisk,
    mut store: Store,
    seed: u64,
    groups: usize,
    carry: fn(&mut Workload, &mut Writer) -> Result<(), WriteError>,
) -> (SimDisk, Vec<Answered>) {
    let mut workload = Workload::new(seed);
    let mut history = Vec::new();
    for _ in 0..groups {
        let group = workload.group();
        let verdicts = store.writer.apply(&group, workload.now()).unwrap();
        workload.learn(&group, &verdicts);
        history.push(Answered { operations: disk.operations(), group, verdicts });
        carry(&mut workload, &mut store.writer).unwrap();
    }
    check_sound(&store, "before any cut");
    (disk.clone(), history)
}

/// A checkpoint is begun and is as late as it may be: everything it carries must stay where it is.
#[test]
fn the_journal_keeps_what_a_checkpoint_carries_until_that_is_durable() {
    let small = Options { journal_file_bytes: 16 << 10, ..options() };
    let disk = SimDisk::new(seed());
    create_on(&(Arc::new(disk.clone()) as Arc<dyn Disk>), MARK, small).unwrap();
    let mut store = Store::open_on(Arc::new(disk.clone()), small).unwrap();
    store.writer.set_types(REGISTRY.hashes()).unwrap();
    disk.set_overlap(Overlap::Behind);
    disk.record();
    let (disk, history) = run_on(&disk, store, seed() + 3000, 100, Workload::carry_behind);
    let mut recording = disk.recorded().unwrap();
    let step = (recording.len() as u64 / points().max(1)).max(1);
    while recording.advance() {
        if recording.number().is_multiple_of(step) {
            let context = format!("after operation {}", recording.number());
            check_image(&recording.image(Loss::All), &history, recording.number(), &context);
        }
    }
}

#[test]
fn no_power_cut_loses_or_halves_an_acknowledged_commit() {
    let mut checked = 0;
    for round in 0.. {
        let seed = seed() + round;
        let (disk, history) = run_recorded(seed, 40);
        let mut recording = disk.recorded().unwrap();
        // Every operation in a long run; in a short one every n-th, beginning somewhere else each round.
        let step = (recording.len() as u64 / (points() / 2).max(1)).max(1);
        let mut dice = Dice::new(seed);
        loop {
            if (recording.number() + round).is_multiple_of(step) {
                let loss = [Loss::All, Loss::None, Loss::Seeded(dice.roll()), Loss::Seeded(dice.roll())];
                let loss = loss[usize::try_from(dice.below(4)).unwrap()];
                let context = format!("seed {seed}, after operation {}, {loss:?}", recording.number());
                check_image(&recording.image(loss), &history, recording.number(), &context);
                checked += 1;
            }
            if checked >= points() || !recording.advance() {
                break;
            }
        }
        if checked >= points() {
            break;
        }
    }
}

#[test]
fn recovery_itself_can_lose_power_again_and_again() {
    let (disk, history) = run_recorded(seed() + 1000, 30);
    let mut recording = disk.recorded().unwrap();
    let mut dice = Dice::new(seed());
    let step = (recording.len() as u64 / (points() / 3).max(1)).max(1);
    while recording.advance() {
        if !recording.number().is_multiple_of(step) {
            continue;
        }
        let mut image = recording.image(Loss::Seeded(dice.roll()));
        let mut cuts = Vec::new();
        for _ in 0..3 {
            let cut = dice.below(30);
            cuts.push(cut);
            image.plan(cut, Fault::PowerCut);
            drop(open(&image));
            image = image.image(Loss::Seeded(dice.roll()));
        }
        let context = format!("after operation {}, recoveries cut at {cuts:?}", recording.number());
        check_image(&image, &history, recording.number(), &context);
    }
}

/// Runs a workload while one operation fails; a failure is answered by opening the log again and handing the
/// same commits in once more.
fn run_with_fault(seed: u64, groups: usize, fault: impl Fn(u64) -> (u64, Fault)) -> SimDisk {
    let (disk, mut store) = fresh();
    let (operation, fault) = fault(disk.operations());
    disk.plan(operation, fault);
    let context = format!("seed {seed}, {fault:?} at operation {operation}");
    let mut workload = Workload::new(seed);
    let mut acknowledged = Vec::new();
    for _ in 0..groups {
        let group = workload.group();
        let verdicts = match store.writer.apply(&group, workload.now()) {
            Ok(verdicts) => verdicts,
            Err(_) => {
                reopen(&mut store, &context);
                store
                    .writer
                    .apply(&group, workload.now())
                    .unwrap_or_else(|error| panic!("{context}: {error:?}"))
            }
        };
        workload.learn(&group, &verdicts);
        acknowledged.extend(verdicts.iter().filter_map(Verdict::placed).flatten().copied());
        if store.writer.has_failed() || workload.carry(&mut store.writer).is_err() {
            reopen(&mut store, &context);
        }
    }
    for placed in acknowledged {
        let found = store.reader.event_at(placed.position).unwrap().map(|event| event.id);
        assert_eq!(found, Some(placed.id), "{context}");
    }
    check_sound(&store, &context);
    disk
}

pub(super) fn reopen(store: &mut Store, context: &str) {
    // The failure may have left one more behind for the first attempt.
    let opened = store.writer.reopen().or_else(|_| store.writer.reopen());
    opened.unwrap_or_else(|error| panic!("{context}: {error:?}"));
}

#[test]
fn any_operation_may_fail_once() {
    let (disk, history) = run_recorded(seed() + 2000, 25);
    let all = disk.operations() - disk.recorded().unwrap().number();
    drop(history);
    let step = (all / points().max(1)).max(1);
    let mut dice = Dice::new(seed());
    for number in (0..all).step_by(usize::try_from(step).unwrap()) {
        let short = usize::try_from(dice.below(4000)).unwrap();
        let fault =
            [Fault::Fail, Fault::NoSpace, Fault::Short(short)][usize::try_from(dice.below(3)).unwrap()];
        let disk = run_with_fault(seed() + 2000, 25, |first| (first + number, fault));
        let image = disk.image(Loss::Seeded(dice.roll()));
        check_sound(&open(&image).unwrap(), "after the power went as well");
    }
}
