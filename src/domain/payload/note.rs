//! A note that a person appends by hand.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::registry::Writer;

/// Is text a person wrote down: the type that ships so that anyone can append something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Note {
    /// The note itself.
    #[schemars(length(min = 1, max = 262_144))]
    pub text: String,
    /// A title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub title: Option<String>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub tags: Vec<String>,
}

impl TypedPayload for Note {
    const NAME: &'static str = "stream.thought.source.note";
    const VERSION: u32 = 1;
    const WRITER: Writer = Writer::Hand;
    const PROMOTED: &'static [&'static str] = &["title", "tags"];
}
