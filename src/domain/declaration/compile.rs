//! From a tree of known shape to a checked declaration: what the parts must be to each other.
//!
//! A part that the shape check refused gives nothing here and no second problem; everything else is still checked, so
//! that one run shows all there is to mend.

use std::collections::BTreeSet;
use std::sync::Arc;

mod account;
mod model;
mod proposals;

use super::keys::{NAMES_MAX, NOT_BUILT_KINDS, NOT_BUILT_TYPES};
use super::load::{PROMPT_BYTES_MAX, Prompts};
use super::{
    Catalog, ContextBounds, Declaration, LifecycleMode, Origin, Prompt, Runner, VersionChange, codes,
    identity, loops,
};
use crate::content::Content;
use crate::event::Reference;
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, ConsumerKey, SourceId, TypeName};
use crate::privacy::Privacy;
use crate::repair::AgentRole;
use crate::retry::{Exhausted, Interrupted, InterruptedRecord, InterruptedThen, RetryPolicy};
use crate::subscription::{Batch, Replay, Subscription, TypePattern};
use crate::yaml::{Code, Node, Source, Span, Value as Yaml, duration_ms, nearest};

pub(super) struct Compiler<'a> {
    pub(super) source: &'a Source,
    pub(super) catalog: &'a Catalog,
    pub(super) prompts: Prompts<'a>,
    pub(super) problems: &'a mut Vec<crate::yaml::Problem>,
}

impl Compiler<'_> {
    /// Compiles the tree, or returns nothing when a part of it was refused.
    pub(super) fn declaration(&mut self, root: &Node) -> Option<Declaration> {
        let id = self.id(root);
        let context = context(root.get("context"));
        let subscribe = root.get("subscribe");
        let subscription = subscribe.and_then(|node| self.subscription(node, context));
        let prompt = self.prompt(root.get("prompt"));
        let (prompt, text) = match prompt {
            Some(Some((prompt, text))) => (Some(Some(prompt)), Some(text)),
            Some(None) => (Some(None), None),
            None => (None, None),
        };
        let runner = self.runner(root, id.as_ref().map(|(id, _)| id), subscription.as_ref(), text);
        let emit = root.get("emit").and_then(|node| self.emit(node, runner.as_ref()));
        if let (Some(subscribe), Some(runner)) = (subscribe, &runner) {
            self.types_are_read(subscribe, runner);
        }
        let retry = self.retry(root.get("retry"));
        let repairs = runner.as_ref().is_some_and(Runner::repairs);
        let retry = retry.map(|retry| if repairs { RetryPolicy { attempts: 1, ..retry } } else { retry });
        let interrupted = match root.get("interrupted") {
            // One request authorizes one generation: what was cut off is not begun again.
            None if repairs => Some(AgentRole::Repair.interrupted(Interrupted::default())),
            written => interrupted(written),
        };
        let lifecycle = lifecycle(root.get("lifecycle"));
        if let (Some(LifecycleMode::Settled), Some(subscribe)) = (lifecycle, subscribe) {
            self.settles_in_turn(subscribe);
        }
        let on_version_change = self.version_change(root.get("onVersionChange"), subscription.as_ref());
        if let (Some((id, _)), Some(subscription), Some(subscribe)) = (&id, &subscription, subscribe) {
            let emit = root.get("emit");
            self.no_loop(id, subscription, emit, runner.as_ref(), subscribe);
        }
        let version = root.get("version")?;
        let (id, _) = id?;
        let mut declaration = Declaration {
            key: ConsumerKey::new(id, u32::try_from(version.integer()?).ok()?),
            enabled: root.get("enabled")?.bool()?,
            description: root.get("description")?.text()?.trim().to_owned(),
            subscription: subscription?,
            context: context?,
            runner: runner?,
            prompt: prompt?,
            emit: emit?,
            retry: retry?,
            interrupted: interrupted?,
            lifecycle: lifecycle?,
            on_version_change: on_version_change?,
            privacy_floor: root.get("privacyFloor").map_or(Some(Privacy::PublicSource), class)?,
            fingerprint: Sha256Hash::from_bytes([0; 32]),
            origin: Origin { at_version: self.source.problem(version.span, codes::CHANGED, "") },
        };
        declaration.fingerprint = identity::fingerprint(&declaration);
        Some(declaration)
    }

    /// Returns the id and its place, when there is a valid one.
    #[expect(clippy::unused_self, reason = "read like the other parts")]
    pub(super) fn id(&self, root: &Node) -> Option<(ConsumerId, Span)> {
        let node = root.get("id")?;
        Some((ConsumerId::parse(node.text()?).ok()?, node.span))
    }

    /// Reports a problem with its way out.
    pub(super) fn refuse(&mut self, span: Span, code: Code, message: impl Into<String>, hint: &str) {
        self.problems.push(self.source.problem(span, code, message).with_hint(hint));
    }

    fn subscription(&mut self, node: &Node, context: Option<ContextBounds>) -> Option<Subscription> {
        let types = node.get("types").and_then(|types| self.types(types));
        let sources = self.sources(node);
        let accepted = types.as_ref().map(|(_, accepted)| accepted.clone()).unwrap_or_default();
        let exact = types.iter().flat_map(|(patterns, _)| patterns).filter_map(|pattern| match pattern {
            TypePattern::Exact(name) => Some(name.clone()),
            TypePattern::Family(_) => None,
        });
        let exact = exact.collect();
        let conditions = self.conditions(node.get("where"), &accepted, &exact);
        let batch = self.batch(node.get("batch"), context);
        let (sources, kinds) = sources?;
        let replay = self.replay(node.get("replay"), &sources, &kinds);
        let (types, accepted) = types?;
        let privacy = match node.get("privacy") {
            None => BTreeSet::from([Privacy::PublicSource, Privacy::Private]),
            Some(classes) => every(classes, class)?,
        };
        let address = match node.get("address") {
            None => None,
            Some(address) => Some(Reference::parse(address.text()?).ok()?),
        };
        let concurrency = integer_or(node.get("concurrency"), 1)?;
        let (conditions, replay, batch) = (conditions?, replay?, batch?);
        Some(Subscription {
            types,
            accepted,
            sources,
            kinds,
            privacy,
            address,
            conditions,
            replay,
            batch,
            concurrency,
        })
    }

    /// Reads the type patterns and the registered types that they stand for.
    fn types(&mut self, node: &Node) -> Option<(BTreeSet<TypePattern>, BTreeSet<TypeName>)> {
        let mut patterns = BTreeSet::new();
        let mut accepted = BTreeSet::new();
        let mut complete = matches!(node.value, Yaml::List(_));
        for item in node.items().iter().take(NAMES_MAX) {
            let Some(pattern) = item.text().and_then(TypePattern::parse) else {
                complete = false;
                continue;
            };
            let taken: Vec<TypeName> =
                self.catalog.types.keys().filter(|name| pattern.takes(name)).cloned().collect();
            if taken.is_empty() {
                self.unknown_type(item.span, &pattern);
                complete = false;
            }
            accepted.extend(taken);
            patterns.insert(pattern);
        }
        complete.then_some((patterns, accepted))
    }

    fn unknown_type(&mut self, span: Span, pattern: &TypePattern) {
        let written = pattern.to_string();
        let dotted = format!("{}.", written.trim_end_matches(".*"));
        let not_built =
            NOT_BUILT_TYPES.iter().find(|(prefix, _, _)| dotted.starts_with(&format!("{prefix}.")));
        if let Some((_, code, why)) = not_built {
            let hint = "remove it: nothing writes such events yet";
            self.refuse(span, *code, *why, hint);
            return;
        }
        let problem = match pattern {
            TypePattern::Exact(_) => {
                let names = self.catalog.types.keys().map(TypeName::as_str);
                let problem =
                    self.source.problem(span, codes::UNKNOWN_TYPE, "no such event type is registered");
                let problem = problem.with_suggestion(nearest(&written, names));
                problem.with_hint("a type of your own is registered by a JSON Schema file in `schemas/`")
            }
            TypePattern::Family(_) => {
                let families: BTreeSet<String> = self.catalog.types.keys().flat_map(families).collect();
                let near = nearest(&written, families.iter().map(String::as_str));
                let problem = self.source.problem(
                    span,
                    codes::UNKNOWN_FAMILY,
                    "no registered type lies in this family",
                );
                let problem = problem.with_suggestion(near);
                problem
                    .with_hint("write the beginning of registered types and `.*`: `stream.thought.source.*`")
            }
        };
        self.problems.push(problem);
    }

    /// Reads the sources and kinds; at least one of them must be named.
    fn sources(&mut self, node: &Node) -> Option<(BTreeSet<SourceId>, BTreeSet<String>)> {
        let (sources, kinds) = (node.get("sources"), node.get("kinds"));
        if sources.is_none() && kinds.is_none() {
            // A misspelt key is one problem, not two.
            if !node.entries().iter().any(|entry| nearest(&entry.key, ["sources", "kinds"]).is_some()) {
                let hint = "add `sources: [filesystem:notes]`, or `kinds: [filesystem]` for all of a kind";
                self.refuse(node.span, codes::NO_SOURCE, "no source is named", hint);
            }
            return None;
        }
        for item in sources.into_iter().chain(kinds).flat_map(Node::items).take(2 * NAMES_MAX) {
            let kind = item.text().map(|text| text.split(':').next().unwrap_or_default());
            if let Some((_, code, why)) = NOT_BUILT_KINDS.iter().find(|(name, _, _)| Some(*name) == kind) {
                self.refuse(item.span, *code, *why, "remove it: there is no such source yet");
            }
        }
        let source = |item: &Node| item.text().and_then(|text| SourceId::parse(text).ok());
        let sources = sources.map_or(Some(BTreeSet::new()), |sources| every(sources, source))?;
        let kinds = kinds
            .map_or(Some(BTreeSet::new()), |kinds| every(kinds, |item| item.text().map(str::to_owned)))?;
        Some((sources, kinds))
    }

    fn replay(
        &mut self,
        node: Option<&Node>,
        sources: &BTreeSet<SourceId>,
        kinds: &BTreeSet<String>,
    ) -> Option<Replay> {
        let Some(node) = node else { return Some(Replay::Beginning) };
        if let Some(word) = node.text() {
            return match word {
                "beginning" => Some(Replay::Beginning),
                "now" => Some(Replay::Now),
                _ => None,
            };
        }
        let sequence = u64::try_from(node.get("sequence")?.integer()?).ok()?;
        if sources.len() != 1 || !kinds.is_empty() {
            let message = "a sequence belongs to one source, and this subscription includes several";
            let hint = "name exactly one source, or use `beginning` or `now`";
            self.refuse(node.span, codes::REPLAY_SEQUENCE, message, hint);
            return None;
        }
        Some(Replay::Sequence(sequence))
    }

    fn batch(&mut self, node: Option<&Node>, context: Option<ContextBounds>) -> Option<Batch> {
        let Some(node) = node else { return Some(Batch { max: 1, wait_ms: 0 }) };
        let max = integer_or(node.get("max"), 1)?;
        let wait_ms = node.get("wait").map_or(Some(0), |wait| duration_ms(wait.text()?))?;
        if let (Some(context), Some(written)) = (context, node.get("max"))
            && max > context.max_events
        {
            let message = format!("a batch of {max} does not fit a context of {} events", context.max_events);
            let hint = "lower `subscribe.batch.max` or raise `context.maxEvents`";
            self.refuse(written.span, codes::BATCH_OVER_CONTEXT, message, hint);
        }
        Some(Batch { max, wait_ms })
    }

    fn runner(
        &mut self,
        root: &Node,
        id: Option<&ConsumerId>,
        subscription: Option<&Subscription>,
        prompt: Option<Arc<Content<String>>>,
    ) -> Option<Runner> {
        let node = root.get("runner")?;
        match node.get("kind")?.text()? {
            "deterministic" => {
                self.no_model_keys(root);
                self.transform(node, id)
            }
            "pi" => self.model(root, subscription, prompt).map(|model| Runner::Pi(Box::new(model))),
            _ => None,
        }
    }

    fn transform(&mut self, node: &Node, id: Option<&ConsumerId>) -> Option<Runner> {
        let written = node.get("transform");
        let name = written.map_or_else(|| id.map(ConsumerId::as_str), Node::text)?;
        if self.catalog.transforms.contains_key(name) {
            return Some(Runner::Deterministic { transform: name.to_owned() });
        }
        let span = written.or_else(|| node.get("kind")).map_or(node.span, |node| node.span);
        let known: Vec<&str> = self.catalog.transforms.keys().map(String::as_str).collect();
        let message = if written.is_some() {
            "no transform has this name".to_owned()
        } else {
            format!("no transform is called `{name}`, and the runner names none")
        };
        let problem = self
            .source
            .problem(span, codes::UNKNOWN_TRANSFORM, message)
            .with_suggestion(nearest(name, known.iter().copied()))
            .with_hint(format!("write `transform:` and one of: {}", known.join(", ")));
        self.problems.push(problem);
        None
    }

    fn emit(&mut self, node: &Node, runner: Option<&Runner>) -> Option<BTreeSet<TypeName>> {
        let transform = runner.and_then(Runner::transform);
        let info = transform.and_then(|transform| self.catalog.transforms.get(transform));
        let mut emit = BTreeSet::new();
        for item in node.items().iter().take(NAMES_MAX) {
            let Some(name) = item.text().and_then(|text| TypeName::parse(text).ok()) else { continue };
            if !self.catalog.types.contains_key(&name) {
                self.unknown_type(item.span, &TypePattern::Exact(name));
                continue;
            }
            if let (Some(transform), Some(info)) = (transform, info)
                && !info.emits.contains(&name)
            {
                let emits: Vec<&str> = info.emits.iter().map(TypeName::as_str).collect();
                let hint = format!("`{transform}` writes {}", emits.join(", "));
                self.refuse(item.span, codes::NOT_WRITTEN, "the transform does not write this type", &hint);
            }
            emit.insert(name);
        }
        (emit.len() == node.items().len()).then_some(emit)
    }

    /// Refuses subscribed types that the transform would fail on.
    fn types_are_read(&mut self, subscribe: &Node, runner: &Runner) {
        let Some(transform) = runner.transform() else { return };
        let Some(info) = self.catalog.transforms.get(transform) else { return };
        for item in subscribe.get("types").into_iter().flat_map(Node::items).take(NAMES_MAX) {
            let Some(pattern) = item.text().and_then(TypePattern::parse) else { continue };
            let taken = self.catalog.types.keys().filter(|name| pattern.takes(name));
            let unread: Vec<&str> =
                taken.filter(|name| !info.accepts.contains(*name)).map(TypeName::as_str).collect();
            if unread.is_empty() {
                continue;
            }
            let message = match pattern {
                TypePattern::Exact(_) => format!("`{transform}` does not read this type"),
                TypePattern::Family(_) => format!("`{transform}` does not read {}", unread.join(", ")),
            };
            let accepts: Vec<&str> = info.accepts.iter().map(TypeName::as_str).collect();
            self.refuse(item.span, codes::NOT_READ, message, &format!("it reads {}", accepts.join(", ")));
        }
    }

    /// Looks the prompt up; the inner nothing means that none is declared.
    #[expect(clippy::option_option, reason = "refused, not declared and found are three outcomes")]
    fn prompt(&mut self, node: Option<&Node>) -> Option<Option<(Prompt, Arc<Content<String>>)>> {
        let Some(node) = node else { return Some(None) };
        let path = node.text()?;
        if !super::keys::is_prompt_path(path) {
            return None;
        }
        let Some(bytes) = (self.prompts)(path) else {
            self.refuse(
                node.span,
                codes::MISSING_PROMPT,
                "there is no such prompt",
                "create the file, or correct its path",
            );
            return None;
        };
        let fault = if bytes.len() > PROMPT_BYTES_MAX {
            Some(format!("the prompt has {} bytes; at most {PROMPT_BYTES_MAX} are read", bytes.len()))
        } else if let Err(error) = std::str::from_utf8(&bytes) {
            Some(format!("the prompt is not UTF-8 after byte {}", error.valid_up_to()))
        } else if bytes.iter().all(u8::is_ascii_whitespace) {
            Some("the prompt is empty".to_owned())
        } else {
            None
        };
        if let Some(message) = fault {
            self.refuse(node.span, codes::BAD_PROMPT, message, "correct the prompt's file");
            return None;
        }
        let sha256 = Sha256Hash::of(&bytes);
        let text = Arc::new(Content::new(String::from_utf8(bytes).ok()?));
        Some(Some((Prompt { path: path.to_owned(), sha256 }, text)))
    }

    fn retry(&mut self, node: Option<&Node>) -> Option<RetryPolicy> {
        let default = RetryPolicy::default();
        let Some(node) = node else { return Some(default) };
        let wait =
            |key: &str, default: u64| node.get(key).map_or(Some(default), |wait| duration_ms(wait.text()?));
        let (first_ms, max_ms) = (wait("first", default.first_ms)?, wait("max", default.max_ms)?);
        if first_ms > max_ms {
            let place = node.get("first").or_else(|| node.get("max")).map_or(node.span, |wait| wait.span);
            let message = "the first wait is longer than the longest";
            self.refuse(place, codes::RETRY_WAITS, message, "lower `retry.first` or raise `retry.max`");
            return None;
        }
        let exhausted = match node.get("exhausted").map_or(Some("quarantine"), Node::text)? {
            "quarantine" => Exhausted::Quarantine,
            "advance" => Exhausted::Advance,
            "hold" => Exhausted::Hold,
            _ => return None,
        };
        Some(RetryPolicy {
            attempts: integer_or(node.get("attempts"), default.attempts)?,
            first_ms,
            max_ms,
            exhausted,
        })
    }

    /// Refuses executions side by side where each is one commit at its end: nothing would keep their claims in order.
    fn settles_in_turn(&mut self, subscribe: &Node) {
        let Some(concurrency) = subscribe.get("concurrency") else { return };
        if concurrency.integer().is_some_and(|concurrency| concurrency > 1) {
            let message = "`lifecycle: settled` runs one execution at a time";
            let hint = "leave `subscribe.concurrency` out, or write `lifecycle: two-commit`";
            self.refuse(concurrency.span, codes::SETTLED_SIDE_BY_SIDE, message, hint);
        }
    }

    fn version_change(
        &mut self,
        node: Option<&Node>,
        subscription: Option<&Subscription>,
    ) -> Option<VersionChange> {
        let Some(node) = node else { return Some(VersionChange::Preserve) };
        if let Some(word) = node.text() {
            return match word {
                "preserve" => Some(VersionChange::Preserve),
                "new" => Some(VersionChange::New),
                _ => None,
            };
        }
        let mut sources = BTreeSet::new();
        for item in node.get("replay")?.items().iter().take(NAMES_MAX) {
            let source = SourceId::parse(item.text()?).ok()?;
            if subscription.is_some_and(|subscription| !subscription.includes(&source)) {
                let message = "the subscription does not include this source";
                self.refuse(item.span, codes::REPLAY_SOURCE, message, "name a source of `subscribe`");
            }
            sources.insert(source);
        }
        Some(VersionChange::Replay(sources))
    }

    fn no_loop(
        &mut self,
        id: &ConsumerId,
        subscription: &Subscription,
        emit: Option<&Node>,
        runner: Option<&Runner>,
        subscribe: &Node,
    ) {
        let emitted = emit.into_iter().flat_map(Node::items).filter_map(Node::text);
        let emitted: Vec<TypeName> = emitted.filter_map(|text| TypeName::parse(text).ok()).collect();
        let Some(found) = loops::find(id, subscription, &emitted, runner) else { return };
        let place = subscribe.get("types").into_iter().flat_map(Node::items).find(|item| {
            item.text().and_then(TypePattern::parse).is_some_and(|pattern| pattern.takes(&found.name))
        });
        let place = place.map_or(subscribe.span, |item| item.span);
        self.refuse(place, codes::LOOP, found.message(), found.hint());
    }
}

/// Reads a list whose every item must be readable.
fn every<T: Ord>(list: &Node, read: impl Fn(&Node) -> Option<T>) -> Option<BTreeSet<T>> {
    list.items().iter().map(read).collect()
}

fn class(node: &Node) -> Option<Privacy> {
    Privacy::parse(node.text()?)
}

fn integer_or(node: Option<&Node>, default: u32) -> Option<u32> {
    node.map_or(Some(default), |node| u32::try_from(node.integer()?).ok())
}

fn context(node: Option<&Node>) -> Option<ContextBounds> {
    let Some(node) = node else { return Some(ContextBounds::default()) };
    let max_events = integer_or(Some(node.get("maxEvents")?), 0)?;
    let max_chars = integer_or(Some(node.get("maxChars")?), 0)?;
    Some(ContextBounds { max_events, max_chars })
}

fn interrupted(node: Option<&Node>) -> Option<Interrupted> {
    let Some(node) = node else { return Some(Interrupted::default()) };
    let record = match node.get("record").map_or(Some("status-unknown"), Node::text)? {
        "status-unknown" => InterruptedRecord::StatusUnknown,
        "abandoned" => InterruptedRecord::Abandoned,
        _ => return None,
    };
    let then = match node.get("then").map_or(Some("retry"), Node::text)? {
        "retry" => InterruptedThen::Retry,
        "hold" => InterruptedThen::Hold,
        "advance" => InterruptedThen::Advance,
        _ => return None,
    };
    Some(Interrupted { record, then })
}

fn lifecycle(node: Option<&Node>) -> Option<LifecycleMode> {
    match node.map_or(Some("two-commit"), Node::text)? {
        "two-commit" => Some(LifecycleMode::TwoCommit),
        "settled" => Some(LifecycleMode::Settled),
        _ => None,
    }
}

/// Returns the families that a type lies in, as they are written.
fn families(name: &TypeName) -> Vec<String> {
    name.as_str().match_indices('.').map(|(at, _)| format!("{}.*", &name.as_str()[..at])).collect()
}
