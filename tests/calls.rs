//! Calls of tools on their whole way: the real client, broker, sandbox and worker, and a provider that counts.
//!
//! However a model calls, right or wrong, whole or in pieces, it is asked once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use thoughtstream_actors::broker::Brokers;
use thoughtstream_actors::cell::{CellPlace, run_cell};
use thoughtstream_actors::killpoint::KillPoints;
use thoughtstream_actors::supervisor::{ChildName, Env, NoNotices, Root, Strategy, SupervisorSpec, launch};
use thoughtstream_channels::credential::Credentials;
use thoughtstream_channels::provider::Wire;
use thoughtstream_channels::rehearsal::{Answer as Scripted, CallId, Rehearsal, Says, Script, ToolCall};
use thoughtstream_domain::cell::capture::Capture;
use thoughtstream_domain::cell::{Answer, CellResult, Outcome, Packet, Request};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::id::{EventId, RunId};
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::call::CallCode;
use thoughtstream_domain::proposal::capability::WorkerCapability;
use thoughtstream_domain::proposal::tool::tool;
use thoughtstream_domain::provider::{
    Endpoint, Message, ModelRequest, Profile, ProfileName, ResponseFormat, Role, ThinkingLevel,
};
use thoughtstream_effects::sandbox::{Launcher, Limits};
use tokio::time::Instant;

/// Ends a run that never ends by itself; nothing is asserted about how long it took.
const PATIENCE: Duration = Duration::from_secs(60);

/// What must be found in no trace.
const SECRET: &str = "Lisbon";

/// A provider that plays a script, and everything that asks it.
struct Bench {
    provider: Rehearsal,
    brokers: Brokers,
    launcher: Launcher,
    _base: tempfile::TempDir,
    root: Root,
}

fn profile(url: &str) -> Profile {
    let endpoint = Endpoint::parse(url).unwrap();
    let mut profile =
        Profile::new(ProfileName::parse("local").unwrap(), endpoint, ["small".to_owned()].into());
    profile.tool_models = profile.models.clone();
    profile
}

impl Bench {
    async fn playing(answer: Scripted) -> Self {
        let provider = Rehearsal::start(Script::answering(answer)).await.unwrap();
        let base = tempfile::Builder::new().prefix("ts").tempdir().unwrap();
        let credentials = Credentials::new(None, base.path().to_owned());
        let brokers = Brokers::new([profile(&provider.provider_url)], credentials);
        let name = ChildName::parse(&format!("calls-{}", provider.address().port())).unwrap();
        let tree = SupervisorSpec::new(name, Strategy::OneForOne)
            .nested(brokers.pool(&KillPoints::for_rehearsal()).unwrap());
        let root = launch(tree, Env::new(1, Arc::new(NoNotices))).await.unwrap();
        root.handle().wait_started().await;
        let worker = env!("CARGO_BIN_EXE_thought-worker").into();
        let place = CellPlace { worker, path: std::env::var_os("PATH"), below: base.path().to_owned() };
        let launcher = place.open().unwrap_or_else(|why| panic!("{why}"));
        Self { provider, brokers, launcher, _base: base, root }
    }

    /// Runs once; returns the result, and what the broker may have kept about it as text.
    async fn run(&self, request: ModelRequest, admitted: Option<WorkerCapability>) -> (CellResult, String) {
        let (run, deadline) = (RunId::from_bytes([1; 20]), Instant::now() + PATIENCE);
        let broker = self.brokers.get(&ProfileName::parse("local").unwrap()).unwrap();
        let asked = Request::parse(String::from_utf8(request.canonical().unwrap()).unwrap()).unwrap();
        let capability = broker.capability(Wire::of(run), Arc::new(request), deadline);
        let kept = Arc::new(Mutex::new(String::new()));
        let keep = Arc::clone(&kept);
        let ask = async move |asked: Request| {
            let reply = capability.spend(asked.as_json().as_bytes()).await;
            *keep.lock().unwrap() = match &reply {
                Ok(reply) => serde_json::to_string(&reply.trace).unwrap(),
                Err(error) => serde_json::to_string(&error.trace).unwrap() + &format!("{error:?}"),
            };
            match reply {
                Ok(reply) => Outcome::Answered(Answer::from(&reply.answer)),
                Err(error) => Outcome::Refused(error.code.into()),
            }
        };
        let packet = Packet::new(run, asked).with_proposals(admitted);
        let result = run_cell(&self.launcher, packet, Limits::default(), deadline, ask).await;
        let kept = kept.lock().unwrap().clone();
        (result.unwrap_or_else(|fault| panic!("{fault:?}")), kept)
    }

    /// Says that exactly one request came, and ends.
    async fn asked_once(self, name: &str) {
        assert_eq!(self.provider.counters().provider.requests, 1, "{name}");
        self.root.stop();
        self.root.wait().await;
    }
}

fn request(kinds: &[Kind], stream: bool) -> ModelRequest {
    ModelRequest {
        model: "small".to_owned(),
        messages: vec![Message::text(Role::User, "Remember that I moved.")],
        max_output_tokens: 300,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        tools: kinds.iter().map(|kind| tool(*kind)).collect(),
        stream,
    }
}

fn admitted(kinds: &[Kind]) -> WorkerCapability {
    let evidence = [EventId::from_bytes([2; 32])].into();
    WorkerCapability { kinds: kinds.iter().copied().collect(), targets: Vec::new(), evidence }
}

fn memory(evidence: &[EventId]) -> ToolCall {
    let arguments = json!({ "operation": "append", "proposed_text": format!("Lives in {SECRET}."),
        "reason": "Asked to.", "evidence_event_ids": evidence });
    ToolCall::new(Kind::MemoryChange.tool(), &arguments.to_string())
}

fn calling(calls: Vec<ToolCall>) -> Scripted {
    Scripted::of(Says::Tools { text: None, calls })
}

#[tokio::test]
async fn a_call_is_captured_and_its_provider_is_asked_once() {
    let kinds = [Kind::MemoryChange];
    for stream in [false, true] {
        for text in [None, Some(Content::new("Noted.".to_owned()))] {
            let calls = vec![memory(&[EventId::from_bytes([2; 32])])];
            let bench = Bench::playing(Scripted::of(Says::Tools { text, calls })).await;
            let (result, kept) = bench.run(request(&kinds, stream), Some(admitted(&kinds))).await;
            let Capture::Captured(calls) = result.calls else { panic!("{:?}", result.calls) };
            assert_eq!((calls.len(), calls[0].kind), (1, Kind::MemoryChange));
            assert!(kept.contains("provider.answered") && !kept.contains(SECRET), "{kept}");
            let asked = bench.provider.provider_requests()[0].json();
            let expected = serde_json::to_value(tool(Kind::MemoryChange).parameters).unwrap();
            assert_eq!(asked["tools"][0]["function"]["parameters"], expected);
            assert_eq!(asked["tool_choice"], "auto");
            bench.asked_once("a call").await;
        }
    }
}

#[tokio::test]
async fn calls_that_are_wrong_are_refused_and_their_provider_is_asked_once() {
    let kinds = [Kind::MemoryChange];
    let good = || memory(&[]);
    let raw = |arguments: &str| ToolCall::new(Kind::MemoryChange.tool(), arguments);
    let large = format!("\"{}\"", "x".repeat(300_000));
    let cases = [
        ("a stranger's event", vec![memory(&[EventId::from_bytes([9; 32])])], CallCode::NotAdmitted),
        ("twice", vec![good(), good()], CallCode::SameKindTwice),
        ("too many", vec![good(), good(), good(), good()], CallCode::TooManyCalls),
        ("not JSON", vec![raw("remember it")], CallCode::NotJson),
        ("another member", vec![raw(r#"{"path":"/etc/passwd"}"#)], CallCode::UnknownMember),
        ("too large", vec![raw(&large)], CallCode::TooLarge),
    ];
    for (name, calls, code) in cases {
        for stream in [false, true] {
            let bench = Bench::playing(Scripted { piece: Some(4_096), ..calling(calls.clone()) }).await;
            let (result, kept) = bench.run(request(&kinds, stream), Some(admitted(&kinds))).await;
            let Capture::Refused(refused) = result.calls else { panic!("{name}: captured") };
            assert_eq!(refused.code, code, "{name}");
            assert!(!kept.contains(SECRET), "{kept}");
            bench.asked_once(name).await;
        }
    }
}

#[tokio::test]
async fn what_the_broker_cannot_use_never_reaches_the_worker() {
    let kinds = [Kind::MemoryChange];
    let given = |id: CallId| ToolCall { id, ..memory(&[]) };
    let same = || given(CallId::Given("same".to_owned()));
    let cases = [
        (
            "a tool that is not offered",
            vec![ToolCall::new(Kind::SelfCorrection.tool(), "{}")],
            "answer-tools-not-offered",
        ),
        ("no id", vec![given(CallId::Missing)], "answer-malformed"),
        ("an id twice", vec![same(), same()], "answer-malformed"),
    ];
    for (name, calls, code) in cases {
        for stream in [false, true] {
            let bench = Bench::playing(calling(calls.clone())).await;
            let (result, kept) = bench.run(request(&kinds, stream), Some(admitted(&kinds))).await;
            assert!(matches!(&result.outcome, Outcome::Refused(said) if said.as_str() == code), "{name}");
            assert!(result.calls.count() == 0 && !kept.contains(SECRET), "{name}: {kept}");
            bench.asked_once(name).await;
        }
    }
}
