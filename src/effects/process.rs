//! Tells one process from another, also after its number was given to a stranger.

use std::fs;
use std::io;
use std::path::Path;

use thiserror::Error;

/// Identifies one process for as long as this boot lasts, and never another one.
///
/// A number alone does not: the kernel gives it out again, and in a container it is the same small one after
/// every start. The start time in clock ticks and the boot it counts from make it unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// When it started, in clock ticks since the boot.
    pub start_ticks: u64,
    /// The boot these ticks count from.
    pub boot: String,
}

/// What is known about a process that was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The very same process still runs.
    Alive,
    /// No process has this number now.
    Gone,
    /// The number belongs to another process now.
    Recycled,
    /// The machine, or the container's kernel, was started anew since.
    EarlierBoot,
}

/// `/proc` did not say what it must say.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// A file in `/proc` cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file in `/proc` has a form this program does not know.
    #[error("`{path}` has an unknown form")]
    Form {
        /// The file.
        path: String,
    },
}

impl ProcessIdentity {
    /// Returns the identity of the calling process.
    ///
    /// # Errors
    ///
    /// Returns an error where `/proc` is not mounted or not readable.
    pub fn current() -> Result<Self, ProcessError> {
        let pid = std::process::id();
        let boot = boot_id()?;
        let found = look(pid)?.ok_or_else(|| ProcessError::Form { path: format!("/proc/{pid}/stat") })?;
        Ok(Self { pid, start_ticks: found.start_ticks, boot })
    }

    /// Looks whether this process still runs. One that has ended and that its parent has not asked about yet
    /// (a zombie, which stays for good under a careless parent) does not: it can hold nothing any more.
    ///
    /// # Errors
    ///
    /// Returns an error where `/proc` does not answer; that is not the same as "gone".
    pub fn presence(&self) -> Result<Presence, ProcessError> {
        if boot_id()? != self.boot {
            return Ok(Presence::EarlierBoot);
        }
        Ok(match look(self.pid)? {
            None => Presence::Gone,
            Some(found) if found.start_ticks != self.start_ticks => Presence::Recycled,
            Some(found) if found.ended => Presence::Gone,
            Some(_) => Presence::Alive,
        })
    }
}

/// Returns the id the kernel made for this boot.
fn boot_id() -> Result<String, ProcessError> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text =
        fs::read_to_string(path).map_err(|source| ProcessError::Read { path: path.to_owned(), source })?;
    Ok(text.trim().to_owned())
}

/// Is what a `stat` file says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    /// When it started, in clock ticks since the boot.
    start_ticks: u64,
    /// Whether it has ended, and only its entry is left.
    ended: bool,
}

/// Returns what is known of process `pid`, or nothing if there is no such process.
fn look(pid: u32) -> Result<Option<Found>, ProcessError> {
    let path = format!("/proc/{pid}/stat");
    let text = match fs::read(&path) {
        Ok(text) => text,
        // With /proc itself missing this would read as "every process is gone".
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/stat").exists() => {
            return Ok(None);
        }
        // A process that ends between open and read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(source) => return Err(ProcessError::Read { path, source }),
    };
    parse(&text).map(Some).ok_or(ProcessError::Form { path })
}

/// Finds the state (field 3) and the start time (field 22) in the text of a `stat` file.
///
/// Field 2 is the program's name in parentheses and may itself contain spaces and parentheses, so counting
/// starts after the last closing one.
fn parse(stat: &[u8]) -> Option<Found> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[close + 1..]).ok()?.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    let start_ticks = fields.nth(22 - 4)?.parse().ok()?;
    Some(Found { start_ticks, ended })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_name_of_a_program_cannot_shift_the_fields() {
        let plain = b"7 (thought) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 4242 1 2 3";
        let evil = b"7 (a) S 9 (b 1 2 3 4 5 6 7) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 4242 1 2";
        let running = Some(Found { start_ticks: 4242, ended: false });
        assert_eq!(parse(plain), running);
        assert_eq!(parse(evil), running);
        assert_eq!(parse(b"7 (thought) S 1 7"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_process_is_known_again_until_it_ends() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let start = look(child.id()).unwrap().unwrap().start_ticks;
        let identity = ProcessIdentity { pid: child.id(), start_ticks: start, boot: boot_id().unwrap() };
        assert_eq!(identity.presence().unwrap(), Presence::Alive);

        let recycled = ProcessIdentity { start_ticks: start + 1, ..identity.clone() };
        assert_eq!(recycled.presence().unwrap(), Presence::Recycled);

        drop(child.stdin.take());
        // Waiting without reaping leaves the zombie in place.
        let id = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(nix::sys::wait::Id::Pid(id), flags).unwrap();
        assert_eq!(identity.presence().unwrap(), Presence::Gone, "a zombie is not alive");
        child.wait().unwrap();
        assert_ne!(identity.presence().unwrap(), Presence::Alive);
        let earlier = ProcessIdentity { boot: "another".to_owned(), ..identity };
        assert_eq!(earlier.presence().unwrap(), Presence::EarlierBoot);
    }
}
