//! The redo journal: a few megabytes that make a group of commits durable with one write and one sync.
//!
//! Two files of zeros written ahead of time take frames in turn; redb holds everything up to its last
//! durable checkpoint, the journal everything after it. A frame names its offset in the stream of all frames ever
//! written and the checksum of the frame before it, so no frame of an earlier round can pass as a new one.
//! A file is written over only when a durable checkpoint has passed its last frame. What a frame's body says
//! is for [`crate::rows`]; this module promises only that exactly the synced bodies come back.

mod frame;
mod scan;

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use thiserror::Error;

use crate::disk::{Access, Disk, DiskError, DiskFile};

pub(crate) use frame::Frame;
use frame::{HEADER_BYTES, Salt, padded};
use scan::Found;

/// How many files take turns: one is written while the checkpoint frees the other.
const FILES: usize = 2;

/// The default size of one file. Twice the distance between checkpoints, so a group always has room.
pub(crate) const DEFAULT_FILE_BYTES: u64 = 4 << 20;

/// Zeros are written in pieces of this size when a file is made.
const ZERO_PIECE_BYTES: usize = 1 << 16;

/// Names a point in the stream of frames: its offset and the checksum of the frame that ends there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) offset: u64,
    pub(crate) crc: u32,
}

/// Says why the journal cannot be read. Whatever the reason, nothing was changed.
#[derive(Debug, Error)]
pub enum JournalError {
    /// A journal file cannot be opened.
    #[error("cannot open the journal")]
    Open(#[from] DiskError),
    /// A journal file cannot be read or made durable.
    #[error("cannot read or sync the journal file `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A journal file is not as long as it was made: what stood in the missing part is gone.
    #[error("the journal file `{path}` has {found} bytes and was made with {made}")]
    Length {
        /// The file.
        path: PathBuf,
        /// How long it is.
        found: u64,
        /// How long it was made, or how long the other one is.
        made: u64,
    },
    /// A frame is bad although a later one is good: acknowledged commits between them are gone.
    #[error(
        "the journal is damaged: frame {missing} is missing or bad, yet frame {found} in `{path}` is good"
    )]
    Gap {
        /// The offset of the frame that should be there.
        missing: u64,
        /// The offset of the good frame beyond it.
        found: u64,
        /// Where that one is.
        path: PathBuf,
    },
    /// The log says it was carried further than the journal reaches: acknowledged commits may be gone.
    #[error("the journal ends at frame {reaches}, but the log was already carried to {applied}")]
    Behind {
        /// How far the log was carried.
        applied: u64,
        /// Where the last good frame ends.
        reaches: u64,
    },
    /// The frame the log was carried to is not the one the log remembers: the files are not of one store.
    #[error("the journal does not belong to this log: frame {offset} is another one")]
    Foreign {
        /// The offset both speak of.
        offset: u64,
    },
}

/// The journal, open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    files: Vec<Slot>,
    salt: Salt,
    current: usize,
    position: u64,
    end: Mark,
    durable: u64,
    /// Where in the current file the last frame starts, if it says nothing.
    rest: Option<u64>,
    failed: bool,
}

#[derive(Debug)]
struct Slot {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    bytes: u64,
    /// The stream offset at which the last frame written here ends.
    last: u64,
}

/// A journal that was read and found sound, with the frames that the log still lacks.
#[derive(Debug)]
pub(crate) struct Scanned {
    journal: Journal,
    replay: Vec<Found>,
    applied: Mark,
}

impl Scanned {
    /// Returns how far the log was said to be carried.
    pub(crate) fn applied(&self) -> Mark {
        self.applied
    }

    /// Makes the journal ready for appending and returns, in order, the bodies the log still lacks.
    ///
    /// What follows the last good frame is cleared, and the frames returned are made durable again: after a
    /// failed sync the page cache may show frames that the disk never took.
    pub(crate) fn open(self) -> Result<(Journal, Vec<Vec<u8>>), JournalError> {
        self.settle()?;
        Ok((self.journal, self.replay.into_iter().map(Found::into_body).collect()))
    }

    /// Returns the journal as it stands and, in order, the bodies the log still lacks, to look at them alone.
    pub(crate) fn into_bodies(self) -> (Journal, Vec<Vec<u8>>) {
        (self.journal, self.replay.into_iter().map(Found::into_body).collect())
    }

    fn settle(&self) -> Result<(), JournalError> {
        let journal = &self.journal;
        let on = |index: usize, position: u64, data: &[u8]| {
            let slot = &journal.files[index];
            let written = slot.file.write_at(position, data);
            written.map_err(|source| JournalError::Io { path: slot.path.clone(), source })
        };
        for frame in &self.replay {
            on(frame.file, frame.position, &frame.bytes)?;
        }
        let rest = journal.files[journal.current].bytes.saturating_sub(journal.position);
        let rest = usize::try_from(rest.min(HEADER_BYTES as u64)).unwrap_or(0);
        on(journal.current, journal.position, &[0; HEADER_BYTES][..rest])?;
        for slot in &journal.files {
            slot.file.sync().map_err(|source| JournalError::Io { path: slot.path.clone(), source })?;
        }
        Ok(())
    }
}

fn file_name(index: usize) -> String {
    format!("journal.{index}")
}

/// Returns the names of the journal's files.
pub(crate) fn file_names() -> Vec<String> {
    (0..FILES).map(file_name).collect()
}

/// Writes zeros over a part of a file.
fn write_zeros(file: &dyn DiskFile, part: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; ZERO_PIECE_BYTES];
    let mut position = part.start;
    while position < part.end {
        let piece = (part.end - position).min(ZERO_PIECE_BYTES as u64);
        file.write_at(position, &zeros[..usize::try_from(piece).unwrap_or(0)])?;
        position += piece;
    }
    Ok(())
}

impl Journal {
    /// Creates the files, filled with real zeros: overwriting needs one short sync, growing a long one.
    pub(crate) fn create(disk: &dyn Disk, bytes: u64) -> Result<(), JournalError> {
        for name in file_names() {
            let path = disk.path(&name);
            let file = disk.create(&name)?;
            let zeroed = write_zeros(file.as_ref(), 0..bytes).and_then(|()| file.sync());
            zeroed.map_err(|source| JournalError::Io { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Reads the files and decides, without changing a byte, whether they explain a log carried to `applied`.
    /// `length` is what the files were made with, if the log knows it: one of another length has lost frames, or was
    /// never ours, and they are equally long in any case.
    pub(crate) fn scan(
        disk: &dyn Disk,
        access: Access,
        mark: &[u8; 16],
        applied: Mark,
        mut length: Option<u64>,
    ) -> Result<Scanned, JournalError> {
        let salt = Salt::new(mark);
        let mut files = Vec::new();
        let mut found = Vec::new();
        for (index, name) in file_names().iter().enumerate() {
            let path = disk.path(name);
            let fail = |source| JournalError::Io { path: path.clone(), source };
            let file = disk.open_for(access, name)?;
            let bytes = file.len().map_err(fail)?;
            let made = *length.get_or_insert(bytes);
            if bytes != made {
                return Err(JournalError::Length { path, found: bytes, made });
            }
            let mut content = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
            file.read_at(0, &mut content).map_err(fail)?;
            let frames = scan::frames(index, &content, &salt, applied.offset);
            let last = frames.iter().map(Found::end).max().unwrap_or(0);
            found.extend(frames);
            files.push(Slot { path, file, bytes, last });
        }
        let paths: Vec<PathBuf> = files.iter().map(|slot| slot.path.clone()).collect();
        let chain = scan::chain(found, applied, &paths)?;
        let journal = Self {
            files,
            salt,
            current: chain.file,
            position: chain.position,
            end: chain.end,
            durable: applied.offset,
            rest: None,
            failed: false,
        };
        Ok(Scanned { journal, replay: chain.replay, applied })
    }

    /// Returns how long each file is.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.files[0].bytes
    }

    /// Returns the point up to which everything is durable in the journal or behind it.
    pub(crate) fn end(&self) -> Mark {
        self.end
    }

    /// Returns how many bytes of frames wait for a checkpoint.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.end.offset - self.durable
    }

    /// Notes that a durable redb commit holds everything up to `offset`; files behind it may be reused.
    pub(crate) fn checkpointed(&mut self, offset: u64) {
        debug_assert!(offset <= self.end.offset, "a checkpoint never passes the synced journal");
        self.durable = self.durable.max(offset);
    }

    /// Returns whether a frame with a body of `body` bytes can be written now.
    pub(crate) fn has_room(&self, body: usize) -> bool {
        self.place(padded(HEADER_BYTES + body)).is_some()
    }

    /// Returns the file and position where a frame of `bytes` goes.
    fn place(&self, bytes: u64) -> Option<(usize, u64)> {
        if self.position + bytes <= self.files[self.current].bytes {
            return Some((self.current, self.position));
        }
        let next = (self.current + 1) % self.files.len();
        let free = self.files[next].last <= self.durable && bytes <= self.files[next].bytes;
        free.then_some((next, 0))
    }

    /// Returns the mark that [`Self::append`] will answer if `frame` is written next.
    pub(crate) fn seal(&self, frame: &mut Frame) -> Mark {
        frame.seal(&self.salt, self.end)
    }

    /// Writes a sealed frame and syncs: the durable point. Any error is final for this journal. `inside` is
    /// called between the two, and may say that it ends here.
    pub(crate) fn append(
        &mut self,
        frame: &Frame,
        sealed: Mark,
        inside: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("the journal failed before and must be opened again"));
        }
        let bytes = frame.bytes();
        let (index, position) =
            self.place(bytes.len() as u64).ok_or_else(|| io::Error::other("the journal has no room"))?;
        let slot = &mut self.files[index];
        // Whatever ends the next line, a panic included, leaves a journal that must be opened again.
        self.failed = true;
        slot.file.write_at(position, bytes).and_then(|()| inside()).and_then(|()| slot.file.sync())?;
        self.failed = false;
        slot.last = sealed.offset;
        self.rest = (frame.body_bytes() == 0).then_some(position);
        self.current = index;
        self.position = position + bytes.len() as u64;
        self.end = sealed;
        Ok(())
    }

    /// Writes zeros over everything but the last frame, which must say nothing and be carried into the log: no byte
    /// of any commit is left then. The frame stays, because the log is held against it when it is opened; a power cut
    /// in the middle leaves what a journal that was used again would hold.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let rest = self.rest.filter(|_| self.durable == self.end.offset);
        let rest = rest.ok_or_else(|| io::Error::other("the journal holds what the log does not"))?;
        for (index, slot) in self.files.iter().enumerate() {
            if index == self.current {
                write_zeros(slot.file.as_ref(), 0..rest)?;
                write_zeros(slot.file.as_ref(), self.position..slot.bytes)?;
            } else {
                write_zeros(slot.file.as_ref(), 0..slot.bytes)?;
            }
            slot.file.sync()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
