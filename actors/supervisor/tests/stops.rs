//! Going down: in order, within bounds, and by force.

use super::*;

#[tokio::test(start_paused = true)]
async fn children_stop_against_their_start_order_each_after_the_other() {
    let stage = Stage::new();
    let children = ["a", "b", "c"].map(|name| stage.with_hook(stage.puppet(name).0));
    let [a, b, c] = children;
    let b = b.shutdown(Shutdown::Drain(Duration::from_secs(5)));
    let inner = one_for_one("inner").child(b);
    let root = stage.launch(one_for_one("s-order").child(a).nested(inner).child(c)).await;
    stage.journal.take();
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped);
    let expected = [
        "down c#1",
        "closed c#1 planned:shutdown",
        "down b#1",
        "closed b#1 planned:drained",
        "down a#1",
        "closed a#1 planned:shutdown",
    ];
    assert_eq!(stage.journal.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn draining_handles_what_is_in_the_mailbox_first() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let spec = spec.shutdown(Shutdown::Drain(Duration::from_secs(5)));
    let root = stage.launch(one_for_one("s-drain").child(spec)).await;
    for _ in 0..3 {
        hand.tell(Order::Settle);
    }
    root.stop();
    root.wait().await;
    assert_eq!(stage.journal.take(), ["up p#1", "settled p#1", "settled p#1", "settled p#1", "down p#1"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_ignores_its_stop_is_killed_after_its_bound() {
    let stage = Stage::new();
    let (hung, hung_hand) = stage.puppet("hung");
    let (first, _) = stage.puppet("first");
    let root = stage.launch(one_for_one("s-hung").child(first).child(stage.with_hook(hung))).await;
    hung_hand.tell(Order::Do(Deed::Hang));
    let before = tokio::time::Instant::now();
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped);
    assert_eq!(before.elapsed().as_secs(), Shutdown::STOP_WITHIN.as_secs());
    assert_eq!(stage.journal.take()[2..], ["closed hung#1 killed", "down first#1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_child_in_blocking_work_does_not_hold_the_tree_up() {
    let stage = Stage::new();
    let (deaf, deaf_hand) = stage.puppet("deaf");
    let (first, _) = stage.puppet("first");
    let deaf = deaf.shutdown(Shutdown::Stop(Duration::from_millis(10)));
    let root = stage.launch(one_for_one("s-deaf").child(first).child(deaf)).await;
    let gate = Arc::new(Gate::default());
    deaf_hand.tell(Order::Block(gate.clone()));
    gate.entered.notified().await;

    let stopped = root.handle().stop_child("deaf").await;
    assert_eq!(stopped, Err(CommandError::NotAnswering));
    let node = root.handle().snapshot().find("deaf").unwrap().clone();
    assert_eq!((node.state, node.answering), (ChildState::Stopping, false));
    assert_eq!(stage.notices.words(), ["s-deaf/deaf incident"]);

    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped, "the rest went down in order");
    assert_eq!(stage.journal.take().last().unwrap(), "down first#1");
    gate.open();
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_ends_everything_at_once() {
    let stage = Stage::new();
    let (hung, hung_hand) = stage.puppet("hung");
    let (inner_hung, inner_hand) = stage.puppet("inner-hung");
    let slow = Shutdown::Stop(Duration::from_secs(3600));
    let inner = one_for_one("inner").child(inner_hung.shutdown(slow)).close_within(Duration::from_secs(7200));
    let root = stage.launch(one_for_one("s-hard").nested(inner).child(hung.shutdown(slow))).await;
    hung_hand.tell(Order::Do(Deed::Hang));
    inner_hand.tell(Order::Do(Deed::Hang));
    let before = tokio::time::Instant::now();
    root.stop();
    in_state(root.handle(), "hung", ChildState::Stopping).await;
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped);
    assert!(before.elapsed() < Duration::from_secs(60), "nobody waits for an hour");
    for hand in [hung_hand, inner_hand] {
        hand.address.get().unwrap().wait(None).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_subtree_that_does_not_close_in_time_is_killed_whole() {
    let stage = Stage::new();
    let (hung, hung_hand) = stage.puppet("hung");
    let hung = hung.shutdown(Shutdown::Stop(Duration::from_secs(3600)));
    let inner = one_for_one("inner").child(hung).close_within(Duration::from_secs(9));
    let root = stage.launch(one_for_one("s-late").nested(inner)).await;
    hung_hand.tell(Order::Do(Deed::Hang));
    let before = tokio::time::Instant::now();
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped);
    assert_eq!(before.elapsed().as_secs(), 9);
    hung_hand.address.get().unwrap().wait(None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_stopped_without_being_asked_still_stops_its_children() {
    let stage = Stage::new();
    let [a, b] = ["a", "b"].map(|name| stage.puppet(name).0);
    let inner = one_for_one("inner").child(a).child(b);
    let root = stage.launch(one_for_one("s-raw").nested(inner)).await;
    stage.journal.take();
    ractor::registry::where_is("s-raw/inner").unwrap().stop(Some(StopReason::Finished.stop_text()));
    running(root.handle(), "inner", 2).await;
    root.handle().wait_started().await;
    assert_eq!(stage.journal.take(), ["down b#1", "down a#1", "up a#2", "up b#2"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_for_its_next_start_does_not_hold_the_stop_up() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let spec = spec.policy(policy().with_backoff(Duration::from_secs(600), Duration::from_secs(600)));
    let root = stage.launch(one_for_one("s-wait").child(spec)).await;
    hand.tell(Order::Do(Deed::Panic));
    let node = in_state(root.handle(), "p", ChildState::BackingOff).await;
    assert!(node.next_start_at.unwrap().as_millis() > NOW);
    let before = tokio::time::Instant::now();
    root.stop();
    root.wait().await;
    assert!(before.elapsed() < Duration::from_secs(1));
}
