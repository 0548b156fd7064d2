//! Helpers of this crate's own tests: less privilege than root has.

use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};

/// A user id that owns nothing here.
const NOBODY: u32 = 65_534;

/// Runs `body` on a thread whose file accesses are those of an unprivileged user.
///
/// Leaving file user id 0 drops the capabilities that let root pass every permission check, and only for this
/// thread; so `EACCES` is real. Panics if the change did not happen: a skipped permission test proves nothing.
pub(crate) fn as_nobody<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if geteuid().is_root() {
                setfsgid(Gid::from_raw(NOBODY));
                setfsuid(Uid::from_raw(NOBODY));
                // An impossible id changes nothing and answers the present one.
                assert_eq!(setfsuid(Uid::from_raw(u32::MAX)), Uid::from_raw(NOBODY), "still privileged");
            }
            body()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
