//! A log in which an agent has proposed one thing of each kind, made as the service makes it: messages, sealed contexts,
//! settled runs, a delivered reply, and proposals beside the last output.

use std::sync::Arc;

use serde_json::json;
use thoughtstream_domain::commit::{Commit, Document, Registered, Row};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Candidate, Event, Parent};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, DeliveryId, DocumentId, EventId, RunId};
use thoughtstream_domain::lifecycle::{AdapterRevision, Execution, Frame, Made};
use thoughtstream_domain::packet::Packet;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::{
    DeliveryBinding, DeliveryClaimed, DeliveryDelivered, Route, source as deliveries,
};
use thoughtstream_domain::payload::file::{FileAdded, FileChanged};
use thoughtstream_domain::payload::output::MessageObservation;
use thoughtstream_domain::payload::proposal::{
    CorrectionProposed, False, FocusAuthority, FocusProposed, FocusResolution, MemoryChangeProposed,
    ProposalState, Proposed, Proposer,
};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::call::Operation;
use thoughtstream_domain::proposal::capability::{MEMORY_PATH, MemoryTarget, ProposalCapability};
use thoughtstream_domain::proposal::text::Bounded;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Store;

use crate::talk::{self, CHAT, SENDER, bot, envelope, memory_source};

/// The memory document, as it is before anything is proposed.
pub const MEMORY: &str = "---\nid: memory\n---\n\n# Memory\n\nLives in Porto.\nLikes tea.\n";
/// What is proposed to be added to it.
pub const ADDED: &str = "Moved to Lisbon.";
/// What was sent.
pub const SENT: &str = "You live in Porto.";
/// What is proposed to stand in its place.
pub const INSTEAD: &str = "You live in Lisbon.";

/// Says in what a story differs from one in which everything is as it should be.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What is written into the memory document, as the proposal has it.
    pub added: String,
    /// What stands in the place of the reply, as the proposal has it.
    pub instead: String,
    /// Why, as every proposal has it.
    pub reason: String,
    /// Whether the memory change cites an event that its context did not admit.
    pub strays: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            added: ADDED.to_owned(),
            instead: INSTEAD.to_owned(),
            reason: "They said so.".to_owned(),
            strays: false,
        }
    }
}

/// Is what there is in the log.
#[derive(Debug, Clone)]
pub struct Story {
    /// The agent.
    pub agent: ConsumerKey,
    /// The first message.
    pub first: Event,
    /// The reply to it.
    pub reply: Event,
    /// The receipt of its delivery.
    pub receipt: Event,
    /// The message that the proposing run answered.
    pub trigger: Event,
    /// The proposing run.
    pub run: RunId,
    /// Its output.
    pub output: Event,
    /// Its receipt.
    pub completed: Event,
    /// The proposed memory change.
    pub memory: Event,
    /// The proposed correction.
    pub correction: Event,
    /// The proposed focus.
    pub focus: Event,
}

/// Writes stories.
struct Teller<'s> {
    store: &'s mut Store,
    frame: Frame,
    fingerprint: Sha256Hash,
    /// An event that no context admits.
    stray: EventId,
}

/// Writes a log in which everything is as the setting says.
///
/// # Panics
/// If the log refuses anything.
pub fn tell(store: &mut Store, setting: &Setting) -> Story {
    let mut teller = Teller::of(store);
    teller.register();
    teller.remember();
    let agent = teller.frame.consumer.clone();
    let first = teller.say(1, "Where do I live?");
    let (_, reply, _) = teller.answer(&first, 0, SENT, None, |_| Vec::new());
    let receipt = teller.deliver(&first, &reply);
    let trigger = teller.say(2, "I moved to Lisbon, remember that. And you were wrong.");
    let (run, output, rest) =
        teller.answer(&trigger, first.sequence, "Noted.", Some((setting, &first, &reply)), |it| {
            vec![it.memory(), it.correction(), it.focus()]
        });
    let [memory, correction, focus, completed] =
        <[Event; 4]>::try_from(rest).expect("three proposals and the end");
    Story { agent, first, reply, receipt, trigger, run, output, completed, memory, correction, focus }
}

/// Lets the agent propose once more what should stand in the place of the delivered reply.
///
/// # Panics
/// If the log refuses anything.
pub fn correct_again(store: &mut Store, story: &Story, instead: &str) -> Event {
    let setting = Setting { instead: instead.to_owned(), ..Setting::default() };
    let mut teller = Teller::of(store);
    let trigger = teller.say(3, "You are still wrong.");
    let before = story.trigger.sequence;
    let proposes = Some((&setting, &story.first, &story.reply));
    let (_, _, mut rest) = teller.answer(&trigger, before, "Noted.", proposes, |it| vec![it.correction()]);
    rest.remove(0)
}

/// Writes another version of the memory document, as if it had been edited by hand and seen.
///
/// # Panics
/// If the log refuses it.
pub fn edit_memory(store: &mut Store, text: &str) {
    store.writer.set_types(Registry::shipped().hashes()).expect("the types are ours");
    let (before, sha256) = (memory_target(), Sha256Hash::of(text.as_bytes()));
    let changed = FileChanged {
        document_id: before.document.clone(),
        revision: 2,
        path: before.path.clone(),
        bytes: text.len() as u64,
        sha256,
        content_type: before.content_type.clone(),
        previous_sha256: before.sha256,
    };
    let document = Document {
        source: before.source.clone(),
        id: before.document,
        revision: 2,
        path: before.path,
        sha256,
        bytes: text.len() as u64,
        content_type: before.content_type,
        named: Some("memory".to_owned()),
        removed: false,
        stat: None,
    };
    let bytes: Arc<[u8]> = text.as_bytes().into();
    let rows = vec![Row::Blob { sha256, bytes: Content::new(bytes) }, Row::Document(document)];
    let appends = vec![changed.candidate(envelope(&before.source, &seen_as(2)))];
    let now = Timestamp::from_millis(1_700_000_100_000);
    let verdicts = store.writer.apply(&[Commit { appends, rows, ..Commit::default() }], now);
    assert!(verdicts.expect("the log is written")[0].placed().is_some());
}

/// Returns the key under which a producer records a revision of the memory document.
fn seen_as(revision: u64) -> String {
    format!("{}@{revision}", memory_target().document)
}

/// Is what a run proposes from.
struct Proposing<'a> {
    execution: &'a Execution,
    packet: &'a Packet,
    output: EventId,
    setting: &'a Setting,
    first: &'a Event,
    reply: &'a Event,
    stray: EventId,
}

impl Proposing<'_> {
    fn proposer(&self) -> Proposer {
        Proposer {
            run: self.execution.run_id(),
            output: self.output,
            trigger: self.packet.triggers()[0],
            agent: self.packet.consumer().clone(),
            fingerprint: self.execution.fingerprint,
            provider: self.packet.runtime().profile.clone(),
            model: self.packet.runtime().model.clone(),
            snapshot: self.packet.sha256(),
        }
    }

    /// Returns what its context admits.
    fn admitted(&self) -> &ProposalCapability {
        self.packet.proposals().expect("something may be proposed")
    }

    fn reason(&self) -> Bounded<1_000> {
        Bounded::new(self.setting.reason.clone()).expect("a reason")
    }

    fn memory(&self) -> Candidate {
        let text = Bounded::<32_768>::new(self.setting.added.clone()).expect("a text");
        let proposed = MemoryChangeProposed {
            proposal_state: ProposalState::AgentProposed,
            proposer: self.proposer(),
            target: self.admitted().memory.clone().expect("the memory document"),
            operation: Operation::Append,
            text_length: text.characters(),
            text_sha256: Sha256Hash::of(text.reveal().as_bytes()),
            proposed_text: text,
            reason: self.reason(),
            evidence: if self.setting.strays {
                vec![self.stray]
            } else {
                vec![self.first.id, self.packet.triggers()[0]]
            },
            publication_eligible: False,
        };
        Proposed::Memory(proposed).event(&self.execution.stamp())
    }

    fn correction(&self) -> Candidate {
        let judged = thoughtstream_domain::judgment::Judged::of(self.reply).expect("an output");
        let replaced = judged.contract.with_display(&judged.observation, &self.setting.instead);
        let proposed = CorrectionProposed {
            proposal_state: ProposalState::AgentProposed,
            proposer: self.proposer(),
            target: self.admitted().correction_targets.last().expect("a delivered reply").clone(),
            replacement: replaced.expect("it fits"),
            reason: self.reason(),
            evidence: vec![self.reply.id],
            quality_eligible: False,
            external_export_eligible: False,
            publication_eligible: False,
        };
        Proposed::Correction(proposed).event(&self.execution.stamp())
    }

    fn focus(&self) -> Candidate {
        let declaration: thoughtstream_domain::proposal::focus::FocusDeclaration =
            serde_json::from_value(json!({
                "id": "garden", "version": 1, "lineage": { "evidence": [] },
                "scope": { "includes": ["the garden"], "excludes": [] },
                "objective": "Watch the beds.",
                "subscriptions": [{ "types": ["stream.thought.source.note"], "sources": ["notes:garden"] }],
                "budgets": { "runsPerDay": 4, "tokensPerDay": 10_000 },
                "requestedPermissions": [], "retirement": { "afterDays": 30 },
            }))
            .expect("a focus");
        let proposed = FocusProposed {
            proposal_state: ProposalState::AgentProposed,
            proposer: self.proposer(),
            declaration_fingerprint: declaration.fingerprint(),
            declaration,
            resolution: FocusResolution::default(),
            authority: FocusAuthority::default(),
        };
        Proposed::Focus(proposed).event(&self.execution.stamp())
    }
}

/// Names the version of the memory document that every story begins with.
///
/// # Panics
/// Never.
#[must_use]
pub fn memory_target() -> MemoryTarget {
    MemoryTarget {
        source: memory_source(),
        document: DocumentId::parse("doc_memory").expect("a document id"),
        path: MEMORY_PATH.to_owned(),
        revision: 1,
        sha256: Sha256Hash::of(MEMORY.as_bytes()),
        content_type: "text/markdown".to_owned(),
        bytes: MEMORY.len() as u64,
    }
}

type Proposes<'a> = Option<(&'a Setting, &'a Event, &'a Event)>;

impl<'s> Teller<'s> {
    /// Begins to write as the one agent of every story.
    fn of(store: &'s mut Store) -> Self {
        let fingerprint = Sha256Hash::of(b"declaration");
        let frame = Frame {
            consumer: ConsumerKey::parse("stream@18").expect("a key"),
            fingerprint,
            privacy_floor: Privacy::Sensitive,
            incarnation: 1,
            now: Timestamp::from_millis(1_700_000_000_000),
            adapter: AdapterRevision::observer_cell(),
        };
        store.writer.set_types(Registry::shipped().hashes()).expect("the types are ours");
        Self { store, frame, fingerprint, stray: EventId::from_bytes([0; 32]) }
    }

    fn apply(&mut self, commit: Commit) -> Vec<Event> {
        let verdicts = self.store.writer.apply(&[commit], self.frame.now).expect("the log is written");
        let placed = verdicts[0].placed().unwrap_or_else(|| panic!("{verdicts:?}")).to_vec();
        let read = |position| self.store.reader.event_at(position).expect("it is read").expect("it is there");
        placed.iter().map(|placed| read(placed.position)).collect()
    }

    fn append(&mut self, candidate: Candidate) -> Event {
        self.apply(Commit { appends: vec![candidate], ..Commit::default() }).remove(0)
    }

    fn register(&mut self) {
        let registered = Registered {
            consumer: self.frame.consumer.clone(),
            fingerprint: self.fingerprint,
            canonical: "{}".to_owned(),
            position: 0,
            at: self.frame.now,
        };
        self.apply(Commit { rows: vec![Row::Declaration(registered)], ..Commit::default() });
    }

    fn remember(&mut self) {
        let target = memory_target();
        let added = FileAdded {
            document_id: target.document.clone(),
            revision: 1,
            path: target.path.clone(),
            bytes: target.bytes,
            sha256: target.sha256,
            content_type: target.content_type.clone(),
        };
        let document = Document {
            source: target.source.clone(),
            id: target.document.clone(),
            revision: 1,
            path: target.path.clone(),
            sha256: target.sha256,
            bytes: target.bytes,
            content_type: target.content_type.clone(),
            named: Some("memory".to_owned()),
            removed: false,
            stat: None,
        };
        let bytes: Arc<[u8]> = MEMORY.as_bytes().into();
        let rows =
            vec![Row::Blob { sha256: target.sha256, bytes: Content::new(bytes) }, Row::Document(document)];
        let appends = vec![added.candidate(envelope(&target.source, &seen_as(1)))];
        self.stray = self.apply(Commit { appends, rows, ..Commit::default() })[0].id;
    }

    fn say(&mut self, number: i64, text: &str) -> Event {
        self.append(talk::message(number, text, self.frame.now))
    }

    /// Runs one execution to its end: the run, its output, and everything that was written behind the output.
    fn answer(
        &mut self,
        trigger: &Event,
        previous: u64,
        text: &str,
        proposes: Proposes<'_>,
        make: impl FnOnce(&Proposing<'_>) -> Vec<Candidate>,
    ) -> (RunId, Event, Vec<Event>) {
        let mut execution = Execution::fix(&self.frame, std::slice::from_ref(trigger));
        let kinds = if proposes.is_some() { &Kind::ALL[..] } else { &[] };
        let packet = talk::seal(&self.store.reader, &execution, trigger, kinds);
        let mut opened = execution.open(&self.frame, previous);
        opened.rows.extend(packet.rows());
        opened.preconditions.push(packet.precondition());
        self.apply(opened);
        let output = talk::said(text, &execution, &packet);
        let id = execution.output_id(&MessageObservation::kind(), 0);
        let proposals = match proposes {
            None => Vec::new(),
            Some((setting, first, reply)) => make(&Proposing {
                execution: &execution,
                packet: &packet,
                output: id,
                setting,
                first,
                reply,
                stray: self.stray,
            }),
        };
        let made = Made { outputs: vec![output.output()], proposals };
        let commit = execution.complete(&self.frame, self.frame.now, &Registry::shipped(), made);
        let mut events = self.apply(commit.expect("it settles"));
        let output = events.remove(0);
        (execution.run_id(), output, events)
    }

    fn deliver(&mut self, message: &Event, output: &Event) -> Event {
        let run = thoughtstream_domain::judgment::Judged::of(output).expect("an output").stamp.run;
        let source = deliveries(&bot());
        let binding = DeliveryBinding {
            delivery: DeliveryId::derive(&source, "direct-reply", &output.id),
            claim: 1,
            route: Route::DirectReply,
            bot: bot(),
            chat: CHAT,
            sender: Some(SENDER),
            root: message.id,
            run,
            output: output.id,
        };
        let claimed = DeliveryClaimed {
            binding: binding.clone(),
            text_sha256: Sha256Hash::of(SENT.as_bytes()),
            units: 18,
            incarnation: 1,
            holder: 1,
        };
        let key = binding.key().as_str().to_owned();
        let claimed = claimed.candidate(envelope(&source, &key).with_parents(vec![Parent::of(output)]));
        let claimed = self.append(claimed);
        let receipt = DeliveryDelivered { binding, message: None, sent_at: None, confirmed_by: None };
        self.append(receipt.candidate(envelope(&source, &key).with_parents(vec![Parent::of(&claimed)])))
    }
}
