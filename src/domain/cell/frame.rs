//! The frames between parent and worker: four bytes of length, most significant first, then one JSON value.
//!
//! A length above the bound is refused as soon as its four bytes are there, so nobody can make the other
//! side hold more than was agreed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Ask, CAPABILITY_BYTES_MAX, CellResult, ENVELOPE_BYTES_MAX, Packet, REQUEST_BYTES_MAX, Told};

/// The bytes that say how long a frame is.
const HEADER: usize = 4;

/// The longest frame with a request in it, in either direction.
pub const REQUEST_FRAME_BYTES_MAX: usize = REQUEST_BYTES_MAX + ENVELOPE_BYTES_MAX;

/// The longest frame with a packet in it.
pub const PACKET_FRAME_BYTES_MAX: usize = REQUEST_FRAME_BYTES_MAX + CAPABILITY_BYTES_MAX;

/// Is what a worker reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToWorker {
    /// First.
    Packet(Packet),
    /// Then.
    Told(Told),
}

/// Is what a worker writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromWorker {
    /// First.
    Ask(Ask),
    /// Then.
    Result(CellResult),
}

/// Says what is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is longer than was agreed.
    #[error("a frame is longer than was agreed")]
    Oversize,
    /// It is none of the messages, or says more than the message has room for.
    #[error("a frame holds no message of this protocol")]
    Malformed,
}

/// Writes a message as a frame of at most `bytes_max` bytes.
///
/// # Errors
/// [`FrameError::Oversize`] if it does not fit.
pub fn encode<T: Serialize>(message: &T, bytes_max: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER];
    serde_json::to_writer(&mut bytes, message).map_err(|_| FrameError::Malformed)?;
    let length = bytes.len() - HEADER;
    let header = u32::try_from(length).ok().filter(|_| length <= bytes_max).ok_or(FrameError::Oversize)?;
    bytes[..HEADER].copy_from_slice(&header.to_be_bytes());
    Ok(bytes)
}

/// Reads the message of a frame.
///
/// # Errors
/// [`FrameError::Malformed`] for everything else than exactly one message.
pub fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(frame).map_err(|_| FrameError::Malformed)
}

/// Gathers frames from bytes that arrive in pieces of any size.
#[derive(Default)]
pub struct Gather(Vec<u8>);

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gather({} bytes)", self.0.len())
    }
}

impl Gather {
    /// Adds what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Takes the next frame of at most `bytes_max` bytes out, if all of it is there.
    ///
    /// # Errors
    /// [`FrameError::Oversize`] if it says that it is longer.
    pub fn next(&mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(header) = self.0.first_chunk::<HEADER>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*header)).map_err(|_| FrameError::Oversize)?;
        if length > bytes_max {
            return Err(FrameError::Oversize);
        }
        if self.0.len() < HEADER + length {
            return Ok(None);
        }
        let rest = self.0.split_off(HEADER + length);
        let mut frame = std::mem::replace(&mut self.0, rest);
        frame.drain(..HEADER);
        Ok(Some(frame))
    }

    /// Says whether bytes are left that are not taken out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
