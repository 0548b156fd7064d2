//! Being told by webhook: a listener on loopback that believes only who knows the secret, and says 200 only
//! when what it was told is durable.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use thoughtstream_domain::hash::Sha256Hash;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The largest update: a message of the largest size with all its entities is a fraction of it.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// How long a request may take to arrive and to become durable; Telegram gives up after a minute.
const REQUEST_WITHIN: Duration = Duration::from_secs(50);

/// The header that carries the secret.
const SECRET: &str = "x-telegram-bot-api-secret-token";

/// Says why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// There is no secret, or one that Telegram cannot send.
    #[error("a webhook needs a secret of 1 to 256 letters, digits, `_` or `-`")]
    Secret,
    /// The address can be reached from other machines.
    #[error("a webhook listens on loopback only; put a proxy with TLS in front of it")]
    NotLoopback,
    /// The system refuses.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Says what became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is durable, or was before.
    Durable,
    /// It is not; it may be told again.
    Later,
}

/// Takes updates, one at a time or many.
pub trait Sink: Send + Sync + 'static {
    /// Makes an update durable.
    fn take(&self, update: &[u8]) -> impl Future<Output = Taken> + Send;

    /// Hears that somebody came without the secret.
    fn refused(&self);
}

/// Is a listener whose secret and address are sound.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    secret: Sha256Hash,
}

impl Listening {
    /// Listens.
    ///
    /// # Errors
    /// [`ListenError`]; nothing listens then.
    pub async fn open(address: SocketAddr, secret: &SecretString) -> Result<Self, ListenError> {
        let text = secret.expose_secret();
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if !(1..=256).contains(&text.len()) || !text.bytes().all(plain) {
            return Err(ListenError::Secret);
        }
        if !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback);
        }
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| ListenError::Listen { address, source })?;
        Ok(Self { listener, secret: Sha256Hash::of(text.as_bytes()) })
    }

    /// Returns the address.
    ///
    /// # Errors
    /// The system's refusal to say it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `closing` is done, and lets open requests end. Where this is dropped before, they end with it, and
    /// are told again to whoever listens next.
    ///
    /// # Errors
    /// The system's refusal to take connections.
    pub async fn serve<S: Sink>(
        self,
        sink: Arc<S>,
        closing: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let (_serves, served) = watch::channel(());
        let gate = Arc::new(Gate { secret: self.secret, sink, served });
        let router = Router::new()
            .route("/", post(told::<S>))
            .route("/{*path}", post(told::<S>))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            // Before the body is read.
            .layer(middleware::from_fn_with_state(Arc::clone(&gate), admitted::<S>))
            .with_state(gate);
        axum::serve(self.listener, router).with_graceful_shutdown(closing).await
    }
}

struct Gate<S> {
    secret: Sha256Hash,
    sink: Arc<S>,
    /// Its other half is gone once nobody serves any more.
    served: watch::Receiver<()>,
}

/// Lets in who knows the secret. The hashes are compared: of equal length, in constant time.
async fn admitted<S: Sink>(State(gate): State<Arc<Gate<S>>>, request: Request, next: Next) -> Response {
    if !knows(&gate.secret, request.headers()) {
        gate.sink.refused();
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let mut served = gate.served.clone();
    // Each connection is a task of its own, which would outlive whoever serves.
    tokio::select! {
        answered = tokio::time::timeout(REQUEST_WITHIN, next.run(request)) => match answered {
            Ok(response) => response,
            Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
        },
        Err(_) = served.changed() => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn knows(secret: &Sha256Hash, headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(SECRET).iter();
    let offered = given.next().map_or(&b""[..], axum::http::HeaderValue::as_bytes);
    let alone = given.next().is_none();
    let same = Sha256Hash::of(offered).as_bytes().ct_eq(secret.as_bytes());
    alone && bool::from(same)
}

async fn told<S: Sink>(State(gate): State<Arc<Gate<S>>>, body: Bytes) -> StatusCode {
    match gate.sink.take(&body).await {
        Taken::Durable => StatusCode::OK,
        Taken::Later => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests;
