//! Proposals of agents, what was decided about them and what came of it; and the log as the lineage validator reads it.

use thoughtstream_domain::commit::Registered;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerKey, EventId, ExecutionId, RunId, SourceId, TypeName};
use thoughtstream_domain::lifecycle::Run;
use thoughtstream_domain::packet;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::judgment::TrainingExample;
use thoughtstream_domain::payload::materialization::{
    self, MaterializationFailed, MaterializationStarted, Materialized,
};
use thoughtstream_domain::payload::proposal::{ProposalDecision, Proposed};
use thoughtstream_domain::payload::run::RunCompleted;
use thoughtstream_domain::proposal::lineage::{Records, Stored};
use thoughtstream_domain::proposal::{Kind, project};

use super::Reader;
use crate::rows::RowError;

impl Reader {
    /// Returns every proposal of the log in the order of the log, whatever became of it.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn proposals(&self) -> Result<Vec<Event>, RowError> {
        self.of_types(&Kind::ALL.map(|kind| Proposed::type_of(kind).name))
    }

    /// Returns every event of these types in the order of the log. Whoever should alone write them, a log is read as it
    /// is: whatever source has one is looked at.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn of_types(&self, types: &[TypeName]) -> Result<Vec<Event>, RowError> {
        let mut found = Vec::new();
        for head in self.sources()? {
            for event in self.walk(types, &head.source) {
                found.push(event?);
            }
        }
        found.sort_by_key(|event| event.position);
        Ok(found)
    }

    /// Returns the event that stands under the one key of a proposal's decision.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn decision_of(&self, proposal: &EventId) -> Result<Option<Event>, RowError> {
        let kind = ProposalDecision::kind().name;
        self.event_under(&SourceId::decisions(), &kind, &ProposalDecision::key(proposal))
    }

    /// Returns the judgment that a decided correction became.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn projection_of(&self, proposal: &EventId) -> Result<Option<Event>, RowError> {
        let kind = TrainingExample::kind().name;
        self.event_under(&SourceId::decisions(), &kind, &project::key(proposal))
    }

    /// Returns the events of the materializations of a proposal into the root of `documents`, oldest first.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn materializations_of(
        &self,
        documents: &SourceId,
        proposal: &EventId,
        decision: &EventId,
    ) -> Result<Vec<Event>, RowError> {
        let source = materialization::source(documents);
        let types = [
            MaterializationStarted::kind().name,
            Materialized::kind().name,
            MaterializationFailed::kind().name,
        ];
        let mut found = Vec::new();
        for attempt in 1.. {
            let before = found.len();
            let binding =
                materialization::MaterializationBinding { proposal: *proposal, decision: *decision, attempt };
            for kind in &types {
                found.extend(self.event_under(&source, kind, &binding.key())?);
            }
            if found.len() == before {
                break;
            }
        }
        found.sort_by_key(|event| event.position);
        Ok(found)
    }
}

impl Records for Reader {
    type Error = RowError;

    fn event(&self, id: &EventId) -> Result<Option<Event>, RowError> {
        Self::event(self, id)
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RowError> {
        self.run_by_id(id)
    }

    fn completions(&self, run: &Run) -> Result<Vec<Event>, RowError> {
        let mut found = self.children_of_type(run.position, RunCompleted::NAME)?;
        found.retain(|event| event.payload_as::<RunCompleted>().is_ok_and(|read| read.stamp.run == run.id));
        Ok(found)
    }

    fn registered(&self, consumer: &ConsumerKey) -> Result<Option<Registered>, RowError> {
        Self::registered(self, consumer)
    }

    fn snapshot(&self, consumer: &ConsumerKey, execution: &ExecutionId) -> Result<Option<Stored>, RowError> {
        let (source, id) = (packet::source(consumer), packet::document_id(execution));
        let Some(document) = self.document(&source, &id)? else { return Ok(None) };
        let version = self.version(&source, &id, 1)?;
        let bytes = match &version {
            Some(version) => self.blob(&version.sha256)?,
            None => None,
        };
        Ok(Some(Stored { document, version, bytes }))
    }
}
