//! A look at a source that a person asks for: it is through when that is said, or it is said why it is not.

use std::time::Duration;

use thoughtstream_actors::log::{LogError, LogState};
use thoughtstream_actors::service::OperateError;
use thoughtstream_domain::id::SourceId;
use tokio::time::{sleep, timeout};

use super::{ServiceDesk, actor_failure, log_failure};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::Done;
use crate::socket::Reply;

/// A look at a large folder takes its time; one that takes longer goes on by itself.
const LOOK_PATIENCE: Duration = Duration::from_secs(300);

/// A log that cannot be written for so long keeps a look that found something from its end.
const UNWRITABLE_PATIENCE: Duration = Duration::from_secs(3);

impl ServiceDesk {
    /// Has a source looked at, and waits until a look that began after this is through. A bot is asked at once and
    /// not waited for: what it says is recorded as it comes.
    pub(super) async fn look_at(&self, source: &SourceId, reply: &Reply) -> Result<Exit, Failure> {
        let mut note = None;
        if self.service.is_bot(source.as_str()) {
            self.service.look_at(source.as_str()).map_err(actor_failure)?;
        } else {
            // One that is not there is refused, and not waited for.
            let looking = timeout(LOOK_PATIENCE, self.service.looked_at(source.as_str()));
            let looked = tokio::select! {
                biased;
                looked = looking => looked.map_err(|_| still_looking(source))?,
                code = self.unwritable() => return Err(log_failure(&LogError::Unwritable { code })),
            };
            match looked {
                Ok(Some(true)) => {}
                Ok(Some(false)) => {
                    let whole = format!("not all of it could be looked at: `thought why {source}` says more");
                    note = Some(whole);
                }
                Ok(None) => return Err(self.not_looked(source)),
                Err(error) => return Err(actor_failure(error)),
            }
        }
        let (done, id) = ("looked".to_owned(), source.to_string());
        self.say(reply, &Done { done, id, already: false, note, event: None }).await
    }

    /// Waits until the log could not be written for a while: what a look finds waits for that.
    async fn unwritable(&self) -> String {
        let mut state = self.service.log_state();
        loop {
            if state.wait_for(|state| *state != LogState::Writable).await.is_err() {
                // The service is on its way out, and the look ends with it.
                std::future::pending::<()>().await;
            }
            sleep(UNWRITABLE_PATIENCE).await;
            match &*state.borrow_and_update() {
                LogState::Writable => {}
                LogState::Unwritable { code: why, .. } | LogState::Damaged { what: why } => {
                    return why.clone();
                }
            }
        }
    }

    /// Says why nobody looked.
    fn not_looked(&self, source: &SourceId) -> Failure {
        if let Some(sitter) = self.service.silent_producer(source.as_str()) {
            let pid = sitter.pid;
            let what =
                format!("the producer of {source} (process {pid}) does not answer: nothing was looked at");
            return Failure::new(Exit::CouldNotLook, "source.not-answering", what).with_hint(format!(
                "if it is stuck, end that process and start it anew: `thought serve --producer-only {source}`"
            ));
        }
        if !self.service.has_producer(source.as_str()) {
            return actor_failure(OperateError::NotConnected);
        }
        let what = format!("the look at {source} ended before it was through");
        Failure::new(Exit::CouldNotLook, "source.not-looked", what)
            .with_hint(format!("try again; `thought why {source}` says how it is doing"))
    }
}

fn still_looking(source: &SourceId) -> Failure {
    let what = format!("{source} is still being looked at after {} s", LOOK_PATIENCE.as_secs());
    Failure::new(Exit::CouldNotLook, "source.still-looking", what)
        .with_hint(format!("the look goes on by itself; `thought why {source}` says how it is doing"))
}
