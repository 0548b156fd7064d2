//! What a group has put and redb does not have yet, and how the two are seen as one.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::RowError;
use crate::account::{Go, Take};
use crate::tables::Table;

/// Rows by table and key; nothing as value says that the row is removed.
#[derive(Debug)]
pub(super) struct Staged([BTreeMap<Vec<u8>, Option<Vec<u8>>>; Table::COUNT]);

impl Default for Staged {
    fn default() -> Self {
        Self([const { BTreeMap::new() }; Table::COUNT])
    }
}

impl Staged {
    /// Takes a row; the last word on a key stands.
    pub(super) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.set(table, key, Some(value.to_vec()));
    }

    /// Takes a removal.
    pub(super) fn remove(&mut self, table: Table, key: &[u8]) {
        self.set(table, key, None);
    }

    fn set(&mut self, table: Table, key: &[u8], value: Option<Vec<u8>>) {
        let rows = &mut self.0[table as usize];
        match rows.get_mut(key) {
            Some(stands) => *stands = value,
            None => drop(rows.insert(key.to_vec(), value)),
        }
    }

    /// Returns what is said of a row, if anything is: its value, or that it is removed.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        self.0[table as usize].get(key).map(Option::as_deref)
    }

    /// Returns what is said of the rows from `from` up to, without, `to`.
    pub(super) fn range(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&[u8], Option<&[u8]>)> {
        // A range that ends where it begins, or before, is an empty one to redb and a panic to a map.
        let rows = (from < to)
            .then(|| self.0[table as usize].range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))));
        rows.into_iter().flatten().map(|(key, value)| (&key[..], value.as_deref()))
    }

    /// Returns everything, table by table, each in the order of its keys.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        let tables = Table::ALL.into_iter().zip(&self.0);
        tables.flat_map(|(table, rows)| {
            rows.iter().map(move |(key, value)| (table, &key[..], value.as_deref()))
        })
    }
}

/// Hands on the rows of a table with what is staged over them. Both come in one order; `ahead` is how a key compares
/// with one that comes behind it.
pub(super) fn merge<'a, K, V>(
    mut below: impl Iterator<Item = Result<(K, V), redb::StorageError>>,
    above: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ahead: Ordering,
    take: Take<'_>,
) -> Result<(), RowError>
where
    K: Bytes,
    V: Bytes,
{
    let mut next = || below.next().transpose().map_err(RowError::storage);
    let mut stored = next()?;
    for (key, value) in above {
        while let Some((below, row)) = stored.as_ref().filter(|(below, _)| below.bytes().cmp(key) == ahead) {
            if take(below.bytes(), row.bytes())? == Go::Stop {
                return Ok(());
            }
            stored = next()?;
        }
        if stored.as_ref().is_some_and(|(below, _)| below.bytes() == key) {
            stored = next()?;
        }
        if let Some(value) = value
            && take(key, value)? == Go::Stop
        {
            return Ok(());
        }
    }
    while let Some((key, value)) = stored {
        if take(key.bytes(), value.bytes())? == Go::Stop {
            return Ok(());
        }
        stored = next()?;
    }
    Ok(())
}

/// Is a key or a value as redb hands it out.
pub(super) trait Bytes {
    /// Returns its bytes.
    fn bytes(&self) -> &[u8];
}

impl Bytes for redb::AccessGuard<'_, &'static [u8]> {
    fn bytes(&self) -> &[u8] {
        self.value()
    }
}
