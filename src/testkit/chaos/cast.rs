//! Who plays: consumers of every shape that a declaration can have, with runners that keep count.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use thoughtstream_actors::consumer::{ConsumerSpec, Facilities, Work};
use thoughtstream_actors::runner::{RunFailure, Runner};
use thoughtstream_actors::service::{Compile, Load, Loaded};
use thoughtstream_domain::declaration::{Catalog, DeclarationSet, TransformInfo, load_all};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, DocumentId, EventId, SourceId, TypeName};
use thoughtstream_domain::lifecycle::Output;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::note::Note;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::transform::links::DocumentLinks;
use thoughtstream_domain::transform::structure::DocumentStructure;
use thoughtstream_domain::transform::{self, Change, Trigger};
use thoughtstream_store::Reader;
use thoughtstream_store::sim::Dice;

/// One consumer of the cast.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its id.
    pub id: &'static str,
    /// What it listens to, as a declaration says it.
    pub subscribe: &'static str,
    /// Further keys of its declaration.
    pub more: &'static str,
    /// Its transform.
    pub transform: &'static str,
    /// The transform that makes its outputs; none for one that runs as declared.
    pub echoes: Option<&'static str>,
}

const NOTES: &str = "types: [stream.thought.source.note], kinds: [notes]";

/// The whole cast: two commits and one, one at a time and side by side, in batches, seldom, at second hand, and
/// on a folder.
pub const CAST: [Part; 8] = [
    Part { id: "two", subscribe: NOTES, more: "", transform: "echo", echoes: Some("document-structure") },
    Part {
        id: "settled",
        subscribe: NOTES,
        more: "lifecycle: settled",
        transform: "echo",
        echoes: Some("document-structure"),
    },
    Part {
        id: "wide",
        subscribe: "types: [stream.thought.source.note], kinds: [notes], concurrency: 4",
        more: "",
        transform: "echo",
        echoes: Some("document-structure"),
    },
    Part {
        id: "batch",
        subscribe: "types: [stream.thought.source.note], kinds: [notes], batch: { max: 5, wait: 20ms }",
        more: "",
        transform: "echo",
        echoes: Some("document-structure"),
    },
    Part {
        id: "broad",
        subscribe: "types: [stream.thought.source.note], kinds: [notes], batch: { max: 3, wait: 5ms }, \
                    concurrency: 3",
        more: "interrupted: { record: abandoned, then: retry }",
        transform: "echo",
        echoes: Some("document-structure"),
    },
    Part {
        id: "rare",
        subscribe: "types: [stream.thought.source.note], kinds: [notes], where: { payload.title: rare }",
        more: "",
        transform: "echo",
        echoes: Some("document-structure"),
    },
    Part {
        id: "second",
        subscribe: "types: [stream.thought.derived.document.structure], sources: [agent:two]",
        more: "",
        transform: "again",
        echoes: Some("document-links"),
    },
    Part {
        id: "files",
        subscribe: "types: [stream.thought.source.file.added, stream.thought.source.file.changed], \
                    kinds: [filesystem]",
        more: "",
        transform: "document-structure",
        echoes: None,
    },
];

/// What a person could change about a part: its version, and whether it is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The version of the declaration.
    pub version: u32,
    /// Whether it runs.
    pub enabled: bool,
}

/// Compiling every schema takes longer than all the rest of a reload, most of all in a build that is not optimised.
static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| Arc::new(Registry::shipped()));

/// The files of a configuration, which a schedule edits.
#[derive(Debug, Clone)]
pub struct Files(Arc<Mutex<BTreeMap<&'static str, Setting>>>);

impl Files {
    /// Declares these parts, each in its first version.
    #[must_use]
    pub fn of(parts: &[&'static str]) -> Self {
        let first = Setting { version: 1, enabled: true };
        Self(Arc::new(Mutex::new(parts.iter().map(|id| (*id, first)).collect())))
    }

    /// Edits one.
    pub fn edit(&self, id: &str, edit: impl FnOnce(&mut Setting)) {
        let mut settings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(setting) = settings.get_mut(id) {
            edit(setting);
        }
    }

    /// Returns the ids.
    #[must_use]
    pub fn ids(&self) -> Vec<&'static str> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    fn texts(&self) -> Vec<(String, Vec<u8>)> {
        let settings = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let parts = CAST.iter().filter_map(|part| settings.get(part.id).map(|setting| (part, *setting)));
        parts.map(|(part, setting)| (format!("{}.yaml", part.id), text(part, setting).into_bytes())).collect()
    }

    /// Reads them as a service does.
    #[must_use]
    pub fn load(&self) -> Load {
        let files = self.clone();
        Arc::new(move || {
            let registry = Arc::clone(&REGISTRY);
            let declarations = load_all(&files.texts(), &|_| Some(Vec::new()), &catalog(&registry))?;
            Ok(Loaded { declarations, registry })
        })
    }
}

fn text(part: &Part, Setting { version, enabled }: Setting) -> String {
    let Part { id, subscribe, more, transform, echoes } = part;
    let emit = match *echoes {
        Some("document-links") => DocumentLinks::NAME,
        Some(_) | None => DocumentStructure::NAME,
    };
    format!(
        "id: {id}\nversion: {version}\nenabled: {enabled}\ndescription: Plays a part in the chaos, v{version}.\n\
         subscribe: {{ {subscribe} }}\nrunner: {{ kind: deterministic, transform: {transform} }}\n\
         emit: [{emit}]\npolicy: {{ tools: [], externalActions: false }}\n\
         retry: {{ attempts: 50, first: 10ms, max: 50ms, exhausted: quarantine }}\n{more}\n"
    )
}

/// Knows the transforms of the cast beside those that ship.
fn catalog(registry: &Registry) -> Catalog {
    let mut catalog = Catalog::of(registry);
    let name = |name: &str| TypeName::parse(name).expect("a shipped type has a name");
    for (transform, accepts, emits) in [
        ("echo", Note::NAME, DocumentStructure::NAME),
        ("again", DocumentStructure::NAME, DocumentLinks::NAME),
    ] {
        let info = TransformInfo { accepts: [name(accepts)].into(), emits: [name(emits)].into() };
        catalog.transforms.insert(transform.to_owned(), info);
    }
    catalog
}

/// Says how runners behave.
#[derive(Debug, Clone, Copy)]
pub struct Temper {
    /// Draws who fails.
    pub seed: u64,
    /// Of a hundred runs, how many fail and may be retried.
    pub fails: u64,
    /// Of a hundred runs, how many panic.
    pub panics: u64,
    /// A part that fails every time on notes with this title; it may be retried.
    pub stubborn: Option<(&'static str, &'static str)>,
}

impl Temper {
    /// Never fails.
    pub const MILD: Self = Self { seed: 0, fails: 0, panics: 0, stubborn: None };
}

/// Compiles the cast with its runners.
#[must_use]
pub fn compile(temper: Temper) -> Compile {
    Arc::new(move |set: &DeclarationSet| {
        let specs = set.enabled_shared().map(|declaration| {
            let spec = ConsumerSpec::of(declaration, &Facilities::default());
            let part = CAST.iter().find(|part| part.id == spec.key.id.as_str());
            match part.and_then(|part| part.echoes) {
                Some(transform) => {
                    let runner =
                        Echo { consumer: spec.key.clone(), transform, temper, runs: Mutex::default() };
                    ConsumerSpec { work: Work::Transform(Arc::new(runner)), ..spec }
                }
                None => spec,
            }
        });
        specs.collect()
    })
}

/// Answers each trigger with one output that names it.
struct Echo {
    consumer: ConsumerKey,
    transform: &'static str,
    temper: Temper,
    runs: Mutex<BTreeMap<EventId, u64>>,
}

impl Runner for Echo {
    fn run(&self, _: &Reader, triggers: &[Event]) -> Result<Vec<Output>, RunFailure> {
        self.stumble(triggers)?;
        triggers.iter().map(|trigger| self.answer(trigger)).collect()
    }
}

impl Echo {
    /// Fails or panics, if the dice say so; an event is given up on at most a few times.
    fn stumble(&self, triggers: &[Event]) -> Result<(), RunFailure> {
        let Some(first) = triggers.first() else { return Ok(()) };
        let is_stubborn = self.temper.stubborn.is_some_and(|(id, title)| {
            let titled =
                |event: &Event| event.payload_as::<Note>().is_ok_and(|n| n.title.as_deref() == Some(title));
            self.consumer.id.as_str() == id && triggers.iter().any(titled)
        });
        if is_stubborn {
            return Err(RunFailure::of_surroundings("told-to-fail"));
        }
        let count = {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            let count = runs.entry(first.id).or_default();
            *count += 1;
            *count
        };
        let id = Sha256Hash::of(format!("{}/{}/{count}", self.consumer, first.id).as_bytes());
        let salt = id.as_bytes().iter().fold(0_u64, |salt, byte| salt.rotate_left(8) ^ u64::from(*byte));
        let roll = Dice::new(self.temper.seed ^ salt).below(100);
        if count > 3 {
            return Ok(());
        }
        assert!(roll >= self.temper.panics, "a runner of the cast panics as it was told to");
        if roll < self.temper.panics + self.temper.fails {
            return Err(RunFailure::of_surroundings("told-to-fail"));
        }
        Ok(())
    }

    fn answer(&self, trigger: &Event) -> Result<Output, RunFailure> {
        let path = answer_path(&trigger.id);
        let content = format!("# {}\n", trigger.id);
        let change = Change::Present {
            sha256: Sha256Hash::of(content.as_bytes()),
            content_type: "text/markdown".to_owned(),
        };
        let source = SourceId::parse("filesystem:echo").map_err(|_| RunFailure::of_input("no-source"))?;
        let document_id = DocumentId::at_first_sight(&source, &path, 0);
        let about = Trigger { change, document_id, revision: 1, path };
        let made = transform::run(self.transform, &about, Some(content.as_bytes()));
        let made = made.map_err(|error| RunFailure::of_input(error.code()))?;
        let one = made.into_iter().next().ok_or(RunFailure::of_input("no-output"))?;
        Ok(Output { kind: one.kind, payload: one.payload, address: None })
    }
}

/// The path in an output that answers `trigger`.
#[must_use]
pub fn answer_path(trigger: &EventId) -> String {
    format!("{trigger}.md")
}
