//! What later turns are shown of calls that were made: rebuilt from the proposals that a completed run names, and from
//! nothing else.
//!
//! This is what the calls meant, not what was sent: the id that a provider gave, the words of the result and `latest`
//! were never kept. No sentence of a reply, whatever it claims, makes a call.

use super::call::{Call, CorrectionCall, FocusCall, MemoryCall, Target};
use super::text::Replacement;
use crate::canonical;
use crate::content::Content;
use crate::hash::{base32, tagged};
use crate::id::EventId;
use crate::payload::proposal::{CorrectionProposed, FocusProposed, MemoryChangeProposed, Proposed};
use crate::provider::{Message, Part, Role};
use crate::text::characters;

/// Says what a call did, the same for every call: it was captured, and what it asked for is pending.
pub const RESULT: &str = "The proposal was captured and saved as a durable, inert proposal. A person's approval is \
pending, and nothing of it has been applied.";

/// Is one call that was made earlier, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCall {
    /// The proposal's event.
    pub proposal: EventId,
    /// The id that joins call and result.
    id: String,
    tool: &'static str,
    arguments: Content<String>,
}

impl PastCall {
    /// Rebuilds the call behind a proposal.
    ///
    /// # Panics
    /// Never: a proposal that was read has exact numbers.
    #[must_use]
    pub fn of(proposal: EventId, proposed: &Proposed) -> Self {
        let call = call(proposed);
        let bytes = canonical::write(&call.arguments()).expect("a proposal that was read has exact numbers");
        let arguments = String::from_utf8(bytes).expect("canonical JSON is UTF-8");
        let (id, tool) = (call_id(&proposal), call.kind().tool());
        Self { proposal, id, tool, arguments: Content::new(arguments) }
    }

    /// Returns how many characters of it a model sees: the tool, its arguments and the result.
    #[must_use]
    pub fn characters(&self) -> usize {
        characters(self.tool) + characters(self.arguments.reveal()) + characters(RESULT)
    }
}

/// Writes calls of one run as a conversation has them: one message of the model's that makes them all, and a result for
/// each. What was said follows behind. Nothing for no calls.
#[must_use]
pub fn messages(calls: &[PastCall]) -> Vec<Message> {
    if calls.is_empty() {
        return Vec::new();
    }
    let call = |call: &PastCall| Part::ToolCall {
        id: call.id.clone(),
        name: call.tool.to_owned(),
        arguments: call.arguments.clone(),
    };
    let result = |call: &PastCall| Message {
        role: Role::Tool,
        parts: vec![Part::ToolResult { call: call.id.clone(), text: Content::new(RESULT.to_owned()) }],
    };
    let made = Message { role: Role::Assistant, parts: calls.iter().map(call).collect() };
    std::iter::once(made).chain(calls.iter().map(result)).collect()
}

/// Returns the id of a rebuilt call: the same for the same proposal, and short enough for every provider.
fn call_id(proposal: &EventId) -> String {
    let hash = tagged("thoughtstream 2026 rebuilt call id v1", &[proposal.as_bytes()]);
    format!("call_{}", base32(&hash[..15]))
}

/// Returns the call that would have made exactly this proposal.
fn call(proposed: &Proposed) -> Call {
    match proposed {
        Proposed::Memory(MemoryChangeProposed { operation, proposed_text, reason, evidence, .. }) => {
            Call::Memory(MemoryCall {
                operation: *operation,
                proposed_text: proposed_text.clone(),
                reason: reason.clone(),
                evidence: evidence.clone(),
            })
        }
        Proposed::Correction(CorrectionProposed { target, replacement, reason, evidence, .. }) => {
            let text = replacement.summary().to_owned();
            Call::Correction(CorrectionCall {
                target: Target::Output(target.output),
                replacement: Replacement::new(text)
                    .expect("the bounds of a summary are those of a replacement"),
                reason: reason.clone(),
                evidence: evidence.clone(),
            })
        }
        Proposed::Focus(FocusProposed { declaration, .. }) => {
            Call::Focus(FocusCall { declaration: declaration.clone() })
        }
    }
}
