//! The one door of a rehearsal: every connection, and which player a request is for.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::provider;
use super::stage::{Seen, Stage, seconds_now};
use super::telegram::{self, Called, Item, Message, MessageRef, Poll, Scripted};
use super::wire::{self, Connection, Manner, Reply, Request};

/// Takes connections until it is dropped; they end with it.
pub(super) async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(stream, Arc::clone(&stage)));
                }
            }
            // Those that ended are let go of.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, stage: Arc<Stage>) {
    stream.set_nodelay(true).ok();
    let mut connection = BufReader::new(stream);
    // What is not HTTP, or goes away in the middle, ends the connection and nothing else.
    while let Ok(Some(request)) = wire::read_request(&mut connection).await {
        if !answer(&mut connection, request, &stage).await {
            return;
        }
    }
}

/// Is an answer on its way, and what the log is to say of it.
struct Answer {
    side: &'static str,
    what: String,
    rule: Option<String>,
    reply: Reply,
    manner: Manner,
}

/// Answers one request, and says whether the connection can carry another.
async fn answer(connection: &mut Connection, request: Request, stage: &Stage) -> bool {
    let Some(answer) = decide(connection, &request, stage).await else { return false };
    let counted = answer.side == "provider" && request.method == "POST";
    let played = bring(connection, &answer, stage).await;
    stage.change(|state| {
        if counted {
            let counters = &mut state.provider.counters;
            *(if played.is_some() { &mut counters.answered } else { &mut counters.left }) += 1;
        }
    });
    let seen = Seen {
        side: answer.side,
        what: answer.what,
        rule: answer.rule,
        status: answer.reply.status,
        bytes_in: request.body.reveal().len() as u64,
        bytes_out: played.map_or(0, |played| played.bytes),
        brought: played.is_some(),
        content: request.body,
    };
    // Nobody has to look.
    stage.seen.send(seen).ok();
    played.is_some_and(|played| played.open)
}

/// Brings an answer in its manner; nothing if the client left before its end.
async fn bring(connection: &mut Connection, answer: &Answer, stage: &Stage) -> Option<wire::Played> {
    if let Some(gate) = &answer.manner.hold {
        stage.change(|state| *state.held.entry(gate.clone()).or_default() += 1);
        let opened = tokio::select! {
            () = stage.until(|state| state.open.contains(gate)) => true,
            () = wire::gone(connection) => false,
        };
        stage.change(|state| {
            if let Some(held) = state.held.get_mut(gate) {
                *held -= 1;
            }
        });
        if !opened {
            return None;
        }
    }
    wire::play(connection, &answer.reply, &answer.manner).await.ok()
}

async fn decide(connection: &Connection, request: &Request, stage: &Stage) -> Option<Answer> {
    let path = request.path.clone();
    match (request.method.as_str(), path.as_str()) {
        ("POST", "/v1/chat/completions") => {
            let provider::Ready { rule, reply, manner } =
                stage.change(|state| state.provider.complete(request));
            Some(Answer {
                side: "provider",
                what: "chat/completions".to_owned(),
                rule: Some(rule),
                reply,
                manner,
            })
        }
        ("GET", "/v1/models") => {
            let reply = stage.look(|state| state.provider.models());
            Some(Answer {
                side: "provider",
                what: "models".to_owned(),
                rule: None,
                reply,
                manner: Manner::default(),
            })
        }
        (_, path) => match path.strip_prefix("/rehearsal/") {
            Some(what) => Some(aside(what, request, stage)),
            None => bot(connection, request, stage).await,
        },
    }
}

async fn bot(connection: &Connection, request: &Request, stage: &Stage) -> Option<Answer> {
    let (is_file, rest) = match request.path.strip_prefix("/file/bot") {
        Some(rest) => (true, rest),
        None => (false, request.path.strip_prefix("/bot").unwrap_or_default()),
    };
    let (token, what) = rest.split_once('/').unwrap_or((rest, ""));
    let answer = |what: &str, ready: telegram::Ready| Answer {
        side: "telegram",
        what: what.to_owned(),
        rule: ready.rule,
        reply: ready.reply,
        manner: ready.manner,
    };
    let aside = |side: &'static str, what: &str, reply: Reply| {
        let manner = Manner::default();
        Some(Answer { side, what: what.to_owned(), rule: None, reply, manner })
    };
    if rest.is_empty() {
        return aside("rehearsal", "nothing", Reply::json(404, &json!({ "error": "there is nothing here" })));
    }
    if !stage.look(|state| state.telegram.script.token.reveal() == token) {
        return aside("telegram", "unauthorized", stage.change(|state| state.telegram.unauthorized()));
    }
    if is_file {
        let asked = telegram::Asked::of("download", request);
        return Some(answer("download", stage.change(|state| state.telegram.download(what, &asked))));
    }
    let asked = telegram::Asked::of(what, request);
    match stage.change(|state| state.telegram.call(&asked, seconds_now())) {
        Called::Answered(ready) => Some(answer(what, ready)),
        Called::Waits(poll, mut ready) => {
            ready.reply = wait(connection, &poll, stage).await?;
            Some(answer(what, ready))
        }
    }
}

/// Waits for updates as long as the poll does; nothing if the client left.
async fn wait(connection: &Connection, poll: &Poll, stage: &Stage) -> Option<Reply> {
    let until = Instant::now() + Duration::from_secs(poll.seconds);
    loop {
        if let Some(reply) = stage.change(|state| state.telegram.look(poll)) {
            return Some(reply);
        }
        if Instant::now() >= until {
            return Some(telegram::Telegram::nothing_new());
        }
        tokio::select! {
            () = stage.until(|state| state.telegram.has_news(poll)) => {}
            () = sleep_until(until) => {}
            () = wire::gone(connection) => return None,
        }
    }
}

/// Is what a person lets somebody say while a rehearsal runs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Say {
    chat: i64,
    /// The same as the chat if absent: a person alone with the bot.
    from: Option<i64>,
    text: String,
    reply_to: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct React {
    chat: i64,
    from: Option<i64>,
    /// The bot's latest message if absent.
    message: Option<i64>,
    emoji: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    gate: String,
}

/// Answers whoever rehearses.
fn aside(what: &str, request: &Request, stage: &Stage) -> Answer {
    let body = request.body.reveal();
    let reply = match (request.method.as_str(), what) {
        ("GET", "counters") => {
            let shown = stage.look(|state| {
                json!({
                    "provider": state.provider.counters,
                    "telegram": state.telegram.counters(),
                    "messages": state.telegram.sent,
                    "held": state.held,
                })
            });
            Ok(Reply::json(200, &shown))
        }
        ("POST", "say") => read(body).map(|say: Say| {
            let mut message = Message::text(say.chat, say.from.unwrap_or(say.chat), say.text);
            message.reply_to = say.reply_to.map(MessageRef::Number);
            happened(stage, Item::Message(message))
        }),
        ("POST", "react") => read(body).map(|react: React| {
            let React { chat, from, message, emoji } = react;
            let message = message.map_or(MessageRef::LastReply, MessageRef::Number);
            happened(stage, Item::Reaction { chat, from: from.unwrap_or(chat), message, emoji })
        }),
        ("POST", "release") => read(body).map(|release: Release| {
            stage.change(|state| state.open.insert(release.gate));
            Reply::json(200, &json!({ "ok": true }))
        }),
        _ => Err(Reply::json(404, &json!({ "error": "there is nothing here" }))),
    };
    let reply = reply.unwrap_or_else(|reply| reply);
    Answer { side: "rehearsal", what: what.to_owned(), rule: None, reply, manner: Manner::default() }
}

/// Reads what is to happen. An error names a place in the text and nothing of it.
fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Reply> {
    serde_json::from_slice(body).map_err(|error| {
        let place =
            json!({ "error": "this is not understood", "line": error.line(), "column": error.column() });
        Reply::json(400, &place)
    })
}

fn happened(stage: &Stage, item: Item) -> Reply {
    let scripted = Scripted::new(item);
    match stage.change(|state| state.telegram.happen(&scripted, seconds_now())) {
        Some(update) => Reply::json(200, &json!({ "update": update })),
        None => Reply::json(409, &json!({ "error": "there is no such message" })),
    }
}
