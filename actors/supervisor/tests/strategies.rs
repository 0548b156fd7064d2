//! Who is restarted together, and who waits for whom.

use super::*;

fn group(name: &'static str, strategy: Strategy) -> SupervisorSpec {
    SupervisorSpec::new(ChildName::fixed(name), strategy)
}

async fn all_running(root: &Root, incarnations: [u64; 3]) {
    for (name, incarnation) in ["a", "b", "c"].into_iter().zip(incarnations) {
        running(root.handle(), name, incarnation).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rest_for_one_stops_those_after_it_and_starts_them_behind_it() {
    let stage = Stage::new();
    let [(a, _), (b, b_hand), (c, _)] = ["a", "b", "c"].map(|name| stage.puppet(name));
    let root = group("r-rest", Strategy::RestForOne).child(a).child(b).child(stage.with_hook(c));
    let root = stage.launch(root).await;
    assert_eq!(stage.journal.take(), ["up a#1", "up b#1", "up c#1"]);
    b_hand.tell(Order::Do(Deed::Panic));
    all_running(&root, [1, 2, 2]).await;
    assert_eq!(stage.journal.take(), ["down c#1", "closed c#1 planned:group", "up b#2", "up c#2"]);
}

#[tokio::test(start_paused = true)]
async fn one_for_all_stops_and_starts_everybody_in_order() {
    let stage = Stage::new();
    let [(a, _), (b, b_hand), (c, _)] = ["a", "b", "c"].map(|name| stage.puppet(name));
    let root = stage.launch(group("r-all", Strategy::OneForAll).child(a).child(b).child(c)).await;
    stage.journal.take();
    b_hand.tell(Order::Do(Deed::Panic));
    all_running(&root, [2, 2, 2]).await;
    assert_eq!(stage.journal.take(), ["down c#1", "down a#1", "up a#2", "up b#2", "up c#2"]);
}

#[tokio::test(start_paused = true)]
async fn one_for_all_with_a_sibling_in_a_long_step_waits_for_it() {
    let stage = Stage::new();
    let [(a, a_hand), (b, b_hand), (c, _)] = ["a", "b", "c"].map(|name| stage.puppet(name));
    let root = stage.launch(group("r-long", Strategy::OneForAll).child(a).child(b).child(c)).await;
    a_hand.tell(Order::Do(Deed::Hang));
    b_hand.tell(Order::Do(Deed::Panic));
    all_running(&root, [2, 2, 2]).await;
    assert!(stage.notices.kinds().iter().all(|kind| matches!(kind, NoticeKind::Restarted { .. })));
    assert_eq!(root.handle().snapshot().find("a").unwrap().last_exit.unwrap().what, Exit::Killed);
}

#[tokio::test(start_paused = true)]
async fn siblings_of_one_group_that_fall_together_rise_together() {
    for strategy in [Strategy::RestForOne, Strategy::OneForAll] {
        let stage = Stage::new();
        let [(a, a_hand), (b, b_hand), (c, c_hand)] = ["a", "b", "c"].map(|name| stage.puppet(name));
        let root = stage.launch(group("r-fall", strategy).child(a).child(b).child(c)).await;
        for hand in [&c_hand, &a_hand, &b_hand] {
            hand.tell(Order::Do(Deed::Panic));
        }
        all_running(&root, [2, 2, 2]).await;
        root.stop();
        assert_eq!(root.wait().await, Outcome::Stopped, "{strategy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dependents_wait_until_the_one_before_is_up_however_long_that_takes() {
    let stage = Stage::new();
    let [(a, a_hand), (b, _), (c, _)] = ["a", "b", "c"].map(|name| stage.puppet(name));
    *lock(&a_hand.script.pre_start) = Some(Deed::Fail);
    let spec = group("r-gate", Strategy::RestForOne).child(a).child(b).child(c);
    let root = launch(spec, stage.env()).await.unwrap();
    in_state(root.handle(), "a", ChildState::BackingOff).await;
    assert_eq!(root.handle().snapshot().find("b").unwrap().incarnation, 0);
    all_running(&root, [2, 1, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn those_that_depend_on_a_quarantined_child_wait_for_it() {
    let stage = Stage::new();
    let [(a, _), (b, b_hand), (c, _)] = ["a", "b", "c"].map(|name| stage.puppet(name));
    let b = b.policy(policy().with_exits_max(0));
    let root = stage.launch(group("r-quarantine", Strategy::RestForOne).child(a).child(b).child(c)).await;
    b_hand.tell(Order::Do(Deed::Panic));
    in_state(root.handle(), "b", ChildState::Quarantined).await;
    let waiting =
        root.handle().wait_until("c", |node| node.state == ChildState::Starting && node.incarnation == 1);
    assert_eq!(waiting.await.note.unwrap().as_str(), "waits-for-sibling");
    root.handle().wait_started().await;
    root.handle().resume("b").await.unwrap();
    all_running(&root, [1, 2, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn the_one_that_fell_starts_only_when_those_behind_it_are_gone() {
    let stage = Stage::new();
    let [(a, a_hand), (b, b_hand), (c, _)] = ["a", "b", "c"].map(|name| stage.puppet(name));
    let spec = group("r-behind", Strategy::RestForOne).child(a).child(stage.with_hook(b)).child(c);
    let root = stage.launch(spec).await;
    stage.journal.take();
    b_hand.tell(Order::Do(Deed::Hang));
    a_hand.tell(Order::Do(Deed::Panic));
    all_running(&root, [2, 2, 2]).await;
    assert_eq!(stage.journal.take(), ["down c#1", "closed b#1 killed", "up a#2", "up b#2", "up c#2"]);
}
