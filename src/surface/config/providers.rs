//! The part of the configuration that says which models may be asked, and where.

use std::collections::BTreeSet;

use thoughtstream_domain::provider::{
    CredentialName, Endpoint, EndpointError, OutputLimit, Profile, ProfileName, REQUEST_BYTES_MAX,
    ThinkingStyle, is_credential_name, is_model_name, is_profile_name, is_variable_name,
};
use thoughtstream_domain::yaml::{Choice, Code, Form, Key, Node, Problem, Shape, Source, duration_ms};

/// More providers than this are no configuration of one person.
const PROVIDERS_MAX: usize = 32;

/// A provider with more models than this should be named by those that are used.
const MODELS_MAX: usize = 256;

/// The longest answer that may be asked for; it is held in memory.
const RESPONSE_BYTES_MAX: i64 = 64 << 20;

/// More requests at a time than this need more than one machine.
const IN_FLIGHT_MAX: i64 = 1024;

/// The kinds of problem that only a provider has.
pub mod codes {
    use super::Code;

    /// Two providers have one name.
    pub const SAME_PROVIDER: Code = Code::new("config.same-provider");
    /// The endpoint cannot be used.
    pub const ENDPOINT: Code = Code::new("config.endpoint");
    /// A model takes images and may not be asked.
    pub const IMAGE_MODEL: Code = Code::new("config.image-model");
    /// A model may be offered tools and may not be asked.
    pub const TOOL_MODEL: Code = Code::new("config.tool-model");
    /// A key stands where only the name of one belongs.
    pub const SECRET: Code = Code::new("config.secret");
    /// A variable is named for a credential that has no name.
    pub const VARIABLE: Code = Code::new("config.credential-variable");
}

const NAME: Form = Form {
    name: "a provider's name",
    example: "ollama",
    units_max: 64,
    accepts: is_profile_name,
    pattern: Some("^[a-z][a-z0-9-]*$"),
};

const ENDPOINT: Form = Form {
    name: "an endpoint",
    example: "https://api.openai.com/v1",
    units_max: 512,
    accepts: |text| !text.is_empty(),
    pattern: Some("^https?://"),
};

const CREDENTIAL: Form = Form {
    name: "a credential's name",
    example: "openai",
    units_max: 64,
    accepts: is_credential_name,
    pattern: Some("^[A-Za-z0-9][A-Za-z0-9._-]*$"),
};

const VARIABLE: Form = Form {
    name: "a variable of the environment",
    example: "OPENAI_API_KEY",
    units_max: 64,
    accepts: is_variable_name,
    pattern: Some("^[A-Z][A-Z0-9_]*$"),
};

const MODEL: Form = Form {
    name: "a model's name",
    example: "thinkingmachines/Inkling-Small",
    units_max: 128,
    accepts: is_model_name,
    pattern: Some("^[!-~]+$"),
};

const FORMATS: [Choice; 2] = [
    Choice::new("json-object", "an answer is constrained to one JSON object"),
    Choice::new("json-schema", "an answer is constrained to a JSON Schema, strictly"),
];

const THINKING: [Choice; 3] = [
    Choice::new("none", "the provider cannot be told; only `off` may be declared"),
    Choice::new("chat-template", "by `chat_template_kwargs.enable_thinking`"),
    Choice::new("reasoning-effort", "by `reasoning_effort`"),
];

const LIMIT: [Choice; 2] = [
    Choice::new("max-tokens", "by `max_tokens`"),
    Choice::new("max-completion-tokens", "by `max_completion_tokens`"),
];

const NO_SECRET: &str =
    "a key is never written here: name it under `credential` and put it into `credentials/NAME` (mode 0600)";

const PROVIDER: [Key; 23] = [
    Key::required("name", "the name that declarations use", Shape::Text(&NAME)),
    Key::required(
        "endpoint",
        "where it answers, without `/chat/completions`; `http` on this machine only",
        Shape::Text(&ENDPOINT),
    ),
    Key::optional(
        "credential",
        "the name of its key: a systemd credential, or a file in `credentials/`",
        Shape::Text(&CREDENTIAL),
    ),
    Key::optional(
        "credentialVariable",
        "a variable of the environment to look in when there is no file; less safe",
        Shape::Text(&VARIABLE),
    ),
    Key::required(
        "models",
        "the models that may be asked",
        Shape::List { of: &Shape::Text(&MODEL), min: 1, max: MODELS_MAX },
    ),
    Key::optional(
        "imageModels",
        "those of them that take images",
        Shape::List { of: &Shape::Text(&MODEL), min: 0, max: MODELS_MAX },
    ),
    Key::optional(
        "toolModels",
        "those of them that may be offered tools",
        Shape::List { of: &Shape::Text(&MODEL), min: 0, max: MODELS_MAX },
    ),
    Key::optional(
        "enforces",
        "the response formats that it really enforces; a format that is not named is never sent",
        Shape::List { of: &Shape::Choice(&FORMATS), min: 0, max: 2 },
    ),
    Key::optional("thinking", "how it is told how much to think", Shape::Choice(&THINKING)),
    Key::optional("outputLimit", "how it is told how long an answer may be", Shape::Choice(&LIMIT)),
    Key::optional("stream", "whether answers come in pieces", Shape::Bool),
    Key::optional("reportsCost", "whether its usage has the cost, in dollars under `cost`", Shape::Bool),
    Key::optional(
        "requestBytes",
        "the longest request, in bytes",
        Shape::Integer { min: 1024, max: REQUEST_BYTES_MAX as i64 },
    ),
    Key::optional(
        "responseBytes",
        "the longest answer, in bytes",
        Shape::Integer { min: 1024, max: RESPONSE_BYTES_MAX },
    ),
    Key::optional(
        "deadline",
        "how long a request may take",
        Shape::Duration { min_ms: 100, max_ms: 3_600_000 },
    ),
    Key::optional(
        "inFlight",
        "how many requests are on their way at a time",
        Shape::Integer { min: 1, max: IN_FLIGHT_MAX },
    ),
    Key::optional(
        "wait",
        "how long a request waits for its turn",
        Shape::Duration { min_ms: 0, max_ms: 3_600_000 },
    ),
    Key::refused("apiKey", codes::SECRET, NO_SECRET),
    Key::refused("api_key", codes::SECRET, NO_SECRET),
    Key::refused("key", codes::SECRET, NO_SECRET),
    Key::refused("token", codes::SECRET, NO_SECRET),
    Key::refused("secret", codes::SECRET, NO_SECRET),
    Key::refused("password", codes::SECRET, NO_SECRET),
];

/// Is the key of the configuration under which providers stand.
pub(super) const PROVIDERS: Key = Key::optional(
    "providers",
    "the providers whose models may be asked",
    Shape::List { of: &Shape::Map(&PROVIDER), min: 0, max: PROVIDERS_MAX },
);

/// Reads what has the right shape, and reports what only the whole shows to be wrong.
pub(super) fn read(root: &Node, source: &Source, problems: &mut Vec<Problem>) -> Vec<Profile> {
    // The line of such a problem has the key on it.
    for problem in problems.iter_mut().filter(|problem| problem.code == codes::SECRET) {
        *problem = problem.clone().concealed();
    }
    let mut profiles: Vec<Profile> = Vec::new();
    for item in root.get(PROVIDERS.name).map(Node::items).unwrap_or_default() {
        let Some(profile) = (Reader { source, problems, item }).profile() else { continue };
        if profiles.iter().any(|other| other.name == profile.name) {
            let span = item.get("name").map_or(item.span, |node| node.span);
            let problem = source.problem(span, codes::SAME_PROVIDER, "another provider has this name");
            problems.push(problem.with_hint("give each provider a name of its own"));
        }
        profiles.push(profile);
    }
    profiles
}

struct Reader<'a> {
    source: &'a Source,
    problems: &'a mut Vec<Problem>,
    item: &'a Node,
}

impl Reader<'_> {
    fn profile(&mut self) -> Option<Profile> {
        let name = ProfileName::parse(self.text("name")?)?;
        let endpoint = self.endpoint()?;
        let models = self.models("models");
        let image_models = self.some_models(&models, "imageModels", codes::IMAGE_MODEL);
        let tool_models = self.some_models(&models, "toolModels", codes::TOOL_MODEL);
        let formats = self.item.get("enforces").map(Node::items).unwrap_or_default();
        let enforces = |word: &str| formats.iter().any(|format| format.text() == Some(word));
        let credential = self.text("credential").and_then(CredentialName::parse);
        if let (None, Some(variable)) = (&credential, self.item.entry("credentialVariable")) {
            let what = "a variable is looked in for a credential, and none is named";
            let problem = self.source.problem(variable.key_span, codes::VARIABLE, what);
            self.problems.push(problem.with_hint("name it under `credential`"));
        }
        let mut profile = Profile::new(name, endpoint, models);
        profile.credential = credential;
        profile.credential_variable = self.text("credentialVariable").map(str::to_owned);
        (profile.image_models, profile.tool_models) = (image_models, tool_models);
        profile.enforces_json_object = enforces("json-object");
        profile.enforces_json_schema = enforces("json-schema");
        profile.thinking = match self.text("thinking") {
            Some("chat-template") => ThinkingStyle::ChatTemplate,
            Some("reasoning-effort") => ThinkingStyle::ReasoningEffort,
            Some(_) | None => ThinkingStyle::None,
        };
        profile.output_limit = match self.text("outputLimit") {
            Some("max-completion-tokens") => OutputLimit::MaxCompletionTokens,
            Some(_) | None => OutputLimit::MaxTokens,
        };
        let bool = |key: &str| self.item.get(key).and_then(Node::bool).unwrap_or(false);
        (profile.stream, profile.reports_cost) = (bool("stream"), bool("reportsCost"));
        let size = |key: &str| {
            let number = self.item.get(key).and_then(Node::integer);
            number.and_then(|number| usize::try_from(number).ok())
        };
        let time = |key: &str| self.text(key).and_then(duration_ms);
        profile.request_bytes_max = size("requestBytes").unwrap_or(profile.request_bytes_max);
        profile.response_bytes_max = size("responseBytes").unwrap_or(profile.response_bytes_max);
        profile.in_flight_max = size("inFlight").unwrap_or(profile.in_flight_max);
        profile.deadline_ms = time("deadline").unwrap_or(profile.deadline_ms);
        profile.wait_ms = time("wait").unwrap_or(profile.wait_ms);
        Some(profile)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.item.get(key).and_then(Node::text)
    }

    fn endpoint(&mut self) -> Option<Endpoint> {
        let node = self.item.get("endpoint")?;
        match Endpoint::parse(node.text()?) {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                let problem = self.source.problem(node.span, codes::ENDPOINT, error.to_string());
                let problem = problem.with_hint(format!("write it like `{}`", ENDPOINT.example));
                // There may be a password in it.
                let shown = error != EndpointError::Extra;
                self.problems.push(if shown { problem } else { problem.concealed() });
                None
            }
        }
    }

    fn models(&self, key: &str) -> BTreeSet<String> {
        let items = self.item.get(key).map(Node::items).unwrap_or_default();
        items.iter().filter_map(Node::text).map(str::to_owned).collect()
    }

    /// Reads those of the models that a claim is made about.
    fn some_models(&mut self, models: &BTreeSet<String>, key: &str, code: Code) -> BTreeSet<String> {
        for node in self.item.get(key).map(Node::items).unwrap_or_default() {
            if node.text().is_some_and(|model| !models.contains(model)) {
                let what = "more is said of this model, and it may not be asked";
                let problem = self.source.problem(node.span, code, what);
                self.problems.push(problem.with_hint("add it to `models`, or remove it here"));
            }
        }
        self.models(key)
    }
}

#[cfg(test)]
mod tests {
    use thoughtstream_domain::yaml;

    use crate::config::{Config, parse};

    use super::*;

    fn read(text: &str) -> Result<Config, Vec<Problem>> {
        parse("config.yaml", text.as_bytes(), None)
    }

    fn problems(text: &str) -> String {
        read(text).unwrap_err().iter().map(|p| format!("{}:{} {}\n", p.line, p.column, p.code)).collect()
    }

    /// Returns the example's comments under `providers` as what they comment out.
    fn examples() -> String {
        let example = include_str!("../../../ops/config.example.yaml");
        let (_, rest) = example.split_once("\nproviders: []\n").unwrap();
        let lines = rest.lines().take_while(|line| line.starts_with("#  "));
        lines.fold("providers:\n".to_owned(), |text, line| text + &line[1..] + "\n")
    }

    #[test]
    fn the_shipped_examples_are_profiles() {
        let config = read(&examples()).unwrap();
        let names: Vec<&str> = config.providers.iter().map(|profile| profile.name.as_str()).collect();
        assert_eq!(names, ["openai", "tinker", "ollama", "vllm", "llamacpp"]);
        let tinker = &config.providers[1];
        // What a provider accepts and does not enforce is no claim.
        assert!(!tinker.enforces_json_object && !tinker.enforces_json_schema);
        assert_eq!(tinker.thinking, ThinkingStyle::ChatTemplate);
        assert!(tinker.image_models.contains("thinkingmachines/Inkling-Small"));
        assert!(config.providers[2].credential.is_none() && config.providers[2].endpoint.is_this_machine());
    }

    #[test]
    fn a_profile_is_read_with_its_bounds() {
        let text = "providers:\n  - name: a\n    endpoint: https://a.example.org/v1\n    credential: key.a\n    \
                    credentialVariable: A_KEY\n    models: [m-1, m-2]\n    imageModels: [m-2]\n    toolModels: [m-1]\n    \
                    enforces: [json-schema]\n    thinking: reasoning-effort\n    \
                    outputLimit: max-completion-tokens\n    stream: true\n    requestBytes: 2048\n    \
                    responseBytes: 4096\n    deadline: 30s\n    inFlight: 2\n    wait: 5s\n";
        let config = read(text).unwrap();
        let profile = &config.providers[0];
        assert_eq!(profile.endpoint.to_string(), "https://a.example.org/v1");
        assert_eq!(profile.credential.as_ref().unwrap().as_str(), "key.a");
        assert_eq!(profile.credential_variable.as_deref(), Some("A_KEY"));
        assert_eq!(profile.tool_models, ["m-1".to_owned()].into());
        assert!(profile.enforces_json_schema && !profile.enforces_json_object && profile.stream);
        assert_eq!((profile.request_bytes_max, profile.response_bytes_max), (2048, 4096));
        assert_eq!((profile.deadline_ms, profile.in_flight_max, profile.wait_ms), (30_000, 2, 5_000));
    }

    #[test]
    fn what_may_be_a_key_is_not_repeated() {
        let shown = |text: &str| yaml::render_all(&read(text).unwrap_err());
        let key =
            "providers:\n  - name: a\n    endpoint: https://a.b\n    models: [m]\n    apiKey: sk-test\n";
        let user = "providers:\n  - name: a\n    endpoint: https://a:sk-test@a.b\n    models: [m]\n";
        for text in [key, user] {
            assert!(!shown(text).contains("sk-test"), "{}", shown(text));
        }
    }

    #[test]
    fn everything_that_is_wrong_is_reported_at_its_place() {
        let of = |more: &str| {
            problems(&format!("providers:\n  - name: a\n    endpoint: https://a.b\n    models: [m]\n{more}"))
        };
        assert_eq!(problems("providers:\n  - name: a\n"), "2:5 shape.missing-key\n2:5 shape.missing-key\n");
        let plain = "providers:\n  - name: a\n    endpoint: http://a.example.org\n    models: [m]\n";
        assert_eq!(problems(plain), "3:15 config.endpoint\n");
        for key in ["apiKey", "api_key", "key", "token", "secret", "password"] {
            assert_eq!(of(&format!("    {key}: sk-1\n")), "5:5 config.secret\n");
        }
        assert_eq!(of("    imageModels: [m-2]\n"), "5:19 config.image-model\n");
        assert_eq!(of("    toolModels: [m, m-2]\n"), "5:21 config.tool-model\n");
        assert_eq!(of("    credentialVariable: A\n"), "5:5 config.credential-variable\n");
        assert_eq!(of("    deadline: 5\n"), "5:15 shape.wrong-kind\n");
        assert_eq!(of("    inFlight: 0\n"), "5:15 shape.out-of-bounds\n");
        assert_eq!(of("    credential: ../key\n"), "5:17 shape.bad-value\n");
        assert_eq!(of("    enforces: [xml]\n"), "5:16 shape.bad-value\n");
        let again = "  - name: a\n    endpoint: https://a.b\n    models: [m]\n";
        assert_eq!(of(again), "5:11 config.same-provider\n");
    }
}
