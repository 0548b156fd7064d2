//! The demonstration, as somebody sees it who has just built the program.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli_world::World;

#[test]
fn the_demonstration_ends_by_itself_and_leaves_nothing_behind() {
    let world = World::new();
    let answer = world.thought(&["demo"]).expect(0);
    for say in ["15 files became events", "status-unknown", "the log is whole", "Nothing was lost"] {
        assert!(answer.stdout.contains(say), "{say}:\n{}", answer.stdout);
    }
    let left: Vec<_> = std::fs::read_dir(world.base()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("demo")), "{left:?}");
}

#[test]
fn a_program_is_told_one_value_and_nobody_is_asked() {
    let world = World::new();
    let told = world.thought(&["demo", "--json"]).expect(0);
    let folder = told.json();
    assert_eq!(folder["files"], 15);
    assert_eq!(folder["deaths"].as_array().unwrap().len(), 2, "{folder}");
    assert_eq!((&folder["verify"]["ok"], &folder["alive"]["name"]), (&true.into(), &"thoughtstream".into()));
    assert!(folder["events"]["stream.thought.source.file.added@1"] == 15, "{folder}");
    // A terminal changes nothing about that.
    let (code, shown) =
        world.at_a_terminal(&["demo", "--conversation", "--json"], "or reject (r) ", &["r\n"]);
    assert_eq!(code, 0, "{shown}");
    let told: Value = serde_json::from_str(shown.trim()).unwrap_or_else(|_| panic!("{shown}"));
    assert_eq!(
        told["turns"][0],
        json!({ "said": "hello", "answered": "Hello Ada. What are you working on?" })
    );
    assert_eq!((&told["requests"], &told["arrived"]), (&2.into(), &2.into()));
    assert_eq!(told["accounts"][0]["reserved"]["inputTokens"], 60_000);
    assert!(told["events"].as_array().unwrap().iter().all(|event| event["id"].is_string()), "{told}");
    let proposal = &told["proposal"];
    assert_eq!(
        (&proposal["state"], &proposal["decision"]["disposition"]),
        (&"materialized".into(), &"accept".into())
    );
    assert_eq!(proposal["content"]["text"], "Lives in Lisbon.");
    assert!(told["memory"].as_str().unwrap().contains("Lives in Lisbon."));
    assert_eq!((&told["verify"]["ok"], &told["kept"]), (&true.into(), &Value::Null));
    let kept = world.thought(&["demo", "--json", "--keep"]).expect(0).json();
    assert!(std::path::Path::new(kept["kept"].as_str().unwrap()).is_dir());
    // What goes wrong is a failure and no half of a tale.
    let empty = world.thought(&["demo", "--json", &world.notes.display().to_string()]).expect(1);
    assert!(empty.stdout.is_empty() && empty.stderr.contains("\"demo.empty\""), "{empty:?}");
}

#[test]
fn a_folder_without_files_is_said_to_be_one() {
    let world = World::new();
    let notes = world.notes.display().to_string();
    assert!(world.thought(&["demo", &notes]).expect(1).stderr.contains("no file"));
    world.thought(&["demo", "/nowhere"]).expect(4);
}

#[test]
fn files_that_cannot_be_read_are_told_and_stop_nothing() {
    let world = World::new();
    std::fs::write(world.notes.join("good.md"), "# One\n[x](y.md)\n").unwrap();
    std::fs::write(world.notes.join("bad.md"), b"# Bad \xff\n").unwrap();
    std::fs::File::create(world.notes.join("large.md")).unwrap().set_len(1 << 40).unwrap();
    let answer = world.thought(&["demo", &world.notes.display().to_string()]).expect(0);
    for say in ["2 files became events", "document-not-utf8", "files-unread: too-large 1", "Nothing was lost"]
    {
        assert!(answer.stdout.contains(say), "{say}:\n{}", answer.stdout);
    }
    assert_eq!(answer.stdout.matches("  unprocessed  bad.md  document-").count(), 4, "{}", answer.stdout);
}

#[test]
fn a_conversation_is_answered_and_delivered_on_this_machine_alone() {
    let world = World::new();
    let answer = world.thought(&["demo", "--conversation"]).expect(0);
    for say in [
        "Two messages were answered and delivered",
        "  Ada  hello\n  bot  Hello Ada. What are you working on?",
        "  bot  After the last frost, so in about two weeks.",
        "source.telegram.message@1",
        "delivery.delivered@1",
        "60000 + 2000 tokens",
        "The provider counted 2 requests, and 2 messages arrived in the chat.",
        "The model asked to remember that, and nothing has changed:",
        "│ +Lives in Lisbon.",
        "There is no terminal to ask you at, so the demonstration accepts it in your place.",
        "The decision: accept, evt_",
        "Its receipt:  materialized, evt_",
        "  │ Grows beans.\n  │ Lives in Lisbon.\n",
        "the log is whole",
        "thought demo --conversation --keep",
    ] {
        assert!(answer.stdout.contains(say), "{say}:\n{}", answer.stdout);
    }
    assert_eq!(answer.stdout.matches("run.completed@1").count(), 2, "{}", answer.stdout);
    let left: Vec<_> = std::fs::read_dir(world.base()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("demo")), "{left:?}");
    world.thought(&["demo", "--conversation", "notes"]).expect(2);
}

/// What somebody types where the demonstration asks them, what is decided then, and how the page looks at the end.
#[test]
fn whoever_sits_at_a_terminal_decides_and_who_leaves_has_not_accepted() {
    let yes = ("accept", "  │ Grows beans.\n  │ Lives in Lisbon.\n", "memory.md now:");
    let no = ("reject", "  │ Grows beans.\n", "memory.md is as it was:");
    for (typed, (decided, page, said)) in [
        (&["a\n"][..], yes),
        (&["yes?\n", "accept\n"], yes),
        (&["r\n"], no),
        // The end of the input, as Ctrl-D gives it.
        (&["\u{4}"], no),
    ] {
        let world = World::new();
        let (code, shown) = world.at_a_terminal(&["demo", "--conversation"], "or reject (r) ", typed);
        assert_eq!(code, 0, "{typed:?}: {shown}");
        assert_eq!(shown.matches("Is it to be remembered?").count(), typed.len(), "{shown}");
        assert!(shown.contains(&format!("The decision: {decided}, evt_")), "{typed:?}: {shown}");
        let end = shown.split_once(said).unwrap_or_else(|| panic!("{typed:?}: {shown}")).1;
        assert!(end.contains(page), "{typed:?}: {shown}");
        assert_eq!(end.contains("Lives in Lisbon."), decided == "accept", "{typed:?}: {shown}");
        assert!(!shown.contains("There is no terminal"), "{shown}");
    }
}

#[test]
fn whoever_interrupts_at_the_question_ends_the_demonstration_and_leaves_nothing_behind() {
    let world = World::new();
    let mut terminal = world.command(&["demo", "--conversation"]);
    let pty = nix::pty::openpty(None, None).unwrap();
    terminal.stdin(pty.slave.try_clone().unwrap()).stdout(pty.slave).stderr(Stdio::piped());
    let child = terminal.spawn().unwrap();
    drop(terminal);
    let mut master = std::fs::File::from(pty.master);
    let (mut shown, mut bytes) = (String::new(), [0; 4096]);
    while !shown.contains("or reject (r) ") {
        let length = master.read(&mut bytes).unwrap();
        shown += &String::from_utf8_lossy(&bytes[..length]);
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("demo.interrupted"));
    let left: Vec<_> = std::fs::read_dir(world.base()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("demo")), "{left:?}");
}

#[test]
fn a_conversation_that_is_kept_can_be_looked_at_with_the_commands_it_names() {
    let world = World::new();
    let answer = world.thought(&["demo", "--conversation", "--keep"]).expect(0);
    let next = answer.stdout.split_once("Three commands to try:").unwrap().1;
    let commands: Vec<&str> = next.lines().filter_map(|line| line.trim().strip_prefix("thought ")).collect();
    assert_eq!(commands.len(), 3, "{next}");
    for command in commands {
        let words = command.split(" #").next().unwrap().split_whitespace();
        world.thought(&words.collect::<Vec<_>>()).expect(0);
    }
}
