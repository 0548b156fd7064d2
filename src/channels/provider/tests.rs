mod calls;
mod peer;
mod rehearsed;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::RunId;
use thoughtstream_domain::payload::trace::Step;
use thoughtstream_domain::provider::{
    AnswerPart, Certainty, Endpoint, Message, ProfileName, ResponseFormat, Role, StopReason, ThinkingLevel,
    Tool, Usage, WireState,
};

use self::peer::{Peer, Say, http as response};
use super::*;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";

/// Long enough for any test machine; no test waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);

fn profile(address: SocketAddr) -> Profile {
    let endpoint = Endpoint::parse(&format!("http://{address}/v1")).unwrap();
    let mut profile =
        Profile::new(ProfileName::parse("peer").unwrap(), endpoint, [String::from("m-1")].into());
    profile.response_bytes_max = 64 * 1024;
    profile.tool_models = profile.models.clone();
    profile
}

fn request(stream: bool) -> ModelRequest {
    ModelRequest {
        model: "m-1".to_owned(),
        messages: vec![Message::text(Role::User, "the person's words")],
        max_output_tokens: 100,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        tools: Vec::new(),
        stream,
    }
}

async fn ask_with(
    profile: Profile,
    request: &ModelRequest,
    within: Duration,
) -> (Result<Reply, AskError>, WireState) {
    let client = Client::new(Arc::new(profile)).unwrap();
    let wire = Wire::of(RunId::from_bytes([1; 20]));
    let key = SecretString::from("sk-test-AAAA1111BBBB2222");
    let reply = client.ask(request, Some(&key), &wire, Instant::now() + within).await;
    (reply, wire.state())
}

/// Asks a peer once and sees that it was asked no more than once.
async fn ask(peer: &Peer, stream: bool) -> Result<Reply, AskError> {
    let (reply, state) = ask_with(profile(peer.address), &request(stream), PATIENCE).await;
    assert_eq!((peer.connections(), peer.requests().len(), state), (1, 1, WireState::Sent));
    reply
}

fn choice(message: Value) -> Value {
    json!({ "index": 0, "message": message, "finish_reason": "stop" })
}

fn whole(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body = json!({
        "id": "x", "object": "chat.completion", "model": "m-1",
        "choices": [choice(json!({ "role": "assistant", "content": "hello" }))],
        "usage": { "prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15 },
    });
    change(&mut body);
    body.to_string().into_bytes()
}

fn piece(delta: Value, finish: Value) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    format!("data: {}\n\n", json!({ "model": "m-1", "choices": [choice] }))
}

fn text_of(answer: &Answer) -> Vec<&str> {
    answer.texts().map(|text| text.reveal().as_str()).collect()
}

#[tokio::test]
async fn an_answer_in_one_piece_is_read_and_nothing_of_it_is_kept_in_the_trace() {
    let body = whole(|body| {
        body["model"] = json!("m-1-2026-01-31");
        body["choices"][0]["message"]["reasoning_content"] = json!("let me see");
    });
    let peer = Peer::answering("200 OK", JSON, &body).await;
    let reply = ask(&peer, false).await.unwrap();
    assert_eq!(text_of(&reply.answer), ["hello"]);
    let sha256 = Sha256Hash::of(b"let me see");
    assert_eq!(reply.answer.parts[0], AnswerPart::Thinking { bytes: 10, sha256 });
    assert_eq!(reply.answer.usage, Usage { input: Some(12), output: Some(3), cost_microusd: None });
    assert_eq!((reply.answer.stop, reply.answer.model.as_str()), (StopReason::Stop, "m-1-2026-01-31"));
    let kept = serde_json::to_string(&reply.trace).unwrap() + &format!("{reply:?}");
    for content in ["hello", "let me see", "person", "sk-test"] {
        assert!(!kept.contains(content), "{content}");
    }
    let steps: Vec<Step> = reply.trace.iter().map(|chunk| chunk.step).collect();
    assert_eq!(steps, [Step::Requested, Step::Answered]);
    let counts = reply.trace[1].counts.as_ref().unwrap();
    assert_eq!((counts.texts, counts.thinking, counts.bytes), (1, 1, 5));
}

#[tokio::test]
async fn what_is_sent_has_a_length_a_key_and_the_listed_members() {
    let peer = Peer::answering("200 OK", JSON, &whole(|_| ())).await;
    ask(&peer, false).await.unwrap();
    let requests = peer.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains("authorization: bearer sk-test-aaaa1111bbbb2222"));
    assert!(!head.contains("transfer-encoding") && !head.contains("accept-encoding"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    let expected = json!({
        "model": "m-1", "messages": [{ "role": "user", "content": "the person's words" }],
        "max_tokens": 100, "n": 1, "stream": false,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_stream_is_put_together_and_its_pieces_are_counted() {
    let mut body = String::from(": welcome\n\n");
    body += &piece(json!({ "role": "assistant", "content": "" }), Value::Null);
    body += &piece(json!({ "reasoning": "hm" }), Value::Null);
    body += &piece(json!({ "content": "grüß " }), Value::Null);
    body += &piece(json!({ "content": "dich" }), Value::Null).replace('\n', "\r\n");
    body += &piece(json!({}), json!("length"));
    let usage =
        json!({ "model": "m-1", "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 2 } });
    body += &format!("data: {usage}\n\ndata: [DONE]\n\n");
    let peer = Peer::answering("200 OK", EVENTS, body.as_bytes()).await;
    let reply = ask(&peer, true).await.unwrap();
    assert_eq!(text_of(&reply.answer), ["grüß dich"]);
    assert_eq!(reply.answer.stop, StopReason::Length);
    assert_eq!(reply.answer.usage, Usage { input: Some(9), output: Some(2), cost_microusd: None });
    let updates = reply.trace.iter().find(|chunk| chunk.step == Step::UpdatesCoalesced).unwrap();
    assert_eq!(updates.count, Some(5));
}

#[tokio::test]
async fn bytes_that_are_cut_anywhere_give_the_same_answer() {
    let body = piece(json!({ "content": "é😀" }), json!("stop")) + "data: [DONE]\n\n";
    let asked = request(true);
    let rules = gathered::Rules {
        request: &asked,
        body_bytes: 100,
        response_bytes_max: 1 << 16,
        reports_cost: false,
    };
    for cut in 0..body.len() {
        let mut pieces = pieces::Pieces::new(rules);
        let (one, two) = body.as_bytes().split_at(cut);
        assert!(!pieces.take(one).unwrap() && pieces.take(two).unwrap());
        assert_eq!(text_of(&pieces.end().unwrap().0), ["é😀"], "cut at {cut}");
    }
}

#[tokio::test]
async fn a_tool_that_was_offered_may_be_called_whole_or_in_pieces() {
    let mut asked = request(true);
    asked.tools = vec![Tool { name: "note".to_owned(), description: String::new(), parameters: json!({}) }];
    let call = |index: u64, id: Value, name: Value, arguments: &str| {
        json!({ "tool_calls": [{ "index": index, "id": id, "type": "function",
            "function": { "name": name, "arguments": arguments } }] })
    };
    let mut body = piece(call(0, json!("c1"), json!("note"), "{\"a\""), Value::Null);
    body += &piece(call(0, Value::Null, Value::Null, ":1}"), Value::Null);
    body += &piece(call(1, json!("c2"), json!("note"), "{}"), Value::Null);
    body += &(piece(json!({}), json!("tool_calls")) + "data: [DONE]\n\n");
    let peer = Peer::answering("200 OK", EVENTS, body.as_bytes()).await;
    let (reply, _) = ask_with(profile(peer.address), &asked, PATIENCE).await;
    let part = |id: &str, arguments: &str| AnswerPart::ToolCall {
        id: id.to_owned(),
        name: "note".to_owned(),
        arguments: Content::new(arguments.to_owned()),
    };
    assert_eq!(reply.unwrap().answer.parts, [part("c1", "{\"a\":1}"), part("c2", "{}")]);
}

#[tokio::test]
async fn what_is_no_answer_is_classified_and_asked_for_once() {
    use ProviderCode as Code;
    let message = |message: Value| whole(|body| body["choices"] = json!([choice(message)]));
    let call = json!([{ "id": "c", "type": "function", "function": { "name": "rm", "arguments": "{}" } }]);
    let ok = whole(|_| ());
    let cases: Vec<(&str, &str, Vec<u8>, Code)> = vec![
        ("garbage", JSON, b"<html>no</html>".to_vec(), Code::AnswerMalformed),
        ("nothing", JSON, Vec::new(), Code::AnswerMalformed),
        ("two values", JSON, [ok.clone(), ok.clone()].concat(), Code::AnswerMalformed),
        ("fences", JSON, [b"```json\n", &ok[..], b"\n```"].concat(), Code::AnswerMalformed),
        ("prose around", JSON, [b"Sure: ", &ok[..]].concat(), Code::AnswerMalformed),
        ("cut", JSON, ok[..ok.len() - 5].to_vec(), Code::AnswerMalformed),
        ("a list", JSON, b"[]".to_vec(), Code::AnswerMalformed),
        ("a member twice", JSON, br#"{"choices":[],"choices":[]}"#.to_vec(), Code::AnswerMalformed),
        ("deep", JSON, [b"[".repeat(100), b"]".repeat(100)].concat(), Code::AnswerMalformed),
        ("invalid UTF-8", JSON, b"{\"a\":\"\xff\"}".to_vec(), Code::AnswerNotUtf8),
        ("another type", "text/html", ok.clone(), Code::AnswerType),
        ("a stream nobody wanted", EVENTS, ok.clone(), Code::AnswerType),
        ("too long", JSON, vec![b' '; 70_000], Code::AnswerTooLarge),
        ("an error", JSON, whole(|body| body["error"] = json!({ "message": "x" })), Code::AnswerError),
        ("no choices", JSON, whole(|body| body["choices"] = json!([])), Code::AnswerChoices),
        ("choices missing", JSON, whole(|body| drop(body["choices"].take())), Code::AnswerMalformed),
        (
            "several choices",
            JSON,
            whole(|body| body["choices"] = json!([body["choices"][0], body["choices"][0]])),
            Code::AnswerChoices,
        ),
        ("another model", JSON, whole(|body| body["model"] = json!("m-2")), Code::AnswerModel),
        ("no model", JSON, whole(|body| body["model"] = json!(null)), Code::AnswerMalformed),
        ("message missing", JSON, whole(|body| body["choices"] = json!([{}])), Code::AnswerMalformed),
        ("content of another kind", JSON, message(json!({ "content": 7 })), Code::AnswerMalformed),
        ("another role", JSON, message(json!({ "role": "system", "content": "x" })), Code::AnswerMalformed),
        ("a tool call", JSON, message(json!({ "content": null, "tool_calls": call })), Code::AnswerTools),
        ("an old tool call", JSON, message(json!({ "function_call": { "name": "rm" } })), Code::AnswerTools),
        (
            "no end",
            JSON,
            whole(|body| body["choices"][0]["finish_reason"] = json!(null)),
            Code::AnswerMalformed,
        ),
        (
            "another end",
            JSON,
            whole(|body| body["choices"][0]["finish_reason"] = json!("x")),
            Code::AnswerStop,
        ),
    ];
    for (name, media, body, code) in cases {
        let peer = Peer::answering("200 OK", media, &body).await;
        let error = ask(&peer, false).await.unwrap_err();
        assert_eq!((error.code, error.certainty), (code, Certainty::Unusable), "{name}");
        let trace = error.traced(&request(false)).trace;
        assert_eq!((trace[0].step, trace[1].code.as_deref()), (Step::Requested, Some(code.as_str())));
    }
}

#[tokio::test]
async fn a_stream_that_is_none_is_classified_and_asked_for_once() {
    use ProviderCode as Code;
    let hello = || piece(json!({ "content": "hello" }), Value::Null);
    let end = || piece(json!({}), json!("stop"));
    let done = "data: [DONE]\n\n";
    let choice = json!({ "index": 0, "delta": {}, "finish_reason": null });
    let cases: Vec<(&str, &str, String, Code)> = vec![
        ("one piece instead", JSON, String::from_utf8(whole(|_| ())).unwrap(), Code::AnswerType),
        ("nothing", EVENTS, String::new(), Code::AnswerIncomplete),
        ("no last word", EVENTS, hello() + &end(), Code::AnswerIncomplete),
        ("cut", EVENTS, hello() + "data: {\"cho", Code::AnswerIncomplete),
        ("no reason", EVENTS, hello() + done, Code::AnswerMalformed),
        ("garbage", EVENTS, hello() + "data: no\n\n", Code::AnswerMalformed),
        ("two values", EVENTS, hello() + "data: {}{}\n\n", Code::AnswerMalformed),
        ("no event stream", EVENTS, "<html>\n\n".to_owned(), Code::AnswerMalformed),
        ("an error", EVENTS, hello() + "data: {\"error\":{}}\n\n", Code::AnswerError),
        ("an event of error", EVENTS, hello() + "event: error\ndata: {}\n\n", Code::AnswerError),
        ("said after the end", EVENTS, hello() + &end() + &hello(), Code::AnswerMalformed),
        (
            "several choices",
            EVENTS,
            format!("data: {}\n\n", json!({ "model": "m-1", "choices": [choice, choice] })),
            Code::AnswerChoices,
        ),
        ("another model", EVENTS, hello() + &hello().replace("m-1", "m-2"), Code::AnswerModel),
        (
            "a tool call",
            EVENTS,
            piece(
                json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "rm" } }] }),
                Value::Null,
            ) + &end()
                + done,
            Code::AnswerTools,
        ),
        (
            "a call out of order",
            EVENTS,
            piece(json!({ "tool_calls": [{ "index": 9, "id": "c" }] }), Value::Null),
            Code::AnswerMalformed,
        ),
        ("too long", EVENTS, ": x\n".repeat(20_000), Code::AnswerTooLarge),
    ];
    for (name, media, body, code) in cases {
        let peer = Peer::answering("200 OK", media, body.as_bytes()).await;
        let error = ask(&peer, true).await.unwrap_err();
        assert_eq!((error.code, error.certainty), (code, code.certainty()), "{name}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut_off_at_its_bound() {
    for (stream, media) in [(false, JSON), (true, EVENTS)] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nConnection: close\r\n\r\n");
        let peer = Peer::saying(Say::Drip(head.into_bytes(), vec![b':'; 8192])).await;
        assert_eq!(ask(&peer, stream).await.unwrap_err().code, ProviderCode::AnswerTooLarge);
        // One that announces its hundred megabytes is not read at all.
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: 104857600\r\n\r\n");
        let peer = Peer::saying(Say::Drip(head.into_bytes(), vec![b':'; 1])).await;
        assert_eq!(ask(&peer, stream).await.unwrap_err().code, ProviderCode::AnswerTooLarge);
    }
}

#[tokio::test]
async fn usage_counts_where_it_can_be_believed_and_is_never_zero() {
    let cases = [
        (json!(null), None, None),
        (json!("many"), None, None),
        (json!({}), None, None),
        (json!({ "prompt_tokens": 5 }), Some(5), None),
        (json!({ "prompt_tokens": 0, "completion_tokens": 0 }), None, None),
        (json!({ "prompt_tokens": -5, "completion_tokens": 4 }), None, Some(4)),
        (json!({ "prompt_tokens": "5", "completion_tokens": 4.5 }), None, None),
        (json!({ "prompt_tokens": 1_000_000, "completion_tokens": 9_999_999_999_u64 }), None, None),
        (json!({ "prompt_tokens": null, "completion_tokens": 2, "cost": 1.5 }), None, Some(2)),
    ];
    for (usage, input, output) in cases {
        let shown = usage.to_string();
        let peer = Peer::answering("200 OK", JSON, &whole(|body| body["usage"] = usage)).await;
        let reply = ask(&peer, false).await.unwrap();
        assert_eq!(reply.answer.usage, Usage { input, output, cost_microusd: None }, "{shown}");
    }
    let body = whole(|body| body["usage"] = json!({ "cost": 0.0123456789 }));
    let peer = Peer::answering("200 OK", JSON, &body).await;
    let profile = Profile { reports_cost: true, ..profile(peer.address) };
    let (reply, _) = ask_with(profile, &request(false), PATIENCE).await;
    assert_eq!(reply.unwrap().answer.usage.cost_microusd, Some(12346));
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_charged_all_the_same() {
    let peer = Peer::answering("200 OK", JSON, &whole(|body| body["model"] = json!("other"))).await;
    let error = ask(&peer, false).await.unwrap_err();
    assert_eq!((error.usage.input, error.usage.output), (Some(12), Some(3)));
}

#[tokio::test]
async fn a_status_becomes_a_code_and_its_body_is_not_read() {
    use ProviderCode as Code;
    for (status, code, certainty) in [
        ("400 Bad Request", Code::BadRequest, Certainty::Refused),
        ("401 Unauthorized", Code::Unauthorized, Certainty::Refused),
        ("402 Payment Required", Code::Billing, Certainty::Refused),
        ("404 Not Found", Code::NotFound, Certainty::Refused),
        ("418 Teapot", Code::Rejected, Certainty::Refused),
        ("500 Oops", Code::Unavailable, Certainty::Refused),
        ("504 Gateway Timeout", Code::GatewayLost, Certainty::Lost),
        ("204 No Content", Code::AnswerStatus, Certainty::Unusable),
    ] {
        // The body never comes: whoever waited for it would wait for ever.
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n");
        let peer = Peer::saying(Say::Drip(head.into_bytes(), Vec::new())).await;
        let error = ask(&peer, false).await.unwrap_err();
        assert_eq!((error.code, error.certainty), (code, certainty), "{status}");
    }
    let limited = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n".to_vec();
    let error = ask(&Peer::saying(Say::Bytes(limited)).await, false).await.unwrap_err();
    assert_eq!((error.code, error.retry_after_ms), (Code::RateLimited, Some(7000)));
}

#[tokio::test]
async fn nobody_follows_where_a_provider_points() {
    let elsewhere = Peer::answering("200 OK", JSON, &whole(|_| ())).await;
    for status in ["301 Moved", "307 Temporary", "308 Permanent"] {
        let address = elsewhere.address;
        let head = format!("HTTP/1.1 {status}\r\nLocation: http://{address}/v1\r\nContent-Length: 0\r\n\r\n");
        let peer = Peer::saying(Say::Bytes(head.into_bytes())).await;
        let error = ask(&peer, false).await.unwrap_err();
        assert_eq!((error.code, error.certainty), (ProviderCode::Redirected, Certainty::Refused));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_refused_connection_is_not_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (reply, state) = ask_with(profile(address), &request(false), PATIENCE).await;
    let error = reply.unwrap_err();
    assert_eq!((error.code, error.certainty), (ProviderCode::ConnectFailed, Certainty::NotSent));
    assert_eq!(state, WireState::Revoked);
}

#[tokio::test]
async fn a_connection_that_ends_before_the_answer_leaves_it_unknown_and_is_not_tried_again() {
    let ok = response("200 OK", JSON, &whole(|_| ()));
    let streamed = response("200 OK", EVENTS, piece(json!({ "content": "x" }), Value::Null).as_bytes());
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 7].to_vec();
    for (stream, say) in [
        (false, Say::Bytes(Vec::new())),
        (false, Say::Reset(Vec::new())),
        (false, Say::Bytes(b"HTTP/1.1 200".to_vec())),
        (false, Say::Bytes(b"SSH-2.0-x\r\n".to_vec())),
        (false, Say::Bytes(cut(&ok))),
        (false, Say::Reset(cut(&ok))),
        (true, Say::Bytes(cut(&streamed))),
        (true, Say::Reset(cut(&streamed))),
    ] {
        let error = ask(&Peer::saying(say).await, stream).await.unwrap_err();
        assert_eq!((error.code, error.certainty), (ProviderCode::ConnectionLost, Certainty::Lost));
    }
}

#[tokio::test]
async fn an_answer_that_drips_past_the_deadline_is_lost() {
    let within = Duration::from_millis(300);
    for (stream, media) in [(false, JSON), (true, EVENTS)] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nConnection: close\r\n\r\n");
        for say in [Say::Drip(head.into_bytes(), b"\n".to_vec()), Say::Silence] {
            let peer = Peer::saying(say).await;
            let (reply, state) = ask_with(profile(peer.address), &request(stream), within).await;
            let error = reply.unwrap_err();
            assert_eq!((error.code, error.certainty), (ProviderCode::DeadlinePassed, Certainty::Lost));
            assert_eq!((peer.connections(), state), (1, WireState::Sent));
        }
    }
}

#[tokio::test]
async fn a_deadline_that_passes_during_the_handshake_is_not_sent() {
    // It takes the connection and never answers the greeting; what it reads is no request.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut profile = profile(address);
    profile.endpoint = Endpoint::parse(&format!("https://{address}/v1")).unwrap();
    // The machine need not have root certificates for this.
    let client = Client::made(Arc::new(profile), http::builder().tls_certs_only([])).unwrap();
    let wire = Wire::of(RunId::from_bytes([1; 20]));
    let deadline = Instant::now() + Duration::from_millis(200);
    let error = client.ask(&request(false), None, &wire, deadline).await.unwrap_err();
    assert_eq!((error.code, error.certainty), (ProviderCode::DeadlineBefore, Certainty::NotSent));
}

#[tokio::test]
async fn what_the_profile_does_not_admit_is_not_sent() {
    let peer = Peer::saying(Say::Silence).await;
    let json = ModelRequest { response: ResponseFormat::JsonObject, ..request(false) };
    let tool = Tool { name: "note".to_owned(), description: String::new(), parameters: json!({}) };
    let tools = ModelRequest { tools: vec![tool], ..request(false) };
    let model = ModelRequest { model: "m-2".to_owned(), ..request(false) };
    let empty = ModelRequest { messages: Vec::new(), ..request(false) };
    let long =
        ModelRequest { messages: vec![Message::text(Role::User, "x".repeat(9 << 20))], ..request(false) };
    for (asked, code) in [
        (json, ProviderCode::FormatNotClaimed),
        (tools, ProviderCode::ToolsNotAllowed),
        (model, ProviderCode::ModelNotAllowed),
        (empty, ProviderCode::RequestInvalid),
        (long, ProviderCode::RequestTooLarge),
    ] {
        let profile = Profile { tool_models: [].into(), ..profile(peer.address) };
        let (reply, _) = ask_with(profile, &asked, PATIENCE).await;
        let error = reply.unwrap_err();
        assert_eq!((error.code, error.certainty), (code, Certainty::NotSent));
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn a_request_that_was_given_up_does_not_leave() {
    let peer = Peer::answering("200 OK", JSON, &whole(|_| ())).await;
    let client = Client::new(Arc::new(profile(peer.address))).unwrap();
    let wire = Wire::of(RunId::from_bytes([1; 20]));
    assert!(wire.revoke());
    let error = client.ask(&request(false), None, &wire, Instant::now() + PATIENCE).await.unwrap_err();
    assert_eq!(error.certainty, Certainty::NotSent);
    assert_eq!(peer.requests().len(), 0);
}

#[tokio::test]
async fn every_request_has_a_connection_of_its_own() {
    let ok = response("200 OK", JSON, &whole(|_| ()));
    let peer = Peer::saying(Say::Bytes(ok)).await;
    let client = Client::new(Arc::new(profile(peer.address))).unwrap();
    for _ in 0..3 {
        client
            .ask(&request(false), None, &Wire::of(RunId::from_bytes([1; 20])), Instant::now() + PATIENCE)
            .await
            .unwrap();
    }
    assert_eq!((peer.connections(), peer.requests().len()), (3, 3));
}
