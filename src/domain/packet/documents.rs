//! Subscribed documents: an operator's own words, named exactly, shown whole or not at all.
//!
//! Each is resolved to the version its source has now, and everything that names that version is held against
//! everything else: source, identity, path, media type, size and hash. What does not agree is damage and closes the
//! run, whether the document is required or not. Nothing here is ever cut.

use crate::commit::Document;
use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::id::{DocumentId, SourceId};
use crate::privacy::Privacy;
use crate::text::characters;

use super::DocumentReference;
use super::manifest::{Manifest, Part, Rule};

/// The most documents of one declaration: each is read for every run.
pub const DOCUMENTS_MAX: usize = 32;

/// Names documents of one source, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    source: SourceId,
    paths: Vec<String>,
    required: bool,
}

/// Says what is wrong with a subscription.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    /// The source is no folder.
    #[error("documents come from one folder, like filesystem:notes")]
    Source,
    /// A path is not plain and relative.
    #[error("path {0} is not normalized: words between `/`, no `.`, `..`, `\\` or wildcard")]
    Path(usize),
    /// A path stands twice.
    #[error("path {0} stands twice")]
    Twice(usize),
    /// There is no path, or there are too many.
    #[error("1 to {DOCUMENTS_MAX} paths are named")]
    Count,
}

impl Subscription {
    /// Names documents.
    ///
    /// # Errors
    /// [`SubscriptionError`] with the place of the first path that is wrong, from 0.
    pub fn new(source: SourceId, paths: Vec<String>, required: bool) -> Result<Self, SubscriptionError> {
        if source.kind() != "filesystem" {
            return Err(SubscriptionError::Source);
        }
        if paths.is_empty() || paths.len() > DOCUMENTS_MAX {
            return Err(SubscriptionError::Count);
        }
        for (index, path) in paths.iter().enumerate() {
            if !is_normalized(path) {
                return Err(SubscriptionError::Path(index));
            }
            if paths[..index].contains(path) {
                return Err(SubscriptionError::Twice(index));
            }
        }
        Ok(Self { source, paths, required })
    }

    /// Returns the source.
    #[must_use]
    pub const fn source(&self) -> &SourceId {
        &self.source
    }

    /// Returns the paths, in order.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Says whether a run needs all of them.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        self.required
    }
}

/// Says whether a path is plain, relative and names one document: no pattern, no parent, nothing empty.
#[must_use]
pub fn is_normalized(path: &str) -> bool {
    path.len() <= 4096
        && path.split('/').all(|word| !matches!(word, "" | "." | ".."))
        && !path
            .chars()
            .any(|c| matches!(c, '\\' | '*' | '?' | '[' | ']' | '{' | '}') || crate::text::is_hostile(c))
}

/// Looks documents up, as they are now and as they were.
pub trait Library {
    /// Says why the log could not be read.
    type Error;

    /// Returns the document that has this path now.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn current(&mut self, source: &SourceId, path: &str) -> Result<Option<Document>, Self::Error>;

    /// Returns a document as it was at a revision.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn version(
        &mut self,
        source: &SourceId,
        id: &DocumentId,
        revision: u64,
    ) -> Result<Option<Document>, Self::Error>;

    /// Returns content by its hash.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn content(&mut self, sha256: &Sha256Hash) -> Result<Option<Content<Vec<u8>>>, Self::Error>;

    /// Returns the class of what a source holds.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn privacy(&mut self, source: &SourceId) -> Result<Privacy, Self::Error>;
}

/// Says why subscribed documents cannot be shown; the run is closed before anything is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// A required document is not there now.
    #[error("document {index} of {source_id} is not there")]
    Missing {
        /// The source.
        source_id: SourceId,
        /// Which one of its subscription, from 0.
        index: usize,
    },
    /// What names a version does not agree with itself or with its content.
    #[error("the {what} of document {index} of {source_id} does not agree with its version")]
    Disagrees {
        /// The source.
        source_id: SourceId,
        /// Which one, from 0.
        index: usize,
        /// What does not agree.
        what: Evidence,
    },
    /// A required document is not text.
    #[error("document {index} of {source_id} is not text")]
    NotText {
        /// The source.
        source_id: SourceId,
        /// Which one, from 0.
        index: usize,
    },
    /// Required documents are longer than their ceiling.
    #[error("the documents have {chars} characters, {chars_max} are allowed")]
    Ceiling {
        /// How many there are with this one.
        chars: u64,
        /// How many there may be.
        chars_max: u64,
    },
}

/// Names a piece of evidence about a document version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The source.
    Source,
    /// The stable identity.
    Identity,
    /// The path.
    Path,
    /// The media type.
    ContentType,
    /// The size.
    Bytes,
    /// The hash.
    Sha256,
    /// The version or its content, which is not there.
    Version,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Identity => "identity",
            Self::Path => "path",
            Self::ContentType => "media type",
            Self::Bytes => "size",
            Self::Sha256 => "hash",
            Self::Version => "version",
        })
    }
}

impl DocumentFault {
    /// Returns the code that closes a run over it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "document-missing",
            Self::Disagrees { .. } => "document-disagrees",
            Self::NotText { .. } => "document-not-text",
            Self::Ceiling { .. } => "document-ceiling",
        }
    }
}

/// Says why subscribed documents could not be resolved.
#[derive(Debug)]
pub enum ResolveError<E> {
    /// The log could not be read.
    Library(E),
    /// They cannot be shown.
    Fault(DocumentFault),
}

/// Is the documents of a run: exact versions with their text, and what was left out. Made only by [`resolve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribed {
    shown: Vec<(DocumentReference, Content<String>)>,
    omitted: Vec<(String, Rule)>,
    chars: usize,
    privacy: Privacy,
}

impl Default for Subscribed {
    /// No documents.
    fn default() -> Self {
        Self { shown: Vec::new(), omitted: Vec::new(), chars: 0, privacy: Privacy::PublicSource }
    }
}

impl Subscribed {
    /// Returns how many characters the documents have together.
    #[must_use]
    pub const fn chars(&self) -> usize {
        self.chars
    }

    /// Returns the class of all of them.
    #[must_use]
    pub const fn privacy(&self) -> Privacy {
        self.privacy
    }

    /// Returns the versions, in order.
    #[must_use]
    pub fn references(&self) -> Vec<DocumentReference> {
        self.shown.iter().map(|(reference, _)| reference.clone()).collect()
    }

    /// Returns the blocks of the system message that show them.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let block = |(reference, text): &(DocumentReference, Content<String>)| {
            format!("Document {}:\n\n{}", reference.path, text.reveal())
        };
        self.shown.iter().map(block).collect()
    }

    /// Takes them down.
    pub(crate) fn account(&self, manifest: &mut Manifest) {
        for (reference, text) in &self.shown {
            manifest.include(Part::Document, name(reference), characters(text.reveal()));
        }
        for (path, rule) in &self.omitted {
            manifest.omit(Part::Document, path, *rule);
        }
    }
}

/// Returns the name of a version in a manifest.
pub(crate) fn name(reference: &DocumentReference) -> String {
    format!("{}/{}@{}", reference.source, reference.id, reference.revision)
}

/// Resolves every subscribed document to one verified version, in order, within `chars_max` characters.
///
/// # Errors
/// [`ResolveError`] if the log cannot be read, if a required document cannot be shown whole, or if the evidence
/// about any document does not agree.
pub fn resolve<L: Library>(
    library: &mut L,
    subscriptions: &[Subscription],
    chars_max: usize,
) -> Result<Subscribed, ResolveError<L::Error>> {
    let mut subscribed = Subscribed::default();
    for subscription in subscriptions {
        let source = &subscription.source;
        for (index, path) in subscription.paths.iter().enumerate() {
            let found = look_up(library, source, index, path)?;
            let refuse = |fault| Err(ResolveError::Fault(fault));
            let mut leave_out = |rule, fault| {
                if subscription.required {
                    return refuse(fault);
                }
                subscribed.omitted.push((format!("{source}/{path}"), rule));
                Ok(())
            };
            let source_id = source.clone();
            let Some((document, bytes)) = found else {
                leave_out(Rule::DocumentMissing, DocumentFault::Missing { source_id, index })?;
                continue;
            };
            let Ok(text) = String::from_utf8(bytes.into_inner()) else {
                leave_out(Rule::NotText, DocumentFault::NotText { source_id, index })?;
                continue;
            };
            let chars = subscribed.chars + characters(&text);
            if chars > chars_max {
                let (chars, chars_max) = (chars as u64, chars_max as u64);
                leave_out(Rule::DocumentCeiling, DocumentFault::Ceiling { chars, chars_max })?;
                continue;
            }
            subscribed.chars = chars;
            subscribed.privacy =
                subscribed.privacy.join(library.privacy(source).map_err(ResolveError::Library)?);
            subscribed.shown.push((DocumentReference::of(&document), Content::new(text)));
        }
    }
    Ok(subscribed)
}

/// Is a verified version and its bytes; none if the path names no document now.
type Verified = Option<(Document, Content<Vec<u8>>)>;

fn look_up<L: Library>(
    library: &mut L,
    source: &SourceId,
    index: usize,
    path: &str,
) -> Result<Verified, ResolveError<L::Error>> {
    let current = library.current(source, path).map_err(ResolveError::Library)?;
    let Some(current) = current.filter(|current| !current.removed) else { return Ok(None) };
    let version = library.version(source, &current.id, current.revision).map_err(ResolveError::Library)?;
    let content = library.content(&current.sha256).map_err(ResolveError::Library)?;
    let disagrees =
        |what| ResolveError::Fault(DocumentFault::Disagrees { source_id: source.clone(), index, what });
    let (Some(version), Some(content)) = (version, content) else {
        return Err(disagrees(Evidence::Version));
    };
    let bytes = content.reveal();
    let agree = [
        (current.source == *source && version.source == *source, Evidence::Source),
        (current.id == version.id && current.revision == version.revision, Evidence::Identity),
        (current.path == path && version.path == path, Evidence::Path),
        (current.content_type == version.content_type, Evidence::ContentType),
        (current.bytes == version.bytes && version.bytes == bytes.len() as u64, Evidence::Bytes),
        (current.sha256 == version.sha256 && version.sha256 == Sha256Hash::of(bytes), Evidence::Sha256),
    ];
    if let Some((_, what)) = agree.into_iter().find(|(agrees, _)| !agrees) {
        return Err(disagrees(what));
    }
    Ok(Some((version, content)))
}
