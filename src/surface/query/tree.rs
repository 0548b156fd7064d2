//! Who is alive; and when no service runs, what the log says about those who were.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thoughtstream_actors::service::ROOT;
use thoughtstream_domain::event::ActorKind;
use thoughtstream_domain::id::{ConsumerId, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system::ServiceStopped;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::PAGE_ROWS_MAX;

use super::Look;
use super::consumers::{self, Consumer, State};
use crate::failure::Failure;

/// The kind of a node that supervises others.
const SUPERVISOR: &str = "supervisor";

/// The kind of a consumer's node.
const CONSUMER: &str = "consumer";

/// Is one actor and those below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name among its siblings.
    pub name: String,
    /// What sort of actor it is.
    pub kind: String,
    /// What it is doing, in a word.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// How often it was started again.
    pub restarts: u64,
    /// False for one that does not answer.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub answering: bool,
    /// How many pieces of work it has finished since it was started.
    #[serde(default)]
    pub settled: u64,
    /// How the one before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<LastExit>,
    /// When it is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_start_at: Option<Timestamp>,
    /// One word on what it does or waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What more it says about itself: counts, codes, ids and times.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub detail: Map<String, Value>,
    /// Those it supervises, in start order.
    pub children: Vec<Self>,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over by reference")]
const fn is_true(value: &bool) -> bool {
    *value
}

/// Says how an actor ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastExit {
    /// The kind of end.
    pub exit: String,
    /// The reason, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl LastExit {
    /// Returns the reason, or the kind of end.
    #[must_use]
    pub fn code(&self) -> String {
        self.reason.clone().unwrap_or_else(|| self.exit.clone())
    }
}

impl Node {
    /// Makes a node of which nothing but its state is known.
    #[must_use]
    pub fn plain(name: &str, kind: &str, state: &str, since: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            state: state.to_owned(),
            since,
            restarts: 0,
            answering: true,
            settled: 0,
            last_exit: None,
            next_start_at: None,
            note: None,
            detail: Map::new(),
            children: Vec::new(),
        }
    }

    /// Returns the row that it could not read, for as long as its actor is remembered.
    #[must_use]
    pub fn unreadable(&self) -> Option<&str> {
        self.detail.get("unreadable").and_then(Value::as_str)
    }

    /// Says whether it is between two incarnations.
    #[must_use]
    pub fn is_down(&self) -> bool {
        matches!(self.state.as_str(), "recovering" | "backing-off" | "starting")
    }
}

/// The nodes of consumers by id, whichever supervisor they stand under: one walk, however many are asked for.
#[derive(Debug, Default)]
pub(crate) struct ConsumerNodes<'n>(BTreeMap<&'n str, &'n Node>);

impl<'n> ConsumerNodes<'n> {
    /// Walks a tree.
    pub(crate) fn of(root: &'n Node) -> Self {
        let mut found = Self::default();
        found.take(root);
        found
    }

    fn take(&mut self, node: &'n Node) {
        if node.kind == CONSUMER {
            let id = node.name.split('@').next().unwrap_or(&node.name);
            self.0.entry(id).or_insert(node);
        }
        for child in &node.children {
            self.take(child);
        }
    }

    /// Returns all of them by the consumers' ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConsumerId, &'n Node)> {
        self.0.iter().filter_map(|(id, node)| Some((ConsumerId::parse(id).ok()?, *node)))
    }

    /// Returns a consumer's node.
    pub(crate) fn get(&self, id: &ConsumerId) -> Option<&'n Node> {
        self.0.get(id.as_str()).copied()
    }
}

/// Returns the tree.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn tree(look: &Look<'_>) -> Result<Node, Failure> {
    let consumers = consumers::list(look, &[])?;
    if let Some(live) = look.live {
        let mut root = live.tree.clone();
        tell(&mut root, &by_name(&consumers));
        return Ok(root);
    }
    from_log(look, &consumers)
}

/// Finds the consumers that are enabled by the names their nodes may have: the version's, and the id alone.
fn by_name(consumers: &[Consumer]) -> BTreeMap<String, &Consumer> {
    let mut found = BTreeMap::new();
    for consumer in consumers.iter().filter(|consumer| consumer.state != State::Disabled) {
        found.insert(consumer.consumer.to_string(), consumer);
        found.entry(consumer.consumer.id.to_string()).or_insert(consumer);
    }
    found
}

/// Adds to the nodes of consumers what only the log knows: how far behind, held, when it retries, why.
fn tell(node: &mut Node, consumers: &BTreeMap<String, &Consumer>) {
    if node.kind == CONSUMER
        && let Some(consumer) = consumers.get(&node.name)
    {
        describe(node, consumer);
    }
    for child in &mut node.children {
        tell(child, consumers);
    }
}

fn describe(node: &mut Node, consumer: &Consumer) {
    let detail = &mut node.detail;
    detail.insert("work".to_owned(), consumer.state.as_str().into());
    detail.insert("behind".to_owned(), consumer.behind.events.into());
    if let Some(why) = &consumer.why {
        detail.insert("why".to_owned(), why.clone().into());
    }
    if let Some(next) = consumer.next {
        detail.insert("next".to_owned(), next.to_string().into());
    }
    if consumer.held > 0 {
        detail.insert("held".to_owned(), consumer.held.into());
    }
    if consumer.retries > 0 {
        detail.insert("retries".to_owned(), consumer.retries.into());
    }
}

/// Builds what the log knows: the same actors in the same order as a running service shows them, all down.
fn from_log(look: &Look<'_>, consumers: &[Consumer]) -> Result<Node, Failure> {
    let end = end(look)?;
    let down = |name: &str, kind: &str| Node::plain(name, kind, "down", end.since);
    let mut root = down(ROOT, SUPERVISOR);
    root.detail.insert("ended".to_owned(), end.how.into());
    let mut pool = down("consumers", SUPERVISOR);
    for consumer in consumers.iter().filter(|consumer| consumer.state != State::Disabled) {
        let mut node = down(consumer.consumer.id.as_str(), CONSUMER);
        describe(&mut node, consumer);
        pool.children.push(node);
    }
    let mut producers = down("producers", SUPERVISOR);
    for head in look.reader.sources()?.into_iter().filter(|head| head.source.kind() == "filesystem") {
        let mut node = down(head.source.as_str(), "producer");
        node.detail.insert("events".to_owned(), head.sequence.into());
        producers.children.push(node);
    }
    root.children = vec![
        down("log", "log-writer"),
        down("scribe", "scribe"),
        down("cells", "cell-keeper"),
        pool,
        producers,
        down("materializer", "materializer"),
        down("doors", "doorkeeper"),
    ];
    Ok(root)
}

/// Says since when no service runs, and how the last one ended.
struct End {
    since: Timestamp,
    how: &'static str,
}

/// Finds the end of the last service: its own word, or else the last that it recorded.
fn end(look: &Look<'_>) -> Result<End, Failure> {
    let reader = &look.reader.showing_damage();
    let Some(head) = reader.head(&SourceId::supervision())? else {
        // The log was made by hand.
        let since = reader.event_at(1)?.map_or(look.now, |first| first.recorded_at);
        return Ok(End { since, how: "never started" });
    };
    let last = reader.event_at(head.position)?;
    if let Some(stopped) = last.as_ref().filter(|event| event.kind == ServiceStopped::kind()) {
        return Ok(End { since: stopped.recorded_at, how: "in order" });
    }
    // What a person added afterwards, without a service, is no sign of its life.
    let mut since = last.map_or(look.now, |event| event.recorded_at);
    let mut before = None;
    'log: loop {
        let page = reader.page_before(before, PAGE_ROWS_MAX)?;
        for event in &page {
            if event.position <= head.position {
                break 'log;
            }
            if event.actor.kind != ActorKind::Person {
                since = event.recorded_at;
                break 'log;
            }
        }
        match page.last() {
            Some(oldest) => before = Some(oldest.position),
            None => break,
        }
    }
    Ok(End { since, how: "not in order, since is its last event" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kind: &str, children: Vec<Node>) -> Node {
        Node { children, ..Node::plain(name, kind, "running", Timestamp::from_millis(0)) }
    }

    #[test]
    fn a_consumer_is_found_by_its_id_whichever_supervisor_it_stands_under() {
        let pool = node("consumers", SUPERVISOR, vec![node("links", CONSUMER, vec![])]);
        let bot = node("telegram:one", SUPERVISOR, vec![node("answer@3", CONSUMER, vec![])]);
        let other = node("tasks", "producer", vec![]);
        let root = node(ROOT, SUPERVISOR, vec![pool, bot, other]);
        let nodes = ConsumerNodes::of(&root);
        let name = |id: &str| nodes.get(&ConsumerId::parse(id).unwrap()).map(|node| node.name.as_str());
        assert_eq!(name("links"), Some("links"));
        assert_eq!(name("answer"), Some("answer@3"));
        assert_eq!(name("tasks"), None, "a producer of that name is no consumer");
    }
}
