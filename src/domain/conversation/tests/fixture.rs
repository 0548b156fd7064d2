//! Conversations written down as lists.

pub(crate) use super::shape::compose;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use crate::content::Content;
use crate::contract::Contract;
use crate::conversation::correction::Correction;
use crate::conversation::evidence::{Completion, Evidence, Message, Party, Reply, Stretch, link};
use crate::conversation::reconstruct::Current;
use crate::conversation::select::Policy;
use crate::hash::ChainHash;
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, ConsumerKey, EventId, ExecutionId, RunId, SourceId};
use crate::judgment::Hidden;
use crate::packet::ContractRevision;
use crate::payload::telegram::{ChatId, ImageArtifact, SenderId};
use crate::privacy::Privacy;

pub(crate) const ME: Party = Party { chat: ChatId::new(7), sender: Some(SenderId::new(8)) };

pub(crate) fn message_id(n: usize) -> EventId {
    id("message", n)
}

pub(crate) fn output_id(n: usize) -> EventId {
    id("output", n)
}

pub(crate) fn id(what: &'static str, n: usize) -> EventId {
    EventId::from_bytes(crate::hash::tagged("tests", &[what.as_bytes(), &n.to_le_bytes()]))
}

pub(crate) fn run(n: usize) -> RunId {
    RunId::derive(&execution(n), 1)
}

fn execution(n: usize) -> ExecutionId {
    ExecutionId::from_bytes([u8::try_from(n % 251).unwrap(); 20])
}

pub(crate) fn bot() -> SourceId {
    SourceId::parse("telegram:bot").unwrap()
}

/// The contract that every reply names, and every context was frozen with.
pub(crate) fn contract() -> ContractRevision {
    let contract = Contract::observation();
    ContractRevision { name: contract.kind().clone(), sha256: *contract.hash() }
}

pub(crate) fn snapshot(n: usize) -> Sha256Hash {
    Sha256Hash::of(&n.to_le_bytes())
}

/// Message number `n` of a conversation; messages stand ten positions apart.
pub(crate) fn message(n: usize, text: &str) -> Message {
    Message {
        id: message_id(n),
        position: 10 * (n as u64 + 1),
        party: ME,
        text: Content::new(text.to_owned()),
        images: 0,
        privacy: Privacy::Private,
    }
}

/// The delivered reply to message number `n`.
pub(crate) fn reply(n: usize, text: &str) -> Reply {
    Reply {
        receipt: id("receipt", n),
        position: 10 * (n as u64 + 1) + 9,
        bot: bot(),
        party: ME,
        root: message_id(n),
        run: run(n),
        named: output_id(n),
        output: output_id(n),
        output_root: message_id(n),
        text: Content::new(text.to_owned()),
        contract: contract(),
        snapshot: snapshot(n),
        privacy: Privacy::Private,
        completions: 1,
        completion: Some(Completion {
            run: run(n),
            execution: execution(n),
            consumer: ConsumerKey::new(ConsumerId::parse("talk").unwrap(), 3),
            outputs: vec![output_id(n)],
            proposals: Vec::new(),
            proposed: Vec::new(),
        }),
        correction: None,
    }
}

/// A correction of the reply to message number `n` that counts.
pub(crate) fn corrected(n: usize, text: &str) -> Option<Result<Correction, Hidden>> {
    Some(Ok(Correction {
        projection: format!("projection-{n}"),
        judgment: id("judgment", n),
        replacement: Content::new(text.to_owned()),
    }))
}

/// A conversation: messages with their replies, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chat {
    pub(crate) turns: Vec<(Message, Vec<Reply>)>,
    pub(crate) read: usize,
    /// The contexts that are not in the log, or were frozen with another contract.
    pub(crate) frozen: BTreeMap<RunId, Option<ContractRevision>>,
}

impl Chat {
    /// Questions `q0`, `q1` … each with its answer `a0`, `a1` …
    pub(crate) fn of(count: usize) -> Self {
        let turn = |n| (message(n, &format!("q{n}")), vec![reply(n, &format!("a{n}"))]);
        Self { turns: (0..count).map(turn).collect(), ..Self::default() }
    }

    /// The next message, to be answered now.
    pub(crate) fn current(&self, text: &str) -> Current {
        let next = message(self.turns.len(), text);
        Current {
            id: next.id,
            position: next.position,
            bot: bot(),
            party: ME,
            text: next.text,
            images: Vec::new(),
            privacy: Privacy::Private,
        }
    }

    /// All ids that could become part of a context.
    pub(crate) fn candidates(&self) -> BTreeSet<EventId> {
        let ids = |(message, replies): &(Message, Vec<Reply>)| {
            std::iter::once(message.id).chain(replies.iter().map(|reply| reply.output)).collect::<Vec<_>>()
        };
        self.turns.iter().flat_map(ids).collect()
    }
}

impl Evidence for Chat {
    type Error = Infallible;

    fn message(&mut self) -> Result<Option<Message>, Infallible> {
        self.read += 1;
        let at = self.turns.len().checked_sub(self.read);
        Ok(at.map(|at| self.turns[at].0.clone()))
    }

    fn replies(&mut self, message: &Message) -> Result<Vec<Reply>, Infallible> {
        let found = self.turns.iter().find(|(other, _)| other.id == message.id);
        Ok(found.map(|(_, replies)| replies.clone()).unwrap_or_default())
    }

    fn rest(&mut self) -> Result<Option<Stretch>, Infallible> {
        let rest = &self.turns[..self.turns.len().saturating_sub(self.read)];
        let (Some((first, _)), Some((last, _))) = (rest.first(), rest.last()) else { return Ok(None) };
        let hash = rest.iter().fold(ChainHash::START, |hash, (message, _)| link(hash, &message.id));
        Ok(Some(Stretch { first: first.id, last: last.id, count: rest.len() as u64, hash }))
    }

    fn frozen_contract(
        &mut self,
        completion: &Completion,
        _: &Sha256Hash,
    ) -> Result<Option<ContractRevision>, Infallible> {
        Ok(self.frozen.get(&completion.run).cloned().unwrap_or(Some(contract())))
    }
}

pub(crate) fn policy(max_events: usize, max_chars: usize) -> Policy {
    let agents = [ConsumerId::parse("talk").unwrap()].into();
    Policy { agents, max_events, max_chars, assistant_max_turns: None }
}

pub(crate) fn image(n: u8) -> (ImageArtifact, Vec<u8>) {
    let bytes = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![n; 16]].concat();
    (ImageArtifact::of(&bytes).unwrap(), bytes)
}
