//! Everything that waits for a person, of every kind, in one list.

mod about;
mod failures;
mod postponed;
mod refused;
mod unprocessed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thoughtstream_actors::service::last_activation;
use thoughtstream_channels::filesystem::producer::{DUPLICATE_ID, is_about_root, is_about_skips};
use thoughtstream_channels::telegram::trouble::Trouble;
use thoughtstream_domain::activation::Activation;
use thoughtstream_domain::id::{ConsumerId, EventId, SourceId};
use thoughtstream_domain::lifecycle::{Execution, ExecutionState, RunState};
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::activation::Step;
use thoughtstream_domain::payload::system::Incident;
use thoughtstream_domain::proposal::materialize::held_as;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader};

pub use about::About;
pub(crate) use about::about;
pub use failures::Failures;
pub use postponed::postpone;
pub(crate) use unprocessed::is_passed;

use super::consumers::{enabled, retry_or_skip};
use super::sources;
use super::{Look, VERIFY, cure, damaged_place};
use crate::failure::Failure;

/// The code of the incident in which a source holds removals back.
const REMOVALS_HELD: &str = "removals-held";

/// What the log itself is called among what waits.
pub(crate) const LOG: &str = "log";

/// Names a kind of thing that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The log takes nothing.
    LogUnwritable,
    /// A consumer's actor ended too often.
    ConsumerQuarantined,
    /// A person paused a consumer.
    ConsumerPaused,
    /// An event used up its attempts.
    ExecutionQuarantined,
    /// An event waits by declaration.
    ExecutionHeld,
    /// An event is not what was recorded, and consumers stand still before it.
    EventDamaged,
    /// An event could not be processed, and was passed by declaration.
    Unprocessed,
    /// An attempt was interrupted and its end is not known.
    StatusUnknown,
    /// Something outside is not as it should be.
    Incident,
    /// The service was started with `--paused`.
    ServicePaused,
    /// An actor that is no consumer ended too often.
    ActorQuarantined,
    /// The producer of a source runs as a process of its own, and is not connected.
    ProducerNotConnected,
    /// What a consumer made was refused, and nothing came of the events behind it.
    OutputRefused,
    /// An agent asked a consumer to look that is not enabled.
    EscalationUnheard,
    /// A message was sent, and nobody knows whether it arrived.
    DeliveryUnconfirmed,
    /// A message was refused, or could not be sent, for good.
    DeliveryFailed,
    /// An agent proposed something, or what was decided about it has not come to its end.
    Proposal,
    /// A repair run proposed what could stand in place of a refused output.
    RepairProposal,
    /// The log is a copy of another, and something that was decided there may have been done since.
    EffectsHeld,
    /// A consumer is on its way to another version, and its bot is held back.
    ActivationOpen,
}

impl Kind {
    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LogUnwritable => "log-unwritable",
            Self::ConsumerQuarantined => "consumer-quarantined",
            Self::ConsumerPaused => "consumer-paused",
            Self::ExecutionQuarantined => "execution-quarantined",
            Self::ExecutionHeld => "execution-held",
            Self::EventDamaged => "event-damaged",
            Self::Unprocessed => "unprocessed",
            Self::StatusUnknown => "status-unknown",
            Self::Incident => "incident",
            Self::ServicePaused => "service-paused",
            Self::ActorQuarantined => "actor-quarantined",
            Self::ProducerNotConnected => "producer-not-connected",
            Self::OutputRefused => "output-refused",
            Self::EscalationUnheard => "escalation-unheard",
            Self::DeliveryUnconfirmed => "delivery-unconfirmed",
            Self::DeliveryFailed => "delivery-failed",
            Self::Proposal => "proposal",
            Self::RepairProposal => "repair-proposal",
            Self::EffectsHeld => "effects-held",
            Self::ActivationOpen => "activation-open",
        }
    }
}

/// Is one thing that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What kind of thing.
    pub kind: Kind,
    /// Which one: an id or a name of ours.
    pub id: String,
    /// Since when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why, as a code, or in a person's words for a pause.
    pub why: String,
    /// The command that moves it; for an incident, and where several could, what shows more.
    pub command: String,
    /// The commands that decide about it, one each, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<String>,
    /// What the event behind it is about, where it is an execution that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// Until when a person hid it in this list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_until: Option<Timestamp>,
}

impl Waiting {
    /// Names it for people: by what it is about, where that is known, else by its id.
    #[must_use]
    pub fn which(&self) -> String {
        self.about.as_ref().map_or_else(|| self.id.clone(), About::shown)
    }

    /// Says whether it is about single files, and keeps nothing else from going on.
    #[must_use]
    pub fn is_about_files(&self) -> bool {
        self.kind == Kind::Unprocessed || self.kind == Kind::Incident && is_about_files(code_of(&self.why))
    }
}

/// Returns the code that the reason of an incident begins with.
fn code_of(why: &str) -> &str {
    why.split([':', ';']).next().unwrap_or(why)
}

/// Returns everything that waits and that nobody hid, the oldest first; an empty list means that everything was
/// looked at.
///
/// # Errors
/// [`Failure`] if anything could not be read: then nobody knows whether something waits.
pub fn inbox(look: &Look<'_>) -> Result<Vec<Waiting>, Failure> {
    let mut found = everything(look)?;
    found.retain(|waiting| waiting.hidden_until.is_none());
    Ok(found)
}

/// Returns everything that waits, with what a person hid until a time that has not come.
///
/// # Errors
/// As [`inbox`].
pub fn everything(look: &Look<'_>) -> Result<Vec<Waiting>, Failure> {
    let mut found = Vec::new();
    service(look, &mut found);
    super::damaged::waiting(look, &mut found)?;
    controls(look, &mut found)?;
    activations(look.reader, &mut found)?;
    executions(look.reader, &mut found)?;
    left_behind(look, &mut found)?;
    refused::unheard(look.reader, &mut found)?;
    incidents(look.reader, &mut found)?;
    super::deliveries::waiting(look.reader, &mut found)?;
    super::proposals::waiting(look, &mut found)?;
    postponed::repairs(look.reader, &mut found)?;
    postponed::hide(look, &mut found)?;
    found.sort_by(|one, other| (one.since, one.kind, &one.id).cmp(&(other.since, other.kind, &other.id)));
    Ok(found)
}

fn service(look: &Look<'_>, found: &mut Vec<Waiting>) {
    let Some(live) = look.live else { return };
    if let Some(unwritable) = &live.unwritable {
        found.push(Waiting {
            kind: Kind::LogUnwritable,
            id: LOG.to_owned(),
            since: unwritable.since,
            why: unwritable.code.clone(),
            command: "thought doctor".to_owned(),
            ways: Vec::new(),
            about: None,
            hidden_until: None,
        });
    }
    if live.paused {
        found.push(Waiting {
            kind: Kind::ServicePaused,
            id: "service".to_owned(),
            since: Some(live.since),
            why: "started-paused".to_owned(),
            command: "thought serve".to_owned(),
            ways: Vec::new(),
            about: None,
            hidden_until: None,
        });
    }
    actors(&live.tree, "", found);
    for one in sources::apart(&live.tree).into_iter().filter(|one| !one.connected) {
        found.push(Waiting {
            kind: Kind::ProducerNotConnected,
            id: one.source.to_string(),
            since: Some(one.since),
            why: one.silent().map_or_else(
                || "not-connected: its producer runs apart, and nobody looks at the source".to_owned(),
                |pid| {
                    format!("not-answering: its producer, process {pid}, says nothing any more; end it first")
                },
            ),
            command: sources::producer_command(&one.source),
            ways: Vec::new(),
            about: None,
            hidden_until: None,
        });
    }
}

/// Adds quarantined actors that are not consumers: those have a row of their own.
fn actors(node: &super::tree::Node, above: &str, found: &mut Vec<Waiting>) {
    for child in &node.children {
        let path = format!("{above}{}", child.name);
        if child.state == "quarantined" && child.kind != "consumer" {
            let why =
                child.last_exit.as_ref().map_or_else(|| "ended".to_owned(), super::tree::LastExit::code);
            let row = child.unreadable();
            found.push(Waiting {
                kind: Kind::ActorQuarantined,
                id: path.clone(),
                since: Some(child.since),
                why: match row {
                    Some(row) => format!("{why}: {row}"),
                    None => why,
                },
                command: if row.is_some() { VERIFY } else { "thought reload" }.to_owned(),
                ways: row.map(cure).map(str::to_owned).into_iter().collect(),
                about: None,
                hidden_until: None,
            });
        }
        actors(child, &format!("{path}/"), found);
    }
}

fn controls(look: &Look<'_>, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let reader = look.reader;
    let running = look.live.map(|live| super::tree::ConsumerNodes::of(&live.tree));
    let is_copy = reader.copied_through()? > 0;
    for (id, control) in reader.controls()? {
        let control = match control {
            Ok(control) => control,
            Err(error) => {
                found.push(unreadable(&id, error.into()));
                continue;
            }
        };
        let command = format!("thought consumer resume {id}");
        if let Some(since) = control.quarantined_since {
            let live = running.as_ref().and_then(|all| all.get(&id));
            let why = super::consumers::quarantine_code(&control, live);
            // Started anew, it meets the same row, unless that was mended while nobody ran: then the row is not named.
            let (shown, ways) = match live.and_then(super::tree::Node::unreadable) {
                Some(row) => (VERIFY.to_owned(), vec![cure(row).to_owned()]),
                None if control.quarantine_code.as_deref() == Some(STORE_UNREADABLE) => {
                    (command.clone(), vec![VERIFY.to_owned()])
                }
                None => (command.clone(), Vec::new()),
            };
            let lost = |one: &&mut Waiting| one.kind == Kind::ConsumerQuarantined && one.id == id.as_str();
            if let Some(lost) = found.iter_mut().find(lost) {
                lost.since = Some(since);
            } else {
                found.push(Waiting {
                    kind: Kind::ConsumerQuarantined,
                    id: id.to_string(),
                    since: Some(since),
                    why: why.unwrap_or_else(|| "ended-too-often".to_owned()),
                    command: shown,
                    ways,
                    about: None,
                    hidden_until: None,
                });
            }
        }
        if let Some(since) = control.paused_since {
            let held = is_copy && id == held_as();
            found.push(Waiting {
                kind: if held { Kind::EffectsHeld } else { Kind::ConsumerPaused },
                id: id.to_string(),
                since: Some(since),
                why: control.pause_reason.unwrap_or_else(|| "no reason given".to_owned()),
                command,
                ways: Vec::new(),
                about: None,
                hidden_until: None,
            });
        }
    }
    Ok(())
}

/// Is why a consumer is in quarantine that could not read the log.
const STORE_UNREADABLE: &str = "store-unreadable";

/// Says of a consumer that a row which it needs is damaged: it ends until the log is mended, and others go on.
pub(super) fn unreadable(id: &ConsumerId, failure: Failure) -> Waiting {
    let ways = damaged_place(&failure).map(cure).map(str::to_owned).into_iter().collect();
    Waiting {
        kind: Kind::ConsumerQuarantined,
        id: id.to_string(),
        since: None,
        why: failure.what,
        command: VERIFY.to_owned(),
        ways,
        about: None,
        hidden_until: None,
    }
}

/// Adds activations that are not over: each holds a bot back, or has not set its menu.
fn activations(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let registered = reader.registered_all()?;
    let consumers: BTreeSet<ConsumerId> = registered.into_iter().map(|row| row.consumer.id).collect();
    for consumer in consumers {
        let Some(open) = last_activation(reader, &consumer)?.filter(Activation::is_open) else { continue };
        let next = open.next().map_or("nothing", Step::as_str);
        let source = &open.begun.source;
        let why = if open.holds_back() {
            format!("{source} is held back; next step {next}")
        } else {
            format!("{source} comes in again; next step {next}")
        };
        found.push(Waiting {
            kind: Kind::ActivationOpen,
            id: open.begun.to.to_string(),
            since: reader.event(&open.id)?.map(|event| event.recorded_at),
            why,
            ways: Vec::new(),
            about: None,
            hidden_until: None,
            command: format!("thought activate {consumer} --from DIR --confirm {}", open.begun.plan),
        });
    }
    Ok(())
}

fn executions(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let enabled = enabled(reader)?;
    for consumer in reader.consumers() {
        // What a version that is gone left behind waits for nobody: the next version decides about it.
        if enabled.as_ref().is_some_and(|enabled| !enabled.contains(&consumer)) {
            continue;
        }
        let mut after = 0;
        loop {
            let page = reader.unsettled(&consumer, after, PAGE_ROWS_MAX)?;
            let Some(last) = page.last() else { break };
            after = last.position();
            for execution in &page {
                if let ExecutionState::Held { code, quarantined } = &execution.state {
                    found.push(held(reader, execution, code, *quarantined)?);
                }
            }
        }
    }
    Ok(())
}

/// Adds what consumers that are enabled have left behind them.
fn left_behind(look: &Look<'_>, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let enabled = enabled(look.reader)?.unwrap_or_default();
    // Without a service nothing was kept, and everything is read once.
    let failures = look.live.map(|live| Arc::clone(&live.failures)).unwrap_or_default();
    for (id, left) in failures.look(look.reader, &enabled)? {
        for (execution, end) in &left.unprocessed {
            found.push(unprocessed::waiting(look.reader, execution, &end.code)?);
        }
        found.extend(left.refused.map(|(refused, latest)| refused::waiting(&id, refused, &latest)));
    }
    Ok(())
}

fn held(reader: &Reader, execution: &Execution, code: &str, quarantined: bool) -> Result<Waiting, Failure> {
    let last = reader.attempts(&execution.key())?.pop();
    let unknown = last.is_some_and(|run| matches!(run.state, RunState::StatusUnknown { .. }));
    let kind = match (unknown, quarantined) {
        (true, _) => Kind::StatusUnknown,
        (false, true) => Kind::ExecutionQuarantined,
        (false, false) => Kind::ExecutionHeld,
    };
    Ok(Waiting {
        kind,
        id: execution.id.to_string(),
        since: Some(execution.since),
        why: format!("{}: {code} after {}", execution.consumer, attempts(execution.attempts)),
        command: retry_or_skip(&execution.id),
        ways: Vec::new(),
        about: about(reader, execution)?,
        hidden_until: None,
    })
}

/// Counts attempts in words.
fn attempts(count: u32) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}

/// Says whether a source holds removals back.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn holds_removals(reader: &Reader, source: &SourceId) -> Result<bool, Failure> {
    let mut found = Vec::new();
    incidents(reader, &mut found)?;
    Ok(found.iter().any(|waiting| waiting.id == source.as_str() && waiting.why.starts_with(REMOVALS_HELD)))
}

/// Adds incidents that are not over: the last word on a subject and code counts.
fn incidents(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let source = SourceId::supervision();
    let types = [Incident::kind().name];
    let mut open: BTreeMap<(String, String), Waiting> = BTreeMap::new();
    for event in reader.walk(&types, &source) {
        let event = event?;
        let Ok(incident) = event.payload_as::<Incident>() else { continue };
        let key = (incident.subject.clone(), incident.code.clone());
        if incident.over {
            open.remove(&key);
            continue;
        }
        if is_about_root(&incident.code) {
            // A folder is in one state at a time: the newest word says in which.
            open.retain(|(subject, code), _| *subject != key.0 || *code == key.1 || !is_about_root(code));
        }
        let since = open.get(&key).map_or(Some(event.recorded_at), |known| known.since);
        let waiting = Waiting {
            kind: Kind::Incident,
            id: incident.subject.clone(),
            since,
            why: reason(&incident),
            command: way_out(&incident, &event.id),
            ways: Vec::new(),
            about: None,
            hidden_until: None,
        };
        open.insert(key, waiting);
    }
    found.extend(open.into_values());
    Ok(())
}

/// Says what is not as it should be, and what ends it where a person cannot guess that.
fn reason(incident: &Incident) -> String {
    let code = &incident.code;
    let mut text =
        incident.detail.as_ref().map_or_else(|| code.clone(), |detail| format!("{code}: {detail}"));
    if let Some(advice) = Trouble::advice(code) {
        text.push_str(&format!("; {advice}"));
    }
    if code == DUPLICATE_ID {
        text.push_str("; they are taken, each as a document of its own: give each an id of its own");
    }
    if is_about_config(code) {
        text.push_str("; put the folder there, or mend `root` in config.yaml and start the service again");
    }
    if is_about_skips(code) {
        text.push_str("; over once they can be read, or are renamed, gone or ignored");
    }
    text
}

/// Says whether an incident is about single files, which the last look names.
fn is_about_files(code: &str) -> bool {
    code == DUPLICATE_ID || is_about_skips(code)
}

/// Says whether an incident may be ended by what config.yaml says: the check names the line.
fn is_about_config(code: &str) -> bool {
    matches!(code, "root-missing" | "root-not-a-directory" | "root-overlaps-data")
}

/// Returns the command that moves an incident, or the one that shows more where the world outside must change.
fn way_out(incident: &Incident, event: &EventId) -> String {
    match (incident.code.as_str(), SourceId::parse(&incident.subject)) {
        (REMOVALS_HELD, Ok(source)) => format!("thought source accept-removals {source}"),
        (code, Ok(_)) if is_about_config(code) => "thought declaration check".to_owned(),
        (code, Ok(source)) if is_about_files(code) => format!("thought source skipped {source}"),
        (_, Ok(source)) if matches!(source.kind(), "filesystem" | "telegram") => {
            format!("thought source look {source}")
        }
        (_, Ok(_) | Err(_)) => format!("thought event show {event}"),
    }
}
