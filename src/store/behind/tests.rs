//! What is put off changes nothing but when it is durable, and nothing passes anything.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::disk::Disk;
use crate::sim::{Dice, Loss, SimDisk};

const NAME: &str = "a";

/// Does so many things to a file, the same for the same seed.
fn play(file: &dyn StorageBackend, seed: u64, deferring: Option<&Behind>) {
    let mut dice = Dice::new(seed);
    file.set_len(20_000).unwrap();
    let mut model = vec![0; 20_000];
    for _ in 0..60 {
        let offset = dice.below(18_000);
        let length = usize::try_from(dice.below(2_000)).unwrap();
        let start = usize::try_from(offset).unwrap();
        match dice.below(10) {
            0..5 => {
                let data = vec![u8::try_from(dice.below(256)).unwrap(); length];
                file.write(offset, &data).unwrap();
                model[start..start + length].copy_from_slice(&data);
            }
            5 | 6 => match deferring {
                Some(behind) => behind.defer(|| file.sync_data()).unwrap(),
                None => file.sync_data().unwrap(),
            },
            7 => file.sync_data().unwrap(),
            _ => {
                let mut out = vec![1; length];
                file.read(offset, &mut out).unwrap();
                assert!(out == model[start..start + length], "seed {seed}: something else is read");
            }
        }
    }
    file.close().unwrap();
}

fn recorded(seed: u64, defers: bool) -> SimDisk {
    let disk = SimDisk::new(seed);
    drop(disk.create(NAME).unwrap());
    disk.sync_names().unwrap();
    disk.record();
    if defers {
        let behind = Behind::new(disk.open(NAME).unwrap());
        play(&behind, seed, Some(&behind));
    } else {
        play(&Backend(disk.open(NAME).unwrap()), seed, None);
    }
    disk
}

#[test]
fn whenever_the_power_goes_the_file_is_one_that_redb_could_have_left() {
    for seed in 0..60 {
        let mut direct = recorded(seed, false).recorded().unwrap();
        let mut behind = recorded(seed, true).recorded().unwrap();
        assert_eq!(direct.len(), behind.len(), "seed {seed}");
        loop {
            for loss in [Loss::All, Loss::None] {
                let (one, other) = (direct.image(loss).bytes(NAME), behind.image(loss).bytes(NAME));
                assert!(one == other, "seed {seed}, after {} operations, {loss:?}", direct.number());
            }
            assert_eq!(direct.advance(), behind.advance());
            if behind.number() == behind.len() as u64 + 1 {
                break;
            }
        }
    }
}

/// A file in memory whose syncs wait until they are let go, and may fail.
#[derive(Debug)]
struct Slow {
    bytes: Mutex<Vec<u8>>,
    go: Mutex<Receiver<io::Result<()>>>,
    unlocked: Arc<AtomicBool>,
}

impl DiskFile for Slow {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.bytes.lock().unwrap()[start..start + out.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.go.lock().unwrap().recv().unwrap()
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        self.unlocked.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn slow() -> (Behind, Sender<io::Result<()>>, Arc<AtomicBool>) {
    let (go, gone) = channel();
    let unlocked = Arc::new(AtomicBool::new(false));
    let file = Slow { bytes: Mutex::new(vec![0; 10]), go: Mutex::new(gone), unlocked: unlocked.clone() };
    (Behind::new(Box::new(file)), go, unlocked)
}

fn content(behind: &Behind) -> Vec<u8> {
    let mut out = vec![9; 10];
    behind.read(0, &mut out).unwrap();
    out
}

#[test]
fn a_commit_that_is_put_off_waits_for_nothing_and_is_seen_at_once() {
    let (behind, go, unlocked) = slow();
    behind.defer(|| {
        behind.write(0, &[1; 4]).unwrap();
        behind.sync_data().unwrap();
        behind.write(2, &[2; 4]).unwrap();
        behind.sync_data().unwrap();
    });
    behind.write(5, &[3; 2]).unwrap();
    assert_eq!(content(&behind), [1, 1, 2, 2, 2, 3, 3, 0, 0, 0]);
    assert!(!behind.is_done().unwrap());
    // What stands before the first sync reaches the file, and as long as that has not returned, nothing else does.
    let mut reached = vec![9; 10];
    while reached != [1, 1, 1, 1, 0, 0, 0, 0, 0, 0] {
        behind.0.file.read(0, &mut reached).unwrap();
        assert!(reached[4..] == [0; 6], "{reached:?}");
    }
    assert!(!behind.is_done().unwrap());
    // One that is not put off waits for both, and for its own.
    (0..3).for_each(|_| go.send(Ok(())).unwrap());
    behind.sync_data().unwrap();
    assert!(behind.is_done().unwrap());
    behind.0.file.read(0, &mut reached).unwrap();
    assert_eq!(reached, content(&behind));
    behind.close().unwrap();
    assert!(unlocked.load(Ordering::Relaxed));
}

#[test]
fn after_a_sync_that_failed_nothing_more_is_done_to_the_file() {
    let (behind, go, unlocked) = slow();
    behind.defer(|| {
        behind.sync_data().unwrap();
        behind.write(0, &[1; 4]).unwrap();
        behind.sync_data().unwrap();
    });
    go.send(Err(io::Error::other("the disk is gone"))).unwrap();
    behind.set_len(20).unwrap_err();
    behind.is_done().unwrap_err();
    behind.write(0, &[2; 4]).unwrap_err();
    behind.sync_data().unwrap_err();
    assert_eq!(content(&behind), [0; 10], "the header behind the failed sync must never be there");
    behind.close().unwrap_err();
    assert!(unlocked.load(Ordering::Relaxed), "the lock goes all the same");
}
