use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::*;

/// Long enough for a loaded machine; nobody waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that every machine has and that gives back what it reads.
fn echo() -> PathBuf {
    fs::canonicalize("/bin/cat").unwrap()
}

fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn launcher(program: &Path, place: &TempDir) -> Launcher {
    let bubblewrap = find_bubblewrap(std::env::var_os("PATH").as_deref()).unwrap();
    Launcher::start(WorkerBinary::open(program, place.path()).unwrap(), &bubblewrap).unwrap()
}

fn copy_of_echo(place: &TempDir) -> PathBuf {
    let path = place.path().join("program");
    fs::copy(echo(), &path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn is_alive(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn say(cell: &mut Cell, text: &str) -> String {
    let (stdin, stdout) = cell.take_pipes().unwrap();
    File::from(stdin).write_all(text.as_bytes()).unwrap();
    let mut said = String::new();
    File::from(stdout).read_to_string(&mut said).unwrap();
    said
}

#[test]
fn a_program_runs_inside_and_its_end_is_known() {
    let place = place();
    let launcher = launcher(&echo(), &place);
    for _ in 0..3 {
        let mut cell = launcher.launch(&Limits::default()).unwrap();
        assert_eq!(say(&mut cell, "through the pipe"), "through the pipe");
        assert_eq!(cell.end(PATIENCE), End::Exited(0), "{:?}", cell.complaint());
    }
    let binary = launcher.binary();
    assert_eq!(binary.sha256(), thoughtstream_domain::hash::Sha256Hash::of(&fs::read(echo()).unwrap()));
    assert!(binary.libraries().iter().any(|library| library.path.to_string_lossy().contains("libc.so")));
}

#[test]
fn whoever_lets_go_of_a_sandbox_ends_it() {
    let place = place();
    let launcher = launcher(&echo(), &place);
    let cell = launcher.launch(&Limits::default()).unwrap();
    let processes = cell.processes();
    assert!(processes.into_iter().all(is_alive));
    drop(cell);
    while processes.into_iter().any(is_alive) {
        std::thread::yield_now();
    }
}

#[test]
fn a_sandbox_that_hangs_is_killed_after_the_patience() {
    let place = place();
    let launcher = launcher(&echo(), &place);
    let mut cell = launcher.launch(&Limits::default()).unwrap();
    let pipes = cell.take_pipes();
    assert_eq!(cell.end(Duration::ZERO), End::Killed);
    drop(pipes);
}

#[test]
fn a_sandbox_ends_with_the_thread_that_started_it() {
    let place = place();
    let launcher = launcher(&echo(), &place);
    let mut cell = launcher.launch(&Limits::default()).unwrap();
    drop(launcher);
    // Its stdin is still open: it ends because its parent did.
    assert_eq!(cell.end(PATIENCE), End::Signalled(9));
}

#[test]
fn what_happens_to_the_file_after_it_was_opened_does_not_matter() {
    let place = place();
    let path = copy_of_echo(&place);
    let launcher = launcher(&path, &place);
    fs::write(&path, "#!/bin/sh\necho another\n").unwrap();
    let mut cell = launcher.launch(&Limits::default()).unwrap();
    assert_eq!(say(&mut cell, "as before"), "as before");
    fs::remove_file(&path).unwrap();
    assert_eq!(say(&mut launcher.launch(&Limits::default()).unwrap(), "still"), "still");
}

#[test]
fn a_worker_that_is_none_is_refused_with_a_code_and_a_way_out() {
    let place = place();
    let codes = |path: &Path| {
        let error = WorkerBinary::open(path, place.path()).unwrap_err();
        assert!(!error.way_out().is_empty());
        error.code()
    };
    assert_eq!(codes(&place.path().join("none")), "worker-missing");
    assert_eq!(codes(place.path()), "worker-unfit");
    let path = copy_of_echo(&place);
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(codes(&path), "worker-unfit", "everybody may write to it");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(codes(&path), "worker-unfit", "nobody may run it");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(codes(&path), "worker-unfit", "it is a script");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn layouts_are_removed_also_those_of_processes_that_are_no_more() {
    let place = place();
    let left = place.path().join("cell-4194305-0");
    fs::create_dir_all(left.join("lib")).unwrap();
    let others = place.path().join("cellar");
    fs::create_dir(&others).unwrap();
    let (one, two) = (WorkerBinary::open(&echo(), place.path()), WorkerBinary::open(&echo(), place.path()));
    assert!(!left.exists() && others.exists());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    drop((one, two));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn what_bubblewrap_says_is_told_when_it_builds_no_sandbox() {
    let place = place();
    let path = place.path().join("bwrap");
    fs::write(&path, "#!/bin/sh\necho 'bwrap: no namespaces here' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let launcher = Launcher::start(WorkerBinary::open(&echo(), place.path()).unwrap(), &path).unwrap();
    let error = launcher.launch(&Limits::default()).unwrap_err();
    assert_eq!(error.code(), "sandbox-refused");
    assert!(error.to_string().ends_with("bwrap: no namespaces here"), "{error}");
    fs::remove_file(&path).unwrap();
    assert_eq!(launcher.launch(&Limits::default()).unwrap_err().code(), "sandbox-no-bubblewrap");
}
