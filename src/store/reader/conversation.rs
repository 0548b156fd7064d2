//! The evidence of one chat, newest message first, and the documents a context is made of.
//!
//! Messages are found by the rows that count a chat's messages, replies among what the log derived from each
//! message. A page is read at a time, so that a long history costs what is looked at of it.

use std::collections::VecDeque;

use thoughtstream_domain::commit::Document;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::conversation::correction;
use thoughtstream_domain::conversation::evidence::{Completion, Evidence, Message, Party, Reply, Stretch};
use thoughtstream_domain::conversation::reconstruct::Current;
use thoughtstream_domain::event::{Event, Payload, Reference};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, EventId, SourceId};
use thoughtstream_domain::judgment::{Given, Judged, project};
use thoughtstream_domain::packet::ContractRevision;
use thoughtstream_domain::packet::documents::Library;
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::delivery::{self, DeliveryClaimed, DeliveryDelivered, Route};
use thoughtstream_domain::payload::judgment::{JudgmentRetracted, TrainingExample};
use thoughtstream_domain::payload::output::MessageObservation;
use thoughtstream_domain::payload::run::RunCompleted;
use thoughtstream_domain::payload::telegram::{TelegramMessage, correlation};
use thoughtstream_domain::privacy::Privacy;

use super::{Place, ReadTable, Reader, SnapshotError, View};
use crate::codec::be64;
use crate::correlated::{self, Count};
use crate::names::NameKind;
use crate::record;
use crate::rows::{At, RowError};
use crate::tables::{Key, Table, key, position_key};

/// How many messages, with their replies, are read in one short transaction.
const PAGE_MESSAGES: usize = 32;

/// Is the evidence of one chat; see the module's page.
#[derive(Debug)]
pub struct Chat<'r> {
    reader: &'r Reader,
    channel: SourceId,
    correlation: Reference,
    party: Party,
    /// The message that is answered now.
    now: u64,
    /// Everything at or behind this position was given or is in the page.
    before: u64,
    /// The position of the last message that was given.
    given: u64,
    page: VecDeque<(Message, Vec<Reply>)>,
    replies: Vec<Reply>,
}

impl Reader {
    /// Reads the conversation that a message stands in, backwards from it.
    #[must_use]
    pub fn chat_before(&self, channel: &SourceId, current: &Current) -> Chat<'_> {
        Chat {
            reader: self,
            channel: channel.clone(),
            correlation: correlation(current.party.chat),
            party: current.party,
            now: current.position,
            before: current.position,
            given: current.position,
            page: VecDeque::new(),
            replies: Vec::new(),
        }
    }
}

impl Chat<'_> {
    /// Returns the keys of the chat's rows from the first up to, without, a position; none if the log has no such row.
    fn rows_before(&self, position: u64) -> Option<[Key; 2]> {
        let names = &self.reader.shared.names;
        let source = names.number(NameKind::Source, self.channel.as_str())?;
        let kind = names.number(NameKind::Type, TelegramMessage::NAME)?;
        Some([0, position].map(|at| correlated::key(source, kind, self.correlation.as_str(), at)))
    }

    fn fill(&mut self) -> Result<(), RowError> {
        let Some([first, end]) = self.rows_before(self.before) else { return Ok(()) };
        let look = Look { kinds: Kinds::of(self.reader), now: self.now };
        let party = self.party;
        let page = self.reader.view(|view| {
            let (rows, events) = (view.table(Table::Correlated)?, view.table(Table::Events)?);
            let (children, mut page) = (view.table(Table::Children)?, VecDeque::new());
            let range = rows.range(&first[..]..&end[..]).map_err(RowError::storage)?;
            for row in range.rev().take(PAGE_MESSAGES) {
                let (key, _) = row.map_err(RowError::storage)?;
                let position = correlated::position(key.value());
                let stored = view.stored(&events, position)?;
                let event = stored.ok_or_else(|| RowError::damaged(Table::Correlated, position))?.event;
                let tables = Tables { view, events: &events, children: &children };
                let replies = look.replies(&tables, position)?;
                page.push_back((message(&event, party)?, replies));
            }
            Ok(page)
        })?;
        self.before = page.back().map_or(0, |(message, _)| message.position);
        self.page = page;
        Ok(())
    }
}

/// Reads a message; one whose payload was redacted has nothing left to show, nor who wrote it.
fn message(event: &Event, party: Party) -> Result<Message, RowError> {
    if event.payload == Payload::Redacted {
        let (id, position, privacy) = (event.id, event.position, event.privacy);
        return Ok(Message { id, position, party, text: Content::new(String::new()), images: 0, privacy });
    }
    let current = Current::of(event).map_err(|_| RowError::damaged(Table::Events, event.position))?;
    let Current { id, position, party, text, images, privacy, .. } = current;
    Ok(Message { id, position, party, text, images: images.len(), privacy })
}

impl Evidence for Chat<'_> {
    type Error = RowError;

    fn message(&mut self) -> Result<Option<Message>, RowError> {
        if self.page.is_empty() && self.before > 0 {
            self.fill()?;
        }
        let Some((message, replies)) = self.page.pop_front() else { return Ok(None) };
        self.given = message.position;
        self.replies = replies;
        Ok(Some(message))
    }

    fn replies(&mut self, message: &Message) -> Result<Vec<Reply>, RowError> {
        let is_last = message.position == self.given;
        Ok(if is_last { std::mem::take(&mut self.replies) } else { Vec::new() })
    }

    fn rest(&mut self) -> Result<Option<Stretch>, RowError> {
        let Some([first, end]) = self.rows_before(self.given) else { return Ok(None) };
        self.reader.view(|view| {
            let rows = view.table(Table::Correlated)?;
            let mut range = rows.range(&first[..]..&end[..]).map_err(RowError::storage)?;
            let Some(last) = range.next_back() else { return Ok(None) };
            let (last, count) = last.map_err(RowError::storage)?;
            let count = Count::read(count.value()).at(Table::Correlated, "row")?;
            let oldest = range.next().transpose().map_err(RowError::storage)?;
            let oldest = oldest.map(|(key, _)| correlated::position(key.value()));
            let last = correlated::position(last.value());
            let events = view.table(Table::Events)?;
            let id = |position| -> Result<EventId, RowError> {
                let record = events.get(&position_key(position)[..]).map_err(RowError::storage)?;
                let record = record.ok_or_else(|| RowError::damaged(Table::Correlated, position))?;
                Ok(record::read_facts(record.value()).at(Table::Events, position)?.id)
            };
            let (first, last) = (id(oldest.unwrap_or(last))?, id(last)?);
            Ok(Some(Stretch { first, last, count: count.count, hash: count.hash }))
        })
    }

    fn frozen_contract(
        &mut self,
        completion: &Completion,
        snapshot: &Sha256Hash,
    ) -> Result<Option<ContractRevision>, RowError> {
        match self.reader.packet(&completion.consumer, &completion.execution) {
            Ok(packet) => {
                Ok(packet.filter(|packet| packet.sha256() == *snapshot).map(|p| p.contract().clone()))
            }
            Err(SnapshotError::Row(error)) => Err(error),
            // What cannot be shown to be that context shows nothing.
            Err(SnapshotError::Packet(_) | SnapshotError::Incomplete(_)) => Ok(None),
        }
    }
}

/// The numbers of the types that a reply is made of; types the log has never seen have none.
struct Kinds {
    completed: Option<u32>,
    output: Option<u32>,
    claimed: Option<u32>,
    ends: [Option<u32>; 3],
    judgment: Option<u32>,
    retracted: Option<u32>,
}

impl Kinds {
    fn of(reader: &Reader) -> Self {
        let number = |name| reader.shared.names.number(NameKind::Type, name);
        Self {
            completed: number(RunCompleted::NAME),
            output: number(MessageObservation::NAME),
            claimed: number(DeliveryClaimed::NAME),
            ends: ends(reader),
            judgment: number(TrainingExample::NAME),
            retracted: number(JudgmentRetracted::NAME),
        }
    }
}

/// Is what the children of events are read from.
pub(super) struct Tables<'v> {
    pub(super) view: &'v View<'v>,
    pub(super) events: &'v ReadTable,
    pub(super) children: &'v ReadTable,
}

impl Tables<'_> {
    /// Returns the children of an event that are of one of these types; others are told by their header alone.
    pub(super) fn children(&self, parent: u64, kinds: &[Option<u32>]) -> Result<Vec<Event>, RowError> {
        let mut found = Vec::new();
        let (from, to) = (key!(parent), key!(parent.saturating_add(1)));
        for row in self.children.range(&from[..]..&to[..]).map_err(RowError::storage)? {
            let (key, _) = row.map_err(RowError::storage)?;
            let position = be64(key.value().get(8..).unwrap_or_default()).at(Table::Children, parent)?;
            let record = self.events.get(&position_key(position)[..]).map_err(RowError::storage)?;
            let record = record.ok_or_else(|| RowError::damaged(Table::Children, position))?;
            let (_, kind) = record::read_numbers(record.value()).at(Table::Events, position)?;
            if kinds.contains(&Some(kind)) {
                let stored = record::read(position, record.value(), &self.view.shared().names);
                let stored = stored.at(Table::Events, position)?;
                found.push(self.view.held(self.events, stored, Place::at(position))?.event);
            }
        }
        Ok(found)
    }

    /// Returns what became of a claim, in order: its end, and behind one that only a person moves what their word led
    /// to, which hangs on that end. `ends` are the numbers of the types that end a claim.
    pub(super) fn ends(&self, claim: u64, ends: &[Option<u32>; 3]) -> Result<Vec<Event>, RowError> {
        let mut found = self.children(claim, ends)?;
        let mut next = 0;
        while let Some(end) = found.get(next) {
            if end.kind != DeliveryDelivered::kind() {
                let more = self.children(end.position, ends)?;
                found.extend(more);
            }
            next += 1;
        }
        Ok(found)
    }
}

/// Returns the numbers of the types that end a claim.
pub(super) fn ends(reader: &Reader) -> [Option<u32>; 3] {
    delivery::ends().map(|name| reader.shared.names.number(NameKind::Type, name.as_str()))
}

/// Looks for the replies to one message.
struct Look {
    kinds: Kinds,
    now: u64,
}

impl Look {
    /// Returns what was delivered with a message as its parent, in the order of the receipts; an output that was
    /// sent twice at a person's word is one reply.
    fn replies(&self, tables: &Tables<'_>, message: u64) -> Result<Vec<Reply>, RowError> {
        let kinds = &self.kinds;
        if kinds.ends == [None; 3] {
            return Ok(Vec::new());
        }
        let settled = tables.children(message, &[kinds.completed, kinds.output])?;
        let mut completions = Vec::new();
        for completed in settled.iter().filter_map(|event| event.payload_as().ok()) {
            completions.push(completion(tables, completed)?);
        }
        let mut found = Vec::new();
        for event in &settled {
            // What was redacted, or is of a contract that is no longer known, cannot be shown.
            let Ok(judged) = Judged::of(event) else { continue };
            if let Some((receipt, delivered)) = self.receipt(tables, event.position)? {
                found.push(self.reply(tables, &judged, &receipt, &delivered, &completions)?);
            }
        }
        found.sort_by_key(|reply| reply.position);
        Ok(found)
    }

    /// Returns the first receipt of an output, that of a direct reply before any other.
    fn receipt(
        &self,
        tables: &Tables<'_>,
        output: u64,
    ) -> Result<Option<(Event, DeliveryDelivered)>, RowError> {
        let mut receipts = Vec::new();
        for claim in tables.children(output, &[self.kinds.claimed])? {
            receipts.extend(tables.ends(claim.position, &self.kinds.ends)?);
        }
        let read = receipts.into_iter().filter_map(|event| {
            let delivered: DeliveryDelivered = event.payload_as().ok()?;
            Some((event, delivered))
        });
        Ok(read
            .min_by_key(|(event, delivered)| (delivered.binding.route != Route::DirectReply, event.position)))
    }

    fn reply(
        &self,
        tables: &Tables<'_>,
        judged: &Judged,
        receipt: &Event,
        delivered: &DeliveryDelivered,
        completions: &[Completion],
    ) -> Result<Reply, RowError> {
        let binding = &delivered.binding;
        let mut given = Vec::new();
        for judgment in tables.children(judged.event.position, &[self.kinds.judgment])? {
            let retracted = !tables.children(judgment.position, &[self.kinds.retracted])?.is_empty();
            given.extend(Given::of(&judgment, retracted));
        }
        let settles = |one: &&Completion| one.outputs.contains(&judged.event.id);
        let is_about = |one: &&Completion| settles(one) || one.run == binding.run;
        let contract =
            ContractRevision { name: judged.contract.kind().clone(), sha256: *judged.contract.hash() };
        Ok(Reply {
            receipt: receipt.id,
            position: receipt.position,
            bot: binding.bot.clone(),
            party: Party { chat: binding.chat, sender: binding.sender },
            root: binding.root,
            run: binding.run,
            named: binding.output,
            output: judged.event.id,
            output_root: judged.event.root,
            text: Content::new(judged.observation.summary().to_owned()),
            privacy: judged.event.privacy.join(receipt.privacy),
            contract,
            snapshot: judged.snapshot,
            completion: completions.iter().find(settles).cloned(),
            completions: completions.iter().filter(is_about).count(),
            correction: correction::correction(judged, &project(judged, &given), self.now),
        })
    }
}

/// Reads what a completion settled; proposals that it names and the log has not are missing from it.
fn completion(tables: &Tables<'_>, completed: RunCompleted) -> Result<Completion, RowError> {
    let RunCompleted { stamp, outputs, proposals, .. } = completed;
    let mut proposed = Vec::new();
    for id in &proposals {
        let Some(position) = tables.view.position_of(id)? else { continue };
        proposed.extend(tables.view.stored(tables.events, position)?.map(|stored| stored.event));
    }
    Ok(Completion {
        run: stamp.run,
        execution: stamp.execution,
        consumer: stamp.consumer,
        outputs,
        proposals,
        proposed,
    })
}

impl Library for &Reader {
    type Error = RowError;

    fn current(&mut self, source: &SourceId, path: &str) -> Result<Option<Document>, RowError> {
        self.document_at(source, path)
    }

    fn version(
        &mut self,
        source: &SourceId,
        id: &DocumentId,
        revision: u64,
    ) -> Result<Option<Document>, RowError> {
        Reader::version(self, source, id, revision)
    }

    fn content(&mut self, sha256: &Sha256Hash) -> Result<Option<Content<Vec<u8>>>, RowError> {
        self.blob(sha256)
    }

    /// A folder's class is a setting of the whole folder, so its newest event says it.
    fn privacy(&mut self, source: &SourceId) -> Result<Privacy, RowError> {
        let Some(head) = self.head(source)? else { return Ok(Privacy::Private) };
        Ok(self.event_at(head.position)?.map_or(Privacy::Private, |event| event.privacy))
    }
}
