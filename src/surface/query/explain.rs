//! Why an event does or does not match a consumer, clause by clause.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::id::{ConsumerKey, EventId};

/// Is the answer, clause by clause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The event.
    pub event: EventId,
    /// Whether the event matches: every clause holds.
    pub matches: bool,
    /// The clauses in order.
    pub clauses: Vec<ClauseRow>,
}

/// Is one clause of a subscription held against an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClauseRow {
    /// What it is about: `types`, `sources`, `where payload.path`, …
    pub clause: String,
    /// What the declaration demands.
    pub wanted: String,
    /// What the event has.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}
