//! What would come of an accepted memory change as things are: a dry run, shown with the proposal.
//!
//! It asks the very function that the materializer asks before it begins, whether a service runs or not, and writes
//! nothing. A decision is a person's right whatever it says.

use std::cell::OnceCell;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thoughtstream_actors::materializer::{self, ContextRoot, Ground, Unfit, Wanted};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::proposal::{Disposition, MemoryChangeProposed};
use thoughtstream_domain::proposal::reason::ReasonCode;
use thoughtstream_store::Reader;

use crate::failure::Failure;
use crate::load;
use crate::places::Places;

/// The code of an outlook that nobody has: where the document lies cannot be read.
const CONFIG_UNREAD: &str = "config-unread";

/// Is where the memory document lies, as far as it is known. It looks at the folder once.
#[derive(Debug)]
pub struct Home {
    /// The folder, if one is configured; nothing if the configuration cannot be read.
    root: Option<Option<Arc<ContextRoot>>>,
    ground: OnceCell<Ground>,
}

impl Home {
    /// Takes what a running service was started with.
    #[must_use]
    pub const fn of(root: Option<Arc<ContextRoot>>) -> Self {
        Self { root: Some(root), ground: OnceCell::new() }
    }

    /// Takes what a service would be started with.
    #[must_use]
    pub fn configured(places: &Places) -> Self {
        let root = load::context_root(places).map(|root| root.map(Arc::new));
        Self { root, ground: OnceCell::new() }
    }

    /// Says what would come of a change now.
    pub(super) fn outlook(&self, reader: &Reader, wanted: &Wanted) -> Result<Outlook, Failure> {
        let Some(root) = &self.root else {
            return Ok(Outlook::waits(wanted, CONFIG_UNREAD));
        };
        let ground = self.ground.get_or_init(|| Ground::of(root.as_deref()));
        Ok(match ground.outlook(reader, wanted)? {
            materializer::Outlook::Written(planned) => Outlook {
                verdict: Verdict::Applies,
                code: None,
                base_sha256: wanted.target.sha256,
                found_sha256: None,
                result_sha256: Some(planned.sha256()),
                result_bytes: Some(planned.bytes().reveal().len() as u64),
                holder: None,
            },
            materializer::Outlook::Fails(Unfit { code, found }) => Outlook {
                verdict: Verdict::Fails,
                code: Some(code.as_str().to_owned()),
                found_sha256: found,
                ..Outlook::waits(wanted, "")
            },
            materializer::Outlook::Waits(note, holder) => {
                Outlook { holder, ..Outlook::waits(wanted, note.as_str()) }
            }
        })
    }
}

/// Says in a word what would come of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It would be written.
    Applies,
    /// It would fail, and a failure is final.
    Fails,
    /// It would wait for a person.
    Waits,
}

/// Says what would come of a change if it were written now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// In a word.
    pub verdict: Verdict,
    /// Why, unless it applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The hash of what the change was made for.
    pub base_sha256: Sha256Hash,
    /// The hash of what the file holds, if that is something else and could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_sha256: Option<Sha256Hash>,
    /// The hash of what the file would hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_sha256: Option<Sha256Hash>,
    /// How many bytes that would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// The process that is in the way, where it is known to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<u32>,
}

impl Outlook {
    fn waits(wanted: &Wanted, code: &str) -> Self {
        Self {
            verdict: Verdict::Waits,
            code: Some(code.to_owned()),
            base_sha256: wanted.target.sha256,
            found_sha256: None,
            result_sha256: None,
            result_bytes: None,
            holder: None,
        }
    }

    /// Says what a person can do about what it waits for.
    pub(super) fn remedy(&self) -> String {
        let remedy = remedy(self.code.as_deref().unwrap_or("-"));
        self.holder.map_or_else(|| remedy.to_owned(), |pid| format!("{remedy} (it is process {pid})"))
    }

    /// Says it in a sentence, without its way out.
    #[must_use]
    pub fn says(&self) -> String {
        let code = self.code.as_deref().unwrap_or("-");
        match self.verdict {
            Verdict::Applies => {
                let result = self.result_sha256.map_or_else(String::new, |hash| hash.short());
                let bytes = self.result_bytes.unwrap_or_default();
                format!("it would be written, from {} to {result}, {bytes} bytes", self.base_sha256.short())
            }
            Verdict::Fails => {
                let found = self.found_sha256.map_or_else(String::new, |found| {
                    format!("; it is about {}, and the file holds {found}", self.base_sha256)
                });
                format!("it would fail as {}{found}", failed(code))
            }
            Verdict::Waits => format!("it would wait, {code}: {}", self.remedy()),
        }
    }

    /// Says it in a few words: what would come of it, and the code of why.
    #[must_use]
    pub fn would(&self) -> String {
        let code = self.code.as_deref().unwrap_or("-");
        match self.verdict {
            Verdict::Applies => "would be written".to_owned(),
            Verdict::Fails => format!("would fail as {code}"),
            Verdict::Waits => format!("would wait, {code}"),
        }
    }

    /// Says it to somebody who has just decided so.
    #[must_use]
    pub fn told(&self) -> String {
        match self.verdict {
            Verdict::Applies => "the file changes only when this is materialized".to_owned(),
            Verdict::Fails | Verdict::Waits => {
                let out = self.way_out().map_or_else(String::new, |out| format!("; {out}"));
                format!("the file does not change as things are: {}{out}", self.says())
            }
        }
    }

    /// Returns what a person does about a change that would fail.
    #[must_use]
    pub fn way_out(&self) -> Option<&'static str> {
        let code = self.code.as_deref().and_then(reason).filter(|_| self.verdict == Verdict::Fails)?;
        Some(way_out(code))
    }

    /// Says whether it would fail because the document is another by now.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        let code = self.code.as_deref().and_then(reason);
        self.verdict == Verdict::Fails
            && matches!(code, Some(ReasonCode::StaleBase | ReasonCode::FileChanged))
    }
}

/// Says why a change failed: the code, and what it means.
pub(super) fn failed(code: &str) -> String {
    reason(code).map_or_else(|| code.to_owned(), |known| format!("{code}: {known}"))
}

/// Reads a code of a failed change.
pub(super) fn reason(code: &str) -> Option<ReasonCode> {
    ReasonCode::ALL.iter().copied().find(|known| known.as_str() == code)
}

/// Says what a person does about a change that would fail, while nobody has decided about it.
const fn way_out(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::StaleBase | ReasonCode::FileChanged => {
            "the document has changed since: reject it, and ask for it again in the chat"
        }
        ReasonCode::RootUnfit => "the folder has to be there, and no link: put it right first",
        ReasonCode::FileMissing => "put memory.md back first",
        ReasonCode::FileLinked => "put the file itself in the place of the link first",
        ReasonCode::FileUnfit => {
            "memory.md has to be a regular file that the service may read: put it right first"
        }
        ReasonCode::NotText
        | ReasonCode::FrontmatterMissing
        | ReasonCode::FrontmatterMalformed
        | ReasonCode::IdMissing
        | ReasonCode::IdTwice
        | ReasonCode::IdChanged
        | ReasonCode::TooLarge
        | ReasonCode::Unchanged => "put a text that fits in its place, or reject it",
        ReasonCode::BaseDamaged
        | ReasonCode::OtherTarget
        | ReasonCode::NoSpace
        | ReasonCode::WriteFailed
        | ReasonCode::Swapped
        | ReasonCode::ScanFailed
        | ReasonCode::ScanDiffers
        | ReasonCode::ReceiptFailed => "reject it, mend the cause, and ask for it again in the chat",
    }
}

/// Says what a person does after a change has failed, which is final: `asked` is the message that it was asked for in.
pub(super) fn after_failure(code: &str, asked: Option<&EventId>) -> String {
    let mended = match reason(code) {
        Some(ReasonCode::RootUnfit) => "put the folder right",
        Some(ReasonCode::FileMissing) => "put memory.md back",
        Some(ReasonCode::FileLinked) => "put the file itself in the place of the link",
        Some(ReasonCode::FileUnfit) => "make memory.md a regular file that the service may read",
        Some(ReasonCode::NoSpace) => "make room on the disk",
        Some(ReasonCode::WriteFailed) => "let the service write in that folder",
        Some(ReasonCode::Swapped) => {
            "compare memory.md with the .thought-*.new beside it, keep what is right, remove the other"
        }
        Some(ReasonCode::ScanFailed | ReasonCode::ScanDiffers | ReasonCode::ReceiptFailed) => {
            "look what memory.md says now, and at thought source look filesystem:telegram-agent-context"
        }
        Some(ReasonCode::BaseDamaged | ReasonCode::OtherTarget) => "see what thought verify says",
        Some(
            ReasonCode::NotText
            | ReasonCode::FrontmatterMissing
            | ReasonCode::FrontmatterMalformed
            | ReasonCode::IdMissing
            | ReasonCode::IdTwice
            | ReasonCode::IdChanged
            | ReasonCode::TooLarge
            | ReasonCode::Unchanged
            | ReasonCode::StaleBase
            | ReasonCode::FileChanged,
        )
        | None => "",
    };
    let mended = if mended.is_empty() { String::new() } else { format!("{mended}, then ") };
    let asked = asked.map_or_else(String::new, |id| format!(", as in {id}"));
    format!(
        "a change that failed has failed for good, and nothing is rebased: {mended}ask for it again in the chat{asked}"
    )
}

/// Says what a person can do about what is in the way of whoever writes.
pub(super) fn remedy(code: &str) -> &'static str {
    match code {
        CONFIG_UNREAD => "config.yaml cannot be read: thought declaration check says why",
        "no-context-root" => "config.yaml names no folder as filesystem:telegram-agent-context",
        "memory-not-selected" => "include and ignore of that folder leave memory.md out",
        "root-held" => {
            "another process owns the folder of filesystem:telegram-agent-context; the file \
             .thought-materializer.owner in it says which (`pid`): end it"
        }
        "root-lock-damaged" => {
            "what says who owns the folder of filesystem:telegram-agent-context cannot be believed: if nothing else \
             writes there, remove the files .thought-materializer.* in it"
        }
        "root-lock-replaced" => {
            "somebody replaced the lock in the folder of filesystem:telegram-agent-context: find out who writes there"
        }
        "root-lock-failed" => {
            "no lock can be made in the folder of filesystem:telegram-agent-context: it has to be writable"
        }
        "root-unfit" => {
            "a change was begun in that folder, which is gone or a link, so nobody knows whether it was written: \
             put the folder back, or make an empty one in its place to have the change end as failed"
        }
        "file-unfit" => {
            "a change was begun and memory.md cannot be read, so nobody knows whether it was written: let the \
             service read it, or move it away to have the change end as failed"
        }
        "waits-for-scan" => "the actor that looks at that folder is down: thought tree says why",
        "log-unwritable" => "the log takes nothing at the moment: see thought doctor",
        "paused" => "the service was started paused",
        _ => "see thought tree",
    }
}

/// Names a proposed change as it would be made; `instead` is the text that a person puts in the place of its own.
pub(super) fn wanted(proposed: &MemoryChangeProposed, decided: Option<&Disposition>) -> Option<Wanted> {
    let text = match decided {
        None | Some(Disposition::Accept) => proposed.proposed_text.clone(),
        Some(Disposition::Edit { replacement }) => replacement.clone(),
        Some(Disposition::Reject) => return None,
    };
    Some(Wanted { target: proposed.target.clone(), operation: proposed.operation, text })
}
