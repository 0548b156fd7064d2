//! What can be asked of the service, and of the store when no service runs: one closed list for both.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::id::{ConsumerId, DeliveryId, EventId, IdempotencyKey, RunId, SourceId};
use thoughtstream_domain::payload::delivery::Reconciled;
use thoughtstream_domain::payload::proposal::Disposition;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;

use crate::activate::ActivateRequest;
use crate::copies::Form;
use crate::judge::JudgeRequest;
use crate::proposals::DecideRequest;
use crate::query::proposals::State;

/// The most rows one list answers with; more are asked for with `--after`.
pub const ROWS_MAX: u32 = 100_000;

/// Is what can be said through the ask door: it changes nothing but by adding what a hand may add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Asked {
    /// A question.
    Ask(Ask),
    /// An event of a person's own.
    Submit(Box<Submit>),
}

/// Is what can be said through the operator door.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Operated {
    /// A question.
    Ask(Ask),
    /// An event of a person's own.
    Submit(Box<Submit>),
    /// A decision about the service.
    Operate(Operate),
}

impl From<Asked> for Operated {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Ask(ask) => Self::Ask(ask),
            Asked::Submit(submit) => Self::Submit(submit),
        }
    }
}

impl Ask {
    /// Says whether the answer tells who is alive. To find that out, every actor is looked at: with thousands of
    /// them it costs more than most answers.
    #[must_use]
    pub const fn looks_at_actors(&self) -> bool {
        match self {
            Self::Tree { .. }
            | Self::Status { .. }
            | Self::Inbox
            | Self::InboxAll
            | Self::Proposals(_)
            | Self::DryRun(_)
            | Self::Why { .. }
            | Self::Consumers { .. }
            | Self::Skipped { .. } => true,
            // A source that has no event yet may be watched all the same.
            Self::Events(filter) | Self::Tail(filter) => filter.source.is_some(),
            Self::Runs(filter) => filter.source.is_some(),
            Self::Event { .. }
            | Self::Lineage { .. }
            | Self::Run { .. }
            | Self::Context { .. }
            | Self::ContextDiff { .. }
            | Self::Sources
            | Self::Explain { .. }
            | Self::Verify { .. }
            | Self::Accounts
            | Self::Account { .. }
            | Self::Simulate { .. }
            | Self::Deliveries { .. }
            | Self::Delivery { .. }
            | Self::Registered
            | Self::Judgments(_) => false,
        }
    }
}

/// Is a question; its answer is a stream of values, one for most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Ask {
    /// Who is alive.
    Tree {
        /// Whether to answer again with every change.
        watch: bool,
    },
    /// One screen about the service, the log and every consumer.
    Status {
        /// Only consumers in one of these states; empty for all.
        states: Vec<String>,
    },
    /// Everything that waits for a person.
    Inbox,
    /// Everything that waits for a person, and what they hid in that list.
    InboxAll,
    /// Proposals of agents that pass a filter.
    Proposals(ProposalFilter),
    /// A proposal as it would stand with a decision that nobody makes.
    DryRun(Box<DryRun>),
    /// What blocks a thing, or what became of it.
    Why {
        /// An id or a name.
        id: String,
    },
    /// Events that pass a filter.
    Events(EventFilter),
    /// Events that pass a filter, and then each new one as it is recorded.
    Tail(EventFilter),
    /// One event.
    Event {
        /// Its id.
        id: EventId,
        /// Whether the words of a proposal are wanted, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        content: bool,
    },
    /// Where an event came from and what came of it.
    Lineage {
        /// Its id.
        id: EventId,
    },
    /// Attempts that pass a filter.
    Runs(RunFilter),
    /// One attempt or one execution, with its events.
    Run {
        /// A run or an execution id.
        id: String,
    },
    /// What the model of a run saw.
    Context {
        /// A run or an execution id.
        id: String,
        /// Whether the texts are wanted, too.
        content: bool,
    },
    /// How what the models of two runs saw differs.
    ContextDiff {
        /// A run or an execution id.
        one: String,
        /// The other one.
        other: String,
        /// Whether the texts are wanted, too.
        content: bool,
    },
    /// Every consumer with its state.
    Consumers {
        /// Only consumers in one of these states; empty for all.
        states: Vec<String>,
    },
    /// Every source of the log.
    Sources,
    /// What the last look at a watched source skipped, by name.
    Skipped {
        /// The source.
        source: SourceId,
    },
    /// Why an event does or does not match a consumer.
    Explain {
        /// The consumer.
        consumer: ConsumerId,
        /// Its version; if none is named, the one that is enabled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
        /// The event.
        event: EventId,
    },
    /// Whether the log is whole.
    Verify {
        /// A head digest kept from before, which this log must extend.
        from: Option<String>,
    },
    /// Every account of a consumer that asks models.
    Accounts,
    /// One account.
    Account {
        /// The account.
        account: ConsumerId,
    },
    /// What would happen to the next calls of an account.
    Simulate {
        /// The account.
        account: ConsumerId,
        /// How many calls.
        calls: u32,
    },
    /// Every declaration as it was when its version was first enabled.
    Registered,
    /// Judgments of outputs that pass a filter.
    Judgments(JudgmentFilter),
    /// Deliveries, the latest first.
    Deliveries {
        /// Only those in one of these states; empty for all.
        states: Vec<String>,
        /// At most this many of each bot.
        limit: u32,
    },
    /// One delivery with its events.
    Delivery {
        /// Its id.
        id: DeliveryId,
    },
}

/// Says which events are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventFilter {
    /// Only of this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Only of this type, or of the family `prefix.*`, or of the version `type@n`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only behind this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// At most this many.
    pub limit: u32,
    /// The last ones instead of the first ones.
    #[serde(default)]
    pub newest: bool,
    /// Whether the words of proposals are wanted, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub content: bool,
}

/// Says which attempts are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFilter {
    /// Only of this consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<ConsumerId>,
    /// Only of this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Only in these states; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// At most this many, the newest ones.
    pub limit: u32,
}

/// Says which judgments are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JudgmentFilter {
    /// Only of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Those taken back and those replaced too.
    #[serde(default)]
    pub all: bool,
    /// At most this many, the newest ones.
    pub limit: u32,
}

/// Says which proposals are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalFilter {
    /// Only these; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<EventId>,
    /// Only those in one of these states; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<State>,
    /// Only those that a person can do something about.
    #[serde(default)]
    pub waiting: bool,
    /// Whether what they say is wanted, too.
    #[serde(default)]
    pub content: bool,
    /// At most this many, the newest ones.
    pub limit: u32,
}

/// Is a decision about a proposal that nobody makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DryRun {
    /// The proposal.
    pub proposal: EventId,
    /// What is supposed to be decided.
    pub disposition: Disposition,
    /// Whether what it says is wanted, too.
    #[serde(default)]
    pub content: bool,
}

/// Is an event that a person appends by hand.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submit {
    /// Where it goes.
    pub source: SourceId,
    /// Its type, with or without a version.
    pub kind: String,
    /// What makes it recognisable.
    pub key: IdempotencyKey,
    /// Who may see it.
    pub privacy: Privacy,
    /// What it says.
    pub payload: Value,
}

impl std::fmt::Debug for Submit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Submit({} to {})", self.kind, self.source)
    }
}

/// Is a decision or an operation.
///
/// What changes the log, what runs or what is believed becomes an event that says who: most have one of their own; a
/// reload and a stop are named in the event of what came of them (`declarations-loaded`, `stopped`). What changes nothing
/// of that (to look at a source, to copy the log, to write a data set, to rehearse a fault) leaves none: it has to work
/// while the log cannot be written, or by itself while no service runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Operate {
    /// Stop a consumer from starting new work.
    Pause {
        /// The consumer.
        consumer: ConsumerId,
        /// Why, in the person's words.
        reason: Option<String>,
    },
    /// Let a paused or quarantined consumer go on.
    Resume {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// Stop a consumer's actor and start it anew.
    Restart {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// Try a held or waiting execution again at once.
    Retry {
        /// Which one.
        target: Target,
    },
    /// Pass a held or waiting execution, or dismiss one that was passed unprocessed.
    Skip {
        /// Which one.
        target: Target,
        /// Why, in the person's words.
        reason: String,
    },
    /// Erase the payload of an event; the event, its hash and the chain stay.
    Redact {
        /// The event.
        event: EventId,
        /// Why, in the person's words.
        reason: String,
    },
    /// Say what became of a delivery whose end nobody knows, or have one sent again.
    Reconcile {
        /// The delivery.
        delivery: DeliveryId,
        /// The decision.
        decision: Reconciled,
    },
    /// Read the declarations again, all or nothing.
    Reload,
    /// Look at a watched source now.
    LookAt {
        /// The source.
        source: SourceId,
    },
    /// Let removals pass that a watched source holds until a person says that they are meant.
    AcceptRemovals {
        /// The source.
        source: SourceId,
    },
    /// Copy the log into a new file while it is in use.
    Copy {
        /// As what.
        form: Form,
        /// The file, absolute.
        path: PathBuf,
        /// That what is above public-source may leave the log.
        acknowledge_sensitive: bool,
    },
    /// Judge the output of a run.
    Judge(Box<JudgeRequest>),
    /// Take a judgment back.
    Retract {
        /// The judgment.
        judgment: EventId,
        /// Why, in the person's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Decide about a proposal, and let follow what follows.
    DecideProposal(Box<DecideRequest>),
    /// Let follow what was cut off after a decision was made.
    ProjectProposals {
        /// About which proposal; all if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<EventId>,
    },
    /// Hide one thing in the list of what waits until a time. It decides nothing.
    Postpone {
        /// Which one, as the list names it.
        id: String,
        /// Until when.
        until: Timestamp,
    },
    /// Write the judged outputs that may leave into a new file.
    TrainingExport {
        /// The file, absolute.
        path: PathBuf,
        /// Also what is above public-source and was let out when it was judged.
        include_private: bool,
    },
    /// Write judgments with their whole chain into a new file of the owner's.
    PrivateTrainingExport {
        /// The file, absolute.
        path: PathBuf,
        /// That the file will hold sensitive and private text.
        acknowledged: bool,
    },
    /// Move a consumer that answers a bot to its next version.
    Activate(Box<ActivateRequest>),
    /// Put the commands of whoever answers a bot into its menu.
    RegisterMenu {
        /// Whether chats are not told that the help has changed.
        skip_help_notice: bool,
    },
    /// Drain and stop the service.
    Stop,
    /// Set a trap at a kill point, in a store made for rehearsal only.
    Arm {
        /// Where, by its name.
        point: String,
        /// What happens there, by its name.
        action: String,
        /// At which passage, from 1.
        passage: u32,
        /// Whose passages count; anybody's if absent.
        actor: Option<String>,
    },
    /// Kill an actor, in a store made for rehearsal only.
    Kill {
        /// The actor's path in the tree.
        path: String,
    },
}

/// Names an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Target {
    /// By an execution or a run id.
    Id {
        /// `exe_…` or `run_…`.
        id: String,
    },
    /// By a consumer and one of the triggers.
    Event {
        /// The consumer.
        consumer: ConsumerId,
        /// The trigger.
        event: EventId,
    },
    /// By a consumer and the place of a trigger: the only name that a damaged event has.
    Place {
        /// The consumer.
        consumer: ConsumerId,
        /// The source.
        source: SourceId,
        /// The place in it.
        sequence: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ask_door_has_no_word_for_an_operation() {
        let operation = serde_json::to_string(&Operated::Operate(Operate::Reload)).unwrap();
        assert!(serde_json::from_str::<Asked>(&operation).is_err());
        assert!(serde_json::from_str::<Operated>(&operation).is_ok());
    }

    #[test]
    fn a_submitted_payload_does_not_print() {
        let submit = Submit {
            source: SourceId::parse("notes:a").unwrap(),
            kind: "x.y".to_owned(),
            key: IdempotencyKey::parse("k").unwrap(),
            privacy: Privacy::Private,
            payload: serde_json::json!({ "text": "secret" }),
        };
        assert!(!format!("{submit:?}").contains("secret"));
    }
}
