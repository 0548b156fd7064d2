//! `thought backup`, `restore`, `export` and `import`: copies of the log, and logs made from copies.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use thoughtstream_effects::dirs::PrivateDir;
use thoughtstream_store::backup::{RestoreError, restore};
use thoughtstream_store::disk::DiskError;
use thoughtstream_store::export::{ImportError, import};
use thoughtstream_store::verify::Report;
use thoughtstream_store::{CreateError, OpenError, Options};

use super::asking::{open_failure, open_to_read, read};
use super::init::data_failure;
use super::verify::Reported;
use crate::apart::check_new_log;
use crate::ask::{Operate, Operated};
use crate::chance;
use crate::client::{self, Reached};
use crate::copies::{self, Copied, Form};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::progress::Bar;
use crate::render::{count, line};
use crate::session::Session;
use crate::socket::Door;

/// Says where a copy goes.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// The new file; it must not exist
    pub file: PathBuf,
    /// That what is above public-source may leave the log
    #[arg(long)]
    pub acknowledge_sensitive: bool,
}

/// Names the copy that a log is made from.
#[derive(Debug, Args)]
pub struct FromArgs {
    /// The file
    pub file: PathBuf,
}

/// Makes a copy; by the service if one runs, while it is in use.
///
/// # Errors
/// [`Failure`] if it cannot be made; nothing incomplete is left.
pub fn copy(form: Form, args: &CopyArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let path = absolute(&args.file)?;
    let acknowledge_sensitive = args.acknowledge_sensitive;
    let bar = Bar::new(word(form), "events");
    let copied: Copied = match client::reach_to_read(session, Door::Operator)? {
        Reached::Service(mut connection) => {
            let mut reported = Reported { bar, value: Value::Null };
            let request = Operated::Operate(Operate::Copy { form, path, acknowledge_sensitive });
            connection.ask(&request, &mut reported)?;
            reported.bar.done();
            read(reported.value)?
        }
        Reached::Alone(_visit) => {
            let reader = open_to_read(session)?;
            let mut told = |at| bar.at(at);
            let places = &session.places;
            let copied = copies::copy(&reader, places, form, &path, acknowledge_sensitive, &mut told)?;
            bar.done();
            copied
        }
    };
    if session.json {
        out.json(&copied)?;
    } else {
        out.line(&format!(
            "{} in {}",
            count(copied.events, "event"),
            line(&copied.path.display().to_string())
        ))?;
        if let Some(head) = &copied.head {
            out.line(&format!("head {}", line(head)))?;
        }
    }
    Ok(Exit::Done)
}

const fn word(form: Form) -> &'static str {
    match form {
        Form::Backup => "backing up",
        Form::Export => "exporting",
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| {
        Failure::new(Exit::Usage, "copy.path", "the file's path is not usable").because(&error)
    })
}

/// Makes a new log from a backup, in a data directory that has none.
///
/// # Errors
/// [`Failure`] if the backup does not verify, or there is a log already.
pub fn restored(args: &FromArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let mark = chance::bytes()?;
    let report = new_log(session, || {
        let made = restore(&args.file, &session.places.data, mark, session.now(), Options::default());
        made.map_err(|error| restore_failure(&error))
    })?;
    show(&report, session, out)
}

/// Makes a new log from an export, in a data directory that has none.
///
/// # Errors
/// [`Failure`] naming the line that is wrong, or that there is a log already.
pub fn imported(args: &FromArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let file = std::fs::File::open(&args.file).map_err(|error| {
        Failure::new(Exit::CouldNotLook, "import.file", format!("cannot open `{}`", args.file.display()))
            .because(&error)
    })?;
    let mark = chance::bytes()?;
    let mut lines = BufReader::new(file);
    let report = new_log(session, || {
        let made = import(&mut lines, &session.places.data, mark, session.now(), Options::default());
        made.map_err(|error| import_failure(&error))
    })?;
    show(&report, session, out)
}

/// Makes a new log in a data directory that this command owns meanwhile; if that fails, whatever it created
/// for it is gone again.
fn new_log(session: &Session, make: impl FnOnce() -> Result<Report, Failure>) -> Result<Report, Failure> {
    check_new_log(&session.places)?;
    let data = &session.places.data;
    let missing: Vec<&Path> =
        data.ancestors().take_while(|above| above.symlink_metadata().is_err()).collect();
    let lock = alone(session);
    let made = match &lock {
        Ok(_) => make(),
        Err(failure) => Err(failure.clone()),
    };
    if made.is_err() && !missing.is_empty() {
        // The lock's file goes while it is held, so nobody else can own a directory that is on its way out.
        std::fs::remove_file(data.join(format!("{}.lock", client::LOCK))).ok();
        drop(lock);
        // Removes empty ones only: what somebody else put there meanwhile stays.
        for directory in missing {
            std::fs::remove_dir(directory).ok();
        }
    }
    made
}

/// Takes the lock of a data directory, which is created if needed and must not be in use.
fn alone(session: &Session) -> Result<thoughtstream_effects::lock::OwnerLock, Failure> {
    PrivateDir::create(&session.places.data).map_err(|error| data_failure(&error))?;
    match client::reach(session, Door::Ask)? {
        Reached::Alone(lock) => Ok(lock),
        Reached::Service(connection) => {
            let what = format!("a service runs on this log as process {}", connection.greeting().pid);
            Err(Failure::new(Exit::Refused, "copy.in-use", what)
                .with_hint("name a directory of its own for the new log: --data DIR"))
        }
    }
}

fn show(report: &Report, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    if session.json {
        out.json(report)?;
    } else {
        out.line(&format!(
            "{}, {}; every consumer is paused, and nothing that was due is sent or written",
            count(report.events, "event"),
            count(report.runs, "run")
        ))?;
        let inbox = session.address.command("thought inbox");
        out.line(&format!("next: {inbox}, which names the command that lets each go on"))?;
    }
    Ok(Exit::Done)
}

fn not_sound(code: &str, error: &dyn std::error::Error, report: &Report) -> Failure {
    let failure = Failure::of(Exit::Refused, code, error);
    match report.findings.first() {
        Some(first) => failure.with_hint(format!("first: {}: {}", first.place, first.message)),
        None => failure,
    }
}

fn restore_failure(error: &RestoreError) -> Failure {
    match error {
        RestoreError::Backup(error) => {
            let failure = open_failure(error);
            if let OpenError::Disk(DiskError::TooOpen { .. }) = error {
                return failure;
            }
            failure.with_hint("this file is no backup that can be read; nothing was made from it")
        }
        RestoreError::Read(_) => Failure::of(Exit::CouldNotLook, "restore.read", error),
        RestoreError::NotSound(report) => not_sound("restore.damaged", error, report),
        RestoreError::Create(error) => create_failure(error),
    }
}

fn import_failure(error: &ImportError) -> Failure {
    match error {
        ImportError::Create(error) => create_failure(error),
        ImportError::NotSound(report) => not_sound("import.damaged", error, report),
        ImportError::Read(_) => Failure::of(Exit::CouldNotLook, "import.read", error),
        ImportError::Line { .. } => Failure::of(Exit::Refused, "import.line", error),
    }
}

fn create_failure(error: &CreateError) -> Failure {
    let exit = match error {
        CreateError::Exists { .. } => Exit::Refused,
        CreateError::Disk(_) | CreateError::Write { .. } => Exit::CouldNotLook,
    };
    let failure = Failure::of(exit, "store.create", error);
    match error {
        CreateError::Exists { .. } => {
            failure.with_hint("a copy never goes into a log: name another --data DIR")
        }
        CreateError::Disk(_) | CreateError::Write { .. } => failure,
    }
}
