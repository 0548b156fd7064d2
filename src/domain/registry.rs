//! The strict registry: which event types exist, who alone may write each, and what their payloads look like.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::canonical;
use crate::event::{Candidate, Envelope, PARENTS_MAX, PAYLOAD_BYTES_MAX};
use crate::hash::Sha256Hash;
use crate::id::{TypeName, TypeRef};
use crate::payload::{self, TypedPayload};

mod custom;
mod earlier;
mod fault;
pub use custom::{SCHEMA_BYTES_MAX, codes};
pub use earlier::Hashes;

/// Says who alone may write an event type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Writer {
    /// A producer that carries observations from outside.
    Producer,
    /// A consumer's attempt: lifecycle and outputs.
    Settlement,
    /// Supervisors and recovery.
    Supervision,
    /// A person's decision or operation.
    Decision,
    /// Trusted code that changed the world.
    Effect,
    /// The one actor that changes the memory document.
    Materialization,
    /// A person who appends something by hand.
    Hand,
}

impl Writer {
    /// Returns the name used in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Settlement => "settlement",
            Self::Supervision => "supervision",
            Self::Decision => "decision",
            Self::Effect => "effect",
            Self::Materialization => "materialization",
            Self::Hand => "hand",
        }
    }
}

/// Is one version of an event type.
#[derive(Clone)]
pub struct Definition {
    kind: TypeRef,
    writer: Writer,
    schema: Value,
    hash: Sha256Hash,
    promoted: Vec<String>,
    /// Made when it is first needed: most shipped types are written by this program alone, and never checked.
    validator: Arc<OnceLock<jsonschema::Validator>>,
}

impl Definition {
    fn unchecked(
        kind: TypeRef,
        writer: Writer,
        schema: Value,
        promoted: Vec<String>,
        validator: OnceLock<jsonschema::Validator>,
    ) -> Result<Self, String> {
        let identity = serde_json::json!({
            "type": kind, "writer": writer.as_str(), "schema": schema, "promoted": promoted,
        });
        let hash = Sha256Hash::of(&canonical::write(&identity).map_err(|e| e.to_string())?);
        Ok(Self { kind, writer, schema, hash, promoted, validator: Arc::new(validator) })
    }

    fn of<P: TypedPayload>() -> Self {
        let schema = schemars::schema_for!(P).to_value();
        let promoted = P::PROMOTED.iter().map(|field| (*field).to_owned()).collect();
        let made = Self::unchecked(P::kind(), P::WRITER, schema, promoted, OnceLock::new());
        made.expect("the schema of a shipped payload has exact numbers")
    }

    fn validator(&self) -> &jsonschema::Validator {
        let make =
            || jsonschema::validator_for(&self.schema).expect("a test makes that of every shipped type");
        self.validator.get_or_init(make)
    }

    /// Returns the type and version.
    #[must_use]
    pub const fn kind(&self) -> &TypeRef {
        &self.kind
    }

    /// Returns who alone may write it.
    #[must_use]
    pub const fn writer(&self) -> Writer {
        self.writer
    }

    /// Returns the payload's JSON Schema.
    #[must_use]
    pub const fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the hash of the whole definition; the log keeps that of the newest one it was written with.
    #[must_use]
    pub const fn hash(&self) -> &Sha256Hash {
        &self.hash
    }

    /// Returns the payload fields that a declaration's `where` may test.
    #[must_use]
    pub fn promoted(&self) -> &[String] {
        &self.promoted
    }
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Definition({}, {})", self.kind, self.writer.as_str())
    }
}

/// Says why something was refused at the door; never shows content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DoorError {
    /// No such type is registered.
    #[error("`{kind}` is not a registered type{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownType {
        /// What was named.
        kind: String,
        /// The nearest registered name.
        nearest: Option<String>,
    },
    /// The type belongs to another writer.
    #[error("`{kind}` is written by {} alone, not by {}", owner.as_str(), by.as_str())]
    WrongWriter {
        /// The type.
        kind: TypeRef,
        /// Who may write it.
        owner: Writer,
        /// Who tried.
        by: Writer,
    },
    /// The writer may not write to this source.
    #[error("{} may not write to `{origin}`: {rule}", by.as_str())]
    WrongSource {
        /// The source that was named.
        origin: String,
        /// Who tried.
        by: Writer,
        /// Where it may write.
        rule: &'static str,
    },
    /// The payload does not fit the type's schema.
    #[error("the payload does not fit `{kind}`: {rule}")]
    Schema {
        /// The type.
        kind: TypeRef,
        /// The place of the first fault inside the payload, as a JSON pointer; `/` is the whole.
        place: String,
        /// What is wrong, in words; each fault below the whole begins with its place.
        rule: String,
    },
    /// The payload has no exact canonical form.
    #[error("the payload is not exact: {0}")]
    NotExact(#[from] canonical::CanonicalError),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are stored in an event")]
    TooLarge {
        /// How large its canonical form is.
        bytes: usize,
    },
    /// There are too many parents.
    #[error("{parents} parents are more than the {PARENTS_MAX} allowed")]
    TooManyParents {
        /// How many there are.
        parents: usize,
    },
}

/// Is a candidate as someone asks for it, before the registry looked at it.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The type and version.
    pub kind: TypeRef,
    /// Everything else but the payload.
    pub envelope: Envelope,
    /// The payload.
    pub payload: crate::content::Content<DraftPayload>,
}

/// Is a payload value that does not print.
#[derive(Clone, PartialEq)]
pub struct DraftPayload(pub Value);

impl AsRef<[u8]> for DraftPayload {
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}

/// Holds every registered type. Old versions stay, so that what was recorded under them stays readable.
#[derive(Debug, Clone)]
pub struct Registry {
    definitions: BTreeMap<TypeRef, Definition>,
}

impl Registry {
    /// Returns the types that ship with the program.
    #[must_use]
    pub fn shipped() -> Self {
        let definitions = [
            Definition::of::<payload::note::Note>(),
            Definition::of::<payload::inbox::InboxPostponed>(),
            Definition::of::<payload::file::FileAdded>(),
            Definition::of::<payload::file::FileChanged>(),
            Definition::of::<payload::file::FileRenamed>(),
            Definition::of::<payload::file::FileRemoved>(),
            Definition::of::<payload::run::RunReceived>(),
            Definition::of::<payload::run::RunStarted>(),
            Definition::of::<payload::run::RunCompleted>(),
            Definition::of::<payload::run::RunFailed>(),
            Definition::of::<payload::run::RunBlocked>(),
            Definition::of::<payload::run::RunStatusUnknown>(),
            Definition::of::<payload::run::RunAbandoned>(),
            Definition::of::<payload::escalation::Escalation>(),
            Definition::of::<payload::judgment::TrainingExampleV1>(),
            Definition::of::<payload::judgment::TrainingExample>(),
            Definition::of::<payload::judgment::JudgmentRetracted>(),
            Definition::of::<payload::output::MessageObservation>(),
            Definition::of::<payload::output::OutputRejected>(),
            Definition::of::<payload::repair::RepairRequested>(),
            Definition::of::<payload::repair::RepairProposed>(),
            Definition::of::<payload::trace::RunTraced>(),
            Definition::of::<payload::proposal::MemoryChangeProposed>(),
            Definition::of::<payload::proposal::CorrectionProposed>(),
            Definition::of::<payload::proposal::FocusProposed>(),
            Definition::of::<payload::proposal::ProposalDecision>(),
            Definition::of::<payload::materialization::MaterializationStarted>(),
            Definition::of::<payload::materialization::Materialized>(),
            Definition::of::<payload::materialization::MaterializationFailed>(),
            Definition::of::<payload::system::Restarted>(),
            Definition::of::<payload::system::Quarantined>(),
            Definition::of::<payload::system::Incident>(),
            Definition::of::<payload::system::Paused>(),
            Definition::of::<payload::system::Resumed>(),
            Definition::of::<payload::system::RestartRequested>(),
            Definition::of::<payload::system::Skipped>(),
            Definition::of::<payload::system::DamageSkipped>(),
            Definition::of::<payload::system::RetryRequested>(),
            Definition::of::<payload::system::RemovalsAccepted>(),
            Definition::of::<payload::system::Redacted>(),
            Definition::of::<payload::system::DeclarationsLoaded>(),
            Definition::of::<payload::system::ServiceStarted>(),
            Definition::of::<payload::system::ServiceStopped>(),
            Definition::of::<payload::activation::ActivationBegun>(),
            Definition::of::<payload::activation::ActivationStepped>(),
            Definition::of::<payload::activation::ActivationCancelled>(),
            Definition::of::<payload::activation::MenuRegistered>(),
            Definition::of::<payload::activation::HelpNotice>(),
            Definition::of::<payload::telegram::TelegramMessage>(),
            Definition::of::<payload::telegram::TelegramReaction>(),
            Definition::of::<payload::telegram::TelegramCorrection>(),
            Definition::of::<payload::telegram::TelegramNonconversation>(),
            Definition::of::<payload::delivery::DeliveryClaimed>(),
            Definition::of::<payload::delivery::DeliveryDelivered>(),
            Definition::of::<payload::delivery::DeliveryFailed>(),
            Definition::of::<payload::delivery::DeliveryUnconfirmed>(),
            Definition::of::<payload::delivery::DeliveryDecided>(),
            Definition::of::<crate::transform::links::DocumentLinks>(),
            Definition::of::<crate::transform::metadata::DocumentMetadata>(),
            Definition::of::<crate::transform::structure::DocumentStructure>(),
            Definition::of::<crate::transform::tasks::DocumentTasks>(),
        ];
        let definitions = definitions.into_iter().map(|d| (d.kind.clone(), d)).collect();
        Self { definitions }
    }

    /// Returns one version of a type.
    #[must_use]
    pub fn get(&self, kind: &TypeRef) -> Option<&Definition> {
        self.definitions.get(kind)
    }

    /// Returns the newest version of a type.
    #[must_use]
    pub fn newest(&self, name: &TypeName) -> Option<&Definition> {
        let first = TypeRef::new(name.clone(), 0);
        let last = TypeRef::new(name.clone(), u32::MAX);
        self.definitions.range(first..=last).next_back().map(|(_, definition)| definition)
    }

    /// Returns every definition, in order of type and version.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.values()
    }

    /// Returns the definition hashes that the log compares with those it was written with.
    #[must_use]
    pub fn hashes(&self) -> BTreeMap<TypeRef, Hashes> {
        self.definitions.values().map(|d| (d.kind.clone(), Hashes::of(d))).collect()
    }

    /// Returns the names that a hand may append: the note, and what people registered.
    pub fn appendable(&self) -> impl Iterator<Item = &TypeName> {
        let by_hand = |definition: &&Definition| definition.writer == Writer::Hand;
        let names: BTreeSet<&TypeName> = self.definitions().filter(by_hand).map(|d| &d.kind.name).collect();
        names.into_iter()
    }

    /// Reads `NAME` as the newest version, or `NAME@n` as that version.
    ///
    /// # Errors
    /// [`DoorError::UnknownType`] with the nearest name that a hand may append: nobody else names types in words.
    pub fn resolve(&self, text: &str) -> Result<&Definition, DoorError> {
        let found = match text.split_once('@') {
            Some(_) => TypeRef::parse(text).ok().and_then(|kind| self.get(&kind)),
            None => TypeName::parse(text).ok().and_then(|name| self.newest(&name)),
        };
        found.ok_or_else(|| self.unknown(text))
    }

    fn unknown(&self, text: &str) -> DoorError {
        let written = text.split_once('@').map_or(text, |(name, _)| name);
        // The last words say what a thing is, the first ones whose it is: `stream.thought.note` means the note.
        let shared = |name: &TypeName| {
            let pairs = name.as_str().rsplit('.').zip(written.rsplit('.'));
            pairs.take_while(|(one, other)| one == other).count()
        };
        let alike = self.appendable().map(|name| (shared(name), name)).max_by_key(|(shared, _)| *shared);
        let nearest = match alike {
            Some((1.., name)) => Some(name.as_str()),
            _ => crate::yaml::nearest(written, self.appendable().map(TypeName::as_str)),
        };
        DoorError::UnknownType { kind: crate::text::excerpt(text, 128), nearest: nearest.map(str::to_owned) }
    }

    /// Lets a draft in, or refuses it: the only way from a request to a [`Candidate`].
    ///
    /// # Errors
    /// [`DoorError`] naming the first rule that is broken.
    pub fn admit(&self, by: Writer, draft: Draft) -> Result<Candidate, DoorError> {
        let Draft { kind, envelope, payload } = draft;
        let definition = self.get(&kind).ok_or_else(|| self.unknown(&kind.to_string()))?;
        if definition.writer != by {
            return Err(DoorError::WrongWriter { kind, owner: definition.writer, by });
        }
        if let Some(rule) = source_rule(by, envelope.source.kind()) {
            return Err(DoorError::WrongSource { origin: envelope.source.to_string(), by, rule });
        }
        if envelope.parents.len() > PARENTS_MAX {
            return Err(DoorError::TooManyParents { parents: envelope.parents.len() });
        }
        let value = payload.into_inner().0;
        let faults = fault::faults(definition.validator(), &definition.schema, &value);
        if let Some((place, _)) = faults.first() {
            let said = faults.iter().map(|(place, rule)| match place.as_str() {
                "/" => rule.clone(),
                place => format!("`{place}`: {rule}"),
            });
            let rule = said.collect::<Vec<_>>().join("; ");
            return Err(DoorError::Schema { kind, place: place.clone(), rule });
        }
        let bytes = canonical::write(&value)?;
        if bytes.len() > PAYLOAD_BYTES_MAX {
            return Err(DoorError::TooLarge { bytes: bytes.len() });
        }
        Ok(Candidate::checked(kind, envelope, bytes))
    }
}

/// Returns the rule that keeps a writer from sources of this kind, if one does.
fn source_rule(by: Writer, kind: &str) -> Option<&'static str> {
    match by {
        Writer::Hand if kind != "notes" => Some("a hand writes to notes:NAME"),
        Writer::Settlement if kind != "agent" => Some("a consumer writes to agent:ITSELF"),
        Writer::Supervision if kind != "system" && kind != "agent" => {
            Some("supervision writes to system:… and agent:…")
        }
        Writer::Decision if kind != "system" => Some("decisions are written to system:decisions"),
        Writer::Producer if matches!(kind, "agent" | "system" | "notes" | "materialization") => {
            Some("a producer writes to a source of its own")
        }
        Writer::Materialization if kind != "materialization" => {
            Some("the materializer writes to materialization:ROOT")
        }
        Writer::Hand
        | Writer::Settlement
        | Writer::Supervision
        | Writer::Decision
        | Writer::Producer
        | Writer::Materialization
        | Writer::Effect => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::event::{Actor, ActorKind};
    use crate::id::{IdempotencyKey, SourceId};
    use crate::privacy::Privacy;
    use serde_json::json;

    fn draft(kind: &str, source: &str, payload: Value) -> Draft {
        Draft {
            kind: TypeRef::parse(kind).unwrap(),
            envelope: Envelope::new(
                SourceId::parse(source).unwrap(),
                IdempotencyKey::parse("k1").unwrap(),
                Privacy::Private,
                Actor::ours(ActorKind::Person, "uid:1000"),
            ),
            payload: Content::new(DraftPayload(payload)),
        }
    }

    const NOTE: &str = "stream.thought.source.note@1";

    #[test]
    fn every_shipped_schema_makes_a_validator() {
        for definition in Registry::shipped().definitions() {
            assert!(!definition.validator().is_valid(&json!("no object")), "{}", definition.kind());
        }
    }

    #[test]
    fn a_hand_may_append_a_note() {
        let candidate = Registry::shipped()
            .admit(Writer::Hand, draft(NOTE, "notes:x", json!({ "text": "buy milk", "tags": ["home"] })))
            .unwrap();
        assert_eq!(candidate.payload().reveal().as_ref(), br#"{"tags":["home"],"text":"buy milk"}"#);
    }

    #[test]
    fn a_decision_or_a_finished_run_cannot_be_typed_in() {
        let registry = Registry::shipped();
        for definition in registry.definitions().filter(|d| d.writer() != Writer::Hand) {
            let refused =
                registry.admit(Writer::Hand, draft(&definition.kind().to_string(), "notes:x", json!({})));
            assert!(matches!(refused, Err(DoorError::WrongWriter { .. })), "{:?}", definition);
        }
    }

    #[test]
    fn a_hand_writes_to_notes_only() {
        for source in ["filesystem:notes", "agent:links", "system:decisions", "telegram:me"] {
            let refused =
                Registry::shipped().admit(Writer::Hand, draft(NOTE, source, json!({ "text": "x" })));
            assert!(matches!(refused, Err(DoorError::WrongSource { .. })), "{source}");
        }
    }

    #[test]
    fn a_broken_schema_is_refused_with_its_place_and_without_content() {
        let payloads = [
            json!({}),
            json!({ "text": "" }),
            json!({ "text": "hunter2", "extra": 1 }),
            json!({ "text": "x", "tags": [7] }),
            json!([]),
        ];
        for payload in payloads {
            let refused =
                Registry::shipped().admit(Writer::Hand, draft(NOTE, "notes:x", payload)).unwrap_err();
            assert!(matches!(refused, DoorError::Schema { .. }), "{refused:?}");
            assert!(!refused.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn a_broken_schema_is_told_in_words() {
        for (payload, said) in [
            (json!({}), "`text` is missing"),
            (json!({ "tex": "hunter2" }), "`tex` is not known here; did you mean `text`?"),
            (json!({ "text": "x", "a\u{1b}[31m": "hunter2" }), "[31m` is not known here"),
            (json!({ "text": 7 }), "`/text`: expected string, found number"),
            (json!({ "text": "" }), "`/text`: expected text, found none"),
            (json!({ "text": "x", "tags": [true] }), "`/tags/0`: expected string, found boolean"),
            (json!(["hunter2"]), "expected object, found array"),
        ] {
            let refused =
                Registry::shipped().admit(Writer::Hand, draft(NOTE, "notes:x", payload)).unwrap_err();
            let refused = refused.to_string();
            assert!(refused.contains(said), "{refused}");
            assert!(!refused.contains("hunter2") && !refused.contains('\u{1b}'), "{refused}");
        }
    }

    #[test]
    fn a_payload_and_parents_are_taken_up_to_their_bounds_and_not_beyond() {
        let registry = Registry::shipped();
        let room = PAYLOAD_BYTES_MAX - br#"{"text":""}"#.len();
        // A character of four bytes is one of those that a note may have.
        let text = |bytes: usize| "\u{1f331}".repeat(bytes / 4) + &"x".repeat(bytes % 4);
        let long = |bytes: usize| draft(NOTE, "notes:x", json!({ "text": text(bytes) }));
        assert_eq!(
            registry.admit(Writer::Hand, long(room)).unwrap().payload().reveal().len(),
            PAYLOAD_BYTES_MAX
        );
        let refused = registry.admit(Writer::Hand, long(room + 1)).unwrap_err();
        assert!(
            matches!(refused, DoorError::TooLarge { bytes } if bytes == PAYLOAD_BYTES_MAX + 1),
            "{refused}"
        );
        let id = registry.admit(Writer::Hand, long(1)).unwrap().id();
        let of = |parents: usize| {
            let draft = draft(NOTE, "notes:x", json!({ "text": "x" }));
            let parents = vec![crate::event::Parent { id, position: None }; parents];
            Draft { envelope: draft.envelope.clone().with_parents(parents), ..draft }
        };
        assert_eq!(
            registry.admit(Writer::Hand, of(PARENTS_MAX)).unwrap().envelope().parents.len(),
            PARENTS_MAX
        );
        let refused = registry.admit(Writer::Hand, of(PARENTS_MAX + 1)).unwrap_err();
        assert!(matches!(refused, DoorError::TooManyParents { .. }), "{refused}");
    }

    #[test]
    fn an_unknown_type_is_refused_with_the_nearest_name() {
        let refused = Registry::shipped().resolve("stream.thought.source.notes").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`stream.thought.source.notes` is not a registered type; did you mean `stream.thought.source.note`?"
        );
        assert!(Registry::shipped().resolve("stream.thought.source.note@2").is_err());
        // The last words count, and what only this program writes is never what a hand meant.
        let own = (String::from("home.sensor.reading@1.json"), b"{}".to_vec());
        let registry = Registry::shipped().with_custom(&[own]).unwrap();
        for (written, meant) in [
            ("stream.thought.note", Some("stream.thought.source.note")),
            ("note@1", Some("stream.thought.source.note")),
            ("sensor.reading", Some("home.sensor.reading")),
            ("home.sensor.reding", Some("home.sensor.reading")),
            ("stream.thought.run.trace", None),
            ("bogus", None),
        ] {
            let Err(DoorError::UnknownType { nearest, .. }) = registry.resolve(written) else { panic!() };
            assert_eq!(nearest.as_deref(), meant, "{written}");
        }
    }

    #[test]
    fn typed_payloads_fit_their_published_schema() {
        let registry = Registry::shipped();
        let operator = payload::system::Operator { uid: 1000, pid: 7, tty: Some("pts/1".into()) };
        let paused = payload::system::Paused {
            consumer: crate::id::ConsumerId::parse("links").unwrap(),
            reason: None,
            operator,
        };
        let value = serde_json::to_value(&paused).unwrap();
        let definition = registry.get(&payload::system::Paused::kind()).unwrap();
        assert!(definition.validator().is_valid(&value));
        assert!(!definition.validator().is_valid(&json!({ "consumer": "Links" })));
    }
}
