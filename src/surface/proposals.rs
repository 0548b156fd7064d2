//! How a person's decision about a proposal gets into the log, and what follows from it.
//!
//! A decision and the judgment that a correction becomes are two commits, so a death in between leaves a decision
//! without its judgment. [`next`] looks at the log and says what is to be committed now; whoever asks it again and
//! again until it says that nothing is left has decided and projected, whatever was done before and by whom.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::commit::{Commit, Refusal, Verdict};
use thoughtstream_domain::event::{Event, Reference};
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::judgment::{JudgeError, Projection, Status, project as effective};
use thoughtstream_domain::payload::proposal::{
    CorrectionProposed, Decidable, Disposition, ProposalDecision, Proposed,
};
use thoughtstream_domain::proposal::decision::{self, Decided, DecisionFault};
use thoughtstream_domain::proposal::lineage::{AnyProven, LineageError, prove};
use thoughtstream_domain::proposal::project::project;
use thoughtstream_domain::proposal::text::ProposedText;
use thoughtstream_store::{Reader, RowError, Store};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{Done, Operation};
use crate::query::proposals::{Home, came_to, written_later};
use crate::query::unknown;
use crate::submit::commit_alone;

/// So many times the log is looked at again before it is given up: a decision, a judgment and a last look are three,
/// and whoever loses a race needs one look more to see it.
pub const ROUNDS_MAX: usize = 8;

/// Is a decision as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideRequest {
    /// The proposal.
    pub proposal: EventId,
    /// What is decided.
    pub disposition: Disposition,
    /// What the person's client calls this submission.
    pub submission: Reference,
}

/// Says what is to be done next about a proposal.
#[derive(Debug)]
pub enum Next {
    /// The decision is to be committed, and this is said of what will come of it.
    Decide(Box<Commit>, Option<String>),
    /// The judgment that follows from it is to be committed.
    Project(Box<Commit>),
    /// Nothing is left; what stands is told.
    Done(Box<Done>),
}

/// Decides about a proposal while no service runs, and lets follow what follows.
///
/// # Errors
/// [`Failure`] if it is refused, or the log cannot be written.
pub fn alone(
    store: &mut Store,
    home: &Home,
    request: &DecideRequest,
    operation: &Operation,
) -> Result<Done, Failure> {
    let mut made = Made::default();
    for _ in 0..ROUNDS_MAX {
        let (commit, decides) = match next(&store.reader, home, request, operation)? {
            Next::Done(done) => return Ok(made.told(*done)),
            Next::Decide(commit, outlook) => (commit, Some(outlook)),
            Next::Project(commit) => (commit, None),
        };
        let written = settled(commit_alone(store, *commit, operation.now)?)?;
        made.note(written, decides);
    }
    Err(overtaken(&request.proposal))
}

/// Keeps whether the decision that stands was made here, and what was said of it before it was.
#[derive(Debug, Default)]
pub(crate) struct Made(Option<Option<String>>);

impl Made {
    /// Takes notice of a commit: whether it was written now, and what was said if it was the decision.
    pub(crate) fn note(&mut self, written: bool, decides: Option<Option<String>>) {
        if let Some(outlook) = decides.filter(|_| written) {
            self.0 = Some(outlook);
        }
    }

    /// Tells what was done. Who has decided is told what was to come of it: it may have come of it by now.
    pub(crate) fn told(self, done: Done) -> Done {
        match self.0 {
            None => done,
            Some(outlook) => Done { already: false, note: outlook.or(done.note), ..done },
        }
    }
}

/// Lets follow what was cut off, while no service runs: what is named, or everything. What is done is told as it is
/// done.
///
/// # Errors
/// [`Failure`] if what is named cannot be projected, or something of everything cannot, or the log cannot be written.
pub fn project_alone(
    store: &mut Store,
    home: &Home,
    proposal: Option<EventId>,
    operation: &Operation,
    tell: &mut dyn FnMut(Done) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut rest = Rest::of(proposal);
    for id in to_project(&store.reader, proposal)? {
        if let Some(done) = rest.take(id, project_one_alone(store, home, &id, operation))? {
            tell(done)?;
        }
    }
    rest.end()
}

fn project_one_alone(
    store: &mut Store,
    home: &Home,
    id: &EventId,
    operation: &Operation,
) -> Result<Done, Failure> {
    let mut made = false;
    for _ in 0..ROUNDS_MAX {
        match next_after(&store.reader, home, id)? {
            Next::Done(done) => return Ok(Done { already: !made, ..*done }),
            Next::Decide(commit, _) | Next::Project(commit) => {
                made |= settled(commit_alone(store, *commit, operation.now)?)?;
            }
        }
    }
    Err(overtaken(id))
}

/// Keeps what could not be projected, so that one that does not hold keeps no other from its end.
#[derive(Debug)]
pub(crate) struct Rest {
    named: bool,
    done: usize,
    left: Vec<(EventId, Failure)>,
}

impl Rest {
    /// Begins with what is asked for: one that is named, or everything.
    pub(crate) const fn of(proposal: Option<EventId>) -> Self {
        Self { named: proposal.is_some(), done: 0, left: Vec::new() }
    }

    /// Takes what came of one; nothing if it is left.
    ///
    /// # Errors
    /// [`Failure`] if it was named, or if the next one could not come to anything else.
    pub(crate) fn take(
        &mut self,
        proposal: EventId,
        came: Result<Done, Failure>,
    ) -> Result<Option<Done>, Failure> {
        match came {
            Ok(done) => {
                self.done += 1;
                Ok(Some(done))
            }
            Err(failure) if !self.named && matches!(failure.exit(), Exit::Refused | Exit::Unknown) => {
                self.left.push((proposal, failure));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Says what is left.
    ///
    /// # Errors
    /// [`Failure`] that names each with its reason, if there is any.
    pub(crate) fn end(self) -> Result<(), Failure> {
        if self.left.is_empty() {
            return Ok(());
        }
        let unknown = self.left.iter().any(|(_, failure)| failure.exit() == Exit::Unknown);
        let exit = if unknown { Exit::Unknown } else { Exit::Refused };
        let (left, all) = (self.left.len(), self.left.len() + self.done);
        let what = format!("{left} of {all} decided corrections without a judgment cannot have one");
        let line = |(id, failure): &(EventId, Failure)| {
            let Failure { code, what, causes, .. } = failure;
            let causes = causes.iter().fold(String::new(), |text, cause| format!("{text}: {cause}"));
            format!("{id}: {what}{causes} [{code}]")
        };
        let lines: Vec<String> = self.left.iter().map(line).collect();
        Err(Failure::new(exit, "proposal.left", what)
            .with_lines(&lines.join("\n"))
            .with_hint("`thought event lineage` with one of these ids shows what is behind it"))
    }
}

/// Returns what is to be projected: what is named, or every decided correction whose judgment is missing.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn to_project(reader: &Reader, proposal: Option<EventId>) -> Result<Vec<EventId>, Failure> {
    proposal.map_or_else(|| unprojected(reader), |proposal| Ok(vec![proposal]))
}

/// Says whether a commit of [`Next`] was written now; one that somebody else was faster with is looked at again.
///
/// # Errors
/// [`Failure`] if a rule kept it out.
pub fn settled(verdict: Verdict) -> Result<bool, Failure> {
    match verdict {
        Verdict::Committed(_) => Ok(true),
        // A precondition that no longer holds says that something was said of the reply meanwhile.
        Verdict::AlreadyCommitted(_)
        | Verdict::Conflict(_)
        | Verdict::Refused(Refusal::Precondition { .. }) => Ok(false),
        Verdict::Refused(refusal) => Err(Failure::of(Exit::Refused, "decision.overtaken", &refusal)),
    }
}

/// Says that the log moved under every look at it.
#[must_use]
pub fn overtaken(proposal: &EventId) -> Failure {
    Failure::new(Exit::Unknown, "decision.overtaken", format!("{proposal} moved under every look at it"))
        .with_hint("run the same command again: what is done already is not done twice")
}

/// Looks at what is to be done next so that this decision stands and everything has followed from it.
///
/// # Errors
/// [`Failure`] if the lineage of the proposal does not hold, another decision stands, or nobody decides about it.
pub fn next(
    reader: &Reader,
    home: &Home,
    request: &DecideRequest,
    operation: &Operation,
) -> Result<Next, Failure> {
    let proven = proven(reader, &request.proposal)?;
    let Some(event) = reader.decision_of(&request.proposal)? else {
        let (disposition, submission) = (request.disposition.clone(), request.submission.clone());
        let decided = decision::decide(&proven, disposition, submission, &operation.operator);
        let commit = decided.map_err(|error| Failure::of(Exit::Refused, error.code(), &error))?;
        let outlook = match &proven {
            AnyProven::Memory(proven) => written_later(reader, home, proven.payload(), &request.disposition)?,
            AnyProven::Correction(_) | AnyProven::Focus(_) => None,
        };
        return Ok(Next::Decide(Box::new(commit), outlook));
    };
    let standing = standing(&proven, &event)?;
    if !decision::says_the_same(&standing, &request.disposition) {
        return Err(conflict(&event, &standing));
    }
    follow(reader, home, proven, event)
}

/// Looks at what is left to be done after the decision about a proposal.
///
/// # Errors
/// [`Failure`] if nobody has decided, or the lineage of the proposal or its decision does not hold.
pub fn next_after(reader: &Reader, home: &Home, proposal: &EventId) -> Result<Next, Failure> {
    let proven = proven(reader, proposal)?;
    let Some(event) = reader.decision_of(proposal)? else {
        let what = format!("nobody has decided about {proposal}");
        return Err(Failure::new(Exit::Refused, "proposal.undecided", what)
            .with_hint(format!("`thought inbox show {proposal}` shows it with the commands that decide")));
    };
    follow(reader, home, proven, event)
}

/// Returns the decided corrections whose judgment is missing: a decision was made, and what follows was cut off.
fn unprojected(reader: &Reader) -> Result<Vec<EventId>, Failure> {
    let mut found = Vec::new();
    for event in reader.proposals()? {
        let Some(Decidable::SelfCorrection) = Proposed::kind_of(&event.kind).and_then(Decidable::of) else {
            continue;
        };
        let Some(decision) = reader.decision_of(&event.id)? else { continue };
        let rejects = decision
            .payload_as::<ProposalDecision>()
            .is_ok_and(|decision| decision.disposition == Disposition::Reject);
        if !rejects && reader.projection_of(&event.id)?.is_none() {
            found.push(event.id);
        }
    }
    Ok(found)
}

fn follow(reader: &Reader, home: &Home, proven: AnyProven, event: Event) -> Result<Next, Failure> {
    match proven {
        AnyProven::Correction(proven) => {
            let decided = Decided::of(*proven, event).map_err(|fault| decision_failure(&fault))?;
            correct(reader, &decided)
        }
        AnyProven::Memory(proven) => {
            let decided = Decided::of(*proven, event).map_err(|fault| decision_failure(&fault))?;
            let note = came_to(reader, home, &decided)?;
            Ok(Next::Done(Box::new(done(decided.decision(), decided.event(), note))))
        }
        AnyProven::Focus(proven) => {
            let error = decision::DecideError::NoDecision;
            Err(Failure::of(Exit::Refused, error.code(), &error).with_lines(&proven.id().to_string()))
        }
    }
}

/// Looks whether the judgment of a decided correction stands, or is to be committed.
fn correct(reader: &Reader, decided: &Decided<CorrectionProposed>) -> Result<Next, Failure> {
    let judged = &decided.proven().bound().judged;
    let standing = reader.projection_of(&decided.proven().id())?;
    if standing.is_none() {
        let said = reader.said_of(&judged.event)?;
        let made = project(decided, &said.given).map_err(|error| not_projected(&error))?;
        if let Some(candidate) = made {
            return Ok(Next::Project(Box::new(said.commit(vec![candidate]))));
        }
    }
    let note = match &standing {
        None => None,
        Some(judgment) => Some(said_of(&effective(judged, &reader.judgments_of(&judged.event)?), judgment)),
    };
    Ok(Next::Done(Box::new(done(decided.decision(), decided.event(), note))))
}

/// Says what the reply is worth now.
fn said_of(projection: &Projection, judgment: &Event) -> String {
    let id = judgment.id;
    match projection.status {
        Status::Corrected => format!("the reply is corrected by {id}"),
        Status::Original => format!("{id} was replaced or taken back, and the reply stands as it was sent"),
        Status::Unresolved => format!(
            "{id} contradicts another correction of the same reply, and neither stands in its place: \
             thought judge --retract JUDGMENT"
        ),
    }
}

/// Replays the lineage of a proposal for a person who decides about it.
pub(crate) fn proven(reader: &Reader, proposal: &EventId) -> Result<AnyProven, Failure> {
    prove(reader, proposal).map_err(|error| lineage_failure(reader, proposal, &error))
}

fn lineage_failure(reader: &Reader, proposal: &EventId, error: &LineageError<RowError>) -> Failure {
    match error {
        LineageError::Unread(_) => Failure::of(Exit::CouldNotLook, "log.storage", error),
        LineageError::Broken(broken) => {
            let known =
                reader.event(proposal).ok().flatten().and_then(|event| Proposed::kind_of(&event.kind));
            if known.is_none() {
                return unknown("proposal", proposal);
            }
            Failure::of(Exit::Refused, "proposal.lineage", broken).with_hint(format!(
                "nothing can follow from it; `thought event lineage {proposal}` shows more"
            ))
        }
    }
}

fn decision_failure(fault: &DecisionFault) -> Failure {
    Failure::of(Exit::Refused, "proposal.decision", fault)
}

fn not_projected(error: &JudgeError) -> Failure {
    Failure::of(Exit::Refused, "proposal.projection", error)
}

fn standing(proven: &AnyProven, event: &Event) -> Result<ProposalDecision, Failure> {
    decision::read(proven.event(), proven.kind(), event).map_err(|fault| decision_failure(&fault))
}

/// Says what stands where somebody asks for something else.
fn conflict(event: &Event, standing: &ProposalDecision) -> Failure {
    let ProposalDecision { proposal, disposition, actor, .. } = standing;
    let (word, at) = (disposition.as_str(), event.recorded_at);
    let what = format!("{proposal} was decided: {word} by {actor} at {at}, {}", event.id);
    Failure::new(Exit::Refused, "proposal.decided", what)
        .with_hint("one decision is all there is; what was decided stands")
}

fn done(decision: &ProposalDecision, event: &Event, note: Option<String>) -> Done {
    let word = match decision.disposition {
        Disposition::Accept => "accepted",
        Disposition::Edit { .. } => "edited",
        Disposition::Reject => "rejected",
    };
    Done {
        done: word.to_owned(),
        id: decision.proposal.to_string(),
        already: true,
        note,
        event: Some(event.id),
    }
}

/// Reads the text of an edit from a file's bytes.
///
/// # Errors
/// [`Failure`] if it is no text within the bounds of what it would stand for.
pub fn edited(bytes: &[u8]) -> Result<ProposedText, Failure> {
    let refused = |what: &str| Failure::new(Exit::Usage, "proposal.file", what.to_owned());
    let text = std::str::from_utf8(bytes).map_err(|_| refused("the file is not UTF-8"))?;
    ProposedText::new(text.to_owned()).map_err(|error| refused("the text does not fit").because(&error))
}
