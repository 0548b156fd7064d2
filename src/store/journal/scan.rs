//! Finds the good frames in the files and decides whether they explain the log: replay, torn tail or damage.

use std::path::PathBuf;

use super::frame::{self, ALIGNMENT, HEADER_BYTES, Salt, padded};
use super::{JournalError, Mark};

/// A good frame and where it stands. Only frames still to be replayed keep their bytes.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: usize,
    pub(super) position: u64,
    pub(super) bytes: Vec<u8>,
    length: usize,
    previous: Mark,
    crc: u32,
}

impl Found {
    /// Returns the stream offset at which this frame ends.
    pub(super) fn end(&self) -> u64 {
        self.previous.offset + padded(HEADER_BYTES + self.length)
    }

    fn end_mark(&self) -> Mark {
        Mark { offset: self.end(), crc: self.crc }
    }

    /// Returns the body alone.
    pub(super) fn into_body(mut self) -> Vec<u8> {
        self.bytes.truncate(HEADER_BYTES + self.length);
        self.bytes.drain(..HEADER_BYTES);
        self.bytes
    }
}

/// Returns every good frame of one file, of whatever round.
///
/// Looks at each place a frame may start at, not only behind a good one: a good frame beyond a bad one is
/// how damage differs from a torn tail.
pub(super) fn frames(file: usize, content: &[u8], salt: &Salt, applied: u64) -> Vec<Found> {
    let mut found = Vec::new();
    let mut position = 0;
    while position + HEADER_BYTES <= content.len() {
        let Some(header) = frame::read(&content[position..], salt) else {
            position += ALIGNMENT;
            continue;
        };
        let end = content.len().min(position + (HEADER_BYTES + header.length).next_multiple_of(ALIGNMENT));
        let wanted = header.previous.offset >= applied;
        found.push(Found {
            file,
            position: position as u64,
            bytes: if wanted { content[position..end].to_vec() } else { Vec::new() },
            length: header.length,
            previous: header.previous,
            crc: header.crc,
        });
        position = end;
    }
    found
}

/// What opening goes on with.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) replay: Vec<Found>,
    pub(super) end: Mark,
    pub(super) file: usize,
    pub(super) position: u64,
}

/// Orders the frames after `applied` and checks that nothing is missing between.
pub(super) fn chain(mut found: Vec<Found>, applied: Mark, paths: &[PathBuf]) -> Result<Chain, JournalError> {
    found.sort_by_key(|frame| frame.previous.offset);
    let (mut replay, passed): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|frame| frame.previous.offset >= applied.offset);
    let mut end = applied;
    for frame in &replay {
        if frame.previous.offset != end.offset {
            let path = paths[frame.file].clone();
            return Err(JournalError::Gap { missing: end.offset, found: frame.previous.offset, path });
        }
        if frame.previous.crc != end.crc {
            return Err(JournalError::Foreign { offset: end.offset });
        }
        end = frame.end_mark();
    }
    let last_passed = passed.iter().max_by_key(|frame| frame.end());
    if replay.is_empty() && applied != Mark::default() {
        let reaches = last_passed.map(Found::end_mark).unwrap_or_default();
        if reaches.offset < applied.offset {
            return Err(JournalError::Behind { applied: applied.offset, reaches: reaches.offset });
        }
        if reaches != applied {
            return Err(JournalError::Foreign { offset: applied.offset });
        }
    }
    let (file, position) = replay
        .last()
        .or(last_passed)
        .map_or((0, 0), |frame| (frame.file, frame.position + padded(HEADER_BYTES + frame.length)));
    replay.shrink_to_fit();
    Ok(Chain { replay, end, file, position })
}
