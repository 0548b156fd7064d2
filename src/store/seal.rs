//! The seal of a row: what shows that its bytes are those that were written under its key.
//!
//! An event proves itself by its hashes, and content by the hash that it is stored under. The rows that say where a
//! consumer goes on, what a person ordered and how a document stands lead to nothing that could contradict them, so
//! each ends in eight bytes of BLAKE3 over its table, its key and its body. Whoever reads one of them gets the body, or
//! an error with the row's place. A seal shows rot and a row in the wrong place; it keeps no secret, so whoever forges a
//! row on purpose can seal it as well.
//!
//! Rows of format 1 have no seal and are read as they are; every row that is written is sealed.

use std::sync::LazyLock;

use crate::codec::Malformed;
use crate::tables::Table;

/// Begins a sealed row, and no other: JSON begins with a brace, the forms that have a version with 1 or 2, numbers of
/// fixed length are far below two to the power of 63, and those of variable length never spend a byte on zeros.
const MARK: [u8; 2] = [0x80, 0x00];

/// How many bytes a seal has: a rotten row passes for a sound one in one case of two to the power of 64.
const SEAL_BYTES: usize = 8;

/// How many bytes a sealed row is longer than its body.
pub(crate) const ADDED_BYTES: usize = MARK.len() + SEAL_BYTES;

/// Separates seals from every other BLAKE3 use here; part of the stored format.
const DOMAIN: &str = "thoughtstream 2026 row seal v1";

static START: LazyLock<blake3::Hasher> = LazyLock::new(|| blake3::Hasher::new_derive_key(DOMAIN));

/// Says whether the rows of a table have a seal.
///
/// The others lead to an event or a row that proves itself, or are content under its hash.
const fn has_seals(table: Table) -> bool {
    match table {
        Table::Heads
        | Table::Progress
        | Table::Claims
        | Table::Executions
        | Table::Runs
        | Table::Controls
        | Table::Declarations
        | Table::Documents
        | Table::Versions
        | Table::Entries
        | Table::Tallies => true,
        Table::Meta
        | Table::Events
        | Table::Sequences
        | Table::Keys
        | Table::Ids
        | Table::Types
        | Table::Children
        | Table::Names
        | Table::Numbers
        | Table::Unsettled
        | Table::Open
        | Table::RunIds
        | Table::Definitions
        | Table::Paths
        | Table::Blobs
        | Table::Leases
        | Table::Correlated => false,
    }
}

/// Says whether rows of a table are written with a seal.
fn is_sealed(table: Table) -> bool {
    #[cfg(test)]
    if UNSEALED.get() {
        return false;
    }
    has_seals(table)
}

#[cfg(test)]
thread_local! {
    /// Lets this thread write rows as format 1 had them.
    pub(crate) static UNSEALED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn seal(table: Table, key: &[u8], body: &[u8]) -> [u8; SEAL_BYTES] {
    let mut hasher = START.clone();
    hasher.update(&[table as u8]);
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(body);
    let mut seal = [0; SEAL_BYTES];
    seal.copy_from_slice(&hasher.finalize().as_bytes()[..SEAL_BYTES]);
    seal
}

/// Hands the parts of a row on in their order: of one that is sealed, or of one that needs no seal.
pub(crate) fn parts(table: Table, key: &[u8], body: &[u8], mut take: impl FnMut(&[u8])) {
    if !is_sealed(table) {
        return take(body);
    }
    debug_assert!(!body.starts_with(&MARK), "a body of {} begins as a sealed row does", table.name());
    take(&MARK);
    take(body);
    take(&seal(table, key, body));
}

/// Returns the stored form of a row.
pub(crate) fn close(table: Table, key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(body.len() + ADDED_BYTES);
    parts(table, key, body, |part| row.extend_from_slice(part));
    row
}

/// Returns the length of the stored form of a row.
pub(crate) fn length(table: Table, body: &[u8]) -> usize {
    body.len() + if is_sealed(table) { ADDED_BYTES } else { 0 }
}

/// Returns the body of a stored row. One without a seal is its own body: it is of format 1, or staged and not written
/// yet, or of a table that has none; what rot leaves of a mark is no body of any of them.
///
/// # Errors
/// [`Malformed`] for a row that is not what was written under this key.
pub(crate) fn open<'v>(table: Table, key: &[u8], row: &'v [u8]) -> Result<&'v [u8], Malformed> {
    let Some(rest) = row.strip_prefix(&MARK).filter(|_| has_seals(table)) else { return Ok(row) };
    let malformed = Malformed { at: row.len() };
    let (body, found) = rest.split_last_chunk::<SEAL_BYTES>().ok_or(malformed)?;
    if *found == seal(table, key, body) { Ok(body) } else { Err(malformed) }
}

#[cfg(test)]
mod tests;
