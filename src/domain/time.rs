//! Points in time as whole milliseconds; the clock itself lives outside the domain.

use serde::{Deserialize, Serialize};

/// Is a point in time: milliseconds since 1970-01-01T00:00:00Z, written as RFC 3339 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Says why a text is no point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a point in time: expected RFC 3339 like 2026-01-31T09:30:00Z")]
pub struct TimestampError;

impl Timestamp {
    /// Makes a point in time from milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the time `millis` later, saturating at the end of the range.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Returns how many milliseconds lie between `earlier` and this, negative if it is in fact later.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Reads an RFC 3339 text.
    ///
    /// # Errors
    /// [`TimestampError`] if the text is anything else.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        text.parse::<jiff::Timestamp>().map(|at| Self(at.as_millisecond())).map_err(|_| TimestampError)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "out-of-range({})", self.0),
        }
    }
}

impl std::fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time", "maxLength": 40 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_milliseconds_in_utc() {
        let at = Timestamp::from_millis(1_767_225_600_042);
        assert_eq!(at.to_string(), "2026-01-01T00:00:00.042Z");
        assert_eq!(Timestamp::parse(&at.to_string()), Ok(at));
        assert_eq!(Timestamp::parse("yesterday"), Err(TimestampError));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::from_millis(i64::MAX).plus_millis(1).as_millis(), i64::MAX);
    }
}
