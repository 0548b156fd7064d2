//! The demonstration: a folder becomes events, consumers derive from them, one is killed in the middle of a
//! settlement and comes back, and the check shows that nothing was lost or done twice.
//!
//! It runs the real service on a throw-away log made for rehearsal, in this process, and ends by itself.

mod conversation;
mod memory;
mod story;
mod tale;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thoughtstream_actors::broker::Brokers;
use thoughtstream_actors::clock::SystemClock;
use thoughtstream_actors::consumer::Facilities;
use thoughtstream_actors::killpoint::{KillAction, KillPoint, KillPoints, Trap};
use thoughtstream_actors::service::{Loaded, Service, ServiceArgs, compile};
use thoughtstream_actors::supervisor::Shutdown;
use thoughtstream_channels::filesystem::rules::{Bounds, ScanRules, Selection};
use thoughtstream_domain::declaration::{Catalog, DeclarationSet, load_all};
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::text::printable;
use thoughtstream_domain::yaml::Problem;
use thoughtstream_effects::dirs::PrivateDir;
use thoughtstream_store::Options;

use crate::command::init::data_failure;
use crate::config::{Config, Folder, Producer};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::serve::{producers, start_failure};
use crate::shipped::{FILES, SAMPLES};
use crate::{chance, rehearsal};

use tale::Tale;

/// The consumer whose actor is killed while its settlement is on the way to the log.
const ON_THE_WAY: &str = "document-structure";

/// The consumer whose actor is killed just before it hands its settlement in.
const BEFORE: &str = "document-links";

/// How long the service of a demonstration may take to stop.
const DRAIN: Duration = Duration::from_secs(20);

/// Is what a demonstration works on.
struct Stage {
    /// Everything of it; removed at the end.
    base: PathBuf,
    /// The folder that is watched.
    folder: PathBuf,
    /// The throw-away log.
    data: PathBuf,
}

/// Runs the demonstration on `folder`, or on sample notes of our own.
///
/// # Errors
/// [`Failure`] if the folder cannot be watched, or something did not end as it must.
pub fn run(folder: Option<&Path>, keep: bool, json: bool, out: &mut Out) -> Result<Exit, Failure> {
    let stage = set(folder)?;
    on(&stage, keep, Tale::new(out, json), async |tale| play(&stage, tale).await)
}

/// Runs the demonstration of a conversation.
///
/// # Errors
/// [`Failure`] if no worker runs here, or something did not end as it must.
pub fn converse(keep: bool, json: bool, out: &mut Out) -> Result<Exit, Failure> {
    let stage = conversation::set()?;
    on(&stage, keep, Tale::new(out, json), async |tale| conversation::play(&stage, keep, tale).await)
}

/// Plays something on a stage, and removes the stage or says where it is kept.
fn on(
    stage: &Stage,
    keep: bool,
    mut tale: Tale<'_>,
    play: impl AsyncFnOnce(&mut Tale<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::CouldNotLook, "service.threads", "cannot start threads").because(&error)
    })?;
    let played = runtime.block_on(play(&mut tale));
    runtime.shutdown_timeout(Duration::from_secs(1));
    if keep {
        tale.line(&format!("\nkept: {}", printable(&stage.base.display().to_string())))?;
        tale.fact("kept", &stage.base)?;
    } else if let Err(error) = std::fs::remove_dir_all(&stage.base) {
        tale.remark(&format!(
            "cannot remove `{}`: {}",
            printable(&stage.base.display().to_string()),
            error.kind()
        ));
    }
    let exit = played?;
    tale.close()?;
    Ok(exit)
}

/// Makes the throw-away log, and the sample notes if no folder is named.
fn set(folder: Option<&Path>) -> Result<Stage, Failure> {
    let key = chance::key("demo")?;
    let base = std::env::temp_dir().join(format!("thoughtstream-{key}"));
    PrivateDir::create(&base).map_err(|error| data_failure(&error))?;
    let data = base.join("data");
    let folder = match folder {
        Some(folder) => std::fs::canonicalize(folder).map_err(|error| {
            let what = format!("cannot look into `{}`", folder.display());
            Failure::new(Exit::CouldNotLook, "demo.folder", what).because(&error)
        })?,
        None => samples(&base.join("notes"))?,
    };
    rehearsal::create(&data)?;
    Ok(Stage { base, folder, data })
}

fn samples(folder: &Path) -> Result<PathBuf, Failure> {
    for sample in SAMPLES {
        let path = folder.join(sample.path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, sample.text)).map_err(
            |error| {
                Failure::new(Exit::CouldNotLook, "demo.samples", "cannot write the sample notes")
                    .because(&error)
            },
        )?;
    }
    Ok(folder.to_owned())
}

async fn play(stage: &Stage, tale: &mut Tale<'_>) -> Result<Exit, Failure> {
    let points = KillPoints::for_rehearsal();
    for (point, consumer) in [(KillPoint::SettleInside, ON_THE_WAY), (KillPoint::SettleBefore, BEFORE)] {
        let actor = format!("{}/consumers/{consumer}", thoughtstream_actors::service::ROOT);
        let trap = Trap::new(point, KillAction::KillActor).of(actor);
        points.arm(trap).map_err(|error| Failure::of(Exit::Bug, "demo.trap", &error))?;
    }
    let service = Service::start(arguments(stage, Arc::clone(&points))?).await;
    let service = service.map_err(|error| start_failure(&error))?;
    let told = tokio::select! {
        told = story::tell(&service, stage, tale) => told,
        // What was made is removed all the same.
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Refused, "demo.interrupted", "interrupted")),
    };
    service.stop();
    tokio::time::timeout(DRAIN, service.ended()).await.ok();
    told
}

fn arguments(stage: &Stage, points: Arc<KillPoints>) -> Result<ServiceArgs, Failure> {
    let set = declarations()?;
    let registry = Arc::new(Registry::shipped());
    let config = Config { folders: vec![watched(stage)?], ..Config::default() };
    Ok(ServiceArgs {
        producers: producers(&config, &stage.data),
        data: stage.data.clone(),
        disk: None,
        options: Options::default(),
        load: Arc::new(move || Ok(Loaded { declarations: set.clone(), registry: Arc::clone(&registry) })),
        compile: Arc::new(|set: &DeclarationSet| compile(set, &Facilities::default())),
        brokers: Brokers::default(),
        paused: false,
        drain: Shutdown::STOP_WITHIN,
        points,
        clock: Arc::new(SystemClock),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        support: Vec::new(),
        extra: Box::new(|_| Vec::new()),
    })
}

fn watched(stage: &Stage) -> Result<Folder, Failure> {
    let selection = Selection::new(&[], &[], true);
    let selection = selection.map_err(|error| Failure::of(Exit::Bug, "demo.selection", &error))?;
    let source =
        SourceId::parse("filesystem:demo").map_err(|error| Failure::of(Exit::Bug, "demo.source", &error))?;
    let rules = ScanRules { selection, bounds: Bounds::default() };
    Ok(Folder {
        source,
        root: stage.folder.clone(),
        place: Problem::of_file("config.yaml", crate::config::codes::ROOT, ""),
        rules,
        patterns: Default::default(),
        privacy: Privacy::Private,
        producer: Producer::Here,
    })
}

/// Loads the declarations that ship with the program.
fn declarations() -> Result<DeclarationSet, Failure> {
    let shipped = |dir: &'static str| FILES.iter().filter(move |file| file.path.starts_with(dir));
    let files: Vec<(String, Vec<u8>)> =
        shipped("declarations/").map(|file| (file.path.to_owned(), file.text.as_bytes().to_vec())).collect();
    let prompt = |path: &str| {
        shipped("prompts/").find(|file| file.path == path).map(|file| file.text.as_bytes().to_vec())
    };
    load_all(&files, &prompt, &Catalog::of(&Registry::shipped())).map_err(|problems: Vec<Problem>| {
        let lines = thoughtstream_domain::yaml::render_all(&problems);
        Failure::new(Exit::Bug, "demo.declarations", "the shipped declarations").with_lines(&lines)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_declarations_load_and_those_that_are_killed_are_among_them() {
        let set = declarations().unwrap();
        for id in [ON_THE_WAY, BEFORE] {
            assert!(set.enabled().any(|declaration| declaration.id().as_str() == id), "{id}");
        }
    }
}
