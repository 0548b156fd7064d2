//! A service that may have too few threads, descriptors or too little room: it says which limit it is, holds nothing,
//! and nobody has to find out from a process that answers nobody.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::chaos_refusals::{Unprivileged, fill, mount_small, with_a_disk_of_its_own};
use crate::cli_world::{Answer, World};

/// Runs a command under a limit, as `prlimit` names it; one that does not end by itself is ended, and fails.
fn under(unprivileged: &Unprivileged, user: u32, limit: &str, arguments: &[&str]) -> Answer {
    use std::os::unix::process::CommandExt as _;
    let like = unprivileged.command(arguments);
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(like.get_program()).args(arguments);
    command.env_clear().envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.current_dir(unprivileged.world.base()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).uid(user).gid(user);
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{limit}: it lives on: {:?}", child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_service_with_too_few_threads_or_descriptors_says_so_and_holds_nothing() {
    // The limit counts what a user runs anywhere: this one runs nothing else.
    let user = 60_000 + std::process::id() % 5_000;
    let unprivileged = Unprivileged::new();
    let given = Command::new("chown")
        .args(["-R", &format!("{user}:{user}")])
        .arg(unprivileged.world.base())
        .status()
        .unwrap();
    assert!(given.success(), "this test is run by root");
    for processes in 1..=9 {
        let limit = format!("--nproc={processes}");
        let refused = under(&unprivileged, user, &limit, &["serve"]).expect(4);
        assert!(refused.stderr.contains("[service.threads]"), "{limit}: {}", refused.stderr);
        assert!(refused.stderr.contains(&format!("is {processes} in all")), "{limit}: {}", refused.stderr);
        assert!(!refused.stderr.contains("panicked"), "{limit}: {}", refused.stderr);
    }
    for descriptors in [8, 16, 24, 32] {
        let limit = format!("--nofile={descriptors}");
        let refused = under(&unprivileged, user, &limit, &["serve"]).expect(4);
        assert!(refused.stderr.contains("[service.descriptors]"), "{limit}: {}", refused.stderr);
        assert!(refused.stderr.contains("LimitNOFILE"), "{limit}: {}", refused.stderr);
    }
    // Nothing is held: the log is there for whoever comes.
    let owner = under(&unprivileged, user, "--nofile=1024", &["verify"]).expect(0);
    assert!(owner.stderr.is_empty(), "{owner:?}");
    assert!(!unprivileged.world.data.join("service.owner").exists());
}

#[test]
fn a_worker_that_finds_no_room_is_not_called_unreadable() {
    with_a_disk_of_its_own("cli_means::without_room_for_the_worker");
}

#[test]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
fn without_room_for_the_worker() {
    let world = World::with_config();
    mount_small(&world.data, 16);
    assert_eq!(world.serve(&[]).stop(), 0);
    fill(&world.data.join("ballast"));
    let doctor = world.thought(&["doctor", "--quick", "--json"]).json();
    let sandbox = doctor["checks"].as_array().unwrap().iter().find(|check| check["id"] == "sandbox").unwrap();
    let seen = sandbox["evidence"].as_str().unwrap();
    assert!(seen.contains("(worker-no-room)") && seen.contains("bytes"), "{sandbox}");
    assert!(seen.contains(world.data.to_str().unwrap()), "{sandbox}");
    assert!(sandbox["fix"].as_str().unwrap().contains("free some space"), "{sandbox}");
    // With room for the log and not for the worker, a service says it in its own log, and says it once.
    let ballast = std::fs::OpenOptions::new().write(true).open(world.data.join("ballast")).unwrap();
    ballast.set_len(ballast.metadata().unwrap().len().saturating_sub(2 << 20)).unwrap();
    let running = world.serve(&[]);
    world.until(&["--version"], |_| world.log().contains("worker-no-room"));
    world.until_idle();
    assert_eq!(running.stop(), 0);
    let log = world.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("worker-no-room")).collect();
    let says = |words: &str| lines[0].contains(words);
    assert!(lines.len() == 1 && says("no worker can be started") && says("free some space"), "{log}");
    assert!(says("bytes") && says(world.data.to_str().unwrap()), "{log}");
}
