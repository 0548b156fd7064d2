//! Every actor of the tree, killed once by its path while there is work; and paths that no actor has.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cli_remembering::Stage;
use crate::cli_world::{Answer, World};

/// Collects the paths of all actors below a node, each with how often it was started again.
fn actors(node: &Value, above: &str, found: &mut Vec<(String, u64)>) {
    for child in node["children"].as_array().unwrap() {
        let path = format!("{above}{}", child["name"].as_str().unwrap());
        found.push((path.clone(), child["restarts"].as_u64().unwrap()));
        actors(child, &format!("{path}/"), found);
    }
}

fn tree(world: &World) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    // Whoever answers may be the one who was killed last.
    let answered = |answer: &Answer| answer.code == 0;
    actors(&world.until(&["tree", "--json"], answered).json(), "", &mut found);
    found
}

fn restarts(world: &World, path: &str) -> u64 {
    tree(world).into_iter().find(|(known, _)| known == path).map_or(0, |(_, restarts)| restarts)
}

/// Kills an actor and waits until it is back. The answer is lost if it is killed with the actor that would give it.
fn kill(world: &World, path: &str, work: impl FnOnce()) {
    let before = restarts(world, path);
    work();
    let answer = world.thought(&["rehearsal", "kill", path]);
    assert!(matches!(answer.code, 0 | 4 | 5), "{path}: {answer:?}");
    world.until(&["tree", "--json"], |_| restarts(world, path) > before);
}

#[test]
fn every_actor_killed_once_while_files_come_in_costs_nothing() {
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    let running = world.serve(&[]);
    world.until_idle();
    let paths: Vec<String> = tree(&world).into_iter().map(|(path, _)| path).collect();
    for one in
        ["log", "scribe", "cells", "consumers", "consumers/document-tasks", "producers", "materializer"]
    {
        assert!(paths.iter().any(|path| path == one), "{one} is missing: {paths:?}");
    }
    assert!(paths.iter().any(|path| path == "doors") && paths.len() == 12, "{paths:?}");
    let write = |file: usize, text: &str| {
        std::fs::write(world.notes.join(format!("{file}.md")), format!("# {text}\n- [ ] a\n")).unwrap();
    };
    let mut files = 0;
    for path in &paths {
        kill(&world, path, || {
            for _ in 0..5 {
                files += 1;
                write(files, "One");
            }
        });
    }
    // Nobody is missing, and everybody still works.
    let after: Vec<String> = tree(&world).into_iter().map(|(path, _)| path).collect();
    assert_eq!(after.iter().collect::<BTreeSet<_>>(), paths.iter().collect());
    files += 1;
    write(files, "Last");
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    let added = ["event", "list", "--json", "--type", "stream.thought.source.file.added", "--limit", "1000"];
    world.until(&added, |answer| answer.lines().len() == files);
    let runs = ["run", "list", "--json", "--state", "completed", "--limit", "1000"];
    world.until(&runs, |answer| answer.lines().len() == 4 * files);
    world.until_idle();
    let derived =
        ["event", "list", "--json", "--type", "stream.thought.derived.document.*", "--limit", "1000"];
    let outputs = world.thought(&derived).expect(0).lines();
    let kinds: BTreeSet<(String, String)> =
        outputs.iter().map(|event| (event["type"].to_string(), event["root"].to_string())).collect();
    assert_eq!((outputs.len(), kinds.len()), (4 * files, 4 * files), "one of each kind for each file");
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn every_actor_of_a_conversation_killed_once_leaves_one_reply_to_each_message() {
    let stage = Stage::new();
    let running = stage.serve();
    stage.say("When do beans go out?");
    stage.until_sent(1);
    let paths: Vec<String> = tree(&stage.world).into_iter().map(|(path, _)| path).collect();
    let theirs = |kind: &str| paths.iter().filter(|path| path.contains(kind)).count();
    assert!(theirs("brokers") == 2 && theirs("telegram") >= 2, "{paths:?}");
    for (number, path) in paths.iter().enumerate() {
        kill(&stage.world, path, || stage.say(&format!("message {number}: when do beans go out?")));
        // Each message is answered before the next is said: who waits behind whom is another test's matter.
        stage.world.until(&["status", "--json"], |_| {
            // What may have arrived is not sent again by itself.
            let unconfirmed = ["delivery", "list", "--json", "--state", "unconfirmed"];
            let unknown = stage.world.thought(&unconfirmed);
            let unknown = if unknown.code == 0 { unknown.lines().len() } else { 0 };
            stage.rehearsal.sent_messages().len() + unknown >= number + 2
        });
    }
    stage.world.until_idle();
    let completed = stage.of("stream.thought.run.completed").len();
    assert_eq!(completed, paths.len() + 1);
    let started = stage.of("stream.thought.run.started").len();
    assert!(stage.rehearsal.provider_requests().len() <= started);
    assert!(stage.rehearsal.sent_messages().len() <= completed);
    assert_eq!(running.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_path_that_no_actor_has_is_refused_with_the_nearest_one() {
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    let running = world.serve(&[]);
    world.until_idle();
    let tasks = "thoughtstream/consumers/document-tasks";
    for (path, near) in [
        ("thoughtstream/consumers/document-task", tasks),
        ("document-tasks", tasks),
        ("thoughtstream/lgo", "thoughtstream/log"),
        ("thoughtstream/recover", "thoughtstream/recovery"),
        ("nobody", "thought tree"),
    ] {
        let arm = ["rehearsal", "arm", "attempt.settle.before", "panic", "--actor", path];
        let refused = world.thought(&arm).expect(1);
        assert!(refused.stderr.contains("actor.unknown") && refused.stderr.contains(near), "{refused:?}");
    }
    for (path, near) in [
        ("consumers/document-task", "`consumers/document-tasks`"),
        ("logs", "`log`"),
        ("producers/filesystem:note", "`producers/filesystem:notes`"),
    ] {
        let refused = world.thought(&["rehearsal", "kill", path]).expect(1);
        assert!(refused.stderr.contains("actor.unknown") && refused.stderr.contains(near), "{refused:?}");
    }
    // Nothing was set and nobody was killed.
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    world.until(&["run", "list", "--json", "--state", "completed"], |answer| answer.lines().len() == 4);
    assert!(tree(&world).iter().all(|(_, restarts)| *restarts == 0));
    for actor in [tasks, "thoughtstream/recovery", "desk"] {
        world.thought(&["rehearsal", "arm", "attempt.settle.before", "fail", "--actor", actor]).expect(0);
    }
    assert_eq!(running.stop(), 0);
    // Where work is real, nobody is told who there is.
    world.data = world.base().join("data");
    let running = world.serve(&[]);
    assert!(world.thought(&["rehearsal", "kill", "nobody"]).expect(1).stderr.contains("rehearsal"));
    assert_eq!(running.stop(), 0);
}
