//! What would come of a proposal, before anybody decides: held against the file as it is, and nothing is written.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::geteuid;
use serde_json::{Value, json};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::text::is_hostile;
use thoughtstream_effects::pinned::PinnedRoot;
use thoughtstream_testkit::proposals::{ADDED, MEMORY, Setting};

use super::{Desk, on_a_terminal, says_nothing};
use crate::cli_world::{Answer, World};

const CHANGED: &str = "---\nid: memory\n---\n\nBy hand.\n";

/// Makes a world whose folder of documents is there, with room for so many bytes a file.
fn remembering(bytes_max: usize) -> Desk {
    remembering_in(World::with_config(), bytes_max)
}

fn remembering_in(world: World, bytes_max: usize) -> Desk {
    let root = folder(&world);
    std::fs::DirBuilder::new().mode(0o700).create(&root).unwrap();
    std::fs::write(root.join("memory.md"), MEMORY).unwrap();
    watching(world, &root, bytes_max)
}

/// Makes a world that watches a folder of documents which is there.
fn watching(world: World, root: &Path, bytes_max: usize) -> Desk {
    let config = format!(
        "sources:\n  - {{ filesystem: telegram-agent-context, root: {}, privacy: sensitive, maxBytes: {bytes_max} }}\n",
        root.display()
    );
    std::fs::write(world.config.join("config.yaml"), config).unwrap();
    Desk::of(world, &Setting::default())
}

fn folder(world: &World) -> PathBuf {
    world.base().join("context")
}

/// Returns everything in a folder with its kind, its mode and what it holds.
fn picture(root: &Path) -> Vec<String> {
    let mut all: Vec<String> = std::fs::read_dir(root)
        .map(|entries| {
            let entry = |entry: std::fs::DirEntry| {
                let found = std::fs::symlink_metadata(entry.path()).unwrap();
                let holds = std::fs::read(entry.path()).unwrap_or_default();
                format!("{:?} {:?} {:?} {holds:?}", entry.path(), found.file_type(), found.permissions())
            };
            entries.map(|it| entry(it.unwrap())).collect()
        })
        .unwrap_or_default();
    all.sort();
    all
}

fn outlook(desk: &Desk) -> Value {
    desk.one(&desk.memory())["outlook"].clone()
}

fn dry(desk: &Desk, what: &[&str]) -> Answer {
    let memory = desk.memory();
    let arguments: Vec<&str> =
        ["inbox"].iter().chain(what).chain(&[memory.as_str(), "--dry-run"]).copied().collect();
    desk.world.thought(&arguments)
}

#[test]
fn a_change_that_fits_is_said_to_and_is_then_written_so() {
    let desk = remembering(100_000);
    let root = folder(&desk.world);
    for serves in [false, true] {
        let running = serves.then(|| desk.world.serve(&[]));
        let before = picture(&root);
        let said = outlook(&desk);
        let result = format!("{MEMORY}{ADDED}\n");
        let hash = Sha256Hash::of(result.as_bytes());
        let base = Sha256Hash::of(MEMORY.as_bytes());
        assert_eq!(
            said,
            json!({ "verdict": "applies", "baseSha256": base, "resultSha256": hash, "resultBytes": result.len() })
        );
        let shown = desk.world.thought(&["inbox", "show", &desk.memory(), "--content"]).expect(0).stdout;
        let now = format!("now       it would be written, from {} to {}, ", base.short(), hash.short());
        assert!(shown.contains(&now) && shown.contains("  │ +Moved to Lisbon."), "{shown}");
        let dry = dry(&desk, &["accept"]).expect(0);
        assert!(dry.stdout.starts_with("accept: a dry run, and nothing was decided\n"), "{}", dry.stdout);
        assert!(dry.stdout.contains(&now), "{}", dry.stdout);
        says_nothing(&dry);
        assert_eq!(picture(&root), before, "a dry run writes nothing");
        assert!(desk.decisions().is_empty());
        if let Some(running) = running {
            let made = desk.world.thought(&["inbox", "accept", &desk.memory()]).expect(0).stdout;
            assert!(made.contains("the file changes only when this is materialized"), "{made}");
            desk.world.until(&["proposal-list", &desk.memory(), "--json"], |it| {
                it.json()["state"] == "materialized"
            });
            assert_eq!(std::fs::read_to_string(root.join("memory.md")).unwrap(), result);
            assert_eq!(outlook(&desk), Value::Null);
            let again = desk.world.thought(&["inbox", "accept", &desk.memory()]).expect(0).stdout;
            assert!(
                again.starts_with("already accepted ") && again.contains("it is written: evt_"),
                "{again}"
            );
            assert_eq!(running.stop(), 0);
            desk.verify();
        }
    }
}

#[test]
fn what_would_keep_a_change_from_the_file_is_said_before_anybody_decides() {
    type Spoil = fn(&Path);
    let file = |root: &Path| root.join("memory.md");
    assert!(file(Path::new("/")).is_absolute());
    let spoils: [(Spoil, &str, &str); 7] = [
        (|root| std::fs::write(root.join("memory.md"), CHANGED).unwrap(), "file-changed", "ask for it again"),
        (|root| std::fs::remove_file(root.join("memory.md")).unwrap(), "file-missing", "put memory.md back"),
        (
            |root| {
                std::fs::rename(root.join("memory.md"), root.join("other")).unwrap();
                symlink("other", root.join("memory.md")).unwrap();
            },
            "file-linked",
            "put the file itself",
        ),
        (
            |root| {
                std::fs::remove_file(root.join("memory.md")).unwrap();
                std::fs::create_dir(root.join("memory.md")).unwrap();
            },
            "file-unfit",
            "has to be a regular file",
        ),
        (|root| std::fs::remove_dir_all(root).unwrap(), "root-unfit", "has to be there"),
        (
            |root| {
                std::fs::rename(root, root.with_file_name("aside")).unwrap();
                symlink("aside", root).unwrap();
            },
            "root-unfit",
            "has to be there",
        ),
        (|_| {}, "too-large", "put a text that fits"),
    ];
    for (spoil, code, out) in spoils {
        let room = if code == "too-large" { MEMORY.len() + 5 } else { 100_000 };
        let desk = remembering(room);
        let root = folder(&desk.world);
        spoil(&root);
        let before = picture(&root);
        let said = outlook(&desk);
        assert_eq!((&said["verdict"], &said["code"]), (&json!("fails"), &json!(code)), "{said}");
        let shown = desk.world.thought(&["inbox", "show", &desk.memory()]).expect(0).stdout;
        assert!(
            shown.contains(&format!("now       it would fail as {code}: ")) && shown.contains(out),
            "{shown}"
        );
        // What can only fail is held out to nobody, and stays anybody's right.
        assert!(!shown.contains("thought inbox accept "), "{shown}");
        let listed = desk.inbox().iter().map(|row| row["why"].to_string()).collect::<String>();
        assert!(listed.contains(&format!("accepted, it would fail as {code}")), "{listed}");
        let why = desk.world.thought(&["why", &desk.memory()]).expect(0).stdout;
        assert!(why.contains(code) && why.contains(out), "{why}");
        if code == "file-changed" {
            let (base, found) = (Sha256Hash::of(MEMORY.as_bytes()), Sha256Hash::of(CHANGED.as_bytes()));
            assert_eq!((&said["baseSha256"], &said["foundSha256"]), (&json!(base), &json!(found)));
            assert!(shown.contains(&format!("it is about {base}, and the file holds {found}")), "{shown}");
            assert_eq!(desk.one(&desk.memory())["state"], "stale");
        }
        let dry = dry(&desk, &["accept", "--json"]).expect(1).json();
        assert_eq!(dry["outlook"], said);
        assert!(desk.decisions().is_empty());
        let made = desk.world.thought(&["inbox", "accept", &desk.memory()]).expect(0).stdout;
        let told = format!("the file does not change as things are: it would fail as {code}: ");
        assert!(made.starts_with("accepted evt_") && made.contains(&told) && made.contains(out), "{made}");
        let waits = desk.one(&desk.memory());
        assert_eq!((&waits["state"], &waits["outlook"]), (&json!("unmaterialized"), &said));
        assert_eq!(picture(&root), before, "nobody wrote anything");
    }
}

#[test]
fn what_fails_is_said_by_a_running_service_too_and_comes_true() {
    let desk = remembering(100_000);
    let running = desk.world.serve(&[]);
    let file = folder(&desk.world).join("memory.md");
    std::fs::write(&file, CHANGED).unwrap();
    // Before its source is looked at the file is another, and after it the document.
    let said = outlook(&desk);
    assert!([json!("file-changed"), json!("stale-base")].contains(&said["code"]), "{said}");
    assert_eq!(said["foundSha256"], json!(Sha256Hash::of(CHANGED.as_bytes())));
    let dry = desk.decide(&desk.memory(), &["accept", "--dry-run"]).expect(1).stdout;
    assert!(dry.contains("it would fail as "), "{dry}");
    let made = desk.decide(&desk.memory(), &["accept"]).expect(0).stdout;
    assert!(made.contains("the file does not change as things are"), "{made}");
    desk.world.until(&["proposal-list", &desk.memory(), "--json"], |it| it.json()["state"] == "failed");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), CHANGED);
    let again = desk.decide(&desk.memory(), &["accept"]).expect(0).stdout;
    assert!(again.starts_with("already accepted ") && again.contains("it was not written: "), "{again}");
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_folder_that_another_process_owns_or_may_own_is_said_to_be() {
    let desk = remembering(100_000);
    let root = folder(&desk.world);
    let lock = PinnedRoot::open(&root).unwrap().own(".thought-materializer", 7).unwrap();
    let held = picture(&root);
    let said = outlook(&desk);
    assert_eq!((&said["verdict"], &said["code"]), (&json!("waits"), &json!("root-held")), "{said}");
    let shown = dry(&desk, &["accept"]).expect(0).stdout;
    assert!(
        shown.contains("now       it would wait, root-held: another process owns the folder of filesystem:"),
        "{shown}"
    );
    assert_eq!(picture(&root), held);
    drop(lock);
    let record = root.join(".thought-materializer.owner");
    std::fs::write(&record, "somebody else's").unwrap();
    std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(outlook(&desk)["code"], "root-lock-damaged");
    std::fs::remove_file(&record).unwrap();
    assert_eq!(outlook(&desk)["verdict"], "applies");
    // Where no folder is configured, or nobody can read which, that is what is said.
    let config = desk.world.config.join("config.yaml");
    std::fs::write(&config, "sources: []\n").unwrap();
    assert_eq!(outlook(&desk)["code"], "no-context-root");
    std::fs::write(&config, "sources: [\n").unwrap();
    assert_eq!(outlook(&desk)["code"], "config-unread");
}

/// Runs a command without the right to read and write what its mode forbids, which only root has.
fn without_privileges(desk: &Desk, arguments: &[&str]) -> Answer {
    let plain = desk.world.command(arguments);
    if !geteuid().is_root() {
        return { plain }.output().unwrap().into();
    }
    let mut command = Command::new("setpriv");
    let less = ["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"];
    command.args(less).arg(plain.get_program()).args(plain.get_args()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(desk.world.base()).output().unwrap().into()
}

#[test]
fn a_file_or_a_folder_that_may_not_be_read_or_written_is_said_to_be() {
    let desk = remembering(100_000);
    let root = folder(&desk.world);
    let said = |desk: &Desk| {
        let list = ["proposal-list", &desk.memory(), "--json"];
        without_privileges(desk, &list).expect(0).json()["outlook"]["code"].clone()
    };
    assert_eq!(said(&desk), Value::Null);
    let mode =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(&root.join("memory.md"), 0o000);
    assert_eq!(said(&desk), "file-unfit");
    let dry = ["inbox", "accept", &desk.memory(), "--dry-run"];
    let shown = without_privileges(&desk, &dry).expect(1).stdout;
    assert!(shown.contains("that the service may read"), "{shown}");
    mode(&root.join("memory.md"), 0o600);
    mode(&root, 0o500);
    assert_eq!(said(&desk), "root-lock-failed");
    mode(&root, 0o700);
    assert_eq!(said(&desk), Value::Null);
}

#[test]
fn a_dry_run_is_refused_as_the_decision_would_be_and_shows_an_edit_as_it_would_stand() {
    let desk = remembering(100_000);
    let (memory, correction) = (desk.memory(), desk.correction());
    let write = |text: &str| std::fs::write(desk.world.base().join("text"), text).unwrap();
    write("Moved to Lisbon in May.");
    let shown = dry(&desk, &["edit", "--file", "text", "--content"]).expect(0).stdout;
    assert!(shown.starts_with("edit: a dry run, and nothing was decided\n"), "{shown}");
    assert!(
        shown.contains("  │ +Moved to Lisbon in May.") && !shown.contains("│ +Moved to Lisbon.\n"),
        "{shown}"
    );
    let json = dry(&desk, &["edit", "--file", "text", "--json"]).expect(0).json();
    let result = Sha256Hash::of(format!("{MEMORY}Moved to Lisbon in May.\n").as_bytes());
    assert_eq!(json["outlook"]["resultSha256"], json!(result));
    assert_eq!(json.get("content"), None);
    // What a person writes may be anything that a model may write, is shown as safely, and fails in the same place.
    write("a\u{1b}[2Jb\u{202e}c");
    let shown = dry(&desk, &["edit", "--file", "text", "--content"]).expect(0).stdout;
    assert!(shown.contains("  │ +a\\u{1b}[2Jb\\u{202e}c"), "{shown}");
    assert!(shown.chars().all(|c| c == '\n' || !is_hostile(c)), "{shown:?}");
    for (text, code) in [("a\0b", "not-text"), (" \n\t", "unchanged")] {
        write(text);
        let json = dry(&desk, &["edit", "--file", "text", "--json"]).expect(1).json();
        assert_eq!(json["outlook"]["code"], code);
    }
    // Nothing follows from a refusal, and a correction changes no file.
    assert_eq!(dry(&desk, &["reject", "--json"]).expect(0).json().get("outlook"), None);
    let shown =
        desk.world.thought(&["inbox", "accept", &correction, "--dry-run", "--content"]).expect(0).stdout;
    assert!(shown.contains("  │ You live in Lisbon.") && !shown.contains("now  "), "{shown}");
    write(&"x".repeat(4_097));
    let refused =
        desk.world.thought(&["inbox", "edit", &correction, "--file", "text", "--dry-run"]).expect(1);
    assert!(refused.stderr.contains("proposal.replacement"), "{refused:?}");
    let focus = desk.story.focus.id.to_string();
    let refused = desk.decide(&focus, &["accept", "--dry-run"]).expect(1);
    assert!(refused.stderr.contains("proposal.no-decision"), "{refused:?}");
    desk.decide(&memory, &["accept", "--dry-run", "--submission", "mine"]).expect(2);
    desk.decide(&memory, &["accept", "--content"]).expect(2);
    assert!(
        on_a_terminal(&desk.world, &["inbox", "accept", &memory, "--dry-run"])
            .contains("  │ +Moved to Lisbon.")
    );
    assert!(desk.decisions().is_empty());
    desk.decide(&memory, &["reject"]).expect(0);
    let refused = desk.decide(&memory, &["accept", "--dry-run"]).expect(1);
    assert!(refused.stderr.contains("proposal.decided"), "{refused:?}");
    assert_eq!(desk.decisions().len(), 1);
    desk.verify();
}

#[test]
fn a_change_whose_end_nobody_knows_and_one_that_failed_say_their_way_out() {
    let desk = remembering_in(Desk::rehearsal_world(), 100_000);
    let (root, memory) = (folder(&desk.world), desk.memory());
    let aside = root.with_file_name("aside");
    let running = desk.world.serve(&[]);
    desk.world.thought(&["rehearsal", "arm", "materialize.exchange.inside", "abort-process"]).expect(0);
    let cut = desk.decide(&memory, &["accept"]);
    assert!([0, 4, 5].contains(&cut.code), "{cut:?}");
    assert_ne!(running.wait(), 0);
    // Written or not: the folder that could tell is gone.
    std::fs::rename(&root, &aside).unwrap();
    let running = desk.world.serve(&[]);
    let list = ["proposal-list", &memory, "--json"];
    let open = desk.world.until(&list, |it| it.json()["code"] == "root-unfit").json();
    assert_eq!(open["state"], "materializing");
    for asks in [&["inbox", "show", memory.as_str()][..], &["why", &memory]] {
        let told = desk.world.thought(asks).expect(0).stdout;
        let says =
            "nobody knows whether it was written: put the folder back, or make an empty one in its place";
        assert!(told.contains(says), "{told}");
    }
    std::fs::DirBuilder::new().mode(0o700).create(&root).unwrap();
    let failed = desk.world.until(&list, |it| it.json()["state"] == "failed").json();
    assert_eq!((&failed["code"], failed.get("outlook")), (&json!("file-missing"), None));
    let trigger = desk.story.trigger.id;
    let out = format!(
        "a change that failed has failed for good, and nothing is rebased: put memory.md back, then ask for it \
         again in the chat, as in {trigger}"
    );
    assert_eq!(failed["hint"], json!(out));
    let shows = format!("thought event show {trigger}");
    assert!(failed["ways"].as_array().unwrap().contains(&json!(shows)), "{failed}");
    let shown = desk.world.thought(&["inbox", "show", &memory, "--content"]).expect(0).stdout;
    let again = "again     is asked for in the chat, as this was:\n  │ I moved to Lisbon, remember that.";
    assert!(shown.contains(again) && shown.contains(&format!("way out   {shows}")), "{shown}");
    assert!(desk.world.thought(&["why", &memory]).expect(0).stdout.contains(&out));
    says_nothing(&desk.world.thought(&["inbox", "show", &memory]).expect(0));
    assert_eq!(running.stop(), 0);
}

#[test]
fn of_two_services_on_one_folder_one_writes_and_the_other_says_who_is_in_its_way() {
    let first = remembering(100_000);
    let root = folder(&first.world);
    let second = watching(World::with_config(), &root, 100_000);
    let one = first.world.serve(&[]);
    let two = second.world.serve(&[]);
    let memory = second.memory();
    let made = second.decide(&memory, &["accept"]).expect(0).stdout;
    assert!(
        made.contains("it would wait, root-held: another process owns the folder of filesystem:"),
        "{made}"
    );
    // Who that is, is said wherever it is known.
    let who = format!("(it is process {})", one.pid());
    assert!(made.contains(&who), "{made}");
    let held = |answer: &Answer| answer.stdout.contains("root-held");
    second.world.until(&["tree"], held);
    let tree = second.world.thought(&["tree", "--json"]).expect(0).stdout;
    assert!(tree.contains(&format!("\"holder\":{}", one.pid())), "{tree}");
    for look in [&["why", memory.as_str()][..], &["inbox", "show", &memory]] {
        let told = second.world.until(look, held).stdout;
        assert!(told.contains("another process owns the folder of filesystem:"), "{told}");
        assert!(told.contains(&who), "{told}");
    }
    first.decide(&first.memory(), &["accept"]).expect(0);
    let state = |wanted: &'static str| move |answer: &Answer| answer.json()["state"] == wanted;
    first.world.until(&["proposal-list", &first.memory(), "--json"], state("materialized"));
    let written = std::fs::read_to_string(root.join("memory.md")).unwrap();
    assert_eq!(written, format!("{MEMORY}{ADDED}\n"));
    assert_eq!(one.stop(), 0);
    // It owns the folder now, and its change was made for what is not there any more.
    let failed = second.world.until(&["proposal-list", &memory, "--json"], state("failed")).json();
    assert!([json!("stale-base"), json!("file-changed")].contains(&failed["code"]), "{failed}");
    assert_eq!(std::fs::read_to_string(root.join("memory.md")).unwrap(), written);
    assert_eq!(two.stop(), 0);
    first.verify();
    second.verify();
}

#[test]
fn a_printed_command_names_the_log_that_its_caller_named() {
    let desk = Desk::new(&Setting::default());
    let (data, config) = (desk.world.data.display().to_string(), desk.world.config.display().to_string());
    let elsewhere = |arguments: &[&str]| -> Answer {
        let named = ["--data", data.as_str(), "--config", &config];
        let all: Vec<&str> = named.iter().chain(arguments).copied().collect();
        let mut command = desk.world.command(&all);
        command.env_remove("THOUGHTSTREAM_DATA").env_remove("THOUGHTSTREAM_CONFIG");
        command.output().unwrap().into()
    };
    let flags = format!("thought --data {data} --config {config} ");
    for asks in [&["inbox", "--json"][..], &["proposal-list", "--json"], &["why", &desk.memory(), "--json"]] {
        for row in elsewhere(asks).expect(0).lines() {
            let list = |name: &str| row[name].as_array().cloned().unwrap_or_default();
            let commands = [row["command"].clone()].into_iter().chain(list("commands")).chain(list("ways"));
            for command in commands.filter(Value::is_string) {
                let command = command.as_str().unwrap().to_owned();
                assert!(command.starts_with(&flags), "{command}");
                // As it stands there, it is one that reaches this log.
                if command.contains(" inbox show ") {
                    elsewhere(&command.split(' ').skip(5).collect::<Vec<_>>()).expect(0);
                }
            }
        }
    }
    let shown = elsewhere(&["inbox", "show", &desk.memory()]).expect(0).stdout;
    assert!(shown.contains(&format!("way out   {flags}inbox accept ")), "{shown}");
    let refused = elsewhere(&["proposal-project", &desk.correction()]).expect(1).stderr;
    assert!(refused.contains(&format!("`{flags}inbox show ")), "{refused}");
}

#[test]
fn whoever_takes_the_folder_of_an_owner_that_died_says_so_in_its_log() {
    let desk = remembering(100_000);
    let one = desk.world.serve(&[]);
    let record = folder(&desk.world).join(".thought-materializer.owner");
    desk.world.until(&["--version"], |_| record.exists());
    let died = format!("pid={}", one.pid());
    one.kill();
    assert!(record.exists(), "it let nothing go");
    let two = desk.world.serve(&[]);
    let told = |log: &str| {
        log.lines().any(|line| line.contains("took over the memory folder") && line.contains(&died))
    };
    desk.world.until(&["--version"], |_| told(&desk.world.log()));
    assert_eq!(two.stop(), 0);
    // Where the one before let go, there is nothing to tell.
    let three = desk.world.serve(&[]);
    desk.world.until(&["--version"], |_| record.exists());
    assert!(!told(&desk.world.log()), "{}", desk.world.log());
    assert_eq!(three.stop(), 0);
}
