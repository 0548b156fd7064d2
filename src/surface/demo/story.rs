//! What is told while the service of a demonstration runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use thoughtstream_actors::service::Service;
use thoughtstream_domain::declaration::{Catalog, DeclarationSet};
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::lifecycle::{Run, RunState};
use thoughtstream_domain::text::printable;
use thoughtstream_store::{Reader, RowError};
use tokio::time::sleep;

use super::tale::Tale;
use super::{BEFORE, ON_THE_WAY, Stage};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::query::consumers::{self, Consumer, State};
use crate::query::inbox::Waiting;
use crate::query::proposals::Home;
use crate::query::{Live, Look, inbox, tree, verify};
use crate::render::{self, Rows, count};
use crate::session::now;
use crate::socket::Progress;

/// How often the log is looked at.
const PAUSE: Duration = Duration::from_millis(50);

/// Without any new event for this long, something is stuck; retries of a minute and less are waited for.
const STILL: Duration = Duration::from_secs(120);

/// Plays and tells the story; the numbers are read from the log, not from memory.
pub(super) async fn tell(service: &Service, stage: &Stage, tale: &mut Tale<'_>) -> Result<Exit, Failure> {
    let begun = Instant::now();
    tale.line("A rehearsal on a throw-away log: nothing in your folder is changed.")?;
    tale.line(&format!("  folder  {}", printable(&stage.folder.display().to_string())))?;
    tale.line(&format!("  log     {}\n", printable(&stage.data.display().to_string())))?;
    tale.flush()?;
    let (all, about_files) = settled(service).await?;
    let reader = service.handle().reader();
    let files =
        counts(&reader)?.iter().filter(|(kind, _)| kind.contains(".source.file.")).map(|(_, n)| n).sum();
    tell_events(files, &all, begun, tale)?;
    tell_files(&about_files, tale)?;
    let live = live(service).await?;
    tell_deaths(&reader, &live, tale)?;
    tale.fact("alive", &live.tree)?;
    tale.line("\nWho is alive now:")?;
    tale.text(&indented(&render::tree::tree(&live.tree, now())))?;
    tale.line("\nWhat the log holds:")?;
    let mut rows = Rows::new(&["EVENTS", "TYPE"]).numbers(0);
    let counts = counts(&reader)?;
    tale.fact("events", &counts)?;
    for (kind, count) in counts {
        rows.row(&[count.to_string(), kind]);
    }
    tale.text(&indented(&rows.text()))?;
    tell_check(service, &live, tale).await
}

fn tell_events(files: u64, all: &[Consumer], begun: Instant, tale: &mut Tale<'_>) -> Result<(), Failure> {
    if files == 0 {
        return Err(Failure::new(Exit::Refused, "demo.empty", "there is no file to watch in this folder")
            .with_hint("name a folder with notes, or none to use the sample notes: `thought demo`"));
    }
    tale.fact("files", &files)?;
    tale.fact("consumers", &all.len())?;
    let time = begun.elapsed();
    tale.line(&format!(
        "{} became events; {} derived from them ({:.1} s).",
        count(files, "file"),
        count(all.len() as u64, "consumer"),
        time.as_secs_f64()
    ))?;
    Ok(())
}

/// Tells which files gave nothing, and why.
fn tell_files(about_files: &[Waiting], tale: &mut Tale<'_>) -> Result<(), Failure> {
    tale.fact("unread", &about_files)?;
    if about_files.is_empty() {
        return Ok(());
    }
    tale.line(
        "\nSome files cannot be read as they are; the others went on, and `thought inbox` would show:",
    )?;
    for one in about_files {
        let which = one.about.as_ref().map_or_else(String::new, |about| format!("  {}", about.what));
        tale.line(&printable(&format!("  {}{which}  {}", one.kind.as_str(), one.why)))?;
    }
    Ok(())
}

/// Tells which actors died, and what the log says about the attempts they left.
fn tell_deaths(reader: &Reader, live: &Live, tale: &mut Tale<'_>) -> Result<(), Failure> {
    let mut deaths = Vec::new();
    let nodes = tree::ConsumerNodes::of(&live.tree);
    for id in [ON_THE_WAY, BEFORE] {
        let consumer =
            ConsumerId::parse(id).map_err(|error| Failure::of(Exit::Bug, "demo.consumer", &error))?;
        let Some(node) = nodes.get(&consumer).filter(|node| node.restarts > 0) else {
            continue;
        };
        let how = node.last_exit.as_ref().map_or_else(|| "ended".to_owned(), tree::LastExit::code);
        tale.line(&format!("\n{id} was {} in the middle of a settlement and came back:", printable(&how)))?;
        let runs = runs_of(reader, &consumer)?;
        let Some(lost) = runs.iter().find(|run| is_interrupted(run)) else {
            deaths.push(json!({ "consumer": id, "how": how, "attempts": [] }));
            tale.line("  its settlement was on the way to the log and landed: the work is not done again")?;
            continue;
        };
        tale.line(
            "  its settlement had not been handed in: the attempt is recorded as lost, another one follows",
        )?;
        let mut attempts: Vec<&Run> = runs.iter().filter(|run| run.execution == lost.execution).collect();
        attempts.sort_by_key(|run| run.attempt);
        let told = attempts
            .iter()
            .map(|run| json!({ "attempt": run.attempt, "run": run.id, "state": run.state.as_str() }));
        deaths.push(json!({ "consumer": id, "how": how, "attempts": told.collect::<Vec<_>>() }));
        for run in attempts {
            tale.line(&format!("  attempt {}  {}  {}", run.attempt, run.id, run.state.as_str()))?;
        }
    }
    tale.fact("deaths", &deaths)?;
    if deaths.is_empty() {
        tale.line("\nNo consumer was killed: none of the files was one for it.")?;
    }
    Ok(())
}

fn is_interrupted(run: &Run) -> bool {
    matches!(run.state, RunState::StatusUnknown { .. } | RunState::Abandoned { .. })
}

pub(super) fn runs_of(reader: &Reader, consumer: &ConsumerId) -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    for key in reader.consumers().into_iter().filter(|key| key.id == *consumer) {
        let mut before = None;
        loop {
            let page = reader.runs_before(&key, before, 1000)?;
            let Some(last) = page.last() else { break };
            before = Some(last.position);
            runs.extend(page);
        }
    }
    Ok(runs)
}

pub(super) async fn tell_check(service: &Service, live: &Live, tale: &mut Tale<'_>) -> Result<Exit, Failure> {
    let (handle, live) = (service.handle().clone(), live.clone());
    let bar = Bar::new("verifying", "events");
    let checked = tokio::task::spawn_blocking(move || {
        let (declared, catalog) = (handle.declarations(), Catalog::of(&handle.registry()));
        let (reader, home) = (handle.reader(), Home::of(handle.context_root()));
        let look = look(&reader, &live, &declared, &catalog, &home);
        let mut sink = Watched(&bar);
        let report = verify::verify(&look, None, &mut sink);
        bar.done();
        report
    });
    let report = checked.await.map_err(|_| Failure::new(Exit::Bug, "demo.check", "the check failed"))??;
    tale.line("\nThe check an operator runs (`thought verify`):")?;
    tale.fact("verify", &report)?;
    let value = serde_json::to_value(&report).and_then(serde_json::from_value::<render::verify::Report>);
    let shown = value.map_err(|error| Failure::new(Exit::Bug, "demo.check", "a report").because(&error))?;
    tale.text(&indented(&render::verify::report(&shown)))?;
    if report.ok {
        tale.line("\nNothing was lost, and nothing was done twice.")?;
        return Ok(Exit::Done);
    }
    Ok(Exit::Refused)
}

struct Watched<'a>(&'a Bar);

impl crate::query::Sink for Watched<'_> {
    fn value(&mut self, _: serde_json::Value) -> Result<(), Failure> {
        Ok(())
    }

    fn progress(&mut self, progress: Progress) {
        self.0.at(progress);
    }
}

fn look<'a>(
    reader: &'a Reader,
    live: &'a Live,
    declared: &'a DeclarationSet,
    catalog: &'a Catalog,
    home: &'a Home,
) -> Look<'a> {
    Look { reader, live: Some(live), declared: Some(declared), catalog, home, now: now() }
}

pub(super) async fn live(service: &Service) -> Result<Live, Failure> {
    crate::desk::live_of(service.handle(), now()).await
}

/// Waits until the folder was looked at and every consumer has done everything there is.
async fn settled(service: &Service) -> Result<(Vec<Consumer>, Vec<Waiting>), Failure> {
    let bar = Bar::new("working", "events closed");
    let (mut head, mut moved) = (0, Instant::now());
    loop {
        let live = live(service).await?;
        let (handle, shown) = (service.handle().clone(), live.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let (declared, catalog) = (handle.declarations(), Catalog::of(&handle.registry()));
            let (reader, home) = (handle.reader(), Home::of(handle.context_root()));
            let look = look(&reader, &shown, &declared, &catalog, &home);
            let waiting = inbox::inbox(&look)?;
            Ok::<_, Failure>((consumers::list(&look, &[])?, waiting, reader.last_position()?))
        });
        let looked = looked.await.map_err(|_| Failure::new(Exit::Bug, "demo.look", "the look failed"))?;
        let (all, waiting, position) = looked?;
        // What is told of single files stops nothing; everything else that waits does.
        if let Some(first) = waiting.iter().find(|one| !one.is_about_files()) {
            let what = format!("{} {}: {}", first.kind.as_str(), first.id, first.why);
            return Err(Failure::new(Exit::Refused, "demo.stopped", what));
        }
        let behind: u64 = all.iter().map(|consumer| consumer.behind.events).sum();
        bar.at(Progress { done: position, total: position + behind });
        let idle = all.iter().all(|consumer| consumer.state == State::Idle);
        if idle && was_looked_at(&live.tree) {
            bar.done();
            return Ok((all, waiting));
        }
        if position != head {
            (head, moved) = (position, Instant::now());
        }
        if moved.elapsed() > STILL {
            return Err(Failure::new(Exit::Refused, "demo.stuck", "nothing has moved for two minutes"));
        }
        sleep(PAUSE).await;
    }
}

/// Says whether the producer has finished its first look.
fn was_looked_at(root: &tree::Node) -> bool {
    let producers = root.children.iter().filter(|child| child.name == "producers");
    let mut below = producers.flat_map(|producers| &producers.children);
    below.all(|node| {
        node.detail.get("looks").and_then(serde_json::Value::as_u64).is_some_and(|looks| looks > 0)
    })
}

/// Counts the events of the log by type.
fn counts(reader: &Reader) -> Result<BTreeMap<String, u64>, RowError> {
    let mut counts = BTreeMap::new();
    let mut after = 0;
    loop {
        let page = reader.page_after(after, 1000)?;
        let Some(last) = page.last() else { return Ok(counts) };
        after = last.position;
        for event in page {
            *counts.entry(event.kind.to_string()).or_default() += 1;
        }
    }
}

pub(super) fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |all, line| all + "  " + line + "\n")
}
