//! What is taken of a producer's word: each change is held against the declaration of its source and against what
//! the log knows, and the commit is made here.
//!
//! A producer runs in the service or as a process of its own, which may be anybody's. Both hand changes in here, so
//! that what one of them may say the other may, and nothing else. No I/O: the log's rows come in through [`Rows`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use thoughtstream_domain::commit::{Commit, Document, FileStat, Row};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, SourceId};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::text::is_hostile;

use super::change::{ChangeGroup, ChangeKind, Contents, DocumentChange};
use super::name::{self, content_type};
use super::named::{frontmatter_id, is_name};
use super::producer::{Incident, incident_code};
use super::rules::ScanRules;

/// Documents that exchange their paths come together, and rings of more are nobody's doing.
pub const GROUP_CHANGES_MAX: usize = 1_000;

/// So many file states go into one commit.
pub const STATS_MAX: usize = 256;

/// What an incident says of itself is counts and bounds, in one line.
const DETAIL_BYTES_MAX: usize = 512;

/// Is what a source is declared as.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The source.
    pub source: SourceId,
    /// Which files are documents, and how large they may be.
    pub rules: ScanRules,
    /// The class of its events.
    pub privacy: Privacy,
}

/// Says why something is not taken: the declaration of the source does not allow it, whatever the log knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unfit {
    /// It is about another source.
    #[error("it is about another source")]
    OtherSource,
    /// It has another privacy class than the source.
    #[error("it has another privacy class than the source")]
    OtherPrivacy,
    /// Its type is none that this source's producer writes.
    #[error("its type is none that the producer of this source writes")]
    OtherType,
    /// It holds no change, or more than one commit may.
    #[error("it holds no change, or more than {GROUP_CHANGES_MAX}")]
    Count,
    /// A path is none of this source's: not below the root, left out by its rules, or not to be shown.
    #[error("a path is none that the rules of the source take")]
    Path,
    /// Another document lies at the path.
    #[error("another document lies at the path")]
    PathTaken,
    /// A new document's id is not the one that follows from its path or its name.
    #[error("a document's id does not follow from where it was first seen")]
    DocumentId,
    /// A document's row does not follow from the one before it.
    #[error("a document's row does not follow from the one before it")]
    DocumentRow,
    /// The content is not what the row says, or is not there.
    #[error("the content is not what its hash and size say")]
    Content,
    /// A file is larger than the source's files may be.
    #[error("a file is larger than the files of the source may be")]
    TooLarge,
    /// The source would have more documents than its folder may have files.
    #[error(
        "the source would have more documents than the files of its folder, and as many whose removal waits"
    )]
    TooMany,
    /// It is no incident of a folder.
    #[error("it is no incident that a folder can have")]
    Incident,
}

impl Unfit {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::OtherSource => "producer.other-source",
            Self::OtherPrivacy => "producer.other-privacy",
            Self::OtherType => "producer.other-type",
            Self::Count => "producer.count",
            Self::Path => "producer.path",
            Self::PathTaken => "producer.path-taken",
            Self::DocumentId => "producer.document-id",
            Self::DocumentRow => "producer.document-row",
            Self::Content => "producer.content",
            Self::TooLarge => "producer.too-large",
            Self::TooMany => "producer.too-many",
            Self::Incident => "producer.incident",
        }
    }
}

/// Says why a change is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTaken<E> {
    /// The declaration of the source does not allow it.
    Unfit(Unfit),
    /// The log knows a document otherwise than the producer: it has to start from the log again.
    Overtaken,
    /// What the log knows could not be read.
    Unreadable(E),
}

impl<E> From<Unfit> for NotTaken<E> {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

/// Reads what the log knows of one source's documents.
pub trait Rows {
    /// Why they cannot be read.
    type Error;

    /// Returns a document, removed ones included.
    ///
    /// # Errors
    /// The log cannot be read.
    fn document(&self, id: &DocumentId) -> Result<Option<Document>, Self::Error>;

    /// Returns the live document at a path.
    ///
    /// # Errors
    /// The log cannot be read.
    fn document_at(&self, path: &str) -> Result<Option<Document>, Self::Error>;

    /// Holds a document's row against the event that recorded its state: what follows from the row is told to
    /// everybody, and the row itself proves nothing.
    ///
    /// # Errors
    /// The log cannot be read, or the row says something else.
    fn confirm(&self, document: &Document) -> Result<(), Self::Error>;
}

/// Is one change as another process claims it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The type of the event, `name@version`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The document before, as the producer knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Document>,
    /// The document after.
    pub after: Document,
}

/// Is a candidate for one commit, as another process hands it over; the content follows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The source it speaks for.
    pub source: SourceId,
    /// The class of its events.
    pub privacy: Privacy,
    /// The changes, in order.
    pub changes: Vec<Claim>,
}

impl Offer {
    /// Writes a group down for another process.
    #[must_use]
    pub fn of(declared: &Declared, group: &ChangeGroup) -> Self {
        let claim = |change: &DocumentChange| Claim {
            kind: change.kind.event_type().to_string(),
            before: change.before.clone(),
            after: change.after.clone(),
        };
        Self {
            source: declared.source.clone(),
            privacy: declared.privacy,
            changes: group.changes().iter().map(claim).collect(),
        }
    }

    /// Reads the group that is claimed; what it says of documents is believed by [`Declared::admit`] alone.
    ///
    /// # Errors
    /// [`Unfit`] if it speaks for another source or class, or of a type that is none of its own.
    pub fn read(self, declared: &Declared) -> Result<ChangeGroup, Unfit> {
        if self.source != declared.source {
            return Err(Unfit::OtherSource);
        }
        if self.privacy != declared.privacy {
            return Err(Unfit::OtherPrivacy);
        }
        let change = |Claim { kind, before, after }| {
            let kind = ChangeKind::of_type(&kind).ok_or(Unfit::OtherType)?;
            Ok(DocumentChange { kind, before, after })
        };
        let changes = self.changes.into_iter().map(change).collect::<Result<Vec<_>, Unfit>>()?;
        let group = ChangeGroup::new(changes);
        declared.brings_at_most(&group)?;
        Ok(group)
    }
}

impl Declared {
    /// Makes the commit of a group, or says why it is not taken.
    ///
    /// One that is in the log already passes: the log answers that it is.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn admit<R: Rows>(
        &self,
        group: &ChangeGroup,
        contents: &Contents,
        rows: &R,
    ) -> Result<Commit, NotTaken<R::Error>> {
        let changes = group.changes();
        if changes.is_empty() || changes.len() > GROUP_CHANGES_MAX {
            return Err(Unfit::Count.into());
        }
        let (mut ids, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for change in changes {
            self.check(change)?;
            if change.brings_content() {
                content(change, contents)?;
            }
            if !ids.insert(&change.after.id) {
                return Err(Unfit::DocumentRow.into());
            }
            if !change.after.removed && !paths.insert(change.after.path.as_str()) {
                return Err(Unfit::PathTaken.into());
            }
        }
        for change in changes {
            let stands = rows.document(&change.after.id).map_err(NotTaken::Unreadable)?;
            if stands.as_ref().is_some_and(|stands| same(stands, &change.after)) {
                continue; // it was handed in before, and its answer was lost
            }
            match (&change.before, &stands) {
                (Some(before), Some(stands)) if before.revision == stands.revision => {
                    if !same(before, stands) {
                        return Err(Unfit::DocumentRow.into());
                    }
                    rows.confirm(stands).map_err(NotTaken::Unreadable)?;
                }
                (None, None) => self.check_new_id(&change.after, rows)?,
                (None | Some(_), _) => return Err(NotTaken::Overtaken),
            }
            self.check_place(change, changes, rows)?;
        }
        Ok(group.commit(self.privacy, contents))
    }

    /// Returns how many live documents the source may have: as many as its folder may have files, and once more as
    /// many that are missing there and not believed to be gone yet.
    #[must_use]
    pub fn live_max(&self) -> u64 {
        u64::try_from(self.rules.bounds.files_max).unwrap_or(u64::MAX).saturating_mul(2)
    }

    /// Returns how many live documents the source has after a group, of which it has `live` before it. What is in the
    /// log already counts once, and a group that makes them fewer passes whatever there is.
    ///
    /// # Errors
    /// [`NotTaken`]: [`Unfit::TooMany`] beyond [`Self::live_max`], or the log cannot be read.
    pub fn count<R: Rows>(
        &self,
        group: &ChangeGroup,
        rows: &R,
        live: u64,
    ) -> Result<u64, NotTaken<R::Error>> {
        let (mut more, mut fewer) = (0_u64, 0_u64);
        for change in group.changes() {
            let stands = rows.document(&change.after.id).map_err(NotTaken::Unreadable)?;
            match (stands.is_some_and(|stands| !stands.removed), change.after.removed) {
                (false, false) => more += 1,
                (true, true) => fewer += 1,
                (true, false) | (false, true) => {}
            }
        }
        let after = live.saturating_add(more).saturating_sub(fewer);
        if more > fewer && after > self.live_max() { Err(Unfit::TooMany.into()) } else { Ok(after) }
    }

    /// Makes the commit that keeps what files looked like.
    ///
    /// # Errors
    /// [`Unfit::Count`] for none or too many.
    pub fn admit_stats(&self, stats: &[(DocumentId, FileStat)]) -> Result<Commit, Unfit> {
        if stats.is_empty() || stats.len() > STATS_MAX {
            return Err(Unfit::Count);
        }
        let rows = stats.iter().map(|(document, stat)| Row::DocumentStat {
            source: self.source.clone(),
            document: document.clone(),
            stat: *stat,
        });
        Ok(Commit { rows: rows.collect(), ..Commit::default() })
    }

    /// Reads an incident that another process reports.
    ///
    /// # Errors
    /// [`Unfit::Incident`] if a folder has none of this code, or it says more than one plain line.
    pub fn incident(&self, code: &str, detail: String, over: bool) -> Result<Incident, Unfit> {
        let plain = detail.len() <= DETAIL_BYTES_MAX && !detail.chars().any(is_hostile);
        let code = incident_code(code).filter(|_| plain).ok_or(Unfit::Incident)?;
        Ok(Incident { code, detail, over })
    }

    /// Refuses content that is larger than the files of this source may be, before any of it is read.
    fn brings_at_most(&self, group: &ChangeGroup) -> Result<(), Unfit> {
        let most = self.rules.bounds.file_bytes_max;
        let fits = group.brought().iter().all(|(_, bytes)| *bytes <= most);
        if fits { Ok(()) } else { Err(Unfit::TooLarge) }
    }

    /// Looks whether a change is one that this source can have, by itself.
    fn check(&self, change: &DocumentChange) -> Result<(), Unfit> {
        let DocumentChange { kind, before, after } = change;
        if after.source != self.source || before.as_ref().is_some_and(|before| before.source != self.source) {
            return Err(Unfit::OtherSource);
        }
        if before.as_ref().is_some_and(|before| before.id != after.id) {
            return Err(Unfit::DocumentId);
        }
        let revision = before.as_ref().map_or(0, |before| before.revision);
        if revision.checked_add(1) != Some(after.revision) {
            return Err(Unfit::DocumentRow);
        }
        let follows = match (kind, before) {
            (ChangeKind::Added, None) => true,
            (ChangeKind::Added, Some(before)) => before.removed,
            (ChangeKind::Changed, Some(before)) => {
                !before.removed && before.path == after.path && before.sha256 != after.sha256
            }
            (ChangeKind::Renamed, Some(before)) => !before.removed && before.path != after.path,
            (ChangeKind::Removed, Some(before)) => {
                let gone = Document { revision: after.revision, removed: true, stat: None, ..before.clone() };
                !before.removed && *after == gone
            }
            (ChangeKind::Changed | ChangeKind::Renamed | ChangeKind::Removed, None) => false,
        };
        if !follows {
            return Err(Unfit::DocumentRow);
        }
        if *kind == ChangeKind::Removed {
            return Ok(());
        }
        if !self.takes(&after.path) {
            return Err(Unfit::Path);
        }
        if after.bytes > self.rules.bounds.file_bytes_max {
            return Err(Unfit::TooLarge);
        }
        let kept =
            before.as_ref().is_none_or(|before| change.brings_content() || before.bytes == after.bytes);
        let sound = !after.removed
            && kept
            && after.stat.is_some_and(|stat| stat.size == after.bytes)
            && after.content_type == content_type(&after.path)
            && after.named.as_deref().is_none_or(is_name);
        if sound { Ok(()) } else { Err(Unfit::DocumentRow) }
    }

    /// Says whether the rules take a file at this path, the directories above it included.
    fn takes(&self, path: &str) -> bool {
        let bounds = &self.rules.bounds;
        let parts: Vec<&str> = path.split('/').collect();
        let plain = |part: &&str| {
            !part.is_empty() && *part != "." && *part != ".." && name::take(part.as_bytes()).is_ok()
        };
        let entered = |(at, _)| self.rules.selection.enters(&path[..at]);
        path.len() <= bounds.path_bytes_max
            && parts.len() <= bounds.depth_max + 1
            && parts.iter().all(plain)
            && path.match_indices('/').all(entered)
            && self.rules.selection.takes_file(path)
    }

    /// Looks whether a new document has the id that follows from its name, or from where it was first seen: the
    /// first of that path's that no document has.
    fn check_new_id<R: Rows>(&self, after: &Document, rows: &R) -> Result<(), NotTaken<R::Error>> {
        let named = after.named.as_deref().map(|name| DocumentId::named(&self.source, name));
        if named.as_ref() == Some(&after.id) {
            return Ok(());
        }
        for earlier in 0.. {
            let id = DocumentId::at_first_sight(&self.source, &after.path, earlier);
            if id == after.id {
                return Ok(());
            }
            if rows.document(&id).map_err(NotTaken::Unreadable)?.is_none() {
                break;
            }
        }
        Err(Unfit::DocumentId.into())
    }

    /// Looks whether the path is free, or made free by another change of the group.
    fn check_place<R: Rows>(
        &self,
        change: &DocumentChange,
        group: &[DocumentChange],
        rows: &R,
    ) -> Result<(), NotTaken<R::Error>> {
        if change.after.removed {
            return Ok(());
        }
        let there = rows.document_at(&change.after.path).map_err(NotTaken::Unreadable)?;
        let Some(there) = there.filter(|there| there.id != change.after.id) else { return Ok(()) };
        // No two of a group end at one path, so whoever of them is there now leaves.
        let leaves = group.iter().any(|other| other.after.id == there.id);
        if leaves { Ok(()) } else { Err(Unfit::PathTaken.into()) }
    }
}

/// Says whether two rows are of one state of a document; how its file looked is none of it.
fn same(one: &Document, other: &Document) -> bool {
    let without = |document: &Document| Document { stat: None, ..document.clone() };
    without(one) == without(other)
}

/// Looks whether the content that a change brings is there, is what the row says of it, and names what it says.
fn content(change: &DocumentChange, contents: &Contents) -> Result<(), Unfit> {
    let Document { path, sha256, bytes, named, .. } = &change.after;
    let found = contents.get(sha256).map(|content| content.reveal()).ok_or(Unfit::Content)?;
    if found.len() as u64 != *bytes || Sha256Hash::of(found) != *sha256 {
        return Err(Unfit::Content);
    }
    match named {
        Some(name) if frontmatter_id(path, found).as_ref() != Some(name) => Err(Unfit::DocumentRow),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
