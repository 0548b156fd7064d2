//! The private data set: judgments of quality with the whole chain behind each, for the owner's own use.
//!
//! It asks less than the other one (nothing has to be free to leave) and more: judgment, completed run, output,
//! trigger, feedback, the receipt of the one run's delivery and the sealed context have all to be in the log, and to
//! say the same. A chain that lacks a link, or contradicts itself, is left out; it is never shown as if it were
//! exact. Whoever writes the lines checks them once more, as JSON, and trusts nobody's word that they are whole.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dataset::{Dataset, Line};
use super::{Example, Excluded, Lineage, assemble};
use crate::canonical;
use crate::event::{Event, Payload};
use crate::feedback::{self, Word};
use crate::hash::Sha256Hash;
use crate::id::{DocumentId, EventId, ExecutionId, RunId};
use crate::judgment::{Given, Judged, is_receipt_of};
use crate::lifecycle::{Run, RunState};
use crate::packet::{self, Packet};
use crate::payload::TypedPayload as _;
use crate::payload::delivery::{DeliveryDelivered, Route};
use crate::payload::judgment::{Opinion, TrainingExample};
use crate::payload::proposal::{CorrectionProposed, ProposalDecision};
use crate::payload::run::RunCompleted;
use crate::payload::telegram::TelegramMessage;
use crate::proposal::decision::Decided;
use crate::proposal::project;

/// The form of an example.
pub const EXAMPLE_FORMAT: &str = "thoughtstream.private-training-example.v1";

/// The form of a data set's manifest.
pub const MANIFEST_FORMAT: &str = "thoughtstream.private-training-dataset-manifest.v1";

/// The family of events in which people say things.
const SOURCES: &str = "stream.thought.source";

/// Names a link of the chain behind an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The judgment, about exactly this output.
    Judgment,
    /// The run, completed, with its receipt.
    Run,
    /// The output.
    Output,
    /// What the run was about.
    Trigger,
    /// In which event a person said so.
    Feedback,
    /// The receipt of the delivery of this one run's output.
    Delivery,
    /// The sealed context, the same for every attempt.
    Snapshot,
}

impl Link {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Judgment => "judgment",
            Self::Run => "run",
            Self::Output => "output",
            Self::Trigger => "trigger",
            Self::Feedback => "feedback",
            Self::Delivery => "delivery",
            Self::Snapshot => "snapshot",
        }
    }
}

/// Says what is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It is not named, or not in the log.
    Missing,
    /// It is there and cannot be read, or says something else than the rest of the chain.
    Inconsistent,
}

impl Fault {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Inconsistent => "inconsistent",
        }
    }
}

/// Is one link that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Broken {
    /// Which one.
    pub link: Link,
    /// What is wrong with it.
    pub fault: Fault,
}

/// Says why a judgment is not in the private data set; a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// It was taken back or replaced.
    Inactive,
    /// It has the older form, which names no feedback and no delivery.
    OlderForm,
    /// It does not say that it may inform quality.
    NotQualityEligible,
    /// It compares two runs, and a receipt is of one.
    ComparesRuns,
    /// A repair is only accepted or corrected, and has to be free to leave.
    Repair,
    /// A learned adapter took part, and none has leave to be exported.
    LearnedAdapter,
    /// The replacement does not fit the contract.
    ReplacementInvalid,
    /// The chain behind it is not whole.
    Provenance,
}

impl Code {
    /// Says it in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Inactive => "taken back or replaced",
            Self::OlderForm => "of the older form, which names no delivery",
            Self::NotQualityEligible => "not marked as fit for quality",
            Self::ComparesRuns => "about two runs, of which a receipt names one",
            Self::Repair => "of a repair that is not free to leave",
            Self::LearnedAdapter => "made by a learned adapter",
            Self::ReplacementInvalid => "with a replacement that does not fit the contract",
            Self::Provenance => "without its whole chain",
        }
    }
}

/// Says why a judgment is not in the data set, and which links of its chain do not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Withheld {
    /// Why.
    pub code: Code,
    /// The links, if it is for its chain: every one, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Broken>,
}

impl From<Code> for Withheld {
    fn from(code: Code) -> Self {
        Self { code, links: Vec::new() }
    }
}

/// Is what was found where something should be.
#[derive(Debug, Clone)]
pub enum Found<T> {
    /// Nothing.
    Missing,
    /// Something that cannot be read as what it should be.
    Unreadable,
    /// It.
    Read(T),
}

impl<T> Found<T> {
    const fn as_ref(&self) -> Result<&T, Fault> {
        match self {
            Self::Missing => Err(Fault::Missing),
            Self::Unreadable => Err(Fault::Inconsistent),
            Self::Read(found) => Ok(found),
        }
    }
}

/// Is a run that ended, as its row has it, with the receipt of its end.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The row.
    pub row: Run,
    /// The event that completed it.
    pub completed: Found<Event>,
}

/// Is a judgment with what the log has of every link behind it, read anew.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The judgment.
    pub given: Given,
    /// Whether it holds: not taken back, not replaced.
    pub active: bool,
    /// The output with its triggers and its ancestry.
    pub lineage: Found<Lineage>,
    /// The run it names.
    pub run: Found<Ended>,
    /// The feedback it names.
    pub feedback: Found<Event>,
    /// The proposal that the feedback decides about, its whole lineage proven, if it decides about one.
    pub decided: Found<Box<Decided<CorrectionProposed>>>,
    /// The receipt it names.
    pub delivery: Found<Event>,
    /// The sealed context of the run's execution, its bytes hashed anew.
    pub snapshot: Found<Packet>,
}

/// Names a sealed context: the document, and the hash of its one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotName {
    /// The document.
    pub document: DocumentId,
    /// The hash of its bytes.
    pub sha256: Sha256Hash,
}

/// Names what a run was about: one event at least.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<EventId>", into = "Vec<EventId>")]
pub struct Triggers(Vec<EventId>);

/// There is no trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a run has at least one trigger")]
pub struct NoTrigger;

impl TryFrom<Vec<EventId>> for Triggers {
    type Error = NoTrigger;

    fn try_from(ids: Vec<EventId>) -> Result<Self, NoTrigger> {
        if ids.is_empty() { Err(NoTrigger) } else { Ok(Self(ids)) }
    }
}

impl From<Triggers> for Vec<EventId> {
    fn from(triggers: Triggers) -> Self {
        triggers.0
    }
}

/// Is the chain behind an example: every link is named, or there is none of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExampleProvenance {
    /// The judgment.
    pub judgment: EventId,
    /// The run.
    pub run: RunId,
    /// The event that completed it.
    pub completed: EventId,
    /// The output.
    pub output: EventId,
    /// What the run was about.
    pub triggers: Triggers,
    /// In which event a person said so.
    pub feedback: EventId,
    /// The receipt of its delivery.
    pub delivery: EventId,
    /// What the model saw.
    pub snapshot: SnapshotName,
}

/// Is one private example; it does not print.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrivateExample {
    #[serde(flatten)]
    example: Example,
    private_provenance: ExampleProvenance,
}

impl std::fmt::Debug for PrivateExample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateExample({})", self.private_provenance.judgment)
    }
}

impl PrivateExample {
    /// Returns the chain behind it.
    #[must_use]
    pub const fn provenance(&self) -> &ExampleProvenance {
        &self.private_provenance
    }

    /// Says whether the trace of its run is missing.
    #[must_use]
    pub fn lacks_trace(&self) -> bool {
        self.example.lacks_trace()
    }
}

/// Makes the private example of a judgment, if the chain behind it is whole.
///
/// # Errors
/// [`Withheld`] with what is against it; for a chain that is not whole, with every link that does not hold.
pub fn example(chain: &Chain) -> Result<PrivateExample, Withheld> {
    let given = &chain.given;
    if !chain.active || given.retracted {
        return Err(Code::Inactive.into());
    }
    let Some(newer) = given.newer.as_deref() else { return Err(Code::OlderForm.into()) };
    if !newer.quality_eligible {
        return Err(Code::NotQualityEligible.into());
    }
    if matches!(newer.opinion, Opinion::Prefer { .. }) {
        return Err(Code::ComparesRuns.into());
    }
    let mut broken = Vec::new();
    let private_provenance = walk(chain, newer, &mut broken);
    let (Some(private_provenance), Ok(lineage)) = (private_provenance, chain.lineage.as_ref()) else {
        return Err(Withheld { code: Code::Provenance, links: broken });
    };
    let is_repair_kind = matches!(newer.opinion, Opinion::Accept | Opinion::Correct { .. });
    if lineage.judged.is_repair && !(is_repair_kind && newer.external_export_eligible) {
        return Err(Code::Repair.into());
    }
    if lineage.judged.stamp.model_adapter.is_some() {
        return Err(Code::LearnedAdapter.into());
    }
    let example = assemble(EXAMPLE_FORMAT, given, lineage, None).map_err(|excluded| {
        let invalid = excluded == Excluded::ReplacementInvalid;
        Withheld::from(if invalid { Code::ReplacementInvalid } else { Code::Provenance })
    })?;
    Ok(PrivateExample { example, private_provenance })
}

/// Walks the whole chain, and names every link that does not hold.
fn walk(chain: &Chain, newer: &TrainingExample, broken: &mut Vec<Broken>) -> Option<ExampleProvenance> {
    let mut note = |link, fault| broken.push(Broken { link, fault });
    let lineage = chain.lineage.as_ref().map_err(|fault| note(Link::Output, fault)).ok();
    let judged = lineage.map(|lineage| &lineage.judged);
    if judged.is_some_and(|judged| !chain.given.is_about(judged)) {
        note(Link::Judgment, Fault::Inconsistent);
    }
    let run = completed(chain, judged).map_err(|fault| note(Link::Run, fault)).ok();
    let triggers = triggers(lineage).map_err(|fault| note(Link::Trigger, fault)).ok();
    let delivery = delivered(chain, newer, lineage).map_err(|fault| note(Link::Delivery, fault)).ok();
    let feedback = said(chain, newer, judged, delivery.as_ref().map(|(_, receipt)| receipt));
    let feedback = feedback.map_err(|fault| note(Link::Feedback, fault)).ok();
    let snapshot = sealed(chain, judged, triggers.as_deref());
    let snapshot = snapshot.map_err(|fault| note(Link::Snapshot, fault)).ok();
    broken.sort_unstable();
    if !broken.is_empty() {
        return None;
    }
    Some(ExampleProvenance {
        judgment: chain.given.event.id,
        run: judged?.stamp.run,
        completed: run?,
        output: judged?.event.id,
        triggers: Triggers::try_from(triggers?).ok()?,
        feedback: feedback?,
        delivery: delivery?.0,
        snapshot: snapshot?,
    })
}

/// Checks that the run completed with this output, by its row and by its receipt.
fn completed(chain: &Chain, judged: Option<&Judged>) -> Result<EventId, Fault> {
    let ended = chain.run.as_ref()?;
    let RunState::Completed { outputs } = &ended.row.state else { return Err(Fault::Missing) };
    let event = ended.completed.as_ref()?;
    let read: RunCompleted = event.payload_as().map_err(|_| Fault::Inconsistent)?;
    let judged = judged.ok_or(Fault::Inconsistent)?;
    let stamp = &judged.stamp;
    let holds = ended.row.id == chain.given.run
        && ended.row.id == stamp.run
        && ended.row.execution == stamp.execution
        && ended.row.consumer == stamp.consumer
        && ended.row.attempt == stamp.attempt
        && read.stamp == *stamp
        && read.outputs == *outputs
        && outputs.contains(&judged.event.id)
        && event.source == judged.event.source
        && event.root == judged.event.root
        && event.parents == judged.event.parents;
    if holds { Ok(event.id) } else { Err(Fault::Inconsistent) }
}

/// Checks that what the run was about can still be read, and that the execution follows from it.
fn triggers(lineage: Option<&Lineage>) -> Result<Vec<EventId>, Fault> {
    let lineage = lineage.ok_or(Fault::Inconsistent)?;
    let (judged, ids) = (&lineage.judged, &lineage.judged.event.parents);
    if ids.is_empty() || lineage.triggers.len() != ids.len() {
        return Err(Fault::Missing);
    }
    let stamp = &judged.stamp;
    let same = lineage.triggers.iter().zip(ids).all(|(event, id)| event.id == *id);
    let erased = lineage.triggers.iter().any(|event| event.payload == Payload::Redacted);
    let derived = ExecutionId::derive(&stamp.consumer, &stamp.fingerprint, ids);
    let rooted = lineage.triggers.first().is_some_and(|first| first.root == judged.event.root);
    let holds = same && !erased && rooted && derived == stamp.execution;
    if holds { Ok(ids.clone()) } else { Err(Fault::Inconsistent) }
}

/// Checks that the receipt is that of this one run's output, to whom it was an answer.
fn delivered(
    chain: &Chain,
    newer: &TrainingExample,
    lineage: Option<&Lineage>,
) -> Result<(EventId, DeliveryDelivered), Fault> {
    let named = newer.delivery.ok_or(Fault::Missing)?;
    let event = chain.delivery.as_ref()?;
    let lineage = lineage.ok_or(Fault::Inconsistent)?;
    let judged = &lineage.judged;
    let read: DeliveryDelivered = event.payload_as().map_err(|_| Fault::Inconsistent)?;
    let holds = event.id == named
        && is_receipt_of(event, &judged.event)
        && read.binding.run == judged.stamp.run
        && event.source == read.binding.source()
        && event.position < chain.given.event.position
        && chain.given.event.parents.contains(&event.id)
        && answers(&read, &lineage.triggers);
    if holds { Ok((event.id, read)) } else { Err(Fault::Inconsistent) }
}

/// Says whether a direct reply went to the chat and the person who wrote the message it answers.
fn answers(receipt: &DeliveryDelivered, triggers: &[Event]) -> bool {
    match (receipt.binding.route, triggers) {
        (Route::Notification, _) => true,
        (Route::DirectReply, [message]) => message.payload_as::<TelegramMessage>().is_ok_and(|message| {
            message.chat == receipt.binding.chat && Some(message.sender) == receipt.binding.sender
        }),
        (Route::DirectReply, _) => false,
    }
}

/// Checks that the feedback says what the judgment says, as far as it can be read again.
fn said(
    chain: &Chain,
    newer: &TrainingExample,
    judged: Option<&Judged>,
    receipt: Option<&DeliveryDelivered>,
) -> Result<EventId, Fault> {
    let named = newer.feedback.ok_or(Fault::Missing)?;
    let event = chain.feedback.as_ref()?;
    let name = &event.kind.name;
    let holds = event.id == named
        && event.payload != Payload::Redacted
        && (name.is_within(SOURCES) || name.as_str() == ProposalDecision::NAME)
        && event.position < chain.given.event.position
        && judged.is_some_and(|judged| event.position > judged.event.position)
        && chain.given.event.parents.contains(&event.id);
    let agrees = match (judged.zip(receipt), name.as_str() == ProposalDecision::NAME) {
        (None, _) => false,
        (Some((judged, _)), true) => follows(newer, event, judged, chain),
        // What trusted code read from a chat is read again; what a person said by command has their authority.
        (Some((judged, receipt)), false) => {
            newer.operator.is_some() || repeats(newer, event, judged, receipt)
        }
    };
    if holds && agrees { Ok(event.id) } else { Err(Fault::Inconsistent) }
}

/// Says whether a judgment is what follows from a person's decision about a proposed correction of this very reply.
fn follows(newer: &TrainingExample, event: &Event, judged: &Judged, chain: &Chain) -> bool {
    let Ok(decided) = chain.decided.as_ref() else { return false };
    let (reply, Opinion::Correct { replacement }) = (decided.proven().bound(), &newer.opinion) else {
        return false;
    };
    let text = decided.text().map(|text| judged.contract.with_display(&judged.observation, text));
    decided.event().id == event.id
        && newer.criterion.as_deref() == Some(project::CRITERION)
        && reply.judged.event.id == judged.event.id
        && newer.delivery == Some(reply.receipt.id)
        && text.is_some_and(|again| again.is_ok_and(|again| again == *replacement))
}

/// Says whether reading the feedback again gives the judgment's opinion.
fn repeats(newer: &TrainingExample, event: &Event, judged: &Judged, receipt: &DeliveryDelivered) -> bool {
    let Some(read) = feedback::read(event) else { return false };
    let agrees = match (&read.word, &newer.opinion) {
        (Word::Accept, Opinion::Accept) | (Word::Reject, Opinion::Reject) => true,
        (Word::Correct(text), Opinion::Correct { replacement }) => judged
            .contract
            .with_display(&judged.observation, text.reveal())
            .is_ok_and(|again| again == *replacement),
        _ => false,
    };
    agrees && feedback::is_about(&read, receipt)
}

/// Checks that the sealed context is the one that this output was made from.
fn sealed(
    chain: &Chain,
    judged: Option<&Judged>,
    triggers: Option<&[EventId]>,
) -> Result<SnapshotName, Fault> {
    let packet = chain.snapshot.as_ref()?;
    let judged = judged.ok_or(Fault::Inconsistent)?;
    let stamp = &judged.stamp;
    let (contract, runtime) = (packet.contract(), packet.runtime());
    let holds = packet.sha256() == judged.snapshot
        && packet.execution() == stamp.execution
        && *packet.consumer() == stamp.consumer
        && Some(packet.triggers()) == triggers
        && contract.name == *judged.contract.kind()
        && contract.sha256 == *judged.contract.hash()
        && runtime.model == judged.provenance.model
        && runtime.profile == judged.provenance.provider
        && runtime.model_adapter == stamp.model_adapter
        && packet.privacy() <= judged.event.privacy;
    if !holds {
        return Err(Fault::Inconsistent);
    }
    Ok(SnapshotName { document: packet::document_id(&packet.execution()), sha256: packet.sha256() })
}

/// Says why the writer takes a supplied example for none. It names the place and keeps nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// It is of another form.
    #[error("example {0} is of another form")]
    Form(usize),
    /// The chain behind it lacks a link, or names one by what is no id.
    #[error("example {0} does not name its whole chain")]
    Provenance(usize),
    /// It cannot be written as canonical JSON.
    #[error("example {0} has no canonical form")]
    Canonical(usize),
}

/// Writes supplied examples in their order, after looking at each of them itself.
///
/// # Errors
/// [`Unproven`] for the first that is not what it should be; nothing is written then.
pub fn dataset(supplied: &[Value]) -> Result<Dataset, Unproven> {
    let lines = supplied.iter().enumerate().map(|(index, value)| line(index, value));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    Ok(Dataset::of_lines(lines.into_iter(), MANIFEST_FORMAT, EXAMPLE_FORMAT))
}

fn line(index: usize, value: &Value) -> Result<Line, Unproven> {
    if value.get("format").and_then(Value::as_str) != Some(EXAMPLE_FORMAT) {
        return Err(Unproven::Form(index));
    }
    let provenance = value.get("privateProvenance").ok_or(Unproven::Provenance(index))?;
    ExampleProvenance::deserialize(provenance).map_err(|_| Unproven::Provenance(index))?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let kind = text(value.get("kind")).ok_or(Unproven::Form(index))?;
    let model = text(value.pointer("/provenance/model")).ok_or(Unproven::Form(index))?;
    let bytes = canonical::write(value).map_err(|_| Unproven::Canonical(index))?;
    Ok(Line { bytes, kind, models: BTreeSet::from([model]) })
}

#[cfg(test)]
mod tests;
