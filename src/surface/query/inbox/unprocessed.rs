//! What no attempt could process and a declaration lets pass. It is shown until a person has seen it, a newer version
//! of its consumer has taken it up, or the document that it is about is another one or gone.

use std::collections::BTreeSet;

use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::ConsumerKey;
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState};
use thoughtstream_domain::transform::{Change, Trigger};
use thoughtstream_store::Reader;

use super::super::why::skip_command;
use super::{Kind, Waiting, about};
use crate::failure::Failure;

/// Says what is left of something that was passed unprocessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// A person is shown it.
    Shown,
    /// The version that is enabled has taken it up.
    TakenUp,
    /// A person has dismissed it, or its document is another or gone: it is never shown again. A document that becomes
    /// again what it was is a new event, and is passed anew.
    Over,
}

/// Says whether it was passed without having been processed, and no person has dismissed it.
pub(crate) fn is_passed(execution: &Execution) -> bool {
    execution.state == ExecutionState::Closed { how: Closure::Unprocessed }
}

/// Says what is left to look after of something that was passed.
pub(super) fn left(
    reader: &Reader,
    execution: &Execution,
    enabled: &BTreeSet<ConsumerKey>,
) -> Result<Left, Failure> {
    if !is_passed(execution) {
        return Ok(Left::Over);
    }
    let newer =
        |key: &&ConsumerKey| key.id == execution.consumer.id && key.version > execution.consumer.version;
    let newer = enabled.iter().find(newer);
    let mut left = Left::Over;
    for trigger in &execution.triggers {
        let Some(event) = reader.showing_damage().event_at(trigger.position)? else { continue };
        if is_past(reader, &event)? {
            continue;
        }
        let taken_up = match newer {
            Some(key) => reader.execution_of(key, &event)?.is_some(),
            None => false,
        };
        if !taken_up {
            return Ok(Left::Shown);
        }
        left = Left::TakenUp;
    }
    Ok(left)
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

pub(super) fn waiting(reader: &Reader, execution: &Execution, code: &str) -> Result<Waiting, Failure> {
    Ok(Waiting {
        kind: Kind::Unprocessed,
        id: execution.id.to_string(),
        since: Some(execution.since),
        why: format!("{}: {code}, and it was passed as declared", execution.consumer),
        command: format!("thought why {}", execution.id),
        ways: vec![skip_command(&execution.id)],
        about: about(reader, execution)?,
        hidden_until: None,
    })
}
