//! The service on its store: started, asked, harmed, nursed back to health, stopped and started again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thoughtstream_actors::broker::Brokers;
use thoughtstream_actors::clock::{Clock, SystemClock};
use thoughtstream_actors::killpoint::KillPoints;
use thoughtstream_actors::log::LogError;
use thoughtstream_actors::producer::{ProducerSpec, Runs};
use thoughtstream_actors::service::{Service, ServiceArgs, ServiceHandle};
use thoughtstream_actors::supervisor::{ChildState, Outcome, Shutdown};
use thoughtstream_channels::filesystem::producer::RemovalRule;
use thoughtstream_channels::filesystem::rules::{Bounds, ScanRules, Selection};
use thoughtstream_channels::filesystem::watch::WatchSettings;
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Envelope};
use thoughtstream_domain::id::{ConsumerId, IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::{Execution, ExecutionState};
use thoughtstream_domain::operate;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::capability::{MEMORY_PATH, MEMORY_SOURCE};
use thoughtstream_store::disk::Disk;
use thoughtstream_store::{Options, PAGE_ROWS_MAX, Reader, Store, create_on};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::cast::{Files, Temper, compile};
use super::oracle::{Oracle, folder_differs};

/// A run that is not quiet by then hangs; a healthy one needs a fraction of it.
const QUIET_WITHIN: Duration = Duration::from_secs(90);

/// How long somebody waits for an answer before doing something else; who is held is not waited for.
const ANSWER_WITHIN: Duration = Duration::from_millis(400);

/// How often the stage is looked at while it comes to rest: not every change is a commit.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often a start is tried: a trap may spring while the service comes up, as it may under a service manager.
const STARTS_MAX: usize = 40;

/// The source of the watched folder.
pub const FOLDER: &str = "filesystem:notes";

/// Is a store with everything that is run on it.
pub struct Stage {
    directory: tempfile::TempDir,
    disk: Option<Arc<dyn Disk>>,
    watches: bool,
    /// Whether the memory document's folder is watched.
    remembers: bool,
    /// Where that folder is, and how large a file in it may be.
    context_root: PathBuf,
    context_bytes_max: u64,
    /// What is declared.
    pub files: Files,
    /// How runners behave.
    pub temper: Temper,
    /// Where actors can be made to fail.
    pub points: Arc<KillPoints>,
    /// What was acknowledged.
    pub oracle: Oracle,
    /// The clock of the service.
    pub clock: Arc<dyn Clock>,
    service: Option<Running>,
    /// Counts what the disk did, where that matters.
    pub operations: Option<Operations>,
    /// Names the run in every failure.
    pub context: String,
    decisions: u64,
}

/// Is a service that runs, and a task that waits for its end as the program does.
struct Running {
    service: Arc<Service>,
    ending: JoinHandle<Outcome>,
}

impl Running {
    fn new(service: Service) -> Self {
        let service = Arc::new(service);
        let waiting = Arc::clone(&service);
        Self { service, ending: tokio::spawn(async move { waiting.ended().await }) }
    }
}

/// Small journals are made fast, and are filled often.
#[must_use]
pub fn options() -> Options {
    Options { journal_file_bytes: 1 << 19, cache_bytes: 8 << 20, ..Options::default() }
}

impl Stage {
    /// Makes a store in a directory of its own, with a watched folder beside it if `watches`.
    #[must_use]
    pub fn new(context: &str, parts: &[&'static str], watches: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the test");
        std::fs::create_dir(directory.path().join("notes")).expect("a folder for the test");
        Store::create(&directory.path().join("data"), [7; 16], options()).expect("a store for the test");
        Self::of(directory, None, context, parts, watches)
    }

    /// Runs on a disk of the imagination.
    #[must_use]
    pub fn on(disk: Arc<dyn Disk>, context: &str, parts: &[&'static str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the test");
        Self::of(directory, Some(disk), context, parts, false)
    }

    /// Makes the store on a disk of the imagination first.
    #[must_use]
    pub fn create_on(disk: Arc<dyn Disk>, context: &str, parts: &[&'static str]) -> Self {
        create_on(&disk, [7; 16], options()).expect("a store for the test");
        Self::on(disk, context, parts)
    }

    fn of(
        directory: tempfile::TempDir,
        disk: Option<Arc<dyn Disk>>,
        context: &str,
        parts: &[&'static str],
        watches: bool,
    ) -> Self {
        // The way to a temporary directory may lead through a link.
        let context_root =
            directory.path().canonicalize().expect("the test's directory").join("kept/context");
        Self {
            directory,
            disk,
            watches,
            remembers: false,
            context_root,
            context_bytes_max: Bounds::default().file_bytes_max,
            files: Files::of(parts),
            temper: Temper::MILD,
            points: KillPoints::for_rehearsal(),
            oracle: Oracle::default(),
            clock: Arc::new(SystemClock),
            service: None,
            operations: None,
            context: context.to_owned(),
            decisions: 0,
        }
    }

    /// Watches the folder of the memory document as well, with this document in it.
    #[must_use]
    pub fn remembering(mut self, text: &str) -> Self {
        std::fs::create_dir_all(self.context_root()).expect("a folder for the test");
        std::fs::write(self.context_root().join(MEMORY_PATH), text).expect("a document for the test");
        self.remembers = true;
        self
    }

    /// Leaves the memory document's folder out of the configuration, or takes it in again, from the next start.
    pub fn set_remembers(&mut self, remembers: bool) {
        self.remembers = remembers;
    }

    /// Says how large a file in the folder of the memory document may be, from the next start.
    pub fn set_context_bytes_max(&mut self, bytes_max: u64) {
        self.context_bytes_max = bytes_max;
    }

    /// Returns the folder of the memory document.
    #[must_use]
    pub fn context_root(&self) -> PathBuf {
        self.context_root.clone()
    }

    /// Waits until something holds of the log.
    ///
    /// # Panics
    /// If it does not within the time that a stage has to come to rest.
    pub async fn until(&self, what: &str, holds: impl Fn(&Reader) -> bool) {
        let begun = Instant::now();
        let (reader, mut head) = (self.reader(), self.handle().head());
        while !holds(&reader) {
            if begun.elapsed() > QUIET_WITHIN {
                self.give_up(what).await;
            }
            // Not every change is a commit.
            tokio::time::timeout(LOOK_EVERY, head.changed()).await.ok();
        }
    }

    /// Returns the watched folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.directory.path().join("notes")
    }

    /// Returns the data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn arguments(&self) -> ServiceArgs {
        let data = self.data();
        let mut producers = Vec::new();
        if self.watches {
            producers.push(producer(FOLDER, &self.folder(), &data));
        }
        if self.remembers {
            let mut memory = producer(MEMORY_SOURCE, &self.context_root, &data);
            memory.rules.bounds.file_bytes_max = self.context_bytes_max;
            producers.push(memory);
        }
        ServiceArgs {
            data,
            disk: self.disk.clone(),
            options: options(),
            load: self.files.load(),
            compile: compile(self.temper),
            producers,
            brokers: Brokers::default(),
            paused: false,
            drain: Shutdown::STOP_WITHIN,
            points: Arc::clone(&self.points),
            clock: Arc::clone(&self.clock),
            program: "chaos".to_owned(),
            support: Vec::new(),
            extra: Box::new(|_| Vec::new()),
        }
    }

    /// Starts the service, again if something is in its way.
    pub async fn start(&mut self) {
        for attempt in 1.. {
            match Service::start(self.arguments()).await {
                Ok(service) => {
                    self.service = Some(Running::new(service));
                    return;
                }
                Err(error) if attempt == STARTS_MAX => panic!("{}: {error:?}", self.context),
                // A service manager starts it anew; so does the next round of this loop.
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Returns the running service's handle.
    #[must_use]
    pub fn handle(&self) -> ServiceHandle {
        self.service.as_ref().expect("the service runs").service.handle().clone()
    }

    /// Returns the reader of the running service.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.handle().reader()
    }

    /// Stops the service, in order or at once.
    pub async fn stop(&mut self, by_force: bool) -> Outcome {
        let Some(Running { service, ending }) = self.service.take() else { return Outcome::Stopped };
        // Whoever is held would be waited for.
        self.points.disarm_all();
        service.stop();
        if by_force {
            service.stop();
        }
        match tokio::time::timeout(QUIET_WITHIN, ending).await {
            Ok(outcome) => outcome.expect("waiting for the end does not panic"),
            Err(_) => {
                panic!("{}: the service does not stop: {:#?}", self.context, service.handle().tree().await)
            }
        }
    }

    /// Starts the service anew if it gave up, as a service manager does.
    pub async fn revive(&mut self) -> bool {
        let Some(service) = &self.service else {
            self.start().await;
            return true;
        };
        if !service.ending.is_finished() {
            return false;
        }
        drop(self.service.take());
        self.start().await;
        true
    }

    /// Appends notes side by side and keeps what is acknowledged. Who gets no answer for a while goes on: what
    /// was not acknowledged may be there or not.
    pub async fn append_all(&self, notes: &[Candidate]) {
        let mut appending = JoinSet::new();
        for note in notes {
            appending.spawn(append(
                self.handle(),
                self.oracle.clone(),
                note.clone(),
                self.operations.clone(),
            ));
        }
        let ended = tokio::time::timeout(ANSWER_WITHIN, appending.join_all()).await;
        for result in ended.unwrap_or_default() {
            if let Err(verdict) = result {
                panic!("{}: {verdict:?}", self.context);
            }
        }
    }

    /// Restarts a consumer; says whether its supervisor did.
    pub async fn restart(&self, id: &ConsumerId) -> bool {
        let handle = self.handle();
        let restarted = tokio::time::timeout(ANSWER_WITHIN, handle.restart_consumer(id)).await;
        matches!(restarted, Ok(Ok(())))
    }

    /// Reloads the declarations, and waits a while for it; says whether they were taken over.
    pub async fn reload(&self) -> bool {
        let handle = self.handle();
        // One who stops waiting does not stop the reload, as a client that vanishes does not.
        let reloading = tokio::spawn(async move { handle.reload(None).await.is_ok() });
        matches!(tokio::time::timeout(ANSWER_WITHIN, reloading).await, Ok(Ok(true)))
    }

    /// Looks whether a reload that was asked for has taken the declarations over, and asks for one if none is
    /// under way.
    async fn has_reloaded(&self, reloading: &mut Option<JoinHandle<bool>>) -> bool {
        let handle = self.handle();
        let under_way =
            reloading.get_or_insert_with(|| tokio::spawn(async move { handle.reload(None).await.is_ok() }));
        match tokio::time::timeout(ANSWER_WITHIN, under_way).await {
            Err(_) => false,
            Ok(ended) => {
                *reloading = None;
                matches!(ended, Ok(true))
            }
        }
    }

    /// Makes a person's decision about a consumer as the command does, and tells it.
    pub async fn decide(&mut self, id: &ConsumerId, decision: Decision) {
        let key = self.key("decision");
        let handle = self.handle();
        let Ok(control) = handle.reader().control(id) else { return };
        let commit = match decision {
            Decision::Pause => operate::pause(id, control.as_ref(), None, operator(), self.clock.now(), key),
            Decision::Resume => operate::resume(id, control.as_ref(), operator(), key),
        };
        self.settle_decision(id, commit).await;
    }

    async fn settle_decision(&self, id: &ConsumerId, commit: Option<Commit>) {
        let handle = self.handle();
        let settle = async {
            if let Some(commit) = commit {
                // One that was overtaken or lost is made again another time.
                handle.decide(commit).await.ok();
            }
            handle.consumer_changed(id).await.ok();
        };
        // Whoever is held is not waited for.
        tokio::time::timeout(ANSWER_WITHIN, settle).await.ok();
    }

    /// Tries a waiting or held execution again, or passes it.
    pub async fn move_on(&mut self, mut execution: Execution, skip: bool) {
        let (key, now) = (self.key("move"), self.clock.now());
        let (id, consumer) = (execution.id, execution.consumer.id.clone());
        let commit = match execution.state {
            ExecutionState::Waiting { .. } | ExecutionState::Held { .. } if skip => {
                // Whether the answer is lost or not: from here on it may have been skipped.
                self.oracle.skipped(id);
                execution.skip(now, "chaos", operator(), key)
            }
            ExecutionState::Waiting { .. } | ExecutionState::Held { .. } => {
                execution.retry_now(now, operator(), key)
            }
            ExecutionState::Running | ExecutionState::Closed { .. } => return,
        };
        self.settle_decision(&consumer, Some(commit)).await;
    }

    fn key(&mut self, what: &str) -> IdempotencyKey {
        self.decisions += 1;
        IdempotencyKey::parse(&format!("{what}/{}", self.decisions)).expect("a word and a number are a key")
    }

    /// Lets everything that was harmed recover, and waits until nothing is left to do.
    pub async fn come_to_rest(&mut self) {
        self.points.disarm_all();
        for id in self.files.ids() {
            self.files.edit(id, |setting| setting.enabled = true);
        }
        let begun = Instant::now();
        let (mut reloaded, mut reloading) = (false, None);
        loop {
            if self.revive().await {
                (reloaded, reloading) = (false, None);
            }
            if !reloaded {
                // One at a time: a slow one that is asked for again and again never comes to an end.
                reloaded = self.has_reloaded(&mut reloading).await;
            }
            self.nurse().await;
            let unrest = self.unrest();
            match unrest {
                None if reloaded => return,
                None => {}
                Some(unrest) if begun.elapsed() > QUIET_WITHIN => self.give_up(&unrest).await,
                Some(_) => {}
            }
            let mut head = self.handle().head();
            // A commit is news; other changes are found by looking again.
            tokio::time::timeout(LOOK_EVERY, head.changed()).await.ok();
        }
    }

    /// Ends a run that does not end, with all that can be seen.
    ///
    /// # Panics
    /// Always.
    pub async fn give_up(&self, unrest: &str) -> ! {
        if self.service.is_none() {
            panic!("{}: {unrest}, and no service runs", self.context);
        }
        let tree = self.handle().tree().await;
        panic!(
            "{}: no rest: {unrest}\nlog: {:?}\n{tree:#?}",
            self.context,
            *self.handle().log_state().borrow()
        );
    }

    /// Does what a person does who sees that something is down: resumes, restarts, retries.
    async fn nurse(&mut self) {
        let handle = self.handle();
        for id in self.files.ids() {
            let Ok(id) = ConsumerId::parse(id) else { continue };
            self.decide(&id, Decision::Resume).await;
            let Some(tree) = handle.tree().await else { continue };
            let state = tree.find(&format!("consumers/{id}")).map(|node| node.state);
            if state == Some(ChildState::BackingOff) {
                self.restart(&id).await;
            }
        }
        if self.watches {
            handle.look_at(FOLDER).ok();
        }
        let held: Vec<Execution> = self.unsettled(&handle.reader());
        for execution in held.into_iter().filter(|e| matches!(e.state, ExecutionState::Held { .. })) {
            self.move_on(execution, false).await;
        }
    }

    /// Returns the executions that are not closed, of the versions that are enabled.
    #[must_use]
    pub fn unsettled(&self, reader: &Reader) -> Vec<Execution> {
        let enabled = self.handle().declarations();
        let keys = enabled.enabled().map(|declaration| declaration.key());
        keys.flat_map(|key| reader.unsettled(key, 0, PAGE_ROWS_MAX).unwrap_or_default()).collect()
    }

    /// Says what is still to be done; nothing if all is quiet.
    fn unrest(&self) -> Option<String> {
        let (handle, reader) = (self.handle(), self.reader());
        let declarations = handle.declarations();
        if declarations.enabled().count() < self.files.ids().len() {
            return Some("not every consumer is enabled".to_owned());
        }
        if let Some(execution) = self.unsettled(&reader).first() {
            return Some(format!(
                "{} of {} stands at {:?}",
                execution.id, execution.consumer, execution.state
            ));
        }
        for declaration in declarations.enabled() {
            let subscription = declaration.subscription();
            let types: Vec<_> = subscription.accepted_types().iter().cloned().collect();
            for head in reader.sources().ok()?.into_iter().filter(|head| subscription.includes(&head.source))
            {
                let progress = reader.progress(declaration.key(), &head.source).ok()?;
                let page = reader.backlog(&types, &head.source, progress, PAGE_ROWS_MAX).ok()?;
                if let Some(event) = page.iter().find(|event| subscription.matches(event)) {
                    let (key, source) = (declaration.key(), &head.source);
                    let claims = reader.claims(key, source, 20).ok()?;
                    return Some(format!(
                        "{key} stands at {progress} of {} on {source}, has not passed #{}, claims {claims:?}",
                        head.sequence, event.sequence
                    ));
                }
            }
        }
        let folder = SourceId::parse(FOLDER).ok()?;
        if self.watches { folder_differs(&reader, &folder, &self.folder()) } else { None }
    }

    /// Comes to rest, stops in order, and judges the log that is left.
    pub async fn judge(&mut self) {
        self.come_to_rest().await;
        let set = self.handle().declarations();
        let outcome = self.stop(false).await;
        assert_eq!(outcome, Outcome::Stopped, "{}", self.context);
        let opened = match &self.disk {
            Some(disk) => Store::open_on(Arc::clone(disk), options()),
            None => Store::open(&self.data(), options()),
        };
        let store = opened.unwrap_or_else(|error| panic!("{}: {error:?}", self.context));
        self.oracle.check_acknowledged(&store.reader, u64::MAX, &self.context);
        self.oracle.check_quiet(&store.reader, &set, &self.context);
    }
}

/// What a person decides about a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Start nothing more.
    Pause,
    /// Go on.
    Resume,
}

fn operator() -> Operator {
    Operator { uid: 7, pid: 7, tty: None }
}

/// Tells how many operations a disk has done.
pub type Operations = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Appends one note; a lost answer is asked for again.
async fn append(
    handle: ServiceHandle,
    oracle: Oracle,
    note: Candidate,
    operations: Option<Operations>,
) -> Result<(), Verdict> {
    let source = note.envelope().source.clone();
    loop {
        match handle.append(note.clone()).await {
            Ok(Verdict::Committed(placed) | Verdict::AlreadyCommitted(placed)) => {
                oracle.acknowledged(&source, placed, operations.map_or(0, |operations| operations()));
                return Ok(());
            }
            Ok(verdict) => return Err(verdict),
            Err(LogError::Closed) => return Ok(()),
            Err(LogError::Damaged { place }) => panic!("the log is damaged at {place}"),
            Err(LogError::Unknown | LogError::Unwritable { .. }) => tokio::time::sleep(LOOK_EVERY / 4).await,
        }
    }
}

/// Makes a note.
#[must_use]
pub fn note(source: &str, key: &str, text: &str, title: Option<&str>) -> Candidate {
    let source = SourceId::parse(source).expect("a source of a test");
    let key = IdempotencyKey::parse(key).expect("a key of a test");
    let actor = Actor::ours(ActorKind::Person, "uid:7");
    let note = Note { text: text.to_owned(), title: title.map(str::to_owned), tags: Vec::new() };
    note.candidate(Envelope::new(source, key, Privacy::Private, actor))
}

fn producer(source: &str, root: &Path, data: &Path) -> ProducerSpec {
    ProducerSpec {
        source: SourceId::parse(source).expect("a source"),
        root: root.to_owned(),
        data: data.to_owned(),
        rules: ScanRules {
            selection: Selection::new(&[], &[], true).expect("no pattern is wrong"),
            bounds: Bounds::default(),
        },
        removals: RemovalRule::default(),
        watch: WatchSettings { quiet: Duration::from_millis(5), ..WatchSettings::default() },
        privacy: Privacy::Private,
        runs: Runs::Here,
    }
}
