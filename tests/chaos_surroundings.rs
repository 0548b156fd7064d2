//! Bad surroundings around the service in this process: an event nobody can process, a clock that jumps, a record
//! that is damaged, a flood.

use std::sync::Arc;
use std::time::Duration;

use redb::{Database, ReadableTable as _, TableDefinition};
use thoughtstream_actors::clock::PinnedClock;
use thoughtstream_actors::supervisor::{ChildState, Outcome};
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, IdempotencyKey, SourceId};
use thoughtstream_domain::lane::DamagedEvent;
use thoughtstream_domain::lifecycle::{Execution, ExecutionState, RunState};
use thoughtstream_domain::operate::skip_damaged;
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::registry::Registry;
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
fn damage(stage: &Stage, source: &str, sequence: u64, how: impl Fn(&mut Vec<u8>)) -> u64 {
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

/// Gives an event another class of privacy, which stands behind version, flags, id, source and sequence.
fn reclassify(record: &mut [u8]) {
    record[36] ^= 0x30;
}

/// Gives an event the id of none.
fn rename(record: &mut [u8]) {
    record[2] ^= 1;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_event_stops_those_that_need_it_on_its_source_alone() {
    stops_those_that_need_it("damage", cut_short).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_event_is_acted_on_by_nobody() {
    stops_those_that_need_it("forged", forge).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_with_a_forged_header_is_acted_on_by_nobody() {
    stops_those_that_need_it("header", |record| reclassify(record)).await;
}

/// Returns what an actor tells of the damaged events that it stands before.
async fn damaged(stage: &Stage, id: &str) -> serde_json::Value {
    let tree = stage.handle().tree().await.unwrap();
    let node = tree.find(&format!("consumers/{id}")).unwrap();
    assert_ne!(node.state, ChildState::Quarantined, "{id}: {node:#?}");
    assert_eq!(node.restarts, 0, "{id}: {node:#?}");
    serde_json::to_value(&node.detail).unwrap()["damaged"].clone()
}

/// Waits until an actor stands before this damaged event alone.
async fn stands_before(stage: &Stage, id: &str, event: &DamagedEvent) {
    let begun = tokio::time::Instant::now();
    let told = serde_json::json!([event.to_string()]);
    while damaged(stage, id).await != told {
        assert!(begun.elapsed() < PATIENCE, "{id} never stands before {event}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn operator() -> Operator {
    Operator { uid: 1, pid: 1, tty: None }
}

fn act(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

/// Damages the second of three events, and sees those stop there that need it, after the first, on its source and
/// nowhere else, until a person passes it.
async fn stops_those_that_need_it(name: &str, how: fn(&mut Vec<u8>)) {
    let mut stage = Stage::new(name, &["two", "settled", "files"], true);
    stage.start().await;
    let consumers = ["two", "settled"].map(|id| ConsumerId::parse(id).unwrap());
    for id in &consumers {
        stage.decide(id, Decision::Pause).await;
    }
    for number in ["0", "1", "2"] {
        stage.append_all(&[note("notes:a", number, "text", None)]).await;
        stage.append_all(&[note("notes:b", number, "text", None)]).await;
    }
    assert_eq!(stage.stop(false).await, Outcome::Stopped);
    let position = damage(&stage, "notes:a", 2, how);
    let event = DamagedEvent { source: source("notes:a"), sequence: 2, position };
    stage.start().await;
    for id in &consumers {
        stage.decide(id, Decision::Resume).await;
    }
    let progress = |stage: &Stage, id: &str, on: &str| {
        stage.reader().progress(&key(&format!("{id}@1")), &source(on)).unwrap()
    };
    // What stands before it is done, it is not passed, and what is on other sources goes on. A start meets it again.
    for round in 0..2_u64 {
        stage.append_all(&[note("notes:b", &format!("more-{round}"), "text", None)]).await;
        for id in ["two", "settled"] {
            until("the other source is done", || progress(&stage, id, "notes:b") == 4 + round).await;
            stands_before(&stage, id, &event).await;
            until("what stands before it is done", || progress(&stage, id, "notes:a") == 1).await;
        }
        assert_eq!(stage.stop(false).await, Outcome::Stopped);
        stage.start().await;
    }
    std::fs::write(stage.folder().join("a.md"), "# One\n").unwrap();
    stage.handle().look_at(FOLDER).unwrap();
    until("the third one works", || {
        let runs = stage.reader().runs_before(&key("files@1"), None, 10).unwrap();
        runs.iter().any(|run| matches!(run.state, RunState::Completed { .. }))
    })
    .await;
    // A person passes it for one of them.
    let skip = skip_damaged(&key("two@1"), 1, &event, "damaged", operator(), act("pass"));
    let verdict = stage.handle().decide(skip).await.unwrap();
    assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
    stage.handle().consumer_changed(&consumers[0]).await.unwrap();
    until("what stands behind it is done", || progress(&stage, "two", "notes:a") == 3).await;
    assert_eq!(damaged(&stage, "two").await, serde_json::Value::Null);
    assert_eq!(progress(&stage, "settled", "notes:a"), 1);
    let runs = stage.reader().runs_before(&key("two@1"), None, 100).unwrap();
    assert!(runs.iter().all(|run| run.position != position), "{runs:?}");
    assert_eq!(stage.stop(false).await, Outcome::Stopped);
    let store = Store::open(&stage.data(), options()).unwrap();
    let report = verify::verify(&store.reader, verify::Options::default()).unwrap();
    assert!(!report.ok && report.findings[0].place.contains(&position.to_string()), "{:?}", report.findings);
    let is_progress = |finding: &verify::Finding| finding.kind == verify::FindingKind::Progress;
    assert!(!report.findings.iter().any(is_progress), "{:?}", report.findings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_whose_trigger_was_damaged_since_is_opened_no_more_and_can_be_skipped() {
    for (name, how) in [("retry-header", reclassify as fn(&mut [u8])), ("retry-renamed", rename)] {
        let mut stage = Stage::new(name, &["two"], false);
        stage.temper = Temper { stubborn: Some(("two", "bad")), ..Temper::MILD };
        stage.start().await;
        for (key, title) in [("1", Some("bad")), ("2", None)] {
            stage.append_all(&[note("notes:a", key, "text", title)]).await;
        }
        until("it is held", || held(&stage).is_some()).await;
        let mut execution = held(&stage).unwrap();
        let (attempts, now) = (execution.attempts, stage.clock.now());
        assert_eq!(stage.stop(false).await, Outcome::Stopped);
        // It waits for its time, as one does whose trigger is damaged meanwhile.
        let again = execution.retry_now(now, operator(), act("again"));
        {
            let mut store = Store::open(&stage.data(), options()).unwrap();
            store.writer.set_types(Registry::shipped().hashes()).unwrap();
            let verdicts = store.writer.apply(&[again], now).unwrap();
            assert!(matches!(verdicts[..], [Verdict::Committed(_)]), "{verdicts:?}");
            store.writer.close().unwrap();
        }
        let position = damage(&stage, "notes:a", 1, |record| how(record));
        stage.start().await;
        let event = DamagedEvent { source: source("notes:a"), sequence: 1, position };
        stands_before(&stage, "two", &event).await;
        stage.append_all(&[note("notes:b", "1", "text", None)]).await;
        let (two, other) = (key("two@1"), source("notes:b"));
        until("the other source is done", || stage.reader().progress(&two, &other).unwrap() == 1).await;
        let mut waiting = stage.reader().unsettled(&two, 0, 10).unwrap().remove(0);
        assert_eq!(waiting.attempts, attempts, "no attempt was opened");
        let skip = waiting.skip_of(Vec::new(), now, "damaged", operator(), act("pass"));
        let verdict = stage.handle().decide(skip).await.unwrap();
        assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
        stage.handle().consumer_changed(&two.id).await.unwrap();
        until("what stands behind it is done", || {
            stage.reader().progress(&two, &source("notes:a")).unwrap() == 2
        })
        .await;
        assert_eq!(stage.stop(false).await, Outcome::Stopped);
    }
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
