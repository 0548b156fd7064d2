//! Where a proposal stands, and the way out of each standing.

use thoughtstream_domain::event::{Event, Payload};
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::materialization::{MaterializationFailed, Materialized};
use thoughtstream_domain::payload::proposal::{Disposition, MemoryChangeProposed};
use thoughtstream_domain::proposal::decision::{self, Decided};
use thoughtstream_domain::proposal::lineage::{AnyProven, LineageError, Proven, prove};
use thoughtstream_store::Reader;

use super::super::Live;
use super::outlook::{Home, Outlook, Verdict, after_failure, remedy, wanted};
use super::{Proposal, State, content};
use crate::failure::Failure;

/// Returns the command that shows all of a proposal.
pub(crate) fn show(id: &EventId) -> String {
    format!("thought inbox show {id} --full")
}

/// Returns the command that says what keeps a proposal from its end.
pub(crate) fn why(id: &EventId) -> String {
    format!("thought why {id}")
}

/// Is who writes accepted memory changes, as far as it is known at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer<'a> {
    /// No service runs.
    Down,
    /// It writes.
    Writes,
    /// Something is in its way: a code that it shows in the tree.
    Blocked(&'a str),
}

impl<'a> Writer<'a> {
    /// Finds it in the tree of a running service.
    pub(crate) fn of(live: Option<&'a Live>) -> Self {
        let Some(live) = live else { return Self::Down };
        let child = live.tree.children.iter().find(|child| child.kind == "materializer");
        match child.map(|child| (child.state.as_str(), child.note.as_deref())) {
            Some(("running", None)) => Self::Writes,
            Some(("running", Some(note))) => Self::Blocked(note),
            Some((state, _)) => Self::Blocked(state),
            None => Self::Down,
        }
    }
}

/// Is what a proposal is looked at with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Eye<'a> {
    /// Whether what it says is wanted, too.
    pub(crate) content: bool,
    /// Who writes accepted changes.
    pub(crate) writer: Writer<'a>,
    /// Where they are written.
    pub(crate) home: &'a Home,
    /// What is supposed to be decided, while nobody has decided.
    pub(crate) supposed: Option<&'a Disposition>,
}

/// Finds out where a proposal stands, and what it says if that is wanted.
pub(super) fn look(
    reader: &Reader,
    event: &Event,
    proposal: &mut Proposal,
    eye: Eye<'_>,
) -> Result<(), Failure> {
    if !matches!(event.payload, Payload::Present(_)) {
        proposal.state = State::Redacted;
        return Ok(());
    }
    let decision = reader.decision_of(&event.id)?;
    // What was refused is settled without another look at what stood behind it.
    if let Some(decided) = &decision
        && let Ok(read) = decision::read(event, proposal.kind, decided)
    {
        proposal.decided(decided, &read);
        if read.disposition == Disposition::Reject && !eye.content {
            proposal.state = State::Rejected;
            return Ok(());
        }
    }
    let proven = match prove(reader, &event.id) {
        Ok(proven) => proven,
        Err(LineageError::Unread(error)) => return Err(error.into()),
        Err(LineageError::Broken(broken)) => {
            broken_at(proposal, broken.link.code());
            return Ok(());
        }
    };
    if eye.content {
        proposal.content = Some(content::of(reader, &proven, decision.as_ref(), eye.supposed)?);
    }
    match proven {
        AnyProven::Memory(proven) => memory(reader, *proven, decision, proposal, eye),
        AnyProven::Correction(proven) => {
            let Some(event) = decision else {
                waits(proposal);
                return Ok(());
            };
            match Decided::of(*proven, event) {
                Ok(decided) => correction(reader, &decided, proposal),
                Err(fault) => {
                    broken_at(proposal, fault.code());
                    Ok(())
                }
            }
        }
        AnyProven::Focus(_) => {
            proposal.state = State::Inert;
            proposal.hint = Some("nobody decides about a focus: it is kept as it is".to_owned());
            Ok(())
        }
    }
}

/// The first command of each shows and moves nothing: whoever takes it for the next step has decided nothing.
fn waits(proposal: &mut Proposal) {
    let id = proposal.id;
    proposal.state = State::Waiting;
    proposal.ways = vec![
        show(&id),
        format!("thought inbox accept {id}"),
        format!("thought inbox reject {id}"),
        format!("thought inbox edit {id} --file FILE"),
        format!("thought inbox later {id} --for 1d"),
    ];
}

fn broken_at(proposal: &mut Proposal, code: &str) {
    proposal.state = State::Broken;
    proposal.code = Some(code.to_owned());
    proposal.content = None;
    proposal.ways = vec![format!("thought event lineage {}", proposal.id)];
}

fn correction(
    reader: &Reader,
    decided: &Decided<thoughtstream_domain::payload::proposal::CorrectionProposed>,
    proposal: &mut Proposal,
) -> Result<(), Failure> {
    if decided.text().is_none() {
        proposal.state = State::Rejected;
        return Ok(());
    }
    proposal.outcome = reader.projection_of(&proposal.id)?.map(|judgment| judgment.id);
    if proposal.outcome.is_some() {
        proposal.state = State::Projected;
    } else {
        proposal.state = State::Unprojected;
        proposal.ways = vec![format!("thought proposal-project {}", proposal.id)];
    }
    Ok(())
}

fn memory(
    reader: &Reader,
    proven: Proven<MemoryChangeProposed>,
    decision: Option<Event>,
    proposal: &mut Proposal,
    eye: Eye<'_>,
) -> Result<(), Failure> {
    let Some(event) = decision else {
        waits(proposal);
        return undecided(reader, &proven, proposal, eye);
    };
    let source = proven.payload().target.source.clone();
    let decided = match Decided::of(proven, event) {
        Ok(decided) => decided,
        Err(fault) => {
            broken_at(proposal, fault.code());
            return Ok(());
        }
    };
    let Some(wanted) = wanted(decided.proven().payload(), Some(&decided.decision().disposition)) else {
        proposal.state = State::Rejected;
        return Ok(());
    };
    let events = || reader.materializations_of(&source, &decided.proven().id(), &decided.id());
    let mut last = events()?.pop();
    if last.is_none() {
        let outlook = eye.home.outlook(reader, &wanted)?;
        // Whoever writes says so first, so a file that is another by now may be what this very change made of it.
        last = events()?.pop();
        if last.is_none() {
            proposal.state = State::Unmaterialized;
            unwritten(proposal, eye.writer, Some(&outlook));
            proposal.outlook = Some(outlook);
            return Ok(());
        }
    }
    let Some(last) = last else { return Ok(()) };
    proposal.outcome = Some(last.id);
    if last.payload_as::<Materialized>().is_ok() {
        proposal.state = State::Materialized;
    } else if let Ok(failed) = last.payload_as::<MaterializationFailed>() {
        proposal.state = State::Failed;
        proposal.code = Some(failed.code.as_str().to_owned());
        let asked = proposal.trigger.map(|id| format!("thought event show {id}"));
        let later = format!("thought inbox later {} --for-good", proposal.id);
        proposal.ways = [show(&proposal.id)].into_iter().chain(asked).chain([later]).collect();
        proposal.hint = Some(after_failure(failed.code.as_str(), proposal.trigger.as_ref()));
    } else {
        proposal.state = State::Materializing;
        unwritten(proposal, eye.writer, None);
    }
    Ok(())
}

/// Says what would come of a change about which nobody has decided, or what is supposed to be decided about it.
fn undecided(
    reader: &Reader,
    proven: &Proven<MemoryChangeProposed>,
    proposal: &mut Proposal,
    eye: Eye<'_>,
) -> Result<(), Failure> {
    let target = &proven.payload().target;
    let current = reader.document(&target.source, &target.document)?;
    let is_current = current.is_some_and(|document| {
        !document.removed
            && (document.revision, document.sha256) == (target.revision, target.sha256)
            && document.path == target.path
    });
    let Some(wanted) = wanted(proven.payload(), eye.supposed) else { return Ok(()) };
    let outlook = eye.home.outlook(reader, &wanted)?;
    let id = proposal.id;
    let stale = !is_current || outlook.is_stale();
    if stale {
        proposal.state = State::Stale;
        proposal.ways = vec![show(&id), format!("thought inbox reject {id}")];
        proposal.hint =
            Some("the document has changed since: reject it, and ask for it again in the chat".to_owned());
    } else if let Some(way_out) = outlook.way_out() {
        // Accepting it is still anybody's right, and is not what is held out to them first.
        let accepts = format!("thought inbox accept {id}");
        proposal.ways.retain(|way| *way != accepts);
        proposal.hint = Some(format!("accepting it now {}: {way_out}", outlook.would()));
    } else if outlook.verdict == Verdict::Waits {
        proposal.hint = Some(outlook.remedy());
    }
    proposal.outlook = Some(outlook);
    Ok(())
}

/// Says what keeps an accepted change from being written.
fn unwritten(proposal: &mut Proposal, writer: Writer<'_>, outlook: Option<&Outlook>) {
    let mut hint = match writer {
        Writer::Down => {
            proposal.ways = vec!["thought serve".to_owned()];
            "the service writes it".to_owned()
        }
        Writer::Writes => {
            proposal.ways = vec![show(&proposal.id)];
            "the running service writes it".to_owned()
        }
        Writer::Blocked(code) => {
            proposal.code = Some(code.to_owned());
            proposal.ways = vec![why(&proposal.id), "thought tree".to_owned()];
            remedy(code).to_owned()
        }
    };
    match outlook {
        Some(outlook) if outlook.is_stale() => hint.push_str(
            "; the document has changed since, so it will fail as stale: ask for it again in the chat",
        ),
        // What is in the way is said already.
        Some(outlook) if outlook.verdict == Verdict::Waits && outlook.code == proposal.code => {
            hint = outlook.remedy();
        }
        Some(outlook) if outlook.verdict != Verdict::Applies => {
            let out = outlook.way_out().map_or_else(|| outlook.remedy(), str::to_owned);
            hint.push_str(&format!("; as things are it {}", outlook.would()));
            hint.extend((!hint.contains(&out)).then_some(out).map(|out| format!(": {out}")));
        }
        Some(_) | None => {}
    }
    proposal.hint = Some(hint);
}
