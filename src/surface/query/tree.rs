//! Who is alive; and when no service runs, what the log says about those who were.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::time::Timestamp;

use super::Look;
use super::consumers::{self, Consumer, State};
use crate::failure::Failure;

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

    /// Says whether it is between two incarnations.
    #[must_use]
    pub fn is_down(&self) -> bool {
        matches!(self.state.as_str(), "recovering" | "backing-off" | "starting")
    }
}

/// Finds a consumer's node, whichever supervisor it stands under.
pub(crate) fn consumer<'n>(node: &'n Node, id: &ConsumerId) -> Option<&'n Node> {
    if node.kind == "consumer" && node.name.split('@').next() == Some(id.as_str()) {
        return Some(node);
    }
    node.children.iter().find_map(|child| consumer(child, id))
}

/// Returns the tree.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn tree(look: &Look<'_>) -> Result<Node, Failure> {
    let consumers = consumers::list(look, &[])?;
    if let Some(live) = look.live {
        let mut root = live.tree.clone();
        tell(&mut root, &consumers);
        return Ok(root);
    }
    from_log(look, &consumers)
}

/// Adds to the nodes of consumers what only the log knows: how far behind, held, when it retries, why.
fn tell(node: &mut Node, consumers: &[Consumer]) {
    if node.kind == "consumer" {
        let name = node.name.clone();
        let mine = |c: &&Consumer| c.consumer.to_string() == name || c.consumer.id.as_str() == name;
        if let Some(consumer) = consumers.iter().filter(|c| c.state != State::Disabled).find(mine) {
            describe(node, consumer);
        }
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

/// Builds what the log knows: consumers and sources below a service that is down.
fn from_log(look: &Look<'_>, consumers: &[Consumer]) -> Result<Node, Failure> {
    let last = match look.reader.last_position()? {
        0 => None,
        position => look.reader.event_at(position)?,
    };
    let since = last.map_or(look.now, |event| event.recorded_at);
    let mut root = Node::plain("thoughtstream", "supervisor", "down", since);
    let mut below = Node::plain("consumers", "supervisor", "down", since);
    for consumer in consumers.iter().filter(|consumer| consumer.state != State::Disabled) {
        let at = consumer.since.or(consumer.last.as_ref().map(|last| last.at)).unwrap_or(since);
        let mut node = Node::plain(&consumer.consumer.to_string(), "consumer", "down", at);
        describe(&mut node, consumer);
        below.children.push(node);
    }
    let mut producers = Node::plain("producers", "supervisor", "down", since);
    for head in look.reader.sources()? {
        if matches!(head.source.kind(), "agent" | "system" | "notes") {
            continue;
        }
        let at = look.reader.event_at(head.position)?.map_or(since, |event| event.recorded_at);
        let mut node = Node::plain(head.source.as_str(), "producer", "down", at);
        node.detail.insert("events".to_owned(), head.sequence.into());
        producers.children.push(node);
    }
    root.children = vec![producers, below];
    Ok(root)
}
