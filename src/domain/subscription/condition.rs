//! Typed predicates over envelope columns and promoted payload fields.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::event::{ActorKind, Event};
use crate::time::Timestamp;

/// An envelope column that a predicate may test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// The version of the type.
    Version,
    /// The place in the source.
    Sequence,
    /// What kind of actor stands behind the event.
    ActorKind,
    /// Which one.
    ActorId,
    /// The idempotency key.
    Key,
    /// When the source says it happened.
    OccurredAt,
    /// When the log recorded it.
    RecordedAt,
    /// Steps from an event without parents.
    Depth,
    /// The id the outside world knows it by.
    External,
    /// What groups it with others.
    Correlation,
}

impl Column {
    /// Every column.
    pub const ALL: [Self; 10] = [
        Self::Version,
        Self::Sequence,
        Self::ActorKind,
        Self::ActorId,
        Self::Key,
        Self::OccurredAt,
        Self::RecordedAt,
        Self::Depth,
        Self::External,
        Self::Correlation,
    ];

    /// Returns the name used in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Sequence => "sequence",
            Self::ActorKind => "actor.kind",
            Self::ActorId => "actor.id",
            Self::Key => "key",
            Self::OccurredAt => "occurredAt",
            Self::RecordedAt => "recordedAt",
            Self::Depth => "depth",
            Self::External => "external",
            Self::Correlation => "correlation",
        }
    }

    /// Returns the column's value in an event, if it has one.
    fn of(self, event: &Event) -> Option<Value> {
        Some(match self {
            Self::Version => event.kind.version.into(),
            Self::Sequence => event.sequence.into(),
            Self::ActorKind => event.actor.kind.as_str().into(),
            Self::ActorId => event.actor.id.as_str().into(),
            Self::Key => event.key.as_str().into(),
            Self::OccurredAt => event.occurred_at?.to_string().into(),
            Self::RecordedAt => event.recorded_at.to_string().into(),
            Self::Depth => event.depth.into(),
            Self::External => event.external.as_ref()?.as_str().into(),
            Self::Correlation => event.correlation.as_ref()?.as_str().into(),
        })
    }
}

/// What a predicate tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// An envelope column.
    Column(Column),
    /// A promoted field of the payload, written `payload.NAME`.
    Payload(String),
}

impl Field {
    /// Reads `COLUMN` or `payload.NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("payload.") {
            return (!name.is_empty()).then(|| Self::Payload(name.to_owned()));
        }
        Column::ALL.into_iter().find(|column| column.as_str() == text).map(Self::Column)
    }

    /// Returns the field's value in an event, if it has one.
    pub(super) fn of(&self, event: &Event, payload: Option<&Value>) -> Option<Value> {
        match self {
            Self::Column(column) => column.of(event),
            Self::Payload(name) => payload?.get(name).cloned().filter(|value| !value.is_null()),
        }
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Column(column) => f.pad(column.as_str()),
            Self::Payload(name) => f.pad(&format!("payload.{name}")),
        }
    }
}

/// A value to compare with.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A finite number with a fraction.
    Float(f64),
    /// Text; texts are ordered byte by byte.
    Text(String),
    /// A point in time.
    Time(Timestamp),
}

impl Scalar {
    /// Returns the value in the words of a declaration.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Bool(value) => json!(value),
            Self::Integer(value) => json!(value),
            Self::Float(value) => json!(value),
            Self::Text(value) => json!(value),
            Self::Time(value) => json!(value.to_string()),
        }
    }

    /// Says how `found` stands to this value, or nothing when the two cannot be compared.
    fn compare(&self, found: &Value) -> Option<Ordering> {
        match self {
            Self::Bool(wanted) => found.as_bool().map(|found| found.cmp(wanted)),
            Self::Integer(wanted) => match found.as_i64() {
                Some(found) => Some(found.cmp(wanted)),
                // Whole numbers of a declaration lie within 2^53, so a double holds them exactly.
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the reader refuses whole numbers beyond 2^53"
                )]
                None => found.as_f64()?.partial_cmp(&(*wanted as f64)),
            },
            Self::Float(wanted) => found.as_f64()?.partial_cmp(wanted),
            Self::Text(wanted) => found.as_str().map(|found| found.cmp(wanted.as_str())),
            Self::Time(wanted) => Timestamp::parse(found.as_str()?).ok().map(|found| found.cmp(wanted)),
        }
    }
}

/// What must hold of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// It equals this value.
    Equals(Scalar),
    /// It equals one of these.
    OneOf(Vec<Scalar>),
    /// It lies between these, both included.
    Range {
        /// The smallest.
        min: Option<Scalar>,
        /// The largest.
        max: Option<Scalar>,
    },
    /// It is text that starts like this.
    Prefix(String),
}

impl Predicate {
    /// Says whether a found value fulfils the predicate; of a list, one item must.
    fn accepts(&self, found: &Value) -> bool {
        if let Value::Array(items) = found {
            return items.iter().any(|item| self.accepts(item));
        }
        let equals = |wanted: &Scalar| wanted.compare(found) == Some(Ordering::Equal);
        match self {
            Self::Equals(wanted) => equals(wanted),
            Self::OneOf(wanted) => wanted.iter().any(equals),
            Self::Range { min, max } => {
                let above = min.as_ref().is_none_or(|min| min.compare(found).is_some_and(Ordering::is_ge));
                let below = max.as_ref().is_none_or(|max| max.compare(found).is_some_and(Ordering::is_le));
                above && below
            }
            Self::Prefix(prefix) => found.as_str().is_some_and(|text| text.starts_with(prefix.as_str())),
        }
    }

    /// Returns the predicate in the words of a declaration.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Equals(value) => json!({ "equals": value.to_json() }),
            Self::OneOf(values) => json!({ "in": values.iter().map(Scalar::to_json).collect::<Vec<_>>() }),
            Self::Range { min, max } => {
                let bounds = [("min", min), ("max", max)];
                let bounds = bounds.into_iter().filter_map(|(name, bound)| {
                    bound.as_ref().map(|bound| (name.to_owned(), bound.to_json()))
                });
                Value::Object(bounds.collect())
            }
            Self::Prefix(prefix) => json!({ "prefix": prefix }),
        }
    }
}

/// One line of `where`: a field and what must hold of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The field.
    pub field: Field,
    /// What must hold of it.
    pub predicate: Predicate,
}

impl Condition {
    /// Says whether the condition holds; a field that the event does not have fulfils nothing.
    #[must_use]
    pub fn holds(&self, event: &Event, payload: Option<&Value>) -> bool {
        self.field.of(event, payload).is_some_and(|found| self.predicate.accepts(&found))
    }

    /// Says whether the condition certainly fails for every event that the consumer `id` causes itself: such a
    /// condition breaks the loop that the rest of a subscription would make.
    pub(crate) fn never_own(&self, id: &str) -> bool {
        let own = |text: &str| match &self.field {
            Field::Column(Column::ActorId) => text.split('@').next() == Some(id) || text == "supervision",
            Field::Column(Column::ActorKind) => {
                text == ActorKind::Agent.as_str() || text == ActorKind::System.as_str()
            }
            Field::Payload(name) if name == "child" => text.split(['/', ':', '@']).any(|part| part == id),
            Field::Column(_) | Field::Payload(_) => true,
        };
        let could_be_own = |value: &Scalar| match value {
            Scalar::Text(text) => own(text),
            Scalar::Bool(_) | Scalar::Integer(_) | Scalar::Float(_) | Scalar::Time(_) => true,
        };
        match &self.predicate {
            Predicate::Equals(value) => !could_be_own(value),
            Predicate::OneOf(values) => !values.iter().any(could_be_own),
            Predicate::Range { .. } | Predicate::Prefix(_) => false,
        }
    }
}
