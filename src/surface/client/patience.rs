//! How long an answer is waited for: as long as the service shows that it lives, and not without end.
//!
//! An answer may take as long as it takes (a check of a large log, a backup, a watcher to whom nothing happens), so
//! silence alone says nothing. Whoever hears nothing for a while knocks at the same door once more: a service that
//! lives greets whoever comes, or turns them away, within moments. One that does neither is given up.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use thoughtstream_effects::lock::{self, Holding};

use super::{GONE_MARGIN, LOCK};
use crate::socket::{ANSWER_BYTES_MAX, Frame, Hello};

/// A service that was silent for this long is asked whether it lives.
pub(super) const QUIET: Duration = Duration::from_secs(4);

/// How often a knock is looked at. Waiting is counted in these and not by the clock, so that whoever was stopped
/// together with the service gives it the same time as before.
const LOOK: Duration = Duration::from_secs(1);

/// After so many looks a person is told that there is no answer.
const LOOKS_UNTOLD: u32 = 2;

/// After so many looks it is given up: longer than the door lets anybody wait for a place.
const LOOKS_MAX: u32 = 12;

/// Is the reading side of a connection, with what is needed to find out whether anybody is at the other end.
#[derive(Debug)]
pub(super) struct Frames {
    read: BufReader<UnixStream>,
    begun: Vec<u8>,
    place: Place,
    closed_since: Option<Instant>,
}

/// Says whose answer is waited for.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The data directory.
    pub(super) data: PathBuf,
    /// The socket that was connected to.
    pub(super) door: PathBuf,
    /// The service's process.
    pub(super) pid: u32,
}

/// The service neither answers nor greets; for how long, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has not answered for {seconds} s, and greets nobody")]
pub(super) struct Silent {
    seconds: u64,
}

impl Frames {
    /// Reads from `read`, which may wait for [`QUIET`] at a time.
    ///
    /// # Errors
    /// The system's refusal to bound a read.
    pub(super) fn new(read: BufReader<UnixStream>, place: Place) -> io::Result<Self> {
        read.get_ref().set_read_timeout(Some(QUIET))?;
        Ok(Self { read, begun: Vec::new(), place, closed_since: None })
    }

    /// Reads one frame of bounded length, however long it takes a service that lives; nothing if the service closed
    /// the connection.
    ///
    /// # Errors
    /// The connection's failure, or one that holds [`Silent`].
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            match hear(&mut self.read, &mut self.begun) {
                Err(error) if is_pause(&error) => self.look_for_life()?,
                heard => {
                    self.closed_since = None;
                    return heard;
                }
            }
        }
    }

    fn look_for_life(&mut self) -> io::Result<()> {
        let mut knock = None;
        for look in 0..LOOKS_MAX {
            if look == LOOKS_UNTOLD && self.drains().is_none() {
                self.tell();
            }
            if knock.is_none() {
                match self.knock() {
                    Ok(knocked) => knock = knocked,
                    // The door is gone: a service that is on its way out answers whoever is inside.
                    Err(_) if self.may_be_leaving() => return Ok(()),
                    Err(_) => break,
                }
            }
            let mut watched = vec![PollFd::new(self.read.get_ref().as_fd(), PollFlags::POLLIN)];
            watched.extend(knock.as_ref().map(|knock| PollFd::new(knock.as_fd(), PollFlags::POLLIN)));
            match poll(&mut watched, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::MAX)) {
                Ok(0) | Err(Errno::EINTR) => {}
                // The answer, a greeting, or the end of either: each is a sign of life, or is read next.
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        // Nobody is let in while it drains, and those who are inside are answered.
        if self.drains().is_some() && self.may_be_leaving() {
            return Ok(());
        }
        let seconds = (QUIET + LOOK * LOOKS_MAX).as_secs();
        Err(io::Error::new(io::ErrorKind::TimedOut, Silent { seconds }))
    }

    /// Greets at the door as a client of its own; nothing if even the queue before it is full.
    fn knock(&self) -> io::Result<Option<UnixStream>> {
        let Some(stream) = reach(&self.place.door)? else { return Ok(None) };
        let mut hello = serde_json::to_vec(&Hello::ours())?;
        hello.push(b'\n');
        // A door that is full answers before it reads.
        (&stream).write_all(&hello).ok();
        Ok(Some(stream))
    }

    /// Says whether the service may still be on its way out: it has closed its doors, and its time is not over.
    fn may_be_leaving(&mut self) -> bool {
        let bound = self.drains().unwrap_or_default() + GONE_MARGIN;
        self.closed_since.get_or_insert_with(Instant::now).elapsed() <= bound
    }

    /// Returns how long the service lets open work go on, if it has said that it drains.
    fn drains(&self) -> Option<Duration> {
        match lock::look(&self.place.data, LOCK) {
            Ok(Holding::Held(Some(owner))) if owner.process.pid == self.place.pid => {
                owner.draining.map(|draining| Duration::from_millis(draining.bound_ms.into()))
            }
            Ok(Holding::Held(_) | Holding::Free) | Err(_) => None,
        }
    }

    fn tell(&self) {
        let mut stderr = io::stderr().lock();
        if io::IsTerminal::is_terminal(&stderr) {
            let (pid, quiet) = (self.place.pid, (QUIET + LOOK * LOOKS_UNTOLD).as_secs());
            let more = (LOOK * (LOOKS_MAX - LOOKS_UNTOLD)).as_secs();
            // What cannot be told changes nothing about what is waited for.
            writeln!(
                stderr,
                "the service (process {pid}) has not answered for {quiet} s; waiting {more} s more"
            )
            .ok();
        }
    }
}

/// Connects without waiting for a place in the queue before the door; nothing if there is none at the moment.
///
/// # Errors
/// The system's refusal: nobody listens there, or somebody may not.
pub(super) fn reach(door: &Path) -> io::Result<Option<UnixStream>> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(socket.as_raw_fd(), &UnixAddr::new(door)?) {
        Ok(()) => {}
        Err(Errno::EAGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(Some(stream))
}

/// Says whether a read, or a write, was given up because its time was over.
pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Reads one frame of bounded length; nothing if the service closed the connection. What was read of one when its
/// time was over stays in `begun`.
///
/// # Errors
/// The connection's failure, or a frame that is none.
pub(super) fn hear(read: &mut BufReader<UnixStream>, begun: &mut Vec<u8>) -> io::Result<Option<Frame>> {
    let left = ANSWER_BYTES_MAX.saturating_sub(begun.len());
    io::Read::take(&mut *read, u64::try_from(left).unwrap_or(u64::MAX)).read_until(b'\n', begun)?;
    let mut line = std::mem::take(begun);
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a frame is cut off or too long"));
    }
    serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
}
