//! One attempt of an execution: its row and the states it goes through.

use serde::{Deserialize, Serialize};

use crate::id::{ConsumerKey, EventId, ExecutionId, RunId, SourceId};
use crate::time::Timestamp;

/// Finds an attempt: its execution's place and its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey {
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The position of the execution's first trigger.
    pub position: u64,
    /// The attempt's number, from 1.
    pub attempt: u32,
}

/// Is the row of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// The id.
    pub id: RunId,
    /// Its execution.
    pub execution: ExecutionId,
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The position of the execution's first trigger.
    pub position: u64,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The source of the triggers.
    pub source: SourceId,
    /// Where it stands.
    pub state: RunState,
    /// When it was received.
    pub received_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The service incarnation that runs or ran it.
    pub incarnation: u64,
}

/// Says where an attempt stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum RunState {
    /// Its triggers are fixed; the runner has not been let go.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Received,
    /// The runner runs or ran; no end is known.
    #[serde(deserialize_with = "crate::bare::nothing")]
    Started,
    /// Settled with these outputs.
    Completed {
        /// The outputs.
        outputs: Vec<EventId>,
    },
    /// Ended without a result.
    Failed {
        /// Why.
        code: String,
    },
    /// Denied before dispatch.
    Blocked {
        /// Why.
        code: String,
    },
    /// Its end is not known.
    StatusUnknown {
        /// How it was found.
        code: String,
    },
    /// Given up by policy.
    Abandoned {
        /// How it was found.
        code: String,
    },
}

impl RunState {
    /// Says whether no terminal event exists yet.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match self {
            Self::Received | Self::Started => true,
            Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Blocked { .. }
            | Self::StatusUnknown { .. }
            | Self::Abandoned { .. } => false,
        }
    }

    /// Returns the code that it ended with, if it did not complete.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Received | Self::Started | Self::Completed { .. } => None,
            Self::Failed { code }
            | Self::Blocked { code }
            | Self::StatusUnknown { code }
            | Self::Abandoned { code } => Some(code),
        }
    }

    /// Returns the word for it, as in the event types.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Started => "started",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Blocked { .. } => "blocked",
            Self::StatusUnknown { .. } => "status-unknown",
            Self::Abandoned { .. } => "abandoned",
        }
    }
}

impl Run {
    /// Returns where the attempt is found.
    #[must_use]
    pub fn key(&self) -> AttemptKey {
        AttemptKey { consumer: self.consumer.clone(), position: self.position, attempt: self.attempt }
    }
}
