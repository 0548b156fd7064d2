//! What accounts have spent, what they still admit, and what would happen to the next calls.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thoughtstream_domain::accounting::{
    Amounts, BUDGET_EXHAUSTED, Ceiling, Denial, Dimension, Entry, OnExhaustion, Policy, Simulation, Sums,
    Tally, Window,
};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, ExecutionId, RunId};
use thoughtstream_domain::lifecycle::ExecutionState;
use thoughtstream_domain::time::Timestamp;

use super::behind::declaration;
use super::consumers::enabled;
use super::{Look, unknown};
use crate::exit::Exit;
use crate::failure::Failure;

/// The most open reservations and waiting executions that one account shows; the numbers of all are told.
const SHOWN_MAX: usize = 100;

/// The most executions that are looked at for such as wait for budget.
const UNSETTLED_MAX: usize = 1000;

/// The most calls that are imagined at once.
pub const CALLS_MAX: u32 = 1000;

/// Is one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// The account, which is the declaration's id.
    pub account: ConsumerId,
    /// Whether it admits a reservation now.
    pub state: State,
    /// The declaration that says what it may spend; none if none is known that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Declared>,
    /// Which limit denies a reservation now, and when one fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
    /// Each limit with what counts in its window.
    pub windows: Vec<InWindow>,
    /// What was spent at all times.
    pub ever: Spent,
    /// How many reservations are open.
    pub open: usize,
    /// Those that were made first.
    pub leases: Vec<Lease>,
    /// How many executions wait for budget.
    pub waiting: usize,
    /// Those that go on first.
    pub waits: Vec<Wait>,
}

/// Says in a word where an account stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// One more reservation fits.
    Open,
    /// None fits until some time has passed.
    Exhausted,
    /// No declaration says what it may spend: it takes no reservation.
    Undeclared,
}

impl State {
    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Exhausted => "exhausted",
            Self::Undeclared => "undeclared",
        }
    }
}

/// Is what a declaration says about its account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Declared {
    /// The version that is enabled, or the newest.
    pub consumer: ConsumerKey,
    /// Whether it is enabled.
    pub enabled: bool,
    /// What each attempt reserves.
    pub reserve: Amounts,
    /// How long, in milliseconds.
    pub lease_ms: u64,
    /// What follows when it is denied.
    pub on_exhaustion: OnExhaustion,
}

/// Is what was spent, kept apart by how well it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// Everything that counts.
    pub used: Sums,
    /// Held by open reservations.
    pub reserved: Sums,
    /// Charged for attempts that have ended.
    pub charged: Sums,
    /// The part of the charges that was measured.
    pub reported: Sums,
    /// The part of the charges that stands at its estimate.
    pub estimated: Sums,
    /// How many attempts sent nothing; what they had reserved was given back.
    pub not_sent: u64,
}

impl Spent {
    fn of(tally: &Tally) -> Self {
        let Tally { reserved, reported, estimated, unsent: not_sent } = *tally;
        Self { used: tally.used(), reserved, charged: tally.charged(), reported, estimated, not_sent }
    }
}

/// Is one limit and what counts in its window now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InWindow {
    /// The window.
    pub window: Window,
    /// Since when it counts.
    pub since: Timestamp,
    /// What it admits.
    pub most: Ceiling,
    /// What was spent in it, with what was reserved before and may still be answered.
    pub spent: Spent,
    /// How many more reservations fit into this window now.
    pub fits: u64,
}

/// Is an open reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The attempt.
    pub run: RunId,
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// When it was made.
    pub at: Timestamp,
    /// Until when it may be settled; after that it stays charged in full in the window it was made in.
    pub until: Timestamp,
    /// What it holds.
    pub estimate: Amounts,
}

/// Is an execution that waits for budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The execution.
    pub execution: ExecutionId,
    /// When it goes on.
    pub at: Timestamp,
}

/// Is what would happen to calls that are wanted now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulated {
    /// The account.
    pub account: ConsumerId,
    /// The moment at which the calls are wanted.
    pub at: Timestamp,
    /// How many calls were imagined.
    pub calls: u32,
    /// What the declaration says.
    pub declared: Declared,
    /// How many attempts of the longest window sent nothing, and count nowhere.
    pub not_sent: u64,
    /// What would happen.
    #[serde(flatten)]
    pub simulation: Simulation,
}

/// Lists every account that has spent or is declared, by id.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn list(look: &Look<'_>) -> Result<Vec<Account>, Failure> {
    let mut policies = policies(look, None)?;
    let mut ids: BTreeSet<ConsumerId> = look.reader.accounts()?.into_iter().collect();
    ids.extend(policies.keys().cloned());
    ids.into_iter()
        .map(|id| {
            let policy = policies.remove(&id);
            one(look, id, policy)
        })
        .collect()
}

/// Returns one account.
///
/// # Errors
/// [`Failure`] if there is none of this id, or the log cannot be read.
pub fn show(look: &Look<'_>, id: &ConsumerId) -> Result<Account, Failure> {
    let policy = policies(look, Some(id))?.remove(id);
    if policy.is_none() && !look.reader.accounts()?.contains(id) {
        return Err(unknown("account", id).with_hint("`thought account list` names the accounts"));
    }
    one(look, id.clone(), policy)
}

/// Answers what would happen to calls that are wanted now, each at the declared reservation.
///
/// # Errors
/// [`Failure`] if no declaration says what the account may spend, or the log cannot be read.
pub fn simulate(look: &Look<'_>, id: &ConsumerId, calls: u32) -> Result<Simulated, Failure> {
    let Some((declared, policy)) = policies(look, Some(id))?.remove(id) else {
        let failure = match look.reader.accounts()?.contains(id) {
            true => Failure::new(
                Exit::Refused,
                "account.undeclared",
                format!("no declaration says what `{id}` may spend"),
            ),
            false => unknown("account", id),
        };
        return Err(failure.with_hint("`thought account list` names the accounts"));
    };
    let calls = calls.min(CALLS_MAX);
    let starts = policy.limits.iter().map(|limit| limit.window.start(look.now));
    let since = starts.min().unwrap_or(look.now);
    let account = look.reader.imagine(id, since, policy.reserve)?;
    let simulation = policy.simulate(account, look.now, calls);
    let not_sent = look.reader.account(id, &[since], None)?.since.first().map_or(0, |tally| tally.unsent);
    Ok(Simulated { account: id.clone(), at: look.now, calls, declared, not_sent, simulation })
}

/// Returns what declarations say about accounts: of each id the enabled version, else the newest that says something.
fn policies(
    look: &Look<'_>,
    only: Option<&ConsumerId>,
) -> Result<BTreeMap<ConsumerId, (Declared, Policy)>, Failure> {
    let on = enabled(look.reader)?.unwrap_or_default();
    let mut keys: BTreeSet<ConsumerKey> =
        look.reader.registered_all()?.into_iter().map(|registered| registered.consumer).collect();
    keys.extend(look.declared.into_iter().flat_map(|set| set.iter()).map(|one| one.key().clone()));
    keys.retain(|key| only.is_none_or(|only| key.id == *only));
    let mut found: BTreeMap<ConsumerId, (Declared, Policy)> = BTreeMap::new();
    for key in keys {
        let Some(declaration) = declaration(look, &key)? else { continue };
        let Some(policy) = declaration.runner().model().map(|model| model.accounting.clone()) else {
            continue;
        };
        let declared = Declared {
            enabled: on.contains(&key),
            consumer: key.clone(),
            reserve: policy.reserve,
            lease_ms: policy.lease_ms,
            on_exhaustion: policy.on_exhaustion,
        };
        // Versions rise, so that the last enabled or else the last one stays.
        let stands = found.get(&key.id).is_some_and(|(before, _)| before.enabled && !declared.enabled);
        if !stands {
            found.insert(key.id, (declared, policy));
        }
    }
    Ok(found)
}

fn one(look: &Look<'_>, id: ConsumerId, policy: Option<(Declared, Policy)>) -> Result<Account, Failure> {
    let now = look.now;
    let (declared, policy) = policy.unzip();
    let limits = policy.as_ref().map_or(&[][..], |policy| &policy.limits[..]);
    let starts: Vec<Timestamp> = limits.iter().map(|limit| limit.window.start(now)).collect();
    let state = look.reader.account(&id, &starts, policy.as_ref().map(|policy| (policy, now)))?;
    let windows = limits.iter().zip(starts).zip(&state.since).map(|((limit, since), tally)| {
        let carried = state.open.iter().filter_map(Entry::open);
        let carried = carried.filter(|open| open.at < since && now < open.lease_until);
        let reserved = carried.fold(tally.reserved, |sums, open| sums.plus(open.estimate.into()));
        let spent = Spent::of(&Tally { reserved, ..*tally });
        let reserve = declared.as_ref().map(|declared| declared.reserve);
        let fits = reserve.map_or(0, |reserve| fits(&reserve, &limit.most, &spent.used));
        InWindow { window: limit.window, since, most: limit.most, spent, fits }
    });
    let waits = waits(look, &id)?;
    let word = match (&declared, &state.denial) {
        (None, _) => State::Undeclared,
        (Some(_), Some(_)) => State::Exhausted,
        (Some(_), None) => State::Open,
    };
    Ok(Account {
        state: word,
        windows: windows.collect(),
        denial: state.denial,
        ever: Spent::of(&state.ever),
        open: state.open.len(),
        leases: state.open.iter().take(SHOWN_MAX).map(lease).collect(),
        waiting: waits.len(),
        waits: waits.into_iter().take(SHOWN_MAX).collect(),
        declared,
        account: id,
    })
}

/// Returns how many more reservations a window admits.
fn fits(reserve: &Amounts, most: &Ceiling, used: &Sums) -> u64 {
    let of = |dimension: Dimension| {
        let (most, asked) = (most.get(dimension)?, reserve.get(dimension)?);
        most.saturating_sub(used.get(dimension)).checked_div(asked)
    };
    Dimension::ALL.into_iter().filter_map(of).min().unwrap_or(0)
}

fn lease(entry: &Entry) -> Lease {
    let reservation = &entry.reservation;
    Lease {
        run: reservation.run,
        consumer: reservation.consumer.clone(),
        at: reservation.at,
        until: reservation.lease_until,
        estimate: reservation.estimate,
    }
}

/// Returns the executions of a consumer that wait for budget, by the time they go on.
fn waits(look: &Look<'_>, id: &ConsumerId) -> Result<Vec<Wait>, Failure> {
    let mut waits = Vec::new();
    for key in look.reader.consumers().into_iter().filter(|key| key.id == *id) {
        for execution in look.reader.unsettled(&key, 0, UNSETTLED_MAX)? {
            match &execution.state {
                ExecutionState::Waiting { at, code } if code == BUDGET_EXHAUSTED => {
                    waits.push(Wait { execution: execution.id, at: *at });
                }
                ExecutionState::Waiting { .. }
                | ExecutionState::Running
                | ExecutionState::Held { .. }
                | ExecutionState::Closed { .. } => {}
            }
        }
    }
    waits.sort_by_key(|wait| wait.at);
    Ok(waits)
}

#[cfg(test)]
mod tests;
