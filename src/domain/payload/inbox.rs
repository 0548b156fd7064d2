//! What a person does to their own list of things that wait. It decides nothing about any of them.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::system::Operator;
use crate::id::SourceId;
use crate::registry::Writer;
use crate::time::Timestamp;

/// Hides one thing in the list until a time; the thing itself is as it was, and whoever asks for it by name sees it.
///
/// It is bound to since when the thing waits: what comes to wait anew is shown anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxPostponed {
    /// What kind of thing.
    #[schemars(length(min = 1, max = 64))]
    pub what: String,
    /// Which one, as the list names it.
    #[schemars(length(min = 1, max = 512))]
    pub id: String,
    /// Since when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when it is hidden.
    pub until: Timestamp,
    /// Who.
    pub operator: Operator,
}

impl TypedPayload for InboxPostponed {
    const NAME: &'static str = "stream.thought.inbox.postponed";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Decision;
    const PROMOTED: &'static [&'static str] = &[];
}

/// Returns the source of these events; it is not that of decisions.
///
/// # Panics
/// Never: the text is a source.
#[must_use]
pub fn source() -> SourceId {
    SourceId::parse("system:inbox").expect("a text of ours is a source")
}
