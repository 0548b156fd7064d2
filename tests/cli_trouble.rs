//! Things in trouble: shown with their reason and their way out, moved by a person, never done twice.

use serde_json::Value;

use crate::cli_world::{Answer, World};

fn held(answer: &Answer) -> bool {
    answer.lines().iter().any(|one| one["kind"] == "status-unknown")
}

/// Makes a rehearsal in which an interrupted attempt of `document-tasks` waits for a person.
fn rehearsal() -> World {
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    let file = world.config.join("declarations/document-tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + "interrupted: { record: status-unknown, then: hold }\n").unwrap();
    world
}

/// Lets one attempt of `document-tasks` be interrupted, and returns what waits then; the service is down again.
fn interrupted(world: &World) -> Vec<Value> {
    let running = world.serve(&[]);
    world.until_idle();
    let tasks = "thoughtstream/consumers/document-tasks";
    let arm = ["rehearsal", "arm", "attempt.settle.before", "kill-actor", "--actor", tasks];
    world.thought(&arm).expect(0);
    std::fs::write(world.notes.join("a.md"), "# One\n- [ ] a\n").unwrap();
    let waiting = world.until(&["inbox", "--json"], held).lines();
    assert_eq!(running.stop(), 0);
    waiting
}

#[test]
fn what_waits_is_in_the_inbox_with_the_command_that_moves_it() {
    let world = rehearsal();
    let waiting = interrupted(&world);
    assert_eq!(waiting.len(), 1);
    let execution = waiting[0]["id"].as_str().unwrap();
    // Waiting is no state of the service: after three starts it is the same thing, attempted as often.
    for _ in 0..3 {
        let running = world.serve(&[]);
        assert_eq!(world.until(&["inbox", "--json"], held).lines(), waiting);
        assert_eq!(running.stop(), 0);
    }
    let why = world.thought(&["why", execution, "--json"]).expect(0).json();
    assert_eq!(why["state"], "held");
    let status = world.thought(&["status", "--json", "--state", "stuck"]).expect(0).json();
    assert_eq!(status["consumers"][0]["consumer"], "document-tasks@1");
    world.thought(&["doctor", "--quick"]).expect(6);
    // The command that was named moves it, and the next attempt completes.
    let running = world.serve(&[]);
    let words: Vec<&str> = waiting[0]["command"].as_str().unwrap().split(' ').skip(1).collect();
    world.thought(&words).expect(0);
    world.until_idle();
    assert!(world.thought(&["inbox", "--json"]).expect(0).lines().is_empty());
    let again = world.thought(&words).expect(1);
    assert!(again.stderr.contains("closed"), "{}", again.stderr);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_skip_is_recorded_with_its_reason_and_lets_progress_pass() {
    let world = rehearsal();
    let waiting = interrupted(&world);
    let execution = waiting[0]["id"].as_str().unwrap();
    world.thought(&["consumer", "skip", execution]).expect(2);
    // Made while no service runs; the next start finds it.
    world.thought(&["consumer", "skip", execution, "--reason", "not worth it"]).expect(0);
    let again = world.thought(&["consumer", "skip", execution, "--reason", "twice", "--json"]).expect(0);
    assert_eq!(again.json()["already"], true);
    assert!(world.thought(&["inbox", "--json"]).expect(0).lines().is_empty());
    let why = world.thought(&["why", execution, "--json"]).expect(0).json();
    assert_eq!(why["state"], "skipped");
    let acts = world.thought(&["event", "list", "--json", "--source", "system:decisions"]).expect(0).lines();
    assert_eq!((acts.len(), &acts[0]["payload"]["reason"]), (1, &"not worth it".into()));
    let running = world.serve(&[]);
    std::fs::write(world.notes.join("b.md"), "# Two\n").unwrap();
    world.until(
        &["run", "list", "--json", "--consumer", "document-tasks", "--state", "completed"],
        |answer| !answer.lines().is_empty(),
    );
    assert_eq!(running.stop(), 0);
    assert_eq!(world.thought(&["verify", "--json"]).expect(0).json()["ok"], true);
}

#[test]
fn a_root_that_is_gone_is_an_incident_and_not_removals() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    let moved = world.base().join("moved");
    std::fs::rename(&world.notes, &moved).unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    let incident = |answer: &Answer| answer.lines().iter().any(|one| one["kind"] == "incident");
    let waiting = world.until(&["inbox", "--json"], incident).lines();
    assert_eq!(waiting[0]["id"], "filesystem:notes");
    world.thought(&["doctor", "--quick"]).expect(1);
    let removed = ["event", "list", "--json", "--type", "stream.thought.source.file.removed"];
    assert!(world.thought(&removed).expect(0).lines().is_empty());
    std::fs::rename(&moved, &world.notes).unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    world.until(&["inbox", "--json"], |answer| answer.lines().is_empty());
    world.thought(&["source", "look", "filesystem:other"]).expect(1);
    assert_eq!(running.stop(), 0);
}
