//! What a conversation teaches, through the real program: a reply is delivered, somebody says what they think of it, later
//! turns see what stands, and a data set holds what passed every gate and nothing else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use thoughtstream_channels::rehearsal::{Item, Message, MessageRef, Rehearsal, Scripted};
use thoughtstream_domain::hash::Sha256Hash;

use crate::cli_remembering::Stage;
use crate::cli_world::{Answer, World};
use crate::talk::{ADA, Talk};

/// What the model says to each message; the answers name no message, so each is found again by its words.
const SCRIPT: &str = r#"
provider:
  rules:
    - { name: sow, when: { contains: sow }, answer: { text: "Sow them in March." } }
    - { name: water, when: { contains: water }, answer: { text: "Water at noon." } }
    - { name: prune, when: { contains: prune }, answer: { text: "Prune in May." } }
    - { name: plant, when: { contains: plant }, answer: { text: "Plant in rows." } }
    - { name: weeds, when: { contains: weeds }, answer: { text: "Use salt." } }
    - { name: cover, when: { contains: cover }, answer: { text: "Mulch it." } }
    - { name: fence, when: { contains: fence }, answer: { text: "Build it high." } }
    - { name: shade, when: { contains: shade }, answer: { text: "Let it be." } }
    - name: remember
      when: { contains: remember, offers: request_memory_change }
      answer:
        text: "I noted a suggestion."
        tools:
          - name: request_memory_change
            arguments: '{"operation":"append","proposed_text":"Has a pear tree.","reason":"They said so.","evidence_event_ids":[]}'
    - name: wrong
      when: { contains: wrong, offers: submit_correction }
      answer:
        tools:
          - name: submit_correction
            arguments: '{"target_output":"latest","replacement":"Noted: two pear trees.","reason":"It was wrong.","evidence_event_ids":[]}'
"#;

const MODEL: &str = "smollm2-135m-instruct";
const EXAMPLE: &str = "thoughtstream.training-example.v3";

/// A reply that no contract takes, and what is said instead when it is asked for once more.
const UNUSABLE: usize = 4_097;
const REPAIRED: &str =
    r#"{"summary":"Pick them ripe.","tags":["conversation"],"importance":"normal","confidence":0.5}"#;

fn judge(world: &World, run: &str, more: &[&str]) -> Answer {
    world.thought(&["judge", run, "--json"].into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
}

/// Judges, and returns the judgment.
fn judged(world: &World, run: &str, more: &[&str]) -> Value {
    judge(world, run, more).expect(0).json()["id"].clone()
}

fn react(rehearsal: &Rehearsal, emoji: &str) {
    let (message, emoji) = (MessageRef::LastReply, Some(emoji.to_owned()));
    rehearsal.happen(&Scripted::new(Item::Reaction { chat: ADA, from: ADA, message, emoji })).unwrap();
}

fn reply(rehearsal: &Rehearsal, text: &str) {
    let mut message = Message::text(ADA, ADA, text);
    message.reply_to = Some(MessageRef::LastReply);
    rehearsal.happen(&Scripted::new(Item::Message(message))).unwrap();
}

/// Waits until so many judgments hold; returns the newest.
fn until_judged(world: &World, count: usize) -> Value {
    let list = ["judgment", "list", "--json"];
    let there = |answer: &Answer| answer.code == 0 && answer.lines().len() == count;
    world.until(&list, there).lines().pop().unwrap()
}

fn private(world: &World, name: &str) -> PathBuf {
    let path = world.base().join(name);
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

fn export(world: &World, file: &Path, more: &[&str]) -> Answer {
    let arguments = ["training-export", "--json", "--output", file.to_str().unwrap()];
    world.thought(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns what stands in the way of each judgment that is left out.
fn left_out(exported: &Value) -> Vec<(Value, Value)> {
    let all = exported["excluded"].as_array().unwrap();
    all.iter().map(|one| (one["judgment"].clone(), one["reason"].clone())).collect()
}

/// Lets Ada ask one thing after the other; returns the run of each answer.
fn converse(stage: &Stage, said: &[&str]) -> Vec<String> {
    said.iter()
        .map(|text| {
            let before = stage.rehearsal.sent_messages().len();
            stage.say(text);
            stage.until_sent(before + 1);
            let outputs = stage.of("stream.thought.derived.message.observation");
            let output = outputs.last().unwrap()["payload"]["stamp"]["run"].as_str().unwrap();
            output.to_owned()
        })
        .collect()
}

/// Lets a model fail and be asked once more; returns the run of the repair.
fn repaired(stage: &Stage) -> String {
    use thoughtstream_channels::rehearsal::{Answer as Says, Rule};
    stage.rehearsal.add_rule(Rule::when_contains("pears", "pears", Says::text("x".repeat(UNUSABLE))));
    stage.rehearsal.add_rule(Rule::when_contains("repair", "output.text", Says::text(REPAIRED)));
    stage.say("when are the pears ripe?");
    let proposed = ["event", "list", "--type", "stream.thought.repair.proposed", "--json"];
    let proposed = stage.world.until(&proposed, |answer| answer.code == 0 && answer.lines().len() == 1);
    proposed.json()["payload"]["stamp"]["run"].as_str().unwrap().to_owned()
}

/// What everybody who may let something out says beside the opinion.
const OUT: [&str; 3] = ["--quality", "--external", "--authorize-private"];

/// Judges, and lets the judgment out.
fn let_out(world: &World, run: &str, opinion: &[&str]) -> Value {
    judged(world, run, &opinion.iter().copied().chain(OUT).collect::<Vec<_>>())
}

/// Judgments, each with the reason for which it is left out.
type Kept = Vec<(Value, Value)>;

fn keep(kept: &mut Kept, judgment: &Value, reason: &str) {
    kept.push((judgment.clone(), json!(reason)));
}

/// A thumb and a correction in the chat: each becomes a judgment by itself, and what stands is what is seen later.
/// Returns the run of the answer that saw it.
fn judge_in_the_chat(stage: &Stage, kept: &mut Kept) -> String {
    converse(stage, &["when do I sow?"]);
    react(&stage.rehearsal, "👍");
    let liked = until_judged(&stage.world, 1);
    let said = (&liked["opinion"], &liked["criterionVersion"]);
    assert_eq!(said, (&json!("accept"), &json!("telegram-feedback-1")));
    converse(stage, &["when do I water?"]);
    reply(&stage.rehearsal, "/correct Water in the evening.");
    let corrected = until_judged(&stage.world, 2);
    assert_eq!(corrected["opinion"], "correct");
    assert!(corrected["projection"].as_str().unwrap().starts_with("prj_"), "{corrected}");
    for made in [&liked, &corrected] {
        let leaves = (&made["qualityEligible"], &made["externalExportEligible"]);
        assert_eq!(leaves, (&json!(true), &json!(false)));
        keep(kept, &made["id"], "not-externally-eligible");
    }
    let prune = converse(stage, &["when do I prune?"]).remove(0);
    let asked = stage.rehearsal.provider_requests().pop().unwrap().json();
    let messages = asked["messages"].as_array().unwrap().iter();
    let seen: Vec<&Value> = messages
        .filter(|message| message["role"] == "assistant")
        .map(|message| &message["content"])
        .collect();
    assert_eq!(seen, ["Sow them in March.", "Water in the evening."], "what was corrected is seen corrected");
    prune
}

/// Judges by command: each gate alone, and all of them. Returns the judgments that may leave, but for that of a repair.
fn judge_by_command(stage: &Stage, prune: &str, kept: &mut Kept) -> [Value; 3] {
    let world = &stage.world;
    let refused = judge(world, prune, &["--accept", "--quality", "--external"]).expect(1);
    assert!(refused.stderr.contains("judgment.not-authorized"), "{}", refused.stderr);
    let accepted = let_out(world, prune, &["--accept"]);
    let runs = converse(stage, &["how do I plant?", "what of weeds?", "shall I cover it?", "and the fence?"]);
    let [plant, weeds, cover, fence] = &runs[..] else { panic!("four answers") };
    let right = REPAIRED.replace("Pick them ripe.", "Plant in circles.");
    std::fs::write(world.base().join("right.json"), right).unwrap();
    let in_circles = let_out(world, plant, &["--correct", "right.json"]);
    let taken_back = let_out(world, weeds, &["--accept"]);
    world.thought(&["judge", "--retract", taken_back.as_str().unwrap()]).expect(0);
    keep(kept, &taken_back, "inactive");
    let replaced = let_out(world, cover, &["--accept"]);
    keep(kept, &replaced, "inactive");
    let instead = ["--reject", "--quality", "--supersedes", replaced.as_str().unwrap()];
    keep(kept, &judged(world, cover, &instead), "not-externally-eligible");
    let for_nothing = judged(world, fence, &["--accept", "--external", "--authorize-private"]);
    keep(kept, &for_nothing, "not-quality-eligible");
    // Somebody's word about a message rests on the receipt of that message.
    let message = stage.of("stream.thought.run.completed")[0]["parents"][0].as_str().unwrap().to_owned();
    let heard = ["--accept", "--criterion", "tone", "--feedback", &message];
    keep(kept, &let_out(world, fence, &heard), "evidence-missing");
    [accepted, in_circles, let_out(world, prune, &["--prefer-over", plant])]
}

/// What an agent proposes is no judgment, and what a person accepts of it stays with them.
fn accept_what_is_proposed(stage: &Stage, kept: &mut Kept) {
    converse(stage, &["remember my pear tree", "that is wrong"]);
    for kind in ["memory-change", "correction"] {
        let proposed = stage.of(&format!("stream.thought.agent.{kind}.proposed"));
        let [proposed] = &proposed[..] else { panic!("one {kind}") };
        stage.world.thought(&["proposal-decision", proposed["id"].as_str().unwrap(), "accept"]).expect(0);
    }
    let listed = stage.world.thought(&["judgment", "list", "--json"]).expect(0).lines();
    let by_agent = listed.iter().find(|row| row["criterion"] == "agent-self-correction").unwrap();
    keep(kept, &by_agent["id"], "not-externally-eligible");
}

/// Looks at what left, in the order of the judgments, and at what is told of where it came from.
fn check_examples(file: &Path) {
    let examples = lines(file);
    let of = |example: &Value| -> [Value; 3] {
        [&example["kind"], &example["chosen"]["summary"], &example["rejected"]["summary"]].map(Clone::clone)
    };
    let told: Vec<[Value; 3]> = examples.iter().map(of).collect();
    let (accept, correct, prefer) = (json!("accept"), json!("correct"), json!("prefer"));
    let (prune, rows) = (json!("Prune in May."), json!("Plant in rows."));
    assert_eq!(
        told,
        [
            [accept.clone(), prune.clone(), Value::Null],
            [correct, json!("Plant in circles."), rows.clone()],
            [prefer, prune, rows],
            [accept, json!("Pick them ripe."), Value::Null],
        ]
    );
    let source = json!({
        "type": "stream.thought.source.telegram.message", "schemaVersion": 1, "sourceKind": "telegram",
        "privacy": "sensitive",
    });
    for example in &examples[..3] {
        assert_eq!((&example["source"], &example["format"]), (&source, &json!(EXAMPLE)));
        assert_eq!(example["contextPolicy"], json!({ "maxChars": 60000, "maxEvents": 40 }));
        assert_eq!(example["contract"]["id"], "stream.thought.output.observation@1");
        assert_eq!(example["provenance"]["model"], MODEL);
        assert!(!example["trace"].as_array().unwrap().is_empty());
    }
    assert!(examples[2]["compared"]["trace"].is_array(), "{}", examples[2]);
    assert_eq!(examples[3]["source"]["type"], "stream.thought.repair.requested");
    let bytes = std::fs::read(file).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let ids = ["evt_", "run_", "prj_", "dlv_", "telegram:bot"];
    let elsewhere = ["March", "noon", "evening", "salt", "Mulch", "high", "pear"];
    for never in ids.into_iter().chain(elsewhere) {
        assert!(!text.contains(never), "{never}: {text}");
    }
    let manifest = std::fs::read(format!("{}.manifest.json", file.display())).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["kinds"], json!({ "accept": 2, "correct": 1, "prefer": 1 }));
    assert_eq!((&manifest["count"], &manifest["formats"]), (&json!(4), &json!({ EXAMPLE: 4 })));
    assert_eq!(manifest["datasetSha256"], json!(Sha256Hash::of(&bytes)));
    assert_eq!(manifest["models"], json!([[MODEL]]));
}

#[test]
fn what_a_conversation_taught_leaves_through_every_gate_or_not_at_all() {
    let stage = Stage::playing(SCRIPT);
    let repair = stage.world.config.join("declarations/output-repair.yaml");
    let shipped = std::fs::read_to_string(&repair).unwrap();
    std::fs::write(&repair, shipped.replace("enabled: false", "enabled: true")).unwrap();
    let world = &stage.world;
    let service = stage.serve();
    let mut kept = Kept::new();
    let prune = judge_in_the_chat(&stage, &mut kept);
    let [_, in_circles, better] = judge_by_command(&stage, &prune, &mut kept);
    // A repair is accepted or corrected, and not held up as a bad example.
    let repair = repaired(&stage);
    keep(&mut kept, &let_out(world, &repair, &["--reject"]), "repair-opinion");
    let good = let_out(world, &repair, &["--accept", "--criterion", "repair"]);
    accept_what_is_proposed(&stage, &mut kept);

    let mine = private(world, "mine");
    let file = mine.join("set.jsonl");
    let refused = export(world, &file, &[]).expect(1);
    assert!(refused.stderr.contains("--include-private") && !file.exists(), "{}", refused.stderr);
    let exported = export(world, &file, &["--include-private"]).expect(0).json();
    assert_eq!(left_out(&exported), kept);
    check_examples(&file);

    // What is taken back or erased later is in no later set.
    let listed = world.thought(&["judgment", "list", "--json"]).expect(0).lines();
    for judgment in [&in_circles, &good] {
        world.thought(&["judge", "--retract", judgment.as_str().unwrap()]).expect(0);
    }
    let output = listed.iter().find(|row| row["id"] == better).unwrap()["output"].as_str().unwrap();
    world.thought(&["event", "redact", output, "--reason", "mine"]).expect(0);
    let later = mine.join("later.jsonl");
    let refused = export(world, &later, &["--include-private"]).expect(1).stderr;
    assert!(refused.contains("2 the output cannot be read") && !later.exists(), "{refused}");
    assert_eq!(service.stop(), 0);
    world.thought(&["verify"]).expect(0);
}

#[test]
fn a_public_conversation_leaves_with_one_word_and_a_thumb_alone_lets_nothing_out() {
    let talk = Talk::with("Water it now.", "    privacy: public-source\n");
    let file = talk.world.config.join("declarations/talk.yaml");
    let declared = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{declared}privacyFloor: public-source\n")).unwrap();
    let running = talk.world.serve(&[]);
    talk.say("shall I water?");
    let receipt = talk.until_delivered(1).remove(0);
    react(&talk.telegram, "👍");
    let liked = until_judged(&talk.world, 1);
    let mine = private(&talk.world, "mine");
    let refused = export(&talk.world, &mine.join("a.jsonl"), &["--include-private"]).expect(1).stderr;
    assert!(refused.contains("1 not marked as free to leave"), "{refused}");
    // Whoever changes the thumb and then takes it away leaves no judgment at all.
    react(&talk.telegram, "👎");
    let rejects = |answer: &Answer| answer.code == 0 && answer.json()["opinion"] == "reject";
    let disliked = talk.world.until(&["judgment", "list", "--json"], rejects).json();
    let (message, run) = (MessageRef::LastReply, liked["run"].as_str().unwrap());
    let none = Item::Reaction { chat: ADA, from: ADA, message, emoji: None };
    talk.telegram.happen(&Scripted::new(none)).unwrap();
    talk.world.until(&["judgment", "list", "--json"], |answer| answer.code == 0 && answer.lines().is_empty());
    let receipt = receipt["id"].as_str().unwrap();
    let made = judged(&talk.world, run, &["--accept", "--quality", "--external", "--delivery", receipt]);
    let exported = export(&talk.world, &mine.join("a.jsonl"), &[]).expect(0).json();
    assert_eq!(exported["count"], 1);
    let inactive = [&liked, &disliked].map(|one| (one["id"].clone(), json!("inactive")));
    assert_eq!(left_out(&exported), inactive);
    let example = lines(&mine.join("a.jsonl")).remove(0);
    assert_eq!(
        (&example["chosen"]["summary"], &example["source"]["privacy"]),
        (&json!("Water it now."), &json!("public-source"))
    );
    talk.world.thought(&["judge", "--retract", made.as_str().unwrap()]).expect(0);
    export(&talk.world, &mine.join("b.jsonl"), &[]).expect(1);
    assert_eq!(running.stop(), 0);
    talk.world.thought(&["verify"]).expect(0);
}
