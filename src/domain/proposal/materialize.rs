//! What the materializer may write, and what it finds when it comes back to a file.
//!
//! Before anything is written a commit says what will be replaced by what ([`begin`]). So whoever finds the file later,
//! the one who wrote it or a successor after a power cut, can tell by looking ([`standing`]) whether it was not
//! touched, was written, or was changed by somebody else; and does the same in each case. What is proposed for one
//! version is never written over another.

mod explain;

use crate::commit::{Commit, Document, Precondition};
use crate::content::Content;
use crate::event::{Actor, ActorKind, Envelope, Event, Parent};
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, DocumentId, SourceId, TypeName};
use crate::payload::TypedPayload;
use crate::payload::file::{FileAdded, FileChanged, FileRenamed};
use crate::payload::materialization::{
    self, MaterializationBinding, MaterializationFailed, MaterializationStarted, Materialized,
};
use crate::privacy::Privacy;

use super::call::Operation;
use super::capability::{MEMORY_PATH, MEMORY_SOURCE, MemoryTarget};
use super::memory;
use super::reason::ReasonCode;
use super::text::ProposedText;

pub use explain::{Behind, Unexplained, Written};

/// Who writes the events of a materialization.
const MATERIALIZER: &str = "materializer";

/// Returns the name under which a log that was made from a copy holds back what was decided before the copy was
/// taken: it may have been written since. It is held while the control row of this name says that it is paused.
///
/// # Panics
/// Never: the name is one.
#[must_use]
pub fn held_as() -> ConsumerId {
    ConsumerId::parse(MATERIALIZER).expect("a lower-case word names a consumer")
}

/// Returns the source whose document may be changed.
///
/// # Panics
/// Never: the name is one.
#[must_use]
pub fn documents() -> SourceId {
    SourceId::parse(MEMORY_SOURCE).expect("the memory's source has a valid name")
}

/// Returns the source of the events of all materializations.
#[must_use]
pub fn source() -> SourceId {
    materialization::source(&documents())
}

/// Is what the log knows of a target.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// What lies at its path now.
    pub current: Option<Document>,
    /// Its immutable version.
    pub version: Option<Document>,
    /// The bytes that are stored under the version's hash.
    pub bytes: Option<Content<Vec<u8>>>,
}

impl Recorded {
    /// Returns the bytes that a change of this target is made from, if the target is still what is current.
    ///
    /// # Errors
    /// [`ReasonCode`] if it is another document, another version, or not what was recorded.
    pub fn base(&self, target: &MemoryTarget) -> Result<&[u8], ReasonCode> {
        if target.source.as_str() != MEMORY_SOURCE || target.path != MEMORY_PATH {
            return Err(ReasonCode::OtherTarget);
        }
        let is_target = |document: &Document| {
            let Document { source, id, revision, path, sha256, removed, .. } = document;
            *source == target.source
                && *id == target.document
                && *revision == target.revision
                && *path == target.path
                && *sha256 == target.sha256
                && !removed
        };
        if !self.current.as_ref().is_some_and(is_target) {
            return Err(ReasonCode::StaleBase);
        }
        self.bytes_of(target)
    }

    /// Returns the bytes of the target's version, whatever is current by now.
    ///
    /// # Errors
    /// [`ReasonCode::BaseDamaged`] if they are missing or not what was recorded.
    pub fn bytes_of(&self, target: &MemoryTarget) -> Result<&[u8], ReasonCode> {
        let is_version = |version: &&Document| target_of(version) == *target && !version.removed;
        let whole =
            |bytes: &[u8]| bytes.len() as u64 == target.bytes && Sha256Hash::of(bytes) == target.sha256;
        let version = self.version.as_ref().filter(is_version);
        let bytes = self.bytes.as_ref().map(|bytes| bytes.reveal().as_slice()).filter(|bytes| whole(bytes));
        version.and(bytes).ok_or(ReasonCode::BaseDamaged)
    }
}

/// Names a version of a document as a target.
fn target_of(document: &Document) -> MemoryTarget {
    let Document { source, id, revision, path, sha256, bytes, content_type, .. } = document.clone();
    MemoryTarget { source, document: id, path, revision, sha256, content_type, bytes }
}

/// Is a change that may be written: what is replaced, and by what.
#[derive(Debug, Clone)]
pub struct Planned {
    base: MemoryTarget,
    bytes: Content<Vec<u8>>,
    sha256: Sha256Hash,
}

impl Planned {
    /// Works out what a decided text makes of a base; the file may have at most `bytes_max` bytes then.
    ///
    /// # Errors
    /// [`ReasonCode`] if the base or the result is not what a memory document must be, or the same.
    pub fn of(
        target: &MemoryTarget,
        base: &[u8],
        operation: Operation,
        text: &ProposedText,
        bytes_max: u64,
    ) -> Result<Self, ReasonCode> {
        let changed = memory::change(target, base, operation, text.reveal(), bytes_max)?;
        Ok(Self { base: target.clone(), bytes: changed.bytes, sha256: changed.sha256 })
    }

    /// Returns what will be there.
    #[must_use]
    pub const fn bytes(&self) -> &Content<Vec<u8>> {
        &self.bytes
    }

    /// Returns the hash of what will be there.
    #[must_use]
    pub const fn sha256(&self) -> Sha256Hash {
        self.sha256
    }

    /// Says whether an attempt that was begun is about exactly this.
    #[must_use]
    pub fn is(&self, started: &MaterializationStarted) -> bool {
        started.base == self.base
            && started.result_sha256 == self.sha256
            && started.result_bytes == self.bytes.reveal().len() as u64
    }
}

/// Is how far the materialization of one decided proposal has come, as its events say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Nothing was begun.
    Waiting,
    /// An attempt was begun and has no end.
    Begun(Box<Event>, MaterializationStarted),
    /// It is made.
    Done(Materialized),
    /// It was not made.
    Failed {
        /// Which attempt failed.
        attempt: u32,
        /// Why.
        code: ReasonCode,
    },
}

impl Stage {
    /// Reads the events of one proposal's materialization, oldest first. An event that cannot be read says nothing.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let mut stage = Self::Waiting;
        for event in events {
            if let Ok(started) = event.payload_as::<MaterializationStarted>() {
                stage = Self::Begun(Box::new(event.clone()), started);
            } else if let Ok(done) = event.payload_as::<Materialized>() {
                return Self::Done(done);
            } else if let Ok(failed) = event.payload_as::<MaterializationFailed>() {
                stage = Self::Failed { attempt: failed.binding.attempt, code: failed.code };
            }
        }
        stage
    }
}

/// Is what lies under a name in the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lies {
    /// Nothing.
    Nothing,
    /// A regular file with this content.
    File(Sha256Hash),
    /// Something else, or more than may be read.
    Other,
    /// Something of which nobody can say what it is: the system does not let it be read.
    Unread,
}

/// Is what an attempt finds in the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDisk {
    /// In the document's place.
    pub place: Lies,
    /// Beside it, where the attempt's new file stands before the exchange and what came out stands after it.
    pub beside: Lies,
}

/// Is what follows from what an attempt finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The base is in its place: the new file is to be put beside it, and exchanged for it.
    Untouched,
    /// The result is in its place, and what was there before may go.
    Written,
    /// The result is in the place of something that was not the base: it is to be exchanged back, and both are kept.
    SwapBack,
    /// Somebody else has the place; nothing there is touched.
    Foreign {
        /// Why nothing is written.
        code: ReasonCode,
        /// Whether what stands beside it is a copy of the recorded base, and may go.
        spare: bool,
    },
    /// Nobody can say whether it was written.
    Unknown,
}

/// Says where an attempt stands that was begun with these hashes.
#[must_use]
pub fn standing(started: &MaterializationStarted, disk: OnDisk) -> Standing {
    let (base, result) = (Lies::File(started.base.sha256), Lies::File(started.result_sha256));
    let OnDisk { place, beside } = disk;
    let known = beside == Lies::Nothing || beside == base || beside == result;
    if place == result {
        return if known { Standing::Written } else { Standing::SwapBack };
    }
    if place == base {
        // What came out was put back by hand, or something unknown stands where only ours should: hands off.
        return match beside {
            Lies::Nothing => Standing::Untouched,
            beside if beside == result => Standing::Untouched,
            beside if beside == base => Standing::Foreign { code: ReasonCode::FileChanged, spare: true },
            Lies::File(_) | Lies::Other | Lies::Unread => {
                Standing::Foreign { code: ReasonCode::Swapped, spare: false }
            }
        };
    }
    match (place, known) {
        // What stands beside it tells whether the two were exchanged; where nothing does, nobody can tell.
        (Lies::Unread, _) if matches!(beside, Lies::Nothing | Lies::Unread) => Standing::Unknown,
        (Lies::Unread, true) => Standing::Foreign { code: ReasonCode::FileUnfit, spare: false },
        (_, false) => Standing::Foreign { code: ReasonCode::Swapped, spare: false },
        (Lies::Nothing, true) => Standing::Foreign { code: ReasonCode::FileMissing, spare: beside == base },
        (Lies::File(_) | Lies::Other, true) => {
            Standing::Foreign { code: ReasonCode::FileChanged, spare: beside == base }
        }
    }
}

/// Is what the log holds of the document after its source was looked at.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// What lies at the base's path now.
    pub current: Option<Document>,
    /// The version that it says it is at.
    pub version: Option<Document>,
    /// The bytes that are stored under the result's hash.
    pub bytes: Option<Content<Vec<u8>>>,
    /// The event in which the source told of that version.
    pub event: Option<Event>,
}

/// Checks what came of a written change, and returns the version that it is and the event that tells of it.
///
/// # Errors
/// [`ReasonCode::ScanDiffers`] if what is current is something else, [`ReasonCode::ReceiptFailed`] if it is the result
/// and its version, bytes or event are not what they should be.
pub fn verified<'a>(
    started: &MaterializationStarted,
    seen: &'a Seen,
) -> Result<(MemoryTarget, &'a Event), ReasonCode> {
    let base = &started.base;
    let is_result = |document: &&Document| {
        document.source == base.source
            && document.id == base.document
            && document.path == base.path
            && document.revision > base.revision
            && document.sha256 == started.result_sha256
            && document.bytes == started.result_bytes
            && !document.removed
    };
    let current = seen.current.as_ref().filter(is_result).ok_or(ReasonCode::ScanDiffers)?;
    let failed = ReasonCode::ReceiptFailed;
    let at = |document: &&Document| document.revision == current.revision;
    let version = seen.version.as_ref().filter(is_result).filter(at).ok_or(failed)?;
    let bytes = seen.bytes.as_ref().ok_or(failed)?.reveal();
    if bytes.len() as u64 != started.result_bytes || Sha256Hash::of(bytes) != started.result_sha256 {
        return Err(failed);
    }
    let event = seen.event.as_ref().filter(|event| event.source == base.source).ok_or(failed)?;
    if told(event) != Some((version.id.clone(), version.revision, version.sha256, version.bytes)) {
        return Err(failed);
    }
    Ok((target_of(version), event))
}

/// Returns which version of which document a file event tells of.
fn told(event: &Event) -> Option<(DocumentId, u64, Sha256Hash, u64)> {
    if let Ok(file) = event.payload_as::<FileChanged>() {
        return Some((file.document_id, file.revision, file.sha256, file.bytes));
    }
    if let Ok(file) = event.payload_as::<FileRenamed>() {
        return Some((file.document_id, file.revision, file.sha256, file.bytes));
    }
    let file = event.payload_as::<FileAdded>().ok()?;
    Some((file.document_id, file.revision, file.sha256, file.bytes))
}

fn envelope(binding: &MaterializationBinding, parents: &[&Event]) -> Envelope {
    let privacy = parents.iter().fold(Privacy::Sensitive, |class, parent| class.join(parent.privacy));
    let actor = Actor::ours(ActorKind::System, MATERIALIZER);
    Envelope::new(source(), binding.key(), privacy, actor)
        .with_parents(parents.iter().map(|parent| Parent::of(parent)).collect())
}

fn unused(binding: &MaterializationBinding, types: Vec<TypeName>) -> Precondition {
    Precondition::KeyUnused { source: source(), types, key: binding.key() }
}

/// Makes the commit after which a planned change may be written. It holds only while its base is current.
#[must_use]
pub fn begin(binding: MaterializationBinding, decision: &Event, planned: &Planned) -> Commit {
    let base = planned.base.clone();
    let still = Precondition::DocumentIs {
        source: base.source.clone(),
        document: base.document.clone(),
        revision: Some(base.revision),
    };
    let open = unused(&binding, vec![Materialized::kind().name, MaterializationFailed::kind().name]);
    let envelope = envelope(&binding, &[decision]);
    let (result_sha256, result_bytes) = (planned.sha256, planned.bytes.reveal().len() as u64);
    let started = MaterializationStarted { binding, base, result_sha256, result_bytes };
    Commit {
        preconditions: vec![still, open],
        appends: vec![started.candidate(envelope)],
        ..Commit::default()
    }
}

/// Makes the receipt of a begun change, from what [`verified`] returned.
#[must_use]
pub fn receipt(begun: (&Event, &MaterializationStarted), result: MemoryTarget, file_event: &Event) -> Commit {
    let (event, started) = begun;
    let MaterializationStarted { binding, base, .. } = started.clone();
    let unended = unused(&binding, vec![MaterializationFailed::kind().name]);
    let still = Precondition::DocumentIs {
        source: result.source.clone(),
        document: result.document.clone(),
        revision: Some(result.revision),
    };
    let envelope = envelope(&binding, &[event, file_event]);
    let made = Materialized { binding, base, result, file_event: file_event.id };
    Commit {
        preconditions: vec![unended, still],
        appends: vec![made.candidate(envelope)],
        ..Commit::default()
    }
}

/// Makes the record of a change that was not made. `after` is the event that it follows: the decision, or the start
/// of the attempt.
#[must_use]
pub fn failure(binding: MaterializationBinding, after: &Event, code: ReasonCode) -> Commit {
    let unmade = unused(&binding, vec![Materialized::kind().name]);
    let envelope = envelope(&binding, &[after]);
    let failed = MaterializationFailed { binding, code };
    Commit { preconditions: vec![unmade], appends: vec![failed.candidate(envelope)], ..Commit::default() }
}

#[cfg(test)]
mod tests;
