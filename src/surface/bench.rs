//! How fast the log is on this disk, beside the floors below it: the disk itself and bare redb.
//!
//! All cells of a table come from one run and take turns, so that a neighbour on the machine disturbs all of
//! them alike. Ratios hold across machines; absolute numbers belong to one disk on one day.

pub mod closed;
pub mod floor;
pub mod log;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use closed::Measured;
use floor::Grouping;
use log::{Lifecycle, Subject};

/// The payload of every event that is appended, in bytes.
pub const PAYLOAD_BYTES: usize = 1024;

/// How many steps are in flight at once, cell by cell.
pub const WRITERS: [usize; 4] = [1, 8, 64, 512];

/// Says why a measurement has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The disk failed.
    #[error("the disk failed")]
    Io(#[from] std::io::Error),
    /// Bare redb failed.
    #[error(transparent)]
    Redb(#[from] thoughtstream_store::floor::FloorError),
    /// The log or the service failed.
    #[error("the log failed")]
    Log(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The log refused an event of the measurement.
    #[error("the log refused a step")]
    Refused,
    /// A floor's thread ended before it answered.
    #[error("a floor failed")]
    FloorFailed,
    /// A loop panicked.
    #[error("a loop of the measurement panicked")]
    Panicked,
}

impl BenchError {
    /// Wraps an error of the log.
    pub fn of(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Log(Box::new(error))
    }
}

/// Is one line of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// How many steps were in flight.
    pub writers: usize,
    /// Finished steps in a second: the median of the rounds.
    pub per_second: f64,
    /// The latency of half of the steps, in microseconds.
    pub p50_us: u64,
    /// The latency of all but one in a hundred.
    pub p99_us: u64,
}

/// Holds two cells against each other, or one against a bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// What is compared.
    pub ratio: String,
    /// What came out.
    pub value: f64,
    /// What it should be; the name says whether at least or at most.
    pub goal: f64,
}

impl Ratio {
    /// Makes a ratio that should be at least `goal`.
    #[must_use]
    pub fn at_least(what: &str, value: f64, goal: f64) -> Self {
        Self { ratio: format!("{what}, at least"), value: rounded(value), goal }
    }

    /// Makes a ratio that should be at most `goal`.
    #[must_use]
    pub fn at_most(what: &str, value: f64, goal: f64) -> Self {
        Self { ratio: format!("{what}, at most"), value: rounded(value), goal }
    }

    /// Says whether the goal is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        if self.ratio.ends_with("at least") { self.value >= self.goal } else { self.value <= self.goal }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Collects the rounds of every cell.
#[derive(Debug, Default)]
pub struct Table(BTreeMap<(usize, String, usize), Vec<Measured>>);

impl Table {
    /// Adds a round of a cell; the first one gives it its place.
    pub fn add(&mut self, name: &str, writers: usize, measured: Measured) {
        let place = self.0.keys().find(|(_, known, _)| known == name).map(|(place, ..)| *place);
        let names = self.0.keys().map(|(place, ..)| place + 1).max().unwrap_or(0);
        self.0.entry((place.unwrap_or(names), name.to_owned(), writers)).or_default().push(measured);
    }

    /// Returns the row of a cell: medians over its rounds.
    #[must_use]
    pub fn row(&self, name: &str, writers: usize) -> Option<Row> {
        let (key, rounds) = self.0.iter().find(|((_, known, with), _)| known == name && *with == writers)?;
        Some(Self::summary(&key.1, writers, rounds))
    }

    /// Returns all rows in order.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.0.iter().map(|((_, name, writers), rounds)| Self::summary(name, *writers, rounds)).collect()
    }

    fn summary(name: &str, writers: usize, rounds: &[Measured]) -> Row {
        let quantile = |share| {
            let micros = rounds.iter().map(|round| round.quantile(share).as_micros());
            u64::try_from(median(micros.collect())).unwrap_or(u64::MAX)
        };
        let mut rates: Vec<f64> = rounds.iter().map(Measured::per_second).collect();
        rates.sort_by(f64::total_cmp);
        Row {
            name: name.to_owned(),
            writers,
            per_second: rates.get(rates.len() / 2).copied().unwrap_or(0.0).round(),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
        }
    }

    /// Returns how much faster one cell was than another, as the median of the rounds taken in pairs: the two of
    /// a pair ran one after the other, so what disturbed the one mostly disturbed the other.
    #[must_use]
    pub fn rate(&self, one: (&str, usize), other: (&str, usize)) -> Option<f64> {
        self.paired(one, other, Measured::per_second)
    }

    /// Returns how much longer half of the steps of one cell took than those of another.
    #[must_use]
    pub fn latency(&self, one: (&str, usize), other: (&str, usize)) -> Option<f64> {
        self.paired(one, other, |round| round.quantile(0.5).as_secs_f64())
    }

    fn paired(&self, one: (&str, usize), other: (&str, usize), of: impl Fn(&Measured) -> f64) -> Option<f64> {
        let rounds = |(name, writers): (&str, usize)| {
            self.0.iter().find(|((_, known, with), _)| known == name && *with == writers).map(|(_, r)| r)
        };
        let pairs = rounds(one)?.iter().zip(rounds(other)?);
        let mut ratios: Vec<f64> = pairs.map(|(one, other)| of(one) / of(other)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().filter(|ratio| ratio.is_finite())
    }
}

fn median(mut values: Vec<u128>) -> u128 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Says how long is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often every cell takes its turn.
    pub rounds: usize,
    /// How long a turn is.
    pub time: Duration,
    /// How many steps are in flight at once, cell by cell.
    pub writers: &'static [usize],
}

impl Plan {
    /// Takes about a minute and a half.
    pub const FULL: Self = Self { rounds: 3, time: Duration::from_millis(1000), writers: &WRITERS };
    /// Takes some seconds, and says less.
    pub const QUICK: Self = Self { rounds: 1, time: Duration::from_millis(200), writers: &WRITERS };
}

/// Is a directory of a measurement's own; dropping it removes it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory below `parent` that nobody else uses.
    ///
    /// # Errors
    /// The system's answer.
    pub fn below(parent: &Path) -> std::io::Result<Self> {
        let mut number = 0;
        loop {
            let path = parent.join(format!("thought-bench-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "a directory of a measurement could not be removed");
        }
    }
}

/// The names of the cells.
pub mod cell {
    /// A page appended to a file and synced.
    pub const DISK: &str = "disk: append 4 KiB, fdatasync";
    /// Bare redb, a transaction for each event.
    pub const REDB_EACH: &str = "bare redb: each event";
    /// Bare redb, a transaction for all that wait.
    pub const REDB_ALL: &str = "bare redb: grouped";
    /// This log.
    pub const LOG: &str = "log: append";
    /// A step with one commit for its settlement.
    pub const STEP: &str = "log: durable step";
    /// A step with a commit when it starts and one when it is done.
    pub const STEP_TWO: &str = "log: durable step, two-commit";
}

/// Measures everything that needs no other store, in a directory of its own below `parent`.
///
/// `progress` is told the name of each cell and how many of all are done.
///
/// # Errors
/// [`BenchError`] of the first cell that failed.
pub fn run(
    parent: &Path,
    plan: Plan,
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<(Vec<Row>, Vec<Ratio>), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cells = cells(plan.writers);
    let mut table = Table::default();
    let total = plan.rounds * cells.len();
    for round in 0..plan.rounds {
        for (index, (name, writers)) in cells.iter().enumerate() {
            progress(name, round * cells.len() + index, total);
            let scratch = Scratch::below(parent)?;
            let measured = runtime.block_on(measure(name, *writers, scratch.path(), plan.time))?;
            table.add(name, *writers, measured);
        }
    }
    Ok((table.rows(), ratios(&table)))
}

fn cells(writers: &[usize]) -> Vec<(&'static str, usize)> {
    let with_writers = [cell::REDB_EACH, cell::REDB_ALL, cell::LOG, cell::STEP, cell::STEP_TWO];
    let mut cells = vec![(cell::DISK, 1)];
    cells.extend(writers.iter().flat_map(|writers| with_writers.map(|name| (name, *writers))));
    cells
}

/// Measures one cell in an empty directory.
///
/// # Errors
/// [`BenchError`] if it has no result.
pub async fn measure(
    name: &str,
    writers: usize,
    directory: &Path,
    time: Duration,
) -> Result<Measured, BenchError> {
    match name {
        cell::DISK => floor::disk(directory, time),
        cell::REDB_EACH => floor::redb(directory, Grouping::Each, writers, time).await,
        cell::REDB_ALL => floor::redb(directory, Grouping::All, writers, time).await,
        cell::STEP => step(directory, Lifecycle::Settled, writers, time).await,
        cell::STEP_TWO => step(directory, Lifecycle::TwoCommit, writers, time).await,
        _ => {
            let subject = Subject::start(directory, None, writers).await?;
            let measured = subject.appends(writers, time).await;
            subject.stop().await;
            measured
        }
    }
}

async fn step(
    directory: &Path,
    lifecycle: Lifecycle,
    writers: usize,
    time: Duration,
) -> Result<Measured, BenchError> {
    let subject = Subject::start(directory, Some(lifecycle), writers).await?;
    let measured = subject.steps(writers, time).await;
    subject.stop().await;
    measured
}

/// Compares what can be compared without another store.
fn ratios(table: &Table) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    if let Some(value) = table.latency((cell::LOG, 1), (cell::DISK, 1)) {
        ratios.push(Ratio::at_most("one writer's p50 against the disk's", value, 3.0));
    }
    if let Some(value) = table.rate((cell::LOG, 64), (cell::REDB_ALL, 64)) {
        ratios.push(Ratio::at_least("appends of 64 writers against bare redb grouped", value, 1.0));
    }
    if let Some(row) = table.row(cell::STEP, 64) {
        let millis = row.p99_us as f64 / 1000.0;
        ratios.push(Ratio::at_most("durable step's p99 at 64 in flight in milliseconds", millis, 20.0));
    }
    ratios
}

#[cfg(test)]
mod tests;
