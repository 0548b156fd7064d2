//! Reads a document as Markdown: what every transform needs before it looks for its own things.
//!
//! Parsing is pulldown-cmark's. Around it are the two guards it leaves to its caller: a bound on nesting (its cost
//! is the depth of blocks times the number of lines) and the split of the front matter, so that line numbers
//! count in the file and not in the body.

use std::ops::Range;

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Options, Parser, TextMergeWithOffset};

use super::TransformError;
use crate::yaml::{Limits, Reading, frontmatter};

/// A document is at most this long; a note of one person is rarely above 100 KiB, and even text made to be expensive is
/// read in the time that a person waits for.
pub const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Blocks nest at most this deep; hand-written notes stay under ten, and the parser walks all open blocks on every
/// line.
pub const NESTING_MAX: usize = 100;

/// The Markdown people write in notes: CommonMark with tables, footnotes, tasks, strike-through and wiki links.
const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_WIKILINKS);

/// A document ready to be walked.
#[derive(Debug)]
pub(super) struct Markdown<'a> {
    text: &'a str,
    body_start: usize,
    front_matter_lines: u32,
    line_starts: Vec<usize>,
}

impl<'a> Markdown<'a> {
    /// Reads `bytes`.
    ///
    /// # Errors
    /// The document is too large, not UTF-8, or nests too deep.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, TransformError> {
        check_size(bytes)?;
        let text = std::str::from_utf8(bytes)
            .map_err(|error| TransformError::NotUtf8 { offset: error.valid_up_to() })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let line_starts = line_starts(text);
        let body_start = body_start(text);
        let mut document = Self { text, body_start, front_matter_lines: 0, line_starts };
        document.front_matter_lines = document.line(body_start) - 1;
        if let Some(line) = too_deep(&text[body_start..]) {
            let line = line + document.line(body_start) - 1;
            return Err(TransformError::TooDeep { line, max: NESTING_MAX });
        }
        Ok(document)
    }

    /// Returns the last line of the front matter, if there is any.
    pub(super) fn front_matter_end_line(&self) -> Option<u32> {
        (self.body_start > 0).then_some(self.front_matter_lines)
    }

    /// Reads the front matter, if there is any.
    pub(super) fn front_matter(&self) -> Option<Reading> {
        frontmatter("", self.text, Limits::FRONTMATTER).map(|found| found.reading)
    }

    /// Returns the number of lines; a document without any text has none.
    pub(super) fn lines(&self) -> u32 {
        match self.line_starts.last() {
            Some(&last) if last == self.text.len() => super::text::count(self.line_starts.len() - 1),
            _ => super::text::count(self.line_starts.len()),
        }
    }

    /// Returns the line of the byte at `offset`, counted from 1.
    pub(super) fn line(&self, offset: usize) -> u32 {
        super::text::count(self.line_starts.partition_point(|&start| start <= offset))
    }

    /// Returns the text at `range`.
    pub(super) fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    /// Walks the body; adjacent pieces of text come as one, offsets count in the document.
    ///
    /// `on_broken` is told of every full or collapsed reference (`[text][label]`, `[label][]`) whose label is not
    /// defined. A lone `[word]` is ordinary text in a note and is not reported.
    pub(super) fn events<'s>(
        &'s self,
        mut on_broken: impl FnMut(&str, usize) + 's,
    ) -> impl Iterator<Item = (Event<'a>, Range<usize>)> + 's {
        let start = self.body_start;
        let callback = move |broken: BrokenLink<'_>| -> Option<(CowStr<'a>, CowStr<'a>)> {
            if broken.link_type != LinkType::Shortcut {
                on_broken(&broken.reference, broken.span.start + start);
            }
            None
        };
        let body: &'a str = &self.text[start..];
        let parser = Parser::new_with_broken_link_callback(body, OPTIONS, Some(callback));
        TextMergeWithOffset::new(parser.into_offset_iter())
            .map(move |(event, range)| (event, range.start + start..range.end + start))
    }
}

/// Refuses a document over [`DOCUMENT_BYTES_MAX`].
pub(super) fn check_size(bytes: &[u8]) -> Result<(), TransformError> {
    match bytes.len() {
        bytes if bytes > DOCUMENT_BYTES_MAX => {
            Err(TransformError::TooLarge { bytes, max: DOCUMENT_BYTES_MAX })
        }
        _ => Ok(()),
    }
}

/// Returns the offset of every line; lines end in LF, CR LF or CR.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (offset, byte) in bytes.iter().enumerate() {
        let ends = *byte == b'\n' || (*byte == b'\r' && bytes.get(offset + 1) != Some(&b'\n'));
        if ends {
            starts.push(offset + 1);
        }
    }
    starts
}

/// Returns the offset at which the body begins: behind the front matter, by the rule of [`frontmatter`].
fn body_start(text: &str) -> usize {
    let mut end = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let mark = line.trim_end();
        end += line.len();
        match number {
            0 if mark != "---" => return 0,
            0 => {}
            _ if matches!(mark, "---" | "...") => return end,
            _ => {}
        }
    }
    0
}

/// Returns the first line of `body` at which blocks could nest deeper than [`NESTING_MAX`].
///
/// This is an upper bound and no parse: each line can open as many blocks as it has marks in front (`>`, `-`, `1.`,
/// `[^1]:`), inside at most as many as its marks and its indentation can continue.
fn too_deep(body: &str) -> Option<u32> {
    let mut depth = 0;
    let mut number = 0;
    for line in body.split(['\n', '\r']) {
        number += 1;
        let (marks, columns) = block_marks(line.as_bytes());
        if marks > 0 {
            // A list goes on in a line that is indented by at least two columns a level.
            depth = depth.max(depth.min(marks + columns / 2) + marks);
        }
        if depth > NESTING_MAX {
            return Some(line_number(body, number));
        }
    }
    None
}

/// Returns the line in which the `pieces`-th piece between CR and LF characters stands.
fn line_number(body: &str, pieces: usize) -> u32 {
    let offset: usize = body.split_inclusive(['\n', '\r']).take(pieces - 1).map(str::len).sum();
    super::text::count(line_starts(&body[..offset]).len())
}

/// Counts the marks that may open a block in front of `line`, and its columns of white space up to the last of them.
fn block_marks(line: &[u8]) -> (usize, usize) {
    let rule = rule_start(line);
    let (mut marks, mut columns, mut at) = (0, 0, 0);
    while at < line.len() && at < rule {
        match line[at] {
            b' ' => columns += 1,
            b'\t' => columns += 4,
            b'>' => marks += 1,
            b'-' | b'+' | b'*' if is_space(line.get(at + 1)) => marks += 1,
            b'0'..=b'9' => {
                let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                at += digits;
                if !matches!(line.get(at), Some(b'.' | b')')) || !is_space(line.get(at + 1)) {
                    break;
                }
                marks += 1;
            }
            b'[' if line.get(at + 1) == Some(&b'^') => {
                // The label may hold an escaped bracket, so that only the colon says where it ends.
                let Some(length) = line[at..].windows(2).position(|pair| pair == b"]:") else { break };
                at += length + 1;
                marks += 1;
            }
            _ => break,
        }
        at += 1;
    }
    (marks, columns)
}

fn is_space(byte: Option<&u8>) -> bool {
    matches!(byte, None | Some(b' ' | b'\t'))
}

/// Returns where the end of `line` becomes a rule (`* * *`, `- - -`): a rule opens no list, however many marks it has.
fn rule_start(line: &[u8]) -> usize {
    let Some(&mark) = line.iter().rev().find(|byte| !is_space(Some(byte))) else { return line.len() };
    if !matches!(mark, b'-' | b'*' | b'_') {
        return line.len();
    }
    let tail = line.iter().rev().take_while(|byte| **byte == mark || is_space(Some(byte))).count();
    let start = line.len() - tail;
    let marks = line[start..].iter().filter(|byte| **byte == mark).count();
    if marks >= 3 { start } else { line.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_error(text: &str) -> Option<u32> {
        match Markdown::read(text.as_bytes()) {
            Err(TransformError::TooDeep { line, .. }) => Some(line),
            Ok(_) => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn lines_are_counted_for_all_three_line_ends() {
        let document = Markdown::read(b"a\nb\r\nc\rd").unwrap();
        let lines: Vec<u32> = [0, 2, 5, 7].map(|offset| document.line(offset)).to_vec();
        assert_eq!(lines, [1, 2, 3, 4]);
        assert_eq!(document.lines(), 4);
        assert_eq!(Markdown::read(b"").unwrap().lines(), 0);
        assert_eq!(Markdown::read(b"a\n").unwrap().lines(), 1);
    }

    #[test]
    fn front_matter_needs_both_lines_and_the_first_place() {
        let with = Markdown::read(b"\xef\xbb\xbf---\r\ntitle: x\r\n---\r\n# A\r\n").unwrap();
        assert_eq!(with.front_matter_end_line(), Some(3));
        assert_eq!(with.events(|_, _| ()).next().map(|(_, range)| with.line(range.start)), Some(4));
        for without in ["---\ntitle: x\n", "\n---\na: b\n---\n", "text", "---"] {
            assert_eq!(
                Markdown::read(without.as_bytes()).unwrap().front_matter_end_line(),
                None,
                "{without:?}"
            );
        }
    }

    #[test]
    fn the_body_begins_where_the_reader_of_front_matter_says() {
        for text in [
            "---\n---",
            "---\na: b\n...\nx",
            "--- \na: b\n---\t\n\n",
            "---\r---\r",
            "----\n---\n",
            "---\n----\n---\n",
        ] {
            let read = frontmatter("", text, Limits::FRONTMATTER).map_or(0, |found| found.body);
            assert_eq!(body_start(text), read, "{text:?}");
        }
    }

    #[test]
    fn nesting_is_bounded_line_by_line_and_over_lines() {
        assert_eq!(depth_error(&">".repeat(NESTING_MAX)), None);
        assert_eq!(depth_error(&format!("---\na: b\n---\r\nx\r\n{}", ">".repeat(NESTING_MAX + 1))), Some(5));
        assert_eq!(depth_error(&format!("a\n\n{}x", "- ".repeat(NESTING_MAX + 1))), Some(3));
        assert_eq!(depth_error(&"[^a]: > ".repeat(NESTING_MAX)), Some(1));
        assert_eq!(depth_error(&r"[^a\]b]: > ".repeat(NESTING_MAX)), Some(1));
        assert!(
            depth_error(&(0..500).map(|level| " ".repeat(2 * level) + "- a\n").collect::<String>()).is_some()
        );
    }

    #[test]
    fn ordinary_documents_are_not_called_deep() {
        let rules = format!("{}\n\n{}\n> {}\n", "- ".repeat(300), "* ".repeat(300), "-".repeat(300));
        let flat = "- a\n  - b\n    1. c\n> > d\n".repeat(5_000);
        let code = format!("```\n{}x\n```\n", " ".repeat(5_000));
        for text in [rules, flat, code] {
            assert_eq!(depth_error(&text), None);
        }
    }

    #[test]
    fn only_full_and_collapsed_references_are_reported_as_broken() {
        let document = Markdown::read(b"[a][b] and [c][] and [d] and [x]\n\n[x]: y\n").unwrap();
        let mut broken = Vec::new();
        document.events(|label, at| broken.push((label.to_owned(), at))).for_each(drop);
        assert_eq!(broken, [("b".to_owned(), 0), ("c".to_owned(), 11)]);
    }
}
