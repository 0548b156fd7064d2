//! An open file of the simulated disk: reads, operations that count, and locks as the system keeps them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Change, Dice, Lock, Operation, SimDisk, power_is_off};
use crate::disk::{DiskFile, Overlap};

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub(super) struct SimFile {
    disk: SimDisk,
    inode: u64,
    /// Whether a lock on the inode is this file's.
    holds: AtomicBool,
}

impl SimFile {
    /// Opens a file of a disk.
    pub(super) fn new(disk: SimDisk, inode: u64) -> Self {
        Self { disk, inode, holds: AtomicBool::new(false) }
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}

impl DiskFile for SimFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.disk.state();
        if state.dark {
            return Err(power_is_off());
        }
        let seen = &state.content.inodes[&self.inode].seen;
        let start = position(offset)?;
        let found = seen.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let change = Change::Write { offset: position(offset)?, data: data.into() };
        self.disk.state().perform(Operation::Change { inode: self.inode, change })
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.disk.state();
        if state.dark {
            return Err(power_is_off());
        }
        Ok(state.content.inodes[&self.inode].seen.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let change = Change::SetLen(position(len)?);
        self.disk.state().perform(Operation::Change { inode: self.inode, change })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().perform(Operation::Sync { inode: self.inode })
    }

    fn overlap(&self) -> Overlap {
        let state = self.disk.state();
        let drawn = || {
            let behind = Dice::new(state.seed ^ state.operations).chance(50);
            if behind { Overlap::Behind } else { Overlap::Before }
        };
        state.overlap.unwrap_or_else(drawn)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.disk.state();
        let lock = state.locks.entry(self.inode).or_default();
        let free = *lock == Lock::Free;
        if free {
            *lock = Lock::Exclusive;
            self.holds.store(true, Ordering::Relaxed);
        }
        Ok(free)
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        let mut state = self.disk.state();
        let lock = state.locks.entry(self.inode).or_default();
        let holders = match *lock {
            Lock::Exclusive => return Ok(false),
            Lock::Free => 0,
            Lock::Shared(holders) => holders,
        };
        *lock = Lock::Shared(holders + 1);
        self.holds.store(true, Ordering::Relaxed);
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if !self.holds.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let lock = state.locks.entry(self.inode).or_default();
        *lock = match *lock {
            Lock::Shared(holders) if holders > 1 => Lock::Shared(holders - 1),
            Lock::Shared(_) | Lock::Exclusive | Lock::Free => Lock::Free,
        };
        Ok(())
    }
}
