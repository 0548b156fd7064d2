//! Loops that a declaration would make with itself: refused at load, before the first event turns in one.
//!
//! Loops through other consumers cannot be seen in one file; [`crate::subscription::DEPTH_MAX`] bounds them.

use super::{AgentRole, Runner};
use crate::id::{ConsumerId, SourceId, TypeName};
use crate::payload::TypedPayload;
use crate::payload::output::OutputRejected;
use crate::payload::proposal::{CorrectionProposed, FocusProposed, MemoryChangeProposed};
use crate::payload::repair::RepairRequested;
use crate::payload::run::{
    RunAbandoned, RunBlocked, RunCompleted, RunFailed, RunReceived, RunStarted, RunStatusUnknown,
};
use crate::payload::system::{Incident, Quarantined, Restarted};
use crate::payload::trace::RunTraced;
use crate::subscription::Subscription;

/// A type that a declaration would be woken by and that it causes itself.
pub(super) struct Loop {
    pub(super) name: TypeName,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Output,
    Lifecycle,
    Beside,
    Incident,
}

impl Loop {
    pub(super) fn message(&self) -> String {
        let what = match self.what {
            What::Output => "what it emits itself",
            What::Lifecycle => "the lifecycle of its own runs",
            What::Beside => "what its own runs leave beside their output",
            What::Incident => "its own restarts and incidents",
        };
        format!("the consumer would be woken by {what} (`{}`)", self.name)
    }

    pub(super) const fn hint(&self) -> &'static str {
        match self.what {
            What::Output | What::Lifecycle | What::Beside => {
                "name the sources it needs instead of kinds or its own, or exclude itself by `where: { actor.id: … }`"
            }
            What::Incident => "narrow it to another child by `where: { payload.child: … }`",
        }
    }
}

/// Returns the types that settling a run of this kind writes besides its lifecycle and what is declared as `emit`.
fn beside(runner: Option<&Runner>) -> &'static [&'static str] {
    match runner.and_then(Runner::model).map(|model| model.role) {
        None => &[],
        Some(AgentRole::Standard) => &[
            RunTraced::NAME,
            OutputRejected::NAME,
            RepairRequested::NAME,
            MemoryChangeProposed::NAME,
            CorrectionProposed::NAME,
            FocusProposed::NAME,
        ],
        // A repair asks for no other repair, and proposes nothing but its output.
        Some(AgentRole::Repair) => &[RunTraced::NAME, OutputRejected::NAME],
    }
}

/// Finds the first event type that the consumer `id`, emitting `emit`, would be woken by and causes itself.
pub(super) fn find(
    id: &ConsumerId,
    subscription: &Subscription,
    emit: &[TypeName],
    runner: Option<&Runner>,
) -> Option<Loop> {
    let agent = SourceId::agent(id);
    let supervision = SourceId::supervision();
    let lifecycle = [
        RunReceived::NAME,
        RunStarted::NAME,
        RunCompleted::NAME,
        RunFailed::NAME,
        RunBlocked::NAME,
        RunStatusUnknown::NAME,
        RunAbandoned::NAME,
    ];
    let incidents = [Restarted::NAME, Quarantined::NAME, Incident::NAME];
    let named =
        |names: &[&str]| -> Vec<TypeName> { names.iter().filter_map(|n| TypeName::parse(n).ok()).collect() };
    let own = [
        (What::Output, &agent, emit.to_vec()),
        (What::Lifecycle, &agent, named(&lifecycle)),
        (What::Beside, &agent, named(beside(runner))),
        (What::Incident, &supervision, named(&incidents)),
    ];
    let excluded = subscription.conditions().iter().any(|condition| condition.never_own(id.as_str()));
    own.into_iter().filter(|_| !excluded).find_map(|(what, source, names)| {
        let name = names.into_iter().find(|name| subscription.could_match(name, source))?;
        Some(Loop { name, what })
    })
}
