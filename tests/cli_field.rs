//! What went wrong for people who run agents with other tools, tried on this one. Each name is the case's.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use thoughtstream_channels::rehearsal::{Answer as Reply, Manner, Rule, Script, When};

use crate::cli_models::{GOOD, Stage, Terms};
use crate::cli_remembering;
use crate::cli_turns::Chat;
use crate::cli_world::{Answer, World};

/// Returns a reply that waits at the gate.
fn held() -> Reply {
    Reply::text(GOOD).in_manner(Manner { hold: Some("gate".to_owned()), ..Manner::default() })
}

/// Returns what becomes of attempts in an agent's source, in its order.
fn told(world: &World, agent: &str) -> Vec<String> {
    let source = format!("agent:{agent}");
    let list = ["event", "list", "--source", &source, "--limit", "1000", "--json"];
    let mut events = world.thought(&list).expect(0).lines();
    events.sort_by_key(|event| event["sequence"].as_u64());
    let kinds = events.iter().filter_map(|event| event["type"].as_str()?.strip_prefix("stream.thought.run."));
    kinds.filter(|kind| *kind != "traced" && *kind != "received").map(str::to_owned).collect()
}

#[test]
fn hand_01_what_reads_the_backlog_again_takes_no_run_that_is_alive() {
    let terms = Terms { more: "retry: { attempts: 5, first: 20ms, max: 200ms }\n", ..Terms::default() };
    for restarts in [false, true] {
        let first = When { nth: Some(1), ..When::default() };
        let rule = Rule { when: first, ..Rule::new("held", held()) };
        let stage = Stage::new(Script::answering(Reply::text(GOOD)).with_rule(rule), &terms);
        let service = stage.world.serve(&[]);
        stage.world.append("one", "text").expect(0);
        stage.runtime.block_on(stage.rehearsal.until_held("gate", 1));
        stage.world.thought(&["reload"]).expect(0);
        if restarts {
            stage.world.thought(&["consumer", "restart", "observer"]).expect(0);
        }
        stage.rehearsal.release("gate");
        stage.world.until_idle();
        let told = told(&stage.world, "observer");
        // A restart that a person asks for waits for what is under way; one that nobody asked for is tested elsewhere.
        assert_eq!(told, ["started", "completed"]);
        assert_eq!(stage.requests(), 1);
        assert_eq!(service.stop(), 0);
        stage.verify();
    }
}

#[test]
fn hand_04_an_attempt_that_hangs_keeps_no_later_message_waiting() {
    let first = When { nth: Some(1), ..When::default() };
    let rule = Rule { when: first, ..Rule::new("held", held()) };
    let chat = Chat::new(Script::answering(Reply::text("heard")).with_rule(rule));
    let file = chat.world.config.join("declarations/talk.yaml");
    let declared = std::fs::read_to_string(&file).unwrap();
    let brief = declared.replace("timeout: 60s", "timeout: 2s").replace("then: hold", "then: advance");
    assert_ne!(brief, declared);
    std::fs::write(&file, brief).unwrap();
    let service = chat.world.serve(&[]);
    chat.rehearsal.say(7, 7, "first words");
    chat.runtime.block_on(chat.rehearsal.until_held("gate", 1));
    chat.rehearsal.say(7, 7, "second words");
    chat.delivered("delivered", 1);
    assert_eq!(told(&chat.world, "talk"), ["started", "status-unknown", "started", "completed"]);
    let account = chat.world.thought(&["account", "show", "talk", "--json"]).expect(0).json();
    assert_eq!(account["ever"]["charged"]["calls"], 2, "{account}");
    let open = chat.world.thought(&["run", "list", "--state", "started", "--json"]).expect(0);
    assert!(open.stdout.is_empty(), "{}", open.stdout);
    chat.rehearsal.release("gate");
    assert_eq!(service.stop(), 0);
    chat.world.thought(&["verify"]).expect(0);
}

#[test]
fn hand_08_what_has_failed_for_good_does_not_come_back_after_a_restart() {
    let terms = Terms {
        more: "retry: { attempts: 2, first: 20ms, max: 200ms, exhausted: hold }\n",
        ..Terms::default()
    };
    let stage = Stage::new(Script::answering(Reply::text("no JSON at all")), &terms);
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    let is_failed = |answer: &Answer| answer.lines().iter().any(|run| run["state"] == "failed");
    stage.world.until(&["run", "list", "--consumer", "observer", "--json"], is_failed);
    stage.world.until_idle();
    assert_eq!(told(&stage.world, "observer"), ["started", "failed"]);
    assert_eq!(service.stop(), 0);
    let (requests, runs) = (stage.requests(), stage.runs());
    assert_eq!(requests, 1);
    for _ in 0..3 {
        let service = stage.world.serve(&[]);
        stage.world.until_idle();
        assert_eq!(service.stop(), 0);
    }
    assert_eq!((stage.requests(), stage.runs()), (requests, runs));
    stage.verify();
}

#[test]
fn hand_12_a_panic_between_taking_and_recording_loses_and_reorders_no_message() {
    let chat = Chat::new(crate::cli_turns::script());
    let service = chat.world.serve(&[]);
    let actor = "thoughtstream/consumers/talk";
    chat.world.thought(&["rehearsal", "arm", "attempt.received.before", "panic", "--actor", actor]).expect(0);
    chat.rehearsal.say(7, 7, "one");
    chat.rehearsal.say(7, 7, "two");
    chat.delivered("delivered", 2);
    assert_eq!(chat.seen(), [vec!["one"], vec!["one", "to one", "two"]]);
    let tree = chat.world.thought(&["tree", "--json"]).expect(0).json();
    let find = |node: &Value, name: &str| -> Value {
        let children = node["children"].as_array().unwrap();
        children.iter().find(|child| child["name"] == name).unwrap().clone()
    };
    assert_eq!(find(&find(&tree, "consumers"), "talk")["restarts"], 1, "{tree}");
    assert_eq!(service.stop(), 0);
    chat.world.thought(&["verify"]).expect(0);
}

#[test]
fn hand_15_what_waits_for_a_person_keeps_no_conversation_from_going_on() {
    let stage = cli_remembering::Stage::new();
    let service = stage.serve();
    stage.say("I moved to Lisbon");
    stage.until_sent(1);
    let mut service = Some(service);
    for said in 2..=4 {
        stage.say("And when do beans go out?");
        assert_eq!(stage.until_sent(said).len(), said);
        if said == 2 {
            assert_eq!(service.take().unwrap().stop(), 0);
            service = Some(stage.serve());
        }
    }
    let waiting = stage.world.thought(&["inbox", "--json"]).expect(0).lines();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0]["since"].is_string() && waiting[0]["id"].is_string(), "{waiting:?}");
    assert_eq!(service.take().unwrap().stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn hand_47_where_no_sandbox_can_be_made_nothing_runs_without_one() {
    let terms = Terms { more: "retry: { attempts: 50, first: 500ms, max: 2s }\n", ..Terms::default() };
    let stage = Stage::new(Script::answering(Reply::text(GOOD)), &terms);
    let bin = stage.world.base().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let bwrap = bin.join("bwrap");
    std::fs::write(&bwrap, "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
        .unwrap();
    std::fs::set_permissions(&bwrap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let service = stage.world.serve_in(&[], |command| {
        command.env("PATH", &bin);
    });
    stage.world.append("one", "text").expect(0);
    // It says so where a person looks, and asks nobody.
    let failing = |answer: &Answer| answer.lines().iter().any(|run| run["state"] == "failed");
    let runs = stage.world.until(&["run", "list", "--consumer", "observer", "--json"], failing).lines();
    assert!(runs.iter().all(|run| run["code"] == "sandbox-refused"), "{runs:?}");
    assert_eq!(stage.requests(), 0);
    let account = stage.world.thought(&["account", "show", "observer", "--json"]).expect(0).json();
    assert_eq!(account["ever"]["charged"]["calls"], 0, "{account}");
    let mut doctor = stage.world.command(&["doctor", "--quick", "--json"]);
    let answer = Answer::from(doctor.env("PATH", &bin).output().unwrap()).expect(1).json();
    let checks = answer["checks"].as_array().unwrap();
    let sandbox = checks.iter().find(|check| check["id"] == "sandbox").unwrap();
    assert_eq!(sandbox["status"], "finding", "{sandbox}");
    assert!(sandbox["evidence"].as_str().unwrap().contains("No permissions"), "{sandbox}");
    assert!(sandbox["fix"].as_str().unwrap().contains("namespaces"), "{sandbox}");
    assert_eq!(service.stop(), 0);
    // Mended, what had waited is done.
    let service = stage.world.serve(&[]);
    let completed = |answer: &Answer| answer.lines().iter().any(|run| run["state"] == "completed");
    stage.world.until(&["run", "list", "--consumer", "observer", "--json"], completed);
    assert_eq!(stage.requests(), 1);
    assert_eq!(service.stop(), 0);
    stage.verify();
}
