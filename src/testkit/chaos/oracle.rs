//! The judge: what was acknowledged, kept outside of the log, and what must be true of a log that is quiet.
//!
//! It counts for itself what `verify` counts too, from the events alone, so that a mistake in one shows in the
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use thoughtstream_domain::commit::Placed;
use thoughtstream_domain::declaration::{Declaration, DeclarationSet};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, EventId, ExecutionId, RunId, SourceId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState};
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::run::{
    RunAbandoned, RunBlocked, RunCompleted, RunFailed, RunStatusUnknown,
};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader, verify};

use super::cast::{CAST, answer_path};

/// Where the log said an event is, as far as every way of asking it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The event.
    pub id: EventId,
    /// Its global position.
    pub position: u64,
    /// Its place in its source.
    pub sequence: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

impl From<Placed> for Place {
    fn from(Placed { id, position, sequence, recorded_at, .. }: Placed) -> Self {
        Self { id, position, sequence, recorded_at }
    }
}

/// An event that the log said it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its source.
    pub source: SourceId,
    /// Where it stands.
    pub placed: Place,
    /// How many operations the disk had done by then, where that is counted.
    pub operations: u64,
}

/// Keeps what was acknowledged; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Oracle(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    events: Vec<Acknowledged>,
    skipped: BTreeSet<ExecutionId>,
}

impl Oracle {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an acknowledgement.
    pub fn acknowledged(
        &self,
        source: &SourceId,
        placed: impl IntoIterator<Item = impl Into<Place>>,
        operations: u64,
    ) {
        let noted = placed.into_iter().map(|placed| Acknowledged {
            source: source.clone(),
            placed: placed.into(),
            operations,
        });
        self.kept().events.extend(noted);
    }

    /// Notes that a person skipped an execution.
    pub fn skipped(&self, execution: ExecutionId) {
        self.kept().skipped.insert(execution);
    }

    /// Returns what was acknowledged so far.
    #[must_use]
    pub fn events(&self) -> Vec<Acknowledged> {
        self.kept().events.clone()
    }

    /// Checks that the log has every acknowledged event where it said, of those acknowledged within the first
    /// `operations` of the disk.
    pub fn check_acknowledged(&self, reader: &Reader, operations: u64, context: &str) {
        for Acknowledged { source, placed, operations: by } in self.events() {
            if by > operations {
                continue;
            }
            let found = reader.event_at(placed.position).expect("the log is read");
            let found = found.map(|event| (event.id, event.source, event.sequence, event.recorded_at));
            let expected = (placed.id, source, placed.sequence, placed.recorded_at);
            assert_eq!(found, Some(expected), "{context}: an acknowledged event is not where the log said");
        }
    }

    /// Checks everything that must be true of a log that is quiet, for these declarations.
    pub fn check_quiet(&self, reader: &Reader, set: &DeclarationSet, context: &str) {
        check_verified(reader, set, context);
        let log = Log(check_whole(reader, context));
        let skipped = self.kept().skipped.clone();
        for declaration in set.enabled() {
            Judged { reader, log: &log, declaration, skipped: &skipped, context }.check();
        }
    }
}

/// Checks what must be true of every log that is quiet, whatever is declared: no gap, nothing twice, one end of each
/// attempt, none open. Returns its events in order.
pub fn check_whole(reader: &Reader, context: &str) -> Vec<Event> {
    let log = Log::read(reader);
    log.check_sources(context);
    log.check_lifecycles(context);
    let open = reader.open_attempts(None).expect("the log is read");
    assert!(open.is_empty(), "{context}: attempts are open: {open:?}");
    log.0
}

/// Runs the check that an operator runs, comparing progress with what subscriptions match.
pub fn check_verified(reader: &Reader, set: &DeclarationSet, context: &str) -> verify::Report {
    let before: BTreeMap<ConsumerKey, ConsumerKey> = reader
        .consumers()
        .iter()
        .filter_map(|key| {
            let older = reader.consumers().into_iter().filter(|k| k.id == key.id && k.version < key.version);
            Some((key.clone(), older.max()?))
        })
        .collect();
    let matches = |key: &ConsumerKey, event: &Event| {
        let Some(declaration) = set.get(&key.id).filter(|d| d.subscription().matches(event)) else {
            return false;
        };
        // A version that was superseded stopped somewhere; its successor began there.
        let began = before.get(key).map_or(0, |older| reader.progress(older, &event.source).unwrap_or(0));
        declaration.key() == key && event.sequence > began
    };
    let options = verify::Options { matches: Some(&matches), ..verify::Options::default() };
    let report = verify::verify(reader, options).expect("the log is open");
    assert!(report.ok, "{context}: verify found {:?}", report.findings);
    report
}

/// All events, in order.
struct Log(Vec<Event>);

impl Log {
    fn read(reader: &Reader) -> Self {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.position);
            let page = reader.page_after(after, PAGE_ROWS_MAX).expect("the log is read");
            if page.is_empty() {
                return Self(events);
            }
            events.extend(page);
        }
    }

    fn check_sources(&self, context: &str) {
        let (mut ids, mut heads) = (BTreeSet::new(), BTreeMap::<SourceId, u64>::new());
        for (event, position) in self.0.iter().zip(1..) {
            assert_eq!(event.position, position, "{context}: a position is missing");
            let head = heads.entry(event.source.clone()).or_default();
            *head += 1;
            assert_eq!(event.sequence, *head, "{context}: {} has a gap", event.source);
            assert!(ids.insert(event.id), "{context}: {} is there twice", event.id);
        }
    }

    /// Counts terminal events by attempt and completions by execution.
    fn check_lifecycles(&self, context: &str) {
        let mut ended: BTreeMap<RunId, u32> = BTreeMap::new();
        let mut completed: BTreeMap<ExecutionId, u32> = BTreeMap::new();
        for event in &self.0 {
            let Some(stamp) = terminal(event) else { continue };
            *ended.entry(stamp.run).or_default() += 1;
            if event.kind == RunCompleted::kind() {
                *completed.entry(stamp.execution).or_default() += 1;
            }
        }
        for (run, count) in ended {
            assert_eq!(count, 1, "{context}: {run} ended {count} times");
        }
        for (execution, count) in completed {
            assert_eq!(count, 1, "{context}: {execution} was completed {count} times");
        }
    }
}

/// Reads whose attempt ended with this event.
fn terminal(event: &Event) -> Option<thoughtstream_domain::payload::run::RunStamp> {
    fn stamp<P: TypedPayload>(
        event: &Event,
        stamp: fn(P) -> thoughtstream_domain::payload::run::RunStamp,
    ) -> Option<thoughtstream_domain::payload::run::RunStamp> {
        (event.kind == P::kind()).then(|| event.payload_as::<P>().ok().map(stamp)).flatten()
    }
    stamp::<RunCompleted>(event, |payload| payload.stamp)
        .or_else(|| stamp::<RunFailed>(event, |payload| payload.stamp))
        .or_else(|| stamp::<RunBlocked>(event, |payload| payload.stamp))
        .or_else(|| stamp::<RunStatusUnknown>(event, |payload| payload.stamp))
        .or_else(|| stamp::<RunAbandoned>(event, |payload| payload.stamp))
}

/// One consumer before the judge, all of its versions together.
struct Judged<'a> {
    reader: &'a Reader,
    log: &'a Log,
    declaration: &'a Declaration,
    skipped: &'a BTreeSet<ExecutionId>,
    context: &'a str,
}

impl Judged<'_> {
    fn id(&self) -> &ConsumerId {
        &self.declaration.key().id
    }

    fn check(&self) {
        let context = self.context;
        let matching: Vec<&Event> =
            self.log.0.iter().filter(|event| self.declaration.subscription().matches(event)).collect();
        let mut closed: BTreeMap<EventId, u32> = BTreeMap::new();
        let mut passed: BTreeSet<EventId> = BTreeSet::new();
        for execution in self.executions() {
            let triggers = execution.triggers.iter().map(|trigger| trigger.id);
            match execution.state {
                ExecutionState::Closed { how: Closure::Completed } => {
                    triggers.for_each(|id| *closed.entry(id).or_default() += 1);
                }
                ExecutionState::Closed { how: Closure::Superseded | Closure::Inherited } => {}
                ExecutionState::Closed { how: Closure::Skipped } if self.skipped.contains(&execution.id) => {
                    passed.extend(triggers);
                }
                ref other @ (ExecutionState::Running
                | ExecutionState::Waiting { .. }
                | ExecutionState::Held { .. }
                | ExecutionState::Closed { .. }) => {
                    panic!("{context}: {} of {} stands at {other:?}", execution.id, self.id())
                }
            }
        }
        for event in &matching {
            let count = closed.remove(&event.id).unwrap_or(0);
            let expected = u32::from(!passed.contains(&event.id));
            assert_eq!(
                count,
                expected,
                "{context}: {} completed {} ({}#{}) {count} times",
                self.id(),
                event.id,
                event.source,
                event.sequence
            );
        }
        assert!(closed.is_empty(), "{context}: {} completed what does not match: {closed:?}", self.id());
        self.check_outputs(&matching, &passed);
        self.check_progress(&matching);
    }

    fn executions(&self) -> Vec<Execution> {
        let mut found = Vec::new();
        for key in self.reader.consumers().iter().filter(|key| key.id == *self.id()) {
            let mut before = None;
            loop {
                let page =
                    self.reader.executions_before(key, before, PAGE_ROWS_MAX).expect("the log is read");
                let Some(last) = page.last() else { break };
                before = Some(last.position());
                found.extend(page);
            }
        }
        found
    }

    /// Counts outputs: one for each trigger, whatever happened on the way.
    fn check_outputs(&self, matching: &[&Event], passed: &BTreeSet<EventId>) {
        let echoes = CAST.iter().any(|part| part.id == self.id().as_str() && part.echoes.is_some());
        let agent = self.declaration.agent_source();
        let outputs = self
            .log
            .0
            .iter()
            .filter(|event| event.source == agent && self.declaration.emit().contains(&event.kind.name));
        let mut by_path: BTreeMap<String, u32> = BTreeMap::new();
        let mut count = 0;
        for output in outputs {
            count += 1;
            let path = output.payload_value().and_then(|value| Some(value.get("path")?.as_str()?.to_owned()));
            *by_path.entry(path.unwrap_or_default()).or_default() += 1;
        }
        let answered = matching.iter().filter(|event| !passed.contains(&event.id));
        let context = self.context;
        if echoes {
            for event in answered {
                let found = by_path.remove(&answer_path(&event.id)).unwrap_or(0);
                assert_eq!(found, 1, "{context}: {} answered {} {found} times", self.id(), event.id);
            }
            assert!(by_path.is_empty(), "{context}: {} answered what nobody asked", self.id());
        } else {
            assert_eq!(count, answered.count(), "{context}: {} put out {count} events", self.id());
        }
    }

    /// Everything that matches is closed, so progress stands at or behind the last of it, and within the source.
    fn check_progress(&self, matching: &[&Event]) {
        let mut last: BTreeMap<&SourceId, u64> = BTreeMap::new();
        for event in matching {
            last.insert(&event.source, event.sequence);
        }
        for (source, sequence) in last {
            let progress = self.reader.progress(self.declaration.key(), source).expect("the log is read");
            let head = self.reader.head(source).expect("the log is read").map_or(0, |head| head.sequence);
            let context = self.context;
            assert!(
                (sequence..=head).contains(&progress),
                "{context}: {} stands at {progress} on {source}, not between {sequence} and {head}",
                self.declaration.key()
            );
        }
    }
}

/// Compares the documents of a source with the files of its folder; says what differs.
#[must_use]
pub fn folder_differs(reader: &Reader, source: &SourceId, folder: &Path) -> Option<String> {
    let mut known: BTreeMap<String, Sha256Hash> = BTreeMap::new();
    let mut after = None;
    loop {
        let page = reader.documents(source, after.as_ref(), PAGE_ROWS_MAX).ok()?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        known.extend(page.into_iter().filter(|d| !d.removed).map(|d| (d.path, d.sha256)));
    }
    let mut there: BTreeMap<String, Sha256Hash> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name().into_string().ok()?;
        if name.ends_with(".md") {
            there.insert(name, Sha256Hash::of(&std::fs::read(entry.path()).ok()?));
        }
    }
    (known != there).then(|| {
        let (ours, theirs): (Vec<_>, Vec<_>) = (known.keys().collect(), there.keys().collect());
        format!("the log has {ours:?}, the folder {theirs:?}")
    })
}
