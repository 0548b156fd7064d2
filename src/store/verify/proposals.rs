//! Proposals, decisions and what followed: each is held against everything behind it, by the validator that whoever
//! acts on a proposal asks.

use std::cell::Cell;

use thoughtstream_domain::commit::Registered;
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::{ConsumerKey, EventId, ExecutionId, RunId};
use thoughtstream_domain::judgment::Given;
use thoughtstream_domain::lifecycle::Run;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::judgment::TrainingExample;
use thoughtstream_domain::payload::proposal::{ProposalDecision, Proposed};
use thoughtstream_domain::proposal::decision::{self, Decided};
use thoughtstream_domain::proposal::lineage::{LineageError, Records, Stored, prove, prove_correction};
use thoughtstream_domain::proposal::project::{self, CRITERION};

use super::{FindingKind, Findings};
use crate::reader::Reader;
use crate::rows::RowError;
use crate::tables::Table;

/// Reads the log, and notes whether anything that was read had been erased: what a person erased is no damage.
pub(super) struct Noting<'r> {
    pub(super) reader: &'r Reader,
    pub(super) erased: Cell<bool>,
}

impl Records for Noting<'_> {
    type Error = RowError;

    fn event(&self, id: &EventId) -> Result<Option<Event>, RowError> {
        let found = self.reader.event(id)?;
        if found.as_ref().is_some_and(|event| event.payload == Payload::Redacted) {
            self.erased.set(true);
        }
        Ok(found)
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RowError> {
        self.reader.run_by_id(id)
    }

    fn completions(&self, run: &Run) -> Result<Vec<Event>, RowError> {
        Records::completions(self.reader, run)
    }

    fn registered(&self, consumer: &ConsumerKey) -> Result<Option<Registered>, RowError> {
        self.reader.registered(consumer)
    }

    fn snapshot(&self, agent: &ConsumerKey, execution: &ExecutionId) -> Result<Option<Stored>, RowError> {
        Records::snapshot(self.reader, agent, execution)
    }
}

/// Checks every proposal, every decision, and every judgment that is said to follow from one.
pub(super) fn check(reader: &Reader, findings: &mut Findings) -> Result<(), RowError> {
    let place = |event: &Event| format!("{} {}", Table::Events.name(), event.position);
    for event in reader.proposals()? {
        let noting = Noting { reader, erased: Cell::new(false) };
        match prove(&noting, &event.id) {
            Ok(_) => {}
            Err(LineageError::Unread(error)) => return Err(error),
            Err(LineageError::Broken(_)) if noting.erased.get() => {}
            Err(LineageError::Broken(broken)) => findings.add(FindingKind::Proposal, place(&event), broken),
        }
    }
    for event in reader.of_types(&[ProposalDecision::kind().name])? {
        if let Some(wrong) = wrong_decision(reader, &event)? {
            findings.add(FindingKind::Proposal, place(&event), wrong);
        }
    }
    for given in reader.judgments()? {
        let ours = given.newer.as_ref().is_some_and(|newer| newer.criterion.as_deref() == Some(CRITERION));
        if ours && !follows(reader, &given)? {
            let message = "the judgment does not follow from a decision about a proposed correction";
            findings.add(FindingKind::Proposal, place(&given.event), message);
        }
    }
    Ok(())
}

/// Says what is wrong with a decision, if anything is.
fn wrong_decision(reader: &Reader, event: &Event) -> Result<Option<String>, RowError> {
    if event.payload == Payload::Redacted {
        return Ok(None);
    }
    let Ok(said) = event.payload_as::<ProposalDecision>() else {
        return Ok(Some("the decision cannot be read".to_owned()));
    };
    let Some(proposal) = reader.event(&said.proposal)? else {
        return Ok(Some(format!("the decision is about {}, which is not in the log", said.proposal)));
    };
    let Some(kind) = Proposed::kind_of(&proposal.kind) else {
        return Ok(Some(format!("the decision is about {}, which is no proposal", said.proposal)));
    };
    Ok(decision::read(&proposal, kind, event).err().map(|fault| fault.to_string()))
}

/// Says whether a judgment is the one that follows from its decision; what was erased meanwhile is not held against it.
fn follows(reader: &Reader, given: &Given) -> Result<bool, RowError> {
    let Some(TrainingExample { feedback: Some(feedback), .. }) = given.newer.as_deref() else {
        return Ok(false);
    };
    let Some(event) = reader.event(feedback)? else { return Ok(false) };
    if event.payload == Payload::Redacted {
        return Ok(true);
    }
    let Ok(said) = event.payload_as::<ProposalDecision>() else { return Ok(false) };
    if given.event.key != project::key(&said.proposal) {
        return Ok(false);
    }
    let noting = Noting { reader, erased: Cell::new(false) };
    let proven = match prove_correction(&noting, &said.proposal) {
        Ok(proven) => proven,
        Err(LineageError::Unread(error)) => return Err(error),
        Err(LineageError::Broken(_)) => return Ok(noting.erased.get()),
    };
    let Ok(decided) = Decided::of(proven, event) else { return Ok(false) };
    let Ok(Some(candidate)) = project::project(&decided, &[]) else { return Ok(false) };
    let made = serde_json::from_slice::<TrainingExample>(candidate.payload().reveal()).ok();
    let stands = given.newer.as_deref().map(|newer| TrainingExample { supersedes: None, ..newer.clone() });
    Ok(made.is_some() && made == stands && given.event.actor == candidate.envelope().actor)
}
