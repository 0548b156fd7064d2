//! What a consumer runs on its triggers: the seam between the attempt and the work.

use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::lifecycle::{Execution, FailurePolicy, Output};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::file::{FileAdded, FileChanged, FileRenamed};
use thoughtstream_domain::retry::{Exhausted, RetryPolicy};
use thoughtstream_domain::text::characters;
use thoughtstream_domain::transform::{self, TransformError};
use thoughtstream_store::Reader;

/// Runs on a thread of its own unless it is brief; the same triggers give the same outputs.
pub trait Runner: Send + Sync + 'static {
    /// Makes outputs of the triggers.
    ///
    /// # Errors
    /// [`RunFailure`] with an allow-listed code.
    fn run(&self, reader: &Reader, triggers: &[Event]) -> Result<Vec<Output>, RunFailure>;

    /// Says whether a run on these triggers reads nothing but them and takes microseconds: it then needs no
    /// thread of its own.
    fn is_brief(&self, _triggers: &[Event]) -> bool {
        false
    }

    /// Is told that an attempt on these triggers is settled: whatever was held for it may go. A hint like any
    /// other, lost when its actor dies.
    fn settled(&self, _execution: &Execution) {}
}

/// Says why a run gave no outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunFailure {
    /// The reason, from a fixed list.
    pub code: &'static str,
    /// What failed.
    pub cause: Cause,
}

/// Says what failed, and with that what another attempt could change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A person erased a trigger: there is nothing to do any more.
    Erased,
    /// A trigger, or what it names, cannot be processed; it would fail in the same way again.
    Input,
    /// What was made is no output of this consumer.
    Output,
    /// Something around the run failed, and may not the next time.
    Surroundings,
    /// What belongs to the trigger is not what was recorded.
    Damage,
}

impl RunFailure {
    /// A person erased a trigger.
    #[must_use]
    pub const fn of_erased() -> Self {
        Self { code: "trigger-erased", cause: Cause::Erased }
    }

    /// The input cannot be processed.
    #[must_use]
    pub const fn of_input(code: &'static str) -> Self {
        Self { code, cause: Cause::Input }
    }

    /// The output is none.
    #[must_use]
    pub const fn of_output(code: &'static str) -> Self {
        Self { code, cause: Cause::Output }
    }

    /// Something around the run failed.
    #[must_use]
    pub const fn of_surroundings(code: &'static str) -> Self {
        Self { code, cause: Cause::Surroundings }
    }

    /// What belongs to the trigger is damaged in the log: whatever is declared, a person decides.
    #[must_use]
    pub const fn of_damage() -> Self {
        Self { code: "log-damaged", cause: Cause::Damage }
    }

    /// Returns what follows it where this is declared.
    #[must_use]
    pub const fn policy(self, retry: RetryPolicy) -> FailurePolicy {
        match self.cause {
            Cause::Erased | Cause::Output => FailurePolicy::Final,
            Cause::Input => FailurePolicy::Unprocessable(retry.exhausted),
            Cause::Surroundings => FailurePolicy::Retryable(retry),
            Cause::Damage => FailurePolicy::Unprocessable(Exhausted::Quarantine),
        }
    }
}

/// Runs one of the transforms that ship, on the document versions that the triggers name.
#[derive(Debug, Clone)]
pub struct Deterministic {
    /// The transform's name; the declaration was checked against the list of them.
    pub transform: String,
    /// The most characters (UTF-16 code units) of all documents of one run together; nothing is ever cut.
    pub characters_max: usize,
}

impl Runner for Deterministic {
    /// Without a document there is next to nothing to do.
    fn is_brief(&self, triggers: &[Event]) -> bool {
        !triggers.iter().any(names_a_version)
    }

    fn run(&self, reader: &Reader, triggers: &[Event]) -> Result<Vec<Output>, RunFailure> {
        if any_erased(triggers) {
            return Err(RunFailure::of_erased());
        }
        let mut left = self.characters_max;
        let mut outputs = Vec::new();
        for trigger in triggers {
            let payload = trigger.payload_value().ok_or(RunFailure::of_input("trigger-unreadable"))?;
            let about = transform::Trigger::read(&trigger.kind, &payload).map_err(failure)?;
            let content = if about.is_read() { content(reader, trigger)? } else { None };
            if let Some(text) = content.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok()) {
                left = left
                    .checked_sub(characters(text))
                    .ok_or(RunFailure::of_input("context-exceeds-max-chars"))?;
            }
            let made = transform::run(&self.transform, &about, content.as_deref()).map_err(failure)?;
            outputs.extend(made.into_iter().map(|o| Output {
                kind: o.kind,
                payload: o.payload,
                address: None,
            }));
        }
        Ok(outputs)
    }
}

/// Says whether the payload of one of these events was erased by a recorded redaction.
#[must_use]
pub fn any_erased(events: &[Event]) -> bool {
    events.iter().any(|event| event.payload == Payload::Redacted)
}

fn names_a_version(trigger: &Event) -> bool {
    matches!(trigger.kind.name.as_str(), FileAdded::NAME | FileChanged::NAME | FileRenamed::NAME)
}

/// Reads the document version that a file event names; other events name none.
fn content(reader: &Reader, trigger: &Event) -> Result<Option<Vec<u8>>, RunFailure> {
    let sha256 = match trigger.kind.name.as_str() {
        FileAdded::NAME => trigger.payload_as::<FileAdded>().map(|p| p.sha256),
        FileChanged::NAME => trigger.payload_as::<FileChanged>().map(|p| p.sha256),
        FileRenamed::NAME => trigger.payload_as::<FileRenamed>().map(|p| p.sha256),
        _ => return Ok(None),
    };
    let sha256 = sha256.map_err(|_| RunFailure::of_input("trigger-unreadable"))?;
    let blob = reader.blob(&sha256).map_err(|_| RunFailure::of_surroundings("store-unreadable"))?;
    let blob = blob.ok_or(RunFailure::of_input("document-version-missing"))?;
    if Sha256Hash::of(blob.reveal()) != sha256 {
        return Err(RunFailure::of_damage());
    }
    Ok(Some(blob.into_inner()))
}

fn failure(error: TransformError) -> RunFailure {
    match error {
        TransformError::OutputTooLarge { .. } => RunFailure::of_output(error.code()),
        TransformError::Unknown
        | TransformError::WrongTrigger { .. }
        | TransformError::Missing
        | TransformError::OtherVersion
        | TransformError::TooLarge { .. }
        | TransformError::NotUtf8 { .. }
        | TransformError::TooDeep { .. } => RunFailure::of_input(error.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_decided_by_a_person_whatever_is_declared() {
        for exhausted in [Exhausted::Advance, Exhausted::Hold, Exhausted::Quarantine] {
            let retry = RetryPolicy { exhausted, ..RetryPolicy::default() };
            assert_eq!(
                RunFailure::of_damage().policy(retry),
                FailurePolicy::Unprocessable(Exhausted::Quarantine)
            );
            assert_eq!(RunFailure::of_input("x").policy(retry), FailurePolicy::Unprocessable(exhausted));
        }
    }
}
