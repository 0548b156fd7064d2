//! What a model proposes beside a reply or instead of one, through the real program: each kind, several at once, a
//! focus that somebody described, and what the next turn sees.

use serde_json::{Value, json};

use crate::cli_remembering::{COMPLETED, CORRECTION, MEMORY, OUTPUT, Stage};

const FOCUS: &str = "stream.thought.focus.declaration.proposed";

/// Calls of all kinds, with a text and without one.
const SCRIPT: &str = r#"
provider:
  rules:
    - name: all
      when: { contains: everything }
      answer:
        text: "I noted three things for you to decide."
        tools:
          - name: request_memory_change
            arguments: '{"operation":"append","proposed_text":"Lives in Lisbon.","reason":"They told me.","evidence_event_ids":[]}'
          - name: submit_correction
            arguments: '{"target_output":"latest","replacement":"Beans go out after the last frost.","reason":"It was wrong.","evidence_event_ids":[]}'
          - name: propose_focus
            arguments: 'DECLARATION'
    - name: silently
      when: { contains: silently }
      answer:
        tools:
          - name: propose_focus
            arguments: 'DECLARATION'
          - name: submit_correction
            arguments: '{"target_output":"latest","replacement":"Beans go out after the last frost.","reason":"It was wrong.","evidence_event_ids":[]}'
          - name: request_memory_change
            arguments: '{"operation":"append","proposed_text":"Sows beans in May.","reason":"They told me.","evidence_event_ids":[]}'
    - name: focus
      when: { contains: "/focus keep", offers: propose_focus }
      answer:
        tools:
          - name: propose_focus
            arguments: 'DECLARATION'
  otherwise: { text: "Beans go out in March." }
"#;

/// The script, with a whole declaration of a focus in each call that proposes one.
fn script() -> String {
    let declaration = json!({ "declaration": {
        "id": "lisbon-move", "version": 1,
        "lineage": { "evidence": [] },
        "scope": { "includes": ["the move to Lisbon"], "excludes": ["work"] },
        "objective": "Keep track of what is still to be done.",
        "subscriptions": [{ "types": ["stream.thought.source.note"], "sources": ["notes:garden"] }],
        "budgets": { "runsPerDay": 4, "tokensPerDay": 20000 },
        "requestedPermissions": ["notify"],
        "retirement": { "afterDays": 60, "when": "the move is over" },
    }});
    SCRIPT.replace("DECLARATION", &declaration.to_string())
}

fn proposals(stage: &Stage) -> Vec<Value> {
    stage.world.thought(&["proposal-list", "--json"]).expect(0).lines()
}

#[test]
fn one_answer_may_hold_a_text_and_a_call_of_each_kind_and_all_of_it_settles_in_one_commit() {
    let stage = Stage::playing(&script());
    let service = stage.serve();
    stage.say("hello");
    stage.until_sent(1);
    stage.say("everything, please");
    assert_eq!(stage.until_sent(2)[1], "I noted three things for you to decide.", "and nothing is added");
    stage.say("once more, silently");
    let fixed = "I saved those as memory, correction and focus suggestions.";
    assert_eq!(stage.until_sent(3)[2], fixed, "whatever order it called them in");
    assert_eq!(stage.rehearsal.provider_requests().len(), 3, "no call is followed up");
    let events = stage.events();
    let completed: Vec<usize> = (0..events.len()).filter(|at| events[*at]["type"] == COMPLETED).collect();
    for end in &completed[1..] {
        let kinds: Vec<&str> =
            events[end - 4..=*end].iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, [OUTPUT, MEMORY, CORRECTION, FOCUS, COMPLETED]);
        let named = stage.shown(&events[*end])["payload"]["proposals"].clone();
        let there: Vec<&Value> = events[end - 3..*end].iter().map(|event| &event["id"]).collect();
        assert_eq!(named, json!(there));
        let output = &events[end - 4]["id"];
        assert_eq!(stage.shown(&events[end - 3])["payload"]["proposer"]["output"], *output);
        assert_eq!(stage.shown(&events[end - 1])["parents"], json!([output]));
    }
    let states: Vec<Value> = proposals(&stage).into_iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["waiting", "waiting", "inert", "waiting", "waiting", "inert"]);
    // The turn after shows each call with its result, and then what was delivered.
    let asked = stage.rehearsal.provider_requests()[2].json();
    let roles: Vec<&str> =
        asked["messages"].as_array().unwrap().iter().map(|said| said["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "user", "assistant", "tool", "tool", "tool", "assistant", "user"]
    );
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn a_focus_that_somebody_describes_comes_to_one_proposal_and_a_receipt() {
    let stage = Stage::playing(&script());
    let service = stage.serve();
    stage.say("/focus keep an eye on my move to Lisbon");
    assert_eq!(stage.until_sent(1), ["I saved that as a focus proposal."]);
    assert_eq!(stage.rehearsal.provider_requests().len(), 1);
    let focuses = stage.of(FOCUS);
    assert_eq!((focuses.len(), stage.of(MEMORY).len(), stage.of(CORRECTION).len()), (1, 0, 0));
    let focus = stage.shown(&focuses[0]);
    assert_eq!(focus["payload"]["declaration"]["id"], "lisbon-move");
    let completed = stage.shown(&stage.of(COMPLETED)[0]);
    assert_eq!(completed["payload"]["proposals"], json!([focus["id"]]));
    let kind = "stream.thought.delivery.delivered";
    let receipts = stage.world.thought(&["event", "list", "--type", kind, "--json"]).expect(0).lines();
    assert_eq!(receipts.len(), 1);
    let lineage = receipts[0]["id"].as_str().unwrap();
    let lineage = stage.world.thought(&["event", "lineage", lineage]).expect(0).stdout;
    assert!(lineage.contains("source.telegram.message@1"), "{lineage}");
    // It grants nothing, and nobody decides about it here.
    let shown = proposals(&stage);
    assert_eq!((shown.len(), &shown[0]["state"]), (1, &json!("inert")));
    let id = shown[0]["id"].as_str().unwrap();
    stage.world.thought(&["proposal-decision", id, "accept"]).expect(1);
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}

#[test]
fn what_was_written_is_what_the_next_turn_sees() {
    let stage = Stage::playing(&script());
    let service = stage.serve();
    stage.say("hello");
    stage.until_sent(1);
    stage.say("everything, please");
    stage.until_sent(2);
    let system = |stage: &Stage| {
        stage.rehearsal.provider_requests().last().unwrap().json()["messages"][0]["content"].to_string()
    };
    assert!(!system(&stage).contains("Lives in Lisbon."));
    let memory = stage.of(MEMORY)[0]["id"].as_str().unwrap().to_owned();
    stage.world.thought(&["proposal-decision", &memory, "accept"]).expect(0);
    stage
        .world
        .until(&["proposal-list", "--json", &memory], |answer| answer.stdout.contains("\"materialized\""));
    stage.say("hello again");
    stage.until_sent(3);
    assert!(system(&stage).contains("Lives in Lisbon."), "{}", system(&stage));
    assert_eq!(service.stop(), 0);
    stage.world.thought(&["verify"]).expect(0);
}
