//! Serves the door of one source: one producer at a time, which is believed nothing that its source does not allow.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use thoughtstream_actors::producer::ProducerMessage;
use thoughtstream_actors::producer::apart::{Seated, Sitter};
use thoughtstream_actors::producer::intake::{Intake, Turned};
use thoughtstream_actors::service::ServiceHandle;
use thoughtstream_channels::filesystem::admit::{Declared, Unfit};
use thoughtstream_channels::filesystem::change::Contents;
use thoughtstream_channels::filesystem::scan::SkipReport;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::text::excerpt;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::COMMIT_BYTES_MAX;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{
    ALIVE_EVERY_SECONDS, Admitted, Answer, GREETING_BYTES_MAX, Looked, Noticed, PROTOCOL, Producing,
    SAID_BYTES_MAX, Said, Told,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::socket::server::{GREETING_PATIENCE, Left, left, malformed, send, turn_away};
use crate::socket::{LineError, Lines, Peer, peer_of};

/// So many connections are heard at once: one producer, one that comes after it, and some that greet.
const CONNECTIONS_MAX: usize = 8;

/// One that has said nothing for so long does not answer: it says that it is there twice as often. One that lives
/// all the same comes in again at once.
const SILENCE_PATIENCE: Duration = Duration::from_secs(2 * ALIVE_EVERY_SECONDS);

/// Content that is under way goes on within this time.
const CONTENT_PATIENCE: Duration = Duration::from_secs(10);

/// So many looks that somebody waits for are remembered; whoever waits with more of them waits in vain.
const LOOKS_AWAITED_MAX: usize = 64;

/// More names of what was skipped than a scan gives are no scan's.
const SKIPPED_NAMES_MAX: usize = 2_000;

/// A name below the root, spelled out.
const SKIPPED_NAME_MAX: usize = 8_192;

/// Is what the door of one source needs to know.
#[derive(Debug)]
pub(super) struct Entrance {
    /// What the producer must have been told.
    pub(super) expected: Producing,
    /// The user that may come in beside root.
    pub(super) uid: u32,
    pub(super) service: ServiceHandle,
    pub(super) since: Timestamp,
    pub(super) closing: CancellationToken,
}

/// Serves the door until it is closed.
pub(super) async fn serve(listener: StdListener, entrance: Arc<Entrance>) -> std::io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let clients = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = entrance.closing.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(kind = %error.kind(), "cannot accept a producer");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        // Whoever may not come in takes nobody's place.
        let peer = match peer_of(&stream) {
            Ok(peer) if peer.may_enter(entrance.uid) => peer,
            Ok(peer) => {
                tracing::warn!(uid = peer.uid, source = %entrance.expected.source, "turned a foreign user away");
                clients.spawn(turn_away(stream, foreign(&entrance, &peer)));
                continue;
            }
            Err(_) => continue,
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            let what = format!("{CONNECTIONS_MAX} connections are open at this source's door");
            clients.spawn(turn_away(stream, Failure::new(Exit::CouldNotLook, "socket.busy", what)));
            continue;
        };
        let entrance = Arc::clone(&entrance);
        clients.spawn(async move {
            let _place = place;
            let source = &entrance.expected.source;
            if let Err(Left { why }) = entrance.converse(stream, peer).await {
                tracing::info!(why, %source, "a producer left");
            }
        });
    }
    clients.close();
    clients.wait().await;
    Ok(())
}

fn foreign(entrance: &Entrance, peer: &Peer) -> Failure {
    let Entrance { expected, uid, .. } = entrance;
    let what = format!("the producer of {} is user {uid}, not user {}", expected.source, peer.uid);
    Failure::new(Exit::Refused, "socket.user", what)
        .with_hint("`producerUser` of the source in config.yaml names who it is")
}

impl Entrance {
    /// Greets, and serves the producer until it leaves or says what it may not.
    async fn converse(&self, stream: UnixStream, peer: Peer) -> Result<(), Left> {
        let (read, mut write) = stream.into_split();
        let mut lines = Lines::new(read);
        let first = tokio::select! {
            () = self.closing.cancelled() => return Ok(()),
            first = timeout(GREETING_PATIENCE, lines.next(GREETING_BYTES_MAX)) => first,
        };
        let first = match first.map_err(|_| left("silent"))? {
            Ok(Some(first)) => first,
            Ok(None) => return Ok(()),
            Err(LineError::TooLong) => {
                return refuse(&mut write, malformed("the greeting is too long")).await;
            }
            Err(LineError::Io) => return Err(left("no-greeting")),
        };
        let Ok(told) = serde_json::from_slice::<Producing>(&first) else {
            return refuse(&mut write, no_producer()).await;
        };
        if let Some(failure) = self.differs(&told) {
            return refuse(&mut write, failure).await;
        }
        let Some((seat, log)) = self.service.seat(&told.source) else {
            return refuse(&mut write, no_producer()).await;
        };
        let sitter = Sitter { uid: peer.uid, pid: peer.pid };
        let seated = match seat.take(sitter).await {
            Ok(seated) => seated,
            Err(taken) => {
                let what = format!("{}: {taken}", told.source);
                let failure = Failure::new(Exit::Refused, "producer.taken", what)
                    .with_hint("a source has one producer at a time: end that process first");
                return refuse(&mut write, failure).await;
            }
        };
        tracing::info!(source = %told.source, pid = peer.pid, uid = peer.uid, "a producer is connected");
        let admitted = Admitted {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: self.since,
        };
        send(&mut write, &Told::Admitted(admitted)).await?;
        let declared = Arc::clone(&log.declared);
        let session = Session { log, declared, lines, write, seated, awaited: BTreeMap::new(), asked: 0 };
        session.serve(&self.closing).await
    }

    /// Says in what a producer was told something else than this service.
    fn differs(&self, told: &Producing) -> Option<Failure> {
        let Producing { protocol, version: _, source, root, rules, privacy } = &self.expected;
        let (code, what) = if told.protocol != *protocol {
            (
                "socket.protocol",
                format!("the service speaks protocol {protocol}, this producer {}", told.protocol),
            )
        } else if told.source != *source {
            (Unfit::OtherSource.code(), format!("this is the door of {source}"))
        } else if told.root != *root {
            ("producer.other-root", format!("the service was told another folder for {source}"))
        } else if told.rules != *rules {
            ("producer.other-rules", format!("the service was told other rules for {source}"))
        } else if told.privacy != *privacy {
            (Unfit::OtherPrivacy.code(), format!("the service was told another class for {source}"))
        } else {
            return None;
        };
        let hint =
            "config.yaml, or the program, has changed since one of the two was started: start both anew";
        Some(Failure::new(Exit::Refused, code, what).with_hint(hint))
    }
}

fn no_producer() -> Failure {
    Failure::new(
        Exit::Refused,
        "socket.role",
        "this door takes what the producer of one source finds, nothing else",
    )
}

async fn refuse(write: &mut OwnedWriteHalf, failure: Failure) -> Result<(), Left> {
    send(write, &Told::Failure(Box::new(failure))).await
}

/// Is a conversation with the producer that has the seat.
struct Session<I> {
    log: I,
    declared: Arc<Declared>,
    lines: Lines<OwnedReadHalf>,
    write: OwnedWriteHalf,
    seated: Seated,
    /// Who waits for looks, by their numbers.
    awaited: BTreeMap<u64, oneshot::Sender<bool>>,
    asked: u64,
}

impl<I: Intake> Session<I> {
    async fn serve(mut self, closing: &CancellationToken) -> Result<(), Left> {
        let mut heard = Instant::now();
        loop {
            // Whatever it is told meanwhile, what counts is when it spoke last.
            let line = tokio::select! {
                () = closing.cancelled() => return Ok(()),
                message = self.seated.told() => {
                    self.pass(message).await?;
                    continue;
                }
                line = timeout_at(heard + SILENCE_PATIENCE, self.lines.next(SAID_BYTES_MAX)) => line,
            };
            let Ok(line) = line else {
                self.seated.put_out();
                return Err(left("silent"));
            };
            let said = match line {
                Ok(None) => return Ok(()),
                Ok(Some(line)) => serde_json::from_slice::<Said>(&line).ok(),
                Err(LineError::TooLong) => {
                    let what = format!("a frame has more than {SAID_BYTES_MAX} bytes");
                    return refuse(&mut self.write, malformed(&what)).await;
                }
                Err(LineError::Io) => return Err(left("cut")),
            };
            let Some(said) = said else {
                return refuse(&mut self.write, malformed("a producer has no such word")).await;
            };
            // A producer that dies meanwhile keeps the seat until the log has answered: what it handed in last is
            // known before the next one reads what the log knows.
            let told = self.answer(said).await?;
            let last = matches!(told, Told::Answer(Answer::Unfit(_)) | Told::Failure(_));
            send(&mut self.write, &told).await?;
            if last {
                return Err(left("refused"));
            }
            heard = Instant::now();
        }
    }

    /// Passes on what the producer is told.
    async fn pass(&mut self, message: ProducerMessage) -> Result<(), Left> {
        let told = match message {
            ProducerMessage::Look => Told::Look,
            ProducerMessage::AcknowledgeRemovals => Told::AcceptRemovals,
            ProducerMessage::LookFor(asker) => {
                self.awaited.retain(|_, asker| !asker.is_closed());
                if self.awaited.len() >= LOOKS_AWAITED_MAX {
                    return Ok(());
                }
                self.asked += 1;
                self.awaited.insert(self.asked, asker);
                Told::LookFor(self.asked)
            }
            // No looking task of this process is behind it.
            ProducerMessage::Ended(_) => return Ok(()),
        };
        send(&mut self.write, &told).await
    }

    async fn answer(&mut self, said: Said) -> Result<Told, Left> {
        let taken = match said {
            Said::Documents(after) => match self.log.documents(after).await {
                Ok(page) => return Ok(Told::Answer(Answer::Documents(page))),
                Err(turned) => Err(turned),
            },
            Said::Offer(offer) => match offer.read(&self.declared) {
                Ok(group) => match self.contents(&group.brought()).await? {
                    Ok(contents) => self.log.take(group, contents).await,
                    Err(unfit) => Err(Turned::Unfit(unfit)),
                },
                Err(unfit) => Err(Turned::Unfit(unfit)),
            },
            Said::Stats(stats) => self.log.keep(stats).await,
            Said::Incident(Noticed { code, detail, over, look }) => {
                match self.declared.incident(&code, detail, over) {
                    Ok(incident) => self.log.report(incident, look).await,
                    Err(unfit) => Err(Turned::Unfit(unfit)),
                }
            }
            Said::Skipped(report) => self.log.skipped(printable(report)).await,
            Said::Standing(standing) => self.log.stands(standing).await,
            Said::Looked(Looked { number, whole }) => {
                if let Some(asker) = self.awaited.remove(&number) {
                    // One that does not wait any more is told nothing.
                    asker.send(whole).ok();
                }
                Ok(())
            }
            Said::Alive => Ok(()),
        };
        Ok(match taken {
            Ok(()) => Told::Answer(Answer::Done),
            Err(Turned::Overtaken) => Told::Answer(Answer::Overtaken),
            Err(Turned::Unfit(unfit)) => {
                tracing::warn!(source = %self.declared.source, code = unfit.code(), "refused a producer");
                Told::Answer(Answer::Unfit(unfit))
            }
            Err(turned @ (Turned::Unreadable | Turned::Closed | Turned::Fault(_))) => {
                Told::Failure(Box::new(Failure::of(Exit::CouldNotLook, "producer.not-taken", &turned)))
            }
        })
    }

    /// Reads the content that follows an offer.
    async fn contents(
        &mut self,
        brought: &[(thoughtstream_domain::hash::Sha256Hash, u64)],
    ) -> Result<Result<Contents, Unfit>, Left> {
        let sizes: Option<Vec<usize>> =
            brought.iter().map(|(_, bytes)| usize::try_from(*bytes).ok()).collect();
        let sum = sizes.as_deref().and_then(|sizes| sizes.iter().try_fold(0_usize, |a, b| a.checked_add(*b)));
        let Some(sizes) = sizes.filter(|_| sum.is_some_and(|sum| sum <= COMMIT_BYTES_MAX)) else {
            return Ok(Err(Unfit::TooLarge));
        };
        let mut contents = Contents::new();
        for ((sha256, _), size) in brought.iter().zip(sizes) {
            let bytes = self.lines.bytes(size, CONTENT_PATIENCE).await.map_err(|_| left("cut"))?;
            contents.insert(*sha256, Content::new(bytes.into()));
        }
        Ok(Ok(contents))
    }
}

/// Makes the names in a report such that they can be shown, whoever wrote them.
fn printable(mut report: SkipReport) -> SkipReport {
    report.shown.truncate(SKIPPED_NAMES_MAX);
    for skip in &mut report.shown {
        skip.shown = excerpt(&skip.shown, SKIPPED_NAME_MAX);
        skip.owner = skip.owner.as_deref().map(|owner| excerpt(owner, SKIPPED_NAME_MAX));
    }
    report
}

#[cfg(test)]
mod tests;
