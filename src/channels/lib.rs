//! What comes in from outside and goes out: folders of files, requests to models, a Telegram bot, and the
//! rehearsal that plays a provider and Telegram.
//!
//! A channel observes and carries. It knows no actor and no store: it is called by an actor, and hands back
//! values that the actor commits.

pub mod credential;
pub mod filesystem;
pub mod http;
pub mod provider;
pub mod rehearsal;
pub mod telegram;

#[cfg(test)]
mod testing;
