//! The data set of judged outputs: gathered from the log, written into files that only their owner may read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
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
use thoughtstream_domain::training::{Dataset, Excluded, Facts, Gate, Lineage, example};
use thoughtstream_effects::atomic;
use thoughtstream_store::Reader;

use crate::apart::check_copy;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::places::Places;

/// More events behind one output than any context holds; one with more is not exported, for nobody has looked
/// at all of them.
const ANCESTORS_MAX: usize = 100_000;

/// Only the owner reads what leaves the log.
const OWNER_ONLY: u32 = 0o600;

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
    check_place(path, places)?;
    let gate = if include_private { Gate::AuthorizedPrivate } else { Gate::PublicOnly };
    let (dataset, excluded) = gather(reader, gate)?;
    if dataset.manifest.count == 0 {
        return Err(nothing(&excluded));
    }
    let manifest = manifest_path(path);
    let text = serde_json::to_string_pretty(&dataset.manifest).map_err(|error| {
        Failure::new(Exit::Bug, "training.encode", "a manifest cannot be written").because(&error)
    })?;
    let written = |error| Failure::of(Exit::CouldNotLook, "training.write", &error);
    atomic::create(path, &dataset.bytes, OWNER_ONLY).map_err(written)?;
    if let Err(error) = atomic::create(&manifest, (text + "\n").as_bytes(), OWNER_ONLY) {
        // Without its manifest nobody can say what it is.
        atomic::remove(path).ok();
        return Err(written(error));
    }
    Ok(TrainingExported {
        path: path.to_owned(),
        manifest,
        count: dataset.manifest.count,
        kinds: dataset.manifest.kinds,
        dataset_sha256: dataset.manifest.dataset_sha256,
        excluded,
    })
}

/// Returns where the manifest of a data set lies: beside it.
fn manifest_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".manifest.json");
    PathBuf::from(name)
}

/// Refuses a place that others may look into, or that is no place for a file.
fn check_place(path: &Path, places: &Places) -> Result<(), Failure> {
    check_copy(path, places)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let metadata = parent.metadata().map_err(|error| {
        let what = format!("cannot look at `{}`", parent.display());
        Failure::new(Exit::CouldNotLook, "training.directory", what).because(&error)
    })?;
    if metadata.mode() & 0o077 != 0 {
        let what = format!("`{}` is open to others (mode {:03o})", parent.display(), metadata.mode() & 0o777);
        return Err(Failure::new(Exit::Refused, "training.directory-open", what).with_hint(
            "name a file in a directory of mode 700: what leaves the log is yours alone at first",
        ));
    }
    Ok(())
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
fn gather(reader: &Reader, gate: Gate) -> Result<(Dataset, Vec<ExcludedJudgment>), Failure> {
    let (mut examples, mut excluded) = (Vec::new(), Vec::new());
    for given in reader.judgments()? {
        let judgment = given.event.id;
        match example(&facts(reader, given)?, gate) {
            Ok(example) => examples.push(example),
            Err(reason) => excluded.push(ExcludedJudgment { judgment, reason }),
        }
    }
    Ok((Dataset::of(&examples), excluded))
}

fn facts(reader: &Reader, given: Given) -> Result<Facts, Failure> {
    let output = reader.event(&given.output)?;
    let holds = match &output {
        Some(output) => {
            let siblings = reader.judgments_of(output)?;
            active(&siblings).iter().any(|active| active.event.id == given.event.id)
        }
        None => false,
    };
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
        active: holds || (output.is_none() && !given.retracted),
        primary: output.as_ref().map(|output| lineage(reader, output)).transpose()?.flatten(),
        compared: other.as_ref().map(|other| lineage(reader, other)).transpose()?.flatten(),
        delivery,
        feedback,
        given,
    })
}

/// Returns an output with what lies behind it; nothing if it cannot be read as one.
fn lineage(reader: &Reader, output: &Event) -> Result<Option<Lineage>, Failure> {
    let Ok(judged) = Judged::of(output) else { return Ok(None) };
    let triggers = reader.parents(output.position)?;
    let Some(ancestry) = ancestry(reader, output)? else { return Ok(None) };
    let declaration = reader.registered(&judged.stamp.consumer)?.and_then(|registered| {
        // A version is bound to one fingerprint: another one is not what ran.
        let same = registered.fingerprint == judged.stamp.fingerprint;
        same.then(|| serde_json::from_str::<Value>(&registered.canonical).ok()).flatten()
    });
    let trace = reader.event(&RunTraced::id_of(&judged.stamp))?;
    let trace: Vec<Step> = trace
        .and_then(|event| event.payload_as::<RunTraced>().ok())
        .map(|traced| traced.chunks.iter().map(|chunk| chunk.step).collect())
        .unwrap_or_default();
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
