//! Taking over a set of declarations: all of it, or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use thoughtstream_domain::commit::{Refusal, Registered, Verdict};
use thoughtstream_domain::declaration::check_registered;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey};
use thoughtstream_domain::payload::system::{DeclarationsLoaded, Operator};
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::yaml::Problem;
use thoughtstream_store::RowError;

use super::handover::handover;
use super::{Enabled, Loaded, ServiceHandle};
use crate::address::Address;
use crate::consumer::{Consumer, ConsumerArgs, ConsumerMessage, ConsumerSpec};
use crate::log::LogError;
use crate::log::LogState;
use crate::recovery::{Policies, Recoverer, RecoveryError, interruption};
use crate::scribe::of_service;
use crate::supervisor::{
    ChildName, ChildSpec, CommandError, ExitReport, Initially, ReasonCode, Recovery, Shutdown, Started,
    SupervisorHandle,
};

/// Why an exit hook has to come again.
const LOG_UNWRITABLE: ReasonCode = ReasonCode::new("log-unwritable");
const LOG_UNREADABLE: ReasonCode = ReasonCode::new("log-unreadable");

/// How often a supervisor that is being restarted is asked again.
const SUPERVISOR_LOOK: Duration = Duration::from_millis(20);

/// Says why a set was not taken over; the one before it stays.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The files have problems.
    #[error("{} problems in the declarations", .0.len())]
    Problems(Vec<Problem>),
    /// A type's definition changed under an unchanged version.
    #[error("an event type changed under an unchanged version: {0}")]
    Types(String),
    /// The log could not be read.
    #[error("the log cannot be read")]
    Read(#[from] RowError),
    /// The log refused the change.
    #[error("the log refused the change: {0}")]
    Refused(Refusal),
    /// The log could not be written.
    #[error("the log cannot be written")]
    Unwritable,
    /// A consumer that had to stop did not.
    #[error("consumer {0} did not stop")]
    NotStopping(ConsumerId),
}

/// Says what a reload changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reloaded {
    /// Consumer versions that run now and did not before.
    pub started: Vec<ConsumerKey>,
    /// Consumer versions that ran before and do not now.
    pub stopped: Vec<ConsumerKey>,
    /// Consumer versions that were started anew: a family of types that they take has other members now.
    pub restarted: Vec<ConsumerKey>,
    /// Consumer versions that went on undisturbed.
    pub unchanged: Vec<ConsumerKey>,
}

impl ServiceHandle {
    /// Reads the configuration again and takes it over as a whole, and records who asked for it, if a person did.
    ///
    /// # Errors
    /// [`ReloadError`]; what ran before goes on then.
    pub async fn reload(&self, by: Option<Operator>) -> Result<Reloaded, ReloadError> {
        let _turn = self.0.turn.lock().await;
        let load = Arc::clone(&self.0.load);
        let loaded =
            tokio::task::spawn_blocking(move || load()).await.map_err(|_| ReloadError::Unwritable)?;
        self.take_over(loaded.map_err(ReloadError::Problems)?, by).await
    }

    pub(super) async fn take_over(
        &self,
        loaded: Loaded,
        by: Option<Operator>,
    ) -> Result<Reloaded, ReloadError> {
        let reader = self.reader();
        let registered = blocking(move || reader.registered_all()).await?;
        let known: BTreeMap<ConsumerKey, Sha256Hash> =
            registered.iter().map(|r| (r.consumer.clone(), r.fingerprint)).collect();
        let problems = check_registered(&loaded.declarations, &known);
        if !problems.is_empty() {
            return Err(ReloadError::Problems(problems));
        }
        let specs: Vec<Arc<ConsumerSpec>> =
            (self.0.compile)(&loaded.declarations).into_iter().map(Arc::new).collect();
        let wanted: BTreeMap<ConsumerId, Arc<ConsumerSpec>> =
            specs.into_iter().map(|spec| (spec.key.id.clone(), spec)).collect();
        let current = self.0.enabled.read().unwrap_or_else(PoisonError::into_inner).clone();
        let leaving: Vec<Enabled> = current
            .iter()
            .filter(|(id, enabled)| wanted.get(*id).is_none_or(|spec| !goes_on(&enabled.spec, spec)))
            .map(|(_, enabled)| enabled.clone())
            .collect();
        let coming: Vec<Arc<ConsumerSpec>> = wanted
            .iter()
            .filter(|(id, spec)| current.get(*id).is_none_or(|enabled| !goes_on(&enabled.spec, spec)))
            .map(|(_, spec)| Arc::clone(spec))
            .collect();
        // Once consumers are stopped for it, a reload waits out whatever keeps the log from being written.
        if *self.0.log.state().borrow() != LogState::Writable {
            return Err(ReloadError::Unwritable);
        }
        self.set_types(&loaded.registry).await?;
        let mut left = 0;
        let handed_over = async {
            for enabled in &leaving {
                left += 1;
                self.leave(enabled).await?;
            }
            self.register(&loaded, &coming, &registered, by).await
        };
        if let Err(error) = handed_over.await {
            // The set before stays whole: those that were stopped for it run again.
            for enabled in leaving.into_iter().take(left) {
                self.enable(enabled).await;
            }
            self.set_types(&self.registry()).await?;
            return Err(error);
        }
        let left: BTreeSet<ConsumerKey> = leaving.iter().map(|e| e.spec.key.clone()).collect();
        let came: BTreeSet<ConsumerKey> = coming.iter().map(|spec| spec.key.clone()).collect();
        let unchanged =
            current.values().map(|e| e.spec.key.clone()).filter(|key| !left.contains(key)).collect();
        let restarted = left.intersection(&came).cloned().collect();
        let stopped = left.difference(&came).cloned().collect();
        let started = came.difference(&left).cloned().collect();
        *self.0.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        for spec in coming {
            self.enable(Enabled { spec, address: Address::new() }).await;
        }
        Ok(Reloaded { started, stopped, restarted, unchanged })
    }

    async fn set_types(&self, registry: &Registry) -> Result<(), ReloadError> {
        let set = self.0.log.set_types(registry.hashes()).await;
        set.map_err(|_| ReloadError::Unwritable)?.map_err(ReloadError::Types)
    }

    /// Stops a consumer, and closes what it left open.
    pub(super) async fn leave(&self, enabled: &Enabled) -> Result<(), ReloadError> {
        let id = &enabled.spec.key.id;
        self.0.enabled.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        let remove = |consumers: SupervisorHandle| async move { consumers.remove(id.as_str()).await };
        match self.with_consumers(remove).await {
            // An answer that was lost is found out by asking again: it is gone.
            Ok(()) | Err(CommandError::Unknown) => {}
            Err(_) => return Err(ReloadError::NotStopping(id.clone())),
        }
        let closed = self.close_left_open(Some(&enabled.spec.key), "consumer-stopped", None).await;
        closed.map_err(|_| ReloadError::Unwritable)
    }

    /// Registers new versions, and hands progress over to them, in one commit.
    async fn register(
        &self,
        loaded: &Loaded,
        coming: &[Arc<ConsumerSpec>],
        registered: &[Registered],
        operator: Option<Operator>,
    ) -> Result<(), ReloadError> {
        let now = self.0.clock.now();
        let (reader, specs, before) = (self.reader(), coming.to_vec(), registered.to_vec());
        let incarnation = self.0.incarnation;
        let mut commit = blocking(move || handover(&reader, &specs, &before, incarnation, now)).await?;
        let enabled = loaded.declarations.enabled().map(|declared| declared.key().clone()).collect();
        let set = set_fingerprint(loaded);
        let position = *self.0.log.head().borrow();
        let event = DeclarationsLoaded { enabled, set, at: now, operator };
        commit.appends.push(of_service(&event, &format!("{}/declarations/{position}", self.0.incarnation)));
        match self.0.log.commit(commit).await {
            Ok(Verdict::Committed(_) | Verdict::AlreadyCommitted(_)) => Ok(()),
            Ok(Verdict::Refused(refusal)) => Err(ReloadError::Refused(refusal)),
            Err(LogError::Damaged { place }) => Err(ReloadError::Read(RowError::Damaged { place })),
            Ok(Verdict::Conflict(_))
            | Err(LogError::Unwritable { .. } | LogError::Unknown | LogError::Closed) => {
                Err(ReloadError::Unwritable)
            }
        }
    }

    /// Starts a consumer's actor under its supervisor, if it is not there already.
    async fn enable(&self, enabled: Enabled) {
        let id = enabled.spec.key.id.clone();
        self.0.enabled.write().unwrap_or_else(PoisonError::into_inner).insert(id, enabled.clone());
        let start = |consumers: SupervisorHandle| {
            let child = self.consumer_child(&enabled.spec, &enabled.address);
            async move { consumers.start_child(child).await }
        };
        match self.with_consumers(start).await {
            Ok(()) | Err(CommandError::NameTaken) => {}
            // The service is going down.
            Err(error) => tracing::warn!(%error, "consumers.start_failed"),
        }
    }

    /// Tells the consumers' supervisor something, again for as long as it is being restarted itself.
    async fn with_consumers<F: Future<Output = Result<(), CommandError>>>(
        &self,
        tell: impl Fn(SupervisorHandle) -> F,
    ) -> Result<(), CommandError> {
        loop {
            match tell(self.0.consumers.clone()).await {
                Err(CommandError::NoSupervisor) if !self.0.log.is_closed() => {
                    tokio::time::sleep(SUPERVISOR_LOOK).await;
                }
                told => return told,
            }
        }
    }

    fn consumer_child(&self, spec: &Arc<ConsumerSpec>, address: &Address<ConsumerMessage>) -> ChildSpec {
        let name = ChildName::parse(spec.key.id.as_str()).expect("a consumer id is a child's name");
        let (this, spec, address) = (self.clone(), Arc::clone(spec), address.clone());
        let key = spec.key.clone();
        let control = self.reader().control(&key.id).ok().flatten();
        let quarantined = control.is_some_and(|control| control.quarantined_since.is_some());
        let recoverer = self.recoverer();
        ChildSpec::new(name, "consumer", move |context| {
            let (args, address) = (this.consumer_args(&spec, &context), address.clone());
            async move {
                let actor = context.spawn(Consumer, args).await?;
                address.publish(actor.clone());
                let asked = actor.clone();
                let started = Started::new(actor.get_cell());
                Ok(started.asked_by(move |reason| drop(asked.send_message(ConsumerMessage::Drain(reason)))))
            }
        })
        .shutdown(Shutdown::Ask(Shutdown::STOP_WITHIN))
        .draining(self.0.drain)
        .initially(if quarantined { Initially::Quarantined } else { Initially::Running })
        .on_exit(move |report| recover(recoverer.clone(), key.clone(), report))
    }

    fn consumer_args(
        &self,
        spec: &Arc<ConsumerSpec>,
        context: &crate::supervisor::StartContext,
    ) -> ConsumerArgs {
        ConsumerArgs {
            spec: Arc::clone(spec),
            log: self.0.log.clone(),
            reader: self.reader(),
            registry: self.registry(),
            clock: Arc::clone(&self.0.clock),
            points: Arc::clone(&self.0.points),
            incarnation: self.0.incarnation,
            cautious: self.0.cautious || context.incarnation > 1,
            paused: self.0.paused,
            path: Arc::clone(&context.path),
            status: Arc::clone(&context.status),
        }
    }

    pub(super) fn recoverer(&self) -> Recoverer {
        let shared = Arc::downgrade(&self.0);
        let policy_of = move |key: &ConsumerKey| {
            let shared = shared.upgrade()?;
            let loaded = shared.loaded.read().unwrap_or_else(PoisonError::into_inner);
            let declared = loaded.declarations.get(&key.id).filter(|declaration| declaration.key() == key);
            declared.map(|declaration| Policies {
                interrupted: declaration.interrupted(),
                retry: declaration.retry(),
            })
        };
        Recoverer {
            reader: self.reader(),
            log: self.0.log.clone(),
            clock: Arc::clone(&self.0.clock),
            policy_of: Arc::new(policy_of),
            site: self.0.points.site(super::RECOVERY.into(), None),
            incarnation: self.0.incarnation,
        }
    }
}

/// Says whether the actor of one compiled declaration does what another says: the version is the same, and so are
/// the registered types that it stands for. Events of a type that its actor does not know of would be passed.
fn goes_on(running: &ConsumerSpec, wanted: &ConsumerSpec) -> bool {
    running.key == wanted.key
        && running.subscription().accepted_types() == wanted.subscription().accepted_types()
}

/// Closes what an ended consumer left open, before its successor starts.
async fn recover(recoverer: Recoverer, key: ConsumerKey, report: ExitReport) -> Recovery {
    match recoverer.close_open(Some(&key), interruption(report.exit)).await {
        Ok(_) => Recovery::Done,
        Err(RecoveryError::Unwritable) => Recovery::Later(LOG_UNWRITABLE),
        Err(RecoveryError::Unreadable) => Recovery::Failed(LOG_UNREADABLE),
        Err(RecoveryError::Fault(fault)) => Recovery::Failed(fault.0),
    }
}

/// Names a whole set by the fingerprints of what is enabled in it.
fn set_fingerprint(loaded: &Loaded) -> Sha256Hash {
    let mut bytes = Vec::new();
    for declaration in loaded.declarations.enabled() {
        bytes.extend_from_slice(declaration.key().to_string().as_bytes());
        bytes.extend_from_slice(declaration.fingerprint().as_bytes());
    }
    Sha256Hash::of(&bytes)
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, RowError> + Send + 'static,
) -> Result<T, ReloadError> {
    let read = tokio::task::spawn_blocking(read).await.map_err(|_| ReloadError::Unwritable)?;
    Ok(read?)
}
