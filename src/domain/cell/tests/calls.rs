//! Calls of tools: captured one for one or refused as a whole, and whatever a worker says otherwise is a breach.

use serde_json::{Value, json};

use super::super::capture::{Capture, Captured, Refused, Terminate};
use super::super::frame::PACKET_FRAME_BYTES_MAX;
use super::*;
use crate::id::EventId;
use crate::proposal::Kind;
use crate::proposal::call::{ARGUMENTS_BYTES_MAX, CallCode};
use crate::proposal::tests::{arguments, capability, event};

const MEMORY: Kind = Kind::MemoryChange;
const CORRECTION: Kind = Kind::SelfCorrection;
const FOCUS: Kind = Kind::FocusDeclaration;

fn admitted() -> WorkerCapability {
    capability().for_worker()
}

fn called(id: &str, tool: &str, arguments: &str) -> Part {
    let content = |text: &str| Content::new(text.to_owned());
    Part::ToolCall { id: content(id), name: content(tool), arguments: content(arguments) }
}

fn call(id: &str, kind: Kind) -> Part {
    called(id, kind.tool(), &arguments(kind).to_string())
}

/// Makes a call of which one member is another one.
fn but(id: &str, kind: Kind, pointer: &str, value: Value) -> Part {
    let mut arguments = arguments(kind);
    *arguments.pointer_mut(pointer).unwrap() = value;
    called(id, kind.tool(), &arguments.to_string())
}

/// The answer that most tests are about: a text and three calls that are as they should be.
fn parts() -> Vec<Part> {
    vec![text("Noted."), call("a", FOCUS), call("b", MEMORY), call("c", CORRECTION)]
}

fn proposing() -> Packet {
    packet().with_proposals(Some(admitted()))
}

fn outcome(parts: Vec<Part>) -> Outcome {
    Outcome::Answered(Answer { parts, stop: StopReason::ToolCalls })
}

/// Brings a conversation to where an answer of these parts is out.
fn told(parts: Vec<Part>) -> Exchange {
    let (mut exchange, _) = Exchange::begin(proposing()).unwrap();
    exchange.heard(&frame(&ask())).unwrap().unwrap();
    exchange.told(outcome(parts)).unwrap();
    exchange
}

/// Returns the one right result of an answer of these parts.
fn due(parts: Vec<Part>) -> CellResult {
    CellResult::of(Told::new(run(1), outcome(parts)), Some(&admitted()))
}

fn captured(result: &mut CellResult) -> &mut Vec<Captured> {
    match &mut result.calls {
        Capture::Captured(calls) => calls,
        Capture::Refused(refused) => panic!("{refused:?}"),
    }
}

fn final_parts(result: &mut CellResult) -> &mut Vec<Part> {
    match &mut result.outcome {
        Outcome::Answered(answer) => &mut answer.parts,
        Outcome::Refused(code) => panic!("{code:?}"),
    }
}

fn refused(index: u64, code: CallCode) -> Capture {
    Capture::Refused(Refused { index, code })
}

#[test]
fn every_call_is_captured_one_for_one_and_nothing_of_it_is_said() {
    let mut exchange = told(parts());
    let mut result = due(parts());
    let named: Vec<(&str, Kind)> =
        captured(&mut result).iter().map(|call| (call.call.reveal().as_str(), call.kind)).collect();
    assert_eq!(named, [("a", FOCUS), ("b", MEMORY), ("c", CORRECTION)]);
    let written = serde_json::to_value(&result.calls).unwrap();
    let hash = Sha256Hash::of(arguments(FOCUS).to_string().as_bytes());
    let first = json!({ "call": "a", "kind": FOCUS, "arguments": hash, "terminate": true });
    assert_eq!((result.calls.count(), &written["captured"][0]), (3, &first));
    for content in ["Lisbon", "miscounted", "evt_"] {
        assert!(!written.to_string().contains(content), "{content}");
    }
    exchange.heard(&frame(&FromWorker::Result(result.clone()))).unwrap();
    assert_eq!(exchange.closed().unwrap(), result);
}

#[test]
fn a_call_ends_the_run_and_nothing_says_otherwise() {
    let mut asks_on = serde_json::to_value(due(parts()).calls).unwrap();
    asks_on["captured"][0]["terminate"] = false.into();
    assert!(serde_json::from_value::<Capture>(asks_on).is_err());
    assert_eq!(serde_json::to_value(Terminate).unwrap(), json!(true));
    assert_eq!(told(parts()).heard(&frame(&ask())), Err(Breach::SecondAsk));
    let mut exchange = told(parts());
    exchange.heard(&frame(&FromWorker::Result(due(parts())))).unwrap();
    assert_eq!(exchange.heard(&frame(&ask())), Err(Breach::Trailing));
}

#[test]
fn one_call_that_is_wrong_refuses_all() {
    let good = || call("g", MEMORY);
    let stranger = json!([event(99)]);
    let raw = |arguments: &str| called("x", CORRECTION.tool(), arguments);
    let more = called("x", FOCUS.tool(), r#"{"path":"memory.md","declaration":{}}"#);
    let cases = [
        ("unknown", called("x", "write_file", "{}"), CallCode::UnknownTool),
        ("the name of a kind", called("x", "self-correction", "{}"), CallCode::UnknownTool),
        ("the same kind", but("x", MEMORY, "/reason", json!("again")), CallCode::SameKindTwice),
        ("the same id", call("g", CORRECTION), CallCode::Repeated),
        ("not JSON", raw("latest"), CallCode::NotJson),
        ("nothing", raw(""), CallCode::NotJson),
        ("two values", raw("{} {}"), CallCode::NotJson),
        ("a member twice", raw(r#"{"reason":"a","reason":"b"}"#), CallCode::DuplicateMember),
        ("a member too many", more, CallCode::UnknownMember),
        ("a member too few", raw("{}"), CallCode::MissingMember),
        ("too large", raw(&" ".repeat(ARGUMENTS_BYTES_MAX + 1)), CallCode::TooLarge),
        ("too long", but("x", CORRECTION, "/replacement", json!("x".repeat(4_097))), CallCode::TooLong),
        ("blank", but("x", CORRECTION, "/reason", json!("")), CallCode::Blank),
        ("a stranger", but("x", CORRECTION, "/target_output", json!(event(99))), CallCode::NotAdmitted),
        (
            "evidence as a target",
            but("x", CORRECTION, "/target_output", json!(event(12))),
            CallCode::NotAdmitted,
        ),
        (
            "a stranger as evidence",
            but("x", CORRECTION, "/evidence_event_ids", stranger.clone()),
            CallCode::NotAdmitted,
        ),
        (
            "a focus on a stranger",
            but("x", FOCUS, "/declaration/lineage/evidence", stranger),
            CallCode::NotAdmitted,
        ),
    ];
    for (name, wrong, code) in cases {
        let capture = Capture::of(&[good(), text("Noted."), wrong.clone()], &admitted());
        assert_eq!(capture, refused(1, code), "{name}");
        assert_eq!(Capture::of(&[wrong, good()], &admitted()).count(), 0, "{name}: nothing beside it");
    }
    let four = [parts(), vec![call("d", MEMORY)]].concat();
    assert_eq!(Capture::of(&four, &admitted()), refused(3, CallCode::TooManyCalls));
}

#[test]
fn where_nothing_may_be_proposed_every_call_is_refused() {
    let none = CellResult::of(Told::new(run(1), outcome(parts())), None);
    assert_eq!(none.calls, refused(0, CallCode::NotOffered));
    let mut some = capability();
    some.memory = None;
    let capture = Capture::of(&[call("a", MEMORY)], &some.for_worker());
    assert_eq!(capture, refused(0, CallCode::NotOffered));
    // A text that looks like a call is a text.
    let hidden = text(r#"<tool_call>{"name":"request_memory_change"}</tool_call>"#);
    assert_eq!(Capture::of(&[hidden], &WorkerCapability::default()), Capture::default());
}

/// Is what a worker does to its result, and the breach that this is.
type Lie = (&'static str, Breach, fn(&mut CellResult));

const LIES: [Lie; 15] = [
    ("drops one", Breach::OtherCalls, |result| drop(captured(result).pop())),
    ("drops all", Breach::OtherCalls, |result| captured(result).clear()),
    ("adds one", Breach::OtherCalls, |result| {
        let more = captured(result)[0].clone();
        captured(result).push(more);
    }),
    ("turns them round", Breach::OtherCalls, |result| captured(result).reverse()),
    ("renames one", Breach::OtherCalls, |result| captured(result)[0].call = Content::new("z".to_owned())),
    ("gives another kind", Breach::OtherCalls, |result| captured(result)[0].kind = MEMORY),
    ("gives other arguments", Breach::OtherCalls, |result| {
        captured(result)[1].arguments = Sha256Hash::of(b"other");
    }),
    ("refuses what is right", Breach::OtherCalls, |result| result.calls = refused(0, CallCode::NotJson)),
    ("drops a part", Breach::Invented, |result| drop(final_parts(result).pop())),
    ("turns parts round", Breach::Invented, |result| final_parts(result).reverse()),
    ("hides the text", Breach::Invented, |result| drop(final_parts(result).remove(0))),
    ("changes the arguments of a part", Breach::Invented, |result| {
        final_parts(result)[1] = called("a", FOCUS.tool(), "{}");
    }),
    ("counts fewer", Breach::Invented, |result| result.counts.tool_calls = 2),
    ("drops a call everywhere", Breach::OtherCalls, |result| *result = due(parts()[..3].to_vec())),
    ("changes one everywhere", Breach::OtherCalls, |result| {
        let mut parts = parts();
        parts[2] = but("b", MEMORY, "/operation", json!("replace-document"));
        *result = due(parts);
    }),
];

#[test]
fn a_worker_that_lies_about_calls_breaks_the_protocol() {
    for (name, breach, lie) in LIES {
        let mut result = due(parts());
        lie(&mut result);
        assert_eq!(told(parts()).heard(&frame(&FromWorker::Result(result))), Err(breach), "{name}");
    }
    let more = FromWorker::Result(due(vec![text("Noted."), call("a", MEMORY)]));
    let heard = told(vec![text("Noted.")]).heard(&frame(&more));
    assert_eq!(heard, Err(Breach::OtherCalls), "adds a call everywhere");
}

#[test]
fn a_worker_cannot_have_admitted_what_is_not() {
    let escaping = || vec![but("a", MEMORY, "/evidence_event_ids", json!([event(99)]))];
    let mut widened = capability();
    widened.evidence.insert(event(99));
    let lied = CellResult::of(Told::new(run(1), outcome(escaping())), Some(&widened.for_worker()));
    assert_eq!(lied.calls.count(), 1);
    assert_eq!(told(escaping()).heard(&frame(&FromWorker::Result(lied))), Err(Breach::OtherCalls));
    let mut exchange = told(escaping());
    exchange.heard(&frame(&FromWorker::Result(due(escaping())))).unwrap();
    assert_eq!(exchange.closed().unwrap().calls, refused(0, CallCode::NotAdmitted));
}

#[test]
fn what_may_be_proposed_has_a_bound_and_goes_with_the_longest_request() {
    let widest = format!("\"{}\"", "x".repeat(REQUEST_BYTES_MAX - 2));
    let id = |number: u16| {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        EventId::from_bytes(bytes)
    };
    let packet = |events| {
        let many = WorkerCapability { evidence: (0..events).map(id).collect(), ..admitted() };
        Packet::new(run(1), Request::parse(widest.clone()).unwrap()).with_proposals(Some(many))
    };
    let (_, bytes) = Exchange::begin(packet(1_000)).unwrap();
    let mut gather = Gather::default();
    gather.push(&bytes);
    let ToWorker::Packet(read) = decode(&gather.next(PACKET_FRAME_BYTES_MAX).unwrap().unwrap()).unwrap()
    else {
        panic!("no packet")
    };
    assert_eq!(read, packet(1_000));
    assert_eq!(Exchange::begin(packet(2_000)).err(), Some(FrameError::Oversize));
}

#[test]
fn an_answer_whose_result_would_not_fit_is_not_told() {
    // As long as an answer may be, so that naming what was captured is too much.
    let padded = |padding: usize| outcome(vec![text(&"x".repeat(padding)), call("a", MEMORY)]);
    let length = |outcome: &Outcome| {
        let told = ToWorker::Told(Told::new(run(1), outcome.clone()));
        encode(&told, usize::MAX).unwrap().len() - 4
    };
    let widest = padded(ANSWER_BYTES_MAX - length(&padded(0)));
    assert_eq!(length(&widest), ANSWER_BYTES_MAX);
    let (mut exchange, _) = Exchange::begin(proposing()).unwrap();
    exchange.heard(&frame(&ask())).unwrap();
    assert_eq!(exchange.told(widest), Err(FrameError::Oversize));
}

#[test]
fn a_packet_says_nothing_of_proposals_where_there_are_none() {
    assert!(!serde_json::to_string(&packet()).unwrap().contains("proposals"));
    let written = serde_json::to_value(proposing()).unwrap();
    assert_eq!(written["proposals"], serde_json::to_value(admitted()).unwrap());
    // No path, version, hash, run or receipt goes in.
    for word in ["memory.md", "sha256", "run_", "contract", "doc_"] {
        assert!(!written["proposals"].to_string().contains(word), "{word}");
    }
}
