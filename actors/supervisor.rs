//! The supervision kernel: who is started, in which order, how often again, and who is left down.

mod exit;
mod policy;

pub use exit::{Exit, Fault, ReasonCode, StopReason};
pub use policy::{Backoff, Decision, History, Jitter, OnExhausted, RestartPolicy, RestartType};
