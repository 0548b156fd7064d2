//! Says in what way a text is not one JSON value. It only names; it never takes anything out of the text.

use serde::de::IgnoredAny;

use super::IssueCode;
use crate::canonical::JsonFault;

/// The tags in which models think aloud when nobody took the thinking out of their answer.
const THINKING_TAGS: [&str; 4] = ["<think", "<thought", "<reasoning", "<|channel|>analysis"];

/// Says whether a text begins with thinking.
pub(super) fn begins_with_thinking(text: &str) -> bool {
    let start = text.trim_start();
    THINKING_TAGS.iter().any(|tag| start.get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag)))
}

/// Names why a text that the strict reader refused is not one JSON value.
pub(super) fn not_one_value(bytes: &[u8], fault: JsonFault) -> IssueCode {
    match fault {
        JsonFault::TooLarge => return IssueCode::TooLarge,
        JsonFault::NotUtf8 => return IssueCode::NotUtf8,
        JsonFault::TooDeep => return IssueCode::TooDeep,
        JsonFault::DuplicateKey => return IssueCode::DuplicateKey,
        JsonFault::Number => return IssueCode::InvalidNumber,
        JsonFault::CutOff | JsonFault::Syntax => {}
    }
    let text = String::from_utf8_lossy(bytes);
    let start = text.trim_start();
    if start.is_empty() {
        return IssueCode::Empty;
    }
    if start.starts_with("```") || start.starts_with("~~~") {
        return IssueCode::Fenced;
    }
    if begins_with_thinking(start) {
        return IssueCode::ThinkingTag;
    }
    after_first_value(&text).unwrap_or_else(|| {
        if !start.starts_with(['{', '[']) && text.contains(['{', '[']) {
            IssueCode::ProseBefore
        } else if fault == JsonFault::CutOff {
            IssueCode::CutOff
        } else {
            IssueCode::NotJson
        }
    })
}

/// Names what follows a first whole value, if the text begins with one.
fn after_first_value(text: &str) -> Option<IssueCode> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let end = values.byte_offset();
    if text.get(end..).is_none_or(|rest| rest.trim().is_empty()) {
        return None;
    }
    // A second value, or the attempt at one, as models make it: a new object behind the first.
    let again = text.get(end..)?.trim_start_matches([' ', '\t', '\r', '\n', ',']);
    Some(if again.starts_with(['{', '[']) { IssueCode::SeveralValues } else { IssueCode::TrailingText })
}
