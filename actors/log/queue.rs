//! What waits for the writer: a queue that outlives every writer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thoughtstream_domain::commit::{Commit, Verdict};
use tokio::sync::{oneshot, watch};

/// The most commits of one group: it bounds how long the last of them waits for the first.
const GROUP_COMMITS_MAX: usize = 512;
/// About the most bytes of one group; one commit that is larger goes alone.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// Is what is known of a commit: its verdict, or that nothing of it was written.
pub(super) type Outcome = Result<Verdict, super::LogError>;

/// Resolves to the outcome; to an error if the writer died with the commit in its hands.
pub(super) type Answer = oneshot::Receiver<Outcome>;

/// Is a commit and the place where its verdict is awaited.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) commit: Arc<Commit>,
    pub(super) reply: oneshot::Sender<Outcome>,
}

/// Is something to be done by whoever holds the store, between two groups.
pub(super) type Errand = Box<dyn FnOnce(&mut dyn super::Ledger) + Send>;

/// With this many commits waiting, nothing that comes from outside gets in: eight of the longest groups.
///
/// What the service itself hands in needs no such bound, and refusing it would lose what the log has to learn. Each actor
/// and each attempt waits for the verdict of one commit before it hands in another, so that there are never more than
/// attempts that can be open (`concurrency`, 64 at most, for each source of each consumer) and a few for every other actor.
pub(super) const OFFERS_WAITING_MAX: usize = 8 * GROUP_COMMITS_MAX;

#[derive(Default)]
struct State {
    waiting: VecDeque<Pending>,
    errands: VecDeque<Errand>,
    closed: bool,
    /// Whether somebody wants the writer to come by although nothing waits.
    called: bool,
    /// Which writer may take groups; a writer of an earlier term leaves.
    term: u64,
}

/// Holds what waits.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// How often a writer has come for work.
    rounds: watch::Sender<u64>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.len()).finish_non_exhaustive()
    }
}

/// Is what a writer gets when it asks for work.
pub(super) enum Taken {
    /// Something to do with the store.
    Errand(Errand),
    /// A group, never empty.
    Group(Vec<Pending>),
    /// Nothing came in time.
    Nothing,
    /// Another writer has taken over.
    Dismissed,
    /// The queue is closed and empty.
    Finished,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a commit at the end; `None` once the queue is closed.
    pub(super) fn push(&self, commit: Arc<Commit>) -> Option<Answer> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        state.waiting.push_back(Pending { commit, reply });
        drop(state);
        self.changed.notify_all();
        Some(answer)
    }

    /// Asks for something to be done; `false` once the queue is closed.
    pub(super) fn send(&self, errand: Errand) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        state.errands.push_back(errand);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Calls the writer, whether anything waits or not, and waits until it has come for work.
    pub(super) async fn call(&self) {
        // What it has come for so far is seen; nothing of a call is kept but that there was one.
        let mut rounds = self.rounds.subscribe();
        self.state().called = true;
        self.changed.notify_all();
        rounds.changed().await.ok();
    }

    /// Returns how many commits wait.
    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    /// Says whether it takes no more.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Takes no more, and lets go of what waits.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
        state.errands.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Begins the term of a new writer and dismisses the one before.
    pub(super) fn begin_term(&self) -> u64 {
        let mut state = self.state();
        state.term += 1;
        let term = state.term;
        drop(state);
        self.changed.notify_all();
        term
    }

    /// Dismisses the writer of `term`, if it is still its term.
    pub(super) fn end_term(&self, term: u64) {
        let mut state = self.state();
        if state.term == term {
            state.term += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Says how the writer of `term` has to end while it can write nothing; what waits then stays unknown.
    pub(super) fn ended(&self, term: u64) -> Option<super::writer::ThreadEnd> {
        let state = self.state();
        if state.term != term {
            return Some(super::writer::ThreadEnd::Dismissed);
        }
        let closed = state.closed;
        drop(state);
        if closed {
            self.abandon();
            return Some(super::writer::ThreadEnd::Finished);
        }
        None
    }

    /// Takes the next group, waiting at most `patience` for its first commit.
    pub(super) fn take(&self, term: u64, patience: Duration) -> Taken {
        let state = self.state();
        let idle = |state: &mut State| {
            let waits = !state.waiting.is_empty() || !state.errands.is_empty() || state.called;
            !waits && !state.closed && state.term == term
        };
        let (mut state, _) =
            self.changed.wait_timeout_while(state, patience, idle).unwrap_or_else(PoisonError::into_inner);
        if state.term != term {
            return Taken::Dismissed;
        }
        state.called = false;
        self.rounds.send_modify(|rounds| *rounds = rounds.wrapping_add(1));
        if let Some(errand) = state.errands.pop_front() {
            return Taken::Errand(errand);
        }
        if state.waiting.is_empty() {
            return if state.closed { Taken::Finished } else { Taken::Nothing };
        }
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(next) = state.waiting.front() {
            bytes += next.commit.weight();
            if group.len() == GROUP_COMMITS_MAX || (bytes > GROUP_BYTES_MAX && !group.is_empty()) {
                break;
            }
            group.extend(state.waiting.pop_front());
        }
        Taken::Group(group)
    }
}
