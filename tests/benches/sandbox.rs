//! What a sandbox costs a run: a fresh one for each, with a model that answers at once.

use std::sync::Arc;

use thoughtstream_actors::cell::{CellPlace, run_cell};
use thoughtstream_domain::cell::{Answer, Outcome, Packet, Part, Request};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::id::RunId;
use thoughtstream_domain::provider::StopReason;
use thoughtstream_effects::sandbox::{Launcher, Limits};
use thoughtstream_surface::bench::closed::closed_loop;
use thoughtstream_surface::bench::{BenchError, Ratio, Row, Scratch, Table};
use tokio::time::{Duration, Instant};

use super::{Found, Plan};

/// A whole run in a sandbox.
const RUN: &str = "sandboxed runs";

/// As long as a context of some thousand words.
const REQUEST_BYTES: usize = 32 << 10;

/// Measures one run at a time and very many at once.
pub(crate) fn run(plan: &Plan) -> Result<Found, BenchError> {
    let table = table(plan, plan.cells(vec![(RUN, 1), (RUN, 8), (RUN, 64)]))?;
    let mut ratios = Vec::new();
    if let Some(one) = table.row(RUN, 1) {
        let millis = one.p50_us as f64 / 1000.0;
        ratios.push(Ratio::at_most("a run in its sandbox: milliseconds of half of them", millis, 30.0));
    }
    if let Some(many) = table.row(RUN, 64) {
        ratios.push(Ratio::at_least("64 runs in sandboxes at once: a second", many.per_second, 100.0));
    }
    Ok(Found { rows: table.rows(), ratios })
}

/// Measures one run at a time alone.
pub(crate) fn one_at_a_time(plan: &Plan) -> Result<Vec<Row>, BenchError> {
    Ok(table(plan, vec![(RUN, 1)])?.rows())
}

fn table(plan: &Plan, cells: Vec<(&'static str, usize)>) -> Result<Table, BenchError> {
    let scratch = Scratch::below(&plan.dir)?;
    let worker = env!("CARGO_BIN_EXE_thought-worker").into();
    let place = CellPlace { worker, path: std::env::var_os("PATH"), below: scratch.path().to_owned() };
    let launcher = place.open().map_err(BenchError::of)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let request = Request::parse(format!("\"{}\"", "x".repeat(REQUEST_BYTES))).map_err(BenchError::of)?;
    let request = Arc::new(request);
    let mut table = Table::default();
    for _ in 0..plan.rounds {
        for (name, writers) in &cells {
            let (launcher, request) = (launcher.clone(), Arc::clone(&request));
            let step = move |_, _| once(launcher.clone(), Arc::clone(&request));
            table.add(name, *writers, runtime.block_on(closed_loop(*writers, plan.time, step))?);
        }
    }
    Ok(table)
}

async fn once(launcher: Launcher, request: Arc<Request>) -> Result<(), BenchError> {
    let packet = Packet::new(RunId::from_bytes([1; 20]), Request::clone(&request));
    let part = Part::Text { text: Content::new("Good day".to_owned()) };
    let outcome = Outcome::Answered(Answer { parts: vec![part], stop: StopReason::Stop });
    let deadline = Instant::now() + Duration::from_secs(60);
    let ask = async move |_: Request| outcome;
    run_cell(&launcher, packet, Limits::default(), deadline, ask).await.map(drop).map_err(BenchError::of)
}
