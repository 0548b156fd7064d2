//! The data set of judged outputs: gathered from the log, written into files that only their owner may read.

mod place;
pub mod private;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::judgment::{Given, Judged, active};
use thoughtstream_domain::payload::judgment::Opinion;
use thoughtstream_domain::payload::trace::{RunTraced, Step};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::training::{Dataset, Example, Excluded, Facts, Gate, Lineage, example};
use thoughtstream_store::Reader;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::places::Places;

/// More events behind one output than any context holds; one with more is not exported, for nobody has looked
/// at all of them.
const ANCESTORS_MAX: usize = 100_000;

/// Is what was exported, and what was not and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrainingExported {
    /// The data set.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: PathBuf,
    /// How many examples it has.
    pub count: u64,
    /// How many of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// The hash of the data set's bytes.
    pub dataset_sha256: Sha256Hash,
    /// How many examples tell no steps because the log has no trace of a run.
    pub without_trace: u64,
    /// The judgments that stay in the log, each with its reason.
    pub excluded: Vec<ExcludedJudgment>,
}

/// Is a judgment that stays in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedJudgment {
    /// The judgment.
    pub judgment: EventId,
    /// Why.
    pub reason: Excluded,
}

/// Writes the data set and its manifest.
///
/// # Errors
/// [`Failure`] if there is nothing that may leave, the place is not the owner's alone, or a file cannot be
/// written; then neither file is left.
pub fn export(
    reader: &Reader,
    places: &Places,
    path: &Path,
    include_private: bool,
) -> Result<TrainingExported, Failure> {
    let place = place::check(path, places)?;
    let gate = if include_private { Gate::AuthorizedPrivate } else { Gate::PublicOnly };
    let (examples, excluded) = gather(reader, gate)?;
    if examples.is_empty() {
        return Err(nothing(&excluded));
    }
    let dataset = Dataset::of(&examples);
    place.write(&dataset)?;
    Ok(TrainingExported {
        path: path.to_owned(),
        manifest: place.manifest().to_owned(),
        count: dataset.manifest.count,
        kinds: dataset.manifest.kinds,
        dataset_sha256: dataset.manifest.dataset_sha256,
        without_trace: examples.iter().filter(|example| example.lacks_trace()).count() as u64,
        excluded,
    })
}

fn nothing(excluded: &[ExcludedJudgment]) -> Failure {
    let mut counts: BTreeMap<Excluded, u64> = BTreeMap::new();
    for judgment in excluded {
        *counts.entry(judgment.reason).or_default() += 1;
    }
    let why: Vec<String> =
        counts.iter().map(|(reason, count)| format!("{count} {}", reason.words())).collect();
    let what = if why.is_empty() {
        "nothing was judged yet".to_owned()
    } else {
        format!("no judgment may leave: {}", why.join("; "))
    };
    let failure = Failure::new(Exit::Refused, "training.nothing", what);
    if counts.contains_key(&Excluded::AbovePublic) {
        failure.with_hint("say --include-private if what a person let out when judging is to leave now")
    } else {
        failure.with_hint("`thought judgment list` shows what each judgment says of itself")
    }
}

/// Gathers the examples in the order of their judgments.
fn gather(reader: &Reader, gate: Gate) -> Result<(Vec<Example>, Vec<ExcludedJudgment>), Failure> {
    let (mut examples, mut excluded) = (Vec::new(), Vec::new());
    for given in reader.judgments()? {
        let judgment = given.event.id;
        match example(&facts(reader, given)?, gate) {
            Ok(example) => examples.push(example),
            Err(reason) => excluded.push(ExcludedJudgment { judgment, reason }),
        }
    }
    Ok((examples, excluded))
}

fn facts(reader: &Reader, given: Given) -> Result<Facts, Failure> {
    let output = reader.event(&given.output)?;
    let other = match &given.opinion {
        Opinion::Prefer { over_output, .. } => reader.event(over_output)?,
        Opinion::Accept | Opinion::Reject | Opinion::Correct { .. } => None,
    };
    let named = |id: Option<EventId>| -> Result<Option<Event>, Failure> {
        Ok(id.map(|id| reader.event(&id)).transpose()?.flatten())
    };
    let newer = given.newer.as_deref();
    let (delivery, feedback) =
        (named(newer.and_then(|n| n.delivery))?, named(newer.and_then(|n| n.feedback))?);
    Ok(Facts {
        active: holds(reader, &given, output.as_ref())?,
        primary: output.as_ref().map(|output| lineage(reader, output)).transpose()?.flatten(),
        compared: other.as_ref().map(|other| lineage(reader, other)).transpose()?.flatten(),
        delivery,
        feedback,
        given,
    })
}

/// Says whether a judgment holds. Of an output that is gone nothing else is known than that it was not taken back.
fn holds(reader: &Reader, given: &Given, output: Option<&Event>) -> Result<bool, Failure> {
    let Some(output) = output else { return Ok(!given.retracted) };
    let siblings = reader.judgments_of(output)?;
    Ok(active(&siblings).iter().any(|active| active.event.id == given.event.id))
}

/// Returns an output with what lies behind it; nothing if it cannot be read as one.
fn lineage(reader: &Reader, output: &Event) -> Result<Option<Lineage>, Failure> {
    let Ok(judged) = Judged::of(output) else { return Ok(None) };
    let triggers = reader.parents(output.position)?;
    let Some(ancestry) = ancestry(reader, output)? else { return Ok(None) };
    let declaration = reader.registered(&judged.stamp.consumer)?.and_then(|registered| {
        // A version is bound to one fingerprint: another one is not what ran.
        let same = registered.fingerprint == judged.stamp.fingerprint;
        same.then(|| registered.declaration()).flatten()
    });
    let trace = reader.event(&RunTraced::id_of(&judged.stamp))?;
    let trace: Option<Vec<Step>> = trace
        .and_then(|event| event.payload_as::<RunTraced>().ok())
        .map(|traced| traced.chunks.iter().map(|chunk| chunk.step).collect());
    let declaration = declaration.unwrap_or(Value::Null);
    Ok(Some(Lineage { judged, triggers, ancestry, trace, declaration }))
}

/// Returns the strongest class among everything an event was derived from; nothing if that is too much to look
/// at.
fn ancestry(reader: &Reader, event: &Event) -> Result<Option<Privacy>, Failure> {
    let (mut seen, mut waiting) = (BTreeSet::from([event.position]), vec![event.position]);
    let mut class = event.privacy;
    while let Some(position) = waiting.pop() {
        for parent in reader.parents(position)? {
            class = class.join(parent.privacy);
            if seen.insert(parent.position) {
                waiting.push(parent.position);
            }
        }
        if seen.len() > ANCESTORS_MAX {
            return Ok(None);
        }
    }
    Ok(Some(class))
}
