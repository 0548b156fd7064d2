//! The keys of a consumer that asks a model: its runner, its context, its account.

use super::{CONSUMER, SOURCE};
use crate::accounting::{LEASE_MS_MAX, LIMITS_MAX, ROLLING_MS_MAX};
use crate::id::WORD_BYTES_MAX;
use crate::yaml::{Choice, Form, Key, Shape};

/// A recipe names at most this many documents or sources: they are for every turn.
const DOCUMENTS_MAX: usize = 32;
/// The most agents whose replies belong to one history.
const HISTORY_AGENTS_MAX: usize = 32;
/// The longest a run may take: what takes longer is a job and no request.
const TIMEOUT_MS_MAX: u64 = 1_800_000;
/// More than this of anything is no limit.
const AMOUNT_MAX: i64 = 1_000_000_000_000;

pub(in crate::declaration) static PROVIDER: Form = Form {
    name: "the name of a provider profile",
    example: "local",
    units_max: WORD_BYTES_MAX,
    accepts: crate::provider::is_profile_name,
    pattern: Some("^[a-z][a-z0-9-]*$"),
};
static MODEL: Form = Form {
    name: "a model's name (printable ASCII without spaces)",
    example: "smollm2-135m-instruct",
    units_max: 200,
    accepts: |text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()),
    pattern: Some("^[!-~]+$"),
};
static DOCUMENT_PATH: Form = Form {
    name: "a path below the source's root, normalised",
    example: "memory.md",
    units_max: 4096,
    accepts: crate::packet::documents::is_normalized,
    pattern: None,
};

/// How much a model is to think.
pub(super) static THINKING: [Choice; 6] = [
    Choice::new("off", "not at all (the default)"),
    Choice::new("minimal", "as little as the provider knows"),
    Choice::new("low", "a little"),
    Choice::new("medium", "some"),
    Choice::new("high", "much"),
    Choice::new("xhigh", "as much as the provider knows"),
];

pub(super) static PROVIDER_SHAPE: Shape = Shape::Text(&PROVIDER);
pub(super) static MODEL_SHAPE: Shape = Shape::Text(&MODEL);
/// How long a run may take.
pub(super) static TIMEOUT: Shape = Shape::Duration { min_ms: 1_000, max_ms: TIMEOUT_MS_MAX };
/// How long an answer may be, in tokens.
pub(super) static TOKENS: Shape = Shape::Integer { min: 1, max: 10_000_000 };

static DOCUMENT_PATH_SHAPE: Shape = Shape::Text(&DOCUMENT_PATH);
static CONSUMER_SHAPE: Shape = Shape::Text(&CONSUMER);
static DOCUMENT_SOURCE: [Key; 3] = [
    Key::required("source", "the folder's source id, exactly", Shape::Text(&SOURCE)),
    Key::required(
        "paths",
        "the documents' paths below its root, in the order in which the model sees them",
        Shape::List { of: &DOCUMENT_PATH_SHAPE, min: 1, max: DOCUMENTS_MAX },
    ),
    Key::optional(
        "required",
        "whether a document that cannot be had ends the run before anything is sent (default true)",
        Shape::Bool,
    ),
];
static DOCUMENT_SOURCE_SHAPE: Shape = Shape::Map(&DOCUMENT_SOURCE);
static DOCUMENTS: [Key; 2] = [
    Key::required(
        "maxChars",
        "the most characters of all documents together, within those of the context; none is ever cut",
        Shape::Integer { min: 1, max: super::CONTEXT_CHARS_MAX },
    ),
    Key::required(
        "from",
        "where they are, in order",
        Shape::List { of: &DOCUMENT_SOURCE_SHAPE, min: 1, max: DOCUMENTS_MAX },
    ),
];
/// Trusted documents before a conversation.
pub(super) static DOCUMENTS_SHAPE: Shape = Shape::Map(&DOCUMENTS);
/// Whose replies belong to a history.
pub(super) static HISTORY_AGENTS: Shape =
    Shape::List { of: &CONSUMER_SHAPE, min: 0, max: HISTORY_AGENTS_MAX };

static AMOUNT: Shape = Shape::Integer { min: 1, max: AMOUNT_MAX };
static RESERVE: [Key; 4] = [
    Key::optional(
        "calls",
        "requests of one run (default 1: a run asks once)",
        Shape::Integer { min: 1, max: 1 },
    ),
    Key::required("inputTokens", "tokens of a request, by a careful estimate", AMOUNT),
    Key::required("outputTokens", "tokens of an answer", AMOUNT),
    Key::optional("costMicrousd", "millionths of a US dollar, if cost is to be limited", AMOUNT),
];
static WINDOWS: [Choice; 3] = [
    Choice::new("rolling", "the time just past, as long as `length`"),
    Choice::new("hour", "the hour of the clock (UTC)"),
    Choice::new("day", "the day of the calendar (UTC)"),
];
static LIMIT: [Key; 6] = [
    Key::required("window", "in which time", Shape::Choice(&WINDOWS)),
    Key::optional(
        "length",
        "how long a rolling window is",
        Shape::Duration { min_ms: 1_000, max_ms: ROLLING_MS_MAX },
    ),
    Key::optional("calls", "the most requests", AMOUNT),
    Key::optional("inputTokens", "the most tokens of requests", AMOUNT),
    Key::optional("outputTokens", "the most tokens of answers", AMOUNT),
    Key::optional("costMicrousd", "the most millionths of a US dollar", AMOUNT),
];
static LIMIT_SHAPE: Shape = Shape::Map(&LIMIT);
static EXHAUSTIONS: [Choice; 2] = [
    Choice::new("defer", "wait until a run fits again (the default)"),
    Choice::new("advance", "pass the event"),
];
static ACCOUNTING: [Key; 4] = [
    Key::required("reserve", "what each run reserves before anything is sent", Shape::Map(&RESERVE)),
    Key::required(
        "lease",
        "after how long an unsettled reservation counts as spent in full; longer than the runner's timeout",
        Shape::Duration { min_ms: 1_000, max_ms: LEASE_MS_MAX },
    ),
    Key::required(
        "limits",
        "how much may be spent in which time",
        Shape::List { of: &LIMIT_SHAPE, min: 1, max: LIMITS_MAX },
    ),
    Key::optional("onExhaustion", "what a run does that does not fit", Shape::Choice(&EXHAUSTIONS)),
];
/// An inference account.
pub(super) static ACCOUNTING_SHAPE: Shape = Shape::Map(&ACCOUNTING);

static PROPOSALS: [Choice; 3] = [
    Choice::new("memory-change", "a change of the memory document"),
    Choice::new("self-correction", "another wording of a delivered reply"),
    Choice::new("focus-declaration", "a focus to take up"),
];
static PROPOSAL: Shape = Shape::Choice(&PROPOSALS);
/// What may be proposed.
pub(super) static PROPOSALS_SHAPE: Shape = Shape::List { of: &PROPOSAL, min: 0, max: PROPOSALS.len() };

/// What is said of a key that only a runner that asks a model has.
pub(in crate::declaration) const NOT_A_MODEL: &str = "this belongs to a runner that asks a model";

/// What only such a runner has.
pub(in crate::declaration) static RUNNER_KEYS: [&str; 6] =
    ["provider", "model", "thinkingLevel", "timeout", "maxOutputTokens", "stream"];

/// What only a conversation's context has.
pub(in crate::declaration) static CONVERSATION_KEYS: [&str; 3] =
    ["documents", "historyAgentIds", "assistantHistoryMaxTurns"];
