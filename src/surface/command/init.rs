//! `thought init`: a configuration to start from and a private data directory.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use thoughtstream_domain::text::printable;
use thoughtstream_domain::yaml::Limits;
use thoughtstream_effects::atomic::{self, WriteError};
use thoughtstream_effects::dirs::{DirError, PrivateDir};

use crate::config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::places::environment;
use crate::session::Session;
use crate::shipped::{self, Shipped};
use crate::submit::check_place;

/// Takes nothing but the places.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Watch this folder as `filesystem:notes`
    #[arg(long, value_name = "DIR")]
    pub notes: Option<PathBuf>,
}

/// Says what became of one file or directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    path: String,
    state: &'static str,
    /// What a person may want to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// Writes what is missing, and what editors check by anew; a person's file is never touched.
///
/// # Errors
/// [`Failure`] naming the place that could not be made or written.
pub fn run(args: &InitArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let notes = args.notes.as_deref().map(folder).transpose()?;
    check_data(&session.places.data)?;
    let mut written = Vec::new();
    let config = &session.places.config;
    for below in ["declarations", "prompts", "schemas"] {
        let dir = config.join(below);
        std::fs::create_dir_all(&dir).map_err(|error| {
            Failure::new(Exit::CouldNotLook, "init.directory", format!("cannot create `{}`", dir.display()))
                .because(&error)
        })?;
    }
    let text = shipped::config(notes.as_deref())?;
    let mut main = place(&session.places.config_file(), text.as_bytes(), 0o644)?;
    if let Some(notes) = notes.filter(|notes| main.state == "kept" && !is_watched(session, notes)) {
        let dir = printable(&notes.display().to_string());
        main.advice = Some(format!("it was kept and does not watch {dir}: add the folder to its `sources`"));
    }
    written.push(main);
    for file in shipped::FILES {
        written.push(place(&config.join(file.path), file.text.as_bytes(), 0o644)?);
    }
    for file in shipped::EDITOR_SCHEMAS {
        written.push(renew(&config.join(file.path), file.text.as_bytes())?);
    }
    written.push(memory(config)?);
    written.push(data_directory(&session.places.data)?);
    show(&written, session, out)?;
    Ok(if written.iter().any(|one| one.advice.is_some()) { Exit::Advice } else { Exit::Done })
}

/// Returns the absolute path of a folder that is there.
fn folder(dir: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(dir).map_err(|error| {
        Failure::new(Exit::Usage, "init.notes", "the folder's path is not usable").because(&error)
    })?;
    let refused = |why: &str| {
        let what = format!("cannot watch `{}`: {why}", printable(&path.display().to_string()));
        Failure::new(Exit::Usage, "init.notes", what)
    };
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err(refused("it is not a directory")),
        Err(error) => Err(refused("it cannot be looked at").because(&error)),
    }
}

/// Says whether the configuration that is there watches a folder; one that cannot be read watches nothing.
fn is_watched(session: &Session, notes: &Path) -> bool {
    let Ok(bytes) = atomic::read(&session.places.config_file(), Limits::CONFIG.bytes_max as u64) else {
        return false;
    };
    let home = environment("HOME").map(PathBuf::from);
    let Ok(config) = config::parse("config.yaml", &bytes, home.as_deref()) else { return false };
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    config.folders.iter().any(|folder| real(&folder.root) == real(notes))
}

fn place(path: &Path, bytes: &[u8], mode: u32) -> Result<Written, Failure> {
    let state = match atomic::create(path, bytes, mode) {
        Ok(()) => "written",
        Err(WriteError::Exists { .. }) => "kept",
        Err(error) => return Err(Failure::of(Exit::CouldNotLook, "init.write", &error)),
    };
    Ok(Written { path: path.display().to_string(), state, advice: None })
}

/// Writes what is the program's own, so that it is that of this program.
fn renew(path: &Path, bytes: &[u8]) -> Result<Written, Failure> {
    let written = place(path, bytes, 0o644)?;
    let same = || atomic::read(path, bytes.len() as u64).is_ok_and(|found| found == bytes);
    if written.state != "kept" || same() {
        return Ok(written);
    }
    let replaced = atomic::replace(path, bytes, 0o644);
    replaced.map_err(|error| Failure::of(Exit::CouldNotLook, "init.write", &error))?;
    Ok(Written { state: "renewed", ..written })
}

/// Writes the first page of a bot's memory into a folder that can be watched.
fn memory(config: &Path) -> Result<Written, Failure> {
    let Shipped { path, text } = shipped::MEMORY;
    let path = config.join(path);
    let dir = path.parent().unwrap_or(config);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| {
        Failure::new(Exit::CouldNotLook, "init.directory", format!("cannot create `{}`", dir.display()))
            .because(&error)
    })?;
    place(&path, text.as_bytes(), 0o600)
}

/// Refuses a data directory that could not be used, before anything is written.
fn check_data(path: &Path) -> Result<(), Failure> {
    match PrivateDir::open(path) {
        Ok(_) => check_place(path),
        // Made below, or named there.
        Err(_) => Ok(()),
    }
}

fn data_directory(path: &Path) -> Result<Written, Failure> {
    let state = if path.symlink_metadata().is_ok() { "kept" } else { "created" };
    PrivateDir::create(path).map_err(|error| data_failure(&error))?;
    Ok(Written { path: path.display().to_string(), state, advice: None })
}

/// Says why the data directory cannot be used.
pub(crate) fn data_failure(error: &DirError) -> Failure {
    let failure = Failure::of(Exit::CouldNotLook, "data.directory", error);
    match error {
        DirError::Missing { .. } => failure.with_hint("run `thought init`, or name another with --data DIR"),
        DirError::Link { .. }
        | DirError::NotADirectory { .. }
        | DirError::Owner { .. }
        | DirError::Open { .. }
        | DirError::TooLong { .. }
        | DirError::Io { .. } => failure,
    }
}

fn show(written: &[Written], session: &Session, out: &mut Out) -> Result<(), Failure> {
    for one in written {
        if session.json {
            out.json(one)?;
        } else {
            out.line(&format!("{:8} {}", one.state, printable(&one.path)))?;
            if let Some(advice) = &one.advice {
                out.line(&format!("         {advice}"))?;
            }
        }
    }
    if !session.json {
        out.line("")?;
        out.line("next: thought declaration check, then thought serve")?;
    }
    Ok(())
}
