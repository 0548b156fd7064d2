//! What a consumer needs to know of its declaration.

use std::sync::Arc;

use thoughtstream_domain::declaration::{Declaration, LifecycleMode, VersionChange};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, SourceId, TypeName};
use thoughtstream_domain::lane::Limits;
use thoughtstream_domain::lifecycle::Frame;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::retry::{Interrupted, RetryPolicy};
use thoughtstream_domain::subscription::Subscription;
use thoughtstream_domain::time::Timestamp;

use super::model::{Facilities, ModelWork};
use crate::hub::SourceFilter;
use crate::runner::{Deterministic, Runner};

/// Is a declaration, compiled for its actor.
pub struct ConsumerSpec {
    /// The consumer version.
    pub key: ConsumerKey,
    /// The declaration's fingerprint.
    pub fingerprint: Sha256Hash,
    /// Its bounds.
    pub limits: Limits,
    /// How attempts are recorded.
    pub lifecycle: LifecycleMode,
    /// What follows a failure.
    pub retry: RetryPolicy,
    /// What follows an interruption.
    pub interrupted: Interrupted,
    /// The weakest class of its outputs.
    pub privacy_floor: Privacy,
    /// What it may write.
    pub emit: Vec<TypeName>,
    /// What it does.
    pub work: Work,
    /// What becomes of progress when this version takes over from another.
    pub on_version_change: VersionChange,
    /// The declaration itself.
    pub declaration: Arc<Declaration>,
}

/// Is what a consumer does with its triggers.
#[derive(Clone)]
pub enum Work {
    /// It makes outputs of them by itself.
    Transform(Arc<dyn Runner>),
    /// It asks a model.
    Model(Arc<ModelWork>),
}

impl std::fmt::Debug for ConsumerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerSpec").field("key", &self.key).finish_non_exhaustive()
    }
}

impl ConsumerSpec {
    /// Compiles a declaration; one that asks a model does so through `facilities`.
    #[must_use]
    pub fn of(declaration: &Arc<Declaration>, facilities: &Facilities) -> Self {
        let subscription = declaration.subscription();
        let batch = subscription.batch();
        let context = declaration.context();
        let work = match ModelWork::of(declaration, facilities) {
            Some(model) => Work::Model(Arc::new(model)),
            None => Work::Transform(Arc::new(Deterministic {
                transform: declaration.runner().transform().unwrap_or_default().to_owned(),
                characters_max: usize::try_from(context.max_chars).unwrap_or(usize::MAX),
            })),
        };
        Self {
            key: declaration.key().clone(),
            fingerprint: declaration.fingerprint(),
            limits: Limits {
                batch_max: usize::try_from(batch.max.min(context.max_events)).unwrap_or(1).max(1),
                batch_wait_ms: batch.wait_ms,
                concurrency: usize::try_from(subscription.concurrency()).unwrap_or(1).max(1),
            },
            lifecycle: declaration.lifecycle(),
            retry: declaration.retry(),
            interrupted: declaration.interrupted(),
            privacy_floor: declaration.privacy_floor(),
            emit: declaration.emit().iter().cloned().collect(),
            work,
            on_version_change: declaration.on_version_change().clone(),
            declaration: Arc::clone(declaration),
        }
    }

    /// Returns what it listens to.
    #[must_use]
    pub fn subscription(&self) -> &Subscription {
        self.declaration.subscription()
    }

    /// Returns what an attempt's commits bind.
    #[must_use]
    pub fn frame(&self, incarnation: u64, now: Timestamp) -> Frame {
        Frame {
            consumer: self.key.clone(),
            fingerprint: self.fingerprint,
            privacy_floor: self.privacy_floor,
            incarnation,
            now,
            adapter: self.declaration.runner().adapter_revision(),
        }
    }

    /// Returns which sources wake it.
    #[must_use]
    pub fn filter(&self) -> SourceFilter {
        SourceFilter {
            sources: self.subscription().sources().clone(),
            kinds: self.subscription().kinds().clone(),
        }
    }

    /// Returns the registered types it listens to.
    #[must_use]
    pub fn types(&self) -> Vec<TypeName> {
        self.subscription().accepted_types().iter().cloned().collect()
    }

    /// Says whether events of this source are for it.
    #[must_use]
    pub fn includes(&self, source: &SourceId) -> bool {
        self.subscription().includes(source)
    }
}
