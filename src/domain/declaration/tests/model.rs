//! What a consumer that asks a model must say, part by part.

use super::*;
use crate::contract::Mode;
use crate::declaration::catalog::ProviderInfo;
use crate::retry::{InterruptedRecord, InterruptedThen};

const OBSERVER: &str = "\
id: note-observer
version: 1
enabled: true
description: Observes what is new.
subscribe:
  types: [stream.thought.source.file.added]
  sources: [filesystem:notes]
  replay: now
context: { maxEvents: 1, maxChars: 24000 }
runner:
  kind: pi
  provider: local
  model: small
  thinkingLevel: medium
prompt: prompts/tasks.md
emit: [stream.thought.derived.message.observation]
accounting:
  reserve: { inputTokens: 1000, outputTokens: 200 }
  lease: 5m
  limits:
    - { window: rolling, length: 5m, calls: 10 }
    - { window: day, outputTokens: 20000 }
";

const CONVERSATION: &str = "\
id: telegram-conversation
version: 1
enabled: true
description: Answers.
subscribe:
  types: [stream.thought.source.telegram.message]
  sources: [telegram:bot]
  privacy: [sensitive, private]
  replay: now
context:
  strategy: telegram-conversation
  maxEvents: 40
  maxChars: 60000
  historyAgentIds: [earlier-conversation]
  assistantHistoryMaxTurns: 12
  documents:
    maxChars: 8000
    from:
      - { source: filesystem:memory, paths: [identity.md, memory.md] }
runner: { kind: pi, provider: local, model: small, timeout: 30s, maxOutputTokens: 100, stream: true }
prompt: prompts/tasks.md
outputMode: conversation-text
emit: [stream.thought.derived.message.observation]
accounting:
  reserve: { inputTokens: 1000, outputTokens: 200, costMicrousd: 50000 }
  lease: 5m
  limits: [{ window: hour, calls: 10, costMicrousd: 50000000 }]
  onExhaustion: advance
";

const REPAIR: &str = "\
id: output-repair
version: 1
enabled: true
description: Repairs.
subscribe:
  types: [stream.thought.repair.requested]
  sources: [agent:note-observer]
  replay: now
context: { maxEvents: 1, maxChars: 24000 }
runner: { kind: pi, provider: local, model: small }
prompt: prompts/tasks.md
role: repair
emit: [stream.thought.repair.proposed]
accounting:
  reserve: { inputTokens: 1000, outputTokens: 200 }
  lease: 5m
  limits: [{ window: day, calls: 10 }]
";

fn model(text: &str) -> ModelRunner {
    one(text).runner().model().unwrap().clone()
}

/// Returns the codes of an example after replacements.
fn broken(text: &str, changes: &[(&str, &str)]) -> Vec<&'static str> {
    let mut text = text.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    codes_of(&load(&[("a.yaml", &text)]).err().unwrap_or_default())
}

#[test]
fn an_observer_is_compiled_with_its_defaults() {
    let model = model(OBSERVER);
    assert_eq!((model.provider.as_str(), model.model.as_str()), ("local", "small"));
    assert_eq!(model.thinking, crate::provider::ThinkingLevel::Medium);
    assert_eq!(
        (model.mode, &model.strategy),
        (Mode::StrictJson, &ContextStrategy::TriggerEvents { neighbors: 0 })
    );
    assert_eq!((model.timeout_ms, model.max_output_tokens, model.stream), (60_000, 200, false));
    assert_eq!((model.accounting.reserve.calls, model.accounting.limits.len()), (1, 2));
    assert_eq!(model.accounting.on_exhaustion, crate::accounting::OnExhaustion::Defer);
    assert!(!format!("{:?}", one(OBSERVER)).contains("What to look for"), "a prompt is not printed");
}

#[test]
fn a_conversation_is_compiled_with_everything() {
    let model = model(CONVERSATION);
    let ContextStrategy::Conversation(conversation) = &model.strategy else { panic!() };
    assert_eq!(conversation.history_agents, [ConsumerId::parse("earlier-conversation").unwrap()]);
    assert_eq!(conversation.assistant_history_max, Some(12));
    let documents = conversation.documents.as_ref().unwrap();
    assert_eq!((documents.max_chars, documents.from[0].paths.len()), (8000, 2));
    assert!(documents.from[0].required, "a document is required unless it is said not to be");
    assert_eq!((model.mode, model.stream, model.max_output_tokens), (Mode::ConversationText, true, 100));
}

#[test]
fn a_repair_is_done_once_and_given_up_when_interrupted() {
    let repair = one(REPAIR);
    assert_eq!(repair.retry().attempts, 1);
    let interrupted = repair.interrupted();
    assert_eq!(interrupted.record, InterruptedRecord::Abandoned);
    assert_eq!(interrupted.then, InterruptedThen::Advance);
    for (from, to) in [
        ("role: repair", "role: repair\nretry: { attempts: 2 }"),
        ("role: repair", "role: repair\ninterrupted: { record: abandoned, then: retry }"),
        ("[stream.thought.repair.requested]", "[stream.thought.source.file.added]"),
    ] {
        assert_eq!(broken(REPAIR, &[(from, to)]), ["declaration.repair"], "{to}");
    }
}

#[test]
fn a_model_consumer_is_not_woken_by_what_its_own_runs_leave() {
    let types = "[stream.thought.source.file.added]";
    let sources = "[filesystem:notes]";
    for own in [
        "run.traced",
        "output.rejected",
        "repair.requested",
        "agent.memory-change.proposed",
        "agent.correction.proposed",
        "focus.declaration.proposed",
        "output.*",
    ] {
        let own = format!("[stream.thought.{own}]");
        let by = |agent: &str| broken(OBSERVER, &[(types, &own), (sources, &format!("[agent:{agent}]"))]);
        assert_eq!(by("note-observer"), ["declaration.loop"], "{own}");
        assert!(by("another").is_empty(), "{own}: {:?}", by("another"));
    }
    let every = ("sources: [agent:note-observer]", "kinds: [agent]");
    assert!(broken(REPAIR, &[every]).is_empty(), "a repair asks for no repair");
}

#[test]
fn every_model_declaration_written_as_json_loads_again_as_the_same() {
    for text in [OBSERVER, CONVERSATION, REPAIR] {
        let declaration = one(text);
        let again = serde_json::to_string(&declaration.to_json()).unwrap();
        assert_eq!(one(&again).fingerprint(), declaration.fingerprint(), "{again}");
    }
}

#[test]
fn what_a_model_consumer_must_say_is_asked_for() {
    let account = &OBSERVER[OBSERVER.find("accounting:").unwrap()..];
    for (from, to, code) in [
        ("  provider: local\n", "", "declaration.model-needs"),
        ("  model: small\n", "", "declaration.model-needs"),
        ("prompt: prompts/tasks.md\n", "", "declaration.model-needs"),
        ("  replay: now\n", "", "declaration.model-needs"),
        (account, "", "declaration.model-needs"),
        ("  replay: now", "  replay: now\n  concurrency: 2", "declaration.model-needs"),
        ("version: 1", "version: 1\nlifecycle: settled", "declaration.misplaced-key"),
        ("  kind: pi", "  kind: pi\n  transform: document-links", "declaration.misplaced-key"),
        ("maxEvents: 1", "maxEvents: 1, historyAgentIds: []", "declaration.misplaced-key"),
        ("message.observation", "document.links", "declaration.type-not-written"),
        ("version: 1", "version: 1\noutputMode: conversation-text", "declaration.conversation"),
        ("  model: small", "  model: small\n  maxOutputTokens: 201", "declaration.accounting"),
        ("lease: 5m", "lease: 60s", "accounting.lease-too-short"),
        ("calls: 10", "calls: 10, costMicrousd: 5", "accounting.not-reserved"),
        ("outputTokens: 20000", "outputTokens: 100", "accounting.admits-none"),
        ("length: 5m, ", "", "declaration.accounting"),
        ("window: day", "window: day, length: 1d", "declaration.accounting"),
        ("{ window: day, outputTokens: 20000 }", "{ window: day }", "accounting.empty-limit"),
    ] {
        assert_eq!(broken(OBSERVER, &[(from, to)]), [code], "{from} -> {to}");
    }
}

#[test]
fn a_policy_has_no_more_limits_than_an_account_looks_at() {
    let limits = |count: usize| {
        let one = |n: usize| format!("    - {{ window: rolling, length: {}m, calls: 10 }}\n", n + 1);
        (0..count).map(one).collect::<String>()
    };
    let start = OBSERVER.find("    - { window").unwrap();
    let with = |count| format!("{}{}", &OBSERVER[..start], limits(count));
    assert!(load(&[("a.yaml", &with(crate::accounting::LIMITS_MAX))]).is_ok());
    let problems = load(&[("a.yaml", &with(crate::accounting::LIMITS_MAX + 1))]).unwrap_err();
    assert!(codes_of(&problems).contains(&"shape.out-of-bounds"), "{}", render_all(&problems));
}

#[test]
fn a_conversation_is_that_of_one_bot() {
    for (from, to) in [
        ("sources: [telegram:bot]", "sources: [telegram:bot, telegram:other]"),
        ("sources: [telegram:bot]", "kinds: [telegram]"),
        ("[stream.thought.source.telegram.message]", "[stream.thought.source.telegram.*]"),
        ("  replay: now", "  replay: now\n  batch: { max: 2 }"),
        ("maxChars: 8000", "maxChars: 60001"),
        ("source: filesystem:memory", "source: notes:memory"),
    ] {
        assert_eq!(broken(CONVERSATION, &[(from, to)]), ["declaration.conversation"], "{to}");
    }
    for path in ["../secret.md", "/etc/passwd", "a//b.md", "*.md", "./a.md", "[ab].md", "{a,b}.md"] {
        let to = format!("paths: [\"{path}\"]");
        assert_eq!(
            broken(CONVERSATION, &[("paths: [identity.md, memory.md]", &to)]),
            ["yaml.bad-value"].map(|_| "shape.bad-value"),
            "{path}"
        );
    }
}

#[test]
fn one_enabled_declaration_answers_people_and_a_second_is_refused() {
    let second = CONVERSATION.replace("id: telegram-conversation", "id: another");
    let problems = load(&[("a.yaml", CONVERSATION), ("b.yaml", &second)]).unwrap_err();
    assert_eq!(codes_of(&problems), ["declaration.second-replier"]);
    let off = second.replace("enabled: true", "enabled: false");
    assert!(load(&[("a.yaml", CONVERSATION), ("b.yaml", &off)]).is_ok());
}

#[test]
fn profiles_and_models_are_those_of_the_configuration() {
    let info = ProviderInfo { models: ["small".to_owned()].into() };
    let catalog = Catalog { providers: Some([("local".to_owned(), info)].into()), ..catalog() };
    let codes = |from: &str, to: &str| {
        let text = OBSERVER.replace(from, to);
        let files = [("a.yaml".to_owned(), text.into_bytes())];
        codes_of(&load_all(&files, &prompts, &catalog).err().unwrap_or_default())
    };
    assert!(codes("small", "small").is_empty());
    assert_eq!(codes("provider: local", "provider: lokal"), ["declaration.unknown-provider"]);
    assert_eq!(codes("model: small", "model: smal"), ["declaration.model-not-allowed"]);
    assert!(codes("enabled: true", "enabled: false").is_empty());
    let off = OBSERVER.replace("enabled: true", "enabled: false").replace("local", "nowhere");
    assert!(load_all(&[("a.yaml".to_owned(), off.into_bytes())], &prompts, &catalog).is_ok());
}

#[test]
fn thinking_is_off_unless_declared_and_is_part_of_what_a_version_is() {
    use crate::provider::ThinkingLevel;
    let without = OBSERVER.replace("  thinkingLevel: medium\n", "");
    let off = OBSERVER.replace("thinkingLevel: medium", "thinkingLevel: \"off\"");
    assert_eq!(model(&without).thinking, ThinkingLevel::Off);
    let fingerprint = |text: &str| one(text).fingerprint();
    assert_eq!(fingerprint(&without), fingerprint(&off));
    assert_ne!(fingerprint(&without), fingerprint(OBSERVER));
}

#[test]
fn neighbors_are_asked_for_by_observers_and_fit_the_context() {
    let wide = |neighbors: &str| {
        let context = format!("context: {{ maxEvents: 3, maxChars: 24000, neighbors: {neighbors} }}");
        OBSERVER.replace("context: { maxEvents: 1, maxChars: 24000 }", &context)
    };
    assert_eq!(model(&wide("2")).strategy, ContextStrategy::TriggerEvents { neighbors: 2 });
    assert_ne!(one(&wide("2")).fingerprint(), one(&wide("1")).fingerprint());
    let codes = |text: &str| codes_of(&load(&[("a.yaml", text)]).err().unwrap_or_default());
    assert_eq!(codes(&wide("3")), ["declaration.batch-over-context"]);
    assert_eq!(codes(&wide("0")), ["shape.out-of-bounds"]);
    let asked = |text: &str, from: &str| text.replace(from, &format!("{from}, neighbors: 1"));
    assert_eq!(
        codes(&CONVERSATION.replace("  maxEvents: 40\n", "  maxEvents: 40\n  neighbors: 1\n")),
        ["declaration.misplaced-key"]
    );
    assert!(codes(&asked(REPAIR, "maxChars: 24000")).contains(&"declaration.repair"));
}

#[test]
fn an_observer_may_escalate_beside_its_observation_and_nobody_else_may() {
    const RAISED: &str = "stream.thought.escalation.raised";
    let beside =
        |text: &str| text.replacen("message.observation]", &format!("message.observation, {RAISED}]"), 1);
    assert_eq!(one(&beside(OBSERVER)).emit().len(), 2);
    let codes = |text: &str| codes_of(&load(&[("a.yaml", text)]).err().unwrap_or_default());
    assert_eq!(codes(&beside(CONVERSATION)), ["declaration.type-not-written"]);
    let alone = OBSERVER.replace("stream.thought.derived.message.observation", RAISED);
    assert_eq!(codes(&alone), ["declaration.type-not-written"]);
    assert!(
        codes(&REPAIR.replace("repair.proposed]", &format!("repair.proposed, {RAISED}]")))
            .contains(&"declaration.type-not-written")
    );
    // Woken by what it escalates itself, it would never come to rest.
    let woken = beside(OBSERVER).replace("[stream.thought.source.file.added]", &format!("[{RAISED}]"));
    let woken = woken.replace("  sources: [filesystem:notes]\n", "  kinds: [agent]\n");
    assert_eq!(codes(&woken), ["declaration.loop"]);
    assert!(codes(&woken.replace("  kinds: [agent]", "  sources: [agent:other]")).is_empty());
}
