//! The part of the conversation in which somebody asks to be remembered: the model proposes, the viewer decides, and
//! trusted code writes exactly that.

use std::io::BufRead as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use thoughtstream_actors::service::Service;
use thoughtstream_channels::rehearsal::Rehearsal;
use thoughtstream_domain::event::Reference;
use thoughtstream_domain::id::{EventId, SourceId};
use thoughtstream_domain::payload::proposal::Disposition;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::capability::{MEMORY_PATH, MEMORY_SOURCE};
use thoughtstream_store::Reader;
use tokio::time::sleep;

use super::conversation::{PATIENCE, PAUSE};
use super::tale::Tale;
use crate::chance;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{Operation, ourselves};
use crate::proposals::{DecideRequest, Next, ROUNDS_MAX, next, overtaken, settled};
use crate::query::proposals::{Eye, Home, Proposal, State, one};
use crate::render;
use crate::render::foreign::{Room, framed};
use crate::session::now;

/// What Ada asks for.
const ASKED: &str = "Please remember: I moved to Lisbon.";

/// What is known of Ada before.
const BEFORE: &str = "---\nid: memory\n---\n\n# Ada\n\nGrows beans.\n";

/// Writes the document that a memory change is about, and returns what the configuration says of its folder.
pub(super) fn prepare(config: &Path) -> std::io::Result<String> {
    let root = folder(config);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(root.join(MEMORY_PATH))?;
    std::io::Write::write_all(&mut file, BEFORE.as_bytes())?;
    let name = MEMORY_SOURCE.trim_start_matches("filesystem:");
    let root = serde_json::Value::from(root.display().to_string());
    Ok(format!("sources:\n  - {{ filesystem: {name}, root: {root}, privacy: sensitive }}\n"))
}

fn folder(config: &Path) -> PathBuf {
    config.join("context")
}

/// Lets Ada ask, shows what is proposed, has it decided, and shows what became of the file.
pub(super) async fn tell(
    service: &Service,
    peers: &Rehearsal,
    (chat, from): (i64, i64),
    config: &Path,
    tale: &mut Tale<'_>,
) -> Result<(), Failure> {
    // What the model may propose to change is what the log has.
    until(service, "the memory document was not seen", |reader| {
        let source =
            SourceId::parse(MEMORY_SOURCE).map_err(|error| Failure::of(Exit::Bug, "demo.source", &error))?;
        Ok(reader.document_at(&source, MEMORY_PATH)?)
    })
    .await?;
    peers.say(chat, from, ASKED);
    let root = service.handle().context_root();
    let found = root.clone();
    let proposal = until(service, "nothing was proposed", move |reader| {
        let home = Home::of(found.clone());
        let proposed = reader.proposals()?;
        let Some(event) = proposed.first() else { return Ok(None) };
        Ok(one(reader, event, Eye::alone(&home, true))?
            .filter(|proposal| proposal.kind == Kind::MemoryChange))
    })
    .await?;
    tale.line(&format!(
        "\nThen Ada wrote: {ASKED}\nThe model asked to remember that, and nothing has changed:\n"
    ))?;
    tale.text(&super::story::indented(&render::proposals::one(&proposal, Room::Glance, now())))?;
    let disposition = ask(tale).await?;
    let rejected = disposition == Disposition::Reject;
    decide(service, proposal.id, disposition).await?;
    let id = proposal.id;
    let decided = until(service, "the decision came to no end", move |reader| {
        let home = Home::of(root.clone());
        let Some(event) = reader.event(&id)? else { return Ok(None) };
        let ends = |state| matches!(state, State::Rejected | State::Materialized | State::Failed);
        Ok(one(reader, &event, Eye::alone(&home, true))?.filter(|proposal| ends(proposal.state)))
    })
    .await?;
    said(&decided, tale)?;
    tale.fact("proposal", &decided)?;
    let text = std::fs::read_to_string(folder(config).join(MEMORY_PATH)).map_err(|error| {
        Failure::new(Exit::CouldNotLook, "demo.memory", "cannot read memory.md").because(&error)
    })?;
    tale.fact("memory", &text)?;
    tale.line(if rejected { "memory.md is as it was:" } else { "memory.md now:" })?;
    tale.text(&framed(&text, Room::Glance, ""))?;
    Ok(())
}

/// Asks the viewer, or decides where nobody can be asked.
async fn ask(tale: &mut Tale<'_>) -> Result<Disposition, Failure> {
    if !tale.has_a_viewer() {
        tale.line("\nThere is no terminal to ask you at, so the demonstration accepts it in your place.")?;
        return Ok(Disposition::Accept);
    }
    loop {
        tale.text("\nIs it to be remembered? You decide: accept (a) or reject (r) ")?;
        tale.flush()?;
        // On a thread of its own: who interrupts the demonstration does not have to answer first.
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            read.ok().filter(|read| *read > 0).map(|_| line)
        });
        match line.await.ok().flatten().as_deref().map(str::trim) {
            Some("a" | "accept") => return Ok(Disposition::Accept),
            // Who leaves has not accepted.
            Some("r" | "reject") | None => return Ok(Disposition::Reject),
            Some(_) => {}
        }
    }
}

/// Decides as the operator's door does.
async fn decide(service: &Service, proposal: EventId, disposition: Disposition) -> Result<(), Failure> {
    let submission = Reference::parse("demo").map_err(|error| Failure::of(Exit::Bug, "demo.name", &error))?;
    let request = DecideRequest { proposal, disposition, submission };
    let operation = Operation { operator: ourselves(), now: now(), key: chance::key("decision")? };
    let handle = service.handle();
    for _ in 0..ROUNDS_MAX {
        let (service, asked, by) = (handle.clone(), request.clone(), operation.clone());
        let next = tokio::task::spawn_blocking(move || {
            next(&service.reader(), &Home::of(service.context_root()), &asked, &by)
        });
        let next = next.await;
        let commit =
            match next.map_err(|_| Failure::new(Exit::Bug, "demo.decide", "the decision failed"))?? {
                Next::Done(_) => return Ok(()),
                Next::Decide(commit, _) | Next::Project(commit) => commit,
            };
        let verdict = handle.decide(*commit).await;
        settled(verdict.map_err(|error| Failure::of(Exit::CouldNotLook, "log.write", &error))?)?;
    }
    Err(overtaken(&proposal))
}

fn said(decided: &Proposal, tale: &mut Tale<'_>) -> Result<(), Failure> {
    let Proposal { state, decision, outcome, code, .. } = decided;
    let word = decision.as_ref().map_or("", |decision| decision.disposition.as_str());
    let event = decision.as_ref().map_or_else(String::new, |decision| decision.event.to_string());
    tale.line(&format!("\nThe decision: {word}, {event}"))?;
    if let Some(outcome) = outcome {
        let code = code.as_ref().map_or_else(String::new, |code| format!(" [{code}]"));
        tale.line(&format!("Its receipt:  {}{code}, {outcome}", state.as_str()))?;
    }
    Ok(())
}

/// Looks at the log until something is there.
async fn until<T: Send + 'static>(
    service: &Service,
    missing: &str,
    look: impl Fn(&Reader) -> Result<Option<T>, Failure> + Clone + Send + 'static,
) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        let (reader, look) = (service.handle().reader(), look.clone());
        let looked = tokio::task::spawn_blocking(move || look(&reader)).await;
        if let Some(found) = looked.map_err(|_| Failure::new(Exit::Bug, "demo.look", "the look failed"))?? {
            return Ok(found);
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::new(Exit::Refused, "demo.stuck", format!("{missing} within a minute"))
                .with_hint(
                    "`thought demo --conversation --keep` keeps the log, and `thought inbox` says why",
                ));
        }
        sleep(PAUSE).await;
    }
}
