//! The manifest of a packet: everything that was left out, cut or changed on the way to a model, by name and rule.
//!
//! It holds ids, hashes, counts and rules, never content. Whoever selects writes here; a packet cannot be made
//! without one.

use serde::{Deserialize, Serialize};

use crate::conversation::evidence::Stretch;
use crate::conversation::reconstruct::NoTurn;
use crate::hash::Sha256Hash;
use crate::id::EventId;
use crate::judgment::Hidden;

/// Names what a packet is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The message that is answered now.
    Current,
    /// What the person wrote before.
    User,
    /// What was delivered before.
    Assistant,
    /// A message together with what was delivered as its answer.
    Exchange,
    /// A trigger of an observer.
    Event,
    /// An event beside the triggers, which the declaration asks for.
    Neighbor,
    /// The content of a document.
    Document,
    /// An image of the current message.
    Image,
    /// A tool that may be called.
    Tool,
    /// A call of a tool that was made before, with its result.
    ToolCall,
}

/// Says by which rule something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Somebody else wrote it, or it was delivered to somebody else.
    OtherParty,
    /// It has neither words nor exactly one image.
    Empty,
    /// The log knows no completed run behind it.
    NotCompleted,
    /// The completed run is another one, or settled other outputs.
    OtherRun,
    /// It names another root than the message it hangs on.
    OtherRoot,
    /// Its agent is not one whose replies are admitted.
    AgentNotListed,
    /// Its speaker's window is full of newer turns.
    RoleWindow,
    /// More assistant turns than the declared cap are newer.
    AssistantCap,
    /// Nothing was left of it without what a person had corrected away.
    Suppressed,
    /// The bound of events is full of newer turns.
    EventBound,
    /// The bound of characters is full.
    CharBound,
    /// It lies behind the window that was looked at.
    NotLookedAt,
    /// There is no such document, and it is not required.
    DocumentMissing,
    /// The document is longer than its ceiling leaves room for, and it is not required.
    DocumentCeiling,
    /// It is not text.
    NotText,
    /// Its payload was erased.
    Redacted,
    /// The model takes no images.
    ModelTakesNoImages,
    /// The completed run that names it does not show that it made it.
    NoReceipt,
}

impl From<NoTurn> for Rule {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::OtherParty => Self::OtherParty,
            NoTurn::Empty => Self::Empty,
            NoTurn::NotCompleted => Self::NotCompleted,
            NoTurn::OtherRun => Self::OtherRun,
            NoTurn::OtherRoot => Self::OtherRoot,
        }
    }
}

/// Names one thing that a packet holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Included {
    /// What it is.
    pub part: Part,
    /// Its event, or its document and revision, or its path.
    pub id: String,
    /// How many characters of it a model sees.
    pub chars: u64,
}

/// Names one thing that was left out whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Omitted {
    /// What it is.
    pub part: Part,
    /// Its event, or its document and revision, or its path.
    pub id: String,
    /// Why.
    pub rule: Rule,
}

/// Names many things that were left out, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OmittedStretch {
    /// What they are.
    pub part: Part,
    /// Why.
    pub rule: Rule,
    /// Which.
    pub stretch: Stretch,
}

/// Names one thing that a model sees other than it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Changed {
    /// The event.
    pub id: EventId,
    /// The hash of the text as recorded.
    pub recorded: Sha256Hash,
    /// The hash of the text that a model sees.
    pub shown: Sha256Hash,
    /// How.
    pub how: Change,
}

/// Says how something was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Change {
    /// A placeholder stands for an image.
    #[serde(deserialize_with = "crate::bare::nothing")]
    ImagePlaceholder,
    /// A person's correction stands for what was delivered.
    Corrected {
        /// The projection.
        projection: String,
        /// The judgment, whose authority is a correction.
        judgment: EventId,
    },
    /// What a person had corrected away elsewhere was taken out.
    Suppressed {
        /// How many times.
        removed: u64,
    },
}

/// Names a correction that does not count; the reply stands as it was delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnfitCorrection {
    /// The reply.
    pub id: EventId,
    /// Why.
    pub why: Hidden,
}

/// Says what a cap on assistant turns did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssistantCap {
    /// The turns it was applied to, oldest first.
    pub candidates: Vec<EventId>,
    /// The turns it left.
    pub retained: Vec<EventId>,
    /// The turns it took.
    pub omitted: Vec<EventId>,
}

/// Says what was taken out because a person had corrected it away, without its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Suppression {
    /// The version of the rules.
    pub policy_version: u32,
    /// The corrections that gave the authority.
    pub judgments: Vec<EventId>,
    /// The hashes of the fragments.
    pub fragments: Vec<Sha256Hash>,
    /// The replies that are shown without them.
    pub affected: Vec<EventId>,
    /// How many times one was taken out.
    pub removed: u64,
}

/// Is everything that happened to the candidates of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// The bound of events.
    pub max_events: u64,
    /// The bound of characters (UTF-16 code units).
    pub max_chars: u64,
    /// How many characters the packet shows a model.
    pub chars: u64,
    /// What the packet holds, in its order.
    pub included: Vec<Included>,
    /// What was left out, one by one, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omitted>,
    /// What was left out and not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<OmittedStretch>,
    /// What is shown other than it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Changed>,
    /// Corrections that do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<UnfitCorrection>,
    /// What a cap on assistant turns did, where one is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant_cap: Option<AssistantCap>,
    /// What was suppressed, where anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppression: Option<Suppression>,
}

impl Manifest {
    /// Starts a manifest under these bounds.
    #[must_use]
    pub(crate) fn under(max_events: usize, max_chars: usize) -> Self {
        Self { max_events: max_events as u64, max_chars: max_chars as u64, ..Self::default() }
    }

    /// Takes down something that the packet holds.
    pub(crate) fn include(&mut self, part: Part, id: impl ToString, chars: usize) {
        self.chars += chars as u64;
        self.included.push(Included { part, id: id.to_string(), chars: chars as u64 });
    }

    /// Takes down something that was left out.
    pub(crate) fn omit(&mut self, part: Part, id: impl ToString, rule: Rule) {
        self.omitted.push(Omitted { part, id: id.to_string(), rule });
    }

    /// Says whether a model sees everything as it was recorded.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.omitted.is_empty() && self.stretches.is_empty() && self.changed.is_empty()
    }
}
