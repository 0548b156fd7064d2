//! The client of the Bot API: one request, one answer, bounded, never repeated and never redirected.
//!
//! The token is part of every address, so no error of the library below is kept or shown: it is reduced to a
//! code at once. What is known about a failed request is told by [`CallError`], because a message may be sent
//! again only if it is known not to have been taken.

use std::time::Duration;

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thoughtstream_domain::activation::MenuEntry;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::payload::telegram::{ChatId, MessageId};
use thoughtstream_domain::time::Timestamp;

/// How long a connection may take to stand; nothing is sent before it does.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer may take, beyond what the request asks the other side to wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The largest answer to anything but a look for updates.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The largest answer with updates: a hundred of the largest messages with all their entities.
const UPDATES_BYTES_MAX: usize = 16 << 20;
/// The longest path of a file that is asked for.
const FILE_PATH_BYTES_MAX: usize = 256;
/// The kinds of updates that are asked for; a reaction comes only when it is named.
const ALLOWED_UPDATES: [&str; 3] = ["message", "edited_message", "message_reaction"];

/// Says why the address of an API cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BaseError {
    /// It is no address.
    #[error("it is not an address like https://api.telegram.org")]
    Malformed,
    /// It has more than a scheme, a host and a path.
    #[error("it must have no user, no query and no fragment")]
    Extra,
    /// The token would travel in the clear.
    #[error("plain http is used on this machine's own addresses only; the token is part of every request")]
    Clear,
}

/// Is the checked address of an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiBase(String);

impl ApiBase {
    /// Telegram itself.
    pub const TELEGRAM: &'static str = "https://api.telegram.org";

    /// Checks an address.
    ///
    /// # Errors
    /// [`BaseError`] naming the rule.
    pub fn parse(text: &str) -> Result<Self, BaseError> {
        let url = Url::parse(text).map_err(|_| BaseError::Malformed)?;
        let host = url.host_str().ok_or(BaseError::Malformed)?;
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err(BaseError::Extra);
        }
        match url.scheme() {
            "https" => {}
            "http" if is_here(host) => {}
            "http" => return Err(BaseError::Clear),
            _ => return Err(BaseError::Malformed),
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// Says whether it is on this machine: another program that plays Telegram.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| url.host_str().is_some_and(is_here))
    }
}

fn is_here(host: &str) -> bool {
    host == "localhost"
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Is a bot's token; it does not print.
#[derive(Debug, Clone)]
pub struct Token(SecretString);

/// The text is not a bot's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a bot's token: expected digits, a colon, and letters, digits, `_` or `-`")]
pub struct BadToken;

impl Token {
    /// Checks a token: what would end the path of an address is refused.
    ///
    /// # Errors
    /// [`BadToken`] for anything else.
    pub fn new(text: &SecretString) -> Result<Self, BadToken> {
        let text = text.expose_secret().trim();
        let (bot, rest) = text.split_once(':').ok_or(BadToken)?;
        let fits = !bot.is_empty()
            && bot.bytes().all(|b| b.is_ascii_digit())
            && (1..=256).contains(&rest.len())
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if fits { Ok(Self(text.to_owned().into())) } else { Err(BadToken) }
    }
}

/// Says what is known of a request that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing of it left this machine.
    #[error("not sent: {code}")]
    NotSent {
        /// Why.
        code: &'static str,
    },
    /// The other side has refused it and done nothing.
    #[error("refused with {status}")]
    Refused {
        /// The status.
        status: u16,
        /// How many seconds to wait, if it says so.
        retry_after: Option<u64>,
    },
    /// It may or may not have been taken.
    #[error("the outcome is not known: {code}")]
    Unknown {
        /// How it ended.
        code: &'static str,
    },
}

/// Is the answer of the API: its result, or a refusal whose words are not kept.
#[derive(Deserialize)]
struct Answer<T> {
    ok: bool,
    result: Option<T>,
    parameters: Option<Parameters>,
}

#[derive(Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
}

/// Is the receipt of a message that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentMessage {
    /// The message it became.
    pub message: MessageId,
    /// When, by Telegram's clock.
    pub at: Option<Timestamp>,
}

/// Is one look for updates.
pub struct Updates(pub Vec<Box<RawValue>>);

impl std::fmt::Debug for Updates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Updates({})", self.0.len())
    }
}

/// Is where Telegram tells of updates: an address with TLS, or one on this machine where Telegram is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl(String);

impl WebhookUrl {
    /// Checks an address.
    ///
    /// # Errors
    /// [`BaseError`] naming the rule.
    pub fn parse(text: &str) -> Result<Self, BaseError> {
        ApiBase::parse(text)?;
        Ok(Self(text.to_owned()))
    }

    /// Returns the address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Is what Telegram says of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookInfo {
    /// Where updates are told; empty if nowhere. It may be another program's, and is not shown.
    pub url: Content<String>,
    /// How many updates wait.
    pub waiting: u64,
    /// When telling last failed.
    pub last_error: Option<Timestamp>,
}

impl WebhookInfo {
    /// Says whether updates are told there.
    #[must_use]
    pub fn is_at(&self, url: &WebhookUrl) -> bool {
        *self.url.reveal() == url.0
    }
}

/// Asks one bot's API.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: ApiBase,
    token: Token,
}

/// The client cannot be made: the machine's certificates cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a client for TLS cannot be made on this machine")]
pub struct NoClient;

impl Client {
    /// Makes a client that opens a connection for each request: one that was kept open may be closed by the
    /// other side just when a message is written, and nobody would know whether it was taken.
    ///
    /// # Errors
    /// [`NoClient`] if TLS cannot be set up.
    pub fn new(base: ApiBase, token: Token) -> Result<Self, NoClient> {
        // Another part of the program may have installed the same one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_WITHIN)
            .build()
            .map_err(|_| NoClient)?;
        Ok(Self { http, base, token })
    }

    /// Says whether this token is the one it shows.
    #[must_use]
    pub fn is_opened_by(&self, token: &Token) -> bool {
        self.token.0.expose_secret() == token.0.expose_secret()
    }

    /// Looks for updates from `offset` on, waiting up to `wait` for one; everything before it is confirmed.
    ///
    /// # Errors
    /// [`CallError`]; a look may always be repeated.
    pub async fn updates(
        &self,
        offset: Option<i64>,
        limit: u8,
        wait: Duration,
    ) -> Result<Updates, CallError> {
        let mut body = serde_json::json!({
            "timeout": wait.as_secs(), "limit": limit, "allowed_updates": ALLOWED_UPDATES,
        });
        if let Some(offset) = offset {
            body["offset"] = offset.into();
        }
        self.call("getUpdates", &body, wait, UPDATES_BYTES_MAX).await.map(Updates)
    }

    /// Sends a message once.
    ///
    /// # Errors
    /// [`CallError`] saying whether it may have been taken.
    pub async fn send(&self, chat: ChatId, text: &str) -> Result<SentMessage, CallError> {
        #[derive(Deserialize)]
        struct Sent {
            message_id: i64,
            date: Option<i64>,
        }
        // Plain text, and no preview: an address that a model wrote is not to be visited by anybody's server.
        let body = serde_json::json!({
            "chat_id": chat.get(), "text": text, "link_preview_options": { "is_disabled": true },
        });
        let sent: Sent = self.call("sendMessage", &body, Duration::ZERO, ANSWER_BYTES_MAX).await?;
        let at = sent.date.and_then(|seconds| seconds.checked_mul(1000)).map(Timestamp::from_millis);
        Ok(SentMessage { message: MessageId::new(sent.message_id), at })
    }

    /// Asks where a file lies; answers its path, and its size if it is told.
    ///
    /// # Errors
    /// [`CallError`]; asking may always be repeated.
    pub async fn file(&self, id: &str) -> Result<(String, Option<u64>), CallError> {
        #[derive(Deserialize)]
        struct File {
            file_path: Option<String>,
            file_size: Option<u64>,
        }
        let body = serde_json::json!({ "file_id": id });
        let file: File = self.call("getFile", &body, Duration::ZERO, ANSWER_BYTES_MAX).await?;
        let path = file.file_path.filter(|path| is_plain_path(path));
        path.map(|path| (path, file.file_size)).ok_or(CallError::Unknown { code: "no-file-path" })
    }

    /// Fetches a file's content; `None` if it is larger than `bytes_max`.
    ///
    /// # Errors
    /// [`CallError`]; fetching may always be repeated.
    pub async fn content(&self, path: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, CallError> {
        if !is_plain_path(path) {
            return Err(CallError::NotSent { code: "no-file-path" });
        }
        let url = format!("{}/file/bot{}/{path}", self.base.0, self.token.0.expose_secret());
        let sent = self.http.get(url).timeout(ANSWER_WITHIN).send().await;
        let response = sent.map_err(|error| lost(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(refused(status.as_u16(), None));
        }
        match bounded(response, bytes_max).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Bounded::TooLarge) => Ok(None),
            Err(Bounded::Lost(error)) => Err(error),
        }
    }

    /// Asks who the bot is; answers its user name.
    ///
    /// # Errors
    /// [`CallError`]; asking may always be repeated.
    pub async fn me(&self) -> Result<Option<String>, CallError> {
        #[derive(Deserialize)]
        struct Me {
            username: Option<String>,
        }
        let me: Me = self.call("getMe", &serde_json::json!({}), Duration::ZERO, ANSWER_BYTES_MAX).await?;
        Ok(me.username)
    }

    /// Says where updates are to be told, and by which secret Telegram shows itself. What waits is kept.
    ///
    /// # Errors
    /// [`CallError`]; saying it again changes nothing.
    pub async fn set_webhook(&self, url: &WebhookUrl, secret: &SecretString) -> Result<(), CallError> {
        let body = serde_json::json!({
            "url": url.as_str(), "secret_token": secret.expose_secret(), "allowed_updates": ALLOWED_UPDATES,
            "drop_pending_updates": false,
        });
        let _: bool = self.call("setWebhook", &body, Duration::ZERO, ANSWER_BYTES_MAX).await?;
        Ok(())
    }

    /// Asks where updates are told.
    ///
    /// # Errors
    /// [`CallError`]; asking may always be repeated.
    pub async fn webhook(&self) -> Result<WebhookInfo, CallError> {
        #[derive(Deserialize)]
        struct Info {
            url: String,
            #[serde(default)]
            pending_update_count: u64,
            last_error_date: Option<i64>,
        }
        let info: Info =
            self.call("getWebhookInfo", &serde_json::json!({}), Duration::ZERO, ANSWER_BYTES_MAX).await?;
        let last_error = info.last_error_date.and_then(|seconds| seconds.checked_mul(1000));
        Ok(WebhookInfo {
            url: Content::new(info.url),
            waiting: info.pending_update_count,
            last_error: last_error.map(Timestamp::from_millis),
        })
    }

    /// Sets the menu of commands.
    ///
    /// # Errors
    /// [`CallError`]; setting it again changes nothing.
    pub async fn set_menu(&self, menu: &[MenuEntry]) -> Result<(), CallError> {
        let body = serde_json::json!({ "commands": menu });
        let _: bool = self.call("setMyCommands", &body, Duration::ZERO, ANSWER_BYTES_MAX).await?;
        Ok(())
    }

    /// Asks for the menu of commands.
    ///
    /// # Errors
    /// [`CallError`]; asking may always be repeated.
    pub async fn menu(&self) -> Result<Vec<MenuEntry>, CallError> {
        self.call("getMyCommands", &serde_json::json!({}), Duration::ZERO, ANSWER_BYTES_MAX).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        body: &Value,
        wait: Duration,
        bytes_max: usize,
    ) -> Result<T, CallError> {
        let url = format!("{}/bot{}/{method}", self.base.0, self.token.0.expose_secret());
        let sent = self.http.post(url).timeout(wait + ANSWER_WITHIN).json(body).send().await;
        let response = sent.map_err(|error| lost(&error))?;
        let status = response.status();
        let told = response.headers().get(reqwest::header::RETRY_AFTER);
        let told = told.and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
        let bytes = bounded(response, bytes_max).await;
        if !status.is_success() {
            let answer = bytes.ok().and_then(|bytes| serde_json::from_slice::<Answer<Value>>(&bytes).ok());
            let asked = answer.and_then(|answer| answer.parameters).and_then(|told| told.retry_after);
            return Err(refused(status.as_u16(), asked.or(told)));
        }
        let bytes = bytes.map_err(|error| match error {
            Bounded::TooLarge => CallError::Unknown { code: "answer-too-large" },
            Bounded::Lost(error) => error,
        })?;
        let answer: Answer<T> =
            serde_json::from_slice(&bytes).map_err(|_| CallError::Unknown { code: "answer-malformed" })?;
        answer.result.filter(|_| answer.ok).ok_or(CallError::Unknown { code: "answer-malformed" })
    }
}

/// Says whether a path may be put into an address: the other side names it, and it must stay a path.
fn is_plain_path(path: &str) -> bool {
    (1..=FILE_PATH_BYTES_MAX).contains(&path.len())
        && path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/'))
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Reduces an error of the library, which shows the address, to what is known.
fn lost(error: &reqwest::Error) -> CallError {
    if error.is_connect() {
        let code = if error.is_timeout() { "connect-timeout" } else { "connect-failed" };
        return CallError::NotSent { code };
    }
    if error.is_builder() {
        return CallError::NotSent { code: "request-malformed" };
    }
    CallError::Unknown { code: if error.is_timeout() { "timeout" } else { "connection-lost" } }
}

/// Says what a status means for a request: a client's error was refused, anything else may have been taken.
fn refused(status: u16, retry_after: Option<u64>) -> CallError {
    match status {
        400..=499 => CallError::Refused { status, retry_after },
        500..=599 => CallError::Unknown { code: "server-error" },
        300..=399 => CallError::Unknown { code: "redirect" },
        _ => CallError::Unknown { code: "status-unexpected" },
    }
}

enum Bounded {
    TooLarge,
    Lost(CallError),
}

async fn bounded(mut response: reqwest::Response, bytes_max: usize) -> Result<Vec<u8>, Bounded> {
    let told = response.content_length().and_then(|bytes| usize::try_from(bytes).ok());
    if told.is_some_and(|bytes| bytes > bytes_max) {
        return Err(Bounded::TooLarge);
    }
    let mut bytes = Vec::with_capacity(told.unwrap_or_default());
    while let Some(chunk) = response.chunk().await.map_err(|error| Bounded::Lost(lost(&error)))? {
        if bytes.len() + chunk.len() > bytes_max {
            return Err(Bounded::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
