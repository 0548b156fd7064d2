//! Calls about this process as a whole.
//!
//! This is the one file that may contain `unsafe`, each use with an `#[expect]` and its reason. It has none:
//! every call it makes has a safe wrapper.

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};

use thiserror::Error;

/// The process could not be closed to others.
#[derive(Debug, Error)]
pub enum PrivacyError {
    /// The kernel refused to clear the dumpable flag.
    #[error("cannot make the process non-dumpable")]
    Dumpable(#[source] nix::Error),
    /// The kernel refused to set the core size to zero.
    #[error("cannot switch core dumps off")]
    CoreSize(#[source] nix::Error),
}

/// Makes this process unreadable for other processes of the same user, and switches core dumps off.
///
/// A non-dumpable process cannot be attached to by a debugger and its `/proc/PID/mem` and `environ` belong to
/// root, so credentials and note text do not leak through another program of the same user. Called once, at
/// the start of `main`, before any thread exists.
///
/// # Errors
///
/// Returns which of the two the kernel refused; the caller should not go on.
pub fn close_process_memory() -> Result<(), PrivacyError> {
    prctl::set_dumpable(false).map_err(PrivacyError::Dumpable)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(PrivacyError::CoreSize)
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::getrlimit;

    use super::*;
    use crate::testing::in_own_process;

    #[test]
    fn a_closed_process_is_not_dumpable() {
        in_own_process("os::tests::a_closed_process_is_not_dumpable", || {
            assert!(prctl::get_dumpable().unwrap());
            close_process_memory().unwrap();
            assert!(!prctl::get_dumpable().unwrap());
            assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        });
    }
}
