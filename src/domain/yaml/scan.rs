//! The scan before any parser: one pass over the bytes that refuses what must not reach one.
//!
//! It looks at bytes and lines only, never at structure, so no clever text can talk it into a deep or slow parse.

use super::problem::{Problem, Source};
use super::{Limits, codes};

/// Brackets may be open this many deep anywhere in the text, quoted or not.
///
/// The marked reader enforces the real bound on nesting; this one guards what runs after it whatever that reader
/// believes: a text that passes costs a parser with quadratic nesting well under a millisecond.
const RAW_BRACKETS_MAX: usize = 512;

/// `- - - -` at the start of a line may nest this deep; more is refused before anything recurses.
const RAW_DASHES_MAX: usize = 32;

/// What the scan leaves to the reader.
pub(super) struct Scanned {
    pub(super) source: Source,
    /// The reader stops here: a second document starts, or the text ends.
    pub(super) end: usize,
    /// Set when the text may not be read further at all.
    pub(super) stop: bool,
}

/// Scans `bytes`, adding what it refuses to `problems`.
pub(super) fn scan(
    name: &str,
    bytes: &[u8],
    limits: Limits,
    lines_above: u32,
    problems: &mut Vec<Problem>,
) -> Scanned {
    if bytes.len() > limits.bytes_max {
        let message = format!("the text has {} bytes; at most {} are read", bytes.len(), limits.bytes_max);
        problems.push(Problem::of_file(name, codes::TOO_LARGE, message).with_hint("split it, or shorten it"));
        return Scanned { source: Source::new(name, String::new(), lines_above), end: 0, stop: true };
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return not_utf8(name, bytes, error.valid_up_to(), lines_above, problems),
    };
    let source = Source::new(name, text.to_owned(), lines_above);
    let mut stop = characters(&source, problems);
    stop |= brackets(&source, problems);
    stop |= dashes(&source, problems);
    let end = lines(&source, problems);
    Scanned { source, end, stop }
}

fn not_utf8(
    name: &str,
    bytes: &[u8],
    valid: usize,
    lines_above: u32,
    problems: &mut Vec<Problem>,
) -> Scanned {
    let prefix = String::from_utf8_lossy(&bytes[..valid]).into_owned();
    let source = Source::new(name, prefix, lines_above);
    let message = format!("byte 0x{:02x} is not UTF-8 text", bytes[valid]);
    let problem = source.problem(source.span(valid, 0), codes::NOT_UTF8, message);
    problems.push(problem.with_hint("save the file as UTF-8"));
    Scanned { source, end: 0, stop: true }
}

/// Refuses a byte order mark and characters that no YAML text holds; reports the first few.
fn characters(source: &Source, problems: &mut Vec<Problem>) -> bool {
    /// A binary file would otherwise fill the report.
    const REPORTED_MAX: usize = 5;
    let mut found = 0;
    let mut previous_cr = None;
    let mut refuse = |at: usize, length: usize, code, message: String| {
        found += 1;
        if found <= REPORTED_MAX {
            problems.push(source.problem(source.span(at, length), code, message).with_hint("remove it"));
        }
    };
    for (at, letter) in source.text().char_indices() {
        if let Some(cr) = previous_cr.take().filter(|_| letter != '\n') {
            refuse(cr, 1, codes::CHARACTER, "a carriage return without a line feed".to_owned());
        }
        if letter == '\r' {
            previous_cr = Some(at);
        } else if letter == '\u{feff}' && at == 0 {
            refuse(at, 3, codes::BYTE_ORDER_MARK, "the text starts with a byte order mark".to_owned());
        } else if !may_stand(letter) {
            let message = format!("the character U+{:04X} may not stand in the text", u32::from(letter));
            refuse(at, letter.len_utf8(), codes::CHARACTER, message);
        }
    }
    if let Some(cr) = previous_cr {
        refuse(cr, 1, codes::CHARACTER, "a carriage return without a line feed".to_owned());
    }
    let more = found.saturating_sub(REPORTED_MAX);
    if let Some(last) = problems.last_mut().filter(|_| more > 0) {
        last.more = Some(more);
        last.hint = Some(format!("remove it, and {more} more like it below"));
    }
    found > 0
}

/// Tells whether YAML lets a character stand in a text; the separators that some readers take for a line break
/// are left out, because lines would then be counted in two ways.
const fn may_stand(letter: char) -> bool {
    matches!(letter,
        '\n' | '\t' | ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}'
        | '\u{10000}'..='\u{10ffff}')
}

/// Refuses a text whose brackets pile up, wherever they stand.
fn brackets(source: &Source, problems: &mut Vec<Problem>) -> bool {
    let mut open = 0_usize;
    let mut passed = 0;
    for (at, byte) in source.text().bytes().enumerate() {
        match byte {
            b'[' | b'{' => {
                open += 1;
                if open == Limits::FLOW_DEPTH_MAX + 1 {
                    passed = at;
                }
                if open > RAW_BRACKETS_MAX {
                    let message = format!("brackets are open more than {} deep", Limits::FLOW_DEPTH_MAX);
                    let problem = source.problem(source.span(passed, 1), codes::TOO_DEEP, message);
                    problems.push(problem.with_hint("close the brackets, or remove them"));
                    return true;
                }
            }
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Refuses a line that opens very many lists at once.
fn dashes(source: &Source, problems: &mut Vec<Problem>) -> bool {
    for row in 0..source.line_count() {
        let range = source.line_range(row);
        let line = &source.text().as_bytes()[range.clone()];
        let mut count = 0;
        let mut at = 0;
        while at < line.len() && matches!(line[at], b' ' | b'-' | b'?') {
            let indicator = line[at] != b' ' && line.get(at + 1).is_none_or(|next| *next == b' ');
            if line[at] != b' ' && !indicator {
                break;
            }
            count += usize::from(indicator);
            if count > RAW_DASHES_MAX {
                let message = format!("more than {} lists open on one line", Limits::BLOCK_DEPTH_MAX);
                let problem = source.problem(source.span(range.start + at, 1), codes::TOO_DEEP, message);
                problems.push(problem.with_hint("nest the lists less deep"));
                return true;
            }
            at += 1;
        }
    }
    false
}

/// Refuses tabs in indentation, directives and a second document; returns where the first document ends.
fn lines(source: &Source, problems: &mut Vec<Problem>) -> usize {
    let mut content_seen = false;
    for row in 0..source.line_count() {
        let range = source.line_range(row);
        let line = &source.text()[range.clone()];
        let rest = line.trim_start_matches([' ', '\t']);
        let indent = line.len() - rest.len();
        if let Some(tab) = line[..indent].find('\t') {
            let span = source.span(range.start + tab, 1);
            let problem = source.problem(span, codes::TAB, "a tab in the indentation");
            problems.push(problem.with_hint("indent with spaces"));
            continue;
        }
        let marker = |mark: &str| {
            line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        };
        if marker("...") || (marker("---") && content_seen) {
            let problem = source.problem(
                source.span(range.start, 3),
                codes::SECOND_DOCUMENT,
                "a second document, or the end of the first, is marked here",
            );
            problems
                .push(problem.with_hint("one file holds one document: remove the marker and what follows"));
            return range.start;
        }
        if line.starts_with('%') {
            let span = source.span(range.start, line.len());
            let problem = source.problem(span, codes::DIRECTIVE, "a YAML directive is not read");
            problems.push(problem.with_hint("remove the line"));
            continue;
        }
        content_seen |= !rest.is_empty() && !rest.starts_with('#');
    }
    source.text().len()
}
