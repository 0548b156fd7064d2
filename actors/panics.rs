//! Keeps the words of a panic out of every log: a payload may quote what a person wrote.

use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicU64, Ordering};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Replaces the default hook, which prints the payload, by one that reports only where the panic happened.
///
/// The supervisor sees the panic as an exit all the same and keeps the reason code `panicked`.
pub fn install_panic_hook() {
    set_hook(Box::new(report));
}

/// Returns how many panics the installed hook has seen.
pub fn panics_seen() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

fn report(info: &PanicHookInfo<'_>) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let (file, line) = info.location().map_or(("unknown", 0), |place| (place.file(), place.line()));
    tracing::error!(file, line, "panicked");
}
