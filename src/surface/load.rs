//! Reads everything a service starts from, at once: configuration, schemas, declarations and their prompts.
//!
//! Either all of it is right, or every problem of every file is reported and nothing is loaded.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use thoughtstream_actors::materializer::ContextRoot;
use thoughtstream_domain::declaration::{
    Catalog, ContextStrategy, DeclarationSet, PROMPT_BYTES_MAX, ProviderInfo, load_all,
};
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::provider::Profile;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::yaml::{Limits, Problem, render_all};

use crate::activate::staged::Staged;
use crate::config::{self, Config};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files::{Files, Listing, Named};
use crate::places::{Places, environment};
use crate::schemas;

/// The main file, below the configuration directory.
const CONFIG: &str = "config.yaml";

/// Where the declarations are, below the configuration directory.
const DECLARATIONS: &str = "declarations";

/// Is everything a service starts from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What is watched.
    pub config: Config,
    /// Which event types may be written.
    pub registry: Arc<Registry>,
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
            LoadFailure::Problems(problems) => {
                Self::new(Exit::Usage, "config.problems", "nothing was loaded")
                    .with_lines(&render_all(&problems))
            }
            LoadFailure::Unreadable(failure) => failure,
        }
    }
}

/// Reads everything below the configuration directory.
///
/// # Errors
/// [`LoadFailure`] with every problem, or with what could not be read.
pub fn load(places: &Places) -> Result<Loaded, LoadFailure> {
    load_over(places, None)
}

/// Reads everything below the configuration directory, with a declaration and prompts that are not in place yet.
pub(crate) fn load_over(places: &Places, staged: Option<&Staged>) -> Result<Loaded, LoadFailure> {
    let Some(files) = Files::open(&places.config)? else {
        let name = places.config.display().to_string();
        return Err(LoadFailure::Problems(vec![absent(&name, "there is no configuration directory")]));
    };
    let mut problems = Vec::new();
    let config = keep(&mut problems, read_config(places, &files)?);
    let registry = keep(&mut problems, schemas::read(&files)?);
    // Without a person's types their declarations cannot be judged: the shipped ones alone would be.
    let mut catalog = Catalog::of(registry.as_ref().unwrap_or(&Registry::shipped()));
    catalog.providers = config.as_ref().map(profiles);
    let mut listing = listing(&files)?.unwrap_or_else(|| {
        // Consumers that are declared nowhere would stop: a directory that is not there says nothing.
        let name = places.config.join(DECLARATIONS).display().to_string();
        problems.push(absent(&name, "there is no directory of declarations"));
        Listing::default()
    });
    problems.append(&mut listing.problems);
    if let Some(staged) = staged {
        staged.put_over(&mut listing);
    }
    let prompts = Prompts { files: &files, staged, problems: RefCell::new(Ok(Vec::new())) };
    let set = keep(&mut problems, load_all(&listing.files, &|path| prompts.find(path), &catalog));
    problems.append(&mut prompts.problems.into_inner()?);
    if let (Some(config), Some(set)) = (&config, &set) {
        problems.extend(repliers(config, set));
        problems.extend(callers(config, set));
    }
    match (config, registry, set) {
        (Some(config), Some(registry), Some(set)) if problems.is_empty() => {
            Ok(Loaded { config, registry: Arc::new(registry), set })
        }
        _ => Err(LoadFailure::Problems(problems)),
    }
}

/// Returns the provider profiles, as far as declarations name them.
fn profiles(config: &Config) -> BTreeMap<String, ProviderInfo> {
    let info =
        |profile: &Profile| (profile.name.to_string(), ProviderInfo { models: profile.models.clone() });
    config.providers.iter().map(info).collect()
}

/// Returns what is wrong with who is to answer a bot's messages: a name that is nobody's would be silence for ever.
fn repliers(config: &Config, set: &DeclarationSet) -> Vec<Problem> {
    let mut taken = BTreeMap::new();
    let mut problems = Vec::new();
    for bot in &config.bots {
        let Some(id) = &bot.routes.direct else { continue };
        let answers = set.get(id).is_some_and(|declaration| {
            let strategy = declaration.runner().model().map(|model| &model.strategy);
            matches!(strategy, Some(ContextStrategy::Conversation(_)))
                && declaration.subscription().includes(&bot.source)
        });
        let why = match taken.insert(id, &bot.source) {
            Some(other) => format!("`{id}` answers {other} already"),
            None if answers => continue,
            None => format!("`{id}` is no declaration of a conversation that takes its messages"),
        };
        let message = format!("`directReplies` of {}: {why}", bot.source);
        let hint =
            "name a declaration with `strategy: telegram-conversation` and this bot among its `sources`";
        problems.push(Problem::of_file(CONFIG, config::codes::DIRECT_REPLIES, message).with_hint(hint));
    }
    problems
}

/// Returns what is wrong with whom tools are offered to: a model that is not named for them would never be asked.
fn callers(config: &Config, set: &DeclarationSet) -> Vec<Problem> {
    let mut problems = Vec::new();
    for declaration in set.enabled() {
        let Some(runner) = declaration.runner().model().filter(|runner| !runner.proposals.is_empty()) else {
            continue;
        };
        let profile = config.providers.iter().find(|profile| profile.name.as_str() == runner.provider);
        if profile.is_none_or(|profile| profile.tool_models.contains(&runner.model)) {
            continue;
        }
        let message = format!(
            "`{}` has proposals, and `{}` does not offer tools to `{}`",
            declaration.id(),
            runner.provider,
            runner.model
        );
        let hint =
            "name the model among the provider's `toolModels`, if its server makes calls of what it writes";
        problems.push(Problem::of_file(CONFIG, config::codes::TOOLS, message).with_hint(hint));
    }
    problems
}

fn keep<T>(problems: &mut Vec<Problem>, read: Result<T, Vec<Problem>>) -> Option<T> {
    read.map_err(|mut found| problems.append(&mut found)).ok()
}

/// Returns the folder of the memory document that a service would be started with, if there is one; nothing if the
/// configuration cannot be read.
pub(crate) fn context_root(places: &Places) -> Option<Option<ContextRoot>> {
    let files = Files::open(&places.config).ok()?;
    let Some(files) = files else { return Some(None) };
    let config = read_config(places, &files).ok()?.ok()?;
    Some(ContextRoot::among(&crate::serve::producers(&config, &places.data)))
}

/// Returns the folders that the configuration watches, as far as it can be read: a copy is possible all the same.
pub(crate) fn watched(places: &Places) -> Vec<config::Folder> {
    let Ok(Some(files)) = Files::open(&places.config) else { return Vec::new() };
    read_config(places, &files).ok().and_then(Result::ok).map(|config| config.folders).unwrap_or_default()
}

/// Reads what the configuration says, and no other file of it.
///
/// # Errors
/// [`LoadFailure`] with every problem of it.
pub(crate) fn configured(places: &Places) -> Result<Config, LoadFailure> {
    let Some(files) = Files::open(&places.config)? else {
        let name = places.config.display().to_string();
        return Err(LoadFailure::Problems(vec![absent(&name, "there is no configuration directory")]));
    };
    read_config(places, &files)?.map_err(LoadFailure::Problems)
}

fn read_config(places: &Places, files: &Files) -> Result<Result<Config, Vec<Problem>>, Failure> {
    let home = environment("HOME").map(std::path::PathBuf::from);
    Ok(match files.read(Path::new(CONFIG), CONFIG, Limits::CONFIG.bytes_max)? {
        Ok(Some(bytes)) => config::parse(CONFIG, &bytes, home.as_deref()),
        Ok(None) => {
            let name = places.config_file().display().to_string();
            Err(vec![absent(&name, "there is no configuration")])
        }
        Err(problem) => Err(vec![problem]),
    })
}

fn absent(name: &str, message: &str) -> Problem {
    Problem::of_file(name, config::codes::UNREADABLE, message)
        .with_hint("run `thought init`, or name another configuration with --config DIR")
}

/// Says whether a declaration's file is that of a consumer.
pub(crate) fn declares(bytes: &[u8], id: &ConsumerId) -> bool {
    text_at(bytes, "id").as_deref() == Some(id.as_str())
}

/// Returns the prompt that a declaration's file names.
pub(crate) fn prompt_of(bytes: &[u8]) -> Option<String> {
    text_at(bytes, "prompt")
}

/// Returns the text under a key of a declaration's file, which need not be without a fault otherwise.
fn text_at(bytes: &[u8], key: &str) -> Option<String> {
    let reading =
        thoughtstream_domain::yaml::read("", bytes, thoughtstream_domain::yaml::Limits::DECLARATION);
    let root = reading.root.as_ref();
    root.and_then(|root| root.get(key)).and_then(|node| node.text()).map(ToOwned::to_owned)
}

pub(crate) fn listing(files: &Files) -> Result<Option<Listing>, Failure> {
    files.directory(DECLARATIONS, &["yaml", "yml"], Limits::DECLARATION.bytes_max)
}

/// Reads the declarations that can be read, each under its name below the configuration directory.
pub(crate) fn declarations(places: &Places) -> Result<Vec<Named>, Failure> {
    let Some(files) = Files::open(&places.config)? else { return Ok(Vec::new()) };
    Ok(listing(&files)?.unwrap_or_default().files)
}

/// Finds prompts, and keeps what is wrong with the files of those that cannot be read.
struct Prompts<'a> {
    files: &'a Files,
    staged: Option<&'a Staged>,
    problems: RefCell<Result<Vec<Problem>, Failure>>,
}

impl Prompts<'_> {
    /// Finds a prompt below the configuration directory; a path that leads out of it names nothing.
    fn find(&self, path: &str) -> Option<Vec<u8>> {
        let below = Path::new(path);
        if !below.components().all(|component| matches!(component, Component::Normal(_))) {
            return None;
        }
        if let Some(staged) = self.staged.and_then(|staged| staged.prompts.get(path)) {
            return Some(staged.clone());
        }
        let mut problems = self.problems.borrow_mut();
        match self.files.read(below, path, PROMPT_BYTES_MAX) {
            Ok(Ok(bytes)) => return bytes,
            Ok(Err(problem)) => {
                // Several declarations may name one prompt.
                if let Ok(all) = problems.as_mut()
                    && !all.contains(&problem)
                {
                    all.push(problem);
                }
            }
            Err(failure) => *problems = Err(failure),
        }
        // The file's own problem says enough, and nothing is loaded while there is one.
        Some(b"-".to_vec())
    }
}
