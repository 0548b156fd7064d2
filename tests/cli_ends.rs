//! How the service ends, and how commands end whose service does: at once on a second signal, with 70 when its writer is
//! given up, with 5 when an answer is lost, with 4 when nobody answers; and what the service manager is told.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cli_world::{Answer, World};

/// Something that takes longer than this never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a world in which things may be made to fail.
pub(crate) fn rehearsal() -> World {
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    world
}

/// Configures how long open work may go on when the service is told to stop.
pub(crate) fn drains_for(world: &World, drain: &str) {
    let config = world.config.join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("drain:")).collect();
    std::fs::write(&config, format!("{}\ndrain: {drain}\n", kept.join("\n"))).unwrap();
}

pub(crate) fn arm(world: &World, point: &str, action: &str) {
    world.thought(&["rehearsal", "arm", point, action]).expect(0);
}

/// Begins to append a note, and does not wait for the answer.
fn appending(world: &World, key: &str) -> Child {
    let kind = ["--type", "stream.thought.source.note", "--payload", "-"];
    let arguments = [&["event", "append", "--source", "notes:test", "--key", key][..], &kind].concat();
    let payload = world.base().join("payload");
    std::fs::write(&payload, r#"{"text":"x"}"#).unwrap();
    let mut command = world.command(&arguments);
    command.stdin(std::fs::File::open(payload).unwrap()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Begins to append a note, which the writer then holds.
fn held(world: &World, key: &str) -> Child {
    arm(world, "commit.before", "hold");
    let append = appending(world, key);
    until_logged(world, "commit.before");
    append
}

fn ended(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Waits until the service's own log says this.
fn until_logged(world: &World, words: &str) {
    world.until(&["--version"], |_| world.log().contains(words));
}

#[test]
fn a_first_signal_lets_open_work_go_on_and_a_second_one_ends_it_at_once() {
    let world = rehearsal();
    drains_for(&world, "10m");
    let running = world.serve(&[]);
    world.until_idle();
    let tasks = "thoughtstream/consumers/document-tasks";
    world.thought(&["rehearsal", "arm", "attempt.runner.inside", "hold", "--actor", tasks]).expect(0);
    std::fs::write(world.notes.join("a.md"), "# One\n- [ ] a\n").unwrap();
    let open = ["run", "list", "--json", "--consumer", "document-tasks", "--state", "started"];
    world.until(&open, |answer| answer.code == 0 && answer.lines().len() == 1);
    running.signal(Signal::SIGTERM);
    running.tells("STOPPING=1");
    until_logged(&world, "open work may finish");
    assert!(!world.log().contains("stopping at once"), "nobody has said so: {}", world.log());
    running.signal(Signal::SIGINT);
    until_logged(&world, "stopping at once");
    assert_eq!(running.wait(), 0);
    // What was cut off is closed by the next start, as declared, and done.
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    world.until_idle();
    let all = world.thought(&["run", "list", "--json", "--consumer", "document-tasks"]).expect(0).lines();
    let states: Vec<&str> = all.iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "completed").count(), 1, "{states:?}");
    assert!(states.len() == 2 && !states.contains(&"started"), "{states:?}");
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

/// Says whether a process takes these signals itself, instead of being ended by them.
fn takes(pid: u32, signals: &[Signal]) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    let mask = u64::from_str_radix(mask, 16).unwrap();
    signals.iter().all(|signal| mask & (1 << (*signal as u32 - 1)) != 0)
}

const ENDS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

#[test]
fn whoever_is_told_that_the_service_is_ready_may_signal_it_at_once() {
    let world = World::with_config();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let running = world.serve(&[]);
        assert!(takes(running.pid(), &ENDS));
        running.signal(Signal::SIGHUP);
        running.signal(signal);
        assert_eq!(running.wait(), 0, "{signal}: {}", world.log());
    }
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_stop_that_comes_while_the_service_starts_is_one() {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    for _ in 0..5 {
        let mut child =
            world.command(&["serve"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !takes(child.id(), &ENDS) {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before it listened");
        }
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    let running = world.serve(&[]);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

/// Returns how the writer is shown.
fn writer(world: &World) -> Value {
    let tree = world.thought(&["tree", "--json"]).expect(0).json();
    tree["children"].as_array().unwrap().iter().find(|child| child["name"] == "log").unwrap().clone()
}

#[test]
fn the_service_manager_hears_of_work_that_moves_and_nothing_once_the_writer_is_stuck() {
    let world = rehearsal();
    let running = world.serve_in(&[], |command| {
        command.env("WATCHDOG_USEC", "200000");
    });
    for _ in 0..3 {
        running.tells("WATCHDOG=1");
    }
    assert_eq!(writer(&world).get("answering"), None, "it is told only of those who do not");
    let append = held(&world, "k");
    let begun = Instant::now();
    // Fifty times as long as between two reports.
    while running.tells_within("WATCHDOG=1", Duration::from_secs(5)) {
        assert!(begun.elapsed() < PATIENCE, "it goes on reporting");
    }
    // Whoever looks is answered, and shown who is stuck.
    assert_eq!(writer(&world)["answering"], false);
    assert!(world.thought(&["tree"]).expect(0).stdout.contains("not answering"));
    world.thought(&["event", "list"]).expect(0);
    // The service manager would end it now.
    running.kill();
    ended(append);
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    assert_eq!(world.append("k", "x").expect(0).json()["already"], false, "nothing of it was written");
    assert_eq!(running.stop(), 0);
}

#[test]
fn the_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let world = World::with_config();
    // Coming back at all means that it has said so.
    let running = world.serve(&[]);
    world.thought(&["stop"]).expect(0);
    running.tells("STOPPING=1");
    assert_eq!(running.wait(), 0);
}

#[test]
fn a_stop_waits_until_the_service_has_gone_and_who_comes_meanwhile_is_told_that_it_drains() {
    let world = rehearsal();
    let running = world.serve(&[]);
    world.until_idle();
    arm(&world, "attempt.settle.before", "hold");
    std::fs::write(world.notes.join("held.md"), "# Held\n").unwrap();
    let open = |answer: &Answer| answer.stdout.contains("\"running\"");
    world.until(&["consumer", "list", "--json", "--state", "running"], open);
    let told = world.thought(&["stop", "--no-wait", "--json"]).expect(0).json();
    assert_eq!((&told["done"], &told["id"]), (&"stopping".into(), &"service".into()));
    running.tells("STOPPING=1");
    let refused = world.thought(&["status"]).expect(4).stderr;
    assert!(refused.contains("is stopping since") && refused.contains("thought stop"), "{refused}");
    assert!(!refused.contains("does not answer") && !refused.contains("end that process"), "{refused}");
    // It is on its way out already, and is waited for; what follows finds the log free.
    let stopped = world.thought(&["stop", "--json"]).expect(0).json();
    assert_eq!((&stopped["done"], &stopped["already"]), (&"stopped".into(), &true.into()));
    world.thought(&["compact"]).expect(0);
    world.thought(&["verify"]).expect(0);
    assert_eq!(running.wait(), 0);
    assert!(world.thought(&["stop"]).expect(1).stderr.contains("no service"));
}

#[test]
fn a_writer_that_cannot_be_kept_alive_ends_the_service_with_70_and_loses_nothing() {
    let world = rehearsal();
    let running = world.serve(&[]);
    world.until_idle();
    world.append("before", "acknowledged").expect(0);
    // One more than are answered by a new start; each springs at a passage of its own.
    for _ in 0..7 {
        arm(&world, "commit.before", "panic");
    }
    let append = world.append("k", "x");
    assert!(append.code == 5 && append.stderr.contains("run the same command again"), "{append:?}");
    assert_eq!(running.wait(), 70);
    let log = world.log();
    assert!(log.contains("`thoughtstream/log` could not be kept alive"), "{log}");
    assert!(log.contains("service.gave-up") && log.contains("what was acknowledged is safe"), "{log}");
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    assert_eq!(world.append("before", "acknowledged").expect(0).json()["already"], true);
    world.append("k", "x").expect(0);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    assert_eq!(
        world.thought(&["event", "list", "--json", "--source", "notes:test"]).expect(0).lines().len(),
        2
    );
}

#[test]
fn an_answer_that_is_lost_is_5_and_the_same_command_finds_out() {
    for (point, written) in
        [("commit.before", Some(false)), ("commit.inside", None), ("commit.after-sync", Some(true))]
    {
        let world = rehearsal();
        let running = world.serve(&[]);
        world.until_idle();
        arm(&world, point, "abort-process");
        let lost = world.append("k", "x").expect(5);
        let failure: Value = serde_json::from_str(&lost.stderr).unwrap();
        assert_eq!((&failure["code"], &failure["exit"]), (&"socket.unknown".into(), &5.into()), "{point}");
        assert!(failure["hint"].as_str().unwrap().contains("same"), "{failure}");
        assert!(lost.stdout.is_empty());
        running.wait();
        let again = world.append("k", "x").expect(0).json();
        if let Some(written) = written {
            assert_eq!(again["already"], written, "{point}");
        }
        assert_eq!(world.append("k", "x").expect(0).json()["already"], true);
        let notes = ["event", "list", "--json", "--source", "notes:test"];
        assert_eq!(world.thought(&notes).expect(0).lines().len(), 1, "{point}");
        world.thought(&["verify"]).expect(0);
    }
}

#[test]
fn a_decision_whose_answer_is_lost_is_5_too_and_is_made_once() {
    let world = rehearsal();
    let running = world.serve(&[]);
    world.until_idle();
    arm(&world, "commit.after-sync", "abort-process");
    let pause = ["consumer", "pause", "document-tasks"];
    let lost = world.thought(&pause).expect(5);
    assert!(lost.stderr.contains("run the same command again"), "{}", lost.stderr);
    running.wait();
    assert_eq!(world.thought(&[&pause[..], &["--json"]].concat()).expect(0).json()["already"], true);
}

#[test]
fn a_service_that_stands_still_is_named_and_nobody_hangs() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    running.signal(Signal::SIGSTOP);
    let pid = running.pid().to_string();
    let append =
        ["event", "append", "--source", "notes:test", "--type", "stream.thought.source.note", "--payload"];
    let payload = world.base().join("payload");
    std::fs::write(&payload, r#"{"text":"x"}"#).unwrap();
    let append = [&append[..], &[payload.to_str().unwrap(), "--key", "k"]].concat();
    let commands: [&[&str]; 10] = [
        &["status"],
        &["tree"],
        &["inbox"],
        &["verify"],
        &["event", "list"],
        &["why", "document-tasks"],
        &["consumer", "pause", "document-tasks"],
        &["stop"],
        &append,
        &["serve"],
    ];
    for (command, answer) in commands.iter().zip(world.at_once(&commands)) {
        assert_eq!(answer.code, 4, "{command:?} {answer:?}");
        assert!(answer.stdout.is_empty() && answer.stderr.contains(&pid), "{command:?} {answer:?}");
        let silent = command[0] == "serve" || answer.stderr.contains("which does not answer");
        assert!(silent && !answer.stderr.contains("os error"), "{command:?} {answer:?}");
    }
    let diagnosis = world.thought(&["doctor", "--quick", "--json"]).expect(4);
    assert!(diagnosis.stdout.contains("which does not answer"), "{diagnosis:?}");
    // Nothing of what was asked came through, and nothing is done late.
    running.signal(Signal::SIGCONT);
    world.until_idle();
    let states = world.thought(&["consumer", "list", "--json", "--state", "paused"]).expect(0).lines();
    assert!(states.is_empty(), "{states:?}");
    assert_eq!(world.append("k", "x").expect(0).json()["already"], false);
    assert_eq!(running.stop(), 0);
}

/// Starts a command, and waits until it has shown its first line.
fn following(world: &World, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = world.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert!(stdout.read_line(&mut String::new()).unwrap() > 0, "{arguments:?} has shown nothing");
    (child, stdout)
}

#[test]
fn whoever_is_being_answered_by_a_service_that_then_stands_still_is_told_so_and_nobody_hangs() {
    let world = rehearsal();
    let running = world.serve(&[]);
    world.append("first", "x").expect(0);
    let tail = ["event", "tail", "--source", "notes:test", "--after", "0"];
    let followers = [&tail[..], &["tree", "--watch", "--json"]].map(|arguments| following(&world, arguments));
    let append = held(&world, "k");
    // A person at a terminal is told while it waits.
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = world.command(&tail);
    let mut person = command.stdout(Stdio::piped()).stderr(terminal.slave).spawn().unwrap();
    drop(command);
    let mut shown = BufReader::new(person.stdout.take().unwrap());
    assert!(shown.read_line(&mut String::new()).unwrap() > 0);
    running.signal(Signal::SIGSTOP);
    let pid = format!("(process {}) stands still", running.pid());
    for (child, stdout) in followers {
        let answer = Answer::from(child.wait_with_output().unwrap());
        assert_eq!(answer.code, 4, "{answer:?}");
        assert!(answer.stderr.contains(&pid) && answer.stderr.contains("end that process"), "{answer:?}");
        drop(stdout);
    }
    let mut told = Vec::new();
    // Reading a terminal whose other side has gone is an error, and all of it was read by then.
    std::fs::File::from(terminal.master).read_to_end(&mut told).ok();
    let told = String::from_utf8(told).unwrap();
    let waits = format!("(process {}) has not answered for 6 s; waiting 10 s more", running.pid());
    assert!(told.contains(&waits) && told.contains(&pid), "{told}");
    assert_eq!(person.wait().unwrap().code(), Some(4));
    // What was to change something may have been done, and can be said again.
    let answer = Answer::from(append.wait_with_output().unwrap());
    assert_eq!(answer.code, 5, "{answer:?}");
    assert!(answer.stderr.contains(&pid) && answer.stderr.contains("--key k"), "{answer:?}");
    running.kill();
    let running = world.serve(&[]);
    assert_eq!(world.append("k", "x").expect(0).json()["already"], false, "nothing of it was written");
    assert_eq!(running.stop(), 0);
}

#[test]
fn an_answer_that_takes_its_time_is_waited_for_while_the_service_greets_whoever_comes_or_drains() {
    let worlds = [rehearsal(), rehearsal()];
    let begun: Vec<_> = worlds.iter().zip([false, true]).collect();
    let open = begun.into_iter().map(|(world, drains)| {
        drains_for(world, "10m");
        let running = world.serve(&[]);
        world.until_idle();
        let append = held(world, "k");
        if drains {
            // Its doors are closed, and whoever is inside is answered.
            running.signal(Signal::SIGTERM);
            until_logged(world, "open work may finish");
        }
        (running, append)
    });
    let open: Vec<_> = open.collect();
    for (running, append) in open {
        // Longer than a silent service is given: this is what the service itself says in the end.
        let answer = Answer::from(append.wait_with_output().unwrap());
        assert_eq!(answer.code, 5, "{answer:?}");
        assert!(answer.stderr.contains("the log has not answered for 30 s"), "{answer:?}");
        assert!(!answer.stderr.contains("stands still"), "{answer:?}");
        running.kill();
    }
}

/// Runs a command that can write none of its answer.
fn onto_a_full_device(world: &World, arguments: &[&str]) -> Answer {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    world.command(arguments).stdout(full).output().unwrap().into()
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure_with_its_reason() {
    let world = World::with_config();
    world.append("k", "x").expect(0);
    let commands: [&[&str]; 7] = [
        &["--help"],
        &["event", "--help"],
        &["--version"],
        &["event", "list"],
        &["declaration", "list"],
        &["completions", "bash"],
        &["man"],
    ];
    for command in commands {
        let answer = onto_a_full_device(&world, command);
        assert_eq!(answer.code, 4, "{command:?} {answer:?}");
        assert!(answer.stderr.contains("cannot write the output"), "{command:?} {}", answer.stderr);
        assert!(answer.stderr.contains("No space left") && answer.stderr.contains("output.write"));
        assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
    }
    let told = onto_a_full_device(&world, &["event", "list", "--json"]);
    let failure: Value = serde_json::from_str(&told.stderr).unwrap();
    assert_eq!((&failure["code"], &failure["exit"]), (&"output.write".into(), &4.into()));
}
