//! A conversation in memory, and what each sentence of the contract makes of it.

pub(crate) mod fixture;
mod properties;
mod reading;
mod selecting;
mod shape;
