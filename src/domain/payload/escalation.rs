//! An event that one consumer addresses to another (Escalation section).

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::event::Reference;
use crate::id::{ConsumerId, EventId};
use crate::lifecycle::Output;
use crate::registry::Writer;

/// Asks another consumer to look at something, and names what justifies it.
///
/// It is an output like any other: inert, written by settlement alone, and addressed, so that the other's
/// subscription (`address: consumer:ID`) receives it. Consumers never call one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Escalation {
    /// Whom it is addressed to.
    pub to: ConsumerId,
    /// Why, in a sentence.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// The events that justify it.
    #[schemars(length(min = 1, max = 64))]
    pub evidence: Vec<EventId>,
}

impl TypedPayload for Escalation {
    const NAME: &'static str = "stream.thought.escalation.raised";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] = &["to"];
}

impl Escalation {
    /// Returns the address of a consumer, as envelopes and subscriptions write it.
    ///
    /// # Panics
    /// Never: a consumer's id makes a reference.
    #[must_use]
    pub fn address(consumer: &ConsumerId) -> Reference {
        Reference::parse(&format!("consumer:{consumer}")).expect("a consumer's id makes a reference")
    }

    /// Makes the output that a runner gives.
    ///
    /// # Panics
    /// Never: the payload has text and lists of text only.
    #[must_use]
    pub fn output(&self) -> Output {
        let payload = serde_json::to_value(self).expect("text and lists of text");
        Output { kind: Self::kind(), payload, address: Some(Self::address(&self.to)) }
    }
}
