//! The only way to change the log: groups of commits in, verdicts out, durable when answered.
//!
//! One group is one redb transaction and one journal frame. Each commit is checked before its first row is
//! staged, so a refused one leaves nothing behind and the rest go on. When all are checked, the frame is written and
//! synced: the durable point, and everybody is answered. Only then does redb take what the frame says and show it,
//! without a sync of its own; whoever looks in between waits that moment, so nobody looks and misses what was answered.
//! redb catches up at the next checkpoint. The writer belongs to one thread; it decides nothing about when to run or
//! what to do when it fails.

mod account;
mod append;
mod cache;
mod checkpoint;
mod compact;
mod document;
mod precondition;
mod row;
mod settle;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use redb::Durability;
use thiserror::Error;
use thoughtstream_domain::commit::{Commit, Refusal, Row, Verdict};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::TypeRef;
use thoughtstream_domain::registry::Hashes;
use thoughtstream_domain::time::Timestamp;

use crate::behind::Behind;
use crate::disk::Disk;
use crate::journal::{Frame, Journal, Mark};
use crate::projection::{self, Heads, Put as _};
use crate::reader::Reader;
use crate::rows::{ReplayError, RowError, Rows, Tables};
use crate::store::{APPLIED, LOG, OpenError, Options, Shared, damaged_rows, encode_mark, reopen};
use crate::tables::Table;
use cache::Cache;

pub(crate) use cache::Head;
pub use compact::{CompactError, Compacted};
pub(crate) use row::{from_json, to_json};
pub(crate) use settle::{claim, read_claim};

/// About how many bytes of commits a caller should hand in as one group: it bounds the frame, the memory and
/// the latency of everyone in it. A single larger commit goes alone.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// The most bytes of one commit; more cannot be one step of anything.
pub const COMMIT_BYTES_MAX: usize = 64 << 20;

/// The most events of one commit.
pub const COMMIT_EVENTS_MAX: usize = 4096;

/// The least free space a group is admitted with. A commit that fails half-way for lack of space costs a
/// reopen; refusing before it costs nothing and leaves reading untouched.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// How many bytes of pages a byte of journal may come to: pages are written anew and older ones are kept until
/// the checkpoint.
const PAGES_PER_BYTE: u64 = 4;

/// Says why a group was not answered. No commit of it is half there.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The disk is nearly full. Nothing was written; the log stays open for reading.
    #[error("only {free} bytes are free on the log's disk and this needs {needed}")]
    NoSpace {
        /// Free bytes.
        free: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// A stored row that was to be changed is damaged. Nothing of the group was written. (A damaged row that a
    /// check meets only keeps that commit out: its verdict says so.)
    #[error("the log is damaged at {place}")]
    Damaged {
        /// The table and key.
        place: String,
    },
    /// Writing failed, nothing of the group is durable. The log must be opened again before more is written.
    #[error("the log could not be written; nothing of this group was recorded")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Writing failed at a point where the group may or may not be durable. Open the log again, then hand the
    /// same commits in: they say which.
    #[error("the log failed while a group was being made durable; its outcome is not known")]
    Unknown(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An earlier failure has not been followed by [`Writer::reopen`].
    #[error("the log has failed and must be opened again")]
    MustReopen,
}

/// Says that a type's definition is not the one the log was written with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the definition of {kind} has changed: the log was written with {stored}, offered is {offered}")]
pub struct TypeChanged {
    /// The type.
    pub kind: TypeRef,
    /// The hash it was last written with.
    pub stored: Sha256Hash,
    /// The hash now.
    pub offered: Sha256Hash,
}

/// Says why the set of types was not taken over.
#[derive(Debug, Error)]
pub enum TypesError {
    /// Definitions changed under an unchanged version.
    #[error("{} type definitions changed under an unchanged version", .0.len())]
    Changed(Vec<TypeChanged>),
    /// The stored hashes cannot be read.
    #[error("cannot read the stored definitions")]
    Read(#[from] RowError),
}

/// The single writer of a store.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    options: Options,
    behind: Behind,
    journal: Journal,
    /// How far a checkpoint goes that is not durable yet.
    carrying: Option<Mark>,
    frame: Frame,
    cache: Cache,
    types: BTreeMap<TypeRef, Hashes>,
    incarnation: u64,
    failed: bool,
    last_checkpoint: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(
        reader: &Reader,
        disk: Arc<dyn Disk>,
        options: Options,
        behind: Behind,
        journal: Journal,
        incarnation: u64,
    ) -> Result<Self, RowError> {
        Ok(Self {
            cache: Cache::load(reader)?,
            shared: reader.shared.clone(),
            disk,
            options,
            behind,
            journal,
            carrying: None,
            frame: Frame::new(),
            types: BTreeMap::new(),
            incarnation,
            failed: false,
            last_checkpoint: None,
        })
    }

    fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// Returns how many times this store has been opened for writing; recorded in every run row.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Says which types may be written from now on, with the hashes of their definitions.
    ///
    /// A log written with a definition that this one only added to is taken; once the type is written again,
    /// the log names the newer definition, and a build that does not know that one refuses the log.
    ///
    /// # Errors
    /// Names every type whose definition is neither the one the log was written with nor grown from it;
    /// nothing changes then.
    pub fn set_types(&mut self, types: BTreeMap<TypeRef, Hashes>) -> Result<(), TypesError> {
        let stored = self.reader().definitions()?;
        let changed = stored.into_iter().filter_map(|(kind, stored)| {
            let offered = types.get(&kind)?;
            (!offered.accept(&stored)).then_some(TypeChanged { kind, stored, offered: offered.current })
        });
        let changed: Vec<TypeChanged> = changed.collect();
        if !changed.is_empty() {
            return Err(TypesError::Changed(changed));
        }
        self.types = types;
        self.cache.forget_types();
        Ok(())
    }

    /// Applies a group; the verdicts stand in the order of the commits. `now` is when they are recorded,
    /// unless that would be before an event recorded earlier.
    ///
    /// # Errors
    /// [`WriteError`] says whether anything may have become durable and whether to reopen.
    pub fn apply<C: Borrow<Commit>>(
        &mut self,
        group: &[C],
        now: Timestamp,
    ) -> Result<Vec<Verdict>, WriteError> {
        let mut verdicts = Vec::new();
        self.apply_answering(group, now, &mut || Ok(()), &mut |answers| verdicts = answers)?;
        Ok(verdicts)
    }

    /// Does the same, and hands the verdicts on as soon as they are durable, before redb has taken them: whoever is
    /// answered goes on while it does. A look that begins after that waits for it. `answer` is called once, or there is
    /// an error. `inside` is called when the group is written and not durable yet: a rehearsal makes it end there.
    ///
    /// # Errors
    /// As [`Self::apply`]; an error of `inside` is one of the disk.
    pub fn apply_answering<C: Borrow<Commit>>(
        &mut self,
        group: &[C],
        now: Timestamp,
        inside: &mut dyn FnMut() -> std::io::Result<()>,
        answer: &mut dyn FnMut(Vec<Verdict>),
    ) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::MustReopen);
        }
        self.take_up_checkpoint()?;
        let bytes = group.iter().map(|commit| weigh(commit.borrow())).sum::<usize>();
        self.check_space(bytes)?;
        if !self.journal.has_room(bytes.min(GROUP_BYTES_MAX) * 2) {
            self.checkpoint()?;
        }
        // Until the end is reached: a panic on the way leaves a writer that may know less than the journal.
        self.failed = true;
        let result = self.apply_in_transaction(group, now, inside, answer);
        self.failed = match &result {
            Ok(Shown::Taken) | Err(WriteError::NoSpace { .. } | WriteError::Damaged { .. }) => false,
            Ok(Shown::Behind)
            | Err(WriteError::Failed(_) | WriteError::Unknown(_) | WriteError::MustReopen) => true,
        };
        if result.is_err() {
            // Whatever was cached from the dropped transaction never happened.
            self.cache.roll_back();
        }
        result.map(drop)
    }

    /// Returns how many bytes may still be written to the log's disk, if it can tell.
    pub fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }

    /// Admits a group only if the disk can take it and the checkpoint behind it: what waits for a checkpoint
    /// is written to `log.redb` only then.
    fn check_space(&mut self, bytes: usize) -> Result<(), WriteError> {
        let needed = |waiting: u64| FREE_BYTES_MIN + PAGES_PER_BYTE * (waiting + bytes as u64);
        let waiting = self.journal.waiting_bytes();
        let Some(free) = self.disk.free_bytes() else { return Ok(()) };
        if free >= needed(waiting) {
            return Ok(());
        }
        self.checkpoint()?;
        let free = self.disk.free_bytes().unwrap_or(free);
        if free < needed(0) { Err(WriteError::NoSpace { free, needed: needed(0) }) } else { Ok(()) }
    }

    fn apply_in_transaction<C: Borrow<Commit>>(
        &mut self,
        group: &[C],
        now: Timestamp,
        inside: &mut dyn FnMut() -> std::io::Result<()>,
        answer: &mut dyn FnMut(Vec<Verdict>),
    ) -> Result<Shown, WriteError> {
        let shared = self.shared.clone();
        let database = shared.database().map_err(|_| WriteError::MustReopen)?;
        let mut tx = database.begin_write().map_err(|error| self.fail(error.into()))?;
        let mut rows = Rows::new(&tx, &shared.names);
        let mut group_state =
            GroupState { cache: &mut self.cache, types: &self.types, now, heads: Heads::default() };
        let verdicts = match group_state.apply_all(&mut rows, group) {
            Ok(verdicts) => verdicts,
            Err(RowError::Damaged { place }) => return Err(WriteError::Damaged { place }),
            Err(RowError::Storage(source)) => return Err(self.fail(source)),
        };
        self.frame.clear();
        let mut tables = rows.into_frame(&mut self.frame);
        let size = self.frame.body_bytes();
        if size == 0 {
            answer(verdicts);
            return Ok(Shown::Taken);
        }
        if !self.journal.has_room(size) {
            // Larger than the journal takes: redb's own commit is the durable point, and a checkpoint too.
            let end = self.journal.end();
            put_frame(&mut tables, self.frame.body(), end).map_err(|error| self.fail(error))?;
            drop(tables);
            tx.set_quick_repair(true);
            self.cache.publish(&self.shared.names);
            tx.commit().map_err(|error| self.unknown(Box::new(error)))?;
            self.checkpointed(end);
            answer(verdicts);
            return Ok(Shown::Taken);
        }
        let sealed = self.journal.seal(&mut self.frame);
        let written = self.journal.append(&self.frame, sealed, inside);
        written.map_err(|error| self.unknown(error.into()))?;
        self.cache.publish(&self.shared.names);
        // Durable from here on: what redb fails to take is brought into the log by the next open. The same answer.
        let unshown = shared.hold_looks();
        answer(verdicts);
        let put = put_frame(&mut tables, self.frame.body(), sealed);
        drop(tables);
        let shown = put.and_then(|()| {
            tx.set_durability(Durability::None)?;
            Ok(tx.commit()?)
        });
        Ok(match shown {
            Ok(()) => Shown::Taken,
            Err(error) => {
                tracing::warn!(%error, "log.commit_after_sync_failed");
                unshown.until_reopened();
                Shown::Behind
            }
        })
    }

    fn fail(&mut self, error: Failure) -> WriteError {
        self.failed = true;
        WriteError::Failed(error)
    }

    fn unknown(&mut self, error: Failure) -> WriteError {
        self.failed = true;
        WriteError::Unknown(error)
    }

    /// Drops everything that is derived from events, runs and versions, and builds it again in one durable step.
    ///
    /// # Errors
    /// Nothing has changed then; after a failed write the log must be opened again.
    pub fn rebuild_projections(&mut self) -> Result<(), WriteError> {
        self.checkpoint()?;
        let shared = self.shared.clone();
        let database = shared.database().map_err(|_| WriteError::MustReopen)?;
        let mut tx = database.begin_write().map_err(|error| self.fail(error.into()))?;
        tx.set_quick_repair(true);
        match projection::rebuild(&tx, &shared.names) {
            Ok(()) => {}
            Err(RowError::Damaged { place }) => return Err(WriteError::Damaged { place }),
            Err(RowError::Storage(source)) => {
                self.failed = true;
                return Err(WriteError::Failed(source));
            }
        }
        tx.commit().map_err(|error| self.unknown(Box::new(error)))?;
        self.cache.roll_back();
        Ok(())
    }

    /// Carries everything over and closes the log. Whoever still holds a reader is told that it is not open;
    /// another process may open it.
    ///
    /// # Errors
    /// As [`Self::checkpoint`]; the log is closed all the same, and what was acknowledged stays durable.
    pub fn close(&mut self) -> Result<(), WriteError> {
        let carried = self.checkpoint();
        self.failed = true;
        self.shared.close();
        self.shared.let_look();
        carried
    }

    /// Returns whether a failure waits for [`Self::reopen`].
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Closes the log and opens it again, as after a crash. Readers stay attached. Types must be set again
    /// only if they changed.
    ///
    /// # Errors
    /// Until it succeeds, the writer answers errors, and so do readers of a log that cannot be read either; it may
    /// be called again.
    pub fn reopen(&mut self) -> Result<(), OpenError> {
        self.failed = true;
        let reopened = reopen(&self.shared, self.disk.as_ref(), self.options);
        // Also where it failed: what can be read is read on.
        self.shared.let_look();
        let (behind, journal, incarnation) = reopened?;
        let cache = Cache::load(&self.reader());
        let cache = cache.map_err(|error| damaged_rows(&self.disk.path(LOG), error))?;
        self.behind = behind;
        self.journal = journal;
        self.carrying = None;
        self.incarnation = incarnation;
        self.cache = cache;
        self.failed = false;
        self.last_checkpoint = None;
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody comes any more to open it again.
        self.shared.let_look();
    }
}

/// Says whether redb has taken what is durable.
enum Shown {
    Taken,
    /// The next open brings it in.
    Behind,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Puts what a frame says into redb's transaction, and how far that carries the log.
fn put_frame(tables: &mut Tables<'_>, body: &[u8], end: Mark) -> Result<(), Failure> {
    tables.replay(body).map_err(|error| match error {
        ReplayError::Row(RowError::Storage(source)) => source,
        error @ (ReplayError::Row(RowError::Damaged { .. }) | ReplayError::Malformed(_)) => error.into(),
    })?;
    Ok(tables.put(Table::Meta, APPLIED, &encode_mark(end))?)
}

/// Returns about how many bytes a commit writes, to bound a group by.
pub fn weigh(commit: &Commit) -> usize {
    const EVENT_BYTES: usize = 400;
    const ROW_BYTES: usize = 300;
    let events = commit.appends.iter().map(|candidate| {
        EVENT_BYTES + candidate.payload().reveal().len() + 40 * candidate.envelope().parents.len()
    });
    let rows = commit.rows.iter().map(|row| match row {
        Row::Blob { bytes, .. } => ROW_BYTES + bytes.reveal().len(),
        Row::Declaration(registered) => ROW_BYTES + registered.canonical.len(),
        Row::Execution(execution) => ROW_BYTES + 48 * execution.triggers.len(),
        Row::Run(_)
        | Row::Entry(_)
        | Row::SetProgress { .. }
        | Row::Pass { .. }
        | Row::Control(..)
        | Row::Document(_)
        | Row::DocumentStat { .. }
        | Row::Redact(_) => ROW_BYTES,
    });
    events.sum::<usize>() + rows.sum::<usize>()
}

/// What checking and applying the commits of one group needs.
struct GroupState<'w> {
    cache: &'w mut Cache,
    types: &'w BTreeMap<TypeRef, Hashes>,
    now: Timestamp,
    heads: Heads,
}

/// Is how a check ends that found a reason to keep the commit out.
enum Stop {
    Verdict(Verdict),
    Error(RowError),
}

impl From<RowError> for Stop {
    fn from(error: RowError) -> Self {
        Self::Error(error)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Verdict(Verdict::Refused(refusal))
    }
}

impl GroupState<'_> {
    /// Applies the commits one after the other, then writes what was put off to the end of the group.
    fn apply_all<C: Borrow<Commit>>(
        &mut self,
        rows: &mut Rows<'_>,
        group: &[C],
    ) -> Result<Vec<Verdict>, RowError> {
        let verdicts = group.iter().map(|commit| self.apply(rows, commit.borrow()));
        let verdicts = verdicts.collect::<Result<_, _>>()?;
        self.heads.put(rows)?;
        Ok(verdicts)
    }

    /// Checks a commit, and writes it only if everything holds.
    fn apply(&mut self, rows: &mut Rows<'_>, commit: &Commit) -> Result<Verdict, RowError> {
        let planned = match self.check(rows, commit) {
            Ok(planned) => planned,
            Err(Stop::Verdict(verdict)) => return Ok(verdict),
            // Nothing of this commit is written yet: what stands on a damaged row is kept out, the rest goes on.
            Err(Stop::Error(RowError::Damaged { place })) => {
                return Ok(Verdict::Refused(Refusal::Damaged { place }));
            }
            Err(Stop::Error(error @ RowError::Storage(_))) => return Err(error),
        };
        let placed = self.write_events(rows, commit, &planned)?;
        for row in &commit.rows {
            self.write_row(rows, row)?;
        }
        Ok(Verdict::Committed(placed))
    }

    fn check(&mut self, rows: &mut Rows<'_>, commit: &Commit) -> Result<Vec<append::Planned>, Stop> {
        check_size(commit)?;
        self.look_up(rows, commit)?;
        self.check_types(commit)?;
        for (index, precondition) in commit.preconditions.iter().enumerate() {
            self.check_precondition(rows, index, precondition)?;
        }
        let planned = self.plan(rows, commit)?;
        for (index, row) in commit.rows.iter().enumerate() {
            row::check_recorded(commit, index, row)?;
            self.check_row(rows, commit, index, row)?;
        }
        self.check_underlying(rows, commit)?;
        Ok(planned)
    }
}

fn check_size(commit: &Commit) -> Result<(), Refusal> {
    let (events, bytes) = (commit.appends.len(), weigh(commit));
    if events > COMMIT_EVENTS_MAX {
        return Err(Refusal::TooLarge { what: format!("{events} events, at most {COMMIT_EVENTS_MAX}") });
    }
    if bytes > COMMIT_BYTES_MAX {
        return Err(Refusal::TooLarge { what: format!("{bytes} bytes, at most {COMMIT_BYTES_MAX}") });
    }
    Ok(())
}
