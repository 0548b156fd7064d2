//! Judgments: each is about its first parent and replaces one of the same output, a retraction names its first parent,
//! and of what holds nothing contradicts anything else.
//!
//! The writer refuses a judgment made without sight of what was said before, so two that contradict each other were
//! not made by this program, or by a build that did not look.

use std::collections::{BTreeMap, BTreeSet};

use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::judgment::{Given, active, contradict};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::judgment::{JudgmentRetracted, Opinion, TrainingExample};

use super::{FindingKind, Findings};
use crate::reader::Reader;
use crate::rows::RowError;
use crate::tables::Table;

/// Checks every judgment and every retraction. What was erased meanwhile is not held against the log.
pub(super) fn check(reader: &Reader, findings: &mut Findings) -> Result<(), RowError> {
    let mut outputs: BTreeMap<EventId, Vec<Given>> = BTreeMap::new();
    // What an erased judgment had replaced, nobody can say any more.
    let mut erased = BTreeSet::new();
    for event in reader.of_types(&[TrainingExample::kind().name])? {
        if event.payload == Payload::Redacted {
            erased.extend(event.parents.first().copied());
            continue;
        }
        let retracted = reader.is_retracted(&event)?;
        match Given::of(&event, retracted) {
            Some(given) if event.parents.first() == Some(&given.output) => {
                outputs.entry(given.output).or_default().push(given);
            }
            Some(_) | None => add(findings, &event, "the judgment is not about its first parent"),
        }
    }
    for event in reader.of_types(&[JudgmentRetracted::kind().name])? {
        let named = event.payload_as::<JudgmentRetracted>().map(|retracted| retracted.judgment);
        if event.payload != Payload::Redacted && named.ok().as_ref() != event.parents.first() {
            add(findings, &event, "the retraction does not name its first parent");
        }
    }
    outputs.retain(|output, _| !erased.contains(output));
    outputs.values().for_each(|all| check_order(all, findings));
    check_standing(&outputs, findings);
    Ok(())
}

/// Checks that nothing that holds contradicts anything else that does.
fn check_standing(outputs: &BTreeMap<EventId, Vec<Given>>, findings: &mut Findings) {
    // Whoever prefers the other of two says so of the other output: a preference belongs to both.
    let mut standing: BTreeMap<EventId, Vec<&Given>> = BTreeMap::new();
    for given in outputs.values().flat_map(|all| active(all)) {
        for output in [Some(given.output), compares(given)].into_iter().flatten() {
            standing.entry(output).or_default().push(given);
        }
    }
    let mut told = BTreeSet::new();
    for all in standing.values_mut() {
        all.sort_by_key(|given| given.event.position);
        for (index, one) in all.iter().enumerate() {
            let other = all[..index].iter().find(|other| contradict(one, other));
            if let Some(other) = other.filter(|_| told.insert(one.event.id)) {
                add(findings, &one.event, format_args!("it contradicts {}, and both hold", other.event.id));
            }
        }
    }
}

/// Checks that what a judgment replaces is an earlier judgment of the same output.
fn check_order(all: &[Given], findings: &mut Findings) {
    for given in all {
        let earlier = |id: EventId| {
            all.iter().any(|before| before.event.id == id && before.event.position < given.event.position)
        };
        if given.supersedes().is_some_and(|replaced| !earlier(replaced)) {
            add(findings, &given.event, "it replaces what is no earlier judgment of the same output");
        }
    }
}

/// Returns the output that a preference sets below the one that it is about.
fn compares(given: &Given) -> Option<EventId> {
    match given.opinion {
        Opinion::Prefer { over_output, .. } => Some(over_output),
        Opinion::Accept | Opinion::Reject | Opinion::Correct { .. } => None,
    }
}

fn add(findings: &mut Findings, event: &Event, message: impl std::fmt::Display) {
    findings.add(FindingKind::Judgment, format!("{} {}", Table::Events.name(), event.position), message);
}
