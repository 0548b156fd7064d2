//! Events that no attempt can process: passed and shown, or in the way of one consumer until a person decides, as each
//! declaration says; never tried again by themselves, and never in anybody else's way.

use serde_json::Value;

use crate::cli_world::{Answer, World};

const OUTPUTS: &str = "stream.thought.derived.document.*";

/// Returns what waits, of one kind.
fn waiting(world: &World, kind: &str) -> Vec<Value> {
    let mut all = world.thought(&["inbox", "--json"]).expect(0).lines();
    all.retain(|one| one["kind"] == kind);
    all
}

fn write(world: &World, name: &str, bytes: &[u8]) {
    std::fs::write(world.notes.join(name), bytes).unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
}

/// Runs a command as the program prints it.
fn told(world: &World, command: &Value) -> Answer {
    let words = command.as_str().unwrap().replace("TEXT", "seen");
    let words: Vec<&str> = words.split(' ').skip(1).collect();
    world.thought(&words)
}

/// Waits until so much was derived and nothing is left to do.
fn derived(world: &World, count: usize) {
    let outputs = ["event", "list", "--json", "--type", OUTPUTS, "--limit", "1000"];
    world.until(&outputs, |answer| answer.lines().len() >= count);
    world.until_idle();
    assert_eq!(world.thought(&outputs).expect(0).lines().len(), count);
}

/// The event about a file, by its path.
fn event_of(world: &World, path: &str) -> String {
    let files = ["event", "list", "--json", "--source", "filesystem:notes", "--limit", "1000"];
    let files = world.thought(&files).expect(0).lines();
    let found =
        files.iter().filter(|one| one["payload"]["path"] == path).max_by_key(|one| one["sequence"].as_u64());
    found.unwrap()["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_note_that_cannot_be_read_is_shown_and_keeps_no_other_from_anything() {
    let world = World::with_config();
    std::fs::write(world.notes.join("bad.md"), b"# Bad \xff\n").unwrap();
    std::fs::write(world.notes.join("good.md"), "# Good\n- [ ] a\n").unwrap();
    // Longer than a model may see, and nothing to a transform.
    std::fs::write(world.notes.join("long.md"), "# Long\n".to_owned() + &"word ".repeat(100_000)).unwrap();
    // What is no Markdown is not even read, however large or odd.
    std::fs::write(world.notes.join("data.csv"), vec![0xff; 3 << 20]).unwrap();
    let running = world.serve(&[]);
    derived(&world, 8);
    let shown = waiting(&world, "unprocessed");
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert!(shown.iter().all(|one| one["why"].as_str().unwrap().contains("document-not-utf8")), "{shown:?}");
    // A program has a row for each consumer, and each names the document; a person is shown the document once.
    let event = event_of(&world, "bad.md");
    for one in &shown {
        assert_eq!(
            (&one["about"]["what"], &one["about"]["event"]),
            (&"bad.md".into(), &event.clone().into())
        );
    }
    let text = world.thought(&["inbox"]).expect(0).stdout;
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("unprocessed")).collect();
    assert!(heads.len() == 1 && heads[0].contains("  bad.md of filesystem:notes  "), "{text}");
    assert_eq!(text.matches("document-not-utf8").count(), 4, "{text}");
    let doctor = world.thought(&["doctor", "--quick"]).stdout;
    assert!(
        doctor.lines().any(|line| line.contains("advice") && line.contains("unprocessed (4)")),
        "{doctor}"
    );
    // What it shows leads to the file, and says that it is not run again by itself or by a retry.
    let why = told(&world, &shown[0]["command"]).expect(0).stdout;
    assert!(why.contains("passed as declared; it is about bad.md of filesystem:notes"), "{why}");
    assert!(why.contains(&format!("thought event show {event}")), "{why}");
    let of_event = world.thought(&["why", &event, "--json"]).expect(0).json();
    let states = of_event["consumers"].as_array().unwrap().iter().map(|one| &one["state"]);
    assert_eq!(states.filter(|state| **state == "unprocessed").count(), 4, "{of_event}");
    let explained = world.thought(&["consumer", "explain", "document-tasks", &event]).expect(0).stdout;
    assert!(explained.contains("document-tasks@2 could not process it (document-not-utf8"), "{explained}");
    let execution = shown[0]["id"].as_str().unwrap().to_owned();
    let refused = world.thought(&["consumer", "retry", &execution]).expect(1);
    assert!(refused.stderr.contains("execution.passed") && refused.stderr.contains("replay"), "{refused:?}");
    let runs = world.thought(&["run", "list", "--json", "--state", "failed"]).expect(0).lines();
    assert_eq!((runs.len(), runs.iter().filter(|run| run["attempt"] == 1).count()), (4, 4));
    // A person who has seen it dismisses it, once and with a reason.
    let skip = &shown[0]["ways"][0];
    assert!(told(&world, skip).expect(0).stdout.contains("dismissed"));
    assert!(told(&world, skip).expect(0).stdout.contains("already"));
    assert_eq!(waiting(&world, "unprocessed").len(), 3);
    let acts = world.thought(&["event", "list", "--json", "--source", "system:decisions"]).expect(0).lines();
    assert_eq!((acts.len(), &acts[0]["payload"]["reason"]), (1, &"seen".into()));
    // Who mends the file has nothing left to dismiss.
    write(&world, "bad.md", b"# Better\n");
    derived(&world, 12);
    assert!(world.thought(&["inbox", "--json"]).expect(0).lines().is_empty());
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn what_is_gone_or_taken_up_by_a_newer_version_waits_for_nobody() {
    let world = World::with_config();
    for name in ["gone.md", "stays.md"] {
        std::fs::write(world.notes.join(name), b"\xff").unwrap();
    }
    std::fs::write(world.notes.join("good.md"), "# Good\n").unwrap();
    let running = world.serve(&[]);
    derived(&world, 4);
    assert_eq!(waiting(&world, "unprocessed").len(), 8);
    std::fs::remove_file(world.notes.join("gone.md")).unwrap();
    let look = ["source", "look", "filesystem:notes"];
    world.until(&["inbox", "--json"], |answer| {
        world.thought(&look).expect(0);
        answer.lines().len() == 4
    });
    // A version that goes on where the one before stood leaves it as it is; one that reads anew decides itself.
    let file = world.config.join("declarations/document-tasks.yaml");
    for (change, left) in
        [("", "document-tasks@2"), ("onVersionChange: { replay: [filesystem:notes] }\n", "document-tasks@4")]
    {
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + change).unwrap();
        world.thought(&["declaration", "bump", "document-tasks"]).expect(0);
        world.thought(&["reload"]).expect(0);
        world.until_idle();
        let shown = waiting(&world, "unprocessed");
        let tasks: Vec<&str> = shown.iter().filter_map(|one| one["why"].as_str()).collect();
        let tasks: Vec<&&str> = tasks.iter().filter(|why| why.starts_with("document-tasks")).collect();
        assert!(tasks.len() == 1 && tasks[0].starts_with(left), "{shown:?}");
    }
    // Nobody looks after what a consumer that is gone has left.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("enabled: true", "enabled: false")).unwrap();
    world.thought(&["reload"]).expect(0);
    assert_eq!(waiting(&world, "unprocessed").len(), 3);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn where_nothing_else_is_declared_it_stops_that_consumer_on_that_source_until_a_person_decides() {
    for (declared, kind) in
        [("", "execution-quarantined"), ("retry: { exhausted: hold }\n", "execution-held")]
    {
        let world = World::with_config();
        let file = world.config.join("declarations/document-tasks.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let (before, _) = text.split_once("retry:").unwrap();
        std::fs::write(&file, before.to_owned() + declared).unwrap();
        std::fs::write(world.notes.join("bad.md"), b"# Bad \xff\n").unwrap();
        let running = world.serve(&[]);
        let held = |answer: &Answer| answer.lines().iter().any(|one| one["kind"] == kind);
        world.until(&["inbox", "--json"], held);
        // The first attempt was the last: nothing that waiting could change.
        let one = &waiting(&world, kind)[0];
        assert_eq!(one["why"], "document-tasks@2: document-not-utf8 after 1 attempt");
        assert_eq!(one["about"]["what"], "bad.md");
        write(&world, "late.md", b"# Late\n- [ ] a\n");
        world.until(&["event", "list", "--json", "--type", OUTPUTS], |answer| answer.lines().len() == 3);
        let tasks = |answer: &Answer| {
            let status: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
            status["consumers"].as_array().is_some_and(|consumers| {
                let tasks = consumers.iter().find(|one| one["consumer"] == "document-tasks@2");
                tasks.is_some_and(|tasks| tasks["behind"]["events"] == 2 && tasks["held"] == 1)
            })
        };
        world.until(&["status", "--json"], tasks);
        let why = world.thought(&["why", "document-tasks"]).expect(0).stdout;
        assert!(why.contains("document-not-utf8"), "{why}");
        // A retry is an attempt more, with the same end; the only one that waits need not be named.
        told(&world, &one["command"]).expect(0);
        let again = |answer: &Answer| answer.stdout.contains("document-not-utf8 after 2 attempts");
        world.until(&["inbox", "--json"], again);
        world.thought(&["consumer", "retry", "document-tasks"]).expect(0);
        let again = |answer: &Answer| answer.stdout.contains("document-not-utf8 after 3 attempts");
        world.until(&["inbox", "--json"], again);
        let execution = one["id"].as_str().unwrap();
        let skip = ["consumer", "skip", execution, "--reason", "binary"];
        assert!(world.thought(&skip).expect(0).stdout.contains("skipped"));
        derived(&world, 4);
        assert!(waiting(&world, kind).is_empty());
        assert_eq!(running.stop(), 0);
        world.thought(&["verify"]).expect(0);
    }
}

#[test]
fn what_a_person_erased_is_passed_and_asks_nobody() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.thought(&["consumer", "pause", "document-structure"]).expect(0);
    write(&world, "private.md", b"# Private\n");
    let completed = ["run", "list", "--json", "--state", "completed"];
    world.until(&completed, |answer| answer.lines().len() == 3);
    world.thought(&["event", "redact", &event_of(&world, "private.md"), "--reason", "asked for"]).expect(0);
    world.thought(&["consumer", "resume", "document-structure"]).expect(0);
    let failed = ["run", "list", "--json", "--state", "failed"];
    let runs = world.until(&failed, |answer| !answer.lines().is_empty()).lines();
    assert_eq!((runs.len(), &runs[0]["code"]), (1, &"trigger-erased".into()));
    world.until_idle();
    assert!(world.thought(&["inbox", "--json"]).expect(0).lines().is_empty());
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn what_waits_for_a_disabled_consumer_says_so_and_is_not_said_to_be_retried() {
    let world = World::with_config();
    let file = world.config.join("declarations/document-tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap().replace("exhausted: advance", "exhausted: hold");
    std::fs::write(&file, &text).unwrap();
    std::fs::write(world.notes.join("bad.md"), b"# Bad \xff\n").unwrap();
    let running = world.serve(&[]);
    let held = |answer: &Answer| answer.lines().iter().any(|one| one["kind"] == "execution-held");
    world.until(&["inbox", "--json"], held);
    let execution = waiting(&world, "execution-held")[0]["id"].as_str().unwrap().to_owned();
    std::fs::write(&file, text.replace("enabled: true", "enabled: false")).unwrap();
    world.thought(&["reload"]).expect(0);
    let refused = |world: &World| {
        let refused = world.thought(&["consumer", "retry", &execution]).expect(1);
        assert!(refused.stderr.contains("consumer.disabled") && refused.stdout.is_empty(), "{refused:?}");
        let why = world.thought(&["why", &execution, "--json"]).expect(0).json();
        assert_eq!(why["state"], "held");
        assert!(why["fact"].as_str().unwrap().contains("waits for a disabled consumer"), "{why}");
        assert!(why.get("next").is_none() && !why["commands"].to_string().contains("retry"), "{why}");
    };
    refused(&world);
    assert_eq!(running.stop(), 0);
    // Nor is it while no service runs.
    refused(&world);
    std::fs::write(&file, &text).unwrap();
    let running = world.serve(&[]);
    world.thought(&["consumer", "retry", &execution]).expect(0);
    let again = |answer: &Answer| answer.stdout.contains("document-not-utf8 after 2 attempts");
    world.until(&["inbox", "--json"], again);
    world.thought(&["consumer", "skip", &execution, "--reason", "binary"]).expect(0);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn of_several_executions_that_wait_a_person_names_one_and_is_told_which_there_are() {
    let world = World::with_config();
    let more = world.base().join("more");
    std::fs::create_dir(&more).unwrap();
    let config = world.config.join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let second = format!("sources:\n  - filesystem: more\n    root: {}\n", more.display());
    std::fs::write(&config, text.replacen("sources:\n", &second, 1)).unwrap();
    let file = world.config.join("declarations/document-tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, _) = text.split_once("retry:").unwrap();
    std::fs::write(&file, before.replace("filesystem:notes", "filesystem:*")).unwrap();
    for folder in [&world.notes, &more] {
        std::fs::write(folder.join("bad.md"), b"# Bad \xff\n").unwrap();
    }
    let running = world.serve(&[]);
    let held = |answer: &Answer| {
        answer.lines().iter().filter(|one| one["kind"] == "execution-quarantined").count() == 2
    };
    world.until(&["inbox", "--json"], held);
    let all = waiting(&world, "execution-quarantined");
    let refused = world.thought(&["consumer", "retry", "document-tasks"]).expect(2).stderr;
    assert!(refused.contains("2 executions of document-tasks wait"), "{refused}");
    for one in &all {
        assert!(refused.contains(one["id"].as_str().unwrap()), "{refused}");
    }
    // One is passed; the other is the only one then, and is meant without being named.
    let skip = ["consumer", "skip", all[0]["id"].as_str().unwrap(), "--reason", "binary"];
    world.thought(&skip).expect(0);
    world.thought(&["consumer", "skip", "document-tasks", "--reason", "binary too"]).expect(0);
    assert!(waiting(&world, "execution-quarantined").is_empty());
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}
