//! What a log knows of the definitions it was written with, across builds.

use thoughtstream_domain::accounting::{Amounts, Charge, UsageStatus};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, ExecutionId, RunId};
use thoughtstream_domain::payload::run::{RunCompleted, RunStamp};
use thoughtstream_domain::registry::Hashes;

use super::*;
use crate::TypesError;
use crate::sim::Loss;
use crate::verify::{FindingKind, Options as VerifyOptions, verify};

fn committed(store: &mut Store, candidate: Candidate) {
    let verdict = one(store, &append(vec![candidate]));
    assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
}

fn completed(attempt: u32, charge: Option<Charge>) -> Candidate {
    let consumer = ConsumerKey::parse("links@1").unwrap();
    let fingerprint = Sha256Hash::of(b"declaration");
    let execution = ExecutionId::derive(&consumer, &fingerprint, &[EventId::from_bytes([1; 32])]);
    let stamp = RunStamp {
        run: RunId::derive(&execution, attempt),
        execution,
        consumer,
        fingerprint,
        attempt,
        execution_adapter_revision: "deterministic-v1".to_owned(),
        model_adapter: None,
    };
    let completed = RunCompleted { stamp, outputs: Vec::new(), proposals: Vec::new(), charge };
    completed.candidate(envelope("agent:links", &format!("completed/{attempt}")))
}

fn charge() -> Charge {
    let amounts = Amounts { calls: 1, input_tokens: 2, output_tokens: 3, cost_microusd: None };
    let status = UsageStatus::Estimated;
    Charge { amounts, status, reported: Default::default(), estimated: Default::default() }
}

/// Returns under which definition the log knows completed runs.
fn defined(store: &Store) -> Option<Sha256Hash> {
    let stored = store.reader.definitions().unwrap();
    stored.into_iter().find(|(kind, _)| *kind == RunCompleted::kind()).map(|(_, hash)| hash)
}

/// Returns the types as the build before accounts had them, by what is known of it.
fn before_accounts() -> std::collections::BTreeMap<thoughtstream_domain::id::TypeRef, Hashes> {
    let mut types = REGISTRY.hashes();
    for hashes in types.values_mut().filter(|hashes| !hashes.earlier.is_empty()) {
        *hashes = Hashes::only(hashes.earlier[0]);
    }
    types
}

#[test]
fn a_changed_definition_under_an_unchanged_version_is_refused() {
    let (_, mut store) = fresh();
    committed(&mut store, note("a", "1"));
    let mut hashes = REGISTRY.hashes();
    hashes.insert(Note::kind(), Hashes::only(Sha256Hash::of(b"other")));
    let Err(TypesError::Changed(changed)) = store.writer.set_types(hashes) else { panic!("accepted") };
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].kind, Note::kind());
    committed(&mut store, note("b", "2"));
}

#[test]
fn a_log_of_an_earlier_build_is_read_and_written_on() {
    let disk = disk();
    let grown = REGISTRY.hashes().remove(&RunCompleted::kind()).unwrap();
    let mut store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    store.writer.set_types(before_accounts()).unwrap();
    committed(&mut store, completed(1, None));
    assert_eq!(defined(&store), Some(grown.earlier[0]));
    drop(store);

    let mut store = open(&disk).unwrap();
    let read: RunCompleted = store.reader.event_at(1).unwrap().unwrap().payload_as().unwrap();
    assert_eq!(read.charge, None);
    committed(&mut store, note("a", "1"));
    assert_eq!(defined(&store), Some(grown.earlier[0]), "nothing of the newer kind is in it yet");
    committed(&mut store, completed(2, Some(charge())));
    assert_eq!(defined(&store), Some(grown.current));
    for loss in [Loss::None, Loss::All] {
        let again = open(&disk.image(loss)).unwrap();
        assert_eq!(defined(&again), Some(grown.current), "the journal carries it");
    }
    // The runs have no rows here; every other promise holds.
    let report = verify(&store.reader, VerifyOptions::default()).unwrap();
    let of_runs = |kind| matches!(kind, FindingKind::Run | FindingKind::Account);
    assert!(report.findings.iter().all(|finding| of_runs(finding.kind)), "{:?}", report.findings);
}

#[test]
fn a_log_that_holds_the_newer_definition_is_refused_by_a_build_that_knows_the_older_one_alone() {
    let (disk, mut store) = fresh();
    committed(&mut store, completed(1, Some(charge())));
    drop(store);
    let mut store = Store::open_on(Arc::new(disk), options()).unwrap();
    let refused = store.writer.set_types(before_accounts());
    let Err(TypesError::Changed(changed)) = refused else { panic!("accepted") };
    let current = REGISTRY.hashes()[&RunCompleted::kind()].current;
    assert_eq!((&changed[0].kind, changed[0].stored), (&RunCompleted::kind(), current));
}
