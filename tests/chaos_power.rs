//! The whole service on a disk of the imagination: the power is cut after any operation, operations fail, and the
//! service that starts on what is left does everything that was acknowledged, once.
//!
//! A bounded sample runs each time; `THOUGHT_CHAOS_POINTS` asks for more. `THOUGHT_CHAOS_SEED` replays one seed.

use std::sync::Arc;

use thoughtstream_actors::supervisor::Outcome;
use thoughtstream_store::disk::Disk;
use thoughtstream_store::sim::{Dice, Fault, Loss, Recording, SimDisk};
use thoughtstream_testkit::chaos::oracle::Oracle;
use thoughtstream_testkit::chaos::schedule::Schedule;
use thoughtstream_testkit::chaos::stage::Stage;
use thoughtstream_testkit::chaos::{seeds, setting};

/// Cuts of a bounded run.
const POINTS: u64 = 24;

/// The parts that run on such a disk: one commit and two, side by side and in batches.
const PARTS: [&str; 4] = ["two", "settled", "wide", "batch"];

fn points() -> u64 {
    setting("THOUGHT_CHAOS_POINTS").unwrap_or(POINTS)
}

fn disk_of(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// Appends a few notes, one group after the other.
async fn load(stage: &Stage, schedule: &mut Schedule, groups: usize) {
    for _ in 0..groups {
        let notes = [schedule.note(), schedule.note(), schedule.note()];
        stage.append_all(&notes).await;
    }
}

/// Runs a service on a recorded disk, with deaths of its own in between.
async fn recorded(seed: u64, context: &str) -> (Recording, Oracle) {
    let disk = SimDisk::new(seed);
    let mut stage = Stage::create_on(disk_of(&disk), context, &PARTS);
    let counted = disk.clone();
    stage.operations = Some(Arc::new(move || counted.operations()));
    let mut schedule = Schedule::new(seed);
    stage.temper = schedule.temper();
    disk.record();
    for _ in 0..2 {
        stage.start().await;
        load(&stage, &mut schedule, 4).await;
        stage.handle().kill("consumers/two").ok();
        load(&stage, &mut schedule, 2).await;
        stage.come_to_rest().await;
        assert_eq!(stage.stop(false).await, Outcome::Stopped, "{context}");
    }
    (disk.recorded().expect("it was recorded"), stage.oracle.clone())
}

/// Starts a service on what a power cut left, and judges what it makes of it.
async fn judge_image(image: SimDisk, oracle: &Oracle, done: u64, context: &str) {
    let mut stage = Stage::on(disk_of(&image), context, &PARTS);
    stage.start().await;
    oracle.check_acknowledged(&stage.reader(), done, context);
    stage.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_may_go_after_any_operation() {
    let points = points();
    for seed in seeds(1, 1 + points / 500) {
        let context = format!("THOUGHT_CHAOS_SEED={seed} replays this");
        let (mut recording, oracle) = recorded(seed, &context).await;
        let share = points / (1 + points / 500);
        let step = (recording.len() as u64 / share.max(1)).max(1);
        let mut dice = Dice::new(seed);
        while recording.advance() {
            // Each round of seeds begins somewhere else.
            if (recording.number() + seed) % step != 0 {
                continue;
            }
            let losses = [Loss::All, Loss::None, Loss::Seeded(dice.roll()), Loss::Seeded(dice.roll())];
            let loss = losses[usize::try_from(dice.below(4)).expect("one of four")];
            let context = format!("{context}, cut after operation {}, {loss:?}", recording.number());
            judge_image(recording.image(loss), &oracle, recording.number(), &context).await;
        }
    }
}

/// Lets one operation of a running service's disk fail; the service goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_operation_may_fail_under_a_running_service() {
    for seed in seeds(100, points() / 4) {
        let mut dice = Dice::new(seed);
        let short = usize::try_from(dice.below(4000)).expect("a short write");
        let faults = [Fault::Fail, Fault::NoSpace, Fault::Short(short)];
        let fault = faults[usize::try_from(dice.below(3)).expect("one of three")];
        let disk = SimDisk::new(seed);
        let mut stage = Stage::create_on(disk_of(&disk), "", &PARTS);
        stage.start().await;
        let operation = disk.operations() + dice.below(150);
        stage.context = format!("THOUGHT_CHAOS_SEED={seed} replays this: {fault:?} at operation {operation}");
        disk.plan(operation, fault);
        load(&stage, &mut Schedule::new(seed), 6).await;
        stage.judge().await;
    }
}

/// Cuts the power under a running service, which cannot even read any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_whose_disk_is_gone_stops_and_the_next_one_goes_on() {
    for seed in seeds(200, points() / 8) {
        let mut dice = Dice::new(seed);
        let disk = SimDisk::new(seed);
        let context = format!("THOUGHT_CHAOS_SEED={seed} replays this");
        let mut stage = Stage::create_on(disk_of(&disk), &context, &PARTS);
        stage.start().await;
        disk.plan(disk.operations() + dice.below(120), Fault::PowerCut);
        load(&stage, &mut Schedule::new(seed), 4).await;
        disk.cut_power();
        stage.stop(true).await;
        judge_image(disk.image(Loss::Seeded(dice.roll())), &stage.oracle, u64::MAX, &context).await;
    }
}
