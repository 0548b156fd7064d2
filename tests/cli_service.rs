//! The running service: what it does with a folder, who may own a log, how it stops and comes back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cli_world::World;

fn note(world: &World, name: &str, text: &str) {
    std::fs::write(world.notes.join(name), text).unwrap();
}

#[test]
fn a_folder_becomes_events_and_consumers_derive_from_it() {
    let world = World::with_config();
    note(&world, "a.md", "# One\n\n- [ ] buy bread\n");
    let running = world.serve(&[]);
    world.until_idle();
    let types =
        |pattern: &str| world.thought(&["event", "list", "--json", "--type", pattern]).expect(0).lines();
    let added = types("stream.thought.source.file.added");
    assert_eq!(added.len(), 1);
    assert_eq!(added[0]["payload"]["path"], "a.md");
    let derived = types("stream.thought.derived.document.*");
    assert!(derived.iter().all(|event| event["root"] == added[0]["id"]), "{derived:?}");
    assert_eq!(derived.len(), 4);
    let runs = world.thought(&["run", "list", "--json"]).expect(0).lines();
    assert!(runs.len() == 4 && runs.iter().all(|run| run["state"] == "completed"));
    let shown = world.thought(&["run", "show", runs[0]["run"].as_str().unwrap(), "--json"]).expect(0).json();
    let kinds: Vec<&str> =
        shown["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        (kinds[0], kinds[1], kinds.len()),
        ("stream.thought.run.received@1", "stream.thought.run.started@1", 4)
    );
    let why = world.thought(&["why", added[0]["id"].as_str().unwrap(), "--json"]).expect(0).json();
    assert_eq!(why["consumers"].as_array().unwrap().len(), 4);
    let explained = ["consumer", "explain", "document-tasks", added[0]["id"].as_str().unwrap(), "--json"];
    let up = world.thought(&explained).expect(0);
    assert_eq!(up.json()["matches"], true);
    assert_eq!(running.stop(), 0);
    assert_eq!(world.thought(&explained).expect(0).stdout, up.stdout);
    let report = world.thought(&["verify", "--json"]).expect(0).json();
    assert!(report["ok"] == true && report["findings"].as_array().unwrap().is_empty() && report["runs"] == 4);
}

#[test]
fn the_tree_has_the_promised_shape_and_looking_changes_nothing() {
    fn check(node: &Value, names: &mut Vec<String>) {
        for key in ["name", "kind", "state", "since"] {
            assert!(node[key].is_string(), "{key} {node}");
        }
        assert!(node["restarts"].is_u64());
        names.push(node["name"].as_str().unwrap().to_owned());
        for child in node["children"].as_array().unwrap() {
            check(child, names);
        }
    }
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    let shape = || {
        let mut names = Vec::new();
        check(&world.thought(&["tree", "--json"]).expect(0).json(), &mut names);
        names
    };
    let first = shape();
    assert!(first.iter().any(|name| name == "document-tasks") && first.iter().any(|name| name == "doors"));
    assert_eq!(shape(), first);
    let mut watch = world.command(&["tree", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut line).unwrap();
    check(&serde_json::from_str(&line).unwrap(), &mut Vec::new());
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(shape(), first);
    assert_eq!(running.stop(), 0);
    check(&world.thought(&["tree", "--json"]).expect(0).json(), &mut Vec::new());
}

/// Draws names, kinds and states: what does not depend on the time.
fn outline(node: &Value, margin: &str) -> String {
    let word = |key: &str| node[key].as_str().unwrap();
    let line = format!("{margin}{} {} {}\n", word("name"), word("kind"), word("state"));
    let below = format!("{margin}  ");
    node["children"].as_array().unwrap().iter().fold(line, |text, child| text + &outline(child, &below))
}

#[test]
fn the_tree_has_the_same_actors_in_the_same_order_whether_the_service_is_up_or_down() {
    let world = World::with_config();
    note(&world, "a.md", "# One\n");
    let tree = || world.thought(&["tree", "--json"]).expect(0).json();
    // The service's last word of a kind; what a person did is not its.
    let last = |pattern: &str| {
        let mut events = world.thought(&["event", "list", "--json", "--type", pattern]).expect(0).lines();
        events.retain(|event| event["actor"]["kind"] != "person");
        events.pop().unwrap()["recordedAt"].clone()
    };
    let running = world.serve(&[]);
    world.until_idle();
    let up = outline(&tree(), "");
    insta::assert_snapshot!(up, @r"
    thoughtstream supervisor running
      log log-writer running
      scribe scribe running
      cells cell-keeper running
      consumers supervisor running
        document-links consumer running
        document-metadata consumer running
        document-structure consumer running
        document-tasks consumer running
      producers supervisor running
        filesystem:notes producer running
      materializer materializer running
      doors doorkeeper running
    ");
    assert_eq!(running.stop(), 0);
    // What is added by hand afterwards does not move the end of the service.
    world.append("later", "by hand").expect(0);
    let down = tree();
    insta::assert_snapshot!(outline(&down, ""), @r"
    thoughtstream supervisor down
      log log-writer down
      scribe scribe down
      cells cell-keeper down
      consumers supervisor down
        document-links consumer down
        document-metadata consumer down
        document-structure consumer down
        document-tasks consumer down
      producers supervisor down
        filesystem:notes producer down
      materializer materializer down
      doors doorkeeper down
    ");
    assert_eq!(up.replace(" running", " down"), outline(&down, ""));
    assert_eq!(
        (&down["since"], &down["detail"]["ended"]),
        (&last("stream.thought.system.stopped"), &"in order".into())
    );
    let running = world.serve(&[]);
    world.until_idle();
    running.kill();
    world.append("after", "by hand, after the end").expect(0);
    let killed = tree();
    assert_eq!(up.replace(" running", " down"), outline(&killed, ""));
    assert_eq!(killed["since"], last("stream.thought.*"));
    assert!(killed["detail"]["ended"].as_str().unwrap().starts_with("not in order"), "{killed}");
}

#[test]
fn what_is_known_of_a_document_leads_to_the_lineage_of_its_latest_event() {
    let world = World::with_config();
    note(&world, "a.md", "# One\n");
    let running = world.serve(&[]);
    world.until_idle();
    let files = || {
        let arguments = ["event", "list", "--json", "--source", "filesystem:notes"];
        world.thought(&arguments).expect(0).lines()
    };
    let document = files()[0]["payload"]["documentId"].as_str().unwrap().to_owned();
    let expect = |events: usize, state: &str| {
        world.thought(&["source", "look", "filesystem:notes"]).expect(0);
        world.until(&["event", "list", "--json", "--source", "filesystem:notes"], |answer| {
            answer.lines().len() == events
        });
        let why = world.thought(&["why", &document, "--json"]).expect(0).json();
        let latest = format!("thought event lineage {}", files()[events - 1]["id"].as_str().unwrap());
        assert_eq!((&why["state"], &why["commands"]), (&state.into(), &serde_json::json!([latest])));
    };
    expect(1, "present");
    note(&world, "a.md", "# One and more\n");
    expect(2, "present");
    std::fs::rename(world.notes.join("a.md"), world.notes.join("b.md")).unwrap();
    expect(3, "present");
    note(&world, "other.md", "# Other\n");
    std::fs::remove_file(world.notes.join("b.md")).unwrap();
    let removed = ["event", "list", "--json", "--type", "stream.thought.source.file.removed"];
    let removed = world.until(&removed, |answer| !answer.lines().is_empty()).lines();
    let why = world.thought(&["why", &document, "--json"]).expect(0).json();
    let latest = format!("thought event lineage {}", removed[0]["id"].as_str().unwrap());
    assert_eq!((&why["state"], &why["commands"]), (&"removed".into(), &serde_json::json!([latest])));
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_service_comes_up_among_short_commands_that_never_cease() {
    let world = World::with_config();
    let over = std::sync::atomic::AtomicBool::new(false);
    let begun = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (world, over, begun) = (&world, &over, &begun);
            scope.spawn(move || {
                let payload = r#"{"text":"x"}"#;
                for number in 0.. {
                    let key = format!("{thread}-{number}");
                    let words = ["event", "append", "--source", "notes:test", "--key", &key];
                    let more = ["--type", "stream.thought.source.note", "--payload", payload];
                    let words: Vec<&str> = words.into_iter().chain(more).collect();
                    // What it answers is another test's matter; here it is in the way.
                    world.thought(&words);
                    if number == 0 {
                        begun.wait();
                    }
                    if over.load(std::sync::atomic::Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        begun.wait();
        // Not to be left without `over`: a failure must end the others too.
        let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.serve(&[])));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(came.unwrap().stop(), 0);
    });
}

#[test]
fn a_refusal_that_has_nothing_to_do_with_another_service_names_none() {
    let world = World::with_config();
    std::fs::create_dir_all(&world.data).unwrap();
    std::fs::set_permissions(&world.data, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(world.data.join("service.owner"), "half").unwrap();
    let refused = world.thought(&["serve"]).expect(4);
    assert!(refused.stderr.contains("damaged"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("stop that one"), "{}", refused.stderr);
}

#[test]
fn started_paused_it_takes_what_comes_in_and_runs_nothing() {
    let world = World::with_config();
    note(&world, "a.md", "# One\n");
    let files = ["event", "list", "--json", "--type", "stream.thought.source.file.*"];
    let runs = || world.thought(&["run", "list", "--json"]).expect(0).lines();
    let paused = world.serve(&["--paused"]);
    world.until(&files, |answer| answer.lines().len() == 1);
    world.append("k", "by hand").expect(0);
    // The consumers are there, are told of what came, and say how far they are behind.
    let behind = |answer: &crate::cli_world::Answer| {
        answer.lines().iter().all(|consumer| consumer["behind"]["events"] == 1)
    };
    let listed = world.until(&["consumer", "list", "--json"], behind).lines();
    assert_eq!(listed.len(), 4);
    assert_eq!(paused.stop(), 0);
    assert!(runs().is_empty(), "{:?}", runs());
    let started = ["event", "list", "--json", "--type", "stream.thought.run.*"];
    assert!(world.thought(&started).expect(0).lines().is_empty());
    let running = world.serve(&[]);
    world.until(&["run", "list", "--json", "--state", "completed"], |answer| answer.lines().len() == 4);
    assert_eq!(world.thought(&files).expect(0).lines().len(), 1, "it was seen before");
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_second_service_is_refused_with_the_first_ones_pid() {
    let world = World::with_config();
    let running = world.serve(&[]);
    let second = world.thought(&["serve"]).expect(4);
    assert!(second.stderr.contains("stop that one first"), "{}", second.stderr);
    assert!(second.stderr.contains(&running.pid().to_string()), "{}", second.stderr);
    world.append("k", "still answers").expect(0);
    assert_eq!(running.stop(), 0);
}

#[test]
fn kill_minus_nine_is_a_way_to_stop() {
    let world = World::with_config();
    note(&world, "a.md", "# One\n");
    let running = world.serve(&[]);
    world.append("k", "acknowledged").expect(0);
    running.kill();
    // Whatever it left behind, the log is whole and answers.
    assert_eq!(world.thought(&["verify", "--json"]).expect(0).json()["ok"], true);
    let notes = ["event", "list", "--json", "--source", "notes:test"];
    assert_eq!(world.thought(&notes).expect(0).lines().len(), 1);
    let running = world.serve(&[]);
    world.until_idle();
    assert_eq!(world.thought(&notes).expect(0).lines().len(), 1);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_terminated_service_drains_and_a_hang_up_reads_the_declarations_again() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    let file = world.config.join("declarations/document-tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("enabled: true", "enabled: false")).unwrap();
    running.signal(Signal::SIGHUP);
    let taken_over = |answer: &crate::cli_world::Answer| answer.lines().len() == 1;
    world.until(&["consumer", "list", "--json", "--state", "disabled"], taken_over);
    // All or nothing: one file is wrong, the other's change is not taken over either.
    std::fs::write(&file, &text).unwrap();
    let links = std::fs::read_to_string(world.config.join("declarations/document-links.yaml")).unwrap();
    std::fs::write(world.config.join("declarations/document-links.yaml"), "id: x\n").unwrap();
    let refused = world.thought(&["reload"]).expect(2);
    assert!(refused.stderr.contains("document-links.yaml"), "{}", refused.stderr);
    let states = world.thought(&["consumer", "list", "--json"]).expect(0).lines();
    let state = |id: &str| states.iter().find(|c| c["consumer"] == id).unwrap()["state"].clone();
    assert_eq!((state("document-tasks@2"), state("document-links@2")), ("disabled".into(), "idle".into()));
    // What only a start takes over is named, in the answer and, where nobody waits for one, in the service's log.
    std::fs::write(world.config.join("declarations/document-links.yaml"), links).unwrap();
    assert_eq!(world.thought(&["reload", "--json"]).expect(0).json().get("restartFor"), None);
    std::fs::write(world.config.join("config.yaml"), "sources: []\ndrain: 3s\n").unwrap();
    let reloaded = world.thought(&["reload", "--json"]).expect(0).json();
    assert_eq!(reloaded["restartFor"], serde_json::json!(["drain", "filesystem:notes"]));
    let told = world.thought(&["reload"]).expect(0).stdout;
    assert!(told.contains("taken over by the next start only: drain, filesystem:notes"), "{told}");
    running.signal(Signal::SIGHUP);
    world.until(&["--version"], |_| world.log().contains("what=\"drain, filesystem:notes\""));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait(), 0);
    let last = world.thought(&["event", "list", "--json", "--limit", "1"]).expect(0).json();
    assert_eq!(last["type"], "stream.thought.system.stopped");
}

#[test]
fn a_consumer_is_paused_resumed_and_restarted_and_the_log_says_who() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    world.thought(&["consumer", "pause", "document-tasks", "--reason", "holiday"]).expect(0);
    let again = world.thought(&["consumer", "pause", "document-tasks", "--json"]).expect(0).json();
    assert_eq!(again["already"], true);
    note(&world, "a.md", "# One\n");
    let others_done = |answer: &crate::cli_world::Answer| answer.lines().len() == 3;
    world.until(&["run", "list", "--json", "--state", "completed"], others_done);
    let inbox = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert_eq!(inbox.len(), 1);
    assert_eq!((&inbox[0]["kind"], &inbox[0]["why"]), (&"consumer-paused".into(), &"holiday".into()));
    let stuck = world.thought(&["status", "--state", "stuck", "--json"]).expect(0).json();
    assert_eq!(stuck["consumers"][0]["consumer"], "document-tasks@2");
    assert_eq!(stuck["consumers"][0]["behind"]["events"], 1);
    // The command that the inbox names moves it.
    let command = inbox[0]["command"].as_str().unwrap().to_owned();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    world.thought(&words).expect(0);
    world.until_idle();
    assert!(world.thought(&["inbox"]).expect(0).stdout.contains("nothing waits"));
    world.thought(&["consumer", "restart", "document-tasks"]).expect(0);
    world.thought(&["consumer", "pause", "nobody"]).expect(1);
    world.until_idle();
    let acts = world.thought(&["event", "list", "--json", "--source", "system:decisions"]).expect(0).lines();
    let uid = nix::unistd::getuid().as_raw();
    assert_eq!(acts.len(), 3);
    assert!(
        acts.iter().all(|act| act["payload"]["operator"]["uid"] == uid && act["actor"]["kind"] == "person")
    );
    assert_eq!(running.stop(), 0);
    // The same decision can be made while no service runs.
    world.thought(&["consumer", "pause", "document-links"]).expect(0);
    assert_eq!(world.thought(&["inbox", "--json"]).expect(0).lines().len(), 1);
    world.thought(&["consumer", "resume", "document-links"]).expect(0);
    world.thought(&["consumer", "restart", "document-links"]).expect(1);
}

#[test]
fn a_tail_shows_each_new_event_once() {
    let world = World::with_config();
    world.append("first", "makes the log").expect(0);
    world.thought(&["event", "tail"]).expect(1);
    let running = world.serve(&["--paused"]);
    world.append("before", "before").expect(0);
    let arguments = ["event", "tail", "--json", "--source", "notes:test", "--after", "0"];
    let mut tail = world.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["payload"]["text"], "makes the log");
    assert_eq!(next()["payload"]["text"], "before");
    for number in 0..3 {
        world.append(&format!("k{number}"), &format!("n{number}")).expect(0);
        assert_eq!(next()["payload"]["text"], format!("n{number}"));
    }
    // The end of the service is the end of the tail, and no failure.
    assert_eq!(running.stop(), 0);
    assert!(tail.wait().unwrap().success());
}

#[test]
fn a_very_long_data_directory_is_served() {
    let mut world = World::with_config();
    world.data = world.base().join("d".repeat(200)).join("e".repeat(200));
    world.thought(&["init"]).expect(0);
    let running = world.serve(&[]);
    world.append("k", "x").expect(0);
    assert_eq!(running.stop(), 0);
}

#[test]
fn clients_that_say_nothing_or_vanish_disturb_nobody() {
    let world = World::with_config();
    let running = world.serve(&[]);
    let note: Value = serde_json::from_slice(&std::fs::read(world.data.join("doors.json")).unwrap()).unwrap();
    let directory = std::path::PathBuf::from(note["directory"].as_str().unwrap());
    let silent: Vec<UnixStream> =
        (0..10).map(|_| UnixStream::connect(directory.join("ask.sock")).unwrap()).collect();
    let mut vanishing = UnixStream::connect(directory.join("ask.sock")).unwrap();
    vanishing.write_all(b"{\"protocol\":1,\"version\":\"x\"}\n{\"ask\":\"inbox\"}\n").unwrap();
    drop(vanishing);
    world.append("k", "x").expect(0);
    // The role is fixed by the door.
    let mut ask = UnixStream::connect(directory.join("ask.sock")).unwrap();
    ask.write_all(b"{\"protocol\":1,\"version\":\"x\"}\n{\"operate\":\"stop\"}\n").unwrap();
    ask.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    ask.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("socket.role"), "{answer}");
    world.thought(&["status"]).expect(0);
    drop(silent);
    assert_eq!(running.stop(), 0);
    assert!(!directory.join("ask.sock").exists());
}

#[test]
fn only_a_rehearsal_may_be_harmed_and_what_was_killed_comes_back() {
    let world = World::with_config();
    let running = world.serve(&[]);
    let kill = ["rehearsal", "kill", "consumers/document-links"];
    assert!(world.thought(&kill).expect(1).stderr.contains("real work"));
    world.thought(&["rehearsal", "arm", "attempt.settle.before", "abort-process"]).expect(1);
    assert_eq!(running.stop(), 0);
    world.thought(&["rehearsal", "create"]).expect(1);

    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    let running = world.serve(&[]);
    world.until_idle();
    world.thought(&kill).expect(0);
    world.thought(&["rehearsal", "kill", "consumers/nobody"]).expect(1);
    world.thought(&["rehearsal", "arm", "no.such.point", "panic"]).expect(2);
    // The whole process dies in the middle of a settlement; the next start closes what it left open.
    world.thought(&["rehearsal", "arm", "attempt.settle.before", "abort-process"]).expect(0);
    note(&world, "a.md", "# One\n");
    assert_ne!(running.wait(), 0);
    let open = world.thought(&["run", "list", "--json", "--state", "open"]).expect(0).lines();
    assert!(!open.is_empty());
    let running = world.serve(&[]);
    let done = |answer: &crate::cli_world::Answer| answer.lines().len() == 4;
    world.until(&["run", "list", "--json", "--state", "completed"], done);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    let lost = world.thought(&["run", "list", "--json", "--state", "status-unknown"]).expect(0).lines();
    assert!(lost.len() == open.len() && lost.iter().all(|run| run["code"] == "service-ended"), "{lost:?}");
    assert_eq!(world.thought(&["verify", "--json"]).expect(0).json()["ok"], true);
}

#[test]
fn a_reload_without_its_declarations_changes_nothing() {
    let world = World::with_config();
    let running = world.serve(&[]);
    let before = world.until_idle()["consumers"].as_array().unwrap().len();
    let (here, away) = (world.config.join("declarations"), world.base().join("away"));
    std::fs::rename(&here, &away).unwrap();
    let refused = world.thought(&["reload"]).expect(2);
    assert!(refused.stderr.contains("config/declarations"), "{}", refused.stderr);
    assert_eq!(world.until_idle()["consumers"].as_array().unwrap().len(), before);
    std::fs::rename(&away, &here).unwrap();
    world.thought(&["reload"]).expect(0);
    assert_eq!(running.stop(), 0);
}
