//! What a file may contain, as a table: it checks the file, names the known keys and becomes the JSON Schema.

use super::Code;

/// What a value must look like.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds, both included.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A length of time such as `2s`, within bounds in milliseconds, both included.
    Duration {
        /// The shortest.
        min_ms: u64,
        /// The longest.
        max_ms: u64,
    },
    /// Text of a certain form.
    Text(&'static Form),
    /// One of a few words.
    Choice(&'static [Choice]),
    /// A boolean that may only be `false`: what it would switch on is refused, under which code and why.
    Off(Code, &'static str),
    /// A list that may only be empty: what it would hold is refused, under which code and why.
    NoItems(Code, &'static str),
    /// A boolean, a number or text.
    Scalar,
    /// A list of values of one shape.
    List {
        /// The shape of each item.
        of: &'static Self,
        /// The fewest items.
        min: usize,
        /// The most items.
        max: usize,
    },
    /// A map with known keys.
    Map(&'static [Key]),
    /// A map whose keys are names of a certain form.
    Table {
        /// The form of each key.
        key: &'static Form,
        /// The shape of each value.
        of: &'static Self,
        /// The most entries.
        max: usize,
    },
    /// Any of several shapes, told apart by the kind of value.
    Any(&'static [Self]),
}

/// The form of a text.
#[derive(Debug)]
pub struct Form {
    /// What it is, with its article, for messages.
    pub name: &'static str,
    /// A valid one.
    pub example: &'static str,
    /// The most UTF-16 code units it may have.
    pub units_max: usize,
    /// Decides whether a text has the form.
    pub accepts: fn(&str) -> bool,
    /// A regular expression (ECMA-262) that says the same for editors, when one can.
    pub pattern: Option<&'static str>,
}

/// One of a few words that a value may be.
#[derive(Debug)]
pub struct Choice {
    /// The word.
    pub word: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Set when the word is known but refused: why, under which code.
    pub refused: Option<(Code, &'static str)>,
}

/// A known key of a map.
#[derive(Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Whether it must, may or must not be there.
    pub need: Need,
    /// The shape of its value.
    pub shape: Shape,
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// It must.
    Required,
    /// It may.
    Optional,
    /// It is known but refused: why, under which code.
    Refused(Code, &'static str),
}

impl Choice {
    /// Makes a word that may be used.
    #[must_use]
    pub const fn new(word: &'static str, about: &'static str) -> Self {
        Self { word, about, refused: None }
    }

    /// Makes a word that is known but refused.
    #[must_use]
    pub const fn refused(word: &'static str, code: Code, why: &'static str) -> Self {
        Self { word, about: why, refused: Some((code, why)) }
    }
}

impl Key {
    /// Makes a key that must be there.
    #[must_use]
    pub const fn required(name: &'static str, about: &'static str, shape: Shape) -> Self {
        Self { name, about, need: Need::Required, shape }
    }

    /// Makes a key that may be there.
    #[must_use]
    pub const fn optional(name: &'static str, about: &'static str, shape: Shape) -> Self {
        Self { name, about, need: Need::Optional, shape }
    }

    /// Says whether any value of the key is accepted.
    #[must_use]
    pub(super) fn is_usable(&self) -> bool {
        let all_refused =
            matches!(self.shape, Shape::Choice(words) if words.iter().all(|word| word.refused.is_some()));
        !all_refused && !matches!(self.need, Need::Refused(..))
    }

    /// Makes a key that is known but refused, whatever its value.
    #[must_use]
    pub const fn refused(name: &'static str, code: Code, why: &'static str) -> Self {
        Self { name, about: why, need: Need::Refused(code, why), shape: Shape::Scalar }
    }
}

/// The units of a length of time, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The regular expression of a length of time.
pub(super) const DURATION_PATTERN: &str = "^(0|[1-9][0-9]{0,8})(ms|s|m|h|d)$";

/// Reads a length of time such as `500ms`, `2s`, `5m`, `1h` or `7d`, in milliseconds.
#[must_use]
pub fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let canonical = (1..=9).contains(&digits) && (number == "0" || !number.starts_with('0'));
    let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit).filter(|_| canonical)?;
    number.parse::<u64>().ok()?.checked_mul(*ms)
}

/// Writes a length of time in the longest unit that keeps it whole.
#[must_use]
pub fn duration_text(ms: u64) -> String {
    let (unit, size) =
        UNITS.iter().find(|(_, size)| ms > 0 && ms.is_multiple_of(*size)).unwrap_or(&("s", 1_000));
    format!("{}{unit}", ms / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_read_and_written() {
        for (text, ms) in [
            ("0s", 0),
            ("500ms", 500),
            ("2s", 2_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(duration_ms(text), Some(ms));
            assert_eq!(duration_text(ms), text);
        }
        assert_eq!(duration_text(duration_ms("60s").unwrap()), "1m");
        for text in ["", "s", "2", "2 s", "-2s", "+2s", "02s", "2.5s", "2sec", "2S", "1234567890s", "1h30m"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }
}
