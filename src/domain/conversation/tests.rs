//! A conversation in memory, and what each sentence of the contract makes of it.

pub(crate) mod fixture;
mod history;
mod properties;
mod proposing;
mod reading;
mod selecting;
mod shape;
