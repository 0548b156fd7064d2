//! The whole service on a real store and a real folder: events, outputs, deaths, reloads, restarts.

mod accounts;
mod activations;
mod handover;
mod killed;

use std::path::Path;
use std::time::Duration;

use thoughtstream_channels::filesystem::producer::RemovalRule;
use thoughtstream_channels::filesystem::rules::{Bounds, ScanRules, Selection};
use thoughtstream_channels::filesystem::watch::WatchSettings;
use thoughtstream_domain::declaration::{Catalog, load_all};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerKey, SourceId};
use thoughtstream_domain::lifecycle::RunState;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_store::{Store, verify};

use super::*;
use crate::clock::SystemClock;
use crate::consumer::Work;
use crate::killpoint::{KillAction, KillPoint, Trap};
use crate::producer::{ProducerSpec, Runs};
use crate::supervisor::Shutdown;

const STRUCTURE: &str = "
id: document-structure
version: 1
enabled: true
description: Derives the outline of a document.
subscribe:
  types: [stream.thought.source.file.added, stream.thought.source.file.changed]
  kinds: [filesystem]
runner: { kind: deterministic }
emit: [stream.thought.derived.document.structure]
policy: { tools: [], externalActions: false }
retry: { attempts: 50, first: 10ms, max: 50ms, exhausted: quarantine }
";

fn load(text: String) -> Load {
    Arc::new(move || {
        let registry = Arc::new(Registry::shipped());
        let files = [("document-structure.yaml".to_owned(), text.clone().into_bytes())];
        let declarations = load_all(&files, &|_| Some(Vec::new()), &Catalog::of(&registry))?;
        Ok(Loaded { declarations, registry })
    })
}

fn producer(root: &Path, data: &Path) -> ProducerSpec {
    ProducerSpec {
        source: SourceId::parse("filesystem:notes").unwrap(),
        root: root.to_owned(),
        data: data.to_owned(),
        rules: ScanRules { selection: Selection::new(&[], &[], true).unwrap(), bounds: Bounds::default() },
        removals: RemovalRule::default(),
        watch: WatchSettings { quiet: Duration::from_millis(5), ..WatchSettings::default() },
        privacy: Privacy::Private,
        runs: Runs::Here,
    }
}

struct Bench {
    directory: tempfile::TempDir,
    points: Arc<KillPoints>,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("notes")).unwrap();
        Store::create(&directory.path().join("data"), [7; 16], Options::default()).unwrap();
        Self { directory, points: KillPoints::for_rehearsal() }
    }

    fn note(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join("notes").join(name), text).unwrap();
    }

    async fn start(&self, declaration: &str) -> Service {
        let data = self.directory.path().join("data");
        Service::start(ServiceArgs {
            producers: vec![producer(&self.directory.path().join("notes"), &data)],
            data,
            disk: None,
            options: Options::default(),
            load: load(declaration.to_owned()),
            compile: Arc::new(|set| compile(set, &Facilities::default())),
            brokers: Brokers::default(),
            paused: false,
            drain: Shutdown::STOP_WITHIN,
            points: Arc::clone(&self.points),
            clock: Arc::new(SystemClock),
            program: "test".to_owned(),
            support: Vec::new(),
            extra: Box::new(|_| Vec::new()),
        })
        .await
        .unwrap()
    }

    fn verified(&self) -> verify::Report {
        let store = Store::open(&self.directory.path().join("data"), Options::default()).unwrap();
        let report = verify::verify(&store.reader, verify::Options::default()).unwrap();
        assert!(report.ok, "{:?}", report.findings);
        report
    }
}

/// Waits until the agent has put out `count` events of the type that ends in `kind`.
async fn outputs(service: &Service, kind: &str, count: usize) -> Vec<Event> {
    let mut head = service.handle().head();
    loop {
        head.mark_unchanged();
        let reader = service.handle().reader();
        let agent = SourceId::parse("agent:document-structure").unwrap();
        let events = reader.source_page(&agent, 0, 10_000).unwrap();
        let found: Vec<Event> = events.into_iter().filter(|e| e.kind.name.as_str().ends_with(kind)).collect();
        if found.len() >= count {
            return found;
        }
        head.changed().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_becomes_events_and_a_consumer_derives_from_them() {
    let bench = Bench::new();
    bench.note("a.md", "# One\n\ntext\n");
    bench.note("b.md", "# Two\n");
    let service = bench.start(STRUCTURE).await;
    assert_eq!(outputs(&service, ".structure", 2).await.len(), 2);
    bench.note("c.md", "# Three\n");
    service.handle().look_at("filesystem:notes").unwrap();
    let derived = outputs(&service, ".structure", 3).await;
    assert!(derived.iter().all(|event| event.privacy == Privacy::Private && event.depth == 1));
    service.stop();
    assert_eq!(service.ended().await, Outcome::Stopped);
    drop(service);
    let report = bench.verified();
    assert_eq!(report.runs, 3);
}

const WATCHER: &str = "
id: watcher
version: 1
enabled: true
description: Takes what is addressed to it.
subscribe:
  types: [stream.thought.escalation.raised]
  kinds: [agent]
  address: consumer:watcher
runner: { kind: deterministic, transform: document-structure }
emit: [stream.thought.derived.document.structure]
";

/// Escalates everything, once to the watcher and once to somebody else.
struct Escalating;

impl crate::runner::Runner for Escalating {
    fn run(
        &self,
        _: &Reader,
        triggers: &[Event],
    ) -> Result<Vec<thoughtstream_domain::lifecycle::Output>, crate::runner::RunFailure> {
        let evidence: Vec<_> = triggers.iter().map(|event| event.id).collect();
        let to = |id: &str| thoughtstream_domain::payload::escalation::Escalation {
            to: ConsumerId::parse(id).unwrap(),
            reason: "look".to_owned(),
            evidence: evidence.clone(),
        };
        Ok(vec![to("watcher").output(), to("nobody").output()])
    }
}

/// Gives nothing, whatever comes.
struct Quiet;

impl crate::runner::Runner for Quiet {
    fn run(
        &self,
        _: &Reader,
        _: &[Event],
    ) -> Result<Vec<thoughtstream_domain::lifecycle::Output>, crate::runner::RunFailure> {
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_escalation_reaches_the_consumer_it_is_addressed_to_and_no_other() {
    use thoughtstream_domain::payload::TypedPayload as _;
    let bench = Bench::new();
    bench.note("a.md", "# One\n");
    let registry = Arc::new(Registry::shipped());
    let files = [
        ("document-structure.yaml".to_owned(), STRUCTURE.as_bytes().to_vec()),
        ("watcher.yaml".to_owned(), WATCHER.replace("document-structure }", "watching }").into_bytes()),
    ];
    let mut catalog = Catalog::of(&registry);
    let info = thoughtstream_domain::declaration::TransformInfo {
        accepts: [thoughtstream_domain::payload::escalation::Escalation::kind().name].into(),
        emits: [
            thoughtstream_domain::id::TypeName::parse("stream.thought.derived.document.structure").unwrap()
        ]
        .into(),
    };
    catalog.transforms.insert("watching".to_owned(), info);
    let declarations = load_all(&files, &|_| Some(Vec::new()), &catalog).unwrap();
    let data = bench.directory.path().join("data");
    let service = Service::start(ServiceArgs {
        producers: vec![producer(&bench.directory.path().join("notes"), &data)],
        data,
        disk: None,
        options: Options::default(),
        load: Arc::new(move || {
            Ok(Loaded { declarations: declarations.clone(), registry: Arc::new(Registry::shipped()) })
        }),
        compile: Arc::new(|set| {
            let mut specs = compile(set, &Facilities::default());
            for spec in &mut specs {
                let escalates = spec.key.id.as_str() == "document-structure";
                spec.work = Work::Transform(if escalates { Arc::new(Escalating) } else { Arc::new(Quiet) });
                spec.emit = vec![thoughtstream_domain::payload::escalation::Escalation::kind().name];
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
    .unwrap();
    let watcher = SourceId::parse("agent:watcher").unwrap();
    let mut head = service.handle().head();
    let received = loop {
        head.mark_unchanged();
        let events = service.handle().reader().source_page(&watcher, 0, 100).unwrap();
        if events.iter().any(|event| event.kind.name.as_str().ends_with("run.completed")) {
            break events;
        }
        head.changed().await.unwrap();
    };
    let agent = SourceId::parse("agent:document-structure").unwrap();
    let raised = service.handle().reader().source_page(&agent, 0, 100).unwrap();
    let raised: Vec<Event> =
        raised.into_iter().filter(|e| e.kind.name.as_str().ends_with("raised")).collect();
    assert_eq!(raised.len(), 2);
    let mine = raised.iter().find(|e| e.address.as_ref().unwrap().as_str() == "consumer:watcher").unwrap();
    assert!(received.iter().all(|event| event.parents == [mine.id]), "one run, on the one addressed to it");
    service.stop();
    service.ended().await;
    drop(service);
    assert_eq!(bench.verified().runs, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_declaration_under_an_unchanged_version_is_refused_and_a_bump_is_taken() {
    let bench = Bench::new();
    bench.note("a.md", "# One\n");
    let service = bench.start(STRUCTURE).await;
    outputs(&service, "run.completed", 1).await;
    service.stop();
    service.ended().await;
    drop(service);
    let changed = STRUCTURE.replace("attempts: 50", "attempts: 40");
    let data = bench.directory.path().join("data");
    let args = |text: String| ServiceArgs {
        producers: Vec::new(),
        data: data.clone(),
        disk: None,
        options: Options::default(),
        load: load(text),
        compile: Arc::new(|set| compile(set, &Facilities::default())),
        brokers: Brokers::default(),
        paused: false,
        drain: Shutdown::STOP_WITHIN,
        points: KillPoints::disabled(),
        clock: Arc::new(SystemClock),
        program: "test".to_owned(),
        support: Vec::new(),
        extra: Box::new(|_| Vec::new()),
    };
    let refused = Service::start(args(changed.clone())).await;
    assert!(matches!(refused, Err(StartError::Reload(ReloadError::Problems(_)))), "{refused:?}");
    let bumped = changed.replace("version: 1", "version: 2");
    let service = Service::start(args(bumped)).await.unwrap();
    let reader = service.handle().reader();
    let source = SourceId::parse("filesystem:notes").unwrap();
    let key = ConsumerKey::parse("document-structure@2").unwrap();
    assert_eq!(reader.progress(&key, &source).unwrap(), 1, "progress is preserved");
    service.stop();
    service.ended().await;
    drop((service, reader));
    bench.verified();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_writer_that_was_given_up_is_told_before_the_others_have_ended() {
    let bench = Bench::new();
    let service = bench.start(STRUCTURE).await;
    for _ in 0..10 {
        bench.points.arm(Trap::new(KillPoint::CommitBefore, KillAction::Panic)).unwrap();
    }
    bench.note("a.md", "# One\n");
    service.handle().look_at("filesystem:notes").unwrap();
    let waiting = service.handle().0.log.commit(Commit::default());
    tokio::select! {
        biased;
        verdict = waiting => assert!(matches!(verdict, Err(LogError::Closed)), "{verdict:?}"),
        outcome = service.root.wait() => panic!("{outcome:?}, and nobody was told"),
    }
    assert!(matches!(service.ended().await, Outcome::Fatal { .. }));
}
