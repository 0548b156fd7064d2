//! The shapes that programs may rely on: of a measurement, of a verification, of what changed in a declaration.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thoughtstream_domain::declaration::bump;

use crate::chaos_refusals::{mount_small, with_a_disk_of_its_own};
use crate::cli_world::World;

fn members(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_measurement_is_one_row_or_one_ratio_a_line_and_leaves_nothing_behind() {
    let world = World::new();
    let disk = world.base().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let measured = world.thought(&["bench", "--quick", "--json", disk.to_str().unwrap()]).expect(0).lines();
    let (rows, ratios): (Vec<Value>, Vec<Value>) =
        measured.into_iter().partition(|line| line.get("name").is_some());
    for row in &rows {
        assert_eq!(members(row), ["name", "p50Us", "p99Us", "perSecond", "writers"].into(), "{row}");
        assert!(row["name"].is_string() && row["perSecond"].as_f64().unwrap() >= 0.0, "{row}");
        assert!(row["p50Us"].as_u64().unwrap() <= row["p99Us"].as_u64().unwrap(), "{row}");
    }
    let writers: BTreeSet<u64> = rows.iter().map(|row| row["writers"].as_u64().unwrap()).collect();
    assert_eq!(writers, [1, 8, 64, 512].into());
    assert!(!ratios.is_empty());
    for ratio in &ratios {
        assert_eq!(members(ratio), ["goal", "ratio", "value"].into(), "{ratio}");
        let what = ratio["ratio"].as_str().unwrap();
        assert!(what.ends_with("at least") || what.ends_with("at most"), "{ratio}");
        assert!(ratio["value"].is_f64() && ratio["goal"].is_number(), "{ratio}");
    }
    assert_eq!(std::fs::read_dir(&disk).unwrap().count(), 0);
    let nowhere = world.thought(&["bench", "--quick", "--json", "/nowhere"]).expect(4);
    assert!(nowhere.stdout.is_empty() && nowhere.stderr.contains("bench.disk"), "{nowhere:?}");
}

#[test]
fn a_goal_that_is_missed_is_said_and_is_no_failure() {
    with_a_disk_of_its_own("cli_shapes::on_a_disk_that_costs_nothing");
}

#[test]
#[ignore = "it needs a disk of its own; the test above runs it on one"]
fn on_a_disk_that_costs_nothing() {
    let world = World::new();
    let disk = world.base().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // In memory a sync costs nothing, and no writer comes near that.
    mount_small(&disk, 1024);
    let told = world.thought(&["bench", "--quick", disk.to_str().unwrap()]).expect(0).stdout;
    let missed = |line: &str| line.starts_with("one writer's p50") && line.ends_with("missed");
    assert!(told.lines().any(missed), "{told}");
    let help = world.thought(&["bench", "--help"]).expect(0).stdout;
    assert!(help.contains("ends with 0, whether a goal is met or missed"), "{help}");
}

#[test]
fn a_verification_says_what_it_walked_and_names_what_it_found() {
    let (world, other) = (World::with_config(), World::with_config());
    std::fs::write(world.notes.join("a.md"), "# One\n").unwrap();
    let running = world.serve(&[]);
    world.until_idle();
    assert_eq!(running.stop(), 0);
    other.append("k", "of another log").expect(0);
    let report = world.thought(&["verify", "--json"]).expect(0).json();
    assert_eq!(members(&report), ["events", "findings", "head", "matched", "ok", "runs", "unlisted"].into());
    let events = world.thought(&["event", "list", "--json", "--limit", "1000"]).expect(0).lines().len();
    assert_eq!((&report["ok"], &report["runs"], &report["findings"]), (&true.into(), &4.into(), &json!([])));
    assert_eq!(report["events"], events);
    let foreign = other.thought(&["verify", "--json"]).expect(0).json()["head"].as_str().unwrap().to_owned();
    assert_ne!(report["head"], foreign.as_str());
    let broken = world.thought(&["verify", "--json", "--from", &foreign]).expect(1).json();
    assert_eq!((members(&broken), &broken["ok"]), (members(&report), &false.into()));
    let finding = &broken["findings"][0];
    assert_eq!(members(finding), ["kind", "message", "place"].into(), "{finding}");
    assert!(finding.as_object().unwrap().values().all(Value::is_string), "{finding}");
}

#[test]
fn what_changed_in_a_declaration_is_named_with_what_stood_there() {
    let world = World::with_config();
    assert_eq!(world.serve(&[]).stop(), 0);
    let diff = |more: &[&str]| {
        world.thought(&[&["declaration", "diff", "document-links"][..], more].concat()).expect(0)
    };
    let first = diff(&["--json"]).json()["registered"].as_str().unwrap().to_owned();
    assert_eq!(diff(&["--json"]).json(), json!({ "registered": first, "changes": [] }));
    assert!(diff(&[]).stdout.contains(&format!("{first} is as it was registered")));
    let file = world.config.join("declarations/document-links.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (text, version) = bump("document-links.yaml", &text).unwrap();
    let changed = text.replace("    - stream.thought.source.file.renamed\n", "");
    std::fs::write(&file, changed).unwrap();
    let said = diff(&["--json"]).json();
    assert_eq!(said["registered"], first);
    let changes = said["changes"].as_array().unwrap();
    let raised = json!({ "path": "declaration.version", "old": version - 1, "new": version });
    let of =
        |path: &str| changes.iter().find(|change| change["path"] == format!("declaration.{path}")).cloned();
    assert_eq!(of("version"), Some(raised), "{said}");
    let types = of("subscribe.types").unwrap_or_else(|| panic!("{said}"));
    let count = |side: &str| types[side].as_array().unwrap().len();
    assert_eq!((count("old"), count("new"), changes.len()), (3, 2, 2), "{said}");
    let text = diff(&[]).stdout;
    assert!(
        text.contains(&format!("version: {} -> {version}", version - 1))
            && text.contains("subscribe.types: "),
        "{text}"
    );
    // The version that is enabled by now is the one that is held against, by the service as without it.
    let running = world.serve(&["--paused"]);
    let none = json!({ "registered": format!("document-links@{version}"), "changes": [] });
    assert_eq!(diff(&["--json"]).json(), none);
    assert_eq!(running.stop(), 0);
    assert_eq!(diff(&["--json"]).json(), none);
    world.thought(&["declaration", "diff", "nobody"]).expect(1);
}
