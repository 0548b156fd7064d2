//! What a service needs of the system before it begins, threads and descriptors, and the runtime that they are for.
//!
//! A runtime that cannot start one of its threads panics, and one that a panic drops waits for its threads for ever:
//! the process would hold the log's lock and answer nobody. So both are tried first, and neither can happen then.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use thoughtstream_actors::panics::panics_seen;
use tokio::runtime::{Builder, Runtime};

use crate::exit::Exit;
use crate::failure::Failure;

/// Beside one for each processor: the log's writer, its checkpoints, and who reads, scans and answers at once.
const THREADS: usize = 12;

/// The log, the lock, the doors, the worker's sandbox and a few who ask.
const DESCRIPTORS: usize = 36;

/// A thread that only waits needs hardly a stack.
const STACK_BYTES: usize = 128 << 10;

/// What still runs when everything has ended gets so long.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// How often it is looked whether the runtime could not be built.
const LOOK: Duration = Duration::from_millis(20);

/// Makes the runtime of a service.
///
/// # Errors
/// [`Failure`] with exit code 4 if there are too few threads or descriptors.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    enough(processors + THREADS)?;
    let failed = |error: &io::Error| threads_failure(processors, error);
    let (tell, told) = mpsc::channel();
    let panics = panics_seen();
    // On a thread of its own: if it fails all the same, it may never return.
    let building = move || {
        tell.send(Builder::new_multi_thread().enable_all().thread_name("thought").build()).ok();
    };
    std::thread::Builder::new().spawn(building).map_err(|error| failed(&error))?;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(built) => return built.map_err(|error| failed(&error)),
            Err(mpsc::RecvTimeoutError::Timeout) if panics_seen() == panics => {}
            Err(_) => return Err(failed(&io::ErrorKind::WouldBlock.into())),
        }
    }
}

/// Runs something to its end, and ends the runtime soon after, whatever became of it.
pub(super) fn run<T>(runtime: Runtime, what: impl Future<Output = T>) -> T {
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(what)));
    runtime.shutdown_timeout(SHUTDOWN);
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Tries whether this process may have so many threads more, and the descriptors that a service needs.
///
/// # Errors
/// [`Failure`] with exit code 4, which names the limit.
pub(crate) fn enough(threads: usize) -> Result<(), Failure> {
    let opened: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    if let Err(error) = opened {
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
        let what = format!(
            "a service needs {DESCRIPTORS} descriptors more than are open, and the limit is {limit} in all"
        );
        return Err(Failure::new(Exit::CouldNotLook, "service.descriptors", what)
            .because(&error)
            .with_hint("raise the limit: `ulimit -n 1024`, or `LimitNOFILE=1024` in its unit"));
    }
    let gate = Arc::new(Gate::default());
    let started: io::Result<Vec<JoinHandle<()>>> = (0..threads)
        .map(|_| {
            let gate = Arc::clone(&gate);
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || gate.wait())
        })
        .collect();
    gate.open();
    for waiting in started.map_err(|error| threads_failure(threads, &error))? {
        waiting.join().ok();
    }
    Ok(())
}

fn threads_failure(threads: usize, error: &io::Error) -> Failure {
    let (limit, _) = getrlimit(Resource::RLIMIT_NPROC).unwrap_or_default();
    let limit = if limit == nix::libc::RLIM_INFINITY { "unlimited".to_owned() } else { limit.to_string() };
    let what = format!(
        "a service needs {threads} threads, and the system starts no more: the limit of this user is {limit} in all"
    );
    Failure::new(Exit::CouldNotLook, "service.threads", what).because(error).with_hint(
        "end other programs of this user or raise the limit: `ulimit -u`, or `TasksMax=` and `LimitNPROC=` in its unit",
    )
}

/// Holds threads back until all have been started.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }

    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_panics_does_not_wait_for_threads_that_never_end() {
        let begun = Instant::now();
        let ended = catch_unwind(|| {
            let runtime = runtime().unwrap();
            runtime.spawn_blocking(|| std::thread::sleep(Duration::from_secs(600)));
            run(runtime, async { panic!("as in a service") });
        });
        assert!(ended.is_err() && begun.elapsed() < Duration::from_secs(30));
    }
}
