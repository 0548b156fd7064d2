//! Small things as a person meets them: what is named, what is said when there is nothing, and what is not cut.

use crate::cli_world::World;

#[test]
fn files_that_name_an_id_twice_are_named() {
    let world = World::with_config();
    for name in ["one.md", "two.md"] {
        std::fs::write(world.notes.join(name), "---\nid: the-same\n---\n# text\n").unwrap();
    }
    let running = world.serve(&[]);
    let inbox = world.until(&["inbox"], |answer| answer.stdout.contains("duplicate-id"));
    assert!(inbox.stdout.contains("1 file names an id that another file has"), "{}", inbox.stdout);
    assert!(inbox.stdout.contains("give each an id of its own"), "a pipe gets all of it: {}", inbox.stdout);
    assert!(inbox.stdout.contains("thought source skipped filesystem:notes"), "{}", inbox.stdout);
    let named = world.thought(&["source", "skipped", "filesystem:notes", "--json"]).expect(0).lines();
    let named: Vec<_> = named.iter().filter(|row| row["reason"] == "duplicate-id").collect();
    assert_eq!(named.len(), 1, "{named:?}");
    let path = named[0]["path"].as_str().unwrap().to_owned();
    assert!(path == "one.md" || path == "two.md", "{path}");
    let why = world.thought(&["why", "filesystem:notes"]).expect(0).stdout;
    assert!(why.contains(&format!("whose id another file has: {path}")), "{why}");
    // Each of the two names the other, whichever is asked about.
    let files = ["event", "list", "--json", "--source", "filesystem:notes"];
    let files = world.thought(&files).expect(0).lines();
    let owner = if path == "one.md" { "two.md" } else { "one.md" };
    let about = |name: &str| {
        let event = files.iter().find(|event| event["payload"]["path"] == name).unwrap();
        world.thought(&["why", event["payload"]["documentId"].as_str().unwrap()]).expect(0).stdout
    };
    let (double, first) = (about(&path), about(owner));
    assert!(double.contains(&format!("its file names the id that {owner} has; each is")), "{double}");
    assert!(first.contains(&format!("its id is named by {path} as well; each is")), "{first}");
    assert!(first.contains("$ thought source skipped filesystem:notes"), "{first}");
    // Both are documents all the same, and the mended one ends it.
    std::fs::write(world.notes.join(&path), "---\nid: another\n---\n# text\n").unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    world.until(&["inbox"], |answer| answer.stdout == "nothing waits\n");
    assert!(!about(owner).contains("as well"), "it is over");
    assert_eq!(running.stop(), 0);
}

#[test]
fn what_there_is_nothing_of_is_said() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    let refused = world.thought(&["consumer", "retry", "document-links"]).expect(1).stderr;
    assert!(refused.contains("nothing of document-links waits"), "{refused}");
    let projected = world.thought(&["proposal-project"]).expect(0).stdout;
    assert_eq!(projected, "nothing is left to project\n");
    assert_eq!(world.thought(&["proposal-project", "--json"]).expect(0).stdout, "");
    assert_eq!(running.stop(), 0);
    let help = world.thought(&["help"]).expect(0).stdout;
    assert!(help.contains("Usage: thought") && help.contains("inbox"), "{help}");
    assert!(world.thought(&["help", "serve"]).expect(0).stdout.contains("--paused"));
}

#[test]
fn a_version_that_another_one_followed_is_counted_and_listed_when_asked_for() {
    let world = World::with_config();
    let running = world.serve(&[]);
    world.until_idle();
    let file = world.config.join("declarations/document-tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("description: ", "description: Now and then, ")).unwrap();
    world.thought(&["declaration", "bump", "document-tasks"]).expect(0);
    world.thought(&["reload"]).expect(0);
    for command in [&["status"][..], &["consumer", "list"]] {
        let shown = world.thought(command).expect(0).stdout;
        assert!(!shown.contains("document-tasks@2 ") && shown.contains("document-tasks@3 "), "{shown}");
        assert!(shown.contains("1 earlier version not listed: thought consumer list --all"), "{shown}");
        let all: Vec<&str> = command.iter().copied().chain(["--all"]).collect();
        let shown = world.thought(&all).expect(0).stdout;
        assert!(shown.contains("document-tasks@2 ") && !shown.contains("not listed"), "{shown}");
    }
    assert_eq!(running.stop(), 0);
}

#[test]
fn an_actor_is_named_alike_in_both_commands_of_a_rehearsal() {
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    let running = world.serve(&[]);
    world.until_idle();
    for path in ["consumers/document-links", "thoughtstream/consumers/document-tasks"] {
        let arm = ["rehearsal", "arm", "attempt.settle.before", "fail", "--passage", "900", "--actor", path];
        world.thought(&arm).expect(0);
        world.thought(&["rehearsal", "kill", path]).expect(0);
    }
    world.thought(&["rehearsal", "kill", "thoughtstream/consumers/nobody"]).expect(1);
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_description_that_hides_or_reorders_text_is_refused_at_its_place() {
    let world = World::with_config();
    let file = world.config.join("declarations/document-tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    for hidden in ["\u{202e}", "\u{200b}"] {
        std::fs::write(&file, text.replace("description: ", &format!("description: a{hidden}b "))).unwrap();
        let told = world.thought(&["declaration", "check"]).expect(2).stdout;
        assert!(told.contains("document-tasks.yaml") && told.contains("visible characters"), "{told}");
        assert!(!told.contains(hidden));
    }
}

#[test]
fn every_table_is_whole_in_a_pipe_and_a_glance_at_a_terminal() {
    let world = World::with_config();
    let long = "from the conversation so far, and suggests what to remember or correct.";
    let list = ["declaration", "list"];
    let piped = world.thought(&list).expect(0).stdout;
    assert!(piped.contains(long), "{piped}");
    let (code, shown) = world.at_a_terminal(&list, "?", &[]);
    assert!(code == 0 && !shown.contains(long) && shown.contains("telegram-conversation"), "{shown}");
    // What doctor has seen is as long as the path of the directory that it looked at.
    let deep = world.base().join("a-directory-with-a-long-name-".repeat(5)).display().to_string();
    let seen = world.thought(&["doctor", "--quick", "--data", &deep]).stdout;
    assert!(seen.contains(&format!("there is no directory `{deep}`")), "{seen}");
}

#[test]
fn the_folders_of_a_sound_configuration_are_looked_at_whatever_is_wrong_elsewhere() {
    let world = World::with_config();
    let file = world.config.join("declarations/document-tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("runner:", "runer:")).unwrap();
    std::fs::remove_dir_all(&world.notes).unwrap();
    std::fs::write(&world.notes, "no folder").unwrap();
    let told = world.thought(&["declaration", "check"]).expect(2).stdout;
    assert!(told.contains("document-tasks.yaml") && told.contains("runer"), "{told}");
    assert!(told.contains("config.yaml") && told.contains("is not a directory"), "{told}");
}

#[test]
fn a_pipe_gets_a_block_for_each_thing_that_waits_and_why_answers_for_each() {
    let world = World::with_config();
    let running = world.serve(&["--paused"]);
    world.thought(&["consumer", "pause", "document-links", "--reason", "a long holiday"]).expect(0);
    let rows = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert!(rows.len() > 1, "{rows:?}");
    let text = world.thought(&["inbox"]).expect(0).stdout;
    let blocks: Vec<Vec<&str>> = text.trim_end().split("\n\n").map(|block| block.lines().collect()).collect();
    assert_eq!(blocks.len(), rows.len(), "{text}");
    for (row, block) in rows.iter().zip(&blocks) {
        let word = |key: &str| row[key].as_str().unwrap().to_owned();
        assert!(block[0].starts_with(&format!("{}  {}  ", word("kind"), word("id"))), "{text}");
        assert_eq!(block[1], format!("  {}", word("why")));
        assert_eq!(block[2], format!("    {}", word("command")), "{text}");
        // What the list names can be asked about, whether it is an id or a word.
        let why = world.thought(&["why", &word("id")]).expect(0).stdout;
        assert!(why.contains(&word("why")) && why.contains(&word("command")), "{why}");
    }
    let log = world.thought(&["why", "log", "--json"]).expect(0).json();
    assert!(log["state"] == "sound" && log["kind"] == "waiting", "{log}");
    world.thought(&["why", "nobody"]).expect(1);
    assert_eq!(running.stop(), 0);
}
