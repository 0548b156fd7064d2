//! One request to a model, as it is frozen, and the comparison with what a worker asks for.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical;
use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::payload::trace::{Step, TraceChunk};

/// The longest canonical request: a context of text is far below it, and a few images of some megabytes fit.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;

/// A conversation with more messages than this is a mistake of whoever composed it.
const MESSAGES_MAX: usize = 10_000;

/// A message of a conversation has a text and a few images, or a few tool calls.
const PARTS_MAX: usize = 64;

/// No contract here has more than a handful of tools.
const TOOLS_MAX: usize = 64;

/// Ids and names that a provider or a contract gives.
const NAME_BYTES_MAX: usize = 256;

/// Is everything that a model is asked, in the form that is frozen, hashed and compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelRequest {
    /// The model, as the provider names it.
    pub model: String,
    /// The conversation in native roles, oldest first.
    pub messages: Vec<Message>,
    /// The most tokens that the model may write.
    pub max_output_tokens: u32,
    /// How much it may think.
    pub thinking: ThinkingLevel,
    /// The form that the answer is constrained to, where the provider enforces one.
    pub response: ResponseFormat,
    /// What it may call.
    pub tools: Vec<Tool>,
    /// Whether the answer comes in pieces.
    pub stream: bool,
}

/// Is one message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Message {
    /// Whose it is.
    pub role: Role,
    /// What it says, in order.
    pub parts: Vec<Part>,
}

/// Says whose a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The operator's and the program's.
    System,
    /// The person's.
    User,
    /// The model's own, earlier.
    Assistant,
    /// What a tool answered.
    Tool,
}

/// Is one part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: Content<String>,
    },
    /// An image, only from the person.
    Image {
        /// What the bytes are.
        mime: ImageKind,
        /// The bytes in base64 with padding.
        data: Content<String>,
    },
    /// A tool that the model called, only in its own messages.
    ToolCall {
        /// Joins the call with its result.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments as JSON text.
        arguments: Content<String>,
    },
    /// What a tool answered, alone in its message.
    ToolResult {
        /// The call it answers.
        call: String,
        /// The answer.
        text: Content<String>,
    },
}

/// Names the kinds of image that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageKind {
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// PNG.
    #[serde(rename = "image/png")]
    Png,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
    /// GIF.
    #[serde(rename = "image/gif")]
    Gif,
}

impl ImageKind {
    /// Returns its media type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
        }
    }

    /// Reads a media type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Jpeg, Self::Png, Self::Webp, Self::Gif].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Says how much a model may think before it answers; what that means in tokens is the provider's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkingLevel {
    /// Not at all.
    #[default]
    Off,
    /// As little as there is.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as there is.
    Xhigh,
}

impl ThinkingLevel {
    /// Every level, in order.
    pub const ALL: [Self; 6] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh];

    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

/// Says to which form the provider is asked to constrain the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ResponseFormat {
    /// To none: nothing is sent about it.
    #[default]
    #[serde(deserialize_with = "crate::bare::nothing")]
    Text,
    /// To one JSON object.
    #[serde(deserialize_with = "crate::bare::nothing")]
    JsonObject,
    /// To a JSON Schema, strictly.
    JsonSchema {
        /// A name for it.
        name: String,
        /// The schema.
        schema: Value,
    },
}

/// Is a tool that the model may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// Names a member of a request, for saying which of them differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// It is no request at all: not JSON, too long, or no object.
    Whole,
    /// A member that requests do not have.
    Unlisted,
    /// The model.
    Model,
    /// The conversation.
    Messages,
    /// The bound of the answer.
    MaxOutputTokens,
    /// The thinking level.
    Thinking,
    /// The response format.
    Response,
    /// The tools.
    Tools,
    /// Whether it streams.
    Stream,
}

impl Member {
    /// The members that a request has.
    pub const LISTED: [Self; 7] = [
        Self::Model,
        Self::Messages,
        Self::MaxOutputTokens,
        Self::Thinking,
        Self::Response,
        Self::Tools,
        Self::Stream,
    ];

    /// Returns its name as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "request",
            Self::Unlisted => "unlisted",
            Self::Model => "model",
            Self::Messages => "messages",
            Self::MaxOutputTokens => "maxOutputTokens",
            Self::Thinking => "thinking",
            Self::Response => "response",
            Self::Tools => "tools",
            Self::Stream => "stream",
        }
    }
}

/// Says why a request cannot be frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It has no messages, or too many.
    #[error("a request has 1 to {MESSAGES_MAX} messages")]
    Messages,
    /// A message has parts that its role cannot have, none, or too many.
    #[error("message {0} does not fit its role")]
    Parts(usize),
    /// A tool's result answers no call before it, or a call is not answered.
    #[error("message {0} answers no call, or leaves one unanswered")]
    Calls(usize),
    /// The model may write nothing.
    #[error("the most tokens that may be written are 0")]
    NoOutput,
    /// Too many tools, or a name that is none.
    #[error("the tools or their names are out of bounds")]
    Tools,
    /// The model's name is none.
    #[error("the model's name is out of bounds")]
    Model,
    /// It has no exact canonical form.
    #[error("a number in it has no exact canonical form")]
    Canonical,
    /// It is too long.
    #[error("{0} bytes are more than a request may have")]
    TooLarge(usize),
}

impl ModelRequest {
    /// Returns the canonical bytes that are frozen.
    ///
    /// # Errors
    /// [`RequestError`] if this cannot be asked.
    pub fn canonical(&self) -> Result<Vec<u8>, RequestError> {
        self.check()?;
        let bytes = canonical::write_type(self).map_err(|_| RequestError::Canonical)?;
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLarge(bytes.len()));
        }
        Ok(bytes)
    }

    /// Returns the hash of the canonical bytes, which names what is frozen.
    ///
    /// # Errors
    /// [`RequestError`] if this cannot be asked.
    pub fn sha256(&self) -> Result<Sha256Hash, RequestError> {
        self.canonical().map(|bytes| Sha256Hash::of(&bytes))
    }

    /// Reads frozen bytes back.
    ///
    /// # Errors
    /// [`Member::Whole`] or [`Member::Unlisted`] if they are no request.
    pub fn parse(bytes: &[u8]) -> Result<Self, Member> {
        let value = canonical::parse(bytes, REQUEST_BYTES_MAX).map_err(|_| Member::Whole)?;
        let request: Self = serde_json::from_value(value).map_err(|_| Member::Unlisted)?;
        request.check().map_err(|_| Member::Whole)?;
        Ok(request)
    }

    /// Holds what a worker asks for against this frozen request: nothing may be missing, added or different.
    ///
    /// # Errors
    /// The first member that differs. Nothing of either side's content is in it.
    pub fn compare(&self, asked: &[u8]) -> Result<(), Member> {
        let asked = canonical::parse(asked, REQUEST_BYTES_MAX).map_err(|_| Member::Whole)?;
        let Value::Object(asked) = asked else { return Err(Member::Whole) };
        let Ok(Value::Object(frozen)) = serde_json::to_value(self) else { return Err(Member::Whole) };
        let unlisted = |name: &str| !Member::LISTED.iter().any(|member| member.as_str() == name);
        if asked.keys().any(|name| unlisted(name)) {
            return Err(Member::Unlisted);
        }
        for member in Member::LISTED {
            let name = member.as_str();
            if asked.get(name).is_none() || asked.get(name) != frozen.get(name) {
                return Err(member);
            }
        }
        Ok(())
    }

    /// Returns the step of a trace that says that this was sent.
    #[must_use]
    pub fn step(&self) -> TraceChunk {
        let count = Some(self.messages.len() as u64);
        TraceChunk { model: Some(self.model.clone()), count, ..TraceChunk::of(Step::Requested) }
    }

    /// Returns how many images the conversation holds.
    #[must_use]
    pub fn images(&self) -> usize {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        parts.filter(|part| matches!(part, Part::Image { .. })).count()
    }

    fn check(&self) -> Result<(), RequestError> {
        if !is_name(&self.model) {
            return Err(RequestError::Model);
        }
        if self.max_output_tokens == 0 {
            return Err(RequestError::NoOutput);
        }
        let mut names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).any(|pair| pair[0] == pair[1]);
        if names.len() > TOOLS_MAX || twice || !names.iter().all(|name| is_name(name)) {
            return Err(RequestError::Tools);
        }
        if self.messages.is_empty() || self.messages.len() > MESSAGES_MAX {
            return Err(RequestError::Messages);
        }
        // Calls that wait for their results, which must follow at once.
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            if message.parts.is_empty() || message.parts.len() > PARTS_MAX || !message.fits() {
                return Err(RequestError::Parts(index));
            }
            if message.role != Role::Tool && !open.is_empty() {
                return Err(RequestError::Calls(index));
            }
            for part in &message.parts {
                match part {
                    Part::ToolCall { id, .. } if open.contains(&id.as_str()) => {
                        return Err(RequestError::Calls(index));
                    }
                    Part::ToolCall { id, .. } => open.push(id),
                    Part::ToolResult { call, .. } => {
                        let place = open.iter().position(|id| id == call);
                        open.remove(place.ok_or(RequestError::Calls(index))?);
                    }
                    Part::Text { .. } | Part::Image { .. } => {}
                }
            }
        }
        if open.is_empty() { Ok(()) } else { Err(RequestError::Calls(self.messages.len() - 1)) }
    }
}

impl Message {
    /// Makes a message of one text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![Part::Text { text: Content::new(text.into()) }] }
    }

    /// Says whether its role can have its parts.
    fn fits(&self) -> bool {
        self.parts.iter().all(|part| match (self.role, part) {
            (Role::System | Role::User | Role::Assistant, Part::Text { .. }) => true,
            (Role::User, Part::Image { data, .. }) => !data.reveal().is_empty(),
            (Role::Assistant, Part::ToolCall { id, name, .. }) => is_name(id) && is_name(name),
            (Role::Tool, Part::ToolResult { call, .. }) => self.parts.len() == 1 && is_name(call),
            (Role::System | Role::Assistant | Role::Tool, Part::Image { .. })
            | (Role::System | Role::User | Role::Tool, Part::ToolCall { .. })
            | (Role::System | Role::User | Role::Assistant, Part::ToolResult { .. })
            | (Role::Tool, Part::Text { .. }) => false,
        })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ModelRequest {
        ModelRequest {
            model: "some/model-1".to_owned(),
            messages: vec![Message::text(Role::System, "be brief"), Message::text(Role::User, "hello")],
            max_output_tokens: 2000,
            thinking: ThinkingLevel::Off,
            response: ResponseFormat::Text,
            tools: Vec::new(),
            stream: false,
        }
    }

    fn call(id: &str) -> Part {
        Part::ToolCall {
            id: id.to_owned(),
            name: "note".to_owned(),
            arguments: Content::new("{}".to_owned()),
        }
    }

    fn result(id: &str) -> Message {
        let text = Content::new("kept".to_owned());
        Message { role: Role::Tool, parts: vec![Part::ToolResult { call: id.to_owned(), text }] }
    }

    #[test]
    fn the_frozen_form_never_changes_silently() {
        let mut frozen = request();
        frozen.response = ResponseFormat::JsonSchema { name: "o".to_owned(), schema: serde_json::json!({}) };
        frozen.messages[1]
            .parts
            .push(Part::Image { mime: ImageKind::Png, data: Content::new("AA==".to_owned()) });
        let expected = r#"{"maxOutputTokens":2000,"messages":[{"parts":[{"kind":"text","text":"be brief"}],"role":"system"},{"parts":[{"kind":"text","text":"hello"},{"data":"AA==","kind":"image","mime":"image/png"}],"role":"user"}],"model":"some/model-1","response":{"kind":"json-schema","name":"o","schema":{}},"stream":false,"thinking":"off","tools":[]}"#;
        let bytes = frozen.canonical().unwrap();
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), expected);
        assert_eq!(ModelRequest::parse(&bytes), Ok(frozen));
    }

    #[test]
    fn a_worker_may_ask_for_exactly_what_is_frozen() {
        let frozen = request();
        let asked = serde_json::to_value(&frozen).unwrap();
        let compare = |value: &Value| frozen.compare(value.to_string().as_bytes());
        assert_eq!(compare(&asked), Ok(()));
        for member in Member::LISTED {
            let mut missing = asked.clone();
            missing.as_object_mut().unwrap().remove(member.as_str());
            assert_eq!(compare(&missing), Err(member));
            let mut other = asked.clone();
            other[member.as_str()] = serde_json::json!("something else");
            assert_eq!(compare(&other), Err(member));
        }
        let mut more = asked.clone();
        more["temperature"] = serde_json::json!(2);
        assert_eq!(compare(&more), Err(Member::Unlisted));
        let mut longer = asked;
        longer["messages"][0]["extra"] = serde_json::json!(1);
        assert_eq!(compare(&longer), Err(Member::Messages));
        for nonsense in [&b""[..], b"[]", b"{} {}", b"\xff", b"{\"model\":1,\"model\":2}"] {
            assert_eq!(frozen.compare(nonsense), Err(Member::Whole));
        }
    }

    #[test]
    fn a_role_has_only_its_parts_and_every_call_its_result() {
        let of = |messages: Vec<Message>| ModelRequest { messages, ..request() }.canonical().map(drop);
        let user = || Message::text(Role::User, "x");
        let assistant = |parts| Message { role: Role::Assistant, parts };
        assert_eq!(of(vec![]), Err(RequestError::Messages));
        assert_eq!(
            of(vec![user(), assistant(vec![call("a"), call("b")]), result("b"), result("a"), user()]),
            Ok(())
        );
        assert_eq!(of(vec![user(), assistant(vec![call("a")]), user()]), Err(RequestError::Calls(2)));
        assert_eq!(of(vec![user(), assistant(vec![call("a")])]), Err(RequestError::Calls(1)));
        assert_eq!(of(vec![user(), result("a")]), Err(RequestError::Calls(1)));
        assert_eq!(
            of(vec![Message { role: Role::User, parts: vec![call("a")] }]),
            Err(RequestError::Parts(0))
        );
        assert_eq!(of(vec![Message { role: Role::User, parts: vec![] }]), Err(RequestError::Parts(0)));
        let image = Part::Image { mime: ImageKind::Png, data: Content::new("AA==".to_owned()) };
        assert_eq!(of(vec![Message { role: Role::System, parts: vec![image] }]), Err(RequestError::Parts(0)));
    }

    #[test]
    fn what_is_printed_of_a_request_shows_no_text() {
        let mut asked = request();
        asked.messages.push(Message { role: Role::Assistant, parts: vec![call("a")] });
        let printed = format!("{asked:?}");
        assert!(
            !printed.contains("hello") && !printed.contains("brief") && printed.contains("Content(5 bytes)")
        );
    }
}
