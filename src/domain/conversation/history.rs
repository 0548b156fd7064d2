//! What a run proposed, as a later turn shows it: the call, its result, and then what was delivered.
//!
//! It is rebuilt from the receipt of the completed run and the events that it names, and from nothing else: not from
//! the sentence that was delivered, and not from a trace. The model's own id of the call, the words of its result and
//! the shorthand for the last reply are gone; an id that follows from the event, one fixed result and the exact output
//! stand for them.

use serde_json::{Value, json};

use crate::canonical;
use crate::content::Content;
use crate::event::Event;
use crate::id::EventId;
use crate::payload::TypedPayload;
use crate::payload::proposal::{CorrectionProposed, FocusProposed, MemoryChangeProposed, Proposed, Proposer};
use crate::privacy::Privacy;
use crate::provider::{Message, Part, Role};
use crate::text::characters;

use super::reconstruct::AssistantTurn;

/// What every call is shown to have answered.
const RESULT: &str = "The call was captured and created a durable, inert proposal. Approval and application are \
pending: a person decides.";

/// Is one call of an earlier run, and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCall {
    /// The proposal that it became.
    pub proposal: EventId,
    /// The tool.
    pub tool: &'static str,
    /// Its arguments as JSON text.
    pub arguments: Content<String>,
    /// Who may see it.
    pub privacy: Privacy,
}

impl ShownCall {
    /// Returns how many characters a model sees of it.
    #[must_use]
    pub fn chars(&self) -> usize {
        characters(self.tool) + characters(self.arguments.reveal()) + characters(RESULT)
    }

    /// Returns the id that joins call and result: it follows from the event, and is no event's id.
    #[must_use]
    pub fn id(&self) -> String {
        let text = self.proposal.to_string();
        format!("call_{}", &text[text.len() - 24..])
    }

    fn call(&self) -> Part {
        Part::ToolCall { id: self.id(), name: self.tool.to_owned(), arguments: self.arguments.clone() }
    }

    fn result(&self) -> Message {
        let text = Content::new(RESULT.to_owned());
        Message { role: Role::Tool, parts: vec![Part::ToolResult { call: self.id(), text }] }
    }
}

/// Returns the messages that show these calls: one of the assistant with all of them, and the result of each.
#[must_use]
pub fn messages(calls: &[ShownCall]) -> Vec<Message> {
    if calls.is_empty() {
        return Vec::new();
    }
    let called = Message { role: Role::Assistant, parts: calls.iter().map(ShownCall::call).collect() };
    std::iter::once(called).chain(calls.iter().map(ShownCall::result)).collect()
}

/// Rebuilds the calls behind a reply from the receipt of its completed run; `None` if the receipt names a proposal
/// that the log does not show to be one of this run and this output. Nothing at all is then shown of them.
#[must_use]
pub fn history(reply: &AssistantTurn) -> Option<Vec<ShownCall>> {
    let completion = &reply.completion;
    let named = completion.proposals.iter();
    if !named.eq(completion.proposed.iter().map(|event| &event.id)) || reply.completions != 1 {
        return if completion.proposals.is_empty() { Some(Vec::new()) } else { None };
    }
    completion.proposed.iter().map(|event| shown(reply, event)).collect()
}

fn shown(reply: &AssistantTurn, event: &Event) -> Option<ShownCall> {
    let proposed = read(event)?;
    let Proposer { run, output, agent, snapshot, .. } = proposed.proposer();
    let completion = &reply.completion;
    let is_of_run = (*run, *output) == (completion.run, reply.id)
        && (*agent == completion.consumer && *snapshot == reply.snapshot)
        && event.parents == [proposed.parent()]
        && event.privacy == Privacy::Sensitive;
    if !is_of_run {
        return None;
    }
    let arguments = canonical::write(&arguments(&proposed)).ok()?;
    let arguments = Content::new(String::from_utf8(arguments).ok()?);
    Some(ShownCall { proposal: event.id, tool: proposed.kind().tool(), arguments, privacy: event.privacy })
}

/// Reads a proposal of any kind.
fn read(event: &Event) -> Option<Proposed> {
    if event.kind == MemoryChangeProposed::kind() {
        event.payload_as().ok().map(Proposed::Memory)
    } else if event.kind == CorrectionProposed::kind() {
        event.payload_as().ok().map(Proposed::Correction)
    } else if event.kind == FocusProposed::kind() {
        event.payload_as().ok().map(Proposed::Focus)
    } else {
        None
    }
}

/// Returns the arguments by which a model would have proposed exactly this.
fn arguments(proposed: &Proposed) -> Value {
    match proposed {
        Proposed::Memory(memory) => json!({
            "operation": memory.operation, "proposed_text": memory.proposed_text, "reason": memory.reason,
            "evidence_event_ids": memory.evidence,
        }),
        Proposed::Correction(correction) => json!({
            "target_output": correction.target.output, "replacement": correction.replacement.summary(),
            "reason": correction.reason, "evidence_event_ids": correction.evidence,
        }),
        Proposed::Focus(focus) => json!({ "declaration": focus.declaration }),
    }
}
