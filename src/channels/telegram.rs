//! A Telegram bot: asking its API, reading what it tells, fetching images, being told by webhook.
//!
//! What an update becomes is decided by [`normalise`], a function of its text alone. The [`client`] sends each
//! request once: what may be tried again is for the caller to say, who knows what is in the log.

pub mod access;
mod api;
pub mod client;
pub mod images;
pub mod message;
pub mod normalise;
pub mod trouble;
pub mod webhook;
