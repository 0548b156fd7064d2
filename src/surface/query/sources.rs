//! The sources of the log.

use serde::{Deserialize, Serialize};
use thoughtstream_actors::service::APART;
use thoughtstream_channels::filesystem::producer::incident_of_skip;
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::Look;
use super::tree::Node;
use crate::exit::Exit;
use crate::failure::Failure;

/// Is one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRow {
    /// The source.
    pub source: SourceId,
    /// How many events it has.
    pub events: u64,
    /// When the last one was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// The chain's last link.
    pub chain: ChainHash,
}

/// Lists the sources by name.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn list(reader: &Reader) -> Result<Vec<SourceRow>, Failure> {
    let reader = &reader.showing_damage();
    let mut rows = Vec::new();
    for head in reader.sources()? {
        let last = reader.event_at(head.position)?;
        rows.push(SourceRow {
            source: head.source,
            events: head.sequence,
            last_at: last.map(|event| event.recorded_at),
            chain: head.chain,
        });
    }
    Ok(rows)
}

/// Is a producer that runs as a process of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Apart {
    /// Its source.
    pub source: SourceId,
    /// Whether it is connected.
    pub connected: bool,
    /// Since when it is, or is not.
    pub since: Timestamp,
    /// Its process, while it is, or if it was put out because it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
}

/// Finds the producers apart in a tree, in its order.
#[must_use]
pub fn apart(node: &Node) -> Vec<Apart> {
    let told = |key: &str| node.detail.get(key);
    let at =
        |key: &str| told(key).and_then(serde_json::Value::as_str).and_then(|at| Timestamp::parse(at).ok());
    if node.kind == APART
        && let Ok(source) = SourceId::parse(&node.name)
    {
        let connected = at("connectedSince");
        let since = connected.or_else(|| at("notConnectedSince")).unwrap_or(node.since);
        let pid = told("pid").and_then(serde_json::Value::as_u64);
        return vec![Apart { source, connected: connected.is_some(), since, pid }];
    }
    node.children.iter().flat_map(apart).collect()
}

impl Apart {
    /// Returns the process that is there, was connected and does not answer.
    #[must_use]
    pub fn silent(&self) -> Option<u64> {
        self.pid.filter(|_| !self.connected)
    }
}

/// Returns the command that runs a producer apart.
#[must_use]
pub fn producer_command(source: &SourceId) -> String {
    format!("thought serve --producer-only {source}")
}

/// Is something below a watched folder that its last look skipped, or the number of others of that reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedRow {
    /// The path below the folder, made safe to print; absent where only a number is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why, as a code.
    pub reason: String,
    /// The incident in which it counts; absent for what is skipped by design.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// How large it is, where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How many more of this reason there are that are not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<u64>,
}

/// Lists what the last look at a watched folder skipped: what counts in an incident first.
///
/// # Errors
/// [`Failure`] if no service runs, it does not watch the source, or has not looked at it yet.
pub fn skipped(look: &Look<'_>, source: &SourceId) -> Result<Vec<SkippedRow>, Failure> {
    let Some(live) = look.live else {
        let what = "no service runs on this log: what a look skipped only a running one knows";
        return Err(
            Failure::new(Exit::Refused, "service.none", what).with_hint("start it with `thought serve`")
        );
    };
    let Some(report) = live.skipped.get(source) else {
        return Err(Failure::new(Exit::Refused, "source.not-watched", format!("{source} is not watched"))
            .with_hint("`thought source list` names the sources"));
    };
    let Some(report) = report else {
        let what = format!("{source} was not looked at yet");
        return Err(Failure::new(Exit::CouldNotLook, "source.not-looked-at", what)
            .with_hint(format!("`thought why {source}` says what keeps it")));
    };
    let mut rows = Vec::new();
    for (&reason, &count) in &report.counts {
        let row = SkippedRow {
            path: None,
            reason: reason.code().to_owned(),
            incident: incident_of_skip(reason).map(str::to_owned),
            bytes: None,
            more: None,
        };
        let named = report.shown.iter().filter(|skip| skip.reason == reason);
        let before = rows.len();
        rows.extend(named.map(|skip| SkippedRow {
            path: Some(skip.shown.clone()),
            bytes: skip.bytes,
            ..row.clone()
        }));
        let more = count.saturating_sub((rows.len() - before) as u64);
        if more > 0 {
            rows.push(SkippedRow { more: Some(more), ..row });
        }
    }
    rows.sort_by_key(|row| row.incident.is_none());
    Ok(rows)
}
