//! The configuration: what is watched, which models may be asked and which bots there are, read by the same strict
//! YAML and with the same reports as declarations.

pub mod providers;
pub mod telegram;

use std::path::{Path, PathBuf};

use thoughtstream_channels::filesystem::rules::{Bounds, ScanRules, Selection};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::provider::Profile;
use thoughtstream_domain::yaml::{
    self, Choice, Code, Form, Key, Limits, Node, Problem, Shape, Source, Value, duration_ms,
};

/// A configuration with more sources than this is a mistake: each has a watcher.
const SOURCES_MAX: usize = 256;

/// The largest file that may be asked for; a blob is held in memory while it is stored.
const FILE_BYTES_MAX: i64 = 64 << 20;

/// How long the service lets open work finish when it is told to stop, if the configuration does not say.
const DRAIN_MS: u64 = 20_000;

/// The kinds of problem that only a configuration has.
pub mod codes {
    use super::Code;

    /// Two sources have one name.
    pub const SAME_SOURCE: Code = Code::new("config.same-source");
    /// A folder's path is relative.
    pub const RELATIVE: Code = Code::new("config.relative-path");
    /// A pattern cannot be used.
    pub const PATTERN: Code = Code::new("config.pattern");
    /// Who is to answer a bot's messages does not.
    pub const DIRECT_REPLIES: Code = Code::new("config.direct-replies");
    /// A declaration offers tools to a model that is not named for them.
    pub const TOOLS: Code = Code::new("config.tools");
    /// A user is named for a process that there is not.
    pub const PRODUCER_USER: Code = Code::new("config.producer-user");
    /// A folder cannot be watched where it is said to be.
    pub const ROOT: Code = Code::new("config.root");
    /// This source's producer cannot be a process of its own.
    pub const PRODUCER_ONLY: Code = Code::new("config.producer-only");
    /// The configuration cannot be read.
    pub const UNREADABLE: Code = Code::new("config.unreadable");
}

/// Is a checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folders that are watched, in order of the file.
    pub folders: Vec<Folder>,
    /// The providers whose models may be asked, in order of the file.
    pub providers: Vec<Profile>,
    /// How long open work may take to finish when the service is told to stop, in milliseconds.
    pub drain_ms: u64,
    /// The Telegram bots, in order of the file.
    pub bots: Vec<telegram::Bot>,
}

impl Default for Config {
    fn default() -> Self {
        Self { folders: Vec::new(), providers: Vec::new(), drain_ms: DRAIN_MS, bots: Vec::new() }
    }
}

/// Is a folder that is watched.
#[derive(Debug, Clone)]
pub struct Folder {
    /// Its source, `filesystem:NAME`.
    pub source: SourceId,
    /// The folder, absolute.
    pub root: PathBuf,
    /// Where the text says so: a problem without words, for whoever finds one with the folder.
    pub place: Problem,
    /// Which files are documents, and how much is looked at.
    pub rules: ScanRules,
    /// The patterns of what is taken and of what is not, as they are written.
    pub patterns: (Vec<String>, Vec<String>),
    /// The class of everything in it.
    pub privacy: Privacy,
    /// Who looks at it.
    pub producer: Producer,
}

/// Says which process the producer of a source runs in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Producer {
    /// The service's own.
    #[default]
    Here,
    /// One of its own, `thought serve --producer-only`.
    Apart {
        /// The user that runs it, by name or number; the service's own if absent.
        user: Option<String>,
    },
}

impl Folder {
    /// Says whether its producer is a process of its own.
    #[must_use]
    pub const fn is_apart(&self) -> bool {
        matches!(self.producer, Producer::Apart { .. })
    }

    /// Names the rules by which files are taken: two processes that name them alike take the same files.
    #[must_use]
    pub fn rules_hash(&self) -> Sha256Hash {
        Sha256Hash::of(format!("{:?} {:?}", self.patterns, self.rules.bounds).as_bytes())
    }
}

const NAME: Form = Form {
    name: "a source's name",
    example: "notes",
    units_max: 128,
    accepts: |text| SourceId::parse(&format!("filesystem:{text}")).is_ok(),
    pattern: Some("^[A-Za-z0-9][A-Za-z0-9._-]*$"),
};

const FOLDER: Form = Form {
    name: "a folder's path",
    example: "/home/you/notes",
    units_max: 4096,
    accepts: |text| text.starts_with('/') || text.starts_with("~/") || text == "~",
    pattern: Some("^(/|~)"),
};

const PATTERN: Form = Form {
    name: "a pattern of paths",
    example: "drafts/**",
    units_max: 1024,
    accepts: |text| !text.is_empty(),
    pattern: None,
};

const PATTERNS: Shape = Shape::List { of: &Shape::Text(&PATTERN), min: 0, max: 1000 };

const USER: Form = Form {
    name: "a user's name, or its number in quotes",
    example: "thoughtstream-source",
    units_max: 32,
    accepts: is_user,
    pattern: Some("^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$"),
};

fn is_user(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=32).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with(['.', '-'])
}

const PRIVACY: [Choice; 3] = [
    Choice::new("public-source", "was public where it came from"),
    Choice::new("private", "belongs to you"),
    Choice::new("sensitive", "must not leave the machine without an explicit act"),
];

const SOURCE: [Key; 9] = [
    Key::required(
        "filesystem",
        "the source's name: its events come from `filesystem:NAME`",
        Shape::Text(&NAME),
    ),
    Key::required("root", "the folder to watch; absolute, or below your home as `~/…`", Shape::Text(&FOLDER)),
    Key::optional("include", "patterns of the only files to take; all if absent", PATTERNS),
    Key::optional("ignore", "patterns of files and directories to leave out", PATTERNS),
    Key::optional(
        "maxBytes",
        "files larger than this are reported and not read",
        Shape::Integer { min: 1, max: FILE_BYTES_MAX },
    ),
    Key::optional(
        "maxFiles",
        "a folder with more files than this is an incident and not a source",
        Shape::Integer { min: 1, max: 1_000_000 },
    ),
    Key::optional("privacy", "the class of everything in the folder", Shape::Choice(&PRIVACY)),
    Key::optional(
        "producerOnly",
        "true: its producer is a process of its own, `thought serve --producer-only`, and the service starts none",
        Shape::Bool,
    ),
    Key::optional(
        "producerUser",
        "the user that runs this process, and nobody else; the service's own if absent",
        Shape::Text(&USER),
    ),
];

const CONFIG: Shape = Shape::Map(&[
    Key::optional(
        "sources",
        "the folders to watch",
        Shape::List { of: &Shape::Map(&SOURCE), min: 0, max: SOURCES_MAX },
    ),
    providers::PROVIDERS,
    Key::optional(
        "drain",
        "how long open work may take to finish when the service is told to stop",
        Shape::Duration { min_ms: 100, max_ms: 600_000 },
    ),
    Key::optional(
        "telegram",
        "the Telegram bots to listen to and to answer through",
        Shape::List { of: &Shape::Map(&telegram::BOT), min: 0, max: telegram::BOTS_MAX },
    ),
]);

/// Returns the JSON Schema of a configuration, for editors.
#[must_use]
pub fn schema() -> serde_json::Value {
    yaml::json_schema("thoughtstream configuration", "What is watched and asked.", &CONFIG)
}

/// Reads a configuration from its text; `home` is where `~` leads.
///
/// # Errors
/// Every problem, in the order of the text.
pub fn parse(name: &str, bytes: &[u8], home: Option<&Path>) -> Result<Config, Vec<Problem>> {
    let reading = yaml::read(name, bytes, Limits::CONFIG);
    let mut problems = reading.problems;
    let mut config = Config::default();
    // An empty file configures nothing, and everything has a default.
    if let Some(root) = reading.root.filter(|root| root.value != Value::Null) {
        yaml::check(&reading.source, &root, &CONFIG, &mut problems);
        let sound = problems.is_empty();
        let mut reader = Reader { source: &reading.source, home, problems: &mut problems };
        config = reader.config(&root, sound);
    }
    if problems.is_empty() {
        return Ok(config);
    }
    Err(yaml::listed(problems))
}

/// Reads what has the right shape, and reports what only the whole shows to be wrong.
struct Reader<'a> {
    source: &'a Source,
    home: Option<&'a Path>,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn config(&mut self, root: &Node, sound: bool) -> Config {
        let mut folders: Vec<Folder> = Vec::new();
        for item in root.get("sources").map(Node::items).unwrap_or_default() {
            let Some(folder) = self.folder(item) else { continue };
            if folders.iter().any(|other| other.source == folder.source) {
                let span = item.get("filesystem").map_or(item.span, |node| node.span);
                let problem = self.source.problem(span, codes::SAME_SOURCE, "another source has this name");
                self.problems.push(problem.with_hint("give each folder a name of its own"));
            }
            folders.push(folder);
        }
        let providers = providers::read(root, self.source, self.problems);
        let drain_ms = root.get("drain").and_then(Node::text).and_then(duration_ms).unwrap_or(DRAIN_MS);
        let bots = telegram::read(root, self.source, self.problems);
        if sound { Config { folders, providers, drain_ms, bots } } else { Config::default() }
    }

    fn folder(&mut self, item: &Node) -> Option<Folder> {
        let name = item.get("filesystem")?.text()?;
        let root = item.get("root")?;
        let root_path = self.root(root)?;
        let list = |key: &str| -> Vec<String> {
            let items = item.get(key).map(Node::items).unwrap_or_default();
            items.iter().filter_map(Node::text).map(str::to_owned).collect()
        };
        let (include, ignore) = (list("include"), list("ignore"));
        let selection = match Selection::new(&include, &ignore, true) {
            Ok(selection) => Some(selection),
            Err(error) => {
                self.pattern(item, &error.pattern, &error.reason);
                None
            }
        };
        let producer = self.producer(item);
        let number = |key: &str| item.get(key).and_then(Node::integer).and_then(|n| u64::try_from(n).ok());
        let defaults = Bounds::default();
        let bounds = Bounds {
            file_bytes_max: number("maxBytes").unwrap_or(defaults.file_bytes_max),
            files_max: number("maxFiles").and_then(|n| usize::try_from(n).ok()).unwrap_or(defaults.files_max),
            ..defaults
        };
        Some(Folder {
            source: SourceId::parse(&format!("filesystem:{name}")).ok()?,
            root: root_path,
            place: self.source.problem(root.span, codes::ROOT, ""),
            rules: ScanRules { selection: selection?, bounds },
            patterns: (include, ignore),
            privacy: item
                .get("privacy")
                .and_then(Node::text)
                .and_then(Privacy::parse)
                .unwrap_or(Privacy::Private),
            producer,
        })
    }

    fn producer(&mut self, item: &Node) -> Producer {
        let apart = item.get("producerOnly").is_some_and(|node| node.value == Value::Bool(true));
        let user = item.get("producerUser");
        if apart {
            return Producer::Apart { user: user.and_then(Node::text).map(str::to_owned) };
        }
        if let Some(user) = user {
            let what = "the service itself looks at this folder, as its own user";
            let problem = self.source.problem(user.span, codes::PRODUCER_USER, what);
            self.problems.push(problem.with_hint("write `producerOnly: true` beside it, or leave it out"));
        }
        Producer::Here
    }

    fn root(&mut self, node: &Node) -> Option<PathBuf> {
        let text = node.text()?;
        let Some(below) = text.strip_prefix('~') else {
            return text.starts_with('/').then(|| PathBuf::from(text));
        };
        let Some(home) = self.home else {
            let problem = self.source.problem(node.span, codes::RELATIVE, "nothing says where `~` leads");
            self.problems.push(problem.with_hint("write the whole path, or set HOME"));
            return None;
        };
        let below = below.strip_prefix('/')?;
        Some(if below.is_empty() { home.to_owned() } else { home.join(below) })
    }

    fn pattern(&mut self, item: &Node, pattern: &str, reason: &str) {
        let lists = ["include", "ignore"].into_iter().filter_map(|key| item.get(key));
        let node = lists.flat_map(|list| list.items()).find(|node| node.text() == Some(pattern));
        let span = node.map_or(item.span, |node| node.span);
        let message = format!("this pattern cannot be used: {reason}");
        let hint = format!("write it like `{}`", PATTERN.example);
        self.problems.push(self.source.problem(span, codes::PATTERN, message).with_hint(hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Vec<Problem>> {
        parse("config.yaml", text.as_bytes(), Some(Path::new("/home/a")))
    }

    fn problems(text: &str) -> String {
        read(text).unwrap_err().iter().map(|p| format!("{}:{} {}\n", p.line, p.column, p.code)).collect()
    }

    #[test]
    fn an_empty_configuration_has_only_defaults() {
        for text in ["", "# nothing\n", "sources: []\n"] {
            let config = read(text).unwrap();
            assert_eq!((config.folders.len(), config.drain_ms), (0, DRAIN_MS));
        }
        assert!(read(include_str!("../../ops/config.example.yaml")).is_ok());
    }

    #[test]
    fn a_folder_is_read_with_its_bounds() {
        let text = "sources:\n  - filesystem: notes\n    root: ~/notes\n    ignore: [\"drafts/**\"]\n    \
                    maxBytes: 10\n    privacy: sensitive\ndrain: 5s\n";
        let config = read(text).unwrap();
        let folder = &config.folders[0];
        assert_eq!(folder.source.as_str(), "filesystem:notes");
        assert_eq!(folder.root, Path::new("/home/a/notes"));
        assert!(
            !folder.rules.selection.takes_file("drafts/a.md") && folder.rules.selection.takes_file("a.md")
        );
        assert_eq!((folder.rules.bounds.file_bytes_max, folder.privacy), (10, Privacy::Sensitive));
        assert_eq!(config.drain_ms, 5000);
    }

    #[test]
    fn a_producer_may_be_a_process_of_its_own_and_a_bots_may_not() {
        let text = |more: &str| format!("sources:\n  - filesystem: notes\n    root: /notes\n{more}");
        let producer = |more: &str| read(&text(more)).unwrap().folders.remove(0).producer;
        for more in ["", "    producerOnly: false\n"] {
            assert_eq!(producer(more), Producer::Here);
        }
        assert_eq!(producer("    producerOnly: true\n"), Producer::Apart { user: None });
        for user in ["looker", "65534"] {
            let more = format!("    producerOnly: true\n    producerUser: \"{user}\"\n");
            assert_eq!(producer(&more), Producer::Apart { user: Some(user.to_owned()) });
        }
        for (more, problem) in [
            ("    producerUser: looker\n", "4:19 config.producer-user\n"),
            ("    producerOnly: false\n    producerUser: looker\n", "5:19 config.producer-user\n"),
            ("    producerOnly: \"true\"\n", "4:19 shape.wrong-kind\n"),
            ("    producerOnly: true\n    producerUser: \"../x\"\n", "5:19 shape.bad-value\n"),
        ] {
            assert_eq!(problems(&text(more)), problem, "{more}");
        }
        let bot = "telegram:\n  - bot: b\n    credential: c\n    chats: [\"1\"]\n    senders: [\"1\"]\n";
        assert!(read(&format!("{bot}    producerOnly: false\n")).is_ok());
        assert_eq!(problems(&format!("{bot}    producerOnly: true\n")), "6:19 config.producer-only\n");
    }

    #[test]
    fn rules_have_one_name_in_two_processes_and_others_have_another() {
        let of = |more: &str| {
            let text = format!("sources:\n  - filesystem: notes\n    root: /notes\n{more}");
            read(&text).unwrap().folders.remove(0).rules_hash()
        };
        assert_eq!(of(""), of("    producerOnly: true\n"));
        for more in ["    ignore: [a]\n", "    include: [a]\n", "    maxBytes: 7\n", "    maxFiles: 7\n"] {
            assert_ne!(of(""), of(more), "{more}");
        }
    }

    #[test]
    fn the_published_schema_is_the_present_one() {
        let expected = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        let published = include_str!("../../schemas/config.schema.json");
        assert!(published == expected, "write this to schemas/config.schema.json:\n{expected}");
    }

    #[test]
    fn everything_that_is_wrong_is_reported_at_its_place() {
        let text = "sorces: []\nsources:\n  - filesystem: a b\n    root: notes\n  - filesystem: x\n    root: /x\n    \
                    ignore: [\"[\"]\n  - filesystem: x\n    root: /y\n";
        assert_eq!(
            problems(text),
            "1:1 shape.unknown-key\n3:17 shape.bad-value\n4:11 shape.bad-value\n7:14 config.pattern\n"
        );
        let twice = "sources:\n  - {filesystem: x, root: /x}\n  - {filesystem: x, root: /y}\n";
        assert_eq!(problems(twice), "3:18 config.same-source\n");
    }
}
