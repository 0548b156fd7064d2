//! An event that one consumer addresses to another (Escalation section).

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::contract::Recommendation;
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

/// No escalation names more evidence; what is left out stands in the lineage of the observation it names first.
pub const EVIDENCE_MAX: usize = 64;

/// The proposed action that asks for an escalation.
pub const ESCALATE: &str = "escalate";

impl Escalation {
    /// Reads what an observation recommends: an escalation, if its proposed action is [`ESCALATE`] and its target
    /// `consumer:ID` is another consumer than `from`. A model names whom and why; the evidence is the run's own:
    /// the observation, then the events that it was made of, [`EVIDENCE_MAX`] at most.
    #[must_use]
    pub fn recommended(
        from: &ConsumerId,
        recommendation: &Recommendation,
        observation: EventId,
        triggers: impl Iterator<Item = EventId>,
    ) -> Option<Self> {
        let to = ConsumerId::parse(recommendation.target().strip_prefix("consumer:")?).ok()?;
        if recommendation.proposed_action() != ESCALATE || to == *from {
            return None;
        }
        let evidence = std::iter::once(observation).chain(triggers).take(EVIDENCE_MAX).collect();
        Some(Self { to, reason: recommendation.reason().to_owned(), evidence })
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;

    fn recommended(target: &str, action: &str, triggers: u8) -> Option<Escalation> {
        let value = serde_json::json!({
            "summary": "s", "tags": [], "importance": "low", "confidence": 0.5,
            "recommendation": { "target": target, "reason": "It contradicts itself.", "proposedAction": action },
        });
        let observation = Contract::observation().check(&value).ok().unwrap();
        let id = |at: u8| EventId::from_bytes([at; 32]);
        let from = ConsumerId::parse("reader").unwrap();
        Escalation::recommended(&from, observation.recommendation().unwrap(), id(0), (1..=triggers).map(id))
    }

    #[test]
    fn only_the_exact_words_escalate_and_never_to_itself() {
        let raised = recommended("consumer:deep-reader", "escalate", 2).unwrap();
        assert_eq!((raised.to.as_str(), raised.reason.as_str()), ("deep-reader", "It contradicts itself."));
        assert_eq!(raised.evidence, [0, 1, 2].map(|at| EventId::from_bytes([at; 32])));
        assert_eq!(raised.output().address.unwrap().as_str(), "consumer:deep-reader");
        for (target, action) in [
            ("consumer:reader", "escalate"),
            ("consumer:deep-reader", "Escalate"),
            ("consumer:deep-reader", "notify"),
            ("deep-reader", "escalate"),
            ("consumer:Deep Reader", "escalate"),
            ("consumer:", "escalate"),
            ("owner-telegram", "escalate"),
        ] {
            assert_eq!(recommended(target, action, 1), None, "{target} {action}");
        }
    }

    #[test]
    fn the_evidence_is_bounded_and_begins_with_the_observation() {
        let raised = recommended("consumer:deep-reader", "escalate", 200).unwrap();
        assert_eq!(raised.evidence.len(), EVIDENCE_MAX);
        assert_eq!(raised.evidence[0], EventId::from_bytes([0; 32]));
    }
}
