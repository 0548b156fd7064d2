//! Changes to documents, and the commits that record them.

use std::collections::BTreeMap;
use std::sync::Arc;

use thoughtstream_domain::commit::{Commit, Document, FileStat, Precondition, Row};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Envelope, Event, Payload};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, EventId, IdempotencyKey, TypeName, TypeRef};
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::file::{FileAdded, FileChanged, FileRemoved, FileRenamed};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;

use super::read::{LoadError, load};
use super::root::Root;

/// Names who observes files, in every event of this channel.
pub const PRODUCER: &str = "filesystem";

/// What happened to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is no longer there.
    Removed,
    /// It has another path; its content may have changed with it.
    Renamed,
    /// It was seen for the first time, or again after it was removed.
    Added,
    /// Its content is another one.
    Changed,
}

impl ChangeKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Added, Self::Changed, Self::Renamed, Self::Removed];

    /// Returns the type of the event that records it.
    #[must_use]
    pub fn event_type(self) -> TypeRef {
        match self {
            Self::Removed => FileRemoved::kind(),
            Self::Renamed => FileRenamed::kind(),
            Self::Added => FileAdded::kind(),
            Self::Changed => FileChanged::kind(),
        }
    }

    /// Finds the kind that events of a type, `name@version`, record.
    #[must_use]
    pub fn of_type(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.event_type().to_string() == text)
    }
}

/// One change to one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The document before; absent if it was never seen.
    pub before: Option<Document>,
    /// The document after. A removed one keeps its last path and content.
    pub after: Document,
}

impl DocumentChange {
    /// Returns whether the change brings content that has to be stored with it.
    #[must_use]
    pub fn brings_content(&self) -> bool {
        match self.kind {
            ChangeKind::Removed => false,
            ChangeKind::Added | ChangeKind::Changed | ChangeKind::Renamed => {
                self.before.as_ref().is_none_or(|before| before.sha256 != self.after.sha256)
            }
        }
    }

    fn candidate(&self, privacy: Privacy) -> Candidate {
        let Document { source, id, revision, path, sha256, bytes, content_type, stat, .. } =
            self.after.clone();
        let key = key(&id, revision);
        let mut envelope = Envelope::new(source, key, privacy, Actor::ours(ActorKind::Producer, PRODUCER));
        if self.brings_content() {
            envelope.occurred_at = stat.as_ref().map(modified_at);
        }
        let previous_sha256 = self.before.as_ref().map_or(sha256, |before| before.sha256);
        let previous_path = self.before.as_ref().map_or_else(|| path.clone(), |before| before.path.clone());
        match self.kind {
            ChangeKind::Added => {
                FileAdded { document_id: id, revision, path, bytes, sha256, content_type }.candidate(envelope)
            }
            ChangeKind::Changed => {
                FileChanged { document_id: id, revision, path, bytes, sha256, content_type, previous_sha256 }
                    .candidate(envelope)
            }
            ChangeKind::Renamed => FileRenamed {
                document_id: id,
                revision,
                path,
                bytes,
                sha256,
                content_type,
                previous_path,
                previous_sha256,
            }
            .candidate(envelope),
            ChangeKind::Removed => {
                FileRemoved { document_id: id, revision, path, previous_sha256 }.candidate(envelope)
            }
        }
    }
}

/// Names the observation of a document's revision.
fn key(id: &DocumentId, revision: u64) -> IdempotencyKey {
    IdempotencyKey::parse(&format!("{id}@{revision}"))
        .expect("a document id and a number are short printable ASCII")
}

/// Returns under which type and key an event may have recorded a document's current revision, one for each kind of
/// change; it stands under one of them.
pub fn recorded_under(document: &Document) -> impl Iterator<Item = (TypeName, IdempotencyKey)> {
    let key = key(&document.id, document.revision);
    ChangeKind::ALL.into_iter().map(move |kind| (kind.event_type().name, key.clone()))
}

/// Says whether an event that stands there recorded the very state that a row has. Of one that was erased nobody knows
/// more than that it was there.
#[must_use]
pub fn records(event: &Event, document: &Document) -> bool {
    if event.payload == Payload::Redacted {
        return true;
    }
    let Document { id, revision, path, sha256, bytes, content_type, removed, .. } = document;
    macro_rules! says {
        ($payload:ident) => {
            event.payload_as::<$payload>().is_ok_and(|said| {
                !removed
                    && (&said.document_id, &said.revision, &said.path) == (id, revision, path)
                    && (&said.sha256, &said.bytes, &said.content_type) == (sha256, bytes, content_type)
            })
        };
    }
    let is_gone = event.payload_as::<FileRemoved>().is_ok_and(|said| {
        *removed
            && (&said.document_id, &said.revision, &said.path) == (id, revision, path)
            && said.previous_sha256 == *sha256
    });
    is_gone || says!(FileAdded) || says!(FileChanged) || says!(FileRenamed)
}

/// Returns the ids that the event of a document's current revision may have, one for each kind of change; one
/// of them is in the log.
#[must_use]
pub fn event_ids(document: &Document) -> [EventId; 4] {
    let key = key(&document.id, document.revision);
    ChangeKind::ALL.map(|kind| EventId::derive(&document.source, &kind.event_type().name, &key))
}

/// The content of changed documents, by its hash.
pub type Contents = BTreeMap<Sha256Hash, Content<Arc<[u8]>>>;

/// Changes that are one commit.
///
/// Nearly always one change. Documents that exchanged their paths in a ring come together, so that no path
/// ever has two documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeGroup(Vec<DocumentChange>);

impl ChangeGroup {
    pub(crate) fn new(changes: Vec<DocumentChange>) -> Self {
        Self(changes)
    }

    /// Makes a group of one change.
    #[must_use]
    pub fn one(change: DocumentChange) -> Self {
        Self(vec![change])
    }

    /// Returns the content that the changes bring, each once, with its size in bytes, in order.
    #[must_use]
    pub fn brought(&self) -> Vec<(Sha256Hash, u64)> {
        let mut brought: Vec<(Sha256Hash, u64)> = Vec::new();
        for change in self.0.iter().filter(|change| change.brings_content()) {
            let Document { sha256, bytes, .. } = change.after;
            if brought.iter().all(|(other, _)| *other != sha256) {
                brought.push((sha256, bytes));
            }
        }
        brought
    }

    /// Returns the changes, in order.
    #[must_use]
    pub fn changes(&self) -> &[DocumentChange] {
        &self.0
    }

    /// Makes the commit that records the changes: their events, the documents' rows, the content they bring.
    ///
    /// It is refused unless each document still stands where its change found it, and each event is named by
    /// document and revision: so the same change twice is one event.
    ///
    /// `content` gives what [`super::load`] read for each change that [brings
    /// content](DocumentChange::brings_content).
    #[must_use]
    pub fn commit(&self, privacy: Privacy, content: &Contents) -> Commit {
        let mut commit = Commit::default();
        for change in &self.0 {
            let Document { source, id, sha256, .. } = &change.after;
            commit.preconditions.push(Precondition::DocumentIs {
                source: source.clone(),
                document: id.clone(),
                revision: change.before.as_ref().map(|before| before.revision),
            });
            commit.appends.push(change.candidate(privacy));
            if let Some(bytes) = content.get(sha256).filter(|_| change.brings_content()) {
                commit.rows.push(Row::Blob { sha256: *sha256, bytes: bytes.clone() });
            }
            commit.rows.push(Row::Document(change.after.clone()));
        }
        commit
    }

    /// Reads the content that the changes bring, for [`Self::commit`].
    ///
    /// Blocks on the disk: call it where blocking is allowed.
    ///
    /// # Errors
    ///
    /// As [`super::load`]; then this group and all after it are left for the next scan.
    pub fn load(&self, root: &Root) -> Result<Contents, LoadError> {
        let mut content = Contents::new();
        for change in self.0.iter().filter(|change| change.brings_content()) {
            let Document { path, sha256, bytes, .. } = &change.after;
            if !content.contains_key(sha256) {
                content.insert(*sha256, load(root, path, sha256, *bytes)?);
            }
        }
        Ok(content)
    }
}

/// Returns when the content was last changed, as the filesystem says.
fn modified_at(stat: &FileStat) -> Timestamp {
    Timestamp::from_millis(stat.modified_ns.div_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use thoughtstream_domain::commit::Placed;
    use thoughtstream_domain::hash::ChainHash;
    use thoughtstream_domain::id::{DocumentId, SourceId};

    use super::*;

    fn document(revision: u64, path: &str, content: &str) -> Document {
        let source = SourceId::parse("filesystem:notes").unwrap();
        Document {
            id: DocumentId::at_first_sight(&source, "a.md", 0),
            source,
            revision,
            path: path.to_owned(),
            sha256: Sha256Hash::of(content.as_bytes()),
            bytes: content.len() as u64,
            content_type: "text/markdown".to_owned(),
            named: None,
            removed: false,
            stat: Some(FileStat {
                device: 1,
                inode: 2,
                size: content.len() as u64,
                modified_ns: 1_700_000_000_123_456_789,
                changed_ns: 0,
                read_ns: 0,
            }),
        }
    }

    fn commit(change: &DocumentChange) -> Commit {
        let content = [(Sha256Hash::of(b"one"), Content::new(b"one".as_slice().into()))].into();
        ChangeGroup::new(vec![change.clone()]).commit(Privacy::Private, &content)
    }

    fn kind(commit: &Commit) -> String {
        commit.appends[0].kind().to_string()
    }

    #[test]
    fn a_commit_carries_the_event_the_row_and_the_content_it_brings() {
        let change =
            DocumentChange { kind: ChangeKind::Added, before: None, after: document(1, "a.md", "one") };
        assert!(change.brings_content());
        let commit = self::commit(&change);
        assert_eq!(kind(&commit), "stream.thought.source.file.added@1");
        let envelope = commit.appends[0].envelope();
        assert_eq!(envelope.key.as_str(), format!("{}@1", change.after.id));
        assert_eq!(envelope.occurred_at, Some(Timestamp::from_millis(1_700_000_000_123)));
        assert!(matches!(&commit.rows[..], [Row::Blob { .. }, Row::Document(row)] if *row == change.after));
        assert!(matches!(commit.preconditions[..], [Precondition::DocumentIs { revision: None, .. }]));
        assert_eq!(commit, self::commit(&change));
    }

    #[test]
    fn an_event_tells_the_row_that_it_recorded_from_any_other() {
        let before = document(3, "a.md", "one");
        let removed = Document { removed: true, revision: 4, ..before.clone() };
        let changes = [
            DocumentChange { kind: ChangeKind::Added, before: None, after: document(1, "a.md", "one") },
            DocumentChange {
                kind: ChangeKind::Changed,
                before: Some(document(3, "a.md", "two")),
                after: document(4, "a.md", "one"),
            },
            DocumentChange {
                kind: ChangeKind::Renamed,
                before: Some(before.clone()),
                after: document(4, "b.md", "one"),
            },
            DocumentChange { kind: ChangeKind::Removed, before: Some(before), after: removed },
        ];
        for change in changes {
            let candidate = commit(&change).appends.remove(0);
            let placed = Placed {
                id: candidate.id(),
                position: 1,
                sequence: 1,
                recorded_at: Timestamp::default(),
                root: candidate.id(),
                depth: 0,
                chain: ChainHash::START,
            };
            let mut event = Event::recorded(&candidate, &placed);
            let row = &change.after;
            let under: Vec<_> = recorded_under(row).collect();
            assert!(under.contains(&(event.kind.name.clone(), event.key.clone())), "{:?}", change.kind);
            assert!(records(&event, row), "{:?}", change.kind);
            // How the file looked when it was read is none of it.
            assert!(records(&event, &Document { stat: None, ..row.clone() }));
            let others = [
                Document { id: DocumentId::at_first_sight(&row.source, "b.md", 0), ..row.clone() },
                Document { revision: row.revision + 1, ..row.clone() },
                Document { path: "c.md".to_owned(), ..row.clone() },
                Document { sha256: Sha256Hash::of(b"other"), ..row.clone() },
                Document { removed: !row.removed, ..row.clone() },
            ];
            others.iter().for_each(|other| assert!(!records(&event, other), "{:?}: {other:?}", change.kind));
            let size = Document { bytes: row.bytes + 1, ..row.clone() };
            let media = Document { content_type: "text/plain".to_owned(), ..row.clone() };
            for other in [size, media] {
                assert_eq!(records(&event, &other), row.removed, "a removal says neither size nor type");
            }
            event.payload = Payload::Redacted;
            assert!(records(&event, row), "what was erased contradicts nothing");
        }
    }

    #[test]
    fn a_plain_rename_and_a_removal_bring_nothing() {
        let before = document(3, "a.md", "one");
        let renamed = DocumentChange {
            kind: ChangeKind::Renamed,
            before: Some(before.clone()),
            after: document(4, "b.md", "one"),
        };
        assert!(!renamed.brings_content());
        let commit = self::commit(&renamed);
        assert_eq!(kind(&commit), "stream.thought.source.file.renamed@1");
        let payload = String::from_utf8(commit.appends[0].payload().reveal().to_vec()).unwrap();
        assert!(payload.contains(r#""previousPath":"a.md""#), "{payload}");
        assert!(matches!(commit.preconditions[..], [Precondition::DocumentIs { revision: Some(3), .. }]));
        assert_eq!(commit.appends[0].envelope().occurred_at, None);

        let after = Document { removed: true, revision: 4, ..before.clone() };
        let removed = DocumentChange { kind: ChangeKind::Removed, before: Some(before), after };
        let commit = self::commit(&removed);
        assert_eq!(kind(&commit), "stream.thought.source.file.removed@1");
        assert!(matches!(&commit.rows[..], [Row::Document(row)] if row.removed));
    }
}
