//! What one chat said, and what of it a model sees (Conversation section).
//!
//! Three steps with different authority, each callable by itself. [`reconstruct`] says what the evidence shows and
//! knows no declaration. [`select`] applies a declaration's bounds and names everything it leaves out or changes.
//! [`compose`] arranges the selection and the system's own words as messages, and retrieves nothing.

pub mod compose;
pub mod correction;
pub mod evidence;
pub mod history;
pub mod proposing;
pub mod reconstruct;
pub mod select;
pub mod suppress;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::fixture as tests_fixture;
