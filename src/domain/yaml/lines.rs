//! Moving over lines: what is blank, what is a comment, what is left of a line after a value.

use super::codes;
use super::problem::{Code, Problem, Source, Span};
use super::reader::Reader;
use super::{Limits, Node, Value};

impl<'a> Reader<'a> {
    /// Starts at the top of `source`; bytes from `end` on are not read.
    pub(super) fn new(source: &'a Source, end: usize, problems: &'a mut Vec<Problem>) -> Self {
        Self { source, text: source.text(), pos: 0, end, depth: 0, tab_skipped: false, problems }
    }

    /// Returns the byte at `at`, if the text reaches so far.
    pub(super) fn byte_at(&self, at: usize) -> Option<u8> {
        if at < self.end { self.text.as_bytes().get(at).copied() } else { None }
    }

    /// Returns the byte at the reading position.
    pub(super) fn byte(&self) -> Option<u8> {
        self.byte_at(self.pos)
    }

    /// Tells whether a token could end at `at`: white space, a line break or the end of the text.
    pub(super) fn blank_at(&self, at: usize) -> bool {
        self.byte_at(at).is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
    }

    /// Tells whether a line ends at `at`.
    pub(super) fn line_ends_at(&self, at: usize) -> bool {
        match self.byte_at(at) {
            None | Some(b'\n') => true,
            Some(b'\r') => self.byte_at(at + 1).is_none_or(|byte| byte == b'\n'),
            Some(_) => false,
        }
    }

    /// Returns the start of the line that holds the reading position.
    pub(super) fn line_start(&self) -> usize {
        self.source.line_range(self.source.row(self.pos)).start
    }

    /// Returns the end of that line, before its line break.
    pub(super) fn line_end(&self) -> usize {
        self.source.line_range(self.source.row(self.pos)).end.min(self.end)
    }

    /// Moves to the start of the next line, or to the end of the text.
    pub(super) fn next_line(&mut self) {
        let row = self.source.row(self.pos) + 1;
        let next = if row < self.source.line_count() { self.source.line_range(row).start } else { self.end };
        self.pos = next.min(self.end);
    }

    /// Returns the indentation of the next line with content; moves to that line's start, or to the end of the text.
    ///
    /// Directives and lines whose indentation holds a tab are passed by: they are reported already.
    pub(super) fn settle(&mut self) -> Option<usize> {
        while self.pos < self.end {
            let line = &self.text.as_bytes()[self.pos..self.line_end()];
            let indent = line.iter().take_while(|byte| **byte == b' ').count();
            match line.get(indent) {
                None | Some(b'#') => {}
                Some(b'%') if indent == 0 => {}
                Some(b'\t') => self.tab_skipped = true,
                Some(_) => return Some(indent),
            }
            self.next_line();
        }
        None
    }

    /// Passes spaces; a tab among them is refused.
    pub(super) fn skip_spaces(&mut self) {
        while let Some(byte) = self.byte() {
            match byte {
                b' ' => {}
                b'\t' => self.tab_here(),
                _ => return,
            }
            self.pos += 1;
        }
    }

    fn tab_here(&mut self) {
        let problem = self.source.problem(self.source.span(self.pos, 1), codes::TAB, "a tab between words");
        self.push(problem.with_hint("use spaces, or quotes around text that holds a tab"));
    }

    /// Passes what may follow a value on its line: spaces and a comment; anything else is refused.
    pub(super) fn finish_line(&mut self) {
        let before = self.pos;
        self.skip_spaces();
        if !self.line_ends_at(self.pos) {
            let comment = self.byte() == Some(b'#') && self.pos > before;
            if !comment {
                let span = self.rest_of_line();
                let message = "the value ended, but the line goes on";
                let hint = "start a new line, or put quotes around the whole value";
                self.refuse(span, codes::SYNTAX, message, hint);
            }
        }
        self.next_line();
    }

    /// Returns the span from the reading position to the end of the line, without trailing spaces.
    pub(super) fn rest_of_line(&self) -> Span {
        let rest = &self.text[self.pos..self.line_end().max(self.pos)];
        self.source.span(self.pos, rest.trim_end().len())
    }

    /// Passes the rest of this line and all lines indented deeper than `indent`.
    pub(super) fn skip_block(&mut self, indent: Option<usize>) {
        self.next_line();
        self.skip_deeper(indent);
    }

    /// Passes lines indented deeper than `indent` (all of them when there is none).
    pub(super) fn skip_deeper(&mut self, indent: Option<usize>) {
        while self.settle().is_some_and(|found| indent.is_none_or(|indent| found > indent)) {
            self.next_line();
        }
    }

    /// Reports a problem with its way out.
    pub(super) fn refuse(&mut self, span: Span, code: Code, message: &str, hint: &str) {
        let problem = self.source.problem(span, code, message).with_hint(hint);
        self.push(problem);
    }

    /// Adds a problem; past the bound reading ends, which keeps a hopeless text cheap.
    pub(super) fn push(&mut self, problem: Problem) {
        if self.problems.len() < Limits::PROBLEMS_MAX {
            self.problems.push(problem);
        } else if self.end > 0 {
            let message = format!("more than {} problems; the rest is not listed", Limits::PROBLEMS_MAX);
            self.problems.push(
                Problem { message, code: codes::MORE, suggestion: None, hint: None, ..problem }
                    .with_hint("mend those that are listed, and look again"),
            );
            self.end = 0;
            self.pos = 0;
        }
    }

    /// Makes a node from `from` up to the reading position.
    pub(super) fn node(&self, from: usize, value: Value) -> Node {
        Node { value, span: self.source.span(from, self.pos.saturating_sub(from)) }
    }

    /// Makes the node that stands for something reported.
    pub(super) fn refused(&self, from: usize) -> Node {
        Node { value: Value::Refused, span: self.source.span(from, 0) }
    }
}
