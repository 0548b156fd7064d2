//! The store's writer, as the log writer's thread drives it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thoughtstream_domain::cause::root_cause;
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::payload::system::{Operator, ServiceStopped};
use thoughtstream_store::{JournalError, OpenError, Reader, TypesError, WriteError, Writer};

use crate::clock::Clock;
use crate::log::{Ledger, LedgerError, Types};
use crate::scribe::of_service;
use crate::supervisor::Fault;

/// After how long without work the log is carried over into its tables.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(200);
/// How long an idle writer sleeps; a commit wakes it at once.
const IDLE: Duration = Duration::from_secs(3600);

/// Is the store's writer with what the thread needs around it.
pub struct StoreLedger {
    writer: Writer,
    reader: Reader,
    clock: Arc<dyn Clock>,
    head: u64,
    /// How much must be free before writing is tried again.
    needed: Option<u64>,
}

/// With less room than this, a log that cannot be opened again is taken to lack it: opening writes a few pages.
const FULL_BELOW: u64 = 1 << 20;

impl StoreLedger {
    pub(crate) fn new(writer: Writer, reader: Reader, clock: Arc<dyn Clock>, head: u64) -> Self {
        Self { writer, reader, clock, head, needed: None }
    }

    /// Leaves the store: notes an orderly end and who asked for it, carries everything over into the tables, and closes
    /// it.
    pub(super) fn leave(&mut self, in_order: Option<Option<Operator>>) -> Result<(), LedgerError> {
        if let Some(operator) = in_order {
            let incarnation = self.writer.incarnation();
            let stopped = ServiceStopped { incarnation, operator };
            let stopped = of_service(&stopped, &format!("{incarnation}/stopped"));
            let commit = Commit { appends: vec![stopped], ..Commit::default() };
            // Without the note the next start is a careful one; the log is closed all the same.
            drop(self.apply(&[Arc::new(commit)], &mut || Ok(()), &mut |_, _| {}));
        }
        self.writer.close().map_err(|e| self.explain(e))
    }

    fn explain(&mut self, error: WriteError) -> LedgerError {
        match error {
            WriteError::NoSpace { free, needed } => {
                self.needed = Some(needed);
                let code = format!("disk-full: {free} bytes are free, {needed} are needed");
                LedgerError::Unwritable { code, nothing_written: true }
            }
            WriteError::Damaged { place } => LedgerError::Damaged { what: place },
            WriteError::Failed(ref source) | WriteError::Unknown(ref source) => LedgerError::Unwritable {
                code: format!("write-failed: {}; the log is opened again", root_cause(source.as_ref())),
                nothing_written: false,
            },
            WriteError::MustReopen => LedgerError::Unwritable {
                code: "write-failed: the log is opened again".to_owned(),
                nothing_written: false,
            },
        }
    }
}

impl Ledger for StoreLedger {
    fn apply(
        &mut self,
        group: &[Arc<Commit>],
        inside: &mut dyn FnMut() -> Result<(), Fault>,
        answer: &mut dyn FnMut(Vec<Verdict>, u64),
    ) -> Result<(), LedgerError> {
        let now = self.clock.now();
        let mut inside = || inside().map_err(std::io::Error::other);
        let head = &mut self.head;
        let mut answer = |verdicts: Vec<Verdict>| {
            for placed in verdicts.iter().filter_map(Verdict::placed).flatten() {
                *head = (*head).max(placed.position);
            }
            answer(verdicts, *head);
        };
        let applied = self.writer.apply_answering(group, now, &mut inside, &mut answer);
        applied.map_err(|error| self.explain(error))
    }

    fn upkeep(&mut self) -> Result<Duration, LedgerError> {
        self.writer.maybe_checkpoint(Instant::now()).map_err(|e| self.explain(e))?;
        Ok(if self.writer.wants_checkpoint() { CHECKPOINT_EVERY } else { IDLE })
    }

    fn reopen(&mut self) -> Result<(), LedgerError> {
        if let Some(needed) = self.needed {
            // A disk that cannot tell is tried.
            let free = self.writer.free_bytes().unwrap_or(needed);
            if free < needed {
                return Err(LedgerError::Unwritable {
                    code: format!("disk-full: {free} bytes are free, {needed} are needed"),
                    nothing_written: true,
                });
            }
            self.needed = None;
        }
        if self.writer.has_failed() {
            self.writer.reopen().map_err(|error| match error {
                OpenError::Damaged { what, .. } => LedgerError::Damaged { what },
                OpenError::Journal(
                    error @ (JournalError::Gap { .. }
                    | JournalError::Behind { .. }
                    | JournalError::Length { .. }
                    | JournalError::Foreign { .. }),
                ) => LedgerError::Damaged { what: error.to_string() },
                OpenError::Empty { path } | OpenError::NotAStore { path } => {
                    LedgerError::Damaged { what: format!("{} is not what it was", path.display()) }
                }
                ref error @ (OpenError::Absent { .. }
                | OpenError::Unfinished { .. }
                | OpenError::NewerFormat { .. }
                | OpenError::Held { .. }
                | OpenError::Disk(_)
                | OpenError::Journal(JournalError::Open(_) | JournalError::Io { .. })
                | OpenError::Io { .. }) => {
                    let full = self.writer.free_bytes().filter(|free| *free < FULL_BELOW);
                    let code = full.map_or_else(
                        || format!("reopen-failed: {}", root_cause(error)),
                        |free| {
                            format!("disk-full: {free} bytes are free, and the log cannot be opened again")
                        },
                    );
                    LedgerError::Unwritable { code, nothing_written: false }
                }
            })?;
        }
        if let Ok(head) = self.reader.last_position() {
            self.head = head;
        }
        Ok(())
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn set_types(&mut self, types: Types) -> Result<(), String> {
        self.writer.set_types(types).map_err(|error| match error {
            TypesError::Changed(changed) => {
                changed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            TypesError::Read(error) => error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_said_is_what_people_are_told() {
        let system = std::io::Error::from_raw_os_error(27);
        let error =
            WriteError::Failed(Box::new(OpenError::Io { path: "log.redb".into(), source: Box::new(system) }));
        assert_eq!(root_cause(&error), "File too large (os error 27)");
    }
}
