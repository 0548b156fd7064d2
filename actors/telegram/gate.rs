//! The gate of a bot's ingress: closed while a consumer of its messages is moved to another version.
//!
//! A bot that finds it closed finishes the update it has, lets go of its connection or its listener, and says that it
//! rests. What people write meanwhile waits at Telegram.

use tokio::sync::{Notify, watch};

/// Is the gate of one bot, shared by every incarnation of its actor.
#[derive(Debug)]
pub struct Gate {
    closed: watch::Sender<bool>,
    resting: watch::Sender<bool>,
    asked: Notify,
}

impl Gate {
    /// Makes a gate.
    #[must_use]
    pub fn new(closed: bool) -> Self {
        Self { closed: watch::Sender::new(closed), resting: watch::Sender::new(false), asked: Notify::new() }
    }

    /// Closes it.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Opens it.
    pub fn open(&self) {
        self.closed.send_replace(false);
    }

    /// Ends the bot's wait before its next attempt: a person wants it to look now.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// Waits until a person wants the bot to look; one who did while it was at work has been heard as well.
    pub async fn until_asked(&self) {
        self.asked.notified().await;
    }

    /// Says whether it is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until it is closed.
    pub async fn until_closed(&self) {
        // The sender lives as long as the gate.
        self.closed.subscribe().wait_for(|closed| *closed).await.ok();
    }

    /// Waits until the bot rests behind the closed gate.
    pub async fn until_resting(&self) {
        self.resting.subscribe().wait_for(|resting| *resting).await.ok();
    }

    /// Rests while it is closed; called by the bot, with nothing in its hands.
    pub async fn rest(&self) {
        if !self.is_closed() {
            return;
        }
        let _resting = Resting::begin(&self.resting);
        self.closed.subscribe().wait_for(|closed| !*closed).await.ok();
    }
}

/// Says that the bot rests, for as long as it does: one that is killed meanwhile rests no more.
struct Resting<'a>(&'a watch::Sender<bool>);

impl<'a> Resting<'a> {
    fn begin(resting: &'a watch::Sender<bool>) -> Self {
        resting.send_replace(true);
        Self(resting)
    }
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bot_rests_while_the_gate_is_closed_and_goes_on_when_it_opens() {
        let gate = Arc::new(Gate::new(false));
        gate.rest().await;
        gate.close();
        let bot = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.rest().await }
        });
        gate.until_resting().await;
        assert!(!bot.is_finished());
        gate.open();
        bot.await.unwrap();
        assert!(!*gate.resting.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_killed_while_it_rests_is_not_said_to_rest() {
        let gate = Arc::new(Gate::new(true));
        let bot = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.rest().await }
        });
        gate.until_resting().await;
        bot.abort();
        assert!(bot.await.is_err());
        assert!(!*gate.resting.borrow());
    }
}
