//! What a run proposed, as a later turn shows it: the call, its result, and then what was delivered.
//!
//! It is rebuilt from the receipt of the completed run and the events that it names, and from nothing else: not from
//! the sentence that was delivered, and not from a trace. How a call is written again is said in
//! [`crate::proposal::history`]; here is when there is one.

use crate::event::Event;
use crate::payload::proposal::{Proposed, Proposer};
use crate::privacy::Privacy;
use crate::proposal::history::PastCall;

use super::reconstruct::AssistantTurn;

/// Rebuilds the calls behind a reply from the receipt of its completed run; `None` if the receipt names a proposal
/// that the log does not show to be one of this run and this output. Nothing at all is then shown of them.
#[must_use]
pub fn history(reply: &AssistantTurn) -> Option<Vec<PastCall>> {
    let completion = &reply.completion;
    let named = completion.proposals.iter();
    if !named.eq(completion.proposed.iter().map(|event| &event.id)) || reply.completions != 1 {
        return if completion.proposals.is_empty() { Some(Vec::new()) } else { None };
    }
    completion.proposed.iter().map(|event| shown(reply, event)).collect()
}

fn shown(reply: &AssistantTurn, event: &Event) -> Option<PastCall> {
    let proposed = Proposed::read(event).ok()?;
    let Proposer { run, output, agent, snapshot, .. } = proposed.proposer();
    let completion = &reply.completion;
    let is_of_run = (*run, *output) == (completion.run, reply.id)
        && (*agent == completion.consumer && *snapshot == reply.snapshot)
        && event.parents == [proposed.parent()]
        && event.privacy == Privacy::Sensitive;
    is_of_run.then(|| PastCall::of(event.id, &proposed))
}
