//! What a model is asked and what comes back, and what a provider is trusted with.
//!
//! A [`ModelRequest`] is frozen before anything is sent: its canonical JSON is part of the snapshot, its hash
//! names it, and the broker sends nothing else, whatever a worker asks for. An [`Answer`] holds content only in
//! [`Content`](crate::content::Content); everything that is kept of it is counts, hashes and fixed words. A
//! [`Profile`] is the person's word about one provider: where it is, which models may be asked, what it really
//! enforces. What goes wrong is one of a closed list of codes with one of four certainties ([`AskError`]).

mod answer;
mod endpoint;
mod failure;
mod profile;
mod request;
mod sending;

pub use answer::{Answer, AnswerPart, StopReason, Usage};
pub use endpoint::{Endpoint, EndpointError};
pub use failure::{AskError, Certainty, ProviderCode};
pub use profile::{
    CredentialName, OutputLimit, Profile, ProfileName, ThinkingStyle, is_credential_name, is_model_name,
    is_profile_name, is_variable_name,
};
pub use request::{
    ImageKind, Member, Message, ModelRequest, Part, REQUEST_BYTES_MAX, RequestError, ResponseFormat, Role,
    ThinkingLevel, Tool,
};
pub use sending::{NotSent, Sending, WireState};
