//! Where a supervised actor can be reached, whichever incarnation plays the part at the moment.

use std::fmt;
use std::sync::Arc;

use ractor::{ActorRef, Message};
use tokio::sync::watch;

/// Points at the present incarnation of one actor; clones point at the same part.
///
/// A message sent here can still die with the incarnation that received it, so nothing that must survive
/// travels this way without an answer.
pub struct Address<M>(Arc<watch::Sender<Option<ActorRef<M>>>>);

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Default for Address<M> {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.0.borrow().is_some()).finish()
    }
}

impl<M: Message> Address<M> {
    /// Makes an address at which nobody lives yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts the present incarnation there.
    pub fn publish(&self, actor: ActorRef<M>) {
        self.0.send_replace(Some(actor));
    }

    /// Returns the last incarnation that was published; it may have ended since.
    pub fn get(&self) -> Option<ActorRef<M>> {
        self.0.borrow().clone()
    }

    /// Waits until somebody lives there.
    pub async fn wait(&self) -> ActorRef<M> {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(actor) = changes.borrow_and_update().clone() {
                return actor;
            }
            changes.changed().await.expect("this address holds the sending half");
        }
    }

    /// Hands `message` to the present incarnation.
    ///
    /// # Errors
    /// When nobody lives there, or the incarnation has just ended.
    pub fn send(&self, message: M) -> Result<(), NobodyThere> {
        let actor = self.get().ok_or(NobodyThere)?;
        actor.send_message(message).map_err(|_| NobodyThere)
    }
}

/// No incarnation of the actor takes messages at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the actor is not running at the moment")]
pub struct NobodyThere;
