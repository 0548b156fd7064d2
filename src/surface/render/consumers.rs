//! Consumers as a table.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, View, age, age_or_dash, count, or_dash};
use crate::query::behind::Behind;
use crate::query::consumers::{Consumer, State};

/// Renders consumers, one a line.
#[must_use]
pub fn list(consumers: &[Consumer], view: View, now: Timestamp) -> String {
    // A version that another one followed does nothing, and every bump leaves one behind.
    let followed = |one: &Consumer| {
        one.state == State::Disabled
            && consumers.iter().any(|other| {
                other.consumer.id == one.consumer.id && other.consumer.version > one.consumer.version
            })
    };
    let (hidden, consumers): (Vec<&Consumer>, Vec<&Consumer>) =
        consumers.iter().partition(|one| !view.all && followed(one));
    if consumers.is_empty() {
        return "no consumers\n".to_owned();
    }
    let heads = ["CONSUMER", "STATE", "SINCE", "BEHIND", "HELD", "RETRIES", "SETTLED", "NEXT", "WHY"];
    let mut rows = Rows::new(&heads).numbers(3).numbers(4).numbers(5);
    for consumer in &consumers {
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
    for consumer in &consumers {
        if let Some(command) = &consumer.command {
            text.push_str(&format!("\n{}: {}", consumer.consumer, super::line(command)));
        }
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if !hidden.is_empty() {
        let hidden = count(hidden.len() as u64, "earlier version");
        text.push_str(&format!("{hidden} not listed: thought consumer list --all\n"));
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
