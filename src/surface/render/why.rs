//! What blocks a thing.

use std::fmt::Write as _;

use thoughtstream_domain::time::Timestamp;

use super::consumers::next;
use super::{age, line};
use crate::query::why::Why;

/// Renders an answer, and below an event that of each of its consumers.
#[must_use]
pub fn why(why: &Why, now: Timestamp) -> String {
    let mut text = String::new();
    one(&mut text, why, now, "");
    for consumer in &why.consumers {
        one(&mut text, consumer, now, "  ");
    }
    text
}

fn one(text: &mut String, why: &Why, now: Timestamp, margin: &str) {
    let since = why.since.map_or_else(String::new, |since| format!(" for {}", age(since, now)));
    let mut write =
        |line: String| writeln!(text, "{margin}{line}").expect("writing to a String does not fail");
    write(format!("{} {}: {}{since}", line(&why.kind), line(&why.id), line(&why.state)));
    write(format!("  {}", line(&why.fact)));
    if why.next.is_some() {
        write(format!("  next: {}", next(why.next, now)));
    }
    for command in &why.commands {
        write(format!("  $ {}", line(command)));
    }
}
