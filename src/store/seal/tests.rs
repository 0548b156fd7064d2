//! A sealed row is the one that was written under its key, or it is damage; one of format 1 is its own body.

use proptest::prelude::*;

use super::*;

fn sealed_tables() -> Vec<Table> {
    Table::ALL.into_iter().filter(|table| has_seals(*table)).collect()
}

#[test]
fn the_form_of_a_sealed_row_never_changes_silently() {
    let row = close(Table::Progress, &[0, 0, 0, 1, 0, 0, 0, 2], &7_u64.to_be_bytes());
    assert_eq!(row[..10], [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(data_encoding::HEXLOWER.encode(&row[10..]), "dff7879f7ba377a0");
    let names: Vec<&str> = sealed_tables().into_iter().map(Table::name).collect();
    let expected = [
        "heads",
        "progress",
        "claims",
        "executions",
        "runs",
        "controls",
        "declarations",
        "documents",
        "versions",
        "entries",
        "tallies",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_row_of_format_1_or_of_a_table_without_seals_is_its_own_body() {
    assert_eq!(open(Table::Controls, b"links", b"{}"), Ok(&b"{}"[..]));
    // Content may begin with anything.
    let content = [&MARK[..], b"whatever"].concat();
    assert_eq!(open(Table::Blobs, &[1; 32], &content), Ok(&content[..]));
    assert_eq!(close(Table::Blobs, &[1; 32], &content), content);
}

proptest! {
    #[test]
    fn what_was_sealed_is_opened_and_nowhere_else(
        table in proptest::sample::select(sealed_tables()),
        other in proptest::sample::select(sealed_tables()),
        key in proptest::collection::vec(any::<u8>(), 0..40),
        body in proptest::collection::vec(0_u8..0x80, 0..200),
    ) {
        let row = close(table, &key, &body);
        prop_assert_eq!(row.len(), length(table, &body));
        prop_assert_eq!(open(table, &key, &row), Ok(&body[..]));
        let elsewhere = [&key[..], &[0]].concat();
        prop_assert!(open(table, &elsewhere, &row).is_err(), "a row under another key");
        prop_assert!(other == table || open(other, &key, &row).is_err(), "a row in another table");
    }

    #[test]
    fn another_byte_behind_the_mark_is_damage_and_one_in_it_is_no_body(
        table in proptest::sample::select(sealed_tables()),
        key in proptest::collection::vec(any::<u8>(), 0..40),
        body in proptest::collection::vec(0_u8..0x80, 0..200),
        at: proptest::sample::Index,
        flip in 1_u8..,
    ) {
        let mut row = close(table, &key, &body);
        let at = at.index(row.len());
        row[at] ^= flip;
        match open(table, &key, &row) {
            // Who reads the form of the table refuses it: see the store's tests of damage.
            Ok(found) => prop_assert!(at < MARK.len() && found == &row[..]),
            Err(_) => prop_assert!(at >= MARK.len()),
        }
        row.truncate(at);
        prop_assert!(at <= MARK.len() || open(table, &key, &row).is_err(), "a row that ends early");
    }

    #[test]
    fn any_bytes_are_opened_or_refused_without_a_panic(
        key in proptest::collection::vec(any::<u8>(), 0..8),
        row in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let _opened: Result<&[u8], Malformed> = open(Table::Runs, &key, &[&MARK[..], &row].concat());
    }
}
