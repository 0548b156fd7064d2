//! Schema files that register a type, and everything that is said of those that do not.

use super::*;
use crate::yaml::{Limits, render_all};

fn problems(file: &str, text: &str) -> Vec<Problem> {
    Registry::shipped().with_custom(&[(file.into(), text.into())]).unwrap_err()
}

/// Renders everything that is wrong with one schema.
fn wrong(text: &str) -> String {
    render_all(&problems("schemas/a.b@1.json", text))
}

#[test]
fn a_person_registers_a_type_with_a_schema_file() {
    let schema = r##"{"type":"object","properties":{"celsius":{"type":"number","x-promote":true},
        "at":{"$ref":"#/$defs/at"},"by":{"$ref":"#who"}},"required":["celsius"],
        "$defs":{"at":{"type":"string","pattern":"^[0-9]+$"},"who":{"$anchor":"who"}}}"##;
    let registry = Registry::shipped()
        .with_custom(&[("schemas/home.sensor.reading@1.json".into(), schema.into())])
        .unwrap();
    let definition = registry.resolve("home.sensor.reading").unwrap();
    assert_eq!((definition.writer(), definition.promoted()), (Writer::Hand, &["celsius".to_owned()][..]));
    assert!(definition.validator().is_valid(&serde_json::json!({ "celsius": 1, "at": "7" })));
    assert!(!definition.validator().is_valid(&serde_json::json!({ "celsius": 1, "at": "x" })));
}

#[test]
fn a_schema_file_that_cannot_be_trusted_registers_nothing() {
    for (file, text, said) in [
        ("stream.thought.mine@1.json", "{}", "belong to the program"),
        ("reading.json", "{}", "TYPE@VERSION.json"),
        ("a.b@1.json", "[]", "JSON object"),
        ("a.b@1.json", r#"{"a":1,"a":2}"#, "twice"),
        ("a.b@1.json", r#"{"$ref":"https://example.org/x"}"#, "inside the file"),
        ("a.b@1.json", r#"{"properties":{"x":{"$ref":"other.json"}}}"#, "inside the file"),
        ("a.b@1.json", r#"{"const":9007199254740993}"#, "2^53"),
        ("a.b@1.json", r#"{"$schema":"https://example.org/x"}"#, "dialect"),
        ("a.b@1.json", "\u{feff}{}", "not JSON"),
        ("a.b@1.json", &("[".repeat(70) + &"]".repeat(70)), "64 levels"),
        ("a.b@1.json", &" ".repeat(SCHEMA_BYTES_MAX + 1), "more than"),
    ] {
        let found = problems(file, text);
        assert!(found.len() == 1 && found[0].message.contains(said), "{said}: {found:?}");
        assert!(found[0].hint.is_some(), "{found:?}");
    }
    let found = Registry::shipped().with_custom(&[("a.b@1.json".into(), b"{\"\xff\":1}".to_vec())]);
    assert!(found.unwrap_err()[0].message.contains("not UTF-8"));
}

#[test]
fn every_problem_of_a_schema_is_told_at_its_place() {
    let text = r##"{
  "type": "objekt",
  "properties": {
    "a": { "type": ["string", "nul"], "pattern": "(" },
    "b": { "minLength": -1, "minLength": 2 },
    "c": { "$ref": "other.json" },
    "d": { "$ref": "#/$defs/nowhere" },
    "e": { "$ref": "#/$defs/nowhere" },
    "f": { "$ref": "#anchor" },
    "g": { "$ref": "#/properties/h/allOf/1" },
    "h": { "allOf": [7, { "pattern": "[" }] }
  },
  "patternProperties": { "*": {} },
  "required": "a"
}
"##;
    insta::assert_snapshot!(wrong(text));
}

#[test]
fn where_a_text_is_no_json_its_place_is_told_and_a_name_is_judged_all_the_same() {
    let found = problems("schemas/bad.json", "{\n  \"é\": 1,\n}\n");
    let places: Vec<_> = found.iter().map(|one| (one.line, one.code.as_str())).collect();
    assert_eq!(places, [(1, "schema.name"), (3, "schema.json")]);
}

#[test]
fn what_points_to_a_schema_that_is_wrong_itself_is_not_wrong_for_that() {
    let text = r##"{ "$defs": { "a": 7, "b": { "$anchor": "b", "type": "x" } },
        "properties": { "c": { "$ref": "#/$defs/a" }, "d": { "$ref": "#b" } } }"##;
    let found = problems("a.b@1.json", text);
    let messages: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
    assert!(found.len() == 2 && messages.iter().all(|one| one.starts_with("expected")), "{messages:?}");
}

#[test]
fn of_many_problems_the_first_are_listed_and_the_rest_counted_or_said_to_be_there() {
    let many = |each: &str, count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!("\"p{number}\":{{{each}}}")).collect();
        wrong(&format!("{{\"properties\":{{{}}}}}", all.join(",")))
    };
    // Rules are all looked at in one go; of what is tried anew after each, no more than of any other file.
    assert!(many(r#""minLength":-1"#, 500).ends_with("500 problems, 300 of them not listed\n"));
    let stopped = many(r#""pattern":"(""#, Limits::PROBLEMS_MAX + 20);
    assert!(stopped.ends_with(&format!("more than {} problems\n", Limits::PROBLEMS_MAX)), "{stopped}");
}

#[test]
fn all_problems_of_all_files_are_reported() {
    let files = [
        ("bad.json".to_owned(), br#"{"type":"nope","minLength":-1}"#.to_vec()),
        ("a.b@1.json".into(), b"nope".to_vec()),
    ];
    let found = Registry::shipped().with_custom(&files).unwrap_err();
    let files: Vec<&str> = found.iter().map(|one| one.file.as_str()).collect();
    assert_eq!(files, ["bad.json", "bad.json", "bad.json", "a.b@1.json"]);
}
