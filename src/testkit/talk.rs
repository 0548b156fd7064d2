//! What a conversation of a test is made of: a message, the sealed context that answers it, and what was said.

use thoughtstream_domain::contract::{Contract, FinalPart, Mode, Stop, judge};
use thoughtstream_domain::conversation::compose::{Trusted, conversation};
use thoughtstream_domain::conversation::proposing::Proposing;
use thoughtstream_domain::conversation::reconstruct::Current;
use thoughtstream_domain::conversation::select::Policy;
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Envelope, Event};
use thoughtstream_domain::id::{IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::Execution;
use thoughtstream_domain::packet::documents::{Subscribed, Subscription, resolve};
use thoughtstream_domain::packet::{Asking, Capabilities, ContractRevision, Packet, Runtime, Subject};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::output::{MessageObservation, Provenance};
use thoughtstream_domain::payload::telegram::{
    ChatId, MessageId, MessageText, SenderId, TelegramMessage, UpdateId, correlation,
};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::capability::{MEMORY_PATH, MEMORY_SOURCE};
use thoughtstream_domain::provider::{ResponseFormat, ThinkingLevel};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

/// The chat.
pub const CHAT: ChatId = ChatId::new(7);
/// Who writes.
pub const SENDER: SenderId = SenderId::new(8);

const PROFILE: &str = "local";
const MODEL: &str = "small-1";

/// Returns the source of the bot's messages.
///
/// # Panics
/// Never.
#[must_use]
pub fn bot() -> SourceId {
    SourceId::parse("telegram:bot").expect("a source")
}

/// Returns the source of the memory document.
///
/// # Panics
/// Never.
#[must_use]
pub fn memory_source() -> SourceId {
    SourceId::parse(MEMORY_SOURCE).expect("a source")
}

/// Makes the envelope of what a source says.
///
/// # Panics
/// If the key is none.
#[must_use]
pub fn envelope(source: &SourceId, key: &str) -> Envelope {
    let key = IdempotencyKey::parse(key).expect("a key");
    Envelope::new(source.clone(), key, Privacy::Sensitive, Actor::ours(ActorKind::Producer, source.as_str()))
}

/// Makes the message of a number.
#[must_use]
pub fn message(number: i64, text: &str, at: Timestamp) -> Candidate {
    let message = TelegramMessage {
        update: UpdateId::new(number),
        chat: CHAT,
        sender: SENDER,
        message: MessageId::new(number),
        sent_at: at,
        text: MessageText::new(text.to_owned()),
        images: Vec::new(),
        rejected: Vec::new(),
        reply_to: None,
        album: None,
        edited: false,
    };
    let mut envelope = envelope(&bot(), &format!("update/{number}"));
    envelope.correlation = Some(correlation(CHAT));
    message.candidate(envelope)
}

/// Seals the context in which an execution answers a message; what may be proposed follows from it. Where nothing may,
/// no document is shown.
///
/// # Panics
/// If the log does not hold what the context is made of.
#[must_use]
pub fn seal(reader: &Reader, execution: &Execution, message: &Event, kinds: &[Kind]) -> Packet {
    let current = Current::of(message).expect("a message");
    let proposing = Proposing { kinds: kinds.iter().copied().collect(), focus_required: false };
    let wanted = Subscription::new(memory_source(), vec![MEMORY_PATH.to_owned()], true).expect("a path");
    let documents = if kinds.is_empty() {
        Subscribed::default()
    } else {
        resolve(&mut &*reader, &[wanted], 10_000).expect("it is there")
    };
    let capabilities =
        Capabilities { privacy: Privacy::Sensitive, tools: Vec::new(), external_actions: false };
    let trusted = Trusted {
        prompt: "You answer.",
        capabilities: &capabilities,
        answer: "",
        documents: &documents,
        takes_images: false,
        proposals: (!kinds.is_empty()).then_some(&proposing),
    };
    let policy = Policy {
        agents: [execution.consumer.id.clone()].into(),
        max_events: 20,
        max_chars: 40_000,
        assistant_max_turns: None,
    };
    let evidence = reader.chat_before(&message.source, &current);
    let composed = conversation(&current, evidence, &policy, &trusted).expect("it has room");
    let contract = Contract::observation();
    let subject = Subject {
        consumer: execution.consumer.clone(),
        fingerprint: execution.fingerprint,
        triggers: vec![message.id],
        prompt: None,
        contract: ContractRevision { name: contract.kind().clone(), sha256: *contract.hash() },
        runtime: Runtime {
            profile: PROFILE.to_owned(),
            model: MODEL.to_owned(),
            execution_adapter_revision: "observer-v1".to_owned(),
            model_adapter: None,
        },
        capabilities,
        images: Vec::new(),
    };
    let asking = Asking {
        max_output_tokens: 500,
        thinking: ThinkingLevel::Medium,
        response: ResponseFormat::Text,
        stream: false,
    };
    Packet::seal(subject, asking, composed).expect("it can be sealed")
}

/// Makes the output of a model that said this.
///
/// # Panics
/// If it fits no contract.
#[must_use]
pub fn said(text: &str, execution: &Execution, packet: &Packet) -> MessageObservation {
    let parts = [FinalPart::text(text)];
    let accepted = judge(&Contract::observation(), Mode::ConversationText, &parts, Stop::End);
    let provenance = Provenance { provider: PROFILE.to_owned(), model: MODEL.to_owned() };
    MessageObservation::of(accepted.expect("a plain reply"), execution.stamp(), packet.sha256(), provenance)
}
