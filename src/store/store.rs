//! A store directory: making one, opening one, and saying exactly why one cannot be opened.
//!
//! `format` names the form, `log.redb` holds everything up to the last checkpoint, `journal.N` the rest. A
//! directory is a store once `log.redb` has its name; until then nothing was ever acknowledged in it. Opening
//! never creates, never repairs by forgetting, and changes no byte of what it refuses.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError};
use thiserror::Error;

use crate::codec::{be32, be64};
use crate::disk::{Backend, Disk, DiskError, DiskFile, RealDisk};
use crate::journal::{self, Frame, Journal, JournalError, Mark};
use crate::names::{NameKind, Names};
use crate::overlay::Overlay;
use crate::reader::Reader;
use crate::rows::{ReplayError, RowError, Rows};
use crate::tables::Table;
use crate::writer::Writer;

/// The version of the whole stored form: tables, keys, records, journal.
pub const FORMAT: u16 = 1;

/// The log itself.
pub(crate) const LOG: &str = "log.redb";
/// The log while its store is being made.
const LOG_UNFINISHED: &str = "log.redb.new";
/// Names the form, so that a newer one is recognised before anything is touched.
const FORMAT_FILE: &str = "format";
/// The first line of [`FORMAT_FILE`].
const FORMAT_TITLE: &str = "thoughtstream store";
/// What every redb file starts with.
const REDB_MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// How often a lock held by somebody else is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Is what a store can be tuned by; the defaults are right for a service.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The length of each journal file when a store is created.
    pub journal_file_bytes: u64,
    /// How much of the log redb may keep in memory.
    pub cache_bytes: usize,
    /// How long to wait for a lock: a killed process holds it until the system has buried it.
    pub wait_for_lock: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_file_bytes: journal::DEFAULT_FILE_BYTES,
            cache_bytes: 64 << 20,
            wait_for_lock: Duration::from_secs(1),
        }
    }
}

/// Says what a directory holds, without opening a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing of a store.
    Absent,
    /// A store whose making was interrupted; nothing was ever recorded in it.
    Unfinished,
    /// A store, sound or not.
    Present,
}

/// Says why a store could not be made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// There is one already.
    #[error("`{path}` already holds a store")]
    Exists {
        /// The log found.
        path: PathBuf,
    },
    /// The directory or a file in it cannot be used.
    #[error("cannot make a store")]
    Disk(#[from] DiskError),
    /// Writing failed.
    #[error("cannot write the new store in `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Says why a store could not be opened. Whatever the reason, no byte of it was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Nothing of a store is there.
    #[error("there is no store in `{path}`")]
    Absent {
        /// The directory.
        path: PathBuf,
    },
    /// A store was being made and never finished.
    #[error("the store in `{path}` was never finished; nothing is recorded in it, make it again")]
    Unfinished {
        /// The unfinished log.
        path: PathBuf,
    },
    /// Files are there, but not those of a store.
    #[error("`{path}` does not belong to a store")]
    NotAStore {
        /// What was found.
        path: PathBuf,
    },
    /// A newer version of this program wrote it.
    #[error("`{path}` says format {found}, newer than {FORMAT}, the newest this program knows")]
    NewerFormat {
        /// Where it says so.
        path: PathBuf,
        /// The format found.
        found: u16,
    },
    /// A file of the store has no content at all.
    #[error("`{path}` is empty, and a store's file never is")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The store is damaged.
    #[error("`{path}` is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The journal is damaged or does not fit the log.
    #[error("the journal cannot be replayed")]
    Journal(#[from] JournalError),
    /// Another process, or another part of this one, has it open.
    #[error("`{path}` is in use")]
    Held {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be used.
    #[error("cannot open the store")]
    Disk(#[from] DiskError),
    /// Reading or writing failed.
    #[error("cannot read or write `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What reader and writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    /// Absent only while the log is being opened anew, or when that failed.
    database: RwLock<Option<Database>>,
    pub(crate) names: Names,
    pub(crate) mark: [u8; 16],
}

impl Shared {
    /// Wraps a database that is only read.
    pub(crate) fn of_database(disk: Arc<dyn Disk>, database: Database, mark: [u8; 16]) -> Self {
        let database = RwLock::new(Some(database));
        Self { disk, options: Options::default(), database, names: Names::default(), mark }
    }

    /// Closes the database once nobody reads it any more.
    pub(crate) fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the open database, or says that there is none at the moment.
    pub(crate) fn database(&self) -> Result<OpenDatabase<'_>, RowError> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            return Err(RowError::Storage(Box::new(io::Error::other("the log is not open"))));
        }
        Ok(OpenDatabase(guard))
    }
}

/// Keeps the database from being closed while it is used.
pub(crate) struct OpenDatabase<'a>(RwLockReadGuard<'a, Option<Database>>);

impl std::ops::Deref for OpenDatabase<'_> {
    type Target = Database;
    fn deref(&self) -> &Database {
        self.0.as_ref().expect("checked when the guard was made")
    }
}

/// Is an open store: its one writer, and a reader to clone.
#[derive(Debug)]
pub struct Store {
    /// The only way to change the log.
    pub writer: Writer,
    /// Looks at what is durable.
    pub reader: Reader,
}

impl Store {
    /// Says what `directory` holds.
    ///
    /// # Errors
    /// If the directory exists but cannot be looked into: unreadable is not absent.
    pub fn look(directory: &Path) -> Result<Presence, DiskError> {
        match RealDisk::open(directory) {
            Ok(disk) => look_on(&disk),
            Err(DiskError::Missing { .. }) => Ok(Presence::Absent),
            Err(error) => Err(error),
        }
    }

    /// Makes a store in `directory`, which is created if needed. `mark` is random and identifies it.
    ///
    /// # Errors
    /// Refuses a directory that holds a store; an unfinished one is begun again.
    pub fn create(directory: &Path, mark: [u8; 16], options: Options) -> Result<(), CreateError> {
        create_on(&(Arc::new(RealDisk::open_or_create(directory)?) as Arc<dyn Disk>), mark, options)
    }

    /// Opens the store in `directory` and brings the log up to its last durable commit.
    ///
    /// # Errors
    /// [`OpenError`] names what is wrong; nothing was changed.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk::open(directory).map_err(|error| absent(directory, error))?), options)
    }

    /// Opens the store on any disk.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Self, OpenError> {
        let opened = open_log(disk.as_ref(), options)?;
        let shared = Arc::new(Shared {
            disk,
            options,
            database: RwLock::new(Some(opened.database)),
            names: Names::default(),
            mark: opened.mark,
        });
        let reader = Reader::new(shared.clone());
        load_names(&shared)?;
        let writer = Writer::new(shared, opened.journal, opened.incarnation)
            .map_err(|error| damaged_rows(&PathBuf::from(LOG), error))?;
        Ok(Self { writer, reader })
    }
}

fn absent(directory: &Path, error: DiskError) -> OpenError {
    match error {
        DiskError::Missing { .. } => OpenError::Absent { path: directory.to_owned() },
        other => OpenError::Disk(other),
    }
}

/// Makes a store on any disk; see [`Store::create`].
///
/// # Errors
/// As [`Store::create`].
pub fn create_on(disk: &Arc<dyn Disk>, mark: [u8; 16], options: Options) -> Result<(), CreateError> {
    match look_on(disk.as_ref())? {
        Presence::Present => return Err(CreateError::Exists { path: disk.path(LOG) }),
        Presence::Unfinished => remove_unfinished(disk.as_ref())?,
        Presence::Absent => {}
    }
    // Its name marks everything that follows as unfinished until the last step.
    let log = disk.create(LOG_UNFINISHED)?;
    disk.sync_names()?;
    let fail = |name: &str, source: Box<dyn std::error::Error + Send + Sync>| CreateError::Write {
        path: disk.path(name),
        source,
    };
    Journal::create(disk.as_ref(), options.journal_file_bytes)
        .map_err(|error| fail("journal", Box::new(error)))?;
    let format = disk.create(FORMAT_FILE)?;
    let text = format!("{FORMAT_TITLE}\nformat {FORMAT}\n");
    format
        .write_at(0, text.as_bytes())
        .and_then(|()| format.sync())
        .map_err(|error| fail(FORMAT_FILE, error.into()))?;
    let database = redb::Builder::new()
        .set_cache_size(options.cache_bytes)
        .create_with_backend(Backend(log))
        .map_err(|error| fail(LOG, error.into()))?;
    write_first_rows(&database, mark).map_err(|error| fail(LOG, error.into()))?;
    drop(database);
    disk.sync_names()?;
    disk.rename(LOG_UNFINISHED, LOG)?;
    disk.sync_names()?;
    Ok(())
}

fn remove_unfinished(disk: &dyn Disk) -> Result<(), DiskError> {
    let names = disk.names()?;
    let mut ours = journal::file_names();
    ours.push(FORMAT_FILE.to_owned());
    for name in ours.iter().filter(|name| names.contains(name)) {
        disk.remove(name)?;
    }
    // Last, so that an interruption here still reads as unfinished.
    disk.sync_names()?;
    disk.remove(LOG_UNFINISHED)
}

/// Creates all tables and the meta rows of a new log.
pub(crate) fn write_first_rows(database: &Database, mark: [u8; 16]) -> Result<(), redb::Error> {
    let mut tx = database.begin_write()?;
    tx.set_quick_repair(true);
    for table in Table::ALL {
        tx.open_table(table.definition())?;
    }
    {
        let mut meta = tx.open_table(Table::Meta.definition())?;
        meta.insert(&b"format"[..], &u64::from(FORMAT).to_be_bytes()[..])?;
        meta.insert(&b"mark"[..], &mark[..])?;
        meta.insert(&b"incarnation"[..], &0_u64.to_be_bytes()[..])?;
        meta.insert(APPLIED, &encode_mark(Mark::default())[..])?;
    }
    tx.commit()?;
    Ok(())
}

/// The meta key of how far the journal was carried into the log.
pub(crate) const APPLIED: &[u8] = b"applied";

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

fn look_on(disk: &dyn Disk) -> Result<Presence, DiskError> {
    let names = disk.names()?;
    let has = |name: &str| names.iter().any(|found| found == name);
    if has(LOG) {
        return Ok(Presence::Present);
    }
    if has(LOG_UNFINISHED) {
        return Ok(Presence::Unfinished);
    }
    // Without its log a store is damaged, not absent: nothing may be made over its remains.
    let remains = has(FORMAT_FILE) || journal::file_names().iter().any(|name| has(name));
    Ok(if remains { Presence::Present } else { Presence::Absent })
}

struct OpenedLog {
    database: Database,
    journal: Journal,
    mark: [u8; 16],
    incarnation: u64,
}

/// Opens log and journal and brings the log up to the journal's end.
fn open_log(disk: &dyn Disk, options: Options) -> Result<OpenedLog, OpenError> {
    match look_on(disk)? {
        Presence::Absent => return Err(OpenError::Absent { path: disk.path("") }),
        Presence::Unfinished => return Err(OpenError::Unfinished { path: disk.path(LOG_UNFINISHED) }),
        Presence::Present => {}
    }
    check_format(disk)?;
    let path = disk.path(LOG);
    // First without changing anything: what is refused must stay as it was found.
    let database = open_database(disk, options, |file| Ok(Overlay::new(file)?))?;
    let meta = read_meta(&database, &path)?;
    let scanned = Journal::scan(disk, &meta.mark, meta.applied)?;
    drop(database);
    let database = open_database(disk, options, |file| Ok(Backend(file)))?;
    let meta = read_meta(&database, &path)?;
    if meta.applied != scanned.applied() {
        // Somebody opened and closed it in between; once more, from the start.
        return Err(OpenError::Held { path });
    }
    let (mut journal, bodies) = scanned.open()?;
    let incarnation = meta.incarnation + 1;
    carry(&database, &journal, &bodies, incarnation).map_err(|error| match error {
        ReplayError::Malformed(_) => OpenError::Damaged { path: path.clone(), what: error.to_string() },
        ReplayError::Row(error) => damaged_rows(&path, error),
    })?;
    journal.checkpointed(journal.end().offset);
    Ok(OpenedLog { database, journal, mark: meta.mark, incarnation })
}

fn damaged_rows(path: &Path, error: RowError) -> OpenError {
    match error {
        RowError::Storage(source) => OpenError::Io { path: path.to_owned(), source },
        RowError::Damaged { place } => OpenError::Damaged { path: path.to_owned(), what: place },
    }
}

fn check_format(disk: &dyn Disk) -> Result<(), OpenError> {
    const LONGEST: u64 = 256;
    let path = disk.path(FORMAT_FILE);
    let file = match disk.open(FORMAT_FILE) {
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
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => Err(OpenError::NewerFormat { path, found }),
        Some(_) | None => Err(OpenError::NotAStore { path }),
    }
}

fn open_database<B: redb::StorageBackend>(
    disk: &dyn Disk,
    options: Options,
    backend: impl Fn(Box<dyn DiskFile>) -> io::Result<B>,
) -> Result<Database, OpenError> {
    let path = disk.path(LOG);
    let give_up = Instant::now() + options.wait_for_lock;
    loop {
        let file = match disk.open(LOG) {
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

/// Sorts what redb says about opening a file.
pub(crate) fn database_error(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Held { path },
        DatabaseError::Storage(StorageError::Corrupted(what)) => OpenError::Damaged { path, what },
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            OpenError::Damaged { path, what: error.to_string() }
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::Damaged { path, what: "it is shorter than it should be".to_owned() }
        }
        DatabaseError::UpgradeRequired(version) => {
            OpenError::Damaged { path, what: format!("its file format {version} was never used for a log") }
        }
        other => OpenError::Io { path, source: Box::new(other) },
    }
}

/// What the log says about itself.
pub(crate) struct Meta {
    pub(crate) mark: [u8; 16],
    pub(crate) applied: Mark,
    pub(crate) incarnation: u64,
}

/// Reads the meta rows; a log without them is damaged, never empty.
pub(crate) fn read_meta(database: &Database, path: &Path) -> Result<Meta, OpenError> {
    let damaged = |what: &str| OpenError::Damaged { path: path.to_owned(), what: what.to_owned() };
    let storage = |error: redb::Error| match error {
        redb::Error::TableDoesNotExist(_) => damaged("it has no meta table"),
        other => OpenError::Io { path: path.to_owned(), source: Box::new(other) },
    };
    let tx = database.begin_read().map_err(|error| storage(error.into()))?;
    let meta = tx.open_table(Table::Meta.definition()).map_err(|error| storage(error.into()))?;
    let get = |key: &[u8]| -> Result<Vec<u8>, OpenError> {
        let found = meta.get(key).map_err(|error| storage(error.into()))?;
        found.map(|value| value.value().to_vec()).ok_or_else(|| damaged("a meta row is missing"))
    };
    let format = be64(&get(b"format")?).map_err(|_| damaged("its format is not a number"))?;
    if format > u64::from(FORMAT) {
        let found = u16::try_from(format).unwrap_or(u16::MAX);
        return Err(OpenError::NewerFormat { path: path.to_owned(), found });
    }
    Ok(Meta {
        mark: get(b"mark")?.try_into().map_err(|_| damaged("its mark has the wrong length"))?,
        applied: decode_mark(&get(APPLIED)?).ok_or_else(|| damaged("the carried offset is malformed"))?,
        incarnation: be64(&get(b"incarnation")?).map_err(|_| damaged("its incarnation is not a number"))?,
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
    let mut frame = Frame::new();
    let mut rows = Rows::new(&tx, &mut frame);
    for body in bodies {
        rows.replay(body)?;
    }
    rows.put_unjournaled(Table::Meta, b"incarnation", &incarnation.to_be_bytes())?;
    rows.put_unjournaled(Table::Meta, APPLIED, &encode_mark(journal.end()))?;
    drop(rows);
    tx.commit().map_err(RowError::storage)?;
    Ok(())
}

/// Fills the cache of names.
pub(crate) fn load_names(shared: &Shared) -> Result<(), OpenError> {
    let path = shared.disk.path(LOG);
    read_names(shared).map_err(|error| damaged_rows(&path, error))
}

fn read_names(shared: &Shared) -> Result<(), RowError> {
    let database = shared.database()?;
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
        let learned = known.is_some_and(|((kind, number), text)| shared.names.learn(kind, number, text));
        if !learned {
            return Err(RowError::damaged(Table::Numbers, format_args!("{:02x?}", key.value())));
        }
    }
    Ok(())
}

/// Closes the log and opens it again after a failure, keeping readers attached.
pub(crate) fn reopen(shared: &Shared) -> Result<(Journal, u64), OpenError> {
    let mut slot = shared.database.write().unwrap_or_else(PoisonError::into_inner);
    *slot = None;
    let opened = open_log(shared.disk.as_ref(), shared.options)?;
    if opened.mark != shared.mark {
        let what = "another store took its place".to_owned();
        return Err(OpenError::Damaged { path: shared.disk.path(LOG), what });
    }
    *slot = Some(opened.database);
    drop(slot);
    shared.names.clear();
    load_names(shared)?;
    Ok((opened.journal, opened.incarnation))
}

#[cfg(test)]
mod tests;
