//! Chaos over the whole service in this process: traps at every point, actors killed by name, decisions in between.
//!
//! A bounded sample runs each time; `THOUGHT_CHAOS_KILLS` asks for more. `THOUGHT_CHAOS_SEED` replays one seed.

use std::time::Duration;

use thoughtstream_actors::killpoint::{KillAction, KillPoint, Trap, TrapId};
use thoughtstream_testkit::chaos::schedule::{Schedule, every_trap, whole_cast};
use thoughtstream_testkit::chaos::stage::{FOLDER, Stage, note};
use thoughtstream_testkit::chaos::{seeds, setting};

/// Deeds of one run.
const DEEDS: u64 = 90;

async fn run(seed: u64) {
    let context = format!("THOUGHT_CHAOS_SEED={seed} replays this");
    let mut stage = Stage::new(&context, &whole_cast(), true);
    let mut schedule = Schedule::new(seed);
    stage.temper = schedule.temper();
    stage.start().await;
    schedule.play(&mut stage, DEEDS).await;
    stage.judge().await;
    assert!(schedule.tally.appended > 0 && schedule.tally.traps + schedule.tally.kills > 0, "{context}");
}

/// Whatever dies, nothing is lost and nothing is done twice: as many tests share the seeds, so that none takes long.
mod whatever_dies_nothing_is_lost_or_done_twice {
    use super::*;

    const SHARES: u64 = 4;

    async fn share(of: u64) {
        let runs = setting("THOUGHT_CHAOS_KILLS").map_or(SHARES, |kills| kills / 4);
        for seed in seeds(1, runs).into_iter().filter(|seed| seed % SHARES == of) {
            run(seed).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn in_every_fourth_run() {
        share(0).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn in_the_first_and_every_fourth_behind_it() {
        share(1).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn in_the_second_and_every_fourth_behind_it() {
        share(2).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn in_the_third_and_every_fourth_behind_it() {
        share(3).await;
    }
}

/// Does what makes somebody pass a point; answers a trap that still holds one who is to be gone by then.
async fn provoke(stage: &Stage, point: KillPoint, turn: u64) -> Option<TrapId> {
    let name = point.as_str();
    let notes = if name.starts_with("progress.") { 260 } else { 2 };
    let notes: Vec<_> = (0..notes).map(|n| note("notes:a", &format!("{turn}/{n}"), "text", None)).collect();
    if name.starts_with("recovery.") {
        let held = Trap::new(KillPoint::RunnerInside, KillAction::Hold).of("thoughtstream/consumers/two");
        let held = stage.points.arm(held).expect("a rehearsal");
        stage.append_all(&notes).await;
        stage.points.sprung(held).await;
        stage.handle().kill("consumers/two").expect("it runs");
        // Let go at once, it might settle before its end is seen, and leave recovery nothing to do.
        return Some(held);
    }
    let file = stage.folder().join("file.md");
    std::fs::write(file, format!("# {turn}\n")).expect("the folder is ours");
    stage.handle().look_at(FOLDER).ok();
    stage.append_all(&notes).await;
    None
}

/// Sets each trap once, sees somebody run into it, and lets everything recover.
async fn spring_every_trap(parts: &[&'static str], meant: impl Fn(KillPoint) -> bool) {
    let mut stage = Stage::new("", parts, true);
    stage.start().await;
    let traps = every_trap().into_iter().filter(|trap| meant(trap.point));
    for (trap, turn) in traps.zip(1..) {
        stage.context = format!("{trap:?}");
        stage.come_to_rest().await;
        let id = stage.points.arm(trap.clone()).expect("a rehearsal");
        let held = provoke(&stage, trap.point, turn).await;
        let sprung = tokio::time::timeout(Duration::from_secs(30), stage.points.sprung(id)).await;
        assert!(sprung.is_ok(), "nobody ran into {trap:?}");
        if let Some(held) = held {
            stage.points.disarm(held);
        }
        stage.come_to_rest().await;
    }
    stage.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_may_end_its_actor_in_every_way() {
    spring_every_trap(&["two", "files"], |point| !point.as_str().starts_with("progress.")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_past_what_does_not_match_survives_every_end() {
    spring_every_trap(&["rare"], |point| point.as_str().starts_with("progress.")).await;
}
