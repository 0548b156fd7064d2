//! What waits for a person.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age_or_dash};
use crate::query::inbox::Waiting;

/// Renders what waits; the empty text is for a list that was read to its end.
#[must_use]
pub fn inbox(waiting: &[Waiting], now: Timestamp) -> String {
    if waiting.is_empty() {
        return "nothing waits\n".to_owned();
    }
    let mut rows = Rows::new(&["WHAT", "WHICH", "AGE", "WHY", "COMMAND"]);
    for one in waiting {
        rows.row(&[
            one.kind.as_str().to_owned(),
            one.id.clone(),
            age_or_dash(one.since, now),
            one.why.clone(),
            one.command.clone(),
        ]);
    }
    rows.text()
}
