//! What is kept: the append-only log and everything derived from it, in redb behind a small redo journal.
//!
//! Synchronous, and the only crate that knows redb. It remembers and checks; it decides nothing. The service's
//! one [`Writer`] takes groups of commits; every other part holds a [`Reader`].

mod account;
pub mod backup;
mod behind;
mod codec;
mod correlated;
pub mod disk;
mod execution;
pub mod export;
pub mod floor;
mod journal;
mod names;
mod overlay;
mod place;
mod projection;
mod reader;
mod record;
mod rows;
mod seal;
pub mod sim;
mod store;
mod tables;
pub mod verify;
mod writer;

pub use journal::JournalError;
pub use projection::is_made_anew;
pub use reader::{
    AccountState, Chat, Claim, ControlRow, Heads, ObservedError, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Reader,
    RequestFault, SnapshotError, SourceHead,
};
pub use rows::RowError;
pub use store::{CreateError, FORMAT, OpenError, Options, Presence, Store, create_on};
pub use writer::{
    COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX, CompactError, Compacted, GROUP_BYTES_MAX, TypeChanged, TypesError,
    WriteError, Writer, weigh,
};
