//! What may be sent out, in which order, and what a delivery's recorded events mean.
//!
//! The dispatcher acts; everything it decides is decided here, from events of the log and the configured routes.

mod awaited;
mod lanes;
mod standing;
mod velocity;

use std::collections::BTreeSet;

pub use awaited::AwaitedReply;
pub use lanes::{Due, Item, Lanes};
pub use standing::{Deliveries, Open, ReconcileError, Standing, State, read, reconcile};
pub use velocity::Velocity;

use crate::commit::{Commit, Precondition};
use crate::contract::{Importance, Observation};
use crate::event::{Actor, ActorKind, Envelope, Event, Parent};
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, ConsumerKey, DeliveryId, SourceId};
use crate::payload::TypedPayload;
use crate::payload::delivery::{
    self, AfterFailed, DeliveryBinding, DeliveryClaimed, DeliveryDelivered, DeliveryFailed,
    DeliveryUnconfirmed, Route,
};
use crate::payload::output::MessageObservation;
use crate::payload::run::RunCompleted;
use crate::payload::telegram::{ChatId, MessageId, SenderId, TelegramMessage};
use crate::privacy::Privacy;
use crate::retry::{AfterFailure, Exhausted, RetryPolicy};
use crate::text::characters;
use crate::time::Timestamp;

/// The longest text that is sent, in UTF-16 code units. It is never cut: what is longer is not sent.
pub const TEXT_UNITS_MAX: usize = 4096;

/// The action that a recommendation must propose to take a person's attention.
pub const NOTIFY: &str = "notify";

/// How often a message that was not sent is tried, and when: for about an hour, then a person is told.
pub const NOT_SENT: RetryPolicy =
    RetryPolicy { attempts: 20, first_ms: 1_000, max_ms: 300_000, exhausted: Exhausted::Hold };

/// The longest that the other side may ask to wait, in milliseconds. Telegram asks for seconds, and for hours of who
/// wrote far too much; what asks for more than a day is a mistake, and would keep a reply back for good.
const ASKED_MAX_MS: i64 = 24 * 3_600_000;

/// What the names begin with under which the log keeps how far those have looked that declare no consumer.
const PROGRESS_NAMES: [&str; 2] = ["dispatcher-", "feedback-"];

/// Returns the name under which the log keeps how far the dispatcher of a bot has looked.
///
/// # Panics
/// Never for a configured bot, whose name is a lower-case word that leaves room for the prefix.
#[must_use]
pub fn dispatcher_progress(bot: &SourceId) -> ConsumerKey {
    progress_name(PROGRESS_NAMES[0], bot)
}

/// Returns the name under which the log keeps how far the feedback of a bot was read.
///
/// # Panics
/// Never for a configured bot, whose name is a lower-case word that leaves room for the prefix.
#[must_use]
pub fn feedback_progress(bot: &SourceId) -> ConsumerKey {
    progress_name(PROGRESS_NAMES[1], bot)
}

fn progress_name(prefix: &str, bot: &SourceId) -> ConsumerKey {
    let id = ConsumerId::parse(&format!("{prefix}{}", bot.name()));
    ConsumerKey::new(id.expect("a configured bot's name is a short lower-case word"), 1)
}

/// Says whether a name may be one of those: a declaration that has it is registered as well.
#[must_use]
pub fn is_progress_name(consumer: &ConsumerKey) -> bool {
    PROGRESS_NAMES.iter().any(|prefix| consumer.id.as_str().starts_with(prefix))
}

/// Says which outputs one bot carries, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// The bot's source.
    pub bot: SourceId,
    /// The chats that are answered.
    pub chats: BTreeSet<ChatId>,
    /// The people who are answered.
    pub senders: BTreeSet<SenderId>,
    /// The one declaration whose outputs answer messages.
    pub direct: Option<ConsumerId>,
    /// The way for proposals to take a person's attention.
    pub notification: Option<NotificationRoute>,
}

/// Says which proposals may take a person's attention: every part of it must fit exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationRoute {
    /// Who may propose, about which source.
    pub from: BTreeSet<Origin>,
    /// Where it goes.
    pub chat: ChatId,
    /// The tag that it must carry.
    pub tag: String,
    /// The target that its recommendation must name.
    pub target: String,
}

/// Is a declaration together with the source of what it looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The declaration.
    pub agent: ConsumerId,
    /// The source of its trigger.
    pub source: SourceId,
}

impl Routes {
    /// Returns the declarations whose completed runs are looked at.
    #[must_use]
    pub fn agents(&self) -> BTreeSet<ConsumerId> {
        let proposing = self.notification.iter().flat_map(|route| &route.from).map(|origin| &origin.agent);
        self.direct.iter().chain(proposing).cloned().collect()
    }

    /// Returns the source that this bot's deliveries are recorded in.
    #[must_use]
    pub fn deliveries(&self) -> SourceId {
        delivery::source(&self.bot)
    }
}

/// Is a completed run with what it stands on, as read from the log.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The terminal event of the run.
    pub completed: &'a Event,
    /// An output it names.
    pub output: &'a Event,
    /// The event that the output was made from.
    pub trigger: &'a Event,
}

/// Says why an output is not delivered. Most outputs are not: it is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// The run, its output and its trigger do not belong together.
    #[error("the output's lineage is not that of the completed run")]
    Lineage,
    /// It is no observation.
    #[error("the output is not an observation")]
    Kind,
    /// No route is for it.
    #[error("no route is for this declaration and this trigger")]
    Route,
    /// The chat or the sender is not, or no longer, answered.
    #[error("the chat or the sender is not answered")]
    Recipient,
    /// It does not ask for attention in the exact way that is configured.
    #[error("it does not ask for attention")]
    Attention,
}

/// Is an output that is to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What its first claim binds.
    pub binding: DeliveryBinding,
    /// The position of the run's terminal event, which orders candidates.
    pub position: u64,
}

/// Decides whether an output is to be delivered, and over which route.
///
/// The two routes are disjoint: what answers a message of the bot is a direct reply or nothing.
///
/// # Errors
/// [`Ineligible`] naming the first rule that does not fit.
pub fn candidate(routes: &Routes, evidence: Evidence<'_>) -> Result<Candidate, Ineligible> {
    let Evidence { completed, output, trigger } = evidence;
    let run: RunCompleted = completed.payload_as().map_err(|_| Ineligible::Lineage)?;
    let agent = &run.stamp.consumer.id;
    let own = SourceId::agent(agent);
    if output.kind.name.as_str() != MessageObservation::NAME {
        return Err(Ineligible::Kind);
    }
    let said: MessageObservation = output.payload_as().map_err(|_| Ineligible::Lineage)?;
    let belongs = completed.source == own
        && output.source == own
        && said.stamp == run.stamp
        && run.outputs.contains(&output.id)
        && output.parents.first() == Some(&trigger.id)
        && completed.parents.first() == Some(&trigger.id)
        && output.root == trigger.root
        && completed.root == trigger.root;
    if !belongs {
        return Err(Ineligible::Lineage);
    }
    let (route, chat, sender) = if trigger.source == routes.bot {
        let (chat, sender) = answered(routes, agent, output, trigger)?;
        (Route::DirectReply, chat, Some(sender))
    } else {
        (Route::Notification, attention(routes, agent, &said.observation, trigger)?, None)
    };
    let delivery = DeliveryId::derive(&routes.deliveries(), route.as_str(), &output.id);
    let (bot, root, run, output) = (routes.bot.clone(), output.root, run.stamp.run, output.id);
    let binding = DeliveryBinding { delivery, claim: 1, route, bot, chat, sender, root, run, output };
    Ok(Candidate { binding, position: completed.position })
}

fn answered(
    routes: &Routes,
    agent: &ConsumerId,
    output: &Event,
    trigger: &Event,
) -> Result<(ChatId, SenderId), Ineligible> {
    // One message, one answer: an output of several messages answers nobody in particular.
    if routes.direct.as_ref() != Some(agent) || output.parents.len() != 1 || output.root != trigger.id {
        return Err(Ineligible::Route);
    }
    let message: TelegramMessage = trigger.payload_as().map_err(|_| Ineligible::Route)?;
    let known = routes.chats.contains(&message.chat) && routes.senders.contains(&message.sender);
    if known { Ok((message.chat, message.sender)) } else { Err(Ineligible::Recipient) }
}

fn attention(
    routes: &Routes,
    agent: &ConsumerId,
    said: &Observation,
    trigger: &Event,
) -> Result<ChatId, Ineligible> {
    let route = routes.notification.as_ref().ok_or(Ineligible::Route)?;
    let origin = Origin { agent: agent.clone(), source: trigger.source.clone() };
    if !route.from.contains(&origin) {
        return Err(Ineligible::Route);
    }
    let recommended = said.recommendation();
    let asks = said.importance() == Importance::High
        && said.tags().contains(&route.tag)
        && recommended
            .is_some_and(|asked| asked.target() == route.target && asked.proposed_action() == NOTIFY);
    if asks { Ok(route.chat) } else { Err(Ineligible::Attention) }
}

/// Says why a text is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// The output was erased or cannot be read.
    #[error("the output cannot be read")]
    Unreadable,
    /// There is nothing to send.
    #[error("the text is empty")]
    Empty,
    /// It is longer than one message.
    #[error("the text has more than {TEXT_UNITS_MAX} UTF-16 code units")]
    TooLong,
}

impl Unsendable {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unreadable => "output-unreadable",
            Self::Empty => "text-empty",
            Self::TooLong => "text-too-long",
        }
    }
}

/// Returns the text that an output says: its summary, whole and as it is.
///
/// # Errors
/// [`Unsendable`]; a text that does not fit is refused and never cut.
pub fn text(output: &Event) -> Result<String, Unsendable> {
    let said: MessageObservation = output.payload_as().map_err(|_| Unsendable::Unreadable)?;
    let summary = said.observation.summary().to_owned();
    if summary.trim().is_empty() {
        return Err(Unsendable::Empty);
    }
    if characters(&summary) > TEXT_UNITS_MAX { Err(Unsendable::TooLong) } else { Ok(summary) }
}

/// Is what was learnt by sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The other side has taken it.
    Delivered {
        /// The message it became.
        message: MessageId,
        /// When, by its clock.
        at: Option<Timestamp>,
    },
    /// Nothing was taken; it may be tried again.
    NotSent {
        /// Why.
        code: &'static str,
        /// How many seconds the other side asks to wait.
        retry_after: Option<u64>,
    },
    /// It was refused, and would be again.
    Refused {
        /// Why.
        code: &'static str,
    },
    /// It may or may not have been taken.
    Unknown {
        /// How it ended.
        code: &'static str,
    },
}

/// Claims a delivery: durable before anything is sent. `output` is what is sent, `text` what it says.
#[must_use]
pub fn claim(binding: &DeliveryBinding, output: &Event, text: &str, holder: (u64, u32)) -> Commit {
    let claimed = DeliveryClaimed {
        binding: binding.clone(),
        text_sha256: Sha256Hash::of(text.as_bytes()),
        units: u32::try_from(characters(text)).unwrap_or(u32::MAX),
        incarnation: holder.0,
        holder: holder.1,
    };
    let envelope = envelope(binding, output.privacy, Parent::of(output));
    let mut preconditions = Vec::new();
    if let Some(before) = binding.claim.checked_sub(1).filter(|before| *before > 0) {
        // A claim follows one that is known not to have sent anything, or a person's word.
        preconditions.push(Precondition::KeyUsed {
            source: binding.source(),
            kind: DeliveryFailed::kind().name,
            key: delivery::key(&binding.delivery, before),
        });
    }
    Commit { preconditions, appends: vec![claimed.candidate(envelope)], rows: Vec::new() }
}

/// Claims a delivery and says in the same commit that nobody knows whether it was sent, for the reason `code`.
/// Nothing is sent: a person goes on from there.
#[must_use]
pub fn hold(
    binding: &DeliveryBinding,
    output: &Event,
    text: &str,
    holder: (u64, u32),
    code: &'static str,
) -> Commit {
    let mut commit = claim(binding, output, text, holder);
    let parents = commit.appends.iter().map(|claimed| Parent::named(claimed.id()));
    let unconfirmed = DeliveryUnconfirmed { binding: binding.clone(), code: code.to_owned() };
    let mut envelope = envelope(binding, output.privacy, Parent::of(output));
    envelope.parents = parents.collect();
    commit.appends.push(unconfirmed.candidate(envelope));
    commit
}

/// Ends a claim with what was learnt; exactly one end lands. `claimed` is the claim's own event.
#[must_use]
pub fn end(binding: &DeliveryBinding, claimed: &Event, sent: Sent, now: Timestamp) -> Commit {
    let envelope = envelope(binding, claimed.privacy, Parent::of(claimed));
    let binding = binding.clone();
    let candidate = match sent {
        Sent::Delivered { message, at } => {
            let (message, sent_at) = (Some(message), at);
            DeliveryDelivered { binding: binding.clone(), message, sent_at, confirmed_by: None }
                .candidate(envelope)
        }
        Sent::NotSent { code, retry_after } => {
            let next = after_not_sent(binding.claim, retry_after, now);
            DeliveryFailed { binding: binding.clone(), code: code.to_owned(), next }.candidate(envelope)
        }
        Sent::Refused { code } => {
            let next = AfterFailed::Final;
            DeliveryFailed { binding: binding.clone(), code: code.to_owned(), next }.candidate(envelope)
        }
        Sent::Unknown { code } => {
            DeliveryUnconfirmed { binding: binding.clone(), code: code.to_owned() }.candidate(envelope)
        }
    };
    let unused = Precondition::KeyUnused {
        source: binding.source(),
        types: delivery::ends().into(),
        key: binding.key(),
    };
    Commit { preconditions: vec![unused], appends: vec![candidate], rows: Vec::new() }
}

/// Decides when a message that was not sent is tried again: not before the other side allows it.
fn after_not_sent(claim: u32, retry_after: Option<u64>, now: Timestamp) -> AfterFailed {
    match NOT_SENT.after(claim, now) {
        AfterFailure::Retry(at) => {
            let asked = retry_after.map_or(0, |seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
            let asked = asked.saturating_mul(1000).min(ASKED_MAX_MS);
            AfterFailed::Retry { at: at.max(now.plus_millis(asked)) }
        }
        AfterFailure::Exhausted(_) => AfterFailed::Final,
    }
}

fn envelope(binding: &DeliveryBinding, privacy: Privacy, parent: Parent) -> Envelope {
    let actor = Actor::ours(ActorKind::System, "dispatcher");
    let mut envelope =
        Envelope::new(binding.source(), binding.key(), privacy, actor).with_parents(vec![parent]);
    envelope.correlation = Some(crate::payload::telegram::correlation(binding.chat));
    envelope
}

#[cfg(test)]
mod tests;
