//! The names of the points and of what can happen there.
//!
//! The four points of `proposal.settle` lie where a settlement is put together, before anything of it is handed in: what
//! is lost there was never anywhere else. From there on its events, the run row and progress are one commit, and one
//! frame of the journal, so no point lies between two of them: whatever ends the writer leaves all of it or nothing. Around
//! that commit lie `attempt.settle` for whoever hands it in and `commit` for the writer, whose `commit.inside` is the
//! moment at which the frame is written and not durable; the simulated disk of the store is cut at every operation in it.
//!
//! The points of `proposal.decision`, `proposal.projection` and `activation.step` are passed while a person's command is
//! answered, by a task and by no actor. A panic there ends that answer alone, and `fail` and `kill-actor` are one thing:
//! the command is told that its end is not known, and the same command goes on.

use std::fmt;

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)+) => {
        /// A place in an attempt, a commit, a clean-up or an observation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum KillPoint { $($(#[$doc])* $point,)+ }

        impl KillPoint {
            /// Every point.
            pub const ALL: &[Self] = &[$(Self::$point),+];

            /// Returns its name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$point => $name),+ }
            }
        }
    };
}

points! {
    /// An attempt is about to be recorded as received.
    ReceivedBefore = "attempt.received.before",
    /// The record was handed in; its answer is not known yet.
    ReceivedInside = "attempt.received.inside",
    /// It is durable.
    ReceivedAfter = "attempt.received.after",
    /// The attempt is about to be recorded as started.
    StartedBefore = "attempt.started.before",
    /// The record was handed in; its answer is not known yet.
    StartedInside = "attempt.started.inside",
    /// It is durable.
    StartedAfter = "attempt.started.after",
    /// The runner is about to run.
    RunnerBefore = "attempt.runner.before",
    /// The runner has done a part of its work.
    RunnerInside = "attempt.runner.inside",
    /// The runner has returned; nothing of it is recorded.
    RunnerAfter = "attempt.runner.after",
    /// The settlement is about to be handed in.
    SettleBefore = "attempt.settle.before",
    /// It was handed in; its answer is not known yet.
    SettleInside = "attempt.settle.inside",
    /// It is durable.
    SettleAfter = "attempt.settle.after",
    /// The writer has a group and has written nothing of it.
    CommitBefore = "commit.before",
    /// The group is written and not durable.
    CommitInside = "commit.inside",
    /// The group is durable; nobody has been told.
    CommitAfterSync = "commit.after-sync",
    /// Those who handed it in have been answered.
    CommitAfter = "commit.after",
    /// Progress past events that do not match is about to be recorded.
    ProgressBefore = "progress.before",
    /// It was handed in; its answer is not known yet.
    ProgressInside = "progress.inside",
    /// It is durable.
    ProgressAfter = "progress.after",
    /// What an ended actor left open is about to be looked up.
    RecoveryBefore = "recovery.before",
    /// The closing record was handed in; its answer is not known yet.
    RecoveryInside = "recovery.inside",
    /// Nothing is open any more.
    RecoveryAfter = "recovery.after",
    /// A producer has seen something and handed nothing in.
    ObserveBefore = "observe.before",
    /// Its candidates were handed in; the answer is not known yet.
    ObserveInside = "observe.inside",
    /// They are durable.
    ObserveAfter = "observe.after",
    /// A request to a provider has its turn, and nothing of it has left.
    BrokerBefore = "broker.ask.before",
    /// Its bytes were handed to the connection; the answer is not known yet.
    BrokerInside = "broker.ask.inside",
    /// The answer is there, or why there is none; nobody has been told.
    BrokerAfter = "broker.ask.after",
    /// A delivery is about to be claimed.
    DeliveryClaimBefore = "delivery.claim.before",
    /// The claim was handed in; its answer is not known yet.
    DeliveryClaimInside = "delivery.claim.inside",
    /// It is durable; nothing was sent.
    DeliveryClaimAfter = "delivery.claim.after",
    /// The message is about to be sent.
    DeliverySendBefore = "delivery.send.before",
    /// It is noted that sending begins.
    DeliverySendInside = "delivery.send.inside",
    /// The other side has answered, or has not; nothing of it is recorded.
    DeliverySendAfter = "delivery.send.after",
    /// The end of the claim is about to be handed in.
    DeliveryReceiptBefore = "delivery.receipt.before",
    /// It was handed in; its answer is not known yet.
    DeliveryReceiptInside = "delivery.receipt.inside",
    /// It is durable.
    DeliveryReceiptAfter = "delivery.receipt.after",
    /// A model's final message was accepted and its output is made; what it proposes is not.
    ProposalOutputMade = "proposal.settle.output",
    /// One of several things that it proposes is made; the next is not.
    ProposalMade = "proposal.settle.proposal",
    /// What it proposes is made; the end of the attempt is not.
    ProposalsMade = "proposal.settle.proposals",
    /// The end that names both is made, with the rows; nothing was handed in.
    ProposalSettlementMade = "proposal.settle.completed",
    /// A person's decision about a proposal is about to be handed in.
    ProposalDecisionBefore = "proposal.decision.before",
    /// It was handed in; its answer is not known yet.
    ProposalDecisionInside = "proposal.decision.inside",
    /// It is durable, and nothing has followed from it.
    ProposalDecisionAfter = "proposal.decision.after",
    /// The judgment that follows from a decision is about to be handed in.
    ProposalProjectionBefore = "proposal.projection.before",
    /// It was handed in; its answer is not known yet.
    ProposalProjectionInside = "proposal.projection.inside",
    /// It is durable.
    ProposalProjectionAfter = "proposal.projection.after",
    /// An activation is about to do its next step.
    ActivationStepBefore = "activation.step.before",
    /// The step was done, and nothing of it is recorded.
    ActivationStepInside = "activation.step.inside",
    /// It is recorded.
    ActivationStepAfter = "activation.step.after",
    /// A change of the memory document is about to be recorded as begun.
    MaterializeStartedBefore = "materialize.started.before",
    /// The record was handed in; its answer is not known yet.
    MaterializeStartedInside = "materialize.started.inside",
    /// It is durable; nothing was written.
    MaterializeStartedAfter = "materialize.started.after",
    /// The new file is about to be written beside the document.
    MaterializeFileBefore = "materialize.file.before",
    /// A part of it may be there.
    MaterializeFileInside = "materialize.file.inside",
    /// It is there, whole and durable.
    MaterializeFileAfter = "materialize.file.after",
    /// The two are about to be exchanged.
    MaterializeExchangeBefore = "materialize.exchange.before",
    /// They are exchanged, and nobody has looked at what came out.
    MaterializeExchangeInside = "materialize.exchange.inside",
    /// What came out was the base, and is gone.
    MaterializeExchangeAfter = "materialize.exchange.after",
    /// The source is about to be asked to look.
    MaterializeScanBefore = "materialize.scan.before",
    /// It was asked; what it says is not known yet.
    MaterializeScanInside = "materialize.scan.inside",
    /// It has looked, and nobody has checked what it saw.
    MaterializeScanAfter = "materialize.scan.after",
    /// The receipt, or why there is none, is about to be handed in.
    MaterializeReceiptBefore = "materialize.receipt.before",
    /// It was handed in; its answer is not known yet.
    MaterializeReceiptInside = "materialize.receipt.inside",
    /// It is durable.
    MaterializeReceiptAfter = "materialize.receipt.after",
}

impl KillPoint {
    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.as_str() == name)
    }
}

impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KillAction {
    /// It panics.
    Panic,
    /// It returns an error.
    Fail,
    /// The actor is killed: it stops here, and no clean-up of its own runs. Blocking work goes on to its end,
    /// as it does under a real kill.
    KillActor,
    /// The process ends at once, as under `kill -9`.
    AbortProcess,
    /// It waits until it is released.
    Hold,
}

impl KillAction {
    /// Every action.
    pub const ALL: [Self; 5] = [Self::Panic, Self::Fail, Self::KillActor, Self::AbortProcess, Self::Hold];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Fail => "fail",
            Self::KillActor => "kill-actor",
            Self::AbortProcess => "abort-process",
            Self::Hold => "hold",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}
