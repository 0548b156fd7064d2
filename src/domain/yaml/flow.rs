//! Flow collections of the marked reader: `[a, b]` and `{key: value}`, also over several lines.

use std::collections::BTreeMap;

use super::codes;
use super::problem::Span;
use super::reader::Reader;
use super::{Entry, Limits, Node, Value};

impl Reader<'_> {
    /// Reads the flow value at the reading position, or nothing when the rest of it cannot be understood.
    pub(super) fn flow(&mut self, depth: usize) -> Option<Node> {
        let from = self.pos;
        match self.byte() {
            Some(b'[' | b'{') if depth == Limits::FLOW_DEPTH_MAX => {
                let message = format!("brackets are open more than {} deep", Limits::FLOW_DEPTH_MAX);
                self.refuse(self.source.span(from, 1), codes::TOO_DEEP, &message, "flatten the structure");
                None
            }
            Some(b'[') => self.flow_list(depth),
            Some(b'{') => self.flow_map(depth),
            Some(b'"' | b'\'') => self.quoted(None),
            Some(b'*') => {
                self.alias();
                while !self.blank_at(self.pos) && !self.at_flow_end() {
                    self.pos += 1;
                }
                Some(self.refused(from))
            }
            Some(b'&' | b'!') => {
                self.properties();
                self.flow(depth)
            }
            Some(_) | None => self.flow_plain(),
        }
    }

    fn at_flow_end(&self) -> bool {
        matches!(self.byte(), None | Some(b',' | b']' | b'}'))
    }

    fn flow_list(&mut self, depth: usize) -> Option<Node> {
        let from = self.pos;
        let mut items = Vec::new();
        self.pos += 1;
        loop {
            self.flow_space(from)?;
            if self.byte() == Some(b']') {
                break;
            }
            let item = self.flow(depth + 1)?;
            let quoted = matches!(self.byte_at(item.span.offset), Some(b'"' | b'\'' | b'[' | b'{'));
            items.push(item);
            self.flow_space(from)?;
            match self.byte() {
                Some(b',') => self.pos += 1,
                Some(b']') => break,
                Some(b':') if quoted || self.blank_at(self.pos + 1) => {
                    let span = self.source.span(self.pos, 1);
                    let hint = "write `{key: value}`, or quote text that holds a colon";
                    self.refuse(span, codes::SYNTAX, "a key and value without braces in a list", hint);
                    return None;
                }
                _ => return self.flow_expected("a comma or `]`"),
            }
        }
        self.pos += 1;
        Some(self.node(from, Value::List(items)))
    }

    fn flow_map(&mut self, depth: usize) -> Option<Node> {
        let from = self.pos;
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = BTreeMap::new();
        self.pos += 1;
        loop {
            self.flow_space(from)?;
            if self.byte() == Some(b'}') {
                break;
            }
            if let Some(entry) = self.flow_entry(from, depth)? {
                self.keep(entry, &mut entries, &mut seen);
            }
            self.flow_space(from)?;
            match self.byte() {
                Some(b',') => self.pos += 1,
                Some(b'}') => break,
                _ => return self.flow_expected("a comma or `}`"),
            }
        }
        self.pos += 1;
        Some(self.node(from, Value::Map(entries)))
    }

    /// Reads `key: value`; the inner nothing means that the key was refused but reading can go on.
    #[expect(clippy::option_option, reason = "not understood, refused and read are three outcomes")]
    fn flow_entry(&mut self, open: usize, depth: usize) -> Option<Option<Entry>> {
        if matches!(self.byte(), Some(b'&' | b'!')) {
            self.properties();
        }
        let quoted = matches!(self.byte(), Some(b'"' | b'\''));
        let line = self.source.row(self.pos);
        let (key, key_span) = if quoted {
            let node = self.quoted(None)?;
            let Value::Text(text, _) = node.value else { return None };
            (text, node.span)
        } else {
            if matches!(self.byte(), Some(b'[' | b'{' | b'*')) {
                return self.flow_expected("a key");
            }
            let span = self.flow_word()?;
            (self.text[span.offset..span.offset + span.length].to_owned(), span)
        };
        self.skip_spaces();
        let colon = self.byte() == Some(b':') && (quoted || self.blank_at(self.pos + 1));
        if !colon || self.source.row(self.pos) != line {
            let message = "a key without a value in braces";
            self.refuse(key_span, codes::SYNTAX, message, "write `key: value`, with a space after the colon");
            return None;
        }
        self.pos += 1;
        self.flow_space(open)?;
        if key == "<<" && !quoted {
            let hint = "write the keys out where they are used";
            self.refuse(key_span, codes::MERGE_KEY, "a merge key is not read", hint);
            return None;
        }
        let node = if self.at_flow_end() {
            Node { value: Value::Null, span: self.source.span(self.pos, 0) }
        } else {
            self.flow(depth + 1)?
        };
        Some(self.readable_key(key, key_span).map(|key| Entry { key, key_span, node }))
    }

    fn flow_expected<T>(&mut self, what: &str) -> Option<T> {
        let length = self.text[self.pos..].chars().next().map_or(0, char::len_utf8);
        let span = self.source.span(self.pos, length);
        let message = format!("{what} is expected here");
        self.refuse(span, codes::SYNTAX, &message, "quote text that holds brackets, braces or commas");
        None
    }

    /// Passes white space, line breaks and comments between the parts of the collection that opened at `open`.
    fn flow_space(&mut self, open: usize) -> Option<()> {
        loop {
            let before = self.pos;
            self.skip_spaces();
            let line_start = self.pos == 0 || self.byte_at(self.pos - 1) == Some(b'\n');
            match self.byte() {
                None => {
                    let span = self.source.span(open, 1);
                    self.refuse(
                        span,
                        codes::SYNTAX,
                        "the bracket that opens here is never closed",
                        "close it",
                    );
                    return None;
                }
                Some(b'#') if self.pos > before || line_start => self.next_line(),
                Some(b'\n' | b'\r') => self.next_line(),
                Some(b'#') => return self.flow_expected("a space before the comment"),
                Some(_) => return Some(()),
            }
        }
    }

    /// Reads unquoted text in a flow collection.
    fn flow_plain(&mut self) -> Option<Node> {
        let mut span = self.flow_word()?;
        let mut word = self.text[span.offset..span.offset + span.length].to_owned();
        // Text may go on after a line break; such text is never anything but text.
        while self.line_ends_at(self.pos) && self.pos < self.end {
            let (after_word, row) = (self.pos, self.source.row(self.pos));
            while self.pos < self.end && self.line_ends_at(self.pos) {
                self.next_line();
                self.skip_spaces();
            }
            let comment = self.byte() == Some(b'#');
            if self.at_flow_end() || comment || (self.byte() == Some(b':') && self.blank_at(self.pos + 1)) {
                self.pos = after_word;
                break;
            }
            let breaks = self.source.row(self.pos) - row;
            if breaks == 1 {
                word.push(' ');
            } else {
                word.extend(std::iter::repeat_n('\n', breaks - 1));
            }
            span = self.flow_word_at(true)?;
            word.push_str(&self.text[span.offset..span.offset + span.length]);
        }
        Some(self.plain_node(word, span))
    }

    fn flow_word(&mut self) -> Option<Span> {
        self.flow_word_at(false)
    }

    /// Reads the part of an unquoted text that stands on this line.
    fn flow_word_at(&mut self, continued: bool) -> Option<Span> {
        let from = self.pos;
        let dash_alone = matches!(self.byte_at(from + 1), Some(b',' | b'[' | b']' | b'{' | b'}'));
        let bad_start = match self.byte() {
            // Inside brackets these are no text, whatever follows.
            Some(b'?' | b':' | b'|' | b'>') => true,
            Some(b'-') if dash_alone => true,
            _ => !continued && self.bad_first_letter().is_some(),
        };
        if bad_start {
            return self.flow_expected("a value");
        }
        let mut at = from;
        while let Some(byte) = self.byte_at(at) {
            match byte {
                b',' | b'[' | b']' | b'{' | b'}' => break,
                b'\n' => break,
                b'\r' if self.line_ends_at(at) => break,
                b':' if self.blank_at(at + 1) => break,
                b':' if matches!(self.byte_at(at + 1), Some(b',' | b'[' | b']' | b'{' | b'}')) => {
                    self.pos = at;
                    return self.flow_expected("a space after the colon");
                }
                b'#' if at > from && self.byte_at(at - 1) == Some(b' ') => break,
                b'\t' => {
                    let span = self.source.span(at, 1);
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
            at += 1;
        }
        let text = self.text[from..at].trim_end_matches(' ');
        self.pos = from + text.len();
        Some(self.source.span(from, text.len()))
    }
}
