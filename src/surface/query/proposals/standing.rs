//! Where a proposal stands, and the way out of each standing.

use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::materialization::{MaterializationFailed, Materialized};
use thoughtstream_domain::payload::proposal::{Disposition, MemoryChangeProposed};
use thoughtstream_domain::proposal::decision::{self, Decided};
use thoughtstream_domain::proposal::lineage::{AnyProven, LineageError, Proven, prove};
use thoughtstream_store::Reader;

use super::{Proposal, State, content};
use crate::failure::Failure;

/// Returns the command that shows all of a proposal.
pub(crate) fn show(id: &EventId) -> String {
    format!("thought inbox show {id} --full")
}

fn decide(id: &EventId) -> String {
    format!("thought inbox accept {id} | reject {id} | edit {id} --file FILE")
}

/// Finds out where a proposal stands; with `content`, also what it says.
pub(super) fn look(
    reader: &Reader,
    event: &Event,
    proposal: &mut Proposal,
    wants_content: bool,
) -> Result<(), Failure> {
    if !matches!(event.payload, Payload::Present(_)) {
        proposal.state = State::Redacted;
        return Ok(());
    }
    let decision = reader.decision_of(&event.id)?;
    // What was refused is settled without another look at what stood behind it.
    if let Some(decided) = &decision
        && let Ok(read) = decision::read(event, proposal.kind, decided)
    {
        proposal.decided(decided, &read);
        if read.disposition == Disposition::Reject && !wants_content {
            proposal.state = State::Rejected;
            return Ok(());
        }
    }
    let proven = match prove(reader, &event.id) {
        Ok(proven) => proven,
        Err(LineageError::Unread(error)) => return Err(error.into()),
        Err(LineageError::Broken(broken)) => {
            broken_at(proposal, broken.link.code());
            return Ok(());
        }
    };
    if wants_content {
        proposal.content = Some(content::of(reader, &proven, decision.as_ref())?);
    }
    match proven {
        AnyProven::Memory(proven) => memory(reader, *proven, decision, proposal),
        AnyProven::Correction(proven) => {
            let Some(event) = decision else {
                waits(proposal);
                return Ok(());
            };
            match Decided::of(*proven, event) {
                Ok(decided) => correction(reader, &decided, proposal),
                Err(fault) => {
                    broken_at(proposal, fault.code());
                    Ok(())
                }
            }
        }
        AnyProven::Focus(_) => {
            proposal.state = State::Inert;
            proposal.ways = vec!["nobody decides about a focus: it is kept as it is".to_owned()];
            Ok(())
        }
    }
}

fn waits(proposal: &mut Proposal) {
    proposal.state = State::Waiting;
    proposal.ways = vec![decide(&proposal.id), later(&proposal.id)];
}

fn later(id: &EventId) -> String {
    format!("thought inbox later {id} --for 1d")
}

fn broken_at(proposal: &mut Proposal, code: &str) {
    proposal.state = State::Broken;
    proposal.code = Some(code.to_owned());
    proposal.content = None;
    proposal.ways = vec![format!("thought event lineage {}", proposal.id)];
}

fn correction(
    reader: &Reader,
    decided: &Decided<thoughtstream_domain::payload::proposal::CorrectionProposed>,
    proposal: &mut Proposal,
) -> Result<(), Failure> {
    if decided.text().is_none() {
        proposal.state = State::Rejected;
        return Ok(());
    }
    proposal.outcome = reader.projection_of(&proposal.id)?.map(|judgment| judgment.id);
    if proposal.outcome.is_some() {
        proposal.state = State::Projected;
    } else {
        proposal.state = State::Unprojected;
        proposal.ways = vec![format!("thought proposal-project {}", proposal.id)];
    }
    Ok(())
}

fn memory(
    reader: &Reader,
    proven: Proven<MemoryChangeProposed>,
    decision: Option<Event>,
    proposal: &mut Proposal,
) -> Result<(), Failure> {
    let target = proven.payload().target.clone();
    let current = reader.document(&target.source, &target.document)?;
    let is_current = current.is_some_and(|document| {
        !document.removed
            && (document.revision, document.sha256, document.path)
                == (target.revision, target.sha256, target.path)
    });
    let Some(event) = decision else {
        waits(proposal);
        if !is_current {
            proposal.state = State::Stale;
            let again = "the document has changed since: ask for it again in the chat, or reject it";
            proposal.ways = vec![format!("thought inbox reject {}", proposal.id), again.to_owned()];
        }
        return Ok(());
    };
    let decided = match Decided::of(proven, event) {
        Ok(decided) => decided,
        Err(fault) => {
            broken_at(proposal, fault.code());
            return Ok(());
        }
    };
    if decided.text().is_none() {
        proposal.state = State::Rejected;
        return Ok(());
    }
    let events = reader.materializations_of(&target.source, &proposal.id, &decided.id())?;
    let Some(last) = events.last() else {
        proposal.state = State::Unmaterialized;
        proposal.ways = vec![unmaterialized(is_current)];
        return Ok(());
    };
    proposal.outcome = Some(last.id);
    if last.payload_as::<Materialized>().is_ok() {
        proposal.state = State::Materialized;
    } else if let Ok(failed) = last.payload_as::<MaterializationFailed>() {
        proposal.state = State::Failed;
        proposal.code = Some(failed.code.as_str().to_owned());
        proposal.ways = vec!["nothing is rebased: ask for it again in the chat".to_owned()];
    } else {
        proposal.state = State::Materializing;
        proposal.ways = vec![unmaterialized(true)];
    }
    Ok(())
}

fn unmaterialized(is_current: bool) -> String {
    if is_current {
        "the running service writes it: thought serve".to_owned()
    } else {
        "the document has changed since: it will fail as stale, ask for it again in the chat".to_owned()
    }
}
