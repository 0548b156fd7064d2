//! The scripted provider: which rule answers, and every way in which an answer can go wrong, byte by byte.

use serde_json::json;
use thoughtstream_domain::content::Content;
use tokio::io::AsyncReadExt as _;

use super::super::{
    Answer, Cut, CutAt, CutHow, Drip, Manner, ProviderScript, Rehearsal, Rule, Says, Script, ToolCall, Usage,
    When,
};
use super::client::{chat, completions, exchange, open, read_all, request};

async fn answering(answer: Answer) -> Rehearsal {
    Rehearsal::start(Script::answering(answer)).await.unwrap()
}

fn cut(at: CutAt, how: CutHow) -> Manner {
    Manner { cut: Some(Cut { at, how }), ..Manner::default() }
}

#[tokio::test]
async fn without_a_rule_it_repeats_what_was_said_and_counts_the_tokens() {
    let rehearsal = Rehearsal::start(Script::default()).await.unwrap();
    let got = exchange(&rehearsal, &chat("hello there")).await;
    assert_eq!(got.status(), 200);
    assert_eq!(
        got.json(),
        json!({
            "id": "chatcmpl-rehearsal-1", "object": "chat.completion", "created": 0, "model": "small",
            "choices": [{
                "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": "hello there" },
            }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 },
        })
    );
    let counters = rehearsal.counters().provider;
    assert_eq!((counters.requests, counters.answered, counters.left), (1, 1, 0));
    assert_eq!(counters.rules["otherwise"], 1);
    let requests = rehearsal.provider_requests();
    assert_eq!((requests[0].model.as_deref(), requests[0].stream), (Some("small"), false));
    assert_eq!(requests[0].json()["messages"][1]["content"], "hello there");
    assert_eq!(counters.bodies[&requests[0].hash.to_string()], 1);
}

#[tokio::test]
async fn the_first_rule_that_matches_answers_and_only_as_often_as_it_may() {
    let mut script = Script::default()
        .with_rule(Rule {
            name: "second".to_owned(),
            when: When { nth: Some(2), ..When::default() },
            answer: Answer::text("two"),
        })
        .with_rule(Rule {
            name: "once".to_owned(),
            when: When { times: Some(1), ..When::default() },
            answer: Answer::text("once"),
        })
        .with_rule(Rule::when_contains("tea", "tea", Answer::text("milk?")));
    script.provider.rules.push(Rule {
        name: "other".to_owned(),
        when: When {
            model: Some("large".to_owned()),
            has: Some("tools".to_owned()),
            offers: Some("note".to_owned()),
            system: Some(Content::new("brief".to_owned())),
            ..When::default()
        },
        answer: Answer::text("large"),
    });
    let rehearsal = Rehearsal::start(script).await.unwrap();
    let mut said = Vec::new();
    let note = json!({ "type": "function", "function": { "name": "note" } });
    let large = json!({ "model": "large", "tools": [note], "messages": [
        { "role": "developer", "content": "be brief" }, { "role": "user", "content": "x" } ] });
    for sent in [chat("a"), chat("b"), chat("tea?"), completions(&large), chat("echo")] {
        let got = exchange(&rehearsal, &sent).await.json();
        said.push(got["choices"][0]["message"]["content"].as_str().unwrap().to_owned());
    }
    assert_eq!(said, ["once", "two", "milk?", "large", "echo"]);
    rehearsal.add_rule(Rule::new("live", Answer::text("now")));
    let got = exchange(&rehearsal, &chat("tea?")).await.json();
    assert_eq!(got["choices"][0]["message"]["content"], "now");
    assert_eq!(rehearsal.counters().provider.rules["live"], 1);
}

#[tokio::test]
async fn the_key_and_the_model_are_checked_before_any_rule() {
    let script = ProviderScript {
        token: Some(Content::new("k1".to_owned())),
        models: vec!["small".to_owned()],
        ..ProviderScript::default()
    };
    let rehearsal = Rehearsal::start(Script { provider: script, ..Script::default() }).await.unwrap();
    let with = |headers: &str, body: &str| request("POST", "/v1/chat/completions", headers, body);
    let good = json!({ "model": "small", "messages": [] }).to_string();
    let other = json!({ "model": "huge", "messages": [] }).to_string();
    let key = "authorization: Bearer k1\r\n";
    for (sent, status, code) in [
        (with("", &good), 401, "invalid_api_key"),
        (with("authorization: Bearer k2\r\n", &good), 401, "invalid_api_key"),
        (with(key, &other), 404, "model_not_found"),
        (with(key, "{"), 400, "invalid_request_error"),
    ] {
        let got = exchange(&rehearsal, &sent).await;
        assert_eq!((got.status(), got.json()["error"]["code"].as_str()), (status, Some(code)));
    }
    assert_eq!(exchange(&rehearsal, &with(key, &good)).await.status(), 200);
    assert_eq!(rehearsal.counters().provider.requests, 5);
    let models = exchange(&rehearsal, &request("GET", "/v1/models", "", "")).await.json();
    assert_eq!(models["data"][0]["id"], "small");
}

#[tokio::test]
async fn a_stream_comes_in_pieces_and_ends_with_what_it_cost() {
    let answer = Answer { piece: Some(4), ..Answer::text("abcdefgh-ij") };
    let rehearsal = answering(answer).await;
    let asked = json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi" }] }] });
    let got = exchange(&rehearsal, &completions(&asked)).await;
    assert!(got.head().contains("text/event-stream") && got.head().contains("chunked"));
    let body = String::from_utf8(got.raw_body().to_vec()).unwrap();
    let frames: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let frame = |at: usize| serde_json::from_str::<serde_json::Value>(frames[at]).unwrap();
    let text: String = (0..5)
        .filter_map(|at| frame(at)["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!((frames.len(), text.as_str()), (7, "abcdefgh-ij"));
    assert_eq!(frame(4)["choices"][0]["finish_reason"], "stop");
    assert_eq!(frame(5)["usage"]["completion_tokens"], 3);
    assert_eq!(frames[6], "[DONE]");
    assert!(got.raw_body().ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn tools_are_called_whole_and_in_pieces() {
    let calls = vec![ToolCall::new("remember", "{\"text\":\"tea\"}"), ToolCall::new("forget", "not json")];
    let rehearsal = answering(Answer::of(Says::Tools { text: None, calls })).await;
    let whole = exchange(&rehearsal, &chat("x")).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], serde_json::Value::Null);
    assert_eq!(choice["message"]["tool_calls"][1]["function"]["arguments"], "not json");
    let asked = json!({ "model": "m", "stream": true, "messages": [] });
    let body = exchange(&rehearsal, &completions(&asked)).await;
    let body = String::from_utf8(body.raw_body().to_vec()).unwrap();
    let mut arguments = [String::new(), String::new()];
    for line in body.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let frame: serde_json::Value = serde_json::from_str(&format!("{{{line}")).unwrap();
        let Some(call) = frame["choices"][0]["delta"]["tool_calls"].get(0) else { continue };
        let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
        arguments[index].push_str(call["function"]["arguments"].as_str().unwrap());
    }
    assert_eq!(arguments, ["{\"text\":\"tea\"}", "not json"]);
}

#[tokio::test]
async fn what_it_cost_is_said_in_every_way_that_clients_met() {
    let rehearsal = Rehearsal::start(Script::default()).await.unwrap();
    let cases = [
        (Usage::Missing, None),
        (Usage::Null, Some(json!(null))),
        (
            Usage::Given { prompt: 5, completion: 6 },
            Some(json!({ "prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11 })),
        ),
        (Usage::PromptOnly, Some(json!({ "prompt_tokens": 4 }))),
        (Usage::Negative, Some(json!({ "prompt_tokens": -1, "completion_tokens": -1, "total_tokens": -2 }))),
        (Usage::Text, Some(json!({ "prompt_tokens": "4", "completion_tokens": "1", "total_tokens": "5" }))),
        (
            Usage::Absurd,
            Some(json!({
                "prompt_tokens": u64::MAX, "completion_tokens": 1_000_000_000_000_000_u64,
                "total_tokens": u64::MAX,
            })),
        ),
    ];
    for (at, (usage, shown)) in cases.into_iter().enumerate() {
        rehearsal.add_rule(Rule::new(&format!("r{at}"), Answer::text("x").with_usage(usage)));
        let got = exchange(&rehearsal, &chat("a")).await.json();
        assert_eq!(got.get("usage"), shown.as_ref());
    }
}

#[tokio::test]
async fn an_error_comes_in_the_words_of_the_api() {
    let says = Says::Error { status: 429, code: "rate_limit_exceeded".to_owned(), retry_after: Some(7) };
    let rehearsal = answering(Answer::of(says)).await;
    let got = exchange(&rehearsal, &chat("x")).await;
    assert_eq!((got.status(), got.json()["error"]["code"].as_str()), (429, Some("rate_limit_exceeded")));
    assert!(got.head().contains("retry-after: 7"));
}

#[tokio::test]
async fn a_connection_ends_where_the_script_says() {
    let whole = exchange(&answering(Answer::text("hello")).await, &chat("x")).await.raw_body().len();
    let body = |at: u64| CutAt::Body(at);
    for how in [CutHow::Close, CutHow::Reset] {
        let is_reset = how == CutHow::Reset;
        let nothing = answering(Answer::text("hello").in_manner(cut(CutAt::Request, how))).await;
        let mut stream = open(&nothing, &chat("x")).await;
        let got = read_all(&mut stream).await;
        assert_eq!((got.bytes.len(), got.reset), (0, is_reset));

        let head = answering(Answer::text("hello").in_manner(cut(CutAt::Head, how))).await;
        let mut stream = open(&head, &chat("x")).await;
        let got = read_all(&mut stream).await;
        assert!(got.bytes.ends_with(b"\r\n\r\n"));
        assert!(got.head().contains(&format!("content-length: {whole}")));
        assert_eq!(got.reset, is_reset);

        let middle = answering(Answer::text("hello").in_manner(cut(body(10), how))).await;
        let mut stream = open(&middle, &chat("x")).await;
        let got = read_all(&mut stream).await;
        assert_eq!((got.raw_body().len(), got.reset), (10, is_reset));
        let counters = middle.counters().provider;
        assert_eq!((counters.requests, counters.left), (1, 0), "it was brought as far as it was meant to be");
    }
}

#[tokio::test]
async fn a_stream_is_cut_inside_a_piece_that_was_promised_whole() {
    let answer = Answer::text("hello").in_manner(cut(CutAt::Body(20), CutHow::Close));
    let rehearsal = answering(answer).await;
    let asked = json!({ "model": "m", "stream": true, "messages": [] });
    let mut stream = open(&rehearsal, &completions(&asked)).await;
    let got = read_all(&mut stream).await;
    let (size, rest) = {
        let body = got.raw_body();
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        (std::str::from_utf8(&body[..end]).unwrap().to_owned(), body.len() - end - 2)
    };
    assert!(usize::from_str_radix(&size, 16).unwrap() > rest);
    assert_eq!(rest, 20);
}

#[tokio::test]
async fn a_body_trickles_to_its_end() {
    let manner = Manner { drip: Some(Drip { bytes: 100, every_ms: 1 }), ..Manner::default() };
    let got = exchange(&answering(Answer::text("hello").in_manner(manner)).await, &chat("x")).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "hello");
}

#[tokio::test]
async fn what_is_held_is_answered_when_its_gate_opens_or_never() {
    let manner = Manner { hold: Some("gate".to_owned()), delay_ms: 1, ..Manner::default() };
    let rehearsal = answering(Answer::text("hello").in_manner(manner)).await;
    let mut stays = open(&rehearsal, &chat("x")).await;
    let leaves = open(&rehearsal, &chat("y")).await;
    rehearsal.until_held("gate", 2).await;
    assert_eq!(rehearsal.counters().provider.answered, 0);
    drop(leaves);
    rehearsal.until(|counters| counters.provider.left == 1).await;
    rehearsal.release("gate");
    let mut first = [0; 15];
    stays.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    rehearsal.until(|counters| counters.provider.answered == 1).await;
}

#[tokio::test]
async fn bodies_are_what_the_script_says_however_odd() {
    let odd: [&[u8]; 4] = [b"not json", b"{\"a\":1}{\"b\":2}", b"{\"text\":\"\xff\xfe\"}", b""];
    for bytes in odd {
        let got = exchange(&answering(Answer::body(200, bytes)).await, &chat("x")).await;
        assert_eq!((got.status(), got.raw_body()), (200, bytes));
    }
    let redirect = Says::Body {
        status: 302,
        headers: vec![("location".to_owned(), "http://127.0.0.1:9/v1".to_owned())],
        bytes: Content::new(Vec::new()),
    };
    let got = exchange(&answering(Answer::of(redirect)).await, &chat("x")).await;
    assert_eq!(got.status(), 302);
    assert!(got.head().contains("location: http://127.0.0.1:9/v1"));
    let raw = Says::Raw(Content::new(b"SSH-2.0-nothing\r\n".to_vec()));
    let rehearsal = answering(Answer::of(raw)).await;
    let mut stream = open(&rehearsal, &chat("x")).await;
    assert_eq!(read_all(&mut stream).await.bytes, b"SSH-2.0-nothing\r\n");
}

#[tokio::test]
async fn a_huge_body_and_an_endless_one_cost_no_memory_and_end_with_the_client() {
    let huge = answering(Answer::of(Says::Fill(100_000_000))).await;
    let mut stream = open(&huge, &chat("x")).await;
    let mut some = vec![0; 1_000_000];
    stream.read_exact(&mut some).await.unwrap();
    assert!(String::from_utf8_lossy(&some[..200]).contains("content-length: 100000000"));
    drop(stream);
    huge.until(|counters| counters.provider.left == 1).await;
    let small = exchange(&answering(Answer::of(Says::Fill(100_000))).await, &chat("x")).await;
    assert_eq!(small.raw_body().len(), 100_000);

    let endless = answering(Answer::of(Says::Endless)).await;
    let mut stream = open(&endless, &chat("x")).await;
    stream.read_exact(&mut some).await.unwrap();
    drop(stream);
    endless.until(|counters| counters.provider.left == 1).await;
}

#[tokio::test]
async fn one_connection_carries_many_requests_and_what_is_no_http_ends_it() {
    let rehearsal = Rehearsal::start(Script::default()).await.unwrap();
    let both = [chat("one"), chat("two")].concat();
    let got = exchange(&rehearsal, &both).await;
    let text = String::from_utf8(got.bytes).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2);
    let chunked =
        "POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;x\r\n{}\r\n0\r\n\r\n";
    assert_eq!(exchange(&rehearsal, chunked.as_bytes()).await.status(), 400);
    for sent in [
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
    ] {
        assert!(exchange(&rehearsal, sent.as_bytes()).await.bytes.is_empty());
    }
    assert_eq!(rehearsal.counters().provider.requests, 3);
}

#[tokio::test]
async fn nothing_of_a_script_or_a_request_is_printed() {
    let script = Script::answering(Answer::text("secret answer")).with_rule(Rule::when_contains(
        "r",
        "secret word",
        Answer::body(200, "secret body"),
    ));
    let printed = format!("{script:?}");
    let rehearsal = Rehearsal::start(script).await.unwrap();
    let mut seen = rehearsal.watch();
    exchange(&rehearsal, &chat("a secret question")).await;
    let seen = seen.recv().await.unwrap();
    assert_eq!(
        (seen.side, seen.status, seen.rule.as_deref(), seen.brought),
        ("provider", 200, Some("otherwise"), true)
    );
    let all = format!("{printed}{seen:?}{:?}{rehearsal:?}", rehearsal.provider_requests());
    assert!(!all.contains("secret"), "{all}");
}
