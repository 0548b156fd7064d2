//! The demonstration of a conversation: somebody writes to a bot, and all that follows until the reply has its receipt.
//!
//! It is the real service with the declaration that ships, its sandbox and its budget. Only the provider and Telegram
//! are played, on this machine, by the same rehearsal that `thought rehearse` plays.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use thoughtstream_actors::service::Service;
use thoughtstream_channels::rehearsal::{Rehearsal, Script};
use thoughtstream_domain::accounting::{Amounts, Settled};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::lifecycle::Run;
use thoughtstream_domain::text::printable;
use thoughtstream_domain::yaml::render_all;
use thoughtstream_store::Reader;
use tokio::time::sleep;

use super::tale::Tale;
use super::{DRAIN, Stage, memory, story};
use crate::at_start::AtStart;
use crate::command::rehearse::Pointing;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::load;
use crate::places::{Places, environment};
use crate::render::{Rows, count};
use crate::serve::{How, start_failure, work};
use crate::session::Session;
use crate::shipped::FILES;
use crate::{cells, rehearsal};

/// What is said, and what the model answers.
const SCRIPT: &str = r#"
provider:
  models: [smollm2-135m-instruct]
  rules:
    - { name: greeting, when: { contains: hello }, answer: { text: "Hello Ada. What are you working on?" } }
    - { name: garden, when: { contains: beans }, answer: { text: "After the last frost, so in about two weeks." } }
    - name: remember
      when: { contains: remember, offers: request_memory_change }
      answer:
        tools:
          - name: request_memory_change
            arguments: '{"operation":"append","proposed_text":"Lives in Lisbon.","reason":"Ada asked for it.","evidence_event_ids":[]}'
telegram:
  updates:
    - message: { chat: 42, name: Ada, text: hello }
    - { after: reply, message: { chat: 42, name: Ada, text: "The garden. When do I sow the beans?" } }
"#;

/// How often Ada writes.
const TURNS: usize = 2;

/// The declaration that answers.
const CONVERSATION: &str = "telegram-conversation";

/// What says that a reply arrived.
const DELIVERED: &str = "stream.thought.delivery.delivered";

/// How often the log is looked at.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Both replies take a second; a machine that is busy with other things gets this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Plays and tells it.
pub(super) async fn play(stage: &Stage, keep: bool, tale: &mut Tale<'_>) -> Result<Exit, Failure> {
    let places = Places { data: stage.data.clone(), config: stage.base.join("config") };
    if let Err(obstacle) = cells::try_out(cells::place(&places.data, &environment)).await {
        let what = format!("no worker runs in its sandbox here: {} ({})", obstacle.seen, obstacle.code);
        return Err(Failure::new(Exit::CouldNotLook, "demo.sandbox", what).with_hint(obstacle.way_out));
    }
    let script = Script::parse("demo", SCRIPT.as_bytes()).map_err(|problems| {
        Failure::new(Exit::Bug, "demo.script", "a script").with_lines(&render_all(&problems))
    })?;
    let pointing = Pointing::of(&script);
    let peers = Rehearsal::start(script).await.map_err(|error| {
        Failure::new(Exit::CouldNotLook, "demo.port", "cannot listen on this machine").because(&error)
    })?;
    let config = places.config.clone();
    configure(&config, &pointing, &peers).map_err(|error| {
        Failure::new(Exit::CouldNotLook, "demo.config", "cannot write the configuration").because(&error)
    })?;
    let session = Session { places, address: crate::address::Address::default(), json: false };
    let loaded = load(&session.places)?;
    let at_start = Arc::new(AtStart::of(&loaded.config));
    let service = Service::start(work(&session, How::default(), loaded, at_start, |_| Vec::new())?).await;
    let service = service.map_err(|error| start_failure(&error))?;
    let told = tokio::select! {
        told = tell(&service, stage, &peers, (pointing.chat, &config), keep, tale) => told,
        // What was made is removed all the same.
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Refused, "demo.interrupted", "interrupted")),
    };
    service.stop();
    tokio::time::timeout(DRAIN, service.ended()).await.ok();
    told
}

/// Makes the throw-away log and what lies beside it.
pub(super) fn set() -> Result<Stage, Failure> {
    let key = crate::chance::key("demo")?;
    let base = std::env::temp_dir().join(format!("thoughtstream-{key}"));
    thoughtstream_effects::dirs::PrivateDir::create(&base)
        .map_err(|error| crate::command::init::data_failure(&error))?;
    let data = base.join("data");
    rehearsal::create(&data)?;
    Ok(Stage { folder: base.clone(), base, data })
}

/// Writes the configuration that `thought rehearse` would name, with the declaration that ships switched on.
fn configure(config: &Path, pointing: &Pointing, peers: &Rehearsal) -> std::io::Result<()> {
    let private = |path: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    for file in FILES.iter().filter(|file| file.path.contains(CONVERSATION)) {
        let path = config.join(file.path);
        private(path.parent().unwrap_or(config))?;
        std::fs::write(&path, file.text.replacen("enabled: false", "enabled: true", 1))?;
    }
    let folder = memory::prepare(config)?;
    let pointing_at = pointing.config(&peers.provider_url, &peers.telegram_url);
    std::fs::write(config.join("config.yaml"), folder + &pointing_at)?;
    let credentials = config.join("credentials");
    private(&credentials)?;
    for (name, secret) in pointing.credentials() {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(credentials.join(name))?;
        std::io::Write::write_all(&mut file, secret.as_bytes())?;
    }
    Ok(())
}

async fn tell(
    service: &Service,
    stage: &Stage,
    peers: &Rehearsal,
    (chat, config): ((i64, i64), &Path),
    keep: bool,
    tale: &mut Tale<'_>,
) -> Result<Exit, Failure> {
    tale.line("A rehearsal on a throw-away log: the provider and Telegram are played on this machine.\n")?;
    tale.flush()?;
    let begun = Instant::now();
    let events = delivered(service).await?;
    tale.line(&format!(
        "Two messages were answered and delivered ({:.1} s):",
        begun.elapsed().as_secs_f64()
    ))?;
    let mut turns = Vec::new();
    for request in peers.provider_requests() {
        let asked = request.json();
        let said = asked["messages"].as_array().and_then(|all| all.last()?["content"].as_str());
        tale.line(&format!("  Ada  {}", printable(said.unwrap_or_default())))?;
        let reply = peers.sent_messages().into_iter().nth(usize::try_from(request.number - 1).unwrap_or(0));
        let answered = reply.as_ref().map(|reply| reply.text.reveal());
        turns.push(json!({ "said": said, "answered": answered }));
        if let Some(reply) = reply {
            tale.line(&format!("  bot  {}", printable(reply.text.reveal())))?;
        }
    }
    tale.fact("turns", &turns)?;
    let reader = service.handle().reader();
    tale.line("\nHow, as the log has it:")?;
    tell_events(&events, tale)?;
    let consumer =
        ConsumerId::parse(CONVERSATION).map_err(|error| Failure::of(Exit::Bug, "demo.consumer", &error))?;
    let mut runs = story::runs_of(&reader, &consumer)?;
    runs.sort_by_key(|run| run.position);
    tale.line("\nWhat was reserved before each request, and what it was charged:")?;
    tell_accounts(&reader, &runs, tale)?;
    let counters = peers.counters();
    tale.fact("requests", &counters.provider.requests)?;
    tale.fact("arrived", &counters.telegram.sent)?;
    tale.line(&format!(
        "\nThe provider counted {}, and {} arrived in the chat.",
        count(counters.provider.requests, "request"),
        count(counters.telegram.sent, "message")
    ))?;
    memory::tell(service, peers, chat, config, tale).await?;
    tale.line("")?;
    let live = story::live(service).await?;
    let exit = story::tell_check(service, &live, tale).await?;
    tell_next(stage, &runs, &events, keep, tale)?;
    Ok(exit)
}

/// Waits until every reply has its receipt; returns all events.
async fn delivered(service: &Service) -> Result<Vec<Event>, Failure> {
    let begun = Instant::now();
    loop {
        let reader = service.handle().reader();
        let looked = tokio::task::spawn_blocking(move || reader.page_after(0, 1000)).await;
        let events = looked.map_err(|_| Failure::new(Exit::Bug, "demo.look", "the look failed"))??;
        let arrived = events.iter().filter(|event| event.kind.to_string().starts_with(DELIVERED)).count();
        if arrived >= TURNS {
            return Ok(events);
        }
        if begun.elapsed() > PATIENCE {
            let what = format!("{arrived} of {TURNS} replies arrived within a minute");
            return Err(Failure::new(Exit::Refused, "demo.stuck", what).with_hint(
                "`thought demo --conversation --keep` keeps the log, and `thought why` says why",
            ));
        }
        sleep(PAUSE).await;
    }
}

/// Tells what happened, each with its age since the person wrote for the first time.
fn tell_events(events: &[Event], tale: &mut Tale<'_>) -> Result<(), Failure> {
    let of_chat = |event: &&Event| event.kind.to_string().contains(".source.telegram.");
    let Some(first) = events.iter().find(of_chat) else { return Ok(()) };
    let mut rows = Rows::new(&["AFTER", "EVENT", "SOURCE", "ID"]).numbers(0);
    let mut told = Vec::new();
    for event in events.iter().filter(|event| event.position >= first.position) {
        let after = event.recorded_at.as_millis() - first.recorded_at.as_millis();
        let kind = event.kind.to_string();
        told.push(json!({ "afterMs": after, "type": kind, "source": event.source, "id": event.id }));
        rows.row(&[
            format!("{after} ms"),
            kind.trim_start_matches("stream.thought.").to_owned(),
            event.source.to_string(),
            event.id.to_string(),
        ]);
    }
    tale.fact("events", &told)?;
    tale.text(&story::indented(&rows.text()))?;
    Ok(())
}

fn tell_accounts(reader: &Reader, runs: &[Run], tale: &mut Tale<'_>) -> Result<(), Failure> {
    let mut rows = Rows::new(&["RUN", "STATE", "RESERVED", "CHARGED"]);
    let mut told = Vec::new();
    for run in runs {
        let tokens =
            |amounts: &Amounts| format!("{} + {} tokens", amounts.input_tokens, amounts.output_tokens);
        let entry = reader.entry(run)?;
        let reserved = entry.as_ref().map(|entry| entry.reservation.estimate);
        let settled = entry.and_then(|entry| entry.settlement).map(|settlement| settlement.settled);
        let charged = |settled: Settled| {
            settled.charge().map_or_else(|| "none: not sent".to_owned(), |charge| tokens(&charge.amounts))
        };
        told.push(json!({
            "run": run.id,
            "state": run.state.as_str(),
            "reserved": reserved,
            "charged": settled.as_ref().and_then(Settled::charge).map(|charge| &charge.amounts),
        }));
        let reserved = reserved.as_ref().map(tokens).unwrap_or_default();
        rows.row(&[
            run.id.to_string(),
            run.state.as_str().to_owned(),
            reserved,
            settled.map(charged).unwrap_or_default(),
        ]);
    }
    tale.fact("accounts", &told)?;
    tale.text(&story::indented(&rows.text()))?;
    Ok(())
}

/// Says what to try next.
fn tell_next(
    stage: &Stage,
    runs: &[Run],
    events: &[Event],
    keep: bool,
    tale: &mut Tale<'_>,
) -> Result<(), Failure> {
    tale.line("\nThree commands to try:")?;
    let lines = match (keep, runs.last(), events.last()) {
        (true, Some(run), Some(event)) => {
            let data = printable(&stage.data.display().to_string());
            [
                format!("thought --data {data} context show {}    # what the model saw", run.id),
                format!("thought --data {data} event lineage {}   # where a receipt comes from", event.id),
                format!("thought --data {data} delivery list    # what was delivered"),
            ]
        }
        _ => [
            "thought demo --conversation --keep         # the same, and the log stays to be looked at"
                .to_owned(),
            "thought rehearse --example > script.yaml   # what a provider and a bot do wrong, as a script"
                .to_owned(),
            "thought rehearse script.yaml               # play it for a configuration of your own".to_owned(),
        ],
    };
    for line in lines {
        tale.line(&format!("  {line}"))?;
    }
    Ok(())
}
