//! One run of a sandboxed worker, driven from outside: packet in, one request, one answer, result out.
//!
//! A worker is believed in nothing. One that hangs, floods, invents, asks twice or dies is one [`CellFault`], and
//! it was killed with everything in its sandbox when the fault is told. Who gives a run up (by dropping its
//! future) kills its worker too. [`keeper`] holds the worker's program and lends out the launcher.

pub mod keeper;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use thoughtstream_domain::cell::exchange::{Breach, Exchange};
use thoughtstream_domain::cell::{CellResult, Outcome, Packet, Request};
use thoughtstream_effects::sandbox::{Cell, End, LaunchError, Launcher, Limits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::spawn_blocking;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

pub use keeper::{CellPlace, Cells, NO_KEEPER, Unavailable};

/// Read at once; a pipe gives no more.
const CHUNK: usize = 64 << 10;

/// A worker whose stdout has ended is about to end itself; one that does not is killed.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// A worker that is told an outcome at the last moment of its run still gets this long for the result.
const CONCLUDES_WITHIN: Duration = Duration::from_secs(5);

/// The number of the signal that a forbidden system call ends a worker with, once it has narrowed itself.
const SIGSYS: i32 = 31;

/// Says why a run of a worker gave no result. The worker was killed.
#[derive(Debug, thiserror::Error)]
pub enum CellFault {
    /// There is no launcher: nothing was started.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The sandbox could not be started.
    #[error("the sandbox could not be started")]
    Launch(#[from] LaunchError),
    /// The worker did not keep to the protocol.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// The worker ended without a result.
    #[error("the worker ended without a result")]
    Died(End),
    /// The deadline passed.
    #[error("the run had not ended at its deadline")]
    Deadline,
    /// The request or the answer does not fit into a frame.
    #[error("the request or the answer is too large for a worker")]
    TooLarge,
    /// The pipes to the worker cannot be used.
    #[error("the pipes to the worker cannot be used")]
    Pipes(#[source] io::Error),
}

impl CellFault {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(why) => why.code,
            Self::Launch(error) => error.code(),
            Self::Breach(breach) => breach.code(),
            Self::Died(End::Signalled(SIGSYS)) => "worker-forbidden-call",
            Self::Died(End::Signalled(_) | End::Killed) => "worker-killed",
            Self::Died(End::Exited(_)) => "worker-exited",
            Self::Deadline => "worker-deadline",
            Self::TooLarge => "worker-too-large",
            Self::Pipes(_) => "worker-pipes",
        }
    }
}

/// Runs one worker: hands it the packet, passes its one request to `ask`, hands it the outcome, and returns what
/// it takes for the final message. `ask` is called at most once; when it was not, nothing was asked.
///
/// The worker must have asked by `deadline`. `ask` keeps the deadline itself and is never given up in the middle:
/// only it can say whether anything was sent. What the worker makes of the outcome is due by the deadline as well,
/// or five seconds after it was told.
///
/// # Errors
/// [`CellFault`]; the worker was killed then.
pub async fn run_cell<A>(
    launcher: &Launcher,
    packet: Packet,
    limits: Limits,
    deadline: Instant,
    ask: impl FnOnce(Request) -> A + Send,
) -> Result<CellResult, CellFault>
where
    A: Future<Output = Outcome> + Send,
{
    let (mut exchange, frame) = Exchange::begin(packet).map_err(|_| CellFault::TooLarge)?;
    let launcher = launcher.clone();
    // Given up in the middle of this, the sandbox is dropped where it is built, and ends.
    let launched = spawn_blocking(move || launcher.launch(&limits));
    let mut cell = match timeout_at(deadline, launched).await {
        Ok(launched) => launched.map_err(|_| LaunchError::Closed)??,
        Err(_) => return Err(CellFault::Deadline),
    };
    let pipes = Pipes::of(&mut cell).map_err(CellFault::Pipes)?;
    match pipes.talk(&mut exchange, &frame, deadline, ask).await {
        Ok(()) => Ok(exchange.closed()?),
        Err(Silence::Late(_)) => Err(CellFault::Deadline),
        Err(Silence::Breach(breach)) => Err(breach.into()),
        Err(Silence::TooLarge) => Err(CellFault::TooLarge),
        Err(Silence::Gone) => {
            let end = spawn_blocking(move || cell.end(ENDS_WITHIN)).await;
            Err(CellFault::Died(end.unwrap_or(End::Killed)))
        }
    }
}

/// Says why nothing more is said.
enum Silence {
    Breach(Breach),
    TooLarge,
    /// The worker's end of a pipe is closed.
    Gone,
    /// The time is up.
    Late(Elapsed),
}

impl From<Elapsed> for Silence {
    fn from(late: Elapsed) -> Self {
        Self::Late(late)
    }
}

impl From<Breach> for Silence {
    fn from(breach: Breach) -> Self {
        Self::Breach(breach)
    }
}

/// Are the two ways to and from a worker.
struct Pipes {
    to: Sender,
    from: Receiver,
    chunk: Vec<u8>,
}

impl Pipes {
    fn of(cell: &mut Cell) -> io::Result<Self> {
        let taken: Option<(OwnedFd, OwnedFd)> = cell.take_pipes();
        let (stdin, stdout) = taken.ok_or(io::ErrorKind::NotConnected)?;
        let (to, from) = (Sender::from_owned_fd(stdin)?, Receiver::from_owned_fd(stdout)?);
        Ok(Self { to, from, chunk: vec![0; CHUNK] })
    }

    /// Leads the conversation to its end: the worker has closed its side.
    async fn talk<A: Future<Output = Outcome>>(
        mut self,
        exchange: &mut Exchange,
        packet: &[u8],
        deadline: Instant,
        ask: impl FnOnce(Request) -> A,
    ) -> Result<(), Silence> {
        let request = timeout_at(deadline, self.hear_request(exchange, packet)).await??;
        let outcome = ask(request).await;
        let conclude_by = deadline.max(Instant::now() + CONCLUDES_WITHIN);
        timeout_at(conclude_by, self.tell(exchange, outcome)).await?
    }

    async fn hear_request(&mut self, exchange: &mut Exchange, packet: &[u8]) -> Result<Request, Silence> {
        self.send(packet).await?;
        loop {
            let length = self.receive().await?;
            if let Some(request) = exchange.heard(&self.chunk[..length])? {
                return Ok(request);
            }
        }
    }

    async fn tell(mut self, exchange: &mut Exchange, outcome: Outcome) -> Result<(), Silence> {
        // What is there by now was said without knowing the answer.
        while let Ok(length @ 1..) = self.from.try_read(&mut self.chunk) {
            exchange.heard(&self.chunk[..length])?;
        }
        let told = exchange.told(outcome).map_err(|_| Silence::TooLarge)?;
        self.send(&told).await?;
        let Self { to, mut from, mut chunk } = self;
        drop(to);
        loop {
            match from.read(&mut chunk).await {
                Ok(0) if exchange.is_concluded() => return Ok(()),
                Ok(0) | Err(_) => return Err(Silence::Gone),
                Ok(length) => drop(exchange.heard(&chunk[..length])?),
            }
        }
    }

    async fn send(&mut self, frame: &[u8]) -> Result<(), Silence> {
        self.to.write_all(frame).await.map_err(|_| Silence::Gone)
    }

    async fn receive(&mut self) -> Result<usize, Silence> {
        match self.from.read(&mut self.chunk).await {
            Ok(0) | Err(_) => Err(Silence::Gone),
            Ok(length) => Ok(length),
        }
    }
}
