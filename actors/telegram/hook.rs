//! Being told updates: one after another, and acknowledged only when durable.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thoughtstream_channels::telegram::access::Credential;
use thoughtstream_channels::telegram::webhook::{self, ListenError, Listening, Sink};
use tokio::sync::{Mutex, mpsc};

use super::TelegramBotArgs;
use super::take::{Patience, Taken, Taker};
use crate::killpoint::KillSite;
use crate::supervisor::{Detail, Fault, ReasonCode};

const NO_SECRET: ReasonCode = ReasonCode::new("webhook-secret-missing");
const NOT_LOOPBACK: ReasonCode = ReasonCode::new("webhook-not-loopback");
const CANNOT_LISTEN: ReasonCode = ReasonCode::new("webhook-cannot-listen");
const LISTENER_ENDED: ReasonCode = ReasonCode::new("webhook-ended");
const LISTENING: ReasonCode = ReasonCode::new("listening");

/// Listens until something goes wrong; without a secret it does not begin.
pub(super) async fn keep_listening(
    args: TelegramBotArgs,
    site: KillSite,
    listen: SocketAddr,
    secret: &Credential,
) -> Fault {
    let Ok(secret) = secret() else { return Fault(NO_SECRET) };
    let client = match args.spec.api.client() {
        Ok(client) => client,
        Err(code) => return Fault(ReasonCode::new(code)),
    };
    let listening = match Listening::open(listen, &secret).await {
        Ok(listening) => listening,
        Err(ListenError::Secret) => return Fault(NO_SECRET),
        Err(ListenError::NotLoopback) => return Fault(NOT_LOOPBACK),
        Err(ListenError::Listen { .. }) => return Fault(CANNOT_LISTEN),
    };
    args.status.note(Some(LISTENING));
    let (faults, mut faulty) = mpsc::channel(1);
    let taker = Mutex::new(Taker::new(args.clone(), site, client));
    let sink = Arc::new(Told { args, taker, faults, refused: AtomicU64::new(0) });
    tokio::select! {
        _ = listening.serve(sink, std::future::pending()) => Fault(LISTENER_ENDED),
        Some(fault) = faulty.recv() => fault,
    }
}

/// Takes what the webhook is told. One update at a time: the order in which they come is the order they have.
struct Told {
    args: TelegramBotArgs,
    taker: Mutex<Taker>,
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
