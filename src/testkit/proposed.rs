//! A proposed memory change with everything behind it, written as the service writes it: the message, the sealed
//! context, the completed run and its receipt.

use thoughtstream_actors::service::ServiceHandle;
use thoughtstream_domain::commit::{Commit, Registered, Row, Verdict};
use thoughtstream_domain::contract::{Contract, FinalPart, Mode, Stop, judge};
use thoughtstream_domain::conversation::compose::{Trusted, conversation};
use thoughtstream_domain::conversation::reconstruct::Current;
use thoughtstream_domain::conversation::select::Policy;
use thoughtstream_domain::event::{Actor, ActorKind, Envelope, Event, Reference};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::{Execution, Frame};
use thoughtstream_domain::packet::documents::{Subscription, resolve};
use thoughtstream_domain::packet::{Asking, Capabilities, ContractRevision, Packet, Runtime, Subject};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::output::{MessageObservation, Provenance};
use thoughtstream_domain::payload::proposal::{Disposition, Proposer};
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::payload::telegram::{
    ChatId, MessageId, MessageText, SenderId, TelegramMessage, UpdateId, correlation,
};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::bind::Bound;
use thoughtstream_domain::proposal::call::Operation;
use thoughtstream_domain::proposal::capability::{
    MEMORY_PATH, MEMORY_SOURCE, MemoryTarget, ProposalCapability,
};
use thoughtstream_domain::proposal::text::{ProposedText, Reason};
use thoughtstream_domain::proposal::{Kind, decision, lineage};
use thoughtstream_domain::provider::{ResponseFormat, ThinkingLevel};
use thoughtstream_domain::time::Timestamp;

const BOT: &str = "telegram:bot";
const CHAT: ChatId = ChatId::new(7);
const ME: SenderId = SenderId::new(8);

/// Writes proposals into the log of a service that watches the memory document.
#[derive(Debug)]
pub struct Proposing {
    handle: ServiceHandle,
    consumer: ConsumerKey,
    fingerprint: Sha256Hash,
    said: i64,
    before: u64,
}

fn operator() -> Operator {
    Operator { uid: 7, pid: 7, tty: None }
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a key of a test")
}

impl Proposing {
    /// Registers the agent that will propose.
    pub async fn through(handle: ServiceHandle) -> Self {
        let consumer = ConsumerKey::parse("talk@1").expect("a consumer of a test");
        let fingerprint = Sha256Hash::of(b"a declaration of a test");
        let made = Self { handle, consumer, fingerprint, said: 0, before: 0 };
        let registered = Registered {
            consumer: made.consumer.clone(),
            fingerprint,
            canonical: "{}".to_owned(),
            position: 0,
            at: Timestamp::from_millis(1),
        };
        made.commit(Commit { rows: vec![Row::Declaration(registered)], ..Commit::default() }).await;
        made
    }

    /// Goes on after a restart of the service.
    pub fn goes_on(&mut self, handle: ServiceHandle) {
        self.handle = handle;
    }

    async fn commit(&self, commit: Commit) -> Vec<Event> {
        let verdict = self.handle.decide(commit).await.expect("the log takes it");
        let Verdict::Committed(placed) = verdict else { panic!("{verdict:?}") };
        let reader = self.handle.reader();
        let event = |id: &EventId| reader.event(id).expect("the log is read").expect("it was written");
        placed.iter().map(|placed| event(&placed.id)).collect()
    }

    async fn message(&mut self) -> Event {
        self.said += 1;
        let message = TelegramMessage {
            update: UpdateId::new(self.said),
            chat: CHAT,
            sender: ME,
            message: MessageId::new(self.said),
            sent_at: Timestamp::from_millis(self.said),
            text: MessageText::new("Remember that I moved to Lisbon.".to_owned()),
            images: Vec::new(),
            rejected: Vec::new(),
            reply_to: None,
            album: None,
            edited: false,
        };
        let source = SourceId::parse(BOT).expect("a source of a test");
        let actor = Actor::ours(ActorKind::Producer, "telegram");
        let mut envelope =
            Envelope::new(source, key(&format!("update/{}", self.said)), Privacy::Sensitive, actor);
        envelope.correlation = Some(correlation(CHAT));
        let said = Commit { appends: vec![message.candidate(envelope)], ..Commit::default() };
        self.commit(said).await.remove(0)
    }

    fn packet(&self, message: &Event) -> Packet {
        let reader = self.handle.reader();
        let current = Current::of(message).expect("a message of a test");
        let source = SourceId::parse(MEMORY_SOURCE).expect("the memory's source");
        let wanted = [Subscription::new(source, vec![MEMORY_PATH.to_owned()], true).expect("a plain path")];
        let documents = resolve(&mut &reader, &wanted, 10_000).expect("the memory document is known");
        let capabilities =
            Capabilities { privacy: Privacy::Sensitive, tools: Vec::new(), external_actions: false };
        let trusted = Trusted {
            prompt: "Talk.",
            capabilities: &capabilities,
            answer: "",
            documents: &documents,
            takes_images: false,
            proposals: None,
        };
        let policy = Policy {
            agents: std::iter::once(self.consumer.id.clone()).collect(),
            max_events: 20,
            max_chars: 20_000,
            assistant_max_turns: None,
        };
        let evidence = reader.chat_before(&message.source, &current);
        let composed = conversation(&current, evidence, &policy, &trusted).expect("it fits");
        let contract = Contract::observation();
        let memory = documents.references().iter().find_map(MemoryTarget::of);
        let subject = Subject {
            consumer: self.consumer.clone(),
            fingerprint: self.fingerprint,
            triggers: vec![message.id],
            prompt: None,
            contract: ContractRevision { name: contract.kind().clone(), sha256: *contract.hash() },
            runtime: Runtime {
                profile: "local".to_owned(),
                model: "small".to_owned(),
                execution_adapter_revision: thoughtstream_domain::lifecycle::EXECUTION_ADAPTER_REVISION
                    .to_owned(),
                model_adapter: None,
            },
            capabilities,
            images: Vec::new(),
            proposals: Some(ProposalCapability {
                kinds: [Kind::MemoryChange].into(),
                memory,
                correction_targets: Vec::new(),
                evidence: [message.id].into(),
                focus_required: false,
            }),
        };
        let asking = Asking {
            max_output_tokens: 400,
            thinking: ThinkingLevel::Off,
            response: ResponseFormat::Text,
            stream: false,
        };
        Packet::seal(subject, asking, composed).expect("a packet of a test")
    }

    /// Has the agent propose a change of the memory document as it is now.
    pub async fn propose(&mut self, operation: Operation, text: &str) -> EventId {
        let message = self.message().await;
        let packet = self.packet(&message);
        let frame = Frame {
            consumer: self.consumer.clone(),
            fingerprint: self.fingerprint,
            privacy_floor: Privacy::Sensitive,
            incarnation: self.handle.incarnation(),
            now: Timestamp::from_millis(2),
        };
        let mut execution = Execution::fix(&frame, std::slice::from_ref(&message));
        let mut open = execution.open(&frame, self.before);
        self.before = message.sequence;
        open.preconditions.push(packet.precondition());
        open.rows.extend(packet.rows());
        self.commit(open).await;
        let contract = Contract::observation();
        let parts = [FinalPart::text("I saved that as a memory suggestion.")];
        let accepted = judge(&contract, Mode::ConversationText, &parts, Stop::End).expect("a plain reply");
        let provenance = Provenance { provider: "local".to_owned(), model: "small".to_owned() };
        let observation =
            MessageObservation::of(accepted, execution.stamp(), packet.sha256(), provenance.clone());
        let output = execution.output_id(&MessageObservation::kind(), 0);
        let bound = Bound::Memory {
            target: packet.proposals().and_then(|it| it.memory.clone()).expect("a target"),
            operation,
            proposed_text: ProposedText::new(text.to_owned()).expect("a text that fits"),
            reason: Reason::new("They said so.".to_owned()).expect("a reason that fits"),
            evidence: vec![message.id],
        };
        let proposer = Proposer {
            run: execution.run_id(),
            output,
            trigger: message.id,
            agent: self.consumer.clone(),
            fingerprint: self.fingerprint,
            provider: provenance.provider,
            model: provenance.model,
            snapshot: packet.sha256(),
        };
        let proposed = bound.proposed(proposer, None).expect("a memory change corrects nothing");
        let made = thoughtstream_domain::lifecycle::Made {
            outputs: vec![observation.output()],
            proposals: vec![proposed.event(&execution.stamp())],
        };
        let settled = execution.complete(&frame, frame.now, &self.handle.registry(), made);
        let events = self.commit(settled.expect("it fits its types")).await;
        events[1].id
    }

    /// Makes a person's decision as the command does.
    pub async fn decide(&self, proposal: &EventId, disposition: Disposition) -> EventId {
        let reader = self.handle.reader();
        let proven = lineage::prove(&reader, proposal).expect("a whole lineage");
        let submission = Reference::parse("test").expect("a name");
        let commit = decision::decide(&proven, disposition, submission, &operator()).expect("it fits");
        self.commit(commit).await[0].id
    }
}
