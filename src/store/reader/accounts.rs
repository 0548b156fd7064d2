//! What accounts have spent.

use thoughtstream_domain::accounting::{Amounts, Books as _, Denial, Entry, Imagined, Policy, Tally};
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::lifecycle::Run;
use thoughtstream_domain::time::Timestamp;

use super::{Reader, View};
use crate::account::{Account, Go, Look, Take, account_of, entry_key, read_entry};
use crate::rows::{At, RowError};
use crate::tables::{Table, key};

/// The sums of one account at one moment of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountState {
    /// The sums since each moment that was asked for, in that order.
    pub since: Vec<Tally>,
    /// The sums over all times.
    pub ever: Tally,
    /// The open reservations, by the time they were made.
    pub open: Vec<Entry>,
    /// Why one more reservation would not fit, if a policy was given.
    pub denial: Option<Denial>,
}

impl Look for &View<'_> {
    fn each(&mut self, table: Table, from: &[u8], to: &[u8], take: Take<'_>) -> Result<(), RowError> {
        let rows = self.table(table)?;
        for row in rows.range(from..to).map_err(RowError::storage)? {
            let (key, value) = row.map_err(RowError::storage)?;
            if take(key.value(), self.open(table, key.value(), value.value())?)? == Go::Stop {
                break;
            }
        }
        Ok(())
    }
}

impl Reader {
    /// Returns every account that has an entry, by id. Costs their number.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn accounts(&self) -> Result<Vec<ConsumerId>, RowError> {
        self.view(|view| {
            let mut found: Vec<ConsumerId> = Vec::new();
            let mut from = Vec::new();
            loop {
                let row = view.range(Table::Tallies, &from, &[0xff], 1)?.pop();
                let Some((key, _)) = row else { return Ok(found) };
                let account = account_of(&key).ok_or_else(|| RowError::damaged(Table::Tallies, "row"))?;
                from = key!(account.as_str(), 1_u8).to_vec();
                found.push(account);
            }
        })
    }

    /// Returns where an account stands: its sums since some moments, what is open, and whether `policy` admits one
    /// more reservation at a moment.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn account(
        &self,
        id: &ConsumerId,
        since: &[Timestamp],
        policy: Option<(&Policy, Timestamp)>,
    ) -> Result<AccountState, RowError> {
        self.view(|mut view| {
            let mut account = Account::new(&mut view, id);
            let since = since.iter().map(|from| account.since(*from)).collect::<Result<_, _>>()?;
            let denial = policy.map(|(policy, at)| policy.deny(&mut account, at)).transpose()?.flatten();
            Ok(AccountState { since, ever: account.ever()?, open: account.open_entries()?, denial })
        })
    }

    /// Returns an account as it is, for imagining what would become of it: everything reserved since a moment, and what
    /// is open.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn imagine(
        &self,
        id: &ConsumerId,
        since: Timestamp,
        estimate: Amounts,
    ) -> Result<Imagined, RowError> {
        self.view(|mut view| {
            let mut account = Account::new(&mut view, id);
            let open = account.open()?;
            Ok(Imagined::over(account.tallies_since(since)?, open, estimate))
        })
    }

    /// Returns the entry of an attempt, if it has reserved.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn entry(&self, run: &Run) -> Result<Option<Entry>, RowError> {
        self.view(|view| {
            let key = entry_key(&run.consumer.id, run.received_at, &run.id);
            let found = view.get(Table::Entries, &key)?;
            found.map(|row| read_entry(&row)).transpose().at(Table::Entries, run.id)
        })
    }
}
