use serde_json::json;

use super::*;
use crate::content::Content;
use crate::event::{Actor, ActorKind, Envelope};
use crate::id::{IdempotencyKey, SourceId};
use crate::judgment::tests::{ROOT, given, output, plain, record};
use crate::judgment::{Judging, Proposed};
use crate::payload::TypedPayload as _;
use crate::payload::judgment::TrainingExampleV1;
use crate::payload::note::Note;

const SECRET: &str = "hunter2";

fn trigger(privacy: Privacy) -> Event {
    let note = Note { text: SECRET.into(), title: None, tags: Vec::new() };
    let envelope = Envelope::new(
        SourceId::parse("notes:diary").unwrap(),
        IdempotencyKey::parse("k1").unwrap(),
        privacy,
        Actor::ours(ActorKind::Person, "uid:1000"),
    );
    record(&note.candidate(envelope), 5, Some(ROOT))
}

fn lineage(text: &str, attempt: u32, privacy: Privacy) -> Lineage {
    let judged = Judged::of(&output(text, attempt, privacy, 10)).unwrap();
    Lineage {
        judged,
        triggers: vec![trigger(privacy)],
        ancestry: privacy,
        trace: Some(vec![Step::CellStarted, Step::Requested, Step::Answered, Step::Accepted]),
        declaration: json!({
            "id": "garden", "prompt": SECRET,
            "context": { "maxEvents": 8, "maxChars": 24000, "documents": [SECRET], "historyAgentIds": [SECRET] },
        }),
    }
}

fn free(opinion: Proposed<'_>) -> Judging<'_> {
    Judging { external_export_eligible: true, authorizes_private: true, ..plain(opinion) }
}

fn facts(primary: Lineage, judging: &Judging<'_>, compared: Option<Lineage>) -> Facts {
    let given = given(&primary.judged, judging, 20);
    Facts { given, active: true, primary: Some(primary), compared, delivery: None, feedback: None }
}

fn public() -> Facts {
    facts(lineage("Water it.", 1, Privacy::PublicSource), &free(Proposed::Accept), None)
}

#[test]
fn an_example_has_exactly_these_fields() {
    let example = example(&public(), Gate::PublicOnly).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&example).unwrap(), @r#"
    {
      "format": "thoughtstream.training-example.v3",
      "kind": "accept",
      "contract": {
        "id": "stream.thought.output.observation@1",
        "definitionHash": "f5409dd4f16c7c76528d287b61350970a7454ca3d1d2b855a8280146d068477d"
      },
      "source": {
        "type": "stream.thought.source.note",
        "schemaVersion": 1,
        "sourceKind": "notes",
        "privacy": "public-source"
      },
      "contextPolicy": {
        "maxChars": 24000,
        "maxEvents": 8
      },
      "provenance": {
        "executionAdapterRevision": "cell-v1",
        "model": "small-1"
      },
      "trace": [
        "cell.started",
        "provider.requested",
        "provider.answered",
        "contract.accepted"
      ],
      "chosen": {
        "summary": "Water it.",
        "tags": [
          "conversation"
        ],
        "importance": "normal",
        "confidence": 0.5
      }
    }
    "#);
}

#[test]
fn a_preference_tells_both_runs_apart() {
    let other = lineage("Leave it.", 2, Privacy::PublicSource);
    let judged = other.judged.clone();
    let facts =
        facts(lineage("Water it.", 1, Privacy::PublicSource), &free(Proposed::Prefer(&judged)), Some(other));
    let value = serde_json::to_value(example(&facts, Gate::PublicOnly).unwrap()).unwrap();
    assert_eq!(value["chosen"]["summary"], "Water it.");
    assert_eq!(value["rejected"]["summary"], "Leave it.");
    assert_eq!(value["compared"]["provenance"]["model"], "small-1");
    assert_eq!(value["compared"]["trace"][1], "provider.requested");
}

#[test]
fn each_opinion_says_what_is_chosen_and_what_is_rejected() {
    let right = Content::new("Wait.".to_owned());
    for (opinion, chosen, rejected) in [
        (Proposed::Accept, json!("Water it."), json!(null)),
        (Proposed::Reject, json!(null), json!("Water it.")),
        (Proposed::CorrectText(&right), json!("Wait."), json!("Water it.")),
    ] {
        let facts = facts(lineage("Water it.", 1, Privacy::PublicSource), &free(opinion), None);
        let value = serde_json::to_value(example(&facts, Gate::PublicOnly).unwrap()).unwrap();
        assert_eq!((&value["chosen"]["summary"], &value["rejected"]["summary"]), (&chosen, &rejected));
    }
}

#[test]
fn nothing_leads_back_to_the_person() {
    let facts = public();
    let judged = &facts.primary.as_ref().unwrap().judged;
    let text = serde_json::to_string(&example(&facts, Gate::PublicOnly).unwrap()).unwrap();
    let run = judged.stamp.run.to_string();
    let ids = [judged.event.id.to_string(), facts.given.event.id.to_string(), ROOT.to_string(), run];
    let hashes = [judged.snapshot.to_string(), judged.stamp.fingerprint.to_string()];
    for hidden in ids.iter().chain(&hashes) {
        assert!(!text.contains(hidden.as_str()), "{hidden}");
    }
    for hidden in [SECRET, "diary", "uid:", "garden", "local", "evt_", "run_", "Millis", "recordedAt"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

#[test]
fn both_gates_are_shut_by_default() {
    let why = |facts: &Facts, gate| example(facts, gate).err();
    for (quality, external, said) in [
        (false, false, Some(Excluded::NotQualityEligible)),
        (false, true, Some(Excluded::NotQualityEligible)),
        (true, false, Some(Excluded::NotExternallyEligible)),
        (true, true, None),
    ] {
        let judging = Judging {
            quality_eligible: quality,
            external_export_eligible: external,
            ..free(Proposed::Accept)
        };
        let facts = facts(lineage("x", 1, Privacy::PublicSource), &judging, None);
        assert_eq!(why(&facts, Gate::PublicOnly), said);
    }
    for privacy in [Privacy::Private, Privacy::Sensitive] {
        let facts = facts(lineage("x", 1, privacy), &free(Proposed::Accept), None);
        assert_eq!(why(&facts, Gate::PublicOnly), Some(Excluded::AbovePublic));
        assert_eq!(why(&facts, Gate::AuthorizedPrivate), None);
    }
}

#[test]
fn the_second_gate_needs_the_first_word() {
    let mut private = facts(lineage("x", 1, Privacy::Private), &free(Proposed::Accept), None);
    let mut unspoken = private.clone();
    unspoken.given.newer.as_mut().unwrap().external_authorization = None;
    assert_eq!(example(&unspoken, Gate::AuthorizedPrivate).unwrap_err(), Excluded::NotAuthorized);
    // A word for a class is no word for a stronger one, wherever in the chain it appears.
    private.primary.as_mut().unwrap().ancestry = Privacy::Sensitive;
    assert_eq!(example(&private, Gate::AuthorizedPrivate).unwrap_err(), Excluded::NotAuthorized);
    let mut public = public();
    public.primary.as_mut().unwrap().triggers[0].privacy = Privacy::Private;
    assert_eq!(example(&public, Gate::PublicOnly).unwrap_err(), Excluded::NotAuthorized);
}

#[test]
fn what_does_not_hold_does_not_leave() {
    let with = |change: &dyn Fn(&mut Facts)| {
        let mut changed = public();
        change(&mut changed);
        example(&changed, Gate::PublicOnly).err()
    };
    assert_eq!(with(&|_| {}), None);
    assert_eq!(with(&|facts| facts.active = false), Some(Excluded::Inactive));
    assert_eq!(with(&|facts| facts.given.retracted = true), Some(Excluded::Inactive));
    assert_eq!(with(&|facts| facts.primary = None), Some(Excluded::OutputUnresolved));
    let other = || Some(lineage("y", 2, Privacy::PublicSource));
    assert_eq!(with(&|facts| facts.primary = other()), Some(Excluded::OutputUnresolved));
    let named = Some(ROOT);
    assert_eq!(
        with(&|facts| facts.given.newer.as_mut().unwrap().delivery = named),
        Some(Excluded::EvidenceMissing)
    );
    assert_eq!(
        with(&|facts| facts.given.newer.as_mut().unwrap().feedback = named),
        Some(Excluded::EvidenceMissing)
    );
    let learned = |facts: &mut Facts| {
        facts.primary.as_mut().unwrap().judged.stamp.model_adapter = Some("mine@1".into());
    };
    assert_eq!(with(&learned), Some(Excluded::LearnedAdapter));
}

#[test]
fn each_run_of_a_pair_is_held_to_the_rules_by_itself() {
    let pair = |change: &dyn Fn(&mut Lineage)| {
        let mut other = lineage("b", 2, Privacy::PublicSource);
        let judged = other.judged.clone();
        change(&mut other);
        let primary = lineage("a", 1, Privacy::PublicSource);
        let facts = facts(primary, &free(Proposed::Prefer(&judged)), Some(other));
        example(&facts, Gate::PublicOnly).err()
    };
    assert_eq!(pair(&|_| {}), None);
    assert_eq!(pair(&|other| other.ancestry = Privacy::Private), Some(Excluded::NotAuthorized));
    assert_eq!(
        pair(&|other| other.judged.stamp.model_adapter = Some("mine@1".into())),
        Some(Excluded::LearnedAdapter)
    );
    assert_eq!(
        pair(&|other| other.judged.stamp.run = crate::id::RunId::from_bytes([1; 20])),
        Some(Excluded::ComparedUnresolved)
    );
}

#[test]
fn a_repair_leaves_only_accepted_or_corrected() {
    let right = Content::new("Wait.".to_owned());
    for (opinion, said) in [
        (Proposed::Accept, None),
        (Proposed::CorrectText(&right), None),
        (Proposed::Reject, Some(Excluded::RepairOpinion)),
    ] {
        let mut facts = facts(lineage("x", 1, Privacy::PublicSource), &free(opinion), None);
        facts.primary.as_mut().unwrap().judged.is_repair = true;
        assert_eq!(example(&facts, Gate::PublicOnly).err(), said);
    }
}

#[test]
fn the_older_form_lets_out_public_chains_alone() {
    for (privacy, eligible, said) in [
        (Privacy::PublicSource, true, None),
        (Privacy::PublicSource, false, Some(Excluded::NotExternallyEligible)),
        (Privacy::Private, true, Some(Excluded::NotAuthorized)),
    ] {
        let primary = lineage("x", 1, privacy);
        let old = TrainingExampleV1 {
            run: primary.judged.stamp.run,
            output: primary.judged.event.id,
            contract: primary.judged.contract.kind().clone(),
            contract_hash: *primary.judged.contract.hash(),
            opinion: Opinion::Accept,
            export_eligible: eligible,
        };
        let mut facts = facts(primary, &free(Proposed::Accept), None);
        let envelope = Envelope::new(
            SourceId::decisions(),
            IdempotencyKey::parse("old").unwrap(),
            privacy,
            Actor::ours(ActorKind::Person, "uid:1"),
        )
        .with_parents(vec![crate::event::Parent::of(&facts.primary.as_ref().unwrap().judged.event)]);
        facts.given = Given::of(&record(&old.candidate(envelope), 20, Some(ROOT)), false).unwrap();
        for gate in [Gate::PublicOnly, Gate::AuthorizedPrivate] {
            assert_eq!(example(&facts, gate).err(), said);
        }
        if said.is_none() {
            let value = serde_json::to_value(example(&facts, Gate::PublicOnly).unwrap()).unwrap();
            assert_eq!(value["format"], EXAMPLE_FORMAT);
        }
    }
}

#[test]
fn a_data_set_is_the_same_bytes_each_time_and_its_manifest_says_what_it_is() {
    let right = Content::new("Wait.".to_owned());
    let corrected = facts(lineage("x", 1, Privacy::PublicSource), &free(Proposed::CorrectText(&right)), None);
    let examples: Vec<Example> =
        [public(), corrected].iter().map(|facts| example(facts, Gate::PublicOnly).unwrap()).collect();
    let dataset = Dataset::of(&examples);
    assert_eq!(dataset, Dataset::of(&examples));
    assert_eq!(dataset.bytes.iter().filter(|byte| **byte == b'\n').count(), 2);
    assert_eq!(dataset.manifest.dataset_sha256, Sha256Hash::of(&dataset.bytes));
    let mut shown = serde_json::to_value(&dataset.manifest).unwrap();
    shown["datasetSha256"] = json!("…");
    insta::assert_snapshot!(serde_json::to_string_pretty(&shown).unwrap(), @r#"
    {
      "count": 2,
      "datasetSha256": "…",
      "format": "thoughtstream.training-dataset-manifest.v4",
      "formats": {
        "thoughtstream.training-example.v3": 2
      },
      "kinds": {
        "accept": 1,
        "correct": 1
      },
      "models": [
        [
          "small-1"
        ]
      ],
      "reviewCampaigns": []
    }
    "#);
    assert!(!format!("{dataset:?} {examples:?}").contains("Water"));
    assert_eq!(Dataset::of(&[]).manifest.count, 0);
}
