//! What waits for a person.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age_or_dash, count, line};
use crate::query::inbox::Waiting;

/// Renders what waits; the empty text is for a list that was read to its end.
#[must_use]
pub fn inbox(waiting: &[Waiting], now: Timestamp) -> String {
    if waiting.is_empty() {
        return "nothing waits\n".to_owned();
    }
    let mut rows = Rows::new(&["WHAT", "WHICH", "AGE", "WHY", "COMMAND"]);
    let (hidden, shown): (Vec<&Waiting>, Vec<&Waiting>) =
        waiting.iter().partition(|one| one.hidden_until.is_some());
    for one in &shown {
        let (what, age) = (one.kind.as_str().to_owned(), age_or_dash(one.since, now));
        rows.row_with_command(&[what, one.id.clone(), age, one.why.clone()], &one.command);
        // One a line: two in one would be run together by whoever takes the whole line.
        for way in &one.ways {
            rows.row_with_command(&[const { String::new() }; 4], way);
        }
    }
    let mut text = if shown.is_empty() { String::new() } else { rows.text() };
    if !hidden.is_empty() {
        text.push_str(&format!("{} hidden until a time\n", count(hidden.len() as u64, "thing")));
    }
    for one in &hidden {
        let until = one.hidden_until.map_or_else(String::new, |until| until.to_string());
        text.push_str(&line(&format!("{} {} until {until}: {}", one.kind.as_str(), one.id, one.command)));
        text.push('\n');
    }
    text
}
