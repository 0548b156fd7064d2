//! Output contracts: what a model's final message must be before anything comes of it (Outputs section).
//!
//! A contract is a shape with an identity and a definition hash. [`judge`] holds one final message against it
//! and answers with the whole checked value or with a classified [`Rejection`]; nothing in between, nothing
//! recovered, nothing cut. A replacement that a person or a repair run proposes passes the same check through
//! [`Contract::check`].

mod classify;
mod observation;
mod proposing;
mod rejection;

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical;
use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::id::{TypeName, TypeRef};
use crate::provider::{Answer, AnswerPart, StopReason};
use crate::text::characters;

pub use observation::{
    Importance, Observation, PROPOSED_ACTION_CHARACTERS_MAX, REASON_CHARACTERS_MAX, Recommendation,
    SUMMARY_CHARACTERS_MAX, TAG_CHARACTERS_MAX, TAGS_MAX, TARGET_CHARACTERS_MAX,
};
pub use proposing::{Judged, judge_proposing};
pub use rejection::{Class, Counts, ISSUES_MAX, Issue, IssueCode, Issues, Rejection};

/// The longest plain-text reply in UTF-16 code units: the seed's number, and what one Telegram message holds.
pub const CONVERSATION_CHARACTERS_MAX: usize = 4_096;

/// The largest strict-JSON message that is read. An observation whose every character is an escape and whose
/// list of tags is full has about 40 KiB; what is larger than this can only be wrong.
pub const JSON_BYTES_MAX: usize = 64 << 10;

/// The name of the one contract there is.
const OBSERVATION: &str = "stream.thought.output.observation";

/// Says how a final message becomes a value of its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The message is the value as JSON, and nothing else.
    StrictJson,
    /// The message is a reply in plain text; the rest of the value is fixed.
    ConversationText,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::StrictJson, Self::ConversationText];

    /// Returns the spelling used in declarations, events and commands.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StrictJson => "strict-json",
            Self::ConversationText => "conversation-text",
        }
    }

    /// Reads the spelling used in declarations, events and commands.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Is one part of a model's final message. Only text has content that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalPart {
    /// Text, as bytes: whether it is UTF-8 is part of the verdict.
    Text(Content<Box<[u8]>>),
    /// Thinking that the provider marked as such. It is counted and never looked at.
    Thinking,
    /// A request to call a tool.
    ToolCall,
    /// Anything else: an image, a refusal, a part of a kind nobody knows.
    Other,
}

impl FinalPart {
    /// Makes a text part.
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(Content::new(text.into().into_boxed_slice()))
    }
}

/// Says why the model stopped, as far as a verdict depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// It had finished.
    End,
    /// Its tokens were used up: whatever it said is cut off.
    Length,
    /// Something else ended it: a filter, a tool request, a reason nobody knows.
    Other,
}

impl From<&AnswerPart> for FinalPart {
    fn from(part: &AnswerPart) -> Self {
        match part {
            AnswerPart::Text(text) => Self::text(text.reveal().as_bytes()),
            AnswerPart::Thinking { .. } => Self::Thinking,
            AnswerPart::ToolCall { .. } => Self::ToolCall,
        }
    }
}

impl From<StopReason> for Stop {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Stop => Self::End,
            StopReason::Length => Self::Length,
            StopReason::ToolCalls | StopReason::ContentFilter | StopReason::Refusal => Self::Other,
        }
    }
}

/// Is one version of an output contract; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    kind: TypeRef,
    schema: Arc<Value>,
    hash: Sha256Hash,
}

/// The contract of observations, made once: every output that is read from the log asks for it.
static OBSERVATIONS: LazyLock<Contract> = LazyLock::new(|| {
    let kind = TypeRef::new(TypeName::parse(OBSERVATION).expect("a name of ours is valid"), 1);
    let schema = schemars::schema_for!(Observation).to_value();
    let identity = serde_json::json!({ "contract": kind, "schema": without_words(&schema) });
    let bytes = canonical::write(&identity).expect("a schema of ours has exact numbers");
    Contract { kind, schema: Arc::new(schema), hash: Sha256Hash::of(&bytes) }
});

/// Says that no contract has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no output contract; there is `{OBSERVATION}@1`")]
pub struct UnknownContract {
    /// What was named, made printable and cut.
    pub name: String,
}

impl Contract {
    /// Returns the contract of observations: `stream.thought.output.observation@1`.
    #[must_use]
    pub fn observation() -> Self {
        OBSERVATIONS.clone()
    }

    /// Returns every contract, in order of name and version.
    #[must_use]
    pub fn all() -> Vec<Self> {
        vec![Self::observation()]
    }

    /// Reads `NAME` as the newest version, or `NAME@n` as that version.
    ///
    /// # Errors
    /// [`UnknownContract`] if there is none of this name.
    pub fn resolve(text: &str) -> Result<Self, UnknownContract> {
        let named =
            |contract: &Self| contract.kind.to_string() == text || contract.kind.name.as_str() == text;
        let found = Self::all().into_iter().rev().find(named);
        found.ok_or_else(|| UnknownContract { name: crate::text::excerpt(text, 128) })
    }

    /// Finds the contract that evidence names by identity and definition hash; a contract of the same name that
    /// was defined otherwise is not it.
    #[must_use]
    pub fn exactly(kind: &TypeRef, hash: &Sha256Hash) -> Option<Self> {
        Self::all().into_iter().find(|contract| contract.kind == *kind && contract.hash == *hash)
    }

    /// Returns the name and version.
    #[must_use]
    pub const fn kind(&self) -> &TypeRef {
        &self.kind
    }

    /// Returns the definition hash: SHA-256 over the canonical name and JSON Schema without its words for people.
    #[must_use]
    pub const fn hash(&self) -> &Sha256Hash {
        &self.hash
    }

    /// Returns the JSON Schema of its values.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Checks a value that was read before: a correction's replacement, a repair's proposal.
    ///
    /// # Errors
    /// Every issue found, up to a bound, by code and path.
    pub fn check(&self, value: &Value) -> Result<Observation, Issues> {
        Observation::check(value)
    }

    /// Replaces the display field alone and checks the whole again; every other field stays as it is.
    ///
    /// # Errors
    /// The issues of the new text.
    pub fn with_display(&self, value: &Observation, text: &str) -> Result<Observation, Issues> {
        value.with_summary(text)
    }
}

/// Returns a schema without titles and descriptions: what is said about a rule is not the rule.
fn without_words(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| {
                !(matches!(key.as_str(), "title" | "description" | "$schema") && value.is_string())
            });
            kept.map(|(key, value)| (key.clone(), without_words(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(without_words).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Is a value that passed its contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The value.
    pub value: Observation,
    /// The value as canonical JSON.
    pub canonical: Content<Box<[u8]>>,
    /// The hash of the canonical JSON.
    pub sha256: Sha256Hash,
    /// The contract.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// How the message was read.
    pub mode: Mode,
    /// What the message consisted of.
    pub counts: Counts,
}

/// Holds one final message against a contract.
///
/// Thinking parts that the provider marked are counted and left alone: a model that was told to think has them
/// beside its one text. Nothing else may stand there.
///
/// # Errors
/// A [`Rejection`] that says what kind of wrong it is without saying any of it.
pub fn judge(
    contract: &Contract,
    mode: Mode,
    parts: &[FinalPart],
    stop: Stop,
) -> Result<Accepted, Box<Rejection>> {
    let counts = Counts::of(parts);
    let reject = |class, issues| refuse(contract, mode, class, stop, counts, issues);
    let text = only_text(parts).map_err(|code| reject(Class::Parts, Issues::one(code)))?;
    match stop {
        Stop::End => {}
        Stop::Length => return Err(reject(Class::Stop, Issues::one(IssueCode::Truncated))),
        Stop::Other => return Err(reject(Class::Stop, Issues::one(IssueCode::Stopped))),
    }
    let value = match mode {
        Mode::StrictJson => {
            let value = canonical::parse(text, JSON_BYTES_MAX).map_err(|error| {
                reject(Class::Json, Issues::one(classify::not_one_value(text, error.fault())))
            })?;
            contract.check(&value)
        }
        Mode::ConversationText => {
            let text = conversation(text).map_err(|code| reject(Class::Text, Issues::one(code)))?;
            Observation::of_conversation(text)
        }
    };
    let value = value.map_err(|issues| reject(Class::Contract, issues))?;
    Ok(accept(contract, mode, counts, value))
}

/// Makes the verdict on a message that is refused.
fn refuse(
    contract: &Contract,
    mode: Mode,
    class: Class,
    stop: Stop,
    counts: Counts,
    issues: Issues,
) -> Box<Rejection> {
    Box::new(Rejection {
        contract: contract.kind.clone(),
        contract_hash: contract.hash,
        mode,
        class,
        stop,
        counts,
        issue_count: issues.total(),
        issues: issues.into_list(),
    })
}

/// Completes a value that passed.
fn accept(contract: &Contract, mode: Mode, counts: Counts, value: Observation) -> Accepted {
    let bytes = value.canonical();
    Accepted {
        sha256: Sha256Hash::of(&bytes),
        canonical: Content::new(bytes.into()),
        contract: contract.kind.clone(),
        contract_hash: contract.hash,
        mode,
        counts,
        value,
    }
}

/// Holds a provider's answer against a contract.
///
/// # Errors
/// As [`judge`].
pub fn judge_answer(contract: &Contract, mode: Mode, answer: &Answer) -> Result<Accepted, Box<Rejection>> {
    let parts: Vec<FinalPart> = answer.parts.iter().map(FinalPart::from).collect();
    judge(contract, mode, &parts, answer.stop.into())
}

/// Returns the one text part, if there is exactly one and nothing beside it but thinking.
fn only_text(parts: &[FinalPart]) -> Result<&[u8], IssueCode> {
    let mut found: Option<&[u8]> = None;
    for part in parts {
        match part {
            FinalPart::Text(text) => {
                if found.replace(text.reveal()).is_some() {
                    return Err(IssueCode::SeveralTexts);
                }
            }
            FinalPart::Thinking => {}
            FinalPart::ToolCall => return Err(IssueCode::ToolCall),
            FinalPart::Other => return Err(IssueCode::OtherPart),
        }
    }
    found.ok_or(IssueCode::NoText)
}

/// Reads a plain-text reply as it is: nothing is stripped, trimmed or cut.
///
/// A reply that begins with a thinking tag is refused: it is thinking that the provider did not mark, and
/// thinking is neither kept nor sent.
fn conversation(bytes: &[u8]) -> Result<&str, IssueCode> {
    let text = std::str::from_utf8(bytes).map_err(|_| IssueCode::NotUtf8)?;
    if text.trim().is_empty() {
        return Err(IssueCode::Empty);
    }
    if characters(text) > CONVERSATION_CHARACTERS_MAX {
        return Err(IssueCode::TooLong);
    }
    if classify::begins_with_thinking(text) {
        return Err(IssueCode::ThinkingTag);
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
