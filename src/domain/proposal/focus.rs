//! A focus as a model may propose it: one complete strict declaration, of which nothing is resolved or granted.
//!
//! What it names (a version before it, event types, sources, permissions) is text that was well formed. Whether any
//! of it exists or would be given is decided elsewhere, by a person and a compiler of focuses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::{Fields, bounded, word};
use super::call::{CallCode, EVIDENCE_MAX, Misfit};
use super::text::Bounded;
use crate::canonical;
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, ConsumerKey, EventId, SourceId};
use crate::subscription::TypePattern;

/// A scope is a handful of lines.
pub const SCOPE_MAX: usize = 16;
/// A focus reads a handful of things.
pub const SUBSCRIPTIONS_MAX: usize = 8;
/// One of its subscriptions names a handful of types and sources.
pub const NAMES_MAX: usize = 16;
/// The highest version: a focus that was revised more often is another one.
pub const VERSION_MAX: u64 = 1_000_000;
/// The most runs that may be asked for in a day: one in about a minute.
pub const RUNS_A_DAY_MAX: u64 = 1_440;
/// The most tokens that may be asked for in a day.
pub const TOKENS_A_DAY_MAX: u64 = 10_000_000;
/// The longest that a focus may last before it is proposed anew.
pub const DAYS_MAX: u64 = 366;

/// Is one complete declaration of a focus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FocusDeclaration {
    /// Its name.
    pub id: ConsumerId,
    /// Its version, from 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub version: u32,
    /// Where it comes from.
    pub lineage: Lineage,
    /// What it is about.
    pub scope: Scope,
    /// What it is for.
    pub objective: Bounded<1_000>,
    /// What it would read.
    #[schemars(length(min = 1, max = 8))]
    pub subscriptions: Vec<FocusSubscription>,
    /// What it would spend at most.
    pub budgets: Budgets,
    /// What it asks to be permitted; nothing of it is.
    #[schemars(length(max = 6))]
    pub requested_permissions: Vec<Permission>,
    /// When it ends.
    pub retirement: Retirement,
}

/// Says where a focus comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lineage {
    /// The version before this one; there is one exactly if this is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "ConsumerKey")]
    pub supersedes: Option<ConsumerKey>,
    /// The events that it was proposed for.
    #[schemars(length(max = 16))]
    pub evidence: Vec<EventId>,
}

/// Says what a focus is about, and what it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    /// What belongs to it.
    #[schemars(length(min = 1, max = 16))]
    pub includes: Vec<Bounded<200>>,
    /// What does not.
    #[schemars(length(max = 16))]
    pub excludes: Vec<Bounded<200>>,
}

/// Names event types and the sources they would be read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FocusSubscription {
    /// The types, or families ending in `.*`.
    #[schemars(length(min = 1, max = 16))]
    pub types: Vec<String>,
    /// The sources.
    #[schemars(length(min = 1, max = 16))]
    pub sources: Vec<SourceId>,
}

/// Says what a focus would spend at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budgets {
    /// How often it may run in a day.
    #[schemars(range(min = 1, max = 1_440))]
    pub runs_per_day: u64,
    /// How many tokens it may read and write in a day.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub tokens_per_day: u64,
}

/// Names what a focus may ask to be permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// To read documents.
    ReadDocuments,
    /// To ask for a person's attention.
    Notify,
    /// To read more sources than it subscribes to.
    DataExpansion,
    /// To act outside of the log.
    ExternalActions,
    /// To have its outputs used for training.
    Training,
    /// To have an adapter promoted.
    AdapterPromotion,
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ReadDocuments,
        Self::Notify,
        Self::DataExpansion,
        Self::ExternalActions,
        Self::Training,
        Self::AdapterPromotion,
    ];

    /// Returns the spelling used in declarations of a focus.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadDocuments => "read-documents",
            Self::Notify => "notify",
            Self::DataExpansion => "data-expansion",
            Self::ExternalActions => "external-actions",
            Self::Training => "training",
            Self::AdapterPromotion => "adapter-promotion",
        }
    }
}

/// Says when a focus ends, whichever comes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retirement {
    /// After so many days, at the latest.
    #[schemars(range(min = 1, max = 366))]
    pub after_days: u64,
    /// When this holds, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "Bounded<200>")]
    pub when: Option<Bounded<200>>,
}

impl FocusDeclaration {
    /// Returns the members of a declaration, in the order in which they are read.
    pub const MEMBERS: [&'static str; 9] = [
        "id",
        "version",
        "lineage",
        "scope",
        "objective",
        "subscriptions",
        "budgets",
        "requestedPermissions",
        "retirement",
    ];

    /// Reads a declaration that stands at `at`.
    pub(super) fn read(value: &Value, at: &str) -> Result<Self, Misfit> {
        let fields = Fields::of(value, at, &Self::MEMBERS)?;
        let id = fields.word("id", CallCode::NotAnId, |text| ConsumerId::parse(text).ok())?;
        let version = fields.number("version", 1..=VERSION_MAX)?;
        let version = u32::try_from(version).map_err(|_| fields.misfit(CallCode::OutOfRange, "version"))?;
        let lineage = Lineage::read(&fields.object("lineage", &["supersedes", "evidence"])?)?;
        let before = (version > 1).then(|| ConsumerKey::new(id.clone(), version - 1));
        if lineage.supersedes != before {
            let at = format!("{}/supersedes", fields.place("lineage"));
            return Err(Misfit::new(CallCode::Inconsistent, &at));
        }
        let scope = fields.object("scope", &["includes", "excludes"])?;
        let budgets = fields.object("budgets", &["runsPerDay", "tokensPerDay"])?;
        let retirement = fields.object("retirement", &["afterDays", "when"])?;
        let permission =
            |text: &str| Permission::ALL.into_iter().find(|permission| permission.as_str() == text);
        Ok(Self {
            id,
            version,
            lineage,
            scope: Scope {
                includes: scope.list("includes", 1..=SCOPE_MAX, bounded)?,
                excludes: scope.list("excludes", 0..=SCOPE_MAX, bounded)?,
            },
            objective: fields.text("objective")?,
            subscriptions: fields.list("subscriptions", 1..=SUBSCRIPTIONS_MAX, FocusSubscription::read)?,
            budgets: Budgets {
                runs_per_day: budgets.number("runsPerDay", 1..=RUNS_A_DAY_MAX)?,
                tokens_per_day: budgets.number("tokensPerDay", 1..=TOKENS_A_DAY_MAX)?,
            },
            requested_permissions: fields.list(
                "requestedPermissions",
                0..=Permission::ALL.len(),
                |item, at| word(item, at, CallCode::NotAllowed, permission),
            )?,
            retirement: Retirement {
                after_days: retirement.number("afterDays", 1..=DAYS_MAX)?,
                when: match retirement.optional("when") {
                    Some(value) => Some(bounded(value, &retirement.place("when"))?),
                    None => None,
                },
            },
        })
    }

    /// Returns what it is known by: SHA-256 over its canonical form. A model never says it.
    ///
    /// # Panics
    /// Never: its numbers are small and whole.
    #[must_use]
    pub fn fingerprint(&self) -> Sha256Hash {
        let identity = serde_json::json!({ "format": 1, "focus": self });
        Sha256Hash::of(&canonical::write(&identity).expect("small whole numbers are exact"))
    }
}

impl Lineage {
    fn read(fields: &Fields<'_>) -> Result<Self, Misfit> {
        let key = |text: &str| ConsumerKey::parse(text).ok();
        let supersedes = match fields.optional("supersedes") {
            Some(value) => Some(word(value, &fields.place("supersedes"), CallCode::NotAnId, key)?),
            None => None,
        };
        Ok(Self { supersedes, evidence: fields.events("evidence", EVIDENCE_MAX)? })
    }
}

impl FocusSubscription {
    fn read(value: &Value, at: &str) -> Result<Self, Misfit> {
        let fields = Fields::of(value, at, &["types", "sources"])?;
        let pattern = |text: &str| TypePattern::parse(text).map(|pattern| pattern.to_string());
        let source = |text: &str| SourceId::parse(text).ok();
        let types =
            fields.list("types", 1..=NAMES_MAX, |item, at| word(item, at, CallCode::NotAnId, pattern))?;
        let sources =
            fields.list("sources", 1..=NAMES_MAX, |item, at| word(item, at, CallCode::NotAnId, source))?;
        Ok(Self { types, sources })
    }
}

impl<'de> Deserialize<'de> for FocusDeclaration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::read(&value, "").map_err(serde::de::Error::custom)
    }
}
