//! The commands, one file a noun: its arguments, what it asks, how its answer is shown.

pub mod declaration;
pub mod init;
pub mod manual;
