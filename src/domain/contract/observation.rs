//! The value that every model output is: something noticed, how sure, how much it matters, and at most one
//! recommendation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{IssueCode, Issues};
use crate::canonical;
use crate::text::characters;

/// The longest summary: a reply of the greatest length is one.
pub const SUMMARY_CHARACTERS_MAX: usize = 4_096;
/// More tags than that sort nothing.
pub const TAGS_MAX: usize = 16;
/// A tag is a word or two.
pub const TAG_CHARACTERS_MAX: usize = 64;
/// A target is a name.
pub const TARGET_CHARACTERS_MAX: usize = 128;
/// A reason is a sentence or two.
pub const REASON_CHARACTERS_MAX: usize = 1_024;
/// A proposed action is a word or a short phrase.
pub const PROPOSED_ACTION_CHARACTERS_MAX: usize = 256;

/// Says how much an observation matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Importance {
    /// It can be left unread.
    Low,
    /// It is one of many.
    Normal,
    /// A person should see it.
    High,
}

impl Importance {
    /// All of them, least first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    /// Returns the spelling used in outputs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// Is what an observation suggests that somebody do. It is inert.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recommendation {
    /// Whom or what it is about.
    #[schemars(length(min = 1, max = 128), extend("x-maxUtf16" = 128))]
    target: String,
    /// Why.
    #[schemars(length(min = 1, max = 1024), extend("x-maxUtf16" = 1024))]
    reason: String,
    /// What is proposed.
    #[schemars(length(min = 1, max = 256), extend("x-maxUtf16" = 256))]
    proposed_action: String,
}

impl Recommendation {
    /// Returns whom or what it is about.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns why.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns what is proposed.
    #[must_use]
    pub fn proposed_action(&self) -> &str {
        &self.proposed_action
    }
}

impl std::fmt::Debug for Recommendation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recommendation")
    }
}

/// Is a checked observation; one that exists fits the contract. It does not print.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observation {
    /// What was noticed, or what is replied.
    #[schemars(length(min = 1, max = 4096), extend("x-maxUtf16" = 4096))]
    summary: String,
    /// Words to find it by.
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)), extend("x-maxItemUtf16" = 64))]
    tags: Vec<String>,
    /// How much it matters.
    importance: Importance,
    /// How sure it is, from 0 through 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    confidence: f64,
    /// What it suggests, if it suggests something.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "Recommendation")]
    recommendation: Option<Recommendation>,
}

impl Observation {
    /// Returns what was noticed, or what is replied.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Returns the words to find it by.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns how much it matters.
    #[must_use]
    pub const fn importance(&self) -> Importance {
        self.importance
    }

    /// Returns how sure it is, from 0 through 1.
    #[must_use]
    pub const fn confidence(&self) -> f64 {
        self.confidence
    }

    /// Returns what it suggests, if it suggests something.
    #[must_use]
    pub const fn recommendation(&self) -> Option<&Recommendation> {
        self.recommendation.as_ref()
    }

    /// Returns it as canonical JSON.
    ///
    /// # Panics
    /// Never: its only number lies between 0 and 1.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        canonical::write_type(self).expect("a number between 0 and 1 is exact")
    }

    /// Reads a value strictly: every field is there, none besides, each within its bounds.
    pub(super) fn check(value: &Value) -> Result<Self, Issues> {
        let mut issues = Issues::default();
        let Some(map) = value.as_object() else {
            return Err(Issues::one(IssueCode::WrongType));
        };
        let mut fields = Fields { map, at: "", issues: &mut issues };
        fields.no_others(&["summary", "tags", "importance", "confidence", "recommendation"]);
        let summary = fields.text("summary", SUMMARY_CHARACTERS_MAX);
        let tags = fields.tags();
        let importance = fields.importance();
        let confidence = fields.confidence();
        let recommendation = fields.recommendation();
        match (summary, tags, importance, confidence) {
            (Some(summary), Some(tags), Some(importance), Some(confidence)) if issues.is_empty() => {
                Ok(Self { summary, tags, importance, confidence, recommendation })
            }
            _ => Err(issues),
        }
    }

    /// Makes the observation that a plain-text reply stands for.
    pub(super) fn of_conversation(text: &str) -> Result<Self, Issues> {
        Self::check(&json!({
            "summary": text, "tags": ["conversation"], "importance": "normal", "confidence": 0.5,
        }))
    }

    /// Replaces the summary alone.
    pub(super) fn with_summary(&self, text: &str) -> Result<Self, Issues> {
        let mut value = serde_json::to_value(self).map_err(|_| Issues::one(IssueCode::WrongType))?;
        value["summary"] = text.into();
        Self::check(&value)
    }
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (summary, tags) = (characters(&self.summary), self.tags.len());
        write!(f, "Observation({summary} characters, {tags} tags, {})", self.importance.as_str())
    }
}

impl<'de> Deserialize<'de> for Observation {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::check(&value).map_err(serde::de::Error::custom)
    }
}

/// Reads the fields of one object, gathering what is wrong by the contract's own names.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    at: &'static str,
    issues: &'a mut Issues,
}

impl<'a> Fields<'a> {
    fn wrong(&mut self, code: IssueCode, name: &str) {
        let path = format!("{}/{name}", self.at);
        self.issues.push(code, &path);
    }

    /// Counts what is not known, at the object: such a name is the model's own text.
    fn no_others(&mut self, known: &[&str]) {
        for _ in self.map.keys().filter(|key| !known.contains(&key.as_str())) {
            self.issues.push(IssueCode::UnknownField, self.at);
        }
    }

    fn required(&mut self, name: &str) -> Option<&'a Value> {
        let found = self.map.get(name);
        if found.is_none() {
            self.wrong(IssueCode::MissingField, name);
        }
        found
    }

    fn bounded(&mut self, value: &Value, name: &str, characters_max: usize) -> Option<String> {
        let Some(text) = value.as_str() else {
            self.wrong(IssueCode::WrongType, name);
            return None;
        };
        if text.trim().is_empty() {
            self.wrong(IssueCode::Empty, name);
        } else if characters(text) > characters_max {
            self.wrong(IssueCode::TooLong, name);
        } else {
            return Some(text.to_owned());
        }
        None
    }

    fn text(&mut self, name: &str, characters_max: usize) -> Option<String> {
        let value = self.required(name)?;
        self.bounded(value, name, characters_max)
    }

    fn tags(&mut self) -> Option<Vec<String>> {
        let Some(tags) = self.required("tags")?.as_array() else {
            self.wrong(IssueCode::WrongType, "tags");
            return None;
        };
        if tags.len() > TAGS_MAX {
            self.wrong(IssueCode::TooMany, "tags");
            return None;
        }
        let read = |(index, tag)| self.bounded(tag, &format!("tags/{index}"), TAG_CHARACTERS_MAX);
        // Every tag is looked at, so that every one that is wrong is named.
        let read: Vec<Option<String>> = tags.iter().enumerate().map(read).collect();
        read.into_iter().collect()
    }

    fn importance(&mut self) -> Option<Importance> {
        let Some(word) = self.required("importance")?.as_str() else {
            self.wrong(IssueCode::WrongType, "importance");
            return None;
        };
        let found = Importance::ALL.into_iter().find(|importance| importance.as_str() == word);
        if found.is_none() {
            self.wrong(IssueCode::NotAllowed, "importance");
        }
        found
    }

    fn confidence(&mut self) -> Option<f64> {
        let Some(number) = self.required("confidence")?.as_f64() else {
            self.wrong(IssueCode::WrongType, "confidence");
            return None;
        };
        if (0.0..=1.0).contains(&number) {
            // A negative zero is a zero.
            return Some(number.abs());
        }
        self.wrong(IssueCode::OutOfRange, "confidence");
        None
    }

    fn recommendation(&mut self) -> Option<Recommendation> {
        let Some(map) = self.map.get("recommendation")?.as_object() else {
            self.wrong(IssueCode::WrongType, "recommendation");
            return None;
        };
        let mut inner = Fields { map, at: "/recommendation", issues: &mut *self.issues };
        inner.no_others(&["target", "reason", "proposedAction"]);
        let target = inner.text("target", TARGET_CHARACTERS_MAX);
        let reason = inner.text("reason", REASON_CHARACTERS_MAX);
        let proposed_action = inner.text("proposedAction", PROPOSED_ACTION_CHARACTERS_MAX);
        Some(Recommendation { target: target?, reason: reason?, proposed_action: proposed_action? })
    }
}
