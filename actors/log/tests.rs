//! The log writer against a ledger that fails, hangs and panics on command.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ractor::Actor;
use thoughtstream_domain::commit::Placed;
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Envelope};
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::{EventId, IdempotencyKey, SourceId};
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::privacy::Privacy;

use super::*;
use crate::hub::SourceFilter;
use crate::killpoint::{KillAction, KillPoint, KillPoints, Trap};

/// Fails as told, and otherwise keeps ids in memory the way the log does: once each.
#[derive(Default)]
struct FakeLedger {
    /// A row that everything stands on and that is not what was written.
    rotten: Option<&'static str>,
    events: BTreeMap<EventId, Placed>,
    groups: Vec<usize>,
    script: Vec<Fault>,
    unwritable_for: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    DiskFull,
    ErrorAfterWrite,
    PanicAfterWrite,
}

impl Ledger for FakeLedger {
    fn apply(
        &mut self,
        group: &[Arc<Commit>],
        _: &mut dyn FnMut() -> Result<(), crate::supervisor::Fault>,
        answer: &mut dyn FnMut(Vec<Verdict>, u64),
    ) -> Result<(), LedgerError> {
        self.groups.push(group.len());
        let fault = self.script.pop();
        if fault == Some(Fault::DiskFull) {
            return Err(LedgerError::Unwritable { code: "disk-full".into(), nothing_written: true });
        }
        let verdicts = group.iter().map(|commit| self.one(commit)).collect();
        match fault {
            Some(Fault::ErrorAfterWrite) => {
                Err(LedgerError::Unwritable { code: "disk-full".into(), nothing_written: false })
            }
            Some(Fault::PanicAfterWrite) => panic!("scripted"),
            Some(Fault::DiskFull) | None => {
                answer(verdicts, self.head());
                Ok(())
            }
        }
    }

    fn upkeep(&mut self) -> Result<Duration, LedgerError> {
        Ok(Duration::from_secs(3600))
    }

    fn reopen(&mut self) -> Result<(), LedgerError> {
        if self.unwritable_for == 0 {
            return Ok(());
        }
        self.unwritable_for -= 1;
        Err(LedgerError::Unwritable { code: "disk-full".into(), nothing_written: false })
    }

    fn head(&self) -> u64 {
        self.events.len() as u64
    }

    fn set_types(&mut self, _: Types) -> Result<(), String> {
        Ok(())
    }
}

impl FakeLedger {
    fn one(&mut self, commit: &Commit) -> Verdict {
        if let Some(place) = self.rotten {
            return Verdict::Refused(Refusal::Damaged { place: place.to_owned() });
        }
        let id = commit.appends[0].id();
        if let Some(placed) = self.events.get(&id) {
            return Verdict::AlreadyCommitted(vec![*placed]);
        }
        let position = self.events.len() as u64 + 1;
        let placed = Placed {
            id,
            position,
            sequence: position,
            recorded_at: Timestamp::from_millis(0),
            root: id,
            depth: 0,
            chain: ChainHash::START,
        };
        self.events.insert(id, placed);
        Verdict::Committed(vec![placed])
    }
}

fn commit(n: usize) -> Commit {
    let source = SourceId::parse("notes:x").unwrap();
    let key = IdempotencyKey::parse(&format!("k{n}")).unwrap();
    let envelope = Envelope::new(source, key, Privacy::Private, EventActor::ours(ActorKind::Person, "uid:1"));
    let note = Note { text: format!("note {n}"), title: None, tags: vec![] };
    Commit { appends: vec![note.candidate(envelope)], ..Commit::default() }
}

fn args(log: &LogHandle, ledger: FakeLedger) -> (WriterArgs, Arc<Mutex<FakeLedger>>) {
    let ledger = Arc::new(Mutex::new(ledger));
    let args = WriterArgs {
        log: log.clone(),
        ledger: Arc::clone(&ledger) as Arc<Mutex<dyn Ledger>>,
        points: KillPoints::disabled(),
        path: "log".into(),
        status: Arc::default(),
        now: Arc::new(|| Timestamp::from_millis(0)),
    };
    (args, ledger)
}

#[tokio::test]
async fn what_waits_goes_in_as_one_group_and_everyone_gets_an_answer() {
    let log = LogHandle::default();
    let waiting: Vec<_> = (0..100).map(|n| log.submit(Arc::new(commit(n)))).collect();
    let (args, ledger) = args(&log, FakeLedger::default());
    let (writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    for submitted in waiting {
        assert!(matches!(submitted.settled().await, Ok(Verdict::Committed(_))));
    }
    assert_eq!(*log.head().borrow(), 100);
    log.close();
    joined.await.unwrap();
    assert_eq!(ledger.lock().unwrap().groups, [100]);
    assert!(matches!(log.commit(commit(1)).await, Err(LogError::Closed)));
    drop(writer);
}

#[tokio::test]
async fn a_lost_answer_is_found_out_by_handing_the_same_commit_in_again() {
    let log = LogHandle::default();
    let script = vec![Fault::ErrorAfterWrite];
    let (args, ledger) = args(&log, FakeLedger { script, unwritable_for: 1, ..FakeLedger::default() });
    let (_writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    assert!(matches!(log.commit(commit(1)).await, Ok(Verdict::AlreadyCommitted(_))));
    assert_eq!(*log.state().borrow(), LogState::Writable);
    log.close();
    joined.await.unwrap();
    assert_eq!(ledger.lock().unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_caller_that_wants_to_know_learns_that_it_is_unknown() {
    let log = LogHandle::default();
    let script = vec![Fault::ErrorAfterWrite];
    let (args, _ledger) = args(&log, FakeLedger { script, unwritable_for: 2, ..FakeLedger::default() });
    let (_writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    assert_eq!(log.offer(commit(1)).await, Err(LogError::Unknown));
    let mut state = log.state();
    state.wait_for(|s| *s != LogState::Writable).await.unwrap();
    assert!(matches!(log.offer(commit(2)).await, Err(LogError::Unwritable { .. })));
    state.wait_for(|s| *s == LogState::Writable).await.unwrap();
    assert!(matches!(log.offer(commit(1)).await, Ok(Verdict::AlreadyCommitted(_))));
    log.close();
    joined.await.unwrap();
}

#[tokio::test]
async fn what_was_refused_before_it_was_written_is_not_called_lost() {
    let log = LogHandle::default();
    let script = vec![Fault::DiskFull, Fault::DiskFull];
    let (args, ledger) = args(&log, FakeLedger { script, ..FakeLedger::default() });
    let (_writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    // Who wants to know at once is told so; who can wait is served once there is room.
    assert_eq!(log.offer(commit(1)).await, Err(LogError::Unwritable { code: "disk-full".into() }));
    assert!(matches!(log.commit(commit(2)).await, Ok(Verdict::Committed(_))));
    log.close();
    joined.await.unwrap();
    assert_eq!(ledger.lock().unwrap().events.len(), 1);
}

/// Many take a refusal for the word of a rule, and go on: an update would be acknowledged, feedback passed, an attempt
/// believed to be ended.
#[tokio::test]
async fn what_stands_on_a_damaged_row_is_never_told_as_refused() {
    let log = LogHandle::default();
    let (args, _ledger) = args(&log, FakeLedger { rotten: Some("heads notes:x"), ..FakeLedger::default() });
    let (_writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    let damaged = LogError::Damaged { place: "heads notes:x".to_owned() };
    assert_eq!(log.commit(commit(1)).await, Err(damaged.clone()));
    assert_eq!(log.submit(Arc::new(commit(2))).settled().await, Err(damaged.clone()));
    assert_eq!(log.offer(commit(3)).await, Err(damaged.clone()));
    assert_eq!(log.offer_until_known(commit(4)).await, Err(damaged.clone()));
    assert_eq!(crate::supervisor::Fault::from(damaged).0.as_str(), "store-unreadable");
    log.close();
    joined.await.unwrap();
}

#[tokio::test]
async fn a_writer_that_dies_is_succeeded_and_nothing_is_lost_or_doubled() {
    let log = LogHandle::default();
    let script = vec![Fault::PanicAfterWrite];
    let (args, ledger) = args(&log, FakeLedger { script, ..FakeLedger::default() });
    let callers: Vec<_> = (0..50).map(|n| tokio::spawn(log.submit(Arc::new(commit(n))).settled())).collect();
    let (_first, joined) = Actor::spawn(None, LogWriter, args.clone()).await.unwrap();
    joined.await.unwrap();
    let (_second, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    for caller in callers {
        assert!(matches!(caller.await.unwrap(), Ok(Verdict::AlreadyCommitted(_) | Verdict::Committed(_))));
    }
    log.close();
    joined.await.unwrap();
    assert_eq!(ledger.lock().unwrap().events.len(), 50);
}

#[tokio::test]
async fn a_killed_writer_leaves_its_queue_to_the_next() {
    let log = LogHandle::default();
    let (args, ledger) = args(&log, FakeLedger::default());
    for round in 0..20 {
        let (writer, joined) = Actor::spawn(None, LogWriter, args.clone()).await.unwrap();
        let callers: Vec<_> =
            (0..10).map(|n| tokio::spawn(log.submit(Arc::new(commit(round * 10 + n))).settled())).collect();
        writer.kill();
        joined.await.unwrap();
        let (_next, _joined) = Actor::spawn(None, LogWriter, args.clone()).await.unwrap();
        for caller in callers {
            assert!(caller.await.unwrap().unwrap().placed().is_some());
        }
    }
    log.close(); // the last writer lets the ledger go when it has finished
    assert_eq!(ledger.lock().unwrap().events.len(), 200);
}

#[tokio::test]
async fn a_writer_that_is_stuck_does_not_answer_and_one_that_cannot_write_does() {
    let (log, points) = (LogHandle::default(), KillPoints::for_rehearsal());
    let (args, _ledger) = args(&log, FakeLedger::default());
    let args = WriterArgs { points: Arc::clone(&points), ..args };
    let (_writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    log.answers().await;
    let held = points.arm(Trap::new(KillPoint::CommitBefore, KillAction::Hold)).unwrap();
    let waiting = tokio::spawn(log.submit(Arc::new(commit(1))).settled());
    points.sprung(held).await;
    for _ in 0..3 {
        let answers = tokio::time::timeout(Duration::from_millis(20), log.answers()).await;
        assert!(answers.is_err(), "it holds a group and comes for no other");
    }
    points.release(held);
    log.answers().await;
    assert!(matches!(waiting.await.unwrap(), Ok(Verdict::Committed(_))));
    // It is not stuck while it tries again: whoever starts the service anew would gain nothing.
    log.state
        .send_replace(LogState::Unwritable { code: "disk-full".into(), since: Timestamp::from_millis(0) });
    let held = points.arm(Trap::new(KillPoint::CommitBefore, KillAction::Hold)).unwrap();
    drop(log.submit(Arc::new(commit(2))));
    points.sprung(held).await;
    log.answers().await;
    points.release(held);
    log.close();
    joined.await.unwrap();
}

#[tokio::test]
async fn what_a_writer_made_durable_and_told_nobody_is_told_by_the_next() {
    let log = LogHandle::default();
    let (rung, mut rings) = tokio::sync::mpsc::unbounded_channel();
    let bell = Arc::new(move || _ = rung.send(()));
    let subscribed = log.hub().subscribe([Note::kind().name], SourceFilter::default(), bell);
    let script = vec![Fault::PanicAfterWrite];
    let (args, _ledger) = args(&log, FakeLedger { script, ..FakeLedger::default() });
    let (_first, joined) = Actor::spawn(None, LogWriter, args.clone()).await.unwrap();
    rings.recv().await.unwrap(); // every writer begins by saying that something may have been lost
    assert!(subscribed.take().missed);
    // Whoever offered it does not come again.
    drop(log.submit(Arc::new(commit(1))));
    joined.await.unwrap();
    let (_second, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    rings.recv().await.unwrap();
    let look = subscribed.take();
    assert!(look.missed && look.sources.is_empty());
    log.close();
    joined.await.unwrap();
}

#[tokio::test]
async fn what_comes_from_outside_is_refused_while_far_too_much_waits_and_nothing_of_ours_is() {
    let log = LogHandle::default();
    let mut waiting: Vec<_> = (0..OFFERS_WAITING_MAX).map(|n| log.submit(Arc::new(commit(n)))).collect();
    let refused = log.offer(commit(OFFERS_WAITING_MAX)).await.unwrap_err();
    assert!(
        matches!(&refused, LogError::Unwritable { code } if code.starts_with("log-busy: 4096 ")),
        "{refused:?}"
    );
    waiting.push(log.submit(Arc::new(commit(OFFERS_WAITING_MAX + 1))));
    let (args, ledger) = args(&log, FakeLedger::default());
    let (_writer, joined) = Actor::spawn(None, LogWriter, args).await.unwrap();
    for submitted in waiting {
        assert!(matches!(submitted.settled().await, Ok(Verdict::Committed(_))));
    }
    assert!(matches!(log.offer(commit(OFFERS_WAITING_MAX)).await, Ok(Verdict::Committed(_))));
    log.close();
    joined.await.unwrap();
    assert_eq!(ledger.lock().unwrap().groups.iter().sum::<usize>(), OFFERS_WAITING_MAX + 2);
}
