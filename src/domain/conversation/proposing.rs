//! What a conversation's snapshot admits for proposals, and the tools that say so to a model.
//!
//! Everything here follows from what was selected and resolved: the one memory document, the delivered replies whose
//! making is shown without a gap, and the ids of what the model sees. A reply that is seen may be cited; that alone
//! makes it no target.

use std::collections::BTreeSet;

use crate::packet::ContractRevision;
use crate::packet::documents::Subscribed;
use crate::packet::manifest::{Manifest, Part};
use crate::proposal::Kind;
use crate::proposal::capability::{CorrectionTarget, MemoryTarget, ProposalCapability};
use crate::proposal::tool::tool;
use crate::provider::Tool;
use crate::text::characters;

use super::evidence::Evidence;
use super::reconstruct::{AssistantTurn, Current, Speaker};
use super::select::{Policy, Selected};

/// Is what a declaration lets be proposed in answer to one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposing {
    /// What may be proposed.
    pub kinds: BTreeSet<Kind>,
    /// Whether the message asks for a focus.
    pub focus_required: bool,
}

impl Proposing {
    /// Returns the capability before anything was selected, and as if a reply could be corrected or none.
    pub(super) fn expected(&self, documents: &Subscribed, current: &Current, corrects: bool) -> Expected {
        let mut kinds = self.kinds.clone();
        if memory(documents).is_none() {
            kinds.remove(&Kind::MemoryChange);
        }
        if !corrects {
            kinds.remove(&Kind::SelfCorrection);
        }
        let tools = tools(&kinds, &[], current);
        Expected { chars: tools.iter().map(chars).sum(), kinds }
    }
}

/// Is what is offered as long as nothing is selected.
pub(super) struct Expected {
    /// What can be proposed.
    pub(super) kinds: BTreeSet<Kind>,
    /// How many characters its tools have.
    pub(super) chars: usize,
}

/// Returns how many characters it takes to name one turn to a model, at most.
pub(super) fn naming_chars(current: &Current) -> usize {
    characters(&named(Speaker::Assistant, &current.id.to_string()))
}

fn memory(documents: &Subscribed) -> Option<MemoryTarget> {
    documents.references().iter().find_map(MemoryTarget::of)
}

/// Derives what may be proposed from what was selected.
///
/// # Errors
/// If the log cannot be read.
pub(super) fn capability<E: Evidence>(
    proposing: &Proposing,
    current: &Current,
    turns: &[Selected],
    policy: &Policy,
    documents: &Subscribed,
    mut evidence: E,
) -> Result<ProposalCapability, E::Error> {
    let declared = |kind| proposing.kinds.contains(&kind);
    let replies = || turns.iter().filter_map(|turn| turn.reply.as_deref());
    let mut correction_targets = Vec::new();
    if declared(Kind::SelfCorrection) {
        for reply in replies() {
            let frozen = evidence.frozen_contract(&reply.completion, &reply.snapshot)?;
            correction_targets.extend(target(reply, frozen.as_ref(), current, policy));
        }
    }
    let mut citable: BTreeSet<_> = turns.iter().map(|turn| turn.id).collect();
    citable.extend(replies().map(|reply| reply.receipt));
    citable.insert(current.id);
    Ok(ProposalCapability {
        kinds: proposing.kinds.clone(),
        memory: if declared(Kind::MemoryChange) { memory(documents) } else { None },
        correction_targets,
        evidence: citable,
        focus_required: proposing.focus_required,
    })
}

/// Returns a reply as the target of a correction, if everything that must be known of it is.
///
/// That it was delivered in this chat, to this person, as an answer to the message that is the root of receipt and
/// output, is what makes it a turn; here it is held against the rest: the bot, the one completed run of an agent that
/// is listed, its one output, and the contract that the run's context was frozen with.
fn target(
    reply: &AssistantTurn,
    frozen: Option<&ContractRevision>,
    current: &Current,
    policy: &Policy,
) -> Option<CorrectionTarget> {
    let completion = &reply.completion;
    let sound = reply.bot == current.bot
        && reply.completions == 1
        && policy.agents.contains(&completion.consumer.id)
        && completion.outputs == [reply.id]
        && frozen == Some(&reply.contract);
    sound.then(|| CorrectionTarget {
        run: completion.run,
        output: reply.id,
        receipt: reply.receipt,
        root: reply.root,
        contract: reply.contract.clone(),
    })
}

/// Returns the tools of what can be proposed. The ids that their arguments may name stand in the words of the first:
/// they are part of a tool and of no message, so that no text of the conversation holds one.
pub(super) fn tools(kinds: &BTreeSet<Kind>, turns: &[Selected], current: &Current) -> Vec<Tool> {
    let mut tools: Vec<Tool> = kinds.iter().map(|kind| tool(*kind)).collect();
    let Some((first, rest)) = tools.split_first_mut() else { return tools };
    let mut ids = "\n\nIds that arguments may name, oldest first; never write one anywhere else:".to_owned();
    for turn in turns {
        ids.push_str(&named(turn.speaker, &turn.id.to_string()));
    }
    ids.push_str(&named(Speaker::User, &format!("{} (the message that is answered)", current.id)));
    first.description.push_str(&ids);
    for tool in rest {
        tool.description.push_str(&format!(" The ids it may name are those of {}.", first.name));
    }
    tools
}

fn named(speaker: Speaker, id: &str) -> String {
    match speaker {
        Speaker::User => format!("\nuser {id}"),
        Speaker::Assistant => format!("\nassistant {id}"),
    }
}

/// Takes the tools down.
pub(super) fn account(tools: &[Tool], manifest: &mut Manifest) {
    for tool in tools {
        manifest.include(Part::Tool, &tool.name, chars(tool));
    }
}

fn chars(tool: &Tool) -> usize {
    characters(&tool.name) + characters(&tool.description) + characters(&tool.parameters.to_string())
}
