//! The three tools as a provider is told of them: fixed names, fixed words, strict schemas.
//!
//! JSON Schema counts code points where the contract counts UTF-16 units, and knows nothing of what a snapshot admits;
//! so a call that fits its schema may still be refused, and none that breaks it is read.

use serde_json::{Value, json};

use super::Kind;
use super::call::{EVIDENCE_MAX, LATEST, Operation};
use super::focus::{
    DAYS_MAX, NAMES_MAX, Permission, RUNS_A_DAY_MAX, SCOPE_MAX, SUBSCRIPTIONS_MAX, TOKENS_A_DAY_MAX,
    VERSION_MAX,
};
use super::text::{ProposedText, Reason, Replacement};
use crate::provider::Tool;

/// Returns the tool of a kind.
#[must_use]
pub fn tool(kind: Kind) -> Tool {
    Tool { name: kind.tool().to_owned(), description: description(kind).to_owned(), parameters: schema(kind) }
}

/// Says to a model what a tool is for, and what it does not do.
const fn description(kind: Kind) -> &'static str {
    match kind {
        Kind::MemoryChange => {
            "Suggest a change of the memory document, when the person asks you to remember or forget something. \
             It is only saved as a suggestion; a person decides later. Nothing is changed by calling it."
        }
        Kind::SelfCorrection => {
            "Suggest a corrected wording of one of your own delivered replies. It is only saved as a suggestion; \
             a person decides later. Use `latest` for your last reply."
        }
        Kind::FocusDeclaration => {
            "Propose a focus that the person described. It is only saved as a proposal: nothing is activated, \
             granted or looked up by calling it."
        }
    }
}

/// Returns the JSON Schema of a tool's arguments.
#[must_use]
pub fn schema(kind: Kind) -> Value {
    match kind {
        Kind::MemoryChange => object(
            &[
                ("operation", json!({ "type": "string", "enum": Operation::ALL })),
                ("proposed_text", text(ProposedText::CHARACTERS_MAX)),
                ("reason", text(Reason::CHARACTERS_MAX)),
                ("evidence_event_ids", events()),
            ],
            &[],
        ),
        Kind::SelfCorrection => object(
            &[
                ("target_output", json!({ "type": "string", "pattern": format!("^({LATEST}|{EVENT})$") })),
                ("replacement", text(Replacement::CHARACTERS_MAX)),
                ("reason", text(Reason::CHARACTERS_MAX)),
                ("evidence_event_ids", events()),
            ],
            &[],
        ),
        Kind::FocusDeclaration => object(&[("declaration", focus())], &[]),
    }
}

/// The form of an event's id.
const EVENT: &str = "evt_[a-z2-7]{52}";

/// The form of a lower-case word.
const WORD: &str = "[a-z][a-z0-9-]{0,63}";

/// Returns the schema of an object that has these members and no others.
fn object(members: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let required: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let all = members.iter().chain(optional);
    let properties: serde_json::Map<String, Value> =
        all.map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn text(characters_max: usize) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": characters_max })
}

fn pattern(form: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^{form}$") })
}

fn integer(most: u64) -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": most })
}

fn list(of: &Value, least: usize, most: usize) -> Value {
    json!({ "type": "array", "items": of, "minItems": least, "maxItems": most, "uniqueItems": true })
}

fn events() -> Value {
    list(&pattern(EVENT), 0, EVIDENCE_MAX)
}

fn focus() -> Value {
    let line = text(200);
    let types = pattern(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)*(\.[a-z][a-z0-9-]*|\.\*)");
    let source = pattern(&format!("{WORD}:[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}"));
    let subscription =
        object(&[("types", list(&types, 1, NAMES_MAX)), ("sources", list(&source, 1, NAMES_MAX))], &[]);
    let permissions: Vec<&str> = Permission::ALL.iter().map(|permission| permission.as_str()).collect();
    let permission = json!({ "type": "string", "enum": permissions });
    object(
        &[
            ("id", pattern(WORD)),
            ("version", integer(VERSION_MAX)),
            (
                "lineage",
                object(&[("evidence", events())], &[("supersedes", pattern(&format!("{WORD}@[1-9][0-9]*")))]),
            ),
            (
                "scope",
                object(
                    &[("includes", list(&line, 1, SCOPE_MAX)), ("excludes", list(&line, 0, SCOPE_MAX))],
                    &[],
                ),
            ),
            ("objective", text(1_000)),
            ("subscriptions", list(&subscription, 1, SUBSCRIPTIONS_MAX)),
            (
                "budgets",
                object(
                    &[("runsPerDay", integer(RUNS_A_DAY_MAX)), ("tokensPerDay", integer(TOKENS_A_DAY_MAX))],
                    &[],
                ),
            ),
            ("requestedPermissions", list(&permission, 0, permissions.len())),
            ("retirement", object(&[("afterDays", integer(DAYS_MAX))], &[("when", line.clone())])),
        ],
        &[],
    )
}
