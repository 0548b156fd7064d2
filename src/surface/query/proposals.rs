//! Proposals of agents: where each stands, what it says, and what moves it.
//!
//! A proposal is read with its whole lineage wherever a person may still decide about it; one that does not hold is
//! shown as broken, with the link, and nothing of what it says. What is decided and done is told from its receipts.

mod content;
mod outlook;
mod standing;

use serde::{Deserialize, Serialize};
use thoughtstream_domain::event::{Event, Reference};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, IdempotencyKey, RunId};
use thoughtstream_domain::payload::proposal::{
    CorrectionProposed, Disposition, FocusProposed, MemoryChangeProposed, ProposalDecision, Proposed,
    Proposer,
};
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::decision::Decided;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

pub use content::{DiffHunk, DiffLine, EvidenceText, ProposalContent, Shown};
pub use outlook::{Home, Outlook, Verdict};

use super::inbox::{Kind as Waits, Waiting};
use super::{Look, Sink, put, unknown};
use crate::ask::{DryRun, ProposalFilter};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{Operation, ourselves};
use crate::proposals::{DecideRequest, next};

/// Says where a proposal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nobody has decided.
    Waiting,
    /// Nobody has decided, and the document has moved since: accepting it can only fail.
    Stale,
    /// A person refused it; nothing follows.
    Rejected,
    /// A correction was accepted, and the judgment that follows is missing.
    Unprojected,
    /// A correction was accepted, and its judgment stands.
    Projected,
    /// A memory change was accepted, and nothing has been written.
    Unmaterialized,
    /// It was begun to be written, and its end is not recorded.
    Materializing,
    /// It was written; the receipt says what.
    Materialized,
    /// It was not written; the receipt says why.
    Failed,
    /// It is a focus, about which nobody decides here.
    Inert,
    /// Something behind it does not hold: nothing can follow from it.
    Broken,
    /// What it said was erased.
    Redacted,
}

impl State {
    /// All states.
    pub const ALL: [Self; 12] = [
        Self::Waiting,
        Self::Stale,
        Self::Rejected,
        Self::Unprojected,
        Self::Projected,
        Self::Unmaterialized,
        Self::Materializing,
        Self::Materialized,
        Self::Failed,
        Self::Inert,
        Self::Broken,
        Self::Redacted,
    ];

    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Stale => "stale",
            Self::Rejected => "rejected",
            Self::Unprojected => "unprojected",
            Self::Projected => "projected",
            Self::Unmaterialized => "unmaterialized",
            Self::Materializing => "materializing",
            Self::Materialized => "materialized",
            Self::Failed => "failed",
            Self::Inert => "inert",
            Self::Broken => "broken",
            Self::Redacted => "redacted",
        }
    }

    /// Says whether a person can do something about it.
    #[must_use]
    pub const fn waits(self) -> bool {
        match self {
            Self::Waiting
            | Self::Stale
            | Self::Unprojected
            | Self::Unmaterialized
            | Self::Materializing
            | Self::Failed
            | Self::Broken => true,
            Self::Rejected | Self::Projected | Self::Materialized | Self::Inert | Self::Redacted => false,
        }
    }
}

/// Is the decision about a proposal, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRow {
    /// Its event.
    pub event: EventId,
    /// `accept`, `edit` or `reject`.
    pub disposition: String,
    /// Who decided.
    pub actor: String,
    /// What their client called the submission.
    pub submission: String,
    /// When it was recorded.
    pub at: Timestamp,
}

/// Is one proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Its event.
    pub id: EventId,
    /// What it proposes.
    pub kind: Kind,
    /// Where it stands.
    pub state: State,
    /// When it was proposed.
    pub at: Timestamp,
    /// Who proposed it; unknown if its words were erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ConsumerKey>,
    /// The run that proposed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The message that the run answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<EventId>,
    /// What it is about: a document's version, or an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// How long what is proposed is, in UTF-16 code units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters: Option<u64>,
    /// The hash of what is proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256Hash>,
    /// The events that it cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EventId>,
    /// What was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionRow>,
    /// The judgment, the receipt or the failure that it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventId>,
    /// The link that does not hold, or why it was not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What would come of it if it were written now: of a memory change that is not refused and not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
    /// The commands that show and move it, one each; the first one moves nothing that cannot be taken back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<String>,
    /// What a person has to know or do beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What it says, if that was asked for and its lineage holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ProposalContent>,
}

impl Proposal {
    /// Takes what a proposal's own event says; where it stands is told by the rest of the log.
    fn of(event: &Event, kind: Kind) -> Self {
        let mut proposal = Self {
            id: event.id,
            kind,
            state: State::Redacted,
            at: event.recorded_at,
            agent: None,
            run: None,
            trigger: None,
            target: None,
            characters: None,
            sha256: None,
            evidence: Vec::new(),
            decision: None,
            outcome: None,
            code: None,
            outlook: None,
            ways: Vec::new(),
            hint: None,
            content: None,
        };
        let text = |text: &str| {
            let characters = thoughtstream_domain::text::characters(text) as u64;
            (Some(characters), Some(Sha256Hash::of(text.as_bytes())))
        };
        if let Ok(said) = event.payload_as::<MemoryChangeProposed>() {
            (proposal.characters, proposal.sha256) = text(said.proposed_text.reveal());
            let target = &said.target;
            proposal.target = Some(format!("{} {}@{}", target.source, target.path, target.revision));
            proposal.evidence.clone_from(&said.evidence);
            proposal.proposed_by(&said.proposer);
        } else if let Ok(said) = event.payload_as::<CorrectionProposed>() {
            (proposal.characters, proposal.sha256) = text(said.replacement.summary());
            proposal.target = Some(said.target.output.to_string());
            proposal.evidence.clone_from(&said.evidence);
            proposal.proposed_by(&said.proposer);
        } else if let Ok(said) = event.payload_as::<FocusProposed>() {
            proposal.sha256 = Some(said.declaration_fingerprint);
            proposal.proposed_by(&said.proposer);
        }
        proposal
    }

    fn proposed_by(&mut self, proposer: &Proposer) {
        self.agent = Some(proposer.agent.clone());
        self.run = Some(proposer.run);
        self.trigger = Some(proposer.trigger);
    }

    fn decided(&mut self, event: &Event, decision: &ProposalDecision) {
        self.decision = Some(DecisionRow {
            event: event.id,
            disposition: decision.disposition.as_str().to_owned(),
            actor: decision.actor.to_string(),
            submission: decision.submission.to_string(),
            at: event.recorded_at,
        });
    }
}

/// Lists proposals that pass a filter, the oldest first; of those that are too many, the newest.
///
/// # Errors
/// [`Failure`] if one that is named is none, or the log cannot be read.
pub fn list(look: &Look<'_>, filter: &ProposalFilter, sink: &mut dyn Sink) -> Result<(), Failure> {
    let reader = look.reader;
    let events = match &filter.ids[..] {
        [] => reader.proposals()?,
        ids => ids.iter().map(|id| find(reader, id)).collect::<Result<_, _>>()?,
    };
    let wanted = |proposal: &Proposal| {
        (filter.states.is_empty() || filter.states.contains(&proposal.state))
            && (!filter.waiting || proposal.state.waits())
    };
    let mut found = Vec::new();
    // The newest are looked at first, so that a short list of a long log costs the list.
    for event in events.iter().rev() {
        let Some(proposal) = one(reader, event, eye(look, filter.content))? else { continue };
        if wanted(&proposal) {
            found.push(proposal);
        }
        if found.len() >= filter.limit as usize {
            break;
        }
    }
    found.iter().rev().try_for_each(|proposal| put(sink, proposal))
}

fn find(reader: &Reader, id: &EventId) -> Result<Event, Failure> {
    let found = reader.event(id)?.filter(|event| Proposed::kind_of(&event.kind).is_some());
    found.ok_or_else(|| unknown("proposal", id))
}

use standing::Writer;
pub(crate) use standing::{Eye, show, why};

/// Looks at proposals with what a running service knows.
pub(crate) fn eye<'a>(look: &Look<'a>, content: bool) -> Eye<'a> {
    Eye { content, writer: Writer::of(look.live), home: look.home, supposed: None }
}

impl<'a> Eye<'a> {
    /// Looks at proposals with what the log knows and the folder shows.
    pub(crate) const fn alone(home: &'a Home, content: bool) -> Self {
        Self { content, writer: Writer::Down, home, supposed: None }
    }
}

/// Returns a proposal with where it stands, as far as the log and a running service know.
pub(crate) fn one(reader: &Reader, event: &Event, eye: Eye<'_>) -> Result<Option<Proposal>, Failure> {
    let Some(kind) = Proposed::kind_of(&event.kind) else { return Ok(None) };
    let mut proposal = Proposal::of(event, kind);
    standing::look(reader, event, &mut proposal, eye)?;
    Ok(Some(proposal))
}

/// Shows a proposal as it would stand with a decision that nobody makes: it is checked as the decision would be, and
/// nothing is written.
///
/// # Errors
/// [`Failure`] as the decision would be refused.
pub fn dry_run(look: &Look<'_>, asked: &DryRun) -> Result<Proposal, Failure> {
    let DryRun { proposal, disposition, content } = asked;
    let submission =
        Reference::parse("dry-run").map_err(|error| Failure::of(Exit::Bug, "dry-run", &error))?;
    let key = IdempotencyKey::parse("dry-run").map_err(|error| Failure::of(Exit::Bug, "dry-run", &error))?;
    let request = DecideRequest { proposal: *proposal, disposition: disposition.clone(), submission };
    let operation = Operation { operator: ourselves(), now: look.now, key };
    // What it would commit is looked at by nobody.
    drop(next(look.reader, look.home, &request, &operation)?);
    let event = find(look.reader, proposal)?;
    let eye = Eye { supposed: Some(disposition), ..eye(look, *content) };
    one(look.reader, &event, eye)?.ok_or_else(|| unknown("proposal", proposal))
}

/// Says what will come of a memory change that is being decided so, as things are; nothing of one that is refused.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn written_later(
    reader: &Reader,
    home: &Home,
    proposed: &MemoryChangeProposed,
    disposition: &Disposition,
) -> Result<Option<String>, Failure> {
    let Some(wanted) = outlook::wanted(proposed, Some(disposition)) else { return Ok(None) };
    Ok(Some(home.outlook(reader, &wanted)?.told()))
}

/// Says what has come of a decided memory change, or what will come of it as things are.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) fn came_to(
    reader: &Reader,
    home: &Home,
    decided: &Decided<MemoryChangeProposed>,
) -> Result<Option<String>, Failure> {
    let Some(event) = reader.event(&decided.proven().id())? else { return Ok(None) };
    let Some(proposal) = one(reader, &event, Eye::alone(home, false))? else { return Ok(None) };
    Ok(match (proposal.state, proposal.outcome, &proposal.code) {
        (State::Materialized, Some(receipt), _) => Some(format!("it is written: {receipt}")),
        (State::Failed, _, Some(code)) => {
            let out = proposal.hint.map_or_else(String::new, |out| format!("; {out}"));
            Some(format!("it was not written: {}{out}", outlook::failed(code)))
        }
        (State::Materializing, ..) => Some("it is being written".to_owned()),
        _ => proposal.outlook.map(|outlook| outlook.told()),
    })
}

/// Adds the proposals that a person can do something about.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn waiting(look: &Look<'_>, found: &mut Vec<Waiting>) -> Result<(), Failure> {
    for event in look.reader.proposals()? {
        let Some(proposal) = one(look.reader, &event, eye(look, false))? else { continue };
        if !proposal.state.waits() {
            continue;
        }
        let mut why = match (&proposal.code, &proposal.agent) {
            (Some(code), _) => format!("{} of a {}: {code}", proposal.state.as_str(), proposal.kind),
            (None, Some(agent)) => {
                format!("{}: {agent} proposed a {}", proposal.state.as_str(), proposal.kind)
            }
            (None, None) => proposal.state.as_str().to_owned(),
        };
        if let Some(outlook) = proposal.outlook.as_ref().filter(|outlook| outlook.verdict == Verdict::Fails) {
            why.push_str(&format!("; accepted, it {}", outlook.would()));
        }
        found.push(Waiting {
            kind: Waits::Proposal,
            id: proposal.id.to_string(),
            since: Some(proposal.decision.as_ref().map_or(proposal.at, |decision| decision.at)),
            why,
            command: proposal.ways.first().cloned().unwrap_or_else(|| standing::show(&proposal.id)),
            ways: Vec::new(),
            about: None,
            hidden_until: None,
        });
    }
    Ok(())
}
