//! Whose turn it is: a message is not composed while the reply to the one before it is on its way out.
//!
//! Nothing is opened meanwhile, so a consumer that ends or is stopped leaves nothing behind, and the wait is
//! bounded by when that reply was settled: a dispatcher that stands still delays an answer and never stops one.

use std::sync::Arc;
use std::time::Duration;

use thoughtstream_domain::declaration::ContextStrategy;
use thoughtstream_domain::dispatch::AwaitedReply;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::lifecycle::Execution;
use thoughtstream_domain::payload::delivery;
use thoughtstream_store::RowError;
use tokio::sync::Notify;

use super::super::attempt::{Attempt, Ended};
use super::ModelWork;
use crate::hub::SourceFilter;
use crate::supervisor::Detail;

/// The longest time between two looks, whoever rings or does not.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Under which name the tree shows the output that is waited for.
const AWAITED: &str = "awaitedReply";

impl Attempt {
    /// Waits until it is known what became of the reply to the message before this one, or nobody asks any more.
    pub(super) async fn await_turn(
        &self,
        work: &ModelWork,
        execution: &Execution,
        events: &[Event],
    ) -> Result<(), Ended> {
        let ContextStrategy::Conversation(_) = &work.runner.strategy else { return Ok(()) };
        let answering = work.facilities.answering.get(&execution.source);
        if answering != Some(&execution.consumer.id) {
            return Ok(());
        }
        let bell = Arc::new(Notify::new());
        let rung = Arc::clone(&bell);
        let deliveries = [delivery::source(&execution.source)].into();
        let filter = SourceFilter { sources: deliveries, ..SourceFilter::default() };
        // It listens before it looks, so that no end falls in between.
        let _heard = self.log.hub().subscribe(delivery::ends(), filter, Arc::new(move || rung.notify_one()));
        let told = Told { attempt: self };
        let mut leaving = self.leaving.clone();
        loop {
            let Some(awaited) = self.awaited(execution, events).await? else { return Ok(()) };
            let now = self.clock.now();
            let Some(until) = awaited.until(now) else { return Ok(()) };
            told.waits_for(&awaited);
            let left = u64::try_from(until.millis_since(now)).unwrap_or(0);
            tokio::select! {
                () = bell.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(left.max(1)).min(LOOK_AGAIN)) => {}
                // Nothing of it is in the log: whoever comes next begins anew.
                _ = leaving.wait_for(|leaving| *leaving) => return Err(Ended::Paused),
            }
        }
    }

    async fn awaited(&self, execution: &Execution, events: &[Event]) -> Result<Option<AwaitedReply>, Ended> {
        let Some(event) = events.first().cloned() else { return Ok(None) };
        let (reader, execution) = (self.reader.clone(), execution.clone());
        let look = tokio::task::spawn_blocking(move || -> Result<Option<AwaitedReply>, Ended> {
            // What a later attempt sees is sealed, and no reply changes it.
            if reader.has_packet(&execution.consumer, &execution.id)? {
                return Ok(None);
            }
            match reader.awaited_reply(&event, &execution.consumer.id) {
                // What is damaged there is met again where the context is composed, and named.
                Err(RowError::Damaged { .. }) => Ok(None),
                awaited => Ok(awaited?),
            }
        });
        look.await.map_err(|_| Ended::Unreadable(None))?
    }
}

/// Says in the tree what is waited for, and takes it back at the end of the wait.
struct Told<'a> {
    attempt: &'a Attempt,
}

impl Told<'_> {
    fn waits_for(&self, awaited: &AwaitedReply) {
        self.attempt.status.set(AWAITED, Detail::id(&awaited.output));
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.attempt.status.clear(AWAITED);
    }
}
