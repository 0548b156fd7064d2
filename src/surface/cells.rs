//! Where the worker's program is, and a try whether it really runs in its sandbox.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thoughtstream_actors::cell::{CellFault, CellPlace, Unavailable, run_cell};
use thoughtstream_domain::cell::{Answer, Outcome, Packet, Part, Request};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::id::RunId;
use thoughtstream_domain::provider::StopReason;
use thoughtstream_effects::sandbox::{Launcher, Limits};
use tokio::time::Instant;

use crate::places::Lookup;

/// The worker's program, beside the command's.
const WORKER: &str = "thought-worker";

/// A run that nobody waits for a model in takes milliseconds; a machine that swaps gets this long.
const TRY_WITHIN: Duration = Duration::from_secs(20);

/// Returns where the worker is (`THOUGHTSTREAM_WORKER`, else beside this program) and what it is run with.
#[must_use]
pub fn place(data: &Path, lookup: Lookup<'_>) -> CellPlace {
    let beside = || {
        let program = std::env::current_exe().unwrap_or_default();
        program.with_file_name(WORKER)
    };
    let worker = lookup("THOUGHTSTREAM_WORKER").map_or_else(beside, PathBuf::from);
    CellPlace { worker, path: lookup("PATH"), below: data.to_owned() }
}

/// Is what a try showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The first digits of the worker's hash.
    pub worker: String,
    /// How many libraries it maps.
    pub libraries: usize,
    /// How long the whole run took, in milliseconds.
    pub millis: u64,
}

/// Says why a worker does not run in its sandbox here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The stable code.
    pub code: &'static str,
    /// What was seen.
    pub seen: String,
    /// What a person can do.
    pub way_out: &'static str,
}

impl From<Unavailable> for Obstacle {
    fn from(why: Unavailable) -> Self {
        Self { code: why.code, seen: why.seen.into_owned(), way_out: why.way_out }
    }
}

/// Runs the real worker in the real sandbox once, with a request and an answer of no meaning.
///
/// # Errors
/// [`Obstacle`] with what is missing or wrong.
pub async fn try_out(place: CellPlace) -> Result<Tried, Obstacle> {
    let opened = tokio::task::spawn_blocking(move || place.open()).await;
    let launcher = opened.unwrap_or(Err(thoughtstream_actors::cell::NO_KEEPER))?;
    let binary = launcher.binary();
    let (worker, libraries) = (binary.sha256().short(), binary.libraries().len());
    let begun = Instant::now();
    let part = Part::Text { text: Content::new("tried".to_owned()) };
    let outcome = Outcome::Answered(Answer { parts: vec![part], stop: StopReason::Stop });
    let request = Request::parse("{}".to_owned()).expect("it is one JSON value");
    let packet = Packet::new(RunId::from_bytes([0; 20]), request);
    let told = outcome.clone();
    let ask = async |_: Request| told;
    match run_cell(&launcher, packet, Limits::default(), begun + TRY_WITHIN, ask).await {
        Ok(_) => {
            let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            Ok(Tried { worker, libraries, millis })
        }
        Err(fault) => Err(obstacle(&launcher, fault).await),
    }
}

async fn obstacle(launcher: &Launcher, fault: CellFault) -> Obstacle {
    let code = fault.code();
    match fault {
        CellFault::Launch(error) => Obstacle { code, seen: error.to_string(), way_out: error.way_out() },
        CellFault::Unavailable(why) => why.into(),
        CellFault::Died(_) => {
            // Once more without anything to do: what is said then is the loader's or bubblewrap's.
            let launcher = launcher.clone();
            let said = tokio::task::spawn_blocking(move || {
                let mut cell = launcher.launch(&Limits::default()).ok()?;
                drop(cell.take_pipes());
                cell.end(TRY_WITHIN);
                cell.complaint()
            });
            let said = said.await.ok().flatten().map(|said| format!("{fault}: {said}"));
            let seen = said.unwrap_or_else(|| fault.to_string());
            Obstacle { code, seen, way_out: "install thought and thought-worker of one build, side by side" }
        }
        CellFault::Breach(_) | CellFault::TooLarge => {
            let way_out = "install thought and thought-worker of one build, side by side";
            Obstacle { code, seen: fault.to_string(), way_out }
        }
        CellFault::Deadline | CellFault::Pipes(_) => {
            Obstacle { code, seen: fault.to_string(), way_out: "the machine is overloaded; run doctor again" }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_worker_is_beside_the_program_unless_a_variable_says_where() {
        let beside = place(Path::new("/data"), &|_| None);
        assert_eq!(beside.worker, std::env::current_exe().unwrap().with_file_name("thought-worker"));
        assert_eq!(beside.below, Path::new("/data"));
        let named = place(Path::new("/data"), &|name| {
            (name == "THOUGHTSTREAM_WORKER").then(|| OsString::from("/opt/worker"))
        });
        assert_eq!(named.worker, Path::new("/opt/worker"));
    }
}
