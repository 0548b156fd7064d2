//! Measures the service against its goals and prints one table and the ratios; nothing here fails for being slow.
//!
//! `cargo bench --bench speed [-- PART…] [--rounds N] [--millis N] [--dir DIR] [--cell NAME]
//! [--writers N] [--json]`; the parts are `appends`,
//! `steps`, `large`, `conversation`, `sandbox`, `runs` and `idle`, all of them by default. Ratios hold across machines;
//! numbers do not.

mod conversation;
mod idle;
mod large;
mod process;
mod runs;
mod sandbox;
mod sqlite;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use thoughtstream_surface::bench::{BenchError, Ratio, Row};

/// Says what is measured, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    parts: Vec<String>,
    /// How often every cell takes its turn.
    pub(crate) rounds: usize,
    /// How long a turn is.
    pub(crate) time: Duration,
    /// Below which directory.
    pub(crate) dir: PathBuf,
    json: bool,
    /// Only the cell of this name.
    cell: Option<String>,
    /// Only with so many steps in flight.
    writers: Option<usize>,
    /// How many events a large store holds.
    pub(crate) events: u64,
    /// How many consumers a large set of declarations holds.
    pub(crate) consumers: usize,
}

impl Plan {
    fn of(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut plan = Self {
            parts: Vec::new(),
            rounds: 5,
            time: Duration::from_secs(1),
            dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            json: false,
            cell: None,
            writers: None,
            events: 1_000_000,
            consumers: 10_000,
        };
        while let Some(argument) = arguments.next() {
            let mut number = |what: &str| {
                let text = arguments.next().ok_or_else(|| format!("{what} needs a number"))?;
                text.parse::<u64>().map_err(|error| format!("{what}: {error}"))
            };
            match argument.as_str() {
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--json" => plan.json = true,
                "--rounds" => plan.rounds = usize::try_from(number("--rounds")?).unwrap_or(1).max(1),
                "--millis" => plan.time = Duration::from_millis(number("--millis")?),
                "--events" => plan.events = number("--events")?,
                "--consumers" => plan.consumers = usize::try_from(number("--consumers")?).unwrap_or(1),
                "--writers" => plan.writers = usize::try_from(number("--writers")?).ok(),
                "--cell" => plan.cell = arguments.next(),
                "--dir" => plan.dir = arguments.next().ok_or("--dir needs a directory")?.into(),
                "appends" | "steps" | "large" | "conversation" | "sandbox" | "runs" | "idle" => {
                    plan.parts.push(argument);
                }
                other => return Err(format!("{other} is neither a part nor an option")),
            }
        }
        Ok(plan)
    }

    /// Leaves out the cells that were not asked for.
    pub(crate) fn cells<'a>(&self, mut cells: Vec<(&'a str, usize)>) -> Vec<(&'a str, usize)> {
        cells.retain(|(name, writers)| {
            self.cell.as_deref().is_none_or(|wanted| wanted == *name)
                && self.writers.is_none_or(|wanted| wanted == *writers)
        });
        cells
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

/// Is what a part gives.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The cells.
    pub(crate) rows: Vec<Row>,
    /// What they come to.
    pub(crate) ratios: Vec<Ratio>,
}

impl Found {
    #[expect(clippy::print_stdout, reason = "a benchmark's answer is its output")]
    fn show(&self, json: bool) {
        for row in &self.rows {
            if json {
                println!("{}", serde_json::to_string(row).expect("a row is JSON"));
                continue;
            }
            let millis = |micros: u64| micros as f64 / 1000.0;
            println!(
                "{:34} {:>4} {:>9.0}/s  p50 {:>8.2} ms  p99 {:>8.2} ms",
                row.name,
                row.writers,
                row.per_second,
                millis(row.p50_us),
                millis(row.p99_us)
            );
        }
        for ratio in &self.ratios {
            if json {
                println!("{}", serde_json::to_string(ratio).expect("a ratio is JSON"));
                continue;
            }
            let met = if ratio.is_met() { "met" } else { "MISSED" };
            println!("{:74} {:>9.2}  goal {:>7}  {met}", ratio.ratio, ratio.value, ratio.goal);
        }
    }
}

/// Is one part of the measurement.
type Part = fn(&Plan) -> Result<Found, BenchError>;

#[expect(clippy::print_stderr, reason = "a benchmark's remarks")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == large::LOAD) {
        let data = arguments.nth(1).unwrap_or_default();
        return if large::load(data.into()).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let plan = match Plan::of(arguments) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let parts: [(&str, Part); 7] = [
        ("appends", steps::appends),
        ("steps", steps::steps),
        ("large", large::run),
        ("conversation", conversation::run),
        ("sandbox", sandbox::run),
        ("runs", runs::run),
        ("idle", idle::run),
    ];
    for (name, part) in parts.into_iter().filter(|(name, _)| plan.wants(name)) {
        match part(&plan) {
            Ok(found) => found.show(plan.json),
            Err(error) => {
                eprintln!("{name}: {error}: {:?}", std::error::Error::source(&error));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
