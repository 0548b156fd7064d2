//! Text that a model or a person puts into a proposal: bounded in characters, and never printed.
//!
//! Whoever wrote it, nothing but its length is asked of it: white space and control characters are text. Whether a
//! document or a reply can hold it is said where it would be put, and what is shown of it is spelled out there.

use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::text::characters;

/// Is a text of 1 to `MAX` characters (UTF-16 code units).
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Bounded<const MAX: usize>(Content<String>);

/// Is what a memory change would write.
pub type ProposedText = Bounded<32_768>;
/// Is why something is proposed.
pub type Reason = Bounded<1_000>;
/// Is what should have been said instead.
pub type Replacement = Bounded<4_096>;

/// Says why a text does not fit its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// There is none.
    #[error("the text is empty")]
    Empty,
    /// It is longer than its bound.
    #[error("the text has {characters} characters, at most {characters_max} are allowed")]
    TooLong {
        /// How long it is.
        characters: usize,
        /// How long it may be.
        characters_max: usize,
    },
}

impl<const MAX: usize> Bounded<MAX> {
    /// The longest such text in UTF-16 code units.
    pub const CHARACTERS_MAX: usize = MAX;

    /// Takes a text as it is; nothing is trimmed or cut.
    ///
    /// # Errors
    /// [`BoundsError`] if it is empty or too long.
    pub fn new(text: String) -> Result<Self, BoundsError> {
        if text.is_empty() {
            return Err(BoundsError::Empty);
        }
        let characters = characters(&text);
        if characters > MAX {
            return Err(BoundsError::TooLong { characters, characters_max: MAX });
        }
        Ok(Self(Content::new(text)))
    }

    /// Gives the text to code that really needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// Returns how many characters it has.
    #[must_use]
    pub fn characters(&self) -> u64 {
        characters(self.reveal()) as u64
    }
}

impl<const MAX: usize> std::fmt::Debug for Bounded<MAX> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Bounded<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl<const MAX: usize> schemars::JsonSchema for Bounded<MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Text{MAX}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX, "x-maxUtf16": MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_utf_16_code_units_at_both_bounds() {
        type Short = Bounded<4>;
        assert!(Short::new("😀😀".into()).is_ok());
        assert_eq!(
            Short::new("😀😀a".into()),
            Err(BoundsError::TooLong { characters: 5, characters_max: 4 })
        );
        assert_eq!(Short::new(String::new()), Err(BoundsError::Empty));
        for text in [" ", "\n\t\u{3000}", "\0\u{1b}\u{9b}"] {
            assert_eq!(Short::new(text.into()).unwrap().reveal(), text);
        }
        assert!(serde_json::from_str::<Short>("\"abcde\"").is_err());
    }

    #[test]
    fn it_is_stored_as_it_is_and_does_not_print() {
        let text: Reason = serde_json::from_str("\" hunter2 \"").unwrap();
        assert_eq!(text.reveal(), " hunter2 ");
        assert_eq!(serde_json::to_string(&text).unwrap(), "\" hunter2 \"");
        assert!(!format!("{text:?}").contains("hunter2"));
    }
}
