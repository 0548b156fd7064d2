//! Accounts: entries by time, and sums over them, so that what a window holds never costs the log's length.
//!
//! Every entry counts in one row each of four levels (its second, minute, hour and day) and in one of all times. The
//! sum since any moment is then a few rows at that moment's edge, and as many of each level as the next one has room
//! for. The sums are projections: they can be dropped and added up again from the entries.

use std::collections::BTreeSet;

use thoughtstream_domain::accounting::{
    Amounts, Books, Charge, Dimension, Entry, Open, Released, Reservation, Settled, Settlement, Sums, Tally,
};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, RunId};
use thoughtstream_domain::time::Timestamp;

use crate::codec::{Cursor, Malformed, put_bytes, put_number, put_signed};
use crate::projection::Put;
use crate::rows::{At, RowError};
use crate::tables::{Key, Table, key};

/// The version of the stored forms.
const VERSION: u8 = 1;

/// An entry that is open, in its stored form.
const OPEN: u8 = 0;

/// An entry that was charged; what was charged follows.
const CHARGED: u8 = 1;

/// An entry that was given back; nothing follows.
const RELEASED: u8 = 2;

/// The spans that are summed up, in milliseconds, shortest first. The index in it is the level in a key.
pub(crate) const LEVELS: [i64; 4] = [1_000, 60_000, 3_600_000, 86_400_000];

/// The level of the one sum over all times.
const EVER: u8 = 4;

/// How many sums an entry counts in.
pub(crate) const SUMS: usize = LEVELS.len() + 1;

/// Writes a time so that byte order is time order.
fn ordered(at: i64) -> u64 {
    at.cast_unsigned() ^ (1 << 63)
}

fn time(ordered: u64) -> i64 {
    (ordered ^ (1 << 63)).cast_signed()
}

/// Begins every key of an account. An id has no zero byte, so that one ends where it seems to.
fn account_key(account: &ConsumerId) -> Key {
    key!(account.as_str(), 0_u8)
}

/// Returns the key of an entry, and of the row that says that it is open.
pub(crate) fn entry_key(account: &ConsumerId, at: Timestamp, run: &RunId) -> Key {
    key!(account.as_str(), 0_u8, ordered(at.as_millis()), &run.as_bytes()[..])
}

fn entries_from(account: &ConsumerId, at: i64) -> Key {
    key!(account.as_str(), 0_u8, ordered(at))
}

/// Returns the keys of the sums that something at a moment counts in.
pub(crate) fn sum_keys(account: &ConsumerId, at: Timestamp) -> [Key; SUMS] {
    std::array::from_fn(|level| match LEVELS.get(level) {
        Some(span) => sum_key(account, level, at.as_millis().div_euclid(*span).saturating_mul(*span)),
        None => key!(account.as_str(), 0_u8, EVER, 0_u64),
    })
}

fn sum_key(account: &ConsumerId, level: usize, start: i64) -> Key {
    let level = u8::try_from(level).unwrap_or(EVER);
    key!(account.as_str(), 0_u8, level, ordered(start))
}

/// Returns the account of a key of any table of accounts.
pub(crate) fn account_of(key: &[u8]) -> Option<ConsumerId> {
    let text = key.split(|byte| *byte == 0).next()?;
    ConsumerId::parse(std::str::from_utf8(text).ok()?).ok()
}

/// Takes a row's key and value.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<Go, RowError>;

/// Looks at rows, inside a write transaction or outside.
pub(crate) trait Look {
    /// Hands on each row from `from` up to, without, `to`, until told to stop.
    fn each(&mut self, table: Table, from: &[u8], to: &[u8], take: Take<'_>) -> Result<(), RowError>;
}

/// Says whether more rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// Yes.
    On,
    /// No.
    Stop,
}

/// One account, as an admission looks at it.
pub(crate) struct Account<'a, L> {
    look: &'a mut L,
    id: &'a ConsumerId,
}

impl<'a, L: Look> Account<'a, L> {
    pub(crate) fn new(look: &'a mut L, id: &'a ConsumerId) -> Self {
        Self { look, id }
    }

    /// Hands on the entries reserved between two moments, without the second.
    fn entries(
        &mut self,
        from: i64,
        to: i64,
        take: &mut dyn FnMut(Entry) -> Result<Go, RowError>,
    ) -> Result<(), RowError> {
        let (from, to) = (entries_from(self.id, from), entries_from(self.id, to));
        self.look.each(Table::Entries, &from, &to, &mut |_, value| {
            take(read_entry(value).at(Table::Entries, self.id)?)
        })
    }

    /// Returns when each entry was reserved since a moment, and what it counts.
    pub(crate) fn tallies_since(&mut self, from: Timestamp) -> Result<Vec<(Timestamp, Tally)>, RowError> {
        let mut tallies = Vec::new();
        self.entries(from.as_millis(), i64::MAX, &mut |entry| {
            tallies.push((entry.reservation.at, entry.tally()));
            Ok(Go::On)
        })?;
        Ok(tallies)
    }

    /// Adds up the sums of a level from a moment on; `to` is without, and `None` is the end of time.
    fn sums(&mut self, level: usize, from: i64, to: Option<i64>) -> Result<Tally, RowError> {
        let mut sum = Tally::default();
        let from = sum_key(self.id, level, from);
        let to = to.map_or_else(|| sum_key(self.id, level + 1, i64::MIN), |to| sum_key(self.id, level, to));
        self.look.each(Table::Tallies, &from, &to, &mut |_, value| {
            sum = sum.plus(read_tally(value).at(Table::Tallies, self.id)?);
            Ok(Go::On)
        })?;
        Ok(sum)
    }

    /// Returns the sum over all times.
    pub(crate) fn ever(&mut self) -> Result<Tally, RowError> {
        self.sums(LEVELS.len(), i64::MIN, None)
    }

    /// Returns the open reservations with their attempts, by the time they were made.
    pub(crate) fn open_entries(&mut self) -> Result<Vec<Entry>, RowError> {
        let (from, to) = (account_key(self.id), key!(self.id.as_str(), 1_u8));
        let mut keys = Vec::new();
        self.look.each(Table::Leases, &from, &to, &mut |key, _| {
            keys.push(key.to_vec());
            Ok(Go::On)
        })?;
        let mut open = Vec::new();
        for key in keys {
            let end = [&key[..], &[0]].concat();
            self.look.each(Table::Entries, &key, &end, &mut |_, value| {
                open.push(read_entry(value).at(Table::Entries, self.id)?);
                Ok(Go::Stop)
            })?;
        }
        Ok(open)
    }
}

/// Returns the first multiple of `span` at or behind a moment.
fn round_up(at: i64, span: i64) -> i64 {
    let down = at.div_euclid(span).saturating_mul(span);
    if down == at { at } else { down.saturating_add(span) }
}

impl<L: Look> Books for Account<'_, L> {
    type Error = RowError;

    fn since(&mut self, from: Timestamp) -> Result<Tally, RowError> {
        let mut from = from.as_millis();
        let mut sum = Tally::default();
        let edge = round_up(from, LEVELS[0]);
        self.entries(from, edge, &mut |entry| {
            sum = sum.plus(entry.tally());
            Ok(Go::On)
        })?;
        from = edge;
        for level in 0..LEVELS.len() {
            let to = LEVELS.get(level + 1).map(|span| round_up(from, *span));
            if to != Some(from) {
                sum = sum.plus(self.sums(level, from, to)?);
            }
            from = to.unwrap_or(from);
        }
        Ok(sum)
    }

    fn open(&mut self) -> Result<Vec<Open>, RowError> {
        Ok(self.open_entries()?.iter().filter_map(Entry::open).collect())
    }
}

/// Adds entries up that come account by account, each in the order of time.
#[derive(Debug, Default)]
pub(crate) struct AddUp {
    at: [Option<(Vec<u8>, Tally)>; SUMS],
}

impl AddUp {
    /// Writes everything that leads to an entry, and the sums that it does not count in any more.
    pub(crate) fn follow(&mut self, to: &mut impl Put, entry: &Entry) -> Result<(), RowError> {
        let Reservation { at, run, .. } = &entry.reservation;
        let account = entry.reservation.account();
        if entry.settlement.is_none() {
            to.put(Table::Leases, &entry_key(account, *at, run), &[])?;
        }
        for (key, sum) in sum_keys(account, *at).iter().zip(&mut self.at) {
            match sum {
                Some((before, sum)) if before[..] == key[..] => *sum = sum.plus(entry.tally()),
                Some(_) | None => {
                    let before = sum.replace((key.to_vec(), entry.tally()));
                    put_sum(to, before)?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(&mut self, to: &mut impl Put) -> Result<(), RowError> {
        self.at.iter_mut().try_for_each(|sum| put_sum(to, sum.take()))
    }
}

fn put_sum(to: &mut impl Put, sum: Option<(Vec<u8>, Tally)>) -> Result<(), RowError> {
    let Some((key, sum)) = sum else { return Ok(()) };
    to.put(Table::Tallies, &key, &write_tally(&sum))
}

fn put_amounts(out: &mut Vec<u8>, amounts: &Amounts) {
    out.push(u8::from(amounts.cost_microusd.is_some()));
    for dimension in Dimension::ALL {
        if let Some(amount) = amounts.get(dimension) {
            put_number(out, amount);
        }
    }
}

fn amounts(cursor: &mut Cursor<'_>) -> Result<Amounts, Malformed> {
    let tracks_cost = flag(cursor)?;
    let (calls, input_tokens, output_tokens) = (cursor.number()?, cursor.number()?, cursor.number()?);
    let cost_microusd = if tracks_cost { Some(cursor.number()?) } else { None };
    Ok(Amounts { calls, input_tokens, output_tokens, cost_microusd })
}

fn flag(cursor: &mut Cursor<'_>) -> Result<bool, Malformed> {
    match cursor.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.malformed()),
    }
}

fn dimensions_bits(dimensions: &BTreeSet<Dimension>) -> u8 {
    let bits = Dimension::ALL.into_iter().enumerate();
    bits.filter(|(_, dimension)| dimensions.contains(dimension)).map(|(bit, _)| 1 << bit).sum()
}

fn dimensions(cursor: &mut Cursor<'_>) -> Result<BTreeSet<Dimension>, Malformed> {
    let bits = cursor.byte()?;
    if bits >> Dimension::ALL.len() != 0 {
        return Err(cursor.malformed());
    }
    let all = Dimension::ALL.into_iter().enumerate();
    Ok(all.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, dimension)| dimension).collect())
}

/// Returns the stored form of an entry.
pub(crate) fn write_entry(entry: &Entry) -> Vec<u8> {
    let reservation = &entry.reservation;
    let mut out = Vec::with_capacity(96);
    out.push(VERSION);
    put_bytes(&mut out, reservation.consumer.to_string().as_bytes());
    put_number(&mut out, reservation.position);
    put_number(&mut out, u64::from(reservation.attempt));
    out.extend_from_slice(reservation.run.as_bytes());
    put_signed(&mut out, reservation.at.as_millis());
    put_signed(&mut out, reservation.lease_until.as_millis());
    put_amounts(&mut out, &reservation.estimate);
    let Some(Settlement { at, settled }) = &entry.settlement else {
        out.push(OPEN);
        return out;
    };
    out.push(settled.charge().map_or(RELEASED, |_| CHARGED));
    put_signed(&mut out, at.as_millis());
    if let Some(charge) = settled.charge() {
        put_amounts(&mut out, &charge.amounts);
        out.push(dimensions_bits(&charge.reported));
        out.push(dimensions_bits(&charge.estimated));
    }
    out
}

/// Reads an entry.
pub(crate) fn read_entry(bytes: &[u8]) -> Result<Entry, Malformed> {
    let mut cursor = Cursor::new(bytes);
    if cursor.byte()? != VERSION {
        return Err(cursor.malformed());
    }
    let place = cursor.malformed();
    let reservation = Reservation {
        consumer: ConsumerKey::parse(cursor.text()?).map_err(|_| place)?,
        position: cursor.number()?,
        attempt: cursor.number32()?,
        run: RunId::from_bytes(cursor.array()?),
        at: Timestamp::from_millis(cursor.signed()?),
        lease_until: Timestamp::from_millis(cursor.signed()?),
        estimate: amounts(&mut cursor)?,
    };
    let how = cursor.byte()?;
    let settlement = if how == OPEN {
        None
    } else {
        let at = Timestamp::from_millis(cursor.signed()?);
        let settled = match how {
            CHARGED => {
                Charge::new(amounts(&mut cursor)?, dimensions(&mut cursor)?, dimensions(&mut cursor)?).into()
            }
            RELEASED => Settled::Released(Released::restored()),
            _ => return Err(cursor.malformed()),
        };
        Some(Settlement { at, settled })
    };
    cursor.end()?;
    Ok(Entry { reservation, settlement })
}

/// Returns the stored form of a sum. The number of reservations that were given back is written where there are any,
/// so that a sum without them is what it was before they were counted.
pub(crate) fn write_tally(tally: &Tally) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    for sums in [&tally.reserved, &tally.reported, &tally.estimated] {
        Dimension::ALL.into_iter().for_each(|dimension| put_number(&mut out, sums.get(dimension)));
    }
    if tally.unsent > 0 {
        put_number(&mut out, tally.unsent);
    }
    out
}

/// Reads a sum.
pub(crate) fn read_tally(bytes: &[u8]) -> Result<Tally, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let mut tally = Tally::default();
    for sums in [&mut tally.reserved, &mut tally.reported, &mut tally.estimated] {
        *sums = Sums {
            calls: cursor.number()?,
            input_tokens: cursor.number()?,
            output_tokens: cursor.number()?,
            cost_microusd: cursor.number()?,
        };
    }
    if !cursor.is_at_end() {
        tally.unsent = cursor.number()?;
    }
    cursor.end()?;
    Ok(tally)
}

/// Returns the moment of a key of an entry.
pub(crate) fn moment_of(key: &[u8]) -> Option<Timestamp> {
    let after = key.split_inclusive(|byte| *byte == 0).next()?.len();
    let at = key.get(after..after + 8)?.try_into().ok().map(u64::from_be_bytes)?;
    Some(Timestamp::from_millis(time(at)))
}

#[cfg(test)]
mod tests;
