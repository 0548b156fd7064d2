//! What a person may ask for.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_child_is_added_stopped_restarted_and_removed() {
    let stage = Stage::new();
    let root = stage.launch(one_for_one("c-life")).await;
    let handle = root.handle();
    let (spec, hand) = stage.puppet("p");
    handle.start_child(spec.clone()).await.unwrap();
    assert_eq!(handle.start_child(spec).await, Err(CommandError::NameTaken));
    running(handle, "p", 1).await;

    handle.stop_child("p").await.unwrap();
    let node = handle.snapshot().find("p").unwrap().clone();
    assert_eq!((node.state, node.last_exit.unwrap().reason), (ChildState::Stopped, Some("operator")));
    handle.stop_child("p").await.unwrap();

    handle.restart_child("p", RestartCause::Requested).await.unwrap();
    running(handle, "p", 2).await;
    handle.restart_child("p", RestartCause::Reloaded).await.unwrap();
    let node = running(handle, "p", 3).await;
    assert_eq!(node.last_exit.unwrap().what, Exit::Planned(StopReason::Reload));

    hand.tell(Order::Do(Deed::Hang));
    handle.remove("p").await.unwrap();
    assert_eq!(handle.snapshot().children.len(), 0);
    for refused in [handle.remove("p").await, handle.stop_child("p").await, handle.resume("../p").await] {
        assert_eq!(refused, Err(CommandError::Unknown));
    }
    assert_eq!(hand.name, "p");
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_wait_out_the_backoff_and_counts_against_nobody() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let slow = policy().with_exits_max(1).with_backoff(Duration::from_secs(3000), Duration::from_secs(3000));
    let root = stage.launch(one_for_one("c-now").child(spec.policy(slow))).await;
    let before = tokio::time::Instant::now();
    for incarnation in 1..=4 {
        running(root.handle(), "p", incarnation).await;
        hand.tell(Order::Do(Deed::Panic));
        in_state(root.handle(), "p", ChildState::BackingOff).await;
        root.handle().restart_child("p", RestartCause::Requested).await.unwrap();
    }
    running(root.handle(), "p", 5).await;
    assert!(before.elapsed() < Duration::from_secs(60));
    tokio::time::sleep(Duration::from_secs(9000)).await;
    assert_eq!(root.handle().snapshot().find("p").unwrap().incarnation, 5, "the old timers start nobody");
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_comes_while_a_child_starts_is_kept() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    *lock(&hand.script.post_start) = Some(Deed::Hang);
    let root = launch(one_for_one("c-early").child(spec), stage.env()).await.unwrap();
    in_state(root.handle(), "p", ChildState::Starting).await;
    root.handle().stop_child("p").await.unwrap();
    let node = root.handle().snapshot().find("p").unwrap().clone();
    assert_eq!((node.state, node.incarnation), (ChildState::Stopped, 1));
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_closes_takes_no_more_orders() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let root = stage.launch(one_for_one("c-closing").child(spec)).await;
    hand.tell(Order::Do(Deed::Hang));
    root.stop();
    let (late, _) = stage.puppet("late");
    assert_eq!(root.handle().start_child(late).await, Err(CommandError::Closing));
    assert_eq!(root.handle().stop_child("p").await, Err(CommandError::Closing));
    root.wait().await;
    assert_eq!(root.handle().stop_child("p").await, Err(CommandError::NoSupervisor));
    assert_eq!(root.handle().kill("p"), Err(CommandError::WrongState(ChildState::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn one_set_of_children_has_one_supervisor() {
    let stage = Stage::new();
    let (spec, _) = stage.puppet("p");
    let spec = one_for_one("c-twice").child(spec);
    let root = stage.launch(spec.clone()).await;
    assert!(launch(spec, stage.env()).await.is_err());
    assert_eq!(root.handle().snapshot().find("p").unwrap().state, ChildState::Running);
}

#[test]
fn a_name_is_nothing_that_a_path_or_a_terminal_could_misread() {
    for good in ["log-writer", "document-structure@1", "filesystem:notes", "tagebuch.örtlich"] {
        assert!(ChildName::parse(good).is_ok(), "{good}");
    }
    for bad in ["", "a/b", "a b", "a\nb", "\u{1b}[31m", "\u{202e}x", &"x".repeat(201)] {
        assert!(ChildName::parse(bad).is_err(), "{bad:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn notices_beyond_the_queue_are_counted_and_stop_nobody() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let (queue, mut notices) = NoticeQueue::new(1);
    let env = Env { notices: Arc::new(queue.clone()), ..stage.env() };
    let root = launch(one_for_one("c-full").child(spec), env).await.unwrap();
    for incarnation in 1..=3 {
        running(root.handle(), "p", incarnation).await;
        hand.tell(Order::Do(Deed::Panic));
    }
    running(root.handle(), "p", 4).await;
    assert_eq!(queue.dropped(), 2);
    let first = notices.recv().await.unwrap();
    assert_eq!((&*first.path, first.incarnation, first.at.as_millis()), ("c-full/p", 2, NOW));
}

#[tokio::test(start_paused = true)]
async fn the_timer_of_an_earlier_backoff_ends_no_later_one() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let slow = policy().with_backoff(Duration::from_secs(3000), Duration::from_secs(3000));
    let root = stage.launch(one_for_one("c-timer").child(spec.policy(slow))).await;
    hand.tell(Order::Do(Deed::Panic));
    in_state(root.handle(), "p", ChildState::BackingOff).await;
    tokio::time::sleep(Duration::from_secs(2000)).await;
    root.handle().restart_child("p", RestartCause::Requested).await.unwrap();
    running(root.handle(), "p", 2).await;
    hand.tell(Order::Do(Deed::Panic));
    in_state(root.handle(), "p", ChildState::BackingOff).await;
    tokio::time::sleep(Duration::from_secs(1100)).await;
    assert_eq!(root.handle().snapshot().find("p").unwrap().state, ChildState::BackingOff);
    running(root.handle(), "p", 3).await;
}
