//! One request on its way: it waits for its turn, fetches the credential, sends, and hands the answer back.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use secrecy::SecretString;
use thoughtstream_channels::credential::CredentialError;
use thoughtstream_channels::provider::{Client, Reply, Wire};
use thoughtstream_domain::provider::{AskError, Certainty, ModelRequest, ProviderCode, WireState};
use tokio::time::{Instant, timeout_at};

use super::{Desk, Spend};
use crate::killpoint::KillPoint;
use crate::supervisor::{Fault, ReasonCode};

/// Counts something for as long as it lasts.
struct Counted<'a> {
    desk: &'a Desk,
    count: &'a AtomicU64,
}

impl<'a> Counted<'a> {
    fn new(desk: &'a Desk, count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        desk.tell();
        Self { desk, count }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.desk.tell();
    }
}

/// Takes the task inside along when it is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<Result<(), Fault>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs one request in a task of its own, so that a panic in it is seen.
///
/// # Errors
/// The fault that ends the broker.
pub(super) async fn watched(desk: Arc<Desk>, spend: Spend) -> Result<(), Fault> {
    let mut task = AbortOnDrop(tokio::spawn(asked(desk, spend)));
    match (&mut task.0).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Err(Fault(ReasonCode::PANICKED)),
        // Aborted: whoever did that knows.
        Err(_) => Ok(()),
    }
}

async fn asked(desk: Arc<Desk>, spend: Spend) -> Result<(), Fault> {
    let Spend { frozen, incarnation: _, deadline, wire, mut reply } = spend;
    let outcome = {
        let mut work = pin!(work(&desk, &frozen, deadline, &wire));
        tokio::select! {
            biased;
            () = reply.closed() => None,
            outcome = &mut work => Some(outcome?),
        }
    };
    match &outcome {
        Some(Err(error)) if error.certainty == Certainty::Lost => count(&desk.counts.lost),
        Some(Err(_)) => count(&desk.counts.refused),
        // Nobody waits, and something had left.
        None if !wire.revoke() => count(&desk.counts.lost),
        Some(Ok(_)) | None => {}
    }
    if wire.state() == WireState::Sent {
        count(&desk.counts.sent);
    }
    desk.tell();
    if let Some(outcome) = outcome {
        desk.status.settled();
        // Nobody waiting is nobody to tell.
        drop(reply.send(outcome));
    }
    Ok(())
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Returns what became of the request; the outer error is a fault of ours.
async fn work(
    desk: &Arc<Desk>,
    frozen: &Arc<ModelRequest>,
    deadline: Instant,
    wire: &Arc<Wire>,
) -> Result<Result<Reply, AskError>, Fault> {
    let profile = desk.handle.profile();
    let turn_by = deadline.min(Instant::now() + Duration::from_millis(profile.wait_ms));
    let place = {
        let _waiting = Counted::new(desk, &desk.counts.waiting);
        timeout_at(turn_by, Arc::clone(&desk.places).acquire_owned()).await
    };
    let Ok(Ok(_place)) = place else { return Ok(Err(ProviderCode::BrokerBusy.into())) };
    let _in_flight = Counted::new(desk, &desk.counts.in_flight);
    desk.site.pass(KillPoint::BrokerBefore).await?;
    let key = match credential(desk).await {
        Ok(key) => key,
        Err(code) => return Ok(Err(code.into())),
    };
    let client = match desk.client.get_or_try_init(|| client(desk)).await {
        Ok(client) => client,
        Err(code) => return Ok(Err(code.into())),
    };
    let answer_by = deadline.min(Instant::now() + Duration::from_millis(profile.deadline_ms));
    let reply = {
        let mut asking = pin!(client.ask(frozen, key.as_ref(), wire, answer_by));
        tokio::select! {
            biased;
            () = wire.sent() => {
                desk.site.pass(KillPoint::BrokerInside).await?;
                asking.await
            }
            reply = &mut asking => reply,
        }
    };
    desk.site.pass(KillPoint::BrokerAfter).await?;
    Ok(reply)
}

/// Fetches the credential of the profile, if it has one; it is read for each request and kept for none.
async fn credential(desk: &Arc<Desk>) -> Result<Option<SecretString>, ProviderCode> {
    let profile = Arc::clone(desk.handle.profile());
    let Some(name) = profile.credential.clone() else { return Ok(None) };
    let credentials = desk.credentials.clone();
    let found = tokio::task::spawn_blocking(move || {
        let found = credentials.find(&name, profile.credential_variable.as_deref())?;
        Ok::<_, CredentialError>(found.secret)
    });
    match found.await {
        Ok(Ok(secret)) => Ok(Some(secret)),
        Ok(Err(CredentialError::Missing)) | Err(_) => Err(ProviderCode::CredentialMissing),
        Ok(Err(error)) => {
            tracing::warn!(profile = %desk.handle.profile().name, %error, "the credential is not used");
            Err(ProviderCode::CredentialUnsafe)
        }
    }
}

/// Makes the client, which reads the machine's certificates.
async fn client(desk: &Arc<Desk>) -> Result<Client, ProviderCode> {
    let profile = Arc::clone(desk.handle.profile());
    let made = tokio::task::spawn_blocking(move || Client::new(profile)).await;
    made.ok().and_then(Result::ok).ok_or(ProviderCode::ClientUnavailable)
}
