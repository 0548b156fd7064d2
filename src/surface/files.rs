//! The files of the configuration: what is read is a regular file below its directory, and not too large.
//!
//! A file that is something else is one problem among all others, so that a person sees everything at once.

use std::fs::FileType;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use thoughtstream_domain::text::printable;
use thoughtstream_domain::yaml::{Code, Problem};
use thoughtstream_effects::atomic::{self, ReadError};

use crate::exit::Exit;
use crate::failure::Failure;

/// More files than this in one directory are a mistake about which directory it is.
const FILES_MAX: usize = 10_000;

/// The kinds of problem that any file of the configuration can have.
mod codes {
    use super::Code;

    /// It is larger than what is read.
    pub(super) const TOO_LARGE: Code = Code::new("file.too-large");
    /// It is a directory, a pipe, a socket or a device.
    pub(super) const NOT_REGULAR: Code = Code::new("file.not-regular");
    /// It is a link that leads nowhere, or out of the configuration.
    pub(super) const LINK: Code = Code::new("file.link");
}

/// Is a file that was read: its name as text, and its bytes.
pub(crate) type Named = (String, Vec<u8>);

/// Is what a directory holds: the files that could be read, and what is wrong with the others.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The files in order of their names, each under its name below the configuration.
    pub(crate) files: Vec<Named>,
    /// What is wrong with the others.
    pub(crate) problems: Vec<Problem>,
}

/// Is the directory of a configuration; nothing outside of it is read.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    /// Opens the directory, which may itself be reached through a link; nothing if there is none.
    pub(crate) fn open(config: &Path) -> Result<Option<Self>, Failure> {
        match std::fs::canonicalize(config) {
            Ok(root) if root.is_dir() => Ok(Some(Self { root })),
            Ok(_) => Err(unreadable(config, &std::io::Error::from(ErrorKind::NotADirectory))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(config, &error)),
        }
    }

    /// Reads the files of the directory `below` that end in one of `endings`; nothing if it is missing.
    ///
    /// # Errors
    /// [`Failure`] with exit code 4 if it, or a file in it, cannot be read: unreadable is not absent.
    pub(crate) fn directory(
        &self,
        below: &str,
        endings: &[&str],
        bytes_max: usize,
    ) -> Result<Option<Listing>, Failure> {
        let dir = self.root.join(below);
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&dir, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| unreadable(&dir, &error))?.file_name();
            let text = name.to_string_lossy();
            let hidden = text.starts_with('.') || text.ends_with('~');
            let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
            if !hidden && ending.is_some_and(|ending| endings.contains(&ending)) {
                names.push(name);
            }
            if names.len() > FILES_MAX {
                let what =
                    format!("more than {FILES_MAX} files in `{}`", printable(&dir.display().to_string()));
                return Err(Failure::new(Exit::Usage, "config.directory", what));
            }
        }
        names.sort();
        let mut listing = Listing::default();
        for name in names {
            let shown = format!("{below}/{}", name.to_string_lossy());
            match self.read(&Path::new(below).join(&name), &shown, bytes_max)? {
                Ok(Some(bytes)) => listing.files.push((shown, bytes)),
                // It went away since the directory was listed.
                Ok(None) => {}
                Err(problem) => listing.problems.push(problem),
            }
        }
        Ok(Some(listing))
    }

    /// Reads one file by its path below the directory; nothing if it is missing.
    ///
    /// # Errors
    /// [`Failure`] if the system refuses. What is wrong with the file itself is the inner [`Problem`].
    pub(crate) fn read(
        &self,
        below: &Path,
        shown: &str,
        bytes_max: usize,
    ) -> Result<Result<Option<Vec<u8>>, Problem>, Failure> {
        let path = self.root.join(below);
        let refused = |error: &std::io::Error| {
            let what = format!("cannot read `{}`", printable(&path.display().to_string()));
            Failure::new(Exit::CouldNotLook, "config.file", what).because(error)
        };
        let link = |message: &str| {
            let problem = Problem::of_file(shown, codes::LINK, message);
            Ok(Err(
                problem.with_hint("copy the file here, or let the whole configuration directory be a link")
            ))
        };
        let (meta, target) = match (std::fs::symlink_metadata(&path), std::fs::canonicalize(&path)) {
            (Err(error), _) if error.kind() == ErrorKind::NotFound => return Ok(Ok(None)),
            (Err(error), _) => return Err(refused(&error)),
            (Ok(meta), Err(error)) if meta.is_symlink() && is_astray(&error) => {
                return link("the link leads nowhere");
            }
            (Ok(_), Err(error)) if error.kind() == ErrorKind::NotFound => return Ok(Ok(None)),
            (Ok(_), Err(error)) => return Err(refused(&error)),
            (Ok(_), Ok(target)) if !target.starts_with(&self.root) => {
                return link("the link leads out of the configuration directory");
            }
            (Ok(_), Ok(target)) => match std::fs::symlink_metadata(&target) {
                Ok(meta) => (meta, target),
                Err(error) => return Err(refused(&error)),
            },
        };
        if !meta.is_file() {
            return Ok(Err(not_regular(shown, kind(meta.file_type()))));
        }
        if meta.len() > bytes_max as u64 {
            return Ok(Err(too_large(shown, &meta.len().to_string(), bytes_max)));
        }
        match atomic::read(&target, bytes_max as u64) {
            Ok(bytes) => Ok(Ok(Some(bytes))),
            Err(ReadError::Missing { .. }) => Ok(Ok(None)),
            Err(ReadError::NotRegular { .. }) => Ok(Err(not_regular(shown, "no regular file"))),
            // It grew since its size was asked for.
            Err(ReadError::TooLarge { .. }) => {
                Ok(Err(too_large(shown, &format!("more than {bytes_max}"), bytes_max)))
            }
            Err(error @ ReadError::Io { .. }) => Err(Failure::of(Exit::CouldNotLook, "config.file", &error)),
        }
    }
}

/// Says whether a link leads to nothing, or round in a circle.
fn is_astray(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(nix::libc::ELOOP)
}

fn unreadable(dir: &Path, error: &std::io::Error) -> Failure {
    let what = format!("cannot read the directory `{}`", printable(&dir.display().to_string()));
    Failure::new(Exit::CouldNotLook, "config.directory", what).because(error)
}

fn kind(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn not_regular(shown: &str, found: &str) -> Problem {
    let message = format!("this is {found} where a file is read");
    Problem::of_file(shown, codes::NOT_REGULAR, message).with_hint("put a regular file here, or rename it")
}

fn too_large(shown: &str, bytes: &str, bytes_max: usize) -> Problem {
    let message = format!("the file has {bytes} bytes; at most {bytes_max} are read");
    Problem::of_file(shown, codes::TOO_LARGE, message).with_hint("make it smaller; nothing of it was read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("config/in")).unwrap();
        let files = Files::open(&dir.path().join("config")).unwrap().unwrap();
        (dir, files)
    }

    #[test]
    fn what_is_no_plain_file_of_its_own_is_one_problem_each_and_hides_no_other() {
        let (dir, files) = place();
        let at = |name: &str| dir.path().join("config/in").join(name);
        std::fs::write(dir.path().join("secret"), "hunter2").unwrap();
        std::fs::write(at("a.yaml"), "fits").unwrap();
        std::fs::write(at("large.yaml"), [b' '; 11]).unwrap();
        std::fs::create_dir(at("dir.yml")).unwrap();
        nix::unistd::mkfifo(&at("pipe.yaml"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        for (target, name) in [
            ("a.yaml", "near.yaml"),
            ("../../secret", "far.yaml"),
            ("gone", "lost.yaml"),
            ("me.yaml", "me.yaml"),
            ("pipe.yaml", "to-pipe.yaml"),
        ] {
            std::os::unix::fs::symlink(target, at(name)).unwrap();
        }
        let listing = files.directory("in", &["yaml", "yml"], 10).unwrap().unwrap();
        let fits = |name: &str| (format!("in/{name}"), b"fits".to_vec());
        assert_eq!(listing.files, [fits("a.yaml"), fits("near.yaml")]);
        let found: Vec<String> = listing
            .problems
            .iter()
            .map(|problem| format!("{} {}: {}", problem.file, problem.code, problem.message))
            .collect();
        assert_eq!(
            found,
            [
                "in/dir.yml file.not-regular: this is a directory where a file is read",
                "in/far.yaml file.link: the link leads out of the configuration directory",
                "in/large.yaml file.too-large: the file has 11 bytes; at most 10 are read",
                "in/lost.yaml file.link: the link leads nowhere",
                "in/me.yaml file.link: the link leads nowhere",
                "in/pipe.yaml file.not-regular: this is a pipe where a file is read",
                "in/to-pipe.yaml file.not-regular: this is a pipe where a file is read",
            ]
        );
    }

    #[test]
    fn what_is_missing_is_nothing_and_a_file_of_exactly_the_bound_is_read() {
        let (dir, files) = place();
        assert!(files.directory("nowhere", &["yaml"], 10).unwrap().is_none());
        assert!(Files::open(&dir.path().join("nowhere")).unwrap().is_none());
        std::fs::write(dir.path().join("config/full"), [b'x'; 10]).unwrap();
        assert_eq!(files.read(Path::new("full"), "full", 10).unwrap().unwrap().unwrap().len(), 10);
        assert_eq!(files.read(Path::new("none"), "none", 10).unwrap(), Ok(None));
    }
}
