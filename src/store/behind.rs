//! Makes a checkpoint durable while groups go on: redb's file, whose syncs may be put off and never change places.
//!
//! A checkpoint is hundreds of pages, and two syncs with a header between them: some milliseconds in which everybody
//! would wait. Nobody has to: what it carries over is durable in the journal, and stays there until the checkpoint is.
//! So while a checkpoint is asked for, what redb does to the file is only put down, and whatever it does behind that,
//! too; a thread does it all in that order. A power cut therefore leaves a file that redb itself could have left.
//! Reading sees what is put down. Everything that redb must be sure of, and every other commit, waits for the end of it.

use std::collections::VecDeque;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use redb::{BackendError, StorageBackend};

use crate::disk::{Backend, DiskFile, Overlap};

/// What waits for its turn.
#[derive(Debug, Clone)]
enum Operation {
    Write { offset: u64, data: Arc<[u8]> },
    Sync,
}

#[derive(Debug, Default)]
struct State {
    /// Whether what is asked for is put down instead of done.
    defers: bool,
    /// What is put down, in its order; what is being done stays in front until it is.
    queue: VecDeque<Operation>,
    /// Whether a thread does it; else it is done by whoever asks how far it is.
    has_thread: bool,
    /// Whether something of it failed. Nothing more is done to the file then: its order would have a hole.
    failed: bool,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    file: Backend,
    state: Mutex<State>,
    turned: Condvar,
}

/// A file of redb, and the way to ask how far it is. Clones are one file.
#[derive(Debug, Clone)]
pub(crate) struct Behind(Arc<Shared>);

fn failed() -> io::Error {
    io::Error::other("an earlier checkpoint could not be made durable")
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what stands first in the queue, and takes it off when it is done.
    fn do_next<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let Some(next) = state.queue.front().cloned() else { return state };
        drop(state);
        let done = match next {
            Operation::Write { offset, data } => self.file.0.write_at(offset, &data),
            Operation::Sync => self.file.0.sync(),
        };
        let mut state = self.state();
        if done.is_ok() {
            state.queue.pop_front();
        } else {
            state.failed = true;
            state.queue.clear();
        }
        self.turned.notify_all();
        state
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if !state.queue.is_empty() {
                state = self.do_next(state);
            } else if state.closed {
                return;
            } else {
                state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Waits until nothing is put down any more.
    fn settle(&self) -> io::Result<()> {
        let mut state = self.state();
        while !state.queue.is_empty() {
            state = if state.has_thread {
                self.turned.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.do_next(state)
            };
        }
        if state.failed { Err(failed()) } else { Ok(()) }
    }
}

/// Ends the putting off, however the commit ends.
struct Deferring<'b>(&'b Behind);

impl Drop for Deferring<'_> {
    fn drop(&mut self) {
        self.0.0.state().defers = false;
    }
}

impl Behind {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> Self {
        Self(Arc::new(Shared { file: Backend(file), state: Mutex::default(), turned: Condvar::new() }))
    }

    /// Lets a commit put everything off: it answers before it is durable.
    pub(crate) fn defer<T>(&self, commit: impl FnOnce() -> T) -> T {
        self.0.state().defers = true;
        let _deferring = Deferring(self);
        commit()
    }

    /// Says whether everything that was put off is durable by now.
    ///
    /// # Errors
    /// Some of it failed, and the file must be closed.
    pub(crate) fn is_done(&self) -> io::Result<bool> {
        let state = self.0.state();
        if state.failed {
            return Err(failed());
        }
        if state.queue.is_empty() {
            return Ok(true);
        }
        let later = state.has_thread || self.0.file.0.overlap() == Overlap::Behind;
        drop(state);
        if later { Ok(false) } else { self.0.settle().map(|()| true) }
    }

    /// Starts the thread when it is needed first; where none can be had, whoever asks does the work.
    fn start_thread(&self, state: &mut State) {
        if state.has_thread {
            return;
        }
        let shared = Arc::clone(&self.0);
        let started = thread::Builder::new().name("log-checkpoint".to_owned()).spawn(move || shared.work());
        state.has_thread = started.is_ok();
    }

    /// Puts an operation down, or says that it is to be done now.
    fn put_off(&self, operation: impl FnOnce() -> Operation) -> io::Result<bool> {
        let mut state = self.0.state();
        if state.failed {
            return Err(failed());
        }
        // What stands in the queue decides: nothing passes it.
        let later = !state.queue.is_empty()
            || state.defers
                && match self.0.file.0.overlap() {
                    Overlap::Before => false,
                    Overlap::Behind => true,
                    Overlap::Beside => {
                        self.start_thread(&mut state);
                        state.has_thread
                    }
                };
        if later {
            state.queue.push_back(operation());
            self.0.turned.notify_all();
        }
        Ok(later)
    }
}

impl StorageBackend for Behind {
    fn len(&self) -> io::Result<u64> {
        self.0.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let put_down: Vec<(u64, Arc<[u8]>)> = {
            let state = self.0.state();
            let end = offset + out.len() as u64;
            let writes = state.queue.iter().filter_map(|operation| match operation {
                Operation::Write { offset: at, data } if *at < end && offset < *at + data.len() as u64 => {
                    Some((*at, Arc::clone(data)))
                }
                Operation::Write { .. } | Operation::Sync => None,
            });
            writes.collect()
        };
        self.0.file.read(offset, out)?;
        for (at, data) in put_down {
            lay_over(out, offset, &data, at);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.settle()?;
        self.0.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let defers = self.0.state().defers;
        if defers && self.put_off(|| Operation::Sync)? {
            return Ok(());
        }
        self.0.settle()?;
        self.0.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.put_off(|| Operation::Write { offset, data: data.into() })? {
            return Ok(());
        }
        self.0.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        let settled = self.0.settle();
        self.0.state().closed = true;
        self.0.turned.notify_all();
        // The lock goes whatever became of the rest: the journal has it, and the next open reads that.
        self.0.file.close().and(settled)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.unlock_range(start, end)
    }
}

/// Copies the part of `data`, which begins at `at`, that lies in `out`, which begins at `offset`.
fn lay_over(out: &mut [u8], offset: u64, data: &[u8], at: u64) {
    let (end, data_end) = (offset + out.len() as u64, at + data.len() as u64);
    let (from, to) = (offset.max(at), end.min(data_end));
    let place =
        |position: u64, start: u64| usize::try_from(position.saturating_sub(start)).unwrap_or(usize::MAX);
    if from < to {
        out[place(from, offset)..place(to, offset)].copy_from_slice(&data[place(from, at)..place(to, at)]);
    }
}

#[cfg(test)]
mod tests;
