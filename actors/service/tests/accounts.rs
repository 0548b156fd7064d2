//! Reservations that many ask for at once, and what recovery does with those of the dead.

use std::sync::{Arc, Mutex};

use ractor::Actor;
use thoughtstream_domain::accounting::{Amounts, Ceiling, Limit, OnExhaustion, Policy, Window};
use thoughtstream_domain::commit::{Commit, Refusal, Verdict};
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Envelope};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::{AdapterRevision, Admission, Execution, Frame};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::disk::Disk;
use thoughtstream_store::sim::SimDisk;
use thoughtstream_store::{Options, Store, create_on, verify};

use super::super::ledger::StoreLedger;
use crate::clock::PinnedClock;
use crate::killpoint::KillPoints;
use crate::log::{LogHandle, LogWriter, WriterArgs};
use crate::recovery::Recoverer;

/// How many ask at once, and how many may.
const WANTED: u64 = 40;
const ADMITTED: u64 = 7;

const NOW: i64 = 1_000_000;

fn note(number: u64) -> Commit {
    let source = SourceId::parse(&format!("notes:n{number}")).unwrap();
    let key = IdempotencyKey::parse("only").unwrap();
    let person = EventActor::ours(ActorKind::Person, "uid:1");
    let note = Note { text: "a question".to_owned(), title: None, tags: vec![] };
    let envelope = Envelope::new(source, key, Privacy::Private, person);
    Commit { appends: vec![note.candidate(envelope)], ..Commit::default() }
}

fn frame() -> Frame {
    Frame {
        consumer: ConsumerKey::parse("asks@1").unwrap(),
        fingerprint: Sha256Hash::of(b"declaration"),
        privacy_floor: Privacy::Private,
        incarnation: 1,
        now: Timestamp::from_millis(NOW),
        adapter: AdapterRevision::observer_cell(),
    }
}

fn policy() -> Arc<Policy> {
    let reserve = Amounts { calls: 1, input_tokens: 500, output_tokens: 100, cost_microusd: None };
    let most = Ceiling { input_tokens: Some(500 * ADMITTED), ..Ceiling::default() };
    let limits = vec![Limit { window: Window::Hour, most }];
    Arc::new(Policy { reserve, lease_ms: 60_000, limits, on_exhaustion: OnExhaustion::Defer })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_made_at_once_never_pass_a_limit_together_and_the_dead_are_charged_in_full() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(5));
    create_on(&disk, [7; 16], Options::default()).unwrap();
    let Store { reader, mut writer } = Store::open_on(disk, Options::default()).unwrap();
    writer.set_types(Registry::shipped().hashes()).unwrap();
    let clock = Arc::new(PinnedClock::at(NOW));
    let log = LogHandle::default();
    let args = WriterArgs {
        log: log.clone(),
        ledger: Arc::new(Mutex::new(StoreLedger::new(writer, reader.clone(), clock.clone(), 0))),
        points: KillPoints::disabled(),
        path: "log".into(),
        status: Arc::default(),
        now: Arc::new(|| Timestamp::from_millis(NOW)),
    };
    let (_writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    for number in 0..WANTED {
        assert!(matches!(log.commit(note(number)).await, Ok(Verdict::Committed(_))));
    }
    let notes = reader.page_after(0, 1000).unwrap();
    let asking: Vec<_> = notes
        .iter()
        .map(|event| {
            let mut execution = Execution::fix(&frame(), std::slice::from_ref(event));
            let admission = Admission { policy: policy(), rows: Vec::new() };
            let (commit, _) = execution.open_admitted(&frame(), 0, admission);
            let log = log.clone();
            tokio::spawn(async move { log.commit(commit).await.unwrap() })
        })
        .collect();
    let mut admitted = 0;
    for answer in asking {
        match answer.await.unwrap() {
            Verdict::Committed(_) => admitted += 1,
            Verdict::Refused(Refusal::OverBudget { denial, .. }) => {
                assert_eq!((denial.used, denial.most), (500 * ADMITTED, 500 * ADMITTED));
                assert_eq!(denial.retry_at, Timestamp::from_millis(3_600_000));
            }
            other @ (Verdict::AlreadyCommitted(_) | Verdict::Conflict(_) | Verdict::Refused(_)) => {
                panic!("{other:?}")
            }
        }
    }
    assert_eq!(admitted, ADMITTED);

    let recoverer = Recoverer {
        reader: reader.clone(),
        log: log.clone(),
        clock,
        policy_of: Arc::new(|_| None),
        site: KillPoints::disabled().site("recovery".into(), None),
        incarnation: 2,
    };
    assert_eq!(recoverer.close_open(None, "service-ended").await.unwrap(), 7);
    assert_eq!(recoverer.close_open(None, "service-ended").await.unwrap(), 0);
    let account = reader.account(&frame().consumer.id, &[], None).unwrap();
    assert!(account.open.is_empty());
    assert_eq!(account.ever.estimated.input_tokens, 500 * ADMITTED, "what may have been asked was paid for");
    let report = verify::verify(&reader, verify::Options::default()).unwrap();
    assert!(report.ok, "{:?}", report.findings);
    log.close();
    joined.await.unwrap();
}
