//! What everything in a rehearsal shares: both players, the open gates, and who looks at them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use thoughtstream_domain::content::Content;
use tokio::sync::{broadcast, watch};

use super::provider::{Provider, ProviderCounters};
use super::script::Script;
use super::telegram::{Telegram, TelegramCounters};

/// Somebody who looks more slowly than this many requests come in misses the oldest, and is told so.
const SEEN_MAX: usize = 1024;

/// Counts what happened in a rehearsal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// What the provider was asked.
    pub provider: ProviderCounters,
    /// What Telegram was asked.
    pub telegram: TelegramCounters,
}

/// Is one request as it was answered, for a line in a log.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Who was asked: `provider`, `telegram` or `rehearsal`.
    pub side: &'static str,
    /// What was asked: a path or a method.
    pub what: String,
    /// The rule that answered, if one did.
    pub rule: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// The size of the request's body.
    pub bytes_in: u64,
    /// How many bytes the answer had.
    pub bytes_out: u64,
    /// Whether the answer came to the end that was meant for it; a client may leave before.
    pub brought: bool,
    /// The body that came in.
    pub content: Content<Vec<u8>>,
}

/// Is what changes in a rehearsal.
#[derive(Debug)]
pub(super) struct State {
    pub(super) provider: Provider,
    pub(super) telegram: Telegram,
    /// The gates that were opened.
    pub(super) open: BTreeSet<String>,
    /// How many answers each gate holds back.
    pub(super) held: BTreeMap<String, u64>,
}

/// Is what everything in a rehearsal shares.
#[derive(Debug)]
pub(super) struct Stage {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    pub(super) seen: broadcast::Sender<Seen>,
}

impl Stage {
    pub(super) fn new(script: Script) -> Self {
        let state = State {
            provider: Provider::new(script.provider),
            telegram: Telegram::new(script.telegram),
            open: BTreeSet::new(),
            held: BTreeMap::new(),
        };
        Self {
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            seen: broadcast::Sender::new(SEEN_MAX),
        }
    }

    /// Looks at the state.
    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the state and wakes whoever waits for something in it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_modify(|times| *times = times.wrapping_add(1));
        result
    }

    /// Waits until something holds.
    pub(super) async fn until(&self, mut holds: impl FnMut(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        loop {
            if self.look(&mut holds) {
                return;
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while holding it was one connection's task; counters are whole between statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn counters(&self) -> Counters {
        Counters { provider: self.provider.counters.clone(), telegram: self.telegram.counters() }
    }
}

/// Returns the time in whole seconds, as Telegram dates messages.
pub(super) fn seconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
