//! Compiling what a consumer may propose: only a conversation may that a person holds with one bot, over documents that
//! are named exactly (Agent proposals, Declaration section).

use std::collections::BTreeSet;

use super::Compiler;
use crate::contract::Mode as OutputMode;
use crate::declaration::codes;
use crate::declaration::model::{Conversation, Strategy};
use crate::payload::TypedPayload as _;
use crate::payload::output::MessageObservation;
use crate::privacy::Privacy;
use crate::proposal::Kind;
use crate::proposal::capability::{MEMORY_PATH, MEMORY_SOURCE};
use crate::repair::AgentRole;
use crate::subscription::Subscription;
use crate::yaml::{Node, Span};

impl Compiler<'_> {
    /// Refuses proposals of a consumer that asks no model.
    pub(super) fn no_proposals(&mut self, root: &Node) {
        if let Some(written) = written(root) {
            self.no_proposal(written.span, "a transform proposes nothing", "remove `policy.proposals`");
        }
    }

    /// Reads what a model consumer may propose, and holds it against what is asked of one that does.
    pub(super) fn proposals(
        &mut self,
        root: &Node,
        subscription: Option<&Subscription>,
        mode: Option<OutputMode>,
        role: Option<AgentRole>,
        strategy: Option<&Strategy>,
    ) -> Option<BTreeSet<Kind>> {
        let Some(list) = written(root) else { return Some(BTreeSet::new()) };
        let kinds: Option<BTreeSet<Kind>> =
            list.items().iter().map(|item| Kind::parse(item.text()?)).collect();
        let kinds = kinds?;
        let place = |key: &str| root.get(key).map_or(list.span, |node| node.span);
        if role == Some(AgentRole::Repair) {
            self.no_proposal(
                place("role"),
                "a repair proposes a repair, and nothing else",
                "write `role: standard`, or remove `policy.proposals`",
            );
        }
        if mode != Some(OutputMode::ConversationText) {
            self.no_proposal(
                place("outputMode"),
                "only a reply in text may propose something beside it",
                "write `outputMode: conversation-text`, or remove `policy.proposals`",
            );
        }
        let emit = root.get("emit");
        if emit
            .is_none_or(|emit| !emit.items().iter().any(|item| item.text() == Some(MessageObservation::NAME)))
        {
            let hint = format!("write `emit: [{}]`", MessageObservation::NAME);
            self.no_proposal(place("emit"), "what proposes something is an observation", &hint);
        }
        if let Some(subscription) = subscription
            && !subscription.privacy().contains(&Privacy::Sensitive)
        {
            let privacy = root.get("subscribe").and_then(|subscribe| subscribe.get("privacy"));
            let span = privacy.map_or(place("subscribe"), |node| node.span);
            let hint = "add `sensitive` to `subscribe.privacy`: a proposal always is";
            self.no_proposal(span, "only a conversation that takes sensitive messages may propose", hint);
        }
        match strategy {
            Some(Strategy::Conversation(conversation)) => {
                self.documents_are_exact(root, conversation, &kinds)
            }
            Some(Strategy::TriggerEvents { .. }) => self.no_proposal(
                place("context"),
                "only a conversation may propose something",
                "write `context.strategy: telegram-conversation`, or remove `policy.proposals`",
            ),
            None => {}
        }
        Some(kinds)
    }

    /// What is proposed is held against documents that are named exactly; a memory change, against the one that it
    /// would change.
    fn documents_are_exact(&mut self, root: &Node, conversation: &Conversation, kinds: &BTreeSet<Kind>) {
        let context = root.get("context");
        let documents = context.and_then(|context| context.get("documents"));
        let span = documents.or(context).map_or(root.span, |node| node.span);
        let memory = format!("`{{ source: {MEMORY_SOURCE}, paths: [{MEMORY_PATH}] }}`");
        let Some(recipe) = &conversation.documents else {
            let hint = format!("add `context.documents` with {memory}");
            self.no_proposal(span, "a conversation that may propose names its documents", &hint);
            return;
        };
        let named = recipe.from.iter().any(|from| {
            from.source.as_str() == MEMORY_SOURCE && from.paths.iter().any(|path| path == MEMORY_PATH)
        });
        if kinds.contains(&Kind::MemoryChange) && !named {
            let message = "a memory change is of a document that the conversation does not name";
            self.no_proposal(span, message, &format!("add {memory} to `context.documents.from`"));
        }
    }

    fn no_proposal(&mut self, span: Span, message: &str, hint: &str) {
        self.refuse(span, codes::PROPOSALS, message, hint);
    }
}

/// Returns the list of proposals, unless it is absent or empty: an empty one asks for nothing.
fn written(root: &Node) -> Option<&Node> {
    let list = root.get("policy").and_then(|policy| policy.get("proposals"))?;
    (!list.items().is_empty()).then_some(list)
}
