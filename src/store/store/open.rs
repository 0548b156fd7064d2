//! Opening log and journal, and bringing the log up to the journal's end.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableHandle as _};

use super::error::{OpenError, damaged_rows, database_error};
use super::{
    FORMAT, FORMAT_FILE, FORMAT_TITLE, LOG, LOG_ANEW, LOG_UNFINISHED, Options, Presence, Shared, format_text,
    look_on,
};
use crate::behind::Behind;
use crate::codec::{be32, be64};
use crate::disk::{Access, Disk, DiskError, DiskFile};
use crate::journal::{Journal, Mark};
use crate::names::{self, NameKind, Names};
use crate::overlay::Overlay;
use crate::projection::Put;
use crate::rows::{ReplayError, RowError, Tables, unless_panicking};
use crate::tables::Table;

/// What every redb file starts with.
const REDB_MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// How often a lock held by somebody else is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The meta key of how far the journal was carried into the log.
pub(crate) const APPLIED: &[u8] = b"applied";

/// The meta key of how long each journal file was made.
const JOURNAL: &[u8] = b"journal";

/// Returns the stored form of a mark.
pub(crate) fn encode_mark(mark: Mark) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&mark.offset.to_be_bytes());
    bytes[8..].copy_from_slice(&mark.crc.to_be_bytes());
    bytes
}

fn decode_mark(bytes: &[u8]) -> Option<Mark> {
    let (offset, crc) = bytes.split_at_checked(8)?;
    Some(Mark { offset: be64(offset).ok()?, crc: be32(crc).ok()? })
}

/// What opening gives.
pub(super) struct OpenedLog {
    pub(super) database: Database,
    pub(super) behind: Behind,
    pub(super) journal: Journal,
    pub(super) mark: [u8; 16],
    pub(super) incarnation: u64,
}

/// Opens log and journal and brings the log up to the journal's end.
pub(super) fn open_log(disk: &dyn Disk, options: Options) -> Result<OpenedLog, OpenError> {
    let format = check_presence(disk, Access::Write)?;
    let path = disk.path(LOG);
    // First without changing anything: what is refused must stay as it was found.
    let scanned = unless_panicking(|| {
        let database = open_database(disk, Access::Write, options, Overlay::new)?;
        let meta = read_meta(&database, &path)?;
        check_names(&database).map_err(|error| damaged_rows(&path, error))?;
        Ok::<_, OpenError>(Journal::scan(disk, Access::Write, &meta.mark, meta.applied, meta.journal)?)
    });
    let scanned = scanned.ok_or_else(|| panicked(&path))??;
    // The file that is opened in the end is the last one that was tried.
    let last = RefCell::new(None);
    let database = open_database(disk, Access::Write, options, |file| {
        let behind = Behind::new(file);
        last.replace(Some(behind.clone()));
        Ok(behind)
    })?;
    let behind = last.take().expect("a database was opened on it");
    let meta = read_meta(&database, &path)?;
    if meta.applied != scanned.applied() {
        // Somebody opened and closed it in between; once more, from the start.
        return Err(OpenError::Held { path });
    }
    let (mut journal, bodies) = scanned.open()?;
    if format < FORMAT {
        raise_format(disk)?;
    }
    let incarnation = meta.incarnation + 1;
    carry(&database, &journal, &bodies, incarnation).map_err(|error| not_carried(&path, error))?;
    journal.checkpointed(journal.end().offset);
    if remove_remains(disk).is_err() {
        // They take room and are in nobody's way.
        tracing::warn!("log.remains_not_removed");
    }
    Ok(OpenedLog { database, behind, journal, mark: meta.mark, incarnation })
}

/// Lets the format file name the form that is written from now on: before the first row of it is, so that an earlier
/// version of this program never takes one for damage. A power cut leaves one number or the other, for only a digit of
/// the file becomes another, and both may be opened; the meta row follows with what the journal holds.
fn raise_format(disk: &dyn Disk) -> Result<(), OpenError> {
    let io = |source: io::Error| OpenError::Io { path: disk.path(FORMAT_FILE), source: source.into() };
    let file = disk.open(FORMAT_FILE)?;
    file.write_at(0, format_text().as_bytes()).and_then(|()| file.sync()).map_err(io)
}

/// Removes what a compaction left that was cut short. Only for who has the log alone.
pub(crate) fn remove_remains(disk: &dyn Disk) -> Result<(), DiskError> {
    if disk.names()?.iter().any(|name| name == LOG_ANEW) {
        disk.remove(LOG_ANEW)?;
        disk.sync_names()?;
    }
    Ok(())
}

/// Opens the log without changing it, together with what the journal holds beyond it.
pub(super) fn read_log(disk: &dyn Disk, options: Options) -> Result<(Database, [u8; 16]), OpenError> {
    check_presence(disk, Access::Read)?;
    let path = disk.path(LOG);
    let opened = unless_panicking(|| {
        let database = open_database(disk, Access::Read, options, Overlay::to_read)?;
        let meta = read_meta(&database, &path)?;
        let scanned = Journal::scan(disk, Access::Read, &meta.mark, meta.applied, meta.journal)?;
        let (journal, bodies) = scanned.into_bodies();
        if !bodies.is_empty() {
            carry(&database, &journal, &bodies, meta.incarnation)
                .map_err(|error| not_carried(&path, error))?;
        }
        Ok((database, meta.mark))
    });
    opened.ok_or_else(|| panicked(&path))?
}

/// Returns the format that a store says it has.
fn check_presence(disk: &dyn Disk, access: Access) -> Result<u16, OpenError> {
    match look_on(disk)? {
        Presence::Absent => Err(OpenError::Absent { path: disk.path("") }),
        Presence::Unfinished => Err(OpenError::Unfinished { path: disk.path(LOG_UNFINISHED) }),
        Presence::Present => check_format(disk, access),
    }
}

fn panicked(path: &Path) -> OpenError {
    OpenError::Damaged { path: path.to_owned(), what: "reading it made redb panic".to_owned() }
}

fn not_carried(path: &Path, error: ReplayError) -> OpenError {
    match error {
        ReplayError::Malformed(_) => OpenError::Damaged { path: path.to_owned(), what: error.to_string() },
        ReplayError::Row(error) => damaged_rows(path, error),
    }
}

fn check_format(disk: &dyn Disk, access: Access) -> Result<u16, OpenError> {
    const LONGEST: u64 = 256;
    let path = disk.path(FORMAT_FILE);
    let file = match disk.open_for(access, FORMAT_FILE) {
        Ok(file) => file,
        Err(DiskError::Missing { .. }) => return Err(OpenError::NotAStore { path: disk.path(LOG) }),
        Err(error) => return Err(error.into()),
    };
    let io = |source: io::Error| OpenError::Io { path: path.clone(), source: source.into() };
    let length = file.len().map_err(io)?;
    if length == 0 {
        return Err(OpenError::Empty { path });
    }
    let mut bytes = vec![0; usize::try_from(length.min(LONGEST)).unwrap_or(0)];
    file.read_at(0, &mut bytes).map_err(io)?;
    let text = String::from_utf8_lossy(&bytes);
    let found = text.strip_prefix(FORMAT_TITLE).and_then(|rest| rest.strip_prefix("\nformat "));
    let found = found.and_then(|rest| rest.lines().next()).and_then(|number| number.parse::<u16>().ok());
    match found {
        Some(found @ 1..=FORMAT) => Ok(found),
        Some(found) if found > FORMAT => Err(OpenError::NewerFormat { path, found }),
        Some(_) | None => Err(OpenError::NotAStore { path }),
    }
}

fn open_database<B: redb::StorageBackend>(
    disk: &dyn Disk,
    access: Access,
    options: Options,
    backend: impl Fn(Box<dyn DiskFile>) -> io::Result<B>,
) -> Result<Database, OpenError> {
    let path = disk.path(LOG);
    let give_up = Instant::now() + options.wait_for_lock;
    loop {
        let file = match disk.open_for(access, LOG) {
            Ok(file) => file,
            Err(DiskError::Missing { .. }) => {
                return Err(OpenError::Damaged { path, what: "the log itself is missing".to_owned() });
            }
            Err(error) => return Err(error.into()),
        };
        check_magic(file.as_ref(), &path)?;
        let backend =
            backend(file).map_err(|source| OpenError::Io { path: path.clone(), source: source.into() })?;
        match open_backend(backend, options.cache_bytes) {
            Err(DatabaseError::DatabaseAlreadyOpen) if Instant::now() < give_up => {
                std::thread::sleep(LOCK_PAUSE);
            }
            result => return result.map_err(|error| database_error(&path, error)),
        }
    }
}

/// Opens a redb file that exists.
pub(crate) fn open_backend(
    backend: impl redb::StorageBackend,
    cache_bytes: usize,
) -> Result<Database, DatabaseError> {
    redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(backend)
}

/// Looks at the first bytes before redb does: it would make a database of an empty file.
pub(crate) fn check_magic(file: &dyn DiskFile, path: &Path) -> Result<(), OpenError> {
    let io = |source: io::Error| OpenError::Io { path: path.to_owned(), source: source.into() };
    if file.len().map_err(io)? == 0 {
        return Err(OpenError::Empty { path: path.to_owned() });
    }
    let mut start = [0; 9];
    let read = file.read_at(0, &mut start);
    if read.is_err() || start != REDB_MAGIC {
        let what = "it does not start as a log does".to_owned();
        return Err(OpenError::Damaged { path: path.to_owned(), what });
    }
    Ok(())
}

/// Says whether a file begins as a log does, whoever may read it beside its owner; a file that cannot be read does not.
pub(crate) fn begins_as_a_log(path: &Path) -> bool {
    let mut start = [0; REDB_MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == REDB_MAGIC
}

/// What the log says about itself.
pub(crate) struct Meta {
    pub(crate) mark: [u8; 16],
    pub(crate) applied: Mark,
    pub(crate) incarnation: u64,
    /// How long the journal files were made; an earlier version of this program did not say so.
    pub(crate) journal: Option<u64>,
}

/// Reads the meta rows; a log without them is damaged, never empty.
pub(crate) fn read_meta(database: &Database, path: &Path) -> Result<Meta, OpenError> {
    let damaged = |what: &str| OpenError::Damaged { path: path.to_owned(), what: what.to_owned() };
    let storage = |error: redb::Error| {
        if let redb::Error::TableDoesNotExist(_) = error {
            return damaged("it has no meta table");
        }
        OpenError::Io { path: path.to_owned(), source: Box::new(error) }
    };
    let tx = database.begin_read().map_err(|error| storage(error.into()))?;
    let meta = tx.open_table(Table::Meta.definition()).map_err(|error| storage(error.into()))?;
    let find = |key: &[u8]| -> Result<Option<Vec<u8>>, OpenError> {
        let found = meta.get(key).map_err(|error| storage(error.into()))?;
        Ok(found.map(|value| value.value().to_vec()))
    };
    let get = |key: &[u8]| find(key)?.ok_or_else(|| damaged("a meta row is missing"));
    let format = be64(&get(b"format")?).map_err(|_| damaged("its format is not a number"))?;
    if format > u64::from(FORMAT) {
        let found = u16::try_from(format).unwrap_or(u16::MAX);
        return Err(OpenError::NewerFormat { path: path.to_owned(), found });
    }
    Ok(Meta {
        mark: get(b"mark")?.try_into().map_err(|_| damaged("its mark has the wrong length"))?,
        applied: decode_mark(&get(APPLIED)?).ok_or_else(|| damaged("the carried offset is malformed"))?,
        incarnation: be64(&get(b"incarnation")?).map_err(|_| damaged("its incarnation is not a number"))?,
        journal: find(JOURNAL)?
            .map(|bytes| be64(&bytes))
            .transpose()
            .map_err(|_| damaged("its journal's length is not a number"))?,
    })
}

/// Replays journal frames and makes the result durable in redb, so that the journal starts free.
fn carry(
    database: &Database,
    journal: &Journal,
    bodies: &[Vec<u8>],
    incarnation: u64,
) -> Result<(), ReplayError> {
    let mut tx = database.begin_write().map_err(RowError::storage)?;
    tx.set_quick_repair(true);
    add_tables(&tx)?;
    let mut tables = Tables::new(&tx);
    for body in bodies {
        tables.replay(body)?;
    }
    tables.put(Table::Meta, b"format", &u64::from(FORMAT).to_be_bytes())?;
    tables.put(Table::Meta, b"incarnation", &incarnation.to_be_bytes())?;
    tables.put(Table::Meta, APPLIED, &encode_mark(journal.end()))?;
    tables.put(Table::Meta, JOURNAL, &journal.file_bytes().to_be_bytes())?;
    drop(tables);
    tx.commit().map_err(RowError::storage)?;
    Ok(())
}

/// Adds the tables that a log of an earlier version of this program lacks.
pub(crate) fn add_tables(tx: &redb::WriteTransaction) -> Result<(), RowError> {
    let there: Vec<String> =
        tx.list_tables().map_err(RowError::storage)?.map(|table| table.name().to_owned()).collect();
    for table in Table::ALL.into_iter().filter(|table| !there.iter().any(|name| name == table.name())) {
        tx.open_table(table.definition()).map_err(RowError::storage)?;
    }
    Ok(())
}

/// Refuses a log whose names and numbers are not each other's inverse: what is written under a wrong one would be damage
/// that nothing mends. What only looks may look.
fn check_names(database: &Database) -> Result<(), RowError> {
    let tx = database.begin_read().map_err(RowError::storage)?;
    let table = |table: Table| tx.open_table(table.definition()).map_err(RowError::storage);
    let mut first = None;
    names::astray(&table(Table::Names)?, &table(Table::Numbers)?, |place, what| {
        first.get_or_insert_with(|| format!("{place}: {what}"));
    })?;
    first.map_or(Ok(()), |place| Err(RowError::Damaged { place }))
}

/// Fills the cache of names.
pub(crate) fn load_names(database: &Database, names: &Names) -> Result<(), RowError> {
    let tx = database.begin_read().map_err(RowError::storage)?;
    let table = tx.open_table(Table::Numbers.definition()).map_err(RowError::storage)?;
    for row in table.iter().map_err(RowError::storage)? {
        let (key, text) = row.map_err(RowError::storage)?;
        let (kind, number) = key.value().split_at_checked(1).unwrap_or_default();
        let kind = match kind {
            [0] => Some(NameKind::Source),
            [1] => Some(NameKind::Type),
            [2] => Some(NameKind::Consumer),
            _ => None,
        };
        let text = std::str::from_utf8(text.value()).ok();
        let known = kind.zip(be32(number).ok()).zip(text);
        let learned = known.is_some_and(|((kind, number), text)| names.learn(kind, number, text));
        if !learned {
            return Err(RowError::damaged(Table::Numbers, format_args!("{:02x?}", key.value())));
        }
    }
    Ok(())
}

/// Closes the log and opens it again after a failure, keeping readers attached: also where it fails, if it can be
/// read at all.
pub(crate) fn reopen(
    shared: &Shared,
    disk: &dyn Disk,
    options: Options,
) -> Result<(Behind, Journal, u64), OpenError> {
    let path = disk.path(LOG);
    let mut slot = shared.database.write().unwrap_or_else(PoisonError::into_inner);
    *slot = None;
    let opened = match open_log(disk, options) {
        Ok(opened) => opened,
        Err(error) => {
            // What cannot be written may still be read; nothing of that is written either, until it is opened again.
            *slot = read_log(disk, options)
                .ok()
                .filter(|(_, mark)| *mark == shared.mark)
                .and_then(|(database, _)| take_names(shared, &database, &path).ok().map(|()| database));
            return Err(error);
        }
    };
    if opened.mark != shared.mark {
        return Err(OpenError::Damaged { path, what: "another store took its place".to_owned() });
    }
    take_names(shared, &opened.database, &path)?;
    *slot = Some(opened.database);
    Ok((opened.behind, opened.journal, opened.incarnation))
}

/// Lets readers find the names of a log that was opened again.
fn take_names(shared: &Shared, database: &Database, path: &Path) -> Result<(), OpenError> {
    // They look names up at any time: they must never find less than there was.
    let names = Names::default();
    load_names(database, &names).map_err(|error| damaged_rows(path, error))?;
    shared.names.become_like(names);
    Ok(())
}
