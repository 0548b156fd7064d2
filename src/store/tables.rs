//! The tables of `log.redb` and the forms of their keys.
//!
//! Every table maps bytes to bytes. Keys are built from big-endian numbers, so that byte order is number
//! order and new rows land at the end of a table instead of all over it.

use redb::TableDefinition;

/// Names one table. The number goes into journal frames and never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Table {
    /// text → bytes: format, mark, incarnation, how far the journal was carried.
    Meta = 0,
    /// position → record. The log.
    Events = 1,
    /// source, sequence → position.
    Sequences = 2,
    /// source, idempotency key, 0, type → position: what one run writes lies together.
    Keys = 3,
    /// bucket of 4,096 positions, event id → position. For ids that come without a position.
    Ids = 4,
    /// type, source, sequence → position. A backlog costs its matches.
    Types = 5,
    /// parent's position, child's position → nothing.
    Children = 6,
    /// kind, text → number.
    Names = 7,
    /// kind, number → text.
    Numbers = 8,
    /// source → last sequence, its chain link and position.
    Heads = 9,
    /// consumer, source → sequence.
    Progress = 10,
    /// consumer, source, sequence → position of the execution, whether it is closed. Above progress only.
    Claims = 11,
    /// consumer, position of the first trigger → execution.
    Executions = 12,
    /// consumer, position of the first trigger → nothing, for executions that are not closed.
    Unsettled = 13,
    /// consumer, position of the first trigger, attempt → run.
    Runs = 14,
    /// consumer, position of the first trigger, attempt → nothing, for runs without a terminal event.
    Open = 15,
    /// bucket of 4,096 positions, run id → consumer, position, attempt.
    RunIds = 16,
    /// consumer id → control row.
    Controls = 17,
    /// consumer, that is id and version → declaration as registered.
    Declarations = 18,
    /// type and version as text → hash of its definition.
    Definitions = 19,
    /// source, document id → current state.
    Documents = 20,
    /// source, document id, revision → content hash, size, path, media type.
    Versions = 21,
    /// source, path → document id, for documents that are not removed.
    Paths = 22,
    /// SHA-256 → content.
    Blobs = 23,
    /// account, 0, time, run id → what its attempt reserved and was charged.
    Entries = 24,
    /// account, 0, level, start of a span of time → sums over the entries of that time.
    Tallies = 25,
    /// account, 0, time, run id → nothing, for entries that are not settled.
    Leases = 26,
    /// source, type, hash of a correlation, position → how many there are up to here, and a hash over their ids. What
    /// belongs together is read without its neighbours, and a long past is named in one row.
    Correlated = 27,
}

impl Table {
    /// All tables, in the order of their numbers.
    pub(crate) const ALL: [Self; 28] = [
        Self::Meta,
        Self::Events,
        Self::Sequences,
        Self::Keys,
        Self::Ids,
        Self::Types,
        Self::Children,
        Self::Names,
        Self::Numbers,
        Self::Heads,
        Self::Progress,
        Self::Claims,
        Self::Executions,
        Self::Unsettled,
        Self::Runs,
        Self::Open,
        Self::RunIds,
        Self::Controls,
        Self::Declarations,
        Self::Definitions,
        Self::Documents,
        Self::Versions,
        Self::Paths,
        Self::Blobs,
        Self::Entries,
        Self::Tallies,
        Self::Leases,
        Self::Correlated,
    ];

    /// How many tables there are.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Returns the table with this number.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Returns the table's name in redb and in findings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Events => "events",
            Self::Sequences => "sequences",
            Self::Keys => "keys",
            Self::Ids => "ids",
            Self::Types => "types",
            Self::Children => "children",
            Self::Names => "names",
            Self::Numbers => "numbers",
            Self::Heads => "heads",
            Self::Progress => "progress",
            Self::Claims => "claims",
            Self::Executions => "executions",
            Self::Unsettled => "unsettled",
            Self::Runs => "runs",
            Self::Open => "open",
            Self::RunIds => "run-ids",
            Self::Controls => "controls",
            Self::Declarations => "declarations",
            Self::Definitions => "definitions",
            Self::Documents => "documents",
            Self::Versions => "versions",
            Self::Paths => "paths",
            Self::Blobs => "blobs",
            Self::Entries => "entries",
            Self::Tallies => "tallies",
            Self::Leases => "leases",
            Self::Correlated => "correlated",
        }
    }

    /// Returns what redb opens it by.
    pub(crate) fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name())
    }
}

/// How many positions share one bucket of an id index: small enough that new ids land on a few hot pages,
/// large enough that a look-up without a position probes few buckets.
const BUCKET_BITS: u32 = 12;

/// Returns the bucket of a position.
pub(crate) fn bucket(position: u64) -> u32 {
    u32::try_from(position >> BUCKET_BITS).unwrap_or(u32::MAX)
}

/// How long a key may be before it needs memory of its own; those of numbers alone never do.
const INLINE_BYTES: usize = 40;

/// A key being built. Most are short, and the writer builds dozens for one commit.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    inline: [u8; INLINE_BYTES],
    length: usize,
    /// Holds the whole key once it no longer fits inline.
    spilled: Vec<u8>,
}

impl Key {
    pub(crate) const fn new() -> Self {
        Self { inline: [0; INLINE_BYTES], length: 0, spilled: Vec::new() }
    }

    fn extend(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(room) = self.inline.get_mut(self.length..end).filter(|_| self.spilled.is_empty()) {
            room.copy_from_slice(bytes);
        } else {
            if self.spilled.is_empty() {
                self.spilled.extend_from_slice(&self.inline[..self.length]);
            }
            self.spilled.extend_from_slice(bytes);
        }
        self.length = end;
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        if self.spilled.is_empty() { &self.inline[..self.length] } else { &self.spilled }
    }
}

/// Builds a key from parts: numbers big-endian, bytes as they are (only ever last, or of fixed length).
macro_rules! key {
    ($($part:expr),+ $(,)?) => {{
        let mut key = $crate::tables::Key::new();
        $($crate::tables::KeyPart::push(&$part, &mut key);)+
        key
    }};
}
pub(crate) use key;

/// Is a part of a key.
pub(crate) trait KeyPart {
    /// Appends the part.
    fn push(&self, key: &mut Key);
}

impl KeyPart for u8 {
    fn push(&self, key: &mut Key) {
        key.extend(&[*self]);
    }
}

impl KeyPart for u32 {
    fn push(&self, key: &mut Key) {
        key.extend(&self.to_be_bytes());
    }
}

impl KeyPart for u64 {
    fn push(&self, key: &mut Key) {
        key.extend(&self.to_be_bytes());
    }
}

impl KeyPart for &[u8] {
    fn push(&self, key: &mut Key) {
        key.extend(self);
    }
}

impl KeyPart for &str {
    fn push(&self, key: &mut Key) {
        key.extend(self.as_bytes());
    }
}

/// Returns the key of an event.
pub(crate) fn position_key(position: u64) -> [u8; 8] {
    position.to_be_bytes()
}

/// Returns the key of an idempotency row. An idempotency key has no zero byte, so one ends where it seems to.
pub(crate) fn idempotency_key(source: u32, kind: u32, key: &str) -> Key {
    key!(source, key, 0_u8, kind)
}

/// Returns the first 16 bytes of an id: enough that two ids never share them.
pub(crate) fn short_id(id: &[u8]) -> &[u8] {
    &id[..16]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_its_number() {
        for (index, table) in Table::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(table as u8), index);
            assert_eq!(Table::from_code(table as u8), Some(table));
        }
        assert_eq!(Table::from_code(200), None);
    }

    #[test]
    fn byte_order_is_number_order() {
        assert!(key!(1_u32, 255_u64)[..] < key!(1_u32, 256_u64)[..]);
        assert!(key!(1_u32, u64::MAX)[..] < key!(2_u32, 0_u64)[..]);
    }

    #[test]
    fn a_long_key_is_whole() {
        let text = "x".repeat(100);
        assert_eq!(&key!(7_u8, text.as_str(), 1_u8)[..], [&[7][..], text.as_bytes(), &[1]].concat());
        let text = "y".repeat(INLINE_BYTES - 1);
        assert_eq!(&key!(7_u8, text.as_str())[..], [&[7][..], text.as_bytes()].concat());
    }
}
