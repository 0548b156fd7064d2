//! What of a notice is in the log afterwards, and what a person decided meanwhile.

use std::sync::Mutex as StdMutex;

use thoughtstream_domain::commit::Control;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, IdempotencyKey};
use thoughtstream_domain::lifecycle::{AdapterRevision, Execution, Frame};
use thoughtstream_domain::operate;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::retry::{Interrupted, RetryPolicy};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::disk::Disk;
use thoughtstream_store::sim::SimDisk;
use thoughtstream_store::{Options, Store, create_on};

use super::*;
use crate::clock::PinnedClock;
use crate::killpoint::KillPoints;
use crate::log::{LogWriter, WriterArgs};
use crate::recovery::interruption;
use crate::service::StoreLedger;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const FAULT: Exit = Exit::Failed(ReasonCode::new("told-to"));

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

fn links() -> ConsumerId {
    ConsumerId::parse("links").unwrap()
}

async fn scribe() -> ScribeArgs {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(5));
    create_on(&disk, [7; 16], Options::default()).unwrap();
    let Store { reader, mut writer } = Store::open_on(disk, Options::default()).unwrap();
    writer.set_types(Registry::shipped().hashes()).unwrap();
    let clock = Arc::new(PinnedClock::at(NOW.as_millis()));
    let log = LogHandle::default();
    let writer = WriterArgs {
        log: log.clone(),
        ledger: Arc::new(StdMutex::new(StoreLedger::new(writer, reader.clone(), clock, 0))),
        points: KillPoints::disabled(),
        path: "log".into(),
        status: Arc::default(),
        now: Arc::new(|| NOW),
    };
    ractor::Actor::spawn(None, LogWriter, writer).await.unwrap();
    let (_, notices) = mpsc::channel(1);
    let notices = Arc::new(Mutex::new(notices));
    ScribeArgs { notices, log, reader, incarnation: 1, status: Arc::default() }
}

fn quarantined() -> Notice {
    let what = NoticeKind::Quarantined { exit: FAULT, exits: 6 };
    Notice { path: "thoughtstream/consumers/links".into(), kind: "consumer", incarnation: 6, at: NOW, what }
}

fn person() -> Operator {
    Operator { uid: 1000, pid: 7, tty: None }
}

async fn is_in(args: &ScribeArgs, commit: Commit) {
    let verdict = args.log.commit(commit).await.unwrap();
    assert!(verdict.placed().is_some(), "{verdict:?}");
}

#[tokio::test]
async fn a_pause_that_a_person_decides_meanwhile_is_not_overwritten() {
    let args = scribe().await;
    // What was read before the pause says nothing of it.
    let stale = commit(&args, &quarantined()).unwrap();
    let pause = operate::pause(&links(), None, Some("look first".to_owned()), person(), NOW, key("p"));
    is_in(&args, pause.unwrap()).await;
    let refused = args.log.commit(stale).await.unwrap();
    assert!(matches!(refused, Verdict::Refused(Refusal::Precondition { .. })), "{refused:?}");
    assert!(record(&args, &quarantined()).await);
    let control = args.reader.control(&links()).unwrap().unwrap();
    let expected = Control {
        paused_since: Some(NOW),
        pause_reason: Some("look first".to_owned()),
        quarantined_since: Some(NOW),
        quarantine_code: Some("told-to".to_owned()),
    };
    assert_eq!(control, expected);
}

#[tokio::test]
async fn a_quarantine_names_the_event_that_the_consumer_could_not_get_past() {
    let args = scribe().await;
    let source = SourceId::parse("notes:a").unwrap();
    let actor = EventActor::ours(ActorKind::Person, "uid:1");
    let notes = ["1", "2"].map(|number| {
        let note = Note { text: "x".to_owned(), title: None, tags: Vec::new() };
        note.candidate(Envelope::new(source.clone(), key(number), Privacy::Private, actor.clone()))
    });
    is_in(&args, Commit { appends: notes.into(), ..Commit::default() }).await;
    let events = args.reader.source_page(&source, 0, 10).unwrap();
    let frame = Frame {
        consumer: ConsumerKey::parse("links@1").unwrap(),
        fingerprint: Sha256Hash::of(b"declaration"),
        adapter: AdapterRevision::deterministic(),
        privacy_floor: Privacy::Private,
        incarnation: 1,
        now: NOW,
    };
    for (event, code) in [(&events[0], "provider-failed"), (&events[1], interruption(FAULT))] {
        let mut execution = Execution::fix(&frame, std::slice::from_ref(event));
        is_in(&args, execution.open(&frame, 0)).await;
        let retry = RetryPolicy::default();
        is_in(&args, execution.interrupt(&frame, NOW, code, Interrupted::default(), retry)).await;
    }
    assert!(record(&args, &quarantined()).await);
    let events_of_supervision = args.reader.source_page(&SourceId::supervision(), 0, 10).unwrap();
    let quarantined: Quarantined = events_of_supervision[0].payload_as().unwrap();
    assert_eq!((quarantined.event, quarantined.source), (Some(events[1].id), None));
    assert_eq!(quarantined.code, "told-to");
}
