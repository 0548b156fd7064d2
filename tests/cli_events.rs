//! Appending and reading events, with and without a service: the answers are the same.

use serde_json::{Value, json};

use crate::cli_world::World;

const LISTED: [&str; 5] = ["event", "list", "--json", "--source", "notes:test"];

#[test]
fn the_same_key_is_the_same_event_and_other_content_a_conflict() {
    let world = World::with_config();
    let answers = |world: &World| {
        let first = world.append("k", "one").expect(0).json();
        let again = world.append("k", "one").expect(0).json();
        assert_eq!((&first["id"], &first["sequence"]), (&again["id"], &again["sequence"]));
        assert_eq!(again["already"], true);
        let conflict = world.append("k", "two").expect(1);
        let failure: serde_json::Value = serde_json::from_str(&conflict.stderr).unwrap();
        let words = failure["what"].as_str().unwrap().split_whitespace();
        let hashes = words.filter(|word| word.trim_end_matches(',').len() == 64);
        assert_eq!(hashes.count(), 2, "{}", conflict.stderr);
        first
    };
    let alone = answers(&world);
    let running = world.serve(&[]);
    assert_eq!(answers(&world)["id"], alone["id"]);
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_key_is_made_and_printed_before_anything_is_sent() {
    let world = World::with_config();
    let arguments = ["event", "append", "--source", "notes:a", "--type", "stream.thought.source.note@1"];
    let arguments: Vec<&str> = arguments.into_iter().chain(["--payload", "-", "--json"]).collect();
    let answer = world.thought_with(&arguments, "{\"text\":\"x\"}").expect(0);
    let key = answer.stderr.strip_prefix("key ").unwrap().trim().to_owned();
    assert_eq!(answer.json()["key"], json!(key));
}

#[test]
fn what_the_registry_refuses_is_refused_with_its_place() {
    let world = World::with_config();
    let append = |source: &str, kind: &str, payload: &str| {
        world
            .thought_with(&["event", "append", "--source", source, "--type", kind, "--payload", "-"], payload)
    };
    let note = "stream.thought.source.note";
    for (source, kind, payload, code, say) in [
        ("notes:a", "stream.thought.source.nota", "{}", 1, "did you mean `stream.thought.source.note`"),
        ("notes:a", "stream.thought.run.completed", "{}", 1, "settlement alone"),
        ("agent:a", note, "{\"text\":\"x\"}", 1, "notes:"),
        ("notes:a", note, "{\"text\":7}", 1, "`/text`: expected string, found number"),
        ("notes:a", note, "{\"tex\":\"x\"}", 1, "did you mean `text`?"),
        ("notes:a", note, "{\"text\":\"x\",\"n\":9007199254740993}", 1, "event.schema"),
        ("notes:a", note, "{\"text\":\"x\",\"text\":\"y\"}", 2, "twice"),
        ("notes:a", note, "{\"text\":", 2, "not JSON"),
        ("notes:a", note, "\u{feff}{}", 2, "not JSON"),
        ("nonsense", note, "{}", 2, "kind:name"),
    ] {
        let answer = append(source, kind, payload).expect(code);
        assert!(answer.stderr.contains(say), "{say}: {}", answer.stderr);
        assert!(!answer.stderr.contains("key hand"), "a key of nothing: {}", answer.stderr);
    }
    let deep = "[".repeat(100_000);
    append("notes:a", note, &deep).expect(2);
    let large = json!({ "text": "x".repeat(5 << 20) }).to_string();
    append("notes:a", note, &large).expect(1);
    world.thought(&["event", "list"]).expect(4);
}

#[test]
fn a_persons_own_type_is_a_schema_file() {
    let world = World::with_config();
    let schema =
        "{\"type\":\"object\",\"properties\":{\"celsius\":{\"type\":\"number\"}},\"required\":[\"celsius\"]}";
    std::fs::write(world.config.join("schemas/home.reading@1.json"), schema).unwrap();
    let append = |payload: &str| {
        let arguments =
            ["event", "append", "--source", "notes:home", "--type", "home.reading", "--payload", "-"];
        world.thought_with(&arguments, payload)
    };
    append("{\"celsius\":21.5}").expect(0);
    append("{\"kelvin\":300}").expect(1);
    std::fs::write(world.config.join("schemas/home.reading@1.json"), "{\"type\":\"object\"}").unwrap();
    let changed = append("{\"kelvin\":300}").expect(2);
    assert!(changed.stderr.contains("schema.changed"), "{}", changed.stderr);
    std::fs::write(world.config.join("schemas/bad.json"), "{}").unwrap();
    assert!(append("{}").expect(2).stderr.contains("TYPE@VERSION.json"));
    // Everything that is wrong is told at once, at its place, whoever asks.
    let wrong = "{\n  \"type\": \"objekt\",\n  \"minProperties\": -1\n}\n";
    std::fs::write(world.config.join("schemas/home.other@1.json"), wrong).unwrap();
    for answer in [append("{}").expect(2), world.thought(&["declaration", "check"]).expect(2)] {
        // What a check finds is its answer; to whoever appends it is the reason why not.
        let said = answer.stdout + &answer.stderr;
        for place in
            ["schemas/bad.json:1:1:", "schemas/home.other@1.json:2:11:", "schemas/home.other@1.json:3:20:"]
        {
            assert!(said.contains(place), "{place}: {said}");
        }
        assert!(said.contains("3 problems"), "{said}");
    }
}

#[test]
fn a_type_without_a_version_is_the_newest_and_with_one_exactly_that() {
    let world = World::with_config();
    let schema = |version: u32, member: &str| {
        let file = world.config.join(format!("schemas/home.reading@{version}.json"));
        let text = json!({
            "type": "object", "properties": { member: { "type": "number" } }, "required": [member],
            "additionalProperties": false,
        });
        std::fs::write(file, text.to_string()).unwrap();
    };
    schema(1, "celsius");
    schema(2, "kelvin");
    let file = world.base().join("reading.json").display().to_string();
    let append = |kind: &str, member: &str, key: &str| {
        std::fs::write(&file, json!({ member: 21.5 }).to_string()).unwrap();
        let words = ["event", "append", "--source", "notes:home", "--type", kind, "--key", key];
        world.thought(&[&words[..], &["--payload", &file, "--json"]].concat())
    };
    let written = |id: &Value| {
        let event = world.thought(&["event", "show", id.as_str().unwrap(), "--json"]).expect(0).json();
        format!("{}@{}", event["type"].as_str().unwrap(), event["version"])
    };
    for up in ["down", "up"] {
        let running = (up == "up").then(|| world.serve(&["--paused"]));
        for (kind, member, version) in [
            ("home.reading", "kelvin", "home.reading@2"),
            ("home.reading@2", "kelvin", "home.reading@2"),
            ("home.reading@1", "celsius", "home.reading@1"),
        ] {
            let appended = append(kind, member, &format!("{up}-{kind}")).expect(0).json();
            assert_eq!(written(&appended["id"]), version);
        }
        let newest = append("home.reading", "celsius", "none").expect(1).stderr;
        assert!(newest.contains("event.schema"), "{newest}");
        append("home.reading@1", "kelvin", "none").expect(1);
        let absent = append("home.reading@3", "kelvin", "none").expect(1).stderr;
        assert!(absent.contains("event.type"), "{absent}");
        drop(running);
    }
    let all = ["event", "list", "--json", "--source", "notes:home"];
    assert_eq!(world.thought(&all).expect(0).lines().len(), 6);
    let nowhere = ["event", "append", "--source", "notes:home", "--type", "home.reading"];
    let nowhere = world.thought(&[&nowhere[..], &["--payload", "nowhere"]].concat()).expect(4);
    assert!(nowhere.stderr.contains("cannot open `nowhere`"), "{}", nowhere.stderr);
}

#[test]
fn a_payload_of_a_mebibyte_is_the_largest_that_is_taken() {
    let world = World::with_config();
    let file = world.base().join("large.json").display().to_string();
    // What stands around the text counts too. A character of four bytes is one of those that a note may have.
    let room = (1 << 20) - json!({ "text": "" }).to_string().len();
    let text = |bytes: usize| "\u{1f331}".repeat(bytes / 4) + &"x".repeat(bytes % 4);
    let append = |length: usize, key: &str| {
        std::fs::write(&file, json!({ "text": text(length) }).to_string()).unwrap();
        let words = ["event", "append", "--source", "notes:test", "--type", "stream.thought.source.note"];
        world.thought(&[&words[..], &["--key", key, "--payload", &file, "--json"]].concat())
    };
    for key in ["down", "up"] {
        let running = (key == "up").then(|| world.serve(&["--paused"]));
        let id = append(room, key).expect(0).json()["id"].as_str().unwrap().to_owned();
        let shown = world.thought(&["event", "show", &id, "--json"]).expect(0).json();
        assert_eq!(shown["payload"]["text"].as_str().unwrap().len(), room);
        let refused = append(room + 1, "more").expect(1).stderr;
        assert!(refused.contains("event.too-large") && refused.contains("1048577"), "{refused}");
        drop(running);
    }
    assert_eq!(world.thought(&LISTED).expect(0).lines().len(), 2);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn answers_are_the_same_whether_the_service_is_up_or_down() {
    let world = World::with_config();
    let id = world.append("a", "first").expect(0).json()["id"].as_str().unwrap().to_owned();
    world.append("b", "second").expect(0);
    let questions: [&[&str]; 5] = [
        &LISTED,
        &["event", "show", &id, "--json"],
        &["event", "lineage", &id, "--json"],
        &["run", "list", "--json"],
        &["inbox", "--json"],
    ];
    let ask = || questions.map(|question| world.thought(question).expect(0).stdout);
    let down = ask();
    let running = world.serve(&["--paused"]);
    let mut up = ask();
    // Started paused, the service itself waits for a person; nothing else differs.
    assert!(up[4].contains("service-paused"));
    up[4].clear();
    assert_eq!(up, down);
    assert_eq!(running.stop(), 0);
    assert_eq!(world.thought(&LISTED).expect(0).stdout, down[0]);
}

#[test]
fn filters_and_pages_of_a_list() {
    let world = World::with_config();
    for number in 0..5 {
        world.append(&format!("k{number}"), &format!("n{number}")).expect(0);
    }
    let texts = |arguments: &[&str]| -> Vec<String> {
        let arguments: Vec<&str> = ["event", "list", "--json"].iter().chain(arguments).copied().collect();
        let lines = world.thought(&arguments).expect(0).lines();
        lines.iter().map(|event| event["payload"]["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&[]), ["n0", "n1", "n2", "n3", "n4"]);
    assert_eq!(texts(&["--limit", "2"]), ["n3", "n4"]);
    assert_eq!(texts(&["--after", "1", "--limit", "2"]), ["n1", "n2"]);
    assert_eq!(texts(&["--after", "0", "--type", "stream.thought.source.*", "--limit", "1"]), ["n0"]);
    assert_eq!(texts(&["--source", "notes:test", "--after", "5"]), Vec::<String>::new());
    let unknown_source = world.thought(&["event", "list", "--source", "notes:tests"]).expect(1);
    assert!(unknown_source.stderr.contains("did you mean `notes:test`?"), "{}", unknown_source.stderr);
    world.thought(&["event", "list", "--type", "Nonsense"]).expect(2);
    assert_eq!(texts(&["--type", "stream.thought.source.note@1", "--limit", "1"]), ["n4"]);
    let answer = world.thought(&["event", "list", "--type", "stream.thought.source.note@99"]).expect(1);
    assert!(answer.stderr.contains("no type `stream.thought.source.note@99`"), "{}", answer.stderr);
    assert!(answer.stderr.contains("there is `stream.thought.source.note@1`"), "{}", answer.stderr);
    let unknown = format!("evt_{}", "a".repeat(52));
    world.thought(&["event", "show", &unknown]).expect(1);
    world.thought(&["why", &unknown]).expect(1);
}

#[test]
fn nothing_from_outside_moves_the_cursor() {
    let world = World::with_config();
    let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{200b}c\r\n\u{7f}\u{feff}d\u{2066}";
    let id = world.append("k", hostile).expect(0).json()["id"].as_str().unwrap().to_owned();
    std::fs::write(world.notes.join("x\u{1b}[31m\u{202e}\n.md"), "# t\u{1b}]0;x\u{7}\n").unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    let clean = |text: &str| text.chars().all(|c| c == '\n' || !thoughtstream_domain::text::is_hostile(c));
    for question in [
        &["event", "list"][..],
        &["event", "show", &id],
        &["event", "list", "--json"],
        &["status"],
        &["tree"],
        &["inbox"],
        &["why", &id],
        &["why", "\u{1b}[2J"],
        &["event", "list", "--type", "\u{1b}[2J"],
        &["\u{1b}[2J"],
    ] {
        let answer = world.thought(question);
        assert!(clean(&answer.stdout) && clean(&answer.stderr), "{question:?} {answer:?}");
    }
    assert!(clean(&world.log()));
    assert_eq!(running.stop(), 0);
    let shown: Value = world.thought(&["event", "show", &id, "--json"]).expect(0).json();
    assert_eq!(shown["payload"]["text"], hostile);
}

#[test]
fn a_type_that_a_hand_cannot_append_is_answered_with_those_that_it_can() {
    let world = World::with_config();
    std::fs::write(world.config.join("schemas/home.reading@1.json"), "{\"type\":\"object\"}").unwrap();
    let refused = |kind: &str| {
        let arguments = ["event", "append", "--source", "notes:x", "--type", kind, "--payload", "-"];
        world.thought_with(&arguments, "{}").expect(1).stderr
    };
    let slip = refused("stream.thought.note");
    assert!(slip.contains("did you mean `stream.thought.source.note`?"), "{slip}");
    assert!(refused("my.reading").contains("did you mean `home.reading`?"));
    for kind in ["bogus", "stream.thought.run.trace", "stream.thought.run.traced"] {
        let told = refused(kind);
        assert!(!told.contains("did you mean"), "{kind}: {told}");
        assert!(told.contains("home.reading, stream.thought.source.note"), "{kind}: {told}");
    }
    let help = world.thought(&["event", "append", "--help"]).expect(0).stdout;
    assert!(help.contains("stream.thought.source.note"), "{help}");
}
