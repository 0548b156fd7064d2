//! Declarations: a consumer as a person writes it down, compiled into a checked value.
//!
//! [`load_all`] takes every file at once and gives either the whole set or every problem of every file, so that a
//! reload is all or nothing. What a file may say is the table in [`keys`]; what the parts must be to each other is in
//! [`compile`] and [`loops`]; who a declaration is across edits (fingerprint, difference, next version) is in
//! [`identity`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, ConsumerKey, SourceId, TypeName};
use crate::lifecycle::AdapterRevision;
use crate::privacy::Privacy;
use crate::repair::AgentRole;
use crate::retry::{Interrupted, RetryPolicy};
use crate::subscription::Subscription;
use crate::yaml::{Problem, duration_text};

mod catalog;
pub mod codes;
mod compile;
mod conditions;
mod identity;
mod keys;
mod load;
mod loops;
mod model;
#[cfg(test)]
mod tests;
mod unheard;

pub use catalog::{Catalog, FieldKind, PromotedField, ProviderInfo, TransformInfo};
pub use identity::{Change, bump, check_registered, diff};
pub use load::{PROMPT_BYTES_MAX, Prompts, load_all, schema};
pub use model::{
    Conversation, DocumentRecipe, DocumentSubscription, ModelRunner, Strategy as ContextStrategy,
};
pub use unheard::unheard;

/// Is a checked declaration.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    key: ConsumerKey,
    enabled: bool,
    description: String,
    subscription: Subscription,
    context: ContextBounds,
    runner: Runner,
    prompt: Option<Prompt>,
    emit: BTreeSet<TypeName>,
    retry: RetryPolicy,
    interrupted: Interrupted,
    lifecycle: LifecycleMode,
    on_version_change: VersionChange,
    privacy_floor: Privacy,
    fingerprint: Sha256Hash,
    origin: Origin,
}

/// Bounds what a run sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextBounds {
    /// The most events of a context packet.
    pub max_events: u32,
    /// The most rendered characters (UTF-16 code units) of a context packet.
    pub max_chars: u32,
}

impl Default for ContextBounds {
    /// Eight events and 24,000 characters: a few pages.
    fn default() -> Self {
        Self { max_events: 8, max_chars: 24_000 }
    }
}

/// Says who does the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runner {
    /// A transform of this program; it exists.
    Deterministic {
        /// Its name.
        transform: String,
    },
    /// One request to a model for each run.
    Pi(Box<ModelRunner>),
}

impl Runner {
    /// Returns the transform's name, if it is one.
    #[must_use]
    pub fn transform(&self) -> Option<&str> {
        match self {
            Self::Deterministic { transform } => Some(transform),
            Self::Pi(_) => None,
        }
    }

    /// Returns the revision of what executes its runs.
    #[must_use]
    pub const fn adapter_revision(&self) -> AdapterRevision {
        match self {
            Self::Deterministic { .. } => AdapterRevision::deterministic(),
            Self::Pi(_) => AdapterRevision::observer_cell(),
        }
    }

    /// Returns what asks a model, if it does.
    #[must_use]
    pub fn model(&self) -> Option<&ModelRunner> {
        match self {
            Self::Deterministic { .. } => None,
            Self::Pi(model) => Some(model),
        }
    }

    /// Says whether its runs are repairs.
    #[must_use]
    pub fn repairs(&self) -> bool {
        self.model().is_some_and(|model| model.role == AgentRole::Repair)
    }
}

/// Is the prompt of a declaration, as it was when the declaration was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its path, below the configuration's directory.
    pub path: String,
    /// The hash of its bytes.
    pub sha256: Sha256Hash,
}

/// Says how a run is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleMode {
    /// `received` and `started` are durable before the run.
    TwoCommit,
    /// A first attempt is one commit; a retry writes `started` first.
    Settled,
}

impl LifecycleMode {
    /// Returns the spelling used in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TwoCommit => "two-commit",
            Self::Settled => "settled",
        }
    }
}

/// Says what becomes of progress when the version rises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionChange {
    /// The new version goes on where the old one stood; where that one still waited for the sequence it was to
    /// begin with, the new one begins as it declares.
    Preserve,
    /// These sources are read again from the start; the others go on.
    Replay(BTreeSet<SourceId>),
    /// The new version starts as a new consumer would.
    New,
}

/// Says where a declaration was read, as a problem at its version that only lacks what is wrong: the text itself need
/// not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    at_version: Problem,
}

impl Declaration {
    /// Returns the id and version.
    #[must_use]
    pub const fn key(&self) -> &ConsumerKey {
        &self.key
    }

    /// Returns the id.
    #[must_use]
    pub const fn id(&self) -> &ConsumerId {
        &self.key.id
    }

    /// Returns the version, from 1.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.key.version
    }

    /// Says whether it is to run. This is an operating choice and no part of the fingerprint.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns what it is for, in a sentence.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns which events it takes.
    #[must_use]
    pub const fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Returns the bounds of what a run sees.
    #[must_use]
    pub const fn context(&self) -> ContextBounds {
        self.context
    }

    /// Returns who does the work.
    #[must_use]
    pub const fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Returns the prompt, if it has one.
    #[must_use]
    pub const fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    /// Returns the event types it may write.
    #[must_use]
    pub const fn emit(&self) -> &BTreeSet<TypeName> {
        &self.emit
    }

    /// Returns when a failed attempt is tried again.
    #[must_use]
    pub const fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// Returns what an attempt without an end becomes.
    #[must_use]
    pub const fn interrupted(&self) -> Interrupted {
        self.interrupted
    }

    /// Returns how a run is written down.
    #[must_use]
    pub const fn lifecycle(&self) -> LifecycleMode {
        self.lifecycle
    }

    /// Returns what becomes of progress when the version rises.
    #[must_use]
    pub const fn on_version_change(&self) -> &VersionChange {
        &self.on_version_change
    }

    /// Returns the weakest class that its events may carry.
    #[must_use]
    pub const fn privacy_floor(&self) -> Privacy {
        self.privacy_floor
    }

    /// Returns the source that its lifecycle and outputs are written to.
    #[must_use]
    pub fn agent_source(&self) -> SourceId {
        SourceId::agent(&self.key.id)
    }

    /// Returns the hash of everything that makes it what it is, its prompt's bytes included. Formatting, comments,
    /// the order of sets and whether it is enabled do not change it.
    #[must_use]
    pub const fn fingerprint(&self) -> Sha256Hash {
        self.fingerprint
    }

    /// Returns the name of the file it was read from.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.origin.at_version.file
    }

    /// Returns the declaration in its own words: defaults filled in, sets in order. Written as YAML it loads again.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("id".to_owned(), json!(self.key.id));
        map.insert("version".to_owned(), self.key.version.into());
        map.insert("enabled".to_owned(), self.enabled.into());
        map.insert("description".to_owned(), json!(self.description));
        map.insert("subscribe".to_owned(), self.subscription.to_json());
        let (events, chars) = (self.context.max_events, self.context.max_chars);
        let mut context = Map::new();
        context.insert("maxEvents".to_owned(), events.into());
        context.insert("maxChars".to_owned(), chars.into());
        let runner = match &self.runner {
            Runner::Deterministic { transform } => json!({ "kind": "deterministic", "transform": transform }),
            Runner::Pi(model) => {
                model.strategy.describe(&mut context);
                map.insert("outputMode".to_owned(), model.mode.as_str().into());
                map.insert("accounting".to_owned(), model.account_json());
                model.to_json()
            }
        };
        map.insert("context".to_owned(), Value::Object(context));
        map.insert("runner".to_owned(), runner);
        if let Some(prompt) = &self.prompt {
            map.insert("prompt".to_owned(), json!(prompt.path));
        }
        map.insert("emit".to_owned(), json!(self.emit));
        let mut policy = json!({ "tools": [], "externalActions": false });
        if let Some(model) = self.runner.model().filter(|model| !model.proposals.is_empty()) {
            policy["proposals"] = json!(model.proposals);
        }
        map.insert("policy".to_owned(), policy);
        let retry = json!({
            "attempts": self.retry.attempts, "exhausted": self.retry.exhausted,
            "first": duration_text(self.retry.first_ms), "max": duration_text(self.retry.max_ms),
        });
        map.insert("retry".to_owned(), retry);
        map.insert("interrupted".to_owned(), json!(self.interrupted));
        map.insert("lifecycle".to_owned(), self.lifecycle.as_str().into());
        let change = match &self.on_version_change {
            VersionChange::Preserve => json!("preserve"),
            VersionChange::Replay(sources) => json!({ "replay": sources }),
            VersionChange::New => json!("new"),
        };
        map.insert("onVersionChange".to_owned(), change);
        let role = self.runner.model().map_or(AgentRole::Standard, |model| model.role);
        map.insert("role".to_owned(), role.as_str().into());
        map.insert("privacyFloor".to_owned(), json!(self.privacy_floor));
        Value::Object(map)
    }

    /// Makes a problem about the declaration's version, for checks that come after loading.
    #[must_use]
    pub fn problem_at_version(&self, code: crate::yaml::Code, message: String) -> Problem {
        let mut problem = self.origin.at_version.clone();
        (problem.code, problem.message) = (code, message);
        problem
    }
}

/// Is every declaration of a configuration: valid together, each id once. There may be thousands, so they are shared
/// and never copied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeclarationSet {
    declarations: Arc<BTreeMap<ConsumerId, Arc<Declaration>>>,
}

impl DeclarationSet {
    /// Returns the declaration of this id.
    #[must_use]
    pub fn get(&self, id: &ConsumerId) -> Option<&Declaration> {
        self.declarations.get(id).map(Arc::as_ref)
    }

    /// Returns all declarations, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Declaration> {
        self.declarations.values().map(Arc::as_ref)
    }

    /// Returns the declarations that are to run, in order of their ids.
    pub fn enabled(&self) -> impl Iterator<Item = &Declaration> {
        self.iter().filter(|declaration| declaration.enabled)
    }

    /// Returns the same for whoever keeps them.
    pub fn enabled_shared(&self) -> impl Iterator<Item = &Arc<Declaration>> {
        self.declarations.values().filter(|declaration| declaration.enabled)
    }

    /// Returns how many declarations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.declarations.len()
    }

    /// Says whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.declarations.is_empty()
    }
}
