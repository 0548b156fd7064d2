//! What a payload does not have of its type's schema, in words; values never appear in them.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::text::excerpt;
use crate::yaml::nearest;

/// A person corrects a few mistakes at a time.
const FAULTS_MAX: usize = 4;

/// What comes from a schema or from a payload's property names is cut here.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// Returns the first faults of a payload, each with its place and the rule; nothing if it fits.
pub(super) fn faults(validator: &Validator, schema: &Value, payload: &Value) -> Vec<(String, String)> {
    validator.iter_errors(payload).take(FAULTS_MAX).map(|error| fault(&error, schema)).collect()
}

fn fault(error: &ValidationError<'_>, schema: &Value) -> (String, String) {
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "/".to_owned() } else { excerpt(&place, 200) };
    (place, rule(error, schema))
}

/// Says in words which rule of a schema is broken.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the list of a schema's rules is the validator's, and open"
)]
pub(super) fn rule(error: &ValidationError<'_>, schema: &Value) -> String {
    match error.kind() {
        Kind::Required { property } => format!("{} is missing", name(property.as_str().unwrap_or("?"))),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known(error, schema);
            let said = unexpected.iter().take(FAULTS_MAX).map(|property| {
                let likely = nearest(property, known.iter().copied());
                let likely = likely.map(|known| format!("; did you mean {}?", name(known)));
                format!("{} is not known here{}", name(property), likely.unwrap_or_default())
            });
            said.collect::<Vec<_>>().join("; ")
        }
        Kind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(many) => {
                    many.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            format!("expected {wanted}, found {}", kind_of(error.instance()))
        }
        Kind::Enum { options } => format!("expected one of {}", shown(options)),
        Kind::Constant { expected_value } => format!("expected {}", shown(expected_value)),
        Kind::MinLength { limit: 1 } => "expected text, found none".to_owned(),
        Kind::MinLength { limit } => format!("expected at least {limit} characters"),
        Kind::MaxLength { limit } => format!("expected at most {limit} characters"),
        Kind::MinItems { limit } => format!("expected at least {limit} items"),
        Kind::MaxItems { limit } => format!("expected at most {limit} items"),
        Kind::MinProperties { limit } => format!("expected at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("expected at most {limit} properties"),
        Kind::Minimum { limit } => format!("expected at least {}", shown(limit)),
        Kind::Maximum { limit } => format!("expected at most {}", shown(limit)),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {}", shown(limit)),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {}", shown(limit)),
        Kind::Pattern { pattern } => format!("expected the form {}", excerpt(pattern, SHOWN_CHARACTERS_MAX)),
        Kind::Format { format } => format!("expected a {}", excerpt(format, SHOWN_CHARACTERS_MAX)),
        Kind::UniqueItems => "an item is there twice".to_owned(),
        // Every other keyword of a schema: its place there says which.
        other => {
            let at = error.schema_path().to_string();
            format!("the schema's rule `{}` is broken ({})", excerpt(other.keyword(), 40), excerpt(&at, 200))
        }
    }
}

/// Returns the property names that the schema knows where the payload has an unknown one.
fn known<'a>(error: &ValidationError<'_>, schema: &'a Value) -> Vec<&'a str> {
    let at = error.schema_path().to_string();
    let object = at.rsplit_once('/').and_then(|(object, _)| schema.pointer(object));
    let properties = object.and_then(|object| object.get("properties")).and_then(Value::as_object);
    properties.map(|all| all.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn name(property: &str) -> String {
    format!("`{}`", excerpt(property, SHOWN_CHARACTERS_MAX))
}

fn shown(value: &Value) -> String {
    excerpt(&value.to_string(), SHOWN_CHARACTERS_MAX)
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
