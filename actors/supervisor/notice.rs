//! What supervision tells the rest of the service, so that it becomes events in the log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::{Exit, ReasonCode, StopReason};
use thoughtstream_domain::time::Timestamp;

/// What happened to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// A new incarnation runs after `exit`.
    Restarted {
        /// How the one before it ended.
        exit: Exit,
        /// How often this child has been restarted since the process began.
        restarts: u64,
    },
    /// It stays down until a person resumes it.
    Quarantined {
        /// The last of the exits.
        exit: Exit,
        /// How many there were in a row.
        exits: u32,
    },
    /// A person released it.
    Resumed,
    /// Its supervisor cannot do without it and stops.
    GaveUp {
        /// The last of the exits.
        exit: Exit,
    },
    /// Something a person should know that changed no state.
    Incident {
        /// What it was.
        code: ReasonCode,
    },
    /// A person or a reload stopped it.
    Stopped {
        /// For what reason.
        reason: StopReason,
    },
}

impl NoticeKind {
    /// Returns the word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restarted { .. } => "restarted",
            Self::Quarantined { .. } => "quarantined",
            Self::Resumed => "resumed",
            Self::GaveUp { .. } => "gave-up",
            Self::Incident { .. } => "incident",
            Self::Stopped { .. } => "stopped",
        }
    }
}

/// One report of the supervision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Names of the supervisors from the root down, and the child's own, joined by `/`.
    pub path: Arc<str>,
    /// What sort of actor the child is.
    pub kind: &'static str,
    /// Which incarnation it is about, counted from 1.
    pub incarnation: u64,
    /// When it was noticed.
    pub at: Timestamp,
    /// What happened.
    pub what: NoticeKind,
}

/// Takes notices. It is called from a supervisor's handler, so it must neither block nor fail.
pub trait NoticeSink: Send + Sync {
    /// Takes one notice.
    fn take(&self, notice: Notice);
}

/// Throws notices away.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoNotices;

impl NoticeSink for NoNotices {
    fn take(&self, _: Notice) {}
}

/// A bounded queue of notices. When it is full a notice is dropped and counted: what supervision must have
/// recorded is found again in the log by the recovery scan, a notice only makes it prompt.
#[derive(Clone)]
pub struct NoticeQueue {
    sender: mpsc::Sender<Notice>,
    dropped: Arc<AtomicU64>,
}

impl NoticeQueue {
    /// Room for a notice from each of 10,000 consumers that fall together, with some to spare.
    pub const CAPACITY: usize = 16_384;

    /// Makes the queue and the end to read from.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<Notice>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self { sender, dropped: Arc::default() }, receiver)
    }

    /// Returns how many notices found the queue full or its reader gone.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for NoticeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeQueue").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

impl NoticeSink for NoticeQueue {
    fn take(&self, notice: Notice) {
        if self.sender.try_send(notice).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
