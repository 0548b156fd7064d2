//! The door of one source: the way in for a producer that is a process of its own, and for nothing else.
//!
//! Frames are JSON values, one a line; the content that an offer brings follows its line as it is. The producer
//! greets and says what it was told to watch, the service lets one in at a time. Then the producer asks and is
//! answered, one after the other; in between the service tells it to look. No frame has a word for reading another
//! source, for an event of a form of its own, or for a decision.

mod door;
mod session;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thoughtstream_actors::producer::intake::Standing;
use thoughtstream_actors::service::ServiceHandle;
use thoughtstream_actors::supervisor::ChildSpec;
use thoughtstream_channels::filesystem::admit::{Offer, Unfit};
use thoughtstream_channels::filesystem::scan::SkipReport;
use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, SourceId};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;

pub use door::{SOCKET, SourceDoors, SourceDoorsError, User, user};

use super::keeper::{self, Serving};
use crate::config::Folder;
use crate::failure::Failure;

/// The version of these frames; it rises when another side would misread one.
pub const PROTOCOL: u32 = 2;

/// The largest greeting: a root of 4,096 bytes, however it is spelled.
pub const GREETING_BYTES_MAX: usize = 32 << 10;

/// The largest frame of a producer: a ring of a thousand documents with long paths, twice.
pub const SAID_BYTES_MAX: usize = 4 << 20;

/// A producer says something this often, if only that it is there.
pub const ALIVE_EVERY_SECONDS: u64 = 15;

/// Declares the keeper of the sources' doors as a child; `since` is when the service began.
pub fn doors(doors: Arc<SourceDoors>, service: ServiceHandle, since: Timestamp) -> ChildSpec {
    keeper::child("source-doors", move |closing| {
        let serving = doors.doors.iter().map(|door| {
            let entrance = session::Entrance {
                expected: door.expected.clone(),
                uid: door.uid,
                service: service.clone(),
                since,
                closing: closing.clone(),
            };
            let serving: Serving = Box::pin(session::serve(door.listener()?, Arc::new(entrance)));
            Ok(serving)
        });
        serving.collect()
    })
}

/// Is a producer's first frame: what it was told to do, which must be what the service was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Producing {
    /// The version of the frames it speaks.
    pub protocol: u32,
    /// The version of the program.
    pub version: String,
    /// The source.
    pub source: SourceId,
    /// The folder.
    pub root: String,
    /// The rules by which files are taken, as [`Folder::rules_hash`] names them.
    pub rules: Sha256Hash,
    /// The class of the source's events.
    pub privacy: Privacy,
}

impl Producing {
    /// Says what a folder's producer was told; a root that is no text is written as one that none is called.
    #[must_use]
    pub fn of(folder: &Folder) -> Self {
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source: folder.source.clone(),
            root: folder.root.to_string_lossy().into_owned(),
            rules: folder.rules_hash(),
            privacy: folder.privacy,
        }
    }
}

/// Is what a producer says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Said {
    /// Name the documents behind this one.
    Documents(Option<DocumentId>),
    /// Take these changes; the content that they bring follows, in order.
    Offer(Offer),
    /// Keep what these files looked like.
    Stats(Vec<(DocumentId, FileStat)>),
    /// An incident began or ended.
    Incident(Noticed),
    /// This was skipped by the last look.
    Skipped(SkipReport),
    /// This is how I am doing.
    Standing(Standing),
    /// A look that was asked for is through.
    Looked(Looked),
    /// I am there.
    Alive,
}

/// Is an incident as a producer noticed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Noticed {
    /// Which, as programs see it.
    pub code: String,
    /// Counts and bounds.
    pub detail: String,
    /// Whether it is over.
    pub over: bool,
    /// Which look noticed it.
    pub look: u64,
}

/// Answers a look that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Looked {
    /// Which one.
    pub number: u64,
    /// Whether everything that it saw is in the log.
    pub whole: bool,
}

/// Is what the service says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// You are the producer of the source now.
    Admitted(Admitted),
    /// This is what became of what you said.
    Answer(Answer),
    /// There is no answer, and why; nothing more is heard.
    Failure(Box<Failure>),
    /// Look now.
    Look,
    /// Look now, and answer with this number when that is through.
    LookFor(u64),
    /// A person says that the removals that wait are meant.
    AcceptRemovals,
}

/// Answers one thing that a producer said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// These are the documents behind the one that was named, by their ids; none at the end.
    Documents(Vec<Document>),
    /// It is done, and durable.
    Done,
    /// The log knows a document otherwise: begin anew.
    Overtaken,
    /// The source's declaration does not allow it; nothing more is heard.
    Unfit(Unfit),
}

/// Lets a producer in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Admitted {
    /// The version of the frames that the service speaks.
    pub protocol: u32,
    /// The version of the program.
    pub version: String,
    /// The service's process.
    pub pid: u32,
    /// Since when it runs.
    pub since: Timestamp,
}

#[cfg(test)]
mod tests;
