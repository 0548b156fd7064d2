//! The real client against every misbehaviour that a rehearsal can be told to play. Whatever it is, it is one
//! request, and one code with its certainty.

use super::*;
use crate::rehearsal::{
    Answer as Scripted, Cut, CutAt, CutHow, Drip, Manner, Rehearsal, Says, Script, Usage as Told,
};

/// Is what became of one request to a rehearsal.
pub(super) struct Asked {
    pub(super) reply: Result<Reply, AskError>,
    /// How many requests the rehearsal counted.
    pub(super) requests: u64,
}

/// Plays an answer and asks for it.
pub(super) async fn asked(answer: Scripted, request: &ModelRequest) -> Asked {
    let rehearsal = Rehearsal::start(Script::answering(answer)).await.unwrap();
    let (reply, state) = ask_with(profile(rehearsal.address()), request, PATIENCE).await;
    assert_eq!(state, WireState::Sent);
    Asked { reply, requests: rehearsal.counters().provider.requests }
}

/// Plays an answer that never comes to its end. Once the request has arrived, the time until the deadline passes
/// at once, on however slow a machine.
async fn asked_in_vain(answer: Scripted, request: &ModelRequest) -> Asked {
    let rehearsal = Rehearsal::start(Script::answering(answer)).await.unwrap();
    let asking = ask_with(profile(rehearsal.address()), request, PATIENCE);
    let arrived = async {
        rehearsal.until(|counters| counters.provider.requests == 1).await;
        tokio::time::pause();
    };
    let ((reply, state), ()) = tokio::join!(asking, arrived);
    tokio::time::resume();
    assert_eq!(state, WireState::Sent);
    Asked { reply, requests: rehearsal.counters().provider.requests }
}

async fn fails(name: &str, answer: Scripted, code: ProviderCode) {
    for stream in [false, true] {
        let said = asked(answer.clone(), &request(stream)).await;
        let error = said.reply.unwrap_err();
        assert_eq!((error.code, error.certainty), (code, code.certainty()), "{name}, streamed: {stream}");
        assert_eq!(said.requests, 1, "{name}: it is asked once, whatever comes of it");
    }
}

fn hello() -> Scripted {
    Scripted::text("hello")
}

#[tokio::test]
async fn an_echo_and_a_text_come_back_whole_and_in_pieces() {
    for stream in [false, true] {
        for (answer, text) in [(Scripted::default(), "the person's words"), (hello(), "hello")] {
            let said = asked(Scripted { piece: Some(2), ..answer }, &request(stream)).await;
            let reply = said.reply.unwrap();
            assert_eq!((text_of(&reply.answer), said.requests), (vec![text], 1));
            assert!(reply.answer.usage.input.is_some() && reply.answer.usage.output.is_some());
        }
    }
}

#[tokio::test]
async fn every_refusal_has_its_code() {
    use ProviderCode as Code;
    for (status, code) in [
        (400, Code::BadRequest),
        (401, Code::Unauthorized),
        (402, Code::Billing),
        (404, Code::NotFound),
        (413, Code::ProviderTooLarge),
        (429, Code::RateLimited),
        (500, Code::Unavailable),
        (502, Code::GatewayLost),
    ] {
        let says = Says::Error { status, code: "slow_down".to_owned(), retry_after: None };
        fails(&status.to_string(), Scripted::of(says), code).await;
    }
    let says = Says::Error { status: 503, code: "busy".to_owned(), retry_after: Some(3) };
    let said = asked(Scripted::of(says), &request(false)).await;
    assert_eq!(said.reply.unwrap_err().retry_after_ms, Some(3000));
}

#[tokio::test]
async fn bodies_that_are_no_answer_have_their_codes() {
    use ProviderCode as Code;
    for (name, body, whole, pieces) in [
        ("garbage", &b"<html>no</html>"[..], Code::AnswerMalformed, Code::AnswerMalformed),
        ("nothing", b"", Code::AnswerMalformed, Code::AnswerIncomplete),
        ("two values", b"{\"a\":1}{\"b\":2}", Code::AnswerMalformed, Code::AnswerMalformed),
        ("fences", b"```json\n{}\n```", Code::AnswerMalformed, Code::AnswerMalformed),
        ("prose", b"Sure, here it is: {}", Code::AnswerMalformed, Code::AnswerMalformed),
        ("invalid UTF-8", b"{\"a\":\"\xff\"}", Code::AnswerNotUtf8, Code::AnswerNotUtf8),
        ("an error", b"{\"error\":{\"message\":\"x\"}}", Code::AnswerError, Code::AnswerError),
    ] {
        for (stream, media, code) in [(false, JSON, whole), (true, EVENTS, pieces)] {
            let bytes = match (stream, name) {
                (true, "nothing") => Vec::new(),
                (true, "garbage") => [body, b"\n\n"].concat(),
                (true, _) => [b"data: ", &body.replace_newlines()[..], b"\n\n"].concat(),
                (false, _) => body.to_vec(),
            };
            let headers = vec![("content-type".to_owned(), media.to_owned())];
            let says = Says::Body { status: 200, headers, bytes: Content::new(bytes) };
            let said = asked(Scripted::of(says), &request(stream)).await;
            let error = said.reply.unwrap_err();
            assert_eq!((error.code, said.requests), (code, 1), "{name}, streamed: {stream}");
        }
    }
    let says = |status, name: &str, value: &str| Says::Body {
        status,
        headers: vec![(name.to_owned(), value.to_owned())],
        bytes: Content::new(b"{}".to_vec()),
    };
    fails("a page", Scripted::of(says(200, "content-type", "text/html")), Code::AnswerType).await;
    fails("elsewhere", Scripted::of(says(302, "location", "http://127.0.0.1:9/v1")), Code::Redirected).await;
    fails("created", Scripted::of(says(201, "content-type", JSON)), Code::AnswerStatus).await;
}

/// Says one line of a stream what was several.
trait OneLine {
    fn replace_newlines(&self) -> Vec<u8>;
}

impl OneLine for &[u8] {
    fn replace_newlines(&self) -> Vec<u8> {
        self.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect()
    }
}

#[tokio::test]
async fn what_has_no_end_or_is_no_http_is_cut_off() {
    use ProviderCode as Code;
    let raw = Says::Raw(Content::new(b"SSH-2.0-nothing\r\n".to_vec()));
    fails("no HTTP", Scripted::of(raw), Code::ConnectionLost).await;
    // What says that it is JSON is refused as no stream before its size is looked at.
    for (says, code) in
        [(Says::Fill(100_000_000), Code::AnswerTooLarge), (Says::Endless, Code::AnswerTooLarge)]
    {
        let said = asked(Scripted::of(says), &request(false)).await;
        assert_eq!((said.reply.unwrap_err().code, said.requests), (code, 1));
    }
    for says in [Says::Fill(100_000_000), Says::Endless] {
        let said = asked(Scripted::of(says), &request(true)).await;
        assert_eq!((said.reply.unwrap_err().code, said.requests), (Code::AnswerType, 1));
    }
}

#[tokio::test]
async fn a_connection_that_ends_anywhere_leaves_it_lost() {
    for how in [CutHow::Close, CutHow::Reset] {
        for at in [CutAt::Request, CutAt::Head, CutAt::Body(1), CutAt::Body(40)] {
            let manner = Manner { cut: Some(Cut { at, how }), ..Manner::default() };
            fails(&format!("{at:?} {how:?}"), hello().in_manner(manner), ProviderCode::ConnectionLost).await;
        }
    }
}

#[tokio::test]
async fn a_slow_answer_is_waited_for_and_one_past_the_deadline_is_lost() {
    let drip = |every_ms| Manner { drip: Some(Drip { bytes: 7, every_ms }), ..Manner::default() };
    for stream in [false, true] {
        let manner = Manner { delay_ms: 1, ..drip(1) };
        let said = asked(hello().in_manner(manner), &request(stream)).await;
        assert_eq!(text_of(&said.reply.unwrap().answer), ["hello"]);
        let never = Manner { hold: Some("never".to_owned()), ..Manner::default() };
        for manner in [drip(600_000), never] {
            let said = asked_in_vain(hello().in_manner(manner), &request(stream)).await;
            let error = said.reply.unwrap_err();
            assert_eq!((error.code, error.certainty), (ProviderCode::DeadlinePassed, Certainty::Lost));
            assert_eq!(said.requests, 1);
        }
    }
}

#[tokio::test]
async fn usage_that_cannot_be_believed_is_missing() {
    for stream in [false, true] {
        for (told, input, output) in [
            (Told::Missing, None, None),
            (Told::Null, None, None),
            (Told::Absurd, None, None),
            (Told::Negative, None, None),
            (Told::Text, None, None),
            (Told::PromptOnly, Some(5), None),
            (Told::Given { prompt: 7, completion: 9 }, Some(7), Some(9)),
            (Told::Given { prompt: 0, completion: 0 }, None, None),
        ] {
            let said = asked(hello().with_usage(told.clone()), &request(stream)).await;
            let usage = said.reply.unwrap().answer.usage;
            assert_eq!((usage.input, usage.output), (input, output), "{told:?}, streamed: {stream}");
        }
    }
}

#[tokio::test]
async fn why_it_ended_is_read_and_an_unknown_reason_is_refused() {
    for stream in [false, true] {
        for (finish, stop) in [
            ("stop", StopReason::Stop),
            ("length", StopReason::Length),
            ("content_filter", StopReason::ContentFilter),
            ("tool_calls", StopReason::ToolCalls),
        ] {
            let answer = Scripted { finish: Some(finish.to_owned()), ..hello() };
            assert_eq!(asked(answer, &request(stream)).await.reply.unwrap().answer.stop, stop);
        }
    }
    let answer = Scripted { finish: Some("tired".to_owned()), ..hello() };
    fails("an unknown reason", answer, ProviderCode::AnswerStop).await;
}
