//! Reads one file whole, or not at all.
//!
//! A file may be written while it is read. Its state is taken before and after; a difference means reading
//! again, and too many differences mean that it is left for the next scan. A file changed only moments ago is
//! read twice: a writer in the middle of its work shows the same state before and after.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::stat::{FileStat as RawStat, SFlag, fstat};
use thiserror::Error;
use thoughtstream_domain::commit::FileStat;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::hash::Sha256Hash;

use super::root::Root;

/// A file that changes under this many readings in a row is being written right now.
const READINGS_MAX: u32 = 4;

/// Filesystems keep time in steps of up to two seconds; what changed within them may change unseen.
pub(crate) const TIME_STEP_NS: i64 = 2_000_000_000;

/// What reading one file gave.
#[derive(Debug)]
pub(crate) enum Reading {
    /// The whole content is in the buffer.
    Whole { stat: FileStat, sha256: Sha256Hash },
    /// It is larger than is read.
    TooLarge,
    /// It changed under every reading.
    Unstable,
    /// It is no regular file.
    NotRegular,
}

/// Takes from the raw state what tells one state of a file from another; `read_ns` is when it is read.
pub(crate) fn file_stat(raw: &RawStat, read_ns: i64) -> FileStat {
    FileStat {
        device: raw.st_dev,
        inode: raw.st_ino,
        size: u64::try_from(raw.st_size).unwrap_or(0),
        modified_ns: nanoseconds(raw.st_mtime, raw.st_mtime_nsec),
        changed_ns: nanoseconds(raw.st_ctime, raw.st_ctime_nsec),
        read_ns,
    }
}

pub(crate) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

pub(crate) fn is_regular(raw: &RawStat) -> bool {
    raw.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits()
}

/// Returns whether two states show the same file with the same content.
pub(crate) fn same_state(one: &FileStat, other: &FileStat) -> bool {
    FileStat { read_ns: 0, ..*one } == FileStat { read_ns: 0, ..*other }
}

/// Returns whether the file had been still for long enough when it was read, so that the same state later
/// proves the same content. A time in the future is never still.
pub(crate) fn was_still(stat: &FileStat) -> bool {
    stat.modified_ns.max(stat.changed_ns) < stat.read_ns.saturating_sub(TIME_STEP_NS)
}

/// Reads an open file into `buffer`, which is emptied first.
///
/// `now_ns` is the time of the scan; `after_reading` runs between a reading and the look after it, which is
/// where a test changes the file.
pub(crate) fn read_whole(
    file: &mut File,
    bytes_max: u64,
    now_ns: i64,
    buffer: &mut Vec<u8>,
    after_reading: &mut dyn FnMut(u32),
) -> Result<Reading, Errno> {
    let mut earlier: Option<(FileStat, Sha256Hash)> = None;
    for reading in 0..READINGS_MAX {
        let raw = fstat(&*file)?;
        if !is_regular(&raw) {
            return Ok(Reading::NotRegular);
        }
        let before = file_stat(&raw, now_ns);
        if before.size > bytes_max {
            return Ok(Reading::TooLarge);
        }
        buffer.clear();
        read_at_most(file, bytes_max.saturating_add(1), buffer).map_err(|error| errno(&error))?;
        after_reading(reading);
        let after = file_stat(&fstat(&*file)?, now_ns);
        if !same_state(&before, &after) || buffer.len() as u64 != after.size {
            earlier = None;
            continue;
        }
        let sha256 = Sha256Hash::of(buffer);
        if was_still(&after) || earlier == Some((after, sha256)) {
            return Ok(Reading::Whole { stat: after, sha256 });
        }
        earlier = Some((after, sha256));
    }
    buffer.clear();
    Ok(Reading::Unstable)
}

/// The content of a document could not be fetched for its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The file is not what the scan saw any more; another scan will say what it is.
    #[error("the file changed since the scan")]
    Changed,
    /// The system refused to read it.
    #[error("the file cannot be read: {0}")]
    Unreadable(Errno),
}

/// Reads the content that a scan saw at `path`, and nothing else.
///
/// Blocks on the disk: call it where blocking is allowed.
///
/// # Errors
///
/// Returns [`LoadError::Changed`] if the file is gone or has other content now.
pub fn load(
    root: &Root,
    path: &str,
    sha256: &Sha256Hash,
    bytes: u64,
) -> Result<Content<Arc<[u8]>>, LoadError> {
    let mut file = match root.open_path(path) {
        Ok(file) => file,
        Err(Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR) => return Err(LoadError::Changed),
        Err(errno) => return Err(LoadError::Unreadable(errno)),
    };
    if !fstat(&file).is_ok_and(|raw| is_regular(&raw)) {
        return Err(LoadError::Changed);
    }
    let mut buffer = Vec::new();
    read_at_most(&mut file, bytes.saturating_add(1), &mut buffer)
        .map_err(|error| LoadError::Unreadable(errno(&error)))?;
    if Sha256Hash::of(&buffer) == *sha256 { Ok(Content::new(buffer.into())) } else { Err(LoadError::Changed) }
}

fn read_at_most(file: &mut File, bytes_max: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    file.rewind()?;
    file.take(bytes_max).read_to_end(buffer).map(drop)
}

/// Returns the number of a system error; an error that has none is an input/output error here.
fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Returns whether the content is a private key, whatever its name.
pub(crate) fn is_private_key(content: &[u8]) -> bool {
    let first_line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    first_line.starts_with(b"-----BEGIN ") && first_line.trim_ascii_end().ends_with(b"PRIVATE KEY-----")
        || first_line.starts_with(b"PuTTY-User-Key-File-")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    /// Long after every file of these tests was written.
    const LATER: i64 = i64::MAX;

    fn read(path: &Path, now_ns: i64, between: &mut dyn FnMut(u32)) -> (Reading, Vec<u8>) {
        let mut buffer = b"left from before".to_vec();
        let reading = read_whole(&mut File::open(path).unwrap(), 100, now_ns, &mut buffer, between).unwrap();
        (reading, buffer)
    }

    #[test]
    fn a_still_file_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        fs::write(&path, "text").unwrap();
        let mut readings = 0;
        let (reading, buffer) = read(&path, LATER, &mut |_| readings += 1);
        assert!(
            matches!(reading, Reading::Whole { sha256, stat } if sha256 == Sha256Hash::of(b"text") && was_still(&stat))
        );
        assert_eq!((buffer, readings), (b"text".to_vec(), 1));
    }

    #[test]
    fn a_fresh_file_is_read_twice_and_not_trusted_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        fs::write(&path, "text").unwrap();
        let mut readings = 0;
        let (reading, _) = read(&path, 0, &mut |_| readings += 1);
        let Reading::Whole { stat, .. } = reading else { panic!("{reading:?}") };
        assert_eq!((readings, was_still(&stat)), (2, false));
    }

    #[test]
    fn a_file_that_changes_once_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        fs::write(&path, "first half").unwrap();
        let (reading, buffer) = read(&path, LATER, &mut |reading| {
            if reading == 0 {
                fs::write(&path, "both halves of it").unwrap();
            }
        });
        assert!(
            matches!(reading, Reading::Whole { sha256, .. } if sha256 == Sha256Hash::of(b"both halves of it"))
        );
        assert_eq!(buffer, b"both halves of it");
    }

    #[test]
    fn a_file_that_never_rests_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        let mut writer = File::create(&path).unwrap();
        let (reading, buffer) = read(&path, LATER, &mut |_| writer.write_all(b"more").unwrap());
        assert!(matches!(reading, Reading::Unstable));
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_file_that_grows_past_the_limit_while_read_is_never_half() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        fs::write(&path, "small").unwrap();
        let (reading, _) = read(&path, LATER, &mut |_| fs::write(&path, "x".repeat(500)).unwrap());
        assert!(matches!(reading, Reading::TooLarge));
    }

    #[test]
    fn only_the_content_that_was_seen_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let (notes, data) = (dir.path().join("notes"), dir.path().join("data"));
        fs::create_dir(&notes).unwrap();
        fs::create_dir(&data).unwrap();
        let root = Root::open(&notes, &data).unwrap();
        let seen = Sha256Hash::of(b"text");
        fs::write(notes.join("a"), "text").unwrap();
        assert_eq!(load(&root, "a", &seen, 4).unwrap().reveal().as_ref(), b"text");
        for other in ["TEXT", "text and more", "", "tex"] {
            fs::write(notes.join("a"), other).unwrap();
            assert_eq!(load(&root, "a", &seen, 4).unwrap_err(), LoadError::Changed);
        }
        fs::remove_file(notes.join("a")).unwrap();
        assert_eq!(load(&root, "a", &seen, 4).unwrap_err(), LoadError::Changed);
        nix::unistd::mkfifo(&notes.join("a"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(load(&root, "a", &seen, 4).unwrap_err(), LoadError::Changed);
    }

    #[test]
    fn private_keys_are_known_by_their_first_line() {
        assert!(is_private_key(b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc"));
        assert!(is_private_key(b"-----BEGIN RSA PRIVATE KEY-----\r\nabc"));
        assert!(is_private_key(b"PuTTY-User-Key-File-3: ssh-ed25519\n"));
        assert!(!is_private_key(b"-----BEGIN CERTIFICATE-----\n"));
        assert!(!is_private_key(b"# How to read -----BEGIN PRIVATE KEY-----\n"));
        assert!(!is_private_key(b""));
    }
}
