//! What a person corrected away once and an assistant keeps saying is taken out of what a model sees of it.
//!
//! A correction gives authority over the short sentences that its replacement no longer has, each only if it stands
//! again in another delivered reply. A sentence of several words is then taken out wherever it stands whole. A
//! single word that stood as a sentence is a ritual: short sentences that begin with it go, and so do its remaining
//! mentions as a whole word. Nothing else is touched, least of all what the person wrote, corrections included.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::hash::Sha256Hash;
use crate::id::EventId;

use super::reconstruct::AssistantTurn;

/// The version of these rules, as manifests name it.
pub const POLICY_VERSION: u32 = 1;

/// The longest sentence, in words, that a correction has authority over: longer ones are prose, not habit.
pub const FRAGMENT_WORDS_MAX: usize = 6;

/// Is what corrections have authority over: fragments as words in lower case, with the judgments behind each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authority {
    fragments: BTreeMap<Words, BTreeSet<EventId>>,
}

/// The words of a sentence, in lower case.
type Words = Vec<String>;

impl Authority {
    /// Gathers it from the turns that are candidates for a context.
    #[must_use]
    pub fn of(turns: &[&AssistantTurn]) -> Self {
        let said: Vec<(EventId, Vec<Words>)> =
            turns.iter().map(|turn| (turn.id, all_words(turn.delivered.reveal()))).collect();
        let mut fragments: BTreeMap<Words, BTreeSet<EventId>> = BTreeMap::new();
        for turn in turns {
            let Some(correction) = &turn.correction else { continue };
            let kept: BTreeSet<Words> = all_words(correction.replacement.reveal()).into_iter().collect();
            for fragment in all_words(turn.delivered.reveal()) {
                // Bare numbers are the marks of a list, and no habit.
                let has_words = fragment.iter().any(|word| word.chars().any(char::is_alphabetic));
                let is_short = has_words && fragment.len() <= FRAGMENT_WORDS_MAX;
                let recurs = || {
                    let others = said.iter().filter(|(id, _)| *id != turn.id);
                    others.flat_map(|(_, sentences)| sentences).any(|sentence| is_hit(&fragment, sentence))
                };
                if is_short && !kept.contains(&fragment) && recurs() {
                    fragments.entry(fragment).or_default().insert(correction.judgment);
                }
            }
        }
        Self { fragments }
    }

    /// Says whether there is nothing to take out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Returns the judgments behind it.
    #[must_use]
    pub fn judgments(&self) -> Vec<EventId> {
        self.fragments.values().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the hashes of its fragments: of their words in lower case, one space between two.
    #[must_use]
    pub fn hashes(&self) -> Vec<Sha256Hash> {
        self.fragments.keys().map(|words| Sha256Hash::of(words.join(" ").as_bytes())).collect()
    }

    /// Returns a reply without the fragments, and how many were taken out; `None` if it has none of them. A reply
    /// of which no word is left comes back empty.
    #[must_use]
    pub fn apply(&self, text: &str) -> Option<(String, u64)> {
        let mut gone: Vec<Range<usize>> = Vec::new();
        for sentence in sentences(text) {
            let words = words_of(&text[sentence.clone()]);
            if self.fragments.keys().any(|fragment| is_hit(fragment, &words)) {
                gone.push(sentence);
                continue;
            }
            let rituals = |word: &str| self.fragments.keys().any(|fragment| fragment[..] == [word]);
            for word in word_spans(&text[sentence.clone()]) {
                let span = sentence.start + word.start..sentence.start + word.end;
                if rituals(&text[span.clone()].to_lowercase()) {
                    gone.push(with_marks(text, span));
                }
            }
        }
        let removed = gone.len() as u64;
        (removed > 0).then(|| (without(text, &gone), removed))
    }
}

/// Says whether a sentence is taken out for the sake of a fragment.
fn is_hit(fragment: &[String], sentence: &[String]) -> bool {
    match fragment {
        [ritual] => sentence.len() <= FRAGMENT_WORDS_MAX && sentence.first() == Some(ritual),
        _ => fragment == sentence,
    }
}

fn all_words(text: &str) -> Vec<Words> {
    sentences(text).into_iter().map(|span| words_of(&text[span])).collect()
}

fn words_of(sentence: &str) -> Words {
    word_spans(sentence).into_iter().map(|span| sentence[span].to_lowercase()).collect()
}

/// Returns the sentences of a text: each ends with its marks, closing quotes included, before white space, or with
/// its line. The white space behind a sentence belongs to it.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let end = sentence_bytes(rest);
        let space = rest[end..].find(|c: char| !c.is_whitespace()).unwrap_or(rest.len() - end);
        let end = start + end + space;
        found.push(start..end);
        start = end;
    }
    found
}

/// Returns how long the first sentence is, without the white space behind it; a mark inside a word or a number ends
/// nothing.
fn sentence_bytes(text: &str) -> usize {
    let mut is_closing_now = false;
    let lead = text.len() - text.trim_start().len();
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < lead) {
        if c == '\n' || (is_closing_now && c.is_whitespace()) {
            return at;
        }
        is_closing_now = is_mark(c) || (is_closing_now && is_closing(c));
    }
    text.len()
}

const fn is_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…')
}

const fn is_closing(c: char) -> bool {
    matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '*' | '_' | '`')
}

/// Says whether a character is part of a word by itself: letters, digits, and whatever else is written that is no
/// punctuation, so that marks above letters do not split a word.
fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || !(c.is_ascii() || c.is_whitespace() || is_punctuation(c))
}

const fn is_punctuation(c: char) -> bool {
    matches!(c, '\u{a0}'..='\u{bf}' | '\u{d7}' | '\u{f7}' | '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{303f}')
}

/// Returns the words of a text: letters, with an apostrophe or a hyphen between two of them.
fn word_spans(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open: Option<usize> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let joins = matches!(c, '\'' | '’' | '-' | '_') && open.is_some();
        let goes_on = chars.peek().is_some_and(|(_, next)| is_letter(*next));
        match open {
            None if is_letter(c) => open = Some(at),
            Some(start) if !(is_letter(c) || joins && goes_on) => {
                found.push(start..at);
                open = None;
            }
            None | Some(_) => {}
        }
    }
    found.extend(open.map(|start| start..text.len()));
    found
}

/// Widens a word's span by a pair of marks that holds nothing else.
fn with_marks(text: &str, span: Range<usize>) -> Range<usize> {
    let before = text[..span.start].chars().next_back();
    let after = text[span.end..].chars().next();
    let is_pair = matches!(
        (before, after),
        (Some('"'), Some('"'))
            | (Some('\''), Some('\''))
            | (Some('`'), Some('`'))
            | (Some('*'), Some('*'))
            | (Some('_'), Some('_'))
            | (Some('“'), Some('”'))
            | (Some('‘'), Some('’'))
            | (Some('«'), Some('»'))
            | (Some('('), Some(')'))
    );
    if !is_pair {
        return span;
    }
    let width = |c: Option<char>| c.map_or(0, char::len_utf8);
    with_marks(text, span.start - width(before)..span.end + width(after))
}

/// Returns the text without some of it, and without the white space that would be left doubled.
fn without(text: &str, gone: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for span in gone {
        // Two mentions may share the mark between them, which went with the first.
        out.push_str(&text[from..span.start.max(from)]);
        let next = text[span.end..].chars().next();
        if next.is_none_or(|next| next.is_whitespace() || matches!(next, ',' | '.' | ';' | ':' | '!' | '?')) {
            out.truncate(out.trim_end_matches(' ').len());
        }
        from = span.end;
        let is_comma = |c: char| matches!(c, ',' | ';' | ':');
        if next.is_some_and(is_comma) && (out.is_empty() || out.ends_with(is_comma)) {
            from += 1;
        }
        if out.is_empty() || out.ends_with('\n') {
            from += text[from..].len() - text[from..].trim_start_matches(' ').len();
        }
    }
    out.push_str(&text[from..]);
    let out = out.trim();
    if word_spans(out).is_empty() { String::new() } else { out.to_owned() }
}

#[cfg(test)]
mod tests;
