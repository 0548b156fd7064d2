//! What can be known of the watched folders before anything is started.

use std::path::{Component, Path};

use thoughtstream_channels::filesystem::root::{Root, RootError};
use thoughtstream_domain::text::printable;
use thoughtstream_domain::yaml::Problem;

use crate::config::{Config, Folder};

/// Is what was found of the folders, each at its place in the configuration.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What no look at a folder will get over.
    pub(crate) wrong: Vec<Problem>,
    /// What may be otherwise when the service looks: a disk that is not mounted, rights of another user.
    pub(crate) advice: Vec<Problem>,
}

/// Looks at the folders as a start would; `data` is the service's data directory, which need not be there yet.
pub(crate) fn look(config: &Config, data: &Path) -> Found {
    let mut found = Found::default();
    for folder in &config.folders {
        match Root::open(&folder.root, data) {
            Ok(_) if !data.exists() && lie_together(&folder.root, data) => {
                let hint = "watch a folder beside it, or name another data directory";
                found.wrong.push(said(
                    folder,
                    "the root and the data directory lie one inside the other",
                    hint,
                ));
            }
            Ok(_) => {}
            Err(error) => judge(folder, &error, &mut found),
        }
    }
    found
}

fn judge(folder: &Folder, error: &RootError, found: &mut Found) {
    let message = printable(&error.to_string());
    match error {
        RootError::Missing { path }
            if path.components().any(|part| part == Component::Normal("~".as_ref())) =>
        {
            let hint =
                "`~` stands for your home at the beginning only: begin with `~/`, or write the whole path";
            found.wrong.push(said(folder, &message, hint));
        }
        RootError::Missing { .. } => {
            let hint =
                "make it, or mend `root`: until it is there, its source waits and says so in the inbox";
            found.advice.push(said(folder, &message, hint));
        }
        RootError::Link { .. } | RootError::NotADirectory { .. } => {
            found.wrong.push(said(folder, &message, "name the directory itself"));
        }
        RootError::ContainsData { .. } | RootError::InsideData { .. } => {
            let hint = "watch a folder beside it, or name another data directory";
            found.wrong.push(said(folder, &message, hint));
        }
        RootError::Io { source, .. } => {
            let message = format!("{message}: {source}");
            found.advice.push(said(folder, &message, "let the user that looks at it read it"));
        }
    }
}

fn said(folder: &Folder, message: &str, hint: &str) -> Problem {
    folder.place.clone().with_message(message).with_hint(hint)
}

/// Compares paths, for a data directory that is not there yet.
fn lie_together(root: &Path, data: &Path) -> bool {
    data.starts_with(root) || root.starts_with(data)
}
