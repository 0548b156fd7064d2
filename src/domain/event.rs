//! The envelope: what a producer hands in, and what the log answers with.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::Content;
use crate::hash::{ChainHash, Sha256Hash};
use crate::id::{EventId, IdempotencyKey, SourceId, TypeRef};
use crate::privacy::Privacy;
use crate::time::Timestamp;

/// The largest payload in bytes of canonical JSON; larger content is a document with a blob.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The most parents of one event: a batch's triggers and a few more.
pub const PARENTS_MAX: usize = 256;
/// The longest actor id, address, external id or correlation in bytes.
pub const REFERENCE_BYTES_MAX: usize = 256;

/// Says what kind of actor stands behind an event.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ActorKind {
    /// A producer that carries observations from outside.
    Producer,
    /// A declared consumer.
    Agent,
    /// The service itself: supervision, recovery, scheduling.
    System,
    /// A person, through a command of theirs.
    Person,
}

impl ActorKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::Producer, Self::Agent, Self::System, Self::Person];

    /// Returns the spelling used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Agent => "agent",
            Self::System => "system",
            Self::Person => "person",
        }
    }

    /// Returns the byte that stored records use.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Producer => 0,
            Self::Agent => 1,
            Self::System => 2,
            Self::Person => 3,
        }
    }

    /// Reads the byte that stored records use.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// Is a short reference to something outside: printable ASCII, at most 256 bytes.
///
/// Actor ids, addresses, external ids and correlations are of this type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference(std::sync::Arc<str>);

/// Says why a text is no [`Reference`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a reference: expected 1 to 256 bytes of printable ASCII")]
pub struct ReferenceError;

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    /// [`ReferenceError`] if the text is empty, too long, or has anything but printable ASCII.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let fits = !text.is_empty()
            && text.len() <= REFERENCE_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        if fits { Ok(Self(text.into())) } else { Err(ReferenceError) }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Reference {
    type Error = ReferenceError;
    fn try_from(text: String) -> Result<Self, ReferenceError> {
        Self::parse(&text)
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.0.as_ref().to_owned()
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names who stands behind an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Actor {
    /// What kind of actor.
    pub kind: ActorKind,
    /// Which one.
    pub id: Reference,
}

impl Actor {
    /// Names an actor whose id is fixed by this program or was checked before (a consumer, a source).
    ///
    /// # Panics
    /// If `id` is no [`Reference`]; ids of ours always are.
    #[must_use]
    pub fn ours(kind: ActorKind, id: &str) -> Self {
        Self { kind, id: Reference::parse(id).expect("an id of this program is a reference") }
    }
}

/// Names a parent of a candidate, with its place if the caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The parent.
    pub id: EventId,
    /// Its global position; `None` for a sibling in the same commit or an event known only by id.
    pub position: Option<u64>,
}

impl Parent {
    /// Names an event that was read from the log.
    #[must_use]
    pub const fn of(event: &Event) -> Self {
        Self { id: event.id, position: Some(event.position) }
    }

    /// Names an event known by id alone: a sibling of the same commit, or one to look up.
    #[must_use]
    pub const fn named(id: EventId) -> Self {
        Self { id, position: None }
    }
}

/// Is everything about a candidate but its type and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Where it was observed.
    pub source: SourceId,
    /// What makes it the same observation.
    pub key: IdempotencyKey,
    /// Who may see it.
    pub privacy: Privacy,
    /// Who stands behind it.
    pub actor: Actor,
    /// When the source says it happened; never this machine's clock.
    pub occurred_at: Option<Timestamp>,
    /// What it was derived from.
    pub parents: Vec<Parent>,
    /// Whom it is addressed to (Escalation section).
    pub address: Option<Reference>,
    /// The id the outside world knows it by.
    pub external: Option<Reference>,
    /// What groups it with others, for people.
    pub correlation: Option<Reference>,
}

impl Envelope {
    /// Makes an envelope without parents, times or references.
    #[must_use]
    pub const fn new(source: SourceId, key: IdempotencyKey, privacy: Privacy, actor: Actor) -> Self {
        Self {
            source,
            key,
            privacy,
            actor,
            occurred_at: None,
            parents: Vec::new(),
            address: None,
            external: None,
            correlation: None,
        }
    }

    /// Adds what it was derived from.
    #[must_use]
    pub fn with_parents(mut self, parents: Vec<Parent>) -> Self {
        self.parents = parents;
        self
    }
}

/// Is a checked event that the log has not seen yet: its type is registered, its writer is the right one and
/// its payload fits its schema. Made only by [`crate::registry::Registry`] and by typed payloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    id: EventId,
    kind: TypeRef,
    envelope: Envelope,
    payload: Content<Box<[u8]>>,
    payload_sha256: Sha256Hash,
    digest: ChainHash,
}

impl Candidate {
    /// Completes a candidate whose payload was checked; crate-private, so that the door cannot be passed by.
    pub(crate) fn checked(kind: TypeRef, envelope: Envelope, payload: Vec<u8>) -> Self {
        let id = EventId::derive(&envelope.source, &kind.name, &envelope.key);
        let payload_sha256 = Sha256Hash::of(&payload);
        let digest = digest(&Digested {
            kind: &kind,
            source: &envelope.source,
            key: &envelope.key,
            privacy: envelope.privacy,
            actor: &envelope.actor,
            occurred_at: envelope.occurred_at,
            parents: envelope.parents.iter().map(|parent| &parent.id),
            references: [&envelope.address, &envelope.external, &envelope.correlation],
            payload_sha256: &payload_sha256,
        });
        Self { id, kind, envelope, payload: Content::new(payload.into()), payload_sha256, digest }
    }

    /// Returns the id, derived from source, type and key.
    #[must_use]
    pub const fn id(&self) -> EventId {
        self.id
    }

    /// Returns the type and its version.
    #[must_use]
    pub const fn kind(&self) -> &TypeRef {
        &self.kind
    }

    /// Returns everything but type and payload.
    #[must_use]
    pub const fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Returns the payload as canonical JSON.
    #[must_use]
    pub const fn payload(&self) -> &Content<Box<[u8]>> {
        &self.payload
    }

    /// Returns the payload's hash.
    #[must_use]
    pub const fn payload_sha256(&self) -> &Sha256Hash {
        &self.payload_sha256
    }

    /// Returns the content digest: two candidates with one id and one digest are repeats, with one id and
    /// two digests they are a conflict.
    #[must_use]
    pub const fn digest(&self) -> &ChainHash {
        &self.digest
    }
}

/// Is a payload as stored: still there, erased by a recorded redaction, or of an event that is not what was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Canonical JSON.
    Present(Content<Box<[u8]>>),
    /// Erased; its hash remains and the chain still verifies.
    Redacted,
    /// What is stored of the event is not what was recorded, so nothing of the payload is given to anybody, and the
    /// header is worth no more. Only a look that shows events meets it: whoever acts on them is told that the log is
    /// damaged there.
    Damaged,
}

/// Is a recorded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The internal commit number; orders a tail, claims nothing about time between sources.
    pub position: u64,
    /// The id.
    pub id: EventId,
    /// The type and its version.
    pub kind: TypeRef,
    /// The source.
    pub source: SourceId,
    /// Its place in the source, from 1 without gaps.
    pub sequence: u64,
    /// Who may see it.
    pub privacy: Privacy,
    /// Who stands behind it.
    pub actor: Actor,
    /// The idempotency key.
    pub key: IdempotencyKey,
    /// When the source says it happened.
    pub occurred_at: Option<Timestamp>,
    /// When the log recorded it; never goes back.
    pub recorded_at: Timestamp,
    /// The first ancestor.
    pub root: EventId,
    /// What it was derived from.
    pub parents: Vec<EventId>,
    /// Steps from an event without parents.
    pub depth: u32,
    /// Whom it is addressed to.
    pub address: Option<Reference>,
    /// The id the outside world knows it by.
    pub external: Option<Reference>,
    /// What groups it with others.
    pub correlation: Option<Reference>,
    /// The payload.
    pub payload: Payload,
    /// The payload's hash.
    pub payload_sha256: Sha256Hash,
    /// The link of the source's chain at this event.
    pub chain: ChainHash,
}

impl Event {
    /// Joins a candidate and its place to the event as the log will answer it.
    #[must_use]
    pub fn recorded(candidate: &Candidate, placed: &crate::commit::Placed) -> Self {
        let envelope = candidate.envelope.clone();
        Self {
            position: placed.position,
            id: candidate.id,
            kind: candidate.kind.clone(),
            source: envelope.source,
            sequence: placed.sequence,
            privacy: envelope.privacy,
            actor: envelope.actor,
            key: envelope.key,
            occurred_at: envelope.occurred_at,
            recorded_at: placed.recorded_at,
            root: placed.root,
            parents: envelope.parents.iter().map(|parent| parent.id).collect(),
            depth: placed.depth,
            address: envelope.address,
            external: envelope.external,
            correlation: envelope.correlation,
            payload: Payload::Present(candidate.payload.clone()),
            payload_sha256: candidate.payload_sha256,
            chain: placed.chain,
        }
    }

    /// Recomputes the content digest from the recorded fields.
    #[must_use]
    pub fn digest(&self) -> ChainHash {
        digest(&Digested {
            kind: &self.kind,
            source: &self.source,
            key: &self.key,
            privacy: self.privacy,
            actor: &self.actor,
            occurred_at: self.occurred_at,
            parents: self.parents.iter(),
            references: [&self.address, &self.external, &self.correlation],
            payload_sha256: &self.payload_sha256,
        })
    }

    /// Returns what the log assigned to the event.
    #[must_use]
    pub const fn assigned(&self) -> crate::hash::Assigned {
        crate::hash::Assigned {
            sequence: self.sequence,
            recorded_at: self.recorded_at,
            root: self.root,
            depth: self.depth,
        }
    }

    /// Reads the payload; `None` if it was redacted or is damaged.
    #[must_use]
    pub fn payload_value(&self) -> Option<Value> {
        match &self.payload {
            Payload::Present(content) => serde_json::from_slice(content.reveal()).ok(),
            Payload::Redacted | Payload::Damaged => None,
        }
    }

    /// Reads the payload as the type it was written from.
    ///
    /// # Errors
    /// [`PayloadError`] if it is of another type, redacted or damaged.
    pub fn payload_as<P: crate::payload::TypedPayload>(&self) -> Result<P, PayloadError> {
        if self.kind.name.as_str() != P::NAME || self.kind.version != P::VERSION {
            return Err(PayloadError::OtherType { found: self.kind.clone() });
        }
        match &self.payload {
            Payload::Present(content) => {
                serde_json::from_slice(content.reveal()).map_err(|_| PayloadError::Damaged)
            }
            Payload::Redacted => Err(PayloadError::Redacted),
            Payload::Damaged => Err(PayloadError::Damaged),
        }
    }

    /// Returns the event as JSON for programs: the envelope in camelCase and the payload as a value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut value = serde_json::json!({
            "id": self.id, "type": self.kind.name, "version": self.kind.version,
            "source": self.source, "sequence": self.sequence, "position": self.position,
            "privacy": self.privacy, "actor": self.actor, "key": self.key,
            "recordedAt": self.recorded_at, "root": self.root, "parents": self.parents,
            "depth": self.depth, "payload": self.payload_value(),
            "payloadSha256": self.payload_sha256, "chain": self.chain,
        });
        let optional = [
            ("occurredAt", self.occurred_at.map(|at| at.to_string())),
            ("address", self.address.as_ref().map(ToString::to_string)),
            ("external", self.external.as_ref().map(ToString::to_string)),
            ("correlation", self.correlation.as_ref().map(ToString::to_string)),
        ];
        for (name, text) in optional {
            if let Some(text) = text {
                value[name] = text.into();
            }
        }
        match self.payload {
            Payload::Present(_) => {}
            Payload::Redacted => value["redacted"] = true.into(),
            Payload::Damaged => value["damaged"] = true.into(),
        }
        value
    }
}

/// Says why a payload could not be read as a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The event is of another type.
    #[error("the event is a {found}")]
    OtherType {
        /// What it is.
        found: TypeRef,
    },
    /// The payload was erased.
    #[error("the payload was redacted")]
    Redacted,
    /// The payload does not fit its type, or is of an event that is not what was recorded.
    #[error("the payload does not fit its type")]
    Damaged,
}

/// Is what the content digest covers, borrowed from a candidate or an event.
struct Digested<'a, I> {
    kind: &'a TypeRef,
    source: &'a SourceId,
    key: &'a IdempotencyKey,
    privacy: Privacy,
    actor: &'a Actor,
    occurred_at: Option<Timestamp>,
    parents: I,
    references: [&'a Option<Reference>; 3],
    payload_sha256: &'a Sha256Hash,
}

fn digest<'a, I: Iterator<Item = &'a EventId> + Clone>(content: &Digested<'a, I>) -> ChainHash {
    let mut bytes = Vec::with_capacity(512);
    let mut part = |part: &[u8]| {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(part);
    };
    part(content.kind.name.as_str().as_bytes());
    part(&content.kind.version.to_le_bytes());
    part(content.source.as_str().as_bytes());
    part(content.key.as_str().as_bytes());
    part(&[content.privacy.code(), content.actor.kind.code()]);
    part(content.actor.id.as_str().as_bytes());
    part(&content.occurred_at.map_or([0; 9], |at| {
        let mut nine = [1; 9];
        nine[1..].copy_from_slice(&at.as_millis().to_le_bytes());
        nine
    }));
    for parent in content.parents.clone() {
        part(parent.as_bytes());
    }
    part(b"");
    for reference in content.references {
        part(reference.as_ref().map_or(&b""[..], |reference| reference.as_str().as_bytes()));
    }
    part(content.payload_sha256.as_bytes());
    ChainHash::from_bytes(blake3::derive_key("thoughtstream 2026 event digest v1", &bytes))
}
