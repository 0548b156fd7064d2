//! The payloads this program writes itself, one type each, with the one writer each event type has.

pub mod activation;
pub mod delivery;
pub mod escalation;
pub mod file;
pub mod inbox;
pub mod judgment;
pub mod materialization;
pub mod note;
pub mod output;
pub mod proposal;
pub mod repair;
pub mod run;
pub mod system;
pub mod telegram;
pub mod trace;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::canonical;
use crate::event::{Candidate, Envelope};
use crate::id::{TypeName, TypeRef};
use crate::registry::Writer;

/// Is implemented by every payload this program writes: its event type, version and only writer.
pub trait TypedPayload: Serialize + DeserializeOwned + schemars::JsonSchema {
    /// The event type.
    const NAME: &'static str;
    /// Its version.
    const VERSION: u32;
    /// Who alone may write it.
    const WRITER: Writer;
    /// The payload fields that declarations may test in `where`.
    const PROMOTED: &'static [&'static str];

    /// Returns the type and version.
    #[must_use]
    fn kind() -> TypeRef {
        TypeRef::new(TypeName::parse(Self::NAME).expect("the name of a shipped type is valid"), Self::VERSION)
    }

    /// Makes a candidate of this payload; no check is needed, the type is the check.
    #[must_use]
    fn candidate(&self, envelope: Envelope) -> Candidate {
        let bytes = canonical::write_type(self).expect("a payload of this program has exact numbers");
        Candidate::checked(Self::kind(), envelope, bytes)
    }
}
