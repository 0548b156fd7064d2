//! Feedback from a chat: an actor that reads corrections and reactions, finds the reply each is about, and appends
//! the judgment that follows. What follows is decided by [`thoughtstream_domain::feedback`]; nobody is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_domain::commit::{Commit, Refusal, Row, Verdict};
use thoughtstream_domain::dispatch::feedback_progress;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::feedback::{self, Feedback};
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::judgment::Judged;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::{self, DeliveryDelivered};
use thoughtstream_domain::payload::telegram::{TelegramCorrection, TelegramReaction};
use thoughtstream_store::{Reader, RowError};

use crate::hub::{SourceFilter, Subscribed};
use crate::log::{LogHandle, STORE_UNREADABLE};
use crate::service::ServiceHandle;
use crate::supervisor::{ChildName, ChildSpec, Detail, Fault, ReasonCode, StatusCell};

const LOOK_FAILED: ReasonCode = ReasonCode::new("look-failed");

/// How much feedback is read at a time; people give little.
const PAGE: usize = 64;

/// How many deliveries are looked through for the reply that feedback is about: most are about the latest.
const DELIVERIES_MAX: u64 = 20_000;

/// Is the feedback actor.
#[derive(Debug)]
pub struct FeedbackReader;

/// Is what it is told.
#[derive(Debug)]
pub enum FeedbackMessage {
    /// Something moved: look.
    Look,
}

/// Is what it is started with.
#[derive(Clone)]
pub struct FeedbackArgs {
    /// The bot's source.
    pub bot: SourceId,
    /// Where commits go.
    pub log: LogHandle,
    /// Where it reads.
    pub reader: Reader,
    /// Where it says how it is doing.
    pub status: Arc<StatusCell>,
}

/// Is its state.
pub struct FeedbackState {
    args: FeedbackArgs,
    bell: Subscribed,
    judged: u64,
}

impl Actor for FeedbackReader {
    type Msg = FeedbackMessage;
    type State = FeedbackState;
    type Arguments = FeedbackArgs;

    async fn pre_start(
        &self,
        me: ActorRef<FeedbackMessage>,
        args: FeedbackArgs,
    ) -> Result<FeedbackState, ActorProcessingErr> {
        let types = [TelegramCorrection::kind().name, TelegramReaction::kind().name];
        let filter = SourceFilter { sources: BTreeSet::from([args.bot.clone()]), kinds: BTreeSet::new() };
        // One that has ended needs no wake-up: its successor looks first of all.
        let ring = Arc::new(move || drop(me.send_message(FeedbackMessage::Look)));
        let bell = args.log.hub().subscribe(types, filter, ring);
        Ok(FeedbackState { args, bell, judged: 0 })
    }

    async fn post_start(
        &self,
        _: ActorRef<FeedbackMessage>,
        state: &mut FeedbackState,
    ) -> Result<(), ActorProcessingErr> {
        Ok(state.look().await?)
    }

    async fn handle(
        &self,
        _: ActorRef<FeedbackMessage>,
        message: FeedbackMessage,
        state: &mut FeedbackState,
    ) -> Result<(), ActorProcessingErr> {
        let FeedbackMessage::Look = message;
        Ok(state.look().await?)
    }
}

impl FeedbackState {
    /// Reads on from where the log says it was, until there is nothing left.
    async fn look(&mut self) -> Result<(), Fault> {
        drop(self.bell.take());
        loop {
            let (reader, bot) = (self.args.reader.clone(), self.args.bot.clone());
            let read = tokio::task::spawn_blocking(move || next(&reader, &bot)).await;
            let read = read.map_err(|_| Fault(LOOK_FAILED))?.map_err(|_| Fault(STORE_UNREADABLE))?;
            let Some(Read { last, made }) = read else { return Ok(()) };
            let judged = u64::from(made.is_some());
            let row = Row::Pass {
                consumer: feedback_progress(&self.args.bot),
                source: self.args.bot.clone(),
                sequence: last,
            };
            let mut commit = made.unwrap_or_default();
            commit.rows.push(row.clone());
            match self.args.log.commit(commit).await.map_err(Fault::from)? {
                Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => {}
                // Somebody judged the reply meanwhile: what follows is to be worked out anew.
                Verdict::Refused(Refusal::Precondition { .. }) => continue,
                // It was judged before, in another way; that stands, and this feedback is passed.
                Verdict::Conflict(_) | Verdict::Refused(_) => {
                    let commit = Commit { rows: vec![row], ..Commit::default() };
                    self.args.log.commit(commit).await.map_err(Fault::from)?;
                }
            }
            self.judged += judged;
            self.args.status.settled();
            self.args.status.set("judged", Detail::Count(self.judged));
        }
    }
}

/// Is what one look at the log found.
struct Read {
    /// How far it came.
    last: u64,
    /// What follows from the feedback there, if anything does.
    made: Option<Commit>,
}

/// Reads up to the next feedback that judges something; `None` at the end.
fn next(reader: &Reader, bot: &SourceId) -> Result<Option<Read>, RowError> {
    let types = [TelegramCorrection::kind().name, TelegramReaction::kind().name];
    let after = reader.progress(&feedback_progress(bot), bot)?;
    let page = reader.backlog(&types, bot, after, PAGE)?;
    let mut last = None;
    for event in &page {
        last = Some(event.sequence);
        if let Some(commit) = judgment(reader, bot, event)? {
            return Ok(Some(Read { last: event.sequence, made: Some(commit) }));
        }
    }
    Ok(last.map(|last| Read { last, made: None }))
}

fn judgment(reader: &Reader, bot: &SourceId, event: &Event) -> Result<Option<Commit>, RowError> {
    let Some(feedback) = feedback::read(event) else { return Ok(None) };
    let Some((receipt, delivered)) = receipt(reader, bot, &feedback)? else { return Ok(None) };
    let Some(output) = reader.event(&delivered.binding.output)? else { return Ok(None) };
    let Ok(judged) = Judged::of(&output) else { return Ok(None) };
    let said = reader.said_of(&output)?;
    // A correction that does not fit the contract corrects nothing.
    let made = feedback::project(&feedback, event, &judged, &receipt, &said).unwrap_or_default();
    Ok((!made.is_empty()).then(|| said.commit(made)))
}

/// Finds the receipt of the message that feedback is about, from the newest on. Numbers rise within a chat, so it
/// is not behind one with a smaller number.
fn receipt(
    reader: &Reader,
    bot: &SourceId,
    feedback: &Feedback,
) -> Result<Option<(Event, DeliveryDelivered)>, RowError> {
    let source = delivery::source(bot);
    let last = reader.head(&source)?.map_or(0, |head| head.sequence);
    for sequence in (last.saturating_sub(DELIVERIES_MAX) + 1..=last).rev() {
        let Some(event) = reader.event_in(&source, sequence)? else { break };
        let Ok(delivered) = event.payload_as::<DeliveryDelivered>() else { continue };
        if feedback::is_about(feedback, &delivered) {
            return Ok(Some((event, delivered)));
        }
        let number = delivered.message.filter(|_| delivered.binding.chat == feedback.chat);
        if number.is_some_and(|number| number < feedback.target) {
            break;
        }
    }
    Ok(None)
}

/// Declares the feedback reader of a bot.
pub(crate) fn child(service: &ServiceHandle, bot: SourceId) -> ChildSpec {
    let name = ChildName::parse(&format!("feedback:{}", bot.name()));
    let name = name.expect("a source's name makes a child's name");
    let service = service.clone();
    ChildSpec::actor(name, "feedback", move |context| {
        let args = FeedbackArgs {
            bot: bot.clone(),
            log: service.0.log.clone(),
            reader: service.reader(),
            status: Arc::clone(&context.status),
        };
        (FeedbackReader, args)
    })
}
