//! What a person or an agent is told when a command does not do what was asked.

use std::error::Error;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use thoughtstream_domain::cause::causes;
use thoughtstream_domain::text::{json_printable, printable};

use crate::exit::Exit;

/// Is a command's one error: a stable code, what was tried, why it failed, and the way out.
///
/// It crosses the socket as it is, so that the answer is the same whether the service or the command found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// The exit code's number.
    exit: u8,
    /// The stable name of the kind of error, `noun.what`.
    pub code: String,
    /// What was tried and with which value; shown as one line.
    pub what: String,
    /// What belongs to it and needs lines of its own, such as a list of problems.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub lines: Box<[String]>,
    /// Why it failed, outermost cause first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// What to do next; ids only, never a name from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Failure {
    /// Makes a failure.
    pub fn new(exit: Exit, code: &str, what: impl Into<String>) -> Self {
        let (code, what) = (code.to_owned(), what.into());
        Self { exit: exit.code(), code, what, lines: Box::default(), causes: Vec::new(), hint: None }
    }

    /// Makes a failure of an error and everything behind it.
    pub fn of(exit: Exit, code: &str, error: &dyn Error) -> Self {
        Self::new(exit, code, error.to_string()).because(error)
    }

    /// Adds an error and everything behind it as causes.
    #[must_use]
    pub fn because(mut self, error: &dyn Error) -> Self {
        for cause in causes(error) {
            // What was tried may be what the error says itself; once is enough.
            if self.causes.last().unwrap_or(&self.what) != &cause {
                self.causes.push(cause);
            }
        }
        self
    }

    /// Adds a text of ours that has several lines.
    #[must_use]
    pub fn with_lines(mut self, text: &str) -> Self {
        self.lines = text.lines().map(str::to_owned).collect();
        self
    }

    /// Adds the way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says how the program ends with it, where that depends on who asked.
    #[must_use]
    pub fn ending(mut self, exit: Exit) -> Self {
        self.exit = exit.code();
        self
    }

    /// Returns how the program ends with it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::from_code(self.exit)
    }

    /// Renders it for a terminal; nothing from outside reaches it unescaped.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = format!("thought: {}", printable(&self.what));
        for line in &self.lines {
            write!(out, "\n{}", printable(line)).expect("writing to a String does not fail");
        }
        for cause in &self.causes {
            write!(out, ": {}", printable(cause)).expect("writing to a String does not fail");
        }
        writeln!(out, " [{}]", printable(&self.code)).expect("writing to a String does not fail");
        if let Some(hint) = &self.hint {
            for line in hint.lines() {
                writeln!(out, "  {}", printable(line)).expect("writing to a String does not fail");
            }
        }
        out
    }

    /// Renders it for a program, on one line: the exit code's number, the stable code, and what is said to people.
    #[must_use]
    pub fn render_json(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers and text are JSON");
        json_printable(&json) + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read `x`")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_whole_chain_is_told_once_and_the_way_out_last() {
        let error = Outer(std::io::Error::other("no such thing"));
        let failure = Failure::of(Exit::CouldNotLook, "store.read", &error).with_hint("run `thought doctor`");
        assert_eq!(
            failure.render(),
            "thought: cannot read `x`: no such thing [store.read]\n  run `thought doctor`\n"
        );
        assert_eq!(failure.exit(), Exit::CouldNotLook);
    }

    #[test]
    fn a_hostile_name_cannot_move_the_cursor() {
        let name = "no file `a\nthought: b\u{1b}[2Jx\u{202e}`";
        let mut failure = Failure::new(Exit::Refused, "file.name", name);
        failure.causes.push(name.to_owned());
        let hostile = |text: &str| text.trim_end().chars().any(thoughtstream_domain::text::is_hostile);
        assert!(!hostile(&failure.render()) && !hostile(&failure.render_json()));
        let read: Failure = serde_json::from_str(&failure.render_json()).unwrap();
        assert_eq!(read, failure);
    }

    #[test]
    fn a_list_keeps_its_lines() {
        let failure = Failure::new(Exit::Usage, "config.problems", "nothing was loaded").with_lines("a\nb\n");
        assert_eq!(failure.render(), "thought: nothing was loaded\na\nb [config.problems]\n");
    }
}
