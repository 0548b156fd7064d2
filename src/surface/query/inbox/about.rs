//! What an execution is about, in the words that a person knows it by: a document by its path, anything else by its type
//! and key.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{EventId, SourceId};
use thoughtstream_domain::lifecycle::Execution;
use thoughtstream_domain::text::printable;
use thoughtstream_domain::transform::Trigger;
use thoughtstream_store::Reader;

use crate::failure::Failure;
use crate::render::count;

/// Names what an execution is about, by the first of its triggers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// The first trigger.
    pub event: EventId,
    /// Where it is from.
    pub source: SourceId,
    /// The path of its document, else its type and key; made printable.
    pub what: String,
    /// How many more triggers there are.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_none(more: &u64) -> bool {
    *more == 0
}

impl About {
    /// Says it in a few words.
    #[must_use]
    pub fn shown(&self) -> String {
        let Self { source, what, more, .. } = self;
        match more {
            0 => format!("{what} of {source}"),
            more => format!("{what} of {source} and {}", count(*more, "more event")),
        }
    }
}

/// Returns what an execution is about. It reads one event, however many triggers there are.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn about(reader: &Reader, execution: &Execution) -> Result<Option<About>, Failure> {
    let Some(first) = execution.triggers.first() else { return Ok(None) };
    let Some(event) = reader.showing_damage().event_at(first.position)? else { return Ok(None) };
    let more = execution.triggers.len() as u64 - 1;
    Ok(Some(About { event: event.id, source: execution.source.clone(), what: what(&event), more }))
}

/// Names one event.
fn what(event: &Event) -> String {
    // What is erased or damaged has no path any more.
    let payload = event.payload_value().unwrap_or_default();
    match Trigger::read(&event.kind, &payload) {
        Ok(trigger) => printable(&trigger.path),
        Err(_) => printable(&format!("{} {}", event.kind.name, event.key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_triggers_are_counted() {
        let source = SourceId::parse("filesystem:notes").unwrap();
        let one = About { event: EventId::from_bytes([1; 32]), source, what: "a.md".to_owned(), more: 0 };
        assert_eq!(one.shown(), "a.md of filesystem:notes");
        assert!(!serde_json::to_string(&one).unwrap().contains("more"));
        assert_eq!(About { more: 1, ..one.clone() }.shown(), "a.md of filesystem:notes and 1 more event");
        assert_eq!(About { more: 2, ..one }.shown(), "a.md of filesystem:notes and 2 more events");
    }
}
