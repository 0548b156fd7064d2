//! One row of a commit: whether it contradicts the log, and how it is written.

use thoughtstream_domain::commit::{Commit, Control, Refusal, Registered, Row};
use thoughtstream_domain::event::Candidate;
use thoughtstream_domain::id::{ConsumerId, EventId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system::Redacted;

use super::{GroupState, Stop};
use crate::names::{NameKind, Names};
use crate::record;
use crate::rows::{At, RowError, Rows};
use crate::tables::{Table, key, position_key};

/// Reads a row kept as JSON.
pub(crate) fn from_json<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    table: Table,
    key: impl std::fmt::Display,
) -> Result<T, RowError> {
    serde_json::from_slice(bytes).map_err(|_| RowError::damaged(table, key))
}

/// Returns the stored form of a row kept as JSON.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("rows have text keys and finite numbers only")
}

/// Refuses to erase what no event of the same commit records as erased.
pub(super) fn check_recorded(commit: &Commit, index: usize, row: &Row) -> Result<(), Refusal> {
    let Row::Redact(event) = row else { return Ok(()) };
    let records = |candidate: &Candidate| {
        *candidate.kind() == Redacted::kind()
            && serde_json::from_slice::<Redacted>(candidate.payload().reveal())
                .is_ok_and(|redacted| redacted.event == *event)
    };
    if commit.appends.iter().any(records) {
        return Ok(());
    }
    Err(Refusal::Row { index, found: format!("no event of this commit records that {event} is erased") })
}

impl GroupState<'_> {
    /// Checks one row against what stands.
    pub(super) fn check_row(
        &mut self,
        rows: &mut Rows<'_>,
        commit: &Commit,
        index: usize,
        row: &Row,
    ) -> Result<(), Stop> {
        let found = match row {
            Row::Execution(execution) => self.check_execution(rows, execution)?,
            Row::Run(run) => match self.check_run(rows, run)? {
                None => self.unsettled(rows, commit, run)?,
                found @ Some(_) => found,
            },
            Row::Entry(entry) => self.check_entry(rows, commit, entry)?,
            Row::Declaration(registered) => {
                let stands = self.registered(rows, registered)?;
                let other = stands.filter(|stands| stands.fingerprint != registered.fingerprint);
                other.map(|stands| format!("the version is bound to fingerprint {}", stands.fingerprint))
            }
            Row::Document(document) => self.check_document(rows, document)?,
            Row::DocumentStat { source, document, .. } => {
                let known = self.document(rows, source, document)?.is_some();
                (!known).then(|| format!("{document} is not known"))
            }
            Row::Redact(event) => {
                let known = self.cache.position_of(rows, event)?.is_some();
                (!known).then(|| format!("{event} is not in the log"))
            }
            Row::SetProgress { .. } | Row::Pass { .. } | Row::Control(..) | Row::Blob { .. } => None,
        };
        match found {
            Some(found) => Err(Refusal::Row { index, found }.into()),
            None => Ok(()),
        }
    }

    /// Reads the rows that writing this commit changes and no check has read: one that is damaged keeps this commit
    /// out, where it would otherwise stop the whole group half-way.
    pub(super) fn check_underlying(&mut self, rows: &mut Rows<'_>, commit: &Commit) -> Result<(), RowError> {
        for candidate in &commit.appends {
            let source = &candidate.envelope().source;
            if let Some(source) = self.cache.number(rows, NameKind::Source, source.as_str())? {
                self.cache.head(rows, source)?;
            }
        }
        for row in &commit.rows {
            let (consumer, source) = match row {
                Row::Execution(execution) => (&execution.consumer, &execution.source),
                Row::SetProgress { consumer, source, .. } | Row::Pass { consumer, source, .. } => {
                    (consumer, source)
                }
                Row::Entry(entry) => {
                    self.check_sums(rows, entry)?;
                    continue;
                }
                Row::Run(_)
                | Row::Control(..)
                | Row::Declaration(_)
                | Row::Document(_)
                | Row::DocumentStat { .. }
                | Row::Blob { .. }
                | Row::Redact(_) => continue,
            };
            if let Some((consumer, source)) = self.consumer_and_source(rows, consumer, source)? {
                self.cache.standing(rows, consumer, source)?;
            }
        }
        Ok(())
    }

    /// Writes one row; everything was checked.
    pub(super) fn write_row(&mut self, rows: &mut Rows<'_>, row: &Row) -> Result<(), RowError> {
        match row {
            Row::Execution(execution) => self.write_execution(rows, execution),
            Row::Run(run) => self.write_run(rows, run),
            Row::Entry(entry) => self.write_entry(rows, entry),
            Row::SetProgress { consumer, source, sequence } => {
                self.set_progress(rows, consumer, source, *sequence)
            }
            Row::Pass { consumer, source, sequence } => self.pass(rows, consumer, source, *sequence),
            Row::Control(consumer, control) => {
                self.cache.set_control(consumer, Some(control));
                rows.put(Table::Controls, consumer.as_str().as_bytes(), &to_json(control));
                Ok(())
            }
            Row::Declaration(registered) => self.register(rows, registered),
            Row::Document(document) => self.write_document(rows, document),
            Row::DocumentStat { source, document, stat } => self.write_stat(rows, source, document, *stat),
            Row::Blob { sha256, bytes } => {
                if rows.has(Table::Blobs, sha256.as_bytes())? {
                    return Ok(());
                }
                rows.put(Table::Blobs, sha256.as_bytes(), bytes.reveal());
                Ok(())
            }
            Row::Redact(event) => self.redact(rows, event),
        }
    }

    pub(super) fn control(
        &self,
        rows: &mut Rows<'_>,
        consumer: &ConsumerId,
    ) -> Result<Option<Control>, RowError> {
        let found = rows.get(Table::Controls, consumer.as_str().as_bytes())?;
        found.map(|bytes| from_json(&bytes, Table::Controls, consumer)).transpose()
    }

    fn registered(&mut self, rows: &mut Rows<'_>, row: &Registered) -> Result<Option<Registered>, RowError> {
        let name = row.consumer.to_string();
        let found = rows.get(Table::Declarations, name.as_bytes())?;
        found.map(|bytes| from_json(&bytes, Table::Declarations, name)).transpose()
    }

    fn register(&mut self, rows: &mut Rows<'_>, row: &Registered) -> Result<(), RowError> {
        let name = row.consumer.to_string();
        // The first registration stands: its position is where `replay: now` began.
        if rows.has(Table::Declarations, name.as_bytes())? {
            return Ok(());
        }
        rows.put(Table::Declarations, name.as_bytes(), &to_json(row));
        Ok(())
    }

    fn redact(&mut self, rows: &mut Rows<'_>, event: &EventId) -> Result<(), RowError> {
        let Some(position) = self.cache.position_of(rows, event)? else { return Ok(()) };
        let key = position_key(position);
        let record = rows.get(Table::Events, &key)?;
        let record = record.ok_or_else(|| RowError::damaged(Table::Events, position))?;
        let names = self.names_of(rows, &record, position)?;
        let redacted = record::redact(&record, &names).at(Table::Events, position)?;
        rows.put(Table::Events, &key, &redacted);
        Ok(())
    }

    /// Returns the names a record uses; they may be newer than the shared cache.
    pub(super) fn names_of(
        &self,
        rows: &mut Rows<'_>,
        record: &[u8],
        position: u64,
    ) -> Result<Names, RowError> {
        let (source, kind) = record::read_numbers(record).at(Table::Events, position)?;
        let names = Names::default();
        for (of, number) in [(NameKind::Source, source), (NameKind::Type, kind)] {
            let text = rows.get(Table::Numbers, &key!(of as u8, number))?.unwrap_or_default();
            names.learn(of, number, &String::from_utf8_lossy(&text));
        }
        Ok(names)
    }
}
