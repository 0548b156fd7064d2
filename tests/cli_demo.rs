//! The demonstration, as somebody sees it who has just built the program.

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
fn a_folder_without_files_is_said_to_be_one() {
    let world = World::new();
    let notes = world.notes.display().to_string();
    assert!(world.thought(&["demo", &notes]).expect(1).stderr.contains("no file"));
    world.thought(&["demo", "/nowhere"]).expect(4);
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
