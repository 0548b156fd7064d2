//! When a person's correction of a delivered reply takes the reply's place in front of a model.
//!
//! Whether it may is decided by the projection of the output's judgments, which checks its whole lineage again.
//! Here is what a conversation keeps of the answer.

use crate::content::Content;
use crate::id::EventId;
use crate::judgment::{Hidden, Judged, Projection};

/// Is a correction that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// The projection.
    pub projection: String,
    /// The judgment.
    pub judgment: EventId,
    /// What the model sees in the reply's place.
    pub replacement: Content<String>,
}

/// Returns what a projection makes of an output in an answer to the message at position `now`: nothing, a correction
/// that counts, or why one does not. The correction must be older than that message.
#[must_use]
pub fn correction(judged: &Judged, projection: &Projection, now: u64) -> Option<Result<Correction, Hidden>> {
    let judgment = projection.judgment.map(|(id, _)| id);
    match projection.visible(judged, now) {
        Err(Hidden::Original) => None,
        Err(why) => Some(Err(why)),
        Ok(replacement) => judgment.map(|judgment| {
            let replacement = Content::new(replacement.summary().to_owned());
            Ok(Correction { projection: projection.id.to_string(), judgment, replacement })
        }),
    }
}
