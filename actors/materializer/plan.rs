//! What making a change would come to, as the log and the folder are now. Nothing is written.
//!
//! The materializer asks this before it begins, and a dry run is answered by the same function: what it says is what
//! would happen, as long as nothing moves.

use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::proposal::call::Operation;
use thoughtstream_domain::proposal::capability::{MEMORY_PATH, MemoryTarget};
use thoughtstream_domain::proposal::materialize::{Planned, Recorded};
use thoughtstream_domain::proposal::reason::ReasonCode;
use thoughtstream_domain::proposal::text::ProposedText;
use thoughtstream_effects::lock::LockError;
use thoughtstream_effects::pinned::PinnedRoot;
use thoughtstream_store::{Reader, RowError};

use super::disk::{LOCK, NotTaken, Obstacle, is_ours, unfit, unread};
use super::{ContextRoot, NO_ROOT, NOT_SELECTED};
use crate::supervisor::ReasonCode as Note;

/// Is a change as somebody wants it: what is changed, how, and with which text.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The version that it is made for.
    pub target: MemoryTarget,
    /// How the document is changed.
    pub operation: Operation,
    /// The text.
    pub text: ProposedText,
}

/// Says why a change cannot be made as things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfit {
    /// Why.
    pub code: ReasonCode,
    /// The hash of what the file holds, where that was read and is not what the change is made for.
    pub found: Option<Sha256Hash>,
}

impl From<ReasonCode> for Unfit {
    fn from(code: ReasonCode) -> Self {
        Self { code, found: None }
    }
}

/// Works out what a change makes of the document, which must be in the log and in the folder what the change was made
/// for; the result has at most `bytes_max` bytes.
///
/// # Errors
/// [`Unfit`] if it is another, or if the result is nothing that may stand there.
pub(super) fn plan(
    wanted: &Wanted,
    recorded: &Recorded,
    root: &PinnedRoot,
    bytes_max: u64,
) -> Result<Planned, Unfit> {
    let Wanted { target, operation, text } = wanted;
    // Whether the log moved on or only the file, a person is told what the file holds.
    let found = root.read(MEMORY_PATH, target.bytes.max(bytes_max));
    let other = found.as_ref().ok().map(|file| file.sha256).filter(|sha256| *sha256 != target.sha256);
    let base = recorded.base(target).map_err(|code| Unfit { code, found: other })?;
    let planned = Planned::of(target, base, *operation, text, bytes_max)?;
    found.map_err(|error| unread(&error))?;
    match other {
        None => Ok(planned),
        Some(_) => Err(Unfit { code: ReasonCode::FileChanged, found: other }),
    }
}

/// Says what would come of a change.
#[derive(Debug, Clone)]
pub enum Outlook {
    /// It would be written.
    Written(Planned),
    /// It would fail.
    Fails(Unfit),
    /// It would wait: a code of the materializer, and the process that is in the way, where it is known to be one.
    Waits(Note, Option<u32>),
}

/// Is the folder of the memory document as somebody finds it who only looks: held by descriptor, owned by nobody.
#[derive(Debug)]
pub struct Ground {
    root: Result<PinnedRoot, NotTaken>,
    bytes_max: u64,
}

impl Ground {
    /// Looks at the folder, if there is one.
    #[must_use]
    pub fn of(root: Option<&ContextRoot>) -> Self {
        let bytes_max = root.map_or(0, |root| root.bytes_max);
        let root = match root {
            None => Err(Obstacle::Wait(NO_ROOT)),
            Some(root) if !root.selected => Err(Obstacle::Wait(NOT_SELECTED)),
            Some(root) => PinnedRoot::open(&root.path).map_err(|error| unfit(&error)),
        };
        let root = root.map_err(|obstacle| NotTaken { obstacle, holder: None }).and_then(ownable);
        Self { root, bytes_max }
    }

    /// Says what would come of a change now.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn outlook(&self, reader: &Reader, wanted: &Wanted) -> Result<Outlook, RowError> {
        let root = match &self.root {
            Ok(root) => root,
            Err(NotTaken { obstacle: Obstacle::Wait(note), holder }) => {
                return Ok(Outlook::Waits(*note, *holder));
            }
            Err(NotTaken { obstacle: Obstacle::Fail(code), .. }) => {
                return Ok(Outlook::Fails((*code).into()));
            }
        };
        let recorded = reader.memory_recorded(&wanted.target)?;
        Ok(match plan(wanted, &recorded, root, self.bytes_max) {
            Ok(planned) => Outlook::Written(planned),
            Err(unfit) => Outlook::Fails(unfit),
        })
    }
}

/// Looks whether the folder could be owned; one that this process owns already is no obstacle.
fn ownable(root: PinnedRoot) -> Result<PinnedRoot, NotTaken> {
    match root.could_own(LOCK) {
        Ok(()) => Ok(root),
        Err(LockError::Held { owner, .. }) if is_ours(&owner) => Ok(root),
        Err(error) => Err(NotTaken::of(&error)),
    }
}
