//! Binds checked calls to what the snapshot admitted: the trusted half, which alone knows targets.
//!
//! [`latest`](super::call::LATEST) ends here. What is bound names the exact output, document version, run and receipt
//! that the capability holds, and from it come the payloads that are settled.

use super::Kind;
use super::call::{Call, CallCode, CallError, Calls, Misfit, Operation, Target};
use super::capability::{CorrectionTarget, MemoryTarget, ProposalCapability};
use super::focus::FocusDeclaration;
use super::text::{ProposedText, Reason, Replacement};
use crate::contract::{Contract, Observation};
use crate::hash::Sha256Hash;
use crate::id::EventId;
use crate::payload::proposal::{
    CorrectionProposed, False, FocusAuthority, FocusProposed, FocusResolution, MemoryChangeProposed,
    ProposalState, Proposed, Proposer,
};

/// Is a call together with the target that the snapshot admits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// A change of the one memory document.
    Memory {
        /// The exact version.
        target: MemoryTarget,
        /// How it is to be changed.
        operation: Operation,
        /// What it would be given.
        proposed_text: ProposedText,
        /// Why.
        reason: Reason,
        /// What it is based on.
        evidence: Vec<EventId>,
    },
    /// Another wording of one delivered reply.
    Correction {
        /// The exact reply.
        target: CorrectionTarget,
        /// What should have been said.
        replacement: Replacement,
        /// Why.
        reason: Reason,
        /// What it is based on.
        evidence: Vec<EventId>,
    },
    /// A focus.
    Focus {
        /// The focus.
        declaration: FocusDeclaration,
    },
}

/// Says why a bound call makes no proposal; nothing of the run is then settled as completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The output that is to be corrected cannot be read.
    #[error("the output that is to be corrected cannot be read")]
    NoOriginal,
    /// The contract of that output is not one of this program's.
    #[error("the output that is to be corrected has a contract that is not known")]
    UnknownContract,
    /// The corrected value does not fit that contract.
    #[error("the correction does not fit the contract of the output")]
    Unfit,
}

impl ProposeError {
    /// Returns the code that a run is closed with.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoOriginal => "correction-original-missing",
            Self::UnknownContract => "correction-contract-unknown",
            Self::Unfit => "correction-unfit",
        }
    }
}

impl Calls {
    /// Holds the calls against a capability once more and binds each to its target, in the order in which their
    /// events are settled.
    ///
    /// # Errors
    /// [`CallError`] for the first that is not admitted.
    pub fn bind(&self, admitted: &ProposalCapability) -> Result<Vec<Bound>, CallError> {
        self.check(&admitted.for_worker())?;
        let bind = |(index, call): (usize, &Call)| {
            bind(call, admitted).map_err(|misfit| CallError { index, kind: Some(call.kind()), misfit })
        };
        let mut bound = self.as_slice().iter().enumerate().map(bind).collect::<Result<Vec<_>, _>>()?;
        bound.sort_by_key(Bound::kind);
        Ok(bound)
    }
}

fn bind(call: &Call, admitted: &ProposalCapability) -> Result<Bound, Misfit> {
    match call.clone() {
        Call::Memory(call) => {
            let target = admitted.memory.clone().ok_or_else(|| Misfit::whole(CallCode::NotOffered))?;
            let (operation, proposed_text) = (call.operation, call.proposed_text);
            Ok(Bound::Memory {
                target,
                operation,
                proposed_text,
                reason: call.reason,
                evidence: call.evidence,
            })
        }
        Call::Correction(call) => {
            let targets = &admitted.correction_targets;
            let found = match call.target {
                Target::Latest => targets.last(),
                Target::Output(id) => targets.iter().find(|target| target.output == id),
            };
            let target = found.ok_or_else(|| Misfit::new(CallCode::NotAdmitted, "/target_output"))?.clone();
            let (replacement, reason) = (call.replacement, call.reason);
            Ok(Bound::Correction { target, replacement, reason, evidence: call.evidence })
        }
        Call::Focus(call) => Ok(Bound::Focus { declaration: call.declaration }),
    }
}

impl Bound {
    /// Returns what it proposes.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Memory { .. } => Kind::MemoryChange,
            Self::Correction { .. } => Kind::SelfCorrection,
            Self::Focus { .. } => Kind::FocusDeclaration,
        }
    }

    /// Returns the output that it would correct, whose value [`Self::proposed`] has to be given.
    #[must_use]
    pub const fn corrects(&self) -> Option<EventId> {
        match self {
            Self::Correction { target, .. } => Some(target.output),
            Self::Memory { .. } | Self::Focus { .. } => None,
        }
    }

    /// Makes the proposal. `original` is the value of the output that it [corrects](Self::corrects): its display
    /// field alone is replaced, and the whole is held against the frozen contract again.
    ///
    /// # Errors
    /// [`ProposeError`] if a correction cannot be made whole.
    pub fn proposed(
        self,
        proposer: Proposer,
        original: Option<&Observation>,
    ) -> Result<Proposed, ProposeError> {
        Ok(match self {
            Self::Memory { target, operation, proposed_text, reason, evidence } => {
                Proposed::Memory(MemoryChangeProposed {
                    proposal_state: ProposalState::AgentProposed,
                    proposer,
                    target,
                    operation,
                    text_length: proposed_text.characters(),
                    text_sha256: Sha256Hash::of(proposed_text.reveal().as_bytes()),
                    proposed_text,
                    reason,
                    evidence,
                    publication_eligible: False,
                })
            }
            Self::Correction { target, replacement, reason, evidence } => {
                let original = original.ok_or(ProposeError::NoOriginal)?;
                Proposed::Correction(CorrectionProposed {
                    proposal_state: ProposalState::AgentProposed,
                    proposer,
                    replacement: corrected(&target, original, replacement.reveal())?,
                    target,
                    reason,
                    evidence,
                    quality_eligible: False,
                    external_export_eligible: False,
                    publication_eligible: False,
                })
            }
            Self::Focus { declaration } => Proposed::Focus(FocusProposed {
                proposal_state: ProposalState::AgentProposed,
                proposer,
                declaration_fingerprint: declaration.fingerprint(),
                declaration,
                resolution: FocusResolution::default(),
                authority: FocusAuthority::default(),
            }),
        })
    }
}

/// Makes the whole value that a text would correct an output to, under the output's own frozen contract. A person's
/// edit of a correction passes through it as well.
///
/// # Errors
/// [`ProposeError`] if the contract is not known, or the text does not fit it.
pub fn corrected(
    target: &CorrectionTarget,
    original: &Observation,
    text: &str,
) -> Result<Observation, ProposeError> {
    let contract = Contract::exactly(&target.contract.name, &target.contract.sha256);
    let contract = contract.ok_or(ProposeError::UnknownContract)?;
    contract.with_display(original, text).map_err(|_| ProposeError::Unfit)
}
