//! Being told updates: one after another, and acknowledged only when durable.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use secrecy::SecretString;
use thoughtstream_channels::telegram::access::{Credential, Reached};
use thoughtstream_channels::telegram::client::{CallError, Client, WebhookUrl};
use thoughtstream_channels::telegram::trouble::Trouble;
use thoughtstream_channels::telegram::webhook::{self, ListenError, Listening, Sink};
use tokio::sync::{Mutex, mpsc};

use super::TelegramBotArgs;
use super::poll::{left_open, record, rest};
use super::take::{Patience, Taken, Taker};
use crate::clock::JitterSource;
use crate::killpoint::KillSite;
use crate::supervisor::{Detail, Fault, ReasonCode};

const NO_SECRET: ReasonCode = ReasonCode::new("webhook-secret-missing");
const NOT_LOOPBACK: ReasonCode = ReasonCode::new("webhook-not-loopback");
const CANNOT_LISTEN: ReasonCode = ReasonCode::new("webhook-cannot-listen");
const LISTENER_ENDED: ReasonCode = ReasonCode::new("webhook-ended");
const LISTENING: ReasonCode = ReasonCode::new("listening");

/// Says where a webhook is.
pub(super) struct Place {
    pub(super) listen: SocketAddr,
    pub(super) secret: Credential,
    pub(super) url: Option<WebhookUrl>,
}

/// Listens until something goes wrong; without a secret it does not begin. While the gate is closed nobody listens.
pub(super) async fn keep_listening(args: TelegramBotArgs, site: KillSite, place: &Place) -> Fault {
    let taker = match Taker::reaching(&args, site) {
        Ok(taker) => Arc::new(Mutex::new(taker)),
        Err(fault) => return fault,
    };
    loop {
        rest(&args).await;
        if let Err(fault) = listen(&args, &taker, place).await {
            return fault;
        }
    }
}

/// Ends what was wrong while this bot asked for updates: nobody asks any more, and Telegram tells it of them instead.
async fn end_what_polling_left(args: &TelegramBotArgs) -> Result<(), Fault> {
    for code in left_open(args).await? {
        record(args, &code, None, true, 0).await?;
    }
    Ok(())
}

/// Listens until the gate closes.
async fn listen(args: &TelegramBotArgs, taker: &Arc<Mutex<Taker>>, place: &Place) -> Result<(), Fault> {
    let secret = (place.secret)().map_err(|_| Fault(NO_SECRET))?;
    let listening = Listening::open(place.listen, &secret).await.map_err(|error| {
        Fault(match error {
            ListenError::Secret => NO_SECRET,
            ListenError::NotLoopback => NOT_LOOPBACK,
            ListenError::Listen { .. } => CANNOT_LISTEN,
        })
    })?;
    args.status.note(Some(LISTENING));
    if place.url.is_none() {
        // Whoever set the webhook elsewhere has a token that is taken.
        end_what_polling_left(args).await?;
    }
    let (faults, mut faulty) = mpsc::channel(1);
    let taker = Arc::clone(taker);
    let sink = Arc::new(Told { args: args.clone(), taker, faults, refused: AtomicU64::new(0) });
    let gate = Arc::clone(&args.gate);
    let closing = async move { gate.until_closed().await };
    tokio::select! {
        // Requests that are open when the gate closes come to their end first.
        _ = listening.serve(sink, closing) => {
            if args.gate.is_closed() { Ok(()) } else { Err(Fault(LISTENER_ENDED)) }
        }
        Some(fault) = faulty.recv() => Err(fault),
        fault = registered(args, place, &secret) => Err(fault),
    }
}

/// Asks Telegram, once it listens, to tell it of updates, and looks whether that stands. Then it has nothing to do.
async fn registered(args: &TelegramBotArgs, place: &Place, secret: &SecretString) -> Fault {
    let Some(url) = &place.url else { return std::future::pending().await };
    let reached = match Reached::open(args.spec.api.clone()) {
        Ok(reached) => reached,
        Err(code) => return Fault(ReasonCode::new(code)),
    };
    let seed = args.incarnation ^ u64::try_from(args.clock.now().as_millis()).unwrap_or_default();
    let jitter = JitterSource::seeded(seed);
    let mut failures = 0;
    loop {
        let trouble = match register(&reached.client().await, url, secret).await {
            Ok(true) => break,
            // Another program says it too, and otherwise.
            Ok(false) => Trouble::AnotherPoller,
            Err(error) => Trouble::of(&error),
        };
        failures += 1;
        tracing::warn!(source = %args.spec.source, code = trouble.code(), "telegram.webhook_not_set");
        args.status.set("webhook", Detail::id(&trouble.code()));
        tokio::select! {
            () = args.gate.until_asked() => {}
            () = tokio::time::sleep(trouble.wait(failures, jitter.next().0)) => {}
        }
    }
    args.status.set("webhook", Detail::id(&"set"));
    if let Err(fault) = end_what_polling_left(args).await {
        return fault;
    }
    std::future::pending().await
}

/// Sets the webhook, and says whether Telegram then names it.
async fn register(client: &Client, url: &WebhookUrl, secret: &SecretString) -> Result<bool, CallError> {
    client.set_webhook(url, secret).await?;
    Ok(client.webhook().await?.is_at(url))
}

/// Takes what the webhook is told. One update at a time: the order in which they come is the order they have.
struct Told {
    args: TelegramBotArgs,
    taker: Arc<Mutex<Taker>>,
    faults: mpsc::Sender<Fault>,
    refused: AtomicU64,
}

impl Sink for Told {
    async fn take(&self, update: &[u8]) -> webhook::Taken {
        let taker = self.taker.lock().await;
        let taken = taker.take(update, Patience::ComesAgain).await;
        self.args.status.note(Some(LISTENING));
        match taken {
            Ok(Taken::Durable(_)) => webhook::Taken::Durable,
            Ok(Taken::Later) => webhook::Taken::Later,
            Err(fault) => {
                // The first fault ends the actor; another changes nothing.
                self.faults.try_send(fault).ok();
                webhook::Taken::Later
            }
        }
    }

    fn refused(&self) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        self.args.status.set("refused", Detail::Count(refused));
    }
}
