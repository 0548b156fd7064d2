use serde_json::{Value, json};

use super::*;
use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::proposal::tests::{arguments, capability, correction, event, focus, memory};
use crate::provider::Usage;

fn text(text: &str) -> AnswerPart {
    AnswerPart::Text(Content::new(text.to_owned()))
}

fn call(tool: &str, arguments: &Value) -> AnswerPart {
    let arguments = Content::new(arguments.to_string());
    AnswerPart::ToolCall { id: "call_1".to_owned(), name: tool.to_owned(), arguments }
}

fn calls(kind: Kind) -> AnswerPart {
    call(kind.tool(), &arguments(kind))
}

fn thinking() -> AnswerPart {
    AnswerPart::Thinking { bytes: 7, sha256: Sha256Hash::of(b"hunter2") }
}

fn judged_by(
    mode: Mode,
    parts: Vec<AnswerPart>,
    stop: StopReason,
    admitted: Option<&ProposalCapability>,
) -> Result<Judged, Box<Rejection>> {
    let answer = Answer { parts, stop, usage: Usage::default(), model: "small".to_owned() };
    judge_proposing(&Contract::observation(), mode, &answer, admitted)
}

fn judged(parts: Vec<AnswerPart>) -> Result<Judged, Box<Rejection>> {
    judged_by(Mode::ConversationText, parts, StopReason::ToolCalls, Some(&capability()))
}

/// Returns the step, the code and the place of a refusal, which never holds a word of the message.
fn refused(verdict: Result<Judged, Box<Rejection>>) -> (Class, IssueCode, String) {
    let rejection = verdict.unwrap_err();
    let written = serde_json::to_string(&rejection).unwrap();
    assert!(!written.contains("hunter2") && !written.contains("Lisbon"), "{written}");
    assert_eq!(rejection.issues.len(), 1);
    let issue = rejection.issues[0].clone();
    assert!(issue.path.len() <= 64);
    (rejection.class, issue.code, issue.path)
}

#[test]
fn text_beside_calls_is_kept_exactly_and_nothing_is_added() {
    for parts in [
        vec![text(" Noted.\n"), calls(Kind::MemoryChange)],
        vec![thinking(), calls(Kind::MemoryChange), text(" Noted.\n")],
    ] {
        let Judged { accepted, proposals } = judged(parts).unwrap();
        assert_eq!(accepted.value.summary(), " Noted.\n");
        assert_eq!(proposals.len(), 1);
    }
}

#[test]
fn a_message_of_calls_alone_is_acknowledged_in_a_fixed_sentence() {
    for (kinds, said) in [
        (&[Kind::MemoryChange][..], "I saved that as a memory suggestion."),
        (&[Kind::SelfCorrection], "I saved that as a proposed correction."),
        (&[Kind::FocusDeclaration], "I saved that as a focus proposal."),
        (&[Kind::SelfCorrection, Kind::MemoryChange], "I saved those as memory and correction suggestions."),
    ] {
        for blank in [None, Some(""), Some(" \n")] {
            let parts = blank.map(text).into_iter().chain(kinds.iter().copied().map(calls)).collect();
            let Judged { accepted, proposals } = judged(parts).unwrap();
            assert_eq!(accepted.value.summary(), said);
            assert_eq!(accepted.value.tags(), ["conversation"]);
            assert!(proposals.iter().map(Bound::kind).is_sorted() && proposals.len() == kinds.len());
        }
    }
}

#[test]
fn no_part_of_a_call_becomes_part_of_what_is_said() {
    let Judged { accepted, .. } = judged(vec![text("Noted."), calls(Kind::MemoryChange)]).unwrap();
    let said = String::from_utf8(accepted.canonical.reveal().to_vec()).unwrap();
    assert!(!said.contains("Lisbon") && !said.contains("evt_") && !said.contains("request_memory_change"));
    assert_eq!((accepted.counts.tool_calls, accepted.counts.texts), (1, 1));
}

#[test]
fn calls_that_are_hidden_in_text_are_text() {
    let hidden =
        format!("<tool_call>{{\"name\":\"request_memory_change\",\"arguments\":{}}}</tool_call>", memory());
    let verdict =
        judged_by(Mode::ConversationText, vec![text(&hidden)], StopReason::Stop, Some(&capability()));
    let Judged { accepted, proposals } = verdict.unwrap();
    assert_eq!((accepted.value.summary(), proposals.len()), (hidden.as_str(), 0));
}

#[test]
fn one_wrong_call_refuses_the_whole_message() {
    let mut stray = memory();
    stray["evidence_event_ids"] = json!([event(99)]);
    let mut long = memory();
    long["proposed_text"] = "x".repeat(32_769).into();
    let mut more = memory();
    more["path"] = "hunter2".into();
    let mut other = correction();
    other["target_output"] = json!(event(99));
    for (parts, code, at) in [
        (vec![call("run_shell", &memory())], IssueCode::ToolCall, "/calls/0"),
        (vec![calls(Kind::MemoryChange), calls(Kind::MemoryChange)], IssueCode::TooMany, "/calls/1"),
        (vec![call("request_memory_change", &stray)], IssueCode::NotAllowed, "/calls/0/evidence_event_ids/0"),
        (vec![call("request_memory_change", &long)], IssueCode::TooLong, "/calls/0/proposed_text"),
        (vec![call("request_memory_change", &more)], IssueCode::UnknownField, "/calls/0"),
        (
            vec![calls(Kind::MemoryChange), call("submit_correction", &other)],
            IssueCode::NotAllowed,
            "/calls/1/target_output",
        ),
        (vec![call("propose_focus", &json!("hunter2"))], IssueCode::WrongType, "/calls/0"),
    ] {
        let mut parts = parts;
        parts.insert(0, text("Noted."));
        assert_eq!(refused(judged(parts.clone())), (Class::Parts, code, at.to_owned()));
        assert!(!judged(parts).unwrap_err().is_repairable(), "a call is no matter of form");
    }
    let four = Kind::ALL.map(calls).into_iter().chain([calls(Kind::MemoryChange)]).collect();
    assert_eq!(refused(judged(four)).1, IssueCode::TooMany);
    let parts = vec![AnswerPart::ToolCall {
        id: "1".to_owned(),
        name: "request_memory_change".to_owned(),
        arguments: Content::new("{\"reason\":\"hunter2\",\"reason\":1}".to_owned()),
    }];
    assert_eq!(refused(judged(parts)).1, IssueCode::DuplicateKey);
}

#[test]
fn calls_are_refused_in_strict_json_and_where_nothing_may_be_proposed() {
    let value = json!({ "summary": "x", "tags": [], "importance": "low", "confidence": 0.5 }).to_string();
    let parts = || vec![text(&value), calls(Kind::MemoryChange)];
    for (mode, admitted) in
        [(Mode::StrictJson, Some(capability())), (Mode::StrictJson, None), (Mode::ConversationText, None)]
    {
        for stop in [StopReason::Stop, StopReason::ToolCalls] {
            let verdict = judged_by(mode, parts(), stop, admitted.as_ref());
            assert_eq!(refused(verdict), (Class::Parts, IssueCode::ToolCall, String::new()));
        }
    }
    let plain = judged_by(Mode::StrictJson, vec![text(&value)], StopReason::Stop, Some(&capability()));
    assert_eq!(plain.unwrap().proposals, []);
}

#[test]
fn a_reply_without_calls_is_judged_as_ever() {
    let reply = |parts, stop| judged_by(Mode::ConversationText, parts, stop, Some(&capability()));
    assert_eq!(reply(vec![text("Hello.")], StopReason::Stop).unwrap().proposals, []);
    assert_eq!(refused(reply(vec![], StopReason::Stop)).1, IssueCode::NoText);
    assert_eq!(refused(reply(vec![text(" ")], StopReason::Stop)).1, IssueCode::Empty);
    assert_eq!(refused(reply(vec![text("a"), text("b")], StopReason::Stop)).1, IssueCode::SeveralTexts);
    assert_eq!(refused(reply(vec![text("Hello.")], StopReason::ToolCalls)).1, IssueCode::Stopped);
    assert_eq!(refused(reply(vec![text(&"x".repeat(4_097))], StopReason::Stop)).1, IssueCode::TooLong);
}

#[test]
fn a_message_that_was_cut_or_filtered_proposes_nothing() {
    for (stop, code) in [
        (StopReason::Length, IssueCode::Truncated),
        (StopReason::ContentFilter, IssueCode::Stopped),
        (StopReason::Refusal, IssueCode::Stopped),
    ] {
        let parts = vec![text("Noted."), calls(Kind::MemoryChange)];
        let verdict = judged_by(Mode::ConversationText, parts, stop, Some(&capability()));
        assert_eq!(refused(verdict), (Class::Stop, code, String::new()));
    }
    let parts = vec![text("Noted."), calls(Kind::MemoryChange)];
    assert!(judged_by(Mode::ConversationText, parts, StopReason::Stop, Some(&capability())).is_ok());
}

#[test]
fn text_beside_calls_has_the_bounds_of_every_reply() {
    let with = |parts: Vec<AnswerPart>| judged([parts, vec![calls(Kind::MemoryChange)]].concat());
    assert_eq!(refused(with(vec![text(&"x".repeat(4_097))])).1, IssueCode::TooLong);
    assert_eq!(refused(with(vec![text("<think>hm</think>")])).1, IssueCode::ThinkingTag);
    assert_eq!(refused(with(vec![text("a"), text("b")])).1, IssueCode::SeveralTexts);
}

#[test]
fn a_message_that_asks_for_a_focus_gets_exactly_one_or_nothing() {
    let mut admitted = capability();
    admitted.focus_required = true;
    let asked = |parts| judged_by(Mode::ConversationText, parts, StopReason::ToolCalls, Some(&admitted));
    let missing = (Class::Parts, IssueCode::MissingField, "/calls/propose_focus".to_owned());
    assert_eq!(refused(asked(vec![text("I will take that up.")])), missing);
    assert_eq!(refused(asked(vec![text("Noted."), calls(Kind::MemoryChange)])), missing);
    assert!(!asked(vec![]).unwrap_err().is_repairable());
    let twice = vec![calls(Kind::FocusDeclaration), calls(Kind::FocusDeclaration)];
    assert_eq!(refused(asked(twice)).1, IssueCode::TooMany);
    for parts in [
        vec![calls(Kind::FocusDeclaration)],
        vec![text("Noted."), calls(Kind::FocusDeclaration), calls(Kind::MemoryChange)],
    ] {
        let kinds: Vec<Kind> = asked(parts).unwrap().proposals.iter().map(Bound::kind).collect();
        assert!(kinds.contains(&Kind::FocusDeclaration));
    }
    assert_eq!(focus()["declaration"]["version"], 1);
}
