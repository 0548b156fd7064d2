//! What a version of a consumer does after another, through the service that hands over: which events it runs on.

use std::sync::Mutex;

use thoughtstream_domain::content::Content;
use thoughtstream_domain::declaration::TransformInfo;
use thoughtstream_domain::event::{Actor, ActorKind, Envelope};
use thoughtstream_domain::id::IdempotencyKey;
use thoughtstream_domain::lifecycle::{ExecutionStatus, Output};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::registry::{Draft, DraftPayload, Writer};
use thoughtstream_domain::transform::structure::DocumentStructure;

use super::*;
use crate::runner::{RunFailure, Runner};
use crate::supervisor::Shutdown;

/// Which version ran on which sequence, in order.
type Ran = Arc<Mutex<Vec<(u32, u64)>>>;

/// Is the sequence to fail on, once so many others have run.
type Failing = Arc<Mutex<Option<(u64, usize)>>>;

/// Writes down what it is run on, and fails on what it is told to.
struct Noting {
    version: u32,
    ran: Ran,
    failing: Failing,
}

impl Runner for Noting {
    fn run(&self, _: &Reader, triggers: &[Event]) -> Result<Vec<Output>, RunFailure> {
        let failing = *self.failing.lock().unwrap();
        let sequences: Vec<u64> = triggers.iter().map(|event| event.sequence).collect();
        if let Some((_, after)) = failing.filter(|(sequence, _)| sequences.contains(sequence)) {
            while self.ran.lock().unwrap().len() < after {
                std::thread::sleep(Duration::from_millis(1));
            }
            return Err(RunFailure::of_surroundings("told-to-fail"));
        }
        self.ran.lock().unwrap().extend(sequences.into_iter().map(|sequence| (self.version, sequence)));
        Ok(Vec::new())
    }
}

/// Files of types that a person registered.
type Schemas = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A store with notes, and a consumer of them whose declaration changes.
struct Versions {
    directory: tempfile::TempDir,
    ran: Ran,
    failing: Failing,
    text: Arc<Mutex<String>>,
    schemas: Schemas,
}

fn catalog(registry: &Registry) -> Catalog {
    let mut catalog = Catalog::of(registry);
    let accepts = registry.definitions().map(|definition| definition.kind().name.clone()).collect();
    let info = TransformInfo { accepts, emits: [DocumentStructure::kind().name].into() };
    catalog.transforms.insert("noting".to_owned(), info);
    catalog
}

fn notes() -> SourceId {
    SourceId::parse("notes:a").unwrap()
}

impl Versions {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Store::create(&directory.path().join("data"), [7; 16], Options::default()).unwrap();
        Self {
            directory,
            ran: Arc::default(),
            failing: Arc::default(),
            text: Arc::default(),
            schemas: Arc::default(),
        }
    }

    /// Declares a version: `subscribe` is the rest of its subscription, `more` more of the declaration.
    fn declare(&self, version: u32, subscribe: &str, more: &str) {
        self.declare_taking("stream.thought.source.note", version, subscribe, more);
    }

    fn declare_taking(&self, types: &str, version: u32, subscribe: &str, more: &str) {
        *self.text.lock().unwrap() = format!(
            "id: noting\nversion: {version}\nenabled: true\ndescription: Notes, v{version}.\n\
             subscribe: {{ types: [{types}], {subscribe} }}\n\
             runner: {{ kind: deterministic }}\nemit: [stream.thought.derived.document.structure]\n\
             retry: {{ attempts: 1, first: 1ms, max: 1ms, exhausted: hold }}\n{more}\n"
        );
    }

    async fn start(&self) -> Service {
        let (text, schemas) = (Arc::clone(&self.text), Arc::clone(&self.schemas));
        let (ran, failing) = (Arc::clone(&self.ran), Arc::clone(&self.failing));
        Service::start(ServiceArgs {
            producers: Vec::new(),
            data: self.directory.path().join("data"),
            disk: None,
            options: Options::default(),
            load: Arc::new(move || {
                let registry = Registry::shipped().with_custom(&schemas.lock().unwrap()).unwrap();
                let registry = Arc::new(registry);
                let files = [("noting.yaml".to_owned(), text.lock().unwrap().clone().into_bytes())];
                let declarations = load_all(&files, &|_| Some(Vec::new()), &catalog(&registry))?;
                Ok(Loaded { declarations, registry })
            }),
            compile: Arc::new(move |set| {
                let mut specs = compile(set, &Facilities::default());
                for spec in &mut specs {
                    let (version, ran, failing) = (spec.key.version, Arc::clone(&ran), Arc::clone(&failing));
                    spec.work = Work::Transform(Arc::new(Noting { version, ran, failing }));
                }
                specs
            }),
            brokers: Brokers::default(),
            paused: false,
            drain: Shutdown::STOP_WITHIN,
            points: KillPoints::disabled(),
            clock: Arc::new(SystemClock),
            program: "test".to_owned(),
            support: Vec::new(),
            extra: Box::new(|_| Vec::new()),
        })
        .await
        .unwrap()
    }

    /// Appends notes until the source has this many.
    async fn append(&self, service: &Service, count: u64) {
        let reader = service.handle().reader();
        let head = reader.head(&notes()).unwrap().map_or(0, |head| head.sequence);
        for number in head + 1..=count {
            let key = IdempotencyKey::parse(&number.to_string()).unwrap();
            let person = Actor::ours(ActorKind::Person, "uid:1");
            let note = Note { text: "x".to_owned(), title: None, tags: Vec::new() };
            let candidate = note.candidate(Envelope::new(notes(), key, Privacy::Private, person));
            assert!(service.handle().append(candidate).await.unwrap().placed().is_some());
        }
    }

    fn register(&self, kind: &str) {
        self.schemas.lock().unwrap().push((format!("{kind}@1.json"), b"{}".to_vec()));
    }

    /// Appends an event of a type that a person registered.
    async fn append_own(&self, service: &Service, kind: &str, key: &str) {
        let registry = service.handle().registry();
        let actor = Actor::ours(ActorKind::Person, "uid:1");
        let envelope = Envelope::new(notes(), IdempotencyKey::parse(key).unwrap(), Privacy::Private, actor);
        let kind = registry.resolve(kind).unwrap().kind().clone();
        let payload = Content::new(DraftPayload(serde_json::json!({})));
        let candidate = registry.admit(Writer::Hand, Draft { kind, envelope, payload }).unwrap();
        assert!(service.handle().append(candidate).await.unwrap().placed().is_some());
    }

    /// Waits until a version has run on a sequence; what comes before it in a serial lane has run then too.
    async fn has_run(&self, service: &Service, version: u32, sequence: u64) {
        self.until(service, || self.ran.lock().unwrap().contains(&(version, sequence))).await;
    }

    async fn until(&self, service: &Service, holds: impl Fn() -> bool) {
        let mut head = service.handle().head();
        while !holds() {
            head.changed().await.unwrap();
        }
    }

    fn ran(&self, version: u32) -> Vec<u64> {
        let ran = self.ran.lock().unwrap();
        ran.iter().filter(|(by, _)| *by == version).map(|(_, sequence)| *sequence).collect()
    }

    async fn stop(&self, service: Service) {
        service.stop();
        assert_eq!(service.ended().await, Outcome::Stopped);
        drop(service);
        let store = Store::open(&self.directory.path().join("data"), Options::default()).unwrap();
        let report = verify::verify(&store.reader, verify::Options::default()).unwrap();
        assert!(report.ok, "{:?}", report.findings);
    }
}

/// Lets a first version run on two notes, declares a second, appends a third note, and says what that one ran on.
async fn second_version(first: &str, second: &str, more: &str) -> Vec<u64> {
    let versions = Versions::new();
    versions.declare(1, first, "");
    let service = versions.start().await;
    versions.append(&service, 2).await;
    versions.has_run(&service, 1, 2).await;
    versions.declare(2, second, more);
    service.handle().reload(None).await.unwrap();
    versions.append(&service, 3).await;
    versions.has_run(&service, 2, 3).await;
    versions.stop(service).await;
    assert_eq!(versions.ran(1), [1, 2]);
    versions.ran(2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_change_does_what_the_declaration_says() {
    assert_eq!(second_version("kinds: [notes]", "kinds: [notes]", "onVersionChange: preserve").await, [3]);
    assert_eq!(
        second_version("kinds: [notes]", "sources: ['notes:a'], replay: now", "onVersionChange: preserve")
            .await,
        [3]
    );
    assert_eq!(second_version("kinds: [notes]", "kinds: [notes]", "onVersionChange: new").await, [1, 2, 3]);
    assert_eq!(
        second_version("kinds: [notes]", "sources: ['notes:a'], replay: now", "onVersionChange: new").await,
        [3]
    );
    assert_eq!(
        second_version(
            "kinds: [notes]",
            "sources: ['notes:a'], replay: { sequence: 2 }",
            "onVersionChange: new"
        )
        .await,
        [2, 3]
    );
    let replayed = "onVersionChange: { replay: ['notes:a'] }";
    assert_eq!(
        second_version("kinds: [notes]", "sources: ['notes:a'], replay: now", replayed).await,
        [1, 2, 3]
    );
    assert_eq!(
        second_version("kinds: [notes]", "sources: ['notes:a'], replay: { sequence: 3 }", replayed).await,
        [1, 2, 3]
    );
    let other = "onVersionChange: { replay: ['notes:b'] }";
    assert_eq!(second_version("kinds: [notes]", "kinds: [notes]", other).await, [3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequence_to_begin_with_is_kept_until_it_comes_whatever_is_there() {
    let versions = Versions::new();
    // Nothing is there: the source comes later.
    versions.declare(1, "sources: ['notes:a'], replay: { sequence: 4 }", "");
    let service = versions.start().await;
    versions.append(&service, 2).await;
    // A second version finds two notes, and its beginning ahead of them.
    versions.declare(2, "sources: ['notes:a'], replay: { sequence: 6 }", "onVersionChange: preserve");
    service.handle().reload(None).await.unwrap();
    versions.append(&service, 3).await;
    versions.stop(service).await;
    assert_eq!(versions.ran(1), [0_u64; 0]);
    // It is kept over a restart, and by what begins anew.
    let service = versions.start().await;
    versions.append(&service, 7).await;
    versions.has_run(&service, 2, 7).await;
    versions.declare(3, "sources: ['notes:a'], replay: { sequence: 10 }", "onVersionChange: new");
    service.handle().reload(None).await.unwrap();
    versions.append(&service, 11).await;
    versions.has_run(&service, 3, 11).await;
    // One that goes on where another stood does so, whatever it would begin with by itself.
    versions.declare(4, "sources: ['notes:a'], replay: { sequence: 20 }", "onVersionChange: preserve");
    service.handle().reload(None).await.unwrap();
    versions.append(&service, 12).await;
    versions.has_run(&service, 4, 12).await;
    versions.stop(service).await;
    assert_eq!((versions.ran(2), versions.ran(3), versions.ran(4)), (vec![6, 7], vec![10, 11], vec![12]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_settled_above_progress_is_not_done_again_by_the_next_version() {
    let versions = Versions::new();
    versions.declare(1, "kinds: [notes], concurrency: 4", "");
    *versions.failing.lock().unwrap() = Some((1, 3));
    let service = versions.start().await;
    versions.append(&service, 4).await;
    let (reader, first) = (service.handle().reader(), ConsumerKey::parse("noting@1").unwrap());
    let held_alone = || {
        let unsettled = reader.unsettled(&first, 0, 10).unwrap();
        let held: Vec<_> = unsettled.iter().map(|e| (e.triggers[0].sequence, e.state.status())).collect();
        held == [(1, ExecutionStatus::Held)]
    };
    versions.until(&service, || held_alone() && versions.ran(1).len() == 3).await;
    drop(reader);
    *versions.failing.lock().unwrap() = None;
    versions.declare(2, "kinds: [notes]", "");
    service.handle().reload(None).await.unwrap();
    versions.append(&service, 5).await;
    versions.has_run(&service, 2, 5).await;
    versions.stop(service).await;
    let mut before = versions.ran(1);
    before.sort_unstable();
    assert_eq!(before, [2, 3, 4]);
    assert_eq!(versions.ran(2), [1, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_family_that_a_reload_lets_grow_is_taken_with_its_new_members() {
    let versions = Versions::new();
    versions.register("acme.one");
    versions.declare_taking("acme.*", 1, "kinds: [notes]", "");
    let service = versions.start().await;
    versions.append_own(&service, "acme.one", "1").await;
    versions.has_run(&service, 1, 1).await;
    let quiet = service.handle().reload(None).await.unwrap();
    assert_eq!((quiet.restarted.len(), quiet.unchanged.len()), (0, 1));
    versions.register("acme.two");
    let grown = service.handle().reload(None).await.unwrap();
    let key = ConsumerKey::parse("noting@1").unwrap();
    assert_eq!((grown.restarted, grown.started, grown.stopped), (vec![key], vec![], vec![]));
    // Only events of the new member: it wakes the consumer, and is run on.
    versions.append_own(&service, "acme.two", "2").await;
    versions.has_run(&service, 1, 2).await;
    versions.append_own(&service, "acme.one", "3").await;
    versions.has_run(&service, 1, 3).await;
    versions.stop(service).await;
    assert_eq!(versions.ran(1), [1, 2, 3]);
}
