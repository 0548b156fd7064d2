//! Names and ids: each is a type of its own, made only by parsing or by the rule that derives it.

use crate::hash::{base32, from_base32, tagged};

/// The longest source name in bytes after the colon; it stands in every event header and file name.
pub const SOURCE_NAME_BYTES_MAX: usize = 128;
/// The longest event type in bytes.
pub const TYPE_BYTES_MAX: usize = 128;
/// The longest consumer or source kind in bytes.
pub const WORD_BYTES_MAX: usize = 64;
/// The longest idempotency key in bytes; keys are index entries, not content.
pub const KEY_BYTES_MAX: usize = 512;

/// Says what is wrong with an id, with the form it should have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not {what}: expected {form}")]
pub struct IdError {
    what: &'static str,
    form: &'static str,
}

impl IdError {
    /// Says that a text is not `what`, whose form is `form`.
    pub(crate) const fn new(what: &'static str, form: &'static str) -> Self {
        Self { what, form }
    }
}

/// Says whether `text` is a lower-case word: `a-z` first, then `a-z`, `0-9` or `-`, at most `bytes_max`.
fn is_word(text: &str, bytes_max: usize) -> bool {
    text.len() <= bytes_max
        && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $form:literal, $pattern:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Reads the id.
            ///
            /// # Errors
            /// [`IdError`] with the expected form.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.into())) } else { Err(IdError { what: $what, form: $form }) }
            }

            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        crate::textual::textual!($name, $pattern);
    };
}

text_id!(
    /// Names a source of events: `kind:name`, for example `filesystem:notes` or `agent:document-structure`.
    SourceId, "a source", "kind:name, like filesystem:notes",
    "^[a-z][a-z0-9-]{0,63}:[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
    |text| text.split_once(':').is_some_and(|(kind, name)| {
        is_word(kind, WORD_BYTES_MAX)
            && name.len() <= SOURCE_NAME_BYTES_MAX
            && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    })
);

text_id!(
    /// Names an event type without its version: dotted lower-case words.
    TypeName, "an event type", "dotted lower-case words, like stream.thought.source.note",
    r"^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+$",
    |text| text.len() <= TYPE_BYTES_MAX && text.contains('.') && text.split('.').all(|word| is_word(word, WORD_BYTES_MAX))
);

text_id!(
    /// Names a consumer: the `id` of its declaration.
    ConsumerId, "a consumer id", "a lower-case word with hyphens, at most 64 bytes, like document-structure",
    "^[a-z][a-z0-9-]{0,63}$",
    |text| is_word(text, WORD_BYTES_MAX)
);

text_id!(
    /// Identifies a document across its versions and renames, within one source.
    DocumentId, "a document id", "doc_ and up to 200 letters, digits, '.', '_' or '-'",
    "^doc_[A-Za-z0-9][A-Za-z0-9._-]{0,199}$",
    |text| text.strip_prefix("doc_").is_some_and(|rest| {
        rest.len() <= 200
            && rest.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    })
);

text_id!(
    /// Makes an observation recognisable: the same source, type and key is the same event.
    IdempotencyKey, "an idempotency key", "1 to 512 bytes of printable ASCII without spaces",
    "^[!-~]{1,512}$",
    |text| !text.is_empty() && text.len() <= KEY_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic())
);

impl SourceId {
    /// Returns the part before the colon.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split_once(':').map_or("", |(kind, _)| kind)
    }

    /// Returns the part after the colon.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, name)| name)
    }

    /// Returns the source that a consumer's lifecycle and outputs are written to.
    #[must_use]
    pub fn agent(consumer: &ConsumerId) -> Self {
        Self(format!("agent:{consumer}").into())
    }

    /// Returns the source of supervision events.
    #[must_use]
    pub fn supervision() -> Self {
        Self("system:supervision".into())
    }

    /// Returns the source of a person's decisions and operations.
    #[must_use]
    pub fn decisions() -> Self {
        Self("system:decisions".into())
    }
}

impl TypeName {
    /// Says whether the name lies in the family `prefix` (which ends before its `.*`).
    #[must_use]
    pub fn is_within(&self, prefix: &str) -> bool {
        self.0.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
    }

    /// Says whether the name belongs to this program; people register their types outside of it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.is_within("stream.thought")
    }
}

impl DocumentId {
    /// Returns the id given at first sight of a document that names none itself: derived from its source,
    /// the path it was first seen at, and how many documents had that path before.
    #[must_use]
    pub fn at_first_sight(source: &SourceId, path: &str, earlier: u64) -> Self {
        let parts = [source.as_str().as_bytes(), path.as_bytes(), &earlier.to_le_bytes()];
        let hash = tagged("thoughtstream 2026 document id v1", &parts);
        Self(format!("doc_{}", base32(&hash[..16])).into())
    }

    /// Returns the id of a document whose frontmatter names it.
    #[must_use]
    pub fn named(source: &SourceId, name: &str) -> Self {
        let parts = [source.as_str().as_bytes(), name.as_bytes()];
        let hash = tagged("thoughtstream 2026 named document id v1", &parts);
        Self(format!("doc_{}", base32(&hash[..16])).into())
    }
}

/// Names one version of an event type: `stream.thought.source.note@1`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeRef {
    /// The type.
    pub name: TypeName,
    /// Its version, from 1.
    pub version: u32,
}

impl TypeRef {
    /// Joins a type and a version.
    #[must_use]
    pub const fn new(name: TypeName, version: u32) -> Self {
        Self { name, version }
    }

    /// Reads `name@version`.
    ///
    /// # Errors
    /// [`IdError`] if either half is malformed or the version is not 1 or more.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let error = IdError {
            what: "a versioned event type",
            form: "name@version, like stream.thought.source.note@1",
        };
        let (name, version) = text.split_once('@').ok_or_else(|| error.clone())?;
        let version = parse_version(version).ok_or(error)?;
        Ok(Self { name: TypeName::parse(name)?, version })
    }
}

/// Reads a version: a decimal number from 1 without sign or leading zero.
fn parse_version(text: &str) -> Option<u32> {
    if text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Names one version of a consumer, the identity that progress belongs to: `document-structure@1`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerKey {
    /// The declaration's id.
    pub id: ConsumerId,
    /// The declaration's version, from 1.
    pub version: u32,
}

impl ConsumerKey {
    /// Joins an id and a version.
    #[must_use]
    pub const fn new(id: ConsumerId, version: u32) -> Self {
        Self { id, version }
    }

    /// Reads `id@version`.
    ///
    /// # Errors
    /// [`IdError`] if either half is malformed.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let error = IdError { what: "a consumer version", form: "id@version, like document-structure@1" };
        let (id, version) = text.split_once('@').ok_or_else(|| error.clone())?;
        let version = parse_version(version).ok_or(error)?;
        Ok(Self { id: ConsumerId::parse(id)?, version })
    }
}

macro_rules! at_text {
    ($name:ident, $first:ident, $pattern:literal) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&format!("{}@{}", self.$first, self.version))
            }
        }

        crate::textual::textual!($name, $pattern);
    };
}

at_text!(TypeRef, name, r"^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+@[1-9][0-9]*$");
at_text!(ConsumerKey, id, "^[a-z][a-z0-9-]{0,63}@[1-9][0-9]*$");

macro_rules! hash_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $bytes:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// Wraps the bytes of an id that was derived before.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; $bytes]) -> Self {
                Self(bytes)
            }

            /// Returns the bytes behind the prefix.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }

            /// Reads the id.
            ///
            /// # Errors
            /// [`IdError`] with the expected form.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let error = IdError { what: $what, form: concat!($prefix, " and lower-case base32") };
                let rest = text.strip_prefix($prefix).ok_or_else(|| error.clone())?;
                let bytes = from_base32(rest).ok_or_else(|| error.clone())?;
                Ok(Self(bytes.try_into().map_err(|_| error)?))
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&format!(concat!($prefix, "{}"), base32(&self.0)))
            }
        }

        crate::textual::textual!($name, concat!("^", $prefix, "[a-z2-7]+$"));
    };
}

hash_id!(
    /// Identifies an event: derived from its source, type and idempotency key.
    EventId, "evt_", 32, "an event id"
);
hash_id!(
    /// Identifies an execution: one consumer version on one ordered list of triggers.
    ExecutionId, "exe_", 20, "an execution id"
);
hash_id!(
    /// Identifies one attempt of an execution.
    RunId, "run_", 20, "a run id"
);
hash_id!(
    /// Identifies what is to be delivered: one output over one route of one bot, however often it is tried.
    DeliveryId, "dlv_", 20, "a delivery id"
);
hash_id!(
    /// Identifies what an output is worth after it was judged: derived from the output and the judgment.
    ProjectionId, "prj_", 20, "a projection id"
);

impl EventId {
    /// Derives the id of the observation `key` of type `name` at `source`. The version of the type is not
    /// part of it: the same observation written under a newer version is still the same observation.
    #[must_use]
    pub fn derive(source: &SourceId, name: &TypeName, key: &IdempotencyKey) -> Self {
        let parts = [source.as_str().as_bytes(), name.as_str().as_bytes(), key.as_str().as_bytes()];
        Self(tagged("thoughtstream 2026 event id v1", &parts))
    }
}

impl ExecutionId {
    /// Derives the id of the execution of `consumer`, as declared under `fingerprint`, on `triggers`.
    #[must_use]
    pub fn derive(
        consumer: &ConsumerKey,
        fingerprint: &crate::hash::Sha256Hash,
        triggers: &[EventId],
    ) -> Self {
        let name = consumer.to_string();
        let mut parts: Vec<&[u8]> = vec![name.as_bytes(), fingerprint.as_bytes()];
        parts.extend(triggers.iter().map(|id| &id.as_bytes()[..]));
        let hash = tagged("thoughtstream 2026 execution id v1", &parts);
        Self(hash[..20].try_into().expect("a hash has 32 bytes"))
    }
}

impl RunId {
    /// Derives the id of attempt number `attempt` (from 1) of `execution`.
    #[must_use]
    pub fn derive(execution: &ExecutionId, attempt: u32) -> Self {
        let hash = tagged("thoughtstream 2026 run id v1", &[execution.as_bytes(), &attempt.to_le_bytes()]);
        Self(hash[..20].try_into().expect("a hash has 32 bytes"))
    }
}

impl DeliveryId {
    /// Derives the id of delivering `output` over the route called `route` into `deliveries`.
    #[must_use]
    pub fn derive(deliveries: &SourceId, route: &str, output: &EventId) -> Self {
        let parts = [deliveries.as_str().as_bytes(), route.as_bytes(), output.as_bytes()];
        let hash = tagged("thoughtstream 2026 delivery id v1", &parts);
        Self(hash[..20].try_into().expect("a hash has 32 bytes"))
    }
}

impl ProjectionId {
    /// Derives the id of the projection of `output` that `judgment` decides; none decides the original.
    #[must_use]
    pub fn derive(output: &EventId, judgment: Option<&EventId>) -> Self {
        let judgment = judgment.map_or(&b""[..], |judgment| &judgment.as_bytes()[..]);
        let hash = tagged("thoughtstream 2026 projection id v1", &[output.as_bytes(), judgment]);
        Self(hash[..20].try_into().expect("a hash has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_kind_and_a_name() {
        let source = SourceId::parse("filesystem:charter-fixture").unwrap();
        assert_eq!((source.kind(), source.name()), ("filesystem", "charter-fixture"));
        for bad in [
            "",
            "notes",
            ":x",
            "notes:",
            "Notes:x",
            "notes:a b",
            "notes:a\n",
            "notes:é",
            "notes:../x",
            "notes:a:b",
        ] {
            assert!(SourceId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_type_is_dotted_words() {
        assert!(TypeName::parse("stream.thought.run.status-unknown").is_ok());
        for bad in ["", "note", "Stream.thought", "stream..thought", "stream.thought.", "stream.1x", "a.b@1"]
        {
            assert!(TypeName::parse(bad).is_err(), "{bad:?}");
        }
        let name = TypeName::parse("stream.thought.source.file.added").unwrap();
        assert!(name.is_within("stream.thought.source.file"));
        assert!(!name.is_within("stream.thought.source.fil"));
        assert!(!name.is_within("stream.thought.source.file.added"));
    }

    #[test]
    fn versions_have_one_spelling() {
        assert_eq!(TypeRef::parse("a.b@12").unwrap().to_string(), "a.b@12");
        for bad in ["a.b", "a.b@", "a.b@0", "a.b@01", "a.b@+1", "a.b@-1", "a.b@99999999999"] {
            assert!(TypeRef::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(ConsumerKey::parse("links@2").unwrap().version, 2);
    }

    #[test]
    fn ids_are_read_back_and_json_cannot_smuggle_a_bad_one() {
        let source = SourceId::parse("notes:x").unwrap();
        let id =
            EventId::derive(&source, &TypeName::parse("a.b").unwrap(), &IdempotencyKey::parse("k").unwrap());
        assert_eq!(EventId::parse(&id.to_string()), Ok(id));
        assert!(serde_json::from_str::<EventId>("\"evt_\"").is_err());
        assert!(serde_json::from_str::<SourceId>("\"notes:a b\"").is_err());
        assert!(RunId::parse(&id.to_string()).is_err());
    }

    #[test]
    fn an_execution_depends_on_the_order_of_its_triggers() {
        let consumer = ConsumerKey::parse("links@1").unwrap();
        let fingerprint = crate::hash::Sha256Hash::of(b"");
        let (a, b) = (EventId::from_bytes([1; 32]), EventId::from_bytes([2; 32]));
        assert_ne!(
            ExecutionId::derive(&consumer, &fingerprint, &[a, b]),
            ExecutionId::derive(&consumer, &fingerprint, &[b, a])
        );
    }
}
