//! Opening: every wrong thing has its own error, and none of them is changed or read as empty.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::disk::{DiskError, DiskFile};
use crate::sim::{Fault, Loss};
use crate::{CreateError, JournalError, Presence, WriteError};

fn real() -> (tempfile::TempDir, std::path::PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("store");
    Store::create(&directory, MARK, options()).unwrap();
    let mut store = Store::open(&directory, options()).unwrap();
    store.writer.set_types(REGISTRY.hashes()).unwrap();
    committed(&mut store, &append(vec![note("a", "1")]));
    drop(store);
    (root, directory)
}

/// All files of a directory with their content.
fn content(directory: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect();
    files.sort();
    files
}

fn refused(directory: &Path) -> OpenError {
    let before = content(directory);
    let error = Store::open(directory, options()).unwrap_err();
    // Not assert_eq!, which would print megabytes.
    assert!(content(directory) == before, "opening must change nothing");
    error
}

#[test]
fn a_store_is_private_and_opens_again() {
    let (_root, directory) = real();
    for (name, _) in content(&directory) {
        let mode = fs::metadata(directory.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name:?}");
    }
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(Store::open(&directory, options()).unwrap().reader.last_position().unwrap(), 1);
    let again = Store::create(&directory, MARK, options());
    assert!(matches!(again, Err(CreateError::Exists { .. })));
}

#[test]
fn nothing_is_absent_and_stays_absent() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    assert!(matches!(Store::open(&missing, options()), Err(OpenError::Absent { .. })));
    assert!(!missing.exists());
    assert_eq!(Store::look(&missing).unwrap(), Presence::Absent);
    fs::create_dir(&missing).unwrap();
    fs::set_permissions(&missing, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(refused(&missing), OpenError::Absent { .. }));
    assert!(content(&missing).is_empty());
}

#[test]
fn a_text_file_an_empty_file_and_a_link_are_no_directory() {
    let (root, directory) = real();
    for (name, text) in [("text", "hello"), ("empty", "")] {
        let path = root.path().join(name);
        fs::write(&path, text).unwrap();
        let error = Store::open(&path, options()).unwrap_err();
        assert!(
            matches!(error, OpenError::Disk(DiskError::NotADirectory { found: "file", .. })),
            "{error:?}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&directory, &link).unwrap();
    let error = Store::open(&link, options()).unwrap_err();
    assert!(matches!(error, OpenError::Disk(DiskError::Symlink { .. })));
    assert!(matches!(Store::look(&link), Err(DiskError::Symlink { .. })));
}

#[test]
fn a_store_that_others_may_read_is_refused() {
    let (_root, directory) = real();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let error = refused(&directory);
    assert!(matches!(error, OpenError::Disk(DiskError::TooOpen { mode: 0o755, .. })), "{error:?}");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(directory.join("log.redb"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = refused(&directory);
    assert!(matches!(error, OpenError::Disk(DiskError::TooOpen { mode: 0o644, .. })), "{error:?}");
}

#[test]
fn wrong_files_in_place_of_the_log_are_told_apart() {
    let (_root, directory) = real();
    let log = directory.join("log.redb");
    let good = fs::read(&log).unwrap();
    fs::write(&log, "just text").unwrap();
    assert!(matches!(refused(&directory), OpenError::Damaged { .. }));
    fs::write(&log, "").unwrap();
    assert!(matches!(refused(&directory), OpenError::Empty { .. }));
    let mut headless = good.clone();
    headless[..4096].fill(0xee);
    fs::write(&log, headless).unwrap();
    assert!(matches!(refused(&directory), OpenError::Damaged { .. }));
    fs::write(&log, &good[..good.len() / 2]).unwrap();
    let error = refused(&directory);
    assert!(matches!(error, OpenError::Damaged { .. } | OpenError::Io { .. }), "{error:?}");
    fs::remove_file(&log).unwrap();
    assert!(matches!(refused(&directory), OpenError::Damaged { .. }));
    assert_eq!(
        Store::look(&directory).unwrap(),
        Presence::Present,
        "a store without its log is no free place"
    );
    fs::create_dir(&log).unwrap();
    let error = Store::open(&directory, options()).unwrap_err();
    assert!(matches!(error, OpenError::Disk(DiskError::NotAFile { found: "directory", .. })), "{error:?}");
    fs::remove_dir(&log).unwrap();
    std::os::unix::fs::symlink("elsewhere", &log).unwrap();
    let error = Store::open(&directory, options()).unwrap_err();
    assert!(matches!(error, OpenError::Disk(DiskError::Symlink { .. })), "{error:?}");
}

#[test]
fn a_newer_format_says_so() {
    let (_root, directory) = real();
    fs::write(directory.join("format"), "thoughtstream store\nformat 9\n").unwrap();
    assert!(matches!(refused(&directory), OpenError::NewerFormat { found: 9, .. }));
    fs::write(directory.join("format"), "something else\n").unwrap();
    assert!(matches!(refused(&directory), OpenError::NotAStore { .. }));
    fs::remove_file(directory.join("format")).unwrap();
    assert!(matches!(refused(&directory), OpenError::NotAStore { .. }));
}

#[test]
fn a_missing_or_foreign_journal_is_damage() {
    let (_root, directory) = real();
    let journal = directory.join("journal.0");
    let good = fs::read(&journal).unwrap();
    fs::remove_file(&journal).unwrap();
    assert!(matches!(refused(&directory), OpenError::Journal(_)));
    fs::write(&journal, vec![0; good.len()]).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(refused(&directory), OpenError::Journal(_)));
    fs::write(&journal, good).unwrap();
    Store::open(&directory, options()).unwrap();
}

#[test]
fn a_journal_that_is_not_as_long_as_it_was_made_is_damage() {
    let (_root, directory) = real();
    let files = ["journal.0", "journal.1"].map(|name| directory.join(name));
    let good = files.each_ref().map(|file| fs::read(file).unwrap());
    let length = good[0].len();
    let is_told = |found: usize| {
        let looked = Store::open_to_read(&directory, options()).unwrap_err();
        for error in [refused(&directory), looked] {
            let told = matches!(error, OpenError::Journal(JournalError::Length { found: n, made, .. })
                if n == found as u64 && made == length as u64);
            assert!(told, "{error:?}");
        }
    };
    let of_length = |good: &[u8], length: usize| {
        let mut other = good.to_vec();
        other.resize(length, 0);
        other
    };
    for found in [0, 100, length / 2, length - 1, length + 1, 2 * length] {
        for (file, good) in files.iter().zip(&good) {
            fs::write(file, of_length(good, found)).unwrap();
            is_told(found);
            fs::write(file, good).unwrap();
        }
    }
    // Also where both are alike: the log knows it.
    files.iter().zip(&good).for_each(|(file, good)| fs::write(file, of_length(good, length / 2)).unwrap());
    is_told(length / 2);
    files.iter().zip(&good).for_each(|(file, good)| fs::write(file, good).unwrap());
    Store::open(&directory, options()).unwrap();
}

/// A disk whose files can no longer be opened to be written, once that is said.
#[derive(Debug)]
struct TurnsReadOnly {
    disk: SimDisk,
    turned: std::sync::atomic::AtomicBool,
}

impl Disk for TurnsReadOnly {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        if self.turned.load(std::sync::atomic::Ordering::Relaxed) {
            let source = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(DiskError::Io { path: self.disk.path(name), source });
        }
        self.disk.open(name)
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        self.disk.names()
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        self.disk.sync_names()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.disk.path(name)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }
}

#[test]
fn a_log_whose_disk_turned_read_only_is_read_on_until_it_can_be_written_again() {
    let disk = Arc::new(TurnsReadOnly { disk: disk(), turned: false.into() });
    let mut store = Store::open_on(disk.clone(), options()).unwrap();
    store.writer.set_types(REGISTRY.hashes()).unwrap();
    committed(&mut store, &append(vec![note("a", "1")]));
    disk.turned.store(true, std::sync::atomic::Ordering::Relaxed);
    disk.disk.plan(disk.disk.operations(), Fault::Fail);
    store.writer.apply(&[append(vec![note("b", "2")])], at(2)).unwrap_err();
    for _ in 0..3 {
        let error = store.writer.reopen().unwrap_err();
        assert!(matches!(error, OpenError::Disk(DiskError::Io { .. })), "{error:?}");
        assert_eq!(store.reader.last_position().unwrap(), 1, "reading goes on");
        assert!(matches!(store.writer.apply::<Commit>(&[], at(2)), Err(WriteError::MustReopen)));
    }
    disk.turned.store(false, std::sync::atomic::Ordering::Relaxed);
    store.writer.reopen().unwrap();
    committed(&mut store, &append(vec![note("b", "2")]));
    assert_eq!(store.reader.last_position().unwrap(), 2);
}

#[test]
fn a_second_owner_is_refused() {
    let (_root, directory) = real();
    let first = Store::open(&directory, options()).unwrap();
    assert!(matches!(Store::open(&directory, options()), Err(OpenError::Held { .. })));
    drop(first);
    Store::open(&directory, options()).unwrap();
}

#[test]
fn making_a_store_can_be_interrupted_anywhere() {
    let whole = SimDisk::new(5);
    create_on(&(Arc::new(whole.clone()) as Arc<dyn Disk>), MARK, options()).unwrap();
    for cut in 0..whole.operations() {
        let disk = SimDisk::new(5);
        disk.plan(cut, Fault::PowerCut);
        create_on(&(Arc::new(disk.clone()) as Arc<dyn Disk>), MARK, options()).unwrap_err();
        for loss in [Loss::All, Loss::None, Loss::Seeded(cut)] {
            let image = disk.image(loss);
            match open(&image) {
                Ok(_) | Err(OpenError::Absent { .. } | OpenError::Unfinished { .. }) => {}
                Err(other) => panic!("cut at {cut}, {loss:?}: {other:?}"),
            }
            let again = create_on(&(Arc::new(image.clone()) as Arc<dyn Disk>), MARK, options());
            assert!(matches!(again, Ok(()) | Err(CreateError::Exists { .. })), "cut at {cut}: {again:?}");
            assert_eq!(open(&image).unwrap().reader.last_position().unwrap(), 0);
        }
    }
}

#[test]
fn looking_sees_what_the_journal_holds_and_writes_nothing() {
    let (disk, mut store) = fresh();
    for number in 0..5 {
        committed(&mut store, &append(vec![note(&format!("{number}"), "text")]));
    }
    // As a killed process leaves it: nothing was carried.
    let image = disk.image(crate::sim::Loss::None);
    let (before, log) = (image.operations(), image.bytes("log.redb"));
    let first = Store::open_to_read_on(&image, options()).unwrap();
    let second = Store::open_to_read_on(&image, options()).unwrap();
    for reader in [&first, &second] {
        assert_eq!(reader.page_after(0, 10).unwrap().len(), 5);
        let report = crate::verify::verify(reader, crate::verify::Options::default()).unwrap();
        assert!(report.ok, "{:?}", report.findings);
    }
    assert!(matches!(open(&image), Err(OpenError::Held { .. })), "nobody writes under those who look");
    drop(first);
    assert!(matches!(open(&image), Err(OpenError::Held { .. })));
    drop(second);
    assert_eq!(image.operations(), before, "looking is no operation on a disk");
    assert_eq!(image.bytes("log.redb"), log);
    let store = open(&image).unwrap();
    let looking = Store::open_to_read_on(&image, options());
    assert!(matches!(looking, Err(OpenError::Held { .. })), "nobody looks under the one who writes");
    assert_eq!(store.reader.page_after(0, 10).unwrap().len(), 5);
}

#[test]
fn looking_says_of_a_damaged_store_what_opening_says() {
    let (disk, mut store) = fresh();
    committed(&mut store, &append(vec![note("1", "text")]));
    let image = disk.image(crate::sim::Loss::None);
    drop(store);
    let mut journal = image.bytes("journal.0").unwrap();
    journal.truncate(100);
    for (name, bytes) in [("log.redb", vec![1; 100]), ("format", b"other".to_vec()), ("journal.0", journal)] {
        let whole = image.bytes(name).unwrap();
        image.set_bytes(name, bytes);
        let looking = Store::open_to_read_on(&image, options()).err().map(|error| error.to_string());
        let opening = open(&image).err().map(|error| error.to_string());
        assert_eq!(looking, opening, "{name}");
        image.set_bytes(name, whole);
    }
}
