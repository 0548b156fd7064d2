//! Compiling what a consumer that asks a model says: what its parts must be to each other.

use std::sync::Arc;

use super::{Compiler, integer_or};
use crate::content::Content;
use crate::contract::Mode as OutputMode;
use crate::declaration::codes;
use crate::declaration::codes::MISPLACED;
use crate::declaration::keys::model::{CONVERSATION_KEYS, NOT_A_MODEL, RUNNER_KEYS};
use crate::declaration::model::{Conversation, DocumentRecipe, DocumentSubscription, ModelRunner, Strategy};
use crate::id::{ConsumerId, SourceId, TypeName};
use crate::payload::TypedPayload as _;
use crate::payload::escalation::Escalation;
use crate::payload::output::MessageObservation;
use crate::payload::repair::{RepairProposed, RepairRequested};
use crate::payload::telegram::TelegramMessage;
use crate::provider::ThinkingLevel;
use crate::repair::AgentRole;
use crate::subscription::Subscription;
use crate::yaml::{Node, duration_ms, nearest};

/// How long a run may take if the declaration does not say.
const TIMEOUT_MS: u64 = 60_000;

impl Compiler<'_> {
    /// Refuses keys of a model consumer where no model is asked.
    pub(super) fn no_model_keys(&mut self, root: &Node) {
        let runner = root.get("runner").into_iter().flat_map(Node::entries);
        let runner = runner.filter(|entry| RUNNER_KEYS.contains(&entry.key.as_str()));
        let outside = root.entries().iter().filter(|entry| {
            entry.key == "outputMode" && entry.node.text().and_then(OutputMode::parse).is_some()
        });
        let spans: Vec<_> = runner.chain(outside).map(|entry| entry.key_span).collect();
        if let Some(account) = root.entries().iter().find(|entry| entry.key == "accounting") {
            let message = "only a consumer that asks a model has an inference account";
            self.refuse(account.key_span, codes::ACCOUNTING_WITHOUT_MODEL, message, "remove it");
        }
        for span in spans {
            self.refuse(span, MISPLACED, NOT_A_MODEL, "remove it, or choose `runner.kind: pi`");
        }
        if let Some(role) = root.get("role").filter(|role| role.text() == Some("repair")) {
            self.refuse(role.span, MISPLACED, NOT_A_MODEL, "write `standard`, or choose `runner.kind: pi`");
        }
        if let Some(strategy) = root.get("context").and_then(|context| context.get("strategy"))
            && strategy.text() == Some("telegram-conversation")
        {
            self.refuse(strategy.span, MISPLACED, NOT_A_MODEL, "remove it, or choose `runner.kind: pi`");
        }
        self.no_conversation_keys(root);
        self.no_neighbors(root);
        self.no_proposals(root);
    }

    fn no_conversation_keys(&mut self, root: &Node) {
        let context = root.get("context").into_iter().flat_map(Node::entries);
        let spans: Vec<_> = context
            .filter(|entry| CONVERSATION_KEYS.contains(&entry.key.as_str()))
            .map(|entry| entry.key_span)
            .collect();
        for span in spans {
            let hint = "remove it, or choose `context.strategy: telegram-conversation`";
            self.refuse(span, MISPLACED, "this belongs to a conversation", hint);
        }
    }

    /// Compiles the parts of a model consumer; every one that is wrong is reported.
    pub(super) fn model(
        &mut self,
        root: &Node,
        subscription: Option<&Subscription>,
        prompt: Option<Arc<Content<String>>>,
    ) -> Option<ModelRunner> {
        let runner = root.get("runner")?;
        if let Some(transform) = runner.get("transform") {
            let hint = "remove it, or choose `runner.kind: deterministic`";
            self.refuse(transform.span, MISPLACED, "a model is no transform", hint);
        }
        let enabled = root.get("enabled").and_then(Node::bool) == Some(true);
        let named = self.asked(runner, enabled);
        let thinking = runner
            .get("thinkingLevel")
            .map_or(Some(ThinkingLevel::Off), |level| ThinkingLevel::parse(level.text()?));
        let timeout_ms = runner.get("timeout").map_or(Some(TIMEOUT_MS), |wait| duration_ms(wait.text()?));
        let stream = runner.get("stream").map_or(Some(false), Node::bool);
        let mode = root
            .get("outputMode")
            .map_or(Some(OutputMode::StrictJson), |mode| OutputMode::parse(mode.text()?));
        if let Some(concurrency) = root.get("subscribe").and_then(|subscribe| subscribe.get("concurrency"))
            && concurrency.integer().is_some_and(|runs| runs > 1)
        {
            let hint = "remove it; several sources are asked about side by side";
            self.refuse(
                concurrency.span,
                codes::MODEL_NEEDS,
                "a model is asked one run after the other",
                hint,
            );
        }
        let role = root.get("role").map_or(Some(AgentRole::Standard), |role| AgentRole::parse(role.text()?));
        let strategy = self.strategy(root, subscription, mode);
        self.what_a_model_needs(root);
        if role == Some(AgentRole::Repair) {
            self.repair(root, mode, strategy.as_ref());
        }
        let proposals = self.proposals(root, subscription, mode, role, strategy.as_ref());
        let accounting = timeout_ms.and_then(|timeout_ms| self.accounting(root, timeout_ms));
        let reserved = accounting.as_ref().map(|policy| policy.reserve.output_tokens);
        let max_output_tokens = self.max_output_tokens(runner, reserved);
        let (provider, model) = named?;
        Some(ModelRunner {
            prompt: prompt?,
            provider,
            model,
            thinking: thinking?,
            timeout_ms: timeout_ms?,
            max_output_tokens: max_output_tokens?,
            stream: stream?,
            mode: mode?,
            strategy: strategy?,
            role: role?,
            accounting: accounting?,
            proposals: proposals?,
        })
    }

    /// Reads which provider profile and which model are asked. Whoever does not run needs neither to exist.
    fn asked(&mut self, runner: &Node, enabled: bool) -> Option<(String, String)> {
        let (provider, model) = (runner.get("provider"), runner.get("model"));
        for (node, what) in [(provider, "provider"), (model, "model")] {
            if node.is_none() {
                let message = format!("a runner that asks a model names its `{what}`");
                let hint = "add `provider:` (a profile of config.yaml) and `model:`";
                self.refuse(runner.span, codes::MODEL_NEEDS, message, hint);
            }
        }
        let (provider, model) = (provider?, model?);
        let (name, asked) = (provider.text()?, model.text()?);
        if let Some(profiles) = self.catalog.providers.as_ref().filter(|_| enabled) {
            let Some(profile) = profiles.get(name) else {
                let problem = self.source.problem(
                    provider.span,
                    codes::UNKNOWN_PROVIDER,
                    "the configuration has no provider profile of this name",
                );
                let near = nearest(name, profiles.keys().map(String::as_str));
                let hint = "add it below `providers:` in config.yaml, or name another";
                self.problems.push(problem.with_suggestion(near).with_hint(hint));
                return None;
            };
            if !profile.models.contains(asked) {
                let problem = self.source.problem(
                    model.span,
                    codes::MODEL_NOT_ALLOWED,
                    "the provider profile does not allow this model",
                );
                let near = nearest(asked, profile.models.iter().map(String::as_str));
                let hint = "add it to the profile's `models:` in config.yaml, or name another";
                self.problems.push(problem.with_suggestion(near).with_hint(hint));
                return None;
            }
        }
        Some((name.to_owned(), asked.to_owned()))
    }

    /// Says what is missing that every model consumer must say.
    fn what_a_model_needs(&mut self, root: &Node) {
        let about = root.get("runner").map_or(root.span, |runner| runner.span);
        let mut needs = |missing: bool, message: &str, hint: &str| {
            if missing {
                self.refuse(about, codes::MODEL_NEEDS, message, hint);
            }
        };
        needs(
            root.get("prompt").is_none(),
            "a consumer that asks a model has a prompt",
            "add `prompt: prompts/NAME.md`",
        );
        needs(
            root.get("accounting").is_none(),
            "a consumer that asks a model has an account",
            "add `accounting:` with `reserve`, `lease` and `limits`",
        );
        let subscribe = root.get("subscribe");
        needs(
            subscribe.is_some_and(|subscribe| subscribe.get("replay").is_none()),
            "a consumer that asks a model says where it begins: the beginning may be years of events",
            "add `replay: now` (or `beginning`) below `subscribe:`",
        );
        let settled = root.get("lifecycle").filter(|mode| mode.text() == Some("settled"));
        if let Some(settled) = settled {
            let hint = "remove it: what is sent is reserved and recorded first";
            self.refuse(settled.span, MISPLACED, "a model is never asked before that is recorded", hint);
        }
        self.what_a_model_writes(root);
    }

    /// Refuses types that a model run does not write: its one output, and an escalation that an observation recommends.
    fn what_a_model_writes(&mut self, root: &Node) {
        let repairs = root.get("role").and_then(Node::text) == Some("repair");
        let output = if repairs { RepairProposed::NAME } else { MessageObservation::NAME };
        let emitted: Vec<&Node> = root.get("emit").into_iter().flat_map(Node::items).collect();
        let observes = emitted.iter().any(|item| item.text() == Some(output));
        let converses = root.get("outputMode").and_then(Node::text) == Some("conversation-text");
        for item in emitted {
            let Some(name) = item.text().filter(|name| TypeName::parse(name).is_ok()) else { continue };
            let (message, hint) = match name {
                name if name == output => continue,
                Escalation::NAME if !repairs && converses => (
                    "a conversation recommends nothing, so nothing escalates",
                    format!("write `emit: [{output}]`"),
                ),
                Escalation::NAME if !repairs && observes => continue,
                Escalation::NAME if !repairs => (
                    "an escalation stands beside an observation",
                    format!("write `emit: [{output}, {name}]`"),
                ),
                _ if repairs => ("a repair proposes, and nothing else", format!("write `emit: [{output}]`")),
                _ => ("a model's output is an observation", format!("write `emit: [{output}]`")),
            };
            self.refuse(item.span, codes::NOT_WRITTEN, message, &hint);
        }
    }

    fn max_output_tokens(&mut self, runner: &Node, reserved: Option<u64>) -> Option<u64> {
        let Some(written) = runner.get("maxOutputTokens") else { return reserved };
        let tokens = u64::try_from(written.integer()?).ok()?;
        if reserved.is_some_and(|reserved| tokens > reserved) {
            let message = "an answer may have more tokens than are reserved";
            let hint = "lower it, or raise `accounting.reserve.outputTokens`";
            self.refuse(written.span, codes::ACCOUNTING, message, hint);
            return None;
        }
        Some(tokens)
    }

    fn strategy(
        &mut self,
        root: &Node,
        subscription: Option<&Subscription>,
        mode: Option<OutputMode>,
    ) -> Option<Strategy> {
        let context = root.get("context");
        let written = context.and_then(|context| context.get("strategy"));
        match written.map_or(Some("trigger-events"), Node::text)? {
            "trigger-events" => {
                self.no_conversation_keys(root);
                if mode == Some(OutputMode::ConversationText) {
                    let place = root.get("outputMode").map_or(root.span, |node| node.span);
                    let hint = "write `strict-json`, or choose `context.strategy: telegram-conversation`";
                    self.refuse(place, codes::CONVERSATION, "only a conversation is answered in text", hint);
                }
                Some(Strategy::TriggerEvents { neighbors: self.neighbors(root)? })
            }
            "telegram-conversation" => {
                let place = written.map_or(root.span, |node| node.span);
                if let Some(subscription) = subscription {
                    self.one_bot(place, subscription);
                }
                self.no_neighbors(root);
                Some(Strategy::Conversation(self.conversation(context?)?))
            }
            _ => None,
        }
    }

    /// Reads how many events before the triggers are asked for; together they fit the context.
    fn neighbors(&mut self, root: &Node) -> Option<u32> {
        let context = root.get("context");
        let Some(written) = context.and_then(|context| context.get("neighbors")) else { return Some(0) };
        let neighbors = integer_or(Some(written), 0)?;
        let max_events = integer_or(context?.get("maxEvents"), 0)?;
        let batch = root.get("subscribe").and_then(|subscribe| subscribe.get("batch"));
        let batch = integer_or(batch.and_then(|batch| batch.get("max")), 1)?;
        if neighbors.saturating_add(batch) > max_events {
            let message =
                format!("{neighbors} events beside {batch} do not fit a context of {max_events} events");
            let hint = "lower it, or raise `context.maxEvents`";
            self.refuse(written.span, codes::BATCH_OVER_CONTEXT, message, hint);
        }
        Some(neighbors)
    }

    /// Neighbors are shown to an observer alone: a conversation has its history, and a transform reads no packet.
    fn no_neighbors(&mut self, root: &Node) {
        let entries = root.get("context").into_iter().flat_map(Node::entries);
        for entry in entries.filter(|entry| entry.key == "neighbors") {
            let message = "neighboring events are shown to an observer of events alone";
            self.refuse(entry.key_span, MISPLACED, message, "remove it");
        }
    }

    /// A conversation is that of one bot, one message after the other.
    fn one_bot(&mut self, place: crate::yaml::Span, subscription: &Subscription) {
        let messages =
            subscription.accepted_types().iter().all(|name| name.as_str() == TelegramMessage::NAME);
        let one_source = subscription.kinds().is_empty()
            && subscription.sources().len() == 1
            && subscription.sources().iter().all(|source| source.kind() == "telegram");
        if !messages || !one_source {
            let message = "a conversation takes the messages of one bot";
            let hint =
                "write `types: [stream.thought.source.telegram.message]` and `sources: [telegram:NAME]`";
            self.refuse(place, codes::CONVERSATION, message, hint);
        }
        if subscription.concurrency() != 1 || subscription.batch().max != 1 {
            let message = "a conversation answers one message after the other";
            let hint = "remove `subscribe.concurrency` and `subscribe.batch`";
            self.refuse(place, codes::CONVERSATION, message, hint);
        }
    }

    fn conversation(&mut self, context: &Node) -> Option<Conversation> {
        let agents = context.get("historyAgentIds").into_iter().flat_map(Node::items);
        let history_agents: Option<Vec<ConsumerId>> =
            agents.map(|agent| ConsumerId::parse(agent.text()?).ok()).collect();
        let assistant_history_max = match context.get("assistantHistoryMaxTurns") {
            None => None,
            some => Some(integer_or(some, 0)?),
        };
        let documents = match context.get("documents") {
            None => None,
            Some(documents) => Some(self.documents(context, documents)?),
        };
        Some(Conversation { documents, history_agents: history_agents?, assistant_history_max })
    }

    fn documents(&mut self, context: &Node, documents: &Node) -> Option<DocumentRecipe> {
        let ceiling = documents.get("maxChars")?;
        let max_chars = integer_or(Some(ceiling), 0)?;
        if integer_or(context.get("maxChars"), 0).is_some_and(|all| max_chars > all) {
            let message = "the documents may have more characters than the whole context";
            let hint = "lower it, or raise `context.maxChars`";
            self.refuse(ceiling.span, codes::CONVERSATION, message, hint);
        }
        let from = documents.get("from")?.items().iter().map(|one| {
            let source = one.get("source")?;
            let id = SourceId::parse(source.text()?).ok()?;
            if id.kind() != "filesystem" {
                let hint = "name a folder: `filesystem:NAME`";
                self.refuse(source.span, codes::CONVERSATION, "only a folder holds documents", hint);
            }
            let paths: Option<Vec<String>> =
                one.get("paths")?.items().iter().map(|path| path.text().map(str::to_owned)).collect();
            let required = one.get("required").map_or(Some(true), Node::bool)?;
            Some(DocumentSubscription { source: id, paths: paths?, required })
        });
        Some(DocumentRecipe { max_chars, from: from.collect::<Option<Vec<_>>>()? })
    }

    /// A repair consumer takes requests to repair, each once, and makes nothing but a proposal of them.
    fn repair(&mut self, root: &Node, mode: Option<OutputMode>, strategy: Option<&Strategy>) {
        let subscribe = root.get("subscribe");
        let types = subscribe.and_then(|subscribe| subscribe.get("types"));
        for item in types.into_iter().flat_map(Node::items) {
            if item.text() != Some(RepairRequested::NAME) {
                let hint = format!("write `types: [{}]`", RepairRequested::NAME);
                self.refuse(
                    item.span,
                    codes::REPAIR,
                    "a repair consumer takes requests to repair alone",
                    &hint,
                );
            }
        }
        let place = root.get("role").map_or(root.span, |role| role.span);
        if mode != Some(OutputMode::StrictJson)
            || !matches!(strategy, Some(Strategy::TriggerEvents { neighbors: 0 }))
        {
            let hint = "remove `outputMode`, `context.strategy` and `context.neighbors`";
            self.refuse(place, codes::REPAIR, "a repair is strict JSON of the request alone", hint);
        }
        if let Some(attempts) = root.get("retry").and_then(|retry| retry.get("attempts"))
            && attempts.integer() != Some(1)
        {
            let hint = "write `attempts: 1`, or remove it";
            self.refuse(attempts.span, codes::REPAIR, "a request authorizes one generation", hint);
        }
        if let Some(interrupted) = root.get("interrupted") {
            let found = super::interrupted(Some(interrupted));
            let fits = found.is_none_or(|found| found == AgentRole::Repair.interrupted(found));
            if !fits {
                let hint = "write `{ record: abandoned, then: advance }`, or remove it";
                self.refuse(interrupted.span, codes::REPAIR, "an interrupted repair is given up", hint);
            }
        }
    }
}
