//! The supervision kernel: who is started, in which order, how often again, and who is left down.
//!
//! A tree is declared as values ([`SupervisorSpec`], [`ChildSpec`]) and brought up by [`launch`]. Restarts are
//! decided by a pure function ([`RestartPolicy::decide`]); what an ended child left open is closed by its exit
//! hook before the successor starts; looking at the tree asks no actor. A supervisor is a child like any other.
//!
//! The kernel knows nothing of the log: what supervision has to record leaves through a [`NoticeSink`].
//!
//! An actor's file ends in a function that declares it, and the tree names that function in one line:
//!
//! ```
//! use std::sync::Arc;
//! use ractor::{Actor, ActorProcessingErr, ActorRef};
//! use thoughtstream_actors::{address::Address, supervisor::*};
//!
//! struct Desk; // desk.rs
//! impl Actor for Desk {
//!     type Msg = u8;
//!     type State = Arc<StatusCell>;
//!     type Arguments = Arc<StatusCell>;
//!     async fn pre_start(
//!         &self, _: ActorRef<u8>, status: Arc<StatusCell>,
//!     ) -> Result<Arc<StatusCell>, ActorProcessingErr> {
//!         Ok(status)
//!     }
//! }
//! fn desk(address: Address<u8>) -> ChildSpec {
//!     let name = ChildName::fixed("desk");
//!     ChildSpec::actor_at(name, "desk", address, |context| (Desk, context.status.clone()))
//!         .policy(RestartPolicy::escalate())
//!         .on_exit(|_report| async { Recovery::Done })
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let desk_address = Address::new();
//! let consumers = SupervisorSpec::pool(ChildName::fixed("consumers"));
//! let pool = consumers.handle(); // start_child, stop_child, restart_child, resume, remove
//! let tree = SupervisorSpec::new(ChildName::fixed("doc-tree"), Strategy::RestForOne)
//!     .child(desk(desk_address.clone())) // the one line
//!     .nested(consumers);
//! let root = launch(tree, Env::new(1, Arc::new(NoNotices))).await.unwrap();
//! root.handle().wait_started().await;
//! assert_eq!(root.handle().tree().await.find("desk").unwrap().state, ChildState::Running);
//! root.stop(); // a second time: by force
//! assert_eq!(root.wait().await.exit_code(), 0);
//! # assert!(pool.start_child(desk(Address::new())).await.is_err());
//! # });
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::{Clock, JitterSource, SystemClock};

mod child;
mod exit;
mod exits;
mod handle;
mod kernel;
mod notice;
mod policy;
mod root;
mod roster;
mod spec;
mod starts;
mod status;
mod stops;
#[cfg(test)]
mod tests;
mod tree;

pub use child::{
    BadChildName, ChildName, ChildSpec, ExitReport, Initially, Pending, Recovery, Shutdown, StartContext,
    StartError, Started,
};
pub use exit::{Exit, Fault, ReasonCode, StopReason};
pub use handle::{CommandError, RestartCause, SupervisorHandle};
pub use notice::{NoNotices, Notice, NoticeKind, NoticeQueue, NoticeSink};
pub use policy::{Backoff, Decision, History, Jitter, OnExhausted, RestartPolicy, RestartType};
pub use root::{Outcome, Root, launch};
pub use spec::{StopOrder, Strategy, SupervisorSpec};
pub use status::{Detail, Details, StatusCell};
pub use tree::{ChildState, LastExit, TreeNode};

/// What comes into a tree from outside: time, chance, and where its notices go.
#[derive(Clone)]
pub struct Env {
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Chance for the spread of restarts.
    pub jitter: Arc<JitterSource>,
    /// Where notices go.
    pub notices: Arc<dyn NoticeSink>,
}

impl Env {
    /// The machine's clock, with notices going to `notices`.
    pub fn new(seed: u64, notices: Arc<dyn NoticeSink>) -> Self {
        Self { clock: Arc::new(SystemClock), jitter: Arc::new(JitterSource::seeded(seed)), notices }
    }
}

/// Locks `mutex`; what it guards is replaced field by field, so a panic elsewhere leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
