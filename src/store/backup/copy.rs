//! Copies a log's tables while it is being written to.
//!
//! Events, the bulk of it, are copied in pages of short transactions. Everything that changes is copied in
//! one transaction at the end, together with the events that came in meanwhile, so that the copy is the log
//! at one moment.

use std::collections::BTreeSet;

use redb::{Database, Durability, ReadableTable};
use thiserror::Error;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::system::Redacted;

use crate::codec::be64;
use crate::execution::{read_execution, read_run};
use crate::projection::{self, Heads, Indexed, Put};
use crate::reader::{Reader, View};
use crate::record;
use crate::rows::{At, RowError, Tables};
use crate::store::{FillError, write_meta};
use crate::tables::{Table, position_key};

/// How many events are copied within one short transaction.
const PAGE_EVENTS: u64 = 256;

/// How many pages go into one durable step of the copy; the steps between cost no sync.
const PAGES_PER_SYNC: u64 = 64;

/// Tables that are copied row by row at the end.
const ROWS: [Table; 14] = [
    Table::Names,
    Table::Numbers,
    Table::Progress,
    Table::Claims,
    Table::Controls,
    Table::Declarations,
    Table::Definitions,
    Table::Documents,
    Table::Paths,
    Table::Versions,
    Table::Blobs,
    Table::Entries,
    Table::Tallies,
    Table::Leases,
];

#[derive(Debug, Error)]
pub(super) enum CopyError {
    #[error(transparent)]
    Read(#[from] RowError),
    #[error(transparent)]
    Write(FillError),
}

fn write_error(error: impl Into<FillError>) -> CopyError {
    CopyError::Write(error.into())
}

/// Says what became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// It holds the log as it was at one moment, and nothing else.
    Whole,
    /// A payload was erased after it was copied, and may lie in an unused part of the copy.
    Overtaken,
}

/// Copies everything `reader` sees into an empty database.
pub(super) fn copy(
    reader: &Reader,
    target: &Database,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Copied, CopyError> {
    let mut copier =
        Copier { done: 0, redacted: BTreeSet::new(), heads: Heads::default(), copied: Copied::Whole };
    let mut pages: u64 = 0;
    loop {
        let mut tx = target.begin_write().map_err(write_error)?;
        pages += 1;
        if !pages.is_multiple_of(PAGES_PER_SYNC) {
            tx.set_durability(Durability::None).map_err(write_error)?;
        }
        let last = reader.view(|view| {
            let last = view.last_position()?;
            let end = last.min(copier.done + PAGE_EVENTS);
            copier.events(view, &mut Tables::new(&tx), end)?;
            Ok(last)
        })?;
        tx.commit().map_err(write_error)?;
        progress(copier.done, last);
        if last - copier.done < PAGE_EVENTS {
            break;
        }
    }
    let mut tx = target.begin_write().map_err(write_error)?;
    tx.set_quick_repair(true);
    for table in Table::ALL {
        tx.open_table(table.definition()).map_err(write_error)?;
    }
    let incarnation = reader.view(|view| copier.rest(view, &mut Tables::new(&tx)))?;
    write_meta(&tx, reader.shared.mark, incarnation)?;
    tx.commit().map_err(write_error)?;
    Ok(copier.copied)
}

struct Copier {
    done: u64,
    /// Events whose payload was erased, perhaps after they were copied.
    redacted: BTreeSet<EventId>,
    heads: Heads,
    copied: Copied,
}

impl Copier {
    /// Copies the events up to a position, with the rows that lead to them.
    fn events(&mut self, view: &View<'_>, to: &mut Tables<'_>, end: u64) -> Result<(), RowError> {
        let events = view.table(Table::Events)?;
        for position in self.done + 1..=end {
            let record = events.get(&position_key(position)[..]).map_err(RowError::storage)?;
            let record = record.ok_or_else(|| RowError::damaged(Table::Events, position))?;
            let stored = record::read(position, record.value(), &view.shared().names);
            let stored = stored.map_err(|_| RowError::damaged(Table::Events, position))?;
            to.put(Table::Events, &position_key(position), record.value())?;
            projection::put_event(to, &Indexed::of(&stored))?;
            self.heads.follow(&Indexed::of(&stored));
            self.note_redaction(&stored.event);
            self.done = position;
        }
        Ok(())
    }

    fn note_redaction(&mut self, event: &Event) {
        let redaction = event.payload_as::<Redacted>().ok();
        self.redacted.extend(redaction.map(|redaction| redaction.event));
    }

    /// Copies the newest events and everything that is not one, in one transaction; answers how often the log
    /// had been opened by then.
    fn rest(&mut self, view: &View<'_>, to: &mut Tables<'_>) -> Result<u64, RowError> {
        let last = view.last_position()?;
        self.events(view, to, last)?;
        self.heads.put(to)?;
        for id in &self.redacted {
            let Some(position) = view.position_of(id)? else { continue };
            let record = view.get(Table::Events, &position_key(position))?;
            let record = record.ok_or_else(|| RowError::damaged(Table::Events, position))?;
            if !to.has(Table::Events, &position_key(position), &record)? {
                self.copied = Copied::Overtaken;
            }
        }
        for table in ROWS {
            for row in view.table(table)?.iter().map_err(RowError::storage)? {
                let (key, value) = row.map_err(RowError::storage)?;
                to.put_stored(table, key.value(), value.value())?;
            }
        }
        for row in view.table(Table::Executions)?.iter().map_err(RowError::storage)? {
            let (key, value) = row.map_err(RowError::storage)?;
            let execution = read_execution(view.open(Table::Executions, key.value(), value.value())?);
            let execution = execution.map_err(|_| view.damaged_row(Table::Executions, key.value()))?;
            to.put_stored(Table::Executions, key.value(), value.value())?;
            projection::put_execution(to, key.value(), &execution)?;
        }
        for row in view.table(Table::Runs)?.iter().map_err(RowError::storage)? {
            let (key, value) = row.map_err(RowError::storage)?;
            let run = read_run(view.open(Table::Runs, key.value(), value.value())?);
            let run = run.map_err(|_| view.damaged_row(Table::Runs, key.value()))?;
            to.put_stored(Table::Runs, key.value(), value.value())?;
            projection::put_run(to, key.value(), &run)?;
        }
        let incarnation = view.get(Table::Meta, b"incarnation")?.unwrap_or_default();
        be64(&incarnation).at(Table::Meta, "incarnation")
    }
}
