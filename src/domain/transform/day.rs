//! A day of the calendar, as people write it into their notes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A day of the calendar, written `2026-01-02`; no later text sorts before an earlier day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Day(#[schemars(regex(pattern = r"^\d{4}-\d{2}-\d{2}$"))] String);

/// Says that a text is no day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a day written as YYYY-MM-DD")]
pub struct DayError;

impl Day {
    /// Reads `YYYY-MM-DD`.
    ///
    /// # Errors
    /// The text has another form, or names a day that does not exist.
    pub fn parse(text: &str) -> Result<Self, DayError> {
        let form = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        match text.parse::<jiff::civil::Date>() {
            Ok(_) if form => Ok(Self(text.to_owned())),
            Ok(_) | Err(_) => Err(DayError),
        }
    }

    /// Returns the day as `YYYY-MM-DD`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Day {
    type Error = DayError;

    fn try_from(text: String) -> Result<Self, DayError> {
        Self::parse(&text)
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_exists_and_is_written_in_full() {
        assert_eq!(Day::parse("2028-02-29").map(|day| day.as_str().to_owned()), Ok("2028-02-29".to_owned()));
        for text in ["2026-02-29", "2026-2-1", "26-01-02", "2026-01-02T00", "20260102", "+2026-01-0", ""] {
            assert_eq!(Day::parse(text), Err(DayError), "{text}");
        }
    }
}
