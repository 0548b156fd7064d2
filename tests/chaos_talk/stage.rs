//! The service with a bot, a provider and a person; what is asked of it, and what is told of its traps.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thoughtstream_channels::rehearsal::{Answer as Reply, Rule, Says, ToolCall, Usage};
use thoughtstream_domain::accounting::Amounts;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::payload::telegram::source;
use thoughtstream_surface::ask::{Ask, Operate, Operated};
use thoughtstream_surface::client::reach_service;
use thoughtstream_surface::exit::Exit;
use thoughtstream_surface::failure::Failure;
use thoughtstream_surface::places::Places;
use thoughtstream_surface::query::Sink;
use thoughtstream_surface::session::Session;
use thoughtstream_surface::socket::Door;
use thoughtstream_testkit::chaos::witness::Witness;

use crate::cli_remembering::Stage as Remembering;

/// Who answers.
pub(super) const CONSUMER: &str = "telegram-conversation";

/// The declaration of who answers, below the configuration.
const DECLARATION: &str = "declarations/telegram-conversation.yaml";

/// What one request is reserved at, as the declaration that ships says.
const ESTIMATE: Amounts =
    Amounts { calls: 1, input_tokens: 60_000, output_tokens: 2_000, cost_microusd: None };

/// Nothing but what is said in so many words.
const SCRIPT: &str = "provider:\n  otherwise: { text: \"Nobody said what to answer.\" }\n";

/// What a message makes the model do beside answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// Nothing.
    Nothing,
    /// It proposes a line for the memory document.
    Memory,
    /// It proposes to correct its last reply.
    Correction,
    /// All of it, and a focus.
    Everything,
}

/// Is one trap that has sprung, as the service's log tells it.
#[derive(Debug, Clone)]
pub(super) struct Sprung {
    pub(super) point: String,
    pub(super) action: String,
}

/// Takes the values of an answer.
#[derive(Default)]
struct Values(Vec<Value>);

impl Sink for Values {
    fn value(&mut self, value: Value) -> Result<(), Failure> {
        self.0.push(value);
        Ok(())
    }
}

/// Lets a configuration's bot be told of updates at an address of this machine.
fn listen(config: &Path) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = config.join("config.yaml");
    let webhook = format!("{{ listen: \"{free}\", secret: bot-webhook, url: \"http://{free}/bot\" }}");
    let text = std::fs::read_to_string(&path).unwrap() + "    mode: webhook\n    webhook: " + &webhook + "\n";
    std::fs::write(&path, text).unwrap();
    let secret = config.join("credentials/bot-webhook");
    std::fs::write(&secret, "s3cret\n").unwrap();
    std::fs::set_permissions(secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

pub(super) struct Stage {
    pub(super) told: Remembering,
    session: Session,
    base: String,
}

impl Stage {
    /// Makes one whose bot asks for updates, or is told them.
    pub(super) fn new(is_told: bool) -> Self {
        let told = Remembering::playing(SCRIPT);
        if is_told {
            listen(&told.world.config);
        }
        let world = &told.world;
        let places = Places { data: world.data.clone(), config: world.config.clone() };
        let session = Session { places, address: Default::default(), json: true };
        let base = told.memory();
        let stage = Self { told, session, base };
        // More is asked here in a minute than anybody should pay for.
        let declared = stage.declaration();
        let roomy = declared
            .replace("calls: 20, inputTokens: 1200000, outputTokens: 40000", "calls: 9000")
            .replace("calls: 500, inputTokens: 30000000, outputTokens: 1000000", "calls: 9000");
        assert_ne!(declared, roomy);
        std::fs::write(stage.told.world.config.join(DECLARATION), roomy).unwrap();
        stage
    }

    fn declaration(&self) -> String {
        std::fs::read_to_string(self.told.world.config.join(DECLARATION)).unwrap()
    }

    /// Asks the running service; nobody else answers.
    pub(super) fn ask(&self, request: &Operated) -> Result<(Exit, Vec<Value>), Failure> {
        let mut values = Values::default();
        let exit = reach_service(&self.session, Door::Operator)?.ask(request, &mut values)?;
        Ok((exit, values.0))
    }

    /// Looks; whoever gets no answer looks again later.
    pub(super) fn look(&self, ask: Ask) -> Option<Vec<Value>> {
        self.ask(&Operated::Ask(ask)).ok().map(|(_, values)| values)
    }

    /// Has something done at once that waits for nobody.
    pub(super) fn operate(&self, operate: Operate) -> bool {
        self.ask(&Operated::Operate(operate)).is_ok()
    }

    /// Has the model answer whoever says this: with this text, and with calls.
    pub(super) fn answers(&self, said: &str, text: &str, moves: Moves, line: &str) {
        let memory = || {
            let arguments = serde_json::json!({
                "operation": "append", "proposed_text": line, "reason": "They told me.", "evidence_event_ids": [],
            });
            ToolCall::new("request_memory_change", &arguments.to_string())
        };
        let correction = || {
            let arguments = serde_json::json!({
                "target_output": "latest", "replacement": format!("{line} So it is."), "reason": "It was wrong.",
                "evidence_event_ids": [],
            });
            ToolCall::new("submit_correction", &arguments.to_string())
        };
        let focus = || {
            let declaration = serde_json::json!({ "declaration": {
                "id": "lisbon-move", "version": 1, "lineage": { "evidence": [] },
                "scope": { "includes": ["the move"], "excludes": ["work"] },
                "objective": "Keep track of what is still to be done.",
                "subscriptions": [{ "types": ["stream.thought.source.note"], "sources": ["notes:garden"] }],
                "budgets": { "runsPerDay": 4, "tokensPerDay": 20000 },
                "requestedPermissions": ["notify"],
                "retirement": { "afterDays": 60, "when": "the move is over" },
            }});
            ToolCall::new("propose_focus", &declaration.to_string())
        };
        let calls = match moves {
            Moves::Nothing => Vec::new(),
            Moves::Memory => vec![memory()],
            Moves::Correction => vec![correction()],
            Moves::Everything => vec![memory(), correction(), focus()],
        };
        let text = Content::new(text.to_owned());
        let says = if calls.is_empty() { Says::Text(text) } else { Says::Tools { text: Some(text), calls } };
        // Nobody says what it cost, so that the estimate stands.
        let answer = Reply::of(says).with_usage(Usage::Missing);
        self.told.rehearsal.add_rule(Rule::when_contains(said, said, answer));
    }

    /// Lays the next version out in a directory of its own; returns that and its number.
    pub(super) fn next_version(&self) -> (PathBuf, u32) {
        let declared = self.declaration();
        let line = declared.lines().find(|line| line.starts_with("version: ")).unwrap();
        let next = line.trim_start_matches("version: ").parse::<u32>().unwrap() + 1;
        let prompt = declared.lines().find(|line| line.starts_with("prompt: ")).unwrap();
        let path = format!("prompts/answer-{next}.md");
        let text = declared
            .replace(&format!("{line}\n"), &format!("version: {next}\n"))
            .replace(&format!("{prompt}\n"), &format!("prompt: {path}\n"));
        let staged = self.told.world.base().join(format!("next-{next}"));
        for directory in ["declarations", "prompts"] {
            std::fs::create_dir_all(staged.join(directory)).unwrap();
        }
        std::fs::write(staged.join(DECLARATION), text).unwrap();
        std::fs::write(staged.join(path), format!("Answer shortly, as version {next}.\n")).unwrap();
        (staged, next)
    }

    /// Reads what the service has said of its traps, behind what was read before.
    pub(super) fn sprung(&self, read: &mut usize) -> Vec<Sprung> {
        let log = self.told.world.log();
        let Some(new) = log.get(*read..).and_then(|new| Some(&new[..=new.rfind('\n')?])) else {
            return Vec::new();
        };
        *read += new.len();
        let lines = new.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let field = |line: &Value, name: &str| line["fields"][name].as_str().map(str::to_owned);
        let sprung = lines.filter_map(|line| {
            let said = field(&line, "message").filter(|message| message == "a trap has sprung");
            said.and(Some(Sprung { point: field(&line, "point")?, action: field(&line, "action")? }))
        });
        sprung.collect()
    }

    /// Tells what everybody outside has seen.
    pub(super) fn witness(&self, updates: BTreeMap<i64, String>) -> Witness {
        let rehearsal = &self.told.rehearsal;
        let asked = |request: &thoughtstream_channels::rehearsal::ProviderRequest| {
            let body = request.json();
            let messages = body["messages"].as_array().cloned().unwrap_or_default();
            let user =
                messages.iter().rfind(|message| message["role"] == "user").cloned().unwrap_or_default();
            let said = user["content"].as_str().unwrap_or_default();
            // It stands in its frame; which message it is can be told by the text alone.
            updates.values().find(|text| said.contains(*text)).cloned().unwrap_or_else(|| said.to_owned())
        };
        let requests = rehearsal.provider_requests();
        assert_eq!(requests.len() as u64, rehearsal.counters().provider.requests, "every request is kept");
        let sent = rehearsal.sent_messages();
        assert_eq!(sent.len() as u64, rehearsal.counters().telegram.sent, "every message is kept");
        Witness {
            bot: Some(source("bot").unwrap()),
            requests: requests.iter().map(asked).collect(),
            estimate: Some(ESTIMATE),
            arrived: sent.iter().map(|sent| (sent.message, sent.text.reveal().clone())).collect(),
            decided: BTreeMap::new(),
            memory: [self.base.clone(), String::new(), self.told.memory()],
            updates,
        }
    }
}
