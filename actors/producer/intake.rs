//! Where a producer's findings go: one way in, whether the producer runs in this process or as one of its own.
//!
//! [`Intake`] is what the looking task needs of the log. [`Here`] is the log of this service: it holds everything
//! against the declaration of the source and makes the commit. A producer that runs apart has an intake that asks
//! the service over its socket; the service answers it with a [`Here`] of that source.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use thoughtstream_channels::filesystem::admit::{Declared, NotTaken, Rows, Unfit};
use thoughtstream_channels::filesystem::change::{ChangeGroup, Contents, recorded_under, records};
use thoughtstream_channels::filesystem::producer::{Incident, incident_code, is_about_root};
use thoughtstream_channels::filesystem::scan::SkipReport;
use thoughtstream_domain::commit::{Commit, Document, FileStat, Verdict};
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Envelope};
use thoughtstream_domain::id::{DocumentId, IdempotencyKey, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system;
use thoughtstream_store::{Reader, RowError};

use super::apart::Seat;
use super::{ProducerSpec, SkippedSlot};
use crate::clock::Clock;
use crate::incidents::open_about;
use crate::killpoint::{KillPoint, KillSite};
use crate::log::{CLOSED, LogError, LogHandle, STORE_UNREADABLE};
use crate::supervisor::{Detail, Fault, ReasonCode, StatusCell};

/// So many documents are read at a time: a page of them fits one frame however long their paths are.
pub const PAGE_DOCUMENTS_MAX: usize = 256;

/// The log knows a document otherwise than this producer; it starts from the log again.
const OVERTAKEN: ReasonCode = ReasonCode::new("overtaken");
/// The declaration of the source does not allow what its producer hands in.
const UNFIT: ReasonCode = ReasonCode::new("not-as-declared");
const LOOKING: ReasonCode = ReasonCode::new("looking");
const INCIDENT: ReasonCode = ReasonCode::new("incident");
const REMOVALS_HELD: ReasonCode = ReasonCode::new("removals-held");

/// Says why something was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Turned {
    /// The declaration of the source does not allow it.
    #[error("{0}")]
    Unfit(Unfit),
    /// The log knows a document otherwise: whoever looks starts from the log again.
    #[error("the log knows a document otherwise")]
    Overtaken,
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Unreadable,
    /// Nobody takes anything any more; what was handed in may be in the log.
    #[error("nobody takes anything any more")]
    Closed,
    /// It was made to fail.
    #[error("{0}")]
    Fault(Fault),
}

impl From<Turned> for Fault {
    fn from(turned: Turned) -> Self {
        match turned {
            Turned::Unfit(_) => Self(UNFIT),
            Turned::Overtaken => Self(OVERTAKEN),
            Turned::Unreadable => Self(STORE_UNREADABLE),
            Turned::Closed => Self(CLOSED),
            Turned::Fault(fault) => fault,
        }
    }
}

/// Is what a producer says of itself after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Standing {
    /// How many documents are live.
    pub documents: u64,
    /// How often it has looked since it was started.
    pub looks: u64,
    /// How many removals wait, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removals_held: Option<u64>,
    /// How much the look skipped; absent if it came to no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// How many incidents are open.
    pub incidents: u64,
}

/// Takes what a producer finds.
pub trait Intake: Send + Sync + 'static {
    /// Returns the documents of the source behind `after`, removed ones included; none at the end.
    fn documents(
        &self,
        after: Option<DocumentId>,
    ) -> impl Future<Output = Result<Vec<Document>, Turned>> + Send;

    /// Takes one group of changes with the content that it brings; answers when it is durable.
    ///
    /// Handing the same group in again is harmless.
    fn take(&self, group: ChangeGroup, contents: Contents)
    -> impl Future<Output = Result<(), Turned>> + Send;

    /// Keeps what files looked like, at most `STATS_MAX` of them.
    fn keep(&self, stats: Vec<(DocumentId, FileStat)>) -> impl Future<Output = Result<(), Turned>> + Send;

    /// Records that an incident began or ended, noticed by the `look`-th look.
    fn report(&self, incident: Incident, look: u64) -> impl Future<Output = Result<(), Turned>> + Send;

    /// Takes the names of what a look skipped, for those who ask.
    fn skipped(&self, report: SkipReport) -> impl Future<Output = Result<(), Turned>> + Send;

    /// Takes how the producer is doing.
    fn stands(&self, standing: Standing) -> impl Future<Output = Result<(), Turned>> + Send;

    /// Hears that a look begins.
    fn looking(&self) {}
}

/// Says where a producer of this source shows how it is doing.
#[derive(Debug, Clone)]
pub enum Board {
    /// Its own actor's cell.
    Own(Arc<StatusCell>),
    /// That of the seat which a producer apart has taken.
    Seat(Arc<Seat>),
}

impl Board {
    fn cell(&self) -> Arc<StatusCell> {
        match self {
            Self::Own(cell) => Arc::clone(cell),
            Self::Seat(seat) => seat.cell(),
        }
    }

    /// Returns the word for a producer of which nothing else is to be said.
    fn at_rest(&self) -> Option<ReasonCode> {
        match self {
            Self::Own(_) => None,
            Self::Seat(seat) => Some(seat.word()),
        }
    }
}

/// Is what a producer has said of incidents since it began to look, and what of earlier ones nobody has ended.
#[derive(Debug, Default)]
pub struct Told(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    open: BTreeSet<&'static str>,
    /// Those that the log has open from before, once they were read.
    left: Option<BTreeSet<&'static str>>,
}

impl Told {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Is the number of a source's live documents: counted once, and kept while this is the only way in.
#[derive(Debug, Default)]
pub struct Live(Mutex<Option<u64>>);

impl Live {
    fn known(&self) -> Option<u64> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, count: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = count;
    }
}

/// Is the way into the log of this service, for one source.
#[derive(Clone)]
pub struct Here {
    /// What the source is declared as.
    pub declared: Arc<Declared>,
    /// Where commits go.
    pub log: LogHandle,
    /// Where known documents are read.
    pub reader: Reader,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where it can be made to fail.
    pub site: KillSite,
    /// The number of this service's start.
    pub incarnation: u64,
    /// Where it says how it is doing.
    pub board: Board,
    /// Where it names what was skipped.
    pub skipped: Arc<SkippedSlot>,
    /// What was said of incidents through this way in.
    pub told: Arc<Told>,
    /// How many live documents the source has, as far as that was counted.
    pub live: Arc<Live>,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").field("source", &self.declared.source).finish_non_exhaustive()
    }
}

impl Intake for Here {
    async fn documents(&self, after: Option<DocumentId>) -> Result<Vec<Document>, Turned> {
        let (reader, declared) = (self.reader.clone(), Arc::clone(&self.declared));
        let page =
            blocking(move || reader.documents(&declared.source, after.as_ref(), PAGE_DOCUMENTS_MAX)).await?;
        page.map_err(|error| self.unreadable(&error))
    }

    async fn take(&self, group: ChangeGroup, contents: Contents) -> Result<(), Turned> {
        let (reader, declared) = (self.reader.clone(), Arc::clone(&self.declared));
        let known = self.live.known();
        let admitted = blocking(move || {
            let rows = Known { reader, source: declared.source.clone() };
            let commit = declared.admit(&group, &contents, &rows)?;
            let live = known.map_or_else(|| rows.live(), Ok).map_err(NotTaken::Unreadable)?;
            let after = declared.count(&group, &rows, live)?;
            Ok((commit, after))
        });
        match admitted.await? {
            Ok((commit, after)) => {
                let settled = self.settle(commit).await;
                // Whether it is in the log is not known otherwise.
                self.live.note(settled.is_ok().then_some(after));
                settled
            }
            Err(NotTaken::Unfit(unfit)) => {
                tracing::error!(source = %self.declared.source, code = unfit.code(), "a change was refused");
                Err(Turned::Unfit(unfit))
            }
            Err(NotTaken::Overtaken) => Err(Turned::Overtaken),
            Err(NotTaken::Unreadable(error)) => Err(self.unreadable(&error)),
        }
    }

    async fn keep(&self, stats: Vec<(DocumentId, FileStat)>) -> Result<(), Turned> {
        let commit = self.declared.admit_stats(&stats).map_err(Turned::Unfit)?;
        self.settle(commit).await
    }

    async fn report(&self, incident: Incident, look: u64) -> Result<(), Turned> {
        {
            let mut said = self.told.said();
            if incident.over {
                said.open.remove(incident.code);
            } else {
                said.open.insert(incident.code);
            }
            // Either way its end is this producer's to tell from now on.
            if let Some(left) = &mut said.left {
                left.remove(incident.code);
            }
        }
        let now = self.clock.now().as_millis();
        let source = &self.declared.source;
        let key = format!("{}/{source}/{}/{look}/{now}", self.incarnation, incident.code);
        let Ok(key) = IdempotencyKey::parse(&key) else { return Ok(()) };
        let actor = EventActor::ours(ActorKind::Producer, source.as_str());
        let envelope = Envelope::new(SourceId::supervision(), key, self.declared.privacy, actor);
        let payload = system::Incident {
            subject: source.to_string(),
            code: incident.code.to_owned(),
            detail: Some(incident.detail),
            over: incident.over,
        };
        let commit = Commit { appends: vec![payload.candidate(envelope)], ..Commit::default() };
        self.log.commit(commit).await.map(drop).map_err(|error| self.untaken(error))
    }

    async fn skipped(&self, report: SkipReport) -> Result<(), Turned> {
        self.skipped.put(report);
        Ok(())
    }

    async fn stands(&self, standing: Standing) -> Result<(), Turned> {
        self.end_left(&standing).await?;
        let cell = self.board.cell();
        cell.settled();
        cell.set("documents", Detail::Count(standing.documents));
        cell.set("looks", Detail::Count(standing.looks));
        cell.set("lookedAt", Detail::At(self.clock.now()));
        if let Some(skipped) = standing.skipped {
            cell.set("skipped", Detail::Count(skipped));
        }
        match standing.removals_held {
            Some(held) => cell.set("removalsHeld", Detail::Count(held)),
            None => cell.clear("removalsHeld"),
        }
        let held = standing.removals_held.map(|_| REMOVALS_HELD);
        let incident = (standing.incidents > 0).then_some(INCIDENT);
        cell.note(held.or(incident).or_else(|| self.board.at_rest()));
        Ok(())
    }

    fn looking(&self) {
        self.board.cell().note(Some(LOOKING));
    }
}

impl Here {
    /// Returns the way in for a source as it is watched.
    pub(crate) fn declared(spec: &ProducerSpec) -> Arc<Declared> {
        let (source, rules) = (spec.source.clone(), spec.rules.clone());
        Arc::new(Declared { source, rules, privacy: spec.privacy })
    }

    /// Ends the incidents of an earlier start that this look has not found again. A look that came to no result says
    /// nothing about single files.
    async fn end_left(&self, standing: &Standing) -> Result<(), Turned> {
        if self.told.said().left.is_none() {
            let (reader, source) = (self.reader.clone(), self.declared.source.clone());
            let open = blocking(move || open_about(&reader, source.as_str())).await?;
            let open = open.map_err(|_| Turned::Unreadable)?;
            let mut said = self.told.said();
            let left = open.iter().filter_map(|code| incident_code(code));
            let left = left.filter(|code| !said.open.contains(code)).collect();
            said.left = Some(left);
        }
        let looked = standing.skipped.is_some();
        let over = |code: &&'static str| looked || is_about_root(code);
        let ended: Vec<&'static str> = self.told.said().left.iter().flatten().copied().filter(over).collect();
        for code in ended {
            let detail = "it is not so at the first look of this start".to_owned();
            self.report(Incident { code, detail, over: true }, standing.looks).await?;
        }
        Ok(())
    }

    /// Lets whoever looks at a producer that stands still over damage see which row it was.
    fn unreadable(&self, error: &RowError) -> Turned {
        if let RowError::Damaged { place } = error {
            tracing::error!(source = %self.declared.source, place, "a row of the log is damaged");
            self.board.cell().set("unreadable", Detail::id(place));
        }
        Turned::Unreadable
    }

    fn untaken(&self, error: LogError) -> Turned {
        match error {
            LogError::Damaged { place } => self.unreadable(&RowError::Damaged { place }),
            LogError::Unwritable { .. } | LogError::Unknown | LogError::Closed => Turned::Closed,
        }
    }

    async fn settle(&self, commit: Commit) -> Result<(), Turned> {
        let submitted = self.log.submit(Arc::new(commit));
        self.site.pass(KillPoint::ObserveInside).await.map_err(Turned::Fault)?;
        let verdict = submitted.settled().await.map_err(|error| self.untaken(error))?;
        self.site.pass(KillPoint::ObserveAfter).await.map_err(Turned::Fault)?;
        match verdict {
            Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => Ok(()),
            Verdict::Conflict(_) | Verdict::Refused(_) => Err(Turned::Overtaken),
        }
    }
}

/// Reads one source's documents from the log.
struct Known {
    reader: Reader,
    source: SourceId,
}

impl Known {
    /// Counts the live documents of the source.
    fn live(&self) -> Result<u64, RowError> {
        let (mut live, mut after): (u64, Option<DocumentId>) = (0, None);
        loop {
            let page = self.reader.documents(&self.source, after.as_ref(), PAGE_DOCUMENTS_MAX)?;
            let Some(last) = page.last() else { return Ok(live) };
            after = Some(last.id.clone());
            live += page.iter().filter(|document| !document.removed).count() as u64;
        }
    }
}

impl Rows for Known {
    type Error = RowError;

    fn document(&self, id: &DocumentId) -> Result<Option<Document>, RowError> {
        self.reader.document(&self.source, id)
    }

    fn document_at(&self, path: &str) -> Result<Option<Document>, RowError> {
        self.reader.document_at(&self.source, path)
    }

    fn confirm(&self, document: &Document) -> Result<(), RowError> {
        for (kind, key) in recorded_under(document) {
            let Some(event) = self.reader.event_under(&self.source, &kind, &key)? else { continue };
            if records(&event, document) {
                return Ok(());
            }
            break;
        }
        Err(RowError::Damaged { place: format!("documents {}", document.id) })
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Turned> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Turned::Fault(Fault(super::ROUND_FAILED)))
}
