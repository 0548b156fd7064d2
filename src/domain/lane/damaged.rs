//! The name of an event of which what is stored is not what was recorded: it is known by where it stands.

use std::fmt;

use crate::id::SourceId;

/// Names an event that nobody may act on, because what is stored of it is not what was recorded. Its id is no name for
/// it: that may be what is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedEvent {
    /// Its source.
    pub source: SourceId,
    /// Its place in the source.
    pub sequence: u64,
    /// Its place in the log.
    pub position: u64,
}

/// Writes the row as `verify` and the errors of the store name it.
impl fmt::Display for DamagedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "events {} ({} {})", self.position, self.source, self.sequence)
    }
}

impl DamagedEvent {
    /// Reads what [`fmt::Display`] wrote; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (position, named) = text.strip_prefix("events ")?.split_once(" (")?;
        let (source, sequence) = named.strip_suffix(')')?.rsplit_once(' ')?;
        let (sequence, position) = (sequence.parse().ok()?, position.parse().ok()?);
        Some(Self { source: SourceId::parse(source).ok()?, sequence, position })
    }
}
