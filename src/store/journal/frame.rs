//! One frame: `magic | length | crc | previous crc | offset | body`, padded to eight bytes.

use super::Mark;
use crate::codec::put_number;

/// Starts every frame. Read as text it is `tsjf`.
const MAGIC: [u8; 4] = *b"tsjf";

/// The bytes before the body.
pub(super) const HEADER_BYTES: usize = 24;

/// Frames start at multiples of this, which makes searching for one cheap.
pub(super) const ALIGNMENT: usize = 8;

/// Rounds a frame's length up to the next place a frame may start at.
pub(super) fn padded(bytes: usize) -> u64 {
    bytes.next_multiple_of(ALIGNMENT) as u64
}

/// Mixes the store's own random mark into every checksum.
///
/// A payload may contain anything, also bytes that look like a frame; nobody outside knows the mark, so none
/// can carry a checksum that fits, and a file of another store is not taken for ours.
#[derive(Clone, Debug)]
pub(super) struct Salt(crc32fast::Hasher);

impl Salt {
    pub(super) fn new(mark: &[u8; 16]) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(mark);
        Self(hasher)
    }

    fn crc(&self, length: u32, previous: u32, offset: u64, body: &[u8]) -> u32 {
        let mut hasher = self.0.clone();
        hasher.update(&length.to_be_bytes());
        hasher.update(&previous.to_be_bytes());
        hasher.update(&offset.to_be_bytes());
        hasher.update(body);
        hasher.finalize()
    }
}

/// A frame being filled. Room for the header is kept in front, so that it goes out in one write.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    body: usize,
}

impl Frame {
    /// Makes an empty frame.
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; HEADER_BYTES], body: 0 }
    }

    /// Empties the frame and keeps its memory, unless a rare large group made that unreasonable.
    pub(crate) fn clear(&mut self) {
        const KEPT_BYTES: usize = 4 << 20;
        self.bytes.truncate(HEADER_BYTES);
        self.bytes.shrink_to(KEPT_BYTES);
        self.body = 0;
    }

    /// Adds bytes to the body.
    pub(crate) fn push(&mut self, data: &[u8]) {
        debug_assert_eq!(self.body_bytes(), self.bytes.len() - HEADER_BYTES, "a sealed frame takes no more");
        self.bytes.extend_from_slice(data);
        self.body += data.len();
    }

    /// Adds a number to the body.
    pub(crate) fn push_number(&mut self, value: u64) {
        let before = self.bytes.len();
        put_number(&mut self.bytes, value);
        self.body += self.bytes.len() - before;
    }

    /// Returns the body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.body]
    }

    /// Returns the length of the body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body
    }

    /// Writes the header that fits behind `previous` and returns the mark of this frame's end.
    pub(super) fn seal(&mut self, salt: &Salt, previous: Mark) -> Mark {
        let length = u32::try_from(self.body).expect("a frame fits into a journal file, far below 4 GiB");
        let body = &self.bytes[HEADER_BYTES..];
        let crc = salt.crc(length, previous.crc, previous.offset, body);
        self.bytes[..4].copy_from_slice(&MAGIC);
        self.bytes[4..8].copy_from_slice(&length.to_be_bytes());
        self.bytes[8..12].copy_from_slice(&crc.to_be_bytes());
        self.bytes[12..16].copy_from_slice(&previous.crc.to_be_bytes());
        self.bytes[16..24].copy_from_slice(&previous.offset.to_be_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        Mark { offset: previous.offset + self.bytes.len() as u64, crc }
    }

    /// Returns the sealed frame as it goes to disk.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What the header of a good frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) crc: u32,
    pub(super) previous: Mark,
}

/// Reads the frame that starts `bytes`, or answers `None` if no good one does.
pub(super) fn read(bytes: &[u8], salt: &Salt) -> Option<Header> {
    let header = bytes.get(..HEADER_BYTES)?;
    if header[..4] != MAGIC {
        return None;
    }
    let word = |at: usize| header[at..at + 4].try_into().map(u32::from_be_bytes).ok();
    let (length, crc, previous) = (word(4)?, word(8)?, word(12)?);
    let offset = header[16..24].try_into().map(u64::from_be_bytes).ok()?;
    let body = bytes[HEADER_BYTES..].get(..usize::try_from(length).ok()?)?;
    let good = salt.crc(length, previous, offset, body) == crc;
    good.then_some(Header { length: body.len(), crc, previous: Mark { offset, crc: previous } })
}
