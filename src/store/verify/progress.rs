//! Claims and progress, as the batch rules define them.
//!
//! Progress is the highest sequence at and below which every matching event is closed. What an unsettled
//! execution holds therefore lies above it, the first claim above it is not closed, and every matching event
//! up to the last claim is held by some execution.

use std::collections::{BTreeMap, BTreeSet};

use redb::ReadableTable;
use thoughtstream_domain::id::{ConsumerKey, SourceId};
use thoughtstream_domain::lifecycle::ExecutionStatus;

use super::{FindingKind, Findings, Matches};
use crate::codec::{be32, be64};
use crate::execution::read_execution;
use crate::names::NameKind;
use crate::reader::View;
use crate::rows::RowError;
use crate::tables::{Table, key};
use crate::writer::{Head, read_claim};

/// One consumer on one source.
#[derive(Default)]
struct Lane {
    progress: u64,
    /// Sequence → (execution, closed), as claimed.
    claims: BTreeMap<u64, (u64, bool)>,
    /// Sequences of triggers of executions that are closed, rising: eight bytes each, the most that a verification
    /// holds of a long log beside [`Walk`](super::events::Walk).
    closed: Vec<u64>,
    /// Those of executions that are not.
    unsettled: BTreeMap<u64, u64>,
}

impl Lane {
    fn is_closed(&self, sequence: u64) -> bool {
        self.closed.binary_search(&sequence).is_ok()
    }
}

/// Consumer and source by their numbers.
type Lanes = BTreeMap<(u32, u32), Lane>;

/// Checks all lanes.
pub(super) fn check(
    view: &View<'_>,
    matches: &Option<&Matches<'_>>,
    passed: &BTreeSet<(ConsumerKey, SourceId, u64)>,
    findings: &mut Findings,
) -> Result<(), RowError> {
    let lanes = read_lanes(view, findings)?;
    let heads = view.table(Table::Heads)?;
    for ((consumer, source), lane) in &lanes {
        let place = place(view, *consumer, *source);
        let key = key!(*source);
        let head = heads.get(&key[..]).map_err(RowError::storage)?;
        let head = head.map(|row| view.open(Table::Heads, &key, row.value()).ok().map(Head::read));
        // One that cannot be read is already a finding.
        let head = match head {
            Some(read) => read.and_then(Result::ok),
            None => Some(Head::NONE),
        };
        if let Some(head) = head.filter(|head| lane.progress > head.sequence) {
            let message =
                format_args!("{} lies beyond the source's last sequence {}", lane.progress, head.sequence);
            findings.add(FindingKind::Progress, &place, message);
        }
        check_lane(lane, &place, findings);
    }
    match matches {
        Some(matches) => check_matches(view, matches, &lanes, passed, findings),
        None => Ok(()),
    }
}

fn place(view: &View<'_>, consumer: u32, source: u32) -> String {
    let names = &view.shared().names;
    let consumer = names.consumer(consumer).map_or_else(|| consumer.to_string(), |name| name.to_string());
    let source = names.source(source).map_or_else(|| source.to_string(), |name| name.to_string());
    format!("{} {consumer} {source}", Table::Progress.name())
}

fn check_lane(lane: &Lane, place: &str, findings: &mut Findings) {
    let mut wrong = |message: std::fmt::Arguments<'_>| findings.add(FindingKind::Progress, place, message);
    let progress = lane.progress;
    if let Some((sequence, _)) = lane.unsettled.first_key_value().filter(|(first, _)| **first <= progress) {
        wrong(format_args!("stands at {progress}, but {sequence} is not closed"));
    }
    if let Some((first, (_, closed))) = lane.claims.first_key_value() {
        if *first <= progress {
            wrong(format_args!("stands at {progress}, yet {first} is still claimed"));
        } else if *closed {
            wrong(format_args!("stands at {progress}, but {first} is closed and could be passed"));
        }
    }
    for (sequence, (execution, closed)) in &lane.claims {
        let held =
            if *closed { lane.is_closed(*sequence) } else { lane.unsettled.get(sequence) == Some(execution) };
        if !held {
            wrong(format_args!("the claim on {sequence} is not that of an execution in this state"));
        }
    }
    let held = lane.unsettled.keys().chain(&lane.closed);
    for sequence in held.filter(|sequence| **sequence > progress && !lane.claims.contains_key(sequence)) {
        wrong(format_args!("stands at {progress}, but {sequence} is held by an execution and not claimed"));
    }
}

fn read_lanes(view: &View<'_>, findings: &mut Findings) -> Result<Lanes, RowError> {
    let (mut lanes, mut unread) = (Lanes::new(), BTreeSet::new());
    for row in view.table(Table::Progress)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let row = (Table::Progress, key.value(), value.value());
        let lane = lane_key(key.value());
        match findings.read(view, row, |body| lane.zip(be64(body).ok())) {
            Some((lane, progress)) => lanes.entry(lane).or_default().progress = progress,
            None => unread.extend(lane),
        }
    }
    for row in view.table(Table::Claims)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let sequence = key.value().get(8..).and_then(|bytes| be64(bytes).ok());
        let row = (Table::Claims, key.value(), value.value());
        let lane = lane_key(key.value());
        match findings.read(view, row, |body| lane.zip(sequence).zip(read_claim(body))) {
            Some(((lane, sequence), claim)) => {
                lanes.entry(lane).or_default().claims.insert(sequence, claim);
            }
            None => unread.extend(lane),
        }
    }
    let names = &view.shared().names;
    for row in view.table(Table::Executions)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        // One that cannot be read is already a finding.
        let body = view.open(Table::Executions, key.value(), value.value()).ok();
        let Some(execution) = body.and_then(|body| read_execution(body).ok()) else { continue };
        let consumer = key.value().get(..4).and_then(|bytes| be32(bytes).ok());
        let source = names.number(NameKind::Source, execution.source.as_str());
        let Some(lane) = consumer.zip(source) else { continue };
        let lane = lanes.entry(lane).or_default();
        let sequences = execution.triggers.iter().map(|trigger| trigger.sequence);
        if execution.state.status() == ExecutionStatus::Closed {
            lane.closed.extend(sequences);
        } else {
            lane.unsettled.extend(sequences.map(|sequence| (sequence, execution.position())));
        }
    }
    // What follows from a row that cannot be read is not found wrong as well.
    lanes.retain(|lane, _| !unread.contains(lane));
    for lane in lanes.values_mut() {
        // Executions come by their first triggers, which of one source is by their sequences, unless a row is wrong.
        if !lane.closed.is_sorted() {
            lane.closed.sort_unstable();
        }
        lane.closed.shrink_to_fit();
    }
    Ok(lanes)
}

fn lane_key(key: &[u8]) -> Option<(u32, u32)> {
    Some((be32(key.get(..4)?).ok()?, be32(key.get(4..8)?).ok()?))
}

/// Compares every event with what each consumer was to process.
fn check_matches(
    view: &View<'_>,
    matches: &Matches<'_>,
    lanes: &Lanes,
    passed: &BTreeSet<(ConsumerKey, SourceId, u64)>,
    findings: &mut Findings,
) -> Result<(), RowError> {
    let events = view.table(Table::Events)?;
    let names = &view.shared().names;
    let mut by_source: BTreeMap<u32, Vec<(u32, &Lane)>> = BTreeMap::new();
    for ((consumer, source), lane) in lanes {
        by_source.entry(*source).or_default().push((*consumer, lane));
    }
    for position in 1..=view.last_position()? {
        // A record that cannot be read is already a finding.
        let Ok(Some(stored)) = view.stored(&events, position) else { continue };
        for (consumer, lane) in by_source.get(&stored.source).into_iter().flatten() {
            let sequence = stored.event.sequence;
            let last_claim = lane.claims.last_key_value().map_or(0, |(last, _)| *last);
            if sequence > lane.progress.max(last_claim) {
                continue;
            }
            let Some(key) = names.consumer(*consumer) else { continue };
            let held = lane.is_closed(sequence) || lane.unsettled.contains_key(&sequence);
            let is_passed = || passed.contains(&(key.clone(), stored.event.source.clone(), sequence));
            if !held && matches(&key, &stored.event) && !is_passed() {
                let message = format_args!(
                    "{} matches at sequence {sequence} and was never processed",
                    stored.event.id
                );
                findings.add(FindingKind::Progress, place(view, *consumer, stored.source), message);
            }
        }
    }
    Ok(())
}
