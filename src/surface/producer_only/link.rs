//! The connection of a producer apart with its service: one question at a time, and words from the service between.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use thoughtstream_actors::producer::Nudges;
use thoughtstream_actors::producer::intake::{Intake, Standing, Turned};
use thoughtstream_channels::filesystem::admit::{Declared, Offer, Unfit};
use thoughtstream_channels::filesystem::change::{ChangeGroup, Contents};
use thoughtstream_channels::filesystem::producer::Incident;
use thoughtstream_channels::filesystem::scan::SkipReport;
use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::id::DocumentId;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::socket::source::{
    ALIVE_EVERY_SECONDS, Admitted, Answer, Looked, Noticed, PROTOCOL, Producing, Said, Told,
};
use crate::socket::{ANSWER_BYTES_MAX, Lines, peer_of};

/// The service lets a producer in within this time, the wait for one that is on its way out included.
const ADMISSION_PATIENCE: Duration = Duration::from_secs(15);

/// What is written is taken within this time, content included, or nobody reads any more.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no connection, or none any more.
pub(super) enum Lost {
    /// Nobody answers: in a few words.
    Gone(String),
    /// The service does not want this producer.
    Refused(Box<Failure>),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
        let kind = error.kind();
        let why = [
            (NotFound, "the service has no door for it"),
            (ConnectionRefused, "the service has no door for it"),
            (PermissionDenied, "its door is closed to this user"),
        ];
        let known = why.into_iter().find(|(known, _)| *known == kind);
        Self::Gone(known.map_or_else(|| kind.to_string(), |(_, why)| why.to_owned()))
    }
}

/// Is a connection to the service.
pub(super) struct Link {
    asks: Mutex<Asks>,
    lost: CancellationToken,
    why: StdMutex<Why>,
    looked: AtomicBool,
    reader: StdMutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Default)]
struct Why {
    gone: Option<String>,
    refusal: Option<Box<Failure>>,
}

/// Is the side of the connection that asks.
pub(super) struct Asks {
    write: OwnedWriteHalf,
    answers: mpsc::Receiver<Answer>,
}

impl Link {
    /// Comes in by the door of a source.
    pub(super) async fn open(
        door: &Path,
        told: &Producing,
        owners: &[u32],
        nudges: &Arc<Nudges>,
    ) -> Result<(Arc<Self>, Admitted), Lost> {
        let stream = UnixStream::connect(door).await?;
        let peer = peer_of(&stream).map_err(io::Error::from)?;
        // What it finds is told to whoever may have the log, and to nobody who has made a socket there.
        if !owners.contains(&peer.uid) {
            let what = format!("the door of {} is served by user {}", told.source, peer.uid);
            let failure = Failure::new(Exit::Refused, "producer.stranger", what)
                .with_hint("neither the data directory nor config.yaml is that user's");
            return Err(Lost::Refused(Box::new(failure)));
        }
        let (read, mut write) = stream.into_split();
        let mut lines = Lines::new(read);
        let admitted = async {
            // A door that refuses does so before it reads anything.
            write_line(&mut write, told).await.ok();
            hear(&mut lines).await
        };
        let first =
            timeout(ADMISSION_PATIENCE, admitted).await.map_err(|_| Lost::Gone("silent".to_owned()))?;
        let admitted = match first? {
            Told::Admitted(admitted) if admitted.protocol == PROTOCOL => admitted,
            Told::Admitted(admitted) => {
                let what = format!(
                    "the service is version {} and speaks protocol {}, this producer protocol {PROTOCOL}",
                    admitted.version, admitted.protocol
                );
                return Err(Lost::Refused(Box::new(Failure::new(Exit::Refused, "socket.protocol", what))));
            }
            Told::Failure(failure) if failure.exit() == Exit::CouldNotLook => {
                return Err(Lost::Gone(failure.what));
            }
            Told::Failure(failure) => return Err(Lost::Refused(failure)),
            Told::Answer(_) | Told::Look | Told::LookFor(_) | Told::AcceptRemovals => {
                return Err(Lost::Gone("unexpected".to_owned()));
            }
        };
        let (answered, answers) = mpsc::channel(1);
        let link = Arc::new(Self {
            asks: Mutex::new(Asks { write, answers }),
            lost: CancellationToken::new(),
            why: StdMutex::default(),
            looked: AtomicBool::new(false),
            reader: StdMutex::default(),
        });
        let reading = tokio::spawn(listen(Arc::downgrade(&link), lines, answered, Arc::clone(nudges)));
        *link.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(AbortOnDropHandle::new(reading));
        Ok((link, admitted))
    }

    /// Waits for the end of the connection, saying meanwhile that this process is there; returns why it ended.
    pub(super) async fn lost(&self) -> String {
        let alive = async {
            loop {
                sleep(Duration::from_secs(ALIVE_EVERY_SECONDS)).await;
                if self.ask(&Said::Alive, &[]).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.lost.cancelled() => {}
            () = alive => {}
        }
        self.why().gone.clone().unwrap_or_else(|| "the service does not answer".to_owned())
    }

    /// Waits until nothing is on its way, and keeps it so.
    pub(super) async fn idle(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().await
    }

    /// Returns what the service refused for good.
    pub(super) fn refusal(&self) -> Option<Box<Failure>> {
        self.why().refusal.clone()
    }

    /// Says whether a look went through.
    pub(super) fn has_looked(&self) -> bool {
        self.looked.load(Ordering::SeqCst)
    }

    fn why(&self) -> std::sync::MutexGuard<'_, Why> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, gone: &str) {
        self.why().gone.get_or_insert_with(|| gone.to_owned());
        self.lost.cancel();
    }

    fn refused(&self, failure: Failure) {
        self.why().refusal.get_or_insert_with(|| Box::new(failure));
        self.lost.cancel();
    }

    /// Says one thing with the content that belongs to it, and waits for the answer.
    async fn ask(&self, said: &Said, contents: &[&[u8]]) -> Result<Answer, Turned> {
        let mut asks = self.asks.lock().await;
        if self.lost.is_cancelled() {
            return Err(Turned::Closed);
        }
        let writing = async {
            write_line(&mut asks.write, said).await?;
            for content in contents {
                asks.write.write_all(content).await?;
            }
            io::Result::Ok(())
        };
        // A service that refuses hangs up in the middle of what it is told; its reason is read all the same.
        if timeout(WRITE_PATIENCE, writing).await.is_err() {
            self.end("the service reads nothing any more");
            return Err(Turned::Closed);
        }
        let told = tokio::select! {
            biased;
            told = asks.answers.recv() => told,
            () = self.lost.cancelled() => None,
        };
        match told.ok_or(Turned::Closed)? {
            Answer::Unfit(unfit) => Err(Turned::Unfit(unfit)),
            Answer::Overtaken => Err(Turned::Overtaken),
            answer @ (Answer::Done | Answer::Documents(_)) => Ok(answer),
        }
    }

    async fn done(&self, said: &Said, contents: &[&[u8]]) -> Result<(), Turned> {
        match self.ask(said, contents).await? {
            Answer::Done => Ok(()),
            Answer::Documents(_) | Answer::Overtaken | Answer::Unfit(_) => {
                self.end("the service answers something else");
                Err(Turned::Closed)
            }
        }
    }
}

fn unfit_failure(unfit: Unfit) -> Failure {
    Failure::of(Exit::Refused, unfit.code(), &unfit)
        .with_hint("the service takes nothing that the source in config.yaml does not allow")
}

/// Hears the service until it is gone.
async fn listen(
    link: std::sync::Weak<Link>,
    mut lines: Lines<OwnedReadHalf>,
    answered: mpsc::Sender<Answer>,
    nudges: Arc<Nudges>,
) {
    loop {
        let heard = hear(&mut lines).await;
        let Some(link) = link.upgrade() else { return };
        match heard {
            Ok(Told::Look) => nudges.look(),
            Ok(Told::AcceptRemovals) => nudges.acknowledge_removals(),
            Ok(Told::LookFor(number)) => {
                let (asker, answer) = oneshot::channel();
                nudges.look_for(asker);
                let link = Arc::downgrade(&link);
                tokio::spawn(async move {
                    // A connection that ended meanwhile is not kept open for it.
                    if let (Ok(whole), Some(link)) = (answer.await, link.upgrade()) {
                        link.done(&Said::Looked(Looked { number, whole }), &[]).await.ok();
                    }
                });
            }
            Ok(Told::Failure(failure)) => {
                match failure.exit() {
                    Exit::CouldNotLook => link.end(&failure.what),
                    Exit::Done
                    | Exit::Refused
                    | Exit::Usage
                    | Exit::Undeclared
                    | Exit::Unknown
                    | Exit::Advice
                    | Exit::Bug => link.refused(*failure),
                }
                return;
            }
            Ok(Told::Answer(answer)) => {
                if let Answer::Unfit(unfit) = answer {
                    link.refused(unfit_failure(unfit));
                }
                if answered.send(answer).await.is_err() {
                    return;
                }
            }
            Ok(Told::Admitted(_)) => return link.end("the service greets again"),
            Err(Lost::Gone(why)) => return link.end(&why),
            Err(Lost::Refused(failure)) => return link.refused(*failure),
        }
    }
}

async fn hear(lines: &mut Lines<OwnedReadHalf>) -> Result<Told, Lost> {
    let gone = |why: &str| Lost::Gone(why.to_owned());
    match lines.next(ANSWER_BYTES_MAX).await {
        Ok(Some(line)) => serde_json::from_slice(&line).map_err(|_| gone("the service says something else")),
        Ok(None) | Err(_) => Err(gone("the service went away")),
    }
}

async fn write_line<T: serde::Serialize>(write: &mut OwnedWriteHalf, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    write.write_all(&bytes).await
}

/// Is the intake of a producer apart: it asks the service.
#[derive(Clone)]
pub(super) struct Asking {
    pub(super) link: Arc<Link>,
    pub(super) declared: Arc<Declared>,
}

impl Intake for Asking {
    async fn documents(&self, after: Option<DocumentId>) -> Result<Vec<Document>, Turned> {
        match self.link.ask(&Said::Documents(after), &[]).await? {
            Answer::Documents(page) => Ok(page),
            Answer::Done | Answer::Overtaken | Answer::Unfit(_) => {
                self.link.end("the service answers something else");
                Err(Turned::Closed)
            }
        }
    }

    async fn take(&self, group: ChangeGroup, contents: Contents) -> Result<(), Turned> {
        let said = Said::Offer(Offer::of(&self.declared, &group));
        let brought: Option<Vec<&[u8]>> = group
            .brought()
            .iter()
            .map(|(sha256, _)| contents.get(sha256).map(|content| content.reveal().as_ref()))
            .collect();
        self.link.done(&said, &brought.ok_or(Turned::Unfit(Unfit::Content))?).await
    }

    async fn keep(&self, stats: Vec<(DocumentId, FileStat)>) -> Result<(), Turned> {
        self.link.done(&Said::Stats(stats), &[]).await
    }

    async fn report(&self, incident: Incident, look: u64) -> Result<(), Turned> {
        let Incident { code, detail, over } = incident;
        let noticed = Noticed { code: code.to_owned(), detail, over, look };
        self.link.done(&Said::Incident(noticed), &[]).await
    }

    async fn skipped(&self, report: SkipReport) -> Result<(), Turned> {
        self.link.done(&Said::Skipped(report), &[]).await
    }

    async fn stands(&self, standing: Standing) -> Result<(), Turned> {
        self.link.done(&Said::Standing(standing), &[]).await?;
        self.link.looked.store(true, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
