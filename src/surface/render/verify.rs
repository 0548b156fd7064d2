//! What a verification found.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{count, line};

/// Is a report as a program reads it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether there is no finding.
    pub ok: bool,
    /// How many events were walked.
    pub events: u64,
    /// How many runs were checked.
    pub runs: u64,
    /// The head digest.
    pub head: String,
    /// The findings, the first bad row first.
    pub findings: Vec<Finding>,
    /// How many there were beyond those listed.
    pub unlisted: u64,
}

/// Is one thing that is not as it should be.
#[derive(Debug, Clone, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: String,
    /// The row.
    pub place: String,
    /// What was found.
    pub message: String,
}

/// Renders a report.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    let word = if report.ok { "whole" } else { "NOT whole" };
    let mut write = |line: String| writeln!(text, "{line}").expect("writing to a String does not fail");
    write(format!("the log is {word}: {}, {}", count(report.events, "event"), count(report.runs, "run")));
    for finding in &report.findings {
        write(format!("  {}  {}: {}", line(&finding.kind), line(&finding.place), line(&finding.message)));
    }
    if report.unlisted > 0 {
        write(format!("  and {} not listed", super::count(report.unlisted, "finding")));
    }
    write(format!("head {}", line(&report.head)));
    text
}
