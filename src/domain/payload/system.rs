//! What the service records about itself, and what a person did to it.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::id::{ConsumerKey, EventId, ExecutionId, SourceId};
use crate::registry::Writer;
use crate::time::Timestamp;

/// Says who operated the service: what the kernel knows of the process behind the socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Operator {
    /// The user id.
    pub uid: u32,
    /// The process.
    pub pid: i32,
    /// The terminal, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub tty: Option<String>,
}

macro_rules! system_payload {
    ($(#[$doc:meta])* $name:ident, $type:literal, $writer:expr, $promoted:expr, { $($(#[$m:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            $($(#[$m])* pub $field: $ty,)*
        }

        impl TypedPayload for $name {
            const NAME: &'static str = $type;
            const VERSION: u32 = 1;
            const WRITER: Writer = $writer;
            const PROMOTED: &'static [&'static str] = $promoted;
        }
    };
}

const CHILD: &[&str] = &["child", "code"];
const CODE: &[&str] = &["code"];
const CONSUMER: &[&str] = &["consumer"];

system_payload!(
    /// Says that a supervisor started a child anew.
    Restarted, "stream.thought.system.restarted", Writer::Supervision, CHILD, {
        /// The child's path in the tree.
        #[schemars(length(min = 1, max = 256))]
        child: String,
        /// How the child before it ended.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// How many restarts this service has seen of it.
        restarts: u32,
    }
);
system_payload!(
    /// Says that a supervisor stopped restarting a child; a person resumes it.
    Quarantined, "stream.thought.system.quarantined", Writer::Supervision, CHILD, {
        /// The child's path in the tree.
        #[schemars(length(min = 1, max = 256))]
        child: String,
        /// Why.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// The source it stands still on; absent if on all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<SourceId>,
        /// The event it cannot pass, if it is one event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<EventId>,
    }
);
system_payload!(
    /// Says that something outside is not as it should be and the service waits instead of guessing.
    Incident, "stream.thought.system.incident", Writer::Supervision, CODE, {
        /// What it is about: a child's path or a source.
        #[schemars(length(min = 1, max = 256))]
        subject: String,
        /// The allow-listed reason.
        #[schemars(length(min = 1, max = 64))]
        code: String,
        /// Counts and bounds, never content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 512))]
        detail: Option<String>,
        /// Whether it is over.
        over: bool,
    }
);
system_payload!(
    /// Says that a person stopped a consumer from starting new work.
    Paused, "stream.thought.system.paused", Writer::Decision, CONSUMER, {
        /// The consumer.
        consumer: crate::id::ConsumerId,
        /// Why, in the person's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 1024))]
        reason: Option<String>,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that a person let a paused or quarantined consumer go on.
    Resumed, "stream.thought.system.resumed", Writer::Decision, CONSUMER, {
        /// The consumer.
        consumer: crate::id::ConsumerId,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that a person asked for a consumer to be stopped and started.
    RestartRequested, "stream.thought.system.restart-requested", Writer::Decision, CONSUMER, {
        /// The consumer.
        consumer: crate::id::ConsumerId,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that a person passed an event that a consumer could not process.
    Skipped, "stream.thought.system.skipped", Writer::Decision, CONSUMER, {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The execution that will not complete.
        execution: ExecutionId,
        /// The events passed.
        events: Vec<EventId>,
        /// Why, in the person's words.
        #[schemars(length(min = 1, max = 1024))]
        reason: String,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that a person passed an event that a consumer had not begun, because what is stored of it is not what was
    /// recorded. It is named by where it stands: its id may be what is damaged.
    DamageSkipped, "stream.thought.system.damage-skipped", Writer::Decision, CONSUMER, {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The event's source.
        source: SourceId,
        /// Its place in the source.
        sequence: u64,
        /// Its place in the log.
        position: u64,
        /// Why, in the person's words.
        #[schemars(length(min = 1, max = 1024))]
        reason: String,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that a person asked for another attempt of a held or waiting execution.
    RetryRequested, "stream.thought.system.retry-requested", Writer::Decision, CONSUMER, {
        /// The consumer version.
        consumer: ConsumerKey,
        /// The execution.
        execution: ExecutionId,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that a person let removals pass that a source held back.
    RemovalsAccepted, "stream.thought.system.removals-accepted", Writer::Decision, &[], {
        /// The source.
        source: SourceId,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that an event's payload was erased; the event and its hash stay.
    Redacted, "stream.thought.system.redacted", Writer::Decision, &[], {
        /// The event.
        event: EventId,
        /// Why, in the person's words.
        #[schemars(length(min = 1, max = 1024))]
        reason: String,
        /// Who.
        operator: Operator,
    }
);
system_payload!(
    /// Says that the set of declarations was replaced as a whole.
    DeclarationsLoaded, "stream.thought.system.declarations-loaded", Writer::Supervision, &[], {
        /// The consumer versions now enabled.
        enabled: Vec<ConsumerKey>,
        /// The fingerprint of the whole set.
        set: crate::hash::Sha256Hash,
        /// When the files were read.
        at: Timestamp,
        /// Who asked for it; nobody for a start and a signal, and an activation has said who.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operator: Option<Operator>,
    }
);
system_payload!(
    /// Says that the service started on this log.
    ServiceStarted, "stream.thought.system.started", Writer::Supervision, &[], {
        /// How often the store has been opened for writing.
        incarnation: u64,
        /// Whether the service before it stopped in order.
        after_clean_stop: bool,
        /// The program's version.
        #[schemars(length(max = 64))]
        program: String,
    }
);
system_payload!(
    /// Says that the service stopped in order: nothing was left open.
    ServiceStopped, "stream.thought.system.stopped", Writer::Supervision, &[], {
        /// The incarnation that stopped.
        incarnation: u64,
        /// Who asked for it; nobody for a signal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operator: Option<Operator>,
    }
);
