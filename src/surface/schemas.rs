//! The event types that may be written: those that ship, and those in `schemas/` of the configuration.

use std::path::Path;

use thoughtstream_domain::registry::{Registry, SCHEMA_BYTES_MAX};
use thoughtstream_domain::text::printable;
use thoughtstream_effects::atomic;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::places::Places;

/// More files than this in one directory are a mistake about which directory it is.
const FILES_MAX: usize = 10_000;

/// Is a file that was read: its name as text, and its bytes.
pub(crate) type Named = (String, Vec<u8>);

/// Reads the registry of a configuration.
///
/// # Errors
/// [`Failure`] with exit code 2 naming every schema file that registers nothing, and why.
pub fn registry(places: &Places) -> Result<Registry, Failure> {
    let files = read_directory(&places.config.join("schemas"), "json", SCHEMA_BYTES_MAX as u64 + 1)?;
    Registry::shipped().with_custom(&files).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|problem| format!("schemas/{}", problem)).collect();
        Failure::new(Exit::Usage, "schema.file", lines.join("\n"))
    })
}

/// Reads the files of a directory that end in `.ending`, in order of their names; a missing directory is empty.
///
/// # Errors
/// [`Failure`] with exit code 4 if it, or a file in it, cannot be read: unreadable is not absent.
pub(crate) fn read_directory(dir: &Path, ending: &str, bytes_max: u64) -> Result<Vec<Named>, Failure> {
    let unreadable = |error: &dyn std::error::Error| {
        let what = format!("cannot read the directory `{}`", printable(&dir.display().to_string()));
        Failure::new(Exit::CouldNotLook, "config.directory", what).because(error)
    };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(&error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let hidden = name.starts_with('.') || name.ends_with('~');
        if hidden || Path::new(name.as_ref()).extension().is_none_or(|found| found != ending) {
            continue;
        }
        // One byte beyond the bound is read, so that whoever checks the text says what is wrong with it.
        let bytes = read_at_most(&entry.path(), bytes_max)?;
        files.push((name.into_owned(), bytes));
        if files.len() > FILES_MAX {
            let what = format!("more than {FILES_MAX} files in `{}`", printable(&dir.display().to_string()));
            return Err(Failure::new(Exit::Usage, "config.directory", what));
        }
    }
    files.sort();
    Ok(files)
}

/// Reads a file; of one that is too large, one byte more than the bound.
pub(crate) fn read_at_most(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    match atomic::read(&resolved(path), bytes_max) {
        Ok(bytes) => Ok(bytes),
        Err(atomic::ReadError::TooLarge { .. }) => {
            Ok(vec![b' '; usize::try_from(bytes_max).unwrap_or(usize::MAX)])
        }
        Err(error) => Err(Failure::of(Exit::CouldNotLook, "config.file", &error)),
    }
}

/// Follows links in the configuration: people keep theirs in a repository and link to it.
fn resolved(path: &Path) -> std::path::PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
