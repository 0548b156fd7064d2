//! What those outside of the log saw: a provider who was asked, a chat that messages arrived in, a person who decided, a
//! file that was written. Each counts for itself, and the log is held against it.

use std::collections::BTreeMap;

use thoughtstream_domain::accounting::{Amounts, Charge};
use thoughtstream_domain::dispatch;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::feedback;
use thoughtstream_domain::id::{EventId, ExecutionId, RunId, SourceId};
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::activation::{ActivationBegun, ActivationStepped, Step};
use thoughtstream_domain::payload::delivery::{
    DeliveryBinding, DeliveryClaimed, DeliveryDelivered, DeliveryFailed, DeliveryUnconfirmed,
};
use thoughtstream_domain::payload::judgment::TrainingExample;
use thoughtstream_domain::payload::materialization::{
    MaterializationBinding, MaterializationFailed, MaterializationStarted, Materialized,
};
use thoughtstream_domain::payload::output::MessageObservation;
use thoughtstream_domain::payload::proposal::{
    Decidable, Disposition, MemoryChangeProposed, ProposalDecision, Proposed,
};
use thoughtstream_domain::payload::run::{
    RunAbandoned, RunCompleted, RunFailed, RunReceived, RunStarted, RunStatusUnknown,
};
use thoughtstream_domain::payload::telegram::{TelegramMessage, TelegramReaction, UpdateId, update_key};
use thoughtstream_domain::proposal::project::CRITERION;
use thoughtstream_store::Reader;

use super::oracle::check_whole;

/// Is what was seen outside of the log. What people wrote, and what the model answered, is told apart by its text: no
/// text stands for two.
#[derive(Debug, Clone, Default)]
pub struct Witness {
    /// The bot's source.
    pub bot: Option<SourceId>,
    /// The updates that Telegram handed out, with the text of each.
    pub updates: BTreeMap<i64, String>,
    /// What the user said last in each request that reached the provider.
    pub requests: Vec<String>,
    /// What one request is reserved at, and charged as long as nobody says what it cost.
    pub estimate: Option<Amounts>,
    /// The messages of the bot that arrived, each under its number in the chat.
    pub arrived: BTreeMap<i64, String>,
    /// What a person was told that they have decided.
    pub decided: BTreeMap<EventId, Disposition>,
    /// The memory document: how it was at first, what was written into it by hand, how it is now.
    pub memory: [String; 3],
}

/// Reads the events of one type.
fn all<P: TypedPayload>(events: &[Event]) -> Vec<(&Event, P)> {
    let read = |event: &Event| event.payload_as::<P>().ok();
    events
        .iter()
        .filter(|event| event.kind == P::kind())
        .filter_map(|event| Some((event, read(event)?)))
        .collect()
}

/// Counts how often each stands there.
fn counted<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}

impl Witness {
    /// Holds a log that is quiet against what was seen.
    ///
    /// # Panics
    /// If anything was lost, done twice, charged for less than it cost, or received without having been begun.
    pub fn check(&self, reader: &Reader, context: &str) {
        let events = check_whole(reader, context);
        let log = Seen { witness: self, reader, events: &events, context };
        log.check_updates();
        log.check_runs();
        log.check_requests();
        log.check_deliveries();
        log.check_decisions();
        log.check_materializations();
        log.check_activations();
    }
}

struct Seen<'a> {
    witness: &'a Witness,
    reader: &'a Reader,
    events: &'a [Event],
    context: &'a str,
}

impl Seen<'_> {
    /// Each update is there once, and nothing else came from the bot.
    fn check_updates(&self) {
        let context = self.context;
        let there = self.events.iter().filter(|event| Some(&event.source) == self.witness.bot.as_ref());
        let there = counted(there.map(|event| event.key.clone()));
        let told = self.witness.updates.keys().map(|number| update_key(UpdateId::new(*number)));
        assert_eq!(there, counted(told), "{context}: not each update is in the log once");
    }

    /// Returns the message that each execution answers.
    fn messages(&self) -> BTreeMap<ExecutionId, EventId> {
        let received = all::<RunReceived>(self.events).into_iter();
        received.filter_map(|(_, run)| Some((run.stamp.execution, run.triggers.first()?.id))).collect()
    }

    /// Each message is answered by one completed run, and what that run names is there and named by it alone.
    fn check_runs(&self) {
        let context = self.context;
        let messages = self.messages();
        let started: BTreeMap<RunId, u64> = all::<RunStarted>(self.events)
            .into_iter()
            .map(|(event, run)| (run.stamp.run, event.position))
            .collect();
        let completed = all::<RunCompleted>(self.events);
        for (event, run) in &completed {
            let began = started.get(&run.stamp.run);
            assert!(
                began.is_some_and(|began| *began < event.position),
                "{context}: {} was not begun",
                run.stamp.run
            );
        }
        let answered = completed.iter().filter_map(|(_, run)| messages.get(&run.stamp.execution));
        let written = all::<TelegramMessage>(self.events).into_iter().map(|(event, _)| &event.id);
        assert_eq!(counted(answered), counted(written), "{context}: not each message was answered once");
        let named = completed.iter().flat_map(|(_, run)| run.outputs.iter().chain(&run.proposals).copied());
        let made = self.events.iter().filter(|event| {
            event.kind == MessageObservation::kind() || Proposed::kind_of(&event.kind).is_some()
        });
        let made = made.map(|event| event.id);
        assert_eq!(counted(named), counted(made), "{context}: not each output is of one completed run");
    }

    /// An attempt asks once at most, and what was asked is charged for.
    fn check_requests(&self) {
        let context = self.context;
        let texts: BTreeMap<EventId, String> = all::<TelegramMessage>(self.events)
            .into_iter()
            .map(|(event, message)| (event.id, message.text.reveal().to_owned()))
            .collect();
        let messages = self.messages();
        let text = |execution: &ExecutionId| messages.get(execution).and_then(|id| texts.get(id)).cloned();
        let attempts =
            counted(all::<RunStarted>(self.events).iter().filter_map(|(_, run)| text(&run.stamp.execution)));
        let mut charged: BTreeMap<String, [u64; 3]> = BTreeMap::new();
        for (execution, charge) in self.charges() {
            let Amounts { calls, input_tokens, output_tokens, .. } = charge.amounts;
            let sums = charged.entry(text(&execution).unwrap_or_default()).or_default();
            for (sum, amount) in sums.iter_mut().zip([calls, input_tokens, output_tokens]) {
                *sum += amount;
            }
        }
        let estimate = self
            .witness
            .estimate
            .map_or([1, 0, 0], |estimate| [estimate.calls, estimate.input_tokens, estimate.output_tokens]);
        for (text, requests) in counted(self.witness.requests.iter().cloned()) {
            let begun = attempts.get(&text).copied().unwrap_or_default();
            assert!(requests <= begun, "{context}: {requests} requests in {begun} attempts: {text}");
            let paid = charged.get(&text).copied().unwrap_or_default();
            let owed = estimate.map(|amount| amount * requests as u64);
            let whole = paid.iter().zip(owed).all(|(paid, owed)| *paid >= owed);
            assert!(whole, "{context}: {paid:?} was charged for {owed:?}: {text}");
        }
    }

    fn charges(&self) -> Vec<(ExecutionId, Charge)> {
        let mut found: Vec<(ExecutionId, Option<Charge>)> = Vec::new();
        found.extend(
            all::<RunCompleted>(self.events).into_iter().map(|(_, run)| (run.stamp.execution, run.charge)),
        );
        found.extend(
            all::<RunFailed>(self.events).into_iter().map(|(_, run)| (run.stamp.execution, run.charge)),
        );
        found.extend(
            all::<RunStatusUnknown>(self.events)
                .into_iter()
                .map(|(_, run)| (run.stamp.execution, run.charge)),
        );
        found.extend(
            all::<RunAbandoned>(self.events).into_iter().map(|(_, run)| (run.stamp.execution, run.charge)),
        );
        found.into_iter().filter_map(|(execution, charge)| Some((execution, charge?))).collect()
    }

    /// Each output arrived once, and the log knows it: one end of each claim, one receipt of each delivery.
    fn check_deliveries(&self) {
        let context = self.context;
        let claim = |binding: &DeliveryBinding| (binding.delivery, binding.claim);
        let claims: Vec<_> = all::<DeliveryClaimed>(self.events)
            .into_iter()
            .map(|(event, it)| (claim(&it.binding), event.position))
            .collect();
        let delivered = all::<DeliveryDelivered>(self.events);
        let mut ends: Vec<_> =
            delivered.iter().map(|(event, it)| (claim(&it.binding), event.position)).collect();
        ends.extend(
            all::<DeliveryFailed>(self.events)
                .into_iter()
                .map(|(event, it)| (claim(&it.binding), event.position)),
        );
        ends.extend(
            all::<DeliveryUnconfirmed>(self.events)
                .into_iter()
                .map(|(event, it)| (claim(&it.binding), event.position)),
        );
        let begun: BTreeMap<_, u64> = claims.iter().copied().collect();
        for (claim, at) in &ends {
            assert!(begun.get(claim).is_some_and(|begun| begun < at), "{context}: {claim:?} was not claimed");
        }
        // A person's word about an unconfirmed delivery is a receipt beside the end that its claim has.
        let open: Vec<_> = begun.keys().filter(|claim| !ends.iter().any(|(end, _)| end == *claim)).collect();
        assert!(open.is_empty(), "{context}: {open:?} did not end");
        let outputs = all::<MessageObservation>(self.events);
        let receipts = counted(delivered.iter().map(|(_, it)| it.binding.output));
        assert_eq!(
            receipts,
            counted(outputs.iter().map(|(event, _)| event.id)),
            "{context}: not one receipt each"
        );
        let arrived = counted(self.witness.arrived.values().cloned());
        let said = outputs.iter().map(|(event, _)| dispatch::text(event).expect("it can be sent"));
        assert_eq!(arrived, counted(said), "{context}: not each output arrived once");
        for (_, receipt) in &delivered {
            let Some(message) = receipt.message else { continue };
            let output =
                self.reader.event(&receipt.binding.output).expect("the log is read").expect("it is there");
            let there = self.witness.arrived.get(&message.get());
            assert_eq!(
                there,
                dispatch::text(&output).ok().as_ref(),
                "{context}: a receipt names another message"
            );
        }
    }

    /// Each proposal is decided once at most, as the person was told; a correction becomes one judgment, as a thumb does.
    fn check_decisions(&self) {
        let context = self.context;
        let made = all::<ProposalDecision>(self.events);
        for (proposal, count) in counted(made.iter().map(|(_, decision)| decision.proposal)) {
            assert_eq!(count, 1, "{context}: {proposal} was decided {count} times");
        }
        let standing: BTreeMap<EventId, &Disposition> =
            made.iter().map(|(_, decision)| (decision.proposal, &decision.disposition)).collect();
        for (proposal, told) in &self.witness.decided {
            assert_eq!(standing.get(proposal), Some(&told), "{context}: what was decided about {proposal}");
        }
        let thumbs = all::<TelegramReaction>(self.events).into_iter().map(|(event, _)| event.id);
        let judgments = all::<TrainingExample>(self.events);
        let by_thumb =
            judgments.iter().filter(|(_, example)| example.criterion_version == feedback::CRITERION);
        let by_thumb = by_thumb.filter_map(|(_, example)| example.feedback);
        assert_eq!(counted(by_thumb), counted(thumbs), "{context}: not each thumb is one judgment");
        let judged =
            judgments.into_iter().filter(|(_, example)| example.criterion.as_deref() == Some(CRITERION));
        let judged = judged.filter_map(|(_, example)| example.feedback);
        let corrections = made.iter().filter(|(_, decision)| {
            decision.kind == Decidable::SelfCorrection && decision.disposition != Disposition::Reject
        });
        let corrections = corrections.map(|(event, _)| event.id);
        assert_eq!(
            counted(judged),
            counted(corrections),
            "{context}: not each correction was projected once"
        );
    }

    /// Each accepted change was made once or failed, and the document holds what the receipts say and nothing else.
    fn check_materializations(&self) {
        let context = self.context;
        let place = |binding: &MaterializationBinding| (binding.proposal, binding.attempt);
        let begun: BTreeMap<_, MaterializationStarted> = all::<MaterializationStarted>(self.events)
            .into_iter()
            .map(|(_, it)| (place(&it.binding), it))
            .collect();
        let made = all::<Materialized>(self.events);
        for (_, receipt) in &made {
            let announced = begun.get(&place(&receipt.binding)).map(|it| it.result_sha256);
            assert_eq!(announced, Some(receipt.result.sha256), "{context}: a receipt of what was not begun");
        }
        let failed = all::<MaterializationFailed>(self.events);
        let ends = made
            .iter()
            .map(|(_, it)| it.binding.proposal)
            .chain(failed.iter().map(|(_, it)| it.binding.proposal));
        let changes: BTreeMap<EventId, MemoryChangeProposed> =
            all::<MemoryChangeProposed>(self.events).into_iter().map(|(event, it)| (event.id, it)).collect();
        let decided = all::<ProposalDecision>(self.events);
        let accepted = decided.iter().filter(|(_, decision)| {
            decision.kind == Decidable::MemoryChange && decision.disposition != Disposition::Reject
        });
        let accepted: BTreeMap<EventId, String> = accepted
            .map(|(_, decision)| match &decision.disposition {
                Disposition::Edit { replacement } => (decision.proposal, replacement.reveal().to_owned()),
                Disposition::Accept | Disposition::Reject => {
                    (decision.proposal, changes[&decision.proposal].proposed_text.reveal().to_owned())
                }
            })
            .collect();
        assert_eq!(
            counted(ends),
            counted(accepted.keys().copied()),
            "{context}: not each change came to one end"
        );
        let [base, by_hand, now] = &self.witness.memory;
        let written = made.iter().map(|(_, it)| accepted[&it.binding.proposal].as_str());
        let expected = base.lines().chain(by_hand.lines()).chain(written);
        assert_eq!(
            counted(now.lines()),
            counted(expected),
            "{context}: the document is not what the receipts say"
        );
    }

    /// Each activation did each of its steps once, in order.
    fn check_activations(&self) {
        let context = self.context;
        let stepped = all::<ActivationStepped>(self.events);
        for (_, begun) in all::<ActivationBegun>(self.events) {
            let ours =
                |step: &ActivationStepped| step.consumer == begun.consumer && step.number == begun.number;
            let steps: Vec<Step> =
                stepped.iter().filter(|(_, step)| ours(step)).map(|(_, step)| step.step).collect();
            assert_eq!(steps, Step::ALL, "{context}: activation {} of {}", begun.number, begun.consumer);
        }
    }
}
