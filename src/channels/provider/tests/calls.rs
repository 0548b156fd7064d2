//! Calls of tools as providers write them, right and wrong, through the real client: whole, and in pieces.

use super::rehearsed::{Asked, asked};
use super::*;
use crate::rehearsal::{Answer as Scripted, CallId, Says, ToolCall};

/// Longer than any argument that is accepted, and still an answer.
const LONG: usize = 40_000;

fn offering(stream: bool) -> ModelRequest {
    let tool =
        |name: &str| Tool { name: name.to_owned(), description: "d".to_owned(), parameters: json!({}) };
    ModelRequest { tools: vec![tool("note"), tool("ask")], ..request(stream) }
}

fn calling(calls: Vec<ToolCall>) -> Scripted {
    Scripted::of(Says::Tools { text: None, calls })
}

fn named(name: &str, arguments: &str, id: CallId) -> ToolCall {
    ToolCall { id, ..ToolCall::new(name, arguments) }
}

fn part(id: &str, name: &str, arguments: &str) -> AnswerPart {
    let arguments = Content::new(arguments.to_owned());
    AnswerPart::ToolCall { id: id.to_owned(), name: name.to_owned(), arguments }
}

async fn both(answer: &Scripted) -> Vec<Asked> {
    let mut all = Vec::new();
    for stream in [false, true] {
        all.push(asked(answer.clone(), &offering(stream)).await);
    }
    all
}

#[tokio::test]
async fn calls_are_read_whole_in_pieces_and_in_turn_and_each_costs_one_request() {
    let calls = vec![ToolCall::new("note", "{\"a\":\"größer 😀\"}"), ToolCall::new("ask", "{}")];
    let expected = [part("call_1", "note", "{\"a\":\"größer 😀\"}"), part("call_2", "ask", "{}")];
    for (piece, in_turn) in [(1, false), (1, true), (3, true), (1000, false)] {
        let answer = Scripted { piece: Some(piece), in_turn, ..calling(calls.clone()) };
        for said in both(&answer).await {
            let reply = said.reply.unwrap();
            assert_eq!(
                (reply.answer.parts.as_slice(), reply.answer.stop),
                (&expected[..], StopReason::ToolCalls)
            );
            assert_eq!(said.requests, 1, "a call is no reason to ask again");
        }
    }
}

#[tokio::test]
async fn text_before_the_calls_stays_text() {
    let text = Some(Content::new("I will note it.".to_owned()));
    let answer = Scripted::of(Says::Tools { text, calls: vec![ToolCall::new("note", "{}")] });
    for said in both(&answer).await {
        let answer = said.reply.unwrap().answer;
        let text = AnswerPart::Text(Content::new("I will note it.".to_owned()));
        assert_eq!(answer.parts, [text, part("call_1", "note", "{}")]);
    }
    // What only looks like a call is text.
    let hidden = "<tool_call>{\"name\":\"note\",\"arguments\":{}}</tool_call>";
    for said in both(&Scripted::text(hidden)).await {
        assert_eq!(said.reply.unwrap().answer.parts, [AnswerPart::Text(Content::new(hidden.to_owned()))]);
    }
}

#[tokio::test]
async fn arguments_stay_the_text_that_they_are_whatever_it_is() {
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(LONG));
    for arguments in ["not json", "", "{\"a\":1,\"a\":2}", "{\"a\":", "[]", "\u{202e}\u{0}", &long] {
        for said in
            both(&Scripted { piece: Some(4096), ..calling(vec![ToolCall::new("note", arguments)]) }).await
        {
            assert_eq!(said.reply.unwrap().answer.parts, [part("call_1", "note", arguments)]);
        }
    }
}

#[tokio::test]
async fn nothing_of_a_call_is_kept_in_a_trace_or_printed() {
    let call = named("note", "{\"text\":\"a private sentence\"}", CallId::Given("secret-id".to_owned()));
    for said in both(&calling(vec![call])).await {
        let reply = said.reply.unwrap();
        let kept = serde_json::to_string(&reply.trace).unwrap() + &format!("{:?}", reply.answer.parts);
        assert!(
            !kept.contains("private") && !serde_json::to_string(&reply.trace).unwrap().contains("secret")
        );
        let answered = reply.trace.iter().find(|chunk| chunk.step == Step::Answered).unwrap();
        assert_eq!(answered.counts.as_ref().unwrap().tool_calls, 1);
    }
    let call = named("unknown", "a private sentence", CallId::Given("secret-id".to_owned()));
    for said in both(&calling(vec![call])).await {
        let error = said.reply.unwrap_err();
        let kept = format!("{error:?} {error} {}", serde_json::to_string(&error.trace).unwrap());
        assert!(!kept.contains("private") && !kept.contains("secret") && !kept.contains("unknown"), "{kept}");
    }
}

#[tokio::test]
async fn wrong_calls_are_classified_and_asked_for_once() {
    use ProviderCode as Code;
    let good = || ToolCall::new("note", "{}");
    let given = |id: &str| named("note", "{}", CallId::Given(id.to_owned()));
    let cases: Vec<(&str, Vec<ToolCall>, Code)> = vec![
        ("unknown", vec![ToolCall::new("rm", "{}")], Code::AnswerTools),
        ("one of them unknown", vec![good(), ToolCall::new("rm", "{}")], Code::AnswerTools),
        ("another spelling", vec![ToolCall::new("Note", "{}")], Code::AnswerTools),
        ("no name", vec![ToolCall::new("", "{}")], Code::AnswerTools),
        ("no id", vec![named("note", "{}", CallId::Missing)], Code::AnswerMalformed),
        ("an empty id", vec![given("")], Code::AnswerMalformed),
        ("an id with a space", vec![given("a b")], Code::AnswerMalformed),
        ("an id that is long", vec![given(&"i".repeat(257))], Code::AnswerMalformed),
        ("an id twice", vec![given("same"), given("same")], Code::AnswerMalformed),
        ("too many", (0..65).map(|_| good()).collect(), Code::AnswerMalformed),
        ("too long", vec![ToolCall::new("note", &"x".repeat(70_000))], Code::AnswerTooLarge),
    ];
    for (name, calls, code) in cases {
        for said in both(&calling(calls.clone())).await {
            let error = said.reply.unwrap_err();
            assert_eq!(
                (error.code, error.certainty, said.requests),
                (code, Certainty::Unusable, 1),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn a_call_that_nobody_offered_is_refused_with_everything_else() {
    for stream in [false, true] {
        let text = Some(Content::new("Sure.".to_owned()));
        let answer = Scripted::of(Says::Tools { text, calls: vec![ToolCall::new("note", "{}")] });
        let said = asked(answer, &request(stream)).await;
        assert_eq!(said.reply.unwrap_err().code, ProviderCode::AnswerTools);
    }
}

#[tokio::test]
async fn pieces_that_belong_to_no_call_for_certain_are_refused() {
    // Servers there were that gave every call the number 0, or none.
    let twice = |index| {
        vec![ToolCall::new("note", "{}"), ToolCall { index: Some(index), ..ToolCall::new("ask", "{}") }]
    };
    for index in [0, 2, 64, u64::MAX] {
        let said = asked(calling(twice(index)), &offering(true)).await;
        assert_eq!(said.reply.unwrap_err().code, ProviderCode::AnswerMalformed, "{index}");
    }
    let call = |call: Value| piece(json!({ "tool_calls": [call] }), Value::Null);
    let begun = call(json!({ "index": 0, "id": "c", "function": { "name": "note", "arguments": "{" } }));
    let cases = [
        json!({ "id": "c", "function": { "arguments": "}" } }),
        json!({ "index": -1, "function": { "arguments": "}" } }),
        json!({ "index": "0", "function": { "arguments": "}" } }),
        json!({ "index": 0, "id": "d", "function": { "arguments": "}" } }),
        json!({ "index": 0, "id": 7, "function": { "arguments": "}" } }),
        json!({ "index": 0, "function": { "name": "ask", "arguments": "}" } }),
        json!({ "index": 0, "function": { "arguments": { "a": 1 } } }),
        json!({ "index": 0, "function": "note" }),
        json!({ "index": 0, "type": "custom", "function": { "arguments": "}" } }),
        json!("note"),
    ];
    let end = || piece(json!({}), json!("tool_calls")) + "data: [DONE]\n\n";
    for wrong in cases {
        let body = begun.clone() + &call(wrong.clone()) + &end();
        let peer = Peer::answering("200 OK", EVENTS, body.as_bytes()).await;
        let (reply, _) = ask_with(profile(peer.address), &offering(true), PATIENCE).await;
        assert_eq!(reply.unwrap_err().code, ProviderCode::AnswerMalformed, "{wrong}");
    }
    // One that repeats its id and its tool with each piece is understood.
    let again =
        json!({ "index": 0, "id": "c", "type": "", "function": { "name": "note", "arguments": "}" } });
    let peer = Peer::answering("200 OK", EVENTS, (begun + &call(again) + &end()).as_bytes()).await;
    let (reply, _) = ask_with(profile(peer.address), &offering(true), PATIENCE).await;
    assert_eq!(reply.unwrap().answer.parts, [part("c", "note", "{}")]);
}

#[tokio::test]
async fn a_whole_call_that_lacks_something_is_refused() {
    for wrong in [
        json!({ "id": "c", "type": "function" }),
        json!({ "id": "c", "function": { "name": "note" } }),
        json!({ "id": "c", "function": { "arguments": "{}" } }),
        json!({ "id": "c", "function": { "name": "note", "arguments": {} } }),
        json!({ "id": "c", "function": { "name": "note", "arguments": null } }),
        json!({ "id": 7, "function": { "name": "note", "arguments": "{}" } }),
        json!({ "id": "c", "type": "custom", "function": { "name": "note", "arguments": "{}" } }),
        json!("note"),
    ] {
        let body = whole(|body| {
            body["choices"] = json!([choice(json!({ "content": null, "tool_calls": [wrong.clone()] }))]);
        });
        let peer = Peer::answering("200 OK", JSON, &body).await;
        let (reply, _) = ask_with(profile(peer.address), &offering(false), PATIENCE).await;
        assert_eq!(reply.unwrap_err().code, ProviderCode::AnswerMalformed, "{wrong}");
    }
}
