//! Materializations: each is held against the decision that it carries out, the version that it replaced and the one that
//! it became.

use std::cell::Cell;
use std::collections::BTreeMap;

use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::materialization::{
    MaterializationFailed, MaterializationStarted, Materialized,
};
use thoughtstream_domain::proposal::decision::Decided;
use thoughtstream_domain::proposal::lineage::{LineageError, prove_memory};
use thoughtstream_domain::proposal::materialize::{Behind, Seen, Written};

use super::proposals::Noting;
use super::{FindingKind, Findings};
use crate::reader::Reader;
use crate::rows::RowError;
use crate::tables::Table;

/// Checks every event of every materialization. What was erased meanwhile is not held against the log.
pub(super) fn check(reader: &Reader, findings: &mut Findings) -> Result<(), RowError> {
    let types =
        [MaterializationStarted::kind().name, Materialized::kind().name, MaterializationFailed::kind().name];
    let mut erased = false;
    let mut changes: BTreeMap<EventId, Vec<(Event, Written)>> = BTreeMap::new();
    for event in reader.of_types(&types)? {
        let Some(written) = Written::of(&event) else {
            if event.payload == Payload::Redacted {
                erased = true;
            } else {
                add(findings, &event, "the event of a materialization cannot be read");
            }
            continue;
        };
        changes.entry(written.binding().proposal).or_default().push((event, written));
    }
    let mut changes: Vec<_> = changes.into_iter().collect();
    changes.sort_by_key(|(_, events)| events.first().map(|(event, _)| event.position));
    for (proposal, events) in changes {
        check_change(reader, findings, &proposal, &events, erased)?;
    }
    Ok(())
}

fn add(findings: &mut Findings, event: &Event, message: impl std::fmt::Display) {
    let place = format!("{} {}", Table::Events.name(), event.position);
    findings.add(FindingKind::Proposal, place, message);
}

fn check_change(
    reader: &Reader,
    findings: &mut Findings,
    proposal: &EventId,
    events: &[(Event, Written)],
    erased: bool,
) -> Result<(), RowError> {
    let noting = Noting { reader, erased: Cell::new(false) };
    let decided = match decided(reader, &noting, proposal)? {
        Ok(decided) => decided,
        Err(_) if noting.erased.get() => return Ok(()),
        Err(why) => {
            for (event, _) in events {
                add(findings, event, &why);
            }
            return Ok(());
        }
    };
    let recorded = reader.memory_recorded(&decided.proven().payload().target)?;
    let all: Vec<Event> = events.iter().map(|(event, _)| event.clone()).collect();
    // Where the beginning was erased, nobody asks what the rest began with.
    let begins = |written: &Written| matches!(written, Written::Started(_));
    let headless = erased && !events.iter().any(|(_, written)| begins(written));
    for (index, (event, written)) in events.iter().enumerate() {
        if headless && !begins(written) {
            continue;
        }
        let seen = match written {
            Written::Made(made) => named(reader, made)?,
            Written::Started(_) | Written::Failed(_) => Seen::default(),
        };
        let behind = Behind { decided: &decided, earlier: &all[..index], recorded: &recorded, seen: &seen };
        if let Err(why) = behind.explain(event, written) {
            add(findings, event, why);
        }
    }
    Ok(())
}

type Proof = Result<Decided<thoughtstream_domain::payload::proposal::MemoryChangeProposed>, String>;

/// Returns the change that was accepted, or why nothing was.
fn decided(reader: &Reader, noting: &Noting<'_>, proposal: &EventId) -> Result<Proof, RowError> {
    let proven = match prove_memory(noting, proposal) {
        Ok(proven) => proven,
        Err(LineageError::Unread(error)) => return Err(error),
        Err(LineageError::Broken(broken)) => {
            return Ok(Err(format!("it carries out a proposal that does not hold: {broken}")));
        }
    };
    let Some(decision) = reader.decision_of(proposal)? else {
        return Ok(Err(format!("nobody has decided about {proposal}")));
    };
    if decision.payload == Payload::Redacted {
        noting.erased.set(true);
    }
    Ok(Decided::of(proven, decision).map_err(|fault| format!("its decision does not hold: {fault}")))
}

/// Reads the version and the event that a receipt names.
fn named(reader: &Reader, made: &Materialized) -> Result<Seen, RowError> {
    let result = &made.result;
    let version = reader.version(&result.source, &result.document, result.revision)?;
    Ok(Seen {
        current: version.clone(),
        version,
        bytes: reader.blob(&result.sha256)?,
        event: reader.event(&made.file_event)?,
    })
}
