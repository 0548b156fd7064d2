//! The packet of an observer: its triggers and the document versions they name, as one message of plain data.
//!
//! Events are shown whole and in order. The content of a document is shown whole or not at all: where the bound of
//! characters has no room for one, its place says so to the model and to the manifest. If there is no room for the
//! events themselves, or for none of the contents, there is nothing to observe, and the run is refused. The events before the
//! triggers that a declaration asks for come last: as many of the newest of them as there is room for.

use serde_json::{Map, Value, json};

use crate::canonical;
use crate::content::Content;
use crate::event::{Event, Payload};
use crate::privacy::Privacy;
use crate::provider::{Message, Part as Piece, Role};
use crate::text::characters;

use super::documents::name;
use super::manifest::{Manifest, Part, Rule};
use super::{Capabilities, Composed, DocumentReference, TooLarge};

/// Is a trigger with what it is about.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The event.
    pub event: Event,
    /// The document version that it names.
    pub document: Option<ObservedDocument>,
}

/// Is the document version that a trigger names, and its bytes.
#[derive(Debug, Clone)]
pub struct ObservedDocument {
    /// The version.
    pub reference: DocumentReference,
    /// Its bytes, as the store verified them.
    pub bytes: Content<Vec<u8>>,
}

/// Is what an observer is told beside its triggers, and its bounds.
#[derive(Debug, Clone)]
pub struct Instructions<'a> {
    /// The declaration's prompt.
    pub prompt: &'a str,
    /// What the run may do.
    pub capabilities: &'a Capabilities,
    /// What the answer must be, in the words of its contract.
    pub answer: &'a str,
    /// The most triggers.
    pub max_events: usize,
    /// The most characters of everything that a model sees.
    pub max_chars: usize,
}

/// Says why an observer's packet cannot be composed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// There are more triggers than one packet may have.
    #[error("{events} events are more than the {events_max} of a packet")]
    TooMany {
        /// How many there are.
        events: usize,
        /// How many there may be.
        events_max: usize,
    },
    /// What must be shown whole has no room.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A trigger's payload is gone.
    #[error("the payload of a trigger was redacted or cannot be read")]
    Unreadable,
}

impl ObserveError {
    /// Returns the code that closes a run over it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "context-exceeds-max-events",
            Self::TooLarge(_) => TooLarge::CODE,
            Self::Unreadable => "trigger-unreadable",
        }
    }
}

/// Composes the request of an observer; `neighbors` are what it asks for before its triggers, the newest first.
///
/// # Errors
/// [`ObserveError`] if the triggers cannot be shown whole, or nothing that they are about can.
pub fn observation(
    observed: &[Observed],
    neighbors: &[Event],
    told: &Instructions<'_>,
) -> Result<Composed, ObserveError> {
    if observed.len() > told.max_events {
        return Err(ObserveError::TooMany { events: observed.len(), events_max: told.max_events });
    }
    let mut manifest = Manifest::under(told.max_events, told.max_chars);
    let system = [told.prompt.trim(), &told.capabilities.in_words(), told.answer.trim()];
    let system = system.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n\n");
    let mut entries =
        observed.iter().map(|one| bare(&one.event, one.document.is_some())).collect::<Result<Vec<_>, _>>()?;
    let taken = characters(&system) + characters(&write(&entries, &[])?);
    let room = told.max_chars.checked_sub(taken).ok_or_else(|| too_large(taken, told.max_chars))?;
    let documents = fill(observed, &mut entries, room, &mut manifest, told.max_chars)?;
    let taken = characters(&system) + characters(&write(&entries, &[])?);
    let beside = beside(neighbors, told.max_events - observed.len(), told.max_chars - taken, &mut manifest)?;
    let shown = write(&entries, &beside)?;
    let mut privacy = Privacy::PublicSource;
    for (observed, entry) in observed.iter().zip(&entries) {
        privacy = privacy.join(observed.event.privacy);
        let content = entry.get(CONTENT).and_then(Value::as_str).map_or(0, escaped);
        manifest.include(Part::Event, observed.event.id, written(entry)? - content);
    }
    for neighbor in &neighbors[..neighbors.len().min(told.max_events)] {
        // Whether it is shown or only named: what is known of it is in the packet.
        privacy = privacy.join(neighbor.privacy);
    }
    manifest.chars = (characters(&system) + characters(&shown)) as u64;
    let text = |role, text: String| Message { role, parts: vec![Piece::Text { text: Content::new(text) }] };
    Ok(Composed::of(vec![text(Role::System, system), text(Role::User, shown)], manifest, privacy, documents))
}

/// The member of an entry that holds a document's text.
const CONTENT: &str = "content";

/// The member of an entry that says why it holds none.
const OMITTED: &str = "contentOmitted";

fn too_large(chars: usize, chars_max: usize) -> TooLarge {
    TooLarge { chars: chars as u64, chars_max: chars_max as u64 }
}

/// Returns a trigger as data, with the longest remark in the place of its content.
fn bare(event: &Event, has_document: bool) -> Result<Map<String, Value>, ObserveError> {
    let payload = match &event.payload {
        Payload::Present(_) => event.payload_value().ok_or(ObserveError::Unreadable)?,
        Payload::Redacted | Payload::Damaged => return Err(ObserveError::Unreadable),
    };
    let mut entry = Map::new();
    entry.insert("id".to_owned(), json!(event.id));
    entry.insert("type".to_owned(), json!(event.kind));
    entry.insert("source".to_owned(), json!(event.source));
    entry.insert("sequence".to_owned(), event.sequence.into());
    if let Some(at) = event.occurred_at {
        entry.insert("occurredAt".to_owned(), json!(at));
    }
    entry.insert("payload".to_owned(), payload);
    if has_document {
        entry.insert(OMITTED.to_owned(), json!(Rule::CharBound));
    }
    Ok(entry)
}

/// Puts the contents in, in the order of the triggers, as long as there is room.
fn fill(
    observed: &[Observed],
    entries: &mut [Map<String, Value>],
    mut room: usize,
    manifest: &mut Manifest,
    chars_max: usize,
) -> Result<Vec<DocumentReference>, ObserveError> {
    let (mut documents, mut asked) = (Vec::new(), 0);
    for (observed, entry) in observed.iter().zip(entries) {
        let Some(document) = &observed.document else { continue };
        let id = name(&document.reference);
        let Ok(text) = std::str::from_utf8(document.bytes.reveal()) else {
            entry.insert(OMITTED.to_owned(), json!(Rule::NotText));
            manifest.omit(Part::Document, id, Rule::NotText);
            continue;
        };
        let chars = escaped(text) + CONTENT.len();
        if chars > room {
            asked = asked.max(chars);
            manifest.omit(Part::Document, id, Rule::CharBound);
            continue;
        }
        room -= chars;
        entry.remove(OMITTED);
        entry.insert(CONTENT.to_owned(), text.into());
        manifest.include(Part::Document, id, characters(text));
        documents.push(document.reference.clone());
    }
    // A model that is shown nothing of what it was called for could only make something up.
    if documents.is_empty() && asked > 0 {
        return Err(too_large(chars_max - room + asked, chars_max).into());
    }
    Ok(documents)
}

/// The characters of the member that neighbors stand in, without them.
const BESIDE: usize = r#","neighbors":[]"#.len();

/// Takes as many neighbors as there is room for, the newest first; returns them in the order of the log.
fn beside(
    neighbors: &[Event],
    events_max: usize,
    mut room: usize,
    manifest: &mut Manifest,
) -> Result<Vec<Map<String, Value>>, ObserveError> {
    let (mut taken, mut closed) = (Vec::new(), None);
    // A comma stands before each but the first.
    room = room.saturating_sub(BESIDE) + 1;
    for event in neighbors {
        if matches!(event.payload, Payload::Redacted) {
            manifest.omit(Part::Neighbor, event.id, Rule::Redacted);
            continue;
        }
        let entry = bare(event, false)?;
        let chars = written(&entry)? + 1;
        if taken.len() == events_max {
            closed = closed.or(Some(Rule::EventBound));
        } else if chars > room {
            closed = closed.or(Some(Rule::CharBound));
        }
        // Whatever is older than one without room is left out as well: a row with a hole is no neighborhood.
        if let Some(rule) = closed {
            manifest.omit(Part::Neighbor, event.id, rule);
            continue;
        }
        room -= chars;
        manifest.include(Part::Neighbor, event.id, chars - 1);
        taken.push(entry);
    }
    taken.reverse();
    Ok(taken)
}

/// Returns how many characters a text has as JSON.
fn escaped(text: &str) -> usize {
    characters(&Value::from(text).to_string())
}

fn written(entry: &Map<String, Value>) -> Result<usize, ObserveError> {
    serde_json::to_string(entry).map(|text| characters(&text)).map_err(|_| ObserveError::Unreadable)
}

fn write(entries: &[Map<String, Value>], beside: &[Map<String, Value>]) -> Result<String, ObserveError> {
    let mut value = json!({ "events": entries });
    if !beside.is_empty() {
        value["neighbors"] = json!(beside);
    }
    let bytes = canonical::write(&value).map_err(|_| ObserveError::Unreadable)?;
    Ok(String::from_utf8(bytes).unwrap_or_default())
}
