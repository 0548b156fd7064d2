//! What a busy actor is doing, readable without sending it a message.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::ReasonCode;
use super::lock;
use thoughtstream_domain::time::Timestamp;

/// An id in a detail is cut here; ours are shorter, so only a mistake is ever cut.
const ID_BYTES_MAX: usize = 160;

/// One thing an actor tells about itself: a number, a fixed word, an id or a moment, never content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Detail {
    /// How many, how far, how long.
    Count(u64),
    /// A fixed word.
    Code(ReasonCode),
    /// An id of an event, run, source or document.
    Id(String),
    /// Several of them, a handful.
    Ids(Vec<String>),
    /// When.
    At(Timestamp),
}

impl Detail {
    /// Takes the printed form of an id.
    pub fn id(id: &impl fmt::Display) -> Self {
        let mut text = id.to_string();
        if text.len() > ID_BYTES_MAX {
            text.truncate(text.floor_char_boundary(ID_BYTES_MAX));
        }
        Self::Id(text)
    }
}

/// Where one incarnation writes down how it is doing. The supervisor and every inspector read it.
///
/// Each incarnation gets a new cell, so a task that outlives its actor cannot speak for the next one.
#[derive(Debug, Default)]
pub struct StatusCell {
    settled: AtomicU64,
    told: Mutex<Told>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Told {
    pub(crate) note: Option<ReasonCode>,
    pub(crate) details: Details,
}

/// What an actor tells about itself, by name: a handful, of which every actor has a few.
#[derive(Debug, Default, Clone)]
pub struct Details(Vec<(&'static str, Detail)>);

impl Details {
    /// Sets one; returns what it was before.
    pub fn insert(&mut self, key: &'static str, detail: Detail) -> Option<Detail> {
        if let Some((_, told)) = self.0.iter_mut().find(|(told, _)| *told == key) {
            return Some(std::mem::replace(told, detail));
        }
        self.0.reserve_exact(1);
        self.0.push((key, detail));
        None
    }

    /// Takes one back; returns what it was.
    pub fn remove(&mut self, key: &'static str) -> Option<Detail> {
        let place = self.0.iter().position(|(told, _)| *told == key)?;
        Some(self.0.remove(place).1)
    }
}

impl From<Details> for BTreeMap<&'static str, Detail> {
    fn from(details: Details) -> Self {
        details.0.into_iter().collect()
    }
}

impl StatusCell {
    /// Notes a finished piece of work: the exits before it no longer count against the child.
    ///
    /// One atomic addition, so it can be called for every settlement.
    pub fn settled(&self) {
        self.settled.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many pieces of work this incarnation finished.
    pub fn settled_count(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Says in one word what the actor is doing, or why it is waiting; `None` when there is nothing to say.
    pub fn note(&self, note: Option<ReasonCode>) {
        lock(&self.told).note = note;
    }

    /// Says all at once what the actor is doing.
    pub fn tell(&self, note: Option<ReasonCode>, change: impl FnOnce(&mut Details)) {
        let mut told = lock(&self.told);
        told.note = note;
        change(&mut told.details);
    }

    /// Sets one detail.
    pub fn set(&self, key: &'static str, detail: Detail) {
        lock(&self.told).details.insert(key, detail);
    }

    /// Takes one detail back.
    pub fn clear(&self, key: &'static str) {
        lock(&self.told).details.remove(key);
    }

    pub(crate) fn told(&self) -> Told {
        lock(&self.told).clone()
    }
}
