//! What an output is worth after it was judged: the text that later context may show in its place.
//!
//! The projection is never stored. It is made from the output and the judgments among its children, so rebuilding
//! it is reading it, and a retraction needs nothing undone. It says what holds *now*; whether a conversation may
//! see it is a second question, because a correction that came after a message must not enter its context.

use serde::{Deserialize, Serialize};

use super::{Given, Judged, active};
use crate::contract::Observation;
use crate::hash::Sha256Hash;
use crate::id::{EventId, ProjectionId, RunId, TypeRef};
use crate::payload::judgment::Opinion;
use crate::privacy::Privacy;

/// The version of what a projection means.
pub const PROJECTION_VERSION: u32 = 2;

/// Says what became of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It stands as it was made.
    Original,
    /// A correction stands in its place.
    Corrected,
    /// Corrections contradict one another, so none stands in its place.
    Unresolved,
}

/// Says what decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// The run itself.
    Original,
    /// A correction.
    Correct,
}

/// Is the effective output of a run, as the log has it now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Projection {
    /// The id, derived from the output and the judgment.
    pub id: ProjectionId,
    /// The version of what it means.
    pub version: u32,
    /// What became of the output.
    pub status: Status,
    /// What decided it.
    pub authority: Authority,
    /// The run.
    pub run: RunId,
    /// The output.
    pub output: EventId,
    /// The output's first ancestor.
    pub root: EventId,
    /// The contract of original and replacement.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// The class of output and judgment together.
    pub privacy: Privacy,
    /// Whether the output is the proposal of a repair run.
    pub is_repair: bool,
    /// The correction that decided it, and its place in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgment: Option<(EventId, u64)>,
    /// What stands in the output's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Observation>,
}

/// Says why a projection is not shown to a model, which then sees the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hidden {
    /// There is no correction.
    Original,
    /// Corrections contradict one another.
    Unresolved,
    /// The correction came after the event that the context is for.
    Future,
    /// The output is a repair's.
    Repair,
    /// It does not belong to this output: another run, output, root, contract, or a weaker class.
    Mismatch,
}

/// Makes the projection of an output from all judgments of it. A judgment that does not belong to the output in
/// every respect is nothing.
#[must_use]
pub fn project(judged: &Judged, all: &[Given]) -> Projection {
    let standing = active(all);
    let mut corrections = standing.into_iter().filter_map(|given| match &given.opinion {
        // The older form had no projection; it supplies none.
        Opinion::Correct { replacement } if given.newer.is_some() && given.is_about(judged) => {
            Some((given, replacement))
        }
        Opinion::Correct { .. } | Opinion::Accept | Opinion::Reject | Opinion::Prefer { .. } => None,
    });
    let first = corrections.next();
    let agree = corrections.all(|(_, other)| first.is_some_and(|(_, one)| one == other));
    let (status, authority, found) = match first {
        None => (Status::Original, Authority::Original, None),
        Some(found) if agree => (Status::Corrected, Authority::Correct, Some(found)),
        Some(_) => (Status::Unresolved, Authority::Original, None),
    };
    let output = judged.event.id;
    let privacy =
        found.map_or(judged.event.privacy, |(given, _)| given.event.privacy.join(judged.event.privacy));
    Projection {
        id: ProjectionId::derive(&output, found.map(|(given, _)| &given.event.id)),
        version: PROJECTION_VERSION,
        status,
        authority,
        run: judged.stamp.run,
        output,
        root: judged.event.root,
        contract: judged.contract.kind().clone(),
        contract_hash: *judged.contract.hash(),
        privacy,
        is_repair: judged.is_repair,
        judgment: found.map(|(given, _)| (given.event.id, given.event.position)),
        replacement: found.map(|(_, replacement)| replacement.clone()),
    }
}

impl Projection {
    /// Returns what stands in an output's place in the context of an event at `position`: every part of the
    /// lineage is checked again, so that a projection read from elsewhere gains nothing.
    ///
    /// # Errors
    /// [`Hidden`] if the original is to be shown.
    pub fn visible(&self, judged: &Judged, position: u64) -> Result<&Observation, Hidden> {
        if self.is_repair || judged.is_repair {
            return Err(Hidden::Repair);
        }
        match self.status {
            Status::Original => return Err(Hidden::Original),
            Status::Unresolved => return Err(Hidden::Unresolved),
            Status::Corrected => {}
        }
        let belongs = self.version == PROJECTION_VERSION
            && self.authority == Authority::Correct
            && self.run == judged.stamp.run
            && self.output == judged.event.id
            && self.root == judged.event.root
            && self.contract == *judged.contract.kind()
            && self.contract_hash == *judged.contract.hash()
            && self.privacy >= judged.event.privacy;
        let (Some(replacement), Some((judgment, place)), true) = (&self.replacement, self.judgment, belongs)
        else {
            return Err(Hidden::Mismatch);
        };
        if self.id != ProjectionId::derive(&self.output, Some(&judgment)) {
            return Err(Hidden::Mismatch);
        }
        if place >= position { Err(Hidden::Future) } else { Ok(replacement) }
    }
}
