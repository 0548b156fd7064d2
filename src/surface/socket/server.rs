//! Serves one door: bounded clients, bounded frames, and patience with none of them without end.

use std::future::Future;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thoughtstream_domain::canonical;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{
    Door, Frame, GREETING_BYTES_MAX, Greeting, Hello, PROTOCOL, Peer, Progress, REQUEST_BYTES_MAX, peer_of,
};
use crate::ask::{Asked, Operated};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::socket::lines::{LineError, read_line};

/// How many clients one door serves at once: people and their scripts, not a web site.
const CLIENTS_MAX: usize = 64;

/// How many more may wait for a place; whoever comes after them is turned away at once.
const WAITING_MAX: usize = 192;

/// Whoever waits for a place gets one within this time or is turned away: longer than those who connect and say
/// nothing may keep theirs.
const PLACE_PATIENCE: Duration = Duration::from_secs(8);

/// A client that connects says who it is within this time.
pub(super) const GREETING_PATIENCE: Duration = Duration::from_secs(5);

/// A client that has greeted asks within this time, or connects again.
const REQUEST_PATIENCE: Duration = Duration::from_secs(60);

/// A frame leaves within this time, or its reader is taken for gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// Clients that cannot be accepted within this time of others are the same trouble.
const CALM: Duration = Duration::from_secs(60);

/// How many frames wait between the one who answers and the socket: a slow reader slows its own answer down.
const FRAMES_WAITING_MAX: usize = 32;

/// Answers what comes through the doors.
pub trait Desk: Send + Sync + 'static {
    /// Returns the greeting of a door.
    fn greeting(&self, door: Door) -> Greeting;

    /// Answers one request through `reply`, and says with which exit code it ends.
    fn answer(
        self: Arc<Self>,
        request: Operated,
        peer: Peer,
        reply: Reply,
    ) -> impl Future<Output = Result<Exit, Failure>> + Send;
}

/// Carries an answer, frame by frame, to one client.
#[derive(Debug, Clone)]
pub struct Reply(mpsc::Sender<Frame>);

/// The client went away, which is its right: the answer may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client went away")]
pub struct Gone;

impl Reply {
    /// Sends one value of the answer.
    ///
    /// # Errors
    /// [`Gone`] if nobody reads any more.
    pub async fn item(&self, value: Value) -> Result<(), Gone> {
        self.0.send(Frame::Item(value)).await.map_err(|_| Gone)
    }

    /// Sends one value from a thread that may block.
    ///
    /// # Errors
    /// [`Gone`] if nobody reads any more.
    pub fn blocking_item(&self, value: Value) -> Result<(), Gone> {
        self.0.blocking_send(Frame::Item(value)).map_err(|_| Gone)
    }

    /// Says how far the work has come; dropped when the client is slow, for the next one says more.
    pub fn progress(&self, done: u64, total: u64) {
        self.0.try_send(Frame::Progress(Progress { done, total })).ok();
    }

    /// Waits until nobody reads any more.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

/// Serves the door until `stop`, then lets the answers on the way finish.
///
/// # Errors
/// The listener cannot be used.
pub async fn serve<D: Desk>(
    door: Door,
    listener: StdListener,
    desk: Arc<D>,
    our_uid: u32,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    let clients = TaskTracker::new();
    let mut refused: Option<Instant> = None;
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: some come back when clients leave, and are taken again at once.
                    // That is one trouble, and is said once.
                    if refused.is_none_or(|last| last.elapsed() > CALM) {
                        tracing::warn!(?door, %error, "cannot accept clients at the moment");
                    }
                    refused = Some(Instant::now());
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let Ok(waits) = Arc::clone(&waiting).try_acquire_owned() else {
            clients.spawn(turn_away(stream, busy()));
            continue;
        };
        let (desk, stop, places) = (Arc::clone(&desk), stop.clone(), Arc::clone(&places));
        clients.spawn(async move {
            let place = tokio::select! {
                // A place that becomes free because of a stop is nobody's.
                biased;
                () = stop.cancelled() => return,
                place = timeout(PLACE_PATIENCE, places.acquire_owned()) => place,
            };
            drop(waits);
            let Ok(Ok(_place)) = place else { return turn_away(stream, busy()).await };
            if let Err(Left { why }) = client(door, stream, desk, our_uid, stop).await {
                tracing::debug!(why, "a client left early");
            }
        });
    }
    clients.close();
    clients.wait().await;
    Ok(())
}

/// A conversation ended before its end; why, as a fixed word.
pub(super) struct Left {
    pub(super) why: &'static str,
}

pub(super) const fn left(why: &'static str) -> Left {
    Left { why }
}

fn busy() -> Failure {
    Failure::new(
        Exit::CouldNotLook,
        "socket.busy",
        format!("{CLIENTS_MAX} clients are being served and others wait for a place"),
    )
    .with_hint("try again when one of them is done")
}

pub(super) async fn turn_away(stream: UnixStream, failure: Failure) {
    let (_, mut write) = stream.into_split();
    send(&mut write, &Frame::Failure(Box::new(failure))).await.ok();
}

async fn client<D: Desk>(
    door: Door,
    stream: UnixStream,
    desk: Arc<D>,
    our_uid: u32,
    stop: CancellationToken,
) -> Result<(), Left> {
    let peer = peer_of(&stream).map_err(|_| left("unknown-peer"))?;
    if !peer.may_enter(our_uid) {
        tracing::warn!(uid = peer.uid, "turned a foreign user away");
        let what = format!("the service of user {our_uid} answers that user only, not user {}", peer.uid);
        turn_away(stream, Failure::new(Exit::Refused, "socket.user", what)).await;
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let first = timeout(GREETING_PATIENCE, read_line(&mut read, GREETING_BYTES_MAX)).await;
    let first = first.map_err(|_| left("silent"))?.map_err(|_| left("no-greeting"))?;
    let Some(first) = first else { return Ok(()) };
    let greeting = desk.greeting(door);
    send(&mut write, &Frame::Greeting(greeting)).await?;
    match serde_json::from_slice::<Hello>(&first) {
        Ok(hello) if hello.protocol == PROTOCOL => {}
        Ok(hello) => return refuse(&mut write, other_protocol(hello.protocol)).await,
        Err(_) => return refuse(&mut write, malformed("the greeting is not one")).await,
    }
    loop {
        let line = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            line = timeout(REQUEST_PATIENCE, read_line(&mut read, REQUEST_BYTES_MAX)) => line,
        };
        let request = match line.map_err(|_| left("idle"))? {
            Ok(None) => return Ok(()),
            Ok(Some(line)) => parse(door, &line),
            Err(LineError::TooLong) => return refuse(&mut write, too_long()).await,
            Err(LineError::Io) => return Err(left("read")),
        };
        match request {
            Err(failure) => send(&mut write, &Frame::Failure(Box::new(failure))).await?,
            Ok(request) => answer(Arc::clone(&desk), request, peer.clone(), &mut read, &mut write).await?,
        }
    }
}

async fn refuse(write: &mut OwnedWriteHalf, failure: Failure) -> Result<(), Left> {
    send(write, &Frame::Failure(Box::new(failure))).await
}

fn other_protocol(theirs: u32) -> Failure {
    let what = format!("the service speaks protocol {PROTOCOL} and this command protocol {theirs}");
    Failure::new(Exit::CouldNotLook, "socket.protocol", what)
        .with_hint("use the same version of both: restart the service after an update")
}

pub(super) fn malformed(what: &str) -> Failure {
    Failure::new(Exit::Usage, "socket.frame", what)
}

fn too_long() -> Failure {
    malformed(&format!("a request has more than {REQUEST_BYTES_MAX} bytes"))
}

/// How many levels of a request lie around what a person hands in: the deepest is the payload of an event.
const FRAME_LEVELS: usize = 2;

/// Reads a request as far as this door has words for it, as strictly as what comes from a file: of a key that stands
/// twice in a payload, nobody could say which one was meant.
fn parse(door: Door, line: &[u8]) -> Result<Operated, Failure> {
    fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
        T::deserialize(value).ok()
    }
    let value = canonical::parse_around(line, REQUEST_BYTES_MAX, FRAME_LEVELS)
        .map_err(|error| malformed("the request cannot be read").because(&error))?;
    match door {
        Door::Operator => read::<Operated>(&value),
        Door::Ask => read::<Asked>(&value).map(Operated::from),
    }
    .ok_or_else(|| match (door, read::<Operated>(&value)) {
        (Door::Ask, Some(_)) => Failure::new(Exit::Refused, "socket.role", "the ask door takes no decisions")
            .with_hint("decisions go through the operator door, which the `thought` command uses"),
        (Door::Ask | Door::Operator, _) => malformed("the service does not know this request"),
    })
}

/// Answers one request; the work goes on, or is told to stop, on a task of its own.
async fn answer<D: Desk>(
    desk: Arc<D>,
    request: Operated,
    peer: Peer,
    read: &mut BufReader<OwnedReadHalf>,
    write: &mut OwnedWriteHalf,
) -> Result<(), Left> {
    let (sender, mut frames) = mpsc::channel(FRAMES_WAITING_MAX);
    // A client that vanishes must not undo half of an operation: the task runs to its end without it.
    let mut work = tokio::spawn(desk.answer(request, peer, Reply(sender)));
    loop {
        tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => send(write, &frame).await?,
                None => break,
            },
            // Nothing is to be read while an answer is on its way; an end of file is a client that left.
            gone = closed(read) => if gone { return Err(left("vanished")) },
        }
    }
    let last = match (&mut work).await {
        Ok(Ok(exit)) => Frame::End(exit.code()),
        Ok(Err(failure)) => Frame::Failure(Box::new(failure)),
        Err(_) => Frame::Failure(Box::new(Failure::new(
            Exit::Bug,
            "service.bug",
            "the service failed while it answered; its log says where",
        ))),
    };
    send(write, &last).await
}

/// Waits until the client closes its side, or sends something early, which is left where it is.
async fn closed(read: &mut BufReader<OwnedReadHalf>) -> bool {
    use tokio::io::AsyncBufReadExt as _;
    if !read.buffer().is_empty() {
        return std::future::pending().await;
    }
    match read.fill_buf().await {
        Ok(bytes) => bytes.is_empty(),
        Err(_) => true,
    }
}

pub(super) async fn send<T: Serialize>(write: &mut OwnedWriteHalf, frame: &T) -> Result<(), Left> {
    let mut bytes = serde_json::to_vec(frame).map_err(|_| left("encode"))?;
    bytes.push(b'\n');
    match timeout(WRITE_PATIENCE, write.write_all(&bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(left("vanished")),
        Err(_) => Err(left("slow")),
    }
}
