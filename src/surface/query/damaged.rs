//! Consumers that stand still on a source before an event that is not what was recorded, and the way past it.

use std::collections::BTreeMap;

use thoughtstream_domain::commit::ExecutionKey;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, EventId, SourceId, TypeName};
use thoughtstream_domain::lane::DamagedEvent;
use thoughtstream_domain::operate::skip_damaged;
use thoughtstream_domain::subscription::Subscription;
use thoughtstream_store::{Reader, RowError, SourceHead};

use super::behind::{Heads, start, subscription};
use super::consumers::enabled;
use super::inbox::{Kind, Waiting, unreadable};
use super::tree::{ConsumerNodes, Node};
use super::{DAMAGED as DAMAGED_ROW, Look};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{Decision, Operation, made, skip_execution};

/// Under which name a consumer shows the damaged events that it stands still before.
const DAMAGED: &str = "damaged";

/// While no service runs, so many events that do not match are passed over on a source in search of a damaged one: more
/// would let a look at what waits cost the log. What lies behind them is found by `verify`, and by the service.
const PASSED_OVER_MAX: usize = 10_000;

/// Returns the damaged events that a running consumer stands still before.
pub(crate) fn of(node: &Node) -> Vec<DamagedEvent> {
    let told = node.detail.get(DAMAGED).and_then(serde_json::Value::as_array);
    told.into_iter().flatten().filter_map(|one| DamagedEvent::parse(one.as_str()?)).collect()
}

/// Says in a few words why a consumer stands still.
pub(crate) fn why(damaged: &DamagedEvent) -> String {
    format!("event-damaged: {damaged} is not what was recorded")
}

/// Returns the command that passes a damaged event for a consumer.
pub(crate) fn skip_command(consumer: &ConsumerId, damaged: &DamagedEvent) -> String {
    let DamagedEvent { source, sequence, .. } = damaged;
    format!("thought consumer skip {consumer} --source {source} --sequence {sequence} --reason TEXT")
}

/// Returns the consumers that stand still before each damaged event, in the order of the log.
pub(crate) fn standing(tree: &Node) -> Vec<(DamagedEvent, Vec<ConsumerId>)> {
    let mut found: BTreeMap<u64, (DamagedEvent, Vec<ConsumerId>)> = BTreeMap::new();
    for (id, node) in ConsumerNodes::of(tree).iter() {
        for damaged in of(node) {
            found.entry(damaged.position).or_insert_with(|| (damaged, Vec::new())).1.push(id.clone());
        }
    }
    found.into_values().collect()
}

/// Returns the damaged events that consumers stand still before: as a running service says it, else as the log does.
/// Those of which a row is damaged stand nobody knows where; `lost` is told each of them, and why.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(super) fn stood_before(
    look: &Look<'_>,
    lost: &mut dyn FnMut(&ConsumerId, Failure),
) -> Result<Vec<(DamagedEvent, Vec<ConsumerId>)>, Failure> {
    if let Some(live) = look.live {
        return Ok(standing(&live.tree));
    }
    let heads = Heads::read(look.reader)?;
    let mut found: BTreeMap<u64, (DamagedEvent, Vec<ConsumerId>)> = BTreeMap::new();
    for key in enabled(look.reader)?.unwrap_or_default() {
        let Some(subscription) = subscription(look, &key)? else { continue };
        for head in heads.included(&subscription) {
            let damaged = match next(look.reader, &key, &subscription, head) {
                Err(failure) if failure.code == DAMAGED_ROW => {
                    lost(&key.id, failure);
                    break;
                }
                next => next?,
            };
            if let Some(damaged) = damaged {
                let at = found.entry(damaged.position).or_insert_with(|| (damaged, Vec::new()));
                at.1.push(key.id.clone());
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Returns the damaged event that a consumer comes to next on a source, if nothing that matches stands before it.
fn next(
    reader: &Reader,
    key: &ConsumerKey,
    subscription: &Subscription,
    head: &SourceHead,
) -> Result<Option<DamagedEvent>, Failure> {
    let source = &head.source;
    let start = start(reader, key, source, subscription.replay())?;
    let claims = reader.claims(key, source, usize::MAX)?;
    let mut after = claims.last().map_or(start.after, |claim| claim.sequence.max(start.after));
    if after >= head.sequence {
        return Ok(None);
    }
    let types: Vec<TypeName> = subscription.accepted_types().iter().cloned().collect();
    for event in reader.walk_after(&types, source, after).take(PASSED_OVER_MAX) {
        let event = match event {
            Err(RowError::Damaged { .. }) => return Ok(reader.damaged_behind(&types, source, after)?),
            event => event?,
        };
        if event.position > start.position && subscription.matches(&event) {
            return Ok(None);
        }
        after = event.sequence;
    }
    Ok(None)
}

/// Adds the damaged events that consumers stand still before, each with all of them.
pub(super) fn waiting(look: &Look<'_>, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    let mut lost = Vec::new();
    let stood = stood_before(look, &mut |id, failure| lost.push(unreadable(id, failure)))?;
    found.extend(lost);
    for (damaged, consumers) in stood {
        let id = id_of(look.reader, &damaged);
        let names: Vec<&str> = consumers.iter().map(ConsumerId::as_str).collect();
        let stand = if names.len() == 1 { "stands" } else { "stand" };
        let mut ways: Vec<String> = consumers.iter().map(|id| skip_command(id, &damaged)).collect();
        ways.extend(id.map(|id| redact_command(&id)));
        found.push(Waiting {
            kind: Kind::EventDamaged,
            id: id.map_or_else(|| damaged.source.to_string(), |id| id.to_string()),
            since: None,
            why: format!("{}; {} {stand} still there", why(&damaged), names.join(", ")),
            command: "thought verify".to_owned(),
            ways,
            about: None,
            hidden_until: None,
        });
    }
    Ok(())
}

/// Returns the command that erases what is left of an event, if that is what is damaged.
pub(super) fn redact_command(id: &EventId) -> String {
    format!("thought event redact {id} --reason TEXT")
}

/// Returns the id of a damaged event, if it can still be found by that.
fn id_of(reader: &Reader, damaged: &DamagedEvent) -> Option<EventId> {
    let shown = reader.showing_damage();
    let id = shown.event_in(&damaged.source, damaged.sequence).ok()??.id;
    let found = shown.event(&id).ok()??;
    (found.position == damaged.position).then_some(id)
}

/// Works out the commit that passes a damaged event for a consumer: the execution that has it as a trigger, or the bare
/// place if the consumer has not begun it.
///
/// # Errors
/// [`Failure`] if the consumer does not stand still exactly there, or the log cannot be read.
pub(crate) fn skip(
    look: &Look<'_>,
    (consumer, source, sequence): (&ConsumerId, &SourceId, u64),
    reason: &str,
    operation: &Operation,
) -> Result<Decision, Failure> {
    let reader = look.reader;
    let key = version(reader, consumer)?;
    let claims = reader.claims(&key, source, usize::MAX)?;
    if let Some(claim) = claims.iter().find(|claim| claim.sequence == sequence && !claim.closed) {
        let at = ExecutionKey { consumer: key, position: claim.execution };
        let execution =
            reader.execution(&at)?.ok_or_else(|| elsewhere(consumer, source, sequence, "gone"))?;
        return skip_execution(reader, execution, reason, operation);
    }
    if let Some(claim) = claims.iter().find(|claim| !claim.closed && claim.sequence < sequence) {
        let what = format!("number {} waits before it", claim.sequence);
        return Err(elsewhere(consumer, source, sequence, &what));
    }
    let Some(subscription) = subscription(look, &key)? else {
        let what =
            format!("the declaration of {key} cannot be read here, so nobody knows what stands before it");
        return Err(Failure::new(Exit::Refused, "consumer.declaration", what)
            .with_hint("do it while the service runs"));
    };
    let types: Vec<TypeName> = subscription.accepted_types().iter().cloned().collect();
    let progress = reader.progress(&key, source)?;
    let start = start(reader, &key, source, subscription.replay())?;
    let mut after = start.after;
    for event in reader.walk_after(&types, source, after) {
        let event = match event {
            Err(RowError::Damaged { .. }) => break,
            event => event?,
        };
        if event.sequence > sequence {
            return Err(elsewhere(consumer, source, sequence, "it does not stand in the way"));
        }
        let waits = event.position > start.position
            && subscription.matches(&event)
            && !claims.iter().any(|claim| claim.sequence == event.sequence);
        if waits && event.sequence == sequence {
            return Err(elsewhere(consumer, source, sequence, "it is what was recorded"));
        }
        if waits {
            let what = format!("number {} is not done yet", event.sequence);
            return Err(elsewhere(consumer, source, sequence, &what));
        }
        after = event.sequence;
    }
    match reader.damaged_behind(&types, source, after)? {
        Some(damaged) if damaged.sequence == sequence => {
            let Operation { operator, key: act, .. } = operation.clone();
            let commit = skip_damaged(&key, progress, &damaged, reason, operator, act);
            Ok(made("skipped", &format!("{source} {sequence}"), Some(commit)))
        }
        Some(damaged) => {
            let what = format!("{damaged} is in the way first");
            Err(elsewhere(consumer, source, sequence, &what))
        }
        None => Err(elsewhere(consumer, source, sequence, "it is what was recorded")),
    }
}

/// Returns the version of a consumer that is enabled.
fn version(reader: &Reader, consumer: &ConsumerId) -> Result<ConsumerKey, Failure> {
    let enabled = enabled(reader)?.unwrap_or_default();
    enabled.into_iter().find(|key| key.id == *consumer).ok_or_else(|| {
        let what = format!("{consumer} is not enabled: it stands still nowhere");
        Failure::new(Exit::Refused, "consumer.disabled", what)
    })
}

fn elsewhere(consumer: &ConsumerId, source: &SourceId, sequence: u64, what: &str) -> Failure {
    let text = format!("{consumer} does not stand still before number {sequence} of {source}: {what}");
    Failure::new(Exit::Refused, "consumer.not-damaged", text)
        .with_hint(format!("`thought why {consumer}` says where it stands"))
}
