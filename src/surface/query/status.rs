//! One screen: the service, the log, and every consumer.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::time::Timestamp;

use super::consumers::{self, Consumer};
use super::inbox;
use super::sources::{self, Apart};
use super::{Live, Look};
use crate::failure::Failure;

/// Is the state of everything at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The service.
    pub service: Service,
    /// The log.
    pub log: Log,
    /// How many things wait for a person.
    pub waiting: usize,
    /// How many attempts are open.
    pub open: usize,
    /// The producers that run as processes of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<Apart>,
    /// The consumers that were asked for.
    pub consumers: Vec<Consumer>,
}

/// Is the state of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// `starting`, `running`, `paused` or `down`.
    pub state: String,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Since when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why the log cannot be written at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritable: Option<String>,
}

/// Is the state of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// How many events it holds; the last one's position.
    pub events: u64,
    /// How many sources it has.
    pub sources: usize,
    /// When the last event was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
}

/// Returns the state of everything.
///
/// # Errors
/// [`Failure`] if a state is not known or the log cannot be read.
pub fn status(look: &Look<'_>, states: &[String]) -> Result<Status, Failure> {
    let events = look.reader.last_position()?;
    let last = if events == 0 { None } else { look.reader.showing_damage().event_at(events)? };
    let service = look.live.map_or_else(down, |live| Service {
        state: state(live).to_owned(),
        pid: Some(live.pid),
        since: Some(live.since),
        unwritable: live.unwritable.as_ref().map(|unwritable| unwritable.code.clone()),
    });
    Ok(Status {
        service,
        log: Log {
            events,
            sources: look.reader.sources()?.len(),
            last_at: last.map(|event| event.recorded_at),
        },
        waiting: inbox::inbox(look)?.len(),
        open: look.reader.open_attempts(None)?.len(),
        apart: look.live.map_or_else(Vec::new, |live| sources::apart(&live.tree)),
        consumers: consumers::list(look, states)?,
    })
}

const fn state(live: &Live) -> &'static str {
    match (live.starting, live.paused) {
        (true, _) => "starting",
        (false, true) => "paused",
        (false, false) => "running",
    }
}

fn down() -> Service {
    Service { state: "down".to_owned(), pid: None, since: None, unwritable: None }
}
