//! Who may propose something: a standard conversation over exact documents, and nobody else.

use super::*;
use crate::proposal::Kind;

const PROPOSING: &str = "\
id: telegram-conversation
version: 2
enabled: true
description: Answers.
subscribe:
  types: [stream.thought.source.telegram.message]
  sources: [telegram:bot]
  privacy: [sensitive]
  replay: now
context:
  strategy: telegram-conversation
  maxEvents: 40
  maxChars: 60000
  documents:
    maxChars: 8000
    from:
      - { source: filesystem:telegram-agent-context, paths: [identity.md, memory.md] }
runner: { kind: pi, provider: local, model: small }
prompt: prompts/tasks.md
outputMode: conversation-text
emit: [stream.thought.derived.message.observation]
policy:
  tools: []
  proposals:
    - memory-change
    - self-correction
    - focus-declaration
  externalActions: false
accounting:
  reserve: { inputTokens: 1000, outputTokens: 200 }
  lease: 5m
  limits: [{ window: hour, calls: 10 }]
";

/// Returns the line and the code of each problem after some replacements.
fn refused(changes: &[(&str, &str)]) -> Vec<(String, &'static str)> {
    let mut text = PROPOSING.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    told(&text)
}

fn told(text: &str) -> Vec<(String, &'static str)> {
    let problems = load(&[("a.yaml", text)]).err().unwrap_or_default();
    for problem in problems.iter().filter(|problem| problem.code == codes::PROPOSALS) {
        assert!(problem.hint.is_some(), "{}", problem.render());
    }
    let line = |problem: &Problem| text.lines().nth(problem.line as usize - 1).unwrap().trim().to_owned();
    problems.iter().map(|problem| (line(problem), problem.code.as_str())).collect()
}

fn at(line: &str) -> Vec<(String, &'static str)> {
    vec![(line.to_owned(), "declaration.proposals")]
}

fn kinds(text: &str) -> BTreeSet<Kind> {
    one(text).runner().model().unwrap().proposals.clone()
}

#[test]
fn a_conversation_over_exact_documents_may_propose() {
    assert_eq!(kinds(PROPOSING), Kind::ALL.into());
    assert_eq!(kinds(&PROPOSING.replace("    - self-correction\n", "")).len(), 2);
    let mixed = PROPOSING.replace("privacy: [sensitive]", "privacy: [private, sensitive]");
    assert_eq!(kinds(&mixed), Kind::ALL.into());
    let other =
        PROPOSING.replace("    - memory-change\n", "").replace("identity.md, memory.md", "identity.md");
    assert_eq!(kinds(&other), [Kind::SelfCorrection, Kind::FocusDeclaration].into());
}

#[test]
fn every_restriction_is_told_at_its_place_with_a_way_out() {
    let repair = refused(&[("outputMode: ", "role: repair\noutputMode: ")]);
    assert!(repair.contains(&at("role: repair")[0]), "{repair:?}");
    let strict = [("outputMode: conversation-text", "outputMode: strict-json")];
    assert_eq!(refused(&strict), at("outputMode: strict-json"));
    assert_eq!(refused(&[("outputMode: conversation-text\n", "")]), at("- memory-change"));
    for privacy in ["privacy: [private]", "privacy: [public-source, private]"] {
        assert_eq!(refused(&[("privacy: [sensitive]", privacy)]), at(privacy));
    }
    let types = "types: [stream.thought.source.telegram.message]";
    assert_eq!(refused(&[("  privacy: [sensitive]\n", "")]), at(types));
    let documents = &PROPOSING[PROPOSING.find("  documents:").unwrap()..PROPOSING.find("runner:").unwrap()];
    assert_eq!(refused(&[(documents, "")]), at("strategy: telegram-conversation"));
    let exact = "filesystem:telegram-agent-context, paths: [identity.md, memory.md]";
    for other in
        ["filesystem:telegram-agent-context, paths: [identity.md]", "filesystem:notes, paths: [memory.md]"]
    {
        assert_eq!(refused(&[(exact, other)]), at("maxChars: 8000"), "{other}");
    }
    let observer = refused(&[
        (documents, ""),
        ("  strategy: telegram-conversation\n", ""),
        ("outputMode: conversation-text", "outputMode: strict-json"),
    ]);
    assert_eq!(observer, [at("maxEvents: 40"), at("outputMode: strict-json")].concat());
    let emit = "emit: [stream.thought.derived.document.links]";
    let emits = refused(&[("message.observation", "document.links")]);
    assert!(emits.contains(&at(emit)[0]), "{emits:?}");
}

#[test]
fn a_transform_a_letta_agent_and_one_that_acts_outside_may_not() {
    let line = "proposals: [memory-change]";
    assert_eq!(told(&MINIMAL.replace("tools: []", line)), at(line));
    for (from, to, code) in [
        ("externalActions: false", "externalActions: true", "not-built.external-actions"),
        ("kind: pi", "kind: letta-agent-sdk", "not-built.runner-letta-agent-sdk"),
        ("- self-correction", "- self-corection", "shape.bad-value"),
        ("- self-correction", "- memory-change", "shape.repeated"),
    ] {
        let codes: Vec<_> = refused(&[(from, to)]).into_iter().map(|(_, code)| code).collect();
        assert!(codes.contains(&code), "{to}: {codes:?}");
    }
}

#[test]
fn an_empty_list_asks_for_nothing_and_changes_no_identity() {
    let list = "\n    - memory-change\n    - self-correction\n    - focus-declaration";
    let empty = one(&PROPOSING.replace(list, " []"));
    let absent = one(&PROPOSING.replace(&format!("  proposals:{list}\n"), ""));
    assert_eq!(empty.fingerprint(), absent.fingerprint());
    assert!(!absent.canonical().contains("proposal"));
    let transform = MINIMAL.replace("tools: []", "proposals: []");
    assert_eq!(one(&transform).fingerprint(), one(MINIMAL).fingerprint());
}

#[test]
fn what_may_be_proposed_and_each_tools_exact_form_are_part_of_the_identity() {
    let all = one(PROPOSING);
    let fewer = one(&PROPOSING.replace("    - focus-declaration\n", ""));
    assert_ne!(all.fingerprint(), fewer.fingerprint());
    let order = PROPOSING
        .replace("    - memory-change\n    - self-correction", "    - self-correction\n    - memory-change");
    assert_eq!(one(&order).fingerprint(), all.fingerprint());
    let canonical: serde_json::Value = serde_json::from_str(&all.canonical()).unwrap();
    assert_eq!(canonical["declaration"]["policy"]["proposals"], json!(Kind::ALL));
    for kind in Kind::ALL {
        let tool = crate::canonical::write_type(&crate::proposal::tool::tool(kind)).unwrap();
        assert_eq!(canonical["proposalTools"][kind.as_str()], json!(Sha256Hash::of(&tool)));
    }
    let again = serde_json::to_string(&all.to_json()).unwrap();
    assert_eq!(one(&again).fingerprint(), all.fingerprint());
}

#[test]
fn another_capability_needs_another_version() {
    let before = PROPOSING.replace("    - focus-declaration\n", "");
    let registered = BTreeMap::from([(one(&before).key().clone(), one(&before).fingerprint())]);
    let check = |text: &str| check_registered(&load(&[("a.yaml", text)]).unwrap(), &registered);
    assert!(check(&before).is_empty());
    assert_eq!(codes_of(&check(PROPOSING)), ["declaration.changed-without-bump"]);
    assert!(check(&PROPOSING.replace("version: 2", "version: 3")).is_empty());
}

#[test]
fn the_identity_of_the_tools_never_changes_silently() {
    let model = one(PROPOSING).runner().model().unwrap().clone();
    let hashes: Vec<String> = model.proposal_tools().values().map(ToString::to_string).collect();
    insta::assert_snapshot!(hashes.join("\n"), @r"
    66ba83c9616326f2a413403d3f28318576afc4e67507d8c70fa333931934dc20
    90081b65912ecb2c87558b5ece2f04b6a9c418b348f45b8b9072aa77a4cade79
    1422831e73bde6c5d6ec25db5470a147803346c689ebe0bf7a4355fa70c1257f
    ");
}

#[test]
fn a_refusal_is_told_in_words() {
    let text = PROPOSING.replace("privacy: [sensitive]", "privacy: [private]");
    insta::assert_snapshot!(render_all(&load(&[("a.yaml", &text)]).unwrap_err()), @r"
    a.yaml:8:12: only a conversation that takes sensitive messages may propose [declaration.proposals]
      8 |   privacy: [private]
        |            ^^^^^^^^^
      add `sensitive` to `subscribe.privacy`: a proposal always is

    1 problem
    ");
}
