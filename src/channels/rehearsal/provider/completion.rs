//! Answers in the form of the OpenAI-compatible chat completions, at once or as a stream of pieces.

use serde_json::{Map, Value as Json, json};
use thoughtstream_domain::content::Content;

use super::super::wire::{Body, Reply};
use super::{Answer, Asked, CallId, Says, ToolCall, Usage};

/// How many characters one piece of a stream has if the script does not say.
const PIECE: usize = 16;

/// Makes an error in the words of the API.
pub(super) fn error(status: u16, code: &str, retry_after: Option<u64>) -> Reply {
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    let message = "refused by the rehearsal's script";
    let mut reply = Reply::json(
        status,
        &json!({ "error": { "message": message, "type": kind, "code": code, "param": null } }),
    );
    reply.headers.extend(retry_after.map(|seconds| ("retry-after".to_owned(), seconds.to_string())));
    reply
}

/// Makes the completion that `answer` says, in the form that was asked for.
pub(super) fn reply(answer: &Answer, asked: &Asked, number: u64) -> Reply {
    let said = Said::of(answer, asked);
    let usage = usage(&answer.usage, asked, &said);
    let id = format!("chatcmpl-rehearsal-{number}");
    let frame = |object: &str, choices: Json| {
        let mut frame = Map::new();
        for (name, value) in [
            ("id", json!(id)),
            ("object", json!(object)),
            ("created", json!(0)),
            ("model", json!(asked.model)),
            ("choices", choices),
        ] {
            frame.insert(name.to_owned(), value);
        }
        frame
    };
    if asked.stream {
        let mut frames: Vec<Json> = said
            .deltas(answer.piece.unwrap_or(PIECE).max(1))
            .into_iter()
            .map(|(delta, finish)| {
                let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
                Json::Object(frame("chat.completion.chunk", choices))
            })
            .collect();
        if let Some(usage) = usage.filter(|_| asked.stream_usage) {
            let mut last = frame("chat.completion.chunk", json!([]));
            last.insert("usage".to_owned(), usage);
            frames.push(Json::Object(last));
        }
        return stream(&frames);
    }
    let choices = json!([{ "index": 0, "message": said.message(), "finish_reason": said.finish }]);
    let mut whole = frame("chat.completion", choices);
    if let Some(usage) = usage {
        whole.insert("usage".to_owned(), usage);
    }
    Reply::json(200, &Json::Object(whole))
}

fn stream(frames: &[Json]) -> Reply {
    let texts = frames.iter().map(Json::to_string).chain(["[DONE]".to_owned()]);
    let pieces = texts.map(|text| Content::new(format!("data: {text}\n\n").into_bytes())).collect();
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    Reply { status: 200, headers, body: Body::Pieces(pieces) }
}

/// Is what the model says, whatever form it takes.
struct Said<'a> {
    text: Option<&'a str>,
    calls: &'a [ToolCall],
    in_turn: bool,
    finish: &'a str,
}

impl<'a> Said<'a> {
    fn of(answer: &'a Answer, asked: &'a Asked) -> Self {
        let (text, calls): (Option<&str>, &[ToolCall]) = match &answer.says {
            Says::Text(text) => (Some(text.reveal()), &[]),
            Says::Tools { text, calls } => (text.as_ref().map(|text| text.reveal().as_str()), calls),
            Says::Echo
            | Says::Error { .. }
            | Says::Body { .. }
            | Says::Fill(_)
            | Says::Endless
            | Says::Raw(_) => (Some(asked.user.reveal()), &[]),
        };
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        let finish = answer.finish.as_deref().unwrap_or(finish);
        Self { text, calls, in_turn: answer.in_turn, finish }
    }

    fn message(&self) -> Json {
        let mut message = json!({ "role": "assistant", "content": self.text });
        if !self.calls.is_empty() {
            let calls: Vec<Json> =
                self.calls.iter().enumerate().map(|(index, call)| call_json(index, call)).collect();
            message["tool_calls"] = Json::Array(calls);
        }
        message
    }

    /// Returns the pieces of a stream, each with why the model stopped if it did.
    fn deltas(&self, piece: usize) -> Vec<(Json, Option<&str>)> {
        let mut deltas = vec![(json!({ "role": "assistant", "content": "" }), None)];
        let letters: Vec<char> = self.text.unwrap_or_default().chars().collect();
        deltas.extend(
            letters.chunks(piece).map(|part| (json!({ "content": part.iter().collect::<String>() }), None)),
        );
        deltas
            .extend(self.call_pieces(piece).into_iter().map(|call| (json!({ "tool_calls": [call] }), None)));
        deltas.push((json!({}), Some(self.finish)));
        deltas
    }

    /// Returns the pieces of all calls: one call behind the other, or a piece of each in turn.
    fn call_pieces(&self, piece: usize) -> Vec<Json> {
        let pieces = |(at, call): (usize, &ToolCall)| {
            let index = json!(call.index.unwrap_or(at as u64));
            let mut begun = call_json(at, call);
            begun["index"] = index.clone();
            begun["function"]["arguments"] = json!("");
            let letters: Vec<char> = call.arguments.reveal().chars().collect();
            let more = letters.chunks(piece).map(|part| {
                let arguments = part.iter().collect::<String>();
                json!({ "index": index, "function": { "arguments": arguments } })
            });
            std::iter::once(begun).chain(more).collect::<Vec<Json>>()
        };
        let calls: Vec<Vec<Json>> = self.calls.iter().enumerate().map(pieces).collect();
        if !self.in_turn {
            return calls.concat();
        }
        let rounds = calls.iter().map(Vec::len).max().unwrap_or_default();
        (0..rounds).flat_map(|round| calls.iter().filter_map(move |call| call.get(round).cloned())).collect()
    }

    fn characters(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.reveal().chars().count());
        self.text.unwrap_or_default().chars().count() + calls.sum::<usize>()
    }
}

fn call_json(at: usize, call: &ToolCall) -> Json {
    let mut json = json!({
        "type": "function",
        "function": { "name": call.name, "arguments": call.arguments.reveal() },
    });
    match &call.id {
        CallId::Own => json["id"] = json!(format!("call_{}", at + 1)),
        CallId::Given(id) => json["id"] = json!(id),
        CallId::Missing => {}
    }
    json
}

/// Returns what is said about what it cost, if anything is.
fn usage(usage: &Usage, asked: &Asked, said: &Said<'_>) -> Option<Json> {
    let whole = |prompt: u64, completion: u64| {
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt.saturating_add(completion),
        })
    };
    let (prompt, completion) = (tokens(asked.characters), tokens(said.characters()));
    Some(match usage {
        Usage::Counted => whole(prompt, completion),
        Usage::Given { prompt, completion } => whole(*prompt, *completion),
        Usage::Missing => return None,
        Usage::Null => Json::Null,
        Usage::PromptOnly => json!({ "prompt_tokens": prompt }),
        Usage::Absurd => whole(u64::MAX, 1_000_000_000_000_000),
        Usage::Negative => json!({ "prompt_tokens": -1, "completion_tokens": -1, "total_tokens": -2 }),
        Usage::Text => json!({
            "prompt_tokens": prompt.to_string(),
            "completion_tokens": completion.to_string(),
            "total_tokens": (prompt + completion).to_string(),
        }),
    })
}

/// Counts as a provider roughly does: a token for every four characters begun.
const fn tokens(characters: usize) -> u64 {
    characters.div_ceil(4) as u64
}
