//! Every consumer: what it is doing, how far it has come, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thoughtstream_domain::accounting::BUDGET_EXHAUSTED;
use thoughtstream_domain::commit::Control;
use thoughtstream_domain::dispatch::{AwaitedReply, is_progress_name};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, ExecutionId, RunId, SourceId, TypeName};
use thoughtstream_domain::lifecycle::{Execution, ExecutionState};
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::system::DeclarationsLoaded;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::behind::{Behind, Heads, behind};
use super::damaged;
use super::tree::{ConsumerNodes, LastExit, Node};
use super::{DAMAGED, Look, VERIFY};
use crate::exit::Exit;
use crate::failure::Failure;

/// Executions that are not closed are bounded by what a declaration lets wait; more than this are counted as
/// "at least".
const UNSETTLED_MAX: usize = 1000;

/// Among this many latest attempts the last one that ended is looked for.
const LATEST_RUNS: usize = 16;

/// Says in a word what a consumer is doing; the first that holds, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It stands still until a person resumes, retries or skips.
    Quarantined,
    /// An event waits for a person, by declaration.
    Held,
    /// A person stopped it.
    Paused,
    /// Its actor is being started anew.
    Restarting,
    /// It waits for the time of another attempt.
    Retrying,
    /// It waits until its account admits another attempt.
    AwaitingBudget,
    /// An attempt is open.
    Running,
    /// There is something to do that it has not begun.
    Behind,
    /// It has done everything there is.
    Idle,
    /// The present declarations do not enable this version.
    Disabled,
}

impl State {
    /// All states.
    pub const ALL: [Self; 10] = [
        Self::Quarantined,
        Self::Held,
        Self::Paused,
        Self::Restarting,
        Self::Retrying,
        Self::AwaitingBudget,
        Self::Running,
        Self::Behind,
        Self::Idle,
        Self::Disabled,
    ];

    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quarantined => "quarantined",
            Self::Held => "held",
            Self::Paused => "paused",
            Self::Restarting => "restarting",
            Self::Retrying => "retrying",
            Self::AwaitingBudget => "awaiting-budget",
            Self::Running => "running",
            Self::Behind => "behind",
            Self::Idle => "idle",
            Self::Disabled => "disabled",
        }
    }

    /// Reads words of a filter; `stuck` stands for all in which something waits for time or a person.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 naming the known words.
    pub fn parse_all(words: &[String]) -> Result<BTreeSet<Self>, Failure> {
        let mut states = BTreeSet::new();
        for word in words {
            match Self::ALL.into_iter().find(|state| state.as_str() == word) {
                Some(state) => {
                    states.insert(state);
                }
                None if word == "stuck" => {
                    states.extend([
                        Self::Quarantined,
                        Self::Held,
                        Self::Paused,
                        Self::Restarting,
                        Self::Retrying,
                        Self::AwaitingBudget,
                    ]);
                }
                None => {
                    let known: Vec<&str> = Self::ALL.into_iter().map(Self::as_str).collect();
                    let hint = format!("known: stuck, {}", known.join(", "));
                    let what = format!("`{word}` is no state of a consumer");
                    return Err(Failure::new(Exit::Usage, "consumer.state", what).with_hint(hint));
                }
            }
        }
        Ok(states)
    }
}

/// Is one consumer version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consumer {
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// What it is doing.
    pub state: State,
    /// Since when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why, as a code, or a person's words for a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The command that moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Matching events that are not closed.
    pub behind: Behind,
    /// How often the oldest execution that is not closed has failed.
    pub retries: u32,
    /// Executions that a person decides about.
    pub held: usize,
    /// The last attempt that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Last>,
    /// How often its actor was started again, while a service runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u64>,
    /// Where it stands on each source.
    pub sources: Vec<Standing>,
}

/// Is the last attempt of a consumer that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Last {
    /// The attempt.
    pub run: RunId,
    /// How it ended.
    pub state: String,
    /// When.
    pub at: Timestamp,
}

/// Says where a consumer stands on one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The source.
    pub source: SourceId,
    /// Every matching event up to here is closed.
    pub progress: u64,
    /// The source's last sequence.
    pub head: u64,
}

/// Lists consumers in order of their names, those in one of `states` if any are named.
///
/// # Errors
/// [`Failure`] if a state is not known or the log cannot be read.
pub fn list(look: &Look<'_>, states: &[String]) -> Result<Vec<Consumer>, Failure> {
    let wanted = State::parse_all(states)?;
    let mut all = those(look, |_| true)?;
    all.retain(|consumer| wanted.is_empty() || wanted.contains(&consumer.state));
    Ok(all)
}

/// Returns the versions of one consumer.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn versions(look: &Look<'_>, id: &ConsumerId) -> Result<Vec<Consumer>, Failure> {
    those(look, |key| key.id == *id)
}

/// Returns every consumer version that the log or the loaded declarations know.
pub(super) fn known(look: &Look<'_>) -> Result<BTreeSet<ConsumerKey>, Failure> {
    let mut known: BTreeSet<ConsumerKey> =
        look.reader.consumers().into_iter().filter(|key| !is_progress_name(key)).collect();
    known.extend(look.reader.registered_all()?.into_iter().map(|registered| registered.consumer));
    known.extend(enabled(look.reader)?.into_iter().flatten());
    Ok(known)
}

fn those(look: &Look<'_>, wanted: impl Fn(&ConsumerKey) -> bool) -> Result<Vec<Consumer>, Failure> {
    let enabled = enabled(look.reader)?;
    let controls: BTreeMap<ConsumerId, _> = look.reader.controls()?.into_iter().collect();
    let heads = Heads::read(look.reader)?;
    let nodes = look.live.map(|live| ConsumerNodes::of(&live.tree)).unwrap_or_default();
    let mut found = Vec::new();
    for key in known(look)?.into_iter().filter(wanted) {
        let on = enabled.as_ref().is_none_or(|enabled| enabled.contains(&key));
        let live = nodes.get(&key.id);
        let read = match controls.get(&key.id) {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(control)) => one(look, key.clone(), on, control, &heads, live),
            None => one(look, key.clone(), on, &Control::default(), &heads, live),
        };
        found.push(match read {
            // It cannot go on, and says so; the others can.
            Err(failure) if failure.code == DAMAGED => unreadable(key, on, live, failure),
            read => read?,
        });
    }
    Ok(found)
}

/// Returns the consumer versions of the last set of declarations that was loaded; nothing if none ever was.
pub(crate) fn enabled(reader: &Reader) -> Result<Option<BTreeSet<ConsumerKey>>, Failure> {
    let last = newest_of::<DeclarationsLoaded>(reader, &SourceId::supervision())?;
    let loaded = last.and_then(|event| event.payload_as::<DeclarationsLoaded>().ok());
    Ok(loaded.map(|loaded| loaded.enabled.into_iter().collect()))
}

/// Says whether the declarations that were loaded last enable a consumer version; yes if none ever were.
pub(crate) fn is_on(reader: &Reader, key: &ConsumerKey) -> Result<bool, Failure> {
    Ok(enabled(reader)?.is_none_or(|enabled| enabled.contains(key)))
}

/// Finds the last event of a type in a source. There is one for each start or reload: a few pages at most.
fn newest_of<P: TypedPayload>(reader: &Reader, source: &SourceId) -> Result<Option<Event>, Failure> {
    let types: [TypeName; 1] = [P::kind().name];
    Ok(reader.walk(&types, source).last().transpose()?)
}

fn one(
    look: &Look<'_>,
    key: ConsumerKey,
    enabled: bool,
    control: &Control,
    heads: &Heads,
    live: Option<&Node>,
) -> Result<Consumer, Failure> {
    let unsettled = look.reader.unsettled(&key, 0, UNSETTLED_MAX)?;
    let progress = look.reader.progress_all(&key)?;
    let sources = progress.into_iter().map(|(source, progress)| {
        let head = heads.sequence(&source).unwrap_or(progress);
        Standing { source, progress, head }
    });
    let behind = if enabled { behind(look, &key, heads)? } else { Behind::default() };
    let latest = look.reader.runs_before(&key, None, LATEST_RUNS)?;
    let last = latest.iter().filter_map(|run| {
        let (state, at) = (run.state.as_str().to_owned(), run.ended_at?);
        Some(Last { run: run.id, state, at })
    });
    let standing = standing(&key, enabled, control, &unsettled, live, behind);
    Ok(Consumer {
        state: standing.state,
        since: standing.since,
        why: standing.why,
        next: standing.next,
        command: standing.command,
        behind,
        retries: unsettled.first().map_or(0, |execution| execution.failures),
        held: unsettled.iter().filter(|execution| is_held(execution)).count(),
        last: last.max_by_key(|last| last.at),
        restarts: live.map(|node| node.restarts),
        sources: sources.collect(),
        consumer: key,
    })
}

/// Is the line of a consumer of which a row is damaged: where it stands, nobody knows.
fn unreadable(key: ConsumerKey, enabled: bool, live: Option<&Node>, failure: Failure) -> Consumer {
    Consumer {
        state: if enabled { State::Quarantined } else { State::Disabled },
        since: None,
        why: Some(failure.what),
        next: None,
        command: Some(VERIFY.to_owned()),
        behind: Behind::default(),
        retries: 0,
        held: 0,
        last: None,
        restarts: live.map(|node| node.restarts),
        sources: Vec::new(),
        consumer: key,
    }
}

fn is_held(execution: &Execution) -> bool {
    matches!(execution.state, ExecutionState::Held { .. })
}

/// Under which name a consumer shows the output whose delivery it waits for.
const AWAITED: &str = "awaitedReply";

/// Is what decides the line of a consumer.
struct Word {
    state: State,
    since: Option<Timestamp>,
    why: Option<String>,
    next: Option<Timestamp>,
    command: Option<String>,
}

fn word(state: State, since: Option<Timestamp>) -> Word {
    Word { state, since, why: None, next: None, command: None }
}

/// Finds the one state that matters most to a person.
fn standing(
    key: &ConsumerKey,
    enabled: bool,
    control: &Control,
    unsettled: &[Execution],
    live: Option<&Node>,
    behind: Behind,
) -> Word {
    let id = &key.id;
    if !enabled {
        return word(State::Disabled, None);
    }
    if let Some(since) = control.quarantined_since {
        return Word {
            why: quarantine_code(control, live),
            command: Some(match live.and_then(Node::unreadable) {
                Some(_) => VERIFY.to_owned(),
                None => format!("thought consumer resume {id}"),
            }),
            ..word(State::Quarantined, Some(since))
        };
    }
    if let Some(held) = held_of(unsettled) {
        return held;
    }
    if let Some(damaged) = live.and_then(|node| damaged::of(node).into_iter().next()) {
        return Word {
            why: Some(damaged::why(&damaged)),
            command: Some(damaged::skip_command(id, &damaged)),
            ..word(State::Held, None)
        };
    }
    if let Some(since) = control.paused_since {
        return Word {
            why: control.pause_reason.clone(),
            command: Some(format!("thought consumer resume {id}")),
            ..word(State::Paused, Some(since))
        };
    }
    if let Some(node) = live.filter(|node| node.is_down()) {
        return Word {
            why: node.last_exit.as_ref().map(LastExit::code),
            next: node.next_start_at,
            ..word(State::Restarting, Some(node.since))
        };
    }
    let mut waiting = unsettled.iter().filter_map(|execution| match &execution.state {
        ExecutionState::Waiting { at, code } => Some((execution, *at, code.clone())),
        ExecutionState::Running | ExecutionState::Held { .. } | ExecutionState::Closed { .. } => None,
    });
    if let Some((execution, at, code)) = waiting.next() {
        if code == BUDGET_EXHAUSTED {
            return Word {
                why: Some(code),
                next: Some(at),
                command: Some(show_account(id)),
                ..word(State::AwaitingBudget, Some(execution.since))
            };
        }
        return Word {
            why: Some(code),
            next: Some(at),
            command: Some(format!("thought consumer retry {}", execution.id)),
            ..word(State::Retrying, Some(execution.since))
        };
    }
    if let Some(running) = unsettled.first() {
        return word(State::Running, Some(running.since));
    }
    if behind.events == 0 {
        return word(State::Idle, None);
    }
    let awaits = live.is_some_and(|node| node.detail.contains_key(AWAITED));
    Word { why: awaits.then(|| AwaitedReply::CODE.to_owned()), ..word(State::Behind, behind.since) }
}

/// Returns why a consumer is in quarantine, with the row that could not be read as long as its actor is remembered.
pub(crate) fn quarantine_code(control: &Control, live: Option<&Node>) -> Option<String> {
    let code = control.quarantine_code.clone()?;
    let row = live.and_then(Node::unreadable);
    Some(row.map_or_else(|| code.clone(), |row| format!("{code}: {row}")))
}

/// Returns the command that shows what a consumer has spent and when more is admitted: another attempt before then
/// would be blocked as well.
pub(crate) fn show_account(id: &ConsumerId) -> String {
    format!("thought account show {id}")
}

fn held_of(unsettled: &[Execution]) -> Option<Word> {
    unsettled.iter().find_map(|execution| {
        let ExecutionState::Held { code, quarantined } = &execution.state else { return None };
        let state = if *quarantined { State::Quarantined } else { State::Held };
        let command = Some(retry_or_skip(&execution.id));
        Some(Word { why: Some(code.clone()), command, ..word(state, Some(execution.since)) })
    })
}

/// Returns the command that moves a held execution; `skip` is the other way, and `why` names both.
pub(crate) fn retry_or_skip(execution: &ExecutionId) -> String {
    format!("thought consumer retry {execution}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_filter_knows_every_state_and_refuses_others() {
        let words: Vec<String> = State::ALL.into_iter().map(|state| state.as_str().to_owned()).collect();
        assert_eq!(State::parse_all(&words).unwrap().len(), State::ALL.len());
        assert_eq!(State::parse_all(&["stuck".to_owned()]).unwrap().len(), 6);
        assert_eq!(State::parse_all(&["stuk".to_owned()]).unwrap_err().exit(), Exit::Usage);
    }
}
