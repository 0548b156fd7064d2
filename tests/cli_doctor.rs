//! What the doctor says, and with which exit code: advice, findings and blindness are told apart.

use serde_json::Value;

use crate::cli_world::{Answer, World};

fn status_of(answer: &Value, id: &str) -> String {
    let checks = answer["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("{id}: {answer}"));
    check["status"].as_str().unwrap().to_owned()
}

#[test]
fn a_good_log_is_well_and_a_paused_consumer_is_advice() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    let answer = world.thought(&["doctor", "--json"]).expect(0).json();
    assert_eq!((&answer["schema"], &answer["status"]), (&"thoughtstream.doctor/1".into(), &"ok".into()));
    assert_eq!(status_of(&answer, "log-whole"), "ok");
    world.thought(&["consumer", "pause", "document-tasks"]).expect(0);
    let answer = world.thought(&["doctor", "--json"]).expect(6).json();
    assert_eq!(status_of(&answer, "inbox"), "advice");
    assert_eq!(running.stop(), 0);
    world.thought(&["doctor"]).expect(6);
}

#[test]
fn a_changed_byte_is_a_finding_although_the_log_opens() {
    let world = World::with_config();
    world.append("k", "a text that is changed by somebody").expect(0);
    world.append("k2", "another").expect(0);
    let file = world.data.join("log.redb");
    let mut bytes = std::fs::read(&file).unwrap();
    let needle = b"changed by somebody";
    let at: Vec<usize> =
        (0..bytes.len() - needle.len()).filter(|at| bytes[*at..].starts_with(needle)).collect();
    for at in at {
        bytes[at] = b'C';
    }
    std::fs::write(&file, bytes).unwrap();
    let answer = world.thought(&["doctor", "--json"]);
    assert!(matches!(answer.code, 1 | 4), "{answer:?}");
    assert_ne!(answer.json()["status"], "ok");
    assert!(matches!(world.thought(&["verify"]).code, 1 | 4));
}

#[test]
fn wrong_files_are_a_finding_and_a_missing_log_is_not_health() {
    let world = World::with_config();
    let answer = world.thought(&["doctor", "--json"]).expect(4).json();
    assert_eq!(status_of(&answer, "log"), "could-not-look");
    world.append("k", "x").expect(0);
    world.thought(&["doctor"]).expect(0);
    std::fs::write(world.config.join("config.yaml"), "sorces: []\n").unwrap();
    let answer = world.thought(&["doctor", "--json"]).expect(1).json();
    assert_eq!(status_of(&answer, "configuration"), "finding");
}

#[test]
fn the_sandbox_is_tried_and_what_is_wrong_with_the_worker_is_a_finding() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    let answer = world.thought(&["doctor", "--quick", "--json"]).expect(0).json();
    assert_eq!(status_of(&answer, "sandbox"), "ok");
    let program = |name: &str| std::fs::canonicalize(name).unwrap().display().to_string();
    for (worker, code) in [
        (world.base().join("none").display().to_string(), "worker-missing"),
        (world.config.join("config.yaml").display().to_string(), "worker-unfit"),
        (program("/bin/true"), "worker-exited"),
        (program("/bin/cat"), "worker-frame-malformed"),
    ] {
        let mut command = world.command(&["doctor", "--quick", "--json"]);
        let answer = Answer::from(command.env("THOUGHTSTREAM_WORKER", &worker).output().unwrap());
        let answer = answer.expect(1).json();
        assert_eq!(status_of(&answer, "sandbox"), "finding");
        let checks = answer["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["id"] == "sandbox").unwrap();
        assert!(check["evidence"].as_str().unwrap().contains(code), "{check}");
        assert!(!check["fix"].as_str().unwrap().is_empty());
    }
    let left = std::fs::read_dir(&world.data).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("cell-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_tree_shows_the_keeper_of_the_cells_with_its_worker() {
    let world = World::with_config();
    let running = world.serve(&[]);
    let shows = |answer: &Answer| answer.stdout.contains("\"worker\"");
    let tree = world.until(&["tree", "--json"], shows).json();
    let children = tree["children"].as_array().unwrap();
    let names: Vec<&str> = children.iter().map(|child| child["name"].as_str().unwrap()).collect();
    let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
    assert!(place("cells") < place("consumers"), "it stops after those who need it: {names:?}");
    let detail = &children[place("cells")]["detail"];
    assert!(detail["path"].as_str().unwrap().ends_with("/thought-worker"), "{detail}");
    assert_eq!((&detail["started"], &detail["running"]), (&0.into(), &0.into()));
    assert_eq!(running.stop(), 0);
    let tree = world.thought(&["tree", "--json"]).expect(0).json();
    let after: Vec<&Value> =
        tree["children"].as_array().unwrap().iter().map(|child| &child["name"]).collect();
    assert_eq!(names, after, "the same actors in the same order while no service runs");
}
