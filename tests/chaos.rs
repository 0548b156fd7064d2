//! Chaos over the whole service in this process: traps at every point, actors killed by name, decisions in between.
//!
//! A bounded sample runs each time; `THOUGHT_CHAOS_KILLS` asks for more. `THOUGHT_CHAOS_SEED` replays one seed.

use thoughtstream_testkit::chaos::schedule::{Schedule, whole_cast};
use thoughtstream_testkit::chaos::stage::Stage;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_nothing_is_lost_and_nothing_is_done_twice() {
    let runs = setting("THOUGHT_CHAOS_KILLS").map_or(3, |kills| kills / 4);
    for seed in seeds(1, runs) {
        run(seed).await;
    }
}
