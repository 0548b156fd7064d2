//! The walk over all events: each against itself, its source's chain, its parents and its indexes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use redb::ReadableTableMetadata;
use thoughtstream_domain::accounting::{Charge, Released, Settled};
use thoughtstream_domain::event::Payload;
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::{ConsumerKey, EventId, RunId, SourceId};
use thoughtstream_domain::lifecycle::RunState;
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::run::{Reserved, RunStamp};
use thoughtstream_domain::payload::system::{DamageSkipped, Redacted};
use thoughtstream_domain::time::Timestamp;

use super::named::Named;
use super::{FindingKind, Findings, Head};
use crate::codec::be64;
use crate::correlated::{self, Count};
use crate::names::{NameKind, astray};
use crate::reader::{ReadTable, View};
use crate::record::{self, Facts, Stored};
use crate::rows::RowError;
use crate::tables::{Table, bucket, idempotency_key, key, position_key, short_id};
use crate::writer::Head as SourceRow;

/// How many of the last events are kept at hand as possible parents.
const RECENT: usize = 1024;

/// What the walk remembers from one event to the next.
pub(super) struct Walk {
    position: u64,
    begun: bool,
    recorded_at: Timestamp,
    heads: BTreeMap<SourceId, (u64, ChainHash, u64)>,
    recent: VecDeque<Option<Facts>>,
    children: u64,
    correlated: u64,
    named: Named,
    redacted: BTreeSet<EventId>,
    redactions: BTreeSet<EventId>,
    since: Option<Head>,
    extends: bool,
    /// What people passed because it was damaged: no execution holds it, whatever became of it since.
    pub(super) passed: BTreeSet<(ConsumerKey, SourceId, u64)>,
    /// The first eight bytes of each run id, once for each event of that kind; sorted when all are there.
    pub(super) received: Vec<u64>,
    pub(super) ended: Vec<(u64, u8)>,
    /// What events say about reservations: each run's estimate and charge, by the same bytes of its id.
    pub(super) reserved: BTreeMap<u64, Spending>,
}

/// What the events of one run say that it may spend, how that was settled, and what it sent.
#[derive(Default)]
pub(super) struct Spending {
    pub(super) reserved: Vec<Reserved>,
    pub(super) settled: Vec<Settled>,
    /// Whether its terminal event is one of an attempt of which nothing was sent.
    pub(super) may_be_unsent: bool,
    /// How many requests its traces count.
    pub(super) requests: Vec<u32>,
}

/// The tables the walk looks into.
struct Tables {
    events: ReadTable,
    sequences: ReadTable,
    keys: ReadTable,
    ids: ReadTable,
    types: ReadTable,
    children: ReadTable,
    correlated: ReadTable,
    definitions: ReadTable,
}

impl Tables {
    fn open(view: &View<'_>) -> Result<Self, RowError> {
        Ok(Self {
            events: view.table(Table::Events)?,
            sequences: view.table(Table::Sequences)?,
            keys: view.table(Table::Keys)?,
            ids: view.table(Table::Ids)?,
            types: view.table(Table::Types)?,
            children: view.table(Table::Children)?,
            correlated: view.table(Table::Correlated)?,
            definitions: view.table(Table::Definitions)?,
        })
    }
}

/// The endings of lifecycle types that end an attempt, in the order of the codes used here.
pub(super) const TERMINALS: [&str; 5] = ["completed", "failed", "blocked", "status-unknown", "abandoned"];

/// Returns the part of a run id that the walk remembers.
pub(super) fn run_digest(id: &RunId) -> u64 {
    let bytes: [u8; 8] = id.as_bytes()[..8].try_into().unwrap_or_default();
    u64::from_be_bytes(bytes)
}

impl Walk {
    pub(super) fn new(since: Option<Head>) -> Self {
        Self {
            position: 0,
            begun: false,
            recorded_at: Timestamp::from_millis(i64::MIN),
            heads: BTreeMap::new(),
            recent: VecDeque::new(),
            children: 0,
            correlated: 0,
            named: Named::default(),
            redacted: BTreeSet::new(),
            redactions: BTreeSet::new(),
            extends: since.is_none_or(|since| since == Head::of(0, &BTreeMap::new())),
            since,
            passed: BTreeSet::new(),
            received: Vec::new(),
            ended: Vec::new(),
            reserved: BTreeMap::new(),
        }
    }

    /// Returns the position of the last event walked.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns the head digest at the last event walked.
    pub(super) fn head(&self) -> Head {
        let links =
            self.heads.iter().map(|(source, (sequence, chain, _))| (source.clone(), (*sequence, *chain)));
        Head::of(self.position, &links.collect())
    }

    /// Walks the events up to a position.
    pub(super) fn page(
        &mut self,
        view: &View<'_>,
        end: u64,
        findings: &mut Findings,
    ) -> Result<(), RowError> {
        let tables = Tables::open(view)?;
        self.begun = true;
        while self.position < end {
            self.position += 1;
            let position = self.position;
            let place = format!("{} {position}", Table::Events.name());
            let found = match view.as_stored(&tables.events, position) {
                Ok(Some(stored)) => Some(stored),
                Ok(None) => {
                    findings.add(FindingKind::Gap, &place, "there is no event at this position");
                    None
                }
                Err(RowError::Damaged { .. }) => {
                    findings.add(FindingKind::Malformed, &place, "the record cannot be read");
                    None
                }
                Err(error) => return Err(error),
            };
            self.remember(found.as_ref());
            if let Some(stored) = found {
                self.event(&tables, &stored, findings)?;
            }
            if self.since.is_some_and(|since| since.position == position) {
                self.extends = self.since == Some(self.head());
            }
        }
        Ok(())
    }

    fn remember(&mut self, stored: Option<&Stored>) {
        self.recent.push_back(stored.map(|stored| Facts {
            id: stored.event.id,
            source: stored.source,
            sequence: stored.event.sequence,
            privacy: stored.event.privacy,
            recorded_at: stored.event.recorded_at,
            root: stored.event.root,
            depth: stored.event.depth,
        }));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    fn facts(&self, tables: &Tables, position: u64) -> Result<Option<Facts>, RowError> {
        let behind = self.position.checked_sub(position).and_then(|behind| usize::try_from(behind).ok());
        if let Some(index) = behind.and_then(|behind| self.recent.len().checked_sub(behind + 1)) {
            return Ok(self.recent[index]);
        }
        let found = tables.events.get(&position_key(position)[..]).map_err(RowError::storage)?;
        Ok(found.and_then(|record| record::read_facts(record.value()).ok()))
    }

    fn event(&mut self, tables: &Tables, stored: &Stored, findings: &mut Findings) -> Result<(), RowError> {
        let event = &stored.event;
        let place = format!("{} {}", Table::Events.name(), event.position);
        let derived = EventId::derive(&event.source, &event.kind.name, &event.key);
        if derived != event.id {
            findings.add(FindingKind::Id, &place, format_args!("{} should be {derived}", event.id));
        }
        if !stored.has_recorded_payload() {
            findings.add(FindingKind::Payload, &place, "the payload is not the one that was recorded");
        } else if event.payload == Payload::Redacted {
            self.redacted.insert(event.id);
        }
        if event.recorded_at < self.recorded_at {
            findings.add(FindingKind::Time, &place, format_args!("recorded at {}", event.recorded_at));
        }
        self.recorded_at = self.recorded_at.max(event.recorded_at);
        self.link(stored, &place, findings);
        self.lineage(tables, stored, &place, findings)?;
        self.indexes(tables, stored, &place, findings)?;
        self.correlation(tables, stored, &place, findings)?;
        self.lifecycle(stored, &place, findings);
        self.named.event(event, &place, findings);
        Ok(())
    }

    /// Follows the source's chain. After a break it goes on from what is stored, so that one edit is one
    /// finding and not one for every later event.
    fn link(&mut self, stored: &Stored, place: &str, findings: &mut Findings) {
        let event = &stored.event;
        let (sequence, chain, _) = self.heads.get(&event.source).copied().unwrap_or((0, ChainHash::START, 0));
        if event.sequence != sequence + 1 {
            let message = format_args!("{} goes from {sequence} to {}", event.source, event.sequence);
            findings.add(FindingKind::Gap, place, message);
        } else if chain.link(&event.digest(), &event.assigned()) != event.chain {
            let message = format_args!("{} {} does not follow", event.source, event.sequence);
            findings.add(FindingKind::Chain, place, message);
        }
        self.heads.insert(event.source.clone(), (event.sequence, event.chain, event.position));
    }

    fn lineage(
        &mut self,
        tables: &Tables,
        stored: &Stored,
        place: &str,
        findings: &mut Findings,
    ) -> Result<(), RowError> {
        let event = &stored.event;
        let (mut depth, mut root) = (0, event.id);
        for (index, (id, position)) in event.parents.iter().zip(&stored.parents).enumerate() {
            let facts = if *position < event.position { self.facts(tables, *position)? } else { None };
            let Some(facts) = facts.filter(|facts| facts.id == *id) else {
                findings.add(FindingKind::Lineage, place, format_args!("parent {id} is not at {position}"));
                continue;
            };
            if event.privacy < facts.privacy {
                findings.add(FindingKind::Privacy, place, format_args!("weaker than its parent {id}"));
            }
            depth = depth.max(facts.depth + 1);
            root = if index == 0 { facts.root } else { root };
            let row = tables.children.get(&key!(*position, event.position)[..]).map_err(RowError::storage)?;
            if row.is_none() {
                findings.add(FindingKind::Index, Table::Children.name(), format_args!("lacks {place}"));
            }
        }
        let unique: BTreeSet<&u64> = stored.parents.iter().collect();
        self.children += unique.len() as u64;
        if (depth, root) != (event.depth, event.root) {
            let message =
                format_args!("depth {} and root {} do not follow from its parents", event.depth, event.root);
            findings.add(FindingKind::Lineage, place, message);
        }
        Ok(())
    }

    fn indexes(
        &self,
        tables: &Tables,
        stored: &Stored,
        place: &str,
        findings: &mut Findings,
    ) -> Result<(), RowError> {
        let event = &stored.event;
        let entries = [
            (Table::Sequences, &tables.sequences, key!(stored.source, event.sequence)),
            (Table::Keys, &tables.keys, idempotency_key(stored.source, stored.kind, event.key.as_str())),
            (Table::Ids, &tables.ids, key!(bucket(event.position), short_id(event.id.as_bytes()))),
            (Table::Types, &tables.types, key!(stored.kind, stored.source, event.sequence)),
        ];
        for (name, table, key) in entries {
            let row = table.get(&key[..]).map_err(RowError::storage)?;
            let found = row.map(|row| be64(row.value()));
            if found != Some(Ok(event.position)) {
                findings.add(FindingKind::Index, name.name(), format_args!("does not lead to {place}"));
            }
        }
        let defined = tables.definitions.get(event.kind.to_string().as_bytes()).map_err(RowError::storage)?;
        if defined.is_none() {
            findings.add(FindingKind::Index, Table::Definitions.name(), format_args!("lacks {}", event.kind));
        }
        Ok(())
    }

    /// Counts the event among those of its source, type and correlation, from the row before its own.
    fn correlation(
        &mut self,
        tables: &Tables,
        stored: &Stored,
        place: &str,
        findings: &mut Findings,
    ) -> Result<(), RowError> {
        let Some(correlation) = &stored.event.correlation else { return Ok(()) };
        self.correlated += 1;
        let key = |position| correlated::key(stored.source, stored.kind, correlation.as_str(), position);
        let (first, own) = (key(0), key(stored.event.position));
        let before = tables.correlated.range(&first[..]..&own[..]).map_err(RowError::storage)?.next_back();
        let before = before.transpose().map_err(RowError::storage)?;
        let before = before.map_or(Some(Count::NONE), |(_, row)| Count::read(row.value()).ok());
        let row = tables.correlated.get(&own[..]).map_err(RowError::storage)?;
        let found = row.and_then(|row| Count::read(row.value()).ok());
        if before.is_none_or(|before| found != Some(before.with(&stored.event.id))) {
            findings.add(
                FindingKind::Index,
                Table::Correlated.name(),
                format_args!("does not count {place}"),
            );
        }
        Ok(())
    }

    /// Remembers what the event says about a run, or about another event's payload.
    fn lifecycle(&mut self, stored: &Stored, place: &str, findings: &mut Findings) {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stamped {
            stamp: RunStamp,
            reservation: Option<Reserved>,
            charge: Option<Charge>,
            released: Option<Released>,
            code: Option<String>,
            provider_requests: Option<u32>,
        }
        let event = &stored.event;
        if event.kind.name.as_str() == Redacted::NAME {
            self.redactions.extend(event.payload_as::<Redacted>().ok().map(|payload| payload.event));
            return;
        }
        if let Ok(DamageSkipped { consumer, source, sequence, .. }) = event.payload_as() {
            self.passed.insert((consumer, source, sequence));
            return;
        }
        let Some(what) = event.kind.name.as_str().strip_prefix("stream.thought.run.") else { return };
        let Payload::Present(content) = &event.payload else { return };
        let Ok(stamped) = serde_json::from_slice(content.reveal()) else {
            findings.add(FindingKind::Run, place, "the lifecycle payload cannot be read");
            return;
        };
        let Stamped { stamp, reservation, charge, released, code, provider_requests } = stamped;
        let digest = run_digest(&stamp.run);
        if what == "received" {
            self.received.push(digest);
        }
        let charged = charge.map(Settled::Charged);
        let released = released.map(Settled::Released);
        if reservation.is_some() || charged.is_some() || released.is_some() {
            let spending = self.reserved.entry(digest).or_default();
            if let (Some(released), Some(code)) = (&released, code) {
                let failed = RunState::Failed { code };
                spending.may_be_unsent = what == "failed" && released.contradicts_end(&failed).is_none();
            }
            spending.reserved.extend(reservation);
            spending.settled.extend(charged.into_iter().chain(released));
        }
        if let Some(spending) = self.reserved.get_mut(&digest) {
            spending.requests.extend(provider_requests);
        }
        let code = TERMINALS.iter().position(|terminal| *terminal == what);
        self.ended.extend(code.and_then(|code| u8::try_from(code).ok()).map(|code| (digest, code)));
    }

    /// Compares the rows that sum events up with the events, and the sizes of indexes with their number.
    pub(super) fn check_heads_and_counts(
        &mut self,
        view: &View<'_>,
        findings: &mut Findings,
    ) -> Result<(), RowError> {
        let events = self.heads.values().map(|(sequence, ..)| sequence).sum::<u64>();
        let expected = [
            (Table::Events, self.position),
            (Table::Sequences, events),
            (Table::Keys, events),
            (Table::Ids, events),
            (Table::Types, events),
            (Table::Children, self.children),
            (Table::Correlated, self.correlated),
            (Table::Heads, self.heads.len() as u64),
        ];
        for (table, expected) in expected {
            let found = view.table(table)?.len().map_err(RowError::storage)?;
            if found != expected {
                findings.add(
                    FindingKind::Index,
                    table.name(),
                    format_args!("has {found} rows, not {expected}"),
                );
            }
        }
        let names = &view.shared().names;
        let heads = view.table(Table::Heads)?;
        for (source, (sequence, chain, position)) in &self.heads {
            let key = key!(names.number(NameKind::Source, source.as_str()).unwrap_or(0));
            let row = heads.get(&key[..]).map_err(RowError::storage)?;
            let row = match &row {
                Some(row) => {
                    let row = (Table::Heads, &key[..], row.value());
                    let Some(read) = findings.read(view, row, |body| SourceRow::read(body).ok()) else {
                        continue;
                    };
                    Some(read)
                }
                None => None,
            };
            let expected = SourceRow { sequence: *sequence, chain: *chain, position: *position };
            if row != Some(expected) {
                let place = format_args!("{} {source}", Table::Heads.name());
                findings.add(
                    FindingKind::Index,
                    place,
                    format_args!("is not the head at sequence {sequence}"),
                );
            }
        }
        check_names(view, findings)
    }

    /// Draws the conclusions that need the whole walk.
    pub(super) fn finish(&mut self, findings: &mut Findings) {
        for id in self.redacted.difference(&self.redactions) {
            findings.add(FindingKind::Redaction, id, "the payload is erased and no event says so");
        }
        if let Some(since) = self.since.filter(|_| !self.extends) {
            let message = "this log does not extend the one that had this head";
            findings.add(FindingKind::NotAnExtension, since, message);
        }
    }
}

/// Checks that names and numbers are each other's inverse.
fn check_names(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    astray(&view.table(Table::Names)?, &view.table(Table::Numbers)?, |place, what| {
        findings.add(FindingKind::Index, place, what);
    })
}
