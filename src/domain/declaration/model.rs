//! What the declaration of a consumer that asks a model says besides (Declaration, Context packet and Outputs
//! sections).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::accounting::{Dimension, Policy, Window};
use crate::canonical;
use crate::content::Content;
use crate::contract::Mode as OutputMode;
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, SourceId};
use crate::proposal::{Kind, tool::tool};
use crate::provider::ThinkingLevel;
use crate::repair::AgentRole;
use crate::yaml::duration_text;

/// Asks one model once for each run, through the sandboxed observer cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRunner {
    /// What the prompt says.
    pub prompt: Arc<Content<String>>,
    /// The provider profile of the configuration that is asked.
    pub provider: String,
    /// The model, by the provider's name for it.
    pub model: String,
    /// How much the model is to think before it answers.
    pub thinking: ThinkingLevel,
    /// How long a run may take in all, in milliseconds.
    pub timeout_ms: u64,
    /// The most tokens of an answer; never above what is reserved.
    pub max_output_tokens: u64,
    /// Whether the answer is asked for in pieces.
    pub stream: bool,
    /// How the answer is read.
    pub mode: OutputMode,
    /// How the packet is composed.
    pub strategy: Strategy,
    /// What the runs are for.
    pub role: AgentRole,
    /// What each run reserves, and within which limits.
    pub accounting: Policy,
    /// What it may propose to a person.
    pub proposals: BTreeSet<Kind>,
}

/// Says how a context packet is composed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// Of the events that triggered the run, and the document versions that they name.
    TriggerEvents {
        /// How many of the matching events before them are shown as well.
        neighbors: u32,
    },
    /// Of one chat's history up to the message that triggered the run.
    Conversation(Conversation),
}

/// Says what a conversation's packet is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// The documents that come before the conversation, in order.
    pub documents: Option<DocumentRecipe>,
    /// Whose delivered replies belong to the history besides its own.
    pub history_agents: Vec<ConsumerId>,
    /// The most earlier replies that are kept, if they are bounded apart from the rest.
    pub assistant_history_max: Option<u32>,
}

/// Is an exact recipe of trusted documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRecipe {
    /// The most characters (UTF-16 code units) of all of them together; a document is never cut to fit.
    pub max_chars: u32,
    /// From where, in order.
    pub from: Vec<DocumentSubscription>,
}

/// Names documents of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSubscription {
    /// The source, a folder.
    pub source: SourceId,
    /// The paths below its root, in order.
    pub paths: Vec<String>,
    /// Whether a document that cannot be had ends the run before anything is sent.
    pub required: bool,
}

impl Strategy {
    /// Returns the spelling used in declarations.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::TriggerEvents { .. } => "trigger-events",
            Self::Conversation(_) => "telegram-conversation",
        }
    }

    /// Adds what it says to the map of the context.
    pub(super) fn describe(&self, context: &mut Map<String, Value>) {
        context.insert("strategy".to_owned(), self.as_str().into());
        let conversation = match self {
            Self::TriggerEvents { neighbors } => {
                // Absent where none is asked for, so that a version from before there were any is what it was.
                if *neighbors > 0 {
                    context.insert("neighbors".to_owned(), (*neighbors).into());
                }
                return;
            }
            Self::Conversation(conversation) => conversation,
        };
        context.insert("historyAgentIds".to_owned(), json!(conversation.history_agents));
        if let Some(max) = conversation.assistant_history_max {
            context.insert("assistantHistoryMaxTurns".to_owned(), max.into());
        }
        if let Some(documents) = &conversation.documents {
            let from = |one: &DocumentSubscription| json!({ "source": one.source, "paths": one.paths, "required": one.required });
            let from: Vec<Value> = documents.from.iter().map(from).collect();
            context.insert("documents".to_owned(), json!({ "maxChars": documents.max_chars, "from": from }));
        }
    }
}

impl ModelRunner {
    /// Returns where the documents of its conversations come from; none if it shows none.
    #[must_use]
    pub fn documents(&self) -> &[DocumentSubscription] {
        match &self.strategy {
            Strategy::Conversation(Conversation { documents: Some(recipe), .. }) => &recipe.from,
            Strategy::Conversation(_) | Strategy::TriggerEvents { .. } => &[],
        }
    }

    /// Returns what it says as the map of the runner.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "kind": "pi", "provider": self.provider, "model": self.model,
            "thinkingLevel": self.thinking.as_str(), "timeout": duration_text(self.timeout_ms),
            "maxOutputTokens": self.max_output_tokens, "stream": self.stream,
        })
    }

    /// Names each tool that it may propose with by the hash of its exact definition.
    ///
    /// # Panics
    /// Never: the definition of a tool has small whole numbers.
    pub(super) fn proposal_tools(&self) -> BTreeMap<Kind, Sha256Hash> {
        let hash = |kind: &Kind| {
            let bytes = canonical::write_type(&tool(*kind)).expect("small whole numbers are exact");
            (*kind, Sha256Hash::of(&bytes))
        };
        self.proposals.iter().map(hash).collect()
    }

    /// Returns what it says as the map of the account.
    pub(super) fn account_json(&self) -> Value {
        let policy = &self.accounting;
        let mut reserve = Map::new();
        let mut limits = Vec::new();
        for dimension in Dimension::ALL {
            if let Some(amount) = policy.reserve.get(dimension) {
                reserve.insert(dimension.as_str().to_owned(), amount.into());
            }
        }
        for limit in &policy.limits {
            let mut map = Map::new();
            map.insert("window".to_owned(), limit.window.as_str().into());
            if let Window::Rolling { ms } = limit.window {
                map.insert("length".to_owned(), duration_text(ms).into());
            }
            for dimension in Dimension::ALL {
                if let Some(most) = limit.most.get(dimension) {
                    map.insert(dimension.as_str().to_owned(), most.into());
                }
            }
            limits.push(Value::Object(map));
        }
        json!({
            "reserve": reserve, "lease": duration_text(policy.lease_ms), "limits": limits,
            "onExhaustion": policy.on_exhaustion.as_str(),
        })
    }
}
