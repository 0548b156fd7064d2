//! The materializer: the one actor that writes into the folder of the memory document, and only what a person decided.
//!
//! It finds its work in the log: decisions about memory changes that have no end yet. What may be written, and what an
//! interrupted attempt left, is decided by [`thoughtstream_domain::proposal::materialize`]. The folder is held by
//! descriptor and owned by lock for as long as the actor lives; the source's own producer is asked to look at what was
//! written, and what it recorded is what the receipt is about. Without the folder in the configuration the actor says
//! so, and decisions wait.

mod change;
mod disk;
mod plan;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::materialization::MaterializationBinding;
use thoughtstream_domain::payload::proposal::{Decidable, Disposition, ProposalDecision};
use thoughtstream_domain::payload::system::Resumed;
use thoughtstream_domain::proposal::capability::{MEMORY_PATH, MEMORY_SOURCE};
use thoughtstream_domain::proposal::materialize::{Stage, documents, held_as};
use thoughtstream_domain::proposal::reason::ReasonCode as Reason;
use thoughtstream_store::{Reader, RowError};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::hub::{SourceFilter, Subscribed};
use crate::killpoint::{KillPoints, KillSite};
use crate::log::{CLOSED, LogHandle};
use crate::producer::ProducerSpec;
use crate::service::ServiceHandle;
use crate::supervisor::{ChildName, ChildSpec, Detail, Fault, ReasonCode, Shutdown, StatusCell};
pub use plan::{Ground, Outlook, Unfit, Wanted};

use change::{Change, Ended};
use disk::{Obstacle, Owned};

const TASK_FAILED: ReasonCode = ReasonCode::new("task-failed");
/// The log refuses what an attempt is made of: going on would write without a record.
const REFUSED: ReasonCode = ReasonCode::new("materialization-refused");
const LOG_UNWRITABLE: ReasonCode = ReasonCode::new("log-unwritable");
/// No folder is configured as the source of the memory document.
const NO_ROOT: ReasonCode = ReasonCode::new("no-context-root");
/// The folder is configured so that the document in it is never seen.
const NOT_SELECTED: ReasonCode = ReasonCode::new("memory-not-selected");
/// The folder cannot be looked at, and something was begun in it.
const ROOT_UNFIT: ReasonCode = ReasonCode::new("root-unfit");
/// The file cannot be looked at or put right, and something was begun.
const FILE_UNFIT: ReasonCode = ReasonCode::new("file-unfit");
const WAITS_FOR_SCAN: ReasonCode = ReasonCode::new("waits-for-scan");
const PAUSED: ReasonCode = ReasonCode::new("paused");
/// It was decided in the log that this one is a copy of, and may have been written since.
const HELD: ReasonCode = ReasonCode::new("restored");

/// How many decisions are read at a time; people make few.
const PAGE: usize = 64;

/// How soon what waits is looked at again: what it waits for sends no word.
const AGAIN: Duration = Duration::from_secs(2);

/// One change is a few commits and syncs, and a look at a folder.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// Is the folder of the memory document.
#[derive(Debug, Clone)]
pub struct ContextRoot {
    /// Where it is.
    pub path: PathBuf,
    /// The largest document.
    pub bytes_max: u64,
    /// Whether the document is among the files that are looked at.
    pub selected: bool,
}

impl ContextRoot {
    /// Finds the folder among the watched sources.
    #[must_use]
    pub fn among(producers: &[ProducerSpec]) -> Option<Self> {
        let spec = producers.iter().find(|spec| spec.source.as_str() == MEMORY_SOURCE)?;
        Some(Self {
            path: spec.root.clone(),
            bytes_max: spec.rules.bounds.file_bytes_max,
            selected: spec.rules.selection.takes_file(MEMORY_PATH),
        })
    }
}

/// Is the materializer actor.
#[derive(Debug)]
pub struct Materializer;

/// Is what it is told.
#[derive(Debug)]
pub enum MaterializerMessage {
    /// Something moved, or time has passed: look.
    Look,
}

/// Is what it is started with.
#[derive(Clone)]
pub struct MaterializerArgs {
    /// The folder.
    pub root: Option<Arc<ContextRoot>>,
    /// Who can have a source looked at.
    pub service: ServiceHandle,
    /// Where commits go.
    pub log: LogHandle,
    /// Where it reads.
    pub reader: Reader,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where it can be made to fail.
    pub points: Arc<KillPoints>,
    /// Its path in the tree.
    pub path: Arc<str>,
    /// Where it says how it is doing.
    pub status: Arc<StatusCell>,
}

/// Is its state; dropping it lets go of the folder, once no step in it is under way.
pub struct MaterializerState {
    args: MaterializerArgs,
    me: ActorRef<MaterializerMessage>,
    site: KillSite,
    bell: Subscribed,
    owned: Option<Arc<Owned>>,
    /// Every decision up to here has come to its end.
    through: u64,
    again: Option<JoinHandle<()>>,
    ends: Ends,
}

/// Counts what came of changes in this incarnation.
#[derive(Debug, Default)]
struct Ends {
    made: u64,
    failed: u64,
    unproven: u64,
}

impl Drop for MaterializerState {
    fn drop(&mut self) {
        if let Some(again) = self.again.take() {
            again.abort();
        }
    }
}

impl Actor for Materializer {
    type Msg = MaterializerMessage;
    type State = MaterializerState;
    type Arguments = MaterializerArgs;

    async fn pre_start(
        &self,
        me: ActorRef<MaterializerMessage>,
        args: MaterializerArgs,
    ) -> Result<MaterializerState, ActorProcessingErr> {
        let ring = {
            let me = me.clone();
            // One that has ended needs no wake-up: its successor looks first of all.
            Arc::new(move || drop(me.send_message(MaterializerMessage::Look)))
        };
        let filter = SourceFilter { sources: [SourceId::decisions()].into(), ..SourceFilter::default() };
        // A person's word may release what is held back.
        let types = [ProposalDecision::kind().name, Resumed::kind().name];
        let bell = args.log.hub().subscribe(types, filter, ring);
        let site = args.points.site(Arc::clone(&args.path), Some(me.get_cell()));
        Ok(MaterializerState {
            args,
            me,
            site,
            bell,
            owned: None,
            through: 0,
            again: None,
            ends: Ends::default(),
        })
    }

    async fn post_start(
        &self,
        me: ActorRef<MaterializerMessage>,
        _: &mut MaterializerState,
    ) -> Result<(), ActorProcessingErr> {
        // As a message: whatever ends the first look ends a running actor, and no start.
        Ok(me.send_message(MaterializerMessage::Look).map_err(|_| Fault(CLOSED))?)
    }

    async fn handle(
        &self,
        _: ActorRef<MaterializerMessage>,
        message: MaterializerMessage,
        state: &mut MaterializerState,
    ) -> Result<(), ActorProcessingErr> {
        let MaterializerMessage::Look = message;
        Ok(state.look().await?)
    }
}

impl MaterializerState {
    /// Takes up every decision that has not come to its end, in the order in which they were made.
    async fn look(&mut self) -> Result<(), Fault> {
        drop(self.bell.take());
        let waits = self.work().await?;
        self.args.status.note(waits);
        let ends = &self.ends;
        for (name, count) in [("made", ends.made), ("failed", ends.failed), ("unproven", ends.unproven)] {
            self.args.status.set(name, Detail::Count(count));
        }
        if waits.is_some_and(|why| ![NO_ROOT, NOT_SELECTED, PAUSED, HELD].contains(&why)) {
            let me = self.me.clone();
            let again = tokio::spawn(async move {
                tokio::time::sleep(AGAIN).await;
                drop(me.send_message(MaterializerMessage::Look));
            });
            if let Some(before) = self.again.replace(again) {
                before.abort();
            }
        }
        Ok(())
    }

    /// Does what there is to do; says what keeps the rest waiting.
    async fn work(&mut self) -> Result<Option<ReasonCode>, Fault> {
        // A configuration changes with the next start.
        let Some(root) = self.args.root.clone() else { return Ok(Some(NO_ROOT)) };
        if !root.selected {
            return Ok(Some(NOT_SELECTED));
        }
        if self.args.service.is_paused() {
            return Ok(Some(PAUSED));
        }
        // Owned from the start, so that a second service is told before it has anything to do.
        let mut obstacle = self.own(&root).await?.err();
        loop {
            let (reader, after) = (self.args.reader.clone(), self.through);
            let types = [ProposalDecision::kind().name];
            let page =
                change::read(move || reader.backlog(&types, &SourceId::decisions(), after, PAGE)).await?;
            if page.is_empty() {
                // A folder that is not there is told when something is to be written to it.
                return Ok(obstacle.and_then(|obstacle| match obstacle {
                    Obstacle::Wait(note) => Some(note),
                    Obstacle::Fail(_) => None,
                }));
            }
            for decision in page {
                let ended = Box::pin(self.take_up(&root, &decision)).await?;
                match ended {
                    None => {}
                    Some(Ended::Waits(note)) => return Ok(Some(note)),
                    Some(Ended::Made) => self.ends.made += 1,
                    Some(Ended::Failed) => self.ends.failed += 1,
                    Some(Ended::Unproven) => self.ends.unproven += 1,
                }
                if ended.is_some() {
                    self.args.status.settled();
                    obstacle = None;
                }
                self.through = decision.sequence;
            }
        }
    }

    /// Takes up one decision; nothing if there is nothing to do about it.
    async fn take_up(&mut self, root: &ContextRoot, decision: &Event) -> Result<Option<Ended>, Fault> {
        let Ok(payload) = decision.payload_as::<ProposalDecision>() else { return Ok(None) };
        if payload.kind != Decidable::MemoryChange || payload.disposition == Disposition::Reject {
            return Ok(None);
        }
        let (reader, about) = (self.args.reader.clone(), decision.clone());
        let (proposal, id) = (payload.proposal, decision.id);
        let (events, decided) = change::read(move || {
            let events = reader.materializations_of(&documents(), &proposal, &id)?;
            let decided = match Stage::of(&events) {
                Stage::Waiting | Stage::Begun(..) if is_held(&reader, &about)? => Err(HELD),
                Stage::Waiting | Stage::Begun(..) => Ok(Some(change::prove(&reader, &about)?)),
                Stage::Done(_) | Stage::Failed { .. } => Ok(None),
            };
            Ok((events, decided))
        })
        .await?;
        let decided = match decided {
            Ok(Some(decided)) => decided,
            Ok(None) => return Ok(None),
            Err(held) => return Ok(Some(Ended::Waits(held))),
        };
        let Some(decided) = decided else { return Ok(Some(Ended::Unproven)) };
        let stage = Stage::of(&events);
        let binding = match &stage {
            Stage::Begun(_, started) => started.binding.clone(),
            Stage::Waiting | Stage::Done(_) | Stage::Failed { .. } => {
                MaterializationBinding { proposal, decision: decision.id, attempt: 1 }
            }
        };
        let begun = matches!(stage, Stage::Begun(..));
        let owned = match self.own(root).await? {
            Ok(owned) => owned,
            Err(Obstacle::Wait(note)) => return Ok(Some(Ended::Waits(note))),
            // Nobody can look, so nobody knows whether it was written.
            Err(Obstacle::Fail(_)) if begun => return Ok(Some(Ended::Waits(ROOT_UNFIT))),
            Err(Obstacle::Fail(code)) => return self.unmade(binding, decision, code).await.map(Some),
        };
        let change = Change { args: &self.args, site: &self.site, owned, binding, decided };
        Box::pin(change.make(stage)).await.map(Some)
    }

    async fn unmade(
        &self,
        binding: MaterializationBinding,
        decision: &Event,
        code: Reason,
    ) -> Result<Ended, Fault> {
        change::fail(&self.args, &self.site, binding, decision, code).await
    }

    /// Returns the folder, pinned and owned: the one that is held if it still is the one, or the one that is there now.
    async fn own(&mut self, root: &ContextRoot) -> Result<Result<Arc<Owned>, Obstacle>, Fault> {
        let (held, path, now) = (self.owned.take(), root.path.clone(), self.args.clock.now().as_millis());
        let taken = tokio::task::spawn_blocking(move || {
            if let Some(held) = held
                && held.check().is_ok()
            {
                return Ok(held);
            }
            Owned::take(&path, now).map(Arc::new)
        });
        let taken = taken.await.map_err(|_| Fault(TASK_FAILED))?;
        self.owned = taken.as_ref().ok().cloned();
        let holder = taken.as_ref().err().and_then(|not_taken| not_taken.holder);
        match holder {
            Some(pid) => self.args.status.set("holder", Detail::Count(pid.into())),
            None => self.args.status.clear("holder"),
        }
        Ok(taken.map_err(|not_taken| not_taken.obstacle))
    }
}

/// Says whether a decision was made in the log that this one is a copy of, and waits for a person's release.
fn is_held(reader: &Reader, decision: &Event) -> Result<bool, RowError> {
    Ok(decision.position <= reader.copied_through()?
        && reader.control(&held_as())?.is_some_and(|control| control.is_paused()))
}

/// Declares the materializer of a service.
pub(crate) fn child(service: &ServiceHandle) -> ChildSpec {
    let (service, root) = (service.clone(), service.context_root());
    ChildSpec::actor(ChildName::fixed("materializer"), "materializer", move |context| {
        let args = MaterializerArgs {
            root: root.clone(),
            service: service.clone(),
            log: service.0.log.clone(),
            reader: service.reader(),
            clock: Arc::clone(&service.0.clock),
            points: service.points(),
            path: Arc::clone(&context.path),
            status: Arc::clone(&context.status),
        };
        (Materializer, args)
    })
    .shutdown(Shutdown::Stop(STOPS_WITHIN))
}
