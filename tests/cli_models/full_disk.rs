//! An answer that comes while the disk is full: it was paid for, and is kept until there is room.

use super::*;
use crate::chaos_refusals::{fill, mount_small, with_a_disk_of_its_own};

#[test]
fn an_answer_that_comes_while_the_disk_is_full_is_settled_once_there_is_room() {
    with_a_disk_of_its_own("cli_models::full_disk::on_a_disk_that_is_full_when_the_answer_comes");
}

#[test]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
fn on_a_disk_that_is_full_when_the_answer_comes() {
    let held = json(GOOD).in_manner(Manner { hold: Some("answer".to_owned()), ..Manner::default() });
    let stage = Stage::new(Script::answering(held), &Terms::default());
    let world = &stage.world;
    // The worker and its libraries are laid out there too.
    mount_small(&world.data, 64);
    world.thought(&["rehearsal", "create"]).expect(0);
    let service = world.serve(&[]);
    world.append("one", "The bed is dry again").expect(0);
    stage.runtime.block_on(stage.rehearsal.until_held("answer", 1));
    let ballast = world.data.join("ballast");
    fill(&ballast);
    // The first may have been on its way when the disk was full: nobody knows. It is none that the observer takes.
    std::fs::write(world.base().join("payload"), r#"{"text":"refused"}"#).unwrap();
    let elsewhere =
        ["event", "append", "--source", "notes:elsewhere", "--type", "stream.thought.source.note"];
    let elsewhere: Vec<&str> = elsewhere.into_iter().chain(["--key", "k", "--payload", "payload"]).collect();
    assert!([4, 5].contains(&world.thought(&elsewhere).code));
    stage.rehearsal.release("answer");
    // Nothing is recorded of it, and nobody takes it for lost.
    world.until(&["status", "--json"], |answer| answer.stdout.contains("disk-full"));
    assert_eq!(world.thought(&elsewhere).code, 4, "{}", world.log());
    let runs = stage.runs();
    assert_eq!((runs.len(), &runs[0]["state"]), (1, &"started".into()), "{runs:?}");
    std::fs::remove_file(&ballast).unwrap();
    stage.until(&["completed"]);
    assert_eq!((stage.requests(), stage.events()["stream.thought.derived.message.observation"]), (1, 1));
    assert_eq!(service.stop(), 0);
    stage.verify();
}
