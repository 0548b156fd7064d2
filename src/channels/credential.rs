//! Finds a credential where a person put it, and says how safely it lies there.
//!
//! The places, first match wins: the directory that systemd hands to the service, a closed file in
//! `credentials/` of the configuration, a variable of the environment. It is looked up for each use, so that a
//! new one needs no restart and an old one lies in memory no longer than it is needed. It never prints.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use secrecy::SecretString;
use thoughtstream_domain::provider::CredentialName;

/// The longest credential: tokens of providers have some hundred characters, a few are longer.
const BYTES_MAX: u64 = 8 * 1024;

/// The rights that nobody but the owner may have on a credential's file.
const OTHERS: u32 = 0o077;

/// Knows where credentials may lie.
#[derive(Debug, Clone)]
pub struct Credentials {
    systemd: Option<PathBuf>,
    directory: PathBuf,
}

/// Is a credential with where it was found.
#[derive(Debug)]
pub struct Found {
    /// The credential.
    pub secret: SecretString,
    /// Where it lay.
    pub origin: Origin,
}

/// Says where a credential lay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the directory that systemd made for this service.
    Systemd,
    /// In a closed file of the configuration.
    File,
    /// In a variable of the environment, which whoever starts a program of this user can read.
    Environment,
}

/// Says why there is no credential to use; it names no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// There is none.
    #[error("there is none")]
    Missing,
    /// It could not be read.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
    /// It is a link, a directory or something else that is no file.
    #[error("it is no plain file")]
    NotAFile,
    /// It belongs to another user.
    #[error("it belongs to user {0}")]
    Owner(u32),
    /// Others than its owner have rights on it.
    #[error("others have rights on it: its mode is {0:04o}")]
    Open(u32),
    /// It is empty, too long, or not one line of plain characters.
    #[error("it is not one line of 1 to {BYTES_MAX} plain characters")]
    Form,
}

impl CredentialError {
    /// Says whether there is something, and it must not or cannot be used.
    #[must_use]
    pub const fn is_unusable(self) -> bool {
        !matches!(self, Self::Missing)
    }
}

impl Credentials {
    /// Looks in `systemd`, if the service manager handed a directory over, then in `directory`.
    #[must_use]
    pub const fn new(systemd: Option<PathBuf>, directory: PathBuf) -> Self {
        Self { systemd, directory }
    }

    /// Returns the places of this process, whose configuration lies in `config`.
    #[must_use]
    pub fn of_process(config: &Path) -> Self {
        let systemd = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        Self::new(systemd.filter(|path| path.is_absolute()), config.join("credentials"))
    }

    /// Returns the file that a person would put the credential into.
    #[must_use]
    pub fn file(&self, name: &CredentialName) -> PathBuf {
        self.directory.join(name.as_str())
    }

    /// Finds a credential: a file that is there and must not be used ends the search.
    ///
    /// # Errors
    /// [`CredentialError`] with what is wrong with it.
    pub fn find(&self, name: &CredentialName, variable: Option<&str>) -> Result<Found, CredentialError> {
        if let Some(directory) = &self.systemd {
            // The service manager alone writes there, under an owner of its choice.
            match read(&directory.join(name.as_str()), false) {
                Ok(secret) => return Ok(Found { secret, origin: Origin::Systemd }),
                Err(CredentialError::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        match read(&self.file(name), true) {
            Ok(secret) => return Ok(Found { secret, origin: Origin::File }),
            Err(CredentialError::Missing) => {}
            Err(error) => return Err(error),
        }
        let value = variable.and_then(std::env::var_os);
        let value = value.filter(|value| !value.is_empty()).ok_or(CredentialError::Missing)?;
        let value = value.into_string().map_err(|_| CredentialError::Form)?;
        Ok(Found { secret: checked(value)?, origin: Origin::Environment })
    }
}

/// Reads a file that is ours alone, through one descriptor, so that what was checked is what is read.
fn read(path: &Path, closed: bool) -> Result<SecretString, CredentialError> {
    let unreadable = |error: &std::io::Error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => CredentialError::Missing,
        Some(Errno::ELOOP) => CredentialError::NotAFile,
        Some(_) | None => CredentialError::Unreadable(error.kind()),
    };
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = file.map_err(|error| unreadable(&error))?;
    let about = file.metadata().map_err(|error| unreadable(&error))?;
    if !about.is_file() {
        return Err(CredentialError::NotAFile);
    }
    if closed {
        if about.uid() != nix::unistd::geteuid().as_raw() {
            return Err(CredentialError::Owner(about.uid()));
        }
        if about.mode() & OTHERS != 0 {
            return Err(CredentialError::Open(about.mode() & 0o7777));
        }
    }
    let mut text = String::with_capacity(usize::try_from(about.len().min(BYTES_MAX)).unwrap_or(0) + 1);
    match (&mut file).take(BYTES_MAX + 1).read_to_string(&mut text) {
        Ok(_) => checked(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(CredentialError::Form),
        Err(error) => Err(unreadable(&error)),
    }
}

/// Takes one line of characters that a header may carry; one line end behind it belongs to the file.
fn checked(text: String) -> Result<SecretString, CredentialError> {
    let whole = SecretString::from(text);
    let text = secrecy::ExposeSecret::expose_secret(&whole);
    let line = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    let is_plain = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain || line.len() as u64 > BYTES_MAX {
        return Err(CredentialError::Form);
    }
    Ok(SecretString::from(line))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use secrecy::ExposeSecret as _;

    use super::*;

    struct Bench {
        base: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let bench = Self { base: tempfile::tempdir().unwrap() };
            for directory in ["systemd", "credentials"] {
                std::fs::create_dir(bench.base.path().join(directory)).unwrap();
            }
            bench
        }

        fn put(&self, below: &str, bytes: &[u8], mode: u32) {
            let path = self.base.path().join(below);
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }

        fn find(&self, variable: Option<&str>) -> Result<(String, Origin), CredentialError> {
            let base = self.base.path();
            let credentials = Credentials::new(Some(base.join("systemd")), base.join("credentials"));
            let found = credentials.find(&CredentialName::parse("key").unwrap(), variable)?;
            assert!(!format!("{found:?}").contains(found.secret.expose_secret()));
            Ok((found.secret.expose_secret().to_owned(), found.origin))
        }
    }

    #[test]
    fn systemd_comes_before_a_file_and_that_before_the_environment() {
        let bench = Bench::new();
        assert_eq!(bench.find(None), Err(CredentialError::Missing));
        assert_eq!(bench.find(Some("THOUGHT_TEST_NOT_SET")), Err(CredentialError::Missing));
        // Cargo sets this one for every test.
        let variable = Some("CARGO_PKG_NAME");
        let name = env!("CARGO_PKG_NAME").to_owned();
        assert_eq!(bench.find(variable), Ok((name, Origin::Environment)));
        bench.put("credentials/key", b"from-a-file\n", 0o600);
        assert_eq!(bench.find(variable), Ok(("from-a-file".to_owned(), Origin::File)));
        bench.put("systemd/key", b"from-systemd", 0o440);
        assert_eq!(bench.find(variable), Ok(("from-systemd".to_owned(), Origin::Systemd)));
    }

    #[test]
    fn a_file_that_is_not_closed_is_not_used_and_nothing_stands_in_for_it() {
        for mode in [0o640, 0o604, 0o620, 0o660, 0o644] {
            let bench = Bench::new();
            bench.put("credentials/key", b"x", mode);
            assert_eq!(bench.find(Some("CARGO_PKG_NAME")), Err(CredentialError::Open(mode)));
        }
        let bench = Bench::new();
        bench.put("elsewhere", b"x", 0o600);
        symlink(bench.base.path().join("elsewhere"), bench.base.path().join("credentials/key")).unwrap();
        assert_eq!(bench.find(None), Err(CredentialError::NotAFile));
        let bench = Bench::new();
        std::fs::create_dir(bench.base.path().join("credentials/key")).unwrap();
        assert_eq!(bench.find(None), Err(CredentialError::NotAFile));
    }

    #[test]
    fn only_one_line_of_plain_characters_is_a_credential() {
        for bytes in
            [&b""[..], b"\n", b"a b", b"a\nb", b"a\r\nX-Evil: 1", b"\xff", b"caf\xc3\xa9", b" a", b"a\0"]
        {
            let bench = Bench::new();
            bench.put("credentials/key", bytes, 0o600);
            assert_eq!(bench.find(None), Err(CredentialError::Form), "{bytes:?}");
        }
        let bench = Bench::new();
        bench.put("credentials/key", &[b'a'; 8193], 0o600);
        assert_eq!(bench.find(None), Err(CredentialError::Form));
        bench.put("credentials/key", b"sk-1\r\n", 0o600);
        assert_eq!(bench.find(None).unwrap().0, "sk-1");
    }
}
