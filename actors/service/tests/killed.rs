//! A consumer that is killed at any point comes back, and nothing is done twice: one test for each point, because
//! the delays before the new starts add up.

use super::*;

macro_rules! killed_at {
    ($($name:ident = $point:ident,)+) => {
        /// The points that are tried here.
        const TRIED: &[KillPoint] = &[$(KillPoint::$point),+];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                comes_back(KillPoint::$point).await;
            }
        )+
    };
}

killed_at! {
    before_the_attempt_is_received = ReceivedBefore,
    while_the_attempt_is_received = ReceivedInside,
    after_the_attempt_is_received = ReceivedAfter,
    before_the_attempt_is_started = StartedBefore,
    while_the_attempt_is_started = StartedInside,
    after_the_attempt_is_started = StartedAfter,
    before_the_runner_runs = RunnerBefore,
    while_the_runner_runs = RunnerInside,
    after_the_runner_ran = RunnerAfter,
    before_the_settlement = SettleBefore,
    while_the_settlement_is_on_its_way = SettleInside,
    after_the_settlement = SettleAfter,
    before_a_group_is_written = CommitBefore,
    before_a_group_is_durable = CommitInside,
    before_anybody_is_told_of_a_group = CommitAfterSync,
    after_everybody_is_told_of_a_group = CommitAfter,
}

#[test]
fn every_point_of_an_attempt_and_of_a_commit_is_tried() {
    let families = ["attempt.", "commit."];
    let wanted = |point: &&KillPoint| families.iter().any(|family| point.as_str().starts_with(family));
    assert_eq!(KillPoint::ALL.iter().filter(wanted).copied().collect::<Vec<_>>(), TRIED);
}

async fn comes_back(point: KillPoint) {
    for action in [KillAction::KillActor, KillAction::Panic] {
        let bench = Bench::new();
        bench.note("a.md", "# One\n");
        bench.note("b.md", "# Two\n");
        bench.points.arm(Trap::new(point, action)).unwrap();
        let service = bench.start(STRUCTURE).await;
        outputs(&service, "run.completed", 2).await;
        let reader = service.handle().reader();
        let key = ConsumerKey::parse("document-structure@1").unwrap();
        let runs = reader.runs_before(&key, None, 100).unwrap();
        let completed = runs.iter().filter(|r| matches!(r.state, RunState::Completed { .. })).count();
        assert_eq!(completed, 2, "{point} {action:?}: {runs:?}");
        service.stop();
        assert_eq!(service.ended().await, Outcome::Stopped, "{point} {action:?}");
        drop((service, reader));
        bench.verified();
    }
}
