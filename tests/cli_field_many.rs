//! What went wrong for people who run such services elsewhere, where there are many of a thing. Each name is the case's.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use thoughtstream_channels::rehearsal::{Answer as Reply, Script};
use thoughtstream_domain::declaration::bump;

use crate::chaos_refusals::Unprivileged;
use crate::cli_models::{GOOD, Stage, Terms};
use crate::cli_world::{Answer, World};

/// Something that takes longer than this never comes.
const PATIENCE: Duration = Duration::from_secs(60);

fn mode(path: &std::path::Path, bits: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(bits)).unwrap();
}

/// Attempts of `document-tasks` that a kill has left open.
const OPEN: [&str; 7] = ["run", "list", "--json", "--consumer", "document-tasks", "--state", "started"];

/// The same attempts, once they have their end.
const COMPLETED: [&str; 7] =
    ["run", "list", "--json", "--consumer", "document-tasks", "--state", "completed"];

/// Makes a log that a service without privileges has left with three open attempts on three sources; returns them too.
fn orphaned() -> (Unprivileged, Vec<Value>) {
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    let folders = ["notes", "others", "more"];
    let mut config = "sources:\n".to_owned();
    for folder in folders {
        let root = world.base().join(folder);
        std::fs::create_dir_all(&root).unwrap();
        config += &format!("  - {{ filesystem: {folder}, root: {} }}\n", root.display());
    }
    std::fs::write(world.config.join("config.yaml"), config).unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    let tasks = "thoughtstream/consumers/document-tasks";
    for folder in folders {
        world.thought(&["rehearsal", "arm", "attempt.runner.inside", "hold", "--actor", tasks]).expect(0);
        std::fs::write(world.base().join(folder).join("a.md"), "# One\n- [ ] a\n").unwrap();
    }
    world.until(&OPEN, |answer| answer.code == 0 && answer.lines().len() == 3);
    running.kill();
    let orphans = world.thought(&OPEN).expect(0).lines();
    assert_eq!(orphans.len(), 3);
    (Unprivileged::of(world), orphans)
}

/// Gives a data directory, and each file in it, these modes.
fn modes(data: &std::path::Path, directory: u32, file: u32) {
    // Whoever may not enter it cannot be asked what is in it.
    mode(data, 0o700);
    let files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).for_each(|path| mode(&path, file));
    mode(data, directory);
}

/// Checks that each of them has its end, that `why` says so, and that the log is whole after a stop.
fn ended(unprivileged: &Unprivileged, orphans: &[Value], mut service: Child) {
    for orphan in orphans {
        let run = orphan["run"].as_str().or(orphan["id"].as_str()).unwrap();
        let why = unprivileged.run(&["why", run, "--json"]).expect(0).json();
        assert_eq!(why["state"], "completed", "{why}");
    }
    assert!(unprivileged.run(&OPEN).expect(0).lines().is_empty());
    unprivileged.run(&["stop"]).expect(0);
    assert!(service.wait().unwrap().success());
    unprivileged.run(&["verify"]).expect(0);
}

#[test]
fn hand_02_three_attempts_left_open_outlive_a_log_that_cannot_be_written_at_the_next_start() {
    let (unprivileged, orphans) = orphaned();
    let data = unprivileged.world.data.clone();
    modes(&data, 0o500, 0o400);
    let refused = unprivileged.run(&["serve"]).expect(4);
    assert!(refused.stderr.contains("ermission denied"), "{}", refused.stderr);
    assert_eq!(unprivileged.run(&OPEN).expect(0).lines(), orphans, "a refusal changes nothing");
    modes(&data, 0o700, 0o600);

    let service = unprivileged.command(&["serve"]).spawn().unwrap();
    let begun = Instant::now();
    while unprivileged.run(&COMPLETED).lines().len() < 3 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", unprivileged.run(&["run", "list", "--json"]));
    }
    ended(&unprivileged, &orphans, service);
}

#[test]
fn hand_02_a_log_that_becomes_writable_while_a_service_starts_is_refused_or_served_and_strands_nothing() {
    let (unprivileged, orphans) = orphaned();
    let data = unprivileged.world.data.clone();
    // Ever earlier in the start, until one gets through; the last finds it writable from the beginning.
    let moments = [200, 100, 50, 25, 20, 15, 12, 10, 8, 6, 5, 4, 3, 2, 1, 0];
    let mut refused = 0;
    let service = moments.iter().find_map(|moment| {
        modes(&data, 0o500, 0o400);
        let mut command = unprivileged.command(&["serve"]);
        let mut service = command.stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(*moment));
        modes(&data, 0o700, 0o600);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "it neither serves nor ends: {:?}", unprivileged.run(&OPEN));
            if service.try_wait().unwrap().is_some() {
                let answer = Answer::from(service.wait_with_output().unwrap());
                assert_eq!(answer.code, 4, "{moment} {answer:?}");
                assert_eq!(unprivileged.run(&OPEN).expect(0).lines(), orphans, "a refusal changes nothing");
                refused += 1;
                return None;
            }
            if unprivileged.run(&COMPLETED).lines().len() == 3 {
                return Some(service);
            }
        }
    });
    assert!(refused > 0, "it was never refused");
    ended(&unprivileged, &orphans, service.expect("a log that can be written is served"));
}

#[test]
fn hand_25_another_thing_under_a_key_whose_first_is_still_open_is_never_taken_beside_it() {
    let begun = ["commit.before", "commit.after-sync"].map(|point| {
        let mut world = World::with_config();
        world.data = world.base().join("rehearsal");
        world.thought(&["rehearsal", "create"]).expect(0);
        (point, world)
    });
    let send = |world: &World, text: &str| {
        let file = world.base().join(text);
        std::fs::write(&file, format!("{{\"text\":\"{text}\"}}")).unwrap();
        let kind = ["event", "append", "--source", "notes:test", "--type", "stream.thought.source.note"];
        let words = [&kind[..], &["--json", "--key", "k", "--payload", file.to_str().unwrap()]].concat();
        let mut command = world.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let said = |child: Child| Answer::from(child.wait_with_output().unwrap());
    let held: Vec<_> = begun
        .iter()
        .map(|(point, world)| {
            let running = world.serve(&[]);
            world.until_idle();
            world.thought(&["rehearsal", "arm", point, "hold"]).expect(0);
            let one = send(world, "one");
            world.until(&["--version"], |_| world.log().contains(point));
            // The first is open from here on, and nobody can know its end.
            (point, world, running, one, send(world, "other"))
        })
        .collect();
    for (point, world, running, one, other) in held {
        for open in [one, other] {
            let answer = said(open);
            assert!(answer.code == 5 && answer.stderr.contains("has not answered for"), "{point} {answer:?}");
        }
        running.kill();
        let running = world.serve(&[]);
        let first = said(send(world, "one")).expect(0).json();
        assert_eq!(first["already"], *point == "commit.after-sync", "{point}");
        for _ in 0..2 {
            let conflict = said(send(world, "other")).expect(1);
            assert!(conflict.stderr.contains("event.conflict"), "{point} {conflict:?}");
            let again = said(send(world, "one")).expect(0).json();
            assert_eq!((&again["already"], &again["id"]), (&true.into(), &first["id"]), "{point}");
        }
        let notes = world.thought(&["event", "list", "--json", "--source", "notes:test"]).expect(0).lines();
        assert_eq!(notes.len(), 1, "{point} {notes:?}");
        assert_eq!(running.stop(), 0);
        world.thought(&["verify"]).expect(0);
    }
}

#[test]
fn hand_25_fifty_sends_of_one_thing_at_once_are_one_event_and_its_key_is_taken() {
    let world = World::with_config();
    let payload = |name: &str| {
        let file = world.base().join(name).display().to_string();
        std::fs::write(&file, format!("{{\"text\":\"{name}\"}}")).unwrap();
        file
    };
    let (one, other) = (payload("one"), payload("other"));
    let note = "stream.thought.source.note";
    let send = |key: &'static str, file: &str| -> Vec<String> {
        let fixed = ["event", "append", "--source", "notes:test", "--type", note, "--json", "--key", key];
        fixed.iter().map(|word| (*word).to_owned()).chain(["--payload".to_owned(), file.to_owned()]).collect()
    };
    let all = |commands: &[Vec<String>]| {
        let words: Vec<Vec<&str>> =
            commands.iter().map(|command| command.iter().map(String::as_str).collect()).collect();
        let words: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
        world.at_once(&words)
    };
    let is_conflict = |answer: &Answer| answer.code == 1 && answer.stderr.contains("event.conflict");
    let running = world.serve(&[]);
    let answers = all(&vec![send("k", &one); 50]);
    let told: Vec<Value> = answers.into_iter().map(|answer| answer.expect(0).json()).collect();
    assert_eq!(told.iter().filter(|told| told["already"] == false).count(), 1);
    assert!(told.iter().all(|one| one["id"] == told[0]["id"]), "{told:?}");
    // Another thing under the key, the same again, and the other again.
    for round in 0..2 {
        assert!(is_conflict(&all(&[send("k", &other)])[0]), "{round}");
        assert_eq!(all(&[send("k", &one)]).remove(0).expect(0).json()["already"], true);
    }
    // Both at once: one is the event, whichever; every other one is told so.
    let mut both = vec![send("k2", &one); 25];
    both.extend(vec![send("k2", &other); 25]);
    let answers = all(&both);
    let done = |answers: &[Answer]| answers.iter().filter(|answer| answer.code == 0).count();
    let conflicts = answers.iter().filter(|answer| is_conflict(answer)).count();
    assert_eq!(conflicts, 25, "{answers:?}");
    assert!(matches!((done(&answers[..25]), done(&answers[25..])), (25, 0) | (0, 25)), "{answers:?}");
    let notes = ["event", "list", "--json", "--source", "notes:test"];
    assert_eq!(world.thought(&notes).expect(0).lines().len(), 2);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

/// Returns every consumer version with its state.
fn states(world: &World) -> Vec<(String, String)> {
    let listed = world.thought(&["consumer", "list", "--json"]).expect(0).lines();
    let word = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    listed.iter().map(|one| (word(one, "consumer"), word(one, "state"))).collect()
}

#[test]
fn hand_50_two_declarations_replaced_by_rename_are_taken_over_together_or_not_at_all() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    let file = |id: &str| world.config.join(format!("declarations/{id}.yaml"));
    let [links, tasks] =
        ["document-links", "document-tasks"].map(|id| std::fs::read_to_string(file(id)).unwrap());
    // As an editor saves: written beside it, then renamed into its place.
    let save = |id: &str, text: &str| {
        let beside = world.base().join("beside");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, file(id)).unwrap();
    };
    let before = states(&world);
    let second = |text: &str| bump("shipped.yaml", text).unwrap().0;
    let whole = |raised: &[&str]| -> Vec<String> {
        let named = |(name, _): &(String, String)| {
            let (id, version) = name.split_once('@').unwrap();
            let version: u32 = version.parse().unwrap();
            format!("{id}@{}", version + u32::from(raised.contains(&id)))
        };
        before.iter().map(named).collect()
    };
    save("document-links", &second(&links));
    save("document-tasks", &second(&tasks).replace("enabled: true", "enabeld: true"));
    let refused = world.thought(&["reload"]).expect(2).stderr;
    assert!(
        refused.contains("document-tasks.yaml") && refused.contains("did you mean `enabled`?"),
        "{refused}"
    );
    assert!(!refused.contains("document-links.yaml"), "{refused}");
    assert_eq!(states(&world), before, "the one that was right is not taken over alone");
    let by = |path: &str| -> Vec<String> {
        std::fs::write(world.notes.join(path), format!("# {path}\n- [ ] a\n")).unwrap();
        world.thought(&["source", "look", "filesystem:notes"]).expect(0);
        let added = ["event", "list", "--json", "--type", "stream.thought.source.file.added"];
        let is = |event: &Value| event["payload"]["path"] == path;
        let seen = world.until(&added, |answer| answer.lines().iter().any(is)).lines();
        let id = seen.iter().find(|event| is(event)).unwrap()["id"].as_str().unwrap().to_owned();
        let why = ["why", id.as_str(), "--json"];
        let done = |answer: &Answer| {
            let why = answer.json();
            let all = why["consumers"].as_array().unwrap();
            all.len() == 4 && all.iter().all(|one| one["state"] == "completed")
        };
        let why = world.until(&why, done).json();
        let consumers = why["consumers"].as_array().unwrap();
        consumers.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(by("a.md"), whole(&[]), "work goes on under the old ones");
    save("document-tasks", &second(&tasks));
    let reloaded = world.thought(&["reload", "--json"]).expect(0).json();
    let mut started: Vec<&str> =
        reloaded["started"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    started.sort_unstable();
    let new = whole(&["document-links", "document-tasks"]);
    assert_eq!(started, [new[0].as_str(), new[3].as_str()]);
    let after = world.until_idle();
    // Saved by being removed and written again, it is not gone meanwhile.
    std::fs::remove_file(file("document-tasks")).unwrap();
    assert_eq!(world.until_idle()["consumers"], after["consumers"]);
    std::fs::write(file("document-tasks"), second(&tasks)).unwrap();
    let same = world.thought(&["reload", "--json"]).expect(0).json();
    assert_eq!((&same["started"], &same["stopped"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    let mut done = by("b.md");
    done.sort();
    assert_eq!(done, new);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

/// A world of ten consumers: six wait for files that never come, two may ask once a day, and two ask a provider that is
/// not there, of which one tries again much later and the other gives up at once.
fn ten() -> Stage {
    let stage = Stage::new(Script::answering(Reply::text(GOOD)), &Terms::default());
    let world = &stage.world;
    let there = format!("endpoint: {}", stage.rehearsal.provider_url);
    let nowhere =
        format!("{there}\n    models: [small]\n  - name: nowhere\n    endpoint: http://127.0.0.1:9/v1");
    stage.change("config.yaml", &there, &nowhere);
    let observer = world.config.join("declarations/observer.yaml");
    let text = std::fs::read_to_string(&observer).unwrap();
    std::fs::remove_file(&observer).unwrap();
    let declare = |id: &str, text: &str| {
        std::fs::write(world.config.join(format!("declarations/{id}.yaml")), text).unwrap();
    };
    let of = |id: &str, source: &str| {
        text.replace("id: observer", &format!("id: {id}")).replace("notes:test", source)
    };
    for id in ["spent-one", "spent-two"] {
        declare(id, &of(id, "notes:budget").replace("calls: 1000", "calls: 1"));
    }
    let fails = |id: &str, retry: &str| {
        declare(id, &(of(id, "notes:fails").replace("provider: local", "provider: nowhere") + retry));
    };
    fails("again-later", "retry: { attempts: 5, first: 30m, max: 1h }\n");
    fails("given-up", "retry: { attempts: 1, exhausted: quarantine }\n");
    for number in 1..=6 {
        let id = format!("idle-{number}");
        let idle = format!(
            "id: {id}\nversion: 1\nenabled: true\ndescription: Waits for files.\nsubscribe:\n  \
             types: [stream.thought.source.file.added]\n  sources: [filesystem:none]\n\
             runner: {{ kind: deterministic, transform: document-tasks }}\n\
             emit: [stream.thought.derived.document.tasks]\npolicy: {{ tools: [], externalActions: false }}\n"
        );
        declare(&id, &idle);
    }
    stage
}

#[test]
fn hand_56_who_is_in_trouble_among_ten_is_shown_in_one_place_with_what_comes_next() {
    let stage = ten();
    let world = &stage.world;
    let service = world.serve(&[]);
    let append = |source: &str, key: &str| {
        let fixed = ["event", "append", "--source", source, "--key", key, "--payload", "-"];
        let words = [&fixed[..], &["--type", "stream.thought.source.note"]].concat();
        world.thought_with(&words, r#"{"text":"x"}"#).expect(0);
    };
    append("notes:budget", "first");
    world.until(&["run", "list", "--json", "--state", "completed"], |answer| answer.lines().len() == 2);
    append("notes:budget", "second");
    append("notes:fails", "only");
    let stuck = ["status", "--json", "--state", "stuck"];
    let four = |answer: &Answer| answer.json()["consumers"].as_array().unwrap().len() == 4;
    let told = world.until(&stuck, four).json()["consumers"].as_array().unwrap().clone();
    let said: Vec<[&str; 3]> =
        told.iter().map(|one| ["consumer", "state", "why"].map(|key| one[key].as_str().unwrap())).collect();
    assert_eq!(
        said,
        [
            ["again-later@1", "retrying", "connect-failed"],
            ["given-up@1", "quarantined", "connect-failed"],
            ["spent-one@1", "awaiting-budget", "budget-exhausted"],
            ["spent-two@1", "awaiting-budget", "budget-exhausted"],
        ]
    );
    for one in &told {
        assert!(one["since"].is_string() && one["command"].is_string(), "{one}");
        // Whoever goes on alone says when; who does not names the command alone.
        assert_eq!(one.get("next").is_some(), one["state"] != "quarantined", "{one}");
    }
    let text = world.thought(&["status", "--state", "stuck"]).expect(0).stdout;
    for word in ["again-later", "given-up", "spent-one", "spent-two", "budget-exhausted", "quarantined"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("idle-"), "{text}");
    for (state, count) in [("idle", 6), ("retrying", 1), ("awaiting-budget", 2), ("quarantined", 1)] {
        let listed = world.thought(&["consumer", "list", "--json", "--state", state]).expect(0).lines();
        assert_eq!(listed.len(), count, "{state}: {listed:?}");
    }
    // Only what needs a person waits for one.
    let inbox = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert_eq!(inbox.len(), 1, "{inbox:?}");
    assert!(inbox[0]["why"].as_str().unwrap().contains("given-up@1"), "{inbox:?}");
    assert_eq!(service.stop(), 0);
    // The same without a service.
    let down = world.thought(&stuck).expect(0).json();
    assert_eq!(down["consumers"].as_array().unwrap().len(), 4, "{down}");
    stage.verify();
}
