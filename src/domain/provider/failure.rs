//! What can go wrong with a request: a closed list of codes, and how certain it is what became of it.

use std::fmt;

use super::{Member, ModelRequest, Usage};
use crate::payload::trace::{Step, TraceChunk};

/// Says what is known about a request that gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// Not one byte of it left this machine's hands: it cost nothing and may be asked again.
    NotSent,
    /// The provider declined it with a status.
    Refused,
    /// An answer came and cannot be used. The provider may have charged for it.
    Unusable,
    /// It was sent, and what became of it is not known.
    Lost,
}

impl Certainty {
    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not-sent",
            Self::Refused => "refused",
            Self::Unusable => "unusable",
            Self::Lost => "lost",
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $name:literal,)+) => {
        /// Names why a request gave no answer. The list is closed; a provider's own words are never kept.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProviderCode { $($(#[$doc])* $code,)+ }

        impl ProviderCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// Returns the word that is stored and shown.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $name),+ }
            }
        }
    };
}

codes! {
    /// The worker asked for something else than what is frozen.
    WorkerAskedOtherwise = "worker-asked-otherwise",
    /// The frozen request is none that can be asked.
    RequestInvalid = "request-invalid",
    /// The profile does not allow this model.
    ModelNotAllowed = "model-not-allowed",
    /// The model takes no images.
    ImagesNotAllowed = "images-not-allowed",
    /// The model may not be offered tools.
    ToolsNotAllowed = "tools-not-allowed",
    /// The profile does not claim to enforce this response format.
    FormatNotClaimed = "response-format-not-claimed",
    /// The profile says of no way to make the model think.
    ThinkingNotOffered = "thinking-not-offered",
    /// The request is longer than the profile allows.
    RequestTooLarge = "request-too-large",
    /// This capability, or this run, has had its one request.
    CapabilitySpent = "capability-spent",
    /// The capability belonged to a broker that ended.
    CapabilityExpired = "capability-expired",
    /// No place became free in time.
    BrokerBusy = "broker-busy",
    /// No broker of that profile is alive.
    BrokerDown = "broker-down",
    /// There is no credential.
    CredentialMissing = "credential-missing",
    /// There is a credential and it must not be used as it lies.
    CredentialUnsafe = "credential-unsafe",
    /// The client could not be made, say because no root certificates are there.
    ClientUnavailable = "client-unavailable",
    /// Nobody took the connection.
    ConnectFailed = "connect-failed",
    /// The time was up before anything was sent.
    DeadlineBefore = "deadline-before-sending",
    /// The provider found the request wrong (400, 422).
    BadRequest = "provider-bad-request",
    /// The provider does not know us, or not for this (401, 403).
    Unauthorized = "provider-unauthorized",
    /// The provider wants money (402).
    Billing = "provider-billing",
    /// There is no such model or path (404, 405, 410).
    NotFound = "provider-not-found",
    /// The provider finds the request too long (413).
    ProviderTooLarge = "provider-too-large",
    /// Too many requests (429).
    RateLimited = "provider-rate-limited",
    /// Another refusal (4xx).
    Rejected = "provider-rejected",
    /// It points elsewhere, where nobody follows (3xx).
    Redirected = "provider-redirected",
    /// The provider cannot at the moment (500, 501, 503, 529).
    Unavailable = "provider-unavailable",
    /// Something between us and the provider lost its answer (502, 504 and other 5xx).
    GatewayLost = "provider-gateway-lost",
    /// The time was up after it was sent.
    DeadlinePassed = "deadline-passed",
    /// The connection ended before the answer did.
    ConnectionLost = "connection-lost",
    /// The broker ended while it was on its way.
    BrokerEnded = "broker-ended",
    /// A success that is none (1xx, 201 to 299).
    AnswerStatus = "answer-status",
    /// The answer is of another media type.
    AnswerType = "answer-content-type",
    /// The answer is longer than the profile allows.
    AnswerTooLarge = "answer-too-large",
    /// The answer is not UTF-8.
    AnswerNotUtf8 = "answer-not-utf8",
    /// The answer is not one JSON value, or not of the agreed form.
    AnswerMalformed = "answer-malformed",
    /// The provider put an error in the place of an answer.
    AnswerError = "answer-error",
    /// The pieces ended before the answer did.
    AnswerIncomplete = "answer-incomplete",
    /// There is no choice, or more than one.
    AnswerChoices = "answer-choices",
    /// Another model answered.
    AnswerModel = "answer-model-mismatch",
    /// It calls tools that nobody offered.
    AnswerTools = "answer-tools-not-offered",
    /// It ended for a reason that is not known.
    AnswerStop = "answer-stop-unknown",
}

impl ProviderCode {
    /// Reads a word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// Returns what it says about a request by itself.
    #[must_use]
    pub const fn certainty(self) -> Certainty {
        match self {
            Self::WorkerAskedOtherwise
            | Self::RequestInvalid
            | Self::ModelNotAllowed
            | Self::ImagesNotAllowed
            | Self::ToolsNotAllowed
            | Self::FormatNotClaimed
            | Self::ThinkingNotOffered
            | Self::RequestTooLarge
            | Self::CapabilitySpent
            | Self::CapabilityExpired
            | Self::BrokerBusy
            | Self::BrokerDown
            | Self::CredentialMissing
            | Self::CredentialUnsafe
            | Self::ClientUnavailable
            | Self::ConnectFailed
            | Self::DeadlineBefore => Certainty::NotSent,
            Self::BadRequest
            | Self::Unauthorized
            | Self::Billing
            | Self::NotFound
            | Self::ProviderTooLarge
            | Self::RateLimited
            | Self::Rejected
            | Self::Redirected
            | Self::Unavailable => Certainty::Refused,
            Self::GatewayLost
            | Self::DeadlinePassed
            | Self::ConnectionLost
            | Self::BrokerEnded
            | Self::AnswerIncomplete => Certainty::Lost,
            Self::AnswerStatus
            | Self::AnswerType
            | Self::AnswerTooLarge
            | Self::AnswerNotUtf8
            | Self::AnswerMalformed
            | Self::AnswerError
            | Self::AnswerChoices
            | Self::AnswerModel
            | Self::AnswerTools
            | Self::AnswerStop => Certainty::Unusable,
        }
    }

    /// Returns what a status other than 200 means.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            300..=399 => Self::Redirected,
            400 | 422 => Self::BadRequest,
            401 | 403 => Self::Unauthorized,
            402 => Self::Billing,
            404 | 405 | 410 => Self::NotFound,
            413 => Self::ProviderTooLarge,
            429 => Self::RateLimited,
            400..=499 => Self::Rejected,
            500 | 501 | 503 | 529 => Self::Unavailable,
            500..=599 => Self::GatewayLost,
            _ => Self::AnswerStatus,
        }
    }
}

impl fmt::Display for ProviderCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Says why a request gave no answer, and what is known all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}")]
pub struct AskError {
    /// The reason.
    pub code: ProviderCode,
    /// What became of the request.
    pub certainty: Certainty,
    /// Which member of the request is meant, where one is.
    pub member: Option<Member>,
    /// What the provider says it used, if it said so.
    pub usage: Usage,
    /// How long the provider wants to be left alone, in milliseconds; it is not believed beyond a day.
    pub retry_after_ms: Option<u64>,
    /// What may be kept about it: steps, counts and codes.
    pub trace: Vec<TraceChunk>,
}

impl AskError {
    /// Makes the error of a code, with the certainty that the code implies.
    #[must_use]
    pub const fn of(code: ProviderCode) -> Self {
        let usage = Usage { input: None, output: None, cost_microusd: None };
        let certainty = code.certainty();
        Self { code, certainty, member: None, usage, retry_after_ms: None, trace: Vec::new() }
    }

    /// Completes the trace: what was sent before what is known, and at last why there is no answer.
    #[must_use]
    pub fn traced(mut self, request: &ModelRequest) -> Self {
        if self.certainty != Certainty::NotSent {
            self.trace.insert(0, request.step());
        }
        let code = Some(self.code.as_str().to_owned());
        self.trace.push(TraceChunk { code, ..TraceChunk::of(Step::ProviderFailed) });
        self
    }

    /// Names the member that is meant.
    #[must_use]
    pub fn about(self, member: Member) -> Self {
        Self { member: Some(member), ..self }
    }
}

impl From<ProviderCode> for AskError {
    fn from(code: ProviderCode) -> Self {
        Self::of(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_word() {
        for code in ProviderCode::ALL {
            assert_eq!(ProviderCode::parse(code.as_str()), Some(*code));
            let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(code.as_str().bytes().all(is_word) && code.as_str().len() <= 64);
        }
    }

    #[test]
    fn a_status_that_leaves_the_outcome_open_is_no_refusal() {
        let of = |status| ProviderCode::of_status(status).certainty();
        for status in [301, 400, 401, 402, 404, 413, 418, 422, 429, 500, 503, 529] {
            assert_eq!(of(status), Certainty::Refused, "{status}");
        }
        for status in [502, 504, 520, 524] {
            assert_eq!(of(status), Certainty::Lost, "{status}");
        }
        for status in [101, 201, 204, 206, 700] {
            assert_eq!(of(status), Certainty::Unusable, "{status}");
        }
    }
}
