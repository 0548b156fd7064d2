//! The commands, one file a noun: its arguments, what it asks, how its answer is shown.

pub mod account;
pub(crate) mod asking;
pub mod bench;
pub mod consumer;
pub mod context;
pub mod contract;
pub mod copying;
pub mod declaration;
pub mod delivery;
pub mod demo;
pub mod doctor;
pub mod event;
pub mod init;
pub mod judge;
pub mod looking;
pub mod manual;
pub(crate) mod operating;
pub mod rehearsal;
pub mod rehearse;
pub mod run;
pub mod serve;
pub mod source;
pub mod training;
pub mod upkeep;
pub mod verify;
