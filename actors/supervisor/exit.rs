//! How an actor can end, and the only code that reads ractor's reason strings.

use std::error::Error as StdError;
use std::fmt::{self, Write};

use ractor::{ActorId, SpawnErr, SupervisionEvent};
use serde::{Serialize, Serializer};

/// Names a cause in a few fixed words, so that it can be stored, counted and shown without any content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReasonCode(&'static str);

impl ReasonCode {
    /// A panic: always a bug, or a kill point.
    pub const PANICKED: Self = Self("panicked");
    /// An error that was returned without a code of ours.
    pub const UNEXPLAINED: Self = Self("unexplained");
    /// A stop whose reason is none of ours.
    pub const UNKNOWN_STOP: Self = Self("unknown-stop");
    /// Something did not end within its bound.
    pub const TIMED_OUT: Self = Self("timed-out");
    /// An actor of that name is still there.
    pub const NAME_TAKEN: Self = Self("name-taken");
    /// The task that closes what the ended actor left open could not do so.
    pub const RECOVERY_FAILED: Self = Self("recovery-failed");
    /// A stopped or killed actor is still busy after all its bounds.
    pub const NOT_ANSWERING: Self = Self("not-answering");
    /// The supervisor it belongs to ended underneath it.
    pub const ORPHANED: Self = Self("orphaned");

    /// Makes a code out of lower-case letters, digits and hyphens.
    ///
    /// # Panics
    /// When `text` is anything else; in a `const` that is a compile error.
    pub const fn new(text: &'static str) -> Self {
        let bytes = text.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= 64, "a reason code has 1 to 64 characters");
        let mut index = 0;
        while index < bytes.len() {
            let byte = bytes[index];
            assert!(byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-', "not a reason code");
            index += 1;
        }
        Self(text)
    }

    /// Returns the text.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for ReasonCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

/// The error an actor returns to say "restart me", with a cause that may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("actor fault: {0}")]
pub struct Fault(pub ReasonCode);

/// Says why an actor was asked to stop, or why it stopped by itself on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopReason {
    /// The tree is going down.
    Shutdown,
    /// A person stopped this one.
    Operator,
    /// It no longer belongs to the tree.
    Removed,
    /// A person asked for a new incarnation.
    Restart,
    /// Its declaration or configuration was replaced.
    Reload,
    /// A sibling it depends on ended.
    Group,
    /// Its work is complete.
    Finished,
    /// It emptied its mailbox and ended (ractor's own word for it).
    Drained,
    /// A supervisor whose child could not be kept alive.
    GaveUp,
}

/// What follows a planned stop when nobody has said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterStop {
    StayDown,
    StartAgain,
    Complete,
    Failure,
}

impl StopReason {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Shutdown,
        Self::Operator,
        Self::Removed,
        Self::Restart,
        Self::Reload,
        Self::Group,
        Self::Finished,
        Self::Drained,
        Self::GaveUp,
    ];

    /// Ours carry this, so that no other crate's text passes for a planned stop.
    const PREFIX: &'static str = "stop:";

    /// Returns the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::Operator => "operator",
            Self::Removed => "removed",
            Self::Restart => "restart",
            Self::Reload => "reload",
            Self::Group => "group",
            Self::Finished => "finished",
            Self::Drained => "drained",
            Self::GaveUp => "gave-up",
        }
    }

    /// Returns the text handed to ractor's `stop`.
    pub fn stop_text(self) -> String {
        format!("{}{}", Self::PREFIX, self.as_str())
    }

    /// Reads a text that [`Self::stop_text`] wrote, or ractor's own "Drained".
    pub fn parse(text: Option<&str>) -> Option<Self> {
        let text = text?;
        if text == "Drained" {
            return Some(Self::Drained);
        }
        let word = text.strip_prefix(Self::PREFIX)?;
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    pub(crate) const fn after(self) -> AfterStop {
        match self {
            Self::Shutdown | Self::Operator | Self::Removed => AfterStop::StayDown,
            Self::Restart | Self::Reload | Self::Group => AfterStop::StartAgain,
            Self::Finished | Self::Drained => AfterStop::Complete,
            Self::GaveUp => AfterStop::Failure,
        }
    }
}

/// How one incarnation of an actor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It stopped for one of our reasons.
    Planned(StopReason),
    /// Somebody killed it: no clean-up ran.
    Killed,
    /// Its task was aborted, or the runtime went away.
    Cancelled,
    /// It returned an error, panicked, or stopped for a reason that is not ours.
    Failed(ReasonCode),
    /// It never came up.
    StartFailed(ReasonCode),
}

impl Exit {
    /// Returns the word for the kind of end.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Planned(_) => "planned",
            Self::Killed => "killed",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
            Self::StartFailed(_) => "start-failed",
        }
    }

    /// Returns what more is known about it.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Planned(reason) => Some(reason.as_str()),
            Self::Failed(code) | Self::StartFailed(code) => Some(code.as_str()),
            Self::Killed | Self::Cancelled => None,
        }
    }

    /// Tells whether nobody asked for this end.
    pub fn is_abnormal(self) -> bool {
        !matches!(self, Self::Planned(reason) if reason.after() != AfterStop::Failure)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        self.reason().map_or(Ok(()), |reason| write!(f, ":{reason}"))
    }
}

/// Reads from a supervision event who ended and how; `None` for an event that ends nobody.
pub(crate) fn classify(event: &SupervisionEvent) -> Option<(ActorId, Exit)> {
    match event {
        SupervisionEvent::ActorFailed(cell, error) => {
            Some((cell.get_id(), Exit::Failed(code_of(error.as_ref()))))
        }
        SupervisionEvent::ActorTerminated(cell, _, reason) => {
            let exit = match reason.as_deref() {
                Some("killed") => Exit::Killed,
                Some("actor_task_cancelled") => Exit::Cancelled,
                other => {
                    StopReason::parse(other).map_or(Exit::Failed(ReasonCode::UNKNOWN_STOP), Exit::Planned)
                }
            };
            Some((cell.get_id(), exit))
        }
        SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => None,
    }
}

/// Reads why a spawn was refused.
pub(crate) fn classify_spawn(error: &SpawnErr) -> ReasonCode {
    match error {
        SpawnErr::StartupFailed(error) => code_of(error.as_ref()),
        SpawnErr::ActorAlreadyRegistered(_) => ReasonCode::NAME_TAKEN,
        SpawnErr::ActorAlreadyStarted => ReasonCode::UNEXPLAINED,
    }
}

/// Finds the code an error carries. ractor hands a panic over as its bare text, which no error of ours is; a
/// bare text shows itself by the quotation mark that `Debug` puts first. The text itself is never kept.
fn code_of(error: &(dyn StdError + Send + Sync + 'static)) -> ReasonCode {
    if let Some(Fault(code)) = error.downcast_ref::<Fault>() {
        return *code;
    }
    let mut first = FirstCharacter(None);
    // The writer refuses everything after the first character, which `write!` reports as an error.
    if write!(first, "{error:?}").is_ok() && first.0.is_none() {
        return ReasonCode::UNEXPLAINED;
    }
    if first.0 == Some('"') { ReasonCode::PANICKED } else { ReasonCode::UNEXPLAINED }
}

struct FirstCharacter(Option<char>);

impl fmt::Write for FirstCharacter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match (self.0, text.chars().next()) {
            (Some(_), _) => Err(fmt::Error),
            (None, first) => {
                self.0 = first;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_reason_survives_the_trip_through_a_text() {
        for reason in StopReason::ALL {
            assert_eq!(StopReason::parse(Some(&reason.stop_text())), Some(reason));
        }
    }

    #[test]
    fn a_foreign_stop_text_is_no_reason_of_ours() {
        for text in [None, Some(""), Some("shutdown"), Some("stop:"), Some("stop:Shutdown"), Some("killed")] {
            assert_eq!(StopReason::parse(text), None, "{text:?}");
        }
        assert_eq!(StopReason::parse(Some("Drained")), Some(StopReason::Drained));
    }

    #[test]
    fn an_error_gives_its_code_and_never_its_text() {
        let coded: Box<dyn StdError + Send + Sync> = Fault(ReasonCode::new("log-stuck")).into();
        let bare: Box<dyn StdError + Send + Sync> = "what the person wrote".into();
        let typed: Box<dyn StdError + Send + Sync> = std::io::Error::other("what the person wrote").into();
        assert_eq!(code_of(coded.as_ref()).as_str(), "log-stuck");
        assert_eq!(code_of(bare.as_ref()), ReasonCode::PANICKED);
        assert_eq!(code_of(typed.as_ref()), ReasonCode::UNEXPLAINED);
    }

    #[test]
    fn only_ends_that_nobody_asked_for_are_abnormal() {
        assert!(Exit::Killed.is_abnormal());
        assert!(Exit::Planned(StopReason::GaveUp).is_abnormal());
        assert!(!Exit::Planned(StopReason::Finished).is_abnormal());
        assert!(!Exit::Planned(StopReason::Shutdown).is_abnormal());
    }
}
