//! Making a new store from the lines of an export.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, WriteTransaction};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use thoughtstream_domain::accounting::Entry;
use thoughtstream_domain::canonical;
use thoughtstream_domain::commit::Document;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::dispatch::is_progress_name;
use thoughtstream_domain::event::{Actor, Event, Payload, Reference};
use thoughtstream_domain::hash::{ChainHash, Sha256Hash};
use thoughtstream_domain::id::{ConsumerId, EventId, IdempotencyKey, SourceId, TypeName, TypeRef};
use thoughtstream_domain::payload::system::ServiceStarted;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;

use super::{EXPORT_VERSION, EventLine, Line, Sha256};
use crate::account::{AddUp, entry_key, write_entry};
use crate::backup::{awaits_materialization, begin_anew, hold_materializer};
use crate::disk::{Backend, Disk, RealDisk};
use crate::execution::{write_execution, write_run};
use crate::names::NameKind;
use crate::projection::{self, Heads, Indexed, Put};
use crate::reader::Reader;
use crate::record::{self, Stored};
use crate::rows::{RowError, Tables};
use crate::store::{CreateError, FORMAT, FillError, Options, make, open_backend, write_meta};
use crate::tables::{Table, key, position_key};
use crate::verify::{self, Report, verify};
use crate::writer::{claim, to_json};

/// The longest line: a payload of a megabyte escaped, or content in hexadecimal.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// How many lines go into one step of writing.
const STEP_LINES: u64 = 4096;

/// Says why no store was made from an export.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The store cannot be made.
    #[error("cannot make the store")]
    Create(#[source] CreateError),
    /// A line is not what it should be.
    #[error("line {line} of the export is refused: {what}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong; never its content.
        what: String,
    },
    /// The lines cannot be read.
    #[error("cannot read the export")]
    Read(#[from] io::Error),
    /// What was imported does not verify.
    #[error("the export does not verify: it has findings, {} in number", .0.findings.len())]
    NotSound(Box<Report>),
}

/// Makes a new store in `directory` from an export that verifies whole. Its consumers are paused.
///
/// # Errors
/// [`ImportError`] names the line; the directory then holds no store.
pub fn import(
    lines: &mut dyn BufRead,
    directory: &Path,
    mark: [u8; 16],
    now: Timestamp,
    options: Options,
) -> Result<Report, ImportError> {
    let disk = RealDisk::open_or_create(directory).map_err(|error| ImportError::Create(error.into()))?;
    import_on(&(Arc::new(disk) as Arc<dyn Disk>), lines, mark, now, options)
}

fn import_on(
    disk: &Arc<dyn Disk>,
    lines: &mut dyn BufRead,
    mark: [u8; 16],
    now: Timestamp,
    options: Options,
) -> Result<Report, ImportError> {
    let mut outcome: Option<Result<Report, ImportError>> = None;
    let made = make(disk.as_ref(), options, |log| {
        let database = open_backend(Backend(log), options.cache_bytes)?;
        let mut importer = Importer::new(&database);
        if let Err(error) = importer.read_all(lines) {
            outcome = Some(Err(error));
            return Err("the export was refused".into());
        }
        let consumers = std::mem::take(&mut importer.consumers);
        finish(&database, mark, importer.starts, &consumers, now)?;
        let reader = Reader::of(database, mark)?;
        let report = verify(&reader, verify::Options::default())?;
        let sound = report.ok;
        let held = sound && awaits_materialization(&reader)?;
        outcome = Some(if sound { Ok(report) } else { Err(ImportError::NotSound(Box::new(report))) });
        if sound {
            let database = reader.into_database().ok_or("the reader was shared")?;
            if held {
                hold_materializer(&database, now)?;
            }
            Ok(database)
        } else {
            Err("not sound".into())
        }
    });
    match (outcome, made) {
        (Some(Err(refused)), _) => Err(refused),
        (_, Err(error)) => Err(ImportError::Create(error)),
        (Some(Ok(report)), Ok(())) => Ok(report),
        (None, Ok(())) => unreachable!("a store is made only behind a report"),
    }
}

fn finish(
    database: &Database,
    mark: [u8; 16],
    starts: u64,
    consumers: &[ConsumerId],
    now: Timestamp,
) -> Result<(), FillError> {
    let mut tx = database.begin_write()?;
    tx.set_quick_repair(true);
    for table in Table::ALL {
        tx.open_table(table.definition())?;
    }
    write_meta(&tx, mark, starts)?;
    tx.commit()?;
    begin_anew(database, mark, consumers, now)
}

/// Numbers names in the order they come.
#[derive(Default)]
struct Numbers(std::collections::BTreeMap<(u8, String), u32>, [u32; 3]);

impl Numbers {
    fn number(&mut self, to: &mut Tables<'_>, kind: NameKind, text: &str) -> Result<u32, RowError> {
        if let Some(number) = self.0.get(&(kind as u8, text.to_owned())) {
            return Ok(*number);
        }
        self.1[kind as usize] += 1;
        let number = self.1[kind as usize];
        self.0.insert((kind as u8, text.to_owned()), number);
        to.put(Table::Names, &key!(kind as u8, text), &number.to_be_bytes())?;
        to.put(Table::Numbers, &key!(kind as u8, number), text.as_bytes())?;
        Ok(number)
    }
}

struct Importer<'a> {
    database: &'a Database,
    numbers: Numbers,
    heads: Heads,
    sums: AddUp,
    /// The key of the last entry: entries come in order, or their sums would not.
    last_entry: Vec<u8>,
    hash: Sha256,
    line: u64,
    events: u64,
    /// The number of the last start of a service that the events tell of. The log goes on from there: a start under
    /// a number that was used would write what the log has already, and be refused.
    starts: u64,
    consumers: Vec<ConsumerId>,
    ended: bool,
}

/// What one line can be refused for.
enum Refused {
    What(String),
    Write(FillError),
}

impl From<RowError> for Refused {
    fn from(error: RowError) -> Self {
        Self::Write(error.into())
    }
}

fn refused(what: impl std::fmt::Display) -> Refused {
    Refused::What(what.to_string())
}

impl<'a> Importer<'a> {
    fn new(database: &'a Database) -> Self {
        Self {
            database,
            numbers: Numbers::default(),
            heads: Heads::default(),
            sums: AddUp::default(),
            last_entry: Vec::new(),
            hash: Sha256::default(),
            line: 0,
            events: 0,
            starts: 0,
            consumers: Vec::new(),
            ended: false,
        }
    }

    fn read_all(&mut self, lines: &mut dyn BufRead) -> Result<(), ImportError> {
        let mut more = true;
        while more {
            let mut tx = self.database.begin_write().map_err(|error| self.write_error(error.into()))?;
            // The last step is made durable with everything before it when the store is finished.
            tx.set_durability(Durability::None).map_err(|error| self.write_error(error.into()))?;
            more = self.step(&tx, lines)?;
            tx.commit().map_err(|error| self.write_error(error.into()))?;
        }
        if self.ended {
            Ok(())
        } else {
            Err(self.refuse("the end line is missing: the export was cut short"))
        }
    }

    fn refuse(&self, what: impl std::fmt::Display) -> ImportError {
        ImportError::Line { line: self.line, what: what.to_string() }
    }

    fn write_error(&self, source: FillError) -> ImportError {
        let path = Path::new(crate::store::LOG).to_owned();
        ImportError::Create(CreateError::Write { path, source })
    }

    /// Reads some lines; answers whether there may be more.
    fn step(&mut self, tx: &WriteTransaction, lines: &mut dyn BufRead) -> Result<bool, ImportError> {
        let mut to = Tables::new(tx);
        let mut bytes = Vec::new();
        for _ in 0..STEP_LINES {
            bytes.clear();
            let mut limited = io::Read::take(&mut *lines, LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut bytes)? == 0 {
                return Ok(false);
            }
            self.line += 1;
            if bytes.pop() != Some(b'\n') {
                return Err(self.refuse("the line does not end, or is too long"));
            }
            self.take(&mut to, &bytes).map_err(|refused| match refused {
                Refused::What(what) => self.refuse(what),
                Refused::Write(source) => self.write_error(source),
            })?;
        }
        Ok(true)
    }

    fn take(&mut self, to: &mut Tables<'_>, bytes: &[u8]) -> Result<(), Refused> {
        if self.ended {
            return Err(refused("there is a line behind the end line"));
        }
        if let Ok(line) = serde_json::from_slice::<EventLine>(bytes) {
            self.hash.update(bytes);
            return self.event(to, line);
        }
        let line: Line = serde_json::from_slice(bytes).map_err(|_| refused("it is no line of an export"))?;
        if (self.line == 1) != matches!(line, Line::Header { .. }) {
            return Err(refused("an export has one header, its first line"));
        }
        if let Line::End { events, lines, sha256 } = line {
            self.ended = true;
            self.heads.put(to)?;
            self.sums.finish(to)?;
            let same =
                events == self.events && lines == self.line - 1 && sha256 == self.hash.clone().finish();
            return if same { Ok(()) } else { Err(refused("counts or hash differ from what came before")) };
        }
        self.hash.update(bytes);
        self.row(to, line)
    }

    fn event(&mut self, to: &mut Tables<'_>, line: EventLine) -> Result<(), Refused> {
        if line.line != "event" {
            return Err(refused("it is no line of an export"));
        }
        let event = read_event(line.event)?;
        if event.position != self.events + 1 {
            return Err(refused("events come in the order of their positions, without gaps"));
        }
        self.events += 1;
        if let Ok(started) = event.payload_as::<ServiceStarted>() {
            self.starts = self.starts.max(started.incarnation);
        }
        let source = self.numbers.number(to, NameKind::Source, event.source.as_str())?;
        let kind = self.numbers.number(to, NameKind::Type, event.kind.name.as_str())?;
        let stored = Stored { event, source, kind, parents: line.parent_positions };
        let record = record::write_stored(&stored);
        to.put(Table::Events, &position_key(stored.event.position), &record)?;
        projection::put_event(to, &Indexed::of(&stored))?;
        self.heads.follow(&Indexed::of(&stored));
        Ok(())
    }

    fn row(&mut self, to: &mut Tables<'_>, line: Line) -> Result<(), Refused> {
        match line {
            Line::Header { version, format } => {
                if version != EXPORT_VERSION || format > FORMAT {
                    return Err(refused(format_args!(
                        "version {version}, format {format} is not known here"
                    )));
                }
            }
            Line::Definition { kind, sha256 } => {
                to.put(Table::Definitions, kind.to_string().as_bytes(), sha256.as_bytes())?;
            }
            Line::Declaration { row } => {
                self.consumers.push(row.consumer.id.clone());
                to.put(Table::Declarations, row.consumer.to_string().as_bytes(), &to_json(&row))?;
            }
            Line::Control { consumer, row } => {
                to.put(Table::Controls, consumer.as_str().as_bytes(), &to_json(&row))?;
            }
            Line::Execution { row } => {
                if row.triggers.is_empty() {
                    return Err(refused("an execution has triggers"));
                }
                let consumer = self.consumer(to, &row.consumer)?;
                let key = key!(consumer, row.position());
                to.put(Table::Executions, &key, &write_execution(&row))?;
                projection::put_execution(to, &key, &row)?;
            }
            Line::Run { row } => {
                let key = key!(self.consumer(to, &row.consumer)?, row.position, row.attempt);
                to.put(Table::Runs, &key, &write_run(&row))?;
                projection::put_run(to, &key, &row)?;
            }
            Line::Entry { row } => self.entry(to, &row)?,
            Line::Progress { consumer, source, sequence } => {
                let (consumer, source) = (self.consumer(to, &consumer)?, self.source(to, &source)?);
                to.put(Table::Progress, &key!(consumer, source), &sequence.to_be_bytes())?;
            }
            Line::Claim { consumer, source, sequence, execution, closed } => {
                let (consumer, source) = (self.consumer(to, &consumer)?, self.source(to, &source)?);
                to.put(Table::Claims, &key!(consumer, source, sequence), &claim(execution, closed))?;
            }
            Line::Document { row } => self.document(to, &row)?,
            Line::Version { row } => {
                let source = self.source(to, &row.source)?;
                let key = key!(source, row.id.as_str(), 0_u8, row.revision);
                to.put(Table::Versions, &key, &to_json(&row))?;
            }
            Line::Blob { sha256, hex } => {
                let content = data_encoding::HEXLOWER.decode(hex.as_bytes());
                let content = content.map_err(|_| refused("the content is not hexadecimal"))?;
                to.put(Table::Blobs, sha256.as_bytes(), &content)?;
            }
            Line::End { .. } => return Err(refused("the end line is taken elsewhere")),
        }
        Ok(())
    }

    fn entry(&mut self, to: &mut Tables<'_>, row: &Entry) -> Result<(), Refused> {
        let reservation = &row.reservation;
        let key = entry_key(reservation.account(), reservation.at, &reservation.run);
        if self.last_entry[..] >= key[..] {
            return Err(refused("the entries of accounts come in order, each once"));
        }
        if let Some(impossible) = row.is_impossible() {
            return Err(refused(impossible));
        }
        self.last_entry = key.to_vec();
        to.put(Table::Entries, &key, &write_entry(row))?;
        Ok(self.sums.follow(to, row)?)
    }

    fn consumer(
        &mut self,
        to: &mut Tables<'_>,
        consumer: &thoughtstream_domain::id::ConsumerKey,
    ) -> Result<u32, RowError> {
        // Who has progress and declares nothing is not a person's to resume.
        if !is_progress_name(consumer) {
            self.consumers.push(consumer.id.clone());
            self.consumers.dedup();
        }
        self.numbers.number(to, NameKind::Consumer, &consumer.to_string())
    }

    fn source(&mut self, to: &mut Tables<'_>, source: &SourceId) -> Result<u32, RowError> {
        self.numbers.number(to, NameKind::Source, source.as_str())
    }

    fn document(&mut self, to: &mut Tables<'_>, document: &Document) -> Result<(), RowError> {
        let source = self.source(to, &document.source)?;
        projection::put_document(to, source, document)
    }
}

/// The envelope as `Event::to_json` writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventFields {
    id: EventId,
    r#type: TypeName,
    version: u32,
    source: SourceId,
    sequence: u64,
    position: u64,
    privacy: Privacy,
    actor: Actor,
    key: IdempotencyKey,
    recorded_at: Timestamp,
    root: EventId,
    parents: Vec<EventId>,
    depth: u32,
    payload: Value,
    payload_sha256: Sha256Hash,
    chain: ChainHash,
    occurred_at: Option<Timestamp>,
    address: Option<Reference>,
    external: Option<Reference>,
    correlation: Option<Reference>,
    #[serde(default)]
    redacted: bool,
}

fn read_event(value: Value) -> Result<Event, Refused> {
    let fields: EventFields =
        serde_json::from_value(value).map_err(|_| refused("an event lacks a field or has a wrong one"))?;
    let payload = if fields.redacted {
        Payload::Redacted
    } else {
        let bytes = canonical::write(&fields.payload).map_err(|_| refused("the payload is not canonical"))?;
        Payload::Present(Content::new(bytes.into()))
    };
    Ok(Event {
        position: fields.position,
        id: fields.id,
        kind: TypeRef::new(fields.r#type, fields.version),
        source: fields.source,
        sequence: fields.sequence,
        privacy: fields.privacy,
        actor: fields.actor,
        key: fields.key,
        occurred_at: fields.occurred_at,
        recorded_at: fields.recorded_at,
        root: fields.root,
        parents: fields.parents,
        depth: fields.depth,
        address: fields.address,
        external: fields.external,
        correlation: fields.correlation,
        payload,
        payload_sha256: fields.payload_sha256,
        chain: fields.chain,
    })
}
