//! The packet of a repair run: the context of the failed run as its model saw it, and the verdict on its output.
//!
//! What was refused is kept nowhere, so nobody is shown it: the output is written anew (see [`crate::repair`]).

use serde_json::{Value, json};

use crate::canonical;
use crate::content::Content;
use crate::event::Event;
use crate::payload::repair::RepairRequested;
use crate::provider::{Message, Part as Piece, Role};
use crate::text::characters;

use super::manifest::{Included, Manifest, Part, Rule};
use super::observe::Instructions;
use super::{Composed, Packet, TooLarge};

/// Says why the packet of a repair cannot be composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// The packet that was found is not the one that the request names.
    #[error("the context of the failed run is not the one that the request names")]
    OtherContext,
    /// What must be shown whole has no room.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// What is to be shown is no JSON.
    #[error("the request cannot be written")]
    Unwritable,
}

impl RepairError {
    /// Returns the code that closes a run over it.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::OtherContext => "repair-context-differs",
            Self::TooLarge(_) => TooLarge::CODE,
            Self::Unwritable => "repair-unwritable",
        }
    }
}

/// Composes the request of a repair run for `asked`, the payload of `event`, from the packet of the failed run.
///
/// # Errors
/// [`RepairError`] if the packet is another one, or what is to be shown has no room.
pub fn repair(
    failed: &Packet,
    event: &Event,
    asked: &RepairRequested,
    told: &Instructions<'_>,
) -> Result<Composed, RepairError> {
    if failed.sha256() != asked.snapshot {
        return Err(RepairError::OtherContext);
    }
    let system = [told.prompt.trim(), &told.capabilities.in_words(), told.answer.trim()];
    let system = system.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n\n");
    let turn = |message: &Message| {
        let texts = message.parts.iter().filter_map(|part| match part {
            Piece::Text { text } => Some(text.reveal().as_str()),
            Piece::Image { .. } | Piece::ToolCall { .. } | Piece::ToolResult { .. } => None,
        });
        json!({ "role": message.role, "text": texts.collect::<Vec<_>>().join("\n") })
    };
    let context: Vec<Value> = failed.frozen().messages.iter().map(turn).collect();
    let verdict = &asked.rejection;
    let shown = json!({
        "context": context,
        "refused": { "step": verdict.code(), "issueCount": verdict.issue_count, "issues": verdict.issues },
    });
    let shown = canonical::write(&shown).map_err(|_| RepairError::Unwritable)?;
    let shown = String::from_utf8(shown).map_err(|_| RepairError::Unwritable)?;
    let (chars, chars_max) = (characters(&system) + characters(&shown), told.max_chars);
    if chars > chars_max {
        return Err(TooLarge { chars: chars as u64, chars_max: chars_max as u64 }.into());
    }
    let mut manifest = account(failed, told);
    manifest.include(Part::Event, event.id, characters(&shown));
    manifest.chars = chars as u64;
    let text = |role, text: String| Message { role, parts: vec![Piece::Text { text: Content::new(text) }] };
    let messages = vec![text(Role::System, system), text(Role::User, shown)];
    let documents = failed.documents().to_vec();
    Ok(Composed::of(messages, manifest, failed.privacy().join(event.privacy), documents))
}

/// Starts the account of a repair with that of the failed run, whose context is shown once more: what was left out
/// there is left out here, and so is what is no text.
fn account(failed: &Packet, told: &Instructions<'_>) -> Manifest {
    let before = failed.manifest().clone();
    let bounds = Manifest::under(told.max_events, told.max_chars);
    let (included, unseen) = before.included.into_iter().partition(|one| match one.part {
        Part::Image | Part::Tool | Part::ToolCall => false,
        Part::Current
        | Part::User
        | Part::Assistant
        | Part::Exchange
        | Part::Event
        | Part::Neighbor
        | Part::Document => true,
    });
    let mut manifest =
        Manifest { max_events: bounds.max_events, max_chars: bounds.max_chars, included, ..before };
    let unseen: Vec<Included> = unseen;
    for one in unseen {
        manifest.omit(one.part, one.id, Rule::NotText);
    }
    manifest
}
