//! Checkpoints: carrying what only the journal holds into the log for good, so that the journal can be used again.
//!
//! The everyday one is begun and goes on behind the groups that follow; whoever needs the room or the end of it waits.

use std::time::{Duration, Instant};

use super::{WriteError, Writer};
use crate::journal::Mark;
use crate::store::{APPLIED, encode_mark};
use crate::tables::Table;

/// A checkpoint is due when this much of the journal waits for it: less than half a journal file, so that the next
/// file is always free in time, and little enough that the disk is not kept from the journal's syncs for long. Half of
/// it costs a tenth of the rate, and more of it only keeps those waiting who are just then answered.
const CHECKPOINT_BYTES: u64 = 768 << 10;

/// A checkpoint is due when the last one is this long ago and something waits.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(200);

impl Writer {
    /// Begins to carry the log for good to where the journal ends, if that is due at `now`: enough waits, or the
    /// last time is long enough ago. Answers whether it did. Nobody waits for the disk; until it has done its part,
    /// the journal keeps what is carried, and no other checkpoint begins.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub fn maybe_checkpoint(&mut self, now: Instant) -> Result<bool, WriteError> {
        if self.failed {
            return Err(WriteError::MustReopen);
        }
        self.take_up_checkpoint()?;
        if self.carrying.is_some() {
            return Ok(false);
        }
        let waiting = self.journal.waiting_bytes();
        let since = *self.last_checkpoint.get_or_insert(now);
        let due = waiting >= CHECKPOINT_BYTES
            || waiting > 0 && now.saturating_duration_since(since) >= CHECKPOINT_INTERVAL;
        if due {
            let end = self.journal.end();
            self.behind.clone().defer(|| self.commit_carried(end))?;
            self.carrying = Some(end);
            self.take_up_checkpoint()?;
            self.last_checkpoint = Some(now);
        } else if waiting == 0 {
            self.last_checkpoint = Some(now);
        }
        Ok(due)
    }

    /// Returns whether anything waits for a checkpoint.
    pub fn wants_checkpoint(&self) -> bool {
        self.journal.waiting_bytes() > 0
    }

    /// Carries the log for good to where the journal ends.
    ///
    /// # Errors
    /// Everything answered before stays durable in the journal; the log must be opened again.
    pub fn checkpoint(&mut self) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::MustReopen);
        }
        if !self.wants_checkpoint() {
            return Ok(());
        }
        let end = self.journal.end();
        self.carry_to(end)
    }

    /// Commits durably that the log holds everything up to a mark of the journal.
    pub(super) fn carry_to(&mut self, end: Mark) -> Result<(), WriteError> {
        self.commit_carried(end)?;
        self.checkpointed(end);
        Ok(())
    }

    /// Notes that everything up to a mark is durable without the journal.
    pub(super) fn checkpointed(&mut self, end: Mark) {
        self.journal.checkpointed(end.offset);
        self.carrying = None;
    }

    /// Looks whether a checkpoint that was begun is durable by now.
    pub(super) fn take_up_checkpoint(&mut self) -> Result<(), WriteError> {
        let Some(end) = self.carrying else { return Ok(()) };
        match self.behind.is_done() {
            Ok(true) => self.checkpointed(end),
            Ok(false) => {}
            Err(error) => {
                self.carrying = None;
                return Err(self.fail(error.into()));
            }
        }
        Ok(())
    }

    fn commit_carried(&mut self, end: Mark) -> Result<(), WriteError> {
        let shared = self.shared.clone();
        let database = shared.database().map_err(|_| WriteError::MustReopen)?;
        // As for a group: a panic on the way leaves a writer that must be opened again.
        self.failed = true;
        let mut tx = database.begin_write().map_err(|error| self.fail(error.into()))?;
        tx.set_quick_repair(true);
        self.note_applied(&tx, end)?;
        tx.commit().map_err(|error| self.fail(error.into()))?;
        self.failed = false;
        Ok(())
    }

    fn note_applied(&mut self, tx: &redb::WriteTransaction, mark: Mark) -> Result<(), WriteError> {
        let noted =
            tx.open_table(Table::Meta.definition()).map_err(redb::Error::from).and_then(|mut meta| {
                meta.insert(APPLIED, &encode_mark(mark)[..]).map(drop).map_err(redb::Error::from)
            });
        noted.map_err(|error| self.fail(error.into()))
    }
}
