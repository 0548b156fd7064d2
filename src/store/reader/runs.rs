//! What consumers have done and where they stand.

use redb::ReadableTable;
use thoughtstream_domain::commit::{Control, ExecutionKey, Registered};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, RunId, SourceId};
use thoughtstream_domain::lifecycle::{AttemptKey, Execution, Run};

use super::{PAGE_ROWS_MAX, Reader, View};
use crate::codec::{be32, be64};
use crate::execution::{read_execution, read_run};
use crate::names::NameKind;
use crate::rows::{At, RowError};
use crate::tables::{Table, bucket, key, short_id};
use crate::writer::{from_json, read_claim};

/// An event above progress that an execution holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The event's place in its source.
    pub sequence: u64,
    /// The position of its execution's first trigger.
    pub execution: u64,
    /// Whether the execution is closed.
    pub closed: bool,
}

/// The control row of a consumer, or that it is damaged.
pub type ControlRow = (ConsumerId, Result<Control, RowError>);

impl Reader {
    fn consumer(&self, consumer: &ConsumerKey) -> Option<u32> {
        self.shared.names.number(NameKind::Consumer, &consumer.to_string())
    }

    /// Returns all consumer versions the log has rows of.
    pub fn consumers(&self) -> Vec<ConsumerKey> {
        let names = &self.shared.names;
        names.all(NameKind::Consumer).into_iter().filter_map(|(number, _)| names.consumer(number)).collect()
    }

    /// Returns a consumer's progress on a source; 0 if it has none.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn progress(&self, consumer: &ConsumerKey, source: &SourceId) -> Result<u64, RowError> {
        Ok(self.progress_row(consumer, source)?.unwrap_or(0))
    }

    /// Returns a consumer's progress on a source; `None` if none was ever written.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn progress_row(&self, consumer: &ConsumerKey, source: &SourceId) -> Result<Option<u64>, RowError> {
        let source_number = self.shared.names.number(NameKind::Source, source.as_str());
        let Some((consumer, number)) = self.consumer(consumer).zip(source_number) else { return Ok(None) };
        self.view(|view| {
            let found = view.get(Table::Progress, &key!(consumer, number))?;
            found.map(|row| be64(&row)).transpose().at(Table::Progress, source)
        })
    }

    /// Returns a consumer's progress on every source it has a row for.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn progress_all(&self, consumer: &ConsumerKey) -> Result<Vec<(SourceId, u64)>, RowError> {
        let Some(number) = self.consumer(consumer) else { return Ok(Vec::new()) };
        self.view(|view| {
            let rows = view.range(Table::Progress, &key!(number), &key!(number + 1), usize::MAX)?;
            let read = rows.iter().map(|(key, value)| {
                let damaged = || RowError::damaged(Table::Progress, consumer);
                let source = key.get(4..).and_then(|bytes| be32(bytes).ok());
                let source =
                    source.and_then(|number| self.shared.names.source(number)).ok_or_else(damaged)?;
                Ok((source, be64(value).map_err(|_| damaged())?))
            });
            read.collect()
        })
    }

    /// Returns an execution.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn execution(&self, key: &ExecutionKey) -> Result<Option<Execution>, RowError> {
        let Some(number) = self.consumer(&key.consumer) else { return Ok(None) };
        self.view(|view| view.execution(&key!(number, key.position)))
    }

    /// Returns the execution of a consumer that holds an event.
    ///
    /// Above progress its claim leads to it. What lies below has no claim any more: the executions before it are looked
    /// through backwards, and the first of the same source decides, since events of one source are claimed in order.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn execution_of(&self, consumer: &ConsumerKey, event: &Event) -> Result<Option<Execution>, RowError> {
        let source = self.shared.names.number(NameKind::Source, event.source.as_str());
        let Some((consumer, source)) = self.consumer(consumer).zip(source) else { return Ok(None) };
        let holds = |execution: &Execution| execution.triggers.iter().any(|trigger| trigger.id == event.id);
        self.view(|view| {
            if let Some(claim) = view.get(Table::Claims, &key!(consumer, source, event.sequence))? {
                let (position, _) =
                    read_claim(&claim).ok_or_else(|| RowError::damaged(Table::Claims, &event.source))?;
                return Ok(view.execution(&key!(consumer, position))?.filter(holds));
            }
            let number =
                |table, row: Option<Vec<u8>>| row.map(|row| be64(&row)).transpose().at(table, &event.source);
            let progress = number(Table::Progress, view.get(Table::Progress, &key!(consumer, source))?)?;
            if progress.is_none_or(|progress| event.sequence > progress) {
                return Ok(None);
            }
            let first =
                number(Table::Sequences, view.get(Table::Sequences, &key!(source, 1_u64))?)?.unwrap_or(0);
            let table = view.table(Table::Executions)?;
            let rows = table
                .range(&key!(consumer, first)[..]..=&key!(consumer, event.position)[..])
                .map_err(RowError::storage)?;
            for row in rows.rev() {
                let (key, value) = row.map_err(RowError::storage)?;
                let value = view.open(Table::Executions, key.value(), value.value())?;
                let execution = read_execution(value).at(Table::Executions, &event.source)?;
                if execution.source == event.source {
                    return Ok(Some(execution).filter(holds));
                }
            }
            Ok(None)
        })
    }

    /// Returns a consumer's executions that are not closed, by the position of their first trigger, after one.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn unsettled(
        &self,
        consumer: &ConsumerKey,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Execution>, RowError> {
        let Some(number) = self.consumer(consumer) else { return Ok(Vec::new()) };
        self.view(|view| {
            let (from, to) = (key!(number, after.saturating_add(1)), key!(number + 1));
            let keys = view.range(Table::Unsettled, &from, &to, limit.min(PAGE_ROWS_MAX))?;
            view.executions(keys.iter().map(|(key, _)| &key[..]))
        })
    }

    /// Returns a consumer's executions, newest first, before a position.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn executions_before(
        &self,
        consumer: &ConsumerKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Execution>, RowError> {
        let rows = self.newest(Table::Executions, consumer, before, limit)?;
        rows.iter().map(|row| read_execution(row).at(Table::Executions, consumer)).collect()
    }

    /// Returns a consumer's runs, newest trigger first, before a position.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn runs_before(
        &self,
        consumer: &ConsumerKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Run>, RowError> {
        let rows = self.newest(Table::Runs, consumer, before, limit)?;
        rows.iter().map(|row| read_run(row).at(Table::Runs, consumer)).collect()
    }

    fn newest(
        &self,
        table: Table,
        consumer: &ConsumerKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, RowError> {
        let Some(number) = self.consumer(consumer) else { return Ok(Vec::new()) };
        let to = before.map_or_else(|| key!(number + 1), |before| key!(number, before));
        self.view(|view| {
            let opened = view.table(table)?;
            let rows = opened.range(&key!(number)[..]..&to[..]).map_err(RowError::storage)?;
            let newest = rows.rev().take(limit.min(PAGE_ROWS_MAX)).map(|row| {
                let (key, value) = row.map_err(RowError::storage)?;
                Ok(view.open(table, key.value(), value.value())?.to_vec())
            });
            newest.collect()
        })
    }

    /// Returns the attempts of an execution, in order.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn attempts(&self, key: &ExecutionKey) -> Result<Vec<Run>, RowError> {
        let Some(number) = self.consumer(&key.consumer) else { return Ok(Vec::new()) };
        self.view(|view| {
            let (from, to) = (key!(number, key.position), key!(number, key.position.saturating_add(1)));
            let rows = view.range(Table::Runs, &from, &to, PAGE_ROWS_MAX)?;
            rows.iter().map(|(_, row)| read_run(row).at(Table::Runs, &key.consumer)).collect()
        })
    }

    /// Returns one attempt.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn run(&self, key: &AttemptKey) -> Result<Option<Run>, RowError> {
        let Some(number) = self.consumer(&key.consumer) else { return Ok(None) };
        self.view(|view| view.run(&key!(number, key.position, key.attempt)))
    }

    /// Returns the attempt with this id.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn run_by_id(&self, id: &RunId) -> Result<Option<Run>, RowError> {
        self.view(|view| {
            for bucket in (0..=bucket(view.last_position()?)).rev() {
                if let Some(key) = view.get(Table::RunIds, &key!(bucket, short_id(id.as_bytes())))? {
                    return Ok(view.run(&key)?.filter(|run| run.id == *id));
                }
            }
            Ok(None)
        })
    }

    /// Returns attempts without a terminal event, of all consumers or of one. Costs their number, never the
    /// log's length.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn open_attempts(&self, consumer: Option<&ConsumerKey>) -> Result<Vec<Run>, RowError> {
        let (from, to) = match consumer.map(|consumer| self.consumer(consumer)) {
            None => (key!(0_u32), key!(u32::MAX)),
            Some(None) => return Ok(Vec::new()),
            Some(Some(number)) => (key!(number), key!(number + 1)),
        };
        self.view(|view| {
            let keys = view.range(Table::Open, &from, &to, usize::MAX)?;
            let runs = keys.iter().map(|(key, _)| {
                view.run(key)?.ok_or_else(|| RowError::damaged(Table::Open, format_args!("{key:02x?}")))
            });
            runs.collect()
        })
    }

    /// Returns a consumer's claims on a source above its progress, rising.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn claims(
        &self,
        consumer: &ConsumerKey,
        source: &SourceId,
        limit: usize,
    ) -> Result<Vec<Claim>, RowError> {
        let source_number = self.shared.names.number(NameKind::Source, source.as_str());
        let Some((consumer, number)) = self.consumer(consumer).zip(source_number) else {
            return Ok(Vec::new());
        };
        self.view(|view| {
            let rows =
                view.range(Table::Claims, &key!(consumer, number), &key!(consumer, number + 1), limit)?;
            let read = rows.iter().map(|(key, value)| {
                let sequence = key.get(8..).and_then(|bytes| be64(bytes).ok());
                let (sequence, (execution, closed)) = sequence
                    .zip(read_claim(value))
                    .ok_or_else(|| RowError::damaged(Table::Claims, source))?;
                Ok(Claim { sequence, execution, closed })
            });
            read.collect()
        })
    }

    /// Returns the control row of a consumer.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn control(&self, consumer: &ConsumerId) -> Result<Option<Control>, RowError> {
        self.view(|view| {
            let found = view.get(Table::Controls, consumer.as_str().as_bytes())?;
            found.map(|bytes| from_json(&bytes, Table::Controls, consumer)).transpose()
        })
    }

    /// Returns all control rows; one that is damaged is an error of its own, and says nothing about the others.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn controls(&self) -> Result<Vec<ControlRow>, RowError> {
        self.view(|view| {
            let mut found = Vec::new();
            for row in view.table(Table::Controls)?.iter().map_err(RowError::storage)? {
                let (key, value) = row.map_err(RowError::storage)?;
                let id = std::str::from_utf8(key.value()).ok().and_then(|text| ConsumerId::parse(text).ok());
                let id = id.ok_or_else(|| RowError::damaged(Table::Controls, "row"))?;
                let value = view.open(Table::Controls, key.value(), value.value());
                let control = value.and_then(|value| from_json(value, Table::Controls, &id));
                found.push((id, control));
            }
            Ok(found)
        })
    }

    /// Returns a declaration as it was when its version was first enabled.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn registered(&self, consumer: &ConsumerKey) -> Result<Option<Registered>, RowError> {
        self.view(|view| {
            let found = view.get(Table::Declarations, consumer.to_string().as_bytes())?;
            found.map(|bytes| from_json(&bytes, Table::Declarations, consumer)).transpose()
        })
    }

    /// Returns all registered declarations.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn registered_all(&self) -> Result<Vec<Registered>, RowError> {
        self.view(|view| {
            let table = view.table(Table::Declarations)?;
            let rows = table.iter().map_err(RowError::storage)?;
            let read = rows.map(|row| {
                let (key, value) = row.map_err(RowError::storage)?;
                let value = view.open(Table::Declarations, key.value(), value.value())?;
                from_json(value, Table::Declarations, String::from_utf8_lossy(key.value()))
            });
            read.collect()
        })
    }
}

impl View<'_> {
    fn execution(&self, key: &[u8]) -> Result<Option<Execution>, RowError> {
        let found = self.get(Table::Executions, key)?;
        found.map(|row| read_execution(&row)).transpose().at(Table::Executions, format_args!("{key:02x?}"))
    }

    fn executions<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Result<Vec<Execution>, RowError> {
        let read = keys.map(|key| {
            self.execution(key)?
                .ok_or_else(|| RowError::damaged(Table::Unsettled, format_args!("{key:02x?}")))
        });
        read.collect()
    }

    fn run(&self, key: &[u8]) -> Result<Option<Run>, RowError> {
        let found = self.get(Table::Runs, key)?;
        found.map(|row| read_run(&row)).transpose().at(Table::Runs, format_args!("{key:02x?}"))
    }
}
