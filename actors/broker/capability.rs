//! The right to send one frozen request once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thoughtstream_channels::provider::{Reply, Wire};
use thoughtstream_domain::provider::{AskError, Member, ModelRequest, ProviderCode};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{BrokerHandle, Spend};

/// The broker keeps the deadline itself; whoever waits gives it this long to say so.
const GRACE: Duration = Duration::from_secs(2);

/// A request longer than this is compared on a thread of its own.
const BRIEF_BYTES_MAX: usize = 64 * 1024;

/// Is the right to send one frozen request once. It cannot be cloned, and dies with the incarnation of the
/// broker that it was made under.
#[derive(Debug)]
pub struct Capability {
    broker: BrokerHandle,
    wire: Arc<Wire>,
    frozen: Arc<ModelRequest>,
    deadline: Instant,
    incarnation: u64,
    spent: AtomicBool,
}

/// Gives a request up when nobody waits for it any more.
struct Waiting(Arc<Wire>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.revoke();
    }
}

impl Capability {
    pub(super) const fn new(
        broker: BrokerHandle,
        wire: Arc<Wire>,
        frozen: Arc<ModelRequest>,
        deadline: Instant,
        incarnation: u64,
    ) -> Self {
        Self { broker, wire, frozen, deadline, incarnation, spent: AtomicBool::new(false) }
    }

    /// Spends it: compares `asked`, the request as the worker asks for it, with what is frozen, sends what is
    /// frozen, and returns the answer. A capability is spent with the first call, whatever becomes of it, also
    /// when the caller stops waiting.
    ///
    /// # Errors
    /// [`AskError`], which says whether anything can have been sent, with its trace.
    pub async fn spend(&self, asked: &[u8]) -> Result<Reply, AskError> {
        self.send(asked).await.map_err(|error| error.traced(&self.frozen))
    }

    async fn send(&self, asked: &[u8]) -> Result<Reply, AskError> {
        if self.spent.swap(true, Ordering::SeqCst) {
            return Err(ProviderCode::CapabilitySpent.into());
        }
        if let Err(member) = self.compare(asked).await {
            return Err(AskError::of(ProviderCode::WorkerAskedOtherwise).about(member));
        }
        self.broker.profile().admits(&self.frozen)?;
        if !self.broker.claim(self.wire.run()) {
            return Err(ProviderCode::CapabilitySpent.into());
        }
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting(Arc::clone(&self.wire));
        self.broker.send(Spend {
            frozen: Arc::clone(&self.frozen),
            incarnation: self.incarnation,
            deadline: self.deadline,
            wire: Arc::clone(&self.wire),
            reply,
        })?;
        match timeout_at(self.deadline + GRACE, answer).await {
            Ok(Ok(reply)) => reply,
            // It ended without a word: what the wire saw is what is known.
            Ok(Err(_)) if waiting.0.revoke() => Err(ProviderCode::BrokerDown.into()),
            Ok(Err(_)) => Err(ProviderCode::BrokerEnded.into()),
            Err(_) if waiting.0.revoke() => Err(ProviderCode::DeadlineBefore.into()),
            Err(_) => Err(ProviderCode::DeadlinePassed.into()),
        }
    }

    async fn compare(&self, asked: &[u8]) -> Result<(), Member> {
        if asked.len() <= BRIEF_BYTES_MAX {
            return self.frozen.compare(asked);
        }
        let (frozen, asked) = (Arc::clone(&self.frozen), asked.to_vec());
        let compared = tokio::task::spawn_blocking(move || frozen.compare(&asked));
        compared.await.unwrap_or(Err(Member::Whole))
    }
}
