//! A disposable sandbox for one worker: what it is given, how it is started, how it ends.
//!
//! Everything the worker can see is a read-only root of a few files: itself and the libraries it maps
//! ([`WorkerBinary`]). It has namespaces of its own and nothing in them: no network, no process but itself, no
//! `/proc`, no environment. A filter lets it make the system calls that starting, reading, computing and writing
//! need ([`filter`]), and limits are set from outside before its first instruction ([`Launcher`]). Its stdin and
//! stdout are its only ways out. It dies with whoever started it.
//!
//! There is no second way to run a worker: what is missing is a [`LaunchError`] with a code and a way out.

mod cell;
mod elf;
pub mod filter;
mod launch;
mod program;

pub use cell::{Cell, End};
pub use launch::{LaunchError, Launcher, find_bubblewrap};
pub use program::{BinaryError, Library, WorkerBinary};

/// Bounds what a worker may use. What needs no choice has no field: it may have one process (itself), write no
/// file, leave no core and hold [`DESCRIPTORS_MAX`] descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Address space in bytes.
    pub memory_bytes: u64,
    /// Processor time in seconds; after it the kernel ends the worker.
    pub processor_seconds: u64,
}

impl Default for Limits {
    /// A request of the largest size is held three times while it is passed on; nothing computes for long.
    fn default() -> Self {
        Self { memory_bytes: 256 << 20, processor_seconds: 5 }
    }
}

/// Its stdin, stdout and stderr, and room for the loader to open a library.
pub const DESCRIPTORS_MAX: u64 = 16;

#[cfg(test)]
mod tests;
