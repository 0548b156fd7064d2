//! What a service takes while nothing happens: with the declarations that ship, with very many, and with a bot whose
//! messages a conversation answers.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use thoughtstream_channels::rehearsal::{Rehearsal, Script};
use thoughtstream_surface::bench::{BenchError, Ratio, Scratch};

use super::process::{Home, Running};
use super::{Found, Plan};

const MEGABYTE: f64 = 1_000_000.0;

/// Measures both.
pub(crate) fn run(plan: &Plan) -> Result<Found, BenchError> {
    let mut ratios = shipped(plan)?;
    ratios.extend(many(plan)?);
    ratios.push(conversation(plan)?);
    Ok(Found { rows: Vec::new(), ratios })
}

fn shipped(plan: &Plan) -> Result<Vec<Ratio>, BenchError> {
    let scratch = Scratch::below(&plan.dir)?;
    let home = Home::below(scratch.path())?;
    home.thought(&["init"])?;
    // The first start registers the declarations; what follows is every day's.
    Running::start(&home)?.stop()?;
    let mut ready = Vec::new();
    let mut resident = 0;
    for _ in 0..plan.rounds {
        let service = Running::start(&home)?;
        service.until_idle()?;
        ready.push(service.ready);
        resident = resident.max(service.resident()?);
        service.stop()?;
    }
    ready.sort_unstable();
    let median = ready[ready.len() / 2].as_secs_f64() * 1000.0;
    Ok(vec![
        Ratio::at_most("shipped declarations: ready after milliseconds", median, 100.0),
        Ratio::at_most("shipped declarations: idle, resident megabytes", resident as f64 / MEGABYTE, 30.0),
    ])
}

/// How long nothing is said in a conversation while its cost is taken.
const SILENCE: Duration = Duration::from_secs(20);

/// Starts a service with an enabled conversation, and its bot, to whom nobody writes.
fn conversation(plan: &Plan) -> Result<Ratio, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rehearsal = runtime.block_on(Rehearsal::start(Script::default())).map_err(BenchError::of)?;
    let scratch = Scratch::below(&plan.dir)?;
    let home = Home::below(scratch.path())?;
    home.thought(&["init"])?;
    let config = format!(
        "sources: []\nproviders:\n  - {{ name: local, endpoint: {}, models: [smollm2-135m-instruct], toolModels: [smollm2-135m-instruct] }}\n\
         telegram:\n  - {{ bot: bot, api: {}, credential: bot, chats: [\"7\"], senders: [\"7\"], directReplies: \
         telegram-conversation }}\n",
        rehearsal.provider_url, rehearsal.telegram_url
    );
    std::fs::write(home.config.join("config.yaml"), config)?;
    let declared = home.config.join("declarations/telegram-conversation.yaml");
    let text = std::fs::read_to_string(&declared)?.replacen("enabled: false", "enabled: true", 1);
    std::fs::write(declared, text)?;
    let token = home.config.join("credentials/bot");
    std::fs::create_dir_all(token.with_file_name(""))?;
    std::fs::write(&token, "100000001:rehearsal\n")?;
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600))?;
    let service = Running::start(&home)?;
    service.until_idle()?;
    let before = service.used()?;
    std::thread::sleep(SILENCE);
    let used = service.used()? - before;
    service.stop()?;
    let each = used.as_secs_f64() * 1000.0 / SILENCE.as_secs_f64();
    Ok(Ratio::at_most("an enabled conversation, silent: processor milliseconds a second", each, 1.0))
}

/// Starts a service with very many consumers, each of a source of its own, and adds one file for one of them.
fn many(plan: &Plan) -> Result<Vec<Ratio>, BenchError> {
    let scratch = Scratch::below(&plan.dir)?;
    let home = Home::below(scratch.path())?;
    let notes = scratch.path().join("notes");
    std::fs::create_dir(&notes)?;
    let config = format!("sources:\n  - filesystem: n0\n    root: {}\n", notes.display());
    std::fs::write(home.config.join("config.yaml"), config)?;
    for number in 0..plan.consumers {
        let name = home.config.join(format!("declarations/c{number}.yaml"));
        std::fs::write(name, declaration(number))?;
    }
    let first = Running::start(&home)?;
    let first_ready = first.ready;
    first.until_idle()?;
    first.stop()?;
    let service = Running::start(&home)?;
    service.until_idle()?;
    let resident = service.resident()?;
    let used = service.used()?;
    std::fs::write(notes.join("a.md"), "# One\n")?;
    let runs = until_run(&home)?;
    service.until_idle()?;
    let used = service.used()? - used;
    let ready = service.ready;
    service.stop()?;
    let count = plan.consumers;
    let seconds = |time: Duration| time.as_secs_f64();
    Ok(vec![
        Ratio::at_most(&format!("{count} consumers: ready after seconds"), seconds(ready), 3.0),
        Ratio::at_most(&format!("{count} consumers: first start, seconds"), seconds(first_ready), 3.0),
        Ratio::at_most(
            &format!("{count} consumers: idle, resident megabytes"),
            resident as f64 / MEGABYTE,
            250.0,
        ),
        Ratio::at_most(&format!("{count} consumers: runs that one file started"), runs as f64, 1.0),
        Ratio::at_most(
            &format!("{count} consumers: processor milliseconds for one file"),
            seconds(used) * 1000.0,
            100.0,
        ),
    ])
}

fn until_run(home: &Home) -> Result<usize, BenchError> {
    let begun = Instant::now();
    loop {
        let runs = home.thought(&["--json", "run", "list"])?;
        let count = runs.lines().count();
        if count > 0 || begun.elapsed() > Duration::from_secs(30) {
            return Ok(count);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn declaration(number: usize) -> String {
    let mut text = format!("id: c{number}\nversion: 1\nenabled: true\ndescription: Is one of very many.\n");
    write!(
        text,
        "subscribe:\n  types: [stream.thought.source.file.added, stream.thought.source.file.changed]\n  \
         sources: [filesystem:n{number}]\nrunner: {{ kind: deterministic, transform: document-links }}\n\
         emit: [stream.thought.derived.document.links]\npolicy: {{ tools: [], externalActions: false }}\n"
    )
    .expect("writing to a String does not fail");
    text
}
