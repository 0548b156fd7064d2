//! What may be said, and what follows from it.
//!
//! The domain is a function of its arguments: time, randomness, ids and text come in as values, and what
//! comes out is a checked value, a verdict or a list of problems. It does no input or output, so that a
//! replay of the same log is the same run.

pub mod accounting;
pub mod activation;
pub mod bare;
pub mod canonical;
pub mod cause;
pub mod cell;
mod codes;
pub mod commit;
pub mod content;
pub mod contract;
pub mod conversation;
pub mod declaration;
pub mod diff;
pub mod dispatch;
pub mod event;
pub mod feedback;
pub mod hash;
pub mod help;
pub mod id;
pub mod judgment;
pub mod lane;
pub mod lifecycle;
pub mod operate;
pub mod packet;
pub mod payload;
pub mod privacy;
pub mod proposal;
pub mod provider;
pub mod registry;
pub mod repair;
pub mod retry;
pub mod slash;
pub mod subscription;
pub mod text;
mod textual;
pub mod time;
pub mod training;
pub mod transform;
pub mod yaml;
