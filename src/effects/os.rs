//! Calls about this process as a whole.
//!
//! This is the one file that may contain `unsafe`, each use with an `#[expect]` and its reason. There are
//! three: for every other call there is a safe wrapper.

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
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

/// Keeps every descriptor that is open now, but stdin, stdout and stderr, from programs that are started later.
///
/// This program opens none that could be inherited; whoever started it may have left some open.
///
/// # Errors
///
/// Returns an error on a kernel without the call (before 5.11).
pub fn keep_descriptors() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "no crate here wraps it")]
    // SAFETY: with this flag the call closes nothing and changes no memory: it marks descriptors.
    let answer =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a write beyond the limit on the size of files fail, as on a full disk, instead of ending the process in the
/// middle of it. Called once, at the start of `main`; programs that are started later inherit it.
///
/// # Errors
///
/// Returns what the kernel said; none is known for this signal.
pub fn outlive_file_limit() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no crate here wraps it for a signal that is ignored")]
    // SAFETY: ignoring a signal installs no handler, so nothing runs that would have to be safe in one.
    let before = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    before.map(drop).map_err(io::Error::from)
}

/// Gives memory that was freed back to the system.
///
/// Reading thousands of declarations takes many times the memory that keeping them does; the allocator would hold on
/// to it for as long as the service lives. Does nothing where the C library has no such call.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "no crate here wraps it")]
        // SAFETY: the call takes the allocator's own locks and releases pages that hold nothing.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::getrlimit;

    use super::*;
    use crate::testing::in_own_process;

    #[test]
    fn what_was_left_open_is_not_inherited() {
        use nix::fcntl::{FcntlArg, FdFlag, fcntl};
        in_own_process("os::tests::what_was_left_open_is_not_inherited", || {
            let file = std::fs::File::open("/dev/null").unwrap();
            fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
            keep_descriptors().unwrap();
            assert_eq!(fcntl(&file, FcntlArg::F_GETFD).unwrap(), FdFlag::FD_CLOEXEC.bits());
        });
    }

    #[test]
    fn a_write_beyond_the_limit_on_files_fails_and_ends_nothing() {
        use std::io::Write as _;
        in_own_process("os::tests::a_write_beyond_the_limit_on_files_fails_and_ends_nothing", || {
            outlive_file_limit().unwrap();
            setrlimit(Resource::RLIMIT_FSIZE, 4096, 4096).unwrap();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[1; 4096]).unwrap();
            assert_eq!(file.write_all(&[1]).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        });
    }

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
