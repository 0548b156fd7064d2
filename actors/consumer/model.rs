//! A run that asks a model: its context sealed, its budget reserved, one request through a sandbox, one verdict.
//!
//! What will be seen is fixed before anything is sent: the packet, the reservation, `received` and `started` are one
//! commit. The worker in the sandbox asks for what is in the packet and the broker sends that or nothing. Whatever
//! comes of it ends in one commit as well, with the charge.

mod compose;
mod fixed;
mod outcome;
mod propose;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thoughtstream_channels::provider::Wire;
use thoughtstream_domain::accounting::Policy;
use thoughtstream_domain::cell::{Answer as Told, Code, Outcome, Packet as CellPacket, Request};
use thoughtstream_domain::commit::{Precondition, Refusal, Row, Verdict};
use thoughtstream_domain::contract::Contract;
use thoughtstream_domain::declaration::{ContextBounds, Declaration, ModelRunner};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::help::FixedAnswer;
use thoughtstream_domain::id::{ConsumerId, SourceId};
use thoughtstream_domain::lifecycle::{Admission, Execution, FailurePolicy};
use thoughtstream_domain::packet::{Packet, PromptRevision};
use thoughtstream_domain::proposal::capability::ProposalCapability;
use thoughtstream_domain::provider::{AskError, ModelRequest, ProfileName};
use thoughtstream_effects::sandbox::Limits;
use thoughtstream_store::RequestFault;
use tokio::time::Instant;

use super::attempt::{Attempt, Ended, is_in};
use crate::broker::{BrokerHandle, Brokers, Reply};
use crate::cell::{CellFault, Cells};
use crate::killpoint::KillPoint;
use crate::log::STORE_UNREADABLE;
use crate::runner::RunFailure;
use crate::service::Bundle;
use crate::supervisor::Fault;

/// The profile that the declaration names has no broker: it was not in the configuration when the service started.
const NO_BROKER: &str = "provider-not-started";
/// The service was started without workers.
const NO_CELLS: &str = "sandbox-not-started";

/// Is what model runs need beside the log.
#[derive(Debug, Clone, Default)]
pub struct Facilities {
    /// Who may ask a provider.
    pub brokers: Brokers,
    /// Who runs workers.
    pub cells: Option<Cells>,
    /// What the bots are called, by their sources.
    pub usernames: Arc<BTreeMap<SourceId, String>>,
    /// Whose replies the bots deliver, by their sources.
    pub answering: Arc<BTreeMap<SourceId, ConsumerId>>,
}

/// Is what a consumer that asks a model does, compiled.
pub struct ModelWork {
    runner: ModelRunner,
    prompt: PromptRevision,
    context: ContextBounds,
    policy: Arc<Policy>,
    contract: Contract,
    facilities: Facilities,
}

impl ModelWork {
    /// Compiles the part of a declaration that asks a model; `None` if it asks none.
    #[must_use]
    pub fn of(declaration: &Declaration, facilities: &Facilities) -> Option<Self> {
        let runner = declaration.runner().model()?.clone();
        let prompt = declaration.prompt()?;
        Some(Self {
            prompt: PromptRevision { path: prompt.path.clone(), sha256: prompt.sha256 },
            context: declaration.context(),
            policy: Arc::new(runner.accounting.clone()),
            contract: Contract::observation(),
            facilities: facilities.clone(),
            runner,
        })
    }

    /// Returns what the bot of a source is called.
    fn username(&self, bot: &SourceId) -> Option<&str> {
        self.facilities.usernames.get(bot).map(String::as_str)
    }

    /// Says which worker's program its runs are given.
    pub(crate) async fn bundle(&self) -> Bundle {
        let (loaded, on_disk) = match &self.facilities.cells {
            Some(cells) => cells.bundle().await,
            None => (None, None),
        };
        Bundle { loaded, on_disk }
    }

    fn broker(&self) -> Option<&BrokerHandle> {
        self.facilities.brokers.get(&ProfileName::parse(&self.runner.provider)?)
    }
}

/// Is what a run is about to ask.
enum Prepared {
    /// A sealed packet; with the rows that store it and what must hold for them, unless it is stored already.
    Sealed { packet: Box<Packet>, rows: Vec<Row>, precondition: Option<Precondition> },
    /// Nothing is asked, because the answer is fixed.
    Fixed(FixedAnswer),
    /// Nothing is asked, and why.
    Refused(RunFailure),
}

/// Is what came of one request, as the parent saw it; a fault if a kill point kept it from being asked, and `None`
/// if the broker said nothing.
type Heard = Arc<Mutex<Option<Result<Result<Reply, AskError>, Fault>>>>;

/// Is everything that came of a run, before it is judged.
struct Came {
    /// Whether the worker brought its result back.
    run: Result<(), Silent>,
    /// What the broker said, if it came to that.
    heard: Option<Result<Reply, AskError>>,
    /// What the request went over, if it went. It alone says whether anything was sent: a worker that is given up in
    /// the middle of it takes what the broker would have said along.
    wire: Arc<Wire>,
}

impl Attempt {
    /// Runs one attempt of a consumer that asks a model.
    pub(super) async fn ask(
        self,
        work: Arc<ModelWork>,
        mut execution: Execution,
        events: Vec<Event>,
        previous: u64,
    ) -> Result<Ended, Ended> {
        self.await_turn(&work, &execution, &events).await?;
        let (attempt, asked, about) = (self.clone(), Arc::clone(&work), execution.clone());
        let prepared = tokio::task::spawn_blocking(move || attempt.prepare(&asked, &about, events));
        let prepared = prepared.await.map_err(|_| Ended::Unreadable(None))??;
        let (packet, rows, precondition) = match prepared {
            Prepared::Sealed { packet, rows, precondition } => (Arc::new(*packet), rows, precondition),
            Prepared::Fixed(answer) => {
                return self.answer_fixed(&work, execution, previous, answer).await;
            }
            Prepared::Refused(failure) => {
                return self.refuse(&work, execution, previous, failure).await;
            }
        };
        execution.privacy = execution.privacy.join(packet.privacy());
        let as_before = execution.clone();
        let frame = self.spec.frame(self.incarnation, self.clock.now());
        let admission = Admission { policy: Arc::clone(&work.policy), rows: rows.clone() };
        let (mut commit, reservation) = execution.open_admitted(&frame, previous, admission);
        commit.preconditions.extend(precondition.clone());
        self.site.pass(KillPoint::ReceivedBefore).await?;
        self.site.pass(KillPoint::StartedBefore).await?;
        let submitted = self.log.submit(Arc::new(commit));
        self.site.pass(KillPoint::ReceivedInside).await?;
        self.site.pass(KillPoint::StartedInside).await?;
        let verdict = submitted.settled().await?;
        if let Verdict::Refused(Refusal::OverBudget { denial, .. }) = &verdict {
            let mut execution = as_before;
            let mut commit = execution.block(&frame, previous, denial, work.policy.on_exhaustion);
            // The first attempt has chosen, whatever became of it: one that is made later sees the same.
            commit.rows.extend(rows);
            commit.preconditions.extend(precondition);
            is_in(self.log.commit(commit).await?)?;
            return Ok(Ended::Stands { execution: Box::new(execution), completed: false });
        }
        is_in(verdict)?;
        self.site.pass(KillPoint::ReceivedAfter).await?;
        self.site.pass(KillPoint::StartedAfter).await?;
        self.site.pass(KillPoint::RunnerBefore).await?;
        let (heard, wire) = (Heard::default(), Wire::of(execution.run_id()));
        let run = self.converse(&work, &packet, &wire, &heard).await;
        self.site.pass(KillPoint::RunnerAfter).await?;
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).take().transpose()?;
        self.end(&work, execution, &packet, reservation, Came { run, heard, wire }).await
    }

    /// Opens an attempt and fails it: nothing was sent, so nothing is reserved.
    async fn refuse(
        self,
        work: &ModelWork,
        mut execution: Execution,
        previous: u64,
        failure: RunFailure,
    ) -> Result<Ended, Ended> {
        let now = self.clock.now();
        let frame = self.spec.frame(self.incarnation, now);
        is_in(self.log.commit(execution.open(&frame, previous)).await?)?;
        let policy = self.policy_after(work, failure);
        let commit = execution.fail(&frame, now, failure.code, policy);
        self.settle(commit, &execution).await?;
        Ok(Ended::Stands { execution: Box::new(execution), completed: false })
    }

    /// Runs the worker and passes its one request on, over `wire`.
    async fn converse(
        &self,
        work: &ModelWork,
        packet: &Arc<Packet>,
        wire: &Arc<Wire>,
        heard: &Heard,
    ) -> Result<(), Silent> {
        let (Some(broker), Some(cells)) = (work.broker(), &work.facilities.cells) else {
            let code = if work.broker().is_none() { NO_BROKER } else { NO_CELLS };
            return Err(Silent::Unsent(code));
        };
        let request = self.request(packet).await?;
        let asked = request.canonical().ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let asked =
            asked.and_then(|text| Request::parse(text).ok()).ok_or(Silent::Unsent("request-invalid"))?;
        let deadline = Instant::now() + Duration::from_millis(work.runner.timeout_ms);
        let capability = broker.capability(Arc::clone(wire), Arc::new(request), deadline);
        let site = self.site.clone();
        let ask = |asked: Request| {
            let heard = Arc::clone(heard);
            async move {
                let hear = |what| *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
                if let Err(fault) = site.pass(KillPoint::RunnerInside).await {
                    hear(Err(fault));
                    return Outcome::Refused(code("kill-point"));
                }
                let reply = capability.spend(asked.as_json().as_bytes()).await;
                let outcome = match &reply {
                    Ok(reply) => Outcome::Answered(Told::from(&reply.answer)),
                    Err(error) => Outcome::Refused(code(error.code.as_str())),
                };
                hear(Ok(reply));
                outcome
            }
        };
        let proposals = packet.proposals().map(ProposalCapability::for_worker);
        let cell = CellPacket::new(wire.run(), asked).with_proposals(proposals);
        cells.run(cell, Limits::default(), deadline, ask).await.map(drop).map_err(Silent::Cell)
    }

    /// Reads the images of the current message into the frozen request.
    async fn request(&self, packet: &Arc<Packet>) -> Result<ModelRequest, Silent> {
        let (reader, packet) = (self.reader.clone(), Arc::clone(packet));
        let read = tokio::task::spawn_blocking(move || reader.request(&packet)).await;
        read.map_err(|_| Silent::Unsent(STORE_UNREADABLE.as_str()))?.map_err(|fault| match fault {
            RequestFault::Row(_) => Silent::Unsent(STORE_UNREADABLE.as_str()),
            RequestFault::Image(error) => Silent::Unsent(error.code()),
        })
    }

    /// Returns what follows a failure, by what the declaration is for.
    fn policy_after(&self, work: &ModelWork, failure: RunFailure) -> FailurePolicy {
        work.runner.role.after_failure(failure.policy(self.spec.retry))
    }
}

/// Says why a worker gave no result.
enum Silent {
    /// Nothing was started.
    Unsent(&'static str),
    /// The worker was.
    Cell(CellFault),
}

impl Silent {
    const fn code(&self) -> &'static str {
        match self {
            Self::Unsent(code) => code,
            Self::Cell(fault) => fault.code(),
        }
    }
}

fn code(text: &str) -> Code {
    Code::parse(text).expect("a code of ours is one")
}
