//! The program as a process of its own: when it is ready, and what it takes of the machine.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};
use thoughtstream_surface::bench::BenchError;

/// Nobody waits longer for a service than this.
const PATIENCE: Duration = Duration::from_secs(120);

/// Is a directory with all that a service needs.
#[derive(Debug)]
pub(crate) struct Home {
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The configuration directory.
    pub(crate) config: PathBuf,
    runtime: PathBuf,
}

impl Home {
    /// Makes configuration and runtime directories below `directory`.
    pub(crate) fn below(directory: &Path) -> Result<Self, BenchError> {
        let home = Self {
            data: directory.join("data"),
            config: directory.join("config"),
            runtime: directory.join("run"),
        };
        std::fs::create_dir_all(&home.runtime)?;
        std::fs::create_dir_all(home.config.join("declarations"))?;
        Ok(home)
    }

    /// Runs a command on it to its end; answers what it wrote.
    pub(crate) fn thought(&self, arguments: &[&str]) -> Result<String, BenchError> {
        let output = self.command().args(arguments).output()?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(std::io::Error::other(told).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thought"));
        command.arg("--data").arg(&self.data).arg("--config").arg(&self.config);
        command.env("THOUGHTSTREAM_RUNTIME", &self.runtime);
        command
    }
}

/// Is a running service.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// How long it took from its start until it said that it is ready.
    pub(crate) ready: Duration,
}

impl Running {
    /// Starts a service and waits until it is ready.
    pub(crate) fn start(home: &Home) -> Result<Self, BenchError> {
        let address = home.runtime.join("notify");
        if let Err(error) = std::fs::remove_file(&address)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error.into());
        }
        let notified = UnixDatagram::bind(&address)?;
        notified.set_read_timeout(Some(PATIENCE))?;
        let begun = Instant::now();
        let mut command = home.command();
        command.arg("serve").env("NOTIFY_SOCKET", &address).env("THOUGHTSTREAM_LOG", "warn");
        let child = command.stdout(Stdio::null()).spawn()?;
        let mut running = Self { child, ready: Duration::ZERO };
        let mut text = [0; 4096];
        loop {
            let count = notified.recv(&mut text)?;
            if text[..count].split(|byte| *byte == b'\n').any(|line| line == b"READY=1") {
                running.ready = begun.elapsed();
                return Ok(running);
            }
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident(&self) -> Result<u64, BenchError> {
        self.status("VmRSS:")
    }

    /// Returns the most it ever was.
    pub(crate) fn peak(&self) -> Result<u64, BenchError> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Result<u64, BenchError> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let number = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        Ok(number.unwrap_or(0) * 1024)
    }

    /// Returns the processor time it has used.
    pub(crate) fn used(&self) -> Result<Duration, BenchError> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name may hold blanks; what follows its bracket does not.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
    }

    /// Waits until it has used no processor time for a while.
    pub(crate) fn until_idle(&self) -> Result<(), BenchError> {
        let mut before = self.used()?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(500));
            let now = self.used()?;
            if now == before {
                return Ok(());
            }
            before = now;
        }
        Ok(())
    }

    /// Asks it to stop, and waits.
    pub(crate) fn stop(self) -> Result<(), BenchError> {
        self.end(Signal::SIGTERM)
    }

    /// Kills it, and waits.
    pub(crate) fn kill(self) -> Result<(), BenchError> {
        self.end(Signal::SIGKILL)
    }

    fn end(mut self, signal: Signal) -> Result<(), BenchError> {
        kill(self.pid(), signal).map_err(std::io::Error::from)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless something failed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
