//! Chaos: a seeded schedule of deaths and decisions over the whole service, judged by an oracle that keeps what
//! was acknowledged outside of the log.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`deck`] | which points are passed in which runs, dealt from a seed so that none is left out |
//! | [`cast`] | the consumers that run, and runners that now and then fail or panic |
//! | [`oracle`] | what was acknowledged, and what must be true of a log that is quiet |
//! | [`witness`] | what those outside saw, a provider, a chat and a person, held against the log |
//! | [`stage`] | the service on its store: started, harmed, nursed, stopped, started again |
//! | [`schedule`] | what is done to it, drawn from a seed |
//!
//! The same seed draws the same schedule. Threads still interleave as they like, so a seed narrows a failure
//! down and repeats most of it; what a failing run did is printed with it.

pub mod cast;
pub mod deck;
pub mod oracle;
pub mod schedule;
pub mod stage;
pub mod witness;

/// Reads a number from the environment: how much a long run does, or which seed is replayed.
#[must_use]
pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the seeds of a test: the one that is replayed, or `count` from `first` on.
#[must_use]
pub fn seeds(first: u64, count: u64) -> Vec<u64> {
    match setting("THOUGHT_CHAOS_SEED") {
        Some(seed) => vec![seed],
        None => (first..first + count).collect(),
    }
}
