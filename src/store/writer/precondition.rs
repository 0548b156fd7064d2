//! What must hold before a commit: each check answers with what was found instead.

use thoughtstream_domain::commit::{ExecutionKey, Precondition, Refusal};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, EventId, IdempotencyKey, SourceId, TypeName};
use thoughtstream_domain::lifecycle::{AttemptKey, Execution, ExecutionStatus, Run};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::judgment::{JudgmentRetracted, TrainingExample};

use super::{GroupState, Stop};
use crate::codec::be64;
use crate::execution;
use crate::names::NameKind;
use crate::record;
use crate::rows::{At, RowError, Rows};
use crate::tables::{Table, key, position_key};

impl GroupState<'_> {
    /// Checks one precondition.
    pub(super) fn check_precondition(
        &mut self,
        rows: &mut Rows<'_>,
        index: usize,
        precondition: &Precondition,
    ) -> Result<(), Stop> {
        let found = match precondition {
            Precondition::AttemptOpen(attempt) => self.attempt_open(rows, attempt)?,
            Precondition::Unclaimed { consumer, source, sequences } => {
                self.unclaimed(rows, consumer, source, sequences)?
            }
            Precondition::ClaimedThrough { consumer, source, sequence } => {
                self.claimed_through(rows, consumer, source, *sequence)?
            }
            Precondition::ExecutionIs { key, status, attempts } => {
                self.execution_is(rows, key, *status, *attempts)?
            }
            Precondition::NoOpenAttempt(consumer) => self.no_open_attempt(rows, consumer)?,
            Precondition::ProgressIs { consumer, source, sequence } => {
                let found = self.progress(rows, consumer, source)?;
                (found != *sequence).then(|| format!("progress stands at {found}, not at {sequence}"))
            }
            Precondition::DocumentIs { source, document, revision } => {
                let found = self.document(rows, source, document)?.map(|found| found.revision);
                (found != *revision).then(|| match found {
                    Some(found) => format!("the document stands at revision {found}"),
                    None => "the document is not known".to_owned(),
                })
            }
            Precondition::Within { account, policy, at } => {
                let denial = self.over_budget(rows, account, policy, *at)?;
                return denial.map_or(Ok(()), |denial| Err(Refusal::OverBudget { index, denial }.into()));
            }
            Precondition::ControlIs(consumer, expected) => {
                let found = self.control(rows, consumer)?;
                (found != *expected).then(|| "the control row was changed since it was read".to_owned())
            }
            Precondition::KeyUnused { source, types, key } => self.key_unused(rows, source, types, key)?,
            Precondition::KeyUsed { source, kind, key } => {
                let found = self.find_key(rows, source, kind, key)?;
                found.is_none().then(|| format!("no {kind} stands under the key"))
            }
            Precondition::JudgedThrough { output, position } => {
                let found = self.judged_through(rows, output)?;
                (found != *position)
                    .then(|| format!("what was said of {output} reaches position {found}, not {position}"))
            }
            Precondition::NotPaused(consumer) => {
                if self.is_paused(rows, consumer)? {
                    return Err(Refusal::Paused { consumer: consumer.clone() }.into());
                }
                None
            }
        };
        match found {
            Some(found) => Err(Refusal::Precondition { index, found }.into()),
            None => Ok(()),
        }
    }

    fn is_paused(&mut self, rows: &mut Rows<'_>, consumer: &ConsumerId) -> Result<bool, RowError> {
        if let Some(known) = self.cache.paused(consumer) {
            return Ok(known);
        }
        let control = self.control(rows, consumer)?;
        self.cache.set_control(consumer, control.as_ref());
        Ok(control.is_some_and(|control| control.is_paused()))
    }

    fn attempt_open(
        &mut self,
        rows: &mut Rows<'_>,
        attempt: &AttemptKey,
    ) -> Result<Option<String>, RowError> {
        let found = self.run(rows, attempt)?;
        Ok(match found {
            Some(run) if run.state.is_open() => None,
            Some(run) => Some(format!("the attempt has ended as {}", run.state.as_str())),
            None => Some("there is no such attempt".to_owned()),
        })
    }

    fn unclaimed(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerKey,
        source: &SourceId,
        sequences: &[u64],
    ) -> Result<Option<String>, RowError> {
        let Some((consumer, source)) = self.consumer_and_source(rows, consumer, source)? else {
            return Ok(None);
        };
        let standing = self.cache.standing(rows, consumer, source)?;
        let progress = standing.progress;
        for sequence in sequences {
            if *sequence <= progress {
                return Ok(Some(format!("sequence {sequence} is passed, progress stands at {progress}")));
            }
            if standing.claims.contains_key(sequence) {
                return Ok(Some(format!("sequence {sequence} is claimed")));
            }
        }
        Ok(None)
    }

    fn claimed_through(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerKey,
        source: &SourceId,
        sequence: u64,
    ) -> Result<Option<String>, RowError> {
        if sequence == 0 {
            return Ok(None);
        }
        let refused =
            |progress| Some(format!("sequence {sequence} is not claimed, progress stands at {progress}"));
        let Some((consumer, source)) = self.consumer_and_source(rows, consumer, source)? else {
            return Ok(refused(0));
        };
        let standing = self.cache.standing(rows, consumer, source)?;
        let claimed = standing.progress >= sequence || standing.claims.contains_key(&sequence);
        Ok(if claimed { None } else { refused(standing.progress) })
    }

    fn execution_is(
        &mut self,
        rows: &mut Rows<'_>,
        key: &ExecutionKey,
        status: ExecutionStatus,
        attempts: u32,
    ) -> Result<Option<String>, RowError> {
        let Some(found) = self.execution(rows, key)? else {
            return Ok(Some("there is no such execution".to_owned()));
        };
        let stands = found.state.status();
        let same = stands == status && found.attempts == attempts;
        Ok((!same).then(|| {
            format!(
                "the execution is {} after {} attempts, not {} after {attempts}",
                stands.as_str(),
                found.attempts,
                status.as_str()
            )
        }))
    }

    fn no_open_attempt(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerKey,
    ) -> Result<Option<String>, RowError> {
        let Some(number) = self.cache.number(rows, NameKind::Consumer, &consumer.to_string())? else {
            return Ok(None);
        };
        let first = rows.first(Table::Open, &key!(number), &key!(number + 1))?;
        Ok(first.map(|(key, _)| {
            let position = key.get(4..12).and_then(|bytes| be64(bytes).ok()).unwrap_or(0);
            format!("an attempt on the event at position {position} is open")
        }))
    }

    fn key_unused(
        &mut self,
        rows: &mut Rows<'_>,
        source: &SourceId,
        types: &[TypeName],
        key: &IdempotencyKey,
    ) -> Result<Option<String>, RowError> {
        for kind in types {
            if let Some(position) = self.find_key(rows, source, kind, key)? {
                return Ok(Some(format!("a {kind} stands under the key at position {position}")));
            }
        }
        Ok(None)
    }

    /// Returns the position of the newest judgment that names an output, or of the newest retraction of one; 0 if
    /// there is none. [`crate::Reader::said_of`] says the same of what is durable.
    fn judged_through(&mut self, rows: &mut Rows<'_>, output: &EventId) -> Result<u64, RowError> {
        let Some(output) = self.cache.position_of(rows, output)? else { return Ok(0) };
        let mut newest = 0;
        for judgment in self.children_of_type(rows, output, TrainingExample::NAME)? {
            let retractions = self.children_of_type(rows, judgment, JudgmentRetracted::NAME)?;
            newest = retractions.into_iter().fold(newest.max(judgment), u64::max);
        }
        Ok(newest)
    }

    /// Returns the positions of an event's children of a type, rising.
    fn children_of_type(
        &mut self,
        rows: &mut Rows<'_>,
        parent: u64,
        kind: &str,
    ) -> Result<Vec<u64>, RowError> {
        let Some(kind) = self.cache.number(rows, NameKind::Type, kind)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (key, _) in rows.all_in(Table::Children, &key!(parent), &key!(parent.saturating_add(1)))? {
            let position = be64(key.get(8..).unwrap_or_default()).at(Table::Children, parent)?;
            let numbers = rows.read(Table::Events, &position_key(position), record::read_numbers)?;
            let numbers = numbers.ok_or_else(|| RowError::damaged(Table::Children, position))?;
            if numbers.at(Table::Events, position)?.1 == kind {
                found.push(position);
            }
        }
        Ok(found)
    }

    /// Returns the numbers of a consumer version and a source, if the log knows both.
    pub(super) fn consumer_and_source(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerKey,
        source: &SourceId,
    ) -> Result<Option<(u32, u32)>, RowError> {
        let consumer = self.cache.number(rows, NameKind::Consumer, &consumer.to_string())?;
        let source = self.cache.number(rows, NameKind::Source, source.as_str())?;
        Ok(consumer.zip(source))
    }

    fn progress(
        &mut self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerKey,
        source: &SourceId,
    ) -> Result<u64, RowError> {
        match self.consumer_and_source(rows, consumer, source)? {
            Some((consumer, source)) => Ok(self.cache.standing(rows, consumer, source)?.progress),
            None => Ok(0),
        }
    }

    pub(super) fn execution(
        &mut self,
        rows: &mut Rows<'_>,
        key: &ExecutionKey,
    ) -> Result<Option<Execution>, RowError> {
        let Some(number) = self.cache.number(rows, NameKind::Consumer, &key.consumer.to_string())? else {
            return Ok(None);
        };
        let found = rows.read(Table::Executions, &key!(number, key.position), execution::read_execution)?;
        found.transpose().at(Table::Executions, format_args!("{} {}", key.consumer, key.position))
    }

    pub(super) fn run(&mut self, rows: &mut Rows<'_>, key: &AttemptKey) -> Result<Option<Run>, RowError> {
        let Some(number) = self.cache.number(rows, NameKind::Consumer, &key.consumer.to_string())? else {
            return Ok(None);
        };
        let found = rows.read(Table::Runs, &key!(number, key.position, key.attempt), execution::read_run)?;
        found.transpose().at(Table::Runs, format_args!("{} {} {}", key.consumer, key.position, key.attempt))
    }
}
