//! Judgments of outputs: found among the children of what they are about, so no table of their own keeps them.

use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::TypeName;
use thoughtstream_domain::judgment::{Given, Said};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::judgment::{JudgmentRetracted, TrainingExample};

use super::conversation::Tables;
use super::{PAGE_ROWS_MAX, Reader};
use crate::names::NameKind;
use crate::rows::RowError;
use crate::tables::Table;

impl Reader {
    /// Returns everything that was said of an output, all of it as it stood at one moment. What cannot be read as a
    /// judgment any more says nothing, and still moves how far it reaches.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn said_of(&self, output: &Event) -> Result<Said, RowError> {
        let number = |name| self.shared.names.number(NameKind::Type, name);
        let (judgments, retractions) = ([number(TrainingExample::NAME)], [number(JudgmentRetracted::NAME)]);
        let mut said = Said { output: output.id, given: Vec::new(), through: 0 };
        self.view(|view| {
            let (events, children) = (view.table(Table::Events)?, view.table(Table::Children)?);
            let tables = Tables { view, events: &events, children: &children };
            for judgment in tables.children(output.position, &judgments)? {
                let retractions = tables.children(judgment.position, &retractions)?;
                let newest = retractions.last().map_or(judgment.position, |last| last.position);
                said.through = said.through.max(newest);
                let retracted = retractions.iter().any(|event| takes_back(event, &judgment));
                said.given.extend(Given::of(&judgment, retracted).filter(|given| given.output == output.id));
            }
            Ok(())
        })?;
        Ok(said)
    }

    /// Returns every judgment of an output event, oldest first, with whether it was taken back. What cannot be
    /// read as a judgment any more is left out: it says nothing.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn judgments_of(&self, output: &Event) -> Result<Vec<Given>, RowError> {
        Ok(self.said_of(output)?.given)
    }

    /// Says whether a judgment was taken back.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn is_retracted(&self, judgment: &Event) -> Result<bool, RowError> {
        let retractions = self.children_of_type(judgment.position, JudgmentRetracted::NAME)?;
        Ok(retractions.iter().any(|event| takes_back(event, judgment)))
    }

    /// Returns every judgment of the log in the order of the log, whatever it is about.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn judgments(&self) -> Result<Vec<Given>, RowError> {
        let Ok(kind) = TypeName::parse(TrainingExample::NAME) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for event in self.of_types(&[kind])? {
            found.extend(Given::of(&event, self.is_retracted(&event)?));
        }
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

/// Says whether a retraction is that of a judgment. Its first parent says so: erasing the reason of a retraction does
/// not make the judgment stand again.
fn takes_back(retraction: &Event, judgment: &Event) -> bool {
    retraction.parents.first() == Some(&judgment.id)
}
