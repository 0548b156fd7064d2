//! The marked reader: block maps and lists of our subset, every key and value with its place.
//!
//! It never looks back, so its time is linear in the text; it goes on after a problem wherever the indentation says
//! where the next key is.

use std::collections::BTreeMap;

use super::problem::{Problem, Source, Span};
use super::scalar::{Plain, resolve};
use super::{Entry, Limits, Node, Style, Value, codes};

/// A key is a word or two; longer ones are refused (parsers stop looking for a key's colon after 1,024 characters).
const KEY_BYTES_MAX: usize = 256;

/// Where reading stands in a text.
pub(super) struct Reader<'a> {
    pub(super) source: &'a Source,
    pub(super) text: &'a str,
    pub(super) pos: usize,
    pub(super) end: usize,
    /// Blocks open around the reading position.
    pub(super) depth: usize,
    /// Set when a line was passed by because of its tab: an empty value above it is not really empty.
    pub(super) tab_skipped: bool,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    /// Reads the whole document.
    pub(super) fn document(mut self) -> Node {
        self.pass_marker();
        let Some(indent) = self.settle() else {
            let value = if self.tab_skipped { Value::Refused } else { Value::Null };
            return Node { value, span: self.source.span(0, 0) };
        };
        self.pos += indent;
        let root = self.block(indent, None);
        while let Some(indent) = self.settle() {
            self.pos += indent;
            let span = self.rest_of_line();
            self.refuse(
                span,
                codes::INDENTATION,
                "this line belongs to no block above",
                "check its indentation",
            );
            self.skip_block(Some(indent));
        }
        root
    }

    /// Passes the one `---` that may stand above the document.
    fn pass_marker(&mut self) {
        if self.settle() == Some(0)
            && self.text[self.pos..self.end].starts_with("---")
            && self.blank_at(self.pos + 3)
        {
            self.pos += 3;
            self.finish_line();
        }
    }

    /// Reads the node at the reading position, which is at column `column` (in bytes from the line's start); lines
    /// that continue it are indented deeper than `parent`.
    pub(super) fn block(&mut self, column: usize, parent: Option<usize>) -> Node {
        let from = self.pos;
        if matches!(self.byte(), Some(b'&' | b'!')) {
            self.properties();
            if self.line_ends_at(self.pos) {
                return self.below_properties(from, parent);
            }
        }
        if self.is_dash() {
            return self.nested(|reader| reader.list(column)).unwrap_or_else(|| self.too_deep(from, column));
        }
        if self.refuse_marked_key() {
            self.skip_block(parent);
            return self.refused(from);
        }
        if self.key_ahead() {
            return self.nested(|reader| reader.map(column)).unwrap_or_else(|| self.too_deep(from, column));
        }
        self.inline(parent, false)
    }

    /// Reads the node whose anchor or tag stood on a line of its own.
    fn below_properties(&mut self, from: usize, parent: Option<usize>) -> Node {
        self.next_line();
        match self.settle() {
            Some(indent) if parent.is_none_or(|parent| indent > parent) => {
                self.pos += indent;
                if matches!(self.byte(), Some(b'&' | b'!')) {
                    self.broken(from, parent)
                } else {
                    self.block(indent, parent)
                }
            }
            _ => self.refused(from),
        }
    }

    /// Runs `read` one block deeper, or returns nothing when that would be too deep.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Node) -> Option<Node> {
        if self.depth == Limits::BLOCK_DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let node = read(self);
        self.depth -= 1;
        Some(node)
    }

    fn too_deep(&mut self, from: usize, column: usize) -> Node {
        let message = format!("blocks nest more than {} deep", Limits::BLOCK_DEPTH_MAX);
        let span = self.rest_of_line();
        self.refuse(span, codes::TOO_DEEP, &message, "flatten the structure");
        self.skip_block(column.checked_sub(1));
        self.refused(from)
    }

    /// Refuses a key written as `? key`, if one stands here.
    fn refuse_marked_key(&mut self) -> bool {
        let marked = self.byte() == Some(b'?') && self.blank_at(self.pos + 1);
        if marked {
            let span = self.rest_of_line();
            self.refuse(span, codes::KEY, "a key marked by `?` is not read", "write `key: value`");
        }
        marked
    }

    /// Tells whether a list item starts here.
    pub(super) fn is_dash(&self) -> bool {
        self.byte() == Some(b'-') && self.blank_at(self.pos + 1)
    }

    /// Tells whether a key with its colon starts here, on this line.
    fn key_ahead(&self) -> bool {
        let end = self.line_end();
        let line = &self.text.as_bytes()[self.pos.min(end)..end];
        let after = match line.first() {
            Some(quote @ (b'"' | b'\'')) => quoted_length(line, *quote),
            Some(b'[' | b'{' | b'|' | b'>' | b'#' | b'&' | b'*' | b'!') | None => None,
            Some(b'-' | b'?' | b':') if self.blank_at(self.pos + 1) => None,
            Some(_) => Some(0),
        };
        let Some(after) = after else { return false };
        let mut previous = b'x';
        for (at, byte) in line.iter().enumerate().skip(after) {
            match byte {
                b':' if line.get(at + 1).is_none_or(|next| matches!(next, b' ' | b'\t')) => return true,
                b'#' if matches!(previous, b' ' | b'\t') => return false,
                b' ' | b'\t' => {}
                _ if after > 0 => return false,
                _ => {}
            }
            previous = *byte;
        }
        false
    }

    /// Reads the map whose keys stand at `column`.
    fn map(&mut self, column: usize) -> Node {
        let from = self.pos;
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        loop {
            if self.is_dash() || !self.key_ahead() {
                self.no_key_here(column);
            } else if let Some(entry) = self.entry(column) {
                self.keep(entry, &mut entries, &mut seen);
            }
            if !self.at_sibling(column) {
                break;
            }
        }
        let length = entries.first().map_or(0, |entry| entry.key_span.length);
        Node { value: Value::Map(entries), span: self.source.span(from, length) }
    }

    /// Adds `entry` unless its key was there before.
    pub(super) fn keep(&mut self, entry: Entry, entries: &mut Vec<Entry>, seen: &mut BTreeMap<String, Span>) {
        if let Some(first) = seen.get(&entry.key) {
            let message = "this key is already in the map";
            let hint = format!("it was first set on line {}, column {}", first.line, first.column);
            self.refuse(entry.key_span, codes::DUPLICATE_KEY, message, &hint);
        } else {
            seen.insert(entry.key.clone(), entry.key_span);
            entries.push(entry);
        }
    }

    /// Refuses a line of a map that has no key.
    fn no_key_here(&mut self, column: usize) {
        match self.byte() {
            Some(b'&' | b'!') => {
                self.properties();
                if self.key_ahead() && !self.is_dash() {
                    self.entry(column);
                    return;
                }
            }
            Some(b'*') => self.alias(),
            _ if self.refuse_marked_key() => {}
            _ => {
                let span = self.rest_of_line();
                let hint = "a key is a word followed by a colon and a space";
                self.refuse(span, codes::SYNTAX, "a `key: value` is expected here", hint);
            }
        }
        self.skip_block(Some(column));
    }

    /// Moves to the next line of a block at `column`; lines that fit nowhere are refused and passed.
    fn at_sibling(&mut self, column: usize) -> bool {
        while let Some(indent) = self.settle() {
            if indent == column {
                self.pos += indent;
                return true;
            }
            if indent < column {
                return false;
            }
            self.pos += indent;
            let span = self.rest_of_line();
            let hint = "indent it like the line it belongs to";
            self.refuse(span, codes::INDENTATION, "this line is indented like no block above it", hint);
            self.skip_block(Some(column));
        }
        false
    }

    /// Reads `key: value`, or nothing when the key is refused.
    fn entry(&mut self, column: usize) -> Option<Entry> {
        let (key, key_span) = self.key()?;
        self.skip_spaces();
        self.pos += 1;
        if key == "<<" && self.source.text()[key_span.offset..].starts_with('<') {
            let hint = "write the keys out where they are used";
            self.refuse(key_span, codes::MERGE_KEY, "a merge key is not read", hint);
            self.skip_block(Some(column));
            return None;
        }
        let node = self.after_indicator(column, true);
        let key = self.readable_key(key, key_span)?;
        Some(Entry { key, key_span, node })
    }

    /// Reads a key up to its colon; the reading position is then behind its last character.
    pub(super) fn key(&mut self) -> Option<(String, Span)> {
        let from = self.pos;
        if matches!(self.byte(), Some(b'"' | b'\'')) {
            let node = self.quoted(None)?;
            let span = node.span;
            let Value::Text(text, _) = node.value else { return None };
            return Some((text, span));
        }
        let mut end = from;
        while let Some(byte) = self.byte_at(end) {
            if byte == b'\n' || (byte == b':' && self.blank_at(end + 1)) {
                break;
            }
            end += 1;
        }
        let text = self.text[from..end].trim_end();
        self.pos = from + text.len();
        Some((text.to_owned(), self.source.span(from, text.len())))
    }

    /// Returns the key if it is text in every reading and not too long.
    pub(super) fn readable_key(&mut self, key: String, span: Span) -> Option<String> {
        let quoted = self.text[span.offset..].starts_with(['"', '\'']);
        if span.length > KEY_BYTES_MAX {
            let message = format!("a key of {} bytes; at most {KEY_BYTES_MAX} are read", span.length);
            self.refuse(span, codes::KEY, &message, "shorten it");
            return None;
        }
        if quoted {
            return Some(key);
        }
        if key.starts_with(['@', '`', '%', ',', ']', '}', '[', '{', '#', '|', '>']) || key.contains('\t') {
            self.refuse(span, codes::KEY, "a key cannot be written like this", "quote it");
            return None;
        }
        match resolve(&key) {
            Ok(Plain::Text) => Some(key),
            Ok(Plain::Null | Plain::Bool(_) | Plain::Integer(_) | Plain::Float(_)) => {
                let hint = format!("quote it: \"{key}\"");
                self.refuse(span, codes::KEY, "a key must be text", &hint);
                None
            }
            Err(_) => {
                let message = format!("the key `{key}` is not text to every reader");
                self.refuse(span, codes::AMBIGUOUS, &message, &format!("quote it: \"{key}\""));
                None
            }
        }
    }

    /// Reads the list whose dashes stand at `column`.
    fn list(&mut self, column: usize) -> Node {
        let from = self.pos;
        let mut items = Vec::new();
        loop {
            self.pos += 1;
            items.push(self.after_indicator(column, false));
            match self.settle() {
                Some(indent) if indent == column => {
                    let start = self.pos;
                    self.pos += indent;
                    if !self.is_dash() {
                        self.pos = start;
                        break;
                    }
                }
                Some(indent) if indent > column => {
                    if !self.at_sibling(column) {
                        break;
                    }
                    if !self.is_dash() {
                        self.pos = self.line_start();
                        break;
                    }
                }
                _ => break,
            }
        }
        Node { value: Value::List(items), span: self.source.span(from, 1) }
    }

    /// Reads what follows a colon or a dash of a block at `column`.
    fn after_indicator(&mut self, column: usize, in_map: bool) -> Node {
        let indicator = self.pos;
        self.skip_spaces();
        let comment = self.byte() == Some(b'#') && self.pos > indicator;
        if self.line_ends_at(self.pos) || comment {
            return self.on_next_line(indicator, column, in_map);
        }
        if matches!(self.byte(), Some(b'&' | b'!')) {
            self.properties();
            let after = self.pos;
            self.skip_spaces();
            if self.line_ends_at(self.pos) || (self.byte() == Some(b'#') && self.pos > after) {
                return self.on_next_line(indicator, column, in_map);
            }
        }
        if in_map {
            return self.inline(Some(column), true);
        }
        let inner = self.pos - self.line_start();
        self.block(inner, Some(column))
    }

    /// Reads a value that starts below its key or dash, or is absent.
    fn on_next_line(&mut self, indicator: usize, column: usize, in_map: bool) -> Node {
        let empty = self.source.span(indicator, 0);
        self.next_line();
        self.tab_skipped = false;
        let indent = self.settle();
        let tab_skipped = self.tab_skipped;
        match indent {
            Some(indent) if indent > column => {
                self.pos += indent;
                self.block(indent, Some(column))
            }
            Some(indent) if in_map && indent == column && self.dash_at(self.pos + indent) => {
                let from = self.pos + indent;
                self.pos = from;
                self.nested(|reader| reader.list(column)).unwrap_or_else(|| self.too_deep(from, column))
            }
            _ if tab_skipped => Node { value: Value::Refused, span: empty },
            _ => Node { value: Value::Null, span: empty },
        }
    }

    fn dash_at(&self, at: usize) -> bool {
        self.byte_at(at) == Some(b'-') && self.blank_at(at + 1)
    }

    /// Reads a value that is not a block, and finishes its line.
    fn inline(&mut self, parent: Option<usize>, after_key: bool) -> Node {
        let from = self.pos;
        match self.byte() {
            Some(b'"' | b'\'') => match self.quoted(Some(parent)) {
                Some(node) => self.finished(node),
                None => self.broken(from, parent),
            },
            Some(b'[' | b'{') => match self.flow(0) {
                Some(node) => self.finished(node),
                None => self.broken(from, parent),
            },
            Some(b'|' | b'>') => self.block_text(parent),
            Some(b'*') => {
                self.alias();
                self.broken(from, parent)
            }
            Some(b'&' | b'!') => {
                self.properties();
                self.skip_spaces();
                if self.line_ends_at(self.pos) {
                    self.broken(from, parent)
                } else {
                    self.inline(parent, after_key)
                }
            }
            Some(b'-' | b'?') if after_key && self.blank_at(self.pos + 1) => {
                let span = self.rest_of_line();
                let hint = "start the list on the next line, or write it as `[a, b]`";
                self.refuse(span, codes::SYNTAX, "a list cannot start behind a key", hint);
                self.broken(from, parent)
            }
            Some(_) | None => self.plain_block(parent),
        }
    }

    fn finished(&mut self, node: Node) -> Node {
        self.finish_line();
        node
    }

    /// Passes the rest of a value that was refused.
    pub(super) fn broken(&mut self, from: usize, parent: Option<usize>) -> Node {
        self.skip_block(parent);
        self.refused(from)
    }

    /// Refuses and passes the anchors and tags in front of a value.
    pub(super) fn properties(&mut self) {
        while let Some(byte @ (b'&' | b'!')) = self.byte() {
            let span = self.word();
            if byte == b'&' {
                let hint = "write the value out where it is used; quote text that starts with `&`";
                self.refuse(span, codes::ANCHOR, "an anchor is not read", hint);
            } else {
                let hint = "remove the tag; quote text that starts with `!`";
                self.refuse(span, codes::TAG, "a tag is not read", hint);
            }
            self.pos += span.length;
            self.skip_spaces();
        }
    }

    /// Refuses an alias; the reading position stays.
    pub(super) fn alias(&mut self) {
        let span = self.word();
        let hint = "write the value out; quote text that starts with `*`";
        self.refuse(span, codes::ALIAS, "an alias is not read", hint);
    }

    /// Returns the span of the word at the reading position.
    fn word(&self) -> Span {
        let mut end = self.pos + 1;
        while !self.blank_at(end) && !matches!(self.byte_at(end), Some(b',' | b']' | b'}' | b'[' | b'{')) {
            end += 1;
        }
        self.source.span(self.pos, end - self.pos)
    }

    /// Turns an unquoted word into a node.
    pub(super) fn plain_node(&mut self, word: String, span: Span) -> Node {
        let value = match resolve(&word) {
            Ok(Plain::Null) => Value::Null,
            Ok(Plain::Bool(value)) => Value::Bool(value),
            Ok(Plain::Integer(value)) => Value::Integer(value),
            Ok(Plain::Float(value)) => Value::Float(value),
            Ok(Plain::Text) => Value::Text(word, Style::Plain),
            Err(doubt) => {
                self.refuse(span, codes::AMBIGUOUS, &doubt.message, &doubt.hint);
                Value::Refused
            }
        };
        Node { value, span }
    }
}

/// Returns the length of the quoted text at the start of `line`, if it ends there.
fn quoted_length(line: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    while at < line.len() {
        match line[at] {
            b'\\' if quote == b'"' => at += 1,
            byte if byte == quote && quote == b'\'' && line.get(at + 1) == Some(&quote) => at += 1,
            byte if byte == quote => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}
