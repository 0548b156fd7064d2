//! Decisions about proposals through the operator's door: a decision, then what follows from it, each its own commit.

use std::sync::Arc;

use thoughtstream_actors::killpoint::{KillPoint, KillSite};
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::id::EventId;
use tokio::time::timeout;

use super::{DECIDE_PATIENCE, ServiceDesk, bug, log_failure, stuck};
use crate::chance;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{Done, Operation};
use crate::proposals::{self, DecideRequest, Made, Next, ROUNDS_MAX, Rest, overtaken, settled, to_project};
use crate::query::proposals::Home;
use crate::rehearsal::DESK;
use crate::session::now;
use crate::socket::{Peer, Reply};

/// The kill points around one commit.
type Points = [KillPoint; 3];

const DECISION: Points =
    [KillPoint::ProposalDecisionBefore, KillPoint::ProposalDecisionInside, KillPoint::ProposalDecisionAfter];
const PROJECTION: Points = [
    KillPoint::ProposalProjectionBefore,
    KillPoint::ProposalProjectionInside,
    KillPoint::ProposalProjectionAfter,
];

/// Decides about a proposal, and lets follow what follows.
pub(super) async fn decide(desk: &ServiceDesk, request: DecideRequest, peer: &Peer) -> Result<Done, Failure> {
    let operation = Operation { operator: peer.operator(), now: now(), key: chance::key("decision")? };
    let proposal = request.proposal;
    let shared = Arc::new((request, operation));
    let look = |desk: &ServiceDesk| {
        let (service, shared) = (desk.service.clone(), Arc::clone(&shared));
        tokio::task::spawn_blocking(move || {
            let home = Home::of(service.context_root());
            proposals::next(&service.reader(), &home, &shared.0, &shared.1)
        })
    };
    let mut made = Made::default();
    for _ in 0..ROUNDS_MAX {
        match look(desk).await.map_err(|_| bug("a decision could not be worked out"))?? {
            Next::Done(done) => return Ok(made.told(*done)),
            Next::Decide(commit, outlook) => {
                made.note(commit_at(desk, *commit, DECISION).await?, Some(outlook));
            }
            // Who makes up for what another left undone has not decided.
            Next::Project(commit) => drop(commit_at(desk, *commit, PROJECTION).await?),
        }
    }
    Err(overtaken(&proposal))
}

/// Lets follow what was cut off after a decision: what is named, or everything. What is done is told as it is done.
pub(super) async fn project(
    desk: &ServiceDesk,
    proposal: Option<EventId>,
    reply: &Reply,
) -> Result<Exit, Failure> {
    let reader = desk.service.reader();
    let found = tokio::task::spawn_blocking(move || to_project(&reader, proposal)).await;
    let mut rest = Rest::of(proposal);
    for id in found.map_err(|_| bug("proposals could not be looked up"))?? {
        if let Some(done) = rest.take(id, project_one(desk, id).await)? {
            desk.say(reply, &done).await?;
        }
    }
    rest.end().map(|()| Exit::Done)
}

async fn project_one(desk: &ServiceDesk, id: EventId) -> Result<Done, Failure> {
    let mut made = false;
    for _ in 0..ROUNDS_MAX {
        let service = desk.service.clone();
        let next = tokio::task::spawn_blocking(move || {
            let home = Home::of(service.context_root());
            proposals::next_after(&service.reader(), &home, &id)
        });
        let next = next.await;
        match next.map_err(|_| bug("what follows could not be worked out"))?? {
            Next::Done(done) => return Ok(Done { already: !made, ..*done }),
            Next::Decide(commit, _) | Next::Project(commit) => {
                made |= commit_at(desk, *commit, PROJECTION).await?;
            }
        }
    }
    Err(overtaken(&id))
}

/// Hands a commit in, and passes the points around it. Says whether it was written now.
async fn commit_at(
    desk: &ServiceDesk,
    commit: Commit,
    [before, inside, after]: Points,
) -> Result<bool, Failure> {
    let site = desk.service.points().site(DESK.into(), None);
    pass(&site, before).await?;
    let service = desk.service.clone();
    let handed_in = tokio::spawn(async move { timeout(DECIDE_PATIENCE, service.decide(commit)).await });
    pass(&site, inside).await?;
    let decided = handed_in.await.map_err(|_| bug("a commit was lost on its way"))?;
    let verdict = decided.map_err(|_| stuck())?.map_err(|error| log_failure(&error))?;
    pass(&site, after).await?;
    settled(verdict)
}

async fn pass(site: &KillSite, point: KillPoint) -> Result<(), Failure> {
    site.pass(point).await.map_err(|_| {
        Failure::new(Exit::Unknown, "rehearsal.point", format!("a rehearsal ended this at {point}"))
    })
}
