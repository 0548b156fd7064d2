//! Where things are: the data directory, the configuration, and where a service's sockets go.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::SourceId;

use crate::exit::Exit;
use crate::failure::Failure;

/// The name of everything of ours below the platform's directories.
const NAME: &str = "thoughtstream";

/// A socket's path, with its closing zero, must fit into `sockaddr_un`: 108 bytes on Linux.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The longest part below a runtime directory: `/thoughtstream/` + 16 + `/operator/operator.sock`. What a producer
/// apart comes in by is no longer: `/thoughtstream-sources/` + 16 + `/producer.sock`.
const BELOW_RUNTIME_BYTES: usize = 15 + 16 + 23;

/// Looks up a variable of the environment; tests pass a table instead.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Reads the process's environment.
#[must_use]
pub fn environment(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Names the directories a command works with; none of them need exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The directory that holds the log.
    pub data: PathBuf,
    /// The directory that holds `config.yaml` and what it names.
    pub config: PathBuf,
}

impl Places {
    /// Resolves the places: flag, then environment, then the platform's directory.
    ///
    /// # Errors
    /// [`Failure`] when no flag and no variable says where a home is.
    pub fn resolve(
        data: Option<PathBuf>,
        config: Option<PathBuf>,
        lookup: Lookup<'_>,
    ) -> Result<Self, Failure> {
        let pick = |flag: Option<PathBuf>, own: &str, xdg: &str, below_home: &str, option: &str| {
            flag.or_else(|| lookup(own).map(PathBuf::from))
                .or_else(|| absolute(lookup(xdg)).map(|base| base.join(NAME)))
                .or_else(|| absolute(lookup("HOME")).map(|home| home.join(below_home).join(NAME)))
                .ok_or_else(|| {
                    let what = format!("no place for {option}: neither {own}, {xdg} nor HOME is set");
                    Failure::new(Exit::Usage, "place.none", what).with_hint(format!("say {option} DIR"))
                })
        };
        let data = pick(data, "THOUGHTSTREAM_DATA", "XDG_DATA_HOME", ".local/share", "--data")?;
        let config = pick(config, "THOUGHTSTREAM_CONFIG", "XDG_CONFIG_HOME", ".config", "--config")?;
        let make_absolute = |path: PathBuf| {
            std::path::absolute(&path).map_err(|error| {
                Failure::new(Exit::Usage, "place.path", "a directory's path is not usable").because(&error)
            })
        };
        Ok(Self { data: make_absolute(data)?, config: make_absolute(config)? })
    }

    /// Returns the main configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.yaml")
    }
}

/// Takes a path from the environment only if it is absolute, as the platform's convention demands.
fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns where the sockets of a service on `data` go: a short name below the first runtime directory in which
/// a socket path fits, however long the data directory's own path is.
#[must_use]
pub fn runtime_directory(data: &Path, uid: u32, lookup: Lookup<'_>) -> PathBuf {
    let short = short(&[data.as_os_str().as_encoded_bytes()]);
    match runtime_base(uid, lookup) {
        Some(base) => base.join(NAME).join(short),
        None => PathBuf::from(format!("/tmp/{NAME}-{uid}")).join(short),
    }
}

/// Returns where the socket goes by which the producer of one source comes in: beside the directory of the others,
/// which nobody else may enter. The service and the process find it by the same variables.
#[must_use]
pub fn source_directory(data: &Path, source: &SourceId, uid: u32, lookup: Lookup<'_>) -> PathBuf {
    let short = short(&[data.as_os_str().as_encoded_bytes(), source.as_str().as_bytes()]);
    match runtime_base(uid, lookup) {
        Some(base) => base.join(format!("{NAME}-sources")).join(short),
        None => PathBuf::from(format!("/tmp/{NAME}-{uid}-sources")).join(short),
    }
}

/// Returns the first runtime directory in which a socket's path fits.
fn runtime_base(uid: u32, lookup: Lookup<'_>) -> Option<PathBuf> {
    let fits = |base: &PathBuf| base.as_os_str().len() + BELOW_RUNTIME_BYTES <= SOCKET_PATH_BYTES_MAX;
    ["THOUGHTSTREAM_RUNTIME", "XDG_RUNTIME_DIR"]
        .into_iter()
        .filter_map(|name| absolute(lookup(name)))
        .find(fits)
        .or_else(|| Some(PathBuf::from(format!("/run/user/{uid}"))).filter(|path| path.is_dir()))
}

/// Makes a short name of parts, none of which can hold a zero byte.
fn short(parts: &[&[u8]]) -> String {
    Sha256Hash::of(&parts.join(&0)).to_string()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(table: &[(&str, &str)], data: Option<&str>) -> Result<Places, Failure> {
        let lookup =
            |name: &str| table.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Places::resolve(data.map(PathBuf::from), None, &lookup)
    }

    #[test]
    fn the_flag_wins_over_the_variable_and_that_over_the_platform() {
        let table = [("THOUGHTSTREAM_DATA", "/b"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(resolve(&table, Some("/a")).unwrap().data, Path::new("/a"));
        assert_eq!(resolve(&table, None).unwrap().data, Path::new("/b"));
        assert_eq!(resolve(&table[1..], None).unwrap().data, Path::new("/x/thoughtstream"));
        assert_eq!(resolve(&table[2..], None).unwrap().data, Path::new("/h/.local/share/thoughtstream"));
        assert_eq!(resolve(&table[2..], None).unwrap().config, Path::new("/h/.config/thoughtstream"));
        assert_eq!(resolve(&[], None).unwrap_err().exit(), Exit::Usage);
    }

    #[test]
    fn a_relative_platform_directory_is_ignored() {
        let table = [("XDG_DATA_HOME", "x"), ("HOME", "/h")];
        assert_eq!(resolve(&table, None).unwrap().data, Path::new("/h/.local/share/thoughtstream"));
    }

    #[test]
    fn a_socket_path_fits_however_long_the_data_directory_and_the_runtime_directory_are() {
        let data = PathBuf::from(format!("/{}", "d".repeat(4000)));
        let long = OsString::from(format!("/{}", "r".repeat(200)));
        let lookup = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| long.clone());
        let path = runtime_directory(&data, 4_294_967_294, &lookup).join("operator/operator.sock");
        assert!(path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX, "{}", path.display());
        let source = |name: &str| SourceId::parse(&format!("filesystem:{name}")).unwrap();
        let long =
            OsString::from(format!("/{}", "r".repeat(SOCKET_PATH_BYTES_MAX - BELOW_RUNTIME_BYTES - 1)));
        let lookup = |name: &str| (name == "THOUGHTSTREAM_RUNTIME").then(|| long.clone());
        let place = |name: &str| source_directory(&data, &source(name), 7, &lookup);
        let path = place(&"s".repeat(128)).join("producer.sock");
        assert!(path.starts_with(&long) && path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        assert_ne!(place("notes"), place("mail"));
        assert!(!place("notes").starts_with(runtime_directory(&data, 7, &lookup).parent().unwrap()));
        assert_ne!(
            runtime_directory(Path::new("/a"), 1, &|_| None),
            runtime_directory(Path::new("/b"), 1, &|_| None)
        );
    }
}
