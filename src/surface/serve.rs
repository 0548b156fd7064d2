//! Runs the service: parse, open, build the tree, answer; then drain.

pub(crate) mod means;
pub(crate) mod signals;
mod watchdog;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thoughtstream_actors::broker::Brokers;
use thoughtstream_actors::cell::Cells;
use thoughtstream_actors::clock::SystemClock;
use thoughtstream_actors::consumer::Facilities;
use thoughtstream_actors::killpoint::KillPoints;
use thoughtstream_actors::producer::{ProducerSpec, Runs};
use thoughtstream_actors::service::{
    Load, Loaded as Taken, Service, ServiceArgs, ServiceHandle, StartError, compile,
};
use thoughtstream_actors::supervisor::{ChildSpec, Outcome};
use thoughtstream_channels::credential::Credentials;
use thoughtstream_channels::filesystem::producer::RemovalRule;
use thoughtstream_channels::filesystem::watch::WatchSettings;
use thoughtstream_domain::declaration::DeclarationSet;
use thoughtstream_domain::yaml::{Problem, render_all};
use thoughtstream_effects::dirs::PrivateDir;
use thoughtstream_effects::lock::{self, LockError, OwnerKind, OwnerLock};
use thoughtstream_effects::{notify, os};
use thoughtstream_store::Options;
use tokio_util::sync::CancellationToken;

use crate::at_start::AtStart;
use crate::bots;
use crate::cells;
use crate::client::{COMING, LOCK, not_taken};
use crate::command::asking::{open_failure, open_to_read};
use crate::command::init::data_failure;
use crate::config::Config;
use crate::desk::{ServiceDesk, reload_failure};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{LoadFailure, Loaded, load};
use crate::places::{Places, environment, runtime_directory};
use crate::rehearsal;
use crate::render::count;
use crate::serve::signals::Signals;
use crate::session::{Session, now};
use crate::socket::source::{self, SourceDoors, SourceDoorsError};
use crate::socket::{Doors, keeper};

use crate::submit::{check_place, ensure, types_failure};

/// A service that is going down holds the store a little longer than its doors; so long its successor waits.
const SERVICE_PATIENCE: Duration = Duration::from_secs(3);

/// A command holds the store until it has done its one thing, which takes long for a copy of a large log.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);

/// How often the lock is tried; commands try less often, and not at all while a service is coming.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Says how a service is started.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// Start nothing that consumers would do: look, answer and take what comes in.
    pub paused: bool,
}

/// Runs a service until it is told to stop.
///
/// # Errors
/// [`Failure`] if it cannot start, with every problem of the configuration at once.
pub fn run(session: &Session, how: How) -> Result<Exit, Failure> {
    os::close_process_memory().map_err(|error| Failure::of(Exit::CouldNotLook, "process.private", &error))?;
    let loaded = load(&session.places)?;
    // Before anything is held.
    let runtime = means::runtime()?;
    PrivateDir::create(&session.places.data).map_err(|error| data_failure(&error))?;
    check_place(&session.places.data)?;
    let mut lock = own(&session.places.data)?;
    if let Some(reclaimed) = lock.reclaimed() {
        tracing::info!(
            pid = reclaimed.owner.process.pid,
            "the service before this one did not stop in order"
        );
    }
    ensure(session)?;
    let exit = means::run(runtime, serve(session, how, loaded, &mut lock));
    // The lock outlives everything that touches the store.
    drop(lock);
    exit
}

/// What the doors and the process tell each other.
#[derive(Debug, Clone, Default)]
struct Told {
    /// The service has come up.
    ready: CancellationToken,
    /// Somebody asked it to stop.
    stop: CancellationToken,
}

/// Becomes the owner of the data directory.
fn own(data: &Path) -> Result<OwnerLock, Failure> {
    // Commands that come later wait until this one had its turn.
    let _coming = match lock::announce(data, COMING) {
        Ok(coming) => coming,
        // Where nothing can be written, the lock itself says whether somebody holds it or nobody can.
        Err(LockError::Io { .. }) => None,
        Err(error) => return Err(not_taken(data, &error)),
    };
    let begun = Instant::now();
    loop {
        match OwnerLock::acquire(data, LOCK, OwnerKind::Service, now().as_millis()) {
            Ok(lock) => return Ok(lock),
            Err(error) if begun.elapsed() < patience(&error, data) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(not_owned(data, &error)),
        }
    }
}

/// Returns how long a service waits for whoever is in its way.
fn patience(error: &LockError, data: &Path) -> Duration {
    match error {
        LockError::Held { owner, .. } if owner.kind == OwnerKind::Service => {
            // One that answers stays.
            if answers(data) { Duration::ZERO } else { SERVICE_PATIENCE }
        }
        LockError::Held { .. } | LockError::HeldByUnknown { .. } => COMMAND_PATIENCE,
        LockError::OwnerLives { .. }
        | LockError::Damaged { .. }
        | LockError::NotRegular { .. }
        | LockError::Foreign { .. }
        | LockError::Replaced { .. }
        | LockError::Unsteady { .. }
        | LockError::Io { .. }
        | LockError::Read(_)
        | LockError::Write(_)
        | LockError::Process(_) => Duration::ZERO,
    }
}

/// Says whether somebody is behind the doors: a service that was killed leaves them at_start with nobody there.
fn answers(data: &Path) -> bool {
    let doors = crate::socket::recorded(data).ok().flatten();
    doors.is_some_and(|(ask, _)| std::os::unix::net::UnixStream::connect(ask).is_ok())
}

/// Says why the data directory could not be owned, and what to do about another service.
fn not_owned(data: &Path, error: &LockError) -> Failure {
    let failure = not_taken(data, error);
    if let LockError::Held { owner, .. } | LockError::OwnerLives { owner, .. } = error
        && owner.kind == OwnerKind::Service
        && owner.draining.is_none()
    {
        return failure.with_hint("one service owns a log: stop that one first, or use another --data DIR");
    }
    failure
}

async fn serve(session: &Session, how: How, loaded: Loaded, lock: &mut OwnerLock) -> Result<Exit, Failure> {
    // Before anybody can know of this process: from here on no signal ends it by itself.
    let mut signals = Signals::listen();
    let places = &session.places;
    let (enabled, folders) = (loaded.set.enabled().count(), loaded.config.folders.len());
    let doors = open_doors(&places.data)?;
    let source_doors = open_source_doors(&loaded.config, &places.data)?;
    let (told, at_start) = (Told::default(), Arc::new(AtStart::of(&loaded.config)));
    let begun = (Arc::clone(&doors), Arc::clone(&source_doors), told.clone(), Arc::clone(&at_start));
    let starting = Service::start(arguments(session, how, loaded, begun)?);
    let Some(started) = signals::until_started(&mut signals, starting).await else {
        tracing::info!("stopped before it had come up");
        return Ok(Exit::Done);
    };
    let service = started.what.map_err(|error| start_failure(&error))?;
    if started.reload {
        drop(tokio::spawn(signals::reload(service.handle().clone(), Arc::clone(&at_start))));
    }
    told.ready.cancel();
    let tidying = tokio::spawn(tidy_memory());
    tracing::info!(
        pid = std::process::id(),
        incarnation = service.handle().incarnation(),
        consumers = enabled,
        sources = folders,
        paused = how.paused,
        "the service answers"
    );
    tell(notify::ready());
    tell(notify::status(&format!(
        "{}, {}",
        count(enabled as u64, "consumer"),
        count(folders as u64, "folder")
    )));
    let watchdog = tokio::spawn(watchdog::run(service.handle().clone()));
    let outcome = signals::until_the_end(&service, signals, told.stop, at_start, lock).await;
    watchdog.abort();
    tidying.abort();
    // Actors that were left behind may still hold them.
    doors.close();
    source_doors.close();
    match outcome {
        Outcome::Stopped => {
            tracing::info!("the service stopped in order");
            Ok(Exit::Done)
        }
        Outcome::Fatal { path, exit } => {
            tracing::error!(%path, exit = exit.kind(), reason = exit.reason(), "the service gave up");
            Err(Failure::new(Exit::Bug, "service.gave-up", format!("`{path}` could not be kept alive"))
                .with_hint("its log says why; what was acknowledged is safe, and the next start goes on"))
        }
    }
}

/// Gives back what starting took: once consumers have read where they stand, which thousands of them do for a
/// second, and once more when the threads that read for them have gone.
async fn tidy_memory() {
    for wait in [500, 2_000, 12_000].map(Duration::from_millis) {
        tokio::time::sleep(wait).await;
        // It goes through everything that was allocated, which blocks.
        drop(tokio::task::spawn_blocking(os::return_freed_memory).await);
    }
}

/// Tells the service manager something; that it does not listen changes nothing.
pub(crate) fn tell(told: std::io::Result<()>) {
    if let Err(error) = told {
        tracing::warn!(kind = %error.kind(), "the service manager was not told");
    }
}

fn open_doors(data: &Path) -> Result<Arc<Doors>, Failure> {
    let runtime = runtime_directory(data, nix::unistd::geteuid().as_raw(), &environment);
    let doors = Doors::open(data, &runtime);
    doors.map(Arc::new).map_err(|error| Failure::of(Exit::CouldNotLook, "socket.open", &error))
}

fn open_source_doors(config: &Config, data: &Path) -> Result<Arc<SourceDoors>, Failure> {
    let our_uid = nix::unistd::geteuid().as_raw();
    let doors = SourceDoors::open(&config.folders, data, our_uid, &environment);
    doors.map(Arc::new).map_err(|error| source_doors_failure(&error))
}

/// Says why a producer apart could not come in, and what to do about it.
pub(crate) fn source_doors_failure(error: &SourceDoorsError) -> Failure {
    match error {
        SourceDoorsError::NoUser { .. } => Failure::of(Exit::Usage, "producer.no-user", error)
            .with_hint("make that user, or name another as `producerUser` in config.yaml"),
        SourceDoorsError::Directory { .. } | SourceDoorsError::Socket { .. } => {
            Failure::of(Exit::CouldNotLook, "socket.open", error).with_hint(
                "the service's user has to be a member of the group of the user that runs the producer",
            )
        }
    }
}

fn arguments(
    session: &Session,
    how: How,
    loaded: Loaded,
    (doors, source_doors, told, at_start): (Arc<Doors>, Arc<SourceDoors>, Told, Arc<AtStart>),
) -> Result<ServiceArgs, Failure> {
    let (since, our_uid, places) = (now(), nix::unistd::geteuid().as_raw(), session.places.clone());
    let reads = Arc::clone(&at_start);
    work(session, how, loaded, reads, move |service| {
        let service = service.clone();
        let mut children = Vec::new();
        if !source_doors.is_empty() {
            children.push(source::doors(source_doors, service.clone(), since));
        }
        children.push(keeper::doors(doors, our_uid, move |closing| ServiceDesk {
            service: service.clone(),
            since,
            places: places.clone(),
            at_start: Arc::clone(&at_start),
            failures: Arc::default(),
            closing,
            ready: told.ready.clone(),
            stop: told.stop.clone(),
        }));
        children
    })
}

/// Returns what a service does, with the doors that a caller adds or without any.
///
/// # Errors
/// [`Failure`] if the log is for rehearsal and a provider is not.
pub(crate) fn work(
    session: &Session,
    how: How,
    loaded: Loaded,
    at_start: Arc<AtStart>,
    doors: impl FnOnce(&ServiceHandle) -> Vec<ChildSpec> + Send + 'static,
) -> Result<ServiceArgs, Failure> {
    let data = session.places.data.clone();
    let cells = Cells::new(cells::place(&data, &environment));
    let bots = bots::specs(&loaded.config, &session.places.config);
    let extra = move |service: &ServiceHandle| {
        // Stopped against this order: the doors first, and the log writer last.
        let mut children = thoughtstream_actors::telegram::children(service, bots);
        children.extend(doors(service));
        children
    };
    let drain = Duration::from_millis(loaded.config.drain_ms);
    let brokers = Brokers::new(
        loaded.config.providers.iter().cloned(),
        Credentials::of_process(&session.places.config),
    );
    let facilities = Facilities {
        brokers: brokers.clone(),
        cells: Some(cells.clone()),
        usernames: Arc::new(bots::usernames(&loaded.config)),
        answering: Arc::new(bots::answering(&loaded.config)),
    };
    Ok(ServiceArgs {
        points: points(session, &loaded.config)?,
        producers: producers(&loaded.config, &data),
        brokers,
        data,
        disk: None,
        options: Options::default(),
        load: loader(session.places.clone(), loaded, at_start),
        compile: Arc::new(move |set: &DeclarationSet| compile(set, &facilities)),
        paused: how.paused,
        drain,
        clock: Arc::new(SystemClock),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        support: vec![cells.child()],
        extra: Box::new(extra),
    })
}

/// Returns kill points: they can be armed only in a store that was made for rehearsal, and a rehearsal asks
/// nobody but servers on this machine that want no credential, or play Telegram.
fn points(session: &Session, config: &Config) -> Result<Arc<KillPoints>, Failure> {
    let reader = open_to_read(session)?;
    let marked = rehearsal::is_rehearsal(&reader.mark());
    let real = config.providers.iter().find(|profile| profile.credential.is_some());
    if let Some(profile) = real.filter(|_| marked) {
        let what = format!("this log is for rehearsal, and the provider `{}` has a credential", profile.name);
        let failure = Failure::new(Exit::Refused, "rehearsal.real-provider", what);
        return Err(
            failure.with_hint("rehearse with another --config DIR, whose providers need no credential")
        );
    }
    if let Some(bot) = config.bots.iter().find(|bot| marked && !bot.api.is_this_machine()) {
        let what = format!("this log is for rehearsal, and `{}` is a bot of the real Telegram", bot.source);
        let failure = Failure::new(Exit::Refused, "rehearsal.real-bot", what);
        return Err(failure.with_hint("rehearse with another --config DIR, whose bots have an `api` here"));
    }
    Ok(if marked { KillPoints::for_rehearsal() } else { KillPoints::disabled() })
}

/// Hands out what was read already, and reads the configuration again for each reload.
fn loader(places: Places, first: Loaded, at_start: Arc<AtStart>) -> Load {
    let first = Mutex::new(Some(first));
    let taken = move || first.lock().unwrap_or_else(PoisonError::into_inner).take();
    Arc::new(move || match taken().map_or_else(|| load(&places), Ok) {
        Ok(loaded) => {
            at_start.note(&loaded.config);
            Ok(Taken { declarations: loaded.set, registry: loaded.registry })
        }
        Err(LoadFailure::Problems(problems)) => Err(problems),
        Err(LoadFailure::Unreadable(failure)) => {
            let message = failure.causes.iter().fold(failure.what, |text, cause| text + ": " + cause);
            let name = places.config.display().to_string();
            Err(vec![Problem::of_file(&name, crate::config::codes::UNREADABLE, message)])
        }
    })
}

/// Declares a producer for each watched folder.
pub(crate) fn producers(config: &Config, data: &Path) -> Vec<ProducerSpec> {
    let spec = |folder: &crate::config::Folder| ProducerSpec {
        source: folder.source.clone(),
        root: folder.root.clone(),
        data: data.to_owned(),
        rules: folder.rules.clone(),
        removals: RemovalRule::default(),
        watch: WatchSettings::default(),
        privacy: folder.privacy,
        runs: if folder.is_apart() { Runs::Apart } else { Runs::Here },
    };
    config.folders.iter().map(spec).collect()
}

/// Says why the service did not start.
pub(crate) fn start_failure(error: &StartError) -> Failure {
    match error {
        StartError::Problems(problems) => Failure::new(Exit::Usage, "config.problems", "nothing was loaded")
            .with_lines(&render_all(problems)),
        StartError::Open(error) => open_failure(error),
        StartError::Types(error) => types_failure(error),
        StartError::Reload(error) => reload_failure(error),
        StartError::Read(_) | StartError::Tree(_) | StartError::Recovery(_) => {
            Failure::of(Exit::CouldNotLook, "service.start", error)
        }
    }
}
