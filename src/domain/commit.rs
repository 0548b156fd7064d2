//! The one value that changes the log: preconditions, events and rows, all or nothing.
//!
//! Replaying a commit is harmless. The writer first looks its events up: all there with the same content is
//! [`Verdict::AlreadyCommitted`], one there with other content is [`Verdict::Conflict`]; only when none is
//! there are the preconditions checked and everything written in one step.

use std::sync::Arc;

use crate::accounting::{Denial, Entry, Policy};
use crate::content::Content;
use crate::event::Candidate;
use crate::hash::{ChainHash, Sha256Hash};
use crate::id::{ConsumerId, ConsumerKey, DocumentId, EventId, IdempotencyKey, SourceId, TypeName};
use crate::lifecycle::{AttemptKey, Execution, ExecutionStatus, Run};
use crate::repair::AgentRole;
use crate::time::Timestamp;

/// Is handed to the log writer; see the module's page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commit {
    /// Must all hold before anything is written.
    pub preconditions: Vec<Precondition>,
    /// The events, in order. A parent may be an earlier event of the same commit.
    pub appends: Vec<Candidate>,
    /// The rows written with them.
    pub rows: Vec<Row>,
}

impl Commit {
    /// Returns about how many bytes the commit writes: what bounds a group of commits.
    #[must_use]
    pub fn weight(&self) -> usize {
        let events: usize = self.appends.iter().map(|c| c.payload().reveal().len() + 400).sum();
        let rows: usize = self.rows.iter().map(Row::weight).sum();
        events + rows
    }
}

impl Row {
    fn weight(&self) -> usize {
        match self {
            Self::Blob { bytes, .. } => bytes.reveal().len(),
            Self::Declaration(registered) => registered.canonical.len() + 200,
            Self::Execution(execution) => 300 + execution.triggers.len() * 120,
            Self::Document(document) => 400 + document.path.len(),
            Self::Run(_)
            | Self::Entry(_)
            | Self::SetProgress { .. }
            | Self::Pass { .. }
            | Self::Control(..)
            | Self::DocumentStat { .. }
            | Self::Redact(_) => 300,
        }
    }
}

/// Must hold in the log at the moment of the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// This attempt has no terminal event yet. All terminal kinds compete for it: exactly one lands.
    AttemptOpen(AttemptKey),
    /// No execution of this consumer version has claimed any of these events.
    Unclaimed {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The source.
        source: SourceId,
        /// The events' places in the source, rising.
        sequences: Vec<u64>,
    },
    /// The consumer version has claimed the event at `sequence` of the source, or its progress lies at or
    /// beyond it: claims are made in order and leave no event out.
    ClaimedThrough {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The source.
        source: SourceId,
        /// The matching event before the first one claimed now; 0 if there is none.
        sequence: u64,
    },
    /// The execution stands as expected: compared by status kind and number of attempts.
    ExecutionIs {
        /// Where it is.
        key: ExecutionKey,
        /// The status kind.
        status: ExecutionStatus,
        /// How many attempts it has had.
        attempts: u32,
    },
    /// The consumer version has no open attempt on any source.
    NoOpenAttempt(ConsumerKey),
    /// Progress stands at exactly this sequence (0: none).
    ProgressIs {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The source.
        source: SourceId,
        /// The sequence.
        sequence: u64,
    },
    /// The document stands at this revision; `None`: it is not known yet.
    DocumentIs {
        /// The document's source.
        source: SourceId,
        /// The document.
        document: DocumentId,
        /// Its current revision.
        revision: Option<u64>,
    },
    /// One more reservation fits the policy, with everything that is reserved and charged by then, the earlier commits
    /// of the same group included: reservations made at once never pass a limit together.
    Within {
        /// The account.
        account: ConsumerId,
        /// The policy.
        policy: Arc<Policy>,
        /// The moment at which it is reserved.
        at: Timestamp,
    },
    /// The control row of a consumer is as it was read.
    ControlIs(ConsumerId, Option<Control>),
    /// No event of these types stands in the source under this key: what one observation or one claim can
    /// become competes for it, and exactly one lands.
    KeyUnused {
        /// The source.
        source: SourceId,
        /// The types.
        types: Vec<TypeName>,
        /// The key.
        key: IdempotencyKey,
    },
    /// An event of this type stands in the source under this key.
    KeyUsed {
        /// The source.
        source: SourceId,
        /// The type.
        kind: TypeName,
        /// The key.
        key: IdempotencyKey,
    },
    /// The newest judgment that names this output, or the newest retraction of one, stands at this position (0: there
    /// is none): whoever judges has seen everything that was said before.
    JudgedThrough {
        /// The output.
        output: EventId,
        /// The position.
        position: u64,
    },
    /// The consumer is not paused: whoever opens an attempt may not know yet what a person decided. Refused as
    /// [`Refusal::Paused`].
    NotPaused(ConsumerId),
}

/// Finds an execution: its consumer version and the global position of its first trigger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionKey {
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The position of the first trigger.
    pub position: u64,
}

/// Is a row written together with events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// Puts an execution. The writer keeps its triggers' claims, the list of unsettled executions, and
    /// progress: progress moves to the end of the closed prefix of claimed events.
    Execution(Execution),
    /// Puts a run row. The writer keeps the index of open attempts.
    Run(Run),
    /// Puts an entry of an account: a reservation beside the run row that opens its attempt, and its settlement beside
    /// the one that ends it. The writer keeps the sums.
    Entry(Entry),
    /// Sets progress outright: a version change, a declared replay, or the first start of `replay: now`.
    SetProgress {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The source.
        source: SourceId,
        /// The sequence below and at which every matching event is closed.
        sequence: u64,
    },
    /// Passes events that do not match: moves progress up to `sequence` if no claimed event below it is
    /// unsettled; otherwise does nothing.
    Pass {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The source.
        source: SourceId,
        /// The sequence.
        sequence: u64,
    },
    /// Puts the control row of a consumer.
    Control(ConsumerId, Control),
    /// Registers a declaration the first time its version is enabled.
    Declaration(Registered),
    /// Puts a document's current state and, for a live one, its version.
    Document(Document),
    /// Updates what a document's file looked like, so that an unchanged file need not be read again.
    DocumentStat {
        /// The document's source.
        source: SourceId,
        /// The document.
        document: DocumentId,
        /// What `stat` said.
        stat: FileStat,
    },
    /// Stores content under its hash, once.
    Blob {
        /// The content's hash.
        sha256: Sha256Hash,
        /// The content.
        bytes: Content<Arc<[u8]>>,
    },
    /// Erases the payload of an event; the commit also appends the event that records it.
    Redact(EventId),
}

/// Is what a person has set for a consumer, across its versions.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Control {
    /// Since when it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Timestamp>,
    /// Why it is paused, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// Since when its actor is quarantined by its supervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined_since: Option<Timestamp>,
    /// Why it is quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine_code: Option<String>,
}

impl Control {
    /// Says whether it keeps the consumer from starting work.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }
}

/// Is a declaration as it was when its version was first enabled.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Registered {
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The fingerprint that this version is bound to for ever.
    pub fingerprint: Sha256Hash,
    /// The checked declaration as canonical JSON.
    pub canonical: String,
    /// The last global position before it was registered: `replay: now` starts behind it.
    pub position: u64,
    /// When it was registered.
    pub at: Timestamp,
}

impl Registered {
    /// Returns the checked declaration as it was then, in the form of [`crate::declaration::Declaration::to_json`],
    /// without whether it was enabled; nothing if the row holds none.
    #[must_use]
    pub fn declaration(&self) -> Option<serde_json::Value> {
        let mut identity: serde_json::Value = serde_json::from_str(&self.canonical).ok()?;
        identity.get_mut("declaration").map(serde_json::Value::take)
    }

    /// Returns what the version was for.
    #[must_use]
    pub fn role(&self) -> AgentRole {
        let declaration = self.declaration();
        let role = declaration.as_ref().and_then(|declaration| declaration.get("role")?.as_str());
        role.and_then(AgentRole::parse).unwrap_or_default()
    }
}

/// Is the current state of a document, a projection of its source's file events.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Document {
    /// Its source.
    pub source: SourceId,
    /// The document.
    pub id: DocumentId,
    /// The current revision, from 1.
    pub revision: u64,
    /// The current path, or the last one of a removed document.
    pub path: String,
    /// The hash of the current content, or of the last one.
    pub sha256: Sha256Hash,
    /// The content's size in bytes.
    pub bytes: u64,
    /// The content's media type.
    pub content_type: String,
    /// The id its frontmatter names, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// Whether it was removed.
    pub removed: bool,
    /// What its file looked like when it was read last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stat: Option<FileStat>,
}

/// Is what the filesystem says about a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileStat {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last change to the content, in nanoseconds.
    pub modified_ns: i64,
    /// The time of the last change to content or metadata, in nanoseconds.
    pub changed_ns: i64,
    /// When it was read, in nanoseconds: a file changed in the same tick is read again.
    pub read_ns: i64,
}

/// Says where an event of a commit stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The event.
    pub id: EventId,
    /// Its global position.
    pub position: u64,
    /// Its place in its source.
    pub sequence: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Its first ancestor; itself if it has no parents.
    pub root: EventId,
    /// Steps from an event without parents.
    pub depth: u32,
    /// The link of the source's chain at it.
    pub chain: ChainHash,
}

/// Is the writer's answer to one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was written, and is durable.
    Committed(Vec<Placed>),
    /// Everything had been written before, with the same content.
    AlreadyCommitted(Vec<Placed>),
    /// An event of this commit is in the log with other content; nothing was written.
    Conflict(Conflict),
    /// A rule did not hold; nothing was written.
    Refused(Refusal),
}

impl Verdict {
    /// Returns where the events stand, if the commit is in the log.
    #[must_use]
    pub fn placed(&self) -> Option<&[Placed]> {
        match self {
            Self::Committed(placed) | Self::AlreadyCommitted(placed) => Some(placed),
            Self::Conflict(_) | Self::Refused(_) => None,
        }
    }
}

/// Names the event that stands in the log with other content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{id} is in the log with other content: stored {stored}, offered {}", offered.map_or("nothing".to_owned(), |o| o.to_string()))]
pub struct Conflict {
    /// The event.
    pub id: EventId,
    /// The digest in the log.
    pub stored: ChainHash,
    /// The digest offered; `None` if the commit's other events are not in the log, only this one is.
    pub offered: Option<ChainHash>,
}

/// Says which rule kept a commit out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A precondition does not hold.
    #[error("precondition {index} does not hold: {found}")]
    Precondition {
        /// Which one, from 0.
        index: usize,
        /// What was found instead; ids and numbers only.
        found: String,
    },
    /// The consumer is paused, and starts nothing.
    #[error("{consumer} is paused")]
    Paused {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// A reservation does not fit its account's limits.
    #[error("the budget is exhausted: {denial}")]
    OverBudget {
        /// Which precondition says so, from 0.
        index: usize,
        /// Which limit, and when one reservation fits.
        denial: Denial,
    },
    /// A parent is not in the log.
    #[error("parent {parent} is not in the log")]
    UnknownParent {
        /// The parent.
        parent: EventId,
    },
    /// The event's privacy class is weaker than a parent's.
    #[error("{event} is weaker in privacy than its parent {parent}")]
    PrivacyLowered {
        /// The event.
        event: EventId,
        /// The parent.
        parent: EventId,
    },
    /// The type is not registered with this log.
    #[error("type {kind} is not registered")]
    UnknownType {
        /// The type.
        kind: crate::id::TypeRef,
    },
    /// A row contradicts what stands (a claim by another execution, a revision that skips).
    #[error("row {index} contradicts the log: {found}")]
    Row {
        /// Which one, from 0.
        index: usize,
        /// What was found; ids and numbers only.
        found: String,
    },
    /// A stored row that the commit stands on is not what was written: whether the log would take it, nobody can say.
    #[error("the log is damaged at {place}")]
    Damaged {
        /// The table and key, as `verify` names them.
        place: String,
    },
    /// The commit is larger than one commit may be.
    #[error("the commit is too large: {what}")]
    TooLarge {
        /// Which bound, with both numbers.
        what: String,
    },
}
