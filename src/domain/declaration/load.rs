//! Loading: every file at once, every problem at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compile::Compiler;
use super::keys::DECLARATION;
use super::{Catalog, ContextStrategy, Declaration, DeclarationSet, codes};
use crate::dispatch::is_progress_name;
use crate::id::{ConsumerId, ConsumerKey};
use crate::proposal::materialize::held_as;
use crate::yaml::{self, Limits, Problem, Value as Yaml};

/// The largest prompt in bytes; it is part of every context packet of its consumer.
pub const PROMPT_BYTES_MAX: usize = 64 * 1024;

/// Finds the bytes of a prompt by its path.
pub type Prompts<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// Loads a whole set of declarations: `files` are names and bytes, `prompts` finds what they name.
///
/// # Errors
///
/// Every problem of every file, in order of file and place; nothing is loaded then.
pub fn load_all(
    files: &[(String, Vec<u8>)],
    prompts: Prompts<'_>,
    catalog: &Catalog,
) -> Result<DeclarationSet, Vec<Problem>> {
    let mut files: Vec<&(String, Vec<u8>)> = files.iter().collect();
    files.sort_by(|one, other| one.0.cmp(&other.0));
    let mut problems = Vec::new();
    let mut declarations = BTreeMap::new();
    let mut seen: BTreeMap<ConsumerId, (String, u32)> = BTreeMap::new();
    for (name, bytes) in files {
        let reading = yaml::read(name, bytes, Limits::DECLARATION);
        let mut found = reading.problems;
        let Some(root) = reading.root else {
            problems.extend(yaml::listed(found));
            continue;
        };
        if root.value == Yaml::Null {
            let problem = Problem::of_file(name, codes::EMPTY, "the file declares nothing");
            problems.extend(yaml::listed(found));
            problems.push(problem.with_hint("write a declaration, or remove the file"));
            continue;
        }
        yaml::check(&reading.source, &root, &DECLARATION, &mut found);
        let mut compiler = Compiler { source: &reading.source, catalog, prompts, problems: &mut found };
        let declaration = compiler.declaration(&root);
        if let Some((id, span)) = compiler.id(&root) {
            if is_reserved(&id) {
                let message = "the log keeps something of the service itself under this id";
                let problem = reading.source.problem(span, codes::RESERVED_ID, message);
                found.push(problem.with_hint("give it another id"));
            }
            let first = seen.entry(id).or_insert_with(|| (name.clone(), span.line));
            if first.0 != *name {
                let message =
                    format!("this id is declared in `{}` already", crate::text::excerpt(&first.0, 255));
                let problem = reading.source.problem(span, codes::DUPLICATE_ID, message);
                found.push(problem.with_hint("give one of the two another id, or remove one"));
            }
        }
        match declaration {
            Some(declaration) if found.is_empty() => {
                declarations.insert(declaration.id().clone(), Arc::new(declaration));
            }
            Some(_) => {}
            None if !found.is_empty() => {}
            None => {
                let message =
                    "the declaration was refused without a reason, which is a mistake of this program";
                let problem = Problem::of_file(name, codes::NO_REASON, message);
                found.push(
                    problem.with_hint("report it with this file, and write it in another way meanwhile"),
                );
            }
        }
        problems.extend(yaml::listed(found));
    }
    let set = DeclarationSet { declarations: Arc::new(declarations) };
    problems.extend(one_replier(&set));
    if problems.is_empty() {
        return Ok(set);
    }
    problems.sort_by(|one, other| one.order().cmp(&other.order()));
    Err(problems)
}

/// Says whether the log keeps something under this id that is no consumer's: how far a bot was read or answered, and
/// what is held back in a copy.
fn is_reserved(id: &ConsumerId) -> bool {
    *id == held_as() || is_progress_name(&ConsumerKey::new(id.clone(), 1))
}

/// Exactly one enabled declaration answers people directly: two would both answer one message.
fn one_replier(set: &DeclarationSet) -> Vec<Problem> {
    let replies = |declaration: &&Declaration| {
        let strategy = declaration.runner().model().map(|model| &model.strategy);
        matches!(strategy, Some(ContextStrategy::Conversation(_)))
    };
    let mut repliers = set.enabled().filter(replies);
    let Some(first) = repliers.next() else { return Vec::new() };
    let second = |declaration: &Declaration| {
        let message =
            format!("`{}` answers people already, and only one enabled declaration may", first.id());
        let problem = declaration.problem_at_version(codes::SECOND_REPLIER, message);
        problem.with_hint("set `enabled: false` in one of the two")
    };
    repliers.map(second).collect()
}

/// Returns the JSON Schema of a declaration, for editors.
#[must_use]
pub fn schema() -> serde_json::Value {
    yaml::json_schema(
        "thoughtstream declaration",
        "A consumer: which events it takes, who does the work, and what it may write.",
        &DECLARATION,
    )
}
