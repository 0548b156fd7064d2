//! What a model run leaves behind: its output, or the classified refusal of one.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use super::run::RunStamp;
use crate::contract::{Accepted, Mode, Observation, Rejection};
use crate::event::{Actor, ActorKind, Candidate, Envelope, Parent};
use crate::hash::Sha256Hash;
use crate::id::{IdempotencyKey, SourceId, TypeRef};
use crate::lifecycle::Output;
use crate::privacy::Privacy;
use crate::registry::Writer;

/// Says which model said it, by names of ours: the profile and the public base model. The runner's revision and
/// a learned adapter stand in the stamp.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// The provider's profile.
    #[schemars(length(min = 1, max = 64))]
    pub provider: String,
    /// The public base model, as the profile allows it.
    #[schemars(length(min = 1, max = 128))]
    pub model: String,
}

/// Is a model's checked output. It is inert: what comes of it is decided elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageObservation {
    /// The attempt that made it.
    pub stamp: RunStamp,
    /// The contract it fits.
    pub contract: TypeRef,
    /// The contract's definition hash.
    pub contract_hash: Sha256Hash,
    /// How the final message was read.
    pub mode: Mode,
    /// The hash of the context that the model saw.
    pub snapshot: Sha256Hash,
    /// Which model said it.
    pub provenance: Provenance,
    /// What it says.
    pub observation: Observation,
}

impl TypedPayload for MessageObservation {
    const NAME: &'static str = "stream.thought.derived.message.observation";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] = &["mode"];
}

impl MessageObservation {
    /// Joins an accepted message and where it came from.
    #[must_use]
    pub fn of(accepted: Accepted, stamp: RunStamp, snapshot: Sha256Hash, provenance: Provenance) -> Self {
        let Accepted { value, contract, contract_hash, mode, .. } = accepted;
        Self { stamp, contract, contract_hash, mode, snapshot, provenance, observation: value }
    }

    /// Makes the output that settlement takes.
    ///
    /// # Panics
    /// Never: the payload has text, hashes and exact numbers only.
    #[must_use]
    pub fn output(&self) -> Output {
        let payload = serde_json::to_value(self).expect("text, hashes and exact numbers");
        Output { kind: Self::kind(), payload, address: None }
    }
}

/// Says that a final message was refused, and in what way. It stands in the commit that fails the attempt, and
/// holds none of the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputRejected {
    /// The attempt.
    pub stamp: RunStamp,
    /// The hash of the context that the model saw.
    pub snapshot: Sha256Hash,
    /// The verdict.
    pub rejection: Rejection,
}

impl TypedPayload for OutputRejected {
    const NAME: &'static str = "stream.thought.output.rejected";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Settlement;
    const PROMOTED: &'static [&'static str] = &[];
}

/// Makes the envelope of an event about one run that is written beside its lifecycle: once for each `what`.
///
/// # Panics
/// Never: a word and a run's id make a key.
#[must_use]
pub fn beside(stamp: &RunStamp, what: &str, privacy: Privacy, parents: Vec<Parent>) -> Envelope {
    let key = IdempotencyKey::parse(&format!("{what}/{}", stamp.run)).expect("a word and an id make a key");
    let actor = Actor::ours(ActorKind::Agent, &stamp.consumer.to_string());
    Envelope::new(SourceId::agent(&stamp.consumer.id), key, privacy, actor).with_parents(parents)
}

impl OutputRejected {
    /// Makes the event that goes into the failing commit; `parents` are the execution's triggers.
    #[must_use]
    pub fn event(&self, privacy: Privacy, parents: Vec<Parent>) -> Candidate {
        self.candidate(beside(&self.stamp, "rejected", privacy, parents))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::content::Content;
    use crate::contract::{Contract, FinalPart, Stop, judge};
    use crate::id::{ConsumerKey, EventId, ExecutionId, RunId};
    use crate::registry::{Draft, DraftPayload, Registry};

    pub(crate) fn stamp() -> RunStamp {
        let consumer = ConsumerKey::parse("garden@1").unwrap();
        let fingerprint = Sha256Hash::of(b"declaration");
        let execution = ExecutionId::derive(&consumer, &fingerprint, &[EventId::from_bytes([1; 32])]);
        let (run, attempt) = (RunId::derive(&execution, 1), 1);
        let execution_adapter_revision = "cell-v1".to_owned();
        RunStamp {
            run,
            execution,
            consumer,
            fingerprint,
            attempt,
            execution_adapter_revision,
            model_adapter: None,
        }
    }

    fn accepted(text: &str) -> Accepted {
        judge(&Contract::observation(), Mode::ConversationText, &[FinalPart::text(text)], Stop::End).unwrap()
    }

    fn output(text: &str) -> MessageObservation {
        let provenance = Provenance { provider: "local".into(), model: "small-1".into() };
        MessageObservation::of(accepted(text), stamp(), Sha256Hash::of(b"packet"), provenance)
    }

    #[test]
    fn an_output_passes_the_door_and_is_read_back() {
        let payload = output("Water it.");
        let envelope = beside(&payload.stamp, "output", Privacy::Private, Vec::new());
        let Output { kind, payload: value, .. } = payload.output();
        let draft = Draft { kind, envelope, payload: Content::new(DraftPayload(value)) };
        let candidate = Registry::shipped().admit(Writer::Settlement, draft).unwrap();
        let read: MessageObservation = serde_json::from_slice(candidate.payload().reveal()).unwrap();
        assert_eq!(read, payload);
    }

    #[test]
    fn an_output_does_not_print_what_it_says() {
        assert!(!format!("{:?}", output("hunter2")).contains("hunter2"));
    }

    #[test]
    fn a_stored_output_that_breaks_its_contract_is_not_read() {
        let mut value = output("x").output().payload;
        value["observation"]["confidence"] = 2.into();
        assert!(serde_json::from_value::<MessageObservation>(value).is_err());
    }

    #[test]
    fn a_refusal_is_one_event_a_run() {
        let parts = [FinalPart::text("hunter2")];
        let rejection = *judge(&Contract::observation(), Mode::StrictJson, &parts, Stop::End).unwrap_err();
        let refused = OutputRejected { stamp: stamp(), snapshot: Sha256Hash::of(b"packet"), rejection };
        let one = refused.event(Privacy::Private, Vec::new());
        assert_eq!(one.id(), refused.event(Privacy::Sensitive, Vec::new()).id());
        let text = String::from_utf8_lossy(one.payload().reveal()).into_owned();
        assert!(text.contains("not-json") && !text.contains("hunter2"), "{text}");
    }
}
