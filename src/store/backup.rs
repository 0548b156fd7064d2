//! A copy of the log in one file of its own, taken while the service runs, and a new store made from one.
//!
//! A backup is a redb file with the tables of a log, without journal and without store directory. It is
//! written to a new name with its meta rows last, so that a copy that was interrupted is not one, and it is
//! verified before it is called done. Reading one never changes it.

mod copy;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use redb::{Database, ReadableTable, WriteTransaction};
use thiserror::Error;
use thoughtstream_domain::commit::Control;
use thoughtstream_domain::dispatch::is_progress_name;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerId, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::proposal::{Decidable, Disposition, ProposalDecision};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::materialize::{Stage, documents, held_as};
use thoughtstream_domain::time::Timestamp;

use crate::codec::be64;
use crate::disk::{Access, Backend, Disk, DiskError, DiskFile, RealDisk, RealFile, create_file, open_file};
use crate::overlay::Overlay;
use crate::reader::{PAGE_ROWS_MAX, Reader};
use crate::rows::{At as _, RowError, unless_panicking};
use crate::seal;
use crate::store::{
    COPIED, CreateError, FillError, OpenError, Options, add_tables, begins_as_a_log, check_magic,
    damaged_rows, database_error, make, open_backend, read_meta, write_meta,
};
use crate::tables::Table;
use crate::verify::{self, Report, verify};
use crate::writer::{from_json, to_json};

/// How much of the copy redb may keep in memory.
const CACHE_BYTES: usize = 32 << 20;

/// How much of a file is copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// How often a copy is begun again because a payload was erased that it held already. A person erases one now and
/// then; who erases all the time can wait with the backup.
const COPIES_MAX: usize = 5;

/// Says why no backup was made. The target does not exist then.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The target cannot be created.
    #[error("cannot create the backup")]
    Target(#[from] DiskError),
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[from] RowError),
    /// The copy cannot be written.
    #[error("cannot write the backup to `{path}`")]
    Write {
        /// The target.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The copy cannot be read back.
    #[error("cannot read the backup back")]
    ReadBack(#[from] OpenError),
    /// The copy does not verify: the log itself is damaged.
    #[error("the copy does not verify: it has findings, {} in number", .0.findings.len())]
    NotSound(Box<Report>),
    /// During each attempt a payload was erased that it held already.
    #[error("payloads were erased while each of {COPIES_MAX} copies was made")]
    Overtaken,
}

/// Says why no store was made from a backup.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The file cannot be read as a backup.
    #[error("cannot read the backup")]
    Backup(#[from] OpenError),
    /// The backup cannot be read any more.
    #[error("cannot read the backup")]
    Read(#[from] RowError),
    /// The backup does not verify.
    #[error("the backup does not verify: it has findings, {} in number", .0.findings.len())]
    NotSound(Box<Report>),
    /// The store cannot be made.
    #[error("cannot make the store")]
    Create(#[from] CreateError),
}

/// Copies the log into a new file and verifies the copy; `progress` is told how many events of how many are
/// copied. What is erased meanwhile is in no byte of the copy: it is then begun again.
///
/// # Errors
/// [`BackupError`]; whatever was written is removed again.
pub fn back_up(
    reader: &Reader,
    target: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, BackupError> {
    for _ in 0..COPIES_MAX {
        let file = create_file(target)?;
        let result = copy_and_verify(reader, target, file, progress);
        if !matches!(result, Ok(Some(_))) {
            // Nothing is gained by a second error about the remains of the first.
            drop(std::fs::remove_file(target));
        }
        if let Some(report) = result? {
            return Ok(report);
        }
    }
    Err(BackupError::Overtaken)
}

/// Makes one copy; nothing if a payload was erased that it held already.
fn copy_and_verify(
    reader: &Reader,
    target: &Path,
    file: File,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Report>, BackupError> {
    let fail = |source: FillError| BackupError::Write { path: target.to_owned(), source };
    let database = open_backend(Backend(Box::new(RealFile::new(file))), CACHE_BYTES)
        .map_err(|error| fail(error.into()))?;
    let copied = copy::copy(reader, &database, progress).map_err(|error| match error {
        copy::CopyError::Read(error) => BackupError::Read(error),
        copy::CopyError::Write(source) => fail(source),
    })?;
    drop(database);
    if copied == copy::Copied::Overtaken {
        return Ok(None);
    }
    sync(target).map_err(|error| fail(error.into()))?;
    let copied = open_backup(target)?;
    let report = verify(&copied, verify::Options::default())?;
    if report.ok { Ok(Some(report)) } else { Err(BackupError::NotSound(Box::new(report))) }
}

/// Makes a file and its name durable.
fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// Opens a backup for reading, without changing a byte of it.
///
/// # Errors
/// [`OpenError`] says what the file is instead.
pub fn open_backup(path: &Path) -> Result<Reader, OpenError> {
    let file = match open_file(path, Access::Read) {
        // Somebody else's file is not to be closed to others for our sake.
        Err(DiskError::TooOpen { .. }) if !begins_as_a_log(path) => {
            return Err(OpenError::NotAStore { path: path.to_owned() });
        }
        opened => RealFile::new(opened?),
    };
    check_magic(&file, path).map_err(|error| not_a_log(path, error))?;
    let io = |source: io::Error| OpenError::Io { path: path.to_owned(), source: source.into() };
    let overlay = Overlay::to_read(Box::new(file)).map_err(io)?;
    let opened = unless_panicking(|| {
        let database = open_backend(overlay, CACHE_BYTES).map_err(|error| database_error(path, error))?;
        let meta = read_meta(&database, path)?;
        complete(&database).map_err(|error| damaged_rows(path, error))?;
        Reader::of(database, meta.mark).map_err(|error| damaged_rows(path, error))
    });
    let what = || "reading it made redb panic".to_owned();
    opened.unwrap_or_else(|| Err(OpenError::Damaged { path: path.to_owned(), what: what() }))
}

/// Lets a copy of an earlier version's log be read like one of today; of the file itself nothing changes.
fn complete(database: &Database) -> Result<(), RowError> {
    let tx = database.begin_write().map_err(RowError::storage)?;
    add_tables(&tx)?;
    tx.commit().map_err(RowError::storage)
}

/// A lone file that does not begin as a log may be anything; inside a store it would be damage.
fn not_a_log(path: &Path, error: OpenError) -> OpenError {
    if let OpenError::Damaged { .. } = error {
        return OpenError::NotAStore { path: path.to_owned() };
    }
    error
}

/// Makes a new store in `directory` from a backup: another store with a mark of its own, all consumers paused
/// until a person resumes them.
///
/// # Errors
/// [`RestoreError`]; the directory then holds no store.
pub fn restore(
    backup: &Path,
    directory: &Path,
    mark: [u8; 16],
    now: Timestamp,
    options: Options,
) -> Result<Report, RestoreError> {
    let reader = open_backup(backup)?;
    let report = verify(&reader, verify::Options::default())?;
    if !report.ok {
        return Err(RestoreError::NotSound(Box::new(report)));
    }
    let consumers = known_consumers(&reader)?;
    let held = awaits_materialization(&reader)?;
    drop(reader);
    let disk = RealDisk::open_or_create(directory).map_err(CreateError::from)?;
    make(&disk, options, |log| {
        copy_file(backup, log.as_ref())?;
        let database = open_backend(Backend(log), options.cache_bytes)?;
        begin_anew(&database, mark, &consumers, now)?;
        if held {
            hold_materializer(&database, now)?;
        }
        Ok(database)
    })?;
    disk.sync_names().map_err(CreateError::from)?;
    Ok(report)
}

fn copy_file(from: &Path, to: &dyn DiskFile) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut position = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return to.sync();
        }
        to.write_at(position, &buffer[..count])?;
        position += count as u64;
    }
}

/// Returns every consumer that the log knows of in any way; those that have progress and declare nothing are none.
fn known_consumers(reader: &Reader) -> Result<Vec<ConsumerId>, RowError> {
    let named = reader.consumers().into_iter().filter(|consumer| !is_progress_name(consumer));
    let mut known: Vec<ConsumerId> = named.map(|consumer| consumer.id).collect();
    known.extend(reader.registered_all()?.into_iter().map(|registered| registered.consumer.id));
    known.sort();
    known.dedup();
    Ok(known)
}

/// Says whether a person decided about the memory document what has not come to its end.
///
/// # Errors
/// [`RowError`] if the log cannot be read.
pub(crate) fn awaits_materialization(reader: &Reader) -> Result<bool, RowError> {
    let (source, kinds) = (SourceId::decisions(), [ProposalDecision::kind().name]);
    for event in reader.walk(&kinds, &source) {
        let event = event?;
        let Ok(decision) = event.payload_as::<ProposalDecision>() else { continue };
        if decision.kind != Decidable::MemoryChange || decision.disposition == Disposition::Reject {
            continue;
        }
        let events = reader.materializations_of(&documents(), &decision.proposal, &event.id)?;
        if matches!(Stage::of(&events), Stage::Waiting | Stage::Begun(..)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Holds back what was decided about the memory document until a person releases it.
pub(crate) fn hold_materializer(database: &Database, now: Timestamp) -> Result<(), FillError> {
    let mut tx = database.begin_write()?;
    tx.set_quick_repair(true);
    pause(&tx, &held_as(), now)?;
    tx.commit()?;
    Ok(())
}

fn pause(tx: &WriteTransaction, consumer: &ConsumerId, now: Timestamp) -> Result<(), FillError> {
    let mut controls = tx.open_table(Table::Controls.definition())?;
    let key = consumer.as_str().as_bytes();
    let stored = controls.get(key)?;
    let control = stored.map(|row| {
        let body = seal::open(Table::Controls, key, row.value()).at(Table::Controls, consumer)?;
        from_json::<Control>(body, Table::Controls, consumer)
    });
    let mut control = control.transpose()?.unwrap_or_default();
    control.paused_since.get_or_insert(now);
    control.pause_reason.get_or_insert_with(|| "restored from a copy of the log".to_owned());
    let row = seal::close(Table::Controls, key, &to_json(&control));
    controls.insert(key, &row[..])?;
    Ok(())
}

/// Gives a copied log an identity of its own, marks up to where it is a copy, and pauses its consumers.
pub(crate) fn begin_anew(
    database: &Database,
    mark: [u8; 16],
    consumers: &[ConsumerId],
    now: Timestamp,
) -> Result<(), FillError> {
    let incarnation = read_meta(database, Path::new("backup"))?.incarnation;
    let mut tx = database.begin_write()?;
    tx.set_quick_repair(true);
    write_meta(&tx, mark, incarnation)?;
    let last = {
        let events = tx.open_table(Table::Events.definition())?;
        let last = events.last()?.map(|(key, _)| be64(key.value())).transpose()?;
        last.unwrap_or(0)
    };
    tx.open_table(Table::Meta.definition())?.insert(COPIED, &last.to_be_bytes()[..])?;
    for consumer in consumers {
        pause(&tx, consumer, now)?;
    }
    tx.commit()?;
    Ok(())
}

/// Returns the first event that is more than public, if there is one: what a copy of the log would carry
/// out of this machine.
///
/// # Errors
/// [`RowError`] if the log cannot be read.
pub fn first_above_public(reader: &Reader) -> Result<Option<Event>, RowError> {
    let mut position = 0;
    loop {
        let page = reader.page_after(position, PAGE_ROWS_MAX)?;
        let Some(last) = page.last() else { return Ok(None) };
        position = last.position;
        if let Some(found) = page.into_iter().find(|event| event.privacy > Privacy::PublicSource) {
            return Ok(Some(found));
        }
    }
}
