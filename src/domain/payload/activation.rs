//! Moving a consumer to its next version, step by step: each step is an event, so that whoever goes on after a crash
//! knows which is the next.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::system::Operator;
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, ConsumerKey, EventId, SourceId};
use crate::payload::telegram::ChatId;
use crate::registry::Writer;

/// Is one step of an activation; each comes after the one before it in [`Step::ALL`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Nothing comes in from the source any more.
    Frozen,
    /// The version before has done everything that had come in, and its actor is gone.
    Stopped,
    /// The new version is registered, and stands at the frozen head.
    Installed,
    /// What the new version's actor has loaded is what was planned.
    Verified,
    /// Its commands are in the bot's menu.
    Advertised,
    /// Everything was looked at once more, and the source may come in again.
    Resumed,
}

impl Step {
    /// Every step, in order: a menu is set only once people can come in again, so a bot whose menu Telegram refuses
    /// answers all the same. Logs of earlier builds have the last two the other way round.
    pub const ALL: [Self; 6] =
        [Self::Frozen, Self::Stopped, Self::Installed, Self::Verified, Self::Resumed, Self::Advertised];

    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Stopped => "stopped",
            Self::Installed => "installed",
            Self::Verified => "verified",
            Self::Advertised => "advertised",
            Self::Resumed => "resumed",
        }
    }
}

/// Says that a person began to move a consumer to another version, as they were shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivationBegun {
    /// The consumer.
    pub consumer: ConsumerId,
    /// Its how-manieth activation, from 1.
    pub number: u32,
    /// The version that runs.
    pub from: ConsumerKey,
    /// The version that is to run.
    pub to: ConsumerKey,
    /// The new version's fingerprint.
    pub fingerprint: Sha256Hash,
    /// The source that is frozen meanwhile.
    pub source: SourceId,
    /// The hash of the plan that was shown.
    pub plan: Sha256Hash,
    /// Who.
    pub operator: Operator,
}

impl TypedPayload for ActivationBegun {
    const NAME: &'static str = "stream.thought.system.activation.begun";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Decision;
    const PROMOTED: &'static [&'static str] = &["consumer"];
}

/// Is what one step found: hashes, numbers and names of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepFacts {
    /// The last event of the frozen source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<u64>,
    /// The fingerprint that the actor has loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Sha256Hash>,
    /// The hash of the worker's program that its runs are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Sha256Hash>,
    /// The watched folders that its documents come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub roots: Vec<SourceId>,
    /// The hash of the menu that the bot has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub menu: Option<Sha256Hash>,
}

/// Says that one step of an activation is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivationStepped {
    /// The event that began it.
    pub activation: EventId,
    /// The consumer.
    pub consumer: ConsumerId,
    /// Its how-manieth activation.
    pub number: u32,
    /// The step.
    pub step: Step,
    /// What it found.
    pub facts: StepFacts,
}

impl TypedPayload for ActivationStepped {
    const NAME: &'static str = "stream.thought.system.activation.stepped";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Supervision;
    const PROMOTED: &'static [&'static str] = &["consumer", "step"];
}

/// Says that a person gave an activation up before the new version was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivationCancelled {
    /// The event that began it.
    pub activation: EventId,
    /// The consumer.
    pub consumer: ConsumerId,
    /// Its how-manieth activation.
    pub number: u32,
    /// Who.
    pub operator: Operator,
}

impl TypedPayload for ActivationCancelled {
    const NAME: &'static str = "stream.thought.system.activation.cancelled";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Decision;
    const PROMOTED: &'static [&'static str] = &["consumer"];
}

/// Says that a bot's menu of commands was set, and read back as it was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MenuRegistered {
    /// The bot's source.
    pub bot: SourceId,
    /// The version that answers through it.
    pub consumer: ConsumerKey,
    /// The hash of the menu.
    pub menu: Sha256Hash,
}

impl TypedPayload for MenuRegistered {
    const NAME: &'static str = "stream.thought.system.menu.registered";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Effect;
    const PROMOTED: &'static [&'static str] = &[];
}

/// Says what became of telling a chat that the bot's help has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeState {
    /// It is about to be sent.
    Begun,
    /// It was taken.
    Sent,
    /// It was not.
    Failed,
    /// Nobody knows; it is not sent again.
    Unconfirmed,
}

/// Is one step of telling a chat that the bot's help has changed: begun before the first byte, and ended once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelpNotice {
    /// The bot's source.
    pub bot: SourceId,
    /// The chat.
    pub chat: ChatId,
    /// The version of the help's text.
    pub help: u32,
    /// The hash of the menu it came with.
    pub menu: Sha256Hash,
    /// What became of it.
    pub state: NoticeState,
}

impl TypedPayload for HelpNotice {
    const NAME: &'static str = "stream.thought.system.menu.notice";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Effect;
    const PROMOTED: &'static [&'static str] = &["state"];
}
