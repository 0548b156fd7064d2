//! Backups, exports, and the logs made from them.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::cli_world::World;

fn file(world: &World, name: &str) -> String {
    world.base().join(name).display().to_string()
}

fn events(world: &World, data: &str) -> Vec<Value> {
    let lines =
        world.thought(&["event", "list", "--json", "--data", data, "--limit", "1000"]).expect(0).lines();
    lines.into_iter().filter(|event| event["source"] != "system:decisions").collect()
}

#[test]
fn a_copy_of_private_events_is_made_only_on_purpose_and_only_for_their_owner() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    for command in ["backup", "export"] {
        let target = file(&world, command);
        let refused = world.thought(&[command, &target]).expect(1);
        assert!(refused.stderr.contains("--acknowledge-sensitive"), "{}", refused.stderr);
        assert!(!std::path::Path::new(&target).exists());
        world.thought(&[command, &target, "--acknowledge-sensitive"]).expect(0);
        let mode = std::fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = world.thought(&[command, &target, "--acknowledge-sensitive"]);
        assert!(again.code != 0 && again.stderr.contains("exists"), "{again:?}");
    }
}

#[test]
fn a_log_made_from_a_copy_has_the_same_events_and_waits_for_a_person() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    let (backup, export) = (file(&world, "backup"), file(&world, "export"));
    world.thought(&["backup", &backup, "--acknowledge-sensitive"]).expect(0);
    world.thought(&["export", &export, "--acknowledge-sensitive"]).expect(0);
    let before = events(&world, &world.data.display().to_string());
    assert!(world.thought(&["restore", &backup]).expect(1).stderr.contains("a service runs"));
    assert_eq!(running.stop(), 0);
    world.thought(&["restore", &backup]).expect(1);
    for (command, copy) in [("restore", &backup), ("import", &export)] {
        let data = file(&world, &format!("from-{command}"));
        world.thought(&[command, copy, "--data", &data]).expect(0);
        assert_eq!(events(&world, &data)[..before.len()], before);
        world.thought(&["verify", "--data", &data]).expect(0);
        let waiting = world.thought(&["inbox", "--json", "--data", &data]).expect(0).lines();
        assert!(waiting.len() == 4 && waiting.iter().all(|one| one["kind"] == "consumer-paused"));
    }
}

#[test]
fn a_damaged_copy_makes_nothing() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    let (backup, export) = (file(&world, "backup"), file(&world, "export"));
    world.thought(&["backup", &backup, "--acknowledge-sensitive"]).expect(0);
    world.thought(&["export", &export, "--acknowledge-sensitive"]).expect(0);
    let mut bytes = std::fs::read(&backup).unwrap();
    bytes[..4096].fill(0xa5);
    std::fs::write(&backup, bytes).unwrap();
    let text = std::fs::read_to_string(&export).unwrap();
    std::fs::write(&export, text.replacen("\"x\"", "\"y\"", 1)).unwrap();
    let cut = file(&world, "cut");
    std::fs::write(&cut, &text[..text.len() / 2]).unwrap();
    for (command, copy) in [("restore", &backup), ("import", &export), ("import", &cut)] {
        let data = file(&world, "new");
        let refused = world.thought(&[command, copy, "--data", &data]);
        assert!(matches!(refused.code, 1 | 4), "{refused:?}");
        assert!(!std::path::Path::new(&data).exists(), "{command} left something behind");
        // In a directory that was there before, the half-made log is gone as well.
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
        world.thought(&[command, copy, "--data", &data]);
        assert!(world.thought(&["status", "--data", &data]).expect(4).stderr.contains("store.absent"));
        assert!(!std::path::Path::new(&data).join("log.redb.new").exists());
        std::fs::remove_dir_all(&data).unwrap();
    }
}

#[test]
fn copies_and_new_logs_keep_apart_from_the_log_and_from_watched_folders() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    let good = file(&world, "good");
    world.thought(&["backup", &good, "--acknowledge-sensitive"]).expect(0);
    let inside = |directory: &std::path::Path| directory.join("copy").display().to_string();
    for (target, code) in
        [(inside(&world.data), "copy.inside-data"), (inside(&world.notes), "copy.inside-watched")]
    {
        for command in ["backup", "export"] {
            let refused = world.thought(&[command, &target, "--acknowledge-sensitive"]).expect(1);
            assert!(refused.stderr.contains(code), "{}", refused.stderr);
            assert!(!std::path::Path::new(&target).exists());
        }
    }
    let missing = world.thought(&["backup", &file(&world, "nodir/x"), "--acknowledge-sensitive"]).expect(4);
    assert!(missing.stderr.contains("nodir` for the copy"), "{}", missing.stderr);
    let around = world.base().display().to_string();
    for data in [inside(&world.notes), around] {
        for command in ["restore", "import"] {
            let refused = world.thought(&[command, &good, "--data", &data]).expect(1);
            assert!(refused.stderr.contains("data.overlaps-watched"), "{}", refused.stderr);
        }
    }
}

#[test]
fn a_kept_head_digest_shows_that_the_log_extends_it() {
    let world = World::with_config();
    world.append("a", "x").expect(0);
    let head = world.thought(&["verify", "--json"]).expect(0).json()["head"].as_str().unwrap().to_owned();
    world.append("b", "y").expect(0);
    assert_eq!(world.thought(&["verify", "--from", &head, "--json"]).expect(0).json()["ok"], true);
    let (position, digest) = head.split_once('-').unwrap();
    let other = format!("{position}-{}", digest.chars().rev().collect::<String>());
    let report = world.thought(&["verify", "--from", &other, "--json"]).expect(1).json();
    assert_eq!(report["findings"][0]["kind"], "not-an-extension");
    world.thought(&["verify", "--from", "nonsense"]).expect(2);
}

#[test]
fn an_erased_payload_is_gone_and_the_log_still_whole() {
    let world = World::with_config();
    let id = world.append("k", "a secret").expect(0).json()["id"].as_str().unwrap().to_owned();
    world.thought(&["event", "redact", &id]).expect(2);
    let redacted = world.thought(&["event", "redact", &id, "--reason", "asked for"]).expect(0);
    insta::assert_snapshot!(redacted.stdout.replace(&id, "ID"), @r"
    redacted ID
    what it said may still lie in unused parts of the log's files; `thought compact`, while no service runs, removes it there. Copies made before still hold it, and so does what was made of it
    ");
    let shown = world.thought(&["event", "show", &id, "--json"]).expect(0).json();
    assert!(shown["redacted"] == true && shown["payload"].is_null());
    world.thought(&["verify"]).expect(0);
}

/// Returns the files below a directory whose bytes hold a text.
fn files_with(directory: &std::path::Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
        {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.sort();
    found
}

#[test]
fn of_an_erased_payload_no_byte_is_left_once_the_log_is_compacted() {
    const SECRET: &str = "seventeen-green-bottles";
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    let say =
        |key: &str, text: &str| world.append(key, text).expect(0).json()["id"].as_str().unwrap().to_owned();
    let (short, long) = (say("short", SECRET), say("long", &format!("{SECRET} ").repeat(2000)));
    let kept = say("kept", "what stays");
    for id in [&short, &long] {
        let arguments = ["event", "redact", id.as_str(), "--reason", "asked for", "--json"];
        let redacted = world.thought(&arguments).expect(0).json();
        assert!(redacted["note"].as_str().unwrap().contains("`thought compact`"), "{redacted}");
        let again = world.thought(&arguments).expect(0).json();
        assert!(again["already"] == true && again["note"] == redacted["note"], "{again}");
    }
    let (backup, export) = (file(&world, "backup"), file(&world, "export"));
    world.thought(&["backup", &backup, "--acknowledge-sensitive"]).expect(0);
    world.thought(&["export", &export, "--acknowledge-sensitive"]).expect(0);
    assert_eq!(running.stop(), 0);
    let copies = files_with(world.base(), SECRET);
    assert!(!copies.contains(&"backup".to_owned()) && !copies.contains(&"export".to_owned()), "{copies:?}");
    assert!(!files_with(&world.data, SECRET).is_empty(), "a redaction alone does not clear the files");
    let compacted = world.thought(&["compact", "--json"]).expect(0).json();
    assert_eq!(compacted["writtenAnew"], true);
    assert_eq!(files_with(&world.data, SECRET), Vec::<String>::new());
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    world.until_idle();
    let shown = world.thought(&["event", "show", &kept, "--json"]).expect(0).json();
    assert_eq!(shown["payload"]["text"], "what stays");
    assert_eq!(running.stop(), 0);
    assert_eq!(files_with(&world.data, SECRET), Vec::<String>::new());
}

#[test]
fn upkeep_changes_nothing_that_happened_and_needs_the_log_alone() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    for command in ["compact", "rebuild"] {
        assert!(world.thought(&[command]).expect(1).stderr.contains("thought stop"));
    }
    assert_eq!(running.stop(), 0);
    let before = world.thought(&["verify", "--json"]).expect(0).json();
    for command in ["compact", "rebuild"] {
        world.thought(&[command]).expect(0);
        assert_eq!(world.thought(&["verify", "--json"]).expect(0).json(), before);
    }
}

#[test]
fn a_file_that_is_no_backup_is_named_as_that_and_stays_as_open_as_it_is() {
    let world = World::with_config();
    let (file, fresh) = (world.base().join("list.txt"), world.base().join("fresh").display().to_string());
    std::fs::write(&file, "root:x:0:0\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = world.thought(&["restore", &file.display().to_string(), "--data", &fresh]).expect(4).stderr;
    assert!(refused.contains("no backup") && !refused.contains("chmod"), "{refused}");
    // One that is a backup, and open to others, is to be closed.
    world.append("k", "x").expect(0);
    let backup = world.base().join("copy").display().to_string();
    world.thought(&["backup", &backup, "--acknowledge-sensitive"]).expect(0);
    std::fs::set_permissions(&backup, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = world.thought(&["restore", &backup, "--data", &fresh]).expect(4).stderr;
    assert!(open.contains("chmod 600"), "{open}");
    std::fs::set_permissions(&backup, std::fs::Permissions::from_mode(0o600)).unwrap();
    let made = world.thought(&["restore", &backup, "--data", &fresh]).expect(0).stdout;
    assert!(made.contains(&format!("next: thought --data {fresh} inbox")), "{made}");
}
