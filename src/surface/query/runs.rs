//! Attempts, one or many.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::commit::ExecutionKey;
use thoughtstream_domain::id::{ConsumerKey, ExecutionId, RunId, SourceId};
use thoughtstream_domain::lifecycle::{Execution, Run, RunState};
use thoughtstream_domain::payload::run::RunStamp;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::{Sink, put, unknown};
use crate::ask::{ROWS_MAX, RunFilter};
use crate::exit::Exit;
use crate::failure::Failure;

/// How many rows are read at once.
const PAGE: usize = 500;

/// The lifecycle events of one attempt are a handful, but other events share their parents.
const CHILDREN_MAX: usize = 1000;

/// The words a filter may use.
const STATES: [&str; 7] =
    ["received", "started", "completed", "failed", "blocked", "status-unknown", "abandoned"];

/// Is one attempt, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// The attempt.
    pub run: RunId,
    /// Its execution.
    pub execution: ExecutionId,
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The attempt's number.
    pub attempt: u32,
    /// The source of its triggers.
    pub source: SourceId,
    /// Where it stands.
    pub state: String,
    /// Why, where there is a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// When it was received.
    pub received_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How many outputs it has.
    pub outputs: usize,
}

impl RunRow {
    /// Reads a row.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let outputs = if let RunState::Completed { outputs } = &run.state { outputs.len() } else { 0 };
        Self {
            run: run.id,
            execution: run.execution,
            consumer: run.consumer.clone(),
            attempt: run.attempt,
            source: run.source.clone(),
            state: run.state.as_str().to_owned(),
            code: run.state.code().map(str::to_owned),
            received_at: run.received_at,
            ended_at: run.ended_at,
            outputs,
        }
    }
}

/// Is one execution with all its attempts and their events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// The execution as it stands.
    pub execution: Value,
    /// Its attempts in order.
    pub attempts: Vec<RunRow>,
    /// Its lifecycle events and outputs, in the order of the log, without the content of outputs.
    pub events: Vec<RunEvent>,
}

/// Is one event of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// The event.
    pub id: thoughtstream_domain::id::EventId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: thoughtstream_domain::id::TypeRef,
    /// The attempt it belongs to; none for a person's decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// Lists attempts, the newest first.
///
/// # Errors
/// [`Failure`] if a state is not known or the log cannot be read.
pub fn list(reader: &Reader, filter: &RunFilter, sink: &mut dyn Sink) -> Result<(), Failure> {
    for state in &filter.states {
        if !STATES.contains(&state.as_str()) && state != "open" {
            let hint = format!("known: open, {}", STATES.join(", "));
            let what = format!("`{state}` is no state of a run");
            return Err(Failure::new(Exit::Usage, "run.state", what).with_hint(hint));
        }
    }
    let limit = filter.limit.min(ROWS_MAX) as usize;
    let wanted = |key: &ConsumerKey| filter.consumer.as_ref().is_none_or(|id| key.id == *id);
    let mut rows = Vec::new();
    for key in reader.consumers().into_iter().filter(wanted) {
        collect(reader, &key, filter, limit, &mut rows)?;
    }
    rows.sort_by(|one: &Run, other| {
        (other.received_at, other.position, other.attempt).cmp(&(one.received_at, one.position, one.attempt))
    });
    rows.iter().take(limit).try_for_each(|run| put(sink, &RunRow::of(run)))
}

fn collect(
    reader: &Reader,
    key: &ConsumerKey,
    filter: &RunFilter,
    limit: usize,
    rows: &mut Vec<Run>,
) -> Result<(), Failure> {
    let passes = |run: &Run| {
        let state = filter.states.is_empty()
            || filter.states.iter().any(|s| s == run.state.as_str() || (s == "open" && run.state.is_open()));
        state && filter.source.as_ref().is_none_or(|source| run.source == *source)
    };
    // Open attempts have an index of their own: asking for them does not walk the past.
    if !filter.states.is_empty()
        && filter.states.iter().all(|s| matches!(s.as_str(), "open" | "received" | "started"))
    {
        rows.extend(reader.open_attempts(Some(key))?.into_iter().filter(passes));
        return Ok(());
    }
    let (mut before, mut found) = (None, 0);
    loop {
        let page = reader.runs_before(key, before, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        // A page may end inside the attempts of one execution: the next page starts with all of them. If that
        // one fills a page by itself, what is there of it must do.
        let cut = last.position;
        let whole = page.len() < PAGE;
        let filled = page.iter().all(|run| run.position == cut);
        for run in page.into_iter().filter(|run| whole || filled || run.position > cut) {
            if passes(&run) {
                rows.push(run);
                found += 1;
            }
        }
        if whole || found >= limit {
            return Ok(());
        }
        before = Some(if filled { cut } else { cut + 1 });
    }
}

/// Returns one execution, by its own id or by that of one of its attempts.
///
/// # Errors
/// [`Failure`] if the id is malformed, unknown, or the log cannot be read.
pub fn one(reader: &Reader, id: &str) -> Result<RunReport, Failure> {
    let execution = find_execution(reader, id)?;
    let attempts = reader.attempts(&execution.key())?;
    let events = events_of(reader, &execution)?;
    let value = serde_json::to_value(&execution).map_err(|error| {
        Failure::new(Exit::Bug, "query.encode", "an execution cannot be written").because(&error)
    })?;
    Ok(RunReport { execution: value, attempts: attempts.iter().map(RunRow::of).collect(), events })
}

/// Finds an execution by `exe_…` or `run_…`.
///
/// # Errors
/// [`Failure`] if the id is malformed, unknown, or the log cannot be read.
pub(crate) fn find_execution(reader: &Reader, id: &str) -> Result<Execution, Failure> {
    let run_id = match (RunId::parse(id), ExecutionId::parse(id)) {
        (Ok(run), _) => run,
        // Every execution has a first attempt, whose id follows from its own.
        (Err(_), Ok(execution)) => RunId::derive(&execution, 1),
        (Err(_), Err(error)) => {
            let what = format!("`{id}` is neither a run nor an execution");
            return Err(Failure::new(Exit::Usage, "run.id", what).because(&error));
        }
    };
    let run = reader.run_by_id(&run_id)?.ok_or_else(|| unknown("run or execution", &id))?;
    let key = ExecutionKey { consumer: run.consumer.clone(), position: run.position };
    reader.execution(&key)?.ok_or_else(|| unknown("execution", &run.execution))
}

/// Returns the events about an execution: children of its first trigger that name it.
fn events_of(reader: &Reader, execution: &Execution) -> Result<Vec<RunEvent>, Failure> {
    let mut found = Vec::new();
    let mut after = 0;
    let source = SourceId::agent(&execution.consumer.id);
    let outputs: std::collections::BTreeSet<_> = reader
        .attempts(&execution.key())?
        .into_iter()
        .filter_map(|run| match run.state {
            RunState::Completed { outputs } => Some(outputs),
            RunState::Received
            | RunState::Started
            | RunState::Failed { .. }
            | RunState::Blocked { .. }
            | RunState::StatusUnknown { .. }
            | RunState::Abandoned { .. } => None,
        })
        .flatten()
        .collect();
    loop {
        let page = reader.children(execution.position(), after, CHILDREN_MAX)?;
        let Some(last) = page.last() else { break };
        after = last.position;
        for event in page {
            let value = event.payload_value();
            let stamp = value.as_ref().and_then(|value| value.get("stamp")).cloned();
            let stamp = stamp.and_then(|stamp| serde_json::from_value::<RunStamp>(stamp).ok());
            let names = |key: &str| value.as_ref().and_then(|v| v.get(key)).and_then(Value::as_str);
            let ours = match &stamp {
                Some(stamp) => event.source == source && stamp.execution == execution.id,
                None => {
                    outputs.contains(&event.id)
                        || (event.source == SourceId::decisions()
                            && names("execution") == Some(execution.id.to_string().as_str()))
                }
            };
            if ours {
                let attempt = stamp.map(|stamp| stamp.attempt);
                found.push(RunEvent {
                    id: event.id,
                    kind: event.kind,
                    attempt,
                    recorded_at: event.recorded_at,
                });
            }
        }
    }
    Ok(found)
}
