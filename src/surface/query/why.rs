//! What blocks a thing and what moves it, or what became of it.

use serde::{Deserialize, Serialize};
use thoughtstream_channels::filesystem::change::event_ids;
use thoughtstream_channels::filesystem::scan::SkipReason;
use thoughtstream_domain::accounting::BUDGET_EXHAUSTED;
use thoughtstream_domain::commit::{Document, ExecutionKey};
use thoughtstream_domain::dispatch::{AwaitedReply, State as DeliveryState};
use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::{
    ConsumerId, ConsumerKey, DeliveryId, DocumentId, EventId, ExecutionId, SourceId,
};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState, RunState};
use thoughtstream_domain::text::printable;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::consumers::{self, Consumer, State};
use super::deliveries::{self, Delivery};
use super::events::find;
use super::inbox::is_passed;
use super::proposals::{self, Proposal};
use super::runs::find_execution;
use super::{Look, damaged, inbox, unknown};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::count;

/// Says what blocks a thing or what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// What was asked about.
    pub id: String,
    /// What sort of thing it is.
    pub kind: String,
    /// Where it stands, in a word.
    pub state: String,
    /// Since when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The one fact that matters, in a sentence.
    pub fact: String,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The commands that move it, or that show more, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The same question about each consumer of an event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<Self>,
}

fn plain(id: impl std::fmt::Display, kind: &str, state: &str, fact: String) -> Why {
    Why {
        id: id.to_string(),
        kind: kind.to_owned(),
        state: state.to_owned(),
        since: None,
        fact,
        next: None,
        commands: Vec::new(),
        consumers: Vec::new(),
    }
}

/// Answers for an event, a run, an execution, a delivery, a consumer, a document or a source.
///
/// # Errors
/// [`Failure`] if the text names nothing, or the log cannot be read.
pub fn why(look: &Look<'_>, id: &str) -> Result<Why, Failure> {
    if id.starts_with("run_") || id.starts_with("exe_") {
        let execution = find_execution(look.reader, id)?;
        let mut answer = of_execution(look.reader, &execution, id)?;
        if let Some(about) = inbox::about(look.reader, &execution)? {
            answer.fact.push_str(&format!("; it is about {}", about.shown()));
        }
        return Ok(answer);
    }
    if let Ok(delivery) = DeliveryId::parse(id) {
        return Ok(of_delivery(&deliveries::one(look.reader, &delivery)?));
    }
    if let Ok(event) = EventId::parse(id) {
        return of_event(look, &find(&look.reader.showing_damage(), &event)?);
    }
    if let Ok(document) = DocumentId::parse(id) {
        return of_document(look, &document);
    }
    if let Ok(source) = SourceId::parse(id) {
        return of_source(look, &source);
    }
    let name = id.split_once('@').map_or(id, |(name, _)| name);
    let consumer = ConsumerId::parse(name);
    let is_consumer = match &consumer {
        Ok(consumer) => !consumers::versions(look, consumer)?.is_empty(),
        Err(_) => false,
    };
    // The inbox names things by words that are no ids: the log, the service, an actor by its place in the tree.
    if !is_consumer && let Some(answer) = of_inbox(look, id)? {
        return Ok(answer);
    }
    match consumer {
        Ok(consumer) => of_consumer(look, &consumer, id),
        Err(_) => Err(Failure::new(
            Exit::Usage,
            "id.kind",
            format!("`{id}` is no id this program gives out"),
        )
        .with_hint(
            "ids start with evt_, run_, exe_, dlv_ or doc_; a source is kind:name; a consumer is its id",
        )),
    }
}

fn of_execution(reader: &Reader, execution: &Execution, id: &str) -> Result<Why, Failure> {
    let kind = if id.starts_with("run_") { "run" } else { "execution" };
    let consumer = &execution.consumer;
    let attempts = execution.attempts;
    let mut answer = match &execution.state {
        ExecutionState::Running => {
            let fact = format!("attempt {attempts} of {consumer} is open");
            plain(id, kind, "running", fact)
        }
        ExecutionState::Waiting { .. } | ExecutionState::Held { .. }
            if !consumers::is_on(reader, consumer)? =>
        {
            let fact = format!(
                "it waits for a disabled consumer: the declarations that were loaded last do not enable {consumer}"
            );
            let commands = vec!["thought reload".to_owned(), skip_command(&execution.id)];
            Why { commands, ..plain(id, kind, execution.state.status().as_str(), fact) }
        }
        ExecutionState::Waiting { at, code } if code == BUDGET_EXHAUSTED => {
            let fact =
                format!("{consumer} waits for its budget: an attempt is made when its account admits one");
            let commands = vec![consumers::show_account(&consumer.id), skip_command(&execution.id)];
            Why { next: Some(*at), commands, ..plain(id, kind, State::AwaitingBudget.as_str(), fact) }
        }
        ExecutionState::Waiting { at, code } => {
            let fact = format!("attempt {attempts} of {consumer} ended with {code}; the next may start then");
            let commands =
                vec![format!("thought consumer retry {}", execution.id), skip_command(&execution.id)];
            Why { next: Some(*at), commands, ..plain(id, kind, "waiting", fact) }
        }
        ExecutionState::Held { code, quarantined } => {
            let word = if *quarantined { "quarantined" } else { "held" };
            let fact = format!(
                "{consumer} stands still on {} after {} ({code}): a person retries or skips it",
                execution.source,
                count(attempts, "attempt")
            );
            let commands =
                vec![format!("thought consumer retry {}", execution.id), skip_command(&execution.id)];
            Why { commands, ..plain(id, kind, word, fact) }
        }
        ExecutionState::Closed { how } => {
            let key = ExecutionKey { consumer: consumer.clone(), position: execution.position() };
            let last = reader.attempts(&key)?.pop().map(|run| run.state);
            let code = last.as_ref().and_then(RunState::code);
            let (word, fact) = closed(*how, consumer, attempts, code);
            let mut answer = plain(id, kind, word, fact);
            if is_passed(execution) {
                let shown =
                    execution.triggers.iter().map(|trigger| format!("thought event show {}", trigger.id));
                answer.commands.extend(shown);
                answer.commands.push(skip_command(&execution.id));
            }
            if let Some(RunState::Completed { outputs }) = &last {
                for output in outputs {
                    if let Some(delivery) = deliveries::of_output(reader, output)? {
                        answer.fact = format!("{}; {}", answer.fact, delivered(&delivery));
                        answer.commands.extend(ways(&delivery));
                    }
                }
            }
            answer.commands.push(format!("thought run show {}", execution.id));
            answer
        }
    };
    answer.since = Some(execution.since);
    Ok(answer)
}

/// Says where a consumer stands with an event, if it has begun it.
pub(super) fn fact_of(reader: &Reader, key: &ConsumerKey, event: &Event) -> Result<Option<String>, Failure> {
    let Some(execution) = reader.execution_of(key, event)? else { return Ok(None) };
    Ok(Some(of_execution(reader, &execution, &execution.id.to_string())?.fact))
}

/// Says where a delivery stands, in words.
fn delivered(delivery: &Delivery) -> String {
    let (id, chat) = (&delivery.id, delivery.chat);
    let why = delivery.why.as_deref().unwrap_or("no reason recorded");
    match delivery.state {
        DeliveryState::Claimed => format!("it is on its way to chat {chat} ({id})"),
        DeliveryState::Waiting => format!("it was not sent to chat {chat} ({why}) and is tried again ({id})"),
        DeliveryState::Delivered => format!("chat {chat} has it ({id})"),
        DeliveryState::Failed => format!("it was not delivered to chat {chat} ({why}; {id})"),
        DeliveryState::Unconfirmed => {
            format!("nobody knows whether it arrived in chat {chat} ({why}): a person says so ({id})")
        }
    }
}

/// Returns the commands that show or move a delivery, the harmless one first.
fn ways(delivery: &Delivery) -> Vec<String> {
    let mut ways = vec![deliveries::show(&delivery.id)];
    if delivery.state == DeliveryState::Unconfirmed {
        ways.extend(deliveries::ways(&delivery.id));
    }
    ways
}

fn of_delivery(delivery: &Delivery) -> Why {
    let fact = format!("the output of {}: {}", delivery.run, delivered(delivery));
    Why {
        since: Some(delivery.since),
        next: delivery.retry_at,
        commands: ways(delivery),
        ..plain(delivery.id, "delivery", delivery.state.as_str(), fact)
    }
}

/// Returns the command that passes an execution, or dismisses one that was passed unprocessed.
pub(crate) fn skip_command(execution: &ExecutionId) -> String {
    format!("thought consumer skip {execution} --reason TEXT")
}

fn closed(how: Closure, consumer: &ConsumerKey, attempts: u32, code: Option<&str>) -> (&'static str, String) {
    let code = code.unwrap_or("no code recorded");
    match how {
        Closure::Completed => ("completed", format!("{consumer} completed it with attempt {attempts}")),
        Closure::Failed => {
            ("failed", format!("attempt {attempts} of {consumer} failed on it ({code}), and it was passed"))
        }
        Closure::Unprocessed => {
            let fact = format!(
                "{consumer} could not process it ({code} in attempt {attempts}), and it was passed as declared"
            );
            ("unprocessed", fact)
        }
        Closure::Blocked => ("blocked", format!("{consumer} was denied it ({code}), and it was passed")),
        Closure::Abandoned => {
            let fact = format!("attempt {attempts} of {consumer} was given up ({code}), and it was passed");
            ("abandoned", fact)
        }
        Closure::Skipped => ("skipped", format!("a person passed it for {consumer}")),
        Closure::Superseded => ("superseded", format!("a newer version of {consumer} took over")),
        Closure::Inherited => {
            ("settled", format!("an earlier version settled it before {consumer} took over"))
        }
    }
}

/// Says where a proposal stands: its state and its ways out are those of the inbox.
fn of_proposal(proposal: Proposal) -> Why {
    let by = proposal.agent.map_or_else(|| "an agent".to_owned(), |agent| agent.to_string());
    let mut fact = format!("{by} proposed a {}", proposal.kind);
    let mut since = proposal.at;
    if let Some(decision) = proposal.decision {
        since = decision.at;
        fact.push_str(&format!("; {} decided: {}", decision.actor, decision.disposition));
    }
    // What is in the way of an accepted change is said once, by its hint.
    let outlook = proposal.outlook.as_ref();
    let outlook = outlook.filter(|outlook| proposal.code.is_none() || outlook.code != proposal.code);
    if let Some(code) = &proposal.code {
        fact.push_str(&format!("; {code}"));
    }
    if let Some(outcome) = proposal.outcome {
        fact.push_str(&format!("; it came to {outcome}"));
    }
    if let Some(outlook) = outlook {
        fact.push_str(&format!("; now {}", outlook.says()));
    }
    if let Some(hint) = proposal.hint.filter(|hint| !fact.contains(hint)) {
        fact.push_str(&format!("; {hint}"));
    }
    let mut commands = proposal.ways;
    commands.retain(|command| *command != proposals::why(&proposal.id));
    let show = proposals::show(&proposal.id);
    if !commands.contains(&show) {
        commands.push(show);
    }
    Why { since: Some(since), commands, ..plain(proposal.id, "proposal", proposal.state.as_str(), fact) }
}

fn of_event(look: &Look<'_>, event: &Event) -> Result<Why, Failure> {
    if event.payload == Payload::Damaged {
        return of_damaged(look, event);
    }
    if let Some(proposal) = proposals::one(look.reader, event, proposals::eye(look, false))? {
        return Ok(of_proposal(proposal));
    }
    let fact = format!("it is recorded as number {} of {}", event.sequence, event.source);
    let mut answer = Why {
        since: Some(event.recorded_at),
        commands: vec![format!("thought event lineage {}", event.id)],
        ..plain(event.id, "event", "recorded", fact)
    };
    for consumer in consumers::list(look, &[])? {
        if consumer.state == State::Disabled {
            continue;
        }
        if let Some(part) = part_of(look, event, &consumer)? {
            answer.consumers.push(part);
        }
    }
    if answer.consumers.is_empty() {
        answer.fact.push_str("; no enabled consumer listens to it");
    }
    Ok(answer)
}

/// Says that what is stored of an event is not what was recorded, and how that ends.
fn of_damaged(look: &Look<'_>, event: &Event) -> Result<Why, Failure> {
    let mut commands = vec!["thought verify".to_owned()];
    let standing = damaged::stood_before(look, &mut |_, _| {})?;
    for (damaged, consumers) in standing.iter().filter(|(damaged, _)| damaged.position == event.position) {
        commands.extend(consumers.iter().map(|consumer| damaged::skip_command(consumer, damaged)));
    }
    commands.push(damaged::redact_command(&event.id));
    let fact = format!(
        "it is recorded as number {} of {}, and what is stored of it is not what was recorded: nothing acts on it, \
         and who needs it stands still there until the log is restored, a person passes it, or it is erased where \
         only its payload is another",
        event.sequence, event.source
    );
    Ok(Why { since: Some(event.recorded_at), commands, ..plain(event.id, "event", "damaged", fact) })
}

/// Says what one consumer has to do with an event; nothing if it does not match.
fn part_of(look: &Look<'_>, event: &Event, consumer: &Consumer) -> Result<Option<Why>, Failure> {
    let key = &consumer.consumer;
    if let Some(execution) = look.reader.execution_of(key, event)? {
        let answer = of_execution(look.reader, &execution, &execution.id.to_string())?;
        return Ok(Some(Why { id: key.to_string(), ..answer }));
    }
    let matches = super::behind::matches(look, key, event)?;
    if matches == Some(false) {
        return Ok(None);
    }
    let progress = consumer.sources.iter().find(|standing| standing.source == event.source);
    let progress = progress.map_or(0, |standing| standing.progress);
    if event.sequence <= progress {
        // Passed without an execution: from before the declared start of its replay.
        let fact = format!("{key} started behind it: progress was set to {progress} or beyond");
        return Ok(matches.map(|_| plain(key, "consumer", "before-start", fact)));
    }
    if let Some(awaited) = look.reader.awaited_reply(event, &key.id)?
        && let Some(until) = awaited.until(look.now)
        && consumer.state == State::Behind
    {
        return Ok(matches.map(|_| waits_for(key, &awaited, until)));
    }
    let ahead = consumer.behind.events;
    let fact = match consumer.state {
        State::Quarantined
        | State::Held
        | State::Paused
        | State::Restarting
        | State::Retrying
        | State::AwaitingBudget => {
            format!("{key} has not reached it: it is {}", consumer.state.as_str())
        }
        State::Running | State::Behind | State::Idle | State::Disabled => {
            format!("{key} has not reached it yet; {ahead} matching events are not closed")
        }
    };
    let commands = consumer.command.clone().into_iter().collect();
    let (state, next) = (consumer.state.as_str(), consumer.next);
    Ok(matches.map(|_| Why { next, commands, ..plain(key, "consumer", state, fact) }))
}

/// Says that a message waits for what becomes of the reply to the one before it.
fn waits_for(key: &ConsumerKey, awaited: &AwaitedReply, until: Timestamp) -> Why {
    let fact = format!(
        "{key} waits until it is known whether its reply to the message before arrived, and goes on then at the latest"
    );
    let commands =
        vec!["thought delivery list".to_owned(), format!("thought event lineage {}", awaited.output)];
    let since = Some(awaited.since);
    Why { since, next: Some(until), commands, ..plain(key, "consumer", AwaitedReply::CODE, fact) }
}

fn of_document(look: &Look<'_>, id: &DocumentId) -> Result<Why, Failure> {
    let reader = look.reader;
    for head in reader.sources()? {
        let Some(document) = reader.document(&head.source, id)? else { continue };
        let (state, mut fact) = if document.removed {
            (
                "removed",
                format!("it was removed from {}; its {} versions stay", head.source, document.revision),
            )
        } else {
            ("present", format!("{} has it at revision {}", head.source, document.revision))
        };
        let mut last = None;
        for event in event_ids(&document) {
            last = reader.showing_damage().event(&event)?.or(last);
        }
        let command = last.as_ref().map_or_else(
            || format!("thought event list --source {}", head.source),
            |event| format!("thought event lineage {}", event.id),
        );
        let since = last.map(|event| event.recorded_at);
        let mut commands = vec![command];
        if let Some(same) = same_id(look, &document) {
            fact.push_str(&same);
            commands.push(format!("thought source skipped {}", document.source));
        }
        return Ok(Why { since, commands, ..plain(id, "document", state, fact) });
    }
    Err(unknown("document", id))
}

/// Names the files that share an id with a document; nothing where there are none, or nobody has looked.
fn same_id(look: &Look<'_>, document: &Document) -> Option<String> {
    let report = look.live?.skipped.get(&document.source)?.as_ref()?;
    let path = printable(&document.path);
    let doubles = || report.shown.iter().filter(|skip| skip.reason == SkipReason::DuplicateId);
    let way_out = "each is a document of its own: give each an id of its own";
    if document.removed {
        return None;
    }
    if let Some(double) = doubles().find(|double| double.shown == path) {
        let owner = double.owner.as_deref().unwrap_or("another file");
        return Some(format!("; its file names the id that {owner} has; {way_out}"));
    }
    let others: Vec<&str> = doubles()
        .filter(|double| double.owner.as_deref() == Some(path.as_str()))
        .map(|double| double.shown.as_str())
        .collect();
    (!others.is_empty()).then(|| format!("; its id is named by {} as well; {way_out}", others.join(", ")))
}

fn of_source(look: &Look<'_>, source: &SourceId) -> Result<Why, Failure> {
    let head = look.reader.head(source)?;
    let watched = look.live.is_some_and(|live| live.skipped.contains_key(source));
    let mut open = inbox::inbox(look)?;
    open.retain(|waiting| waiting.id == source.as_str());
    // A watched folder may have no event yet because of what is wrong with it.
    if head.is_none() && open.is_empty() && !watched {
        return Err(unknown("source", source));
    }
    let mut commands: Vec<String> = Vec::new();
    for incident in &open {
        if !commands.contains(&incident.command) {
            commands.push(incident.command.clone());
        }
    }
    commands.push(format!("thought event list --source {source}"));
    let answer = match open.first() {
        Some(first) => {
            let facts: Vec<&str> = open.iter().map(|incident| incident.why.as_str()).collect();
            let fact = facts.join(" | ") + &doubled(look, source);
            Why { since: first.since, ..plain(source, "source", "incident", fact) }
        }
        None => {
            let events = head.as_ref().map_or(0, |head| head.sequence);
            let fact = format!("it has {events} events and nothing about it waits");
            let last =
                head.map(|head| look.reader.showing_damage().event_at(head.position)).transpose()?.flatten();
            Why { since: last.map(|event| event.recorded_at), ..plain(source, "source", "sound", fact) }
        }
    };
    Ok(Why { commands, ..answer })
}

/// Says what the inbox says of a thing that it names; nothing of a thing that it does not name.
fn of_inbox(look: &Look<'_>, id: &str) -> Result<Option<Why>, Failure> {
    let mut open = inbox::everything(look)?;
    open.retain(|waiting| waiting.id == id);
    let Some(first) = open.first() else {
        let sound = || Why {
            commands: vec!["thought status".to_owned(), "thought verify".to_owned()],
            ..plain(id, "waiting", "sound", "it takes what is written, and nothing about it waits".to_owned())
        };
        return Ok((id == inbox::LOG).then(sound));
    };
    let facts: Vec<&str> = open.iter().map(|waiting| waiting.why.as_str()).collect();
    let mut commands: Vec<String> = Vec::new();
    for command in open.iter().flat_map(|waiting| std::iter::once(&waiting.command).chain(&waiting.ways)) {
        if !commands.contains(command) {
            commands.push(command.clone());
        }
    }
    let answer = plain(id, "waiting", first.kind.as_str(), facts.join(" | "));
    Ok(Some(Why { since: first.since, commands, ..answer }))
}

/// Names the files of a folder whose id another file has; nothing where there are none, or nobody has looked.
fn doubled(look: &Look<'_>, source: &SourceId) -> String {
    let report = look.live.and_then(|live| live.skipped.get(source)).and_then(Option::as_ref);
    let Some(report) = report else { return String::new() };
    let files = report.shown.iter().filter(|skip| skip.reason == SkipReason::DuplicateId);
    let named: Vec<&str> = files.map(|skip| skip.shown.as_str()).collect();
    let all = report.counts.get(&SkipReason::DuplicateId).copied().unwrap_or_default();
    let others = all.saturating_sub(named.len() as u64);
    match (named.is_empty(), others) {
        (true, _) => String::new(),
        (false, 0) => format!(" | whose id another file has: {}", named.join(", ")),
        (false, others) => format!(" | whose id another file has: {} and {others} more", named.join(", ")),
    }
}

fn of_consumer(look: &Look<'_>, id: &ConsumerId, asked: &str) -> Result<Why, Failure> {
    let all = consumers::versions(look, id)?;
    let matching = |consumer: &&Consumer| asked == id.as_str() || consumer.consumer.to_string() == asked;
    // The version that is enabled, else the newest.
    let found = all.iter().filter(matching).max_by_key(|c| (c.state != State::Disabled, c.consumer.version));
    let consumer = found.ok_or_else(|| unknown("consumer", &asked))?;
    let why = consumer.why.as_deref().unwrap_or("no reason recorded");
    let behind = consumer.behind.events;
    let fact = match consumer.state {
        State::Quarantined if consumer.held > 0 => format!("it stands still on an event that failed ({why})"),
        State::Quarantined => format!("its actor ended too often ({why}) and waits for a person"),
        State::Held if consumer.held == 0 => format!(
            "it stands still on a source, and only there ({why}), until the log is restored or a person passes the event"
        ),
        State::Held => format!("it waits for a person to retry or skip {} events ({why})", consumer.held),
        State::Paused => format!("a person paused it: {why}"),
        State::Restarting => format!("its actor is being started anew ({why})"),
        State::Retrying => format!("its last attempt ended with {why}; the next may start then"),
        State::AwaitingBudget => {
            "it waits for its budget: an attempt is made when its account admits one".to_owned()
        }
        State::Running => "an attempt is open".to_owned(),
        State::Behind if consumer.why.is_some() => {
            format!("it waits until it is known whether its last reply arrived ({why})")
        }
        State::Behind => format!("{behind} matching events are not closed yet"),
        State::Idle => "it has done everything there is".to_owned(),
        State::Disabled => "the declarations that were loaded last do not enable this version".to_owned(),
    };
    Ok(Why {
        since: consumer.since,
        next: consumer.next,
        commands: consumer.command.clone().into_iter().collect(),
        ..plain(&consumer.consumer, "consumer", consumer.state.as_str(), fact)
    })
}
