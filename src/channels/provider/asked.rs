//! Writes a frozen request in the provider's words: the listed members and nothing else.

use serde_json::{Map, Value, json};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::provider::{
    Message, ModelRequest, Part, Profile, ResponseFormat, Role, ThinkingLevel, ThinkingStyle,
};

/// Returns the body of the request. Whether the profile admits it was asked before.
pub(super) fn body(profile: &Profile, request: &ModelRequest) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.clone().into());
    body.insert("messages".to_owned(), request.messages.iter().map(message).collect());
    body.insert(profile.output_limit.member().to_owned(), request.max_output_tokens.into());
    body.insert("n".to_owned(), 1.into());
    body.insert("stream".to_owned(), request.stream.into());
    if request.stream {
        // Without it a stream says nothing about what it used.
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    }
    let level = request.thinking;
    match profile.thinking {
        ThinkingStyle::None => {}
        ThinkingStyle::ChatTemplate => {
            let enabled = level != ThinkingLevel::Off;
            body.insert("chat_template_kwargs".to_owned(), json!({ "enable_thinking": enabled }));
        }
        ThinkingStyle::ReasoningEffort => {
            let effort = if level == ThinkingLevel::Off { "none" } else { level.as_str() };
            body.insert("reasoning_effort".to_owned(), effort.into());
        }
    }
    let format = match &request.response {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(json!({ "type": "json_object" })),
        ResponseFormat::JsonSchema { name, schema } => Some(json!({
            "type": "json_schema",
            "json_schema": { "name": name, "strict": true, "schema": schema },
        })),
    };
    body.extend(format.map(|format| ("response_format".to_owned(), format)));
    if !request.tools.is_empty() {
        let tool = |tool: &thoughtstream_domain::provider::Tool| {
            json!({ "type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            } })
        };
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
        // Whether it calls one is the model's to decide.
        body.insert("tool_choice".to_owned(), "auto".into());
    }
    Value::Object(body).to_string().into_bytes()
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut said = Map::new();
    said.insert("role".to_owned(), role.into());
    let mut parts: Vec<Value> = Vec::new();
    let mut calls: Vec<Value> = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text } => parts.push(json!({ "type": "text", "text": text })),
            Part::Image { mime, data } => {
                let url = format!("data:{};base64,{}", mime.as_str(), data.reveal());
                parts.push(json!({ "type": "image_url", "image_url": { "url": url } }));
            }
            Part::ToolCall { id, name, arguments } => calls.push(json!({
                "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
            })),
            Part::ToolResult { call, text } => {
                said.insert("tool_call_id".to_owned(), call.as_str().into());
                parts.push(json!({ "type": "text", "text": text }));
            }
        }
    }
    // One text is written as such: not every server takes a list where a text would do.
    let only = match message.parts.iter().find(|part| !matches!(part, Part::ToolCall { .. })) {
        Some(Part::Text { text } | Part::ToolResult { text, .. }) if parts.len() == 1 => Some(text),
        _ => None,
    };
    let content = match (only.map(Content::reveal), parts.is_empty()) {
        (Some(text), _) => text.as_str().into(),
        (None, true) => Value::Null,
        (None, false) => Value::Array(parts),
    };
    said.insert("content".to_owned(), content);
    if !calls.is_empty() {
        said.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(said)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use thoughtstream_domain::provider::{Endpoint, ImageKind, OutputLimit, ProfileName, Tool};

    use super::*;

    fn profile(thinking: ThinkingStyle) -> Profile {
        let endpoint = Endpoint::parse("http://127.0.0.1:1").unwrap();
        let mut profile = Profile::new(ProfileName::parse("p").unwrap(), endpoint, BTreeSet::new());
        profile.thinking = thinking;
        profile
    }

    fn request() -> ModelRequest {
        ModelRequest {
            model: "m".to_owned(),
            messages: vec![Message::text(Role::System, "s"), Message::text(Role::User, "u")],
            max_output_tokens: 7,
            thinking: ThinkingLevel::Off,
            response: ResponseFormat::Text,
            tools: Vec::new(),
            stream: false,
        }
    }

    fn said(profile: &Profile, request: &ModelRequest) -> Value {
        serde_json::from_slice(&body(profile, request)).unwrap()
    }

    #[test]
    fn only_the_listed_members_are_said() {
        let expected = json!({
            "model": "m",
            "messages": [{ "role": "system", "content": "s" }, { "role": "user", "content": "u" }],
            "max_tokens": 7, "n": 1, "stream": false,
        });
        assert_eq!(said(&profile(ThinkingStyle::None), &request()), expected);
        let mut other = profile(ThinkingStyle::None);
        other.output_limit = OutputLimit::MaxCompletionTokens;
        let streamed = said(&other, &ModelRequest { stream: true, ..request() });
        assert_eq!(streamed["max_completion_tokens"], 7);
        assert_eq!(streamed.get("max_tokens"), None);
        assert_eq!(streamed["stream_options"], json!({ "include_usage": true }));
    }

    #[test]
    fn thinking_is_said_as_the_profile_understands_it() {
        let of = |style, thinking| said(&profile(style), &ModelRequest { thinking, ..request() });
        for level in ThinkingLevel::ALL {
            let template = of(ThinkingStyle::ChatTemplate, level);
            assert_eq!(
                template["chat_template_kwargs"],
                json!({ "enable_thinking": level != ThinkingLevel::Off })
            );
            let effort = of(ThinkingStyle::ReasoningEffort, level);
            let word = if level == ThinkingLevel::Off { "none" } else { level.as_str() };
            assert_eq!(effort["reasoning_effort"], word);
        }
        let none = of(ThinkingStyle::None, ThinkingLevel::Off);
        assert!(none.get("chat_template_kwargs").is_none() && none.get("reasoning_effort").is_none());
    }

    #[test]
    fn images_tools_and_their_results_keep_their_native_roles() {
        let text = |text: &str| Content::new(text.to_owned());
        let mut request = request();
        request.messages[1].parts.push(Part::Image { mime: ImageKind::Png, data: text("AA==") });
        let call = Part::ToolCall { id: "c1".to_owned(), name: "note".to_owned(), arguments: text("{}") };
        request.messages.push(Message { role: Role::Assistant, parts: vec![call] });
        let result = Part::ToolResult { call: "c1".to_owned(), text: text("kept") };
        request.messages.push(Message { role: Role::Tool, parts: vec![result] });
        let parameters = json!({ "type": "object", "additionalProperties": false,
            "properties": { "text": { "type": "string", "minLength": 1, "maxLength": 9 } } });
        let tool = |name: &str| Tool {
            name: name.to_owned(),
            description: "d".to_owned(),
            parameters: parameters.clone(),
        };
        request.tools = vec![tool("note"), tool("ask")];
        request.response = ResponseFormat::JsonSchema { name: "o".to_owned(), schema: json!({}) };
        let said = said(&profile(ThinkingStyle::None), &request);
        assert_eq!(
            said["messages"].as_array().unwrap()[1..],
            [
                json!({ "role": "user", "content": [
                    { "type": "text", "text": "u" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } },
                ] }),
                json!({ "role": "assistant", "content": null, "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "note", "arguments": "{}" } },
                ] }),
                json!({ "role": "tool", "tool_call_id": "c1", "content": "kept" }),
            ]
        );
        // Nothing is added to what was frozen, and nothing taken from it.
        let function = json!({ "name": "note", "description": "d", "parameters": parameters });
        assert_eq!(said["tools"][0], json!({ "type": "function", "function": function }));
        assert_eq!(
            (&said["tools"][1]["function"]["name"], &said["tool_choice"]),
            (&json!("ask"), &json!("auto"))
        );
        assert_eq!(said["response_format"]["json_schema"]["strict"], true);
    }
}
