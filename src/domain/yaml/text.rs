//! Texts of the marked reader: unquoted words over one or more lines, quoted texts, literal and folded blocks.

use super::codes;
use super::problem::Span;
use super::reader::Reader;
use super::{Node, Style, Value};

/// Joins the lines of a text that may break: one line break becomes a space, each empty line one line break.
#[derive(Default)]
struct Joined {
    text: String,
    breaks: usize,
}

impl Joined {
    fn line(&mut self, line: &str) {
        match self.breaks {
            0 => {}
            1 => self.text.push(' '),
            more => self.text.extend(std::iter::repeat_n('\n', more - 1)),
        }
        self.breaks = 0;
        self.text.push_str(line);
    }
}

impl Reader<'_> {
    /// Reads unquoted text in a block, which may go on over lines indented deeper than `parent`.
    pub(super) fn plain_block(&mut self, parent: Option<usize>) -> Node {
        let from = self.pos;
        if let Some(problem) = self.bad_first_letter() {
            self.refuse(
                problem,
                codes::SYNTAX,
                "unquoted text cannot start like this",
                "put quotes around it",
            );
            return self.broken(from, parent);
        }
        let mut joined = Joined::default();
        let mut first = None;
        loop {
            let Some((line, commented)) = self.plain_line() else { return self.broken(from, parent) };
            first.get_or_insert(line);
            let range = line.offset..line.offset + line.length;
            joined.line(&self.text[range]);
            self.next_line();
            if commented || !self.continues(parent, &mut joined) {
                break;
            }
        }
        let span = first.unwrap_or_else(|| self.source.span(from, 0));
        self.plain_node(joined.text, span)
    }

    /// Returns the span of a character that unquoted text may not start with.
    pub(super) fn bad_first_letter(&self) -> Option<Span> {
        let bad = match self.byte()? {
            b',' | b']' | b'}' | b'%' | b'@' | b'`' | b'#' => true,
            b'-' | b'?' | b':' => self.blank_at(self.pos + 1),
            _ => false,
        };
        bad.then(|| self.source.span(self.pos, 1))
    }

    /// Reads one line of unquoted text; says whether a comment ended it, or nothing if it was refused.
    fn plain_line(&mut self) -> Option<(Span, bool)> {
        let from = self.pos;
        let end = self.line_end();
        let line = &self.text.as_bytes()[from.min(end)..end];
        let mut stop = line.len();
        for (at, byte) in line.iter().enumerate() {
            match byte {
                b':' if line.get(at + 1).is_none_or(|next| matches!(next, b' ' | b'\t')) => {
                    let span = self.source.span(from + at, 1);
                    let message = "a colon and a space inside unquoted text look like a key";
                    let hint =
                        "put quotes around the text; or, if this is a key, start it on a line of its own";
                    self.refuse(span, codes::SYNTAX, message, hint);
                    return None;
                }
                b'#' if at > 0 && line[at - 1] == b' ' => {
                    stop = at;
                    break;
                }
                b'\t' => {
                    let span = self.source.span(from + at, 1);
                    self.refuse(
                        span,
                        codes::TAB,
                        "a tab in unquoted text",
                        "use spaces, or put quotes around it",
                    );
                    return None;
                }
                _ => {}
            }
        }
        let text = self.text[from..from + stop].trim_end_matches(' ');
        self.pos = from + text.len();
        Some((self.source.span(from, text.len()), stop < line.len()))
    }

    /// Moves to the next line if it continues the text above; counts the line breaks on the way.
    fn continues(&mut self, parent: Option<usize>, joined: &mut Joined) -> bool {
        let start = self.pos;
        let mut breaks = 1;
        while self.pos < self.end {
            let line = &self.text.as_bytes()[self.pos..self.line_end()];
            let indent = line.iter().take_while(|byte| **byte == b' ').count();
            match line.get(indent) {
                None => breaks += 1,
                Some(b'#' | b'\t') => break,
                Some(_) if parent.is_some_and(|parent| indent <= parent) => break,
                Some(_) => {
                    self.pos += indent;
                    joined.breaks = breaks;
                    return true;
                }
            }
            self.next_line();
        }
        self.pos = start;
        false
    }

    /// Reads quoted text. In a block (`within` says how far its lines must be indented) it may go on over lines.
    pub(super) fn quoted(&mut self, within: Option<Option<usize>>) -> Option<Node> {
        let from = self.pos;
        let quote = self.byte()?;
        let mut text = String::new();
        self.pos += 1;
        loop {
            let Some(byte) = self.byte() else {
                let span = self.source.span(from, 1);
                self.refuse(span, codes::SYNTAX, "the quote that opens here is never closed", "close it");
                self.pos = from;
                return None;
            };
            match byte {
                b'\'' if quote == byte && self.byte_at(self.pos + 1) == Some(byte) => {
                    text.push('\'');
                    self.pos += 2;
                }
                _ if byte == quote => break,
                b'\\' if quote == b'"' => text.push(self.escape(from)?),
                b'\n' | b'\r' => self.quoted_break(from, within, &mut text)?,
                _ => self.pass_letter(&mut text),
            }
        }
        self.pos += 1;
        let style = if quote == b'"' { Style::DoubleQuoted } else { Style::SingleQuoted };
        Some(self.node(from, Value::Text(text, style)))
    }

    /// Copies the character at the reading position.
    fn pass_letter(&mut self, text: &mut String) {
        if let Some(letter) = self.text[self.pos..].chars().next() {
            text.push(letter);
            self.pos += letter.len_utf8();
        }
    }

    /// Folds the line breaks at the reading position inside quotes.
    fn quoted_break(&mut self, from: usize, within: Option<Option<usize>>, text: &mut String) -> Option<()> {
        text.truncate(text.trim_end_matches([' ', '\t']).len());
        let mut breaks = 0;
        let mut indent = 0;
        while self.line_ends_at(self.pos) && self.pos < self.end {
            self.next_line();
            breaks += 1;
            let line = &self.text.as_bytes()[self.pos..self.line_end().max(self.pos)];
            indent = line.iter().take_while(|byte| **byte == b' ').count();
            self.pos += indent;
        }
        let outside = matches!(within, Some(Some(parent)) if indent <= parent);
        if self.pos < self.end && outside {
            let span = self.source.span(from, 1);
            let message = "the quote that opens here is not closed within its block";
            self.refuse(span, codes::SYNTAX, message, "close it, or indent the lines that belong to it");
            self.pos = from;
            return None;
        }
        match breaks {
            1 => text.push(' '),
            more => text.extend(std::iter::repeat_n('\n', more - 1)),
        }
        Some(())
    }

    /// Reads a backslash sequence.
    fn escape(&mut self, quote: usize) -> Option<char> {
        let at = self.pos;
        let kind = self.byte_at(at + 1);
        let simple = match kind {
            Some(b'"') => Some('"'),
            Some(b'\\') => Some('\\'),
            Some(b'/') => Some('/'),
            Some(b'n') => Some('\n'),
            Some(b't') => Some('\t'),
            Some(b'r') => Some('\r'),
            _ => None,
        };
        if let Some(letter) = simple {
            self.pos += 2;
            return Some(letter);
        }
        let digits = match kind {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        let code = self.text.get(at + 2..at + 2 + digits).filter(|code| !code.is_empty());
        let letter = code
            .filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|code| u32::from_str_radix(code, 16).ok())
            .and_then(char::from_u32)
            .filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t' | '\r'));
        if letter.is_some() {
            self.pos += 2 + digits;
            return letter;
        }
        let length = if self.line_ends_at(at + 1) { 1 } else { 2 };
        let span = self.source.span(at, length);
        let hint = "use \\\" \\\\ \\/ \\n \\t \\r, \\x.., \\u.... or \\U........ of a printable character; \
                    in single quotes a backslash is itself";
        self.refuse(span, codes::ESCAPE, "this backslash sequence is not read", hint);
        self.pos = quote;
        None
    }

    /// Reads a block after `|` or `>`.
    pub(super) fn block_text(&mut self, parent: Option<usize>) -> Node {
        let from = self.pos;
        let literal = self.byte() == Some(b'|');
        self.pos += 1;
        let mut chomp = None;
        let mut indent = None;
        while let Some(byte) = self.byte() {
            match byte {
                b'+' | b'-' if chomp.is_none() => chomp = Some(byte),
                b'1'..=b'9' if indent.is_none() => {
                    indent = Some(parent.unwrap_or(0) + usize::from(byte - b'0'));
                }
                _ => break,
            }
            self.pos += 1;
        }
        let header = self.pos - from;
        self.finish_line();
        let Some(indent) = indent.or_else(|| self.block_indent(parent)) else {
            let span = self.source.span(from, header);
            let message = "an empty line of this block has more spaces than its first line of text";
            self.refuse(span, codes::INDENTATION, message, "remove the spaces from the empty line");
            self.skip_deeper(parent);
            return self.refused(from);
        };
        let text = self.block_lines(indent, literal, chomp);
        let style = if literal { Style::Literal } else { Style::Folded };
        Node { value: Value::Text(text, style), span: self.source.span(from, header) }
    }

    /// Finds how far the text of a block is indented, or nothing when readers would differ about it.
    fn block_indent(&mut self, parent: Option<usize>) -> Option<usize> {
        let least = parent.map_or(1, |parent| parent + 1);
        let start = self.pos;
        let mut blank_indent = 0;
        let mut found = None;
        while self.pos < self.end {
            let line = &self.text.as_bytes()[self.pos..self.line_end()];
            let indent = line.iter().take_while(|byte| **byte == b' ').count();
            if indent < line.len() {
                found = Some(indent);
                break;
            }
            blank_indent = blank_indent.max(indent);
            self.next_line();
        }
        self.pos = start;
        let indent = found.filter(|indent| *indent >= least).unwrap_or(least);
        (blank_indent <= indent).then_some(indent)
    }

    /// Reads the lines of a block whose text is indented by `indent`.
    fn block_lines(&mut self, indent: usize, literal: bool, chomp: Option<u8>) -> String {
        let mut text = String::new();
        let mut pending_break = false;
        let mut empty_lines = 0;
        let mut was_indented = false;
        while self.pos < self.end {
            let end = self.line_end();
            let line = &self.text[self.pos..end];
            let spaces = line.bytes().take_while(|byte| *byte == b' ').count();
            if spaces == line.len() && spaces <= indent {
                empty_lines += usize::from(self.text[end..].starts_with(['\n', '\r']));
                self.next_line();
                continue;
            }
            if spaces < indent {
                break;
            }
            let line = &line[indent..];
            let is_indented = line.starts_with([' ', '\t']);
            if pending_break && !literal && !was_indented && !is_indented {
                if empty_lines == 0 {
                    text.push(' ');
                }
            } else if pending_break {
                text.push('\n');
            }
            text.extend(std::iter::repeat_n('\n', empty_lines));
            empty_lines = 0;
            text.push_str(line);
            was_indented = is_indented;
            pending_break = self.text[end..self.end.max(end)].starts_with(['\n', '\r']);
            self.next_line();
        }
        if chomp != Some(b'-') && pending_break {
            text.push('\n');
        }
        if chomp == Some(b'+') {
            text.extend(std::iter::repeat_n('\n', empty_lines));
        }
        text
    }
}
