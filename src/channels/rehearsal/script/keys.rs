//! What a script may contain, as the tables that check it.

use thoughtstream_domain::yaml::{Choice, Form, INTEGER_MAX, Key, Shape};

/// A script is written by hand or by a test; with more rules than this it should be several.
const RULES_MAX: usize = 256;

/// So many things happen in one script at most.
const UPDATES_MAX: usize = 1024;

/// No waiting of a script is longer than an hour: a client's own limits are shorter.
const WAIT_MS_MAX: u64 = 3_600_000;

const COUNT: Shape = Shape::Integer { min: 1, max: INTEGER_MAX };
const SIZE: Shape = Shape::Integer { min: 0, max: INTEGER_MAX };
const STATUS: Shape = Shape::Integer { min: 200, max: 599 };
const WAIT: Shape = Shape::Duration { min_ms: 0, max_ms: WAIT_MS_MAX };
const SECONDS: Shape = Shape::Duration { min_ms: 0, max_ms: 86_400_000 };

const NAME: Form = Form {
    name: "a short name",
    example: "greeting",
    units_max: 128,
    accepts: |text| !text.is_empty() && !text.chars().any(char::is_control),
    pattern: None,
};

const TEXT: Form =
    Form { name: "text", example: "Hello.", units_max: 1 << 20, accepts: |_| true, pattern: None };

const TOKEN: Form = Form {
    name: "a token",
    example: "100000001:rehearsal",
    units_max: 256,
    accepts: |text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'),
    pattern: None,
};

const HEADER: Form = Form {
    name: "the name of a header",
    example: "retry-after",
    units_max: 64,
    accepts: |text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
    pattern: Some("^[A-Za-z0-9-]+$"),
};

const HEADER_VALUE: Form = Form {
    name: "the value of a header",
    example: "text/html",
    units_max: 1024,
    accepts: |text| !text.chars().any(char::is_control) && text.is_ascii(),
    pattern: None,
};

const ID_TEXT: Form = Form {
    name: "an id in quotes",
    example: "9007199254740993",
    units_max: 20,
    accepts: |text| text.parse::<i64>().is_ok(),
    pattern: Some("^-?[0-9]+$"),
};

/// An id; one that a number of YAML cannot hold exactly stands in quotes.
const ID: Shape =
    Shape::Any(&[Shape::Integer { min: -INTEGER_MAX, max: INTEGER_MAX }, Shape::Text(&ID_TEXT)]);

const WORD: Form = Form {
    name: "a word",
    example: "sendMessage",
    units_max: 64,
    accepts: |text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
    pattern: Some("^[A-Za-z0-9_]+$"),
};

const CUT: Shape = Shape::Any(&[
    Shape::Choice(&[
        Choice::new("request", "when the request was read: nothing is answered"),
        Choice::new("head", "behind the head: nothing of the body is sent"),
    ]),
    SIZE,
]);

const DRIP: [Key; 2] = [
    Key::required("bytes", "so many bytes at a time", Shape::Integer { min: 1, max: INTEGER_MAX }),
    Key::required("every", "so long between them", WAIT),
];

/// How an answer is brought, for both players.
macro_rules! manner {
    ($($key:expr),* $(,)?) => {
        [
            $($key,)*
            Key::optional("hold", "the gate that holds the answer back until it is released", Shape::Text(&NAME)),
            Key::optional("delay", "how long nothing is answered", WAIT),
            Key::optional("drip", "how slowly the body trickles", Shape::Map(&DRIP)),
            Key::optional("cut", "where the connection is closed too early: `request`, `head` or so many bytes of the body", CUT),
            Key::optional("reset", "the same, with a reset", CUT),
        ]
    };
}

const USAGE: Shape = Shape::Any(&[
    Shape::Choice(&[
        Choice::new("counted", "a token for every four characters"),
        Choice::new("missing", "nothing is said about it"),
        Choice::new("nothing", "`usage` is null"),
        Choice::new("prompt-only", "only what was read"),
        Choice::new("absurd", "more than anything costs"),
        Choice::new("negative", "less than nothing"),
        Choice::new("as-text", "numbers written as text"),
    ]),
    Shape::Map(&[
        Key::required("prompt", "the tokens that were read", SIZE),
        Key::required("completion", "the tokens that were written", SIZE),
    ]),
]);

const ERROR: [Key; 3] = [
    Key::required("status", "the status it comes with", STATUS),
    Key::optional("code", "its code in the words of the API", Shape::Text(&WORD)),
    Key::optional("retryAfter", "when to come again, in whole seconds", SECONDS),
];

const CALL_ID: Form =
    Form { name: "the id of a call", example: "call_1", units_max: 1024, accepts: |_| true, pattern: None };

const TOOL: [Key; 5] = [
    Key::required("name", "the tool", Shape::Text(&NAME)),
    Key::required("arguments", "its arguments: JSON, or anything else to see it refused", Shape::Text(&TEXT)),
    Key::optional("id", "its id; `call_1` and so on if absent", Shape::Text(&CALL_ID)),
    Key::optional("withoutId", "it has no id at all", Shape::Bool),
    Key::optional("index", "its number in a stream; its place among the calls if absent", SIZE),
];

const ANSWER: [Key; 21] = manner![
    Key::optional("echo", "says what the user said last", Shape::Bool),
    Key::optional("text", "says this", Shape::Text(&TEXT)),
    Key::optional("json", "says this JSON value, written without white space", Shape::Text(&TEXT)),
    Key::optional(
        "tools",
        "calls these tools; may stand beside `text`",
        Shape::List { of: &Shape::Map(&TOOL), min: 1, max: 32 }
    ),
    Key::optional("error", "refuses in the words of the API", Shape::Map(&ERROR)),
    Key::optional("body", "a body of your own instead of a completion", Shape::Text(&TEXT)),
    Key::optional("bodyBase64", "the same for bytes that are no text", Shape::Text(&TEXT)),
    Key::optional("status", "the status of such a body; 200 if absent", STATUS),
    Key::optional(
        "headers",
        "the headers of such a body",
        Shape::Table { key: &HEADER, of: &Shape::Text(&HEADER_VALUE), max: 32 }
    ),
    Key::optional("fill", "a body of so many bytes of nothing in particular", SIZE),
    Key::optional("endless", "a body without an end", Shape::Bool),
    Key::optional("rawBase64", "bytes that are no answer of HTTP at all", Shape::Text(&TEXT)),
    Key::optional("usage", "what is said about what it cost", USAGE),
    Key::optional("finish", "why the model stopped, such as `length`", Shape::Text(&WORD)),
    Key::optional(
        "piece",
        "how many characters a piece of a stream has",
        Shape::Integer { min: 1, max: 100_000 }
    ),
    Key::optional("inTurn", "in a stream, the pieces of several calls come in turn", Shape::Bool),
];

const WHEN: [Key; 7] = [
    Key::optional("nth", "the request with this number, counted from 1", COUNT),
    Key::optional("contains", "a text in the user's last message", Shape::Text(&TEXT)),
    Key::optional("system", "a text in what the system says", Shape::Text(&TEXT)),
    Key::optional("model", "the model that is asked for", Shape::Text(&NAME)),
    Key::optional("has", "a member of the request, such as `response_format`", Shape::Text(&WORD)),
    Key::optional("offers", "a tool that the request offers", Shape::Text(&WORD)),
    Key::optional("times", "how often the rule answers at most", COUNT),
];

const RULE: [Key; 3] = [
    Key::optional("name", "what the counters call it; `rule-1` and so on if absent", Shape::Text(&NAME)),
    Key::optional("when", "which requests it answers; all if absent", Shape::Map(&WHEN)),
    Key::required("answer", "what it answers", Shape::Map(&ANSWER)),
];

const PROVIDER: [Key; 4] = [
    Key::optional("token", "the key that requests must bear; anything if absent", Shape::Text(&TOKEN)),
    Key::optional(
        "models",
        "the models there are; every name if absent",
        Shape::List { of: &Shape::Text(&NAME), min: 0, max: 64 },
    ),
    Key::optional(
        "rules",
        "what answers, the first that matches",
        Shape::List { of: &Shape::Map(&RULE), min: 0, max: RULES_MAX },
    ),
    Key::optional("otherwise", "what answers if no rule does; an echo if absent", Shape::Map(&ANSWER)),
];

const BOT: [Key; 3] = [
    Key::optional("id", "its id", ID),
    Key::optional("username", "its name for mentions", Shape::Text(&WORD)),
    Key::optional("name", "its name for people", Shape::Text(&NAME)),
];

const MESSAGE_REF: Shape = Shape::Any(&[
    Shape::Choice(&[
        Choice::new("last-reply", "the bot's latest message in the chat"),
        Choice::new("last-said", "the latest message a person wrote there"),
    ]),
    Shape::Integer { min: 1, max: INTEGER_MAX },
]);

const SIDE: Shape = Shape::Integer { min: 0, max: 100_000 };

const PHOTO: [Key; 4] = [
    Key::required("base64", "its bytes", Shape::Text(&TEXT)),
    Key::optional("width", "its width as it is told", SIDE),
    Key::optional("height", "its height as it is told", SIDE),
    Key::optional("claims", "its size as it is told; the true one if absent", SIZE),
];

const FILE: [Key; 4] = [
    Key::required("base64", "its bytes", Shape::Text(&TEXT)),
    Key::required("mime", "its type as it is told", Shape::Text(&HEADER_VALUE)),
    Key::optional("name", "its name", Shape::Text(&NAME)),
    Key::optional("claims", "its size as it is told; the true one if absent", SIZE),
];

const MESSAGE: [Key; 8] = [
    Key::required("chat", "the chat", ID),
    Key::optional("from", "who writes; the chat's own id if absent", ID),
    Key::optional("name", "the name that is shown", Shape::Text(&NAME)),
    Key::optional("text", "what is written; below an image, its caption", Shape::Text(&TEXT)),
    Key::optional("replyTo", "the message it replies to", MESSAGE_REF),
    Key::optional("photo", "an image sent as a photo", Shape::Map(&PHOTO)),
    Key::optional("file", "an image sent as a file", Shape::Map(&FILE)),
    Key::optional("album", "the album it is part of", Shape::Text(&NAME)),
];

const EDIT: [Key; 4] = [
    Key::required("chat", "the chat", ID),
    Key::optional("from", "who; the chat's own id if absent", ID),
    Key::required("message", "which message", MESSAGE_REF),
    Key::required("text", "what it says now", Shape::Text(&TEXT)),
];

const REACTION: [Key; 4] = [
    Key::required("chat", "the chat", ID),
    Key::optional("from", "who; the chat's own id if absent", ID),
    Key::required("message", "to which message", MESSAGE_REF),
    Key::optional("emoji", "with which emoji; none takes it back", Shape::Text(&NAME)),
];

const UPDATE: [Key; 9] = [
    Key::optional("message", "somebody writes", Shape::Map(&MESSAGE)),
    Key::optional("edit", "somebody changes what they wrote", Shape::Map(&EDIT)),
    Key::optional("reaction", "somebody reacts", Shape::Map(&REACTION)),
    Key::optional("raw", "an update of your own, in JSON", Shape::Text(&TEXT)),
    Key::optional(
        "after",
        "how long after what stands before it; or `reply`: when the bot wrote to the same chat",
        AFTER,
    ),
    Key::optional(
        "update",
        "the update's number; the next one if absent",
        Shape::Integer { min: 1, max: INTEGER_MAX },
    ),
    Key::optional("copies", "how often it is told at once", Shape::Integer { min: 1, max: 100 }),
    Key::optional(
        "again",
        "how often it is told once more after it was confirmed",
        Shape::Integer { min: 0, max: 100 },
    ),
    Key::optional("forged", "posted to the webhook by somebody without the secret", Shape::Bool),
];

/// Either the word `reply` or a length of time; both are text, so that the reader tells them apart.
const AFTER: Shape = Shape::Text(&Form {
    name: "a length of time, or `reply`",
    example: "2s",
    units_max: 16,
    accepts: |text| {
        text == "reply" || thoughtstream_domain::yaml::duration_ms(text).is_some_and(|ms| ms <= WAIT_MS_MAX)
    },
    pattern: Some("^(reply|(0|[1-9][0-9]{0,8})(ms|s|m|h))$"),
});

const CALL_WHEN: [Key; 5] = [
    Key::optional(
        "method",
        "the method, such as `sendMessage`; `download` is the fetching of a file",
        Shape::Text(&WORD),
    ),
    Key::optional("nth", "the call of its method with this number, counted from 1", COUNT),
    Key::optional("contains", "a text in the call's text", Shape::Text(&TEXT)),
    Key::optional("chat", "the chat it is about", ID),
    Key::optional("times", "how often the rule answers at most", COUNT),
];

const CALL_ANSWER: [Key; 10] = manner![
    Key::optional("status", "refuses in the words of the API, or is the status of `body`", STATUS),
    Key::optional("retryAfter", "when to come again, in whole seconds", SECONDS),
    Key::optional("body", "a body of your own", Shape::Text(&TEXT)),
    Key::optional("bodyBase64", "the same for bytes that are no text", Shape::Text(&TEXT)),
    Key::optional("done", "whether it happens although it is refused", Shape::Bool),
];

const CALL_RULE: [Key; 3] = [
    Key::optional("name", "what the counters call it; `rule-1` and so on if absent", Shape::Text(&NAME)),
    Key::optional("when", "which calls it answers; all if absent", Shape::Map(&CALL_WHEN)),
    Key::required("answer", "what it answers", Shape::Map(&CALL_ANSWER)),
];

const TELEGRAM: [Key; 6] = [
    Key::optional("token", "the bot's token", Shape::Text(&TOKEN)),
    Key::optional("bot", "the bot", Shape::Map(&BOT)),
    Key::optional(
        "chats",
        "the only chats it may write to; every one if absent",
        Shape::List { of: &ID, min: 0, max: 256 },
    ),
    Key::optional(
        "firstUpdate",
        "the number of the first update",
        Shape::Integer { min: 1, max: INTEGER_MAX },
    ),
    Key::optional(
        "updates",
        "what happens in the chats, one after the other",
        Shape::List { of: &Shape::Map(&UPDATE), min: 0, max: UPDATES_MAX },
    ),
    Key::optional(
        "rules",
        "what answers otherwise than Telegram would",
        Shape::List { of: &Shape::Map(&CALL_RULE), min: 0, max: RULES_MAX },
    ),
];

/// The whole of a script.
pub(super) const SCRIPT: Shape = Shape::Map(&[
    Key::optional("provider", "what plays the model's provider", Shape::Map(&PROVIDER)),
    Key::optional("telegram", "what plays Telegram", Shape::Map(&TELEGRAM)),
]);
