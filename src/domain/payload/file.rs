//! What the filesystem producer observes.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::hash::Sha256Hash;
use crate::id::DocumentId;
use crate::registry::Writer;

macro_rules! file_payload {
    ($(#[$doc:meta])* $name:ident, $type:literal, $promoted:expr, { $($(#[$field_doc:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// The document, stable across changes and renames.
            pub document_id: DocumentId,
            /// The version's number within the document, from 1.
            pub revision: u64,
            /// The path below the root, with `/`, normalised.
            #[schemars(length(min = 1, max = 4096))]
            pub path: String,
            /// The content's size in bytes.
            pub bytes: u64,
            /// The content's hash; the blob is stored under it.
            pub sha256: Sha256Hash,
            /// The content's media type, by its name's ending.
            #[schemars(length(max = 128))]
            pub content_type: String,
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl TypedPayload for $name {
            const NAME: &'static str = $type;
            const VERSION: u32 = 1;
            const WRITER: Writer = Writer::Producer;
            const PROMOTED: &'static [&'static str] = $promoted;
        }
    };
}

/// The fields every file event promotes.
const PROMOTED: &[&str] = &["documentId", "path", "bytes", "contentType", "sha256", "revision"];
/// The fields a rename promotes.
const PROMOTED_RENAMED: &[&str] =
    &["documentId", "path", "bytes", "contentType", "sha256", "revision", "previousPath"];
/// The fields a removal promotes.
const PROMOTED_REMOVED: &[&str] = &["documentId", "path", "revision"];

file_payload!(
    /// Says that a document was seen for the first time, or again after it was removed.
    FileAdded, "stream.thought.source.file.added", PROMOTED, {}
);
file_payload!(
    /// Says that a document's content is another one.
    FileChanged, "stream.thought.source.file.changed", PROMOTED, {
        /// The hash of the content before.
        previous_sha256: Sha256Hash,
    }
);
file_payload!(
    /// Says that a document has another path; its content may have changed with it.
    FileRenamed, "stream.thought.source.file.renamed", PROMOTED_RENAMED, {
        /// The path before.
        previous_path: String,
        /// The hash of the content before; equal to `sha256` for a plain rename.
        previous_sha256: Sha256Hash,
    }
);

/// Says that a document is no longer there; its versions stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileRemoved {
    /// The document.
    pub document_id: DocumentId,
    /// The revision that records the removal.
    pub revision: u64,
    /// The path it had.
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// The hash of its last content.
    pub previous_sha256: Sha256Hash,
}

impl TypedPayload for FileRemoved {
    const NAME: &'static str = "stream.thought.source.file.removed";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Producer;
    const PROMOTED: &'static [&'static str] = PROMOTED_REMOVED;
}
