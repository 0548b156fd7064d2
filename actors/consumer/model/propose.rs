//! What an accepted message proposes, made into the events that settle with its output.
//!
//! Who proposes, and what about, follows from the run and from what its context admitted; a correction's whole value is
//! made of the output that it is about, as the log has it.

use thoughtstream_domain::contract::Observation;
use thoughtstream_domain::event::Candidate;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::judgment::Judged;
use thoughtstream_domain::lifecycle::Execution;
use thoughtstream_domain::payload::proposal::Proposer;
use thoughtstream_domain::proposal::bind::{Bound, ProposeError};

use super::super::attempt::{Attempt, Ended};
use crate::killpoint::KillPoint;

impl Attempt {
    /// Makes the proposals of a run, in the order in which they are settled.
    pub(super) async fn proposals(
        &self,
        execution: &Execution,
        proposer: Proposer,
        bound: Vec<Bound>,
    ) -> Result<Result<Vec<Candidate>, ProposeError>, Ended> {
        let mut made = Vec::new();
        for (before, bound) in bound.into_iter().enumerate() {
            if before > 0 {
                self.site.pass(KillPoint::ProposalMade).await?;
            }
            let original = match bound.corrects() {
                Some(output) => self.original(output).await?,
                None => None,
            };
            match bound.proposed(proposer.clone(), original.as_ref()) {
                Ok(proposed) => made.push(proposed.event(&execution.stamp())),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(made))
    }

    /// Reads the value of an output; none if it was redacted, or is not one any more.
    async fn original(&self, output: EventId) -> Result<Option<Observation>, Ended> {
        let reader = self.reader.clone();
        let read = tokio::task::spawn_blocking(move || reader.event(&output)).await;
        let event = read.map_err(|_| Ended::Unreadable(None))??;
        Ok(event.and_then(|event| Judged::of(&event).ok()).map(|judged| judged.observation))
    }
}
