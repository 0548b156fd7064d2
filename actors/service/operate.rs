//! What follows a person's decision once it is in the log: the actor is told to look, or is stopped and started.

use std::sync::PoisonError;

use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::id::ConsumerId;

use super::ServiceHandle;
use crate::consumer::ConsumerMessage;
use crate::log::LogError;
use crate::producer::ProducerMessage;
use crate::producer::apart::Sitter;
use crate::supervisor::{ChildState, CommandError, RestartCause};

/// Says why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OperateError {
    /// No enabled declaration has this id.
    #[error("no enabled declaration has this id")]
    NotEnabled,
    /// No source of this name is watched.
    #[error("no source of this name is watched")]
    NotWatched,
    /// The source's producer runs as a process of its own, and is not connected.
    #[error("the producer of this source runs apart, and is not connected")]
    NotConnected,
    /// The actor's supervisor did not do it.
    #[error("{0}")]
    Actor(CommandError),
    /// Only a store made for rehearsal may be harmed on purpose.
    #[error("this store holds real work: only a rehearsal may be harmed on purpose")]
    NotARehearsal,
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
}

impl ServiceHandle {
    /// Hands a decision in.
    ///
    /// # Errors
    /// [`LogError::Unwritable`] if nothing can be written; [`LogError::Unknown`] if the answer was lost.
    pub async fn decide(&self, commit: Commit) -> Result<Verdict, LogError> {
        self.0.log.offer(commit).await
    }

    /// Lets a consumer see what a person decided about it: its control row, or one of its executions. One that
    /// its supervisor holds in quarantine is released if the log no longer says so.
    ///
    /// # Errors
    /// [`OperateError`] if it is not enabled or its supervisor does not answer.
    pub async fn consumer_changed(&self, id: &ConsumerId) -> Result<(), OperateError> {
        let enabled = self.enabled(id)?;
        let quarantined = |state| state == ChildState::Quarantined;
        let tree = self.0.consumers.snapshot();
        if tree.children.iter().any(|child| child.name == id.as_str() && quarantined(child.state)) {
            let reader = self.reader();
            let wanted = id.clone();
            let control = tokio::task::spawn_blocking(move || reader.control(&wanted)).await;
            let still =
                control.ok().and_then(Result::ok).flatten().is_some_and(|c| c.quarantined_since.is_some());
            if !still {
                return self.0.consumers.resume(id.as_str()).await.map_err(OperateError::Actor);
            }
        }
        // One that is down reads the log when it comes up.
        enabled.address.send(ConsumerMessage::Resync).ok();
        Ok(())
    }

    /// Stops a consumer's actor and starts it anew; what it left open is closed in between.
    ///
    /// # Errors
    /// [`OperateError`] if it is not enabled, or it is quarantined and waits to be resumed.
    pub async fn restart_consumer(&self, id: &ConsumerId) -> Result<(), OperateError> {
        self.enabled(id)?;
        let restarted = self.0.consumers.restart_child(id.as_str(), RestartCause::Requested).await;
        restarted.map_err(OperateError::Actor)
    }

    /// Looks at a watched source now; a bot that waits before its next attempt makes it now.
    ///
    /// # Errors
    /// [`OperateError::NotWatched`] if there is no such source, [`OperateError::NotConnected`] if nobody looks at it.
    pub fn look_at(&self, source: &str) -> Result<(), OperateError> {
        let gates = self.0.gates.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, gate)) = gates.iter().find(|(bot, _)| bot.as_str() == source) {
            gate.ask();
            return Ok(());
        }
        drop(gates);
        self.tell_producer(source, ProducerMessage::Look)
    }

    /// Lets removals pass that a watched source holds until a person says that they are meant.
    ///
    /// # Errors
    /// As [`Self::look_at`].
    pub fn acknowledge_removals(&self, source: &str) -> Result<(), OperateError> {
        self.tell_producer(source, ProducerMessage::AcknowledgeRemovals)
    }

    /// Asks a watched source to look, and waits until a look that began after this is through. Answers whether
    /// everything it saw is in the log; nothing if its actor ended meanwhile, or is down.
    ///
    /// # Errors
    /// [`OperateError::NotWatched`] if there is no such source.
    pub async fn looked_at(&self, source: &str) -> Result<Option<bool>, OperateError> {
        let (asker, answer) = tokio::sync::oneshot::channel();
        match self.tell_producer(source, ProducerMessage::LookFor(asker)) {
            Ok(()) => Ok(answer.await.ok()),
            Err(OperateError::Stopping | OperateError::NotConnected) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the process of a producer apart that does not answer, if that is why none is connected.
    #[must_use]
    pub fn silent_producer(&self, source: &str) -> Option<Sitter> {
        let watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner);
        watched.get(source)?.seat.as_ref()?.silent()
    }

    /// Says whether anybody looks at a source: not where its producer runs apart and none is connected.
    #[must_use]
    pub fn has_producer(&self, source: &str) -> bool {
        let watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner);
        watched.get(source).is_some_and(|one| one.seat.as_ref().is_none_or(|seat| seat.is_taken()))
    }

    /// Says whether a source is a bot.
    #[must_use]
    pub fn is_bot(&self, source: &str) -> bool {
        let gates = self.0.gates.read().unwrap_or_else(PoisonError::into_inner);
        gates.keys().any(|bot| bot.as_str() == source)
    }

    fn tell_producer(&self, source: &str, message: ProducerMessage) -> Result<(), OperateError> {
        let watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner);
        let one = watched.get(source).ok_or(OperateError::NotWatched)?;
        if one.seat.as_ref().is_some_and(|seat| !seat.is_taken()) {
            return Err(OperateError::NotConnected);
        }
        one.address.send(message).map_err(|_| OperateError::Stopping)
    }

    fn enabled(&self, id: &ConsumerId) -> Result<super::Enabled, OperateError> {
        let enabled = self.0.enabled.read().unwrap_or_else(PoisonError::into_inner);
        enabled.get(id).cloned().ok_or(OperateError::NotEnabled)
    }
}
