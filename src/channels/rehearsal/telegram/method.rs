//! The methods of the Bot API that this program uses, answered as Telegram does.

use serde_json::{Map, Value as Json, json};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::text::characters;

use super::super::wire::{Body, Manner, Reply, Request};
use super::{Outcome, SentMessage, Telegram, TelegramAnswer, TelegramRule, Webhook};

/// A message has at most so many UTF-16 units.
const TEXT_UNITS_MAX: usize = 4096;

/// One answer holds at most so many updates.
const UPDATES_MAX: i64 = 100;

/// A poll waits at most so long, whatever it asks for, in seconds.
const POLL_SECONDS_MAX: i64 = 50;

/// Is a call of a method with its parameters, however they came.
#[derive(Debug)]
pub(in super::super) struct Asked {
    pub(in super::super) method: String,
    parameters: Map<String, Json>,
}

/// Is what a call comes to before it is brought.
#[derive(Debug)]
pub(in super::super) enum Called {
    /// An answer.
    Answered(Ready),
    /// Updates are to be waited for; the answer is brought in this manner.
    Waits(Poll, Ready),
}

/// Is an answer with how it is brought and the rule that said so.
#[derive(Debug)]
pub(in super::super) struct Ready {
    pub(in super::super) rule: Option<String>,
    pub(in super::super) reply: Reply,
    pub(in super::super) manner: Manner,
}

/// Is a poll that waits for updates.
#[derive(Debug)]
pub(in super::super) struct Poll {
    /// Rises with every poll; one that is not the latest was ended by another.
    number: u64,
    offset: i64,
    limit: usize,
    /// How long it waits, in seconds.
    pub(in super::super) seconds: u64,
}

impl Asked {
    /// Reads the parameters of a call from its query and its body.
    pub(in super::super) fn of(method: &str, request: &Request) -> Self {
        let mut parameters = form(&request.query);
        let body = request.body.reveal();
        let is_form = request
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        match serde_json::from_slice::<Map<String, Json>>(body) {
            _ if is_form => parameters.extend(form(&String::from_utf8_lossy(body))),
            Ok(members) => parameters.extend(members),
            Err(_) => {}
        }
        Self { method: method.to_owned(), parameters }
    }

    /// Returns a number, also one that came as text.
    fn number(&self, name: &str) -> Option<i64> {
        let value = self.parameters.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.parameters.get(name)?.as_str()
    }

    /// Returns a value that a form carries as JSON in a text.
    fn value(&self, name: &str) -> Option<Json> {
        let value = self.parameters.get(name)?;
        match value.as_str() {
            Some(text) => serde_json::from_str(text).ok(),
            None => Some(value.clone()),
        }
    }

    fn reply_to(&self) -> Option<i64> {
        let named = self.value("reply_parameters");
        named
            .and_then(|named| named.get("message_id")?.as_i64())
            .or_else(|| self.number("reply_to_message_id"))
    }

    fn may_miss_reply(&self) -> bool {
        let named = self.value("reply_parameters");
        let allowed = named.and_then(|named| named.get("allow_sending_without_reply").cloned());
        allowed.or_else(|| self.value("allow_sending_without_reply")).is_some_and(|value| value == true)
    }
}

impl Telegram {
    /// Answers a call, at `now` in seconds.
    pub(in super::super) fn call(&mut self, asked: &Asked, now: i64) -> Called {
        let count = self.counters.methods.entry(asked.method.clone()).or_default();
        *count += 1;
        let nth = *count;
        let Some((name, answer)) = self.rule(asked, nth) else {
            return self.good(asked, now).brought(None, Manner::default());
        };
        *self.counters.rules.entry(name.clone()).or_default() += 1;
        let rule = Some(name);
        let manner = answer.manner;
        let (reply, done) = match answer.outcome {
            Outcome::Good => return self.good(asked, now).brought(rule, manner),
            Outcome::Refused { status, retry_after } => (refused(status, retry_after), answer.done),
            Outcome::Body { status, bytes } => {
                let mut reply = Reply::bytes(status, "text/html", Vec::new());
                reply.body = Body::Whole(bytes);
                (reply, answer.done)
            }
        };
        if done == Some(true) {
            // What is answered badly may have been done all the same.
            self.good(asked, now);
        }
        Called::Answered(Ready { rule, reply, manner })
    }

    fn rule(&self, asked: &Asked, nth: u64) -> Option<(String, TelegramAnswer)> {
        let holds = |rule: &&TelegramRule| {
            let when = &rule.when;
            let used = self.counters.rules.get(&rule.name).copied().unwrap_or_default();
            let text = || asked.text("text").unwrap_or_default();
            when.method.as_ref().is_none_or(|method| *method == asked.method)
                && when.nth.is_none_or(|number| number == nth)
                && when.times.is_none_or(|times| used < times)
                && when.chat.is_none_or(|chat| asked.number("chat_id") == Some(chat))
                && when.contains.as_ref().is_none_or(|part| text().contains(part.reveal()))
        };
        let rule = self.script.rules.iter().find(holds)?;
        Some((rule.name.clone(), rule.answer.clone()))
    }

    /// Does what a call asks for.
    fn good(&mut self, asked: &Asked, now: i64) -> Outcomes {
        let result = match asked.method.as_str() {
            "getMe" => {
                let bot = &self.script.bot;
                json!({
                    "id": bot.id, "is_bot": true, "first_name": bot.name, "username": bot.username,
                    "can_join_groups": true, "can_read_all_group_messages": false,
                    "supports_inline_queries": false,
                })
            }
            "getUpdates" => return self.begin_poll(asked),
            "sendMessage" => return Outcomes::Now(self.send(asked, now)),
            "sendChatAction" => json!(true),
            "setMyCommands" => {
                self.commands = asked.value("commands").unwrap_or(Json::Array(Vec::new()));
                json!(true)
            }
            "getMyCommands" => self.commands.clone(),
            "setWebhook" => self.set_webhook(asked),
            "deleteWebhook" => {
                self.webhook = None;
                self.forget_if_asked(asked);
                json!(true)
            }
            "getWebhookInfo" => json!({
                "url": self.webhook.as_ref().map(|webhook| webhook.url.as_str()).unwrap_or_default(),
                "has_custom_certificate": false,
                "pending_update_count": self.queue.len(),
            }),
            "getFile" => return Outcomes::Now(self.file(asked)),
            _ => return Outcomes::Now(problem(404, "Not Found")),
        };
        Outcomes::Now(ok(&result))
    }

    fn send(&mut self, asked: &Asked, now: i64) -> Reply {
        let Some(chat) = asked.number("chat_id") else {
            return problem(400, "Bad Request: chat_id is empty");
        };
        let text = asked.text("text").unwrap_or_default();
        if !self.script.chats.is_empty() && !self.script.chats.contains(&chat) {
            return problem(400, "Bad Request: chat not found");
        }
        if text.trim().is_empty() {
            return problem(400, "Bad Request: message text is empty");
        }
        if characters(text) > TEXT_UNITS_MAX {
            return problem(400, "Bad Request: message is too long");
        }
        let reply_to = asked.reply_to();
        let known =
            |number: i64| self.chats.get(&chat).is_some_and(|chat| chat.messages.contains_key(&number));
        if reply_to.is_some_and(|number| !known(number)) && !asked.may_miss_reply() {
            return problem(400, "Bad Request: message to be replied not found");
        }
        let (message, shown) = self.reply(chat, text, reply_to, now);
        self.keep(SentMessage {
            chat,
            message,
            text: Content::new(text.to_owned()),
            reply_to,
            parse_mode: asked.text("parse_mode").map(str::to_owned),
        });
        ok(&shown)
    }

    fn set_webhook(&mut self, asked: &Asked) -> Json {
        self.allow(asked);
        self.forget_if_asked(asked);
        let url = asked.text("url").unwrap_or_default().to_owned();
        let secret = asked.text("secret_token").map(|secret| Content::new(secret.to_owned()));
        self.webhook = (!url.is_empty()).then_some(Webhook { url, secret });
        json!(true)
    }

    fn forget_if_asked(&mut self, asked: &Asked) {
        if asked.value("drop_pending_updates").is_some_and(|value| value == true) {
            self.queue.clear();
        }
    }

    fn allow(&mut self, asked: &Asked) {
        if let Some(Json::Array(kinds)) = asked.value("allowed_updates") {
            self.allowed = Some(kinds.iter().filter_map(Json::as_str).map(str::to_owned).collect());
        }
    }

    fn file(&self, asked: &Asked) -> Reply {
        let id = asked.text("file_id").unwrap_or_default();
        match self.files.get(id) {
            None => problem(400, "Bad Request: invalid file_id"),
            Some(file) => ok(&json!({
                "file_id": id, "file_unique_id": format!("unique-{id}"),
                "file_size": file.claims, "file_path": file.path,
            })),
        }
    }

    /// Answers the fetching of a file.
    pub(in super::super) fn download(&mut self, path: &str, asked: &Asked) -> Ready {
        let count = self.counters.methods.entry(asked.method.clone()).or_default();
        *count += 1;
        let nth = *count;
        let found = self.files.values().find(|file| file.path == path);
        let good = found.map_or_else(
            || problem(404, "Not Found"),
            |file| Reply::bytes(200, "application/octet-stream", file.bytes.reveal().clone()),
        );
        let Some((name, answer)) = self.rule(asked, nth) else {
            return Ready { rule: None, reply: good, manner: Manner::default() };
        };
        *self.counters.rules.entry(name.clone()).or_default() += 1;
        let reply = match answer.outcome {
            Outcome::Good => good,
            Outcome::Refused { status, retry_after } => refused(status, retry_after),
            Outcome::Body { status, bytes } => {
                Reply::bytes(status, "application/octet-stream", bytes.into_inner())
            }
        };
        Ready { rule: Some(name), reply, manner: answer.manner }
    }

    fn begin_poll(&mut self, asked: &Asked) -> Outcomes {
        if self.webhook.is_some() {
            let text = "Conflict: can't use getUpdates method while webhook is active; \
                        use deleteWebhook to delete the webhook first";
            return Outcomes::Now(problem(409, text));
        }
        self.allow(asked);
        self.poller += 1;
        let offset = asked.number("offset").unwrap_or_default();
        self.confirm(offset);
        let limit = asked.number("limit").unwrap_or(UPDATES_MAX).clamp(1, UPDATES_MAX);
        let seconds = asked.number("timeout").unwrap_or_default().clamp(0, POLL_SECONDS_MAX);
        Outcomes::Later(Poll {
            number: self.poller,
            offset,
            limit: usize::try_from(limit).unwrap_or(1),
            seconds: seconds.unsigned_abs(),
        })
    }

    /// Forgets what lies below `offset`: the bot has it. A negative one keeps so many of the latest.
    fn confirm(&mut self, offset: i64) {
        if offset < 0 {
            let kept = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX).min(self.queue.len());
            self.queue.drain(..self.queue.len() - kept);
            return;
        }
        self.queue.retain_mut(|queued| {
            if queued.id >= offset {
                return true;
            }
            let replayed = queued.again > 0;
            if replayed {
                queued.again -= 1;
                queued.is_replay = true;
            }
            replayed || queued.is_replay
        });
    }

    /// Returns what a poll is answered now, or nothing while it has to wait.
    pub(in super::super) fn look(&mut self, poll: &Poll) -> Option<Reply> {
        if poll.number != self.poller {
            self.counters.conflicts += 1;
            let text = "Conflict: terminated by other getUpdates request; \
                        make sure that only one bot instance is running";
            return Some(problem(409, text));
        }
        self.withhold();
        let mut updates: Vec<Json> = Vec::new();
        for queued in self.queue.iter_mut().filter(|queued| queued.is_replay || queued.id >= poll.offset) {
            queued.is_replay = false;
            let update: Json = serde_json::from_str(queued.update.reveal()).unwrap_or_default();
            updates.extend(std::iter::repeat_n(update, queued.copies as usize));
            if updates.len() >= poll.limit {
                break;
            }
        }
        (!updates.is_empty()).then(|| ok(&Json::Array(updates)))
    }

    /// Says whether a poll would be answered now.
    pub(in super::super) fn has_news(&self, poll: &Poll) -> bool {
        let is_new = |queued: &super::Queued| queued.is_replay || queued.id >= poll.offset;
        poll.number != self.poller
            || self.queue.iter().any(|queued| is_new(queued) && self.is_allowed(&queued.kind))
    }

    /// Answers a poll that waited as long as it asked for.
    pub(in super::super) fn nothing_new() -> Reply {
        ok(&json!([]))
    }

    /// Answers a call with a token that is not the bot's.
    pub(in super::super) fn unauthorized(&mut self) -> Reply {
        self.counters.unauthorized += 1;
        problem(401, "Unauthorized")
    }
}

/// Is what a call that is answered well comes to.
enum Outcomes {
    Now(Reply),
    Later(Poll),
}

impl Outcomes {
    fn brought(self, rule: Option<String>, manner: Manner) -> Called {
        match self {
            Self::Now(reply) => Called::Answered(Ready { rule, reply, manner }),
            Self::Later(poll) => Called::Waits(poll, Ready { rule, reply: Telegram::nothing_new(), manner }),
        }
    }
}

fn ok(result: &Json) -> Reply {
    Reply::json(200, &json!({ "ok": true, "result": result }))
}

fn problem(status: u16, description: &str) -> Reply {
    Reply::json(status, &json!({ "ok": false, "error_code": status, "description": description }))
}

/// Refuses in the words of the API.
fn refused(status: u16, retry_after: Option<u64>) -> Reply {
    let description = match status {
        400 => "Bad Request: rehearsed refusal".to_owned(),
        401 => "Unauthorized".to_owned(),
        403 => "Forbidden: bot was blocked by the user".to_owned(),
        404 => "Not Found".to_owned(),
        409 => "Conflict: terminated by other getUpdates request; \
                make sure that only one bot instance is running"
            .to_owned(),
        429 => format!("Too Many Requests: retry after {}", retry_after.unwrap_or_default()),
        500.. => "Internal Server Error".to_owned(),
        _ => "Refused".to_owned(),
    };
    let mut body = json!({ "ok": false, "error_code": status, "description": description });
    if let Some(seconds) = retry_after {
        body["parameters"] = json!({ "retry_after": seconds });
    }
    Reply::json(status, &body)
}

/// Reads parameters that are written as a form.
fn form(text: &str) -> Map<String, Json> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescaped(name), Json::String(unescaped(value)))
        })
        .collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let code: Vec<u8> = rest.by_ref().take(2).collect();
                let code = std::str::from_utf8(&code).ok().and_then(|code| u8::from_str_radix(code, 16).ok());
                bytes.push(code.unwrap_or(b'%'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
