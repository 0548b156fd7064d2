//! What came to nothing without anything standing still: outputs that were refused, and escalations that nobody hears.

use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::escalation::Escalation;
use thoughtstream_store::Reader;

use super::super::consumers::enabled;
use super::failures::End;
use super::{Kind, Waiting};
use crate::failure::Failure;
use crate::render::count;

/// Says that outputs of a consumer were refused for good, if no repair waits in their place. It is named by the latest, so
/// that hiding it hides no later one.
pub(super) fn waiting(id: &ConsumerId, refused: u64, latest: &End) -> Waiting {
    let End { stamp, code, at } = latest;
    let said = count(refused, "output");
    let was = if refused == 1 { "was" } else { "were" };
    Waiting {
        kind: Kind::OutputRefused,
        id: stamp.run.to_string(),
        since: Some(*at),
        why: format!(
            "{}: {code}; {said} {was} refused, and nothing came of the events behind",
            stamp.consumer
        ),
        command: format!("thought why {}", stamp.run),
        ways: vec![
            format!("thought run list --consumer {id} --state failed"),
            format!("thought inbox later {} --for-good", stamp.run),
        ],
        about: None,
        hidden_until: None,
    }
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
                about: None,
                hidden_until: None,
            });
        }
    }
    Ok(())
}
