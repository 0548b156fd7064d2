//! Accounts inside a group: whether a reservation fits what is there by then, and the sums that follow an entry.

use thoughtstream_domain::accounting::{Denial, Entry, Policy, Tally};
use thoughtstream_domain::commit::{Commit, Row};
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::lifecycle::Run;
use thoughtstream_domain::time::Timestamp;

use super::GroupState;
use crate::account::{Account, entry_key, read_entry, read_tally, sum_keys, write_entry, write_tally};
use crate::rows::{At, RowError, Rows};
use crate::tables::Table;

impl GroupState<'_> {
    /// Says why one more reservation does not fit.
    pub(super) fn over_budget(
        &self,
        rows: &mut Rows<'_>,
        account: &ConsumerId,
        policy: &Policy,
        at: Timestamp,
    ) -> Result<Option<Denial>, RowError> {
        policy.deny(&mut Account::new(rows, account), at)
    }

    /// Says why an entry contradicts what stands, or the commit it comes with.
    pub(super) fn check_entry(
        &self,
        rows: &mut Rows<'_>,
        commit: &Commit,
        entry: &Entry,
    ) -> Result<Option<String>, RowError> {
        if let Some(impossible) = entry.is_impossible() {
            return Ok(Some(impossible));
        }
        let reservation = &entry.reservation;
        let opens = entry.settlement.is_none();
        let of_run = |run: &Run| {
            run.id == reservation.run
                && run.key() == reservation.attempt_key()
                && run.received_at == reservation.at
                && run.state.is_open() == opens
        };
        let runs =
            commit.rows.iter().filter_map(|row| if let Row::Run(run) = row { Some(run) } else { None });
        let Some(run) = runs.into_iter().find(|run| of_run(run)) else {
            let what = if opens { "opened" } else { "ended" };
            return Ok(Some(format!("its attempt is not {what} by the same commit")));
        };
        let settlement = entry.settlement.as_ref();
        if let Some(contradiction) = settlement.and_then(|it| it.settled.contradicts_end(&run.state)) {
            return Ok(Some(contradiction.to_owned()));
        }
        let stands = self.entry(rows, entry)?;
        Ok(match stands {
            Some(_) if opens => Some("the attempt has reserved already".to_owned()),
            None if !opens => Some("the attempt has reserved nothing".to_owned()),
            Some(stands) if stands.settlement.is_some() => Some("the reservation is settled".to_owned()),
            Some(stands) if stands.reservation != *reservation => Some("another was reserved".to_owned()),
            Some(_) | None => None,
        })
    }

    /// Says why an attempt must not end so: it holds a reservation that the commit does not settle. Nothing that was
    /// reserved is ever forgotten.
    pub(super) fn unsettled(
        &mut self,
        rows: &mut Rows<'_>,
        commit: &Commit,
        run: &Run,
    ) -> Result<Option<String>, RowError> {
        if run.state.is_open() || !self.cache.has_account(rows, &run.consumer.id)? {
            return Ok(None);
        }
        let settles = |row: &Row| matches!(row, Row::Entry(entry) if entry.reservation.run == run.id && entry.settlement.is_some());
        if commit.rows.iter().any(settles) {
            return Ok(None);
        }
        let key = entry_key(&run.consumer.id, run.received_at, &run.id);
        let reserved = rows.has(Table::Leases, &key)?;
        Ok(reserved.then(|| "the attempt holds a reservation that is not settled with it".to_owned()))
    }

    /// Reads the sums that an entry counts in.
    pub(super) fn check_sums(&self, rows: &mut Rows<'_>, entry: &Entry) -> Result<(), RowError> {
        let account = entry.reservation.account();
        sum_keys(account, entry.reservation.at).iter().try_for_each(|key| sum(rows, account, key).map(drop))
    }

    fn entry(&self, rows: &mut Rows<'_>, like: &Entry) -> Result<Option<Entry>, RowError> {
        let reservation = &like.reservation;
        let key = entry_key(reservation.account(), reservation.at, &reservation.run);
        rows.read(Table::Entries, &key, read_entry)?.transpose().at(Table::Entries, reservation.run)
    }

    /// Writes an entry and carries its sums.
    pub(super) fn write_entry(&mut self, rows: &mut Rows<'_>, entry: &Entry) -> Result<(), RowError> {
        let reservation = &entry.reservation;
        let account = reservation.account();
        let before = self.entry(rows, entry)?.map_or_else(Tally::default, |before| before.tally());
        let key = entry_key(account, reservation.at, &reservation.run);
        rows.put(Table::Entries, &key, &write_entry(entry));
        if entry.settlement.is_none() {
            rows.put(Table::Leases, &key, &[]);
        } else {
            rows.remove(Table::Leases, &key);
        }
        for key in sum_keys(account, reservation.at) {
            let sum = sum(rows, account, &key)?.minus(before).plus(entry.tally());
            rows.put(Table::Tallies, &key, &write_tally(&sum));
        }
        self.cache.adds_account(account);
        Ok(())
    }
}

fn sum(rows: &mut Rows<'_>, account: &ConsumerId, key: &[u8]) -> Result<Tally, RowError> {
    let stands = rows.read(Table::Tallies, key, read_tally)?.transpose().at(Table::Tallies, account)?;
    Ok(stands.unwrap_or_default())
}
