//! Starting workers: one thread for all of them, one fresh sandbox for each.
//!
//! bubblewrap ends its sandbox with the *thread* that started it, so that thread lives as long as the launcher.
//! A sandbox is built up to the moment before the worker's program starts; there it is held, its limits are set
//! from outside, and then it is let go.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{pipe2, read, write};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, prlimit};
use seccompiler::BackendError;
use thiserror::Error;

use super::cell::Cell;
use super::filter;
use super::program::INSIDE;
use super::{DESCRIPTORS_MAX, Limits, WorkerBinary};
use crate::os::keep_descriptors;

/// A sandbox is built in milliseconds; on a machine that swaps it may take this long.
const BUILT_WITHIN: Duration = Duration::from_secs(10);

/// The most that bubblewrap says about itself, and the most of a complaint that is kept.
const SAID_BYTES_MAX: usize = 512;

/// Where bubblewrap is looked for after `PATH`.
const PLACES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/run/current-system/sw/bin"];

/// A sandbox could not be started. There is no other way to run a worker.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// bubblewrap is not installed.
    #[error("bubblewrap (`bwrap`) is not installed")]
    NoBubblewrap,
    /// The filter of system calls cannot be written for this machine.
    #[error("system calls cannot be filtered on this machine")]
    Filter(#[source] BackendError),
    /// bubblewrap could not build the sandbox.
    #[error("bubblewrap could not build a sandbox: {said}")]
    Refused {
        /// What it said, before anything of the worker ran.
        said: String,
    },
    /// The sandbox was not built in time.
    #[error("the sandbox was not built within {} s", BUILT_WITHIN.as_secs())]
    Slow,
    /// The system refused a step.
    #[error("cannot {step}")]
    Io {
        /// What was tried.
        step: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The launcher's thread has ended.
    #[error("no sandbox is started any more")]
    Closed,
}

impl LaunchError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoBubblewrap => "sandbox-no-bubblewrap",
            Self::Filter(_) => "sandbox-no-filter",
            Self::Refused { .. } => "sandbox-refused",
            Self::Slow => "sandbox-slow",
            Self::Io { .. } => "sandbox-failed",
            Self::Closed => "sandbox-closed",
        }
    }

    /// Says what a person can do.
    #[must_use]
    pub const fn way_out(&self) -> &'static str {
        match self {
            Self::NoBubblewrap => "install bubblewrap, such as apt-get install bubblewrap",
            Self::Filter(_) => "run on x86_64, aarch64 or riscv64 with seccomp in the kernel",
            Self::Refused { .. } => {
                "allow unprivileged user namespaces: kernel.unprivileged_userns_clone=1, user.max_user_namespaces \
                 above 0, no AppArmor profile or container that forbids them to bwrap"
            }
            Self::Slow => "the machine is overloaded; it is tried again",
            Self::Io { .. } => "see that the service may open more files and start more processes",
            Self::Closed => "the service is stopping",
        }
    }
}

pub(super) fn failed(step: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::Io { step, source }
}

/// Looks for bubblewrap in the directories of `path` (the value of `PATH`), then where systems put it.
///
/// # Errors
/// [`LaunchError::NoBubblewrap`].
pub fn find_bubblewrap(path: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    let named = path.map(std::env::split_paths).into_iter().flatten().filter(|place| place.is_absolute());
    let places = named.chain(PLACES.iter().map(PathBuf::from));
    let mut programs = places.map(|place| place.join("bwrap"));
    programs.find(|program| program.is_file()).ok_or(LaunchError::NoBubblewrap)
}

/// Starts sandboxes of one worker; clones start the same. When the last one is gone, every worker is ended.
#[derive(Debug, Clone)]
pub struct Launcher {
    requests: mpsc::Sender<Request>,
    ended: mpsc::Sender<Child>,
    binary: Arc<WorkerBinary>,
}

type Spawned = Result<Held, LaunchError>;
type Request = mpsc::SyncSender<Spawned>;

impl Launcher {
    /// Takes a worker, and starts the thread that will start its sandboxes.
    ///
    /// # Errors
    /// [`LaunchError`] if the filter cannot be written or no thread be started.
    pub fn start(binary: WorkerBinary, bubblewrap: &Path) -> Result<Self, LaunchError> {
        let filter = filter::program().map_err(LaunchError::Filter)?;
        let (requests, asked) = mpsc::channel::<Request>();
        let (ended, ending) = mpsc::channel::<Child>();
        let (bubblewrap, root) = (bubblewrap.to_owned(), binary.root().to_owned());
        let launching = move || {
            for reply in asked {
                // Whoever asked may have given up: the sandbox is then dropped, which ends it.
                reply.send(spawn(&bubblewrap, &root, &filter)).ok();
            }
        };
        // Whoever is waited for here was killed before.
        let reaping = move || ending.into_iter().for_each(|mut child| drop(child.wait()));
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("cell-launcher").spawn(launching).map_err(failed("start a thread"))?;
        named("cell-reaper").spawn(reaping).map_err(failed("start a thread"))?;
        Ok(Self { requests, ended, binary: Arc::new(binary) })
    }

    /// Builds a sandbox, sets its limits and lets the worker start. Blocks for some milliseconds.
    ///
    /// # Errors
    /// [`LaunchError`] with a code and a way out; nothing is left running then.
    pub fn launch(&self, limits: &Limits) -> Result<Cell, LaunchError> {
        let (reply, spawned) = mpsc::sync_channel(1);
        self.requests.send(reply).map_err(|_| LaunchError::Closed)?;
        let held = spawned.recv().map_err(|_| LaunchError::Closed)??;
        held.let_go(limits, self.ended.clone())
    }

    /// Returns the worker.
    #[must_use]
    pub fn binary(&self) -> &WorkerBinary {
        &self.binary
    }
}

/// Is a sandbox on its way to the moment before the worker starts. Dropping it ends it.
struct Held {
    child: Option<Child>,
    pipes: Option<Pipes>,
    info: OwnedFd,
    release: OwnedFd,
}

/// Are our ends of the worker's three pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Makes a pipe: what is read from, what is written to.
fn pipe() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed("make a pipe")(errno.into()))
}

/// Held from making descriptors inheritable to the start of the program that inherits them, so that two launchers
/// do not take each other's.
static STARTING: Mutex<()> = Mutex::new(());

/// Lets the next program inherit a descriptor.
fn inherit(descriptor: &OwnedFd) -> Result<String, LaunchError> {
    fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()))
        .map_err(|errno| failed("pass a descriptor on")(errno.into()))?;
    Ok(descriptor.as_raw_fd().to_string())
}

fn spawn(bubblewrap: &Path, root: &Path, filter: &[u8]) -> Spawned {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    // bubblewrap hands on whatever it inherits.
    keep_descriptors().map_err(failed("keep descriptors from it"))?;
    let (stdin_inside, stdin) = pipe()?;
    let (stdout, stdout_inside) = pipe()?;
    let (stderr, stderr_inside) = pipe()?;
    let (info, info_inside) = pipe()?;
    let (release_inside, release) = pipe()?;
    let (filter_inside, filter_in) = pipe()?;
    // It fits into the pipe, so this waits for nobody.
    write(&filter_in, filter).map_err(|errno| failed("pass the filter on")(errno.into()))?;
    drop(filter_in);
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |words: &[&OsStr]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    let plain = "--unshare-all --unshare-user --uid 65534 --gid 65534 --cap-drop ALL --new-session \
                 --die-with-parent --as-pid-1 --clearenv --chdir /";
    plain.split_ascii_whitespace().for_each(|word| add(&[OsStr::new(word)]));
    add(&["--ro-bind".as_ref(), root.as_os_str(), "/".as_ref()]);
    for (option, descriptor) in
        [("--info-fd", &info_inside), ("--block-fd", &release_inside), ("--seccomp", &filter_inside)]
    {
        add(&[option.as_ref(), inherit(descriptor)?.as_ref()]);
    }
    add(&["--".as_ref(), INSIDE.as_ref()]);
    let mut command = Command::new(bubblewrap);
    command.arg0("bwrap").args(arguments).env_clear().current_dir("/");
    command.stdin(Stdio::from(stdin_inside)).stdout(Stdio::from(stdout_inside));
    command.stderr(Stdio::from(stderr_inside));
    let child = command.spawn().map_err(|source| {
        if source.kind() == io::ErrorKind::NotFound {
            LaunchError::NoBubblewrap
        } else {
            LaunchError::Io { step: "start bubblewrap", source }
        }
    })?;
    Ok(Held { child: Some(child), pipes: Some(Pipes { stdin, stdout, stderr }), info, release })
}

impl Held {
    /// Waits until the sandbox stands, sets its limits, and lets the worker start.
    fn let_go(mut self, limits: &Limits, ended: mpsc::Sender<Child>) -> Result<Cell, LaunchError> {
        let first = self.first_process()?;
        let init =
            pidfd_open(first, PidfdFlags::empty()).map_err(|errno| failed("watch it")(errno.into()))?;
        let (Some(child), Some(pipes)) = (self.child.take(), self.pipes.take()) else {
            return Err(LaunchError::Closed);
        };
        // From here on both processes are ended whatever happens.
        let cell = Cell::new(child, (first, init), pipes, ended)?;
        limit(first, limits).map_err(failed("limit it"))?;
        write(&self.release, b"g").map_err(|errno| failed("let it go")(errno.into()))?;
        Ok(cell)
    }

    /// Reads from bubblewrap which process will become the worker: all of what it says, or it would die of
    /// writing the rest.
    fn first_process(&self) -> Result<Pid, LaunchError> {
        let until = Instant::now() + BUILT_WITHIN;
        let mut text = Vec::new();
        loop {
            if let Some(found) = process_number(&text) {
                return Ok(found);
            }
            if !readable(&self.info, until)? {
                return Err(LaunchError::Slow);
            }
            let mut chunk = [0; SAID_BYTES_MAX];
            let length =
                read(&self.info, &mut chunk).map_err(|errno| failed("ask bubblewrap")(errno.into()))?;
            if length == 0 || text.len() > SAID_BYTES_MAX {
                let said = self.pipes.as_ref().map(|pipes| said(&pipes.stderr, until));
                return Err(LaunchError::Refused { said: said.transpose()?.unwrap_or_default() });
            }
            text.extend_from_slice(&chunk[..length]);
        }
    }
}

/// Finds the number in what bubblewrap says about the sandbox.
fn process_number(info: &[u8]) -> Option<Pid> {
    let text = std::str::from_utf8(info).ok()?.trim_end().strip_suffix('}')?;
    let after = text.split_once("\"child-pid\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    Pid::from_raw(after[..digits].parse().ok()?)
}

/// Waits until there is something to read, or the end.
fn readable(descriptor: &OwnedFd, until: Instant) -> Result<bool, LaunchError> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(found) => return Ok(found > 0),
            Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(failed("wait for bubblewrap")(errno.into())),
        }
    }
}

/// Reads the beginning of what was said on stderr, in one line. Nobody says anything there but bubblewrap,
/// unless the worker was let go.
pub(super) fn said(stderr: &OwnedFd, until: Instant) -> Result<String, LaunchError> {
    let mut bytes = [0; SAID_BYTES_MAX];
    let length = if readable(stderr, until)? {
        read(stderr, &mut bytes).map_err(|errno| failed("ask bubblewrap")(errno.into()))?
    } else {
        0
    };
    let text = String::from_utf8_lossy(&bytes[..length]);
    let line = text.lines().next().unwrap_or_default();
    Ok(if line.is_empty() { "it said nothing".to_owned() } else { line.to_owned() })
}

/// Sets the limits of a process that has not begun. Nothing is raised above what this process has itself.
fn limit(process: Pid, limits: &Limits) -> io::Result<()> {
    let all = [
        (Resource::As, limits.memory_bytes),
        (Resource::Cpu, limits.processor_seconds),
        (Resource::Nproc, 1),
        (Resource::Fsize, 0),
        (Resource::Nofile, DESCRIPTORS_MAX),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
        (Resource::Sigpending, 0),
    ];
    for (resource, wanted) in all {
        let most = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
        prlimit(Some(process), resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_found_in_what_bubblewrap_says_once_it_is_all_there() {
        let whole = b"{\n    \"child-pid\": 4711,\n    \"net-namespace\": 1\n}";
        assert_eq!(process_number(whole), Pid::from_raw(4711));
        for length in 0..whole.len() {
            assert_eq!(process_number(&whole[..length]), None, "{length}");
        }
        assert_eq!(process_number(b"{\"child-pid\": 0}"), None);
    }

    #[test]
    fn a_missing_bubblewrap_is_a_refusal() {
        let empty = tempfile::tempdir().unwrap();
        std::fs::write(empty.path().join("bwrap"), "").unwrap();
        let found = find_bubblewrap(Some(empty.path().as_os_str())).unwrap();
        assert_eq!(found, empty.path().join("bwrap"));
        assert!(find_bubblewrap(Some(OsStr::new("relative"))).is_ok_and(|found| found.is_absolute()));
    }
}
