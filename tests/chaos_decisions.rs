//! A person's decisions that race what a consumer does: it may hand work in before it learns of them.

use std::time::Duration;

use thoughtstream_actors::supervisor::{Outcome, TreeNode};
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::id::{ConsumerId, IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::RunState;
use thoughtstream_domain::operate;
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_testkit::chaos::stage::{Stage, note};

/// A state that does not come within this time never does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two commits one at a time, one commit, side by side, side by side in batches.
const PARTS: [&str; 4] = ["two", "settled", "wide", "broad"];

fn ids() -> impl Iterator<Item = ConsumerId> {
    PARTS.iter().map(|id| ConsumerId::parse(id).unwrap())
}

/// Puts a decision into the log and tells nobody.
async fn decide_silently(stage: &Stage, id: &ConsumerId, pause: bool, number: usize) {
    let handle = stage.handle();
    let control = handle.reader().control(id).unwrap();
    let key = IdempotencyKey::parse(&format!("silent/{number}/{id}/{pause}")).unwrap();
    let operator = Operator { uid: 7, pid: 7, tty: None };
    let commit = if pause {
        operate::pause(id, control.as_ref(), None, operator, Timestamp::from_millis(1), key)
    } else {
        operate::resume(id, control.as_ref(), operator, key)
    };
    let verdict = handle.decide(commit.unwrap()).await.unwrap();
    assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
}

async fn append(stage: &Stage, keys: std::ops::Range<usize>) {
    let notes = keys.map(|n| note("notes:a", &format!("{n:05}"), "text", None)).collect();
    let verdict = stage.handle().decide(Commit { appends: notes, ..Commit::default() }).await.unwrap();
    assert!(matches!(verdict, Verdict::Committed(_)));
}

/// Looks at every consumer in the tree until all are as wanted.
async fn until(stage: &Stage, what: &str, is_so: impl Fn(&TreeNode) -> bool) {
    let begun = tokio::time::Instant::now();
    loop {
        let tree = stage.handle().tree().await.unwrap();
        let mut nodes = PARTS.iter().map(|id| tree.find(&format!("consumers/{id}")).unwrap());
        if nodes.all(&is_so) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "never came: {what}: {tree:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn restarts(tree: &TreeNode) -> u64 {
    PARTS.iter().map(|id| tree.find(&format!("consumers/{id}")).unwrap().restarts).sum()
}

fn is_through(stage: &Stage, head: u64) -> bool {
    let (reader, notes) = (stage.reader(), SourceId::parse("notes:a").unwrap());
    let declarations = stage.handle().declarations();
    declarations.enabled().all(|declaration| reader.progress(declaration.key(), &notes).unwrap() == head)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_was_not_told_of_its_pause_learns_it_at_the_door() {
    let mut stage = Stage::new("untold", &PARTS, false);
    stage.start().await;
    append(&stage, 0..8).await;
    until(&stage, "they are through", |_| is_through(&stage, 8)).await;
    for id in ids() {
        decide_silently(&stage, &id, true, 0).await;
    }
    append(&stage, 8..40).await;
    until(&stage, "they learn of it", |node| node.note.is_some_and(|note| note.as_str() == "paused")).await;
    let reader = stage.reader();
    assert!(reader.open_attempts(None).unwrap().is_empty());
    for declaration in stage.handle().declarations().enabled() {
        let notes = SourceId::parse("notes:a").unwrap();
        assert_eq!(reader.progress(declaration.key(), &notes).unwrap(), 8);
        let runs = reader.runs_before(declaration.key(), None, 100).unwrap();
        assert!(runs.len() <= 8 && runs.iter().all(|run| matches!(run.state, RunState::Completed { .. })));
    }
    for id in ids() {
        decide_silently(&stage, &id, false, 1).await;
        stage.handle().consumer_changed(&id).await.unwrap();
    }
    until(&stage, "they go on", |_| is_through(&stage, 40)).await;
    assert_eq!(restarts(&stage.handle().tree().await.unwrap()), 0);
    stage.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_in_quick_succession_lose_nothing_and_restart_nobody() {
    const ROUNDS: usize = 40;
    let mut stage = Stage::new("quick", &PARTS, false);
    stage.start().await;
    for round in 0..ROUNDS {
        append(&stage, round * 10..(round + 1) * 10).await;
        for id in ids() {
            decide_silently(&stage, &id, true, round).await;
            // Now and then they are told in between, and now and then only of the second.
            if round % 3 == 0 {
                stage.handle().consumer_changed(&id).await.unwrap();
            }
            decide_silently(&stage, &id, false, round).await;
            stage.handle().consumer_changed(&id).await.unwrap();
        }
    }
    until(&stage, "all is done", |_| is_through(&stage, (ROUNDS * 10) as u64)).await;
    assert_eq!(restarts(&stage.handle().tree().await.unwrap()), 0);
    // A pause at the very end stays.
    for id in ids() {
        decide_silently(&stage, &id, true, ROUNDS).await;
    }
    assert_eq!(stage.stop(false).await, Outcome::Stopped);
    stage.start().await;
    until(&stage, "they are paused", |node| node.note.is_some_and(|note| note.as_str() == "paused")).await;
    stage.judge().await;
}
