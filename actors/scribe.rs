//! The scribe: turns what supervisors notice into events of `system:supervision`.
//!
//! A notice that is lost costs an event that a person would have liked to read, nothing else: what must be
//! recorded about an interrupted attempt is recorded by recovery, from the log.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_domain::commit::{Commit, Precondition, Refusal, Row, Verdict};
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Candidate, Envelope};
use thoughtstream_domain::id::{ConsumerId, EventId, IdempotencyKey, SourceId};
use thoughtstream_domain::lifecycle::ExecutionState;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system::{Incident, Quarantined, Restarted};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::log::LogHandle;
use crate::recovery::is_interruption;
use crate::supervisor::{Exit, Fault, Notice, NoticeKind, ReasonCode, StatusCell};

const READER_GONE: ReasonCode = ReasonCode::new("notices-closed");

/// A person changes a control row at a person's pace: more refusals in a row are no coincidence.
const CONTROL_READS_MAX: usize = 16;

/// Is the scribe actor.
#[derive(Debug)]
pub struct Scribe;

/// Is what the scribe is started with.
#[derive(Clone)]
pub struct ScribeArgs {
    /// Where notices come from; shared by all incarnations.
    pub notices: Arc<Mutex<mpsc::Receiver<Notice>>>,
    /// Where events go.
    pub log: LogHandle,
    /// Where control rows are read.
    pub reader: Reader,
    /// The number of this service's start.
    pub incarnation: u64,
    /// Where it says that it has written something down.
    pub status: Arc<StatusCell>,
}

/// Is what the scribe is told.
#[derive(Debug)]
pub enum ScribeMessage {
    /// Write this down.
    Noticed(Notice),
    /// Nothing will be noticed any more.
    NoticesClosed,
}

/// Is the state of the scribe; dropping it ends the task that listens.
pub struct ScribeState {
    args: ScribeArgs,
    listening: JoinSet<()>,
}

impl Actor for Scribe {
    type Msg = ScribeMessage;
    type State = ScribeState;
    type Arguments = ScribeArgs;

    async fn pre_start(
        &self,
        _: ActorRef<ScribeMessage>,
        args: ScribeArgs,
    ) -> Result<ScribeState, ActorProcessingErr> {
        Ok(ScribeState { args, listening: JoinSet::new() })
    }

    async fn post_start(
        &self,
        me: ActorRef<ScribeMessage>,
        state: &mut ScribeState,
    ) -> Result<(), ActorProcessingErr> {
        let notices = Arc::clone(&state.args.notices);
        state.listening.spawn(async move {
            let mut notices = notices.lock().await;
            while let Some(notice) = notices.recv().await {
                if me.send_message(ScribeMessage::Noticed(notice)).is_err() {
                    return;
                }
            }
            drop(me.send_message(ScribeMessage::NoticesClosed));
        });
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<ScribeMessage>,
        message: ScribeMessage,
        state: &mut ScribeState,
    ) -> Result<(), ActorProcessingErr> {
        let ScribeMessage::Noticed(notice) = message else { return Err(Fault(READER_GONE).into()) };
        if record(&state.args, &notice).await {
            state.args.status.settled();
        }
        Ok(())
    }
}

/// Writes a notice down; says whether there is now something about it in the log. What a person decided since the
/// control row was read stays: the row is read again then.
async fn record(args: &ScribeArgs, notice: &Notice) -> bool {
    for _ in 0..CONTROL_READS_MAX {
        let (copy, of) = (args.clone(), notice.clone());
        let made = tokio::task::spawn_blocking(move || commit(&copy, &of)).await;
        let Ok(Some(commit)) = made else { return false };
        match args.log.commit(commit).await {
            Ok(Verdict::Refused(Refusal::Precondition { .. })) => {}
            Ok(verdict) => return verdict.placed().is_some(),
            // The service is stopping.
            Err(_) => return false,
        }
    }
    tracing::warn!(child = %notice.path, "scribe.control_contended");
    false
}

/// Makes the commit that records a notice, if it is one to record.
fn commit(args: &ScribeArgs, notice: &Notice) -> Option<Commit> {
    let child = notice.path.to_string();
    let (candidate, row) = match notice.what {
        NoticeKind::Restarted { exit, restarts } => {
            let restarts = u32::try_from(restarts).unwrap_or(u32::MAX);
            let event = Restarted { child, code: code(exit), restarts };
            (event.candidate(envelope(args, notice, "restarted")), None)
        }
        NoticeKind::Quarantined { exit, .. } => {
            // It stands still on every source; what brought it down may be one event.
            let event = Quarantined { child, code: code(exit), source: None, event: left(args, notice) };
            (event.candidate(envelope(args, notice, "quarantined")), control(args, notice, exit))
        }
        NoticeKind::GaveUp { exit } => {
            let event =
                Incident { subject: child, code: "gave-up".into(), detail: Some(code(exit)), over: false };
            (event.candidate(envelope(args, notice, "gave-up")), None)
        }
        NoticeKind::Incident { code } => {
            let event = Incident { subject: child, code: code.as_str().into(), detail: None, over: false };
            (event.candidate(envelope(args, notice, code.as_str())), None)
        }
        // A person's or a reload's doing is recorded as theirs.
        NoticeKind::Resumed | NoticeKind::Stopped { .. } => return None,
    };
    let (preconditions, rows) = row.map_or_else(Default::default, |(before, row)| (vec![before], vec![row]));
    Some(Commit { preconditions, appends: vec![candidate], rows })
}

/// A quarantined consumer stays so across restarts of the service. The row is as it was read, or not written.
fn control(args: &ScribeArgs, notice: &Notice, exit: Exit) -> Option<(Precondition, Row)> {
    let id = consumer(notice)?;
    let before = args.reader.control(&id).ok()?;
    let mut control = before.clone().unwrap_or_default();
    control.quarantined_since = Some(notice.at);
    control.quarantine_code = Some(code(exit));
    Some((Precondition::ControlIs(id.clone(), before), Row::Control(id, control)))
}

/// Returns the consumer that a notice is about, if it is about one.
fn consumer(notice: &Notice) -> Option<ConsumerId> {
    ConsumerId::parse(notice.path.strip_prefix("thoughtstream/consumers/")?).ok()
}

/// Returns the event that a consumer could not get past: that of the attempt which ended with its incarnations
/// most often, and has not been settled since.
fn left(args: &ScribeArgs, notice: &Notice) -> Option<EventId> {
    let id = consumer(notice)?;
    let newest =
        args.reader.consumers().into_iter().filter(|key| key.id == id).max_by_key(|key| key.version)?;
    let unsettled = args.reader.unsettled(&newest, 0, PAGE_ROWS_MAX).ok()?;
    let left = unsettled.into_iter().filter(|execution| match &execution.state {
        ExecutionState::Running => true,
        ExecutionState::Waiting { code, .. } | ExecutionState::Held { code, .. } => is_interruption(code),
        ExecutionState::Closed { .. } => false,
    });
    let worst = left.max_by_key(|execution| (execution.failures, execution.since))?;
    worst.triggers.first().map(|trigger| trigger.id)
}

fn code(exit: Exit) -> String {
    exit.reason().unwrap_or(exit.kind()).to_owned()
}

fn envelope(args: &ScribeArgs, notice: &Notice, what: &str) -> Envelope {
    let at = notice.at.as_millis();
    let key = format!("{}/{}/{}/{what}/{at}", args.incarnation, notice.path, notice.incarnation);
    // A path longer than a key can be is named by its hash.
    let key = IdempotencyKey::parse(&key).unwrap_or_else(|_| {
        let hash = thoughtstream_domain::hash::Sha256Hash::of(key.as_bytes());
        IdempotencyKey::parse(&hash.to_string()).expect("a hash in hexadecimal is a key")
    });
    let actor = EventActor::ours(ActorKind::System, "supervision");
    Envelope::new(SourceId::supervision(), key, Privacy::Private, actor)
}

/// Makes a candidate of the service's own, with a key that rises with its starts.
pub(crate) fn of_service<P: thoughtstream_domain::payload::TypedPayload>(
    payload: &P,
    key: &str,
) -> Candidate {
    let key = IdempotencyKey::parse(key).expect("numbers and words make a key");
    let actor = EventActor::ours(ActorKind::System, "service");
    payload.candidate(Envelope::new(SourceId::supervision(), key, Privacy::Private, actor))
}

#[cfg(test)]
mod tests;
