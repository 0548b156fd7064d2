//! The private data set: every link of every chain is read anew from the log before an example is made of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::judgment::{Given, Judged};
use thoughtstream_domain::lifecycle::Run;
use thoughtstream_domain::packet::Packet;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::proposal::{CorrectionProposed, ProposalDecision};
use thoughtstream_domain::payload::run::RunCompleted;
use thoughtstream_domain::proposal::decision::Decided;
use thoughtstream_domain::proposal::lineage::{LineageError, prove_correction};
use thoughtstream_domain::training::private::{Chain, Ended, Found, Withheld, dataset, example};
use thoughtstream_store::{PAGE_ROWS_MAX, Reader, SnapshotError};

use super::{holds, lineage, place};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::places::Places;

/// Is what was exported, and what was not and why: ids, codes, counts and hashes alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrivateExported {
    /// The files; absent if no judgment has its whole chain, and nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    /// The judgments that stay in the log, each with its reason.
    pub withheld: Vec<WithheldJudgment>,
}

/// Is a data set that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
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
    /// How many examples tell no steps because the log has no trace of the run.
    pub without_trace: u64,
}

/// Is a judgment that stays in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WithheldJudgment {
    /// The judgment.
    pub judgment: EventId,
    /// Why, and which links of its chain do not hold.
    #[serde(flatten)]
    pub why: Withheld,
}

/// Writes the private data set and its manifest.
///
/// # Errors
/// [`Failure`] if it was not acknowledged, the place is not the owner's alone, or a file cannot be written; then
/// neither file is left.
pub fn export(
    reader: &Reader,
    places: &Places,
    path: &Path,
    acknowledged: bool,
) -> Result<PrivateExported, Failure> {
    if !acknowledged {
        let what = "what is exported is sensitive and private, and that was not acknowledged";
        return Err(Failure::new(Exit::Usage, "training.not-acknowledged", what)
            .with_hint("say --acknowledge-sensitive-private-training if you mean it"));
    }
    let place = place::check(path, places)?;
    let (mut examples, mut withheld, mut without_trace) = (Vec::new(), Vec::new(), 0);
    for given in reader.judgments()? {
        let judgment = given.event.id;
        match example(&chain(reader, given)?) {
            Ok(example) => {
                without_trace += u64::from(example.lacks_trace());
                examples.push(supplied(&example)?);
            }
            Err(why) => withheld.push(WithheldJudgment { judgment, why }),
        }
    }
    if examples.is_empty() {
        return Ok(PrivateExported { written: None, withheld });
    }
    // The writer looks for itself: what is supplied here has to prove its chain once more.
    let set = dataset(&examples).map_err(|error| Failure::of(Exit::Bug, "training.unproven", &error))?;
    place.write(&set)?;
    let written = Written {
        path: path.to_owned(),
        manifest: place.manifest().to_owned(),
        count: set.manifest.count,
        kinds: set.manifest.kinds,
        dataset_sha256: set.manifest.dataset_sha256,
        without_trace,
    };
    Ok(PrivateExported { written: Some(written), withheld })
}

fn supplied<T: Serialize>(example: &T) -> Result<Value, Failure> {
    serde_json::to_value(example).map_err(|error| {
        Failure::new(Exit::Bug, "training.encode", "an example cannot be written").because(&error)
    })
}

/// Reads every link behind a judgment.
fn chain(reader: &Reader, given: Given) -> Result<Chain, Failure> {
    let output = reader.event(&given.output)?;
    let named = |id: Option<EventId>| -> Result<Found<Event>, Failure> {
        let event = id.map(|id| reader.event(&id)).transpose()?.flatten();
        Ok(event.map_or(Found::Missing, Found::Read))
    };
    let newer = given.newer.as_deref();
    let (delivery, feedback) =
        (named(newer.and_then(|n| n.delivery))?, named(newer.and_then(|n| n.feedback))?);
    let read = match &output {
        None => Found::Missing,
        Some(output) => lineage(reader, output)?.map_or(Found::Unreadable, Found::Read),
    };
    let snapshot = match &read {
        Found::Read(lineage) => snapshot(reader, &lineage.judged)?,
        Found::Missing | Found::Unreadable => Found::Missing,
    };
    let run = match reader.run_by_id(&given.run)? {
        None => Found::Missing,
        Some(row) => Found::Read(Ended { completed: completed(reader, &row)?, row }),
    };
    let active = holds(reader, &given, output.as_ref())?;
    let decided = match &feedback {
        Found::Read(event) => decided(reader, event)?,
        Found::Missing | Found::Unreadable => Found::Missing,
    };
    Ok(Chain { given, active, lineage: read, run, feedback, decided, delivery, snapshot })
}

/// Proves the proposal that a decision is about, from the log; nothing if the event is no decision.
fn decided(reader: &Reader, event: &Event) -> Result<Found<Box<Decided<CorrectionProposed>>>, Failure> {
    let Ok(decision) = event.payload_as::<ProposalDecision>() else { return Ok(Found::Missing) };
    match prove_correction(reader, &decision.proposal) {
        Ok(proven) => {
            Ok(Decided::of(proven, event.clone()).map_or(Found::Unreadable, |it| Found::Read(Box::new(it))))
        }
        Err(LineageError::Unread(error)) => Err(error.into()),
        Err(LineageError::Broken(_)) => Ok(Found::Unreadable),
    }
}

/// Reads the sealed context that every attempt saw, and hashes it anew.
fn snapshot(reader: &Reader, judged: &Judged) -> Result<Found<Packet>, Failure> {
    match reader.packet(&judged.stamp.consumer, &judged.stamp.execution) {
        Ok(packet) => Ok(packet.map_or(Found::Missing, Found::Read)),
        Err(SnapshotError::Row(error)) => Err(error.into()),
        Err(SnapshotError::Packet(_)) => Ok(Found::Unreadable),
        Err(SnapshotError::Incomplete(_)) => Ok(Found::Missing),
    }
}

/// Finds the receipt of a run's end among what the log derived from its first trigger.
fn completed(reader: &Reader, row: &Run) -> Result<Found<Event>, Failure> {
    let mut after = 0;
    loop {
        let page = reader.children(row.position, after, PAGE_ROWS_MAX)?;
        let Some(last) = page.last() else { return Ok(Found::Missing) };
        after = last.position;
        let ends = |event: &&Event| {
            event.kind == RunCompleted::kind()
                && event.payload_as::<RunCompleted>().is_ok_and(|read| read.stamp.run == row.id)
        };
        if let Some(found) = page.iter().find(ends) {
            return Ok(Found::Read(found.clone()));
        }
    }
}
