//! What may be kept about a request: counts, hashes and fixed words.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::hash::Sha256Hash;

/// Is one line of what happened, without any of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceChunk {
    /// What happened, a dotted word.
    pub kind: &'static str,
    /// What may be said about it.
    pub facts: BTreeMap<&'static str, Fact>,
}

/// Is one thing that may be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Fact {
    /// How many, how long.
    Count(u64),
    /// A fixed word.
    Word(&'static str),
    /// Which bytes.
    Hash(Sha256Hash),
    /// The name of a model, of a tool that was offered, or of a profile: each known beforehand.
    Name(String),
}

impl TraceChunk {
    /// Is what was sent.
    pub const REQUEST: &'static str = "broker.request";
    /// Is the answer as a whole.
    pub const MESSAGE_END: &'static str = "pi.message_end";
    /// Is one part of the answer.
    pub const PART: &'static str = "pi.message_part";
    /// Is how many pieces an answer came in; the pieces themselves are not kept.
    pub const UPDATES_COALESCED: &'static str = "pi.message_updates_coalesced";
    /// Is a request that gave no answer.
    pub const FAILED: &'static str = "broker.failed";

    /// Makes a line.
    #[must_use]
    pub fn new(kind: &'static str, facts: impl IntoIterator<Item = (&'static str, Fact)>) -> Self {
        Self { kind, facts: facts.into_iter().collect() }
    }
}
