//! The calls of one final message, read strictly and held against what was admitted; in the sandbox and, by the same
//! function, in the trusted parent.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{Fields, parse};
use super::capability::WorkerCapability;
use super::focus::FocusDeclaration;
use super::text::{ProposedText, Reason, Replacement};
use super::{CALLS_MAX, Kind};
use crate::codes::closed_codes;
use crate::id::EventId;

/// The most events that one call may cite.
pub const EVIDENCE_MAX: usize = 16;

/// The longest arguments in bytes: the longest texts with every character escaped, and room for ids.
pub const ARGUMENTS_BYTES_MAX: usize = 256 << 10;

/// What a model writes for the reply it gave last.
pub const LATEST: &str = "latest";

closed_codes! {
    /// Says what is wrong with a call; a closed list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    CallCode {
        /// There is no such tool.
        UnknownTool = "unknown-tool", "there is no such tool";
        /// The tool exists and is not offered here.
        NotOffered = "not-offered", "the tool is not offered here";
        /// There are more calls than kinds.
        TooManyCalls = "too-many-calls", "there are more than three calls";
        /// One kind is proposed twice.
        SameKindTwice = "same-kind-twice", "the same tool is called twice";
        /// The arguments are larger than any can be.
        TooLarge = "too-large", "the arguments are larger than any can be";
        /// The arguments are not one JSON value.
        NotJson = "not-json", "the arguments are not one JSON value";
        /// A member stands twice in one object.
        DuplicateMember = "duplicate-member", "a member stands twice in one object";
        /// A member is not known; its name is the model's and is not told.
        UnknownMember = "unknown-member", "there is a member that the tool does not have";
        /// A member is missing.
        MissingMember = "missing-member", "a member is missing";
        /// A value has another type.
        WrongType = "wrong-type", "the value is of another type";
        /// A text says nothing.
        Blank = "blank", "nothing is said where something must be";
        /// A text is too long.
        TooLong = "too-long", "the text is longer than its bound";
        /// A word is not one of those allowed.
        NotAllowed = "not-allowed", "the word is not one of those allowed";
        /// A number lies outside its range.
        OutOfRange = "out-of-range", "the number lies outside its range";
        /// A list is too long.
        TooMany = "too-many", "the list is longer than its bound";
        /// A list is too short.
        TooFew = "too-few", "the list is shorter than its bound";
        /// An item stands twice in a list.
        Repeated = "repeated", "an item stands twice in the list";
        /// A text is no id.
        NotAnId = "not-an-id", "the text is no id";
        /// An id is not one that the snapshot admits.
        NotAdmitted = "not-admitted", "the id is not one that this conversation admits";
        /// Two members contradict each other.
        Inconsistent = "inconsistent", "two members contradict each other";
    }
}

/// Is what is wrong with the arguments of one call, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", if at.is_empty() { "the whole" } else { at }, code.words())]
pub struct Misfit {
    /// What.
    pub code: CallCode,
    /// Where, as a JSON pointer made of the tool's own names and of numbers; empty for the whole.
    pub at: String,
}

impl Misfit {
    pub(super) fn new(code: CallCode, at: &str) -> Self {
        Self { code, at: at.to_owned() }
    }

    pub(super) fn whole(code: CallCode) -> Self {
        Self::new(code, "")
    }
}

/// Is why the calls of a message were refused: all of them, for the first that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call {index}: {misfit}")]
pub struct CallError {
    /// Which call, from 0.
    pub index: usize,
    /// What it would have proposed, if its tool is one of ours.
    pub kind: Option<Kind>,
    /// What is wrong with it.
    pub misfit: Misfit,
}

/// Says how a memory document is to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Text is added at its end.
    Append,
    /// The whole document is replaced.
    ReplaceDocument,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 2] = [Self::Append, Self::ReplaceDocument];

    /// Returns the spelling used in arguments and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::ReplaceDocument => "replace-document",
        }
    }

    /// Reads the spelling used in arguments and events.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str() == text)
    }
}

/// Names the reply that a correction is about, as a model may name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The last one that may be corrected. The trusted parent resolves it; it is never stored.
    Latest,
    /// The one with this output.
    Output(EventId),
}

/// Asks for a change of the memory document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryCall {
    /// How it is to be changed.
    pub operation: Operation,
    /// What it would be given.
    pub proposed_text: ProposedText,
    /// Why.
    pub reason: Reason,
    /// What it is based on.
    pub evidence: Vec<EventId>,
}

/// Asks for another wording of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorrectionCall {
    /// Which reply.
    pub target: Target,
    /// What should have been said.
    pub replacement: Replacement,
    /// Why.
    pub reason: Reason,
    /// What it is based on.
    pub evidence: Vec<EventId>,
}

/// Asks for a focus to be taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FocusCall {
    /// The focus.
    pub declaration: FocusDeclaration,
}

/// Is one call whose arguments were read. What it names need not be admitted; [`Call::check`] says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// [`Kind::MemoryChange`].
    Memory(MemoryCall),
    /// [`Kind::SelfCorrection`].
    Correction(CorrectionCall),
    /// [`Kind::FocusDeclaration`].
    Focus(FocusCall),
}

impl Call {
    /// Reads the arguments of a tool, as the JSON text that a model wrote.
    ///
    /// # Errors
    /// The first [`Misfit`].
    pub fn parse(kind: Kind, arguments: &str) -> Result<Self, Misfit> {
        Self::read(kind, &parse(arguments)?)
    }

    /// Reads the arguments of a tool as a value.
    ///
    /// # Errors
    /// The first [`Misfit`].
    pub fn read(kind: Kind, arguments: &Value) -> Result<Self, Misfit> {
        match kind {
            Kind::MemoryChange => {
                let known = ["operation", "proposed_text", "reason", "evidence_event_ids"];
                let fields = Fields::of(arguments, "", &known)?;
                Ok(Self::Memory(MemoryCall {
                    operation: fields.word("operation", CallCode::NotAllowed, Operation::parse)?,
                    proposed_text: fields.text("proposed_text")?,
                    reason: fields.text("reason")?,
                    evidence: fields.events("evidence_event_ids", EVIDENCE_MAX)?,
                }))
            }
            Kind::SelfCorrection => {
                let known = ["target_output", "replacement", "reason", "evidence_event_ids"];
                let fields = Fields::of(arguments, "", &known)?;
                let target = |text: &str| match text {
                    LATEST => Some(Target::Latest),
                    id => EventId::parse(id).ok().map(Target::Output),
                };
                Ok(Self::Correction(CorrectionCall {
                    target: fields.word("target_output", CallCode::NotAnId, target)?,
                    replacement: fields.text("replacement")?,
                    reason: fields.text("reason")?,
                    evidence: fields.events("evidence_event_ids", EVIDENCE_MAX)?,
                }))
            }
            Kind::FocusDeclaration => {
                let fields = Fields::of(arguments, "", &["declaration"])?;
                let declaration =
                    FocusDeclaration::read(fields.required("declaration")?, &fields.place("declaration"))?;
                Ok(Self::Focus(FocusCall { declaration }))
            }
        }
    }

    /// Returns what it proposes.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Memory(_) => Kind::MemoryChange,
            Self::Correction(_) => Kind::SelfCorrection,
            Self::Focus(_) => Kind::FocusDeclaration,
        }
    }

    /// Returns the events that it cites.
    #[must_use]
    pub fn evidence(&self) -> &[EventId] {
        match self {
            Self::Memory(call) => &call.evidence,
            Self::Correction(call) => &call.evidence,
            Self::Focus(call) => &call.declaration.lineage.evidence,
        }
    }

    /// Returns its arguments in their one form; reading them again gives the same call.
    #[must_use]
    pub fn arguments(&self) -> Value {
        match self {
            Self::Memory(MemoryCall { operation, proposed_text, reason, evidence }) => json!({
                "operation": operation, "proposed_text": proposed_text, "reason": reason,
                "evidence_event_ids": evidence,
            }),
            Self::Correction(CorrectionCall { target, replacement, reason, evidence }) => {
                let target = match target {
                    Target::Latest => LATEST.to_owned(),
                    Target::Output(id) => id.to_string(),
                };
                json!({
                    "target_output": target, "replacement": replacement, "reason": reason,
                    "evidence_event_ids": evidence,
                })
            }
            Self::Focus(FocusCall { declaration }) => json!({ "declaration": declaration }),
        }
    }

    /// Holds it against what was admitted: its tool is offered, its target and its evidence are among the ids.
    ///
    /// # Errors
    /// The first [`Misfit`].
    pub fn check(&self, admitted: &WorkerCapability) -> Result<(), Misfit> {
        if !admitted.kinds.contains(&self.kind()) {
            return Err(Misfit::whole(CallCode::NotOffered));
        }
        if let Self::Correction(CorrectionCall { target: Target::Output(id), .. }) = self
            && !admitted.targets.contains(id)
        {
            return Err(Misfit::new(CallCode::NotAdmitted, "/target_output"));
        }
        let stray = self.evidence().iter().position(|id| !admitted.evidence.contains(id));
        match stray {
            None => Ok(()),
            Some(index) => {
                let list = match self {
                    Self::Memory(_) | Self::Correction(_) => "/evidence_event_ids",
                    Self::Focus(_) => "/declaration/lineage/evidence",
                };
                Err(Misfit::new(CallCode::NotAdmitted, &format!("{list}/{index}")))
            }
        }
    }
}

/// A call travels as its tool and its arguments, and is read as strictly as the model's own text.
impl Serialize for Call {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({ "tool": self.kind().tool(), "arguments": self.arguments() }).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Call {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            tool: String,
            arguments: Value,
        }
        let Raw { tool, arguments } = Raw::deserialize(deserializer)?;
        let kind =
            Kind::of_tool(&tool).ok_or_else(|| serde::de::Error::custom(CallCode::UnknownTool.words()))?;
        Self::read(kind, &arguments).map_err(serde::de::Error::custom)
    }
}

/// Is the calls of one final message: at most three, and one of each kind, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Call>", into = "Vec<Call>")]
pub struct Calls(Vec<Call>);

impl Calls {
    /// Reads the calls of a message, each by the name of its tool and its arguments as JSON text, and holds them
    /// against what was admitted. One that is wrong refuses all.
    ///
    /// # Errors
    /// [`CallError`] for the first that is wrong.
    pub fn of<'t>(
        called: impl IntoIterator<Item = (&'t str, &'t str)>,
        admitted: &WorkerCapability,
    ) -> Result<Self, CallError> {
        let mut calls = Vec::new();
        for (index, (tool, arguments)) in called.into_iter().enumerate() {
            let kind = Kind::of_tool(tool);
            let refused = |misfit| CallError { index, kind, misfit };
            if index >= CALLS_MAX {
                return Err(refused(Misfit::whole(CallCode::TooManyCalls)));
            }
            let known = kind.ok_or_else(|| refused(Misfit::whole(CallCode::UnknownTool)))?;
            if !admitted.kinds.contains(&known) {
                return Err(refused(Misfit::whole(CallCode::NotOffered)));
            }
            let call = Call::parse(known, arguments).map_err(refused)?;
            call.check(admitted).map_err(refused)?;
            calls.push(call);
        }
        Self::try_from(calls)
    }

    /// Holds calls that were read before against what was admitted.
    ///
    /// # Errors
    /// [`CallError`] for the first that is wrong.
    pub fn check(&self, admitted: &WorkerCapability) -> Result<(), CallError> {
        self.0.iter().enumerate().try_for_each(|(index, call)| {
            call.check(admitted).map_err(|misfit| CallError { index, kind: Some(call.kind()), misfit })
        })
    }

    /// Returns the calls in the order in which they were made.
    #[must_use]
    pub fn as_slice(&self) -> &[Call] {
        &self.0
    }

    /// Says whether nothing was called.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what is proposed.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<Kind> {
        self.0.iter().map(Call::kind).collect()
    }
}

impl TryFrom<Vec<Call>> for Calls {
    type Error = CallError;
    fn try_from(calls: Vec<Call>) -> Result<Self, CallError> {
        let mut kinds = BTreeSet::new();
        for (index, call) in calls.iter().enumerate() {
            if !kinds.insert(call.kind()) {
                let misfit = Misfit::whole(CallCode::SameKindTwice);
                return Err(CallError { index, kind: Some(call.kind()), misfit });
            }
        }
        Ok(Self(calls))
    }
}

impl From<Calls> for Vec<Call> {
    fn from(calls: Calls) -> Self {
        calls.0
    }
}
