//! Who is alive, as an indented tree.

use serde_json::Value;
use thoughtstream_domain::time::Timestamp;

use super::{age, ago, line};
use crate::query::tree::Node;

/// Renders the tree.
#[must_use]
pub fn tree(root: &Node, now: Timestamp) -> String {
    let mut rows = Vec::new();
    push(&mut rows, root, now, "", "");
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.into_iter().fold(String::new(), |text, (name, rest)| {
        let pad = " ".repeat(width - name.chars().count());
        text + format!("{name}{pad}  {rest}").trim_end() + "\n"
    })
}

fn push(rows: &mut Vec<(String, String)>, node: &Node, now: Timestamp, first: &str, rest: &str) {
    rows.push((format!("{first}{}", line(&node.name)), facts(node, now)));
    let last = node.children.len().saturating_sub(1);
    for (index, child) in node.children.iter().enumerate() {
        let (branch, below) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        push(rows, child, now, &format!("{rest}{branch}"), &format!("{rest}{below}"));
    }
}

fn facts(node: &Node, now: Timestamp) -> String {
    let mut facts = vec![line(&node.state), age(node.since, now)];
    if !node.answering {
        facts.push("not answering".to_owned());
    }
    if node.restarts > 0 {
        let code =
            node.last_exit.as_ref().map_or_else(String::new, |exit| format!(", {}", line(&exit.code())));
        facts.push(format!("restarts {}{code}", node.restarts));
    }
    if let Some(at) = node.next_start_at {
        facts.push(format!("starts {}", super::consumers::next(Some(at), now)));
    }
    if let Some(note) = &node.note {
        facts.push(line(note));
    }
    for (key, value) in &node.detail {
        facts.push(format!("{} {}", line(key), detail(value, now)));
    }
    facts.join("  ")
}

fn detail(value: &Value, now: Timestamp) -> String {
    match value {
        Value::String(text) => match Timestamp::parse(text) {
            Ok(at) => ago(at, now),
            Err(_) => line(text),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            line(&value.to_string())
        }
    }
}
