//! A rehearsal: a provider and a Telegram that do what a script says, on this machine alone.
//!
//! People try declarations with it without spending anything, and every test of the model path goes through the real
//! HTTP client to it. It speaks as the real ones do where a client may lean on that, and misbehaves where the script
//! says so; it counts all it is asked, so that "exactly one request" is a number and not a hope.

mod provider;
mod script;
mod server;
mod stage;
mod telegram;
#[cfg(test)]
mod tests;
mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

pub use provider::{
    Answer, CallId, ProviderCounters, ProviderRequest, ProviderScript, Rule, Says, ToolCall, Usage, When,
};
pub use script::{BYTES_MAX as SCRIPT_BYTES_MAX, EXAMPLE, Script, codes};
pub use stage::{Counters, Seen};
pub use telegram::{
    After, Bot, Image, ImageKind, Item, Message, MessageRef, Outcome, Scripted, SentMessage, TelegramAnswer,
    TelegramCounters, TelegramRule, TelegramScript, TelegramWhen,
};
pub use wire::{Cut, CutAt, CutHow, Drip, Manner};

use stage::{Stage, seconds_now};

/// Is a rehearsal at work; it ends when this is dropped.
#[derive(Debug)]
pub struct Rehearsal {
    /// The base of the provider's addresses, ending in `/v1`.
    pub provider_url: String,
    /// The base of Telegram's addresses.
    pub telegram_url: String,
    stage: Arc<Stage>,
    address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Rehearsal {
    /// Starts playing `script` on a free port of this machine.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_at(script, 0).await
    }

    /// Starts playing `script` on `port` of this machine; 0 is any that is free.
    ///
    /// # Errors
    /// The port could not be had.
    pub async fn start_at(script: Script, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let updates = script.telegram.updates.clone();
        let stage = Arc::new(Stage::new(script));
        let tasks = vec![
            tokio::spawn(server::serve(listener, Arc::clone(&stage))),
            tokio::spawn(telegram::feed(Arc::clone(&stage), updates)),
            tokio::spawn(telegram::deliver(Arc::clone(&stage))),
        ];
        Ok(Self {
            provider_url: format!("http://{address}/v1"),
            telegram_url: format!("http://{address}"),
            stage,
            address,
            tasks,
        })
    }

    /// Returns where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a rule of the provider before all others.
    pub fn add_rule(&self, rule: Rule) {
        self.stage.change(|state| state.provider.script.rules.insert(0, rule));
    }

    /// Adds a rule of Telegram before all others.
    pub fn add_telegram_rule(&self, rule: TelegramRule) {
        self.stage.change(|state| state.telegram.script.rules.insert(0, rule));
    }

    /// Lets somebody write to the bot; returns the update's number.
    pub fn say(&self, chat: i64, from: i64, text: &str) -> Option<i64> {
        self.happen(&Scripted::new(Item::Message(Message::text(chat, from, text))))
    }

    /// Lets something happen now; returns the update's number, or nothing if it refers to a message there is not.
    pub fn happen(&self, scripted: &Scripted) -> Option<i64> {
        self.stage.change(|state| state.telegram.happen(scripted, seconds_now()))
    }

    /// Opens a gate: every answer that it holds back is brought, and every later one at once.
    pub fn release(&self, gate: &str) {
        self.stage.change(|state| state.open.insert(gate.to_owned()));
    }

    /// Returns how many answers a gate holds back.
    #[must_use]
    pub fn held(&self, gate: &str) -> u64 {
        self.stage.look(|state| state.held.get(gate).copied().unwrap_or_default())
    }

    /// Waits until a gate holds back so many answers.
    pub async fn until_held(&self, gate: &str, answers: u64) {
        self.stage.until(|state| state.held.get(gate).copied().unwrap_or_default() >= answers).await;
    }

    /// Returns the latest requests to the provider, oldest first.
    #[must_use]
    pub fn provider_requests(&self) -> Vec<ProviderRequest> {
        self.stage.look(|state| state.provider.requests.iter().cloned().collect())
    }

    /// Returns the messages of the bot that arrived, in order; of very many the latest.
    #[must_use]
    pub fn sent_messages(&self) -> Vec<SentMessage> {
        self.stage.look(|state| state.telegram.sent.iter().cloned().collect())
    }

    /// Returns the number of the bot's latest message in a chat.
    #[must_use]
    pub fn last_reply(&self, chat: i64) -> Option<i64> {
        self.stage.look(|state| state.telegram.last_reply(chat))
    }

    /// Returns what was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.stage.look(stage::State::counters)
    }

    /// Waits until something holds of the counters.
    pub async fn until(&self, mut holds: impl FnMut(&Counters) -> bool) {
        self.stage.until(|state| holds(&state.counters())).await;
    }

    /// Returns every request from now on, as it was answered.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Seen> {
        self.stage.seen.subscribe()
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
