//! What is kept between two looks says what a first look says, and costs what is new.

use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::event::{Actor, ActorKind, Envelope};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::IdempotencyKey;
use thoughtstream_domain::lifecycle::{AdapterRevision, FailurePolicy, Frame};
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::retry::{Exhausted, RetryPolicy};
use thoughtstream_store::{Options, Store};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000);

/// A log in which `a@1` fails.
struct Log {
    store: Store,
    events: u64,
    _directory: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        Store::create(&data, [7; 16], Options::default()).unwrap();
        let mut store = Store::open(&data, Options::default()).unwrap();
        store.writer.set_types(Registry::shipped().hashes()).unwrap();
        Self { store, events: 0, _directory: directory }
    }

    fn commit(&mut self, commit: Commit) {
        let verdicts = self.store.writer.apply(&[commit], NOW).unwrap();
        assert!(matches!(&verdicts[..], [Verdict::Committed(_)]), "{verdicts:?}");
    }

    /// Appends an event and fails once for each policy on it.
    fn fail(&mut self, policies: &[FailurePolicy]) -> Execution {
        let source = SourceId::parse("notes:a").unwrap();
        self.events += 1;
        let key = IdempotencyKey::parse(&self.events.to_string()).unwrap();
        let actor = Actor::ours(ActorKind::Person, "uid:1");
        let envelope = Envelope::new(source.clone(), key, Privacy::Private, actor);
        let note = Note { text: "x".to_owned(), title: None, tags: Vec::new() }.candidate(envelope);
        self.commit(Commit { appends: vec![note], ..Commit::default() });
        let event = self.store.reader.event_in(&source, self.events).unwrap().unwrap();
        let frame = Frame {
            consumer: key_of("a@1"),
            fingerprint: Sha256Hash::of(b""),
            privacy_floor: Privacy::Private,
            incarnation: 1,
            now: NOW,
            adapter: AdapterRevision::deterministic(),
        };
        let mut execution = Execution::fix(&frame, &[event]);
        for policy in policies {
            let open = execution.open(&frame, self.events - 1);
            self.commit(open);
            let failed = execution.fail(&frame, NOW, "code", *policy);
            self.commit(failed);
        }
        execution
    }

    fn look(&self, failures: &Failures) -> (Vec<String>, Option<(u64, RunId)>) {
        let mut found = failures.look(&self.store.reader, &[key_of("a@1")].into()).unwrap();
        let LeftBehind { unprocessed, refused } = found.remove(&key_of("a@1").id).unwrap();
        let shown = unprocessed.iter().map(|(execution, _)| execution.id.to_string()).collect();
        (shown, refused.map(|(count, last)| (count, last.stamp.run)))
    }
}

fn key_of(text: &str) -> ConsumerKey {
    ConsumerKey::parse(text).unwrap()
}

/// Returns how many events were read for everything so far.
fn read(failures: &Failures) -> u64 {
    failures.0.lock().unwrap().read
}

const AGAIN: FailurePolicy = FailurePolicy::Retryable(RetryPolicy {
    attempts: 9,
    first_ms: 0,
    max_ms: 0,
    exhausted: Exhausted::Quarantine,
});
const PASSED: FailurePolicy = FailurePolicy::Unprocessable(Exhausted::Advance);
const REFUSED: FailurePolicy = FailurePolicy::Final;

#[test]
fn a_look_costs_what_came_since_the_last_one_however_often_a_consumer_has_failed() {
    let (mut log, kept) = (Log::new(), Failures::default());
    let mut passed = Vec::new();
    for number in 0..12 {
        let last = if number % 3 == 0 { PASSED } else { REFUSED };
        let execution = log.fail(&[AGAIN, AGAIN, last]);
        if last == PASSED {
            passed.push(execution);
        }
    }
    let shown = |passed: &[Execution]| passed.iter().map(|e| e.id.to_string()).collect::<Vec<_>>();
    let (listed, refused) = log.look(&kept);
    assert_eq!((listed, refused.unwrap().0), (shown(&passed), 8));
    assert_eq!(read(&kept), 36);
    for _ in 0..3 {
        assert_eq!(log.look(&kept), log.look(&Failures::default()));
        assert_eq!(read(&kept), 36, "nothing is read twice");
    }
    // Each end that comes is read once, whatever it means.
    let refused = log.fail(&[AGAIN, REFUSED]);
    passed.push(log.fail(&[PASSED]));
    assert_eq!(log.look(&kept), (shown(&passed), Some((9, refused.run_id()))));
    assert_eq!(read(&kept), 39);
    // What a person has seen is shown no more, and nothing is read to know that.
    let mut seen = passed.remove(0);
    let key = IdempotencyKey::parse("seen").unwrap();
    log.commit(seen.skip(NOW, "seen", Operator { uid: 1, pid: 1, tty: None }, key));
    assert_eq!(log.look(&kept).0, shown(&passed));
    assert_eq!(log.look(&kept), log.look(&Failures::default()));
    assert_eq!(read(&kept), 39);
}

#[test]
fn a_consumer_that_is_not_enabled_has_left_nothing_behind_that_is_shown() {
    let (mut log, kept) = (Log::new(), Failures::default());
    log.fail(&[PASSED]);
    assert!(kept.look(&log.store.reader, &BTreeSet::new()).unwrap().is_empty());
    assert_eq!(read(&kept), 0);
    assert_eq!(log.look(&kept).0.len(), 1);
}

#[test]
fn what_is_about_no_document_is_named_by_the_type_and_key_of_its_event() {
    let mut log = Log::new();
    let execution = log.fail(&[PASSED]);
    let about = super::super::about(&log.store.reader, &execution).unwrap().unwrap();
    assert_eq!(about.event, execution.triggers[0].id);
    assert_eq!(about.shown(), "stream.thought.source.note 1 of notes:a");
}
