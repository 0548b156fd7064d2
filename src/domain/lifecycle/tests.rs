use super::*;
use crate::commit::Verdict;
use crate::event::Payload;
use crate::hash::ChainHash;
use crate::id::TypeRef;
use crate::payload::note::Note;

fn frame(now: i64) -> Frame {
    Frame {
        consumer: ConsumerKey::parse("links@1").unwrap(),
        fingerprint: Sha256Hash::of(b"declaration"),
        privacy_floor: Privacy::PublicSource,
        incarnation: 1,
        now: Timestamp::from_millis(now),
        adapter: AdapterRevision::deterministic(),
    }
}

fn event(sequence: u64, privacy: Privacy) -> Event {
    let source = SourceId::parse("notes:x").unwrap();
    let key = IdempotencyKey::parse(&format!("k{sequence}")).unwrap();
    let kind = Note::kind();
    let id = EventId::derive(&source, &kind.name, &key);
    Event {
        position: sequence + 100,
        id,
        kind,
        source,
        sequence,
        privacy,
        actor: Actor::ours(ActorKind::Person, "uid:1"),
        key,
        occurred_at: None,
        recorded_at: Timestamp::from_millis(1),
        root: id,
        parents: vec![],
        depth: 0,
        address: None,
        external: None,
        correlation: None,
        payload: Payload::Redacted,
        payload_sha256: Sha256Hash::of(b""),
        chain: ChainHash::START,
    }
}

fn kinds(commit: &Commit) -> Vec<&str> {
    commit.appends.iter().map(|c| c.kind().name.as_str().rsplit('.').next().unwrap()).collect()
}

fn opened() -> Execution {
    let mut execution =
        Execution::fix(&frame(10), &[event(3, Privacy::Private), event(5, Privacy::Sensitive)]);
    let commit = execution.open(&frame(10), 2);
    assert_eq!(kinds(&commit), ["received", "started"]);
    execution
}

#[test]
fn a_first_attempt_claims_its_triggers_in_order() {
    let mut execution = Execution::fix(&frame(10), &[event(3, Privacy::Private)]);
    let commit = execution.open(&frame(10), 2);
    let [not_paused, through, unclaimed] = &commit.preconditions[..] else { panic!("{commit:?}") };
    assert_eq!(*not_paused, Precondition::NotPaused(execution.consumer.id.clone()));
    assert!(matches!(through, Precondition::ClaimedThrough { sequence: 2, .. }));
    assert!(matches!(unclaimed, Precondition::Unclaimed { sequences, .. } if sequences == &[3]));
    assert_eq!((execution.attempts, execution.state.status()), (1, ExecutionStatus::Running));
}

#[test]
fn everything_about_a_run_carries_the_strongest_class_of_its_triggers() {
    let mut execution = opened();
    let commit =
        execution.complete(&frame(11), frame(10).now, &crate::registry::Registry::shipped(), vec![]).unwrap();
    assert!(commit.appends.iter().all(|c| c.envelope().privacy == Privacy::Sensitive));
}

#[test]
fn all_terminal_kinds_compete_for_the_open_attempt() {
    let registry = crate::registry::Registry::shipped();
    let open = Precondition::AttemptOpen(opened().attempt_key());
    let commits = [
        opened().complete(&frame(11), frame(10).now, &registry, vec![]).unwrap(),
        opened().fail(&frame(11), frame(10).now, "invalid-output", FailurePolicy::Final),
        opened().interrupt(
            &frame(11),
            frame(10).now,
            "killed",
            Interrupted::default(),
            RetryPolicy::default(),
        ),
    ];
    for commit in commits {
        assert_eq!(commit.preconditions, std::slice::from_ref(&open));
    }
}

#[test]
fn an_output_that_is_not_the_consumers_to_write_is_refused() {
    let note = Output { kind: Note::kind(), payload: serde_json::json!({ "text": "x" }), address: None };
    let mut execution = opened();
    let refused =
        execution.complete(&frame(11), frame(10).now, &crate::registry::Registry::shipped(), vec![note]);
    assert!(refused.is_err());
    assert_eq!(execution.state.status(), ExecutionStatus::Running);
    let unknown =
        Output { kind: TypeRef::parse("a.b@1").unwrap(), payload: serde_json::json!({}), address: None };
    assert!(
        opened()
            .complete(&frame(11), frame(10).now, &crate::registry::Registry::shipped(), vec![unknown])
            .is_err()
    );
}

#[test]
fn a_retryable_failure_waits_until_the_policy_is_used_up() {
    let policy = RetryPolicy { attempts: 2, ..RetryPolicy::default() };
    let mut execution = opened();
    let commit = execution.fail(&frame(20), frame(10).now, "store", FailurePolicy::Retryable(policy));
    assert_eq!(kinds(&commit), ["failed"]);
    assert!(matches!(&execution.state, ExecutionState::Waiting { at, .. } if at.as_millis() == 1_020));
    let again = execution.open(&frame(1_020), 0);
    assert!(matches!(
        &again.preconditions[..],
        [Precondition::NotPaused(_), Precondition::ExecutionIs { attempts: 1, .. }]
    ));
    let commit = execution.fail(&frame(1_030), frame(10).now, "store", FailurePolicy::Retryable(policy));
    assert_eq!(kinds(&commit), ["failed"]);
    assert_eq!(execution.state, ExecutionState::Held { code: "store".into(), quarantined: true });
}

#[test]
fn what_no_attempt_can_process_is_decided_at_once_as_declared() {
    for (exhausted, next, state) in [
        (
            Exhausted::Quarantine,
            Next::Hold,
            ExecutionState::Held { code: "document-not-utf8".into(), quarantined: true },
        ),
        (
            Exhausted::Hold,
            Next::Hold,
            ExecutionState::Held { code: "document-not-utf8".into(), quarantined: false },
        ),
        (Exhausted::Advance, Next::Advance, ExecutionState::Closed { how: Closure::Unprocessed }),
    ] {
        let mut execution = opened();
        let policy = FailurePolicy::Unprocessable(exhausted);
        let commit = execution.fail(&frame(20), frame(10).now, "document-not-utf8", policy);
        assert_eq!(kinds(&commit), ["failed"]);
        let payload: serde_json::Value =
            serde_json::from_slice(commit.appends[0].payload().reveal()).unwrap();
        assert_eq!(payload["next"], serde_json::to_value(next).unwrap());
        assert_eq!((execution.state, execution.attempts, execution.failures), (state, 1, 1));
    }
    let mut execution = opened();
    let _commit = execution.fail(&frame(20), frame(10).now, "invalid-output", FailurePolicy::Final);
    assert_eq!(execution.state, ExecutionState::Closed { how: Closure::Failed });
}

#[test]
fn an_interrupted_attempt_is_recorded_as_declared() {
    let hold = Interrupted { record: InterruptedRecord::Abandoned, then: InterruptedThen::Hold };
    let mut execution = opened();
    let commit = execution.interrupt(&frame(20), frame(10).now, "killed", hold, RetryPolicy::default());
    assert_eq!(kinds(&commit), ["abandoned"]);
    assert_eq!(execution.state.status(), ExecutionStatus::Held);
    let mut execution = opened();
    let commit = execution.interrupt(
        &frame(20),
        frame(10).now,
        "killed",
        Interrupted::default(),
        RetryPolicy::default(),
    );
    assert_eq!(kinds(&commit), ["status-unknown"]);
    assert_eq!(execution.state.status(), ExecutionStatus::Waiting);
}

#[test]
fn a_person_skips_or_retries_what_stands_as_they_saw_it() {
    let operator = Operator { uid: 1000, pid: 1, tty: None };
    let key = IdempotencyKey::parse("op-1").unwrap();
    let mut execution = opened();
    let hold = Interrupted { record: InterruptedRecord::StatusUnknown, then: InterruptedThen::Hold };
    let _commit = execution.interrupt(&frame(20), frame(10).now, "killed", hold, RetryPolicy::default());
    let retry = execution.clone().retry_now(frame(30).now, operator.clone(), key.clone());
    let skip = execution.skip(frame(30).now, "not needed", operator, key);
    assert_eq!(retry.preconditions, skip.preconditions);
    assert_eq!(execution.state, ExecutionState::Closed { how: Closure::Skipped });
}

#[test]
fn the_same_step_is_the_same_commit() {
    assert_eq!(opened(), opened());
    let verdict = Verdict::AlreadyCommitted(vec![]);
    assert!(verdict.placed().is_some());
}

/// An output whose type admits it, and what stands in for two proposals.
fn proposing(execution: &Execution) -> (Made, EventId) {
    let escalation = crate::payload::escalation::Escalation {
        to: crate::id::ConsumerId::parse("other").unwrap(),
        reason: "look".to_owned(),
        evidence: vec![execution.triggers[0].id],
    };
    let kind = crate::payload::escalation::Escalation::kind();
    let output = execution.output_id(&kind, 0);
    let payload = serde_json::to_value(&escalation).unwrap();
    let outputs = vec![Output { kind, payload, address: None }];
    let proposals = ["one", "two"].map(|what| {
        let parents = vec![Parent::named(output)];
        let envelope = crate::payload::output::beside(&execution.stamp(), what, Privacy::Sensitive, parents);
        escalation.candidate(envelope)
    });
    (Made { outputs, proposals: proposals.into() }, output)
}

#[test]
fn output_proposals_and_completed_stand_in_this_order_and_completed_names_them() {
    let mut execution = opened();
    let (made, output) = proposing(&execution);
    let proposals: Vec<EventId> = made.proposals.iter().map(Candidate::id).collect();
    let commit =
        execution.complete(&frame(11), frame(10).now, &crate::registry::Registry::shipped(), made).unwrap();
    let ids: Vec<EventId> = commit.appends.iter().map(Candidate::id).collect();
    assert_eq!(ids[..3], [output, proposals[0], proposals[1]]);
    assert_eq!(kinds(&commit).last(), Some(&"completed"));
    let completed: crate::payload::run::RunCompleted =
        serde_json::from_slice(commit.appends[3].payload().reveal()).unwrap();
    assert_eq!((completed.outputs, completed.proposals), (vec![output], proposals));
    assert!(matches!(commit.rows[..], [Row::Execution(_), Row::Run(_)]));
}

#[test]
fn a_completed_event_from_before_proposals_is_read_and_written_as_it_was() {
    let old = crate::payload::run::RunCompleted {
        stamp: opened().stamp(),
        outputs: vec![EventId::from_bytes([1; 32])],
        proposals: Vec::new(),
        charge: None,
    };
    let value = serde_json::to_value(&old).unwrap();
    assert!(value.get("proposals").is_none(), "{value}");
    assert_eq!(serde_json::from_value::<crate::payload::run::RunCompleted>(value).unwrap(), old);
}

fn revisions(commit: &Commit) -> Vec<String> {
    let of = |event: &Candidate| {
        let payload: serde_json::Value = serde_json::from_slice(event.payload().reveal()).unwrap();
        payload["stamp"]["executionAdapterRevision"].as_str().unwrap().to_owned()
    };
    commit.appends.iter().map(of).collect()
}

fn frame_of(adapter: AdapterRevision, now: i64) -> Frame {
    Frame { adapter, ..frame(now) }
}

#[test]
fn every_event_of_an_attempt_names_the_runner_that_it_was_begun_with() {
    let (old, new) = (AdapterRevision::parse("observer-v0").unwrap(), AdapterRevision::observer_cell());
    let mut execution = Execution::fix(&frame_of(old.clone(), 10), &[event(3, Privacy::Private)]);
    let opened = execution.open(&frame_of(old.clone(), 10), 2);
    assert_eq!(revisions(&opened), [old.as_str(), old.as_str()]);
    // A service of a later build finds it open: what it ends is the attempt of the one before.
    let interrupted = Interrupted::default();
    let retry = RetryPolicy { attempts: 9, ..RetryPolicy::default() };
    let ended =
        execution.interrupt(&frame_of(new.clone(), 20), frame(10).now, "service-ended", interrupted, retry);
    assert_eq!(revisions(&ended), [old.as_str()]);
    assert!(matches!(ended.rows.first(), Some(Row::Execution(row)) if row.adapter == old));
    // The retry is its own.
    let again = execution.open(&frame_of(new.clone(), 30), 2);
    assert_eq!(revisions(&again), [new.as_str(), new.as_str()]);
    let failed = execution.fail(&frame_of(new.clone(), 40), frame(30).now, "provider", FailurePolicy::Final);
    assert_eq!(revisions(&failed), [new.as_str()]);
    assert!(matches!(failed.rows.first(), Some(Row::Execution(row)) if row.adapter == new));
}

#[test]
fn an_execution_of_an_earlier_build_is_read_from_an_export() {
    let mut row = serde_json::to_value(opened()).unwrap();
    assert_eq!(row["executionAdapterRevision"], "deterministic-v1");
    row.as_object_mut().unwrap().remove("executionAdapterRevision");
    assert_eq!(serde_json::from_value::<Execution>(row).unwrap(), opened());
}
