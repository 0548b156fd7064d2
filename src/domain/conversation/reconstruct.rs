//! The first step: what the evidence says was said in one chat, newest first, complete when run to its end.
//!
//! No bound of a declaration applies here and nothing is rewritten. A reply stands behind the message it answers,
//! whenever it was delivered. It is a turn only if it was delivered to this person in this chat, by a run that is
//! known to have completed with exactly this output.

use crate::content::Content;
use crate::event::{Event, PayloadError};
use crate::hash::Sha256Hash;
use crate::id::{EventId, SourceId};
use crate::judgment::Hidden;
use crate::payload::telegram::TelegramMessage;
use crate::privacy::Privacy;

use super::correction::Correction;
use super::evidence::{Completion, Evidence, Message, Party, Reply, Stretch};
use crate::packet::ContractRevision;

/// Stands for an image without words, in the turn that is answered and in every one before.
pub const IMAGE_PLACEHOLDER: &str = "[image]";

/// Names who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaker {
    /// The person.
    User,
    /// A reply that was delivered.
    Assistant,
}

/// Is one turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// What the person wrote.
    User(UserTurn),
    /// What was delivered as an answer.
    Assistant(Box<AssistantTurn>),
}

/// Is what the person wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserTurn {
    /// The message's event.
    pub id: EventId,
    /// What was written; empty for an image without words.
    pub text: Content<String>,
    /// Who may see it.
    pub privacy: Privacy,
}

/// Is what was delivered as an answer, both as it was and as a person corrected it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssistantTurn {
    /// The output's event.
    pub id: EventId,
    /// The message it answers.
    pub root: EventId,
    /// The run, who answered, and what else it settled.
    pub completion: Completion,
    /// How many completions name this output or its run.
    pub completions: usize,
    /// The receipt's event.
    pub receipt: EventId,
    /// Which bot delivered it.
    pub bot: SourceId,
    /// The contract that the output names.
    pub contract: ContractRevision,
    /// The hash of the context that the output names.
    pub snapshot: Sha256Hash,
    /// The exact text that was delivered.
    pub delivered: Content<String>,
    /// The correction that counts.
    pub correction: Option<Correction>,
    /// Why a correction that is there does not count.
    pub unfit: Option<Hidden>,
    /// Who may see it.
    pub privacy: Privacy,
}

impl Turn {
    /// Returns the event it stands for.
    #[must_use]
    pub const fn id(&self) -> EventId {
        match self {
            Self::User(turn) => turn.id,
            Self::Assistant(turn) => turn.id,
        }
    }

    /// Returns who speaks.
    #[must_use]
    pub const fn speaker(&self) -> Speaker {
        match self {
            Self::User(_) => Speaker::User,
            Self::Assistant(_) => Speaker::Assistant,
        }
    }

    /// Returns who may see it.
    #[must_use]
    pub const fn privacy(&self) -> Privacy {
        match self {
            Self::User(turn) => turn.privacy,
            Self::Assistant(turn) => turn.privacy,
        }
    }

    /// Returns what a model would see of it.
    #[must_use]
    pub fn effective(&self) -> &str {
        match self {
            Self::User(turn) => turn.shown(),
            Self::Assistant(turn) => turn.effective(),
        }
    }
}

impl UserTurn {
    /// Returns what was written, or the placeholder for an image without words.
    #[must_use]
    pub fn shown(&self) -> &str {
        let text = self.text.reveal();
        if text.is_empty() { IMAGE_PLACEHOLDER } else { text }
    }
}

impl AssistantTurn {
    /// Returns the corrected text where there is one, else what was delivered.
    #[must_use]
    pub fn effective(&self) -> &str {
        self.correction.as_ref().map_or(&self.delivered, |correction| &correction.replacement).reveal()
    }
}

/// Says why evidence is no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoTurn {
    /// Somebody else wrote it, or it was delivered to somebody else.
    OtherParty,
    /// It has neither words nor exactly one image.
    Empty,
    /// The log knows no completed run behind it.
    NotCompleted,
    /// The completed run is another one, or settled other outputs.
    OtherRun,
    /// The receipt or the output names another root than the message it hangs on.
    OtherRoot,
}

/// Is what one step of reconstruction finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A turn.
    Turn(Turn),
    /// Evidence that is none, with the reason.
    Not(EventId, Speaker, NoTurn),
}

/// Is the message that is answered now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// The event.
    pub id: EventId,
    /// Its global position.
    pub position: u64,
    /// The bot it was written to.
    pub bot: SourceId,
    /// Who wrote it where.
    pub party: Party,
    /// What was written; empty for an image without words.
    pub text: Content<String>,
    /// The images that are stored with it.
    pub images: Vec<crate::packet::ImageArtifact>,
    /// Who may see it.
    pub privacy: Privacy,
}

impl Current {
    /// Reads the event of a message.
    ///
    /// # Errors
    /// [`PayloadError`] if it is none, was redacted or is damaged.
    pub fn of(event: &Event) -> Result<Self, PayloadError> {
        let message: TelegramMessage = event.payload_as()?;
        Ok(Self {
            id: event.id,
            position: event.position,
            bot: event.source.clone(),
            party: Party { chat: message.chat, sender: Some(message.sender) },
            text: Content::new(message.text.reveal().to_owned()),
            images: message.images,
            privacy: event.privacy,
        })
    }
}

/// Reads a conversation backwards from the message that is answered now, which is no part of it.
#[derive(Debug)]
pub struct Reconstruction<E> {
    evidence: E,
    now: u64,
    party: Party,
    /// What the last message that was read gave, the newest last.
    waiting: Vec<Found>,
    looked_at: usize,
}

impl<E: Evidence> Reconstruction<E> {
    /// Starts behind the current message.
    pub const fn before(current: &Current, evidence: E) -> Self {
        let Current { position, party, .. } = current;
        Self { evidence, now: *position, party: *party, waiting: Vec::new(), looked_at: 0 }
    }

    /// Returns the next older turn, or evidence that is none; `None` at the beginning of the conversation.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn older(&mut self) -> Result<Option<Found>, E::Error> {
        while self.waiting.is_empty() {
            let Some(message) = self.evidence.message()? else { return Ok(None) };
            if message.position >= self.now {
                continue;
            }
            self.looked_at += 1;
            let replies = self.evidence.replies(&message)?;
            let mut found = vec![self.user(&message)];
            found.extend(replies.into_iter().map(|reply| self.assistant(&message, reply)));
            self.waiting = found;
        }
        Ok(self.waiting.pop())
    }

    /// Returns how many messages have been read so far.
    #[must_use]
    pub const fn looked_at(&self) -> usize {
        self.looked_at
    }

    /// Says whether everything that was read so far was returned.
    #[must_use]
    pub const fn is_between_messages(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Names the messages that were not read, each of which stands for its replies too.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn rest(&mut self) -> Result<Option<Stretch>, E::Error> {
        self.evidence.rest()
    }

    fn user(&self, message: &Message) -> Found {
        let not = |why| Found::Not(message.id, Speaker::User, why);
        if message.party != self.party {
            return not(NoTurn::OtherParty);
        }
        if message.text.reveal().is_empty() && message.images != 1 {
            return not(NoTurn::Empty);
        }
        let Message { id, text, privacy, .. } = message;
        Found::Turn(Turn::User(UserTurn { id: *id, text: text.clone(), privacy: *privacy }))
    }

    fn assistant(&self, message: &Message, reply: Reply) -> Found {
        let not = |why| Found::Not(reply.output, Speaker::Assistant, why);
        if reply.party != self.party || message.party != self.party {
            return not(NoTurn::OtherParty);
        }
        if reply.root != message.id || reply.output_root != message.id || reply.named != reply.output {
            return not(NoTurn::OtherRoot);
        }
        let Some(completion) = &reply.completion else { return not(NoTurn::NotCompleted) };
        if completion.run != reply.run || !completion.outputs.contains(&reply.output) {
            return not(NoTurn::OtherRun);
        }
        if reply.text.reveal().is_empty() {
            return not(NoTurn::Empty);
        }
        let (correction, unfit) = match reply.correction.clone() {
            None => (None, None),
            Some(Ok(correction)) => (Some(correction), None),
            Some(Err(unfit)) => (None, Some(unfit)),
        };
        let completion = completion.clone();
        let Reply { output, root, completions, receipt, bot, contract, snapshot, text, privacy, .. } = reply;
        Found::Turn(Turn::Assistant(Box::new(AssistantTurn {
            id: output,
            root,
            completion,
            completions,
            receipt,
            bot,
            contract,
            snapshot,
            delivered: text,
            correction,
            unfit,
            privacy,
        })))
    }
}

/// Returns the hash by which a manifest names a text.
#[must_use]
pub fn text_hash(text: &str) -> Sha256Hash {
    Sha256Hash::of(text.as_bytes())
}
