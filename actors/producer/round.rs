//! The looking task: scan, step, hand in in order, wait for a reason to look again.

use std::sync::Arc;
use std::time::Duration;

use thoughtstream_channels::filesystem::admit::STATS_MAX;
use thoughtstream_channels::filesystem::change::ChangeGroup;
use thoughtstream_channels::filesystem::producer::{self, FilesystemProducer, Incident, LookAgain, Step};
use thoughtstream_channels::filesystem::root::{Root, RootError, RootIncident};
use thoughtstream_channels::filesystem::scan::{Scan, ScanError};
use thoughtstream_channels::filesystem::watch::{Hints, Watch};

use super::intake::{Intake, Standing};
use super::{Now, Nudges, ProducerSpec};
use crate::killpoint::{KillPoint, KillSite};
use crate::supervisor::Fault;

/// How soon to look again at something that was in motion.
const SOON: Duration = Duration::from_secs(2);
/// How soon to look again at removals that wait for a second look.
const LATER: Duration = Duration::from_secs(31);

/// Looks until something goes wrong, which it returns.
pub async fn keep_looking<I: Intake>(
    intake: I,
    spec: Arc<ProducerSpec>,
    now: Now,
    site: KillSite,
    nudges: Arc<Nudges>,
) -> Fault {
    let looked = async {
        let producer = known(&intake, &spec).await?;
        let mut looking =
            Looking { intake, spec, now, site, producer, root: None, watch: None, looks: 0, open: 0 };
        loop {
            looking.intake.looking();
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
async fn known(intake: &impl Intake, spec: &ProducerSpec) -> Result<FilesystemProducer, Fault> {
    let mut documents = Vec::new();
    let mut after = None;
    loop {
        let page = intake.documents(after).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        documents.extend(page);
    }
    Ok(FilesystemProducer::resume(spec.source.clone(), documents, spec.removals))
}

struct Looking<I> {
    intake: I,
    spec: Arc<ProducerSpec>,
    now: Now,
    site: KillSite,
    producer: FilesystemProducer,
    root: Option<Arc<Root>>,
    watch: Option<(Watch, Hints)>,
    looks: u64,
    /// How many incidents are open.
    open: u64,
}

impl<I: Intake> Looking<I> {
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
            self.intake.skipped(self.producer.report_of(scan)).await?;
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
            self.intake.keep(stats.to_vec()).await?;
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
        self.tell(scan.as_ref().ok()).await?;
        Ok((look_again, scan.is_ok() && look_again != LookAgain::Soon))
    }

    async fn scan(&mut self) -> Result<Result<Scan, ScanError>, Fault> {
        let (spec, root) = (Arc::clone(&self.spec), self.root.clone());
        let known = self.producer.known();
        let now_ns = (self.now)().as_millis().saturating_mul(1_000_000);
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
        self.intake.take(group.clone(), contents).await?;
        self.producer.committed(group);
        Ok(true)
    }

    fn follow(&mut self, scan: &Scan) -> Vec<Incident> {
        let spec = &self.spec;
        let (watch, _) =
            self.watch.get_or_insert_with(|| Watch::start(&spec.root, &spec.rules.selection, spec.watch));
        watch.follow(&scan.directories)
    }

    /// Reports an incident, once at its beginning and once at its end.
    async fn report(&mut self, incident: Incident) -> Result<(), Fault> {
        self.open = if incident.over { self.open.saturating_sub(1) } else { self.open + 1 };
        Ok(self.intake.report(incident, self.looks).await?)
    }

    async fn tell(&self, scan: Option<&Scan>) -> Result<(), Fault> {
        let standing = Standing {
            documents: self.producer.known().live() as u64,
            looks: self.looks,
            removals_held: self.producer.held().map(|held| held.documents.len() as u64),
            skipped: scan.map(|scan| scan.skipped.counts.values().sum()),
            incidents: self.open,
        };
        Ok(self.intake.stands(standing).await?)
    }

    /// Waits for a hint, a person or the time.
    async fn wait(&mut self, nudges: &Nudges, again: LookAgain) {
        let within = match again {
            LookAgain::Soon => Some(SOON),
            LookAgain::Later => Some(LATER),
            LookAgain::NotNeeded => None,
        };
        let period = self.spec.watch.period_unwatched;
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
        RootError::Link { .. } | RootError::NotADirectory { .. } => RootIncident::NotADirectory,
        RootError::ContainsData { .. } | RootError::InsideData { .. } => RootIncident::OverlapsData,
        RootError::Io { source, .. } => {
            RootIncident::Unreadable(nix::errno::Errno::from_raw(source.raw_os_error().unwrap_or(0)))
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Fault(super::ROUND_FAILED))
}
