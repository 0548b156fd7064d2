//! A data set as bytes: one example a line, and a manifest that says what it is without a word of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{EXAMPLE_FORMAT, Example};
use crate::canonical;
use crate::hash::Sha256Hash;

/// The form of a data set's manifest.
const MANIFEST_FORMAT: &str = "thoughtstream.training-dataset-manifest.v4";

/// Says what a data set is, without a word of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// The form of this manifest.
    pub format: String,
    /// The hash of the data set's bytes.
    pub dataset_sha256: Sha256Hash,
    /// How many examples it has.
    pub count: u64,
    /// How many of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// The sets of models that took part in an example together.
    pub models: Vec<Vec<String>>,
    /// How many examples of each form.
    pub formats: BTreeMap<String, u64>,
    /// The review campaigns that took part; none do yet.
    pub review_campaigns: Vec<String>,
}

/// Is a data set, ready to be written: the same log and gate give the same bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Dataset {
    /// One example a line, as canonical JSON.
    pub bytes: Vec<u8>,
    /// What it is.
    pub manifest: Manifest,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dataset({} examples, {} bytes)", self.manifest.count, self.bytes.len())
    }
}

/// Is one line of a data set with what its manifest counts.
pub(super) struct Line {
    /// Canonical JSON, without the end of the line.
    pub(super) bytes: Vec<u8>,
    /// The kind of its judgment.
    pub(super) kind: String,
    /// The models that took part in it.
    pub(super) models: BTreeSet<String>,
}

impl Dataset {
    /// Writes examples in their order.
    ///
    /// # Panics
    /// Never: an example has text and exact numbers only.
    #[must_use]
    pub fn of(examples: &[Example]) -> Self {
        let line = |example: &Example| {
            let compared = example.compared.as_ref().map(|compared| &compared.provenance);
            let runs = [Some(&example.provenance), compared].into_iter().flatten();
            Line {
                bytes: canonical::write_type(example).expect("text and exact numbers"),
                kind: example.kind.to_owned(),
                models: runs.map(|run| run.model.clone()).collect(),
            }
        };
        Self::of_lines(examples.iter().map(line), MANIFEST_FORMAT, EXAMPLE_FORMAT)
    }

    /// Joins lines of one form.
    pub(super) fn of_lines(lines: impl Iterator<Item = Line>, manifest: &str, example: &str) -> Self {
        let mut bytes = Vec::new();
        let (mut kinds, mut models, mut count) = (BTreeMap::new(), BTreeSet::new(), 0);
        for line in lines {
            bytes.extend(line.bytes);
            bytes.push(b'\n');
            *kinds.entry(line.kind).or_insert(0) += 1;
            models.insert(line.models.into_iter().collect::<Vec<_>>());
            count += 1;
        }
        let formats =
            if count == 0 { BTreeMap::new() } else { BTreeMap::from([(example.to_owned(), count)]) };
        let manifest = Manifest {
            format: manifest.to_owned(),
            dataset_sha256: Sha256Hash::of(&bytes),
            count,
            kinds,
            models: models.into_iter().collect(),
            formats,
            review_campaigns: Vec::new(),
        };
        Self { bytes, manifest }
    }
}
