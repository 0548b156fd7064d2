//! Turns a shape into a JSON Schema, so that an editor completes and checks what the reader will accept.

use serde_json::{Map, Value as Json, json};

use super::shape::{DURATION_PATTERN, Form, Key, Need, Shape};

/// Returns the JSON Schema (2020-12) of `shape` as a document of its own.
///
/// What is known but refused is left out: an editor marks it, as the reader will.
#[must_use]
pub fn json_schema(title: &str, about: &str, shape: &Shape) -> Json {
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": about,
    });
    merge(&mut document, schema(shape));
    document
}

fn merge(into: &mut Json, from: Json) {
    if let (Json::Object(into), Json::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn schema(shape: &Shape) -> Json {
    match shape {
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Off(..) => json!({ "const": false }),
        Shape::NoItems(..) => json!({ "type": "array", "maxItems": 0 }),
        Shape::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Duration { .. } => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        Shape::Text(form) => text(form),
        Shape::Choice(choices) => {
            let words: Vec<&str> =
                choices.iter().filter(|choice| choice.refused.is_none()).map(|choice| choice.word).collect();
            json!({ "enum": words })
        }
        Shape::Scalar => json!({ "type": ["boolean", "number", "string"] }),
        Shape::List { of, min, max } => json!({
            "type": "array", "items": schema(of), "minItems": min, "maxItems": max, "uniqueItems": true,
        }),
        Shape::Map(keys) => map(keys),
        Shape::Table { key, of, max } => json!({
            "type": "object", "propertyNames": text(key), "additionalProperties": schema(of), "maxProperties": max,
        }),
        Shape::Any(shapes) => json!({ "anyOf": shapes.iter().map(schema).collect::<Vec<_>>() }),
    }
}

fn text(form: &Form) -> Json {
    let mut schema = json!({ "type": "string", "maxLength": form.units_max });
    if let (Json::Object(schema), Some(pattern)) = (&mut schema, form.pattern) {
        schema.insert("pattern".to_owned(), Json::from(pattern));
    }
    schema
}

fn map(keys: &[Key]) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in keys.iter().filter(|key| key.is_usable()) {
        if matches!(key.need, Need::Required) {
            required.push(key.name);
        }
        let mut property = json!({ "description": key.about });
        merge(&mut property, schema(&key.shape));
        properties.insert(key.name.to_owned(), property);
    }
    json!({
        "type": "object", "additionalProperties": false, "properties": properties, "required": required,
    })
}
