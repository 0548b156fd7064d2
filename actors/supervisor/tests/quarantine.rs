//! A child that gets nowhere: quarantine below, giving up above.

use super::*;

#[tokio::test(start_paused = true)]
async fn quarantine_leaves_the_siblings_untouched_until_a_person_resumes_it() {
    let stage = Stage::new();
    let (bad, bad_hand) = stage.puppet("bad");
    let (good, _) = stage.puppet("good");
    let bad = bad.policy(policy().with_exits_max(2));
    let root = stage.launch(one_for_one("q-one").child(bad).child(good)).await;
    for incarnation in 1..=3 {
        running(root.handle(), "bad", incarnation).await;
        bad_hand.tell(Order::Do(Deed::Panic));
    }
    let node = in_state(root.handle(), "bad", ChildState::Quarantined).await;
    assert_eq!((node.restarts, node.last_exit.unwrap().exit), (2, "failed"));
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    let tree = root.handle().snapshot();
    assert_eq!(tree.find("bad"), Some(&node), "nothing happens by itself");
    assert_eq!(tree.find("good").map(|good| (good.state, good.incarnation)), Some((ChildState::Running, 1)));

    let refused = root.handle().restart_child("bad", RestartCause::Requested).await;
    assert_eq!(refused, Err(CommandError::WrongState(ChildState::Quarantined)));
    root.handle().resume("bad").await.unwrap();
    running(root.handle(), "bad", 4).await;
    assert_eq!(
        root.handle().resume("bad").await,
        Err(CommandError::WrongState(ChildState::Running)),
        "a second time there is nothing to resume"
    );
    assert_eq!(
        stage.notices.words(),
        ["q-one/bad restarted", "q-one/bad restarted", "q-one/bad quarantined", "q-one/bad resumed"]
    );
    assert!(
        stage
            .notices
            .kinds()
            .contains(&NoticeKind::Quarantined { exit: Exit::Failed(ReasonCode::PANICKED), exits: 3 })
    );
}

#[tokio::test(start_paused = true)]
async fn settled_work_keeps_a_child_out_of_quarantine() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let root = stage.launch(one_for_one("q-settle").child(spec.policy(policy().with_exits_max(1)))).await;
    for incarnation in 1..=20 {
        running(root.handle(), "p", incarnation).await;
        hand.tell(Order::Settle);
        hand.tell(Order::Do(Deed::Panic));
    }
    running(root.handle(), "p", 21).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_life_keeps_a_child_out_of_quarantine_and_waiting_does_not() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let root = stage.launch(one_for_one("q-life").child(spec.policy(policy().with_exits_max(1)))).await;
    for incarnation in 1..=5 {
        running(root.handle(), "p", incarnation).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        hand.tell(Order::Do(Deed::Panic));
    }
    running(root.handle(), "p", 6).await;
    hand.tell(Order::Do(Deed::Panic));
    in_state(root.handle(), "p", ChildState::Quarantined).await;
}

#[tokio::test(start_paused = true)]
async fn giving_up_goes_upward_to_the_end_of_the_tree() {
    let stage = Stage::new();
    let (writer, hand) = stage.puppet("writer");
    let (reader, _) = stage.puppet("reader");
    let (bystander, _) = stage.puppet("bystander");
    let vital = RestartPolicy::escalate().with_exits_max(0);
    let log = one_for_one("log").child(reader).child(writer.policy(vital)).policy(vital);
    let root = stage.launch(one_for_one("q-up").child(bystander).nested(log)).await;
    stage.journal.take();
    hand.tell(Order::Do(Deed::Fail));
    let outcome = root.wait().await;
    assert_eq!(outcome, Outcome::Fatal { path: "q-up/log/writer".into(), exit: Exit::Failed(ODD) });
    assert_eq!(outcome.exit_code(), 70);
    assert_eq!(stage.journal.take(), ["down reader#1", "down bystander#1"], "the others stop in order");
    assert_eq!(stage.notices.words(), ["q-up/log/writer gave-up", "q-up/log gave-up"]);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_gave_up_is_given_another_chance_by_its_own() {
    let stage = Stage::new();
    let (worker, hand) = stage.puppet("worker");
    let group = one_for_one("group").child(worker.policy(RestartPolicy::escalate().with_exits_max(0)));
    let group = group.policy(RestartPolicy::escalate().with_exits_max(1));
    let root = stage.launch(one_for_one("q-again").nested(group)).await;
    hand.tell(Order::Do(Deed::Fail));
    let node = running(root.handle(), "group", 2).await;
    assert_eq!(node.last_exit.unwrap().what, Exit::Planned(StopReason::GaveUp));
    root.handle().wait_started().await;
    hand.tell(Order::Do(Deed::Fail));
    assert!(matches!(root.wait().await, Outcome::Fatal { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_killed_supervisor_comes_back_with_its_children_and_closes_what_they_left() {
    let stage = Stage::new();
    let (worker, _) = stage.puppet("worker");
    let (bad, bad_hand) = stage.puppet("bad");
    let (halted, _) = stage.puppet("halted");
    let (added, _) = stage.puppet("added");
    let group = one_for_one("group").child(stage.with_hook(worker)).child(halted);
    let group = group.child(bad.policy(policy().with_exits_max(0)));
    let inner = group.handle();
    let root = stage.launch(one_for_one("q-kill").nested(group)).await;
    bad_hand.tell(Order::Do(Deed::Panic));
    in_state(&inner, "bad", ChildState::Quarantined).await;
    inner.stop_child("halted").await.unwrap();
    inner.start_child(added).await.unwrap();
    running(&inner, "added", 1).await;
    stage.journal.take();

    root.handle().kill("group").unwrap();
    running(root.handle(), "group", 2).await;
    running(&inner, "worker", 2).await;
    running(&inner, "added", 2).await;
    assert_eq!(stage.journal.take()[0], "closed worker#1 killed", "first the evidence, then the successor");
    let tree = root.handle().snapshot();
    assert_eq!(tree.find("group/bad").unwrap().state, ChildState::Quarantined);
    assert_eq!(tree.find("group/halted").unwrap().state, ChildState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_from_before_the_start_holds() {
    let stage = Stage::new();
    let (spec, _) = stage.puppet("p");
    let root = stage.launch(one_for_one("q-held").child(spec.initially(Initially::Quarantined))).await;
    assert_eq!(root.handle().snapshot().find("p").unwrap().state, ChildState::Quarantined);
    root.handle().resume("p").await.unwrap();
    running(root.handle(), "p", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_new_supervisor_waits_for_an_orphan_that_is_still_at_work() {
    let stage = Stage::new();
    let (busy, busy_hand) = stage.puppet("busy");
    let (well, _) = stage.puppet("well");
    let group = one_for_one("group").child(busy).child(well);
    let inner = group.handle();
    let quick = RestartPolicy::escalate().with_backoff(Duration::ZERO, Duration::ZERO);
    let root = stage.launch(one_for_one("q-orphan").nested(group.policy(quick))).await;
    let gate = Arc::new(Gate::default());
    busy_hand.tell(Order::Block(gate.clone()));
    gate.entered.notified().await;
    root.handle().kill("group").unwrap();
    running(&inner, "well", 2).await;
    let node = inner.snapshot().find("busy").unwrap().clone();
    assert_eq!((node.state, node.incarnation), (ChildState::Recovering, 1));
    gate.open();
    running(&inner, "busy", 2).await;
    assert!(!stage.journal.take().contains(&"down busy#1".to_owned()), "an orphan is killed, not stopped");
}
