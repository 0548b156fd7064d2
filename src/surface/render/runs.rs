//! Attempts and executions.

use std::fmt::Write as _;

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age, age_or_dash, line, or_dash};
use crate::query::runs::{RunReport, RunRow};

/// Renders attempts, one a line.
#[must_use]
pub fn list(runs: &[RunRow], now: Timestamp) -> String {
    if runs.is_empty() {
        return "no runs\n".to_owned();
    }
    let heads = ["RUN", "CONSUMER", "SOURCE", "ATTEMPT", "STATE", "RECEIVED", "ENDED", "OUTPUTS", "CODE"];
    let mut rows = Rows::new(&heads).numbers(3).numbers(7);
    for run in runs {
        rows.row(&[
            run.run.to_string(),
            run.consumer.to_string(),
            run.source.to_string(),
            run.attempt.to_string(),
            run.state.clone(),
            age(run.received_at, now),
            age_or_dash(run.ended_at, now),
            run.outputs.to_string(),
            or_dash(run.code.as_deref()),
        ]);
    }
    rows.text()
}

/// Renders one execution with its attempts and events.
#[must_use]
pub fn report(report: &RunReport, now: Timestamp) -> String {
    let mut text = String::new();
    let field = |name: &str| report.execution.get(name).cloned().unwrap_or_default();
    let words = |name: &str| line(field(name).as_str().unwrap_or("-"));
    let state = field("state");
    let kind = state.get("kind").and_then(|kind| kind.as_str()).unwrap_or("-");
    let triggers = field("triggers");
    let mut write = |line: String| writeln!(text, "{line}").expect("writing to a String does not fail");
    write(format!("execution  {}", words("id")));
    write(format!("consumer   {}", words("consumer")));
    write(format!("source     {}", words("source")));
    let how =
        ["how", "code", "at"].into_iter().filter_map(|key| state.get(key)).filter_map(|value| value.as_str());
    write(format!("state      {}", line(&how.fold(kind.to_owned(), |text, how| text + " " + how))));
    for trigger in triggers.as_array().into_iter().flatten() {
        let id = trigger.get("id").and_then(|id| id.as_str()).unwrap_or("-");
        let sequence = trigger.get("sequence").cloned().unwrap_or_default();
        write(format!("trigger    {} ({})", line(id), line(&sequence.to_string())));
    }
    text.push('\n');
    text.push_str(&list(&report.attempts, now));
    text.push('\n');
    let mut rows = Rows::new(&["EVENT", "TYPE", "ATTEMPT", "AGE"]).numbers(2);
    for event in &report.events {
        let attempt = event.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.to_string());
        rows.row(&[event.id.to_string(), event.kind.to_string(), attempt, age(event.recorded_at, now)]);
    }
    text + &rows.text()
}
