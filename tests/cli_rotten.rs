//! Rows of the log that rotted while no service ran: whoever needs one stands still and says over which, nothing
//! follows from it, and everybody else goes on.

use redb::ReadableTable as _;
use serde_json::Value;

use crate::cli_world::{Answer, World};

const REBUILD: &str = "thought stop && thought rebuild";
const RESTORE: &str = "thought restore FILE --data DIR";

/// Changes the rows of a table in the log of a service that is down; answers how many it changed.
fn rot(world: &World, table: &str, mut change: impl FnMut(&[u8], &mut Vec<u8>)) -> usize {
    let definition: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new(table);
    let database = redb::Database::open(world.data.join("log.redb")).unwrap();
    let write = database.begin_write().unwrap();
    let mut changed = 0;
    {
        let mut rows = write.open_table(definition).unwrap();
        let read = rows.iter().unwrap().map(|row| row.unwrap());
        let read: Vec<(Vec<u8>, Vec<u8>)> =
            read.map(|(key, row)| (key.value().to_vec(), row.value().to_vec())).collect();
        for (key, stood) in read {
            let mut row = stood.clone();
            change(&key, &mut row);
            if row != stood {
                rows.insert(&key[..], &row[..]).unwrap();
                changed += 1;
            }
        }
    }
    write.commit().unwrap();
    changed
}

/// Changes the keys of rows of a table in the same way.
fn rekey(world: &World, table: &str, mut change: impl FnMut(&mut Vec<u8>)) {
    let mut stood = Vec::new();
    rot(world, table, |key, row| stood.push((key.to_vec(), row.clone())));
    let definition: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new(table);
    let database = redb::Database::open(world.data.join("log.redb")).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut rows = write.open_table(definition).unwrap();
        for (key, row) in stood {
            let mut other = key.clone();
            change(&mut other);
            rows.remove(&key[..]).unwrap();
            rows.insert(&other[..], &row[..]).unwrap();
        }
    }
    write.commit().unwrap();
}

/// Returns the number that a name has, as the keys of rows have it.
fn number(world: &World, kind: u8, name: &str) -> Vec<u8> {
    let mut found = None;
    rot(world, "names", |key, row| {
        if key[0] == kind && &key[1..] == name.as_bytes() {
            found = Some(row.clone());
        }
    });
    found.unwrap()
}

/// Returns where a text stands in a row.
fn find(row: &[u8], text: &str) -> Option<usize> {
    row.windows(text.len()).position(|window| window == text.as_bytes())
}

fn file_events(world: &World) -> Vec<String> {
    let listed =
        world.thought(&["event", "list", "--json", "--source", "filesystem:notes"]).expect(0).lines();
    let kinds =
        listed.iter().map(|event| event["type"].as_str().unwrap().rsplit('.').next().unwrap().to_owned());
    kinds.collect()
}

/// Waits until the inbox says this of something, and returns it.
fn waits(world: &World, kind: &str, why: &str) -> Value {
    let is_it =
        |one: &Value| one["kind"] == kind && one["why"].as_str().is_some_and(|told| told.contains(why));
    let answer =
        world.until(&["inbox", "--json"], |answer| answer.code == 0 && answer.lines().iter().any(is_it));
    answer.lines().into_iter().find(is_it).unwrap()
}

/// Checks that `verify` and `doctor` name a row as rotten, and it alone.
fn named(world: &World, place: &str) {
    let found = world.thought(&["verify", "--json"]).expect(1).json();
    let findings = found["findings"].as_array().unwrap();
    assert_eq!((findings.len(), &findings[0]["kind"]), (1, &"seal".into()), "{found}");
    assert!(findings[0]["place"].as_str().unwrap().starts_with(place), "{found}");
    assert!(world.thought(&["verify"]).expect(1).stdout.contains("the row is not the one that was written"));
    let doctor = world.thought(&["doctor"]).expect(1).stdout;
    let cure = if place.starts_with("documents") { "thought rebuild" } else { "thought restore" };
    let other = if cure == "thought rebuild" { "thought restore" } else { "thought rebuild" };
    assert!(doctor.contains(place) && doctor.contains(cure) && !doctor.contains(other), "{doctor}");
}

fn lived_in() -> World {
    let world = World::with_config();
    std::fs::write(world.notes.join("a.md"), "# One\n- [ ] a\n").unwrap();
    world
}

/// One whose consumers have done what there was, and whose service is down.
fn at_rest() -> World {
    let world = lived_in();
    let running = world.serve(&[]);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    world
}

fn pause(world: &World, consumer: &str) {
    world.thought(&["consumer", "pause", consumer, "--reason", "a rest"]).expect(0);
}

#[test]
fn a_rotten_row_of_a_document_makes_no_event_and_its_producer_names_it() {
    let world = at_rest();
    let flip = |_: &[u8], row: &mut Vec<u8>| {
        let path = find(row, "\"path\":\"a.md\"").unwrap() + "\"path\":\"".len();
        row[path] ^= 1;
    };
    assert_eq!(rot(&world, "documents", flip), 1);
    named(&world, "documents doc_");
    let running = world.serve(&[]);
    let waiting = waits(&world, "actor-quarantined", "documents doc_");
    assert_eq!(waiting["id"], "producers/filesystem:notes", "{waiting}");
    assert_eq!(waiting["command"], "thought verify", "{waiting}");
    assert_eq!(waiting["ways"], serde_json::json!([REBUILD]), "{waiting}");
    assert!(world.thought(&["tree"]).expect(0).stdout.contains("documents doc_"));
    world.thought(&["doctor", "--quick"]).expect(1);
    assert_eq!(file_events(&world), ["added"]);
    // What comes from elsewhere goes on.
    world.append("k", "x").expect(0);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    // The row is made from others: what it was is still there.
    world.thought(&["rebuild"]).expect(0);
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    std::fs::rename(world.notes.join("a.md"), world.notes.join("b.md")).unwrap();
    world.thought(&["source", "look", "filesystem:notes"]).expect(0);
    assert_eq!(file_events(&world).len(), 2);
    assert_eq!(running.stop(), 0);
}

/// The seal of a row, as anybody can make it who knows the program.
fn seal(table: u8, key: &[u8], body: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new_derive_key("thoughtstream 2026 row seal v1");
    hasher.update(&[table]).update(&(key.len() as u64).to_le_bytes()).update(key).update(body);
    hasher.finalize().as_bytes()[..8].try_into().unwrap()
}

/// Whoever writes a row on purpose leaves its seal away, as format 1 did, or makes a new one: the event decides.
#[test]
fn a_forged_row_of_a_document_makes_no_event_either() {
    const DOCUMENTS: u8 = 20;
    for is_sealed in [false, true] {
        let world = at_rest();
        let forge = |key: &[u8], row: &mut Vec<u8>| {
            let body = row[2..row.len() - 8].to_vec();
            let body = String::from_utf8(body).unwrap().replace("\"a.md\"", "\"old.md\"").into_bytes();
            let sealed = [&row[..2], &body, &seal(DOCUMENTS, key, &body)].concat();
            *row = if is_sealed { sealed } else { body };
        };
        assert_eq!(rot(&world, "documents", forge), 1);
        let found = world.thought(&["verify", "--json"]).expect(1).json();
        assert_ne!(found["findings"][0]["kind"], "seal", "the seal is a good one, or none: {found}");
        let running = world.serve(&[]);
        waits(&world, "actor-quarantined", "documents doc_");
        assert_eq!(file_events(&world), ["added"]);
        assert_eq!(running.stop(), 0);
    }
}

#[test]
fn a_consumer_whose_progress_rotted_passes_nothing_and_the_others_go_on() {
    let world = lived_in();
    let running = world.serve(&[]);
    world.until_idle();
    let progress = world.thought(&["status", "--json"]).expect(0).json();
    assert_eq!(running.stop(), 0);
    let consumer = progress["consumers"][0]["consumer"].as_str().unwrap().to_owned();
    let name = consumer.split('@').next().unwrap().to_owned();
    // One that stands at 1 seems to stand at 3, behind what is to come.
    let number = number(&world, 2, &consumer);
    let changed = rot(&world, "progress", |key, row| {
        if key[..4] == number[..] {
            row[9] ^= 2;
        }
    });
    assert_eq!(changed, 1);
    let place = format!("progress {consumer} filesystem:notes");
    named(&world, &place);
    let running = world.serve(&[]);
    std::fs::write(world.notes.join("b.md"), "# Two\n- [ ] b\n").unwrap();
    let waiting = waits(&world, "consumer-quarantined", &place);
    assert_eq!((waiting["id"].as_str(), waiting["command"].as_str()), (Some(&*name), Some("thought verify")));
    // To resume it brings nothing: it would meet the same row.
    assert_eq!(waiting["ways"], serde_json::json!([RESTORE]), "{waiting}");
    let listed = world.thought(&["status", "--json"]).expect(0).json();
    let its =
        listed["consumers"].as_array().unwrap().iter().find(|one| one["consumer"] == *consumer).unwrap();
    assert_eq!(its["command"], "thought verify", "{its}");
    let why = world.thought(&["why", &name]).expect(0).stdout;
    assert!(why.contains(&place), "{why}");
    for shown in ["tree", "status"] {
        assert!(world.thought(&[shown]).expect(0).stdout.contains(&name), "{shown}");
    }
    let done = |answer: &Answer| answer.lines().iter().filter(|run| run["state"] == "completed").count() == 7;
    let runs = world.until(&["run", "list", "--json"], done).lines();
    let of_it = runs.iter().filter(|run| run["consumer"] == *consumer).count();
    assert_eq!(of_it, 1, "{runs:?}");
    assert_eq!(running.stop(), 0);
    // It is one thing that waits, whether the service runs or not.
    let waiting = world.thought(&["inbox", "--json"]).expect(0).lines();
    let of_it: Vec<&Value> = waiting.iter().filter(|one| one["id"] == *name).collect();
    assert!(of_it.len() == 1 && of_it[0]["why"].as_str().unwrap().contains(&place), "{waiting:?}");
    assert_eq!(of_it[0]["ways"], serde_json::json!([RESTORE]), "{waiting:?}");
}

#[test]
fn a_consumer_whose_control_row_rotted_is_not_started_by_that() {
    let world = lived_in();
    let running = world.serve(&["--paused"]);
    pause(&world, "document-tasks");
    assert_eq!(running.stop(), 0);
    // A member of another name is one that nobody has set: the consumer would not be paused any more.
    let flip = |_: &[u8], row: &mut Vec<u8>| {
        let at = find(row, "pausedSince").unwrap();
        row[at] = b'q';
    };
    assert_eq!(rot(&world, "controls", flip), 1);
    let place = "controls document-tasks";
    named(&world, place);
    for _ in 0..2 {
        let waiting = waits(&world, "consumer-quarantined", place);
        assert_eq!(
            (&waiting["id"], &waiting["command"]),
            (&"document-tasks".into(), &"thought verify".into())
        );
        let running = world.serve(&[]);
        let done =
            |answer: &Answer| answer.lines().iter().filter(|run| run["state"] == "completed").count() == 3;
        let runs = world.until(&["run", "list", "--json"], done).lines();
        assert!(runs.iter().all(|run| run["consumer"] != "document-tasks@2"), "{runs:?}");
        let status = world.thought(&["status", "--json"]).expect(0).json();
        let of_it = status["consumers"].as_array().unwrap().iter();
        let of_it: Vec<&Value> = of_it.filter(|one| one["consumer"] == "document-tasks@2").collect();
        assert!(
            of_it[0]["state"] == "quarantined" && of_it[0]["why"].as_str().unwrap().contains(place),
            "{of_it:?}"
        );
        let refused = world.thought(&["consumer", "resume", "document-tasks"]).expect(4);
        assert!(refused.stderr.contains(place) && refused.stderr.contains(RESTORE), "{refused:?}");
        assert_eq!(running.stop(), 0);
    }
}

#[test]
fn content_that_rotted_is_worked_on_by_nobody() {
    let world = lived_in();
    let running = world.serve(&["--paused"]);
    world.until(&["event", "list", "--json", "--source", "filesystem:notes"], |answer| {
        answer.lines().len() == 1
    });
    assert_eq!(running.stop(), 0);
    let flip = |_: &[u8], row: &mut Vec<u8>| {
        if let Some(at) = find(row, "# One") {
            row[at + 2] ^= 1;
        }
    };
    assert_eq!(rot(&world, "blobs", flip), 1);
    let running = world.serve(&[]);
    let waiting = waits(&world, "execution-quarantined", "log-damaged");
    assert!(waiting["command"].as_str().unwrap().starts_with("thought "), "{waiting}");
    let runs = world.thought(&["run", "list", "--json"]).expect(0).lines();
    assert!(runs.iter().all(|run| run["state"] != "completed"), "{runs:?}");
    assert_eq!(running.stop(), 0);
    assert_eq!(world.thought(&["verify", "--json"]).expect(1).json()["findings"][0]["kind"], "blob");
}

#[test]
fn whoever_needs_a_head_that_rotted_is_told_the_row_and_a_rebuild_brings_it_back() {
    let world = lived_in();
    let running = world.serve(&[]);
    world.append("first", "x").expect(0);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    let number = number(&world, 0, "notes:test");
    let flip = |key: &[u8], row: &mut Vec<u8>| {
        if *key == number[..] {
            row[4] ^= 1;
        }
    };
    assert_eq!(rot(&world, "heads", flip), 1);
    let place = "heads notes:test";
    let told = |answer: Answer| {
        let answer = answer.expect(4);
        for word in [place, "thought verify", REBUILD] {
            assert!(answer.stderr.contains(word), "{answer:?}");
        }
    };
    told(world.append("second", "y"));
    // Where the next event of a source goes, a service has to know of all of them.
    told(world.thought(&["serve"]));
    // What it was follows from the events: built again, it takes what was kept out.
    world.thought(&["rebuild"]).expect(0);
    world.append("second", "y").expect(0);
    world.thought(&["verify"]).expect(0);
}

/// What the index leads to is sound, and what it should have led to: to skip it would lose it.
#[test]
fn a_rotten_index_is_no_damaged_event_and_a_rebuild_loses_nothing() {
    let world = lived_in();
    let running = world.serve(&["--paused"]);
    world.until(&["event", "list", "--json", "--source", "filesystem:notes"], |answer| {
        answer.lines().len() == 1
    });
    assert_eq!(running.stop(), 0);
    let source = number(&world, 0, "filesystem:notes");
    let away = |key: &[u8], row: &mut Vec<u8>| {
        if key[4..8] == source[..] {
            row[7] ^= 1;
        }
    };
    assert_eq!(rot(&world, "types", away), 1);
    let doctor = world.thought(&["doctor"]).expect(1).stdout;
    assert!(doctor.contains("thought rebuild") && !doctor.contains("thought restore"), "{doctor}");
    let told = |waiting: &Value| {
        assert!(waiting["why"].as_str().unwrap().contains("filesystem:notes 1"), "{waiting}");
        assert_eq!(waiting["command"], "thought verify", "{waiting}");
        assert_eq!(waiting["ways"], serde_json::json!([REBUILD]), "{waiting}");
    };
    // What waits is the same, whether the service runs or not.
    told(&waits(&world, "consumer-quarantined", "types "));
    let running = world.serve(&[]);
    let waiting = waits(&world, "consumer-quarantined", "store-unreadable: types ");
    told(&waiting);
    let all = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert!(all.iter().all(|one| one["kind"] != "event-damaged"), "{all:?}");
    let id = waiting["id"].as_str().unwrap();
    let skip = ["consumer", "skip", id, "--source", "filesystem:notes", "--sequence", "1", "--reason", "x"];
    let refused = world.thought(&skip).expect(4);
    assert!(refused.stderr.contains("types ") && refused.stderr.contains(REBUILD), "{refused:?}");
    let quarantined: Vec<String> = all
        .iter()
        .filter(|one| one["kind"] == "consumer-quarantined")
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(running.stop(), 0);
    world.thought(&["rebuild"]).expect(0);
    world.thought(&["verify"]).expect(0);
    let running = world.serve(&[]);
    let waiting = waits(&world, "consumer-quarantined", "store-unreadable");
    assert_eq!(waiting["ways"], serde_json::json!(["thought verify"]), "{waiting}");
    for id in quarantined {
        world.thought(&["consumer", "resume", &id]).expect(0);
    }
    world.until_idle();
    let runs = world.thought(&["run", "list", "--json"]).expect(0).lines();
    assert!(
        runs.iter().any(|run| run["consumer"] == "document-tasks@2" && run["state"] == "completed"),
        "{runs:?}"
    );
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

/// Nobody can miss what is not where it is looked for, but whoever looks at everything.
#[test]
fn an_event_that_no_index_leads_to_is_passed_and_verify_says_so() {
    for first in ["rebuild", "serve"] {
        let world = lived_in();
        let running = world.serve(&["--paused"]);
        world.until(&["event", "list", "--json", "--source", "filesystem:notes"], |answer| {
            answer.lines().len() == 1
        });
        assert_eq!(running.stop(), 0);
        let source = number(&world, 0, "filesystem:notes");
        rekey(&world, "types", |key| {
            if key[4..8] == source[..] {
                key[5] ^= 1;
            }
        });
        let found = || {
            let answer = world.thought(&["verify", "--json"]).json();
            let findings = answer["findings"].as_array().unwrap().clone();
            findings.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(), ["index"]);
        if first == "rebuild" {
            world.thought(&["rebuild"]).expect(0);
        }
        // To come behind it is what says that it was passed.
        std::fs::write(world.notes.join("b.md"), "# Two\n").unwrap();
        let running = world.serve(&[]);
        let all = if first == "rebuild" { 8 } else { 4 };
        let done =
            |answer: &Answer| answer.lines().iter().filter(|run| run["state"] == "completed").count() == all;
        world.until(&["run", "list", "--json"], done);
        world.until_idle();
        assert_eq!(running.stop(), 0);
        let runs = world.thought(&["run", "list", "--json"]).expect(0).lines();
        assert_eq!(runs.len(), all, "{runs:?}");
        if first == "rebuild" {
            assert!(found().is_empty());
        } else {
            let said = world.thought(&["verify"]).expect(1).stdout;
            assert!(said.contains("matches at sequence 1 and was never processed"), "{said}");
            world.thought(&["rebuild"]).expect(0);
            assert!(found().iter().all(|kind| kind == "progress") && !found().is_empty());
        }
    }
}

#[test]
fn a_declaration_that_rotted_keeps_the_whole_service_from_starting() {
    let world = at_rest();
    let mut place = None;
    rot(&world, "declarations", |key, row| {
        if place.is_none() {
            place = Some(format!("declarations {}", std::str::from_utf8(key).unwrap()));
            *row.last_mut().unwrap() ^= 1;
        }
    });
    let place = place.unwrap();
    let answer = world.thought(&["serve"]).expect(4);
    assert!(answer.stderr.contains(&place) && answer.stderr.contains(RESTORE), "{answer:?}");
    assert!(world.thought(&["verify"]).expect(1).stdout.contains(&place));
}

/// What is skipped names the events that it passes: one that an index does not lead to is not among them.
#[test]
fn nothing_is_skipped_over_an_index_that_rotted() {
    let world = lived_in();
    std::fs::write(world.notes.join("a.md"), b"# One \xff\n").unwrap();
    let running = world.serve(&[]);
    let waiting = waits(&world, "unprocessed", "document-not-utf8");
    world.until_idle();
    assert_eq!(running.stop(), 0);
    let source = number(&world, 0, "filesystem:notes");
    let away = |key: &[u8], row: &mut Vec<u8>| {
        if key[..4] == source[..] {
            row[7] ^= 1;
        }
    };
    assert_eq!(rot(&world, "sequences", away), 1);
    let skip = ["consumer", "skip", waiting["id"].as_str().unwrap(), "--reason", "x"];
    let refused = world.thought(&skip).expect(4);
    assert!(refused.stderr.contains("sequences filesystem:notes 1") && refused.stderr.contains(REBUILD));
    world.thought(&["rebuild"]).expect(0);
    world.thought(&skip).expect(0);
    world.thought(&["verify"]).expect(0);
}

/// The names of a log have no other row that they are made from; what they lead to has.
#[test]
fn a_rotten_number_of_a_name_is_left_behind_by_an_export() {
    let world = at_rest();
    let flip = |key: &[u8], row: &mut Vec<u8>| {
        if &key[1..] == b"filesystem:notes" {
            row[3] ^= 4;
        }
    };
    assert_eq!(rot(&world, "names", flip), 1);
    let at = |name: &str| world.base().join(name).display().to_string();
    let (backup, export, import) = (at("log.backup"), at("log.export"), at("imported"));
    world.thought(&["serve"]).expect(4);
    world.thought(&["rebuild"]).expect(4);
    world.thought(&["backup", &backup, "--acknowledge-sensitive"]).expect(1);
    world.thought(&["export", &export, "--acknowledge-sensitive"]).expect(0);
    world.thought(&["--data", &import, "import", &export]).expect(0);
    world.thought(&["--data", &import, "verify"]).expect(0);
}
