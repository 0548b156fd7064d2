//! What a model saw, for people: where it came from, every message, and everything that was left out or changed.

use std::fmt::Write as _;

use serde_json::Value;
use thoughtstream_domain::text::printable;

use super::{Rows, count, line};
use crate::query::context::{ContextDiff, ContextReport, MessageRow, Side};

/// Renders what a model saw.
#[must_use]
pub fn report(report: &ContextReport) -> String {
    let mut text = String::new();
    let mut write = |name: &str, words: String| {
        writeln!(text, "{name:<11} {words}").expect("writing to a String does not fail");
    };
    write("execution", report.execution.to_string());
    write("consumer", report.consumer.to_string());
    write("packet", format!("{} ({}, verified)", report.sha256, count(report.bytes, "byte")));
    write("privacy", report.capabilities.privacy.to_string());
    let tools = &report.capabilities.tools;
    write("tools", if tools.is_empty() { "none".to_owned() } else { line(&tools.join(", ")) });
    let runtime = &report.runtime;
    let adapter = runtime.model_adapter.as_deref().map_or_else(String::new, |adapter| format!(", {adapter}"));
    let runner = &runtime.execution_adapter_revision;
    write("model", line(&format!("{} at {}, run by {runner}{adapter}", runtime.model, runtime.profile)));
    if let Some(prompt) = &report.prompt {
        write("prompt", line(&format!("{} {}", prompt.path, prompt.sha256)));
    }
    write("contract", format!("{} {}", report.contract.name, report.contract.sha256));
    for trigger in &report.triggers {
        write("trigger", trigger.to_string());
    }
    for document in &report.documents {
        let words =
            format!("{} {}@{} {}", document.source, document.path, document.revision, document.sha256);
        write("document", line(&words));
    }
    for image in &report.images {
        write(
            "image",
            line(&format!("{} {}, {}", image.path, image.mime.as_str(), count(image.bytes, "byte"))),
        );
    }
    text.push('\n');
    for message in &report.messages {
        push_message(&mut text, "", message);
    }
    text + &manifest(report)
}

/// Writes a message: its role and size, then its text, each line indented so that none can pass for ours.
fn push_message(text: &mut String, mark: &str, message: &MessageRow) {
    let MessageRow { role, chars, sha256, .. } = message;
    let head = format!("{mark}{} ({}, {})", line(role), count(*chars, "character"), sha256.short());
    writeln!(text, "{head}").expect("writing to a String does not fail");
    for words in message.text.iter().flat_map(|words| words.split('\n')) {
        writeln!(text, "{mark}    {}", printable(words)).expect("writing to a String does not fail");
    }
}

fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Renders the account of a packet.
fn manifest(report: &ContextReport) -> String {
    let manifest = &report.manifest;
    let mut text = String::new();
    let mut write = |words: String| writeln!(text, "{words}").expect("writing to a String does not fail");
    let (chars, max) = (manifest.chars, manifest.max_chars);
    write(format!("\n{chars} of {max} characters, at most {}", count(manifest.max_events, "event")));
    if manifest.is_untouched() {
        write("nothing was left out, cut or changed".to_owned());
        return text;
    }
    let mut rows = Rows::new(&["LEFT OUT", "ID", "RULE"]);
    for omitted in &manifest.omitted {
        rows.row(&[word(&omitted.part), omitted.id.clone(), word(&omitted.rule)]);
    }
    for omitted in &manifest.stretches {
        let stretch = &omitted.stretch;
        let ends = format!("{} …", stretch.first);
        let rule = format!("{}, {}", word(&omitted.rule), count(stretch.count, "time"));
        rows.row(&[word(&omitted.part), ends, rule]);
        rows.row(&[String::new(), format!("… {}", stretch.last), format!("hash {}", stretch.hash.short())]);
    }
    if !manifest.omitted.is_empty() || !manifest.stretches.is_empty() {
        write(rows.text());
    }
    let mut rows = Rows::new(&["CHANGED", "RECORDED", "SHOWN", "HOW"]);
    for changed in &manifest.changed {
        let how = serde_json::to_value(&changed.how).unwrap_or_default();
        let kind = how.get("kind").map_or_else(String::new, word);
        let by = how.get("judgment").map_or_else(String::new, |judgment| format!(" by {}", word(judgment)));
        rows.row(&[changed.id.to_string(), changed.recorded.short(), changed.shown.short(), kind + &by]);
    }
    if !manifest.changed.is_empty() {
        write(rows.text());
    }
    for unfit in &manifest.unfit {
        write(format!("the correction of {} does not count: {}", unfit.id, word(&unfit.why)));
    }
    text
}

/// Renders how two packets differ.
#[must_use]
pub fn diff(diff: &ContextDiff) -> String {
    let mut text = format!("- {}\n+ {}\n", diff.one, diff.other);
    if diff.same {
        return text + "both models saw the same\n";
    }
    let mut write = |words: String| writeln!(text, "{words}").expect("writing to a String does not fail");
    for field in &diff.fields {
        let shown = |value: &Value| line(&value.to_string());
        write(format!("\n{}\n- {}\n+ {}", field.name, shown(&field.one), shown(&field.other)));
    }
    write(String::new());
    for row in &diff.messages {
        let mark = match row.side {
            Side::Both => "  ",
            Side::One => "- ",
            Side::Other => "+ ",
        };
        push_message(&mut text, mark, &row.message);
    }
    if !diff.candidates.is_empty() {
        let mut rows = Rows::new(&["ID", "-", "+"]);
        for row in &diff.candidates {
            rows.row(&[row.id.clone(), row.one.clone(), row.other.clone()]);
        }
        text.push('\n');
        text.push_str(&rows.text());
    }
    text
}
