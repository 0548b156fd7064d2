//! Calls of earlier turns come from proposals that exist, and from nothing that was said.

use super::binding::proposed;
use super::*;
use crate::proposal::history::{PastCall, RESULT, messages};
use crate::provider::{Message, ModelRequest, Part, ResponseFormat, Role, ThinkingLevel};

fn past(kind: Kind, number: u8) -> PastCall {
    PastCall::of(event(number), &proposed(kind))
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "small".to_owned(),
        messages,
        max_output_tokens: 10,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        tools: Vec::new(),
        stream: false,
    }
}

#[test]
fn a_call_is_rebuilt_in_its_canonical_form_with_its_resolved_target() {
    let mut by_id = correction();
    by_id["target_output"] = json!(event(20));
    for (kind, expected) in
        [(Kind::MemoryChange, memory()), (Kind::SelfCorrection, by_id), (Kind::FocusDeclaration, focus())]
    {
        let written = messages(&[past(kind, 60)]);
        let [Part::ToolCall { name, arguments, .. }] = &written[0].parts[..] else { panic!() };
        assert_eq!(name, kind.tool());
        assert_eq!(serde_json::from_str::<Value>(arguments.reveal()).unwrap(), expected);
        assert!(!arguments.reveal().contains("latest"));
        let canonical = crate::canonical::write(&expected).unwrap();
        assert_eq!(arguments.reveal().as_bytes(), canonical);
        assert!(read(kind, &serde_json::from_str(arguments.reveal()).unwrap()).is_ok());
    }
}

#[test]
fn calls_come_first_then_one_result_each_then_what_was_said() {
    let calls = [past(Kind::MemoryChange, 60), past(Kind::SelfCorrection, 61)];
    let mut all = vec![Message::text(Role::User, "Remember that.")];
    all.extend(messages(&calls));
    all.push(Message::text(Role::Assistant, "I saved those as memory and correction suggestions."));
    all.push(Message::text(Role::User, "Thanks."));
    let roles: Vec<Role> = all.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::Assistant, Role::User]);
    assert!(request(all).canonical().is_ok(), "a provider takes it");
}

#[test]
fn a_result_says_that_a_proposal_was_saved_and_that_nothing_was_applied() {
    for word in ["captured", "durable", "inert", "pending"] {
        assert!(RESULT.contains(word), "{word}");
    }
    let written = messages(&[past(Kind::MemoryChange, 60)]);
    let [Part::ToolResult { text, .. }] = &written[1].parts[..] else { panic!() };
    assert_eq!(text.reveal(), RESULT);
}

#[test]
fn the_id_of_a_call_is_its_proposals_and_always_the_same() {
    let id = |call: &PastCall| {
        let written = messages(std::slice::from_ref(call));
        let [Part::ToolCall { id, .. }] = &written[0].parts[..] else { panic!() };
        id.clone()
    };
    let one = id(&past(Kind::MemoryChange, 60));
    assert_eq!(one, id(&past(Kind::SelfCorrection, 60)));
    assert_ne!(one, id(&past(Kind::MemoryChange, 61)));
    assert_eq!(one, "call_lmlhsmxr52xh2uejssmblg56");
    assert!(one.len() <= 40, "what the strictest providers take");
}

#[test]
fn no_proposal_makes_no_call() {
    assert_eq!(messages(&[]), []);
}

#[test]
fn what_a_model_sees_of_a_call_is_counted_and_not_printed() {
    let call = past(Kind::MemoryChange, 60);
    let arguments = crate::canonical::write(&memory()).unwrap().len();
    assert_eq!(call.characters(), Kind::MemoryChange.tool().len() + arguments + RESULT.len());
    assert!(!format!("{call:?}").contains("Lisbon"));
}
