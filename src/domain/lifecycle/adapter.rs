//! The revision of the runner that executes an attempt, which every lifecycle event of it carries.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The longest revision in bytes, as the event types have it.
const BYTES_MAX: usize = 128;

/// Is the revision of a runner: of what executes an attempt, and not of what it is told to do. This program has one for
/// each kind of runner; a log may hold those of other builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AdapterRevision(Cow<'static, str>);

/// The text is no revision of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the revision of a runner: expected up to {BYTES_MAX} lower-case letters, digits and `-`, `.`, `+`"
)]
pub struct AdapterRevisionError;

impl AdapterRevision {
    /// Returns that of the runner of transforms.
    #[must_use]
    pub const fn deterministic() -> Self {
        Self(Cow::Borrowed("deterministic-v1"))
    }

    /// Returns that of the observer cell, which asks a model once: its own, and that of the protocol which the parent
    /// and the worker in the sandbox speak ([`cell::VERSION`](crate::cell::VERSION)).
    #[must_use]
    pub const fn observer_cell() -> Self {
        Self(Cow::Borrowed("observer-v1+cell-v2"))
    }

    /// Reads a revision.
    ///
    /// # Errors
    /// [`AdapterRevisionError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, AdapterRevisionError> {
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'+')
        };
        if text.is_empty() || text.len() > BYTES_MAX || !text.bytes().all(allowed) {
            return Err(AdapterRevisionError);
        }
        Ok(Self(Cow::Owned(text.to_owned())))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for AdapterRevision {
    /// Returns what each build said before runners had revisions of their own, whichever ran.
    fn default() -> Self {
        Self::deterministic()
    }
}

impl TryFrom<String> for AdapterRevision {
    type Error = AdapterRevisionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<AdapterRevision> for String {
    fn from(revision: AdapterRevision) -> Self {
        revision.0.into_owned()
    }
}

impl std::fmt::Display for AdapterRevision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_runner_has_its_own_and_the_cell_names_its_protocol() {
        let (transforms, cell) = (AdapterRevision::deterministic(), AdapterRevision::observer_cell());
        assert_ne!(transforms, cell);
        let protocol = format!("+cell-v{}", crate::cell::VERSION);
        assert!(cell.as_str().ends_with(&protocol), "the protocol has changed: {cell} is another runner now");
        for revision in [transforms, cell] {
            assert_eq!(AdapterRevision::parse(revision.as_str()), Ok(revision.clone()));
            let json = serde_json::to_string(&revision).unwrap();
            assert_eq!(serde_json::from_str::<AdapterRevision>(&json).unwrap(), revision);
        }
    }

    #[test]
    fn what_is_no_revision_is_refused() {
        for text in ["", "Observer", "observer v1", "\u{e9}", &"x".repeat(129)] {
            assert_eq!(AdapterRevision::parse(text), Err(AdapterRevisionError), "{text}");
        }
    }
}
