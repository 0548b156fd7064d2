//! A producer apart that stands still: nobody is told that it has looked, and everybody sees that it does not answer.

use nix::sys::signal::Signal;

use crate::cli_apart::{SOURCE, added, apart, note, producer, until_added, until_note, verified};

#[test]
fn one_that_stands_still_has_not_looked_and_is_named_until_it_goes_on() {
    let world = apart("");
    note(&world, "a.md", "# One\n");
    let service = world.serve(&[]);
    let looking = producer(&world);
    until_added(&world, 1);
    // Who is told that it has looked finds what was there.
    note(&world, "b.md", "# Two\n");
    world.thought(&["source", "look", SOURCE]).expect(0);
    assert_eq!(added(&world).len(), 2);
    looking.signal(Signal::SIGSTOP);
    let pid = looking.pid().to_string();
    note(&world, "c.md", "# Three\n");
    let refused = world.thought(&["source", "look", SOURCE]).expect(4);
    assert!(refused.stderr.contains("[source.not-answering]"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("process {pid}")), "{}", refused.stderr);
    let place = until_note(&world, "not-answering");
    assert_eq!(place["detail"]["pid"], looking.pid());
    let waiting = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert_eq!(waiting[0]["kind"], "producer-not-connected");
    assert!(waiting[0]["why"].as_str().unwrap().contains(&format!("process {pid}")), "{waiting:?}");
    let doctor = world.thought(&["doctor", "--quick", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == "producers-connected").unwrap();
    assert_eq!(check["status"], "finding", "{check}");
    assert!(
        check["evidence"].as_str().unwrap().contains(&format!("process {pid} does not answer")),
        "{check}"
    );
    let again = world.thought(&["source", "look", SOURCE]).expect(4);
    assert!(again.stderr.contains("[source.not-answering]"), "{}", again.stderr);
    // It goes on as if nothing had been.
    looking.signal(Signal::SIGCONT);
    until_added(&world, 3);
    until_note(&world, "connected");
    world.thought(&["source", "look", SOURCE]).expect(0);
    looking.signal(Signal::SIGTERM);
    assert_eq!(looking.wait(), 0);
    assert_eq!(service.stop(), 0);
    verified(&world);
}
