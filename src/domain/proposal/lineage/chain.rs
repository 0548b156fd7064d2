//! The links one by one: each is held against what was read from the log, and against the links before it.

use super::{BoundReply, Broken, Chained, LineageError, Link, Proven, Records};
use crate::contract::Contract;
use crate::event::{ActorKind, Event};
use crate::hash::Sha256Hash;
use crate::id::{EventId, ExecutionId, RunId, SourceId};
use crate::judgment::{Judged, is_receipt_of};
use crate::lifecycle::{Run, RunState};
use crate::packet::manifest::Part;
use crate::packet::{self, Packet};
use crate::payload::delivery::{DeliveryDelivered, Route};
use crate::payload::proposal::{CorrectionProposed, FocusProposed, MemoryChangeProposed, Proposed, Proposer};
use crate::payload::run::{RunCompleted, RunStamp};
use crate::payload::telegram::TelegramMessage;
use crate::privacy::Privacy;
use crate::proposal::Kind;
use crate::proposal::capability::{CorrectionTarget, MemoryTarget, ProposalCapability};

type Proof<P, E> = Result<Proven<P>, LineageError<E>>;

/// Is one walk along a chain.
struct Walk<'r, R> {
    records: &'r R,
    proposal: EventId,
}

/// Is everything of the chain that all kinds have in common.
struct Common<P> {
    event: Event,
    payload: P,
    run: Run,
    output: Judged,
    trigger: Event,
    packet: Packet,
}

impl<P> Common<P> {
    /// Returns what the context admitted; the walk has seen that it is there.
    fn capability(&self) -> Option<&ProposalCapability> {
        self.packet.proposals()
    }

    fn proven(self, bound: P::Bound) -> Proven<P>
    where
        P: Chained,
    {
        let Self { event, payload, run, output, packet, .. } = self;
        Proven { event, payload, run, output, packet, bound }
    }
}

pub(super) fn memory<R: Records>(records: &R, event: Event) -> Proof<MemoryChangeProposed, R::Error> {
    let walk = Walk { records, proposal: event.id };
    let common = walk.common::<MemoryChangeProposed>(event)?;
    let MemoryChangeProposed { target, .. } = &common.payload;
    let held = common.packet.documents().iter().filter_map(MemoryTarget::of).collect::<Vec<_>>();
    walk.hold(Link::Manifest, held == [target.clone()])?;
    let admitted = common.capability().and_then(|capability| capability.memory.as_ref());
    walk.hold(Link::Capability, admitted == Some(target))?;
    let MemoryChangeProposed { proposed_text, text_length, text_sha256, .. } = &common.payload;
    let recorded = Sha256Hash::of(proposed_text.reveal().as_bytes()) == *text_sha256
        && proposed_text.characters() == *text_length;
    walk.hold(Link::Content, recorded)?;
    Ok(common.proven(()))
}

pub(super) fn correction<R: Records>(records: &R, event: Event) -> Proof<CorrectionProposed, R::Error> {
    let walk = Walk { records, proposal: event.id };
    let common = walk.common::<CorrectionProposed>(event)?;
    let target = &common.payload.target;
    let shown = |part: Part, id: EventId| {
        let id = id.to_string();
        common.packet.manifest().included.iter().any(|one| one.part == part && one.id == id)
    };
    walk.hold(Link::Manifest, shown(Part::Assistant, target.output))?;
    let admitted = common.capability().map_or(&[][..], |capability| &capability.correction_targets);
    walk.hold(Link::Capability, admitted.contains(target))?;
    let reply = walk.reply(target, &common.trigger)?;
    walk.hold(Link::Parent, common.event.root == reply.judged.event.root)?;
    let replacement = &common.payload.replacement;
    let made = reply.judged.contract.with_display(&reply.judged.observation, replacement.summary());
    walk.hold(Link::Content, made.as_ref() == Ok(replacement))?;
    Ok(common.proven(reply))
}

pub(super) fn focus<R: Records>(records: &R, event: Event) -> Proof<FocusProposed, R::Error> {
    let walk = Walk { records, proposal: event.id };
    let common = walk.common::<FocusProposed>(event)?;
    walk.hold(Link::Capability, common.capability().is_some_and(|it| it.can(Kind::FocusDeclaration)))?;
    walk.hold(
        Link::Content,
        common.payload.declaration.fingerprint() == common.payload.declaration_fingerprint,
    )?;
    Ok(common.proven(()))
}

impl<R: Records> Walk<'_, R> {
    fn broken(&self, link: Link) -> LineageError<R::Error> {
        Broken { proposal: self.proposal, link }.into()
    }

    fn hold(&self, link: Link, holds: bool) -> Result<(), LineageError<R::Error>> {
        if holds { Ok(()) } else { Err(self.broken(link)) }
    }

    /// Takes what was read, or names the link that is missing.
    fn need<T>(&self, link: Link, found: Option<T>) -> Result<T, LineageError<R::Error>> {
        found.ok_or_else(|| self.broken(link))
    }

    fn event(&self, link: Link, id: &EventId) -> Result<Event, LineageError<R::Error>> {
        let found = self.records.event(id).map_err(LineageError::Unread)?;
        self.need(link, found.filter(|event| event.id == *id))
    }

    /// Walks the links that every kind has.
    fn common<P: Chained>(&self, event: Event) -> Result<Common<P>, LineageError<R::Error>> {
        let payload: P = self.need(Link::Proposal, event.payload_as().ok())?;
        let proposer = payload.proposer();
        self.author(&event, proposer)?;
        let run = self.run(proposer)?;
        self.fingerprint(proposer)?;
        let packet = self.snapshot(proposer, &run)?;
        self.hold(Link::Declared, packet.proposals().is_some_and(|it| it.kinds.contains(&P::KIND)))?;
        let trigger = self.trigger(proposer, &run, &packet)?;
        let output = self.output(proposer, &run, &trigger)?;
        self.receipt(&event, P::KIND, proposer, &run, &output)?;
        let own = P::KIND != Kind::SelfCorrection;
        let hangs = event.parents.first() == Some(&payload.parent())
            && (!own || (payload.parent() == proposer.output && event.root == output.event.root));
        self.hold(Link::Parent, hangs)?;
        self.evidence(&payload, &packet)?;
        Ok(Common { event, payload, run, output, trigger, packet })
    }

    fn author(&self, event: &Event, proposer: &Proposer) -> Result<(), LineageError<R::Error>> {
        let agent = &proposer.agent;
        let holds = event.source == SourceId::agent(&agent.id)
            && event.actor.kind == ActorKind::Agent
            && event.actor.id.as_str() == agent.to_string()
            && event.privacy >= Privacy::Sensitive;
        self.hold(Link::Author, holds)
    }

    fn run(&self, proposer: &Proposer) -> Result<Run, LineageError<R::Error>> {
        let found = self.records.run(&proposer.run).map_err(LineageError::Unread)?;
        let run = self.need(Link::Run, found)?;
        let derived = RunId::derive(&run.execution, run.attempt);
        let is_it = run.id == proposer.run && derived == run.id && run.consumer == proposer.agent;
        self.hold(Link::Run, is_it && matches!(run.state, RunState::Completed { .. }))?;
        Ok(run)
    }

    fn fingerprint(&self, proposer: &Proposer) -> Result<(), LineageError<R::Error>> {
        let found = self.records.registered(&proposer.agent).map_err(LineageError::Unread)?;
        let registered = self.need(Link::Fingerprint, found)?;
        let holds = registered.consumer == proposer.agent && registered.fingerprint == proposer.fingerprint;
        self.hold(Link::Fingerprint, holds)
    }

    /// Reads the context again: its one version, its bytes under their hash, and its parts in canonical form.
    fn snapshot(&self, proposer: &Proposer, run: &Run) -> Result<Packet, LineageError<R::Error>> {
        let found = self.records.snapshot(&run.consumer, &run.execution).map_err(LineageError::Unread)?;
        let stored = self.need(Link::Snapshot, found)?;
        let version = self.need(Link::Snapshot, stored.version)?;
        let bytes = self.need(Link::Snapshot, stored.bytes)?;
        let one = stored.document.revision == 1 && !stored.document.removed && version.revision == 1;
        let same = stored.document.sha256 == version.sha256 && version.sha256 == proposer.snapshot;
        let named = version.id == packet::document_id(&run.execution)
            && version.source == packet::source(&run.consumer);
        self.hold(Link::Snapshot, one && same && named)?;
        let read = Packet::read(bytes.reveal(), &run.execution, &proposer.snapshot);
        let packet = self.need(Link::Snapshot, read.ok())?;
        let runtime = packet.runtime();
        let ours = *packet.consumer() == proposer.agent
            && ExecutionId::derive(&proposer.agent, &proposer.fingerprint, packet.triggers())
                == run.execution
            && runtime.profile == proposer.provider
            && runtime.model == proposer.model;
        self.hold(Link::Snapshot, ours)?;
        Ok(packet)
    }

    fn trigger(
        &self,
        proposer: &Proposer,
        run: &Run,
        packet: &Packet,
    ) -> Result<Event, LineageError<R::Error>> {
        self.hold(Link::Trigger, packet.triggers() == [proposer.trigger])?;
        let trigger = self.event(Link::Trigger, &proposer.trigger)?;
        let part = (Part::Current, proposer.trigger.to_string());
        let shown = packet.manifest().included.iter().any(|one| (one.part, one.id.clone()) == part);
        let is_it = trigger.position == run.position && trigger.source == run.source;
        self.hold(Link::Trigger, is_it && shown)?;
        Ok(trigger)
    }

    fn output(
        &self,
        proposer: &Proposer,
        run: &Run,
        trigger: &Event,
    ) -> Result<Judged, LineageError<R::Error>> {
        let settled = matches!(&run.state, RunState::Completed { outputs } if *outputs == [proposer.output]);
        self.hold(Link::Output, settled)?;
        let event = self.event(Link::Output, &proposer.output)?;
        let judged = self.need(Link::Output, Judged::of(&event).ok())?;
        let says = is_of(&judged.stamp, proposer, run)
            && !judged.is_repair
            && judged.snapshot == proposer.snapshot
            && judged.provenance.provider == proposer.provider
            && judged.provenance.model == proposer.model;
        let hangs = event.source == SourceId::agent(&proposer.agent.id)
            && event.parents.first() == Some(&trigger.id)
            && event.root == trigger.root;
        self.hold(Link::Output, says && hangs)?;
        Ok(judged)
    }

    /// Looks for the proposal in the one receipt of the completion, which was written in the same commit.
    fn receipt(
        &self,
        event: &Event,
        kind: Kind,
        proposer: &Proposer,
        run: &Run,
        output: &Judged,
    ) -> Result<(), LineageError<R::Error>> {
        let completions = self.records.completions(run).map_err(LineageError::Unread)?;
        let [completion] = &completions[..] else { return Err(self.broken(Link::Receipt)) };
        let read = completion.payload_as::<RunCompleted>().ok();
        let RunCompleted { stamp, outputs, proposals, .. } = self.need(Link::Receipt, read)?;
        let names = proposals.iter().filter(|id| **id == event.id).count() == 1
            && proposals.len() <= Kind::ALL.len()
            && outputs == [proposer.output];
        // One commit writes them without a gap: the output, its proposals in the order of the kinds, the completion.
        let place = u64::try_from(proposals.iter().take_while(|id| **id != event.id).count()).unwrap_or(0);
        let last = u64::try_from(proposals.len()).unwrap_or(0);
        let together = completion.source == event.source
            && event.source == output.event.source
            && event.sequence == output.event.sequence + 1 + place
            && completion.sequence == output.event.sequence + 1 + last
            && event.recorded_at == completion.recorded_at;
        let mut others = Vec::new();
        for id in proposals.iter().filter(|id| **id != event.id) {
            others.push(Proposed::kind_of(&self.event(Link::Receipt, id)?.kind));
        }
        others.push(Some(kind));
        others.sort_unstable();
        let one_each = others.iter().all(Option::is_some) && others.windows(2).all(|two| two[0] != two[1]);
        self.hold(Link::Receipt, is_of(&stamp, proposer, run) && names && together && one_each)
    }

    fn evidence<P: Chained>(&self, payload: &P, packet: &Packet) -> Result<(), LineageError<R::Error>> {
        let admitted = packet.proposals().map(|capability| &capability.evidence);
        for id in payload.cited() {
            self.hold(Link::Evidence, admitted.is_some_and(|admitted| admitted.contains(id)))?;
            self.event(Link::Evidence, id)?;
        }
        Ok(())
    }

    /// Reads the reply that a correction is about, and everything that shows how it was made and delivered.
    fn reply(
        &self,
        target: &CorrectionTarget,
        trigger: &Event,
    ) -> Result<BoundReply, LineageError<R::Error>> {
        let run = self.records.run(&target.run).map_err(LineageError::Unread)?;
        let run = self.need(Link::Target, run)?;
        let settled = matches!(&run.state, RunState::Completed { outputs } if *outputs == [target.output]);
        let output = self.event(Link::Target, &target.output)?;
        let judged = self.need(Link::Target, Judged::of(&output).ok())?;
        let contract = Contract::exactly(&target.contract.name, &target.contract.sha256);
        let made = settled
            && judged.stamp.run == target.run
            && !judged.is_repair
            && output.root == target.root
            && contract.as_ref() == Some(&judged.contract);
        let receipt = self.event(Link::Target, &target.receipt)?;
        let delivered = self.need(Link::Target, receipt.payload_as::<DeliveryDelivered>().ok())?;
        let root = self.event(Link::Target, &target.root)?;
        let asked = self.need(Link::Target, root.payload_as::<TelegramMessage>().ok())?;
        let now = self.need(Link::Target, trigger.payload_as::<TelegramMessage>().ok())?;
        let binding = &delivered.binding;
        let here = binding.run == target.run
            && binding.route == Route::DirectReply
            && binding.bot == root.source
            && root.source == trigger.source
            && (binding.chat, binding.sender) == (asked.chat, Some(asked.sender))
            && (binding.chat, binding.sender) == (now.chat, Some(now.sender));
        self.hold(Link::Target, made && here && is_receipt_of(&receipt, &output))?;
        Ok(BoundReply { judged, receipt })
    }
}

/// Says whether a stamp is that of the proposer's run.
fn is_of(stamp: &RunStamp, proposer: &Proposer, run: &Run) -> bool {
    stamp.run == proposer.run
        && stamp.execution == run.execution
        && stamp.consumer == proposer.agent
        && stamp.fingerprint == proposer.fingerprint
        && stamp.attempt == run.attempt
}
