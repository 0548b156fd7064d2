//! Appends and durable steps beside SQLite, cell by cell in turns.

use thoughtstream_surface::bench::floor::Grouping;
use thoughtstream_surface::bench::{BenchError, Ratio, Scratch, Table, WRITERS, cell, measure};

use super::{Found, Plan, sqlite};

const SQLITE_EACH: &str = "sqlite: each event";
const SQLITE_ALL: &str = "sqlite: grouped";
const SQLITE_STEP: &str = "sqlite: step, grouped, no actors";

fn runtime() -> Result<tokio::runtime::Runtime, BenchError> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn take_turns(plan: &Plan, cells: &[(&str, usize)]) -> Result<Table, BenchError> {
    let runtime = runtime()?;
    let mut table = Table::default();
    for _ in 0..plan.rounds {
        for (name, writers) in &plan.cells(cells.to_vec()) {
            let scratch = Scratch::below(&plan.dir)?;
            let (directory, writers) = (scratch.path(), *writers);
            let measured = runtime.block_on(async {
                match *name {
                    SQLITE_EACH => sqlite::appends(directory, Grouping::Each, writers, plan.time).await,
                    SQLITE_ALL => sqlite::appends(directory, Grouping::All, writers, plan.time).await,
                    SQLITE_STEP => sqlite::steps(directory, writers, plan.time).await,
                    name => measure(name, writers, directory, plan.time).await,
                }
            })?;
            table.add(name, writers, measured);
        }
    }
    Ok(table)
}

/// Measures appends: the disk, bare redb, SQLite and the log.
pub(crate) fn appends(plan: &Plan) -> Result<Found, BenchError> {
    let mut cells = vec![(cell::DISK, 1)];
    for writers in WRITERS {
        let names = [cell::REDB_EACH, cell::REDB_ALL, SQLITE_EACH, SQLITE_ALL, cell::LOG];
        cells.extend(names.map(|name| (name, writers)));
    }
    let table = take_turns(plan, &cells)?;
    let mut ratios = Vec::new();
    if let Some(value) = table.rate((cell::LOG, 64), (SQLITE_ALL, 64)) {
        ratios.push(Ratio::at_least("appends of 64 writers against SQLite grouped", value, 0.7));
    }
    if let Some(value) = table.latency((cell::LOG, 1), (cell::DISK, 1)) {
        ratios.push(Ratio::at_most("one writer's p50 against the disk's", value, 3.0));
    }
    Ok(Found { rows: table.rows(), ratios })
}

/// Measures durable steps: SQLite's bare loop and the service.
pub(crate) fn steps(plan: &Plan) -> Result<Found, BenchError> {
    let mut cells = Vec::new();
    for writers in WRITERS {
        cells.extend([SQLITE_STEP, cell::STEP, cell::STEP_TWO].map(|name| (name, writers)));
    }
    let table = take_turns(plan, &cells)?;
    let mut ratios = Vec::new();
    if let Some(value) = table.latency((cell::STEP, 1), (SQLITE_STEP, 1)) {
        ratios.push(Ratio::at_most("one durable step's p50 against SQLite's loop", value, 1.5));
    }
    for writers in [8, 64, 512] {
        if let Some(value) = table.rate((cell::STEP, writers), (SQLITE_STEP, writers)) {
            let what = format!("durable steps at {writers} in flight against SQLite's loop");
            ratios.push(Ratio::at_least(&what, value, 0.75));
        }
    }
    if let Some(row) = table.row(cell::STEP, 64) {
        let millis = row.p99_us as f64 / 1000.0;
        ratios.push(Ratio::at_most("durable step's p99 at 64 in flight in milliseconds", millis, 20.0));
    }
    Ok(Found { rows: table.rows(), ratios })
}
