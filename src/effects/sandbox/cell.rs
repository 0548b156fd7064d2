//! One sandbox with a worker in it, as its owner holds it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::LaunchError;
use super::launch::{Pipes, failed, said};

/// Says how a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal: the kernel's, for a limit or a forbidden call, or somebody's.
    Signalled(i32),
    /// It had not ended and was killed now.
    Killed,
}

/// Is a sandbox with a worker in it. Dropping it kills the worker and everything in its namespaces.
#[derive(Debug)]
pub struct Cell {
    child: Option<Child>,
    processes: [u32; 2],
    /// The first process inside: the worker. All others there die with it.
    init: OwnedFd,
    /// The one outside that waits for it.
    monitor: OwnedFd,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: OwnedFd,
    ended: mpsc::Sender<Child>,
}

impl Cell {
    pub(super) fn new(
        mut child: Child,
        (first, init): (Pid, OwnedFd),
        pipes: Pipes,
        ended: mpsc::Sender<Child>,
    ) -> Result<Self, LaunchError> {
        let opened = Pid::from_raw(child.id().cast_signed())
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
        let monitor = opened.map_err(|source| {
            // Nobody could end it later.
            pidfd_send_signal(&init, Signal::KILL).ok();
            child.kill().ok();
            child.wait().ok();
            failed("watch it")(source)
        })?;
        let Pipes { stdin, stdout, stderr } = pipes;
        let (stdin, stdout) = (Some(stdin), Some(stdout));
        let processes = [child.id(), first.as_raw_pid().cast_unsigned()];
        Ok(Self { child: Some(child), processes, init, monitor, stdin, stdout, stderr, ended })
    }

    /// Hands out the worker's stdin and stdout, once.
    pub fn take_pipes(&mut self) -> Option<(OwnedFd, OwnedFd)> {
        self.stdin.take().zip(self.stdout.take())
    }

    /// Returns the numbers of the process that waits outside and of the worker, so that one can look whether
    /// they are gone.
    #[must_use]
    pub const fn processes(&self) -> [u32; 2] {
        self.processes
    }

    /// Waits at most so long for the worker to end, kills it if it does not, and says how it ended. Blocks.
    pub fn end(&mut self, patience: Duration) -> End {
        let until = Instant::now() + patience;
        if !self.has_ended(until) {
            self.kill();
            return End::Killed;
        }
        // The exit is there, so this does not wait.
        let status = self.child.as_mut().map(Child::wait);
        let Some(Ok(status)) = status else { return End::Killed };
        match (status.code(), status.signal()) {
            // This is how bubblewrap tells of a signal inside.
            (Some(code @ 129..=192), _) => End::Signalled(code - 128),
            (Some(code), _) => End::Exited(code),
            (None, Some(signal)) => End::Signalled(signal),
            (None, None) => End::Killed,
        }
    }

    /// Kills the worker and everything in its namespaces; harmless when it has ended.
    pub fn kill(&mut self) {
        // One that has ended cannot be signalled, and that is all that can go wrong with a descriptor of it.
        pidfd_send_signal(&self.init, Signal::KILL).ok();
        pidfd_send_signal(&self.monitor, Signal::KILL).ok();
    }

    /// Returns the first line that was written to stderr, once the worker has ended. It may be the worker's, so
    /// it is only for runs in which the worker is given nothing that must not be shown.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        said(&self.stderr, Instant::now()).ok()
    }

    fn has_ended(&self, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.monitor.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(found) => return found > 0,
                Err(nix::Error::EINTR) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kill();
        if let Some(child) = self.child.take()
            && let Err(mpsc::SendError(mut child)) = self.ended.send(child)
        {
            // Without the thread that waits, this one does: what was killed is gone in a moment.
            child.wait().ok();
        }
    }
}
