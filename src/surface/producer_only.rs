//! `thought serve --producer-only SOURCE`: the producer of one source as a process of its own.
//!
//! It reads `config.yaml` for that source and nothing else, opens no log, looks for no credential and has no door.
//! What it finds it hands to the service by that source's door; the looking is the same as in the service
//! ([`keep_looking`]). When the service goes, it tries again, ever more
//! slowly, and begins with what the log knows then.

mod link;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thoughtstream_actors::killpoint::KillPoints;
use thoughtstream_actors::producer::{Nudges, ProducerSpec, keep_looking};
use thoughtstream_channels::filesystem::admit::Declared;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::retry::{Exhausted, RetryPolicy};
use thoughtstream_effects::{notify, os};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Folder};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::configured;
use crate::places::{environment, source_directory};
use crate::serve::means;
use crate::serve::signals::{Signals, Told as Signal};
use crate::serve::{producers, tell};
use crate::session::{Session, now};
use crate::socket::source::{Producing, SOCKET};

use link::{Asking, Link, Lost};

/// How long it waits between two tries to come in: at once after a restart of the service, and never long.
const AGAIN: RetryPolicy =
    RetryPolicy { attempts: u32::MAX, first_ms: 100, max_ms: 10_000, exhausted: Exhausted::Hold };

/// One that looks, one that watches, and one to spare.
const THREADS: usize = 3;

/// Runs the producer of one source until it is told to stop.
///
/// # Errors
/// [`Failure`] if the source is none that runs apart, or the service does not let its producer in.
pub fn run(session: &Session, source: &str) -> Result<Exit, Failure> {
    os::close_process_memory().map_err(|error| Failure::of(Exit::CouldNotLook, "process.private", &error))?;
    let config = configured(&session.places)?;
    let folder = folder(&config, source)?;
    let our_uid = nix::unistd::geteuid().as_raw();
    let data = &session.places.data;
    let post = Post {
        door: source_directory(data, &folder.source, our_uid, &environment).join(SOCKET),
        owners: owners(session),
        told: Producing::of(folder),
        declared: Arc::new(Declared {
            source: folder.source.clone(),
            rules: folder.rules.clone(),
            privacy: folder.privacy,
        }),
        spec: producers(&config, data).into_iter().find(|spec| spec.source == folder.source).map(Arc::new),
        drain: Duration::from_millis(config.drain_ms),
        nudges: Arc::default(),
    };
    means::enough(THREADS)?;
    // One looks, on a thread that may block; the rest waits.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::CouldNotLook, "service.threads", "cannot start threads").because(&error)
    })?;
    let exit = runtime.block_on(post.hold());
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit
}

/// Finds the source that a process of its own is to look at.
fn folder<'c>(config: &'c Config, source: &str) -> Result<&'c Folder, Failure> {
    let named = |id: &SourceId| id.as_str() == source;
    if config.bots.iter().any(|bot| named(&bot.source)) {
        let what = format!("{source} is a bot, and a bot's producer runs in the service");
        let why =
            "its one token both asks for updates and sends replies: the service has to hold it to deliver";
        return Err(Failure::new(Exit::Usage, "producer.bot", what).with_hint(why));
    }
    let Some(folder) = config.folders.iter().find(|folder| named(&folder.source)) else {
        let apart = config.folders.iter().filter(|folder| folder.is_apart());
        let apart: Vec<&str> = apart.map(|folder| folder.source.as_str()).collect();
        let hint = match apart.as_slice() {
            [] => "write `producerOnly: true` under a source in config.yaml".to_owned(),
            some => format!("these run apart: {}", some.join(", ")),
        };
        let what = format!("config.yaml has no source `{source}`");
        return Err(Failure::new(Exit::Usage, "producer.unknown-source", what).with_hint(hint));
    };
    if folder.is_apart() {
        return Ok(folder);
    }
    let what = format!("the service itself looks at {source}");
    Err(Failure::new(Exit::Usage, "producer.not-apart", what)
        .with_hint("write `producerOnly: true` under it in config.yaml, and start the service anew"))
}

/// Returns the users by whom the service may be run: this one, root, and the owners of the log and the configuration.
fn owners(session: &Session) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let places = [session.places.data.clone(), session.places.config_file()];
    let found = places.into_iter().filter_map(|path| Some(std::fs::metadata(path).ok()?.uid()));
    found.chain([0, nix::unistd::geteuid().as_raw()]).collect()
}

/// Is what the process is for.
struct Post {
    door: PathBuf,
    owners: Vec<u32>,
    told: Producing,
    declared: Arc<Declared>,
    spec: Option<Arc<ProducerSpec>>,
    drain: Duration,
    nudges: Arc<Nudges>,
}

/// What signals have said.
#[derive(Debug, Clone, Default)]
struct Stop {
    /// Stop once what is on its way is answered.
    asked: CancellationToken,
    /// Stop whatever is on its way.
    at_once: CancellationToken,
}

/// How one connection ended.
enum Ended {
    /// It was told to stop.
    Stopped,
    /// Connected or not, it is tried again.
    Lost {
        why: String,
        /// Whether a look went through.
        looked: bool,
    },
    /// The service will not have it.
    Refused(Box<Failure>),
}

/// Tells the service manager, as often as it wants it, that this process still turns: whoever waits for the service
/// waits here, and so does whoever hears it. A look at a slow disk is no part of that, and takes as long as it takes.
async fn beat() {
    let Some(every) = notify::watchdog_interval() else { return };
    let mut due = tokio::time::interval(every);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        tell(notify::watchdog());
    }
}

impl Post {
    async fn hold(self) -> Result<Exit, Failure> {
        let Some(spec) = self.spec.clone() else {
            return Err(Failure::new(Exit::Bug, "producer.spec", "the source is not watched"));
        };
        let stop = self.hear();
        tokio::spawn(beat());
        let source = &self.told.source;
        let (mut failures, mut ready, mut said) = (0_u32, false, String::new());
        loop {
            match self.connection(&spec, &stop, &mut ready).await {
                Ended::Stopped => {
                    tracing::info!(%source, "the producer stopped in order");
                    return Ok(Exit::Done);
                }
                Ended::Refused(failure) => return Err(*failure),
                Ended::Lost { why, looked } => {
                    failures = if looked { 1 } else { failures.saturating_add(1) };
                    if looked || why != said {
                        tracing::warn!(%source, why, "not connected: it is tried again");
                        tell(notify::status(&format!("{source}: not connected: {why}")));
                        said = why;
                    }
                }
            }
            let wait = tokio::time::sleep(Duration::from_millis(AGAIN.wait_ms(failures)));
            tokio::select! {
                () = stop.asked.cancelled() => {
                    tell(notify::stopping());
                    return Ok(Exit::Done);
                }
                () = wait => {}
            }
        }
    }

    /// Listens to signals: the first stops in order, the second at once.
    fn hear(&self) -> Stop {
        let stop = Stop::default();
        let (told, nudges) = (stop.clone(), Arc::clone(&self.nudges));
        // Before the task has its turn: from here on no signal ends the process by itself.
        let mut signals = Signals::listen();
        tokio::spawn(async move {
            loop {
                match signals.next().await {
                    Signal::Stop if told.asked.is_cancelled() => told.at_once.cancel(),
                    Signal::Stop => told.asked.cancel(),
                    Signal::Reload => nudges.look(),
                }
            }
        });
        stop
    }

    /// Comes in, and looks for as long as the service hears.
    async fn connection(&self, spec: &Arc<ProducerSpec>, stop: &Stop, ready: &mut bool) -> Ended {
        let opened = tokio::select! {
            () = stop.asked.cancelled() => return Ended::Stopped,
            opened = Link::open(&self.door, &self.told, &self.owners, &self.nudges) => opened,
        };
        let (link, admitted) = match opened {
            Ok(opened) => opened,
            Err(Lost::Refused(failure)) => return Ended::Refused(failure),
            Err(Lost::Gone(why)) => return Ended::Lost { why, looked: false },
        };
        let source = &self.told.source;
        tracing::info!(%source, pid = admitted.pid, "connected");
        tell(notify::status(&format!("{source}: connected to the service, process {}", admitted.pid)));
        if !std::mem::replace(ready, true) {
            tell(notify::ready());
        }
        let asking = Asking { link: Arc::clone(&link), declared: Arc::clone(&self.declared) };
        let site = KillPoints::disabled().site("producer-only".into(), None);
        let nudges = Arc::clone(&self.nudges);
        let mut looking = tokio::spawn(keep_looking(asking, Arc::clone(spec), Arc::new(now), site, nudges));
        let why = tokio::select! {
            ended = &mut looking => {
                let why = ended.map_or_else(|_| "the looking failed".to_owned(), |fault| fault.to_string());
                return Self::ended(&link, why);
            }
            why = link.lost() => Some(why),
            () = stop.asked.cancelled() => None,
        };
        let idle = if why.is_none() {
            tell(notify::stopping());
            // What is on its way is answered first.
            tokio::select! {
                idle = link.idle() => Some(idle),
                () = tokio::time::sleep(self.drain) => None,
                () = stop.at_once.cancelled() => None,
            }
        } else {
            None
        };
        // The connection lives as long as whoever looks, and the next one would find the place taken.
        looking.abort();
        looking.await.ok();
        drop(idle);
        why.map_or(Ended::Stopped, |why| Self::ended(&link, why))
    }

    fn ended(link: &Link, why: String) -> Ended {
        match link.refusal() {
            Some(failure) => Ended::Refused(failure),
            None => Ended::Lost { why, looked: link.has_looked() },
        }
    }
}
