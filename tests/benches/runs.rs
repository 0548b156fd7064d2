//! What a whole run costs that asks a model: the service as a process of its own, a provider that answers at once,
//! and everything between them: reservation, sealed context, sandbox, broker, verdict and settlement.

use std::time::{Duration, Instant};

use serde_json::Value;
use thoughtstream_channels::rehearsal::{Answer, Rehearsal, Script};
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Options, Store};
use thoughtstream_surface::bench::log::{MARK, note};
use thoughtstream_surface::bench::{BenchError, Ratio, Row, Scratch};

use super::process::{Home, Running};
use super::{Found, Plan, sandbox};

const ANSWER: &str =
    r#"{"summary":"The bed is dry","tags":["garden"],"importance":"normal","confidence":0.75}"#;
/// How many notes each of so many consumers observes, one after the other.
const SIZES: [(usize, u64); 2] = [(1, 300), (64, 20)];
const PATIENCE: Duration = Duration::from_secs(300);

/// A whole run, and the part of it that its sandbox is.
const RUN: &str = "whole runs";

/// Measures one consumer, and very many at once; beside them a sandbox alone, to be held against one whole run.
pub(crate) fn run(plan: &Plan) -> Result<Found, BenchError> {
    let mut rows = sandbox::one_at_a_time(plan)?;
    let mut ratios = Vec::new();
    for (consumers, notes) in SIZES {
        let row = row(consumers, measured(plan, consumers, notes)?);
        if consumers == 1 {
            let millis = row.p50_us as f64 / 1000.0;
            ratios.push(Ratio::at_most("a whole run with one in flight: p50, milliseconds", millis, 30.0));
        } else {
            let name = format!("whole runs a second with {consumers} in flight");
            ratios.push(Ratio::at_least(&name, row.per_second, 100.0));
        }
        rows.push(row);
    }
    Ok(Found { rows, ratios })
}

/// Adds up runs, of which there is at least one. The log's clock has whole milliseconds.
fn row(writers: usize, mut runs: Vec<Took>) -> Row {
    runs.sort_unstable();
    let first = runs.iter().map(|run| run.received).min().unwrap_or(0);
    let last = runs.iter().map(|run| run.received + run.millis).max().unwrap_or(0);
    let at = |percent: usize| {
        let took = runs[(runs.len() - 1) * percent / 100].millis;
        u64::try_from(took).unwrap_or(0) * 1000
    };
    let per_second = runs.len() as f64 * 1000.0 / (last - first).max(1) as f64;
    Row { name: RUN.to_owned(), writers, per_second, p50_us: at(50), p99_us: at(99) }
}

/// Is one run: how long it took and when it began, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Took {
    millis: i64,
    received: i64,
}

fn measured(plan: &Plan, consumers: usize, notes: u64) -> Result<Vec<Took>, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rehearsal = runtime
        .block_on(Rehearsal::start(Script::answering(Answer::text(ANSWER))))
        .map_err(BenchError::of)?;
    let scratch = Scratch::below(&plan.dir)?;
    let home = Home::below(scratch.path())?;
    let config = format!(
        "sources: []\nproviders:\n  - {{ name: local, endpoint: {}, models: [small], enforces: [], \
         inFlight: 64 }}\n",
        rehearsal.provider_url
    );
    std::fs::write(home.config.join("config.yaml"), config)?;
    std::fs::create_dir_all(home.config.join("prompts"))?;
    std::fs::write(home.config.join("prompts/observer.md"), "Say what you see.\n")?;
    for number in 0..consumers {
        let path = home.config.join(format!("declarations/o{number}.yaml"));
        std::fs::write(path, declaration(number))?;
    }
    Store::create(&home.data, MARK, Options::default()).map_err(BenchError::of)?;
    let mut store = Store::open(&home.data, Options::default()).map_err(BenchError::of)?;
    store.writer.set_types(Registry::shipped().hashes()).map_err(BenchError::of)?;
    let appends = (0..notes).flat_map(|n| (0..consumers).map(move |writer| note(0, writer, n)));
    let commit = Commit { appends: appends.collect(), ..Commit::default() };
    store.writer.apply(&[commit], Timestamp::from_millis(0)).map_err(BenchError::of)?;
    store.writer.close().map_err(BenchError::of)?;
    drop(store);
    let expected = consumers * usize::try_from(notes).unwrap_or(0);
    let service = Running::start(&home)?;
    let runs = until_completed(&home, expected)?;
    service.stop()?;
    let asked = usize::try_from(rehearsal.counters().provider.requests).unwrap_or(0);
    if asked != expected {
        return Err(BenchError::of(std::io::Error::other(format!("{asked} requests for {expected} runs"))));
    }
    Ok(runs)
}

fn until_completed(home: &Home, expected: usize) -> Result<Vec<Took>, BenchError> {
    let begun = Instant::now();
    loop {
        // Seldom: the question takes part of the machine that is measured.
        std::thread::sleep(Duration::from_secs(2));
        let listed = home.thought(&["run", "list", "--state", "completed", "--limit", "100000", "--json"])?;
        let runs: Vec<Took> = listed.lines().filter_map(took).collect();
        if runs.len() >= expected {
            return Ok(runs);
        }
        if begun.elapsed() > PATIENCE {
            let found = format!("{} of {expected} runs completed", runs.len());
            return Err(BenchError::of(std::io::Error::other(found)));
        }
    }
}

fn took(line: &str) -> Option<Took> {
    let run: Value = serde_json::from_str(line).ok()?;
    let at = |member: &str| serde_json::from_value::<Timestamp>(run[member].clone()).ok();
    let (received, ended) = (at("receivedAt")?, at("endedAt")?);
    Some(Took { millis: ended.as_millis() - received.as_millis(), received: received.as_millis() })
}

fn declaration(number: usize) -> String {
    format!(
        "id: o{number}\nversion: 1\nenabled: true\ndescription: Observes what it is measured with.\n\
         subscribe:\n  types: [stream.thought.source.note]\n  sources: [\"notes:w{number}\"]\n  replay: beginning\n\
         context: {{ maxEvents: 1, maxChars: 24000 }}\n\
         runner: {{ kind: pi, provider: local, model: small, timeout: 60s }}\nprompt: prompts/observer.md\n\
         emit: [stream.thought.derived.message.observation]\n\
         accounting:\n  reserve: {{ inputTokens: 1000, outputTokens: 100 }}\n  lease: 5m\n  \
         limits: [{{ window: day, calls: 1000000 }}]\n"
    )
}
