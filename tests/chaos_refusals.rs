//! The executable where it may not read, may not write, or has no room: it says what it could not do and why,
//! changes nothing, and goes on when the trouble is over. Permissions are tried as a user who has none.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli_world::{Answer, World};

/// The user whom nothing belongs to.
const NOBODY: u32 = 65_534;

/// A world that belongs to nobody in particular, with a copy of the program that this user can reach.
pub(crate) struct Unprivileged {
    pub(crate) world: World,
    program: PathBuf,
}

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

/// Gives a file, or a directory with all that is in it, to that user.
pub(crate) fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

impl Unprivileged {
    pub(crate) fn new() -> Self {
        let world = World::with_config();
        world.append("k", "acknowledged").expect(0);
        Self::of(world)
    }

    /// Hands a world over to a user who may do nothing else.
    pub(crate) fn of(world: World) -> Self {
        let program = world.base().join("thought");
        std::fs::copy(env!("CARGO_BIN_EXE_thought"), &program).unwrap();
        mode(&program, 0o755);
        if nix::unistd::geteuid().is_root() {
            give(world.base());
        }
        Self { world, program }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.command(arguments).output().unwrap().into()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let like = self.world.command(arguments);
        let mut command = self.other(&self.program);
        command.args(arguments).envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command
    }

    /// Runs another program as the same user.
    pub(crate) fn other(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).current_dir(self.world.base());
        if nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Returns the log's own files; locks come and go.
    fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(&self.world.data)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| {
                let name = entry.file_name().into_string().unwrap();
                name == "format" || name == "log.redb" || name.starts_with("journal.")
            })
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect();
        found.sort();
        found
    }
}

/// Could not look, says so, and never takes what it cannot see for something that is empty or not there.
#[track_caller]
fn could_not_look(answer: Answer, says: &[&str]) {
    let answer = answer.expect(4);
    assert!(says.iter().any(|word| answer.stderr.contains(word)), "{}", answer.stderr);
    for word in ["0 events", "no events", "nothing was recorded", "not initialised"] {
        assert!(!answer.stdout.contains(word) && !answer.stderr.contains(word), "{answer:?}");
    }
}

#[test]
fn a_directory_without_permission_is_not_an_empty_one() {
    let unprivileged = Unprivileged::new();
    unprivileged.run(&["status"]).expect(0);
    mode(&unprivileged.world.data, 0o000);
    for arguments in [&["status"][..], &["event", "list"], &["verify"], &["tree"], &["inbox"], &["serve"]] {
        could_not_look(unprivileged.run(arguments), &["ermission denied"]);
    }
    unprivileged.run(&["doctor"]).expect(4);
    mode(&unprivileged.world.data, 0o700);
    unprivileged.run(&["verify"]).expect(0);
}

#[test]
fn a_log_that_may_not_be_written_is_refused_and_left_as_it_is() {
    let unprivileged = Unprivileged::new();
    let before = unprivileged.contents();
    for name in ["log.redb", "journal.0", "format"] {
        let file = unprivileged.world.data.join(name);
        mode(&file, 0o000);
        could_not_look(unprivileged.run(&["event", "list"]), &["ermission"]);
        for bits in [0o000, 0o400] {
            mode(&file, bits);
            could_not_look(unprivileged.run(&["serve"]), &["ermission"]);
        }
        mode(&file, 0o600);
    }
    mode(&unprivileged.world.data, 0o500);
    for arguments in [&["serve"][..], &["consumer", "pause", "document-links"]] {
        let refused = unprivileged.run(arguments).expect(4);
        assert!(refused.stderr.contains("ermission denied"), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("may only be read") && refused.stderr.contains("chmod 700"),
            "{refused:?}"
        );
        assert!(!refused.stderr.contains("lock"), "no lock is to blame: {}", refused.stderr);
    }
    let checks = unprivileged.run(&["doctor", "--quick", "--json"]).json()["checks"].clone();
    let writable = checks.as_array().unwrap().iter().find(|check| check["id"] == "log-writable").unwrap();
    assert_eq!(writable["status"], "finding", "{writable}");
    assert!(writable["fix"].as_str().unwrap().contains("chmod 700"), "{writable}");
    mode(&unprivileged.world.data, 0o700);
    assert!(unprivileged.contents() == before, "a refusal changed a byte");
    unprivileged.run(&["verify"]).expect(0);
}

/// What looks and changes nothing, with a copy to a file elsewhere.
fn readings<'a>(copy: &'a str, lines: &'a str) -> [Vec<&'a str>; 8] {
    [
        vec!["status"],
        vec!["event", "list"],
        vec!["run", "list"],
        vec!["inbox"],
        vec!["tree"],
        vec!["verify"],
        vec!["backup", copy, "--acknowledge-sensitive"],
        vec!["export", lines, "--acknowledge-sensitive"],
    ]
}

#[test]
fn a_directory_that_may_only_be_read_is_read() {
    let world = World::with_config();
    // Killed with work in the journal: what it holds is seen, and stays there.
    let running = world.serve(&[]);
    for number in 0..5 {
        world.append(&format!("k{number}"), "in the journal").expect(0);
    }
    running.kill();
    std::fs::write(world.base().join("payload"), "{\"text\":\"refused\"}").unwrap();
    let unprivileged = Unprivileged::of(world);
    let data = &unprivileged.world.data;
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(data).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for lock in [true, false] {
        if !lock {
            // As on a medium that was written by a copy.
            std::fs::remove_file(data.join("service.lock")).unwrap();
        }
        let (before, listed) = (unprivileged.contents(), names());
        for name in ["log.redb", "journal.0", "journal.1", "format"] {
            mode(&data.join(name), 0o400);
        }
        mode(data, 0o500);
        let (copy, lines) = (format!("copy{lock}"), format!("lines{lock}"));
        for arguments in readings(&copy, &lines) {
            unprivileged.run(&arguments).expect(0);
        }
        let notes =
            unprivileged.run(&["event", "list", "--json", "--source", "notes:test"]).expect(0).lines();
        assert_eq!(notes.len(), 5);
        let appended = ["event", "append", "--source", "notes:test", "--type", "stream.thought.source.note"];
        let appended: Vec<&str> = appended.into_iter().chain(["--payload", "payload"]).collect();
        could_not_look(unprivileged.run(&appended), &["ermission"]);
        assert!(unprivileged.contents() == before, "looking changed a byte");
        assert_eq!(names(), listed, "looking left something behind");
        mode(data, 0o700);
        for name in ["log.redb", "journal.0", "journal.1", "format"] {
            mode(&data.join(name), 0o600);
        }
    }
    unprivileged.run(&["restore", "copytrue", "--data", "restored"]).expect(0);
    unprivileged.run(&["import", "linesfalse", "--data", "imported"]).expect(0);
}

#[test]
fn looking_changes_nothing_and_many_may_look_while_a_service_comes() {
    let world = World::with_config();
    for number in 0..20 {
        world.append(&format!("k{number}"), "text").expect(0);
    }
    let log = std::fs::read(world.data.join("log.redb")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for command in ["status", "verify", "status"] {
                    world.thought(&[command]).expect(0);
                }
            });
        }
    });
    assert!(std::fs::read(world.data.join("log.redb")).unwrap() == log, "looking changed a byte");
    // Those who look do not keep a service out, and none of them is turned away by its coming.
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| (0..6).for_each(|_| drop(world.thought(&["event", "list"]).expect(0)))))
            .collect();
        let running = world.serve(&[]);
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(running.stop(), 0);
    });
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_newer_log_and_one_that_others_may_read_are_refused() {
    let world = World::with_config();
    world.append("k", "acknowledged").expect(0);
    let (format, log) = (world.data.join("format"), world.data.join("log.redb"));
    let text = std::fs::read_to_string(&format).unwrap();
    std::fs::write(&format, text.replace("format 2", "format 3")).unwrap();
    for arguments in [&["serve"][..], &["status"], &["verify"]] {
        let answer = world.thought(arguments).expect(4);
        assert!(answer.stderr.contains("newer") && answer.stderr.contains("format 3"), "{}", answer.stderr);
    }
    std::fs::write(&format, &text).unwrap();
    mode(&log, 0o644);
    let answer = world.thought(&["serve"]).expect(4);
    assert!(answer.stderr.contains("0644"), "{}", answer.stderr);
    mode(&log, 0o600);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn fifty_clients_that_say_nothing_or_leave_in_the_middle_disturb_nobody() {
    let world = World::with_config();
    for number in 0..40 {
        world.append(&format!("k{number}"), &"text ".repeat(2_000)).expect(0);
    }
    let running = world.serve(&[]);
    let doors: serde_json::Value =
        serde_json::from_slice(&std::fs::read(world.data.join("doors.json")).unwrap()).unwrap();
    let door = Path::new(doors["directory"].as_str().unwrap()).join("ask.sock");
    let silent: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(&door).unwrap()).collect();
    for _ in 0..50 {
        // Asks for four hundred thousand bytes and does not stay for them.
        let mut leaving = UnixStream::connect(&door).unwrap();
        let list = "{\"ask\":{\"events\":{\"limit\":1000}}}";
        leaving.write_all(format!("{{\"protocol\":1,\"version\":\"x\"}}\n{list}\n").as_bytes()).unwrap();
        drop(leaving);
    }
    world.append("late", "still answers").expect(0);
    world.thought(&["status"]).expect(0);
    drop(silent);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

/// Runs an ignored test, by its whole name, in a namespace in which it may mount a disk of its own; it ends with the
/// process.
pub(crate) fn with_a_disk_of_its_own(name: &str) {
    let mut command = Command::new("unshare");
    command.args(if nix::unistd::geteuid().is_root() { &["-m"][..] } else { &["-rm"] });
    let output =
        command.arg(std::env::current_exe().unwrap()).args(["--ignored", "--exact", name]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

/// Mounts a small disk on a directory; only in a namespace of one's own.
pub(crate) fn mount_small(directory: &Path, megabytes: u32) {
    let size = format!("size={megabytes}m,mode=0700");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(directory).status().unwrap();
    assert!(mounted.success(), "a small disk cannot be mounted here");
}

#[test]
fn a_full_disk_stops_admission_and_not_reading_and_room_that_comes_back_is_used() {
    with_a_disk_of_its_own("chaos_refusals::on_a_disk_that_fills_up");
}

#[test]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
fn on_a_disk_that_fills_up() {
    let world = World::with_config();
    mount_small(&world.data, 16);
    // A log is made in a place of its own; what comes to lie beside it later does not matter.
    assert_eq!(world.serve(&[]).stop(), 0);
    let ballast = world.data.join("ballast");
    std::fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    let running = world.serve(&[]);
    let (mut kept, text) = (0, "x".repeat(200_000));
    let refused = loop {
        let answer = world.append(&format!("k{kept}"), &text);
        if answer.code != 0 {
            break answer;
        }
        kept += 1;
        assert!(kept < 200, "a disk of sixteen megabytes is not full of {kept} notes");
    };
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.stderr.contains("disk-full") || refused.stderr.contains("are free"),
        "{}",
        refused.stderr
    );
    // Reading goes on, and says what the matter is.
    let notes = ["event", "list", "--json", "--limit", "1000", "--source", "notes:test"];
    assert_eq!(world.thought(&notes).expect(0).lines().len(), kept);
    let status = world.thought(&["status", "--json"]);
    assert!(status.stdout.contains("disk-full"), "{}", status.stdout);
    let told = |what: &str| world.log().lines().filter(|line| line.contains(what)).count();
    assert_eq!(told("the log cannot be written; reading goes on"), 1, "{}", world.log());
    assert_eq!(world.append("small", &text).code, 4, "it stays refused");
    // Who asks about the log itself is told what the inbox says of it.
    let why = world.thought(&["why", "log", "--json"]).expect(0).json();
    assert_eq!((&why["kind"], &why["state"]), (&"waiting".into(), &"log-unwritable".into()));
    assert!(why["fact"].as_str().unwrap().contains("disk-full"), "{why}");
    assert!(why["since"].is_string() && why["commands"] == serde_json::json!(["thought doctor"]), "{why}");
    // A look that finds what cannot be kept says so, and does not wait for room.
    std::fs::write(world.notes.join("found.md"), &text).unwrap();
    let looked = world.thought(&["source", "look", "filesystem:notes"]).expect(4);
    assert!(looked.stderr.contains("[log.write]"), "{}", looked.stderr);
    // Room that comes back is used without a restart.
    std::fs::remove_file(&ballast).unwrap();
    world.until(&["status", "--json"], |answer| !answer.stdout.contains("disk-full"));
    world.append("small", "fits again").expect(0);
    assert_eq!(told("the log is written again"), 1, "{}", world.log());
    assert_eq!(world.thought(&["why", "log", "--json"]).expect(0).json()["state"], "sound");
    assert_eq!(world.thought(&notes).expect(0).lines().len(), kept + 1);
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    assert_eq!(world.thought(&notes).expect(0).lines().len(), kept + 1);
    // Full to the last byte after an unclean end: nobody can write, and everything is there to be read.
    running.kill();
    fill(&ballast);
    world.thought(&["serve"]).expect(4);
    for arguments in readings("copy", "lines") {
        world.thought(&arguments).expect(0);
    }
    assert_eq!(world.thought(&notes).expect(0).lines().len(), kept + 1);
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(world.serve(&[]).stop(), 0);
}

/// Takes all the room that is left.
pub(crate) fn fill(ballast: &Path) {
    let mut file = std::fs::File::create(ballast).unwrap();
    for bytes in [vec![1; 1 << 16], vec![1; 1]] {
        while file.write_all(&bytes).is_ok() {}
    }
}
