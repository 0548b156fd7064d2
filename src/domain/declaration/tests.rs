use proptest::prelude::*;

use super::*;
use crate::registry::Registry;
use crate::subscription::{Predicate, Replay, Scalar};
use crate::yaml::render_all;

mod identity;
mod model;
mod proposals;

/// The minimal example of the Declaration section.
const MINIMAL: &str = "\
id: document-structure
version: 1
enabled: true
description: Identify document structure changes worth re-evaluating.
subscribe:
  types:
    - stream.thought.source.file.added
    - stream.thought.source.file.changed
  sources:
    - filesystem:charter-fixture
context:
  maxEvents: 8
  maxChars: 24000
runner:
  kind: deterministic
prompt: prompts/document-structure.md
emit:
  - stream.thought.derived.document.structure
policy:
  tools: []
  externalActions: false
";

/// Every key that can be written.
const FULL: &str = "\
id: journal-tasks
version: 3
enabled: false
description: >
  Collects the open tasks of the journal,
  one event a document.
subscribe:
  types: [stream.thought.source.file.*]      # a family
  sources: [filesystem:notes, filesystem:work]
  kinds: [filesystem]
  privacy: [sensitive, private]
  address: journal-tasks
  where:
    payload.path: { prefix: journal/ }
    payload.bytes: { max: 200000 }
    payload.contentType: [text/markdown, text/plain]
    payload.revision: 1
    actor.kind: producer
    occurredAt: { min: 2026-01-01T00:00:00Z }
  replay: now
  batch: { max: 8, wait: 2s }
  concurrency: 2
onVersionChange: { replay: [filesystem:notes] }
context: { maxEvents: 16, maxChars: 50000 }
runner: { kind: deterministic, transform: document-tasks }
prompt: prompts/tasks.md
emit: [stream.thought.derived.document.tasks]
policy: { tools: [], externalActions: false }
retry: { attempts: 3, first: 500ms, max: 1m, exhausted: advance }
interrupted: { record: abandoned, then: hold }
lifecycle: two-commit
role: standard
privacyFloor: private
";

/// Compiling the shipped schemas takes most of a test's time, so it is done once.
static CATALOG: std::sync::LazyLock<Catalog> = std::sync::LazyLock::new(|| Catalog::of(&Registry::shipped()));

fn catalog() -> Catalog {
    CATALOG.clone()
}

fn prompts(path: &str) -> Option<Vec<u8>> {
    match path {
        "prompts/document-structure.md" | "prompts/tasks.md" => Some(b"# What to look for\n".to_vec()),
        "prompts/large.md" => Some(vec![b'x'; PROMPT_BYTES_MAX + 1]),
        "prompts/latin.md" => Some(b"caf\xe9".to_vec()),
        "prompts/empty.md" => Some(b"\n".to_vec()),
        _ => None,
    }
}

fn load(files: &[(&str, &str)]) -> Result<DeclarationSet, Vec<Problem>> {
    let files: Vec<(String, Vec<u8>)> =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    let loaded = load_all(&files, &prompts, &catalog());
    // Whatever a test here finds wrong, a person is told what to do about it.
    for problem in loaded.as_ref().err().into_iter().flatten() {
        assert!(problem.hint.is_some(), "no way out of {}: {}", problem.code, problem.render());
    }
    loaded
}

fn one(text: &str) -> Declaration {
    match load(&[("a.yaml", text)]) {
        Ok(set) => set.iter().next().unwrap().clone(),
        Err(problems) => panic!("{}", render_all(&problems)),
    }
}

/// Returns `line:column code` of every problem of one file.
fn places(text: &str) -> Vec<String> {
    let problems = load(&[("a.yaml", text)]).err().unwrap_or_default();
    problems.iter().map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.code)).collect()
}

/// Returns the problems of the minimal example after one replacement.
fn changed(from: &str, to: &str) -> Vec<Problem> {
    assert!(MINIMAL.contains(from), "{from}");
    load(&[("a.yaml", &MINIMAL.replacen(from, to, 1))]).err().unwrap_or_default()
}

fn codes_of(problems: &[Problem]) -> Vec<&'static str> {
    problems.iter().map(|problem| problem.code.as_str()).collect()
}

#[test]
fn the_minimal_example_loads_as_written() {
    let declaration = one(MINIMAL);
    assert_eq!(declaration.key().to_string(), "document-structure@1");
    assert!(declaration.is_enabled());
    assert_eq!(declaration.runner(), &Runner::Deterministic { transform: "document-structure".to_owned() });
    assert_eq!(declaration.context(), ContextBounds { max_events: 8, max_chars: 24_000 });
    assert_eq!(declaration.subscription().replay(), Replay::Beginning);
    assert_eq!(declaration.retry(), RetryPolicy::default());
    assert_eq!(declaration.lifecycle(), LifecycleMode::TwoCommit);
    assert_eq!(declaration.agent_source().as_str(), "agent:document-structure");
}

#[test]
fn every_key_is_compiled() {
    let declaration = one(FULL);
    assert!(!declaration.is_enabled());
    assert_eq!(declaration.description(), "Collects the open tasks of the journal, one event a document.");
    let subscription = declaration.subscription();
    assert_eq!(subscription.accepted_types().len(), 4);
    assert_eq!(subscription.conditions().len(), 6);
    assert_eq!(subscription.conditions()[5].predicate, Predicate::Equals(Scalar::Integer(1)));
    assert_eq!(subscription.batch(), crate::subscription::Batch { max: 8, wait_ms: 2_000 });
    assert_eq!(declaration.privacy_floor(), Privacy::Private);
    insta::assert_snapshot!(serde_json::to_string_pretty(&declaration.to_json()).unwrap());
}

#[test]
fn hand_48_misspelt_switches_are_all_reported_and_nothing_is_loaded() {
    let first = MINIMAL.replace("enabled: true", "enabeld: true");
    let second = MINIMAL
        .replace("id: document-structure", "id: second")
        .replace("kind: deterministic", "kind: deterministic\n  transform: document-structure")
        .replace(
            "types:\n    - stream.thought.source.file.added\n    - stream.thought.source.file.changed",
            "types: stream.thought.source.file.added",
        )
        .replace("externalActions: false", "externalAction: true");
    let problems = load(&[("b.yaml", &second), ("a.yaml", &first)]).unwrap_err();
    insta::assert_snapshot!(render_all(&problems), @r"
    a.yaml:3:1: this key is not known here [shape.unknown-key]
      3 | enabeld: true
        | ^^^^^^^
      did you mean `enabled`?
      known here: id, version, enabled, description, subscribe, context, runner, prompt, emit, policy, retry, interrupted, lifecycle, onVersionChange, role, privacyFloor, outputMode, accounting

    b.yaml:6:10: a list is expected here, not text [shape.wrong-kind]
      6 |   types: stream.thought.source.file.added
        |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      write it as a list: [stream.thought.source.file.added]

    b.yaml:20:3: this key is not known here [shape.unknown-key]
      20 |   externalAction: true
         |   ^^^^^^^^^^^^^^
      did you mean `externalActions`?
      known here: tools, proposals, externalActions

    3 problems
    ");
}

#[test]
fn hand_49_each_odd_scalar_is_reported_at_its_place() {
    let text = "\
id: no
version: 1.0
enabled: on
description: x
base: &base { a: 1 }
subscribe:
  <<: *base
  types: [stream.thought.source.file.added]
  types: [stream.thought.source.file.added]
  sources: [filesystem:notes]
context:
  maxEvents: 12345678901234567890
\tmaxChars: 10
runner: { kind: deterministic, transform: document-links }
emit: [stream.thought.derived.document.links]
";
    assert_eq!(
        places(text),
        [
            "1:5 yaml.ambiguous",
            "2:10 shape.wrong-kind",
            "3:10 yaml.ambiguous",
            "5:1 shape.unknown-key",
            "5:7 yaml.anchor",
            "7:3 yaml.merge-key",
            "9:3 yaml.duplicate-key",
            "11:1 shape.missing-key",
            "12:14 yaml.ambiguous",
            "13:1 yaml.tab",
        ]
    );
}

#[test]
fn what_is_not_built_is_refused_with_a_code_of_its_own() {
    for (from, to, code) in [
        ("kind: deterministic", "kind: letta-agent-sdk", "not-built.runner-letta-agent-sdk"),
        ("kind: deterministic", "kind: workspace", "not-built.runner-workspace"),
        ("kind: deterministic", "kind: deterministic\n  model: a", "declaration.misplaced-key"),
        ("kind: deterministic", "kind: deterministic\n  tier: fast", "not-built.model-tiers"),
        (
            "kind: deterministic",
            "kind: deterministic\n  adapter: { id: a, version: 1 }",
            "not-built.model-adapters",
        ),
        ("  maxEvents: 8", "  maxEvents: 8\n  atprotoObject: true", "not-built.atproto"),
        ("  maxEvents: 8", "  maxEvents: 8\n  historyAgentIds: []", "declaration.misplaced-key"),
        ("  maxEvents: 8", "  maxEvents: 8\n  strategy: telegram-conversation", "declaration.misplaced-key"),
        ("  maxEvents: 8", "  maxEvents: 8\n  strategy: agent-conversation", "not-built.agent-messages"),
        (
            "stream.thought.source.file.added",
            "stream.thought.source.agent.message",
            "not-built.agent-messages",
        ),
        (
            "stream.thought.source.file.added",
            "stream.thought.source.course.question",
            "not-built.course-tutor",
        ),
        ("stream.thought.source.file.added", "stream.thought.source.course.*", "not-built.course-tutor"),
        ("filesystem:charter-fixture", "web-course:post-training", "not-built.course-tutor"),
        (
            "stream.thought.derived.document.structure",
            "stream.thought.derived.concept.graph",
            "not-built.conceptualizer",
        ),
        ("enabled: true", "enabled: true\nrole: repair", "declaration.misplaced-key"),
        ("enabled: true", "enabled: true\noutputMode: compaction-text", "not-built.compaction-text"),
        ("tools: []", "tools: [atproto-record]", "not-built.evidence-tools"),
        ("externalActions: false", "externalActions: true", "not-built.external-actions"),
        (
            "enabled: true",
            "enabled: true\naccounting:\n  reserve: { inputTokens: 1, outputTokens: 1 }\n  lease: 5m\n  limits: [{ window: day, calls: 5 }]",
            "declaration.accounting-without-model",
        ),
    ] {
        assert_eq!(codes_of(&changed(from, to)), [code], "{to}");
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let transform = "kind: deterministic\n  transform: ";
    for (from, to, expected) in [
        (
            "kind: deterministic",
            format!("{transform}document-structur"),
            "shape declaration.unknown-transform",
        ),
        ("id: document-structure", "id: my-notes".to_owned(), "declaration.unknown-transform"),
        (
            "stream.thought.source.file.added",
            "stream.thought.source.file.aded".into(),
            "declaration.unknown-type",
        ),
        ("stream.thought.source.file.added", "stream.thought.sauce.*".into(), "declaration.unknown-family"),
        (
            "stream.thought.source.file.added",
            "stream.thought.source.note".into(),
            "declaration.type-not-read",
        ),
        ("stream.thought.source.file.added", "stream.thought.source.*".into(), "declaration.type-not-read"),
        ("derived.document.structure", "derived.document.links".to_owned(), "declaration.type-not-written"),
        ("  sources:\n    - filesystem:charter-fixture\n", "".into(), "declaration.no-source"),
        (
            "  sources:",
            "  replay: { sequence: 7 }\n  kinds: [filesystem]\n  sources:".into(),
            "declaration.replay-sequence",
        ),
        ("  sources:", "  batch: { max: 9 }\n  sources:".into(), "declaration.batch-over-context"),
        ("enabled: true", "enabled: true\nretry: { first: 10m }".into(), "declaration.retry-waits"),
        (
            "enabled: true",
            "enabled: true\nonVersionChange: { replay: [filesystem:x] }".into(),
            "declaration.replay-source",
        ),
        ("document-structure.md", "absent.md".into(), "declaration.missing-prompt"),
        ("document-structure.md", "large.md".into(), "declaration.bad-prompt"),
        ("document-structure.md", "latin.md".into(), "declaration.bad-prompt"),
        ("document-structure.md", "empty.md".into(), "declaration.bad-prompt"),
        ("prompts/document-structure.md", "prompts/../../etc/passwd.md".into(), "shape.bad-value"),
        ("prompts/document-structure.md", "/etc/passwd".into(), "shape.bad-value"),
        ("prompts/document-structure.md", "prompts/.hidden.md".into(), "shape.bad-value"),
        ("enabled: true", "enabled: true\nretry: { attempts: 0 }".into(), "shape.out-of-bounds"),
        ("enabled: true", "enabled: true\nretry: { first: 5 }".into(), "shape.wrong-kind"),
        ("enabled: true", "enabled: true\nretry: { first: 5sec }".into(), "shape.bad-value"),
        ("version: 1", "version: 0".into(), "shape.out-of-bounds"),
        ("id: document-structure", "id: Document Structure".into(), "shape.bad-value"),
        (
            "- filesystem:charter-fixture",
            "- filesystem:charter-fixture\n    - filesystem:charter-fixture".into(),
            "shape.repeated",
        ),
        (
            "description: Identify document structure changes worth re-evaluating.",
            "description: \" \"".into(),
            "shape.bad-value",
        ),
    ] {
        let expected = expected.strip_prefix("shape ").unwrap_or(expected);
        let problems = changed(from, &to);
        assert_eq!(codes_of(&problems), [expected], "{to}\n{}", render_all(&problems));
    }
}

#[test]
fn a_condition_must_be_able_to_hold() {
    let with = |condition: &str| {
        let to = format!("  where: {{ {condition} }}\n  sources:");
        let problems = changed("  sources:", &to);
        (codes_of(&problems).join(" "), problems.first().and_then(|problem| problem.suggestion.clone()))
    };
    for good in [
        "payload.path: a.md",
        "payload.path: [a.md, b.md]",
        "payload.path: { prefix: a/ }",
        "payload.path: { min: a, max: b }",
        "payload.bytes: { min: 1, max: 2 }",
        "payload.bytes: 7",
        "depth: { max: 3 }",
        "recordedAt: { min: 2026-01-01T00:00:00Z }",
        "actor.kind: { in: [producer, person] }",
        "version: { equals: 1 }",
    ] {
        assert_eq!(with(good), (String::new(), None), "{good}");
    }
    for (bad, code) in [
        ("payload.pth: a", "declaration.unknown-field"),
        ("payload.title: a", "declaration.unknown-field"),
        ("pyload.path: a", "shape.bad-value"),
        ("payload.path: 5", "declaration.predicate"),
        ("payload.bytes: many", "declaration.predicate"),
        ("payload.bytes: { prefix: a }", "declaration.predicate"),
        ("payload.bytes: { min: 3, max: 2 }", "declaration.predicate"),
        ("payload.bytes: { min: 3, equals: 2 }", "declaration.predicate"),
        ("payload.bytes: {}", "declaration.predicate"),
        ("payload.bytes: { mx: 3 }", "declaration.predicate shape.unknown-key"),
        ("payload.bytes: []", "shape.out-of-bounds"),
        ("recordedAt: yesterday", "declaration.predicate"),
        ("actor.kind: producers", "declaration.predicate"),
        ("payload.path: ~", "yaml.ambiguous"),
    ] {
        assert_eq!(with(bad).0, code, "{bad}");
    }
    assert_eq!(with("payload.pth: a").1.as_deref(), Some("payload.path"));
}

#[test]
fn a_field_that_only_some_types_promote_is_refused_for_a_type_named_exactly() {
    let add = "  where: { payload.bytes: { max: 9 } }\n  sources:";
    let text = MINIMAL.replace("file.changed", "file.removed").replace("  sources:", add);
    assert_eq!(places(&text), ["9:12 declaration.unknown-field"]);
    let family = "  types: [stream.thought.source.file.*]\n";
    let start = text.find("  types:").unwrap();
    let end = text.find("  where:").unwrap();
    assert!(places(&format!("{}{family}{}", &text[..start], &text[end..])).is_empty());
}

/// A catalog with a transform that reads and writes everything, so that only loops are refused.
fn loose() -> Catalog {
    let mut catalog = catalog();
    let all: BTreeSet<TypeName> = catalog.types.keys().cloned().collect();
    catalog.transforms.insert("any".to_owned(), TransformInfo { accepts: all.clone(), emits: all });
    catalog
}

#[test]
fn a_loop_with_itself_is_refused() {
    let problems = |types: &str, rest: &str| {
        let text = format!(
            "id: echo\nversion: 1\nenabled: true\ndescription: x\nsubscribe:\n  types: [{types}]\n  {rest}\n\
             runner: {{ kind: deterministic, transform: any }}\nemit: [stream.thought.derived.document.links]\n"
        );
        let loaded = load_all(&[("echo.yaml".to_owned(), text.into_bytes())], &prompts, &loose());
        loaded
            .err()
            .unwrap_or_default()
            .iter()
            .map(|p| format!("{}:{} {}", p.line, p.column, p.code))
            .collect::<Vec<_>>()
    };
    for (types, rest) in [
        ("stream.thought.derived.document.links", "sources: [agent:echo]"),
        ("stream.thought.derived.*", "kinds: [agent]"),
        ("stream.thought.run.failed", "kinds: [agent]"),
        ("stream.thought.run.*", "sources: [agent:echo]"),
        ("stream.thought.run.status-unknown", "sources: [agent:echo]"),
        ("stream.thought.system.restarted", "sources: [system:supervision]"),
        ("stream.thought.system.*", "kinds: [system]"),
        ("stream.thought.*", "kinds: [agent]"),
        ("stream.thought.run.*", "kinds: [agent]\n  where: { actor.id: [other@1, echo@1] }"),
        ("stream.thought.system.restarted", "kinds: [system]\n  where: { payload.child: consumers/echo }"),
    ] {
        assert_eq!(problems(types, rest), ["6:11 declaration.loop"], "{types} {rest}");
    }
    for (types, rest) in [
        ("stream.thought.derived.document.links", "sources: [agent:other]"),
        ("stream.thought.derived.document.tasks", "kinds: [agent]"),
        ("stream.thought.run.*", "sources: [agent:other]"),
        ("stream.thought.run.*", "kinds: [agent]\n  where: { actor.id: other@1 }"),
        ("stream.thought.system.restarted", "kinds: [system]\n  where: { payload.child: consumers/other }"),
        ("stream.thought.system.paused", "sources: [system:decisions]"),
        ("stream.thought.source.note", "kinds: [notes]"),
    ] {
        assert!(problems(types, rest).is_empty(), "{types} {rest}: {:?}", problems(types, rest));
    }
}

#[test]
fn files_are_checked_against_each_other() {
    let problems =
        load(&[("b.yaml", MINIMAL), ("a.yaml", MINIMAL), ("empty.yaml", "# nothing\n")]).unwrap_err();
    let found: Vec<String> =
        problems.iter().map(|p| format!("{}:{}:{} {}", p.file, p.line, p.column, p.code)).collect();
    assert_eq!(found, ["b.yaml:1:5 declaration.duplicate-id", "empty.yaml:1:1 declaration.empty"]);
    assert!(load(&[]).unwrap().is_empty());
}

#[test]
fn an_id_under_which_the_service_keeps_something_is_no_consumers() {
    let named = |id: &str| places(&FULL.replacen("id: journal-tasks", &format!("id: {id}"), 1));
    for id in ["dispatcher-garden", "feedback-garden", "materializer"] {
        assert_eq!(named(id), ["1:5 declaration.reserved-id"]);
    }
    for id in ["dispatcher", "feedbacks", "materializer-of-notes"] {
        assert!(named(id).is_empty(), "{id}");
    }
}

#[test]
fn bad_bytes_are_one_clear_error_each() {
    let bad: [(&str, Vec<u8>, &str); 6] = [
        ("binary.yaml", (0..=255).collect(), "yaml.not-utf8"),
        ("huge.yaml", vec![b'a'; 70_000], "yaml.too-large"),
        ("deep.yaml", "[".repeat(65_536).into_bytes(), "yaml.too-deep"),
        ("list.yaml", b"- a\n".to_vec(), "shape.wrong-kind"),
        ("word.yaml", b"hello\n".to_vec(), "shape.wrong-kind"),
        (
            "twice.yaml",
            MINIMAL.replace("version: 1", "version: 1\nversion: 2").into_bytes(),
            "yaml.duplicate-key",
        ),
    ];
    for (name, bytes, code) in bad {
        let problems = load_all(&[(name.to_owned(), bytes)], &prompts, &catalog()).unwrap_err();
        assert_eq!(codes_of(&problems), [code], "{name}");
    }
}

#[test]
fn a_wide_text_is_refused_without_piling_up_problems() {
    let head = MINIMAL.split("  types:").next().unwrap();
    let lists = ["[a, ", "[stream.thought.sauce.x.*, ", "{ payload.x: 1, "];
    let wide = |key: &str, open: &str| {
        let unit = &open[1..];
        let items: String =
            (0..60_000 / (unit.len() + 5)).map(|at| unit.replacen('x', &format!("x{at}"), 1)).collect();
        let close = if open.starts_with('[') { "]" } else { "}" };
        format!("{head}  {key}: {}{items}{close}\n", &open[..1])
    };
    for text in
        [wide("types", lists[0]), wide("types", lists[1]), wide("where", lists[2]), wide("where", "{x: a, ")]
    {
        let problems = load(&[("a.yaml", &text)]).unwrap_err();
        assert!((1..250).contains(&problems.len()), "{} problems", problems.len());
        assert!(problems.iter().all(|problem| problem.render().len() < 4_000));
    }
    let keys: String = (0..6_000).map(|at| format!("key{at}: 1\n")).collect();
    let problems = load(&[("a.yaml", &keys)]).unwrap_err();
    assert_eq!((problems.len(), problems[200].code.as_str()), (201, "yaml.more-problems"));
}

#[test]
fn a_hostile_file_name_and_a_long_id_are_shown_safely() {
    let name = format!("{}\n\u{1b}[2J\u{202e}.yaml", "n".repeat(240));
    let text = MINIMAL.replace("id: document-structure", &format!("id: {}", "a".repeat(255)));
    let problems = load(&[(&name, &text)]).unwrap_err();
    let rendered = render_all(&problems);
    assert!(!rendered.chars().any(|c| c != '\n' && crate::text::is_hostile(c)));
    assert!(rendered.lines().next().unwrap().starts_with(&format!("{}\\n\\u{{1b}}[2J", "n".repeat(240))));
    assert_eq!(problems[0].code.as_str(), "shape.out-of-bounds");
    assert!(problems[0].text.chars().count() <= 61);
}

#[test]
fn problems_are_for_programs_too() {
    let problems = changed("enabled: true", "enabeld: true");
    assert_eq!(
        serde_json::to_value(&problems[0]).unwrap(),
        json!({
            "file": "a.yaml", "line": 3, "column": 1, "code": "shape.unknown-key", "text": "enabeld",
            "message": "this key is not known here", "suggestion": "enabled",
            "hint": problems[0].hint.as_ref().unwrap(),
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is cut from or written into a declaration, loading it gives a set or problems that can be shown.
    #[test]
    fn a_damaged_declaration_is_refused_or_read(
        at in 0..FULL.len(), cut in 0usize..40, put in "[ -~\n\t]{0,12}"
    ) {
        let mut text = FULL.to_owned();
        text.replace_range(at..(at + cut).min(FULL.len()), &put);
        match load(&[("a.yaml", &text)]) {
            Ok(set) => prop_assert_eq!(set.len(), 1),
            Err(problems) => prop_assert!(!problems.is_empty() && !render_all(&problems).is_empty()),
        }
    }
}

#[test]
fn what_settles_in_one_commit_runs_one_at_a_time() {
    let settled = MINIMAL.replace("enabled: true", "enabled: true\nlifecycle: settled");
    assert_eq!(one(&settled).lifecycle(), LifecycleMode::Settled);
    for (concurrency, expected) in [(1, &[][..]), (2, &["declaration.settled-side-by-side"])] {
        let text = settled.replace("  sources:", &format!("  concurrency: {concurrency}\n  sources:"));
        let problems = load(&[("a.yaml", &text)]).err().unwrap_or_default();
        assert_eq!(codes_of(&problems), expected, "{concurrency}");
    }
}
