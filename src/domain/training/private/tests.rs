use serde_json::json;

use super::*;
use crate::contract::{Contract, FinalPart, Mode, Stop, judge as verdict};
use crate::conversation::tests_fixture as talk;
use crate::event::{Actor, ActorKind, Candidate, Envelope, Parent};
use crate::id::{IdempotencyKey, SourceId};
use crate::judgment::Said;
use crate::judgment::tests::record;
use crate::packet::{Asking, Capabilities, ContractRevision, Runtime, Subject};
use crate::payload::delivery::{DeliveryBinding, source as delivery_source};
use crate::payload::judgment::TrainingExampleV1;
use crate::payload::output::{MessageObservation, Provenance, beside};
use crate::payload::run::RunStamp;
use crate::payload::telegram::{ChatId, MessageId, MessageText, SenderId, TelegramCorrection, UpdateId};
use crate::payload::trace::Step;
use crate::privacy::Privacy;
use crate::provider::{ResponseFormat, ThinkingLevel};
use crate::time::Timestamp;
use crate::training::{Facts, Gate, example as public_example};

const SECRET: &str = "hunter2";
const BOT: &str = "telegram:garden";

fn envelope(source: &str, key: &str, parents: Vec<Parent>) -> Envelope {
    let (source, key) = (SourceId::parse(source).unwrap(), IdempotencyKey::parse(key).unwrap());
    Envelope::new(source, key, Privacy::Sensitive, Actor::ours(ActorKind::Producer, "test"))
        .with_parents(parents)
}

fn message() -> Event {
    let payload = TelegramMessage {
        update: UpdateId::new(1),
        chat: ChatId::new(7),
        sender: SenderId::new(7),
        message: MessageId::new(1),
        sent_at: Timestamp::from_millis(0),
        text: MessageText::new(SECRET.to_owned()),
        images: Vec::new(),
        rejected: Vec::new(),
        reply_to: None,
        album: None,
        edited: false,
    };
    record(&payload.candidate(envelope(BOT, "update/1", Vec::new())), 1, None)
}

fn correction(text: &str) -> Event {
    let payload = TelegramCorrection {
        update: UpdateId::new(2),
        chat: ChatId::new(7),
        sender: SenderId::new(7),
        message: MessageId::new(3),
        sent_at: Timestamp::from_millis(0),
        target: Some(MessageId::new(2)),
        replacement: Some(MessageText::new(text.to_owned())),
        edited: false,
    };
    record(&payload.candidate(envelope(BOT, "update/2", Vec::new())), 20, None)
}

fn packet(stamp: &RunStamp, trigger: EventId) -> Packet {
    let chat = talk::Chat::of(2);
    let composed = talk::compose(&chat, &chat.current("what now?"), false);
    let contract = Contract::observation();
    let subject = Subject {
        consumer: stamp.consumer.clone(),
        fingerprint: stamp.fingerprint,
        triggers: vec![trigger],
        prompt: None,
        contract: ContractRevision { name: contract.kind().clone(), sha256: *contract.hash() },
        runtime: Runtime {
            profile: "local".to_owned(),
            model: "small-1".to_owned(),
            execution_adapter_revision: stamp.execution_adapter_revision.clone(),
            model_adapter: None,
        },
        capabilities: Capabilities {
            privacy: Privacy::Sensitive,
            tools: Vec::new(),
            external_actions: false,
        },
        images: Vec::new(),
    };
    let asking = Asking {
        max_output_tokens: 500,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        stream: false,
    };
    Packet::seal(subject, asking, composed).unwrap()
}

fn stamp(trigger: EventId) -> RunStamp {
    let mut stamp = crate::payload::output::tests::stamp();
    stamp.execution = ExecutionId::derive(&stamp.consumer, &stamp.fingerprint, &[trigger]);
    stamp.run = RunId::derive(&stamp.execution, 1);
    stamp
}

fn output(stamp: &RunStamp, packet: &Packet, trigger: &Event) -> Event {
    let parts = [FinalPart::text("Water it.")];
    let accepted = verdict(&Contract::observation(), Mode::ConversationText, &parts, Stop::End).unwrap();
    let provenance = Provenance { provider: "local".into(), model: "small-1".into() };
    let payload = MessageObservation::of(accepted, stamp.clone(), packet.sha256(), provenance);
    let envelope = beside(stamp, "output", Privacy::Sensitive, vec![Parent::of(trigger)]);
    record(&payload.candidate(envelope), 10, Some(trigger.root))
}

fn receipt(run: RunId, output: &Event, chat: i64) -> Event {
    let bot = SourceId::parse(BOT).unwrap();
    let binding = DeliveryBinding {
        delivery: crate::id::DeliveryId::from_bytes([3; 20]),
        claim: 1,
        route: Route::DirectReply,
        chat: ChatId::new(chat),
        sender: Some(SenderId::new(7)),
        root: output.root,
        run,
        output: output.id,
        bot: bot.clone(),
    };
    let source = delivery_source(&bot).to_string();
    let delivered =
        DeliveryDelivered { binding, message: Some(MessageId::new(2)), sent_at: None, confirmed_by: None };
    record(&delivered.candidate(envelope(&source, "d/1", vec![Parent::of(output)])), 15, Some(output.root))
}

fn completed(stamp: &RunStamp, output: &Event, trigger: &Event) -> Event {
    let payload =
        RunCompleted { stamp: stamp.clone(), outputs: vec![output.id], proposals: Vec::new(), charge: None };
    let candidate =
        payload.candidate(beside(stamp, "completed", Privacy::Sensitive, vec![Parent::of(trigger)]));
    record(&candidate, 11, Some(trigger.root))
}

/// Makes a chain that is whole: a message, its answer, the receipt of that, and `/correct`.
fn whole() -> Chain {
    let trigger = message();
    let stamp = stamp(trigger.id);
    let packet = packet(&stamp, trigger.id);
    let output = output(&stamp, &packet, &trigger);
    let judged = Judged::of(&output).unwrap();
    let (receipt, said) = (receipt(stamp.run, &output, 7), correction("Wait."));
    let read = feedback::read(&said).unwrap();
    let nothing = Said { output: output.id, given: Vec::new(), through: 0 };
    let candidates: Vec<Candidate> = feedback::project(&read, &said, &judged, &receipt, &nothing).unwrap();
    let given = Given::of(&record(&candidates[0], 30, Some(output.root)), false).unwrap();
    let row = Run {
        id: stamp.run,
        execution: stamp.execution,
        consumer: stamp.consumer.clone(),
        position: trigger.position,
        attempt: 1,
        source: trigger.source.clone(),
        state: RunState::Completed { outputs: vec![output.id] },
        received_at: Timestamp::from_millis(0),
        ended_at: Some(Timestamp::from_millis(1)),
        incarnation: 1,
    };
    let completed = Found::Read(completed(&stamp, &output, &trigger));
    let lineage = Lineage {
        judged,
        triggers: vec![trigger],
        ancestry: Privacy::Sensitive,
        trace: Some(vec![Step::CellStarted, Step::Requested]),
        declaration: json!({ "context": { "maxEvents": 8 } }),
    };
    Chain {
        given,
        active: true,
        lineage: Found::Read(lineage),
        run: Found::Read(Ended { row, completed }),
        feedback: Found::Read(said),
        decided: Found::Missing,
        delivery: Found::Read(receipt),
        snapshot: Found::Read(packet),
    }
}

fn lineage(chain: &mut Chain) -> &mut Lineage {
    let Found::Read(lineage) = &mut chain.lineage else { panic!("the fixture is whole") };
    lineage
}

fn row(chain: &mut Chain) -> &mut Ended {
    let Found::Read(ended) = &mut chain.run else { panic!("the fixture is whole") };
    ended
}

fn newer(chain: &mut Chain) -> &mut TrainingExample {
    chain.given.newer.as_mut().unwrap()
}

fn broken(change: impl FnOnce(&mut Chain)) -> Vec<String> {
    let mut chain = whole();
    change(&mut chain);
    let withheld = example(&chain).unwrap_err();
    assert_eq!(withheld.code, Code::Provenance);
    assert!(!withheld.links.is_empty());
    withheld.links.iter().map(|one| format!("{} {}", one.link.as_str(), one.fault.as_str())).collect()
}

#[test]
fn a_whole_chain_is_an_example_that_names_every_link() {
    let chain = whole();
    let made = example(&chain).unwrap();
    let named = made.provenance();
    assert_eq!(named.judgment, chain.given.event.id);
    assert_eq!((named.run, named.output), (chain.given.run, chain.given.output));
    let value = serde_json::to_value(&made).unwrap();
    assert_eq!(
        (&value["chosen"]["summary"], &value["rejected"]["summary"]),
        (&json!("Wait."), &json!("Water it."))
    );
    assert_eq!((&value["format"], &value["kind"]), (&json!(EXAMPLE_FORMAT), &json!("correct")));
    let ids = value["privateProvenance"].as_object().unwrap();
    let names: Vec<&str> = ids.keys().map(String::as_str).collect();
    let all = ["completed", "delivery", "feedback", "judgment", "output", "run", "snapshot", "triggers"];
    assert_eq!(names, all);
    // What a person wrote to the bot is named by id and not repeated.
    assert!(!value.to_string().contains(SECRET) && !format!("{made:?}").contains("Wait"));
}

#[test]
fn it_does_not_have_to_be_free_to_leave_and_the_other_export_refuses_it() {
    let chain = whole();
    assert!(!chain.given.newer.as_ref().unwrap().external_export_eligible);
    assert!(example(&chain).is_ok());
    let Found::Read(primary) = chain.lineage else { panic!("the fixture is whole") };
    let (Found::Read(delivery), Found::Read(feedback)) = (chain.delivery, chain.feedback) else { panic!() };
    let (delivery, feedback) = (Some(delivery), Some(feedback));
    let facts = Facts {
        given: chain.given,
        active: true,
        primary: Some(primary),
        compared: None,
        delivery,
        feedback,
    };
    for gate in [Gate::PublicOnly, Gate::AuthorizedPrivate] {
        assert_eq!(public_example(&facts, gate).unwrap_err(), Excluded::NotExternallyEligible);
    }
}

#[test]
fn each_link_that_is_missing_is_named() {
    assert_eq!(broken(|chain| chain.run = Found::Missing), ["run missing"]);
    assert_eq!(broken(|chain| row(chain).completed = Found::Missing), ["run missing"]);
    assert_eq!(broken(|chain| row(chain).row.state = RunState::Started), ["run missing"]);
    assert_eq!(broken(|chain| chain.feedback = Found::Missing), ["feedback missing"]);
    assert_eq!(broken(|chain| newer(chain).feedback = None), ["feedback missing"]);
    assert_eq!(broken(|chain| chain.snapshot = Found::Missing), ["snapshot missing"]);
    let undelivered = ["feedback inconsistent", "delivery missing"];
    assert_eq!(broken(|chain| chain.delivery = Found::Missing), undelivered);
    assert_eq!(broken(|chain| newer(chain).delivery = None), undelivered);
    let triggers = ["trigger missing", "delivery inconsistent", "snapshot inconsistent"];
    let without = broken(|chain| lineage(chain).triggers.clear());
    assert!(without.contains(&triggers[0].to_owned()), "{without:?}");
    let output = broken(|chain| chain.lineage = Found::Missing);
    assert!(output.contains(&"output missing".to_owned()), "{output:?}");
}

#[test]
fn each_link_that_contradicts_the_rest_is_named() {
    let other = EventId::from_bytes([8; 32]);
    let named = |change: fn(&mut Chain), link: &str| {
        let said = broken(change);
        assert!(said.contains(&format!("{link} inconsistent")), "{link}: {said:?}");
    };
    named(|chain| chain.given.output = EventId::from_bytes([8; 32]), "judgment");
    named(|chain| chain.given.event.root = EventId::from_bytes([8; 32]), "judgment");
    named(|chain| chain.lineage = Found::Unreadable, "output");
    named(|chain| chain.run = Found::Unreadable, "run");
    named(|chain| row(chain).row.id = RunId::from_bytes([8; 20]), "run");
    named(|chain| row(chain).row.attempt = 2, "run");
    named(|chain| row(chain).row.state = RunState::Completed { outputs: Vec::new() }, "run");
    named(|chain| lineage(chain).triggers[0].payload = Payload::Redacted, "trigger");
    named(|chain| lineage(chain).triggers[0].id = EventId::from_bytes([8; 32]), "trigger");
    named(|chain| lineage(chain).judged.stamp.fingerprint = Sha256Hash::of(b"other"), "trigger");
    named(|chain| chain.feedback = Found::Read(correction("Go.")), "feedback");
    named(|chain| chain.feedback = Found::Read(message()), "feedback");
    named(|chain| chain.snapshot = Found::Unreadable, "snapshot");
    named(|chain| lineage(chain).judged.snapshot = Sha256Hash::of(b"other"), "snapshot");
    named(|chain| lineage(chain).judged.provenance.model = "large-1".into(), "snapshot");
    let erased = |chain: &mut Chain| {
        let Found::Read(event) = &mut chain.feedback else { panic!() };
        event.payload = Payload::Redacted;
    };
    named(erased, "feedback");
    assert_ne!(whole().given.output, other);
}

#[test]
fn a_receipt_of_another_run_chat_or_output_is_none_of_this_chain() {
    for change in [
        |chain: &mut Chain, output: &Event| {
            chain.delivery = Found::Read(receipt(RunId::from_bytes([8; 20]), output, 7))
        },
        |chain: &mut Chain, output: &Event| chain.delivery = Found::Read(receipt(chain.given.run, output, 8)),
        |chain: &mut Chain, output: &Event| {
            let mut other = output.clone();
            other.id = EventId::from_bytes([8; 32]);
            chain.delivery = Found::Read(receipt(chain.given.run, &other, 7));
        },
    ] {
        let said = broken(|chain| {
            let output = lineage(chain).judged.event.clone();
            change(chain, &output);
        });
        assert!(said.contains(&"delivery inconsistent".to_owned()), "{said:?}");
    }
}

#[test]
fn what_does_not_qualify_is_withheld_whatever_its_chain() {
    let code = |change: &dyn Fn(&mut Chain)| {
        let mut chain = whole();
        change(&mut chain);
        example(&chain).map(|_| ()).map_err(|withheld| withheld.code)
    };
    assert_eq!(code(&|_| {}), Ok(()));
    assert_eq!(code(&|chain| chain.active = false), Err(Code::Inactive));
    assert_eq!(code(&|chain| chain.given.retracted = true), Err(Code::Inactive));
    assert_eq!(code(&|chain| chain.given.newer = None), Err(Code::OlderForm));
    assert_eq!(code(&|chain| newer(chain).quality_eligible = false), Err(Code::NotQualityEligible));
    let prefers = |chain: &mut Chain| {
        let (over, over_output) = (RunId::from_bytes([8; 20]), EventId::from_bytes([8; 32]));
        newer(chain).opinion = Opinion::Prefer { over, over_output };
    };
    assert_eq!(code(&prefers), Err(Code::ComparesRuns));
    assert_eq!(code(&|chain| lineage(chain).judged.is_repair = true), Err(Code::Repair));
    assert_eq!(TrainingExampleV1::VERSION, 1, "the older form names neither feedback nor delivery");
}

#[test]
fn an_agents_proposal_is_neither_a_judgment_nor_an_output_of_one_for_either_export() {
    use crate::payload::proposal::{CorrectionProposed, FocusProposed, MemoryChangeProposed};
    for kind in [MemoryChangeProposed::kind(), CorrectionProposed::kind(), FocusProposed::kind()] {
        let mut proposal = message();
        proposal.kind = kind;
        // Whatever it says: both exports begin at judgments, and both read what those are about as outputs.
        assert!(Given::of(&proposal, false).is_none());
        assert!(Judged::of(&proposal).is_err());
        let said = broken(|chain| {
            chain.given.output = proposal.id;
            chain.lineage = Found::Unreadable;
        });
        assert!(said.contains(&"output inconsistent".to_owned()), "{said:?}");
        let given = whole().given;
        let facts =
            Facts { given, active: true, primary: None, compared: None, delivery: None, feedback: None };
        assert!(public_example(&facts, Gate::AuthorizedPrivate).is_err());
    }
}

#[test]
fn a_decision_is_feedback_only_with_the_proven_proposal_it_is_about() {
    let said = broken(|chain| {
        let Found::Read(event) = &mut chain.feedback else { panic!("the fixture is whole") };
        event.kind = ProposalDecision::kind();
    });
    assert_eq!(said, ["feedback inconsistent"]);
}

#[test]
fn the_writer_rejects_an_example_that_lacks_a_link_whoever_supplied_it() {
    let good = serde_json::to_value(example(&whole()).unwrap()).unwrap();
    let set = dataset(&[good.clone(), good.clone()]).unwrap();
    assert_eq!((set.manifest.count, set.manifest.format.as_str()), (2, MANIFEST_FORMAT));
    assert_eq!(set.manifest.dataset_sha256, Sha256Hash::of(&set.bytes));
    let names: Vec<String> = good["privateProvenance"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names.len(), 8);
    for name in &names {
        for change in [None, Some(json!(null)), Some(json!("")), Some(json!("evt_short")), Some(json!([]))] {
            let mut forged = good.clone();
            let chain = forged["privateProvenance"].as_object_mut().unwrap();
            match change {
                None => drop(chain.remove(name)),
                Some(value) => drop(chain.insert(name.clone(), value)),
            }
            assert_eq!(dataset(&[good.clone(), forged]).unwrap_err(), Unproven::Provenance(1), "{name}");
        }
    }
    let mut more = good.clone();
    more["privateProvenance"]["path"] = json!("/etc/passwd");
    assert_eq!(dataset(&[more]).unwrap_err(), Unproven::Provenance(0));
    let mut bare = good.clone();
    bare.as_object_mut().unwrap().remove("privateProvenance");
    assert_eq!(dataset(&[bare]).unwrap_err(), Unproven::Provenance(0));
    let mut other = good;
    other["format"] = json!(crate::training::EXAMPLE_FORMAT);
    assert_eq!(dataset(&[other]).unwrap_err(), Unproven::Form(0));
}

#[test]
fn a_trace_that_is_missing_is_said_to_be() {
    let mut chain = whole();
    lineage(&mut chain).trace = None;
    let made = example(&chain).unwrap();
    assert!(made.lacks_trace());
    let value = serde_json::to_value(&made).unwrap();
    assert_eq!(value.get("trace"), Some(&json!(null)), "missing is not an empty list");
    lineage(&mut chain).trace = Some(Vec::new());
    let made = example(&chain).unwrap();
    assert!(!made.lacks_trace());
    assert_eq!(serde_json::to_value(&made).unwrap()["trace"], json!([]));
}
