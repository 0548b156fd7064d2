//! What is derived from rows and can be dropped and built again: every index, heads, and current documents.
//!
//! The writer keeps projections up to date as it goes; backup, import and repair build them with the same
//! functions, and a test holds the two equal.

use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};
use thoughtstream_domain::commit::Document;
use thoughtstream_domain::event::Reference;
use thoughtstream_domain::hash::ChainHash;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::lifecycle::{Execution, ExecutionStatus, Run};
use thoughtstream_domain::payload::file::FileRemoved;

use crate::account::{AddUp, read_entry};
use crate::correlated::{self, Count};
use crate::execution::{read_execution, read_run};
use crate::names::{NameKind, Names};
use crate::record::{self, Stored};
use crate::rows::{At, Pair, RowError, Tables};
use crate::seal;
use crate::tables::{Table, bucket, idempotency_key, key, position_key, short_id};
use crate::writer::{Head, from_json, to_json};

/// The tables that [`rebuild`] empties and fills.
pub(crate) const PROJECTIONS: [Table; 14] = [
    Table::Sequences,
    Table::Keys,
    Table::Ids,
    Table::Types,
    Table::Children,
    Table::Correlated,
    Table::Heads,
    Table::Unsettled,
    Table::Open,
    Table::RunIds,
    Table::Documents,
    Table::Paths,
    Table::Tallies,
    Table::Leases,
];

/// Says whether the row at a place, as errors and findings name it, is made from others: [`crate::Writer`] makes it anew
/// without loss, and nothing has to be restored over it.
#[must_use]
pub fn is_made_anew(place: &str) -> bool {
    let table = place.split(' ').next().unwrap_or_default();
    PROJECTIONS.iter().any(|projection| projection.name() == table)
}

/// Takes rows of projections.
pub(crate) trait Put {
    /// Writes one row.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError>;
}

/// Takes rows of projections that follow from rows before them.
pub(crate) trait PutBehind: Put {
    /// Returns the last row from `from` up to, without, `to`.
    fn last_in(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Pair>, RowError>;
}

/// What indexes need to know of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indexed<'a> {
    pub(crate) position: u64,
    pub(crate) id: &'a [u8; 32],
    pub(crate) source: u32,
    pub(crate) kind: u32,
    pub(crate) sequence: u64,
    pub(crate) key: &'a str,
    pub(crate) parents: &'a [u64],
    pub(crate) correlation: Option<&'a str>,
    pub(crate) chain: ChainHash,
}

impl<'a> Indexed<'a> {
    pub(crate) fn of(stored: &'a Stored) -> Self {
        Self {
            position: stored.event.position,
            id: stored.event.id.as_bytes(),
            source: stored.source,
            kind: stored.kind,
            sequence: stored.event.sequence,
            key: stored.event.key.as_str(),
            parents: &stored.parents,
            correlation: stored.event.correlation.as_ref().map(Reference::as_str),
            chain: stored.event.chain,
        }
    }
}

/// Writes the rows that lead to an event. Its source's head is written once for many of them.
pub(crate) fn put_event(to: &mut impl PutBehind, event: &Indexed<'_>) -> Result<(), RowError> {
    let at = position_key(event.position);
    to.put(Table::Sequences, &key!(event.source, event.sequence), &at)?;
    to.put(Table::Keys, &idempotency_key(event.source, event.kind, event.key), &at)?;
    to.put(Table::Ids, &key!(bucket(event.position), short_id(event.id)), &at)?;
    to.put(Table::Types, &key!(event.kind, event.source, event.sequence), &at)?;
    for parent in event.parents {
        to.put(Table::Children, &key!(*parent, event.position), &[])?;
    }
    match event.correlation {
        Some(correlation) => put_correlated(to, event, correlation),
        None => Ok(()),
    }
}

/// Writes the row that counts an event among those of its source, type and correlation.
fn put_correlated(to: &mut impl PutBehind, event: &Indexed<'_>, correlation: &str) -> Result<(), RowError> {
    let key = correlated::key(event.source, event.kind, correlation, event.position);
    let first = correlated::key(event.source, event.kind, correlation, 0);
    let before = match to.last_in(Table::Correlated, &first, &key)? {
        Some((_, row)) => Count::read(&row).at(Table::Correlated, event.position)?,
        None => Count::NONE,
    };
    to.put(Table::Correlated, &key, &before.with(&EventId::from_bytes(*event.id)).write())
}

/// The heads that events have moved and no row says yet.
#[derive(Debug, Default)]
pub(crate) struct Heads(BTreeMap<u32, Head>);

impl Heads {
    /// Takes an event as its source's newest.
    pub(crate) fn follow(&mut self, event: &Indexed<'_>) {
        let head = Head { sequence: event.sequence, chain: event.chain, position: event.position };
        self.0.insert(event.source, head);
    }

    /// Writes them all.
    pub(crate) fn put(&mut self, to: &mut impl Put) -> Result<(), RowError> {
        for (source, head) in std::mem::take(&mut self.0) {
            to.put(Table::Heads, &key!(source), &head.write())?;
        }
        Ok(())
    }
}

/// Writes the row that lists an execution as unsettled, if it is.
pub(crate) fn put_execution(to: &mut impl Put, key: &[u8], execution: &Execution) -> Result<(), RowError> {
    match execution.state.status() {
        ExecutionStatus::Closed => Ok(()),
        ExecutionStatus::Running | ExecutionStatus::Waiting | ExecutionStatus::Held => {
            to.put(Table::Unsettled, key, &[])
        }
    }
}

/// Writes the rows that lead to a run.
pub(crate) fn put_run(to: &mut impl Put, key: &[u8], run: &Run) -> Result<(), RowError> {
    to.put(Table::RunIds, &key!(bucket(run.position), short_id(run.id.as_bytes())), key)?;
    if run.state.is_open() { to.put(Table::Open, key, &[]) } else { Ok(()) }
}

/// Writes the rows of a document's current state.
pub(crate) fn put_document(to: &mut impl Put, source: u32, document: &Document) -> Result<(), RowError> {
    let row = to_json(document);
    to.put(Table::Documents, &key!(source, document.id.as_str()), &row)?;
    if document.removed {
        return Ok(());
    }
    to.put(Table::Paths, &key!(source, document.path.as_str()), document.id.as_str().as_bytes())
}

/// Drops every projection and builds it again from events, executions, runs and versions.
///
/// What a document's file looked like when last read is not derived from anything; it is forgotten, and the
/// next scan reads the file once more.
pub(crate) fn rebuild(tx: &WriteTransaction, names: &Names) -> Result<(), RowError> {
    for table in PROJECTIONS {
        tx.delete_table(table.definition()).map_err(RowError::storage)?;
        tx.open_table(table.definition()).map_err(RowError::storage)?;
    }
    let mut to = Tables::new(tx);
    let events = tx.open_table(Table::Events.definition()).map_err(RowError::storage)?;
    put_last_versions(tx, &mut to, names)?;
    let mut heads = Heads::default();
    for row in events.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let position = crate::codec::be64(key.value()).unwrap_or(0);
        let stored = record::read(position, value.value(), names);
        let stored = stored.map_err(|_| RowError::damaged(Table::Events, position))?;
        put_event(&mut to, &Indexed::of(&stored))?;
        heads.follow(&Indexed::of(&stored));
        if stored.has_recorded_payload() {
            follow_removal(&mut to, &stored)?;
        }
    }
    heads.put(&mut to)?;
    let executions = tx.open_table(Table::Executions.definition()).map_err(RowError::storage)?;
    for row in executions.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let damaged = |_| RowError::damaged_row(Table::Executions, key.value(), names);
        let value = seal::open(Table::Executions, key.value(), value.value());
        let execution = value.and_then(read_execution).map_err(damaged)?;
        put_execution(&mut to, key.value(), &execution)?;
    }
    let runs = tx.open_table(Table::Runs.definition()).map_err(RowError::storage)?;
    for row in runs.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let value = seal::open(Table::Runs, key.value(), value.value());
        let damaged = |_| RowError::damaged_row(Table::Runs, key.value(), names);
        let run = value.and_then(read_run).map_err(damaged)?;
        put_run(&mut to, key.value(), &run)?;
    }
    let entries = tx.open_table(Table::Entries.definition()).map_err(RowError::storage)?;
    let mut sums = AddUp::default();
    for row in entries.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let value = seal::open(Table::Entries, key.value(), value.value());
        let damaged = |_| RowError::damaged_row(Table::Entries, key.value(), names);
        let entry = value.and_then(read_entry).map_err(damaged)?;
        sums.follow(&mut to, &entry)?;
    }
    sums.finish(&mut to)
}

/// Writes each document as its last version has it.
fn put_last_versions(tx: &WriteTransaction, to: &mut Tables<'_>, names: &Names) -> Result<(), RowError> {
    let versions = tx.open_table(Table::Versions.definition()).map_err(RowError::storage)?;
    let mut last: Option<Document> = None;
    for row in versions.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let value = seal::open(Table::Versions, key.value(), value.value());
        let value = value.map_err(|_| RowError::damaged_row(Table::Versions, key.value(), names))?;
        let version: Document = from_json(value, Table::Versions, "row")?;
        // Versions of one document lie together, rising: the one before another document is its last.
        if let Some(done) =
            last.take().filter(|last| (&last.source, &last.id) != (&version.source, &version.id))
        {
            put_known_document(to, names, &done)?;
        }
        last = Some(Document { stat: None, ..version });
    }
    last.map_or(Ok(()), |done| put_known_document(to, names, &done))
}

fn put_known_document(to: &mut Tables<'_>, names: &Names, document: &Document) -> Result<(), RowError> {
    let source = names.number(NameKind::Source, document.source.as_str());
    put_document(to, source.ok_or_else(|| RowError::damaged(Table::Versions, &document.id))?, document)
}

/// Takes a removal into account: it has an event and no version.
fn follow_removal(to: &mut Tables<'_>, stored: &Stored) -> Result<(), RowError> {
    let Ok(removed) = stored.event.payload_as::<FileRemoved>() else { return Ok(()) };
    let key = key!(stored.source, removed.document_id.as_str());
    let row = to.table(Table::Documents)?.get(&key[..]).map_err(RowError::storage)?;
    let row = row.map(|row| {
        let body =
            seal::open(Table::Documents, &key, row.value()).at(Table::Documents, &removed.document_id)?;
        from_json::<Document>(body, Table::Documents, &removed.document_id)
    });
    let Some(document) = row.transpose()?.filter(|document| document.revision < removed.revision) else {
        return Ok(());
    };
    let path = key!(stored.source, document.path.as_str());
    let holder = to.table(Table::Paths)?.get(&path[..]).map_err(RowError::storage)?;
    let holds = holder.is_some_and(|holder| holder.value() == document.id.as_str().as_bytes());
    if holds {
        to.table(Table::Paths)?.remove(&path[..]).map_err(RowError::storage)?;
    }
    put_document(to, stored.source, &Document { revision: removed.revision, removed: true, ..document })
}
