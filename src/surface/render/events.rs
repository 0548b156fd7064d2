//! Events and their lineage.

use std::fmt::Write as _;

use serde_json::Value;
use thoughtstream_domain::text::excerpt;
use thoughtstream_domain::time::Timestamp;

use super::{age, line};
use crate::query::events::WITHHELD;
use crate::query::lineage::{Lineage, Relative};

/// A payload is shown by this much in a list.
const PAYLOAD_CHARACTERS: usize = 80;

/// The payload's fields that say most about it, the first one that is there.
const TELLING: [&str; 6] = ["path", "title", "text", "code", "consumer", "summary"];

/// Renders one event on one line: a stream of them has no widths to wait for.
#[must_use]
pub fn row(event: &Value, now: Timestamp) -> String {
    let word = |name: &str| line(event.get(name).and_then(Value::as_str).unwrap_or("-"));
    let number = |name: &str| event.get(name).and_then(Value::as_u64).unwrap_or(0);
    let at = event.get("recordedAt").and_then(Value::as_str).and_then(|at| Timestamp::parse(at).ok());
    let ago = at.map_or_else(|| "-".to_owned(), |at| age(at, now));
    format!(
        "{:>8}  {ago:>7}  {}#{}  {}@{}  {}  {}\n",
        number("position"),
        word("source"),
        number("sequence"),
        word("type"),
        number("version"),
        word("id"),
        telling(event)
    )
}

fn telling(event: &Value) -> String {
    let is = |name: &str| event.get(name).and_then(Value::as_bool) == Some(true);
    let Some(payload) = event.get("payload").filter(|payload| !payload.is_null()) else {
        let why = ["damaged", "redacted"].into_iter().find(|why| is(why)).unwrap_or("no payload");
        return format!("({why})");
    };
    let stamp = payload.get("stamp").and_then(|stamp| stamp.get("consumer"));
    let found = TELLING.iter().find_map(|name| payload.get(name)).or(stamp);
    match found {
        Some(Value::String(text)) => excerpt(text, PAYLOAD_CHARACTERS),
        Some(other) => excerpt(&other.to_string(), PAYLOAD_CHARACTERS),
        None => excerpt(&payload.to_string(), PAYLOAD_CHARACTERS),
    }
}

/// Renders one event whole: its envelope, then its payload.
#[must_use]
pub fn one(event: &Value) -> String {
    let mut text = String::new();
    let mut write = |line: String| writeln!(text, "{line}").expect("writing to a String does not fail");
    for (name, value) in event.as_object().into_iter().flatten().filter(|(name, _)| *name != "payload") {
        let shown = match value {
            Value::Array(places) if *name == WITHHELD => {
                let names = places.iter().filter_map(|place| place.as_str()?.rsplit('/').next());
                format!("{}: --content shows it", line(&names.collect::<Vec<_>>().join(", ")))
            }
            Value::String(text) => line(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                line(&value.to_string())
            }
        };
        write(format!("{:14} {shown}", line(name)));
    }
    let payload = event.get("payload").filter(|payload| !payload.is_null());
    match payload.map(serde_json::to_string_pretty) {
        Some(Ok(pretty)) => pretty.lines().for_each(|pretty| write(format!("  {}", line(pretty)))),
        Some(Err(_)) | None => match event.get("damaged") {
            Some(_) => write("  (damaged: not what was recorded; `thought verify` says more)".to_owned()),
            None => write("  (no payload)".to_owned()),
        },
    }
    text
}

/// Renders where an event came from, from the root down, and what came of it.
#[must_use]
pub fn lineage(lineage: &Lineage, now: Timestamp) -> String {
    let mut text = String::new();
    if !lineage.parents.is_empty() {
        text.push_str("derived from\n");
        relatives(&mut text, &lineage.parents, now, 1);
    }
    text.push_str(&format!("this\n  {}\n", relative(&lineage.event, now)));
    if !lineage.children.is_empty() {
        text.push_str("led to\n");
        relatives(&mut text, &lineage.children, now, 1);
    }
    if lineage.cut {
        text.push_str("there is more than is shown: ask about one of these\n");
    }
    text
}

fn relatives(text: &mut String, all: &[Relative], now: Timestamp, depth: usize) {
    for one in all {
        let margin = "  ".repeat(depth);
        let again = if one.seen { "  (shown above)" } else { "" };
        writeln!(text, "{margin}{}{again}", relative(one, now)).expect("writing to a String does not fail");
        relatives(text, &one.next, now, depth + 1);
    }
}

fn relative(one: &Relative, now: Timestamp) -> String {
    format!("{}  {}  {}#{}  {}", one.id, one.kind, one.source, one.sequence, age(one.recorded_at, now))
}
