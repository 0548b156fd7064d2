//! The sources of the log.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use crate::failure::Failure;

/// Is one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRow {
    /// The source.
    pub source: SourceId,
    /// How many events it has.
    pub events: u64,
    /// When the last one was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// The chain's last link.
    pub chain: ChainHash,
}

/// Lists the sources by name.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn list(reader: &Reader) -> Result<Vec<SourceRow>, Failure> {
    let mut rows = Vec::new();
    for head in reader.sources()? {
        let last = reader.event_at(head.position)?;
        rows.push(SourceRow {
            source: head.source,
            events: head.sequence,
            last_at: last.map(|event| event.recorded_at),
            chain: head.chain,
        });
    }
    Ok(rows)
}
