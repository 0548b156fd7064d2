//! What came to nothing without anything standing still: outputs that were refused, and escalations that nobody hears.

use std::collections::BTreeSet;

use thoughtstream_actors::runner::RunFailure;
use thoughtstream_domain::id::{ConsumerId, RunId, SourceId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::escalation::Escalation;
use thoughtstream_domain::payload::repair::{RepairProposed, RepairRequested};
use thoughtstream_domain::payload::run::{Next, RunFailed};
use thoughtstream_store::Reader;

use super::super::consumers::enabled;
use super::super::runs::find_execution;
use super::{Kind, Waiting};
use crate::failure::Failure;
use crate::render::count;

/// Adds one line for each enabled consumer whose outputs were refused for good, if no repair waits in their place. It
/// is named by the latest, so that hiding it hides no later one.
pub(super) fn refused(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let enabled = enabled(reader)?.unwrap_or_default();
    let ids: BTreeSet<&ConsumerId> = enabled.iter().map(|key| &key.id).collect();
    let mut repaired: Option<BTreeSet<RunId>> = None;
    for id in ids {
        let (mut refused, mut latest) = (0_u64, None);
        for event in reader.walk(&[RunFailed::kind().name], &SourceId::agent(id)) {
            let event = event?;
            let Ok(RunFailed { stamp, code, next: Next::Advance, .. }) = event.payload_as() else {
                continue;
            };
            let execution = find_execution(reader, &stamp.run.to_string())?;
            let is_final = execution.state == ExecutionState::Closed { how: Closure::Failed };
            if !is_final || code == RunFailure::of_erased().code || is_repair(reader, &execution)? {
                continue;
            }
            if repaired.is_none() {
                repaired = Some(repairs(reader)?);
            }
            if !repaired.as_ref().is_some_and(|repaired| repaired.contains(&stamp.run)) {
                refused += 1;
                latest = Some((stamp, code, event.recorded_at));
            }
        }
        let Some((stamp, code, since)) = latest else { continue };
        let said = count(refused, "output");
        let was = if refused == 1 { "was" } else { "were" };
        found.push(Waiting {
            kind: Kind::OutputRefused,
            id: stamp.run.to_string(),
            since: Some(since),
            why: format!(
                "{}: {code}; {said} {was} refused, and nothing came of the events behind",
                stamp.consumer
            ),
            command: format!("thought why {}", stamp.run),
            ways: vec![
                format!("thought run list --consumer {id} --state failed"),
                format!("thought inbox later {} --for-good", stamp.run),
            ],
            hidden_until: None,
        });
    }
    Ok(())
}

/// Says whether an execution was to repair the output of another, which is the one that counts.
fn is_repair(reader: &Reader, execution: &Execution) -> Result<bool, Failure> {
    let Some(trigger) = execution.triggers.first() else { return Ok(false) };
    let event = reader.event_at(trigger.position)?;
    Ok(event.is_some_and(|event| event.kind.name == RepairRequested::kind().name))
}

/// Returns the attempts in whose place a repair was proposed: those wait as proposals.
fn repairs(reader: &Reader) -> Result<BTreeSet<RunId>, Failure> {
    let mut repaired = BTreeSet::new();
    for head in reader.sources_where(|source| source.kind() == "agent")? {
        for event in reader.walk(&[RepairProposed::kind().name], &head.source) {
            repaired.extend(event?.payload_as::<RepairProposed>().map(|proposed| proposed.failed));
        }
    }
    Ok(repaired)
}

/// Adds the escalations to consumers that are not enabled: nobody looks.
pub(super) fn unheard(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let enabled = enabled(reader)?.unwrap_or_default();
    for head in reader.sources_where(|source| source.kind() == "agent")? {
        for event in reader.walk(&[Escalation::kind().name], &head.source) {
            let event = event?;
            let Ok(Escalation { to, .. }) = event.payload_as() else { continue };
            if enabled.iter().any(|key| key.id == to) {
                continue;
            }
            found.push(Waiting {
                kind: Kind::EscalationUnheard,
                id: event.id.to_string(),
                since: Some(event.recorded_at),
                why: format!("{} asks `{to}` to look, which is not enabled", event.source.name()),
                command: format!("thought event show {}", event.id),
                ways: vec![format!("thought inbox later {} --for-good", event.id)],
                hidden_until: None,
            });
        }
    }
    Ok(())
}
