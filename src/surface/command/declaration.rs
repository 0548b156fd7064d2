//! `thought declaration`: what the declarations say, what is wrong with them, and the next version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thoughtstream_domain::commit::Registered;
use thoughtstream_domain::declaration::{Declaration, DeclarationSet, bump, check_registered, diff, unheard};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, SourceId};
use thoughtstream_domain::yaml::{self, Problem, render_all};
use thoughtstream_effects::atomic;

use super::asking::{self, Gather, read};
use crate::ask::Ask;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{LoadFailure, Loaded, configured, declarations, declares, load};
use crate::out::Out;
use crate::query::sources::SourceRow;
use crate::render::{Rows, count, line};
use crate::roots;
use crate::session::Session;

/// Is what can be done with declarations.
#[derive(Debug, Subcommand)]
pub enum DeclarationCommand {
    /// Read configuration, schemas, declarations and prompts, and report everything that is wrong
    Check,
    /// List the declarations
    List,
    /// Show a declaration as it was understood, defaults filled in
    Show(IdArgs),
    /// Show what changed since this version was first enabled
    Diff(IdArgs),
    /// Write the next version into a declaration's file
    Bump(IdArgs),
}

/// Names a declaration.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// The declaration's id
    pub id: ConsumerId,
}

/// Runs a declaration command.
///
/// # Errors
/// [`Failure`] if files cannot be read or are not right.
pub fn run(command: DeclarationCommand, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        DeclarationCommand::Check => check(session, out),
        DeclarationCommand::List => list(session, out),
        DeclarationCommand::Show(IdArgs { id }) => show(&id, session, out),
        DeclarationCommand::Diff(IdArgs { id }) => changes(&id, session, out),
        DeclarationCommand::Bump(IdArgs { id }) => raise(&id, session, out),
    }
}

fn check(session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let problems = match load(&session.places) {
        Ok(loaded) => {
            let registered = registered(session)?.unwrap_or_default();
            let bound = registered.into_iter().map(|r| (r.consumer, r.fingerprint)).collect();
            let mut problems = check_registered(&loaded.set, &bound);
            let folders = roots::look(&loaded.config, &session.places.data);
            problems.extend(folders.wrong);
            if problems.is_empty() {
                let mut advice = folders.advice;
                advice.extend(unheard(&declarations(&session.places)?, &known(&loaded, session)?));
                return sound(&loaded, &advice, session, out);
            }
            problems
        }
        Err(LoadFailure::Problems(mut problems)) => {
            // The folders of a configuration that is right are looked at whatever is wrong elsewhere.
            if let Ok(config) = configured(&session.places) {
                problems.extend(roots::look(&config, &session.places.data).wrong);
            }
            problems
        }
        Err(LoadFailure::Unreadable(failure)) => return Err(failure),
    };
    report(&problems, session, out)?;
    Ok(Exit::Usage)
}

fn sound(loaded: &Loaded, advice: &[Problem], session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let enabled = loaded.set.enabled().count();
    if session.json {
        let mut said = serde_json::json!({
            "ok": true,
            "declarations": loaded.set.len(),
            "enabled": enabled,
            "folders": loaded.config.folders.len(),
        });
        if !advice.is_empty() {
            said["advice"] = serde_json::json!(advice);
        }
        out.json(&said)?;
    } else {
        let all = count(loaded.set.len() as u64, "declaration");
        let folders = count(loaded.config.folders.len() as u64, "folder");
        for one in advice {
            out.line(&one.render())?;
        }
        out.line(&format!("nothing is wrong: {all} ({enabled} enabled), watching {folders}"))?;
    }
    Ok(if advice.is_empty() { Exit::Done } else { Exit::Advice })
}

/// Returns every source that something is known of: what is configured or declared to write, and what the log has.
fn known(loaded: &Loaded, session: &Session) -> Result<BTreeSet<SourceId>, Failure> {
    let mut known = BTreeSet::from([SourceId::supervision(), SourceId::decisions()]);
    known.extend(loaded.config.folders.iter().map(|folder| folder.source.clone()));
    known.extend(loaded.config.bots.iter().map(|bot| bot.source.clone()));
    known.extend(loaded.set.iter().map(|declaration| SourceId::agent(declaration.id())));
    let rows: Option<Vec<SourceRow>> = of_log(session, Ask::Sources)?;
    known.extend(rows.into_iter().flatten().map(|row| row.source));
    Ok(known)
}

/// Shows problems: one JSON object a line, or each with its place in the text.
fn report(problems: &[Problem], session: &Session, out: &mut Out) -> Result<(), Failure> {
    if session.json {
        return Ok(problems.iter().try_for_each(|problem| out.json(problem))?);
    }
    Ok(out.text(&render_all(problems))?)
}

/// Returns what was registered before; nothing if there is no log yet.
fn registered(session: &Session) -> Result<Option<Vec<Registered>>, Failure> {
    of_log(session, Ask::Registered)
}

/// Asks the log; nothing if there is none yet.
fn of_log<T: DeserializeOwned>(session: &Session, ask: Ask) -> Result<Option<Vec<T>>, Failure> {
    if session.places.data.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let mut gather = Gather::default();
    match asking::ask(session, ask, &mut gather) {
        Ok(_) => gather.0.into_iter().map(read).collect::<Result<_, _>>().map(Some),
        Err(failure) if failure.code == asking::ABSENT => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Is a declaration as lists show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    consumer: &'a ConsumerKey,
    enabled: bool,
    description: &'a str,
    file: &'a str,
    fingerprint: Sha256Hash,
}

fn row(declaration: &Declaration) -> Row<'_> {
    Row {
        consumer: declaration.key(),
        enabled: declaration.is_enabled(),
        description: declaration.description(),
        file: declaration.file(),
        fingerprint: declaration.fingerprint(),
    }
}

fn list(session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let loaded = load(&session.places)?;
    if session.json {
        loaded.set.iter().try_for_each(|declaration| out.json(&row(declaration)))?;
        return Ok(Exit::Done);
    }
    if loaded.set.is_empty() {
        out.line("no declarations")?;
        return Ok(Exit::Done);
    }
    let mut rows = Rows::new(&["CONSUMER", "ENABLED", "FINGERPRINT", "FILE", "DESCRIPTION"]);
    for declaration in loaded.set.iter() {
        let row = row(declaration);
        rows.row(&[
            row.consumer.to_string(),
            if row.enabled { "yes" } else { "no" }.to_owned(),
            row.fingerprint.short(),
            row.file.to_owned(),
            row.description.to_owned(),
        ]);
    }
    out.text(&rows.text())?;
    Ok(Exit::Done)
}

fn find<'a>(set: &'a DeclarationSet, id: &ConsumerId) -> Result<&'a Declaration, Failure> {
    set.get(id).ok_or_else(|| {
        Failure::new(Exit::Refused, "declaration.unknown", format!("there is no declaration `{id}`"))
            .with_hint("`thought declaration list` names them")
    })
}

fn show(id: &ConsumerId, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let loaded = load(&session.places)?;
    let declaration = find(&loaded.set, id)?;
    let value = declaration.to_json();
    if session.json {
        out.json(&value)?;
        return Ok(Exit::Done);
    }
    out.line(&format!(
        "# {} in {}, fingerprint {}",
        declaration.key(),
        line(declaration.file()),
        declaration.fingerprint()
    ))?;
    for text in yaml::write(&value).lines() {
        out.line(&line(text))?;
    }
    Ok(Exit::Done)
}

fn changes(id: &ConsumerId, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let loaded = load(&session.places)?;
    let declaration = find(&loaded.set, id)?;
    let all: BTreeMap<ConsumerKey, Registered> = registered(session)?
        .unwrap_or_default()
        .into_iter()
        .filter(|registered| registered.consumer.id == *id)
        .map(|registered| (registered.consumer.clone(), registered))
        .collect();
    let Some(before) = all.get(declaration.key()).or_else(|| all.values().next_back()) else {
        if session.json {
            out.json(&serde_json::json!({ "registered": null, "changes": [] }))?;
        } else {
            out.line(&format!(
                "{} was never enabled: there is nothing to compare it with",
                declaration.key()
            ))?;
        }
        return Ok(Exit::Done);
    };
    let parse = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| {
            Failure::new(Exit::CouldNotLook, "log.damaged", "a registered declaration cannot be read")
                .because(&error)
        })
    };
    let found = diff(&parse(&before.canonical)?, &parse(&declaration.canonical())?);
    if session.json {
        out.json(&serde_json::json!({ "registered": before.consumer, "changes": found }))?;
        return Ok(Exit::Done);
    }
    for change in &found {
        let shown =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        let (old, new) = (shown(&change.old), shown(&change.new));
        out.line(&line(&format!("{}: {old} -> {new}", change.path)))?;
    }
    if found.is_empty() {
        out.line(&format!("{} is as it was registered", before.consumer))?;
    }
    Ok(Exit::Done)
}

fn raise(id: &ConsumerId, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    // Only this file is read: another file's mistake must not keep a version from rising.
    let named = declarations(&session.places)?.into_iter().find(|(_, bytes)| declares(bytes, id));
    let (name, bytes) = named.ok_or_else(|| {
        Failure::new(Exit::Refused, "declaration.unknown", format!("no file declares `{id}`"))
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let (text, version) = bump(&name, &text).map_err(LoadFailure::Problems)?;
    let path = session.places.config.join(&name);
    // A link is followed: people keep the file in a repository of their own.
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let mode = mode(&path);
    atomic::replace(&path, text.as_bytes(), mode)
        .map_err(|error| Failure::of(Exit::CouldNotLook, "declaration.write", &error))?;
    if session.json {
        out.json(&serde_json::json!({ "consumer": ConsumerKey::new(id.clone(), version), "file": name }))?;
    } else {
        out.line(&format!("{id}@{version} in {}", line(&name)))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().map_or(0o644, |metadata| metadata.permissions().mode() & 0o777)
}
