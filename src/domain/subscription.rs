//! What a consumer is woken for: a declared subscription, held against events.
//!
//! A subscription narrows by type, source, privacy class, address and typed predicates. It is a pure test: the log
//! uses [`Subscription::could_match`] to wake only those concerned, a consumer uses [`Subscription::matches`] on what
//! it reads, and [`Subscription::explain`] says clause by clause why an event does or does not match. Where to start
//! on a source without progress ([`Replay`]) is no part of matching: progress decides it once.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::event::{Event, Reference};
use crate::id::{SourceId, TypeName};
use crate::privacy::Privacy;
use crate::yaml::duration_text;

mod condition;
mod explain;
#[cfg(test)]
mod tests;

pub use condition::{Column, Condition, Field, Predicate, Scalar};
pub use explain::Clause;

/// Events further than this from their first ancestor start no run: a loop through several consumers ends here.
///
/// A chain of consumers that people build on purpose has a handful of links.
pub const DEPTH_MAX: u32 = 32;

/// Names event types: one, or a registered family.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypePattern {
    /// Exactly this type.
    Exact(TypeName),
    /// Every registered type below this prefix (written `prefix.*`).
    Family(String),
}

impl TypePattern {
    /// Reads `name` or `prefix.*`; a prefix is one or more dotted words.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix(".*") {
            // A prefix may be a single word, which alone is no type name.
            Some(prefix) => {
                TypeName::parse(&format!("{prefix}.x")).ok().map(|_| Self::Family(prefix.to_owned()))
            }
            None => TypeName::parse(text).ok().map(Self::Exact),
        }
    }

    /// Says whether the pattern names the type.
    #[must_use]
    pub fn takes(&self, name: &TypeName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Family(prefix) => name.is_within(prefix),
        }
    }
}

impl std::fmt::Display for TypePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => f.pad(name.as_str()),
            Self::Family(prefix) => f.pad(&format!("{prefix}.*")),
        }
    }
}

/// Says where to start on a source on which the consumer has no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// With its first event.
    Beginning,
    /// Behind what was there when this version of the consumer was registered.
    Now,
    /// With the event of this sequence, whether the source has come to it or not.
    Sequence(u64),
}

/// Bounds how many events one run takes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The most events; at least 1.
    pub max: u32,
    /// How long an incomplete batch waits for more, in milliseconds.
    pub wait_ms: u64,
}

/// Is a checked subscription; made by [`crate::declaration`].
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription {
    pub(crate) types: BTreeSet<TypePattern>,
    pub(crate) accepted: BTreeSet<TypeName>,
    pub(crate) sources: BTreeSet<SourceId>,
    pub(crate) kinds: BTreeSet<String>,
    pub(crate) privacy: BTreeSet<Privacy>,
    pub(crate) address: Option<Reference>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) replay: Replay,
    pub(crate) batch: Batch,
    pub(crate) concurrency: u32,
}

impl Subscription {
    /// Returns the types as declared.
    pub fn types(&self) -> impl Iterator<Item = &TypePattern> {
        self.types.iter()
    }

    /// Returns the registered types that the declared ones stand for: families are expanded.
    #[must_use]
    pub const fn accepted_types(&self) -> &BTreeSet<TypeName> {
        &self.accepted
    }

    /// Returns the sources named exactly.
    #[must_use]
    pub const fn sources(&self) -> &BTreeSet<SourceId> {
        &self.sources
    }

    /// Returns the kinds of which every source is included.
    #[must_use]
    pub const fn kinds(&self) -> &BTreeSet<String> {
        &self.kinds
    }

    /// Returns the privacy classes that are accepted.
    #[must_use]
    pub const fn privacy(&self) -> &BTreeSet<Privacy> {
        &self.privacy
    }

    /// Returns the strongest class that is accepted.
    #[must_use]
    pub fn strongest_privacy(&self) -> Privacy {
        self.privacy.last().copied().unwrap_or(Privacy::Sensitive)
    }

    /// Returns the address that events must carry, if one is declared.
    #[must_use]
    pub const fn address(&self) -> Option<&Reference> {
        self.address.as_ref()
    }

    /// Returns the declared predicates, in order of their fields.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Returns where to start on a source without progress.
    #[must_use]
    pub const fn replay(&self) -> Replay {
        self.replay
    }

    /// Returns the batch bounds.
    #[must_use]
    pub const fn batch(&self) -> Batch {
        self.batch
    }

    /// Returns how many executions may be open at once on a source.
    #[must_use]
    pub const fn concurrency(&self) -> u32 {
        self.concurrency
    }

    /// Says whether events of this source are looked at: it is named exactly, or its kind is.
    #[must_use]
    pub fn includes(&self, source: &SourceId) -> bool {
        self.sources.contains(source) || self.kinds.contains(source.kind())
    }

    /// Says whether an event of this type and source could match: the cheap test before a wake-up.
    #[must_use]
    pub fn could_match(&self, kind: &TypeName, source: &SourceId) -> bool {
        self.accepted.contains(kind) && self.includes(source)
    }

    /// Says whether the event matches.
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        if !self.could_match(&event.kind.name, &event.source)
            || !self.privacy.contains(&event.privacy)
            || self.address.as_ref().is_some_and(|address| event.address.as_ref() != Some(address))
            || event.depth > DEPTH_MAX
        {
            return false;
        }
        let reads_payload =
            self.conditions.iter().any(|condition| matches!(condition.field, Field::Payload(_)));
        let payload = if reads_payload { event.payload_value() } else { None };
        self.conditions.iter().all(|condition| condition.holds(event, payload.as_ref()))
    }

    /// Returns the subscription in the words of a declaration, defaults filled in and sets in order.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let texts = |items: &mut dyn Iterator<Item = String>| -> Value { items.collect::<Vec<_>>().into() };
        let mut map = Map::new();
        map.insert("types".to_owned(), texts(&mut self.types.iter().map(ToString::to_string)));
        if !self.sources.is_empty() {
            map.insert("sources".to_owned(), texts(&mut self.sources.iter().map(ToString::to_string)));
        }
        if !self.kinds.is_empty() {
            map.insert("kinds".to_owned(), texts(&mut self.kinds.iter().cloned()));
        }
        map.insert("privacy".to_owned(), texts(&mut self.privacy.iter().map(ToString::to_string)));
        if let Some(address) = &self.address {
            map.insert("address".to_owned(), address.as_str().into());
        }
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().map(|c| (c.field.to_string(), c.predicate.to_json()));
            map.insert("where".to_owned(), Value::Object(conditions.collect()));
        }
        let replay = match self.replay {
            Replay::Beginning => json!("beginning"),
            Replay::Now => json!("now"),
            Replay::Sequence(sequence) => json!({ "sequence": sequence }),
        };
        map.insert("replay".to_owned(), replay);
        let batch = json!({ "max": self.batch.max, "wait": duration_text(self.batch.wait_ms) });
        map.insert("batch".to_owned(), batch);
        map.insert("concurrency".to_owned(), self.concurrency.into());
        Value::Object(map)
    }
}
