//! (later)
use super::{Found, Plan};
use thoughtstream_surface::bench::BenchError;
pub fn run(_: &Plan) -> Result<Found, BenchError> { Ok(Found::default()) }
