//! The one validator of a proposal's authority: the whole chain behind it is replayed from the log, link by link.
//!
//! Nobody decides about a proposal, projects or writes one by its word. [`prove`] reads the proposal, the run that
//! made it, its output and trigger, the declaration, the sealed context and the receipt of the completion again, and
//! holds each against the others. What it returns is a [`Proven`], which cannot be made in any other way; whatever
//! acts on a proposal takes one. A link that does not hold is named by a code, never by content.

mod chain;

use crate::commit::{Document, Registered};
use crate::content::Content;
use crate::event::{Event, Payload};
use crate::id::{ConsumerKey, EventId, ExecutionId, RunId};
use crate::judgment::Judged;
use crate::lifecycle::Run;
use crate::packet::Packet;
use crate::payload::TypedPayload;
use crate::payload::proposal::{CorrectionProposed, FocusProposed, MemoryChangeProposed, Proposed, Proposer};

use super::Kind;

/// Reads the log for the validator, and judges nothing.
pub trait Records {
    /// Says why the log could not be read.
    type Error;

    /// Returns the event with this id.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn event(&self, id: &EventId) -> Result<Option<Event>, Self::Error>;

    /// Returns the row of an attempt.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn run(&self, id: &RunId) -> Result<Option<Run>, Self::Error>;

    /// Returns every event that says that this attempt completed; there is one if everything is as it should be.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn completions(&self, run: &Run) -> Result<Vec<Event>, Self::Error>;

    /// Returns the declaration that a consumer version was registered with.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn registered(&self, consumer: &ConsumerKey) -> Result<Option<Registered>, Self::Error>;

    /// Returns the stored context of an execution as it lies there.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn snapshot(
        &self,
        consumer: &ConsumerKey,
        execution: &ExecutionId,
    ) -> Result<Option<Stored>, Self::Error>;
}

/// Is the stored context of an execution: nothing of it has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The row of the document.
    pub document: Document,
    /// Its one version.
    pub version: Option<Document>,
    /// The bytes that are stored under the version's hash.
    pub bytes: Option<Content<Vec<u8>>>,
}

/// Names a link of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// The event is a proposal, and can be read.
    Proposal,
    /// It was written by the agent that it names, where that agent's settlements go, as sensitive as it must be.
    Author,
    /// It hangs on the output that its kind hangs on, and has its root.
    Parent,
    /// The proposer's run is in the log, is the named agent's, and completed.
    Run,
    /// The run settled exactly the output that is named, and that output says so itself.
    Output,
    /// The trigger is that of the run.
    Trigger,
    /// The agent's version is bound to the fingerprint that is named.
    Fingerprint,
    /// The declaration lets this kind be proposed.
    Declared,
    /// The context's bytes are there, have the named hash, and are the packet of this execution.
    Snapshot,
    /// The context's own account holds what the capability was derived from.
    Manifest,
    /// The receipt of the completion names the proposal, and was written with it.
    Receipt,
    /// Every event that is cited was admitted as evidence.
    Evidence,
    /// The target is the one that the context admitted.
    Capability,
    /// What is proposed has the length and the hash that is recorded, or fits the contract.
    Content,
    /// The reply that is to be corrected is what the target says: run, output, receipt, root and contract.
    Target,
}

impl Link {
    /// All links, in the order in which they are looked at.
    pub const ALL: [Self; 15] = [
        Self::Proposal,
        Self::Author,
        Self::Run,
        Self::Fingerprint,
        Self::Declared,
        Self::Snapshot,
        Self::Trigger,
        Self::Output,
        Self::Receipt,
        Self::Parent,
        Self::Manifest,
        Self::Evidence,
        Self::Capability,
        Self::Content,
        Self::Target,
    ];

    /// Returns the code of a link that does not hold.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Proposal => "lineage-proposal",
            Self::Author => "lineage-author",
            Self::Parent => "lineage-parent",
            Self::Run => "lineage-run",
            Self::Output => "lineage-output",
            Self::Trigger => "lineage-trigger",
            Self::Fingerprint => "lineage-fingerprint",
            Self::Declared => "lineage-declared",
            Self::Snapshot => "lineage-snapshot",
            Self::Manifest => "lineage-manifest",
            Self::Receipt => "lineage-receipt",
            Self::Evidence => "lineage-evidence",
            Self::Capability => "lineage-capability",
            Self::Content => "lineage-content",
            Self::Target => "lineage-target",
        }
    }
}

/// Says which link of a proposal's lineage does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}: what stands behind {proposal} does not hold", link.code())]
pub struct Broken {
    /// The proposal.
    pub proposal: EventId,
    /// The first link that does not hold.
    pub link: Link,
}

/// Says why nothing was proven.
#[derive(Debug, thiserror::Error)]
pub enum LineageError<E> {
    /// The log could not be read: nobody knows.
    #[error("the log could not be read")]
    Unread(#[source] E),
    /// A link does not hold.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Is a kind of proposal as the validator sees it.
pub trait Chained: TypedPayload {
    /// The kind.
    const KIND: Kind;
    /// What the validator found and the kind is bound to.
    type Bound: std::fmt::Debug + Clone;

    /// Returns who proposed it.
    fn proposer(&self) -> &Proposer;

    /// Returns the events that are cited.
    fn cited(&self) -> &[EventId];

    /// Returns the output that the proposal hangs on.
    fn parent(&self) -> EventId;
}

impl Chained for MemoryChangeProposed {
    const KIND: Kind = Kind::MemoryChange;
    type Bound = ();

    fn proposer(&self) -> &Proposer {
        &self.proposer
    }

    fn cited(&self) -> &[EventId] {
        &self.evidence
    }

    fn parent(&self) -> EventId {
        self.proposer.output
    }
}

impl Chained for CorrectionProposed {
    const KIND: Kind = Kind::SelfCorrection;
    type Bound = BoundReply;

    fn proposer(&self) -> &Proposer {
        &self.proposer
    }

    fn cited(&self) -> &[EventId] {
        &self.evidence
    }

    fn parent(&self) -> EventId {
        self.target.output
    }
}

impl Chained for FocusProposed {
    const KIND: Kind = Kind::FocusDeclaration;
    type Bound = ();

    fn proposer(&self) -> &Proposer {
        &self.proposer
    }

    fn cited(&self) -> &[EventId] {
        &self.declaration.lineage.evidence
    }

    fn parent(&self) -> EventId {
        self.proposer.output
    }
}

/// Is a proposal whose whole lineage was replayed and holds. [`prove`] alone makes one.
#[derive(Debug, Clone)]
pub struct Proven<P: Chained> {
    event: Event,
    payload: P,
    run: Run,
    output: Judged,
    packet: Packet,
    bound: P::Bound,
}

/// Is the reply that a correction is about, as the log has it.
#[derive(Debug, Clone)]
pub struct BoundReply {
    /// The output, with its contract and value.
    pub judged: Judged,
    /// The receipt of its delivery.
    pub receipt: Event,
}

impl<P: Chained> Proven<P> {
    /// Returns the proposal's event.
    #[must_use]
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// Returns the proposal's id.
    #[must_use]
    pub const fn id(&self) -> EventId {
        self.event.id
    }

    /// Returns what it says.
    #[must_use]
    pub const fn payload(&self) -> &P {
        &self.payload
    }

    /// Returns the completed run that proposed it.
    #[must_use]
    pub const fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the output that was settled with it.
    #[must_use]
    pub const fn output(&self) -> &Judged {
        &self.output
    }

    /// Returns the sealed context that the model saw.
    #[must_use]
    pub const fn packet(&self) -> &Packet {
        &self.packet
    }

    /// Returns what the kind is bound to, read from the log.
    #[must_use]
    pub const fn bound(&self) -> &P::Bound {
        &self.bound
    }
}

/// Is a proven proposal of any kind.
#[derive(Debug, Clone)]
pub enum AnyProven {
    /// A change of the memory document.
    Memory(Box<Proven<MemoryChangeProposed>>),
    /// A correction of a delivered reply.
    Correction(Box<Proven<CorrectionProposed>>),
    /// A focus.
    Focus(Box<Proven<FocusProposed>>),
}

impl AnyProven {
    /// Returns the proposal's event.
    #[must_use]
    pub const fn event(&self) -> &Event {
        match self {
            Self::Memory(proven) => proven.event(),
            Self::Correction(proven) => proven.event(),
            Self::Focus(proven) => proven.event(),
        }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Memory(_) => Kind::MemoryChange,
            Self::Correction(_) => Kind::SelfCorrection,
            Self::Focus(_) => Kind::FocusDeclaration,
        }
    }
}

/// Replays the lineage of a proposal of any kind.
///
/// # Errors
/// [`LineageError`] naming the first link that does not hold, or if the log cannot be read.
pub fn prove<R: Records>(records: &R, id: &EventId) -> Result<AnyProven, LineageError<R::Error>> {
    let event = find(records, id)?;
    match Proposed::kind_of(&event.kind) {
        Some(Kind::MemoryChange) => chain::memory(records, event).map(|it| AnyProven::Memory(Box::new(it))),
        Some(Kind::SelfCorrection) => {
            chain::correction(records, event).map(|it| AnyProven::Correction(Box::new(it)))
        }
        Some(Kind::FocusDeclaration) => chain::focus(records, event).map(|it| AnyProven::Focus(Box::new(it))),
        None => Err(Broken { proposal: *id, link: Link::Proposal }.into()),
    }
}

/// Replays the lineage of a proposed memory change.
///
/// # Errors
/// As [`prove`]; another kind of proposal is none.
pub fn prove_memory<R: Records>(
    records: &R,
    id: &EventId,
) -> Result<Proven<MemoryChangeProposed>, LineageError<R::Error>> {
    chain::memory(records, find(records, id)?)
}

/// Replays the lineage of a proposed correction.
///
/// # Errors
/// As [`prove`]; another kind of proposal is none.
pub fn prove_correction<R: Records>(
    records: &R,
    id: &EventId,
) -> Result<Proven<CorrectionProposed>, LineageError<R::Error>> {
    chain::correction(records, find(records, id)?)
}

fn find<R: Records>(records: &R, id: &EventId) -> Result<Event, LineageError<R::Error>> {
    let found = records.event(id).map_err(LineageError::Unread)?;
    let found = found.filter(|event| event.id == *id && matches!(event.payload, Payload::Present(_)));
    found.ok_or_else(|| Broken { proposal: *id, link: Link::Proposal }.into())
}
