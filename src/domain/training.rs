//! Training examples: which judgments may leave the log, and what of them (Outputs section).
//!
//! Two gates, both shut by default. A judgment leaves if it is active, says of itself that it may inform quality
//! and that it may leave, and everything it was derived from is public; what is above public-source needs a
//! person's word twice, once when judging and once when exporting. What leaves is the value, the contract, and
//! where it came from in kinds and names of ours. No id, route, key, prompt, source text, hash of content or time
//! is in it: an example cannot be led back to the person whose life it was made from.
//!
//! [`private`] is the other data set: what a person keeps for their own adaptation, with the whole chain behind it.
//! An agent's proposal is in neither: it is no output and no judgment.

mod dataset;
pub mod private;

pub use dataset::{Dataset, Manifest};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::Observation;
use crate::event::Event;
use crate::hash::Sha256Hash;
use crate::id::{EventId, TypeName, TypeRef};
use crate::judgment::{Given, Judged};
use crate::payload::judgment::Opinion;
use crate::payload::trace::Step;
use crate::privacy::Privacy;

/// The form of an example.
pub const EXAMPLE_FORMAT: &str = "thoughtstream.training-example.v3";

/// The bounds of a declaration's context that an example may tell: numbers, and nothing a person wrote.
const CONTEXT_BOUNDS: [&str; 3] = ["assistantHistoryMaxTurns", "maxChars", "maxEvents"];

/// Says what may pass the second gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Public chains alone.
    PublicOnly,
    /// Also what a person let out, class by class, when judging.
    AuthorizedPrivate,
}

/// Is what is said of a source: never which one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceClass {
    /// The type of the first trigger.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// Its version.
    pub schema_version: u32,
    /// The kind of its source.
    pub source_kind: String,
    /// The strongest class among everything that went in and came out.
    pub privacy: Privacy,
}

/// Is what made an output, by names that are public.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionProvenance {
    /// The revision of the runner.
    pub execution_adapter_revision: String,
    /// The public base model.
    pub model: String,
    /// The learned adapter, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_adapter: Option<String>,
}

/// Names the contract of both values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractIdentity {
    /// Its name and version.
    pub id: TypeRef,
    /// Its definition hash.
    pub definition_hash: Sha256Hash,
}

/// Is what made the other output of a preference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// What made it.
    pub provenance: ExecutionProvenance,
    /// Its steps in order; nothing if the trace is missing, which is said and not taken for a run without steps.
    pub trace: Option<Vec<Step>>,
}

/// Is one example; it does not print.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Example {
    format: &'static str,
    kind: &'static str,
    contract: ContractIdentity,
    source: SourceClass,
    context_policy: BTreeMap<String, u64>,
    provenance: ExecutionProvenance,
    trace: Option<Vec<Step>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Compared>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<Observation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<Observation>,
}

impl Example {
    /// Says whether the trace of one of its runs is missing.
    #[must_use]
    pub fn lacks_trace(&self) -> bool {
        self.trace.is_none() || self.compared.as_ref().is_some_and(|compared| compared.trace.is_none())
    }
}

impl std::fmt::Debug for Example {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Example({})", self.kind)
    }
}

/// Is one run of a judgment with what the log has around it.
#[derive(Debug, Clone)]
pub struct Lineage {
    /// The judged output.
    pub judged: Judged,
    /// The events it was made from.
    pub triggers: Vec<Event>,
    /// The strongest class found among everything behind it.
    pub ancestry: Privacy,
    /// The steps of the run; nothing if the log has no trace of it that can be read.
    pub trace: Option<Vec<Step>>,
    /// The declaration as it was registered, for its bounds.
    pub declaration: Value,
}

/// Is a judgment with everything that decides whether it leaves.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The judgment.
    pub given: Given,
    /// Whether it holds: not taken back, not replaced.
    pub active: bool,
    /// Its run; nothing if the output is gone or cannot be read.
    pub primary: Option<Lineage>,
    /// The other run of a preference.
    pub compared: Option<Lineage>,
    /// The receipt of the delivery it names, if it is in the log.
    pub delivery: Option<Event>,
    /// The feedback it names, if it is in the log.
    pub feedback: Option<Event>,
}

/// Says why a judgment stays in the log; a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excluded {
    /// It was taken back or replaced.
    Inactive,
    /// It does not say that it may inform quality.
    NotQualityEligible,
    /// It does not say that it may leave.
    NotExternallyEligible,
    /// The output is gone, cannot be read, or is not the one it names.
    OutputUnresolved,
    /// The other output of a preference is gone, cannot be read, or is not the one it names.
    ComparedUnresolved,
    /// The replacement does not fit the contract.
    ReplacementInvalid,
    /// It names a delivery or a person's feedback that is not there.
    EvidenceMissing,
    /// A repair is only accepted or corrected.
    RepairOpinion,
    /// A learned adapter took part, and none has leave to be exported.
    LearnedAdapter,
    /// It is above public-source and the second gate is shut.
    AbovePublic,
    /// It is above public-source and nobody let it out when judging.
    NotAuthorized,
}

impl Excluded {
    /// Says it in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Inactive => "taken back or replaced",
            Self::NotQualityEligible => "not marked as fit for quality",
            Self::NotExternallyEligible => "not marked as free to leave",
            Self::OutputUnresolved => "the output cannot be read, or is another one",
            Self::ComparedUnresolved => "the compared output cannot be read, or is another one",
            Self::ReplacementInvalid => "the replacement does not fit the contract",
            Self::EvidenceMissing => "a delivery receipt or feedback it rests on is missing",
            Self::RepairOpinion => "a repair leaves only accepted or corrected",
            Self::LearnedAdapter => "a learned adapter took part",
            Self::AbovePublic => "above public-source",
            Self::NotAuthorized => "above public-source, and nobody let it out when judging",
        }
    }
}

/// Makes the example of a judgment, if it may leave.
///
/// # Errors
/// [`Excluded`] with the first gate that is shut.
pub fn example(facts: &Facts, gate: Gate) -> Result<Example, Excluded> {
    let given = &facts.given;
    if !facts.active || given.retracted {
        return Err(Excluded::Inactive);
    }
    check_eligible(given)?;
    let primary = facts.primary.as_ref().filter(|lineage| given.is_about(&lineage.judged));
    let primary = primary.ok_or(Excluded::OutputUnresolved)?;
    let compared = check_compared(facts, primary)?;
    check_evidence(facts, primary)?;
    let is_repair_kind = matches!(given.opinion, Opinion::Accept | Opinion::Correct { .. });
    if primary.judged.is_repair && !is_repair_kind {
        return Err(Excluded::RepairOpinion);
    }
    // Both runs are held to both rules: neither is let out by the other.
    for lineage in [Some(primary), compared].into_iter().flatten() {
        if lineage.judged.stamp.model_adapter.is_some() {
            return Err(Excluded::LearnedAdapter);
        }
        check_privacy(given, lineage, gate)?;
    }
    assemble(EXAMPLE_FORMAT, given, primary, compared)
}

/// Takes out of a run and its judgment what an example tells; every gate was passed before.
fn assemble(
    format: &'static str,
    given: &Given,
    primary: &Lineage,
    compared: Option<&Lineage>,
) -> Result<Example, Excluded> {
    let (chosen, rejected) = values(given, primary, compared)?;
    Ok(Example {
        format,
        kind: given.opinion.as_str(),
        contract: ContractIdentity {
            id: primary.judged.contract.kind().clone(),
            definition_hash: *primary.judged.contract.hash(),
        },
        source: source(given, primary, compared).ok_or(Excluded::OutputUnresolved)?,
        context_policy: context_policy(&primary.declaration),
        provenance: provenance(&primary.judged),
        trace: primary.trace.clone(),
        compared: compared
            .map(|other| Compared { provenance: provenance(&other.judged), trace: other.trace.clone() }),
        chosen,
        rejected,
    })
}

/// Checks the first gate: what the judgment says of itself.
fn check_eligible(given: &Given) -> Result<(), Excluded> {
    match &given.newer {
        Some(newer) if !newer.quality_eligible => Err(Excluded::NotQualityEligible),
        Some(newer) if !newer.external_export_eligible => Err(Excluded::NotExternallyEligible),
        Some(_) => Ok(()),
        None if given.legacy_export_eligible => Ok(()),
        None => Err(Excluded::NotExternallyEligible),
    }
}

fn check_compared<'a>(facts: &'a Facts, primary: &Lineage) -> Result<Option<&'a Lineage>, Excluded> {
    let Opinion::Prefer { over, over_output } = &facts.given.opinion else { return Ok(None) };
    let found = facts.compared.as_ref().filter(|other| {
        other.judged.stamp.run == *over
            && other.judged.event.id == *over_output
            && other.judged.contract == primary.judged.contract
    });
    found.map(Some).ok_or(Excluded::ComparedUnresolved)
}

fn check_evidence(facts: &Facts, primary: &Lineage) -> Result<(), Excluded> {
    let Some(newer) = &facts.given.newer else { return Ok(()) };
    let there = |named: Option<EventId>, found: Option<&Event>| match named {
        None => true,
        Some(named) => found.is_some_and(|event| event.id == named),
    };
    let receipt = facts.delivery.as_ref();
    let receipt_fits =
        receipt.is_none_or(|event| crate::judgment::is_receipt_of(event, &primary.judged.event));
    // What a person said about a message they got rests on their having got it.
    let complete = newer.feedback.is_none() || newer.delivery.is_some();
    if complete
        && receipt_fits
        && there(newer.delivery, receipt)
        && there(newer.feedback, facts.feedback.as_ref())
    {
        Ok(())
    } else {
        Err(Excluded::EvidenceMissing)
    }
}

/// Checks what a run rests on against both gates.
fn check_privacy(given: &Given, lineage: &Lineage, gate: Gate) -> Result<(), Excluded> {
    let class = class_of(given, lineage);
    if class == Privacy::PublicSource {
        return Ok(());
    }
    let authorized = given.newer.as_ref().and_then(|newer| newer.external_authorization);
    match (gate, authorized) {
        (Gate::AuthorizedPrivate, Some(authorized)) if authorized >= class => Ok(()),
        (Gate::PublicOnly, Some(authorized)) if authorized >= class => Err(Excluded::AbovePublic),
        (Gate::PublicOnly | Gate::AuthorizedPrivate, _) => Err(Excluded::NotAuthorized),
    }
}

fn class_of(given: &Given, lineage: &Lineage) -> Privacy {
    let triggers = lineage.triggers.iter().map(|event| event.privacy);
    let all = triggers.chain([lineage.ancestry, lineage.judged.event.privacy, given.event.privacy]);
    all.fold(Privacy::PublicSource, Privacy::join)
}

type Values = (Option<Observation>, Option<Observation>);

fn values(given: &Given, primary: &Lineage, compared: Option<&Lineage>) -> Result<Values, Excluded> {
    let original = || Some(primary.judged.observation.clone());
    Ok(match &given.opinion {
        Opinion::Accept => (original(), None),
        Opinion::Reject => (None, original()),
        Opinion::Correct { replacement } => {
            let value = serde_json::to_value(replacement).map_err(|_| Excluded::ReplacementInvalid)?;
            let checked = primary.judged.contract.check(&value).map_err(|_| Excluded::ReplacementInvalid)?;
            (Some(checked), original())
        }
        Opinion::Prefer { .. } => (original(), compared.map(|other| other.judged.observation.clone())),
    })
}

fn source(given: &Given, primary: &Lineage, compared: Option<&Lineage>) -> Option<SourceClass> {
    let first = primary.triggers.first()?;
    let other = compared.map_or(Privacy::PublicSource, |other| class_of(given, other));
    Some(SourceClass {
        kind: first.kind.name.clone(),
        schema_version: first.kind.version,
        source_kind: first.source.kind().to_owned(),
        privacy: class_of(given, primary).join(other),
    })
}

/// Takes the known numbers out of a declaration's context; whatever else stands there stays.
fn context_policy(declaration: &Value) -> BTreeMap<String, u64> {
    let context = declaration.get("context");
    let bound = |name: &str| Some((name.to_owned(), context?.get(name)?.as_u64()?));
    CONTEXT_BOUNDS.into_iter().filter_map(bound).collect()
}

fn provenance(judged: &Judged) -> ExecutionProvenance {
    ExecutionProvenance {
        execution_adapter_revision: judged.stamp.execution_adapter_revision.clone(),
        model: judged.provenance.model.clone(),
        model_adapter: judged.stamp.model_adapter.clone(),
    }
}

#[cfg(test)]
mod tests;
