//! Sources as a table.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age_or_dash, count, line};
use crate::query::sources::{SkippedRow, SourceRow};

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

/// Renders what was skipped, one file a line.
#[must_use]
pub fn skipped(skipped: &[SkippedRow]) -> String {
    if skipped.is_empty() {
        return "the last look skipped nothing\n".to_owned();
    }
    let mut rows = Rows::new(&["REASON", "INCIDENT", "FILE"]);
    for row in skipped {
        let file = match (&row.path, row.more) {
            (Some(path), _) => row
                .bytes
                .map_or_else(|| line(path), |bytes| format!("{} ({})", line(path), count(bytes, "byte"))),
            (None, more) => format!("and {} more", more.unwrap_or(0)),
        };
        rows.row(&[line(&row.reason), row.incident.as_deref().map_or_else(|| "-".to_owned(), line), file]);
    }
    rows.text()
}
