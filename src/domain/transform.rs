//! Deterministic transforms: what a consumer with `runner.kind: deterministic` runs.
//!
//! A transform is a function of one file event and the bytes of the version it names. The same input gives the same
//! output, byte for byte, so that a retry after a crash settles what the first attempt would have settled. When a
//! change makes a transform answer differently, its page in `prompts/` says so: the page's hash is part of the
//! fingerprint of each consumer that runs it, so that this is a new version of the consumer, and the outputs of the two
//! can be told apart by their runs.
//!
//! Every output says which version it was derived from. A removed document gives a tombstone (`state: removed`) to a
//! consumer that subscribes to removals, so that a reader of the derived events alone learns that the earlier ones
//! hold no longer. A file that is not Markdown gives no output: the run completes and nothing is derived.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash::Sha256Hash;
use crate::id::{DocumentId, TypeRef};
use crate::payload::TypedPayload;
use crate::payload::file::{FileAdded, FileChanged, FileRemoved, FileRenamed};

mod bounded;
pub mod day;
pub mod links;
pub mod markdown;
pub mod metadata;
pub mod outline;
pub mod structure;
pub mod tasks;
#[cfg(test)]
mod tests;
mod text;

use links::DocumentLinks;
use markdown::Markdown;
use metadata::DocumentMetadata;
use structure::DocumentStructure;
use tasks::DocumentTasks;

/// No output is larger than this in JSON; the bounds of its lists add up to less.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Describes one transform.
#[derive(Debug, Clone, Copy)]
pub struct TransformInfo {
    /// The name by which a declaration selects it.
    pub name: &'static str,
    /// The event types it reads; any other trigger is an error.
    pub accepts: &'static [&'static str],
    /// The event types it writes.
    pub emits: &'static [&'static str],
    present: fn(&Subject, &Markdown<'_>) -> serde_json::Result<Value>,
    removed: fn(Removed) -> serde_json::Result<Value>,
    kind: fn() -> TypeRef,
}

/// Is implemented by the payload of each transform's output.
trait Derived: TypedPayload {
    /// Derives the payload from a document that is there.
    fn present(subject: &Subject, document: &Markdown<'_>) -> Self;

    /// Makes the tombstone of a document that is not.
    fn removed(removed: Removed) -> Self;
}

impl TransformInfo {
    const fn of<D: Derived>(name: &'static str) -> Self {
        Self {
            name,
            accepts: FILE_EVENTS,
            emits: const { &[D::NAME] },
            present: |subject, document| serde_json::to_value(D::present(subject, document)),
            removed: |removed| serde_json::to_value(D::removed(removed)),
            kind: D::kind,
        }
    }
}

/// All four things that can happen to a file.
const FILE_EVENTS: &[&str] = &[FileAdded::NAME, FileChanged::NAME, FileRenamed::NAME, FileRemoved::NAME];

const KNOWN: &[TransformInfo] = &[
    TransformInfo::of::<DocumentLinks>("document-links"),
    TransformInfo::of::<DocumentMetadata>("document-metadata"),
    TransformInfo::of::<DocumentStructure>("document-structure"),
    TransformInfo::of::<DocumentTasks>("document-tasks"),
];

/// Returns every transform, sorted by name.
#[must_use]
pub const fn known() -> &'static [TransformInfo] {
    KNOWN
}

/// Returns the transform called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static TransformInfo> {
    KNOWN.iter().find(|transform| transform.name == name)
}

/// Runs the transform `name` on what `trigger` says, with the content of the version it names.
///
/// A removal needs no `content`; a file that is not Markdown gives no output.
///
/// # Errors
/// The transform is unknown, or the content is missing, another version, or nothing that can be read as a document.
pub fn run(name: &str, trigger: &Trigger, content: Option<&[u8]>) -> Result<Vec<Output>, TransformError> {
    let transform = find(name).ok_or(TransformError::Unknown)?;
    let Trigger { change, document_id, revision, path } = trigger.clone();
    let payload = match change {
        Change::Removed => (transform.removed)(Removed { document_id, revision, path }),
        Change::Present { .. } if !trigger.is_read() => return Ok(Vec::new()),
        Change::Present { sha256, .. } => {
            let content = content.ok_or(TransformError::Missing)?;
            // The bound comes before the hash, so that an oversized file costs nothing.
            markdown::check_size(content)?;
            if Sha256Hash::of(content) != sha256 {
                return Err(TransformError::OtherVersion);
            }
            let subject = Subject { document_id, revision, path, sha256 };
            (transform.present)(&subject, &Markdown::read(content)?)
        }
    };
    let payload = payload.expect("a payload of ours has text keys and whole numbers");
    let bytes = serde_json::to_vec(&payload).map_or(usize::MAX, |bytes| bytes.len());
    if bytes > OUTPUT_BYTES_MAX {
        return Err(TransformError::OutputTooLarge { bytes, max: OUTPUT_BYTES_MAX });
    }
    Ok(vec![Output { kind: (transform.kind)(), payload }])
}

/// Says whether a file is Markdown, by its media type or by the ending of its name.
fn is_markdown(content_type: &str, path: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    media_type.eq_ignore_ascii_case("text/markdown")
        || matches!(ending.as_deref(), Some("md" | "markdown" | "mdown" | "mkd"))
}

/// Is what a transform needs to know of the event that triggered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// What happened.
    pub change: Change,
    /// The document.
    pub document_id: DocumentId,
    /// Its revision.
    pub revision: u64,
    /// Its path in the source.
    pub path: String,
}

/// Says what happened to a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It has the content with this hash: it was added, changed or renamed.
    Present {
        /// The hash of the content.
        sha256: Sha256Hash,
        /// The media type of the content.
        content_type: String,
    },
    /// It was removed.
    Removed,
}

impl Trigger {
    /// Says whether a transform reads the content that this names: that of a document that is there, in Markdown.
    #[must_use]
    pub fn is_read(&self) -> bool {
        match &self.change {
            Change::Present { content_type, .. } => is_markdown(content_type, &self.path),
            Change::Removed => false,
        }
    }

    /// Reads the trigger from an event of type `kind` with `payload`.
    ///
    /// # Errors
    /// [`TransformError::WrongTrigger`] if it is no file event.
    pub fn read(kind: &TypeRef, payload: &Value) -> Result<Self, TransformError> {
        fn typed<P: TypedPayload>(kind: &TypeRef, payload: &Value) -> Option<P> {
            (*kind == P::kind()).then(|| P::deserialize(payload).ok()).flatten()
        }
        macro_rules! present {
            ($file:expr) => {{
                let file = $file;
                let change = Change::Present { sha256: file.sha256, content_type: file.content_type };
                Ok(Self { change, document_id: file.document_id, revision: file.revision, path: file.path })
            }};
        }
        if let Some(file) = typed::<FileAdded>(kind, payload) {
            present!(file)
        } else if let Some(file) = typed::<FileChanged>(kind, payload) {
            present!(file)
        } else if let Some(file) = typed::<FileRenamed>(kind, payload) {
            present!(file)
        } else if let Some(file) = typed::<FileRemoved>(kind, payload) {
            Ok(Self {
                change: Change::Removed,
                document_id: file.document_id,
                revision: file.revision,
                path: file.path,
            })
        } else {
            Err(TransformError::WrongTrigger { kind: kind.clone() })
        }
    }
}

/// Is what one transform made of one trigger.
#[derive(Clone, PartialEq)]
pub struct Output {
    /// The event type and version.
    pub kind: TypeRef,
    /// The payload; content, so it does not print.
    pub payload: Value,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Output({})", self.kind)
    }
}

/// Says why a transform gave no output; none of these becomes better by a retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// No transform has the name.
    #[error("no transform has this name")]
    Unknown,
    /// The trigger is an event that no transform reads.
    #[error("`{kind}` is no event about a file")]
    WrongTrigger {
        /// The type of the event.
        kind: TypeRef,
    },
    /// The content of the document was not handed in.
    #[error("the content of the document is missing")]
    Missing,
    /// The content is not the one the trigger names.
    #[error("the content of the document is not the version that the event names")]
    OtherVersion,
    /// The document is too large.
    #[error("the document has {bytes} bytes, more than the {max} that are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The document is not text in UTF-8.
    #[error("the document is not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// The first byte that is wrong.
        offset: usize,
    },
    /// Lists and quotes nest too deep.
    #[error("blocks nest deeper than {max} at line {line}")]
    TooDeep {
        /// The line.
        line: u32,
        /// The limit.
        max: usize,
    },
    /// An output broke its bound, which the bounds of its parts should prevent.
    #[error("the output has {bytes} bytes, more than the {max} that are kept")]
    OutputTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl TransformError {
    /// Returns the stable code that a failed run records.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "transform-unknown",
            Self::WrongTrigger { .. } => "transform-wrong-trigger",
            Self::Missing => "document-missing",
            Self::OtherVersion => "document-other-version",
            Self::TooLarge { .. } => "document-too-large",
            Self::NotUtf8 { .. } => "document-not-utf8",
            Self::TooDeep { .. } => "document-too-deep",
            Self::OutputTooLarge { .. } => "output-too-large",
        }
    }
}

/// Is what an output says of the document it was derived from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    document_id: DocumentId,
    revision: u64,
    path: String,
    sha256: Sha256Hash,
}

/// Says that a document is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Removed {
    /// The document.
    pub document_id: DocumentId,
    /// The revision that records the removal.
    pub revision: u64,
    /// The path it had.
    pub path: String,
}
