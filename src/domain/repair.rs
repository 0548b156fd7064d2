//! Repair: what may follow an output that its contract refused (Outputs and Lifecycle sections).
//!
//! A refused output fails its run for good. Beside the failure, in the same commit, stands at most one request
//! for repair, whose key is the run: asking again is the same event. A declaration of role `repair` answers it
//! with one generation, and its proposal is inert.
//!
//! **What the repair run sees.** The refused text is kept nowhere, so nobody can be shown it. The request names
//! the frozen context of the failed run by hash, the contract, and the classified verdict; the repair run is
//! given that same context and the verdict, and writes the output anew. It does not patch what was refused. That
//! costs the input a second time and leaves nothing malformed, and nothing a model thought aloud, on disk.
//!
//! Failures of the provider, the sandbox or the store, and denied authority, have no verdict of a contract, so
//! none of them can be handed to [`request`].

use serde::{Deserialize, Serialize};

use crate::commit::Commit;
use crate::contract::Rejection;
use crate::event::{Candidate, Parent};
use crate::hash::Sha256Hash;
use crate::lifecycle::FailurePolicy;
use crate::payload::TypedPayload as _;
use crate::payload::output::{OutputRejected, beside};
use crate::payload::repair::RepairRequested;
use crate::payload::run::RunStamp;
use crate::privacy::Privacy;
use crate::retry::{Interrupted, InterruptedRecord, InterruptedThen};

/// Says what a model-backed declaration is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AgentRole {
    /// It makes outputs of what it subscribes to.
    #[default]
    Standard,
    /// It answers requests for repair, each with one proposal, and nothing else.
    Repair,
}

impl AgentRole {
    /// All roles.
    pub const ALL: [Self; 2] = [Self::Standard, Self::Repair];

    /// Returns the spelling used in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Repair => "repair",
        }
    }

    /// Reads the spelling used in declarations.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// Returns how an interrupted attempt ends: one of a repair declaration is abandoned and its request passed,
    /// whatever is declared, because one request authorizes one generation and nobody knows whether it took place.
    #[must_use]
    pub const fn interrupted(self, declared: Interrupted) -> Interrupted {
        match self {
            Self::Standard => declared,
            Self::Repair => {
                Interrupted { record: InterruptedRecord::Abandoned, then: InterruptedThen::Advance }
            }
        }
    }

    /// Returns what follows a failed attempt: one of a repair declaration is final, for the same reason.
    #[must_use]
    pub const fn after_failure(self, declared: FailurePolicy) -> FailurePolicy {
        match self {
            Self::Standard => declared,
            Self::Repair => FailurePolicy::Final,
        }
    }
}

/// Is an attempt that fails because its output was refused.
#[derive(Debug, Clone)]
pub struct Refused<'a> {
    /// The attempt.
    pub stamp: &'a RunStamp,
    /// What its declaration is for.
    pub role: AgentRole,
    /// The hash of the context that its model saw.
    pub snapshot: Sha256Hash,
    /// The class of the run.
    pub privacy: Privacy,
    /// The events it was about.
    pub triggers: Vec<Parent>,
}

impl Refused<'_> {
    /// Makes the event that says in what way the output was refused.
    fn event(&self, rejection: &Rejection) -> Candidate {
        let (stamp, rejection) = (self.stamp.clone(), rejection.clone());
        OutputRejected { stamp, snapshot: self.snapshot, rejection }
            .event(self.privacy, self.triggers.clone())
    }
}

/// Adds to the commit that fails an attempt for good what is known of its refused output, and the request for
/// repair, if one may follow: all of it is written, or nothing.
pub fn add_to(failing: &mut Commit, refused: &Refused<'_>, rejection: &Rejection) {
    failing.appends.push(refused.event(rejection));
    failing.appends.extend(request(refused, rejection));
}

/// Makes the one request for repair that may stand beside a refused output, if one may: not for a run that was
/// a repair itself, and not for a message that reached for what it was not given.
#[must_use]
pub fn request(refused: &Refused<'_>, rejection: &Rejection) -> Option<Candidate> {
    if refused.role == AgentRole::Repair || !rejection.is_repairable() {
        return None;
    }
    let stamp = refused.stamp;
    let requested =
        RepairRequested { stamp: stamp.clone(), snapshot: refused.snapshot, rejection: rejection.clone() };
    let mut parents = refused.triggers.clone();
    parents.push(Parent::named(refused.event(rejection).id()));
    let envelope = beside(stamp, "repair", refused.privacy, parents);
    Some(requested.candidate(envelope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Contract, FinalPart, Mode, Stop, judge};
    use crate::payload::output::tests::stamp;
    use crate::retry::RetryPolicy;

    fn rejection(parts: &[FinalPart]) -> Rejection {
        *judge(&Contract::observation(), Mode::StrictJson, parts, Stop::End).unwrap_err()
    }

    fn refused(stamp: &RunStamp, role: AgentRole) -> Refused<'_> {
        let snapshot = Sha256Hash::of(b"packet");
        Refused { stamp, role, snapshot, privacy: Privacy::Sensitive, triggers: Vec::new() }
    }

    #[test]
    fn a_refused_output_asks_for_one_repair_however_often_it_is_asked() {
        let stamp = stamp();
        let empty = rejection(&[FinalPart::text("{\"summary\":\"\"}")]);
        let one = request(&refused(&stamp, AgentRole::Standard), &empty).unwrap();
        let again =
            request(&refused(&stamp, AgentRole::Standard), &rejection(&[FinalPart::text("{")])).unwrap();
        assert_eq!(one.id(), again.id());
        assert_eq!(one.envelope().privacy, Privacy::Sensitive);
        assert_eq!(one.envelope().source.as_str(), "agent:garden");
        let read: RepairRequested = serde_json::from_slice(one.payload().reveal()).unwrap();
        assert_eq!((read.stamp, read.rejection), (stamp, empty));
    }

    #[test]
    fn the_failing_commit_holds_the_refusal_and_the_one_request_that_follows_from_it() {
        let stamp = stamp();
        let empty = rejection(&[FinalPart::text("{\"summary\":\"\"}")]);
        let appended = |role| {
            let mut failing = Commit::default();
            add_to(&mut failing, &refused(&stamp, role), &empty);
            failing.appends
        };
        let standard = appended(AgentRole::Standard);
        let names: Vec<&str> = standard.iter().map(|candidate| candidate.kind().name.as_str()).collect();
        assert_eq!(names, [OutputRejected::NAME, RepairRequested::NAME]);
        assert_eq!(standard[1].envelope().parents, [Parent::named(standard[0].id())]);
        assert_eq!(appended(AgentRole::Repair).len(), 1, "a repair that fails asks for nothing");
    }

    #[test]
    fn a_repair_is_never_repaired() {
        let stamp = stamp();
        let empty = rejection(&[FinalPart::text("{}")]);
        assert_eq!(request(&refused(&stamp, AgentRole::Repair), &empty), None);
    }

    #[test]
    fn reaching_for_a_tool_is_not_repaired() {
        let stamp = stamp();
        let reached = rejection(&[FinalPart::text("{}"), FinalPart::ToolCall]);
        assert_eq!(request(&refused(&stamp, AgentRole::Standard), &reached), None);
    }

    #[test]
    fn one_request_is_one_generation() {
        let declared = Interrupted::default();
        assert_eq!(AgentRole::Standard.interrupted(declared), declared);
        assert_eq!(
            AgentRole::Repair.interrupted(declared),
            Interrupted { record: InterruptedRecord::Abandoned, then: InterruptedThen::Advance }
        );
        let retry = FailurePolicy::Retryable(RetryPolicy::default());
        assert_eq!(AgentRole::Standard.after_failure(retry), retry);
        assert_eq!(AgentRole::Repair.after_failure(retry), FailurePolicy::Final);
    }
}
