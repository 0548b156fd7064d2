//! What a worker makes of the calls in an answer: it captures each of them, or refuses all, and ends with that.
//!
//! A captured call is answered with nothing of its content: that it was taken, and that nothing follows. The parent
//! makes the same of the same answer, so that a result that leaves out, adds, turns round or changes a call is
//! known for what it is.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Part, plain};
use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::proposal::Kind;
use crate::proposal::call::{CallCode, Calls};
use crate::proposal::capability::WorkerCapability;

/// Says what became of the calls of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// Each of them was captured, in their order; there may be none.
    Captured(Vec<Captured>),
    /// All were refused, for the first that is wrong.
    Refused(Refused),
}

/// Answers one call: it was captured, and the run ends with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Captured {
    /// The call's id.
    #[serde(with = "plain")]
    pub call: Content<String>,
    /// What it proposes.
    pub kind: Kind,
    /// The hash of its arguments as the model wrote them.
    pub arguments: Sha256Hash,
    /// Nothing is asked after it.
    pub terminate: Terminate,
}

/// Is why the calls of an answer were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Refused {
    /// Which call, from 0.
    pub index: u64,
    /// What is wrong with it.
    pub code: CallCode,
}

/// Is `true`, and cannot be anything else: no call is followed by another request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terminate;

impl Serialize for Terminate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for Terminate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom("expected true"))
        }
    }
}

impl Default for Capture {
    fn default() -> Self {
        Self::Captured(Vec::new())
    }
}

impl Capture {
    /// Holds the calls among the parts of an answer against what was admitted.
    #[must_use]
    pub fn of(parts: &[Part], admitted: &WorkerCapability) -> Self {
        let (mut ids, mut called, mut captured) = (BTreeSet::new(), Vec::new(), Vec::new());
        for part in parts {
            let Part::ToolCall { id, name, arguments } = part else { continue };
            let (name, text) = (name.reveal().as_str(), arguments.reveal().as_str());
            // Of two calls with one id nobody could say which was captured.
            if !ids.insert(id.reveal()) {
                return Self::Refused(Refused { index: called.len() as u64, code: CallCode::Repeated });
            }
            called.push((name, text));
            captured.extend(Kind::of_tool(name).map(|kind| Captured {
                call: id.clone(),
                kind,
                arguments: Sha256Hash::of(text.as_bytes()),
                terminate: Terminate,
            }));
        }
        match Calls::of(called, admitted) {
            Ok(_) => Self::Captured(captured),
            Err(error) => Self::Refused(Refused { index: error.index as u64, code: error.misfit.code }),
        }
    }

    /// Returns how many calls were captured.
    #[must_use]
    pub const fn count(&self) -> usize {
        match self {
            Self::Captured(calls) => calls.len(),
            Self::Refused(_) => 0,
        }
    }
}
