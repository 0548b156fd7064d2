//! Reading in the log where a consumer stands; blocking, and called from a thread that may block.

use std::collections::{BTreeMap, BTreeSet};

use thoughtstream_domain::commit::Control;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::lane::{DamagedEvent, Lane};
use thoughtstream_domain::lifecycle::{Execution, ExecutionStatus};
use thoughtstream_domain::subscription::Replay;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader, RowError, SourceHead};

use super::{ATTEMPT_LEFT_OPEN, ConsumerSpec, Lost};
use crate::supervisor::Fault;

/// How many pages of events that do not match one read goes through before it reports back.
const PAGES_MAX: usize = 16;

/// Is where a consumer stands.
pub(super) struct Standing {
    pub(super) control: Option<Control>,
    pub(super) lanes: BTreeMap<SourceId, Lane>,
}

/// Reads where a consumer stands on every source that is for it, but for those in `skip`.
pub(super) fn standing(
    reader: &Reader,
    spec: &ConsumerSpec,
    skip: &BTreeSet<SourceId>,
) -> Result<Standing, Lost> {
    let control = reader.control(&spec.key.id)?;
    let mut unsettled = unsettled(reader, spec)?;
    let mut lanes = BTreeMap::new();
    for head in heads(reader, spec)? {
        if !skip.contains(&head.source) {
            let executions = unsettled.remove(&head.source).unwrap_or_default();
            lanes.insert(head.source.clone(), lane(reader, spec, &head.source, head.sequence, executions)?);
        }
    }
    // A source that holds executions exists; one that is not for this version any more is settled elsewhere.
    Ok(Standing { control, lanes })
}

/// Reads how far the sources reach that are for a consumer.
pub(super) fn heads(reader: &Reader, spec: &ConsumerSpec) -> Result<Vec<SourceHead>, RowError> {
    reader.sources_where(|source| spec.includes(source))
}

/// Reads where a consumer stands on sources that it sees for the first time, or anew.
pub(super) fn at_sight(
    reader: &Reader,
    spec: &ConsumerSpec,
    sources: Vec<SourceId>,
) -> Result<Vec<(SourceId, Lane)>, Lost> {
    let mut unsettled = unsettled(reader, spec)?;
    let lanes = sources.into_iter().map(|source| {
        let head = reader.head(&source)?.map_or(0, |head| head.sequence);
        let executions = unsettled.remove(&source).unwrap_or_default();
        let lane = lane(reader, spec, &source, head, executions)?;
        Ok((source, lane))
    });
    lanes.collect()
}

fn lane(
    reader: &Reader,
    spec: &ConsumerSpec,
    source: &SourceId,
    head: u64,
    unsettled: Vec<Execution>,
) -> Result<Lane, Lost> {
    let written = reader.progress_row(&spec.key, source)?;
    let progress = written.unwrap_or(0);
    let claims = reader.claims(&spec.key, source, usize::MAX)?;
    let claimed = claims.last().map_or(progress, |claim| claim.sequence);
    if unsettled.iter().any(|execution| execution.state.status() == ExecutionStatus::Running) {
        return Err(Lost::Fault(Fault(ATTEMPT_LEFT_OPEN)));
    }
    let mut lane = Lane::resume(progress, claimed, unsettled, head);
    if let (None, Replay::Sequence(first)) = (written, spec.subscription().replay()) {
        lane.begin_with(first);
    }
    Ok(lane)
}

fn unsettled(reader: &Reader, spec: &ConsumerSpec) -> Result<BTreeMap<SourceId, Vec<Execution>>, RowError> {
    let mut found: BTreeMap<SourceId, Vec<Execution>> = BTreeMap::new();
    let mut after = 0;
    loop {
        let page = reader.unsettled(&spec.key, after, PAGE_ROWS_MAX)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.position();
        for execution in page {
            found.entry(execution.source.clone()).or_default().push(execution);
        }
    }
}

/// Is what was read on one source.
pub(super) struct Found {
    /// What matches, in order.
    pub(super) events: Vec<Event>,
    /// The last sequence that was looked at.
    pub(super) looked_at: u64,
    /// What follows that nobody may act on or pass.
    pub(super) damaged: Option<DamagedEvent>,
}

/// Reads matching events behind `after`, at most `limit`.
pub(super) fn matching(
    reader: &Reader,
    spec: &ConsumerSpec,
    source: &SourceId,
    after: u64,
    limit: usize,
) -> Result<Found, RowError> {
    let types = spec.types();
    // Read before the events: what is appended in between is found by the next look.
    let head = reader.head(source)?.map_or(0, |head| head.sequence);
    let mut looked_at = after;
    for _ in 0..PAGES_MAX {
        let page = match reader.backlog(&types, source, looked_at, limit) {
            // Whether it matches, nobody can say: it may be what decides that which is damaged.
            Err(error @ RowError::Damaged { .. }) => {
                let damaged = reader.damaged_behind(&types, source, looked_at)?.ok_or(error)?;
                return Ok(Found { events: Vec::new(), looked_at, damaged: Some(damaged) });
            }
            page => page?,
        };
        let Some(last) = page.last() else {
            looked_at = looked_at.max(head);
            break;
        };
        looked_at = last.sequence;
        let events: Vec<Event> = page.into_iter().filter(|e| spec.subscription().matches(e)).collect();
        if !events.is_empty() {
            return Ok(Found { events, looked_at, damaged: None });
        }
    }
    Ok(Found { events: Vec::new(), looked_at, damaged: None })
}

/// Says why the triggers of an execution could not be read again.
pub(super) enum TriggersError {
    /// One of them is not what was recorded.
    Damaged(DamagedEvent),
    /// The log cannot be read.
    Unreadable(RowError),
}

/// Reads the triggers of an execution again, for a retry.
pub(super) fn triggers(reader: &Reader, execution: &Execution) -> Result<Vec<Event>, TriggersError> {
    let read =
        execution.triggers.iter().map(|trigger| match reader.event_in(&execution.source, trigger.sequence) {
            Ok(Some(event)) if (event.id, event.position) == (trigger.id, trigger.position) => Ok(event),
            // What is damaged is an index: built anew, it leads to the event again.
            Err(error) if !error.is_of_event() => Err(TriggersError::Unreadable(error)),
            Ok(_) | Err(_) => Err(TriggersError::Damaged(DamagedEvent {
                source: execution.source.clone(),
                sequence: trigger.sequence,
                position: trigger.position,
            })),
        });
    read.collect()
}
