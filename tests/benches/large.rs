//! A log with very many events: how fast it still is, how soon it is ready, and how much room it takes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Options, Store};
use thoughtstream_surface::bench::log::{Lifecycle, MARK, Subject, note};
use thoughtstream_surface::bench::{BenchError, Ratio, Scratch, Table};

use super::process::{Home, Running};
use super::{Found, Plan};

const SOURCES: u64 = 64;
const GROUP: u64 = 512;
const IN_FLIGHT: usize = 64;
/// The argument with which this program makes steps until it is killed.
pub(crate) const LOAD: &str = "--load";

const FRESH: &str = "log: durable step, fresh";
const LARGE: &str = "log: durable step, large";

/// Measures one large log.
pub(crate) fn run(plan: &Plan) -> Result<Found, BenchError> {
    let scratch = Scratch::below(&plan.dir)?;
    let home = Home::below(scratch.path())?;
    std::fs::write(home.config.join("config.yaml"), "sources: []\n")?;
    fill(&home.data, plan.events)?;
    let mut ratios = vec![room(&home.data, plan.events)?];
    ratios.extend(readiness(&home, plan.events)?);
    let table = rates(plan, &home.data)?;
    if let Some(value) = table.rate((LARGE, IN_FLIGHT), (FRESH, IN_FLIGHT)) {
        let what = format!("durable steps with {} events stored against a fresh log", plan.events);
        ratios.push(Ratio::at_least(&what, value, 0.6));
    }
    Ok(Found { rows: table.rows(), ratios })
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Writes the events through the store's own writer.
fn fill(data: &Path, events: u64) -> Result<(), BenchError> {
    Store::create(data, MARK, Options::default()).map_err(BenchError::of)?;
    let mut store = Store::open(data, Options::default()).map_err(BenchError::of)?;
    store.writer.set_types(Registry::shipped().hashes()).map_err(BenchError::of)?;
    let mut done = 0;
    while done < events {
        let group: Vec<Commit> = (done..events.min(done + GROUP))
            .map(|n| {
                let writer = usize::try_from(n % SOURCES).unwrap_or(0);
                Commit { appends: vec![note(0, writer, n / SOURCES)], ..Commit::default() }
            })
            .collect();
        store.writer.apply(&group, now()).map_err(BenchError::of)?;
        store.writer.maybe_checkpoint(std::time::Instant::now()).map_err(BenchError::of)?;
        done += group.len() as u64;
    }
    store.writer.close().map_err(BenchError::of)
}

fn files(data: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let entries: Result<Vec<_>, _> = std::fs::read_dir(data)?.collect();
    Ok(entries?.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

fn room(data: &Path, events: u64) -> Result<Ratio, BenchError> {
    let mut store = Store::open(data, Options::default()).map_err(BenchError::of)?;
    store.writer.compact_and_close().map_err(BenchError::of)?;
    drop(store);
    let bytes: u64 = files(data)?.iter().filter_map(|path| path.metadata().ok()).map(|m| m.len()).sum();
    let each = bytes as f64 / events as f64 / 1024.0;
    Ok(Ratio::at_most("KiB on disk for each event of 1 KiB, compacted", each, 2.2))
}

/// Lets the system forget what it has read of the log.
fn forget(data: &Path) -> Result<(), BenchError> {
    for path in files(data)? {
        let file = std::fs::File::open(path)?;
        file.sync_all()?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).map_err(std::io::Error::from)?;
    }
    Ok(())
}

fn readiness(home: &Home, events: u64) -> Result<Vec<Ratio>, BenchError> {
    Running::start(home)?.stop()?;
    forget(&home.data)?;
    let service = Running::start(home)?;
    let clean = service.ready;
    service.until_idle()?;
    let resident = service.resident()?;
    service.stop()?;
    under_load(&home.data)?;
    forget(&home.data)?;
    let service = Running::start(home)?;
    let killed = service.ready;
    let peak = service.peak()?;
    service.kill()?;
    let seconds = |time: Duration| time.as_secs_f64();
    Ok(vec![
        Ratio::at_most(
            &format!("{events} events: cold, ready after a clean stop, seconds"),
            seconds(clean),
            1.0,
        ),
        Ratio::at_most(&format!("{events} events: cold, ready after kill -9, seconds"), seconds(killed), 1.0),
        Ratio::at_most(&format!("{events} events: idle, resident megabytes"), resident as f64 / 1e6, 100.0),
        Ratio::at_most(&format!("{events} events: at most resident megabytes"), peak as f64 / 1e6, 150.0),
    ])
}

/// Lets another process make steps on the log and kills it in the middle.
fn under_load(data: &Path) -> Result<(), BenchError> {
    let mut child =
        Command::new(std::env::current_exe()?).arg(LOAD).arg(data).stdout(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_secs(3));
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Makes steps until it is killed.
pub(crate) fn load(data: PathBuf) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let subject = Subject::resume(data, Some(Lifecycle::TwoCommit), IN_FLIGHT).await?;
        subject.steps(IN_FLIGHT, Duration::from_secs(3600)).await?;
        subject.stop().await;
        Ok(())
    })
}

fn rates(plan: &Plan, data: &Path) -> Result<Table, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut table = Table::default();
    for _ in 0..plan.rounds {
        let scratch = Scratch::below(&plan.dir)?;
        runtime.block_on(async {
            let fresh = Subject::start(scratch.path(), Some(Lifecycle::Settled), IN_FLIGHT).await?;
            table.add(FRESH, IN_FLIGHT, fresh.steps(IN_FLIGHT, plan.time).await?);
            fresh.stop().await;
            let large = Subject::resume(data.to_owned(), Some(Lifecycle::Settled), IN_FLIGHT).await?;
            table.add(LARGE, IN_FLIGHT, large.steps(IN_FLIGHT, plan.time).await?);
            large.stop().await;
            Ok::<(), BenchError>(())
        })?;
    }
    Ok(table)
}
