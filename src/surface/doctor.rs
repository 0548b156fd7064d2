//! What could be wrong, looked at one by one: each check says what it saw and what to do about it.

mod apart;
mod bots;
mod memory;
mod providers;

use serde::{Deserialize, Serialize};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_effects::dirs::{self, DirError, PrivateDir};
use thoughtstream_effects::disk::{Room, room};
use thoughtstream_store::is_made_anew;

use crate::cells::{self, Obstacle, Tried};
use crate::client::read_only;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{LoadFailure, load};
use crate::places::{Places, environment};
use crate::query::consumers::{Consumer, State};
use crate::query::inbox::{Kind, Waiting};
use crate::query::status::Status;
use crate::render::verify::{Finding, Report};
use crate::render::{age, count};

pub use apart::producers_apart;
pub use bots::telegram;
pub use memory::memory;
pub use providers::providers;

/// The name of this answer's form, for programs.
pub const SCHEMA: &str = "thoughtstream.doctor/1";

/// With less than this the log may refuse to be written within hours.
const ROOM_ADVISED: u64 = 1 << 30;

/// With less than this it will refuse soon.
const ROOM_NEEDED: u64 = 64 << 20;

/// A consumer that has something to do and has settled nothing for this long is worth a look.
const STALE_MS: i64 = 10 * 60 * 1000;

/// Says how a check ended; the worst of all is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It is as it should be.
    Ok,
    /// It could be better.
    Advice,
    /// It could not be looked at.
    CouldNotLook,
    /// It is wrong.
    Finding,
}

impl Health {
    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Advice => "advice",
            Self::CouldNotLook => "could-not-look",
            Self::Finding => "finding",
        }
    }

    /// Returns the exit code it stands for.
    #[must_use]
    pub const fn exit(self) -> Exit {
        match self {
            Self::Ok => Exit::Done,
            Self::Advice => Exit::Advice,
            Self::CouldNotLook => Exit::CouldNotLook,
            Self::Finding => Exit::Refused,
        }
    }
}

/// Is one thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Its stable name.
    pub id: String,
    /// How it is.
    pub status: Health,
    /// What was seen.
    pub evidence: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Is everything that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The name of this form.
    pub schema: String,
    /// The worst of all checks.
    pub status: Health,
    /// The checks in order.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// Sums checks up.
    #[must_use]
    pub fn of(checks: Vec<Check>) -> Self {
        let status = checks.iter().map(|check| check.status).max().unwrap_or(Health::Ok);
        Self { schema: SCHEMA.to_owned(), status, checks }
    }
}

fn check(id: &str, status: Health, evidence: impl Into<String>, fix: Option<&str>) -> Check {
    Check { id: id.to_owned(), status, evidence: evidence.into(), fix: fix.map(str::to_owned) }
}

/// Turns a failure to look into a check that says so.
#[must_use]
pub fn unseen(id: &str, failure: &Failure) -> Check {
    let causes = failure.causes.iter().map(|cause| format!(": {cause}")).collect::<String>();
    let status = match failure.exit() {
        Exit::Refused | Exit::Usage => Health::Finding,
        Exit::Done | Exit::Undeclared | Exit::CouldNotLook | Exit::Unknown | Exit::Advice | Exit::Bug => {
            Health::CouldNotLook
        }
    };
    check(id, status, format!("{}{causes}", failure.what), failure.hint.as_deref())
}

/// Looks at the configuration and everything it names.
#[must_use]
pub fn configuration(places: &Places) -> Check {
    match load(places) {
        Ok(loaded) => {
            let (all, enabled) = (loaded.set.len(), loaded.set.enabled().count());
            let folders = loaded.config.folders.len();
            let (all, folders) = (count(all as u64, "declaration"), count(folders as u64, "folder"));
            let evidence = format!("{all}, {enabled} enabled, {folders}");
            check("configuration", Health::Ok, evidence, None)
        }
        Err(LoadFailure::Problems(problems)) => {
            let first = problems.first().map_or_else(String::new, |problem| {
                format!(", the first in {} line {}: {}", problem.file, problem.line, problem.message)
            });
            let evidence = format!("{}{first}", count(problems.len() as u64, "problem"));
            check("configuration", Health::Finding, evidence, Some("thought declaration check"))
        }
        Err(LoadFailure::Unreadable(failure)) => unseen("configuration", &failure),
    }
}

/// Looks at the data directory itself.
#[must_use]
pub fn data_directory(places: &Places) -> Check {
    let id = "data-directory";
    match PrivateDir::open(&places.data) {
        Ok(_) => match read_only(&places.data) {
            Some(read_only) => Check { status: Health::Finding, ..unseen(id, &read_only) },
            None => check(id, Health::Ok, "closed to others", None),
        },
        Err(error @ (DirError::Open { .. } | DirError::Link { .. } | DirError::NotADirectory { .. })) => {
            check(
                id,
                Health::Finding,
                error.to_string(),
                Some("chmod go-rwx the directory, or name another with --data"),
            )
        }
        Err(error) => unseen(id, &crate::command::init::data_failure(&error)),
    }
}

/// Looks at the room that is left.
#[must_use]
pub fn disk_room(places: &Places) -> Check {
    let refuses = dirs::writable(&places.data)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem);
    match room(&places.data) {
        Ok(room) => judged(&Room { read_only: room.read_only || refuses, ..room }),
        Err(error) => unseen("disk-room", &Failure::of(Exit::CouldNotLook, "disk", &error)),
    }
}

fn judged(room: &Room) -> Check {
    let id = "disk-room";
    let evidence = format!("{} MiB free", room.bytes_free >> 20);
    if room.read_only {
        return check(id, Health::Finding, "it may only be read", Some("mount its file system for writing"));
    }
    match room.bytes_free {
        0..ROOM_NEEDED => {
            check(id, Health::Finding, evidence, Some("free some space: nothing is lost, the log waits"))
        }
        ROOM_NEEDED..ROOM_ADVISED => {
            check(id, Health::Advice, evidence, Some("free some space before the log must wait"))
        }
        ROOM_ADVISED.. => check(id, Health::Ok, evidence, None),
    }
}

/// Runs the worker in its sandbox once.
#[must_use]
pub fn sandbox(places: &Places) -> Check {
    let id = "sandbox";
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return unseen(id, &Failure::of(Exit::CouldNotLook, "doctor.threads", &error)),
    };
    match runtime.block_on(cells::try_out(cells::place(&places.data, &environment))) {
        Ok(Tried { worker, libraries, millis }) => {
            let libraries = count(libraries as u64, "library file");
            check(id, Health::Ok, format!("worker {worker} with {libraries} ran inside in {millis} ms"), None)
        }
        Err(Obstacle { code, seen, way_out }) => {
            check(id, Health::Finding, format!("{seen} ({code})"), Some(way_out))
        }
    }
}

/// Judges the service, the log's clock and its consumers by one status. `read_only` says why nothing can be written into
/// the data directory, if so; a service that runs may not have tried yet.
#[must_use]
pub fn by_status(status: &Status, read_only: Option<&Failure>, now: Timestamp) -> Vec<Check> {
    let service = &status.service;
    let evidence = match (service.pid, service.since) {
        (Some(pid), Some(since)) => format!("{}, process {pid}, up {}", service.state, age(since, now)),
        (None, _) | (_, None) => service.state.clone(),
    };
    let mut checks = vec![check("service", Health::Ok, evidence, None)];
    checks.push(match (&service.unwritable, read_only) {
        (None, Some(read_only)) => Check { status: Health::Finding, ..unseen("log-writable", read_only) },
        (None, None) => check("log-writable", Health::Ok, count(status.log.events, "event"), None),
        (Some(why), _) => check(
            "log-writable",
            Health::Finding,
            why.clone(),
            Some("remove the cause: writing resumes by itself"),
        ),
    });
    let ahead = status.log.last_at.map_or(0, |last| last.millis_since(now));
    checks.push(if ahead > 1000 {
        let evidence =
            format!("the last event was recorded {} s after this machine's present time", ahead / 1000);
        check(
            "clock",
            Health::Advice,
            evidence,
            Some("set the clock; until it has caught up, events keep that time"),
        )
    } else {
        check("clock", Health::Ok, "not behind the log", None)
    });
    checks.push(stale(status, now));
    checks.extend(apart::connected(&status.apart, now));
    checks
}

fn stale(status: &Status, now: Timestamp) -> Check {
    let is_stale = |consumer: &&Consumer| {
        let idle_for = consumer.last.as_ref().map_or(i64::MAX, |last| now.millis_since(last.at));
        consumer.state == State::Behind && (status.service.pid.is_none() || idle_for > STALE_MS)
    };
    let stale: Vec<String> =
        status.consumers.iter().filter(is_stale).map(|consumer| consumer.consumer.to_string()).collect();
    if stale.is_empty() {
        return check("consumers-behind", Health::Ok, "none has fallen behind", None);
    }
    let fix = if status.service.pid.is_none() { "thought serve" } else { "thought status --state behind" };
    check("consumers-behind", Health::Advice, stale.join(", "), Some(fix))
}

/// Judges what waits for a person: what stands still because of a fault is a finding, what a person or a
/// declaration made wait is advice.
#[must_use]
pub fn by_inbox(waiting: &[Waiting]) -> Check {
    let health = |one: &Waiting| match one.kind {
        Kind::LogUnwritable
        | Kind::ConsumerQuarantined
        | Kind::ExecutionQuarantined
        | Kind::EventDamaged
        | Kind::ActorQuarantined
        | Kind::ProducerNotConnected
        | Kind::DeliveryUnconfirmed
        | Kind::DeliveryFailed
        | Kind::Incident
        | Kind::ActivationOpen => Health::Finding,
        Kind::ConsumerPaused
        | Kind::EffectsHeld
        | Kind::ExecutionHeld
        | Kind::Unprocessed
        | Kind::OutputRefused
        | Kind::EscalationUnheard
        | Kind::StatusUnknown
        | Kind::ServicePaused
        | Kind::Proposal
        | Kind::RepairProposal => Health::Advice,
    };
    match waiting.iter().map(health).max() {
        None => check("inbox", Health::Ok, "nothing waits", None),
        Some(worst) => {
            let mut counts = std::collections::BTreeMap::new();
            for one in waiting {
                *counts.entry(one.kind.as_str()).or_insert(0_usize) += 1;
            }
            let said: Vec<String> = counts.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            check("inbox", worst, said.join(", "), Some("thought inbox"))
        }
    }
}

/// Says whether what was found is gone when everything that follows from other rows is made anew.
fn is_mended_by_rebuild(finding: &Finding) -> bool {
    match finding.kind.as_str() {
        // An index may be named by the row that is to stand in it.
        "index" => {
            let table = finding.place.split(' ').next().unwrap_or_default();
            is_made_anew(table) || ["executions", "runs"].contains(&table)
        }
        "malformed" | "seal" => is_made_anew(&finding.place),
        _ => false,
    }
}

/// Judges a verification.
#[must_use]
pub fn by_report(report: &Report) -> Check {
    if report.ok {
        let evidence =
            format!("{} and {} verified", count(report.events, "event"), count(report.runs, "run"));
        return check("log-whole", Health::Ok, evidence, None);
    }
    let first = report
        .findings
        .first()
        .map_or_else(String::new, |finding| format!(", the first at {}: {}", finding.place, finding.message));
    let findings = count(report.findings.len() as u64 + report.unlisted, "finding");
    let is_made_anew = report.unlisted == 0 && report.findings.iter().all(is_mended_by_rebuild);
    let fix = if is_made_anew {
        "thought verify; then thought stop && thought rebuild: what was found is made from rows that are whole"
    } else {
        "thought verify; then thought restore FILE --data DIR from a backup that verifies"
    };
    check("log-whole", Health::Finding, format!("{findings}{first}"), Some(fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(healths: &[Health]) -> Exit {
        let checks = healths.iter().map(|health| check("x", *health, "", None)).collect();
        Diagnosis::of(checks).status.exit()
    }

    #[test]
    fn the_worst_check_is_the_answer_and_each_has_its_own_exit_code() {
        use Health::{Advice, CouldNotLook, Finding, Ok};
        assert_eq!(of(&[]), Exit::Done);
        assert_eq!(of(&[Ok, Ok]), Exit::Done);
        assert_eq!(of(&[Ok, Advice]), Exit::Advice);
        assert_eq!(of(&[CouldNotLook, Advice]), Exit::CouldNotLook);
        assert_eq!(of(&[Finding, CouldNotLook, Advice]), Exit::Refused);
    }

    #[test]
    fn what_is_made_from_other_rows_is_rebuilt_and_everything_else_restored() {
        let found = |findings: &[(&str, &str)]| {
            let finding = |(kind, place): &(&str, &str)| Finding {
                kind: (*kind).to_owned(),
                place: (*place).to_owned(),
                message: "x".to_owned(),
            };
            let findings = findings.iter().map(finding).collect();
            let report = Report { ok: false, events: 1, runs: 1, head: String::new(), findings, unlisted: 0 };
            let fix = by_report(&report).fix.unwrap_or_default();
            assert_ne!(fix.contains("thought rebuild"), fix.contains("thought restore"), "{fix}");
            fix.contains("thought rebuild")
        };
        for anew in ["documents doc_1", "heads notes:desk", "tallies budget 1"] {
            assert!(found(&[("seal", anew), ("index", "types")]), "{anew}");
        }
        for place in ["sequences", "runs a@1/1/1", "executions a@1/1", "correlated", "children"] {
            assert!(found(&[("index", place)]), "{place}");
        }
        for place in ["progress a@1 notes:desk", "controls a", "declarations a@1", "runs a@1/1/1"] {
            assert!(!found(&[("seal", place)]), "{place}");
        }
        for place in ["names", "numbers 1", "definitions", "events"] {
            assert!(!found(&[("index", place)]), "{place}");
        }
        assert!(!found(&[("index", "types"), ("chain", "events 3")]));
        assert!(!found(&[("document", "documents doc_1")]));
    }

    #[test]
    fn little_room_is_advice_and_none_a_finding() {
        let room = |bytes_free, read_only| {
            judged(&Room { bytes_free, bytes_total: 1 << 40, files_free: None, read_only }).status
        };
        assert_eq!(room(2 << 30, false), Health::Ok);
        assert_eq!(room(100 << 20, false), Health::Advice);
        assert_eq!(room(1 << 20, false), Health::Finding);
        assert_eq!(room(2 << 30, true), Health::Finding);
    }
}
