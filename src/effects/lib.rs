//! What is done to this machine: owner locks, atomic files, private directories, the service manager.
//!
//! Everything here is synchronous and decides nothing: a caller says what is to be done, and gets back what
//! happened or one error that names the place. Linux only.

pub mod atomic;
pub mod dirs;
pub mod disk;
pub mod lock;
pub mod notify;
pub mod os;
pub mod pinned;
pub mod process;
pub mod sandbox;

#[cfg(test)]
mod testing;
