//! Whether an event of a materialization follows from what stands before it: the rule that a check of the log applies.

use crate::event::{ActorKind, Event};
use crate::id::EventId;
use crate::payload::materialization::{
    MaterializationBinding, MaterializationFailed, MaterializationStarted, Materialized,
};
use crate::payload::proposal::MemoryChangeProposed;
use crate::proposal::decision::Decided;

use super::{MATERIALIZER, Planned, Recorded, Seen, source, verified};

/// Is an event of a materialization, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It was begun.
    Started(MaterializationStarted),
    /// It is made.
    Made(Materialized),
    /// It was not made.
    Failed(MaterializationFailed),
}

impl Written {
    /// Reads an event; nothing if it is none of these, or cannot be read.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        if let Ok(started) = event.payload_as() {
            return Some(Self::Started(started));
        }
        if let Ok(made) = event.payload_as() {
            return Some(Self::Made(made));
        }
        event.payload_as().ok().map(Self::Failed)
    }

    /// Returns what it belongs to.
    #[must_use]
    pub const fn binding(&self) -> &MaterializationBinding {
        match self {
            Self::Started(started) => &started.binding,
            Self::Made(made) => &made.binding,
            Self::Failed(failed) => &failed.binding,
        }
    }
}

/// Says what keeps an event of a materialization from following.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unexplained {
    /// It was not written by the materializer, under its key, as sensitive as what it is about.
    #[error("the event is not one of the materializer's")]
    Author,
    /// It is about another proposal or decision, or about one that was refused.
    #[error("the event is not about a change that was accepted")]
    Undecided,
    /// It does not hang on what it follows.
    #[error("the event does not hang on what it follows")]
    Parent,
    /// What was begun is not what the decision makes of the frozen version.
    #[error("what was begun is not what was decided")]
    Announced,
    /// It is made or has failed, and nothing of it was begun.
    #[error("nothing was begun of what is said to be made")]
    NotBegun,
    /// It had come to an end before.
    #[error("the change had come to its end before")]
    Ended,
    /// The version or the event that the receipt names is not what was announced.
    #[error("the receipt names another version or event than what was announced")]
    Receipt,
}

/// Is what the log holds of one accepted change.
pub struct Behind<'a> {
    /// The proposal and its decision.
    pub decided: &'a Decided<MemoryChangeProposed>,
    /// The events of its materialization that stand before this one, oldest first.
    pub earlier: &'a [Event],
    /// What is recorded of the version that is replaced.
    pub recorded: &'a Recorded,
    /// What is recorded of the version that a receipt names, as if it were current.
    pub seen: &'a Seen,
}

impl Behind<'_> {
    /// Holds an event of the materialization against everything before it.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn explain(&self, event: &Event, written: &Written) -> Result<(), Unexplained> {
        let binding = written.binding();
        let ours = event.source == source()
            && event.key == binding.key()
            && event.actor.kind == ActorKind::System
            && event.actor.id == crate::event::Actor::ours(ActorKind::System, MATERIALIZER).id
            && event.privacy >= self.decided.event().privacy;
        if !ours {
            return Err(Unexplained::Author);
        }
        let about = binding.proposal == self.decided.proven().id() && binding.decision == self.decided.id();
        let Some(text) = self.decided.text().filter(|_| about) else { return Err(Unexplained::Undecided) };
        let earlier = || self.earlier.iter().filter_map(|event| Some((event, Written::of(event)?)));
        if earlier().any(|(_, before)| matches!(before, Written::Made(_))) {
            return Err(Unexplained::Ended);
        }
        let begun = earlier().find_map(|(event, before)| match before {
            Written::Started(started) if started.binding == *binding => Some((event.id, started)),
            Written::Started(_) | Written::Made(_) | Written::Failed(_) => None,
        });
        let hangs_on = |id: EventId| event.parents.first() == Some(&id);
        match written {
            Written::Started(started) => {
                if !hangs_on(self.decided.id()) {
                    return Err(Unexplained::Parent);
                }
                let proposed = self.decided.proven().payload();
                let bytes = self.recorded.bytes_of(&proposed.target);
                // How large a file may be is said in a configuration that may be another by now.
                let planned = bytes.and_then(|bytes| {
                    Planned::of(&proposed.target, bytes, proposed.operation, text, u64::MAX)
                });
                let announced = planned.is_ok_and(|planned| planned.is(started));
                if announced { Ok(()) } else { Err(Unexplained::Announced) }
            }
            Written::Failed(_) => {
                let follows = hangs_on(self.decided.id()) || begun.is_some_and(|(id, _)| hangs_on(id));
                if follows { Ok(()) } else { Err(Unexplained::Parent) }
            }
            Written::Made(made) => {
                let (id, started) = begun.ok_or(Unexplained::NotBegun)?;
                let failed = |before| matches!(before, Written::Failed(failed) if failed.binding == *binding);
                if earlier().any(|(_, before)| failed(before)) {
                    return Err(Unexplained::Ended);
                }
                if !hangs_on(id) {
                    return Err(Unexplained::Parent);
                }
                let (result, told) = verified(&started, self.seen).map_err(|_| Unexplained::Receipt)?;
                let named = result == made.result && told.id == made.file_event && made.base == started.base;
                if named { Ok(()) } else { Err(Unexplained::Receipt) }
            }
        }
    }
}
