//! Things in trouble: shown with their reason and their way out, moved by a person, never done twice.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;

use redb::ReadableTable as _;
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
    assert_eq!(status["consumers"][0]["consumer"], "document-tasks@2");
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

#[test]
fn files_that_a_look_skips_are_named_until_they_are_gone() {
    let world = World::with_config();
    let large = world.notes.join("large.md");
    std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let odd = world.notes.join(std::ffi::OsStr::from_bytes(b"caf\xe9.md"));
    std::fs::write(&odd, "# Odd\n").unwrap();
    std::os::unix::fs::symlink("large.md", world.notes.join("link.md")).unwrap();
    let running = world.serve(&[]);
    let waiting = world.until(&["inbox", "--json"], |answer| answer.lines().len() == 2).lines();
    let command = "thought source skipped filesystem:notes";
    assert!(waiting.iter().all(|one| one["command"] == command), "{waiting:?}");
    assert!(waiting.iter().all(|one| one["why"].as_str().unwrap().contains("over once")), "{waiting:?}");
    // The command that was offered names every file: what waits first, then what is skipped by design.
    let named = world.thought(&["source", "skipped", "filesystem:notes", "--json"]).expect(0).lines();
    let expected = [
        serde_json::json!({ "path": "caf\\xe9.md", "reason": "name-not-utf8", "incident": "names-refused" }),
        serde_json::json!({ "path": "large.md", "reason": "too-large", "incident": "files-unread", "bytes": 1_u64 << 40 }),
        serde_json::json!({ "path": "link.md", "reason": "link" }),
    ];
    assert_eq!(named, expected);
    let text = world.thought(&["source", "skipped", "filesystem:notes"]).expect(0).stdout;
    assert!(text.contains("caf\\xe9.md") && text.contains("large.md"), "{text}");
    let why = world.thought(&["why", "filesystem:notes", "--json"]).expect(0).json();
    let fact = why["fact"].as_str().unwrap();
    assert!(fact.contains("files-unread: too-large 1") && fact.contains("names-refused: name-not-utf8 1"));
    assert_eq!(why["commands"][0], command);
    // The log counts them and does not name them.
    let events =
        world.thought(&["event", "list", "--source", "system:supervision", "--json"]).expect(0).stdout;
    assert!(!events.contains("large.md") && !events.contains("xe9"), "{events}");
    std::fs::remove_file(&large).unwrap();
    std::fs::rename(&odd, world.notes.join("cafe.md")).unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    world.until(&["inbox", "--json"], |answer| answer.lines().is_empty());
    let unwatched = world.thought(&["source", "skipped", "filesystem:other"]).expect(1);
    assert!(unwatched.stderr.contains("not watched"), "{}", unwatched.stderr);
    assert_eq!(running.stop(), 0);
    let down = world.thought(&["source", "skipped", "filesystem:notes"]).expect(1);
    assert!(down.stderr.contains("no service runs"), "{}", down.stderr);
}

#[test]
fn damage_in_the_middle_of_the_log_is_told_in_words_of_ours() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    let log = world.data.join("log.redb");
    let mut bytes = std::fs::read(&log).unwrap();
    let mut state: u32 = 1;
    let end = bytes.len().min(33 * 4096);
    for byte in &mut bytes[3 * 4096..end] {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = state.to_be_bytes()[0];
    }
    std::fs::write(&log, bytes).unwrap();
    for command in ["status", "verify", "doctor", "inbox"] {
        let answer = world.thought(&[command]);
        assert!(matches!(answer.code, 1 | 4), "{command}: {answer:?}");
        let told = answer.stdout + &answer.stderr;
        assert!(!told.contains("panicked at") && !told.contains("RUST_BACKTRACE"), "{command}: {told}");
    }
}

/// Where the class of privacy stands in the record of a first event: behind version, flags, id, source and sequence.
pub(crate) const PRIVACY: usize = 36;

/// Changes the record of an event in the log of a service that is down.
pub(crate) fn forge(world: &World, position: u64, change: impl FnOnce(&mut [u8])) {
    const EVENTS: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("events");
    let database = redb::Database::open(world.data.join("log.redb")).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut events = write.open_table(EVENTS).unwrap();
        let key = position.to_be_bytes();
        let mut record = events.get(&key[..]).unwrap().unwrap().value().to_vec();
        change(&mut record);
        events.insert(&key[..], &record[..]).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn an_event_that_is_not_what_was_recorded_is_shown_as_damaged_and_acted_on_by_nobody() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n- [ ] a\n").unwrap();
    let running = world.serve(&["--paused"]);
    let added = ["event", "list", "--json", "--type", "stream.thought.source.file.added"];
    let event = world.until(&added, |answer| answer.lines().len() == 1).lines().remove(0);
    assert_eq!(running.stop(), 0);
    world.thought(&["compact"]).expect(0);
    let (id, position) = (event["id"].as_str().unwrap(), event["position"].as_u64().unwrap());
    let ends_in = |record: &mut [u8], bytes: &[u8]| {
        let from = record.len() - bytes.len();
        record[from..].copy_from_slice(bytes);
    };
    let sound = world.thought(&["event", "show", id, "--json"]).expect(0).json();
    let header = |record: &mut [u8]| record[PRIVACY] ^= 0x10;
    for kind in ["chain", "payload", "unread"] {
        forge(&world, position, |record| match kind {
            "chain" => header(record),
            "payload" => {
                header(record);
                ends_in(record, b" }");
            }
            _ => ends_in(record, b"\xff\xff"),
        });
        let one = world.thought(&["event", "show", id, "--json"]).expect(0).json();
        assert_eq!(one["privacy"] != sound["privacy"], kind == "chain", "{one}");
        let listed = world.thought(&added).expect(0).lines().remove(0);
        assert_eq!((&listed["damaged"], &listed["payload"]), (&true.into(), &Value::Null), "{listed}");
        assert!(listed.get("redacted").is_none(), "{listed}");
        assert!(world.thought(&["event", "list"]).expect(0).stdout.contains("(damaged)"));
        assert!(world.thought(&["event", "show", id]).expect(0).stdout.contains("damaged"));
        assert_eq!(world.thought(&["why", id, "--json"]).expect(0).json()["state"], "damaged");
        let found = world.thought(&["verify", "--json"]).expect(1).json();
        assert_eq!(found["findings"][0]["kind"], if kind == "chain" { kind } else { "payload" }, "{found}");
    }
    // Who needs it stands still there, says over which row, and has not passed it; the log alone says so too.
    let row = format!("events {position} (filesystem:notes 1)");
    let down = stand_still(&world, &row, 4);
    assert!(world.thought(&["why", id]).expect(0).stdout.contains("thought consumer skip document-tasks"));
    let running = world.serve(&[]);
    let waiting = stand_still(&world, &row, 4);
    assert_eq!(down, waiting, "up or down, the answer is the same");
    assert_eq!((waiting["id"].as_str(), waiting["kind"].as_str()), (Some(id), Some("event-damaged")));
    for shown in [vec!["why", "document-tasks"], vec!["consumer", "list"], vec!["tree"], vec!["why", id]] {
        let told = world.thought(&shown).expect(0).stdout;
        assert!(told.contains(&row) || shown[1..] == [id], "{shown:?}: {told}");
        assert!(shown[0] != "why" || told.contains("thought consumer skip document-tasks"), "{told}");
    }
    assert!(world.thought(&["run", "list", "--json"]).expect(0).lines().is_empty());
    // Whoever names it by its id, which is sound, is told its place.
    for act in [&["retry"][..], &["skip", "--reason", "lost"]] {
        let named = [&["consumer", act[0], "document-tasks", id][..], &act[1..]].concat();
        let refused = world.thought(&named).expect(1);
        assert!(refused.stderr.contains("--source filesystem:notes --sequence 1"), "{refused:?}");
    }
    // A person erases what is left of it, and they go on.
    world.thought(&["event", "redact", id, "--reason", "damaged"]).expect(0);
    world.until(&["inbox", "--json"], |answer| answer.lines().is_empty());
    world.until_idle();
    assert!(world.thought(&["event", "list"]).expect(0).stdout.contains("(redacted)"));
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

/// Waits until so many consumers stand still before a row, and returns what the inbox says of it and of nothing else.
fn stand_still(world: &World, row: &str, consumers: usize) -> Value {
    let all = |one: &Value| {
        let skips = |way: &&Value| way.as_str().is_some_and(|way| way.starts_with("thought consumer skip"));
        let ways = one["ways"].as_array().map_or(0, |ways| ways.iter().filter(skips).count());
        one["why"].as_str().is_some_and(|why| why.contains(row)) && ways == consumers
    };
    let waiting = world.until(&["inbox", "--json"], |answer| answer.lines().iter().any(all));
    let mut lines = waiting.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

#[test]
fn a_damaged_event_is_passed_by_its_place_for_one_consumer_and_stays_in_the_way_of_the_others() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n- [ ] a\n").unwrap();
    std::fs::write(world.notes.join("b.md"), "# Two\n- [ ] b\n").unwrap();
    let running = world.serve(&["--paused"]);
    let added = ["event", "list", "--json", "--type", "stream.thought.source.file.added"];
    let event = world.until(&added, |answer| answer.lines().len() == 2).lines().remove(0);
    assert_eq!(running.stop(), 0);
    world.thought(&["compact"]).expect(0);
    let position = event["position"].as_u64().unwrap();
    // Its id is lost as well: nothing is left but the place.
    forge(&world, position, |record| {
        record[2] ^= 1;
        record[PRIVACY] ^= 0x10;
    });
    let row = format!("events {position} (filesystem:notes 1)");
    let skip = |consumer: &str, sequence: &str| {
        let place = ["--source", "filesystem:notes", "--sequence", sequence, "--reason", "lost"];
        world.thought(&[&["consumer", "skip", consumer][..], &place].concat())
    };
    for _ in 0..2 {
        let running = world.serve(&[]);
        let waiting = stand_still(&world, &row, 4);
        assert_eq!(waiting["id"], "filesystem:notes", "{waiting}");
        let ways = waiting["ways"].as_array().unwrap();
        assert!(
            ways.iter().all(|way| way.as_str().unwrap().contains("--sequence 1 --reason TEXT")),
            "{ways:?}"
        );
        assert!(world.thought(&["run", "list", "--json"]).expect(0).lines().is_empty());
        // Whoever names the consumer alone is told which place to name.
        let unnamed = world.thought(&["consumer", "skip", "document-tasks", "--reason", "lost"]).expect(2);
        let way = "thought consumer skip document-tasks --source filesystem:notes --sequence 1 --reason TEXT";
        assert!(unnamed.stderr.contains(way), "{unnamed:?}");
        let refused = skip("document-tasks", "2").expect(1);
        assert!(refused.stderr.contains(&format!("{row} is in the way first")), "{refused:?}");
        assert_eq!(running.stop(), 0);
    }
    // Whether the service runs or not, it is passed for the one that is named.
    skip("document-links", "1").expect(0);
    skip("document-metadata", "1").expect(0);
    stand_still(&world, &row, 2);
    let running = world.serve(&[]);
    stand_still(&world, &row, 2);
    skip("document-tasks", "1").expect(0);
    let done = world.until(&["run", "list", "--json"], |answer| {
        answer.lines().iter().filter(|run| run["state"] == "completed").count() == 3
    });
    assert_eq!(done.lines().len(), 3, "{done:?}");
    let waiting = stand_still(&world, &row, 1);
    assert!(waiting["why"].as_str().unwrap().contains("document-structure stands still there"), "{waiting}");
    skip("document-tasks", "1").expect(1);
    skip("nobody", "1").expect(1);
    let passed = ["event", "list", "--json", "--type", "stream.thought.system.damage-skipped"];
    let passed = world.thought(&passed).expect(0).lines();
    assert_eq!((passed.len(), passed[0]["payload"]["reason"].as_str()), (3, Some("lost")), "{passed:?}");
    assert_eq!(running.stop(), 0);
}

#[test]
fn nobody_is_said_to_stand_still_before_a_damaged_event_who_has_something_to_do_before_it() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    let running = world.serve(&["--paused"]);
    let added = ["event", "list", "--json", "--type", "stream.thought.source.file.added"];
    world.until(&added, |answer| answer.lines().len() == 1);
    std::fs::write(world.notes.join("b.md"), "# Two\n").unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    let position = world.thought(&added).expect(0).lines()[1]["position"].as_u64().unwrap();
    assert_eq!(running.stop(), 0);
    world.thought(&["compact"]).expect(0);
    forge(&world, position, |record| record[PRIVACY] ^= 0x10);
    let row = format!("events {position} (filesystem:notes 2)");
    assert!(world.thought(&["inbox", "--json"]).expect(0).lines().is_empty());
    let running = world.serve(&[]);
    let up = stand_still(&world, &row, 4);
    assert_eq!(running.stop(), 0);
    assert_eq!(stand_still(&world, &row, 4), up);
}

#[test]
fn a_folder_that_contains_the_data_directory_is_named_as_that() {
    let world = World::new();
    let base = world.base().display().to_string();
    world.thought(&["init", "--notes", &base]).expect(0);
    let running = world.serve(&[]);
    let incident = |answer: &Answer| answer.stdout.contains("root-overlaps-data");
    world.until(&["inbox", "--json"], incident);
    assert_eq!(running.stop(), 0);
}

/// Returns the codes of the incidents about the notes that these events leave open.
fn open_in(answer: &Answer) -> Vec<String> {
    let mut open = Vec::new();
    for event in answer.lines().iter().filter(|event| event["payload"]["subject"] == "filesystem:notes") {
        let code = event["payload"]["code"].as_str().unwrap().to_owned();
        open.retain(|other| *other != code);
        if event["payload"]["over"] != true {
            open.push(code);
        }
    }
    open
}

#[test]
fn a_folder_is_in_one_state_at_a_time_over_starts_and_the_check_names_the_line() {
    let world = World::with_config();
    let config = world.config.join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let notes = world.notes.display().to_string();
    let file = world.base().join("plain.md");
    std::fs::write(&file, "a file").unwrap();
    let line = 1 + text.lines().position(|line| line.contains("root: ") && line.contains(&notes)).unwrap();
    let data = world.data.display().to_string();
    let states = [
        (world.base().display().to_string(), "root-overlaps-data", 2),
        (format!("{data}/below"), "root-missing", 6),
        (format!("{}/~/notes", world.base().display()), "root-missing", 2),
        (file.display().to_string(), "root-not-a-directory", 2),
    ];
    for (root, code, exit) in states {
        std::fs::write(&config, text.replace(&notes, &root)).unwrap();
        let running = world.serve(&[]);
        let inbox = world.until(&["inbox", "--json"], |answer| answer.stdout.contains(code));
        assert_eq!(inbox.lines().len(), 1, "{code}: {}", inbox.stdout);
        assert_eq!(inbox.lines()[0]["command"], "thought declaration check", "{}", inbox.stdout);
        let told = world.thought(&["declaration", "check"]).expect(exit).stdout;
        assert!(told.contains(&format!("config.yaml:{line}:")) && told.contains("config.root"), "{told}");
        // In the log as well one word is open, not only on the list.
        world.until(&["event", "list", "--source", "system:supervision", "--json"], |answer| {
            open_in(answer) == [code]
        });
        assert_eq!(running.stop(), 0);
    }
    std::fs::write(&config, &text).unwrap();
    world.thought(&["declaration", "check"]).expect(0);
    let running = world.serve(&[]);
    world.until(&["inbox"], |answer| answer.stdout == "nothing waits\n");
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_name_that_nobody_knows_is_refused_with_the_nearest_one() {
    let world = World::with_config();
    let id = world.append("k", "x").expect(0).json()["id"].as_str().unwrap().to_owned();
    for (arguments, near) in [
        (["run", "list", "--consumer", "document-link"], "document-links"),
        (["event", "list", "--source", "notes:tets"], "notes:test"),
        (["event", "list", "--type", "stream.thought.source.notes"], "stream.thought.source.note"),
        (["event", "list", "--type", "nope.*"], ""),
    ] {
        if arguments[0] == "run" {
            assert_eq!(world.serve(&["--paused"]).stop(), 0);
        }
        let refused = world.thought(&arguments).expect(1);
        assert!(refused.stderr.contains("id.unknown") && refused.stderr.contains(near), "{}", refused.stderr);
    }
    world.thought(&["event", "list", "--type", "stream.thought.source.file.removed"]).expect(0);
    let explained = world.thought(&["consumer", "explain", "document-links@2", &id, "--json"]).expect(0);
    assert_eq!(explained.json()["consumer"], "document-links@2");
    world.thought(&["consumer", "explain", "document-links@9", &id]).expect(1);
}

#[test]
fn a_failure_is_one_line_for_a_person_and_one_object_for_a_program() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    // What a person named is told on one line, whatever it holds.
    let hostile = world.base().join("no\nthought: all is well\u{1b}[2J").display().to_string();
    let told = world.thought(&["status", "--data", &hostile]).expect(4).stderr;
    assert!(
        !told.contains('\u{1b}') && told.lines().next().unwrap().contains("\\nthought: all is well"),
        "{told}"
    );
    let missing = "evt_0000000000000000000000000000000000000000";
    for (arguments, code, exit) in [
        (&["event", "list", "--source", "notes:tets"][..], "id.unknown", 1),
        (&["status", "--state", "odd"], "consumer.state", 2),
        (&["status", "--data", &hostile], "data.directory", 4),
        (&["event", "list", "--odd"], "command.usage", 2),
        (&["event", "show", missing], "", 0),
    ] {
        let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let answer = world.thought(&all);
        let failure: Value = serde_json::from_str(&answer.stderr).unwrap_or_else(|_| panic!("{answer:?}"));
        assert!(answer.stdout.is_empty() && !answer.stderr.trim_end().contains('\n'), "{answer:?}");
        assert_eq!(failure["exit"], answer.code);
        if !code.is_empty() {
            assert_eq!((failure["code"].as_str().unwrap(), answer.code), (code, exit));
        }
    }
    // A log that others may read is refused with the command that closes it.
    let log = world.data.join("log.redb");
    for (path, bits) in [(&log, "600"), (&world.data, "700")] {
        let before = std::fs::metadata(path).unwrap().permissions();
        std::fs::set_permissions(path, PermissionsExt::from_mode(if bits == "600" { 0o644 } else { 0o755 }))
            .unwrap();
        let told = world.thought(&["status"]).expect(4).stderr;
        assert!(told.contains("chmod"), "{told}");
        std::fs::set_permissions(path, before).unwrap();
    }
    let pages = world.base().join("not/there/yet").display().to_string();
    world.thought(&["man", "--dir", &pages]).expect(0);
    assert!(std::path::Path::new(&pages).join("thought.1").exists());
}

#[test]
fn what_would_do_nothing_says_so() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    world.thought(&["consumer", "pause", "document-links"]).expect(0);
    let restarted = world.thought(&["consumer", "restart", "document-links"]).expect(0);
    assert!(restarted.stdout.contains("consumer resume document-links"), "{}", restarted.stdout);
    let plain = world.thought(&["consumer", "restart", "document-tasks"]).expect(0);
    assert!(!plain.stdout.contains("resume"), "{}", plain.stdout);
    let nothing = world.thought(&["source", "accept-removals", "filesystem:notes"]).expect(1);
    assert!(nothing.stderr.contains("source.nothing-held"), "{}", nothing.stderr);
    world.thought(&["source", "accept-removals", "filesystem:other"]).expect(1);
    for unknown in [["--source", "notes:tets"], ["--type", "stream.thought.source.notes"]] {
        let arguments: Vec<&str> = ["event", "tail"].into_iter().chain(unknown).collect();
        let refused = world.thought(&arguments).expect(1);
        assert!(refused.stderr.contains("id.unknown"), "{}", refused.stderr);
    }
    // Who is behind says since when.
    std::fs::write(world.notes.join("a.md"), "# Two\n[x](y.md)\n").unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    let behind = |answer: &Answer| {
        answer.lines().iter().any(|one| one["consumer"] == "document-links@2" && one["behind"]["events"] == 1)
    };
    let listed = world.until(&["consumer", "list", "--json"], behind).lines();
    let links = listed.iter().find(|one| one["consumer"] == "document-links@2").unwrap();
    assert!(links["behind"]["since"].is_string(), "{links}");
    assert_eq!(running.stop(), 0);
}

#[test]
fn who_has_a_service_reload_stop_or_let_removals_pass_is_in_the_log() {
    let world = World::with_config();
    for number in 0..40 {
        std::fs::write(world.notes.join(format!("{number}.md")), "# One\n").unwrap();
    }
    let running = world.serve(&[]);
    world.until_idle();
    for number in 1..40 {
        std::fs::remove_file(world.notes.join(format!("{number}.md"))).unwrap();
    }
    let held = |answer: &Answer| answer.stdout.contains("removals-held");
    world.until(&["inbox", "--json"], |answer| {
        world.thought(&["source", "look", "filesystem:notes"]).expect(0);
        held(answer)
    });
    let accepted =
        world.thought(&["source", "accept-removals", "filesystem:notes", "--json"]).expect(0).json();
    let event = accepted["event"].as_str().unwrap().to_owned();
    world.until(&["inbox", "--json"], |answer| answer.lines().is_empty());
    world.thought(&["reload"]).expect(0);
    running.signal(nix::sys::signal::Signal::SIGHUP);
    let loaded = ["event", "list", "--json", "--type", "stream.thought.system.declarations-loaded"];
    let loaded = world.until(&loaded, |answer| answer.lines().len() == 3).lines();
    assert_eq!(running.stop(), 0);
    let running = world.serve(&[]);
    running.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(running.wait(), 0);
    let stopped = ["event", "list", "--json", "--type", "stream.thought.system.stopped"];
    let stopped = world.thought(&stopped).expect(0).lines();
    let shown = world.thought(&["event", "show", &event, "--json"]).expect(0).json();
    assert_eq!(shown["type"], "stream.thought.system.removals-accepted");
    let uid = |event: &Value| event["payload"]["operator"]["uid"].as_u64();
    let ours = Some(u64::from(nix::unistd::getuid().as_raw()));
    // A start and a signal come from nobody that the service could name.
    assert_eq!(loaded.iter().map(uid).collect::<Vec<_>>(), [None, ours, None]);
    assert_eq!(stopped.iter().map(uid).collect::<Vec<_>>(), [ours, None]);
    assert_eq!(uid(&shown), ours);
    world.thought(&["verify"]).expect(0);
}
