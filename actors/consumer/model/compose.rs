//! What a model will see: the stored packet of an earlier attempt, or a new one from the log.

use std::collections::BTreeSet;

use thoughtstream_domain::contract::Mode;
use thoughtstream_domain::conversation::compose::{ComposeError, Trusted, conversation};
use thoughtstream_domain::conversation::proposing::Proposing;
use thoughtstream_domain::conversation::reconstruct::Current;
use thoughtstream_domain::conversation::select::Policy;
use thoughtstream_domain::declaration::{ContextStrategy, Conversation, DocumentRecipe};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::lifecycle::{AdapterRevision, Execution};
use thoughtstream_domain::packet::documents::{ResolveError, Subscribed, Subscription, resolve};
use thoughtstream_domain::packet::observe::{Instructions, observation};
use thoughtstream_domain::packet::repair::repair;
use thoughtstream_domain::packet::{
    Asking, Capabilities, Composed, ContractRevision, ImageArtifact, Packet, Runtime, Subject, TooLarge,
};
use thoughtstream_domain::payload::repair::RepairRequested;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::provider::{Profile, ResponseFormat};
use thoughtstream_domain::repair::AgentRole;
use thoughtstream_domain::slash;
use thoughtstream_store::{RowError, SnapshotError};

use super::super::attempt::{Attempt, Ended};
use super::super::lanes::name;
use super::{ModelWork, NO_BROKER, Prepared};
use crate::runner::{RunFailure, any_erased};

/// How many events before its triggers are looked at for those that an observer asks for.
const NEIGHBORHOOD: u64 = 256;

/// Says why nothing was composed.
enum Stopped {
    /// The run is closed over it.
    Failure(RunFailure),
    /// The log cannot be read.
    Unreadable(RowError),
}

impl Stopped {
    const fn of_input(code: &'static str) -> Self {
        Self::Failure(RunFailure::of_input(code))
    }

    const fn of_surroundings(code: &'static str) -> Self {
        Self::Failure(RunFailure::of_surroundings(code))
    }
}

impl From<RowError> for Stopped {
    fn from(error: RowError) -> Self {
        Self::Unreadable(error)
    }
}

impl Attempt {
    /// Finds or composes the packet of an execution; blocking.
    pub(super) fn prepare(
        &self,
        work: &ModelWork,
        execution: &Execution,
        events: Vec<Event>,
    ) -> Result<Prepared, Ended> {
        match self.packet(work, execution, events) {
            Ok(prepared) => Ok(prepared),
            Err(Stopped::Failure(failure)) => Ok(Prepared::Refused(failure)),
            // Nothing can be asked about this event as long as what belongs to it is damaged; about others, it can.
            Err(Stopped::Unreadable(error @ RowError::Damaged { .. })) => {
                name(&self.status, &error);
                Ok(Prepared::Refused(RunFailure::of_damage()))
            }
            Err(Stopped::Unreadable(error)) => Err(error.into()),
        }
    }

    fn packet(
        &self,
        work: &ModelWork,
        execution: &Execution,
        events: Vec<Event>,
    ) -> Result<Prepared, Stopped> {
        match self.reader.packet(&execution.consumer, &execution.id) {
            Ok(Some(packet)) => {
                return Ok(Prepared::Sealed {
                    packet: Box::new(packet),
                    rows: Vec::new(),
                    precondition: None,
                });
            }
            Ok(None) => {}
            Err(SnapshotError::Row(error)) => return Err(error.into()),
            Err(SnapshotError::Packet(_) | SnapshotError::Incomplete(_)) => {
                return Err(Stopped::of_surroundings("context-snapshot-damaged"));
            }
        }
        if any_erased(&events) {
            return Err(Stopped::Failure(RunFailure::of_erased()));
        }
        if let Some(answer) = work.fixed(&events) {
            return Ok(Prepared::Fixed(answer));
        }
        let broker = work.broker().ok_or(Stopped::of_surroundings(NO_BROKER))?;
        let profile = broker.profile();
        let capabilities =
            Capabilities { privacy: execution.privacy, tools: Vec::new(), external_actions: false };
        let (composed, images) = match &work.runner.strategy {
            ContextStrategy::TriggerEvents { .. } if work.runner.role == AgentRole::Repair => {
                (self.again(work, &events, &capabilities)?, Vec::new())
            }
            ContextStrategy::TriggerEvents { neighbors } => {
                let neighbors = self.neighbors(&events, *neighbors)?;
                (self.observe(work, &events, &neighbors, &capabilities)?, Vec::new())
            }
            ContextStrategy::Conversation(recipe) => {
                self.converse_about(work, recipe, &events, &capabilities, profile)?
            }
        };
        let subject = Subject {
            consumer: execution.consumer.clone(),
            fingerprint: execution.fingerprint,
            triggers: execution.triggers.iter().map(|trigger| trigger.id).collect(),
            prompt: Some(work.prompt.clone()),
            contract: ContractRevision { name: work.contract.kind().clone(), sha256: *work.contract.hash() },
            runtime: Runtime {
                profile: work.runner.provider.clone(),
                model: work.runner.model.clone(),
                execution_adapter_revision: AdapterRevision::observer_cell().to_string(),
                model_adapter: None,
            },
            capabilities,
            images,
        };
        let packet = Packet::seal(subject, work.asking(profile), composed);
        let packet = packet.map_err(|_| Stopped::of_input("context-not-sealed"))?;
        let (rows, precondition) = (packet.rows(), Some(packet.precondition()));
        Ok(Prepared::Sealed { packet: Box::new(packet), rows, precondition })
    }

    fn observe(
        &self,
        work: &ModelWork,
        events: &[Event],
        neighbors: &[Event],
        capabilities: &Capabilities,
    ) -> Result<Composed, Stopped> {
        let mut observed = Vec::new();
        for event in events {
            observed.push(self.reader.observed(event).map_err(|error| match error.code() {
                Ok(code) => Stopped::of_input(code),
                Err(error) => Stopped::Unreadable(error),
            })?);
        }
        let answer = work.answer();
        observation(&observed, neighbors, &work.told(capabilities, &answer))
            .map_err(|error| Stopped::of_input(error.code()))
    }

    /// Finds the events that would have triggered this consumer just before these did, the newest first.
    fn neighbors(&self, events: &[Event], count: u32) -> Result<Vec<Event>, Stopped> {
        let (Some(first), count) = (events.first(), usize_of(count)) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let from = first.sequence.saturating_sub(NEIGHBORHOOD).max(1);
        for sequence in (from..first.sequence).rev() {
            if found.len() == count {
                break;
            }
            let event = self.reader.event_in(&first.source, sequence)?;
            found.extend(event.filter(|event| self.spec.subscription().matches(event)));
        }
        Ok(found)
    }

    /// Composes what a repair run sees: the context of the failed run, and the verdict.
    fn again(
        &self,
        work: &ModelWork,
        events: &[Event],
        capabilities: &Capabilities,
    ) -> Result<Composed, Stopped> {
        let [event] = events else { return Err(Stopped::of_input("repair-of-several")) };
        let asked: RepairRequested =
            event.payload_as().map_err(|_| Stopped::of_input("trigger-unreadable"))?;
        let failed = match self.reader.packet(&asked.stamp.consumer, &asked.stamp.execution) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Err(Stopped::of_input("repair-context-missing")),
            Err(SnapshotError::Row(error)) => return Err(error.into()),
            Err(SnapshotError::Packet(_) | SnapshotError::Incomplete(_)) => {
                return Err(Stopped::of_input("repair-context-damaged"));
            }
        };
        let answer = work.answer();
        let composed = repair(&failed, event, &asked, &work.told(capabilities, &answer));
        composed.map_err(|error| Stopped::of_input(error.code()))
    }

    fn converse_about(
        &self,
        work: &ModelWork,
        recipe: &Conversation,
        events: &[Event],
        capabilities: &Capabilities,
        profile: &Profile,
    ) -> Result<(Composed, Vec<ImageArtifact>), Stopped> {
        let [event] = events else { return Err(Stopped::of_input("conversation-of-several")) };
        let current = Current::of(event).map_err(|_| Stopped::of_input("trigger-unreadable"))?;
        let documents = match &recipe.documents {
            Some(documents) => self.documents(documents)?,
            None => Subscribed::default(),
        };
        let own = std::iter::once(&self.spec.key.id);
        let policy = Policy {
            agents: own.chain(&recipe.history_agents).cloned().collect::<BTreeSet<_>>(),
            max_events: usize_of(work.context.max_events),
            max_chars: usize_of(work.context.max_chars),
            assistant_max_turns: recipe.assistant_history_max.map(usize_of),
        };
        let proposing = work.proposing(&current);
        let trusted = Trusted {
            prompt: work.runner.prompt.reveal(),
            capabilities,
            answer: &work.answer(),
            documents: &documents,
            takes_images: profile.image_models.contains(&work.runner.model),
            proposals: proposing.as_ref(),
        };
        let evidence = self.reader.chat_before(&event.source, &current);
        let composed = conversation(&current, evidence, &policy, &trusted).map_err(|error| match error {
            ComposeError::Evidence(error) => Stopped::Unreadable(error),
            ComposeError::TooLarge(_) => Stopped::of_input(TooLarge::CODE),
        })?;
        Ok((composed, current.images))
    }

    fn documents(&self, recipe: &DocumentRecipe) -> Result<Subscribed, Stopped> {
        let subscriptions: Result<Vec<_>, _> = recipe
            .from
            .iter()
            .map(|one| Subscription::new(one.source.clone(), one.paths.clone(), one.required))
            .collect();
        let subscriptions = subscriptions.map_err(|_| Stopped::of_input("document-subscription-invalid"))?;
        let resolved = resolve(&mut &self.reader, &subscriptions, usize_of(recipe.max_chars));
        resolved.map_err(|error| match error {
            ResolveError::Library(error) => Stopped::Unreadable(error),
            // A file may come back or be mended; the message waits for it.
            ResolveError::Fault(fault) => Stopped::of_surroundings(fault.code()),
        })
    }
}

impl ModelWork {
    /// Returns what may be proposed in answer to a message; none if the declaration lets nothing be.
    fn proposing(&self, current: &Current) -> Option<Proposing> {
        let kinds = &self.runner.proposals;
        let focus_required = kinds.contains(&Kind::FocusDeclaration)
            && slash::describes_focus(current.text.reveal(), self.username(&current.bot));
        (!kinds.is_empty()).then(|| Proposing { kinds: kinds.clone(), focus_required })
    }

    /// Returns what the answer must be, in words; nothing where any text will do.
    fn answer(&self) -> String {
        match self.runner.mode {
            Mode::ConversationText => String::new(),
            Mode::StrictJson => format!(
                "Answer with exactly one JSON object and nothing before or after it: no prose, no code fence. It is \
                 held against this JSON Schema, and unknown members are refused: {}",
                self.contract.schema()
            ),
        }
    }

    fn told<'a>(&'a self, capabilities: &'a Capabilities, answer: &'a str) -> Instructions<'a> {
        Instructions {
            prompt: self.runner.prompt.reveal(),
            capabilities,
            answer,
            max_events: usize_of(self.context.max_events),
            max_chars: usize_of(self.context.max_chars),
        }
    }

    fn asking(&self, profile: &Profile) -> Asking {
        let response = match self.runner.mode {
            Mode::ConversationText => ResponseFormat::Text,
            Mode::StrictJson if profile.enforces_json_schema => ResponseFormat::JsonSchema {
                name: "observation".to_owned(),
                schema: self.contract.schema().clone(),
            },
            Mode::StrictJson if profile.enforces_json_object => ResponseFormat::JsonObject,
            Mode::StrictJson => ResponseFormat::Text,
        };
        Asking {
            max_output_tokens: u32::try_from(self.runner.max_output_tokens).unwrap_or(u32::MAX),
            thinking: self.runner.thinking,
            response,
            stream: self.runner.stream || profile.stream,
        }
    }
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
