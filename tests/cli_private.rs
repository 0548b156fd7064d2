//! The private data set through the real program: a correction whose whole chain is in the log, and nothing else.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_store::{Options, Store};
use thoughtstream_testkit::proposals::{ADDED, INSTEAD, SENT, Setting, tell};

use crate::cli_world::{Answer, World};
use crate::talk::Talk;

const ACKNOWLEDGED: &str = "--acknowledge-sensitive-private-training";

fn directory(talk: &Talk, name: &str, mode: u32) -> PathBuf {
    let path = talk.world.base().join(name);
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn export(talk: &Talk, file: &Path, more: &[&str]) -> Answer {
    let arguments = ["private-training-export", "--output", file.to_str().unwrap(), ACKNOWLEDGED];
    talk.world.thought(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
}

/// Lets Ada be answered and correct the answer; returns the judgment.
fn corrected(talk: &Talk) -> Value {
    talk.say("shall I water?");
    talk.until_delivered(1);
    talk.reply("/correct Wait for rain.");
    let judged = |answer: &Answer| answer.code == 0 && !answer.lines().is_empty();
    talk.world.until(&["judgment", "list", "--json"], judged).json()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_correction_with_its_whole_chain_is_kept_for_the_owner_and_leaves_by_no_other_way() {
    let talk = Talk::new("Water it now.");
    let running = talk.world.serve(&[]);
    let judgment = corrected(&talk);
    let mine = directory(&talk, "mine", 0o700);
    let set = mine.join("set.jsonl");

    // Both flags, or nothing.
    for arguments in
        [&["private-training-export", "--output", "x"][..], &["private-training-export", ACKNOWLEDGED]]
    {
        talk.world.thought(arguments).expect(2);
    }
    let public = ["training-export", "--include-private", "--output", set.to_str().unwrap()];
    assert!(talk.world.thought(&public).expect(1).stderr.contains("not marked as free to leave"));

    let exported = export(&talk, &set, &[]).expect(0);
    assert_eq!(exported.stdout, "", "nothing is said on stdout");
    assert!(!exported.stderr.contains("Wait for rain"));
    let manifest = mine.join("set.jsonl.manifest.json");
    for file in [&set, &manifest] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let bytes = std::fs::read(&set).unwrap();
    let example: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(example["chosen"]["summary"], "Wait for rain.");
    assert_eq!(example["rejected"]["summary"], "Water it now.");
    assert_eq!(example["contextPolicy"], json!({ "maxChars": 60000, "maxEvents": 40 }));
    let chain = &example["privateProvenance"];
    assert_eq!(chain["judgment"], judgment["id"]);
    assert_eq!(chain["output"], judgment["output"]);
    for link in ["run", "completed", "feedback", "delivery"] {
        assert!(chain[link].is_string(), "{chain}");
    }
    let run = chain["run"].as_str().unwrap();
    let context = talk.world.thought(&["context", "show", run, "--json"]).expect(0).json();
    assert!(context.to_string().contains(chain["snapshot"]["sha256"].as_str().unwrap()), "{context}");
    let said: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    assert_eq!(said["datasetSha256"], json!(Sha256Hash::of(&bytes)));
    assert_eq!(said["format"], "thoughtstream.private-training-dataset-manifest.v1");
    assert!(export(&talk, &set, &[]).expect(1).stderr.contains("training.exists"), "it is left as it is");
    assert_eq!(std::fs::read(&set).unwrap(), bytes);

    // What a person took back from the log is no provenance any more.
    let feedback = chain["feedback"].as_str().unwrap();
    talk.world.thought(&["event", "redact", feedback, "--reason", "mine"]).expect(0);
    let other = mine.join("other.jsonl");
    assert!(export(&talk, &other, &[]).expect(1).stderr.contains("`--explain` lists each"));
    let refused = export(&talk, &other, &["--explain", "--json"]).expect(1);
    assert!(!refused.stderr.contains("--explain"), "who asked is not told to ask: {}", refused.stderr);
    let withheld = refused.json();
    assert_eq!(withheld["judgment"], judgment["id"]);
    assert_eq!(withheld["code"], "provenance");
    assert_eq!(withheld["links"], json!([{ "link": "feedback", "fault": "inconsistent" }]));
    assert!(!other.exists() && !mine.join("other.jsonl.manifest.json").exists());
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}

#[test]
fn what_lacks_a_link_is_left_out_and_the_link_is_named() {
    let talk = Talk::new("Water it now.");
    let running = talk.world.serve(&[]);
    let judgment = corrected(&talk);
    let run = judgment["run"].as_str().unwrap();
    talk.world.thought(&["judge", run, "--accept", "--quality", "--criterion", "tone"]).expect(0);
    assert_eq!(running.stop(), 0);
    // Also without a service: the command looks for itself.
    let mine = directory(&talk, "mine", 0o700);
    let explained = export(&talk, &mine.join("set.jsonl"), &["--explain"]).expect(0);
    assert!(
        explained.stdout.contains("without its whole chain: feedback missing, delivery missing"),
        "{explained:?}"
    );
    assert!(!explained.stdout.contains("Water") && !explained.stdout.contains("rain"));
    assert_eq!(std::fs::read_to_string(mine.join("set.jsonl")).unwrap().lines().count(), 1);
}

#[test]
fn a_place_that_is_not_the_owners_alone_is_refused() {
    let talk = Talk::new("Water it now.");
    let running = talk.world.serve(&[]);
    corrected(&talk);
    let refused = |file: &Path, code: &str| {
        let answer = export(&talk, file, &[]).expect(1);
        assert!(answer.stderr.contains(code), "{code}: {}", answer.stderr);
        assert_eq!(answer.stdout, "");
    };
    for mode in [0o755, 0o750, 0o701] {
        let open = directory(&talk, &format!("open-{mode:o}"), mode);
        refused(&open.join("set.jsonl"), "training.directory-open");
    }
    refused(&talk.world.data.join("set.jsonl"), "copy.inside-data");
    set_mode(&talk.world.notes, 0o700);
    refused(&talk.world.notes.join("set.jsonl"), "copy.inside-watched");
    let mine = directory(&talk, "mine", 0o700);
    let link = talk.world.base().join("link");
    symlink(&mine, &link).unwrap();
    refused(&link.join("set.jsonl"), "training.link");
    let below = directory(&talk, "mine/below", 0o700);
    refused(&link.join("below/set.jsonl"), "training.link");
    // Who may exchange a directory above may exchange everything in it.
    set_mode(&mine, 0o777);
    refused(&below.join("set.jsonl"), "training.way-open");
    set_mode(&mine, 0o700);
    // What is there is somebody's, a link that leads nowhere included.
    symlink("nowhere", mine.join("set.jsonl")).unwrap();
    assert!(export(&talk, &mine.join("set.jsonl"), &[]).expect(1).stderr.contains("training.exists"));
    std::fs::write(mine.join("b.jsonl.manifest.json"), "mine").unwrap();
    export(&talk, &mine.join("b.jsonl"), &[]).expect(1);
    // A directory is named as such, and nothing is said of what lies above it.
    let named = export(&talk, &mine, &[]).expect(2).stderr;
    assert!(named.contains("is a directory") && named.contains("name a new file in it"), "{named}");
    assert!(!named.contains("700"), "{named}");
    assert!(!mine.join("b.jsonl").exists() && !mine.join("nowhere").exists());
    for nowhere in ["-", "/dev/stdout", "/dev/fd/1"] {
        export(&talk, Path::new(nowhere), &[]).expect(2);
    }
    assert_eq!(running.stop(), 0);
}

#[test]
fn proposals_are_in_no_data_set_and_an_accepted_correction_is_in_the_private_one_alone() {
    let world = World::with_config();
    world.append("first", "a note").expect(0);
    let mut store = Store::open(&world.data, Options::default()).unwrap();
    let story = tell(&mut store, &Setting::default());
    store.writer.close().unwrap();
    let mine = world.base().join("mine");
    std::fs::create_dir(&mine).unwrap();
    set_mode(&mine, 0o700);
    let private = |name: &str| {
        let file = mine.join(name);
        world.thought(&["private-training-export", "--output", file.to_str().unwrap(), ACKNOWLEDGED])
    };
    let public = |name: &str| {
        let file = mine.join(name);
        world.thought(&["training-export", "--include-private", "--output", file.to_str().unwrap()])
    };
    // An agent has proposed one thing of each kind, and nobody has judged anything.
    assert!(private("a.jsonl").expect(1).stderr.contains("0 judgments left out"));
    assert!(public("a.jsonl").expect(1).stderr.contains("nothing was judged yet"));
    // An accepted memory is no judgment of anything either.
    world.thought(&["proposal-decision", &story.memory.id.to_string(), "accept"]).expect(0);
    private("a.jsonl").expect(1);
    world.thought(&["proposal-decision", &story.correction.id.to_string(), "accept"]).expect(0);
    private("a.jsonl").expect(0);
    let text = std::fs::read_to_string(mine.join("a.jsonl")).unwrap();
    let example: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&example["chosen"]["summary"], &example["rejected"]["summary"]),
        (&json!(INSTEAD), &json!(SENT))
    );
    assert_eq!(example["privateProvenance"]["delivery"], json!(story.receipt.id));
    assert!(!text.contains(ADDED) && !text.contains(&story.memory.id.to_string()));
    assert!(public("b.jsonl").expect(1).stderr.contains("not marked as free to leave"));
    assert!(!mine.join("b.jsonl").exists());
    // What the proposal said was erased: the decision is about nothing that can be proven any more.
    world.thought(&["event", "redact", &story.correction.id.to_string(), "--reason", "mine"]).expect(0);
    let file = mine.join("c.jsonl");
    let explained =
        ["private-training-export", "--explain", "--output", file.to_str().unwrap(), ACKNOWLEDGED];
    assert!(world.thought(&explained).expect(1).stdout.contains("feedback inconsistent"));
}
