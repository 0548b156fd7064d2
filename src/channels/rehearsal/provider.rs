//! The scripted provider: which rule answers a request, and with what.
//!
//! It decides from the request, the rules and how often each has answered; what goes over the wire is made in
//! [`completion`], how it gets there is in [`super::wire`].

mod completion;

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::{Value as Json, json};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::hash::Sha256Hash;

use super::wire::{Body, Manner, Reply, Request};

/// The latest requests are kept with their bodies; a test or a person looks at a few.
const REQUESTS_MAX: usize = 1024;

/// Their bodies are kept within this; a context with images has megabytes.
const REQUESTS_BYTES_MAX: usize = 64 << 20;

/// So many different bodies are told apart in the counters; a load test sends more.
const BODIES_MAX: usize = 4096;

/// Is the part of a script that plays a provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderScript {
    /// The key a request must bear; any or none is good if absent.
    pub token: Option<Content<String>>,
    /// The models there are; every name is one if empty.
    pub models: Vec<String>,
    /// What answers, the first that matches.
    pub rules: Vec<Rule>,
    /// What answers when no rule does.
    pub otherwise: Answer,
}

/// Is one rule: when it answers, and what.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// Its name in the counters.
    pub name: String,
    /// When it answers.
    pub when: When,
    /// What it answers.
    pub answer: Answer,
}

/// Says which requests a rule answers: those for which all that is said holds.
#[derive(Debug, Clone, Default)]
pub struct When {
    /// The request with this number, the first being 1.
    pub nth: Option<u64>,
    /// A text that the last message of the user contains.
    pub contains: Option<Content<String>>,
    /// A text that a message of the system contains.
    pub system: Option<Content<String>>,
    /// The model that is asked for.
    pub model: Option<String>,
    /// A member that the request has, such as `response_format`.
    pub has: Option<String>,
    /// A tool that the request offers.
    pub offers: Option<String>,
    /// How often the rule answers at most.
    pub times: Option<u64>,
}

/// Is what a rule answers, and how.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// What is said.
    pub says: Says,
    /// What is said about what it cost.
    pub usage: Usage,
    /// Why the model stopped; what fits the answer if absent.
    pub finish: Option<String>,
    /// How many characters one piece of a streamed answer has.
    pub piece: Option<usize>,
    /// Whether the pieces of several calls come in turn, where they are streamed.
    pub in_turn: bool,
    /// How the answer is brought.
    pub manner: Manner,
}

/// Is what is said.
#[derive(Debug, Clone, Default)]
pub enum Says {
    /// What the user said last.
    #[default]
    Echo,
    /// A text.
    Text(Content<String>),
    /// Calls of tools, with a text before them or without.
    Tools {
        /// The text before them.
        text: Option<Content<String>>,
        /// The calls.
        calls: Vec<ToolCall>,
    },
    /// An error in the words of the API.
    Error {
        /// Its status.
        status: u16,
        /// Its code.
        code: String,
        /// After how many seconds to come again.
        retry_after: Option<u64>,
    },
    /// A body of the script's own.
    Body {
        /// The status it comes with.
        status: u16,
        /// The headers it comes with.
        headers: Vec<(String, String)>,
        /// The bytes.
        bytes: Content<Vec<u8>>,
    },
    /// So many bytes of nothing in particular.
    Fill(u64),
    /// A body without an end.
    Endless,
    /// Bytes that are no answer of HTTP.
    Raw(Content<Vec<u8>>),
}

/// Is one call of a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments; JSON, if the model does it right.
    pub arguments: Content<String>,
    /// Its id.
    pub id: CallId,
    /// Its number in a stream; its place among the calls if absent.
    pub index: Option<u64>,
}

impl ToolCall {
    /// Makes a call as it should be.
    #[must_use]
    pub fn new(name: &str, arguments: &str) -> Self {
        let arguments = Content::new(arguments.to_owned());
        Self { name: name.to_owned(), arguments, id: CallId::default(), index: None }
    }
}

/// Is the id of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CallId {
    /// One of its own, by its place.
    #[default]
    Own,
    /// This one.
    Given(String),
    /// None.
    Missing,
}

/// Is what an answer says about what it cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Usage {
    /// A token for every four characters of the request and of the answer.
    #[default]
    Counted,
    /// These numbers.
    Given {
        /// What was read.
        prompt: u64,
        /// What was written.
        completion: u64,
    },
    /// Nothing.
    Missing,
    /// `null`.
    Null,
    /// Only what was read.
    PromptOnly,
    /// More than anything costs.
    Absurd,
    /// Less than nothing.
    Negative,
    /// Numbers written as text.
    Text,
}

impl Answer {
    /// Makes an answer of a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Says::Text(Content::new(text.into())))
    }

    /// Makes an answer of what is said.
    #[must_use]
    pub fn of(says: Says) -> Self {
        Self { says, ..Self::default() }
    }

    /// Makes an answer of a status and a body.
    #[must_use]
    pub fn body(status: u16, bytes: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self::of(Says::Body { status, headers, bytes: Content::new(bytes.into()) })
    }

    /// Brings it in this manner.
    #[must_use]
    pub fn in_manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    /// Says this about what it cost.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}

impl Rule {
    /// Makes a rule that always answers.
    #[must_use]
    pub fn new(name: &str, answer: Answer) -> Self {
        Self { name: name.to_owned(), when: When::default(), answer }
    }

    /// Makes a rule that answers when the user's last message contains a text.
    #[must_use]
    pub fn when_contains(name: &str, text: &str, answer: Answer) -> Self {
        let when = When { contains: Some(Content::new(text.to_owned())), ..When::default() };
        Self { name: name.to_owned(), when, answer }
    }
}

/// Is a request to complete a chat, as the provider saw it.
#[derive(Debug, Clone)]
pub struct ProviderRequest {
    /// Its number, the first being 1.
    pub number: u64,
    /// The rule that answered it, or why none did: `otherwise`, `unauthorized`, `malformed`, `model`.
    pub rule: String,
    /// The model that was asked for.
    pub model: Option<String>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The body.
    pub body: Content<Vec<u8>>,
    /// The body's hash.
    pub hash: Sha256Hash,
}

impl ProviderRequest {
    /// Returns the body as JSON, or null if it is none.
    #[must_use]
    pub fn json(&self) -> Json {
        serde_json::from_slice(self.body.reveal()).unwrap_or_default()
    }
}

/// Counts what a provider was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCounters {
    /// Requests to complete a chat, also those that were refused.
    pub requests: u64,
    /// Of these, those whose answer was brought to its scripted end.
    pub answered: u64,
    /// Of these, those whose client left before.
    pub left: u64,
    /// Requests by the rule that answered, or by why none did.
    pub rules: BTreeMap<String, u64>,
    /// How often each body was sent, by its hash; of very many different ones only the first.
    pub bodies: BTreeMap<String, u64>,
}

/// Is a scripted provider at work.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) script: ProviderScript,
    pub(super) counters: ProviderCounters,
    pub(super) requests: VecDeque<ProviderRequest>,
    /// The bytes of their bodies.
    kept: usize,
}

/// Is an answer that is ready to be brought.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) rule: String,
    pub(super) reply: Reply,
    pub(super) manner: Manner,
}

impl Provider {
    pub(super) fn new(script: ProviderScript) -> Self {
        Self { script, counters: ProviderCounters::default(), requests: VecDeque::new(), kept: 0 }
    }

    /// Answers a request to complete a chat.
    pub(super) fn complete(&mut self, request: &Request) -> Ready {
        self.counters.requests += 1;
        let number = self.counters.requests;
        let asked = serde_json::from_slice(request.body.reveal()).ok().and_then(Asked::of);
        let ready = self.answer(request, number, asked.as_ref());
        let hash = Sha256Hash::of(request.body.reveal());
        *self.counters.rules.entry(ready.rule.clone()).or_default() += 1;
        let bodies = &mut self.counters.bodies;
        let body = hash.to_string();
        if bodies.len() < BODIES_MAX || bodies.contains_key(&body) {
            *bodies.entry(body).or_default() += 1;
        }
        self.keep(ProviderRequest {
            number,
            rule: ready.rule.clone(),
            model: asked.as_ref().map(|asked| asked.model.clone()),
            stream: asked.as_ref().is_some_and(|asked| asked.stream),
            body: request.body.clone(),
            hash,
        });
        ready
    }

    /// Keeps a request, and lets go of the oldest ones if it is too much.
    fn keep(&mut self, request: ProviderRequest) {
        self.kept += request.body.reveal().len();
        self.requests.push_back(request);
        while self.requests.len() > REQUESTS_MAX
            || (self.kept > REQUESTS_BYTES_MAX && self.requests.len() > 1)
        {
            let Some(oldest) = self.requests.pop_front() else { return };
            self.kept -= oldest.body.reveal().len();
        }
    }

    fn answer(&self, request: &Request, number: u64, asked: Option<&Asked>) -> Ready {
        if let Some(token) = &self.script.token {
            let wanted = format!("Bearer {}", token.reveal());
            if request.header("authorization") != Some(wanted.as_str()) {
                return refused("unauthorized", 401, "invalid_api_key");
            }
        }
        let Some(asked) = asked else { return refused("malformed", 400, "invalid_request_error") };
        if !self.script.models.is_empty() && !self.script.models.contains(&asked.model) {
            return refused("model", 404, "model_not_found");
        }
        let rule = self.script.rules.iter().find(|rule| self.holds(&rule.name, &rule.when, number, asked));
        let (rule, answer) = match rule {
            Some(rule) => (rule.name.clone(), &rule.answer),
            None => ("otherwise".to_owned(), &self.script.otherwise),
        };
        Ready { rule, reply: reply(answer, asked, number), manner: answer.manner.clone() }
    }

    fn holds(&self, name: &str, when: &When, number: u64, asked: &Asked) -> bool {
        let used = self.counters.rules.get(name).copied().unwrap_or_default();
        let has = |text: &Content<String>, whole: &Content<String>| whole.reveal().contains(text.reveal());
        when.nth.is_none_or(|nth| nth == number)
            && when.times.is_none_or(|times| used < times)
            && when.contains.as_ref().is_none_or(|text| has(text, &asked.user))
            && when.system.as_ref().is_none_or(|text| has(text, &asked.system))
            && when.model.as_ref().is_none_or(|model| *model == asked.model)
            && when.has.as_ref().is_none_or(|member| asked.members.contains(member))
            && when.offers.as_ref().is_none_or(|tool| asked.tools.contains(tool))
    }

    /// Lists the models.
    pub(super) fn models(&self) -> Reply {
        let model =
            |id: &String| json!({ "id": id, "object": "model", "created": 0, "owned_by": "rehearsal" });
        let models: Vec<Json> = self.script.models.iter().map(model).collect();
        Reply::json(200, &json!({ "object": "list", "data": models }))
    }
}

fn refused(rule: &str, status: u16, code: &str) -> Ready {
    let reply = completion::error(status, code, None);
    Ready { rule: rule.to_owned(), reply, manner: Manner::default() }
}

fn reply(answer: &Answer, asked: &Asked, number: u64) -> Reply {
    let bare = |body: Body| Reply {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body,
    };
    match &answer.says {
        Says::Echo | Says::Text(_) | Says::Tools { .. } => completion::reply(answer, asked, number),
        Says::Error { status, code, retry_after } => completion::error(*status, code, *retry_after),
        Says::Body { status, headers, bytes } => {
            Reply { status: *status, headers: headers.clone(), body: Body::Whole(bytes.clone()) }
        }
        Says::Fill(bytes) => bare(Body::Fill(*bytes)),
        Says::Endless => bare(Body::Endless),
        Says::Raw(bytes) => bare(Body::Raw(bytes.clone())),
    }
}

/// Is what a request asks, as far as a script looks at it.
#[derive(Debug)]
struct Asked {
    model: String,
    stream: bool,
    /// Whether the stream is to end with what it cost.
    stream_usage: bool,
    /// The user's last message.
    user: Content<String>,
    /// All messages of the system.
    system: Content<String>,
    /// The characters of all messages.
    characters: usize,
    /// The names of the request's members.
    members: Vec<String>,
    /// The names of the tools it offers.
    tools: Vec<String>,
}

impl Asked {
    fn of(body: Json) -> Option<Self> {
        let model = body.get("model")?.as_str()?.to_owned();
        let messages = body.get("messages")?.as_array()?;
        let of_role = |roles: &'static [&str]| {
            messages.iter().filter(move |message| {
                message.get("role").and_then(Json::as_str).is_some_and(|role| roles.contains(&role))
            })
        };
        let system: Vec<String> = of_role(&["system", "developer"]).map(text_of).collect();
        Some(Self {
            model,
            stream: body.get("stream").and_then(Json::as_bool).unwrap_or_default(),
            stream_usage: body.pointer("/stream_options/include_usage").is_some_and(|value| value == true),
            user: Content::new(of_role(&["user"]).next_back().map(text_of).unwrap_or_default()),
            system: Content::new(system.join("\n")),
            characters: messages.iter().map(|message| text_of(message).chars().count()).sum(),
            members: body.as_object()?.keys().cloned().collect(),
            tools: tools(&body),
        })
    }
}

/// Returns the names of the tools that a request offers.
fn tools(body: &Json) -> Vec<String> {
    let tools = body.get("tools").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let name = |tool: &Json| tool.pointer("/function/name").and_then(Json::as_str).map(str::to_owned);
    tools.iter().filter_map(name).collect()
}

/// Returns the text of a message; images say nothing.
fn text_of(message: &Json) -> String {
    match message.get("content") {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Json::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
