//! The permanent mark of a store made for rehearsal: only there may anything be made to fail on purpose.

use crate::chance;
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

/// Says whether a store with this mark was made for rehearsal.
#[must_use]
pub fn is_rehearsal(mark: &[u8; 16]) -> bool {
    mark.starts_with(WORD)
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
