//! Agent proposals: what a model may ask trusted code to consider, and nothing of which it does (Agent proposals).
//!
//! A model calls one of three fixed tools. [`call`] reads its arguments strictly, in the sandbox and again in the
//! trusted parent; [`capability`] is what the context snapshot admitted, and the only place a target comes from.
//! What a call asks for becomes an inert event ([`crate::payload::proposal`]). A person decides about it.

mod arguments;
pub mod bind;
pub mod call;
pub mod capability;
pub mod decision;
pub mod focus;
pub mod history;
pub mod lineage;
pub mod materialize;
pub mod memory;
pub mod project;
pub mod reason;
#[cfg(test)]
pub(crate) mod tests;
pub mod text;
pub mod tool;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most calls of one final message; one of each kind is all there is.
pub const CALLS_MAX: usize = Kind::ALL.len();

/// Names what can be proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A change of the memory document.
    MemoryChange,
    /// Another wording of a reply that was delivered.
    SelfCorrection,
    /// A focus to take up.
    FocusDeclaration,
}

impl Kind {
    /// All kinds, in the order in which their events are settled.
    pub const ALL: [Self; 3] = [Self::MemoryChange, Self::SelfCorrection, Self::FocusDeclaration];

    /// Returns the spelling used in declarations, packets and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryChange => "memory-change",
            Self::SelfCorrection => "self-correction",
            Self::FocusDeclaration => "focus-declaration",
        }
    }

    /// Reads the spelling used in declarations, packets and events.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns the name of the tool that proposes it.
    #[must_use]
    pub const fn tool(self) -> &'static str {
        match self {
            Self::MemoryChange => "request_memory_change",
            Self::SelfCorrection => "submit_correction",
            Self::FocusDeclaration => "propose_focus",
        }
    }

    /// Finds what a tool of this name proposes.
    #[must_use]
    pub fn of_tool(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.tool() == name)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns the fixed sentence that stands for a reply of nothing but calls; none if nothing was proposed.
///
/// It says that something was kept, and neither that it was applied nor that it will be.
#[must_use]
pub fn acknowledgment(kinds: &BTreeSet<Kind>) -> Option<&'static str> {
    let has = |kind| kinds.contains(&kind);
    match (has(Kind::MemoryChange), has(Kind::SelfCorrection), has(Kind::FocusDeclaration)) {
        (false, false, false) => None,
        (true, false, false) => Some("I saved that as a memory suggestion."),
        (false, true, false) => Some("I saved that as a proposed correction."),
        (true, true, false) => Some("I saved those as memory and correction suggestions."),
        (false, false, true) => Some("I saved that as a focus proposal."),
        (true, false, true) => Some("I saved those as memory and focus suggestions."),
        (false, true, true) => Some("I saved those as correction and focus suggestions."),
        (true, true, true) => Some("I saved those as memory, correction and focus suggestions."),
    }
}
