//! Where an event came from, and what came of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{EventId, SourceId, TypeRef};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::events::find;
use crate::failure::Failure;

/// How many steps are followed in either direction; chains of ours are a handful long.
const DEPTH_MAX: usize = 32;

/// How many events one answer names at most; beyond it the answer says that it is cut.
const EVENTS_MAX: usize = 2000;

/// Is an event with those it came from and those that came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    /// The event that was asked about.
    pub event: Relative,
    /// What it was derived from, each with its own parents, up to the root.
    pub parents: Vec<Relative>,
    /// What was derived from it, each with its own children.
    pub children: Vec<Relative>,
    /// Whether there is more than is shown.
    pub cut: bool,
}

/// Is an event in a line of descent, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relative {
    /// The event.
    pub id: EventId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: TypeRef,
    /// Its source.
    pub source: SourceId,
    /// Its place there.
    pub sequence: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Whether it stands elsewhere in this answer with its relatives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
    /// The next ones in the same direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<Self>,
}

impl Relative {
    fn of(event: &Event, next: Vec<Self>, seen: bool) -> Self {
        Self {
            id: event.id,
            kind: event.kind.clone(),
            source: event.source.clone(),
            sequence: event.sequence,
            recorded_at: event.recorded_at,
            seen,
            next,
        }
    }
}

/// Follows an event in both directions.
///
/// # Errors
/// [`Failure`] if there is no such event or the log cannot be read.
pub fn lineage(reader: &Reader, id: &EventId) -> Result<Lineage, Failure> {
    // What is shown of an event stands in its head.
    let reader = &reader.showing_damage();
    let event = find(reader, id)?;
    let mut walk = Walk { reader, seen: BTreeSet::from([event.position]), cut: false };
    let parents = walk.follow(&event, Direction::Up, DEPTH_MAX)?;
    walk.seen = BTreeSet::from([event.position]);
    let children = walk.follow(&event, Direction::Down, DEPTH_MAX)?;
    Ok(Lineage { event: Relative::of(&event, Vec::new(), false), parents, children, cut: walk.cut })
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

struct Walk<'a> {
    reader: &'a Reader,
    seen: BTreeSet<u64>,
    cut: bool,
}

impl Walk<'_> {
    fn follow(
        &mut self,
        event: &Event,
        direction: Direction,
        depth: usize,
    ) -> Result<Vec<Relative>, Failure> {
        let next = match direction {
            Direction::Up => self.reader.parents(event.position)?,
            Direction::Down => self.reader.children(event.position, 0, EVENTS_MAX)?,
        };
        if depth == 0 {
            self.cut |= !next.is_empty();
            return Ok(Vec::new());
        }
        let mut relatives = Vec::with_capacity(next.len());
        for relative in &next {
            if self.seen.len() >= EVENTS_MAX {
                self.cut = true;
                break;
            }
            let first_time = self.seen.insert(relative.position);
            let beyond = if first_time { self.follow(relative, direction, depth - 1)? } else { Vec::new() };
            relatives.push(Relative::of(relative, beyond, !first_time));
        }
        Ok(relatives)
    }
}
