//! Reads an answer that came in one piece: exactly one JSON value of the agreed form.

use serde_json::Value;
use thoughtstream_domain::canonical::{self, JsonError};
use thoughtstream_domain::payload::trace::TraceChunk;
use thoughtstream_domain::provider::{Answer, AskError, ProviderCode};

use super::gathered::{Call, Gathered, Rules, is_function};

/// Reads the body of a success.
pub(super) fn read(rules: &Rules<'_>, bytes: &[u8]) -> Result<(Answer, Vec<TraceChunk>), AskError> {
    let value = value(bytes, rules.response_bytes_max)?;
    let mut gathered = Gathered::new(*rules);
    gathered.usage(value.get("usage"));
    if value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(gathered.error(ProviderCode::AnswerError));
    }
    let Some(choices) = value.get("choices").and_then(Value::as_array) else {
        return Err(gathered.error(ProviderCode::AnswerMalformed));
    };
    let [choice] = choices.as_slice() else { return Err(gathered.error(ProviderCode::AnswerChoices)) };
    if choice.get("index").is_some_and(|index| index.as_u64() != Some(0)) {
        return Err(gathered.error(ProviderCode::AnswerChoices));
    }
    gathered.model(value.get("model"))?;
    let Some(message) = choice.get("message") else {
        return Err(gathered.error(ProviderCode::AnswerMalformed));
    };
    gathered.members(message, Gathered::text)?;
    calls(&mut gathered, message.get("tool_calls"))?;
    gathered.stop(choice.get("finish_reason").unwrap_or(&Value::Null))?;
    gathered.finish()
}

/// Reads one JSON value, and nothing around it.
pub(super) fn value(bytes: &[u8], bytes_max: usize) -> Result<Value, ProviderCode> {
    let value = canonical::parse(bytes, bytes_max).map_err(|error| match error {
        JsonError::TooLarge { .. } => ProviderCode::AnswerTooLarge,
        JsonError::NotUtf8 { .. } => ProviderCode::AnswerNotUtf8,
        JsonError::Malformed { .. } => ProviderCode::AnswerMalformed,
    })?;
    if value.is_object() { Ok(value) } else { Err(ProviderCode::AnswerMalformed) }
}

fn calls(gathered: &mut Gathered<'_>, calls: Option<&Value>) -> Result<(), AskError> {
    let calls = match calls {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(calls)) => calls,
        Some(_) => return Err(gathered.error(ProviderCode::AnswerMalformed)),
    };
    for call in calls {
        let of = |place: &Value, name: &str| place.get(name).and_then(Value::as_str).map(str::to_owned);
        let function = call.get("function").unwrap_or(&Value::Null);
        let (name, arguments) = (of(function, "name"), of(function, "arguments"));
        let whole = (of(call, "id"), name, arguments);
        let (true, (Some(id), Some(name), Some(arguments))) = (is_function(call), whole) else {
            return Err(gathered.error(ProviderCode::AnswerMalformed));
        };
        gathered.calls.push(Call { id, name, arguments });
    }
    Ok(())
}
