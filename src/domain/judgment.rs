//! Judgments of outputs, and what an output is once it was judged (Outputs section).
//!
//! A completed output is not approved by being completed. A person's judgment is an event whose first parent is
//! the output, so that everything that was thought of an output is found among its children: no table keeps it,
//! and what follows from it ([`effective`]) is derived anew each time from the log alone.

mod effective;
mod standing;

pub use effective::{Authority, Hidden, PROJECTION_VERSION, Projection, Status, project};
pub use standing::{Question, Said, StandingError, active, contradict, says_the_same};

use crate::canonical::{self, JsonError};
use crate::content::Content;
use crate::contract::{Contract, Issues, JSON_BYTES_MAX, Observation};
use crate::event::{Actor, ActorKind, Candidate, Envelope, Event, Parent};
use crate::hash::Sha256Hash;
use crate::id::{EventId, IdempotencyKey, SourceId, TypeRef};
use crate::payload::TypedPayload;
use crate::payload::delivery::DeliveryDelivered;
use crate::payload::judgment::{
    JudgmentRetracted, Opinion, TRAINING_EXAMPLE, TrainingExample, TrainingExampleV1,
};
use crate::payload::output::{MessageObservation, Provenance};
use crate::payload::repair::RepairProposed;
use crate::payload::run::RunStamp;
use crate::payload::system::Operator;
use crate::privacy::Privacy;
use crate::registry::DraftPayload;

/// The longest name of a criterion's version in UTF-16 code units.
pub const CRITERION_CHARACTERS_MAX: usize = 64;

/// The family of events in which people say things.
const SOURCES: &str = "stream.thought.source";

/// Is an output that can be judged, as the log has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The output event.
    pub event: Event,
    /// The attempt that made it.
    pub stamp: RunStamp,
    /// Its contract.
    pub contract: Contract,
    /// The value it holds.
    pub observation: Observation,
    /// The hash of the context that its model saw.
    pub snapshot: Sha256Hash,
    /// Which model said it.
    pub provenance: Provenance,
    /// Whether it is the proposal of a repair run.
    pub is_repair: bool,
}

/// Says why something cannot be judged so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// The event is not an output with a contract.
    #[error("{event} is a {kind}: only outputs that have a contract are judged")]
    NotAnOutput {
        /// The event.
        event: EventId,
        /// What it is.
        kind: TypeRef,
    },
    /// The output was redacted, or does not fit its own type.
    #[error("what {event} said cannot be read any more")]
    Unreadable {
        /// The event.
        event: EventId,
    },
    /// The output's contract is not registered as it was.
    #[error("{event} was made under a definition of `{contract}` that this program does not have")]
    UnknownContract {
        /// The event.
        event: EventId,
        /// The contract it names.
        contract: TypeRef,
    },
    /// The replacement does not fit the contract.
    #[error("the replacement does not fit `{contract}`")]
    Replacement {
        /// The contract.
        contract: TypeRef,
        /// What is wrong.
        #[source]
        issues: Issues,
    },
    /// Two outputs cannot be compared.
    #[error("{one} and {other} cannot be compared: {why}")]
    NotComparable {
        /// The judged output.
        one: EventId,
        /// The other.
        other: EventId,
        /// Why not.
        why: &'static str,
    },
    /// It may leave the log only with a person's explicit word.
    #[error("{event} is {privacy}: that it may leave this log is to be said explicitly")]
    NotAuthorized {
        /// The output, or the other one of a preference.
        event: EventId,
        /// Its class.
        privacy: Privacy,
    },
    /// An event that the judgment names is not what it is named as.
    #[error("{event} is no {what}")]
    Evidence {
        /// The event.
        event: EventId,
        /// What it was named as.
        what: &'static str,
    },
    /// The criterion's name is empty or too long.
    #[error("a criterion's version has 1 to {CRITERION_CHARACTERS_MAX} characters")]
    Criterion,
}

impl Judged {
    /// Reads an output event.
    ///
    /// # Errors
    /// [`JudgeError`] if it is no output, cannot be read, or names a contract defined otherwise.
    pub fn of(event: &Event) -> Result<Self, JudgeError> {
        let unreadable = || JudgeError::Unreadable { event: event.id };
        let (stamp, contract, hash, observation, snapshot, provenance, is_repair) =
            if event.kind == MessageObservation::kind() {
                let read: MessageObservation = event.payload_as().map_err(|_| unreadable())?;
                (
                    read.stamp,
                    read.contract,
                    read.contract_hash,
                    read.observation,
                    read.snapshot,
                    read.provenance,
                    false,
                )
            } else if event.kind == RepairProposed::kind() {
                let read: RepairProposed = event.payload_as().map_err(|_| unreadable())?;
                (
                    read.stamp,
                    read.contract,
                    read.contract_hash,
                    read.replacement,
                    read.snapshot,
                    read.provenance,
                    true,
                )
            } else {
                return Err(JudgeError::NotAnOutput { event: event.id, kind: event.kind.clone() });
            };
        let contract = Contract::exactly(&contract, &hash)
            .ok_or(JudgeError::UnknownContract { event: event.id, contract })?;
        Ok(Self { event: event.clone(), stamp, contract, observation, snapshot, provenance, is_repair })
    }
}

/// Is an opinion as it is handed in: a replacement is not checked yet.
#[derive(Debug, Clone)]
pub enum Proposed<'a> {
    /// The output is right.
    Accept,
    /// It is not.
    Reject,
    /// This value should stand in its place.
    Correct(&'a Content<DraftPayload>),
    /// This text should stand in its display field, everything else as it is.
    CorrectText(&'a Content<String>),
    /// It is better than this one.
    Prefer(&'a Judged),
}

/// Is everything about a judgment but the output.
#[derive(Debug, Clone)]
pub struct Judging<'a> {
    /// What is thought of the output.
    pub opinion: Proposed<'a>,
    /// The criterion, where the version alone does not name it.
    pub criterion: Option<&'a str>,
    /// The version of the criterion.
    pub criterion_version: &'a str,
    /// Whether it may inform private evaluation.
    pub quality_eligible: bool,
    /// Whether it may leave the log in a data set.
    pub external_export_eligible: bool,
    /// Whether the person said explicitly that something above public-source may leave.
    pub authorizes_private: bool,
    /// The event in which a person said so, if it was not said by command.
    pub feedback: Option<&'a Event>,
    /// The receipt of the delivery that was judged.
    pub delivery: Option<&'a Event>,
    /// The judgment that this one replaces.
    pub supersedes: Option<&'a Event>,
    /// Who judges, by command.
    pub operator: Option<Operator>,
}

/// Makes the judgment of an output; `key` makes it recognisable.
///
/// # Errors
/// [`JudgeError`] if the replacement breaks the contract, the runs cannot be compared, something above
/// public-source was not explicitly let out, or an event is not what it is named as.
pub fn judge(judged: &Judged, judging: &Judging<'_>, key: IdempotencyKey) -> Result<Candidate, JudgeError> {
    if let Some(event) = judging.feedback
        && !event.kind.name.is_within(SOURCES)
    {
        return Err(JudgeError::Evidence { event: event.id, what: "event from a source" });
    }
    judge_by(judged, judging, author(judging.operator.as_ref()), key)
}

/// Makes the judgment of an output whose feedback is known to be what it is named as: an event from a source, or a
/// decision that was held against its whole lineage. `actor` is whose judgment it is.
pub(crate) fn judge_by(
    judged: &Judged,
    judging: &Judging<'_>,
    actor: Actor,
    key: IdempotencyKey,
) -> Result<Candidate, JudgeError> {
    let version = judging.criterion_version;
    for name in judging.criterion.into_iter().chain([version]) {
        if name.trim().is_empty() || crate::text::characters(name) > CRITERION_CHARACTERS_MAX {
            return Err(JudgeError::Criterion);
        }
    }
    let opinion = checked(judged, &judging.opinion)?;
    let other = match &judging.opinion {
        Proposed::Prefer(other) => Some(&other.event),
        Proposed::Accept | Proposed::Reject | Proposed::Correct(_) | Proposed::CorrectText(_) => None,
    };
    check_evidence(judged, judging)?;
    let mut privacy = judged.event.privacy;
    let evidence = [other, judging.feedback, judging.delivery, judging.supersedes];
    let mut parents = vec![Parent::of(&judged.event)];
    for event in evidence.into_iter().flatten() {
        privacy = privacy.join(event.privacy);
        parents.push(Parent::of(event));
    }
    let is_private = privacy > Privacy::PublicSource;
    if judging.external_export_eligible && is_private && !judging.authorizes_private {
        return Err(JudgeError::NotAuthorized { event: judged.event.id, privacy });
    }
    let external_authorization = (judging.external_export_eligible && is_private).then_some(privacy);
    let payload = TrainingExample {
        run: judged.stamp.run,
        output: judged.event.id,
        contract: judged.contract.kind().clone(),
        contract_hash: *judged.contract.hash(),
        opinion,
        criterion: judging.criterion.map(str::to_owned),
        criterion_version: version.to_owned(),
        quality_eligible: judging.quality_eligible,
        external_export_eligible: judging.external_export_eligible,
        external_authorization,
        feedback: judging.feedback.map(|event| event.id),
        delivery: judging.delivery.map(|event| event.id),
        supersedes: judging.supersedes.map(|event| event.id),
        operator: judging.operator.clone(),
    };
    let envelope = Envelope::new(SourceId::decisions(), key, privacy, actor).with_parents(parents);
    Ok(payload.candidate(envelope))
}

/// Holds an opinion against the contract, before anything of it is written.
fn checked(judged: &Judged, opinion: &Proposed<'_>) -> Result<Opinion, JudgeError> {
    let refused = |issues| JudgeError::Replacement { contract: judged.contract.kind().clone(), issues };
    Ok(match opinion {
        Proposed::Accept => Opinion::Accept,
        Proposed::Reject => Opinion::Reject,
        Proposed::Correct(value) => {
            Opinion::Correct { replacement: judged.contract.check(&value.reveal().0).map_err(refused)? }
        }
        Proposed::CorrectText(text) => {
            let replaced = judged.contract.with_display(&judged.observation, text.reveal());
            Opinion::Correct { replacement: replaced.map_err(refused)? }
        }
        Proposed::Prefer(other) => {
            let (one, two) = (judged.event.id, other.event.id);
            let not = |why| JudgeError::NotComparable { one, other: two, why };
            if one == two || judged.stamp.run == other.stamp.run {
                return Err(not("they are one"));
            }
            if judged.contract != other.contract {
                return Err(not("their contracts differ"));
            }
            if judged.is_repair != other.is_repair {
                return Err(not("one is a repair and the other is not"));
            }
            Opinion::Prefer { over: other.stamp.run, over_output: two }
        }
    })
}

fn check_evidence(judged: &Judged, judging: &Judging<'_>) -> Result<(), JudgeError> {
    if let Some(event) = judging.delivery
        && !is_receipt_of(event, &judged.event)
    {
        return Err(JudgeError::Evidence { event: event.id, what: "receipt of this output's delivery" });
    }
    if let Some(event) = judging.supersedes
        && Given::of(event, false).is_none_or(|given| given.output != judged.event.id)
    {
        return Err(JudgeError::Evidence { event: event.id, what: "judgment of this output" });
    }
    Ok(())
}

/// Says whether an event is the receipt of an output's delivery, in the output's own lineage.
#[must_use]
pub fn is_receipt_of(receipt: &Event, output: &Event) -> bool {
    receipt.payload_as::<DeliveryDelivered>().is_ok_and(|read| {
        read.binding.output == output.id
            && read.binding.root == output.root
            && receipt.privacy >= output.privacy
            && receipt.position > output.position
    })
}

/// Takes a judgment back; `key` makes the act recognisable.
///
/// # Errors
/// [`JudgeError::Evidence`] if the event is no judgment.
pub fn retract(
    judgment: &Event,
    reason: Option<String>,
    feedback: Option<&Event>,
    operator: Option<Operator>,
    key: IdempotencyKey,
) -> Result<Candidate, JudgeError> {
    if judgment.kind.name.as_str() != TRAINING_EXAMPLE {
        return Err(JudgeError::Evidence { event: judgment.id, what: "judgment" });
    }
    let mut privacy = judgment.privacy;
    let mut parents = vec![Parent::of(judgment)];
    if let Some(event) = feedback {
        privacy = privacy.join(event.privacy);
        parents.push(Parent::of(event));
    }
    let actor = author(operator.as_ref());
    let envelope = Envelope::new(SourceId::decisions(), key, privacy, actor).with_parents(parents);
    let feedback = feedback.map(|event| event.id);
    Ok(JudgmentRetracted { judgment: judgment.id, reason, feedback, operator }.candidate(envelope))
}

/// Names whose judgment it is: a person's by command, or one that trusted code reads from a person's words.
fn author(operator: Option<&Operator>) -> Actor {
    operator.map_or_else(
        || Actor::ours(ActorKind::System, "feedback"),
        |operator| Actor::ours(ActorKind::Person, &format!("uid:{}", operator.uid)),
    )
}

/// Is a judgment as the log has it, of either version.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// The judgment event.
    pub event: Event,
    /// Whether it was taken back.
    pub retracted: bool,
    /// The version of its form.
    pub version: u32,
    /// The attempt it is about.
    pub run: crate::id::RunId,
    /// The output it is about.
    pub output: EventId,
    /// The contract it names.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// What it says.
    pub opinion: Opinion,
    /// What the newer form says besides; the older one has nothing of it.
    pub newer: Option<Box<TrainingExample>>,
    /// Whether the older form let it out.
    pub legacy_export_eligible: bool,
}

impl Given {
    /// Reads a judgment; nothing for any other event, or one whose payload is gone or damaged.
    #[must_use]
    pub fn of(event: &Event, retracted: bool) -> Option<Self> {
        if event.kind.name.as_str() != TRAINING_EXAMPLE {
            return None;
        }
        if let Ok(read) = event.payload_as::<TrainingExample>() {
            return Some(Self {
                event: event.clone(),
                retracted,
                version: TrainingExample::VERSION,
                run: read.run,
                output: read.output,
                contract: read.contract.clone(),
                contract_hash: read.contract_hash,
                opinion: read.opinion.clone(),
                newer: Some(Box::new(read)),
                legacy_export_eligible: false,
            });
        }
        let read: TrainingExampleV1 = event.payload_as().ok()?;
        Some(Self {
            event: event.clone(),
            retracted,
            version: TrainingExampleV1::VERSION,
            run: read.run,
            output: read.output,
            contract: read.contract,
            contract_hash: read.contract_hash,
            opinion: read.opinion,
            newer: None,
            legacy_export_eligible: read.export_eligible,
        })
    }

    /// Returns the judgment that this one replaces.
    #[must_use]
    pub fn supersedes(&self) -> Option<EventId> {
        self.newer.as_ref().and_then(|newer| newer.supersedes)
    }

    /// Says whether it is about this very output: run, root, contract and class all agree.
    #[must_use]
    pub fn is_about(&self, judged: &Judged) -> bool {
        self.output == judged.event.id
            && self.run == judged.stamp.run
            && self.contract == *judged.contract.kind()
            && self.contract_hash == *judged.contract.hash()
            && self.event.root == judged.event.root
            && self.event.parents.first() == Some(&judged.event.id)
            && self.event.privacy >= judged.event.privacy
            && self.event.position > judged.event.position
    }
}

/// Reads JSON that a person wrote as a replacement.
///
/// # Errors
/// [`JsonError`] with the place.
pub fn read_replacement(bytes: &[u8]) -> Result<Content<DraftPayload>, JsonError> {
    Ok(Content::new(DraftPayload(canonical::parse(bytes, JSON_BYTES_MAX)?)))
}

#[cfg(test)]
pub(crate) mod tests;
