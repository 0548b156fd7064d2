//! Executions, runs and progress: the rows, and what the writer derives from them.
//!
//! A claim says that an execution holds an event above progress. Claims are made in order and leave no
//! matching event out (a precondition), so progress may pass an event when every claim up to it is closed;
//! what it has passed needs no claim any more.

use std::collections::BTreeSet;

use thoughtstream_domain::commit::ExecutionKey;
use thoughtstream_domain::id::{ConsumerKey, SourceId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState, ExecutionStatus, Run, Trigger};

use super::GroupState;
use crate::codec::be64;
use crate::execution::{write_execution, write_run};
use crate::names::NameKind;
use crate::rows::{RowError, Rows};
use crate::tables::{Table, bucket, key, short_id};

/// The value of a claim: the execution's place, and whether it is closed.
pub(crate) fn claim(position: u64, closed: bool) -> [u8; 9] {
    let mut bytes = [0; 9];
    bytes[..8].copy_from_slice(&position.to_be_bytes());
    bytes[8] = u8::from(closed);
    bytes
}

/// Reads a claim's value: the execution's place, and whether it is closed.
pub(crate) fn read_claim(value: &[u8]) -> Option<(u64, bool)> {
    let (position, closed) = value.split_at_checked(8)?;
    match closed {
        [0] => Some((be64(position).ok()?, false)),
        [1] => Some((be64(position).ok()?, true)),
        _ => None,
    }
}

/// Says whether a person takes what was passed unprocessed off their list: the one change of a closed execution.
fn is_dismissal(stands: &ExecutionState, becomes: &ExecutionState) -> bool {
    let closed = |how| ExecutionState::Closed { how };
    *stands == closed(Closure::Unprocessed) && *becomes == closed(Closure::Skipped)
}

impl GroupState<'_> {
    /// Says why an execution row contradicts what stands.
    pub(super) fn check_execution(
        &mut self,
        rows: &mut Rows<'_>,
        execution: &Execution,
    ) -> Result<Option<String>, RowError> {
        let rising = execution
            .triggers
            .windows(2)
            .all(|pair| pair[0].sequence < pair[1].sequence && pair[0].position < pair[1].position);
        if execution.triggers.is_empty() || !rising {
            return Ok(Some("the triggers are not rising events of one source".to_owned()));
        }
        let key: ExecutionKey = execution.key();
        if let Some(stands) = self.execution(rows, &key)? {
            return Ok(if stands.id != execution.id {
                Some(format!("{} stands there", stands.id))
            } else if stands.state.status() == ExecutionStatus::Closed
                && stands.state != execution.state
                && !is_dismissal(&stands.state, &execution.state)
            {
                Some("the execution is closed".to_owned())
            } else {
                None
            });
        }
        for trigger in &execution.triggers {
            let facts = self.cache.facts(rows, trigger.position)?;
            let known =
                facts.is_some_and(|facts| facts.id == trigger.id && facts.sequence == trigger.sequence);
            if !known {
                return Ok(Some(format!("trigger {} is not the event at {}", trigger.id, trigger.position)));
            }
        }
        let Some((consumer, source)) =
            self.consumer_and_source(rows, &execution.consumer, &execution.source)?
        else {
            return Ok(None);
        };
        let standing = self.cache.standing(rows, consumer, source)?;
        let held = execution.triggers.iter().find(|trigger| standing.claims.contains_key(&trigger.sequence));
        Ok(held.map(|trigger| format!("sequence {} is claimed by another execution", trigger.sequence)))
    }

    /// Says why a run row contradicts what stands.
    pub(super) fn check_run(&mut self, rows: &mut Rows<'_>, run: &Run) -> Result<Option<String>, RowError> {
        let stands = self.run(rows, &run.key())?;
        Ok(match stands {
            Some(stands) if stands.id != run.id => Some(format!("{} stands there", stands.id)),
            Some(stands) if !stands.state.is_open() && stands != *run => {
                Some(format!("the attempt has ended as {}", stands.state.as_str()))
            }
            Some(_) | None => None,
        })
    }

    pub(super) fn write_execution(
        &mut self,
        rows: &mut Rows<'_>,
        execution: &Execution,
    ) -> Result<(), RowError> {
        let name = execution.consumer.to_string();
        let consumer = self.cache.names.number(rows, NameKind::Consumer, &name)?;
        let source = self.cache.names.number(rows, NameKind::Source, execution.source.as_str())?;
        let key = key!(consumer, execution.position());
        let is_new = rows.put_new(Table::Executions, &key, &write_execution(execution))?;
        let closed = execution.state.status() == ExecutionStatus::Closed;
        if closed {
            if !is_new {
                rows.remove(Table::Unsettled, &key);
            }
            let closing = execution.triggers.iter().map(|trigger| trigger.sequence).collect();
            return self.close(rows, (consumer, source), execution.position(), closing);
        }
        if is_new {
            rows.put(Table::Unsettled, &key, &[]);
            let position = execution.position();
            let standing = self.cache.standing(rows, consumer, source)?;
            for Trigger { sequence, .. } in &execution.triggers {
                if *sequence > standing.progress {
                    rows.put(Table::Claims, &key!(consumer, source, *sequence), &claim(position, false));
                    standing.claims.insert(*sequence, (position, false));
                }
            }
        }
        Ok(())
    }

    /// Moves progress over the closed prefix of claims; `closing` holds the events of an execution that
    /// closes now, whether their claims are stored or not.
    fn close(
        &mut self,
        rows: &mut Rows<'_>,
        (consumer, source): (u32, u32),
        position: u64,
        mut closing: BTreeSet<u64>,
    ) -> Result<(), RowError> {
        let standing = self.cache.standing(rows, consumer, source)?;
        let before = standing.progress;
        let mut progress = before;
        closing.retain(|sequence| *sequence > before);
        loop {
            let stored = standing.claims.range(progress.saturating_add(1)..).next();
            let stored = stored.map(|(sequence, (_, closed))| (*sequence, *closed));
            let stored_sequence = stored.map_or(u64::MAX, |(sequence, _)| sequence);
            let next = closing.first().copied().unwrap_or(u64::MAX).min(stored_sequence);
            if next == u64::MAX {
                break;
            }
            if stored_sequence == next {
                let closed = stored.is_some_and(|(_, closed)| closed) || closing.contains(&next);
                if !closed {
                    break;
                }
                rows.remove(Table::Claims, &key!(consumer, source, next));
                standing.claims.remove(&next);
            }
            closing.remove(&next);
            progress = next;
        }
        for sequence in closing {
            rows.put(Table::Claims, &key!(consumer, source, sequence), &claim(position, true));
            standing.claims.insert(sequence, (position, true));
        }
        if progress > before {
            rows.put(Table::Progress, &key!(consumer, source), &progress.to_be_bytes());
            standing.progress = progress;
        }
        Ok(())
    }

    pub(super) fn write_run(&mut self, rows: &mut Rows<'_>, run: &Run) -> Result<(), RowError> {
        let consumer = self.cache.names.number(rows, NameKind::Consumer, &run.consumer.to_string())?;
        let key = key!(consumer, run.position, run.attempt);
        let is_new = rows.put_new(Table::Runs, &key, &write_run(run))?;
        if is_new {
            let id_key = key!(bucket(run.position), short_id(run.id.as_bytes()));
            rows.put(Table::RunIds, &id_key, &key);
        }
        if run.state.is_open() {
            rows.put(Table::Open, &key, &[]);
        } else if !is_new {
            rows.remove(Table::Open, &key);
        }
        Ok(())
    }

    /// Sets progress outright and drops the claims it passes.
    pub(super) fn set_progress(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerKey,
        source: &SourceId,
        sequence: u64,
    ) -> Result<(), RowError> {
        let consumer = self.cache.names.number(rows, NameKind::Consumer, &consumer.to_string())?;
        let source = self.cache.names.number(rows, NameKind::Source, source.as_str())?;
        rows.put(Table::Progress, &key!(consumer, source), &sequence.to_be_bytes());
        let standing = self.cache.standing(rows, consumer, source)?;
        standing.progress = sequence;
        let kept = standing.claims.split_off(&sequence.saturating_add(1));
        for claimed in std::mem::replace(&mut standing.claims, kept).into_keys() {
            rows.remove(Table::Claims, &key!(consumer, source, claimed));
        }
        self.close(rows, (consumer, source), 0, BTreeSet::new())
    }

    /// Passes events that do not match, unless a claimed one below is unsettled.
    pub(super) fn pass(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerKey,
        source: &SourceId,
        sequence: u64,
    ) -> Result<(), RowError> {
        let consumer = self.cache.names.number(rows, NameKind::Consumer, &consumer.to_string())?;
        let source = self.cache.names.number(rows, NameKind::Source, source.as_str())?;
        let standing = self.cache.standing(rows, consumer, source)?;
        // The first claim above progress is always an unsettled one, else progress would have passed it.
        let held = standing.claims.keys().next().is_some_and(|first| *first <= sequence);
        if sequence <= standing.progress || held {
            return Ok(());
        }
        standing.progress = sequence;
        rows.put(Table::Progress, &key!(consumer, source), &sequence.to_be_bytes());
        Ok(())
    }
}
