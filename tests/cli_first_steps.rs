//! What a person meets first: init, check, refusals, and what the exit codes mean.

use std::os::unix::fs::PermissionsExt;

use crate::cli_world::World;

#[test]
fn init_writes_what_is_missing_and_never_a_persons_file() {
    let world = World::new();
    let written = world.thought(&["init", "--json"]).expect(0).lines();
    assert!(written.len() > 3 && written[..written.len() - 1].iter().all(|one| one["state"] == "written"));
    let mode = world.data.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let config = world.config.join("config.yaml");
    std::fs::write(&config, "# mine\n").unwrap();
    assert!(world.thought(&["init"]).expect(0).stdout.contains("kept"));
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "# mine\n");
    world.thought(&["declaration", "check"]).expect(0);
    let listed = world.thought(&["declaration", "list", "--json"]).expect(0).lines();
    assert!(listed.iter().any(|one| one["consumer"] == "document-structure@2"));
}

#[test]
fn init_lays_the_schemas_for_editors_beside_the_types_and_renews_only_those() {
    let world = World::new();
    world.thought(&["init"]).expect(0);
    let schema = world.config.join("schemas/declaration.schema.json");
    let shipped = std::fs::read_to_string(&schema).unwrap();
    let named = std::fs::read_to_string(world.config.join("declarations/document-links.yaml")).unwrap();
    assert!(named.starts_with("# yaml-language-server: $schema=../schemas/declaration.schema.json\n"));
    let own = world.config.join("schemas/home.reading@1.json");
    std::fs::write(&own, "{}").unwrap();
    std::fs::write(&schema, "{ \"of\": \"an earlier build\" }").unwrap();
    // They register no type, whatever they hold.
    world.thought(&["declaration", "check"]).expect(0);
    let again = world.thought(&["init", "--json"]).expect(0).lines();
    let states = |state: &str| again.iter().filter(|one| one["state"] == state).count();
    assert_eq!((states("written"), states("renewed")), (0, 1), "{again:?}");
    assert_eq!(std::fs::read_to_string(&schema).unwrap(), shipped);
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "{}");
}

#[test]
fn a_wrong_command_line_is_usage_and_help_is_not() {
    let world = World::new();
    for wrong in [&["bogus"][..], &["tree", "--wach"], &["event", "show"], &["event", "show", "evt_x"], &[]] {
        let answer = world.thought(wrong).expect(2);
        assert!(answer.stdout.is_empty() && !answer.stderr.is_empty(), "{wrong:?}");
    }
    // A program is told which argument it was, too.
    for (wrong, named) in [
        (&["event", "show", "--json"][..], "<ID>"),
        (&["event", "show", "evt_x", "--json"], "evt_x"),
        (&["tree", "--wach", "--json"], "--wach"),
    ] {
        let answer = world.thought(wrong).expect(2);
        let failure: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
        assert_eq!((&failure["code"], &failure["exit"]), (&"command.usage".into(), &2.into()));
        assert!(failure["what"].as_str().unwrap().contains(named), "{failure}");
    }
    assert!(world.thought(&["--help"]).expect(0).stdout.contains("Usage"));
    assert!(world.thought(&["--version"]).expect(0).stdout.starts_with("thought "));
}

#[test]
fn completions_and_pages_are_made_from_the_command_itself() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.thought(&["completions", shell]).expect(0).stdout.contains("declaration"));
    }
    assert!(world.thought(&["man"]).expect(0).stdout.contains(".TH"));
}

#[test]
fn misspelt_and_mistyped_switches_are_all_reported_at_their_place() {
    let world = World::with_config();
    let dir = world.config.join("declarations");
    std::fs::write(dir.join("document-links.yaml"), "id: a\nversion: 1\nenabeld: true\n").unwrap();
    let types = "id: b\nversion: 1.0\nenabled: on\nsubscribe: { types: stream.thought.source.note }\n";
    std::fs::write(dir.join("document-tasks.yaml"), types).unwrap();
    let problems = world.thought(&["declaration", "check", "--json"]).expect(2).lines();
    let has = |file: &str, line: u64| {
        problems.iter().any(|p| p["file"].as_str().unwrap().ends_with(file) && p["line"] == line)
    };
    assert!(has("document-links.yaml", 3) && has("document-tasks.yaml", 2) && has("document-tasks.yaml", 3));
    assert!(has("document-tasks.yaml", 4), "{problems:?}");
    assert!(problems.iter().any(|p| p["suggestion"] == "enabled"));
    let text = world.thought(&["declaration", "check"]).expect(2).stdout;
    assert!(text.contains("did you mean `enabled`?"), "{text}");
    // A service that cannot load everything loads nothing.
    let served = world.thought(&["serve"]).expect(2);
    assert!(served.stderr.contains("enabeld") && !world.data.join("log.redb").exists());
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_is() {
    let world = World::with_config();
    let file = world.base().join("some.txt");
    std::fs::write(&file, "text").unwrap();
    std::os::unix::fs::symlink(&world.data, world.base().join("link")).unwrap();
    let open = world.base().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["some.txt", "link", "open", "nowhere"] {
        let data = world.base().join(name).display().to_string();
        let answer = world.thought(&["status", "--data", &data]).expect(4);
        assert!(answer.stderr.contains(name), "{}", answer.stderr);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
    assert!(!world.base().join("nowhere").exists());
    // A file with the log's name that is none.
    std::fs::write(world.data.join("log.redb"), "text").unwrap();
    world.thought(&["status"]).expect(4);
    assert_eq!(std::fs::read(world.data.join("log.redb")).unwrap(), b"text");
}

#[test]
fn no_log_is_made_among_what_somebody_keeps() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    let backup = world.base().join("copy").display().to_string();
    world.thought(&["backup", &backup, "--acknowledge-sensitive"]).expect(0);
    let kept = world.base().join("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(kept.join("thesis.txt"), "of years").unwrap();
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(&kept).unwrap().map(|one| one.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let data = kept.display().to_string();
    let commands: [&[&str]; 7] = [
        &["serve"],
        &["status"],
        &["stop"],
        &["init"],
        &["rehearsal", "create"],
        &["restore", &backup],
        &["consumer", "pause", "document-links"],
    ];
    for command in commands {
        let refused = world.thought(&[command, &["--data", &data]].concat()).expect(4);
        assert!(refused.stderr.contains("thesis.txt") && refused.stderr.contains("--data"), "{refused:?}");
        assert_eq!(names(), ["thesis.txt"], "{command:?} left something there");
    }
    assert_eq!(std::fs::read(kept.join("thesis.txt")).unwrap(), b"of years");
    // What an interrupted creation of ours has left is taken up.
    for left in [
        &["service.lock", "coming.lock", ".thought-1-0.tmp"][..],
        &["log.redb.new", "journal.0", "thesis.txt"],
    ] {
        let data = world.base().join(left[0]);
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
        for name in left {
            std::fs::write(data.join(name), "").unwrap();
            std::fs::set_permissions(data.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let mut world = World::with_config();
        world.data = data;
        world.append("k", "x").expect(0);
        world.thought(&["verify"]).expect(0);
    }
}

#[test]
fn an_absent_log_is_not_an_empty_one() {
    let world = World::with_config();
    for question in [&["status"][..], &["verify"], &["event", "list"], &["inbox"], &["tree"]] {
        let answer = world.thought(question).expect(4);
        assert!(answer.stdout.is_empty() && answer.stderr.contains("no store"), "{answer:?}");
    }
}

#[test]
fn a_version_rises_in_its_own_file_and_nothing_else_changes() {
    let world = World::with_config();
    let file = world.config.join("declarations/document-links.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    world.thought(&["declaration", "bump", "document-links"]).expect(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before.replacen("version: 2", "version: 3", 1));
    world.thought(&["declaration", "bump", "nobody"]).expect(1);
    assert_eq!(
        world.thought(&["declaration", "show", "document-links", "--json"]).expect(0).json()["version"],
        3
    );
}

#[test]
fn a_declaration_that_is_shown_can_be_saved_and_is_the_same() {
    let world = World::with_config();
    let list = || world.thought(&["declaration", "list", "--json"]).expect(0).lines();
    let fingerprints = |all: &[serde_json::Value]| -> Vec<(String, String)> {
        all.iter().map(|one| (one["consumer"].to_string(), one["fingerprint"].to_string())).collect()
    };
    let before = list();
    assert!(before.len() > 5, "{before:?}");
    for declared in &before {
        let (id, _version) = declared["consumer"].as_str().unwrap().split_once('@').unwrap();
        let shown = world.thought(&["declaration", "show", id]).expect(0).stdout;
        std::fs::write(world.config.join(format!("declarations/{id}.yaml")), shown).unwrap();
    }
    world.thought(&["declaration", "check"]).expect(0);
    assert_eq!(fingerprints(&list()), fingerprints(&before));
}

#[test]
fn files_that_are_too_large_or_no_files_are_problems_and_hide_no_others() {
    let world = World::with_config();
    let at = |name: &str| world.config.join(name);
    let large = format!("{}enabeld: true\n", "# padding\n".repeat(7000));
    std::fs::write(at("config.yaml"), &large).unwrap();
    std::fs::write(at("declarations/large.yaml"), &large).unwrap();
    std::fs::write(at("schemas/home.large@1.json"), " ".repeat(2 << 20)).unwrap();
    std::fs::write(at("prompts/document-links.md"), &large).unwrap();
    std::fs::write(at("declarations/wrong.yaml"), "enabeld: true\n").unwrap();
    std::fs::create_dir(at("declarations/dir.yaml")).unwrap();
    nix::unistd::mkfifo(&at("declarations/pipe.yaml"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    std::fs::write(world.base().join("secret"), "hunter2: [").unwrap();
    std::os::unix::fs::symlink(world.base().join("secret"), at("declarations/link.yaml")).unwrap();
    let answer = world.thought(&["declaration", "check", "--json"]).expect(2);
    assert!(!answer.stdout.contains("hunter2"), "{}", answer.stdout);
    let problems = answer.lines();
    let has = |file: &str, code: &str| problems.iter().any(|p| p["file"] == file && p["code"] == code);
    for file in
        ["config.yaml", "declarations/large.yaml", "schemas/home.large@1.json", "prompts/document-links.md"]
    {
        assert!(has(file, "file.too-large"), "{file}: {problems:?}");
    }
    let size = format!("the file has {} bytes; at most 65536 are read", large.len());
    assert!(problems.iter().any(|p| p["message"] == size.as_str()), "{problems:?}");
    assert!(
        has("declarations/dir.yaml", "file.not-regular") && has("declarations/pipe.yaml", "file.not-regular")
    );
    assert!(has("declarations/link.yaml", "file.link"));
    assert!(problems.iter().any(|p| p["file"] == "declarations/wrong.yaml" && p["suggestion"] == "enabled"));
}

#[test]
fn declarations_that_are_not_there_are_not_no_declarations() {
    let world = World::with_config();
    std::fs::remove_dir_all(world.config.join("declarations")).unwrap();
    for command in [&["declaration", "check"][..], &["serve"]] {
        let answer = world.thought(command).expect(2);
        let said = answer.stdout + &answer.stderr;
        assert!(said.contains("config/declarations") && said.contains("thought init"), "{said}");
    }
    std::fs::remove_dir_all(&world.config).unwrap();
    let said = world.thought(&["declaration", "check"]).expect(2).stdout;
    assert!(said.contains("there is no configuration directory") && said.contains("thought init"), "{said}");
}

#[test]
fn init_says_when_a_kept_configuration_does_not_watch_the_folder() {
    let world = World::with_config();
    let notes = world.notes.display().to_string();
    world.thought(&["init", "--notes", &notes]).expect(0);
    let other = world.base().join("other").display().to_string();
    let missing = world.thought(&["init", "--notes", &other]).expect(2);
    assert!(missing.stderr.contains("other"), "{}", missing.stderr);
    std::fs::create_dir(&other).unwrap();
    let kept = world.thought(&["init", "--notes", &other]).expect(6).stdout;
    assert!(kept.contains("does not watch") && kept.contains(&other), "{kept}");
    let lines = world.thought(&["init", "--notes", &other, "--json"]).expect(6).lines();
    assert!(lines[0]["advice"].as_str().unwrap().contains("does not watch"), "{lines:?}");
}

#[test]
fn a_program_is_told_that_nothing_is_wrong_and_that_nothing_changed() {
    let world = World::with_config();
    let checked = world.thought(&["declaration", "check", "--json"]).expect(0).json();
    assert!(checked["ok"] == true && checked["folders"] == 1 && checked["declarations"] == 7, "{checked}");
    assert_eq!(checked["enabled"], 4, "whoever asks a model is switched on by a person");
    let text = world.thought(&["declaration", "check"]).expect(0).stdout;
    assert!(text.contains("watching 1 folder\n"), "{text}");
    let changes = world.thought(&["declaration", "diff", "document-links", "--json"]).expect(0).json();
    assert_eq!(changes["changes"], serde_json::json!([]));
}

#[test]
fn every_mistake_of_every_file_is_listed_or_counted() {
    let world = World::with_config();
    let dir = world.config.join("declarations");
    let keys: String = (0..500).map(|number| format!("wibble{number}: 1\n")).collect();
    std::fs::write(dir.join("document-links.yaml"), keys).unwrap();
    std::fs::write(dir.join("document-tasks.yaml"), "retry: { max: -1, first: 5 }\npolicy: { tools: [a] }\n")
        .unwrap();
    let of = |problems: &[serde_json::Value], file: &str| -> Vec<serde_json::Value> {
        let of = |problem: &&serde_json::Value| problem["file"].as_str().unwrap().ends_with(file);
        problems.iter().filter(of).cloned().collect()
    };
    let problems = world.thought(&["declaration", "check", "--json"]).expect(2).lines();
    let (long, short) = (of(&problems, "document-links.yaml"), of(&problems, "document-tasks.yaml"));
    let more: u64 = long.iter().filter_map(|problem| problem["more"].as_u64()).sum();
    let rest = long.iter().find(|problem| problem["code"] == "yaml.more-problems").unwrap();
    let missing = 7;
    assert_eq!(long.len() as u64 - 1 + more, 500 + missing, "{rest}");
    assert!(rest["message"].as_str().unwrap().contains(&format!("{more} more problems")), "{rest}");
    let all = long.len() as u64 - 1 + more + short.len() as u64;
    let text = world.thought(&["declaration", "check"]).expect(2).stdout;
    assert!(text.ends_with(&format!("\n{all} problems, {more} of them not listed\n")), "{text}");
    // Each has a way out, and what is suggested would be taken.
    for problem in &problems {
        assert!(problem["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{problem}");
    }
    let hint = |text: &str| {
        let found = short.iter().find(|problem| problem["text"] == text).unwrap();
        found["hint"].as_str().unwrap().to_owned()
    };
    assert!(!hint("-1").contains("-1s") && hint("-1").contains("from `"), "{}", hint("-1"));
    assert_eq!(
        (hint("5").as_str(), hint("a").as_str()),
        ("add a unit, such as `5s`", "write `[]`, or remove the key")
    );
}

#[test]
fn a_source_that_nothing_is_known_of_is_advice() {
    let world = World::with_config();
    let file = world.config.join("declarations/document-links.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let listening = |sources: &str| {
        let at = text.find("subscribe:").unwrap();
        let (before, after) = text.split_at(at);
        let after = after.replacen("  kinds: [filesystem]", &format!("  sources: [{sources}]"), 1);
        assert!(after.contains(sources), "{text}");
        std::fs::write(&file, format!("{before}{after}")).unwrap();
    };
    listening("filesystem:nots");
    let told = world.thought(&["declaration", "check"]).expect(6).stdout;
    assert!(told.contains("declarations/document-links.yaml:") && told.contains("^^^^^^^^^^^^^^^"), "{told}");
    assert!(told.contains("did you mean `filesystem:notes`?") && told.contains("nothing is wrong"), "{told}");
    let advice = world.thought(&["declaration", "check", "--json"]).expect(6).json()["advice"][0].clone();
    assert!(advice["text"] == "filesystem:nots" && advice["suggestion"] == "filesystem:notes", "{advice}");
    assert!(advice["line"].as_u64() > Some(1) && advice["column"].as_u64() > Some(1), "{advice}");
    // A source that people write to by hand comes into being with its first event; one that is in the log is there.
    listening("notes:kitchen");
    world.thought(&["declaration", "check"]).expect(0);
    world.append("k", "x").expect(0);
    let known = world.thought(&["source", "list", "--json"]).expect(0).lines()[0]["source"].clone();
    let known = known.as_str().unwrap();
    listening(known);
    world.thought(&["declaration", "check"]).expect(0);
    listening(&format!("{known}s"));
    let told = world.thought(&["declaration", "check"]).expect(6).stdout;
    assert!(told.contains(&format!("did you mean `{known}`?")), "{told}");
}
