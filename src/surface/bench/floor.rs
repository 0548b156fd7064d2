//! What the disk and bare redb give: the floors that the log is held against.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thoughtstream_store::floor::BareRedb;

use super::closed::{GROUP_MAX, Grouped, Measured, closed_loop};
use super::{BenchError, PAYLOAD_BYTES};

/// The size of one append to the bare disk: one page.
const PAGE_BYTES: usize = 4096;

/// Appends a page to a file and syncs it, over and over, on one thread without anybody between.
///
/// # Errors
/// [`BenchError`] if the disk fails.
pub fn disk(directory: &Path, time: Duration) -> Result<Measured, BenchError> {
    let mut file = File::create(directory.join("pages"))?;
    let page = [0x5a; PAGE_BYTES];
    let begun = Instant::now();
    let mut latencies = Vec::new();
    while begun.elapsed() < time {
        let started = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        latencies.push(started.elapsed());
    }
    latencies.sort_unstable();
    Ok(Measured { steps: latencies.len(), elapsed: begun.elapsed(), latencies })
}

/// Says whether a floor makes a transaction for each step or for all that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// A transaction for each step.
    Each,
    /// A transaction for all that wait.
    All,
}

impl Grouping {
    /// Returns the most steps of one transaction.
    #[must_use]
    pub const fn most(self) -> usize {
        match self {
            Self::Each => 1,
            Self::All => GROUP_MAX,
        }
    }
}

/// Appends events to a bare redb file.
///
/// # Errors
/// [`BenchError`] if redb fails.
pub async fn redb(
    directory: &Path,
    grouping: Grouping,
    writers: usize,
    time: Duration,
) -> Result<Measured, BenchError> {
    let mut database = BareRedb::create(&directory.join("bare.redb"))?;
    let body = vec![b'x'; PAYLOAD_BYTES];
    let bare = Grouped::start(grouping.most(), move |steps: &[()]| {
        let bodies: Vec<&[u8]> = steps.iter().map(|()| &body[..]).collect();
        Ok(database.append(&bodies)?)
    })?;
    let bare = Arc::new(bare);
    closed_loop(writers, time, move |_, _| bare.submit(())).await
}
