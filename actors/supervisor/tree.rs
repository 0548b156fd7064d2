//! What an inspector sees. It is read from the supervisors' records and the children's status cells; no
//! actor is asked, so looking changes nothing and a busy child does not hold the answer up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use super::roster::{Phase, Roster, Slot};
use super::status::Detail;
use super::{Exit, ReasonCode};
use thoughtstream_domain::time::Timestamp;

/// An actor that has not answered a probe by then is shown as not answering. Handlers take milliseconds.
const PROBE_WITHIN: Duration = Duration::from_millis(500);

/// What is said of a child that may start only behind another.
const WAITS_FOR_SIBLING: ReasonCode = ReasonCode::new("waits-for-sibling");

/// What a child is doing, as far as its supervisor is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildState {
    /// It is coming up, or waits for siblings that it depends on.
    Starting,
    /// It handles messages.
    Running,
    /// It ended, and what it left open is being closed.
    Recovering,
    /// It waits for its next start.
    BackingOff,
    /// It ended too often and waits for a person.
    Quarantined,
    /// It was told to stop.
    Stopping,
    /// It is down, as planned.
    Stopped,
}

impl ChildState {
    /// Says it in words, as a sentence about the actor ends.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Recovering => "recovering",
            Self::BackingOff => "backing off: it waits for its next start",
            Self::Quarantined => "quarantined: it waits for a person",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}

/// How an incarnation ended, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LastExit {
    /// The kind of end: `planned`, `killed`, `cancelled`, `failed` or `start-failed`.
    pub exit: &'static str,
    /// The stop reason or reason code, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// When the supervisor learnt of it.
    pub at: Timestamp,
    /// The same, typed.
    #[serde(skip)]
    pub what: Exit,
}

impl LastExit {
    pub(crate) fn new(exit: Exit, at: Timestamp) -> Self {
        Self { exit: exit.kind(), reason: exit.reason(), at, what: exit }
    }
}

/// One actor and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeNode {
    /// Its name among its siblings.
    pub name: String,
    /// What sort of actor it is.
    pub kind: &'static str,
    /// What it is doing.
    pub state: ChildState,
    /// Since when it is in that state.
    pub since: Timestamp,
    /// How often it was started again.
    pub restarts: u64,
    /// The present or last incarnation, counted from 1; 0 when it never ran.
    pub incarnation: u64,
    /// False for one that answers neither a probe nor its own stop.
    pub answering: bool,
    /// How many pieces of work this incarnation finished.
    pub settled: u64,
    /// How the incarnation before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<LastExit>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_start_at: Option<Timestamp>,
    /// One word on what it is doing or waiting for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<ReasonCode>,
    /// What more it says about itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<&'static str, Detail>,
    /// Those it supervises, in start order.
    pub children: Vec<Self>,
}

impl TreeNode {
    /// Finds a node by the names below this one, joined by `/`.
    pub fn find(&self, path: &str) -> Option<&Self> {
        let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let child = self.children.iter().find(|child| child.name == name)?;
        rest.map_or(Some(child), |rest| child.find(rest))
    }
}

/// The kind shown for supervisors.
pub(crate) const SUPERVISOR_KIND: &str = "supervisor";

/// Reads the whole tree below `roster`.
pub(crate) fn read(roster: &Roster) -> TreeNode {
    let (state, since) = roster.own(|own| own.state).unwrap_or((ChildState::Stopped, Timestamp::default()));
    TreeNode {
        name: roster.name.to_string(),
        kind: SUPERVISOR_KIND,
        state,
        since,
        restarts: 0,
        incarnation: 1,
        answering: true,
        settled: 0,
        last_exit: None,
        next_start_at: None,
        note: None,
        detail: BTreeMap::new(),
        children: read_children(roster),
    }
}

fn read_children(roster: &Roster) -> Vec<TreeNode> {
    roster.slots().iter().map(|slot| read_slot(slot)).collect()
}

pub(crate) fn read_slot(slot: &Slot) -> TreeNode {
    let mut node = slot.with(|record| TreeNode {
        name: slot.spec.name.to_string(),
        kind: slot.spec.kind,
        state: record.state(),
        since: record.since,
        restarts: record.restarts,
        incarnation: record.incarnation,
        answering: record.answering,
        settled: record.status.settled_count(),
        last_exit: record.last_exit,
        next_start_at: record.next_start_at,
        note: record.waits_for.or((record.phase == Phase::Waiting).then_some(WAITS_FOR_SIBLING)),
        detail: BTreeMap::new(),
        children: Vec::new(),
    });
    let told = slot.with(|record| Arc::clone(&record.status)).told();
    node.note = node.note.or(told.note);
    node.detail = told.details.into();
    node.children = slot.spec.nested.as_deref().map(read_children).unwrap_or_default();
    node
}

/// Reads the tree and asks every actor that can be probed whether it still handles messages, all of them at
/// once and none for longer than the bound.
pub(crate) async fn probe(roster: &Roster) -> TreeNode {
    let mut probes = JoinSet::new();
    collect_probes(roster, "", &mut probes);
    let mut silent = Vec::new();
    while let Some(ended) = probes.join_next().await {
        if let Ok(Some(path)) = ended {
            silent.push(path);
        }
    }
    let mut root = read(roster);
    for path in silent {
        mark_silent(&mut root, &path);
    }
    root
}

/// Tells whether `probe` ends within its bound.
pub(crate) async fn answers(probe: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(PROBE_WITHIN, probe).await.is_ok()
}

fn collect_probes(roster: &Roster, above: &str, probes: &mut JoinSet<Option<String>>) {
    for slot in roster.slots() {
        let path = format!("{above}{}", slot.spec.name);
        if let Some(nested) = &slot.spec.nested {
            collect_probes(nested, &format!("{path}/"), probes);
        }
        let started =
            slot.with(|record| (record.phase == Phase::Running).then(|| record.alive.clone()).flatten());
        if let Some(probe) = started.and_then(|started| started.probe) {
            probes.spawn(async move { (!answers(probe()).await).then_some(path) });
        }
    }
}

fn mark_silent(node: &mut TreeNode, path: &str) {
    let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let Some(child) = node.children.iter_mut().find(|child| child.name == name) else { return };
    match rest {
        Some(rest) => mark_silent(child, rest),
        None => child.answering = false,
    }
}
