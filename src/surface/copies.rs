//! Copies of the log: a backup, an export, and a new log made from either.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thoughtstream_effects::atomic;
use thoughtstream_store::backup::{BackupError, back_up, first_above_public};
use thoughtstream_store::export::{ExportError, export};
use thoughtstream_store::{Reader, RowError};

use crate::apart::check_copy;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::places::Places;
use crate::socket::Progress;

/// Is a form of copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// A file of this program's own, verified, that a log is restored from.
    Backup,
    /// Lines of JSON for other programs and for good.
    Export,
}

/// Is a copy that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// The file.
    pub path: PathBuf,
    /// How many events it holds.
    pub events: u64,
    /// The head digest of a backup: `thought verify --from` shows that a log extends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// Copies the log into a new file that only its owner may read.
///
/// # Errors
/// [`Failure`] if something in it is above public-source and `acknowledged` is not said, or the file is
/// where no copy may be, or cannot be written. An incomplete copy is removed.
pub fn copy(
    reader: &Reader,
    places: &Places,
    form: Form,
    path: &Path,
    acknowledged: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied, Failure> {
    check_copy(path, places)?;
    if !acknowledged {
        refuse_above_public(reader)?;
    }
    let mut told = |done: u64, total: u64| progress(Progress { done, total });
    match form {
        Form::Backup => {
            let report = back_up(reader, path, &mut told).map_err(|error| backup_failure(&error))?;
            Ok(Copied { path: path.to_owned(), events: report.events, head: Some(report.head.to_string()) })
        }
        Form::Export => {
            let file = atomic::create_empty(path, 0o600)
                .map_err(|error| Failure::of(Exit::CouldNotLook, "export.file", &error))?;
            let written = write_lines(reader, &file, &mut told);
            if written.is_err() {
                // Without its end line it is no export, and nothing is gained by keeping it.
                atomic::remove(path).ok();
            }
            Ok(Copied { path: path.to_owned(), events: written?, head: None })
        }
    }
}

fn write_lines(
    reader: &Reader,
    file: &std::fs::File,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, Failure> {
    let mut out = BufWriter::new(file);
    let exported = export(reader, &mut out, progress).map_err(|error| export_failure(&error))?;
    let synced = out.flush().and_then(|()| file.sync_all());
    synced.map_err(|error| {
        Failure::new(Exit::CouldNotLook, "export.write", "cannot write the export").because(&error)
    })?;
    Ok(exported.events)
}

fn refuse_above_public(reader: &Reader) -> Result<(), Failure> {
    match first_above_public(reader).map_err(|error: RowError| Failure::from(error))? {
        None => Ok(()),
        Some(event) => {
            let what = format!("{} is {}, and a copy takes it out of this log", event.id, event.privacy);
            Err(Failure::new(Exit::Refused, "copy.sensitive", what)
                .with_hint("say --acknowledge-sensitive if that is meant"))
        }
    }
}

fn backup_failure(error: &BackupError) -> Failure {
    match error {
        BackupError::NotSound(report) => {
            let failure = Failure::of(Exit::Refused, "backup.damaged", error);
            match report.findings.first() {
                Some(first) => failure.with_hint(format!("first: {}: {}", first.place, first.message)),
                None => failure,
            }
        }
        BackupError::Overtaken => {
            Failure::of(Exit::Refused, "backup.overtaken", error).with_hint("run it again a little later")
        }
        BackupError::Target(_)
        | BackupError::Read(_)
        | BackupError::Write { .. }
        | BackupError::ReadBack(_) => Failure::of(Exit::CouldNotLook, "backup.write", error),
    }
}

fn export_failure(error: &ExportError) -> Failure {
    Failure::of(Exit::CouldNotLook, "export.write", error)
}
