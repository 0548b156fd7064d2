//! A disk that turns read-only under a running service: whoever comes reaches the service all the same, and everybody
//! is told what the matter is.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::chaos_refusals::with_a_disk_of_its_own;
use crate::cli_ends::{arm, drains_for, rehearsal};
use crate::cli_world::World;

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns how a check of doctor ended, and what to do about it.
fn check(world: &World, id: &str) -> (String, String) {
    let doctor = world.thought(&["doctor", "--quick", "--json"]).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).unwrap().clone();
    (check["status"].as_str().unwrap().to_owned(), check["fix"].as_str().unwrap_or_default().to_owned())
}

fn well(world: &World) {
    world.append("k", "acknowledged").expect(0);
    for id in ["data-directory", "log-writable"] {
        assert_eq!(check(world, id).0, "ok", "{id}");
    }
}

/// Everything that a person does then reaches the service, or is told the truth.
fn reached(world: &World, pid: u32) {
    for id in ["data-directory", "disk-room"] {
        let (status, fix) = check(world, id);
        assert_eq!(status, "finding", "{id}");
        assert!(fix.contains("for writing"), "{id}: {fix}");
    }
    for arguments in [&["status"][..], &["reload"], &["consumer", "pause", "document-links"]] {
        let answer = world.thought(arguments);
        assert!(
            !answer.stderr.contains("data.") && !answer.stderr.contains("lock"),
            "{arguments:?} {answer:?}"
        );
    }
    let other = world.thought(&["serve"]).expect(4);
    assert!(other.stderr.contains(&pid.to_string()), "{}", other.stderr);
}

/// Nobody runs: whoever wants to write is told that nothing can be written.
fn refused(world: &World) {
    for arguments in [&["serve"][..], &["consumer", "pause", "document-links"]] {
        let answer = world.thought(arguments).expect(4);
        assert!(answer.stderr.contains("[data.read-only]"), "{}", answer.stderr);
        assert!(answer.stderr.contains("mount its file system for writing"), "{}", answer.stderr);
    }
    world.thought(&["event", "list"]).expect(0);
}

#[test]
fn a_service_whose_directory_is_mounted_for_reading_only_is_reached_and_stopped() {
    with_a_disk_of_its_own("chaos_read_only::below_a_mount_for_reading_only");
}

#[test]
#[ignore = "it needs mounts of its own; the test above runs it with them"]
fn below_a_mount_for_reading_only() {
    let world = World::with_config();
    let running = world.serve(&[]);
    well(&world);
    let data = text(&world.data).to_owned();
    run("mount", &["--bind", &data, &data]);
    run("mount", &["-o", "remount,bind,ro", &data]);
    reached(&world, running.pid());
    assert_eq!(world.thought(&["status", "--json"]).expect(0).json()["service"]["pid"], running.pid());
    let (status, fix) = check(&world, "log-writable");
    assert!(status == "finding" && fix.contains("for writing"), "{status}: {fix}");
    world.thought(&["reload"]).expect(0);
    // What the service has open it may still write.
    world.append("late", "through the service").expect(0);
    world.thought(&["stop"]).expect(0);
    assert_eq!(running.wait(), 0);
    refused(&world);
    run("umount", &[&data]);
    assert_eq!(world.serve(&[]).stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn whoever_stops_a_service_that_cannot_record_that_it_drains_waits_as_long_as_it_may_take() {
    with_a_disk_of_its_own("chaos_read_only::a_long_drain_below_a_mount_for_reading_only");
}

#[test]
#[ignore = "it needs mounts of its own; the test above runs it with them"]
fn a_long_drain_below_a_mount_for_reading_only() {
    let world = rehearsal();
    // Longer than a service without a drain is given to close what it holds.
    drains_for(&world, "17s");
    let running = world.serve(&[]);
    world.until_idle();
    arm(&world, "attempt.runner.inside", "hold");
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    world.until(&["run", "list", "--json", "--state", "started"], |answer| !answer.stdout.is_empty());
    let data = text(&world.data).to_owned();
    run("mount", &["--bind", &data, &data]);
    run("mount", &["-o", "remount,bind,ro", &data]);
    let (begun, told) = (Instant::now(), world.thought(&["stop", "--json"]).expect(0).json());
    assert!(begun.elapsed() > Duration::from_secs(16), "nothing was open");
    assert!(world.log().contains("the end is not told to others"), "{}", world.log());
    assert_eq!(told, serde_json::json!({ "done": "stopped", "id": "service" }));
    assert_eq!(running.wait(), 0);
    run("umount", &[&data]);
    assert_eq!(world.serve(&[]).stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_service_whose_disk_refuses_every_write_is_reached_and_stopped() {
    with_a_disk_of_its_own("chaos_read_only::on_a_disk_that_was_aborted");
}

#[test]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
fn on_a_disk_that_was_aborted() {
    let world = World::with_config();
    let (image, disk) = (world.base().join("image"), world.base().join("disk"));
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    run("mkfs.ext4", &["-q", text(&image)]);
    std::fs::create_dir(&disk).unwrap();
    run("mount", &["-o", "loop", text(&image), text(&disk)]);
    run("install", &["-d", "-m", "0700", text(&disk.join("data"))]);
    run("mount", &["--bind", text(&disk.join("data")), text(&world.data)]);
    let running = world.serve(&[]);
    well(&world);
    // As the kernel does it when the disk has failed: it still counts as mounted for writing.
    run("mount", &["-o", "remount,abort", text(&disk)]);
    let answer = world.append("late", "refused");
    assert!([4, 5].contains(&answer.code) && !answer.stderr.contains("data.lock"), "{answer:?}");
    reached(&world, running.pid());
    world.thought(&["stop"]);
    assert_eq!(running.wait(), 0);
    refused(&world);
}
