//! Sources and kinds of source that nothing is known of: what listens to them is sound, and may wait for ever.

use std::collections::BTreeSet;

use super::codes;
use crate::id::SourceId;
use crate::yaml::{self, Limits, Node, Problem, Source, nearest};

/// The kinds of source that this program knows how to fill.
const KINDS: [&str; 6] = ["agent", "filesystem", "materialization", "notes", "system", "telegram"];

/// The kinds whose sources come into being by themselves: with the first note, decision or change.
const UNANNOUNCED: [&str; 3] = ["notes", "system", "materialization"];

/// Returns advice about each source and kind that an enabled declaration names and that is neither configured nor in
/// the log. A source that people write to by hand may come later: it is named only where it looks like a known one
/// that was misspelt.
#[must_use]
pub fn unheard(files: &[(String, Vec<u8>)], known: &BTreeSet<SourceId>) -> Vec<Problem> {
    let mut advice = Vec::new();
    for (name, bytes) in files {
        let reading = yaml::read(name, bytes, Limits::DECLARATION);
        let Some(root) = reading.root else { continue };
        if root.get("enabled").and_then(Node::bool) != Some(true) {
            continue;
        }
        let Some(subscribe) = root.get("subscribe") else { continue };
        for item in subscribe.get("sources").into_iter().flat_map(Node::items) {
            let named = item.text().and_then(|text| SourceId::parse(text).ok());
            advice.extend(named.and_then(|named| of_source(&reading.source, item, &named, known)));
        }
        for item in subscribe.get("kinds").into_iter().flat_map(Node::items) {
            advice.extend(item.text().and_then(|kind| of_kind(&reading.source, item, kind, known)));
        }
    }
    advice.sort_by(|one, other| one.order().cmp(&other.order()));
    advice
}

fn of_source(text: &Source, item: &Node, named: &SourceId, known: &BTreeSet<SourceId>) -> Option<Problem> {
    if known.contains(named) {
        return None;
    }
    let near = near(named, known);
    if near.is_none() && UNANNOUNCED.contains(&named.kind()) {
        return None;
    }
    let message = "this source is neither configured nor in the log: nothing comes from it";
    let hint = match named.kind() {
        "filesystem" => "name it below `sources:` in config.yaml, or mend it here",
        "telegram" => "name it below `telegram:` in config.yaml, or mend it here",
        "agent" => "declare the consumer of this name, or mend it here",
        "notes" => "leave it if you will write to it by hand",
        _ => "mend it here, or leave it if events of it are still to come",
    };
    let problem = text.problem(item.span, codes::UNKNOWN_SOURCE, message);
    Some(problem.with_suggestion(near).with_hint(hint))
}

/// Returns the known source that was probably meant.
fn near<'a>(named: &SourceId, known: &'a BTreeSet<SourceId>) -> Option<&'a str> {
    let alike = known.iter().filter(|source| source.kind() == named.kind());
    let near = nearest(named.name(), alike.map(SourceId::name));
    let source = match near {
        Some(name) => known.iter().find(|source| source.kind() == named.kind() && source.name() == name),
        None if KINDS.contains(&named.kind()) => None,
        None => {
            let near = nearest(named.as_str(), known.iter().map(SourceId::as_str));
            known.iter().find(|source| Some(source.as_str()) == near)
        }
    };
    // `notes:2026` beside `notes:2025`, and `notes:a` beside `notes:b`, are two sources of one person.
    let words = |name: &str| name.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>();
    let is_slip = |source: &&SourceId| {
        source.kind() != named.kind()
            || words(source.name()) != words(named.name()) && named.name().chars().count() > 2
    };
    source.filter(|source| !UNANNOUNCED.contains(&named.kind()) || is_slip(source)).map(SourceId::as_str)
}

fn of_kind(text: &Source, item: &Node, kind: &str, known: &BTreeSet<SourceId>) -> Option<Problem> {
    let seen = known.iter().map(SourceId::kind).chain(KINDS);
    if seen.clone().any(|one| one == kind) {
        return None;
    }
    let message = "there is no source of this kind, neither configured nor in the log";
    let problem = text.problem(item.span, codes::UNKNOWN_KIND, message);
    let hint = format!("the kinds are {}", KINDS.join(", "));
    Some(problem.with_suggestion(nearest(kind, seen)).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is said of these sources beside the known ones: the suggestion, or a dash.
    fn said(enabled: bool, sources: &str, known: &[&str]) -> Vec<String> {
        let text = format!("enabled: {enabled}\nsubscribe: {{ {sources} }}\n");
        let known = known.iter().map(|source| SourceId::parse(source).unwrap()).collect();
        let advice = unheard(&[("a.yaml".to_owned(), text.into_bytes())], &known);
        let said = |problem: &Problem| {
            assert!(problem.hint.is_some() && problem.line == 2 && !problem.text.is_empty());
            format!("{} {}", problem.text, problem.suggestion.as_deref().unwrap_or("-"))
        };
        advice.iter().map(said).collect()
    }

    #[test]
    fn a_source_that_nothing_is_known_of_is_named_with_the_nearest() {
        let known = ["filesystem:notes", "notes:garden", "notes:2025", "agent:links"];
        let of = |sources: &str| said(true, &format!("sources: [{sources}]"), &known);
        assert_eq!(of("filesystem:nots"), ["filesystem:nots filesystem:notes"]);
        assert_eq!(of("filesytem:notes"), ["filesytem:notes filesystem:notes"]);
        assert_eq!(of("filesystem:mail, telegram:bot"), ["filesystem:mail -", "telegram:bot -"]);
        assert_eq!(of("notes:gardn"), ["notes:gardn notes:garden"]);
        assert_eq!(of("agent:link"), ["agent:link agent:links"]);
        for fine in ["filesystem:notes, agent:links", "notes:kitchen, notes:2026, notes:a", "system:inbox"] {
            assert!(of(fine).is_empty(), "{fine}: {:?}", of(fine));
        }
        assert!(said(false, "sources: [filesystem:nots]", &known).is_empty(), "who is off waits for nothing");
        assert_eq!(said(true, "kinds: [filesytem]", &known), ["filesytem filesystem"]);
        assert!(said(true, "kinds: [telegram, notes]", &known).is_empty());
    }
}
