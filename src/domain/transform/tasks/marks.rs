//! The marks people write into a task: what says when it is due, and a priority.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a task matters, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// `⏬`, `priority: lowest`
    Lowest,
    /// `🔽`, `(C)`, `!`, `priority: low`
    Low,
    /// `🔼`, `(B)`, `!!`, `priority: medium`
    Medium,
    /// `⏫`, `(A)`, `!!!`, `priority: high`
    High,
    /// `🔺`, `priority: highest`
    Highest,
}

/// Returns what stands behind each mark for a due date, in the order of the text.
///
/// Behind `@due(` and `📅` a day is expected and anything else is returned too, as far as it goes; `due:` is also a
/// word of prose, so it counts only in front of a digit.
pub(super) fn due(text: &str) -> Vec<&str> {
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for mark in ["@due(", "📅"] {
        for (at, _) in lower.match_indices(mark) {
            let rest = text[at + mark.len()..].trim_start();
            let end = rest.find([' ', ')', ',']).unwrap_or(rest.len());
            found.push((at, &rest[..end]));
        }
    }
    for (at, mark) in lower.match_indices("due:") {
        let in_word = lower[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let rest = text[at + mark.len()..].trim_start_matches([':', ' ']);
        if !in_word && rest.starts_with(|first: char| first.is_ascii_digit()) {
            let end = rest.find(|character: char| !character.is_ascii_digit() && character != '-');
            found.push((at, &rest[..end.unwrap_or(rest.len())]));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, found)| found).collect()
}

/// Returns the highest priority that `text` names.
pub(super) fn priority(text: &str) -> Option<Priority> {
    use Priority::{High, Highest, Low, Lowest, Medium};
    let in_front = [("(A) ", High), ("(B) ", Medium), ("(C) ", Low)]
        .into_iter()
        .find_map(|(mark, priority)| text.starts_with(mark).then_some(priority));
    let signs = [('🔺', Highest), ('⏫', High), ('🔼', Medium), ('🔽', Low), ('⏬', Lowest)]
        .into_iter()
        .filter_map(|(sign, priority)| text.contains(sign).then_some(priority));
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    let marked = words.iter().enumerate().filter_map(|(at, word)| match word.as_str() {
        "!!!" => Some(High),
        "!!" => Some(Medium),
        "!" => Some(Low),
        "priority:" | "[priority::" => named(words.get(at + 1)?),
        other => named(other.strip_prefix("priority:")?),
    });
    in_front.into_iter().chain(signs).chain(marked).max()
}

fn named(word: &str) -> Option<Priority> {
    match word.trim_end_matches([']', ',', '.', ';', ')']) {
        "lowest" => Some(Priority::Lowest),
        "low" => Some(Priority::Low),
        "medium" => Some(Priority::Medium),
        "high" => Some(Priority::High),
        "highest" => Some(Priority::Highest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_due_date_are_found_in_order() {
        assert_eq!(
            due("x 📅2026-01-05 @Due( 2026-01-02 ) Due: 2026-01-03"),
            ["2026-01-05", "2026-01-02", "2026-01-03"]
        );
        assert_eq!(due("[due:: 2026-01-04] rent"), ["2026-01-04"]);
        assert_eq!(due("📅 tomorrow, @due(soon)"), ["tomorrow", "soon"]);
        assert!(due("overdue: 2026-01-02; due: friday; what is due").is_empty());
    }

    #[test]
    fn the_highest_priority_counts() {
        for (text, expected) in [
            ("(A) call", Some(Priority::High)),
            ("call (A) ", None),
            ("call ⏬ 🔺", Some(Priority::Highest)),
            ("now !!", Some(Priority::Medium)),
            ("now! wow!!!", None),
            ("x priority: high", Some(Priority::High)),
            ("x [priority:: low]", Some(Priority::Low)),
            ("x priority:lowest", Some(Priority::Lowest)),
            ("a priority: none", None),
        ] {
            assert_eq!(priority(text), expected, "{text}");
        }
    }
}
