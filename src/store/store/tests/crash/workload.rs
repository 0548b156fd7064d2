//! A seeded stream of commits of every kind, and enough memory of their verdicts to go on sensibly.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thoughtstream_domain::accounting::{Measured, OnExhaustion, Reservation, Window};
use thoughtstream_domain::commit::{Control, Document, Row};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, EventId, RunId};
use thoughtstream_domain::lifecycle::{Admission, Ending, Execution, ExecutionStatus, FailurePolicy, Frame};
use thoughtstream_domain::payload::system::{Operator, Redacted};
use thoughtstream_domain::retry::{Interrupted, RetryPolicy};

use super::super::accounts::{denial, policy};
use super::super::settlement::{consumer, frame};
use super::*;
use crate::{WriteError, Writer};

/// See the module's page.
pub(super) struct Workload {
    dice: Dice,
    now: i64,
    counter: u64,
    /// Events of `notes:desk` in the log, as triggers.
    notes: Vec<Event>,
    /// The triggers already taken by an execution.
    taken: usize,
    executions: Vec<Execution>,
    /// What attempts have reserved.
    reservations: BTreeMap<RunId, Reservation>,
    /// What each execution commit of the current group would make of its execution.
    expected: Vec<(usize, Execution)>,
    documents: Vec<u64>,
    /// A clock by which a checkpoint is always due.
    later: Instant,
}

impl Workload {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            now: 1000,
            counter: 0,
            notes: Vec::new(),
            taken: 0,
            executions: Vec::new(),
            reservations: BTreeMap::new(),
            expected: Vec::new(),
            documents: vec![0; 4],
            later: Instant::now(),
        }
    }

    pub(super) fn now(&mut self) -> Timestamp {
        self.now += i64::try_from(self.dice.below(20)).unwrap() - 5;
        at(self.now)
    }

    /// Carries the log now and then: at once, or behind the groups that follow.
    pub(super) fn carry(&mut self, writer: &mut Writer) -> Result<(), WriteError> {
        match self.dice.below(10) {
            0 => writer.checkpoint(),
            1..=3 => self.carry_behind(writer),
            _ => Ok(()),
        }
    }

    /// Carries the log behind the groups that follow, unless that is still going on.
    pub(super) fn carry_behind(&mut self, writer: &mut Writer) -> Result<(), WriteError> {
        self.later += Duration::from_secs(1);
        writer.maybe_checkpoint(self.later).map(drop)
    }

    /// Makes the next group: one to four commits that do not depend on each other.
    pub(super) fn group(&mut self) -> Vec<Commit> {
        self.expected.clear();
        let mut group: Vec<Commit> = (0..1 + self.dice.below(3)).map(|_| self.free_commit()).collect();
        if self.dice.chance(70) {
            group.extend(self.execution_commit(group.len()));
        }
        group
    }

    /// Takes up which commits are in the log.
    pub(super) fn learn(&mut self, group: &[Commit], verdicts: &[Verdict]) {
        for (commit, placed) in
            group.iter().zip(verdicts).filter_map(|(c, v)| v.placed().map(|placed| (c, placed)))
        {
            for (candidate, placed) in commit.appends.iter().zip(placed) {
                if candidate.envelope().source == source("notes:desk") {
                    self.notes.push(event(candidate, placed));
                }
            }
        }
        for (index, execution) in std::mem::take(&mut self.expected) {
            if verdicts[index].placed().is_none() {
                continue;
            }
            match self.executions.iter_mut().find(|found| found.id == execution.id) {
                Some(found) => *found = execution,
                None => {
                    self.taken += execution.triggers.len();
                    self.executions.push(execution);
                }
            }
        }
    }

    fn key(&mut self) -> String {
        self.counter += 1;
        format!("{:06}", self.counter)
    }

    fn text(&mut self) -> String {
        let longest = if self.dice.chance(5) { 90_000 } else { 3000 };
        "x".repeat(1 + usize::try_from(self.dice.below(longest)).unwrap())
    }

    fn free_commit(&mut self) -> Commit {
        match self.dice.below(10) {
            0 => self.document(),
            1 => self.redaction(),
            2 => {
                let control = Control { paused_since: Some(at(self.now)), ..Control::default() };
                Commit { rows: vec![Row::Control(consumer().id, control)], ..Commit::default() }
            }
            // A repeat of what may be there, and a conflict with it.
            3 => append(vec![note("000001", "x")]),
            _ => {
                let mut appends = Vec::new();
                for _ in 0..1 + self.dice.below(3) {
                    let name = ["notes:desk", "notes:bed", "notes:car"]
                        [usize::try_from(self.dice.below(3)).unwrap()];
                    let (key, text) = (self.key(), self.text());
                    let parents = self.some_note().into_iter().map(Parent::named).collect();
                    appends.push(note_in(envelope(name, &key).with_parents(parents), &text));
                }
                append(appends)
            }
        }
    }

    fn some_note(&mut self) -> Option<EventId> {
        if self.notes.is_empty() || self.dice.chance(50) {
            return None;
        }
        let index = usize::try_from(self.dice.below(self.notes.len() as u64)).unwrap();
        Some(self.notes[index].id)
    }

    fn document(&mut self) -> Commit {
        let number = usize::try_from(self.dice.below(4)).unwrap();
        // One more than the log may have seen is refused, which is a verdict like any other.
        self.documents[number] += 1;
        let bytes: Arc<[u8]> = self.text().into_bytes().into();
        let sha256 = Sha256Hash::of(&bytes);
        let document = Document {
            source: source("filesystem:notes"),
            id: DocumentId::parse(&format!("doc_{number}")).unwrap(),
            revision: self.documents[number],
            path: format!("{}.md", self.dice.below(1000) * 10 + number as u64),
            sha256,
            bytes: bytes.len() as u64,
            content_type: "text/markdown".to_owned(),
            named: None,
            removed: self.dice.chance(20),
            stat: None,
        };
        Commit {
            rows: vec![Row::Blob { sha256, bytes: Content::new(bytes) }, Row::Document(document)],
            ..Commit::default()
        }
    }

    fn redaction(&mut self) -> Commit {
        let Some(event) = self.some_note() else { return Commit::default() };
        let operator = Operator { uid: 1, pid: 1, tty: None };
        let payload = Redacted { event, reason: "asked to".to_owned(), operator };
        let key = self.key();
        Commit {
            rows: vec![Row::Redact(event)],
            ..append(vec![payload.candidate(envelope("system:decisions", &key))])
        }
    }

    /// Opens, settles, fails or interrupts an execution.
    fn execution_commit(&mut self, index: usize) -> Option<Commit> {
        let open: Vec<usize> = (0..self.executions.len())
            .filter(|index| self.executions[*index].state.status() != ExecutionStatus::Closed)
            .collect();
        let fresh = self.notes.len() - self.taken;
        if fresh > 0 && (open.is_empty() || self.dice.chance(40)) {
            return Some(self.open_execution(index, fresh));
        }
        let chosen = *open.get(usize::try_from(self.dice.below(open.len().max(1) as u64)).unwrap())?;
        let mut execution = self.executions[chosen].clone();
        let retry = RetryPolicy { attempts: 2, ..RetryPolicy::default() };
        let commit = match (execution.state.status(), self.dice.below(4)) {
            (ExecutionStatus::Running, 0) => {
                let ending = self.ending(&execution);
                execution.fail(&frame(), ending, "provider", FailurePolicy::Retryable(retry))
            }
            (ExecutionStatus::Running, 1) => {
                let ending = self.ending(&execution);
                execution.interrupt(&frame(), ending, "found-open", Interrupted::default(), retry)
            }
            (ExecutionStatus::Running, _) => {
                let ending = self.ending(&execution);
                execution.complete(&frame(), ending, &REGISTRY, Vec::new()).unwrap()
            }
            (ExecutionStatus::Waiting, _) => self.open_attempt(&mut execution, 0),
            (ExecutionStatus::Held | ExecutionStatus::Closed, _) => {
                let key = IdempotencyKey::parse(&self.key()).unwrap();
                execution.skip(at(60), "enough", Operator { uid: 1, pid: 1, tty: None }, key)
            }
        };
        self.expected.push((index, execution));
        Some(commit)
    }

    fn open_execution(&mut self, index: usize, fresh: usize) -> Commit {
        let batch = 1 + usize::try_from(self.dice.below(fresh.min(3) as u64)).unwrap();
        let triggers = &self.notes[self.taken..self.taken + batch];
        let previous = self.taken.checked_sub(1).map_or(0, |last| self.notes[last].sequence);
        let mut execution = Execution::fix(&frame(), triggers);
        let commit = if self.dice.chance(30) {
            execution.settle_at_once(&frame(), previous, &REGISTRY, Vec::new()).unwrap()
        } else {
            self.open_attempt(&mut execution, previous)
        };
        self.expected.push((index, execution));
        commit
    }
}

impl Workload {
    /// Opens an attempt: without a reservation, with one that fits or does not, or blocked at once.
    fn open_attempt(&mut self, execution: &mut Execution, previous: u64) -> Commit {
        let now = Frame { now: at(self.now + i64::try_from(self.dice.below(90_000)).unwrap()), ..frame() };
        match self.dice.below(4) {
            0 => execution.open(&frame(), previous),
            1 => {
                let denial = denial(at(self.now));
                let then = if self.dice.chance(50) { OnExhaustion::Advance } else { OnExhaustion::Defer };
                execution.block(&now, previous, &denial, then)
            }
            _ => {
                let policy = Arc::new(policy(Window::Rolling { ms: 40_000 }, 4));
                let admission = Admission { policy, rows: Vec::new() };
                let (commit, reservation) = execution.open_admitted(&now, previous, admission);
                self.reservations.insert(reservation.run, reservation);
                commit
            }
        }
    }

    /// Settles what the attempt has reserved, measured or not.
    fn ending(&mut self, execution: &Execution) -> Ending {
        let Some(reservation) = self.reservations.get(&execution.run_id()).cloned() else {
            return at(50).into();
        };
        let input_tokens = self.dice.chance(50).then(|| self.dice.below(500));
        let charge = reservation.charge(&Measured { input_tokens, ..Measured::default() });
        (reservation, charge).into()
    }
}

/// The event that a candidate became, as far as a trigger needs it.
fn event(candidate: &Candidate, placed: &Placed) -> Event {
    let envelope = candidate.envelope();
    Event {
        position: placed.position,
        id: placed.id,
        kind: candidate.kind().clone(),
        source: envelope.source.clone(),
        sequence: placed.sequence,
        privacy: envelope.privacy,
        actor: envelope.actor.clone(),
        key: envelope.key.clone(),
        occurred_at: None,
        recorded_at: placed.recorded_at,
        root: placed.id,
        parents: Vec::new(),
        depth: 0,
        address: None,
        external: None,
        correlation: None,
        payload: thoughtstream_domain::event::Payload::Redacted,
        payload_sha256: *candidate.payload_sha256(),
        chain: thoughtstream_domain::hash::ChainHash::START,
    }
}
