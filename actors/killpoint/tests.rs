use std::process::Command;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::*;

fn site(points: &Arc<KillPoints>, name: &str) -> KillSite {
    points.site(name.into(), None)
}

#[test]
fn every_point_and_action_is_found_by_its_name() {
    for point in KillPoint::ALL {
        assert_eq!(KillPoint::parse(point.as_str()), Some(*point));
    }
    for action in KillAction::ALL {
        assert_eq!(KillAction::parse(action.as_str()), Some(action));
    }
    assert_eq!(KillPoint::parse("attempt.received"), None);
}

#[test]
fn real_work_cannot_be_armed() {
    let points = KillPoints::disabled();
    assert_eq!(
        points.arm(Trap::new(KillPoint::CommitBefore, KillAction::Fail)),
        Err(ArmError::NotARehearsal)
    );
    for point in KillPoint::ALL {
        assert_eq!(site(&points, "a").pass_blocking(*point), Ok(()));
    }
}

#[test]
fn a_trap_springs_once_at_its_passage_for_its_actor() {
    let points = KillPoints::for_rehearsal();
    let trap = Trap::new(KillPoint::SettleBefore, KillAction::Fail).at(2).of("tree/a");
    points.arm(trap).unwrap();
    let (a, b) = (site(&points, "tree/a"), site(&points, "tree/b"));
    let passed: Vec<bool> = [&a, &b, &b, &a, &a, &b]
        .into_iter()
        .map(|site| site.pass_blocking(KillPoint::SettleBefore).is_ok())
        .collect();
    assert_eq!(passed, [true, true, true, false, true, true]);
    assert_eq!(a.pass_blocking(KillPoint::SettleAfter), Ok(()));
}

#[test]
fn too_many_traps_are_refused_and_all_are_taken_away() {
    let points = KillPoints::for_rehearsal();
    let trap = Trap::new(KillPoint::CommitInside, KillAction::Fail);
    for _ in 0..TRAPS_MAX {
        points.arm(trap.clone()).unwrap();
    }
    assert_eq!(points.arm(trap.clone()), Err(ArmError::TooMany));
    points.disarm_all();
    assert_eq!(site(&points, "a").pass_blocking(KillPoint::CommitInside), Ok(()));
    points.arm(trap).unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_is_held_goes_on_when_released() {
    let points = KillPoints::for_rehearsal();
    for release in [KillPoints::release, KillPoints::disarm] {
        let id = points.arm(Trap::new(KillPoint::RunnerInside, KillAction::Hold)).unwrap();
        let async_site = site(&points, "a");
        let held = tokio::spawn(async move { async_site.pass(KillPoint::RunnerInside).await });
        points.sprung(id).await;
        tokio::task::yield_now().await;
        assert!(!held.is_finished());
        release(&points, id);
        assert_eq!(held.await.unwrap(), Ok(()));

        let id = points.arm(Trap::new(KillPoint::CommitInside, KillAction::Hold)).unwrap();
        let blocking_site = site(&points, "a");
        let thread = std::thread::spawn(move || blocking_site.pass_blocking(KillPoint::CommitInside));
        points.sprung(id).await;
        assert!(!thread.is_finished());
        release(&points, id);
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
}

struct Walker;

impl Actor for Walker {
    type Msg = ();
    type State = Arc<KillPoints>;
    type Arguments = Arc<KillPoints>;

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        points: Arc<KillPoints>,
    ) -> Result<Arc<KillPoints>, ActorProcessingErr> {
        Ok(points)
    }

    async fn handle(
        &self,
        me: ActorRef<()>,
        (): (),
        points: &mut Arc<KillPoints>,
    ) -> Result<(), ActorProcessingErr> {
        points.site("walker".into(), Some(me.get_cell())).pass(KillPoint::StartedBefore).await?;
        panic!("it went on after a trap");
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_ends_at_the_very_point() {
    let points = KillPoints::for_rehearsal();
    for action in [KillAction::KillActor, KillAction::Fail] {
        let id = points.arm(Trap::new(KillPoint::StartedBefore, action)).unwrap();
        let (actor, ended) = Walker::spawn(None, Walker, points.clone()).await.unwrap();
        actor.cast(()).unwrap();
        points.sprung(id).await;
        ended.await.unwrap();
    }
}

#[test]
#[should_panic(expected = "kill point recovery.inside")]
fn a_panic_names_its_point() {
    let points = KillPoints::for_rehearsal();
    points.arm(Trap::new(KillPoint::RecoveryInside, KillAction::Panic)).unwrap();
    site(&points, "a").pass_blocking(KillPoint::RecoveryInside).unwrap();
}

#[test]
#[ignore = "it ends its process; the next test runs it in one of its own"]
fn ends_its_process() {
    let points = KillPoints::for_rehearsal();
    points.arm(Trap::new(KillPoint::CommitAfterSync, KillAction::AbortProcess)).unwrap();
    site(&points, "a").pass_blocking(KillPoint::CommitAfterSync).unwrap();
}

#[test]
fn the_process_ends_as_under_kill_9() {
    use std::os::unix::process::ExitStatusExt;
    let test = "killpoint::tests::ends_its_process";
    let status = Command::new(std::env::current_exe().unwrap()).args(["--ignored", "--exact", test]).output();
    assert_eq!(status.unwrap().status.signal(), Some(9));
}
