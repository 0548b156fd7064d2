//! The two doors of a running service: `ask.sock` to read and submit, `operator.sock` to decide.
//!
//! Frames are JSON values, one a line. The client greets first, the service answers with its own greeting, then
//! one request after another is answered by a stream of frames that ends in `end` or `failure`. What a client
//! may do is fixed by the door it came through, and only the service's own user (or root) comes through either.

mod door;
pub mod keeper;
mod lines;
mod peer;
mod server;
pub mod source;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::time::Timestamp;

pub(crate) use lines::{LineError, Lines};

pub use door::{Doors, DoorsError, forget, recorded};
pub use peer::{Peer, peer_of};
pub use server::{Desk, Gone, Reply, serve};

use crate::failure::Failure;

/// The version of these frames; it rises when an older client would misread one.
pub const PROTOCOL: u32 = 1;

/// The largest greeting of a client in bytes.
pub const GREETING_BYTES_MAX: usize = 4 << 10;

/// The largest request in bytes: a payload of 1 MiB with its envelope, however it is spelled.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;

/// The largest frame of an answer in bytes: an event of 1 MiB in which every byte is escaped.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Says which of the two doors it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// Read and submit.
    Ask,
    /// Decide and operate as well.
    Operator,
}

/// Is a client's first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The version of the frames it speaks.
    pub protocol: u32,
    /// The version of the program.
    pub version: String,
}

impl Hello {
    /// Greets as this program.
    #[must_use]
    pub fn ours() -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// Is the service's first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Greeting {
    /// The version of the frames it speaks.
    pub protocol: u32,
    /// The version of the program.
    pub version: String,
    /// Which door this is.
    pub door: Door,
    /// The service's process.
    pub pid: u32,
    /// Since when it runs.
    pub since: Timestamp,
}

/// Is one frame of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frame {
    /// The service's greeting.
    Greeting(Greeting),
    /// One value of the answer.
    Item(Value),
    /// How far long work has come.
    Progress(Progress),
    /// The answer is complete; the number is the exit code it stands for.
    End(u8),
    /// There is no answer, and why.
    Failure(Box<Failure>),
}

/// Says how far long work has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// How much there is, 0 if nobody knows.
    pub total: u64,
}

#[cfg(test)]
mod tests;
