//! A problem in a text a person wrote: where it is, what it is, and the way out.
//!
//! Declarations, configuration and frontmatter all report through this one shape, so that a person learns it once
//! and an editor can jump to any of them.

use std::fmt::Write as _;

use serde::Serialize;

use super::codes;
use crate::text::{excerpt as excerpt_of, printable};

/// Names a kind of problem for programs and for the manual; it never changes once it has shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Code(&'static str);

impl Code {
    /// Makes a code; each room lists its own as constants.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Returns the code's text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// The part of a text that a value, a key or a problem covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The byte at which it starts.
    pub offset: usize,
    /// How many bytes it covers; 0 marks a place between two characters.
    pub length: usize,
}

/// The offending text is cut here, so that a problem fits a line of a terminal.
const OFFENDING_CHARS_MAX: usize = 60;

/// The source line is shown through a window: so much of it before the column,
const WINDOW_CHARS_BEFORE: usize = 60;
/// and so much after the offending text.
const WINDOW_CHARS_AFTER: usize = 30;

/// Says what is wrong at one place of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file's name as it was given, unescaped; [`Problem::render`] escapes it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The stable kind.
    pub code: Code,
    /// What stands there, cut and escaped.
    pub text: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The nearest spelling that would be valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// What to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How many more problems this file has that are not listed, where that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<usize>,
    /// The line it stands on, cut around the column and escaped, with the caret's place in it.
    #[serde(skip)]
    pub(super) excerpt: Option<Excerpt>,
}

/// A window of the source line and where the caret goes below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excerpt {
    line: String,
    caret: usize,
    width: usize,
}

impl Problem {
    /// Makes a problem that concerns a file as a whole, where no text can be shown.
    #[must_use]
    pub fn of_file(file: &str, code: Code, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 1,
            column: 1,
            code,
            text: String::new(),
            message: message.into(),
            suggestion: None,
            hint: None,
            more: None,
            excerpt: None,
        }
    }

    /// Says, at the place of this one, what is wrong there.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Adds the way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Takes the text and its line away: what stands there must not be shown.
    #[must_use]
    pub fn concealed(self) -> Self {
        Self { text: String::new(), excerpt: None, ..self }
    }

    /// Adds the nearest valid spelling, when there is one.
    #[must_use]
    pub fn with_suggestion(mut self, suggestion: Option<impl Into<String>>) -> Self {
        self.suggestion = suggestion.map(Into::into);
        self
    }

    /// Returns the key by which problems are listed: file, place, kind.
    #[must_use]
    pub fn order(&self) -> (&str, u32, u32, Code) {
        (&self.file, self.line, self.column, self.code)
    }

    /// Renders the problem for a person: place, message, the source line with a caret, and the way out.
    ///
    /// Nothing from the file or its name reaches the terminal unescaped.
    #[must_use]
    pub fn render(&self) -> String {
        let file = printable(&self.file);
        let mut out = format!("{file}:{}:{}: {} [{}]\n", self.line, self.column, self.message, self.code);
        if let Some(excerpt) = &self.excerpt {
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            let pad = " ".repeat(excerpt.caret);
            let carets = "^".repeat(excerpt.width.max(1));
            write!(out, "  {number} | {}\n  {margin} | {pad}{carets}\n", excerpt.line)
                .expect("writing to a String does not fail");
        }
        if let Some(suggestion) = &self.suggestion {
            writeln!(out, "  did you mean `{}`?", printable(suggestion))
                .expect("writing to a String does not fail");
        }
        if let Some(hint) = &self.hint {
            writeln!(out, "  {hint}").expect("writing to a String does not fail");
        }
        out
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.render().trim_end())
    }
}

/// So many problems of one file are listed; how many more there are is counted. A page of them is more than anybody
/// mends in one go, and the answer of a service that is told to reload must hold those of every file.
pub(super) const LISTED_MAX: usize = 200;

/// Puts all problems of one file into the order of its text, and lists the first of them with the number of the rest.
#[must_use]
pub fn listed(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by(|one, other| one.order().cmp(&other.order()));
    // That reading stopped is said whatever is left out: what stands behind that place was not looked at.
    let (stops, mut shown): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.code == codes::MORE);
    let left = shown.split_off(shown.len().min(LISTED_MAX));
    shown.extend(stops);
    let count = left.iter().map(|problem| 1 + problem.more.unwrap_or(0)).sum();
    if let Some(first) = left.into_iter().next() {
        let noun = if count == 1 { "problem" } else { "problems" };
        let message = format!("from here on this file has {count} more {noun} that are not listed");
        let rest = Problem { code: codes::MORE, message, suggestion: None, more: Some(count), ..first };
        shown.push(rest.with_hint("mend those that are listed, and look again"));
    }
    shown
}

/// Renders problems one after the other, with a count at the end: of all that were found, whether listed or not.
#[must_use]
pub fn render_all(problems: &[Problem]) -> String {
    let mut out: String = problems.iter().map(|problem| problem.render() + "\n").collect();
    let listed = problems.iter().filter(|problem| problem.code != codes::MORE).count();
    let left: usize = problems.iter().filter_map(|problem| problem.more).sum();
    let stopped = problems.iter().any(|problem| problem.code == codes::MORE && problem.more.is_none());
    let all = listed + left;
    let (more, noun) =
        (if stopped { "more than " } else { "" }, if all == 1 { "problem" } else { "problems" });
    let unlisted = if left == 0 { String::new() } else { format!(", {left} of them not listed") };
    writeln!(out, "{more}{all} {noun}{unlisted}").expect("writing to a String does not fail");
    out
}

/// A text with its name and an index that turns byte offsets into lines and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
    /// The byte at which each line starts.
    lines: Vec<usize>,
    /// Characters before each byte, kept only when bytes and characters differ: a column is then one subtraction,
    /// however long its line is.
    chars: Option<Vec<u32>>,
    /// How many lines of the file stand above this text (frontmatter starts below its fence).
    lines_above: u32,
}

impl Source {
    /// Indexes `text`, of which `lines_above` lines of the same file are not part.
    #[must_use]
    pub fn new(name: &str, text: String, lines_above: u32) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let chars = (!text.is_ascii()).then(|| {
            let mut before = Vec::with_capacity(text.len() + 1);
            let mut count = 0_u32;
            for letter in text.chars() {
                before.extend(std::iter::repeat_n(count, letter.len_utf8()));
                count = count.saturating_add(1);
            }
            before.push(count);
            before
        });
        Self { name: name.to_owned(), text, lines, chars, lines_above }
    }

    /// Returns the file's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the span of `length` bytes from `offset`.
    #[must_use]
    pub fn span(&self, offset: usize, length: usize) -> Span {
        let row = self.row(offset);
        let start = self.lines[row];
        let column = self.chars.as_ref().map_or(offset - start, |chars| {
            chars.get(offset).zip(chars.get(start)).map_or(0, |(here, there)| (here - there) as usize)
        });
        Span {
            line: small(row + 1).saturating_add(self.lines_above),
            column: small(column + 1),
            offset,
            length,
        }
    }

    /// Returns the index of the line that holds `offset`.
    pub(super) fn row(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset) - 1
    }

    /// Returns the bytes of a line, without its line break.
    pub(super) fn line_range(&self, row: usize) -> std::ops::Range<usize> {
        let start = self.lines[row];
        let end = self.lines.get(row + 1).map_or(self.text.len(), |next| next - 1);
        let end = if end > start && self.text.as_bytes()[end - 1] == b'\r' { end - 1 } else { end };
        start..end
    }

    /// Returns how many lines there are; a final line break opens one more, empty line.
    pub(super) const fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Makes a problem about `span`, with the text that stands there and its line.
    #[must_use]
    pub fn problem(&self, span: Span, code: Code, message: impl Into<String>) -> Problem {
        let end = span.offset.saturating_add(span.length).min(self.text.len());
        let text = self.text.get(span.offset..end).unwrap_or_default();
        Problem {
            file: self.name.clone(),
            line: span.line,
            column: span.column,
            code,
            text: excerpt_of(text, OFFENDING_CHARS_MAX),
            message: message.into(),
            suggestion: None,
            hint: None,
            more: None,
            excerpt: Some(self.excerpt(span)),
        }
    }

    /// Cuts the window of the source line that `span` starts on; costs the window, however long the line is.
    fn excerpt(&self, span: Span) -> Excerpt {
        let range = self.line_range(self.row(span.offset));
        let offset = span.offset.clamp(range.start, range.end);
        let (before, after) = (&self.text[range.start..offset], &self.text[offset..range.end]);
        let shown_from = before.char_indices().rev().take(WINDOW_CHARS_BEFORE).last().map_or(0, |(at, _)| at);
        let mut line = String::new();
        if shown_from > 0 {
            line.push('…');
        }
        line.push_str(&printable(&before[shown_from..]));
        let caret = line.chars().count();
        let covered = after.char_indices().take_while(|(at, _)| *at < span.length).take(OFFENDING_CHARS_MAX);
        let covered = covered.last().map_or(0, |(at, letter)| at + letter.len_utf8());
        line.push_str(&printable(&after[..covered]));
        let width = line.chars().count() - caret;
        line.push_str(&excerpt_of(&after[covered..], WINDOW_CHARS_AFTER));
        Excerpt { line, caret, width }
    }
}

/// Narrows a count that the byte cap already keeps far below the limit.
fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::is_hostile;

    const CODE: Code = Code::new("test.code");

    #[test]
    fn a_column_counts_characters_and_an_offset_bytes() {
        let source = Source::new("a.yaml", "a: é\nöß: x\n".to_owned(), 0);
        let span = source.span(10, 1);
        assert_eq!((span.line, span.column, span.offset), (2, 3, 10));
        assert_eq!(&source.text()[10..11], ":");
    }

    #[test]
    fn lines_above_a_frontmatter_are_counted() {
        let source = Source::new("a.md", "x: 1\n".to_owned(), 1);
        assert_eq!(source.span(0, 1).line, 2);
    }

    #[test]
    fn a_problem_shows_its_line_with_a_caret_and_the_way_out() {
        let source = Source::new("a.yaml", "one: 1\nenabeld: true\n".to_owned(), 0);
        let problem = source
            .problem(source.span(7, 7), CODE, "unknown key")
            .with_suggestion(Some("enabled"))
            .with_hint("remove it");
        insta::assert_snapshot!(problem.render(), @r"
        a.yaml:2:1: unknown key [test.code]
          2 | enabeld: true
            | ^^^^^^^
          did you mean `enabled`?
          remove it
        ");
    }

    #[test]
    fn nothing_hidden_reaches_the_terminal() {
        let source = Source::new("a\n\u{1b}[31m.yaml", "k: \u{202e}\u{200b}x\u{1b}\n".to_owned(), 0);
        let rendered = source.problem(source.span(3, 3), CODE, "odd").render();
        assert!(!rendered.chars().any(|letter| letter != '\n' && is_hostile(letter)), "{rendered}");
        insta::assert_snapshot!(rendered, @r"
        a\n\u{1b}[31m.yaml:1:4: odd [test.code]
          1 | k: \u{202e}\u{200b}x\u{1b}
            |    ^^^^^^^^
        ");
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let found = |count: usize| -> Vec<Problem> {
            let text = "x: 1\n".repeat(count);
            let source = Source::new("a.yaml", text, 0);
            (0..count).map(|at| source.problem(source.span(5 * at, 1), CODE, "odd")).collect()
        };
        assert_eq!(listed(found(LISTED_MAX)), found(LISTED_MAX));
        let all = listed(found(LISTED_MAX + 300));
        assert_eq!((all.len(), all.last().unwrap().more), (LISTED_MAX + 1, Some(300)));
        assert_eq!(all.last().unwrap().line as usize, LISTED_MAX + 1, "where the rest begins");
        let text = render_all(&all);
        assert!(text.ends_with("\n500 problems, 300 of them not listed\n"), "{text}");
        // Two files that are cut are counted together, and one that was not read to its end is not all there is.
        let mut both = [listed(found(LISTED_MAX + 1)), listed(found(LISTED_MAX + 2))].concat();
        assert!(render_all(&both).ends_with("\n403 problems, 3 of them not listed\n"));
        both.push(Problem { code: codes::MORE, ..both[0].clone() });
        assert!(render_all(&both).ends_with("\nmore than 403 problems, 3 of them not listed\n"));
    }

    #[test]
    fn a_long_line_is_shown_through_a_window() {
        let text = format!("{}HERE{}", "x".repeat(5_000), "y".repeat(5_000));
        let source = Source::new("a.yaml", text, 0);
        let rendered = source.problem(source.span(5_000, 4), CODE, "odd").render();
        let lines: Vec<&str> = rendered.lines().collect();
        assert!(lines[1].chars().count() < 120);
        let caret = lines[2].find('^').unwrap();
        assert_eq!(lines[1].chars().skip(caret).take(4).collect::<String>(), "HERE");
    }
}
