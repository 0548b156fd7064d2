//! Where a data set may lie: a directory that is the owner's alone, reached through none that others may change.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thoughtstream_domain::training::Dataset;
use thoughtstream_effects::atomic;
use thoughtstream_effects::dirs::{DirError, PrivateDir};

use crate::apart::check_copy;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::places::Places;

/// Only the owner reads what leaves the log.
const OWNER_ONLY: u32 = 0o600;

/// The bits of a mode that let others write, and the one that keeps them from replacing what is not theirs.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Is a checked place for a data set and its manifest.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    manifest: PathBuf,
    /// Held open, so that what was checked is not taken away unseen.
    _directory: PrivateDir,
}

/// Checks a place, and that nothing lies there.
///
/// # Errors
/// [`Failure`] naming the rule that it breaks.
pub(super) fn check(path: &Path, places: &Places) -> Result<Place, Failure> {
    if path.is_dir() {
        let what = format!("`{}` is a directory", path.display());
        return Err(Failure::new(Exit::Usage, "training.path", what)
            .with_hint("name a new file in it: a data set is one file with its manifest beside it"));
    }
    check_copy(path, places)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = PrivateDir::open(parent).map_err(|error| refused(&error))?;
    check_way(directory.path())?;
    let place = Place { path: path.to_owned(), manifest: beside(path), _directory: directory };
    for file in [&place.path, &place.manifest] {
        if file.symlink_metadata().is_ok() {
            let what = format!("there is something at `{}` already; it is left as it is", file.display());
            return Err(Failure::new(Exit::Refused, "training.exists", what)
                .with_hint("name a new file: a data set never replaces another"));
        }
    }
    Ok(place)
}

/// Returns where the manifest of a data set lies: beside it.
fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".manifest.json");
    PathBuf::from(name)
}

fn refused(error: &DirError) -> Failure {
    let (exit, code) = match error {
        DirError::Missing { .. } | DirError::Io { .. } => (Exit::CouldNotLook, "training.directory"),
        DirError::Open { .. } => (Exit::Refused, "training.directory-open"),
        DirError::Link { .. } => (Exit::Refused, "training.link"),
        DirError::Owner { .. } => (Exit::Refused, "training.directory-owner"),
        DirError::NotADirectory { .. } | DirError::TooLong { .. } => (Exit::Refused, "training.directory"),
    };
    Failure::of(exit, code, error)
        .with_hint("name a file in a directory of mode 700: what leaves the log is yours alone at first")
}

/// Checks the directories above: none is a link, and nobody but the owner and root may exchange one.
fn check_way(directory: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        let what = format!("cannot look at what lies above `{}`", directory.display());
        Failure::new(Exit::CouldNotLook, "training.directory", what).because(&error)
    };
    if directory.canonicalize().map_err(cannot)? != directory {
        let what = format!("`{}` is reached through a link or by `..`", directory.display());
        return Err(Failure::new(Exit::Refused, "training.link", what)
            .with_hint("name the directory by the way that leads there without links"));
    }
    let us = nix::unistd::geteuid().as_raw();
    for above in directory.ancestors().skip(1) {
        let metadata = above.metadata().map_err(cannot)?;
        let mode = metadata.mode();
        let theirs = metadata.uid() != us && metadata.uid() != 0;
        if theirs || (mode & OTHERS_WRITE != 0 && mode & STICKY == 0) {
            let what = format!("others may exchange what lies in `{}`", above.display());
            return Err(Failure::new(Exit::Refused, "training.way-open", what)
                .with_hint("name a file below directories that only you and root may change"));
        }
    }
    Ok(())
}

impl Place {
    /// Returns where the manifest lies.
    pub(super) fn manifest(&self) -> &Path {
        &self.manifest
    }

    /// Writes both files, each whole or not at all. The data set comes last: where it is, its manifest is.
    ///
    /// # Errors
    /// [`Failure`] if one cannot be written; then neither is left.
    pub(super) fn write(&self, dataset: &Dataset) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(&dataset.manifest).map_err(|error| {
            Failure::new(Exit::Bug, "training.encode", "a manifest cannot be written").because(&error)
        })?;
        let written = |error| Failure::of(Exit::CouldNotLook, "training.write", &error);
        atomic::create(&self.manifest, (text + "\n").as_bytes(), OWNER_ONLY).map_err(written)?;
        if let Err(error) = atomic::create(&self.path, &dataset.bytes, OWNER_ONLY) {
            // Best effort: a manifest alone says of itself that it is of no data set that is there.
            atomic::remove(&self.manifest).ok();
            return Err(written(error));
        }
        Ok(())
    }
}
