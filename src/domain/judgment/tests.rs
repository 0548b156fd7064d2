use serde_json::json;

use super::*;
use crate::commit::Placed;
use crate::content::Content;
use crate::contract::{FinalPart, Mode, Stop, judge as verdict};
use crate::event::Payload;
use crate::hash::ChainHash;
use crate::payload::output::{Provenance, beside};
use crate::time::Timestamp;

/// Records a candidate at a position; its root is that of its first parent.
pub(crate) fn record(candidate: &Candidate, position: u64, root: Option<EventId>) -> Event {
    let placed = Placed {
        id: candidate.id(),
        position,
        sequence: position,
        recorded_at: Timestamp::from_millis(position.cast_signed()),
        root: root.unwrap_or_else(|| candidate.id()),
        depth: 0,
        chain: ChainHash::START,
    };
    Event::recorded(candidate, &placed)
}

pub(crate) const ROOT: EventId = EventId::from_bytes([9; 32]);

/// Makes the output of run number `attempt`, at a position.
pub(crate) fn output(text: &str, attempt: u32, privacy: Privacy, position: u64) -> Event {
    let contract = Contract::observation();
    let parts = [FinalPart::text(text)];
    let accepted = verdict(&contract, Mode::ConversationText, &parts, Stop::End).unwrap();
    let mut stamp = crate::payload::output::tests::stamp();
    stamp.run = crate::id::RunId::derive(&stamp.execution, attempt);
    let provenance = Provenance { provider: "local".into(), model: "small-1".into() };
    let payload = MessageObservation::of(accepted, stamp, Sha256Hash::of(b"packet"), provenance);
    let envelope = beside(&payload.stamp, "output", privacy, Vec::new());
    record(&payload.candidate(envelope), position, Some(ROOT))
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

pub(crate) const fn plain(opinion: Proposed<'_>) -> Judging<'_> {
    Judging {
        opinion,
        criterion: None,
        criterion_version: "v1",
        quality_eligible: true,
        external_export_eligible: false,
        authorizes_private: false,
        feedback: None,
        delivery: None,
        supersedes: None,
        operator: None,
    }
}

/// Judges and records.
pub(crate) fn given(judged: &Judged, judging: &Judging<'_>, position: u64) -> Given {
    let candidate = judge(judged, judging, key(&format!("j{position}"))).unwrap();
    Given::of(&record(&candidate, position, Some(judged.event.root)), false).unwrap()
}

fn corrected(judged: &Judged, text: &str, position: u64) -> Given {
    let text = Content::new(text.to_owned());
    given(judged, &plain(Proposed::CorrectText(&text)), position)
}

fn draft(value: serde_json::Value) -> Content<DraftPayload> {
    Content::new(DraftPayload(value))
}

#[test]
fn an_opinion_is_an_event_whose_first_parent_is_the_output() {
    let judged = Judged::of(&output("Water it.", 1, Privacy::Private, 10)).unwrap();
    let candidate = judge(&judged, &plain(Proposed::Accept), key("k")).unwrap();
    assert_eq!(candidate.kind().to_string(), "stream.thought.judgment.training-example@2");
    assert_eq!(candidate.envelope().parents[0].id, judged.event.id);
    assert_eq!(candidate.envelope().privacy, Privacy::Private);
    let read: TrainingExample = serde_json::from_slice(candidate.payload().reveal()).unwrap();
    assert_eq!((read.run, read.output), (judged.stamp.run, judged.event.id));
    assert_eq!((read.quality_eligible, read.external_export_eligible), (true, false));
}

#[test]
fn a_replacement_fits_the_contract_before_anything_is_written() {
    let judged = Judged::of(&output("Water it.", 1, Privacy::Private, 10)).unwrap();
    for (value, said) in [
        (json!({ "summary": "hunter2" }), "/tags: a field is missing"),
        (json!([]), "the whole: the value is of another type"),
        (
            json!({ "summary": "", "tags": [], "importance": "low", "confidence": 1 }),
            "/summary: nothing is said",
        ),
    ] {
        let value = draft(value);
        let refused = judge(&judged, &plain(Proposed::Correct(&value)), key("k")).unwrap_err();
        let JudgeError::Replacement { issues, .. } = &refused else { panic!("{refused}") };
        assert!(issues.to_string().contains(said), "{issues}");
        assert!(!format!("{refused:?} {refused}").contains("hunter2"));
    }
    let value = draft(json!({ "summary": "x", "tags": [], "importance": "low", "confidence": 1 }));
    assert!(judge(&judged, &plain(Proposed::Correct(&value)), key("k")).is_ok());
}

#[test]
fn what_is_above_public_leaves_only_with_a_word() {
    for (privacy, authorizes, is_ok, recorded) in [
        (Privacy::PublicSource, false, true, None),
        (Privacy::PublicSource, true, true, None),
        (Privacy::Private, false, false, None),
        (Privacy::Private, true, true, Some(Privacy::Private)),
        (Privacy::Sensitive, false, false, None),
        (Privacy::Sensitive, true, true, Some(Privacy::Sensitive)),
    ] {
        let judged = Judged::of(&output("x", 1, privacy, 10)).unwrap();
        let judging = Judging {
            external_export_eligible: true,
            authorizes_private: authorizes,
            ..plain(Proposed::Accept)
        };
        match judge(&judged, &judging, key("k")) {
            Ok(candidate) => {
                let read: TrainingExample = serde_json::from_slice(candidate.payload().reveal()).unwrap();
                assert!(is_ok && read.external_authorization == recorded);
            }
            Err(refused) => assert!(!is_ok && matches!(refused, JudgeError::NotAuthorized { .. })),
        }
    }
}

#[test]
fn only_two_outputs_of_one_contract_are_compared() {
    let one = Judged::of(&output("a", 1, Privacy::Private, 10)).unwrap();
    let two = Judged::of(&output("b", 2, Privacy::Sensitive, 11)).unwrap();
    let candidate = judge(&one, &plain(Proposed::Prefer(&two)), key("k")).unwrap();
    assert_eq!(candidate.envelope().privacy, Privacy::Sensitive, "the stronger class of both");
    assert!(matches!(
        judge(&one, &plain(Proposed::Prefer(&one)), key("k")),
        Err(JudgeError::NotComparable { why: "they are one", .. })
    ));
    let repair = Judged { is_repair: true, ..two };
    assert!(judge(&one, &plain(Proposed::Prefer(&repair)), key("k")).is_err());
}

#[test]
fn evidence_is_what_it_is_named_as() {
    let judged = Judged::of(&output("a", 1, Privacy::Private, 10)).unwrap();
    let other = Judged::of(&output("b", 2, Privacy::Private, 11)).unwrap();
    let of_other = given(&other, &plain(Proposed::Accept), 12).event;
    for judging in [
        Judging { feedback: Some(&judged.event), ..plain(Proposed::Accept) },
        Judging { delivery: Some(&other.event), ..plain(Proposed::Accept) },
        Judging { supersedes: Some(&of_other), ..plain(Proposed::Accept) },
        Judging { supersedes: Some(&judged.event), ..plain(Proposed::Accept) },
    ] {
        assert!(matches!(judge(&judged, &judging, key("k")), Err(JudgeError::Evidence { .. })));
    }
    assert_eq!(
        judge(&judged, &Judging { criterion_version: " ", ..plain(Proposed::Accept) }, key("k")).unwrap_err(),
        JudgeError::Criterion
    );
    assert!(matches!(retract(&judged.event, None, None, None, key("k")), Err(JudgeError::Evidence { .. })));
}

#[test]
fn what_is_no_output_is_not_judged() {
    let good = output("a", 1, Privacy::Private, 10);
    let redacted = Event { payload: Payload::Redacted, ..good.clone() };
    assert!(matches!(Judged::of(&redacted), Err(JudgeError::Unreadable { .. })));
    let judgment = given(&Judged::of(&good).unwrap(), &plain(Proposed::Accept), 11).event;
    assert!(matches!(Judged::of(&judgment), Err(JudgeError::NotAnOutput { .. })));
    let mut value = good.payload_value().unwrap();
    value["contractHash"] = json!(Sha256Hash::of(b"another definition"));
    let bytes = serde_json::to_vec(&value).unwrap().into_boxed_slice();
    let otherwise = Event { payload: Payload::Present(Content::new(bytes)), ..good };
    assert!(matches!(Judged::of(&otherwise), Err(JudgeError::UnknownContract { .. })));
}

#[test]
fn the_effective_output_is_the_correction_that_stands() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let none = project(&judged, &[]);
    assert_eq!((none.status, none.authority, none.version), (Status::Original, Authority::Original, 2));
    assert_eq!(none.visible(&judged, 99), Err(Hidden::Original));

    let one = corrected(&judged, "It is wet.", 20);
    let projection = project(&judged, std::slice::from_ref(&one));
    assert_eq!((projection.status, projection.authority), (Status::Corrected, Authority::Correct));
    assert_eq!(projection.visible(&judged, 21).unwrap().summary(), "It is wet.");
    // Every other field stays as the model made it.
    assert_eq!(projection.replacement.as_ref().unwrap().tags(), ["conversation"]);

    let accepted = given(&judged, &plain(Proposed::Accept), 22);
    assert_eq!(project(&judged, &[one.clone(), accepted]).id, projection.id);
    let retracted = Given { retracted: true, ..one };
    assert_eq!(project(&judged, &[retracted]), none);
}

#[test]
fn a_correction_that_came_later_does_not_enter_an_earlier_context() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let projection = project(&judged, &[corrected(&judged, "It is wet.", 20)]);
    assert_eq!(projection.visible(&judged, 19), Err(Hidden::Future));
    assert_eq!(projection.visible(&judged, 20), Err(Hidden::Future));
    assert!(projection.visible(&judged, 21).is_ok());
}

#[test]
fn corrections_that_contradict_one_another_hold_neither() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let (one, two) = (corrected(&judged, "It is wet.", 20), corrected(&judged, "It is icy.", 21));
    let both = project(&judged, &[one.clone(), two.clone()]);
    assert_eq!(both.visible(&judged, 99), Err(Hidden::Unresolved));
    let same = project(&judged, &[one.clone(), corrected(&judged, "It is wet.", 22)]);
    assert_eq!(same.judgment, Some((one.event.id, 20)));
    // Taking one back resolves it.
    let gone = Given { retracted: true, ..one };
    assert_eq!(project(&judged, &[gone, two]).visible(&judged, 99).unwrap().summary(), "It is icy.");
}

#[test]
fn a_replaced_correction_is_stale_and_comes_back_if_its_successor_is_taken_back() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let one = corrected(&judged, "It is wet.", 20);
    let text = Content::new("It is icy.".to_owned());
    let judging = Judging { supersedes: Some(&one.event), ..plain(Proposed::CorrectText(&text)) };
    let two = given(&judged, &judging, 21);
    let both = [one.clone(), two.clone()];
    assert_eq!(project(&judged, &both).visible(&judged, 99).unwrap().summary(), "It is icy.");
    // The one that holds now is later than this context, and the stale one does not stand in for it.
    assert_eq!(project(&judged, &both).visible(&judged, 21), Err(Hidden::Future));
    let gone = Given { retracted: true, ..two };
    assert_eq!(project(&judged, &[one, gone]).visible(&judged, 99).unwrap().summary(), "It is wet.");
}

#[test]
fn a_judgment_that_differs_in_any_part_of_the_lineage_supplies_nothing() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let good = corrected(&judged, "It is wet.", 20);
    assert!(good.is_about(&judged));
    let with = |change: &dyn Fn(&mut Given)| {
        let mut changed = good.clone();
        change(&mut changed);
        project(&judged, &[changed]).status
    };
    let other = EventId::from_bytes([7; 32]);
    assert_eq!(with(&|given| given.run = crate::id::RunId::from_bytes([1; 20])), Status::Original);
    assert_eq!(with(&|given| given.output = other), Status::Original);
    assert_eq!(with(&|given| given.event.root = other), Status::Original);
    assert_eq!(with(&|given| given.event.parents = vec![other]), Status::Original);
    assert_eq!(with(&|given| given.event.privacy = Privacy::PublicSource), Status::Original);
    assert_eq!(with(&|given| given.event.position = 9), Status::Original);
    assert_eq!(with(&|given| given.contract_hash = Sha256Hash::of(b"x")), Status::Original);
    assert_eq!(with(&|given| given.newer = None), Status::Original, "the older form has no projection");
}

#[test]
fn a_projection_from_elsewhere_gains_nothing() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let good = project(&judged, &[corrected(&judged, "It is wet.", 20)]);
    let with = |change: &dyn Fn(&mut Projection)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed.visible(&judged, 99).err()
    };
    let other = EventId::from_bytes([7; 32]);
    assert_eq!(with(&|_| {}), None);
    assert_eq!(with(&|p| p.version = 1), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.authority = Authority::Original), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.output = other), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.root = other), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.run = crate::id::RunId::from_bytes([1; 20])), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.contract_hash = Sha256Hash::of(b"x")), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.privacy = Privacy::PublicSource), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.judgment = Some((other, 20))), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.replacement = None), Some(Hidden::Mismatch));
    assert_eq!(with(&|p| p.is_repair = true), Some(Hidden::Repair));
}

#[test]
fn the_older_form_stays_readable_and_is_not_written() {
    let judged = Judged::of(&output("a", 1, Privacy::PublicSource, 10)).unwrap();
    let old = TrainingExampleV1 {
        run: judged.stamp.run,
        output: judged.event.id,
        contract: judged.contract.kind().clone(),
        contract_hash: *judged.contract.hash(),
        opinion: Opinion::Accept,
        export_eligible: true,
    };
    let envelope = Envelope::new(
        SourceId::decisions(),
        key("old"),
        Privacy::PublicSource,
        Actor::ours(ActorKind::Person, "uid:1"),
    )
    .with_parents(vec![Parent::of(&judged.event)]);
    let event = record(&old.candidate(envelope), 11, Some(ROOT));
    let given = Given::of(&event, false).unwrap();
    assert_eq!((given.version, given.legacy_export_eligible), (1, true));
    assert!(given.is_about(&judged) && given.newer.is_none());
}

#[test]
fn saying_the_same_again_is_recognised_whoever_says_it() {
    let judged = Judged::of(&output("a", 1, Privacy::Private, 10)).unwrap();
    let once = given(&judged, &plain(Proposed::Accept), 11);
    let operator = Some(Operator { uid: 1, pid: 2, tty: None });
    let again = judge(&judged, &Judging { operator, ..plain(Proposed::Accept) }, key("k")).unwrap();
    assert!(says_the_same(&once, &again));
    let other = judge(&judged, &plain(Proposed::Reject), key("k")).unwrap();
    assert!(!says_the_same(&once, &other));
}

#[test]
fn a_retraction_names_its_judgment_and_nothing_else() {
    let judged = Judged::of(&output("hunter2", 1, Privacy::Sensitive, 10)).unwrap();
    let event = given(&judged, &plain(Proposed::Accept), 11).event;
    let candidate = retract(&event, Some("a slip".into()), None, None, key("k")).unwrap();
    assert_eq!(candidate.envelope().parents, [Parent::of(&event)]);
    assert_eq!(candidate.envelope().privacy, Privacy::Sensitive);
    assert!(!String::from_utf8_lossy(candidate.payload().reveal()).contains("hunter2"));
}

#[test]
fn a_replacement_is_read_strictly() {
    assert!(read_replacement(b"{\"a\":1,\"a\":2}").is_err());
    assert!(read_replacement(b"{} {}").is_err());
    assert!(read_replacement(b"{}").is_ok());
}

/// Judgments as logs have them. What is stored once is read for ever.
const GOLDEN: [(&str, &str); 2] = [
    (
        "1",
        r#"{"contract":"stream.thought.output.observation@1","contractHash":"f5409dd4f16c7c76528d287b61350970a7454ca3d1d2b855a8280146d068477d","exportEligible":true,"opinion":{"kind":"reject"},"output":"evt_aeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaq","run":"run_aeaqcaibaeaqcaibaeaqcaibaeaqcaib"}"#,
    ),
    (
        "2",
        r#"{"contract":"stream.thought.output.observation@1","contractHash":"f5409dd4f16c7c76528d287b61350970a7454ca3d1d2b855a8280146d068477d","criterionVersion":"v1","delivery":"evt_aibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaiba","externalAuthorization":"private","externalExportEligible":true,"opinion":{"kind":"correct","replacement":{"confidence":0.5,"importance":"normal","summary":"Wait.","tags":["conversation"]}},"output":"evt_aeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaq","qualityEligible":true,"run":"run_aeaqcaibaeaqcaibaeaqcaibaeaqcaib"}"#,
    ),
];

#[test]
fn judgments_of_every_version_are_read_as_they_were_written() {
    for (version, text) in GOLDEN {
        let again = match version {
            "1" => canonical::write_type(&serde_json::from_str::<TrainingExampleV1>(text).unwrap()),
            _ => canonical::write_type(&serde_json::from_str::<TrainingExample>(text).unwrap()),
        };
        assert_eq!(String::from_utf8(again.unwrap()).unwrap(), text, "version {version}");
    }
}

fn taken_back(given: &Given) -> Given {
    Given { retracted: true, ..given.clone() }
}

fn said(judged: &Judged, given: &[&Given]) -> Said {
    let given: Vec<Given> = given.iter().map(|given| (*given).clone()).collect();
    Said { output: judged.event.id, through: given.last().map_or(0, |last| last.event.position), given }
}

fn instead<'a>(opinion: Proposed<'a>, before: &'a Given) -> Judging<'a> {
    Judging { supersedes: Some(&before.event), ..plain(opinion) }
}

fn standing(said: &Said) -> Vec<u64> {
    said.standing().iter().map(|given| given.event.position).collect()
}

#[test]
fn one_question_has_one_answer_at_a_time() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let accepted = given(&judged, &plain(Proposed::Accept), 11);
    let before = said(&judged, &[&accepted]);
    let offer = |judging: &Judging<'_>| judge(&judged, judging, key("k")).unwrap();
    assert!(before.same_as(&offer(&plain(Proposed::Accept))).is_some());
    let refused = before.admit(&offer(&plain(Proposed::Reject))).unwrap_err();
    let told = format!("{} was judged: accept by feedback at 1970-01-01T00:00:00.011Z", judged.stamp.run);
    assert_eq!(refused.to_string(), format!("{told}, {}", accepted.event.id));
    // The same word with another leave is another answer.
    let freely = Judging { quality_eligible: false, ..plain(Proposed::Accept) };
    assert!(before.same_as(&offer(&freely)).is_none() && before.admit(&offer(&freely)).is_err());
    assert_eq!(before.admit(&offer(&instead(Proposed::Reject, &accepted))), Ok(()));
    let by_another = Judging { criterion_version: "tone", ..plain(Proposed::Reject) };
    assert_eq!(before.admit(&offer(&by_another)), Ok(()));
    assert_eq!(said(&judged, &[&taken_back(&accepted)]).admit(&offer(&plain(Proposed::Reject))), Ok(()));
}

#[test]
fn only_what_holds_is_replaced() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let first = given(&judged, &plain(Proposed::Accept), 11);
    let second = given(&judged, &instead(Proposed::Reject, &first), 12);
    let candidate = judge(&judged, &instead(Proposed::Reject, &first), key("k")).unwrap();
    assert_eq!(
        said(&judged, &[&first, &second, &given(&judged, &instead(Proposed::Accept, &second), 13)])
            .admit(&candidate),
        Err(StandingError::Replaced {
            judgment: first.event.id,
            by: given(&judged, &instead(Proposed::Accept, &second), 13).event.id
        })
    );
    assert_eq!(
        said(&judged, &[&taken_back(&first)]).admit(&candidate),
        Err(StandingError::TakenBack { judgment: first.event.id })
    );
}

#[test]
fn taking_back_what_was_replaced_lets_nothing_stand_again() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let first = given(&judged, &plain(Proposed::Accept), 11);
    let second = given(&judged, &instead(Proposed::Reject, &first), 12);
    let third = given(&judged, &instead(Proposed::Accept, &second), 13);
    let all = said(&judged, &[&first, &second, &third]);
    assert_eq!(all.admit_retraction(&second.event.id), Ok(()));
    assert_eq!(standing(&said(&judged, &[&first, &taken_back(&second), &third])), [13]);
    assert_eq!(standing(&said(&judged, &[&first, &second, &taken_back(&third)])), [12]);
    assert_eq!(standing(&said(&judged, &[&first, &taken_back(&second), &taken_back(&third)])), [11]);
}

#[test]
fn what_would_stand_again_beside_its_contrary_keeps_a_judgment_from_being_taken_back() {
    let judged = Judged::of(&output("It is dry.", 1, Privacy::Private, 10)).unwrap();
    let first = given(&judged, &plain(Proposed::Accept), 11);
    let by_another = Judging { criterion_version: "tone", ..instead(Proposed::Accept, &first) };
    let second = given(&judged, &by_another, 12);
    let third = given(&judged, &plain(Proposed::Reject), 13);
    let all = said(&judged, &[&first, &second, &third]);
    assert_eq!(standing(&all), [12, 13]);
    let (judgment, again, other) = (second.event.id, first.event.id, third.event.id);
    assert_eq!(
        all.admit_retraction(&second.event.id),
        Err(StandingError::Revives { judgment, again, other })
    );
    assert_eq!(all.admit_retraction(&third.event.id), Ok(()));
}

#[test]
fn two_outputs_are_compared_in_one_order() {
    let one = Judged::of(&output("a", 1, Privacy::Private, 10)).unwrap();
    let two = Judged::of(&output("b", 2, Privacy::Private, 11)).unwrap();
    let before = given(&one, &plain(Proposed::Prefer(&two)), 12);
    let contrary = judge(&two, &plain(Proposed::Prefer(&one)), key("k")).unwrap();
    let refused = said(&one, &[&before]).admit(&contrary).unwrap_err();
    assert!(matches!(refused, StandingError::Contradicts { opinion: "prefer", .. }), "{refused}");
    let worth = judge(&one, &plain(Proposed::Accept), key("k")).unwrap();
    assert_eq!(said(&one, &[&before]).admit(&worth), Ok(()), "what one is worth is another question");
}
