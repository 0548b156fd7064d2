//! Targets come from the snapshot, and what is proposed says nothing but that.

use super::*;
use crate::canonical;
use crate::contract::Observation;
use crate::event::{Event, Parent};
use crate::packet::DocumentReference;
use crate::payload::TypedPayload as _;
use crate::payload::output::tests::stamp;
use crate::payload::proposal::{
    CorrectionProposed, Decidable, Disposition, FocusProposed, MemoryChangeProposed, ProposalDecision,
    Proposed, Proposer,
};
use crate::privacy::Privacy;
use crate::proposal::bind::{Bound, ProposeError};
use crate::registry::{Draft, DraftPayload, Registry, Writer};

fn observation(text: &str) -> Observation {
    let value = json!({ "summary": text, "tags": ["count"], "importance": "high", "confidence": 0.25 });
    Contract::observation().check(&value).unwrap()
}

fn proposer() -> Proposer {
    let stamp = stamp();
    Proposer {
        run: stamp.run,
        output: event(40),
        trigger: event(41),
        agent: stamp.consumer,
        fingerprint: stamp.fingerprint,
        provider: "local".to_owned(),
        model: "small-1".to_owned(),
        snapshot: Sha256Hash::of(b"packet"),
    }
}

fn bound(kind: Kind, arguments: &Value) -> Bound {
    let bound = read(kind, arguments).unwrap().bind(&capability()).unwrap();
    <[Bound; 1]>::try_from(bound).unwrap()[0].clone()
}

pub(super) fn proposed(kind: Kind) -> Proposed {
    bound(kind, &arguments(kind)).proposed(proposer(), Some(&observation("It is four."))).unwrap()
}

fn payload(proposed: &Proposed) -> Value {
    serde_json::from_slice(proposed.event(&stamp()).payload().reveal()).unwrap()
}

#[test]
fn latest_is_the_last_target_and_is_kept_nowhere() {
    let Bound::Correction { target, .. } = bound(Kind::SelfCorrection, &correction()) else { panic!() };
    assert_eq!(target, super::target(20));
    let mut by_id = correction();
    by_id["target_output"] = json!(event(10));
    let Bound::Correction { target, .. } = bound(Kind::SelfCorrection, &by_id) else { panic!() };
    assert_eq!(target, super::target(10));
    assert!(!payload(&proposed(Kind::SelfCorrection)).to_string().contains("latest"));
}

#[test]
fn a_call_that_is_admitted_to_nobody_is_bound_to_nothing() {
    let calls = |kind: Kind| read(kind, &arguments(kind)).unwrap();
    let mut admitted = capability();
    admitted.memory = None;
    admitted.correction_targets.clear();
    admitted.evidence.clear();
    for kind in Kind::ALL {
        let error = calls(kind).bind(&admitted).unwrap_err();
        assert!(matches!(error.misfit.code, CallCode::NotOffered | CallCode::NotAdmitted), "{kind}");
    }
}

#[test]
fn evidence_authorizes_no_target() {
    let mut admitted = capability();
    admitted.correction_targets.truncate(1);
    let mut call = correction();
    call["target_output"] = json!(event(20));
    call["evidence_event_ids"] = json!([event(20)]);
    let error = read(Kind::SelfCorrection, &call).unwrap().bind(&admitted).unwrap_err();
    assert_eq!((error.misfit.code, error.misfit.at.as_str()), (CallCode::NotAdmitted, "/target_output"));
}

#[test]
fn only_the_memory_document_of_its_one_source_is_a_target() {
    let reference = |source: &str, path: &str| DocumentReference {
        source: SourceId::parse(source).unwrap(),
        id: DocumentId::parse("doc_x").unwrap(),
        revision: 2,
        path: path.to_owned(),
        content_type: "text/markdown".to_owned(),
        bytes: 4,
        sha256: Sha256Hash::of(b"text"),
    };
    let found = MemoryTarget::of(&reference(MEMORY_SOURCE, "memory.md")).unwrap();
    assert_eq!((found.revision, found.sha256), (2, Sha256Hash::of(b"text")));
    for (source, path) in [
        ("filesystem:notes", "memory.md"),
        (MEMORY_SOURCE, "Memory.md"),
        (MEMORY_SOURCE, "notes/memory.md"),
        (MEMORY_SOURCE, "identity.md"),
    ] {
        assert_eq!(MemoryTarget::of(&reference(source, path)), None, "{source} {path}");
    }
}

#[test]
fn a_memory_change_says_its_text_its_length_and_its_hash() {
    let Proposed::Memory(memory) = proposed(Kind::MemoryChange) else { panic!() };
    assert_eq!((memory.text_length, memory.text_sha256), (16, Sha256Hash::of(b"Lives in Lisbon.")));
    assert_eq!(Some(memory.target), capability().memory);
    assert_eq!(memory.proposer, proposer());
}

#[test]
fn a_correction_is_the_whole_value_under_the_frozen_contract() {
    let Proposed::Correction(corrected) = proposed(Kind::SelfCorrection) else { panic!() };
    let Observation { .. } = corrected.replacement;
    assert_eq!(corrected.replacement.summary(), "It is five.");
    assert_eq!(corrected.replacement.tags(), ["count"]);
    assert_eq!(corrected.replacement.importance().as_str(), "high");
    let call = bound(Kind::SelfCorrection, &correction());
    assert_eq!(call.corrects(), Some(event(20)));
    assert_eq!(call.clone().proposed(proposer(), None).unwrap_err(), ProposeError::NoOriginal);
    let Bound::Correction { mut target, replacement, reason, evidence } = call else { panic!() };
    target.contract.sha256 = Sha256Hash::of(b"another definition");
    let other = Bound::Correction { target, replacement, reason, evidence };
    let refused = other.proposed(proposer(), Some(&observation("It is four.")));
    assert_eq!(refused.unwrap_err(), ProposeError::UnknownContract);
}

#[test]
fn a_focus_is_known_by_a_fingerprint_that_we_compute_and_may_do_nothing() {
    let value = payload(&proposed(Kind::FocusDeclaration));
    let Proposed::Focus(focus) = proposed(Kind::FocusDeclaration) else { panic!() };
    assert_eq!(focus.declaration_fingerprint, focus.declaration.fingerprint());
    for authority in ["activation", "dataExpansion", "externalActions", "training", "adapterPromotion"] {
        assert_eq!(value["authority"][authority], false);
    }
    for unchecked in ["events", "sources", "capabilities", "lineage"] {
        assert_eq!(value["resolution"][unchecked], "unchecked");
    }
}

#[test]
fn proposals_pass_the_door_of_settlement_alone_and_are_read_back() {
    let registry = Registry::shipped();
    for kind in Kind::ALL {
        let candidate = proposed(kind).event(&stamp());
        assert_eq!(candidate.kind(), &Proposed::type_of(kind));
        assert_eq!(candidate.envelope().privacy, Privacy::Sensitive);
        let draft = |payload: Value| Draft {
            kind: candidate.kind().clone(),
            envelope: candidate.envelope().clone(),
            payload: crate::content::Content::new(DraftPayload(payload)),
        };
        let admitted = registry.admit(Writer::Settlement, draft(payload(&proposed(kind)))).unwrap();
        assert_eq!(admitted, candidate);
        for by in [Writer::Hand, Writer::Producer, Writer::Decision, Writer::Materialization, Writer::Effect]
        {
            assert!(registry.admit(by, draft(payload(&proposed(kind)))).is_err());
        }
    }
}

#[test]
fn a_proposal_that_says_more_than_it_may_is_no_proposal() {
    let registry = Registry::shipped();
    let members: [(Kind, &[&str]); 3] = [
        (Kind::MemoryChange, &["/publicationEligible"]),
        (Kind::SelfCorrection, &["/publicationEligible", "/qualityEligible", "/externalExportEligible"]),
        (
            Kind::FocusDeclaration,
            &[
                "/authority/activation",
                "/authority/dataExpansion",
                "/authority/externalActions",
                "/authority/training",
                "/authority/adapterPromotion",
            ],
        ),
    ];
    for (kind, members) in members {
        let schema = registry.get(&Proposed::type_of(kind)).unwrap().schema();
        let validator = jsonschema::validator_for(schema).unwrap();
        let reads = |value: &Value| match kind {
            Kind::MemoryChange => serde_json::from_value::<MemoryChangeProposed>(value.clone()).is_ok(),
            Kind::SelfCorrection => serde_json::from_value::<CorrectionProposed>(value.clone()).is_ok(),
            Kind::FocusDeclaration => serde_json::from_value::<FocusProposed>(value.clone()).is_ok(),
        };
        let good = payload(&proposed(kind));
        assert!(reads(&good) && validator.is_valid(&good));
        for at in members.iter().chain(&["/proposalState"]) {
            for more in [json!(true), json!("approved"), json!(null)] {
                let mut bad = good.clone();
                *bad.pointer_mut(at).unwrap() = more;
                assert!(!reads(&bad) && !validator.is_valid(&bad), "{kind} {at}");
            }
        }
    }
}

#[test]
fn each_kind_is_one_event_a_run_below_its_own_parent() {
    for kind in Kind::ALL {
        let proposed = proposed(kind);
        let parent = if kind == Kind::SelfCorrection { event(20) } else { event(40) };
        assert_eq!(proposed.event(&stamp()).envelope().parents, [Parent::named(parent)]);
        assert_eq!((proposed.kind(), proposed.proposer()), (kind, &proposer()));
    }
    let other = {
        let mut call = memory();
        call["proposed_text"] = "Something else.".into();
        bound(Kind::MemoryChange, &call).proposed(proposer(), None).unwrap()
    };
    assert_eq!(proposed(Kind::MemoryChange).event(&stamp()).id(), other.event(&stamp()).id());
}

#[test]
fn a_proposal_does_not_print_what_it_proposes() {
    for kind in Kind::ALL {
        let printed = format!("{:?}", proposed(kind));
        for word in ["Lisbon", "five", "miscounted", "They said"] {
            assert!(!printed.contains(word), "{printed}");
        }
    }
}

#[test]
fn a_decision_is_a_persons_about_memory_or_a_correction() {
    let decision = ProposalDecision {
        proposal: event(50),
        kind: Decidable::MemoryChange,
        disposition: Disposition::Reject,
        submission: crate::event::Reference::parse("cli-1").unwrap(),
        actor: crate::event::Reference::parse("uid:1000").unwrap(),
        authority: crate::payload::proposal::Authority::Human,
    };
    let registry = Registry::shipped();
    let schema = registry.get(&ProposalDecision::kind()).unwrap().schema();
    let validator = jsonschema::validator_for(schema).unwrap();
    let good: Value = serde_json::from_slice(&canonical::write_type(&decision).unwrap()).unwrap();
    // The schema and the type each: either alone would let through what the other forgets.
    let reads = |value: &Value| {
        [validator.is_valid(value), serde_json::from_value::<ProposalDecision>(value.clone()).is_ok()]
    };
    assert_eq!(reads(&good), [true; 2]);
    for (at, bad) in [
        ("/kind", json!("focus-declaration")),
        ("/authority", json!("model")),
        ("/disposition", json!({ "kind": "accept", "replacement": "x" })),
        ("/disposition", json!({ "kind": "reject", "replacement": "x" })),
        ("/disposition", json!({ "kind": "edit" })),
        ("/disposition", json!({ "kind": "edit", "replacement": "" })),
    ] {
        let mut value = good.clone();
        *value.pointer_mut(at).unwrap() = bad.clone();
        assert_eq!(reads(&value), [false; 2], "{at} {bad}");
    }
    assert_eq!(Decidable::of(Kind::FocusDeclaration), None);
    assert_eq!(ProposalDecision::key(&event(50)), ProposalDecision::key(&event(50)));
    assert_ne!(ProposalDecision::key(&event(50)), ProposalDecision::key(&event(51)));
}

#[test]
fn a_sandbox_is_told_what_may_be_called_and_no_target() {
    let told = serde_json::to_value(capability().for_worker()).unwrap();
    let names: Vec<&String> = told.as_object().unwrap().keys().collect();
    assert_eq!(names, ["evidence", "kinds", "targets"]);
    let memory = capability().memory.unwrap();
    let run = super::target(20).run.to_string();
    for secret in [MEMORY_PATH, MEMORY_SOURCE, memory.document.as_str(), &memory.sha256.to_string(), &run] {
        assert!(!told.to_string().contains(secret), "{secret}");
    }
    let all = serde_json::to_value(capability()).unwrap();
    assert_eq!(serde_json::from_value::<ProposalCapability>(all).unwrap(), capability());
}

#[test]
fn a_proposal_is_read_from_its_event_whatever_it_proposes() {
    for kind in Kind::ALL {
        let proposed = proposed(kind);
        let candidate = proposed.event(&stamp());
        let placed = crate::commit::Placed {
            id: candidate.id(),
            position: 1,
            sequence: 1,
            recorded_at: crate::time::Timestamp::from_millis(0),
            root: event(42),
            depth: 2,
            chain: crate::hash::ChainHash::START,
        };
        assert_eq!(Proposed::read(&Event::recorded(&candidate, &placed)).unwrap(), proposed);
    }
}
