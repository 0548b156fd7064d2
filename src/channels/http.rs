//! The one way this program speaks HTTP to others: what must never happen on the way is switched off here.

use std::sync::OnceLock;

use rustls::crypto::ring;

/// Reaching a provider takes milliseconds; whoever does not answer for so long is not there.
const CONNECT_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Returns a builder of clients that send a request once, to whom it is addressed, over a connection of its own.
///
/// A proxy of the environment would read what is sent in plain text, a redirect would take it elsewhere, and a
/// retry or a connection that went stale could send it twice: none of them is used.
pub fn builder() -> reqwest::ClientBuilder {
    install_crypto();
    reqwest::Client::builder()
        .user_agent(concat!("thoughtstream/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT_WITHIN)
}

/// Chooses the implementation of TLS's cryptography, once for the process.
fn install_crypto() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    // An error says that somebody has chosen one before, which serves as well.
    INSTALLED.get_or_init(|| drop(ring::default_provider().install_default()));
}
