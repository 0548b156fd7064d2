//! Consumers as a table.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age, age_or_dash, or_dash};
use crate::query::behind::Behind;
use crate::query::consumers::Consumer;

/// Renders consumers, one a line.
#[must_use]
pub fn list(consumers: &[Consumer], now: Timestamp) -> String {
    if consumers.is_empty() {
        return "no consumers\n".to_owned();
    }
    let heads = ["CONSUMER", "STATE", "SINCE", "BEHIND", "HELD", "RETRIES", "SETTLED", "NEXT", "WHY"];
    let mut rows = Rows::new(&heads).numbers(3).numbers(4).numbers(5);
    for consumer in consumers {
        rows.row(&[
            consumer.consumer.to_string(),
            consumer.state.as_str().to_owned(),
            age_or_dash(consumer.since, now),
            behind(consumer.behind),
            consumer.held.to_string(),
            consumer.retries.to_string(),
            age_or_dash(consumer.last.as_ref().map(|last| last.at), now),
            next(consumer.next, now),
            or_dash(consumer.why.as_deref()),
        ]);
    }
    let mut text = rows.text();
    for consumer in consumers {
        if let Some(command) = &consumer.command {
            text.push_str(&format!("\n{}: {}", consumer.consumer, super::line(command)));
        }
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Writes how many events are behind, with a plus where counting stopped.
pub(crate) fn behind(behind: Behind) -> String {
    let plus = if behind.at_least { "+" } else { "" };
    format!("{}{plus}", behind.events)
}

/// Writes when something goes on: a time that has passed means now.
pub(crate) fn next(at: Option<Timestamp>, now: Timestamp) -> String {
    match at {
        None => "-".to_owned(),
        Some(at) if at <= now => "now".to_owned(),
        Some(at) => age(at, now),
    }
}
