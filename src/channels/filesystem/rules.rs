//! What a scan looks at, and how much of it at most.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;

/// Names that are never taken unless the defaults are switched off.
///
/// Dotfiles cover `.git`, `.env`, `.ssh` and editors' swap files. The rest are keys and secrets under their
/// usual names, and what editors and downloads leave half-written. Matched without regard to case.
pub const IGNORED_BY_DEFAULT: &[&str] = &[
    ".*",
    "*.env",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*.pem",
    "*.key",
    "*.ppk",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*~",
    "#*#",
    "*.tmp",
    "*.part",
    "*.crdownload",
    "node_modules",
];

/// Bounds of one scan; each names itself when it is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most documents one source may have. Each costs about 300 bytes of memory while it is watched.
    pub files_max: usize,
    /// The most directory entries one scan looks at, ignored ones included.
    pub entries_max: usize,
    /// How many directories lie between the root and a file at most; each costs one descriptor.
    pub depth_max: usize,
    /// The longest path below the root; events accept 4096 bytes.
    pub path_bytes_max: usize,
    /// The largest file that is read. One file is held in memory at a time.
    pub file_bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            files_max: 100_000,
            entries_max: 1_000_000,
            depth_max: 64,
            path_bytes_max: 1024,
            file_bytes_max: 4 << 20,
        }
    }
}

/// A pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{pattern}` is not a pattern: {reason}")]
pub struct PatternError {
    /// The pattern as written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Decides by path alone which files are documents.
///
/// A pattern without `/` is matched against the name of a file or directory, at any depth; one with `/`
/// against the whole path below the root. `*` and `?` do not match `/`, `**` does. A directory that is
/// ignored is not entered.
#[derive(Debug, Clone)]
pub struct Selection {
    include: Option<Patterns>,
    ignore: Patterns,
    ignore_by_default: Patterns,
}

impl Selection {
    /// Compiles the patterns of a source.
    ///
    /// With no `include` pattern every file is included. `ignore` wins over `include`.
    ///
    /// # Errors
    ///
    /// Returns the first pattern that cannot be compiled.
    pub fn new(include: &[String], ignore: &[String], with_defaults: bool) -> Result<Self, PatternError> {
        let defaults: Vec<String> = if with_defaults {
            IGNORED_BY_DEFAULT.iter().map(|&name| name.to_owned()).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            include: if include.is_empty() { None } else { Some(Patterns::new(include, Case::Kept)?) },
            ignore: Patterns::new(ignore, Case::Kept)?,
            ignore_by_default: Patterns::new(&defaults, Case::Folded)?,
        })
    }

    /// Returns whether the file at `path` is a document.
    #[must_use]
    pub fn takes_file(&self, path: &str) -> bool {
        !self.ignores(path) && self.include.as_ref().is_none_or(|include| include.matches(path))
    }

    /// Returns whether the directory at `path` is entered.
    #[must_use]
    pub fn enters(&self, path: &str) -> bool {
        !self.ignores(path)
    }

    fn ignores(&self, path: &str) -> bool {
        self.ignore.matches(path) || self.ignore_by_default.matches(path)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Kept,
    Folded,
}

#[derive(Debug, Clone)]
struct Patterns {
    names: GlobSet,
    paths: GlobSet,
}

impl Patterns {
    fn new(patterns: &[String], case: Case) -> Result<Self, PatternError> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let failed = |reason: String| PatternError { pattern: pattern.clone(), reason };
            let text = pattern.trim_start_matches('/').trim_end_matches('/');
            if text.is_empty() {
                return Err(failed("it is empty".to_owned()));
            }
            let glob = GlobBuilder::new(text)
                .literal_separator(true)
                .case_insensitive(case == Case::Folded)
                .build()
                .map_err(|error| failed(error.kind().to_string()))?;
            let whole_path = pattern.trim_end_matches('/').contains('/');
            if whole_path {
                paths.add(glob)
            } else {
                names.add(glob)
            };
        }
        let failed = |error: globset::Error| PatternError {
            pattern: error.glob().unwrap_or_default().to_owned(),
            reason: error.kind().to_string(),
        };
        Ok(Self { names: names.build().map_err(failed)?, paths: paths.build().map_err(failed)? })
    }

    fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.names.is_match(name) || self.paths.is_match(path)
    }
}

/// Everything one scan needs to know about its source.
#[derive(Debug, Clone)]
pub struct ScanRules {
    /// Which files are documents.
    pub selection: Selection,
    /// How much is looked at.
    pub bounds: Bounds,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(include: &[&str], ignore: &[&str]) -> Selection {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Selection::new(&owned(include), &owned(ignore), true).unwrap()
    }

    #[test]
    fn secrets_and_hidden_files_are_ignored_at_any_depth_and_in_any_case() {
        let selection = selection(&[], &[]);
        for path in
            [".git", ".env", "a/.env", "prod.env", "a/ID_RSA", "keys/server.PEM", "note.md~", "a/.x.swp"]
        {
            assert!(!selection.takes_file(path), "{path}");
        }
        for path in ["note.md", "a/b/environment.md", "id_rsa.md", "key"] {
            assert!(selection.takes_file(path), "{path}");
        }
        assert!(!selection.enters("a/.git"));
        assert!(selection.enters("a"));
    }

    #[test]
    fn a_pattern_with_a_slash_means_the_whole_path() {
        let selection = selection(&["*.md"], &["draft.md", "private/**", "/top.md", "archive/"]);
        assert!(selection.takes_file("a/b.md"));
        assert!(!selection.takes_file("a/b.txt"));
        assert!(!selection.takes_file("a/draft.md"));
        assert!(!selection.takes_file("private/x/y.md"));
        assert!(selection.takes_file("a/private/y.md"));
        assert!(!selection.takes_file("top.md"));
        assert!(selection.takes_file("a/top.md"));
        assert!(!selection.enters("a/archive"));
    }

    #[test]
    fn the_defaults_can_be_switched_off() {
        let selection = Selection::new(&[], &[], false).unwrap();
        assert!(selection.takes_file(".hidden.md"));
    }

    #[test]
    fn a_broken_pattern_is_named() {
        for broken in ["a[", "", "/", "{a"] {
            let error = Selection::new(&[], &[broken.to_owned()], true).unwrap_err();
            assert_eq!(error.pattern, broken);
            assert!(!error.reason.is_empty());
        }
    }
}
