//! Executions and attempts: each row against its events, its triggers and its indexes.

use redb::{ReadableTable, ReadableTableMetadata};
use thoughtstream_domain::id::{EventId, ExecutionId, RunId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState, ExecutionStatus, Run, RunState};

use super::events::{TERMINALS, Walk, run_digest};
use super::{FindingKind, Findings};
use crate::codec::{be32, be64};
use crate::execution::{read_execution, read_run};
use crate::place;
use crate::reader::{ReadTable, View};
use crate::record;
use crate::rows::RowError;
use crate::tables::{Table, bucket, key, position_key, short_id};

struct Tables {
    events: ReadTable,
    executions: ReadTable,
    runs: ReadTable,
    unsettled: ReadTable,
    open: ReadTable,
    run_ids: ReadTable,
}

/// Checks all executions and runs; answers how many runs there are.
pub(super) fn check(view: &View<'_>, walk: &mut Walk, findings: &mut Findings) -> Result<u64, RowError> {
    let tables = Tables {
        events: view.table(Table::Events)?,
        executions: view.table(Table::Executions)?,
        runs: view.table(Table::Runs)?,
        unsettled: view.table(Table::Unsettled)?,
        open: view.table(Table::Open)?,
        run_ids: view.table(Table::RunIds)?,
    };
    walk.received.sort_unstable();
    walk.ended.sort_unstable();
    for pair in walk.ended.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let words = [TERMINALS[usize::from(pair[0].1)], TERMINALS[usize::from(pair[1].1)]];
        let message = format_args!("a run whose id begins with {:016x} ended as {words:?}", pair[0].0);
        findings.add(FindingKind::DoubleTerminal, "lifecycle", message);
    }
    let (mut unsettled, mut unread) = (0, false);
    for row in tables.executions.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let row = (Table::Executions, key.value(), value.value());
        let read = findings.read(view, row, |body| read_execution(body).ok());
        let Some(execution) = read else {
            unread = true;
            continue;
        };
        let place = place::of(Table::Executions, key.value(), &view.shared().names);
        unsettled += u64::from(execution.state.status() != ExecutionStatus::Closed);
        check_execution(view, &tables, key.value(), &execution, &place, findings)?;
    }
    let (mut runs, mut open) = (0, 0);
    for row in tables.runs.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        runs += 1;
        let row = (Table::Runs, key.value(), value.value());
        let Some(run) = findings.read(view, row, |body| read_run(body).ok()) else {
            unread = true;
            continue;
        };
        let place = place::of(Table::Runs, key.value(), &view.shared().names);
        open += u64::from(run.state.is_open());
        check_run(view, &tables, key.value(), &run, walk, &place, findings)?;
    }
    if unread {
        // What hangs on a row that cannot be read is not found wrong as well.
        return Ok(runs);
    }
    let ended = walk.ended.len() as u64;
    if ended != runs - open {
        let message = format_args!("{ended} terminal events for {} ended runs", runs - open);
        findings.add(FindingKind::Run, "lifecycle", message);
    }
    for (name, table, expected) in [
        (Table::Unsettled, &tables.unsettled, unsettled),
        (Table::Open, &tables.open, open),
        (Table::RunIds, &tables.run_ids, runs),
    ] {
        let found = table.len().map_err(RowError::storage)?;
        if found != expected {
            findings.add(FindingKind::Index, name.name(), format_args!("has {found} rows, not {expected}"));
        }
    }
    Ok(runs)
}

fn check_execution(
    view: &View<'_>,
    tables: &Tables,
    key: &[u8],
    execution: &Execution,
    place: &str,
    findings: &mut Findings,
) -> Result<(), RowError> {
    let mut wrong = |message: &str| findings.add(FindingKind::Execution, place, message);
    let names = &view.shared().names;
    let consumer = key.get(..4).and_then(|bytes| be32(bytes).ok()).and_then(|number| names.consumer(number));
    let position = key.get(4..).and_then(|bytes| be64(bytes).ok());
    if consumer.as_ref() != Some(&execution.consumer) || position != Some(execution.position()) {
        wrong("the key is not that of this execution");
    }
    let ids: Vec<EventId> = execution.triggers.iter().map(|trigger| trigger.id).collect();
    if ExecutionId::derive(&execution.consumer, &execution.fingerprint, &ids) != execution.id {
        wrong("the id is not derived from consumer, fingerprint and triggers");
    }
    let rising = execution.triggers.windows(2).all(|pair| pair[0].sequence < pair[1].sequence);
    if !rising {
        wrong("the triggers do not rise");
    }
    for trigger in &execution.triggers {
        let record = tables.events.get(&position_key(trigger.position)[..]).map_err(RowError::storage)?;
        let facts = record.and_then(|record| record::read_facts(record.value()).ok());
        let good = facts.is_some_and(|facts| {
            let source = names.source(facts.source);
            facts.id == trigger.id
                && facts.sequence == trigger.sequence
                && source.as_ref() == Some(&execution.source)
                && facts.privacy <= execution.privacy
        });
        if !good {
            wrong("a trigger is not the event the row says, or stronger in privacy");
        }
    }
    let listed = tables.unsettled.get(key).map_err(RowError::storage)?.is_some();
    if listed == (execution.state.status() == ExecutionStatus::Closed) {
        let message = format_args!("and {} disagree on whether it is closed", Table::Unsettled.name());
        findings.add(FindingKind::Index, place, message);
    }
    check_attempts(view, tables, key, execution, place, findings)
}

/// Checks an execution's attempts as a whole.
fn check_attempts(
    view: &View<'_>,
    tables: &Tables,
    key: &[u8],
    execution: &Execution,
    place: &str,
    findings: &mut Findings,
) -> Result<(), RowError> {
    let to = key!(key, u32::MAX);
    let mut attempts = Vec::new();
    for row in tables.runs.range(key..&to[..]).map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let body = view.open(Table::Runs, key.value(), value.value()).ok();
        // One that cannot be read is already a finding, or will be.
        let Some(run) = body.and_then(|body| read_run(body).ok()) else { return Ok(()) };
        attempts.push(run);
    }
    let numbers: Vec<u32> = attempts.iter().map(|run| run.attempt).collect();
    if numbers != (1..=execution.attempts).collect::<Vec<u32>>() {
        let message = format_args!("has attempts {numbers:?}, not 1 to {}", execution.attempts);
        findings.add(FindingKind::Execution, place, message);
    }
    let completed = attempts.iter().filter(|run| matches!(run.state, RunState::Completed { .. })).count();
    if completed > 1 {
        findings.add(FindingKind::DoubleCompletion, place, format_args!("was completed {completed} times"));
    }
    let says_completed = execution.state == ExecutionState::Closed { how: Closure::Completed };
    if says_completed != (completed == 1) {
        findings.add(FindingKind::Execution, place, "the row and its runs disagree on completion");
    }
    let open = attempts.iter().filter(|run| run.state.is_open()).count();
    let last_open = attempts.last().is_some_and(|run| run.state.is_open());
    let running = execution.state == ExecutionState::Running;
    if open > 1 || running != last_open || open == 1 && !last_open {
        let message = format_args!("is {} with {open} open attempts", execution.state.status().as_str());
        findings.add(FindingKind::Execution, place, message);
    }
    Ok(())
}

fn check_run(
    view: &View<'_>,
    tables: &Tables,
    key: &[u8],
    run: &Run,
    walk: &Walk,
    place: &str,
    findings: &mut Findings,
) -> Result<(), RowError> {
    let mut wrong = |message: &str| findings.add(FindingKind::Run, place, message);
    if RunId::derive(&run.execution, run.attempt) != run.id {
        wrong("the id is not derived from execution and attempt");
    }
    let place_in_key = key.get(4..12).and_then(|bytes| be64(bytes).ok());
    let attempt_in_key = key.get(12..).and_then(|bytes| be32(bytes).ok());
    if (place_in_key, attempt_in_key) != (Some(run.position), Some(run.attempt)) {
        wrong("the key is not that of this run");
    }
    let its_key = &key[..key.len().min(12)];
    let execution = tables.executions.get(its_key).map_err(RowError::storage)?;
    let is_its = execution.is_some_and(|row| {
        let body = view.open(Table::Executions, its_key, row.value()).ok();
        // One that cannot be read is already a finding.
        body.and_then(|body| read_execution(body).ok()).is_none_or(|execution| execution.id == run.execution)
    });
    if !is_its {
        wrong("there is no such execution");
    }
    let digest = run_digest(&run.id);
    if walk.received.binary_search(&digest).is_err() {
        wrong("no event says that it was received");
    }
    let first = walk.ended.partition_point(|(id, _)| *id < digest);
    let ended =
        walk.ended.get(first).filter(|(id, _)| *id == digest).map(|(_, code)| TERMINALS[usize::from(*code)]);
    let expected = if run.state.is_open() { None } else { Some(run.state.as_str()) };
    if ended != expected {
        let message =
            format!("the row says {}, the events say {}", run.state.as_str(), ended.unwrap_or("open"));
        wrong(&message);
    }
    let listed = tables.open.get(key).map_err(RowError::storage)?.is_some();
    if listed != run.state.is_open() {
        findings.add(FindingKind::Index, place, format_args!("and {} disagree", Table::Open.name()));
    }
    let id_key = key!(bucket(run.position), short_id(run.id.as_bytes()));
    let by_id = tables.run_ids.get(&id_key[..]).map_err(RowError::storage)?;
    if by_id.is_none_or(|row| row.value() != key) {
        findings.add(FindingKind::Index, Table::RunIds.name(), format_args!("does not lead to {place}"));
    }
    Ok(())
}
