//! What no attempt could process and a declaration lets pass. It is shown until a person has seen it, a newer version
//! of its consumer has taken it up, or the document that it is about is another one or gone.

use std::collections::BTreeSet;

use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, SourceId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::run::{Next, RunAbandoned, RunFailed, RunStatusUnknown};
use thoughtstream_domain::transform::{Change, Trigger};
use thoughtstream_store::Reader;

use super::super::consumers::enabled;
use super::super::runs::find_execution;
use super::super::why::skip_command;
use super::{Kind, Waiting};
use crate::failure::Failure;

/// Adds what consumers that are enabled have passed unprocessed. It costs the attempts of theirs that did not complete.
pub(super) fn unprocessed(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let enabled = enabled(reader)?.unwrap_or_default();
    let ids: BTreeSet<&ConsumerId> = enabled.iter().map(|key| &key.id).collect();
    let kinds = [RunFailed::kind().name, RunStatusUnknown::kind().name, RunAbandoned::kind().name];
    for id in ids {
        let source = SourceId::agent(id);
        for event in reader.walk(&kinds, &source) {
            let Some((run, code)) = passed(&event?) else { continue };
            let execution = find_execution(reader, &run)?;
            if is_passed(&execution) && !is_over(reader, &execution, &enabled)? {
                found.push(waiting(&execution, &code));
            }
        }
    }
    Ok(())
}

/// Says whether it was passed without having been processed, and no person has dismissed it.
pub(crate) fn is_passed(execution: &Execution) -> bool {
    execution.state == ExecutionState::Closed { how: Closure::Unprocessed }
}

/// Reads the attempt and the reason of an end that lets progress pass.
fn passed(event: &Event) -> Option<(String, String)> {
    let (stamp, next, code) = if let Ok(RunFailed { stamp, next, code, .. }) = event.payload_as() {
        (stamp, next, code)
    } else if let Ok(RunStatusUnknown { stamp, next, code, .. }) = event.payload_as() {
        (stamp, next, code)
    } else {
        let RunAbandoned { stamp, next, code, .. } = event.payload_as().ok()?;
        (stamp, next, code)
    };
    (next == Next::Advance).then(|| (stamp.run.to_string(), code))
}

/// Says whether nothing is left of it to look after.
fn is_over(reader: &Reader, execution: &Execution, enabled: &BTreeSet<ConsumerKey>) -> Result<bool, Failure> {
    let newer =
        |key: &&ConsumerKey| key.id == execution.consumer.id && key.version > execution.consumer.version;
    let newer = enabled.iter().find(newer);
    for trigger in &execution.triggers {
        let Some(event) = reader.showing_damage().event_at(trigger.position)? else { continue };
        let taken_up = match newer {
            Some(key) => reader.execution_of(key, &event)?.is_some(),
            None => false,
        };
        if !taken_up && !is_past(reader, &event)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Says whether the document that an event is about has other content by now, or is gone.
fn is_past(reader: &Reader, event: &Event) -> Result<bool, Failure> {
    let payload = event.payload_value().unwrap_or_default();
    let Ok(trigger) = Trigger::read(&event.kind, &payload) else { return Ok(false) };
    let Some(document) = reader.document(&event.source, &trigger.document_id)? else { return Ok(false) };
    Ok(match trigger.change {
        Change::Present { sha256, .. } => document.removed || document.sha256 != sha256,
        Change::Removed => !document.removed,
    })
}

fn waiting(execution: &Execution, code: &str) -> Waiting {
    Waiting {
        kind: Kind::Unprocessed,
        id: execution.id.to_string(),
        since: Some(execution.since),
        why: format!("{}: {code}, and it was passed as declared", execution.consumer),
        command: format!("thought why {}", execution.id),
        ways: vec![skip_command(&execution.id)],
        hidden_until: None,
    }
}
