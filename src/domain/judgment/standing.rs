//! What stands of everything that was said about an output, and what may be said next.
//!
//! Whoever judges looks at what stands first. The commit that follows carries what was looked at as a precondition
//! ([`Said::unchanged`]), so that of two who looked at once one is told what the other said.

use std::collections::BTreeSet;

use super::Given;
use crate::commit::{Commit, Precondition};
use crate::event::{Candidate, Reference};
use crate::id::{EventId, RunId};
use crate::payload::judgment::{Opinion, TrainingExample};
use crate::time::Timestamp;

/// Is everything that was said of one output, as the log had it at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The output.
    pub output: EventId,
    /// Every judgment of it, oldest first, those taken back included.
    pub given: Vec<Given>,
    /// The position of the newest judgment that names it, or of the newest retraction of one; 0 if there is none.
    pub through: u64,
}

/// Says why something cannot be added to what stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StandingError {
    /// Another judgment answers the same question.
    #[error("{run} was judged: {opinion} by {by} at {at}, {judgment}")]
    Contradicts {
        /// The judgment that stands.
        judgment: EventId,
        /// The run it is about.
        run: RunId,
        /// What it says, in a word.
        opinion: &'static str,
        /// Whose it is.
        by: Reference,
        /// When it was made.
        at: Timestamp,
    },
    /// What is to be replaced was taken back.
    #[error("{judgment} was taken back: there is nothing to replace")]
    TakenBack {
        /// The judgment that was to be replaced.
        judgment: EventId,
    },
    /// What is to be replaced was replaced.
    #[error("{judgment} was replaced: {by} stands in its place")]
    Replaced {
        /// The judgment that was to be replaced.
        judgment: EventId,
        /// What stands.
        by: EventId,
    },
    /// What was replaced by it would stand again, beside what contradicts it.
    #[error("without {judgment}, {again} would stand again, and it contradicts {other}")]
    Revives {
        /// The judgment that was to be taken back.
        judgment: EventId,
        /// What it had replaced.
        again: EventId,
        /// What stands.
        other: EventId,
    },
}

impl Said {
    /// Returns the condition that nothing was said of the output since.
    #[must_use]
    pub const fn unchanged(&self) -> Precondition {
        Precondition::JudgedThrough { output: self.output, position: self.through }
    }

    /// Returns the commit that adds judgments or retractions to what was looked at, and to nothing newer.
    #[must_use]
    pub fn commit(&self, appends: Vec<Candidate>) -> Commit {
        Commit { preconditions: vec![self.unchanged()], appends, ..Commit::default() }
    }

    /// Returns the judgments that hold.
    #[must_use]
    pub fn standing(&self) -> Vec<&Given> {
        active(&self.given)
    }

    /// Returns the judgment that holds and says exactly this: saying it again adds nothing.
    #[must_use]
    pub fn same_as(&self, candidate: &Candidate) -> Option<&Given> {
        self.standing().into_iter().find(|given| says_the_same(given, candidate))
    }

    /// Checks that a judgment which a person makes by command replaces what holds now, and contradicts nothing but
    /// what it replaces.
    ///
    /// # Errors
    /// [`StandingError`] names what stands.
    pub fn admit(&self, candidate: &Candidate) -> Result<(), StandingError> {
        let Some(offered) = offered(candidate) else { return Ok(()) };
        let standing = self.standing();
        if let Some(replaced) = offered.supersedes.filter(|_| offered.output == self.output)
            && let Some(given) = self.given.iter().find(|given| given.event.id == replaced)
            && !standing.iter().any(|given| given.event.id == replaced)
        {
            return Err(match self.successor(given) {
                Some(by) if !given.retracted => StandingError::Replaced { judgment: replaced, by },
                Some(_) | None => StandingError::TakenBack { judgment: replaced },
            });
        }
        let other = standing.into_iter().find(|given| {
            let both_correct = matches!(
                (&given.opinion, &offered.opinion),
                (Opinion::Correct { .. }, Opinion::Correct { .. })
            );
            let same =
                given.newer.as_ref().is_some_and(|newer| Question::of(newer) == Question::of(&offered));
            (same || both_correct) && Some(given.event.id) != offered.supersedes
        });
        other.map_or(Ok(()), |given| {
            Err(StandingError::Contradicts {
                judgment: given.event.id,
                run: given.run,
                opinion: given.opinion.as_str(),
                by: given.event.actor.id.clone(),
                at: given.event.recorded_at,
            })
        })
    }

    /// Checks that what stands once a judgment is taken back does not contradict itself through what comes to stand
    /// again.
    ///
    /// # Errors
    /// [`StandingError::Revives`] names both.
    pub fn admit_retraction(&self, judgment: &EventId) -> Result<(), StandingError> {
        let before: BTreeSet<EventId> = self.standing().iter().map(|given| given.event.id).collect();
        let mut given = self.given.clone();
        for given in given.iter_mut().filter(|given| given.event.id == *judgment) {
            given.retracted = true;
        }
        let standing = active(&given);
        for again in standing.iter().filter(|given| !before.contains(&given.event.id)) {
            if let Some(other) = standing.iter().find(|other| contradict(again, other)) {
                let (again, other) = (again.event.id, other.event.id);
                return Err(StandingError::Revives { judgment: *judgment, again, other });
            }
        }
        Ok(())
    }

    /// Returns what stands at the end of the judgments that replaced this one.
    fn successor(&self, given: &Given) -> Option<EventId> {
        let mut last = given.event.id;
        // Each replaces one that came before it, so this ends.
        while let Some(next) =
            self.given.iter().find(|given| !given.retracted && given.supersedes() == Some(last))
        {
            last = next.event.id;
        }
        (last != given.event.id).then_some(last)
    }
}

/// Is what a judgment answers: what one output is worth, or which of two is better, by one criterion. A question has
/// one answer at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    criterion: Option<String>,
    version: String,
    outputs: (EventId, Option<EventId>),
}

impl Question {
    /// Returns the question that a judgment answers.
    #[must_use]
    pub fn of(judgment: &TrainingExample) -> Self {
        let outputs = match &judgment.opinion {
            Opinion::Prefer { over_output, .. } => {
                let (one, other) = (judgment.output, *over_output);
                (one.min(other), Some(one.max(other)))
            }
            Opinion::Accept | Opinion::Reject | Opinion::Correct { .. } => (judgment.output, None),
        };
        Self { criterion: judgment.criterion.clone(), version: judgment.criterion_version.clone(), outputs }
    }
}

/// Says whether two judgments that hold contradict each other: they answer one question, or are corrections of one
/// output that persons made by command.
#[must_use]
pub fn contradict(one: &Given, other: &Given) -> bool {
    if one.event.id == other.event.id {
        return false;
    }
    let (Some(first), Some(second)) = (&one.newer, &other.newer) else { return false };
    let corrects =
        |said: &TrainingExample| matches!(said.opinion, Opinion::Correct { .. }) && said.operator.is_some();
    Question::of(first) == Question::of(second)
        || first.output == second.output && corrects(first) && corrects(second)
}

/// Returns which judgments of one output hold: not taken back, and neither they nor what replaced them replaced by
/// one that was not.
#[must_use]
pub fn active(all: &[Given]) -> Vec<&Given> {
    let mut replaced = BTreeSet::new();
    for given in all.iter().filter(|given| !given.retracted) {
        let mut before = given.supersedes();
        while let Some(id) = before.filter(|id| replaced.insert(*id)) {
            before = all.iter().find(|given| given.event.id == id).and_then(Given::supersedes);
        }
    }
    all.iter().filter(|given| !given.retracted && !replaced.contains(&given.event.id)).collect()
}

/// Says whether an active judgment already says exactly this, whoever says it.
#[must_use]
pub fn says_the_same(given: &Given, candidate: &Candidate) -> bool {
    match (&given.newer, offered(candidate)) {
        (Some(newer), Some(offered)) => {
            TrainingExample { operator: None, ..offered }
                == TrainingExample { operator: None, ..*newer.clone() }
        }
        _ => false,
    }
}

fn offered(candidate: &Candidate) -> Option<TrainingExample> {
    serde_json::from_slice(candidate.payload().reveal()).ok()
}
