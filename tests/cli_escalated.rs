//! One agent asks another to look: an event in the log, addressed, with its evidence, and nothing else.

use thoughtstream_channels::rehearsal::{Answer as Reply, Rehearsal, Rule, Script};
use tokio::runtime::Runtime;

use crate::cli_world::World;

const RAISED: &str = "stream.thought.escalation.raised";

/// Declares an agent that is asked about what `subscribe` says.
fn agent(id: &str, subscribe: &str, emit: &str) -> String {
    format!(
        "id: {id}\nversion: 1\nenabled: true\ndescription: Looks.\nsubscribe:\n  {subscribe}\n  replay: now\n\
         context: {{ maxEvents: 1, maxChars: 20000 }}\n\
         runner: {{ kind: pi, provider: local, model: smollm2-135m-instruct }}\nprompt: prompts/{id}.md\n\
         emit: [{emit}]\naccounting:\n  reserve: {{ inputTokens: 10000, outputTokens: 400 }}\n  lease: 5m\n  \
         limits: [{{ window: day, calls: 10 }}]\n"
    )
}

const OBSERVATION: &str = "stream.thought.derived.message.observation";

/// A world with two agents that look at notes, one of which may escalate, and two that others may call.
fn four_agents(rehearsal: &Rehearsal) -> World {
    let world = World::with_config();
    let config = format!(
        "sources:\n  - {{ filesystem: notes, root: {notes} }}\n\
         providers:\n  - {{ name: local, endpoint: {provider}, models: [smollm2-135m-instruct] }}\n",
        notes = world.notes.display(),
        provider = rehearsal.provider_url,
    );
    std::fs::write(world.config.join("config.yaml"), config).unwrap();
    for shipped in std::fs::read_dir(world.config.join("declarations")).unwrap() {
        std::fs::remove_file(shipped.unwrap().path()).unwrap();
    }
    let files = "types: [stream.thought.source.file.added]\n  sources: [filesystem:notes]";
    let addressed = |id: &str| format!("types: [{RAISED}]\n  kinds: [agent]\n  address: consumer:{id}");
    for (id, subscribe, emit) in [
        ("quick", files.to_owned(), format!("{OBSERVATION}, {RAISED}")),
        // It is told the same and may not escalate.
        ("meek", files.to_owned(), OBSERVATION.to_owned()),
        ("deep", addressed("deep"), OBSERVATION.to_owned()),
        ("bystander", addressed("bystander"), OBSERVATION.to_owned()),
    ] {
        std::fs::write(world.config.join(format!("declarations/{id}.yaml")), agent(id, &subscribe, &emit))
            .unwrap();
        std::fs::write(world.config.join(format!("prompts/{id}.md")), "Say what you see.\n").unwrap();
    }
    world
}

#[test]
fn an_agent_escalates_to_the_one_that_it_names_with_the_evidence_it_had() {
    let observed = |word: &str, target: &str| {
        let answer = serde_json::json!({
            "summary": format!("A note that {word}"), "tags": [], "importance": "high", "confidence": 0.9,
            "recommendation": { "target": target, "reason": "The dates differ.", "proposedAction": "escalate" },
        });
        Rule::when_contains(word, &format!("w-{word}-w"), Reply::text(answer.to_string()))
    };
    let looked =
        serde_json::json!({ "summary": "Looked.", "tags": [], "importance": "low", "confidence": 1 });
    let script = Script::answering(Reply::text(looked.to_string()))
        .with_rule(observed("asks", "consumer:deep"))
        .with_rule(observed("asks-itself", "consumer:quick"))
        .with_rule(observed("asks-nobody", "consumer:nobody"));
    let runtime = Runtime::new().unwrap();
    let rehearsal = runtime.block_on(Rehearsal::start(script)).unwrap();
    let world = four_agents(&rehearsal);
    let running = world.serve(&[]);
    for word in ["asks", "asks-itself", "asks-nobody", "is-calm"] {
        std::fs::write(world.notes.join(format!("{word}.md")), format!("# Note\n\nw-{word}-w\n")).unwrap();
    }
    let completed = |id: &str, count: usize| {
        let runs = ["run", "list", "--consumer", id, "--state", "completed", "--json"];
        world.until(&runs, |answer| answer.lines().len() == count);
    };
    completed("quick", 4);
    completed("meek", 4);
    completed("deep", 1);
    world.until_idle();
    completed("bystander", 0);
    let events = |kind: &str| world.thought(&["event", "list", "--type", kind, "--json"]).expect(0).lines();
    let mut raised = events(RAISED);
    assert_eq!(raised.len(), 2, "{raised:?}");
    // One that nobody hears waits for a person.
    let inbox = world.thought(&["inbox", "--json"]).expect(0).lines();
    assert_eq!(inbox.len(), 1, "{inbox:?}");
    assert_eq!(inbox[0]["kind"], "escalation-unheard");
    assert!(inbox[0]["why"].as_str().unwrap().contains("quick asks `nobody` to look"), "{inbox:?}");
    raised.retain(|event| event["id"] != inbox[0]["id"]);
    assert_eq!(
        (&raised[0]["source"], &raised[0]["address"]),
        (&"agent:quick".into(), &"consumer:deep".into())
    );
    // What justifies it is what the run had: its own observation, and the note that it was asked about.
    let lineage = world.thought(&["event", "lineage", raised[0]["id"].as_str().unwrap()]).expect(0).stdout;
    let evidence: Vec<&str> =
        raised[0]["payload"]["evidence"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let kinds: Vec<String> = evidence
        .iter()
        .map(|id| world.thought(&["event", "show", id, "--json"]).expect(0).json()["type"].to_string())
        .collect();
    assert!(kinds[0].contains(OBSERVATION) && kinds[1].contains("source.file.added"), "{kinds:?}");
    assert!(lineage.contains(evidence[1]), "{lineage}");
    assert_eq!(running.stop(), 0);
    world.thought(&["verify"]).expect(0);
}
