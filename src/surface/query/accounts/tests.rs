use std::sync::Arc;

use thoughtstream_domain::accounting::Measured;
use thoughtstream_domain::commit::{Commit, Registered, Row, Verdict};
use thoughtstream_domain::declaration::{Catalog, DeclarationSet, load_all};
use thoughtstream_domain::event::{Actor, ActorKind, Envelope};
use thoughtstream_domain::id::{IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::{AdapterRevision, Admission, Execution, FailurePolicy, Frame};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::provider::Sending;
use thoughtstream_domain::registry::Registry;
use thoughtstream_store::disk::Disk;
use thoughtstream_store::sim::SimDisk;
use thoughtstream_store::{Options, Store, create_on};

use super::*;

const OBSERVER: &str = "\
id: note-observer
version: 3
enabled: true
description: Observes what is new.
subscribe:
  types: [stream.thought.source.note]
  kinds: [notes]
  replay: now
context: { maxEvents: 1, maxChars: 24000 }
runner: { kind: pi, provider: local, model: small }
prompt: prompts/note-observer.md
emit: [stream.thought.derived.message.observation]
accounting:
  reserve: { inputTokens: 1000, outputTokens: 200 }
  lease: 5m
  limits:
    - { window: rolling, length: 5m, calls: 3 }
    - { window: day, outputTokens: 20000 }
  onExhaustion: defer
";

const NOW: i64 = 1_000_000;

struct Desk {
    store: Store,
    set: DeclarationSet,
    catalog: Catalog,
    home: crate::query::proposals::Home,
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

impl Desk {
    /// A log in which the observer is registered, has asked twice, and was answered once.
    fn new() -> Self {
        let registry = Registry::shipped();
        let catalog = Catalog::of(&registry);
        let file = ("note-observer.yaml".to_owned(), OBSERVER.as_bytes().to_vec());
        let set = load_all(&[file], &|_| Some(b"Observe.".to_vec()), &catalog)
            .unwrap_or_else(|problems| panic!("{problems:?}"));
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(3));
        create_on(&disk, [7; 16], Options::default()).unwrap();
        let mut store = Store::open_on(disk, Options::default()).unwrap();
        store.writer.set_types(registry.hashes()).unwrap();
        let home = crate::query::proposals::Home::of(None);
        let mut desk = Self { store, set, catalog, home };
        desk.fill(&registry);
        desk
    }

    fn commit(&mut self, commit: &Commit) {
        let verdicts = self.store.writer.apply(std::slice::from_ref(commit), at(NOW)).unwrap();
        assert!(matches!(&verdicts[..], [Verdict::Committed(_)]), "{verdicts:?}");
    }

    fn fill(&mut self, registry: &Registry) {
        let declaration = self.set.iter().next().unwrap().clone();
        let registered = Registered {
            consumer: declaration.key().clone(),
            fingerprint: declaration.fingerprint(),
            canonical: declaration.canonical(),
            position: 0,
            at: at(0),
        };
        let notes = (0..3).map(|number| {
            let source = SourceId::parse("notes:desk").unwrap();
            let key = IdempotencyKey::parse(&format!("k{number}")).unwrap();
            let envelope =
                Envelope::new(source, key, Privacy::Private, Actor::ours(ActorKind::Person, "uid:1"));
            Note { text: "x".to_owned(), title: None, tags: vec![] }.candidate(envelope)
        });
        self.commit(&Commit {
            appends: notes.collect(),
            rows: vec![Row::Declaration(registered)],
            ..Commit::default()
        });
        let policy = Arc::new(declaration.runner().model().unwrap().accounting.clone());
        let notes = self.store.reader.page_after(0, 3).unwrap();
        for (number, event) in notes[..2].iter().enumerate() {
            let ago = [250_000, 1_000][number];
            let frame = Frame {
                consumer: declaration.key().clone(),
                fingerprint: declaration.fingerprint(),
                privacy_floor: Privacy::Private,
                incarnation: 1,
                now: at(NOW - ago),
                adapter: AdapterRevision::observer_cell(),
            };
            let mut execution = Execution::fix(&frame, std::slice::from_ref(event));
            let admission = Admission { policy: Arc::clone(&policy), rows: Vec::new() };
            let (open, reservation) = execution.open_admitted(&frame, number as u64, admission);
            self.commit(&open);
            if number == 0 {
                let said = Measured { input_tokens: Some(700), ..Measured::default() };
                let charge = reservation.charge(&said);
                let done = execution.complete(&frame, (reservation, charge), registry, vec![]).unwrap();
                self.commit(&done);
            }
        }
    }

    fn look(&self) -> Look<'_> {
        let (catalog, home) = (&self.catalog, &self.home);
        Look { reader: &self.store.reader, live: None, declared: None, catalog, home, now: at(NOW) }
    }
}

/// Opens an attempt about the last note, and gives its reservation back.
fn give_back(desk: &mut Desk) {
    let declaration = desk.set.iter().next().unwrap().clone();
    let frame = Frame {
        consumer: declaration.key().clone(),
        fingerprint: declaration.fingerprint(),
        privacy_floor: Privacy::Private,
        incarnation: 1,
        now: at(NOW - 500),
        adapter: AdapterRevision::observer_cell(),
    };
    let note = desk.store.reader.page_after(2, 1).unwrap();
    let mut execution = Execution::fix(&frame, &note);
    let policy = Arc::new(declaration.runner().model().unwrap().accounting.clone());
    let (open, reservation) = execution.open_admitted(&frame, 2, Admission { policy, rows: Vec::new() });
    desk.commit(&open);
    let settled = reservation.release(Sending::of(reservation.run).give_up().unwrap());
    let failed = execution.fail(&frame, (reservation, settled), "connect-failed", FailurePolicy::Final);
    desk.commit(&failed);
}

fn id(text: &str) -> ConsumerId {
    ConsumerId::parse(text).unwrap()
}

#[test]
fn an_account_says_the_same_with_a_service_and_without() {
    let desk = Desk::new();
    let alone = desk.look();
    let account = show(&alone, &id("note-observer")).unwrap();
    assert_eq!((account.state, account.open, account.windows.len()), (State::Open, 1, 2));
    let rolling = &account.windows[0];
    assert_eq!((rolling.spent.used.calls, rolling.spent.reserved.calls, rolling.fits), (2, 1, 1));
    assert_eq!((rolling.spent.reported.input_tokens, rolling.spent.estimated.output_tokens), (700, 200));
    assert_eq!(account.leases[0].until, at(NOW - 1_000 + 300_000));
    assert_eq!(list(&alone).unwrap(), std::slice::from_ref(&account));
    let with = Look { declared: Some(&desk.set), ..desk.look() };
    assert_eq!(show(&with, &id("note-observer")).unwrap(), account);
}

#[test]
fn a_simulation_says_what_goes_at_once_and_when_the_rest() {
    let desk = Desk::new();
    let look = desk.look();
    let found = simulate(&look, &id("note-observer"), 3).unwrap();
    let steps: Vec<(i64, u32)> =
        found.simulation.steps.iter().map(|step| (step.at.as_millis() - NOW, step.calls)).collect();
    // The second call is still open when its window has passed it: its lease is as long as the window.
    assert_eq!(steps, [(0, 1), (50_000, 1), (299_000, 1)]);
    assert_eq!(found.simulation.denial.unwrap().used, 3);
    assert_eq!(found.simulation.passed, 0);
}

#[test]
fn what_was_given_back_is_told_and_counts_nowhere() {
    let mut desk = Desk::new();
    let before = show(&desk.look(), &id("note-observer")).unwrap();
    let simulated = simulate(&desk.look(), &id("note-observer"), 3).unwrap();
    give_back(&mut desk);
    let account = show(&desk.look(), &id("note-observer")).unwrap();
    assert_eq!((before.ever.not_sent, account.ever.not_sent), (0, 1));
    assert!(account.windows.iter().all(|window| window.spent.not_sent == 1));
    assert_eq!(Spent { not_sent: 0, ..account.ever }, before.ever);
    let fits = |account: &Account| account.windows.iter().map(|window| window.fits).collect::<Vec<u64>>();
    assert_eq!((fits(&account), account.open), (fits(&before), before.open));
    assert_eq!(list(&desk.look()).unwrap(), [account]);
    let again = simulate(&desk.look(), &id("note-observer"), 3).unwrap();
    assert_eq!(Simulated { not_sent: 0, ..again.clone() }, simulated);
    assert_eq!(again.not_sent, 1);
}

#[test]
fn what_is_no_account_is_refused_with_a_way_on() {
    let desk = Desk::new();
    let look = desk.look();
    for failure in [
        show(&look, &id("document-tasks")).unwrap_err(),
        simulate(&look, &id("document-tasks"), 1).unwrap_err(),
    ] {
        assert_eq!((failure.exit(), failure.code.as_str()), (Exit::Refused, "id.unknown"));
        assert!(failure.render().contains("thought account list"));
    }
}
