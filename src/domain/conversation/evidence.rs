//! What reconstruction reads: the messages of one chat, newest first, and the replies that were delivered to them.
//!
//! The store implements it over the log; a test over a list. Whoever implements it reads and does not judge: what
//! counts is decided in [`super::reconstruct`].

use crate::content::Content;
use crate::event::Event;
use crate::hash::{ChainHash, Sha256Hash, tagged};
use crate::id::{ConsumerKey, EventId, ExecutionId, RunId, SourceId};
use crate::judgment::Hidden;
use crate::packet::ContractRevision;
use crate::payload::telegram::{ChatId, SenderId};
use crate::privacy::Privacy;

use super::correction::Correction;

/// Names one side of a conversation: a person in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Party {
    /// The chat.
    pub chat: ChatId,
    /// Who writes, or is answered; nobody for what was sent to a chat unasked.
    pub sender: Option<SenderId>,
}

/// Is one inbound message as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The event.
    pub id: EventId,
    /// Its global position.
    pub position: u64,
    /// Who wrote it where.
    pub party: Party,
    /// What was written; empty for an image without words.
    pub text: Content<String>,
    /// How many images are stored with it, verified.
    pub images: usize,
    /// Who may see it.
    pub privacy: Privacy,
}

/// Is what the log says about one delivered reply: its receipt, the run that made it, and its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The receipt's event.
    pub receipt: EventId,
    /// The receipt's global position.
    pub position: u64,
    /// Which bot delivered it.
    pub bot: SourceId,
    /// To whom it was delivered.
    pub party: Party,
    /// The root that the receipt names.
    pub root: EventId,
    /// The run that the receipt names.
    pub run: RunId,
    /// The output that the receipt names.
    pub named: EventId,
    /// The output's event.
    pub output: EventId,
    /// The output's own root.
    pub output_root: EventId,
    /// The text that was delivered.
    pub text: Content<String>,
    /// The contract that the output names.
    pub contract: ContractRevision,
    /// The hash of the context that the output names.
    pub snapshot: Sha256Hash,
    /// Who may see it.
    pub privacy: Privacy,
    /// The completion that settled the output; none if the log has no such one.
    pub completion: Option<Completion>,
    /// How many completions name this output or its run; what is sound has one.
    pub completions: usize,
    /// What a person's correction makes of it, if there is one, or why it does not count.
    pub correction: Option<Result<Correction, Hidden>>,
}

/// Is the completion of the run behind a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The run it completed.
    pub run: RunId,
    /// The execution.
    pub execution: ExecutionId,
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The outputs that it settled.
    pub outputs: Vec<EventId>,
    /// The proposals that it names.
    pub proposals: Vec<EventId>,
    /// Those of them that the log has, in the same order.
    pub proposed: Vec<Event>,
}

/// Names a stretch of events in one line: the first and the last, how many, and a hash over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stretch {
    /// The oldest event.
    pub first: EventId,
    /// The newest event.
    pub last: EventId,
    /// How many there are, both included.
    pub count: u64,
    /// The hash that [`link`] gives over the ids one after the other.
    pub hash: ChainHash,
}

/// Returns the next hash of a stretch: over the one before and an id. The first is linked to [`ChainHash::START`].
#[must_use]
pub fn link(before: ChainHash, id: &EventId) -> ChainHash {
    ChainHash::from_bytes(tagged("thoughtstream 2026 stretch v1", &[before.as_bytes(), id.as_bytes()]))
}

/// Is read newest first and never goes back.
pub trait Evidence {
    /// Says why the log could not be read.
    type Error;

    /// Returns the newest message of the chat that is older than all returned before.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn message(&mut self) -> Result<Option<Message>, Self::Error>;

    /// Returns what was delivered with this message as its root, in the order of the receipts.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn replies(&mut self, message: &Message) -> Result<Vec<Reply>, Self::Error>;

    /// Names the messages of the chat that are older than all returned so far, oldest first.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn rest(&mut self) -> Result<Option<Stretch>, Self::Error>;

    /// Returns the contract that the context of a completed run was frozen with, if that context is in the log and
    /// has this hash.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn frozen_contract(
        &mut self,
        completion: &Completion,
        snapshot: &Sha256Hash,
    ) -> Result<Option<ContractRevision>, Self::Error>;
}

impl<E: Evidence> Evidence for &mut E {
    type Error = E::Error;

    fn message(&mut self) -> Result<Option<Message>, Self::Error> {
        (**self).message()
    }

    fn replies(&mut self, message: &Message) -> Result<Vec<Reply>, Self::Error> {
        (**self).replies(message)
    }

    fn rest(&mut self) -> Result<Option<Stretch>, Self::Error> {
        (**self).rest()
    }

    fn frozen_contract(
        &mut self,
        completion: &Completion,
        snapshot: &Sha256Hash,
    ) -> Result<Option<ContractRevision>, Self::Error> {
        (**self).frozen_contract(completion, snapshot)
    }
}
