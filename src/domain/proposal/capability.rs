//! What a context snapshot admits for proposals: the targets and the evidence, derived and never named by a model.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Kind;
use crate::hash::Sha256Hash;
use crate::id::{DocumentId, EventId, RunId, SourceId};
use crate::packet::{ContractRevision, DocumentReference};

/// The one path that a memory change is for.
pub const MEMORY_PATH: &str = "memory.md";

/// The name of the one source that a memory change is for, as `filesystem:NAME`.
pub const MEMORY_SOURCE: &str = "filesystem:telegram-agent-context";

/// Names the exact version of the document that a memory change is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryTarget {
    /// Its source.
    pub source: SourceId,
    /// The document.
    pub document: DocumentId,
    /// Its path then.
    #[schemars(length(min = 1, max = 64))]
    pub path: String,
    /// Its immutable version, from 1.
    pub revision: u64,
    /// The hash of its bytes.
    pub sha256: Sha256Hash,
    /// Its media type.
    #[schemars(length(min = 1, max = 128))]
    pub content_type: String,
    /// Its size.
    pub bytes: u64,
}

impl MemoryTarget {
    /// Takes a document version that a snapshot holds; nothing if it is not the memory document.
    #[must_use]
    pub fn of(document: &DocumentReference) -> Option<Self> {
        let DocumentReference { source, id, revision, path, content_type, bytes, sha256 } = document;
        (source.as_str() == MEMORY_SOURCE && path == MEMORY_PATH).then(|| Self {
            source: source.clone(),
            document: id.clone(),
            path: path.clone(),
            revision: *revision,
            sha256: *sha256,
            content_type: content_type.clone(),
            bytes: *bytes,
        })
    }
}

/// Names a delivered reply that may be corrected, with everything that shows how it was made and delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorrectionTarget {
    /// The completed run.
    pub run: RunId,
    /// Its one output.
    pub output: EventId,
    /// The receipt of its delivery.
    pub receipt: EventId,
    /// The root of the output: the message that it answers.
    pub root: EventId,
    /// The contract of the output.
    pub contract: ContractRevision,
}

/// Is what one snapshot admits for proposals. It is part of the packet, so that every retry and every later check
/// reads the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalCapability {
    /// What the declaration lets be proposed.
    pub kinds: BTreeSet<Kind>,
    /// The memory document, if the snapshot has its current version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTarget>,
    /// The replies that may be corrected, the oldest first. The last is what `latest` names.
    pub correction_targets: Vec<CorrectionTarget>,
    /// The events that may be cited. To be citable authorizes nothing.
    pub evidence: BTreeSet<EventId>,
    /// Whether the message asks for a focus, so that exactly one must be proposed.
    pub focus_required: bool,
}

impl ProposalCapability {
    /// Says whether this kind can be proposed: it is declared, and what it needs is there.
    #[must_use]
    pub fn can(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
            && match kind {
                Kind::MemoryChange => self.memory.is_some(),
                Kind::SelfCorrection => !self.correction_targets.is_empty(),
                Kind::FocusDeclaration => true,
            }
    }

    /// Returns the part of it that a sandbox needs: what can be proposed, and the ids that may be named.
    #[must_use]
    pub fn for_worker(&self) -> WorkerCapability {
        WorkerCapability {
            kinds: Kind::ALL.into_iter().filter(|kind| self.can(*kind)).collect(),
            targets: self.correction_targets.iter().map(|target| target.output).collect(),
            evidence: self.evidence.clone(),
        }
    }
}

/// Is what a sandboxed worker knows of a capability: no path, document, version, hash, run or receipt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerCapability {
    /// What can be proposed; the tools of these are offered and no others.
    pub kinds: BTreeSet<Kind>,
    /// The outputs that may be corrected, the oldest first.
    pub targets: Vec<EventId>,
    /// The events that may be cited.
    pub evidence: BTreeSet<EventId>,
}
