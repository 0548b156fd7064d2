//! Somebody tells their bot to remember, through the real program: the reply, an inert proposal, and the end that names
//! it, in one commit, whatever is killed on the way.

use serde_json::Value;
use thoughtstream_channels::rehearsal::{Rehearsal, Script};
use tokio::runtime::Runtime;

use crate::cli_world::{Answer, Running, World};

/// What the model does about what is said to it. What it says names no id, and what it calls does.
const SCRIPT: &str = r#"
provider:
  rules:
    - name: moved
      when: { contains: Lisbon, offers: request_memory_change }
      answer:
        text: "Lisbon, how nice. I noted a suggestion."
        tools:
          - name: request_memory_change
            arguments: '{"operation":"append","proposed_text":"Lives in Lisbon.","reason":"They told me that they moved.","evidence_event_ids":[]}'
    - name: silent
      when: { contains: silently, offers: request_memory_change }
      answer:
        tools:
          - name: request_memory_change
            arguments: '{"operation":"append","proposed_text":"Sows beans in May.","reason":"They asked.","evidence_event_ids":[]}'
    - name: corrects
      when: { contains: wrong, offers: submit_correction }
      answer:
        tools:
          - name: submit_correction
            arguments: '{"target_output":"latest","replacement":"Beans go out after the last frost.","reason":"It was wrong.","evidence_event_ids":[]}'
    - name: blank
      when: { contains: nothing, offers: submit_correction }
      answer:
        text: "I take it back."
        tools:
          - name: submit_correction
            arguments: '{"target_output":"latest","replacement":" ","reason":"It was wrong.","evidence_event_ids":[]}'
    - name: elsewhere
      when: { contains: elsewhere }
      answer:
        tools:
          - name: request_memory_change
            arguments: '{"operation":"append","proposed_text":"x","reason":"y","evidence_event_ids":[],"path":"../other.md"}'
    - name: focus
      when: { contains: "/focus keep" }
      answer: { text: "I will do that." }
  otherwise: { text: "Beans go out in March." }
"#;

const AGENT: &str = "agent:telegram-conversation";

/// A world with the declaration that ships, its folder of documents, and a bot that two people may write to, each in
/// a chat of their own.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) rehearsal: Rehearsal,
    _runtime: Runtime,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::playing(SCRIPT)
    }

    /// Makes one whose model does what a script says.
    pub(crate) fn playing(script: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let script = Script::parse("script.yaml", script.as_bytes()).unwrap();
        let rehearsal = runtime.block_on(Rehearsal::start(script)).unwrap();
        let world = World::new();
        world.thought(&["init"]).expect(0);
        std::fs::remove_dir_all(&world.data).unwrap();
        world.thought(&["rehearsal", "create"]).expect(0);
        let config = format!(
            "sources:\n  - {{ filesystem: telegram-agent-context, root: {root}, privacy: sensitive }}\n\
             providers:\n  - {{ name: local, endpoint: {provider}, models: [smollm2-135m-instruct], toolModels: [smollm2-135m-instruct] }}\n\
             telegram:\n  - bot: bot\n    api: {telegram}\n    credential: bot\n    username: rehearsal_bot\n    \
             chats: [\"7\", \"8\"]\n    senders: [\"7\", \"8\"]\n    directReplies: telegram-conversation\n",
            root = world.config.join("context").display(),
            provider = rehearsal.provider_url,
            telegram = rehearsal.telegram_url,
        );
        std::fs::write(world.config.join("config.yaml"), config).unwrap();
        let declaration = world.config.join("declarations/telegram-conversation.yaml");
        let shipped = std::fs::read_to_string(&declaration).unwrap();
        let enabled = shipped.replace("enabled: false", "enabled: true");
        let brief = enabled
            .replace(
                "retry: { attempts: 3, first: 2s, max: 1m, exhausted: hold }",
                "retry: { attempts: 20, first: 20ms, max: 200ms }",
            )
            .replace(
                "interrupted: { record: status-unknown, then: hold }",
                "interrupted: { record: status-unknown, then: retry }",
            );
        std::fs::write(&declaration, brief).unwrap();
        let token = world.config.join("credentials/bot");
        std::fs::create_dir_all(token.parent().unwrap()).unwrap();
        std::fs::write(&token, "100000001:rehearsal\n").unwrap();
        std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Self { world, rehearsal, _runtime: runtime }
    }

    /// Starts the service, and waits until it knows what is to be remembered.
    pub(crate) fn serve(&self) -> Running<'_> {
        let running = self.world.serve(&[]);
        let list = ["event", "list", "--source", "filesystem:telegram-agent-context", "--json"];
        self.world.until(&list, |answer| !answer.lines().is_empty());
        running
    }

    pub(crate) fn say(&self, text: &str) {
        self.rehearsal.say(7, 7, text);
    }

    /// Waits until so many messages have arrived in the chat.
    pub(crate) fn until_sent(&self, count: usize) -> Vec<String> {
        self.world.until(&["status", "--json"], |_| self.rehearsal.sent_messages().len() >= count);
        // The receipt of what has arrived is durable before anything is asked about it.
        let receipts = ["event", "list", "--type", "stream.thought.delivery.delivered", "--json"];
        self.world.until(&receipts, |answer| answer.lines().len() >= count);
        self.rehearsal.sent_messages().iter().map(|sent| sent.text.reveal().clone()).collect()
    }

    /// Returns the agent's events, oldest first.
    pub(crate) fn events(&self) -> Vec<Value> {
        let list = ["event", "list", "--source", AGENT, "--limit", "1000", "--json"];
        let mut events = self.world.thought(&list).expect(0).lines();
        events.sort_by_key(|event| event["sequence"].as_u64());
        events
    }

    pub(crate) fn of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    pub(crate) fn shown(&self, event: &Value) -> Value {
        let id = event["id"].as_str().unwrap();
        self.world.thought(&["event", "show", id, "--content", "--json"]).expect(0).json()
    }

    pub(crate) fn memory(&self) -> String {
        std::fs::read_to_string(self.world.config.join("context/memory.md")).unwrap()
    }
}

pub(crate) const MEMORY: &str = "stream.thought.agent.memory-change.proposed";
pub(crate) const CORRECTION: &str = "stream.thought.agent.correction.proposed";
pub(crate) const OUTPUT: &str = "stream.thought.derived.message.observation";
pub(crate) const COMPLETED: &str = "stream.thought.run.completed";

#[test]
fn remember_that_i_moved_becomes_a_reply_and_an_inert_proposal_in_one_commit() {
    let stage = Stage::new();
    let before = stage.memory();
    let service = stage.serve();
    stage.say("remember that I moved to Lisbon");
    assert_eq!(stage.until_sent(1), ["Lisbon, how nice. I noted a suggestion."], "what it said, and no more");
    assert_eq!(stage.rehearsal.provider_requests().len(), 1, "a call is never followed up");
    let events = stage.events();
    let at = |kind: &str| events.iter().position(|event| event["type"] == kind).unwrap();
    let (output, proposal, completed) = (at(OUTPUT), at(MEMORY), at(COMPLETED));
    assert_eq!((proposal, completed), (output + 1, output + 2), "in this order and without a gap");
    let (output, proposal, completed) =
        (stage.shown(&events[output]), stage.shown(&events[proposal]), stage.shown(&events[completed]));
    assert_eq!(completed["payload"]["outputs"], serde_json::json!([output["id"]]));
    assert_eq!(completed["payload"]["proposals"], serde_json::json!([proposal["id"]]));
    assert_eq!(proposal["privacy"], "sensitive");
    assert_eq!(proposal["parents"], serde_json::json!([output["id"]]));
    assert_eq!(proposal["root"], output["root"]);
    assert_eq!(proposal["payload"]["proposalState"], "agent-proposed");
    assert_eq!(proposal["payload"]["proposedText"], "Lives in Lisbon.");
    assert_eq!(proposal["payload"]["target"]["path"], "memory.md");
    assert_eq!(proposal["payload"]["publicationEligible"], false);
    assert_eq!(proposal["payload"]["proposer"]["output"], output["id"]);
    assert_eq!(stage.memory(), before, "nothing was written");
    // What it did is traced by its kinds and counts, and a call's arguments stand in no trace and no log of ours.
    let traced = stage.of("stream.thought.run.traced");
    assert_eq!(traced.len(), 1);
    for event in &traced {
        let traced = stage.shown(event).to_string() + &stage.world.log();
        for word in ["Lisbon", "proposed_text", "evidence_event_ids", "request_memory_change"] {
            assert!(!traced.contains(word), "{word}: {traced}");
        }
    }
    assert!(stage.world.thought(&["inbox"]).expect(0).stdout.contains("memory"));
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_later_turn_shows_the_call_its_result_and_then_what_was_delivered() {
    let stage = Stage::new();
    let service = stage.serve();
    stage.say("silently, please");
    assert_eq!(stage.until_sent(1), ["I saved that as a memory suggestion."]);
    stage.say("that was wrong");
    let sent = stage.until_sent(2);
    assert_eq!(sent[1], "I saved that as a proposed correction.");
    let asked = stage.rehearsal.provider_requests()[1].json();
    let messages = asked["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"], "{asked}");
    let call = &messages[2]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "request_memory_change");
    assert!(call["function"]["arguments"].as_str().unwrap().contains("Sows beans in May."));
    assert_eq!(messages[3]["tool_call_id"], call["id"]);
    assert_eq!(messages[4]["content"], "I saved that as a memory suggestion.");
    // The shorthand is resolved, and the correction hangs on what it is about.
    let target = stage.of(OUTPUT)[0].clone();
    let correction = stage.shown(&stage.of(CORRECTION)[0]);
    assert_eq!(correction["payload"]["target"]["output"], target["id"]);
    assert_eq!(correction["parents"], serde_json::json!([target["id"]]));
    assert_eq!(correction["payload"]["replacement"]["summary"], "Beans go out after the last frost.");
    assert_eq!(correction["payload"]["replacement"]["confidence"], 0.5);
    assert!(!correction.to_string().contains("latest"));
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_call_that_reaches_for_more_and_a_focus_that_is_not_proposed_fail_closed() {
    let stage = Stage::new();
    let service = stage.serve();
    for (said, failed) in [("remember it elsewhere", 1), ("/focus keep an eye on the beans", 2)] {
        stage.say(said);
        let runs = ["run", "list", "--consumer", "telegram-conversation", "--json"];
        stage.world.until(&runs, |answer| {
            answer.lines().iter().filter(|run| run["state"] == "failed").count() == failed
        });
    }
    let kinds: Vec<String> =
        stage.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert!(!kinds.iter().any(|kind| kind.ends_with(".proposed") || kind == OUTPUT), "{kinds:?}");
    assert!(
        !kinds.iter().any(|kind| kind.contains("repair")),
        "reaching for more is not repaired: {kinds:?}"
    );
    // The bare command is answered by nobody but the program.
    stage.say("/focus");
    let sent = stage.until_sent(1);
    assert!(sent[0].contains("A proposal starts nothing"), "{sent:?}");
    assert_eq!(stage.rehearsal.provider_requests().len(), 2);
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_proposal_that_cannot_be_made_whole_takes_its_message_with_it() {
    let stage = Stage::new();
    let service = stage.serve();
    stage.say("beans?");
    stage.until_sent(1);
    // Its length is right, and the reply's contract wants a reply that says something.
    stage.say("say nothing instead");
    let runs = ["run", "list", "--consumer", "telegram-conversation", "--state", "failed", "--json"];
    let failed = stage.world.until(&runs, |answer| answer.lines().len() == 1).lines().remove(0);
    assert_eq!(failed["code"], "correction-unfit", "{failed}");
    let of = |kind| stage.of(kind).len();
    assert_eq!((of(OUTPUT), of(CORRECTION), of(COMPLETED)), (1, 0, 1));
    assert_eq!(stage.rehearsal.sent_messages().len(), 1);
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn whoever_is_killed_while_it_settles_leaves_nothing_half_and_one_end() {
    let stage = Stage::new();
    let service = stage.serve();
    let points = [
        "proposal.settle.output",
        "proposal.settle.proposals",
        "proposal.settle.completed",
        "attempt.settle.before",
        "attempt.settle.inside",
        "attempt.settle.after",
    ];
    for (index, point) in points.into_iter().enumerate() {
        let actor = "thoughtstream/consumers/telegram-conversation";
        let action = ["kill-actor", "fail", "panic"][index % 3];
        stage.world.thought(&["rehearsal", "arm", point, action, "--actor", actor]).expect(0);
        stage.say(&format!("number {index}: remember that I moved to Lisbon"));
        stage.world.until(&["status", "--json"], |status| {
            // Repeated ends lead to a quarantine, as they are meant to; a person lets it go on.
            if status.stdout.contains("\"quarantined\"") {
                stage.world.thought(&["consumer", "resume", "telegram-conversation"]);
            }
            stage.of(COMPLETED).len() == index + 1
        });
    }
    let of = |kind| stage.of(kind).len();
    assert_eq!((of(OUTPUT), of(MEMORY), of(COMPLETED)), (points.len(), points.len(), points.len()));
    let started = of("stream.thought.run.started");
    assert!(stage.rehearsal.provider_requests().len() <= started);
    for completed in stage.of(COMPLETED) {
        assert_eq!(stage.shown(&completed)["payload"]["proposals"].as_array().unwrap().len(), 1);
    }
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_power_cut_anywhere_between_start_and_receipt_is_made_up_for_once() {
    let stage = Stage::new();
    let context = stage.world.config.join("context");
    let beside = || {
        let names = std::fs::read_dir(&context).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".new")).count()
    };
    let written = |lines: usize| stage.memory().matches("Lives in Lisbon.").count() == lines;
    let list = |kind: &str| {
        let kind = format!("stream.thought.agent.memory-change.{kind}");
        stage.world.thought(&["event", "list", "--type", &kind, "--json"]).expect(0).lines().len()
    };
    let mut service = stage.serve();
    // Where it is held, and how it is seen from outside that it has come that far.
    type Seen<'a> = &'a dyn Fn(usize) -> bool;
    let stops: [(&str, Seen<'_>); 5] = [
        ("materialize.started.after", &|made| list("materialization.started") == made + 1),
        ("materialize.file.after", &|_| beside() == 1),
        ("materialize.exchange.inside", &|made| written(made + 1) && beside() == 1),
        ("materialize.scan.before", &|made| written(made + 1) && beside() == 0),
        ("materialize.receipt.before", &|made| written(made + 1) && beside() == 0),
    ];
    for (made, (point, reached)) in stops.into_iter().enumerate() {
        let actor = "thoughtstream/materializer";
        stage.world.thought(&["rehearsal", "arm", point, "hold", "--actor", actor]).expect(0);
        stage.say(&format!("number {made}: remember that I moved to Lisbon"));
        stage.until_sent(made + 1);
        let proposal = stage.of(MEMORY)[made]["id"].as_str().unwrap().to_owned();
        stage.world.thought(&["proposal-decision", &proposal, "accept"]).expect(0);
        stage.world.until(&["status", "--json"], |_| reached(made));
        assert_eq!(list("materialized"), made, "{point}");
        service.kill();
        service = stage.serve();
        stage.world.until(&["status", "--json"], |_| list("materialized") == made + 1);
        assert!(written(made + 1) && beside() == 0, "{point}: {}", stage.memory());
        let why = stage.world.thought(&["why", &proposal]).expect(0).stdout;
        assert!(why.contains("materialized") && why.contains("decided: accept"), "{why}");
    }
    assert_eq!((list("materialization.started"), list("materialization.failed")), (5, 0));
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn what_keeps_a_change_from_being_written_is_said_where_a_person_looks() {
    let stage = Stage::new();
    let owner = stage.world.config.join("context/.thought-materializer.owner");
    std::fs::write(&owner, "{\"pid\":1,\"tru").unwrap();
    let service = stage.serve();
    stage.say("remember that I moved to Lisbon");
    stage.until_sent(1);
    let proposal = stage.of(MEMORY)[0]["id"].as_str().unwrap().to_owned();
    stage.world.thought(&["proposal-decision", &proposal, "accept"]).expect(0);
    let blocked = |answer: &Answer| answer.stdout.contains("root-lock-damaged");
    let inbox = stage.world.until(&["inbox"], blocked).stdout;
    assert!(inbox.contains(&format!("thought why {proposal}")), "{inbox}");
    for look in [&["why", &proposal][..], &["proposal-list", "--json", &proposal]] {
        let answer = stage.world.thought(look).expect(0);
        assert!(blocked(&answer) && answer.stdout.contains(".thought-materializer."), "{answer:?}");
    }
    assert_eq!(std::fs::read_to_string(&owner).unwrap(), "{\"pid\":1,\"tru", "nobody took it away");
    std::fs::remove_file(&owner).unwrap();
    stage
        .world
        .until(&["proposal-list", "--json", &proposal], |answer| answer.stdout.contains("\"materialized\""));
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_bot_that_may_ask_to_remember_and_has_no_folder_for_it_is_advice() {
    let stage = Stage::new();
    let check = || {
        let diagnosis = stage.world.thought(&["doctor", "--quick", "--json"]).json();
        let checks = diagnosis["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["id"] == "memory")
    };
    assert_eq!(check().unwrap()["status"], "ok");
    let path = stage.world.config.join("config.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    let without: Vec<&str> = config.lines().filter(|line| !line.contains("telegram-agent-context")).collect();
    let without = without.join("\n").replace("sources:", "sources: []");
    std::fs::write(&path, without).unwrap();
    let advice = check().unwrap();
    assert_eq!(advice["status"], "advice");
    assert!(advice.to_string().contains("filesystem:telegram-agent-context"), "{advice}");
    let declaration = stage.world.config.join("declarations/telegram-conversation.yaml");
    let enabled = std::fs::read_to_string(&declaration).unwrap();
    std::fs::write(&declaration, enabled.replace("enabled: true", "enabled: false")).unwrap();
    assert_eq!(check(), None, "nobody asks");
}
