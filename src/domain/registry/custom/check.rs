//! What is wrong with a schema: all of it at once, each with its place.
//!
//! The library that makes a validator stops at the first thing it cannot make one of. So what is wrong is taken out of a
//! copy, and the rest is tried again.

use std::collections::BTreeSet;

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{ReferencingError, ValidationError, Validator};
use serde_json::Value;

use super::place::{Places, token};
use super::{SCHEMA_BYTES_MAX, codes};
use crate::canonical::{self, JsonError, JsonFault};
use crate::registry::fault;
use crate::text::excerpt;
use crate::yaml::{self, Code, Limits, Problem, Source, nearest};

/// The keywords that point to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The keywords whose value is a list of schemas.
const SCHEMA_LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];

/// What a schema says of the kind of a value.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// What is cut out of a schema to be shown in a message.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// The way out of a problem that says by itself what must be another way.
const MEND: &str = "mend it as JSON Schema has it, or move the file away";

/// Reads a schema and makes its validator, or adds every problem of it.
pub(super) fn schema(file: &str, bytes: &[u8], problems: &mut Vec<Problem>) -> Option<(Value, Validator)> {
    let before = problems.len();
    let (source, value) = read(file, bytes, problems)?;
    let places = Places::of(source.text());
    for (start, length) in &places.twice {
        let span = source.span(*start, *length);
        problems.push(source.problem(span, codes::JSON, TWICE).with_hint("keep one of the two"));
    }
    let mut faults = Faults::default();
    let validator = faults.find(&value);
    problems.extend(faults.found.into_iter().map(|fault| {
        let (start, length) = places.find(&fault.place);
        let problem = source.problem(source.span(start, length), fault.code, fault.message);
        problem.with_suggestion(fault.suggestion).with_hint(fault.hint)
    }));
    (problems.len() == before).then_some(value).zip(validator)
}

const TWICE: &str = "a key stands twice in one object";

/// Reads the JSON of a file, also of one in which a key stands twice: the rest of it can be looked at all the same.
fn read(file: &str, bytes: &[u8], problems: &mut Vec<Problem>) -> Option<(Source, Value)> {
    let read = canonical::parse(bytes, SCHEMA_BYTES_MAX);
    let (Ok(_) | Err(JsonError::Malformed { .. }), Ok(text)) = (&read, std::str::from_utf8(bytes)) else {
        let message = read.map_or_else(|error| error.to_string(), |_| String::new());
        problems.push(Problem::of_file(file, codes::JSON, message).with_hint(MEND));
        return None;
    };
    let source = Source::new(file, text.to_owned(), 0);
    let value = match read {
        Ok(value) => value,
        Err(error) => {
            let is_twice = error.fault() == JsonFault::DuplicateKey;
            match serde_json::from_str(text).ok().filter(|_| is_twice) {
                Some(value) => value,
                None => {
                    problems.push(malformed(&source, &error));
                    return None;
                }
            }
        }
    };
    if !value.is_object() {
        let place = Places::of(text).find("");
        let problem = source.problem(source.span(place.0, place.1), codes::RULE, "a schema is a JSON object");
        problems.push(problem.with_hint("write `{}` for one that takes anything"));
        return None;
    }
    Some((source, value))
}

/// Says where a text is no JSON.
fn malformed(source: &Source, error: &JsonError) -> Problem {
    let JsonError::Malformed { line, column, what } = error else {
        return Problem::of_file(source.name(), codes::JSON, error.to_string()).with_hint(MEND);
    };
    let text = source.text();
    let above: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let at = text.floor_char_boundary((above + column.saturating_sub(1)).min(text.len()));
    source.problem(source.span(at, 0), codes::JSON, what.as_str()).with_hint(MEND)
}

/// Is one thing that is wrong.
struct Fault {
    /// Where, as a JSON pointer.
    place: String,
    code: Code,
    message: String,
    suggestion: Option<String>,
    hint: &'static str,
}

impl Fault {
    fn of(place: impl Into<String>, code: Code, message: impl Into<String>) -> Self {
        Self { place: place.into(), code, message: message.into(), suggestion: None, hint: MEND }
    }
}

#[derive(Default)]
struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    /// Finds everything that is wrong; a schema without a fault has a validator.
    fn find(&mut self, schema: &Value) -> Option<Validator> {
        self.outside(schema);
        match jsonschema::meta::validator_for(schema) {
            // Each part of a dialect asks again that a schema is an object.
            Ok(meta) => {
                let mut said = BTreeSet::new();
                let faults = meta.iter_errors(schema).map(|error| rule(&error));
                self.found.extend(faults.filter(|one| said.insert((one.place.clone(), one.message.clone()))));
            }
            Err(_) => {
                let message = "this dialect of JSON Schema is not known here";
                let hint = "name one of json-schema.org, or leave it away";
                self.found.push(Fault { hint, ..Fault::of("/$schema", codes::RULE, message) });
                // What any other rule means is said by the dialect.
                return None;
            }
        }
        let mut rest = schema.clone();
        for fault in &self.found {
            take(&mut rest, &fault.place);
        }
        for _ in 0..Limits::PROBLEMS_MAX {
            let error = match jsonschema::validator_for(&rest) {
                Ok(validator) => return Some(validator),
                Err(error) => error,
            };
            let faults = made(&error, &rest);
            let taken = faults.iter().filter(|fault| take(&mut rest, &fault.place)).count();
            // What points to a schema that is wrong itself is not wrong for that.
            if self.found.is_empty() || is_certain(&error, schema) {
                self.found.extend(faults);
            }
            if taken == 0 {
                return None;
            }
        }
        let message = format!("more than {} problems; the rest is not listed", Limits::PROBLEMS_MAX);
        let hint = "mend those that are listed, and look again";
        self.found.push(Fault { hint, ..Fault::of("", yaml::codes::MORE, message) });
        None
    }

    /// Finds what points out of the file, for a schema must mean the same on every machine, and what has no one form.
    fn outside(&mut self, schema: &Value) {
        walk(schema, &mut String::new(), &mut |pointer, key, value| {
            let target = value.as_str();
            if REFERENCES.contains(&key) && !target.is_some_and(|target| target.starts_with('#')) {
                let message = format!("`{key}` must point inside the file");
                let hint = "start it with `#`, and put what it points to into `$defs`";
                self.found.push(Fault { hint, ..Fault::of(pointer, codes::REFERENCE, message) });
            }
            if value.is_number()
                && let Err(error) = canonical::write(value)
            {
                self.found.push(Fault::of(pointer, codes::JSON, error.to_string()));
            }
        });
    }
}

/// Says that a rule of JSON Schema is broken.
fn rule(error: &ValidationError<'_>) -> Fault {
    let fault = Fault::of(error.instance_path().to_string(), codes::RULE, "");
    let is_type = error.schema_path().to_string().ends_with("properties/type/anyOf");
    if is_type && matches!(error.kind(), Kind::AnyOf { .. }) {
        let value = error.instance();
        let words = value.as_array().map_or(std::slice::from_ref(value.as_ref()), Vec::as_slice);
        let wrong = words.iter().filter_map(Value::as_str).find(|word| !TYPES.contains(word));
        let suggestion = wrong.and_then(|word| nearest(word, TYPES)).map(str::to_owned);
        let message = format!("expected one of {}, or a list of some", TYPES.join(", "));
        return Fault { suggestion, message, ..fault };
    }
    if let Kind::PropertyNames { error } = error.kind() {
        return Fault { message: no_expression(error.instance()), ..fault };
    }
    Fault { message: fault::rule(error, &Value::Null), ..fault }
}

/// Says why no validator can be made of a schema that follows the rules.
fn made(error: &ValidationError<'_>, schema: &Value) -> Vec<Fault> {
    if is_expression(error) {
        let place = error.instance_path().to_string();
        return vec![Fault::of(place, codes::RULE, no_expression(error.instance()))];
    }
    let target = if let Kind::Referencing(ReferencingError::PointerToNowhere { pointer }) = error.kind() {
        Some(pointer)
    } else if let Kind::Referencing(ReferencingError::NoSuchAnchor { anchor }) = error.kind() {
        Some(anchor)
    } else {
        None
    };
    let target = target.map(|target| format!("#{target}")).unwrap_or_default();
    let mut found = Vec::new();
    walk(schema, &mut String::new(), &mut |pointer, key, value| {
        if REFERENCES.contains(&key) && value.as_str() == Some(&target) {
            let message = format!("`{}` leads nowhere in this file", excerpt(&target, SHOWN_CHARACTERS_MAX));
            let hint = "put what it points to into `$defs`, or mend the path";
            found.push(Fault { hint, ..Fault::of(pointer, codes::REFERENCE, message) });
        }
    });
    if found.is_empty() {
        let message = format!("not a JSON Schema: {}", excerpt(&error.to_string(), 300));
        found.push(Fault::of(error.instance_path().to_string(), codes::RULE, message));
    }
    found
}

fn no_expression(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    format!("`{}` is no regular expression", excerpt(text, SHOWN_CHARACTERS_MAX))
}

/// Says whether something is wrong with the schema as it was written, and not only where a part of it was taken out.
fn is_certain(error: &ValidationError<'_>, schema: &Value) -> bool {
    if let Kind::Referencing(ReferencingError::PointerToNowhere { pointer }) = error.kind() {
        return schema.pointer(pointer).is_none();
    }
    if let Kind::Referencing(ReferencingError::NoSuchAnchor { anchor }) = error.kind() {
        let mut is_there = false;
        walk(schema, &mut String::new(), &mut |_, key, value| {
            is_there |= matches!(key, "$anchor" | "$dynamicAnchor") && value.as_str() == Some(anchor);
        });
        return !is_there;
    }
    is_expression(error)
}

fn is_expression(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), Kind::Format { format } if format == "regex")
}

/// Visits each member of each object, with its pointer and key, and each item of each list, with no key.
fn walk(value: &Value, pointer: &mut String, visit: &mut dyn FnMut(&str, &str, &Value)) {
    let mut below = |key: &str, name: &str, inner: &Value, pointer: &mut String| {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(name);
        visit(pointer, key, inner);
        walk(inner, pointer, visit);
        pointer.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| below(key, &token(key), inner, pointer)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| below("", &index.to_string(), item, pointer));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Takes what is wrong out of a schema; says whether anything was there to be taken.
fn take(schema: &mut Value, pointer: &str) -> bool {
    let Some((above, last)) = pointer.rsplit_once('/') else { return false };
    let list = above.rsplit_once('/').map_or("", |(_, key)| key);
    match schema.pointer_mut(above) {
        Some(Value::Object(map)) => map.remove(&last.replace("~1", "/").replace("~0", "~")).is_some(),
        // A schema of a list keeps its number, because others may point to those behind it.
        Some(Value::Array(items)) if SCHEMA_LISTS.contains(&list) => {
            let item = last.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            item.is_some_and(|item| std::mem::replace(item, Value::Bool(true)) != Value::Bool(true))
        }
        Some(Value::Array(_)) => take(schema, above),
        _ => false,
    }
}
