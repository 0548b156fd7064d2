//! Judgments of outputs: found among the children of what they are about, so no table of their own keeps them.

use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::TypeName;
use thoughtstream_domain::judgment::Given;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::judgment::{JudgmentRetracted, TrainingExample};

use super::{PAGE_ROWS_MAX, Reader};
use crate::rows::RowError;

impl Reader {
    /// Returns every judgment of an output event, oldest first, with whether it was taken back. What cannot be
    /// read as a judgment any more is left out: it says nothing.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn judgments_of(&self, output: &Event) -> Result<Vec<Given>, RowError> {
        let events = self.children_of_type(output.position, TrainingExample::NAME)?;
        let mut found = Vec::new();
        for event in events {
            let retracted = self.is_retracted(&event)?;
            found.extend(Given::of(&event, retracted).filter(|given| given.output == output.id));
        }
        Ok(found)
    }

    /// Says whether a judgment was taken back.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn is_retracted(&self, judgment: &Event) -> Result<bool, RowError> {
        let takes_back = |event: &Event| {
            event.payload_as::<JudgmentRetracted>().is_ok_and(|retracted| retracted.judgment == judgment.id)
        };
        let retractions = self.children_of_type(judgment.position, JudgmentRetracted::NAME)?;
        Ok(retractions.iter().any(takes_back))
    }

    /// Returns every judgment of the log in the order of the log, whatever it is about.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn judgments(&self) -> Result<Vec<Given>, RowError> {
        let Ok(kind) = TypeName::parse(TrainingExample::NAME) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        // Judgments are decisions, but a log is read as it is: whatever source has one is looked at.
        for head in self.sources()? {
            let mut after = 0;
            loop {
                let page = self.backlog(std::slice::from_ref(&kind), &head.source, after, PAGE_ROWS_MAX)?;
                let Some(last) = page.last() else { break };
                after = last.sequence;
                for event in &page {
                    found.extend(Given::of(event, self.is_retracted(event)?));
                }
            }
        }
        found.sort_by_key(|given| given.event.position);
        Ok(found)
    }

    pub(super) fn children_of_type(&self, parent: u64, name: &str) -> Result<Vec<Event>, RowError> {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = self.children(parent, after, PAGE_ROWS_MAX)?;
            let Some(last) = page.last() else { return Ok(found) };
            after = last.position;
            found.extend(page.into_iter().filter(|event| event.kind.name.as_str() == name));
        }
    }
}
