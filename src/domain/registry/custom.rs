//! Types that people register themselves: one JSON Schema file each, outside of this program's names.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Definition, Registry, Writer};
use crate::canonical;
use crate::id::TypeRef;
use crate::text::excerpt;

/// The largest schema file in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// The keyword of ours that promotes a top-level property, so that `where` may test it.
const PROMOTE: &str = "x-promote";

/// Says why a schema file registers nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct CustomError {
    /// The file, made printable.
    pub file: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl Registry {
    /// Adds people's types: files named `TYPE@VERSION.json`, each a JSON Schema for a payload.
    ///
    /// # Errors
    /// Every problem of every file; nothing is added then.
    pub fn with_custom(mut self, files: &[(String, Vec<u8>)]) -> Result<Self, Vec<CustomError>> {
        let mut added = BTreeMap::new();
        let mut problems = Vec::new();
        for (file, bytes) in files {
            match definition(file, bytes) {
                Ok(definition) => {
                    added.insert(definition.kind.clone(), definition);
                }
                Err(problem) => problems.push(CustomError { file: excerpt(file, 200), problem }),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        self.definitions.append(&mut added);
        Ok(self)
    }
}

fn definition(file: &str, bytes: &[u8]) -> Result<Definition, String> {
    let stem = file.strip_suffix(".json").ok_or("name it TYPE@VERSION.json")?;
    let kind = TypeRef::parse(stem).map_err(|e| format!("name it TYPE@VERSION.json: {e}"))?;
    if kind.name.is_ours() {
        return Err("names under `stream.thought.` belong to the program: choose a prefix of your own".into());
    }
    let schema = canonical::parse(bytes, SCHEMA_BYTES_MAX).map_err(|e| e.to_string())?;
    if !schema.is_object() {
        return Err("a schema is a JSON object".into());
    }
    refuse_outside_references(&schema)?;
    let promoted = promoted(&schema);
    Definition::new(kind, Writer::Hand, schema, promoted)
        .map_err(|e| format!("not a JSON Schema: {}", excerpt(&e, 300)))
}

/// Refuses `$ref` to anything outside the file: a schema must mean the same on every machine.
fn refuse_outside_references(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef")
                    && !inner.as_str().is_some_and(|target| target.starts_with('#'))
                {
                    return Err(format!("`{key}` must point inside the file (start with `#`)"));
                }
                refuse_outside_references(inner)?;
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(refuse_outside_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn promoted(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let marked = properties.into_iter().flatten().filter(|(_, p)| p.get(PROMOTE) == Some(&Value::Bool(true)));
    marked.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(file: &str, text: &str) -> String {
        Registry::shipped().with_custom(&[(file.into(), text.into())]).unwrap_err()[0].problem.clone()
    }

    #[test]
    fn a_person_registers_a_type_with_a_schema_file() {
        let schema = r#"{"type":"object","properties":{"celsius":{"type":"number","x-promote":true}},"required":["celsius"]}"#;
        let registry =
            Registry::shipped().with_custom(&[("home.sensor.reading@1.json".into(), schema.into())]).unwrap();
        let definition = registry.resolve("home.sensor.reading").unwrap();
        assert_eq!((definition.writer(), definition.promoted()), (Writer::Hand, &["celsius".to_owned()][..]));
    }

    #[test]
    fn a_schema_file_that_cannot_be_trusted_registers_nothing() {
        assert!(problem("stream.thought.mine@1.json", "{}").contains("belong to the program"));
        assert!(problem("reading.json", "{}").contains("TYPE@VERSION.json"));
        assert!(problem("a.b@1.json", "[]").contains("JSON object"));
        assert!(problem("a.b@1.json", r#"{"a":1,"a":2}"#).contains("twice"));
        assert!(problem("a.b@1.json", r#"{"$ref":"https://example.org/x"}"#).contains("inside the file"));
        assert!(
            problem("a.b@1.json", r#"{"properties":{"x":{"$ref":"other.json"}}}"#)
                .contains("inside the file")
        );
        assert!(problem("a.b@1.json", r#"{"type":"objekt"}"#).contains("not a JSON Schema"));
        assert!(problem("a.b@1.json", &" ".repeat(SCHEMA_BYTES_MAX + 1)).contains("more than"));
    }

    #[test]
    fn all_problems_of_all_files_are_reported() {
        let files = [("bad.json".to_owned(), b"{}".to_vec()), ("a.b@1.json".into(), b"nope".to_vec())];
        assert_eq!(Registry::shipped().with_custom(&files).unwrap_err().len(), 2);
    }
}
