//! SQLite in WAL mode with `synchronous=FULL`: the floor that an engineer would reach for first.
//!
//! It does what a step needs and no more: looks the idempotency key up, assigns the sequence, and, for a
//! settlement, checks the expected progress and the run row. It keeps no chain, no index by id, type or parent.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use thoughtstream_surface::bench::closed::{Grouped, Measured, closed_loop};
use thoughtstream_surface::bench::floor::Grouping;
use thoughtstream_surface::bench::{BenchError, PAYLOAD_BYTES};

/// How many events a settlement appends, and how large each is: what a run with one output writes.
const AGENT_EVENTS: u64 = 4;
const AGENT_EVENT_BYTES: usize = 512;
const RUN_ROW_BYTES: usize = 512;
/// The source that all agent events go to; those of the writers come after it.
const AGENT_SOURCE: usize = 0;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -65536;
    CREATE TABLE events (
        position INTEGER PRIMARY KEY, source INTEGER NOT NULL, sequence INTEGER NOT NULL,
        kind INTEGER NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
        UNIQUE (source, sequence), UNIQUE (source, kind, key)
    );
    CREATE TABLE runs (
        consumer INTEGER, position INTEGER, attempt INTEGER, row BLOB NOT NULL,
        PRIMARY KEY (consumer, position, attempt)
    ) WITHOUT ROWID;
    CREATE TABLE progress (
        consumer INTEGER, source INTEGER, sequence INTEGER NOT NULL, PRIMARY KEY (consumer, source)
    ) WITHOUT ROWID;
";

/// Is one of the two transactions of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Half {
    /// Appends the `n`-th event of a source.
    Append { source: usize, n: u64 },
    /// Settles it.
    Settle { source: usize, n: u64 },
}

/// Is the database with what a writer keeps at hand.
struct Sqlite {
    connection: Connection,
    sequences: HashMap<usize, i64>,
    payload: Vec<u8>,
    agent_event: Vec<u8>,
    run_row: Vec<u8>,
}

fn failed(error: rusqlite::Error) -> BenchError {
    BenchError::of(error)
}

impl Sqlite {
    fn create(path: &Path) -> Result<Self, BenchError> {
        let connection = Connection::open(path).map_err(failed)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        Ok(Self {
            connection,
            sequences: HashMap::new(),
            payload: vec![b'x'; PAYLOAD_BYTES],
            agent_event: vec![b'y'; AGENT_EVENT_BYTES],
            run_row: vec![b'z'; RUN_ROW_BYTES],
        })
    }

    fn commit(&mut self, halves: &[Half]) -> Result<(), BenchError> {
        self.transaction(halves).map_err(failed)
    }

    fn transaction(&mut self, halves: &[Half]) -> rusqlite::Result<()> {
        let tx = self.connection.transaction()?;
        {
            let mut known = tx.prepare_cached("SELECT 1 FROM events WHERE source=? AND kind=? AND key=?")?;
            let mut insert = tx.prepare_cached(
                "INSERT INTO events (source, sequence, kind, key, body) VALUES (?,?,?,?,?)",
            )?;
            let mut progress =
                tx.prepare_cached("SELECT sequence FROM progress WHERE consumer=1 AND source=?")?;
            let mut advance = tx.prepare_cached(
                "INSERT INTO progress VALUES (1,?,?) ON CONFLICT DO UPDATE SET sequence=excluded.sequence",
            )?;
            let mut run =
                tx.prepare_cached("SELECT 1 FROM runs WHERE consumer=1 AND position=? AND attempt=1")?;
            let mut put_run = tx.prepare_cached("INSERT INTO runs VALUES (1,?,1,?)")?;
            let sequences = &mut self.sequences;
            let mut append = |source: usize, kind: u64, key: &str, body: &[u8]| -> rusqlite::Result<()> {
                let number = i64::try_from(source).unwrap_or(i64::MAX);
                let repeated = known.query_row(params![number, kind as i64, key], |_| Ok(())).optional()?;
                if repeated.is_some() {
                    return Ok(());
                }
                let sequence = sequences.entry(source).or_insert(0);
                *sequence += 1;
                insert.execute(params![number, *sequence, kind as i64, key, body])?;
                Ok(())
            };
            for half in halves {
                match *half {
                    Half::Append { source, n } => {
                        append(source, 0, &format!("1-{n:012}"), &self.payload)?;
                    }
                    Half::Settle { source, n } => {
                        let number = i64::try_from(source).unwrap_or(i64::MAX);
                        let stands: i64 =
                            progress.query_row([number], |row| row.get(0)).optional()?.unwrap_or(0);
                        assert_eq!(stands, n as i64, "progress stands where the step before left it");
                        let position = number << 32 | (n as i64 + 1);
                        let taken = run.query_row([position], |_| Ok(())).optional()?;
                        assert!(taken.is_none(), "nobody settled this step");
                        for kind in 1..=AGENT_EVENTS {
                            let key = format!("v1/notes:w{source}/{n:012}/1");
                            append(AGENT_SOURCE, kind, &key, &self.agent_event)?;
                        }
                        put_run.execute(params![position, self.run_row])?;
                        advance.execute([number, n as i64 + 1])?;
                    }
                }
            }
        }
        tx.commit()
    }
}

fn start(directory: &Path, grouping: Grouping) -> Result<Arc<Grouped<Half>>, BenchError> {
    let mut sqlite = Sqlite::create(&directory.join("floor.sqlite"))?;
    Ok(Arc::new(Grouped::start(grouping.most(), move |halves: &[Half]| sqlite.commit(halves))?))
}

/// Appends events.
pub(crate) async fn appends(
    directory: &Path,
    grouping: Grouping,
    writers: usize,
    time: Duration,
) -> Result<Measured, BenchError> {
    let floor = start(directory, grouping)?;
    closed_loop(writers, time, move |writer, n| floor.submit(Half::Append { source: writer + 1, n })).await
}

/// Makes steps of two transactions each: the event, then its settlement.
pub(crate) async fn steps(directory: &Path, writers: usize, time: Duration) -> Result<Measured, BenchError> {
    let floor = start(directory, Grouping::All)?;
    closed_loop(writers, time, move |writer, n| {
        let floor = Arc::clone(&floor);
        async move {
            floor.submit(Half::Append { source: writer + 1, n }).await?;
            floor.submit(Half::Settle { source: writer + 1, n }).await
        }
    })
    .await
}
