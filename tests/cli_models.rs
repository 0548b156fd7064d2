//! Model runs through the real program: one request each, from a sealed context, under a budget, whatever fails.

mod full_disk;
mod kills;

use std::collections::BTreeMap;

use serde_json::Value;
use thoughtstream_channels::rehearsal::{
    Answer as Reply, Cut, CutAt, CutHow, Drip, Manner, Rehearsal, Rule, Says, Script, ToolCall, Usage,
};
use tokio::runtime::Runtime;

use crate::cli_world::World;

pub(crate) const GOOD: &str =
    r#"{"summary":"The bed is dry","tags":["garden"],"importance":"normal","confidence":0.75}"#;

/// A word of a model that must not be found in the log.
const UNHEARD: &str = "xylophone";

/// A world with an observer of notes, and a provider that does what a script says.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) rehearsal: Rehearsal,
    pub(crate) runtime: Runtime,
}

/// What a test changes in the observer's declaration.
#[derive(Default)]
pub(crate) struct Terms<'a> {
    pub(crate) limits: Option<&'a str>,
    pub(crate) exhausted: Option<&'a str>,
    pub(crate) more: &'a str,
    pub(crate) stream: bool,
    pub(crate) enforces: bool,
    pub(crate) timeout: Option<&'a str>,
    pub(crate) beside: &'a str,
}

impl Stage {
    pub(crate) fn new(script: Script, terms: &Terms<'_>) -> Self {
        let runtime = Runtime::new().unwrap();
        let rehearsal = runtime.block_on(Rehearsal::start(script)).unwrap();
        let world = World::with_config();
        std::fs::remove_dir_all(&world.data).unwrap();
        world.thought(&["rehearsal", "create"]).expect(0);
        let config = format!(
            "sources: []\nproviders:\n  - name: local\n    endpoint: {}\n    models: [small]\n    enforces: {}\n",
            rehearsal.provider_url,
            if terms.enforces { "[json-object, json-schema]" } else { "[]" },
        );
        std::fs::write(world.config.join("config.yaml"), config).unwrap();
        for name in std::fs::read_dir(world.config.join("declarations")).unwrap() {
            std::fs::remove_file(name.unwrap().path()).unwrap();
        }
        let observer = format!(
            "id: observer\nversion: 1\nenabled: true\ndescription: Observes notes.\n\
             subscribe:\n  types: [stream.thought.source.note]\n  sources: [notes:test]\n  replay: beginning\n\
             context: {{ maxEvents: 2, maxChars: 24000{beside} }}\n\
             runner: {{ kind: pi, provider: local, model: small, timeout: {timeout}, stream: {stream} }}\n\
             prompt: prompts/observer.md\n\
             emit: [stream.thought.derived.message.observation]\n\
             accounting:\n  reserve: {{ inputTokens: 1000, outputTokens: 100 }}\n  lease: 5m\n  limits: {limits}\n  \
             onExhaustion: {exhausted}\n{more}",
            stream = terms.stream,
            beside = terms.beside,
            timeout = terms.timeout.unwrap_or("30s"),
            limits = terms.limits.unwrap_or("[{ window: day, calls: 1000 }]"),
            exhausted = terms.exhausted.unwrap_or("defer"),
            more = terms.more,
        );
        std::fs::write(world.config.join("declarations/observer.yaml"), observer).unwrap();
        std::fs::write(world.config.join("prompts/repair.md"), "Write it anew.\n").unwrap();
        std::fs::write(world.config.join("prompts/observer.md"), "Say what you see.\n").unwrap();
        Self { world, rehearsal, runtime }
    }

    pub(crate) fn requests(&self) -> usize {
        self.rehearsal.provider_requests().len()
    }

    /// Returns the observer's attempts, oldest first.
    pub(crate) fn runs(&self) -> Vec<Value> {
        let mut runs =
            self.world.thought(&["run", "list", "--consumer", "observer", "--json"]).expect(0).lines();
        runs.reverse();
        runs
    }

    /// Waits until the attempts are in these states, oldest first.
    pub(crate) fn until(&self, states: &[&str]) -> Vec<Value> {
        let found = |runs: &[Value]| -> Vec<String> {
            runs.iter().map(|run| run["state"].as_str().unwrap_or_default().to_owned()).collect()
        };
        self.world.until(&["run", "list", "--consumer", "observer", "--json"], |answer| {
            let mut runs = answer.lines();
            runs.reverse();
            found(&runs) == states
        });
        self.runs()
    }

    /// Returns how many events of each type the observer wrote.
    fn events(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        let list = ["event", "list", "--source", "agent:observer", "--limit", "1000", "--json"];
        let events = self.world.thought(&list).expect(0);
        for event in events.lines() {
            *counts.entry(event["type"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Holds the account against what the provider has counted.
    fn is_charged_for_every_request(&self) {
        let account = self.world.thought(&["account", "show", "observer", "--json"]).expect(0).json();
        let charged = account["ever"]["charged"]["calls"].as_u64().unwrap();
        assert!(charged >= self.requests() as u64, "{} requests: {account}", self.requests());
    }

    /// Returns the first event that ended an attempt.
    fn ended(&self) -> Value {
        let events = self.world.thought(&["event", "list", "--source", "agent:observer", "--json"]).expect(0);
        let ends = ["completed", "failed", "status-unknown", "abandoned"];
        let is_end =
            |event: &Value| ends.iter().any(|end| event["type"] == format!("stream.thought.run.{end}"));
        let event = events.lines().into_iter().find(is_end).unwrap();
        self.world.thought(&["event", "show", event["id"].as_str().unwrap(), "--json"]).expect(0).json()
    }

    /// The check that an operator runs.
    pub(crate) fn verify(&self) {
        self.world.thought(&["verify"]).expect(0);
    }
}

fn json(text: &str) -> Reply {
    Reply::text(text)
}

#[test]
fn a_note_becomes_an_observation_by_one_request() {
    for stream in [false, true] {
        let stage = Stage::new(Script::answering(json(GOOD)), &Terms { stream, ..Terms::default() });
        let service = stage.world.serve(&[]);
        stage.world.append("one", "The bed is dry again").expect(0);
        let runs = stage.until(&["completed"]);
        assert_eq!(stage.requests(), 1);
        let events = stage.events();
        assert_eq!(events["stream.thought.derived.message.observation"], 1, "{events:?}");
        assert_eq!(events["stream.thought.run.traced"], 1);
        let run = runs[0]["run"].as_str().or(runs[0]["id"].as_str()).unwrap();
        let context = stage.world.thought(&["context", "show", run, "--content"]).expect(0);
        assert!(
            context.stdout.contains("The bed is dry again")
                && context.stdout.contains("nothing was left out")
        );
        // The events of the run and the sealed context name one runner.
        for kind in ["received", "started", "completed", "traced"] {
            let stamp = stage.payloads(&format!("stream.thought.run.{kind}")).remove(0)["stamp"].clone();
            assert_eq!(stamp["executionAdapterRevision"], "observer-v1+cell-v2", "{kind}");
        }
        assert!(context.stdout.contains("run by observer-v1+cell-v2"), "{}", context.stdout);
        // What went out is what is frozen, and nothing besides.
        let sent = stage.rehearsal.provider_requests()[0].json();
        let members: Vec<&String> = sent.as_object().unwrap().keys().collect();
        let allowed = ["model", "messages", "max_tokens", "stream", "stream_options", "n"];
        assert!(members.iter().all(|member| allowed.contains(&member.as_str())), "{members:?}");
        assert_eq!(service.stop(), 0);
        stage.verify();
    }
}

#[test]
fn a_format_is_sent_to_whom_claims_to_enforce_it_and_to_nobody_else() {
    for enforces in [false, true] {
        let terms = Terms { enforces, ..Terms::default() };
        let stage = Stage::new(Script::answering(json(GOOD)), &terms);
        let service = stage.world.serve(&[]);
        stage.world.append("one", "text").expect(0);
        // At the first attempt: what is frozen in memory is what the worker asks for and what a retry reads.
        stage.until(&["completed"]);
        let sent = stage.rehearsal.provider_requests()[0].json();
        assert_eq!(sent.get("response_format").is_some(), enforces, "{sent}");
        assert_eq!(service.stop(), 0);
    }
}

#[test]
fn what_breaks_its_contract_is_refused_classified_and_kept_nowhere() {
    let fenced = format!("```json\n{{\"summary\":\"{UNHEARD}\"}}\n```");
    let stage = Stage::new(Script::answering(json(&fenced)), &Terms::default());
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    let runs = stage.until(&["failed"]);
    assert_eq!(runs[0]["code"], "output.json");
    let events = stage.events();
    assert_eq!(events["stream.thought.output.rejected"], 1, "{events:?}");
    assert_eq!(events["stream.thought.repair.requested"], 1);
    assert!(!events.contains_key("stream.thought.derived.message.observation"));
    // A final failure advances: the next note is asked about.
    stage.rehearsal.add_rule(Rule::new("good", json(GOOD)));
    stage.world.append("two", "text").expect(0);
    stage.until(&["failed", "completed"]);
    assert_eq!(stage.requests(), 2);
    assert_eq!(service.stop(), 0);
    stage.verify();
    for file in std::fs::read_dir(&stage.world.data).unwrap() {
        let path = file.unwrap().path();
        let found = std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(UNHEARD.len()).any(|window| window == UNHEARD.as_bytes()));
        assert!(!found, "{} keeps what was refused", path.display());
    }
}

#[test]
fn an_observer_that_asks_for_it_is_shown_what_came_before() {
    let terms = Terms { beside: ", neighbors: 1", ..Terms::default() };
    let stage = Stage::new(Script::answering(json(GOOD)), &terms);
    let service = stage.world.serve(&[]);
    for (key, text) in [("one", "first of all"), ("two", "and then"), ("three", "at last")] {
        stage.world.append(key, text).expect(0);
    }
    let runs = stage.until(&["completed", "completed", "completed"]);
    let shown: Vec<Value> = stage
        .rehearsal
        .provider_requests()
        .iter()
        .map(|request| {
            let content = request.json()["messages"][1]["content"].as_str().unwrap().to_owned();
            serde_json::from_str(&content).unwrap()
        })
        .collect();
    assert!(shown[0].get("neighbors").is_none(), "{}", shown[0]);
    assert_eq!(shown[2]["events"][0]["payload"]["text"], "at last");
    let neighbors = shown[2]["neighbors"].as_array().unwrap();
    assert_eq!((neighbors.len(), &neighbors[0]["payload"]["text"]), (1, &"and then".into()));
    let context = ["context", "show", runs[2]["run"].as_str().unwrap(), "--json"];
    let included = stage.world.thought(&context).expect(0).json()["manifest"]["included"].to_string();
    assert!(included.contains("neighbor") && included.contains(neighbors[0]["id"].as_str().unwrap()));
    assert_eq!(service.stop(), 0);
    stage.verify();
}

const REPAIR: &str = "id: repair\nversion: 1\nenabled: true\ndescription: Repairs.\n\
subscribe: { types: [stream.thought.repair.requested], sources: [agent:observer], replay: beginning }\n\
context: { maxEvents: 1, maxChars: 24000 }\nrunner: { kind: pi, provider: local, model: small }\n\
prompt: prompts/repair.md\nrole: repair\nemit: [stream.thought.repair.proposed]\n\
accounting:\n  reserve: { inputTokens: 1000, outputTokens: 100 }\n  lease: 5m\n  limits: [{ window: day, calls: 10 }]\n";

#[test]
fn a_repair_is_one_more_generation_from_the_same_context_and_inert() {
    for (answer, state) in [(GOOD, "completed"), ("still no JSON", "failed")] {
        let first = thoughtstream_channels::rehearsal::When { nth: Some(1), ..Default::default() };
        let bad = Rule { when: first, ..Rule::new("bad", json(&format!("Sure: {UNHEARD}"))) };
        let stage = Stage::new(Script::answering(json(answer)).with_rule(bad), &Terms::default());
        std::fs::write(stage.world.config.join("declarations/repair.yaml"), REPAIR).unwrap();
        let service = stage.world.serve(&[]);
        stage.world.append("one", "the oven is hot").expect(0);
        let runs = ["run", "list", "--consumer", "repair", "--json"];
        stage.world.until(&runs, |answer| answer.lines().first().is_some_and(|run| run["state"] == state));
        stage.world.until_idle();
        // One generation for one request, whatever comes of it; nobody repairs a repair.
        assert_eq!(stage.requests(), 2);
        let sent = stage.rehearsal.provider_requests()[1].json();
        let shown = sent["messages"][1]["content"].to_string();
        assert!(shown.contains("the oven is hot") && shown.contains("output.json"), "{shown}");
        assert!(!shown.contains(UNHEARD));
        let own = stage.world.thought(&["event", "list", "--source", "agent:repair", "--json"]).expect(0);
        let proposed = own.lines().iter().filter(|e| e["type"] == "stream.thought.repair.proposed").count();
        assert_eq!(proposed, usize::from(state == "completed"));
        assert_eq!(service.stop(), 0);
        stage.verify();
    }
}

#[test]
fn an_interrupted_repair_is_given_up_also_when_a_newer_version_takes_over() {
    for newer in [false, true] {
        let hold = Manner { hold: Some("gate".to_owned()), ..Manner::default() };
        let first = thoughtstream_channels::rehearsal::When { nth: Some(1), ..Default::default() };
        let bad = Rule { when: first, ..Rule::new("bad", json("no JSON")) };
        let script = Script::answering(json(GOOD).in_manner(hold)).with_rule(bad);
        let stage = Stage::new(script, &Terms::default());
        let declared = stage.world.config.join("declarations/repair.yaml");
        std::fs::write(&declared, REPAIR).unwrap();
        let service = stage.world.serve(&[]);
        stage.world.append("one", "text").expect(0);
        stage.runtime.block_on(stage.rehearsal.until_held("gate", 1));
        service.kill();
        if newer {
            std::fs::write(&declared, REPAIR.replace("version: 1", "version: 2")).unwrap();
        }
        let service = stage.world.serve(&[]);
        stage.rehearsal.release("gate");
        stage.world.until_idle();
        let runs = stage.world.thought(&["run", "list", "--consumer", "repair", "--json"]).expect(0);
        let states: Vec<Value> = runs.lines().iter().map(|run| run["state"].clone()).collect();
        assert_eq!(states, ["abandoned"], "one request authorizes one generation");
        assert_eq!(stage.requests(), 2);
        assert_eq!(service.stop(), 0);
        stage.verify();
    }
}

#[test]
fn a_run_that_does_not_fit_the_budget_is_blocked_and_nothing_is_sent() {
    for (exhausted, state) in [("defer", "waiting"), ("advance", "closed")] {
        let terms = Terms {
            limits: Some("[{ window: day, calls: 1 }]"),
            exhausted: Some(exhausted),
            ..Terms::default()
        };
        let stage = Stage::new(Script::answering(json(GOOD)), &terms);
        let service = stage.world.serve(&[]);
        stage.world.append("one", "text").expect(0);
        stage.world.append("two", "text").expect(0);
        stage.until(&["completed", "blocked"]);
        assert_eq!(stage.requests(), 1, "{state}");
        let events = stage.events();
        assert_eq!(events["stream.thought.run.blocked"], 1);
        assert_eq!(events["stream.thought.run.received"], 2);
        assert_eq!(events["stream.thought.run.started"], 1);
        if exhausted == "defer" {
            says_that_it_waits_for_its_budget(&stage);
        }
        assert_eq!(service.stop(), 0);
        stage.verify();
    }
}

fn says_that_it_waits_for_its_budget(stage: &Stage) {
    let thought = |arguments: &[&str]| stage.world.thought(arguments).expect(0);
    let stuck = thought(&["consumer", "list", "--state", "stuck", "--json"]).json();
    assert_eq!((&stuck["consumer"], &stuck["state"]), (&"observer@1".into(), &"awaiting-budget".into()));
    assert_eq!(stuck["command"], "thought account show observer");
    assert!(stuck["next"].is_string(), "{stuck}");
    assert!(thought(&["status"]).stdout.contains("awaiting-budget"));
    let runs = thought(&["run", "list", "--json"]).lines();
    let blocked = runs.iter().find(|run| run["state"] == "blocked").unwrap();
    let execution = blocked["execution"].as_str().unwrap().to_owned();
    for id in ["observer", execution.as_str()] {
        let why = thought(&["why", id, "--json"]).json();
        assert_eq!((&why["state"], &why["next"]), (&"awaiting-budget".into(), &stuck["next"]), "{why}");
        assert_eq!(why["commands"][0], "thought account show observer");
        assert!(!why.to_string().contains("consumer retry"), "a retry would be blocked as well: {why}");
    }
}

#[test]
fn a_run_that_waits_for_its_budget_is_asked_with_what_it_would_have_been_asked_with() {
    let terms = Terms { limits: Some("[{ window: rolling, length: 5s, calls: 1 }]"), ..Terms::default() };
    let stage = Stage::new(Script::answering(json(GOOD)), &terms);
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    stage.world.append("two", "more text").expect(0);
    let runs = stage.until(&["completed", "blocked", "completed"]);
    let context = |run: &Value| {
        let shown =
            stage.world.thought(&["context", "show", run["run"].as_str().unwrap(), "--json"]).expect(0);
        shown.json()
    };
    let (blocked, completed) = (context(&runs[1]), context(&runs[2]));
    assert!(blocked["sha256"].is_string(), "{blocked}");
    assert_eq!(blocked["sha256"], completed["sha256"]);
    assert_eq!(stage.requests(), 2);
    assert_eq!(service.stop(), 0);
    stage.verify();
}

/// An answer with which no run can end well: the state and code of the attempt, and how it is charged.
struct Bad {
    reply: Reply,
    state: &'static str,
    code: &'static str,
    charge: &'static str,
    /// Whether another attempt may do better, which is made then.
    again: bool,
}

impl Bad {
    /// The provider's fault: asked again under a reservation of its own.
    fn passing(reply: Reply, state: &'static str, code: &'static str) -> Self {
        Self { reply, state, code, charge: "estimated", again: true }
    }

    /// The model's own words, which the same context would earn again.
    fn said(text: &str, code: &'static str) -> Self {
        Self { reply: json(text), state: "failed", code, charge: "reported", again: false }
    }
}

/// Checks that each failure is one attempt with one request and a reservation of its own.
fn fails(bads: impl IntoIterator<Item = Bad>) {
    for bad in bads {
        let stage = Stage::new(
            Script::answering(json(GOOD)).with_rule(Rule {
                when: thoughtstream_channels::rehearsal::When { nth: Some(1), ..Default::default() },
                ..Rule::new("bad", bad.reply)
            }),
            &Terms {
                more: "retry: { attempts: 3, first: 1ms, max: 1ms }\n",
                timeout: Some("3s"),
                ..Terms::default()
            },
        );
        let service = stage.world.serve(&[]);
        stage.world.append("one", "text").expect(0);
        let states = if bad.again { vec![bad.state, "completed"] } else { vec![bad.state] };
        let runs = stage.until(&states);
        assert_eq!(runs[0]["code"], bad.code);
        assert_eq!(stage.requests(), states.len(), "{}", bad.code);
        assert_eq!(stage.events()["stream.thought.run.started"], states.len());
        let ended = stage.ended();
        assert_eq!(ended["payload"]["charge"]["status"], bad.charge, "{}: {ended}", bad.code);
        // Whoever asks is told the code, of the attempt and of the note.
        let execution = runs[0]["execution"].as_str().unwrap();
        let why = stage.world.thought(&["why", execution, "--json"]).expect(0).json();
        assert!(bad.again || why["fact"].as_str().unwrap().contains(bad.code), "{why}");
        assert_eq!(service.stop(), 0);
        stage.verify();
    }
}

#[test]
fn an_answer_that_is_none_is_one_attempt_with_one_request_and_a_reservation_of_its_own() {
    let other = r#"{"id":"x","object":"chat.completion","created":1,"model":"large","choices":[{"index":0,"message":{"role":"assistant","content":"{}"},"finish_reason":"stop"}]}"#;
    let unasked = Says::Tools { text: None, calls: vec![ToolCall::new("open", "{}")] };
    fails([
        Bad::passing(Reply::body(500, "no"), "failed", "provider-unavailable"),
        Bad::passing(Reply::body(200, "garbage"), "failed", "answer-malformed"),
        Bad::passing(Reply::body(200, &b"\xff\xfe"[..]), "failed", "answer-not-utf8"),
        Bad::passing(Reply::of(Says::Fill(100_000_000)), "failed", "answer-too-large"),
        Bad::passing(Reply::body(200, other), "failed", "answer-model-mismatch"),
        Bad { charge: "reported", ..Bad::passing(Reply::of(unasked), "failed", "answer-tools-not-offered") },
    ]);
}

#[test]
fn an_answer_that_is_lost_is_one_attempt_with_one_request_and_a_reservation_of_its_own() {
    let cut = |at, how| Manner { cut: Some(Cut { at, how }), ..Manner::default() };
    let drip = Manner { drip: Some(Drip { bytes: 1, every_ms: 100 }), ..Manner::default() };
    fails([
        Bad::passing(
            json(GOOD).in_manner(cut(CutAt::Body(20), CutHow::Reset)),
            "status-unknown",
            "connection-lost",
        ),
        Bad::passing(
            json(GOOD).in_manner(cut(CutAt::Request, CutHow::Reset)),
            "status-unknown",
            "connection-lost",
        ),
        Bad::passing(json(GOOD).in_manner(drip), "status-unknown", "deadline-passed"),
    ]);
}

#[test]
fn words_that_break_the_contract_are_one_attempt_with_one_request_and_a_reservation_of_its_own() {
    fails([
        Bad::said(&format!("{GOOD} {GOOD}"), "output.json"),
        Bad::said(&format!("Here it is: {GOOD}"), "output.json"),
        Bad::said(&format!("```json\n{GOOD}\n```"), "output.json"),
        // Nothing said is not nothing used.
        Bad { charge: "partial", ..Bad::said("", "output.parts") },
    ]);
}

#[test]
fn a_provider_that_is_not_there_is_asked_nothing() {
    let terms = Terms { more: "retry: { attempts: 1, exhausted: hold }\n", ..Terms::default() };
    let stage = Stage::new(Script::answering(json(GOOD)), &terms);
    let config = stage.world.config.join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    // A port of which it is certain that nobody listens there any more.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let there = stage.rehearsal.provider_url.trim_start_matches("http://").split('/').next().unwrap();
    std::fs::write(config, text.replace(there, &free.to_string())).unwrap();
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    let runs = stage.until(&["failed"]);
    assert_eq!((&runs[0]["code"], stage.requests()), (&"connect-failed".into(), 0));
    assert_eq!(service.stop(), 0);
    stage.verify();
}

#[test]
fn missing_usage_is_charged_as_estimated() {
    let stage = Stage::new(Script::answering(json(GOOD).with_usage(Usage::Missing)), &Terms::default());
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    stage.until(&["completed"]);
    let ended = stage.ended();
    let charge = &ended["payload"]["charge"];
    assert_eq!(charge["status"], "estimated", "{charge}");
    assert_eq!(charge["amounts"]["inputTokens"], 1000);
    assert_eq!(service.stop(), 0);
}

#[test]
fn an_answer_that_does_not_come_in_time_is_lost_and_what_follows_is_declared() {
    let hold = Manner { hold: Some("gate".to_owned()), ..Manner::default() };
    let terms = Terms {
        timeout: Some("1s"),
        more: "interrupted: { record: status-unknown, then: hold }\n",
        ..Terms::default()
    };
    let stage = Stage::new(Script::answering(json(GOOD).in_manner(hold)), &terms);
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    let runs = stage.until(&["status-unknown"]);
    assert_eq!(runs[0]["code"], "deadline-passed");
    assert_eq!(stage.requests(), 1, "it is not asked again before a person says so");
    let events = stage.world.thought(&["event", "list", "--source", "agent:observer", "--json"]).expect(0);
    let of_type = |kind: &str| {
        let event = events.lines().into_iter().find(|event| event["type"] == kind).unwrap();
        stage.world.thought(&["event", "show", event["id"].as_str().unwrap(), "--json"]).expect(0).json()
    };
    let ended = of_type("stream.thought.run.status-unknown");
    assert_eq!(ended["payload"]["charge"]["status"], "estimated", "{ended}");
    assert_eq!(ended["payload"]["charge"]["amounts"]["inputTokens"], 1000);
    assert_eq!(of_type("stream.thought.run.traced")["payload"]["providerRequests"], 1);
    let inbox = stage.world.thought(&["inbox", "--json"]).expect(0);
    assert!(inbox.stdout.contains("deadline-passed"), "{}", inbox.stdout);
    stage.rehearsal.release("gate");
    assert_eq!(service.stop(), 0);
    stage.verify();
}
