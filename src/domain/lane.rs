//! What one consumer does next on one source, decided purely.
//!
//! A lane holds a bounded window of matching events and the executions that are not closed yet. It claims in
//! order and leaves no event out, keeps at most `concurrency` executions open or waiting, and stops at an
//! execution that a person must decide, and before an event that is not what was recorded. It knows neither the log nor time: what was read and what came of an
//! attempt is told to it, and it answers with the next [`Step`].

mod damaged;

use std::collections::{BTreeMap, VecDeque};

pub use damaged::DamagedEvent;

use crate::event::Event;
use crate::lifecycle::{Execution, ExecutionState};
use crate::time::Timestamp;

/// Bounds a lane; from the declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most events of one execution; at least 1.
    pub batch_max: usize,
    /// How long an incomplete batch waits for more, in milliseconds.
    pub batch_wait_ms: u64,
    /// The most executions open or waiting at once; 1 is strictly serial.
    pub concurrency: usize,
}

/// After how many passed events that do not match a lane asks to write its progress down.
pub const PASS_AFTER: u64 = 256;

/// Is what a lane asks its owner to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Fix a new execution on these events and open its first attempt.
    Claim {
        /// The events, in order.
        events: Vec<Event>,
        /// The claimed event before them; 0 if there is none.
        previous: u64,
    },
    /// Open the next attempt of this execution.
    Retry(Box<Execution>),
    /// Read matching events behind `after`, at most `limit`.
    Read {
        /// The last sequence that was looked at.
        after: u64,
        /// How many to read at most.
        limit: usize,
    },
    /// Write down that everything up to here is passed.
    Pass(u64),
    /// Nothing to do before this time, unless something happens.
    Wait(Timestamp),
    /// Nothing to do until something happens.
    Idle,
}

/// Says in a word what a lane is doing, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneState {
    /// It has caught up.
    Idle,
    /// An attempt is open.
    Running,
    /// It waits for the next attempt's time.
    Waiting(Timestamp),
    /// A person must decide.
    Held,
    /// It stands still before an event that is not what was recorded.
    Damaged,
    /// There is something to read.
    Behind,
}

#[derive(Debug)]
enum Part {
    Running,
    Stands(Box<Execution>),
}

/// Is one consumer's place on one source.
#[derive(Debug)]
pub struct Lane {
    /// Every matching event up to here is claimed, buffered or passed.
    cursor: u64,
    /// The last claimed event, or the progress it started from.
    claimed: u64,
    /// Progress as last written down, or the place before the event that it begins with.
    written: u64,
    /// The furthest sequence known to exist.
    head: u64,
    reading: bool,
    buffer: VecDeque<Event>,
    parts: BTreeMap<u64, Part>,
    gathering_since: Option<Timestamp>,
    damaged: Option<DamagedEvent>,
}

impl Lane {
    /// Starts where the log says: `progress` is written down, `claimed` is the last claimed event (at least
    /// `progress`), `unsettled` are the executions that are not closed, `head` is the source's last sequence.
    #[must_use]
    pub fn resume(progress: u64, claimed: u64, unsettled: Vec<Execution>, head: u64) -> Self {
        let claimed = claimed.max(progress);
        let parts = unsettled.into_iter().map(|e| (e.position(), Part::Stands(Box::new(e)))).collect();
        Self {
            cursor: claimed,
            claimed,
            written: progress,
            head,
            reading: false,
            buffer: VecDeque::new(),
            parts,
            gathering_since: None,
            damaged: None,
        }
    }

    /// Begins with the event of this sequence, on a source on which the log has no progress: those before it
    /// are not looked at, whether they are there already or come later. The log learns of it with the first
    /// execution, so a first claim is behind none.
    pub fn begin_with(&mut self, first: u64) {
        let before = first.saturating_sub(1);
        self.cursor = self.cursor.max(before);
        self.written = self.written.max(before);
    }

    /// Notes that the source reaches up to `head`.
    pub fn moved(&mut self, head: u64) {
        self.head = self.head.max(head);
    }

    /// Takes what was read behind `after`: matching events, and the last sequence that was looked at. A page
    /// that was asked for by an earlier state of the lane is not taken; says whether it was.
    pub fn read(&mut self, after: u64, events: Vec<Event>, looked_at: u64, now: Timestamp) -> bool {
        if !self.reading || after != self.cursor {
            return false;
        }
        self.reading = false;
        self.take(events, looked_at, now);
        true
    }

    /// Stands still before an event that follows what was read: it finishes that, and reads nothing more until it is
    /// made anew.
    pub fn stop_before(&mut self, damaged: DamagedEvent) {
        if self.damaged.as_ref().is_none_or(|known| damaged.sequence < known.sequence) {
            self.damaged = Some(damaged);
        }
    }

    /// Takes back the next attempt of the execution at `position`, one of whose triggers is damaged: it stays as the log
    /// has it, and nothing behind it is begun.
    pub fn stop_at(&mut self, position: u64, damaged: DamagedEvent) {
        self.forget(position);
        self.buffer.clear();
        self.gathering_since = None;
        self.stop_before(damaged);
    }

    /// Returns the event that it stands still before, or whose execution it cannot try again.
    #[must_use]
    pub const fn damaged(&self) -> Option<&DamagedEvent> {
        self.damaged.as_ref()
    }

    /// Takes the matching events between `after` and `through` that came with a wake-up, if the lane has looked
    /// at everything up to there and has room: then nothing needs to be read.
    pub fn offered(&mut self, after: u64, events: Vec<Event>, through: u64, now: Timestamp, limits: &Limits) {
        let fits = self.buffer.len() + events.len() <= window(limits);
        let stands = self.held().is_some() || self.damaged.is_some();
        if !self.reading && after == self.cursor && fits && !stands {
            self.take(events, through, now);
        }
    }

    fn take(&mut self, events: Vec<Event>, looked_at: u64, now: Timestamp) {
        if !events.is_empty() && self.buffer.is_empty() {
            self.gathering_since = Some(now);
        }
        self.cursor = self.cursor.max(looked_at).max(events.last().map_or(0, |event| event.sequence));
        self.buffer.extend(events);
    }

    /// Takes what came of an attempt: the execution as it stands now.
    pub fn ended(&mut self, execution: Execution) {
        let position = execution.position();
        match execution.state {
            ExecutionState::Closed { .. } => {
                self.parts.remove(&position);
            }
            ExecutionState::Running | ExecutionState::Waiting { .. } | ExecutionState::Held { .. } => {
                self.parts.insert(position, Part::Stands(Box::new(execution)));
            }
        }
    }

    /// Forgets an attempt that never came to be. The lane has counted on it, and is of no use until it is made
    /// anew.
    pub fn forget(&mut self, position: u64) {
        self.parts.remove(&position);
    }

    /// Notes that progress was written up to `sequence`.
    pub fn passed(&mut self, sequence: u64) {
        self.written = self.written.max(sequence);
    }

    /// Returns the first execution that a person must decide.
    #[must_use]
    pub fn held(&self) -> Option<&Execution> {
        self.parts.values().find_map(|part| match part {
            Part::Stands(execution) if matches!(execution.state, ExecutionState::Held { .. }) => {
                Some(execution.as_ref())
            }
            Part::Running | Part::Stands(_) => None,
        })
    }

    /// Returns how many attempts are open.
    #[must_use]
    pub fn running(&self) -> usize {
        self.parts.values().filter(|part| matches!(part, Part::Running)).count()
    }

    /// Returns how many sequences of the source were not looked at yet.
    #[must_use]
    pub const fn behind(&self) -> u64 {
        self.head.saturating_sub(self.cursor)
    }

    /// Says in a word what the lane is doing.
    #[must_use]
    pub fn state(&self) -> LaneState {
        if self.held().is_some() {
            return LaneState::Held;
        }
        if self.running() > 0 {
            return LaneState::Running;
        }
        match self.next_retry() {
            Some((at, _)) => LaneState::Waiting(at),
            None if self.damaged.is_some() => LaneState::Damaged,
            None if self.behind() > 0 || !self.buffer.is_empty() => LaneState::Behind,
            None => LaneState::Idle,
        }
    }

    fn next_retry(&self) -> Option<(Timestamp, u64)> {
        let waiting = self.parts.iter().filter_map(|(position, part)| match part {
            Part::Stands(execution) => match execution.state {
                ExecutionState::Waiting { at, .. } => Some((at, *position)),
                ExecutionState::Running | ExecutionState::Held { .. } | ExecutionState::Closed { .. } => None,
            },
            Part::Running => None,
        });
        waiting.min()
    }

    /// Says whether a waiting execution began to wait at a time that has not come yet: the clock was set back,
    /// and its wait means nothing any more.
    fn stood_still_before(&self, position: u64, now: Timestamp) -> bool {
        match self.parts.get(&position) {
            Some(Part::Stands(execution)) => now < execution.since,
            Some(Part::Running) | None => false,
        }
    }

    /// Returns the next step, and believes that its owner takes it.
    pub fn step(&mut self, now: Timestamp, limits: &Limits) -> Step {
        if let Some((at, position)) = self.next_retry()
            && (at <= now || self.stood_still_before(position, now))
            && let Some(Part::Stands(execution)) = self.parts.insert(position, Part::Running)
        {
            return Step::Retry(execution);
        }
        let may_claim = self.held().is_none() && self.parts.len() < limits.concurrency;
        if may_claim && let Some(step) = self.claim(now, limits) {
            return step;
        }
        let window = window(limits);
        let stands = self.held().is_some() || self.damaged.is_some();
        if !self.reading && self.behind() > 0 && self.buffer.len() < window && !stands {
            self.reading = true;
            return Step::Read { after: self.cursor, limit: window - self.buffer.len() };
        }
        let clean =
            self.parts.is_empty() && self.buffer.is_empty() && !self.reading && self.damaged.is_none();
        if clean && self.cursor >= self.written.max(self.claimed) + PASS_AFTER {
            self.written = self.cursor;
            return Step::Pass(self.cursor);
        }
        let gathered = self.gathered_at(limits).filter(|_| may_claim && !self.buffer.is_empty());
        match (self.next_retry().map(|(at, _)| at), gathered) {
            (Some(a), Some(b)) => Step::Wait(a.min(b)),
            (Some(at), None) | (None, Some(at)) => Step::Wait(at),
            (None, None) => Step::Idle,
        }
    }

    fn gathered_at(&self, limits: &Limits) -> Option<Timestamp> {
        let wait = i64::try_from(limits.batch_wait_ms).unwrap_or(i64::MAX);
        self.gathering_since.map(|since| since.plus_millis(wait))
    }

    fn claim(&mut self, now: Timestamp, limits: &Limits) -> Option<Step> {
        let first = self.buffer.front()?;
        let full = self.buffer.len() >= limits.batch_max;
        // A clock that was set back ends the wait rather than draw it out.
        let set_back = self.gathering_since.is_some_and(|since| now < since);
        if !full && !set_back && self.gathered_at(limits).is_some_and(|at| now < at) {
            return None;
        }
        let position = first.position;
        let count = limits.batch_max.max(1).min(self.buffer.len());
        let events: Vec<Event> = self.buffer.drain(..count).collect();
        let previous = self.claimed;
        self.claimed = events.last().map_or(previous, |event| event.sequence);
        self.gathering_since = (!self.buffer.is_empty()).then_some(now);
        self.parts.insert(position, Part::Running);
        Some(Step::Claim { events, previous })
    }
}

/// The most events a lane holds in memory, whatever is declared.
const WINDOW_MAX: usize = 256;

/// Returns how many events a lane holds before it claims them.
fn window(limits: &Limits) -> usize {
    limits.batch_max.saturating_mul(limits.concurrency).clamp(limits.batch_max, WINDOW_MAX)
}

#[cfg(test)]
mod tests;
