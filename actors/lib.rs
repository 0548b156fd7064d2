//! Who is alive: the supervision tree, its actors, and the named points at which they can be made to fail.
//!
//! Rules live in the crates below; an actor here shows its messages, its state and its loop.

pub mod address;
pub mod broker;
pub mod cell;
pub mod clock;
pub mod consumer;
pub mod dispatcher;
pub mod feedback;
pub mod hub;
mod incidents;
pub mod killpoint;
pub mod log;
pub mod materializer;
pub mod panics;
pub mod producer;
pub mod recovery;
pub mod runner;
pub mod scribe;
pub mod service;
pub mod supervisor;
pub mod telegram;
