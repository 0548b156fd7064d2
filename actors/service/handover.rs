//! Handing a consumer over from one version to the next, in one commit.
//!
//! The new version begins where the old one stood. What the old one had begun and not settled is begun anew; what
//! it had settled above its progress (side by side, out of order) stays settled, or it would be done twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use thoughtstream_domain::commit::{Commit, ExecutionKey, Precondition, Registered, Row};
use thoughtstream_domain::declaration::VersionChange;
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
        let before = before.map(Before::of);
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
    before: Option<Before<'a>>,
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
        let goes_on = self.before.as_ref().filter(|before| match &self.spec.on_version_change {
            VersionChange::New => false,
            VersionChange::Replay(sources) => !sources.contains(source) && before.included(source),
            VersionChange::Preserve => before.included(source),
        });
        let replays = matches!(&self.spec.on_version_change, VersionChange::Replay(sources) if sources.contains(source));
        let stood = match goes_on {
            Some(before) => self.stood(before, head)?,
            None => None,
        };
        let replay = self.spec.subscription().replay();
        let carried = stood.or_else(|| (self.before.is_some() && replays).then_some(0));
        // Where its own replay does not say the same, even a place before everything is written down.
        let sequence = match carried {
            Some(sequence) => (sequence > 0 || replay != Replay::Beginning).then_some(sequence),
            None => match replay {
                Replay::Beginning => None,
                Replay::Now => Some(head.sequence),
                // One that lies ahead is a floor until it is reached: the consumer keeps it from its declaration.
                Replay::Sequence(first) => {
                    Some(first.saturating_sub(1)).filter(|before| (1..=head.sequence).contains(before))
                }
            },
        };
        if let Some(sequence) = sequence {
            let (consumer, source) = (self.spec.key.clone(), source.clone());
            commit.rows.push(Row::SetProgress { consumer, source, sequence });
        }
        match (goes_on, stood) {
            (Some(before), Some(stood)) => self.inherit(before.consumer, source, stood, commit),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Returns where the version before stands on a source. Nothing if it waits for the event that it is to
    /// begin with: it has no progress there that could be taken over.
    fn stood(&self, before: &Before<'_>, head: &SourceHead) -> Result<Option<u64>, RowError> {
        let written = self.reader.progress_row(before.consumer, &head.source)?;
        Ok(match (written, before.begins_with()) {
            (Some(progress), _) => Some(progress),
            (None, None) => Some(0),
            (None, Some(first)) => Some(first.saturating_sub(1)).filter(|before| *before <= head.sequence),
        })
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
        for event in self.reader.walk_after(&types, source, progress) {
            let event = event?;
            if event.sequence > last {
                break;
            }
            if !self.spec.subscription().matches(&event) {
                continue;
            }
            let mut execution = Execution::fix(&self.frame, std::slice::from_ref(&event));
            if settled.contains(&event.sequence) {
                execution.state = ExecutionState::Closed { how: Closure::Inherited };
            } else {
                execution.put_in_line();
            }
            commit.rows.push(Row::Execution(execution));
        }
        Ok(())
    }
}

/// Is the version before, with what it subscribed to.
struct Before<'a> {
    consumer: &'a ConsumerKey,
    subscribe: serde_json::Value,
}

impl<'a> Before<'a> {
    fn of(registered: &'a Registered) -> Self {
        let declaration = registered.declaration().unwrap_or_default();
        let subscribe = declaration.get("subscribe").cloned().unwrap_or_default();
        Self { consumer: &registered.consumer, subscribe }
    }

    /// Returns the sequence that it was to begin with, if it named one.
    fn begins_with(&self) -> Option<u64> {
        self.subscribe.pointer("/replay/sequence")?.as_u64()
    }

    /// Says whether it looked at a source.
    fn included(&self, source: &SourceId) -> bool {
        let names = |key: &str, name: &str| {
            let list = self.subscribe.get(key).and_then(|list| list.as_array());
            list.is_some_and(|list| list.iter().any(|item| item.as_str() == Some(name)))
        };
        names("sources", source.as_str()) || names("kinds", source.kind())
    }
}
