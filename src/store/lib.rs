//! What is kept: the append-only log and everything derived from it, in redb behind a small redo journal.
//!
//! Synchronous, and the only crate that knows redb. It remembers and checks; it decides nothing.

pub mod disk;
mod journal;
pub mod sim;

pub use journal::JournalError;
