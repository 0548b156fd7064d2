//! Bringing the service up: store, tree, recovery, declarations, in this order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thoughtstream_domain::commit::{Commit, Verdict};
use thoughtstream_domain::id::{ConsumerKey, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system::{ServiceStarted, ServiceStopped};
use thoughtstream_domain::yaml::Problem;
use thoughtstream_store::{OpenError, Reader, RowError, Store, TypesError};
use tokio::time::Instant;

use super::ledger::StoreLedger;
use super::{APART, Extra, Loaded, ROOT, ReloadError, Service, ServiceArgs, ServiceHandle, Shared, Watched};
use crate::address::Address;
use crate::broker::Brokers;
use crate::log::{LogError, LogHandle, LogState, LogWriter, WriterArgs};
use crate::materializer::{self, ContextRoot};
use crate::producer::apart::{Apart, Seat};
use crate::producer::{Producer, ProducerArgs, ProducerSpec, Runs, SkippedSlot};
use crate::recovery::{RecoveryError, SERVICE_ENDED};
use crate::scribe::{Scribe, ScribeArgs, of_service};
use crate::supervisor::{
    ChildName, ChildSpec, ChildState, Env, NoticeQueue, RestartPolicy, Shutdown, Started, Strategy,
    SupervisorHandle, SupervisorSpec, launch,
};

/// The name of the log writer in the tree.
const LOG: &str = "log";

/// How long the log writer has to finish what waits when the service stops.
const WRITER_STOPS_WITHIN: Duration = Duration::from_secs(10);

/// How long a start waits for a log that cannot be written: long enough for a writer that died to be replaced,
/// short enough for a full disk to be reported.
const LOG_PATIENCE: Duration = Duration::from_secs(5);

/// How often somebody who waits for the log looks whether it is still worth waiting.
const LOG_LOOK: Duration = Duration::from_millis(100);

/// Says why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration has problems.
    #[error("{} problems in the configuration", .0.len())]
    Problems(Vec<Problem>),
    /// The store could not be opened.
    #[error("the store cannot be opened")]
    Open(#[from] OpenError),
    /// A type's definition changed under an unchanged version.
    #[error("event types do not fit the log")]
    Types(#[from] TypesError),
    /// The log could not be read.
    #[error("the log cannot be read")]
    Read(#[from] RowError),
    /// The tree did not come up.
    #[error("the tree did not come up: {0}")]
    Tree(crate::supervisor::StartError),
    /// What an earlier service left open could not be closed.
    #[error("what was left open could not be closed")]
    Recovery(#[from] RecoveryError),
    /// The declarations were not taken over.
    #[error("the declarations were not taken over")]
    Reload(#[from] ReloadError),
}

/// Is a store that was opened, with what is left of the arguments.
struct Opened {
    handle: ServiceHandle,
    clean: Option<bool>,
    producers: Vec<ProducerSpec>,
    brokers: Brokers,
    program: String,
    support: Vec<ChildSpec>,
    extra: Extra,
}

/// Opens the store and makes what everybody shares.
fn open(args: ServiceArgs, loaded: &Loaded, consumers: &SupervisorSpec) -> Result<Opened, StartError> {
    let mut store = match args.disk {
        Some(disk) => Store::open_on(disk, args.options)?,
        None => Store::open(&args.data, args.options)?,
    };
    store.writer.set_types(loaded.registry.hashes())?;
    let incarnation = store.writer.incarnation();
    let reader = store.reader.clone();
    let clean = stopped_in_order(&reader)?;
    let head = reader.last_position()?;
    let ledger = StoreLedger::new(store.writer, reader.clone(), Arc::clone(&args.clock), head);
    let handle = ServiceHandle(Arc::new(Shared {
        log: LogHandle::new(head),
        reader,
        clock: args.clock,
        points: args.points,
        incarnation,
        cautious: clean == Some(false),
        paused: args.paused,
        drain: args.drain,
        load: args.load,
        compile: args.compile,
        consumers: consumers.handle(),
        enabled: std::sync::RwLock::default(),
        loaded: std::sync::RwLock::new(Loaded {
            declarations: thoughtstream_domain::declaration::DeclarationSet::default(),
            registry: Arc::clone(&loaded.registry),
        }),
        watched: std::sync::RwLock::default(),
        gates: std::sync::RwLock::default(),
        ledger: Arc::new(Mutex::new(ledger)),
        turn: tokio::sync::Mutex::default(),
        activating: tokio::sync::Mutex::default(),
        context_root: ContextRoot::among(&args.producers).map(Arc::new),
        root: std::sync::OnceLock::new(),
        stopped_by: std::sync::OnceLock::new(),
    }));
    let ServiceArgs { producers, brokers, program, support, extra, .. } = args;
    Ok(Opened { handle, clean, producers, brokers, program, support, extra })
}

impl Service {
    /// Starts the service: when this returns, everything an earlier one left open is closed and every enabled
    /// consumer is declared to its supervisor.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub async fn start(args: ServiceArgs) -> Result<Self, StartError> {
        let loaded = (args.load)().map_err(StartError::Problems)?;
        let close_within = SupervisorSpec::CLOSE_WITHIN.max(args.drain + Shutdown::STOP_WITHIN);
        let consumers = SupervisorSpec::pool(ChildName::fixed("consumers")).close_within(close_within);
        let Opened { handle, clean, producers, brokers, program, support, extra } =
            open(args, &loaded, &consumers)?;
        let (notices, received) = NoticeQueue::new(NoticeQueue::CAPACITY);
        let incarnation = handle.0.incarnation;
        let scribe = ScribeArgs {
            notices: Arc::new(tokio::sync::Mutex::new(received)),
            log: handle.0.log.clone(),
            reader: handle.reader(),
            incarnation,
            status: Arc::default(),
        };
        let mut root = SupervisorSpec::new(ChildName::fixed(ROOT), Strategy::OneForOne)
            .child(handle.writer_child())
            .child(ChildSpec::actor(ChildName::fixed("scribe"), "scribe", move |context| {
                (Scribe, ScribeArgs { status: Arc::clone(&context.status), ..scribe.clone() })
            }));
        if let Some(brokers) = brokers.pool(&handle.0.points) {
            root = root.nested(brokers);
        }
        for child in support {
            root = root.child(child);
        }
        let materializer = materializer::child(&handle);
        root = root.nested(consumers).nested(handle.producers_pool(producers)).child(materializer);
        for child in extra(&handle) {
            root = root.child(child);
        }
        let env = Env::new(incarnation, Arc::new(notices));
        let root = launch(root, env).await.map_err(StartError::Tree)?;
        tokio::spawn(tell_who_waits(root.handle().clone(), handle.0.log.clone()));
        // The cell is empty: this is the only place that fills it.
        drop(handle.0.root.set(root.handle().clone()));
        let service = Self { handle, root };
        match service.settle_in(loaded, clean, program).await {
            Ok(()) => Ok(service),
            Err(error) => {
                service.stop();
                service.ended().await;
                Err(error)
            }
        }
    }

    /// Closes what was left open, says that the service started, and takes the declarations over.
    async fn settle_in(
        &self,
        loaded: Loaded,
        clean: Option<bool>,
        program: String,
    ) -> Result<(), StartError> {
        let handle = &self.handle;
        // Recovery asks the declarations what follows an interruption.
        let before = {
            let mut current = handle.0.loaded.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, loaded.clone())
        };
        drop(before);
        let patience = Some(Instant::now() + LOG_PATIENCE);
        handle.close_left_open(None, SERVICE_ENDED, patience).await?;
        let incarnation = handle.0.incarnation;
        let started = ServiceStarted { incarnation, after_clean_stop: clean.unwrap_or(true), program };
        let started = of_service(&started, &format!("{incarnation}/started"));
        let commit = Commit { appends: vec![started], ..Commit::default() };
        loop {
            match handle.0.log.offer_until_known(commit.clone()).await {
                Ok(Verdict::Committed(_) | Verdict::AlreadyCommitted(_)) => break,
                Err(LogError::Unwritable { .. } | LogError::Unknown) => handle.log_returns(patience).await?,
                Err(LogError::Damaged { .. }) => return Err(RecoveryError::Unreadable.into()),
                Ok(Verdict::Conflict(_) | Verdict::Refused(_)) | Err(LogError::Closed) => {
                    return Err(RecoveryError::Unwritable.into());
                }
            }
        }
        let _turn = handle.0.turn.lock().await;
        handle.take_over(loaded, None).await?;
        Ok(())
    }
}

/// Once the writer is down for good, whoever still waits for it is told so: a service that has given its writer up
/// would else wait out the bounds of all the others before it ends.
async fn tell_who_waits(root: SupervisorHandle, log: LogHandle) {
    root.wait_until(LOG, |writer| writer.state == ChildState::Stopped).await;
    log.abandon();
}

/// Says whether the service before this one stopped in order; `None` if there was none.
fn stopped_in_order(reader: &Reader) -> Result<Option<bool>, RowError> {
    let source = SourceId::supervision();
    let Some(head) = reader.head(&source)? else { return Ok(None) };
    let last = reader.event_in(&source, head.sequence)?;
    Ok(Some(last.is_some_and(|event| event.kind == ServiceStopped::kind())))
}

impl ServiceHandle {
    /// Ends what was left open, of one consumer version or of all, and waits out a log that cannot be written.
    pub(super) async fn close_left_open(
        &self,
        consumer: Option<&ConsumerKey>,
        code: &str,
        until: Option<Instant>,
    ) -> Result<(), RecoveryError> {
        loop {
            match self.recoverer().close_open(consumer, code).await {
                Ok(_) => return Ok(()),
                Err(RecoveryError::Unwritable) => self.log_returns(until).await?,
                Err(error @ (RecoveryError::Unreadable | RecoveryError::Fault(_))) => return Err(error),
            }
        }
    }

    /// Waits a while for the log to take commits again.
    async fn log_returns(&self, until: Option<Instant>) -> Result<(), RecoveryError> {
        let mut state = self.0.log.state();
        let damaged = matches!(&*state.borrow_and_update(), LogState::Damaged { .. });
        if damaged || self.0.log.is_closed() || until.is_some_and(|until| Instant::now() >= until) {
            return Err(RecoveryError::Unwritable);
        }
        // A change says more than the time; both lead to another look.
        drop(tokio::time::timeout(LOG_LOOK, state.changed()).await);
        Ok(())
    }

    fn writer_child(&self) -> ChildSpec {
        let this = self.clone();
        ChildSpec::new(ChildName::fixed(LOG), "log-writer", move |context| {
            let args = WriterArgs {
                log: this.0.log.clone(),
                ledger: Arc::clone(&this.0.ledger) as _,
                points: Arc::clone(&this.0.points),
                path: Arc::clone(&context.path),
                status: Arc::clone(&context.status),
                now: {
                    let clock = Arc::clone(&this.0.clock);
                    Arc::new(move || clock.now())
                },
            };
            let (log, probed) = (this.0.log.clone(), this.0.log.clone());
            async move {
                let actor = context.spawn(LogWriter, args).await?;
                // Closing the queue lets the writer finish what waits; it then stops by itself.
                let started = Started::new(actor.get_cell()).asked_by(move |_| log.close());
                // The actor handles messages although its thread may be stuck: the thread is asked.
                Ok(started.probed_by(move || {
                    let probed = probed.clone();
                    Box::pin(async move { probed.answers().await })
                }))
            }
        })
        .policy(RestartPolicy::escalate())
        .shutdown(Shutdown::Ask(WRITER_STOPS_WITHIN))
    }

    fn producers_pool(&self, specs: Vec<ProducerSpec>) -> SupervisorSpec {
        let mut pool = SupervisorSpec::pool(ChildName::fixed("producers"));
        let mut watched = BTreeMap::new();
        for spec in specs {
            let name = ChildName::parse(spec.source.as_str()).expect("a source is a child's name");
            let (this, address, spec) = (self.clone(), Address::new(), Arc::new(spec));
            let skipped = Arc::new(SkippedSlot::default());
            let seat = (spec.runs == Runs::Apart).then(|| Seat::new(Arc::clone(&self.0.clock)));
            let one = Watched {
                spec: Arc::clone(&spec),
                address: address.clone(),
                skipped: Arc::clone(&skipped),
                seat: seat.clone(),
            };
            watched.insert(spec.source.to_string(), one);
            if let Some(seat) = seat {
                pool = pool.child(ChildSpec::actor_at(name, APART, address, move |context| {
                    (Apart, (Arc::clone(&seat), Arc::clone(&context.status)))
                }));
                continue;
            }
            pool = pool.child(ChildSpec::actor_at(name, "producer", address, move |context| {
                let args = ProducerArgs {
                    spec: Arc::clone(&spec),
                    log: this.0.log.clone(),
                    reader: this.reader(),
                    clock: Arc::clone(&this.0.clock),
                    points: Arc::clone(&this.0.points),
                    incarnation: this.0.incarnation,
                    path: Arc::clone(&context.path),
                    status: Arc::clone(&context.status),
                    skipped: Arc::clone(&skipped),
                };
                (Producer, args)
            }));
        }
        *self.0.watched.write().unwrap_or_else(PoisonError::into_inner) = watched;
        pool
    }
}
