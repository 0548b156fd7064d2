//! Who a declaration is across edits: its fingerprint, the difference between two, and the next version.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Declaration, DeclarationSet, codes};
use crate::canonical;
use crate::hash::Sha256Hash;
use crate::id::ConsumerKey;
use crate::yaml::{self, Limits, Problem};

impl Declaration {
    /// Returns what the fingerprint covers, as canonical JSON: the checked declaration without whether it is
    /// enabled, its prompt's hash, and the exact definition of each tool that it may propose with.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut declaration = self.to_json();
        if let Value::Object(map) = &mut declaration {
            map.remove("enabled");
        }
        let prompt = self.prompt.as_ref().map(|prompt| prompt.sha256);
        let mut identity = json!({ "format": 1, "declaration": declaration, "promptSha256": prompt });
        if let Some(model) = self.runner.model().filter(|model| !model.proposals.is_empty()) {
            identity["proposalTools"] = json!(model.proposal_tools());
        }
        let bytes = canonical::write(&identity).expect("the reader admits only numbers that are exact");
        String::from_utf8(bytes).expect("canonical JSON is UTF-8")
    }
}

/// Hashes what makes a declaration what it is.
pub(super) fn fingerprint(declaration: &Declaration) -> Sha256Hash {
    Sha256Hash::of(declaration.canonical().as_bytes())
}

/// Is one difference between two declarations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The path of keys, joined by dots.
    pub path: String,
    /// What stood there before; absent if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What stands there now; absent if nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Returns what changed from one checked declaration to another, in order of the paths.
///
/// Either may come from [`Declaration::to_json`] or [`Declaration::canonical`] of a version that was registered.
#[must_use]
pub fn diff(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(String::new(), Some(old), Some(new), &mut changes);
    changes
}

fn compare(path: String, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<Change>) {
    if old == new {
        return;
    }
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (old, new) {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            compare(inner, before.get(key), after.get(key), changes);
        }
        return;
    }
    changes.push(Change { path, old: old.cloned(), new: new.cloned() });
}

/// Returns the text of a declaration with the next version, and that version; nothing else in the text changes.
///
/// # Errors
///
/// The problems that keep the version from being found.
pub fn bump(name: &str, text: &str) -> Result<(String, u32), Vec<Problem>> {
    let reading = yaml::read(name, text.as_bytes(), Limits::DECLARATION);
    if !reading.problems.is_empty() {
        return Err(reading.problems);
    }
    let node = reading.root.as_ref().and_then(|root| root.get("version"));
    let next = node.and_then(|node| Some((node.span, u32::try_from(node.integer()?).ok()?.checked_add(1)?)));
    let Some((span, next)) = next else {
        let place = node.map_or_else(|| reading.source.span(0, 0), |node| node.span);
        let message = "there is no version here that could rise";
        let problem = reading.source.problem(place, yaml::codes::MISSING_KEY, message);
        return Err(vec![problem.with_hint("write `version: 1`")]);
    };
    let (before, after) = (&text[..span.offset], &text[span.offset + span.length..]);
    Ok((format!("{before}{next}{after}"), next))
}

/// Holds a set against what was registered before: a version, once used, is bound to its fingerprint for ever, and
/// versions never go back.
#[must_use]
pub fn check_registered(
    set: &DeclarationSet,
    registered: &BTreeMap<ConsumerKey, Sha256Hash>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for declaration in set.iter() {
        let key = declaration.key();
        let first = ConsumerKey::new(key.id.clone(), 0);
        let last = ConsumerKey::new(key.id.clone(), u32::MAX);
        let newest = registered.range(first..=last).next_back().map(|(newest, _)| newest.version);
        let bound = registered.get(key);
        let hint = format!("run: thought declaration bump {}", key.id);
        if let Some(newest) = newest.filter(|newest| *newest > key.version) {
            let message = format!("version {newest} was registered before, and versions never go back");
            let problem = declaration.problem_at_version(codes::WENT_BACK, message);
            problems.push(problem.with_hint(format!("write a version above {newest}")));
        } else if bound.is_some_and(|bound| *bound != declaration.fingerprint()) {
            let message = format!("the declaration changed, but `{key}` is registered with other content");
            let problem = declaration.problem_at_version(codes::CHANGED, message);
            problems.push(problem.with_hint(hint));
        }
    }
    problems.sort_by(|one, other| one.order().cmp(&other.order()));
    problems
}
