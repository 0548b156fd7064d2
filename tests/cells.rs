//! The sandbox, tried from inside: a probe in the place of the worker does what it must not, is refused, and is
//! one classified fault. The same once more as a user who owns nothing.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::{Value, json};
use thoughtstream_actors::cell::{CellFault, CellPlace, run_cell};
use thoughtstream_domain::cell::capture::Capture;
use thoughtstream_domain::cell::{Answer, CellResult, Outcome, Packet, Part, Request};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::id::{EventId, RunId};
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::call::CallCode;
use thoughtstream_domain::proposal::capability::WorkerCapability;
use thoughtstream_domain::provider::StopReason;
use thoughtstream_effects::sandbox::{Launcher, Limits};
use tokio::time::Instant;

/// The user whom nothing belongs to.
const NOBODY: u32 = 65_534;

/// Where the copies are that another user may run.
const COPIES: &str = "THOUGHT_TEST_COPIES";

/// Says in which process a test of this file runs its second half.
const PARENT: &str = "cells::as_a_parent_that_is_killed";

/// Ends a run that never ends by itself; nothing is asserted about how long it took.
const PATIENCE: Duration = Duration::from_secs(60);

fn built(name: &str) -> PathBuf {
    if let Some(copies) = std::env::var_os(COPIES) {
        return Path::new(&copies).join(name);
    }
    match name {
        "thought-worker" => PathBuf::from(env!("CARGO_BIN_EXE_thought-worker")),
        _ => {
            let test = std::env::current_exe().unwrap();
            let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
            assert!(path.exists(), "cargo build --example {name} makes {}", path.display());
            path
        }
    }
}

/// A place for cells, gone at the end of a test.
struct Place {
    base: tempfile::TempDir,
    launcher: Launcher,
}

impl Place {
    fn with(program: &str) -> Self {
        let base = tempfile::Builder::new().prefix("ts").tempdir().unwrap();
        let path = std::env::var_os("PATH");
        let place = CellPlace { worker: built(program), path, below: base.path().to_owned() };
        let launcher = place.open().unwrap_or_else(|why| panic!("{why}"));
        Self { base, launcher }
    }

    fn probe() -> Self {
        Self::with("probe")
    }

    /// Runs the worker on a request; returns its result, and what it asked.
    async fn run(&self, request: &Value, limits: Limits, patience: Duration) -> (Ran, Option<Value>) {
        self.run_on(packet(request), answer(), limits, patience).await
    }

    /// Runs the worker on a packet and tells it an outcome; returns its result, and what it asked.
    async fn run_on(
        &self,
        packet: Packet,
        told: Outcome,
        limits: Limits,
        patience: Duration,
    ) -> (Ran, Option<Value>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let ask = async move |request: Request| {
            noted.lock().unwrap().push(serde_json::from_str(request.as_json()).unwrap());
            told
        };
        let result = run_cell(&self.launcher, packet, limits, Instant::now() + patience, ask).await;
        let mut asked: Vec<Value> = std::mem::take(&mut asked.lock().unwrap());
        assert!(asked.len() <= 1, "one request of one run: {asked:?}");
        (result, asked.pop())
    }

    /// Returns the code of the fault that a misdeed is.
    async fn fault(&self, misdeed: &str) -> &'static str {
        let limits = Limits { processor_seconds: 1, ..Limits::default() };
        let (result, _) = self.run(&json!({ "do": misdeed }), limits, PATIENCE).await;
        result.expect_err(misdeed).code()
    }
}

type Ran = Result<CellResult, CellFault>;

fn text(text: &str) -> Part {
    Part::Text { text: Content::new(text.to_owned()) }
}

fn answer() -> Outcome {
    let parts = vec![text("Good day")];
    Outcome::Answered(Answer { parts, stop: StopReason::Stop })
}

fn packet(request: &Value) -> Packet {
    Packet::new(RunId::from_bytes([1; 20]), Request::parse(request.to_string()).unwrap())
}

/// May be cited in the tests of calls.
fn cited() -> EventId {
    EventId::from_bytes([2; 32])
}

/// Lets a memory change be proposed, and nothing else.
fn memory_alone() -> WorkerCapability {
    let kinds = [Kind::MemoryChange].into();
    WorkerCapability { kinds, targets: vec![EventId::from_bytes([3; 32])], evidence: [cited()].into() }
}

/// Makes an answer that calls tools, after a text.
fn calling(calls: &[(Kind, Value)]) -> Outcome {
    let content = |text: &str| Content::new(text.to_owned());
    let call = |(at, (kind, arguments)): (usize, &(Kind, Value))| Part::ToolCall {
        id: content(&format!("call_{at}")),
        name: content(kind.tool()),
        arguments: content(&arguments.to_string()),
    };
    let parts = std::iter::once(text("Noted.")).chain(calls.iter().enumerate().map(call)).collect();
    Outcome::Answered(Answer { parts, stop: StopReason::ToolCalls })
}

fn memory(evidence: EventId) -> (Kind, Value) {
    let arguments = json!({ "operation": "append", "proposed_text": "Lives in Lisbon.", "reason": "Asked to.",
        "evidence_event_ids": [evidence] });
    (Kind::MemoryChange, arguments)
}

fn correction() -> (Kind, Value) {
    let arguments = json!({ "target_output": "latest", "replacement": "Five.", "reason": "Miscounted.",
        "evidence_event_ids": [] });
    (Kind::SelfCorrection, arguments)
}

fn focus() -> (Kind, Value) {
    let declaration = json!({
        "id": "lisbon", "version": 1, "lineage": { "evidence": [cited()] },
        "scope": { "includes": ["the move"], "excludes": [] }, "objective": "Keep track of the move.",
        "subscriptions": [{ "types": ["stream.thought.source.*"], "sources": ["filesystem:notes"] }],
        "budgets": { "runsPerDay": 4, "tokensPerDay": 20000 }, "requestedPermissions": [],
        "retirement": { "afterDays": 60 },
    });
    (Kind::FocusDeclaration, json!({ "declaration": declaration }))
}

fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[tokio::test]
async fn the_worker_asks_once_and_gives_back_the_final_parts() {
    let place = Place::with("thought-worker");
    let request = json!({ "model": "m", "messages": ["x".repeat(1 << 20)] });
    for _ in 0..3 {
        let (result, asked) = place.run(&request, Limits::default(), PATIENCE).await;
        let result = result.unwrap_or_else(|fault| panic!("{fault:?}"));
        assert_eq!(asked, Some(request.clone()));
        assert_eq!(result.outcome, answer());
        assert_eq!((result.counts.text_parts, result.counts.text_characters), (1, 8));
    }
}

#[tokio::test]
async fn the_worker_captures_calls_and_asks_nothing_more() {
    let place = Place::with("thought-worker");
    let run = async |admitted: Option<WorkerCapability>, told: &Outcome| {
        let packet = packet(&json!({ "model": "m" })).with_proposals(admitted);
        let (result, asked) = place.run_on(packet, told.clone(), Limits::default(), PATIENCE).await;
        let result = result.unwrap_or_else(|fault| panic!("{fault:?}"));
        assert_eq!((asked, &result.outcome), (Some(json!({ "model": "m" })), told));
        result.calls
    };
    let all = WorkerCapability { kinds: Kind::ALL.into(), ..memory_alone() };
    let three = calling(&[focus(), memory(cited()), correction()]);
    let Capture::Captured(calls) = run(Some(all), &three).await else { panic!("refused") };
    let named: Vec<(&str, Kind)> =
        calls.iter().map(|call| (call.call.reveal().as_str(), call.kind)).collect();
    let expected = [
        ("call_0", Kind::FocusDeclaration),
        ("call_1", Kind::MemoryChange),
        ("call_2", Kind::SelfCorrection),
    ];
    assert_eq!(named, expected);
    for (admitted, calls, code) in [
        (Some(memory_alone()), vec![memory(EventId::from_bytes([9; 32]))], CallCode::NotAdmitted),
        (Some(memory_alone()), vec![memory(cited()), correction()], CallCode::NotOffered),
        (Some(memory_alone()), vec![memory(cited()), memory(cited())], CallCode::SameKindTwice),
        (Some(memory_alone()), vec![(Kind::MemoryChange, json!("x".repeat(300_000)))], CallCode::TooLarge),
        (None, vec![memory(cited())], CallCode::NotOffered),
    ] {
        let Capture::Refused(refused) = run(admitted, &calling(&calls)).await else { panic!("captured") };
        assert_eq!(refused.code, code);
    }
}

#[tokio::test]
async fn every_lie_about_calls_is_one_classified_fault() {
    let place = Place::probe();
    let lied = async |misdeed: &str, told: Outcome| {
        let packet = packet(&json!({ "do": misdeed })).with_proposals(Some(memory_alone()));
        let (result, asked) = place.run_on(packet, told, Limits::default(), PATIENCE).await;
        assert!(asked.is_some(), "{misdeed}");
        result.expect_err(misdeed).code()
    };
    for (misdeed, code) in [
        ("drop-call", "worker-other-calls"),
        ("add-call", "worker-other-calls"),
        ("reorder-calls", "worker-invented"),
        ("change-arguments", "worker-other-calls"),
        ("forget-captures", "worker-other-calls"),
        ("double-captures", "worker-other-calls"),
    ] {
        assert_eq!(lied(misdeed, calling(&[memory(cited())])).await, code, "{misdeed}");
    }
    // What the parent admitted is the parent's to say.
    assert_eq!(lied("admit-all", calling(&[correction()])).await, "worker-other-calls");
}

#[tokio::test]
async fn nothing_can_be_reached_from_inside() {
    let place = Place::probe();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = place.base.path().join("operator.sock");
    let _door = UnixListener::bind(&socket).unwrap();
    let credential = place.base.path().join("credential");
    std::fs::write(&credential, "secret").unwrap();
    // One that a careless parent of the service left open.
    let left_open = std::fs::File::open(&credential).unwrap();
    fcntl(&left_open, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let program = built("probe").display().to_string();
    let paths = [place.base.path().display().to_string(), credential.display().to_string(), home, program];
    let told = json!({
        "do": "report",
        "port": listener.local_addr().unwrap().port(),
        "socket": socket,
        "paths": paths,
        "process": std::process::id(),
    });
    let (result, report) = place.run(&told, Limits::default(), PATIENCE).await;
    assert_eq!(result.unwrap_or_else(|fault| panic!("{fault:?}")).outcome, answer());
    let report = report.unwrap();
    let tried: BTreeMap<String, String> = serde_json::from_value(report["tried"].clone()).unwrap();
    let done: Vec<&String> =
        tried.iter().filter(|(_, word)| *word != "refused").map(|(name, _)| name).collect();
    assert!(done.is_empty(), "from inside one can: {done:?}");
    assert!(tried.len() > 50, "only {} things were tried", tried.len());
    let libraries = place.launcher.binary().libraries().iter();
    let allowed: Vec<String> = libraries.map(|library| library.path.display().to_string()).collect();
    for path in report["seen"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()) {
        let above = |file: &String| file.starts_with(path);
        assert!(path == "/thought-worker" || allowed.iter().any(above), "it sees {path}");
    }
    assert_eq!(report["environment"], json!(["PWD=/"]), "an environment of nothing");
    assert_eq!(report["descriptors"], json!([]), "nothing is inherited but the pipes");
    assert_eq!(
        (&report["process"], &report["user"], &report["arguments"]),
        (&json!(1), &json!(65_534), &json!(1))
    );
    let limits = json!({
        "memory": [256 << 20, 256 << 20],
        "processor": [5, 5],
        "processes": [1, 1],
        "file": [0, 0],
        "descriptors": [16, 16],
        "core": [0, 0],
        "locked": [0, 0],
    });
    assert_eq!(report["limits"], limits);
}

#[tokio::test]
async fn every_misdeed_is_one_classified_fault() {
    let place = Place::probe();
    for (misdeed, code) in [
        ("exit", "worker-killed"),
        ("eat", "worker-killed"),
        ("flood", "worker-frame-oversize"),
        ("garbage", "worker-frame-malformed"),
        ("ask-twice", "worker-second-ask"),
        ("ask-again", "worker-second-ask"),
        ("answer-itself", "worker-early-result"),
        ("invent", "worker-invented"),
        ("other-run", "worker-other-run"),
        ("go-on", "worker-trailing-bytes"),
        ("leave", "worker-exited"),
    ] {
        assert_eq!(place.fault(misdeed).await, code, "{misdeed}");
    }
}

#[tokio::test]
async fn a_worker_that_computes_for_ever_is_ended_by_the_kernel() {
    assert_eq!(Place::probe().fault("spin").await, "worker-killed");
}

#[tokio::test]
async fn a_worker_that_hangs_is_ended_at_the_deadline() {
    let place = Place::probe();
    for misdeed in ["hang", "close"] {
        let told = json!({ "do": misdeed });
        let (result, asked) = place.run(&told, Limits::default(), Duration::from_millis(500)).await;
        assert_eq!((result.unwrap_err().code(), asked), ("worker-deadline", None));
    }
}

#[tokio::test]
async fn a_large_request_and_a_large_answer_pass_and_a_larger_one_does_not() {
    let place = Place::with("thought-worker");
    let run = RunId::from_bytes([1; 20]);
    let deadline = Instant::now() + PATIENCE;
    for (length, fits) in [((1 << 20), true), ((3 << 20), false)] {
        let request = Request::parse(format!("\"{}\"", "x".repeat(30 << 20))).unwrap();
        let parts = vec![text(&"y".repeat(length))];
        let outcome = Outcome::Answered(Answer { parts, stop: StopReason::Stop });
        let ask = async |_: Request| outcome.clone();
        let ran =
            run_cell(&place.launcher, Packet::new(run, request), Limits::default(), deadline, ask).await;
        match ran {
            Ok(result) => assert!(fits && result.outcome == outcome),
            Err(fault) => assert!(!fits && fault.code() == "worker-too-large", "{fault:?}"),
        }
    }
}

/// Starts the second half of a test in a process of its own: the whole test program, told to run one test.
fn half(program: &Path, name: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--ignored", "--exact", "--nocapture", name]).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

#[test]
fn a_parent_that_is_killed_takes_its_cells_with_it() {
    let mut parent = half(&std::env::current_exe().unwrap(), PARENT).spawn().unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.find_map(|line| line.split_once("cells: ").map(|(_, told)| told.to_owned())).unwrap();
    let processes: Vec<u32> = told.split(' ').map(|number| number.parse().unwrap()).collect();
    assert!(processes.len() == 6 && processes.iter().all(|process| is_alive(*process)), "{processes:?}");
    // The kernel's way: nobody in there can do anything about it.
    parent.kill().unwrap();
    parent.wait().unwrap();
    while processes.iter().any(|process| is_alive(*process)) {
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "it is the parent that another test kills"]
fn as_a_parent_that_is_killed() {
    let place = Place::probe();
    let mut cells: Vec<_> = (0..3).map(|_| place.launcher.launch(&Limits::default()).unwrap()).collect();
    let processes: Vec<String> =
        cells.iter().flat_map(|cell| cell.processes()).map(|p| p.to_string()).collect();
    // Before a worker is its own program, its parent's end reaches it by way of bubblewrap alone, which is still
    // setting it up.
    for inner in cells.iter().map(|cell| cell.processes()[1]) {
        let name = || std::fs::read_to_string(format!("/proc/{inner}/comm")).unwrap_or_default();
        while name().starts_with("bwrap") {
            std::thread::yield_now();
        }
    }
    let pipes: Vec<_> = cells.iter_mut().map(|cell| cell.take_pipes().unwrap()).collect();
    #[expect(clippy::print_stdout, reason = "it is read by the test that started this")]
    {
        println!("cells: {}", processes.join(" "));
    }
    // They wait for a packet that never comes, as this one does.
    let mut one = [0];
    std::fs::File::from(pipes.into_iter().next().unwrap().1).read_exact(&mut one).unwrap_err();
}

#[test]
fn the_same_holds_for_a_user_who_owns_nothing() {
    let base = tempfile::Builder::new().prefix("ts").tempdir().unwrap();
    let test = base.path().join("it");
    let copy = |from: &Path, to: &Path| {
        std::fs::copy(from, to).unwrap();
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    copy(&std::env::current_exe().unwrap(), &test);
    for name in ["probe", "thought-worker"] {
        copy(&built(name), &base.path().join(name));
    }
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        chown(base.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for name in [
        "cells::nothing_can_be_reached_from_inside",
        "cells::the_worker_asks_once_and_gives_back_the_final_parts",
        "cells::the_worker_captures_calls_and_asks_nothing_more",
        "cells::every_misdeed_is_one_classified_fault",
        "cells::a_parent_that_is_killed_takes_its_cells_with_it",
    ] {
        let mut command = Command::new(&test);
        command.args(["--exact", name]).env_clear().env("PATH", "/usr/bin:/bin").env(COPIES, base.path());
        command.env("TMPDIR", base.path()).current_dir(base.path()).stdin(Stdio::null());
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{name}:\n{said}");
    }
}
