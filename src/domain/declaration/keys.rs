//! The table of keys: it checks every declaration, and its JSON Schema is made from it.

pub(super) mod model;

use super::codes;
use crate::event::{REFERENCE_BYTES_MAX, Reference};
use crate::id::{ConsumerId, SourceId, TYPE_BYTES_MAX, TypeName, WORD_BYTES_MAX};
use crate::subscription::{Field, TypePattern};
use crate::text::is_hostile;
use crate::yaml::{Choice, Form, INTEGER_MAX, Key, Shape};

/// A declaration names at most this many types, sources or kinds each; families stand for the rest.
pub(super) const NAMES_MAX: usize = 64;
/// A declaration has at most this many conditions; each is evaluated on every candidate event.
pub(super) const CONDITIONS_MAX: usize = 16;
/// A set of wanted values has at most this many.
const SET_MAX: usize = 64;
/// A batch becomes the parents of every event of its run, which have a bound of their own.
pub(super) const BATCH_MAX: i64 = 128;
/// Attempts beyond this are no retry policy but a loop.
const ATTEMPTS_MAX: i64 = 100;
/// The longest wait between attempts: a week.
const RETRY_MS_MAX: u64 = 7 * 86_400_000;
/// A batch that waits longer than this is a schedule, not a batch.
const BATCH_WAIT_MS_MAX: u64 = 3_600_000;
/// More executions at once on one source than this starve the other consumers.
const CONCURRENCY_MAX: i64 = 64;
/// The most rendered characters of a context packet, and of the documents of one run of a transform: those of the
/// largest document that one reads.
const CONTEXT_CHARS_MAX: i64 = 4 * 1024 * 1024;
/// The most events of a context packet.
const CONTEXT_EVENTS_MAX: i64 = 256;

static CONSUMER: Form = Form {
    name: "a consumer id (a lower-case word with hyphens)",
    example: "document-structure",
    units_max: WORD_BYTES_MAX,
    accepts: |text| ConsumerId::parse(text).is_ok(),
    pattern: Some("^[a-z][a-z0-9-]*$"),
};
static DESCRIPTION: Form = Form {
    name: "a description in visible characters",
    example: "Identify document structure changes worth re-evaluating.",
    units_max: 500,
    accepts: |text| {
        // Folded over several lines it is still a sentence; what hides or reorders text is none.
        !text.trim().is_empty() && !text.chars().any(|c| c != '\n' && is_hostile(c))
    },
    pattern: Some("\\S"),
};
static TYPE: Form = Form {
    name: "an event type",
    example: "stream.thought.derived.document.structure",
    units_max: TYPE_BYTES_MAX,
    accepts: |text| TypeName::parse(text).is_ok(),
    pattern: Some(r"^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+$"),
};
static TYPE_PATTERN: Form = Form {
    name: "an event type or a family of them",
    example: "stream.thought.source.file.*",
    units_max: TYPE_BYTES_MAX,
    accepts: |text| TypePattern::parse(text).is_some(),
    pattern: Some(r"^[a-z][a-z0-9-]*((\.[a-z][a-z0-9-]*)+|(\.[a-z][a-z0-9-]*)*\.\*)$"),
};
static SOURCE: Form = Form {
    name: "a source id",
    example: "filesystem:notes",
    units_max: 193,
    accepts: |text| SourceId::parse(text).is_ok(),
    pattern: Some("^[a-z][a-z0-9-]*:[A-Za-z0-9][A-Za-z0-9._-]*$"),
};
static KIND: Form = Form {
    name: "a kind of source",
    example: "filesystem",
    units_max: WORD_BYTES_MAX,
    accepts: |text| SourceId::parse(&format!("{text}:x")).is_ok(),
    pattern: Some("^[a-z][a-z0-9-]*$"),
};
static ADDRESS: Form = Form {
    name: "an address (printable ASCII)",
    example: "document-structure",
    units_max: REFERENCE_BYTES_MAX,
    accepts: |text| Reference::parse(text).is_ok(),
    pattern: Some("^[ -~]+$"),
};
static FIELD: Form = Form {
    name: "a field: an envelope column, or `payload.` and a promoted field",
    example: "payload.path",
    units_max: 128,
    accepts: |text| Field::parse(text).is_some(),
    pattern: Some(
        r"^(version|sequence|actor\.kind|actor\.id|key|occurredAt|recordedAt|depth|external|correlation|payload\..+)$",
    ),
};
static PREFIX: Form = Form {
    name: "a prefix",
    example: "journal/",
    units_max: 512,
    accepts: |text| !text.is_empty(),
    pattern: Some("."),
};
static PROMPT: Form = Form {
    name: "the path of a Markdown file below `prompts/`",
    example: "prompts/document-structure.md",
    units_max: 255,
    accepts: is_prompt_path,
    pattern: Some(r"^prompts/([A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*\.md$"),
};
static TRANSFORM: Form = Form {
    name: "the name of a transform",
    example: "document-structure",
    units_max: WORD_BYTES_MAX,
    accepts: |text| ConsumerId::parse(text).is_ok(),
    pattern: Some("^[a-z][a-z0-9-]*$"),
};

/// Says whether a path stays below `prompts/`: plain components only, none of them hidden.
pub(super) fn is_prompt_path(path: &str) -> bool {
    let plain = |part: &str| {
        part.as_bytes().first().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    let rest = path.strip_prefix("prompts/").filter(|rest| rest.ends_with(".md") && *rest != ".md");
    rest.is_some_and(|rest| rest.split('/').all(plain))
}

static CLASSES: [Choice; 3] = [
    Choice::new("public-source", "was public at its source"),
    Choice::new("private", "belongs to the person who runs the service"),
    Choice::new("sensitive", "must not leave the machine without an explicit act"),
];
static SOURCE_SHAPE: Shape = Shape::Text(&SOURCE);
static SOURCES: Shape = Shape::List { of: &SOURCE_SHAPE, min: 1, max: NAMES_MAX };
static SCALAR: Shape = Shape::Scalar;

static PREDICATE: [Key; 5] = [
    Key::optional("equals", "the value it must equal", Shape::Scalar),
    Key::optional(
        "in",
        "the values of which it must equal one",
        Shape::List { of: &SCALAR, min: 1, max: SET_MAX },
    ),
    Key::optional("min", "the smallest value, included", Shape::Scalar),
    Key::optional("max", "the largest value, included", Shape::Scalar),
    Key::optional("prefix", "how the text must start", Shape::Text(&PREFIX)),
];
static CONDITION: Shape =
    Shape::Any(&[Shape::Scalar, Shape::List { of: &SCALAR, min: 1, max: SET_MAX }, Shape::Map(&PREDICATE)]);

static REPLAY_AT: [Key; 1] = [Key::required(
    "sequence",
    "the sequence of the first event to take",
    Shape::Integer { min: 1, max: INTEGER_MAX },
)];
static REPLAY: [Choice; 2] = [
    Choice::new("beginning", "start with the first event"),
    Choice::new("now", "start behind what is there"),
];
static BATCH: [Key; 2] = [
    Key::optional("max", "the most events of one run (default 1)", Shape::Integer { min: 1, max: BATCH_MAX }),
    Key::optional(
        "wait",
        "how long an incomplete batch waits for more (default 0s)",
        Shape::Duration { min_ms: 0, max_ms: BATCH_WAIT_MS_MAX },
    ),
];

static TYPE_PATTERN_SHAPE: Shape = Shape::Text(&TYPE_PATTERN);
static KIND_SHAPE: Shape = Shape::Text(&KIND);
static CLASS_SHAPE: Shape = Shape::Choice(&CLASSES);
static SUBSCRIBE: [Key; 9] = [
    Key::required(
        "types",
        "event types, exactly or as a registered family ending in .*",
        Shape::List { of: &TYPE_PATTERN_SHAPE, min: 1, max: NAMES_MAX },
    ),
    Key::optional("sources", "sources, by their exact ids", SOURCES),
    Key::optional(
        "kinds",
        "kinds of source of which every one is included",
        Shape::List { of: &KIND_SHAPE, min: 1, max: NAMES_MAX },
    ),
    Key::optional(
        "privacy",
        "the accepted classes (default: public-source and private)",
        Shape::List { of: &CLASS_SHAPE, min: 1, max: 3 },
    ),
    Key::optional("address", "whom events must be addressed to", Shape::Text(&ADDRESS)),
    Key::optional(
        "where",
        "predicates over envelope columns and promoted payload fields; all must hold",
        Shape::Table { key: &FIELD, of: &CONDITION, max: CONDITIONS_MAX },
    ),
    Key::optional(
        "replay",
        "where to start on a source without progress: beginning, now or { sequence: N } (default beginning)",
        Shape::Any(&[Shape::Choice(&REPLAY), Shape::Map(&REPLAY_AT)]),
    ),
    Key::optional("batch", "how many events one run takes together", Shape::Map(&BATCH)),
    Key::optional(
        "concurrency",
        "how many runs may be open at once on a source (default 1: strictly in order)",
        Shape::Integer { min: 1, max: CONCURRENCY_MAX },
    ),
];

static CONTEXT: [Key; 8] = [
    Key::required(
        "maxEvents",
        "the most events of a context packet",
        Shape::Integer { min: 1, max: CONTEXT_EVENTS_MAX },
    ),
    Key::required(
        "maxChars",
        "the most rendered characters of a context packet",
        Shape::Integer { min: 1, max: CONTEXT_CHARS_MAX },
    ),
    Key::optional("strategy", "how the packet is composed", Shape::Choice(&STRATEGIES)),
    Key::optional(
        "neighbors",
        "how many of the matching events before the triggers an observer is shown as well",
        Shape::Integer { min: 1, max: CONTEXT_EVENTS_MAX },
    ),
    Key::refused("atprotoObject", codes::NOT_BUILT_ATPROTO, "ATProto expansion is not built yet"),
    Key::optional("documents", "trusted documents that come before a conversation", model::DOCUMENTS_SHAPE),
    Key::optional(
        "historyAgentIds",
        "the agents whose delivered replies belong to the history besides its own",
        model::HISTORY_AGENTS,
    ),
    Key::optional(
        "assistantHistoryMaxTurns",
        "the most earlier replies that are kept, when they are to be bounded apart from the rest",
        Shape::Integer { min: 1, max: CONTEXT_EVENTS_MAX },
    ),
];
static STRATEGIES: [Choice; 6] = [
    Choice::new("trigger-events", "the events that triggered the run (the default)"),
    Choice::new("telegram-conversation", "one chat's history up to the message that triggered the run"),
    Choice::refused(
        "agent-conversation",
        codes::NOT_BUILT_AGENT_MESSAGES,
        "agent messages are not built yet",
    ),
    Choice::refused("course-question", codes::NOT_BUILT_COURSE_TUTOR, "the course tutor is not built yet"),
    Choice::refused("atproto-batch", codes::NOT_BUILT_CONCEPTUALIZER, "the conceptualizer is not built yet"),
    Choice::refused(
        "public-knowledge",
        codes::NOT_BUILT_PUBLIC_KNOWLEDGE,
        "public knowledge proposals are not built yet",
    ),
];

static RUNNER_KINDS: [Choice; 4] = [
    Choice::new("deterministic", "a transform of this program"),
    Choice::new("pi", "one request to a model, from a sandbox that holds no credential"),
    Choice::refused(
        "letta-agent-sdk",
        codes::NOT_BUILT_LETTA,
        "the `letta-agent-sdk` runner is not built yet; `deterministic` and `pi` are",
    ),
    Choice::refused(
        "workspace",
        codes::NOT_BUILT_WORKSPACE,
        "workspace runners are not built yet; `deterministic` and `pi` are",
    ),
];
static RUNNER: [Key; 14] = [
    Key::required("kind", "who runs it", Shape::Choice(&RUNNER_KINDS)),
    Key::optional("transform", "which transform (default: the declaration's id)", Shape::Text(&TRANSFORM)),
    Key::optional(
        "provider",
        "the provider profile of the configuration that is asked",
        model::PROVIDER_SHAPE,
    ),
    Key::optional("model", "the model, by the provider's name for it", model::MODEL_SHAPE),
    Key::optional("thinkingLevel", "how much the model is to think", Shape::Choice(&model::THINKING)),
    Key::optional("timeout", "how long a run may take in all (default 60s)", model::TIMEOUT),
    Key::optional(
        "maxOutputTokens",
        "the most tokens of an answer (default: what is reserved)",
        model::TOKENS,
    ),
    Key::optional("stream", "whether the answer is asked for in pieces (default false)", Shape::Bool),
    Key::refused("tier", codes::NOT_BUILT_TIERS, "model tiers are not built yet: name the model"),
    Key::refused("adapter", codes::NOT_BUILT_ADAPTERS, "learned adapters are not built yet"),
    Key::refused("agent", codes::NOT_BUILT_LETTA, "Letta agents are not built yet"),
    Key::refused("conversation", codes::NOT_BUILT_LETTA, "Letta agents are not built yet"),
    Key::refused("harness", codes::NOT_BUILT_WORKSPACE, "workspace runners are not built yet"),
    Key::refused("profile", codes::NOT_BUILT_WORKSPACE, "workspace runners are not built yet"),
];

static POLICY: [Key; 3] = [
    Key::optional(
        "tools",
        "evidence tools; none are built yet, so the list is empty",
        Shape::NoItems(codes::NOT_BUILT_EVIDENCE_TOOLS, "evidence tools are not built yet"),
    ),
    Key::optional("proposals", "what a conversation may propose to a person", model::PROPOSALS_SHAPE),
    Key::optional(
        "externalActions",
        "whether it may act outside; no consumer may yet",
        Shape::Off(codes::NOT_BUILT_EXTERNAL_ACTIONS, "no consumer may act outside yet"),
    ),
];

static EXHAUSTED: [Choice; 3] = [
    Choice::new("quarantine", "stop on that source and show it until a person decides"),
    Choice::new("advance", "pass the event and show it"),
    Choice::new("hold", "wait quietly until a person decides"),
];
static RETRY: [Key; 4] = [
    Key::optional(
        "attempts",
        "how many attempts in all (default 5)",
        Shape::Integer { min: 1, max: ATTEMPTS_MAX },
    ),
    Key::optional(
        "first",
        "the wait after the first failure; it doubles each time (default 1s)",
        Shape::Duration { min_ms: 1, max_ms: RETRY_MS_MAX },
    ),
    Key::optional(
        "max",
        "the longest wait (default 5m)",
        Shape::Duration { min_ms: 1, max_ms: RETRY_MS_MAX },
    ),
    Key::optional(
        "exhausted",
        "what follows the last attempt, or the first on what cannot be processed (default quarantine)",
        Shape::Choice(&EXHAUSTED),
    ),
];
static RECORDS: [Choice; 2] =
    [Choice::new("status-unknown", "its end is not known"), Choice::new("abandoned", "it is given up")];
static THENS: [Choice; 3] = [
    Choice::new("retry", "another attempt, counted by the retry policy"),
    Choice::new("hold", "a person decides"),
    Choice::new("advance", "progress moves on"),
];
static INTERRUPTED: [Key; 2] = [
    Key::optional("record", "the terminal event (default status-unknown)", Shape::Choice(&RECORDS)),
    Key::optional("then", "what follows (default retry)", Shape::Choice(&THENS)),
];
static VERSION_CHANGES: [Choice; 2] = [
    Choice::new("preserve", "go on where the version before stood"),
    Choice::new("new", "start as a new consumer, by `replay`"),
];
static VERSION_CHANGE_REPLAY: [Key; 1] =
    [Key::required("replay", "the sources to read again from the start", SOURCES)];
static LIFECYCLES: [Choice; 2] = [
    Choice::new("two-commit", "received and started are durable before the run"),
    Choice::new(
        "settled",
        "one commit for a first attempt, one execution at a time; a retry still writes `started` first",
    ),
];
static ROLES: [Choice; 2] = [
    Choice::new("standard", "an ordinary consumer"),
    Choice::new("repair", "answers requests to repair an output that broke its contract, each once"),
];
static OUTPUT_MODES: [Choice; 3] = [
    Choice::new("strict-json", "one JSON value and nothing else, by the output contract (the default)"),
    Choice::new("conversation-text", "one text, as a reply"),
    Choice::refused(
        "compaction-text",
        codes::NOT_BUILT_COMPACTION,
        "compaction-text output is not built yet",
    ),
];

static TYPE_SHAPE: Shape = Shape::Text(&TYPE);
static KEYS: [Key; 18] = [
    Key::required("id", "names the consumer", Shape::Text(&CONSUMER)),
    Key::required("version", "rises with every change", Shape::Integer { min: 1, max: 1_000_000 }),
    Key::required("enabled", "whether it runs", Shape::Bool),
    Key::required("description", "says in a sentence what it is for", Shape::Text(&DESCRIPTION)),
    Key::required("subscribe", "which events it takes", Shape::Map(&SUBSCRIBE)),
    Key::optional(
        "context",
        "bounds of what a run sees (default: 8 events, 24000 characters)",
        Shape::Map(&CONTEXT),
    ),
    Key::required("runner", "who does the work", Shape::Map(&RUNNER)),
    Key::optional("prompt", "a Markdown file below prompts/", Shape::Text(&PROMPT)),
    Key::required("emit", "the event types it may write", Shape::List { of: &TYPE_SHAPE, min: 1, max: 16 }),
    Key::optional("policy", "what it may do besides", Shape::Map(&POLICY)),
    Key::optional("retry", "when a failed attempt is tried again", Shape::Map(&RETRY)),
    Key::optional("interrupted", "what an attempt without an end becomes", Shape::Map(&INTERRUPTED)),
    Key::optional("lifecycle", "how a run is written down (default two-commit)", Shape::Choice(&LIFECYCLES)),
    Key::optional(
        "onVersionChange",
        "what becomes of progress when the version rises (default preserve)",
        Shape::Any(&[Shape::Choice(&VERSION_CHANGES), Shape::Map(&VERSION_CHANGE_REPLAY)]),
    ),
    Key::optional("role", "standard or repair (default standard)", Shape::Choice(&ROLES)),
    Key::optional("privacyFloor", "the weakest class its outputs may carry", Shape::Choice(&CLASSES)),
    Key::optional("outputMode", "how a model's answer is read", Shape::Choice(&OUTPUT_MODES)),
    Key::optional("accounting", "what a model's runs may spend", model::ACCOUNTING_SHAPE),
];

/// The shape of a declaration.
pub(super) static DECLARATION: Shape = Shape::Map(&KEYS);

/// Event types that the contract knows and this program does not have yet, each with why.
pub(super) static NOT_BUILT_TYPES: [(&str, crate::yaml::Code, &str); 4] = [
    ("stream.thought.source.agent", codes::NOT_BUILT_AGENT_MESSAGES, "agent messages are not built yet"),
    ("stream.thought.source.course", codes::NOT_BUILT_COURSE_TUTOR, "the course tutor is not built yet"),
    (
        "stream.thought.derived.concept",
        codes::NOT_BUILT_CONCEPTUALIZER,
        "the conceptualizer is not built yet",
    ),
    ("stream.thought.source.atproto", codes::NOT_BUILT_ATPROTO, "ATProto is not built yet"),
];

/// Kinds of source that the contract knows and this program does not have yet, each with why.
pub(super) static NOT_BUILT_KINDS: [(&str, crate::yaml::Code, &str); 2] = [
    ("web-course", codes::NOT_BUILT_COURSE_TUTOR, "the course tutor is not built yet"),
    ("jetstream", codes::NOT_BUILT_ATPROTO, "ATProto is not built yet"),
];
