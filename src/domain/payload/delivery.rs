//! What becomes of an output that is to be sent out: claimed, and then delivered, failed or unconfirmed.
//!
//! A claim is durable before anything is sent and ends in exactly one of the three. What is not sent may be
//! claimed again, under the next number; what may have been sent never is, until a person says so.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::system::Operator;
use super::telegram::{ChatId, MessageId, SenderId};
use crate::hash::Sha256Hash;
use crate::id::{DeliveryId, EventId, IdempotencyKey, RunId, SourceId, TypeName};
use crate::registry::Writer;
use crate::time::Timestamp;

/// Is a way out: each has its own rule of what may take it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// The answer to a message, into the chat it came from.
    DirectReply,
    /// A proposal to take a person's attention, into the one chat that is configured for it.
    Notification,
}

impl Route {
    /// Returns the spelling used in events and ids.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DirectReply => "direct-reply",
            Self::Notification => "notification",
        }
    }
}

/// Binds a delivery event to what is delivered, for whom, and by which claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryBinding {
    /// The delivery: the output over this route.
    pub delivery: DeliveryId,
    /// The claim's number within the delivery, from 1.
    pub claim: u32,
    /// The route.
    pub route: Route,
    /// The bot's source.
    pub bot: SourceId,
    /// The chat it goes to.
    pub chat: ChatId,
    /// Who is answered; absent for a notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderId>,
    /// The root of the output: the message that is answered, for a direct reply.
    pub root: EventId,
    /// The run that made the output.
    pub run: RunId,
    /// The output.
    pub output: EventId,
}

impl DeliveryBinding {
    /// Returns the key of this claim's events: each type of them is written once at most.
    ///
    /// # Panics
    /// Never: an id and a number make a key.
    #[must_use]
    pub fn key(&self) -> IdempotencyKey {
        key(&self.delivery, self.claim)
    }

    /// Returns the source of this delivery's events.
    #[must_use]
    pub fn source(&self) -> SourceId {
        source(&self.bot)
    }
}

/// Returns the source of the deliveries of a bot.
///
/// # Panics
/// Never: a source's name makes a source.
#[must_use]
pub fn source(bot: &SourceId) -> SourceId {
    SourceId::parse(&format!("delivery:{}", bot.name())).expect("a source's name makes a source")
}

/// Returns the key of the events of one claim.
///
/// # Panics
/// Never: an id and a number make a key.
#[must_use]
pub fn key(delivery: &DeliveryId, claim: u32) -> IdempotencyKey {
    IdempotencyKey::parse(&format!("{delivery}/{claim}")).expect("an id and a number make a key")
}

/// Returns the types of which exactly one ends a claim.
#[must_use]
pub fn ends() -> [TypeName; 3] {
    [DeliveryDelivered::kind().name, DeliveryFailed::kind().name, DeliveryUnconfirmed::kind().name]
}

/// Says what follows a delivery that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum AfterFailed {
    /// Nothing was sent; it is claimed again, not before `at`.
    Retry {
        /// When.
        at: Timestamp,
    },
    /// Nothing follows.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Final,
}

/// Is what a person decided about a delivery whose end is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reconciled {
    /// It arrived.
    Confirmed,
    /// It is to be sent again, whether it arrived or not.
    Resend,
    /// It is given up.
    Abandoned,
}

macro_rules! delivery_payload {
    ($(#[$doc:meta])* $name:ident, $type:literal, $promoted:expr, { $($(#[$m:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// What is delivered, for whom, by which claim.
            pub binding: DeliveryBinding,
            $($(#[$m])* pub $field: $ty,)*
        }

        impl TypedPayload for $name {
            const NAME: &'static str = $type;
            const VERSION: u32 = 1;
            const WRITER: Writer = Writer::Effect;
            const PROMOTED: &'static [&'static str] = $promoted;
        }
    };
}

delivery_payload!(
    /// Says that the dispatcher is about to send; written before the first byte.
    DeliveryClaimed, "stream.thought.delivery.claimed", &[], {
        /// The hash of the text that is sent.
        text_sha256: Sha256Hash,
        /// Its length in UTF-16 code units.
        units: u32,
        /// The number of the service's start that claims.
        incarnation: u64,
        /// The number of the dispatcher's start within it.
        holder: u32,
    }
);
delivery_payload!(
    /// Is the receipt: the other side has taken the message.
    DeliveryDelivered, "stream.thought.delivery.delivered", &[], {
        /// The message it became; unknown if a person confirmed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// When it was taken, by Telegram's clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_at: Option<Timestamp>,
        /// Who confirmed it, if it was a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirmed_by: Option<Operator>,
    }
);
delivery_payload!(
    /// Says that the message was not delivered, and that this is known.
    DeliveryFailed, "stream.thought.delivery.failed", &["code"], {
        /// The allow-listed reason.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// What follows.
        next: AfterFailed,
    }
);
delivery_payload!(
    /// Says that the message may or may not have been delivered; only a person goes on from here.
    DeliveryUnconfirmed, "stream.thought.delivery.unconfirmed", &["code"], {
        /// How it was found.
        #[schemars(length(min = 1, max = 64))]
        code: String,
    }
);

/// Says what a person decided about an unconfirmed delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryDecided {
    /// What is delivered, for whom, by which claim.
    pub binding: DeliveryBinding,
    /// The decision.
    pub decision: Reconciled,
    /// Who.
    pub operator: Operator,
}

impl TypedPayload for DeliveryDecided {
    const NAME: &'static str = "stream.thought.delivery.decided";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Decision;
    const PROMOTED: &'static [&'static str] = &["decision"];
}
