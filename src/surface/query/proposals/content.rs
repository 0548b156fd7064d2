//! What a proposal says, read from a proven one: the text, its reason, what it would change and what it cites.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::diff::{self, Change};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::judgment::Judged;
use thoughtstream_domain::payload::proposal::{Disposition, MemoryChangeProposed, ProposalDecision};
use thoughtstream_domain::payload::telegram::TelegramMessage;
use thoughtstream_domain::proposal::lineage::{AnyProven, Proven};
use thoughtstream_domain::proposal::memory;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use crate::failure::Failure;

/// Is what a proposal says.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposalContent {
    /// What is proposed.
    pub text: String,
    /// The message that it was asked for in; nothing if that was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a person put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<String>,
    /// What it would change.
    pub shown: Shown,
    /// What it cites.
    pub evidence: Vec<EvidenceText>,
}

impl std::fmt::Debug for ProposalContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProposalContent({} bytes)", self.text.len())
    }
}

/// Shows what a proposal would change.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "kind")]
pub enum Shown {
    /// A document, from its frozen base to what it would be.
    Document {
        /// How it is changed: `append` or `replace-document`.
        operation: String,
        /// The hash of the base.
        base_sha256: Sha256Hash,
        /// The hash of what it would be.
        result_sha256: Sha256Hash,
        /// What differs.
        hunks: Vec<DiffHunk>,
        /// Whether only one of the two ends with a line's end.
        ends_differ: bool,
    },
    /// A document that the change does not fit: writing it would fail.
    Unfit {
        /// How it is changed.
        operation: String,
        /// Why it would fail.
        code: String,
    },
    /// A reply, as it was sent and as it would be.
    Reply {
        /// As it was sent.
        before: String,
        /// As it would be.
        after: String,
    },
    /// A focus: nothing is changed.
    Focus,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shown(…)")
    }
}

/// Is a stretch of a document with what changes in it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffHunk {
    /// The number of its first line now.
    pub old: u64,
    /// The number of its first line then.
    pub new: u64,
    /// The lines.
    pub lines: Vec<DiffLine>,
}

/// Is one line of a document that changes, or one around it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffLine {
    /// What becomes of it.
    pub change: Change,
    /// What it says.
    pub text: String,
}

/// Is an event that a proposal cites.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceText {
    /// Its id.
    pub id: EventId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it was recorded.
    pub at: Timestamp,
    /// What it says; nothing for a receipt, or what was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Reads what a proven proposal says, as it was decided or, while it was not, as somebody supposes it to be.
pub(super) fn of(
    reader: &Reader,
    proven: &AnyProven,
    decision: Option<&Event>,
    supposed: Option<&Disposition>,
) -> Result<ProposalContent, Failure> {
    let decided = decision.map(|event| event.payload_as::<ProposalDecision>().ok());
    let decided = decided.map(|decision| decision.map(|decision| decision.disposition));
    let edited = match decided.unwrap_or_else(|| supposed.cloned()) {
        Some(Disposition::Edit { replacement }) => Some(replacement.reveal().to_owned()),
        Some(Disposition::Accept | Disposition::Reject) | None => None,
    };
    let (text, reason, cited, shown) = match proven {
        AnyProven::Memory(proven) => {
            let said = proven.payload();
            let text = said.proposed_text.reveal().to_owned();
            let shown = document(reader, proven, edited.as_deref().unwrap_or(&text))?;
            (text, Some(&said.reason), &said.evidence[..], shown)
        }
        AnyProven::Correction(proven) => {
            let said = proven.payload();
            let text = said.replacement.summary().to_owned();
            let before = proven.bound().judged.observation.summary().to_owned();
            let after = edited.clone().unwrap_or_else(|| text.clone());
            (text, Some(&said.reason), &said.evidence[..], Shown::Reply { before, after })
        }
        AnyProven::Focus(proven) => {
            let text = serde_json::to_string_pretty(&proven.payload().declaration).unwrap_or_default();
            (text, None, &[][..], Shown::Focus)
        }
    };
    let trigger = match proven {
        AnyProven::Memory(proven) => proven.payload().proposer.trigger,
        AnyProven::Correction(proven) => proven.payload().proposer.trigger,
        AnyProven::Focus(proven) => proven.payload().proposer.trigger,
    };
    let asked = self::evidence(reader, &trigger)?.and_then(|message| message.text);
    let evidence = cited.iter().map(|id| evidence(reader, id)).collect::<Result<Vec<_>, _>>()?;
    Ok(ProposalContent {
        text,
        asked,
        reason: reason.map(|reason| reason.reveal().to_owned()),
        edited,
        shown,
        evidence: evidence.into_iter().flatten().collect(),
    })
}

/// Works out what the memory document would be, from the very bytes that the proposal is based on.
fn document(reader: &Reader, proven: &Proven<MemoryChangeProposed>, text: &str) -> Result<Shown, Failure> {
    let MemoryChangeProposed { target, operation, .. } = proven.payload();
    let name = operation.as_str().to_owned();
    let base = reader.blob(&target.sha256)?;
    let base = base.filter(|bytes| Sha256Hash::of(bytes.reveal()) == target.sha256);
    let Some(base) = base else {
        return Ok(Shown::Unfit { operation: name, code: "base-damaged".to_owned() });
    };
    // How large a document may be is known to whoever writes it.
    let made = memory::change(target, base.reveal(), *operation, text, u64::MAX);
    let result = match made {
        Ok(result) => result,
        Err(code) => return Ok(Shown::Unfit { operation: name, code: code.as_str().to_owned() }),
    };
    let (old, new) = (String::from_utf8_lossy(base.reveal()), String::from_utf8_lossy(result.bytes.reveal()));
    let hunks = diff::hunks(&old, &new);
    let line = |(change, text): &(Change, &str)| DiffLine { change: *change, text: (*text).to_owned() };
    let hunks = hunks.iter().map(|hunk| DiffHunk {
        old: hunk.old as u64,
        new: hunk.new as u64,
        lines: hunk.lines.iter().map(line).collect(),
    });
    Ok(Shown::Document {
        operation: name,
        base_sha256: target.sha256,
        result_sha256: result.sha256,
        hunks: hunks.collect(),
        ends_differ: !diff::ends_alike(&old, &new),
    })
}

fn evidence(reader: &Reader, id: &EventId) -> Result<Option<EvidenceText>, Failure> {
    let Some(event) = reader.event(id)? else { return Ok(None) };
    let text = event
        .payload_as::<TelegramMessage>()
        .map(|message| message.text.reveal().to_owned())
        .or_else(|_| Judged::of(&event).map(|judged| judged.observation.summary().to_owned()));
    Ok(Some(EvidenceText { id: *id, kind: event.kind.to_string(), at: event.recorded_at, text: text.ok() }))
}
