//! A disk of the imagination whose power can be cut between any two operations.
//!
//! It keeps what was synced apart from what was only written. Cutting the power keeps the first and, drawn
//! from a seed, any part of the second, sector by sector. Every change counts as one operation over all files
//! together; the n-th can be made to fail, to write short, or to be the last one before the dark. The same
//! workload with the same seed is the same run, so a failing one replays. Public because the crash tests of
//! the crates above stand on it too.

mod file;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskError, DiskFile, Overlap};
use file::SimFile;

/// The unit a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// What happens at an operation chosen in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with an I/O error. A failed sync leaves each un-synced sector durable or lost for good,
    /// while reads go on showing what was written, as Linux does.
    Fail,
    /// It fails for lack of space.
    NoSpace,
    /// A write stops after this many bytes, then fails.
    Short(usize),
    /// The power goes before it: this and every later operation fails, reads included.
    PowerCut,
}

/// What a power cut leaves of writes that were never synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// None of them.
    All,
    /// All of them, as when only the process was killed.
    None,
    /// Each sector or not, drawn from this seed.
    Seeded(u64),
}

/// A small generator: the same seed always gives the same numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn roll(&mut self) -> u64 {
        // The splitmix64 step: every seed, zero included, gives a full period.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    /// Answers `true` in `percent` of a hundred calls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Arc<[u8]> },
    SetLen(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => put(bytes, *offset, data),
            Self::SetLen(len) => bytes.resize(*len, 0),
        }
    }

    /// Applies the sectors the dice choose, each on its own.
    fn apply_in_part(&self, bytes: &mut Vec<u8>, dice: &mut Dice, percent: u64) {
        let Self::Write { offset, data } = self else {
            if dice.chance(percent) {
                self.apply(bytes);
            }
            return;
        };
        let mut start = 0;
        while start < data.len() {
            let position = offset + start;
            let end = data.len().min(start + SECTOR_BYTES - position % SECTOR_BYTES);
            if dice.chance(percent) {
                put(bytes, position, &data[start..end]);
            }
            start = end;
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// What programs see (`seen`), what is safe (`durable`), and the way from one to the other.
#[derive(Clone, Debug, Default)]
struct Inode {
    seen: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Operation {
    Change {
        inode: u64,
        change: Change,
    },
    Sync {
        inode: u64,
    },
    FailedSync {
        inode: u64,
        seed: u64,
    },
    Create {
        name: String,
        inode: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
    SyncNames,
    /// Failed without any effect.
    Nothing,
}

/// The whole content of a disk; operations on it never fail.
#[derive(Clone, Debug, Default)]
struct Content {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<BTreeMap<String, u64>>,
}

impl Content {
    fn inode(&mut self, inode: u64) -> &mut Inode {
        self.inodes.entry(inode).or_default()
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Change { inode, change } => {
                let found = self.inode(*inode);
                change.apply(&mut found.seen);
                found.pending.push(change.clone());
            }
            Operation::Sync { inode } => {
                let found = self.inode(*inode);
                for change in std::mem::take(&mut found.pending) {
                    change.apply(&mut found.durable);
                }
            }
            Operation::FailedSync { inode, seed } => {
                let found = self.inode(*inode);
                let mut dice = Dice::new(*seed);
                for change in std::mem::take(&mut found.pending) {
                    change.apply_in_part(&mut found.durable, &mut dice, 50);
                }
            }
            Operation::Create { name, inode } => {
                self.inode(*inode);
                self.names.insert(name.clone(), *inode);
                self.pending_names.push(self.names.clone());
            }
            Operation::Rename { from, to } => {
                if let Some(inode) = self.names.remove(from) {
                    self.names.insert(to.clone(), inode);
                }
                self.pending_names.push(self.names.clone());
            }
            Operation::Remove { name } => {
                self.names.remove(name);
                self.pending_names.push(self.names.clone());
            }
            Operation::SyncNames => {
                self.pending_names.clear();
                self.durable_names = self.names.clone();
            }
            Operation::Nothing => {}
        }
    }

    fn after_power_cut(&self, loss: Loss) -> Self {
        let mut dice = Dice::new(if let Loss::Seeded(seed) = loss { seed } else { 0 });
        // A bias drawn once makes "nearly all lost" and "nearly all kept" as likely as a fair mix.
        let percent = match loss {
            Loss::All => 0,
            Loss::None => 100,
            Loss::Seeded(_) => 5 + dice.below(91),
        };
        // Names change in order (the file system journals them), so a prefix of the changes survives.
        let kept = match loss {
            Loss::All => 0,
            Loss::None => self.pending_names.len(),
            Loss::Seeded(_) => usize::try_from(dice.below(self.pending_names.len() as u64 + 1)).unwrap_or(0),
        };
        let names = if kept == 0 { &self.durable_names } else { &self.pending_names[kept - 1] };
        let mut inodes = BTreeMap::new();
        for inode in names.values() {
            let found = &self.inodes[inode];
            let mut bytes = found.durable.clone();
            for change in &found.pending {
                change.apply_in_part(&mut bytes, &mut dice, percent);
            }
            inodes.insert(*inode, Inode { seen: bytes.clone(), durable: bytes, pending: Vec::new() });
        }
        Self { inodes, names: names.clone(), durable_names: names.clone(), pending_names: Vec::new() }
    }
}

/// Who has a file locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lock {
    #[default]
    Free,
    Exclusive,
    Shared(u32),
}

#[derive(Debug, Default)]
struct State {
    content: Content,
    operations: u64,
    next_inode: u64,
    seed: u64,
    faults: BTreeMap<u64, Fault>,
    dark: bool,
    locks: BTreeMap<u64, Lock>,
    recording: Option<Recording>,
    capacity: Option<usize>,
    overlap: Option<Overlap>,
}

impl State {
    /// Counts an operation, lets a planned fault happen, and applies what is left of it.
    fn perform(&mut self, operation: Operation) -> io::Result<()> {
        if self.dark {
            return Err(power_is_off());
        }
        let number = self.operations;
        let fault = self.faults.get(&number).copied();
        if fault == Some(Fault::PowerCut) {
            self.dark = true;
            return Err(power_is_off());
        }
        self.operations += 1;
        let fault = fault.or_else(|| self.overflows(&operation).then_some(Fault::NoSpace));
        let (operation, result) = match (fault, operation) {
            (None, operation) => (operation, Ok(())),
            (
                Some(Fault::Short(kept)),
                Operation::Change { inode, change: Change::Write { offset, data } },
            ) => {
                let data = data[..kept.min(data.len())].into();
                let change = Change::Write { offset, data };
                (Operation::Change { inode, change }, Err(io::Error::other("simulated short write")))
            }
            (Some(Fault::NoSpace), _) => (Operation::Nothing, Err(io::ErrorKind::StorageFull.into())),
            (Some(_), Operation::Sync { inode }) => {
                let seed = self.seed ^ number;
                (Operation::FailedSync { inode, seed }, Err(io::Error::other("simulated sync failure")))
            }
            (Some(_), _) => (Operation::Nothing, Err(io::Error::other("simulated i/o failure"))),
        };
        self.content.apply(&operation);
        if let Some(recording) = &mut self.recording {
            recording.operations.push(operation);
        }
        result
    }

    fn overflows(&self, operation: &Operation) -> bool {
        let Some(capacity) = self.capacity else { return false };
        let Operation::Change { inode, change } = operation else { return false };
        let len = self.content.inodes.get(inode).map_or(0, |found| found.seen.len());
        let wanted = match change {
            Change::Write { offset, data } => offset + data.len(),
            Change::SetLen(wanted) => *wanted,
        };
        let used: usize = self.content.inodes.values().map(|found| found.seen.len()).sum();
        wanted > len && used + (wanted - len) > capacity
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("simulated power cut")
}

/// A simulated directory. Clones share one disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    /// Makes an empty disk; `seed` decides what failed syncs leave behind.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { seed, ..State::default() })))
    }

    fn of(content: Content, seed: u64) -> Self {
        let next_inode = content.inodes.keys().max().map_or(0, |last| last + 1);
        Self(Arc::new(Mutex::new(State { content, next_inode, seed, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panicking test thread must not hide the state from the thread that inspects it.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns how many operations have been performed.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Plans a fault for the operation with this number, counted from zero.
    pub fn plan(&self, operation: u64, fault: Fault) {
        self.state().faults.insert(operation, fault);
    }

    /// Forgets the fault that was planned for an operation.
    pub fn forget(&self, operation: u64) {
        self.state().faults.remove(&operation);
    }

    /// Limits the sum of all files' lengths; growth beyond it fails as on a full disk.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.state().capacity = bytes;
    }

    /// Has every sync that may overlap with something take place so, instead of as the seed says.
    pub fn set_overlap(&self, overlap: Overlap) {
        self.state().overlap = Some(overlap);
    }

    /// Says whether the power is gone.
    pub fn is_dark(&self) -> bool {
        self.state().dark
    }

    /// Cuts the power now: every later operation on this disk fails.
    pub fn cut_power(&self) {
        self.state().dark = true;
    }

    /// Returns the disk as the next start finds it after a power cut now.
    #[must_use]
    pub fn image(&self, loss: Loss) -> Self {
        let state = self.state();
        Self::of(state.content.after_power_cut(loss), state.seed)
    }

    /// Starts recording, so that the power can later be cut after every operation of one run.
    pub fn record(&self) {
        let mut state = self.state();
        let recording = Recording {
            first: state.operations,
            content: state.content.clone(),
            operations: Vec::new(),
            position: 0,
            seed: state.seed,
        };
        state.recording = Some(recording);
    }

    /// Ends recording and returns what was recorded.
    pub fn recorded(&self) -> Option<Recording> {
        self.state().recording.take()
    }

    /// Returns a file's bytes as a program would read them.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.content.names.get(name)?;
        Some(state.content.inodes[inode].seen.clone())
    }

    /// Replaces a file's bytes durably, as damage would. Counts as no operation.
    pub fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let next = state.next_inode;
        let content = &mut state.content;
        let inode = *content.names.entry(name.to_owned()).or_insert(next);
        content.durable_names.insert(name.to_owned(), inode);
        content.inodes.insert(inode, Inode { seen: bytes.clone(), durable: bytes, pending: Vec::new() });
        state.next_inode = next.max(inode + 1);
    }
}

/// All operations of one run; walks through them and gives the disk after each.
#[derive(Debug)]
pub struct Recording {
    first: u64,
    content: Content,
    operations: Vec<Operation>,
    position: usize,
    seed: u64,
}

impl Recording {
    /// Returns how many operations were recorded.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the number, as [`SimDisk::operations`] counts, of operations performed up to here.
    pub fn number(&self) -> u64 {
        self.first + self.position as u64
    }

    /// Moves behind the next operation; answers `false` at the end.
    pub fn advance(&mut self) -> bool {
        let Some(operation) = self.operations.get(self.position) else { return false };
        self.content.apply(operation);
        self.position += 1;
        true
    }

    /// Says whether the operation before or behind this point gives a file another name.
    pub fn is_near_a_rename(&self) -> bool {
        let around = self.position.saturating_sub(1)..(self.position + 1).min(self.operations.len());
        self.operations[around].iter().any(|operation| matches!(operation, Operation::Rename { .. }))
    }

    /// Returns the disk as found after a power cut here.
    #[must_use]
    pub fn image(&self, loss: Loss) -> SimDisk {
        SimDisk::of(self.content.after_power_cut(loss), self.seed)
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let state = self.state();
        let path = self.path(name);
        if state.dark {
            return Err(DiskError::from_io(&path, power_is_off()));
        }
        let inode = *state.content.names.get(name).ok_or(DiskError::Missing { path })?;
        Ok(Box::new(SimFile::new(self.clone(), inode)))
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let mut state = self.state();
        let path = self.path(name);
        if state.content.names.contains_key(name) {
            return Err(DiskError::Exists { path });
        }
        let inode = state.next_inode;
        state.next_inode += 1;
        let operation = Operation::Create { name: name.to_owned(), inode };
        state.perform(operation).map_err(|source| DiskError::from_io(&path, source))?;
        Ok(Box::new(SimFile::new(self.clone(), inode)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let path = self.path(from);
        let mut state = self.state();
        if !state.content.names.contains_key(from) {
            return Err(DiskError::Missing { path });
        }
        let operation = Operation::Rename { from: from.to_owned(), to: to.to_owned() };
        state.perform(operation).map_err(|source| DiskError::from_io(&path, source))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path(name);
        let mut state = self.state();
        if !state.content.names.contains_key(name) {
            return Err(DiskError::Missing { path });
        }
        let operation = Operation::Remove { name: name.to_owned() };
        state.perform(operation).map_err(|source| DiskError::from_io(&path, source))
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        let state = self.state();
        if state.dark {
            return Err(DiskError::from_io(Path::new("sim:"), power_is_off()));
        }
        Ok(state.content.names.keys().cloned().collect())
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        let result = self.state().perform(Operation::SyncNames);
        result.map_err(|source| DiskError::from_io(Path::new("sim:"), source))
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("sim:").join(name)
    }

    fn free_bytes(&self) -> Option<u64> {
        let state = self.state();
        let used: usize = state.content.inodes.values().map(|found| found.seen.len()).sum();
        state.capacity.map(|capacity| capacity.saturating_sub(used) as u64)
    }
}

#[cfg(test)]
mod tests;
