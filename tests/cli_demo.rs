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
