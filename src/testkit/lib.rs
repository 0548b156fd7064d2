//! What tests lean on: the chaos driver, and the program as a process that can be killed.

pub mod chaos;
pub mod proposals;
pub mod proposed;
pub mod talk;
