//! Keeps copies and new logs apart from the log in use and from the folders that are watched.
//!
//! A copy inside a watched folder would be read as a document, and a log inside one would grow by reading itself.

use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::watched;
use crate::places::Places;

/// Refuses a copy whose directory is missing, or lies where a copy must not be.
///
/// # Errors
/// [`Failure`] naming the directory and what it collides with.
pub(crate) fn check_copy(target: &Path, places: &Places) -> Result<(), Failure> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Err(error) = parent.metadata()
        && error.kind() == std::io::ErrorKind::NotFound
    {
        let what = format!("there is no directory `{}` for the copy", parent.display());
        return Err(Failure::new(Exit::CouldNotLook, "copy.directory", what)
            .with_hint("make it first, or name a file in a directory that exists"));
    }
    let at = real(parent);
    if at.starts_with(real(&places.data)) {
        let what = format!("`{}` lies inside the data directory", target.display());
        return Err(Failure::new(Exit::Refused, "copy.inside-data", what).with_hint(
            "a copy beside its log is lost with it: name a file elsewhere, best on another disk",
        ));
    }
    match watched(places).into_iter().find(|folder| at.starts_with(real(&folder.root))) {
        None => Ok(()),
        Some(folder) => {
            let what = format!("`{}` lies inside the folder of {}", target.display(), folder.source);
            Err(Failure::new(Exit::Refused, "copy.inside-watched", what)
                .with_hint("it would be read as a document: name a file outside every watched folder"))
        }
    }
}

/// Refuses a data directory for a new log that shares a branch with a watched folder, as the service would.
///
/// # Errors
/// [`Failure`] naming the folder.
pub(crate) fn check_new_log(places: &Places) -> Result<(), Failure> {
    let data = real(&places.data);
    for folder in watched(places) {
        let root = real(&folder.root);
        let how = if data.starts_with(&root) {
            "lies inside"
        } else if root.starts_with(&data) {
            "contains"
        } else {
            continue;
        };
        let what = format!("`{}` {how} the folder of {}", places.data.display(), folder.source);
        return Err(Failure::new(Exit::Refused, "data.overlaps-watched", what)
            .with_hint("a log never watches itself: name a directory of its own with --data DIR"));
    }
    Ok(())
}

/// Follows the links of a path as far as it exists.
fn real(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match known {
        Some((above, real)) => path
            .strip_prefix(above)
            .map_or(real.clone(), |rest| if rest.as_os_str().is_empty() { real } else { real.join(rest) }),
        None => path.to_owned(),
    }
}
