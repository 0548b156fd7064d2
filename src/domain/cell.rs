//! What the trusted parent and the sandboxed worker say to each other: four messages, in one order.
//!
//! The parent hands in a [`Packet`]; the worker asks once ([`Ask`]); the parent answers ([`Told`]); the worker
//! says what it takes for the final message, and which calls in it it captured ([`CellResult`]), and closes. Each
//! message is one frame ([`frame`]); [`exchange`] holds the parent's half and refuses everything else. What is
//! asked stays opaque here: a broker checks the request against what was frozen. A contract judges the parts; only
//! the calls among them are read here ([`capture`]), on both sides.

pub mod capture;
pub mod exchange;
pub mod frame;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::id::{IdError, RunId};
use crate::proposal::capability::WorkerCapability;
pub use crate::provider::REQUEST_BYTES_MAX;
use crate::provider::{self, AnswerPart, ProviderCode, StopReason};
use crate::text::characters;

use self::capture::Capture;

/// The version of this protocol, which is no version of an event; a worker of another one is refused before it is
/// asked anything. Since version 2 a packet says what may be proposed, and a result which calls were captured.
pub const VERSION: u32 = 2;

/// The most bytes of a frame around what it carries: version, run, counts and the names of members.
pub const ENVELOPE_BYTES_MAX: usize = 1 << 10;

/// The most bytes of what may be proposed: the ids of more events than a context selects messages from.
pub const CAPABILITY_BYTES_MAX: usize = 64 << 10;

/// The longest answer and the longest result in bytes: far more than any contract accepts.
pub const ANSWER_BYTES_MAX: usize = 2 << 20;

/// The longest refusal code in bytes.
pub const CODE_BYTES_MAX: usize = 64;

/// Is a model request as JSON, byte for byte as it was frozen; printed by its size only.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Request(Box<RawValue>);

/// The text is no JSON value, or too long for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a request: expected one JSON value of at most {REQUEST_BYTES_MAX} bytes")]
pub struct RequestError;

impl Request {
    /// Takes a request that was written as JSON.
    ///
    /// # Errors
    /// [`RequestError`] if it is not one JSON value, or too long.
    pub fn parse(json: String) -> Result<Self, RequestError> {
        if json.len() > REQUEST_BYTES_MAX {
            return Err(RequestError);
        }
        RawValue::from_string(json).map(Self).map_err(|_| RequestError)
    }

    /// Returns the JSON as it was written.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl Eq for Request {}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({} bytes)", self.as_json().len())
    }
}

/// Starts a worker: what it may ask, for which run, and how much it may be told and say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Packet {
    /// The version of the protocol.
    pub version: u32,
    /// The run; every later message names it.
    pub run: RunId,
    /// The longest frame in bytes that the worker has to accept and may write.
    pub answer_bytes_max: usize,
    /// What may be proposed; without it no call is captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposals: Option<WorkerCapability>,
    /// What to ask.
    pub request: Request,
}

impl Packet {
    /// Makes a packet of this version, with which nothing may be proposed.
    #[must_use]
    pub const fn new(run: RunId, request: Request) -> Self {
        Self { version: VERSION, run, answer_bytes_max: ANSWER_BYTES_MAX, proposals: None, request }
    }

    /// Says what may be proposed.
    #[must_use]
    pub fn with_proposals(self, proposals: Option<WorkerCapability>) -> Self {
        Self { proposals, ..self }
    }
}

/// Is the one request of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Ask {
    /// The version of the protocol.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// What is asked.
    pub request: Request,
}

/// Is the answer to the one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Told {
    /// The version of the protocol.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// What came of it.
    pub outcome: Outcome,
}

impl Told {
    /// Makes an answer of this version.
    #[must_use]
    pub const fn new(run: RunId, outcome: Outcome) -> Self {
        Self { version: VERSION, run, outcome }
    }
}

/// Says what came of the one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The model answered.
    Answered(Answer),
    /// There is no answer, for a reason from an allow-listed set.
    Refused(Code),
}

/// Is what the model said, as the broker read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Answer {
    /// The parts in their order.
    pub parts: Vec<Part>,
    /// Why the model stopped.
    pub stop: StopReason,
}

impl From<&provider::Answer> for Answer {
    /// Takes what the worker is told of an answer: not what it used, nor who gave it.
    fn from(answer: &provider::Answer) -> Self {
        let part = |part: &AnswerPart| match part {
            AnswerPart::Text(text) => Part::Text { text: text.clone() },
            AnswerPart::Thinking { bytes, sha256 } => Part::Thinking { bytes: *bytes, sha256: *sha256 },
            AnswerPart::ToolCall { id, name, arguments } => Part::ToolCall {
                id: Content::new(id.clone()),
                name: Content::new(name.clone()),
                arguments: arguments.clone(),
            },
        };
        Self { parts: answer.parts.iter().map(part).collect(), stop: answer.stop }
    }
}

/// Is one part of an answer; its text is printed by its size only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Part {
    /// Text for the reader.
    Text {
        /// The text.
        #[serde(with = "plain")]
        text: Content<String>,
    },
    /// What the model thought before it answered; never part of a final message.
    Thinking {
        /// How long it was.
        bytes: u64,
        /// Its hash.
        sha256: Sha256Hash,
    },
    /// A tool that the model wants to have called.
    ToolCall {
        /// The call's id.
        #[serde(with = "plain")]
        id: Content<String>,
        /// The tool's name.
        #[serde(with = "plain")]
        name: Content<String>,
        /// Its arguments, unparsed.
        #[serde(with = "plain")]
        arguments: Content<String>,
    },
}

impl Part {
    /// Says whether the part belongs to a final message.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Text { .. } | Self::ToolCall { .. } => true,
            Self::Thinking { .. } => false,
        }
    }
}

/// Is what a worker takes for the final message of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CellResult {
    /// The version of the protocol.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// The final message, or the refusal it was told.
    pub outcome: Outcome,
    /// What the whole answer consisted of.
    pub counts: Counts,
    /// What became of the calls in it, one for one.
    pub calls: Capture,
}

impl CellResult {
    /// Makes the one right result of what a worker was told: the final parts as they are, the rest counted, and the
    /// calls held against what was admitted.
    #[must_use]
    pub fn of(told: Told, admitted: Option<&WorkerCapability>) -> Self {
        let Told { run, outcome, .. } = told;
        let (outcome, counts, calls) = match outcome {
            Outcome::Answered(Answer { parts, stop }) => {
                let calls = match admitted {
                    Some(admitted) => Capture::of(&parts, admitted),
                    None => Capture::of(&parts, &WorkerCapability::default()),
                };
                let counts = Counts::of(&parts);
                let parts = parts.into_iter().filter(Part::is_final).collect();
                (Outcome::Answered(Answer { parts, stop }), counts, calls)
            }
            Outcome::Refused(code) => (Outcome::Refused(code), Counts::default(), Capture::default()),
        };
        Self { version: VERSION, run, outcome, counts, calls }
    }
}

/// Counts what an answer consisted of, for traces that keep no text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Counts {
    /// How many parts of text there are.
    pub text_parts: u64,
    /// How many characters (UTF-16 code units) they have together.
    pub text_characters: u64,
    /// How many parts were thinking.
    pub thinking_parts: u64,
    /// How many bytes they have together.
    pub thinking_bytes: u64,
    /// How many tools the model wants to have called.
    pub tool_calls: u64,
}

impl Counts {
    /// Counts parts.
    #[must_use]
    pub fn of(parts: &[Part]) -> Self {
        let mut counts = Self::default();
        for part in parts {
            match part {
                Part::Text { text } => {
                    counts.text_parts += 1;
                    counts.text_characters += characters(text.reveal()) as u64;
                }
                Part::Thinking { bytes, .. } => {
                    counts.thinking_parts += 1;
                    counts.thinking_bytes = counts.thinking_bytes.saturating_add(*bytes);
                }
                Part::ToolCall { .. } => counts.tool_calls += 1,
            }
        }
        counts
    }
}

/// Is a fixed word: why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Code(String);

impl Code {
    /// Reads a lower-case word with hyphens.
    ///
    /// # Errors
    /// [`IdError`] with the expected form.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=CODE_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(IdError::new("a code", "a lower-case word with hyphens, at most 64 bytes"))
    }

    /// Returns the word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<ProviderCode> for Code {
    fn from(code: ProviderCode) -> Self {
        Self(code.as_str().to_owned())
    }
}

impl TryFrom<String> for Code {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(&text)
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.0
    }
}

/// Writes content as the plain text it is: these frames go to the worker and nowhere else.
mod plain {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::content::Content;

    pub(super) fn serialize<S: Serializer>(text: &Content<String>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Content<String>, D::Error> {
        String::deserialize(from).map(Content::new)
    }
}

#[cfg(test)]
mod tests;
