//! What comes in from outside and goes out: so far, folders of files.
//!
//! A channel observes and carries. It knows no actor and no store: it is called by an actor, and hands back
//! values that the actor commits.

pub mod filesystem;

#[cfg(test)]
mod testing;
