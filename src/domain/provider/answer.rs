//! What a model answered, before anybody has judged it.

use crate::content::Content;
use crate::hash::Sha256Hash;

/// Is one answer of a model, as the provider gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its parts, in order; there may be none.
    pub parts: Vec<AnswerPart>,
    /// Why it ended there.
    pub stop: StopReason,
    /// What the provider says it used.
    pub usage: Usage,
    /// The model that answered, as the provider names it: the one that was asked, or a dated form of it.
    pub model: String,
}

/// Is one part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    /// Text.
    Text(Content<String>),
    /// What the model thought: it is counted and hashed, and not kept.
    Thinking {
        /// How long it was.
        bytes: u64,
        /// Its hash.
        sha256: Sha256Hash,
    },
    /// A tool it wants to call, one of those that were offered.
    ToolCall {
        /// The provider's id of the call.
        id: String,
        /// The tool.
        name: String,
        /// The arguments, as the model wrote them.
        arguments: Content<String>,
    },
}

/// Says why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// The bound of the answer was reached: it is cut.
    Length,
    /// The model waits for the tools it called.
    ToolCalls,
    /// The provider filtered it.
    ContentFilter,
    /// The model declined.
    Refusal,
}

impl StopReason {
    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool-calls",
            Self::ContentFilter => "content-filter",
            Self::Refusal => "refusal",
        }
    }
}

/// Is what the provider reported; `None` where it reported nothing that can be believed. A missing number is
/// never zero: the reserved estimate stands in for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    /// Tokens it read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// What it cost, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
}

impl Answer {
    /// Returns the texts, in order.
    pub fn texts(&self) -> impl Iterator<Item = &Content<String>> {
        self.parts.iter().filter_map(|part| match part {
            AnswerPart::Text(text) => Some(text),
            AnswerPart::Thinking { .. } | AnswerPart::ToolCall { .. } => None,
        })
    }
}
