//! What becomes of a run that asked: one commit, whatever happened.

use thoughtstream_channels::provider::Wire;
use thoughtstream_domain::accounting::{Charge, Measured, Reservation, Settled};
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::contract::{Accepted, Judged, Recommendation, Rejection, Stop, judge_proposing};
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::lifecycle::{Execution, Made, Output};
use thoughtstream_domain::packet::Packet;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::escalation::Escalation;
use thoughtstream_domain::payload::output::{MessageObservation, Provenance};
use thoughtstream_domain::payload::proposal::Proposer;
use thoughtstream_domain::payload::repair::{RepairProposed, RepairRequested};
use thoughtstream_domain::payload::trace::{RunTraced, Step, TraceChunk};
use thoughtstream_domain::provider::{AskError, Certainty, Usage};
use thoughtstream_domain::repair::{self, AgentRole, Refused};
use thoughtstream_store::RowError;

use super::super::attempt::{Attempt, Ended};
use super::super::resume::{TriggersError, triggers};
use super::{Came, ModelWork, Silent};
use crate::broker::Reply;
use crate::killpoint::KillPoint;
use crate::runner::RunFailure;

/// The final message broke its contract.
const INVALID_OUTPUT: &str = "invalid-output";
/// The worker ended its run and had not asked.
const WORKER_SILENT: &str = "worker-silent";

/// Is one finished run on its way into the log.
struct Finish<'a> {
    work: &'a ModelWork,
    packet: &'a Packet,
    /// The request that a repair run answers.
    asked: Option<&'a (EventId, RepairRequested)>,
    reservation: Reservation,
    trace: Vec<TraceChunk>,
    requests: u32,
}

impl Attempt {
    /// Settles an attempt by what its worker and its broker said.
    pub(super) async fn end(
        self,
        work: &ModelWork,
        mut execution: Execution,
        packet: &Packet,
        reservation: Reservation,
        came: Came,
    ) -> Result<Ended, Ended> {
        let Came { run, heard, wire } = came;
        let asked =
            if work.runner.role == AgentRole::Repair { self.request_of(&execution).await? } else { None };
        let mut finish =
            Finish { work, packet, asked: asked.as_ref(), reservation, trace: Vec::new(), requests: 0 };
        if !matches!(&run, Err(Silent::Unsent(_))) {
            finish.trace.push(TraceChunk::of(Step::CellStarted));
        }
        let mut commit = match (run, heard) {
            (Ok(()), Some(Ok(reply))) => self.answered(&mut finish, &mut execution, reply).await?,
            // The answer came and the worker did not bring it back: it counts as used, and as one failed attempt.
            (Err(silent), Some(Ok(reply))) => {
                finish.requests = 1;
                finish.trace.extend(reply.trace);
                let charge = finish.charge(&reply.answer.usage, true);
                self.failed(&finish, &mut execution, RunFailure::of_surroundings(silent.code()), charge)
            }
            (_, Some(Err(error))) => self.unanswered(&mut finish, &mut execution, error, &wire),
            // A worker that has a result without having asked has broken the protocol, which its fault says.
            (run, None) => {
                let code = run.err().map_or(WORKER_SILENT, |silent| silent.code());
                self.unsent_or_lost(&mut finish, &mut execution, code, &wire)
            }
        };
        let traced = finish.traced(&execution);
        commit.appends.push(traced.event(execution.privacy, execution.parents()));
        self.settle(commit, &execution).await?;
        let completed = execution.has_completed();
        Ok(Ended::Stands { execution: Box::new(execution), completed })
    }

    /// Reads the request that a repair run answers.
    async fn request_of(&self, execution: &Execution) -> Result<Option<(EventId, RepairRequested)>, Ended> {
        let (reader, execution) = (self.reader.clone(), execution.clone());
        let read = tokio::task::spawn_blocking(move || triggers(&reader, &execution)).await;
        let events = read.map_err(|_| Ended::Unreadable(None))?.map_err(|error| match error {
            // The attempt is open by now: its supervisor closes it.
            TriggersError::Damaged(damaged) => RowError::Damaged { place: damaged.to_string() },
            TriggersError::Unreadable(error) => error,
        })?;
        let Some(event) = events.first() else { return Ok(None) };
        Ok(event.payload_as().ok().map(|request| (event.id, request)))
    }

    async fn answered(
        &self,
        finish: &mut Finish<'_>,
        execution: &mut Execution,
        reply: Reply,
    ) -> Result<Commit, Ended> {
        let Reply { answer, trace } = reply;
        finish.requests = 1;
        finish.trace.extend(trace);
        let said = answer.texts().any(|text| !text.reveal().is_empty());
        let charge = finish.charge(&answer.usage, said);
        let work = finish.work;
        let verdict = judge_proposing(&work.contract, work.runner.mode, &answer, finish.packet.proposals());
        let step = if verdict.is_ok() { Step::Accepted } else { Step::Rejected };
        let stop = Some(Stop::from(answer.stop));
        finish.trace.push(TraceChunk { stop, ..TraceChunk::of(step) });
        match verdict {
            Ok(judged) => self.accepted(finish, execution, judged, charge).await,
            Err(rejection) => Ok(self.rejected(finish, execution, &rejection, charge)),
        }
    }

    /// Makes what is settled, in its order: the output, what is proposed, and the end that names both. Nothing of it
    /// is in the log before all of it is.
    async fn accepted(
        &self,
        finish: &Finish<'_>,
        execution: &mut Execution,
        judged: Judged,
        charge: Charge,
    ) -> Result<Commit, Ended> {
        let Judged { accepted, proposals } = judged;
        let recommended = accepted.value.recommendation().cloned();
        let Some(output) = finish.output(execution, accepted) else {
            return Ok(self.failed(finish, execution, RunFailure::of_output(INVALID_OUTPUT), charge));
        };
        self.site.pass(KillPoint::ProposalOutputMade).await?;
        let proposer = finish.proposer(execution, &output);
        let escalation =
            recommended.and_then(|recommended| self.escalation(&recommended, execution, &proposer));
        let proposals = match self.proposals(execution, proposer, proposals).await? {
            Ok(proposals) => proposals,
            Err(error) => {
                return Ok(self.failed(finish, execution, RunFailure::of_output(error.code()), charge));
            }
        };
        self.site.pass(KillPoint::ProposalsMade).await?;
        let frame = self.spec.frame(self.incarnation, self.clock.now());
        let ending = (finish.reservation.clone(), charge.clone());
        let outputs = std::iter::once(output).chain(escalation).collect();
        let made = Made { outputs, proposals };
        let commit = match execution.complete(&frame, ending, &self.registry, made) {
            Ok(commit) => commit,
            Err(_) => self.failed(finish, execution, RunFailure::of_output(INVALID_OUTPUT), charge),
        };
        self.site.pass(KillPoint::ProposalSettlementMade).await?;
        Ok(commit)
    }

    /// Makes the escalation that an output recommends, if the declaration may write one.
    fn escalation(
        &self,
        recommended: &Recommendation,
        execution: &Execution,
        proposer: &Proposer,
    ) -> Option<Output> {
        if !self.spec.emit.iter().any(|name| name.as_str() == Escalation::NAME) {
            return None;
        }
        let triggers = execution.triggers.iter().map(|trigger| trigger.id);
        let from = &execution.consumer.id;
        Escalation::recommended(from, recommended, proposer.output, triggers).map(|made| made.output())
    }

    fn rejected(
        &self,
        finish: &Finish<'_>,
        execution: &mut Execution,
        rejection: &Rejection,
        charge: Charge,
    ) -> Commit {
        let mut commit = self.failed(finish, execution, RunFailure::of_output(rejection.code()), charge);
        let stamp = execution.stamp();
        let refused = Refused {
            stamp: &stamp,
            role: finish.work.runner.role,
            snapshot: finish.packet.sha256(),
            privacy: execution.privacy,
            triggers: execution.parents(),
        };
        repair::add_to(&mut commit, &refused, rejection);
        commit
    }

    fn unanswered(
        &self,
        finish: &mut Finish<'_>,
        execution: &mut Execution,
        error: AskError,
        wire: &Wire,
    ) -> Commit {
        let AskError { code, certainty, usage, trace, .. } = error;
        finish.trace.extend(trace);
        match certainty {
            Certainty::NotSent | Certainty::Lost => {
                self.unsent_or_lost(finish, execution, code.as_str(), wire)
            }
            Certainty::Refused | Certainty::Unusable => {
                finish.requests = 1;
                let charge = finish.charge(&usage, true);
                self.failed(finish, execution, RunFailure::of_surroundings(code.as_str()), charge)
            }
        }
    }

    /// Ends an attempt that has no answer by what its wire says: what was not sent failed and costs nothing, and what
    /// became of anything else is not known.
    fn unsent_or_lost(
        &self,
        finish: &mut Finish<'_>,
        execution: &mut Execution,
        code: &'static str,
        wire: &Wire,
    ) -> Commit {
        if let Some(proof) = wire.give_up() {
            let settled = finish.reservation.release(proof);
            return self.failed(finish, execution, RunFailure::of_surroundings(code), settled);
        }
        finish.requests = 1;
        if !finish.trace.iter().any(|chunk| chunk.step == Step::Requested) {
            finish.trace.push(finish.request_step());
        }
        let frame = self.spec.frame(self.incarnation, self.clock.now());
        let ending = (finish.reservation.clone(), finish.reservation.charge_in_full());
        let interrupted = finish.work.runner.role.interrupted(self.spec.interrupted);
        execution.interrupt(&frame, ending, code, interrupted, self.spec.retry)
    }

    fn failed(
        &self,
        finish: &Finish<'_>,
        execution: &mut Execution,
        failure: RunFailure,
        settled: impl Into<Settled>,
    ) -> Commit {
        let frame = self.spec.frame(self.incarnation, self.clock.now());
        let policy = self.policy_after(finish.work, failure);
        execution.fail(&frame, (finish.reservation.clone(), settled.into()), failure.code, policy)
    }
}

impl Finish<'_> {
    fn charge(&self, usage: &Usage, returned_text: bool) -> Charge {
        self.reservation.charge(&Measured {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cost_microusd: usage.cost_microusd,
            returned_text,
        })
    }

    /// Names the request of which no more is known than that it left.
    fn request_step(&self) -> TraceChunk {
        let model = Some(self.work.runner.model.clone());
        TraceChunk { model, ..TraceChunk::of(Step::Requested) }
    }

    /// Makes the output of an accepted message; `None` for a repair that was held against another contract.
    fn output(&self, execution: &Execution, accepted: Accepted) -> Option<Output> {
        let (stamp, snapshot) = (execution.stamp(), self.packet.sha256());
        match self.asked {
            None => Some(MessageObservation::of(accepted, stamp, snapshot, self.provenance()).output()),
            Some((id, request)) => {
                let proposed =
                    RepairProposed::of(accepted, stamp, snapshot, self.provenance(), (*id, request));
                proposed.map(|proposed| proposed.output())
            }
        }
    }

    /// Says who proposes, if anything is proposed beside this output.
    fn proposer(&self, execution: &Execution, output: &Output) -> Proposer {
        let Provenance { provider, model } = self.provenance();
        Proposer {
            run: execution.run_id(),
            output: execution.output_id(&output.kind, 0),
            trigger: execution.triggers[0].id,
            agent: execution.consumer.clone(),
            fingerprint: execution.fingerprint,
            provider,
            model,
            snapshot: self.packet.sha256(),
        }
    }

    fn provenance(&self) -> Provenance {
        Provenance { provider: self.work.runner.provider.clone(), model: self.work.runner.model.clone() }
    }

    fn traced(&self, execution: &Execution) -> RunTraced {
        RunTraced::of(execution.stamp(), self.requests, self.trace.clone())
    }
}
