//! Decisions about proposals and what follows from them, held against a log that somebody changed.

use serde_json::json;
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::event::{Actor, ActorKind, Event, Payload, Reference};
use thoughtstream_domain::id::IdempotencyKey;
use thoughtstream_domain::judgment::{Status, project as effective};
use thoughtstream_domain::payload::proposal::{Disposition, ProposalDecision};
use thoughtstream_domain::payload::system::Operator;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::decision::{self, DecideError, Decided, DecisionFault};
use thoughtstream_domain::proposal::lineage::{prove, prove_correction, prove_memory};
use thoughtstream_domain::proposal::project::{self, project};
use thoughtstream_domain::proposal::text::Bounded;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::verify::{FindingKind, Options as VerifyOptions, verify};
use thoughtstream_testkit::proposals::{ADDED, INSTEAD, Setting, correct_again};

use crate::proposals_lineage::{World, bot, payload, world};

fn operator() -> Operator {
    Operator { uid: 7, pid: 8, tty: None }
}

fn decide_as(world: &mut World, proposal: &Event, disposition: Disposition) -> Event {
    let proven = prove(&world.store.reader, &proposal.id).unwrap();
    let submission = Reference::parse("s1").unwrap();
    let commit = decision::decide(&proven, disposition, submission, &operator()).unwrap();
    let now = Timestamp::from_millis(1_700_000_000_001);
    let verdicts = world.store.writer.apply(&[commit], now).unwrap();
    let placed = verdicts[0].placed().unwrap()[0];
    world.store.reader.event_at(placed.position).unwrap().unwrap()
}

#[test]
fn a_decision_is_a_persons_about_this_proposal_under_its_one_key() {
    let mut world = world(&Setting::default());
    let (memory, correction) = (world.story.memory.clone(), world.story.correction.clone());
    let event = decide_as(&mut world, &memory, Disposition::Accept);
    assert_eq!(event.id, decision::id_of(&memory.id));
    assert_eq!((event.source.as_str(), event.privacy), ("system:decisions", Privacy::Sensitive));
    let proven = || prove_memory(&world.store.reader, &memory.id).unwrap();
    let decided = Decided::of(proven(), event.clone()).unwrap();
    assert_eq!(decided.text().unwrap().reveal(), ADDED);
    let with = |change: &dyn Fn(&mut Event)| {
        let mut forged = event.clone();
        change(&mut forged);
        Decided::of(proven(), forged).unwrap_err()
    };
    assert_eq!(with(&|it| it.payload = Payload::Redacted), DecisionFault::Unreadable);
    assert_eq!(with(&|it| payload(it, |it| it["authority"] = json!("agent"))), DecisionFault::Unreadable);
    let more = |it: &mut serde_json::Value| it["disposition"]["replacement"] = json!("Moved to Paris.");
    assert_eq!(with(&|it| payload(it, more)), DecisionFault::Unreadable);
    let other = json!(correction.id);
    assert_eq!(with(&|it| payload(it, |it| it["proposal"] = other.clone())), DecisionFault::Proposal);
    assert_eq!(with(&|it| payload(it, |it| it["kind"] = json!("self-correction"))), DecisionFault::Proposal);
    assert_eq!(with(&|it| it.parents.clear()), DecisionFault::Proposal);
    assert_eq!(with(&|it| it.position = 1), DecisionFault::Proposal);
    assert_eq!(with(&|it| it.actor = Actor::ours(ActorKind::Agent, "stream@18")), DecisionFault::Author);
    assert_eq!(with(&|it| it.source = bot()), DecisionFault::Author);
    assert_eq!(with(&|it| it.key = IdempotencyKey::parse("another").unwrap()), DecisionFault::Author);
    assert_eq!(with(&|it| payload(it, |it| it["actor"] = json!("uid:0"))), DecisionFault::Author);
    assert!(Privacy::Private < event.privacy);
    assert_eq!(with(&|it| it.privacy = Privacy::Private), DecisionFault::Author);
}

#[test]
fn a_stored_edit_of_a_correction_has_the_bounds_of_a_correction() {
    let mut world = world(&Setting::default());
    let correction = world.story.correction.clone();
    let edit = |length: usize| Disposition::Edit { replacement: Bounded::new("x".repeat(length)).unwrap() };
    let event = decide_as(&mut world, &correction, edit(4_096));
    let read = |event: &Event| decision::read(&correction, Kind::SelfCorrection, event);
    assert_eq!(read(&event).unwrap().disposition, edit(4_096));
    let mut longer = event;
    payload(&mut longer, |it| it["disposition"] = serde_json::to_value(edit(4_097)).unwrap());
    assert_eq!(read(&longer).unwrap_err(), DecisionFault::Replacement);
}

#[test]
fn an_edit_has_the_bounds_of_what_it_stands_for_and_a_focus_no_decision() {
    let World { store, story, .. } = world(&Setting::default());
    let edit = |length: usize| Disposition::Edit { replacement: Bounded::new("x".repeat(length)).unwrap() };
    let decide = |proposal: &Event, disposition: Disposition| {
        let submission = Reference::parse("s1").unwrap();
        decision::decide(&prove(&store.reader, &proposal.id).unwrap(), disposition, submission, &operator())
    };
    assert!(decide(&story.memory, edit(32_768)).is_ok());
    assert!(decide(&story.correction, edit(4_096)).is_ok());
    assert!(matches!(decide(&story.correction, edit(4_097)), Err(DecideError::Replacement(_))));
    assert!(Bounded::<32_768>::new("x".repeat(32_769)).is_err());
    let with = |text: &str| Disposition::Edit { replacement: Bounded::new(text.to_owned()).unwrap() };
    // What is proposed may hold any character, and so may what a person puts in its place.
    for text in ["a\0b", "\u{1b}[2J", "a\u{9b}b", "a\tb\r\n\u{200d}c\n"] {
        assert!(decide(&story.memory, with(text)).is_ok(), "{text:?}");
        assert!(decide(&story.correction, with(text)).is_ok(), "{text:?}");
    }
    // A reply says something: nothing could follow from a decision that it says nothing.
    assert!(decide(&story.memory, with(" \n")).is_ok());
    assert!(matches!(decide(&story.correction, with(" \n")), Err(DecideError::Contract(_))));
    for disposition in [Disposition::Accept, Disposition::Reject, edit(1)] {
        assert_eq!(decide(&story.focus, disposition), Err(DecideError::NoDecision));
    }
}

#[test]
fn one_decision_is_all_there_is_and_saying_it_again_changes_nothing() {
    let mut world = world(&Setting::default());
    let memory = world.story.memory.clone();
    let event = decide_as(&mut world, &memory, Disposition::Accept);
    let standing: ProposalDecision = event.payload_as().unwrap();
    let proven = prove(&world.store.reader, &memory.id).unwrap();
    for (name, disposition) in [("s1", Disposition::Reject), ("s2", Disposition::Accept)] {
        let submission = Reference::parse(name).unwrap();
        let same = decision::says_the_same(&standing, &disposition);
        assert_eq!(same, disposition == Disposition::Accept);
        let again = decision::decide(&proven, disposition, submission, &operator()).unwrap();
        let verdicts = world.store.writer.apply(&[again], Timestamp::from_millis(2_000_000_000_000)).unwrap();
        assert!(verdicts[0].placed().is_none(), "{verdicts:?}");
    }
    let first = decide_as(&mut world, &memory, Disposition::Accept);
    assert_eq!(first.id, event.id);
}

#[test]
fn a_decided_correction_becomes_one_judgment_and_a_rejected_one_none() {
    for (disposition, said) in [
        (Disposition::Accept, Some(INSTEAD)),
        (
            Disposition::Edit { replacement: Bounded::new("In Lisbon.".to_owned()).unwrap() },
            Some("In Lisbon."),
        ),
        (Disposition::Reject, None),
    ] {
        let mut world = world(&Setting::default());
        let correction = world.story.correction.clone();
        let event = decide_as(&mut world, &correction, disposition);
        let reader = world.store.reader.clone();
        let proven = prove_correction(&reader, &correction.id).unwrap();
        let judged = proven.bound().judged.clone();
        let before = effective(&judged, &reader.judgments_of(&judged.event).unwrap());
        assert_eq!(before.status, Status::Original);
        let decided = Decided::of(proven, event.clone()).unwrap();
        let made = project(&decided, &reader.judgments_of(&judged.event).unwrap()).unwrap();
        let Some(said) = said else {
            assert!(made.is_none());
            continue;
        };
        let commit = Commit { appends: vec![made.unwrap()], ..Commit::default() };
        let now = Timestamp::from_millis(1_700_000_000_002);
        for _ in 0..2 {
            assert!(
                world.store.writer.apply(std::slice::from_ref(&commit), now).unwrap()[0].placed().is_some()
            );
        }
        let given = reader.judgments_of(&judged.event).unwrap();
        assert_eq!(given.len(), 1);
        let example = given[0].newer.as_deref().unwrap();
        assert_eq!(given[0].event.id, reader.projection_of(&correction.id).unwrap().unwrap().id);
        assert_eq!(example.criterion.as_deref(), Some("agent-self-correction"));
        assert_eq!(example.criterion_version, "1");
        assert_eq!((example.quality_eligible, example.external_export_eligible), (true, false));
        assert_eq!((example.delivery, example.feedback), (Some(world.story.receipt.id), Some(event.id)));
        assert_eq!(given[0].event.actor, event.actor);
        let after = effective(&judged, &given);
        assert_eq!(after.status, Status::Corrected);
        let replacement = after.replacement.unwrap();
        assert_eq!(replacement.summary(), said);
        assert_eq!(replacement, judged.contract.with_display(&judged.observation, said).unwrap());
        assert_eq!(project::key(&correction.id), given[0].event.key);
    }
}

#[test]
fn a_later_accepted_correction_of_a_reply_replaces_the_earlier_one() {
    let mut world = world(&Setting::default());
    let first = world.story.correction.clone();
    let second = correct_again(&mut world.store, &world.story.clone(), "In Lisbon.");
    let reader = world.store.reader.clone();
    let judged = prove_correction(&reader, &first.id).unwrap().bound().judged.clone();
    for (proposal, said) in [(&first, INSTEAD), (&second, "In Lisbon.")] {
        let event = decide_as(&mut world, proposal, Disposition::Accept);
        let decided = Decided::of(prove_correction(&reader, &proposal.id).unwrap(), event).unwrap();
        let made = project(&decided, &reader.judgments_of(&judged.event).unwrap()).unwrap().unwrap();
        forge(&mut world, made);
        let after = effective(&judged, &reader.judgments_of(&judged.event).unwrap());
        assert_eq!((after.status, after.replacement.unwrap().summary()), (Status::Corrected, said));
    }
    let given = reader.judgments_of(&judged.event).unwrap();
    let newer = |at: usize| given[at].newer.as_deref().unwrap();
    assert_eq!(given.len(), 2);
    assert_eq!((newer(0).supersedes, newer(1).supersedes), (None, Some(given[0].event.id)));
    assert_eq!(findings(&world), []);
}

/// Writes an event as whoever forges one would: the log itself does not ask who.
fn forge(world: &mut World, candidate: thoughtstream_domain::event::Candidate) {
    let commit = Commit { appends: vec![candidate], ..Commit::default() };
    let verdicts = world.store.writer.apply(&[commit], Timestamp::from_millis(1_700_000_000_009)).unwrap();
    assert!(verdicts[0].placed().is_some(), "{verdicts:?}");
}

fn findings(world: &World) -> Vec<FindingKind> {
    let report = verify(&world.store.reader, VerifyOptions::default()).unwrap();
    report.findings.into_iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_log_in_which_everything_follows_verifies_and_a_forged_step_is_found() {
    use thoughtstream_domain::event::{Envelope, Parent};
    use thoughtstream_domain::id::SourceId;
    use thoughtstream_domain::payload::TypedPayload as _;
    use thoughtstream_domain::payload::judgment::TrainingExample;
    use thoughtstream_domain::payload::proposal::MemoryChangeProposed;

    let mut world = world(&Setting::default());
    assert_eq!(findings(&world), []);
    let (memory, correction) = (world.story.memory.clone(), world.story.correction.clone());
    decide_as(&mut world, &memory, Disposition::Accept);
    let event = decide_as(&mut world, &correction, Disposition::Accept);
    let proven = prove_correction(&world.store.reader, &correction.id).unwrap();
    let judged = proven.bound().judged.clone();
    let made = project(&Decided::of(proven, event.clone()).unwrap(), &[]).unwrap().unwrap();
    let example: TrainingExample = serde_json::from_slice(made.payload().reveal()).unwrap();
    forge(&mut world, made);
    assert_eq!(findings(&world), []);

    // A proposal that no receipt names, a decision of an agent, and a judgment that says more than was decided.
    let key = |text: &str| IdempotencyKey::parse(text).unwrap();
    let envelope = |source: &SourceId, key, actor: Actor, parent: &Event| {
        Envelope::new(source.clone(), key, Privacy::Sensitive, actor).with_parents(vec![Parent::of(parent)])
    };
    let said: MemoryChangeProposed = memory.payload_as().unwrap();
    let agent = Actor::ours(ActorKind::Agent, "stream@18");
    let own = envelope(&memory.source, key("forged"), agent.clone(), &world.story.output.clone());
    forge(&mut world, said.candidate(own));
    assert_eq!(findings(&world), [FindingKind::Proposal]);
    let decision: ProposalDecision = event.payload_as().unwrap();
    let by_agent = envelope(&SourceId::decisions(), key("forged"), agent, &correction);
    forge(&mut world, decision.candidate(by_agent));
    assert_eq!(findings(&world), [FindingKind::Proposal; 2]);
    let more = TrainingExample { external_export_eligible: true, ..example };
    let person = Actor::ours(ActorKind::Person, "uid:7");
    let other = envelope(&SourceId::decisions(), key("forged"), person, &judged.event);
    forge(&mut world, more.candidate(other));
    // Beside the one that follows it is a second answer to one question, too.
    let found = [FindingKind::Proposal, FindingKind::Proposal, FindingKind::Proposal, FindingKind::Judgment];
    assert_eq!(findings(&world), found);
}
