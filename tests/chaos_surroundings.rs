//! Bad surroundings around the service in this process: an event nobody can process, a clock that jumps, a record
//! that is damaged, a flood.

use std::sync::Arc;
use std::time::Duration;

use redb::{Database, ReadableTable as _, TableDefinition};
use thoughtstream_actors::clock::PinnedClock;
use thoughtstream_actors::supervisor::{ChildState, Outcome};
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, SourceId};
use thoughtstream_domain::lifecycle::{Execution, ExecutionState, RunState};
use thoughtstream_store::{Reader, Store, verify};
use thoughtstream_testkit::chaos::cast::Temper;
use thoughtstream_testkit::chaos::stage::{Decision, FOLDER, Stage, note, options};

/// A state that does not come within this time never does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again and again until something is so; not every change is a commit.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn key(text: &str) -> ConsumerKey {
    ConsumerKey::parse(text).unwrap()
}

fn source(text: &str) -> SourceId {
    SourceId::parse(text).unwrap()
}

fn held(stage: &Stage) -> Option<Execution> {
    let unsettled = stage.unsettled(&stage.reader());
    unsettled.into_iter().find(|execution| matches!(execution.state, ExecutionState::Held { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_cannot_be_processed_stops_its_consumer_on_its_source_alone() {
    let mut stage = Stage::new("stubborn", &["two", "settled"], false);
    stage.temper = Temper { stubborn: Some(("two", "bad")), ..Temper::MILD };
    stage.start().await;
    let notes = [
        ("notes:a", "1", Some("bad")),
        ("notes:b", "1", None),
        ("notes:a", "2", None),
        ("notes:b", "2", None),
    ];
    for (source, key, title) in notes {
        stage.append_all(&[note(source, key, "text", title)]).await;
    }
    until("it is held", || held(&stage).is_some()).await;
    let (two, settled) = (key("two@1"), key("settled@1"));
    let progress =
        |stage: &Stage, key: &ConsumerKey, name: &str| stage.reader().progress(key, &source(name)).unwrap();
    until("the others are through", || {
        progress(&stage, &two, "notes:b") == 2
            && progress(&stage, &settled, "notes:a") == 2
            && progress(&stage, &settled, "notes:b") == 2
    })
    .await;
    assert_eq!(progress(&stage, &two, "notes:a"), 0, "nothing overtakes it on its own source");
    // It is exhausted, and stays so however often the service is started.
    let attempts = held(&stage).unwrap().attempts;
    for _ in 0..3 {
        assert_eq!(stage.stop(false).await, Outcome::Stopped);
        stage.start().await;
        until("it is held again", || held(&stage).is_some()).await;
        assert_eq!(held(&stage).unwrap().attempts, attempts);
    }
    // A person's retry fails once more and holds it again; a skip lets the rest go on.
    let execution = held(&stage).unwrap();
    stage.move_on(execution, true).await;
    stage.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_back_stops_nobody_and_time_in_the_log_never_goes_back() {
    const DAY: i64 = 86_400_000;
    let clock = Arc::new(PinnedClock::at(100 * DAY));
    let mut stage = Stage::new("clock", &["two", "batch", "wide"], false);
    stage.clock = Arc::clone(&clock) as _;
    // A first failure waits for a time; on a clock that is pinned it comes only when the clock is moved.
    stage.temper = Temper { fails: 30, seed: 5, ..Temper::MILD };
    stage.start().await;
    for day in [99_i64, 98, 105, 97, 96] {
        let notes: Vec<_> = (0..6).map(|n| note("notes:a", &format!("{day}/{n}"), "text", None)).collect();
        stage.append_all(&notes).await;
        clock.set(day * DAY);
    }
    let ticking = Arc::clone(&clock);
    let ticks = tokio::spawn(async move {
        for tick in 0.. {
            ticking.set(96 * DAY + tick * 20);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    stage.come_to_rest().await;
    let mut last = i64::MIN;
    for event in stage.reader().page_after(0, 1000).unwrap() {
        assert!(event.recorded_at.as_millis() >= last, "time went back at {}", event.position);
        last = event.recorded_at.as_millis();
    }
    stage.judge().await;
    ticks.abort();
}

fn is_paused(reader: &Reader, key: &ConsumerKey) -> bool {
    reader.control(&key.id).unwrap().is_some_and(|control| control.is_paused())
}

/// Cuts a record short, as a disk would that answers with other bytes.
fn cut_short(record: &mut Vec<u8>) {
    record.truncate(record.len() / 2);
}

/// Puts other words into a payload, which still reads as one.
fn forge(record: &mut Vec<u8>) {
    let text = b"text\"}";
    assert!(record.ends_with(text), "the record ends with the payload");
    record.truncate(record.len() - text.len());
    record.extend_from_slice(b"lies\"}");
}

/// Damages the stored record of one event.
fn damage(stage: &Stage, source: &str, sequence: u64, how: fn(&mut Vec<u8>)) -> u64 {
    const EVENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("events");
    let position = {
        let store = Store::open(&stage.data(), options()).unwrap();
        store.reader.event_in(&SourceId::parse(source).unwrap(), sequence).unwrap().unwrap().position
    };
    let database = Database::open(stage.data().join("log.redb")).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut events = write.open_table(EVENTS).unwrap();
        let key = position.to_be_bytes();
        let mut record = events.get(&key[..]).unwrap().unwrap().value().to_vec();
        how(&mut record);
        events.insert(&key[..], &record[..]).unwrap();
    }
    write.commit().unwrap();
    position
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_event_quarantines_those_that_need_it_and_nobody_else() {
    quarantines_those_that_need_it("damage", cut_short).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_event_is_acted_on_by_nobody() {
    quarantines_those_that_need_it("forged", forge).await;
}

/// Damages the second of three events, and sees those stop there that need it, after the first, and nobody else.
async fn quarantines_those_that_need_it(name: &str, how: fn(&mut Vec<u8>)) {
    let mut stage = Stage::new(name, &["two", "settled", "files"], true);
    stage.start().await;
    let two = ConsumerId::parse("two").unwrap();
    let settled = ConsumerId::parse("settled").unwrap();
    stage.decide(&two, Decision::Pause).await;
    stage.decide(&settled, Decision::Pause).await;
    let notes: Vec<_> = (0..3).map(|n| note("notes:a", &n.to_string(), "text", None)).collect();
    for one in notes {
        stage.append_all(&[one]).await;
    }
    assert_eq!(stage.stop(false).await, Outcome::Stopped);
    let position = damage(&stage, "notes:a", 2, how);
    stage.start().await;
    stage.decide(&two, Decision::Resume).await;
    stage.decide(&settled, Decision::Resume).await;
    let state = |tree: &thoughtstream_actors::supervisor::TreeNode, id: &str| {
        tree.find(&format!("consumers/{id}")).map(|node| (node.state, node.restarts))
    };
    let begun = tokio::time::Instant::now();
    let tree = loop {
        let tree = stage.handle().tree().await.unwrap();
        let quarantined =
            |id: &str| state(&tree, id).is_some_and(|(state, _)| state == ChildState::Quarantined);
        if quarantined("two") && quarantined("settled") {
            break tree;
        }
        assert!(begun.elapsed() < PATIENCE, "{tree:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for id in ["two", "settled"] {
        let (_, restarts) = state(&tree, id).unwrap();
        assert!(restarts <= 6, "{id} was tried {restarts} times");
        let node = tree.find(&format!("consumers/{id}")).unwrap();
        assert_eq!(node.last_exit.as_ref().unwrap().reason, Some("store-unreadable"), "{id}");
        let told = serde_json::to_value(&node.detail).unwrap();
        let row = told["unreadable"].as_str().unwrap().split(" (").next().unwrap();
        assert_eq!(row, format!("events {position}"), "{id}: {told}");
        // What stands before it is done, and it is not passed.
        let version = stage.reader().consumers().into_iter().find(|key| key.id.as_str() == id).unwrap();
        assert_eq!(stage.reader().progress(&version, &source("notes:a")).unwrap(), 1, "{id}");
    }
    // The third one works.
    std::fs::write(stage.folder().join("a.md"), "# One\n").unwrap();
    stage.handle().look_at(FOLDER).unwrap();
    until("the third one works", || {
        let runs = stage.reader().runs_before(&key("files@1"), None, 10).unwrap();
        runs.iter().any(|run| matches!(run.state, RunState::Completed { .. }))
    })
    .await;
    assert_eq!(stage.stop(false).await, Outcome::Stopped);
    let store = Store::open(&stage.data(), options()).unwrap();
    let report = verify::verify(&store.reader, verify::Options::default()).unwrap();
    assert!(!report.ok && report.findings[0].place.contains(&position.to_string()), "{:?}", report.findings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_hides_no_decision() {
    const FLOOD: usize = 50_000;
    let mut stage = Stage::new("flood", &["batch", "wide"], false);
    stage.start().await;
    let handle = stage.handle();
    for chunk in 0..FLOOD / 2_000 {
        let notes = (0..2_000).map(|n| note("notes:a", &format!("{:06}", chunk * 2_000 + n), "x", None));
        let commit = Commit { appends: notes.collect(), ..Commit::default() };
        let verdict = handle.decide(commit).await.unwrap();
        assert!(matches!(verdict, Verdict::Committed(_)));
    }
    let reader = stage.reader();
    assert_eq!(reader.head(&source("notes:a")).unwrap().unwrap().sequence, FLOOD as u64);
    assert!(handle.tree().await.is_some_and(|tree| tree.answering));
    // What was paused claims nothing more, while its sibling goes on.
    let (batch, wide) = (key("batch@1"), key("wide@1"));
    stage.decide(&batch.id, Decision::Pause).await;
    // The decision waits its turn in the flood, and whoever made it may have stopped waiting.
    until("the decision is in the log", || is_paused(&reader, &batch)).await;
    until("what was open has ended", || reader.open_attempts(Some(&batch)).unwrap().is_empty()).await;
    let progress = |key: &ConsumerKey| reader.progress(key, &source("notes:a")).unwrap();
    let (paused_at, sibling_at) = (progress(&batch), progress(&wide));
    until("the sibling goes on", || progress(&wide) > sibling_at + 50).await;
    assert_eq!(progress(&batch), paused_at);
    assert!(paused_at < FLOOD as u64, "the flood was over before the decision");
    // A stop in the middle of it drains, and the next service goes on where this one was.
    assert_eq!(stage.stop(false).await, Outcome::Stopped);
    stage.start().await;
    let reader = stage.reader();
    assert_eq!(reader.head(&source("notes:a")).unwrap().unwrap().sequence, FLOOD as u64);
    let before = reader.progress(&wide, &source("notes:a")).unwrap();
    assert!(before >= sibling_at);
    until("it goes on", || reader.progress(&wide, &source("notes:a")).unwrap() > before).await;
    assert_eq!(stage.stop(false).await, Outcome::Stopped);
    let store = Store::open(&stage.data(), options()).unwrap();
    assert_eq!(store.reader.progress(&batch, &source("notes:a")).unwrap(), paused_at, "it is still paused");
    let report = verify::verify(&store.reader, verify::Options::default()).unwrap();
    assert!(report.ok, "{:?}", report.findings);
}
