//! What one provider is trusted with and held to. It is read from the configuration and from nowhere else: a
//! declaration names a profile and can change nothing of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::{Endpoint, ModelRequest, ProviderCode, ResponseFormat, ThinkingLevel};

/// Names of profiles and credentials are short words.
const NAME_BYTES_MAX: usize = 64;

/// The names of models are paths at most; a trace has room for as much.
const MODEL_BYTES_MAX: usize = 128;

/// A date or a revision behind a model's name, as in `-2026-01-31`.
const DATED_BYTES_MAX: usize = 32;

/// Names a profile.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName(Arc<str>);

/// Names a credential: a file's name, and nothing that leads elsewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialName(Arc<str>);

macro_rules! name {
    ($name:ident, $accepts:ident) => {
        impl $name {
            /// Reads a name; `None` if it is none.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                $accepts(text).then(|| Self(text.into()))
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(ProfileName, is_profile_name);
name!(CredentialName, is_credential_name);

/// Says whether a text can name a profile: a lower-case word with hyphens.
#[must_use]
pub fn is_profile_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Says whether a text can name a credential: letters, digits, `.`, `_` and `-`, and no `.` first.
#[must_use]
pub fn is_credential_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Says whether a text can name a variable of the environment.
#[must_use]
pub fn is_variable_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Says whether a text can name a model.
#[must_use]
pub fn is_model_name(text: &str) -> bool {
    (1..=MODEL_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Says how a provider is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThinkingStyle {
    /// It cannot be told: only [`ThinkingLevel::Off`] may be asked, and nothing is sent.
    #[default]
    None,
    /// By `chat_template_kwargs.enable_thinking`: false for off, true for every other level.
    ChatTemplate,
    /// By `reasoning_effort`: `none` for off, the level's own word otherwise.
    ReasoningEffort,
}

/// Names the member that bounds the answer; providers know one or the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputLimit {
    /// `max_tokens`.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

impl OutputLimit {
    /// Returns the member's name.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Is one provider, as the person configured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: ProfileName,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The credential it wants; none for a server on this machine that wants none.
    pub credential: Option<CredentialName>,
    /// The variable of the environment that holds the credential, where no file does.
    pub credential_variable: Option<String>,
    /// The models that may be asked.
    pub models: BTreeSet<String>,
    /// Those of them that take images.
    pub image_models: BTreeSet<String>,
    /// Those of them that may be offered tools.
    pub tool_models: BTreeSet<String>,
    /// Whether it really constrains an answer to a JSON object.
    pub enforces_json_object: bool,
    /// Whether it really constrains an answer to a JSON Schema.
    pub enforces_json_schema: bool,
    /// How it is told how much to think.
    pub thinking: ThinkingStyle,
    /// How it is told how long an answer may be.
    pub output_limit: OutputLimit,
    /// Whether whoever composes a request should ask for the answer in pieces.
    pub stream: bool,
    /// Whether its usage has the cost, in dollars under `cost`.
    pub reports_cost: bool,
    /// The longest request, in bytes.
    pub request_bytes_max: usize,
    /// The longest answer, in bytes, with everything around it.
    pub response_bytes_max: usize,
    /// How long a request may take from the first to the last byte, in milliseconds.
    pub deadline_ms: u64,
    /// How many requests are on their way at a time.
    pub in_flight_max: usize,
    /// How long a request waits for its turn, in milliseconds.
    pub wait_ms: u64,
}

impl Profile {
    /// A context of text has some hundred kilobytes; images come on top.
    pub const REQUEST_BYTES: usize = 8 << 20;
    /// The longest answer of a contract is 32 KiB; streams wrap each word in some hundred bytes.
    pub const RESPONSE_BYTES: usize = 4 << 20;
    /// Models that think take their time.
    pub const DEADLINE_MS: u64 = 120_000;
    /// As many as a small provider takes at once.
    pub const IN_FLIGHT: usize = 8;
    /// About as long as the requests before it take.
    pub const WAIT_MS: u64 = 60_000;

    /// Makes a profile of which only the place and the models are known.
    #[must_use]
    pub fn new(name: ProfileName, endpoint: Endpoint, models: BTreeSet<String>) -> Self {
        Self {
            name,
            endpoint,
            credential: None,
            credential_variable: None,
            models,
            image_models: BTreeSet::new(),
            tool_models: BTreeSet::new(),
            enforces_json_object: false,
            enforces_json_schema: false,
            thinking: ThinkingStyle::None,
            output_limit: OutputLimit::MaxTokens,
            stream: false,
            reports_cost: false,
            request_bytes_max: Self::REQUEST_BYTES,
            response_bytes_max: Self::RESPONSE_BYTES,
            deadline_ms: Self::DEADLINE_MS,
            in_flight_max: Self::IN_FLIGHT,
            wait_ms: Self::WAIT_MS,
        }
    }

    /// Says whether this provider may be asked this.
    ///
    /// # Errors
    /// The code of what it may not be asked; nothing is sent then.
    pub fn admits(&self, request: &ModelRequest) -> Result<(), ProviderCode> {
        if !self.models.contains(&request.model) {
            return Err(ProviderCode::ModelNotAllowed);
        }
        if request.images() > 0 && !self.image_models.contains(&request.model) {
            return Err(ProviderCode::ImagesNotAllowed);
        }
        if !request.tools.is_empty() && !self.tool_models.contains(&request.model) {
            return Err(ProviderCode::ToolsNotAllowed);
        }
        if !self.claims(&request.response) {
            return Err(ProviderCode::FormatNotClaimed);
        }
        if self.thinking == ThinkingStyle::None && request.thinking != ThinkingLevel::Off {
            return Err(ProviderCode::ThinkingNotOffered);
        }
        Ok(())
    }

    /// Says whether it claims to enforce a response format; none needs no claim.
    #[must_use]
    pub const fn claims(&self, format: &ResponseFormat) -> bool {
        match format {
            ResponseFormat::Text => true,
            ResponseFormat::JsonObject => self.enforces_json_object,
            ResponseFormat::JsonSchema { .. } => self.enforces_json_schema,
        }
    }

    /// Says whether an answer that names `answered` is one of the model that was asked: the same name, or a
    /// dated or tagged form of it.
    #[must_use]
    pub fn is_same_model(asked: &str, answered: &str) -> bool {
        match answered.strip_prefix(asked) {
            Some("") => true,
            Some(rest) => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                let dated = rest.strip_prefix('-').filter(|date| date.len() <= DATED_BYTES_MAX);
                dated.is_some_and(|date| {
                    date.starts_with(|first: char| first.is_ascii_digit()) && date.bytes().all(is_plain)
                })
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::provider::{ImageKind, Message, Part, Role, Tool};

    fn profile() -> Profile {
        let endpoint = Endpoint::parse("https://api.example.org/v1").unwrap();
        let models = ["text", "sees"].map(str::to_owned).into();
        let mut profile = Profile::new(ProfileName::parse("example").unwrap(), endpoint, models);
        profile.image_models.insert("sees".to_owned());
        profile
    }

    fn request(model: &str) -> ModelRequest {
        ModelRequest {
            model: model.to_owned(),
            messages: vec![Message::text(Role::User, "x")],
            max_output_tokens: 1,
            thinking: ThinkingLevel::Off,
            response: ResponseFormat::Text,
            tools: Vec::new(),
            stream: false,
        }
    }

    #[test]
    fn only_what_the_profile_claims_may_be_asked() {
        let profile = profile();
        assert_eq!(profile.admits(&request("text")), Ok(()));
        assert_eq!(profile.admits(&request("text-2")), Err(ProviderCode::ModelNotAllowed));
        let mut image = request("text");
        image.messages[0]
            .parts
            .push(Part::Image { mime: ImageKind::Png, data: Content::new("AA==".to_owned()) });
        assert_eq!(profile.admits(&image), Err(ProviderCode::ImagesNotAllowed));
        image.model = "sees".to_owned();
        assert_eq!(profile.admits(&image), Ok(()));
        let tool = Tool { name: "t".to_owned(), description: String::new(), parameters: true.into() };
        let tools = ModelRequest { tools: vec![tool], ..request("text") };
        assert_eq!(profile.admits(&tools), Err(ProviderCode::ToolsNotAllowed));
        let tool_models = ["text".to_owned()].into();
        assert_eq!(Profile { tool_models, ..profile.clone() }.admits(&tools), Ok(()));
        let json = ModelRequest { response: ResponseFormat::JsonObject, ..request("text") };
        assert_eq!(profile.admits(&json), Err(ProviderCode::FormatNotClaimed));
        assert_eq!(Profile { enforces_json_object: true, ..profile.clone() }.admits(&json), Ok(()));
        let thinks = ModelRequest { thinking: ThinkingLevel::Low, ..request("text") };
        assert_eq!(profile.admits(&thinks), Err(ProviderCode::ThinkingNotOffered));
        assert_eq!(Profile { thinking: ThinkingStyle::ChatTemplate, ..profile }.admits(&thinks), Ok(()));
    }

    #[test]
    fn a_dated_name_is_the_same_model_and_a_longer_one_is_not() {
        assert!(Profile::is_same_model("m-1", "m-1") && Profile::is_same_model("m-1", "m-1-2026-01-02"));
        for other in ["", "m", "m-1-mini", "m-10", "m-1-", "m-1-2 is the best", "other"] {
            assert!(!Profile::is_same_model("m-1", other), "{other}");
        }
    }

    #[test]
    fn a_credential_is_a_file_name_and_nothing_more() {
        assert!(CredentialName::parse("openai.key").is_some());
        for bad in ["", ".", "..", ".key", "a/b", "../a", "a b", "a\0", "ä"] {
            assert_eq!(CredentialName::parse(bad), None, "{bad}");
        }
    }
}
