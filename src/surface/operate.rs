//! What a person decides: the commits behind pause, resume, retry and skip, and what is said about them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::declaration::Catalog;
use thoughtstream_domain::dispatch::reconcile;
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::{ConsumerId, DeliveryId, EventId, IdempotencyKey};
use thoughtstream_domain::lane::DamagedEvent;
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState};
use thoughtstream_domain::operate as decide;
use thoughtstream_domain::payload::delivery::Reconciled;
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Reader, Store};

use crate::ask::{Operate, Target};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::proposals;
use crate::query::consumers::is_on;
use crate::query::inbox::is_passed;
use crate::query::proposals::Home;
use crate::query::runs::find_execution;
use crate::query::{Look, damaged, inbox, unknown};
use crate::render::line;
use crate::submit::commit_alone;

/// Is what came of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// The operation in a word: `paused`, `resumed`, `restarted`, `retried`, `skipped`, …
    pub done: String,
    /// What it was done to.
    pub id: String,
    /// Whether it had been so before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// What a person should know beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The event that records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventId>,
}

/// Renders what came of an operation.
#[must_use]
pub fn render(value: &Value) -> String {
    match serde_json::from_value::<Done>(value.clone()) {
        Ok(done) => {
            let already = if done.already { "already " } else { "" };
            let note = done.note.map_or_else(String::new, |note| format!("{}\n", line(&note)));
            format!("{already}{} {}\n{note}", line(&done.done), line(&done.id))
        }
        Err(_) => reloaded(value),
    }
}

/// Renders what a reload changed, or any other answer as it is.
fn reloaded(value: &Value) -> String {
    let list = |key: &str| -> Option<Vec<String>> {
        let items = value.get(key)?.as_array()?;
        Some(items.iter().filter_map(Value::as_str).map(line).collect())
    };
    let (Some(started), Some(stopped), Some(unchanged)) =
        (list("started"), list("stopped"), list("unchanged"))
    else {
        return line(&value.to_string()) + "\n";
    };
    let say = |word: &str, keys: &[String]| {
        if keys.is_empty() { String::new() } else { format!("{word} {}\n", keys.join(", ")) }
    };
    let undisturbed = format!("{} went on undisturbed\n", unchanged.len());
    let restart = list("restartFor").unwrap_or_default();
    let restart = if restart.is_empty() {
        String::new()
    } else {
        format!("changed, but taken over by the next start only: {}\n", restart.join(", "))
    };
    let restarted = list("restarted").unwrap_or_default();
    let anew = say("started anew, for the types it takes have changed:", &restarted);
    say("started", &started) + &say("stopped", &stopped) + &anew + &undisturbed + &restart
}

/// Is who operates, when, and what makes the act recognisable.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Who.
    pub operator: Operator,
    /// When.
    pub now: Timestamp,
    /// The key of the event that records it.
    pub key: IdempotencyKey,
}

/// Names the process that runs this command as the operator.
#[must_use]
pub fn ourselves() -> Operator {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    crate::socket::Peer { uid: nix::unistd::geteuid().as_raw(), pid }.operator()
}

/// Is a decision ready to be handed in.
#[derive(Debug)]
pub enum Decision {
    /// This commit makes it so.
    Commit(Box<Commit>, Done),
    /// It is so already.
    Already(Done),
}

/// What a person should know who has erased something: where it may still be, and what removes it there.
const REMAINS: &str = "what it said may still lie in unused parts of the log's files; `thought compact`, while no \
                       service runs, removes it there. Copies made before still hold it, and so does what was made \
                       of it";

impl Decision {
    fn with_note(mut self, note: &str) -> Self {
        let (Self::Commit(_, done) | Self::Already(done)) = &mut self;
        done.note = Some(note.to_owned());
        self
    }
}

/// Works out the commit of a decision about a consumer or an execution, from what the log says.
///
/// # Errors
/// [`Failure`] if there is no such thing, it does not stand so that this can be done, or only a running service
/// can do it.
pub fn decide(reader: &Reader, operate: &Operate, operation: &Operation) -> Result<Decision, Failure> {
    let Operation { operator, now, key } = operation.clone();
    check_reason(operate)?;
    match operate {
        Operate::Pause { consumer, reason } => {
            let control = known(reader, consumer)?;
            let commit = decide::pause(consumer, control.as_ref(), reason.clone(), operator, now, key);
            Ok(made("paused", consumer, commit))
        }
        Operate::Resume { consumer } => {
            let control = known(reader, consumer)?;
            Ok(made("resumed", consumer, decide::resume(consumer, control.as_ref(), operator, key)))
        }
        Operate::Retry { target } => {
            let mut execution = find(reader, target)?;
            waits(&execution)?;
            runs(reader, &execution)?;
            let commit = execution.retry_now(now, operator, key);
            Ok(made("retried", &execution.id, Some(commit)))
        }
        Operate::Skip { target: Target::Place { consumer, source, sequence }, reason } => {
            bare_look(reader, now, |look| {
                damaged::skip(look, (consumer, source, *sequence), reason, operation)
            })
        }
        Operate::Skip { target, reason } => skip_execution(reader, find(reader, target)?, reason, operation),
        Operate::Redact { event, reason } => {
            // What is damaged may be erased like everything else.
            let found = crate::query::events::find(&reader.showing_damage(), event)?;
            let commit = decide::redact(&found, reason, operator, key)
                .map_err(|error| Failure::of(Exit::Refused, "event.evidence", &error))?;
            Ok(made("redacted", event, commit).with_note(REMAINS))
        }
        Operate::Judge(request) => crate::judge::decide(reader, request, operation.clone()),
        Operate::Retract { judgment, reason } => {
            crate::judge::retract(reader, judgment, reason.clone(), operation.clone())
        }
        Operate::TrainingExport { .. } | Operate::PrivateTrainingExport { .. } => {
            Err(Failure::new(Exit::Bug, "operate.training-export", "an export is no decision"))
        }
        Operate::Reconcile { delivery, decision } => settle_delivery(reader, delivery, *decision, operation),
        Operate::Postpone { id, until } => postpone(reader, id, *until, operation),
        Operate::DecideProposal(_) | Operate::ProjectProposals { .. } => {
            Err(Failure::new(Exit::Bug, "operate.proposal", "a proposal is decided in more than one commit"))
        }
        Operate::Copy { .. } => Err(Failure::new(Exit::Bug, "operate.copy", "a copy is no decision")),
        Operate::Restart { .. }
        | Operate::Activate(_)
        | Operate::RegisterMenu { .. }
        | Operate::Reload
        | Operate::LookAt { .. }
        | Operate::AcceptRemovals { .. }
        | Operate::Stop
        | Operate::Arm { .. }
        | Operate::Kill { .. } => {
            Err(Failure::new(Exit::Refused, "service.none", "no service runs on this log")
                .with_hint("start it with `thought serve`"))
        }
    }
}

/// Passes an execution, or dismisses one that was passed unprocessed. Triggers that are damaged are named by it, and it
/// hangs on the others.
pub(crate) fn skip_execution(
    reader: &Reader,
    mut execution: Execution,
    reason: &str,
    operation: &Operation,
) -> Result<Decision, Failure> {
    let Operation { operator, now, key } = operation.clone();
    if matches!(execution.state, ExecutionState::Closed { how: Closure::Skipped }) {
        return Ok(made("skipped", &execution.id, None));
    }
    let word = if is_passed(&execution) {
        "dismissed"
    } else {
        waits(&execution)?;
        "skipped"
    };
    let mut parents = Vec::new();
    for (trigger, parent) in execution.triggers.iter().zip(execution.parents()) {
        match reader.event_in(&execution.source, trigger.sequence) {
            Ok(Some(event)) if event.id == trigger.id => parents.push(parent),
            // The event is sound where an index rotted: built anew, it leads there again.
            Err(error) if !error.is_of_event() => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
    }
    let commit = execution.skip_of(parents, now, reason, operator, key);
    Ok(made(word, &execution.id, Some(commit)))
}

/// Says what became of a delivery whose end nobody knows.
fn settle_delivery(
    reader: &Reader,
    delivery: &DeliveryId,
    decision: Reconciled,
    operation: &Operation,
) -> Result<Decision, Failure> {
    let Operation { operator, now, key } = operation.clone();
    let events = crate::query::deliveries::events(reader, delivery)?;
    let latest = events.last().ok_or_else(|| unknown("delivery", delivery))?;
    let commit = reconcile(latest, decision, operator, now, key)
        .map_err(|error| Failure::of(Exit::Refused, "delivery.decided", &error))?;
    let word = match decision {
        Reconciled::Confirmed => "confirmed",
        Reconciled::Resend => "queued again",
        Reconciled::Abandoned => "abandoned",
    };
    Ok(made(word, delivery, Some(commit)))
}

/// Hides a thing in the list of what waits, as the log alone has it.
fn postpone(reader: &Reader, id: &str, until: Timestamp, operation: &Operation) -> Result<Decision, Failure> {
    bare_look(reader, operation.now, |look| inbox::postpone(&inbox::everything(look)?, id, until, operation))
}

/// Looks at the log alone, where no service runs. What would come of a change of memory is not looked at: it is no part
/// of a decision that is made in this way.
fn bare_look<T>(
    reader: &Reader,
    now: Timestamp,
    look_at: impl FnOnce(&Look<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (catalog, home) = (Catalog::of(&Registry::shipped()), Home::of(None));
    look_at(&Look { reader, live: None, declared: None, catalog: &catalog, home: &home, now })
}

/// The longest reason in UTF-16 code units: a sentence or two, as the event types say.
const REASON_CHARACTERS_MAX: usize = 1024;

/// Refuses a reason that says nothing or does not fit into its event.
fn check_reason(operate: &Operate) -> Result<(), Failure> {
    let (Operate::Skip { reason, .. }
    | Operate::Redact { reason, .. }
    | Operate::Retract { reason: Some(reason), .. }
    | Operate::Pause { reason: Some(reason), .. }) = operate
    else {
        return Ok(());
    };
    let characters = thoughtstream_domain::text::characters(reason);
    if (1..=REASON_CHARACTERS_MAX).contains(&characters) && !reason.trim().is_empty() {
        return Ok(());
    }
    let what = format!("the reason has {characters} characters");
    Err(Failure::new(Exit::Usage, "reason.length", what)
        .with_hint(format!("say why in 1 to {REASON_CHARACTERS_MAX} characters")))
}

pub(crate) fn made(word: &str, id: &impl std::fmt::Display, commit: Option<Commit>) -> Decision {
    let event = commit.as_ref().and_then(|commit| commit.appends.first()).map(|candidate| candidate.id());
    let done =
        Done { done: word.to_owned(), id: id.to_string(), already: commit.is_none(), note: None, event };
    match commit {
        Some(commit) => Decision::Commit(Box::new(commit), done),
        None => Decision::Already(done),
    }
}

/// Reads the control row of a consumer that the log knows.
fn known(reader: &Reader, id: &ConsumerId) -> Result<Option<thoughtstream_domain::commit::Control>, Failure> {
    let control = reader.control(id)?;
    let registered = || -> Result<bool, Failure> {
        Ok(reader.registered_all()?.iter().any(|registered| registered.consumer.id == *id))
    };
    if control.is_none() && !reader.consumers().iter().any(|key| key.id == *id) && !registered()? {
        return Err(unknown("consumer", id));
    }
    Ok(control)
}

pub(crate) fn find(reader: &Reader, target: &Target) -> Result<Execution, Failure> {
    match target {
        Target::Id { id } => find_execution(reader, id),
        Target::Place { consumer, .. } => {
            let what = "a place names what to skip, and no execution";
            Err(Failure::new(Exit::Usage, "consumer.target", what)
                .with_hint(format!("`thought why {consumer}` shows what waits")))
        }
        Target::Event { consumer, event } => {
            // By its place an execution is found that was begun before its trigger was damaged.
            let event = crate::query::events::find(&reader.showing_damage(), event)?;
            let mut found = None;
            for key in reader.consumers().into_iter().filter(|key| key.id == *consumer) {
                found = reader.execution_of(&key, &event)?.or(found);
            }
            found.ok_or_else(|| {
                if event.payload == Payload::Damaged {
                    let Event { source, sequence, position, .. } = event;
                    let damaged = DamagedEvent { source, sequence, position };
                    let what = format!(
                        "{consumer} has not begun {}, and {damaged} is not what was recorded",
                        event.id
                    );
                    return Failure::new(Exit::Refused, "consumer.not-begun", what).with_hint(format!(
                        "where it stands still before it, `{}` passes it",
                        damaged::skip_command(consumer, &damaged)
                    ));
                }
                let what = format!("{consumer} has not begun {}: there is nothing to move", event.id);
                Failure::new(Exit::Refused, "consumer.not-begun", what)
                    .with_hint(format!("`thought why {}` says where it stands", event.id))
            })
        }
    }
}

/// Refuses what cannot be moved: an open attempt, or an execution that is closed.
fn waits(execution: &Execution) -> Result<(), Failure> {
    let id = execution.id;
    match execution.state {
        ExecutionState::Waiting { .. } | ExecutionState::Held { .. } => Ok(()),
        ExecutionState::Running => {
            let what = format!("an attempt of {id} is open");
            Err(Failure::new(Exit::Refused, "execution.running", what)
                .with_hint("wait for its end, or run `thought consumer restart` first"))
        }
        ExecutionState::Closed { .. } if is_passed(execution) => {
            let what = format!("{id} was passed, and what is passed is not run again");
            Err(Failure::new(Exit::Refused, "execution.passed", what).with_hint(format!(
                "save its file once more, or raise the declaration's version with `onVersionChange: {{ replay: [{}] }}`",
                execution.source
            )))
        }
        ExecutionState::Closed { .. } => Err(Failure::new(
            Exit::Refused,
            "execution.closed",
            format!("{id} is closed: nothing is to be done"),
        )
        .with_hint(format!("`thought why {id}` says how"))),
    }
}

/// Refuses to have an execution tried again that nobody would try: its consumer is not enabled.
fn runs(reader: &Reader, execution: &Execution) -> Result<(), Failure> {
    if is_on(reader, &execution.consumer)? {
        return Ok(());
    }
    let what = format!("{} is not enabled: nothing would try it again", execution.consumer);
    Err(Failure::new(Exit::Refused, "consumer.disabled", what).with_hint(
        "enable it in its declaration and run `thought reload`, then retry; or pass the event with \
         `thought consumer skip`",
    ))
}

/// Makes a decision while no service runs; the lock of the data directory is held. What is done is told as it is done.
///
/// # Errors
/// [`Failure`] if it is refused or the log cannot be written.
pub fn alone(
    store: &mut Store,
    home: &Home,
    operate: &Operate,
    operation: &Operation,
    tell: &mut dyn FnMut(Done) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if let Operate::DecideProposal(request) = operate {
        return tell(proposals::alone(store, home, request, operation)?);
    }
    if let Operate::ProjectProposals { proposal } = operate {
        return proposals::project_alone(store, home, *proposal, operation, tell);
    }
    tell(match decide(&store.reader, operate, operation)? {
        Decision::Already(done) => done,
        Decision::Commit(commit, done) => settle(commit_alone(store, *commit, operation.now)?, done)?,
    })
}

/// Reads the log's answer to a decision.
///
/// # Errors
/// [`Failure`] if something changed between looking and deciding.
pub fn settle(verdict: Verdict, done: Done) -> Result<Done, Failure> {
    match verdict {
        Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => Ok(done),
        Verdict::Conflict(conflict) => Err(Failure::of(Exit::Refused, "decision.conflict", &conflict)),
        Verdict::Refused(refusal) => Err(Failure::of(Exit::Refused, "decision.overtaken", &refusal)
            .with_hint("something changed in between: look again and decide again")),
    }
}
