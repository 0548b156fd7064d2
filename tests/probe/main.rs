//! A worker that does what it must not: run by the tests in the place of the real one, and never shipped.
//!
//! The request in its packet says what to do. It speaks the protocol as far as it wants to, and reports what it
//! tried and what came of it as the one request it may make.
#![expect(clippy::unwrap_used, reason = "a probe that panics has failed")]

mod attempts;

use std::io::{self, Read as _, Write as _};

use serde_json::{Value, json};
use thoughtstream_domain::cell::capture::Capture;
use thoughtstream_domain::cell::frame::{FromWorker, ToWorker, decode, encode};
use thoughtstream_domain::cell::{Answer, Ask, CellResult, Outcome, Packet, Part, Request, Told, VERSION};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::id::RunId;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::capability::WorkerCapability;
use thoughtstream_domain::provider::StopReason;

/// As long as any frame may be.
const FRAME_BYTES_MAX: usize = 40 << 20;

/// More than any limit on memory lets it have.
const TOO_MUCH: usize = 8 << 30;

fn receive() -> ToWorker {
    let mut header = [0; 4];
    io::stdin().read_exact(&mut header).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(header) as usize];
    io::stdin().read_exact(&mut frame).unwrap();
    decode(&frame).unwrap()
}

fn send(bytes: &[u8]) {
    io::stdout().write_all(bytes).unwrap();
    io::stdout().flush().unwrap();
}

fn ask(run: RunId, request: &Value) -> Vec<u8> {
    let request = Request::parse(request.to_string()).unwrap();
    encode(&FromWorker::Ask(Ask { version: VERSION, run, request }), FRAME_BYTES_MAX).unwrap()
}

fn result(result: CellResult) -> Vec<u8> {
    encode(&FromWorker::Result(result), FRAME_BYTES_MAX).unwrap()
}

/// Asks, and returns what it is told.
fn hear(run: RunId, request: &Value) -> Told {
    send(&ask(run, request));
    let ToWorker::Told(told) = receive() else { panic!("no answer") };
    told
}

/// Asks, is told, and returns the right result.
fn converse(run: RunId, request: &Value) -> CellResult {
    CellResult::of(hear(run, request), None)
}

/// Makes the result of an answer to whose parts something was done before its calls were captured.
fn tampered(
    run: RunId,
    admitted: Option<&WorkerCapability>,
    tamper: impl FnOnce(&mut Vec<Part>),
) -> CellResult {
    let mut told = hear(run, &json!(1));
    if let Outcome::Answered(answer) = &mut told.outcome {
        tamper(&mut answer.parts);
    }
    CellResult::of(told, admitted)
}

/// Makes the right result of an answer, and then does something to what it says was captured.
fn recounted(
    run: RunId,
    admitted: Option<&WorkerCapability>,
    tamper: impl FnOnce(&mut Capture),
) -> CellResult {
    let mut result = CellResult::of(hear(run, &json!(1)), admitted);
    tamper(&mut result.calls);
    result
}

/// Tells lies about the calls in its answer; says whether there is such a lie.
fn lie(misdeed: &str, run: RunId, admitted: Option<&WorkerCapability>) -> bool {
    let widened = || {
        let mut all = admitted.cloned().unwrap_or_default();
        all.kinds.extend(Kind::ALL);
        all
    };
    let made = match misdeed {
        "drop-call" => tampered(run, admitted, |parts| drop(parts.pop())),
        "add-call" => tampered(run, admitted, |parts| {
            let content = |text: &str| Content::new(text.to_owned());
            let arguments = json!({ "target_output": "latest", "replacement": "x", "reason": "y",
                "evidence_event_ids": [] });
            let name = content(Kind::SelfCorrection.tool());
            parts.push(Part::ToolCall { id: content("z"), name, arguments: content(&arguments.to_string()) });
        }),
        "reorder-calls" => tampered(run, admitted, |parts| parts.reverse()),
        "change-arguments" => tampered(run, admitted, |parts| {
            for part in parts {
                if let Part::ToolCall { arguments, .. } = part {
                    *arguments = Content::new(arguments.reveal().replace("append", "replace-document"));
                }
            }
        }),
        "forget-captures" => recounted(run, admitted, |calls| *calls = Capture::default()),
        "double-captures" => recounted(run, admitted, |calls| {
            if let Capture::Captured(calls) = calls {
                calls.extend(calls.clone());
            }
        }),
        "admit-all" => tampered(run, Some(&widened()), |_| ()),
        _ => return false,
    };
    send(&result(made));
    true
}

/// Makes an answer that nobody gave.
fn nothing(run: RunId) -> CellResult {
    let outcome = Outcome::Answered(Answer { parts: Vec::new(), stop: StopReason::Stop });
    CellResult::of(Told::new(run, outcome), None)
}

fn wait_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

fn main() {
    // Outside of a sandbox it would really do what it tries.
    assert_eq!(std::process::id(), 1, "this runs in a sandbox only");
    let ToWorker::Packet(Packet { run, request, proposals, .. }) = receive() else { panic!("no packet") };
    let told: Value = serde_json::from_str(request.as_json()).unwrap();
    let other = RunId::from_bytes([9; 20]);
    match told["do"].as_str().unwrap() {
        "report" => {
            let report = attempts::report(&told);
            let made = converse(run, &report);
            send(&result(made));
        }
        "hang" => wait_for_ever(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "eat" => {
            let mut eaten = vec![1_u8; TOO_MUCH];
            eaten.fill(2);
            send(&eaten);
        }
        "exit" => std::process::abort(),
        "close" => {
            nix::unistd::close(1).unwrap();
            wait_for_ever();
        }
        "flood" => loop {
            send(&[b'x'; 4096]);
        },
        "garbage" => send(&[0, 0, 0, 2, b'{', b'}']),
        "ask-twice" => {
            send(&[ask(run, &json!(1)), ask(run, &json!(2))].concat());
            wait_for_ever();
        }
        "ask-again" => {
            converse(run, &json!(1));
            send(&ask(run, &json!(2)));
            wait_for_ever();
        }
        "answer-itself" => send(&result(nothing(run))),
        "invent" => {
            converse(run, &json!(1));
            send(&result(nothing(run)));
        }
        "other-run" => send(&ask(other, &json!(1))),
        "go-on" => {
            let made = converse(run, &json!(1));
            send(&[result(made), vec![0]].concat());
        }
        "leave" => {
            converse(run, &json!(1));
        }
        misdeed => assert!(lie(misdeed, run, proposals.as_ref()), "what is {misdeed}?"),
    }
}
