//! Why an event does or does not match a consumer, clause by clause.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, EventId};

use super::behind::subscription;
use super::consumers::enabled;
use super::events::find;
use super::why::fact_of;
use super::{Look, unknown};
use crate::failure::Failure;

/// Is the answer, clause by clause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The event.
    pub event: EventId,
    /// Whether the event matches: every clause that is part of matching holds.
    pub matches: bool,
    /// The clauses in order.
    pub clauses: Vec<ClauseRow>,
    /// What came of it, if the consumer has begun it: what `why` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<String>,
}

/// Is one clause of a subscription held against an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClauseRow {
    /// What is tested: a key of the declaration or a field of `where`.
    pub name: String,
    /// What the declaration wants.
    pub wanted: String,
    /// What the event has.
    pub found: String,
    /// Whether they agree.
    pub holds: bool,
}

/// Holds an event against the subscription of a consumer: of the version that is named, else of the one that is
/// enabled or the newest.
///
/// # Errors
/// [`Failure`] if there is no such event or consumer, or the log cannot be read.
pub fn explain(
    look: &Look<'_>,
    id: &ConsumerId,
    version: Option<u32>,
    event: &EventId,
) -> Result<Explained, Failure> {
    let event = find(look.reader, event)?;
    let mut versions: Vec<ConsumerKey> =
        look.reader.registered_all()?.into_iter().map(|registered| registered.consumer).collect();
    versions.extend(look.declared.and_then(|set| set.get(id)).map(|declaration| declaration.key().clone()));
    let on = enabled(look.reader)?.unwrap_or_default();
    let newest = versions
        .into_iter()
        .filter(|key| key.id == *id && version.is_none_or(|version| key.version == version));
    let key = newest.max_by_key(|key| (on.contains(key), key.version)).ok_or_else(|| match version {
        Some(version) => unknown("consumer", &ConsumerKey::new(id.clone(), version)),
        None => unknown("consumer", id),
    })?;
    let subscription = subscription(look, &key)?.ok_or_else(|| unknown("usable declaration of", &key))?;
    let position = look.reader.registered(&key)?.map(|registered| registered.position);
    let clauses = subscription.explain(&event, position).into_iter().map(|clause| ClauseRow {
        name: clause.name,
        wanted: clause.wanted,
        found: clause.found,
        holds: clause.holds,
    });
    let stands = fact_of(look.reader, &key, &event)?;
    Ok(Explained {
        consumer: key,
        event: event.id,
        matches: subscription.matches(&event),
        clauses: clauses.collect(),
        stands,
    })
}
