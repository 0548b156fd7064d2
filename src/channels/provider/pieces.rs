//! Reads an answer that comes in pieces (server-sent events), until the provider says that it was all.

use serde_json::Value;
use thoughtstream_domain::payload::trace::TraceChunk;
use thoughtstream_domain::provider::{Answer, AskError, ProviderCode};

use super::gathered::{Call, Gathered, Rules, is_function};
use super::whole::value;

/// A call's number in a stream; no model makes so many.
const CALL_INDEX_MAX: u64 = 64;

/// What a provider writes when it has said everything.
const DONE: &[u8] = b"[DONE]";

/// Is a stream as far as it has come.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    gathered: Gathered<'a>,
    /// A line that has not ended.
    line: Vec<u8>,
    /// The data of an event that has not ended.
    data: Option<Vec<u8>>,
    is_error: bool,
    done: bool,
}

impl<'a> Pieces<'a> {
    pub(super) const fn new(rules: Rules<'a>) -> Self {
        let mut gathered = Gathered::new(rules);
        gathered.updates = Some(0);
        Self { gathered, line: Vec::new(), data: None, is_error: false, done: false }
    }

    /// Adds what is known so far to an error.
    pub(super) fn failed(&self, error: AskError) -> AskError {
        self.gathered.failed(error)
    }

    /// Takes bytes as they come; says whether the provider has said everything.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<bool, AskError> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            self.line(&line)?;
            if self.done {
                return Ok(true);
            }
        }
        self.line.extend_from_slice(bytes);
        Ok(false)
    }

    /// Judges the whole, when the stream has ended.
    pub(super) fn end(self) -> Result<(Answer, Vec<TraceChunk>), AskError> {
        if !self.done {
            return Err(self.gathered.error(ProviderCode::AnswerIncomplete));
        }
        self.gathered.finish()
    }

    fn line(&mut self, line: &[u8]) -> Result<(), AskError> {
        if line.is_empty() {
            return match self.data.take() {
                Some(data) => self.event(&data),
                None => Ok(()),
            };
        }
        let (name, rest) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        match name {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(rest);
                }
                None => self.data = Some(rest.to_vec()),
            },
            b"event" => self.is_error = rest == b"error",
            // A comment, or what is for a client that would connect again.
            b"" | b"id" | b"retry" => {}
            _ => return Err(self.gathered.error(ProviderCode::AnswerMalformed)),
        }
        Ok(())
    }

    fn event(&mut self, data: &[u8]) -> Result<(), AskError> {
        if self.is_error {
            return Err(self.gathered.error(ProviderCode::AnswerError));
        }
        if data == DONE {
            self.done = true;
            return Ok(());
        }
        let bytes_max = self.gathered.rules.response_bytes_max;
        let piece = value(data, bytes_max).map_err(|code| self.gathered.error(code))?;
        let gathered = &mut self.gathered;
        if piece.get("usage").is_some_and(|usage| !usage.is_null()) {
            gathered.usage(piece.get("usage"));
        }
        if piece.get("error").is_some_and(|error| !error.is_null()) {
            return Err(gathered.error(ProviderCode::AnswerError));
        }
        let Some(choices) = piece.get("choices").and_then(Value::as_array) else {
            return Err(gathered.error(ProviderCode::AnswerMalformed));
        };
        let choice = match choices.as_slice() {
            // The last piece, which has the usage.
            [] => return Ok(()),
            [choice] => choice,
            _ => return Err(gathered.error(ProviderCode::AnswerChoices)),
        };
        if choice.get("index").is_some_and(|index| index.as_u64() != Some(0)) {
            return Err(gathered.error(ProviderCode::AnswerChoices));
        }
        gathered.model(piece.get("model"))?;
        self.choice(choice)
    }

    fn choice(&mut self, choice: &Value) -> Result<(), AskError> {
        let gathered = &mut self.gathered;
        if gathered.stop.is_some() {
            // Some servers repeat an empty piece; nothing may be said after the last word.
            let delta = choice.get("delta").and_then(Value::as_object);
            let says = |name: &str| delta.and_then(|delta| delta.get(name)).is_some_and(|v| !is_nothing(v));
            if ["content", "tool_calls", "refusal", "reasoning", "reasoning_content"].into_iter().any(says) {
                return Err(gathered.error(ProviderCode::AnswerMalformed));
            }
            return Ok(());
        }
        if let Some(delta) = choice.get("delta").filter(|delta| !delta.is_null()) {
            gathered.members(delta, Gathered::more_text)?;
            calls(gathered, delta.get("tool_calls"))?;
            gathered.updates = gathered.updates.map(|count| count + 1);
        }
        match choice.get("finish_reason") {
            None | Some(Value::Null) => Ok(()),
            Some(reason) => gathered.stop(reason),
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Takes pieces of tool calls: the first names the tool, the rest continue its arguments. Pieces of several calls
/// may come in turn; one that says another id or tool than its call has is part of another call, and which one
/// nobody knows.
fn calls(gathered: &mut Gathered<'_>, calls: Option<&Value>) -> Result<(), AskError> {
    let calls = match calls {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(calls)) => calls,
        Some(_) => return Err(gathered.error(ProviderCode::AnswerMalformed)),
    };
    for call in calls {
        let index = call.get("index").and_then(Value::as_u64).filter(|index| *index < CALL_INDEX_MAX);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|index| *index <= gathered.calls.len()) else {
            return Err(gathered.error(ProviderCode::AnswerMalformed));
        };
        if index == gathered.calls.len() {
            gathered.calls.push(Call::default());
        }
        if !continues(&mut gathered.calls[index], call) {
            return Err(gathered.error(ProviderCode::AnswerMalformed));
        }
    }
    Ok(())
}

/// Adds a piece to its call; says whether it is one of it.
fn continues(call: &mut Call, piece: &Value) -> bool {
    let nothing = Value::Null;
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    let function = piece.get("function").unwrap_or(&nothing);
    if !is_function(piece) || !(function.is_null() || function.is_object()) {
        return false;
    }
    for (said, known) in [(piece.get("id"), &mut call.id), (function.get("name"), &mut call.name)] {
        match text(said) {
            None => return false,
            // Some servers write empty ones, and some repeat them, with each piece.
            Some(said) if said.is_empty() || said == *known => {}
            Some(said) if known.is_empty() => *known = said,
            Some(_) => return false,
        }
    }
    let more = text(function.get("arguments"));
    call.arguments.push_str(more.as_deref().unwrap_or_default());
    more.is_some()
}
