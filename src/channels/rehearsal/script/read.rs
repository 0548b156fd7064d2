//! Reading a script: its form by the tables, and what only the whole shows to be wrong.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::yaml::{self, Code, Limits, Node, Problem, Source, Span, Value, duration_ms};

use super::super::provider::{Answer, CallId, ProviderScript, Rule, Says, ToolCall, Usage, When};
use super::super::telegram::{Bot, TelegramScript};
use super::super::wire::{Cut, CutAt, CutHow, Drip, Manner};
use super::Script;
use super::keys::SCRIPT;

/// The longest script: it may carry a few images.
pub const BYTES_MAX: usize = 4 << 20;

const LIMITS: Limits = Limits { bytes_max: BYTES_MAX };

/// The kinds of problem that only a script has.
pub mod codes {
    use super::Code;

    /// Of several keys exactly one must be there.
    pub const ONE_OF: Code = Code::new("script.one-of");
    /// Two keys do not go together.
    pub const TOGETHER: Code = Code::new("script.not-together");
    /// A text is not JSON.
    pub const JSON: Code = Code::new("script.json");
    /// A text is not base64.
    pub const BASE64: Code = Code::new("script.base64");
    /// Two rules have one name.
    pub const SAME_NAME: Code = Code::new("script.same-name");
}

/// Reads a script from its text.
///
/// # Errors
/// Every problem, in the order of the text.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Script, Vec<Problem>> {
    let reading = yaml::read(name, bytes, LIMITS);
    let mut problems = reading.problems;
    let mut script = Script::default();
    // An empty script plays what needs no script.
    if let Some(root) = reading.root.filter(|root| root.value != Value::Null) {
        yaml::check(&reading.source, &root, &SCRIPT, &mut problems);
        let mut reader = Reader { source: &reading.source, problems: &mut problems };
        if let Some(node) = root.get("provider") {
            script.provider = reader.provider(node);
        }
        if let Some(node) = root.get("telegram") {
            script.telegram = reader.telegram(node);
        }
    }
    if problems.is_empty() {
        return Ok(script);
    }
    Err(yaml::listed(problems))
}

/// Reads what has the right shape, and reports what only the whole shows to be wrong.
pub(super) struct Reader<'a> {
    pub(super) source: &'a Source,
    pub(super) problems: &'a mut Vec<Problem>,
}

/// The keys of which an answer of the provider has exactly one.
const SAYS: [&str; 10] =
    ["echo", "text", "json", "tools", "error", "body", "bodyBase64", "fill", "endless", "rawBase64"];

impl Reader<'_> {
    pub(super) fn report(&mut self, span: Span, code: Code, message: impl Into<String>, hint: &str) {
        self.problems.push(self.source.problem(span, code, message).with_hint(hint));
    }

    fn provider(&mut self, node: &Node) -> ProviderScript {
        let mut names = BTreeSet::from(["otherwise".to_owned()]);
        let items = node.get("rules").map(Node::items).unwrap_or_default();
        let mut rules = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let name = self.rule_name(item, at, &mut names);
            let when = item.get("when").map(when).unwrap_or_default();
            let answer = item.get("answer").map(|node| self.answer(node)).unwrap_or_default();
            rules.push(Rule { name, when, answer });
        }
        let models = node.get("models").map(Node::items).unwrap_or_default();
        ProviderScript {
            token: text(node, "token").map(Content::new),
            models: models.iter().filter_map(Node::text).map(str::to_owned).collect(),
            rules,
            otherwise: node.get("otherwise").map(|node| self.answer(node)).unwrap_or_default(),
        }
    }

    /// Returns a rule's name. What a rule answered is counted by it, so that two cannot share one.
    pub(super) fn rule_name(&mut self, item: &Node, at: usize, names: &mut BTreeSet<String>) -> String {
        let name = text(item, "name").unwrap_or_else(|| format!("rule-{}", at + 1));
        if !names.insert(name.clone()) {
            let span = item.get("name").map_or(item.span, |node| node.span);
            self.report(
                span,
                codes::SAME_NAME,
                "this name is taken",
                "what rules answer is counted by their names",
            );
        }
        name
    }

    fn answer(&mut self, node: &Node) -> Answer {
        Answer {
            says: self.says(node),
            usage: node.get("usage").map(usage).unwrap_or_default(),
            finish: text(node, "finish"),
            piece: node.get("piece").and_then(size).and_then(|size| usize::try_from(size).ok()),
            in_turn: node.get("inTurn").and_then(Node::bool).unwrap_or_default(),
            manner: self.manner(node),
        }
    }

    fn says(&mut self, node: &Node) -> Says {
        let said: Vec<&str> =
            node.entries().iter().map(|entry| entry.key.as_str()).filter(|key| SAYS.contains(key)).collect();
        match said.as_slice() {
            [_] | ["text", "tools"] | ["tools", "text"] => {}
            [] => self.report(
                node.span,
                codes::ONE_OF,
                "nothing says what is answered",
                "one of echo, text, json, tools, error, body, bodyBase64, fill, endless, rawBase64",
            ),
            [_, other, ..] => {
                let span = node.entry(other).map_or(node.span, |entry| entry.key_span);
                self.report(
                    span,
                    codes::ONE_OF,
                    "something else is answered already",
                    "only `text` and `tools` stand together",
                );
            }
        }
        self.only_beside(node, "status", &["body", "bodyBase64"]);
        self.only_beside(node, "headers", &["body", "bodyBase64"]);
        self.only_beside(node, "inTurn", &["tools"]);
        for key in ["echo", "endless", "inTurn"] {
            self.only_true(node, key);
        }
        self.said(node)
    }

    fn said(&mut self, node: &Node) -> Says {
        let content = |key: &str| text(node, key).map(Content::new);
        if let Some(tools) = node.get("tools") {
            return Says::Tools {
                text: content("text"),
                calls: tools.items().iter().filter_map(|item| self.call(item)).collect(),
            };
        }
        if let Some(text) = content("text") {
            return Says::Text(text);
        }
        if let Some(json) = node.get("json") {
            return Says::Text(Content::new(
                self.json(json).map(|json| json.to_string()).unwrap_or_default(),
            ));
        }
        if let Some(error) = node.get("error") {
            let status = error.get("status").and_then(status).unwrap_or(500);
            let code = text(error, "code").unwrap_or_else(|| "rehearsed".to_owned());
            return Says::Error { status, code, retry_after: self.seconds(error, "retryAfter") };
        }
        if let Some(bytes) = self.body(node) {
            let mut headers: Vec<(String, String)> = node
                .get("headers")
                .map(Node::entries)
                .unwrap_or_default()
                .iter()
                .filter_map(header)
                .collect();
            if !headers.iter().any(|(name, _)| name == "content-type") {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
            }
            return Says::Body { status: node.get("status").and_then(status).unwrap_or(200), headers, bytes };
        }
        if let Some(bytes) = node.get("fill").and_then(size) {
            return Says::Fill(bytes);
        }
        if node.get("endless").is_some() {
            return Says::Endless;
        }
        match node.get("rawBase64") {
            Some(raw) => Says::Raw(Content::new(self.base64(raw))),
            None => Says::Echo,
        }
    }

    fn call(&mut self, node: &Node) -> Option<ToolCall> {
        self.only_true(node, "withoutId");
        if let (Some(_), Some(other)) = (node.get("id"), node.entry("withoutId")) {
            self.report(other.key_span, codes::TOGETHER, "it has an id", "remove one of the two");
        }
        let id = match (text(node, "id"), node.get("withoutId")) {
            (Some(id), _) => CallId::Given(id),
            (None, Some(_)) => CallId::Missing,
            (None, None) => CallId::Own,
        };
        let arguments = text(node, "arguments").map(Content::new)?;
        Some(ToolCall { name: text(node, "name")?, arguments, id, index: node.get("index").and_then(size) })
    }

    /// Returns a body of the script's own.
    pub(super) fn body(&mut self, node: &Node) -> Option<Content<Vec<u8>>> {
        if let (Some(_), Some(other)) = (node.get("body"), node.entry("bodyBase64")) {
            self.report(
                other.key_span,
                codes::TOGETHER,
                "there is a body already",
                "write it as text or in base64, not both",
            );
        }
        match (text(node, "body"), node.get("bodyBase64")) {
            (Some(text), _) => Some(Content::new(text.into_bytes())),
            (None, Some(encoded)) => Some(Content::new(self.base64(encoded))),
            (None, None) => None,
        }
    }

    pub(super) fn manner(&mut self, node: &Node) -> Manner {
        let ms =
            |node: &Node, key: &str| text(node, key).as_deref().and_then(duration_ms).unwrap_or_default();
        if let (Some(_), Some(reset)) = (node.get("cut"), node.entry("reset")) {
            self.report(
                reset.key_span,
                codes::TOGETHER,
                "the connection is cut already",
                "it ends once: by `cut` or by `reset`",
            );
        }
        let cut = |key: &str, how: CutHow| node.get(key).and_then(cut_at).map(|at| Cut { at, how });
        let drip = node.get("drip").and_then(|drip| {
            let bytes = drip.get("bytes").and_then(size)?;
            Some(Drip { bytes: usize::try_from(bytes).ok()?, every_ms: ms(drip, "every") })
        });
        Manner {
            hold: text(node, "hold"),
            delay_ms: ms(node, "delay"),
            drip,
            cut: cut("cut", CutHow::Close).or_else(|| cut("reset", CutHow::Reset)),
        }
    }

    /// Refuses `key` where none of `others` gives it a meaning.
    pub(super) fn only_beside(&mut self, node: &Node, key: &str, others: &[&str]) {
        let Some(entry) = node.entry(key) else { return };
        if !others.iter().any(|other| node.get(other).is_some()) {
            let span = entry.key_span;
            let message = format!("`{key}` means nothing here");
            self.report(span, codes::TOGETHER, message, &format!("it belongs to {}", others.join(" or ")));
        }
    }

    /// Refuses `key: false`: the key alone says it.
    pub(super) fn only_true(&mut self, node: &Node, key: &str) {
        if let Some(value) = node.get(key).filter(|value| value.bool() == Some(false)) {
            let message = format!("`{key}` is only ever true");
            self.report(value.span, codes::TOGETHER, message, "remove the key");
        }
    }

    /// Returns a length of time in whole seconds, begun ones counted.
    pub(super) fn seconds(&mut self, node: &Node, key: &str) -> Option<u64> {
        let ms = duration_ms(node.get(key)?.text()?)?;
        Some(ms.div_ceil(1000))
    }

    /// Reads a text as one JSON value; an error says where in the text, and nothing of it.
    pub(super) fn json(&mut self, node: &Node) -> Option<serde_json::Value> {
        match serde_json::from_str(node.text()?) {
            Ok(value) => Some(value),
            Err(error) => {
                let message =
                    format!("this is not JSON at line {}, column {} of it", error.line(), error.column());
                self.report(node.span, codes::JSON, message, "put it between single quotes, or behind `|`");
                None
            }
        }
    }

    /// Reads bytes; white space between them is passed over.
    pub(super) fn base64(&mut self, node: &Node) -> Vec<u8> {
        let text: String = node.text().unwrap_or_default().split_whitespace().collect();
        STANDARD.decode(text).unwrap_or_else(|_| {
            self.report(node.span, codes::BASE64, "this is not base64", "`base64 -w0 FILE` makes it");
            Vec::new()
        })
    }

    pub(super) fn bot(node: &Node) -> Bot {
        let known = Bot::default();
        Bot {
            id: node.get("id").and_then(id).unwrap_or(known.id),
            username: text(node, "username").unwrap_or(known.username),
            name: text(node, "name").unwrap_or(known.name),
        }
    }

    fn telegram(&mut self, node: &Node) -> TelegramScript {
        let known = TelegramScript::default();
        let bot = node.get("bot").map_or(known.bot, Self::bot);
        let chats = node.get("chats").map(Node::items).unwrap_or_default();
        TelegramScript {
            token: text(node, "token").map_or(known.token, Content::new),
            bot,
            chats: chats.iter().filter_map(id).collect(),
            first_update: node.get("firstUpdate").and_then(Node::integer).unwrap_or(known.first_update),
            updates: self.updates(node),
            rules: self.call_rules(node),
        }
    }
}

fn when(node: &Node) -> When {
    When {
        nth: node.get("nth").and_then(size),
        contains: text(node, "contains").map(Content::new),
        system: text(node, "system").map(Content::new),
        model: text(node, "model"),
        has: text(node, "has"),
        offers: text(node, "offers"),
        times: node.get("times").and_then(size),
    }
}

fn usage(node: &Node) -> Usage {
    if let (Some(prompt), Some(completion)) =
        (node.get("prompt").and_then(size), node.get("completion").and_then(size))
    {
        return Usage::Given { prompt, completion };
    }
    match node.text() {
        Some("missing") => Usage::Missing,
        Some("nothing") => Usage::Null,
        Some("prompt-only") => Usage::PromptOnly,
        Some("absurd") => Usage::Absurd,
        Some("negative") => Usage::Negative,
        Some("as-text") => Usage::Text,
        _ => Usage::Counted,
    }
}

fn cut_at(node: &Node) -> Option<CutAt> {
    match node.text() {
        Some("request") => Some(CutAt::Request),
        Some("head") => Some(CutAt::Head),
        Some(_) => None,
        None => size(node).map(CutAt::Body),
    }
}

fn header(entry: &yaml::Entry) -> Option<(String, String)> {
    Some((entry.key.to_ascii_lowercase(), entry.node.text()?.to_owned()))
}

/// Returns a text under a key.
pub(super) fn text(node: &Node, key: &str) -> Option<String> {
    node.get(key)?.text().map(str::to_owned)
}

/// Returns a number that is not negative.
pub(super) fn size(node: &Node) -> Option<u64> {
    node.integer().and_then(|number| u64::try_from(number).ok())
}

pub(super) fn status(node: &Node) -> Option<u16> {
    node.integer().and_then(|number| u16::try_from(number).ok())
}

/// Returns an id, written as a number or, where that would not hold it, in quotes.
pub(super) fn id(node: &Node) -> Option<i64> {
    node.integer().or_else(|| node.text()?.parse().ok())
}
