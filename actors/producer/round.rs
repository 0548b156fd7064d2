//! The looking task: scan, step, commit in order, wait for a reason to look again.

use std::sync::Arc;
use std::time::Duration;

use thoughtstream_channels::filesystem::change::ChangeGroup;
use thoughtstream_channels::filesystem::producer::{self, FilesystemProducer, Incident, LookAgain, Step};
use thoughtstream_channels::filesystem::root::{Root, RootError, RootIncident};
use thoughtstream_channels::filesystem::scan::{Scan, ScanError};
use thoughtstream_channels::filesystem::watch::{Hints, Watch};
use thoughtstream_domain::commit::{Commit, Row, Verdict};
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Envelope};
use thoughtstream_domain::id::{IdempotencyKey, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader, RowError};

use super::{Nudges, ProducerArgs, ProducerSpec};
use crate::killpoint::{KillPoint, KillSite};
use crate::supervisor::{Detail, Fault, ReasonCode};

const STORE_UNREADABLE: ReasonCode = ReasonCode::new("store-unreadable");
/// The log knows a document otherwise than this producer; it starts from the log again.
const OVERTAKEN: ReasonCode = ReasonCode::new("overtaken");
const CLOSED: ReasonCode = ReasonCode::new("service-stopping");
const LOOKING: ReasonCode = ReasonCode::new("looking");
const INCIDENT: ReasonCode = ReasonCode::new("incident");
const REMOVALS_HELD: ReasonCode = ReasonCode::new("removals-held");

/// How soon to look again at something that was in motion.
const SOON: Duration = Duration::from_secs(2);
/// How soon to look again at removals that wait for a second look.
const LATER: Duration = Duration::from_secs(31);
/// How many statistics rows go into one commit.
const STATS_MAX: usize = 256;

/// Looks until something goes wrong, which it returns.
pub(super) async fn keep_looking(args: ProducerArgs, site: KillSite, nudges: Arc<Nudges>) -> Fault {
    let looked = async {
        let (reader, spec) = (args.reader.clone(), Arc::clone(&args.spec));
        let producer = blocking(move || known(&reader, &spec)).await?.map_err(|_| Fault(STORE_UNREADABLE))?;
        let mut looking = Looking { args, site, producer, root: None, watch: None, looks: 0, open: 0 };
        loop {
            looking.args.status.note(Some(LOOKING));
            let asked = nudges.take_asked();
            let (again, whole) = looking.look().await?;
            for asker in asked {
                // One that does not wait any more is told nothing.
                asker.send(whole).ok();
            }
            looking.wait(&nudges, again).await;
        }
    };
    let never: Result<std::convert::Infallible, Fault> = looked.await;
    match never {
        Err(fault) => fault,
        Ok(never) => match never {},
    }
}

/// Reads what the log knows of the source.
fn known(reader: &Reader, spec: &ProducerSpec) -> Result<FilesystemProducer, RowError> {
    let mut documents = Vec::new();
    let mut after = None;
    loop {
        let page = reader.documents(&spec.source, after.as_ref(), PAGE_ROWS_MAX)?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        documents.extend(page);
    }
    Ok(FilesystemProducer::resume(spec.source.clone(), documents, spec.removals))
}

struct Looking {
    args: ProducerArgs,
    site: KillSite,
    producer: FilesystemProducer,
    root: Option<Arc<Root>>,
    watch: Option<(Watch, Hints)>,
    looks: u64,
    /// How many incidents are open.
    open: u64,
}

impl Looking {
    /// Looks once, and says when to look again and whether everything there was to see is in the log.
    async fn look(&mut self) -> Result<(LookAgain, bool), Fault> {
        self.looks += 1;
        let scan = self.scan().await?;
        let step = match &scan {
            Ok(scan) => self.producer.step(scan),
            Err(error) => {
                self.root = None; // it is opened anew at each look until it is as it was
                self.producer.step_without_scan(error)
            }
        };
        if let Ok(scan) = &scan {
            // Before the incident that counts them is in the log: who reads it finds the names.
            self.args.skipped.put(scan.skipped.clone());
        }
        let Step { changes, stats, mut incidents, mut look_again } = step;
        if !changes.is_empty() {
            self.site.pass(KillPoint::ObserveBefore).await?;
        }
        let mut all = true;
        for group in &changes {
            if !self.commit(group).await? {
                all = false; // the file moved on; what follows may build on it
                look_again = LookAgain::Soon;
                break;
            }
        }
        for stats in stats.chunks(STATS_MAX).filter(|_| all) {
            let source = &self.args.spec.source;
            let rows = stats.iter().map(|(document, stat)| Row::DocumentStat {
                source: source.clone(),
                document: document.clone(),
                stat: *stat,
            });
            self.settle(Commit { rows: rows.collect(), ..Commit::default() }).await?;
            for (document, stat) in stats {
                self.producer.stat_kept(document, *stat);
            }
        }
        if let Ok(scan) = &scan {
            incidents.extend(self.follow(scan));
        }
        for incident in incidents {
            self.report(incident).await?;
        }
        self.tell(scan.as_ref().ok());
        Ok((look_again, scan.is_ok() && look_again != LookAgain::Soon))
    }

    async fn scan(&mut self) -> Result<Result<Scan, ScanError>, Fault> {
        let (spec, root) = (Arc::clone(&self.args.spec), self.root.clone());
        let known = self.producer.known();
        let now_ns = self.args.clock.now().as_millis().saturating_mul(1_000_000);
        let (root, scan) = blocking(move || {
            let root = match root.map_or_else(|| Root::open(&spec.root, &spec.data).map(Arc::new), Ok) {
                Ok(root) => root,
                Err(error) => return (None, Err(ScanError::Root(incident(&error)))),
            };
            let scan = producer::look(&root, &spec.rules, &known, now_ns);
            (Some(root), scan)
        })
        .await?;
        self.root = root;
        Ok(scan)
    }

    /// Commits one group of changes; `false` if the file has changed since the scan.
    async fn commit(&mut self, group: &ChangeGroup) -> Result<bool, Fault> {
        let Some(root) = self.root.clone() else { return Ok(false) };
        let loading = group.clone();
        let Ok(contents) = blocking(move || loading.load(&root)).await? else { return Ok(false) };
        let commit = group.commit(self.args.spec.privacy, &contents);
        self.settle(commit).await?;
        self.producer.committed(group);
        Ok(true)
    }

    async fn settle(&self, commit: Commit) -> Result<(), Fault> {
        let submitted = self.args.log.submit(Arc::new(commit));
        self.site.pass(KillPoint::ObserveInside).await?;
        let verdict = submitted.settled().await.map_err(|_| Fault(CLOSED))?;
        self.site.pass(KillPoint::ObserveAfter).await?;
        match verdict {
            Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => Ok(()),
            Verdict::Conflict(_) | Verdict::Refused(_) => Err(Fault(OVERTAKEN)),
        }
    }

    fn follow(&mut self, scan: &Scan) -> Vec<Incident> {
        let spec = &self.args.spec;
        let (watch, _) =
            self.watch.get_or_insert_with(|| Watch::start(&spec.root, &spec.rules.selection, spec.watch));
        watch.follow(&scan.directories)
    }

    /// Records an incident, once at its beginning and once at its end.
    async fn report(&mut self, incident: Incident) -> Result<(), Fault> {
        self.open = if incident.over { self.open.saturating_sub(1) } else { self.open + 1 };
        let now = self.args.clock.now().as_millis();
        let source = &self.args.spec.source;
        let key = format!("{}/{source}/{}/{}/{now}", self.args.incarnation, incident.code, self.looks);
        let Ok(key) = IdempotencyKey::parse(&key) else { return Ok(()) };
        let actor = EventActor::ours(ActorKind::Producer, source.as_str());
        let envelope = Envelope::new(SourceId::supervision(), key, self.args.spec.privacy, actor);
        let payload = system::Incident {
            subject: source.to_string(),
            code: incident.code.to_owned(),
            detail: Some(incident.detail),
            over: incident.over,
        };
        let commit = Commit { appends: vec![payload.candidate(envelope)], ..Commit::default() };
        self.args.log.commit(commit).await.map(drop).map_err(|_| Fault(CLOSED))
    }

    fn tell(&self, scan: Option<&Scan>) {
        let status = &self.args.status;
        status.settled();
        status.set("documents", Detail::Count(self.producer.known().live() as u64));
        status.set("looks", Detail::Count(self.looks));
        status.set("lookedAt", Detail::At(self.args.clock.now()));
        if let Some(scan) = scan {
            status.set("skipped", Detail::Count(scan.skipped.counts.values().sum()));
        }
        match self.producer.held() {
            Some(held) => status.set("removalsHeld", Detail::Count(held.documents.len() as u64)),
            None => status.clear("removalsHeld"),
        }
        let held = self.producer.held().map(|_| REMOVALS_HELD);
        status.note(held.or((self.open > 0).then_some(INCIDENT)));
    }

    /// Waits for a hint, a person or the time.
    async fn wait(&mut self, nudges: &Nudges, again: LookAgain) {
        let within = match again {
            LookAgain::Soon => Some(SOON),
            LookAgain::Later => Some(LATER),
            LookAgain::NotNeeded => None,
        };
        let period = self.args.spec.watch.period_unwatched;
        let hint = async {
            match &mut self.watch {
                Some((_, hints)) => drop(hints.next(within).await),
                None => tokio::time::sleep(within.unwrap_or(period)).await,
            }
        };
        tokio::select! {
            () = hint => {}
            () = nudges.look.notified() => {}
        }
        if nudges.take_acknowledgement() {
            self.producer.acknowledge_removals();
        }
    }
}

/// Names an unusable root as the incident it is.
fn incident(error: &RootError) -> RootIncident {
    match error {
        RootError::Missing { .. } => RootIncident::Missing,
        RootError::Link { .. } | RootError::NotADirectory { .. } => RootIncident::Replaced,
        RootError::ContainsData { .. } | RootError::InsideData { .. } => RootIncident::OverlapsData,
        RootError::Io { source, .. } => {
            RootIncident::Unreadable(nix::errno::Errno::from_raw(source.raw_os_error().unwrap_or(0)))
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Fault(super::ROUND_FAILED))
}
