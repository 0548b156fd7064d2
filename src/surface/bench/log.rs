//! This log: appends through its door, and durable steps through a consumer actor under its supervisor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thoughtstream_actors::broker::Brokers;
use thoughtstream_actors::clock::SystemClock;
use thoughtstream_actors::consumer::{ConsumerSpec, Facilities, Work};
use thoughtstream_actors::killpoint::KillPoints;
use thoughtstream_actors::runner::{RunFailure, Runner};
use thoughtstream_actors::service::{Compile, Loaded, Service, ServiceArgs, ServiceHandle};
use thoughtstream_actors::supervisor::Shutdown;
use thoughtstream_domain::commit::Verdict;
use thoughtstream_domain::declaration::{Catalog, DeclarationSet, TransformInfo, load_all};
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Envelope, Event};
use thoughtstream_domain::id::{IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::{Execution, Output};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::transform::links::DocumentLinks;
use thoughtstream_store::{Options, Reader, Store};
use tokio::sync::Notify;

use super::closed::{Measured, closed_loop};
use super::{BenchError, PAYLOAD_BYTES};

/// The mark of every store that is made to be measured.
pub const MARK: [u8; 16] = *b"thought bench 01";

/// How the consumer of a durable step records its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// One commit when it is done.
    Settled,
    /// One when it starts and one when it is done.
    TwoCommit,
}

impl Lifecycle {
    const fn declared(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::TwoCommit => "two-commit",
        }
    }
}

/// Is a service on a store of its own, with one consumer or none.
pub struct Subject {
    service: Service,
    steps: Arc<Steps>,
    /// Tells the events of this service from those of one before it on the same store.
    run: u64,
}

impl Subject {
    /// Makes a store in `directory` and starts a service on it.
    ///
    /// # Errors
    /// [`BenchError`] if it does not start.
    pub async fn start(
        directory: &Path,
        lifecycle: Option<Lifecycle>,
        writers: usize,
    ) -> Result<Self, BenchError> {
        let data = directory.join("log");
        Store::create(&data, MARK, Options::default()).map_err(BenchError::of)?;
        Self::resume(data, lifecycle, writers).await
    }

    /// Starts a service on a store that exists.
    ///
    /// # Errors
    /// [`BenchError`] if it does not start.
    pub async fn resume(
        data: PathBuf,
        lifecycle: Option<Lifecycle>,
        writers: usize,
    ) -> Result<Self, BenchError> {
        let steps = Arc::new(Steps { settled: (0..writers).map(|_| Notify::new()).collect() });
        let text = lifecycle.map(declaration);
        let load = move || {
            let registry = Arc::new(Registry::shipped());
            let files: Vec<_> =
                text.iter().map(|text| ("bench.yaml".to_owned(), text.clone().into_bytes())).collect();
            let declarations = load_all(&files, &|_| None, &catalog(&registry))?;
            Ok(Loaded { declarations, registry })
        };
        let args = ServiceArgs {
            data,
            options: Options::default(),
            disk: None,
            load: Arc::new(load),
            compile: compile(Arc::clone(&steps)),
            producers: Vec::new(),
            brokers: Brokers::default(),
            paused: false,
            drain: Shutdown::STOP_WITHIN,
            points: KillPoints::disabled(),
            clock: Arc::new(SystemClock),
            program: "bench".to_owned(),
            support: Vec::new(),
            extra: Box::new(|_| Vec::new()),
        };
        let service = Service::start(args).await.map_err(BenchError::of)?;
        let run = service.handle().incarnation();
        Ok(Self { service, steps, run })
    }

    /// Returns the service's handle.
    #[must_use]
    pub const fn handle(&self) -> &ServiceHandle {
        self.service.handle()
    }

    /// Appends events of [`PAYLOAD_BYTES`] bytes, each writer to a source of its own.
    ///
    /// # Errors
    /// [`BenchError`] if the log refuses or cannot be written.
    pub async fn appends(&self, writers: usize, time: Duration) -> Result<Measured, BenchError> {
        let (handle, run) = (self.handle().clone(), self.run);
        closed_loop(writers, time, move |writer, n| {
            let handle = handle.clone();
            async move { append(&handle, note(run, writer, n)).await }
        })
        .await
    }

    /// Makes durable steps: the event is appended, the consumer runs, its settlement is acknowledged.
    ///
    /// # Errors
    /// [`BenchError`] if the log refuses or cannot be written.
    pub async fn steps(&self, writers: usize, time: Duration) -> Result<Measured, BenchError> {
        let (handle, run, steps) = (self.handle().clone(), self.run, Arc::clone(&self.steps));
        closed_loop(writers, time, move |writer, n| {
            let (handle, steps) = (handle.clone(), Arc::clone(&steps));
            async move {
                append(&handle, note(run, writer, n)).await?;
                steps.settled[writer].notified().await;
                Ok(())
            }
        })
        .await
    }

    /// Stops the service in order.
    pub async fn stop(self) {
        self.service.stop();
        self.service.ended().await;
    }
}

async fn append(handle: &ServiceHandle, candidate: Candidate) -> Result<(), BenchError> {
    match handle.append(candidate).await.map_err(BenchError::of)? {
        Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => Ok(()),
        Verdict::Conflict(_) | Verdict::Refused(_) => Err(BenchError::Refused),
    }
}

/// Makes the `n`-th event of a writer.
///
/// # Panics
/// Never: numbers and words make a source and a key.
#[must_use]
pub fn note(run: u64, writer: usize, n: u64) -> Candidate {
    let source = SourceId::parse(&format!("notes:w{writer}")).expect("a number makes a source");
    let key = IdempotencyKey::parse(&format!("{run}-{n:012}")).expect("numbers make a key");
    let actor = Actor::ours(ActorKind::Person, "bench");
    let text = "x".repeat(PAYLOAD_BYTES - r#"{"text":""}"#.len());
    let note = Note { text, title: None, tags: Vec::new() };
    note.candidate(Envelope::new(source, key, Privacy::Private, actor))
}

fn declaration(lifecycle: Lifecycle) -> String {
    format!(
        "id: bench-{}\nversion: 1\nenabled: true\ndescription: Takes the steps of a measurement.\n\
         subscribe:\n  types: [{}]\n  kinds: [notes]\n  replay: now\n  batch: {{ max: 1, wait: 0s }}\n\
         runner: {{ kind: deterministic, transform: bench }}\nlifecycle: {}\nemit: [{}]\n\
         policy: {{ tools: [], externalActions: false }}\n",
        lifecycle.declared(),
        Note::NAME,
        lifecycle.declared(),
        DocumentLinks::NAME,
    )
}

/// Returns the catalog with the measurement's own transform in it.
fn catalog(registry: &Registry) -> Catalog {
    let mut catalog = Catalog::of(registry);
    let transform = TransformInfo {
        accepts: BTreeSet::from([Note::kind().name]),
        emits: BTreeSet::from([DocumentLinks::kind().name]),
    };
    catalog.transforms.insert("bench".to_owned(), transform);
    catalog
}

/// Puts a runner of the measurement's own into what was declared.
fn compile(steps: Arc<Steps>) -> Compile {
    Arc::new(move |set: &DeclarationSet| {
        set.enabled_shared()
            .map(|declaration| ConsumerSpec::of(declaration, &Facilities::default()))
            .map(|spec| ConsumerSpec { work: Work::Transform(steps.clone()), ..spec })
            .collect()
    })
}

/// Rings for each writer when its step is settled.
struct Steps {
    settled: Vec<Notify>,
}

impl Runner for Steps {
    fn run(&self, _: &Reader, triggers: &[Event]) -> Result<Vec<Output>, RunFailure> {
        let first = triggers.first().ok_or(RunFailure::of_input("trigger-missing"))?;
        let payload = serde_json::json!({
            "state": "removed",
            "documentId": "doc_bench",
            "revision": first.sequence,
            "path": "p".repeat(OUTPUT_PATH_BYTES),
        });
        Ok(vec![Output { kind: DocumentLinks::kind(), payload, address: None }])
    }

    fn is_brief(&self, _: &[Event]) -> bool {
        true
    }

    fn settled(&self, execution: &Execution) {
        let writer = execution.source.name().strip_prefix('w').and_then(|number| number.parse().ok());
        if let Some(settled) = writer.and_then(|writer: usize| self.settled.get(writer)) {
            settled.notify_one();
        }
    }
}

/// Brings an output to about half a KiB.
const OUTPUT_PATH_BYTES: usize = 430;
