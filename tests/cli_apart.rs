//! A source whose producer is a process of its own: what a person sees of it, what it can reach, and what becomes of
//! its files when it, or the service, dies at any moment.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::chaos_refusals::give;
use crate::cli_remembering::{MEMORY, Stage};
use crate::cli_world::{Answer, Running, World};

pub(crate) const SOURCE: &str = "filesystem:notes";
const NOBODY: u32 = 65_534;

/// Makes a world whose notes are looked at by a process of its own.
pub(crate) fn apart(more: &str) -> World {
    let world = World::with_config();
    let root = world.notes.display();
    let text = format!("sources:\n  - filesystem: notes\n    root: {root}\n    producerOnly: true\n{more}");
    std::fs::write(world.config.join("config.yaml"), text).unwrap();
    world
}

pub(crate) fn note(world: &World, name: &str, text: &str) {
    std::fs::write(world.notes.join(name), text).unwrap();
}

/// Starts the process that looks.
pub(crate) fn producer(world: &World) -> Running<'_> {
    world.serve_as("producer", &["--producer-only", SOURCE], |_| {})
}

/// Returns the paths of all files that were added, in the order of the log.
pub(crate) fn added(world: &World) -> Vec<String> {
    let list = ["event", "list", "--json", "--limit", "5000", "--type", "stream.thought.source.file.added"];
    let paths = world.thought(&list).expect(0).lines();
    paths.iter().map(|event| event["payload"]["path"].as_str().unwrap().to_owned()).collect()
}

/// Waits until so many files were added.
pub(crate) fn until_added(world: &World, count: usize) {
    world.until(&["source", "list", "--json"], |answer| {
        let events = answer.lines().into_iter().find(|row| row["source"] == SOURCE);
        let there = events.is_some_and(|row| row["events"].as_u64().unwrap() >= count as u64);
        if !there {
            // Those who are to work get the processors in between.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        there
    });
}

/// Finds the producer's place in the tree.
fn place(answer: &Answer) -> Value {
    fn find(node: &Value) -> Option<Value> {
        let here = (node["name"] == SOURCE).then(|| node.clone());
        here.or_else(|| node["children"].as_array()?.iter().find_map(find))
    }
    find(&serde_json::from_str(&answer.stdout).unwrap()).unwrap()
}

pub(crate) fn until_note(world: &World, note: &str) -> Value {
    place(&world.until(&["tree", "--json"], |answer| answer.code == 0 && place(answer)["note"] == note))
}

/// Finds the door by which the producer comes in.
pub(crate) fn door(world: &World) -> PathBuf {
    let doors = std::fs::read_dir(world.base().join("run/thoughtstream-sources")).unwrap();
    let doors: Vec<PathBuf> = doors.map(|entry| entry.unwrap().path().join("producer.sock")).collect();
    assert_eq!(doors.len(), 1);
    doors[0].clone()
}

pub(crate) fn verified(world: &World) {
    let report = world.thought(&["verify", "--json"]).expect(0).json();
    assert!(report["ok"] == true && report["findings"].as_array().unwrap().is_empty(), "{report}");
}

#[test]
fn a_source_is_looked_at_by_its_own_process_and_everybody_sees_whether_it_is_there() {
    let world = apart("");
    note(&world, "a.md", "# One\n");
    std::fs::write(world.notes.join("large.md"), vec![b'x'; 5 << 20]).unwrap();
    let service = world.serve(&[]);
    let place = until_note(&world, "not-connected");
    assert_eq!((&place["kind"], &place["state"]), (&"producer-apart".into(), &"running".into()));
    assert!(place["detail"]["notConnectedSince"].is_string(), "{place}");
    let waiting = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert_eq!((&waiting[0]["kind"], &waiting[0]["id"]), (&"producer-not-connected".into(), &SOURCE.into()));
    assert!(waiting[0]["command"].as_str().unwrap().contains("serve --producer-only filesystem:notes"));
    let status = world.thought(&["status"]).expect(0).stdout;
    assert!(status.contains("producer  of filesystem:notes runs apart, not connected since"), "{status}");
    let doctor = world.thought(&["doctor", "--quick", "--json"]).json();
    let check = |doctor: &Value, id: &str| {
        doctor["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).unwrap()["status"].clone()
    };
    assert_eq!(check(&doctor, "producers-connected"), "finding");
    assert_eq!(check(&doctor, "producer:notes"), "ok");
    let why = world.thought(&["why", SOURCE]).expect(0).stdout;
    assert!(why.contains("not-connected"), "{why}");
    // Nobody is there to look, which is said.
    for asked in [&["source", "look", SOURCE][..], &["source", "skipped", SOURCE]] {
        let answer = world.thought(asked);
        assert!(answer.code != 0 && !answer.stderr.contains("done"), "{answer:?}");
    }
    let answer = world.thought(&["source", "look", SOURCE]).expect(1);
    assert!(answer.stderr.contains("[source.not-connected]"), "{}", answer.stderr);
    assert_eq!(added(&world), [""; 0]);

    let looking = producer(&world);
    until_added(&world, 1);
    let place = world.until(&["tree", "--json"], |answer| place_of(answer)["detail"]["skipped"] == 1);
    let place = place_of(&place);
    assert_eq!(place["detail"]["pid"], looking.pid());
    assert!(place["detail"]["connectedSince"].is_string() && place["detail"]["notConnectedSince"].is_null());
    let status = world.thought(&["status", "--json"]).expect(0).json();
    assert_eq!(
        (&status["apart"][0]["connected"], &status["apart"][0]["pid"]),
        (&true.into(), &looking.pid().into())
    );
    // What it skipped and what it found wrong is told as by a producer in the service.
    let skipped = world.thought(&["source", "skipped", SOURCE]).expect(0).stdout;
    assert!(skipped.contains("too-large") && skipped.contains("large.md"), "{skipped}");
    let waiting = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0]["why"].as_str().unwrap().starts_with("files-unread"), "{waiting:?}");
    // It looks when it is told to, and it sees changes by itself.
    note(&world, "b.md", "# Two\n");
    world.thought(&["source", "look", SOURCE]).expect(0);
    until_added(&world, 2);
    world.until_idle();
    let derived =
        world.thought(&["event", "list", "--json", "--type", "stream.thought.derived.document.structure"]);
    assert_eq!(derived.expect(0).lines().len(), 2);
    assert_eq!(check(&world.thought(&["doctor", "--quick", "--json"]).json(), "producers-connected"), "ok");

    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    until_note(&world, "not-connected");
    note(&world, "c.md", "# Three\n");
    let looking = producer(&world);
    until_added(&world, 3);
    // The service goes first: the producer stays and tries again until it is told to stop.
    assert_eq!(service.stop(), 0);
    assert!(!world.base().join("run/thoughtstream-sources").exists(), "its door is gone with it");
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    assert_eq!(added(&world), ["a.md", "b.md", "c.md"]);
    verified(&world);
}

fn place_of(answer: &Answer) -> Value {
    if answer.code == 0 { place(answer) } else { Value::Null }
}

#[test]
fn removals_that_wait_are_accepted_through_the_service_and_believed_by_the_producer() {
    let world = apart("");
    for number in 0..3 {
        note(&world, &format!("{number}.md"), "text\n");
    }
    let _service = world.serve(&[]);
    let looking = producer(&world);
    until_added(&world, 3);
    looking.kill();
    // An empty folder at the first look of a producer is held for a person.
    for number in 0..3 {
        std::fs::remove_file(world.notes.join(format!("{number}.md"))).unwrap();
    }
    let _looking = producer(&world);
    let held = world.until(&["inbox", "--json"], |answer| answer.stdout.contains("removals-held"));
    assert!(
        held.stdout.contains("thought source accept-removals") || held.stdout.contains("accept-removals")
    );
    world.thought(&["source", "accept-removals", SOURCE]).expect(0);
    until_added(&world, 6);
    let removed = ["event", "list", "--json", "--type", "stream.thought.source.file.removed"];
    assert_eq!(world.thought(&removed).expect(0).lines().len(), 3);
    world.until(&["inbox", "--json"], |answer| answer.stdout.is_empty());
}

#[test]
fn a_producer_killed_at_any_moment_makes_one_event_of_each_file() {
    let world = apart("");
    let service = world.serve(&[]);
    let mut killed = 0;
    for round in 0..10 {
        for number in 0..100 {
            note(&world, &format!("{round}-{number}.md"), &format!("# {round} {number}\n\ntext {number}\n"));
        }
        let looking = producer(&world);
        // Somewhere in the batch: at another place in each round.
        until_added(&world, round * 100 + 1 + round * 9);
        looking.kill();
        killed += 1;
    }
    assert_eq!(killed, 10);
    let looking = producer(&world);
    until_added(&world, 1_000);
    let paths = added(&world);
    let distinct: BTreeSet<&String> = paths.iter().collect();
    assert_eq!((paths.len(), distinct.len()), (1_000, 1_000));
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    assert_eq!(service.stop(), 0);
    verified(&world);
}

#[test]
fn a_service_that_is_restarted_beneath_its_producer_is_found_again_and_nothing_is_said_twice() {
    let world = apart("");
    note(&world, "before.md", "# Before\n");
    let service = world.serve(&[]);
    let looking = producer(&world);
    until_added(&world, 1);
    let mut service = Some(service);
    for round in 0..3 {
        // In the midst of what it hands in.
        for number in 0..40 {
            note(&world, &format!("{round}-{number}.md"), &format!("# {round} {number}\n"));
        }
        until_added(&world, 1 + round * 40 + 5);
        service.take().unwrap().kill();
        note(&world, &format!("{round}-down.md"), "# Written while nobody listened\n");
        service = Some(world.serve(&[]));
        looking.tells("connected to the service, process");
        until_note(&world, "connected");
        until_added(&world, 1 + (round + 1) * 41);
    }
    let place = until_note(&world, "connected");
    assert_eq!(place["detail"]["pid"], looking.pid(), "it is the same process all along");
    let paths = added(&world);
    let distinct: BTreeSet<&String> = paths.iter().collect();
    assert_eq!((paths.len(), distinct.len()), (124, 124));
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    assert_eq!(service.unwrap().stop(), 0);
    verified(&world);
}

/// Lets everybody pass to a place below the world, and to nothing beside it.
fn passable(world: &World) {
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(world.base(), 0o711);
    mode(&world.base().join("run"), 0o711);
    mode(&world.config, 0o755);
    mode(&world.config.join("config.yaml"), 0o644);
    mode(&world.notes, 0o755);
}

#[test]
fn another_user_looks_without_the_log_the_credentials_or_the_operators_door() {
    if !nix::unistd::geteuid().is_root() {
        return; // nobody else can be another user
    }
    let world = apart("    producerUser: \"65534\"\n");
    note(&world, "a.md", "# One\n");
    passable(&world);
    let credentials = world.config.join("credentials");
    std::fs::create_dir_all(&credentials).unwrap();
    std::fs::set_permissions(&credentials, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(credentials.join("provider"), "secret").unwrap();
    let program = world.base().join("thought");
    std::fs::copy(env!("CARGO_BIN_EXE_thought"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let service = world.serve(&[]);
    let door = door(&world);
    let about = |path: &Path| {
        let about = path.symlink_metadata().unwrap();
        (about.mode() & 0o777, about.gid())
    };
    assert_eq!(about(&door), (0o660, NOBODY));
    assert_eq!(about(door.parent().unwrap()), (0o710, NOBODY));
    assert_eq!(about(&world.data).0, 0o700);

    let log = std::fs::File::create(world.base().join("producer.log")).unwrap();
    let like = world.command(&[]);
    let environment: Vec<_> = like.get_envs().filter_map(|(key, value)| Some((key, value?))).collect();
    let as_user = |uid: u32, gid: u32, arguments: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.env_clear().envs(environment.iter().copied()).current_dir("/").args(arguments);
        command.stdin(std::process::Stdio::null()).uid(uid).gid(gid);
        command
    };
    let mut command = as_user(NOBODY, NOBODY, &["serve", "--producer-only", SOURCE]);
    let mut looking = command.stderr(log).spawn().unwrap();
    until_added(&world, 1);
    assert_eq!(until_note(&world, "connected")["detail"]["uid"], NOBODY);
    // What it has open: its folder, its one connection, and nothing of the log, of credentials or of doors.
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", looking.id())).unwrap();
    let open: Vec<PathBuf> = descriptors.map(|fd| std::fs::read_link(fd.unwrap().path()).unwrap()).collect();
    assert!(open.contains(&world.notes), "{open:?}");
    for closed in [&world.data, &world.config, &world.base().join("run")] {
        assert!(open.iter().all(|path| !path.starts_with(closed)), "{open:?}");
    }
    // The same user gets nothing else: neither the log, nor an answer, nor a decision, nor the door's neighbours.
    for arguments in [&["status"][..], &["stop"], &["event", "list"], &["source", "look", SOURCE]] {
        let answer: Answer = as_user(NOBODY, NOBODY, arguments).output().unwrap().into();
        assert!(answer.code != 0 && answer.stdout.is_empty(), "{arguments:?} {answer:?}");
    }
    // A third user does not come in: not through the directory, and as a member of the group not past the kernel.
    for (uid, gid, says) in [(65_533, 65_533, "closed to this user"), (65_533, NOBODY, "[socket.user]")] {
        let mut stranger = as_user(uid, gid, &["serve", "--producer-only", SOURCE]);
        let log = world.base().join("stranger.log");
        let mut stranger = stranger.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let begun = std::time::Instant::now();
        while !std::fs::read_to_string(&log).unwrap().contains(says) {
            let log = std::fs::read_to_string(&log).unwrap();
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{says}: {log}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
    // The service's own user is root here, who may be anybody; a folder that it may not read is its own trouble.
    std::fs::set_permissions(&world.notes, std::fs::Permissions::from_mode(0o700)).unwrap();
    world.thought(&["source", "look", SOURCE]).expect(0);
    world.until(&["inbox", "--json"], |answer| answer.stdout.contains("root-unreadable"));
    std::fs::set_permissions(&world.notes, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.thought(&["source", "look", SOURCE]).expect(0);
    world.until(&["inbox", "--json"], |answer| !answer.stdout.contains("root-unreadable"));
    looking.kill().unwrap();
    looking.wait().unwrap();
    assert_eq!(service.stop(), 0);
    assert_eq!(added(&world), ["a.md"]);
    verified(&world);
}

#[test]
fn a_user_that_is_not_there_is_named_before_anything_starts() {
    let world = apart("    producerUser: nobody-of-this-name\n");
    let answer = world.thought(&["serve"]).expect(2);
    assert!(answer.stderr.contains("[producer.no-user]"), "{}", answer.stderr);
    let doctor = world.thought(&["doctor", "--quick", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == "producer:notes").unwrap();
    assert_eq!(check["status"], "finding");
}

#[test]
fn what_does_not_run_apart_is_refused_with_its_reason() {
    let world = World::with_config();
    let config = world.config.join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let bot =
        "telegram:\n  - bot: garden\n    credential: garden\n    chats: [\"1\"]\n    senders: [\"1\"]\n";
    let text: String =
        text.lines().filter(|line| !line.starts_with("telegram:")).map(|l| format!("{l}\n")).collect();
    std::fs::write(&config, format!("{text}{bot}")).unwrap();
    for (source, code) in [
        (SOURCE, "producer.not-apart"),
        ("telegram:garden", "producer.bot"),
        ("filesystem:mail", "producer.unknown-source"),
        ("x", "producer.unknown-source"),
    ] {
        let answer = world.thought(&["serve", "--producer-only", source]).expect(2);
        assert!(answer.stderr.contains(&format!("[{code}]")), "{source}: {}", answer.stderr);
    }
    world.thought(&["serve", "--producer-only", SOURCE, "--paused"]).expect(2);
    // A bot that is told to run apart is refused with everything else that is wrong, and says why.
    std::fs::write(&config, format!("{text}{bot}    producerOnly: true\n")).unwrap();
    let answer = world.thought(&["declaration", "check"]).expect(2);
    let said = format!("{}{}", answer.stdout, answer.stderr);
    assert!(said.contains("config.producer-only") && said.contains("both asks for updates"), "{said}");
}

#[test]
fn an_agents_memory_lies_in_a_folder_that_runs_apart_and_a_change_of_it_is_written_and_seen() {
    const MEMORY_SOURCE: &str = "filesystem:telegram-agent-context";
    let stage = Stage::new();
    let world = &stage.world;
    let config = world.config.join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let apart = text.replacen("privacy: sensitive }", "privacy: sensitive, producerOnly: true }", 1);
    assert_ne!(apart, text);
    std::fs::write(&config, apart).unwrap();
    let service = world.serve(&[]);
    let looking = world.serve_as("producer", &["--producer-only", MEMORY_SOURCE], |_| {});
    let events = || {
        let list = ["event", "list", "--source", MEMORY_SOURCE, "--json"];
        world.thought(&list).expect(0).lines()
    };
    world.until(&["status"], |_| !events().is_empty());
    stage.say("remember that I moved to Lisbon");
    stage.until_sent(1);
    let proposal = stage.of(MEMORY)[0]["id"].as_str().unwrap().to_owned();
    // Nobody looks while it is decided: what is written waits for the one who says what the file is then.
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    world.thought(&["proposal-decision", &proposal, "accept"]).expect(0);
    world.until(&["tree", "--json"], |answer| answer.stdout.contains("waits-for-scan"));
    let looking = world.serve_as("producer", &["--producer-only", MEMORY_SOURCE], |_| {});
    world.until(&["proposal-list", "--json"], |answer| answer.stdout.contains("\"materialized\""));
    assert!(stage.memory().contains("Lives in Lisbon."));
    // The receipt is about what the source's own producer recorded.
    let changed: Vec<_> =
        events().into_iter().filter(|event| event["type"] == "stream.thought.source.file.changed").collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    assert_eq!(service.stop(), 0);
    verified(world);
}

#[test]
fn a_service_without_privileges_opens_the_door_to_a_group_that_it_is_a_member_of() {
    const DAEMON: u32 = 1;
    if !nix::unistd::geteuid().is_root() {
        return; // nobody else can be two other users
    }
    let world = apart("    producerUser: daemon\n");
    note(&world, "a.md", "# One\n");
    passable(&world);
    let program = world.base().join("thought");
    std::fs::copy(env!("CARGO_BIN_EXE_thought"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    give(world.base());
    let like = world.command(&[]);
    let environment: Vec<_> = like.get_envs().filter_map(|(key, value)| Some((key, value?))).collect();
    let as_user = |uid: u32, groups: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        let ids = [format!("--reuid={uid}"), format!("--regid={uid}"), format!("--groups={groups}")];
        command.env_clear().envs(environment.iter().copied()).current_dir("/").args(ids);
        command.arg(&program).args(arguments).stdin(std::process::Stdio::null());
        command
    };
    // Whoever is no member can hand no directory to the group, and opens no door that is wider than asked for.
    let refused: Answer = as_user(NOBODY, "65534", &["serve"]).output().unwrap().into();
    let refused = refused.expect(4);
    assert!(
        refused.stderr.contains("[socket.open]") && refused.stderr.contains("member of the group"),
        "{refused:?}"
    );

    let log = std::fs::File::create(world.base().join("service.log")).unwrap();
    let mut service = as_user(NOBODY, "65534,1", &["serve"]).stderr(log).spawn().unwrap();
    let log = std::fs::File::create(world.base().join("producer.log")).unwrap();
    let mut looking =
        as_user(DAEMON, "1", &["serve", "--producer-only", SOURCE]).stderr(log).spawn().unwrap();
    let begun = std::time::Instant::now();
    loop {
        let answer: Answer = as_user(NOBODY, "65534", &["source", "list", "--json"]).output().unwrap().into();
        if answer.code == 0 && answer.lines().iter().any(|row| row["source"] == SOURCE && row["events"] == 1)
        {
            break;
        }
        let (service, producer) = (world.log(), world.log_of("producer"));
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{answer:?}\n{service}\n{producer}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let tree: Answer = as_user(NOBODY, "65534", &["tree", "--json"]).output().unwrap().into();
    assert_eq!(place(&tree.expect(0))["detail"]["uid"], DAEMON);
    looking.kill().unwrap();
    looking.wait().unwrap();
    let stopped: Answer = as_user(NOBODY, "65534", &["stop"]).output().unwrap().into();
    stopped.expect(0);
    assert!(service.wait().unwrap().success());
}

#[test]
fn a_service_that_fails_at_any_point_of_taking_a_file_has_it_once_and_answers_for_it() {
    let world = apart("");
    std::fs::remove_dir_all(&world.data).ok();
    world.thought(&["rehearsal", "create"]).expect(0);
    let mut service = world.serve(&[]);
    let looking = producer(&world);
    let mut count = 0;
    for point in ["observe.inside", "observe.after"] {
        for action in ["fail", "panic", "kill-actor", "abort-process"] {
            let taker = format!("thoughtstream/producers/{SOURCE}");
            world.thought(&["rehearsal", "arm", point, action, "--actor", &taker]).expect(0);
            count += 1;
            note(&world, &format!("{count}.md"), &format!("# {point} {action}\n"));
            if action == "abort-process" {
                assert_ne!(service.wait(), 0, "{point}");
                service = world.serve(&[]);
            }
            until_added(&world, count);
            // The service manager is told each time, and has to listen.
            looking.tells("connected to the service, process");
            let place = until_note(&world, "connected");
            assert_eq!(place["detail"]["pid"], looking.pid(), "{point} {action}");
        }
    }
    let paths = added(&world);
    let distinct: BTreeSet<&String> = paths.iter().collect();
    assert_eq!((paths.len(), distinct.len()), (count, count));
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    assert_eq!(service.stop(), 0);
    verified(&world);
}

#[test]
fn the_service_manager_hears_of_a_producer_apart_whether_or_not_it_is_let_in() {
    let world = apart("");
    let service = world.serve(&[]);
    let running = world.serve_as("producer", &["--producer-only", SOURCE], |command| {
        command.env("WATCHDOG_USEC", "200000");
    });
    for _ in 0..3 {
        running.tells("WATCHDOG=1");
    }
    assert_eq!(service.stop(), 0);
    running.tells("not connected");
    for _ in 0..3 {
        running.tells("WATCHDOG=1");
    }
    // One that stands still says nothing, and would be ended.
    running.signal(Signal::SIGSTOP);
    while running.tells_within("WATCHDOG=1", std::time::Duration::from_secs(2)) {}
    running.signal(Signal::SIGCONT);
    running.tells("WATCHDOG=1");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait(), 0);
}
