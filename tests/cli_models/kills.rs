//! A request that is under way, and whoever ends in the middle of it.

use super::*;

/// Kills the process, or one of its actors, while the provider holds the answer back.
fn in_flight(kill: impl Fn(&Stage), restart: bool) {
    let hold = Manner { hold: Some("gate".to_owned()), ..Manner::default() };
    let stage = Stage::new(
        Script::answering(json(GOOD)).with_rule(Rule {
            when: thoughtstream_channels::rehearsal::When { nth: Some(1), ..Default::default() },
            ..Rule::new("held", json(GOOD).in_manner(hold))
        }),
        &Terms { more: "retry: { attempts: 20, first: 20ms, max: 200ms }\n", ..Terms::default() },
    );
    let service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    stage.runtime.block_on(stage.rehearsal.until_held("gate", 1));
    let service = if restart {
        service.kill();
        stage.world.serve(&[])
    } else {
        kill(&stage);
        service
    };
    stage.rehearsal.release("gate");
    stage.world.until(&["run", "list", "--consumer", "observer", "--json"], |answer| {
        answer.lines().iter().any(|run| run["state"] == "completed")
    });
    let runs = stage.runs();
    let started = stage.events()["stream.thought.run.started"];
    assert!(stage.requests() <= started, "{} requests in {started} attempts", stage.requests());
    assert_eq!(stage.events()["stream.thought.derived.message.observation"], 1, "{runs:?}");
    stage.is_charged_for_every_request();
    assert_eq!(service.stop(), 0);
    stage.verify();
}

#[test]
fn a_process_killed_in_flight_asks_again_only_as_another_attempt() {
    in_flight(|_| {}, true);
}

#[test]
fn whoever_is_killed_in_flight_leaves_one_request_an_attempt() {
    for actor in ["brokers/local", "cells", "consumers/observer", "log"] {
        in_flight(
            |stage| {
                stage.world.thought(&["rehearsal", "kill", actor]).expect(0);
            },
            false,
        );
    }
}

#[test]
fn what_a_provider_is_still_asked_when_the_service_stops_may_be_answered_within_the_drain() {
    let hold = Manner { hold: Some("gate".to_owned()), ..Manner::default() };
    let stage = Stage::new(Script::answering(json(GOOD).in_manner(hold)), &Terms::default());
    stage.change("config.yaml", "sources: []", "sources: []\ndrain: 2m");
    let mut service = stage.world.serve(&[]);
    stage.world.append("one", "text").expect(0);
    stage.runtime.block_on(stage.rehearsal.until_held("gate", 1));
    service.signal(nix::sys::signal::Signal::SIGTERM);
    service.tells("STOPPING=1");
    // Whoever has no such work to finish is given less.
    assert!(!service.ends_within(std::time::Duration::from_secs(7)), "{}", stage.world.log());
    stage.rehearsal.release("gate");
    assert_eq!(service.wait(), 0);
    let runs = stage.runs();
    assert_eq!((runs.len(), &runs[0]["state"], stage.requests()), (1, &"completed".into(), 1));
    stage.verify();
}

#[test]
fn a_trap_at_any_step_before_the_answer_ends_its_actor_and_leaves_one_output() {
    trapped(&["received.before", "received.inside", "received.after", "started.before"]);
    trapped(&["started.inside", "started.after", "runner.before", "runner.inside"]);
}

#[test]
fn a_trap_at_any_step_behind_the_answer_ends_its_actor_and_leaves_one_output() {
    trapped(&["runner.after", "settle.before", "settle.inside", "settle.after"]);
}

fn trapped(points: &[&str]) {
    let points = points.iter().map(|point| format!("attempt.{point}"));
    let stage = sprung("consumers/observer", points.collect());
    assert!(!stage.events().contains_key("stream.thought.run.failed"), "a trap is no failure of a run");
}

#[test]
fn a_trap_in_the_broker_ends_it_and_leaves_one_output_of_each_note() {
    let points = ["before", "inside", "after"].map(|point| format!("broker.ask.{point}"));
    sprung("brokers/local", points.into());
}

/// Springs a trap of each kind at each of these points of an actor, one for each note, and holds what came of it
/// against what must be so.
fn sprung(actor: &str, points: Vec<String>) -> Stage {
    let terms = Terms { more: "retry: { attempts: 20, first: 20ms, max: 200ms }\n", ..Terms::default() };
    let stage = Stage::new(Script::answering(json(GOOD)), &terms);
    let service = stage.world.serve(&[]);
    let mut notes = 0;
    for point in &points {
        for action in ["fail", "kill-actor", "panic"] {
            notes += 1;
            let whole = format!("thoughtstream/{actor}");
            let before = stage.restarts(actor);
            stage.world.thought(&["rehearsal", "arm", point, action, "--actor", &whole]).expect(0);
            stage.world.append(&format!("note-{notes}"), "text").expect(0);
            stage.world.until(&["status", "--json"], |status| {
                // Repeated ends lead to a quarantine, as they are meant to; a person lets it go on.
                if status.stdout.contains("\"quarantined\"") {
                    stage.world.thought(&["consumer", "resume", "observer"]);
                }
                // The trap sprang, and the note came to its end all the same.
                stage.restarts(actor) > before
                    && stage.events().get("stream.thought.derived.message.observation") == Some(&notes)
            });
        }
    }
    // Each output has a request of its own, and no attempt has two.
    assert!(stage.requests() >= notes && stage.requests() <= stage.events()["stream.thought.run.started"]);
    stage.is_charged_for_every_request();
    assert_eq!(service.stop(), 0);
    stage.verify();
    stage
}

impl Stage {
    /// Returns how often an actor was started again, by its path below the root.
    fn restarts(&self, path: &str) -> u64 {
        let tree = self.world.thought(&["tree", "--json"]).expect(0).json();
        let node = path.split('/').fold(&tree, |node, name| {
            let children = node["children"].as_array().unwrap();
            children.iter().find(|child| child["name"] == name).unwrap_or_else(|| panic!("{name}: {node}"))
        });
        node["restarts"].as_u64().unwrap()
    }
}
