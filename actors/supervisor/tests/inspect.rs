//! Looking changes nothing, and nobody can hold the answer up.

use super::*;

#[tokio::test(start_paused = true)]
async fn looking_twice_shows_the_same_and_stop_still_reaches_every_child() {
    let stage = Stage::new();
    let [(a, _), (b, _)] = ["a", "b"].map(|name| stage.puppet(name));
    let root = stage.launch(one_for_one("i-twice").child(a).nested(one_for_one("inner").child(b))).await;
    let first = root.handle().tree().await;
    for _ in 0..100 {
        assert_eq!(root.handle().tree().await, first);
    }
    assert_eq!(first.find("inner/b").unwrap().state, ChildState::Running);
    root.stop();
    root.wait().await;
    assert_eq!(stage.journal.take()[2..], ["down b#1", "down a#1"]);
}

#[tokio::test(start_paused = true)]
async fn an_inspector_that_gave_up_is_no_error() {
    let stage = Stage::new();
    let (spec, _) = stage.puppet("p");
    let root = stage.launch(one_for_one("i-gone").nested(one_for_one("inner").child(spec))).await;
    for _ in 0..100 {
        let handle = root.handle().clone();
        let looking = tokio::spawn(async move { handle.tree().await });
        tokio::task::yield_now().await;
        looking.abort();
    }
    let tree = root.handle().tree().await;
    assert_eq!(tree.find("inner").map(|inner| (inner.state, inner.restarts)), Some((ChildState::Running, 0)));
    assert!(tree.answering && tree.find("inner").unwrap().answering);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_answers_no_probe_is_shown_as_such_and_holds_nothing_up() {
    let stage = Stage::new();
    let (journal, name) = (stage.journal.clone(), ChildName::fixed("silent"));
    let silent = ChildSpec::new(name, "puppet", move |context| {
        let (journal, status) = (journal.clone(), context.status.clone());
        async move {
            let strings = Strings { name: "silent".into(), journal, script: Arc::default(), status };
            let actor = context.spawn(Puppet, strings).await?;
            Ok(Started::new(actor.get_cell()).probed_by(|| Box::pin(std::future::pending())))
        }
    });
    let (well, _) = stage.puppet("well");
    let root = stage.launch(one_for_one("i-silent").child(silent).child(well)).await;
    let tree = root.handle().tree().await;
    assert!(!tree.find("silent").unwrap().answering);
    assert!(tree.find("well").unwrap().answering);
    assert_eq!(tree.find("silent").unwrap().state, ChildState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_busy_child_still_says_what_it_is_doing() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let root = stage.launch(one_for_one("i-busy").child(spec)).await;
    hand.tell(Order::Settle);
    hand.tell(Order::Do(Deed::Hang));
    let slot = root.handle().roster().by_name("p").unwrap();
    let status = slot.with(|record| record.status.clone());
    status.note(Some(ReasonCode::new("waiting-for-budget")));
    status.set("behind", Detail::Count(12));
    status.set("run", Detail::id(&"run_7f"));
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let node = root.handle().tree().await.find("p").unwrap().clone();
    assert_eq!(
        serde_json::to_value(&node).unwrap(),
        serde_json::json!({
            "name": "p", "kind": "puppet", "state": "running", "since": "2023-11-14T22:13:20.000Z", "restarts": 0,
            "incarnation": 1, "answering": true, "settled": 1, "note": "waiting-for-budget",
            "detail": {"behind": 12, "run": "run_7f"}, "children": [],
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_incarnation_does_not_inherit_what_the_last_one_said() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let root = stage.launch(one_for_one("i-fresh").child(spec)).await;
    let slot = root.handle().roster().by_name("p").unwrap();
    let old = slot.with(|record| record.status.clone());
    old.set("behind", Detail::Count(12));
    hand.tell(Order::Do(Deed::Panic));
    let node = running(root.handle(), "p", 2).await;
    old.note(Some(ODD));
    assert!(node.detail.is_empty());
    assert_eq!(root.handle().snapshot().find("p").unwrap().note, None, "an old task speaks for nobody");
}
