//! Writes a value in the subset that [`super::read`] reads, so that what is shown can be pasted into a file.
//!
//! A word is left unquoted only where the reading rule of [`super::scalar`] gives it one meaning; characters that a
//! terminal must not see are escaped inside quotes.

use std::fmt::Write as _;

use serde_json::Value;

use super::scalar::{self, Plain};
use crate::text::is_hostile;

/// The step of indentation, in spaces.
const STEP: usize = 2;

/// Writes `value` as one block of YAML that ends with a line feed.
///
/// What was read from a text within the limits is read back as the same value. Control characters other than line
/// feed, tab and carriage return are written as escapes that no reader of ours accepts, because none can come in.
#[must_use]
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    match Block::of(value) {
        Some(Block::Map(map)) => mapping(map, 0, &mut out),
        Some(Block::List(items)) => sequence(items, 0, &mut out),
        None => {
            leaf(value, STEP, &mut out);
            out.push('\n');
        }
    }
    out
}

/// Is what has lines of its own.
enum Block<'a> {
    Map(&'a serde_json::Map<String, Value>),
    List(&'a [Value]),
}

impl<'a> Block<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::Object(map) => (!map.is_empty()).then_some(Self::Map(map)),
            Value::Array(items) => (!items.is_empty()).then_some(Self::List(items)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
}

fn mapping(map: &serde_json::Map<String, Value>, indent: usize, out: &mut String) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            pad(indent, out);
        }
        out.push_str(&word(key));
        out.push(':');
        match Block::of(value) {
            Some(Block::Map(inner)) => {
                out.push('\n');
                pad(indent + STEP, out);
                mapping(inner, indent + STEP, out);
            }
            Some(Block::List(items)) => {
                out.push('\n');
                pad(indent + STEP, out);
                sequence(items, indent + STEP, out);
            }
            None => {
                out.push(' ');
                leaf(value, indent + STEP, out);
                out.push('\n');
            }
        }
    }
}

fn sequence(items: &[Value], indent: usize, out: &mut String) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            pad(indent, out);
        }
        out.push_str("- ");
        match Block::of(item) {
            Some(Block::Map(inner)) => mapping(inner, indent + STEP, out),
            Some(Block::List(inner)) => sequence(inner, indent + STEP, out),
            None => {
                leaf(item, indent + STEP, out);
                out.push('\n');
            }
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a scalar or an empty collection; a text of several lines as a literal block at `indent`, where it can be.
fn leaf(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if is_literal(text) => {
            out.push_str(if text.ends_with('\n') { "|" } else { "|-" });
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                out.push('\n');
                if !line.is_empty() {
                    pad(indent, out);
                    out.push_str(line);
                }
            }
        }
        Value::String(text) => out.push_str(&word(text)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// Says whether a text of several lines reads the same as a literal block.
fn is_literal(text: &str) -> bool {
    let mut lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
    let first = lines.next().unwrap_or_default();
    let rest: Vec<&str> = lines.collect();
    let shown = |c: char| c == '\n' || !is_hostile(c);
    text.contains('\n')
        && text.chars().all(shown)
        && !first.is_empty()
        && !first.starts_with(' ')
        && rest.last().is_none_or(|last| !last.trim().is_empty())
        && rest.iter().all(|line| line.is_empty() || !line.trim().is_empty())
}

/// Writes a text on one line: unquoted where nobody can misread it, else in double quotes.
fn word(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Says whether every reader takes the unquoted `text` for this very text.
fn is_plain(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '.'));
    let inside = text.chars().all(|c| {
        c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/' | '@' | ',' | '(' | ')' | ':' | ';')
    });
    starts
        && inside
        && !text.contains(": ")
        && !text.ends_with([' ', ':'])
        && scalar::resolve(text) == Ok(Plain::Text)
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hostile(c) => {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
