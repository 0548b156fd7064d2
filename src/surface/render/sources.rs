//! Sources as a table.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age_or_dash};
use crate::query::sources::SourceRow;

/// Renders sources, one a line.
#[must_use]
pub fn list(sources: &[SourceRow], now: Timestamp) -> String {
    if sources.is_empty() {
        return "no sources\n".to_owned();
    }
    let mut rows = Rows::new(&["SOURCE", "EVENTS", "LAST", "CHAIN"]).numbers(1);
    for source in sources {
        rows.row(&[
            source.source.to_string(),
            source.events.to_string(),
            age_or_dash(source.last_at, now),
            source.chain.short(),
        ]);
    }
    rows.text()
}
