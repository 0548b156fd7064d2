//! Asks a model once: one request over a connection of its own, bounded in bytes and time, never sent twice.
//!
//! It speaks the chat completions that providers and servers on one's own machine have in common, in one piece
//! or streamed. It takes a frozen request and gives an answer or one code with its certainty; a provider's own
//! words about an error are not read. Whether the answer is any good is for others to judge.

mod asked;
mod gathered;
mod pieces;
mod whole;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use thoughtstream_domain::payload::trace::TraceChunk;
use thoughtstream_domain::provider::{Answer, AskError, ModelRequest, Profile, ProviderCode};
use tokio::time::{Instant, timeout_at};

use crate::http;

pub use wire::Wire;

/// A provider that wants to be left alone for longer than a day is asked again all the same.
const RETRY_AFTER_S_MAX: u64 = 24 * 60 * 60;

/// Is the client of one profile.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    profile: Arc<Profile>,
}

/// Is an answer with what may be kept about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// Steps, counts, hashes and fixed words.
    pub trace: Vec<TraceChunk>,
}

/// The client could not be made: the machine has no root certificates that could be read.
#[derive(Debug, thiserror::Error)]
#[error("the client of a provider could not be made")]
pub struct ClientUnavailable;

impl Client {
    /// Makes the client of a profile. It reads the machine's root certificates, so it may block.
    ///
    /// # Errors
    /// [`ClientUnavailable`] if they cannot be read.
    pub fn new(profile: Arc<Profile>) -> Result<Self, ClientUnavailable> {
        Self::made(profile, http::builder())
    }

    fn made(profile: Arc<Profile>, builder: reqwest::ClientBuilder) -> Result<Self, ClientUnavailable> {
        let endpoint = &profile.endpoint;
        let mut builder = builder.https_only(endpoint.is_encrypted());
        if endpoint.is_this_machine() {
            // Nothing but this machine answers to its own name, whatever a resolver says.
            let addresses = [[127, 0, 0, 1].into(), [0, 0, 0, 0, 0, 0, 0, 1].into()];
            let addresses = addresses.map(|address: std::net::IpAddr| (address, 0).into());
            builder = builder.resolve_to_addrs("localhost", &addresses);
        }
        if !endpoint.is_encrypted() {
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|_| ClientUnavailable)?;
        Ok(Self { http, profile })
    }

    /// Sends one request and reads its answer, until `deadline` at the latest. `wire` says all the while
    /// whether anything of it can have left; whoever gives up waiting revokes it.
    ///
    /// # Errors
    /// [`AskError`]; what it says about the certainty is what `wire` saw. Its trace holds what is known of the
    /// answer; whoever waits completes it.
    pub async fn ask(
        &self,
        request: &ModelRequest,
        key: Option<&SecretString>,
        wire: &Arc<Wire>,
        deadline: Instant,
    ) -> Result<Reply, AskError> {
        self.profile.admits(request)?;
        request.canonical().map_err(|_| ProviderCode::RequestInvalid)?;
        let body = asked::body(&self.profile, request);
        if body.len() > self.profile.request_bytes_max {
            return Err(ProviderCode::RequestTooLarge.into());
        }
        let asking = Asking { client: self, request, body_bytes: body.len(), wire };
        match timeout_at(deadline, asking.run(body, key)).await {
            Ok(reply) => {
                let (answer, about) = reply?;
                let trace = std::iter::once(request.step()).chain(about).collect();
                Ok(Reply { answer, trace })
            }
            Err(_) if wire.revoke() => Err(ProviderCode::DeadlineBefore.into()),
            Err(_) => Err(ProviderCode::DeadlinePassed.into()),
        }
    }
}

/// Is one request on its way.
struct Asking<'a> {
    client: &'a Client,
    request: &'a ModelRequest,
    body_bytes: usize,
    wire: &'a Arc<Wire>,
}

impl Asking<'_> {
    async fn run(
        &self,
        body: Vec<u8>,
        key: Option<&SecretString>,
    ) -> Result<(Answer, Vec<TraceChunk>), AskError> {
        let profile = &self.client.profile;
        let accepted = if self.request.stream { "text/event-stream" } else { "application/json" };
        let mut asked = self
            .client
            .http
            .post(profile.endpoint.join("/chat/completions"))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accepted);
        if let Some(key) = key {
            let bearer = SecretString::from(format!("Bearer {}", key.expose_secret()));
            let value = HeaderValue::from_str(bearer.expose_secret());
            let mut value = value.map_err(|_| ProviderCode::CredentialUnsafe)?;
            value.set_sensitive(true);
            asked = asked.header(AUTHORIZATION, value);
        }
        let asked = asked.body(self.wire.body(body)).build().map_err(|_| ProviderCode::RequestInvalid)?;
        let response = self.client.http.execute(asked).await.map_err(|_| self.broken())?;
        self.judge_head(&response, accepted)?;
        if self.request.stream { self.pieces(response).await } else { self.whole(response).await }
    }

    /// Says what a broken connection means: it depends on whether anything had left.
    fn broken(&self) -> AskError {
        if self.wire.revoke() {
            ProviderCode::ConnectFailed.into()
        } else {
            ProviderCode::ConnectionLost.into()
        }
    }

    fn judge_head(&self, response: &Response, accepted: &str) -> Result<(), AskError> {
        let status = response.status();
        if status != StatusCode::OK {
            let mut error = AskError::of(ProviderCode::of_status(status.as_u16()));
            error.retry_after_ms = retry_after(response);
            return Err(error);
        }
        let media = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media =
            media.and_then(|media| media.split(';').next()).map(|media| media.trim().to_ascii_lowercase());
        let encoding = response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        if media.as_deref() != Some(accepted) || encoding.is_some_and(|name| name != b"identity") {
            return Err(ProviderCode::AnswerType.into());
        }
        let bytes_max = self.client.profile.response_bytes_max as u64;
        if response.content_length().is_some_and(|bytes| bytes > bytes_max) {
            return Err(ProviderCode::AnswerTooLarge.into());
        }
        Ok(())
    }

    async fn whole(&self, mut response: Response) -> Result<(Answer, Vec<TraceChunk>), AskError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|_| self.broken())? {
            if bytes.len() + chunk.len() > self.client.profile.response_bytes_max {
                return Err(ProviderCode::AnswerTooLarge.into());
            }
            bytes.extend_from_slice(&chunk);
        }
        whole::read(&self.rules(), &bytes)
    }

    async fn pieces(&self, mut response: Response) -> Result<(Answer, Vec<TraceChunk>), AskError> {
        let mut pieces = pieces::Pieces::new(self.rules());
        let mut bytes = 0;
        while let Some(chunk) = response.chunk().await.map_err(|_| pieces.failed(self.broken()))? {
            bytes += chunk.len();
            if bytes > self.client.profile.response_bytes_max {
                return Err(pieces.failed(ProviderCode::AnswerTooLarge.into()));
            }
            // What a provider says after its last word is not waited for.
            if pieces.take(&chunk)? {
                break;
            }
        }
        pieces.end()
    }

    fn rules(&self) -> gathered::Rules<'_> {
        gathered::Rules {
            request: self.request,
            body_bytes: self.body_bytes,
            response_bytes_max: self.client.profile.response_bytes_max,
            reports_cost: self.client.profile.reports_cost,
        }
    }
}

/// Reads how long the provider wants to be left alone; a date is not read.
fn retry_after(response: &Response) -> Option<u64> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = text.trim().parse().ok()?;
    Some(seconds.min(RETRY_AFTER_S_MAX) * 1000)
}
