//! Accounts: each entry against its attempt and the events of it, and the sums against the entries.

use std::collections::BTreeMap;

use redb::{ReadableTable, ReadableTableMetadata};
use thoughtstream_domain::accounting::{Entry, Tally};
use thoughtstream_domain::id::RunId;

use super::events::{Walk, run_digest};
use super::{FindingKind, Findings};
use crate::account::{AddUp, account_of, entry_key, moment_of, read_entry, read_tally};
use crate::execution::read_run;
use crate::names::NameKind;
use crate::projection::Put;
use crate::reader::{ReadTable, View};
use crate::rows::RowError;
use crate::tables::{Table, key};

/// Checks all entries and sums.
pub(super) fn check(view: &View<'_>, walk: &mut Walk, findings: &mut Findings) -> Result<(), RowError> {
    let runs = view.table(Table::Runs)?;
    // What the sums are found to be is worth nothing where an entry of them cannot be read.
    let (mut derived, mut unread) = (Findings::default(), false);
    let mut compared = Compared { view, expected: BTreeMap::new(), findings: &mut derived };
    let mut sums = AddUp::default();
    for row in view.table(Table::Entries)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let row = (Table::Entries, key.value(), value.value());
        let Some(entry) = findings.read(view, row, |body| read_entry(body).ok()) else {
            unread = true;
            let run = key.value().last_chunk().map(|id| RunId::from_bytes(*id));
            run.map(|run| walk.reserved.remove(&run_digest(&run)));
            continue;
        };
        check_entry(view, &runs, key.value(), &entry, walk, findings)?;
        sums.follow(&mut compared, &entry)?;
    }
    sums.finish(&mut compared)?;
    compared.finish()?;
    if !unread {
        findings.append(derived);
    }
    for (digest, _) in std::mem::take(&mut walk.reserved) {
        let message = format_args!("of a run whose id begins with {digest:016x} is in no account");
        findings.add(FindingKind::Account, "lifecycle", format_args!("the reservation {message}"));
    }
    Ok(())
}

/// Checks an entry against its key, its run and what the events of that run say, which is then done with.
fn check_entry(
    view: &View<'_>,
    runs: &ReadTable,
    key: &[u8],
    entry: &Entry,
    walk: &mut Walk,
    findings: &mut Findings,
) -> Result<(), RowError> {
    let reservation = &entry.reservation;
    let place = format!("{} {} {}", Table::Entries.name(), reservation.account(), reservation.run);
    let mut wrong = |message: &str| findings.add(FindingKind::Account, &place, message);
    if entry_key(reservation.account(), reservation.at, &reservation.run)[..] != *key {
        wrong("the key is not that of this entry");
    }
    if let Some(impossible) = entry.is_impossible() {
        wrong(&impossible);
    }
    let consumer = view.shared().names.number(NameKind::Consumer, &reservation.consumer.to_string());
    let run_key = key!(consumer.unwrap_or(0), reservation.position, reservation.attempt);
    let run = runs.get(&run_key[..]).map_err(RowError::storage)?;
    let read = run.as_ref().map(|row| {
        let body = view.open(Table::Runs, &run_key, row.value()).ok()?;
        read_run(body).ok()
    });
    let unread = matches!(read, Some(None));
    match read.flatten().filter(|run| run.id == reservation.run && run.received_at == reservation.at) {
        // One that cannot be read is already a finding.
        None if unread => {}
        None => wrong("there is no such attempt"),
        Some(run) if run.state.is_open() != entry.settlement.is_none() => {
            wrong("the attempt and its charge disagree on whether it has ended");
        }
        Some(run) => {
            let settled_at = entry.settlement.as_ref().map(|settlement| settlement.at);
            if run.ended_at != settled_at {
                wrong("it was not settled when its attempt ended");
            }
            let settled = entry.settlement.as_ref().map(|settlement| &settlement.settled);
            if let Some(contradiction) = settled.and_then(|settled| settled.contradicts_end(&run.state)) {
                wrong(contradiction);
            }
        }
    }
    let said = walk.reserved.remove(&run_digest(&reservation.run)).unwrap_or_default();
    let reserved = said.reserved.iter().map(|reserved| (reserved.estimate, reserved.lease_until));
    if !reserved.eq([(reservation.estimate, reservation.lease_until)]) {
        wrong("the events do not say once that this was reserved");
    }
    if !said.settled.iter().eq(entry.settlement.as_ref().map(|settlement| &settlement.settled)) {
        wrong("the events do not say once that this was charged, or given back");
    }
    let released = entry.settlement.as_ref().and_then(|settlement| settlement.settled.released());
    if released.is_some() && !(said.may_be_unsent && said.requests == [0]) {
        wrong("it was given back, and the events do not say once that nothing was sent");
    }
    Ok(())
}

/// Takes the projections as the entries say they are, and compares.
struct Compared<'a, 'v> {
    view: &'a View<'v>,
    expected: BTreeMap<Table, u64>,
    findings: &'a mut Findings,
}

impl Compared<'_, '_> {
    /// Compares the sizes: there is no row that no entry calls for.
    fn finish(self) -> Result<(), RowError> {
        for table in [Table::Tallies, Table::Leases] {
            let expected = self.expected.get(&table).copied().unwrap_or(0);
            let found = self.view.table(table)?.len().map_err(RowError::storage)?;
            if found != expected {
                let message = format_args!("has {found} rows, not {expected}");
                self.findings.add(FindingKind::Index, table.name(), message);
            }
        }
        Ok(())
    }
}

impl Put for Compared<'_, '_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        *self.expected.entry(table).or_default() += 1;
        let found = match self.view.get(table, key) {
            Err(RowError::Damaged { place }) => {
                self.findings.add(FindingKind::Seal, place, "the row is not the one that was written");
                return Ok(());
            }
            found => found?,
        };
        if found.as_deref() == Some(value) {
            return Ok(());
        }
        let account = account_of(key).map_or_else(|| "?".to_owned(), |account| account.to_string());
        let at = if table == Table::Leases { moment_of(key) } else { None };
        let at = at.map_or_else(String::new, |at| format!(" {at}"));
        let used = |bytes: &[u8]| read_tally(bytes).as_ref().map(Tally::used).ok();
        let message = match (table, found.as_deref().and_then(used), used(value)) {
            (Table::Tallies, Some(found), Some(expected)) => {
                format!("says {found:?}, the entries say {expected:?}")
            }
            (Table::Tallies, None, Some(_)) => "lacks a sum or cannot be read".to_owned(),
            _ => "lacks an open reservation".to_owned(),
        };
        self.findings.add(FindingKind::Account, format_args!("{} {account}{at}", table.name()), message);
        Ok(())
    }
}
