//! What a run proposed, as a later turn shows it, and when nothing is shown.

use super::fixture::*;
use super::shape::{capabilities, compose, within};
use crate::commit::Placed;
use crate::content::Content;
use crate::contract::{Contract, FinalPart, Mode, Observation, Stop, judge};
use crate::event::Event;
use crate::hash::{ChainHash, Sha256Hash};
use crate::id::{DocumentId, EventId, SourceId};
use crate::packet::manifest::{Part as What, Rule};
use crate::packet::observe::Instructions;
use crate::packet::repair::repair;
use crate::packet::{Asking, Composed, ImageArtifact, Packet, Subject};
use crate::payload::proposal::{
    CorrectionProposed, False, MemoryChangeProposed, ProposalState, Proposed, Proposer,
};
use crate::payload::repair::RepairRequested;
use crate::payload::run::RunStamp;
use crate::privacy::Privacy;
use crate::proposal::call::Operation;
use crate::proposal::capability::{CorrectionTarget, MEMORY_PATH, MEMORY_SOURCE, MemoryTarget};
use crate::proposal::text::{ProposedText, Reason};
use crate::provider::{Part, ResponseFormat, Role, ThinkingLevel};
use crate::time::Timestamp;

fn proposer(n: usize) -> Proposer {
    let completion = reply(n, "").completion.unwrap();
    Proposer {
        run: run(n),
        output: output_id(n),
        trigger: message_id(n),
        agent: completion.consumer,
        fingerprint: Sha256Hash::of(b"declaration"),
        provider: "local".to_owned(),
        model: "small".to_owned(),
        snapshot: snapshot(n),
    }
}

fn memory(n: usize, text: &str) -> Proposed {
    let source = SourceId::parse(MEMORY_SOURCE).unwrap();
    let proposed_text = ProposedText::new(text.to_owned()).unwrap();
    Proposed::Memory(MemoryChangeProposed {
        proposal_state: ProposalState::AgentProposed,
        proposer: proposer(n),
        target: MemoryTarget {
            document: DocumentId::at_first_sight(&source, MEMORY_PATH, 0),
            source,
            path: MEMORY_PATH.to_owned(),
            revision: 1,
            sha256: Sha256Hash::of(b"x"),
            content_type: "text/markdown".to_owned(),
            bytes: 1,
        },
        operation: Operation::Append,
        text_length: proposed_text.characters(),
        text_sha256: Sha256Hash::of(text.as_bytes()),
        proposed_text,
        reason: Reason::new("They said so.".to_owned()).unwrap(),
        evidence: vec![message_id(n)],
        publication_eligible: False,
    })
}

fn said(text: &str) -> Observation {
    let parts = [FinalPart::text(text)];
    judge(&Contract::observation(), Mode::ConversationText, &parts, Stop::End).unwrap().value
}

fn correction(n: usize, of: usize) -> Proposed {
    Proposed::Correction(CorrectionProposed {
        proposal_state: ProposalState::AgentProposed,
        proposer: proposer(n),
        target: CorrectionTarget {
            run: run(of),
            output: output_id(of),
            receipt: id("receipt", of),
            root: message_id(of),
            contract: contract(),
        },
        replacement: said("In May."),
        reason: Reason::new("It was wrong.".to_owned()).unwrap(),
        evidence: Vec::new(),
        quality_eligible: False,
        external_export_eligible: False,
        publication_eligible: False,
    })
}

fn event(n: usize, proposed: &Proposed) -> Event {
    let completion = reply(n, "").completion.unwrap();
    let stamp = RunStamp {
        run: run(n),
        execution: completion.execution,
        consumer: completion.consumer,
        fingerprint: Sha256Hash::of(b"declaration"),
        attempt: 1,
        execution_adapter_revision: "observer-v1".to_owned(),
        model_adapter: None,
    };
    let candidate = proposed.event(&stamp);
    let placed = Placed {
        id: candidate.id(),
        position: 10 * (n as u64 + 1) + 5,
        sequence: 1,
        recorded_at: Timestamp::from_millis(1),
        root: message_id(n),
        depth: 2,
        chain: ChainHash::START,
    };
    Event::recorded(&candidate, &placed)
}

/// Two exchanges, of which the last proposed this.
fn chat(proposed: &[Proposed]) -> Chat {
    let mut chat = Chat::of(2);
    let completion = chat.turns[1].1[0].completion.as_mut().unwrap();
    completion.proposed = proposed.iter().map(|proposed| event(1, proposed)).collect();
    completion.proposals = completion.proposed.iter().map(|event| event.id).collect();
    chat
}

fn shown(chat: &Chat) -> Composed {
    compose(chat, &chat.current("and now?"), false)
}

fn calls(composed: &Composed) -> Vec<(&str, &str)> {
    let parts = composed.messages().iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            Part::ToolCall { name, arguments, .. } => Some((name.as_str(), arguments.reveal().as_str())),
            Part::Text { .. } | Part::Image { .. } | Part::ToolResult { .. } => None,
        })
        .collect()
}

fn unshown(composed: &Composed) -> Vec<(EventId, Rule)> {
    let omitted = composed.manifest().omitted.iter().filter(|omitted| omitted.part == What::ToolCall);
    omitted.map(|omitted| (EventId::parse(&omitted.id).unwrap(), omitted.rule)).collect()
}

#[test]
fn a_run_that_proposed_is_shown_as_call_result_and_what_was_delivered() {
    let found = shown(&chat(&[memory(1, "Lives in Lisbon."), correction(1, 0)]));
    let roles: Vec<Role> = found.messages().iter().map(|message| message.role).collect();
    use Role::{Assistant, System, Tool, User};
    assert_eq!(roles, [System, User, Assistant, User, Assistant, Tool, Tool, Assistant, User]);
    let [(one, first), (two, second)] = calls(&found)[..] else { panic!("two calls") };
    assert_eq!((one, two), ("request_memory_change", "submit_correction"));
    let first: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!(first["proposed_text"], "Lives in Lisbon.");
    assert_eq!(first["operation"], "append");
    assert_eq!(first["evidence_event_ids"][0], message_id(1).to_string());
    let second: serde_json::Value = serde_json::from_str(second).unwrap();
    assert_eq!(second["target_output"], output_id(0).to_string(), "never the shorthand");
    assert_eq!(second["replacement"], "In May.");
    for message in &found.messages()[5..7] {
        let Part::ToolResult { text, .. } = &message.parts[0] else { panic!("no result") };
        assert!(text.reveal().contains("durable, inert proposal") && text.reveal().contains("pending"));
    }
    let Part::Text { text } = &found.messages()[7].parts[0] else { panic!("no text") };
    assert_eq!(text.reveal(), "a1");
    assert_eq!(found.privacy(), Privacy::Sensitive, "as sensitive as the proposal");
}

/// Seals a composed conversation whose current message has these images.
fn sealed(composed: Composed, images: &[ImageArtifact]) -> Packet {
    let subject = Subject {
        consumer: reply(0, "").completion.unwrap().consumer,
        fingerprint: Sha256Hash::of(b"declaration"),
        triggers: vec![message_id(2)],
        prompt: None,
        contract: contract(),
        runtime: crate::packet::Runtime {
            profile: "local".to_owned(),
            model: "small".to_owned(),
            execution_adapter_revision: "observer-v1".to_owned(),
            model_adapter: None,
        },
        capabilities: capabilities(),
        images: images.to_vec(),
    };
    let asking = Asking {
        max_output_tokens: 100,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        stream: false,
    };
    Packet::seal(subject, asking, composed).unwrap()
}

#[test]
fn the_calls_can_be_asked_with_and_are_the_same_each_time() {
    let chat = chat(&[memory(1, "Lives in Lisbon."), correction(1, 0)]);
    let again = || sealed(shown(&chat), &[]);
    assert_eq!(again(), again());
}

#[test]
fn a_repair_names_what_it_does_not_show_once_more() {
    let chat = chat(&[memory(1, "Lives in Lisbon."), correction(1, 0)]);
    let mut current = chat.current("what is it?");
    current.images = vec![image(1).0];
    let failed = sealed(compose(&chat, &current, true), &current.images);
    let parts = [FinalPart::text("no JSON")];
    let rejection = judge(&Contract::observation(), Mode::StrictJson, &parts, Stop::End).unwrap_err();
    let stamp = crate::payload::output::tests::stamp();
    let asked = RepairRequested { stamp, snapshot: failed.sha256(), rejection: *rejection };
    let event = chat.turns[0].0.id;
    let event = Event { id: event, ..self::event(1, &memory(1, "x")) };
    let told = Instructions {
        prompt: "p",
        capabilities: &capabilities(),
        answer: "",
        max_events: 1,
        max_chars: 20_000,
    };
    let repaired = repair(&failed, &event, &asked, &told).unwrap();
    let calls = &chat.turns[1].1[0].completion.as_ref().unwrap().proposals;
    let expected: Vec<_> = calls.iter().map(|id| (*id, Rule::NotText)).collect();
    assert_eq!(unshown(&repaired), expected);
    let manifest = repaired.manifest();
    assert!(manifest.omitted.iter().any(|o| o.part == What::Image && o.id == current.images[0].path));
    assert!(!manifest.included.iter().any(|one| one.part == What::Image || one.part == What::ToolCall));
    // Whose words are shown is named by its exact id, as before.
    let has = |id: &str| manifest.included.iter().any(|one| one.id == id);
    assert!(has(&message_id(0).to_string()) && has(&output_id(1).to_string()) && has(&event.id.to_string()));
    assert_eq!((manifest.max_events, manifest.max_chars), (1, 20_000));
    // What was left out of the failed run's context is left out of this one.
    let short = conversation_of(&chat, 1_000);
    let before = short.manifest().omitted.clone();
    assert!(!before.is_empty());
    let failed = sealed(short, &[]);
    let asked = RepairRequested { snapshot: failed.sha256(), ..asked };
    let repaired = repair(&failed, &event, &asked, &told).unwrap();
    assert!(before.iter().all(|one| repaired.manifest().omitted.contains(one)));
}

fn conversation_of(chat: &Chat, max_chars: usize) -> Composed {
    within(chat, "?", &policy(2, max_chars)).unwrap()
}

#[test]
fn without_a_receipt_no_call_is_shown_whatever_the_text_claims() {
    let mut claims = Chat::of(2);
    claims.turns[1].1[0].text = Content::new("I saved that as a memory suggestion.".to_owned());
    assert_eq!(calls(&shown(&claims)), []);
    // The event is in the log, and the completed run does not name it.
    let mut unnamed = chat(&[memory(1, "Lives in Lisbon.")]);
    unnamed.turns[1].1[0].completion.as_mut().unwrap().proposals.clear();
    assert_eq!(calls(&shown(&unnamed)), []);
}

#[test]
fn what_the_receipt_names_and_the_log_does_not_show_is_not_made_up() {
    let both = [memory(1, "Lives in Lisbon."), correction(1, 0)];
    let named = |chat: &Chat| chat.turns[1].1[0].completion.clone().unwrap().proposals;
    let nothing = |chat: &Chat| {
        let found = shown(chat);
        assert_eq!(calls(&found), []);
        let expected: Vec<_> = named(chat).into_iter().map(|id| (id, Rule::NoReceipt)).collect();
        assert_eq!(unshown(&found), expected);
    };
    let mut missing = chat(&both);
    missing.turns[1].1[0].completion.as_mut().unwrap().proposed.pop();
    nothing(&missing);
    let mut redacted = chat(&both);
    redacted.turns[1].1[0].completion.as_mut().unwrap().proposed[0].payload = crate::event::Payload::Redacted;
    nothing(&redacted);
    // Events of another run, of another output, or hung on something else.
    for strange in [memory(0, "x"), correction(0, 1)] {
        nothing(&chat(&[strange]));
    }
    let mut moved = chat(&both);
    moved.turns[1].1[0].completion.as_mut().unwrap().proposed[0].parents = vec![output_id(0)];
    nothing(&moved);
    let mut twice = chat(&both);
    twice.turns[1].1[0].completions = 2;
    nothing(&twice);
}

#[test]
fn calls_count_within_the_bounds_and_go_with_their_reply() {
    let long = "é".repeat(3_000);
    let chat = chat(&[memory(1, &long)]);
    let found = shown(&chat);
    assert_eq!(calls(&found), [], "2,000 characters have no room for it");
    let proposal = chat.turns[1].1[0].completion.clone().unwrap().proposals[0];
    assert_eq!(unshown(&found), [(proposal, Rule::CharBound)]);
    assert!(found.manifest().omitted.iter().any(|omitted| omitted.id == output_id(1).to_string()));
    let found = within(&chat, "?", &policy(8, 20_000)).unwrap();
    assert_eq!(calls(&found).len(), 1);
    let counted = found.manifest().included.iter().find(|included| included.part == What::ToolCall).unwrap();
    assert!(counted.chars > 3_000 && counted.id == proposal.to_string());
}
