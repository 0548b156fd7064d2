//! One look at everything below a root.
//!
//! A scan is bounded, follows no link, opens only regular files, and holds one file in memory at a time. Its
//! order is that of the names' bytes. What it could not read it names and withholds: absence from a scan
//! counts only where the scan really looked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat as RawStat, SFlag, fstat, fstatat};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::hash::Sha256Hash;

use super::name::{self, BadName};
use super::read::{self, Reading, TIME_STEP_NS};
use super::root::{Root, RootIdentity, RootIncident};
use super::rules::ScanRules;

/// More examples of one reason than this tell a person nothing new; all are counted.
pub(super) const SKIPPED_SHOWN_MAX: u64 = 100;

/// A regular file that was seen, and read unless it was known to be unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSeen {
    /// The path below the root.
    pub path: String,
    /// What the filesystem said about it.
    pub stat: FileStat,
    /// The hash of its content.
    pub sha256: Sha256Hash,
    /// The id its frontmatter names.
    pub named: Option<String>,
}

/// Why something below the root is not a document in this scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// A link; links are not followed.
    Link,
    /// A pipe, socket or device; it is not opened.
    NotRegular,
    /// A private key by its content.
    PrivateKey,
    /// The name is not UTF-8.
    NameNotUtf8,
    /// The name holds control, invisible or reordering characters.
    NameHostile,
    /// The path is longer than the bound.
    PathTooLong,
    /// The directory lies deeper than the bound.
    TooDeep,
    /// The file is larger than the bound.
    TooLarge,
    /// This user may not read it.
    Denied,
    /// The system failed to read it.
    Unreadable,
    /// It changed under every reading; the next scan tries again.
    Unstable,
    /// Another filesystem is mounted there.
    OtherFilesystem,
    /// It names an id that another file has: it is taken, and the id is not used for it.
    DuplicateId,
}

impl SkipReason {
    /// Returns the reason as programs see it.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::NotRegular => "not-regular",
            Self::PrivateKey => "private-key",
            Self::NameNotUtf8 => "name-not-utf8",
            Self::NameHostile => "name-hostile",
            Self::PathTooLong => "path-too-long",
            Self::TooDeep => "too-deep",
            Self::TooLarge => "too-large",
            Self::Denied => "denied",
            Self::Unreadable => "unreadable",
            Self::Unstable => "unstable",
            Self::OtherFilesystem => "other-filesystem",
            Self::DuplicateId => "duplicate-id",
        }
    }

    /// Returns whether a document may still be there unseen, so that it does not count as removed.
    const fn withholds(self) -> bool {
        match self {
            Self::Link
            | Self::NotRegular
            | Self::PrivateKey
            | Self::NameNotUtf8
            | Self::NameHostile
            | Self::DuplicateId => false,
            Self::PathTooLong
            | Self::TooDeep
            | Self::TooLarge
            | Self::Denied
            | Self::Unreadable
            | Self::Unstable
            | Self::OtherFilesystem => true,
        }
    }
}

/// Something that was skipped, to be shown to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// The path below the root, made safe to print.
    pub shown: String,
    /// Why.
    pub reason: SkipReason,
    /// How large it is, where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The file that has the id it names, made safe to print, where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// All that was skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkipReport {
    /// How many for each reason.
    pub counts: BTreeMap<SkipReason, u64>,
    /// The first ones of each reason, in the order of the scan.
    pub shown: Vec<Skip>,
}

impl SkipReport {
    /// Counts one more, and names it if it is among the first of its reason.
    pub(super) fn add(&mut self, skip: Skip) {
        let count = self.counts.entry(skip.reason).or_default();
        *count += 1;
        if *count <= SKIPPED_SHOWN_MAX {
            self.shown.push(skip);
        }
    }
}

/// What one scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The directory that was scanned.
    pub root: RootIdentity,
    /// When it began, in nanoseconds since 1970.
    pub began_ns: i64,
    /// The files, by path.
    pub files: Vec<FileSeen>,
    /// The directories that were listed, by path; the root is the empty path. A watcher watches these.
    pub directories: BTreeSet<String>,
    /// Paths at and below which nothing can be said to be missing.
    pub withheld: BTreeSet<String>,
    /// Directories that changed during the scan or moments before it: what is missing there may be moving.
    pub restless: BTreeSet<String>,
    /// What was skipped.
    pub skipped: SkipReport,
    /// How many files were read rather than known by their state.
    pub files_read: u64,
}

impl Scan {
    /// Returns whether the scan could not look at `path`.
    #[must_use]
    pub fn withholds(&self, path: &str) -> bool {
        is_at_or_below(&self.withheld, path)
    }

    /// Returns whether a directory above `path` was in motion.
    #[must_use]
    pub fn is_restless_at(&self, path: &str) -> bool {
        !self.restless.is_empty() && (self.restless.contains("") || is_at_or_below(&self.restless, path))
    }
}

fn is_at_or_below(set: &BTreeSet<String>, path: &str) -> bool {
    if set.is_empty() {
        return false;
    }
    let slashes = path.match_indices('/').map(|(at, _)| at);
    set.contains("") || set.contains(path) || slashes.into_iter().any(|at| set.contains(&path[..at]))
}

/// A scan that came to no result; nothing follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScanError {
    /// The root is not there as it was.
    #[error(transparent)]
    Root(#[from] RootIncident),
    /// There are more documents than the source may have.
    #[error("there are more than {files_max} files")]
    TooManyFiles {
        /// The bound.
        files_max: usize,
    },
    /// There are more directory entries than one scan looks at.
    #[error("there are more than {entries_max} directory entries")]
    TooManyEntries {
        /// The bound.
        entries_max: usize,
    },
}

/// What a scan is given besides the root.
pub struct ScanInput<'a> {
    /// Which files, and how many.
    pub rules: &'a ScanRules,
    /// The time, in nanoseconds since 1970.
    pub now_ns: i64,
    /// The live document known at a path.
    pub known: &'a dyn Fn(&str) -> Option<&'a Document>,
    /// Finds the id that a file's frontmatter names, from its path and content.
    pub named: &'a dyn Fn(&str, &[u8]) -> Option<String>,
}

/// Looks at everything below `root`.
///
/// Blocks on the disk: call it where blocking is allowed.
///
/// # Errors
///
/// Returns an error if the root is not as it was before or after the scan, or a bound on the whole is met.
pub fn scan(root: &Root, input: &ScanInput<'_>) -> Result<Scan, ScanError> {
    root.check()?;
    let mut walk = Walk::new(root, input);
    match walk.enter(None, b"", "", 0)? {
        Entered::Listed => {}
        Entered::Refused(errno) => return Err(RootIncident::Unreadable(errno).into()),
    }
    walk.look_again();
    root.check()?;
    Ok(walk.finish())
}

enum Entered {
    Listed,
    Refused(Errno),
}

struct Walk<'a, 'i> {
    root: &'a Root,
    input: &'a ScanInput<'i>,
    entries: usize,
    files: Vec<FileSeen>,
    /// Where a file with one name was seen: a second sighting means that it moved in between.
    sighted: BTreeMap<(u64, u64), usize>,
    moved: BTreeSet<usize>,
    /// When each directory had last changed as it was listed.
    listed: BTreeMap<String, i64>,
    withheld: BTreeSet<String>,
    restless: BTreeSet<String>,
    skipped: SkipReport,
    files_read: u64,
    buffer: Vec<u8>,
}

impl<'a, 'i> Walk<'a, 'i> {
    fn new(root: &'a Root, input: &'a ScanInput<'i>) -> Self {
        Self {
            root,
            input,
            entries: 0,
            files: Vec::new(),
            sighted: BTreeMap::new(),
            moved: BTreeSet::new(),
            listed: BTreeMap::new(),
            withheld: BTreeSet::new(),
            restless: BTreeSet::new(),
            skipped: SkipReport::default(),
            files_read: 0,
            buffer: Vec::new(),
        }
    }

    /// Lists one directory and goes through it in the order of its names.
    fn enter(
        &mut self,
        parent: Option<BorrowedFd<'_>>,
        name: &[u8],
        path: &str,
        depth: usize,
    ) -> Result<Entered, ScanError> {
        let opened =
            self.root.open_directory(parent, name).and_then(|fd| Ok((fstat(&fd)?, Dir::from_fd(fd)?)));
        let (stat, mut dir) = match opened {
            Ok(opened) => opened,
            Err(errno) => return Ok(Entered::Refused(errno)),
        };
        let names = match self.names(&mut dir)? {
            Ok(names) => names,
            Err(errno) => return Ok(Entered::Refused(errno)),
        };
        let changed_ns = directory_changed_ns(&stat);
        if changed_ns >= self.input.now_ns.saturating_sub(TIME_STEP_NS) {
            self.restless.insert(path.to_owned());
        }
        self.listed.insert(path.to_owned(), changed_ns);
        for name in names {
            self.visit(dir.as_fd(), name.as_bytes(), path, depth)?;
        }
        Ok(Entered::Listed)
    }

    /// Returns the names in a directory, sorted; hidden ones included, the rules decide later.
    fn names(&mut self, dir: &mut Dir) -> Result<Result<Vec<CString>, Errno>, ScanError> {
        let entries_max = self.input.rules.bounds.entries_max;
        let mut names = Vec::new();
        for entry in dir.iter() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return Ok(Err(errno)),
            };
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > entries_max {
                return Err(ScanError::TooManyEntries { entries_max });
            }
            names.push(entry.file_name().to_owned());
        }
        names.sort();
        Ok(Ok(names))
    }

    fn visit(
        &mut self,
        parent: BorrowedFd<'_>,
        raw_name: &[u8],
        directory: &str,
        depth: usize,
    ) -> Result<(), ScanError> {
        let name = match name::take(raw_name) {
            Ok(name) => name,
            Err(bad) => {
                // An ignored name is nobody's concern, and `.*` is known by its first byte.
                let shown = join(directory, &name::shown(raw_name));
                if self.input.rules.selection.enters(&shown) {
                    let hostile = bad == BadName::Hostile;
                    let reason = if hostile { SkipReason::NameHostile } else { SkipReason::NameNotUtf8 };
                    self.skip_shown(shown, reason, None);
                }
                return Ok(());
            }
        };
        let path = join(directory, name);
        if !self.input.rules.selection.enters(&path) {
            return Ok(());
        }
        let stat = match fstatat(parent, raw_name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) => {
                self.refused(&path, directory, errno);
                return Ok(());
            }
        };
        if path.len() > self.input.rules.bounds.path_bytes_max {
            self.skip(&path, SkipReason::PathTooLong);
            return Ok(());
        }
        let kind = stat.st_mode & SFlag::S_IFMT.bits();
        if kind == SFlag::S_IFDIR.bits() {
            self.visit_directory(parent, raw_name, &path, directory, depth)
        } else if kind == SFlag::S_IFREG.bits() {
            self.visit_file(parent, raw_name, &path, directory, &stat)
        } else {
            let link = kind == SFlag::S_IFLNK.bits();
            self.skip(&path, if link { SkipReason::Link } else { SkipReason::NotRegular });
            Ok(())
        }
    }

    fn visit_directory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &str,
        directory: &str,
        depth: usize,
    ) -> Result<(), ScanError> {
        if depth >= self.input.rules.bounds.depth_max {
            self.skip(path, SkipReason::TooDeep);
            return Ok(());
        }
        if let Entered::Refused(errno) = self.enter(Some(parent), name, path, depth + 1)? {
            self.refused(path, directory, errno);
        }
        Ok(())
    }

    fn visit_file(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &str,
        directory: &str,
        raw: &RawStat,
    ) -> Result<(), ScanError> {
        if !self.input.rules.selection.takes_file(path) {
            return Ok(());
        }
        let stat = read::file_stat(raw, self.input.now_ns);
        if stat.size > self.input.rules.bounds.file_bytes_max {
            self.skip_large(path, stat.size);
            return Ok(());
        }
        if let Some(seen) = self.unchanged(path, &stat) {
            return self.add(seen, raw);
        }
        let mut file = match self.root.open_file(parent, name) {
            Ok(file) => file,
            Err(errno) => {
                self.refused(path, directory, errno);
                return Ok(());
            }
        };
        let bytes_max = self.input.rules.bounds.file_bytes_max;
        match read::read_whole(&mut file, bytes_max, self.input.now_ns, &mut self.buffer, &mut |_| {}) {
            Ok(Reading::Whole { .. }) if read::is_private_key(&self.buffer) => {
                self.skip(path, SkipReason::PrivateKey);
            }
            Ok(Reading::Whole { stat, sha256 }) => {
                self.files_read += 1;
                let named = (self.input.named)(path, &self.buffer);
                return self.add(FileSeen { path: path.to_owned(), stat, sha256, named }, raw);
            }
            Ok(Reading::TooLarge) => self.skip_large(path, stat.size),
            Ok(Reading::Unstable) => self.skip(path, SkipReason::Unstable),
            Ok(Reading::NotRegular) => self.skip(path, SkipReason::NotRegular),
            Err(errno) => self.refused(path, directory, errno),
        }
        Ok(())
    }

    /// Takes what is known about a file if its state proves that nothing changed since it was read.
    fn unchanged(&self, path: &str, stat: &FileStat) -> Option<FileSeen> {
        let document = (self.input.known)(path)?;
        let known = document.stat.filter(|known| read::same_state(known, stat) && read::was_still(known))?;
        Some(FileSeen {
            path: path.to_owned(),
            stat: known,
            sha256: document.sha256,
            named: document.named.clone(),
        })
    }

    fn add(&mut self, seen: FileSeen, raw: &RawStat) -> Result<(), ScanError> {
        if raw.st_nlink == 1 {
            let index = self.files.len();
            if let Some(earlier) = self.sighted.insert((seen.stat.device, seen.stat.inode), index) {
                self.moved.insert(earlier);
            }
        }
        self.files.push(seen);
        let files_max = self.input.rules.bounds.files_max;
        if self.files.len() - self.moved.len() > files_max {
            return Err(ScanError::TooManyFiles { files_max });
        }
        Ok(())
    }

    /// Notes that the system refused to open or look at something.
    fn refused(&mut self, path: &str, directory: &str, errno: Errno) {
        if errno == Errno::ENOENT {
            // It was there when its directory was listed.
            self.restless.insert(directory.to_owned());
        } else if errno == Errno::ELOOP || errno == Errno::ENOTDIR {
            self.restless.insert(directory.to_owned());
            self.skip(path, SkipReason::Link);
        } else if matches!(errno, Errno::EACCES | Errno::EPERM) {
            self.skip(path, SkipReason::Denied);
        } else if errno == Errno::EXDEV {
            self.skip(path, SkipReason::OtherFilesystem);
        } else {
            self.skip(path, SkipReason::Unreadable);
        }
    }

    fn skip(&mut self, path: &str, reason: SkipReason) {
        if reason.withholds() {
            self.withheld.insert(path.to_owned());
        }
        self.skip_shown(name::shown(path.as_bytes()), reason, None);
    }

    fn skip_large(&mut self, path: &str, bytes: u64) {
        if SkipReason::TooLarge.withholds() {
            self.withheld.insert(path.to_owned());
        }
        self.skip_shown(name::shown(path.as_bytes()), SkipReason::TooLarge, Some(bytes));
    }

    fn skip_shown(&mut self, shown: String, reason: SkipReason, bytes: Option<u64>) {
        self.skipped.add(Skip { shown, reason, bytes, owner: None });
    }

    /// Finds the directories that changed while others were read.
    fn look_again(&mut self) {
        for (path, changed_ns) in &self.listed {
            let now = if path.is_empty() {
                self.root.open_directory(None, b"").and_then(|fd| fstat(&fd))
            } else {
                self.root.stat_path(path)
            };
            if now.map_or(true, |stat| directory_changed_ns(&stat) != *changed_ns) {
                self.restless.insert(path.clone());
            }
        }
    }

    fn finish(self) -> Scan {
        let Self { files, moved, listed, withheld, restless, skipped, files_read, .. } = self;
        let stayed = files.into_iter().enumerate().filter(|(index, _)| !moved.contains(index));
        let mut files: Vec<FileSeen> = stayed.map(|(_, file)| file).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Scan {
            root: self.root.identity(),
            began_ns: self.input.now_ns,
            files,
            directories: listed.into_keys().collect(),
            withheld,
            restless,
            skipped,
            files_read,
        }
    }
}

fn directory_changed_ns(stat: &RawStat) -> i64 {
    read::nanoseconds(stat.st_mtime, stat.st_mtime_nsec)
        .max(read::nanoseconds(stat.st_ctime, stat.st_ctime_nsec))
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests;
