use std::collections::BTreeMap;

use proptest::prelude::*;
use thoughtstream_domain::accounting::Measured;
use thoughtstream_domain::hash::Sha256Hash;

use super::*;

/// Tables in memory, kept as the writer keeps them.
#[derive(Default)]
struct Memory(BTreeMap<(Table, Vec<u8>), Vec<u8>>);

impl Put for Memory {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        self.0.insert((table, key.to_vec()), value.to_vec());
        Ok(())
    }
}

impl Look for Memory {
    fn each(&mut self, table: Table, from: &[u8], to: &[u8], take: Take<'_>) -> Result<(), RowError> {
        for ((_, key), value) in self.0.range((table, from.to_vec())..(table, to.to_vec())) {
            if take(key, value)? == Go::Stop {
                break;
            }
        }
        Ok(())
    }
}

fn account(name: &str) -> ConsumerId {
    ConsumerId::parse(name).unwrap()
}

/// An entry that is open, was charged these tokens, or was given back for none.
fn entry(name: &str, number: u8, at: i64, charge: Option<u64>) -> Entry {
    let reservation = Reservation {
        consumer: ConsumerKey::parse(&format!("{name}@1")).unwrap(),
        position: 300,
        attempt: 2,
        run: RunId::from_bytes([number; 20]),
        at: Timestamp::from_millis(at),
        lease_until: Timestamp::from_millis(at + 60_000),
        estimate: Amounts { calls: 1, input_tokens: 500, output_tokens: 70, cost_microusd: Some(9) },
    };
    let settlement = charge.map(|tokens| Settlement {
        at: Timestamp::from_millis(at + 5),
        settled: match tokens {
            0 => Settled::Released(Released::restored()),
            _ => reservation.charge(&Measured { input_tokens: Some(tokens), ..Measured::default() }).into(),
        },
    });
    Entry { reservation, settlement }
}

fn filled(entries: &[Entry]) -> Memory {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    let key = |entry: &&Entry| {
        let reservation = &entry.reservation;
        entry_key(reservation.account(), reservation.at, &reservation.run).to_vec()
    };
    sorted.sort_by_key(key);
    let mut memory = Memory::default();
    let mut sums = AddUp::default();
    for entry in sorted {
        memory.put(Table::Entries, &key(&entry), &write_entry(entry)).unwrap();
        sums.follow(&mut memory, entry).unwrap();
    }
    sums.finish(&mut memory).unwrap();
    memory
}

proptest! {
    #[test]
    fn the_sum_since_any_moment_is_that_of_the_entries_since_then(
        rows in proptest::collection::vec(
            (-200_000_000_i64..200_000_000, proptest::option::of(0_u64..4), any::<bool>()), 0..40
        ),
        from in -210_000_000_i64..210_000_000,
        span in 0_usize..4,
    ) {
        let entry = |(number, (at, charge, ours)): (usize, &(i64, Option<u64>, bool))| {
            let name = if *ours { "ask" } else { "ask-more" };
            entry(name, u8::try_from(number).unwrap(), *at, *charge)
        };
        let entries: Vec<Entry> = rows.iter().enumerate().map(entry).collect();
        let mut memory = filled(&entries);
        let id = account("ask");
        let mut ledger = Account::new(&mut memory, &id);
        let ours = || entries.iter().filter(|entry| *entry.reservation.account() == id);
        let aligned = from.div_euclid(LEVELS[span]) * LEVELS[span];
        for from in [from, aligned, i64::MIN, i64::MAX].map(Timestamp::from_millis) {
            let expected = ours().filter(|entry| entry.reservation.at >= from);
            let expected = expected.fold(Tally::default(), |sum, entry| sum.plus(entry.tally()));
            prop_assert_eq!(ledger.since(from).unwrap(), expected);
        }
        let all = ours().fold(Tally::default(), |sum, entry| sum.plus(entry.tally()));
        prop_assert_eq!(ledger.ever().unwrap(), all);
        let open = ours().filter(|entry| entry.settlement.is_none()).count();
        prop_assert_eq!(ledger.open().unwrap().len(), open);
    }

    #[test]
    fn any_bytes_are_an_entry_or_are_refused_without_a_panic(bytes: Vec<u8>) {
        if let Ok(entry) = read_entry(&bytes) {
            prop_assert_eq!(read_entry(&write_entry(&entry)), Ok(entry));
        }
        let _: Result<Tally, Malformed> = read_tally(&bytes);
    }
}

#[test]
fn an_entry_and_a_sum_are_read_back() {
    for entry in [entry("ask", 1, -7, None), entry("ask", 2, 7, Some(3)), entry("ask", 3, 8, Some(0))] {
        assert_eq!(read_entry(&write_entry(&entry)), Ok(entry.clone()));
        assert_eq!(read_tally(&write_tally(&entry.tally())), Ok(entry.tally()));
        let key = entry_key(entry.reservation.account(), entry.reservation.at, &entry.reservation.run);
        assert_eq!(account_of(&key), Some(account("ask")));
        assert_eq!(moment_of(&key), Some(entry.reservation.at));
    }
}

/// Golden bytes: a change here is a change of the stored format and needs a new version beside it.
#[test]
fn the_form_of_an_entry_never_changes_silently() {
    let bytes = write_entry(&entry("ask", 2, 7, Some(3)));
    let hash = Sha256Hash::of(&bytes).to_string();
    assert_eq!((bytes.len(), &hash[..16]), (49, "6c839eb416e6216c"));
    let released = write_entry(&entry("ask", 2, 7, Some(0)));
    assert_eq!(released[..released.len() - 2], write_entry(&entry("ask", 2, 7, None))[..released.len() - 2]);
    assert_eq!(released[released.len() - 2..], [2, 24]);
    // A sum to which nothing was given back is as it was before that could be.
    assert_eq!(write_tally(&entry("ask", 2, 7, None).tally()), [1, 244, 3, 70, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(write_tally(&entry("ask", 2, 7, Some(0)).tally()), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
}
