//! Reads everything a service starts from, at once: configuration, schemas, declarations and their prompts.
//!
//! Either all of it is right, or every problem of every file is reported and nothing is loaded.

use std::path::{Component, Path};

use thoughtstream_domain::declaration::{Catalog, DeclarationSet, PROMPT_BYTES_MAX, load_all};
use thoughtstream_domain::registry::{Registry, SCHEMA_BYTES_MAX};
use thoughtstream_domain::yaml::{Code, Limits, Problem, render_all};
use thoughtstream_effects::atomic;

use crate::config::{self, Config};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::places::{Places, environment};
use crate::schemas::{Named, read_at_most, read_directory};

/// A schema file registers nothing.
const SCHEMA: Code = Code::new("schema.file");

/// Is everything a service starts from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What is watched.
    pub config: Config,
    /// Which event types may be written.
    pub registry: Registry,
    /// The declarations.
    pub set: DeclarationSet,
}

/// Says why nothing was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadFailure {
    /// Files are not right; every problem of every file.
    Problems(Vec<Problem>),
    /// Files cannot be read.
    Unreadable(Failure),
}

impl From<Failure> for LoadFailure {
    fn from(failure: Failure) -> Self {
        Self::Unreadable(failure)
    }
}

impl From<LoadFailure> for Failure {
    fn from(failure: LoadFailure) -> Self {
        match failure {
            LoadFailure::Problems(problems) => Self::new(
                Exit::Usage,
                "config.problems",
                format!("nothing was loaded\n{}", render_all(&problems)),
            ),
            LoadFailure::Unreadable(failure) => failure,
        }
    }
}

/// Reads everything below the configuration directory.
///
/// # Errors
/// [`LoadFailure`] with every problem, or with what could not be read.
pub fn load(places: &Places) -> Result<Loaded, LoadFailure> {
    let mut problems = Vec::new();
    let config = keep(&mut problems, read_config(places)?);
    let schemas = read_directory(&places.config.join("schemas"), "json", SCHEMA_BYTES_MAX as u64)?;
    let registry = keep(&mut problems, read_registry(&schemas));
    // Without a person's types their declarations cannot be judged: the shipped ones alone would be.
    let catalog = Catalog::of(registry.as_ref().unwrap_or(&Registry::shipped()));
    let files = declarations(places)?;
    let prompts = |path: &str| prompt(&places.config, path);
    let set = keep(&mut problems, load_all(&files, &prompts, &catalog));
    match (config, registry, set) {
        (Some(config), Some(registry), Some(set)) if problems.is_empty() => {
            Ok(Loaded { config, registry, set })
        }
        _ => Err(LoadFailure::Problems(problems)),
    }
}

fn keep<T>(problems: &mut Vec<Problem>, read: Result<T, Vec<Problem>>) -> Option<T> {
    read.map_err(|mut found| problems.append(&mut found)).ok()
}

/// Returns the folders that the configuration watches, as far as it can be read: a copy is possible all the same.
pub(crate) fn watched(places: &Places) -> Vec<config::Folder> {
    read_config(places).ok().and_then(Result::ok).map(|config| config.folders).unwrap_or_default()
}

fn read_config(places: &Places) -> Result<Result<Config, Vec<Problem>>, Failure> {
    let file = places.config_file();
    let bytes = match file.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let name = file.display().to_string();
            let problem = Problem::of_file(&name, config::codes::UNREADABLE, "there is no configuration");
            return Ok(Err(vec![problem.with_hint("run `thought init`, or name another with --config DIR")]));
        }
        Ok(_) | Err(_) => read_at_most(&file, Limits::CONFIG.bytes_max as u64)?,
    };
    let home = environment("HOME").map(std::path::PathBuf::from);
    Ok(config::parse("config.yaml", &bytes, home.as_deref()))
}

fn read_registry(files: &[Named]) -> Result<Registry, Vec<Problem>> {
    Registry::shipped().with_custom(files).map_err(|errors| {
        let problem = |error: &thoughtstream_domain::registry::CustomError| {
            Problem::of_file(&format!("schemas/{}", error.file), SCHEMA, error.problem.clone())
        };
        errors.iter().map(problem).collect()
    })
}

/// Reads the declarations, each under its name below the configuration directory.
pub(crate) fn declarations(places: &Places) -> Result<Vec<Named>, Failure> {
    let bound = Limits::DECLARATION.bytes_max as u64;
    let dir = places.config.join("declarations");
    let mut files = read_directory(&dir, "yaml", bound)?;
    files.extend(read_directory(&dir, "yml", bound)?);
    Ok(files.into_iter().map(|(name, bytes)| (format!("declarations/{name}"), bytes)).collect())
}

/// Finds a prompt below the configuration directory; a path that leads out of it names nothing.
fn prompt(config: &Path, path: &str) -> Option<Vec<u8>> {
    let path = Path::new(path);
    if !path.components().all(|component| matches!(component, Component::Normal(_))) {
        return None;
    }
    let path = std::fs::canonicalize(config.join(path)).ok()?;
    atomic::read(&path, PROMPT_BYTES_MAX as u64 + 1).ok()
}
