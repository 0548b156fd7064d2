//! A proposed memory change with everything behind it, written as the service writes it: the message, the sealed
//! context, the completed run and its receipt.

use thoughtstream_actors::service::ServiceHandle;
use thoughtstream_domain::commit::{Commit, Registered, Row, Verdict};
use thoughtstream_domain::event::{Event, Reference};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId};
use thoughtstream_domain::lifecycle::{AdapterRevision, Execution, Frame};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::output::MessageObservation;
use thoughtstream_domain::payload::proposal::{Disposition, Proposer};
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::bind::Bound;
use thoughtstream_domain::proposal::call::Operation;
use thoughtstream_domain::proposal::text::{ProposedText, Reason};
use thoughtstream_domain::proposal::{Kind, decision, lineage};
use thoughtstream_domain::time::Timestamp;

use crate::talk;

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
        let text = "Remember that I moved to Lisbon.";
        let said = talk::message(self.said, text, Timestamp::from_millis(self.said));
        self.commit(Commit { appends: vec![said], ..Commit::default() }).await.remove(0)
    }

    /// Has the agent propose a change of the memory document as it is now.
    pub async fn propose(&mut self, operation: Operation, text: &str) -> EventId {
        let message = self.message().await;
        let frame = Frame {
            consumer: self.consumer.clone(),
            fingerprint: self.fingerprint,
            privacy_floor: Privacy::Sensitive,
            incarnation: self.handle.incarnation(),
            now: Timestamp::from_millis(2),
            adapter: AdapterRevision::observer_cell(),
        };
        let mut execution = Execution::fix(&frame, std::slice::from_ref(&message));
        let packet = talk::seal(&self.handle.reader(), &execution, &message, &[Kind::MemoryChange]);
        let mut open = execution.open(&frame, self.before);
        self.before = message.sequence;
        open.preconditions.push(packet.precondition());
        open.rows.extend(packet.rows());
        self.commit(open).await;
        let observation = talk::said("I saved that as a memory suggestion.", &execution, &packet);
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
            provider: observation.provenance.provider.clone(),
            model: observation.provenance.model.clone(),
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
