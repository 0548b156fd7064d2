//! The schemas that a provider is told of agree with the reader.

use super::*;
use crate::proposal::tool::{schema, tool};

fn validator(kind: Kind) -> jsonschema::Validator {
    jsonschema::validator_for(&schema(kind)).unwrap()
}

#[test]
fn what_the_reader_takes_fits_the_schema() {
    for kind in Kind::ALL {
        assert!(validator(kind).is_valid(&arguments(kind)), "{kind}");
    }
    let mut second = focus();
    second["declaration"]["version"] = 2.into();
    second["declaration"]["lineage"]["supersedes"] = "lisbon-move@1".into();
    second["declaration"]["retirement"] = json!({ "afterDays": 1 });
    assert!(validator(Kind::FocusDeclaration).is_valid(&second));
    assert!(read(Kind::FocusDeclaration, &second).is_ok());
    let mut by_id = correction();
    by_id["target_output"] = json!(event(20));
    assert!(validator(Kind::SelfCorrection).is_valid(&by_id));
}

#[test]
fn what_the_schema_refuses_the_reader_refuses() {
    for kind in Kind::ALL {
        let validator = validator(kind);
        let mut stack = vec![(String::new(), arguments(kind))];
        let mut tried = 0;
        while let Some((at, value)) = stack.pop() {
            let others = [json!(null), json!(""), json!([]), json!({}), json!(0), json!("x".repeat(40_000))];
            for other in others {
                let mut changed = arguments(kind);
                *changed.pointer_mut(&at).unwrap() = other;
                if !validator.is_valid(&changed) {
                    assert!(Call::read(kind, &changed).is_err(), "{kind} {at}");
                    tried += 1;
                }
            }
            match value {
                Value::Object(map) => {
                    stack.extend(map.into_iter().map(|(name, inner)| (format!("{at}/{name}"), inner)));
                }
                Value::Array(items) => stack.extend(
                    items.into_iter().enumerate().map(|(index, inner)| (format!("{at}/{index}"), inner)),
                ),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        assert!(tried > 10);
    }
}

#[test]
fn every_object_of_a_schema_is_closed() {
    fn closed(schema: &Value) -> bool {
        let inner = match schema {
            Value::Object(map) => map.values().all(closed),
            Value::Array(items) => items.iter().all(closed),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        };
        inner && (schema["type"] != "object" || schema["additionalProperties"] == false)
    }
    assert!(Kind::ALL.into_iter().all(|kind| closed(&schema(kind))));
}

#[test]
fn a_tool_is_fixed_and_promises_nothing() {
    for kind in Kind::ALL {
        let tool = tool(kind);
        assert_eq!((tool.name.as_str(), &tool.parameters), (kind.tool(), &schema(kind)));
        assert!(tool.description.contains("only saved as"), "{}", tool.description);
    }
}

/// The schema that people read who want to write a focus, made from that of the tool.
const FOCUS: &str = include_str!("../../../../schemas/focus-declaration.schema.json");

#[test]
fn the_published_schema_of_a_focus_is_that_of_the_tool() {
    let mut published = schema(Kind::FocusDeclaration)["properties"]["declaration"].clone();
    published["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    published["description"] =
        "A focus as it is proposed. What it names is not looked up, and nothing of it is granted.".into();
    let expected = serde_json::to_string_pretty(&published).unwrap() + "\n";
    assert!(FOCUS == expected, "write this to schemas/focus-declaration.schema.json:\n{expected}");
}
