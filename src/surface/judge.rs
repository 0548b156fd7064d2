//! How a person's judgment of an output gets into the log: what is asked, and the commit it becomes.
//!
//! A commit is worked out from everything that was said of the output so far, and carries that as a precondition: if
//! somebody was faster, the log refuses it, and whoever asked looks again.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::commit::{Commit, Precondition};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Candidate, Event};
use thoughtstream_domain::id::{EventId, RunId};
use thoughtstream_domain::judgment::{
    self, Given, JudgeError, Judged, Judging, Proposed, Said, StandingError,
};
use thoughtstream_domain::lifecycle::RunState;
use thoughtstream_domain::registry::DraftPayload;
use thoughtstream_store::Reader;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{Decision, Done, Operation};
use crate::query::unknown;

/// Is a judgment as it is asked for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JudgeRequest {
    /// The attempt whose output is judged.
    pub run: RunId,
    /// What is thought of it.
    pub opinion: AskedOpinion,
    /// The version of the criterion.
    pub criterion_version: String,
    /// Whether it may inform private evaluation.
    pub quality_eligible: bool,
    /// Whether it may leave the log in a data set.
    pub external_export_eligible: bool,
    /// That something above public-source may leave.
    pub authorizes_private: bool,
    /// The event in which a person said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<EventId>,
    /// The receipt of the delivery that is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<EventId>,
    /// The judgment that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<EventId>,
}

impl std::fmt::Debug for JudgeRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JudgeRequest({})", self.run)
    }
}

/// Is an opinion as it is asked for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AskedOpinion {
    /// The output is right.
    Accept,
    /// It is not.
    Reject,
    /// This should stand in its place.
    Correct {
        /// The value, not checked yet.
        replacement: Value,
    },
    /// It is better than another run's.
    Prefer {
        /// The other run.
        over: RunId,
    },
}

/// Works out the commit of a judgment.
///
/// # Errors
/// [`Failure`] if there is no such output, or it cannot be judged so.
pub(crate) fn decide(
    reader: &Reader,
    request: &JudgeRequest,
    operation: Operation,
) -> Result<Decision, Failure> {
    let judged = judged(reader, &request.run)?;
    let other = match &request.opinion {
        AskedOpinion::Prefer { over } => Some(self::judged(reader, over)?),
        AskedOpinion::Accept | AskedOpinion::Reject | AskedOpinion::Correct { .. } => None,
    };
    let replacement = match &request.opinion {
        AskedOpinion::Correct { replacement } => Some(Content::new(DraftPayload(replacement.clone()))),
        AskedOpinion::Accept | AskedOpinion::Reject | AskedOpinion::Prefer { .. } => None,
    };
    let opinion = match (&request.opinion, &replacement, &other) {
        (AskedOpinion::Correct { .. }, Some(value), _) => Proposed::Correct(value),
        (AskedOpinion::Prefer { .. }, _, Some(other)) => Proposed::Prefer(other),
        (AskedOpinion::Reject, ..) => Proposed::Reject,
        (AskedOpinion::Accept | AskedOpinion::Correct { .. } | AskedOpinion::Prefer { .. }, ..) => {
            Proposed::Accept
        }
    };
    let find = |id: Option<EventId>| id.map(|id| crate::query::events::find(reader, &id)).transpose();
    let (feedback, delivery) = (find(request.feedback)?, find(request.delivery)?);
    let supersedes = find(request.supersedes)?;
    let judging = Judging {
        opinion,
        criterion: None,
        criterion_version: &request.criterion_version,
        quality_eligible: request.quality_eligible,
        external_export_eligible: request.external_export_eligible,
        authorizes_private: request.authorizes_private,
        feedback: feedback.as_ref(),
        delivery: delivery.as_ref(),
        supersedes: supersedes.as_ref(),
        operator: Some(operation.operator),
    };
    let candidate =
        judgment::judge(&judged, &judging, operation.key).map_err(|error| judge_failure(&error))?;
    let said = reader.said_of(&judged.event)?;
    if let Some(same) = said.same_as(&candidate) {
        return Ok(Decision::Already(done("judged", &same.event.id, true, Some(same.event.id))));
    }
    said.admit(&candidate).map_err(|error| standing_failure(&error, &request.run))?;
    let mut unchanged = vec![said.unchanged()];
    if let Some(other) = &other {
        // Whoever prefers the other way round says so of the other output.
        let said = reader.said_of(&other.event)?;
        said.admit(&candidate).map_err(|error| standing_failure(&error, &request.run))?;
        unchanged.push(said.unchanged());
    }
    Ok(made("judged", candidate, unchanged))
}

/// Says what stands where somebody says something else, and what moves it.
fn standing_failure(error: &StandingError, run: &RunId) -> Failure {
    let (code, hint) = match error {
        StandingError::Contradicts { judgment, run: judged, .. } => {
            let mut hint = format!("thought judge --retract {judgment}");
            if judged == run {
                hint = format!(
                    "say --supersedes {judgment} if this is to hold instead, or take it back: {hint}"
                );
            }
            ("judgment.contradicts", hint)
        }
        StandingError::TakenBack { .. } => {
            ("judgment.not-standing", format!("thought judgment list --run {run}"))
        }
        StandingError::Replaced { by, .. } => {
            ("judgment.not-standing", format!("say --supersedes {by} if this is to hold instead"))
        }
        StandingError::Revives { other, .. } => (
            "judgment.contradicts",
            format!("take back the other one first: thought judge --retract {other}"),
        ),
    };
    Failure::of(Exit::Refused, code, error).with_hint(hint)
}

/// Works out the commit that takes a judgment back.
///
/// # Errors
/// [`Failure`] if there is no such judgment.
pub(crate) fn retract(
    reader: &Reader,
    id: &EventId,
    reason: Option<String>,
    operation: Operation,
) -> Result<Decision, Failure> {
    let event = crate::query::events::find(reader, id)?;
    let candidate = judgment::retract(&event, reason, None, Some(operation.operator), operation.key)
        .map_err(|error| judge_failure(&error))?;
    let said = said_with(reader, &event)?;
    if reader.is_retracted(&event)? {
        return Ok(Decision::Already(done("retracted", id, true, None)));
    }
    let Some((run, said)) = said else { return Ok(made("retracted", candidate, Vec::new())) };
    said.admit_retraction(id).map_err(|error| standing_failure(&error, &run))?;
    Ok(made("retracted", candidate, vec![said.unchanged()]))
}

/// Returns everything that was said of the output that a judgment is about, and its run; nothing if the judgment
/// cannot be read any more.
fn said_with(reader: &Reader, judgment: &Event) -> Result<Option<(RunId, Said)>, Failure> {
    let Some(given) = Given::of(judgment, false) else { return Ok(None) };
    let Some(output) = reader.event(&given.output)? else { return Ok(None) };
    Ok(Some((given.run, reader.said_of(&output)?)))
}

fn made(word: &str, candidate: Candidate, preconditions: Vec<Precondition>) -> Decision {
    let id = candidate.id();
    let commit = Commit { preconditions, appends: vec![candidate], ..Commit::default() };
    Decision::Commit(Box::new(commit), done(word, &id, false, Some(id)))
}

fn done(word: &str, id: &EventId, already: bool, event: Option<EventId>) -> Done {
    Done { done: word.to_owned(), id: id.to_string(), already, note: None, event }
}

/// Finds the one output of a run that has a contract.
fn judged(reader: &Reader, run: &RunId) -> Result<Judged, Failure> {
    let found = reader.run_by_id(run)?.ok_or_else(|| unknown("run", run))?;
    let RunState::Completed { outputs } = &found.state else {
        let what = format!("{run} is {}: only what a completed run said is judged", found.state.as_str());
        return Err(Failure::new(Exit::Refused, "judgment.not-completed", what));
    };
    let mut refused = None;
    let mut with_contract = Vec::new();
    for id in outputs {
        let event: Event = crate::query::events::find(reader, id)?;
        match Judged::of(&event) {
            Ok(judged) => with_contract.push(judged),
            Err(error) => refused = Some(judge_failure(&error)),
        }
    }
    match (with_contract.len(), with_contract.pop(), refused) {
        (1, Some(judged), _) => Ok(judged),
        (0, _, Some(refused)) => Err(refused),
        (0, ..) => {
            let what = format!("{run} has no output");
            Err(Failure::new(Exit::Refused, "judgment.no-output", what))
        }
        _ => {
            let what = format!("{run} has more than one output that could be meant");
            Err(Failure::new(Exit::Refused, "judgment.several-outputs", what))
        }
    }
}

fn judge_failure(error: &JudgeError) -> Failure {
    let code = match error {
        JudgeError::NotAnOutput { .. } => "judgment.no-output",
        JudgeError::Unreadable { .. } => "judgment.unreadable",
        JudgeError::UnknownContract { .. } => "judgment.contract",
        JudgeError::Replacement { .. } => "judgment.replacement",
        JudgeError::NotComparable { .. } => "judgment.not-comparable",
        JudgeError::NotAuthorized { .. } => "judgment.not-authorized",
        JudgeError::Evidence { .. } => "judgment.evidence",
        JudgeError::Criterion => "judgment.criterion",
    };
    let exit = if *error == JudgeError::Criterion { Exit::Usage } else { Exit::Refused };
    let failure = Failure::of(exit, code, error);
    match error {
        JudgeError::Replacement { .. } => {
            failure.with_hint("`thought contract check FILE` shows the verdict before you judge")
        }
        JudgeError::NotAuthorized { .. } => {
            failure.with_hint("say --authorize-private if that is meant; exporting it asks a second time")
        }
        JudgeError::NotAnOutput { .. }
        | JudgeError::Unreadable { .. }
        | JudgeError::UnknownContract { .. }
        | JudgeError::NotComparable { .. }
        | JudgeError::Evidence { .. }
        | JudgeError::Criterion => failure,
    }
}
