//! What is staged and what the log holds are seen as one, and the frame leaves the log as it was seen.

use std::collections::BTreeMap;

use proptest::prelude::*;
use redb::{Database, backends::InMemoryBackend};

use super::*;

const TABLE: Table = Table::Claims;

fn database(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Database {
    let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
    let tx = database.begin_write().unwrap();
    let mut tables = Tables::new(&tx);
    for (key, value) in rows {
        tables.put(TABLE, key, value).unwrap();
    }
    drop(tables);
    tx.commit().unwrap();
    database
}

fn all(tables: &mut Tables<'_>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let rows = tables.table(TABLE).unwrap().range::<&[u8]>(..).unwrap();
    let opened = rows.map(|row| {
        let (key, row) = row.unwrap();
        (key.value().to_vec(), seal::open(TABLE, key.value(), row.value()).unwrap().to_vec())
    });
    opened.collect()
}

/// Few keys, so that what is staged often meets what is there.
fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0_u8..3, 0..4)
}

/// No body begins as a sealed row does.
fn value() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0_u8..0x80, 0..3)
}

fn change() -> impl Strategy<Value = (Vec<u8>, Option<Vec<u8>>)> {
    (key(), proptest::option::of(value()))
}

proptest! {
    #[test]
    fn rows_are_seen_as_if_they_were_put_at_once(
        stored in proptest::collection::btree_map(key(), value(), 0..12),
        changes in proptest::collection::vec(change(), 0..12),
        from in key(),
        to in key(),
    ) {
        let database = database(&stored);
        let tx = database.begin_write().unwrap();
        let names = Names::default();
        let mut rows = Rows::new(&tx, &names);
        let mut model = stored.clone();
        for (key, value) in &changes {
            match value {
                Some(value) => {
                    let is_new = rows.put_new(TABLE, key, value).unwrap();
                    prop_assert_eq!(is_new, model.insert(key.clone(), value.clone()).is_none());
                }
                None => {
                    rows.remove(TABLE, key);
                    model.remove(key);
                }
            }
            prop_assert_eq!(rows.get(TABLE, key).unwrap(), model.get(key).cloned());
        }
        let between: Vec<Pair> =
            model.iter().filter(|(key, _)| from <= **key && **key < to).map(|(key, value)| (key.clone(), value.clone())).collect();
        prop_assert_eq!(rows.all_in(TABLE, &from, &to).unwrap(), &between[..]);
        prop_assert_eq!(rows.first(TABLE, &from, &to).unwrap(), between.first().cloned());
        prop_assert_eq!(rows.last_in(TABLE, &from, &to).unwrap(), between.last().cloned());
        let mut frame = Frame::new();
        let mut tables = rows.into_frame(&mut frame);
        prop_assert_eq!(all(&mut tables), stored, "nothing is put before the frame is");
        tables.replay(frame.body()).unwrap();
        prop_assert_eq!(all(&mut tables), model.clone());
        tables.replay(frame.body()).unwrap();
        prop_assert_eq!(all(&mut tables), model, "putting it again changes nothing");
    }
}

#[test]
fn a_row_that_is_changed_often_is_put_once() {
    let database = database(&BTreeMap::new());
    let tx = database.begin_write().unwrap();
    let names = Names::default();
    let mut rows = Rows::new(&tx, &names);
    let mut once = Frame::new();
    (0..100_u8).for_each(|value| rows.put(TABLE, b"progress", &[value]));
    drop(rows.into_frame(&mut once));
    let mut rows = Rows::new(&tx, &names);
    rows.put(TABLE, b"progress", &[99]);
    let mut last = Frame::new();
    drop(rows.into_frame(&mut last));
    assert_eq!(once.body(), last.body());
}
