//! Whoever is killed wherever, the change is made once: one test for each step, because the delays before the new
//! starts add up.

use super::*;

/// The steps, as the points name them.
const STEPS: [&str; 5] = ["started", "file", "exchange", "scan", "receipt"];

fn points_of(step: &str) -> Vec<KillPoint> {
    let prefix = format!("materialize.{step}.");
    KillPoint::ALL.iter().copied().filter(|point| point.as_str().starts_with(&prefix)).collect()
}

#[test]
fn every_point_is_one_of_a_step_that_is_tried() {
    let all = KillPoint::ALL.iter().filter(|point| point.as_str().starts_with("materialize.")).count();
    assert_eq!((all, STEPS.iter().map(|step| points_of(step).len()).sum()), (15, 15));
}

async fn the_change_is_made_once(step: &str) {
    assert!(STEPS.contains(&step));
    let mut room = Room::with("killed", BASE).await;
    let mut expected = BASE.to_owned();
    let mut count = 0;
    for point in points_of(step) {
        for action in [KillAction::KillActor, KillAction::Panic, KillAction::Fail] {
            count += 1;
            let trap = room.stage.points.arm(Trap::new(point, action).of(ACTOR)).unwrap();
            let line = format!("Line {count}.");
            room.accept(Operation::Append, &line).await;
            room.stage.points.sprung(trap).await;
            room.until_ended(count).await;
            expected += &format!("{line}\n");
            assert_eq!(room.text(), expected, "{point} {action:?}");
            assert_eq!(room.names(), [MEMORY_PATH], "{point} {action:?}");
        }
    }
    let reader = room.stage.reader();
    assert_eq!((started(&reader), made(&reader).len(), failures(&reader).len()), (count, count, 0));
    assert_eq!(document(&reader).unwrap().revision, count as u64 + 1, "nothing was written twice");
    room.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_start_is_recorded() {
    the_change_is_made_once("started").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_new_file_is_written() {
    the_change_is_made_once("file").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_files_are_exchanged() {
    the_change_is_made_once("exchange").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_source_looks() {
    the_change_is_made_once("scan").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_receipt_is_recorded() {
    the_change_is_made_once("receipt").await;
}
