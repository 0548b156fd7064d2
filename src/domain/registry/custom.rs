//! Types that people register themselves: one JSON Schema file each, outside of this program's names.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Definition, Registry, Writer};
use crate::id::TypeRef;
use crate::yaml::{Problem, listed};

mod check;
mod place;

/// The largest schema file in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// The keyword of ours that promotes a top-level property, so that `where` may test it.
const PROMOTE: &str = "x-promote";

/// The kinds of problem that a schema file can have.
pub mod codes {
    use crate::yaml::Code;

    /// Its name is no type and version of a person's.
    pub const NAME: Code = Code::new("schema.name");
    /// It is no JSON that is read here.
    pub const JSON: Code = Code::new("schema.json");
    /// It breaks a rule of JSON Schema.
    pub const RULE: Code = Code::new("schema.rule");
    /// It points out of the file, or nowhere.
    pub const REFERENCE: Code = Code::new("schema.reference");
}

impl Registry {
    /// Adds people's types: files named `TYPE@VERSION.json`, in any directory, each a JSON Schema for a payload.
    ///
    /// # Errors
    /// Every problem of every file, in order of file and place; nothing is added then.
    pub fn with_custom(mut self, files: &[(String, Vec<u8>)]) -> Result<Self, Vec<Problem>> {
        let mut added = BTreeMap::new();
        let mut problems = Vec::new();
        for (file, bytes) in files {
            match definition(file, bytes) {
                Ok(definition) => {
                    added.insert(definition.kind.clone(), definition);
                }
                Err(found) => problems.extend(listed(found)),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        self.definitions.append(&mut added);
        Ok(self)
    }
}

fn definition(file: &str, bytes: &[u8]) -> Result<Definition, Vec<Problem>> {
    let mut problems = Vec::new();
    let kind = kind(file).map_err(|problem| problems.push(*problem)).ok();
    let read = check::schema(file, bytes, &mut problems);
    let Some((kind, (schema, validator))) = kind.zip(read) else { return Err(problems) };
    let promoted = promoted(&schema);
    Definition::unchecked(kind, Writer::Hand, schema, promoted, validator.into())
        .map_err(|error| vec![Problem::of_file(file, codes::JSON, error)])
}

/// Reads the type that a file is named after.
fn kind(file: &str) -> Result<TypeRef, Box<Problem>> {
    let problem = |message: String| {
        let hint = "a file TYPE@VERSION.json holds the JSON Schema of one type's payload; rename it, or move it away";
        Box::new(Problem::of_file(file, codes::NAME, message).with_hint(hint))
    };
    let name = file.rsplit_once('/').map_or(file, |(_, name)| name);
    let stem = name.strip_suffix(".json").unwrap_or(name);
    let kind =
        TypeRef::parse(stem).map_err(|error| problem(format!("name it TYPE@VERSION.json: {error}")))?;
    if kind.name.is_ours() {
        let what = "names under `stream.thought.` belong to the program: choose a prefix of your own";
        return Err(problem(what.to_owned()));
    }
    Ok(kind)
}

fn promoted(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let marked = properties.into_iter().flatten().filter(|(_, p)| p.get(PROMOTE) == Some(&Value::Bool(true)));
    marked.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests;
