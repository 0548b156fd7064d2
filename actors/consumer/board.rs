//! What a consumer tells about itself, kept up lane by lane, so that a message costs the lane it is about.

use std::collections::{BTreeMap, BTreeSet};

use thoughtstream_domain::id::{ExecutionId, SourceId};
use thoughtstream_domain::lane::{DamagedEvent, Lane, LaneState};
use thoughtstream_domain::lifecycle::Execution;
use thoughtstream_domain::time::Timestamp;

/// Is one lane as it is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    state: LaneState,
    behind: u64,
    held: Option<ExecutionId>,
    damaged: Option<DamagedEvent>,
    /// When it wants to be looked at again although nothing happened.
    alarm: Option<Timestamp>,
}

/// Counts lanes.
#[derive(Debug, Default)]
pub(super) struct Board {
    shown: BTreeMap<SourceId, Shown>,
    behind: u64,
    lanes_behind: usize,
    alarms: BTreeSet<(Timestamp, SourceId)>,
    retries: BTreeSet<(Timestamp, SourceId)>,
    held: BTreeSet<SourceId>,
    damaged: BTreeSet<SourceId>,
}

impl Board {
    /// Shows a lane as it is now.
    pub(super) fn show(&mut self, source: &SourceId, lane: &Lane, alarm: Option<Timestamp>) {
        let held = lane.held().map(|execution: &Execution| execution.id);
        let damaged = lane.damaged().cloned();
        let shown = Shown { state: lane.state(), behind: lane.behind(), held, damaged, alarm };
        if self.shown.get(source) == Some(&shown) {
            return;
        }
        self.remove(source);
        self.behind += shown.behind;
        self.lanes_behind += usize::from(shown.state == LaneState::Behind);
        if let LaneState::Waiting(at) = shown.state {
            self.retries.insert((at, source.clone()));
        }
        if let Some(at) = shown.alarm {
            self.alarms.insert((at, source.clone()));
        }
        if shown.held.is_some() {
            self.held.insert(source.clone());
        }
        if shown.damaged.is_some() {
            self.damaged.insert(source.clone());
        }
        self.shown.insert(source.clone(), shown);
    }

    /// Takes a lane away.
    pub(super) fn remove(&mut self, source: &SourceId) {
        let Some(shown) = self.shown.remove(source) else { return };
        self.behind -= shown.behind;
        self.lanes_behind -= usize::from(shown.state == LaneState::Behind);
        if let LaneState::Waiting(at) = shown.state {
            self.retries.remove(&(at, source.clone()));
        }
        if let Some(at) = shown.alarm {
            self.alarms.remove(&(at, source.clone()));
        }
        if shown.held.is_some() {
            self.held.remove(source);
        }
        if shown.damaged.is_some() {
            self.damaged.remove(source);
        }
    }

    /// Returns how many sequences of all sources were not looked at yet.
    pub(super) const fn behind(&self) -> u64 {
        self.behind
    }

    /// Says whether a lane has something to read and nothing else to do.
    pub(super) const fn is_behind(&self) -> bool {
        self.lanes_behind > 0
    }

    /// Returns when the next attempt of a waiting execution may start.
    pub(super) fn retry_at(&self) -> Option<Timestamp> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// Returns the first execution that a person must decide.
    pub(super) fn held(&self) -> Option<ExecutionId> {
        self.held.first().and_then(|source| self.shown.get(source)).and_then(|shown| shown.held)
    }

    /// Returns the events that lanes stand still before because they are damaged.
    pub(super) fn damaged(&self) -> impl Iterator<Item = &DamagedEvent> {
        self.damaged.iter().filter_map(|source| self.shown.get(source)?.damaged.as_ref())
    }

    /// Returns when a lane wants to be looked at.
    pub(super) fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Returns the lanes whose time has come.
    pub(super) fn due(&self, now: Timestamp) -> Vec<SourceId> {
        let due = self.alarms.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, source)| source.clone()).collect()
    }
}
