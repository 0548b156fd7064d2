//! What a person decides about a proposal: accepted, edited or rejected, once and for all.
//!
//! The key of the decision is made of the proposal alone, so there is one for each proposal whoever decides, and two
//! at once compete for it in the log. Who comes second and says the same is told that it stands so; who says
//! something else is told what stands. What is submitted under which name is provenance and changes neither.

use crate::commit::Commit;
use crate::contract::Issues;
use crate::event::{Actor, ActorKind, Candidate, Envelope, Event, Parent, Payload, Reference};
use crate::id::{EventId, SourceId};
use crate::payload::TypedPayload as _;
use crate::payload::proposal::{
    Authority, CorrectionProposed, Decidable, Disposition, MemoryChangeProposed, ProposalDecision,
};
use crate::payload::system::Operator;
use crate::privacy::Privacy;

use super::Kind;
use super::lineage::{AnyProven, Chained, Proven};
use super::text::{BoundsError, ProposedText, Replacement};

/// Says why something cannot be decided so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// A focus waits for a way of its own; nobody decides about it here.
    #[error("a proposed focus has no decision: it is kept as it is, and nothing follows from it")]
    NoDecision,
    /// The text that should stand in place of the proposed one does not fit its bounds.
    #[error("the replacement does not fit")]
    Replacement(#[source] BoundsError),
    /// The reply's contract does not hold with that text in its place, so nothing could follow from the decision.
    #[error("the replacement breaks the contract of the reply")]
    Contract(#[source] Issues),
}

impl DecideError {
    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoDecision => "proposal.no-decision",
            Self::Replacement(_) | Self::Contract(_) => "proposal.replacement",
        }
    }
}

/// Says why an event is not the decision about a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionFault {
    /// It is of another type, was redacted, or cannot be read.
    #[error("decision-unreadable: the decision cannot be read")]
    Unreadable,
    /// It is about another proposal, of another kind, or does not hang on it.
    #[error("decision-proposal: the decision is not about this proposal")]
    Proposal,
    /// No person wrote it where decisions go, under the one key there is.
    #[error("decision-author: the decision was not made by a person")]
    Author,
    /// Its text does not fit the bounds of what it is about.
    #[error("decision-replacement: the decision's text does not fit")]
    Replacement,
}

impl DecisionFault {
    /// Returns the code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unreadable => "decision-unreadable",
            Self::Proposal => "decision-proposal",
            Self::Author => "decision-author",
            Self::Replacement => "decision-replacement",
        }
    }
}

/// Makes the decision about a proposal.
///
/// # Errors
/// [`DecideError`] if nobody decides about this kind, or the text does not fit.
pub fn decide(
    proven: &AnyProven,
    disposition: Disposition,
    submission: Reference,
    operator: &Operator,
) -> Result<Commit, DecideError> {
    let kind = Decidable::of(proven.kind()).ok_or(DecideError::NoDecision)?;
    fits(kind, &disposition).map_err(DecideError::Replacement)?;
    if let (AnyProven::Correction(proven), Disposition::Edit { replacement }) = (proven, &disposition) {
        let judged = &proven.bound().judged;
        judged
            .contract
            .with_display(&judged.observation, replacement.reveal())
            .map_err(DecideError::Contract)?;
    }
    let proposal = proven.event();
    let actor = Actor::ours(ActorKind::Person, &format!("uid:{}", operator.uid));
    let key = ProposalDecision::key(&proposal.id);
    let privacy = proposal.privacy.join(Privacy::Sensitive);
    let envelope = Envelope::new(SourceId::decisions(), key, privacy, actor.clone())
        .with_parents(vec![Parent::of(proposal)]);
    let decision = ProposalDecision {
        proposal: proposal.id,
        kind,
        disposition,
        submission,
        actor: actor.id,
        authority: Authority::Human,
    };
    Ok(Commit { appends: vec![decision.candidate(envelope)], ..Commit::default() })
}

/// Holds the text of an edit against the bounds of what it stands for.
fn fits(kind: Decidable, disposition: &Disposition) -> Result<(), BoundsError> {
    match (kind, disposition) {
        (Decidable::SelfCorrection, Disposition::Edit { replacement }) => {
            Replacement::new(replacement.reveal().to_owned()).map(|_| ())
        }
        (Decidable::MemoryChange | Decidable::SelfCorrection, _) => Ok(()),
    }
}

/// Says whether a decision that stands says what somebody asks for: disposition and text are what counts, and not
/// who submitted it, when, or under which name.
#[must_use]
pub fn says_the_same(standing: &ProposalDecision, asked: &Disposition) -> bool {
    standing.disposition == *asked
}

/// Reads the event that stands under the key of a proposal's decision.
///
/// # Errors
/// [`DecisionFault`] if it is not a person's decision about this proposal.
pub fn read(proposal: &Event, kind: Kind, event: &Event) -> Result<ProposalDecision, DecisionFault> {
    if !matches!(event.payload, Payload::Present(_)) {
        return Err(DecisionFault::Unreadable);
    }
    let decision: ProposalDecision = event.payload_as().map_err(|_| DecisionFault::Unreadable)?;
    let about = decision.proposal == proposal.id
        && Some(decision.kind) == Decidable::of(kind)
        && event.parents.first() == Some(&proposal.id)
        && event.position > proposal.position;
    if !about {
        return Err(DecisionFault::Proposal);
    }
    let author = event.source == SourceId::decisions()
        && event.key == ProposalDecision::key(&proposal.id)
        && event.actor.kind == ActorKind::Person
        && event.actor.id == decision.actor
        && event.privacy >= proposal.privacy;
    if !author {
        return Err(DecisionFault::Author);
    }
    fits(decision.kind, &decision.disposition).map_err(|_| DecisionFault::Replacement)?;
    Ok(decision)
}

/// Is a proven proposal with the person's decision about it, both held against the log.
#[derive(Debug, Clone)]
pub struct Decided<P: Chained> {
    proven: Proven<P>,
    event: Event,
    decision: ProposalDecision,
}

impl<P: Chained> Decided<P> {
    /// Joins a proven proposal and the event of its decision.
    ///
    /// # Errors
    /// [`DecisionFault`] if the event is not a person's decision about this proposal.
    pub fn of(proven: Proven<P>, event: Event) -> Result<Self, DecisionFault> {
        let decision = read(proven.event(), P::KIND, &event)?;
        Ok(Self { proven, event, decision })
    }

    /// Returns the proposal.
    #[must_use]
    pub const fn proven(&self) -> &Proven<P> {
        &self.proven
    }

    /// Returns the decision's event.
    #[must_use]
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// Returns the decision's id.
    #[must_use]
    pub const fn id(&self) -> EventId {
        self.event.id
    }

    /// Returns what was decided.
    #[must_use]
    pub const fn decision(&self) -> &ProposalDecision {
        &self.decision
    }
}

impl Decided<MemoryChangeProposed> {
    /// Returns the text that is to be used; nothing if the proposal was rejected.
    #[must_use]
    pub const fn text(&self) -> Option<&ProposedText> {
        match &self.decision.disposition {
            Disposition::Accept => Some(&self.proven.payload().proposed_text),
            Disposition::Edit { replacement } => Some(replacement),
            Disposition::Reject => None,
        }
    }
}

impl Decided<CorrectionProposed> {
    /// Returns the text that is to stand in place of the reply's; nothing if the proposal was rejected.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.decision.disposition {
            Disposition::Accept => Some(self.proven.payload().replacement.summary()),
            Disposition::Edit { replacement } => Some(replacement.reveal()),
            Disposition::Reject => None,
        }
    }
}

/// Returns the event under which a candidate of [`decide`] is known.
#[must_use]
pub fn id_of(proposal: &EventId) -> EventId {
    let kind = ProposalDecision::kind();
    EventId::derive(&SourceId::decisions(), &kind.name, &ProposalDecision::key(proposal))
}

/// Returns the decision that a commit of [`decide`] holds.
#[must_use]
pub fn candidate(commit: &Commit) -> Option<&Candidate> {
    commit.appends.first()
}
