//! Handing a consumer over from one version to the next, in one commit.
//!
//! The new version begins where the old one stood. What the old one had begun and not settled is begun anew; what
//! it had settled above its progress (side by side, out of order) stays settled, or it would be done twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use thoughtstream_domain::commit::{Commit, ExecutionKey, Precondition, Registered, Row};
use thoughtstream_domain::declaration::VersionChange;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerKey, SourceId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState, Frame};
use thoughtstream_domain::payload::activation::{Step, StepFacts};
use thoughtstream_domain::subscription::Replay;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader, RowError, SourceHead};

use super::activate::installing;
use crate::consumer::ConsumerSpec;

/// Works out the rows of every version that is enabled for the first time.
pub(super) fn handover(
    reader: &Reader,
    coming: &[Arc<ConsumerSpec>],
    registered: &[Registered],
    incarnation: u64,
    now: Timestamp,
) -> Result<Commit, RowError> {
    let mut commit = Commit::default();
    let heads = reader.heads()?;
    for spec in coming {
        if registered.iter().any(|r| r.consumer == spec.key) {
            continue;
        }
        let row = Registered {
            consumer: spec.key.clone(),
            fingerprint: spec.fingerprint,
            canonical: spec.declaration.canonical(),
            position: heads.position,
            at: now,
        };
        commit.rows.push(Row::Declaration(row));
        let versions = registered.iter().filter(|r| r.consumer.id == spec.key.id);
        let before =
            versions.filter(|r| r.consumer.version < spec.key.version).max_by_key(|r| r.consumer.version);
        if let Some(before) = before {
            commit.preconditions.push(Precondition::NoOpenAttempt(before.consumer.clone()));
            supersede(reader, &before.consumer, now, &mut commit)?;
        }
        // One that comes by an activation begins where that has frozen its source, and the same commit says so.
        let activation = installing(reader, spec)?;
        let frozen = activation
            .as_ref()
            .and_then(|found| found.frozen_head().map(|head| (found.begun.source.clone(), head)));
        if let Some(activation) = activation {
            let head = activation.frozen_head();
            let facts = StepFacts { head, fingerprint: Some(spec.fingerprint), ..StepFacts::default() };
            let installed = activation.step(Step::Installed, facts);
            commit.preconditions.extend(installed.preconditions);
            commit.appends.extend(installed.appends);
        }
        let successor = Successor { reader, spec, before, frozen, frame: spec.frame(incarnation, now) };
        for head in heads.sources.iter().filter(|head| spec.includes(&head.source)) {
            successor.begin(head, &mut commit)?;
        }
    }
    Ok(commit)
}

/// Closes what the version before left unsettled.
fn supersede(
    reader: &Reader,
    before: &ConsumerKey,
    now: Timestamp,
    commit: &mut Commit,
) -> Result<(), RowError> {
    let mut after = 0;
    loop {
        let page: Vec<Execution> = reader.unsettled(before, after, PAGE_ROWS_MAX)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.position();
        for mut execution in page {
            let key = ExecutionKey { consumer: before.clone(), position: execution.position() };
            let (status, attempts) = (execution.state.status(), execution.attempts);
            commit.preconditions.push(Precondition::ExecutionIs { key, status, attempts });
            execution.state = ExecutionState::Closed { how: Closure::Superseded };
            execution.since = now;
            commit.rows.push(Row::Execution(execution));
        }
    }
}

/// Is a version that is enabled for the first time.
struct Successor<'a> {
    reader: &'a Reader,
    spec: &'a ConsumerSpec,
    before: Option<&'a Registered>,
    /// The source that an activation has frozen, and its last event.
    frozen: Option<(SourceId, u64)>,
    frame: Frame,
}

impl Successor<'_> {
    /// Writes where it begins on a source.
    fn begin(&self, head: &SourceHead, commit: &mut Commit) -> Result<(), RowError> {
        let source = &head.source;
        if let Some((_, sequence)) = self.frozen.as_ref().filter(|(frozen, _)| frozen == source) {
            let (consumer, source, sequence) = (self.spec.key.clone(), source.clone(), *sequence);
            commit.rows.push(Row::SetProgress { consumer, source, sequence });
            return Ok(());
        }
        let goes_on = self.before.filter(|before| match &self.spec.on_version_change {
            VersionChange::New => false,
            VersionChange::Replay(sources) => !sources.contains(source) && included(before, source),
            VersionChange::Preserve => included(before, source),
        });
        let replays = matches!(&self.spec.on_version_change, VersionChange::Replay(sources) if sources.contains(source));
        let sequence = match goes_on {
            // Without a row it stood before the first event, wherever a consumer that is new would begin.
            Some(before) => self.reader.progress(&before.consumer, source)?,
            None if self.before.is_some() && replays => 0,
            None => match self.spec.subscription().replay() {
                Replay::Beginning => 0,
                Replay::Now => head.sequence,
                Replay::Sequence(sequence) => sequence.saturating_sub(1).min(head.sequence),
            },
        };
        if sequence > 0 {
            let (consumer, source) = (self.spec.key.clone(), source.clone());
            commit.rows.push(Row::SetProgress { consumer, source, sequence });
        }
        match goes_on {
            Some(before) => self.inherit(&before.consumer, source, sequence, commit),
            None => Ok(()),
        }
    }

    /// Takes over what the version before has settled above its progress, and puts what lies in between in line.
    fn inherit(
        &self,
        before: &ConsumerKey,
        source: &SourceId,
        progress: u64,
        commit: &mut Commit,
    ) -> Result<(), RowError> {
        let claims = self.reader.claims(before, source, usize::MAX)?;
        let settled: BTreeSet<u64> = claims.iter().filter(|claim| claim.closed).map(|c| c.sequence).collect();
        let Some(last) = settled.last().copied() else { return Ok(()) };
        let types = self.spec.types();
        let mut after = progress;
        while after < last {
            let page = self.reader.backlog(&types, source, after, PAGE_ROWS_MAX)?;
            let Some(end) = page.last() else { return Ok(()) };
            after = end.sequence;
            let matching = |event: &Event| event.sequence <= last && self.spec.subscription().matches(event);
            for event in page.into_iter().filter(matching) {
                let mut execution = Execution::fix(&self.frame, std::slice::from_ref(&event));
                if settled.contains(&event.sequence) {
                    execution.state = ExecutionState::Closed { how: Closure::Inherited };
                } else {
                    execution.put_in_line();
                }
                commit.rows.push(Row::Execution(execution));
            }
        }
        Ok(())
    }
}

/// Says whether a registered version looked at a source.
fn included(registered: &Registered, source: &SourceId) -> bool {
    let declaration = registered.declaration().unwrap_or_default();
    let names = |key: &str, name: &str| {
        let list = declaration.pointer(&format!("/subscribe/{key}")).and_then(|list| list.as_array());
        list.is_some_and(|list| list.iter().any(|item| item.as_str() == Some(name)))
    };
    names("sources", source.as_str()) || names("kinds", source.kind())
}
