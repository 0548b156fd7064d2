//! The kinds of problem that a declaration can have beyond its form; [`crate::yaml::codes`] has those of the form.

use crate::yaml::Code;

/// The file holds nothing.
pub const EMPTY: Code = Code::new("declaration.empty");
/// The declaration was refused and no check said why.
pub const NO_REASON: Code = Code::new("declaration.no-reason");
/// Another file declares the same id.
pub const DUPLICATE_ID: Code = Code::new("declaration.duplicate-id");
/// Neither a source nor a kind is named.
pub const NO_SOURCE: Code = Code::new("declaration.no-source");
/// A source that is neither configured nor in the log; advice.
pub const UNKNOWN_SOURCE: Code = Code::new("declaration.unknown-source");
/// A kind of which there is no source; advice.
pub const UNKNOWN_KIND: Code = Code::new("declaration.unknown-kind");
/// A type that is not registered.
pub const UNKNOWN_TYPE: Code = Code::new("declaration.unknown-type");
/// A family without a registered type.
pub const UNKNOWN_FAMILY: Code = Code::new("declaration.unknown-family");
/// A transform that does not exist.
pub const UNKNOWN_TRANSFORM: Code = Code::new("declaration.unknown-transform");
/// A type that the transform does not read.
pub const NOT_READ: Code = Code::new("declaration.type-not-read");
/// A type that the transform does not write.
pub const NOT_WRITTEN: Code = Code::new("declaration.type-not-written");
/// A field that no subscribed type promotes.
pub const UNKNOWN_FIELD: Code = Code::new("declaration.unknown-field");
/// A predicate that cannot hold, or two of them on one field.
pub const PREDICATE: Code = Code::new("declaration.predicate");
/// A sequence to start from without exactly one source.
pub const REPLAY_SEQUENCE: Code = Code::new("declaration.replay-sequence");
/// A source to replay that the subscription does not include.
pub const REPLAY_SOURCE: Code = Code::new("declaration.replay-source");
/// A batch larger than the context that must hold it.
pub const BATCH_OVER_CONTEXT: Code = Code::new("declaration.batch-over-context");
/// A first wait longer than the longest.
pub const RETRY_WAITS: Code = Code::new("declaration.retry-waits");
/// Executions side by side where each is one commit at its end.
pub const SETTLED_SIDE_BY_SIDE: Code = Code::new("declaration.settled-side-by-side");
/// The prompt does not exist.
pub const MISSING_PROMPT: Code = Code::new("declaration.missing-prompt");
/// The prompt cannot be used: empty, too large or not UTF-8.
pub const BAD_PROMPT: Code = Code::new("declaration.bad-prompt");
/// The declaration would be woken by what it writes itself.
pub const LOOP: Code = Code::new("declaration.loop");
/// An id under which the service itself keeps something.
pub const RESERVED_ID: Code = Code::new("declaration.reserved-id");
/// An inference account for a consumer that asks no model.
pub const ACCOUNTING_WITHOUT_MODEL: Code = Code::new("declaration.accounting-without-model");
/// Another declaration was registered under this id and version.
pub const CHANGED: Code = Code::new("declaration.changed-without-bump");
/// A newer version of this declaration was registered before.
pub const WENT_BACK: Code = Code::new("declaration.version-went-back");

/// A key that belongs to another kind of consumer.
pub const MISPLACED: Code = Code::new("declaration.misplaced-key");
/// What a consumer that asks a model must say, and does not.
pub const MODEL_NEEDS: Code = Code::new("declaration.model-needs");
/// A provider profile that the configuration does not have.
pub const UNKNOWN_PROVIDER: Code = Code::new("declaration.unknown-provider");
/// A model that the provider profile does not allow.
pub const MODEL_NOT_ALLOWED: Code = Code::new("declaration.model-not-allowed");
/// A conversation that is not the conversation of one bot, message by message.
pub const CONVERSATION: Code = Code::new("declaration.conversation");
/// A second enabled declaration that would answer the same people.
pub const SECOND_REPLIER: Code = Code::new("declaration.second-replier");
/// A repair consumer that does more than repair, or repairs more than once.
pub const REPAIR: Code = Code::new("declaration.repair");
/// Proposals of a consumer that is not such a conversation as may propose.
pub const PROPOSALS: Code = Code::new("declaration.proposals");
/// An inference account that cannot work.
pub const ACCOUNTING: Code = Code::new("declaration.accounting");

/// Model tiers.
pub const NOT_BUILT_TIERS: Code = Code::new("not-built.model-tiers");
/// Learned model adapters.
pub const NOT_BUILT_ADAPTERS: Code = Code::new("not-built.model-adapters");
/// Public knowledge proposals.
pub const NOT_BUILT_PUBLIC_KNOWLEDGE: Code = Code::new("not-built.public-knowledge");
/// The `letta-agent-sdk` runner.
pub const NOT_BUILT_LETTA: Code = Code::new("not-built.runner-letta-agent-sdk");
/// Workspace runners.
pub const NOT_BUILT_WORKSPACE: Code = Code::new("not-built.runner-workspace");
/// Messages between agents.
pub const NOT_BUILT_AGENT_MESSAGES: Code = Code::new("not-built.agent-messages");
/// The course tutor.
pub const NOT_BUILT_COURSE_TUTOR: Code = Code::new("not-built.course-tutor");
/// The conceptualizer.
pub const NOT_BUILT_CONCEPTUALIZER: Code = Code::new("not-built.conceptualizer");
/// ATProto sources and expansion.
pub const NOT_BUILT_ATPROTO: Code = Code::new("not-built.atproto");
/// Evidence tools.
pub const NOT_BUILT_EVIDENCE_TOOLS: Code = Code::new("not-built.evidence-tools");
/// Text output of a compactor.
pub const NOT_BUILT_COMPACTION: Code = Code::new("not-built.compaction-text");
/// Acting outside.
pub const NOT_BUILT_EXTERNAL_ACTIONS: Code = Code::new("not-built.external-actions");
