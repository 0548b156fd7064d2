//! What an answer consists of, whether it came whole or in pieces, and what must be true of it.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::contract::{Counts, FinalPart};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::payload::trace::{Role, Step, TraceChunk};
use thoughtstream_domain::provider::{
    Answer, AnswerPart, AskError, ModelRequest, Profile, ProviderCode, StopReason, Usage, is_model_name,
};

/// A template around the conversation adds this many tokens at most; a token has at least one byte otherwise.
const TEMPLATE_TOKENS_MAX: u64 = 4096;

/// No model writes more in one answer; a larger number is none.
const OUTPUT_TOKENS_MAX: u64 = 1_000_000;

/// No answer costs more than ten thousand dollars; a larger number is none.
const COST_USD_MAX: f64 = 10_000.0;

/// A model that calls more tools at once than this has lost its way.
const CALLS_MAX: usize = 64;

/// Ids of calls are short.
const CALL_ID_BYTES_MAX: usize = 256;

/// Is what an answer is held to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) request: &'a ModelRequest,
    /// The size of the request as it was sent.
    pub(super) body_bytes: usize,
    pub(super) response_bytes_max: usize,
    pub(super) reports_cost: bool,
}

/// Counts and hashes what is not kept.
#[derive(Debug, Default)]
struct Thought {
    bytes: u64,
    hasher: Sha256,
}

/// Is a tool call as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// Is an answer as far as it has come.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    pub(super) rules: Rules<'a>,
    texts: Vec<String>,
    thought: Option<Thought>,
    pub(super) calls: Vec<Call>,
    declined: bool,
    pub(super) stop: Option<StopReason>,
    model: Option<String>,
    usage: Usage,
    /// How many pieces it came in; none when it came whole.
    pub(super) updates: Option<u64>,
}

impl<'a> Gathered<'a> {
    pub(super) const fn new(rules: Rules<'a>) -> Self {
        Self {
            rules,
            texts: Vec::new(),
            thought: None,
            calls: Vec::new(),
            declined: false,
            stop: None,
            model: None,
            usage: Usage { input: None, output: None, cost_microusd: None },
            updates: None,
        }
    }

    /// Adds what is known so far to an error.
    pub(super) fn failed(&self, error: AskError) -> AskError {
        AskError { usage: self.usage, trace: self.pieces().into_iter().collect(), ..error }
    }

    /// Says how many pieces came, if it came in pieces.
    fn pieces(&self) -> Option<TraceChunk> {
        let count = self.updates.filter(|count| *count > 0);
        count.map(|count| TraceChunk { count: Some(count), ..TraceChunk::of(Step::UpdatesCoalesced) })
    }

    /// Makes the error of a code, with what is known so far.
    pub(super) fn error(&self, code: ProviderCode) -> AskError {
        self.failed(code.into())
    }

    /// Takes a text of its own.
    pub(super) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.texts.push(text.to_owned());
        }
    }

    /// Continues the one text.
    pub(super) fn more_text(&mut self, text: &str) {
        match self.texts.last_mut() {
            Some(last) => last.push_str(text),
            None => self.text(text),
        }
    }

    pub(super) fn thought(&mut self, text: &str) {
        if !text.is_empty() {
            let thought = self.thought.get_or_insert_default();
            thought.bytes += text.len() as u64;
            thought.hasher.update(text);
        }
    }

    pub(super) const fn declined(&mut self) {
        self.declined = true;
    }

    /// Takes the members that a whole message and a piece of one have in common. `add` takes text.
    pub(super) fn members(&mut self, message: &Value, add: fn(&mut Self, &str)) -> Result<(), AskError> {
        let malformed = || ProviderCode::AnswerMalformed;
        let members = message.as_object().ok_or_else(|| self.error(malformed()))?;
        match members.get("role") {
            None | Some(Value::Null) => {}
            Some(Value::String(role)) if role == "assistant" => {}
            Some(_) => return Err(self.error(malformed())),
        }
        match members.get("content") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => add(self, text),
            Some(Value::Array(parts)) => {
                for part in parts {
                    let text = part.get("text").and_then(Value::as_str);
                    let is_text = part.get("type").and_then(Value::as_str) == Some("text");
                    self.text(text.filter(|_| is_text).ok_or_else(|| self.error(malformed()))?);
                }
            }
            Some(_) => return Err(self.error(malformed())),
        }
        match members.get("refusal") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(_)) => self.declined(),
            Some(_) => return Err(self.error(malformed())),
        }
        // Servers disagree about the name, and some write both.
        let thoughts = ["reasoning_content", "reasoning"].map(|name| members.get(name));
        match thoughts.into_iter().flatten().find(|value| !value.is_null()) {
            None => {}
            Some(Value::String(text)) => self.thought(text),
            Some(_) => return Err(self.error(malformed())),
        }
        // The form before there were several calls is never asked for.
        if members.get("function_call").is_some_and(|call| !call.is_null()) {
            return Err(self.error(ProviderCode::AnswerTools));
        }
        if members.get("audio").is_some_and(|audio| !audio.is_null()) {
            return Err(self.error(malformed()));
        }
        Ok(())
    }

    /// Takes the name of the model that answers.
    pub(super) fn model(&mut self, named: Option<&Value>) -> Result<(), AskError> {
        let named = named.and_then(Value::as_str).ok_or_else(|| self.error(ProviderCode::AnswerMalformed))?;
        let asked = &self.rules.request.model;
        let known = self.model.as_deref().is_none_or(|known| known == named);
        if !known || !is_model_name(named) || !Profile::is_same_model(asked, named) {
            return Err(self.error(ProviderCode::AnswerModel));
        }
        self.model = Some(named.to_owned());
        Ok(())
    }

    /// Takes the reason why it ended.
    pub(super) fn stop(&mut self, reason: &Value) -> Result<(), AskError> {
        self.stop = Some(match reason.as_str() {
            Some("stop") => StopReason::Stop,
            Some("length") => StopReason::Length,
            Some("tool_calls") => StopReason::ToolCalls,
            Some("content_filter") => StopReason::ContentFilter,
            Some(_) => return Err(self.error(ProviderCode::AnswerStop)),
            None => return Err(self.error(ProviderCode::AnswerMalformed)),
        });
        Ok(())
    }

    /// Takes what the provider reports. Each number counts by itself, and only where it can be believed: a
    /// number that is missing, zero, of another kind or beyond any bound leaves the estimate in its place.
    pub(super) fn usage(&mut self, usage: Option<&Value>) {
        let Some(Value::Object(usage)) = usage else { return };
        let input_max = self.rules.body_bytes as u64 + TEMPLATE_TOKENS_MAX;
        let tokens = |name: &str, max: u64| {
            let number = usage.get(name).and_then(Value::as_u64);
            number.filter(|number| (1..=max).contains(number))
        };
        let input = tokens("prompt_tokens", input_max);
        let output = tokens("completion_tokens", OUTPUT_TOKENS_MAX);
        let cost = usage.get("cost").and_then(Value::as_f64).filter(|_| self.rules.reports_cost);
        let cost = cost.filter(|cost| *cost > 0.0 && *cost <= COST_USD_MAX);
        // Between 1 and 10^10 after rounding up, so nothing is cut off.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
        let cost_microusd = cost.map(|cost| (cost * 1e6).ceil() as u64);
        self.usage = Usage { input, output, cost_microusd };
    }

    /// Judges the whole.
    pub(super) fn finish(self) -> Result<(Answer, Vec<TraceChunk>), AskError> {
        let Some(mut stop) = self.stop else { return Err(self.error(ProviderCode::AnswerMalformed)) };
        let Some(model) = self.model.clone() else { return Err(self.error(ProviderCode::AnswerMalformed)) };
        if self.declined {
            stop = StopReason::Refusal;
        }
        self.judge_calls()?;
        let updates = self.pieces();
        let mut parts: Vec<AnswerPart> = Vec::new();
        if let Some(thought) = self.thought {
            let sha256 = Sha256Hash::from_bytes(thought.hasher.finalize().into());
            parts.push(AnswerPart::Thinking { bytes: thought.bytes, sha256 });
        }
        parts.extend(self.texts.into_iter().map(|text| AnswerPart::Text(Content::new(text))));
        parts.extend(self.calls.into_iter().map(|call| AnswerPart::ToolCall {
            id: call.id,
            name: call.name,
            arguments: Content::new(call.arguments),
        }));
        let answer = Answer { parts, stop, usage: self.usage, model };
        let trace = about(&answer, self.rules.request, updates);
        Ok((answer, trace))
    }

    fn judge_calls(&self) -> Result<(), AskError> {
        let offered = |call: &Call| self.rules.request.tools.iter().any(|tool| tool.name == call.name);
        let whole = |call: &Call| {
            (1..=CALL_ID_BYTES_MAX).contains(&call.id.len())
                && call.id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !self.calls.iter().all(offered) {
            return Err(self.error(ProviderCode::AnswerTools));
        }
        let twice = |call: &Call| self.calls.iter().filter(|other| other.id == call.id).count() > 1;
        if self.calls.len() > CALLS_MAX || !self.calls.iter().all(|call| whole(call) && !twice(call)) {
            return Err(self.error(ProviderCode::AnswerMalformed));
        }
        Ok(())
    }
}

/// Says whether a call is one of a function, which is the only kind there is where nothing is said.
pub(super) fn is_function(call: &Value) -> bool {
    match call.get("type") {
        None | Some(Value::Null) => true,
        Some(kind) => kind == "function" || kind == "",
    }
}

/// Says what may be kept about an answer.
fn about(answer: &Answer, asked: &ModelRequest, updates: Option<TraceChunk>) -> Vec<TraceChunk> {
    let parts: Vec<FinalPart> = answer.parts.iter().map(FinalPart::from).collect();
    let answered = TraceChunk {
        role: Some(Role::Assistant),
        model: Some(asked.model.clone()),
        stop: Some(answer.stop.into()),
        counts: Some(Counts::of(&parts)),
        ..TraceChunk::of(Step::Answered)
    };
    updates.into_iter().chain([answered]).collect()
}
