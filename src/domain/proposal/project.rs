//! What follows from a decision about a correction: a judgment of the reply, and nothing from a refusal.
//!
//! The judgment is made by the code that makes all judgments, under the contract that the reply was made under, and
//! its key is made of the proposal alone: made again after an interruption, it is the same event.

use crate::content::Content;
use crate::event::{Actor, ActorKind, Candidate};
use crate::id::{EventId, IdempotencyKey};
use crate::judgment::{Given, JudgeError, Judging, Proposed, active, judge_by};
use crate::payload::proposal::CorrectionProposed;

use super::decision::Decided;

/// The criterion of every judgment that comes of a correction an agent proposed.
pub const CRITERION: &str = "agent-self-correction";

/// The version of the criterion.
pub const CRITERION_VERSION: &str = "1";

/// Returns the key of the judgment that a proposal may become.
///
/// # Panics
/// Never: an id makes a key.
#[must_use]
pub fn key(proposal: &EventId) -> IdempotencyKey {
    IdempotencyKey::parse(&format!("proposal/{proposal}")).expect("an id makes a key")
}

/// Makes the judgment that an accepted or edited correction becomes; nothing if it was rejected. `given` is everything
/// that was thought of the reply before.
///
/// It replaces what an earlier accepted correction of this kind said of the same reply, and nothing that was said in
/// another way: where the two contradict each other, neither stands in the reply's place until a person takes one back.
///
/// # Errors
/// [`JudgeError`] if the text does not fit the reply's contract.
pub fn project(
    decided: &Decided<CorrectionProposed>,
    given: &[Given],
) -> Result<Option<Candidate>, JudgeError> {
    let Some(text) = decided.text() else { return Ok(None) };
    let reply = decided.proven().bound();
    let standing = active(given);
    let ours = |given: &&&Given| {
        given.newer.as_ref().is_some_and(|newer| newer.criterion.as_deref() == Some(CRITERION))
    };
    let before = standing.iter().filter(ours).max_by_key(|given| given.event.position).copied();
    let text = Content::new(text.to_owned());
    let judging = Judging {
        opinion: Proposed::CorrectText(&text),
        criterion: Some(CRITERION),
        criterion_version: CRITERION_VERSION,
        quality_eligible: true,
        external_export_eligible: false,
        authorizes_private: false,
        feedback: Some(decided.event()),
        delivery: Some(&reply.receipt),
        supersedes: before.map(|given| &given.event),
        operator: None,
    };
    let who = Actor { kind: ActorKind::Person, id: decided.decision().actor.clone() };
    judge_by(&reply.judged, &judging, who, key(&decided.proven().id())).map(Some)
}
