//! Which events a consumer takes, and how many of them it has not closed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thoughtstream_domain::commit::Registered;
use thoughtstream_domain::declaration::{Catalog, Declaration, load_all};
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::{ConsumerKey, SourceId, TypeName};
use thoughtstream_domain::subscription::{Replay, Subscription};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Reader, SourceHead};

use super::Look;
use crate::failure::Failure;

/// Counting stops here: beyond it a person needs to know no number.
const COUNTED_MAX: u64 = 10_000;

/// Says how many matching events are not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// How many were counted.
    pub events: u64,
    /// Whether counting stopped there.
    pub at_least: bool,
    /// When the first of them was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// Returns what a consumer version subscribes to: as the service loaded it, else as it was registered.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn subscription<'a>(
    look: &'a Look<'_>,
    key: &ConsumerKey,
) -> Result<Option<Cow<'a, Subscription>>, Failure> {
    Ok(declaration(look, key)?.map(|declaration| match declaration {
        Cow::Borrowed(declaration) => Cow::Borrowed(declaration.subscription()),
        Cow::Owned(declaration) => Cow::Owned(declaration.subscription().clone()),
    }))
}

/// Returns a consumer version's declaration: as the service loaded it, else as it was registered.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn declaration<'a>(
    look: &'a Look<'_>,
    key: &ConsumerKey,
) -> Result<Option<Cow<'a, Declaration>>, Failure> {
    let loaded =
        look.declared.and_then(|set| set.get(&key.id)).filter(|declaration| declaration.key() == key);
    if let Some(declaration) = loaded {
        return Ok(Some(Cow::Borrowed(declaration)));
    }
    let registered = look.reader.registered(key)?;
    Ok(registered.and_then(|registered| declared(&registered, look.catalog)).map(Cow::Owned))
}

/// Compiles a registered declaration again; nothing if its types or transforms are gone.
pub(crate) fn declared(registered: &Registered, catalog: &Catalog) -> Option<Declaration> {
    let mut declaration = registered.declaration()?;
    declaration.as_object_mut()?.insert("enabled".to_owned(), true.into());
    // As JSON, which says of every text that it is one: `off` alone would be no word of the language.
    let text = serde_json::to_string(&declaration).ok()?;
    let file = (registered.consumer.to_string(), text.into_bytes());
    // The prompt was there when it was registered; it has no part in what is subscribed to.
    let set = load_all(&[file], &|_| Some(b"-".to_vec()), catalog).ok()?;
    set.get(&registered.consumer.id).cloned()
}

/// Says whether an event matches a consumer's subscription; nothing if its declaration is not known.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn matches(look: &Look<'_>, key: &ConsumerKey, event: &Event) -> Result<Option<bool>, Failure> {
    Ok(subscription(look, key)?.map(|subscription| subscription.matches(event)))
}

/// Counts the matching events behind a consumer's progress, up to a bound.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn behind(look: &Look<'_>, key: &ConsumerKey, heads: &Heads) -> Result<Behind, Failure> {
    let Some(subscription) = subscription(look, key)? else { return Ok(Behind::default()) };
    let reader = &look.reader.showing_damage();
    let types: Vec<TypeName> = subscription.accepted_types().iter().cloned().collect();
    let (mut counted, mut since): (u64, Option<Timestamp>) = (0, None);
    for head in heads.included(&subscription) {
        let start = start(reader, key, &head.source, subscription.replay())?;
        if start.after >= head.sequence {
            continue;
        }
        let closed: BTreeSet<u64> = reader
            .claims(key, &head.source, usize::MAX)?
            .into_iter()
            .filter(|claim| claim.closed)
            .map(|claim| claim.sequence)
            .collect();
        for event in reader.walk_after(&types, &head.source, start.after) {
            let event = event?;
            let waits = event.position > start.position
                && !closed.contains(&event.sequence)
                && (event.payload == Payload::Damaged || subscription.matches(&event));
            if !waits {
                continue;
            }
            since = Some(since.map_or(event.recorded_at, |first| first.min(event.recorded_at)));
            counted += 1;
            if counted >= COUNTED_MAX {
                return Ok(Behind { events: COUNTED_MAX, at_least: true, since });
            }
        }
    }
    Ok(Behind { events: counted, at_least: false, since })
}

/// Holds where every source stands, so that a consumer finds its own among thousands.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    by_source: BTreeMap<SourceId, SourceHead>,
    by_kind: BTreeMap<String, Vec<SourceId>>,
}

impl Heads {
    /// Reads them once.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be read.
    pub(crate) fn read(reader: &Reader) -> Result<Self, Failure> {
        let mut heads = Self::default();
        for head in reader.sources()? {
            heads.by_kind.entry(head.source.kind().to_owned()).or_default().push(head.source.clone());
            heads.by_source.insert(head.source.clone(), head);
        }
        Ok(heads)
    }

    /// Returns the last sequence of a source.
    pub(crate) fn sequence(&self, source: &SourceId) -> Option<u64> {
        self.by_source.get(source).map(|head| head.sequence)
    }

    /// Returns the sources that a subscription includes.
    pub(super) fn included(&self, subscription: &Subscription) -> Vec<&SourceHead> {
        if subscription.sources().is_empty() && subscription.kinds().is_empty() {
            return self.by_source.values().filter(|head| subscription.includes(&head.source)).collect();
        }
        let kinds = subscription.kinds().iter().filter_map(|kind| self.by_kind.get(kind)).flatten();
        let named: BTreeSet<&SourceId> = subscription.sources().iter().chain(kinds).collect();
        let found = named.into_iter().filter_map(|source| self.by_source.get(source));
        found.filter(|head| subscription.includes(&head.source)).collect()
    }
}

/// Says behind which event a consumer's work on a source begins.
pub(super) struct Start {
    /// Behind this place of the source …
    pub(super) after: u64,
    /// … and behind this position of the log.
    pub(super) position: u64,
}

/// Reads behind which event a consumer's work on a source begins.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(super) fn start(
    reader: &Reader,
    key: &ConsumerKey,
    source: &SourceId,
    replay: Replay,
) -> Result<Start, Failure> {
    if let Some(progress) = reader.progress_row(key, source)? {
        return Ok(Start { after: progress, position: 0 });
    }
    Ok(match replay {
        Replay::Beginning => Start { after: 0, position: 0 },
        Replay::Sequence(sequence) => Start { after: sequence.saturating_sub(1), position: 0 },
        Replay::Now => {
            let registered = reader.registered(key)?;
            Start { after: 0, position: registered.map_or(0, |registered| registered.position) }
        }
    })
}

#[cfg(test)]
mod tests {
    use thoughtstream_domain::id::ConsumerId;
    use thoughtstream_domain::registry::Registry;
    use thoughtstream_domain::time::Timestamp;

    use super::*;
    use crate::shipped::FILES;

    #[test]
    fn a_registered_declaration_is_understood_without_its_file() {
        let catalog = Catalog::of(&Registry::shipped());
        let files: Vec<(String, Vec<u8>)> = FILES
            .iter()
            .filter(|file| file.path.starts_with("declarations/"))
            .map(|file| (file.path.to_owned(), file.text.as_bytes().to_vec()))
            .collect();
        let set = load_all(&files, &|_| Some(b"prompt".to_vec()), &catalog).unwrap();
        let id = ConsumerId::parse("document-tasks").unwrap();
        assert!(set.get(&id).is_some());
        for declaration in set.iter() {
            let registered = Registered {
                consumer: declaration.key().clone(),
                fingerprint: declaration.fingerprint(),
                canonical: declaration.canonical(),
                position: 0,
                at: Timestamp::from_millis(0),
            };
            let compiled = declared(&registered, &catalog).unwrap();
            assert_eq!(compiled.subscription(), declaration.subscription());
        }
    }
}
