//! Lets redb open a file without changing it: what redb writes stays in memory.
//!
//! Opening marks a redb file and may repair it. Whether a store is sound, and which backup a file is, must be
//! known before a byte changes; a backup, and a log that is only looked at, are never written to at all.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use crate::disk::{Backend, DiskFile};

/// The unit in which written bytes are kept; redb writes whole pages of this size or its multiples.
const PIECE_BYTES: u64 = 4096;

/// A file below, and in memory what was written above it.
#[derive(Debug)]
pub(crate) struct Overlay {
    below: Backend,
    /// Whether others may look at the file at the same time.
    shares: bool,
    above: Mutex<Above>,
}

#[derive(Debug)]
struct Above {
    len: u64,
    /// How much of the file below still shows through: cutting and growing again gives zeros.
    shown: u64,
    pieces: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    /// Lays an empty overlay over a file that nobody else may have open.
    pub(crate) fn new(file: Box<dyn DiskFile>) -> io::Result<Self> {
        let len = file.len()?;
        let above = Above { len, shown: len, pieces: BTreeMap::new() };
        Ok(Self { below: Backend(file), shares: false, above: Mutex::new(above) })
    }

    /// Lays an empty overlay over a file that others may look at too.
    pub(crate) fn to_read(file: Box<dyn DiskFile>) -> io::Result<Self> {
        Ok(Self { shares: true, ..Self::new(file)? })
    }

    fn above(&self) -> MutexGuard<'_, Above> {
        self.above.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a range that lies in one piece.
    fn read_piece(&self, above: &Above, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = to_usize(offset % PIECE_BYTES)?;
        if let Some(piece) = above.pieces.get(&(offset / PIECE_BYTES)) {
            out.copy_from_slice(&piece[start..start + out.len()]);
            return Ok(());
        }
        let shown = to_usize(above.shown.saturating_sub(offset).min(out.len() as u64))?;
        out[shown..].fill(0);
        if shown == 0 { Ok(()) } else { self.below.read(offset, &mut out[..shown]) }
    }
}

fn to_usize(value: u64) -> io::Result<usize> {
    usize::try_from(value).map_err(io::Error::other)
}

/// Splits a range into parts that each lie in one piece: offset in the file, range in the buffer.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let room = usize::try_from(PIECE_BYTES - at % PIECE_BYTES).unwrap_or(usize::MAX);
        let range = done..len.min(done + room);
        done = range.end;
        (!range.is_empty()).then_some((at, range))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.above().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let above = self.above();
        if offset + out.len() as u64 > above.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (at, range) in parts(offset, out.len()) {
            self.read_piece(&above, at, &mut out[range])?;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut above = self.above();
        above.len = len;
        above.shown = above.shown.min(len);
        above.pieces.retain(|piece, _| piece * PIECE_BYTES < len);
        if let Some(piece) = above.pieces.get_mut(&(len / PIECE_BYTES)) {
            piece[to_usize(len % PIECE_BYTES)?..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut above = self.above();
        for (at, range) in parts(offset, data.len()) {
            let number = at / PIECE_BYTES;
            if !above.pieces.contains_key(&number) {
                let mut piece = vec![0; to_usize(PIECE_BYTES)?];
                self.read_piece(&above, number * PIECE_BYTES, &mut piece)?;
                above.pieces.insert(number, piece.into());
            }
            let start = to_usize(at % PIECE_BYTES)?;
            if let Some(piece) = above.pieces.get_mut(&number) {
                piece[start..start + range.len()].copy_from_slice(&data[range]);
            }
        }
        above.len = above.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.below.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.shares && Backend::whole(start, end) {
            return Ok(self.below.0.try_lock_shared()?);
        }
        self.below.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.below.unlock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::sim::{Dice, SimDisk};

    #[test]
    fn an_overlay_reads_as_a_file_would_and_leaves_the_file_alone() {
        let disk = SimDisk::new(1);
        let original: Vec<u8> = (0..20_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        disk.set_bytes("a", original.clone());
        let overlay = Overlay::new(disk.open("a").unwrap()).unwrap();
        let mut model = original.clone();
        let mut dice = Dice::new(4);
        for _ in 0..500 {
            let offset = dice.below(18_000);
            let len = usize::try_from(dice.below(9_000)).unwrap();
            let start = usize::try_from(offset).unwrap();
            if dice.chance(10) {
                let length = 10_000 + dice.below(20_000);
                overlay.set_len(length).unwrap();
                model.resize(usize::try_from(length).unwrap(), 0);
            } else if dice.chance(50) {
                let data = vec![dice.roll().to_le_bytes()[0]; len];
                overlay.write(offset, &data).unwrap();
                model.resize(model.len().max(start + len), 0);
                model[start..start + len].copy_from_slice(&data);
            } else {
                let mut out = vec![0; len];
                let read = overlay.read(offset, &mut out);
                assert_eq!(read.is_ok(), start + len <= model.len());
                assert!(read.is_err() || out == model[start..start + len]);
            }
            assert_eq!(overlay.len().unwrap(), model.len() as u64);
        }
        assert!(disk.bytes("a").unwrap() == original);
    }
}
