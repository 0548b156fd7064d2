//! The permanent mark of a store made for rehearsal: only there may anything be made to fail on purpose.

use std::path::Path;

use thoughtstream_actors::killpoint::{KillAction, KillPoint, Trap};
use thoughtstream_effects::atomic;
use thoughtstream_store::{CreateError, Options, Store};

use crate::chance;
use crate::exit::Exit;
use crate::failure::Failure;

/// How the mark of a rehearsal begins; the chance that a random mark does is one in 2^72.
const WORD: &[u8; 9] = b"rehearsal";

/// Makes the mark of a new store for rehearsal.
///
/// # Errors
/// [`Failure`] if the kernel gives no random bytes.
pub fn mark() -> Result<[u8; 16], Failure> {
    let mut mark = chance::bytes::<16>()?;
    mark[..WORD.len()].copy_from_slice(WORD);
    Ok(mark)
}

/// The file beside a rehearsal's log that tells a service to look at the mark. Alone it means nothing.
pub const HINT: &str = "rehearsal";

/// Makes a log for rehearsal.
///
/// # Errors
/// [`Failure`] if there is a log already, or it cannot be made.
pub fn create(data: &Path) -> Result<(), Failure> {
    Store::create(data, mark()?, Options::default()).map_err(|error| {
        let exit =
            if matches!(error, CreateError::Exists { .. }) { Exit::Refused } else { Exit::CouldNotLook };
        Failure::of(exit, "store.create", &error)
    })?;
    atomic::create(&data.join(HINT), b"", 0o600)
        .map_err(|error| Failure::of(Exit::CouldNotLook, "rehearsal.hint", &error))
}

/// Says whether a store with this mark was made for rehearsal.
#[must_use]
pub fn is_rehearsal(mark: &[u8; 16]) -> bool {
    mark.starts_with(WORD)
}

/// Makes a trap from the names of a kill point and an action.
///
/// # Errors
/// [`Failure`] with the known names if one is not known.
pub fn trap(point: &str, action: &str, passage: u32, actor: Option<&str>) -> Result<Trap, Failure> {
    let unknown = |what: &str, name: &str, known: String| {
        Failure::new(Exit::Usage, "rehearsal.name", format!("`{name}` is no {what}"))
            .with_hint(format!("known: {known}"))
    };
    let found = KillPoint::parse(point).ok_or_else(|| {
        let known: Vec<&str> = KillPoint::ALL.iter().map(|point| point.as_str()).collect();
        unknown("kill point", point, known.join(", "))
    })?;
    let does = KillAction::parse(action).ok_or_else(|| {
        let known: Vec<&str> = KillAction::ALL.iter().map(|action| action.as_str()).collect();
        unknown("action", action, known.join(", "))
    })?;
    let trap = Trap::new(found, does).at(passage);
    Ok(match actor {
        Some(actor) => trap.of(actor),
        None => trap,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mark_of_a_rehearsal_is_one() {
        assert!(is_rehearsal(&mark().unwrap()));
        assert!(!is_rehearsal(&chance::bytes().unwrap()));
        assert_ne!(mark().unwrap(), mark().unwrap());
    }
}
