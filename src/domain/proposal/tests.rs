//! What may be called, how it is read, and what it is bound to.

mod binding;
mod calls;
mod focuses;
mod histories;
mod memories;
mod tools;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::call::{Call, CallCode, CallError, Calls};
use super::capability::{CorrectionTarget, MEMORY_PATH, MEMORY_SOURCE, MemoryTarget, ProposalCapability};
use super::*;
use crate::contract::Contract;
use crate::hash::Sha256Hash;
use crate::id::{DocumentId, EventId, ExecutionId, RunId, SourceId};
use crate::packet::ContractRevision;

/// Makes an event id that differs from every other by its number.
pub(crate) fn event(number: u8) -> EventId {
    EventId::from_bytes([number; 32])
}

/// Makes a target whose output is event `number`, and whose receipt and root are the two behind it.
pub(crate) fn target(number: u8) -> CorrectionTarget {
    let contract = Contract::observation();
    CorrectionTarget {
        run: RunId::derive(&ExecutionId::from_bytes([number; 20]), 1),
        output: event(number),
        receipt: event(number + 1),
        root: event(number + 2),
        contract: ContractRevision { name: contract.kind().clone(), sha256: *contract.hash() },
    }
}

/// Makes the capability that most tests hold calls against: everything declared, two replies, six events.
pub(crate) fn capability() -> ProposalCapability {
    ProposalCapability {
        kinds: Kind::ALL.into(),
        memory: Some(MemoryTarget {
            source: SourceId::parse(MEMORY_SOURCE).unwrap(),
            document: DocumentId::parse("doc_memory").unwrap(),
            path: MEMORY_PATH.to_owned(),
            revision: 3,
            sha256: Sha256Hash::of(b"memory"),
            content_type: "text/markdown".to_owned(),
            bytes: 6,
        }),
        correction_targets: vec![target(10), target(20)],
        evidence: (10..13).chain(20..23).map(event).collect(),
        focus_required: false,
    }
}

pub(crate) fn memory() -> Value {
    json!({
        "operation": "append", "proposed_text": "Lives in Lisbon.", "reason": "They said so.",
        "evidence_event_ids": [event(12)],
    })
}

pub(crate) fn correction() -> Value {
    json!({
        "target_output": "latest", "replacement": "It is five.", "reason": "I miscounted.",
        "evidence_event_ids": [],
    })
}

pub(crate) fn focus() -> Value {
    json!({ "declaration": {
        "id": "lisbon-move", "version": 1,
        "lineage": { "evidence": [event(12)] },
        "scope": { "includes": ["the move to Lisbon"], "excludes": ["work"] },
        "objective": "Keep track of what is still to be done.",
        "subscriptions": [{
            "types": ["stream.thought.source.file.*", "stream.thought.source.note"],
            "sources": ["filesystem:notes"],
        }],
        "budgets": { "runsPerDay": 4, "tokensPerDay": 20000 },
        "requestedPermissions": ["notify"],
        "retirement": { "afterDays": 60, "when": "the move is over" },
    }})
}

pub(crate) fn arguments(kind: Kind) -> Value {
    match kind {
        Kind::MemoryChange => memory(),
        Kind::SelfCorrection => correction(),
        Kind::FocusDeclaration => focus(),
    }
}

/// Reads one call against the capability of these tests.
fn read(kind: Kind, arguments: &Value) -> Result<Calls, CallError> {
    let text = arguments.to_string();
    Calls::of([(kind.tool(), text.as_str())], &capability().for_worker())
}

/// Says what is wrong with one call, and where.
fn wrong(kind: Kind, arguments: &Value) -> (CallCode, String) {
    let CallError { misfit, .. } = read(kind, arguments).unwrap_err();
    (misfit.code, misfit.at)
}

#[test]
fn every_kind_survives_its_spelling_and_its_tool() {
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        assert_eq!(Kind::of_tool(kind.tool()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    assert_eq!(Kind::of_tool("memory-change"), None);
    assert_eq!(Kind::of_tool("Propose_focus"), None);
}

#[test]
fn the_acknowledgments_are_these() {
    let said = |kinds: &[Kind]| acknowledgment(&kinds.iter().copied().collect());
    let (memory, correction, focus) = (Kind::MemoryChange, Kind::SelfCorrection, Kind::FocusDeclaration);
    assert_eq!(said(&[]), None);
    assert_eq!(said(&[memory]), Some("I saved that as a memory suggestion."));
    assert_eq!(said(&[correction]), Some("I saved that as a proposed correction."));
    assert_eq!(said(&[memory, correction]), Some("I saved those as memory and correction suggestions."));
    assert_eq!(said(&[focus]), Some("I saved that as a focus proposal."));
    // The seed has no words for these; ours say as little.
    assert_eq!(said(&[memory, focus]), Some("I saved those as memory and focus suggestions."));
    assert_eq!(said(&[correction, focus]), Some("I saved those as correction and focus suggestions."));
    let all = "I saved those as memory, correction and focus suggestions.";
    assert_eq!(said(&[focus, correction, memory]), Some(all));
}

#[test]
fn an_acknowledgment_promises_nothing_and_names_nothing() {
    for bits in 0_u8..8 {
        let chosen = Kind::ALL.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        let kinds: BTreeSet<Kind> = chosen.map(|(_, kind)| kind).collect();
        let said = acknowledgment(&kinds);
        assert_eq!(said.is_some(), !kinds.is_empty());
        for word in ["applied", "approved", "learn", "train", "publish", "will", "_", "@"] {
            assert!(!said.unwrap_or_default().contains(word), "{said:?}");
        }
    }
}
