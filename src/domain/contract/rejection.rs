//! What is said about a message that was refused: counts, hashes, codes and paths, and none of its text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FinalPart, Mode, Stop};
use crate::codes::closed_codes;
use crate::hash::Sha256Hash;
use crate::id::TypeRef;

/// More issues of one message tell nobody more; the rest is counted.
pub const ISSUES_MAX: usize = 16;

/// Says at which step a message was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It does not consist of exactly one text.
    Parts,
    /// The model did not come to an end by itself.
    Stop,
    /// Its text is not one JSON value.
    Json,
    /// Its text is no reply.
    Text,
    /// Its value does not fit the contract.
    Contract,
}

closed_codes! {
    /// Says what exactly is wrong; a closed list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    IssueCode {
        /// There is no text part.
        NoText = "no-text", "the message has no text";
        /// There is more than one text part.
        SeveralTexts = "several-texts", "the message has more than one text part";
        /// A tool was called that nobody offered.
        ToolCall = "tool-call", "the message calls a tool that nobody offered";
        /// There is a part that is neither text nor thinking.
        OtherPart = "other-part", "the message has a part that is no text";
        /// The tokens were used up.
        Truncated = "truncated", "the model ran out of tokens: what it said is cut off";
        /// Something else stopped the model.
        Stopped = "stopped", "the model was stopped before it came to an end";
        /// The text is not UTF-8.
        NotUtf8 = "not-utf-8", "the text is not UTF-8";
        /// The text is larger than any value can be.
        TooLarge = "too-large", "the text is larger than any value can be";
        /// The text, or a text in it, says nothing.
        Empty = "empty", "nothing is said where something must be";
        /// The text, or a text in it, is too long.
        TooLong = "too-long", "the text is longer than its bound";
        /// The text begins with thinking.
        ThinkingTag = "thinking-tag", "the text begins with thinking in a tag";
        /// The text begins with a Markdown fence.
        Fenced = "fenced", "the value stands in a Markdown fence";
        /// Something stands before a value.
        ProseBefore = "prose-before", "something is said before the value";
        /// Something stands behind the value.
        TrailingText = "trailing-text", "something is said behind the value";
        /// There is more than one value.
        SeveralValues = "several-values", "there is more than one value";
        /// The text ends inside the value.
        CutOff = "cut-off", "the text ends inside the value";
        /// A key stands twice in one object.
        DuplicateKey = "duplicate-key", "a key stands twice in one object";
        /// A number is none of JSON's.
        InvalidNumber = "invalid-number", "a number is not one that JSON has";
        /// The value is nested too deeply.
        TooDeep = "too-deep", "the value is nested too deeply";
        /// The text is not JSON in any other way.
        NotJson = "not-json", "the text is not JSON";
        /// A field is missing.
        MissingField = "missing-field", "a field is missing";
        /// A field is not known; its name is the model's and is not told.
        UnknownField = "unknown-field", "there is a field that the contract does not have";
        /// A value has another type.
        WrongType = "wrong-type", "the value is of another type";
        /// A list is too long.
        TooMany = "too-many", "the list is longer than its bound";
        /// A word is not one of those allowed.
        NotAllowed = "not-allowed", "the word is not one of those allowed";
        /// A number lies outside its range.
        OutOfRange = "out-of-range", "the number lies outside its range";
    }
}

/// Is one thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Issue {
    /// What.
    pub code: IssueCode,
    /// Where, as a JSON pointer made of the contract's own names and of numbers; empty for the whole.
    #[schemars(length(max = 64))]
    pub path: String,
}

/// Gathers issues up to a bound, and counts all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issues {
    list: Vec<Issue>,
    total: u32,
}

impl Issues {
    /// Makes the one issue of a whole message.
    #[must_use]
    pub fn one(code: IssueCode) -> Self {
        Self { list: vec![Issue { code, path: String::new() }], total: 1 }
    }

    /// Makes the one issue of a message, at a place in it.
    pub(super) fn at(code: IssueCode, path: &str) -> Self {
        Self { list: vec![Issue { code, path: path.to_owned() }], total: 1 }
    }

    /// Adds an issue; past the bound it is only counted.
    pub(super) fn push(&mut self, code: IssueCode, path: &str) {
        self.total = self.total.saturating_add(1);
        if self.list.len() < ISSUES_MAX {
            self.list.push(Issue { code, path: path.to_owned() });
        }
    }

    /// Says whether nothing is wrong.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns how many there are, those past the bound included.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Returns the issues up to the bound, to keep.
    #[must_use]
    pub fn into_list(self) -> Vec<Issue> {
        self.list
    }
}

impl std::fmt::Display for Issues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, issue) in self.list.iter().enumerate() {
            let place = if issue.path.is_empty() { "the whole" } else { &issue.path };
            write!(f, "{}{place}: {}", if index > 0 { "; " } else { "" }, issue.code.words())?;
        }
        let more = self.total as usize - self.list.len();
        if more > 0 { write!(f, "; and {more} more") } else { Ok(()) }
    }
}

impl std::error::Error for Issues {}

/// Says what a message consisted of, in numbers and one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counts {
    /// Its text parts.
    pub texts: u32,
    /// Its thinking parts.
    pub thinking: u32,
    /// Its tool calls.
    pub tool_calls: u32,
    /// Its other parts.
    pub others: u32,
    /// The bytes of all its text.
    pub bytes: u64,
    /// The characters of all its text in UTF-16 code units, where it is UTF-8.
    pub characters: u64,
    /// The hash of all its text.
    pub sha256: Sha256Hash,
}

impl Counts {
    /// Counts the parts of a message.
    #[must_use]
    pub fn of(parts: &[FinalPart]) -> Self {
        let mut all = Vec::new();
        let (mut texts, mut thinking, mut tool_calls, mut others) = (0, 0, 0, 0);
        for part in parts {
            match part {
                FinalPart::Text(text) => {
                    texts += 1;
                    all.extend_from_slice(text.reveal());
                }
                FinalPart::Thinking => thinking += 1,
                FinalPart::ToolCall => tool_calls += 1,
                FinalPart::Other => others += 1,
            }
        }
        let characters = std::str::from_utf8(&all).map_or(0, crate::text::characters) as u64;
        let (bytes, sha256) = (all.len() as u64, Sha256Hash::of(&all));
        Self { texts, thinking, tool_calls, others, bytes, characters, sha256 }
    }
}

/// Is the verdict on a message that was refused. It never holds any of the message's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rejection {
    /// The contract.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// How the message was read.
    pub mode: Mode,
    /// At which step it was refused.
    pub class: Class,
    /// Why the model stopped.
    pub stop: Stop,
    /// What it consisted of.
    pub counts: Counts,
    /// How many issues it has.
    pub issue_count: u32,
    /// What is wrong, up to a bound.
    #[schemars(length(min = 1, max = 16))]
    pub issues: Vec<Issue>,
}

impl Rejection {
    /// Returns the code of the failure that the attempt ends in: `output.` and the step.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self.class {
            Class::Parts => "output.parts",
            Class::Stop => "output.stop",
            Class::Json => "output.json",
            Class::Text => "output.text",
            Class::Contract => "output.contract",
        }
    }

    /// Says whether another generation may be asked to do it right.
    ///
    /// Form can be repaired. A message that called a tool nobody offered, or called one wrongly, reached for
    /// authority it was not given, and one that was filtered was refused by somebody else: neither is a matter of
    /// form.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        let is_final = |issue: &Issue| {
            matches!(issue.code, IssueCode::ToolCall | IssueCode::Stopped) || issue.path.starts_with("/calls")
        };
        !self.issues.iter().any(is_final)
    }
}
