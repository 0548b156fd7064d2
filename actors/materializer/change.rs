//! One decided memory change, from its lineage to its receipt.
//!
//! A change that nobody has touched and one that was interrupted anywhere take the same way: what the log and the file
//! say is looked at, and what follows from it is done.

use std::sync::Arc;

use thoughtstream_channels::filesystem::change::event_ids;
use thoughtstream_domain::commit::{Commit, Refusal, Verdict};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::payload::materialization::{MaterializationBinding, MaterializationStarted};
use thoughtstream_domain::payload::proposal::{MemoryChangeProposed, ProposalDecision};
use thoughtstream_domain::proposal::capability::MEMORY_SOURCE;
use thoughtstream_domain::proposal::decision::Decided;
use thoughtstream_domain::proposal::lineage::{LineageError, prove_memory};
use thoughtstream_domain::proposal::materialize::{self, Planned, Recorded, Seen, Stage, Standing};
use thoughtstream_domain::proposal::reason::ReasonCode;
use thoughtstream_store::{Reader, RowError};

use super::disk::{Names, Obstacle, Owned};
use super::plan::Wanted;
use super::{FILE_UNFIT, LOG_UNWRITABLE, MaterializerArgs, ROOT_UNFIT, TASK_FAILED, WAITS_FOR_SCAN};
use crate::killpoint::{KillPoint, KillSite};
use crate::log::{CLOSED, LogError, STORE_UNREADABLE};
use crate::supervisor::{Fault, ReasonCode as Note};

/// A scan that keeps failing is no matter of moments.
const SCANS_MAX: u32 = 3;

/// Between two questions to a producer that is down or sees things in motion.
const SCAN_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// The file changes under every look: somebody else is at work on it.
const LOOKS_MAX: u32 = 4;

/// Says how a change stands after it was taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It is made, and there is a receipt.
    Made,
    /// It is not made, and there is a record of why.
    Failed,
    /// What stands behind it does not hold: nothing was done, and nothing is said in the log.
    Unproven,
    /// It waits.
    Waits(Note),
}

/// Is a change that is being made.
pub(super) struct Change<'a> {
    pub(super) args: &'a MaterializerArgs,
    pub(super) site: &'a KillSite,
    pub(super) owned: Arc<Owned>,
    pub(super) binding: MaterializationBinding,
    pub(super) decided: Decided<MemoryChangeProposed>,
}

/// Replays the lineage of the proposal that a decision is about; nothing if a link does not hold.
pub(super) fn prove(
    reader: &Reader,
    decision: &Event,
) -> Result<Option<Decided<MemoryChangeProposed>>, RowError> {
    let Ok(payload) = decision.payload_as::<ProposalDecision>() else { return Ok(None) };
    let proven = match prove_memory(reader, &payload.proposal) {
        Ok(proven) => proven,
        Err(LineageError::Unread(error)) => return Err(error),
        Err(LineageError::Broken(broken)) => {
            tracing::warn!(proposal = %broken.proposal, code = broken.link.code(), "materializer.unproven");
            return Ok(None);
        }
    };
    match Decided::of(proven, decision.clone()) {
        Ok(decided) => Ok(Some(decided)),
        Err(fault) => {
            tracing::warn!(proposal = %payload.proposal, code = fault.code(), "materializer.unproven");
            Ok(None)
        }
    }
}

impl Change<'_> {
    /// Makes the change, or goes on making it.
    pub(super) async fn make(&self, stage: Stage) -> Result<Ended, Fault> {
        let recorded = self.recorded().await?;
        let resumed = matches!(stage, Stage::Begun(..));
        let (event, started, planned) = match stage {
            Stage::Begun(event, started) => {
                let planned = self.planned(&recorded, &started).ok();
                let planned = planned.filter(|planned| planned.is(&started));
                (*event, started, planned)
            }
            Stage::Waiting | Stage::Done(_) | Stage::Failed { .. } => match self.begin(recorded).await? {
                Ok((event, started, planned)) => (event, started, Some(planned)),
                Err(Obstacle::Wait(note)) => return Ok(Ended::Waits(note)),
                Err(Obstacle::Fail(code)) => return self.fail(self.decided.event(), code).await,
            },
        };
        match self.write(&started, planned, resumed).await? {
            Ok(()) => {}
            Err(Obstacle::Wait(note)) => return Ok(Ended::Waits(note)),
            Err(Obstacle::Fail(code)) => return self.fail(&event, code).await,
        }
        match self.scan().await? {
            Ok(()) => {}
            Err(Obstacle::Wait(note)) => return Ok(Ended::Waits(note)),
            Err(Obstacle::Fail(code)) => return self.fail(&event, code).await,
        }
        self.receive(&event, &started).await
    }

    async fn recorded(&self) -> Result<Recorded, Fault> {
        let (reader, target) = (self.args.reader.clone(), self.decided.proven().payload().target.clone());
        read(move || reader.memory_recorded(&target)).await
    }

    /// Returns the change as it was decided.
    fn wanted(&self) -> Result<Wanted, ReasonCode> {
        let proposed = self.decided.proven().payload();
        let text = self.decided.text().ok_or(ReasonCode::ReceiptFailed)?.clone();
        Ok(Wanted { target: proposed.target.clone(), operation: proposed.operation, text })
    }

    fn bytes_max(&self) -> u64 {
        self.args.root.as_ref().map_or(0, |root| root.bytes_max)
    }

    /// Works out what an attempt that was begun was to write, whatever lies in the folder by now.
    fn planned(&self, recorded: &Recorded, started: &MaterializationStarted) -> Result<Planned, ReasonCode> {
        let Wanted { operation, text, .. } = self.wanted()?;
        let base = recorded.bytes_of(&started.base)?;
        Planned::of(&started.base, base, operation, &text, self.bytes_max())
    }

    /// Checks everything that must hold, and says durably what is about to be written.
    async fn begin(
        &self,
        recorded: Recorded,
    ) -> Result<Result<(Event, MaterializationStarted, Planned), Obstacle>, Fault> {
        let (wanted, bytes_max) = (self.wanted(), self.bytes_max());
        let planned = match wanted {
            Ok(wanted) => self.on_disk(move |owned| owned.plan(&wanted, &recorded, bytes_max)).await?,
            Err(code) => Err(Obstacle::Fail(code)),
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        self.site.pass(KillPoint::MaterializeStartedBefore).await?;
        let commit = materialize::begin(self.binding.clone(), self.decided.event(), &planned);
        let candidate = commit.appends[0].clone();
        let submitted = self.args.log.submit(Arc::new(commit));
        self.site.pass(KillPoint::MaterializeStartedInside).await?;
        let verdict = match submitted.settled().await {
            Ok(verdict) => verdict,
            Err(error) => return Ok(Err(Obstacle::Wait(unwritable(error)?))),
        };
        self.site.pass(KillPoint::MaterializeStartedAfter).await?;
        match verdict {
            Verdict::Committed(placed) | Verdict::AlreadyCommitted(placed) => {
                let placed = placed.first().ok_or(Fault(CLOSED))?;
                let event = Event::recorded(&candidate, placed);
                let started = event.payload_as().map_err(|_| Fault(CLOSED))?;
                Ok(Ok((event, started, planned)))
            }
            // The document moved on between the look and the commit.
            Verdict::Refused(Refusal::Precondition { .. }) => Ok(Err(Obstacle::Fail(ReasonCode::StaleBase))),
            Verdict::Refused(_) | Verdict::Conflict(_) => Err(Fault(super::REFUSED)),
        }
    }

    /// Does what follows from what lies in the root, until the result is in its place and nothing beside it.
    ///
    /// `resumed` says that an earlier try of this attempt may have exchanged the files. Whatever goes wrong is a failure
    /// wherever it is known what became of the file; only what nobody can know waits.
    async fn write(
        &self,
        started: &MaterializationStarted,
        planned: Option<Planned>,
        resumed: bool,
    ) -> Result<Result<(), Obstacle>, Fault> {
        let mut attempt = Attempt { names: Names::of(&started.binding), touched: resumed, failed: None };
        for _ in 0..LOOKS_MAX {
            let (there, about) = (attempt.names.clone(), started.clone());
            let standing = match self.on_disk(move |owned| owned.find(&there, &about)).await? {
                Ok(disk) => materialize::standing(started, disk),
                Err(Obstacle::Fail(code)) if !attempt.touched => return Ok(Err(Obstacle::Fail(code))),
                Err(Obstacle::Fail(_)) => return Ok(Err(Obstacle::Wait(ROOT_UNFIT))),
                Err(wait @ Obstacle::Wait(_)) => return Ok(Err(wait)),
            };
            if let Some(ended) = self.follow(&mut attempt, standing, started, planned.as_ref()).await? {
                return Ok(ended);
            }
        }
        Ok(Err(Obstacle::Fail(attempt.failed.unwrap_or(ReasonCode::FileChanged))))
    }

    /// Does what follows from how the attempt stands; nothing if it is to be looked at again.
    async fn follow(
        &self,
        attempt: &mut Attempt,
        standing: Standing,
        started: &MaterializationStarted,
        planned: Option<&Planned>,
    ) -> Result<Option<Result<(), Obstacle>>, Fault> {
        let fail = |code| Some(Err(Obstacle::Fail(code)));
        let names = attempt.names.clone();
        Ok(match (standing, attempt.failed) {
            // A step failed, and nothing was written.
            (Standing::Untouched, Some(code)) => {
                self.discard(&names, started).await?;
                fail(code)
            }
            // A step failed behind the exchange: it is undone, for as long as that can be tried.
            (Standing::Written, Some(_)) => {
                if self.on_disk(move |owned| owned.exchange(&names)).await?.is_err() {
                    tracing::warn!("materializer.not_put_back");
                }
                None
            }
            (Standing::Written, None) => {
                let closed = self.on_disk(move |owned| owned.close()).await?;
                if let Err(Obstacle::Fail(code)) = closed {
                    attempt.failed = Some(code);
                    return Ok(None);
                }
                let cleared = self.clear(&attempt.names).await?;
                self.site.pass(KillPoint::MaterializeExchangeAfter).await?;
                Some(cleared)
            }
            (Standing::Untouched, None) => {
                // What was announced cannot be made again: the rules are others now.
                let Some(planned) = planned else { return Ok(fail(ReasonCode::WriteFailed)) };
                match self.exchange(attempt, planned).await? {
                    Ok(()) => None,
                    Err(Obstacle::Fail(code)) => {
                        attempt.failed = Some(code);
                        None
                    }
                    Err(wait @ Obstacle::Wait(_)) => Some(Err(wait)),
                }
            }
            (Standing::SwapBack, _) => {
                attempt.failed = Some(ReasonCode::Swapped);
                match self.on_disk(move |owned| owned.exchange(&names)).await? {
                    Ok(()) => fail(ReasonCode::Swapped),
                    // Both are there, each under the other's name: tried again, and told in the end.
                    Err(Obstacle::Fail(_)) => None,
                    Err(wait @ Obstacle::Wait(_)) => Some(Err(wait)),
                }
            }
            (Standing::Foreign { code, spare }, _) => {
                let cleared = if spare { self.clear(&names).await? } else { Ok(()) };
                Some(cleared.and(Err(Obstacle::Fail(code))))
            }
            (Standing::Unknown, _) if attempt.touched => Some(Err(Obstacle::Wait(FILE_UNFIT))),
            (Standing::Unknown, failed) => fail(failed.unwrap_or(ReasonCode::FileUnfit)),
        })
    }

    /// Removes what lies beside the document. A copy of a recorded version that stays behind, under a name that is no
    /// document's, changes nothing of what is written.
    async fn clear(&self, names: &Names) -> Result<Result<(), Obstacle>, Fault> {
        let names = names.clone();
        Ok(match self.on_disk(move |owned| owned.clear(&names)).await? {
            Err(Obstacle::Fail(code)) => {
                tracing::warn!(code = code.as_str(), "materializer.spare_left");
                Ok(())
            }
            // Whoever is not the owner any more does nothing further.
            waits_or_done @ (Ok(()) | Err(Obstacle::Wait(_))) => waits_or_done,
        })
    }

    /// Removes what was to be exchanged for the document, and never was.
    async fn discard(&self, names: &Names, started: &MaterializationStarted) -> Result<(), Fault> {
        let (names, started) = (names.clone(), started.clone());
        if self.on_disk(move |owned| owned.discard(&names, &started)).await?.is_err() {
            tracing::warn!("materializer.draft_left");
        }
        Ok(())
    }

    /// Puts the new file beside the document and exchanges the two. What came out is looked at after that.
    async fn exchange(
        &self,
        attempt: &mut Attempt,
        planned: &Planned,
    ) -> Result<Result<(), Obstacle>, Fault> {
        let names = attempt.names.clone();
        self.site.pass(KillPoint::MaterializeFileBefore).await?;
        let (there, planned) = (names.clone(), planned.clone());
        let work = self.task(move |owned| owned.prepare(&there, planned.bytes().reveal(), planned.sha256()));
        self.site.pass(KillPoint::MaterializeFileInside).await?;
        if let Err(obstacle) = ended(work).await? {
            return Ok(Err(obstacle));
        }
        self.site.pass(KillPoint::MaterializeFileAfter).await?;
        self.site.pass(KillPoint::MaterializeExchangeBefore).await?;
        attempt.touched = true;
        let exchanged = self.on_disk(move |owned| owned.exchange(&names)).await?;
        self.site.pass(KillPoint::MaterializeExchangeInside).await?;
        Ok(exchanged)
    }

    /// Has the one owner of the source look, until a look of its is whole.
    async fn scan(&self) -> Result<Result<(), Obstacle>, Fault> {
        for _ in 0..SCANS_MAX {
            self.site.pass(KillPoint::MaterializeScanBefore).await?;
            let looked = self.args.service.looked_at(MEMORY_SOURCE);
            self.site.pass(KillPoint::MaterializeScanInside).await?;
            let looked = looked.await;
            self.site.pass(KillPoint::MaterializeScanAfter).await?;
            match looked {
                Ok(Some(true)) => return Ok(Ok(())),
                Ok(Some(false)) => tokio::time::sleep(SCAN_PAUSE).await,
                // Its actor is down; what is written stays, and is asked about again.
                Ok(None) => return Ok(Err(Obstacle::Wait(WAITS_FOR_SCAN))),
                Err(_) => break,
            }
        }
        Ok(Err(Obstacle::Fail(ReasonCode::ScanFailed)))
    }

    /// Checks what the log holds now, and hands in the receipt or why there is none.
    async fn receive(&self, event: &Event, started: &MaterializationStarted) -> Result<Ended, Fault> {
        let (reader, about) = (self.args.reader.clone(), started.clone());
        let seen = read(move || seen(&reader, &about)).await?;
        match materialize::verified(started, &seen) {
            Err(code) => self.fail(event, code).await,
            Ok((result, file_event)) => {
                let receipt = materialize::receipt((event, started), result, file_event);
                match self.hand_in(receipt).await? {
                    None => Ok(Ended::Made),
                    Some(Obstacle::Wait(note)) => Ok(Ended::Waits(note)),
                    // The document moved on between the look and the commit.
                    Some(Obstacle::Fail(code)) => self.fail(event, code).await,
                }
            }
        }
    }

    /// Records that the change is not made, and why.
    pub(super) async fn fail(&self, after: &Event, code: ReasonCode) -> Result<Ended, Fault> {
        fail(self.args, self.site, self.binding.clone(), after, code).await
    }

    async fn hand_in(&self, commit: Commit) -> Result<Option<Obstacle>, Fault> {
        hand_in(self.args, self.site, commit).await
    }

    fn task<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Owned) -> Result<T, Obstacle> + Send + 'static,
    ) -> tokio::task::JoinHandle<Result<T, Obstacle>> {
        let owned = Arc::clone(&self.owned);
        tokio::task::spawn_blocking(move || work(&owned))
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Owned) -> Result<T, Obstacle> + Send + 'static,
    ) -> Result<Result<T, Obstacle>, Fault> {
        ended(self.task(work)).await
    }
}

/// Is how far one try has come.
struct Attempt {
    names: Names,
    /// Whether the files may have been exchanged.
    touched: bool,
    /// Why it is given up, once a step has failed.
    failed: Option<ReasonCode>,
}

async fn ended<T>(task: tokio::task::JoinHandle<T>) -> Result<T, Fault> {
    task.await.map_err(|_| Fault(TASK_FAILED))
}

/// Records that a change is not made, and why; nothing if the log says that it is made.
pub(super) async fn fail(
    args: &MaterializerArgs,
    site: &KillSite,
    binding: MaterializationBinding,
    after: &Event,
    code: ReasonCode,
) -> Result<Ended, Fault> {
    match hand_in(args, site, materialize::failure(binding, after, code)).await? {
        None => Ok(Ended::Failed),
        Some(Obstacle::Wait(note)) => Ok(Ended::Waits(note)),
        Some(Obstacle::Fail(_)) => Err(Fault(super::REFUSED)),
    }
}

/// Hands in how an attempt ended; says what is in the way.
async fn hand_in(
    args: &MaterializerArgs,
    site: &KillSite,
    commit: Commit,
) -> Result<Option<Obstacle>, Fault> {
    site.pass(KillPoint::MaterializeReceiptBefore).await?;
    let submitted = args.log.submit(Arc::new(commit));
    site.pass(KillPoint::MaterializeReceiptInside).await?;
    let verdict = match submitted.settled().await {
        Ok(verdict) => verdict,
        Err(error) => return Ok(Some(Obstacle::Wait(unwritable(error)?))),
    };
    site.pass(KillPoint::MaterializeReceiptAfter).await?;
    match verdict {
        Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => Ok(None),
        Verdict::Refused(Refusal::Precondition { .. }) => Ok(Some(Obstacle::Fail(ReasonCode::ScanDiffers))),
        Verdict::Refused(_) | Verdict::Conflict(_) => Err(Fault(super::REFUSED)),
    }
}

/// Reads what the log holds of a written change, with the event that tells of it.
fn seen(reader: &Reader, started: &MaterializationStarted) -> Result<Seen, RowError> {
    let mut seen = reader.memory_seen(started)?;
    if let Some(version) = &seen.version {
        for id in event_ids(version) {
            if let Some(event) = reader.event(&id)? {
                seen.event = Some(event);
            }
        }
    }
    Ok(seen)
}

/// Says that a change waits for the log; where the log is damaged, waiting helps nobody.
fn unwritable(error: LogError) -> Result<Note, Fault> {
    match error {
        LogError::Damaged { .. } => Err(error.into()),
        LogError::Unwritable { .. } | LogError::Unknown | LogError::Closed => Ok(LOG_UNWRITABLE),
    }
}

pub(super) async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RowError> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Fault(TASK_FAILED))?.map_err(|_| Fault(STORE_UNREADABLE))
}
