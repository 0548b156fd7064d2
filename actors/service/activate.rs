//! What the service does for an activation: holds a bot back, brings the version before to its end, and says what the
//! new version's actor has loaded. In which order, and what is written down in between, is its caller's business.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use thoughtstream_domain::activation::{self, Activation};
use thoughtstream_domain::commit::{Commit, Refusal, Verdict};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, SourceId};
use thoughtstream_domain::payload::activation::Step;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader, RowError};
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use super::{Enabled, ReloadError, ServiceHandle};
use crate::consumer::{ConsumerSpec, Work};
use crate::log::LogError;
use crate::supervisor::ChildState;
use crate::telegram::gate::Gate;

/// A bot that takes an update with images is done with it by then.
const RESTS_WITHIN: Duration = Duration::from_secs(120);

/// How long the version before has to do what had come in: a model may take a minute for each.
const DRAINS_WITHIN: Duration = Duration::from_secs(180);

/// How often is looked whether it is done, though nothing was written.
const DRAIN_LOOK: Duration = Duration::from_secs(1);

/// How long the new version's actor has to come up.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// How often is looked whether it is up.
const START_LOOK: Duration = Duration::from_millis(20);

/// Says why a step of an activation was not done.
#[derive(Debug, thiserror::Error)]
pub enum ActivateError {
    /// Another one is under way.
    #[error("an activation is under way already")]
    Busy,
    /// The bot did not come to rest.
    #[error("{0} does not come to rest")]
    Restless(SourceId),
    /// The version before has not done what had come in.
    #[error("{consumer} has not finished what came in before: {waiting} events or executions are open")]
    Unfinished {
        /// The version.
        consumer: ConsumerKey,
        /// How much of it is open, as far as was looked.
        waiting: usize,
    },
    /// The log could not be read.
    #[error("the log cannot be read")]
    Read(#[from] RowError),
    /// The log could not be written, or its answer was lost.
    #[error("the step is not known to be recorded")]
    Log(#[from] LogError),
    /// Somebody else did something else in between.
    #[error("the log refused the step: {0}")]
    Refused(Refusal),
    /// Somebody else began another one.
    #[error("another activation was begun in between")]
    Conflict,
    /// The declarations were not taken over.
    #[error("the declarations were not taken over")]
    Reload(#[from] ReloadError),
    /// Something ended that should not.
    #[error("the step was interrupted")]
    Interrupted,
}

/// Is what a running version has loaded, as far as it can be seen from outside of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFacts {
    /// The version that is enabled.
    pub key: ConsumerKey,
    /// Its fingerprint.
    pub fingerprint: Sha256Hash,
    /// The fingerprint that the log has bound the version to.
    pub registered: Option<Sha256Hash>,
    /// Whether its actor handles messages.
    pub running: bool,
    /// Where it stands on the frozen source.
    pub progress: Option<u64>,
    /// The last event of the frozen source.
    pub head: u64,
    /// The worker's program that its runs are given; nothing if it asks no model.
    pub worker: Option<Bundle>,
}

/// Is a worker's program: as it was opened, and as it lies on the disk now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bundle {
    /// The hash of what sandboxes run.
    pub loaded: Option<Sha256Hash>,
    /// The hash of the file beside this program.
    pub on_disk: Option<Sha256Hash>,
}

/// Returns a consumer's last activation.
///
/// # Errors
/// [`RowError`] if the log cannot be read.
pub fn last_activation(reader: &Reader, consumer: &ConsumerId) -> Result<Option<Activation>, RowError> {
    activation::last(consumer, |id| reader.event(id))
}

/// Returns the activation that a version which comes for the first time is the next step of.
pub(super) fn installing(reader: &Reader, spec: &ConsumerSpec) -> Result<Option<Activation>, RowError> {
    let found = last_activation(reader, &spec.key.id)?;
    Ok(found.filter(|activation| {
        activation.next() == Some(Step::Installed)
            && activation.begun.to == spec.key
            && activation.begun.fingerprint == spec.fingerprint
    }))
}

impl ServiceHandle {
    /// Returns the gate of a source; one that is asked for first is closed if an activation holds it back.
    pub(crate) fn gate(&self, source: &SourceId) -> Arc<Gate> {
        let mut gates = self.0.gates.write().unwrap_or_else(PoisonError::into_inner);
        let gate = gates.entry(source.clone()).or_insert_with(|| {
            // A log that cannot be read says nothing against an activation that holds it back.
            Arc::new(Gate::new(self.is_frozen(source).unwrap_or(true)))
        });
        Arc::clone(gate)
    }

    fn is_frozen(&self, source: &SourceId) -> Result<bool, RowError> {
        let registered = self.0.reader.registered_all()?;
        let consumers: BTreeSet<ConsumerId> = registered.into_iter().map(|row| row.consumer.id).collect();
        for consumer in &consumers {
            let found = last_activation(&self.0.reader, consumer)?;
            if found.is_some_and(|found| found.holds_back() && found.begun.source == *source) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the turn of activations; whoever comes second is told, and does not wait.
    ///
    /// # Errors
    /// [`ActivateError::Busy`].
    pub fn activating(&self) -> Result<MutexGuard<'_, ()>, ActivateError> {
        self.0.activating.try_lock().map_err(|_| ActivateError::Busy)
    }

    /// Closes the gate of a bot, and waits until it rests.
    ///
    /// # Errors
    /// [`ActivateError::Restless`]; the gate stays closed.
    pub async fn freeze(&self, source: &SourceId) -> Result<(), ActivateError> {
        let gate = self.gate(source);
        gate.close();
        let resting = timeout(RESTS_WITHIN, gate.until_resting()).await;
        resting.map_err(|_| ActivateError::Restless(source.clone()))
    }

    /// Opens the gate of a bot.
    pub fn thaw(&self, source: &SourceId) {
        self.gate(source).open();
    }

    /// Writes a step down, and waits until that is known.
    ///
    /// # Errors
    /// [`ActivateError`] if it is not written.
    pub async fn record(&self, commit: Commit) -> Result<(), ActivateError> {
        match self.0.log.offer_until_known(commit).await? {
            Verdict::Committed(_) | Verdict::AlreadyCommitted(_) => Ok(()),
            Verdict::Conflict(_) => Err(ActivateError::Conflict),
            Verdict::Refused(refusal) => Err(ActivateError::Refused(refusal)),
        }
    }

    /// Waits until a version has done everything that came in from the frozen source, then stops its actor. Returns
    /// the source's last event. A version that does not run any more must have done everything already.
    ///
    /// # Errors
    /// [`ActivateError::Unfinished`] if that takes too long or waits for a person; it goes on then.
    pub async fn finish(&self, version: &ConsumerKey, source: &SourceId) -> Result<u64, ActivateError> {
        let begun = Instant::now();
        let mut head = self.head();
        loop {
            head.borrow_and_update();
            let (reader, version, source) = (self.reader(), version.clone(), source.clone());
            let enabled = self.enabled_as(&version);
            let spec = enabled.as_ref().map(|enabled| Arc::clone(&enabled.spec));
            let looked = {
                let (version, source) = (version.clone(), source.clone());
                tokio::task::spawn_blocking(move || open_work(&reader, &version, spec.as_deref(), &source))
                    .await
            };
            let open = looked.map_err(|_| ActivateError::Interrupted)??;
            if open.work == 0 {
                if let Some(enabled) = enabled {
                    let _turn = self.0.turn.lock().await;
                    self.leave(&enabled).await?;
                }
                return Ok(open.head);
            }
            if open.waits_for_a_person || enabled.is_none() || begun.elapsed() > DRAINS_WITHIN {
                return Err(ActivateError::Unfinished { consumer: version, waiting: open.work });
            }
            drop(timeout(DRAIN_LOOK, head.changed()).await);
        }
    }

    fn enabled_as(&self, version: &ConsumerKey) -> Option<Enabled> {
        let enabled = self.0.enabled.read().unwrap_or_else(PoisonError::into_inner);
        enabled.get(&version.id).filter(|enabled| enabled.spec.key == *version).cloned()
    }

    /// Says what a consumer's actor has loaded, once it is up; nothing if no version of it is enabled.
    ///
    /// # Errors
    /// [`ActivateError::Read`] if the log cannot be read.
    pub async fn loaded(
        &self,
        consumer: &ConsumerId,
        source: &SourceId,
    ) -> Result<Option<LoadedFacts>, ActivateError> {
        let enabled = self.0.enabled.read().unwrap_or_else(PoisonError::into_inner).get(consumer).cloned();
        let Some(enabled) = enabled else { return Ok(None) };
        let begun = Instant::now();
        while self.is_coming(consumer) && begun.elapsed() < STARTS_WITHIN {
            tokio::time::sleep(START_LOOK).await;
        }
        let spec = enabled.spec;
        let worker = match &spec.work {
            Work::Model(model) => Some(model.bundle().await),
            Work::Transform(_) => None,
        };
        let (reader, key, place) = (self.reader(), spec.key.clone(), source.clone());
        let read = tokio::task::spawn_blocking(move || -> Result<_, RowError> {
            let head = reader.head(&place)?.map_or(0, |head| head.sequence);
            // A bot that nobody has written to yet has no row; whoever reads it begins before its first event.
            let progress = reader.progress_row(&key, &place)?.or((head == 0).then_some(0));
            Ok((reader.registered(&key)?, progress, head))
        });
        let (registered, progress, head) = read.await.map_err(|_| ActivateError::Interrupted)??;
        Ok(Some(LoadedFacts {
            key: spec.key.clone(),
            fingerprint: spec.fingerprint,
            registered: registered.map(|row| row.fingerprint),
            running: self.is_running(consumer),
            progress,
            head,
            worker,
        }))
    }

    fn is_running(&self, consumer: &ConsumerId) -> bool {
        self.state_of(consumer) == Some(ChildState::Running)
    }

    /// Says whether it may run in a moment; one that is quarantined waits for a person.
    fn is_coming(&self, consumer: &ConsumerId) -> bool {
        !matches!(self.state_of(consumer), Some(ChildState::Running | ChildState::Quarantined))
    }

    fn state_of(&self, consumer: &ConsumerId) -> Option<ChildState> {
        let tree = self.0.consumers.snapshot();
        tree.children.iter().find(|child| child.name == consumer.as_str()).map(|child| child.state)
    }
}

/// Is what a version has not done yet.
struct Open {
    work: usize,
    waits_for_a_person: bool,
    head: u64,
}

/// Counts what a version has begun and not closed, and what it has not begun, on a source.
fn open_work(
    reader: &Reader,
    version: &ConsumerKey,
    spec: Option<&ConsumerSpec>,
    source: &SourceId,
) -> Result<Open, RowError> {
    use thoughtstream_domain::lifecycle::ExecutionState;
    let head = reader.head(source)?.map_or(0, |head| head.sequence);
    let unsettled = reader.unsettled(version, 0, PAGE_ROWS_MAX)?;
    let ours: Vec<_> = unsettled.iter().filter(|execution| execution.source == *source).collect();
    let held = ours.iter().any(|execution| matches!(execution.state, ExecutionState::Held { .. }));
    let paused = reader.control(&version.id)?.is_some_and(|control| control.is_paused());
    let mut work = ours.len();
    if let Some(spec) = spec {
        let claims = reader.claims(version, source, usize::MAX)?;
        let claimed: BTreeSet<u64> = claims.iter().map(|claim| claim.sequence).collect();
        for event in reader.walk_after(&spec.types(), source, reader.progress(version, source)?) {
            let event = event?;
            let waits = !claimed.contains(&event.sequence) && spec.subscription().matches(&event);
            work += usize::from(waits);
        }
    }
    Ok(Open { work, waits_for_a_person: held || paused, head })
}
