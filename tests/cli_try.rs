//! `ops/try` as somebody runs it who has just cloned the repository. What cargo would do is played: it has built already.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli_world::{Answer, World, on_a_terminal};

/// A directory of programs in which cargo only writes down that it was asked to build.
fn played(world: &World) -> PathBuf {
    let (programs, built) = (world.base().join("programs"), world.base().join("target/release"));
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::create_dir_all(&built).unwrap();
    symlink(env!("CARGO_BIN_EXE_thought"), built.join("thought")).unwrap();
    let cargo = format!(
        "#!/bin/sh\ncase \"$1\" in\n--version) echo 'cargo 99.0.0 (played)' ;;\n\
         build) echo \"$*\" >>'{base}/builds'; echo '{{\"executable\":\"{built}/thought\"}}' ;;\nesac\n",
        base = world.base().display(),
        built = built.display(),
    );
    std::fs::write(programs.join("cargo"), cargo).unwrap();
    std::fs::set_permissions(programs.join("cargo"), std::fs::Permissions::from_mode(0o755)).unwrap();
    programs
}

/// Runs it with what a shell of that world finds, everything that it says in one stream.
fn ops_try(world: &World, programs: &str, arguments: &[&str]) -> Command {
    let temporary = world.base().join("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/try"))
        .args(arguments)
        .env_clear()
        .env("PATH", programs)
        .env("HOME", world.base())
        .env("TMPDIR", temporary)
        .env("XDG_RUNTIME_DIR", world.base().join("run"))
        .current_dir(world.base());
    command
}

fn path_with(programs: &Path) -> String {
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
}

fn left(world: &World) -> usize {
    std::fs::read_dir(world.base().join("temporary")).unwrap().count()
}

#[test]
fn where_there_is_no_terminal_it_ends_by_itself_and_what_it_names_works() {
    let world = World::new();
    let path = path_with(&played(&world));
    let mine = world.base().join("my notes");
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("a.md"), "# One\n- [ ] a\n").unwrap();
    let mut command = ops_try(&world, &path, &["my notes"]);
    let answer: Answer = command.stdin(Stdio::null()).output().unwrap().into();
    let told = answer.expect(0).stdout;
    assert!(!told.contains("Go on?"), "{told}");
    for part in ["This will", "my notes", "== building", "== the main job", "== three commands to try next"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(std::fs::read_to_string(world.base().join("builds")).unwrap().lines().count(), 1);
    let files: Vec<_> = std::fs::read_dir(&mine).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["a.md"], "the folder is only read");
    let next = told.split("== three commands to try next").nth(1).unwrap();
    let commands: Vec<&str> =
        next.lines().filter_map(|line| line.strip_prefix("  ")).map(str::trim).collect();
    assert_eq!(commands.len(), 3, "{next}");
    let run = |line: &str| -> Answer {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).env_clear().env("PATH", &path).env("HOME", world.base());
        shell.stdin(Stdio::null()).output().unwrap().into()
    };
    assert!(run(commands[0]).expect(0).stdout.contains("document.tasks"));
    assert!(run(commands[1]).expect(0).stdout.contains("status-unknown"));
    // The last one starts a service for good; its first half writes the configuration.
    let (init, serve) = commands[2].split_once(" && ").unwrap();
    assert!(serve.ends_with(" serve") && init.contains("my\\ notes"), "{next}");
    run(init).expect(0);
    let remove = next.lines().find_map(|line| line.strip_prefix("To remove everything: ")).unwrap();
    assert_eq!(left(&world), 1);
    run(remove).expect(0);
    assert_eq!((left(&world), world.base().join("target").exists()), (0, false));
    assert!(mine.join("a.md").exists());
}

#[test]
fn at_a_terminal_it_asks_first_and_a_no_does_nothing() {
    let world = World::new();
    let path = path_with(&played(&world));
    for no in ["n\n", "no\n", "what?\n"] {
        let (code, shown) = on_a_terminal(ops_try(&world, &path, &[]), "Go on? [Y/n] ", &[no]);
        assert_eq!(code, 0, "{shown}");
        assert!(shown.contains("This will") && shown.contains("Nothing was done."), "{shown}");
        assert!(!shown.contains("== building"), "{shown}");
    }
    assert!(!world.base().join("builds").exists() && left(&world) == 0);
    let (code, shown) = on_a_terminal(ops_try(&world, &path, &[]), "Go on? [Y/n] ", &["\n"]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("== three commands to try next"), "{shown}");
    assert_eq!(std::fs::read_to_string(world.base().join("builds")).unwrap().lines().count(), 1);
}

#[test]
fn what_is_missing_is_named_before_anything_is_done() {
    let world = World::new();
    let path = path_with(&played(&world));
    // Everything but cargo: the shell and what it needs, each by its own name.
    let bare = world.base().join("bare");
    std::fs::create_dir(&bare).unwrap();
    for name in ["bash", "dirname", "uname", "sed", "cut", "sort", "head", "cat"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|directory| directory.join(name))
            .find(|file| file.exists());
        symlink(found.unwrap(), bare.join(name)).unwrap();
    }
    let bare = bare.display().to_string();
    for (path, arguments, says) in [
        (&path, &["/nowhere"][..], "/nowhere is not a folder"),
        (&path, &["--odd"], "there is no option --odd"),
        (&path, &[".", "."], "one folder at a time"),
        (&bare, &[], "needs Rust"),
    ] {
        let mut command = ops_try(&world, path, arguments);
        let answer: Answer = command.stdin(Stdio::null()).output().unwrap().into();
        let told = answer.expect(2).stdout;
        assert!(told.contains(says), "{says}: {told}");
    }
    assert!(!world.base().join("builds").exists() && left(&world) == 0);
}
