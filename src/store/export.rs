//! The log as lines of JSON, for other programs and for good, and a new store made from such lines.
//!
//! First a header, then every event in the order of positions, then everything else the log cannot derive,
//! then an end line with counts and a hash of all lines before it: an export that was cut short is not one.
//! Importing recomputes ids, digests and chains and verifies the whole before the store exists.

mod read;

use std::io::{self, Write};

use redb::ReadableTable;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;
use thoughtstream_domain::accounting::Entry;
use thoughtstream_domain::commit::{Control, Document, Registered};
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, SourceId, TypeRef};
use thoughtstream_domain::lifecycle::{Execution, Run};

use crate::account::read_entry;
use crate::codec::{be32, be64};
use crate::execution::{read_execution, read_run};
use crate::reader::{Reader, View};
use crate::record::Stored;
use crate::rows::{At, RowError};
use crate::tables::Table;
use crate::writer::{from_json, read_claim};

pub use read::{ImportError, import};

/// How many events are written from one short transaction.
const PAGE_EVENTS: u64 = 256;

/// The version of the line format.
const EXPORT_VERSION: u32 = 1;

/// The oldest format of a store that has every row which lines can say. What came with a later one is how rows are
/// written there, which no line shows: an earlier version of this program imports the lines as well.
const EXPORT_FORMAT: u16 = 1;

/// Is one line that is no event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "line", deny_unknown_fields)]
enum Line {
    /// Opens the export.
    Header { version: u32, format: u16 },
    /// The hash of the definition that a type was last written with.
    Definition { kind: TypeRef, sha256: Sha256Hash },
    /// A registered declaration.
    Declaration { row: Registered },
    /// A control row.
    Control { consumer: ConsumerId, row: Control },
    /// An execution.
    Execution { row: Execution },
    /// A run.
    Run { row: Run },
    /// An entry of an account.
    Entry { row: Entry },
    /// A consumer's progress on a source.
    Progress { consumer: ConsumerKey, source: SourceId, sequence: u64 },
    /// A claim above progress.
    Claim { consumer: ConsumerKey, source: SourceId, sequence: u64, execution: u64, closed: bool },
    /// A document's current state.
    Document { row: Document },
    /// A document as it was at a revision.
    Version { row: Document },
    /// Content, in hexadecimal.
    Blob { sha256: Sha256Hash, hex: String },
    /// Closes the export.
    End { events: u64, lines: u64, sha256: Sha256Hash },
}

/// Is the line of an event: the envelope as programs see it, and where its parents stand.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventLine {
    line: String,
    event: Value,
    parent_positions: Vec<u64>,
}

/// Is what an export wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Events.
    pub events: u64,
    /// Lines, the end line not counted.
    pub lines: u64,
}

/// Says why an export failed. What was written before is not an export: its end line is missing.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[from] RowError),
    /// The lines cannot be written.
    #[error("cannot write the export")]
    Write(#[from] io::Error),
}

/// Writes the log as lines of JSON; `progress` is told how many events of how many are written.
///
/// # Errors
/// [`ExportError`] says which side failed.
pub fn export(
    reader: &Reader,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    let mut lines = Lines { out, count: 0, hash: Sha256::default() };
    lines.write(&Line::Header { version: EXPORT_VERSION, format: EXPORT_FORMAT })?;
    let mut done = 0;
    loop {
        // Read first, write after: a slow receiver must not keep a transaction open.
        let (page, last) = reader.view(|view| {
            let last = view.last_position()?;
            Ok((event_lines(view, done, last.min(done + PAGE_EVENTS))?, last))
        })?;
        done += page.len() as u64;
        for line in page {
            lines.write(&line)?;
        }
        progress(done, last);
        if last - done < PAGE_EVENTS {
            break;
        }
    }
    let rest = reader.view(|view| {
        let last = view.last_position()?;
        Ok((event_lines(view, done, last)?, row_lines(view)?))
    })?;
    done += rest.0.len() as u64;
    for line in rest.0 {
        lines.write(&line)?;
    }
    for line in rest.1 {
        lines.write(&line)?;
    }
    blob_lines(reader, &mut lines)?;
    let exported = Exported { events: done, lines: lines.count };
    let sha256 = lines.hash.clone().finish();
    lines.write(&Line::End { events: done, lines: exported.lines, sha256 })?;
    lines.out.flush()?;
    Ok(exported)
}

/// Hashes lines one by one into one hash: each over the hash before it and the line.
#[derive(Clone, Debug, Default)]
struct Sha256(Option<Sha256Hash>);

impl Sha256 {
    fn update(&mut self, line: &[u8]) {
        let before = self.0.map_or(Vec::new(), |hash| hash.as_bytes().to_vec());
        self.0 = Some(Sha256Hash::of(&[&before, line].concat()));
    }

    fn finish(self) -> Sha256Hash {
        self.0.unwrap_or_else(|| Sha256Hash::of(b""))
    }
}

struct Lines<'a> {
    out: &'a mut dyn Write,
    count: u64,
    hash: Sha256,
}

impl Lines<'_> {
    fn write(&mut self, line: &impl Serialize) -> Result<(), io::Error> {
        let mut bytes = serde_json::to_vec(line)?;
        self.hash.update(&bytes);
        bytes.push(b'\n');
        self.count += 1;
        self.out.write_all(&bytes)
    }
}

fn event_lines(view: &View<'_>, after: u64, end: u64) -> Result<Vec<EventLine>, RowError> {
    let events = view.table(Table::Events)?;
    let lines = (after + 1..=end).map(|position| {
        let stored = view.stored(&events, position)?;
        let Stored { event, parents, .. } =
            stored.ok_or_else(|| RowError::damaged(Table::Events, position))?;
        Ok(EventLine { line: "event".to_owned(), event: event_value(&event), parent_positions: parents })
    });
    lines.collect()
}

/// Returns the event as JSON. Unlike for display, an erased payload is told apart from a null one.
fn event_value(event: &Event) -> Value {
    let mut value = event.to_json();
    if event.payload == Payload::Redacted {
        value["payload"] = Value::Null;
        value["redacted"] = json!(true);
    }
    value
}

/// Returns the lines of everything but events and content, in memory: rows are small.
fn row_lines(view: &View<'_>) -> Result<Vec<Line>, RowError> {
    let mut lines = Vec::new();
    let names = &view.shared().names;
    each(view, Table::Definitions, |key, value| {
        let kind = std::str::from_utf8(key).ok().and_then(|text| TypeRef::parse(text).ok());
        let hash = value.try_into().ok().map(Sha256Hash::from_bytes);
        let (kind, sha256) = kind.zip(hash).ok_or_else(|| RowError::damaged(Table::Definitions, "row"))?;
        lines.push(Line::Definition { kind, sha256 });
        Ok(())
    })?;
    each(view, Table::Declarations, |_, value| {
        lines.push(Line::Declaration { row: from_json(value, Table::Declarations, "row")? });
        Ok(())
    })?;
    each(view, Table::Controls, |key, value| {
        let id = std::str::from_utf8(key).ok().and_then(|text| ConsumerId::parse(text).ok());
        let consumer = id.ok_or_else(|| RowError::damaged(Table::Controls, "row"))?;
        lines.push(Line::Control { consumer, row: from_json(value, Table::Controls, "row")? });
        Ok(())
    })?;
    each(view, Table::Executions, |_, value| {
        lines.push(Line::Execution { row: read_execution(value).at(Table::Executions, "row")? });
        Ok(())
    })?;
    each(view, Table::Runs, |_, value| {
        lines.push(Line::Run { row: read_run(value).at(Table::Runs, "row")? });
        Ok(())
    })?;
    each(view, Table::Entries, |_, value| {
        lines.push(Line::Entry { row: read_entry(value).at(Table::Entries, "row")? });
        Ok(())
    })?;
    let lane = |key: &[u8]| {
        let consumer = key.get(..4).and_then(|bytes| be32(bytes).ok()).and_then(|n| names.consumer(n));
        let source = key.get(4..8).and_then(|bytes| be32(bytes).ok()).and_then(|n| names.source(n));
        consumer.zip(source).ok_or_else(|| RowError::damaged(Table::Progress, "row"))
    };
    each(view, Table::Progress, |key, value| {
        let (consumer, source) = lane(key)?;
        lines.push(Line::Progress { consumer, source, sequence: be64(value).at(Table::Progress, "row")? });
        Ok(())
    })?;
    each(view, Table::Claims, |key, value| {
        let (consumer, source) = lane(key)?;
        let sequence = key.get(8..).and_then(|bytes| be64(bytes).ok());
        let (sequence, (execution, closed)) =
            sequence.zip(read_claim(value)).ok_or_else(|| RowError::damaged(Table::Claims, "row"))?;
        lines.push(Line::Claim { consumer, source, sequence, execution, closed });
        Ok(())
    })?;
    each(view, Table::Documents, |_, value| {
        lines.push(Line::Document { row: from_json(value, Table::Documents, "row")? });
        Ok(())
    })?;
    each(view, Table::Versions, |_, value| {
        lines.push(Line::Version { row: from_json(value, Table::Versions, "row")? });
        Ok(())
    })?;
    Ok(lines)
}

fn each(
    view: &View<'_>,
    table: Table,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), RowError>,
) -> Result<(), RowError> {
    for row in view.table(table)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        take(key.value(), view.open(table, key.value(), value.value())?)?;
    }
    Ok(())
}

/// Writes content one by one: it never changes, and together it may be large. Content that came in after
/// the rows were read is harmless.
fn blob_lines(reader: &Reader, lines: &mut Lines<'_>) -> Result<(), ExportError> {
    let mut from: Vec<u8> = Vec::new();
    loop {
        let next = reader.view(|view| Ok(view.range(Table::Blobs, &from, &[0xff; 33], 1)?.pop()))?;
        let Some((key, content)) = next else { return Ok(()) };
        let sha256 = key.as_slice().try_into().map(Sha256Hash::from_bytes);
        let sha256 = sha256.map_err(|_| RowError::damaged(Table::Blobs, "row"))?;
        let hex = data_encoding::HEXLOWER.encode(&content);
        lines.write(&Line::Blob { sha256, hex })?;
        from = [&key[..], &[0]].concat();
    }
}

/// Returns the end line that fits these lines.
#[cfg(test)]
pub(crate) fn end_line(lines: &[&str], events: u64) -> String {
    let mut hash = Sha256::default();
    lines.iter().for_each(|line| hash.update(line.as_bytes()));
    let end = Line::End { events, lines: lines.len() as u64, sha256: hash.finish() };
    serde_json::to_string(&end).unwrap()
}
