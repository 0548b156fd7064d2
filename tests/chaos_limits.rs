//! The executable at its limits: a copy that finds no room, files and descriptors that run out, an output that takes
//! nothing, several starts in one moment, a kill while the declarations are read again.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::chaos_refusals::{mount_small, with_a_disk_of_its_own};
use crate::cli_world::{Answer, World};

/// Runs a command under a limit, as `prlimit` names it.
fn limited(world: &World, limit: &str, arguments: &[&str]) -> Command {
    let like = world.command(arguments);
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(like.get_program()).args(arguments).env_clear().current_dir(world.base());
    command.envs(like.get_envs().filter_map(|(key, value)| Some((key, value?)))).stdin(Stdio::null());
    command
}

/// Is a service under a limit; it does not outlive its test.
struct Limited(Child);

impl Limited {
    fn serve(world: &World, limit: &str) -> Self {
        let log = std::fs::File::create(world.base().join("service.log")).unwrap();
        let mut command = limited(world, limit, &["serve"]);
        Self(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn run(mut command: Command) -> Answer {
    command.output().unwrap().into()
}

fn notes(world: &World) -> usize {
    let list = ["event", "list", "--json", "--limit", "1000", "--source", "notes:test"];
    world.thought(&list).expect(0).lines().len()
}

#[test]
fn a_copy_that_finds_no_room_is_not_left_half_and_disturbs_nobody() {
    with_a_disk_of_its_own("chaos_limits::onto_a_disk_without_room");
}

#[test]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
fn onto_a_disk_without_room() {
    let world = World::with_config();
    for number in 0..8 {
        world.append(&format!("k{number}"), &"x".repeat(200_000)).expect(0);
    }
    let path = |name: &str| world.base().join(name).display().to_string();
    let small = world.base().join("small");
    std::fs::create_dir(&small).unwrap();
    mount_small(&small, 1);
    let copies = |context: &str| {
        for command in ["backup", "export"] {
            let refused = world.thought(&[command, &path("small/copy"), "--acknowledge-sensitive"]).expect(4);
            assert!(refused.stderr.contains("No space left"), "{context}: {}", refused.stderr);
            assert_eq!(std::fs::read_dir(&small).unwrap().count(), 0, "{context}: {command} left something");
            world
                .thought(&[command, &path(&format!("{context}-{command}")), "--acknowledge-sensitive"])
                .expect(0);
        }
    };
    copies("down");
    for (command, copy) in [("restore", "down-backup"), ("import", "down-export")] {
        let data = path("small/data");
        let refused = world.thought(&[command, &path(copy), "--data", &data]).expect(4);
        assert!(refused.stderr.contains("No space left"), "{}", refused.stderr);
        assert!(!Path::new(&data).exists(), "{command} left something");
    }
    let running = world.serve(&[]);
    copies("up");
    world.append("late", "still taken").expect(0);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_limit_on_the_size_of_files_is_a_disk_without_room_and_kills_nobody() {
    const LIMIT: &str = "--fsize=300000";
    let world = World::with_config();
    let payload = serde_json::json!({ "text": "x".repeat(200_000) }).to_string();
    std::fs::write(world.base().join("payload"), payload).unwrap();
    for number in 0..4 {
        world.append(&format!("k{number}"), &"x".repeat(200_000)).expect(0);
    }
    // The journal has its length already; it is the log that may not grow.
    let append = ["event", "append", "--source", "notes:test", "--type", "stream.thought.source.note"];
    let append: Vec<&str> = append.into_iter().chain(["--key", "late", "--payload", "payload"]).collect();
    for arguments in [
        &append[..],
        &["backup", "copy", "--acknowledge-sensitive"],
        &["export", "lines", "--acknowledge-sensitive"],
        &["restore", "there", "--data", "restored"],
    ] {
        let answer = run(limited(&world, LIMIT, arguments));
        assert!([4, 5].contains(&answer.code), "{arguments:?}: {answer:?}");
    }
    assert!(!world.base().join("copy").exists() && !world.base().join("lines").exists());
    world.thought(&["verify"]).expect(0);
    // Whatever became of it, handing the same in again says so.
    world.thought(&append).expect(0);
    assert_eq!(notes(&world), 5);
    // A service that cannot write goes on reading, says why, and ends in order.
    let mut service = Limited::serve(&world, LIMIT);
    let up = |answer: &Answer| answer.stdout.contains("\"pid\"") || service_ended(&world);
    world.until(&["status", "--json"], up);
    for number in 0..6 {
        let answer = world.append(&format!("more{number}"), &"y".repeat(200_000));
        assert!([0, 4, 5].contains(&answer.code), "{answer:?}\n{}", world.log());
    }
    assert!(notes(&world) >= 5);
    world.thought(&["stop"]);
    let ended = service.0.wait().unwrap();
    assert!(ended.code().is_some(), "it was killed: {ended:?}\n{}", world.log());
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    assert!(notes(&world) >= 5);
    assert_eq!(running.stop(), 0);
}

fn service_ended(world: &World) -> bool {
    world.log().contains("thought:")
}

/// Returns the door that everybody may ask at.
fn ask_door(world: &World) -> PathBuf {
    let doors: Value =
        serde_json::from_slice(&std::fs::read(world.data.join("doors.json")).unwrap()).unwrap();
    Path::new(doors["directory"].as_str().unwrap()).join("ask.sock")
}

#[test]
fn a_service_that_runs_out_of_descriptors_says_so_once_and_goes_on_when_some_come_back() {
    let world = World::with_config();
    world.append("k", "acknowledged").expect(0);
    let mut service = Limited::serve(&world, "--nofile=48");
    world.until(&["status", "--json"], |answer| answer.stdout.contains("\"running\""));
    let door = ask_door(&world);
    let crowd: Vec<UnixStream> = (0..80).map(|_| UnixStream::connect(&door).unwrap()).collect();
    let warnings = || world.log().matches("cannot accept clients").count();
    world.until(&["--version"], |_| warnings() > 0);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(warnings(), 1, "{}", world.log());
    drop(crowd);
    world.until(&["status", "--json"], |answer| answer.code == 0);
    world.append("late", "taken").expect(0);
    world.thought(&["stop"]).expect(0);
    assert_eq!(service.0.wait().unwrap().code(), Some(0), "{}", world.log());
    world.thought(&["verify"]).expect(0);
}

#[test]
fn an_output_that_takes_nothing_is_a_failure_and_one_that_nobody_reads_is_none() {
    let world = World::with_config();
    for number in 0..20 {
        world.append(&format!("k{number}"), &"text ".repeat(2_000)).expect(0);
    }
    for arguments in [&["event", "list", "--json"][..], &["status"], &["man"], &["completions", "bash"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = world.command(arguments);
        let answer = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(answer.status.code(), Some(4), "{arguments:?}");
        assert!(String::from_utf8_lossy(&answer.stderr).contains("output.write"), "{answer:?}");
    }
    let mut command = world.command(&["event", "list", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let left = child.wait_with_output().unwrap();
    assert_eq!((left.status.code(), left.stderr.len()), (Some(0), 0), "{left:?}");
}

#[test]
fn of_several_services_that_start_in_one_moment_one_comes_up() {
    let world = World::with_config();
    world.append("k", "acknowledged").expect(0);
    let mut services: Vec<_> = (0..4)
        .map(|_| world.command(&["serve"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    let status = world.until(&["status", "--json"], |answer| answer.stdout.contains("\"running\"")).json();
    let pid = status["service"]["pid"].as_u64().unwrap();
    let place = services.iter().position(|service| u64::from(service.id()) == pid).unwrap();
    let one = services.swap_remove(place);
    for other in services {
        let refused: Answer = other.wait_with_output().unwrap().into();
        let refused = refused.expect(4);
        assert!(
            refused.stderr.contains("data.held") && refused.stderr.contains(&pid.to_string()),
            "{refused:?}"
        );
    }
    world.append("late", "taken").expect(0);
    world.thought(&["stop"]).expect(0);
    assert_eq!(one.wait_with_output().unwrap().status.code(), Some(0));
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_service_that_is_killed_while_it_reads_its_declarations_again_comes_back_with_the_new_ones() {
    let world = World::with_config();
    let file = world.config.join("declarations/document-links.yaml");
    std::fs::write(world.notes.join("a.md"), "# One\n[x](y.md)\n").unwrap();
    let mut version = 2;
    for wait in [0, 1, 3, 6, 10, 20, 40] {
        let running = world.serve(&[]);
        world.until_idle();
        let text = std::fs::read_to_string(&file).unwrap();
        let (bumped, _) = thoughtstream_domain::declaration::bump("document-links.yaml", &text).unwrap();
        std::fs::write(&file, bumped).unwrap();
        version += 1;
        running.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_millis(wait));
        running.kill();
        world.thought(&["verify"]).expect(0);
    }
    let running = world.serve(&[]);
    world.until_idle();
    let consumers = world.thought(&["consumer", "list", "--json"]).expect(0).lines();
    let enabled = |one: &&Value| {
        one["consumer"].as_str().unwrap().starts_with("document-links@") && one["state"] != "disabled"
    };
    let enabled: Vec<&Value> = consumers.iter().filter(enabled).collect();
    assert_eq!((enabled.len(), &enabled[0]["consumer"]), (1, &format!("document-links@{version}").into()));
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn what_a_careless_umask_would_open_is_closed_all_the_same() {
    let world = World::with_config();
    let shell = |line: &str| {
        let like = world.command(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", line]).env_clear().current_dir(world.base()).stdin(Stdio::null());
        command.envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.env("THOUGHT", like.get_program());
        Answer::from(command.output().unwrap()).expect(0)
    };
    let append = "event append --source notes:test --type stream.thought.source.note --payload payload";
    std::fs::write(world.base().join("payload"), "{\"text\":\"x\"}").unwrap();
    shell(&format!("umask 000; exec \"$THOUGHT\" {append}"));
    shell("umask 000; exec \"$THOUGHT\" backup copy --acknowledge-sensitive");
    shell("umask 000; exec \"$THOUGHT\" export lines --acknowledge-sensitive");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o077;
    let files = std::fs::read_dir(&world.data).unwrap().map(|entry| entry.unwrap().path());
    let copies = ["copy", "lines"].map(|name| world.base().join(name));
    for path in files.chain([world.data.clone()]).chain(copies) {
        assert_eq!(mode(&path), 0, "{}", path.display());
    }
}

#[test]
fn a_path_that_the_system_does_not_take_is_refused_by_its_length() {
    let world = World::with_config();
    let name = world.base().join("n".repeat(300)).display().to_string();
    let path = world.base().join(vec!["d".repeat(200); 30].join("/")).display().to_string();
    for data in [name, path] {
        for command in ["init", "serve", "status", "doctor"] {
            let refused = world.thought(&[command, "--data", &data]);
            assert!([1, 4].contains(&refused.code), "{command}: {refused:?}");
            let told = refused.stdout + &refused.stderr;
            assert!(
                told.contains("bytes long") && told.contains("than the system accepts"),
                "{command}: {told}"
            );
        }
    }
}
