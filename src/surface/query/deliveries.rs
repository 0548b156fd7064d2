//! Deliveries: what was sent out, what was not, and what nobody knows of.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thoughtstream_domain::dispatch::{self, Standing, State};
use thoughtstream_domain::event::{ActorKind, Event};
use thoughtstream_domain::id::{DeliveryId, EventId, RunId, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::{
    self, DeliveryBinding, DeliveryClaimed, DeliveryDelivered, DeliveryFailed, DeliveryUnconfirmed, Route,
};
use thoughtstream_domain::payload::telegram::{ChatId, MessageId};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::inbox::{Kind, Waiting};
use super::{Sink, put, unknown};
use crate::failure::Failure;

/// How many events of deliveries are looked at for one that is listed; each has a few.
const EVENTS_PER_ROW: u64 = 8;

/// Is a delivery as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// Where it stands.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// Why, where there is a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The number of its latest claim.
    pub claim: u32,
    /// Its route.
    pub route: Route,
    /// The bot.
    pub bot: SourceId,
    /// The chat.
    pub chat: ChatId,
    /// The message it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// The run that made the output.
    pub run: RunId,
    /// The output.
    pub output: EventId,
    /// Its events, oldest first; when one delivery is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventId>,
}

impl Delivery {
    fn of(event: &Event, binding: DeliveryBinding, standing: &Standing) -> Self {
        let (why, retry_at) = match standing {
            Standing::Waiting { at, code } => (Some(code.clone()), Some(*at)),
            Standing::Failed { code } | Standing::Unconfirmed { code } => (Some(code.clone()), None),
            Standing::Claimed { .. } | Standing::Delivered => (None, None),
        };
        let delivered = event.payload_as::<DeliveryDelivered>().ok();
        let DeliveryBinding { delivery, claim, route, bot, chat, run, output, .. } = binding;
        Self {
            id: delivery,
            state: standing.state(),
            since: event.recorded_at,
            why,
            retry_at,
            claim,
            route,
            bot,
            chat,
            message: delivered.and_then(|delivered| delivered.message),
            run,
            output,
            events: Vec::new(),
        }
    }
}

fn sources(reader: &Reader) -> Result<Vec<(SourceId, u64)>, Failure> {
    let heads = reader.sources_where(|source| source.kind() == "delivery")?;
    Ok(heads.into_iter().map(|head| (head.source, head.sequence)).collect())
}

/// Lists deliveries, the latest first, in one of these states or in any.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn list(reader: &Reader, states: &[String], limit: u32, sink: &mut dyn Sink) -> Result<(), Failure> {
    for (source, last) in sources(reader)? {
        let mut seen: BTreeSet<DeliveryId> = BTreeSet::new();
        let mut shown = 0;
        let first = last.saturating_sub(u64::from(limit).saturating_mul(EVENTS_PER_ROW)) + 1;
        for sequence in (first..=last).rev() {
            let Some(event) = reader.event_in(&source, sequence)? else { break };
            let Some((binding, standing)) = dispatch::read(&event) else { continue };
            if !seen.insert(binding.delivery) || shown >= limit {
                continue;
            }
            let delivery = Delivery::of(&event, binding, &standing);
            if states.is_empty() || states.iter().any(|state| state == delivery.state.as_str()) {
                shown += 1;
                put(sink, &delivery)?;
            }
        }
    }
    Ok(())
}

/// Returns the events of a delivery, oldest first.
///
/// # Errors
/// [`Failure`] if there is none, or the log cannot be read.
pub fn events(reader: &Reader, id: &DeliveryId) -> Result<Vec<Event>, Failure> {
    let types = [
        DeliveryClaimed::kind().name,
        DeliveryDelivered::kind().name,
        DeliveryFailed::kind().name,
        DeliveryUnconfirmed::kind().name,
    ];
    let mut found = Vec::new();
    for (source, _) in sources(reader)? {
        for claim in 1.. {
            let before = found.len();
            for kind in &types {
                found.extend(reader.event_under(&source, kind, &delivery::key(id, claim))?);
            }
            if found.len() == before {
                break;
            }
        }
    }
    found.sort_by_key(|event| event.position);
    if found.is_empty() { Err(unknown("delivery", id)) } else { Ok(found) }
}

/// Shows one delivery.
///
/// # Errors
/// [`Failure`] if there is none, or the log cannot be read.
pub fn one(reader: &Reader, id: &DeliveryId) -> Result<Delivery, Failure> {
    let events = events(reader, id)?;
    let latest = events.last().and_then(|event| Some((event, dispatch::read(event)?)));
    let Some((event, (binding, standing))) = latest else { return Err(unknown("delivery", id)) };
    let ids = events.iter().map(|event| event.id).collect();
    Ok(Delivery { events: ids, ..Delivery::of(event, binding, &standing) })
}

/// Finds the delivery of an output, if it is one that was to be sent out.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn of_output(reader: &Reader, output: &EventId) -> Result<Option<Delivery>, Failure> {
    for (source, _) in sources(reader)? {
        for route in [Route::DirectReply, Route::Notification] {
            let id = DeliveryId::derive(&source, route.as_str(), output);
            if reader.event_under(&source, &DeliveryClaimed::kind().name, &delivery::key(&id, 1))?.is_some() {
                return one(reader, &id).map(Some);
            }
        }
    }
    Ok(None)
}

/// Returns the command that shows a delivery.
pub(crate) fn show(id: &DeliveryId) -> String {
    format!("thought delivery show {id}")
}

/// Returns the commands that decide about a delivery whose end nobody knows.
pub(crate) fn ways(id: &DeliveryId) -> Vec<String> {
    ["confirm", "resend", "abandon"].map(|way| format!("thought delivery {way} {id}")).into()
}

/// Adds the deliveries whose end nobody knows and nobody has decided, and those that were given up.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn waiting(reader: &Reader, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let kinds = [DeliveryUnconfirmed::kind().name, DeliveryFailed::kind().name];
    for (source, _) in sources(reader)? {
        for event in reader.walk(&kinds, &source) {
            let event = event?;
            let Some((binding, standing)) = dispatch::read(&event) else { continue };
            let (id, chat) = (binding.delivery, &binding.chat);
            let (kind, why, ways) = match standing {
                Standing::Unconfirmed { code } if !is_decided(reader, &binding)? => {
                    let why = format!("{code}: it may or may not have arrived in chat {chat}");
                    (Kind::DeliveryUnconfirmed, why, ways(&id))
                }
                // What a person gave up needs no telling.
                Standing::Failed { code }
                    if event.actor.kind != ActorKind::Person && !is_sent_again(reader, &binding)? =>
                {
                    let why = format!("{code}: it did not arrive in chat {chat}");
                    let ways = vec![
                        format!("thought delivery resend {id}"),
                        format!("thought inbox later {id} --for-good"),
                    ];
                    (Kind::DeliveryFailed, why, ways)
                }
                Standing::Unconfirmed { .. }
                | Standing::Failed { .. }
                | Standing::Claimed { .. }
                | Standing::Waiting { .. }
                | Standing::Delivered => continue,
            };
            found.push(Waiting {
                kind,
                id: id.to_string(),
                since: Some(event.recorded_at),
                why,
                command: show(&id),
                ways,
                about: None,
                hidden_until: None,
            });
        }
    }
    Ok(())
}

/// Says whether a person has opened the next claim of a delivery that had failed.
fn is_sent_again(reader: &Reader, binding: &DeliveryBinding) -> Result<bool, Failure> {
    let next = delivery::key(&binding.delivery, binding.claim + 1);
    Ok(reader.event_under(&binding.source(), &DeliveryFailed::kind().name, &next)?.is_some())
}

fn is_decided(reader: &Reader, binding: &DeliveryBinding) -> Result<bool, Failure> {
    for kind in [DeliveryDelivered::kind().name, DeliveryFailed::kind().name] {
        if reader.event_under(&binding.source(), &kind, &binding.key())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
