//! What attempts that did not complete have left for a person to see, where progress went on.
//!
//! A consumer may have failed many thousand times in the life of a log, and hardly any of it matters today. A running
//! service follows those ends as they come and keeps the few that may still be shown, so that asking what waits costs
//! what came since it was asked last, and what is shown. Who looks without a service begins at the start of the log, and
//! is told the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use thoughtstream_actors::runner::RunFailure;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, RunId, SourceId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::repair::{RepairProposed, RepairRequested};
use thoughtstream_domain::payload::run::{Next, RunAbandoned, RunFailed, RunStamp, RunStatusUnknown};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::super::runs::find_execution;
use super::unprocessed::{Left, is_passed, left};
use crate::failure::Failure;

/// Is an end of an attempt behind which progress went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// The attempt.
    pub(super) stamp: RunStamp,
    /// Why it ended so.
    pub(super) code: String,
    /// When.
    pub(super) at: Timestamp,
}

/// Is what one consumer has left behind.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    /// What no attempt could process, and was passed as declared: in the order of its ends.
    pub(super) unprocessed: Vec<(Execution, End)>,
    /// How many outputs were refused for good and not repaired, and the last of them.
    pub(super) refused: Option<(u64, End)>,
}

/// Is what is kept between two looks; see the module's page.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    consumers: BTreeMap<ConsumerId, Ends>,
    /// How far each agent was read for repairs, and the attempts in whose place one was proposed.
    repairs: BTreeMap<SourceId, u64>,
    repaired: BTreeSet<RunId>,
    /// How many events were read for all of this.
    #[cfg(test)]
    read: u64,
}

/// The ends of one consumer that may still matter, by their places.
#[derive(Debug, Default)]
struct Ends {
    /// How far its source was read.
    through: u64,
    unprocessed: BTreeMap<u64, End>,
    refused: BTreeMap<u64, End>,
}

impl Failures {
    /// Returns what each of the consumers that are enabled has left behind. It costs the attempts of theirs that did not
    /// complete since the last look, and what is shown.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be read: what was read before is kept, and the next look goes on from there.
    pub(super) fn look(
        &self,
        reader: &Reader,
        enabled: &BTreeSet<ConsumerKey>,
    ) -> Result<BTreeMap<ConsumerId, LeftBehind>, Failure> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = BTreeMap::new();
        for key in enabled {
            if !found.contains_key(&key.id) {
                kept.follow(reader, &key.id)?;
                let unprocessed = kept.unprocessed(reader, &key.id, enabled)?;
                let refused = kept.refused(reader, &key.id)?;
                found.insert(key.id.clone(), LeftBehind { unprocessed, refused });
            }
        }
        Ok(found)
    }
}

impl Kept {
    fn ends(&mut self, id: &ConsumerId) -> &mut Ends {
        self.consumers.entry(id.clone()).or_default()
    }

    /// Reads the ends that came since the last look, and keeps those that may matter.
    fn follow(&mut self, reader: &Reader, id: &ConsumerId) -> Result<(), Failure> {
        let (source, through) = (SourceId::agent(id), self.ends(id).through);
        let kinds = [RunFailed::kind().name, RunStatusUnknown::kind().name, RunAbandoned::kind().name];
        for event in reader.walk_after(&kinds, &source, through) {
            let event = event?;
            #[cfg(test)]
            {
                self.read += 1;
            }
            if let Some(end) = passed(&event) {
                let execution = find_execution(reader, &end.stamp.run.to_string())?;
                let is_refused = execution.state == ExecutionState::Closed { how: Closure::Failed }
                    && event.kind == RunFailed::kind()
                    && end.code != RunFailure::of_erased().code
                    && !is_repair(reader, &execution)?;
                if is_passed(&execution) {
                    self.ends(id).unprocessed.insert(event.sequence, end);
                } else if is_refused {
                    self.ends(id).refused.insert(event.sequence, end);
                }
            }
            self.ends(id).through = event.sequence;
        }
        Ok(())
    }

    /// Returns what was passed unprocessed and is to be shown, and forgets what never will be again.
    fn unprocessed(
        &mut self,
        reader: &Reader,
        id: &ConsumerId,
        enabled: &BTreeSet<ConsumerKey>,
    ) -> Result<Vec<(Execution, End)>, Failure> {
        let (mut shown, mut gone) = (Vec::new(), Vec::new());
        for (place, end) in &self.ends(id).unprocessed {
            let execution = find_execution(reader, &end.stamp.run.to_string())?;
            match left(reader, &execution, enabled)? {
                Left::Shown => shown.push((execution, end.clone())),
                Left::TakenUp => {}
                Left::Over => gone.push(*place),
            }
        }
        for place in gone {
            self.ends(id).unprocessed.remove(&place);
        }
        Ok(shown)
    }

    /// Counts the refused outputs in whose place no repair was proposed, and returns the last.
    fn refused(&mut self, reader: &Reader, id: &ConsumerId) -> Result<Option<(u64, End)>, Failure> {
        if self.ends(id).refused.is_empty() {
            return Ok(None);
        }
        self.follow_repairs(reader)?;
        let (repaired, ends) = (&self.repaired, self.consumers.entry(id.clone()).or_default());
        ends.refused.retain(|_, end| !repaired.contains(&end.stamp.run));
        let last = ends.refused.last_key_value().map(|(_, end)| end.clone());
        Ok(last.map(|end| (ends.refused.len() as u64, end)))
    }

    /// Reads which attempts were repaired since the last look: what was proposed in their place waits by itself.
    fn follow_repairs(&mut self, reader: &Reader) -> Result<(), Failure> {
        for head in reader.sources_where(|source| source.kind() == "agent")? {
            let through = self.repairs.entry(head.source.clone()).or_default();
            for event in reader.walk_after(&[RepairProposed::kind().name], &head.source, *through) {
                let event = event?;
                #[cfg(test)]
                {
                    self.read += 1;
                }
                self.repaired.extend(event.payload_as::<RepairProposed>().map(|proposed| proposed.failed));
                *through = event.sequence;
            }
        }
        Ok(())
    }
}

/// Reads the attempt and the reason of an end that lets progress pass.
fn passed(event: &Event) -> Option<End> {
    let (stamp, next, code) = if let Ok(RunFailed { stamp, next, code, .. }) = event.payload_as() {
        (stamp, next, code)
    } else if let Ok(RunStatusUnknown { stamp, next, code, .. }) = event.payload_as() {
        (stamp, next, code)
    } else {
        let RunAbandoned { stamp, next, code, .. } = event.payload_as().ok()?;
        (stamp, next, code)
    };
    (next == Next::Advance).then_some(End { stamp, code, at: event.recorded_at })
}

/// Says whether an execution was to repair the output of another, which is the one that counts.
fn is_repair(reader: &Reader, execution: &Execution) -> Result<bool, Failure> {
    let Some(trigger) = execution.triggers.first() else { return Ok(false) };
    let event = reader.showing_damage().event_at(trigger.position)?;
    Ok(event.is_some_and(|event| event.kind.name == RepairRequested::kind().name))
}

#[cfg(test)]
mod tests;
