//! A Telegram bot as a source: an actor that asks for updates, or is told them, and makes each of them one event.
//!
//! An update is acknowledged only after its commit is durable: by asking for the ones behind it, or by answering
//! the webhook. So a log that is full or stopped loses none; they wait at Telegram.

pub mod gate;
mod hook;
mod poll;
mod take;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_channels::telegram::access::{BotApi, Credential};
use thoughtstream_channels::telegram::client::WebhookUrl;
use thoughtstream_channels::telegram::normalise::Rules;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_store::Reader;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::dispatcher::DispatcherSpec;
use crate::killpoint::KillPoints;
use crate::log::LogHandle;
use crate::service::ServiceHandle;
use crate::supervisor::{ChildName, ChildSpec, Fault, ReasonCode, StatusCell};

use gate::Gate;

/// It rests while a consumer of its messages is moved to another version.
const FROZEN: ReasonCode = ReasonCode::new("ingress-frozen");

/// The task of the bot panicked.
const ROUND_FAILED: ReasonCode = ReasonCode::new("round-failed");

/// How long Telegram may keep a question for updates open: a little less than proxies on the way do.
pub const LONG_POLL: Duration = Duration::from_secs(50);

/// Says how a bot learns of updates.
#[derive(Clone)]
pub enum Mode {
    /// It asks, and waits so long for an answer.
    Poll {
        /// How long.
        wait: Duration,
    },
    /// It is told.
    Webhook {
        /// Where it listens.
        listen: SocketAddr,
        /// What shows that it is Telegram who tells.
        secret: Credential,
        /// Where Telegram is asked to tell; if absent, a person sees to that.
        url: Option<WebhookUrl>,
    },
}

impl std::fmt::Debug for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Poll { wait } => f.debug_struct("Poll").field("wait", wait).finish(),
            Self::Webhook { listen, .. } => {
                f.debug_struct("Webhook").field("listen", listen).finish_non_exhaustive()
            }
        }
    }
}

/// Is what a bot is configured with.
#[derive(Debug, Clone)]
pub struct BotSpec {
    /// Its source.
    pub source: SourceId,
    /// How it is reached.
    pub api: BotApi,
    /// How it learns of updates.
    pub mode: Mode,
    /// Who is listened to.
    pub rules: Rules,
    /// The class of its events.
    pub privacy: Privacy,
    /// The largest image that is taken.
    pub image_bytes_max: u64,
    /// What is delivered through it.
    pub delivers: Option<DispatcherSpec>,
}

/// Is the actor of a bot.
#[derive(Debug)]
pub struct TelegramBot;

/// Is what a bot's actor is told.
#[derive(Debug)]
pub enum TelegramBotMessage {
    /// Its task ended; it never does by itself.
    Ended(Fault),
}

/// Is what a bot's actor is started with.
#[derive(Clone)]
pub struct TelegramBotArgs {
    /// What it is.
    pub spec: Arc<BotSpec>,
    /// Where commits go.
    pub log: LogHandle,
    /// Where it looks whether an update is known.
    pub reader: Reader,
    /// What holds it back while a consumer is moved to another version.
    pub gate: Arc<Gate>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where it can be made to fail.
    pub points: Arc<KillPoints>,
    /// The number of this service's start.
    pub incarnation: u64,
    /// Its path in the tree.
    pub path: Arc<str>,
    /// Where it says how it is doing.
    pub status: Arc<StatusCell>,
}

/// Is the state of a bot's actor; dropping it ends its task.
pub struct TelegramBotState {
    args: TelegramBotArgs,
    task: Option<AbortOnDrop>,
}

impl Actor for TelegramBot {
    type Msg = TelegramBotMessage;
    type State = TelegramBotState;
    type Arguments = TelegramBotArgs;

    async fn pre_start(
        &self,
        _: ActorRef<TelegramBotMessage>,
        args: TelegramBotArgs,
    ) -> Result<TelegramBotState, ActorProcessingErr> {
        Ok(TelegramBotState { args, task: None })
    }

    async fn post_start(
        &self,
        me: ActorRef<TelegramBotMessage>,
        state: &mut TelegramBotState,
    ) -> Result<(), ActorProcessingErr> {
        let args = state.args.clone();
        let site = args.points.site(Arc::clone(&args.path), Some(me.get_cell()));
        let work = tokio::spawn(async move {
            match args.spec.mode.clone() {
                Mode::Poll { wait } => poll::keep_polling(args, site, wait).await,
                Mode::Webhook { listen, secret, url } => {
                    hook::keep_listening(args, site, &hook::Place { listen, secret, url }).await
                }
            }
        });
        let mut work = AbortOnDrop(work);
        let watching = tokio::spawn(async move {
            let fault = work.ended().await.unwrap_or(Fault(ROUND_FAILED));
            drop(me.send_message(TelegramBotMessage::Ended(fault)));
            Fault(ROUND_FAILED)
        });
        state.task = Some(AbortOnDrop(watching));
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<TelegramBotMessage>,
        message: TelegramBotMessage,
        state: &mut TelegramBotState,
    ) -> Result<(), ActorProcessingErr> {
        let TelegramBotMessage::Ended(fault) = message;
        drop(state.task.take());
        Err(fault.into())
    }
}

/// Ends a task, and with it what the task holds, when it is dropped.
struct AbortOnDrop(JoinHandle<Fault>);

impl AbortOnDrop {
    async fn ended(&mut self) -> Option<Fault> {
        (&mut self.0).await.ok()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Declares the actors of the configured bots: each bot as a source, and if it delivers anything its dispatcher and
/// the reader of what people think of that.
///
/// # Panics
/// Never: a source's name makes a child's name.
#[must_use]
pub fn children(service: &ServiceHandle, bots: Vec<BotSpec>) -> Vec<ChildSpec> {
    let mut children = Vec::new();
    for mut bot in bots {
        if let Some(delivers) = bot.delivers.take() {
            children.push(crate::dispatcher::child(service, delivers));
            children.push(crate::feedback::child(service, bot.source.clone()));
        }
        let name = ChildName::parse(bot.source.as_str()).expect("a source is a child's name");
        let gate = service.gate(&bot.source);
        let (service, spec) = (service.clone(), Arc::new(bot));
        children.push(ChildSpec::actor(name, "telegram-bot", move |context| {
            let args = TelegramBotArgs {
                spec: Arc::clone(&spec),
                log: service.0.log.clone(),
                reader: service.reader(),
                gate: Arc::clone(&gate),
                clock: Arc::clone(&service.0.clock),
                points: service.points(),
                incarnation: service.incarnation(),
                path: Arc::clone(&context.path),
                status: Arc::clone(&context.status),
            };
            (TelegramBot, args)
        }));
    }
    children
}

#[cfg(test)]
mod tests;
